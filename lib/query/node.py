"""Fields of nodes (doc/reference/queries.md 3.1)."""

from __future__ import annotations

from typing import Any

from ganeti import params
from ganeti.params import nodestate
from ganeti.query.base import BOOL, NODATA, NUMBER, OFFLINE, OTHER, TEXT, UNAVAIL, UNIT, Absent, Field, Kind, NiceSort
from ganeti.query.common import Attribute, NodeParameterFields, ObjectFields
from ganeti.query.context import LIVE_NODE, LIVE_PROOF, Context, HypervisorNumber, StorageNumber


def _Primaries(context: Context, node: Any) -> list[str]:
    return context.NodeInstances(node.uuid)[0]


def _Secondaries(context: Context, node: Any) -> list[str]:
    return context.NodeInstances(node.uuid)[1]


def NodeRole(context: Context, node: Any) -> str:
    """Return one letter: master, candidate, drained, offline or regular."""
    role: str = node.Role(context.snapshot.cluster.master_node)
    return role[0].upper()


def _Parameters(context: Context, node: Any) -> Any:
    return params.FillND(context.snapshot, node)


def _Powered(context: Context, node: Any) -> Any:
    return node.powered if _Parameters(context, node).get("oob_program") else UNAVAIL


def _HVState(context: Context, node: Any) -> Any:
    # 3.1 never has a value; its clients see one only where something is recorded.
    return nodestate.HVState(context.snapshot, node) or UNAVAIL


def _DiskState(context: Context, node: Any) -> Any:
    return nodestate.DiskState(context.snapshot, node) or UNAVAIL


def _BootId(context: Context, node: Any) -> Any:
    payload = context.Payload(context.node_info, node.uuid)
    return payload if isinstance(payload, Absent) else payload[0]


def _Hypervisor(name: str, title: str, kind: str, key: str, doc: str) -> Field:
    def get(context: Context, node: Any) -> Any:
        return HypervisorNumber(context.Payload(context.node_info, node.uuid), key)

    return Field(name, title, kind, doc, get, live=LIVE_NODE)


def _Storage(name: str, title: str, kind: str, key: str, doc: str, spindles: bool = False) -> Field:
    def get(context: Context, node: Any) -> Any:
        return StorageNumber(context.Payload(context.node_info, node.uuid), key, spindles)

    return Field(name, title, kind, doc, get, live=LIVE_NODE)


def _Losses(context: Context, node: Any) -> Any:
    if node.offline:
        return OFFLINE
    if context.proof is None or context.proof.Offline(node.uuid):
        return NODATA
    return NiceSort(context.proof.LostBy(node.uuid))


_FIELDS = [
    Field("drained", "Drained", BOOL, "Whether the node is drained", Attribute("drained")),
    Field("master_candidate", "MasterC", BOOL, "Whether the node is a master candidate", Attribute("master_candidate")),
    Field("master_capable", "MasterCapable", BOOL, "Whether it may become a candidate", Attribute("master_capable")),
    Field("name", "Node", TEXT, "Node name", Attribute("name"), hostname=True),
    Field("offline", "Offline", BOOL, "Whether the node is marked offline", Attribute("offline")),
    Field("vm_capable", "VMCapable", BOOL, "Whether the node can host instances", Attribute("vm_capable")),
    Field("pip", "PrimaryIP", TEXT, "Primary address", Attribute("primary_ip")),
    Field("sip", "SecondaryIP", TEXT, "Secondary address", Attribute("secondary_ip")),
    Field(
        "master", "IsMaster", BOOL, "Whether it is the master", lambda c, n: n.uuid == c.snapshot.cluster.master_node
    ),
    Field("group", "Group", TEXT, "Node group", lambda c, n: c.GroupName(n.group)),
    Field("group.uuid", "GroupUUID", TEXT, "UUID of the node group", Attribute("group")),
    Field("ndparams", "NodeParameters", OTHER, "Effective node parameters", lambda c, n: dict(_Parameters(c, n))),
    Field("custom_ndparams", "CustomNodeParameters", OTHER, "Own node parameters", lambda _, n: dict(n.ndparams)),
    Field("pinst_cnt", "Pinst", NUMBER, "Number of primary instances", lambda c, n: len(_Primaries(c, n))),
    Field("sinst_cnt", "Sinst", NUMBER, "Number of secondary instances", lambda c, n: len(_Secondaries(c, n))),
    Field("pinst_list", "PriInstances", OTHER, "Names of primary instances", _Primaries),
    Field("sinst_list", "SecInstances", OTHER, "Names of secondary instances", _Secondaries),
    Field("role", "Role", TEXT, "Role: M master, C candidate, R regular, D drained, O offline", NodeRole),
    Field("powered", "Powered", BOOL, "Recorded power state", _Powered),
    Field("hv_state", "HypervisorState", OTHER, "Recorded memory and CPUs, by hypervisor", _HVState),
    Field("disk_state", "DiskState", OTHER, "Recorded disk space, by storage type and name", _DiskState),
    Field("bootid", "BootID", TEXT, "Changes with every boot of the node", _BootId, live=LIVE_NODE),
    _Hypervisor("cnodes", "CNodes", NUMBER, "cpu_nodes", "Number of NUMA nodes"),
    _Hypervisor("cnos", "CNOs", NUMBER, "cpu_dom0", "Number of processors used by the node itself"),
    _Hypervisor("csockets", "CSockets", NUMBER, "cpu_sockets", "Number of processor sockets"),
    _Hypervisor("ctotal", "CTotal", NUMBER, "cpu_total", "Number of logical processors"),
    _Hypervisor("mfree", "MFree", UNIT, "memory_free", "Memory available for instances"),
    _Hypervisor("mnode", "MNode", UNIT, "memory_dom0", "Memory used by the node itself"),
    _Hypervisor("mtotal", "MTotal", UNIT, "memory_total", "Memory in all"),
    _Storage("dfree", "DFree", UNIT, "storage_free", "Free disk space"),
    _Storage("dtotal", "DTotal", UNIT, "storage_size", "Disk space in all"),
    _Storage("spfree", "SpFree", NUMBER, "storage_free", "Free spindles", spindles=True),
    _Storage("sptotal", "SpTotal", NUMBER, "storage_size", "Spindles in all", spindles=True),
    # Ours (doc/extensions.rst).
    Field(
        "losses",
        "Losses",
        OTHER,
        "Running instances that would stay down if the node failed",
        _Losses,
        live=LIVE_PROOF,
    ),
    *NodeParameterFields(_Parameters),
    *ObjectFields("node"),
]

KIND = Kind(
    "node",
    "name",
    _FIELDS,
    items=lambda context: context.snapshot.nodes.values(),
    item_name=lambda node: node.name,
    item_uuid=lambda node: node.uuid,
    default_fields="name dtotal dfree mtotal mnode mfree pinst_cnt sinst_cnt",
)
