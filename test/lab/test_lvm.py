"""Logical volumes in a node with a real LVM: the contract of drivers, and what only LVM itself can show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.lab import TREE

from lab.files import COMPILED, Compile, Fetch
from lab.machine import Machine, MakeDisk

STORIES = ("test/unit/storage/test_contract.py", "test/lab/inside/lvm_story.py")


@pytest.mark.lab
def test_the_driver_fits_a_real_lvm(tmp_path: Path, need: Callable[[int], None]) -> None:
    need(1)
    # The third one is brought from elsewhere, for one of the stories.
    disks = [MakeDisk(tmp_path / f"disk{number}", 512) for number in range(3)]
    with Machine("node1", tmp_path, Fetch(), disks, installed=Compile(tmp_path / "compiled")) as node:
        node.Start()
        node.Wait()
        node.Run("pvcreate", "-q", "-y", "/dev/vda", "/dev/vdb")
        node.Run("vgcreate", "-q", "vg", "/dev/vda", "/dev/vdb")
        pytest_words = f"{TREE}/.venv/bin/python -m pytest -q -p no:cacheprovider {' '.join(STORIES)}"
        done = node.Run(
            "sh", "-c", f"cd {TREE} && {pytest_words}", seconds=600, check=False, GANETI_LAB_NODE="1", **COMPILED
        )
        assert done.status == 0, done.stdout[-8000:] + done.stderr[-2000:]
        assert "passed" in done.stdout and "skipped" not in done.stdout
        assert node.Run("lvs", "--noheadings").stdout.strip() == ""


@pytest.mark.lab
def test_lvmstrap_on_real_disks(tmp_path: Path, need: Callable[[int], None]) -> None:
    need(1)
    disks = [MakeDisk(tmp_path / f"disk{number}", 2048) for number in range(2)]
    with Machine("node1", tmp_path, Fetch(), disks, installed=Compile(tmp_path / "compiled")) as node:
        node.Start()
        node.Wait()
        words = f"{TREE}/.venv/bin/python -m pytest -q -p no:cacheprovider test/lab/inside/lvmstrap_story.py"
        done = node.Run("sh", "-c", f"cd {TREE} && {words}", seconds=600, check=False, GANETI_LAB_NODE="1", **COMPILED)
        assert done.status == 0, done.stdout[-8000:] + done.stderr[-2000:]
        assert "4 passed" in done.stdout
