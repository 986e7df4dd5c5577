"""prepare-node-join: gives this machine the cluster's SSH host keys and root a new key, from JSON on standard input."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import errors, joindata, pathutils, runtime, ssh
from ganeti.tools import setupdata
from ganeti.tools.setupdata import SetupError
from ganeti.utils import files

_RELOAD_TIMEOUT = 120
# Keys of type ed25519 have one length; ssh-keygen wants a number all the same.
_ANY_BITS = 256


def Work(data: Mapping[str, Any], dry_run: bool) -> None:
    setupdata.CheckServerCertificate(data)
    if joindata.NODE_NAME in data:
        setupdata.CheckThisMachine(data[joindata.NODE_NAME], data.get(joindata.SSCONF, {}))
    host_keys, root_keys = data.get(joindata.HOST_KEYS, ()), data.get(joindata.ROOT_KEYS, ())
    for kind, _, public in [*host_keys, *root_keys]:
        ssh.CheckKind(kind)
        ssh.CheckKeyLine(public)
    keys = [ssh.CheckKeyLine(line) for lines in data.get(joindata.AUTHORIZED, {}).values() for line in lines]
    new_key = _NewKey(data)
    if dry_run:
        logging.info("This is a dry run, nothing is changed")
        return
    _WriteRootKeys(root_keys)
    former = [*_FormerKeys(), *_KeysOfNodes(data)]
    if new_key is not None:
        former.append(ssh.BareKey(ssh.ReadUserKey(new_key[0])))
        made = ssh.MakeUserKey(*new_key)
        # As the master files it, and withdraws it one day.
        keys.append(ssh.KeyOfNode(made, data[joindata.NODE_NAME]) if joindata.NODE_NAME in data else made)
    if keys:
        ssh.ReplaceAuthorized(former, keys)
    # Last: a machine that shows the cluster's key lets its master in, wherever this was cut off.
    if host_keys:
        _WriteHostKeys(host_keys)


def _NewKey(data: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return type and bits of the key that root shall get, if any; SetupError if there is no such key."""
    kind = data.get(joindata.KEY_TYPE)
    if kind is None:
        return None
    bits = data.get(joindata.KEY_BITS, ssh.DEFAULT_BITS.get(kind, _ANY_BITS))
    problem = ssh.BitsProblem(kind, bits)
    if problem:
        raise SetupError(problem)
    return kind, bits


def _FormerKeys() -> list[str]:
    """Return the keys that this machine has accepted as a node; they may have been replaced while it was away."""
    try:
        return [line for lines in ssh.ReadNodeKeys().values() for line in lines]
    except errors.SshUpdateError as err:
        logging.warning("Keys that this machine accepted as a node stay in authorized_keys: %s", err)
        return []


def _KeysOfNodes(data: Mapping[str, Any]) -> list[str]:
    """Return the keys that a node which comes back accepts as those of nodes, told by their comments as ``verify`` tells them.

    One that cannot become a candidate has no list of them.  A machine that was no node keeps what its administrator let in.
    """
    nodes = setupdata.NodeNames(data.get(joindata.SSCONF, {}))
    if data.get(joindata.NODE_NAME) not in nodes:
        return []
    found = [line for line in ssh.ReadAuthorized() if ssh.IsKeyOfRoot(line, nodes)]
    logging.info("%d keys of nodes are in authorized_keys; those that no candidate has now are taken out", len(found))
    return found


def _WriteHostKeys(keys: Sequence[Sequence[str]]) -> None:
    for kind, private, public in keys:
        _ReplacePair(pathutils.SshHostKey(kind), private, public)
    argv = [pathutils.DAEMON_UTIL, "reload-ssh-keys"]
    result = runtime.RunCmd(argv, env=dict(runtime.Environment()), timeout=_RELOAD_TIMEOUT)
    if result.failed:
        raise SetupError(f"Could not make the SSH daemon read its new keys: {result.fail_reason}")


def _WriteRootKeys(keys: Sequence[Sequence[str]]) -> None:
    for kind, private, public in keys:
        runtime.MakeDirs(ssh.UserDir(), 0o700)
        _ReplacePair(ssh.UserKeyFiles(kind), private, public)
        ssh.AuthorizeKeys([public])


def _ReplacePair(paths: tuple[str, str], private: str, public: str) -> None:
    """Put a key in the place of another, of which a copy is kept; at no moment is there none.

    SSH can do without the public half, but not with that of another key.
    """
    texts = [text if text.endswith("\n") else text + "\n" for text in (private, public)]
    if [ssh.ReadIfThere(path) for path in paths] == texts:
        return
    for path in paths:
        files.KeepCopy(path)
    runtime.RemoveFile(paths[1], sync=True)
    for path, text, mode in zip(paths, texts, (0o600, 0o644), strict=True):
        logging.info("Writing %s", path)
        runtime.WriteFile(path, text, mode=mode)


def Main() -> int:
    return setupdata.Main(
        "prepare-node-join",
        "Prepares a machine for joining; reads JSON from standard input",
        joindata.PREPARE_NODE_JOIN,
        Work,
    )
