"""LockSet: stories of doc/reference/locking.md 3 and invariants S1 to S10."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.actors import Actor, Cast, Promise, Until

from ganeti import errors
from ganeti.locking import ALL_SET, LockMonitor, LockSet


class _Stage:
    """A set and its monitor, for looking at it from outside."""

    def __init__(self, *members: str):
        self.monitor = LockMonitor()
        self.locks = LockSet(members, "level", self.monitor)

    def Mode(self, member: str) -> str | None:
        return next(row.mode for row in self.monitor.Rows() if row.name == f"level/{member}")

    def Waiting(self, member: str) -> list[str]:
        rows = [row for row in self.monitor.Rows() if row.name == f"level/{member}" and row.mode != "deleted"]
        return [name for row in rows for _, names in row.pending for name in names]

    def Held(self) -> set[str]:
        return {row.name.removeprefix("level/") for row in self.monitor.Rows() if row.owner}

    def Queue(self, actor: Actor, member: str, what: Any, *args: Any, **kwargs: Any) -> Promise:
        promise = actor.Start(what, *args, **kwargs)
        Until(lambda: actor.name in self.Waiting(member))
        return promise


@pytest.mark.req("D21-LOCK-02", "D21-LOCK-03", "D20-LOCK-05", "D20-LOCK-08")
def test_members_are_taken_in_order_of_their_names() -> None:
    stage = _Stage("c", "a", "b", "d")
    locks = stage.locks
    with Cast("a1", "a2", "a3") as (one, two, three):
        one.Do(locks.acquire, "c")
        both = stage.Queue(two, "c", locks.acquire, ["d", "c", "a", "c", "b"])
        assert stage.Held() == {"a", "b", "c"}
        blocked = stage.Queue(three, "b", locks.acquire, ["c", "b"])
        one.Do(locks.release)
        assert both.Result() == {"a", "b", "c", "d"}
        assert two.Do(locks.list_owned) == {"a", "b", "c", "d"}
        two.Do(locks.release)
        assert blocked.Result() == {"b", "c"}
        three.Do(locks.release)
        assert stage.Held() == set()


@pytest.mark.req("D21-LOCK-05", "D21-LOCK-07")
def test_timeout_gives_everything_back() -> None:
    stage = _Stage("a", "b", "c")
    locks = stage.locks
    with Cast("h", "m") as (holder, me):
        holder.Do(locks.acquire, "b", shared=1)
        assert me.Do(locks.acquire, ["a", "b", "c"], timeout=0.02) is None
        assert stage.Held() == {"b"}
        assert me.Do(locks.is_owned) is False and me.Do(locks.list_owned) == set()
        assert me.Do(locks.acquire, ALL_SET, timeout=0.02) is None
        assert stage.Held() == {"b"}
        assert me.Do(locks.owning_all) is False
        assert me.Do(locks.acquire, ["a", "b"], shared=1, timeout=0) == {"a", "b"}
        me.Do(locks.release)
        holder.Do(locks.release)


def test_missing_member() -> None:
    stage = _Stage("a", "b")
    locks = stage.locks
    with Cast("m", "r") as (me, remover):
        with pytest.raises(errors.LockError, match=r"'x' not found in set 'level' \(it may have been removed\)"):
            me.Do(locks.acquire, ["a", "x"])
        assert stage.Held() == set()
        # One that disappears while we wait for it.
        remover.Do(locks.acquire, "b")
        waiting = stage.Queue(me, "b", locks.acquire, ["a", "b"])
        assert remover.Do(locks.remove, "b") == ["b"]
        with pytest.raises(errors.LockError, match="'b' not found"):
            waiting.Result()
        assert stage.Held() == set()
        assert remover.Do(locks.is_owned) is False


@pytest.mark.req("D20-LOCK-15")
def test_whole_set_passes_over_what_disappears() -> None:
    stage = _Stage("a", "b", "c")
    locks = stage.locks
    with Cast("m", "r") as (me, remover):
        remover.Do(locks.acquire, "b")
        waiting = stage.Queue(me, "b", locks.acquire, ALL_SET, shared=1)
        assert remover.Do(locks.remove, "b") == ["b"]
        assert waiting.Result() == {"a", "c"}
        assert me.Do(locks.owning_all) is True
        me.Do(locks.release, ["a"])
        assert me.Do(locks.owning_all) is False
        assert me.Do(locks.list_owned) == {"c"}
        me.Do(locks.release)


def test_the_whole_set_is_what_exists_when_the_set_lock_is_held() -> None:
    """A member that is added while somebody waits for the whole set is part of it."""
    stage = _Stage("a")
    locks = stage.locks
    with Cast("o", "m") as (owner, me):
        owner.Do(locks.acquire, ALL_SET)
        waiting = stage.Queue(me, "[lockset]", locks.acquire, ALL_SET)
        owner.Do(locks.add, ["new"])
        owner.Do(locks.remove, ["a"])
        owner.Do(locks.release)
        assert waiting.Result() == {"new"}
        assert stage.Held() == {"new", "[lockset]"}
        me.Do(locks.release)


@pytest.mark.req("D20-LOCK-17", "D20-LOCK-18")
@pytest.mark.parametrize("shared", [0, 1])
def test_add_waits_for_holders_of_the_whole_set(shared: int) -> None:
    stage = _Stage("a")
    locks = stage.locks
    with Cast("m", "o") as (me, other):
        assert me.Do(locks.acquire, ALL_SET, shared=shared) == {"a"}
        assert other.Do(locks.add, "late", timeout=0.02) is False
        adding = stage.Queue(other, "[lockset]", locks.add, ["new"], acquired=1, shared=1)
        if shared:
            with pytest.raises(AssertionError):
                me.Do(locks.add, "mine")
        else:
            assert me.Do(locks.add, "mine", acquired=1) is True
            assert me.Do(locks.list_owned) == {"a", "mine"}
        me.Do(locks.release)
        assert adding.Result() is True
        assert other.Do(locks.list_owned) == {"new"}
        assert other.Do(locks.check_owned, "new", shared=1) is True
        assert other.Do(locks.owning_all) is False
        other.Do(locks.release)
        assert locks.Names() == ({"a", "new"} if shared else {"a", "mine", "new"})


def test_add_of_an_existing_name_adds_nothing() -> None:
    stage = _Stage("a", "b")
    with pytest.raises(errors.LockError, match="already exist in set 'level': a, b"):
        stage.locks.add(["c", "b", "a"], acquired=1)
    assert stage.locks.Names() == {"a", "b"}
    assert not stage.locks.is_owned() and stage.Held() == set()
    stage.locks.acquire("a")
    with pytest.raises(AssertionError):
        stage.locks.add("c")
    stage.locks.release()


def test_opportunistic_takes_what_is_free() -> None:
    stage = _Stage("a", "b", "c", "d")
    locks = stage.locks
    with Cast("h", "m") as (holder, me):
        holder.Do(locks.acquire, ["b", "d"], shared=1)
        assert me.Do(locks.acquire, ["a", "b", "gone", "c"], opportunistic=True) == {"a", "c"}
        me.Do(locks.release)
        assert me.Do(locks.acquire, ALL_SET, opportunistic=True) == {"a", "c"}
        assert me.Do(locks.owning_all) is True
        me.Do(locks.release)
        assert me.Do(locks.acquire, ["b", "d"], opportunistic=True) == set()
        assert me.Do(locks.is_owned) is True
        me.Do(locks.release)
        with pytest.raises(AssertionError):
            me.Do(locks.acquire, ["a"], opportunistic=True, timeout=1.0)
        holder.Do(locks.release)
        # The timeout counts for the set-lock.
        holder.Do(locks.acquire, ALL_SET)
        assert me.Do(locks.acquire, ALL_SET, opportunistic=True, timeout=0.02) is None
        assert me.Do(locks.is_owned) is False
        holder.Do(locks.release)


def test_downgrade_of_parts_and_of_the_whole() -> None:
    stage = _Stage("a", "b")
    locks = stage.locks
    with Cast("m", "o") as (me, other):
        me.Do(locks.acquire, ALL_SET)
        me.Do(locks.downgrade, ["a"])
        assert [stage.Mode(m) for m in ("a", "b", "[lockset]")] == ["shared", "exclusive", "exclusive"]
        me.Do(locks.downgrade)
        assert [stage.Mode(m) for m in ("a", "b", "[lockset]")] == ["shared", "shared", "shared"]
        assert other.Do(locks.acquire, ALL_SET, shared=1, timeout=0) == {"a", "b"}
        other.Do(locks.release)
        me.Do(locks.release)


@pytest.mark.req("D20-LOCK-19")
def test_two_removers_of_one_name() -> None:
    stage = _Stage("a", "b", "c")
    locks = stage.locks
    with Cast("h", "r1", "r2") as (holder, first, second):
        holder.Do(locks.acquire, "a")
        promises = [stage.Queue(actor, "a", locks.remove, ["a", "b"]) for actor in (first, second)]
        holder.Do(locks.release)
        removed = [promise.Result() for promise in promises]
        assert sorted(name for names in removed for name in names) == ["a", "b"]
        assert locks.Names() == {"c"}
        assert locks.remove("nothing") == []
        holder.Do(locks.acquire, ["c"])
        with pytest.raises(AssertionError):
            holder.Do(locks.remove, ["c", "other"])
        holder.Do(locks.release)


def test_wrong_use() -> None:
    locks = _Stage("a", "b").locks
    for call in (locks.release, locks.downgrade):
        with pytest.raises(AssertionError):
            call()
    assert locks.check_owned("a") is False
    locks.acquire("a")
    assert locks.check_owned("a", shared=0) and not locks.check_owned(["a", "b"]) and not locks.check_owned([])
    with pytest.raises(errors.LockError, match="Non-existing lock"):
        locks.check_owned("x")
    with pytest.raises(AssertionError):
        locks.acquire("b")
    with pytest.raises(AssertionError):
        locks.release(["a", "b"])
    assert locks.list_owned() == {"a"}
    locks.release("a")


# --- generated cases -----------------------------------------------------------------------------------------------------

_NAMES = ["a", "b", "c", "d", "e"]
_STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["acquire", "all", "release", "part", "add", "remove", "downgrade", "some"]),
        st.sets(st.sampled_from(_NAMES), min_size=1),
        st.booleans(),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(steps=_STEPS)
def test_ownership_is_what_the_members_say(steps: list[tuple[int, str, set[str], bool]]) -> None:
    """S1 to S4, S6, S7, S10 in any order of calls that do not wait."""
    stage = _Stage("a", "b", "c")
    locks = stage.locks

    def holders(member: str) -> set[str]:
        rows = [r for r in stage.monitor.Rows() if r.name == f"level/{member}" and r.mode != "deleted"]
        return {name for row in rows for name in row.owner or ()}

    with Cast("0", "1", "2", "3") as actors:
        owned: dict[str, set[str]] = {actor.name: set() for actor in actors}
        for number, what, names, shared in steps:
            actor = actors[number]
            mine = owned[actor.name]
            owns = actor.Do(locks.is_owned)
            exists = locks.Names()
            others = {n for n in _NAMES if holders(n) - {actor.name}}
            if what in ("acquire", "all", "some") and not owns:
                wanted = ALL_SET if what == "all" else names
                before = stage.Held()
                if what == "acquire" and (missing := names - exists):
                    assert missing
                    with pytest.raises(errors.LockError):
                        # Members before the missing one may be taken by others: then it is a timeout, and no error.
                        if actor.Do(locks.acquire, wanted, timeout=0, shared=int(shared)) is None:
                            raise errors.LockError("")
                    assert stage.Held() == before
                    continue
                got = actor.Do(
                    locks.acquire,
                    wanted,
                    timeout=None if what == "some" else 0,
                    shared=int(shared),
                    opportunistic=what == "some",
                )
                if got is None:
                    assert stage.Held() == before and not actor.Do(locks.is_owned)
                    continue
                owned[actor.name] = set(got)
                if what == "acquire":
                    assert got == names
                elif what == "all":
                    assert got == exists and actor.Do(locks.owning_all)
                else:
                    assert got <= names and names - got <= others | (names - exists)
            elif what == "release" and owns:
                actor.Do(locks.release)
                owned[actor.name] = set()
            elif what == "part" and owns and mine:
                actor.Do(locks.release, mine & names)
                owned[actor.name] = mine - names
                assert not actor.Do(locks.owning_all)
            elif what == "downgrade" and owns:
                actor.Do(locks.downgrade, mine & names)
            elif what == "remove" and owns and names <= mine:
                if all(actor.Do(locks.check_owned, n, shared=0) for n in names):
                    assert actor.Do(locks.remove, names) == sorted(names)
                    owned[actor.name] = mine - names
            elif what == "add" and (
                not owns or (actor.Do(locks.owning_all) and stage.Mode("[lockset]") == "exclusive")
            ):
                if holders("[lockset]") - {actor.name}:
                    assert actor.Do(locks.add, names, timeout=0) is False
                elif names & exists:
                    with pytest.raises(errors.LockError):
                        actor.Do(locks.add, names, acquired=1)
                    assert locks.Names() == exists
                else:
                    assert actor.Do(locks.add, names, acquired=1, shared=int(shared)) is True
                    owned[actor.name] = mine | names
                    assert locks.Names() == exists | names
            for other in actors:
                assert other.Do(locks.list_owned) == owned[other.name]
                assert {n for n in _NAMES if other.name in holders(n)} == owned[other.name]


@pytest.mark.req("D20-LOCK-01", "D20-LOCK-02", "D20-LOCK-03", "D20-LOCK-26")
def test_contention_of_many_threads(seed: int) -> None:
    """Random acquirers, adders and removers all finish, and no member is ever held against the rules."""
    stage = _Stage(*"abcdefgh")
    locks = stage.locks
    guard = threading.Lock()
    writers: dict[str, int] = {}
    readers: dict[str, int] = {}

    def enter(names: set[str], shared: bool, step: int) -> None:
        with guard:
            for name in names:
                table = readers if shared else writers
                table[name] = table.get(name, 0) + step
                assert writers.get(name, 0) <= 1 and not (writers.get(name, 0) and readers.get(name, 0))

    def work(number: int) -> None:
        dice = random.Random(seed * 31 + number)
        own = 0
        for _ in range(40):
            action = dice.random()
            if action < 0.1:
                own += 1
                locks.add(f"{number}-{own}")
            elif action < 0.2 and own:
                locks.remove([f"{number}-{own}"])
                own -= 1
            else:
                names: Any = ALL_SET if action < 0.35 else dice.sample("abcdefgh", dice.randint(1, 5))
                shared = dice.random() < 0.5
                opportunistic = dice.random() < 0.2
                timeout = None if opportunistic else dice.choice([None, None, 0, 0.002])
                got = locks.acquire(names, timeout, int(shared), dice.choice([None, -4]), opportunistic)
                if got is None:
                    assert not locks.is_owned()
                    continue
                enter(got, shared, 1)
                enter(got, shared, -1)
                locks.release()

    with Cast(*[f"t{i}" for i in range(10)]) as actors:
        for promise in [actor.Start(work, index) for index, actor in enumerate(actors)]:
            promise.Result()
    assert stage.Held() == set()
    assert all(not row.pending for row in stage.monitor.Rows())


# --- taking some and making others ------------------------------------------------------------------------------------------


def test_members_are_made_beside_others_that_are_taken() -> None:
    stage = _Stage("a", "c")
    locks = stage.locks
    with Cast("renames", "creates") as (one, two):
        assert one.Do(locks.AcquireAndAdd, "a", "b")
        assert one.Do(locks.list_owned) == {"a", "b"}
        # Others make members meanwhile, as nobody has the whole set.
        assert two.Do(locks.add, "d", 1)
        one.Do(locks.remove, "a")
        assert one.Do(locks.list_owned) == {"b"} and locks.Names() == {"b", "c", "d"}
        one.Do(locks.release)
        two.Do(locks.release)
        assert stage.Held() == set()


def test_whoever_takes_the_whole_set_does_not_come_in_between() -> None:
    """It would have "a", wait for "b" that was made, and be waited for."""
    stage = _Stage("a", "c")
    locks = stage.locks
    with Cast("busy", "renames", "whole") as (busy, one, whole):
        busy.Do(locks.acquire, "a")
        renaming = stage.Queue(one, "a", locks.AcquireAndAdd, "a", "b")
        everything = stage.Queue(whole, "[lockset]", locks.acquire, ALL_SET)
        busy.Do(locks.release)
        assert renaming.Result() is True
        one.Do(locks.remove, "a")
        one.Do(locks.release)
        assert everything.Result() == {"b", "c"}
        whole.Do(locks.release)


def test_nothing_is_made_when_the_others_are_not_free_in_time_or_gone() -> None:
    stage = _Stage("a", "b", "c")
    locks = stage.locks
    with Cast("busy", "renames") as (busy, one):
        busy.Do(locks.acquire, "b")
        assert one.Do(locks.AcquireAndAdd, ["a", "b"], "d", 0.01) is False
        with pytest.raises(errors.LockError, match="'e' not found"):
            one.Do(locks.AcquireAndAdd, ["a", "e"], "d")
        with pytest.raises(errors.LockError, match="already exist"):
            one.Do(locks.AcquireAndAdd, "a", ["c", "d"])
        assert stage.Held() == {"b"} and locks.Names() == {"a", "b", "c"}
        assert not one.Do(locks.is_owned)
        busy.Do(locks.release)


def test_nothing_is_made_while_somebody_has_the_whole_set() -> None:
    stage = _Stage("a", "b")
    locks = stage.locks
    with Cast("whole", "renames") as (whole, one):
        whole.Do(locks.acquire, ALL_SET)
        assert one.Do(locks.AcquireAndAdd, "a", "d", 0.01) is False
        assert not one.Do(locks.is_owned) and locks.Names() == {"a", "b"}
        whole.Do(locks.release)
        assert one.Do(locks.AcquireAndAdd, "a", "d", 0.01) is True
        one.Do(locks.release)
    assert stage.Held() == set()
