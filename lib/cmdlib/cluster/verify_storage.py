"""Whether the disks of instances are there and in order (doc/reference/drivers.md c.3)."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import constants, objects
from ganeti.cmdlib.cluster.verify_report import INSTANCE, Report
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult, RpcRunner

_LOCAL_STATES = {constants.LDS_SYNC: "being synchronized", constants.LDS_FAULTY: "faulty"}
# Disks that exist in the same way whether they are in use or not.
_FILES = "instance-files"
_SEEN_WHEN_UNUSED = disk_params.With(file_based=True)


class DiskFinding(NamedTuple):
    """A node's report on one disk: ``problem`` is None when the disk is in order."""

    instance: objects.Instance
    number: int
    node: str  # uuid
    problem: str | None


def AskForDisks(
    rpc: RpcRunner, snapshot: objects.Snapshot, instances: Iterable[objects.Instance], usable: Iterable[str]
) -> tuple[list[DiskFinding], dict[str, str]]:
    """Return the state of each disk on each of its ``usable`` nodes, and {node: why it could not be asked}.

    Disks of instances that do not use them now are looked at where that makes sense.
    """
    usable = set(usable)
    wanted: dict[str, list[tuple[objects.Instance, int, objects.Disk]]] = {}
    for instance in instances:
        for index, disk in enumerate(snapshot.InstanceDisks(instance)):
            if not (instance.disks_active or disk.dev_type in _SEEN_WHEN_UNUSED):
                continue
            for uuid in usable.intersection(disk.nodes or [instance.primary_node]):
                wanted.setdefault(uuid, []).append((instance, index, disk))
    if not wanted:
        return [], {}
    asked = {uuid: [((disk,), instance) for instance, _, disk in rows] for uuid, rows in wanted.items()}
    results = rpc.call_blockdev_getmirrorstatus_multi(sorted(wanted), asked)
    findings: list[DiskFinding] = []
    failed: dict[str, str] = {}
    for uuid, rows in sorted(wanted.items()):
        result = results[uuid]
        if result.fail_msg or not all(_IsRow(row) for row in result.payload):
            failed[uuid] = result.fail_msg or "the node sent an invalid answer"
            continue
        findings += [
            DiskFinding(instance, index, uuid, _Problem(row))
            for (instance, index, _), row in zip(rows, result.payload, strict=True)
        ]
    return findings, failed


def _IsRow(row: list[Any]) -> bool:
    return isinstance(row[1], dict if row[0] else str)


def _Problem(row: list[Any]) -> str | None:
    success, status = row
    if not success:
        return str(status)
    if status.get("is_degraded"):
        return "it is degraded"
    if status.get("ldisk_status") not in (None, constants.LDS_OKAY):
        return f"the local disk is {_LOCAL_STATES.get(status['ldisk_status'], 'in an unknown state')}"
    return None


def CheckDisks(
    report: Report,
    names: Mapping[str, str],
    findings: Iterable[DiskFinding],
    failed: Mapping[str, str],
    lost: Container[tuple[str, str]],
) -> None:
    """Report what ``AskForDisks`` found; ``names``: node uuid -> name; ``lost``: (node, disk) that others report."""
    for uuid, reason in sorted(failed.items()):
        report.Error("ENODERPC", "node", names[uuid], f"the state of its disks could not be read: {reason}")
    for finding in findings:
        if (finding.node, finding.instance.disks[finding.number]) in lost:
            continue
        code = "EINSTANCEFAULTYDISK" if finding.instance.disks_active else "EINSTANCEMISSINGDISK"
        text = f"disk/{finding.number} on node {names[finding.node]}: {finding.problem}"
        report.ErrorIf(finding.problem, code, INSTANCE, finding.instance.name, text)


def Questions(
    snapshot: objects.Snapshot, instances: Iterable[objects.Instance], members: Iterable[objects.Node]
) -> dict[str, Any]:
    """Return what nodes are asked about files: {} where no disks are files.

    Primary nodes list the directories of their instances, all ``members`` those in which such directories are.
    """
    tops = {
        str(top)
        for name, template in disk_params.TEMPLATES.items()
        if template.name_in_path and template.directory and name in snapshot.cluster.enabled_disk_templates
        if (top := getattr(snapshot.cluster, template.directory))
    }
    if not tops:
        return {}
    own = _OwnTops(snapshot)
    wanted: dict[str, set[str]] = {node.name: set(own) for node in members if node.vm_capable}
    for inst in instances:
        # A conversion makes the new files where none of the disks is yet.
        folders = {posixpath.join(top, str(inst.name)) for top in tops}
        folders.update(posixpath.dirname(path) for path in _Paths(snapshot.InstanceDisks(inst)))
        wanted.setdefault(snapshot.NodeName(str(inst.primary_node)), set()).update(folders)
    return {_FILES: {name: sorted(folders) for name, folders in wanted.items()}}


def _OwnTops(snapshot: objects.Snapshot) -> set[str]:
    """Return the directories, each node's own, that have one for each instance with files there."""
    own = disk_params.With(name_in_path=True, copyable=True)
    tops = {str(getattr(snapshot.cluster, str(disk_params.TEMPLATES[name].directory))) for name in own}
    disks = [disk for disk in snapshot.disks.values() if disk.dev_type in own and snapshot.DiskOwner(disk.uuid)]
    tops.update(posixpath.dirname(posixpath.dirname(path)) for path in _Paths(disks))
    return tops - {"", "/"}


def FormerHomes(
    snapshot: objects.Snapshot, members: Iterable[objects.Node], answers: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return {node uuid: directories there of instances that have another primary node}; what is in them was not asked yet."""
    found: dict[str, list[str]] = {}
    own = _OwnTops(snapshot)
    for node in members:
        listed = _Listed(answers.get(node.uuid))
        for top in sorted(own & listed.keys()):
            there = [snapshot.InstanceByName(name) for name in listed[top]]
            folders = [
                posixpath.join(top, str(inst.name))
                for inst in there
                if inst is not None and inst.primary_node != node.uuid
            ]
            if folders:
                found.setdefault(node.uuid, []).extend(folders)
    return found


def AskForFolders(rpc: RpcRunner, snapshot: objects.Snapshot, folders: Mapping[str, list[str]]) -> dict[str, Any]:
    """Ask nodes, by uuid, for what is in these directories."""
    if not folders:
        return {}
    request = {_FILES: {snapshot.NodeName(uuid): names for uuid, names in folders.items()}}
    answers: dict[str, Any] = rpc.call_node_verify(sorted(folders), request, snapshot.cluster.cluster_name, {})
    return answers


def _Listed(result: Any) -> dict[str, list[str]]:
    return {} if result is None or result.fail_msg else result.payload.get(_FILES) or {}


def CheckFiles(
    report: Report, snapshot: objects.Snapshot, instances: Iterable[objects.Instance], answers: Mapping[str, Any]
) -> None:
    """Report files in the directories of instances on their primary nodes that are nobody's, such as the copies of a
    conversion that was cut off.
    """
    by_name = _ByName(snapshot)
    for inst in instances:
        result: Any = answers.get(str(inst.primary_node))
        for folder, names in sorted(_Listed(result).items()):
            if posixpath.basename(folder) == inst.name:
                for name in names:
                    _CheckFile(report, snapshot, inst, by_name, result, posixpath.join(folder, name))


def CheckFormerHomes(report: Report, snapshot: objects.Snapshot, answers: Mapping[str, Any]) -> None:
    """Report the files that a move which was cut off has left where an instance is not, or not yet."""
    by_name = _ByName(snapshot)
    for _, result in sorted(answers.items()):
        for folder, names in sorted(_Listed(result).items()):
            inst = snapshot.InstanceByName(posixpath.basename(folder))
            if inst is not None:
                for name in names:
                    _CheckFile(report, snapshot, inst, by_name, result, posixpath.join(folder, name))


def _ByName(snapshot: objects.Snapshot) -> dict[str, objects.Disk]:
    disks = [disk for disk in snapshot.disks.values() if not disk.forthcoming and disk_params.Of(disk).name_in_path]
    return {posixpath.basename(disk_params.Of(disk).Place(disk)): disk for disk in disks}


def _CheckFile(
    report: Report,
    snapshot: objects.Snapshot,
    inst: objects.Instance,
    by_name: Mapping[str, objects.Disk],
    result: RpcResult,
    path: str,
) -> None:
    """Report a file that belongs to no disk on this node.

    One with the name of a disk is that disk's, wherever it lies on the disk's node: a change of the instance's name, or
    detaching, may have been cut off.
    """
    disk, shown = by_name.get(posixpath.basename(path)), shlex.quote(path)
    text = (
        f"{shown} on node {result.node_name} belongs to no disk of the cluster: it may be left over from a job that"
        f" was cut off, such as a conversion; if nobody needs it, run 'rm -r {shown}' there"
    )
    if disk is not None:
        if not disk.nodes or result.node in disk.nodes:
            return
        text = LeftBehind(snapshot, f"{shown} on node {result.node_name} is unknown", disk, f"rm {shown}")
    report.Error("ENODEORPHANLV", INSTANCE, inst.name, text)


def LeftBehind(snapshot: objects.Snapshot, what: str, disk: objects.Disk, removal: str) -> str:
    """Return what is said of storage with the name of a disk, on a node where that disk is not."""
    owner = snapshot.DiskOwner(disk.uuid)
    inst = snapshot.instances[owner] if owner is not None else None
    whose = f"disk {disk.uuid}" if inst is None else f"disk/{inst.disks.index(disk.uuid)} of instance {inst.known_as}"
    where = " and ".join(snapshot.NodeName(uuid) for uuid in disk.nodes)
    return (
        f"{what}: {whose}, which has this name, is on {where}, so a job that was cut off, such as a move, has left it. Keep"
        f" it until verify reports nothing else about that disk; then run '{removal}' there, once no device that verify names uses it"
    )


def _Paths(disks: Iterable[objects.Disk]) -> list[str]:
    return [
        disk_params.Of(disk).Place(disk) for disk in disks if not disk.forthcoming and disk_params.Of(disk).name_in_path
    ]
