"""Types of storage units, which are what disks lie in: ``TYPES`` by name (doc/reference/noderpc.md 3.7, design 2.1).

The master and its clients ask the type's object and never compare names.  A new type is a name in ``constants``, a line in
``TYPES``, and what finds its units on a node: a line in ``storage.units.UNITS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import constants, ht
from ganeti.params.types import Check

if TYPE_CHECKING:
    from ganeti import objects

NAME, SIZE, USED, FREE, ALLOCATABLE = "name", "size", "used", "free", "allocatable"
# The UUIDs of the physical volumes that are away, and the paths of those among them whose device is there again; nodes of older
# releases reject both.
MISSING, RETURNED = "missing", "returned"
FIX_CONSISTENCY = "fix-consistency"


class Field(NamedTuple):
    """A field of a unit, with its title in tables."""

    title: str
    is_size: bool = False  # MiB
    shape: ht.Type = ht.TAny
    """What nodes send."""


# What the caller knows by itself, and what nodes know of every unit.
OWN_FIELDS: Mapping[str, Field] = {"node": Field("Node"), "type": Field("Type")}
FIELDS: Mapping[str, Field] = {
    NAME: Field("Name", shape=ht.TString),
    SIZE: Field("Size", True, ht.TQuantity),
    USED: Field("Used", True, ht.TQuantity),
    FREE: Field("Free", True, ht.TQuantity),
    ALLOCATABLE: Field("Allocatable", shape=ht.TBool),
}


@dataclass(frozen=True)
class UnitType:
    """A type of storage units, as the master knows it."""

    name: str
    text: str = ""
    """What one of its units is, for people."""
    listed: bool = False
    """Nodes list its units."""
    more: Mapping[str, Field] = field(default_factory=dict)
    """Fields beside FIELDS; looked at only when somebody asks for them."""
    changes: Mapping[str, Check] = field(default_factory=dict)
    """What can be changed in a unit."""
    operations: frozenset[str] = frozenset()
    directory: str | None = None
    """The cluster's field with the directory of the files; a node lists the directories that it is given."""
    space: str | None = None
    """The cluster's field with the unit whose space counts; none where nodes do not report any."""
    parts: tuple[str, ...] = ()
    """Types of what its units consist of, looked at together with them."""
    spindles: bool = False
    """Its space is a number of spindles."""
    exclusive: bool = False
    """Its space depends on whether the node has exclusive storage."""
    volumes: bool = False
    """Its units hold logical volumes."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """What nodes know of a unit."""
        return {**FIELDS, **self.more}

    def Arguments(self, cluster: objects.Cluster) -> list[Any]:
        """Return what nodes are given besides the type."""
        return [[getattr(cluster, self.directory)]] if self.directory else []

    def Holds(self, name: str, disk: objects.Disk) -> bool:
        """Return whether some of a disk lies in the unit of this name; only types that can be repaired need to know."""
        return self.volumes and any(volume.startswith(f"{name}/") for volume in disk.VolumeNames())


TYPES: dict[str, UnitType] = {
    kind.name: kind
    for kind in (
        UnitType(
            constants.ST_LVM_PV,
            "Physical volume",
            listed=True,
            changes={ALLOCATABLE: Check("true or false", lambda value: isinstance(value, bool))},
            spindles=True,
            exclusive=True,
        ),
        UnitType(
            constants.ST_LVM_VG,
            "Volume group",
            listed=True,
            more={
                MISSING: Field("Missing", shape=ht.TListOf(ht.TString)),
                RETURNED: Field("Returned", shape=ht.TListOf(ht.TString)),
            },
            operations=frozenset([FIX_CONSISTENCY]),
            space="volume_group_name",
            parts=(constants.ST_LVM_PV,),
            exclusive=True,
            volumes=True,
        ),
        UnitType(constants.ST_FILE, "Directory", listed=True, directory="file_storage_dir", space="file_storage_dir"),
        UnitType(constants.ST_SHARED_FILE, "Directory", listed=True, directory="shared_file_storage_dir"),
        UnitType(constants.ST_GLUSTER, "Mount point", listed=True, directory="gluster_storage_dir"),
        *map(UnitType, (constants.ST_BLOCK, constants.ST_DISKLESS, constants.ST_EXT, constants.ST_RADOS)),
    )
}


def RowShape(name: str, fields: Sequence[str]) -> ht.Type:
    """Return what a node sends of a unit of a type that is asked for these fields."""
    known = Of(name).fields
    return ht.TItems(*(known[field].shape if field in known else ht.TAny for field in fields))


def Of(name: str) -> UnitType:
    """Return what is known of a type that a request or a node names, which may be nothing."""
    return TYPES.get(name) or UnitType(name)
