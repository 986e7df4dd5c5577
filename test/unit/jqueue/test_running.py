"""How many jobs run, what changes while they do, and since when each waits and works."""

from __future__ import annotations

from ganeti import serializer


def test_a_raised_limit_counts_for_jobs_that_wait(make):
    limits = [2]
    bench = make(settings=lambda: (limits[0], {}))
    limits[0] = 1
    bench.queue.Reconsider()
    first, second = bench.Submit("gate a"), bench.Submit("gate b")
    bench.executor.WaitRunning(first)
    assert bench.Status(second) == "queued"
    limits[0] = 2
    bench.queue.ReconsiderSoon(lambda: None)
    bench.executor.WaitRunning(first, second)
    for name in "ab":
        bench.executor.Open(name)
    assert {bench.WaitEnd(job_id) for job_id in (first, second)} == {"success"}


def test_a_lowered_limit_counts_though_more_workers_are_there(make):
    limits = [3]
    bench = make(settings=lambda: (limits[0], {}))
    limits[0] = 1
    bench.queue.Reconsider()
    for job_id in [bench.Submit("sleep 0.02") for _ in range(8)]:
        assert bench.WaitEnd(job_id) == "success"
    assert bench.executor.most_running == 1


def test_the_priority_of_what_follows_can_be_changed_while_a_job_runs(make, caplog):
    bench = make(settings=lambda: (1, {}))
    running = bench.Submit("gate a", "second")
    bench.executor.WaitRunning(running)
    other = bench.Submit("other", priority=-10)
    assert bench.queue.ChangePriority(running, -20).Result(30)[0] is True
    assert bench.Field(running, "oppriority") == [0, -20] and bench.Field(running, "priority") == -20
    bench.executor.Open("a")
    bench.WaitEnd(other)
    assert [comment for _, comment in bench.executor.executed] == ["gate a", "second", "other"]
    assert "could not be shown" not in caplog.text


def test_after_a_stop_nobody_waits_for_news(bench):
    job_id = bench.Submit("gate a")
    bench.executor.WaitRunning(job_id)
    bench.queue.Stop()
    assert bench.queue.Wait(job_id, ["status"], ["running"], 1 << 60, 80).Result(20) == [["running"], []]
    bench.executor.Open("a")


def test_an_opcode_shows_since_when_it_waits_works_and_has_ended(bench):
    job_id = bench.Submit("waits g", "gate h")
    assert bench.WaitStatus(job_id, "waiting") == "waiting"
    began, later = bench.Field(job_id, "opstart")
    assert began == bench.Field(job_id, "start_ts") >= bench.Field(job_id, "received_ts")
    assert later is None and bench.Field(job_id, "opexec") == bench.Field(job_id, "opend") == [None, None]
    bench.executor.Open("g")
    with bench.executor.changed:
        assert bench.executor.changed.wait_for(lambda: len(bench.executor.executed) == 2, 20)
    first, second = bench.Field(job_id, "opstart")
    assert first == began, "it has waited since then"
    assert began < bench.Field(job_id, "opexec")[0] <= bench.Field(job_id, "opend")[0] <= second
    assert second <= bench.Field(job_id, "opexec")[1]
    assert bench.Field(job_id, "opend")[1] is None
    bench.executor.Open("h")
    bench.WaitEnd(job_id)
    assert bench.Field(job_id, "opstart") == [first, second]
    assert bench.Field(job_id, "start_ts") == began and bench.Field(job_id, "end_ts") >= bench.Field(job_id, "opend")[1]


def test_a_wait_for_locks_begins_with_the_first_try(bench):
    seen = []
    bench.store.Listen(lambda position, rows: seen.extend(serializer.Load(r.value) for r in rows if r.kind == "job"))
    job_id = bench.Submit("locks 3")
    bench.WaitEnd(job_id)
    shown = [(op["status"], op["start_timestamp"]) for job in seen for op in job["ops"]]
    assert {status for status, _ in shown} == {"queued", "waiting", "running", "success"}
    starts = [start for status, start in shown if status != "queued"]
    assert len(starts) >= 3 and starts == [bench.Field(job_id, "opstart")[0]] * len(starts)


def test_a_job_that_waited_under_the_last_master_daemon_waits_anew(bench):
    job_id = bench.Submit("waits g")
    bench.WaitStatus(job_id, "waiting")
    before = bench.Field(job_id, "opstart")[0]
    bench.Crash()
    bench.executor.Open("g")
    assert bench.WaitEnd(job_id) == "success"
    assert before < bench.Field(job_id, "opstart")[0] <= bench.Field(job_id, "opexec")[0]


def test_an_opcode_that_fails_keeps_the_times_of_its_wait_and_its_work(bench):
    late = bench.Submit("waits g", "never")
    bench.WaitStatus(late, "waiting")
    began = bench.Field(late, "opstart")[0]
    failing = bench.Submit("fail no disk", "never")
    assert bench.WaitEnd(failing) == "error"
    start, execution, end = (bench.Field(failing, name) for name in ("opstart", "opexec", "opend"))
    assert start[0] <= execution[0] <= end[0] == end[1]
    assert start[1] is None and execution[1] is None, "it was never begun"
    bench.executor.Open("g")
    bench.WaitEnd(late)
    assert bench.Field(late, "opstart")[0] == began
