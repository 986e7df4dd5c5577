"""Node groups come and go, get nodes and values of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.configs import GROUP, WEB
from support.master import Master

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.group.life import LUGroupSetParams


def _Refused(master: Master, op: opcodes.OpCode, match: str, ecode: str) -> errors.OpPrereqError:
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(op)
    assert caught.value.args[1] == ecode and master.snapshot is before
    return caught.value


def _Group(master: Master, name: str) -> objects.NodeGroup:
    found = master.snapshot.GroupByName(name)
    assert found is not None
    return found


def _Policy(master: Master, **bounds: int) -> dict[str, Any]:
    pair = {end: dict(spec) for end, spec in master.snapshot.cluster.ipolicy["minmax"][0].items()}
    pair["min"].update({name.replace("_", "-"): value for name, value in bounds.items()})
    return {"minmax": [pair]}


@pytest.fixture
def pair(make: Callable[..., Master]) -> Master:
    """Three nodes in the group "default", and a group "far" without nodes."""
    return make(3, prepare=lambda master: master.Run(opcodes.OpGroupAdd(group_name="far")))


# --- adding and removing ------------------------------------------------------------------------------------------------


def test_a_group_comes_and_goes(pair: Master) -> None:
    group = _Group(pair, "far")
    assert (group.alloc_policy, group.serial_no, group.members) == ("preferred", 1, ())
    assert group.uuid in pair.glm.Names(locking.LEVEL_NODEGROUP)
    assert pair.Stored() == pair.snapshot
    assert pair.Run(opcodes.OpGroupRemove(group_name="far")) is None
    assert pair.snapshot.GroupByName("far") is None
    assert pair.glm.Names(locking.LEVEL_NODEGROUP) == {GROUP}
    runs = [run[:2] for run in pair[0].hook_runs if run[0] != "config-update"]
    assert runs == [(f"group-{what}", phase) for what in ("add", "remove") for phase in ("pre", "post")]
    assert pair[0].hook_runs[0][2]["GANETI_GROUP_NAME"] == "far" and pair[1].hook_runs == []


def test_a_group_with_everything(master: Master) -> None:
    master.Run(
        opcodes.OpGroupAdd(
            group_name="rich",
            alloc_policy="last_resort",
            ndparams={"spindle_count": 3, "exclusive_storage": True},
            diskparams={"drbd": {"resync-rate": 1024}},
            ipolicy={"vcpu-ratio": "2.5", "disk-templates": ["drbd"]},
            hv_state={"kvm": {"cpu_total": 2}},
            disk_state={"plain": {"xenvg": {"disk_total": 5}}},
        )
    )
    group = _Group(master, "rich")
    assert group.alloc_policy == "last_resort"
    assert group.ndparams == {"spindle_count": 3, "exclusive_storage": True}
    assert group.diskparams == {"drbd": {"resync-rate": 1024}}
    assert group.ipolicy == {"vcpu-ratio": 2.5, "disk-templates": ("drbd",)}
    assert group.hv_state_static["kvm"]["cpu_total"] == 2


def test_a_refused_group_leaves_no_lock(master: Master) -> None:
    before = master.glm.Names(locking.LEVEL_NODEGROUP)
    for values, match, ecode in (
        ({"group_name": "default"}, "already exists", errors.ECODE_EXISTS),
        ({"group_name": WEB}, "looks like a UUID", errors.ECODE_INVAL),
        ({"group_name": "a\nb"}, "spaces and line breaks are not allowed", errors.ECODE_INVAL),
        ({"group_name": "a b"}, "'a b' is not a valid name for a node group: spaces", errors.ECODE_INVAL),
        ({"group_name": "x" * 300}, "at most 128 characters are allowed, it has 300", errors.ECODE_INVAL),
        ({"group_name": "a,b"}, "commas, slashes and control", errors.ECODE_INVAL),
        ({"group_name": "a/b"}, "commas, slashes and control", errors.ECODE_INVAL),
        ({"group_name": "a\0b"}, "commas, slashes and control", errors.ECODE_INVAL),
        ({"group_name": "-f"}, "must not begin with a hyphen", errors.ECODE_INVAL),
        ({"group_name": "g", "ndparams": {"colour": 1}}, "Unknown node parameter", errors.ECODE_INVAL),
        ({"group_name": "g", "diskparams": {"drbd": {"colour": 1}}}, "Unknown drbd", errors.ECODE_INVAL),
        ({"group_name": "g", "ipolicy": {"disk-templates": ["rbd"]}}, "not enabled.*rbd", errors.ECODE_INVAL),
        ({"group_name": "g", "ipolicy": {"std": {"cpu-count": 1}}}, "cannot appear", errors.ECODE_INVAL),
    ):
        _Refused(master, opcodes.OpGroupAdd(**values), match, ecode)
    assert master.glm.Names(locking.LEVEL_NODEGROUP) == before


def test_a_group_in_use_stays(pair: Master) -> None:
    error = _Refused(pair, opcodes.OpGroupRemove(group_name="default"), "node1.*node2.*node3", errors.ECODE_STATE)
    assert "assign-nodes" in str(error.hint)
    pair.Run(opcodes.OpGroupRemove(group_name="far"))
    pair.cfg.RemoveInstance(WEB)
    _Refused(pair, opcodes.OpGroupRemove(group_name="nowhere"), "not known", errors.ECODE_NOENT)


def test_a_new_name(pair: Master) -> None:
    assert pair.Run(opcodes.OpGroupRename(group_name="far", new_name="near")) == "near"
    assert pair.snapshot.GroupByName("far") is None and _Group(pair, "near").serial_no == 2
    _Refused(pair, opcodes.OpGroupRename(group_name="near", new_name="default"), "already exists", errors.ECODE_EXISTS)
    _Refused(pair, opcodes.OpGroupRename(group_name="near", new_name=WEB), "looks like", errors.ECODE_INVAL)
    _Refused(pair, opcodes.OpGroupRename(group_name="near", new_name="a\nb"), "line breaks", errors.ECODE_INVAL)
    pair[2].hook_runs.clear()
    pair.Run(opcodes.OpGroupRename(group_name="default", new_name="first"))
    env = pair[2].hook_runs[0][2]
    assert (env["GANETI_OLD_NAME"], env["GANETI_NEW_NAME"]) == ("default", "first"), "the members are told"


# --- nodes --------------------------------------------------------------------------------------------------------------


def test_nodes_move(pair: Master) -> None:
    far = _Group(pair, "far")
    before = pair.snapshot.nodes[pair.nodes[2]].serial_no
    assert pair.Run(opcodes.OpGroupAssignNodes(group_name="far", nodes=["node3", "node3"])) is None
    assert pair.snapshot.GroupNodes(far.uuid) == (pair.nodes[2],)
    assert pair.snapshot.nodes[pair.nodes[2]].serial_no == before + 1
    assert (_Group(pair, "far").serial_no, _Group(pair, "default").serial_no) == (2, 2)
    # Again is nothing.
    serial = pair.snapshot.serial_no
    pair.Run(opcodes.OpGroupAssignNodes(group_name="far", nodes=["node3"]))
    assert pair.snapshot.serial_no == serial
    with pytest.raises(errors.OpPrereqError, match="'node9' not known"):
        pair.Run(opcodes.OpGroupAssignNodes(group_name="far", nodes=["node9"]))


def test_mirrors_are_not_split_unless_forced(pair: Master) -> None:
    before = pair.snapshot
    with pytest.raises(errors.OpExecError, match=r"get split by this change.*web.example.org"):
        pair.Run(opcodes.OpGroupAssignNodes(group_name="far", nodes=["node2"]))
    assert pair.snapshot is before
    pair.Run(opcodes.OpGroupAssignNodes(group_name="far", nodes=["node2"], force=True))
    assert any("will split the following instances: web.example.org" in text for text in pair.last.messages)
    # Both nodes together again.
    pair.Run(opcodes.OpGroupAssignNodes(group_name="far", nodes=["node1"]))
    assert pair.snapshot.nodes[pair.nodes[0]].group == pair.snapshot.nodes[pair.nodes[1]].group


# --- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("RM-DISK-04")
def test_values_are_merged_and_reset(pair: Master) -> None:
    answer = pair.Run(
        opcodes.OpGroupSetParams(
            group_name="far",
            alloc_policy="unallocable",
            ndparams={"spindle_count": 2, "oob_program": "/bin/oob"},
            diskparams={"drbd": {"resync-rate": 5}, "plain": {"stripes": 2}},
        )
    )
    assert answer == [
        ["ndparams", "{'spindle_count': 2, 'oob_program': '/bin/oob'}"],
        ["diskparams", "{'drbd': {'resync-rate': 5}, 'plain': {'stripes': 2}}"],
    ]
    answer = pair.Run(
        opcodes.OpGroupSetParams(
            group_name="far", ndparams={"spindle_count": "default"}, diskparams={"plain": {"stripes": "default"}}
        )
    )
    group = _Group(pair, "far")
    assert group.ndparams == {"oob_program": "/bin/oob"} and group.diskparams == {"drbd": {"resync-rate": 5}}
    assert group.alloc_policy == "unallocable"
    assert pair.Run(opcodes.OpGroupSetParams(group_name="far", alloc_policy="preferred")) == []
    _Refused(pair, opcodes.OpGroupSetParams(group_name="far"), "at least one modification", errors.ECODE_INVAL)


def test_a_policy_of_its_own(pair: Master) -> None:
    wanted = {**_Policy(pair), "disk-templates": ["drbd"], "spindle-ratio": 5.0}
    wanted["minmax"][0]["max"]["memory-size"] = 256
    pair.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy=wanted))
    assert any("violate them: web.example.org" in text for text in pair.last.messages), "it has 512 MiB"
    assert _Group(pair, "default").ipolicy["disk-templates"] == ("drbd",)
    pair.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"minmax": "default", "spindle-ratio": "default"}))
    assert _Group(pair, "default").ipolicy == {"disk-templates": ("drbd",)}


@pytest.mark.parametrize(
    ("match", "values"),
    [
        ("Unknown node parameter", {"ndparams": {"x": 1}}),
        ("Unknown hypervisor", {"hv_state": {"vmware": {}}}),
        ("not enabled on the cluster", {"ipolicy": {"disk-templates": ["rbd"]}}),
        ("cannot appear", {"ipolicy": {"std": {"memory-size": 1}}}),
        ("Invalid key", {"ipolicy": {"nonsense": 1}}),
    ],
)
def test_values_that_cannot_be(pair: Master, match: str, values: dict[str, Any]) -> None:
    for op in (opcodes.OpGroupAdd(group_name="n", **values), opcodes.OpGroupSetParams(group_name="far", **values)):
        _Refused(pair, op, match, errors.ECODE_INVAL)


def test_the_standard_of_the_cluster_does_not_bind_a_group(master: Master) -> None:
    wanted = _Policy(master, memory_size=1024)
    assert master.snapshot.cluster.ipolicy["std"]["memory-size"] < 1024
    master.Run(opcodes.OpGroupAdd(group_name="large", ipolicy=wanted))
    assert _Group(master, "large").ipolicy["minmax"][0]["min"]["memory-size"] == 1024


def test_what_is_locked(pair: Master) -> None:
    held: list[str] = []
    pair[0].before = lambda name, args: held.extend(
        f"{row.name} {row.mode}" for row in pair.glm.QueryLocks() if row.owner and row.name != "cluster/BGL"
    )
    pair.Run(opcodes.OpGroupSetParams(group_name="default", alloc_policy="preferred"))
    assert set(held) == {"instance/web.example.org shared", f"nodegroup/{GROUP} exclusive"}


def test_instances_that_come_meanwhile_are_noticed(pair: Master) -> None:
    """The instance's lock was asked for before its node moved into the group."""

    class Late(LUGroupSetParams):
        def DeclareLocks(self, level: int) -> None:
            super().DeclareLocks(level)
            if level == locking.LEVEL_INSTANCE:
                with pair.Elsewhere():
                    self.cfg.AssignGroupNodes([(pair.nodes[1], _Group(pair, "far").uuid)])

    with pytest.raises(errors.OpPrereqError, match="changed since locks were acquired") as caught:
        pair.Run(
            opcodes.OpGroupSetParams(group_name="far", alloc_policy="preferred"), units={"OP_GROUP_SET_PARAMS": Late}
        )
    assert caught.value.args[1] == errors.ECODE_STATE
