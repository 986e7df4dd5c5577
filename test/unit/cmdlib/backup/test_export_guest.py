"""What an export that fails, or must not begin, does to the guest, to older exports and to other nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master
from support.simnode import SimNode
from unit.cmdlib.backup.test_export import Exporting, _Export, _ToOtherCluster
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors, objects, opcodes


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


def _Refused(scene: Exporting, match: str, **values: Any) -> str:
    """Nothing was done to the guest, and nothing was made; return what is proposed."""
    before = scene.web, scene.Volumes(), scene.Exports()
    for node in scene.master.all:
        node.calls.clear()
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        scene.master.Run(_Export(**values))
    done = {"instance_shutdown", "instance_start", "blockdev_snapshot", "export_start", "export_remove"}
    assert not [node.name for node in scene.master.all if done & set(node.calls)]
    assert (scene.web, scene.Volumes(), scene.Exports()) == before
    return caught.value.hint or ""


def _Set(master: Master, number: int, **flags: Any) -> None:
    master.cfg.Update(master.snapshot.nodes[master.nodes[number]].Replace(master_candidate=number == 0, **flags))


def _LeaveRoom(master: Master, mib: int) -> None:
    """The volume group of the first node has so much room left."""
    for name, pv in master[0].lvm.pvs.items():
        pv.free = mib if name == "/dev/sda" else 0


def _Warned(master: Master, *texts: str) -> bool:
    """Whether each text is somewhere in what the job said."""
    return all(any(text in message for message in master.last.messages) for text in texts)


# --- before the guest is stopped ------------------------------------------------------------------------------------------


def test_a_guest_that_runs_elsewhere_is_left_alone(three: Master) -> None:
    """What is on its primary node then is not what it has written."""
    scene = Exporting(three, "drbd")
    three[0].KillGuest(WEB)
    three[1].StartGuest(WEB)
    _Refused(scene, "Instance web.* cannot be exported: it runs on node2", target_node="node3")
    assert WEB in three[1].guests


@pytest.mark.parametrize("template", ["plain", "drbd"])
@pytest.mark.parametrize("shutdown", [True, False])
def test_a_guest_is_not_stopped_for_snapshots_that_have_no_room(three: Master, template: str, shutdown: bool) -> None:
    scene = Exporting(three, template)
    _LeaveRoom(three, 383)
    _Refused(scene, "node1.* vg xenvg: required 384 MiB, available 383", shutdown=shutdown, target_node="node3")
    _LeaveRoom(three, 384)
    three.Run(_Export("node3", shutdown=shutdown))
    assert scene.Runs()


def test_what_needs_no_snapshots_needs_no_room(three: Master) -> None:
    scene = Exporting(three)
    _LeaveRoom(three, 4)
    three.Run(_Export(remove_instance=True))
    assert scene.Exports()[1] == [WEB]


@pytest.mark.parametrize("flag", ["offline", "drained"])
def test_a_target_that_takes_no_exports(three: Master, flag: str) -> None:
    scene = Exporting(three)
    _Set(three, 2, **{flag: True})
    _Refused(scene, f"Can't use {flag} node:? node3", target_node="node3")


def test_a_guest_whose_node_is_offline_cannot_be_exported(three: Master) -> None:
    scene = Exporting(three, "drbd", up=False)
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    _Set(three, 1, offline=True)
    _Refused(scene, f"Primary node of instance '{WEB}' is offline", target_node="node3")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"compress": "none"}, "saves nothing unless the export is compressed"),
        (
            {"mode": "remote", "target_node": [], "x509_key_name": ["a", "b", "c"], "destination_x509_ca": "CA"},
            "before local exports only",
        ),
    ],
)
def test_free_space_is_not_zeroed_where_that_saves_nothing_or_takes_too_long(
    three: Master, values: dict[str, Any], said: str
) -> None:
    _Refused(Exporting(three), said, **{"zero_free_space": True, "compress": "gzip", **values})


def test_an_export_whose_name_is_that_of_an_unfinished_one(three: Master) -> None:
    scene = Exporting(three)
    other = f"{WEB}.new"
    three.Run(OnDisks(other, {"size": 128}, disk_template="plain"))
    with pytest.raises(errors.OpPrereqError, match="would be in each other's way"):
        three.Run(opcodes.OpBackupExport(instance_name=other, target_node="node2"))
    assert scene.Exports() == [[], [], []]


# --- a guest that may still run -------------------------------------------------------------------------------------------


def test_a_guest_that_did_not_stop_is_not_started_beside_itself(three: Master) -> None:
    scene = Exporting(three)
    three[0].faults["instance_shutdown"] = "it does not listen"
    three[0].calls.clear()
    with pytest.raises(errors.OpExecError, match="it does not listen") as caught:
        three.Run(_Export())
    assert scene.Runs() and "instance_start" not in three[0].calls
    assert caught.value.hint == f"it may still end: 'gnt-instance list {WEB}' shows whether it runs"


def test_a_guest_of_which_nothing_is_heard_is_not_started(three: Master) -> None:
    """Its node does not say what became of it."""
    scene = Exporting(three)

    def stop(name: str, _args: Any) -> None:
        if name == "instance_shutdown":
            three[0].faults.update(instance_shutdown="connection lost", instance_run_state="busy")

    three[0].before = stop
    three[0].calls.clear()
    with pytest.raises(errors.OpExecError, match="connection lost"):
        three.Run(_Export())
    assert scene.Runs() and "instance_start" not in three[0].calls


def test_a_guest_that_ended_although_its_shutdown_failed_is_started_again(three: Master) -> None:
    scene = Exporting(three)
    three[0].EndsUnheard(WEB)
    with pytest.raises(errors.OpExecError, match="connection lost"):
        three.Run(_Export())
    assert scene.Runs() and "export_start" not in three[0].calls


# --- a guest that is started again ----------------------------------------------------------------------------------------


def test_why_an_export_failed_is_not_hidden_by_a_guest_that_does_not_start(three: Master) -> None:
    scene = Exporting(three, "file")
    scene.transfers.failing["disk0"] = "the file system is damaged"
    three[0].faults["instance_start"] = "no memory"
    with pytest.raises(errors.OpExecError, match="the file system is damaged"):
        three.Run(_Export(long_sleep=True))
    assert _Warned(three, "could not be started again on node node1", f"'gnt-instance startup {WEB}' tries again")


def test_an_export_is_complete_although_the_guest_does_not_start(three: Master) -> None:
    """Nobody need copy for hours again."""
    scene = Exporting(three, "file")
    three[0].faults["instance_start"] = "no memory"
    with pytest.raises(errors.OpExecError, match=r"is complete on node node2.*, but: .*no memory") as caught:
        three.Run(_Export(long_sleep=True))
    assert caught.value.hint == f"'gnt-instance startup {WEB}' tries again"
    assert scene.Exports()[1] == [WEB]


def test_disks_are_not_taken_from_a_guest_that_runs_again(three: Master) -> None:
    """Somebody had taken them down by force; the guest was given them again."""
    scene = Exporting(three)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB, force=True))
    three[0].calls.clear()
    three.Run(_Export())
    assert scene.Runs() and scene.web.disks_active and scene.Contents(1)
    assert "blockdev_shutdown" not in three[0].calls


@pytest.mark.parametrize("fails", [False, True])
def test_disks_are_taken_down_again_where_no_guest_runs(three: Master, fails: bool) -> None:
    scene = Exporting(three, up=False)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    if fails:
        scene.transfers.failing["disk0"] = "the file system is damaged"
        with pytest.raises(errors.OpExecError):
            three.Run(_Export())
    else:
        three.Run(_Export())
    assert not scene.web.disks_active and three[0].calls[-1] != "blockdev_assemble"
    assert "blockdev_shutdown" in three[0].calls


@pytest.fixture
def sharing(make: Callable[..., Master]) -> Master:
    """Memory is promised twice."""

    def change(root: objects.Snapshot) -> objects.Snapshot:
        root = _EmptyWithFiles(root)
        return root.Replace(cluster=root.cluster.Replace(ipolicy={**root.cluster.ipolicy, "memory-ratio": 2.0}))

    return make(3, lvm=True, change=change)


@pytest.mark.parametrize(("template", "kept"), [("file", True), ("plain", False)])
def test_nobody_takes_the_memory_of_a_guest_that_is_to_run_again(sharing: Master, template: str, kept: bool) -> None:
    """One that runs again while its snapshots are sent has it."""
    scene = Exporting(sharing, template)
    wanted = {f"node-res/{sharing.nodes[0]}"} if kept else set()
    assert _NodesHeld(sharing) == wanted and scene.Runs()


def test_a_node_whose_memory_is_not_shared_is_free_while_the_data_travels(three: Master) -> None:
    Exporting(three, "file")
    assert _NodesHeld(three) == set()


def _NodesHeld(master: Master) -> set[str]:
    """The locks of nodes that an export has while the data travels."""
    held: list[set[str]] = []

    def look(name: str) -> None:
        if name == "impexp_status":
            held.append({row.name for row in master.glm.QueryLocks() if row.owner and row.name.startswith("node")})

    master[0].watch = look
    master.Run(_Export(long_sleep=True))
    assert held and all(names == held[0] for names in held), held
    return held[0]


# --- an instance that is removed ------------------------------------------------------------------------------------------


def test_what_is_half_removed_is_not_started_by_the_watcher(three: Master) -> None:
    scene = Exporting(three)
    states: list[str] = []
    three[0].faults["blockdev_remove"] = "it is busy"
    three[0].watch = lambda name: states.append(scene.web.admin_state) if name == "blockdev_remove" else None
    with pytest.raises(errors.OpExecError, match=r"is complete on node node2.*but: Can't remove the disks") as caught:
        three.Run(_Export(remove_instance=True))
    assert states and set(states) == {"down"} and scene.web.admin_state == "down" and not scene.Runs()
    assert "gnt-instance remove --ignore-failures" in str(caught.value.hint)


def test_a_guest_that_may_run_in_the_other_cluster_is_marked_down_before_it_is_sent(three: Master) -> None:
    scene = Exporting(three)
    states: list[str] = []
    three[0].watch = lambda name: states.append(scene.web.admin_state) if name == "export_start" else None
    scene.transfers.failing["disk1"] = "the other cluster has no room"
    op = _ToOtherCluster(three, remove_instance=True)
    three[0].calls.clear()
    with pytest.raises(errors.OpExecError):
        three.Run(op)
    assert states == ["down", "down"] and "instance_start" not in three[0].calls


# --- what stays on nodes --------------------------------------------------------------------------------------------------


def test_an_export_that_is_being_completed_is_not_discarded(three: Master) -> None:
    """The node is busy with it and its answer was lost; it has completed it by now."""
    scene = Exporting(three)

    def hang(name: str, _args: Any) -> None:
        if name == "finalize_export":
            three[1].Stop()
            three[1].Start()

    three[1].before = hang
    three[1].calls.clear()
    with pytest.raises(errors.OpExecError, match="It is not known whether"):
        three.Run(_Export())
    assert "export_remove" not in three[1].calls and scene.Runs()


def test_what_cannot_be_removed_of_an_export_that_failed_is_named(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.failing["disk0"] = "the file system is damaged"
    three[1].faults["export_remove"] = "it is busy"
    with pytest.raises(errors.OpExecError, match="the file system is damaged"):
        three.Run(_Export())
    said = "Could not remove what has arrived on node node2.example.org: it is busy"
    assert _Warned(three, said, f"'gnt-backup remove {WEB}.new' removes it")
    assert scene.Exports()[1] == [f"{WEB}.new"]


def test_snapshots_that_cannot_be_removed_are_named(three: Master) -> None:
    scene = Exporting(three)
    three[0].faults["blockdev_remove"] = "it is busy"
    three.Run(_Export())
    left = sorted(set(scene.Volumes()) - set(scene.before))
    assert len(left) == 2
    for index, name in enumerate(left):
        said = f"Could not remove the snapshot of disk/{index} on node node1.example.org: it is busy"
        assert _Warned(three, said, name)


def _Older(master: Master) -> SimNode:
    """The second node has an older export, and the third one will have the new one."""
    master.Run(_Export("node2"))
    return master[2]


def test_an_older_export_stays_while_the_new_one_cannot_be_read(three: Master) -> None:
    scene = Exporting(three)
    _Older(three).faults["export_info"] = "its disk is broken"
    three.Run(_Export("node3"))
    assert scene.Exports()[1:] == [[WEB], [WEB]]


def test_nodes_that_are_offline_are_not_asked_for_older_exports(three: Master) -> None:
    scene = Exporting(three)
    _Older(three)
    _Set(three, 1, offline=True)
    three[1].calls.clear()
    three.Run(_Export("node3"))
    assert three[1].calls == [] and scene.Exports()[1:] == [[WEB], [WEB]]
    assert not _Warned(three, "did not answer"), "everybody knows"
