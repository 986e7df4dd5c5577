"""One job: its opcodes, their states, its JSON text (doc/reference/jobs.md 2, 3).

A Job and its OpStates never change; a change makes a new one.  So whoever reads needs no lock, and the committer can
keep the acknowledged version beside the one under way.  Log entries are the exception: they are only ever added, and
every version shows those that are there.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ganeti import constants, errors, opcodes, runtime, serializer
from ganeti.jqueue import unclean

QUEUED = constants.JOB_STATUS_QUEUED
WAITING = constants.JOB_STATUS_WAITING
CANCELING = constants.JOB_STATUS_CANCELING
RUNNING = constants.JOB_STATUS_RUNNING
CANCELED = constants.JOB_STATUS_CANCELED
SUCCESS = constants.JOB_STATUS_SUCCESS
ERROR = constants.JOB_STATUS_ERROR
FINAL = constants.JOBS_FINALIZED

INVALID_OP = "INVALID_OP"
CANCELED_TEXT = "Job canceled by request"

Timestamp = tuple[int, int]


def Now() -> Timestamp:
    """Return seconds and microseconds."""
    return ToTimestamp(runtime.Time())


def ToTimestamp(seconds: float) -> Timestamp:
    microseconds = round(seconds * 1_000_000)
    return microseconds // 1_000_000, microseconds % 1_000_000


def _StampJson(stamp: Timestamp | None) -> str:
    return "null" if stamp is None else f"[{stamp[0]},{stamp[1]}]"


@functools.cache
def _PrivateParams(op_id: str) -> tuple[str, ...]:
    cls = opcodes.OP_MAPPING.get(op_id)
    return tuple(n for n, spec in cls.OP_PARAMS.items() if spec.private and not spec.secret) if cls else ()


class OpInput:
    """An opcode as submitted: kept verbatim, parsed when it is needed.

    ``data`` and ``json`` are what may be stored, without secrets.  There is always one of them; once ``Pack`` was called
    ``data`` is made anew each time.
    """

    __slots__ = ("_data", "_json", "_summary")

    def __init__(self, data: Any, summary: str | None = None):
        self._data = data
        # Of most jobs that a master daemon finds at its start nobody wants it.
        self._json: str | None = None
        self._summary = summary

    @property
    def data(self) -> Any:
        data, text = self._data, self._json
        return serializer.Load(text) if data is None and text is not None else data

    @property
    def json(self) -> str:
        if self._json is None:
            self._json = serializer.Dump(self._data)
        return self._json

    def Pack(self) -> None:
        """Keep the text alone, which takes a quarter of the memory."""
        if self._json is not None:
            self._data = None

    @property
    def op_id(self) -> str:
        op_id = self.data.get("OP_ID") if isinstance(self.data, dict) else None
        return op_id if isinstance(op_id, str) else ""

    @property
    def depends(self) -> list[Any]:
        """List of [job id, accepted statuses]."""
        depends = self.data.get("depends") if isinstance(self.data, dict) else None
        return depends if isinstance(depends, list) else []

    @property
    def reason(self) -> list[Any]:
        reason = self.data.get("reason") if isinstance(self.data, dict) else None
        return reason if isinstance(reason, list) else []

    @property
    def summary(self) -> str:
        if self._summary is None:
            try:
                self._summary = self.Parse().Summary()
            except errors.ParseError:
                self._summary = self.op_id.removeprefix("OP_") or INVALID_OP
        return self._summary

    def WithoutPrivate(self) -> OpInput:
        """Return the same with null for private values: what stays in the file once they have been used."""
        names = _PrivateParams(self.op_id)
        if not any(self.data.get(name) for name in names):
            return self
        data = dict(self.data)
        for name in names:
            if isinstance(data.get(name), dict):
                data[name] = dict.fromkeys(data[name])
        return OpInput(data, self._summary)

    def Parse(self) -> opcodes.OpCode:
        """Return a fresh opcode object; raises errors.ParseError."""
        return opcodes.OpCode.FromDict(copy.deepcopy(self.data))


class OpState:
    """One opcode of a job as it stands."""

    __slots__ = ("_json", "end", "exec", "input", "priority", "result", "start", "status")

    def __init__(
        self,
        op_input: OpInput,
        status: str = QUEUED,
        result: Any = None,
        priority: int = constants.OP_PRIO_NORMAL,
        start: Timestamp | None = None,
        exec_: Timestamp | None = None,
        end: Timestamp | None = None,
    ):
        self.input = op_input
        self.status = status
        self.result = result
        self.priority = priority
        self.start = start
        self.exec = exec_
        self.end = end
        self._json: tuple[str, str] | None = None

    def Replace(self, **changes: Any) -> OpState:
        """Return a copy with other ``op_input``, ``status``, ``result``, ``priority``, ``start``, ``exec_`` or ``end``."""
        values = {
            "op_input": self.input,
            "status": self.status,
            "result": self.result,
            "priority": self.priority,
            "start": self.start,
            "exec_": self.exec,
            "end": self.end,
        }
        return OpState(**{**values, **changes})

    def Pack(self) -> None:
        """Give up what can be made anew: few look at what has ended."""
        self._json = None
        self.input.Pack()

    def Json(self, log: OpLog) -> str:
        """Return the entry of the job file."""
        text = self._json
        if text is None:
            before = (
                f'{{"input":{self.input.json},"status":"{self.status}","result":{serializer.Dump(self.result)},"log":'
            )
            after = (
                f',"priority":{self.priority},"start_timestamp":{_StampJson(self.start)}'
                f',"exec_timestamp":{_StampJson(self.exec)},"end_timestamp":{_StampJson(self.end)}}}'
            )
            text = self._json = (before, after)
        return text[0] + log.Json() + text[1]


class OpLog:
    """The log entries of one opcode; added by the thread that executes it, read by all."""

    __slots__ = ("_json", "entries")

    def __init__(self, entries: Iterable[list[Any]] = ()):
        self.entries = list(entries)
        self._json = [serializer.Dump(e) for e in self.entries]

    @property
    def size(self) -> int:
        return sum(map(len, self._json))

    def Add(self, entry: list[Any], text: str) -> None:
        """Add an entry whose JSON is ``text``."""
        self._json.append(text)
        self.entries.append(entry)

    def Json(self) -> str:
        return f"[{','.join(self._json)}]" if self._json else "[]"


class Job:
    """A job at one moment."""

    __slots__ = ("_status", "end", "id", "ops", "received", "start")

    def __init__(
        self,
        job_id: int,
        ops: Sequence[OpState],
        received: Timestamp | None,
        start: Timestamp | None = None,
        end: Timestamp | None = None,
    ):
        self.id = job_id
        self.ops = tuple(ops)
        self.received = received
        self.start = start
        self.end = end
        self._status: str | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} {[op.status for op in self.ops]}>"

    @property
    def status(self) -> str:
        if self._status is None:
            self._status = JobStatus([op.status for op in self.ops])
        return self._status

    @property
    def final(self) -> bool:
        return self.status in FINAL

    @property
    def priority(self) -> int:
        """Return the most urgent among the opcodes that are not final."""
        return min((op.priority for op in self.ops if op.status not in FINAL), default=constants.OP_PRIO_NORMAL)

    def NextOp(self) -> int | None:
        """Return the index of the first opcode that is not final."""
        return next((n for n, op in enumerate(self.ops) if op.status not in FINAL), None)

    def Replace(self, ops: Sequence[OpState], **times: Timestamp | None) -> Job:
        """Return a copy with other opcodes, and other ``start`` or ``end``."""
        values = {"start": self.start, "end": self.end}
        return Job(self.id, ops, self.received, **{**values, **times})

    def WithOp(self, index: int, **changes: Any) -> Job:
        ops = list(self.ops)
        ops[index] = ops[index].Replace(**changes)
        return self.Replace(ops)

    def Map(self, change: Callable[[OpState], OpState]) -> Job:
        """Return a copy in which every opcode that is not final went through ``change``."""
        return self.Replace([op if op.status in FINAL else change(op) for op in self.ops])

    def Finalized(self) -> Job:
        """Return the job with an end time, if it has ended."""
        return self.Replace(self.ops, end=Now()) if self.final and self.end is None else self

    def Pack(self) -> None:
        """Take less memory until it is archived."""
        for op in self.ops:
            op.Pack()

    def Json(self, logs: Sequence[OpLog]) -> str:
        """Return the text of the job file."""
        ops = ",".join(op.Json(log) for op, log in zip(self.ops, logs, strict=True))
        return (
            f'{{"id":{self.id},"ops":[{ops}],"received_timestamp":{_StampJson(self.received)}'
            f',"start_timestamp":{_StampJson(self.start)},"end_timestamp":{_StampJson(self.end)}}}'
        )


def JobStatus(statuses: Iterable[str]) -> str:
    """Return the status of a job whose opcodes have these (doc/reference/jobs.md 3)."""
    status = QUEUED
    all_success = True
    for op_status in statuses:
        if op_status == SUCCESS:
            continue
        all_success = False
        if op_status in (WAITING, RUNNING):
            status = op_status
        elif op_status != QUEUED:
            return op_status
    return SUCCESS if all_success else status


# --- what can happen to a job -----------------------------------------------------------------------------------------


def MarkWaiting(job: Job, index: int, start: Timestamp) -> Job:
    """Show that the opcode waits for its locks."""
    changed = job.WithOp(index, status=WAITING, result=None, start=start, exec_=None)
    return changed.Replace(changed.ops, start=job.start or start)


def MarkRunning(job: Job, index: int, start: Timestamp) -> Job:
    """Begin to execute: the opcode has its locks."""
    op = job.ops[index]
    changed = job.WithOp(
        index,
        op_input=op.input.WithoutPrivate(),
        status=RUNNING,
        result=None,
        start=op.start or start,
        exec_=Now(),
    )
    return changed.Replace(changed.ops, start=job.start or start)


def MarkSuccess(job: Job, index: int, result: Any) -> Job:
    return job.WithOp(index, status=SUCCESS, result=result, end=Now()).Finalized()


def MarkError(job: Job, index: int, error: Any) -> Job:
    """End the opcode with an encoded ``error``, and with it all later ones."""
    end = Now()
    follow = errors.EncodeException(errors.OpExecError("Preceding opcode failed"))
    ops = list(job.ops[:index])
    for number, op in enumerate(job.ops[index:]):
        ops.append(op.Replace(status=ERROR, result=follow if number else error, end=end))
    return job.Replace(ops).Finalized()


def MarkLost(job: Job, text: str) -> Job:
    """End a job that cannot be stored as it is, without the results of its opcodes."""
    end = Now()
    error = errors.EncodeException(errors.OpExecError(text))
    unfinished = job.Map(lambda op: op.Replace(status=ERROR, result=error, end=end))
    return job.Replace([op if op.result is error else op.Replace(result=None) for op in unfinished.ops]).Finalized()


def MarkUnclean(job: Job) -> Job:
    """End a job that was running when its master stopped (doc/reference/locking.md 12.4)."""
    end = Now()

    def change(op: OpState) -> OpState:
        text = unclean.Describe(op.input) if op.status == RUNNING else unclean.TEXT
        return op.Replace(status=ERROR, result=errors.EncodeException(errors.OpExecError(text)), end=end)

    return job.Map(change).Finalized()


def MarkQueued(job: Job) -> Job:
    """Queue a job again that waits for locks."""
    if job.status != WAITING:
        return MarkCanceled(job) if job.status == CANCELING else job
    return job.Map(lambda op: op.Replace(status=QUEUED, result=None, start=None, exec_=None))


def MarkCanceling(job: Job) -> Job:
    """Ask the thread that waits for locks to give up."""
    return job.Map(lambda op: op.Replace(status=CANCELING, result=None))


def MarkCanceled(job: Job, reason: str = CANCELED_TEXT) -> Job:
    """End a job of which nothing more is executed."""
    end = Now()
    return job.Map(lambda op: op.Replace(status=CANCELED, result=reason, end=end)).Finalized()


def WithPriority(job: Job, priority: int) -> Job:
    """Give ``priority`` to all opcodes that wait; the same job if there are none."""
    if not any(op.status in (QUEUED, WAITING) for op in job.ops):
        return job
    return job.Replace([op.Replace(priority=priority) if op.status in (QUEUED, WAITING) else op for op in job.ops])


# --- reading ----------------------------------------------------------------------------------------------------------


def _Stamp(value: Any, what: str) -> Timestamp | None:
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(isinstance(n, int) for n in value):
        return value[0], value[1]
    raise errors.JobFileCorrupted(f"{what} is not a pair of integers")


def _ReadOp(data: Any, where: str) -> tuple[OpState, OpLog]:
    if not isinstance(data, dict) or "input" not in data:
        raise errors.JobFileCorrupted(f"{where} is not an object with an input")
    status = data.get("status", QUEUED)
    if not isinstance(status, str) or status not in constants.JOB_STATUS_ALL:
        raise errors.JobFileCorrupted(f"{where} has the unknown status {str(status)[:40]!r}")
    priority = data.get("priority", constants.OP_PRIO_NORMAL)
    log = data.get("log") or []
    if not isinstance(priority, int) or not isinstance(log, list):
        raise errors.JobFileCorrupted(f"{where} has a priority or log of a wrong type")
    for entry in log:
        if not (isinstance(entry, list) and len(entry) == 4 and isinstance(entry[0], int)):
            raise errors.JobFileCorrupted(f"{where} has an invalid log entry")
    stamps = [_Stamp(data.get(f"{n}_timestamp"), f"{where}: {n}_timestamp") for n in ("start", "exec", "end")]
    return OpState(OpInput(data["input"]), status, data.get("result"), priority, *stamps), OpLog(log)


def ReadJob(text: str | bytes) -> tuple[Job, list[OpLog]]:
    """Return the job in its file's text; raises errors.JobFileCorrupted.

    Keys that 3.1 writes for its job processes (livelock, process_id) are dropped.
    """
    try:
        data = serializer.Load(text)
    except errors.ParseError as err:
        raise errors.JobFileCorrupted(str(err)) from err
    if not isinstance(data, dict):
        raise errors.JobFileCorrupted("the job is not an object")
    job_id = data.get("id")
    if isinstance(job_id, str) and job_id.isascii() and job_id.isdigit():
        job_id = int(job_id)  # 2.6 and older
    if not isinstance(job_id, int) or isinstance(job_id, bool) or job_id < 0:
        raise errors.JobFileCorrupted("the job has no id")
    if not isinstance(data.get("ops"), list):
        raise errors.JobFileCorrupted(f"job {job_id} has no list of opcodes")
    read = [_ReadOp(op, f"opcode {n} of job {job_id}") for n, op in enumerate(data["ops"])]
    stamps = [_Stamp(data.get(f"{n}_timestamp"), f"{n}_timestamp") for n in ("received", "start", "end")]
    job = Job(job_id, [op for op, _ in read], *stamps)
    if job.end is not None and not job.final:
        raise errors.JobFileCorrupted(f"job {job_id} has an end_timestamp, and its status is {job.status}")
    return job, [log for _, log in read]


# --- query fields (doc/reference/queries.md 3.5) -------------------------------------------------------------------------------


def _Listed(stamp: Timestamp | None) -> list[int] | None:
    return None if stamp is None else list(stamp)


class View:
    """A job for queries, or the place of one that does not exist."""

    __slots__ = ("_archived", "_job", "_logs", "found", "id")

    def __init__(self, job_id: int, job: Job | None, logs: Sequence[OpLog] = (), archived: bool = False):
        self.id = job_id
        self.found = job is not None
        self._job = job
        self._logs = logs
        self._archived = archived

    def FieldValue(self, name: str) -> Any:
        """Return the value of a field; None when it is not set, or the field or the job does not exist."""
        if name == "id":
            return self.id
        getter = FIELDS.get(name)
        if self._job is None or getter is None:
            return None
        return getter(self)

    @property
    def job(self) -> Job:
        assert self._job is not None
        return self._job

    @property
    def logs(self) -> Sequence[OpLog]:
        return self._logs

    @property
    def archived(self) -> bool:
        return self._archived


def _PerOp(getter: Callable[[OpState], Any]) -> Callable[[View], list[Any]]:
    return lambda view: [getter(op) for op in view.job.ops]


FIELDS: dict[str, Callable[[View], Any]] = {
    "id": lambda view: view.id,
    "status": lambda view: view.job.status,
    "priority": lambda view: view.job.priority,
    "archived": lambda view: view.archived,
    "ops": _PerOp(lambda op: op.input.data),
    "opresult": _PerOp(lambda op: op.result),
    "opstatus": _PerOp(lambda op: op.status),
    "oplog": lambda view: [list(log.entries) for log in view.logs],
    "opstart": _PerOp(lambda op: _Listed(op.start)),
    "opexec": _PerOp(lambda op: _Listed(op.exec)),
    "opend": _PerOp(lambda op: _Listed(op.end)),
    "oppriority": _PerOp(lambda op: op.priority),
    "summary": _PerOp(lambda op: op.input.summary),
    "received_ts": lambda view: _Listed(view.job.received),
    "start_ts": lambda view: _Listed(view.job.start),
    "end_ts": lambda view: _Listed(view.job.end),
}
