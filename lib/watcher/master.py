"""What the watcher asks the master for, and the jobs that it submits."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, hosts, pathutils, runtime
from ganeti.luxi.client import Client
from ganeti.watcher import busy, guard
from ganeti.watcher.rows import INSTANCE_FIELDS, NODE_FIELDS, Instance, Instances, Node, Nodes, Values

if TYPE_CHECKING:
    import optparse

    from ganeti.opcodes import OpCode

REASON_SOURCE = "gnt:watcher"
# Seconds until a master daemon that is coming up must accept a connection, and until an answer: nodes may be slow.
_CONNECT_TIMEOUT = 20.0
_ANSWER_TIMEOUT = 200.0
# Before each try, when a connection breaks; a master daemon that restarts is back by then.
_RETRY_DELAYS = (0.0, 5.0)


def Connect() -> Client:
    return Client(connect_timeout=_CONNECT_TIMEOUT, io_timeout=_ANSWER_TIMEOUT, retry_delays=_RETRY_DELAYS)


def CheckMaster(client: Client) -> None:
    """Raise NotMasterError unless the configuration names this host as the master."""
    [master] = client.QueryConfigValues(["master_node"])
    own = pathutils.HostName()
    if master in (own, None) or master.partition(".")[0] == own or master == hosts.OwnHost().name:
        return
    raise errors.NotMasterError(f"This node, {own}, is not the master: the configuration names {master}")


def QueryInstances(client: Client, group_uuid: str) -> list[Instance]:
    data = client.Query("instance", INSTANCE_FIELDS, ["=", "pnode.group.uuid", group_uuid])["data"]
    return sorted(Instances(data), key=lambda instance: instance.name)


def QueryNodes(client: Client, group_uuid: str) -> list[Node]:
    return Nodes(client.Query("node", NODE_FIELDS, ["=", "group.uuid", group_uuid])["data"])


def QueryBusy(client: Client, instances: Sequence[Instance], since: float) -> dict[str, str]:
    """Return why instances are busy.  Call it after the look at the instances, which began at ``since``.

    Locks are asked for first.  A job that is submitted and ends between the two questions is then among the jobs that ended
    since ``since``; asked for the other way round, it would be in neither answer.
    """
    locks = client.Query("lock", busy.LOCK_FIELDS)["data"]
    jobs = client.Query("job", busy.JOB_FIELDS, busy.JobFilter(since))["data"]
    # An instance may have nodes of other groups too.
    nodes = client.Query("node", ("name", "uuid"), None)["data"] if jobs else []
    return busy.Find(instances, list(map(Values, locks)), list(map(Values, jobs)), since, dict(map(Values, nodes)))


def QueryUnmatched(client: Client, job_ids: Collection[int]) -> tuple[set[int], set[int]]:
    """Return those of the jobs that did not act because their instance had been changed before they ran; the unfinished ones."""
    from ganeti.opcodes import CHANGED_SINCE

    if not job_ids:
        return set(), set()
    wanted = ["|", *(["=", "id", job_id] for job_id in sorted(job_ids))]
    rows = client.Query("job", ("id", "status", "opresult"), wanted)["data"]
    unmatched, unfinished = set(), set()
    for job_id, status, results in map(Values, rows):
        if status is not None and status not in constants.JOBS_FINALIZED:
            unfinished.add(job_id)
        elif (
            status == constants.JOB_STATUS_ERROR
            and results
            and CHANGED_SINCE in str(errors.DecodeException(results[0]))
        ):
            unmatched.add(job_id)
    return unmatched, unfinished


def Reason(text: str) -> list[list[Any]]:
    return [[REASON_SOURCE, text, int(runtime.Time() * 1e9)]]


def Activation(instance: Instance, why: str) -> OpCode:
    """Return the opcode that activates an instance's disks; it does nothing if the instance was changed since the look."""
    from ganeti.opcodes import OpInstanceActivateDisks

    return OpInstanceActivateDisks(
        instance_name=instance.name, if_match=instance.version, reason=Reason(f"Activating disks: {why}")
    )


def Submit(client: Client, jobs: Sequence[Sequence[OpCode]], options: optparse.Values) -> list[int | None]:
    """Submit jobs in one step; return the id of each, None for one that was rejected, which is logged.

    None are submitted, and all are None, if the watcher has been paused.
    """
    if not jobs:
        return []
    if not guard.MayWork(options):
        return [None] * len(jobs)
    results = client.SubmitManyJobs(jobs)
    found: list[int | None] = []
    for ops, (accepted, answer) in zip(jobs, results, strict=True):
        if not accepted:
            logging.error("Job %s was rejected: %s", ", ".join(op.Summary() for op in ops), answer)
        found.append(int(answer) if accepted else None)
    return found


def ErrorOf(results: Sequence[Any]) -> str:
    """Return what a job that failed or was canceled says, in the words of its error."""
    found = (errors.DecodeException(result) for result in results or ())
    return str(next(filter(None, found), "it was canceled"))[:500]


def Wait(client: Client, job_id: int, seconds: float) -> str | None:
    """Wait until a job has ended and return its status; None if it has not within the time."""
    deadline = runtime.Monotonic() + seconds
    status: list[Any] | None = None
    while (left := deadline - runtime.Monotonic()) > 0:
        answer = client.WaitForJobChangeOnce(job_id, ["status"], status, None, left)
        if answer is None:
            raise errors.JobLost(f"Job {job_id} lost")
        if answer != "nochange":
            status = answer[0]
            if status[0] in constants.JOBS_FINALIZED:
                return str(status[0])
    return None
