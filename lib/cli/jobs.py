"""Jobs from the client's side: submit them, wait, print their log, return the result."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ganeti import constants, errors, pathutils, runtime, ssconf
from ganeti.cli import output
from ganeti.cli.options import PRIORITIES
from ganeti.cli.parser import Options
from ganeti.luxi import client as luxi_client
from ganeti.luxi import protocol

if TYPE_CHECKING:
    from ganeti.opcodes import OpCode

OpCodeT = TypeVar("OpCodeT", bound="OpCode")

# Seconds of one wait for a change.
POLL_TIMEOUT = 60.0
# The same while the job is queued, until it was said that it is.
QUEUED_TIMEOUT = 10.0
# With less than this many bytes free the file system of the data directory may be full for the master daemon.
LITTLE_ROOM = 4 << 20
# The executor looks at this many jobs at a time for one that has started.
CHUNK = 25

_UNFINISHED = frozenset([constants.JOB_STATUS_QUEUED, constants.JOB_STATUS_WAITING, constants.JOB_STATUS_CANCELING])
_CANCELED = frozenset([constants.JOB_STATUS_CANCELED, constants.JOB_STATUS_CANCELING])

_REJECTED = re.compile(r"Job rejected by filter rule ([0-9a-f-]+)")

REASON_USER = "gnt:user"
REASON_CLIENT = "gnt:client:"


class JobSubmitted(Exception):
    """Raised when the job was submitted and is not waited for; not an error."""

    def __init__(self, job_id: int):
        super().__init__(job_id)
        self.job_id = job_id


_client: luxi_client.Client | None = None
# (program, command word as typed), for the reason trail; set by main.
_invocation = ("", "")


def SetInvocation(program: str, word: str) -> None:
    global _invocation
    _invocation = (program, word)


class _MasterClient(luxi_client.Client):
    """Explains why the master daemon cannot be reached, and says so while it is still tried."""

    def Retrying(self, seconds: float) -> None:
        output.ToStderr(luxi_client.RetryingText(seconds))

    def Late(self, seconds: float) -> None:
        output.ToStderr(luxi_client.LateText(seconds))

    def Call(self, method: str, args: Sequence[Any] = ()) -> Any:
        try:
            return super().Call(method, args)
        except protocol.NoMasterError as err:
            _ExplainNoMaster()
            err.hint = (
                f"'{pathutils.DAEMON_UTIL} start {constants.MASTERD}' starts it, or says that another node has become the"
                " master and how to take this one back"
            )
            raise


def _ExplainNoMaster() -> None:
    store = ssconf.SimpleStore()
    try:
        master = store.GetMasterNode()
    except errors.ConfigurationError:
        raise errors.OpPrereqError(
            "Cluster not initialized or this machine is not part of a cluster", errors.ECODE_INVAL
        ) from None
    if not store.IsMaster():
        raise errors.OpPrereqError(
            f"This is not the master node, please connect to node '{master}' and rerun the command", errors.ECODE_INVAL
        ) from None


def GetClient() -> luxi_client.Client:
    """Return the connection to the master daemon, the same for the whole run."""
    global _client
    if _client is None:
        _client = _MasterClient()
    return _client


# --- opcodes of the command line -----------------------------------------------------------------------------------------


def FromOptions(opcode: type[OpCodeT], options: Options, **given: Any) -> OpCodeT:
    """Return an opcode whose parameters are the options of the same names; ``given`` are those that differ.

    None and an empty KEY=VALUE list leave a parameter at its default; what all opcodes have is set when they are submitted.
    """
    from ganeti.opcodes import COMMON_PARAMS

    names = [name for name in opcode.OP_PARAMS if name not in COMMON_PARAMS and name not in given]
    values = {**{name: getattr(options, name, None) for name in names}, **given}
    return opcode(**{name: value for name, value in values.items() if value is not None and value != {}})


def Changes(op: OpCode, *besides: str) -> list[str]:
    """Return the parameters of an opcode that were set to something else than their default."""
    return [
        name for name, value in vars(op).items() if name not in besides and value != type(op).OP_PARAMS[name].default
    ]


def ReasonTrail(options: Options) -> list[list[Any]]:
    """Return who asks and why, as ``[source, text, nanoseconds]`` each."""
    now = int(runtime.Time() * 1e9)
    trail: list[list[Any]] = []
    if getattr(options, "reason", None):
        trail.append([REASON_USER, options.reason, now])
    program, word = _invocation
    trail.append([REASON_CLIENT + program, word, now])
    return trail


def SetGenericFields(ops: Iterable[Any], options: Options | None) -> None:
    """Set debug level, dry run, priority and reason of the command line on every opcode."""
    if options is None:
        return
    trail = ReasonTrail(options)
    priority = getattr(options, "priority", None)
    for op in ops:
        op.debug_level = options.debug
        if hasattr(options, "dry_run"):
            op.dry_run = options.dry_run
        if priority is not None:
            op.priority = PRIORITIES[priority]
        op.reason = trail


# --- one job ------------------------------------------------------------------------------------------------------------


class Feedback:
    """Prints the log of a job that is waited for."""

    def Log(self, timestamp: Sequence[int], kind: str, message: Any) -> None:
        when = time.ctime(timestamp[0])
        if kind == constants.ELOG_MESSAGE_LIST and isinstance(message, list):
            for line in message:
                output.ToStdout(f"{when} {output.SafeEncode(str(line))}")
        else:
            text = message if isinstance(message, str) else str(message)
            output.ToStdout(f"{when} {output.SafeEncode(text) if kind == constants.ELOG_MESSAGE else text}")

    def Waiting(self, job_id: int, status: str) -> None:
        """Print that nothing has happened for a while."""
        if status == constants.JOB_STATUS_QUEUED:
            output.ToStderr(f"Job {job_id} is waiting in queue")
        elif status == constants.JOB_STATUS_WAITING:
            output.ToStderr(f"Job {job_id} is trying to acquire all necessary locks")

    def Explain(self, reasons: Iterable[str]) -> None:
        """Print what may be the reason that nothing has happened for a while."""
        for reason in reasons:
            output.ToStderr(reason)

    def Polled(self) -> None:
        """Do what is due while a job is waited for; called at least once a minute."""

    def Flush(self) -> None:
        """Make sure that everything printed so far is visible."""
        import sys

        sys.stdout.flush()


class Source(Protocol):
    """Where jobs are asked for: LUXI, or the REST interface."""

    def WaitForJobChangeOnce(
        self, job_id: int, fields: Sequence[str], prev_job_info: Any, prev_log_serial: Any, timeout: float
    ) -> Any:
        """Return its fields and the new entries of its log, or "nochange"; None if the job does not exist."""

    def QueryJobs(self, job_ids: Sequence[int], fields: Sequence[str]) -> list[Any]:
        """Return each job's fields, None for a job that is not there."""


def PollJob(job_id: int, client: Source | None = None, feedback: Feedback | None = None) -> list[Any]:
    """Wait for the end of a job; return the results of its opcodes or raise its error."""
    client = client or GetClient()
    _FollowJob(job_id, client, feedback or Feedback())
    return _JobResults(job_id, client)


def _FollowJob(job_id: int, client: Source, feedback: Feedback) -> None:
    info: list[Any] | None = None
    serial = None
    told: set[str] = set()
    while True:
        is_new = info == [constants.JOB_STATUS_QUEUED] and not told
        timeout = QUEUED_TIMEOUT if is_new else POLL_TIMEOUT
        answer = client.WaitForJobChangeOnce(job_id, ["status"], info, serial, timeout=timeout)
        feedback.Polled()
        if answer is None:
            raise errors.JobLost(f"Job with id {job_id} lost")
        if answer == "nochange":
            values, log = info or [None], []
        else:
            values, log = answer
        status = values[0]
        if not log and values == info and status not in told:
            reasons = _Obstacles(status, client)
            if status in _UNFINISHED:
                feedback.Waiting(job_id, status)
            if status in _UNFINISHED or reasons:
                told.add(status)
                feedback.Explain(reasons)
        info = list(values)
        for number, timestamp, kind, message in log:
            feedback.Log(timestamp, kind, message)
            serial = max(number, serial or 0)
        if log:
            feedback.Flush()
        elif status in constants.JOBS_FINALIZED or status == constants.JOB_STATUS_CANCELING:
            return


def _Obstacles(status: str, client: Source) -> list[str]:
    """Return what may keep a job from going on, as far as it can be seen from here: only beside the master daemon."""
    if not isinstance(client, luxi_client.Client):
        return []
    found = _FilterRules(client) if status == constants.JOB_STATUS_QUEUED else []
    try:
        free = runtime.DiskFree(pathutils.DATA_DIR)
    except OSError:
        return found
    if free < LITTLE_ROOM:
        found.append(
            f"The file system of {pathutils.DATA_DIR} has {free >> 10} KiB left: jobs wait while it is full, and go on by"
            " themselves when there is room again"
        )
    return found


def _FilterRules(client: luxi_client.Client) -> list[str]:
    """Return which rules may hold queued jobs back."""
    held = []
    for (_, uuid), (_, action) in client.Query("filter", ["uuid", "action"])["data"]:
        if action == "PAUSE":
            held.append(f"{uuid} ({action})")
        elif isinstance(action, list):
            held.append(f"{uuid} ({' '.join(map(str, action))})")
    return [f"It may be held back by filter rules: {', '.join(held)}; 'gnt-filter info' shows them"] if held else []


def _JobResults(job_id: int, client: Source) -> list[Any]:
    rows = client.QueryJobs([job_id], ["status", "opstatus", "opresult"])
    if not rows or rows[0] is None or rows[0][0] is None:
        raise errors.JobLost(f"Job with id {job_id} lost")
    status, opstatus, results = rows[0]
    if status == constants.JOB_STATUS_SUCCESS:
        return results
    if status in _CANCELED:
        raise _Canceled(results or [])
    had_success = False
    for index, (op_status, result) in enumerate(zip(opstatus, results, strict=True)):
        if op_status == constants.JOB_STATUS_SUCCESS:
            had_success = True
        elif op_status == constants.JOB_STATUS_ERROR:
            errors.MaybeRaise(result)
            if had_success:
                raise errors.OpExecError(f"partial failure (opcode {index}): {result}")
            raise errors.OpExecError(str(result))
    raise errors.OpExecError(str(results))


def _Canceled(results: Sequence[Any]) -> errors.JobCanceled:
    """Return the error for a job that was canceled, by somebody or by a filter rule, which its results name."""
    for text in results:
        rejected = _REJECTED.match(text) if isinstance(text, str) else None
        if rejected:
            return errors.JobCanceled(text, hint=f"see 'gnt-filter info {rejected[1]}'")
    return errors.JobCanceled("Job was canceled")


def SubmitOpCode(op: Any, options: Options | None = None, feedback: Feedback | None = None) -> Any:
    """Run one opcode as a job and return its result."""
    SetGenericFields([op], options)
    client = GetClient()
    job_id = client.SubmitJob([op])
    if getattr(options, "print_jobid", False):
        output.ToStdoutAndFlush(str(job_id))
    try:
        return PollJob(job_id, client, feedback)[0]
    except errors.LuxiError:
        output.ToStderr(
            f"Job {job_id} was submitted; 'gnt-job watch {job_id}' follows it when the master daemon answers"
        )
        raise


def SubmitOrSend(op: Any, options: Options) -> Any:
    """Run one opcode as a job and return its result; raise JobSubmitted if ``--submit`` says not to wait."""
    if not getattr(options, "submit_only", False):
        return SubmitOpCode(op, options)
    SetGenericFields([op], options)
    job_id = GetClient().SubmitJob([op])
    if options.print_jobid:
        output.ToStdoutAndFlush(str(job_id))
    raise JobSubmitted(job_id)


# --- many jobs ----------------------------------------------------------------------------------------------------------


class _Entry:
    """Describes one job of the executor; ``name`` is the object that it works on."""

    __slots__ = ("accepted", "index", "job_id", "name", "reject")

    def __init__(self, index: int, name: str | None, accepted: bool, answer: Any):
        self.index = index
        self.name = name
        self.accepted = accepted
        self.job_id = int(answer) if accepted else 0
        self.reject = "" if accepted else str(answer)

    @property
    def suffix(self) -> str:
        return f" for {self.name}" if self.name else ""


class JobExecutor:
    """Submits several jobs in one call and waits for all of them."""

    def __init__(self, options: Options | None = None, verbose: bool = True, feedback: Feedback | None = None):
        self._options = options
        self._verbose = verbose
        self._feedback = feedback
        self._queue: list[tuple[str | None, list[Any]]] = []
        self._entries: list[_Entry] = []
        self._client = GetClient()

    def QueueJob(self, name: str | None, *ops: Any) -> None:
        SetGenericFields(ops, self._options)
        self._queue.append((name, list(ops)))

    def AddJobIds(self, answers: Iterable[Sequence[Any]]) -> None:
        """Add jobs that the master submitted: pairs [accepted, ID or message]."""
        for accepted, answer in answers:
            self._entries.append(_Entry(len(self._entries), None, bool(accepted), answer))

    def SubmitPending(self, each: bool = False) -> None:
        """Submit the queued jobs; ``each``: with one call for each job."""
        if not self._queue:
            return
        queue, self._queue = self._queue, []
        if each:
            answers = [[True, self._client.SubmitJob(ops)] for _, ops in queue]
        else:
            answers = self._client.SubmitManyJobs([ops for _, ops in queue])
        for (name, _), (accepted, answer) in zip(queue, answers, strict=True):
            self._entries.append(_Entry(len(self._entries), name, bool(accepted), answer))

    def GetResults(self) -> list[tuple[bool, Any]]:
        """Return (success, results of the opcodes or message) of each job, in the order of submission."""
        self.SubmitPending()
        accepted = [entry for entry in self._entries if entry.accepted]
        if self._verbose and accepted:
            output.ToStdoutAndFlush("Submitted jobs " + ", ".join(str(entry.job_id) for entry in accepted))
        results: dict[int, tuple[bool, Any]] = {}
        for entry in self._entries:
            if not entry.accepted:
                output.ToStderr(f"Failed to submit job{entry.suffix}: {entry.reject}")
                results[entry.index] = (False, entry.reject)
        pending = accepted
        while pending:
            entry = self._ChooseNext(pending)
            pending.remove(entry)
            results[entry.index] = self._Wait(entry)
        entries, self._entries = self._entries, []
        return [results[entry.index] for entry in entries]

    def _ChooseNext(self, pending: list[_Entry]) -> _Entry:
        """Return a job that has started or ended, so that its log is printed soon, else the first one."""
        chunk = pending[:CHUNK]
        rows = self._client.QueryJobs([entry.job_id for entry in chunk], ["id", "status"])
        begun = {row[0] for row in rows if row and row[1] not in _UNFINISHED}
        return next((entry for entry in chunk if entry.job_id in begun), chunk[0])

    def _Wait(self, entry: _Entry) -> tuple[bool, Any]:
        output.ToStdoutAndFlush(f"Waiting for job {entry.job_id}{entry.suffix} ...")
        try:
            return (True, PollJob(entry.job_id, self._client, self._feedback))
        except errors.JobLost:
            output.ToStderr(f"Job {entry.job_id}{entry.suffix} has been archived, cannot check its result")
            return (False, "Job was archived before its result was read")
        except errors.GenericError as err:
            if isinstance(err, errors.LuxiError):
                raise
            from ganeti.cli.failures import FormatError

            text = FormatError(err)[1]
            output.ToStderr(f"Job {entry.job_id}{entry.suffix} has failed: {text}")
            return (False, text)

    def WaitOrShow(self, wait: bool) -> list[tuple[bool, Any]]:
        """Wait for the jobs, or only print ``ID: NAME`` for each."""
        if wait:
            return self.GetResults()
        self.SubmitPending()
        results: list[tuple[bool, Any]] = []
        for entry in self._entries:
            if entry.accepted:
                output.ToStdout(f"{entry.job_id}: {entry.name}")
                results.append((True, entry.job_id))
            else:
                output.ToStderr(f"Failure for {entry.name}: {entry.reject}")
                results.append((False, entry.reject))
        self._entries = []
        return results


def CountFailures(results: Iterable[tuple[bool, Any]], good: Callable[[Any], bool] = lambda _: True) -> int:
    """Return how many jobs failed, or ended with a result that is not ``good``."""
    return sum(1 for success, result in results if not success or not good(result))


def SubmitAndCollect(op: Any, options: Options) -> list[tuple[bool, Any]]:
    """Run an opcode that submits further jobs, wait for those, and return their results; a dry run submits none."""
    answer = SubmitOrSend(op, options)
    return CollectJobs(answer["jobs"], options) if answer is not None else []


def CollectJobs(answers: Iterable[Sequence[Any]], options: Options) -> list[tuple[bool, Any]]:
    """Wait for jobs that the master submitted, and for those that they submit; return the results of all."""
    results: list[tuple[bool, Any]] = []
    while answers:
        executor = JobExecutor(options)
        executor.AddJobIds(answers)
        ended = executor.GetResults()
        results += ended
        answers = [answer for success, values in ended if success for answer in _Submitted(values)]
    return results


def _Submitted(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """Return the jobs that the opcodes of a job submitted, according to their results."""
    for value in values:
        if isinstance(value, dict) and isinstance(value.get("jobs"), list):
            yield from value["jobs"]
