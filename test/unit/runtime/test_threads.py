"""Threads, locks and queues, on both sides."""

from __future__ import annotations

import pytest
from support.sides import Everywhere, Place

from ganeti import runtime


def _Start(target, *args):
    thread = runtime.Thread(target, f"{target.__name__} {args}", args)
    thread.start()
    return thread


@Everywhere
def test_threads_run_and_are_waited_for(place: Place) -> None:
    go = runtime.Event()
    names = runtime.Queue()

    def work() -> None:
        go.wait()
        names.put((runtime.ThreadName(), runtime.ThreadIdent()))
        runtime.SetThreadName("renamed")
        names.put((runtime.ThreadName(), runtime.ThreadIdent()))

    thread = runtime.Thread(work, "worker")
    assert thread.name == "worker"
    assert not thread.is_alive()
    with pytest.raises(RuntimeError):
        thread.join()
    thread.start()
    with pytest.raises(RuntimeError):
        thread.start()
    thread.join(0.01)
    assert thread.is_alive()
    go.set()
    thread.join()
    assert not thread.is_alive()
    first, second = names.get(), names.get()
    assert (first[0], second[0]) == ("worker", "renamed")
    assert first[1] == second[1] != runtime.ThreadIdent()
    assert thread.name == "renamed"


@Everywhere
def test_a_lock_lets_one_in(place: Place) -> None:
    lock = runtime.Lock()
    inside: list[int] = []
    log: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            with lock:
                inside.append(number)
                runtime.Sleep(0.0005)
                assert inside == [number]
                inside.pop()
                log.append(number)

    threads = [_Start(work, number) for number in range(4)]
    for thread in threads:
        thread.join()
    assert sorted(log) == sorted(list(range(4)) * 10)
    assert lock.acquire()
    assert not lock.acquire(False)
    assert not lock.acquire(timeout=0.01)
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()


@Everywhere
def test_a_reentrant_lock_belongs_to_its_thread(place: Place) -> None:
    lock = runtime.RLock()
    tried = runtime.Queue()

    def try_it() -> None:
        tried.put(lock.acquire(timeout=0.01))
        with pytest.raises(RuntimeError):
            lock.release()

    with lock, lock:
        _Start(try_it).join()
    assert tried.get() is False
    with pytest.raises(RuntimeError):
        lock.release()
    assert lock.acquire(False)


@Everywhere
def test_waiters_of_a_condition_are_woken_one_or_all(place: Place) -> None:
    condition = runtime.Condition()
    waiting: list[int] = []
    woken: list[int] = []

    def wait(number: int) -> None:
        with condition:
            waiting.append(number)
            condition.notify_all()
            condition.wait_for(lambda: -number in waiting)
            woken.append(number)
            condition.notify_all()

    threads = [_Start(wait, number) for number in range(1, 5)]
    with condition:
        assert condition.wait_for(lambda: len(waiting) == 4, 30)
        waiting.append(-2)
        condition.notify(4)
        assert condition.wait_for(lambda: woken == [2], 30)
        waiting.extend([-1, -3, -4])
        condition.notify_all()
    for thread in threads:
        thread.join()
    assert sorted(woken) == [1, 2, 3, 4]
    with pytest.raises(RuntimeError):
        condition.notify()
    with pytest.raises(RuntimeError):
        condition.wait()


@Everywhere
def test_waits_end_after_their_time(place: Place) -> None:
    condition = runtime.Condition(runtime.Lock())
    event = runtime.Event()
    semaphore = runtime.Semaphore(0)
    queue = runtime.Queue()
    began = runtime.Monotonic()
    with condition:
        assert condition.wait(0.02) is False
        assert condition.wait_for(lambda: False, 0.02) is False
    assert event.wait(0.02) is False
    assert semaphore.acquire(timeout=0.02) is False
    with pytest.raises(runtime.QueueEmpty):
        queue.get(0.02)
    assert 0.099 <= runtime.Monotonic() - began < 10
    with pytest.raises(runtime.QueueEmpty):
        queue.get(0)
    assert not semaphore.acquire(blocking=False)
    event.set()
    assert event.wait(0) is True
    assert event.is_set()
    event.clear()
    assert not event.is_set()


@Everywhere
def test_a_queue_hands_out_each_item_once_and_in_order(place: Place) -> None:
    queue, results = runtime.Queue(), runtime.Queue()

    def consume() -> None:
        while (item := queue.get()) is not None:
            results.put(item)

    threads = [_Start(consume) for _ in range(3)]
    for number in range(30):
        queue.put(number)
    for _ in threads:
        queue.put(None)
    for thread in threads:
        thread.join()
    assert queue.qsize() == 0
    assert sorted(results.get(0) for _ in range(30)) == list(range(30))
    for number in range(5):
        queue.put(number)
    assert [queue.get() for _ in range(5)] == list(range(5))


@Everywhere
def test_a_semaphore_counts(place: Place) -> None:
    semaphore = runtime.Semaphore(2)
    guard = runtime.Lock()
    counts = [0, 0]

    def work() -> None:
        with semaphore:
            with guard:
                counts[0] += 1
                counts[1] = max(counts)
            runtime.Sleep(0.001)
            with guard:
                counts[0] -= 1

    threads = [_Start(work) for _ in range(6)]
    for thread in threads:
        thread.join()
    assert counts[0] == 0
    assert counts[1] <= 2
    semaphore.release(2)
    assert [semaphore.acquire(False) for _ in range(5)] == [True] * 4 + [False]


@Everywhere
def test_local_values_are_each_threads_own(place: Place) -> None:
    local = runtime.Local()
    local.value = "mine"
    seen = runtime.Queue()

    def look() -> None:
        seen.put(hasattr(local, "value"))
        local.value = "theirs"
        seen.put(local.value)
        del local.value
        seen.put(getattr(local, "value", None))

    _Start(look).join()
    assert [seen.get() for _ in range(3)] == [False, "theirs", None]
    assert local.value == "mine"


@Everywhere
def test_time_passes_and_ids_differ(place: Place) -> None:
    began, wall = runtime.Monotonic(), runtime.Time()
    runtime.Sleep(0.02)
    runtime.Sleep(0)
    runtime.Sleep(-1)
    assert runtime.Monotonic() - began >= 0.02
    assert runtime.Time() - wall >= 0.019
    assert wall > 1_600_000_000
    ids = {runtime.NewUuid() for _ in range(50)}
    assert len(ids) == 50
    for text in ids:
        assert len(text) == 36
        assert text == text.lower()
        assert text[14] == "4"
        assert text[19] in "89ab"
    assert len(runtime.RandomBytes(16)) == 16
    assert runtime.Random() is runtime.Random()
    assert 0 <= runtime.Random().random() < 1
    assert runtime.HostName()
