"""SharedLock: stories of doc/reference/locking.md 2 and invariants L1 to L13."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.actors import Actor, Cast, Promise, Until

from ganeti import errors
from ganeti.locking import SharedLock

EXCLUSIVE, SHARED = 0, 1


def _Queue(actor: Actor, lock: SharedLock, shared: int, **kwargs: Any) -> Promise:
    """Lets an actor ask for the lock and waits until it stands in the queue."""
    promise = actor.Start(lock.acquire, shared, **kwargs)
    Until(lambda: any(actor.name in names for _, names in lock.Info().pending))
    return promise


@pytest.mark.req("D20-LOCK-09", "D21-LOCK-18")
def test_modes() -> None:
    lock = SharedLock("x/y")
    with Cast("a", "b") as (a, b):
        assert lock.Info() == ("x/y", None, None, [])
        assert a.Do(lock.acquire, SHARED) is True
        assert b.Do(lock.acquire, SHARED) is True
        assert lock.Info() == ("x/y", "shared", ["a", "b"], [])
        assert [a.Do(lock.is_owned), a.Do(lock.is_owned, SHARED), a.Do(lock.is_owned, EXCLUSIVE)] == [True, True, False]
        a.Do(lock.release)
        assert lock.Info().owner == ["b"]
        b.Do(lock.release)
        assert a.Do(lock.acquire) is True
        assert lock.Info() == ("x/y", "exclusive", ["a"], [])
        assert [a.Do(lock.is_owned, EXCLUSIVE), b.Do(lock.is_owned)] == [True, False]
        a.Do(lock.release)


@pytest.mark.req("D20-LOCK-21", "D21-LOCK-04")
def test_try_lock_never_waits_in_the_queue() -> None:
    lock = SharedLock("lock")
    with Cast("a", "b", "c") as (a, b, c):
        a.Do(lock.acquire)
        waiting = _Queue(b, lock, EXCLUSIVE)
        watcher = c.Start(lambda: {len(lock.Info().pending) for _ in range(2000)})
        while watcher.pending:
            assert lock.acquire(SHARED, timeout=0) is False
            assert lock.acquire(EXCLUSIVE, timeout=0.0009) is False
        assert watcher.Result() == {1}
        a.Do(lock.release)
        assert waiting.Result() is True
        b.Do(lock.release)


@pytest.mark.req("D21-LOCK-05", "D21-LOCK-06", "D21-LOCK-22", "D20-LOCK-20")
def test_timeout_leaves_no_trace_and_none_waits_for_ever() -> None:
    lock = SharedLock("lock")
    with Cast("a", "b", "c") as (a, b, c):
        a.Do(lock.acquire)
        patient = _Queue(b, lock, EXCLUSIVE)
        before = lock.Info()
        assert c.Do(lock.acquire, EXCLUSIVE, timeout=0.02) is False
        assert c.Do(lock.acquire, SHARED, timeout=0.02) is False
        assert lock.Info() == before
        assert patient.pending
        a.Do(lock.release)
        assert patient.Result() is True
        b.Do(lock.release)


@pytest.mark.req("D21-LOCK-20", "D21-LOCK-21")
def test_exclusive_requests_are_served_in_order() -> None:
    lock = SharedLock("lock")
    order: list[str] = []
    names = [f"w{i}" for i in range(6)]
    with Cast(*names) as actors:
        lock.acquire()

        def serve(name: str) -> None:
            lock.acquire()
            order.append(name)
            lock.release()

        promises = []
        for index, actor in enumerate(actors):
            promises.append(actor.Start(serve, actor.name))
            Until(lambda n=index: len(lock.Info().pending) == n + 1)
        lock.release()
        for promise in promises:
            promise.Result()
    assert order == names


@pytest.mark.req("D21-LOCK-12")
def test_both_kinds_of_requests_stand_in_one_queue() -> None:
    """In the order in which they came; a shared one joins the group that waits already, and nobody else."""
    lock = SharedLock("lock")
    with Cast("a", "b", "c", "d", "e") as (a, b, c, d, e):
        a.Do(lock.acquire)
        waiting = [
            _Queue(actor, lock, shared) for actor, shared in ((b, EXCLUSIVE), (c, SHARED), (d, EXCLUSIVE), (e, SHARED))
        ]
        assert lock.Info().pending == [("exclusive", ["b"]), ("shared", ["c", "e"]), ("exclusive", ["d"])]
        a.Do(lock.release)
        for actor, promise in ((b, waiting[0]), (c, waiting[1]), (e, waiting[3]), (d, waiting[2])):
            assert promise.Result() is True
            actor.Do(lock.release)


def test_more_urgent_requests_go_first() -> None:
    lock = SharedLock("lock")
    order: list[int] = []
    priorities = [0, 5, -3, 0, -20, 19, -3]
    with Cast(*[f"w{i}" for i in range(len(priorities))]) as actors:
        lock.acquire()

        def serve(index: int) -> None:
            lock.acquire(priority=priorities[index])
            order.append(index)
            lock.release()

        promises = []
        for index, actor in enumerate(actors):
            promises.append(actor.Start(serve, index))
            Until(lambda n=index: len(lock.Info().pending) == n + 1)
        shown = [names[0] for _, names in lock.Info().pending]
        lock.release()
        for promise in promises:
            promise.Result()
    assert order == [4, 2, 6, 0, 3, 1, 5]
    assert shown == [f"w{i}" for i in order]


@pytest.mark.req(
    "D21-LOCK-14", "D21-LOCK-15", "D21-LOCK-16", "D21-LOCK-17", "D21-LOCK-19", "D21-LOCK-26", "D20-LOCK-03"
)
def test_sharers_join_a_group_until_it_is_woken() -> None:
    lock = SharedLock("lock")
    with Cast("x1", "x2", "x3", "s1", "s2", "s3") as (x1, x2, x3, s1, s2, s3):
        x1.Do(lock.acquire)
        second = _Queue(x2, lock, EXCLUSIVE)
        first_sharer = _Queue(s1, lock, SHARED)
        third = _Queue(x3, lock, EXCLUSIVE)
        joined = _Queue(s2, lock, SHARED)
        assert lock.Info().pending == [
            ("exclusive", ["x2"]),
            ("shared", ["s1", "s2"]),
            ("exclusive", ["x3"]),
        ]
        x1.Do(lock.release)
        second.Result()
        x2.Do(lock.release)
        assert first_sharer.Result() and joined.Result()
        # The group has been woken: the next sharer waits behind the writer although the lock is shared.
        late = _Queue(s3, lock, SHARED)
        assert lock.Info().pending == [("exclusive", ["x3"]), ("shared", ["s3"])]
        s1.Do(lock.release)
        assert third.pending
        s2.Do(lock.release)
        assert third.Result() is True
        assert late.pending
        x3.Do(lock.release)
        assert late.Result() is True
        s3.Do(lock.release)


def test_nobody_joins_a_group_on_its_way() -> None:
    lock = SharedLock("lock")
    with Cast("s", "x") as (s, x):
        lock.acquire()
        sharer = _Queue(s, lock, SHARED)
        writer = _Queue(x, lock, EXCLUSIVE)
        lock.release()
        # Most likely the sharer has not come to the mutex yet; either way the writer is before us.
        assert lock.acquire(SHARED, timeout=0.05) is False
        assert sharer.Result() is True
        s.Do(lock.release)
        assert writer.Result() is True
        x.Do(lock.release)


@pytest.mark.req("D21-LOCK-24")
def test_free_lock_is_taken_without_queue_but_not_past_waiters() -> None:
    lock = SharedLock("lock")
    with Cast("s1", "s2", "x", "late") as (s1, s2, x, late):
        s1.Do(lock.acquire, SHARED)
        assert s2.Do(lock.acquire, SHARED) is True
        writer = _Queue(x, lock, EXCLUSIVE)
        assert late.Do(lock.acquire, SHARED, timeout=0) is False
        s1.Do(lock.release)
        s2.Do(lock.release)
        writer.Result()
        x.Do(lock.release)


def test_waiter_is_woken_when_the_one_before_gives_up() -> None:
    lock = SharedLock("lock")
    with Cast("holder", "writer", "reader", "more") as (holder, writer, reader, more):
        holder.Do(lock.acquire, SHARED)
        impatient = writer.Start(lock.acquire, EXCLUSIVE, timeout=2.0)
        Until(lambda: lock.Info().pending)
        waiting = _Queue(reader, lock, SHARED)
        less_urgent = _Queue(more, lock, SHARED, priority=7)
        assert impatient.Result() is False
        assert waiting.Result() is True
        assert less_urgent.Result() is True
        assert set(lock.Info().owner or ()) == {"holder", "more", "reader"}
        for actor in (holder, reader, more):
            actor.Do(lock.release)


def test_downgrade_lets_the_most_urgent_sharers_in() -> None:
    lock = SharedLock("lock")
    with Cast("me", "x", "s", "x5", "s5") as (me, x, s, x5, s5):
        me.Do(lock.acquire)
        writer = _Queue(x, lock, EXCLUSIVE)
        sharer = _Queue(s, lock, SHARED)
        low_writer = _Queue(x5, lock, EXCLUSIVE, priority=5)
        low_sharer = _Queue(s5, lock, SHARED, priority=5)
        assert me.Do(lock.downgrade) is True
        assert sharer.Result() is True
        assert lock.Info().pending == [("exclusive", ["x"]), ("exclusive", ["x5"]), ("shared", ["s5"])]
        before = lock.Info()
        assert me.Do(lock.downgrade) is True
        assert lock.Info() == before
        me.Do(lock.release)
        s.Do(lock.release)
        writer.Result()
        x.Do(lock.release)
        low_writer.Result()
        x5.Do(lock.release)
        low_sharer.Result()
        s5.Do(lock.release)


@pytest.mark.req("D21-LOCK-23", "D21-LOCK-27", "D21-LOCK-29", "D20-LOCK-19")
@pytest.mark.parametrize("held", [True, False])
def test_delete_fails_every_waiter_and_later_caller(held: bool) -> None:
    lock = SharedLock("lock")
    with Cast("me", "x", "s", "urgent", "other") as (me, x, s, urgent, other):
        me.Do(lock.acquire)
        if held:
            promises = [_Queue(x, lock, EXCLUSIVE), _Queue(s, lock, SHARED), _Queue(urgent, lock, SHARED, priority=9)]
            assert me.Do(lock.delete) is True
        else:
            deleting = other.Start(lock.delete, priority=-5)
            Until(lambda: lock.Info().pending)
            promises = [_Queue(x, lock, EXCLUSIVE), _Queue(s, lock, SHARED), _Queue(urgent, lock, SHARED, priority=9)]
            me.Do(lock.release)
            assert deleting.Result() is True
        for promise in promises:
            with pytest.raises(errors.LockError, match="Deleted lock lock"):
                promise.Result()
        for call in (lock.acquire, lock.delete):
            with pytest.raises(errors.LockError):
                me.Do(call)
        Until(lambda: lock.Info() == ("lock", "deleted", None, []))
        assert me.Do(lock.is_owned) is False


def test_delete_gives_up_in_time() -> None:
    lock = SharedLock("lock")
    with Cast("a", "b") as (a, b):
        a.Do(lock.acquire, SHARED)
        assert b.Do(lock.delete, timeout=0.02) is False
        assert lock.Info() == ("lock", "shared", ["a"], [])
        a.Do(lock.release)
        assert b.Do(lock.delete, timeout=0.02) is True


@pytest.mark.req("D21-LOCK-28")
def test_wrong_use_is_an_assertion_and_changes_nothing() -> None:
    lock = SharedLock("lock")
    with Cast("a", "b") as (a, b):
        for call in (lock.release, lock.downgrade):
            with pytest.raises(AssertionError):
                a.Do(call)
        a.Do(lock.acquire, SHARED)
        before = lock.Info()
        for actor, call in ((a, lock.acquire), (a, lock.delete), (b, lock.release), (b, lock.downgrade)):
            with pytest.raises(AssertionError):
                actor.Do(call)
        with pytest.raises(AssertionError):
            a.Do(lock.acquire, SHARED, timeout=0)
        assert lock.Info() == before
        a.Do(lock.release)


# --- generated cases -----------------------------------------------------------------------------------------------------


class _Group:
    def __init__(self, shared: bool, actor: int):
        self.shared = shared
        self.actors = {actor}


class _Model:
    """What the lock should look like when everybody has come to rest."""

    def __init__(self) -> None:
        self.sharers: set[int] = set()
        self.exclusive: int | None = None
        self.queues: dict[int, list[_Group]] = {}

    def Owns(self, actor: int) -> bool:
        return actor == self.exclusive or actor in self.sharers

    def Waits(self, actor: int) -> bool:
        return any(actor in group.actors for queue in self.queues.values() for group in queue)

    def Compatible(self, shared: bool) -> bool:
        return self.exclusive is None and (shared or not self.sharers)

    def Acquire(self, actor: int, shared: bool, priority: int, wait: bool) -> bool:
        if not any(self.queues.values()) and self.Compatible(shared):
            self._Take(actor, shared)
        elif not wait:
            return False
        else:
            queue = self.queues.setdefault(priority, [])
            group = next((g for g in queue if g.shared), None) if shared else None
            if group is not None:
                group.actors.add(actor)
            else:
                queue.append(_Group(shared, actor))
            self.Settle()
        return True

    def _Take(self, actor: int, shared: bool) -> None:
        if shared:
            self.sharers.add(actor)
        else:
            self.exclusive = actor

    def Release(self, actor: int) -> None:
        if self.exclusive == actor:
            self.exclusive = None
        else:
            self.sharers.remove(actor)
        self.Settle()

    def Downgrade(self, actor: int) -> None:
        if self.exclusive != actor:
            return
        self.exclusive = None
        self.sharers.add(actor)
        urgent = [p for p, queue in self.queues.items() if queue]
        if urgent:
            queue = self.queues[min(urgent)]
            queue.sort(key=lambda group: not group.shared)
        self.Settle()

    def Settle(self) -> None:
        while True:
            queue = next((self.queues[p] for p in sorted(self.queues) if self.queues[p]), None)
            if queue is None or not self.Compatible(queue[0].shared):
                return
            group = queue.pop(0)
            for actor in group.actors:
                self._Take(actor, group.shared)

    def Rows(self) -> tuple[str | None, set[str], list[tuple[str, set[str]]]]:
        mode = "exclusive" if self.exclusive is not None else "shared" if self.sharers else None
        owners = {str(self.exclusive)} if self.exclusive is not None else {str(s) for s in self.sharers}
        pending = [
            ("shared" if group.shared else "exclusive", {str(a) for a in group.actors})
            for priority in sorted(self.queues)
            for group in self.queues[priority]
        ]
        return mode, owners, pending


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["acquire", "acquire", "acquire", "try", "release", "release", "downgrade"]),
        st.booleans(),
        st.sampled_from([-5, 0, 0, 3]),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(steps=_STEPS)
def test_lock_agrees_with_its_model(steps: list[tuple[int, str, bool, int]]) -> None:
    """L1, L4 to L8, L10 to L12: after every step owners and queue are exactly those of the model."""
    lock = SharedLock("lock")
    model = _Model()

    def seen() -> tuple[str | None, set[str], list[tuple[str, set[str]]]]:
        row = lock.Info()
        return row.mode, set(row.owner or ()), [(mode, set(names)) for mode, names in row.pending]

    with Cast(*[str(i) for i in range(6)]) as actors:
        for actor, what, shared, priority in steps:
            if model.Waits(actor):
                continue
            owns = model.Owns(actor)
            if what == "acquire" and not owns:
                model.Acquire(actor, shared, priority, wait=True)
                actors[actor].Start(lock.acquire, int(shared), priority=priority)
            elif what == "try" and not owns:
                expected = model.Acquire(actor, shared, priority, wait=False)
                assert actors[actor].Do(lock.acquire, int(shared), timeout=0, priority=priority) is expected
            elif what == "release" and owns:
                model.Release(actor)
                actors[actor].Do(lock.release)
            elif what == "downgrade" and owns:
                model.Downgrade(actor)
                actors[actor].Do(lock.downgrade)
            Until(lambda: seen() == model.Rows())
        while model.sharers or model.exclusive is not None:
            actor = model.exclusive if model.exclusive is not None else min(model.sharers)
            model.Release(actor)
            actors[actor].Do(lock.release)
            Until(lambda: seen() == model.Rows())
    assert lock.Info() == ("lock", None, None, [])


def _Switches(native_id: int) -> int:
    """How often a thread of this process gave up the processor."""
    with open(f"/proc/self/task/{native_id}/status", encoding="ascii") as stream:
        return sum(int(line.split()[1]) for line in stream if line.startswith("voluntary_ctxt_switches"))


@pytest.mark.req("D21-LOCK-30")
@pytest.mark.parametrize("timeout", [None, 600.0])
def test_who_waits_sleeps_until_notified(timeout: float | None) -> None:
    lock = SharedLock("lock")
    with Cast("holder", "waiter") as (holder, waiter):
        ident = waiter.Do(threading.get_native_id)
        holder.Do(lock.acquire)
        promise = _Queue(waiter, lock, EXCLUSIVE, timeout=timeout)
        before = _Switches(ident)
        time.sleep(1.0)  # whoever polled every 20 ms would have looked 50 times
        assert _Switches(ident) - before <= 5
        holder.Do(lock.release)
        assert promise.Result() is True


@pytest.mark.req("D20-LOCK-01", "D20-LOCK-02")
def test_contention_of_many_threads(seed: int) -> None:
    """L1, L3, L12, L13 with real threads in each other's way."""
    lock = SharedLock("lock")
    inside = {"shared": 0, "exclusive": 0}
    guard = threading.Lock()
    granted = {"shared": 0, "exclusive": 0, "refused": 0}
    descriptors = len(os.listdir("/proc/self/fd"))

    def enter(mode: str) -> None:
        with guard:
            inside[mode] += 1
            granted[mode] += 1
            assert inside["exclusive"] <= 1
            assert not (inside["exclusive"] and inside["shared"])

    def leave(mode: str) -> None:
        with guard:
            inside[mode] -= 1

    def work(number: int) -> None:
        dice = random.Random(seed + number)
        for _ in range(60):
            shared = dice.random() < 0.6
            timeout = dice.choice([None, None, 0, 0.0005, 0.002])
            if not lock.acquire(int(shared), timeout, dice.choice([None, -1, 3])):
                assert timeout is not None
                granted["refused"] += 1
                continue
            mode = "shared" if shared else "exclusive"
            enter(mode)
            if not shared and dice.random() < 0.3:
                leave(mode)
                lock.downgrade()
                mode = "shared"
                enter(mode)
            leave(mode)
            lock.release()

    with Cast(*[f"t{i}" for i in range(12)]) as actors:
        for promise in [actor.Start(work, index) for index, actor in enumerate(actors)]:
            promise.Result()
    assert lock.Info() == ("lock", None, None, [])
    assert granted["shared"] and granted["exclusive"]
    assert len(os.listdir("/proc/self/fd")) <= descriptors
