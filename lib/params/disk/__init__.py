"""Disk templates, one object each: ``TEMPLATES`` by name.

    base     DiskTemplate: what there is to know of a template; DiskRequest, DiskPlan
    lvm      plain
    drbd     drbd
    files    file, sharedfile, gluster
    outside  diskless, blockdev, rbd, ext

A new template is a name in ``constants``, a class with a line in ``TEMPLATES`` here, and a driver in ``storage``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti.params.disk.base import (
    ACCESS,
    ADOPT_DEVICE,
    ADOPT_VOLUME,
    ALL_KEYS,
    COMMON_KEYS,
    EXTERNAL,
    INTERNAL,
    KERNELSPACE,
    USERSPACE,
    DiskPlan,
    DiskRequest,
    DiskTemplate,
    MirrorTemplate,
    RunThere,
)
from ganeti.params.disk.drbd import DEFAULT_DRBD_HELPER, Drbd
from ganeti.params.disk.files import File, Gluster, SharedFile
from ganeti.params.disk.lvm import Plain
from ganeti.params.disk.outside import BlockDevice, Diskless, Ext, Rbd
from ganeti.params.units import TYPES

if TYPE_CHECKING:
    from ganeti import objects

__all__ = [
    "ACCESS",
    "ADOPT_DEVICE",
    "ADOPT_VOLUME",
    "ALL_KEYS",
    "COMMON_KEYS",
    "DEFAULT_DRBD_HELPER",
    "EXTERNAL",
    "INTERNAL",
    "KERNELSPACE",
    "TEMPLATES",
    "USERSPACE",
    "AllDefaults",
    "DiskPlan",
    "DiskRequest",
    "DiskTemplate",
    "MirrorOf",
    "MirrorTemplate",
    "Mirrored",
    "Of",
    "OtherSide",
    "RunThere",
    "StorageUnits",
    "SyntaxProblems",
    "UnitTypes",
    "With",
]

TEMPLATES: dict[str, DiskTemplate] = {
    template.name: template
    for template in (Diskless(), File(), SharedFile(), Plain(), BlockDevice(), Drbd(), Rbd(), Ext(), Gluster())
}


def Of(disk: objects.Disk) -> DiskTemplate:
    """Return the template of a disk, or of a part of one."""
    assert disk.dev_type is not None
    return TEMPLATES[disk.dev_type]


def MirrorOf(disk: objects.Disk) -> MirrorTemplate:
    """Return the template of a disk that we mirror."""
    template = Of(disk)
    assert isinstance(template, MirrorTemplate), f"{template.name} is not mirrored by us"
    return template


def With(**wanted: Any) -> frozenset[str]:
    """Return the names of the templates that have all these traits: ``With(lvm=True)``, ``With(mirror="internal")``."""
    return frozenset(
        name
        for name, template in TEMPLATES.items()
        if all(getattr(template, trait) == value for trait, value in wanted.items())
    )


def UnitTypes() -> dict[str, list[str]]:
    """Return the types of storage units that nodes list -> the templates whose disks lie in them."""
    return {
        unit: [name for name, known in TEMPLATES.items() if unit in (known.storage_type, *known.unit_type.parts)]
        for unit in sorted(TYPES)
        if TYPES[unit].listed
    }


def StorageUnits(cluster: objects.Cluster, template: str | None = None) -> list[tuple[str, str]]:
    """Return the storage units with the space for disks of a template; none where nodes do not report it.

    Without a template, or with one that is not enabled, they are those of the first enabled template that has any.
    """
    enabled = cluster.enabled_disk_templates
    for name in [template] if template is not None and template in enabled else enabled:
        kind = TEMPLATES[name].unit_type
        key = getattr(cluster, kind.space) if kind.space else None
        if key:
            return [(part, key) for part in (kind.name, *kind.parts)]
    return []


def Mirrored() -> frozenset[str]:
    """Return the names of the templates whose disks exist twice, whatever keeps the second copy."""
    return With(mirror=INTERNAL) | With(mirror=EXTERNAL)


def OtherSide(disk: objects.Disk, node_uuid: str) -> str | None:
    """Return the node of a mirror's other side; None of a disk that we do not mirror."""
    if Of(disk).mirror != INTERNAL or node_uuid not in disk.nodes:
        return None
    return next((uuid for uuid in disk.nodes if uuid != node_uuid), None)


def AllDefaults() -> dict[str, dict[str, Any]]:
    """Return the default parameters of every template."""
    return {name: template.defaults for name, template in TEMPLATES.items()}


def SyntaxProblems(template: str, values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with parameters of the right types, of a template by name."""
    return TEMPLATES[template].SyntaxProblems(values)
