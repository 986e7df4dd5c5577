"""Fields of node groups (doc/reference/queries.md 3.3)."""

from __future__ import annotations

from typing import Any

from ganeti import params
from ganeti.objects.base import Thaw
from ganeti.query.base import NODATA, NUMBER, OTHER, TEXT, Field, Kind, NiceSort
from ganeti.query.common import Attribute, NodeParameterFields, ObjectFields, WeakNodesField
from ganeti.query.context import LIVE_PROOF, Context


def _Nodes(context: Context, group: Any) -> list[str]:
    return NiceSort(context.NodeName(uuid) for uuid in context.snapshot.GroupNodes(group.uuid))


def _Instances(context: Context, group: Any) -> list[str]:
    nodes = context.snapshot.GroupNodes(group.uuid)
    return NiceSort(name for uuid in nodes for name in context.NodeInstances(uuid)[0])


def _Parameters(context: Context, group: Any) -> Any:
    return params.FillNDGroup(context.snapshot, group)


def _Room(context: Context, group: Any) -> Any:
    room = None if context.proof is None else context.proof.Room(group.uuid)
    return NODATA if room is None else room


_FIELDS = [
    Field("alloc_policy", "AllocPolicy", TEXT, "Allocation policy", Attribute("alloc_policy")),
    Field("custom_diskparams", "CustomDiskParameters", OTHER, "Own disk parameters", lambda _, g: Thaw(g.diskparams)),
    Field("custom_ipolicy", "CustomInstancePolicy", OTHER, "Own instance policy", lambda _, g: Thaw(g.ipolicy)),
    Field("custom_ndparams", "CustomNDParams", OTHER, "Own node parameters", lambda _, g: Thaw(g.ndparams)),
    Field(
        "diskparams",
        "DiskParameters",
        OTHER,
        "Effective disk parameters",
        lambda c, g: Thaw(params.FillDiskParams(c.snapshot, g)),
    ),
    Field(
        "ipolicy",
        "InstancePolicy",
        OTHER,
        "Effective instance policy",
        lambda c, g: Thaw(params.FillIPolicy(c.snapshot, g)),
    ),
    Field("name", "Group", TEXT, "Group name", Attribute("name")),
    Field("ndparams", "NDParams", OTHER, "Effective node parameters", lambda c, g: Thaw(_Parameters(c, g))),
    Field("node_cnt", "Nodes", NUMBER, "Number of nodes", lambda c, g: len(_Nodes(c, g))),
    Field("node_list", "NodeList", OTHER, "Node names", _Nodes),
    Field("pinst_cnt", "Instances", NUMBER, "Number of primary instances", lambda c, g: len(_Instances(c, g))),
    Field("pinst_list", "InstanceList", OTHER, "Names of primary instances", _Instances),
    # Ours (doc/extensions.rst).
    Field("room", "Room", NUMBER, "How many more standard instances fit, up to 100", _Room, live=LIVE_PROOF),
    WeakNodesField(lambda _, group: [group.uuid]),
    *NodeParameterFields(_Parameters),
    *ObjectFields("group"),
]

KIND = Kind(
    "group",
    "name",
    _FIELDS,
    items=lambda context: context.snapshot.nodegroups.values(),
    item_name=lambda group: group.name,
    item_uuid=lambda group: group.uuid,
    default_fields="name node_cnt pinst_cnt alloc_policy ndparams",
)
