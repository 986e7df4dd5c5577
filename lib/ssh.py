"""SSH keys of a node: where they are, the lines of authorized_keys and ganeti_pub_keys, commands (doc/reference/files.md 12).

A node of a virtual cluster has keys of its own below its directory; the machine's are never touched.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from ganeti import _autoconf, errors, pathutils, runtime
from ganeti.utils import files

KEY_KINDS = ("rsa", "dsa", "ecdsa", "ed25519")
DEFAULT_BITS = {"rsa": 2048, "dsa": 1024, "ecdsa": 521}
_ECDSA_BITS = (256, 384, 521)
_MIN_RSA_BITS = 1024
CONNECT_TIMEOUT = 10
# A machine that dies while a command runs on it is noticed after a minute.
_KEEPALIVE = ("-oServerAliveInterval=15", "-oServerAliveCountMax=4")
_LIMIT = 4 * 1024 * 1024
_KEYGEN_TIMEOUT = 120

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
    return None


# Lines


def SameKey(one: str, other: str) -> bool:
    """Return whether two lines hold the same key, whatever options and comments they have."""
    return bool(_KeyOf(one)) and _KeyOf(one) == _KeyOf(other)


def _KeyOf(line: str) -> tuple[str, str] | None:
    """Return (type, key) of a line of authorized_keys or a public key file."""
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    for word, following in itertools.pairwise(words):
        if word.startswith(("ssh-", "ecdsa-", "sk-")):
            return word, following
    return None


def WithKeys(text: str, keys: Iterable[str]) -> str:
    """Return the ``text`` of authorized_keys with these keys, each once."""
    lines = text.splitlines()
    for key in keys:
        line = CheckKeyLine(key)
        if not any(SameKey(line, known) for known in lines):
            lines.append(line)
    return _Joined(lines)


def WithoutKeys(text: str, keys: Iterable[str]) -> str:
    """Return the ``text`` of authorized_keys without these keys; comments and other lines stay."""
    unwanted = {_KeyOf(CheckKeyLine(key)) for key in keys}
    return _Joined([line for line in text.splitlines() if _KeyOf(line) is None or _KeyOf(line) not in unwanted])


def CheckKeyLine(line: str) -> str:
    """Return the line of one key without blanks around it; SshUpdateError for anything else."""
    stripped = line.strip()
    if "\n" in stripped or "\r" in stripped or "\0" in stripped or _KeyOf(stripped) is None:
        raise errors.SshUpdateError(f"This is not a line of an SSH key: {stripped[:60]!a}")
    return stripped


def _Joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def ParseNodeKeys(text: str) -> dict[str, list[str]]:
    """Parse ganeti_pub_keys: ``NODEUUID <public key line>``, several per node possible."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        uuid, _, key = line.strip().partition(" ")
        if uuid and key.strip():
            found.setdefault(uuid, []).append(key.strip())
    return found


def FormatNodeKeys(keys: KeysByNode) -> str:
    return "".join(f"{uuid} {key}\n" for uuid, lines in keys.items() for key in lines)


# Files


def ReadIfThere(path: str) -> str:
    try:
        return runtime.ReadText(path, _LIMIT)
    except FileNotFoundError:
        return ""


def AuthorizeKeys(keys: Iterable[str]) -> None:
    _ChangeAuthorized(lambda text: WithKeys(text, keys))


def ForbidKeys(keys: Iterable[str]) -> None:
    _ChangeAuthorized(lambda text: WithoutKeys(text, keys))


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
    runtime.WriteFile(path, after, mode=mode, uid=uid, gid=gid)


def ReadNodeKeys() -> dict[str, list[str]]:
    return ParseNodeKeys(ReadIfThere(pathutils.SSH_PUB_KEYS_FILE))


def WriteNodeKeys(keys: KeysByNode) -> None:
    checked = {uuid: [CheckKeyLine(line) for line in lines] for uuid, lines in keys.items()}
    runtime.WriteFile(pathutils.SSH_PUB_KEYS_FILE, FormatNodeKeys(checked), mode=0o600)


# Programs


def BuildKeygen(kind: str, bits: int, path: str) -> list[str]:
    return ["ssh-keygen", "-t", kind, "-b", str(bits), "-f", path, "-q", "-N", ""]


def MakeUserKey(kind: str, bits: int, suffix: str = "") -> str:
    """Make a new key pair of the login user, keep the old one beside it, and return the public line.

    One with a ``suffix`` is not in use: what an earlier attempt left is replaced.
    """
    private, public = UserKeyFiles(kind, suffix)
    runtime.MakeDirs(UserDir(), 0o700)
    for path in (private, public):
        if suffix:
            runtime.RemoveFile(path)
        else:
            files.BackUp(path)
    result = runtime.RunCmd(BuildKeygen(kind, bits, private), timeout=_KEYGEN_TIMEOUT)
    if result.failed:
        raise errors.SshUpdateError(f"Could not make the SSH key {private}: {result.fail_reason}")
    # ssh-keygen leaves it to the system when they reach the disk; others soon trust it.
    for path, mode in ((private, 0o600), (public, 0o644)):
        runtime.WriteFile(path, runtime.ReadFile(path, _LIMIT), mode=mode)
    return runtime.ReadText(public, _LIMIT).strip()


def BuildCommand(
    host: str,
    command: str,
    cluster_name: str | None,
    port: int = 22,
    batch: bool = True,
    tty: bool = False,
    any_key: bool = False,
) -> list[str]:
    """Return the command that runs another on a node, trusting the cluster's host key only.

    ``cluster_name`` None: a machine that is not in the cluster yet; its key is asked for, or must be known to the user,
    or is not looked at (``any_key``).
    """
    argv = ["ssh", "-oEscapeChar=none", "-oHashKnownHosts=no"]
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


def _InHostEnvironment(host: str, command: str) -> str:
    """In a virtual cluster all nodes are one machine: the command line says which one is meant."""
    variables = pathutils.EnvironmentForHost(host)
    if not variables:
        return command
    settings = " ".join(f"{name}={runtime.ShellQuote(value)}" for name, value in variables.items())
    return f"export {settings}; {command}"
