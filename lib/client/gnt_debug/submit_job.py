"""gnt-debug submit-job: submits opcodes from files."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors, runtime, serializer
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Flag, Options, Value
from ganeti.opcodes import OpCode

_FILE_LIMIT = 16 * 1024 * 1024

OP_REPEAT = Value(
    "--op-repeat", dest="rep_op", type="int", default=1, metavar="NUMBER", text="How often each job has the opcodes"
)
JOB_REPEAT = Value(
    "--job-repeat", dest="rep_job", type="int", default=1, metavar="NUMBER", text="How often to submit the jobs"
)
TIMING_STATS = Flag("--timing-stats", dest="timing_stats", text="Print counters and times")
EACH = Flag("--each", dest="each", text="Submit each job with a call of its own")


def ReadOpcodes(path: str) -> list[OpCode]:
    """Return the opcodes of a JSON file; raise OpPrereqError with the name of the file."""
    try:
        data = serializer.Load(runtime.ReadFile(path, _FILE_LIMIT))
    except OSError as err:
        raise errors.OpPrereqError(f"Cannot read '{path}': {err.strerror}", errors.ECODE_INVAL) from err
    except errors.ParseError as err:
        raise errors.OpPrereqError(f"'{path}': {err}", errors.ECODE_INVAL) from err
    if not isinstance(data, list):
        raise errors.OpPrereqError(f"'{path}' does not contain a list of opcodes", errors.ECODE_INVAL)
    try:
        return [OpCode.FromDict(item) for item in data]
    except errors.ParseError as err:
        raise errors.OpPrereqError(f"'{path}': {err}", errors.ECODE_INVAL) from err


class _Statistics:
    """Collects counters and times and prints them at the end."""

    def __init__(self, wanted: bool):
        self._wanted = wanted
        self._times = [runtime.Monotonic()]

    def Step(self, text: str) -> None:
        if self._wanted:
            output.ToStdoutAndFlush(text)

    def Mark(self) -> None:
        self._times.append(runtime.Monotonic())

    def Print(self, op_count: int, job_count: int) -> None:
        if not self._wanted:
            return
        start, submitted, done = self._times
        for label, number in (("C:op", op_count), ("C:job", job_count)):
            output.ToStdout(f"{label:<9} {number:4d}")
        for label, seconds in (
            ("T:submit", submitted - start),
            ("T:exec", done - submitted),
            ("T:total", done - start),
        ):
            output.ToStdout(f"{label:<9} {seconds:.4f}")


def Run(options: Options, arguments: list[str]) -> int:
    executor = jobs.JobExecutor(options, verbose=options.verbose)
    statistics = _Statistics(options.timing_stats)
    statistics.Step("Loading...")
    files: list[tuple[str, list[OpCode]]] = [(path, ReadOpcodes(path)) for path in arguments]
    op_count = job_count = 0
    for repetition in range(options.rep_job):
        for path, ops in files:
            repeated: list[Any] = ops * options.rep_op
            op_count += len(repeated)
            job_count += 1
            executor.QueueJob(f"file {path}/{repetition}", *repeated)
    statistics = _Statistics(options.timing_stats)
    statistics.Step("Submitting...")
    executor.SubmitPending(each=options.each)
    statistics.Mark()
    statistics.Step("Executing...")
    executor.GetResults()
    statistics.Mark()
    statistics.Print(op_count, job_count)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Submit one job for each file; a file holds a JSON list of opcodes",
    (Some("file"),),
    (o.VERBOSE, OP_REPEAT, JOB_REPEAT, TIMING_STATS, EACH, *o.SET_DRY, *o.SET_PRIORITY),
)
