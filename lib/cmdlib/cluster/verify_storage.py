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
    from ganeti.rpc import RpcRunner

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


def Questions(snapshot: objects.Snapshot, instances: Iterable[objects.Instance]) -> dict[str, Any]:
    """Return what the primary nodes are asked about files: {} where no disks are files."""
    tops = [
        getattr(snapshot.cluster, template.directory)
        for name, template in disk_params.TEMPLATES.items()
        if template.name_in_path and template.directory and name in snapshot.cluster.enabled_disk_templates
    ]
    if not any(tops):
        return {}
    wanted: dict[str, set[str]] = {}
    for inst in instances:
        # A conversion makes the new files where none of the disks is yet.
        folders = {posixpath.join(top, str(inst.name)) for top in tops if top}
        folders.update(posixpath.dirname(path) for path in _Paths(snapshot.InstanceDisks(inst)))
        wanted.setdefault(snapshot.NodeName(str(inst.primary_node)), set()).update(folders)
    return {_FILES: {name: sorted(folders) for name, folders in wanted.items()}}


def CheckFiles(
    report: Report, snapshot: objects.Snapshot, instances: Iterable[objects.Instance], answers: Mapping[str, Any]
) -> None:
    """Report files in the directories of instances that are nobody's, such as the copies of a conversion that was cut off.

    A file with the name of a disk is that disk's, wherever it lies: a change of the instance's name, or detaching, may have been cut
    off.
    """
    known = {posixpath.basename(path) for path in _Paths(snapshot.disks.values())}
    for inst in instances:
        result = answers.get(str(inst.primary_node))
        if result is None or result.fail_msg:
            continue
        for folder, names in sorted((result.payload.get(_FILES) or {}).items()):
            if posixpath.basename(folder) != inst.name:
                continue
            for name in names:
                path = shlex.quote(posixpath.join(folder, name))
                report.ErrorIf(
                    name not in known,
                    "ENODEORPHANLV",
                    INSTANCE,
                    inst.name,
                    f"{path} on node {result.node_name} belongs to no disk of the cluster: it may be left over from a job that"
                    f" was cut off, such as a conversion; if nobody needs it, run 'rm -r {path}' there",
                )


def _Paths(disks: Iterable[objects.Disk]) -> list[str]:
    return [
        disk_params.Of(disk).Place(disk) for disk in disks if not disk.forthcoming and disk_params.Of(disk).name_in_path
    ]
