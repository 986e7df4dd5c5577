"""Which side of a mirror counts: who records it, who takes that back, and what is refused meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from support.configs import WEB_DISK
from support.master import Master

from ganeti import errors, opcodes
from ganeti.client.gnt_instance import info
from ganeti.params import disk as disk_params

WEB = "web.example.org"
DRBD = disk_params.TEMPLATES["drbd"]


def _Settle(master: Master) -> list[str]:
    master.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    return master.last.messages


def _Behind(master: Master) -> str | None:
    """The number of the node whose copy does not count."""
    behind = master.snapshot.disks[WEB_DISK].behind
    return None if behind is None else behind["node"]


def _State(master: Master, number: int) -> Any:
    node = master.nodes[number]
    minor = DRBD.Minor(master.snapshot.disks[WEB_DISK], node)
    return master.rpc.call_drbd_states([node])[node].payload[str(minor)]


def _Cut(master: Master, cut: bool = True) -> None:
    for node in master.all[:2]:
        node.CutLink(cut)


def test_a_frozen_primary_continues_after_its_other_side_is_recorded(master: Master) -> None:
    _Cut(master)
    assert _State(master, 0)["frozen"]
    seen: list[Any] = []
    master[0].before = lambda name, args: seen.append((name, _Behind(master)))
    messages = _Settle(master)
    assert _Behind(master) == master.nodes[1]
    assert ("drbd_follow", master.nodes[1]) in seen, "the record is there before the node is let go on"
    assert not _State(master, 0)["frozen"] and master[1].MirrorRecord(WEB_DISK)["outdated"]
    assert "lost the connection to node2.example.org" in messages[0] and "continues alone" in messages[0]
    since = master.snapshot.disks[WEB_DISK].behind["since"]
    _Settle(master)
    assert master.snapshot.disks[WEB_DISK].behind["since"] == since


def test_a_dead_secondary_does_not_hold_the_primary_up(master: Master) -> None:
    _Cut(master)
    master[1].Stop()
    _Settle(master)
    assert _Behind(master) == master.nodes[1] and not _State(master, 0)["frozen"]


def test_the_record_goes_when_both_sides_are_complete_and_a_lost_link_freezes_again(master: Master) -> None:
    _Cut(master)
    _Settle(master)
    _Cut(master, False)
    seen: list[Any] = []
    master[0].before = lambda name, args: seen.append((name, _Behind(master)))
    assert "both count from now on" in _Settle(master)[0]
    assert _Behind(master) is None
    assert ("drbd_follow", master.nodes[1]) in seen, "fencing is on before the record goes"
    _Cut(master)
    assert _State(master, 0)["frozen"]


def test_what_says_that_a_record_ended_is_newer_than_the_record(master: Master) -> None:
    """Or a call that hung on the node could undo it."""
    told: list[tuple[str, int]] = []

    def note(name: str, args: Any) -> None:
        if name == "drbd_follow":
            (disk,) = args[0]
            told.append((disk["dynamic_params"]["peer"], disk["dynamic_params"]["decision"]))

    _Cut(master)
    master[0].before = note
    _Settle(master)
    since = master.snapshot.disks[WEB_DISK].behind["since"]
    _Cut(master, False)

    def break_off(name: str, args: Any) -> None:
        note(name, args)
        if name == "drbd_follow":
            _Cut(master)

    master[0].before = break_off
    _Settle(master)
    assert master.snapshot.disks[WEB_DISK].behind["since"] == since, "the link broke meanwhile"
    master[0].before = note
    _Cut(master, False)
    _Settle(master)
    # First it is asked whether it can obey at all.
    assert told == [("counts", 0), ("behind", 1), ("counts", 2), ("behind", 2), ("counts", 3)]
    assert _Behind(master) is None and master.snapshot.disks[WEB_DISK].decision == 4


def test_a_record_stays_until_the_other_node_refuses_late_calls(master: Master) -> None:
    """Or what hangs there since the record was made would take its volumes, with the primary writing alone at once."""
    _Cut(master)
    _Settle(master)
    _Cut(master, False)
    master[1].faults["drbd_follow"] = "another call has been working on it"
    with pytest.raises(errors.OpExecError, match="disk/0 keeps the record"):
        _Settle(master)
    assert _Behind(master) == master.nodes[1]
    assert any("node2.example.org does not confirm" in message for message in master.last.messages)
    _Cut(master)
    assert not _State(master, 0)["frozen"], "the guest does not wait for the other node"
    _Cut(master, False)
    master[1].faults.clear()
    master[1].before = lambda name, args: recorded.append(_Behind(master)) if name == "drbd_follow" else None
    recorded: list[str | None] = []
    _Settle(master)
    assert recorded == [master.nodes[1]] and _Behind(master) is None


def test_the_record_goes_without_a_node_that_is_marked_offline(master: Master) -> None:
    _Cut(master)
    _Settle(master)
    _Cut(master, False)
    master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(offline=True))
    _Settle(master)
    assert _Behind(master) is None


def test_a_link_that_breaks_while_it_is_looked_at_keeps_the_record(master: Master) -> None:
    _Cut(master)
    _Settle(master)
    _Cut(master, False)
    master[0].before = lambda name, args: _Cut(master) if name == "drbd_follow" else None
    _Settle(master)
    assert _Behind(master) == master.nodes[1]
    assert not _State(master, 0)["frozen"]


def test_a_copy_whose_disk_failed_is_recorded_although_its_node_is_connected(master: Master) -> None:
    master[0].FailOtherDisk()
    messages = _Settle(master)
    assert _Behind(master) == master.nodes[1]
    assert "because the disk of node2.example.org failed" in messages[0]
    with pytest.raises(errors.OpPrereqError, match="cannot be failed over"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    _Cut(master)
    assert not _State(master, 0)["frozen"], "it was alone already"
    _Cut(master, False)
    master[0].FailOtherDisk(False)
    assert "both count from now on" in _Settle(master)[0] and _Behind(master) is None


def test_a_mirror_in_order_is_left_alone(master: Master) -> None:
    before = master.snapshot
    assert "need no change" in _Settle(master)[0]
    assert master.snapshot is before


STRANGER = "another device has this number on this node, minor 0 (home); take it down with 'drbdsetup down home'"


def test_nothing_is_decided_by_another_device_that_has_the_number(master: Master) -> None:
    _Cut(master)
    master[0].SetStranger(STRANGER)
    assert _State(master, 0)["frozen"], "by its number it is a primary that waits"
    for _ in range(2):
        with pytest.raises(errors.OpExecError, match=r"on node node1.example.org another device .*minor 0 .home."):
            _Settle(master)
    assert _Behind(master) is None
    master[0].SetStranger(None)
    _Settle(master)
    _Cut(master, False)
    master[0].SetStranger(STRANGER)
    with pytest.raises(errors.OpExecError, match="Nothing is decided"):
        _Settle(master)
    assert _Behind(master) == master.nodes[1], "it is not complete because another device is"


@pytest.mark.parametrize("number", [0, 1])
def test_nobody_relies_on_another_device_that_has_the_number(master: Master, number: int) -> None:
    master[number].SetStranger(STRANGER)
    with pytest.raises(errors.OpExecError, match=r"not found|on target node|is not there: another device"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert master.snapshot.InstanceByName(WEB).primary_node == master.nodes[0]


@pytest.mark.parametrize("active", [True, False])
def test_verify_names_the_other_device_and_the_next_step(master: Master, active: bool) -> None:
    if not active:
        master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    master[1].SetStranger(STRANGER)
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True))
    found = [text for text in master.last.messages if "disk/0 on node node2.example.org: another device" in text]
    assert found and "ERROR:EINSTANCEFAULTYDISK:instance:web.example.org" in found[0]
    assert found[0].endswith("'drbdsetup down home'")


def test_a_side_that_is_open_on_both_nodes_stays_frozen(master: Master) -> None:
    disk = master.snapshot.disks[WEB_DISK]
    web = master.Instance(WEB)
    master.rpc.call_blockdev_open(master.nodes[1], WEB, ([disk], web), False).Raise("no disk")
    _Cut(master)
    with pytest.raises(errors.OpExecError, match="stays frozen"):
        _Settle(master)
    assert _Behind(master) is None
    assert any("it is open on node2.example.org too" in message for message in master.last.messages)


# --- what is refused -----------------------------------------------------------------------------------------------------


def test_nobody_moves_to_a_copy_that_is_behind_unless_the_loss_is_accepted(master: Master) -> None:
    _Cut(master)
    _Settle(master)
    match = r"cannot be failed over: the copy of disk/0 on node node2\S* has been behind since \d{4}-"
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    hint = str(caught.value.hint)
    assert "--ignore-consistency" not in hint, "the newer copy is there"
    assert f"activate-disks --wait-for-sync {WEB}'" in hint and f"replace-disks --auto {WEB}'" in hint
    master[0].Stop()
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert f"gnt-instance failover --ignore-consistency {WEB}" in str(caught.value.hint)
    master[0].Start()
    with pytest.raises(errors.OpPrereqError, match="cannot be migrated: the copy of disk/0") as caught:
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert str(caught.value.hint).startswith(f"use 'gnt-instance activate-disks --wait-for-sync {WEB}', then wait")
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    assert master.Instance(WEB).primary_node == master.nodes[1]
    assert _Behind(master) == master.nodes[0], "the record was turned round"
    assert master[0].MirrorRecord(WEB_DISK)["outdated"]


def test_an_offline_node_does_not_excuse_a_copy_that_is_behind(master: Master) -> None:
    # The master itself is the first node, so the guest lives on the second one.
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    _Cut(master)
    _Settle(master)
    assert _Behind(master) == master.nodes[0]
    master[1].Stop()
    master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(offline=True))
    with pytest.raises(errors.OpPrereqError, match="has been behind since"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))


def test_an_orderly_failover_needs_no_record(master: Master) -> None:
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Behind(master) is None


def test_a_failover_from_a_dead_node_records_it(master: Master) -> None:
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    _Cut(master)
    master[1].Stop()
    master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(offline=True))
    opened: list[Any] = []
    master[0].before = lambda name, args: opened.append(_Behind(master)) if name == "blockdev_assemble" else None
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert opened and set(opened) == {master.nodes[1]}, "recorded before any device is set up"
    assert not _State(master, 0)["frozen"] and WEB in master[0].guests


def test_a_start_without_the_secondary_records_it(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    _Cut(master)
    with pytest.raises(errors.OpExecError, match="Disk consistency") as caught:
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert "startup --force" in str(caught.value.hint) and _Behind(master) is None
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB, force=True))
    assert _Behind(master) == master.nodes[1] and WEB in master[0].guests
    assert master[1].MirrorRecord(WEB_DISK)["outdated"] and not _State(master, 0)["frozen"]


def test_a_start_with_an_offline_secondary_records_it(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    master[1].Stop()
    _Cut(master)
    master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(offline=True))
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert _Behind(master) == master.nodes[1] and WEB in master[0].guests


def test_a_target_with_trouble_of_its_own_does_not_give_up_the_good_copy(master: Master) -> None:
    def refuse(name: str, args: Any) -> None:
        if name == "blockdev_assemble" and args[2] is True:
            raise errors.BlockDeviceError("disk/0: cannot be opened: (-2) Need access to UpToDate data")

    master[1].before = refuse
    with pytest.raises(errors.OpExecError, match=r"Can't activate the disks of instance \S+ on node node\d"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Behind(master) is None and master.Instance(WEB).primary_node == master.nodes[0], "it stays where it was"
    master[1].faults["blockdev_assemble"] = master[0].faults["blockdev_assemble"] = "no volumes"
    with pytest.raises(errors.OpExecError):
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB, force=True))
    assert _Behind(master) is None, "the side that was asked for could not be set up either"
    master[0].faults.clear()
    master[1].faults.clear()
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert WEB in master[0].guests, "the way back is open"


def test_disks_that_a_guest_uses_stay_watched_when_they_cannot_be_activated(master: Master) -> None:
    _Cut(master)
    _Settle(master)
    master[1].faults["blockdev_assemble"] = "no volume yet"
    with pytest.raises(errors.OpExecError, match="Cannot activate"):
        master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert master.Instance(WEB).disks_active
    assert any("behind since" in finding for finding in _Findings(master))
    master.cfg.MarkInstanceDisksInactive(master.Instance(WEB).uuid)
    assert any("behind since" in finding for finding in _Findings(master)), "the guest is to run"


# --- choosing a side -----------------------------------------------------------------------------------------------------


def test_a_side_is_given_up_by_command(master: Master) -> None:
    for match, node in (("is the primary node", "node1"), ("not known", "node9")):
        with pytest.raises(errors.OpPrereqError, match=match):
            master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind=node))
    master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node2"))
    assert _Behind(master) == master.nodes[1] and master[1].MirrorRecord(WEB_DISK)["outdated"]


def test_a_migration_wants_both_sides_to_agree(master: Master) -> None:
    disk = master.snapshot.disks[WEB_DISK]
    master.rpc.call_drbd_disconnect_net([master.nodes[1]], ([disk], master.Instance(WEB)))
    with pytest.raises(errors.OpExecError, match=r"degraded|standalone"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert "drbd_attach_net" not in master[0].calls


# --- what people see -----------------------------------------------------------------------------------------------------


def _Findings(master: Master) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    return [message for message in master.last.messages if f"instance {WEB}: " in message]


def test_verify_names_what_is_frozen_and_what_is_behind_and_the_next_command(master: Master) -> None:
    assert not any("behind" in finding or "frozen" in finding for finding in _Findings(master))
    _Cut(master)
    assert any("disk/0 is frozen on node node1.example.org" in finding for finding in _Findings(master))
    _Settle(master)
    (finding,) = [finding for finding in _Findings(master) if "has been behind since" in finding]
    assert "ERROR" in finding and f"gnt-instance activate-disks {WEB}" in finding and "replace-disks -n" in finding


def test_verify_says_what_a_guest_waits_for_whose_own_side_has_no_data(master: Master) -> None:
    """There is nothing that the master could decide."""
    disk = master.snapshot.disks[WEB_DISK]
    master.rpc.call_blockdev_removechildren(
        master.nodes[0], (disk, master.Instance(WEB)), (disk.children, master.Instance(WEB))
    ).Raise("not detached")
    _Cut(master)
    master[1].Stop()
    (finding,) = [finding for finding in _Findings(master) if "is frozen" in finding]
    assert "bring node node2.example.org back" in finding and "the master decides" not in finding
    assert f"gnt-instance activate-disks {WEB}" in finding and f"gnt-instance shutdown --timeout 0 {WEB}" in finding


def test_verify_names_the_commands_that_end_a_split_brain(master: Master) -> None:
    disk = master.snapshot.disks[WEB_DISK]
    master.rpc.call_drbd_disconnect_net(master.nodes[:2], ([disk], master.Instance(WEB)))
    (finding,) = [finding for finding in _Findings(master) if "do not connect" in finding]
    assert f"activate-disks --behind node2.example.org {WEB}" in finding
    assert f"failover --ignore-consistency {WEB}" in finding


def test_info_shows_which_side_is_behind(master: Master) -> None:
    def seen() -> Any:
        return master.Run(opcodes.OpInstanceQueryData(instances=[WEB]))[WEB]["disks"][0]

    assert "behind" not in seen()
    _Cut(master)
    _Settle(master)
    node, since = seen()["behind"]
    assert node == "node2.example.org" and since == master.snapshot.disks[WEB_DISK].behind["since"]
    assert f"the copy on {node} does not count" in str(
        info.Tree(master.Run(opcodes.OpInstanceQueryData(instances=[WEB]))[WEB])
    )
