"""SSH keys of a node: where they are, the lines of authorized_keys and ganeti_pub_keys, commands (doc/reference/files.md 12).

A node of a virtual cluster has keys of its own below its directory; the machine's are never touched.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ganeti import _autoconf, errors, pathutils, runtime
from ganeti.utils import files

KEY_KINDS = ("rsa", "dsa", "ecdsa", "ed25519")
DEFAULT_BITS = {"rsa": 2048, "dsa": 1024, "ecdsa": 521}
_ECDSA_BITS = (256, 384, 521)
_MIN_RSA_BITS, _MAX_RSA_BITS = 1024, 16384
CONNECT_TIMEOUT = 10
# A machine that dies while a command runs on it is noticed after a minute.
_KEEPALIVE = ("-oServerAliveInterval=15", "-oServerAliveCountMax=4")
_LIMIT = 4 * 1024 * 1024
_KEYGEN_TIMEOUT = 120
# Nobody holds the lock for longer than a file takes to be written.
_LOCK_TIMEOUT = 30
# Of a pair that is being made.
_MADE_SUFFIX = "_made"
# A line of a key that nodes hand around; authorized_keys has others, too.
_KEY_LINE = re.compile(r"(?:ssh-rsa|ssh-dss|ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,2}(?: .*)?")
_MAX_KEY_LINE = 16 * 1024
_OWNER = re.compile(r"(?!#)[!-~]{1,255}")
_BLANKS = " \t\r\n"

KeysByNode = Mapping[str, Sequence[str]]


# Where they are


def UserDir() -> str:
    """Return the .ssh directory of the user that cluster commands log in as."""
    return f"{pathutils.ROOT_DIR}{os.path.expanduser('~' + _autoconf.SSH_LOGIN_USER)}/.ssh"


def UserKeyFiles(kind: str, suffix: str = "") -> tuple[str, str]:
    """Return the paths of the (private, public) key."""
    private = f"{UserDir()}/id_{CheckKind(kind)}{suffix}"
    return private, private + ".pub"


def AuthorizedKeysFile() -> str:
    return f"{UserDir()}/authorized_keys"


def CheckKind(kind: str) -> str:
    if kind not in KEY_KINDS:
        raise errors.SshUpdateError(f"SSH key type '{kind[:40]}' is not known; known are {', '.join(KEY_KINDS)}")
    return kind


def BitsProblem(kind: str, bits: int) -> str | None:
    """Return why there is no key of this type and length; None if there is."""
    if kind == "dsa" and bits != DEFAULT_BITS[kind]:
        return f"DSA keys have {DEFAULT_BITS[kind]} bits, not {bits}"
    if kind == "ecdsa" and bits not in _ECDSA_BITS:
        return f"ECDSA keys have {', '.join(map(str, _ECDSA_BITS))} bits, not {bits}"
    if kind == "rsa" and bits < _MIN_RSA_BITS:
        return f"RSA keys of {bits} bits are not safe; at least {_MIN_RSA_BITS} are needed"
    if kind == "rsa" and bits > _MAX_RSA_BITS:
        return f"RSA keys have at most {_MAX_RSA_BITS} bits, not {bits}"
    return None


# Lines


def Lines(text: str) -> list[str]:
    """Return the lines of authorized_keys or ganeti_pub_keys as the SSH daemon sees them: only a line feed ends one."""
    return text.removesuffix("\n").split("\n") if text else []


def SameKey(one: str, other: str) -> bool:
    """Return whether two lines hold the same key, whatever options and comments they have."""
    return bool(_KeyOf(one)) and _KeyOf(one) == _KeyOf(other)


def _KeyOf(line: str) -> tuple[str, str] | None:
    """Return (type, key) of a line of authorized_keys or a public key file."""
    words = _Words(line)
    if not words or words[0].startswith("#"):
        return None
    for word, following in itertools.pairwise(words):
        if word.startswith(("ssh-", "ecdsa-", "sk-")):
            return word, following
    return None


def _Words(line: str) -> list[str]:
    return re.split("[ \t]+", line.strip(_BLANKS))


def ReadUserKey(kind: str) -> str:
    """Return the line of this node's public key in use; empty if there is none.  A comment that is not printable is left out."""
    line = ReadIfThere(UserKeyFiles(kind)[1]).strip(_BLANKS)
    return line if line.isprintable() else BareKey(line)


def BareKey(line: str) -> str:
    """Return ``TYPE KEY`` of a line, without options and comment; empty if it has no key."""
    found = _KeyOf(line)
    return "" if found is None else CheckKeyLine(" ".join(found))


def KeyOfNode(line: str, name: str) -> str:
    """Return the line of a node's key with the comment of its root: what it says there itself is not to be relied on."""
    return f"{BareKey(line)} {_autoconf.SSH_LOGIN_USER}@{name}"


def CommentHost(line: str) -> str:
    """Return HOST of the comment ``USER@HOST`` of a key; empty if there is none."""
    return "" if _KeyOf(line) is None else _Words(line)[-1].rpartition("@")[2]


def IsKeyOfRoot(line: str, nodes: Iterable[str]) -> bool:
    """Return whether a line is a key like those that nodes make for themselves: no options, and the comment ``root@NODE``."""
    user, _, host = _Words(line)[-1].rpartition("@")
    names = {short for name in nodes for short in (name, name.partition(".")[0])}
    return user == _autoconf.SSH_LOGIN_USER and host in names and _KEY_LINE.fullmatch(line.strip(_BLANKS)) is not None


def WithKeys(text: str, keys: Iterable[str]) -> str:
    """Return the ``text`` of authorized_keys with these keys, each once."""
    lines = Lines(text)
    for key in keys:
        line = CheckKeyLine(key)
        if not any(SameKey(line, known) for known in lines):
            lines.append(line)
    return _Joined(lines)


def WithoutKeys(text: str, keys: Iterable[str]) -> str:
    """Return the ``text`` of authorized_keys without the lines of these keys; comments and other lines stay.

    A line is that of a key if it has it with the comment of the same host; that of a key without a comment, whatever comment it
    has.  With another one somebody else logs in with it, whatever the node says that calls it its own.
    """
    unwanted = list(keys)
    return _Joined([line for line in Lines(text) if not any(_IsLineOf(key, line) for key in unwanted)])


def _IsLineOf(key: str, line: str) -> bool:
    return SameKey(key, line) and (key.strip(_BLANKS) == BareKey(key) or _Short(key) == _Short(line))


def _Short(line: str) -> str:
    return CommentHost(line).partition(".")[0]


def CheckKeyLine(line: str) -> str:
    """Return the line ``TYPE KEY [COMMENT]`` of one key without blanks around it; SshUpdateError for anything else.

    It may come from a node that nobody trusts, and is read again by other programs: no options, nothing that anybody could
    take for the end of a line, and not longer than keys are.
    """
    stripped = line.strip(_BLANKS)
    if len(stripped) > _MAX_KEY_LINE or not stripped.isprintable() or not _KEY_LINE.fullmatch(stripped):
        raise errors.SshUpdateError(
            f"This is not a line of an SSH key ('TYPE KEY [COMMENT]', printable, at most {_MAX_KEY_LINE} characters):"
            f" {stripped[:60]!a}"
        )
    return stripped


def _Joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def ParseNodeKeys(text: str) -> dict[str, list[str]]:
    """Parse ganeti_pub_keys: ``NODEUUID <public key line>``, several per node possible.

    Raises SshUpdateError that names a line that is not of this form.
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(Lines(text), 1):
        uuid, _, key = line.strip(_BLANKS).partition(" ")
        if not uuid or uuid.startswith("#"):
            continue
        try:
            found.setdefault(_CheckOwner(uuid), []).append(CheckKeyLine(key))
        except errors.SshUpdateError as err:
            raise errors.SshUpdateError(
                f"{pathutils.SSH_PUB_KEYS_FILE}, line {number}: {err}; delete that line, then 'gnt-node add --readd NODE'"
                " brings the node's key"
            ) from err
    return found


def FormatNodeKeys(keys: KeysByNode) -> str:
    """Return the content of ganeti_pub_keys; SshUpdateError unless it would be read as it was meant."""
    return _Joined([f"{_CheckOwner(uuid)} {CheckKeyLine(key)}" for uuid, lines in keys.items() for key in lines])


def _CheckOwner(uuid: str) -> str:
    if not _OWNER.fullmatch(uuid):
        raise errors.SshUpdateError(f"{uuid[:60]!a} is not the uuid or the name of a node")
    return uuid


def HasKey(key: str, lines: Iterable[str]) -> bool:
    return any(SameKey(key, line) for line in lines)


def ClaimProblem(key: str, known: KeysByNode, names: Collection[str]) -> str | None:
    """Return why a key that a node calls its own belongs to somebody else; None if it may be the node's.

    The node's key is accepted and withdrawn everywhere, so with the key of another it could let that one in or lock it out.
    ``known``: the content of ganeti_pub_keys.  ``names``: the node's uuid and names.  Only for another node than this one.
    """
    for owner, lines in known.items():
        if owner not in names and HasKey(key, lines):
            return f"it is the key of {owner}"
    if any(SameKey(key, ReadUserKey(kind)) for kind in KEY_KINDS):
        return f"it is the key of this node, {pathutils.HostName()}"
    hosts = {*names, *(name.partition(".")[0] for name in names)}
    # Keys that release 3.1 has filed have the comments that their makers gave them.
    filed = [line for name in names for line in known.get(name, ()) if SameKey(key, line)]
    for line in ReadAuthorized():
        if SameKey(key, line) and CommentHost(line) not in hosts and not any(_IsLineOf(one, line) for one in filed):
            return f"{AuthorizedKeysFile()} lets somebody else log in with it"
    return None


# Files


def ReadIfThere(path: str) -> str:
    """Return the text of a file of keys; empty if there is none.

    Lines of others may have comments in any encoding: bytes that are not UTF-8 are kept as half surrogates.
    """
    try:
        return runtime.ReadFile(path, _LIMIT).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def ReadAuthorized() -> list[str]:
    """Return the lines of authorized_keys; none if there is no such file."""
    return Lines(ReadIfThere(AuthorizedKeysFile()))


def AuthorizeKeys(keys: Iterable[str]) -> None:
    _ChangeAuthorized(lambda text: WithKeys(text, keys))


def ReplaceAuthorized(former: Iterable[str], keys: Sequence[str]) -> None:
    """Authorise ``keys``, and of ``former`` none but those, in one step."""
    _ChangeAuthorized(lambda text: WithKeys(WithoutKeys(text, [key for key in former if not HasKey(key, keys)]), keys))


def ForbidKeys(keys: Sequence[str]) -> None:
    """Take the lines of these keys away; SshUpdateError, afterwards, if somebody else logs in with one of them."""
    _ChangeAuthorized(lambda text: WithoutKeys(text, keys))
    for key in keys:
        left = next((line for line in ReadAuthorized() if SameKey(key, line)), None)
        if left is not None:
            raise errors.SshUpdateError(
                f"{AuthorizedKeysFile()} still accepts the key '{key[-60:]}', with the comment '{_Words(left)[-1][-60:]}'; delete"
                " that line if it is not somebody else's, and 'gnt-node add --readd NODE' gives the node a key of its own"
            )


def _ChangeAuthorized(change: Callable[[str], str]) -> None:
    """Change authorized_keys; mode and owner stay what they were."""
    path = AuthorizedKeysFile()
    runtime.MakeDirs(UserDir(), 0o700)
    before = ReadIfThere(path)
    after = change(before)
    if after == before:
        return
    mode, uid, gid = 0o600, -1, -1
    if runtime.Exists(path):
        info = runtime.Stat(path)
        mode, uid, gid = info.st_mode & 0o777, info.st_uid, info.st_gid
    runtime.WriteFile(path, after.encode("utf-8", "surrogateescape"), mode=mode, uid=uid, gid=gid)


def ReadNodeKeys() -> dict[str, list[str]]:
    return ParseNodeKeys(ReadIfThere(pathutils.SSH_PUB_KEYS_FILE))


def WriteNodeKeys(keys: KeysByNode) -> None:
    runtime.WriteFile(pathutils.SSH_PUB_KEYS_FILE, FormatNodeKeys(keys), mode=0o600)


def ChangeNodeKeys(change: Callable[[dict[str, list[str]]], KeysByNode]) -> KeysByNode:
    """Replace ganeti_pub_keys by what ``change`` makes of it, and return that; other programs wait meanwhile.

    Raises LockBusy, SshUpdateError; nothing is written then.
    """
    runtime.MakeDirs(pathutils.RUN_EXT_DIR, 0o770)
    with runtime.LockFile(pathutils.SSH_PUB_KEYS_LOCK_FILE, timeout=_LOCK_TIMEOUT):
        changed = change(ReadNodeKeys())
        WriteNodeKeys(changed)
    return changed


# Programs


def BuildKeygen(kind: str, bits: int, path: str) -> list[str]:
    return ["ssh-keygen", "-t", kind, "-b", str(bits), "-f", path, "-q", "-N", ""]


def MakeUserKey(kind: str, bits: int, suffix: str = "") -> str:
    """Make a new key pair of the login user and return the public line; of the old pair a copy is kept.

    One with a ``suffix`` is not in use: what an earlier attempt left is replaced.  At no moment is there no key, whatever
    ssh-keygen says.
    """
    problem = BitsProblem(kind, bits)
    if problem is not None:
        raise errors.SshUpdateError(f"{problem}; no key was made")
    private, public = UserKeyFiles(kind, suffix or _MADE_SUFFIX)
    runtime.MakeDirs(UserDir(), 0o700)
    for path in (private, public):
        runtime.RemoveFile(path)
    result = runtime.RunCmd(BuildKeygen(kind, bits, private), timeout=_KEYGEN_TIMEOUT)
    if result.failed:
        raise errors.SshUpdateError(f"Could not make the SSH key {private}: {result.fail_reason}")
    # ssh-keygen leaves it to the system when they reach the disk; others soon trust it.
    for path, mode in ((private, 0o600), (public, 0o644)):
        runtime.WriteFile(path, runtime.ReadFile(path, _LIMIT), mode=mode)
    line = ReadIfThere(public).strip()
    if not suffix:
        UseKey(kind, _MADE_SUFFIX)
    return line


def UseKey(kind: str, suffix: str) -> None:
    """Put the pair with this suffix in the place of the one in use, of which a copy is kept; at no moment is there none.

    SSH can do without the public half, but not with that of another key.
    """
    (new, new_public), (private, public) = UserKeyFiles(kind, suffix), UserKeyFiles(kind)
    for path in (private, public):
        files.KeepCopy(path)
    runtime.RemoveFile(public, sync=True)
    runtime.Rename(new, private)
    runtime.Rename(new_public, public)


def BuildCommand(
    host: str,
    command: str,
    cluster_name: str | None,
    port: int = 22,
    batch: bool = True,
    tty: bool = False,
    any_key: bool = False,
    key_file: str | None = None,
) -> list[str]:
    """Return the command that runs another on a node, trusting the cluster's host key only.

    ``cluster_name`` None: a machine that is not in the cluster yet; its key is asked for, or must be known to the user,
    or is not looked at (``any_key``).  ``key_file``: a private key that is used instead of all other ways in.
    """
    argv = ["ssh", "-oEscapeChar=none", "-oHashKnownHosts=no"]
    if key_file is not None:
        # The key is added to those that the machine's configuration names, which may also share a connection that is open.
        argv += [
            "-F",
            "none",
            "-oIdentitiesOnly=yes",
            "-oPreferredAuthentications=publickey",
            f"-oIdentityFile={key_file}",
        ]
    if cluster_name is not None:
        argv += [
            f"-oGlobalKnownHostsFile={pathutils.SSH_KNOWN_HOSTS_FILE}",
            "-oUserKnownHostsFile=/dev/null",
            "-oCheckHostIp=no",
            f"-oHostKeyAlias={cluster_name}",
        ]
    elif any_key:
        # Nor is it remembered: soon the machine has the cluster's key.
        argv += ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null"]
    argv += [f"-oConnectTimeout={CONNECT_TIMEOUT}", f"-oPort={port}"]
    if batch:
        argv += ["-oBatchMode=yes", "-oStrictHostKeyChecking=yes"]
    # Not -q: it would hide why a connection failed.  At a terminal everything that ssh says is for the user.
    argv += ["-t"] if tty else [*(["-oLogLevel=ERROR"] if batch else []), *_KEEPALIVE]
    return [*argv, f"{_autoconf.SSH_LOGIN_USER}@{host}", _InHostEnvironment(host, command)]


def TrialCommand(host: str, cluster_name: str, port: int) -> str:
    """Return the command that shows at a shell what the node's programs meet when they log in to a node."""
    argv = BuildCommand(host, "hostname --fqdn", cluster_name, port)
    return " ".join(runtime.ShellQuote(word) for word in argv)


def _InHostEnvironment(host: str, command: str) -> str:
    """In a virtual cluster all nodes are one machine: the command line says which one is meant."""
    variables = pathutils.EnvironmentForHost(host)
    if not variables:
        return command
    settings = " ".join(f"{name}={runtime.ShellQuote(value)}" for name, value in variables.items())
    return f"export {settings}; {command}"
