"""The package with which a helper VM installs an operating system that no node trusts (doc/design-install.rst)."""

from __future__ import annotations

import io
import posixpath
import re
import stat
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import errors, objects, pathutils, runtime
from ganeti.backend import blockdev, wire
from ganeti.backend.guestos import osdef, osenv
from ganeti.backend.guestos.osdef import OsDefinition
from ganeti.storage import base, tree
from ganeti.utils import owndirs

Dict = dict[str, Any]

# Bytes of a definition, which is packed in memory.
_LIMIT = 256 * 1024 * 1024
# Room for the variables: Linux passes no more than 128 KiB in one, and few have as much.
_ENVIRONMENT = base.BLOCK_BYTES
# Characters.
_REPORT_LIMIT = 64 * 1024
# Where a disk is on this node; a helper reaches nothing of it, and it may name secrets.
_OF_NODE = re.compile(r"DISK_\d+_URI")


def Export(instance: Dict, override_env: Mapping[str, str]) -> str:
    """os_export: return the path of a temporary .tgz with the package, which may hold secrets: only root reads it."""
    guest = wire.Instance(instance)
    found = osdef.Load(guest.os)
    owndirs.MakeOwn(pathutils.RUN_EXT_DIR)
    path = posixpath.join(pathutils.RUN_EXT_DIR, f"os-{found.name}-{runtime.RandomBytes(6).hex()}.tgz")
    runtime.WriteFile(path, _Packed(found, guest, override_env, "w:gz"), mode=0o600, sync=False)
    return path


def Size(name: str) -> int:
    """os_package_size: return how many bytes a disk for the package of an operating system must have."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:") as archive:
        _AddDefinition(archive, osdef.Load(name))
    return len(_Padded(buffer.getvalue())) + _ENVIRONMENT


def Write(instance_osp: Dict, override_env: Dict, bdev: Dict) -> None:
    """os_package_write: write the package to the beginning of a disk."""
    data = _ForDisk(instance_osp, override_env)
    device = tree.FindOrFail(wire.Disk(bdev))
    if len(data) > device.Dimensions()[0]:
        raise errors.RpcCallError(
            f"{device}: the package of {instance_osp.get('os')} has {len(data)} bytes, which is too much for it"
        )
    blockdev.CheckWritable(device)
    result = blockdev.RunDd(device.ImportCommand(), data)
    if result.failed:
        raise errors.RpcCallError(
            f"{device}: the package of {instance_osp.get('os')} cannot be written: {result.fail_reason}"
        )


def Report(bdev: Dict) -> str:
    """os_package_report: return what a helper has written over the package, up to the first NUL."""
    device = tree.FindOrFail(wire.Disk(bdev))
    result = blockdev.RunDd(device.ExportCommand(mib=1))
    if result.failed:
        raise errors.RpcCallError(f"{device}: cannot be read: {result.fail_reason}")
    return result.stdout.partition("\0")[0][:_REPORT_LIMIT]


def _ForDisk(instance_osp: Dict, override_env: Mapping[str, str]) -> bytes:
    """Return the package as a tar archive that fills whole MiB, so that nothing of what was there before stays behind it."""
    guest = wire.Instance(instance_osp)
    data = _Packed(osdef.Load(guest.os), guest, override_env, "w:")
    return _Padded(data)


def _Padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // base.BLOCK_BYTES) * base.BLOCK_BYTES, b"\0")


def _Packed(found: OsDefinition, guest: objects.Instance, override_env: Mapping[str, str], mode: Any) -> bytes:
    """Return an archive with the definition in ``os/``, links followed, and ``environment``, lines NAME=VALUE."""
    env = {**osenv.ForInstance(found, guest), **override_env}
    lines = "".join(
        f"{key}={value}\n" for key, value in sorted(env.items()) if "\n" not in value and not _OF_NODE.fullmatch(key)
    )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        _AddDefinition(archive, found)
        _AddFile(archive, "environment", lines.encode(), 0o600)
    return buffer.getvalue()


def _AddDefinition(archive: tarfile.TarFile, found: OsDefinition) -> None:
    try:
        for path, name in _Files(found.path, "os"):
            _AddFile(archive, name, runtime.ReadFile(path, limit=_LIMIT), stat.S_IMODE(runtime.Stat(path).st_mode))
            if archive.offset > _LIMIT:
                raise osdef.OsError(
                    f"OS {found.name}: {found.path} has more than {_LIMIT >> 20} MiB, too much for a package"
                )
    except OSError as err:
        raise osdef.OsError(
            f"OS {found.name}: {err.filename or found.path} cannot be packed: {err.strerror or err}"
        ) from err


def _Files(directory: str, inside: str) -> Iterator[tuple[str, str]]:
    """Yield (path, name in the archive) of each regular file below a directory, with links followed."""
    for name in sorted(runtime.ListDir(directory)):
        path, member = posixpath.join(directory, name), f"{inside}/{name}"
        mode = runtime.Stat(path).st_mode
        if stat.S_ISDIR(mode):
            yield from _Files(path, member)
        elif stat.S_ISREG(mode):
            yield path, member


def _AddFile(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, int(runtime.Time())
    archive.addfile(entry, io.BytesIO(data))


HANDLERS = {
    "os_export": Export,
    "os_package_report": Report,
    "os_package_size": Size,
    "os_package_write": Write,
}
