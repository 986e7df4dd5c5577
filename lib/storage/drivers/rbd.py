"""Images in a Ceph pool: template ``rbd``.  Logical id: ["rbd", name]; parameter ``pool``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ganeti import constants, errors, runtime, serializer
from ganeti.storage import looks
from ganeti.storage.drivers.device import NodeDevice
from ganeti.storage.utilities import programs

_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+:-]{0,127}")
# Exit codes of rbd are numbers of errors.
_GONE, _EXISTS = 2, 17
_NO_SNAPSHOT = ("", "-")
_COLUMNS = 5


@dataclass(frozen=True)
class MappedImage:
    """One device that rbd made on this node; ``pool`` is None if rbd does not say it."""

    pool: str | None
    name: str
    device: str


class Image(NodeDevice):
    """An image.  It is found while it is mapped, which makes it a device of the node."""

    OPEN_ASSEMBLES = True

    def Attach(self) -> bool:
        self._SetGone()
        device = self._Mapped()
        if device is None:
            return False
        self._Take(device)
        return True

    def UserspaceUri(self, hypervisor: str) -> str | None:
        if not self.userspace or hypervisor != constants.HT_KVM:
            return None
        pool, name = self._Id()
        return f"rbd:{pool}/{name}"

    def Create(self, size: int, exclusive: bool = False) -> None:
        self._CheckShared(exclusive)
        pool, name = self._Id()
        result = programs.Run(BuildCreate(pool, name, size))
        if result.exit_code == _EXISTS:
            raise errors.BlockDeviceError(
                f"{self}: exists already in pool {pool}; it is left as it is. Look at it with 'rbd info -p {pool} {name}'"
            )
        if result.failed:
            raise errors.BlockDeviceError(f"{self}: cannot be created in pool {pool}: {programs.Reason(result)}")

    def Assemble(self) -> None:
        if self.Attach():
            return
        pool, name = self._Id()
        result = programs.Run(BuildMap(pool, name))
        if result.exit_code == _GONE:
            raise errors.BlockDeviceError(
                f"{self}: does not exist in pool {pool}, or there is no such pool; 'rbd ls -p {pool}' shows its images."
                f" {self.IfLost('the image')}"
            )
        if result.failed:
            raise errors.BlockDeviceError(
                f"{self}: cannot be mapped: {programs.Reason(result)}; see 'ceph -s' and the end of 'dmesg' on this node"
            )
        if not self.Attach():
            raise errors.BlockDeviceError(f"{self}: was mapped, but 'rbd showmapped' does not show it")

    def Shutdown(self) -> None:
        device = self._Mapped()
        if device is not None:
            programs.Act(BuildUnmap(device), f"{self}: cannot be unmapped from {device}")
        self._SetGone()

    def Remove(self) -> None:
        self.Shutdown()
        pool, name = self._Id()
        result = programs.Run(BuildRemove(pool, name), programs.LONG_SECONDS)
        if result.failed and result.exit_code != _GONE:
            raise errors.BlockDeviceError(
                f"{self}: cannot be removed: {programs.Reason(result)}; 'rbd status -p {pool} {name}' shows who uses it"
            )

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        self._CheckGrowth(amount)
        if dry_run or not backing_store:
            return
        pool, name = self._Id()
        size = self._GrownSize(amount)
        programs.Act(BuildResize(pool, name, size), f"{self}: cannot be grown to {size} MiB")

    def _Id(self) -> tuple[str, str]:
        """Return the pool and the name of the image; nothing that rbd could take for more than that."""
        pool = self.disk.params.get("pool", "rbd")
        if not isinstance(pool, str) or not _NAME.fullmatch(pool):
            raise errors.BlockDeviceError(f"{self}: {pool!r} is not the name of a pool")
        if len(self.unique_id) != 2 or not _NAME.fullmatch(str(self.unique_id[1])):
            raise errors.BlockDeviceError(f"{self}: logical id must be ['rbd', name of an image]")
        return pool, str(self.unique_id[1])

    def _Mapped(self) -> str | None:
        """Return the device of the image."""
        pool, name = self._Id()
        devices = [image.device for image in Mapped() if image.name == name and image.pool in (pool, None)]
        if len(devices) > 1:
            raise errors.BlockDeviceError(
                f"{self}: is mapped more than once on this node, as {', '.join(devices)}; find out which of them is in"
                " use ('lsblk', 'fuser -v DEVICE') and take the others away with 'rbd unmap DEVICE'"
            )
        return devices[0] if devices else None


# --- command lines ----------------------------------------------------------------------------------------------------


def BuildShowMapped(as_json: bool) -> list[str]:
    return ["rbd", "showmapped", *(["--format", "json"] if as_json else [])]


def BuildCreate(pool: str, name: str, size: int) -> list[str]:
    return ["rbd", "create", "-p", pool, name, "--size", str(size)]


def BuildMap(pool: str, name: str) -> list[str]:
    return ["rbd", "map", "-p", pool, name]


def BuildUnmap(device: str) -> list[str]:
    return ["rbd", "unmap", device]


def BuildRemove(pool: str, name: str) -> list[str]:
    return ["rbd", "rm", "-p", pool, name]


def BuildResize(pool: str, name: str, size: int) -> list[str]:
    return ["rbd", "resize", "-p", pool, name, "--size", str(size)]


# --- what is mapped ---------------------------------------------------------------------------------------------------


def Mapped() -> list[MappedImage]:
    """Return the images that are devices of this node."""
    return looks.Once("rbd showmapped", _LookAtMapped)


def _LookAtMapped() -> list[MappedImage]:
    result = runtime.RunCmd(BuildShowMapped(as_json=True), timeout=programs.SECONDS)
    if not result.failed and not result.truncated:
        try:
            return ParseJson(serializer.Load(result.stdout))
        except errors.ParseError:
            pass  # an rbd that knows no other form than its table
    if result.timeout is not None:
        raise errors.BlockDeviceError(f"rbd cannot be asked: {programs.Reason(result)}")
    return ParseTable(programs.Look(BuildShowMapped(as_json=False), "rbd cannot be asked"))


def ParseJson(data: Any) -> list[MappedImage]:
    """Read both forms: a dict by number (until Mimic), a list (since Nautilus); snapshots and namespaces are not ours."""
    items = list(data.values()) if isinstance(data, dict) else data
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise errors.BlockDeviceError(f"'rbd showmapped' printed JSON that cannot be read: {str(data)[:120]}")
    found = []
    for item in items:
        name, device, pool = item.get("name"), item.get("device"), item.get("pool")
        if not isinstance(name, str) or not isinstance(device, str) or not isinstance(pool, str | None):
            raise errors.BlockDeviceError(f"'rbd showmapped' printed an entry that cannot be read: {str(item)[:120]}")
        if item.get("snap", "-") in _NO_SNAPSHOT and not item.get("namespace"):
            found.append(MappedImage(pool, name, device))
    return found


def ParseTable(output: str) -> list[MappedImage]:
    """Read the table: id, pool, image, snapshot, device.  A line with a namespace has more words and is not ours."""
    found = []
    for line in output.splitlines():
        words = line.split()
        if not words or words[0] == "id":
            continue
        if len(words) < _COLUMNS or not words[0].isdigit() or not words[-1].startswith("/dev/"):
            raise errors.BlockDeviceError(
                f"'rbd showmapped' printed a line that cannot be read: {line.strip()[:120]!r}"
            )
        _, pool, name, snapshot, device = words[:_COLUMNS]
        if len(words) == _COLUMNS and snapshot in _NO_SNAPSHOT:
            found.append(MappedImage(pool, name, device))
    return found
