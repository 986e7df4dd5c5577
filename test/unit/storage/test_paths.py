"""File-backed disks stay inside what the node's administrator allowed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nodes import MakeNodes, Node
from support.virtual import MakeDisk

from ganeti import errors, pathutils
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
    with pytest.raises(errors.FileStoragePathError, match="both locations"):
        paths.RenameDir(old, new)
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
