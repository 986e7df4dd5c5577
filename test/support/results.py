"""What the last test runs of this very tree showed: which tests ran and passed, and which requirements they carry.

``test/conftest.py`` writes ``.test-results.json``, ``tools/write-status`` reads it.  Several runs over the same tree add up;
the first run after a change begins anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from typing import Any, NamedTuple

import pytest

NAME = ".test-results.json"
# What a test's outcome depends on.
_FOLDERS = ("lib", "test", "tools", "daemons", "os", "autotools")
_GENERATED = ("__pycache__", ".hypothesis")


class NoResults(Exception):
    """There are no results, or they belong to another state of the tree."""


class Outcome(NamedTuple):
    """Of one test function: whether all its cases ran and passed, and the requirements that it carries."""

    passed: bool
    ids: list[str]


def Fingerprint(top: str) -> str:
    """Return a digest of every file that can change a test's outcome."""
    digest = hashlib.sha256()
    for folder in _FOLDERS:
        for directory, folders, names in os.walk(os.path.join(top, folder)):
            folders[:] = sorted(name for name in folders if name not in _GENERATED)
            for name in sorted(names):
                path = os.path.join(directory, name)
                if not name.endswith(".pyc") and os.path.isfile(path):
                    digest.update(f"{os.path.relpath(path, top)}\0".encode())
                    with open(path, "rb") as stream:
                        digest.update(hashlib.sha256(stream.read()).digest())
    return digest.hexdigest()


def Read(top: str) -> dict[str, Outcome]:
    """Return function -> outcome; raise NoResults unless they belong to the tree as it is."""
    try:
        with open(os.path.join(top, NAME), encoding="utf-8") as stream:
            content = json.load(stream)
    except FileNotFoundError:
        raise NoResults(f"{NAME} does not exist: run tools/run-tests first") from None
    if content["tree"] != Fingerprint(top):
        raise NoResults(f"{NAME} is older than the tree: run tools/run-tests again")
    return {test: Outcome(*outcome) for test, outcome in content["tests"].items()}


class Recorder:
    """The pytest plugin that collects the outcomes of one run."""

    def __init__(self, top: str):
        self._top = top
        self._tree = Fingerprint(top)
        self._ids: dict[str, set[str]] = {}
        self._cases: dict[str, set[str]] = {}
        self._passed: set[str] = set()
        self._spoiled: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            function = _Function(item.nodeid)
            self._cases.setdefault(function, set()).add(item.nodeid)
            marks = {ident for mark in item.iter_markers("req") for ident in mark.args}
            self._ids.setdefault(function, set()).update(marks)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._spoiled.update(_Function(item.nodeid) for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        if not report.passed:
            self._spoiled.add(_Function(report.nodeid))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write what ran, unless somebody changed the tree meanwhile or asked for single cases of a test."""
        if any("[" in arg for arg in session.config.args) or Fingerprint(self._top) != self._tree:
            return
        found = {
            function: Outcome(function not in self._spoiled and cases <= self._passed, sorted(self._ids[function]))
            for function, cases in self._cases.items()
            if cases & self._passed or function in self._spoiled
        }
        path = os.path.join(self._top, NAME)
        with open(f"{path}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two halves of a run may end at the same time
            content: dict[str, Any] = {"tree": self._tree, "tests": {**self._Earlier(), **found}}
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as stream:
                json.dump(content, stream, indent=0)
            os.rename(stream.name, path)

    def _Earlier(self) -> dict[str, Outcome]:
        try:
            return Read(self._top)
        except (NoResults, ValueError):
            return {}


def _Function(nodeid: str) -> str:
    return nodeid.partition("[")[0]
