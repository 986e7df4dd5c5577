"""Fields of the cluster itself (doc/reference/queries.md 3.9): one row."""

from __future__ import annotations

import platform
import struct
from typing import Any

from ganeti import constants
from ganeti.query.base import BOOL, NODATA, NUMBER, OTHER, TEXT, TIMESTAMP, Field, Kind, OrUnavail
from ganeti.query.common import TimestampFields, WeakNodesField
from ganeti.query.context import LIVE_PROOF, LIVE_WATCHER, Context


def Architecture() -> list[str]:
    """Return [bits, machine] of this machine, as 3.1 shows it."""
    # platform.architecture() would run a program each time.
    return [f"{struct.calcsize('P') * 8}bits", platform.machine()]


def _Constant(value: Any) -> Any:
    return lambda *_: value


def _Name(_context: Context, cluster: Any) -> str:
    return str(cluster.cluster_name)


def _Room(context: Context, _cluster: Any) -> Any:
    if context.proof is None:
        return NODATA
    return {group.name: context.proof.Room(uuid) for uuid, group in context.snapshot.nodegroups.items()}


_FIELDS = [
    Field("tags", "Tags", OTHER, "Tags", lambda _, c: list(c.tags)),
    Field("architecture", "ArchInfo", OTHER, "Word size and machine type of the master", lambda *_: Architecture()),
    Field("drain_flag", "QueueDrained", BOOL, "Whether the job queue is drained", lambda ctx, _: ctx.drained),
    Field(
        "watcher_pause",
        "WatcherPause",
        TIMESTAMP,
        "Until when the watcher pauses",
        lambda ctx, _: OrUnavail(ctx.watcher_pause),
        live=LIVE_WATCHER,
    ),
    Field(
        "master_node", "Master", TEXT, "Name of the master", lambda ctx, c: ctx.NodeName(c.master_node), hostname=True
    ),
    Field("cluster_name", "Name", TEXT, "Name of the cluster", _Name, hostname=True),
    Field("volume_group_name", "VgName", TEXT, "LVM volume group", lambda _, c: OrUnavail(c.volume_group_name)),
    Field("software_version", "SoftwareVersion", TEXT, "Version of the software", _Constant(constants.RELEASE_VERSION)),
    Field(
        "protocol_version",
        "ProtocolVersion",
        NUMBER,
        "Version of the node protocol",
        _Constant(constants.PROTOCOL_VERSION),
    ),
    Field(
        "config_version", "ConfigVersion", NUMBER, "Version of the configuration", _Constant(constants.CONFIG_VERSION)
    ),
    Field("os_api_version", "OsApiVersion", NUMBER, "Highest OS interface", _Constant(max(constants.OS_API_VERSIONS))),
    Field(
        "export_version", "ExportVersion", NUMBER, "Version of the export format", _Constant(constants.EXPORT_VERSION)
    ),
    Field("vcs_version", "VCSVersion", TEXT, "Source revision", _Constant(constants.VCS_VERSION)),
    # Ours (doc/extensions.rst).
    Field(
        "room",
        "Room",
        OTHER,
        "How many more standard instances fit, by node group, up to 100",
        _Room,
        live=LIVE_PROOF,
    ),
    WeakNodesField(lambda context, _: context.snapshot.nodegroups),
    *TimestampFields(),
]

KIND = Kind(
    "cluster",
    None,
    _FIELDS,
    items=lambda context: [context.snapshot.cluster],
    item_name=lambda cluster: cluster.cluster_name,
    by_name=False,
    aliases={"name": "cluster_name"},
)
