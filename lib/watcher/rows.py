"""What the watcher looks at, as the master answers: instances and nodes of one group."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ganeti import constants

INSTANCE_FIELDS = (
    "name", "uuid", "status", "admin_state", "disks_active", "pnode", "snodes", "pnode.group.uuid",
    "snodes.group.uuid", "pnode.group", "snodes.group", "disk_template", "forthcoming", "serial_no",
)  # fmt: skip
NODE_FIELDS = ("name", "bootid", "offline", "group.uuid", "vm_capable", "uuid", "serial_no", "tags")


@dataclasses.dataclass(frozen=True)
class Instance:
    """One instance; ``groups``, ``group_names``: UUIDs and names of its nodes' groups."""

    name: str
    uuid: str
    status: str
    admin_state: str
    disks_active: bool
    primary: str
    secondaries: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()
    group_names: frozenset[str] = frozenset()
    template: str = "diskless"
    serial: int = 0

    @property
    def version(self) -> str:
        """Return what a job gives as ``if_match`` that must not run after the instance was changed."""
        return f"{self.uuid}-{self.serial}"

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.primary, *self.secondaries)


@dataclasses.dataclass(frozen=True)
class Node:
    """One node; ``boot_id`` is None for one that did not report it."""

    name: str
    boot_id: str | None
    offline: bool = False
    vm_capable: bool = True
    uuid: str = ""
    serial: int = 0
    tags: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Return what a job gives as ``if_match`` that must not run after the node was changed."""
        return f"{self.uuid}-{self.serial}"


def Values(row: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the values of a row of Query; None for one that there is not."""
    return [value if status == constants.RS_NORMAL else None for status, value in row]


def Instances(data: Sequence[Sequence[Sequence[Any]]]) -> list[Instance]:
    """Return the instances of a query for INSTANCE_FIELDS; those that are only reserved are left out."""
    found = []
    for row in map(Values, data):
        name, uuid, status, admin, active, primary, secondaries, *groups, template, forthcoming, serial = row
        if forthcoming or not name:
            continue
        uuids, names = _Joined(*groups[:2]), _Joined(*groups[2:])
        secondaries = tuple(secondaries or ())
        found.append(
            Instance(
                name,
                uuid,
                status or "",
                admin or "",
                bool(active),
                primary or "",
                secondaries,
                uuids,
                names,
                template or "",
                serial or 0,
            )
        )
    return found


def _Joined(one: str | None, others: Sequence[str] | None) -> frozenset[str]:
    return frozenset(filter(None, [one, *(others or ())]))


def Nodes(data: Sequence[Sequence[Sequence[Any]]]) -> list[Node]:
    """Return the nodes of a query for NODE_FIELDS."""
    return [
        Node(name, boot_id or None, bool(offline), bool(vm_capable), uuid or "", serial or 0, tuple(tags or ()))
        for name, boot_id, offline, _, vm_capable, uuid, serial, tags in map(Values, data)
    ]
