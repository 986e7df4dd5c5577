"""The locks of the queue among each other."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.queues import Bench, Executor


class Recorder:
    """A lock that notes in which order each thread takes the locks of one queue."""

    held = threading.local()
    taken: list[tuple[str, ...]] = []

    def __init__(self, name: str, lock: Any):
        self._name = name
        self._lock = lock

    def __enter__(self) -> Any:
        self._lock.__enter__()
        held = self.held.__dict__.setdefault("names", [])
        held.append(self._name)
        self.taken.append(tuple(held))
        return self

    def __exit__(self, *exc: object) -> Any:
        self.held.names.remove(self._name)
        return self._lock.__exit__(*exc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


class RecordingExecutor(Executor):
    """Puts recorders in the places of the locks of a job before it is executed."""

    queue: Any = None

    def __call__(self, op: Any, ec_id: int, *args: Any) -> Any:
        entry = self.queue._live.Get(ec_id)
        if not isinstance(entry.lock, Recorder):
            entry.lock = Recorder("job", entry.lock)
        return super().__call__(op, ec_id, *args)


@pytest.mark.req("D22-JQ-03")
def test_the_lock_of_a_job_is_never_waited_for_with_one_of_the_queue(make: Any) -> None:
    bench: Bench = make(executor=RecordingExecutor)
    queue = bench.queue
    bench.executor.queue = queue  # type: ignore[attr-defined]
    for part, name in (
        (queue._scheduler, "_lock"),
        (queue._submitter, "_id_lock"),
        (queue._live, "_lock"),
        (queue._ticker, "_condition"),
        (queue._judge, "_condition"),
    ):
        setattr(part, name, Recorder("queue", getattr(part, name)))
    Recorder.taken.clear()
    talking = bench.Submit("logs a", "log 5")
    waiting = bench.Submit("waits b")
    bench.executor.WaitRunning(talking)
    bench.WaitStatus(waiting, "waiting")
    seen = queue.Wait(talking, ["status"], ["running"], None, 20).Result(20)
    more = queue.Wait(talking, ["status"], seen[0], seen[1][-1][0], 20)
    blocked = bench.Submit("x", depends=[[talking, []]])
    queue.ChangePriority(blocked, 5).Result(20)
    canceled = queue.CancelJob(waiting)
    bench.executor.Open("a")
    bench.executor.Open("b")
    assert more.Result(20)[0] and bench.WaitEnd(talking) == bench.WaitEnd(blocked) == "success"
    assert canceled.Result(20)[0] is True
    queue.AutoArchive(-1, 10).Result(20)
    taken = set(Recorder.taken)
    assert {("job",), ("queue",), ("job", "queue")} <= taken, "a job's news are delivered by the queue's own thread"
    wrong = [order for order in taken if "job" in order[1:] or order.count("queue") > 1]
    assert wrong == [], "the lock of a job comes first, that of the queue last"
