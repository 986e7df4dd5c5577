"""Mirrors of two nodes, each side on logical volumes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants
from ganeti.params.checks import IsVolumeGroupName
from ganeti.params.disk.base import DiskPlan, DiskRequest, MirrorTemplate, Reservations, RunThere
from ganeti.params.disk.lvm import Plain, RemoveVolumes
from ganeti.params.types import BOOL, INT, STRING, AtLeast, Between, Check, MakeTable, OneOf, Param

if TYPE_CHECKING:
    from ganeti import objects

DRBD_META_SIZE = 128  # MiB
DEFAULT_DRBD_HELPER = "/bin/true"

_VOLUME = Plain()
# What the volumes below a mirror are called after.
_DATA, _META = "data", "meta"

_BARRIERS = re.compile("n|(?!.*(.).*\\1)[bdf]{1,3}")


def _IsBarriers(value: str) -> bool:
    return _BARRIERS.fullmatch(value) is not None


def _AreWords(value: str) -> bool:
    try:
        return "\0" not in value and bool(shlex.split(value))
    except ValueError:
        return False


_WORDS = Check("words, any quotes in pairs", _AreWords)
_GROUP = Check("letters, digits and + _ . -, as LVM names volume groups", IsVolumeGroupName)

# drbdsetup of DRBD 8.4 refuses others, and a mirror with them cannot be activated.
_LEAST_RESYNC, _LEAST_PEAK, _MOST_RATE = 1, 250, 4 << 20
_MOST_AHEAD, _MOST_FILL, _MOST_DELAY = 300, 1 << 20, 100


class Drbd(MirrorTemplate):
    """``logical_id``: both nodes, port, both minors, secret."""

    name = constants.DT_DRBD8
    text = "LVM volumes on two nodes, mirrored over the network"
    params = MakeTable(
        Param(
            "resync-rate",
            INT,
            61440,
            "KiB/s when not dynamic",
            Between(_LEAST_RESYNC, _MOST_RATE),
            "2.6",
            required=True,
        ),
        Param("data-stripes", INT, 1, "stripes of the data volume", AtLeast(1), "2.6", required=True),
        Param("meta-stripes", INT, 1, "stripes of the metadata volume", AtLeast(1), "2.6", required=True),
        Param(
            "disk-barriers",
            STRING,
            "n",
            "what is switched off",
            Check("n for nothing, or letters of b (barriers), f (flushes), d (drain)", _IsBarriers),
            "2.6",
            required=True,
        ),
        Param("meta-barriers", BOOL, False, "true: no flushes of metadata", None, "2.6"),
        Param("metavg", STRING, "xenvg", "volume group of metadata", _GROUP, "2.6", required=True),
        Param("disk-custom", STRING, "", "further arguments when a disk is attached", _WORDS, "2.6"),
        Param("net-custom", STRING, "", "further arguments of the connection", _WORDS, "2.6"),
        Param("protocol", STRING, "C", "when a write counts as done", OneOf("A", "B", "C"), "2.11", required=True),
        Param("dynamic-resync", BOOL, False, "rate from the c-* values", None, "2.6"),
        Param("c-plan-ahead", INT, 20, "tenths of a second", Between(0, _MOST_AHEAD), "2.6"),
        Param("c-fill-target", INT, 0, "sectors", Between(0, _MOST_FILL), "2.6"),
        Param("c-delay-target", INT, 1, "tenths of a second", Between(1, _MOST_DELAY), "2.6", required=True),
        Param("c-max-rate", INT, 61440, "KiB/s", Between(_LEAST_PEAK, _MOST_RATE), "2.6", required=True),
        Param("c-min-rate", INT, 4096, "KiB/s", Between(0, _MOST_RATE), "2.6"),
    )
    layers = (
        {
            "resync-rate": "resync-rate",
            "disabled-barriers": "disk-barriers",
            "disable-meta-flush": "meta-barriers",
            "default-metavg": "metavg",  # as 3.1 sends it; no node reads it
            "disk-custom": "disk-custom",
            "net-custom": "net-custom",
            "protocol": "protocol",
            "dynamic-resync": "dynamic-resync",
            "c-plan-ahead": "c-plan-ahead",
            "c-fill-target": "c-fill-target",
            "c-delay-target": "c-delay-target",
            "c-max-rate": "c-max-rate",
            "c-min-rate": "c-min-rate",
        },
        {"stripes": "data-stripes"},
        {"stripes": "meta-stripes"},
    )
    vg_param = "metavg"
    keys = frozenset(["vg", "metavg", "spindles"])
    storage_type = constants.ST_LVM_VG
    lvm = helper = on_secondaries = True
    first = False
    mirror_of = constants.DT_PLAIN
    id_items = 6
    overhead = DRBD_META_SIZE
    growable = snapshots = space_checked = True

    def SyntaxProblems(self, values: Mapping[str, Any]) -> list[str]:
        problems = super().SyntaxProblems(values)
        if values.get("dynamic-resync") and not values.get("c-plan-ahead", 1):
            problems.append(f"disk template {self.name}: dynamic-resync needs a c-plan-ahead above 0")
        return problems

    def MakeDisk(self, ids: Reservations, plan: DiskPlan, request: DiskRequest, index: int) -> objects.Disk:
        """Return a mirror over a data and a metadata volume on both nodes."""
        from ganeti import objects  # whoever makes no disks does not pay for it

        assert plan.secondary is not None, "a mirror needs two nodes"
        prefix, uuid = ids.UniqueId(), ids.UniqueId()
        nodes = (plan.primary, plan.secondary)
        minors, port, secret = ids.Minors(nodes, uuid), ids.Port(), ids.Secret()
        children = [
            objects.Disk(
                dev_type=constants.DT_PLAIN,
                logical_id=(vg, _VolumeName(prefix, index, part)),
                size=size,
                nodes=nodes,
                uuid=ids.UniqueId(),
            )
            for part, vg, size in (
                (_DATA, request.vg or plan.vg, request.size),
                (_META, request.metavg or plan.values["metavg"], DRBD_META_SIZE),
            )
        ]
        return objects.Disk(
            dev_type=self.name,
            logical_id=(*nodes, port, *minors, secret),
            children=tuple(children),
            size=request.size,
            mode=request.mode,
            name=request.name,
            iv_name=f"disk/{index}",
            nodes=nodes,
            uuid=uuid,
        )

    def OnNodes(self, ids: Reservations, disk: objects.Disk, nodes: Sequence[str]) -> objects.Disk:
        """Return the mirror on these nodes: with new minors, and the port and the secret that it has."""
        port, secret = disk.logical_id[2], disk.logical_id[5]
        minors = ids.Minors(nodes, disk.uuid)
        return disk.Replace(
            logical_id=(*nodes, port, *minors, secret),
            nodes=tuple(nodes),
            children=[child.Replace(nodes=tuple(nodes)) for child in disk.children],
        )

    def Data(self, disk: objects.Disk) -> objects.Disk:
        data, _ = disk.children
        return data

    def Metadata(self, disk: objects.Disk) -> objects.Disk:
        _, meta = disk.children
        return meta

    def At(self, disk: objects.Disk, place: str) -> objects.Disk:
        raise NotImplementedError("a mirror has no place, only the volumes below it have one")

    def Anew(self, disk: objects.Disk, prefix: str) -> objects.Disk:
        return disk.Replace(children=tuple(_VOLUME.Anew(child, prefix) for child in disk.children))

    def NewVolumes(self, disk: objects.Disk, prefix: str, index: int) -> list[objects.Disk]:
        return [
            _VOLUME.At(child, _VolumeName(prefix, index, part))
            for child, part in zip(disk.children, (_DATA, _META), strict=True)
        ]

    def WithSecondary(self, disk: objects.Disk, primary: str, secondary: str, minor: int) -> objects.Disk:
        node_a, _, port, minor_a, minor_b, secret = disk.logical_id
        nodes = (primary, secondary)
        return disk.Replace(
            logical_id=(*nodes, port, minor_a if node_a == primary else minor_b, minor, secret),
            nodes=nodes,
            children=[child.Replace(nodes=nodes) for child in disk.children],
        )

    def Unconnected(self, disk: objects.Disk) -> objects.Disk:
        node_a, node_b, _port, *others = disk.logical_id
        return disk.Replace(logical_id=(node_a, node_b, None, *others))

    def OnVolumeOf(self, mirror: objects.Disk, old: objects.Disk) -> objects.Disk:
        data, meta = mirror.children
        return mirror.Replace(children=(data.Replace(logical_id=old.logical_id), meta))

    def HookEnv(self, disk: objects.Disk, node_name: Callable[[str], str]) -> dict[str, Any]:
        """Return everything but the secret."""
        node_a, node_b, port, minor_a, minor_b = disk.logical_id[:5]
        env: dict[str, Any] = {"PORT": port, "PMINOR": minor_a, "SMINOR": minor_b}
        env.update(PNODE=node_name(node_a), SNODE=node_name(node_b))
        for key, child in zip(("DATA", "META"), disk.children, strict=False):
            env[f"{key}_VG"], env[f"{key}_ID"] = child.logical_id[:2]
        return env

    def ShownId(self, disk: objects.Disk, node_name: Callable[[str], str]) -> list[Any]:
        node_a, node_b, *numbers = disk.logical_id[:5]
        return [node_name(node_a), node_name(node_b), *numbers, None]

    def MirrorInfo(self, disk: objects.Disk, node_name: Callable[[str], str]) -> dict[str, Any] | None:
        node_a, node_b, port, minor_a, minor_b = disk.logical_id[:5]
        return {
            "primary_node": node_name(node_a),
            "primary_minor": minor_a,
            "secondary_node": node_name(node_b),
            "secondary_minor": minor_b,
            "port": port,
        }

    def Minor(self, disk: objects.Disk, node_uuid: str) -> int | None:
        node_a, node_b, _port, minor_a, minor_b = disk.logical_id[:5]
        minors: dict[str, int] = {node_a: minor_a, node_b: minor_b}
        return minors.get(node_uuid)

    def Unit(self, cluster: objects.Cluster, disk: objects.Disk) -> str | None:
        return _VOLUME.Unit(cluster, self.Data(disk))

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        minor = self.Minor(disk, node_uuid)
        down = [] if minor is None else [f"drbdsetup down resource{minor}"]
        return RunThere(*down, *RemoveVolumes(disk))

    def ForNode(self, disk: objects.Disk, node_uuid: str) -> objects.Disk:
        *others, _secret = disk.logical_id
        return disk if node_uuid in others[:2] else disk.Replace(logical_id=(*others, ""))

    def NodeParams(self, disk: objects.Disk, node_uuid: str, nodes: Mapping[str, objects.Node]) -> dict[str, Any]:
        """Return addresses and minors as the node sees them; nothing for a node that is not one of the two."""
        node_a, node_b, _port, minor_a, minor_b = disk.logical_id[:5]
        for local, remote, local_minor, remote_minor in (
            (node_a, node_b, minor_a, minor_b),
            (node_b, node_a, minor_b, minor_a),
        ):
            if local == node_uuid and local in nodes and remote in nodes:
                return {
                    "local-ip": nodes[local].secondary_ip,
                    "remote-ip": nodes[remote].secondary_ip,
                    "local-minor": local_minor,
                    "remote-minor": remote_minor,
                    constants.PEER: _Standing(disk, local),
                    constants.DECISION: disk.decision or 0,
                }
        return {}


def _VolumeName(prefix: str, index: int, part: str) -> str:
    return f"{prefix}.disk{index}_{part}"


def _Standing(disk: objects.Disk, local: str) -> str:
    if disk.behind is None:
        return constants.PEER_COUNTS
    return constants.PEER_AHEAD if disk.behind["node"] == local else constants.PEER_BEHIND
