"""Fields of OS definitions and external storage providers (doc/reference/queries.md 3.10, 3.11).

Both are put together from what every node that can run instances says about its own directories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ganeti.objects.base import Thaw
from ganeti.query.base import BOOL, OTHER, TEXT, Absent, Field, Kind
from ganeti.query.common import Attribute
from ganeti.query.context import LIVE_OS, LIVE_OS_FACTS, Context


class OsRow(NamedTuple):
    """One definition of an operating system on a node, as the node describes it."""

    path: str
    valid: bool
    message: str
    variants: Sequence[str]
    parameters: Sequence[Sequence[str]]
    api_versions: Sequence[int]
    trusted: bool


class ProviderRow(NamedTuple):
    """One provider of external storage on a node."""

    path: str
    valid: bool
    message: str
    parameters: Sequence[Sequence[str]]


Row = OsRow | ProviderRow


@dataclass
class DefinitionOnNodes:
    """One name, as all nodes know it.

    ``found``: node uuid -> rows; the first one of a node is the one it uses.
    """

    name: str
    found: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def node_status(self) -> dict[str, list[list[Any]]]:
        return {uuid: [list(row) for row in rows] for uuid, rows in self.found.items()}

    def First(self) -> list[Row]:
        return [rows[0] for rows in self.found.values() if rows]

    @property
    def valid(self) -> bool:
        return bool(self.found) and all(rows and rows[0].valid for rows in self.found.values())

    def Common(self, column: str) -> list[Any]:
        """Return what all nodes list in this column, sorted."""
        columns = [getattr(row, column) for row in self.First()]
        sets = [{tuple(v) if isinstance(v, (list, tuple)) else v for v in values} for values in columns]
        common = set.intersection(*sets) if sets else set()
        return [list(v) if isinstance(v, tuple) else v for v in sorted(common)]


def _Collect(context: Context, shape: Callable[..., Row]) -> list[DefinitionOnNodes]:
    found: dict[str, DefinitionOnNodes] = {}
    answering = []
    for node in context.snapshot.nodes.values():
        if not node.vm_capable:
            continue
        payload = context.Payload(context.os_info, node.uuid)
        if isinstance(payload, Absent):
            continue
        answering.append(node.uuid)
        for row in payload:
            name, *rest = row
            item = found.setdefault(name, DefinitionOnNodes(name))
            item.found.setdefault(node.uuid, []).append(shape(*rest))
    for item in found.values():
        for uuid in answering:
            item.found.setdefault(uuid, [])
    return list(found.values())


def Covers(listed: Any, name: str) -> bool:
    """Return whether a hidden or blacklisted entry covers an OS: a base name covers all its variants."""
    return name in listed or name.split("+", 1)[0] in listed


def _PerVariant(item: DefinitionOnNodes, settings: Any) -> dict[str, Any]:
    """Return the settings of ``name+variant`` (or the bare name without variants), the base's filled in."""
    variants = item.Common("variants")
    names = [f"{item.name}+{v}" for v in variants] or [item.name]
    base = Thaw(settings.get(item.name, {}))
    return {name: {**base, **Thaw(settings.get(name, {}))} for name in names}


def _OsHypervisor(context: Context, item: DefinitionOnNodes) -> dict[str, Any]:
    return _PerVariant(item, context.snapshot.cluster.os_hvp)


def _Versions(context: Context, item: DefinitionOnNodes) -> dict[str, str | None]:
    """Return the content of ``os_version`` on each node that has the definition; nodes that do not answer are left out."""
    answers = {uuid: context.os_facts.get(uuid) for uuid, rows in item.found.items() if rows}
    return {uuid: facts[item.name]["version"] for uuid, facts in answers.items() if facts and item.name in facts}


def _GroupStatus(context: Context, item: DefinitionOnNodes) -> dict[str, bool]:
    result = {}
    for group in context.snapshot.nodegroups.values():
        found = [item.found.get(uuid) for uuid in context.snapshot.GroupNodes(group.uuid)]
        known = [rows for rows in found if rows is not None]
        result[group.name] = bool(known) and all(rows and rows[0].valid for rows in known)
    return result


OS = Kind(
    "os",
    "name",
    [
        Field("name", "Name", TEXT, "OS name", Attribute("name")),
        Field("valid", "Valid", BOOL, "Whether it is valid on all nodes", lambda _, o: o.valid),
        Field(
            "hidden", "Hidden", BOOL, "Whether it is hidden", lambda c, o: Covers(c.snapshot.cluster.hidden_os, o.name)
        ),
        Field(
            "blacklisted",
            "Blacklisted",
            BOOL,
            "Whether it is blacklisted",
            lambda c, o: Covers(c.snapshot.cluster.blacklisted_os, o.name),
        ),
        Field("variants", "Variants", OTHER, "Variants that all nodes have", lambda _, o: o.Common("variants")),
        Field(
            "api_versions",
            "ApiVersions",
            OTHER,
            "Interfaces that all nodes have",
            lambda _, o: o.Common("api_versions"),
        ),
        Field("parameters", "Parameters", OTHER, "Parameters that all nodes have", lambda _, o: o.Common("parameters")),
        Field("node_status", "NodeStatus", OTHER, "What each node says", lambda _, o: o.node_status),
        Field("os_hvp", "OsHypervisorParams", OTHER, "Hypervisor parameters per variant", _OsHypervisor),
        Field(
            "osparams",
            "OsParameters",
            OTHER,
            "OS parameters per variant",
            lambda c, o: _PerVariant(o, c.snapshot.cluster.osparams),
        ),
        Field(
            "trusted",
            "Trusted",
            BOOL,
            "Whether it is trusted on all nodes",
            lambda _, o: all(row.trusted for row in o.First()),
        ),
        Field("os_version", "OsVersion", OTHER, "Version that each node has", _Versions, live=LIVE_OS_FACTS),
    ],
    items=lambda context: _Collect(context, OsRow),
    item_name=lambda item: item.name,
    live_items=LIVE_OS,
    default_fields="name variants",
)

EXTSTORAGE = Kind(
    "extstorage",
    "name",
    [
        Field("name", "Name", TEXT, "Provider", Attribute("name")),
        Field("node_status", "NodeStatus", OTHER, "What each node says", lambda _, o: o.node_status),
        Field("nodegroup_status", "NodegroupStatus", OTHER, "Whether all nodes of a group have it", _GroupStatus),
        Field("parameters", "Parameters", OTHER, "Parameters that all nodes have", lambda _, o: o.Common("parameters")),
    ],
    items=lambda context: _Collect(context, ProviderRow),
    item_name=lambda item: item.name,
    live_items=LIVE_OS,
)
