"""What a disk template is: facts, and what follows from them (doc/reference/parameters.md 5, config.md 15, 16).

The master asks the template's object and never compares names.  The node's side of a template is its driver
(``storage``).
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ganeti import constants
from ganeti.params.types import STRING, Check, Defaults, OneOf, Param, ValueProblems
from ganeti.params.units import TYPES, UnitType

if TYPE_CHECKING:
    from ganeti import objects

ACCESS = "access"
KERNELSPACE, USERSPACE = "kernelspace", "userspace"
INTERNAL, EXTERNAL = "internal", "external"

# How existing storage becomes a disk: a logical volume is renamed, a device is used under its own name.
ADOPT_VOLUME, ADOPT_DEVICE = "volume", "device"

# Keys of a disk in a request that every template has.
COMMON_KEYS = frozenset(["size", "mode", "name"])
ALL_KEYS = COMMON_KEYS | {"adopt", "vg", "metavg", "provider", ACCESS, "spindles"}

NAME_CHECK = Check("a name without blanks", lambda value: not any(c.isspace() for c in value))


def AccessParam(since: str) -> Param:
    return Param(
        ACCESS, STRING, KERNELSPACE, "how a disk is opened", OneOf(KERNELSPACE, USERSPACE), since, required=True
    )


@dataclass
class DiskRequest:
    """One disk as asked for; ``size`` in MiB, 0 while it is to be found out (adoption)."""

    size: int
    mode: str = constants.DISK_RDWR
    name: str | None = None
    vg: str | None = None
    metavg: str | None = None
    adopt: str | None = None
    provider: str | None = None
    access: str | None = None
    spindles: int | None = None
    ext: dict[str, Any] = field(default_factory=dict)

    # What hooks see of a disk before there is one.
    uuid = ""
    logical_id: tuple[Any, ...] = ()


@dataclass
class DiskPlan:
    """Where and how the disks of one instance are made.

    ``vg``: the cluster's volume group; ``values``: the filled parameters of the template.
    """

    template: str
    instance_uuid: str
    primary: str
    secondary: str | None = None
    directory: str | None = None
    driver: str = constants.FD_LOOP
    vg: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


class Reservations(Protocol):
    """Where identities come from; each stays reserved until the job ends."""

    def UniqueId(self) -> str: ...

    def Minors(self, nodes: Sequence[str], disk_uuid: str) -> Sequence[int]: ...

    def Port(self) -> int: ...

    def Secret(self) -> str: ...


def RunThere(*commands: str) -> str:
    """Return what to do on a node with things that may not be there."""
    names = " and ".join(f'"{command}"' if "'" in command else f"'{command}'" for command in commands)
    return f"run {names} there if {'it exists' if len(commands) == 1 else 'they exist'}"


class DiskTemplate:
    """A disk template, as the master knows it."""

    name: ClassVar[str]
    text: ClassVar[str]
    """What its disks are, for people."""

    # --- parameters ---------------------------------------------------------------------------------------------------

    params: ClassVar[dict[str, Param]] = {}
    """The parameters that clusters and groups keep."""
    layers: ClassVar[tuple[Mapping[str, str], ...]] = ({},)
    """Of the disk and of its children in order: the device's name of a parameter -> the template's."""
    keys: ClassVar[frozenset[str]] = frozenset()
    """What a request for a disk may say beside the keys that all have."""
    vg_param: ClassVar[str | None] = None
    """The parameter that a new cluster sets to its volume group."""
    provider: ClassVar[bool] = False
    """A disk names its provider and may have any parameters, which are the provider's."""

    # --- where the data lies ------------------------------------------------------------------------------------------

    storage_type: ClassVar[str]
    """The type of the storage units that hold its disks."""
    lvm: ClassVar[bool] = False
    volume: ClassVar[bool] = False
    """A disk is one logical volume: its identity is a volume group and a name."""
    file_based: ClassVar[bool] = False
    listed_directory: ClassVar[bool] = False
    """Each node lists the directories that may be used."""
    verify_key: ClassVar[str | None] = None
    """What the check of that directory is called in ``node_verify``."""
    name_in_path: ClassVar[bool] = False
    """The instance's name is part of the path."""
    nodes: ClassVar[int] = 0
    """How many nodes stand in the disk's list of nodes."""
    mirror: ClassVar[str | None] = None
    """Who keeps a second copy: nobody, we (internal), or what lies below (external)."""
    mirror_of: ClassVar[str | None] = None
    """The template of a disk that becomes the first child of a mirror without its data being copied."""
    helper: ClassVar[bool] = False
    """Needs the user-mode helper that the cluster names."""
    on_secondaries: ClassVar[bool] = False
    """Made and set up on secondary nodes too, so that its state there says something."""
    mapped: ClassVar[bool] = False
    """Must be taken off a node that no longer runs the instance."""
    cached: ClassVar[bool] = True
    """What one node has in its cache is never read by another."""
    looked_after: ClassVar[bool] = False
    """Whoever provides the storage also watches it."""
    id_items: ClassVar[int] = 2
    hook_names: ClassVar[tuple[str, ...]] = ("DRIVER", "ID")
    """What hooks call the parts of its identity."""
    overhead: ClassVar[int] = 0
    """MiB that a disk takes beside its size."""

    # --- what can be done ---------------------------------------------------------------------------------------------

    has_disks: ClassVar[bool] = True
    first: ClassVar[bool] = True
    """The first disk of an instance that has none can be made with it."""
    disk_state: ClassVar[bool] = False
    """What nodes have of its storage can be recorded by hand."""
    copyable: ClassVar[bool] = False
    """An instance can be moved by copying."""
    growable: ClassVar[bool] = False
    grows_to_size: ClassVar[bool] = False
    """Its driver makes it as large as what is recorded and the amount together, whatever it has: repeating adds nothing."""
    snapshots: ClassVar[bool] = False
    space_checked: ClassVar[bool] = False
    """The free space of its volume groups is checked before a disk is made or grows."""
    adopts: ClassVar[str | None] = None
    must_adopt: ClassVar[bool] = False
    convertible_from: ClassVar[bool] = True
    convertible_to: ClassVar[bool] = True
    exclusive_storage: ClassVar[bool] = False
    """Allowed with exclusive storage."""

    @property
    def unit_type(self) -> UnitType:
        return TYPES[self.storage_type]

    @property
    def directory(self) -> str | None:
        """The cluster's field with the directory of its files."""
        return self.unit_type.directory

    @property
    def access(self) -> bool:
        """Whether it has the parameter ``access``."""
        return ACCESS in self.params

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        return Defaults(self.params)

    def SyntaxProblems(self, values: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with values of the right types."""
        return ValueProblems(values, self.params, f"disk template {self.name}, parameter")

    # --- disk objects -------------------------------------------------------------------------------------------------

    def MakeDisk(self, ids: Reservations, plan: DiskPlan, request: DiskRequest, index: int) -> objects.Disk:
        """Return a new disk object with its own identity."""
        from ganeti import objects  # whoever makes no disks does not pay for it

        prefix = ids.UniqueId()
        own = dict(request.ext)
        if request.access is not None and self.access:
            own[ACCESS] = request.access
        return objects.Disk(
            dev_type=self.name,
            logical_id=self._Identity(plan, request, prefix, index),
            size=request.size,
            mode=request.mode,
            name=request.name,
            spindles=request.spindles,
            iv_name=f"disk/{index}",
            nodes=(plan.primary,) if self.nodes else (),
            params=own,
            uuid=ids.UniqueId(),
        )

    def _Identity(self, plan: DiskPlan, request: DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        """Return the ``logical_id`` of a new disk; ``prefix`` is unique in the cluster."""
        raise NotImplementedError

    def OnNodes(self, ids: Reservations, disk: objects.Disk, nodes: Sequence[str]) -> objects.Disk:
        """Return the disk as it is when it lies on these nodes."""
        del ids
        return disk.Replace(nodes=tuple(nodes) if disk.nodes else ())

    # --- what an identity says ------------------------------------------------------------------------------------------

    def Data(self, disk: objects.Disk) -> objects.Disk:
        """Return the part that has the guest's data."""
        return disk

    def Source(self, disk: objects.Disk) -> str:
        """Return what its place is a name in: the volume group, the file driver or the provider."""
        return str(self.Data(disk).logical_id[0])

    def Place(self, disk: objects.Disk) -> str:
        """Return the name of its volume or image, or the path of its file or device."""
        return str(self.Data(disk).logical_id[1])

    def Directory(self, disk: objects.Disk) -> str | None:
        """Return the directory that its file shares with the others of its instance, if that has the instance's name."""
        return posixpath.dirname(self.Place(disk)) if self.name_in_path else None

    def Unit(self, cluster: objects.Cluster, disk: objects.Disk) -> str | None:
        """Return the storage unit that its data lies in, such as a volume group; None where nodes report no space of it."""
        del cluster, disk
        return None

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        """Return how people remove what a disk that is in no configuration (any longer) may have left on a node.

        What it is called there is all that they can look for.  Empty where nothing of it is ours.
        """
        del node_uuid
        return f"remove {self.Place(disk)} if it is there"

    def At(self, disk: objects.Disk, place: str) -> objects.Disk:
        """Return the disk with another place of the same source."""
        return disk.Replace(logical_id=(disk.logical_id[0], place))

    def Anew(self, disk: objects.Disk, prefix: str) -> objects.Disk:
        """Return the disk with storage of another unique name; nodes and all else stay."""
        folder, slash, name = self.Place(disk).rpartition("/")
        return self.At(disk, f"{folder}{slash}{prefix}.{name.partition('.')[2]}")

    # --- what others see of a disk ------------------------------------------------------------------------------------

    def HookEnv(self, disk: objects.Disk, node_name: Callable[[str], str]) -> dict[str, Any]:
        """Return the variables of hooks for its identity (doc/reference/interfaces.md c.4)."""
        del node_name
        return dict(zip(self.hook_names, disk.logical_id, strict=False))

    def ShownId(self, disk: objects.Disk, node_name: Callable[[str], str]) -> list[Any]:
        """Return the identity for people: no secret, nodes by name."""
        del node_name
        return list(disk.logical_id)

    def MirrorInfo(self, disk: objects.Disk, node_name: Callable[[str], str]) -> dict[str, Any] | None:
        """Return both sides of a mirror for people; None where there are none."""
        del disk, node_name
        return None

    def Minor(self, disk: objects.Disk, node_uuid: str) -> int | None:
        """Return the number of a mirror's device on a node; None where there is none."""
        del disk, node_uuid
        return None

    def NodeParams(self, disk: objects.Disk, node_uuid: str, nodes: Mapping[str, objects.Node]) -> dict[str, Any]:
        """Return the parameters that are sent to one node alone (doc/reference/config.md 17.4)."""
        del disk, node_uuid, nodes
        return {}

    def ForNode(self, disk: objects.Disk, node_uuid: str) -> objects.Disk:
        """Return the disk as a node may know it: no secret goes to one that has nothing of the disk."""
        del node_uuid
        return disk


class MirrorTemplate(DiskTemplate):
    """A template whose disks we mirror ourselves: two nodes have the same data in volumes below the disk."""

    mirror = INTERNAL
    nodes = 2

    def NewVolumes(self, disk: objects.Disk, prefix: str, index: int) -> list[objects.Disk]:
        """Return what is below a mirror with names of its own, to take the place of what one side has."""
        raise NotImplementedError

    def WithSecondary(self, disk: objects.Disk, primary: str, secondary: str, minor: int) -> objects.Disk:
        """Return the mirror of the primary with another secondary node, which has this minor."""
        raise NotImplementedError

    def Unconnected(self, disk: objects.Disk) -> objects.Disk:
        """Return the mirror as a side is made that is not to be connected yet."""
        raise NotImplementedError

    def OnVolumeOf(self, mirror: objects.Disk, old: objects.Disk) -> objects.Disk:
        """Return the mirror above the volume of ``old`` (``mirror_of``), which keeps its name."""
        raise NotImplementedError

    def Metadata(self, disk: objects.Disk) -> objects.Disk:
        """Return the part that says how complete the data is."""
        raise NotImplementedError
