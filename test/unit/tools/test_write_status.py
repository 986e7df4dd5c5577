"""tools/write-status counts a requirement if a test that carries it ran and passed on the tree as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.virtualnode import TOP

PAGE = """\
| id | requirement |
|---|---|
| D20-GOAL-01 | it works | designs |
| D20-GOAL-02 | it fails | designs |
| D20-GOAL-03 | one case fails | designs |
"""
TESTS = """\
import pytest

@pytest.mark.req("D20-GOAL-01")
def test_works():
    pass

@pytest.mark.req("D20-GOAL-02")
def test_fails():
    assert False

@pytest.mark.req("D20-GOAL-03")
@pytest.mark.parametrize("number", (1, 2))
def test_cases(number):
    assert number == 1
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with our conftest, one page of requirements and one file of tests."""
    for folder in ("test/data/requirements", "test/unit", "tools", "lib", "doc"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(os.path.join(TOP, "test/support"), tmp_path / "test/support")
    for name in ("test/conftest.py", "test/skips.txt", "tools/write-status", "pyproject.toml"):
        shutil.copy(os.path.join(TOP, name), tmp_path / name)
    (tmp_path / "ganeti").symlink_to(os.path.join(TOP, "lib"))
    (tmp_path / "test/data/requirements/requirements-2.0.md").write_text(PAGE)
    (tmp_path / "test/data/requirements/not-yet.txt").write_text("D20-GOAL: goals come later\n")
    (tmp_path / "test/data/requirements/ruled-out.txt").touch()
    (tmp_path / "test/unit/test_goals.py").write_text(TESTS)
    return tmp_path


def _Test(tree: Path, *argv: str) -> None:
    subprocess.run([sys.executable, "-m", "pytest", "-q", *argv], cwd=tree, capture_output=True)


def _WriteStatus(tree: Path) -> str:
    done = subprocess.run([sys.executable, "tools/write-status"], cwd=tree, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


def test_only_passed_tests_count(tree: Path) -> None:
    _Test(tree)
    assert _WriteStatus(tree) == (
        "doc/status.rst: 1 shown, 0 ruled out, 2 not yet\n"
        "marked, but no test of theirs ran and passed: D20-GOAL-02 D20-GOAL-03"
    )
    status = (tree / "doc/status.rst").read_text()
    assert "  *shown by* ``unit/test_goals.py::test_works``" in status
    assert "  *not yet*: these tests did not run or did not pass: ``unit/test_goals.py::test_fails``" in status


def test_a_test_of_which_only_some_cases_ran_does_not_count(tree: Path) -> None:
    _Test(tree, "-k", "works or 1")
    assert "1 shown" in _WriteStatus(tree)


def test_without_results_nothing_is_written(tree: Path) -> None:
    assert _WriteStatus(tree) == "write-status: .test-results.json does not exist: run tools/run-tests first"
    assert not (tree / "doc/status.rst").exists()


def test_results_of_another_tree_are_rejected(tree: Path) -> None:
    _Test(tree)
    (tree / "lib/new.py").touch()
    assert _WriteStatus(tree) == "write-status: .test-results.json is older than the tree: run tools/run-tests again"


def test_runs_over_the_same_tree_add_up(tree: Path) -> None:
    (tree / "test/unit/test_more.py").write_text(TESTS.replace("assert False", "assert True"))
    _Test(tree, "test/unit/test_more.py")
    _Test(tree, "test/unit/test_goals.py")
    assert "2 shown" in _WriteStatus(tree)
