"""Operating systems that no node trusts: what the helper is given that installs them, how it ends, what it leaves (doc/design-install.rst)."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Callbacks, KilledInPause, Master
from support.simnode import FILE_FOLDER
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors, objects, opcodes, runtime

IMAGE = "/srv/images/install.img"
MIB = 1 << 20
GUEST = "guest+default"
WELL = b"ganeti-install: exit 0\nall is well\n\0"


def _WithImage(root: objects.Snapshot) -> objects.Snapshot:
    root = _EmptyWithFiles(root)
    return root.Replace(cluster=root.cluster.Replace(install_image=IMAGE))


def _Prepare(master: Master) -> None:
    def put() -> None:
        runtime.MakeDirs("/srv/images")
        runtime.CreateFile(IMAGE, 9 * MIB + 1)
        runtime.Chmod(IMAGE, 0o644)

    for node in master.all:
        node.Call(put)
        node.AddOs("guest", "default", create="create_untrusted")


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_WithImage, prepare=_Prepare)


class Installing:
    """A node on which helpers install; ``given``: what each was started with, ``packages``: what was on its last disk then."""

    def __init__(self, master: Master):
        self.master = master
        self.node = master[0]
        self.given: list[dict[str, Any]] = []
        self.packages: list[dict[str, bytes]] = []
        self.looks = 3
        self.report: bytes | None = WELL
        self.faults: dict[str, str] = {}
        self._left = 0
        self._device = ""
        self._before = self.Volumes()
        self.node.before = self._Look

    def _Look(self, name: str, args: Any) -> None:
        """Whoever starts the instance with its image on the first disk starts the helper, which ends after some looks."""
        disks = args[0]["disks_info"] if name == "instance_start" else ()
        if disks and disks[0]["iv_name"] == "helper":
            self.given.append(args[0])
            self._device = _Path(disks[-1])
            self.packages.append(_Unpacked(self.node.written[self._device]))
            self._left = self.looks
        elif name == "instance_info" and self._left and WEB in self.node.guests:
            self._left -= 1
            if not self._left:
                if self.report is not None:
                    self.node.written[self._device] = self.report
                self.node.KillGuest(WEB)
        if self.given and name in self.faults:
            raise errors.RpcCallError(self.faults[name])

    def Volumes(self) -> list[str]:
        return sorted(self.node.lvm.Volumes())

    @property
    def web(self) -> objects.Instance:
        return self.master.Instance(WEB)

    def Create(self, *disks: dict[str, Any], cbs: Callbacks | None = None, **values: Any) -> None:
        """Makes the instance, by default on two plain disks."""
        self.node.calls.clear()
        more = {"os_type": GUEST, "disk_template": "plain", **values}
        self.master.Run(OnDisks(WEB, *(disks or ({"size": 128}, {"size": 256})), **more), cbs)

    def Reinstall(self, cbs: Callbacks | None = None, **values: Any) -> None:
        self.node.calls.clear()
        self.given.clear()
        self.packages.clear()
        self.master.Run(opcodes.OpInstanceReinstall(instance_name=WEB, **values), cbs)

    def NothingLeft(self) -> bool:
        """Whether no more is on the node than the instance's own disks, and no package anywhere."""
        own = [disk.logical_id for disk in self.master.snapshot.InstanceDisks(self.web) if disk.dev_type == "plain"]
        return self.Volumes() == sorted([*self._before, *(f"{vg}/{lv}" for vg, lv in own)]) and not self.node.written


def _Path(disk: dict[str, Any]) -> str:
    return disk["logical_id"][1] if disk["dev_type"] == "file" else f"/dev/{'/'.join(disk['logical_id'])}"


def _Unpacked(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def _Environment(package: dict[str, bytes]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in package["environment"].decode().splitlines())


# --- what it is given -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["plain", "drbd", "file"])
def test_the_script_runs_in_a_machine_and_never_on_the_node(three: Master, template: str) -> None:
    scene = Installing(three)
    more = {"snode": "node2"} if template == "drbd" else {}
    scene.Create(disk_template=template, start=True, osparams={"mirror": "http://deb"}, **more)
    [given], [package] = scene.given, scene.packages
    first, *own, last = given["disks_info"]
    assert [disk["uuid"] for disk in own] == list(scene.web.disks)
    assert (first["dev_type"], first["size"], last["dev_type"], last["size"]) == ("plain", 10, "plain", 2)
    assert (IMAGE, _Path(first)) in scene.node.copied
    assert {"os/create_untrusted", "os/parameters.list", "environment"} <= set(package)
    env = _Environment(package)
    wanted = {"OS_SCRIPT": "create_untrusted", "DISK_0_PATH": "/dev/vdb", "DISK_1_PATH": "/dev/vdc", "DISK_COUNT": "2"}
    wanted |= {"INSTANCE_NAME": WEB, "OSP_MIRROR": "http://deb", "OS_VARIANT": "default", "DEBUG_LEVEL": "0"}
    assert {name: env.get(name) for name in wanted} == wanted and "INSTANCE_REINSTALL" not in env
    assert scene.node.installed == [] and "instance_os_add" not in scene.node.calls
    assert scene.web.admin_state == "up" and WEB in scene.node.guests
    if template == "plain":
        assert scene.NothingLeft()
    assert not scene.node.written and len(scene.node.Names(FILE_FOLDER)) == (template == "file")


def test_steps_in_their_order(three: Master) -> None:
    scene = Installing(three)
    scene.Create()
    steps = [name for name in scene.node.calls if name in _STEPS]
    assert steps == [*_STEPS, "blockdev_remove"] and scene.web.admin_state == "down" and not scene.node.guests


_STEPS = (
    "os_package_size",
    "blockdev_image",
    "os_package_size",
    "os_package_write",
    "instance_start",
    "instance_shutdown",
    "os_package_report",
    "blockdev_wipe",
    "blockdev_remove",
)


def test_names_of_disks_are_true_whatever_the_guest_has(three: Master) -> None:
    scene = Installing(three)
    scene.Create(hvparams={"kernel_path": "", "disk_type": "scsi-hd", "boot_order": "network"})
    [given] = scene.given
    assert (given["hvparams"]["disk_type"], given["hvparams"]["boot_order"]) == ("paravirtual", "disk")
    assert scene.web.hvparams["disk_type"] == "scsi-hd"


def test_the_helper_boots_its_image_and_has_no_other_drives(three: Master) -> None:
    """A kernel of the node would boot something else, and a CD would have the name of a disk."""
    scene = Installing(three)
    own = {"kernel_path": "/boot/vmlinuz", "initrd_path": "/boot/initrd", "root_path": "/dev/vda7"}
    drives = dict.fromkeys(("cdrom_image_path", "cdrom2_image_path", "floppy_image_path"), "/srv/images/install.img")
    scene.Create(hvparams={**own, **drives})
    [given] = scene.given
    assert {given["hvparams"][name] for name in ("kernel_path", *drives)} == {""}
    assert scene.web.hvparams["kernel_path"] == "/boot/vmlinuz"


def test_secret_parameters_are_in_the_package_and_nowhere_afterwards(three: Master) -> None:
    scene = Installing(three)
    scene.Create(osparams_private={"a": "quiet"}, osparams_secret={"b": "whispered"})
    env = _Environment(scene.packages[0])
    assert (env["OSP_A"], env["OSP_B"]) == ("quiet", "whispered")
    assert scene.node.calls.index("blockdev_wipe") < scene.node.calls.index("blockdev_remove") and scene.NothingLeft()
    wiped = scene.node.arguments["blockdev_wipe"]
    assert (_Path(wiped[0]), *wiped[1:]) == (_Path(scene.given[0]["disks_info"][-1]), 0, 2)


@pytest.mark.parametrize("wipes", [True, False])
def test_a_script_finds_nothing_of_others_on_the_disks_of_its_helper(three: Master, wipes: bool) -> None:
    """Where that is wanted for all disks."""
    three.cfg.Update(three.snapshot.cluster.Replace(prealloc_wipe_disks=wipes))
    scene = Installing(three)
    wiped: list[str] = []
    look = three[0].before

    def note(name: str, args: Any) -> None:
        if name == "blockdev_wipe" and not scene.given:
            wiped.append(args[0]["iv_name"])
        look(name, args)

    three[0].before = note
    scene.Create()
    assert wiped.count("helper") == (12 if wipes else 0) and ("disk/0" in wiped) == wipes


def test_a_package_has_no_variable_of_more_than_one_line_and_no_place_of_the_node(three: Master) -> None:
    scene = Installing(three)
    scene.Create(osparams={"a": "one\nOS_SCRIPT=other"})
    env = _Environment(scene.packages[0])
    assert any("more than one line do not reach script create_untrusted: a" in text for text in three.last.messages)
    assert env["OS_SCRIPT"] == "create_untrusted" and "OSP_A" not in env and "DISK_0_URI" not in env


def test_reinstallation(three: Master) -> None:
    scene = Installing(three)
    scene.Create(os_type="noop")
    assert scene.given == [] and len(scene.node.installed) == 1
    before = scene.web
    scene.Reinstall(os_type=GUEST, osparams={"c": "7"})
    env = _Environment(scene.packages[0])
    assert (env["INSTANCE_REINSTALL"], env["OSP_C"], env["OS_NAME"]) == ("1", "7", "guest")
    assert scene.web.os == GUEST and not scene.web.disks_active and scene.NothingLeft()
    assert scene.web.disks == before.disks and len(scene.node.installed) == 1


def test_a_definition_with_both_scripts_is_not_trusted(three: Master) -> None:
    scene = Installing(three)
    scene.node.AddOs("guest", "default")
    assert scene.node.Exists("/srv/ganeti/os/guest/create")
    scene.Create()
    assert len(scene.given) == 1 and scene.node.installed == []


def test_without_installation_there_is_no_helper(three: Master) -> None:
    scene = Installing(three)
    three.cfg.Update(three.snapshot.cluster.Replace(install_image=""))
    scene.Create(no_install=True)
    assert scene.given == [] and scene.web.os == GUEST


def test_an_image_in_place_of_the_script_needs_no_helper(three: Master) -> None:
    scene = Installing(three)
    scene.Create(osparams={"os-image": IMAGE})
    scene.Reinstall(os_type=GUEST, osparams={"os-image": IMAGE})
    scene.Reinstall()
    assert scene.given == [] and scene.node.installed == [] and "instance_start" not in scene.node.calls


def test_a_reservation_needs_no_image_until_it_is_committed(three: Master) -> None:
    scene = Installing(three)
    three.cfg.Update(three.snapshot.cluster.Replace(install_image=""))
    scene.Create(forthcoming=True)
    with pytest.raises(errors.OpPrereqError, match="the cluster has no image of the helper"):
        scene.Create(commit=True)
    three.cfg.Update(three.snapshot.cluster.Replace(install_image=IMAGE))
    scene.Create(commit=True)
    assert len(scene.given) == 1 and not scene.web.forthcoming


# --- what is locked -------------------------------------------------------------------------------------------------------


def _Locked(scene: Installing) -> list[str]:
    """Return the resource locks that are held when the helper starts, in the end."""
    held: list[str] = []
    look = scene.node.before

    def note(name: str, args: Any) -> None:
        if name == "instance_start" and args[0]["disks_info"][0]["iv_name"] == "helper":
            rows = scene.master.glm.QueryLocks()
            held.extend(row.name for row in rows if row.owner and row.name.startswith("node-res/"))
        look(name, args)

    scene.node.before = note
    return held


@pytest.mark.parametrize("ratio", [True, False], ids=["shared memory", "its own memory"])
def test_memory_that_is_shared_out_is_the_helpers_alone(three: Master, ratio: bool) -> None:
    """Another start must not count on it; without a ratio nobody waits for the helper."""
    if ratio:
        cluster = three.snapshot.cluster
        three.cfg.Update(cluster.Replace(ipolicy={**cluster.ipolicy, "memory-ratio": 1.5}))
    scene = Installing(three)
    held = _Locked(scene)
    scene.Create()
    own = [f"node-res/{three.nodes[0]}"] if ratio else []
    assert held == own
    held.clear()
    scene.Reinstall()
    assert len(scene.given) == 1 and held == own


# --- what is refused -------------------------------------------------------------------------------------------------------


def _Refused(scene: Installing, match: str, *disks: dict[str, Any], **values: Any) -> str:
    before = scene.Volumes(), _Names(scene)
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        scene.Create(*disks, **values)
    assert (scene.Volumes(), _Names(scene)) == before and scene.given == []
    return caught.value.hint or ""


def _Names(scene: Installing) -> list[str]:
    return sorted(instance.name for instance in scene.master.snapshot.instances.values())


def test_without_an_image_it_is_refused_before_anything_is_made(three: Master) -> None:
    scene = Installing(three)
    three[0].Call(runtime.RemoveFile, IMAGE)
    assert f"'gnt-cluster copyfile {IMAGE}'" in _Refused(scene, f"Image {IMAGE} does not exist on node node1")
    three.cfg.Update(three.snapshot.cluster.Replace(install_image=""))
    hint = _Refused(
        scene,
        r"OS guest\+default must be installed in a helper VM, as it has a script 'create_untrusted', which is not possible for"
        r" instance web.example.org: the cluster has no image of the helper",
    )
    assert hint == "'gnt-cluster modify --install-image=FILE-OR-URL' sets one"


def test_a_node_that_does_not_say_whether_it_trusts(three: Master) -> None:
    scene = Installing(three)
    three[0].faults["os_diagnose"] = "busy"
    _Refused(scene, "Could not look at the operating systems of node node1.*busy")
    assert scene.node.installed == []


def test_a_definition_that_cannot_be_packed(three: Master) -> None:
    scene = Installing(three)
    three[0].faults["os_package_size"] = "too many levels of symbolic links"
    _Refused(scene, r"Could not pack OS guest\+default on node node1.*too many levels")


def test_room_for_the_helper(three: Master) -> None:
    scene = Installing(three)
    _Refused(scene, "it has 15 disks; 1 to 14 are supported, as the helper adds 2", *[{"size": 4}] * 15)
    three[0].SetMemory(1100)
    _Refused(scene, "Not enough memory on node node1.* for the helper on instance web")


def test_space_for_the_helper_beside_the_disks(three: Master) -> None:
    scene = Installing(three)
    three[0].lvm.pvs.clear()
    three[0].lvm.AddPv("/dev/sdz", "xenvg", 400)
    _Refused(
        scene, "Not enough disk space on target node node1.* vg xenvg: required 402 MiB, available 400", {"size": 390}
    )
    scene.Create({"size": 380})
    assert len(scene.given) == 1


def test_a_check_of_a_running_instance_finds_out(three: Master) -> None:
    """It is not stopped for what cannot be done."""
    scene = Installing(three)
    scene.Create(os_type="noop", start=True)
    scene.Reinstall(os_type=GUEST, check_only=True)
    three.cfg.Update(three.snapshot.cluster.Replace(install_image=""))
    with pytest.raises(errors.OpPrereqError, match="the cluster has no image of the helper"):
        scene.Reinstall(os_type=GUEST, check_only=True)
    assert scene.given == [] and WEB in scene.node.guests


# --- how it ends -----------------------------------------------------------------------------------------------------------


def _Fails(scene: Installing, match: str, **values: Any) -> errors.OpExecError:
    """The instance stays, stopped, and nothing of the helper."""
    with pytest.raises(errors.OpExecError, match=match) as caught:
        scene.Create(**{"start": True, **values})
    assert scene.web.admin_state == "down" and not scene.node.guests and scene.NothingLeft()
    said = "\n".join(scene.master.last.messages)
    assert f"'gnt-instance reinstall {WEB}' installs it" in said
    return caught.value


def test_a_script_that_fails_fails_the_job(three: Master) -> None:
    scene = Installing(three)
    scene.report = b"ganeti-install: exit 7\nfirst\n\x1b[2Jno space left\n\0rest of the package"
    err = _Fails(
        scene, "Script create_untrusted of OS guest.default failed with exit code 7 in the helper on instance web"
    )
    assert err.args[0].endswith("last lines:\nfirst\n\\x1b[2Jno space left")


@pytest.mark.parametrize(
    "report",
    [None, b"", b"\0" * 512, b"ganeti-install: exit 0", b"ganeti-install: exit -1\n\0", b"\xff\xfe exit 0\n\0"],
)
def test_an_end_without_a_report_is_no_success(three: Master, report: bytes | None) -> None:
    scene = Installing(three)
    scene.report = report
    err = _Fails(
        scene, "has powered off without a report of script create_untrusted; OS guest.default may be incomplete"
    )
    assert err.hint is not None and f"image {IMAGE} must run the script" in err.hint


def test_a_report_that_cannot_be_read_is_no_success(three: Master) -> None:
    scene = Installing(three)
    scene.faults["os_package_report"] = "I/O error"
    _Fails(scene, "Could not read on node node1.* how script create_untrusted of OS guest.default went.*I/O error")


@pytest.mark.parametrize(("values", "seconds"), [({}, 7200), ({"helper_shutdown_timeout": 50}, 50)])
def test_a_helper_that_never_ends_is_ended(three: Master, values: dict[str, Any], seconds: int) -> None:
    scene = Installing(three)
    scene.looks = 1 << 30
    begun = three.world.now
    err = _Fails(scene, f"has not ended within {seconds} seconds; the operating system is not complete", **values)
    assert err.hint is not None and err.hint.startswith(
        "give it more time with --helper-shutdown-timeout; while it runs"
    )
    assert seconds <= three.world.now - begun < seconds + 60


@pytest.mark.parametrize(("values", "seconds"), [({}, 300), ({"helper_startup_timeout": 20}, 20)])
def test_a_helper_that_is_never_seen(three: Master, values: dict[str, Any], seconds: int) -> None:
    scene = Installing(three)
    scene.looks = 1
    _Fails(scene, f"did not start within {seconds} seconds on node node1", **values)


def test_a_job_that_is_ended_ends_its_helper(three: Master) -> None:
    scene = Installing(three)
    scene.looks = 1 << 30
    _Fails(scene, "gnt-job cancel --kill", cbs=KilledInPause())
    assert len(scene.given) == 1


def test_a_package_that_cannot_be_written(three: Master) -> None:
    scene = Installing(three)
    three[0].faults["os_package_write"] = "I/O error"
    _Fails(scene, r"Could not write OS guest\+default to the helper's disk on node node1.*I/O error")
    assert scene.given == []


def test_a_definition_that_has_changed_meanwhile(three: Master) -> None:
    """It fitted when the job began."""
    scene = Installing(three)
    asked: list[str] = []

    def fail(name: str, _args: Any) -> None:
        asked.append(name)
        if name == "os_package_size" and asked.count(name) == 2:
            raise errors.RpcCallError("more than 256 MiB")

    three[0].before = fail
    _Fails(scene, r"Could not pack OS guest\+default on node node1.*more than 256 MiB")


def test_a_package_that_cannot_be_overwritten_is_said(three: Master) -> None:
    scene = Installing(three)
    scene.faults["blockdev_wipe"] = "I/O error"
    scene.Create()
    said = "\n".join(three.last.messages)
    assert "which may hold secret parameters of OS guest+default, could not be overwritten before its removal" in said


def test_disks_are_not_taken_from_a_helper_that_may_run(three: Master) -> None:
    scene = Installing(three)
    scene.Create(os_type="noop")
    scene.looks = 1 << 30
    scene.faults["instance_shutdown"] = "it hangs in the kernel"
    with pytest.raises(errors.OpExecError, match="has not ended within 7200 seconds"):
        scene.Reinstall(os_type=GUEST)
    assert not {"blockdev_shutdown", "blockdev_remove", "blockdev_wipe"} & set(scene.node.calls)
    assert scene.web.disks_active and WEB in scene.node.guests
    said = "\n".join(three.last.messages)
    assert (
        f"'gnt-instance shutdown --timeout 0 {WEB}' ends it; after that, as the last of its disks may hold secret"
        in said
    )
    assert said.count("lvremove") == 2


def test_a_node_that_says_nothing_any_longer_is_not_waited_for(three: Master) -> None:
    scene = Installing(three)
    scene.faults["instance_info"] = scene.faults["instance_shutdown"] = "connection refused"
    scene.looks = 1 << 30
    begun = three.world.now
    with pytest.raises(
        errors.OpExecError, match=r"did not start within 300 seconds|has not said for 3\d\d seconds whether"
    ):
        scene.Create(start=True)
    assert three.world.now - begun < 700
    said = "\n".join(three.last.messages)
    assert (
        f"Instance {WEB} stays in the configuration without a complete operating system, and the helper may run" in said
    )
    assert (
        f"'gnt-instance shutdown --timeout 0 {WEB}' ends it; after that, as the last of its disks may hold secret"
        in said
    )


def test_silence_after_the_start(three: Master) -> None:
    scene = Installing(three)
    scene.looks = 1 << 30
    asked, look = [0], three[0].before

    def fail(name: str, args: Any) -> None:
        look(name, args)
        if name == "instance_info" and scene.given:
            asked[0] += 1
            if asked[0] > 2:
                raise errors.RpcCallError("connection refused")

    three[0].before = fail
    begun = three.world.now
    _Fails(scene, r"Node node1\S* has not said for 3\d\d seconds whether the helper on instance web\S* has ended")
    assert 300 <= three.world.now - begun < 420


def test_a_stranger_of_the_same_name_is_neither_taken_for_the_helper_nor_ended(three: Master) -> None:
    scene = Installing(three)
    three[0].StartGuest(WEB)
    with pytest.raises(errors.OpExecError, match=r"A guest of the name web\S* runs on node node1"):
        scene.Create()
    assert scene.given == [] and WEB in three[0].guests and "instance_shutdown" not in three[0].calls
