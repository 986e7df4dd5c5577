"""Take jobs in: from opcodes as clients send them to acknowledged rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ganeti import errors, opcodes, runtime, serializer, store
from ganeti.jqueue import depends, shares
from ganeti.jqueue import job as jobs
from ganeti.jqueue.changes import Portions
from ganeti.jqueue.entry import MAX_INPUT, Entry, InputSize
from ganeti.jqueue.live import LiveJobs
from ganeti.luxi.pending import All, Pending

# Live jobs; more are rejected.
MAX_LIVE_JOBS = 50_000
# Room for the master's own urgent jobs in a queue that clients have filled: a guest stands still until they have run.
URGENT_ROOM = 10_000
# Jobs in one change of the store.
SUBMIT_GROUP = 500

# (true, id) or (false, error) for each job of a submission.
Outcomes = list[tuple[bool, Any]]


class Submitter:
    """Give out ids and store new jobs.

    ``make_change(entries, to_drained)`` is the change of the store that takes them in.
    """

    def __init__(
        self,
        the_store: store.Store,
        make_change: Callable[[Sequence[Entry], bool], store.Change],
        live: LiveJobs,
        max_live_jobs: int,
    ):
        self._store = the_store
        self._make_change = make_change
        self._live = live
        self._shares = shares.Shares(max_live_jobs)
        self._max_live_jobs = max_live_jobs
        self._id_lock = runtime.Lock()
        # The highest id given out.
        self.last_id = 0

    def Submit(self, submitted: Sequence[Sequence[Any]], to_drained: bool) -> Pending:
        """Complete with ``Outcomes``; fails only if that is true of all jobs."""
        live = len(self._live)
        most = self._max_live_jobs + (URGENT_ROOM if _AreUrgent(submitted) else 0)
        if live + len(submitted) > most:
            raise errors.JobQueueFull(
                f"The queue has {live} jobs, {most} are allowed: {len(submitted)} more are rejected",
                hint="archive finished jobs: gnt-job autoarchive all",
            )
        parsed = [_ParseOps(ops, number) for number, ops in enumerate(submitted)]
        self._shares.Check([ops[0].reason if ops else [] for ops in parsed], live, self._live.readers)
        with self._id_lock:
            first_id = self.last_id + 1
            self.last_id += len(parsed)
        results: dict[int, tuple[bool, Any]] = {}
        entries: list[Entry] = []
        failed: set[int] = set()
        for job_id, ops in enumerate(parsed, first_id):
            try:
                entries.append(_MakeEntry(job_id, ops, failed))
                results[job_id] = (True, job_id)
            except errors.OpPrereqError as err:
                failed.add(job_id)
                results[job_id] = (False, errors.OpPrereqError(f"Job rejected: {err.args[0]}", errors.ECODE_INVAL))
        portions = list(Portions(entries, SUBMIT_GROUP))
        stored = [self._Store(portion, to_drained) for portion in portions]

        def outcomes(ended: Sequence[Pending]) -> Outcomes:
            errors_of = [pending.error for pending in ended if pending.error is not None]
            if errors_of and len(errors_of) == len(ended):
                raise errors_of[0]
            for portion, pending in zip(portions, ended, strict=True):
                if pending.error is not None:
                    results.update((entry.id, (False, pending.error)) for entry in portion)
            return list(results.values())

        return All(stored).Map(outcomes)

    def _Store(self, entries: Sequence[Entry], to_drained: bool) -> Pending:
        """Store one portion; an error says what is known of its jobs."""
        change = self._make_change(entries, to_drained)
        stored = Pending()

        def done(error: Exception | None) -> None:
            if error is None:
                stored.Complete()
            else:
                stored.Fail(_SubmitError(entries, error))

        self._store.Begin(change, done)
        return stored


def _SubmitError(entries: Sequence[Entry], error: Exception) -> Exception:
    """Return the answer for jobs that were not acknowledged, with their ids where they may still turn up."""
    if not isinstance(error, store.NotKnown):
        return error
    ids = ", ".join(str(e.id) for e in entries[:20]) + (" ..." if len(entries) > 20 else "")
    # The next master may not find them, and then begins to count where they began.
    if len(entries) == 1:
        subject, look = f"Job {ids}", f"compare what 'gnt-job info {ids}' shows"
    else:
        subject, look = f"Jobs {ids}", "compare what 'gnt-job info JOB' shows"
    reuse = f"if this master is lost first, another job may get the number: {look}"
    return errors.JobQueueError(f"{subject}: {error}; {reuse}", hint=error.hint)


def _AreUrgent(submitted: Sequence[Sequence[Any]]) -> bool:
    """Return whether the master itself submits these, and all of them are urgent; clients send no opcode objects."""
    return all(isinstance(op, opcodes.OpCode) and op.URGENT for ops in submitted for op in ops)


def _ParseOps(ops: Sequence[Any], number: int) -> list[opcodes.OpCode]:
    """Return opcode objects; raises OpPrereqError that names the job and opcode of the request."""
    parsed = []
    for index, op in enumerate(ops):
        try:
            if isinstance(op, opcodes.OpCode):
                op.Validate()
                parsed.append(op)
            else:
                parsed.append(opcodes.OpCode.FromDict(op))
                _CheckNul(op)
        except errors.ParseError as err:
            # A command line submits one opcode; its number would only confuse.
            text = str(err) if number == index == 0 and len(ops) == 1 else f"Opcode {index} of job {number}: {err}"
            raise errors.OpPrereqError(text, errors.ECODE_INVAL) from err
    return parsed


def _CheckNul(op: dict[str, Any]) -> None:
    """Refuse now what every call to a node would be refused for, when it is stored already."""
    if serializer.HasNul(op):
        name = next(name for name, value in op.items() if serializer.HasNul(value))
        raise errors.ParseError(f"{op['OP_ID']}: parameter {name} must not contain a NUL character")


def _MakeEntry(job_id: int, ops: Sequence[opcodes.OpCode], failed: set[int]) -> Entry:
    """Return a new job; raises OpPrereqError on a dependency that is not possible."""
    received = jobs.Now()
    nanoseconds = received[0] * 1_000_000_000 + received[1] * 1_000
    states = []
    for index, op in enumerate(ops):
        op.depends = depends.Resolve(op.depends, job_id, failed)
        source = "gnt:opcode:" + op.OP_ID.removeprefix("OP_").lower()
        op.reason = [*op.reason, [source, f"job={job_id};index={index}", nanoseconds]]
        op_input = jobs.OpInput(op.ToDict(redact=True), op.Summary())
        states.append(jobs.OpState(op_input, priority=op.priority))
    job = jobs.Job(job_id, states, received).Finalized()
    size = InputSize(job)
    if size > MAX_INPUT:
        text = f"its opcodes take {size} bytes, {MAX_INPUT} are allowed"
        raise errors.OpPrereqError(text, errors.ECODE_INVAL)
    return Entry(job, [jobs.OpLog() for _ in ops], dict(enumerate(ops)))
