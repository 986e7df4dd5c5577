"""Exporting instances: what becomes of the guest, the export and what was made for it (doc/design-transfers.rst)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import KilledInPause, Master
from support.playedtransfers import CONTENT, TwoDisks
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors, opcodes, pathutils, runtime
from ganeti.cmdlib.backup import remote
from ganeti.params import exported

EXPORT = f"{pathutils.EXPORT_DIR}/{WEB}"


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


class Exporting(TwoDisks):
    """What is on the nodes beside the disks."""

    def __init__(self, master: Master, template: str = "plain", up: bool = True):
        super().__init__(master, WEB, template, up)
        self.before = self.Volumes()

    def CutOff(self, step: str) -> dict[str, float]:
        """Let the second node hang from this call of the first one on; return when each call is served last."""
        times: dict[str, float] = {}

        def watch(name: str) -> None:
            times[name] = self.master.world.now
            if name == step:
                self.master.network.Cut(self.master[1].name, self.master[0].name)

        self.master[0].watch = watch
        return times

    def Runs(self) -> bool:
        return WEB in self.master[0].guests

    def Volumes(self) -> list[str]:
        return sorted(self.master[0].lvm.Volumes())

    def Exports(self) -> list[list[str]]:
        names = [node.Names(pathutils.EXPORT_DIR) for node in self.master.all]
        return [[name for name in found if not name.startswith(".")] for found in names]

    def Contents(self, node: int) -> list[bytes]:
        """What an export holds, in the order of the disks, as its description says."""
        read = self.master[node].Read
        found = exported.Parse(read(f"{EXPORT}/config.ini").decode())
        return [read(f"{EXPORT}/{disk.dump}").rstrip(b"\0") for disk in found.disks]


def _Export(target_node: Any = "node2", **values: Any) -> opcodes.OpBackupExport:
    return opcodes.OpBackupExport(instance_name="web", target_node=target_node, **values)


# --- what becomes of the guest --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["plain", "drbd"])
@pytest.mark.req("D20-OS-13")
def test_a_guest_runs_again_before_its_data_is_sent(three: Master, template: str) -> None:
    scene = Exporting(three, template)
    seen: list[tuple[bool, int]] = []

    def look(name: str) -> None:
        if name == "export_start":
            seen.append((scene.Runs(), len(scene.Volumes()) - len(scene.before)))

    three[0].watch = look
    assert three.Run(_Export()) == [True, [True, True]]
    assert seen == [(True, 2), (True, 2)], "it runs, and both snapshots are there"
    assert scene.Volumes() == scene.before and scene.Runs()
    assert scene.Contents(1) == CONTENT
    assert (scene.web.admin_state, scene.web.disks_active) == ("up", True)
    assert three[0].calls.count("instance_shutdown") == 1


def test_a_running_guest_goes_on_if_it_is_not_to_be_shut_down(three: Master) -> None:
    scene = Exporting(three)
    three.Run(_Export(shutdown=False))
    assert "instance_shutdown" not in three[0].calls and scene.Runs()
    assert scene.Contents(1) == CONTENT and scene.Volumes() == scene.before


def test_a_stopped_instance_stays_so_and_its_disks_too(three: Master) -> None:
    scene = Exporting(three, up=False)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name="web"))
    three.Run(_Export())
    assert not scene.Runs() and not scene.web.disks_active and "blockdev_snapshot" not in three[0].calls
    assert scene.Contents(1) == CONTENT


def test_an_instance_is_removed_when_its_export_is_complete(three: Master) -> None:
    scene = Exporting(three)
    three.Run(_Export(remove_instance=True))
    assert three.snapshot.InstanceByName(WEB) is None and not scene.Runs() and scene.Volumes() == []
    assert scene.Contents(1) == CONTENT
    assert "blockdev_snapshot" not in three[0].calls, "nobody writes any longer"


def test_disks_without_snapshots_keep_the_guest_down_for_a_long_sleep_only(three: Master) -> None:
    scene = Exporting(three, "file")
    with pytest.raises(errors.OpPrereqError, match="would be down until all its data has been sent"):
        three.Run(_Export())
    with pytest.raises(errors.OpPrereqError, match="cannot be exported while it runs"):
        three.Run(_Export(shutdown=False))
    assert scene.Runs()
    three.Run(_Export(long_sleep=True))
    assert scene.Runs() and scene.Contents(1) == CONTENT


# --- what fails -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "call", "said"),
    [
        (0, "blockdev_snapshot", "Could not make a snapshot of disk/0"),
        (0, "export_start", "disk 0: sending from node node1.example.org could not start: the node"),
        (1, "import_start", "disk 1: receiving on node node2.example.org could not start: the node"),
        (1, "finalize_export", "could not be completed on node node2"),
    ],
)
def test_a_failure_keeps_the_guest_and_the_older_export(three: Master, where: int, call: str, said: str) -> None:
    scene = Exporting(three)
    three.Run(_Export())
    three[where].faults[call] = "the node has its reasons"
    with pytest.raises(errors.OpExecError, match=said) as caught:
        three.Run(_Export())
    assert "the node has its reasons" in str(caught.value)
    assert scene.Runs() and scene.Volumes() == scene.before and scene.transfers.programs == {}
    assert scene.Contents(1) == CONTENT, "the older one"
    del three[where].faults[call]
    three.Run(_Export())


def test_where_nothing_has_arrived_nothing_is_to_be_removed(three: Master) -> None:
    """The node has never had an export, and makes its directory with the first one."""
    Exporting(three)
    three[1].faults["import_start"] = "its disk is broken"
    with pytest.raises(errors.OpExecError, match="its disk is broken"):
        three.Run(_Export())
    assert "export_remove" in three[1].calls
    assert not [text for text in three.last.messages if "gnt-backup remove" in text]


def test_a_disk_that_is_not_sent_is_named_and_the_guest_runs(three: Master) -> None:
    scene = Exporting(three, "file")
    scene.transfers.failing["disk1"] = "the file system is damaged"
    with pytest.raises(errors.OpExecError, match=r"disk 1: .*the file system is damaged") as caught:
        three.Run(_Export(long_sleep=True))
    assert "disk 0" not in str(caught.value) and "an older export of it" in str(caught.value.hint)
    assert scene.Runs() and scene.Exports()[1] == [], "what had arrived takes no room"


def test_a_target_that_dies_is_given_up(three: Master) -> None:
    scene = Exporting(three)
    three[0].watch = lambda name: three[1].machine.PowerOff() if name == "export_start" else None
    with pytest.raises(errors.OpExecError, match=r"disk 0: sending from node node1.*connection reset"):
        three.Run(_Export())
    assert scene.Runs() and scene.Volumes() == scene.before


def test_a_guest_that_does_not_stop_is_not_exported(three: Master) -> None:
    scene = Exporting(three)
    three[0].faults["instance_shutdown"] = "it does not listen"
    with pytest.raises(errors.OpExecError, match="Could not shut down instance"):
        three.Run(_Export())
    assert scene.Runs() and "blockdev_snapshot" not in three[0].calls


def test_a_guest_that_cannot_start_again_is_named(three: Master) -> None:
    scene = Exporting(three)
    three[0].faults["instance_start"] = "no memory"
    with pytest.raises(errors.OpExecError, match=r"could not be started again on node node1.*no memory") as caught:
        three.Run(_Export())
    assert caught.value.hint == f"'gnt-instance startup {WEB}' tries again"
    assert scene.Volumes() == scene.before, "no snapshot is left"


@pytest.mark.req("D22-MOVE-17")
@pytest.mark.parametrize("fails", [False, True])
def test_an_instance_leaves_for_another_cluster_when_all_disks_have_arrived(three: Master, fails: bool) -> None:
    scene = Exporting(three)
    if fails:
        scene.transfers.failing["disk1"] = "the other cluster has no room"
    op = _ToOtherCluster(three, remove_instance=True)
    if not fails:
        assert three.Run(op) == [True, [True, True]]
        assert three.snapshot.InstanceByName(WEB) is None and scene.Volumes() == []
    else:
        with pytest.raises(errors.OpExecError, match=r"disk 1: .*has no room") as caught:
            three.Run(op)
        # There it may run, whatever was heard: here nobody starts it, the watcher neither.
        assert not scene.Runs() and scene.web.admin_state == "down" and scene.Volumes() == scene.before
        assert "make sure that the other cluster does not run it" in str(caught.value.hint)
    assert three[0].Names(pathutils.CRYPTO_KEYS_DIR) == [], "its key was for this try"


def test_a_guest_that_is_only_copied_to_another_cluster_runs_again(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.failing["disk0"] = "the other cluster has no room"
    with pytest.raises(errors.OpExecError):
        three.Run(_ToOtherCluster(three))
    assert scene.Runs() and scene.web.admin_state == "up"


def test_one_disk_that_fails_ends_the_others(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 500

    def refuse(name: str, args: tuple[Any, ...]) -> None:
        three[1].faults.pop("import_start", None)
        if name == "import_start" and args[2] == "disk1":
            three[1].faults[name] = "no room"

    three[1].before = refuse
    with pytest.raises(errors.OpExecError, match=r"disk 0: canceled because another disk failed; disk 1: .*no room"):
        three.Run(_Export())
    assert scene.Runs() and scene.transfers.programs == {} and scene.transfers.done == []


def _ToOtherCluster(master: Master, **values: Any) -> opcodes.OpBackupExport:
    """The request of a client that has asked the other cluster where to send the disks."""
    secret = "the secret of both clusters"
    master[0].Write(pathutils.CLUSTER_DOMAIN_SECRET_FILE, secret + "\n")
    ready = master.Run(opcodes.OpBackupPrepare(instance_name=WEB, mode="remote"))
    infos = [remote.MakeDiskInfo(secret, index, "127.0.0.77", 7000 + index, "magic-text") for index in range(2)]
    own = {"x509_key_name": ready["x509_key_name"], "destination_x509_ca": ready["x509_ca"], "mode": "remote"}
    return _Export(infos, **own, **values)


# --- nodes ----------------------------------------------------------------------------------------------------------------


def test_the_guest_runs_again_before_older_exports_are_removed(three: Master) -> None:
    """Which takes long on a node that hangs."""
    scene = Exporting(three, "file")
    three.Run(_Export("node3", long_sleep=True))
    ran: list[bool] = []
    three[2].watch = lambda name: ran.append(scene.Runs()) if name == "export_remove" else None
    three.Run(_Export("node2", long_sleep=True))
    assert ran == [True]


def test_a_target_that_hangs_keeps_the_guest_down_for_minutes_only(three: Master) -> None:
    """The job is ended meanwhile, and what has arrived cannot be removed."""
    scene = Exporting(three, "file")
    scene.transfers.looks = 10**6
    times = scene.CutOff("impexp_cleanup")
    with pytest.raises(errors.OpExecError, match="gnt-job cancel --kill"):
        three.Run(_Export(long_sleep=True), KilledInPause())
    assert scene.Runs() and times["instance_start"] - times["instance_shutdown"] < 200


def test_older_exports_elsewhere_go_when_the_new_one_is_complete(three: Master) -> None:
    scene = Exporting(three)
    three.Run(_Export("node2"))
    three[2].faults["finalize_export"] = "its disk is full"
    with pytest.raises(errors.OpExecError):
        three.Run(_Export("node3"))
    assert scene.Exports()[1] == [WEB]
    del three[2].faults["finalize_export"]
    three.Run(_Export("node3"))
    assert scene.Exports()[1:] == [[], [WEB]]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("export_list", "Node node2.example.org did not answer; it may still have an older export"),
        ("export_remove", "Could not remove the older export of web.example.org on node node2.example.org"),
    ],
)
def test_an_older_export_that_stays_can_go_without_the_new_one(three: Master, call: str, said: str) -> None:
    Exporting(three)
    three.Run(_Export("node2"))

    def stop(name: str, _args: Any) -> None:
        if name == call:
            three[1].Stop()

    three[1].before = stop
    three.Run(_Export("node3"))
    assert any(said in text for text in three.last.messages)
    [hint] = [text for text in three.last.messages if "gnt-backup remove" in text]
    assert f"the next export of {WEB} removes it; 'gnt-backup remove {WEB}' would remove the new one as well" in hint


def test_names_that_would_be_in_each_others_way(three: Master) -> None:
    scene = Exporting(three)
    three.Run(OnDisks(f"{WEB}.new", {"size": 128}, disk_template="plain"))
    with pytest.raises(errors.OpPrereqError, match="would be in each other's way") as caught:
        three.Run(opcodes.OpBackupExport(instance_name=WEB, target_node="node2"))
    stop, rename = f"'gnt-instance shutdown {WEB}'", f"'gnt-instance rename {WEB} NEWNAME'"
    assert caught.value.hint == f"shut one of them down and rename it: {stop}, then {rename}"
    assert scene.Runs()


def test_an_export_of_which_nobody_knows_whether_it_is_complete(three: Master) -> None:
    scene = Exporting(three)
    three[1].before = lambda name, _args: three[1].Stop() if name == "finalize_export" else None
    with pytest.raises(errors.OpExecError, match="It is not known whether the export of instance web") as caught:
        three.Run(_Export())
    shown = f"'gnt-backup list -n node2.example.org' shows {WEB}.new"
    assert caught.value.hint == f"while {shown}, it is not complete: export it again"
    assert scene.Exports()[1] == [f"{WEB}.new"] and scene.Runs()


def test_nodes_that_share_their_directory_keep_the_new_export(three: Master) -> None:
    scene = Exporting(three)
    files: dict[str, bytes] = {}

    def share(name: str) -> None:
        """What the second node has completed is in the third one's directory, too."""
        if name == "export_list" and not files:
            for own in three[1].Names(EXPORT):
                files[own] = three[1].Read(f"{EXPORT}/{own}")
                three[2].Call(runtime.MakeDirs, EXPORT)
                three[2].Call(runtime.WriteFile, f"{EXPORT}/{own}", files[own])

    three[2].watch = share
    three.Run(_Export())
    assert scene.Exports()[1:] == [[WEB], [WEB]] and "export_remove" not in three[2].calls


def test_nodes_are_free_while_the_data_travels(three: Master) -> None:
    Exporting(three)
    held: list[set[str]] = []

    def look(name: str) -> None:
        if name == "impexp_status":
            rows = three.glm.QueryLocks()
            held.append({row.name.partition("/")[0] for row in rows if row.owner})

    three[0].watch = look
    three.Run(_Export())
    assert held and all(levels == {"cluster", "instance"} for levels in held), held


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ("Node 'nowhere' not known", {"target_node": "nowhere"}),
        ("long_sleep needs an instance that is shut down for the export", {"long_sleep": True, "shutdown": False}),
        ("must be shut down for it", {"remove_instance": True, "shutdown": False}),
        ("needs the name of the key", {"mode": "remote", "target_node": []}),
        (
            "Mode local needs the name of a node, mode remote a list of disk addresses",
            {"target_node": [["127.0.0.1", 1, "magic", "hmac", "salt"]]},
        ),
    ],
)
def test_what_cannot_be_is_refused(three: Master, said: str, values: dict[str, Any]) -> None:
    scene = Exporting(three)
    with pytest.raises(errors.OpPrereqError, match=said):
        three.Run(_Export(**values))
    assert scene.Runs() and "instance_shutdown" not in three[0].calls


@pytest.mark.parametrize(("tool", "taught"), [("rar", True), ("../rar", False)])
def test_a_tool_that_is_not_allowed(three: Master, tool: str, taught: bool) -> None:
    """Whoever allows it keeps those that are allowed already."""
    Exporting(three)
    allowed = three.snapshot.cluster.compression_tools
    said = f"Compression tool '{tool}' is not allowed in this cluster; allowed are none, {', '.join(allowed)}"
    with pytest.raises(errors.OpPrereqError, match=re.escape(said)) as caught:
        three.Run(_Export(compress=tool))
    option = f"--compression-tools={','.join(allowed)},{tool}"
    hint = f"install it on all nodes, then 'gnt-cluster modify {option}' allows it"
    assert caught.value.hint == (hint if taught else None)
