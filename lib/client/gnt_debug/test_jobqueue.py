"""gnt-debug test-jobqueue: a self test of the job queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.luxi import client as luxi_client
from ganeti.opcodes import OpCode, OpTestDelay, OpTestJqueue

_DELAY = 0.2
_MESSAGE = "TESTMSG="
# Statuses at each stage: a job that waits for a moment only is never stored as waiting.
_BEFORE = (constants.JOB_STATUS_QUEUED, constants.JOB_STATUS_WAITING)
_DURING = (constants.JOB_STATUS_RUNNING,)


class _TestFailed(errors.GenericError):
    """The queue broke a promise; unlike the failure of a job, which is expected here."""


def _Fail(text: str) -> _TestFailed:
    return _TestFailed(f"Job queue test failed: {text}")


def _TestPriorities(client: luxi_client.Client) -> None:
    """Check that invalid priorities are rejected, alone and among good jobs."""
    output.ToStdoutAndFlush("Testing job priorities")
    for priority in (constants.OP_PRIO_LOWEST + 1, constants.OP_PRIO_HIGHEST - 1, 3):
        op = OpTestDelay(duration=_DELAY, priority=priority)
        try:
            job_id = client.SubmitJob([op])
        except errors.GenericError:
            pass
        else:
            raise _Fail(f"job {job_id} was accepted with priority {priority}")
        good = OpTestDelay(duration=_DELAY)
        try:
            answers = client.SubmitManyJobs([[good], [op]])
        except errors.GenericError:
            continue
        if answers[1][0]:
            raise _Fail(f"job {answers[1][1]} was accepted with priority {priority} among others")
        if answers[0][0]:
            jobs.PollJob(answers[0][1], client)


def _TestDependencies(client: luxi_client.Client) -> None:
    """Check that relative dependencies become absolute ones, and that jobs wait for them."""
    output.ToStdoutAndFlush("Testing job dependencies")
    finished = [constants.JOB_STATUS_SUCCESS]
    wanted = [
        [OpTestDelay(duration=_DELAY)],
        [OpTestDelay(duration=_DELAY, depends=[[-1, finished]])],
        [OpTestDelay(duration=_DELAY, depends=[[-1, finished], [-2, []]])],
    ]
    answers = client.SubmitManyJobs(wanted)
    for accepted, answer in answers:
        if not accepted:
            raise _Fail(f"a job with dependencies was rejected: {answer}")
    ids = [answer for _, answer in answers]
    for job_id in ids:
        jobs.PollJob(job_id, client)
    rows = client.QueryJobs(ids, ["id", "start_ts", "end_ts", "ops"])
    for earlier, later in pairwise(rows):
        if later[1] < earlier[2]:
            raise _Fail(f"job {later[0]} started before job {earlier[0]}, on which it depends, had ended")
    depends = [dependency[0] for dependency in rows[2][3][0]["depends"]]
    if depends != [ids[1], ids[0]]:
        raise _Fail(f"job {ids[2]} depends on {depends}, not on {[ids[1], ids[0]]}")


class _Reporter(jobs.Feedback):
    """Plays the client's part of OpTestJqueue: checks the job at each stage and lets it continue."""

    def __init__(self, client: luxi_client.Client, job_id: int):
        self._client = client
        self._job_id = job_id
        self.stages: list[str] = []
        self.messages: list[str] = []

    def Log(self, timestamp: Sequence[int], kind: str, message: Any) -> None:
        if kind == constants.ELOG_JQUEUE_TEST:
            self._Stage(*message)
        elif kind == constants.ELOG_MESSAGE and _MESSAGE in message:
            self.messages.append(message[message.index(_MESSAGE) :])

    def _Stage(self, path: str, test: str, argument: Any) -> None:
        sock = runtime.ConnectUnix(path, timeout=10)
        try:
            self.stages.append(test)
            expected = _BEFORE if test == "expandnames" else _DURING
            status = self._client.QueryJobs([self._job_id], ["status"])[0][0]
            if status not in expected:
                raise _Fail(f"job {self._job_id} is '{status}' at stage '{test}', not {' or '.join(expected)}")
            sock.sendall(b"1")
        finally:
            sock.close()


def _RunQueueJob(client: luxi_client.Client, ops: list[OpCode]) -> tuple[_Reporter, errors.GenericError | None, int]:
    job_id = client.SubmitJob(ops)
    reporter = _Reporter(client, job_id)
    try:
        jobs.PollJob(job_id, client, reporter)
    except errors.OpExecError as err:
        return reporter, err, job_id
    return reporter, None, job_id


def _TestStages(client: luxi_client.Client, name: str, fails: Sequence[bool]) -> None:
    """Check stages, messages, results and statuses of a job whose opcodes succeed or fail."""
    output.ToStdoutAndFlush(f"Testing job with {name}")
    texts = [[f"{_MESSAGE}{name} {index} {word}" for word in ("one", "two")] for index in range(len(fails))]
    ops: list[OpCode] = [
        OpTestJqueue(notify_waitlock=True, notify_exec=True, log_messages=text, fail=fail)
        for text, fail in zip(texts, fails, strict=True)
    ]
    reporter, err, job_id = _RunQueueJob(client, ops)
    ran = list(fails).index(True) + 1 if any(fails) else len(fails)
    stages = ["expandnames", "exec", "startmsg", "logmsg", "logmsg"] * ran
    if reporter.stages != stages:
        raise _Fail(f"job {job_id} went through {reporter.stages}, not {stages}")
    messages = [message for text in texts[:ran] for message in text]
    if reporter.messages != messages:
        raise _Fail(f"job {job_id} logged {reporter.messages}, not {messages}")
    if (err is not None) != any(fails):
        raise _Fail(f"job {job_id} ended with {err}")
    row = client.QueryJobs([job_id], ["status", "opstatus"])[0]
    good, bad = constants.JOB_STATUS_SUCCESS, constants.JOB_STATUS_ERROR
    expected = [bad if any(fails) else good, [good] * (ran - any(fails)) + [bad] * (len(fails) - ran + any(fails))]
    if row != expected:
        raise _Fail(f"job {job_id} has status {row}, not {expected}")


def Run(options: Options, arguments: list[str]) -> int:
    client = jobs.GetClient()
    _TestPriorities(client)
    _TestDependencies(client)
    _TestStages(client, "success", [False])
    _TestStages(client, "multi-success", [False, False, False])
    _TestStages(client, "failure", [True])
    _TestStages(client, "partial-failure", [False, True, False])
    output.ToStdout("Job queue test successful")
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Test the job queue by running jobs in it", (), o.SET_PRIORITY)
