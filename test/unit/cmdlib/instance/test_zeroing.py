"""The helper that zeroes free space before an export: what it is given, how it ends, what it leaves (doc/design-transfers.rst)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.dying import DiesIn, Killed
from support.ending import EndsAfter
from support.heads import Server
from support.master import Callbacks, KilledInPause, Master
from support.simnode import FILE_FOLDER, SHARED_FOLDER
from unit.cmdlib.backup.test_export import CONTENT, Exporting
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors, objects, opcodes, runtime, store
from ganeti.cmdlib.backup.export import LUBackupExport

IMAGE = "/srv/images/zero.img"
MIB = 1 << 20


def _WithImage(root: objects.Snapshot) -> objects.Snapshot:
    root = _EmptyWithFiles(root)
    return root.Replace(cluster=root.cluster.Replace(zeroing_image=IMAGE))


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_WithImage, prepare=_PutImage)


@pytest.fixture
def filed(make: Callable[..., Master]) -> Master:
    """Without a volume group."""

    def change(root: objects.Snapshot) -> objects.Snapshot:
        root = _WithImage(root)
        templates = ["file", "sharedfile"]
        policy = {**root.cluster.ipolicy, "disk-templates": templates}
        return root.Replace(
            cluster=root.cluster.Replace(
                enabled_disk_templates=templates,
                ipolicy=policy,
                volume_group_name=None,
                shared_file_storage_dir=SHARED_FOLDER,
            )
        )

    return make(3, lvm=True, change=change, prepare=_PutImage)


def _PutImage(master: Master) -> None:
    def put() -> None:
        runtime.MakeDirs("/srv/images")
        runtime.CreateFile(IMAGE, 9 * MIB + 1)
        runtime.Chmod(IMAGE, 0o644)

    master[0].Call(put)


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server()
    yield serving
    serving.Close()


class Zeroing(Exporting):
    """An export of an instance whose free space is zeroed first; ``given``: what the helper was started with, each time."""

    def __init__(self, master: Master, template: str = "plain", up: bool = True):
        super().__init__(master, template, up)
        self.folder = self.Folder()
        self.given: list[dict[str, Any]] = []
        self.looks = 3
        self.on_end: Callable[[str], None] = master[0].KillGuest
        self._running = 0
        master[0].before = self._Look

    def _Look(self, name: str, args: Any) -> None:
        """Whoever starts the instance with a disk more starts the helper, which ends after some looks."""
        if name == "instance_start":
            self._running = len(args[0]["disks_info"]) - 2
            if self._running:
                self.given.append(args[0])
                self._left = self.looks
        elif name == "instance_info" and self._running and WEB in self.master[0].guests:
            self._left -= 1
            if self._left < 0:
                self._running = 0
                self.on_end(WEB)

    def Lengthen(self) -> None:
        self._left += 100

    def HelperRuns(self) -> bool:
        return bool(self._running) and WEB in self.master[0].guests

    def Export(self, cbs: Callbacks | None = None, **values: Any) -> Any:
        self.master[0].calls.clear()
        more = {"zero_free_space": True, "compress": "gzip", "long_sleep": True, **values}
        return self.master.Run(opcodes.OpBackupExport(instance_name="web", target_node="node2", **more), cbs)

    def Folder(self) -> list[str]:
        return self.master[0].Names(f"{FILE_FOLDER}/{WEB}")


@pytest.mark.parametrize("template", ["plain", "drbd", "file"])
@pytest.mark.parametrize("up", [True, False])
def test_the_helper_runs_from_the_image_before_the_export(three: Master, template: str, up: bool) -> None:
    scene = Zeroing(three, template, up)
    before = scene.web, scene.disks, scene.Folder()
    scene.Export()
    [given] = scene.given
    first, *others = given["disks_info"]
    assert (first["dev_type"], first["size"], first["iv_name"]) == ("plain", 10, "helper")
    assert [disk["uuid"] for disk in others] == [disk.uuid for disk in scene.disks]
    assert given["hvparams"]["boot_order"] == "disk" and given["name"] == WEB
    device = f"/dev/{'/'.join(first['logical_id'])}"
    assert (IMAGE, device) in three[0].copied
    assert scene.Contents(1) == CONTENT and scene.Runs() == up
    assert (scene.web.Replace(serial_no=0, mtime=0), scene.disks) == (
        before[0].Replace(serial_no=0, mtime=0),
        before[1],
    )
    assert scene.Volumes() == scene.before and scene.Folder() == before[2]
    order = [name for name in three[0].calls if name in _STEPS]
    assert order[:5] == [*_STEPS[:2], "instance_start", "instance_shutdown", "blockdev_remove"]


_STEPS = ("instance_shutdown", "blockdev_image", "instance_start", "blockdev_remove", "export_start")


@pytest.mark.parametrize("active", [True, False])
def test_disks_stay_as_they_were(three: Master, active: bool) -> None:
    scene = Zeroing(three, up=False)
    if not active:
        three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    scene.Export()
    assert scene.web.disks_active == active and scene.Contents(1) == CONTENT and len(scene.given) == 1


def test_without_a_volume_group_the_helper_has_a_file(filed: Master) -> None:
    scene = Zeroing(filed, "file")
    before = scene.Folder()
    scene.Export()
    [given] = scene.given
    assert given["disks_info"][0]["logical_id"][1].startswith(f"{FILE_FOLDER}/{WEB}/")
    assert scene.Folder() == before and scene.Contents(1) == CONTENT and scene.Runs()


def test_a_helper_that_shuts_its_guest_down_has_ended(three: Master) -> None:
    scene = Zeroing(three)
    scene.on_end = three[0].ShutDownByUser
    scene.Export()
    assert len(scene.given) == 1 and scene.Runs() and scene.Contents(1) == CONTENT


@pytest.mark.parametrize("first", [0, 1], ids=["from the start", "when it was seen"])
def test_a_node_that_is_silent_for_a_while(three: Master, first: int) -> None:
    """The helper has not ended because nobody says that it runs."""
    scene = Zeroing(three)
    asked, look = [0], three[0].before

    def fail(name: str, args: Any) -> None:
        if name == "instance_info" and scene.given:
            asked[0] += 1
            if first < asked[0] <= first + 5:
                raise errors.RpcCallError("busy")
        look(name, args)

    three[0].before = fail
    scene.Export()
    assert asked[0] > first + 5 and scene.Contents(1) == CONTENT


def test_the_helper_is_booted_whatever_the_guest_boots_from(three: Master) -> None:
    scene = Zeroing(three)
    three.cfg.Update(scene.web.Replace(hvparams={**scene.web.hvparams, "boot_order": "network"}))
    scene.Export()
    [given] = scene.given
    assert given["hvparams"]["boot_order"] == "disk"
    assert three[0].arguments["instance_start"][0]["hvparams"]["boot_order"] == "network", "the guest, afterwards"


def test_the_directory_of_the_helpers_file_goes_with_it(filed: Master) -> None:
    scene = Zeroing(filed, "sharedfile")
    assert WEB not in filed[0].Names(FILE_FOLDER)
    scene.Export()
    assert len(scene.given) == 1 and WEB not in filed[0].Names(FILE_FOLDER)


# --- what is refused -------------------------------------------------------------------------------------------------------


def _Refused(scene: Zeroing, match: str) -> str:
    before = scene.web, scene.Volumes(), scene.Runs()
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        scene.Export()
    assert (scene.web, scene.Volumes(), scene.Runs()) == before and scene.given == []
    return caught.value.hint or ""


def test_what_cannot_be_zeroed_is_known_before_the_guest_is_stopped(three: Master) -> None:
    scene = Zeroing(three)
    three[0].Call(runtime.RemoveFile, IMAGE)
    assert f"'gnt-cluster copyfile {IMAGE}'" in _Refused(scene, f"Image {IMAGE} does not exist on node node1")
    cluster = three.snapshot.cluster
    three.cfg.Update(cluster.Replace(zeroing_image=""))
    assert "'gnt-cluster modify --zeroing-image=FILE-OR-URL'" in _Refused(
        scene, "the cluster has no image of the helper"
    )
    three.cfg.Update(three.snapshot.cluster.Replace(zeroing_image=IMAGE))
    _PutImage(three)
    three.cfg.Update(scene.web.Replace(hypervisor="lxc"))
    _Refused(scene, "hypervisor lxc cannot boot the helper from a disk; kvm, xen-hvm, xen-pvm can")
    three.cfg.Update(scene.web.Replace(hypervisor="kvm"))
    _LeaveRoom(three, 400)
    three[0].Call(lambda: (runtime.RemoveFile(IMAGE), runtime.CreateFile(IMAGE, 500 * MIB)))
    _Refused(scene, "Not enough disk space on target node node1.* vg xenvg: required 500 MiB, available 400")


def _LeaveRoom(master: Master, mib: int) -> None:
    """The volume group has just enough room for what else an export makes."""
    master[0].lvm.pvs.clear()
    master[0].lvm.AddPv("/dev/sdz", "xenvg", mib)


def test_an_image_at_a_url_needs_a_known_size(three: Master, server: Server) -> None:
    scene = Zeroing(three)
    three.cfg.Update(three.snapshot.cluster.Replace(zeroing_image=f"{server.url}/stream"))
    hint = _Refused(scene, "The size of image http://.*/stream, .* is not known: its server does not say so")
    assert "'gnt-cluster copyfile FILE' and 'gnt-cluster modify --zeroing-image=FILE'" in hint
    three.cfg.Update(three.snapshot.cluster.Replace(zeroing_image=f"{server.gone}/image"))
    _Refused(scene, "is not known: Failed to connect")
    three.cfg.Update(three.snapshot.cluster.Replace(zeroing_image=f"{server.url}/image"))
    _LeaveRoom(three, 400)
    _Refused(scene, f"vg xenvg: required {server.size >> 20} MiB")


def test_memory_for_the_helper_of_an_instance_that_is_down(three: Master) -> None:
    scene = Zeroing(three, up=False)
    three[0].SetMemory(1100)
    _Refused(scene, "Not enough memory on node node1.* for the helper on instance web")


def test_an_instance_with_as_many_disks_as_there_can_be(three: Master) -> None:
    scene = Zeroing(three, up=False)
    added = [["add", -1, {"size": 4}]] * 14
    three.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disks=added, ignore_ipolicy=True))
    _Refused(scene, "it has 16 disks; 1 to 15 are supported, as the helper adds one")


def test_neither_a_volume_group_nor_a_directory(filed: Master) -> None:
    scene = Zeroing(filed, "file")
    filed.cfg.Update(filed.snapshot.cluster.Replace(file_storage_dir=""))
    _Refused(scene, "neither a volume group nor a directory")


# --- what fails ------------------------------------------------------------------------------------------------------------


def _Fails(scene: Zeroing, match: str, **values: Any) -> errors.OpExecError:
    """The guest runs again as before, nothing was exported, and nothing is left of the helper."""
    with pytest.raises(errors.OpExecError, match=match) as caught:
        scene.Export(**values)
    assert scene.Runs() and scene.Volumes() == scene.before and scene.Exports() == [[], [], []]
    assert (scene.web.admin_state, scene.web.disks_active) == ("up", True)
    guest_starts = [name for name in scene.master[0].calls if name == "instance_start"]
    assert len(guest_starts) == len(scene.given) + 1
    return caught.value


def test_an_image_that_cannot_be_read(three: Master) -> None:
    scene = Zeroing(three)
    three[0].Call(runtime.Chmod, IMAGE, 0o600)
    _Fails(scene, "Could not make the helper's disk on node node1.* may not be read by every user")
    assert scene.given == []


def test_a_helper_that_cannot_be_started(three: Master) -> None:
    scene = Zeroing(three)
    look = three[0].before

    def fail(name: str, args: Any) -> None:
        look(name, args)
        if name == "instance_start" and len(args[0]["disks_info"]) == 3:
            raise errors.RpcCallError("no such machine type")

    three[0].before = fail
    _Fails(scene, "Could not start the helper on instance web.*no such machine type")


def test_a_helper_that_is_never_seen(three: Master) -> None:
    scene = Zeroing(three)
    scene.looks = 0
    begun = three.world.now
    err = _Fails(scene, "did not start within 300 seconds on node node1")
    assert err.hint == f"check that an instance with image {IMAGE} as its disk boots with hypervisor kvm"
    assert 300 <= three.world.now - begun < 330


@pytest.mark.parametrize(
    ("values", "seconds"), [({}, 319), ({"zeroing_timeout_fixed": 50, "zeroing_timeout_per_mib": 0.5}, 242)]
)
def test_a_helper_that_never_ends_is_ended(three: Master, values: dict[str, Any], seconds: int) -> None:
    scene = Zeroing(three)
    scene.looks = 1 << 30
    begun = three.world.now
    err = _Fails(scene, f"has not ended within {seconds} seconds; free space is not zeroed", **values)
    shown = f"while it runs, 'gnt-instance console {WEB}' shows what it does"
    assert err.hint == f"give it more time with --zeroing-timeout-per-mib; {shown}"
    assert seconds <= three.world.now - begun < seconds + 30
    assert any(re.search(r"zeroing free space for \d+ seconds now", text) for text in three.last.messages)


def test_a_job_that_is_ended_ends_its_helper(three: Master) -> None:
    scene = Zeroing(three)
    scene.looks = 1 << 30
    begun = three.world.now
    _Fails(scene, "gnt-job cancel --kill", cbs=KilledInPause())
    assert len(scene.given) == 1 and three.world.now - begun < 70


def test_a_helper_that_cannot_be_ended_is_said(three: Master) -> None:
    scene = Zeroing(three)
    scene.looks = 1 << 30
    look = three[0].before

    def fail(name: str, args: Any) -> None:
        look(name, args)
        if name == "instance_shutdown" and scene.given:
            raise errors.RpcCallError("it hangs in the kernel")

    three[0].before = fail
    with pytest.raises(errors.OpExecError, match="has not ended within"):
        scene.Export()
    said = "\n".join(three.last.messages)
    assert (
        f"The helper on instance {WEB} could not be ended on node node1.example.org, and may still write to its disks"
        in said
    )
    [left] = set(scene.Volumes()) - set(scene.before)
    assert f"'gnt-instance shutdown --timeout 0 {WEB}' ends it; after that, run 'lvremove {left}' there" in said
    assert scene.Exports() == [[], [], []]


def _FailsForHelper(scene: Zeroing, call: str, why: str) -> None:
    """From the helper's start on, this call fails on its node."""
    look = scene.master[0].before

    def fail(name: str, args: Any) -> None:
        look(name, args)
        if name == call and scene.given:
            raise errors.RpcCallError(why)

    scene.master[0].before = fail


def test_a_helper_of_which_nobody_knows_whether_it_has_ended_keeps_disks_from_being_read(three: Master) -> None:
    scene = Zeroing(three)
    _FailsForHelper(scene, "instance_shutdown", "it does not answer")
    with pytest.raises(errors.OpExecError, match=r"It is not known whether the helper on instance web.* has ended"):
        scene.Export()
    assert "export_start" not in three[0].calls


def _KeepsRunning(scene: Zeroing) -> None:
    """The helper can be ended by nobody."""
    scene.looks = 1 << 30
    _FailsForHelper(scene, "instance_shutdown", "it hangs in the kernel")


def test_disks_are_not_taken_from_a_helper_that_may_run(three: Master) -> None:
    scene = Zeroing(three, up=False)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    _KeepsRunning(scene)
    with pytest.raises(errors.OpExecError, match="has not ended within"):
        scene.Export()
    assert scene.Runs() and scene.web.disks_active and scene.web.admin_state == "down"
    assert not {"blockdev_shutdown", "blockdev_remove"} & set(three[0].calls)


def test_a_guest_is_not_started_beside_its_helper(three: Master) -> None:
    """They would write to the same disks; and the helper would be taken for the guest."""
    scene = Zeroing(three)
    _KeepsRunning(scene)
    with pytest.raises(errors.OpExecError, match="has not ended within"):
        scene.Export()
    assert three[0].calls.count("instance_start") == len(scene.given) == 1
    said = "\n".join(three.last.messages)
    assert f"Instance {WEB} is not started again: the helper may still run in its place" in said
    assert f"'gnt-instance shutdown --timeout 0 {WEB}' and its disk removed, 'gnt-instance startup {WEB}'" in said


def test_a_helper_of_which_its_node_says_nothing_may_still_run(three: Master) -> None:
    scene = Zeroing(three)
    _KeepsRunning(scene)
    scene.looks = 3
    _FailsForHelper(scene, "instance_run_state", "busy")
    with pytest.raises(errors.OpExecError, match=r"It is not known whether the helper on instance web.* has ended"):
        scene.Export()
    assert three[0].calls.count("instance_start") == 1 and not scene.Runs()


def test_a_master_that_has_ended_starts_nothing_again(three: Master) -> None:
    """The next one finds the job cut off, and knows what became of the guest."""
    scene = Zeroing(three)
    op = opcodes.OpBackupExport(
        instance_name="web", target_node="node2", zero_free_space=True, compress="gzip", long_sleep=True
    )
    three[0].calls.clear()
    with pytest.raises(store.MasterEnded):
        three.Run(op, units={op.OP_ID: EndsAfter(LUBackupExport, "MarkInstanceDisksActive")})
    assert not scene.Runs() and "instance_start" not in three[0].calls


# --- when the master dies --------------------------------------------------------------------------------------------------


def _DieEverywhere(master: Master, scene: Zeroing) -> None:
    """Whenever the master dies: what is left is named by verify, and the instance starts from its own disks."""
    disks, named, refused = scene.disks, 0, 0
    for number in range(1, 100):
        op = opcodes.OpBackupExport(
            instance_name="web", target_node="node2", zero_free_space=True, compress="gzip", long_sleep=True
        )
        seen: list[str] = []
        try:
            master.Run(op, units={op.OP_ID: DiesIn(LUBackupExport, number, seen)})
        except Killed:
            assert scene.disks == disks and scene.web.disks == tuple(disk.uuid for disk in disks), seen
        else:
            break
        if {"call_blockdev_snapshot", "call_export_start"} & set(seen):
            break
        if scene.HelperRuns():
            # It does not end meanwhile, and is not taken for the guest.
            scene.Lengthen()
            with pytest.raises(
                errors.OpPrereqError, match=f"helper.*in its place.*'gnt-instance shutdown --timeout 0 {WEB}'"
            ):
                master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
            master.Run(opcodes.OpInstanceShutdown(instance_name=WEB, timeout=0))
            refused += 1
        elif scene.Runs():
            master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
        assert len(master[0].arguments["instance_start"][0]["disks_info"]) == 2
        named += _FollowVerify(master)
        assert (scene.Volumes(), scene.Folder()) == (scene.before, scene.folder), seen
    assert named > 5 and refused and {"call_blockdev_image", "call_instance_info"} <= set(seen)


def _FollowVerify(master: Master) -> int:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True))
    found = [text for text in master.last.messages if ":ENODEORPHANLV:" in text and ".snap" not in text]
    for text in found:
        match = re.search(r"run '(lvremove|rm -r) (\S+)' there", text)
        assert match is not None and "node1" in text, text
        if match[1] == "lvremove":
            master[0].Call(master[0].lvm._Lvremove, [f"/dev/{match[2]}"])
        else:
            master[0].Call(runtime.RemoveFile, match[2])
    return len(found)


@pytest.mark.req("D20-LOCK-11")
def test_a_master_that_dies_leaves_a_volume_at_most(three: Master) -> None:
    _DieEverywhere(three, Zeroing(three))


def test_a_master_that_dies_leaves_a_file_at_most(filed: Master) -> None:
    _DieEverywhere(filed, Zeroing(filed, "file"))
