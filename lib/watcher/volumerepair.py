"""Looks at the volume groups of the nodes of a group, and repairs one that has lost a disk (doc/design-lvm-repair.rst).

What follows from what is seen stands in ``volumegroups``.
"""

from __future__ import annotations

import dataclasses
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, runtime, watchedgroups
from ganeti.watcher import busy, guard, master, volumegroups
from ganeti.watcher.rows import INSTANCE_FIELDS, Instance, Instances, Node, Values
from ganeti.watcher.volumegroups import Event, Group, Guest, Job, Known, Missing

if TYPE_CHECKING:
    import optparse

    from ganeti.luxi.client import Client
    from ganeti.opcodes import OpCode
    from ganeti.watcher.group import Visit
    from ganeti.watcher.state import File

_UNIT = constants.ST_LVM_VG
# Seconds for a look at nodes: the group's state stays locked meanwhile.
_LOOK_SECONDS = 60.0
_NO_EFFECT, _UNKNOWN_END = "it ended, and the group is not complete", "how it ended is not known"
_NOT_WANTED = "ganeti-watcher runs without --repair-volume-groups"

_GONE = "partial"


@dataclasses.dataclass(frozen=True)
class Looks:
    """What nodes answered: node -> group -> the physical volumes that are missing, and the paths of those that are there again."""

    missing: Mapping[str, Mapping[str, Missing]] = dataclasses.field(default_factory=dict)
    returned: Mapping[str, Mapping[str, Missing]] = dataclasses.field(default_factory=dict)


def Run(client: Client, visit: Visit, file: File, options: optparse.Values) -> None:
    """Look at the volume groups, remember and report what was seen, repair what may be repaired."""
    from ganeti.params import disk

    if not set(disk.UnitTypes()[_UNIT]).intersection(client.QueryClusterInfo()["enabled_disk_templates"]):
        return
    if guard.MayWork(options):
        _Round(client, visit, file, options).Act()


def _Look(client: Client, visit: Visit) -> Looks:
    """Return the groups of the nodes that answered; the others are not known.

    A node that a job has locked is not asked: its volumes may be about to change.
    """
    from ganeti.opcodes import OpNodeQueryStorage

    held = _Held(client)
    asked = [
        node.name
        for node in visit.nodes
        if volumegroups.IsAsked(node) and node.boot_id and not held & {node.name, node.uuid}
    ]
    if not asked:
        return Looks()
    op = OpNodeQueryStorage(
        nodes=asked,
        storage_type=_UNIT,
        output_fields=["node", "name", "missing", "returned"],
        reason=master.Reason("Looking for missing disks"),
    )
    results = _Ask(client, [op], f"Group {visit.name}: how its volume groups are is not known")
    looks: tuple[dict[str, dict[str, Missing]], ...] = ({}, {})
    for node, name, *answers in results[0] if results else ():
        for found, answer in zip(looks, answers, strict=True):
            found.setdefault(node, {})[name] = tuple(answer)
    return Looks(*looks)


def _Held(client: Client) -> set[str]:
    """Return the nodes that a job has locked for itself, by name or UUID."""
    rows = map(Values, client.Query("lock", ("name", "mode"), None)["data"])
    prefix = "node/"
    return {name.removeprefix(prefix) for name, mode in rows if mode == "exclusive" and name.startswith(prefix)}


def _Ask(client: Client, ops: Sequence[OpCode], otherwise: str) -> list[Any] | None:
    """Return the results of opcodes that only look; None if they failed or take too long, which is logged."""
    job_id = client.SubmitJob(ops)
    status = master.Wait(client, job_id, _LOOK_SECONDS)
    if status is None:
        client.CancelJob(job_id)
        logging.info("%s: job %d did not end in time", otherwise, job_id)
        return None
    [[results]] = client.QueryJobs([job_id], ["opresult"])
    client.ArchiveJob(job_id)
    if status == constants.JOB_STATUS_SUCCESS:
        return list(results)
    logging.warning("%s: %s", otherwise, master.ErrorOf(results))
    return None


class _Round:
    """What follows from one look at the nodes of a group."""

    def __init__(self, client: Client, visit: Visit, file: File, options: optparse.Values):
        self._client = client
        self._visit = visit
        self._file = file
        self._options = options
        state = file.Read()
        nothing, now = volumegroups.NOTHING, runtime.Time()
        volumes = {
            node.name: volumegroups.WithRecords(state.volumes.get(node.name, nothing), node.tags, now)
            for node in visit.nodes
        }
        self._state = dataclasses.replace(state, volumes={**state.volumes, **volumes})
        self._errors: dict[int, str] = {}
        self._answered: set[str] = set()

    def Act(self) -> None:
        # In this order: a repair that ends in between would be one that had no effect.
        jobs = self._Jobs()
        looks = _Look(self._client, self._visit)
        self._answered = set(looks.missing)
        now = runtime.Time()
        due: list[tuple[Node, str]] = []
        waiting: list[tuple[Node, str]] = []
        volumes: dict[str, Known] = {}
        for node in self._visit.nodes:
            known = self._state.volumes.get(node.name, volumegroups.NOTHING)
            groups, repaired = {}, known.repaired
            seen, returned = looks.missing.get(node.name, {}), looks.returned.get(node.name, {})
            for name in sorted({*known.groups, *seen}):
                before = known.groups.get(name)
                job = jobs.get(before.job, Job.FAILED) if before is not None else Job.FAILED
                after, event = volumegroups.Next(
                    before,
                    seen.get(name),
                    node.boot_id,
                    now,
                    job,
                    returned.get(name, ()),
                    bool(seen) and name not in seen,
                )
                if event is Event.NEEDLESS and before is not None and self._client.CancelJob(before.job)[0]:
                    after, event = Group(watchedgroups.GOOD, seen=now), Event.WITHDRAWN
                if event in (Event.WITHDRAWN, Event.REJECTED):
                    repaired = 0.0  # nothing was changed
                if after is not None:
                    groups[name] = after
                if after is not None and after.state == watchedgroups.REPAIRING and job is Job.UNFINISHED:
                    waiting.append((node, name))
                if event is Event.DUE:
                    due.append((node, name))
                self._Report(node, name, event, before, after)
                if after is not None and after.state == watchedgroups.GOOD:
                    self._Settle(node, name, event)
            volumes[node.name] = Known(groups, repaired)
        self._Remember(volumes)
        for node, name in waiting:
            self._Reconsider(node, name, looks)
        for node, name in due:
            self._Treat(node, name, looks)

    def _Jobs(self) -> dict[int, Job]:
        """Return how far the jobs of repairs are."""
        wanted = {
            group.job
            for known in self._state.volumes.values()
            for group in known.groups.values()
            if group.state == watchedgroups.REPAIRING and group.job
        }
        if not wanted:
            return {}
        chosen = ["|", *(["=", "id", job_id] for job_id in sorted(wanted))]
        rows = self._client.Query("job", ("id", "status", "opresult"), chosen)["data"]
        return {job_id: self._JobOf(job_id, status, results) for job_id, status, results in map(Values, rows)}

    def _JobOf(self, job_id: int, status: str | None, results: Sequence[Any]) -> Job:
        if status is None:
            return Job.FAILED
        if status not in constants.JOBS_FINALIZED:
            return Job.UNFINISHED
        if status == constants.JOB_STATUS_SUCCESS:
            return Job.DONE
        self._errors[job_id] = master.ErrorOf(results)
        if status == constants.JOB_STATUS_CANCELED:
            return Job.REJECTED
        error = errors.DecodeException(results[0]) if results else None
        return Job.REJECTED if isinstance(error, errors.OpPrereqError) else Job.FAILED

    def _Remember(self, volumes: Mapping[str, Known]) -> None:
        """Write the state, and for others a file that says in which state each group is."""
        kept = {node: known for node, known in volumes.items() if known != volumegroups.NOTHING}
        self._state = dataclasses.replace(self._state, volumes=kept)
        self._file.Save(self._state)
        # Of a node that did not answer it is only remembered that it had the group.
        shown = [
            (node, name, group.state)
            for node, name, group in _Groups(kept)
            if group.state != watchedgroups.GOOD or node in self._answered
        ]
        watchedgroups.Write(self._visit.uuid, shown)

    def _Settle(self, node: Node, name: str, event: Event) -> None:
        """Have the tag corrected that says that a repair failed or did not end: somebody has repaired the group."""
        from ganeti.opcodes import OpTagsDel, OpTagsSet

        record = watchedgroups.Repairs(node.tags).get(name)
        if event not in (Event.BACK, Event.UNMIRRORED) or record is None or record.state == watchedgroups.DONE:
            return
        common = {
            "kind": constants.TAG_NODE,
            "name": node.name,
            "priority": constants.OP_PRIO_LOW,
            "reason": master.Reason("A volume group whose repair failed is complete again"),
        }
        done = record._replace(state=watchedgroups.DONE)
        ops = [OpTagsSet(tags=[done.tag], **common), OpTagsDel(tags=[record.tag], **common)]
        master.Submit(self._client, [ops], self._options)

    # --- what is said -------------------------------------------------------------------------------------------------

    def _Report(self, node: Node, name: str, event: Event, before: Group | None, after: Group | None) -> None:
        if event not in _TEXTS:
            return
        say, text = _TEXTS[event]
        job = before.job if before is not None else 0
        said = text.format(
            missing=", ".join(after.missing if after is not None else ()),
            paths=shlex.join(after.missing if after is not None else ()),
            job=job or "which was perhaps never submitted",
            error=self._errors.get(job, _NO_EFFECT if after is not None and after.missing else _UNKNOWN_END),
            node=node.name,
            name=name,
        )
        say("Node %s, volume group %s: %s", node.name, name, said)

    # --- the repair ---------------------------------------------------------------------------------------------------

    def _Treat(self, node: Node, name: str, looks: Looks) -> None:
        """Repair a group if all conditions hold, else say which one does not."""
        now = runtime.Time()
        # Users of older releases have set the tags for something else.
        why = "" if self._options.repair_volume_groups else _NOT_WANTED
        why = why or volumegroups.Obstacle(self._visit.nodes, looks.missing, self._state.volumes, node.name, now)
        if not why and guard.Paused():
            why = "the watcher is paused"
        guests: list[Guest] = []
        if not why:
            why, guests = self._Closer(node, name, now)
        if why:
            logging.warning("Node %s, volume group %s: it is not repaired: %s", node.name, name, why)
            return
        self._Submit(node, name, guests)

    def _Reconsider(self, node: Node, name: str, looks: Looks) -> None:
        """Cancel a repair that has not begun if it would not be submitted now.

        Nodes that do not answer do not count: they may be locked by the very jobs that the repair waits for.
        """
        group = self._state.volumes[node.name].groups[name]
        why = "" if self._options.repair_volume_groups else _NOT_WANTED
        if not why and node.boot_id and node.boot_id != group.boot_id:
            why = "the node was restarted"
        why = why or volumegroups.Elsewhere(self._visit.nodes, looks.missing, self._state.volumes, node.name)
        why = why or self._NotPermitted(node, name)
        if not why or not self._client.CancelJob(group.job)[0]:
            return
        now = runtime.Time()
        bad = Group(watchedgroups.BAD, group.missing, now, now, node.boot_id or group.boot_id)
        self._Change(node, name, bad, 0.0)
        text = "Node %s, volume group %s: its repair, job %d, was canceled before it began: %s"
        logging.warning(text, node.name, name, group.job, why)

    def _NotPermitted(self, node: Node, name: str) -> str:
        """Return why the tags, as they are now, do not permit a repair; nothing if they do or cannot be looked at."""
        from ganeti.opcodes import OpInstanceQueryData

        names = sorted(instance.name for instance in self._InstancesOf(node))
        if not names:
            return ""
        op = OpInstanceQueryData(instances=names, static=True, use_locking=False)
        results = _Ask(self._client, [op], f"Node {node.name}, volume group {name}")
        guests = self._Described(name, results[0], set(), {}) if results else []
        return volumegroups.ObstacleOnNode(guests, None, runtime.Time()) if guests else ""

    def _InstancesOf(self, node: Node) -> list[Instance]:
        """Return the instances of a node, those whose primary node is in another group of nodes too."""
        wanted = ["|", ["=", "pnode", node.name], ["=[]", "snodes", node.name]]
        return Instances(self._client.Query("instance", INSTANCE_FIELDS, wanted)["data"])

    def _Closer(self, node: Node, name: str, now: float) -> tuple[str, list[Guest]]:
        """Return why the group is not repaired, as far as jobs and instances say, and the instances of the node."""
        began = now
        instances = self._InstancesOf(node)
        if not instances:
            return volumegroups.ObstacleOnNode([], None, now), []
        reasons = master.QueryBusy(self._client, instances, began)
        pending = self._client.Query("job", busy.JOB_FIELDS, busy.PENDING)["data"]
        acting = busy.ActingOn(set(busy.Words(node.name, node.uuid)) - {""}, list(map(Values, pending)))
        guests = self._Guests(node, name, sorted(instance.name for instance in instances), reasons)
        if guests is None:
            return "its instances and volumes could not be looked at", []
        return volumegroups.ObstacleOnNode(guests, acting, now), guests

    def _Guests(self, node: Node, name: str, names: Sequence[str], reasons: Mapping[str, str]) -> list[Guest] | None:
        """Return the instances of a node as the configuration and LVM show them; None if they cannot be looked at."""
        from ganeti.opcodes import OpInstanceQueryData, OpNodeQueryvols

        ops = [
            OpNodeQueryvols(nodes=[node.name], output_fields=["vg", "name", "health"]),
            OpInstanceQueryData(instances=list(names), static=True, use_locking=False),
        ]
        results = _Ask(self._client, ops, f"Node {node.name}, volume group {name}")
        if results is None:
            return None
        volumes, described = results
        away = {f"{group}/{volume}" for group, volume, health in volumes if group == name and health == _GONE}
        guests = self._Described(name, described, away, reasons)
        # A node that does not answer is left out of the answer: what was lost is not known then.
        shown = any(group == name for group, _, _ in volumes)
        return guests if shown or not any(guest.in_group for guest in guests) else None

    def _Described(
        self, name: str, described: Mapping[str, Any], away: set[str], reasons: Mapping[str, str]
    ) -> list[Guest]:
        tags = dict(map(Values, self._client.Query("instance", ("name", "tags"), None)["data"]))
        cluster = tuple(self._client.QueryTags(constants.TAG_CLUSTER, ""))
        groups = {found["pnode_group_name"] for found in described.values()}
        of_group = {group: tuple(self._client.QueryTags(constants.TAG_NODEGROUP, group)) for group in groups}
        return [
            Guest(
                instance,
                found["pnode"],
                f"{found['uuid']}-{found['serial_no']}",
                (tuple(tags.get(instance) or ()), of_group[found["pnode_group_name"]], cluster),
                any(volume.startswith(f"{name}/") for disk in found["disks"] for volume in _VolumesOf(disk)),
                reasons.get(instance, ""),
                tuple(index for index, disk in enumerate(found["disks"]) if away.intersection(_VolumesOf(disk))),
            )
            for instance, found in described.items()
        ]

    def _Submit(self, node: Node, name: str, guests: Sequence[Guest]) -> None:
        """Submit the repair and, behind it, what makes the lost halves of mirrors again.

        What is about to happen is remembered first: a run that is cut off here must not lead to a second repair.
        """
        group = self._state.volumes[node.name].groups[name]
        lost = [guest for guest in guests if guest.lost]
        now = runtime.Time()
        before = self._state.volumes[node.name]
        self._Change(node, name, dataclasses.replace(group, state=watchedgroups.REPAIRING), now)
        jobs = [[_Repair(node, name, group.missing)]]
        jobs += [[_MakeAgain(guest, node, -number)] for number, guest in enumerate(lost, start=1)]
        try:
            repair, *mirrors = master.Submit(self._client, jobs, self._options)
        except (errors.JobQueueDrainError, errors.JobQueueFull):
            self._Change(node, name, group, before.repaired)
            raise
        if repair is None:
            self._Change(node, name, group, before.repaired)
            return
        self._Change(node, name, dataclasses.replace(group, state=watchedgroups.REPAIRING, job=repair), now)
        makers = [f"{guest.name} (job {job})" for guest, job in zip(lost, mirrors, strict=True) if job is not None]
        logging.warning(
            "Node %s, volume group %s: it is repaired by job %d; then mirrors are made again of %s",
            node.name, name, repair, ", ".join(makers) or "no instance, as none lost a volume",
        )  # fmt: skip

    def _Change(self, node: Node, name: str, group: Group, repaired: float) -> None:
        known = self._state.volumes[node.name]
        changed = Known({**known.groups, name: group}, repaired)
        self._Remember({**self._state.volumes, node.name: changed})


def _Repair(node: Node, name: str, missing: Missing) -> OpCode:
    """Return the repair; it does nothing if the node was changed, or other physical volumes are missing by then."""
    from ganeti.opcodes import OpRepairNodeStorage

    return OpRepairNodeStorage(
        node_name=node.name,
        storage_type=_UNIT,
        name=name,
        missing=list(missing),
        if_match=node.version,
        reason=master.Reason("Repairing a volume group that has lost physical volumes"),
    )


def _MakeAgain(guest: Guest, node: Node, repair: int) -> OpCode:
    """Return what makes the lost side of an instance's mirrors again, if the job ``repair`` before it succeeded."""
    from ganeti.opcodes import OpInstanceReplaceDisks

    mode = "replace_on_primary" if guest.primary == node.name else "replace_on_secondary"
    return OpInstanceReplaceDisks(
        instance_name=guest.name,
        mode=mode,
        disks=list(guest.lost),
        if_match=guest.version,
        if_primary=guest.primary,
        depends=[[repair, [constants.JOB_STATUS_SUCCESS]]],
        priority=constants.OP_PRIO_LOW,
        reason=master.Reason(f"Making mirrors again that were lost on {node.name}"),
    )


def _VolumesOf(disk: Mapping[str, Any]) -> Iterator[str]:
    """Yield ``vg/lv`` of each logical volume of a disk as OP_INSTANCE_QUERY_DATA describes it."""
    from ganeti.objects.instance import VolumeName

    name = VolumeName(disk["dev_type"], disk["logical_id"])
    if name is not None:
        yield name
    for child in disk["children"]:
        yield from _VolumesOf(child)


def _Groups(volumes: Mapping[str, Known]) -> Iterator[tuple[str, str, Group]]:
    for node in sorted(volumes):
        for name in sorted(volumes[node].groups):
            yield node, name, volumes[node].groups[name]


_BY_HAND = "if the disk is lost, 'gnt-node repair-storage {node} " + _UNIT + " {name}' repairs the group"
_TEXTS: dict[Event, tuple[Callable[..., None], str]] = {
    Event.LOST: (logging.warning, "physical volumes {missing} are missing; " + _BY_HAND),
    Event.GONE: (
        logging.warning,
        "it is gone: the node answers and does not show it; 'vgs' and 'pvs' on the node show what there is",
    ),
    Event.RETURNED: (
        logging.warning,
        "{missing} is there again but counts as missing, as the group was changed meanwhile; 'vgextend --restoremissing {name}"
        " {paths}' on the node takes it back",
    ),
    Event.BACK: (logging.info, "it is complete again: the disk came back, or somebody has repaired the group"),
    Event.WITHDRAWN: (logging.info, "it is complete again, so its repair, job {job}, was canceled before it began"),
    Event.REPAIRED: (logging.info, "job {job} has repaired it"),
    Event.UNMIRRORED: (
        logging.error,
        "it is complete again, but its repair, job {job}, failed: {error}; mirrors that lost volumes were not made again:"
        " 'gnt-cluster verify' names them, 'gnt-instance replace-disks -a INSTANCE' makes them again",
    ),
    Event.REJECTED: (logging.warning, "its repair, job {job}, changed nothing: {error}"),
    Event.FAILURE: (
        logging.error,
        "its repair, job {job}, failed: {error}; physical volumes {missing} are missing, and nothing more is done by itself;"
        " " + _BY_HAND,
    ),
    Event.STILL_FAILED: (
        logging.error,
        "its repair, job {job}, has failed, physical volumes {missing} are missing, and nothing more is done by itself; "
        + _BY_HAND,
    ),
}
