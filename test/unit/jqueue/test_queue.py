"""Stories of jobs, from their submission to the archive; on a real store."""

from __future__ import annotations

import contextlib
import os
import re

import pytest
from support.queues import OP, Op

from ganeti import errors, pathutils, runtime, serializer
from ganeti.jqueue import attempts, submit, worker
from ganeti.jqueue import entry as entry_module


@pytest.mark.req("D20-JOB-03", "D20-CALL-01", "D20-CALL-04", "D20-JOB-07")
def test_a_job_is_stored_before_its_id_is_told_and_runs_to_its_end(make):
    bench = make(voters=3)
    job_id = bench.Submit("", "hello")
    rows = [n.store.database.GetValue("job", str(job_id)) for n in bench.cluster.nodes]
    assert sum(text is not None for text in rows) >= 2
    assert bench.WaitEnd(job_id) == "success"
    assert bench.queue.QueryJobs([job_id], ["id", "opstatus", "opresult", "summary", "archived", "priority"]) == [
        [job_id, ["success", "success"], [None, "hello"], ["TEST_DELAY(0 ns)"] * 2, False, 0]
    ]
    received, start, end = (bench.Field(job_id, f"{n}_ts") for n in ("received", "start", "end"))
    times = [received, start, *bench.Field(job_id, "opexec"), *bench.Field(job_id, "opend"), end]
    assert sorted([times[0], times[1], times[2], times[4], times[3], times[5], times[6]]) == [
        times[0], times[1], times[2], times[4], times[3], times[5], times[6]
    ]  # fmt: skip
    stored = serializer.Load(bench.rows[str(job_id)])
    assert stored["end_timestamp"] == end and stored["ops"][1]["status"] == "success"
    assert bench.store.Rows("queue")["serial"] == str(job_id)


@pytest.mark.req("D20-JOB-16", "D20-JOB-15")
def test_all_copies_of_a_job_are_the_same_text(make):
    bench = make(voters=3)
    for comment in ("", "log 3", "fail x"):
        bench.WaitEnd(bench.Submit(comment))
    bench.store.Stop(5)
    copies = [{r.id: r.value for r in n.store.database.GetRows() if r.kind == "job"} for n in bench.cluster.nodes]
    assert copies[0] == bench.rows
    assert sum(copy == copies[0] for copy in copies) >= 2


def test_errors_end_the_job_and_what_follows_is_not_executed(bench):
    job_id = bench.Submit("one", "fail no disk", "three")
    assert bench.WaitEnd(job_id) == "error"
    assert bench.Field(job_id, "opresult") == [
        "one",
        ["OpExecError", ["no disk"]],
        ["OpExecError", ["Preceding opcode failed"]],
    ]
    assert [c for _, c in bench.executor.executed] == ["one", "fail no disk"]
    bug = bench.Submit("bug")
    assert bench.WaitEnd(bug) == "error"
    assert bench.Field(bug, "opresult") == [["OpExecError", ["ZeroDivisionError: bug"]]]
    early = bench.Submit("prereq")
    assert bench.WaitEnd(early) == "error"
    assert bench.Field(early, "opresult") == [["OpPrereqError", ["not now", "wrong_state"]]]
    assert bench.Field(early, "opstart")[0] is not None and bench.Field(early, "opexec") == [None]
    strange = bench.Submit("strange")
    assert bench.WaitEnd(strange) == "error"


def test_the_empty_job_is_a_success_from_the_start(bench):
    job_id = bench.queue.SubmitJob([]).Result(30)
    assert bench.Status(job_id) == "success"
    assert bench.Field(job_id, "end_ts") is not None
    assert bench.queue.SubmitManyJobs([]).Result(30) == []


@pytest.mark.req("D20-JOB-01", "D20-JOB-04", "D20-MD-06", "D20-MD-07")
def test_as_many_run_as_may_and_the_next_begins_when_one_ends(make):
    bench = make(settings=lambda: (3, {}))
    ids = [bench.Submit(f"gate {n}") for n in range(5)]
    bench.executor.WaitRunning(*ids[:3])
    assert [bench.Status(n) for n in ids[3:]] == ["queued", "queued"]
    assert bench.queue.QueryJobs(None, ["id"]) == [[n] for n in ids]  # answered while every worker is busy
    bench.executor.Open("1")
    bench.executor.WaitRunning(ids[0], ids[2], ids[3])
    for n in range(5):
        bench.executor.Open(str(n))
    for job_id in ids:
        bench.WaitEnd(job_id)
    assert bench.executor.most_running == 3


def test_urgent_jobs_go_first_and_a_changed_priority_counts(make):
    bench = make(settings=lambda: (1, {}))
    first = bench.Submit("gate a")
    bench.executor.WaitRunning(first)
    low = bench.Submit("low", priority=10)
    normal = bench.Submit("normal")
    high = bench.Submit("high", priority=-10)
    raised = bench.Submit("raised", priority=10)
    assert bench.queue.ChangePriority(raised, -10).Result(30) == [
        True,
        f"Priorities of pending opcodes for job {raised} have been changed to -10",
    ]
    assert bench.Field(raised, "oppriority") == [-10] and bench.Field(raised, "priority") == -10
    assert bench.Field(raised, "ops")[0]["priority"] == 10
    bench.executor.Open("a")
    bench.WaitEnd(low)
    assert [n for n, _ in bench.executor.executed] == [first, high, raised, normal, low]
    assert bench.queue.ChangePriority(low, 0).Result(30) == [False, f"Job {low} is finished"]
    assert bench.queue.ChangePriority(999, 0).Result(30) == [False, "Job 999 not found"]
    with pytest.raises(errors.GenericError, match="not a valid priority"):
        bench.queue.ChangePriority(low, 77)


def test_between_two_opcodes_a_more_urgent_job_goes_first(make):
    bench = make(settings=lambda: (1, {}))
    two = bench.Submit("gate a", "second")
    bench.executor.WaitRunning(two)
    urgent = bench.Submit("urgent", priority=-10)
    bench.executor.Open("a")
    bench.WaitEnd(two)
    assert [c for _, c in bench.executor.executed] == ["gate a", "urgent", "second"]
    assert bench.WaitEnd(urgent) == "success"


# --- cancel -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-JOB-06", "D20-CALL-05")
def test_a_queued_job_is_canceled_and_never_starts(make):
    bench = make(settings=lambda: (1, {}))
    running = bench.Submit("gate a")
    bench.executor.WaitRunning(running)
    queued = bench.Submit("one", "two")
    assert bench.queue.CancelJob(queued).Result(30) == [True, f"Job {queued} canceled"]
    assert bench.Status(queued) == "canceled"
    assert bench.Field(queued, "opresult") == ["Job canceled by request"] * 2
    assert bench.queue.CancelJob(running).Result(30) == [False, f"Job {running} is no longer waiting in the queue"]
    assert bench.queue.CancelJob(queued).Result(30)[0] is False
    assert bench.queue.CancelJob(999).Result(30) == [False, "Job 999 not found"]
    bench.executor.Open("a")
    assert bench.WaitEnd(running) == "success"
    last = bench.Submit("last")
    bench.WaitEnd(last)
    assert [n for n, _ in bench.executor.executed] == [running, last]


def test_a_job_that_waits_for_locks_is_canceled_when_it_notices(bench):
    job_id = bench.Submit("waits g", "two")
    bench.executor.WaitGate("g")
    bench.WaitStatus(job_id, "waiting")
    answer = bench.queue.CancelJob(job_id)
    bench.WaitStatus(job_id, "canceling")
    assert bench.Field(job_id, "opstatus") == ["canceling", "canceling"]
    assert not answer.done
    assert bench.queue.ChangePriority(job_id, 10).Result(30) == [False, f"Job {job_id} is cancelling"]
    bench.executor.Open("g")
    assert answer.Result(10) == [True, f"Job {job_id} canceled"]
    assert bench.Field(job_id, "opresult") == ["Job canceled by request"] * 2
    assert bench.executor.executed == []


def test_a_job_is_canceled_even_between_its_worker_and_its_locks(make, monkeypatch):
    """Its wait has not been stored yet, so everybody still sees it as queued."""
    monkeypatch.setattr(worker, "WAITING_SHOWN_AFTER", 60.0)
    bench = make()
    job_id = bench.Submit("waits g", "two")
    with bench.executor.changed:
        assert bench.executor.changed.wait_for(lambda: bench.executor.seen, 20)
    assert bench.Status(job_id) == "queued"
    assert bench.queue.CancelJob(job_id).Result(10) == [True, f"Job {job_id} canceled"]
    bench.executor.Open("g")
    after = bench.Submit("x")
    assert bench.WaitEnd(after) == "success"
    assert bench.Status(job_id) == "canceled"
    assert bench.executor.executed == [(after, "x")]


# --- locks ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D21-LOCK-08")
def test_without_locks_the_job_tries_again_with_longer_times(bench):
    job_id = bench.Submit("locks 3")
    assert bench.WaitEnd(job_id) == "success"
    times = bench.executor.timeouts
    assert len(times) == 4
    for measured, expected in zip(times, attempts.SERIES, strict=False):
        assert 0.95 * expected <= measured <= 1.05 * expected
    start, begun = bench.Field(job_id, "opstart")[0], bench.Field(job_id, "opexec")[0]
    assert start <= begun


@pytest.mark.req("D20-LOCK-23", "D21-LOCK-10")
def test_patience_at_an_end_raises_the_priority_until_it_waits_for_ever(make, monkeypatch):
    monkeypatch.setattr(attempts, "SERIES", (0.001, 0.002))
    bench = make()
    tries = 2 * 30
    job_id = bench.Submit(f"locks {tries}")
    bench.WaitEnd(job_id)
    assert bench.executor.priorities[:5] == [0, 0, -1, -1, -2]
    assert min(bench.executor.priorities) == -20
    blocking = [p for p, t in zip(bench.executor.priorities, bench.executor.timeouts, strict=True) if t is None]
    assert blocking and set(blocking) == {-20}
    assert bench.Field(job_id, "ops")[0]["priority"] == 0


def test_the_series_of_times_is_that_of_the_processor():
    assert attempts.SERIES[0] == 1.0
    assert attempts.SERIES[1] == pytest.approx(1.05**1.25)
    assert max(attempts.SERIES) == 15.0
    assert sum(attempts.SERIES) >= 1800 > sum(attempts.SERIES[:-1])
    assert list(attempts.SERIES) == sorted(attempts.SERIES)


# --- submission -------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-HIST-04")
def test_a_drained_queue_takes_nothing_new_and_works_on(make):
    bench = make(settings=lambda: (1, {}))
    before = bench.Submit("gate a")
    waiting = bench.Submit("x")
    assert bench.queue.SetDrainFlag(True).Result(30) is True
    assert bench.queue.drained and "drain" in bench.store.Rows("queue")
    for refused in (lambda: bench.queue.SubmitJob([Op()]), lambda: bench.queue.SubmitManyJobs([[Op()]])):
        with pytest.raises(errors.JobQueueDrainError, match="drained"):
            refused().Result(30)
    past = bench.queue.SubmitJob([Op()], to_drained=True).Result(30)
    bench.executor.Open("a")
    for job_id in (before, waiting, past):
        assert bench.WaitEnd(job_id) == "success"
    bench.Crash()
    assert bench.queue.drained
    assert bench.queue.SetDrainFlag(False).Result(30) is True
    assert bench.queue.SetDrainFlag(False).Result(30) is True  # twice is fine
    assert bench.WaitEnd(bench.Submit("")) == "success"


def test_a_full_queue_says_so(make):
    bench = make(max_live_jobs=3)
    ids = [bench.Submit("") for _ in range(3)]
    with pytest.raises(errors.JobQueueFull):
        bench.Submit("")
    for job_id in ids:
        bench.WaitEnd(job_id)
    assert bench.queue.ArchiveJob(ids[0]).Result(30) is True
    assert bench.Submit("") > ids[-1]


@pytest.mark.parametrize(
    "op",
    [
        7,
        {},
        {"OP_ID": "OP_NO_SUCH"},
        {"OP_ID": OP},
        Op(duration="x"),
        Op(priority=5),
        Op(unknown=1),
        Op(depends=[[1]]),
        Op(depends=[[1, ["running"]]]),
        Op(reason=[["a"]]),
        Op(comment="a\0b"),
        {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "web1", "osparams": {"a": "x\0y"}},
    ],
)
def test_what_is_no_opcode_is_refused_by_name(bench, op):
    with pytest.raises(errors.OpPrereqError, match="Opcode 1 of job 0"):
        bench.queue.SubmitJob([Op(), op])
    assert bench.queue.QueryJobs(None, ["id"]) == []


def test_the_queue_writes_where_a_job_comes_from(bench):
    job_id = bench.queue.SubmitJob([Op(reason=[["gnt:user", "because", 5]]), Op()]).Result(30)
    trails = [op["reason"] for op in bench.Field(job_id, "ops")]
    assert trails[0][0] == ["gnt:user", "because", 5]
    received = bench.Field(job_id, "received_ts")
    nanoseconds = received[0] * 10**9 + received[1] * 1000
    assert trails[0][1] == ["gnt:opcode:test_delay", f"job={job_id};index=0", nanoseconds]
    assert trails[1] == [["gnt:opcode:test_delay", f"job={job_id};index=1", nanoseconds]]


def test_secrets_reach_the_processor_and_never_the_store(bench):
    secret = {"password": "s3cr3t"}
    op = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": "web1",
        "disk_template": "diskless",
        "mode": "create",
        "disks": [],
        "nics": [],
        "osparams_secret": secret,
        "osparams_private": {"token": "pr1v"},
        "reason": [],
    }
    job_id = bench.queue.SubmitJob([op, {**op, "comment": "fail"}]).Result(30)
    assert bench.WaitEnd(job_id) == "error"
    assert bench.executor.seen[0].osparams_secret == secret
    assert bench.executor.seen[0].osparams_private == {"token": "pr1v"}
    text = bench.rows[str(job_id)]
    assert "s3cr3t" not in text and "pr1v" not in text
    assert bench.Field(job_id, "ops")[0]["osparams_secret"] == {"password": "<redacted>"}
    assert "s3cr3t" not in str(bench.Field(job_id, "ops"))


# --- dependencies -----------------------------------------------------------------------------------------------------


def test_relative_dependencies_count_back_in_the_submission(bench):
    answer = bench.queue.SubmitManyJobs(
        [
            [Op(comment="gate a")],
            [Op(comment="second", depends=[[-1, []]])],
            [Op(comment="third", depends=[[-2, ["success"]], [-1, []]])],
            [Op(depends=[[-99, []]])],
            [Op(depends=[[-1, []]])],
        ]
    ).Result(30)
    assert [ok for ok, _ in answer] == [True, True, True, False, False]
    first, second, third = (value for _, value in answer[:3])
    assert (second, third) == (first + 1, first + 2)
    assert "Unable to resolve relative job ID -99" in answer[3][1]
    assert "Unable to resolve relative job ID -1" in answer[4][1]
    assert bench.Field(third, "ops")[0]["depends"] == [[first, ["success"]], [second, []]]
    bench.executor.WaitRunning(first)
    assert bench.Status(second) == bench.Status(third) == "queued"
    bench.executor.Open("a")
    assert bench.WaitEnd(third) == "success"
    assert [c for _, c in bench.executor.executed] == ["gate a", "second", "third"]


def test_how_a_dependency_ended_decides(bench):
    good, bad = bench.Submit("x"), bench.Submit("fail x")
    assert (bench.WaitEnd(good), bench.WaitEnd(bad)) == ("success", "error")
    for depends, status, text in [
        ([[good, []]], "success", None),
        ([[bad, []]], "success", None),
        ([[bad, ["error"]]], "success", None),
        ([[bad, ["success"]]], "error", "finished with status 'error', not one of 'success'"),
        ([[good, ["error", "canceled"]]], "error", "finished with status 'success'"),
        ([[12345, []]], "error", "job 12345 does not exist"),
    ]:
        job_id = bench.Submit("y", depends=depends)
        assert bench.WaitEnd(job_id) == status
        if text:
            assert text in bench.Field(job_id, "opresult")[0][1][0]


def test_a_job_cannot_depend_on_itself(bench):
    before = bench.Submit("")
    job_id = bench.Submit("", depends=[[before + 1, []]])
    assert job_id == before + 1 and bench.WaitEnd(job_id) == "error"
    assert "itself" in bench.Field(job_id, "opresult")[0][1][0]


def test_a_canceled_dependency_cancels_unless_that_is_wanted(make):
    bench = make(settings=lambda: (1, {}))
    blocker = bench.Submit("gate a")
    first = bench.Submit("x")
    follows = bench.Submit("y", depends=[[first, ["success"]]])
    also = bench.Submit("y", depends=[[first, []]])
    wants = bench.Submit("z", depends=[[first, ["canceled"]]])
    chain = bench.Submit("z", depends=[[follows, []]])
    bench.queue.CancelJob(first).Result(30)
    bench.executor.Open("a")
    assert bench.WaitEnd(wants) == "success"
    for job_id in (follows, also, chain):
        assert bench.WaitEnd(job_id) == "canceled"
    assert "was canceled" in bench.Field(follows, "opresult")[0]
    assert {c for _, c in bench.executor.executed} == {"gate a", "z"}
    assert bench.WaitEnd(blocker) == "success"


def test_an_archived_dependency_counts(bench, archive):
    first = bench.Submit("x")
    bench.WaitEnd(first)
    assert bench.queue.ArchiveJob(first).Result(30) is True
    job_id = bench.Submit("y", depends=[[first, ["success"]]])
    assert bench.WaitEnd(job_id) == "success"


def test_a_job_that_ends_while_the_queue_closes_may_still_submit_jobs(bench):
    job_id = bench.Submit("gate a", "submit")
    bench.executor.WaitRunning(job_id)
    parent = bench.Submit("gatesubmit b")
    bench.executor.WaitRunning(parent)
    bench.queue.Close()
    bench.executor.Open("a")
    bench.executor.Open("b")
    assert bench.WaitEnd(parent) == "success"
    [[ok, child]] = bench.Field(parent, "opresult")[0]
    assert ok and bench.Status(child) == "queued"
    assert bench.queue.Shutdown(10) is True
    bench.Crash()
    assert bench.WaitEnd(child) == "success"
    assert bench.WaitEnd(job_id) == "success"


def test_a_job_may_submit_jobs(bench):
    job_id = bench.Submit("submit")
    assert bench.WaitEnd(job_id) == "success"
    [[ok, child]] = bench.Field(job_id, "opresult")[0]
    assert ok and bench.WaitEnd(child) == "success"


# --- archive ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """The archive's directory, where the exporter would put files."""
    monkeypatch.setattr(pathutils, "QUEUE_DIR", str(tmp_path / "queue"))
    monkeypatch.setattr(pathutils, "JOB_QUEUE_ARCHIVE_DIR", str(tmp_path / "queue/archive"))
    return tmp_path / "queue" / "archive"


@pytest.mark.req("D20-CALL-06", "D20-HIST-01")
def test_only_what_has_ended_goes_to_the_archive_and_can_still_be_read(bench, archive):
    running = bench.Submit("gate a")
    done = bench.Submit("x")
    bench.WaitEnd(done)
    bench.executor.WaitRunning(running)
    text = bench.rows[str(done)]
    assert bench.queue.ArchiveJob(running).Result(30) is False
    assert bench.queue.ArchiveJob(999).Result(30) is False
    assert bench.queue.ArchiveJob(done).Result(30) is True
    assert bench.queue.ArchiveJob(done).Result(30) is False
    assert str(done) not in bench.rows
    assert bench.store.Rows("archived") == {str(done): text}
    assert bench.queue.QueryJobs(None, ["id"]) == [[running]]
    assert bench.queue.QueryJobs(None, ["id", "archived"]) == [[running, False], [done, True]]
    assert bench.queue.QueryJobs([done], ["status", "archived"]) == [["success", True]]
    with pytest.raises(errors.JobLost):
        bench.queue.Wait(done, ["status"], None, None, 1)
    # Once every voter has the file the row goes.
    path = pathutils.ArchivedJobFile(done)
    os.makedirs(os.path.dirname(path))
    runtime.WriteFile(path, text)
    from ganeti.store import Row, Rows

    bench.store.Commit(Rows(Row("archived", str(done), None)))
    assert bench.queue.QueryJobs([done], ["status", "archived"]) == [["success", True]]
    (archive / "0" / "job-77").write_text("{broken")
    (archive / "0" / "other").write_text("x")
    (archive / "notes").write_text("x")
    assert bench.queue.QueryJobs(None, ["id", "archived"]) == [[running, False], [done, True]]
    assert bench.queue.QueryJobs([77], ["id", "status"]) == [[77, None]]
    bench.executor.Open("a")


@pytest.mark.req("D20-JOB-08")
def test_old_jobs_are_archived_together(bench, archive):
    ids = [bench.Submit("x") for _ in range(250)]
    running = bench.Submit("gate a")
    for job_id in ids:
        bench.WaitEnd(job_id)
    assert bench.queue.AutoArchive(3600, 10).Result(30) == [0, 0]
    assert bench.queue.AutoArchive(0, 0).Result(30) == [0, 251]
    old = bench.queue._live.Get(ids[0])
    old.published = old.draft = old.shown.Replace(old.shown.ops, end=(old.shown.end[0] - 7200, 0))
    assert bench.queue.AutoArchive(3600, 10).Result(30) == [1, 0]
    assert bench.store.Rows("archived").keys() == {str(ids[0])}
    assert bench.queue.AutoArchive(-1, 10).Result(30) == [249, 0]
    assert bench.queue.QueryJobs(None, ["id"]) == [[running]]
    assert sorted(map(int, bench.store.Rows("archived"))) == ids
    bench.executor.Open("a")


@pytest.mark.req("D20-HIST-02")
def test_archived_jobs_are_not_read_unless_asked_for(bench, archive, monkeypatch):
    ids = [bench.Submit("x") for _ in range(5)]
    for job_id in ids:
        bench.WaitEnd(job_id)
    bench.queue.AutoArchive(-1, 10).Result(30)
    read = []
    original = runtime.ReadFile
    monkeypatch.setattr(runtime, "ReadFile", lambda *a, **k: read.append(a) or original(*a, **k))
    bench.Crash()
    assert bench.queue.QueryJobs(None, ["id", "status"]) == []
    assert bench.WaitEnd(bench.Submit("")) == "success"
    assert not [path for path, *_ in read if re.search("job-", path)]


def test_classic_queries(bench):
    done = bench.Submit("x")
    bench.WaitEnd(done)
    assert bench.queue.QueryJobs([999, done, 999], ["id", "status"]) == [[999, None], [done, "success"]]
    assert bench.queue.QueryJobs([], ["id"]) == [[done]]
    with pytest.raises(errors.OpPrereqError, match="nam"):
        bench.queue.QueryJobs(None, ["id", "nam"])


# --- restart ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-JOB-09", "D20-JOB-12")
def test_after_a_crash_queued_and_waiting_jobs_go_on_and_running_ones_are_errors(make, caplog):
    bench = make(settings=lambda: (4, {}))
    done = bench.Submit("x")
    bench.WaitEnd(done)
    running = bench.Submit("one", "gate a", "three")
    waits = bench.Submit("waits b")
    canceling = bench.Submit("waits c")
    for name in "abc":
        bench.executor.WaitGate(name)
    bench.WaitStatus(waits, "waiting")
    bench.WaitStatus(canceling, "waiting")
    bench.queue.CancelJob(canceling)
    bench.WaitStatus(canceling, "canceling")
    filler = bench.Submit("gate f")
    bench.executor.WaitRunning(running, filler)
    queued = bench.Submit("x", depends=[[waits, ["success"]]])
    old = bench.executor
    rows = bench.rows
    bench.Crash()
    cut_off = f"running end as errors: [{running}, {canceling}, {filler}]"
    assert any(record.message.endswith(cut_off) for record in caplog.records)
    bench.executor.Open("b")
    assert bench.WaitEnd(waits) == "success"
    assert bench.WaitEnd(queued) == "success"
    unclean = ["OpExecError", ["Unclean master daemon shutdown"]]
    assert bench.Status(running) == bench.Status(canceling) == bench.Status(filler) == "error"
    assert bench.Field(running, "opresult") == ["one", unclean, unclean]
    assert bench.Field(running, "end_ts") is not None
    assert {c for _, c in bench.executor.executed} == {"waits b", "x"}
    assert bench.rows[str(done)] == rows[str(done)]
    assert bench.Submit("") > filler
    for name in "abcf":
        old.Open(name)


def test_a_partly_finished_job_goes_on_with_its_next_opcode(make):
    bench = make(settings=lambda: (2, {}))
    job_id = bench.Submit("one", "waits b", "three")
    bench.executor.WaitGate("b")
    bench.WaitStatus(job_id, "waiting")
    old = bench.executor
    bench.Crash()
    old.Open("b")
    bench.executor.Open("b")
    assert bench.WaitEnd(job_id) == "success"
    assert [c for _, c in bench.executor.executed] == ["waits b", "three"]


def test_a_job_that_cannot_be_read_is_left_alone_and_the_others_work(bench):
    from ganeti.store import Row, Rows

    bench.store.Commit(Rows(Row("job", "500", "{broken"), Row("job", "501", '{"id": 7, "ops": []}')))
    bench.Crash()
    assert bench.queue.QueryJobs(None, ["id"]) == []
    assert bench.WaitEnd(bench.Submit("")) == "success"
    assert bench.rows["500"] == "{broken"


# --- end --------------------------------------------------------------------------------------------------------------


def test_a_graceful_stop_waits_for_what_runs_and_requeues_what_waits(make):
    bench = make(settings=lambda: (2, {}))
    running = bench.Submit("gate a")
    waits = bench.Submit("waits b")
    queued = bench.Submit("x")
    bench.executor.WaitRunning(running)
    bench.executor.WaitGate("b")
    bench.WaitStatus(waits, "waiting")
    watching = bench.queue.Wait(queued, ["status"], ["queued"], None, 60)
    assert bench.queue.Shutdown(0.2) is False  # refused, and open again
    assert bench.Submit("y") > queued
    bench.queue.Close()
    with pytest.raises(errors.JobQueueError, match="shutting down"):
        bench.Submit("z")
    assert bench.queue.RunningJobs() == [running, waits]
    bench.executor.Open("a")
    bench.executor.Open("b")
    assert bench.queue.Shutdown(10) is True
    assert watching.Result(30) == [["queued"], []]
    rows = {int(n): serializer.Load(text)["ops"][0]["status"] for n, text in bench.rows.items()}
    assert (rows[running], rows[waits], rows[queued]) == ("success", "queued", "queued")
    bench.Crash()
    bench.executor.Open("b")
    assert bench.WaitEnd(waits) == bench.WaitEnd(queued) == "success"


def test_without_a_quorum_jobs_wait_and_submissions_are_told_what_is_known(make):
    bench = make(voters=3)
    job_id = bench.Submit("gate a")
    bench.executor.WaitRunning(job_id)
    bench.cluster[1].up = bench.cluster[2].up = False
    unsure = bench.queue.SubmitJob([Op(comment="unsure")])
    with pytest.raises(errors.GenericError, match=rf"Job {job_id + 1}.*stored on 1 of 3.*may get the number"):
        unsure.Result(20)
    from ganeti.store import NoQuorum

    with pytest.raises(NoQuorum):
        bench.queue.SubmitJob([Op()]).Result(20)
    bench.executor.Open("a")
    assert bench.Status(job_id) == "running"  # its end is not acknowledged yet
    bench.cluster[1].up = True
    assert bench.WaitEnd(job_id) == "success"
    assert bench.WaitEnd(job_id + 1) == "success"


# --- locks of the queue -----------------------------------------------------------------------------------------------


@pytest.mark.req("D22-JQ-04")
def test_whoever_only_reads_waits_for_no_lock_of_the_queue(bench):
    running, done = bench.Submit("gate a"), bench.Submit("log 3")
    bench.executor.WaitRunning(running)
    bench.WaitEnd(done)
    queue, answers = bench.queue, []

    def read() -> None:
        answers.append(
            (
                queue.QueryJobs(None, ["id", "status", "oplog", "summary"]),
                queue.QueryJobs([running], ["status", "opstart"]),
                [view.FieldValue("status") for view in queue.Views(None, False)],
                queue.StatusOf(done),
                queue.Wait(running, ["status"], ["queued"], None, 60).Result(0),
                queue.drained,
                queue.last_id,
            )
        )

    readers = [runtime.Thread(read, f"read-{n}") for n in range(8)]
    locks = [*(entry.lock for entry in queue._live.Read()), queue._scheduler._lock, queue._submitter._id_lock]
    with contextlib.ExitStack() as held:
        for lock in locks:
            held.enter_context(lock)
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(20)
        assert len(answers) == 8 and all(answer == answers[0] for answer in answers)
    assert answers[0][2:4] == (["running", "success"], "success")
    bench.executor.Open("a")


@pytest.mark.req("D22-JQ-01", "D22-JQ-02")
def test_what_happens_to_one_job_holds_up_no_other(bench):
    stuck = bench.Submit("gate a")
    bench.executor.WaitRunning(stuck)
    entry = bench.queue._live.Get(stuck)
    with entry.lock:
        other = bench.Submit("log 5")
        assert bench.WaitEnd(other) == "success"
        assert bench.queue.QueryJobs(None, ["id", "status", "oplog"])[0][:2] == [stuck, "running"]
        waiting = bench.Submit("waits b")
        bench.executor.WaitGate("b")
        bench.WaitStatus(waiting, "waiting")
        canceled = bench.queue.CancelJob(waiting)
        bench.WaitStatus(waiting, "canceling")
        assert bench.queue.ArchiveJob(other).Result(30) is True
        bench.executor.Open("b")
        assert canceled.Result(10) == [True, f"Job {waiting} canceled"]
    bench.executor.Open("a")
    assert bench.WaitEnd(stuck) == "success"


@pytest.mark.req("D22-JQ-05", "D22-JQ-06", "D22-JQ-09")
def test_a_slow_node_stalls_no_client(make):
    bench = make(voters=3)
    job_id = bench.Submit("gate a")
    bench.executor.WaitRunning(job_id)
    slow = runtime.Event()
    for node in (bench.cluster[1], bench.cluster[2]):
        node.fault = lambda path, body: slow.wait(30) and None
    began = runtime.Monotonic()
    submitted = bench.queue.SubmitJob([Op()])
    bench.executor.Open("a")
    waiting = bench.queue.Wait(job_id, ["status"], ["running"], None, 60)
    assert bench.queue.QueryJobs([job_id], ["status"]) == [["running"]]
    assert bench.queue.QueryJobs(None, ["id", "summary"])
    assert runtime.Monotonic() - began < 10
    assert not submitted.done and not waiting.done
    slow.set()
    assert waiting.Result(10) == [["success"], []]
    assert bench.WaitEnd(submitted.Result(10)) == "success"


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_a_job_never_grows_too_large_for_its_row(bench, monkeypatch):
    monkeypatch.setattr(entry_module, "MAX_LOG", 2000)
    monkeypatch.setattr(entry_module, "MAX_RESULTS", 3000)
    monkeypatch.setattr(submit, "MAX_INPUT", 7000)
    answer = bench.queue.SubmitManyJobs([[Op(comment="x" * 8000)], [Op()]]).Result(30)
    assert answer[0] == [False, "Job rejected: its opcodes take 8734 bytes, 7000 are allowed"]
    assert bench.WaitEnd(answer[1][1]) == "success"
    long = bench.Submit("a" * 2000, "b" * 2000, "c")
    assert bench.WaitEnd(long) == "error"
    results = bench.Field(long, "opresult")
    assert results[0] == "a" * 2000
    assert results[1][0] == "OpResultError" and "was carried out" in results[1][1][0]
    chatty = bench.Submit("log 500")
    assert bench.WaitEnd(chatty) == "success"
    log = bench.Field(chatty, "oplog")[0]
    assert 10 < len(log) < 100
    assert log[-1][3] == "The log is full, no more is kept"
    assert [e[0] for e in log] == list(range(1, len(log) + 1))


def test_a_job_may_be_as_large_as_the_limit(bench, monkeypatch):
    [[accepted, job_id]] = bench.queue.SubmitManyJobs([[Op(comment="log 0")]]).Result(30)
    assert accepted
    size = entry_module.InputSize(bench.queue.Views([job_id], False)[0].job)
    for limit, expected in ((size, True), (size - 1, False)):
        monkeypatch.setattr(submit, "MAX_INPUT", limit)
        [[accepted, _]] = bench.queue.SubmitManyJobs([[Op(comment="log 0")]]).Result(30)
        assert accepted is expected


def test_many_jobs_are_stored_in_portions(bench, monkeypatch):
    monkeypatch.setattr(submit, "SUBMIT_GROUP", 7)
    answer = bench.queue.SubmitManyJobs(
        [[Op(comment=f"{n}", depends=[[-1, ["success"]]] if n else None)] for n in range(50)]
    ).Result(20)
    assert [ok for ok, _ in answer] == [True] * 50
    ids = [job_id for _, job_id in answer]
    assert ids == list(range(ids[0], ids[0] + 50))
    assert bench.WaitEnd(ids[-1]) == "success"
    assert [int(comment) for _, comment in bench.executor.executed] == list(range(50))


# --- urgent jobs ---------------------------------------------------------------------------------------------------------


def _Urgent(comment: str) -> dict[str, object]:
    return {"OP_ID": "OP_INSTANCE_SETTLE_MIRRORS", "instance_name": "web", "comment": comment}


def test_an_urgent_job_waits_neither_for_other_jobs_nor_for_a_drained_queue(make):
    bench = make(settings=lambda: (1, {}))
    busy = bench.Submit("gate end")
    bench.executor.WaitRunning(busy)
    waiting = bench.Submit("x")
    bench.queue.SetDrainFlag(True).Result(10)
    urgent = bench.queue.SubmitJob([_Urgent("y")], to_drained=True).Result(10)
    assert bench.WaitEnd(urgent) == "success"
    assert (bench.Status(busy), bench.Status(waiting)) == ("running", "queued")
    bench.executor.Open("end")
    assert bench.WaitEnd(waiting) == "success"


def test_urgent_jobs_take_no_place_of_others(make):
    bench = make(settings=lambda: (1, {}))
    urgent = bench.queue.SubmitJob([_Urgent("gate end")]).Result(10)
    bench.executor.WaitRunning(urgent)
    assert bench.WaitEnd(bench.Submit("x")) == "success"
    bench.executor.Open("end")
    assert bench.WaitEnd(urgent) == "success"


def test_an_urgent_job_goes_on_after_a_crash(make):
    bench = make()
    urgent = bench.queue.SubmitJob([_Urgent("waits go")]).Result(10)
    bench.WaitStatus(urgent, "waiting")
    bench.Crash()
    bench.executor.Open("go")
    assert bench.WaitEnd(urgent) == "success"
