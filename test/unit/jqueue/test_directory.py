"""The lock and the version of the queue's directory."""

from __future__ import annotations

import subprocess
import sys

import pytest
from simulated import World
from support.virtualnode import VirtualNode

from ganeti import errors, pathutils, runtime
from ganeti.jqueue import directory

HOLD = "from ganeti.jqueue import directory; lock = directory.Own(); print('held', flush=True); input()"


@pytest.fixture
def queue_dir(tmp_path, monkeypatch):
    folder = tmp_path / "queue"
    for name, value in [
        ("QUEUE_DIR", folder),
        ("JOB_QUEUE_LOCK_FILE", folder / "lock"),
        ("JOB_QUEUE_VERSION_FILE", folder / "version"),
    ]:
        monkeypatch.setattr(pathutils, name, str(value))
    return folder


@pytest.mark.req("D20-JOB-18")
def test_a_second_process_refuses_to_work(tmp_path):
    node = VirtualNode(str(tmp_path))
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=node.Environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        second = node.Python(HOLD)
        assert second.returncode != 0
        assert "Another process owns the job queue" in second.stderr
    finally:
        first.communicate("\n", timeout=20)
    third = node.Run([sys.executable, "-c", HOLD], stdin="\n")
    assert third.stdout == "held\n"


@pytest.mark.req("D20-JOB-17")
@pytest.mark.parametrize("text", ["2\n", "", "x", "1 1"])
def test_files_of_another_version_are_left_alone(queue_dir, text):
    queue_dir.mkdir()
    (queue_dir / "version").write_text(text)
    with pytest.raises(errors.JobQueueError, match="version"):
        directory.Own()
    assert not (queue_dir / "lock").exists()
    (queue_dir / "version").write_text("1\n")
    with directory.Own():
        assert (queue_dir / "lock").exists()


def test_a_new_folder_belongs_to_the_owner_of_the_queue() -> None:
    with World(1) as world:

        def story() -> None:
            with directory.Own(123, 456):
                info = runtime.Stat(pathutils.QUEUE_DIR)
                assert (info.st_uid, info.st_gid, info.st_mode & 0o777) == (123, 456, 0o750)

        world.AddMachine("node1").Call(story)
        assert not world.failures
