"""Check what nodes answered to node_verify; pure (doc/reference/drivers.md c.3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ganeti import constants, params, pathutils
from ganeti.cmdlib.cluster.verify_report import NODE, Report
from ganeti.params import disk as disk_params
from ganeti.params import runstate
from ganeti.utils.text import NiceSort

if TYPE_CHECKING:
    from ganeti import objects


@dataclass
class NodeImage:
    """One node as it looks and as it should look; None is what it did not report.

    ``volumes``: ``vg/lv``.  ``pv_sizes``: MiB of the smallest and the biggest physical volume, with exclusive storage.
    ``surplus``: MiB that guests give back if another one needs them.
    """

    node: objects.Node
    failed: bool = False
    running: list[str] | None = None
    free_memory: int | None = None
    surplus: int = 0
    os_rows: list[list[Any]] | None = None
    os_versions: dict[str, str | None] = field(default_factory=dict)
    volumes: frozenset[str] | None = None
    pv_sizes: tuple[float, float] | None = None
    drbd_version: str | None = None


def CheckVersion(report: Report, name: str, answer: Mapping[str, Any]) -> bool:
    """Return whether the node speaks our protocol; if not, the rest of its answer is not used."""
    version = answer.get("version")
    if not (isinstance(version, list) and len(version) == 2):
        report.Error("ENODERPC", NODE, name, "the node did not report its versions")
        return False
    if report.ErrorIf(
        version[0] != constants.PROTOCOL_VERSION,
        "ENODEVERSION",
        NODE,
        name,
        f"incompatible protocol versions: master {constants.PROTOCOL_VERSION}, node {version[0]}",
    ):
        return False
    report.WarnIf(
        version[1] != constants.RELEASE_VERSION,
        "ENODEVERSION",
        NODE,
        name,
        f"software version mismatch: master {constants.RELEASE_VERSION}, node {version[1]}",
    )
    return True


def CheckHypervisors(report: Report, name: str, answer: Mapping[str, Any]) -> None:
    for hv, problem in (answer.get("hypervisor") or {}).items():
        report.ErrorIf(problem, "ENODEHV", NODE, name, f"hypervisor {hv} verify failure: '{problem}'")
    for source, hv, problem in answer.get("hvparms") or []:
        report.Error("ENODEHV", NODE, name, f"hypervisor {hv} parameter verify failure (source {source}): {problem}")


def CheckSetup(report: Report, name: str, answer: Mapping[str, Any]) -> None:
    setup = answer.get("nodesetup")
    if setup is None:
        report.Error("ENODESETUP", NODE, name, "node setup was not checked")
    for problem in setup or []:
        report.Error("ENODESETUP", NODE, name, f"node setup error: {problem}")


def CheckTime(report: Report, name: str, answer: Mapping[str, Any], start: float, end: float) -> None:
    """Report a clock outside the time of the call, with some tolerance."""
    told = answer.get("time")
    try:
        seconds, microseconds = told  # type: ignore[misc]
        clock = seconds + microseconds / 1e6
    except (TypeError, ValueError):
        report.Error("ENODETIME", NODE, name, "the node did not report its time")
        return
    if clock < start - constants.MAX_CLOCK_SKEW:
        difference: str | None = f"{start - clock:.1f}s"
    elif clock > end + constants.MAX_CLOCK_SKEW:
        difference = f"{clock - end:.1f}s"
    else:
        difference = None
    report.ErrorIf(difference, "ENODETIME", NODE, name, f"its clock differs from the master's by at least {difference}")


def Neighbours(snapshot: objects.Snapshot, group_uuid: str, online: Iterable[objects.Node]) -> dict[str, list[str]]:
    """Return the nodes of other groups that each node of a group tries to reach by SSH: one of each group, in turn."""
    others = []
    for uuid in sorted(snapshot.nodegroups):
        members = [snapshot.nodes[node] for node in snapshot.GroupNodes(uuid)]
        names = sorted(node.name for node in members if not node.offline)
        if names and uuid != group_uuid:
            others.append(itertools.cycle(names))
    return {name: sorted(map(next, others)) for name in sorted(node.name for node in online)} if others else {}


def CheckNetwork(report: Report, name: str, answer: Mapping[str, Any]) -> None:
    for other, problem in sorted((answer.get("nodelist") or {}).items()):
        report.Error("ENODESSH", NODE, name, f"ssh communication with node '{other}': {problem}")
    for other, problem in sorted((answer.get("node-net-test") or {}).items()):
        report.Error("ENODENET", NODE, name, f"tcp communication with node '{other}': {problem}")
    if answer.get("master-ip") is False:
        report.Error("ENODENET", NODE, name, "the master IP is not reachable")


def CheckPrograms(report: Report, name: str, answer: Mapping[str, Any]) -> None:
    scripts = answer.get("user-scripts") or []
    report.ErrorIf(
        scripts, "ENODEUSERSCRIPTS", NODE, name, f"these scripts are missing or not executable: {', '.join(scripts)}"
    )


def CheckOobPrograms(report: Report, node: objects.Node, answer: Mapping[str, Any]) -> None:
    """Report out-of-band programs that the node could not run; only the master runs them."""
    if not (node.master_candidate or node.master_capable):
        return
    for problem in answer.get("oob-paths") or []:
        report.ErrorIf(
            problem,
            "ENODEOOBPATH",
            NODE,
            node.name,
            f"out-of-band program {problem}; without it, power commands work for no node that uses it once this node is the"
            " master: install it, or change the node parameter oob_program",
        )


def CheckStoragePaths(report: Report, name: str, answer: Mapping[str, Any], is_master: bool) -> None:
    key = "allowed-file-storage-paths"
    if is_master:
        forbidden = answer.get(key) or []
        report.ErrorIf(
            forbidden,
            "ENODEFILESTORAGEPATHS",
            NODE,
            name,
            f"Found forbidden file storage paths: {', '.join(forbidden)}; remove them from"
            f" {pathutils.FILE_STORAGE_PATHS_FILE}, then run 'gnt-cluster copyfile {pathutils.FILE_STORAGE_PATHS_FILE}'",
        )
    else:
        report.ErrorIf(
            key in answer,
            "ENODEFILESTORAGEPATHS",
            NODE,
            name,
            "a node that is not the master checked file storage paths",
        )
    for key, code, what in (
        ("file-storage-path", "ENODEFILESTORAGEPATHUNUSABLE", "file"),
        ("shared-file-storage-path", "ENODESHAREDFILESTORAGEPATHUNUSABLE", "shared file"),
        ("gluster-storage-path", "ENODEGLUSTERSTORAGEPATHUNUSABLE", "gluster"),
    ):
        if key in answer:
            report.Error(code, NODE, name, f"The configured {what} storage path is unusable: {answer[key]}")


def CheckBridges(report: Report, name: str, answer: Mapping[str, Any]) -> None:
    missing = answer.get("bridges")
    report.ErrorIf(missing, "ENODENET", NODE, name, f"missing bridges: {', '.join(NiceSort(missing or []))}")


def ReadGuests(report: Report, image: NodeImage, answer: Mapping[str, Any]) -> None:
    """Put running instances and free memory of an answer into the image."""
    name = image.node.name
    running = answer.get("instancelist")
    if isinstance(running, list):
        image.running = [str(guest) for guest in running]
    else:
        image.failed = True
        report.Error("ENODEHV", NODE, name, f"rpc call to node failed (instancelist): {running}")
    info = answer.get("hvinfo")
    free = info.get("memory_free") if isinstance(info, dict) else None
    if isinstance(free, int):
        image.free_memory = free
    else:
        report.Error("ENODEHV", NODE, name, "the node did not report its free memory")


def ReadOs(report: Report, image: NodeImage, answer: Mapping[str, Any]) -> None:
    rows = answer.get("oslist")
    fits = isinstance(rows, list) and all(isinstance(row, list) and len(row) == 8 for row in rows)
    if fits:
        image.os_rows = rows
        facts = answer.get("os-facts")
        image.os_versions = {name: row["version"] for name, row in facts.items()} if isinstance(facts, dict) else {}
    else:
        report.Error("ENODEOS", NODE, image.node.name, "the node sent an invalid list of operating systems")


def CheckOs(report: Report, image: NodeImage, reference: NodeImage) -> None:
    """Check the OS definitions of a node, by themselves and against those of the first node that has any."""
    name = image.node.name
    own, other = _ByName(image.os_rows or []), _ByName(reference.os_rows or [])
    for os_name, rows in sorted(own.items()):
        path, valid, text = rows[0][1:4]
        report.ErrorIf(not valid, "ENODEOS", NODE, name, f"Invalid OS {os_name} (located at {path}): {text}")
        if len(rows) > 1:
            shadowed = ", ".join(row[1] for row in rows)
            report.Error(
                "ENODEOS",
                NODE,
                name,
                f"OS {os_name} exists in several directories, of which the first is used: {shadowed}",
            )
        if image is reference:
            continue
        if os_name not in other:
            report.Error("ENODEOS", NODE, name, f"OS {os_name} exists here, but not on node {reference.node.name}")
        elif other[os_name][0][2]:
            _CompareOs(report, name, os_name, rows[0], other[os_name][0], reference.node.name)
            ours, theirs = image.os_versions.get(os_name), reference.os_versions.get(os_name)
            report.ErrorIf(
                ours != theirs,
                "ENODEOS",
                NODE,
                name,
                f"OS {os_name}: os_version differs from node {reference.node.name}: {ours or 'none'} vs. {theirs or 'none'}",
            )
    for os_name in sorted(other.keys() - own.keys()):
        report.Error(
            "ENODEOS",
            NODE,
            name,
            f"OS {os_name} exists on node {reference.node.name}, but not here",
        )


def _CompareOs(
    report: Report, name: str, os_name: str, row: Sequence[Any], other: Sequence[Any], reference: str
) -> None:
    for what, column in (("API version", 6), ("variants list", 4), ("parameters", 5)):
        ours, theirs = _Sorted(row[column]), _Sorted(other[column])
        report.ErrorIf(
            ours != theirs,
            "ENODEOS",
            NODE,
            name,
            f"OS {os_name}: {what} differs from node {reference}: [{', '.join(map(str, ours))}]"
            f" vs. [{', '.join(map(str, theirs))}]",
        )


def _Sorted(values: Any) -> list[str]:
    return sorted(str(value) for value in values or [])


def _ByName(rows: Iterable[list[Any]]) -> dict[str, list[list[Any]]]:
    result: dict[str, list[list[Any]]] = {}
    for row in rows:
        result.setdefault(row[0], []).append(row)
    return result


def CheckGuests(report: Report, image: NodeImage, snapshot: objects.Snapshot) -> None:
    """Report instances that run on a node where they do not belong."""
    for guest in NiceSort(image.running or []):
        inst = snapshot.InstanceByName(guest)
        if inst is None:
            report.Error(
                "ENODEORPHANINSTANCE",
                NODE,
                image.node.name,
                f"instance {guest} runs here, but is not in the configuration",
            )
        elif inst.primary_node != image.node.uuid:
            primary = snapshot.nodes[inst.primary_node].name
            report.Error(
                "EINSTANCEWRONGNODE",
                "instance",
                guest,
                f"it has a process on node {image.node.name}, but its primary node is {primary};"
                f" use 'gnt-instance migrate --cleanup {guest}'",
            )


def CheckStates(report: Report, node: str, rows: Mapping[str, Mapping[str, Any]], snapshot: objects.Snapshot) -> None:
    """Report guests on a node that do not simply run; ``rows``: name -> what the node reports of its process."""
    for guest in NiceSort(rows):
        if snapshot.InstanceByName(guest) is None:
            continue  # reported as an orphan
        state = runstate.Of(rows[guest])
        if state == runstate.UNRESPONSIVE:
            text = f"its process on node {node} does not respond; to end it, use 'gnt-instance shutdown --timeout 0 {guest}'"
        elif state in (*runstate.NOT_THE_GUEST, runstate.LEAVING):
            text = f"a migration was not finished: on node {node} its state is {state}; use 'gnt-instance migrate --cleanup {guest}'"
        elif state == runstate.STOPPED:
            text = f"it was stopped on node {node} by an error, for example a full disk"
        else:
            continue
        report.Error("EINSTANCEDOWN", "instance", guest, text)


def CheckSpareMemory(report: Report, images: Mapping[str, NodeImage], snapshot: objects.Snapshot) -> None:
    """Report nodes without the memory to take over the mirrored instances of any one other node (N+1)."""
    mirrored = disk_params.With(mirror=disk_params.INTERNAL)
    for image in images.values():
        if image.node.offline or image.free_memory is None:
            continue
        needed: dict[str, int] = {}
        for inst in snapshot.SecondaryInstances(image.node.uuid):
            beparams = params.FillBE(snapshot, inst)
            if snapshot.DiskTemplate(inst) in mirrored and beparams["auto_balance"]:
                needed[inst.primary_node] = needed.get(inst.primary_node, 0) + beparams["minmem"]
        for primary, memory in needed.items():
            report.ErrorIf(
                memory > image.free_memory + image.surplus,
                "ENODEN1",
                NODE,
                image.node.name,
                f"not enough memory for the instances of node {snapshot.nodes[primary].name} if it fails: they need"
                f" {memory} MiB, {image.free_memory} MiB are free"
                + (f", and its guests can give back {image.surplus} MiB" if image.surplus else ""),
            )
