"""Procedures that write the cluster's files on this node, and those of the job queue, which the store owns."""

from __future__ import annotations

import grp
import posixpath
import pwd
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ganeti import constants, errors, pathutils, renewal, runtime, ssconf
from ganeti.params import hv
from ganeti.rpc.encoders import ReadBlob
from ganeti.rpc.procedures import STORE_OWNS
from ganeti.utils import owndirs

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_LIST_LIMIT = 1024 * 1024


def AllowedUploads() -> frozenset[str]:
    """Return every file that an upload may write on this node: a fixed list, and the administrator's own."""
    allowed = {
        pathutils.ETC_HOSTS,
        pathutils.SSH_KNOWN_HOSTS_FILE,
        pathutils.VNC_PASSWORD_FILE,
        pathutils.RAPI_CERT_FILE,
        pathutils.SPICE_CERT_FILE,
        pathutils.SPICE_CACERT_FILE,
        pathutils.RAPI_USERS_FILE,
        *renewal.Copied(),
        pathutils.CLUSTER_DOMAIN_SECRET_FILE,
        pathutils.EXTERNAL_MASTER_SETUP_SCRIPT,
        pathutils.KVM_VIF_BRIDGE,
        pathutils.EXTRA_FILES_LIST,
    }
    for traits in hv.TRAITS.values():
        allowed.update(path for path, _optional in traits.files)
    return frozenset(allowed | set(_PasswordFiles()) | set(ExtraFiles()))


def _PasswordFiles() -> list[str]:
    """Return the files that the cluster's hypervisor parameters name; ssconf has them on every node."""
    found = []
    for name in constants.HYPER_TYPES:
        for line in _Lines(pathutils.SsconfFile(f"hvparams_{name}")):
            key, _, value = line.partition("=")
            if key in hv.PASSWORD_FILES and value.startswith("/"):
                found.append(value)
    return found


def ExtraFiles() -> list[str]:
    """Return the administrator's list of further files: one absolute path per line, # begins a comment."""
    lines = (line.partition("#")[0].strip() for line in _Lines(pathutils.EXTRA_FILES_LIST))
    return [line for line in lines if line.startswith("/") and posixpath.normpath(line) == line]


def _Lines(path: str) -> list[str]:
    try:
        return runtime.ReadText(path, _LIST_LIMIT).splitlines()
    except FileNotFoundError:
        return []


def UploadFile(item: Sequence[Any]) -> None:
    UploadFileSingle(*item)


def UploadFileSingle(
    file_name: str,
    content: Sequence[Any],
    mode: int | None,
    uid: str | None,
    gid: str | None,
    atime: float,
    mtime: float,
) -> None:
    """Write one file; owner and group come as names."""
    path = pathutils.LocalizeVirtualPath(file_name)
    if path == pathutils.CLUSTER_CONF_FILE:
        _RefuseStoreFile()
    if path not in AllowedUploads() and not _IsPasswordFile(path):
        raise errors.RpcCallError(
            f"File {file_name} is not one that a node lets the cluster write; list it in {pathutils.EXTRA_FILES_LIST}"
        )
    _CheckFolder(path)
    if path == pathutils.EXTERNAL_MASTER_SETUP_SCRIPT:
        runtime.MakeDirs(posixpath.dirname(path), 0o755)  # nothing else lies there
    data = ReadBlob(content)
    user, group = _UserId(path, uid), _GroupId(path, gid)
    runtime.WriteFile(path, data, mode=0o600 if mode is None else mode, uid=user, gid=group)
    runtime.SetTimes(path, atime, mtime)


def _CheckFolder(path: str) -> None:
    """Raise RpcCallError if the file's folder is a link and lies where a daemon's user could have made that."""
    folder, _, _ = path.rpartition("/")
    if folder != pathutils.RAPI_DATA_DIR or not runtime.Exists(folder):
        return
    if not stat.S_ISDIR(runtime.Stat(folder, follow=False).st_mode):
        raise errors.RpcCallError(owndirs.NotADirectory(folder))


def _IsPasswordFile(path: str) -> bool:
    """Return whether it is an instance's own VNC or SPICE password; this node does not know which instances there are."""
    folder, _, name = path.rpartition("/")
    return folder == pathutils.CONF_DIR and "password" in name and _PLAIN.fullmatch(name) is not None


def _UserId(path: str, name: str | None) -> int:
    try:
        return -1 if name is None else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise errors.RpcCallError(f"File {path}: user '{name}' does not exist on this node; create it") from None


def _GroupId(path: str, name: str | None) -> int:
    try:
        return -1 if name is None else grp.getgrnam(name).gr_gid
    except KeyError:
        raise errors.RpcCallError(f"File {path}: group '{name}' does not exist on this node; create it") from None


def WriteSsconfFiles(values: Mapping[str, str | Sequence[str]]) -> None:
    texts = {key: value if isinstance(value, str) else "\n".join(value) for key, value in values.items()}
    ssconf.WriteSsconfFiles(texts)


def FileInfo(file_path: str) -> list[Any]:
    """Return [exists, {"size": bytes}]."""
    try:
        return [True, {"size": runtime.Stat(file_path).st_size}]
    except OSError:
        return [False, {}]


def _RefuseStoreFile(*_args: Any) -> NoReturn:
    raise errors.RpcCallError(STORE_OWNS)


HANDLERS: dict[str, Callable[..., Any]] = {
    "upload_file": UploadFile,
    "upload_file_single": UploadFileSingle,
    "write_ssconf_files": WriteSsconfFiles,
    "get_file_info": FileInfo,
    "jobqueue_purge": _RefuseStoreFile,
    "jobqueue_rename": _RefuseStoreFile,
    "jobqueue_set_drain_flag": _RefuseStoreFile,
    "jobqueue_update": _RefuseStoreFile,
}
