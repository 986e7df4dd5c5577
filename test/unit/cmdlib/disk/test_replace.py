"""Mirrors get new storage or another secondary node (spec/drivers.md a.6)."""

from __future__ import annotations

from typing import Any

import pytest
from support.machine import Machine
from support.master import InSimulation, Master

from ganeti import errors, objects, opcodes

WEB = "web.example.org"
DRBD = "drbd:9f2c6a1d"
VOLUMES = {f"plain:xenvg/00000077-aaaa-4bbb-8ccc-000000000077.disk0_{part}" for part in ("data", "meta")}


@pytest.fixture
def trio(make: Any) -> Master:
    master: Master = make(3)
    return master


def _Replace(master: Master, mode: str, **values: Any) -> None:
    master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=f"replace_{mode}", **values))


def _Disk(master: Master) -> objects.Disk:
    return master.snapshot.InstanceDisks(master.Instance(WEB))[0]


def _Steps(master: Master) -> list[str]:
    return [text for text in master.last.messages if text.startswith("STEP")]


def _Infos(machine: Machine) -> dict[str, int]:
    """Sizes of what lies on a machine."""
    return {key: id(device) for key, device in machine.devices.items()}


@pytest.mark.parametrize(("mode", "number"), [("on_primary", 0), ("on_secondary", 1)])
@pytest.mark.parametrize("early", [False, True])
def test_new_volumes_under_the_old_names(trio: Master, mode: str, number: int, early: bool) -> None:
    before, disk = _Infos(trio[number]), _Disk(trio)
    other = _Infos(trio[1 - number])
    _Replace(trio, mode, early_release=early)
    after = _Infos(trio[number])
    assert set(after) == set(before) == {DRBD, *VOLUMES}
    assert all(after[key] != before[key] for key in VOLUMES) and after[DRBD] == before[DRBD]
    assert trio[number].devices[DRBD].local
    assert _Infos(trio[1 - number]) == other
    assert _Disk(trio) == disk, "the configuration need not change"
    last = ["STEP 5/6 Removing old storage", "STEP 6/6 Sync devices"]
    if not early:
        last = ["STEP 5/6 Sync devices", "STEP 6/6 Removing old storage"]
    assert _Steps(trio)[-2:] == last


def test_the_other_half_must_be_whole(trio: Master) -> None:
    trio[1].devices[DRBD].degraded = True
    before = _Infos(trio[0])
    with pytest.raises(errors.OpExecError, match=r"node2.example.org has degraded storage, unsafe"):
        _Replace(trio, "on_primary")
    assert _Infos(trio[0]) == before


def test_old_volumes_stay_until_the_mirror_is_whole() -> None:
    def story(pair: Master) -> None:
        def before(name: str, args: Any) -> None:
            if name == "blockdev_addchildren":
                pair[0].devices[DRBD].degraded = True

        pair[1].before = before
        with pytest.raises(errors.OpExecError, match="is degraded on node node1"):
            _Replace(pair, "on_secondary")
        assert sum("_replaced-" in key for key in pair[1].devices) == 2

    InSimulation(story)


def test_a_volume_that_cannot_be_made(trio: Master) -> None:
    before = _Infos(trio[1])
    made: list[str] = []

    def fail(name: str, args: Any) -> None:
        if name == "blockdev_create":
            made.append(name)
            if len(made) == 2:
                raise errors.RpcCallError("no room")

    trio[1].before = fail
    with pytest.raises(errors.OpExecError, match="no room"):
        _Replace(trio, "on_secondary")
    assert _Infos(trio[1]) == before


def test_a_volume_that_cannot_be_taken_in(trio: Master) -> None:
    trio[1].faults["blockdev_addchildren"] = "wrong size"
    with pytest.raises(errors.OpExecError, match="Can't add local storage to drbd disk/0: wrong size") as caught:
        _Replace(trio, "on_secondary")
    assert "disk0_data_replaced-" in (caught.value.hint or "")
    assert not VOLUMES & set(trio[1].devices)


def test_faulty_disks_are_found(trio: Master) -> None:
    _Replace(trio, "auto")
    assert trio.last.messages[-1] == f"No disks need replacement for instance '{WEB}'"
    trio[1].devices[DRBD].faulty = True
    before = _Infos(trio[1])
    _Replace(trio, "auto")
    after = _Infos(trio[1])
    assert all(after[key] != before[key] for key in VOLUMES)
    trio[0].devices[DRBD].faulty = trio[1].devices[DRBD].faulty = True
    with pytest.raises(errors.OpPrereqError, match="faulty disks on more than one node"):
        _Replace(trio, "auto")
    trio.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="run activate-disks"):
        _Replace(trio, "auto")


# --- another node --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [True, False])
def test_another_secondary_node(trio: Master, running: bool) -> None:
    if not running:
        trio.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    old = _Disk(trio)
    _Replace(trio, "new_secondary", remote_node="node3")
    new = _Disk(trio)
    assert trio.snapshot.SecondaryNodes(trio.Instance(WEB)) == (trio.nodes[2],)
    assert new.logical_id == (trio.nodes[0], trio.nodes[2], *old.logical_id[2:4], 0, old.logical_id[5])
    assert [child.nodes for child in new.children] == [(trio.nodes[0], trio.nodes[2])] * 2
    assert [child.logical_id for child in new.children] == [child.logical_id for child in old.children]
    assert set(trio[2].devices) == {DRBD, *VOLUMES}
    assert not VOLUMES & set(trio[1].devices)
    assert trio[0].network[DRBD] == trio[2].network[DRBD] == "single"
    assert trio[0].devices[DRBD].assembled is running
    env = next(env for path, _, env in trio[2].hook_runs if path == "mirrors-replace")
    assert (env["GANETI_OLD_SECONDARY"], env["GANETI_NEW_SECONDARY"]) == ("node2.example.org", "node3.example.org")
    if running:
        trio.Run(opcodes.OpInstanceFailover(instance_name=WEB))
        assert WEB in trio[2].guests


def test_away_from_a_dead_node(trio: Master) -> None:
    trio.setup.cluster[1].up = False
    with pytest.raises(errors.GenericError, match="node2"):
        _Replace(trio, "new_secondary", remote_node="node3")
    trio.cfg.Update(trio.snapshot.nodes[trio.nodes[1]].Replace(offline=True, master_candidate=False))
    _Replace(trio, "new_secondary", remote_node="node3")
    assert _Steps(trio)[-2:] == ["STEP 5/6 Removing old storage", "STEP 6/6 Sync devices"]
    assert set(trio[2].devices) == {DRBD, *VOLUMES}
    assert any("enabling early release" in text for text in trio.last.messages)


def test_the_primary_must_have_all_data(trio: Master) -> None:
    trio[0].devices[DRBD].faulty = True
    with pytest.raises(errors.OpExecError, match="unsafe to replace the secondary"):
        _Replace(trio, "new_secondary", remote_node="node3")
    assert trio[2].devices == {}


@pytest.mark.parametrize("where", ["blockdev_create", "drbd_disconnect_net"])
def test_a_failure_before_the_change_leaves_the_old_pair(trio: Master, where: str) -> None:
    old = _Disk(trio)
    trio[2 if where == "blockdev_create" else 0].faults[where] = "not now"
    with pytest.raises(errors.OpExecError, match="not now"):
        _Replace(trio, "new_secondary", remote_node="node3")
    assert _Disk(trio) == old and trio[2].devices == {}
    assert set(trio[1].devices) >= VOLUMES


@pytest.mark.parametrize(
    ("match", "mode", "values"),
    [
        ("either an iallocator script or the new node", "new_secondary", {}),
        ("cannot be run", "new_secondary", {"iallocator": "hail"}),
        ("only be used when changing", "on_primary", {"remote_node": "node3"}),
        ("takes no list of disks", "auto", {"disks": [0]}),
        ("Disk index 5 is too high", "on_primary", {"disks": [5]}),
        ("is the primary node", "new_secondary", {"remote_node": "node1"}),
        ("already the secondary", "new_secondary", {"remote_node": "node2"}),
    ],
)
def test_what_cannot_be_is_refused(trio: Master, match: str, mode: str, values: dict[str, Any]) -> None:
    before = trio.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Replace(trio, mode, **values)
    assert caught.value.args[1] == errors.ECODE_INVAL
    assert trio.snapshot is before


def test_the_new_node_must_be_fit(trio: Master) -> None:
    trio.cfg.Update(trio.snapshot.nodes[trio.nodes[2]].Replace(drained=True))
    with pytest.raises(errors.OpPrereqError, match="drained node node3"):
        _Replace(trio, "new_secondary", remote_node="node3")


def test_only_mirrors_have_disks_to_replace(trio: Master) -> None:
    cluster = trio.snapshot.cluster
    trio.cfg.Update(cluster.Replace(ipolicy={**cluster.ipolicy, "disk-templates": ["drbd", "plain"]}))
    trio.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    trio.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="plain"))
    with pytest.raises(errors.OpPrereqError, match="only run replace disks for DRBD8"):
        _Replace(trio, "on_primary")
