"""WaitForJobChange as a subscription (Q7)."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import World
from support.actors import Until

from ganeti import errors, runtime, serializer
from ganeti.jqueue import job as jobs
from ganeti.jqueue import watch
from ganeti.jqueue.entry import Entry
from ganeti.jqueue.ticker import Ticker


@pytest.mark.req("D20-CALL-03", "D20-JOB-05", "D20-STAT-02")
def test_every_change_and_every_message_is_seen_once_and_in_order(bench):
    job_id = bench.Submit("log 30", "waits g", "log 20")
    statuses, log = Follow(bench, job_id, lambda: bench.executor.Open("g"))
    assert statuses[-1] == "success"
    assert "waiting" in statuses
    assert [entry[0] for entry in log] == list(range(1, 51))
    assert [entry[3] for entry in log] == [f"message {n}" for n in [*range(30), *range(20)]]
    assert [e for op in bench.Field(job_id, "oplog") for e in op] == log


def Follow(bench, job_id, on_waiting=lambda: None):
    """What a client does: call, remember, call again, until the job is final and no message came with it."""
    info, serial = None, None
    statuses, log = [], []
    while True:
        values, entries = serializer.Load(
            serializer.Dump(bench.queue.Wait(job_id, ["status"], info, serial, 20).Result(30))
        )
        assert all(serial is None or e[0] > serial for e in entries)
        if values != info:
            statuses.append(values[0])
        log += entries
        if values == ["waiting"]:
            on_waiting()
        if values[0] in ("success", "error", "canceled") and not entries:
            return statuses, log
        info = values
        serial = max([e[0] for e in entries], default=serial)


@given(st.lists(st.sampled_from(["", "log 1", "log 7", "fail", "locks 1"]), min_size=1, max_size=4), st.integers(1, 3))
@settings(max_examples=40)
def test_followers_see_the_whole_log_and_the_end(shared_bench, comments, followers):
    job_id = shared_bench.Submit(*comments)
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append(Follow(shared_bench, job_id)), daemon=True)
        for _ in range(followers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(seen) == followers
    whole = [e for op in shared_bench.Field(job_id, "oplog") for e in op]
    for statuses, log in seen:
        assert log == whole
        assert statuses[-1] == shared_bench.Status(job_id)
        assert [e[0] for e in log] == list(range(1, len(log) + 1))


@pytest.fixture(scope="module")
def shared_bench(tmp_path_factory):
    from support.queues import Bench

    made = Bench(str(tmp_path_factory.mktemp("shared")))
    yield made
    made.Close()


@pytest.mark.req("D22-MD-09", "D22-WAIT-07", "D20-LUXI-07")
def test_at_the_time_out_the_unchanged_values_come(bench):
    job_id = bench.Submit("gate a")
    bench.executor.WaitRunning(job_id)
    start = runtime.Monotonic()
    assert bench.queue.Wait(job_id, ["status", "id"], ["running", job_id], None, 0.3).Result(30) == [
        ["running", job_id],
        [],
    ]
    assert 0.25 < runtime.Monotonic() - start < 20
    assert bench.queue.Wait(job_id, ["status"], ["running"], None, 0).Result(0) == [["running"], []]
    bench.executor.Open("a")
    bench.WaitEnd(job_id)
    assert bench.queue.Wait(job_id, ["status"], ["success"], 99, 60).Result(0) == [["success"], []]


def test_who_waits_for_what_is_not_there_is_told(bench, monkeypatch):
    with pytest.raises(errors.JobLost):
        bench.queue.Wait(12, ["status"], None, None, 60)
    job_id = bench.Submit("gate a")
    assert bench.queue.Wait(job_id, ["no_such", "status_x"], None, None, 60).Result(30)[0] == [None, None]
    bench.executor.Open("a")


class _Known(list):
    """What a client knows, and how often somebody compared it with what there is."""

    looks = 0

    def __eq__(self, other):
        self.looks += 1
        return list(self) == other

    __hash__ = None


@pytest.mark.req("D22-WAIT-01", "D22-WAIT-05")
def test_waiting_costs_no_thread_and_a_change_wakes_the_waiters_of_its_job_only(bench):
    ids = [bench.Submit(f"gate {n}") for n in range(3)]
    bench.executor.WaitRunning(*ids)
    before = threading.active_count()
    known = {n: _Known(["running"]) for n in ids}
    waits = {n: [bench.queue.Wait(n, ["status"], known[n], 0, 60) for _ in range(100)] for n in ids}
    assert threading.active_count() <= before, "threads of other tests may end meanwhile"
    looks = {n: known[n].looks for n in ids}
    bench.executor.Open("1")
    for pending in waits[ids[1]]:
        assert pending.Result(10) == [["success"], []]
    for n in (ids[0], ids[2]):
        assert not any(pending.done for pending in waits[n])
        assert known[n].looks == looks[n], "nobody looked at what did not change"
    bench.executor.Open("0")
    bench.executor.Open("2")
    for n in ids:
        for pending in waits[n]:
            pending.Result(10)


def test_who_is_gone_is_forgotten(bench):
    job_id = bench.Submit("gate a")
    bench.executor.WaitRunning(job_id)
    entry = bench.queue._live.Get(job_id)
    pending = bench.queue.Wait(job_id, ["status"], ["running"], None, 60)
    assert len(entry.watches) == 1
    pending.Abandon()
    assert entry.watches == []
    bench.executor.Open("a")


@pytest.mark.req("D22-WAIT-03", "D22-WAIT-04")
def test_answers_are_made_on_the_queues_own_thread(bench):
    job_id = bench.Submit("gate a")
    bench.executor.WaitRunning(job_id)
    names = []
    done = threading.Event()
    pending = bench.queue.Wait(job_id, ["status"], ["running"], None, 60)
    pending.Then(lambda _: (names.append(runtime.ThreadName()), done.set()))
    bench.executor.Open("a")
    assert done.wait(10)
    assert names == ["JqTicker"]


@pytest.mark.req("D22-WAIT-08")
def test_many_messages_are_told_together_but_the_end_at_once(bench, monkeypatch):
    monkeypatch.setattr(watch, "HOLD_BACK", 0.2)
    job_id = bench.Submit("log 500")
    info, serial, calls = None, None, 0
    began = runtime.Monotonic()
    while info != ["success"]:
        values, entries = bench.queue.Wait(job_id, ["status"], info, serial, 20).Result(30)
        info, serial = values, max([e[0] for e in entries], default=serial)
        calls += 1
    assert calls < 8 + (runtime.Monotonic() - began) / watch.HOLD_BACK
    assert serial == 500


@pytest.mark.req("D22-WAIT-08")
def test_what_comes_too_fast_is_held_back(bench):
    """The second answer about a job leaves some time after the first, whenever there was something to say."""
    job_id = bench.Submit("gate a", "log 1", "gate b", "log 1", "gate c")
    bench.executor.WaitRunning(job_id)
    entry = bench.queue._live.Get(job_id)
    answered = []
    for serial, gate in ((0, "a"), (1, "b")):
        pending = bench.queue.Wait(job_id, ["id"], [job_id], serial, 60)
        pending.Then(lambda _: answered.append(runtime.Monotonic()))
        bench.executor.Open(gate)
        assert [line[0] for line in pending.Result(20)[1]] == [serial + 1]
        Until(lambda: entry.delivered_at >= answered[-1])
    bench.executor.Open("c")
    assert answered[1] - answered[0] >= watch.HOLD_BACK


@pytest.mark.req("D20-JOB-15")
def test_messages_reach_the_store_within_half_a_second_without_a_state_change(bench):
    job_id = bench.queue.SubmitJob(
        [{"OP_ID": "OP_TEST_DELAY", "duration": 0, "comment": "logs g", "reason": []}]
    ).Result(30)
    bench.executor.WaitRunning(job_id)
    deadline = runtime.Monotonic() + 30
    while "first words" not in bench.rows[str(job_id)]:
        assert runtime.Monotonic() < deadline
        runtime.Sleep(0.02)
    assert bench.Status(job_id) == "running"
    bench.executor.Open("g")
    bench.WaitEnd(job_id)
    bench.Crash()
    log = bench.Field(job_id, "oplog")[0]
    assert [e[2:] for e in log] == [
        ["message", "first words"],
        ["message", "two"],
        ["message", "three"],
        ["delay-test", ["/path"]],
        ["message", "<strange>"],
    ]
    assert [e[0] for e in log] == [1, 2, 3, 4, 5]


def test_a_change_between_the_look_and_the_subscription_is_not_missed():
    """Played in all orders of the threads: whoever subscribes too late for the news looks again."""
    op = jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"}))
    for seed in range(150):
        with World(seed, switch=0.5) as world:

            def story() -> float:
                ticker = Ticker("ticker")
                ticker.Start()
                watcher = watch.Watcher(ticker)
                job = jobs.Job(1, [op], (1, 0))
                entry = Entry(job, [jobs.OpLog()], published=job)

                def change() -> None:
                    runtime.Monotonic()  # steps in which the other thread may go on
                    runtime.Monotonic()
                    entry.published = entry.draft = jobs.MarkWaiting(job, 0, (2, 0))
                    watcher.Changed(entry)

                thread = runtime.Thread(change, "change")
                began = runtime.Monotonic()
                thread.start()
                answer = watcher.Wait(entry, ["status"], ["queued"], None, 60).Result(100)
                assert answer == [["waiting"], []]
                return runtime.Monotonic() - began

            assert world.AddMachine("node1").Call(story) < 5.0, f"seed {seed}: only the time-out brought the news"


@pytest.mark.req("D22-WAIT-06")
def test_an_update_is_handed_over_without_the_jobs_lock_and_does_not_change_any_more(bench):
    job_id = bench.Submit("gate g", "log 3")
    bench.executor.WaitRunning(job_id)
    entry = bench.queue._live.Get(job_id)
    seen = []
    done = threading.Event()

    def take(pending):
        free = entry.lock.acquire(timeout=5)  # a worker may have it for a moment, this thread may not
        if free:
            entry.lock.release()
        seen.append((free, pending.value))
        done.set()

    pending = bench.queue.Wait(job_id, ["id"], [job_id], None, 60)
    assert not pending.done
    pending.Then(take)
    bench.executor.Open("g")
    assert done.wait(20)
    [(free, update)] = seen
    assert free
    before = serializer.Dump(update)
    assert bench.WaitEnd(job_id) == "success"
    entry.published = jobs.MarkError(jobs.Job(job_id, [jobs.OpState(jobs.OpInput({}))], None), 0, "other")
    for log in entry.logs:
        log.entries.clear()
    assert serializer.Dump(update) == before and update[1]


@pytest.mark.req("D20-CALL-03")
def test_a_message_alone_is_a_change(bench):
    job_id = bench.Submit("logs g")
    bench.executor.WaitGate("g")
    values, log = bench.queue.Wait(job_id, ["status"], ["running"], 2, 60).Result(20)
    assert values == ["running"] and [entry[0] for entry in log] == [3, 4, 5]
    nothing = bench.queue.Wait(job_id, ["status"], ["running"], 5, 60)
    bench.executor.Open("g")
    assert nothing.Result(20) == [["success"], []]  # it came with the end, not with a message it has seen


def test_nothing_is_added_to_the_log_of_a_job_that_has_ended(bench):
    job_id = bench.Submit("log 2")
    bench.WaitEnd(job_id)
    entry = bench.queue._live.Get(job_id)
    entry.AddLog(0, "message", "too late")
    assert [each[3] for each in entry.LogAfter(None)] == ["message 0", "message 1"]
    assert "too late" not in bench.rows[str(job_id)]


def _Play(story):
    with World(1) as world:
        return world.AddMachine("node1").Call(story)


def test_news_that_follow_an_answer_closely_wait_a_moment_and_those_that_do_not_come_at_once():
    op = jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"}))

    def story() -> list[float]:
        ticker = Ticker("ticker")
        ticker.Start()
        watcher = watch.Watcher(ticker)
        job = jobs.Job(1, [op], (1, 0))
        entry = Entry(job, [jobs.OpLog()], published=job)
        took = []

        def ask(text: str) -> None:
            pending = watcher.Wait(entry, ["status"], ["queued"], entry._serial, 60)
            assert not pending.done
            began = runtime.Monotonic()
            entry.AddLog(0, "message", text)
            watcher.Changed(entry)
            assert pending.Result(100)[1][0][3] == text
            took.append(round(runtime.Monotonic() - began, 2))

        ask("at once")
        ask("after a moment")
        runtime.Sleep(10)
        ask("at once again")
        # Looks that find nothing new do not put off what comes then.
        runtime.Sleep(10)
        idle = watcher.Wait(entry, ["status"], ["queued"], entry._serial, 60)
        watcher.Changed(entry)
        runtime.Sleep(0.01)
        assert not idle.done
        ask("still at once")
        return took

    assert _Play(story) == [0.0, watch.HOLD_BACK, 0.0, 0.0]


def test_when_the_queue_stops_all_are_answered_and_forgotten():
    op = jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"}))

    def story() -> float:
        ticker = Ticker("ticker")
        ticker.Start()
        watcher = watch.Watcher(ticker)
        job = jobs.Job(1, [op], (1, 0))
        entry = Entry(job, [jobs.OpLog()], published=job)
        waiting = [watcher.Wait(entry, ["status"], ["queued"], None, 60) for _ in range(3)]
        timers = [each.timer for each in entry.watches]
        watcher.EndAll(entry)
        assert [pending.Result(0) for pending in waiting] == [[["queued"], []]] * 3
        assert entry.watches == [] and all(timer.call is None for timer in timers)
        return runtime.Monotonic()

    assert _Play(story) is not None
