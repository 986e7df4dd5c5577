"""Instances, their NICs and disks (doc/reference/config.md 8 and 9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ganeti import constants, ht
from ganeti.objects.base import (
    DEFAULTED,
    OPTIONAL,
    OURS,
    RUNTIME,
    ConfigObject,
    Field,
    SerialField,
    TagsField,
    TimeField,
    UuidField,
)

_SCALARS = ht.TListOf(ht.TOr(ht.TString, ht.TInt, ht.TNone))


class NIC(ConfigObject):
    """A network interface; embedded in its instance, the order counts."""

    KIND = "nic"

    mac: str = Field(ht.TString, doc="lower case")
    ip: str | None = Field(ht.TString, default=None, written=OPTIONAL)
    nicparams: Mapping[str, Any] = Field(
        ht.TDict, default={}, since="2.1", doc="own mode, link, vlan; in a network the group's complete set"
    )
    network: str | None = Field(ht.TString, default=None, written=OPTIONAL, since="2.7", doc="network uuid")
    name: str | None = Field(ht.TString, default=None, written=OPTIONAL, since="2.8")
    uuid: str = UuidField()
    netinfo: Mapping[str, Any] | None = Field(
        ht.TDict, default=None, written=RUNTIME, since="2.7", doc="the network object's stored form"
    )
    hvinfo: Mapping[str, Any] | None = Field(ht.TDict, default=None, written=RUNTIME, since="2.16")
    pci: int | None = Field(ht.TInt, default=None, written=RUNTIME, since="2.10")


class Disk(ConfigObject):
    """A disk of an instance, a detached one, or the lower half of another; ``logical_id`` by template: config.md 16."""

    KIND = "disk"
    FORTHCOMING_NEEDS = frozenset(["uuid", "serial_no", "forthcoming"])

    forthcoming: bool | None = Field(ht.TBool, default=None, written=OPTIONAL, since="2.14", doc="only a reservation")
    dev_type: str = Field(ht.TString, doc="disk template")
    logical_id: tuple[Any, ...] = Field(_SCALARS, doc="identity below the template", secret=True)
    children: tuple[Disk, ...] = Field(
        ht.TList, default=(), written=DEFAULTED, doc="DRBD: data and metadata", many="self"
    )
    nodes: tuple[str, ...] = Field(
        ht.TListOf(ht.TString), default=(), written=DEFAULTED, since="2.14", doc="uuids of the nodes that hold it"
    )
    iv_name: str = Field(ht.TString, default="", written=DEFAULTED, doc="disk/N; empty for children and detached disks")
    size: int = Field(ht.TNonNegativeInt, doc="MiB")
    mode: str = Field(
        ht.TElemOf((constants.DISK_RDWR, constants.DISK_RDONLY)), default=constants.DISK_RDWR, written=DEFAULTED
    )
    name: str | None = Field(ht.TString, default=None, written=OPTIONAL, since="2.8")
    spindles: int | None = Field(ht.TNonNegativeInt, default=None, written=OPTIONAL, since="2.9")
    params: Mapping[str, Any] = Field(ht.TDict, default={}, since="2.6", doc="own disk parameters; ext: the provider's")
    behind: Mapping[str, Any] | None = Field(
        ht.TStrictDict({"node": ht.TNonEmptyString, "since": ht.TFloat}, {}, ht.TAny),
        default=None,
        written=OPTIONAL,
        since=OURS,
        doc="mirror: {node: uuid of the side that does not count, since: when} (doc/design-drbd.rst)",
    )
    decision: int | None = Field(
        ht.TNonNegativeInt,
        default=None,
        written=OPTIONAL,
        since=OURS,
        doc="mirror: how often it was decided which sides count",
    )
    adopts: str | None = Field(
        ht.TNonEmptyString,
        default=None,
        written=OPTIONAL,
        since=OURS,
        doc="plain: the volume's own name until its adoption has ended",
    )
    uuid: str = UuidField()
    ctime: float = TimeField("when it was made")
    mtime: float = TimeField("last change")
    serial_no: int = SerialField()
    dynamic_params: Mapping[str, Any] | None = Field(
        ht.TDict, default=None, written=RUNTIME, doc="what holds for the node called (config.md 17.4)"
    )
    hvinfo: Mapping[str, Any] | None = Field(ht.TDict, default=None, written=RUNTIME, since="2.16")
    pci: int | None = Field(ht.TInt, default=None, written=RUNTIME, since="2.10")

    def Walk(self) -> Iterator[Disk]:
        """Yield the disk and everything below it."""
        yield self
        for child in self.children:
            yield from child.Walk()

    def OwnId(self) -> tuple[str, str]:
        """Return volume group and name of a volume before its adoption (``adopts``)."""
        assert self.adopts is not None
        return str(self.logical_id[0]), self.adopts

    def Decide(self, behind: Mapping[str, Any] | None) -> Disk:
        """Return the disk with another record, or the same one anew: nodes refuse calls that carry an older one."""
        return self.Replace(behind=behind, decision=(self.decision or 0) + 1)

    def Minors(self) -> Iterator[tuple[str, int]]:
        """Yield (node uuid, minor) of each DRBD device of this disk."""
        for disk in self.Walk():
            if disk.dev_type == constants.DT_DRBD8 and disk.logical_id and len(disk.logical_id) >= 5:
                node_a, node_b, _, minor_a, minor_b = disk.logical_id[:5]
                yield node_a, minor_a
                yield node_b, minor_b

    def Ports(self) -> Iterator[int]:
        """Yield the TCP port of each DRBD device of this disk."""
        for disk in self.Walk():
            if disk.dev_type == constants.DT_DRBD8 and disk.logical_id and len(disk.logical_id) >= 3:
                yield disk.logical_id[2]

    def Secrets(self) -> Iterator[str]:
        """Yield the shared secret of each DRBD device of this disk."""
        for disk in self.Walk():
            if disk.dev_type == constants.DT_DRBD8 and disk.logical_id and len(disk.logical_id) >= 6:
                yield disk.logical_id[5]

    def VolumeNames(self) -> Iterator[str]:
        """Yield ``vg/lv`` of each logical volume of this disk."""
        for disk in self.Walk():
            name = VolumeName(disk.dev_type, disk.logical_id)
            if name is not None:
                yield name


def VolumeName(dev_type: str | None, logical_id: Sequence[Any] | None) -> str | None:
    """Return ``vg/lv`` if a disk of this type and place is a logical volume."""
    return "/".join(logical_id) if dev_type == constants.DT_PLAIN and logical_id and len(logical_id) == 2 else None


def CommonTemplate(disks: Iterable[Disk]) -> str:
    """Return the template that disks have in common (doc/reference/config.md 8.1)."""
    kinds = {disk.dev_type for disk in disks}
    if not kinds:
        return constants.DT_DISKLESS
    return kinds.pop() if len(kinds) == 1 else constants.DT_MIXED


class Instance(ConfigObject):
    """A virtual machine.  Its disks are objects of their own, named here by uuid in order.

    What is annotated as text may be missing in a reservation; see ``Snapshot.IsBare``.
    """

    KIND = "instance"
    FORTHCOMING_NEEDS = frozenset(["uuid", "serial_no", "forthcoming"])

    forthcoming: bool | None = Field(ht.TBool, default=None, written=OPTIONAL, since="2.14", doc="only a reservation")
    name: str = Field(ht.TNonEmptyString, doc="fully qualified name")
    primary_node: str = Field(ht.TString, doc="node uuid")
    os: str = Field(ht.TString, doc="os or os+variant")
    hypervisor: str = Field(ht.TString)
    hvparams: Mapping[str, Any] = Field(ht.TDict, default={}, written=DEFAULTED, doc="own values only")
    beparams: Mapping[str, Any] = Field(ht.TDict, default={}, written=DEFAULTED, doc="own values only")
    osparams: Mapping[str, str] = Field(
        ht.TDict, default={}, written=DEFAULTED, since="2.2", doc="own public OS parameters"
    )
    osparams_private: Mapping[str, str] = Field(
        ht.TDict, default={}, written=DEFAULTED, since="2.12", doc="own private OS parameters", secret=True
    )
    admin_state: str = Field(ht.TElemOf(constants.ADMINST_ALL), since="2.6")
    admin_state_source: str = Field(
        ht.TElemOf((constants.ADMIN_SOURCE, constants.USER_SOURCE)),
        default=constants.ADMIN_SOURCE,
        since="2.11",
        doc="who decided on the state",
    )
    nics: tuple[NIC, ...] = Field(ht.TList, default=(), written=DEFAULTED, doc="ordered", many=NIC)
    disks: tuple[str, ...] = Field(ht.TListOf(ht.TString), default=(), written=DEFAULTED, doc="disk uuids, ordered")
    disks_active: bool = Field(ht.TBool, since="2.8", doc="devices should be assembled")
    network_port: int | None = Field(ht.TInt, default=None, written=OPTIONAL, doc="console port: kvm, xen-hvm")
    uuid: str = UuidField()
    tags: tuple[str, ...] = TagsField()
    ctime: float = TimeField("when it was made")
    mtime: float = TimeField("last change")
    serial_no: int = SerialField()
    secondary_nodes: tuple[str, ...] | None = Field(
        ht.TListOf(ht.TString), default=None, written=RUNTIME, doc="node uuids"
    )
    disks_info: tuple[Disk, ...] | None = Field(
        ht.TList, default=None, written=RUNTIME, since="2.12", doc="the disk objects in order", many=Disk
    )
    osparams_secret: Mapping[str, str] | None = Field(
        ht.TDict, default=None, written=RUNTIME, since="2.12", doc="from the opcode", secret=True
    )
    attempt: str | None = Field(
        ht.TUuid,
        default=None,
        written=RUNTIME,
        since=OURS,
        doc="to start it; the same in all calls that open its disks and start it",
    )

    @property
    def known_as(self) -> str:
        """Return the name; the uuid of a reservation that has none."""
        return self.name or self.uuid
