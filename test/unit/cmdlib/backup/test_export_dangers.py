"""Exports and moves beside mirrors that are not whole, guests that run unnoticed, and nodes that hang: no copy is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Callbacks, Master
from support.playedtransfers import CONTENT, Transfers
from support.standinstorage import Write
from unit.cmdlib.backup.test_export import EXPORT, Exporting, _Export
from unit.cmdlib.instance.test_importing import COPY, _Arriving
from unit.cmdlib.instance.test_mirrors import WEB, Mirrors, _EmptyWithFiles

from ganeti import constants, errors, opcodes
from ganeti.jqueue import unclean
from ganeti.jqueue.job import OpInput


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


# --- what is copied is the guest's data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["Inconsistent", "Diskless"])
def test_a_side_that_does_not_have_the_data_is_not_exported(three: Master, state: str) -> None:
    """The guest reads its other side; a snapshot would be one of garbage, and replace the good export."""
    mirrors = Mirrors(three)
    scene = Exporting(three, "drbd")
    three.Run(_Export("node2"))
    for device in mirrors.machines[0].devices.values():
        device.disk = device.known.state = state
        device.link = "SyncTarget" if state == "Inconsistent" else device.link
    if state == "Inconsistent":
        for device in mirrors.machines[1].devices.values():
            device.link = "SyncSource"
        mirrors.links.hold = True
    mirrors.links.Publish()
    for disk in scene.disks:
        Write(scene.File(0, disk), b"garbage")
    three[0].calls.clear()
    with pytest.raises(errors.OpPrereqError, match=r"copies on its primary node node1.* are not up to date") as caught:
        three.Run(_Export("node3"))
    assert "gnt-instance replace-disks -p" in str(caught.value.hint) and "instance_shutdown" not in three[0].calls
    assert scene.Exports()[1:] == [[WEB], []] and scene.Contents(1) == CONTENT


@pytest.mark.parametrize("remove", [False, True])
def test_a_guest_that_runs_although_it_is_marked_down_is_noticed(three: Master, remove: bool) -> None:
    """It was started with --no-remember: its disks are not to be read beside it, let alone removed."""
    scene = Exporting(three, "file", up=False)
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB, no_remember=True))
    with pytest.raises(errors.OpPrereqError, match="cannot be exported without being shut down"):
        three.Run(_Export(shutdown=False, remove_instance=remove))
    assert scene.Runs() and scene.web and "export_start" not in three[0].calls


def test_an_export_of_an_instance_with_the_name_of_an_unfinished_one_stays(three: Master) -> None:
    """The replacement was built as web.new, exported, and removed or renamed since."""
    Transfers(three)
    new = WEB + ".new"
    three.Run(OnDisks(new, {"size": 128}, disk_template="plain"))
    three.Run(opcodes.OpBackupExport(instance_name=new, target_node="node2", remove_instance=True))
    scene = Exporting(three)
    with pytest.raises(errors.OpPrereqError, match=r"keeps an export of a former instance .web\.example\.org\.new."):
        three.Run(_Export())
    assert scene.Exports()[1] == [new] and "config.ini" in three[1].Names(f"{EXPORT}.new") and scene.Runs()
    three.Run(_Export("node3"))
    assert scene.Exports()[1:] == [[new], [WEB]]


def test_an_older_export_that_may_be_the_new_one_stays(three: Master) -> None:
    """Nodes may share the directory; one that cannot say what it has is not told to remove it."""
    scene = Exporting(three)
    three.Run(_Export("node3"))
    three[2].faults["export_info"] = "the directory has been locked by another call"
    three.Run(_Export("node2"))
    assert scene.Exports()[1:] == [[WEB], [WEB]] and "export_remove" not in three[2].calls
    assert any("was not removed, as it may be this one" in text for text in three.last.messages)


# --- nodes that hang or die -----------------------------------------------------------------------------------------------


def test_a_target_that_hangs_keeps_the_guest_down_for_minutes_only(three: Master) -> None:
    """Its node daemon is stopped while the disks travel: each call would last for a quarter of an hour."""
    scene = Exporting(three)
    scene.transfers.looks = 10**6
    times = scene.CutOff("export_start")
    with pytest.raises(errors.OpExecError):
        three.Run(opcodes.OpInstanceMove(instance_name=WEB, target_node="node2"))
    assert scene.Runs() and times["instance_start"] - times["instance_shutdown"] < 300


def test_a_target_that_dies_at_the_start_does_not_take_the_only_copy_with_it(three: Master) -> None:
    scene = Exporting(three)

    def die(name: str, _args: Any) -> None:
        if name == "instance_start":
            three[1].machine.PowerOff()

    three[1].before = die
    with pytest.raises(errors.OpExecError, match="has been moved to node node2"):
        three.Run(opcodes.OpInstanceMove(instance_name=WEB, target_node="node2"))
    assert scene.Volumes() == scene.before, "both disks"
    kept = [
        text
        for text in three.last.messages
        if "on node node1.example.org is kept: node node2.example.org does not answer" in text
    ]
    assert len(kept) == 2 and any("when the instance runs, run 'lvremove" in text for text in three.last.messages)


def test_a_guest_whose_disks_cannot_be_set_up_again_is_said_to_be_down(three: Master) -> None:
    Exporting(three)
    three[0].faults["blockdev_assemble"] = "the volume group is gone"
    with pytest.raises(errors.OpExecError) as caught:
        three.Run(_Export())
    said = f"{caught.value} {caught.value.hint} {three.last.messages}"
    assert "could not be started again on node node1.example.org and is down" in said


def test_a_guest_that_may_run_again_keeps_its_disks(three: Master) -> None:
    """The node does not answer its start."""
    scene = Exporting(three)
    three[0].faults["blockdev_snapshot"] = "no room"
    three[0].before = lambda name, _args: three[0].Stop() if name == "instance_start" else None
    with pytest.raises(errors.OpExecError):
        three.Run(_Export())
    assert any(f"It is not known whether instance {WEB} runs again" in text for text in three.last.messages)
    assert scene.web.disks_active


class _Undisturbed(Callbacks):
    """Knows whether a kill would wait."""

    now = False

    @contextlib.contextmanager
    def Undisturbed(self) -> Iterator[None]:
        self.now = True
        yield
        self.now = False


@pytest.mark.parametrize("move", [False, True])
def test_a_kill_does_not_strike_while_the_guest_is_started_again(three: Master, move: bool) -> None:
    Exporting(three)
    cbs, seen = _Undisturbed(), list[bool]()
    for node in three.all:
        node.before = lambda name, _args: seen.append(cbs.now) if name == "instance_start" else None
    three.Run(opcodes.OpInstanceMove(instance_name=WEB, target_node="node2") if move else _Export(), cbs)
    assert seen == [True] and not cbs.now


# --- moves between clusters -----------------------------------------------------------------------------------------------


def test_who_removes_an_instance_that_did_not_arrive_looks_for_the_other_one_first(three: Master) -> None:
    """The source removes its own when all has arrived, whatever becomes of this job then."""
    Transfers(three, nobody=True)
    with pytest.raises(errors.OpExecError):
        three.Run(_Arriving(three))
    assert any(
        f"if the other cluster still has it, 'gnt-instance remove {COPY}' removes it" in text
        for text in three.last.messages
    )
    data = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": COPY, "mode": constants.CREATE_REMOTE_IMPORT}
    assert "make sure that the other cluster still has it" in unclean.Describe(OpInput(data, ""))
    assert "other cluster" not in unclean.Describe(OpInput({**data, "mode": constants.CREATE_NEW}, ""))
