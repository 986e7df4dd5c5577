"""Secrets that are renewed while the cluster serves: their files, and what is to be done next (doc/design-renew-crypto.rst).

::

    server.pem.next     staged on every node: accepted already, used by nobody
    server.pem          in use
    server.pem.old      replaced: used by nobody, accepted still

The same for ``hmac.key``.  A node's own certificate has no ``.old``: its list of accepted ones is the cluster's.  ``Next``
decides from what the nodes report, and from nothing else, so that whoever comes after an interruption continues.
"""

from __future__ import annotations

import enum
import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from ganeti import _autoconf, errors, pathutils, runtime, x509

NEXT, OLD = ".next", ".old"
CLUSTER, CONFD = "cluster", "confd"
SEEN_WITHIN = 1.0
"""Seconds within which every daemon has noticed changed files; a transport looks that often."""

_LIMIT = 1024 * 1024


class Secret(NamedTuple):
    """What there is to know of a secret; whoever acts on secrets goes through them by this.

    ``constant``: name of its path in ``pathutils``; ``user``, ``group``: whose its file is; ``name``: what people call it.
    ``parameter``, ``option``: of OP_CLUSTER_RENEW_CRYPTO and of the command.  ``join``: its name in the object with which a
    machine is set up as a node; None for one that each node makes.  ``copied``: ``gnt-cluster redist-conf`` brings it, too.
    ``original``: it has been there since 3.1, so that every cluster has it, and every master sends it.
    """

    constant: str
    user: str
    group: str
    name: str
    parameter: str
    option: str
    join: str | None = None
    copied: bool = False
    original: bool = False

    @property
    def path(self) -> str:
        return str(getattr(pathutils, self.constant))


SECRETS = {
    CLUSTER: Secret(
        "NODED_CERT_FILE", _autoconf.MASTERD_USER, _autoconf.MASTERD_GROUP, "cluster certificate",
        "cluster_certificate", "--new-cluster-certificate", "node_daemon_certificate",
        original=True,
    ),
    CONFD: Secret(
        "CONFD_HMAC_KEY", _autoconf.CONFD_USER, _autoconf.MASTERD_GROUP, "confd HMAC key",
        "confd_hmac_key", "--new-confd-hmac-key", "hmac_key", copied=True, original=True,
    ),
}  # fmt: skip
"""The secrets that all nodes share, in the order in which their options are named."""
CLIENT = Secret(
    "NODED_CLIENT_CERT_FILE", _autoconf.MASTERD_USER, _autoconf.MASTERD_GROUP, "certificate of the node",
    "node_certificates", "--new-node-certificates",
)  # fmt: skip
ALL = (*SECRETS.values(), CLIENT)
SSH_OPTION = "--new-ssh-keys"
FILE_MODE = 0o440


def Paths(path: str) -> tuple[str, str, str]:
    """Return the file in use, the staged and the replaced one."""
    return path, path + NEXT, path + OLD


def Digest(kind: str, content: bytes) -> str:
    """Return by what a shared secret is recognised: the SHA-256 of the certificate, or of the key."""
    if kind == CLUSTER:
        return x509.Sha256(content, SECRETS[kind].path)
    return hashlib.sha256(content).hexdigest()


def Check(kind: str, content: bytes) -> None:
    """Raise GenericError unless this could be put into use."""
    if kind not in SECRETS:
        raise errors.GenericError(f"'{kind[:40]}' is not a secret that all nodes share")
    if kind == CLUSTER:
        x509.CheckKeyAndCertificate(content.decode("utf-8", "replace"), SECRETS[kind].path)
    elif not content.strip():
        raise errors.GenericError("a key must not be empty")


def Make(kind: str) -> str:
    """Make a new secret."""
    return x509.MakeServerPem(renewed=True) if kind == CLUSTER else x509.NewSecret() + "\n"


def ReadIfThere(path: str) -> bytes | None:
    try:
        return runtime.ReadFile(path, _LIMIT)
    except FileNotFoundError:
        return None


def Copied() -> list[str]:
    """Return the files that every node gets like others of the cluster."""
    return [secret.path for secret in SECRETS.values() if secret.copied]


def Command(options: Iterable[str]) -> str:
    """Return the command with these options, as messages name it."""
    return "'" + " ".join(["gnt-cluster", "renew-crypto", *options]) + "'"


def CommandOf(op: Mapping[str, Any]) -> str:
    """Return the command for the parameters of an OP_CLUSTER_RENEW_CRYPTO, which need not have been checked."""
    words = [secret.option for secret in ALL if op.get(secret.parameter)]
    if op.get("renew_ssh_keys"):
        words.append(SSH_OPTION)
        words += KeyWords(op.get("ssh_key_type"), op.get("ssh_key_bits"))
    return Command(words)


def KeyWords(kind: Any, bits: Any) -> list[str]:
    """Return the options that say which SSH keys are wanted."""
    words = [f"--ssh-key-type={shlex.quote(str(kind))}"] if kind is not None else []
    return words + ([f"--ssh-key-bits={shlex.quote(str(bits))}"] if bits is not None else [])


def CheckManagesSsh(managed: bool) -> None:
    """Raise OpPrereqError where a renewal of SSH keys is asked for, and the cluster leaves them alone."""
    if not managed:
        raise errors.OpPrereqError(
            "This cluster does not manage the SSH keys of its nodes, so it cannot renew them",
            errors.ECODE_STATE,
            hint=f"leave out {SSH_OPTION}, and replace root's keys on each node as they were made",
        )


# --- what a node reports --------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """The digests of the three files of a secret."""

    current: str | None
    next: str | None
    old: str | None


def ReadHeld(kind: str) -> Held:
    """Read this node's three files of a secret."""
    contents = [ReadIfThere(path) for path in Paths(SECRETS[kind].path)]
    return Held(*(None if content is None else Digest(kind, content) for content in contents))


class Client(NamedTuple):
    """A node's own certificate and the staged one: digests as in the list of candidates, and of the signer of each.

    A signer is None where it is not among the cluster certificates that the node has.
    """

    current: str | None
    next: str | None
    signer: str | None
    next_signer: str | None


class Report(NamedTuple):
    """What one node has.  ``listed``: digests of the candidates' certificates that it accepts."""

    secrets: Mapping[str, Held]
    client: Client
    listed: Set[str]


def ReadReport(value: Mapping[str, Any]) -> Report | None:
    """Read the answer to ``crypto_look``, whose shape was checked; None where it makes no sense: nodes may lie.

    A node of the release before may not know a secret yet; then it has none.
    """
    secrets, client = value["secrets"], Client(*value["client"])
    if CLUSTER not in secrets or not secrets.keys() <= SECRETS.keys():
        return None
    if any(digest is not None and not x509.IsDigest(digest) for digest in (client.current, client.next)):
        return None
    held = {kind: Held(*secrets.get(kind, (None, None, None))) for kind in SECRETS}
    return Report(held, client, frozenset(value["listed"]))


# --- decisions ------------------------------------------------------------------------------------------------------------


class Phase(enum.Enum):
    """The phases, in order, and what each node does in it; each begins when every online node has ended the one before."""

    STAGE = "receives the new secrets, beside those in use"
    CERTIFY = "makes a new certificate for itself"
    LIST = "accepts the old and the new certificates of master candidates"
    ACTIVATE = "puts the new ones into use"
    UNLIST = "accepts only the new certificates of master candidates"
    WITHDRAW = "no longer accepts the old secrets"

    @property
    def number(self) -> str:
        return f"{list(Phase).index(self) + 1} of {len(Phase)}"


class Goal(NamedTuple):
    """What is to be reached.

    ``secrets``: kind -> digest that all nodes shall use.  ``renewed``: node -> digest of the certificate that it had before
    and shall not use any more; absent where only a new signature is needed.  ``candidates``: the nodes whose certificates are
    accepted.  ``master``: the node that comes last.
    """

    secrets: Mapping[str, str]
    renewed: Mapping[str, str | None]
    candidates: Set[str]
    master: str


class Step(NamedTuple):
    """A phase, the nodes that have not ended it, and those of which nothing is known."""

    phase: Phase
    nodes: Sequence[str]
    unknown: Sequence[str]


def Unfinished(own: Held) -> str | None:
    """Return the digest that an interrupted renewal was about to put into use everywhere; None if there was none.

    ``own``: of the master's node, which is given a secret first and forgets the old one last.
    """
    if own.old is not None and own.old != own.current:
        return own.current
    return own.next if own.next != own.current else None


def CheckCompleted() -> None:
    """Raise OpPrereqError while a renewal is not completed, as this node's files tell, which is the master's.

    A machine that joined would know one of two secrets only, and reject nodes that use the other.
    """
    found = [secret for kind, secret in SECRETS.items() if Unfinished(ReadHeld(kind)) is not None]
    if found:
        raise errors.OpPrereqError(
            f"The renewal of the {' and the '.join(secret.name for secret in found)} is not completed: a machine that joined"
            " now would reject some of the nodes",
            errors.ECODE_STATE,
            hint=f"run {Command(secret.option for secret in found)} first",
        )


def Next(reports: Mapping[str, Report | None], goal: Goal) -> Step | None:
    """Return what is to be done next; None when the goal is reached.  A node that does not answer has the report None."""
    known = {node: report for node, report in reports.items() if report is not None}
    unknown = sorted(reports.keys() - known.keys())
    both, final = Accepted(known, goal)
    ended = {
        Phase.STAGE: lambda node, has: all(
            digest in (has.secrets[kind].current, has.secrets[kind].next) for kind, digest in goal.secrets.items()
        ),
        Phase.CERTIFY: lambda node, has: not _NeedsClient(node, has, goal) or _IsCertified(has, goal),
        Phase.LIST: lambda node, has: not _Changes(known, goal) or both <= has.listed,
        Phase.ACTIVATE: lambda node, has: not _Activates(node, has, goal),
        Phase.UNLIST: lambda node, has: has.listed == final,
        Phase.WITHDRAW: lambda node, has: (
            has.client.next is None and all(held.next is None and held.old is None for held in has.secrets.values())
        ),
    }
    for phase in Phase:
        nodes = sorted(node for node, has in known.items() if not ended[phase](node, has))
        if phase is Phase.WITHDRAW and len(nodes) > 1:
            nodes = [node for node in nodes if node != goal.master]
        if nodes or unknown:
            return Step(phase, nodes, unknown)
    return None


def Accepted(reports: Mapping[str, Report | None], goal: Goal) -> tuple[frozenset[str], frozenset[str]]:
    """Return the digests that are accepted while certificates change, and those afterwards."""
    clients = [has.client for node, has in reports.items() if has is not None and node in goal.candidates]
    final = frozenset(client.current for client in clients if client.current is not None)
    return final | {client.next for client in clients if client.next is not None}, final


def _NeedsClient(node: str, has: Report, goal: Goal) -> bool:
    client = has.client
    # A staged one is put into use with anything else that is: it must be in the list by then, whoever wanted it.
    if client.next is not None or (node in goal.renewed and client.current == goal.renewed[node]):
        return True
    # A cluster certificate that is not renewed may have been replaced by hand, or be 3.1's: not our business here.
    return CLUSTER in goal.secrets and client.signer != goal.secrets[CLUSTER]


def _IsCertified(has: Report, goal: Goal) -> bool:
    signer = goal.secrets.get(CLUSTER, has.secrets[CLUSTER].current)
    return has.client.next is not None and has.client.next_signer == signer


def _Activates(node: str, has: Report, goal: Goal) -> bool:
    """Return whether the node has yet to put something into use."""
    if any(has.secrets[kind].current != digest for kind, digest in goal.secrets.items()):
        return True
    return _NeedsClient(node, has, goal)


def _Changes(known: Mapping[str, Report], goal: Goal) -> bool:
    """Return whether a certificate of a candidate is about to change."""
    return any(_NeedsClient(node, has, goal) for node, has in known.items() if node in goal.candidates)
