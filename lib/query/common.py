"""Fields that several kinds have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ganeti.query.base import BOOL, FLOAT, NODATA, NUMBER, OTHER, TEXT, TIMESTAMP, Field, NiceSort
from ganeti.query.context import LIVE_PROOF


def Attribute(name: str) -> Callable[[Any, Any], Any]:
    """Getter of a plain attribute."""

    def get(_context: Any, item: Any) -> Any:
        return getattr(item, name)

    return get


def TimestampFields() -> list[Field]:
    return [
        Field("ctime", "CTime", TIMESTAMP, "Creation time", Attribute("ctime")),
        Field("mtime", "MTime", TIMESTAMP, "Modification time", Attribute("mtime")),
    ]


def WeakNodesField(groups: Callable[[Any, Any], Iterable[str]]) -> Field:
    """Return the field that names the nodes of these groups, given by their UUIDs, whose failure would do harm."""

    def get(context: Any, item: Any) -> Any:
        if context.proof is None:
            return NODATA
        return NiceSort(
            context.NodeName(uuid) for group in groups(context, item) for uuid in context.proof.WeakNodes(group)
        )

    text = "Nodes whose failure would leave running instances down"
    return Field("weak_nodes", "WeakNodes", OTHER, text, get, live=LIVE_PROOF)


def ObjectFields(what: str) -> list[Field]:
    """Times, serial, uuid and tags."""
    return [
        *TimestampFields(),
        Field("serial_no", "SerialNo", NUMBER, f"Change counter of the {what}", Attribute("serial_no")),
        Field("uuid", "UUID", TEXT, f"UUID of the {what}", Attribute("uuid")),
        Field("tags", "Tags", OTHER, "Tags", lambda _, item: list(item.tags)),
    ]


_NODE_PARAMETERS = (
    ("exclusive_storage", "ExclusiveStorage", BOOL),
    ("oob_program", "OutOfBandProgram", OTHER),
    ("ovs", "OpenvSwitch", BOOL),
    ("ovs_link", "OpenvSwitchLink", OTHER),
    ("ovs_name", "OpenvSwitchName", OTHER),
    ("spindle_count", "SpindleCount", NUMBER),
    ("ssh_port", "ndp/ssh_port", NUMBER),
    ("cpu_speed", "ndp/cpu_speed", FLOAT),
)


def NodeParameterFields(fill: Callable[[Any, Any], Any]) -> list[Field]:
    """Return the ``ndp/X`` fields; ``fill(context, item)`` gives the effective node parameters."""

    def getter(name: str) -> Callable[[Any, Any], Any]:
        return lambda context, item: fill(context, item).get(name)

    return [
        Field(f"ndp/{name}", title, kind, f"The '{name}' node parameter", getter(name))
        for name, title, kind in _NODE_PARAMETERS
    ]


def Column(index: int) -> Callable[[Any, Any], Any]:
    """Read a field from a row that is a tuple."""
    return lambda _context, row: row[index]
