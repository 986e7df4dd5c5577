"""Compare the volumes of nodes with those that disks should have (doc/reference/drivers.md c.3); pure."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

from ganeti import objects, params
from ganeti.cmdlib import lvmchecks
from ganeti.cmdlib.cluster import verify_storage
from ganeti.cmdlib.cluster.verify_nodes import NodeImage
from ganeti.cmdlib.cluster.verify_report import GROUP, INSTANCE, NODE, Report
from ganeti.params import disk as disk_params
from ganeti.params import nd
from ganeti.utils.text import NiceSort

_VG_LIST, _LV_LIST = "vglist", "lvlist"


def IsExclusive(snapshot: objects.Snapshot, node: objects.Node) -> bool:
    """Return whether each physical volume of the node belongs to one disk only."""
    return bool(params.FillND(snapshot, node)[nd.ND_EXCLUSIVE_STORAGE])


def Questions(snapshot: objects.Snapshot, members: Iterable[objects.Node]) -> dict[str, Any]:
    """Return what nodes are asked about LVM in ``node_verify``."""
    group = snapshot.cluster.volume_group_name
    if not group:
        return {}
    asked: dict[str, Any] = {_VG_LIST: None, _LV_LIST: group, lvmchecks.PV_LIST: [group]}
    if any(IsExclusive(snapshot, node) for node in members):
        asked[lvmchecks.SHARED_PVS] = True
    return asked


def CheckGroup(report: Report, image: NodeImage, snapshot: objects.Snapshot, answer: Mapping[str, Any]) -> None:
    """Check the volume group of the cluster on one node; keep the node's volumes in its image."""
    name, group = image.node.name, snapshot.cluster.volume_group_name
    if not group:
        return
    groups = answer.get(_VG_LIST)
    if groups is None:
        problem: str | None = "its volume groups could not be listed; run 'vgs' there"
    else:
        problem = lvmchecks.GroupProblem(group, groups)
        if problem:
            problem += (
                "; create or extend it there, or exclude the node from disks and instances with"
                f" 'gnt-node modify --vm-capable=no {name}'"
            )
    report.ErrorIf(problem, "ENODELVM", NODE, name, str(problem))
    exclusive = IsExclusive(snapshot, image.node)
    for problem in lvmchecks.PvProblems(answer, exclusive):
        report.Error("ENODELVM", NODE, name, problem)
    sizes = [volume["size"] for volume in answer.get(lvmchecks.PV_LIST) or []]
    if exclusive and sizes:
        image.pv_sizes = (min(sizes), max(sizes))
    volumes = answer.get(_LV_LIST)
    if isinstance(volumes, dict):
        image.volumes = frozenset(volumes)
    else:
        reason = f": {volumes}" if volumes else ""
        report.Error("ENODELVM", NODE, name, f"its logical volumes could not be listed{reason}; run 'lvs' there")


def CheckSizes(report: Report, group: str, images: Iterable[NodeImage]) -> None:
    """Report physical volumes of a node group that are too different for exclusive storage."""
    known = [(image.pv_sizes, image.node.name) for image in images if image.pv_sizes is not None]
    if not known:
        return
    smallest, biggest = min((sizes[0], name) for sizes, name in known), max((sizes[1], name) for sizes, name in known)
    report.ErrorIf(
        lvmchecks.SizesDiffer(smallest[0], biggest[0]),
        "EGROUPDIFFERENTPVSIZE",
        GROUP,
        group,
        f"PV sizes differ too much in the group; smallest ({smallest[0]:.0f} MiB) is on {smallest[1]}, biggest"
        f" ({biggest[0]:.0f} MiB) is on {biggest[1]}; move one of these nodes to another group, or make its volumes anew",
    )


def CheckVolumes(report: Report, images: Collection[NodeImage], snapshot: objects.Snapshot) -> None:
    """Report volumes that are missing on nodes, and volumes there that belong to nothing."""
    reserved = [re.compile(pattern) for pattern in snapshot.cluster.reserved_lvs]
    for image in images:
        if image.volumes is None:
            continue
        wanted = _Wanted(snapshot, image.node.uuid)
        missing = _Missing(image, snapshot)
        for name in NiceSort(missing):
            elsewhere = any(name in (other.volumes or ()) for other in images if other.node.uuid in missing[name].nodes)
            _ReportMissing(report, snapshot, image.node.name, name, missing[name], elsewhere)
        waiting = {"/".join(disk.OwnId()) for disk in missing.values() if disk.adopts is not None}
        for name in NiceSort(image.volumes - wanted.keys() - waiting):
            report.ErrorIf(
                not any(pattern.fullmatch(name) for pattern in reserved),
                "ENODEORPHANLV",
                NODE,
                image.node.name,
                _Stray(snapshot, name, wanted, missing),
            )


def _Stray(snapshot: objects.Snapshot, name: str, wanted: Mapping[str, objects.Disk], missing: Container[str]) -> str:
    """Return what is said of a volume that belongs to no disk: whose it was, if its name tells, and when it may go."""
    # People copy commands: the name is what the node says.
    removal = f"lvremove {shlex.quote(name)}"
    former, replaced, stamp = name.partition(lvmchecks.REPLACED)
    disk = wanted.get(former)
    if replaced and disk is not None and stamp.isdecimal():
        owner = snapshot.DiskOwner(disk.uuid)
        inst = snapshot.instances[owner] if owner is not None else None
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(stamp[:12])))
        whose = (
            f"disk/{inst.disks.index(disk.uuid)} of instance {inst.known_as}"
            if inst is not None
            else f"disk {disk.uuid}"
        )
        # Those under the old names are the new ones, even if they were never filled.
        back = "" if former not in missing else f", which 'lvrename {name} {former}' makes part of the disk again"
        return (
            f"volume {name} is unknown: until {when} it was {former} of {whose}, and replace-disks could not remove it. Keep"
            f" it until verify reports nothing else about that disk, as it may be the last complete copy{back}; then run"
            f" '{removal}' there"
        )
    elsewhere = [snapshot.disks[uuid] for uuid in snapshot.Users("volume", name) if uuid in snapshot.disks]
    if elsewhere:
        return verify_storage.LeftBehind(snapshot, f"volume {name} is unknown", elsewhere[0], removal)
    return (
        f"volume {name} is unknown: it belongs to no disk of the cluster; if nobody needs it, run '{removal}'"
        " there; if it is to stay, reserve it (--reserved-lvs of gnt-cluster modify)"
    )


def FindLost(images: Iterable[NodeImage], snapshot: objects.Snapshot) -> set[tuple[str, str]]:
    """Return (node uuid, disk uuid) of the disks that are a volume themselves, which is missing."""
    return {
        (image.node.uuid, disk.uuid)
        for image in images
        if image.volumes is not None
        for disk in _Missing(image, snapshot).values()
        if not disk.children
    }


def _Wanted(snapshot: objects.Snapshot, node_uuid: str) -> dict[str, objects.Disk]:
    """Return the volumes that may be on a node, each with its disk."""
    disks = [snapshot.disks[uuid] for uuid in snapshot.NodeDisks(node_uuid)]
    return {name: disk for disk in disks if not disk.forthcoming for name in disk.VolumeNames()}


def _Missing(image: NodeImage, snapshot: objects.Snapshot) -> dict[str, objects.Disk]:
    """Return the volumes that should be on a node and are not; the next commit makes anew what one has left."""
    return {
        name: disk
        for name, disk in _Wanted(snapshot, image.node.uuid).items()
        if name not in (image.volumes or ()) and not _IsReserved(snapshot, disk)
    }


def _IsReserved(snapshot: objects.Snapshot, disk: objects.Disk) -> bool:
    owner = snapshot.DiskOwner(disk.uuid)
    return owner is not None and bool(snapshot.instances[owner].forthcoming)


def _ReportMissing(
    report: Report, snapshot: objects.Snapshot, node: str, name: str, disk: objects.Disk, elsewhere: bool
) -> None:
    """``elsewhere``: another node of the disk has a volume of this name."""
    owner = snapshot.DiskOwner(disk.uuid)
    if owner is None:
        report.Error("EINSTANCEMISSINGDISK", NODE, node, f"volume {name} of the detached disk {disk.uuid} is missing")
        return
    instance = snapshot.instances[owner].name
    index = snapshot.instances[owner].disks.index(disk.uuid)
    again = f"'gnt-instance recreate-disks --disk={index} {instance}' makes it again, empty"
    if disk_params.Of(disk).mirror == disk_params.INTERNAL and not elsewhere:
        cure = (
            "no other node that answered has it either: run 'pvs' there, is a physical disk missing? If both copies are lost,"
            f" stop the instance; then {again}"
        )
    elif disk_params.Of(disk).mirror == disk_params.INTERNAL:
        cure = f"'gnt-instance replace-disks -a {instance}' makes it again from the other node's copy"
    elif disk.adopts is not None:
        cure = (
            f"its adoption was interrupted, and it may still be called {'/'.join(disk.OwnId())}:"
            f" 'gnt-instance remove {instance}' removes no data of it, but gives all volumes that were to be adopted their"
            " own names back; adopt them again then"
        )
    else:
        cure = f"run 'pvs' there: is a physical disk missing? If the volume is lost, stop the instance; then {again}"
    report.Error("EINSTANCEMISSINGDISK", INSTANCE, instance, f"volume {name} is missing on node {node}; {cure}")


def CheckExclusive(report: Report, snapshot: objects.Snapshot, instance: objects.Instance) -> None:
    """Report an instance that does not fit nodes with exclusive storage."""
    nodes = [snapshot.nodes[uuid] for uuid in snapshot.AllNodes(instance)]
    exclusive = NiceSort(node.name for node in nodes if IsExclusive(snapshot, node))
    if not exclusive:
        return
    for index, disk in enumerate(snapshot.InstanceDisks(instance)):
        template = disk_params.Of(disk)
        report.ErrorIf(
            not template.exclusive_storage,
            "EINSTANCEUNSUITABLENODE",
            INSTANCE,
            instance.name,
            f"disk/{index} has template {disk.dev_type}, which is not supported on nodes with exclusive storage:"
            f" {', '.join(exclusive)}",
        )
        report.ErrorIf(
            template.exclusive_storage and disk.spindles is None,
            "EINSTANCEMISSINGCFGPARAMETER",
            INSTANCE,
            instance.name,
            f"the number of spindles of disk/{index} is not recorded, although node {exclusive[0]} has exclusive storage;"
            f" 'gnt-cluster repair-disk-sizes {instance.name}' records it",
        )
