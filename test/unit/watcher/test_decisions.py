"""What the watcher decides, from rows alone: whatever the rows say, some things never happen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import opcodes
from ganeti.watcher import busy, decisions, master, state
from ganeti.watcher.decisions import Action
from ganeti.watcher.rows import Instance, Instances, Node, Nodes

GROUP = "g1"
_STATUSES = (
    "running", "ADMIN_down", "ADMIN_offline", "ERROR_down", "USER_down", "ERROR_up", "ERROR_wrongnode",
    "ERROR_nodedown", "ERROR_nodeoffline", "ERROR_unresponsive", "migrating", "",
)  # fmt: skip
_NODES = ("n1", "n2", "n3")
_NAMES = tuple(f"inst{n}.example.com" for n in range(6))


def Inst(name: str = "web.example.com", status: str = "ERROR_down", admin: str = "up", **more: object) -> Instance:
    values = {"uuid": f"uuid-of-{name}", "disks_active": True, "primary": "n1", "groups": frozenset([GROUP]),
              "group_names": frozenset(["default"]), **more}  # fmt: skip
    return Instance(name=name, status=status, admin_state=admin, **values)  # type: ignore[arg-type]


@st.composite
def _Instances(draw: st.DrawFn) -> list[Instance]:
    return [
        Inst(
            name,
            draw(st.sampled_from(_STATUSES)),
            draw(st.sampled_from(("up", "down", "offline"))),
            disks_active=draw(st.booleans()),
            secondaries=tuple(draw(st.sets(st.sampled_from(_NODES[1:]), max_size=2))),
            groups=frozenset(draw(st.sets(st.sampled_from([GROUP, "g2"]), min_size=1))),
        )
        for name in draw(st.sets(st.sampled_from(_NAMES)))
    ]


_BUSY = st.dictionaries(st.sampled_from(_NAMES), st.just("job 7 acts on it"))
_TRIES = st.dictionaries(
    st.sampled_from(_NAMES), st.builds(state.Tries, st.integers(0, 7), st.just(1.0), st.integers(0, 7), st.just(1.0))
)


@given(_Instances(), _BUSY, _TRIES)
def test_only_what_may_be_touched_is_touched(instances, reasons, tries):
    known = {instance.name: instance for instance in instances}
    for decision in decisions.Decide(instances, reasons, tries):
        instance = known[decision.instance]
        before = tries.get(instance.name, state.NONE)
        if decision.action in (Action.START, Action.CLEAN_UP, Action.GIVE_UP):
            assert instance.name not in reasons
            assert instance.groups == {GROUP} or instance.groups == {"g2"}
        if decision.action is Action.START:
            assert instance.status == "ERROR_down" and before.restart_count < decisions.MAX_TRIES
        if decision.action is Action.CLEAN_UP:
            assert instance.status == "USER_down" and instance.admin_state != "down"
            assert before.cleanup_count < decisions.MAX_TRIES
        assert decision.why


@given(_Instances(), _TRIES)
def test_what_should_run_and_nothing_prevents_is_started(instances, tries):
    found = {d.instance: d.action for d in decisions.Decide(instances, {}, tries)}
    for instance in instances:
        count = tries.get(instance.name, state.NONE).restart_count
        if instance.status == "ERROR_down" and len(instance.groups) == 1 and count < decisions.MAX_TRIES:
            assert found[instance.name] is Action.START


def test_a_guest_that_never_starts_is_tried_five_times_and_given_up_once():
    instance, tries, actions = Inst(), state.NONE, []
    for run in range(8):
        [decision] = decisions.Decide([instance], {}, {instance.name: tries})
        actions.append(decision.action)
        if decision.action is not Action.LEAVE:
            tries = decisions.WithTry(tries, instance, float(run))
    assert actions == [Action.START] * 5 + [Action.GIVE_UP] + [Action.LEAVE] * 2


def test_tries_are_forgotten_when_it_runs_again_or_nobody_can_see():
    for status in ("running", "ADMIN_down", "ERROR_nodedown"):
        [decision] = decisions.Decide([Inst(status=status)], {}, {"web.example.com": state.Tries(3, 1.0)})
        assert decision.action is Action.FORGET
        assert decisions.Decide([Inst(status=status)], {}, {}) == []


def test_instances_on_nodes_of_several_groups_are_left_alone():
    [decision] = decisions.Decide([Inst(groups=frozenset(["g1", "g2"]))], {}, {})
    assert (decision.action, decision.why) == (Action.LEAVE, "its nodes are in several groups")


# --- disks --------------------------------------------------------------------------------------------------------------


@given(_Instances(), _BUSY, st.sets(st.sampled_from(_NAMES)), st.data())
def test_disks_are_activated_where_a_node_was_booted(instances, reasons, started, data):
    nodes = [Node(name, data.draw(st.sampled_from([None, "old", "new"])), data.draw(st.booleans())) for name in _NODES]
    stored = dict.fromkeys(data.draw(st.sets(st.sampled_from((*_NODES, "gone")))), "old")
    found = decisions.DecideDisks(instances, nodes, reasons, started, stored)
    booted = {n.name for n in nodes if not n.offline and n.boot_id and stored.get(n.name) != n.boot_id}
    for instance in instances:
        if instance.name in found.activate:
            assert instance.disks_active and instance.name not in reasons and instance.name not in started
            assert len(instance.groups) == 1, "nobody looks at the nodes of the other group here"
            assert booted.intersection(instance.secondaries)
        elif instance.disks_active and len(instance.groups) == 1 and instance.name not in started:
            # Nothing is lost: who could not be helped now is looked at in the next run.
            for node in booted.intersection(instance.secondaries):
                assert instance.name in reasons and node in found.postponed
                assert found.boot_ids.get(node) == stored.get(node)
    assert "gone" not in found.boot_ids
    for node in nodes:
        if node.name in booted and node.name not in found.postponed:
            assert found.boot_ids[node.name] == node.boot_id
        elif node.name not in booted:
            assert found.boot_ids.get(node.name) == stored.get(node.name)


def test_reported_disks_are_activated_unless_their_nodes_are_gone():
    instances = [
        Inst("a.example.com", "running", secondaries=("n2",)),
        Inst("b.example.com", "ERROR_nodedown"),
        Inst("c.example.com", "running", secondaries=("n3",)),
        Inst("d.example.com", "running"),
        Inst("f.example.com", "ADMIN_down", "down", disks_active=False, secondaries=("n2",)),
    ]
    nodes = [Node("n1", "x"), Node("n2", "x"), Node("n3", None, offline=True)]
    reported = [f"{letter}.example.com" for letter in "abcdef"]
    activate, left = decisions.DecideRepair(instances, nodes, {"d.example.com": "job 1 acts on it"}, reported)
    assert activate == [instances[0]]
    assert left == {
        "b.example.com": "its status is ERROR_nodedown",
        "c.example.com": "its secondary node is offline",
        "d.example.com": "job 1 acts on it",
        "e.example.com": "it does not exist in this group",
        "f.example.com": "it does not use its disks any longer",
    }


# --- busy instances -----------------------------------------------------------------------------------------------------


def Job(op: dict[str, object], status: str = "queued", job_id: int = 7, opstatus: str | None = None) -> list[object]:
    return [job_id, status, [op], [opstatus or status], [100, 500_000] if status == "success" else None]


@pytest.mark.parametrize(
    "op",
    [
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web.example.com"},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web"},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web.example"},
        {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "x", "instance_uuid": "uuid-of-web.example.com"},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "WEB.example.com"},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "Web"},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "uuid-of-web.example.com"},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "uuid-of-web.example.com", "instance_uuid": None},
        {"OP_ID": "OP_INSTANCE_CHANGE_GROUP", "instance_name": "Web.Example", "target_groups": ["other"]},
        {"OP_ID": "OP_INSTANCE_SETTLE_MIRRORS", "instance_name": "web"},
        {"OP_ID": "OP_SOMETHING_NEW", "instances": ["web.example.com"]},
        {"OP_ID": "OP_SOMETHING_NEW", "instances": ["uuid-of-web.example.com"]},
        {"OP_ID": "OP_INSTANCE_MULTI_ALLOC", "instances": [{"instance_name": "Web"}]},
        {"OP_ID": "OP_INSTANCE_MULTI_ALLOC", "instances": [{"instance_name": "web.example.com"}]},
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": "n1"},
        {"OP_ID": "OP_NODE_EVACUATE", "node_name": "n2"},
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": "uuid-of-n1"},
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": "n9", "node_uuid": "uuid-of-n1"},
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": "N1"},
        {"OP_ID": "OP_NODE_EVACUATE", "node_name": "uuid-of-n2.example.com"},
        {"OP_ID": "OP_NODE_EVACUATE", "node_name": "N2.Example"},
        {"OP_ID": "OP_NODE_EVACUATE", "node_name": "n2.example.com"},
        {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "uuid-of-n2.example.com", "offline": True},
        {"OP_ID": "OP_OOB_COMMAND", "node_names": ["n9", "n1"]},
        {"OP_ID": "OP_OOB_COMMAND", "node_names": ["n9", "uuid-of-n1"]},
        {"OP_ID": "OP_OOB_COMMAND", "node_names": ["n9"], "node_uuids": ["uuid-of-n9", "uuid-of-n1"]},
        {"OP_ID": "OP_OOB_COMMAND", "node_names": [], "command": "power-off"},
        {"OP_ID": "OP_GROUP_EVACUATE", "group_name": "default"},
        {"OP_ID": "OP_GROUP_EVACUATE", "group_name": GROUP},
        {"OP_ID": "OP_CLUSTER_DESTROY"},
    ],
)
def test_a_job_that_is_about_to_act_on_an_instance_keeps_the_watcher_off(op):
    assert _Busy(Job(op)) == {"web.example.com": "job 7 acts on it"}


_NODE_UUIDS = {name: f"uuid-of-{name}" for name in ("n1", "n2.example.com", "n9")}


def _Busy(job: list[object]) -> dict[str, str]:
    return busy.Find([Inst(secondaries=("n2.example.com",))], [], [job], 100.0, _NODE_UUIDS)


# Opcodes that name nodes or groups and touch no instance there.
_HARMLESS = frozenset(
    {"OP_CLUSTER_VERIFY", "OP_CLUSTER_VERIFY_DISKS", "OP_CLUSTER_VERIFY_GROUP", "OP_GROUP_VERIFY_DISKS", "OP_GROUP_ADD",
     "OP_GROUP_ASSIGN_NODES", "OP_GROUP_REMOVE", "OP_GROUP_RENAME", "OP_GROUP_SET_PARAMS", "OP_NETWORK_CONNECT",
     "OP_NETWORK_DISCONNECT", "OP_NODE_ADD", "OP_NODE_MODIFY_STORAGE", "OP_NODE_QUERYVOLS", "OP_NODE_QUERY_STORAGE",
     "OP_RESTRICTED_COMMAND", "OP_TEST_ALLOCATOR", "OP_INSTANCE_QUERY_DATA", "OP_INSTANCE_CONSOLE",
     "OP_CLUSTER_REPAIR_DISK_SIZES"}
)  # fmt: skip
_SAMPLES: dict[str, object] = {
    "instance_name": "web", "instances": ["web"], "node_name": "n1", "node_names": ["n1"], "nodes": ["n1"],
    "group_name": "default",
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(opcodes.OP_MAPPING))
def test_every_opcode_that_names_something_is_known_to_touch_it_or_not(kind):
    op = {name: _SAMPLES[name] for name in opcodes.OP_MAPPING[kind].OP_PARAMS if name in _SAMPLES}
    if op:
        assert bool(_Busy(Job({"OP_ID": kind, **op}))) == (kind not in _HARMLESS)


@pytest.mark.parametrize(
    "job",
    [
        Job({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "webmail.example.com"}),
        Job({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "we"}),
        Job({"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": ["web.example.com"]}),
        Job({"OP_ID": "OP_NODE_MIGRATE", "node_name": "n3"}),
        Job({"OP_ID": "OP_NODE_MIGRATE", "node_name": "uuid-of-n9"}),
        Job({"OP_ID": "OP_NODE_MIGRATE", "node_name": "n"}),
        Job({"OP_ID": "OP_NODE_MIGRATE", "node_name": ""}),
        Job({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "uuid-of-webmail.example.com"}),
        Job({"OP_ID": "OP_OOB_COMMAND", "node_names": ["n9"], "command": "power-off"}),
        Job({"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": GROUP}),
        Job({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web.example.com"}, "running", opstatus="success"),
        Job({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": None, "instances": [None, 3]}),
        [7, "running", None, None, None],
    ],
)
def test_other_jobs_do_not(job):
    assert _Busy(job) == {}


def test_a_job_that_ended_while_the_watcher_looked_counts_too():
    ended = Job({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web.example.com"}, "success")
    assert busy.Find([Inst()], [], [ended], 100.4) == {"web.example.com": "job 7 acts on it"}
    assert busy.Find([Inst()], [], [ended], 100.5) == {"web.example.com": "job 7 acts on it"}, "the very moment"
    assert busy.Find([Inst()], [], [ended], 100.6) == {}
    assert busy.JobFilter(12.9)[-1] == [">=", "end_ts", 12]


def test_locks_count_whoever_has_them_and_waits_do_not():
    locks = [
        ["instance/web.example.com", "shared", ["job3", "job4"]],
        ["instance/idle.example.com", None, None],
        ["node/web.example.com", "exclusive", ["job5"]],
        ["instance/odd.example.com", "exclusive", None],
    ]
    assert busy.Find([], locks, [], 0.0) == {
        "web.example.com": "it is locked by job3, job4",
        "odd.example.com": "it is locked by a job",
    }


# --- the order of the questions -----------------------------------------------------------------------------------------


class _Changing:
    """A master on which a job runs and ends between the question about locks and that about jobs, whichever comes first."""

    def __init__(self, op: dict[str, object], begins: int):
        self._op, self._begins, self._asked = op, begins, 0

    def Query(self, kind: str, fields: object, qfilter: object = None) -> dict[str, list[list[list[object]]]]:
        if kind == "node":
            return {"data": []}
        self._asked += 1
        begun, ended = self._asked > self._begins, self._asked > 1
        values: list[object]
        if kind == "lock":
            held = begun and not ended
            values = ["instance/web.example.com", "exclusive" if held else None, ["job7"] if held else None]
        else:
            status = "success" if ended else "running"
            values = [7, status, [self._op], [status], [101, 0] if ended else None]
        return {"data": [[[0, value] for value in values]] if begun else []}


@pytest.mark.parametrize(
    ("op", "begins", "why"),
    [
        # Submitted after the first question, ended before the second.
        ({"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web"}, 1, "job 7 acts on it"),
        # Its locks alone say what it acts on, and it has released them by the second question.
        ({"OP_ID": "OP_SOMETHING_NEW"}, 0, "it is locked by job7"),
    ],
)
def test_a_job_that_ends_between_the_questions_is_seen(op, begins, why):
    client: Any = _Changing(op, begins)
    assert master.QueryBusy(client, [Inst()], 100.0) == {"web.example.com": why}


# --- rows ---------------------------------------------------------------------------------------------------------------


def test_rows_become_objects_whatever_is_missing():
    row = [[0, "a"], [0, "u"], [0, "running"], [0, "up"], [0, True], [0, "n1"], [0, ["n2"]], [0, "g1"], [0, ["g2"]],
           [0, "default"], [0, ["other"]], [0, "drbd"], [0, False], [0, 7]]  # fmt: skip
    [instance] = Instances([row])
    assert instance.groups == {"g1", "g2"} and instance.group_names == {"default", "other"}
    assert instance.nodes == ("n1", "n2") and instance.template == "drbd" and instance.version == "u-7"
    blank = [[0, "b"], [0, "u"], *([2, None] for _ in row[2:])]
    [instance] = Instances([blank])
    assert (instance.status, instance.disks_active, instance.nodes, instance.groups) == ("", False, ("",), frozenset())
    assert Instances([[*row[:-2], [0, True], [0, 7]]]) == []
    row = [[0, "n1"], [2, None], [0, True], [0, "g1"], [0, True], [0, "u"], [0, 7], [0, ["tag"]]]
    assert Nodes([row]) == [Node("n1", None, True, True, "u", 7, ("tag",))]
    assert Nodes([row])[0].version == "u-7"
