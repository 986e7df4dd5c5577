"""prepare-node-join: gives this machine the cluster's SSH host keys and root a new key, from JSON on standard input."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import ht, pathutils, runtime, ssh
from ganeti.tools import setupdata
from ganeti.tools.setupdata import CERTIFICATE, CLUSTER_NAME, SetupError
from ganeti.utils import files

_HOST_KEYS = "ssh_host_key"
_ROOT_KEYS = "ssh_root_key"
_AUTHORIZED = "authorized_keys"
_KEY_TYPE, _KEY_BITS = "ssh_key_type", "ssh_key_bits"
_RELOAD_TIMEOUT = 120

_KEY_LIST = ht.TListOf(ht.TItems(ht.TNonEmptyString, ht.TNonEmptyString, ht.TNonEmptyString))
_SHAPE = ht.TStrictDict(
    {},
    {
        CLUSTER_NAME: ht.TNonEmptyString,
        CERTIFICATE: ht.TNonEmptyString,
        _HOST_KEYS: _KEY_LIST,
        _ROOT_KEYS: _KEY_LIST,
        _AUTHORIZED: ht.TDictOf(ht.TNonEmptyString, ht.TListOf(ht.TString)),
        _KEY_TYPE: ht.TElemOf(list(ssh.KEY_KINDS)),
        _KEY_BITS: ht.TPositiveInt,
    },
)


def Work(data: Mapping[str, Any], dry_run: bool) -> None:
    setupdata.CheckServerCertificate(data)
    host_keys, root_keys = data.get(_HOST_KEYS, ()), data.get(_ROOT_KEYS, ())
    for kind, _, public in [*host_keys, *root_keys]:
        ssh.CheckKind(kind)
        ssh.CheckKeyLine(public)
    keys = [ssh.CheckKeyLine(line) for lines in data.get(_AUTHORIZED, {}).values() for line in lines]
    if dry_run:
        logging.info("This is a dry run, nothing is changed")
        return
    _WriteRootKeys(root_keys)
    if _KEY_TYPE in data:
        keys.append(ssh.MakeUserKey(data[_KEY_TYPE], data.get(_KEY_BITS, 2048)))
    if keys:
        ssh.AuthorizeKeys(keys)
    # Last: a machine that shows the cluster's key lets its master in, wherever this was cut off.
    if host_keys:
        _WriteHostKeys(host_keys)


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
        "prepare-node-join", "Prepares a machine for joining; reads JSON from standard input", _SHAPE, Work
    )
