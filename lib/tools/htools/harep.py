"""harep: repairs instances whose nodes are offline, as far as tags permit (doc/reference/htools.md 21)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from ganeti import constants, errors, runtime, serializer
from ganeti.htools.choosing import repair
from ganeti.htools.choosing.repair import Condition, Outcome, Policy, Record, Repair, Status
from ganeti.htools.model.entities import Instance
from ganeti.htools.model.state import Cluster
from ganeti.htools.options import Values
from ganeti.luxi.client import Client
from ganeti.tools.htools import execution, sources
from ganeti.tools.htools.master import Explain, MasterClient
from ganeti.tools.htools.output import Failed, Streams

_RULE = "-" * 21


def Main(options: Values, streams: Streams) -> int:
    options.values["luxi"] = options.luxi or ""
    cluster = sources.Load(options, streams)
    try:
        with MasterClient(options.luxi, streams) as client:
            Run(cluster, client, options, streams)
    except errors.GenericError as err:
        raise Failed(Explain(err)) from err
    return 0


def Run(cluster: Cluster, client: Client, options: Values, streams: Streams) -> None:
    """Do what one call of the program does; raises Failed."""
    instances = list(cluster.state.instances.values())
    statuses = [_StatusOf(inst) for inst in instances]
    work = _Run(cluster, client, options, streams)
    statuses = [work.Follow(inst, status) for inst, status in zip(instances, statuses, strict=True)]
    statuses = [work.Treat(inst, status) for inst, status in zip(instances, statuses, strict=True)]
    counts = Counter(status.condition.value for status in statuses)
    streams.Out(_RULE, "Instance status count", _RULE, *(f"{name}: {counts[name]}" for name in sorted(counts)))


def _StatusOf(inst: Instance) -> Status:
    try:
        return repair.StatusOf(inst.tags)
    except repair.Contradiction as err:
        raise Failed(
            f"The tags of instance {inst.name} record another repair beside one that may still be running; when its jobs have"
            f" ended, remove its tag: 'gnt-instance remove-tags {inst.name} {err.tag}'"
        ) from err


def _Describe(policy: Policy) -> str:
    if not policy.suspended:
        return "ArNotEnabled"
    if policy.suspended_until is None:
        return "ArSuspended Forever"
    return f"ArSuspended (Until {time.strftime('%a %b %e %H:%M:%S %Z %Y', time.localtime(policy.suspended_until))})"


class _Run:
    """One run: looks at instances one by one, submits repairs and keeps their records."""

    def __init__(self, cluster: Cluster, client: Client, options: Values, streams: Streams):
        self._cluster = cluster
        self._options = options
        self._streams = streams
        self._executor = execution.Executor(execution.LuxiQueue(client), streams)

    def Follow(self, inst: Instance, status: Status) -> Status:
        """Return the status after a look at the jobs of a repair; their end is recorded."""
        if status.condition is not Condition.PENDING or status.record is None:
            return status
        states = [state for _, state in self._executor.queue.States(status.record.jobs)]
        if any(state in execution.BUSY for state in states):
            return status
        good = all(state == constants.JOB_STATUS_SUCCESS for state in states)
        condition = Condition.HEALTHY if good else Condition.FAILED
        self._streams.Out(f'Moving {inst.name} from "{status.condition.value}" to "{condition.value}"')
        outcome = Outcome.SUCCESS if good else Outcome.FAILURE
        old = status.record
        return self._Record(inst, status, condition, Record(old.kind, old.id, _Now(), old.jobs, outcome))

    def Treat(self, inst: Instance, status: Status) -> Status:
        """Return the status after the repair that an instance needs is submitted, or not permitted."""
        needed = repair.Needed(self._cluster, inst)
        if needed is None or status.condition is not Condition.HEALTHY:
            return status
        policy = repair.EffectivePolicy(self._cluster, inst, _Now())
        if policy.allowed is None:
            self._streams.Out(f"Not repairing {inst.name} because it's in state {_Describe(policy)}")
            return status
        if needed.kind > policy.allowed:
            self._streams.Out(
                f"Not performing a repair of type {needed.kind.title} on {inst.name} because only repairs up to"
                f" {policy.allowed.title} are allowed"
            )
            record = Record(needed.kind, runtime.NewUuid(), _Now(), (), Outcome.ENOPERM)
            return self._Record(inst, status, Condition.NEEDS_REPAIR, record)
        self._streams.Out(f"Executing {needed.kind.title} repair on {inst.name}")
        jobs = self._Submit(inst, needed)
        record = Record(needed.kind, runtime.NewUuid(), _Now(), tuple(jobs))
        try:
            return self._Record(inst, status, Condition.PENDING, record)
        except Failed as err:
            raise Failed(
                f"{err}; the repair itself is job {jobs[0]}: unless the instance has the tag '{record.tag}', the next run"
                " submits another one"
            ) from err

    def _Submit(self, inst: Instance, needed: Repair) -> Sequence[int]:
        delay = self._options.job_delay
        job = [*([repair.Delay(delay)] if delay > 0 else []), *needed.opcodes]
        if self._options.dry_run:
            self._streams.Out(f"jobs: {serializer.Dump([job])}")
            return []
        jobs, refused = self._executor.queue.Submit([self._Annotated(job)])
        if refused:
            raise Failed(f"The repair of {inst.name} was rejected: {', '.join(refused)}")
        return jobs

    def _Record(self, inst: Instance, status: Status, condition: Condition, record: Record) -> Status:
        """Write the tag of a record, then remove those that it replaces; raises Failed."""
        self._streams.Out(f">>> Adding the following tag to {inst.name}:", f'"{record.tag}"')
        self._Tag("OP_TAGS_SET", inst, [record.tag])
        if status.obsolete:
            quoted = [f'"{tag}"' for tag in status.obsolete]
            self._streams.Out(f">>> Removing the following tags from {inst.name}:", *quoted)
            self._Tag("OP_TAGS_DEL", inst, status.obsolete)
        return Status(condition, record, (record.tag,))

    def _Tag(self, op_id: str, inst: Instance, tags: Sequence[str]) -> None:
        if self._options.dry_run:
            return
        opcode = {"OP_ID": op_id, "kind": constants.TAG_INSTANCE, "tags": list(tags), "name": inst.name}
        ids, refused = self._executor.queue.Submit([self._Annotated([opcode])])
        bad = [
            f"job {job}: {state}" for job, state in self._executor.Wait(ids) if state != constants.JOB_STATUS_SUCCESS
        ]
        if bad or refused:
            raise Failed(f"Changing the tags of instance {inst.name} failed: {', '.join([*bad, *refused])}")

    def _Annotated(self, opcodes: Sequence[execution.Opcode]) -> list[execution.Opcode]:
        comment = f"automated repairs by harep {constants.RELEASE_VERSION}"
        return execution.Annotated(opcodes, comment, "harep", self._options)


def _Now() -> int:
    return int(runtime.Time())
