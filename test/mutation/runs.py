"""Runs tests in a copy of the tree: once with coverage, then with one fault after another.

Each run is a child of this process, which has pytest imported and nothing of the tree.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import coverage
import pytest
from support import leftovers

_NOT_COPIED = (".git", ".venv", "__pycache__", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache", "build")
_IN_TREE = ("ganeti", "support", "simulated", "simulation", "mutation", "conftest", "test_")


class Baseline(NamedTuple):
    """What a run without faults showed: seconds of each test, and which tests execute a line ("" is an import)."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, set[str]]]

    def TestsOf(self, path: str, first: int, last: int) -> list[str]:
        """Return the tests that execute one of the lines, the quickest first; all tests if an import does."""
        tests: set[str] = set()
        for line in range(first, last + 1):
            tests |= self.lines.get(path, {}).get(line, set())
        chosen = set(self.seconds) if tests == {""} else tests & set(self.seconds)
        return sorted(chosen, key=lambda test: (self.seconds[test], test))


class Result(NamedTuple):
    """How a run ended: ``status`` is the exit code, None if it was killed at its time limit."""

    status: int | None
    output: str


class Copy:
    """A copy of the tree in a temporary directory; the tree itself is never changed."""

    def __init__(self, top: str):
        self._scratch = tempfile.mkdtemp(prefix="ganeti-mutate-")
        self.path = os.path.join(self._scratch, "tree")
        shutil.copytree(top, self.path, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        for name in (".venv", "build"):
            if os.path.exists(os.path.join(top, name)):
                os.symlink(os.path.join(top, name), os.path.join(self.path, name))

    def Remove(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    @contextlib.contextmanager
    def Changed(self, path: str, source: str) -> Iterator[None]:
        """Give one file another content for a while; compiled versions of both never mix."""
        full = os.path.join(self.path, path)
        with open(full, encoding="utf-8") as stream:
            original = stream.read()
        try:
            self._Write(full, source)
            yield
        finally:
            self._Write(full, original)

    def _Write(self, full: str, source: str) -> None:
        shutil.rmtree(os.path.join(os.path.dirname(full), "__pycache__"), ignore_errors=True)
        with open(full, "w", encoding="utf-8") as stream:
            stream.write(source)

    # --- runs --------------------------------------------------------------------------------------------------------

    def Measure(self, tests: Sequence[str], limit: float) -> tuple[Result, Baseline]:
        """Run the tests without a fault and import here what they need from outside the tree."""
        found = os.path.join(self._scratch, "baseline.json")
        result = self._Run(lambda: _MeasureHere(self.path, tests, found), limit, compiled=True)
        if result.status != 0:
            return result, Baseline({}, {})
        with open(found, encoding="utf-8") as stream:
            content = json.load(stream)
        for name in content["modules"]:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        lines = {
            path: {int(line): set(names) for line, names in by_line.items()}
            for path, by_line in content["lines"].items()
        }
        return result, Baseline(content["seconds"], lines)

    def Test(self, tests: Sequence[str], limit: float, *options: str) -> Result:
        """Run these tests until the first fails."""
        argv = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", *options, *tests]
        return self._Run(lambda: int(pytest.main(argv)), limit)

    def Simulate(self, argv: Sequence[str], limit: float) -> Result:
        """Run tools/simulate."""

        def play() -> int:
            from simulation.command import Main

            return Main([*argv])

        return self._Run(play, limit)

    def _Run(self, what: Callable[[], int], limit: float, compiled: bool = False) -> Result:
        with tempfile.TemporaryFile() as output:
            pid = os.fork()
            if pid == 0:
                _BecomeRun(self.path, output.fileno(), what, compiled)
            status = _Wait(pid, limit)
            output.seek(0)
            return Result(status, output.read().decode("utf-8", "replace"))


# --- in the child --------------------------------------------------------------------------------------------------------


def _BecomeRun(top: str, output: int, what: Callable[[], int], compiled: bool) -> None:
    """Never returns."""
    status = 70
    try:
        os.setpgid(0, 0)
        for handle in (1, 2):
            os.dup2(output, handle)
        sys.stdin = open(os.devnull)  # noqa: SIM115 - lives as long as the process
        os.chdir(top)
        sys.path[:0] = [top, os.path.join(top, "test")]
        for name in [name for name in sys.modules if name.startswith(_IN_TREE)]:
            del sys.modules[name]
        if not compiled:
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        status = what()
    except BaseException as err:  # noqa: BLE001 - nothing may return into the parent's code
        print(f"{type(err).__name__}: {err}", flush=True)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class _Recorder:
    """The pytest plugin that notes how long each test takes and which lines it executes."""

    def __init__(self, measured: coverage.Coverage):
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(item.nodeid)
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.monotonic() - began
            self._measured.switch_context("")


def _MeasureHere(top: str, tests: Sequence[str], found: str) -> int:
    measured = coverage.Coverage(data_file=None, source=[os.path.join(top, "lib")], config_file=False)
    recorder = _Recorder(measured)
    measured.start()
    status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests], plugins=[recorder]))
    measured.stop()
    data = measured.get_data()
    lines = {
        os.path.relpath(path, os.path.realpath(top)): data.contexts_by_lineno(path) for path in data.measured_files()
    }
    content: dict[str, Any] = {"seconds": recorder.seconds, "lines": lines, "modules": _Foreign(top)}
    with open(found, "w", encoding="utf-8") as stream:
        json.dump(content, stream)
    return status


def _Foreign(top: str) -> list[str]:
    """Return the imported modules that are not of the tree."""
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        inside = os.path.realpath(path).startswith(os.path.realpath(top) + "/") or name.startswith(_IN_TREE)
        if path and not inside and name != "__main__":
            found.append(name)
    return found


# --- in the parent -------------------------------------------------------------------------------------------------------


def _Wait(pid: int, limit: float) -> int | None:
    """Wait for the run; a run that hangs is killed.  Processes that it left behind go as well.

    ``limit`` are seconds that it works or waits for something; those in which others have its CPU do not count.
    """
    began = time.monotonic()
    status: int | None = None
    while True:
        done, code = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(code)
            break
        if time.monotonic() - began - _KeptWaiting(pid) > limit:
            _KillGroup(pid)
            os.waitpid(pid, 0)
            break
        time.sleep(0.02)
    _KillGroup(pid)
    # test/conftest.py marks what its tests start with the run's process id and seed.
    leftovers.Watch(f"{pid:x}-{int(os.environ['SEED']):x}", alone=False).KillProcesses()
    return status


def _KeptWaiting(pid: int) -> float:
    """Return for how many seconds a process could have worked, had it got a CPU."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as stream:
            return int(stream.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # it has just ended, or this kernel does not count that


def _KillGroup(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
