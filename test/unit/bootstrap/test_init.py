"""gnt-cluster init refuses what cannot be before it changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from simulated import Invocation, World
from simulated.machine import Machine
from support.standindrbd import Links, StandInDrbd
from support.standinlvm import StandInLvm

from ganeti import errors, pathutils, runtime, ssh
from ganeti.bootstrap import init
from ganeti.bootstrap.settings import Settings

NAME = "cluster.example.org"


class Scene:
    """A machine on which a cluster could be made; whoever begins to make it is told so by ``begun``."""

    def __init__(self, world: World) -> None:
        self.machine: Machine = world.AddMachine("node1.example.org", "192.0.2.1")
        world.AddMachine(NAME, "192.0.2.9").PowerOff()
        self.begun: list[str] = []
        self.machine.programs |= {"ip": lambda _: 0, pathutils.DAEMON_UTIL: self._DaemonUtil}
        for kind, path in (("rsa", pathutils.SshHostKey("rsa")[1]), ("root", ssh.UserKeyFiles("ecdsa")[0])):
            self.machine.Call(runtime.MakeDirs, path.rpartition("/")[0])
            self.machine.Call(runtime.WriteFile, path, f"ssh-{kind} AAAA root\n")

    def _DaemonUtil(self, invocation: Invocation) -> int:
        self.begun.append(" ".join(invocation.argv[1:]))
        return 1  # that is far enough

    def Init(self, **changes: Any) -> None:
        settings = Settings(
            NAME,
            **{
                "enabled_hypervisors": ["fake"],
                "enabled_disk_templates": ["diskless"],
                "master_netdev": "eth0",
                **changes,
            },
        )
        self.machine.Call(init.InitCluster, settings)


@pytest.fixture(name="scene")
def _Scene() -> Iterator[Scene]:
    with World(1) as world:
        yield Scene(world)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"ssh_key_type": "ecdsa", "ssh_key_bits": 1000}, "ECDSA keys have 256, 384, 521 bits, not 1000"),
        ({"ssh_key_bits": 512}, "RSA keys of 512 bits are not safe"),
        ({"ssh_key_bits": 0}, "RSA keys of 0 bits are not safe"),
        ({"ssh_key_bits": -3}, "RSA keys of -3 bits are not safe"),
        ({"ssh_key_bits": 100000}, "RSA keys have at most 16384 bits"),
        ({"ssh_key_type": "ed25519"}, "Invalid SSH key type 'ed25519'; choose from rsa, dsa, ecdsa"),
        ({"install_image": "../x"}, "install_image must be an absolute path or a URL, not '../x'"),
        ({"zeroing_image": "no/where"}, "zeroing_image must be an absolute path or a URL"),
        ({"enabled_hypervisors": []}, "hypervisors list must contain at least one member"),
        ({"enabled_hypervisors": ["nix"]}, "hypervisors contains invalid entries: nix"),
        ({"enabled_hypervisors": ["kvm", "xen-pvm"]}, "this release has no driver for hypervisor xen-pvm"),
        ({"enabled_disk_templates": ["diskless", "diskless"]}, "disk templates list contains duplicates"),
        ({"master_netmask": 33}, "netmask 33 is not valid: it must be 1 to 32"),
        ({"mac_prefix": "aa:00"}, "'aa:00' is not a valid MAC prefix"),
        ({"vg_name": "a b"}, "'a b' is not a valid name of a volume group"),
        ({"master_netdev": "a/b", "nicparams": {"mode": "openvswitch", "link": "sw"}}, "network interface"),
        ({"compression_tools": ["rm -rf"]}, "Invalid compression tool name"),
        ({"uid_pool": [[5, 3]]}, "lower bound is above"),
        ({"candidate_pool_size": 0}, "at least 1"),
    ],
)
def test_a_wrong_value_is_refused_before_the_first_change(scene: Scene, changes: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match):
        scene.Init(**changes)
    assert scene.begun == []


def test_a_machine_without_host_keys_is_refused_before_the_first_change(scene: Scene) -> None:
    scene.machine.Call(runtime.RemoveFile, pathutils.SshHostKey("rsa")[1])
    with pytest.raises(errors.OpPrereqError, match="neither an RSA nor a DSA host key"):
        scene.Init()
    assert scene.begun == []


def test_with_values_that_can_be_it_begins(scene: Scene) -> None:
    with pytest.raises(errors.OpExecError, match="stop-all"):
        scene.Init()
    assert scene.begun == ["stop-all"]


@pytest.fixture(name="lvm")
def _Lvm(scene: Scene) -> StandInLvm:
    lvm = StandInLvm(scene.machine)
    lvm.AddPv("/dev/sda", "data", 50000)
    lvm.AddPv("/dev/sdb", "small", 20479)
    return lvm


def _Refused(scene: Scene, **changes: Any) -> tuple[str, str]:
    with pytest.raises(errors.OpPrereqError) as found:
        scene.Init(**changes)
    assert scene.begun == []
    return str(found.value.args[0]), str(found.value.hint)


def test_a_volume_group_is_judged_as_in_a_cluster_that_exists(scene: Scene, lvm: StandInLvm) -> None:
    missing, hint = _Refused(scene, enabled_disk_templates=["plain"])
    assert missing == "On this node: volume group 'xenvg' missing; this node has data, small"
    assert f"'{pathutils.TOOLS_DIR}/lvmstrap --vg-name=xenvg --alldisks create'" in hint and "--vg-name" in hint
    small, _ = _Refused(scene, enabled_disk_templates=["plain"], vg_name="small")
    assert small == "On this node: volume group 'small' too small (20480 MiB required, 20479 MiB found)"
    with pytest.raises(errors.OpExecError, match="stop-all"):
        scene.Init(enabled_disk_templates=["plain"], vg_name="data")
    # A group that only reads, as one whose disks are write-protected, is none that disks can lie in.
    scene.machine.programs["vgs"] = lambda invocation: invocation.Print("  data|50000|rz--n-|50000\n") or 0
    scene.begun.clear()
    assert _Refused(scene, enabled_disk_templates=["plain"], vg_name="data")[0].startswith(
        "On this node: volume group 'data' missing"
    )


def test_lvm_that_cannot_be_asked_is_not_a_missing_group(scene: Scene, lvm: StandInLvm) -> None:
    scene.machine.programs["vgs"] = lambda invocation: invocation.Complain("  Metadata is damaged\n") or 5
    text, hint = _Refused(scene, enabled_disk_templates=["plain"], vg_name="data")
    assert "LVM cannot be asked" in text and "Metadata is damaged" in text and hint.startswith("repair LVM")
    rows = "  data|50000|wz--n-|50000\n"
    scene.machine.programs["vgs"] = lambda invocation: invocation.Print(rows + rows) or 0
    assert (
        "2 volume groups are called data on this node"
        in _Refused(scene, enabled_disk_templates=["plain"], vg_name="data")[0]
    )


def test_lvm_looks_for_the_group_anywhere_but_on_guests_disks(scene: Scene, lvm: StandInLvm) -> None:
    """A frozen mirror would hang it, and what a guest has written could look like the group."""
    StandInDrbd(scene.machine, Links())
    with pytest.raises(errors.OpExecError, match="stop-all"):
        scene.Init(enabled_disk_templates=["drbd"], vg_name="data")
    assert [argv[:3] for argv in lvm.runs] == [["vgs", "--config", 'devices/global_filter=["r|^/dev/drbd|"]']]


def test_drbd_is_judged_as_in_a_cluster_that_exists(scene: Scene, lvm: StandInLvm) -> None:
    absent, hint = _Refused(scene, enabled_disk_templates=["drbd"], vg_name="data")
    assert "module is not loaded on this node" in absent and "--enabled-disk-templates" in hint
    StandInDrbd(scene.machine, Links(), helper="/bin/false")
    other, hint = _Refused(scene, enabled_disk_templates=["drbd"], vg_name="data")
    assert other.startswith("On this node: the DRBD usermode helper is /bin/false, not /bin/true")
    assert "--drbd-usermode-helper=/bin/false" in hint
    scene.machine.Call(runtime.WriteFile, "/proc/drbd", "version: 9.1.7 (api:2/proto:110-121)\n")
    newer, _ = _Refused(scene, enabled_disk_templates=["drbd"], vg_name="data", drbd_helper="/bin/false")
    assert "has version 9.1.7; it must be 8.4" in newer
