"""LockManager: order of levels, the BGL, what the listing shows (doc/reference/locking.md 4, 6; M1 to M3)."""

from __future__ import annotations

import gc
import random
import threading

import pytest
from support.actors import Cast, Until

from ganeti.locking import (
    ALL_SET,
    BGL,
    LEVEL_CLUSTER,
    LEVEL_INSTANCE,
    LEVEL_NETWORK,
    LEVEL_NODE,
    LEVEL_NODE_ALLOC,
    LEVEL_NODE_RES,
    LEVEL_NODEGROUP,
    LEVELS,
    NAL,
    LockManager,
    LockRow,
)


@pytest.fixture
def glm() -> LockManager:
    return LockManager(["n1", "n2", "n10"], ["g1"], ["web.example.com", "db.example.com"], ["net1"])


@pytest.mark.req("D20-LOCK-07")
def test_one_lock_per_object(glm: LockManager) -> None:
    assert [row.name for row in glm.QueryLocks()] == [
        "cluster/BGL",
        "cluster/[lockset]",
        "instance/[lockset]",
        "instance/db.example.com",
        "instance/web.example.com",
        "network/[lockset]",
        "network/net1",
        "node-alloc/NAL",
        "node-alloc/[lockset]",
        "node-res/[lockset]",
        "node-res/n1",
        "node-res/n2",
        "node-res/n10",
        "node/[lockset]",
        "node/n1",
        "node/n2",
        "node/n10",
        "nodegroup/[lockset]",
        "nodegroup/g1",
    ]
    assert glm.Names(LEVEL_NODE) == glm.Names(LEVEL_NODE_RES) == {"n1", "n2", "n10"}


@pytest.mark.req("D20-LOCK-06", "D20-LOCK-08", "D20-LOCK-13")
def test_order_of_levels_is_enforced(glm: LockManager) -> None:
    for level in LEVELS[1:]:
        with pytest.raises(AssertionError):
            glm.acquire(level, ALL_SET)
    for call in (glm.add, glm.remove):
        with pytest.raises(AssertionError):
            call(LEVEL_NODE, "n9")
    glm.acquire(LEVEL_CLUSTER, BGL, shared=1)
    glm.acquire(LEVEL_NODE, ["n2"])
    for level in (LEVEL_INSTANCE, LEVEL_NODE_ALLOC, LEVEL_NODEGROUP, LEVEL_NODE):
        with pytest.raises(AssertionError):
            glm.acquire(level, ALL_SET)
    with pytest.raises(AssertionError):
        glm.add(LEVEL_INSTANCE, "new")
    with pytest.raises(AssertionError):
        glm.remove(LEVEL_INSTANCE, "web.example.com")
    with pytest.raises(AssertionError):
        glm.release(LEVEL_CLUSTER)
    for level in (LEVEL_CLUSTER, LEVEL_NODE_ALLOC):
        with pytest.raises(AssertionError):
            glm.add(level, "new")
    assert glm.acquire(LEVEL_NODE_RES, ["n2"]) == {"n2"}
    assert glm.acquire(LEVEL_NETWORK, []) == set()
    for level in (LEVEL_NETWORK, LEVEL_NODE_RES, LEVEL_NODE):
        glm.release(level)
    # Going back is fine once the later levels are released.
    assert glm.acquire(LEVEL_NODE_ALLOC, NAL) == {NAL}
    glm.release(LEVEL_NODE_ALLOC)
    assert glm.add(LEVEL_INSTANCE, "new", acquired=1)
    assert glm.check_owned(LEVEL_INSTANCE, ["new"], shared=0)
    assert glm.remove(LEVEL_INSTANCE, "new") == ["new"]
    glm.release(LEVEL_CLUSTER)


def test_listing_shows_names_people_know(glm: LockManager) -> None:
    class Queue:
        def LockRows(self) -> list[LockRow]:
            return [LockRow("job/9", None, None, [("job", ["11", "10"])])]

    queue = Queue()
    glm.AddToLockMonitor(queue)
    with Cast("t1", "t2", "t3") as (one, two, three):
        one.Do(glm.SetOwnerName, "17")
        one.Do(glm.acquire, LEVEL_CLUSTER, BGL, shared=1)
        two.Do(glm.SetOwnerName, "4")
        two.Do(glm.acquire, LEVEL_CLUSTER, BGL, shared=1)
        waiting = three.Start(glm.acquire, LEVEL_CLUSTER, BGL)
        Until(lambda: glm.QueryLocks()[0].pending)
        assert glm.QueryLocks()[0] == ("cluster/BGL", "shared", ["4", "17"], [("exclusive", ["t3"])])
        assert next(row for row in glm.QueryLocks() if row.name == "job/9").pending == [("job", ["10", "11"])]
        one.Do(glm.SetOwnerName, None)
        one.Do(glm.release, LEVEL_CLUSTER)
        two.Do(glm.release, LEVEL_CLUSTER)
        waiting.Result()
        three.Do(glm.release, LEVEL_CLUSTER)
        one.Do(glm.acquire, LEVEL_CLUSTER, BGL)
        assert glm.QueryLocks()[0].owner == ["t1"]
        one.Do(glm.release, LEVEL_CLUSTER)
    del queue
    gc.collect()
    assert all(not row.name.startswith("job/") for row in glm.QueryLocks())


def test_recreated_locks_sort_by_age(glm: LockManager) -> None:
    with Cast("t1", "t2") as (one, two):
        for actor in (one, two):
            actor.Do(glm.acquire, LEVEL_CLUSTER, BGL, shared=1)
        one.Do(glm.add, LEVEL_NETWORK, "x", acquired=1)
        old = one.Do(lambda: glm._sets[LEVEL_NETWORK]._members["x"])
        one.Do(glm.remove, LEVEL_NETWORK, "x")
        two.Do(glm.add, LEVEL_NETWORK, "x", acquired=1)
        assert [row.mode for row in glm.QueryLocks() if row.name == "network/x"] == ["deleted", "exclusive"]
        del old
        gc.collect()
        assert [row.mode for row in glm.QueryLocks() if row.name == "network/x"] == ["exclusive"]
        two.Do(glm.release, LEVEL_NETWORK)
        for actor in (one, two):
            actor.Do(glm.release, LEVEL_CLUSTER)


@pytest.mark.req("D20-LOCK-02", "D20-LOCK-14", "D21-LOCK-19")
def test_random_operations_all_finish(seed: int) -> None:
    """M1, M3: whatever they lock, in whatever subsets, nobody waits for ever, and the BGL's owner is alone."""
    glm = LockManager([f"n{i}" for i in range(6)], ["g1", "g2"], [f"i{i}" for i in range(6)], ["w"])
    guard = threading.Lock()
    running = {"shared": 0, "exclusive": 0}

    def work(number: int) -> None:
        dice = random.Random(seed * 17 + number)
        for _ in range(15):
            alone = dice.random() < 0.15
            glm.acquire(LEVEL_CLUSTER, BGL, shared=int(not alone))
            mode = "exclusive" if alone else "shared"
            taken = []
            for level in LEVELS[1:]:
                if dice.random() < 0.5:
                    members = sorted(glm.Names(level))
                    whole = dice.random() < 0.3
                    names = ALL_SET if whole else dice.sample(members, dice.randint(1, len(members)))
                    if glm.acquire(level, names, shared=dice.randint(0, 1)) is not None:
                        taken.append(level)
            with guard:
                running[mode] += 1
                assert not running["exclusive"] or running == {"exclusive": 1, "shared": 0}
            with guard:
                running[mode] -= 1
            for level in reversed(taken):
                glm.release(level)
            glm.release(LEVEL_CLUSTER)

    with Cast(*[f"t{i}" for i in range(8)]) as actors:
        for promise in [actor.Start(work, index) for index, actor in enumerate(actors)]:
            promise.Result()
    assert all(row.owner is None and not row.pending for row in glm.QueryLocks())


@pytest.mark.req("D21-LOCK-01")
def test_giving_back_lets_the_third_one_go_first() -> None:
    """A holds i4, B wants all instances and gives up, C wants i1 and gets it long before A has finished."""
    glm = LockManager([], [], [f"i{i}" for i in range(1, 6)], [])
    with Cast("A", "B", "C") as (first, second, third):
        for actor in (first, second, third):
            actor.Do(glm.acquire, LEVEL_CLUSTER, BGL, shared=1)
        first.Do(glm.acquire, LEVEL_INSTANCE, "i4")
        attempt = second.Start(glm.acquire, LEVEL_INSTANCE, ALL_SET, timeout=2.0)
        Until(lambda: any("B" in (row.owner or ()) for row in glm.QueryLocks() if row.name == "instance/i1"))
        wanting = third.Start(glm.acquire, LEVEL_INSTANCE, "i1")
        assert attempt.Result() is None
        assert wanting.Result() == {"i1"}
        assert first.Do(glm.list_owned, LEVEL_INSTANCE) == {"i4"}
        for actor in (first, third):
            actor.Do(glm.release, LEVEL_INSTANCE)
        for actor in (first, second, third):
            actor.Do(glm.release, LEVEL_CLUSTER)
