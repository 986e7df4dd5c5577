"""Programs that are run as root: only those that nobody else could have put where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ganeti.utils.programs import Problem

STRANGER = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "opt" / "bin"
    folder.mkdir(parents=True)
    path = folder / "qemu"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_programs_of_root_are_fine_through_links_too(program: Path) -> None:
    assert Problem(str(program)) is None
    assert Problem("/bin/sh") is None
    relative, absolute = program.parent / "kvm", program.parent / "other"
    relative.symlink_to("../bin/./qemu")
    absolute.symlink_to(relative)
    assert Problem(str(relative)) is None and Problem(str(absolute)) is None


@pytest.mark.parametrize("mode", [0o644, 0o775, 0o757, 0o777])
def test_a_file_that_others_can_change_or_nobody_can_run(program: Path, mode: int) -> None:
    program.chmod(mode)
    assert Problem(str(program))


def test_a_file_of_somebody_else(program: Path) -> None:
    os.chown(program, STRANGER, STRANGER)
    assert Problem(str(program)) == f"{program} belongs to user {STRANGER}"


def test_a_directory_on_the_way_in_which_somebody_else_can_replace_things(program: Path) -> None:
    folder = program.parent.parent
    folder.chmod(0o777)
    assert Problem(str(program)) == f"everybody can write to {folder}"
    folder.chmod(0o1777)
    assert Problem(str(program)) is None, "sticky, as /tmp is"
    folder.chmod(0o755)
    os.chown(folder, STRANGER, STRANGER)
    assert Problem(str(program)) == f"{folder} belongs to user {STRANGER}"


def test_links_count_like_what_they_lead_to(program: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    copy = theirs / "qemu"
    copy.write_text("#!/bin/sh\n")
    copy.chmod(0o755)
    os.chown(theirs, STRANGER, STRANGER)
    for target in (copy, "../../theirs/qemu"):
        link = program.parent / "link"
        link.symlink_to(target)
        assert Problem(str(link)) == f"{theirs} belongs to user {STRANGER}"
        link.unlink()
    link.symlink_to(program)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    assert Problem(str(link)) == f"{link} belongs to user {STRANGER}"


@pytest.mark.parametrize("path", ["", "qemu", "./qemu", "/", "/nowhere/qemu", "/dev/null", "/etc/passwd/x", "/bin"])
def test_other_things_are_no_programs(path: str) -> None:
    assert Problem(path)


def test_links_in_a_circle_have_an_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert Problem(str(tmp_path / "a")) == "it leads through too many links"
