"""Repairs: what tags permit, what they record, what a lost node calls for."""

from __future__ import annotations

import pytest

from ganeti.htools.choosing import repair
from ganeti.htools.choosing.repair import Condition, Kind, Outcome, Policy
from ganeti.htools.model.entities import AllocPolicy, Group, Instance, NodeFacts, Status
from ganeti.htools.model.state import Cluster
from ganeti.htools.sources import loading

P = "ganeti:watcher:autorepair:"
NOW = 1_700_000_000


def _Cluster(inst: Instance, offline: tuple[int, ...] = (), cluster_tags: tuple[str, ...] = (), group_tags: tuple[str, ...] = ()) -> Cluster:  # fmt: skip
    nodes = [
        NodeFacts(i, f"node{i}", 0, total_memory=4096.0, free_memory=4096, total_disk=4096.0, free_disk=4096,
                  total_cpus=4.0, offline=i in offline)
        for i in range(3)
    ]  # fmt: skip
    groups = [Group(0, "default", "g", AllocPolicy.PREFERRED, tags=group_tags)]
    return loading.Build(loading.Raw(groups, nodes, [inst], cluster_tags), loading.Wishes())


def _Instance(template: str = "drbd", tags: tuple[str, ...] = (), secondary: int = 1) -> Instance:
    return Instance(0, "web", 128, 128, 1, Status.RUNNING, template, 0, secondary, tags=tags)


@pytest.mark.parametrize(
    ("tags", "policy"),
    [
        ([], None),
        (["web", f"{P}nonsense", f"{P}failover:7", f"{P}suspend:soon", P], None),
        ([f"{P}failover"], Policy(Kind.FAILOVER)),
        ([f"{P}reinstall", f"{P}fix-storage", f"{P}migrate"], Policy(Kind.FIX_STORAGE)),
        ([f"{P}reinstall", f"{P}suspend"], Policy(suspended=True)),
        ([f"{P}reinstall", f"{P}suspend:"], Policy(suspended=True)),
        ([f"{P}reinstall", f"{P}suspend:{NOW}"], Policy(Kind.REINSTALL)),
        ([f"{P}suspend:{NOW}"], None),
        ([f"{P}suspend:{NOW + 5}", f"{P}suspend:{NOW + 9}", f"{P}migrate"], Policy(None, True, NOW + 9)),
        ([f"{P}suspend:{'9' * 13}", f"{P}migrate"], Policy(Kind.MIGRATE)),
    ],
)
def test_what_the_tags_of_an_object_permit(tags: list[str], policy: Policy | None) -> None:
    assert repair.PolicyOf(tags, NOW) == policy


@pytest.mark.parametrize(
    ("inst", "group", "cluster", "allowed"),
    [
        ("migrate", "failover", "reinstall", Kind.MIGRATE),
        ("", "failover", "reinstall", Kind.FAILOVER),
        ("", "", "reinstall", Kind.REINSTALL),
        ("", "", "", None),
        ("suspend", "failover", "reinstall", None),
    ],
)
def test_the_nearest_object_with_a_policy_decides(inst: str, group: str, cluster: str, allowed: Kind | None) -> None:
    guest, groups, all_ = (((P + word,) if word else ()) for word in (inst, group, cluster))
    model = _Cluster(_Instance(tags=guest), cluster_tags=all_, group_tags=groups)
    assert repair.EffectivePolicy(model, model.state.instances[0], NOW).allowed is allowed


@pytest.mark.parametrize(
    "tag",
    [
        f"{P}pending:fix-storage:0a-b:17:4+5",
        f"{P}pending:reinstall:0a-b:17:",
        f"{P}result:failover:0a-b:17:enoperm:",
        f"{P}result:migrate:0a-b:17:failure:4",
    ],
)
def test_records_survive_their_tags(tag: str) -> None:
    record = repair.ParseRecord(tag)
    assert record is not None and record.tag == tag


@pytest.mark.parametrize(
    "tag",
    [
        "pending:failover:a:1:2",
        f"{P}failover",
        f"{P}pending:failover:a:1",
        f"{P}pending:failover:a:1:2:3",
        f"{P}pending:restart:a:1:2",
        f"{P}pending:failover::1:2",
        f"{P}pending:failover:a:now:2",
        f"{P}pending:failover:a:-1:2",
        f"{P}pending:failover:a:1:2+",
        f"{P}pending:failover:a:1:٣",
        f"{P}result:failover:a:1:maybe:2",
        f"{P}result:failover:a:1:success",
    ],
)
def test_malformed_records_are_ignored(tag: str) -> None:
    assert repair.ParseRecord(tag) is None
    assert repair.StatusOf([tag]).condition is Condition.HEALTHY


@pytest.mark.parametrize(
    ("records", "condition", "newest"),
    [
        ([], Condition.HEALTHY, None),
        (["pending:failover:a:5:1"], Condition.PENDING, 0),
        (["result:failover:a:5:success:1"], Condition.HEALTHY, 0),
        (["result:failover:a:5:enoperm:"], Condition.HEALTHY, 0),
        (["result:failover:a:5:failure:1"], Condition.FAILED, 0),
        # Of one repair: a result is newer than what is pending, whatever the clock said, and failure outweighs success.
        (["pending:failover:a:9:1", "result:failover:a:5:success:1"], Condition.HEALTHY, 1),
        (["result:failover:a:5:failure:1", "result:failover:a:9:success:1"], Condition.FAILED, 0),
        (["result:failover:a:9:success:1", "result:failover:a:7:success:1"], Condition.HEALTHY, 0),
        # Repairs follow each other by their oldest records.
        (["pending:failover:b:9:1", "result:migrate:a:5:success:1"], Condition.PENDING, 0),
        # After a failure nothing else counts.
        (["result:failover:a:5:failure:1", "pending:migrate:b:7:1"], Condition.FAILED, 0),
    ],
)
def test_what_an_instance_s_tags_say(records: list[str], condition: Condition, newest: int | None) -> None:
    tags = [P + record for record in records]
    status = repair.StatusOf(tags)
    assert status.condition is condition
    assert (status.record and status.record.tag) == (None if newest is None else tags[newest])


def test_a_new_record_replaces_all_older_ones_the_newest_first() -> None:
    """Also what an interrupted run left beside the newest record of a repair."""
    first, left = f"{P}result:migrate:a:5:success:1", f"{P}pending:migrate:a:4:1"
    second, third = f"{P}result:failover:b:6:enoperm:", f"{P}pending:failover:c:8:2"
    assert repair.StatusOf([left, third, second, first]).obsolete == (third, second, first, left)


def test_a_repair_beside_one_that_is_pending_is_a_contradiction() -> None:
    pending = f"{P}pending:failover:a:5:1"
    with pytest.raises(repair.Contradiction) as caught:
        repair.StatusOf([f"{P}result:failover:b:7:success:2", pending])
    assert caught.value.tag == pending


FAILOVER = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "web", "shutdown_timeout": 120, "ignore_consistency": False,
            "ignore_ipolicy": False, "cleanup": False}  # fmt: skip
REPLACE = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "web", "early_release": False, "ignore_ipolicy": False,
           "mode": "replace_new_secondary", "disks": [], "iallocator": "hail"}  # fmt: skip
REINSTALL = [
    {"OP_ID": "OP_INSTANCE_RECREATE_DISKS", "instance_name": "web", "disks": [], "nodes": [], "iallocator": "hail"},
    {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": "web", "force_variant": False},
]


@pytest.mark.parametrize(
    ("template", "offline", "needed"),
    [
        ("drbd", (), None),
        ("drbd", (2,), None),
        ("drbd", (0,), (Kind.FAILOVER, [FAILOVER])),
        ("drbd", (1,), (Kind.FIX_STORAGE, [REPLACE])),
        ("drbd", (0, 1), (Kind.REINSTALL, REINSTALL)),
        ("plain", (0,), (Kind.REINSTALL, REINSTALL)),
        ("plain", (1,), None),
        ("file", (0,), None),
        ("rbd", (0,), None),
    ],
)
def test_what_a_lost_node_calls_for(template: str, offline: tuple[int, ...], needed: object) -> None:
    inst = _Instance(template, secondary=1 if template == "drbd" else -1)
    model = _Cluster(inst, offline)
    assert repair.Needed(model, model.state.instances[0]) == needed


def test_kinds_and_outcomes_have_the_words_of_tags() -> None:
    assert [kind.word for kind in Kind] == ["fix-storage", "migrate", "failover", "reinstall"]
    assert [kind.title for kind in Kind] == ["ArFixStorage", "ArMigrate", "ArFailover", "ArReinstall"]
    assert [outcome.word for outcome in Outcome] == ["enoperm", "success", "failure"]
