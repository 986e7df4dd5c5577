"""What a move looks at before it begins and before it stops the guest, and what it does not undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.ending import EndsAfter
from support.master import Master
from support.playedtransfers import CONTENT
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles
from unit.cmdlib.instance.test_move import Moving, _Fails, _Move, _Refused

from ganeti import errors, opcodes, pathutils, store
from ganeti.cmdlib.instance.moving.move import LUInstanceMove
from ganeti.params import runstate


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


def _Called(master: Master, *names: str) -> bool:
    return any(name in node.calls for node in master.all for name in names)


def _Forget(master: Master) -> None:
    for node in master.all:
        node.calls.clear()


# --- before it begins -----------------------------------------------------------------------------------------------------


def test_volumes_that_are_not_adopted_completely(three: Master) -> None:
    """They may still have the names that they had before."""
    moving = Moving(three, up=False)
    three.cfg.Update(moving.disks[1].Replace(adopts="before"))
    hint = _Refused(moving, _Move(), "has not adopted its volumes completely: they are not moved")
    assert f"'gnt-instance activate-disks {WEB}' completes it" in hint


def test_nobody_reads_disks_on_a_node_that_is_offline(three: Master) -> None:
    moving = Moving(three, up=False)
    three.Run(_Move("node2"))
    node = three.snapshot.nodes[three.nodes[1]]
    three.cfg.Update(node.Replace(offline=True, master_candidate=False))
    _Refused(moving, _Move("node3"), f"Can't read the disks of instance '{WEB}' on an offline node")


def test_where_memory_is_not_shared_there_must_be_room_for_all_that_the_guest_may_have(three: Master) -> None:
    moving = Moving(three)
    memory = {"minmem": 128, "maxmem": 4096}
    three.Run(opcodes.OpInstanceSetParams(instance_name=WEB, beparams=memory, ignore_ipolicy=True))
    three[1].SetMemory(4096)
    _Refused(moving, _Move(), "Not enough memory on node node2.* for moving instance web.*needed 4096 MiB")
    three[1].SetMemory(8192)
    three.Run(_Move())
    assert moving.Guests() == [1]


# --- before the guest is stopped ------------------------------------------------------------------------------------------


def test_a_guest_that_went_elsewhere_meanwhile_is_left_alone(three: Master) -> None:
    """Making the target's disks takes a while, in which an administrator starts the guest there."""
    moving = Moving(three)
    before = moving.Left()

    def go(name: str, _args: Any) -> None:
        if name == "blockdev_create" and WEB in three[0].guests:
            three[0].KillGuest(WEB)
            three[1].StartGuest(WEB)

    three[1].before = go
    _Forget(three)
    with pytest.raises(errors.OpExecError, match="cannot be moved: it runs on node2"):
        three.Run(_Move())
    assert moving.Guests() == [1] and moving.home == 0 and moving.Left() == before
    assert not _Called(three, "instance_shutdown", "instance_start", "export_start")


def test_what_is_left_of_a_migration_is_ended_before_the_guest_arrives(three: Master) -> None:
    moving = Moving(three)
    three[1].StartGuest(WEB, state=runstate.ARRIVING)
    assert three[1].incoming == [WEB]
    three.Run(_Move())
    assert "instance_finalize_migration_dst" in three[1].calls
    assert moving.Guests() == [1] and three[1].incoming == [] and moving.Content() == CONTENT


def test_a_guest_runs_again_where_the_leftovers_of_its_migration_cannot_be_ended(three: Master) -> None:
    moving = Moving(three)
    three[1].StartGuest(WEB, state=runstate.ARRIVING)
    three[1].faults["instance_finalize_migration_dst"] = "it hangs"
    _Fails(moving, "What a migration of instance web.* left on node node2.* could not be ended: it hangs")
    assert moving.Guests() == [0] and moving.transfers.done == []


# --- a guest that may still run -------------------------------------------------------------------------------------------


def test_a_guest_that_did_not_stop_is_not_started_beside_itself(three: Master) -> None:
    moving = Moving(three)
    three[0].faults["instance_shutdown"] = "it hangs"
    _Forget(three)
    _Fails(moving, "nothing was moved, as it may still run")
    assert not _Called(three, "instance_start", "export_start")


@pytest.mark.parametrize("state", [runstate.SENT, runstate.UNRESPONSIVE])
@pytest.mark.parametrize("ignore", [False, True])
def test_a_process_that_is_left_on_the_source_keeps_the_disks_from_being_copied(
    three: Master, state: str, ignore: bool
) -> None:
    """It does not have the guest, as far as can be seen, but nothing says that it has ended."""
    moving = Moving(three)

    def change(name: str, _args: Any) -> None:
        if name == "instance_shutdown":
            three[0].StartGuest(WEB, state=state)
            raise errors.RpcCallError("connection lost")

    three[0].before = change
    _Forget(three)
    with pytest.raises(errors.OpExecError, match="connection lost; nothing was moved, as it may still run"):
        three.Run(_Move(ignore_consistency=ignore))
    assert moving.home == 0 and moving.Counts() == [2, 0, 0] and moving.Content() == CONTENT
    assert not _Called(three, "instance_start", "export_start")


@pytest.mark.parametrize("ignore", [False, True])
def test_a_guest_that_turns_up_on_the_target_is_not_copied(three: Master, ignore: bool) -> None:
    """It is gone from the source, and its shutdown failed."""
    moving = Moving(three)

    def go(name: str, _args: Any) -> None:
        if name == "instance_shutdown":
            three[0].KillGuest(WEB)
            three[1].StartGuest(WEB)
            raise errors.RpcCallError("connection lost")

    three[0].before = go
    _Forget(three)
    with pytest.raises(errors.OpExecError, match="connection lost; nothing was moved, as it may still run"):
        three.Run(_Move(ignore_consistency=ignore))
    assert moving.Guests() == [1] and not _Called(three, "instance_start", "export_start")


# --- while the data travels -----------------------------------------------------------------------------------------------


def test_nothing_can_start_from_the_disks_that_are_copied(three: Master) -> None:
    """A guest is started from links, which are made when its disks are opened for it."""
    moving = Moving(three)
    links: list[list[str]] = []
    assert three[0].Names(pathutils.DISK_LINKS_DIR) == [f"{WEB}:0", f"{WEB}:1"]
    three[0].watch = lambda name: (
        links.append(three[0].Names(pathutils.DISK_LINKS_DIR)) if name == "impexp_status" else None
    )
    three.Run(_Move())
    assert links and all(names == [] for names in links), links
    assert moving.Content() == CONTENT


# --- another master -------------------------------------------------------------------------------------------------------


def test_a_master_that_has_ended_undoes_nothing(three: Master) -> None:
    """The next one may know that the target's disks are those that count."""
    moving = Moving(three)
    op = _Move()
    three[0].calls.clear()
    with pytest.raises(store.MasterEnded):
        three.Run(op, units={op.OP_ID: EndsAfter(LUInstanceMove, "UpdateMany")})
    assert moving.home == 1 and moving.Content() == CONTENT
    assert moving.Counts() == [2, 2, 0] and moving.Guests() == [] and "instance_start" not in three[0].calls
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert moving.Guests() == [1]
