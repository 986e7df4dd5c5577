"""gnt-node add."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, hosts, pathutils
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Off, Options
from ganeti.client.gnt_node.options import MASTER_CAPABLE, VM_CAPABLE
from ganeti.client.shared import typed
from ganeti.client.shared.rows import ByName, QueryRows
from ganeti.luxi.client import Client
from ganeti.opcodes import OpNodeAdd
from ganeti.params import nd

READD = Flag("--readd", dest="readd", text="Add a node again that the cluster knows already, after a reinstallation")
NO_NODE_SETUP = Off("--no-node-setup", dest="prepare", text="The node was set up with 'node-daemon-setup' already")
NO_SSH_KEY_CHECK = Off(
    "--no-ssh-key-check", dest="ssh_key_check",
    text="Accept any SSH host key from the machine before it has the cluster's; somebody in between gets the cluster's keys",
)  # fmt: skip
FORCE_JOIN = Flag("--force-join", dest="force_join", text="No effect").Hidden()
_PORT = "ndp/" + nd.ND_SSH_PORT


class _Held(jobs.Feedback):
    """Keeps the log of a job, which is of interest only if it fails."""

    def __init__(self) -> None:
        self._entries: list[tuple[Sequence[int], str, Any]] = []

    def Log(self, timestamp: Sequence[int], kind: str, message: Any) -> None:
        self._entries.append((timestamp, kind, message))

    def Print(self) -> None:
        for entry in self._entries:
            super().Log(*entry)


def _CheckKnown(client: Client, name: str, options: Options) -> str | None:
    """Check that the node may be added, or added again; return its secondary address."""
    known = QueryRows(client, "node", ["name", "sip", "master"], ByName([name]))
    if known and known[0]["master"]:
        raise errors.OpPrereqError(
            f"Node {name} is the master, cannot readd"
            if options.readd
            else f"Node {name} is the master of this cluster",
            errors.ECODE_STATE,
            hint="'gnt-cluster renew-crypto --new-ssh-keys' gives root of each node a new SSH key; to set this machine up"
            " again, run 'gnt-cluster master-failover' on another master candidate first",
        )
    if options.readd:
        if not known:
            raise errors.OpPrereqError(f"Node {name} not in the cluster - use without '--readd'", errors.ECODE_NOENT)
        return str(known[0]["sip"])
    if known:
        raise errors.OpPrereqError(
            f"Node {name} already in the cluster (try '--readd' to refresh it)", errors.ECODE_EXISTS
        )
    secondary: str | None = options.secondary_ip
    return secondary


def _CheckRequest(op: OpNodeAdd, options: Options) -> None:
    """Have the master check what can be checked without the machine, before anything is changed there."""
    held = _Held()
    try:
        jobs.SubmitOpCode(op, options, held)
    except errors.GenericError:
        held.Print()
        raise


def _SshPort(client: Client, options: Options, known: dict[str, Any]) -> int:
    """Return the port that the options, the node that is known already, or its group says."""
    given = (typed.Node(options.ndparams) or {}).get(nd.ND_SSH_PORT) or known.get(_PORT)
    if given is None:
        group = options.group_name or constants.INITIAL_NODE_GROUP_NAME
        named = ["|", ["==", "name", group], ["==", "uuid", group]]
        given = next((row[_PORT] for row in QueryRows(client, "group", [_PORT], named)), None)
    return int(given or nd.DEFAULTS[nd.ND_SSH_PORT])


def _SetUp(client: Client, name: str, options: Options) -> None:
    """Make the machine ready over SSH, as far as it is not."""
    from ganeti.bootstrap import join

    if os.geteuid() != 0:
        raise errors.OpPrereqError(
            "Only root can set up a node: it gets keys of the cluster", errors.ECODE_ENVIRON, hint="use sudo"
        )
    manages_ssh, *root_key = client.QueryConfigValues(["modify_ssh_setup", "ssh_key_type", "ssh_key_bits"])
    if manages_ssh:
        output.ToStderr(
            f"Root of {name} gets a new SSH key, the SSH daemon there the host keys of the cluster; the old ones are kept"
            " beside them"
        )
    verbosity = ["-d"] * options.debug + ["-v"] * bool(options.verbose)
    known = QueryRows(client, "node", ["uuid", _PORT], ByName([name]))[0] if options.readd else {}
    port = _SshPort(client, options, known)
    machine = join.Machine(name, port, known.get("uuid"), options.ssh_key_check, verbosity)
    key = (root_key[0], root_key[1]) if manages_ssh else None
    join.SetUpNode(machine, key, output.ToStdoutAndFlush, output.ToStderr)


def Run(options: Options, arguments: list[str]) -> int:
    client = jobs.GetClient()
    name = hosts.Lookup(arguments[0]).name
    secondary_ip = _CheckKnown(client, name, options)
    (manages_ssh,) = client.QueryConfigValues(["modify_ssh_setup"])
    if options.force_join:
        output.ToStderr("--force-join is not supported and has no effect")

    def request(dry_run: bool) -> OpNodeAdd:
        return jobs.FromOptions(
            OpNodeAdd,
            options,
            node_name=name,
            secondary_ip=secondary_ip,
            group=options.group_name,
            ndparams=typed.Node(options.ndparams),
            hv_state=typed.HypervisorState(options.hv_state),
            disk_state=typed.DiskState(options.disk_state),
            node_setup=bool(manages_ssh),
            dry_run=dry_run,
        )

    if options.prepare:
        _CheckRequest(request(dry_run=True), options)
        _SetUp(client, name, options)
    else:
        output.ToStdout("The node is expected to be set up already (--no-node-setup).")
    try:
        jobs.SubmitOpCode(request(dry_run=False), options)
    except (errors.OpPrereqError, errors.OpExecError, errors.HooksFailure):
        if options.prepare and not QueryRows(client, "node", ["name"], ByName([name])):
            output.ToStderr(
                f"Machine {name} is set up, but it is not a node of the cluster: repair the cause and run the same command"
                f" again, or run '{pathutils.NODE_CLEANUP} --yes-do-it' there"
            )
        raise
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Add a machine to the cluster as a node",
    (One("host"),),
    (
        *o.SET_PRIORITY, o.SECONDARY_IP, READD, NO_SSH_KEY_CHECK, FORCE_JOIN, NO_NODE_SETUP,
        o.VERBOSE.Hidden(), o.NODE_GROUP.But(help="Node group of the new node"), MASTER_CAPABLE, VM_CAPABLE,
        o.NODE_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE,
    ),
    details="The machine needs this release and an SSH daemon that lets root of the master node in; ssh asks for the key of the"
    " host and for a password if it must.  The host keys of the cluster and a new key of root are put there, then the"
    " certificate and the secret of the cluster, and the node daemon is started.  A command that failed can be run"
    " again.  Without SSH: run 'gnt-node show-join-data HOST' on the master node, pass its output to"
    f" '{pathutils.NODE_DAEMON_SETUP}' on the machine, and run 'gnt-node add --no-node-setup HOST'.",
)  # fmt: skip
