"""One node group: what should run there is started, and its disks are looked after."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, runtime, ssconf
from ganeti.utils.text import JoinFirst
from ganeti.watcher import decisions, guard, master, state, status, volumerepair
from ganeti.watcher.decisions import Action, Decision
from ganeti.watcher.rows import Instance, Node

if TYPE_CHECKING:
    import optparse

    from ganeti.luxi.client import Client
    from ganeti.opcodes import OpCode

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAMES_SHOWN = 10
_BOOTED = "its secondary node was booted"


def Run(options: optparse.Values, uuid: str) -> int:
    """Look after a group; raises errors of ours and of the master."""
    groups = ssconf.SimpleStore().GetNodegroupList()
    if not _UUID.fullmatch(uuid):
        raise errors.OpPrereqError(f"'{uuid[:100]}' is not the UUID of a node group", errors.ECODE_INVAL)
    if uuid not in groups:
        raise errors.OpPrereqError(f"Node group '{uuid}' is not known on this node", errors.ECODE_NOENT)
    try:
        file = state.File(uuid)
    except runtime.LockBusy:
        logging.error("Group %s: skipped: another watcher is running", groups[uuid])
        return constants.EXIT_FAILURE
    with master.Connect() as client:
        try:
            visit = _Visit(client, uuid, groups, file, options)
        except runtime.LockBusy:
            logging.error("Group %s: stopped: another watcher is running", groups[uuid])
            return constants.EXIT_FAILURE
        if options.verify_disks:
            from ganeti.watcher import verifydisks

            verifydisks.Run(client, visit, options)
    return constants.EXIT_SUCCESS


def _Visit(client: Client, uuid: str, groups: Mapping[str, str], file: state.File, options: optparse.Values) -> Visit:
    """Do everything for which the group's state is locked; raise LockBusy if another run got hold of it."""
    try:
        visit = Visit(client, uuid, groups[uuid], options)
        if guard.MayWork(options):
            visit.Act(file)
        status.Write(uuid, visit.instances)
        status.Merge(groups)
        volumerepair.Run(client, visit, file, options)
        return visit
    finally:
        # Verification may take long: meanwhile other runs can start what fails.
        file.Close()


class Visit:
    """One look at a group, and what is done about it."""

    def __init__(self, client: Client, uuid: str, name: str, options: optparse.Values):
        master.CheckMaster(client)
        self.uuid = uuid
        self.name = name
        self.began = runtime.Time()
        self._client = client
        self._options = options
        self.instances: list[Instance] = master.QueryInstances(client, uuid)
        self.nodes: list[Node] = master.QueryNodes(client, uuid)
        self.busy = master.QueryBusy(client, self.instances, self.began)

    def Act(self, file: state.File) -> None:
        """Submit what is needed; nothing is remembered of a run that ends with an error."""
        before = self._Settled(file.Read())
        tries, started = self._ActOnInstances(dict(before.tries))
        disks = decisions.DecideDisks(self.instances, self.nodes, self.busy, started, before.boot_ids)
        activations, rejected = self._Activate(disks.activate)
        for node, why in disks.postponed.items():
            logging.info("Group %s: disks on node %s, which was booted, have to wait: %s", self.name, node, why)
        for node, jobs in before.activations.items():
            activations[node] = activations.get(node, frozenset()) | jobs
        boot_ids = before.boot_ids if rejected else disks.boot_ids
        names = {instance.name for instance in self.instances}
        after = state.State(tries, boot_ids, activations, before.volumes)
        file.Save(after.Maintained(names, runtime.Time()))

    def _Settled(self, before: state.State) -> state.State:
        """Return what counts of the last runs: not the jobs that did not act because the instance had been changed."""
        idle, unfinished = master.QueryUnmatched(self._client, before.jobs)
        for name, known in before.tries.items():
            for job_id in sorted(known.jobs & idle):
                logging.info(
                    "Job %d did nothing because instance %s had been changed; it does not count as an attempt",
                    job_id,
                    name,
                )
        for node, jobs in before.activations.items():
            for job_id in sorted(jobs & idle):
                text = "Job %d did nothing because an instance with disks on node %s, which was booted, had been changed; looking again"
                logging.info(text, job_id, node)
        return before.Settled(idle, unfinished)

    def _ActOnInstances(self, tries: dict[str, state.Tries]) -> tuple[dict[str, state.Tries], set[str]]:
        """Return the tries, and the instances for whose start a job was submitted."""
        found = decisions.Decide(self.instances, self.busy, tries)
        known = {instance.name: instance for instance in self.instances}
        for decision in found:
            _Log(decision)
        chosen = [decision for decision in found if decision.action in (Action.START, Action.CLEAN_UP)]
        jobs = [[_Opcode(decision, known[decision.instance])] for decision in chosen]
        ids = master.Submit(self._client, jobs, self._options)
        submitted = {d.instance: job_id for d, job_id in zip(chosen, ids, strict=True) if job_id is not None}
        now = runtime.Time()
        for decision in found:
            name = decision.instance
            if decision.action is Action.FORGET:
                tries.pop(name, None)
            elif decision.action is Action.GIVE_UP or name in submitted:
                tries[name] = decisions.WithTry(tries.get(name, state.NONE), known[name], now, submitted.get(name, 0))
        _Summarize(self.name, len(self.instances), found)
        starts = {decision.instance for decision in chosen if decision.action is Action.START}
        return tries, submitted.keys() & starts

    def _Activate(self, wanted: Mapping[str, Sequence[str]]) -> tuple[dict[str, frozenset[int]], bool]:
        """Submit a job for the disks of each instance; return the jobs because of each node, and whether one was rejected."""
        known = {instance.name: instance for instance in self.instances}
        for name in wanted:
            logging.info("Activating the disks of instance %s: %s", name, _BOOTED)
        jobs = [[master.Activation(known[name], _BOOTED)] for name in wanted]
        found: dict[str, set[int]] = {}
        ids = master.Submit(self._client, jobs, self._options)
        for nodes, job_id in zip(wanted.values(), ids, strict=True):
            if job_id is not None:
                for node in nodes:
                    found.setdefault(node, set()).add(job_id)
        return {node: frozenset(jobs) for node, jobs in found.items()}, None in ids


def _Opcode(decision: Decision, instance: Instance) -> OpCode:
    """Return what is submitted; it does nothing if the instance is changed, such as shut down, before its turn comes."""
    from ganeti.opcodes import OpInstanceShutdown, OpInstanceStartup

    if decision.action is Action.START:
        return OpInstanceStartup(
            instance_name=decision.instance,
            if_match=instance.version,
            reason=master.Reason("Restarting: it should run and does not"),
        )
    return OpInstanceShutdown(
        instance_name=decision.instance,
        if_match=instance.version,
        admin_state_source=constants.USER_SOURCE,
        reason=master.Reason("Cleaning up: its user shut it down"),
    )


_TEXTS: dict[Action, tuple[Callable[..., Any], str]] = {
    Action.START: (logging.info, "Starting instance %s: %s"),
    Action.CLEAN_UP: (logging.info, "Cleaning up instance %s: %s"),
    Action.GIVE_UP: (logging.error, "Giving up on instance %s: %s; look at its jobs with 'gnt-job list'"),
    Action.LEAVE: (logging.info, "Leaving instance %s alone: %s"),
    Action.FORGET: (logging.info, "Forgetting the attempts at instance %s: %s"),
}


def _Log(decision: Decision) -> None:
    log, text = _TEXTS[decision.action]
    log(text, decision.instance, decision.why)


def _Summarize(group: str, count: int, found: Sequence[Decision]) -> None:
    acted = [f"{d.action.value} {d.instance}" for d in found if d.action in (Action.START, Action.CLEAN_UP)]
    if not acted:
        logging.info("Group %s: %d instances, nothing to start", group, count)
        return
    logging.info("Group %s: %d instances; %s", group, count, JoinFirst(acted, _NAMES_SHOWN))
