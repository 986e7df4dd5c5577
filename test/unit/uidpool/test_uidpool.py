"""The pool of user ids: texts, arithmetic, and handing out ids on a node (design 2.1)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nodes import MakeNodes, Node
from support.virtualnode import TOP

from ganeti import errors, pathutils, runtime, uidpool

# Ids that no process of the machine has; the own one is one that has.
FREE = [3_999_999_001, 3_999_999_002, 3_999_999_003]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (made,) = MakeNodes(tmp_path, "node1.example.org")
    with made:
        yield made


@pytest.mark.req("D21-UID-09", "D21-UID-03", "D21-UID-21")
@pytest.mark.parametrize(
    ("text", "pool"),
    [
        ("", []),
        (" ", []),
        ("5", [(5, 5)]),
        ("1000-2000,3000", [(1000, 2000), (3000, 3000)]),
        (" 1 - 2 , 3 ", [(1, 2), (3, 3)]),
        ("0-4294967295", [(0, 4294967295)]),
    ],
)
def test_texts(text: str, pool: list[tuple[int, int]]) -> None:
    assert uidpool.ParseUidPool(text) == pool
    assert uidpool.ParseUidPool(uidpool.FormatUidPool(pool)) == pool


@pytest.mark.req("D21-UID-10")
@pytest.mark.parametrize("text", ["x", "1-", "-1", "2-1", "1,,2", "4294967296", "1-2-3", "1.5", "٣", "9" * 70000])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(errors.OpPrereqError) as caught:
        uidpool.ParseUidPool(text)
    assert caught.value.args[1] == errors.ECODE_INVAL
    assert len(caught.value.args[0]) < 200


@pytest.mark.req("D21-UID-10")
@pytest.mark.parametrize(
    "pool", [None, [1], [[1, 2, 3]], [["1", "2"]], [[2, 1]], [[-1, 1]], [[0, 2**32]], [[True, True]]]
)
def test_pools_that_are_none(pool: Any) -> None:
    with pytest.raises(errors.OpPrereqError):
        uidpool.CheckUidPool(pool)


def test_the_published_form_reads_back() -> None:
    """One range per line, as ssconf has it."""
    pool = [(1000, 2000), (3000, 3000)]
    text = uidpool.FormatUidPool(pool, separator="\n")
    assert text == "1000-2000\n3000"
    assert uidpool.ParseUidPool(text, separator="\n") == pool


_POOLS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=5)


@pytest.mark.req("D21-UID-08")
@given(pool=_POOLS, change=_POOLS)
def test_adding_and_removing_are_set_arithmetic(pool: Any, change: Any) -> None:
    before, other = uidpool.ExpandUidPool(pool), uidpool.ExpandUidPool(change)
    added = uidpool.AddToUidPool(pool, change)
    assert uidpool.ExpandUidPool(added) == before | other
    uidpool.CheckUidPool(added)
    assert uidpool.ExpandUidPool(uidpool.RemoveFromUidPool(added, change)) == (before | other) - other
    if not other <= before:
        with pytest.raises(errors.OpPrereqError, match="is not in the user-id pool"):
            uidpool.RemoveFromUidPool(pool, change)
    elif change:
        assert uidpool.ExpandUidPool(uidpool.RemoveFromUidPool(pool, change)) == before - other


def test_what_is_removed_may_reach_over_adjacent_ranges() -> None:
    assert uidpool.RemoveFromUidPool([(18, 30), (31, 31), (40, 50)], [(19, 31)]) == [(18, 18), (40, 50)]
    with pytest.raises(errors.OpPrereqError, match="19-32 to be removed is not in the user-id pool"):
        uidpool.RemoveFromUidPool([(18, 30), (31, 31), (40, 50)], [(19, 32)])


def test_a_pool_too_large_to_be_used() -> None:
    with pytest.raises(errors.ConfigurationError, match="4294967296 ids"):
        uidpool.ExpandUidPool([(0, 2**32 - 1)])


@pytest.mark.req("D21-UID-02", "D21-UID-14")
def test_an_id_in_hand_is_not_handed_out_twice(node: Node) -> None:
    taken = [uidpool.RequestUnusedUid(FREE) for _ in FREE]
    assert sorted(uid.uid for uid in taken) == FREE
    assert sorted(os.listdir(pathutils.UIDPOOL_LOCK_DIR)) == sorted(map(str, FREE))
    with pytest.raises(errors.LockError, match="No unused user id in the pool of 3"):
        uidpool.RequestUnusedUid(FREE)
    uidpool.ReleaseUid(taken[0])
    assert uidpool.RequestUnusedUid(FREE).uid == taken[0].uid


@pytest.mark.req("D21-UID-02", "D21-UID-15", "D21-UID-16")
def test_an_id_that_a_process_has_is_not_handed_out(node: Node) -> None:
    mine = os.getuid()
    with pytest.raises(errors.LockError):
        uidpool.RequestUnusedUid({mine})
    assert uidpool.RequestUnusedUid({mine, FREE[0]}).uid == FREE[0]
    with runtime.LockFile(f"{pathutils.UIDPOOL_LOCK_DIR}/{mine}", timeout=0):
        pass  # it was unlocked again


def test_a_process_with_a_name_of_any_bytes_hinders_nobody(node: Node) -> None:
    """Every user may call a process of his so."""
    named = r"printf '\377x' > /proc/$$/comm; echo; read line"
    with subprocess.Popen(["sh", "-c", named], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        assert uidpool.RequestUnusedUid({FREE[0]}).uid == FREE[0]
        process.stdin.close()


def test_an_empty_pool_has_no_id_to_hand_out(node: Node) -> None:
    with pytest.raises(errors.LockError):
        uidpool.RequestUnusedUid([])


@pytest.mark.req("D21-UID-19")
def test_an_id_is_released_without_a_look_at_processes(node: Node) -> None:
    """This very process has the id: whoever releases it knows better."""
    mine = os.getuid()
    os.makedirs(pathutils.UIDPOOL_LOCK_DIR, exist_ok=True)
    path = f"{pathutils.UIDPOOL_LOCK_DIR}/{mine}"
    with open(path, "w", encoding="ascii"):
        pass
    uidpool.ReleaseUid(mine)
    assert not os.path.exists(path)
    with pytest.raises(errors.LockError):
        uidpool.RequestUnusedUid({mine})


@pytest.mark.req("D21-UID-17")
def test_the_file_stays_until_the_id_is_released(node: Node) -> None:
    uid = uidpool.RequestUnusedUid(FREE[:1])
    uid.Unlock()
    assert os.listdir(pathutils.UIDPOOL_LOCK_DIR) == [str(FREE[0])]
    again = uidpool.RequestUnusedUid(FREE[:1])
    assert (again.uid, str(again)) == (FREE[0], str(FREE[0]))
    again.Unlock()
    uidpool.ReleaseUid(FREE[0])
    assert os.listdir(pathutils.UIDPOOL_LOCK_DIR) == []
    uidpool.ReleaseUid(FREE[0])


@pytest.mark.req("D21-UID-18", "D21-UID-13")
def test_ids_without_a_file_come_first_and_in_any_order(node: Node) -> None:
    hinted = FREE[0]
    uidpool.RequestUnusedUid([hinted]).Unlock()
    orders = set()
    for _ in range(30):
        first = uidpool.RequestUnusedUid(FREE)
        second = uidpool.RequestUnusedUid(FREE)
        orders.add((first.uid, second.uid))
        uidpool.ReleaseUid(first)
        uidpool.ReleaseUid(second)
    assert orders == {(FREE[1], FREE[2]), (FREE[2], FREE[1])}


@pytest.mark.req("D21-UID-14")
def test_another_process_sees_the_lock(node: Node) -> None:
    uid = uidpool.RequestUnusedUid(FREE[:1])
    code = f"from ganeti import errors, uidpool\ntry: uidpool.RequestUnusedUid([{FREE[0]}])\nexcept errors.LockError: print('busy')"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True, cwd=TOP
    ).stdout
    assert output == "busy\n"
    uid.Unlock()


@pytest.mark.req("D21-UID-20")
def test_running_something_with_a_fresh_id(node: Node) -> None:
    assert uidpool.ExecWithUnusedUid(lambda uid, more: (uid, more), FREE[:1], "x") == (FREE[0], "x")
    assert os.listdir(pathutils.UIDPOOL_LOCK_DIR) == [str(FREE[0])]
    with runtime.LockFile(f"{pathutils.UIDPOOL_LOCK_DIR}/{FREE[0]}", timeout=0):
        pass  # it is unlocked

    def fails(uid: int) -> None:
        raise KeyError(uid)

    with pytest.raises(KeyError):
        uidpool.ExecWithUnusedUid(fails, FREE[:1])
    assert os.listdir(pathutils.UIDPOOL_LOCK_DIR) == []
