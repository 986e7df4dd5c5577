"""Sees mirrors that are frozen, or whole again, and has a job decide what counts (doc/design-drbd.rst).

A guest whose primary node lost its other side stands still until this has happened: the job is urgent (it waits neither
for other jobs nor for a queue that is drained), and a node that is silent delays nothing but itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import constants, errors, objects, opcodes, runtime
from ganeti.cmdlib.disk import mirrors
from ganeti.params import disk as disk_params
from ganeti.server.woken import WokenThread

if TYPE_CHECKING:
    from ganeti.luxi.pending import Pending
    from ganeti.rpc import RpcResult, RpcRunner
    from ganeti.store import Store

# Seconds between two looks at a node.
PERIOD = 2.0
# A node that needs longer for its answer is looked at again later.
PATIENCE = 10.0
# Seconds before another job for the same instance if the last one failed.  Each that fails although nothing has
# changed and nothing is urgent doubles that, up to the longer time: it may take an administrator.
RETRY_AFTER, RETRY_AT_LAST = 15.0, 300.0
# Jobs at a time for the primary instances of one node: if it hangs, others' jobs must still find a worker.
PER_NODE = 8
# Of a node that does not answer: so many characters are logged, at most so often in seconds.
_SHOWN, _QUIET = 500, 60.0

Submit = Callable[[Sequence[opcodes.OpCode]], "Pending"]


class _Try(NamedTuple):
    """The last job for an instance; ``job_id``: None if it was not taken in.

    ``when`` it was made, what was known of the mirrors then (``said``), and the seconds until the next one if that remains so.
    """

    job_id: int | None = None
    when: float = float("-inf")
    said: Sequence[Any] = ()
    pause: float = RETRY_AFTER


class MirrorKeeper(WokenThread):
    """Asks the primary nodes of mirrors, and submits jobs.

    ``submit(opcodes)`` takes a job in, also while the queue is drained; ``status(job_id)`` is a job's state.
    """

    def __init__(
        self,
        store: Store,
        snapshot: Callable[[], objects.Snapshot],
        rpc: RpcRunner,
        submit: Submit,
        status: Callable[[int], str | None],
    ):
        super().__init__(store, "MirrorKeeper", ["disk", "instance", "node"])
        self._snapshot = snapshot
        self._rpc = rpc
        self._submit = submit
        self._status = status
        self._lock = runtime.Lock()
        self._seen: tuple[Any, Any, Any] = (None, None, None)
        self._watched: dict[str, list[tuple[objects.Instance, objects.Disk]]] = {}
        # Nodes that have not answered yet; what they have answered; what needed a decision in the look before.
        self._asked: set[str] = set()
        self._answers: list[RpcResult] = []
        self._needing: dict[str, set[str]] = {}
        # By node: the instances whose jobs had not ended when it was asked.
        self._acting: dict[str, set[str]] = {}
        # Nodes that did not answer the last time: what was logged of each, and when.
        self._silent: dict[str, tuple[str, float]] = {}
        # By instance.
        self._jobs: dict[str, _Try] = {}
        # Nodes with as many jobs as they may have, which is logged once.
        self._full: set[str] = set()

    def Turn(self) -> float | None:
        if not self.Look():
            return None
        # Changes do not hasten it: what two looks in a row show must have lasted.
        runtime.Sleep(PERIOD)
        return 0.0

    # --- looking ------------------------------------------------------------------------------------------------------

    def Look(self) -> bool:
        """Judge the answers since the last look and ask again; return whether there are mirrors to look at."""
        watched = self._Watched()
        with self._lock:
            answers, self._answers = self._answers, []
            free = [uuid for uuid in watched if uuid not in self._asked]
            self._asked.update(free)
        for result in answers:
            self._Read(result, watched.get(result.node, ()))
        self._acting.update((uuid, self._Acting(watched[uuid])) for uuid in free)
        if free:
            self._rpc.Start("drbd_states", free, [], self._Answered, PATIENCE)
        return bool(watched)

    def _Answered(self, result: RpcResult) -> None:
        """Keep an answer; it is not looked at on the thread that serves all calls, as it may be long."""
        with self._lock:
            self._asked.discard(result.node)
            self._answers.append(result)

    def _Read(self, result: RpcResult, watched: Sequence[tuple[objects.Instance, objects.Disk]]) -> None:
        if not result.fail_msg:
            if self._silent.pop(result.node, None):
                logging.info("Node %s reports the state of its mirrors again", result.node_name)
            self._Judge(result.node, watched, result.payload)
            return
        self._needing.pop(result.node, None)
        now, reason = runtime.Monotonic(), str(result.fail_msg)[:_SHOWN]
        told, when = self._silent.setdefault(result.node, ("", now - _QUIET))
        # A node may have other words for each look.
        if reason != told and now - when >= _QUIET and not result.offline:
            self._silent[result.node] = reason, now
            logging.warning("Node %s did not report the state of its mirrors: %s", result.node_name, reason)

    def _Watched(self) -> Mapping[str, Sequence[tuple[objects.Instance, objects.Disk]]]:
        """Return the mirrors in use by primary node."""
        root = self._snapshot()
        seen = (root.instances, root.disks, root.nodes)
        if any(new is not old for new, old in zip(seen, self._seen, strict=True)):
            self._seen, self._watched = seen, {}
            self._jobs = {uuid: job for uuid, job in self._jobs.items() if uuid in root.instances}
            for instance in root.WholeInstances():
                used = instance.disks_active or instance.admin_state == constants.ADMINST_UP
                if used and not root.nodes[instance.primary_node].offline:
                    found = [(instance, disk) for disk in mirrors.Mirrors(root.InstanceDisks(instance))]
                    if found:
                        self._watched.setdefault(instance.primary_node, []).extend(found)
        return self._watched

    def _Judge(self, node: str, watched: Sequence[tuple[objects.Instance, objects.Disk]], payload: Any) -> None:
        """Have a job made for each instance that needed a decision in this look and in the one before."""
        view = mirrors.Pick([disk for _, disk in watched], node, payload)
        acting = self._acting.get(node, set())
        # Of a guest that needs the other node anyway, no side there is given up.
        bound = {instance.uuid for instance, disk in watched if mirrors.NeedsOther(view.get(disk.uuid))}
        needing = {
            disk.uuid
            for instance, disk in watched
            if instance.uuid not in acting
            and NeedsDecision(disk, node, view.get(disk.uuid))
            and not (instance.uuid in bound and view[disk.uuid]["frozen"])
        }
        confirmed = needing & self._needing.get(node, set())
        self._needing[node] = needing
        waiting = dict.fromkeys(instance for instance, disk in watched if disk.uuid in confirmed)
        # Those first that have waited longest: others of this node may have a device that hangs.
        for instance in sorted(waiting, key=lambda one: self._Last(one).when):
            if self._IsFull(node, watched):
                return
            disks = [disk for owner, disk in watched if owner.uuid == instance.uuid]
            self._Settle(instance, [(disk.behind, view.get(disk.uuid)) for disk in disks])

    def _Acting(self, watched: Sequence[tuple[objects.Instance, objects.Disk]]) -> set[str]:
        """Return the instances whose jobs have not ended: what their node answers now may be what they change."""
        return {instance.uuid for instance, _ in watched if not self._HasEnded(self._Last(instance))}

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _IsFull(self, node: str, watched: Sequence[tuple[objects.Instance, objects.Disk]]) -> bool:
        """Return whether as many jobs as may be work on a node; say so once, with their numbers."""
        found = {self._Last(instance).job_id for instance, _ in watched}
        # One that waits for the lock of its instance does not call the node.
        calling = (constants.JOB_STATUS_QUEUED, constants.JOB_STATUS_RUNNING)
        busy = [job_id for job_id in found if job_id is not None and self._status(job_id) in calling]
        if len(busy) < PER_NODE:
            self._full.discard(node)
            return False
        if node not in self._full:
            self._full.add(node)
            logging.warning(
                "Mirrors of node %s wait for a decision: it is busy with jobs %s; if these do not end, programs of DRBD"
                " hang there, and 'dmesg' on the node says why",
                self._snapshot().NodeName(node),
                ", ".join(str(job_id) for job_id in sorted(busy)),
            )
        return True

    def _Last(self, instance: objects.Instance) -> _Try:
        return self._jobs.get(instance.uuid, _Try())

    def _HasEnded(self, last: _Try) -> bool:
        """Return whether the job has ended, was not taken in, or is not known any longer."""
        return last.job_id is None or self._status(last.job_id) in (*constants.JOBS_FINALIZED, None)

    def _Settle(self, instance: objects.Instance, said: Sequence[tuple[Any, Mapping[str, Any] | None]]) -> None:
        """Have a job made unless the last one has not ended, or failed a while ago only; ``said``: of each mirror, record and state."""
        last, now = self._Last(instance), runtime.Monotonic()
        if not self._HasEnded(last):
            return
        status = None if last.job_id is None else self._status(last.job_id)
        known = [(behind, {**state, "sync_percent": None} if state else None) for behind, state in said]
        in_vain = status == constants.JOB_STATUS_ERROR and known == last.said
        if status != constants.JOB_STATUS_SUCCESS and now < last.when + (last.pause if in_vain else RETRY_AFTER):
            return
        rarer = in_vain and not any(_IsUrgent(behind, state) for behind, state in known)
        pause = min(2 * last.pause, RETRY_AT_LAST) if rarer else RETRY_AFTER
        assert instance.name is not None
        self._jobs[instance.uuid] = _Try(None, now, known, pause)
        op = opcodes.OpInstanceSettleMirrors(
            instance_name=instance.name, comment="The mirrors of the instance are frozen, or complete again"
        )
        try:
            job_id = self._submit([op]).Result()
        except errors.GenericError as err:
            logging.error("No job could be made for the mirrors of instance %s: %s", instance.name, err)
            return
        self._jobs[instance.uuid] = self._jobs[instance.uuid]._replace(job_id=job_id, when=runtime.Monotonic())
        logging.info("Job %s decides which copies of instance %s count", job_id, instance.name)


def _IsUrgent(behind: Any, state: dict[str, Any] | None) -> bool:
    """Return whether the guest stands still, has one copy that counts where it could have two, or writes to one of two connected sides.

    None of these waits for an administrator: only of sides that are not connected nobody may be able to tell which one counts.
    """
    if state is None:
        return False
    one_sided = mirrors.IsOneLegged(state) or mirrors.IsServed(state)
    return bool(state["frozen"] or one_sided or (behind is not None and mirrors.IsComplete(state)))


def NeedsDecision(disk: objects.Disk, node: str, state: Mapping[str, Any] | None) -> bool:
    """Return whether what is recorded does not fit what the primary node says.

    Its side is frozen, or one side lacks what is written and the record does not name it, or both sides are complete
    although there is one.
    """
    if state is None:
        return False
    if state["primary"] and state["frozen"]:
        return bool(state["local_uptodate"])
    known = dict(state)
    if mirrors.IsOneLegged(known) or mirrors.IsAlone(known):
        return not mirrors.Names(disk, disk_params.OtherSide(disk, node))
    if mirrors.IsServed(known):
        return not mirrors.Names(disk, node)
    return disk.behind is not None and mirrors.IsComplete(known)
