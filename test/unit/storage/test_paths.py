"""File-backed disks stay inside what the node's administrator allowed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import World
from support import standinstorage
from support.nodes import MakeNodes, Node
from support.virtual import MakeDisk

from ganeti import backend, errors, objects, pathutils, runtime
from ganeti.storage import paths, tree


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    [one] = MakeNodes(tmp_path, "node1")
    (tmp_path / "good").mkdir()
    one.AllowFileStorage("# comment", "", f"{tmp_path}/good", "/usr/lib/x", "/etc")
    with one:
        yield one


def test_list_drops_comments_and_normalises() -> None:
    assert paths.ParseList("# c\n\n /srv//a/ \n/srv/b/../c\n") == ["/srv/a", "/srv/c"]


@pytest.mark.parametrize(
    "path",
    ["/", "/etc", "/etc/x", "/dev/shm", "/home/me", "/root", "/usr/lib/ganeti", "/usr/local/sbin", "/bin", "srv"],
)
def test_places_of_the_system_are_never_usable(path: str) -> None:
    assert paths.IsForbidden(path)


@pytest.mark.parametrize("path", ["/srv/ganeti", "/usr/libfoo", "/var/lib/x", "/etcetera", "/mnt"])
def test_other_places_are(path: str) -> None:
    assert not paths.IsForbidden(path)


@given(st.lists(st.sampled_from(["..", ".", "", "good", "etc", "a"]), max_size=5))
def test_no_spelling_leads_out(parts: list[str]) -> None:
    """Whatever is accepted lies, by its real name, below an allowed directory."""
    path = "/srv/good/" + "/".join(parts)
    if os.path.normpath(path) != path:
        return
    assert paths.IsBelow(os.path.normpath(path), "/srv/good")


def test_refusals_say_why(node: Node, tmp_path: Path) -> None:
    paths.CheckAllowed(f"{tmp_path}/good/guest/disk0")
    for path, words in [
        ("relative/x", "absolute"),
        (f"{tmp_path}/good/../evil", "written without"),
        (f"{tmp_path}/goodish/x", "not acceptable.*add its directory"),
        ("/usr/lib/x/disk", "never usable"),
        ("/etc/passwd", "never usable"),
    ]:
        with pytest.raises(errors.FileStoragePathError, match=words):
            paths.CheckAllowed(path)
    assert paths.FindForbidden() == ["/etc", "/usr/lib/x"]


def test_missing_list_allows_nothing(node: Node, tmp_path: Path) -> None:
    os.unlink(pathutils.FILE_STORAGE_PATHS_FILE)
    with pytest.raises(errors.FileStoragePathError, match="no entries"):
        paths.CheckAllowed(f"{tmp_path}/good/x")


def test_driver_touches_nothing_outside(node: Node, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    disk = MakeDisk("file", ["loop", str(victim)])
    for call in (tree.Find, tree.Remove, lambda d: tree.Assemble(d, "x", True), lambda d: tree.Create(d, 1, "x", True)):
        with pytest.raises(errors.BlockDeviceError, match="not acceptable"):
            call(disk)
    assert victim.read_text() == "keep"


@pytest.mark.req("D21-STOR-06")
def test_directories_of_instances(node: Node, tmp_path: Path) -> None:
    old, new = f"{tmp_path}/good/deep/old", f"{tmp_path}/good/deep/new"
    paths.CreateDir(old)
    paths.CreateDir(old)
    assert os.stat(old).st_mode & 0o7777 == 0o750
    Path(old, "disk0").write_text("x")
    with pytest.raises(errors.FileStoragePathError, match="disk0"):
        paths.RemoveDir(old)
    paths.RenameDir(old, new)
    paths.RenameDir(old, new)
    assert Path(new, "disk0").exists() and not Path(old).exists()
    paths.CreateDir(old)
    paths.RenameDir(new, old)
    assert Path(old, "disk0").exists() and not Path(new).exists(), "an empty one is no obstacle"
    paths.CreateDir(new)
    Path(new, "disk1").write_text("y")
    with pytest.raises(errors.FileStoragePathError, match="both locations"):
        paths.RenameDir(old, new)
    Path(old, "disk0").unlink()
    paths.RemoveDir(old)
    paths.RemoveDir(old)
    with pytest.raises(errors.FileStoragePathError, match="not acceptable"):
        paths.CreateDir(f"{tmp_path}/elsewhere")
    assert paths.CheckUsable(f"{tmp_path}/good") is None
    assert "cannot be used" in (paths.CheckUsable(f"{tmp_path}/good/none") or "")


def test_file_that_is_no_regular_file_is_refused(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "good" / "pipe")
    with pytest.raises(errors.BlockDeviceError, match="not a regular file"):
        tree.Find(MakeDisk("file", ["loop", f"{tmp_path}/good/pipe"]))


def test_missing_file_is_not_remade_by_assembling(node: Node, tmp_path: Path) -> None:
    with pytest.raises(errors.BlockDeviceError, match="does not exist"):
        tree.Assemble(MakeDisk("file", ["loop", f"{tmp_path}/good/gone"]), "x", True)
    assert not (tmp_path / "good" / "gone").exists()


def _Serve(procedure: str, disk: objects.Disk, *args: Any) -> Any:
    return backend.Handlers()[procedure](disk.ToDict(runtime=True), *args)


@pytest.fixture
def secret(node: Node, tmp_path: Path) -> Path:
    """A file of the node's own, and a link to it where a disk is to be: who writes the directory elsewhere put it there."""
    victim = tmp_path / "authorized_keys"
    victim.write_text("keep")
    (tmp_path / "good" / "web").mkdir()
    (tmp_path / "good" / "web" / "disk0").symlink_to(victim)
    return victim


def _Linked(tmp_path: Path) -> objects.Disk:
    return MakeDisk("sharedfile", ["loop", f"{tmp_path}/good/web/disk0"], 1)


def test_a_link_in_the_place_of_a_disk_is_not_followed(node: Node, tmp_path: Path, secret: Path) -> None:
    disk = _Linked(tmp_path)
    calls: list[Callable[[], Any]] = [
        lambda: tree.Find(disk),
        lambda: tree.Assemble(disk, "x", True),
        lambda: tree.Grow(disk, 1, False, True, False),
        lambda: _Serve("blockdev_wipe", disk, 0, 1),
        lambda: _Serve("blockdev_image", disk, "http://127.0.0.1:1/none", 1),
        lambda: tree.Make(disk).Create(1),
        lambda: tree.Remove(disk),
    ]
    for call in calls:
        with pytest.raises(errors.BlockDeviceError, match=r"is a symbolic link, which may lead anywhere|file exists"):
            call()
    assert secret.read_text() == "keep"


def test_a_link_that_takes_the_place_of_a_disk_after_the_look_changes_nothing_outside(
    node: Node, tmp_path: Path, secret: Path
) -> None:
    disk, link = _Linked(tmp_path), tmp_path / "good" / "web" / "disk0"
    aside = link.rename(link.with_name("aside"))
    device = tree.Create(disk, 1, "x", True)
    aside.rename(link)
    for command in (device.ImportCommand(), device.WipeCommand(0, 1), device.ExportCommand()):
        done = subprocess.run(command, input=b"x" * 512, capture_output=True, check=False)
        assert done.returncode and b"symbolic links" in done.stderr and not done.stdout
    with pytest.raises(errors.BlockDeviceError, match=r"cannot be grown.*symbolic links"):
        device.Grow(1, False, True)
    assert secret.read_text() == "keep"


def test_a_link_in_the_place_of_a_directory_does_not_lead_out(node: Node, tmp_path: Path) -> None:
    outside, web = tmp_path / "outside", tmp_path / "good" / "web"
    outside.mkdir()
    web.symlink_to(outside)
    other = MakeDisk("sharedfile", ["loop", f"{tmp_path}/good/other/disk0"], 1)
    calls: list[Callable[[], Any]] = [
        lambda: tree.Make(_Linked(tmp_path)).Create(1),
        lambda: tree.Remove(_Linked(tmp_path)),
        lambda: paths.CreateDir(f"{web}/deeper"),
        lambda: paths.CreateDir(str(web)),
        lambda: paths.RemoveDir(str(web)),
        lambda: paths.RenameDir(str(web), f"{tmp_path}/good/new"),
        lambda: paths.RenameDir(f"{tmp_path}/good/old", f"{web}/new"),
    ]
    for call in calls:
        with pytest.raises((errors.BlockDeviceError, errors.FileStoragePathError), match=f"leads to '{outside}"):
            call()
    assert os.listdir(outside) == []
    paths.CreateDir(f"{tmp_path}/good/other")
    tree.Create(other, 1, "x", True)
    with pytest.raises(errors.BlockDeviceError, match=f"leads to '{outside}"):
        tree.FindOrFail(other).Rename(["loop", f"{web}/disk0"])
    assert os.listdir(outside) == []
    web.unlink()
    web.symlink_to("web")
    with pytest.raises(errors.BlockDeviceError, match="too many links"):
        tree.Find(_Linked(tmp_path))


def test_links_of_the_administrator_are_followed(node: Node, tmp_path: Path) -> None:
    """Above an allowed directory, and below it to another one that is allowed; what the node itself needs never."""
    (tmp_path / "data").mkdir()
    (tmp_path / "srv").symlink_to("data")
    (tmp_path / "data" / "disks").mkdir()
    (tmp_path / "srv" / "disks" / "web").symlink_to(tmp_path / "good")
    node.AllowFileStorage(f"{tmp_path}/srv/disks")
    disk = MakeDisk("file", ["loop", f"{tmp_path}/srv/disks/new/disk0"], 1)
    paths.CreateDir(f"{tmp_path}/srv/disks/new")
    assert tree.Create(disk, 1, "x", True).dev_path == f"{tmp_path}/srv/disks/new/disk0"
    assert (tmp_path / "data" / "disks" / "new" / "disk0").exists()
    assert paths.CheckUsable(f"{tmp_path}/srv/disks") is None
    with pytest.raises(errors.FileStoragePathError, match="add the directory that it leads to"):
        paths.CreateDir(f"{tmp_path}/srv/disks/web")
    node.AllowFileStorage(f"{tmp_path}/srv/disks", f"{tmp_path}/good")
    paths.CreateDir(f"{tmp_path}/srv/disks/web")
    (tmp_path / "system").symlink_to("/etc")
    node.AllowFileStorage(f"{tmp_path}/system")
    with pytest.raises(errors.FileStoragePathError, match="belongs to the system itself"):
        paths.CheckAllowed(f"{tmp_path}/system/cron.d")


@pytest.mark.parametrize("seed", range(4))
def test_what_was_copied_survives_a_power_cut(seed: int) -> None:
    """Whoever copied a disk removes the old one next."""
    machine = World(seed).AddMachine("node1")
    standinstorage.AddBlockTools(machine)
    disk, other = (MakeDisk("file", ["loop", f"/srv/files/disk{number}"], 2) for number in range(2))

    def fill() -> None:
        runtime.WriteFile(pathutils.FILE_STORAGE_PATHS_FILE, "/srv/files\n")
        paths.CreateDir("/srv/files")
        device, wiped = (tree.Create(each, 2, "x", True) for each in (disk, other))
        assert not runtime.RunCmd(device.ImportCommand(), stdin=b"data" * 1000).failed
        assert not runtime.RunCmd(wiped.WipeCommand(0, 2)).failed

    machine.disk.MakeFolders("/etc/ganeti", 0o755)
    machine.Call(fill)
    machine.PowerOff()
    machine.PowerOn()
    assert machine.Call(runtime.ReadFile, disk.logical_id[1])[:4000] == b"data" * 1000


def test_what_cannot_be_made_listed_renamed_or_removed_is_named(node: Node, tmp_path: Path) -> None:
    good, file = f"{tmp_path}/good", f"{tmp_path}/good/file"
    Path(file).write_text("keep")
    for call, words in [
        (lambda: paths.CreateDir(file), "Cannot create"),
        (lambda: paths.CreateDir(f"{file}/web"), "Cannot create"),
        (lambda: paths.RemoveDir(file), "is not a directory"),
        (lambda: paths.RenameDir(file, f"{good}/new"), "'[^']*/file' is not a directory"),
        (lambda: paths.RenameDir(f"{good}/missing", f"{good}/new"), "'[^']*/missing' is not a directory"),
        (lambda: paths.ListFiles(str(tmp_path)), "not acceptable"),
        (lambda: paths.CheckAllowed(f"{good}/{'x' * 300}"), "cannot be examined: .*name too long"),
    ]:
        with pytest.raises(errors.FileStoragePathError, match=f"(?i){words}"):
            call()
    paths.CreateDir(f"{good}/old")
    with pytest.raises(errors.FileStoragePathError, match="Cannot rename"):
        paths.RenameDir(f"{good}/old", f"{file}/new")
    assert Path(file).read_text() == "keep" and sorted(os.listdir(good)) == ["file", "old"]
    assert paths.ListFiles(f"{good}/missing") == [] and paths.ListFiles(good) != []


def test_a_directory_is_renamed_to_itself_or_to_a_place_that_is_to_be_made(node: Node, tmp_path: Path) -> None:
    old, new = f"{tmp_path}/good/old", f"{tmp_path}/good/deep/down/new"
    paths.CreateDir(old)
    Path(old, "disk0").write_text("x")
    paths.RenameDir(old, old)
    paths.RenameDir(old, new)
    assert Path(new, "disk0").read_text() == "x"
    Path(new, "disk0").unlink()
    paths.RemoveDir(new)
    assert os.listdir(f"{tmp_path}/good/deep/down") == []


def test_a_part_of_the_system_below_an_allowed_directory_is_none_of_it(node: Node) -> None:
    node.AllowFileStorage("/usr")
    paths.CheckNamed("/usr/disks")
    with pytest.raises(errors.FileStoragePathError, match="never usable"):
        paths.CheckNamed("/usr/lib/disks")


def test_a_relative_link_leads_from_where_it_is(node: Node, tmp_path: Path) -> None:
    (tmp_path / "good" / "far").mkdir()
    (tmp_path / "good" / "near").symlink_to("./far/../far")
    assert paths.WithoutLinks(f"{tmp_path}/good/near/disk0") == f"{tmp_path}/good/far/disk0"
    paths.CheckAllowed(f"{tmp_path}/good/near/disk0")
    (tmp_path / "good" / "out").symlink_to("../evil")
    with pytest.raises(errors.FileStoragePathError, match=f"leads to '{tmp_path}/evil/disk0'"):
        paths.CheckAllowed(f"{tmp_path}/good/out/disk0")


def test_a_directory_of_the_cluster_that_this_node_cannot_use(node: Node, tmp_path: Path) -> None:
    (tmp_path / "good" / "file").write_text("")
    (tmp_path / "good" / "fixed").mkdir(mode=0o500)
    for path, words in [
        (f"{tmp_path}", "add its directory"),
        (f"{tmp_path}/good/missing", "cannot be used: No such file"),
        (f"{tmp_path}/good/file", "is not a directory"),
        (f"{tmp_path}/good/fixed", "is not writable"),
    ]:
        assert words in (paths.CheckUsable(path) or ""), path
    assert paths.CheckUsable(f"{tmp_path}/good") is None


def test_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, words in [
        ("gluster", "is not an absolute path"),
        (f"{tmp_path}/../x", "without '.', '..'"),
        ("/etc/gluster", "belongs to the system itself"),
        (f"{tmp_path}/file", "is not a directory; move it away"),
    ]:
        assert words in (paths.CheckMountPoint(path) or ""), path
    assert paths.CheckMountPoint(f"{tmp_path}/later") is None and paths.CheckMountPoint(f"{tmp_path}") is None
