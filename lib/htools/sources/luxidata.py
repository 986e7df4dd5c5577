"""Clusters as the master daemon describes them over LUXI (doc/reference/htools.md 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ganeti.htools.sources import rapidata
from ganeti.htools.sources.loading import LoadError, Raw

NODE_FIELDS: Final = [
    "name", "mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "offline", "drained", "vm_capable",
    "ndp/spindle_count", "group.uuid", "tags", "ndp/exclusive_storage", "sptotal", "spfree", "ndp/cpu_speed",
    "hv_state", "disk_state",
]  # fmt: skip
INSTANCE_FIELDS: Final = [
    "name", "disk_usage", "be/memory", "be/vcpus", "status", "pnode", "snodes", "tags", "be/auto_balance",
    "disk_template", "be/spindle_use", "disk.sizes", "disk.spindles", "forthcoming",
    "be/minmem", "oper_ram",
]  # fmt: skip
GROUP_FIELDS: Final = ["uuid", "name", "alloc_policy", "ipolicy", "tags"]

_NORMAL = 0


# What a node that answers reports in any case.
_REPORTED: Final = ("mtotal", "mnode", "mfree", "ctotal", "cnos")


def Parse(nodes: Any, instances: Any, info: Mapping[str, Any], groups: Any) -> Raw:
    """Return the cluster of four answers: of three queries with the fields above, and of QueryClusterInfo.

    A node that did not answer the master daemon counts as offline.
    """
    rows = _Rows(nodes, NODE_FIELDS, "node")
    silent = [row for row in rows if _IsSilent(row)]
    guests = _Rows(instances, INSTANCE_FIELDS, "instance")
    raw = rapidata.Parse(
        rapidata.Answers(
            groups=_Rows(groups, GROUP_FIELDS, "group"),
            nodes=[_Node({**row, "offline": True} if row in silent else row) for row in rows],
            instances=[_Instance(row) for row in guests],
            info=dict(info),
        ),
        {str(row["name"]): row["oper_ram"] for row in guests},
    )
    return replace(raw, silent=tuple(str(row["name"]) for row in silent))


def _IsSilent(row: Mapping[str, Any]) -> bool:
    usable = row["vm_capable"] is not False and row["offline"] is False
    return usable and all(row[name] is None for name in _REPORTED)


def _Rows(answer: Any, names: Sequence[str], what: str) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries; a value that is not there is null."""
    try:
        return [
            {name: value if status == _NORMAL else None for name, (status, value) in zip(names, row, strict=True)}
            for row in answer["data"]
        ]
    except (KeyError, TypeError, ValueError) as err:
        raise LoadError(f"Invalid query result for {what}s") from err


def _Node(row: Mapping[str, Any]) -> dict[str, Any]:
    storage = {name: row[f"ndp/{name}"] for name in ("spindle_count", "exclusive_storage")}
    return {**row, "ndparams": storage, "cpu_speed": row["ndp/cpu_speed"]}


def _Instance(row: Mapping[str, Any]) -> dict[str, Any]:
    beparams = {name: row[f"be/{name}"] for name in ("memory", "minmem", "vcpus", "auto_balance", "spindle_use")}
    # Over LUXI the maximum counts, not what the guest uses now.
    return {**row, "oper_ram": None, "beparams": beparams}
