"""vcluster-setup: directories, addresses and scripts for several nodes on this machine (doc/reference/tools.md 14)."""

from __future__ import annotations

import optparse
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ganeti import _autoconf, constants, errors, pathutils, runtime
from ganeti.tools import common

MAX_NODES, MAX_INSTANCES = 90, 155
_CLUSTER, _FIRST_NODE, _FIRST_INSTANCE = 1, 10, 100
_FOLDERS = (
    "etc/default",
    "etc/ganeti",
    "var/lock",
    "var/lib/ganeti",
    "var/log/ganeti",
    "var/run/ganeti",
)
_HOSTS_LIMIT = 1 << 20
_TIMEOUT = 60
_SPECS = "memory-size=0,disk-size=0,disk-count=0,cpu-count=0,nic-count=0,spindle-use=0"

_CMD = """#!/bin/sh
# Runs its arguments as {name}.
GANETI_ROOTDIR={root}
GANETI_HOSTNAME={name}
PATH="$PATH:{sbin}:{pkglib}"
export GANETI_ROOTDIR GANETI_HOSTNAME PATH
exec "$@"
"""
# One program for all nodes.  The first pass of a start is for the node daemons: the master daemon waits for those of others.
_ALL = """#!/bin/sh
# {purpose}; nodes that are in no cluster are left alone.
code=0
{passes}exit $code
"""
_LOOP = """for node in {nodes}; do
  "$node/cmd" {check} 2>/dev/null || continue
  {action} || code=1
done
"""


@dataclass
class Plan:
    """What was asked for; paths and addresses follow from it."""

    directory: str
    nodes: int
    instances: int
    prefix: str
    device: str
    init: str | None

    def Address(self, number: int) -> str:
        return f"{self.prefix}.{number}"

    def Names(self) -> dict[str, str]:
        """Return the address of each name."""
        found = {"cluster": self.Address(_CLUSTER), **self.NodeAddresses()}
        found.update({f"instance{n + 1}": self.Address(_FIRST_INSTANCE + n) for n in range(self.instances)})
        return found

    def NodeAddresses(self) -> dict[str, str]:
        return {f"node{n + 1}": self.Address(_FIRST_NODE + n) for n in range(self.nodes)}

    def Root(self, node: str) -> str:
        return os.path.join(self.directory, node)

    def NeedsAddresses(self) -> bool:
        """Return whether the machine has not every one of them already, as it has those of its loopback device."""
        return not self.prefix.startswith("127.")


def BuildAddresses(plan: Plan) -> list[list[str]]:
    """Return the commands that give the device the nodes' addresses, again and again without a difference."""
    commands = [["ip", "address", "replace", f"{ip}/32", "dev", plan.device] for ip in plan.NodeAddresses().values()]
    return [*commands, ["ip", "route", "replace", f"{plan.prefix}.0/24", "dev", plan.device]]


def HostsText(plan: Plan, text: str) -> str:
    """Return a hosts file in which the cluster's names are the only ones with its prefix."""
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith(f"{plan.prefix}.")]
    if kept and not kept[-1].endswith("\n"):
        kept.append("\n")
    return "".join(kept) + "".join(f"{ip} {name}\n" for name, ip in plan.Names().items())


def Scripts(plan: Plan) -> Mapping[str, str]:
    """Return the text of each program for all nodes."""

    def make(purpose: str, *passes: tuple[str, str]) -> str:
        nodes = " ".join(runtime.ShellQuote(plan.Root(node)) for node in plan.NodeAddresses())
        text = "".join(_LOOP.format(nodes=nodes, check=check, action=action) for check, action in passes)
        return _ALL.format(purpose=purpose, passes=text)

    joined = "daemon-util check-config"
    own = None if plan.init is None else runtime.ShellQuote(plan.init)

    def verb(name: str) -> tuple[str, str]:
        return (joined, f'"$node/cmd" {own} {name}' if own else f'"$node/cmd" daemon-util {name}-all')

    nodes_first = (joined, '"$node/cmd" daemon-util start ganeti-noded')
    status = (
        'echo "$node:"; for daemon in $("$node/cmd" daemon-util list-start-daemons); do'
        ' if "$node/cmd" daemon-util check "$daemon"; then echo "  $daemon runs"; else echo "  $daemon does not run"; fi; done'
    )
    return {
        "start-all": make("Starts the daemons", nodes_first, verb("start")),
        "stop-all": make("Stops the daemons", verb("stop")),
        "restart-all": make("Stops the daemons and starts them again", verb("stop"), nodes_first, verb("start")),
        "status-all": make("Shows which daemons run", verb("status") if own else (joined, status)),
        "watcher-all": make("Runs the watcher", (joined, '"$node/cmd" ganeti-watcher')),
    }


def InitCommand(plan: Plan) -> list[str]:
    """Return an example of how to make the cluster."""
    return [
        f"{plan.Root('node1')}/cmd",
        "gnt-cluster",
        "init",
        "--no-etc-hosts",
        "--no-ssh-init",
        "--master-netdev=lo",
        "--enabled-disk-templates=diskless",
        "--enabled-hypervisors=fake",
        f"--ipolicy-bounds-specs=min:{_SPECS}/max:memory-size=32768,disk-size=1048576,disk-count=16,cpu-count=8,"
        "nic-count=8,spindle-use=12",
        "cluster",
    ]


# --- the work -----------------------------------------------------------------------------------------------------------


def _Run(argv: list[str], what: str, env: Mapping[str, str] | None = None) -> None:
    result = runtime.RunCmd(argv, env=env, timeout=_TIMEOUT)
    if result.failed:
        raise errors.OpExecError(f"Could not {what}: {result.fail_reason}; output: {result.output.strip() or '(none)'}")


def _MakeNode(plan: Plan, name: str, address: str) -> None:
    root = plan.Root(name)
    for folder in _FOLDERS:
        runtime.MakeDirs(os.path.join(root, folder), 0o755)
    defaults = f'NODED_ARGS="-b {address} --no-mlock"\nRAPI_ARGS="-b {address}"\nCONFD_ARGS="-b {address}"\n'
    _Write(os.path.join(root, "etc/default/ganeti"), defaults, 0o644)
    quoted = runtime.ShellQuote(root)
    text = _CMD.format(name=name, root=quoted, sbin=_autoconf.SBIN_DIR, pkglib=pathutils.PKGLIB_DIR)
    _Write(os.path.join(root, "cmd"), text, 0o755)
    env = {**runtime.Environment(), "GANETI_ROOTDIR": root, "GANETI_HOSTNAME": name}
    _Run([pathutils.ENSURE_DIRS], f"make the directories of {name}", env)


def _Write(path: str, text: str, mode: int) -> None:
    runtime.WriteFile(path, text, mode=mode, sync=False)


def SetUp(plan: Plan, hosts_file: bool, addresses: bool) -> None:
    """Make everything; what is there is made anew, and the nodes' own files are left alone."""
    for name, address in plan.NodeAddresses().items():
        _MakeNode(plan, name, address)
    if hosts_file:
        path = os.path.join(plan.directory, "hosts")
        before = runtime.ReadText(path, _HOSTS_LIMIT) if runtime.Exists(path) else ""
        _Write(path, HostsText(plan, before), 0o644)
    for name, text in Scripts(plan).items():
        _Write(os.path.join(plan.directory, name), text, 0o755)
    if not plan.NeedsAddresses():
        return
    if addresses:
        for argv in BuildAddresses(plan):
            _Run(argv, f"run '{' '.join(argv)}'")
    else:
        ends = list(plan.NodeAddresses().values())
        sys.stderr.write(f"Give this machine the nodes' addresses, {ends[0]} to {ends[-1]}, before you start daemons\n")


def _Show(plan: Plan) -> None:
    first, second = f"{plan.Root('node1')}/cmd", f"{plan.Root('node2')}/cmd"
    sys.stdout.write(
        f"Virtual cluster setup is complete.\n\nMake a cluster of its first node:\n\n  {' '.join(InitCommand(plan))}\n"
    )
    if plan.nodes > 1:
        sys.stdout.write(
            "\nAdd the others one by one:\n\n"
            f"  {first} gnt-node show-join-data node2 | {second} {pathutils.PKGLIB_DIR}/node-daemon-setup\n"
            f"  {first} gnt-node add --no-node-setup node2\n"
        )


def _Checked(options: optparse.Values, directory: str) -> Plan:
    """Return what the command line asks for; raises OpPrereqError."""
    for count, most, what in ((options.nodes, MAX_NODES, "nodes"), (options.instances, MAX_INSTANCES, "instances")):
        if not (1 if what == "nodes" else 0) <= count <= most:
            raise errors.OpPrereqError(f"{count} {what} are not possible, {most} are the most", errors.ECODE_INVAL)
    parts = options.prefix.split(".")
    if len(parts) != 3 or not all(re.fullmatch(r"0|[1-9][0-9]{0,2}", part) and int(part) < 256 for part in parts):
        raise errors.OpPrereqError(
            f"'{options.prefix}' is not the start of an IPv4 address: three numbers, such as 192.0.2",
            errors.ECODE_INVAL,
        )
    path = os.path.realpath(directory)
    if not runtime.IsDir(path):
        raise errors.OpPrereqError(
            f"Directory '{directory}' does not exist; create it with 'mkdir'", errors.ECODE_NOENT
        )
    return Plan(path, options.nodes, options.instances, options.prefix, options.device, options.init)


def MakeParser() -> optparse.OptionParser:
    parser = common.Parser("%prog [options] DIR\n\nPrepares a cluster of several nodes on this machine, in a directory")
    parser.add_option("-c", dest="nodes", type="int", default=5, metavar="N", help="Number of nodes [%default]")
    parser.add_option(
        "-i", dest="instances", type="int", default=10, metavar="N", help="Number of instances [%default]"
    )
    parser.add_option("-p", dest="prefix", default="192.0.2", help="First three numbers of all addresses [%default]")
    parser.add_option("-n", dest="device", default="eth0", help="Network device of the addresses [%default]")
    parser.add_option(
        "-I", dest="init", metavar="PATH", help="Program that starts and stops daemons (default: daemon-util)"
    )
    parser.add_option(
        "-E",
        dest="hosts",
        action="store_false",
        default=True,
        help="Leave the hosts file of the cluster, DIR/hosts, alone",
    )
    parser.add_option(
        "-N",
        dest="addresses",
        action="store_false",
        default=True,
        help="Do not give the nodes' addresses to the device",
    )
    return parser


def Main() -> int:
    parser = MakeParser()
    options, arguments = parser.parse_args()
    if len(arguments) != 1:
        parser.error("One argument is expected: the directory")
    common.LogToStderr(options.debug, options.verbose)

    def run() -> int:
        plan = _Checked(options, arguments[0])
        SetUp(plan, options.hosts, options.addresses)
        _Show(plan)
        return constants.EXIT_SUCCESS

    return common.RunTool(run)
