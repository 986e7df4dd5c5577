"""Locks in simulated machines: every order of steps a seed can make, time-outs to the tick, no waiter forgotten."""

from __future__ import annotations

import random
from typing import Any

import pytest
from simulated import World

from ganeti import errors, runtime
from ganeti.locking import (
    ALL_SET,
    BGL,
    LEVEL_CLUSTER,
    LEVEL_INSTANCE,
    LEVEL_NODE,
    LEVEL_NODE_RES,
    LEVELS,
    LockManager,
    LockSet,
    SharedLock,
)

THREADS = 6
ROUNDS = 8
# Steps take a little virtual time each.
TICK = 0.01


def _Together(work: Any) -> None:
    """Runs ``work(number)`` in several threads and waits for all."""
    done = runtime.Queue()

    def run(number: int) -> None:
        try:
            work(number)
        finally:
            done.put(number)

    for number in range(THREADS):
        runtime.Thread(run, f"t{number}", (number,)).start()
    for _ in range(THREADS):
        done.get()


def _Run(seed: int, program: Any, check: Any = None) -> None:
    """One simulated process; ``check`` looks between all steps.  A thread that waits for ever is a Deadlock."""
    with World(seed) as world:
        process = world.AddMachine("m").StartProcess(program, "locks")

        def look() -> bool:
            if check is not None:
                check()
            return not process.alive

        world.Run(until=look)
        assert world.failures == []
        assert process.error is None


@pytest.mark.req("D20-LOCK-01", "D20-LOCK-02", "D20-LOCK-03", "D21-LOCK-05", "D21-LOCK-19")
def test_one_lock(seed: int) -> None:
    """L1 to L4, L12; a time-out is over exactly when it is over."""
    for number in range(25):
        locks: list[SharedLock] = []
        granted = {"shared": 0, "exclusive": 0}

        def check(locks: Any = locks) -> None:
            for lock in locks:
                assert not (lock._exclusive is not None and lock._sharers), lock

        def program(number: int = number, locks: Any = locks, granted: Any = granted) -> None:
            lock = SharedLock("lock")
            locks.append(lock)

            def work(thread: int) -> None:
                dice = random.Random(seed + number * 100 + thread)
                for _ in range(ROUNDS):
                    shared = dice.randint(0, 1)
                    timeout = dice.choice([None, None, 0, 0.5, 2.0])
                    started = runtime.Monotonic()
                    got = lock.acquire(shared, timeout, dice.choice([None, None, -3, 4]))
                    waited = runtime.Monotonic() - started
                    assert timeout is None or waited <= timeout + TICK
                    if not got:
                        assert timeout is not None and (timeout == 0 or waited >= timeout - TICK)
                        continue
                    granted["shared" if shared else "exclusive"] += 1
                    runtime.Sleep(dice.random())
                    if not shared and dice.random() < 0.3:
                        lock.downgrade()
                        runtime.Sleep(dice.random())
                    lock.release()

            _Together(work)
            assert lock.Info() == ("lock", None, None, [])

        _Run(seed + number, program, check)
        assert granted["shared"] and granted["exclusive"]


@pytest.mark.req("D21-LOCK-23", "D21-LOCK-29", "D20-LOCK-19")
def test_deletion_reaches_everybody(seed: int) -> None:
    """L2: whenever it happens, each waiter and each later request gets an error, and nobody waits on."""
    for number in range(25):

        def program(number: int = number) -> None:
            lock = SharedLock("lock")

            def work(thread: int) -> None:
                dice = random.Random(seed + number * 100 + thread)
                runtime.Sleep(dice.random())
                with pytest.raises(errors.LockError, match="Deleted lock"):
                    while True:
                        if thread == 0 and lock.delete(priority=dice.choice([None, -1])):
                            lock.acquire()
                        elif lock.acquire(dice.randint(0, 1), dice.choice([None, 0.3])):
                            runtime.Sleep(dice.random() / 10)
                            lock.release()

            _Together(work)
            assert lock.Info().mode == "deleted" and lock.Info().pending == []

        _Run(seed + number, program)


@pytest.mark.parametrize("names", [["a", "b", "c"], ALL_SET])
def test_one_timeout_counts_for_all_members_together(names: Any) -> None:
    """Each member comes free within the time-out, all of them do not."""

    def program() -> None:
        locks = LockSet(["a", "b", "c"], "level")

        def hold(name: str, seconds: float) -> None:
            locks.acquire(name)
            runtime.Sleep(seconds)
            locks.release()

        for name, seconds in (("a", 2.0), ("b", 4.0), ("c", 6.0)):
            runtime.Thread(hold, name, (name, seconds)).start()
        runtime.Sleep(1.0)
        began = runtime.Monotonic()
        assert locks.acquire(names, timeout=2.5) is None
        assert abs(runtime.Monotonic() - began - 2.5) <= TICK
        assert not locks.is_owned()
        assert locks.acquire(names, timeout=2.5) == {"a", "b", "c"}
        assert runtime.Monotonic() - began <= 5.0 + TICK
        locks.release()

    _Run(1, program)


def test_a_new_lock_is_owned_before_anybody_sees_it(seed: int) -> None:
    """Otherwise another job could take the lock of an object that its maker has not stored yet."""
    for number in range(25):

        def program() -> None:
            locks = LockSet([], "level")
            released = [False]

            def look(_number: int) -> None:
                while True:
                    try:
                        if locks.acquire("new", timeout=0):
                            assert released == [True]
                            locks.release()
                            return
                    except errors.LockError:
                        pass
                    runtime.Sleep(0.0)

            def work(thread: int) -> None:
                if thread:
                    look(thread)
                    return
                assert locks.add("new", acquired=1)
                assert locks.check_owned("new", shared=0)
                runtime.Sleep(0.1)
                released[0] = True
                locks.release()

            _Together(work)

        _Run(seed + number, program)


def _StepsToHandOver(waiters: int, shared: int = 0) -> int:
    """Steps of all threads from a release until the oldest of these waiters has the lock."""
    steps: list[int] = []
    with World(3) as world:

        def program() -> None:
            lock = SharedLock("lock")
            lock.acquire()

            def wait(number: int) -> None:
                lock.acquire(shared if number else 0)
                steps.append(world.steps)
                if not number:
                    runtime.Sleep(5.0)  # whoever was woken, too, looks again meanwhile
                    steps.append(world.steps)
                lock.release()

            for number in range(waiters):
                runtime.Thread(wait, f"w{number}", (number,)).start()
                runtime.Sleep(1.0)
            steps.append(world.steps)
            lock.release()
            runtime.Sleep(100.0)

        process = world.AddMachine("m").StartProcess(program, "locks")
        world.Run(until=lambda: not process.alive)
        assert world.failures == [] and process.error is None
    released, _taken, later = steps[:3]
    return later - released


@pytest.mark.req("D21-LOCK-25")
@pytest.mark.parametrize("shared", [0, 1])
def test_a_release_wakes_the_oldest_and_only_that_one(shared: int) -> None:
    """However many wait behind it, they sleep on: as many steps are taken as with a single one behind it."""
    assert _StepsToHandOver(20, shared) == _StepsToHandOver(2, shared)


def test_a_lock_on_its_way_to_the_next_one_is_not_free() -> None:
    """Between a release and the moment when the waiter comes to it nobody holds the lock, and it is not free."""
    seen: set[frozenset[str]] = set()

    def program() -> None:
        locks = LockSet(["a", "b", "c"], "level")
        go = runtime.Event()

        def wait() -> None:
            locks.acquire("b")
            go.wait()
            locks.release()

        locks.acquire(["a", "b"])
        runtime.Thread(wait, "waiter").start()
        runtime.Sleep(1.0)
        locks.release()
        for _ in range(5):
            seen.add(frozenset(locks.FreeNames()))
        go.set()
        runtime.Sleep(1.0)
        assert locks.FreeNames() == {"a", "b", "c"}

    for seed in range(20):
        _Run(seed, program)
    assert seen == {frozenset({"a", "c"})}


class _SlowName(str):
    """A name whose hash takes a moment, so that another thread may come in between."""

    __slots__ = ()

    def __hash__(self) -> int:
        runtime.Sleep(0.0)
        return super().__hash__()


def test_members_that_come_and_go_at_once_are_all_there_or_gone(seed: int) -> None:
    """Adding needs the whole set's lock, removing does not: neither may undo the other."""
    for number in range(25):

        def program() -> None:
            old = [_SlowName(f"old{n}") for n in range(THREADS)]
            locks = LockSet(old, "level")

            def work(thread: int) -> None:
                if thread % 2:
                    assert locks.remove([old[thread]]) == [old[thread]]
                else:
                    assert locks.add([_SlowName(f"new{thread}")])

            _Together(work)
            kept = {str(name) for n, name in enumerate(old) if not n % 2}
            assert {str(name) for name in locks.Names()} == kept | {f"new{n}" for n in range(0, THREADS, 2)}

        _Run(seed + number, program)


@pytest.mark.req("D20-LOCK-02", "D20-LOCK-14", "D20-LOCK-18", "D20-LOCK-26")
def test_all_levels_with_members_coming_and_going(seed: int) -> None:
    """M1 to M3, S3, S4, S6 for opcodes that lock, add and remove whatever they like."""
    for number in range(15):
        running = {"shared": 0, "exclusive": 0}

        def program(number: int = number, running: Any = running) -> None:
            glm = LockManager(["n1", "n2", "n3"], ["g"], ["i1", "i2", "i3"], ["w"])

            def work(thread: int) -> None:
                dice = random.Random(seed + number * 100 + thread)
                own: list[str] = []
                for turn in range(ROUNDS):
                    _Opcode(glm, dice, running, own, f"x{thread}-{turn}")

            _Together(work)
            assert all(row.owner is None and not row.pending for row in glm.QueryLocks())

        _Run(seed + number, program)


def _Opcode(glm: LockManager, dice: random.Random, running: dict[str, int], own: list[str], fresh: str) -> None:
    mode = "exclusive" if dice.random() < 0.1 else "shared"
    deadline = runtime.Monotonic() + 3.0
    impatient = dice.random() < 0.5

    def left() -> float | None:
        return max(0.0, deadline - runtime.Monotonic()) if impatient else None

    if glm.acquire(LEVEL_CLUSTER, BGL, left(), int(mode == "shared")) is None:
        return
    taken: list[int] = []
    try:
        if dice.random() < 0.2 and glm.add(LEVEL_INSTANCE, fresh, acquired=1, timeout=left()):
            own.append(fresh)
            taken.append(LEVEL_INSTANCE)
        for level in (LEVEL_INSTANCE, LEVEL_NODE, LEVEL_NODE_RES):
            if level in taken or dice.random() < 0.3:
                continue
            names: Any = ALL_SET
            if dice.random() < 0.7:
                names = dice.sample(sorted(glm.Names(level)), dice.randint(1, 2))
            try:
                got = glm.acquire(level, names, left(), dice.randint(0, 1))
            except errors.LockError:
                # Removed since we looked: an exact request fails, and owns nothing.
                assert level == LEVEL_INSTANCE and names is not ALL_SET
                got = None
            if got is None:
                assert not glm.is_owned(level)
                return
            taken.append(level)
        running[mode] += 1
        assert running["exclusive"] == 0 or running == {"exclusive": 1, "shared": 0}
        runtime.Sleep(dice.random())
        running[mode] -= 1
        mine = glm.list_owned(LEVEL_INSTANCE)
        if own and own[-1] in mine and glm.check_owned(LEVEL_INSTANCE, mine, shared=0):
            gone = own.pop()
            assert glm.remove(LEVEL_INSTANCE, gone) == [gone]
    finally:
        for level in reversed(LEVELS):
            if glm.is_owned(level):
                glm.release(level)
