"""Files on a Gluster volume, on simulated machines (doc/reference/drivers.md a.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulated import Machine, World
from support import standinstorage
from support.virtual import MakeDisk

from ganeti import errors, objects, pathutils, runtime
from ganeti.storage import tree, units
from ganeti.storage.drivers import gluster

OWNER = "guest.example.com"
MOUNT_POINT = pathutils.DEFAULT_GLUSTER_STORAGE_DIR
MOUNTS = (Path(__file__).parents[2] / "data" / "gluster" / "mounts.txt").read_text(encoding="utf-8")


class Nodes:
    """Two machines that mount one volume."""

    def __init__(self) -> None:
        world = World(1)
        self.gluster = standinstorage.Gluster()
        self.one, self.two = (world.AddMachine(name, f"192.0.2.{n}") for n, name in enumerate(("node1", "node2"), 1))
        for machine in (self.one, self.two):
            self.gluster.Join(machine)

    def Do(self, function: Callable[..., Any], *args: Any, on: Machine | None = None) -> Any:
        return (on or self.one).Call(function, *args)

    def Create(self, disk: objects.Disk) -> objects.Disk:
        self.Do(tree.Create, disk, 8, OWNER, True, "")
        return disk


def Disk(path: str = "ganeti/uuid.0", **params: Any) -> objects.Disk:
    return MakeDisk("gluster", ["loop", path], 8, params=params)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    yield Nodes()


def test_mounted_when_it_is_needed_and_seen_from_every_node(nodes: Nodes) -> None:
    disk = nodes.Create(Disk())
    assert nodes.gluster.runs == [
        ["mount", "-t", "glusterfs", "-o", "server-port=24007", "127.0.0.1:/gv0", MOUNT_POINT]
    ]
    device = nodes.Do(tree.FindOrFail, disk)
    assert device.dev_path == f"{MOUNT_POINT}/ganeti/uuid.0"
    assert nodes.Do(tree.Find, disk, on=nodes.two) is None, "looking mounts nothing"
    assert len(nodes.gluster.runs) == 1
    nodes.Do(tree.Assemble, disk, OWNER, True, on=nodes.two)
    nodes.Do(tree.Remove, disk, on=nodes.two)
    assert nodes.Do(tree.Find, disk) is None
    assert len(nodes.gluster.runs) == 2


def test_parameters(nodes: Nodes) -> None:
    disk = Disk(host="node2", port=24010, volume="/gv0", access="userspace")
    nodes.Create(disk)
    assert nodes.gluster.runs[0][-3:] == ["server-port=24010", "192.0.2.2:/gv0", MOUNT_POINT]
    device = nodes.Do(tree.FindOrFail, disk)
    assert nodes.Do(device.UserspaceUri, "kvm") == "gluster://192.0.2.2:24010/gv0/ganeti/uuid.0"
    assert nodes.Do(device.UserspaceUri, "xen-hvm") is None
    assert nodes.Do(nodes.Do(tree.FindOrFail, Disk()).UserspaceUri, "kvm") is None, "access is kernelspace"
    six = nodes.Do(tree.FindOrFail, Disk(host="2001:db8::7", access="userspace"))
    assert nodes.Do(six.UserspaceUri, "kvm") == "gluster://[2001:db8::7]:24007/gv0/ganeti/uuid.0"


def test_not_mounted_whatever_mount_returns(nodes: Nodes) -> None:
    nodes.gluster.up = False
    with pytest.raises(
        errors.BlockDeviceError,
        match=r"Gluster volume gv0 of 127.0.0.1: cannot be mounted at .*'mount' reported no error; .*gluster volume status gv0",
    ):
        nodes.Create(Disk())

    def fail(invocation: Any) -> int:
        invocation.Complain("Mount failed. Check the log file for more details.\n")
        return 1

    nodes.one.programs["mount"] = fail
    with pytest.raises(errors.BlockDeviceError, match="Check the log file"):
        nodes.Do(tree.Assemble, Disk(), OWNER, True)
    nodes.one.programs["mount"] = lambda invocation: runtime.Sleep(1e6)
    with pytest.raises(errors.BlockDeviceError, match="ended after 120 seconds"):
        nodes.Do(tree.Assemble, Disk(), OWNER, True)
    assert nodes.Do(runtime.ListDir, MOUNT_POINT) == [], "nothing was made below an empty mount point"


def test_another_volume_in_its_place(nodes: Nodes) -> None:
    nodes.Create(Disk())
    with pytest.raises(
        errors.BlockDeviceError,
        match=rf"volume gv1 .*127.0.0.1:/gv0' \(fuse.glusterfs\) is mounted .*'umount {MOUNT_POINT}'",
    ):
        nodes.Do(tree.Find, Disk(volume="gv1"))


def test_a_server_without_address(nodes: Nodes) -> None:
    with pytest.raises(
        errors.BlockDeviceError, match=r"server 'nowhere.example.com' has no address.*gnt-cluster modify -D"
    ):
        nodes.Create(Disk(host="nowhere.example.com"))


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "a/./b"])
def test_paths_that_lead_elsewhere(nodes: Nodes, path: str) -> None:
    with pytest.raises(errors.BlockDeviceError, match="is not a plain path below the top of a volume"):
        nodes.Do(tree.Create, Disk(path), 8, OWNER, True)


def test_a_link_that_another_client_put_on_the_volume_is_not_followed(nodes: Nodes) -> None:
    folder = f"{MOUNT_POINT}/ganeti"
    disk, other = nodes.Create(Disk()), Disk("elsewhere/uuid.1")
    nodes.Do(runtime.MakeDirs, "/root/.ssh")
    nodes.Do(runtime.WriteFile, "/root/.ssh/authorized_keys", "keep")
    nodes.Do(runtime.Symlink, "/root/.ssh", f"{MOUNT_POINT}/elsewhere")
    with pytest.raises(
        errors.BlockDeviceError, match=f"leads to '/root/.ssh' .*nothing outside of {MOUNT_POINT} is used"
    ):
        nodes.Create(other)
    nodes.Do(runtime.RemoveFile, f"{folder}/uuid.0")
    nodes.Do(runtime.Symlink, "/root/.ssh/authorized_keys", f"{folder}/uuid.0")
    with pytest.raises(errors.BlockDeviceError, match="is a symbolic link"):
        nodes.Do(tree.Find, disk)
    assert nodes.Do(runtime.ListDir, "/root/.ssh") == ["authorized_keys"]
    assert nodes.Do(runtime.ReadText, "/root/.ssh/authorized_keys") == "keep"


def test_space_is_that_of_the_volume(nodes: Nodes) -> None:
    def rows() -> list[list[Any]]:
        return units.List("gluster", [[MOUNT_POINT]], None, ["name", "size"])

    nodes.Do(runtime.MakeDirs, MOUNT_POINT)
    with pytest.raises(errors.StorageError, match=f"Directory {MOUNT_POINT}: no Gluster volume is mounted there"):
        nodes.Do(rows)
    nodes.Create(Disk())
    [[name, size]] = nodes.Do(rows)
    assert name == MOUNT_POINT and size > 0


def test_what_else_is_mounted_can_have_any_name() -> None:
    """A user may mount below a directory of his own; the kernel escapes blanks and line feeds only."""
    strange = "fuse /home/mallory/\udcff\r\x0b\x1c\u2028 fuse.sshfs rw,nosuid 0 0"
    assert gluster.FindMount(f"{strange}\n{MOUNTS}", "/srv/covered") == ("2001:db8::7:/gv2", "fuse.glusterfs")
    assert gluster.FindMount(strange, "/home/mallory/\udcff\r\x0b\x1c\u2028") == ("fuse", "fuse.sshfs")


def test_what_is_mounted_where() -> None:
    assert gluster.FindMount(MOUNTS, "/run/ganeti/gluster") == ("192.0.2.7:/gv0", "fuse.glusterfs")
    assert gluster.FindMount(MOUNTS, "/srv/with blank") == ("store.example.org:gv1", "fuse.glusterfs")
    assert gluster.FindMount(MOUNTS, "/srv/covered") == ("2001:db8::7:/gv2", "fuse.glusterfs")
    assert gluster.FindMount(MOUNTS, "/srv/nothing") is None
    assert [gluster.VolumeName(source) for source in ("h:/gv0", "h:gv0", "2001:db8::7:/gv0", "h:/gv0/sub")] == [
        "gv0",
        "gv0",
        "gv0",
        "gv0/sub",
    ]
