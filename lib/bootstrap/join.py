"""What a machine needs to become a node, and how it gets it over SSH (doc/reference/cli.md 9.2, files.md 12).

First the program prepare-node-join runs there, by whatever key or password root of the machine accepts today: it brings the
host keys of the cluster, a key for root, and the candidates' keys.  From then on the machine shows the cluster's host key, and
node-daemon-setup can bring certificate, secret and ssconf, and start the node daemon.

Each step can be repeated: a machine that failed half-way is set up by the same command.  An administrator can do the second
step by hand, without SSH (doc/extensions.rst).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti import _autoconf, errors, hosts, pathutils, runtime, serializer, ssconf, ssh, x509
from ganeti.bootstrap import daemons, releases
from ganeti.bootstrap.calls import BootstrapRunner
from ganeti.utils.text import Printable

_LIMIT = 1 << 20
_PROBE_TIMEOUT = 20
# For several probes, on a slow machine, too.
_REACHED_WAIT = 60.0
_LONGEST = 2000
_HELPER_TIMEOUT = 300
_HOST_KEY_KINDS = ("rsa", "dsa", "ecdsa")


def JoinData(node: str) -> dict[str, Any]:
    """Return the object that ``node-daemon-setup`` reads on the machine ``node``.

    It holds the cluster's private key: it must travel over a channel that the administrator trusts.
    """
    store = ssconf.SimpleStore()
    host = hosts.Lookup(node)
    try:
        server_pem = runtime.ReadText(pathutils.NODED_CERT_FILE, _LIMIT)
        hmac_key = runtime.ReadText(pathutils.CONFD_HMAC_KEY, _LIMIT)
    except PermissionError as err:
        raise errors.OpPrereqError(f"{err.filename} can be read by root only", errors.ECODE_ENVIRON) from err
    except FileNotFoundError as err:
        raise errors.OpPrereqError(f"{err.filename} is missing on this node", errors.ECODE_STATE) from err
    return {
        "cluster_name": store.GetClusterName(),
        "node_daemon_certificate": server_pem,
        "hmac_key": hmac_key,
        "ssconf": store.ReadAll(),
        "start_node_daemon": True,
        "node_name": host.name,
    }


# Over SSH


@dataclass(frozen=True)
class Machine:
    """A machine that shall become a node.

    ``uuid``: of the node that it has been already.  ``check_host_key`` False: believe any key that it shows before it has
    the cluster's.  ``verbosity``: options that the programs there get.
    """

    name: str
    ssh_port: int
    uuid: str | None = None
    check_host_key: bool = True
    verbosity: Sequence[str] = ()


def SetUpNode(machine: Machine, root_key: tuple[str, int] | None, tell: Callable[[str], None]) -> None:
    """Make a machine ready for OP_NODE_ADD, over SSH; ``tell`` prints what happens.

    ``root_key``: type and bits of the SSH keys that the cluster manages; None where it manages none: then whoever runs
    this must be let in.  The machine may have been set up before, in part or whole.  Raises OpPrereqError if the first
    program there did not run to its end, OpExecError afterwards.
    """
    join = JoinData(machine.name)
    cluster = join["cluster_name"]
    if root_key is None:
        tell(f"Starting the node daemon on {machine.name} over SSH")
        _AtTerminal(machine, pathutils.NODE_DAEMON_SETUP, join)
    else:
        prepare = _PrepareData(machine, join, *root_key)
        tell(f"Preparing {machine.name} over SSH: the cluster's host keys, a new key for root")
        if _ShowsClusterKey(machine, cluster):
            _Batch(machine, cluster, pathutils.PREPARE_NODE_JOIN, prepare)
        else:
            _AtTerminal(machine, pathutils.PREPARE_NODE_JOIN, prepare)
        _TakePublicKey(machine, root_key[0], cluster)
        tell(f"Starting the node daemon on {machine.name}")
        _Batch(machine, cluster, pathutils.NODE_DAEMON_SETUP, join)
    try:
        with BootstrapRunner() as runner:
            daemons.WaitForNodeDaemon(runner, machine.name)
    except errors.OpExecError as err:
        raise errors.OpExecError(
            f"{err}", hint=f"its log is {pathutils.LOG_DIR}/node-daemon.log on {machine.name}; {_Again(machine)}"
        ) from err


def _PrepareData(machine: Machine, join: dict[str, Any], key_type: str, key_bits: int) -> dict[str, Any]:
    """Return the object that ``prepare-node-join`` reads: no private key but those of the SSH daemon leaves this node."""
    host_keys = []
    for kind in _HOST_KEY_KINDS:
        paths = pathutils.SshHostKey(kind)
        if all(runtime.Exists(path) for path in paths):
            host_keys.append([kind, *(runtime.ReadText(path, _LIMIT) for path in paths)])
    known = ssh.ReadNodeKeys()
    # The key that it had as a node before must not be accepted again.
    candidates = set(_CandidateUuids(join)) - {machine.uuid}
    authorized = {uuid: keys for uuid, keys in known.items() if uuid in candidates}
    own = ssh.ReadIfThere(ssh.UserKeyFiles(key_type)[1]).strip()
    if not own:
        raise errors.OpPrereqError(
            f"Root of this node has no SSH key of type {key_type} in {ssh.UserKeyFiles(key_type)[1]}",
            errors.ECODE_STATE,
            hint=f"copy it from another master candidate; 'gnt-node show-join-data {machine.name}' is the way without SSH",
        )
    if not any(ssh.SameKey(own, key) for keys in authorized.values() for key in keys):
        authorized["master"] = [own]
    return {
        "cluster_name": join["cluster_name"],
        "node_daemon_certificate": x509.CertificateOnly(join["node_daemon_certificate"]),
        "ssh_host_key": host_keys,
        "authorized_keys": authorized,
        "ssh_key_type": key_type,
        "ssh_key_bits": key_bits,
    }


def _CandidateUuids(join: dict[str, Any]) -> list[str]:
    lines = join["ssconf"].get("master_candidates_certs", "").splitlines()
    return [line.partition("=")[0] for line in lines]


def _ShowsClusterKey(machine: Machine, cluster: str) -> bool:
    """Return whether the machine has the cluster's host key and knows ours: it was prepared before."""
    argv = ssh.BuildCommand(machine.name, "true", cluster, machine.ssh_port)
    return not runtime.RunCmd(argv, timeout=_PROBE_TIMEOUT).failed


def _AtTerminal(machine: Machine, program: str, data: dict[str, Any]) -> None:
    """Run a set-up program with what root of the machine accepts today; SSH may ask for a host key or a password."""
    login = f"{_autoconf.SSH_LOGIN_USER}@{machine.name}"
    command = releases.JoinCommand(machine.name, " ".join([program, *machine.verbosity]))
    argv = ssh.BuildCommand(
        machine.name, command, None, machine.ssh_port, batch=False, any_key=not machine.check_host_key
    )
    code = runtime.RunInteractive(argv, serializer.Dump(data))
    if code:
        raise errors.OpPrereqError(
            f"{program} did not run to its end on {machine.name} as {login}: exit code {code}, the reason is above",
            errors.ECODE_ENVIRON,
            hint=f"'ssh {login}' must log in from here, and this release be installed there; '--no-ssh-key-check' accepts a"
            f" host key that is not known; 'gnt-node show-join-data {machine.name}' is the way without SSH",
        )


def _TakePublicKey(machine: Machine, key_type: str, cluster: str) -> None:
    """File the machine's new key under its name; OP_NODE_ADD files it under the uuid and spreads it."""
    path = pathutils.ExchangeNodeRoot(machine.name, ssh.UserKeyFiles(key_type)[1])
    last = ""
    found: list[str] = []

    def answers() -> bool:
        # The SSH daemon may still be about to read its new keys.
        nonlocal last
        argv = ssh.BuildCommand(machine.name, f"cat {runtime.ShellQuote(path)}", cluster, machine.ssh_port)
        result = runtime.RunCmd(argv, timeout=_PROBE_TIMEOUT)
        last = _Reason(result)
        found[:] = [result.stdout]
        return not result.failed

    try:
        what = f"Machine {machine.name} could not be reached with its new SSH keys"
        daemons.WaitFor(answers, what, _REACHED_WAIT)
    except errors.OpExecError as err:
        raise errors.OpExecError(f"{err}: {last}", hint=f"repair it; {_Again(machine)}") from err
    known = ssh.ReadNodeKeys()
    known[machine.name] = [ssh.CheckKeyLine(found[0])]
    ssh.WriteNodeKeys(known)


def _Batch(machine: Machine, cluster: str, program: str, data: dict[str, Any]) -> None:
    """Run a set-up program on a machine that shows the cluster's key."""
    command = releases.JoinCommand(machine.name, " ".join([program, *machine.verbosity]))
    argv = ssh.BuildCommand(machine.name, command, cluster, machine.ssh_port)
    result = runtime.RunCmd(argv, stdin=serializer.Dump(data), timeout=_HELPER_TIMEOUT)
    if result.failed:
        raise errors.OpExecError(
            f"{program} failed on {machine.name}: {_Reason(result)}",
            hint=f"repair what it names; {_Again(machine)}",
        )


def _Again(machine: Machine) -> str:
    again = f"--readd {machine.name}" if machine.uuid else machine.name
    return f"then 'gnt-node add {again}' continues with the machine as it is"


def _Reason(result: runtime.RunResult) -> str:
    """Return what was said: the command line is long and says nothing."""
    return Printable(result.stderr.strip()[-_LONGEST:], "\n") or result.fail_reason if result.failed else ""
