"""What follows from a look at volume groups: the table and the conditions of doc/design-lvm-repair.rst, case by case."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ganeti.watcher import busy
from ganeti.watcher import volumegroups as vg
from ganeti.watcher.rows import Node
from ganeti.watcher.volumegroups import Event, Group, Guest, Job

NOW = 1_000_000.0
MINUTE = 60.0
ONE, TWO = ("pv1",), ("pv2",)
GOOD = Group("good", seen=NOW - 5 * MINUTE)
FIX = "ganeti:watcher:autorepair:fix-storage"


def Bad(age: float = 10 * MINUTE, gap: float = 5 * MINUTE, **more: Any) -> Group:
    return Group("bad", ONE, NOW - age, NOW - gap, "boot", **more)


REPAIRING = dataclasses.replace(Bad(40 * MINUTE), state="repairing", job=7)
FAILED = dataclasses.replace(REPAIRING, state="failed", reported=NOW - 3600)
NEW_BAD = Group("bad", ONE, NOW, NOW, "boot")
IS_GOOD = Group("good", seen=NOW)
GONE = Group("gone", since=NOW, seen=NOW)
OLD_GONE = dataclasses.replace(GONE, since=NOW - 3600)
RETURNED = Group("returned", ("/dev/sda",), NOW, NOW, "boot")

# Each row of the design's table: before, seen, the repair's job, what is remembered, what it means.
TABLE: list[tuple[str, Group | None, tuple[str, ...] | None, Job, Group | None, Event]] = [
    ("never seen, not known", None, None, Job.FAILED, None, Event.NOTHING),
    ("good, not known", GOOD, None, Job.FAILED, GOOD, Event.NOTHING),
    ("good, gone", GOOD, ("gone",), Job.FAILED, GONE, Event.GONE),
    ("bad, gone", Bad(40 * MINUTE), ("gone",), Job.FAILED, GONE, Event.GONE),
    ("repairing, gone", REPAIRING, ("gone",), Job.FAILED, REPAIRING, Event.NOTHING),
    ("failed, gone", FAILED, ("gone",), Job.FAILED, FAILED, Event.NOTHING),
    ("gone, gone", OLD_GONE, ("gone",), Job.FAILED, OLD_GONE, Event.NOTHING),
    ("gone, not known", OLD_GONE, None, Job.FAILED, OLD_GONE, Event.NOTHING),
    ("gone for a day", dataclasses.replace(GONE, since=NOW - 24 * 3600), ("gone",), Job.FAILED, None, Event.NOTHING),
    ("gone, good", OLD_GONE, (), Job.FAILED, IS_GOOD, Event.BACK),
    ("gone, bad", OLD_GONE, ONE, Job.FAILED, NEW_BAD, Event.LOST),
    ("bad, not known", Bad(), None, Job.FAILED, None, Event.NOTHING),
    ("repairing, not known", REPAIRING, None, Job.FAILED, REPAIRING, Event.NOTHING),
    ("failed, not known", FAILED, None, Job.FAILED, FAILED, Event.NOTHING),
    ("first sight, good", None, (), Job.FAILED, IS_GOOD, Event.NOTHING),
    ("first sight, bad", None, ONE, Job.FAILED, NEW_BAD, Event.LOST),
    ("good, good", GOOD, (), Job.FAILED, IS_GOOD, Event.NOTHING),
    ("bad, good", Bad(), (), Job.FAILED, IS_GOOD, Event.BACK),
    ("good, bad", GOOD, ONE, Job.FAILED, NEW_BAD, Event.LOST),
    ("bad, back in part", Bad(40 * MINUTE), ("/dev/sda",), Job.FAILED, RETURNED, Event.RETURNED),
    ("returned, the same", dataclasses.replace(RETURNED, since=NOW - 3600), ("/dev/sda",), Job.FAILED,
     dataclasses.replace(RETURNED, since=NOW - 3600), Event.NOTHING),
    ("returned, good", RETURNED, (), Job.FAILED, IS_GOOD, Event.BACK),
    ("returned, away again", RETURNED, ONE, Job.FAILED, NEW_BAD, Event.LOST),
    ("repairing, rejected as it is back", REPAIRING, ("/dev/sda",), Job.REJECTED, RETURNED, Event.REJECTED),
    ("bad, others", Bad(40 * MINUTE), TWO, Job.FAILED, dataclasses.replace(NEW_BAD, missing=TWO), Event.LOST),
    ("bad, one more", Bad(40 * MINUTE), ONE + TWO, Job.FAILED, dataclasses.replace(NEW_BAD, missing=ONE + TWO), Event.LOST),
    ("bad, too early", Bad(), ONE, Job.FAILED, dataclasses.replace(Bad(), seen=NOW), Event.NOTHING),
    ("bad, almost", Bad(29 * MINUTE), ONE, Job.FAILED, dataclasses.replace(Bad(29 * MINUTE), seen=NOW), Event.NOTHING),
    ("bad, long enough", Bad(30 * MINUTE), ONE, Job.FAILED, dataclasses.replace(Bad(30 * MINUTE), seen=NOW), Event.DUE),
    ("bad, a gap", Bad(40 * MINUTE, 16 * MINUTE), ONE, Job.FAILED, NEW_BAD, Event.NOTHING),
    ("bad, clock set back", Bad(40 * MINUTE, -1), ONE, Job.FAILED, NEW_BAD, Event.NOTHING),
    ("bad, rebooted", dataclasses.replace(Bad(40 * MINUTE), boot_id="old"), ONE, Job.FAILED, NEW_BAD, Event.LOST),
    ("repairing, good", REPAIRING, (), Job.DONE, IS_GOOD, Event.REPAIRED),
    ("repairing, good and failed", REPAIRING, (), Job.FAILED, IS_GOOD, Event.UNMIRRORED),
    ("repairing, back and rejected", REPAIRING, (), Job.REJECTED, IS_GOOD, Event.REJECTED),
    ("repairing, job not over", REPAIRING, ONE, Job.UNFINISHED, dataclasses.replace(REPAIRING, seen=NOW), Event.NOTHING),
    ("repairing, back before", REPAIRING, (), Job.UNFINISHED, dataclasses.replace(REPAIRING, seen=NOW), Event.NEEDLESS),
    ("repairing, rejected", REPAIRING, ONE, Job.REJECTED, NEW_BAD, Event.REJECTED),
    ("repairing, job failed", REPAIRING, ONE, Job.FAILED,
     dataclasses.replace(FAILED, seen=NOW, reported=NOW), Event.FAILURE),
    ("repairing, no effect", REPAIRING, ONE, Job.DONE,
     dataclasses.replace(FAILED, seen=NOW, reported=NOW), Event.FAILURE),
    ("repairing, others", REPAIRING, TWO, Job.FAILED,
     dataclasses.replace(FAILED, missing=TWO, seen=NOW, reported=NOW), Event.FAILURE),
    ("repairing, done, others", REPAIRING, TWO, Job.DONE, dataclasses.replace(NEW_BAD, missing=TWO), Event.LOST),
    ("repairing, done, one more", REPAIRING, ONE + TWO, Job.DONE,
     dataclasses.replace(FAILED, missing=ONE + TWO, seen=NOW, reported=NOW), Event.FAILURE),
    ("failed, bad", FAILED, ONE, Job.FAILED, dataclasses.replace(FAILED, seen=NOW), Event.NOTHING),
    ("failed, others", FAILED, TWO, Job.FAILED, dataclasses.replace(FAILED, missing=TWO, seen=NOW), Event.NOTHING),
    ("failed yesterday", dataclasses.replace(FAILED, reported=NOW - 24 * 3600), ONE, Job.FAILED,
     dataclasses.replace(FAILED, seen=NOW, reported=NOW), Event.STILL_FAILED),
    ("failed, good", FAILED, (), Job.FAILED, IS_GOOD, Event.BACK),
]  # fmt: skip


@pytest.mark.req("D20-DISK-14")
@pytest.mark.parametrize(
    ("before", "seen", "job", "after", "event"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_every_row_of_the_table(before: Any, seen: Any, job: Job, after: Any, event: Event) -> None:
    returned = seen if seen == ("/dev/sda",) else ()
    gone = seen == ("gone",)
    assert vg.Next(before, None if gone else seen, "boot", NOW, job, returned, gone) == (after, event)


def test_a_node_that_does_not_say_since_when_it_runs_is_not_known() -> None:
    assert vg.Next(Bad(40 * MINUTE), ONE, None, NOW) == (None, Event.NOTHING)


# --- any sequence of looks ----------------------------------------------------------------------------------------------

LOOKS = st.lists(
    st.tuples(
        st.sampled_from([None, (), ONE, ONE, ONE, ONE, TWO]),
        st.sampled_from(["boot", "boot", "boot", "boot", "again"]),
        st.sampled_from([5.0, 5.0, 5.0, 5.0, 14.0, 15.5, -3.0, 600.0]),
        st.sampled_from(list(Job)),
    ),
    max_size=40,
)


@pytest.mark.req("D20-DISK-14", "D20-DISK-15")
@given(LOOKS)
def test_a_repair_is_due_only_after_half_an_hour_of_equal_looks(looks: list[Any]) -> None:
    """Worked out anew from all looks, without anything that is remembered."""
    now, group = NOW, None
    past: list[tuple[float, Any, str]] = []
    for seen, boot_id, minutes, _job in looks:
        now += minutes * MINUTE
        group, event = vg.Next(group, seen, boot_id, now)
        past.append((now, seen, boot_id))
        run = [now]
        for earlier in reversed(past[:-1]):
            if earlier[1:] != (seen, boot_id) or not 0 <= run[-1] - earlier[0] <= 15 * MINUTE:
                break
            run.append(earlier[0])
        long = bool(seen) and now - run[-1] >= 30 * MINUTE
        assert (event is Event.DUE) == long


@pytest.mark.req("D20-DISK-15")
@given(LOOKS)
def test_after_a_repair_that_failed_there_is_none_until_the_group_was_good(looks: list[Any]) -> None:
    now, group = NOW, None
    failed = False
    reported: float | None = None
    for seen, boot_id, minutes, job in looks:
        now += abs(minutes) * MINUTE
        group, event = vg.Next(group, seen, boot_id, now, job)
        assert not (failed and event is Event.DUE)
        if event is Event.DUE and group is not None:
            group = dataclasses.replace(group, state="repairing", job=7)
        if event in (Event.FAILURE, Event.STILL_FAILED):
            assert reported is None or event is Event.FAILURE or now - reported >= 24 * 3600
            reported, failed = now, True
        if seen == ():
            failed = failed and group is not None and group.state != "good"
        if failed:
            assert group is not None and group.state == "failed"


# --- the conditions -----------------------------------------------------------------------------------------------------

NODES = [Node("n1", "boot"), Node("n2", "boot"), Node("n3", "boot")]
LOOK: dict[str, dict[str, tuple[str, ...]]] = {
    "n1": {"xenvg": ONE},
    "n2": {"xenvg": ()},
    "n3": {"xenvg": (), "sys": ()},
}


def test_one_node_is_bad_and_all_others_have_answered() -> None:
    known = {"n1": vg.Known({"xenvg": Bad()}), "n2": vg.Known({"xenvg": GOOD})}
    assert vg.Obstacle(NODES, LOOK, known, "n1", NOW) == ""


@pytest.mark.req("D20-DISK-15")
@pytest.mark.parametrize("node", ["n1", "n3"])
def test_not_if_a_group_is_gone_altogether(node: str) -> None:
    """Another one that the node still shows says nothing of it."""
    known = {node: vg.Known({"data": GONE, "sys": GOOD})}
    assert vg.Obstacle(NODES, LOOK, known, "n1", NOW) == f"node {node} has lost volume group data"


@pytest.mark.req("D20-DISK-15")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"n3": {"xenvg": (), "sys": TWO}}, "node n3 has a volume group with missing physical volumes too"),
        ({"n2": None}, "how the volume groups of node n2 are is not known"),
        ({"n2": {}}, "how the volume groups of node n2 are is not known"),
    ],
)
def test_not_if_another_node_is_bad_or_silent(changes: dict[str, Any], why: str) -> None:
    looks = {name: groups for name, groups in (LOOK | changes).items() if groups is not None}
    assert vg.Obstacle(NODES, looks, {}, "n1", NOW) == why


@pytest.mark.parametrize("change", [{"offline": True}, {"vm_capable": False}])
def test_nodes_that_are_offline_or_have_no_instances_need_not_answer(change: dict[str, bool]) -> None:
    nodes = [NODES[0], dataclasses.replace(NODES[1], **change), NODES[2]]
    looks = {name: groups for name, groups in LOOK.items() if name != "n2"}
    assert vg.Obstacle(nodes, looks, {}, "n1", NOW) == ""


@pytest.mark.parametrize(
    ("ago", "may"), [(24 * 3600.0, True), (24 * 3600.0 - 1, False), (1.0, False), (-3600.0, False)]
)
def test_a_second_disk_in_a_day_is_something_else(ago: float, may: bool) -> None:
    found = vg.Obstacle(NODES, LOOK, {"n1": vg.Known(repaired=NOW - ago)}, "n1", NOW)
    assert found == ("" if may else "a volume group of this node was repaired within the last 24 hours")


def Web(*tags: str, group: tuple[str, ...] = (), cluster: tuple[str, ...] = (), **more: Any) -> Guest:
    return Guest("web", "n1", "u-1", (tags, group, cluster), **{"in_group": True, **more})


OTHER = Web(FIX)
RECORD = "ganeti:watcher:autorepair:{}:fix-storage:id{}:900000:{}1"


@pytest.mark.parametrize(
    "guest",
    [
        Web(FIX),
        Web("other", group=(FIX,)),
        Web(cluster=("ganeti:watcher:autorepair:reinstall",)),
        Web(FIX, cluster=("ganeti:watcher:autorepair:suspend",)),
        Web(FIX, RECORD.format("result", 1, "success:")),
        Web("ganeti:watcher:autorepair:suspend:999999", FIX),
    ],
)
def test_repairs_that_tags_permit(guest: Guest) -> None:
    assert vg.ObstacleOnNode([guest], None, NOW) == ""


@pytest.mark.parametrize(
    ("guest", "why"),
    [
        (Web(), f"instance web: no tag {FIX} permits it"),
        (Web(f"{FIX}:x", "autorepair:fix-storage"), f"instance web: no tag {FIX} permits it"),
        (Web("ganeti:watcher:autorepair:suspend", FIX), "instance web: repairs are suspended by a tag"),
        (Web(f"ganeti:watcher:autorepair:suspend:{int(NOW) + 9}", FIX), "instance web: repairs are suspended by a tag"),
        (
            Web(group=("ganeti:watcher:autorepair:suspend",), cluster=(FIX,)),
            "instance web: repairs are suspended by a tag",
        ),
        (Web(FIX, RECORD.format("result", 1, "failure:")), "instance web: its tags say 'Failure'"),
        (Web(FIX, RECORD.format("pending", 1, "")), "instance web: its tags say 'Pending repair'"),
        (Web(FIX, busy="job 7 acts on it"), "instance web: job 7 acts on it"),
        (Web(FIX, busy="it is locked by job7", in_group=False), "instance web: it is locked by job7"),
        (Web(FIX, in_group=False), "no instance has a volume in it"),
    ],
)
def test_each_condition_of_the_instances(guest: Guest, why: str) -> None:
    assert vg.ObstacleOnNode([guest], None, NOW) == why
    fine = dataclasses.replace(OTHER, name="zzz", in_group=guest.in_group)
    assert vg.ObstacleOnNode([fine, guest], None, NOW) == why, "one of them is enough"


def test_tags_that_contradict_each_other() -> None:
    tags = (FIX, RECORD.format("pending", 1, ""), RECORD.format("result", 2, "success:"))
    assert "its tags contradict each other" in vg.ObstacleOnNode([Web(*tags)], None, NOW)


def test_an_instance_without_volumes_in_the_group_needs_no_tag() -> None:
    assert vg.ObstacleOnNode([Web(FIX), Web(in_group=False)], None, NOW) == ""


def test_a_node_without_instances_and_one_with_a_job() -> None:
    assert vg.ObstacleOnNode([], None, NOW) == "no instance has a volume in it"
    assert vg.ObstacleOnNode([OTHER], 12, NOW) == "job 12 acts on the node"


@pytest.mark.parametrize(
    ("op", "status", "found"),
    [
        ({"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "new", "pnode": "N1"}, "queued", 7),
        ({"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "remote_node": "n1.example.com"}, "waiting", 7),
        ({"OP_ID": "OP_TEST_DELAY", "on_nodes": ["uuid-1"]}, "running", 7),
        ({"OP_ID": "OP_X", "nested": [{"deep": {"node": "n1.example"}}]}, "canceling", 7),
        ({"OP_ID": "OP_NODE_QUERY_STORAGE", "nodes": ["n1"]}, "running", None),
        ({"OP_ID": "OP_NODE_REMOVE", "node_name": "n1"}, "success", None),
        ({"OP_ID": "OP_NODE_REMOVE", "node_name": "n2"}, "queued", None),
        ({"OP_ID": "OP_NODE_REMOVE", "node_name": "n10"}, "queued", None),
    ],
)
def test_jobs_that_name_the_node(op: dict[str, Any], status: str, found: int | None) -> None:
    words = set(busy.Words("n1.example.com", "UUID-1"))
    assert busy.ActingOn(words, [[7, status, [op], [status], None]]) == found


# --- the file -----------------------------------------------------------------------------------------------------------

GROUPS = st.builds(
    Group,
    st.sampled_from(vg.STATES),
    st.lists(st.text(max_size=5), min_size=1, max_size=3).map(tuple),
    st.floats(1, 1e11),
    st.floats(1, 1e11),
    st.text(min_size=1, max_size=8),
    st.integers(0, 10**9),
    st.floats(0, 1e11),
)


@given(st.builds(vg.Known, st.dictionaries(st.text(min_size=1, max_size=6), GROUPS, max_size=3), st.floats(0, 1e11)))
def test_what_is_remembered_comes_back(known: vg.Known) -> None:
    assert vg.Parse(vg.Dump(known), NOW) == known


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["state", "missing", "since", "seen", "boot_id", "job", "reported", "xenvg"]), x)))  # fmt: skip
def test_nonsense_is_left_out(value: Any) -> None:
    assume(not isinstance(value, dict) or "state" not in value)
    assert vg.Parse({"vgs": {"xenvg": value}}, NOW) == vg.NOTHING


@pytest.mark.parametrize("name", ["missing", "since", "seen", "boot_id"])
@pytest.mark.parametrize("value", [None, "", -1, [7]])
def test_what_is_not_whole_leads_to_no_repair(name: str, value: Any) -> None:
    def parsed(group: Group) -> vg.Known:
        return vg.Parse({"vgs": {"xenvg": {**group.ToDict(), name: value}}}, NOW)

    assert parsed(Bad(40 * MINUTE)) == vg.NOTHING
    for group in (REPAIRING, FAILED):
        found = parsed(group).groups["xenvg"]
        assert (found.state, found.job) == (group.state, 7)


@pytest.mark.parametrize("value", ["x", None, True, -1, [5]])
def test_a_repair_at_a_time_that_cannot_be_read_may_have_been_just_now(value: Any) -> None:
    assert vg.Parse({"repaired": value}, NOW).repaired == NOW
    assert vg.Parse({}, NOW).repaired == 0
