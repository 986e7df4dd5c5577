"""Templates whose storage others provide: devices that exist, RADOS, external providers; and no storage at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ganeti import constants
from ganeti.params.disk.base import (
    ACCESS,
    ADOPT_DEVICE,
    EXTERNAL,
    NAME_CHECK,
    AccessParam,
    DiskPlan,
    DiskRequest,
    DiskTemplate,
    Reservations,
)
from ganeti.params.types import STRING, MakeTable, Param

if TYPE_CHECKING:
    from ganeti import objects


class Diskless(DiskTemplate):
    name = constants.DT_DISKLESS
    text = "no disks"
    storage_type = constants.ST_DISKLESS
    mirror = EXTERNAL
    has_disks = first = convertible_from = convertible_to = False
    exclusive_storage = True


class BlockDevice(DiskTemplate):
    """``logical_id``: ``manual``, and the path of the device."""

    name = constants.DT_BLOCK
    text = "existing block devices, named with adopt"
    keys = frozenset(["adopt"])
    storage_type = constants.ST_BLOCK
    mirror = EXTERNAL
    cached = convertible_to = False
    adopts = ADOPT_DEVICE
    must_adopt = True

    def _Identity(self, plan: DiskPlan, request: DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        del plan, prefix, index
        return ("manual", request.adopt)

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        """Return nothing: the device was there before, and stays."""
        del disk, node_uuid
        return ""


class Rbd(DiskTemplate):
    """``logical_id``: ``rbd``, and the name of the image."""

    name = constants.DT_RBD
    text = "volumes in a Ceph pool"
    params = MakeTable(Param("pool", STRING, "rbd", "RADOS pool", NAME_CHECK, "2.6", required=True), AccessParam("2.9"))
    layers = ({key: key for key in params},)
    keys = frozenset([ACCESS])
    storage_type = constants.ST_RADOS
    mirror = EXTERNAL
    mapped = growable = True

    def _Identity(self, plan: DiskPlan, request: DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        del plan, request
        return ("rbd", f"{prefix}.rbd.disk{index}")

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        del node_uuid
        return f"remove image {self.Place(disk)} from its Ceph pool if it is there"


class Ext(DiskTemplate):
    """``logical_id``: the provider, and a name that the provider uses."""

    name = constants.DT_EXT
    text = "storage of an external provider"
    params = MakeTable(AccessParam("2.13"))
    layers = ({key: key for key in params},)
    keys = frozenset([ACCESS, "provider"])
    provider = looked_after = mapped = True
    hook_names = ("PROVIDER", "ID")
    storage_type = constants.ST_EXT
    mirror = EXTERNAL
    cached = False
    growable = grows_to_size = snapshots = True

    def MakeDisk(self, ids: Reservations, plan: DiskPlan, request: DiskRequest, index: int) -> objects.Disk:
        """Return a disk whose provider stands among its parameters too, as scripts get it from there."""
        disk = super().MakeDisk(ids, plan, request, index)
        return disk.Replace(params={"provider": request.provider, **disk.params})

    def _Identity(self, plan: DiskPlan, request: DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        del plan
        return (request.provider, f"{prefix}.ext.disk{index}")

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        del node_uuid
        return f"remove volume {self.Place(disk)} of storage provider {self.Source(disk)} if it is there"
