"""Canceling jobs: at once, many in one step, and never one that executes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from simulated import World
from support.queues import Executor

from ganeti import errors, locking, runtime
from ganeti.jqueue import JobQueue, attempts, cancel, worker
from ganeti.jqueue import job as jobs
from ganeti.jqueue.entry import BeginExecution, CancelJob, Entry
from ganeti.store import Change, Store, StoreError


class Locked(Executor):
    """Opcodes with real locks: ``lock NAME [WORDS]`` owns a lock while it does what the other words say.

    ``late NAME``: its first try for locks ends without them when the gate opens.  ``blind NAME``: fails when the gate
    opens, without a look at what became of its job.
    """

    def __init__(self) -> None:
        super().__init__()
        self.glm = locking.LockManager([], [], ["a", "b"], [])
        self.acquiring = 0

    def EndWaits(self, job_id: int) -> None:
        self.glm.EndWaits(str(job_id))

    def __call__(self, op: Any, ec_id: int, cbs: Any, timeout: float | None, priority: int) -> Any:
        words = (op.comment or "").split()
        if words[:1] == ["late"]:
            cbs.CurrentPriority()
            first = (ec_id, op.comment) not in self._tries
            self._tries[ec_id, op.comment] = 1
            if first:
                self._Gate(words[1])
                raise errors.LockAcquireTimeout("no locks")
        if words[:1] == ["blind"]:
            with self.changed:
                self.seen.append(op)
                self.changed.notify_all()
            self._Gate(words[1])
            raise errors.OpPrereqError("no such instance", errors.ECODE_NOENT)
        if words[:1] != ["lock"]:
            return super().__call__(op, ec_id, cbs, timeout, priority)
        self.glm.SetOwnerName(str(ec_id))
        try:
            assert self.glm.acquire(locking.LEVEL_CLUSTER, locking.BGL, timeout, 1, cbs.CurrentPriority())
            if self.glm.acquire(locking.LEVEL_INSTANCE, words[1], timeout, 0, cbs.CurrentPriority()) is None:
                raise errors.LockAcquireTimeout("no locks")
            op.comment = " ".join(words[2:])
            return super().__call__(op, ec_id, cbs, timeout, priority)
        finally:
            for level in (locking.LEVEL_INSTANCE, locking.LEVEL_CLUSTER):
                if self.glm.is_owned(level):
                    self.glm.release(level)
            self.glm.SetOwnerName(None)

    def WaitPending(self, name: str, number: int) -> None:
        """Wait until so many jobs wait for a lock."""
        deadline = runtime.Monotonic() + 30
        while sum(len(names) for _, names in self._Row(name).pending) < number:
            assert runtime.Monotonic() < deadline
            runtime.Sleep(0.005)

    def _Row(self, name: str) -> locking.LockRow:
        return next(row for row in self.glm.QueryLocks() if row.name == f"instance/{name}")


@pytest.fixture
def locked(make, monkeypatch):
    """Workers whose tries for locks take minutes."""

    def build(workers: int, series: tuple[float, ...] = (300.0,) * 10):
        monkeypatch.setattr(attempts, "SERIES", series)
        bench = make(
            executor=Locked, settings=lambda: (workers, {}), end_waits=lambda job_id: bench.executor.EndWaits(job_id)
        )
        return bench

    return build


@pytest.mark.parametrize("series", [(300.0,) * 10, ()], ids=["with a time-out", "without"])
def test_a_job_that_waits_for_locks_is_canceled_at_once(locked, series):
    bench = locked(3, series)
    holder = bench.Submit("lock a gate g")
    bench.executor.WaitRunning(holder)
    waiting = bench.Submit("lock a", "next", priority=-10)
    behind = bench.Submit("lock a")
    bench.executor.WaitPending("a", 2)
    bench.WaitStatus(waiting, "waiting")
    assert bench.queue.CancelJob(waiting).Result(20) == [True, f"Job {waiting} canceled"]
    assert bench.Field(waiting, "opstatus") == ["canceled"] * 2
    bench.executor.WaitPending("a", 1)
    bench.executor.Open("g")
    assert bench.WaitEnd(behind) == "success"
    assert [n for n, _ in bench.executor.executed] == [holder, behind]
    assert bench.WaitEnd(bench.Submit("lock a")) == "success"  # its worker waits for locks as before


def test_of_many_canceled_jobs_none_runs_meanwhile(locked):
    bench = locked(3)
    holder = bench.Submit("lock a gate g")
    bench.executor.WaitRunning(holder)
    waiting = [bench.Submit("lock a") for _ in range(2)]
    bench.executor.WaitPending("a", 2)
    for job_id in waiting:
        bench.WaitStatus(job_id, "waiting")
    queued = [bench.Submit("x") for _ in range(40)]
    answers = bench.queue.CancelManyJobs([holder, *waiting, *queued, 999]).Result(20)
    assert [ok for ok, _ in answers] == [False] + [True] * 42 + [False]
    assert [text for _, text in answers] == [
        f"Job {holder} is no longer waiting in the queue",
        *(f"Job {n} canceled" for n in (*waiting, *queued)),
        "Job 999 not found",
    ]
    assert {bench.Status(n) for n in (*waiting, *queued)} == {"canceled"}
    bench.executor.Open("g")
    assert bench.WaitEnd(holder) == "success"
    assert [n for n, _ in bench.executor.executed] == [holder]
    assert bench.queue.CancelManyJobs([]).Result(30) == []


class OneByOne:
    """A store that makes each change of jobs durable before it takes the next one from ``caller``, and what follows too."""

    def __init__(self, store: Store):
        self._store = store
        self.caller: object = None
        self.settle: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def Begin(self, change: Change, done: Callable[[Exception | None], None], patient: bool = False) -> None:
        ended = runtime.Event()

        def end(error: Exception | None) -> None:
            done(error)
            ended.set()

        self._store.Begin(change, end, patient)
        if self.caller is threading.current_thread():
            assert ended.wait(20)
            self.settle()


def test_what_a_canceled_job_gives_back_starts_none_that_is_to_be_canceled_too(make, monkeypatch):
    """However long it takes to cancel the others: they are canceled before the one that holds something."""
    monkeypatch.setattr(attempts, "SERIES", (300.0,) * 10)
    bench = make(
        executor=Locked,
        settings=lambda: (2, {}),
        end_waits=lambda job_id: bench.executor.EndWaits(job_id),
        store_class=OneByOne,
    )
    holder = bench.Submit("lock a gate g")
    bench.executor.WaitRunning(holder)
    waiting = bench.Submit("lock a")
    bench.executor.WaitPending("a", 1)
    bench.WaitStatus(waiting, "waiting")
    queued = bench.Submit("gate h")

    def settle() -> None:
        """The worker of a canceled job takes the next one."""
        deadline = runtime.Monotonic() + 20
        wanted = {"canceled", "running"}
        while bench.Status(waiting) != "waiting" and not {bench.Status(waiting), bench.Status(queued)} <= wanted:
            assert runtime.Monotonic() < deadline
            runtime.Sleep(0.005)

    bench.store.caller, bench.store.settle = threading.current_thread(), settle
    assert bench.queue.CancelManyJobs([waiting, queued]).Result(20) == [
        [True, f"Job {waiting} canceled"],
        [True, f"Job {queued} canceled"],
    ]
    bench.executor.Open("h")
    bench.executor.Open("g")
    assert bench.WaitEnd(holder) == "success"
    assert [n for n, _ in bench.executor.executed] == [holder]


def test_a_job_whose_worker_has_left_it_is_canceled_at_once(locked):
    """After a try for locks that failed all workers may be busy with others for long."""
    bench = locked(1)
    waiting = bench.Submit("late t")
    bench.WaitStatus(waiting, "waiting")
    urgent = bench.Submit("gate g", priority=-10)
    bench.executor.Open("t")
    bench.executor.WaitRunning(urgent)
    assert bench.Status(waiting) == "waiting"
    assert bench.queue.CancelJob(waiting).Result(20) == [True, f"Job {waiting} canceled"]
    assert bench.Status(urgent) == "running"
    bench.executor.Open("g")
    assert bench.WaitEnd(urgent) == "success"
    assert [n for n, _ in bench.executor.executed] == [urgent]


@pytest.mark.parametrize("shown", [True, False], ids=["shown as waiting", "still queued"])
def test_a_canceled_job_that_fails_is_canceled(locked, monkeypatch, shown):
    """It never began to execute, whatever it stumbled over before."""
    monkeypatch.setattr(worker, "WAITING_SHOWN_AFTER", 0.0 if shown else 300.0)
    bench = locked(1)
    job_id = bench.Submit("blind g", "next")
    with bench.executor.changed:
        assert bench.executor.changed.wait_for(lambda: bench.executor.seen, 20)
    if shown:
        bench.WaitStatus(job_id, "waiting")
    answer = bench.queue.CancelJob(job_id)
    bench.WaitStatus(job_id, "canceling" if shown else "canceled")
    bench.executor.Open("g")
    assert answer.Result(20) == [True, f"Job {job_id} canceled"]
    assert bench.WaitEnd(bench.Submit("x")) == "success"
    assert bench.Field(job_id, "opstatus") == ["canceled"] * 2
    assert bench.Field(job_id, "opresult") == ["Job canceled by request"] * 2


@pytest.mark.parametrize("status", ["canceling", "canceled", "error", "success", "running"])
def test_only_an_opcode_that_waits_may_begin(status):
    state = jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"}), status)
    with pytest.raises(CancelJob):
        BeginExecution(0, (1, 0))(jobs.Job(1, [state], (1, 0)))


def test_an_end_while_it_is_looked_for_is_not_missed():
    """Played in all orders of the threads: a cancellation is answered when the job ends, not at the time-out."""
    for seed in range(150):
        with World(seed, switch=0.5) as world:

            def story() -> float:
                queue = JobQueue(None, None)  # type: ignore[arg-type]  # neither is used
                queue._ticker.Start()
                state = jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"}), "canceling")
                job = jobs.Job(1, [state], (1, 0))
                entry = Entry(job, [jobs.OpLog()], published=job)
                ended = runtime.Event()

                def end() -> None:
                    runtime.Monotonic()
                    runtime.Monotonic()
                    entry.published = entry.draft = jobs.MarkCanceled(job)
                    queue.OnPublished(entry, job)

                began = runtime.Monotonic()
                runtime.Thread(end, "end").start()
                queue._canceler._WhenEnded(entry, 44.0, ended.set)
                assert ended.wait(100)
                return runtime.Monotonic() - began

            assert world.AddMachine("node1").Call(story) < 5.0, f"seed {seed}: only the time-out ended the wait"


def test_without_a_quorum_nobody_says_that_a_job_is_canceled(make):
    bench = make(voters=3, settings=lambda: (1, {}))
    running = bench.Submit("gate a")
    bench.executor.WaitRunning(running)
    queued = bench.Submit("x")
    bench.cluster[1].up = bench.cluster[2].up = False
    with pytest.raises(StoreError):
        bench.queue.CancelJob(queued).Result(30)
    assert bench.Status(queued) == "queued"
    with pytest.raises(StoreError):
        bench.queue.CancelManyJobs([999, queued]).Result(30)
    bench.cluster[1].up = bench.cluster[2].up = True
    bench.executor.Open("a")
    assert bench.WaitEnd(running) == "success"
    assert bench.WaitEnd(queued) in ("canceled", "success")  # not known: both are true to what was said


def test_a_canceled_wait_hurries_nobody_else():
    """The name of a job that has gone leaves no mark on the thread, or on another of its name."""
    glm = locking.LockManager([], [], ["a"], [])
    glm.EndWaits("7")
    started, ended = runtime.Event(), runtime.Event()
    got: list[Any] = []

    def hold() -> None:
        glm.acquire(locking.LEVEL_CLUSTER, locking.BGL, None, 0)
        started.set()
        ended.wait(30)
        glm.release(locking.LEVEL_CLUSTER)

    def wait() -> None:
        glm.SetOwnerName("7")
        got.append(glm.acquire(locking.LEVEL_CLUSTER, locking.BGL, 60.0, 1))
        glm.release(locking.LEVEL_CLUSTER)

    holder, waiter = runtime.Thread(hold, "hold"), runtime.Thread(wait, "wait")
    holder.start()
    assert started.wait(10)
    waiter.start()
    runtime.Sleep(0.1)
    glm.EndWaits("8")
    ended.set()
    holder.join(30)
    waiter.join(30)
    assert got == [{locking.BGL}]


# --- allocators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [0.0, 60.0])
def test_a_job_that_waits_for_allocators_is_canceled_at_once(make, monkeypatch, shown):
    """Each of a list is ended, also before the job is shown as waiting; one that runs is left alone."""
    monkeypatch.setattr(worker, "WAITING_SHOWN_AFTER", shown)
    ended = []

    def end_asking(thread, still):
        assert still()
        ended.append(thread)
        bench.executor.Open(f"allocator{len(ended)}")
        return 1

    bench = make(executor=Asking, end_asking=end_asking)
    job_id = bench.Submit("ask allocator1 allocator2")
    bench.executor.WaitSeen(1)
    if not shown:
        bench.WaitStatus(job_id, "waiting")
    assert bench.queue.CancelJob(job_id).Result(20) == [True, f"Job {job_id} canceled"]
    bench.executor.WaitOver()
    assert bench.Field(job_id, "status") == "canceled"
    assert bench.executor.executed == []
    assert len(ended) >= 2 and len(set(ended)) == 1


def test_a_job_that_runs_keeps_its_allocator(make):
    ended = []
    bench = make(end_asking=lambda thread, still: ended.append(thread) or 1)
    running = bench.Submit("gate g")
    bench.executor.WaitRunning(running)
    assert bench.queue.CancelJob(running).Result(20)[0] is False
    bench.executor.Open("g")
    assert (bench.WaitEnd(running), ended) == ("success", [])


class Asking(Executor):
    """``ask GATE...``: allocators that each fail when their gate opens; then the job would begin to execute."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    def __call__(self, op: Any, ec_id: int, cbs: Any, timeout: float | None, priority: int) -> Any:
        words = (op.comment or "").split()
        if words[:1] != ["ask"]:
            return super().__call__(op, ec_id, cbs, timeout, priority)
        try:
            with self.changed:
                self.seen.append(op)
                self.changed.notify_all()
            for word in words[1:]:
                self._Gate(word)
            raise errors.OpExecError("no allocator answered")
        finally:
            self.over.set()

    def WaitSeen(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.seen) >= number, 30)

    def WaitOver(self) -> None:
        assert self.over.wait(30)


def test_a_job_that_waits_long_leaves_its_work_in_good_order(make, monkeypatch):
    """It is told between two looks, and its calls go through from then on: they clean up."""
    monkeypatch.setattr(cancel, "KILL_WAIT", 60.0)
    monkeypatch.setattr(cancel, "KILL_EVERY", 0.01)
    disturbed = []

    def abort(thread, still):
        if bench.executor.IsAt("k") and still():
            disturbed.append(thread)
        return 0

    bench = make(abort=abort)
    job_id = bench.Submit("long k")
    bench.executor.WaitRunning(job_id)
    patient = bench.queue.CancelJob(job_id, kill=True)
    bench.executor.WaitGate("k")
    monkeypatch.setattr(cancel, "KILL_WAIT", 0.5)
    for _ in range(2):
        answer = bench.queue.CancelJob(job_id, kill=True).Result(10)
        assert answer == [True, f"Job {job_id} is being ended and still cleans up"]
    assert disturbed == [] and not patient.done
    bench.executor.Open("k")
    assert bench.WaitEnd(job_id) == "error"
    assert patient.Result(20) == [True, f"Job {job_id} was killed; node calls ended: 0"]
    assert "gnt-job cancel --kill" in str(bench.Field(job_id, "opresult"))


def test_what_must_not_be_left_half_done_is_done_before_a_kill_strikes(make, monkeypatch):
    monkeypatch.setattr(cancel, "KILL_WAIT", 0.5)
    monkeypatch.setattr(cancel, "KILL_EVERY", 0.01)
    disturbed = []
    bench = make(abort=lambda thread, still: disturbed.append(thread) or 1 if still() else 0)
    job_id = bench.Submit("whole k")
    bench.executor.WaitGate("k")
    answer = bench.queue.CancelJob(job_id, kill=True).Result(10)
    assert answer == [True, f"Job {job_id} is being ended and still cleans up"] and disturbed == []
    bench.executor.Open("k")
    assert bench.WaitEnd(job_id) == "error"
    assert "gnt-job cancel --kill" in str(bench.Field(job_id, "opresult"))


def test_a_kill_ends_what_the_job_waits_for_and_says_what_it_could_not_stop(make, monkeypatch):
    waited_for = 1

    def abort(thread, still):
        """One call that the job waits for; its end may take longer than the time to the next strike."""
        nonlocal waited_for
        ended, waited_for = waited_for, 0
        if ended and still():
            bench.executor.Open("k")
        return ended

    bench = make(abort=abort)
    job_id = bench.Submit("gate k")
    bench.executor.WaitRunning(job_id)
    ok, text = bench.queue.CancelJob(job_id, kill=True).Result(20)
    assert ok and "node calls ended: 1" in text
    monkeypatch.setattr(cancel, "KILL_WAIT", 0.5)
    stubborn = bench.Submit("gate other")
    bench.executor.WaitRunning(stubborn)
    ok, text = bench.queue.CancelJob(stubborn, kill=True).Result(10)
    assert not ok and "cannot be stopped" in text
    bench.executor.Open("other")


def test_a_kill_strikes_until_the_job_has_ended(make, monkeypatch):
    """What it waits for next is ended too."""
    monkeypatch.setattr(cancel, "KILL_EVERY", 0.01)
    threads = []

    def abort(thread, still):
        threads.append(thread)
        if len(threads) == 4 and still():
            bench.executor.Open("k")
        return 1

    bench = make(abort=abort)
    job_id = bench.Submit("gate k")
    bench.executor.WaitRunning(job_id)
    ok, text = bench.queue.CancelJob(job_id, kill=True).Result(20)
    assert ok and len(threads) >= 4 and "was killed" in text
    assert len(set(threads)) == 1
