"""Pausing the watchers: a run of the watcher is waited for, a stranger with its lock is named and not waited for."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ganeti import errors, pathutils
from ganeti.tools.adopt import watching

NOBODY = 65534
HOLD = """
import fcntl, os, sys
handle = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_SH)
if int(sys.argv[2]):
    os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lock as the original leaves it: everybody can open it."""
    path = tmp_path / "ganeti-watcher.lock"
    path.touch(0o644)
    monkeypatch.setattr(pathutils, "WATCHER_LOCK_FILE", str(path))
    return path


@contextmanager
def Holder(path: Path, uid: int, program: str = "ganeti-watcher", *arguments: str) -> Iterator[int]:
    """A process of a user that has locked the file; ``program``: the name of the script that a Python executes."""
    script = path.parent / program
    script.write_text(HOLD)
    argv = [sys.executable, "-B", str(script), str(path), str(uid), *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_nobody_is_at_work(lock: Path) -> None:
    assert watching.AwaitFree(60) == []
    lock.unlink()
    assert watching.AwaitFree(60) == []


def test_a_run_of_the_watcher_is_waited_for_and_named(lock: Path) -> None:
    with Holder(lock, 0) as pid:
        with pytest.raises(errors.OpExecError, match=f"Process {pid} .* has not ended within 0 seconds"):
            watching.AwaitFree(0)
    assert watching.AwaitFree(60) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_a_stranger_is_named_and_not_waited_for(lock: Path) -> None:
    with Holder(lock, NOBODY) as pid:
        (note,) = watching.AwaitFree(60)
    assert f"process {pid} (" in note and f"'kill {pid}' ends it" in note and "is not the watcher" in note


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_a_stranger_does_not_hide_a_run_of_the_watcher(lock: Path) -> None:
    with Holder(lock, NOBODY), open(lock, "rb") as own:
        fcntl.flock(own, fcntl.LOCK_SH)  # of this process: it does not count
        with Holder(lock, 0) as pid, pytest.raises(errors.OpExecError, match=f"Process {pid} "):
            watching.AwaitFree(0)


@pytest.mark.parametrize("argument", ["/usr/sbin/ganeti-watcher", "ganeti-watcher", "x ganeti-watcher"])
def test_a_program_of_root_that_only_names_the_watcher_is_a_stranger(lock: Path, argument: str) -> None:
    with Holder(lock, 0, "look-at", argument) as pid:
        (note,) = watching.AwaitFree(60)
    assert f"process {pid} (" in note and f"'kill {pid}' ends it" in note and "is not the watcher" in note


def test_what_cannot_be_locked_is_no_run_of_the_watcher(lock: Path) -> None:
    lock.unlink()
    lock.mkdir()
    assert watching.AwaitFree(60) == []
