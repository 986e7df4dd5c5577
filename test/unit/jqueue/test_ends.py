"""Every job comes to an end and no worker is lost, whatever an opcode does and whenever the daemon is asked to stop."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from support.queues import Executor, Op

from ganeti import constants, errors, objects, opcodes, serializer
from ganeti.jqueue.queue import URGENT_WORKERS
from ganeti.store import Row, Rows
from ganeti.store.base import MAX_TRANSACTION

HUGE = MAX_TRANSACTION + (1 << 20)


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Loud(Executor):
    """Knows opcodes that say or raise more than can be stored."""

    def _Do(self, words: list[str], cbs: Any) -> Any:
        match words:
            case ["say", kind]:
                cbs.Feedback(constants.ELOG_MESSAGE, "before")
                cbs.Feedback(constants.ELOG_MESSAGE, "x" * HUGE if kind == "text" else ["x" * HUGE])
                cbs.Feedback(constants.ELOG_MESSAGE, "after")
                return None
            case ["raise", "long"]:
                raise errors.OpExecError("x" * HUGE)
            case ["raise", "strange"]:
                raise errors.OpExecError(object())
            case ["raise", "unprintable"]:
                raise _Unprintable
            case ["raise", "exit"]:
                sys.exit("a library wants to end the program")
            case ["raise", "deep"]:
                return self._Do(words, cbs)
        return super()._Do(words, cbs)


@pytest.fixture
def loud(make):
    """Two workers: a lost one would be missed."""
    return make(executor=Loud, settings=lambda: (2, {}))


def RunsOn(bench) -> None:
    """All workers are still there."""
    gates = [bench.Submit("gate end") for _ in range(2)]
    bench.executor.WaitRunning(*gates)
    bench.executor.Open("end")
    assert {bench.WaitEnd(job_id) for job_id in gates} == {"success"}


@pytest.mark.parametrize(("kind", "kept"), [("text", "x" * 1000), ("list", "is not kept")])
def test_a_message_that_cannot_be_stored_is_cut_and_the_job_works_on(loud, kind, kept):
    ids = [loud.Submit(f"say {kind}", "next") for _ in range(3)]
    assert [loud.WaitEnd(job_id) for job_id in ids] == ["success"] * 3
    for job_id in ids:
        first, large, last = (entry[3] for entry in loud.Field(job_id, "oplog")[0])
        assert (first, last) == ("before", "after")
        assert kept in large and len(large) < 1 << 20
    RunsOn(loud)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("long", "xxx"),
        ("strange", "object"),
        ("unprintable", "_Unprintable"),
        ("exit", "SystemExit"),
        ("deep", "Recursion"),
    ],
)
def test_whatever_an_opcode_raises_its_job_ends_as_an_error(loud, how, text):
    ids = [loud.Submit(f"raise {how}", "never") for _ in range(3)]
    assert [loud.WaitEnd(job_id) for job_id in ids] == ["error"] * 3
    for job_id in ids:
        error, follows = loud.Field(job_id, "opresult")
        assert error[0] == "OpExecError" and text in error[1][0] and len(error[1][0]) < 1 << 17
        assert follows == ["OpExecError", ["Preceding opcode failed"]]
    assert all(comment != "never" for _, comment in loud.executor.executed)
    RunsOn(loud)


def test_a_job_whose_file_became_too_long_elsewhere_still_ends(loud):
    """Release 3.1 has no limit for logs, so a queue that was adopted may hold such a job."""
    job_id = loud.Submit("one")
    loud.WaitEnd(job_id)
    data = serializer.Load(loud.rows[str(job_id)])
    data["end_timestamp"] = None
    log = [1, [5, 6], "message", ""]
    data["ops"][0].update(
        {"status": "queued", "result": None, "end_timestamp": None, "exec_timestamp": None, "log": [log]}
    )
    log[3] = "x" * (MAX_TRANSACTION - len(serializer.Dump(data)))
    loud.store.Commit(Rows(Row("job", str(job_id), serializer.Dump(data))))
    loud.Crash()
    assert loud.WaitEnd(job_id) == "error"
    assert "too long" in loud.Field(job_id, "opresult")[0][1][0]
    RunsOn(loud)


def test_a_job_whose_opcodes_have_ended_gets_the_end_time_it_lacks(bench):
    """A job process of release 3.1 was cut off between the last opcode and the end of its job."""
    ended, cut_off = bench.Submit("one"), bench.Submit("two")
    for job_id in (ended, cut_off):
        bench.WaitEnd(job_id)
    before = bench.Field(ended, "end_ts")
    data = serializer.Load(bench.rows[str(cut_off)])
    data["end_timestamp"] = None
    bench.store.Commit(Rows(Row("job", str(cut_off), serializer.Dump(data))))
    bench.Crash()
    assert bench.Field(cut_off, "status") == "success" and bench.Field(cut_off, "end_ts") > before
    assert bench.Field(ended, "end_ts") == before
    assert serializer.Load(bench.rows[str(cut_off)])["end_timestamp"] is not None


def test_opcodes_count_with_all_that_will_be_written_about_them(bench):
    """20,000 short opcodes are a short submission, and would become a row that no node takes."""
    with pytest.raises(errors.OpPrereqError, match="bytes"):
        bench.queue.SubmitJob([Op() for _ in range(20_000)]).Result(60)


def test_jobs_that_waited_for_locks_start_after_a_stop_that_was_rejected(bench):
    running = bench.Submit("gate a")
    bench.executor.WaitRunning(running)
    waiting = bench.Submit("waits w")
    bench.WaitStatus(waiting, "waiting")
    bench.queue.Close()
    bench.executor.Open("w")
    bench.WaitStatus(waiting, "queued")  # it gave way
    assert not bench.queue.WaitIdle(0.1)
    assert bench.queue.RunningJobs() == [running]
    bench.queue.Reopen()
    assert bench.WaitEnd(waiting) == "success"
    assert bench.WaitEnd(bench.Submit("later")) == "success"
    bench.executor.Open("a")
    assert bench.WaitEnd(running) == "success"


def test_nothing_starts_between_a_stop_and_its_rejection(bench):
    running = bench.Submit("gate a")
    bench.executor.WaitRunning(running)
    queued = bench.Submit("x", depends=[[running, []]])
    bench.queue.Close()
    bench.executor.Open("a")
    assert bench.WaitEnd(running) == "success"
    assert bench.queue.WaitIdle(10)
    assert bench.Status(queued) == "queued"
    bench.queue.Reopen()
    assert bench.WaitEnd(queued) == "success"


@pytest.mark.parametrize(("value", "drained"), [("true", True), ("false", False)])
def test_the_drain_flag_is_what_its_row_says(bench, value, drained):
    """Removing the file by hand while no master runs makes the row say false."""
    bench.queue.SetDrainFlag(True).Result(10)
    bench.store.Commit(Rows(Row("queue", "drain", value)))
    bench.Crash()
    assert bench.queue.drained is drained
    if drained:
        with pytest.raises(errors.JobQueueDrainError):
            bench.queue.SubmitJob([Op()]).Result(10)
    else:
        assert bench.WaitEnd(bench.Submit("x")) == "success"


def test_as_many_workers_as_jobs_may_run_and_none_after_the_end(make):
    before = set(threading.enumerate())
    bench = make(settings=lambda: (3, {}))
    bench.WaitEnd(bench.Submit("x"))
    ours = [thread for thread in threading.enumerate() if thread not in before and thread.name.startswith("Jq")]
    assert sorted(thread.name for thread in ours) == ["Jq1", "Jq2", "Jq3", "JqRules", "JqTicker"]
    bench.queue.Stop()
    for thread in ours:
        thread.join(30)
    assert not any(thread.is_alive() for thread in ours)


class _Late(Executor):
    """Gets its locks, and begins only when a gate opens."""

    def __call__(self, op: Any, ec_id: int, cbs: Any, *args: Any) -> Any:
        cbs.CurrentPriority()
        with self.changed:
            self.seen.append(op)
            self.changed.notify_all()
        self._Gate("late")
        cbs.NotifyStart()
        with self.changed:
            self.executed.append((ec_id, op.comment))


def test_a_job_that_got_its_locks_as_the_queue_closed_does_not_begin(make):
    bench = make(executor=_Late)
    job_id = bench.Submit("x")
    with bench.executor.changed:
        assert bench.executor.changed.wait_for(lambda: bench.executor.seen, 20)
    bench.queue.Close()
    bench.executor.Open("late")
    assert bench.queue.WaitIdle(20)
    assert bench.Status(job_id) == "queued" and bench.executor.executed == []
    bench.queue.Reopen()
    assert bench.WaitEnd(job_id) == "success"


def test_an_urgent_job_starts_whatever_else_runs_and_whatever_a_rule_says(make):
    rule = objects.FilterRule.FromDict(
        {
            "uuid": "00000001-aaaa-4bbb-8ccc-000000000000",
            "watermark": 0,
            "priority": 0,
            "predicates": [["jobid", [">", "id", 2]]],
            "action": "PAUSE",
            "reason_trail": [],
        }
    )
    rules = {rule.uuid: rule}
    bench = make(settings=lambda: (2, rules))
    full = [bench.Submit("gate a"), bench.Submit("gate a")]
    bench.executor.WaitRunning(*full)
    ordinary = bench.Submit("x")
    op = {"OP_ID": "OP_INSTANCE_SETTLE_MIRRORS", "instance_name": "web", "comment": "gate b"}
    urgent = [bench.queue.SubmitJob([op]).Result(20)]
    bench.executor.WaitRunning(*urgent)
    assert len(bench.queue._urgent_threads) == 1, "as many workers as there are jobs"
    urgent += [bench.queue.SubmitJob([op]).Result(20) for _ in range(URGENT_WORKERS)]
    bench.executor.WaitRunning(*urgent[:URGENT_WORKERS])
    assert bench.Status(ordinary) == "queued"
    assert bench.queue.CancelJob(ordinary).Result(20)[0] is True
    assert bench.executor.running == {*full, *urgent[:URGENT_WORKERS]}, "the last one waits for a worker"
    bench.executor.Open("b")
    assert [bench.WaitEnd(job_id) for job_id in urgent] == ["success"] * len(urgent)
    bench.executor.Open("a")
    assert [bench.WaitEnd(job_id) for job_id in full] == ["success"] * 2


def test_a_queue_that_clients_filled_takes_the_masters_urgent_jobs(make):
    bench = make(max_live_jobs=2)
    full = [bench.Submit("gate a"), bench.Submit("gate a")]
    bench.executor.WaitRunning(*full)
    op = opcodes.OpInstanceSettleMirrors(instance_name="web")
    # A client's is not the master's own.
    for refused in (op.ToDict(), opcodes.OpTestDelay(duration=0.0)):
        with pytest.raises(errors.JobQueueFull, match="2 are allowed"):
            bench.queue.SubmitJob([refused]).Result(20)
    with pytest.raises(errors.JobQueueFull):
        bench.queue.SubmitJob([op, opcodes.OpTestDelay(duration=0.0)]).Result(20)
    assert bench.WaitEnd(bench.queue.SubmitJob([op], to_drained=True).Result(20)) == "success"
    bench.executor.Open("a")
    assert [bench.WaitEnd(job_id) for job_id in full] == ["success"] * 2


def test_an_urgent_job_takes_the_place_of_no_other(make):
    bench = make(settings=lambda: (1, {}))
    op = {"OP_ID": "OP_INSTANCE_SETTLE_MIRRORS", "instance_name": "web", "comment": "gate b"}
    urgent = bench.queue.SubmitJob([op]).Result(20)
    bench.executor.WaitRunning(urgent)
    assert bench.WaitEnd(bench.Submit("x")) == "success"
    assert bench.Status(urgent) == "running"
    bench.executor.Open("b")
    assert bench.WaitEnd(urgent) == "success"
