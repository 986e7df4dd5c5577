"""Files on a Gluster volume: template ``gluster``.  Logical id: [driver, path below the top of the volume].

Parameters: ``host``, ``port``, ``volume``.  The volume is mounted at the cluster's ``gluster_storage_dir`` when a disk on
it is needed and stays mounted: other disks of the node may use it, and an idle mount does no harm.
"""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti import constants, errors, pathutils, runtime, ssconf
from ganeti.storage import paths
from ganeti.storage.drivers.file import FileDevice
from ganeti.storage.utilities import programs
from ganeti.utils import owndirs, procfs

_MOUNTS = "/proc/self/mounts"
_MOUNTS_LIMIT = 16 * 1024 * 1024
_FS_TYPES = ("fuse.glusterfs", "glusterfs")
_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


@dataclass(frozen=True)
class Volume:
    """A Gluster volume and where this node has it."""

    ip: str
    port: int
    name: str
    mount_point: str

    def __str__(self) -> str:
        return f"Gluster volume {self.name} of {self.ip}"

    def IsMounted(self) -> bool:
        """Return whether the volume is mounted; another one in its place is an error."""
        found = MountedAt(self.mount_point)
        if found is None:
            return False
        source, fs_type = found
        if fs_type not in _FS_TYPES or VolumeName(source) != VolumeName(f":{self.name}"):
            raise errors.BlockDeviceError(
                f"{self}: '{source}' ({fs_type}) is mounted at {self.mount_point}; stop the instances of this node that"
                f" use it, then 'umount {self.mount_point}'"
            )
        return True

    def Mount(self) -> None:
        """Mount the volume unless it is mounted.  What ``mount`` returns says nothing; it is looked at afterwards."""
        if self.IsMounted():
            return
        try:
            if self.mount_point == pathutils.DEFAULT_GLUSTER_STORAGE_DIR:
                owndirs.MakeOwn(self.mount_point)
            else:
                runtime.MakeDirs(self.mount_point)
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: cannot make {self.mount_point}: {err.strerror}") from err
        result = runtime.RunCmd(BuildMount(self), timeout=programs.SECONDS, cwd=self.mount_point)
        if not self.IsMounted():
            why = programs.Reason(result) if result.failed else "'mount' reported no error"
            raise errors.BlockDeviceError(
                f"{self}: cannot be mounted at {self.mount_point}: {why}; is the server up and the volume started"
                f" ('gluster volume status {self.name}' there)? /var/log/glusterfs of this node shows more"
            )


class GlusterFile(FileDevice):
    """A sparse file; it is found while its volume is mounted."""

    OPEN_ASSEMBLES = True
    IF_MISSING = "are the instance's disks active? Activating them mounts their volume"

    @property
    def path(self) -> str:
        relative = self._NamedPath()
        if posixpath.isabs(relative) or posixpath.normpath(relative) != relative or relative.startswith(".."):
            raise errors.BlockDeviceError(f"{self}: '{relative}' is not a plain path below the top of a volume")
        return posixpath.join(MountPoint(), relative)

    def Attach(self) -> bool:
        self._SetGone()
        return self._Volume().IsMounted() and super().Attach()

    def UserspaceUri(self, hypervisor: str) -> str | None:
        if not self.userspace or hypervisor != constants.HT_KVM:
            return None
        volume = self._Volume()
        host = f"[{volume.ip}]" if ":" in volume.ip else volume.ip
        return f"gluster://{host}:{volume.port}/{volume.name}/{self.unique_id[1]}"

    def Create(self, size: int, exclusive: bool = False) -> None:
        self._Volume().Mount()
        folder = posixpath.dirname(self._CheckedPath())
        try:
            runtime.MakeDirs(folder, mode=0o750)
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: cannot make its directory '{folder}': {err.strerror}") from err
        super().Create(size, exclusive)

    def Assemble(self) -> None:
        self._Volume().Mount()
        super().Assemble()

    def Remove(self) -> None:
        self._Volume().Mount()
        super().Remove()

    def Rename(self, new_id: Sequence[Any]) -> None:
        self._Unsupported("renaming")

    def _CheckedPath(self) -> str:
        """Return the path; whoever mounts the volume has allowed all that lies on it."""
        path, top = self.path, MountPoint()
        try:
            paths.CheckWithin(posixpath.dirname(path), [top], f"nothing outside of {top} is used")
        except errors.FileStoragePathError as err:
            raise errors.BlockDeviceError(f"{self}: {err}") from err
        return path

    def _Volume(self) -> Volume:
        params = self.disk.params
        host, port, name = params.get("host", "127.0.0.1"), params.get("port", 24007), params.get("volume", "gv0")
        if not isinstance(name, str) or not name.strip("/") or not isinstance(port, int):
            raise errors.BlockDeviceError(f"{self}: volume {name!r} with port {port!r} cannot be mounted")
        return Volume(_Address(str(host), str(self)), port, name.strip("/"), MountPoint())


def MountPoint() -> str:
    """Return where this node has the cluster's Gluster volume."""
    return ssconf.SimpleStore().GetGlusterStorageDir() or pathutils.DEFAULT_GLUSTER_STORAGE_DIR


def MountedAt(path: str) -> tuple[str, str] | None:
    """Return (source, type) of what is mounted at a path on this node."""
    try:
        real = paths.WithoutLinks(path)
    except errors.FileStoragePathError as err:
        raise errors.BlockDeviceError(str(err)) from err
    return FindMount(procfs.ReadText(_MOUNTS, _MOUNTS_LIMIT), real)


def _Address(host: str, what: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return runtime.LookupHost(host)[1][0]
    except errors.ResolverError as err:
        raise errors.BlockDeviceError(
            f"{what}: Gluster server '{host}' has no address on this node: {err}; correct the name resolution, or name"
            " another server with 'gnt-cluster modify -D gluster:host=ADDRESS'"
        ) from err


def BuildMount(volume: Volume) -> list[str]:
    source = f"{volume.ip}:/{volume.name}"
    return ["mount", "-t", "glusterfs", "-o", f"server-port={volume.port}", source, volume.mount_point]


def FindMount(mounts: str, mount_point: str) -> tuple[str, str] | None:
    """Return (source, type) of what is mounted at a path; the last line counts, as it lies on top."""
    found = None
    for line in procfs.Lines(mounts):
        words = line.split(" ")
        if len(words) >= 3 and _Unescaped(words[1]) == mount_point:
            found = _Unescaped(words[0]), words[2]
    return found


def VolumeName(source: str) -> str:
    """Return the volume in ``SERVER:/VOLUME``; some versions leave the slash out."""
    return source.rpartition(":")[2].strip("/")


def _Unescaped(word: str) -> str:
    for escape, char in _ESCAPES.items():
        word = word.replace(escape, char)
    return word
