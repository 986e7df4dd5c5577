"""A job queue over a real store, and an executor that does what a test tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ganeti import constants, errors, runtime
from ganeti.jqueue import JobQueue
from support.store_nodes import Cluster

OP = "OP_TEST_DELAY"


def Op(duration: float = 0.0, **more: Any) -> dict[str, Any]:
    """An opcode as clients send it."""
    return {"OP_ID": OP, "duration": duration, "reason": [], **more}


class _Strange:
    def __str__(self) -> str:
        return "<strange>"


class Executor:
    """Stands for the processor: what an opcode does is told by its comment.

    ``gate NAME``: waits until the test opens the gate; ``locks N``: gets no locks N times; ``fail TEXT``; ``bug``;
    ``log N``: N messages; ``submit``, ``gatesubmit NAME``: submits a job; ``prereq``: fails before it starts.
    """

    def __init__(self) -> None:
        self.changed = runtime.Condition()
        self._open: set[str] = set()
        self._over = False
        self._reached: Counter[str] = Counter()
        self._tries: dict[tuple[int, str], int] = {}
        # (job id, comment) of each opcode that was executed, and of each that is now.
        self.executed: list[tuple[int, str]] = []
        self.running: set[int] = set()
        self.most_running = 0
        self.timeouts: list[float | None] = []
        self.priorities: list[int] = []
        self.seen: list[Any] = []

    def Open(self, name: str) -> None:
        with self.changed:
            self._open.add(name)
            self.changed.notify_all()

    def OpenAll(self) -> None:
        """The test is over: nothing waits any longer, so that no thread outlives it."""
        with self.changed:
            self._over = True
            self.changed.notify_all()

    def WaitRunning(self, *job_ids: int) -> None:
        """Waits until these jobs are being executed."""
        with self.changed:
            assert self.changed.wait_for(lambda: set(job_ids) <= self.running, 20), (job_ids, self.running)

    def IsAt(self, name: str) -> bool:
        """Whether a job has come to this gate."""
        with self.changed:
            return self._reached[name] > 0

    def WaitGate(self, name: str, number: int = 1) -> None:
        """Waits until so many jobs have come to this gate: one that is shown as waiting may be before it still."""
        with self.changed:
            assert self.changed.wait_for(lambda: self._reached[name] >= number, 20), (name, self._reached)

    def __call__(self, op: Any, ec_id: int, cbs: Any, timeout: float | None, priority: int) -> Any:
        words = (op.comment or "").split()
        self.timeouts.append(timeout)
        self.priorities.append(priority)
        with self.changed:
            self.seen.append(op)
            self.changed.notify_all()
        cbs.CurrentPriority()
        if words[:1] == ["prereq"]:
            raise errors.OpPrereqError("not now", errors.ECODE_STATE)
        if words[:1] == ["locks"]:
            key = (ec_id, op.comment)
            self._tries[key] = self._tries.get(key, 0) + 1
            if self._tries[key] <= int(words[1]):
                raise errors.LockAcquireTimeout("no locks")
        if words[:1] == ["waits"]:
            self._Gate(words[1])
            cbs.CurrentPriority()
        cbs.NotifyStart()
        with self.changed:
            assert ec_id not in self.running, f"job {ec_id} is executed twice at a time"
            self.executed.append((ec_id, op.comment))
            self.running.add(ec_id)
            self.most_running = max(self.most_running, len(self.running))
            self.changed.notify_all()
        try:
            return self._Do(words, cbs)
        finally:
            with self.changed:
                self.running.discard(ec_id)
                self.changed.notify_all()

    def _Gate(self, name: str) -> None:
        with self.changed:
            self._reached[name] += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self._over or name in self._open, 60)

    def _Look(self, name: str, cbs: Any) -> None:
        """Something that takes for ever, and needs a gate to clean up."""
        try:
            while not self._over:
                cbs.Pause(0.01)
        finally:
            self._Gate(name)

    def _Do(self, words: list[str], cbs: Any) -> Any:
        if words[:1] == ["gate"]:
            self._Gate(words[1])
        elif words[:1] == ["fail"]:
            raise errors.OpExecError(" ".join(words[1:]))
        elif words[:1] == ["bug"]:
            raise ZeroDivisionError("bug")
        elif words[:1] == ["log"]:
            for number in range(int(words[1])):
                cbs.Feedback(constants.ELOG_MESSAGE, f"message {number}")
        elif words[:1] == ["logs"]:
            cbs.Feedback(constants.ELOG_MESSAGE, "first words")
            cbs.Feedback(constants.ELOG_MESSAGE_LIST, ["two", "three"])
            cbs.Feedback(constants.ELOG_DELAY_TEST, ["/path"])
            cbs.Feedback(constants.ELOG_MESSAGE, _Strange())
            self._Gate(words[1])
        elif words[:1] in (["submit"], ["gatesubmit"]):
            if len(words) > 1:
                self._Gate(words[1])
            from ganeti import opcodes

            return cbs.SubmitManyJobs([[opcodes.OpTestDelay(duration=0.0)]])
        elif words[:1] == ["sleep"]:
            runtime.Sleep(float(words[1]))
        elif words[:1] == ["long"]:
            self._Look(words[1], cbs)
        elif words[:1] == ["whole"]:
            with cbs.Undisturbed():
                self._Gate(words[1])
                cbs.Pause(0.01)
            cbs.Pause(60)
        elif words[:1] == ["strange"]:
            return object()
        return " ".join(words) or None


class Bench:
    """A cluster's store, its queue and an executor; ``Crash`` puts a new master daemon in their place."""

    def __init__(
        self,
        folder: str,
        voters: int = 1,
        executor: type[Executor] = Executor,
        store_class: Callable[[Any], Any] = lambda store: store,
        **options: Any,
    ):
        self.cluster = Cluster(folder, voters)
        self.options = options
        self.store = store_class(self.cluster.Found())
        self._executor_class = executor
        self.executor = executor()
        self.queue = self.NewQueue()

    def NewQueue(self) -> JobQueue:
        queue = JobQueue(self.store, self.executor, **self.options)
        queue.Start()
        return queue

    @property
    def rows(self) -> dict[str, str]:
        """The stored texts of all live jobs."""
        stored = self.cluster.nodes[0].store.database.GetRows(["job"])
        return {row.id: row.value for row in stored if row.value is not None}

    def Submit(self, *comments: str, **more: Any) -> int:
        """One job, one opcode per comment."""
        return self.queue.SubmitJob([Op(comment=c, **more) for c in comments]).Result(20)

    def Status(self, job_id: int) -> str:
        return self.Field(job_id, "status")

    def Field(self, job_id: int, name: str) -> Any:
        return self.queue.QueryJobs([job_id], [name])[0][0]

    def WaitStatus(self, job_id: int, *statuses: str) -> str:
        """Follows the job as a client does, until it has one of these."""
        info = None
        while True:
            values, log = self.queue.Wait(job_id, ["status"], info, None if info is None else 1 << 60, 20).Result(30)
            if values[0] in statuses:
                return values[0]
            assert values != info or log, f"job {job_id} stays {values}, wanted {statuses}"
            assert values[0] not in constants.JOBS_FINALIZED, (values, self.Field(job_id, "opresult"))
            info = values

    def WaitEnd(self, job_id: int) -> str:
        return self.WaitStatus(job_id, *constants.JOBS_FINALIZED)

    def Crash(self) -> None:
        """The master daemon is gone; another starts on what is stored.  The old one's threads can acknowledge nothing."""
        self.store.Stop(0.1)
        self.queue.Stop()
        self.executor.OpenAll()
        self.executor = self._executor_class()
        self.store = self.cluster.Become(0)
        self.queue = self.NewQueue()

    def Close(self) -> None:
        self.executor.OpenAll()
        self.queue.Stop()
        self.cluster.Close()
