"""tools/mutate plants faults in a copy of the tree and reports those that no test notices."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mutation import runs
from support.virtualnode import TOP

CODE = '''\
"""A made-up room."""

import threading

_lock = threading.Lock()


def Larger(a, b):
    if a > b:
        return a
    return b


def Wait(count):
    while count:
        count = count - 1
    return count


def Unseen(items):
    with _lock:
        items.append(1)
'''
TESTS = """\
from ganeti import toy

def test_larger():
    assert toy.Larger(1, 2) == 2

def test_wait():
    assert toy.Wait(3) == 0
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("lib", "test/unit/toy"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ganeti").symlink_to("lib")
    (tmp_path / "lib/__init__.py").touch()
    (tmp_path / "lib/toy.py").write_text(CODE)
    (tmp_path / "test/unit/toy/test_toy.py").write_text(TESTS)
    return tmp_path


def _Mutate(tree: Path, *argv: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, os.path.join(TOP, "tools", "mutate"), "toy", "--nice", "0", "--tree", str(tree), *argv],
        capture_output=True,
        text=True,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_list_shows_each_fault_with_its_place(tree: Path) -> None:
    assert _Mutate(tree, "--list") == (
        0,
        [
            "lib/toy.py:9: comparison: a > b  ->  a >= b",
            "lib/toy.py:9: negated condition: a > b  ->  not a > b",
            "lib/toy.py:15: negated condition: count  ->  not count",
            "lib/toy.py:16: off by one: 1  ->  2",
            "lib/toy.py:21: removed lock: with _lock:  ->  if True:",
            "lib/toy.py:22: removed call: items.append(1)  ->  pass",
        ],
    )


@pytest.mark.slow
def test_survivors_are_printed_and_a_hang_counts_as_caught(tree: Path) -> None:
    """Counting 3 down by 2 never ends; no test compares equal numbers; nothing calls Unseen."""
    status, lines = _Mutate(tree, "--limit", "5")
    assert status == 1
    assert lines[1:] == [
        "lib/toy.py:9: comparison: a > b  ->  a >= b  (survived)",
        "lib/toy.py:21: removed lock: with _lock:  ->  if True:  (no test runs this line)",
        "lib/toy.py:22: removed call: items.append(1)  ->  pass  (no test runs this line)",
        "toy: 3 of 6 caught, 50%; 2 failed, 1 hung, 1 survived, 2 unseen",
    ]
    assert (tree / "lib/toy.py").read_text() == CODE, "the tree itself never changes"


def test_a_run_that_others_keep_from_its_cpu_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs a second of a CPU that it shares with four others, and has two."""
    monkeypatch.setenv("SEED", "1")
    cpu = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    try:
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.sched_setaffinity(0, {cpu})
            while time.process_time() < 1.0:
                pass
            os._exit(7)
        assert runs._Wait(pid, 2.0) == 7
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_fault_runs_only_the_tests_of_its_line_and_passes_when_caught(tree: Path) -> None:
    (tree / "test/unit/toy/test_other.py").write_text("def test_other():\n    pass\n")
    status, lines = _Mutate(tree, "--at", "toy.py:15", "--all")
    assert status == 0
    assert lines[0].startswith("3 tests of test/unit/toy in ")
    assert lines[1].startswith("failed ")
    assert lines[2:] == ["toy: 1 of 1 caught, 100%; 1 failed"]


def test_the_same_seed_chooses_the_same_faults(tree: Path) -> None:
    first = _Mutate(tree, "--list", "--sample", "3", "--seed", "5")
    assert first == _Mutate(tree, "--list", "--sample", "3", "--seed", "5")
    assert len(first[1]) == 3
    assert len({tuple(_Mutate(tree, "--list", "--sample", "3", "--seed", str(seed))[1]) for seed in range(4)}) > 1


def test_tests_that_fail_without_a_fault_are_an_error(tree: Path) -> None:
    (tree / "test/unit/toy/test_bad.py").write_text("def test_bad():\n    assert False\n")
    status, lines = _Mutate(tree)
    assert status == 2
    assert lines[-1] == "mutate: test/unit/toy do not pass without a fault"


def test_an_unknown_room_is_named(tree: Path) -> None:
    status, lines = _Mutate(tree, "--list", "attic")
    assert status == 2
    assert "unrecognized arguments: attic" in lines[-1]
    done = subprocess.run(
        [sys.executable, os.path.join(TOP, "tools", "mutate"), "attic", "--tree", str(tree)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "there is no room 'attic': neither lib/attic nor lib/attic.py exists" in done.stderr
