"""Node groups (spec/drivers.md d.8)."""

from __future__ import annotations

from typing import Any

import pytest
from support.master import Master

from ganeti import errors, locking, objects, opcodes

WEB = "web.example.org"


def _Group(master: Master, name: str) -> objects.NodeGroup:
    found = master.snapshot.GroupByName(name)
    assert found is not None
    return found


def _Add(master: Master, name: str = "new", **values: Any) -> objects.NodeGroup:
    master.Run(opcodes.OpGroupAdd(group_name=name, **values))
    return _Group(master, name)


def test_a_group_comes_and_goes(master: Master) -> None:
    group = _Add(
        master,
        alloc_policy="last_resort",
        ndparams={"spindle_count": "4"},
        diskparams={"plain": {"stripes": 2}},
        ipolicy={"vcpu-ratio": 8},
        hv_state={"kvm": {"mem_node": 500}},
    )
    assert (group.alloc_policy, dict(group.ndparams), group.serial_no) == ("last_resort", {"spindle_count": 4}, 1)
    assert group.diskparams["plain"]["stripes"] == 2 and group.ipolicy["vcpu-ratio"] == 8.0
    assert group.hv_state_static["kvm"]["mem_node"] == 500
    assert group.uuid in master.glm.Names(locking.LEVEL_NODEGROUP)
    master.Run(opcodes.OpGroupRename(group_name="new", new_name="newer"))
    master.Run(opcodes.OpGroupRemove(group_name=group.uuid))
    assert [g.name for g in master.snapshot.nodegroups.values()] == ["default"]
    assert group.uuid not in master.glm.Names(locking.LEVEL_NODEGROUP)
    hooks = [(path, phase) for path, phase, _ in master[0].hook_runs if path.startswith("group")]
    assert hooks == [(f"group-{what}", phase) for what in ("add", "rename", "remove") for phase in ("pre", "post")]


def test_names_are_unique(master: Master) -> None:
    for name, match, code in (
        ("default", "already exists", errors.ECODE_EXISTS),
        ("00000088-aaaa-4bbb-8ccc-000000000088", "looks like a UUID", errors.ECODE_INVAL),
    ):
        for op in (opcodes.OpGroupAdd(group_name=name), opcodes.OpGroupRename(group_name="default", new_name=name)):
            with pytest.raises(errors.OpPrereqError, match=match) as caught:
                master.Run(op)
            assert caught.value.args[1] == code
    assert len(master.glm.Names(locking.LEVEL_NODEGROUP)) == 1


def test_what_is_in_use_stays(master: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match=r"not empty.*node1.example.org, node2"):
        master.Run(opcodes.OpGroupRemove(group_name="default"))
    with pytest.raises(errors.OpPrereqError, match="'nobody' not known"):
        master.Run(opcodes.OpGroupRemove(group_name="nobody"))


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
def test_parameters_that_cannot_be(master: Master, match: str, values: dict[str, Any]) -> None:
    for op in (opcodes.OpGroupAdd(group_name="n", **values), opcodes.OpGroupSetParams(group_name="default", **values)):
        with pytest.raises(errors.OpPrereqError, match=match) as caught:
            master.Run(op)
        assert caught.value.args[1] == errors.ECODE_INVAL
    assert len(master.snapshot.nodegroups) == 1


def test_parameters_are_changed_and_inherited_again(master: Master) -> None:
    result = master.Run(
        opcodes.OpGroupSetParams(
            group_name="default", ndparams={"spindle_count": 3}, diskparams={"drbd": {"protocol": "B"}},
            alloc_policy="unallocable",
        )
    )  # fmt: skip
    assert [name for name, _ in result] == ["ndparams", "diskparams"]
    group = _Group(master, "default")
    assert (group.alloc_policy, dict(group.ndparams)) == ("unallocable", {"spindle_count": 3})
    master.Run(opcodes.OpGroupSetParams(group_name="default", ndparams={"spindle_count": "default"}))
    assert dict(_Group(master, "default").ndparams) == {}
    with pytest.raises(errors.OpPrereqError, match="at least one modification"):
        master.Run(opcodes.OpGroupSetParams(group_name="default"))


def test_a_stricter_policy_names_who_breaks_it(master: Master) -> None:
    bounds = {
        "memory-size": 1024, "cpu-count": 1, "disk-count": 1, "disk-size": 1024, "nic-count": 1, "spindle-use": 1,
    }  # fmt: skip
    most = {**bounds, "memory-size": 4096, "disk-size": 1 << 20}
    master.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"minmax": [{"min": bounds, "max": most}]}))
    assert any(f"violate it: {WEB}" in text for text in master.last.messages)


def test_nodes_change_their_group(make: Any) -> None:
    master: Master = make(3)
    group = _Add(master)
    master.Run(opcodes.OpGroupAssignNodes(group_name="new", nodes=["node3"]))
    assert master.snapshot.GroupNodes(group.uuid) == (master.nodes[2],)
    serial = master.snapshot.serial_no
    master.Run(opcodes.OpGroupAssignNodes(group_name="new", nodes=["node3"]))
    assert master.snapshot.serial_no == serial
    with pytest.raises(errors.OpExecError, match=r"get split by this change.*web.example.org"):
        master.Run(opcodes.OpGroupAssignNodes(group_name="new", nodes=["node2"]))
    master.Run(opcodes.OpGroupAssignNodes(group_name="new", nodes=["node2"], force=True))
    assert set(master.snapshot.GroupNodes(group.uuid)) == set(master.nodes[1:])
    master.Run(opcodes.OpGroupAssignNodes(group_name="new", nodes=["node1"]))
    assert set(master.snapshot.GroupNodes(group.uuid)) == set(master.nodes)
