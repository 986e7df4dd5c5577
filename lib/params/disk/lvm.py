"""Plain logical volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ganeti import constants
from ganeti.params.disk.base import ADOPT_VOLUME, DiskPlan, DiskRequest, DiskTemplate, RunThere
from ganeti.params.types import INT, AtLeast, MakeTable, Param

if TYPE_CHECKING:
    from ganeti import objects


class Plain(DiskTemplate):
    name = constants.DT_PLAIN
    text = "LVM volumes on the primary node"
    params = MakeTable(Param("stripes", INT, 1, "stripes of the volume", AtLeast(1), "2.6", required=True))
    layers = ({"stripes": "stripes"},)
    keys = frozenset(["adopt", "vg", "spindles"])
    storage_type = constants.ST_LVM_VG
    lvm = volume = disk_state = True
    hook_names = ("VG", "ID")
    nodes = 1
    on_secondaries = True  # below a mirror
    copyable = growable = snapshots = space_checked = exclusive_storage = True
    adopts = ADOPT_VOLUME

    def _Identity(self, plan: DiskPlan, request: DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        return (request.vg or plan.vg, f"{prefix}.disk{index}")

    def Unit(self, cluster: objects.Cluster, disk: objects.Disk) -> str | None:
        del cluster
        return self.Source(disk)

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        del node_uuid
        return RunThere(*RemoveVolumes(disk))


def RemoveVolumes(disk: objects.Disk) -> list[str]:
    """Return the commands that remove a disk's volumes on a node by hand."""
    return [f"lvremove {name}" for name in disk.VolumeNames()]
