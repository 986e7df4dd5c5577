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

from ganeti import _autoconf, errors, hosts, joindata, pathutils, renewal, runtime, serializer, ssconf, ssh, x509
from ganeti.bootstrap import daemons, keys, releases
from ganeti.bootstrap.calls import BootstrapRunner
from ganeti.utils.text import Printable

_LIMIT = 1 << 20
_PROBE_TIMEOUT = 20
# For several probes, on a slow machine, too.
_REACHED_WAIT = 60.0
_HELPER_TIMEOUT = 300
_HOST_KEY_KINDS = ("rsa", "dsa", "ecdsa")
# Of ssh, and of the shell at the other end.
_SSH_FAILED, _NOT_FOUND = 255, 127
_LONGEST = 2000
_DEFAULT_PORT = 22
# By these prepare-node-join recognises a machine that is in the cluster.
_MEMBERS = ("master_node", "node_primary_ips")


def JoinData(node: str) -> dict[str, Any]:
    """Return the object that ``node-daemon-setup`` reads on the machine ``node``.

    It holds the cluster's private key: it must travel over a channel that the administrator trusts.  Raises OpPrereqError
    where a file cannot be read, and while a renewal of keys is not completed.
    """
    store = ssconf.SimpleStore()
    host = hosts.Lookup(node)
    try:
        renewal.CheckCompleted()
        shared = [
            (secret.join, runtime.ReadText(secret.path, _LIMIT))
            for secret in renewal.SECRETS.values()
            # An upgraded cluster gets a secret that is newer than 3.1 only with its first renewal.
            if secret.original or runtime.Exists(secret.path)
        ]
    except PermissionError as err:
        raise errors.OpPrereqError(f"{err.filename} can be read by root only", errors.ECODE_ENVIRON) from err
    except FileNotFoundError as err:
        raise errors.OpPrereqError(f"{err.filename} is missing on this node", errors.ECODE_STATE) from err
    return {
        joindata.CLUSTER_NAME: store.GetClusterName(),
        **{name: text for name, text in shared if name is not None},
        joindata.SSCONF: store.ReadAll(),
        joindata.START: True,
        joindata.NODE_NAME: host.name,
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


def SetUpNode(
    machine: Machine, root_key: tuple[str, int] | None, tell: Callable[[str], None], show: Callable[[str], None]
) -> None:
    """Make a machine ready for OP_NODE_ADD, over SSH; ``tell`` prints what happens, ``show`` what programs there say.

    ``root_key``: type and bits of the SSH keys that the cluster manages; None where it manages none: then whoever runs
    this must be let in.  The machine may have been set up before, in part or whole.  Raises OpPrereqError if the first
    program there did not run to its end, OpExecError afterwards.
    """
    join = JoinData(machine.name)
    cluster = join[joindata.CLUSTER_NAME]
    if root_key is None:
        tell(f"Starting the node daemon on {machine.name} over SSH")
        _AtTerminal(machine, pathutils.NODE_DAEMON_SETUP, join, show)
    else:
        prepare = _PrepareData(machine, join, *root_key)
        tell(f"Preparing {machine.name} over SSH: the cluster's host keys, a new key for root")
        if _ShowsClusterKey(machine, cluster):
            _Batch(machine, cluster, pathutils.PREPARE_NODE_JOIN, prepare)
        else:
            _AtTerminal(machine, pathutils.PREPARE_NODE_JOIN, prepare, show)
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
    host_keys = _HostKeys(machine, join[joindata.CLUSTER_NAME])
    known = _KnownKeys()
    # The key that it had as a node before must not be accepted again.
    candidates = set(_CandidateUuids(join)) - {machine.uuid}
    authorized = {uuid: keys for uuid, keys in known.items() if uuid in candidates}
    own = ssh.ReadUserKey(key_type)
    if not own:
        raise errors.OpPrereqError(
            f"Root of this node has no SSH key of type {key_type} in {ssh.UserKeyFiles(key_type)[1]}",
            errors.ECODE_STATE,
            hint=f"copy it from another master candidate; {_WithoutSsh(machine)}",
        )
    if not any(ssh.HasKey(own, keys) for keys in authorized.values()):
        authorized["master"] = [own]
    return {
        joindata.CLUSTER_NAME: join[joindata.CLUSTER_NAME],
        joindata.CERTIFICATE: x509.CertificateOnly(join[joindata.CERTIFICATE]),
        joindata.NODE_NAME: join[joindata.NODE_NAME],
        joindata.SSCONF: {name: join[joindata.SSCONF][name] for name in _MEMBERS if name in join[joindata.SSCONF]},
        joindata.HOST_KEYS: host_keys,
        joindata.AUTHORIZED: authorized,
        joindata.KEY_TYPE: key_type,
        joindata.KEY_BITS: key_bits,
    }


def _KnownKeys() -> dict[str, list[str]]:
    try:
        return ssh.ReadNodeKeys()
    except errors.SshUpdateError as err:
        raise errors.OpPrereqError(f"The list of SSH keys is damaged: {err}", errors.ECODE_ENVIRON) from err


def _HostKeys(machine: Machine, cluster: str) -> list[list[str]]:
    """Return this node's host keys as ``[kind, private, public]``; OpPrereqError unless they are the cluster's.

    A machine with others would be reached by no node, and neither is this one.
    """
    expected = keys.ReadKnownHosts(cluster)
    found: list[list[str]] = []
    known: list[str] = []
    for kind in _HOST_KEY_KINDS:
        paths = pathutils.SshHostKey(kind)
        if not all(runtime.Exists(path) for path in paths):
            continue
        private, public = (runtime.ReadText(path, _LIMIT) for path in paths)
        shared = [key for key in expected if key.split()[0] == (public.split() or [""])[0]]
        if shared and not any(ssh.SameKey(key, public) for key in shared):
            raise _NotTheCluster(machine, f"The SSH host key of this node ({paths[1]}) is not that of the cluster")
        if shared:
            known.append(kind)
        found.append([kind, private, public])
    if not known:
        raise _NotTheCluster(machine, f"No SSH host key of this node is in {pathutils.SSH_KNOWN_HOSTS_FILE}")
    return found


def _NotTheCluster(machine: Machine, text: str) -> errors.OpPrereqError:
    private, public = pathutils.SshHostKey("rsa")
    return errors.OpPrereqError(
        text,
        errors.ECODE_STATE,
        hint=f"copy {private} and {public} from another node or a backup, then run '{pathutils.DAEMON_UTIL} reload-ssh-keys';"
        f" no node reaches this one by SSH meanwhile; {_WithoutSsh(machine)}",
    )


def _WithoutSsh(machine: Machine) -> str:
    return f"'gnt-node show-join-data {machine.name}' is the way without SSH"


def _CandidateUuids(join: dict[str, Any]) -> list[str]:
    lines = join[joindata.SSCONF].get("master_candidates_certs", "").splitlines()
    return [line.partition("=")[0] for line in lines]


def _ShowsClusterKey(machine: Machine, cluster: str) -> bool:
    """Return whether the machine has the cluster's host key and knows ours: it was prepared before."""
    argv = ssh.BuildCommand(machine.name, "true", cluster, machine.ssh_port)
    return not runtime.RunCmd(argv, timeout=_PROBE_TIMEOUT).failed


def _AtTerminal(machine: Machine, program: str, data: dict[str, Any], show: Callable[[str], None]) -> None:
    """Run a set-up program with what root of the machine accepts today; SSH may ask for a host key or a password.

    It asks at the terminal itself; what the program says passes ``show``: nobody vouches for that machine yet.
    """
    login = f"{_autoconf.SSH_LOGIN_USER}@{machine.name}"
    command = releases.JoinCommand(machine.name, " ".join([program, *machine.verbosity]))
    argv = ssh.BuildCommand(
        machine.name, command, None, machine.ssh_port, batch=False, any_key=not machine.check_host_key
    )
    code = runtime.RunInteractive(argv, serializer.Dump(data), lambda line: show(Printable(line, "\t")))
    if code:
        raise errors.OpPrereqError(
            f"{program} did not run to its end on {machine.name} as {login}: exit code {code}, the reason is above",
            errors.ECODE_ENVIRON,
            hint=f"'ssh {_PortOption(machine)}{login}' must log in from here, and this release be installed there; '--no-ssh-key-check' accepts a"
            f" host key that is not known; {_WithoutSsh(machine)}",
        )


def _PortOption(machine: Machine) -> str:
    return "" if machine.ssh_port == _DEFAULT_PORT else f"-p {machine.ssh_port} "


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
    _FileKey(machine, found[0])


def _FileKey(machine: Machine, shown: str) -> None:
    """File what the machine sent as its key; OpExecError if it is none, or belongs to somebody else."""
    names = {machine.name, machine.uuid or machine.name}

    def change(known: dict[str, list[str]]) -> ssh.KeysByNode:
        key = ssh.KeyOfNode(ssh.CheckKeyLine(shown), machine.name)
        problem = ssh.ClaimProblem(key, known, names)
        if problem is not None:
            raise errors.SshUpdateError(problem)
        return {**known, machine.name: [key]}

    try:
        ssh.ChangeNodeKeys(change)
    except errors.SshUpdateError as err:
        raise errors.OpExecError(
            f"The SSH key that machine {machine.name} sent cannot be used: {err}",
            hint=f"check who controls that machine; {_Again(machine)}",
        ) from err


def _Batch(machine: Machine, cluster: str, program: str, data: dict[str, Any]) -> None:
    """Run a set-up program on a machine that shows the cluster's key."""
    command = releases.JoinCommand(machine.name, " ".join([program, *machine.verbosity]))
    argv = ssh.BuildCommand(machine.name, command, cluster, machine.ssh_port)
    result = runtime.RunCmd(argv, stdin=serializer.Dump(data), timeout=_HELPER_TIMEOUT)
    if result.failed:
        repair = "install this release there" if result.exit_code == _NOT_FOUND else "fix the reported problem"
        raise errors.OpExecError(
            f"{program} failed on {machine.name}: {_Reason(result)}", hint=f"{repair}; {_Again(machine)}"
        )


def _Again(machine: Machine) -> str:
    again = f"--readd {machine.name}" if machine.uuid else machine.name
    return f"then 'gnt-node add {again}' continues with the machine as it is"


def _Reason(result: runtime.RunResult) -> str:
    """Return what was said last: the command line is long, and ssh says in its last line what all the others are about."""
    if not result.failed:
        return ""
    said = result.stderr.strip().splitlines()
    if said and result.exit_code == _SSH_FAILED:
        said = said[-1:]
    return Printable("\n".join(said)[-_LONGEST:], "\n") or result.fail_reason
