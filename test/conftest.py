"""Every test has a time limit and a seed, leaves nothing behind, and is never skipped silently."""

from __future__ import annotations

import contextlib
import faulthandler
import fnmatch
import gc
import logging
import os
import random
import signal
import tempfile
import zlib
from collections.abc import Iterator

import hypothesis
import pytest
from support import allocator, leftovers, ownshell, patience, results, sharing

ownshell.Leave()

# Seconds for one test; the marker limit(seconds) sets another.  They find what hangs: a busy machine gets more (support.patience).
LIMIT = 60
LIMIT_SLOW = 300
LIMIT_LAB = 900
# After this much more the whole run is ended: something does not even react to a signal.
LAST_RESORT = 30

HERE = os.path.dirname(os.path.abspath(__file__))
CI = ownshell.CI
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 24))

hypothesis.settings.register_profile(
    "work", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile(
    "ci", parent=hypothesis.settings.get_profile("work"), derandomize=True, database=None
)
hypothesis.settings.load_profile("ci" if CI else "work")

_watch = pytest.StashKey[leftovers.Watch]()
_unlisted_skips: list[str] = []
_found_leftovers: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate-golden", action="store_true", help="write the files under test/golden anew")
    sharing.AddOptions(parser)


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts us in the background has us, and every program under test, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run_id = f"{os.getpid():x}-{SEED:x}"
    os.environ[leftovers.RUN_VARIABLE] = run_id
    # Two halves run side by side; tools/run-tests itself looks for what both left behind.
    alone = CI and "GANETI_TEST_HALF" not in os.environ
    config.stash[_watch] = leftovers.Watch(run_id, alone)
    if not config.option.collectonly:
        config.pluginmanager.register(results.Recorder(os.path.dirname(HERE)))
    sharing.Register(config)


def pytest_report_header() -> str:
    hashes = os.environ.get("PYTHONHASHSEED", "random")
    return f"seed: {SEED} (repeat with SEED={SEED}), hash seed: {hashes}, hypothesis: {'ci' if CI else 'work'}"


# --- a time limit for every test -----------------------------------------------------------------------------------------


def _LimitOf(item: pytest.Item) -> float:
    marker = item.get_closest_marker("limit")
    if marker is not None:
        return float(marker.args[0])
    if item.get_closest_marker("lab") is not None:
        return LIMIT_LAB
    return LIMIT_SLOW if item.get_closest_marker("slow") is not None else LIMIT


def _AllStacks() -> str:
    with tempfile.TemporaryFile("w+") as stream:
        faulthandler.dump_traceback(stream, all_threads=True)
        stream.seek(0)
        return stream.read()


def _Stderr(config: pytest.Config) -> int:
    """The run's own stderr, which pytest has put aside."""
    from _pytest.faulthandler import fault_handler_stderr_fd_key

    return config.stash.get(fault_handler_stderr_fd_key, 2)


@contextlib.contextmanager
def _TimeLimit(item: pytest.Item) -> Iterator[None]:
    limit = _LimitOf(item)
    deadline = patience.Deadline(limit)

    def expired(_signum: int, _frame: object) -> None:
        left = deadline.Left()
        if left > 0:
            start(min(max(left, 0.1), limit))
        else:
            pytest.fail(f"took longer than {limit:g} s; all stacks:\n{_AllStacks()}", pytrace=False)

    def start(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        faulthandler.dump_traceback_later(seconds + LAST_RESORT, exit=True, file=_Stderr(item.config))

    previous = signal.signal(signal.SIGALRM, expired)
    start(limit)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    random.seed(_SeedOf(item.nodeid))
    with _TimeLimit(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _TimeLimit(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with _TimeLimit(item):
        return (yield)


# --- seeds, addresses ----------------------------------------------------------------------------------------------------


def _SeedOf(nodeid: str) -> int:
    return SEED ^ zlib.crc32(nodeid.encode())


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A number of this test's own, another one in each run, the same for the same SEED."""
    return _SeedOf(request.node.nodeid)


@pytest.fixture
def addresses() -> Iterator[allocator.Lease]:
    """A network of loopback addresses for this test alone."""
    lease = allocator.Lease()
    yield lease
    lease.Release()


# --- nothing kept from the test before -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Tools and daemons decide for their whole process where messages go."""
    root = logging.getLogger()
    handlers, level, raises = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raises


# --- nothing skipped without a reason, nothing left behind -------------------------------------------------------------


def _ReadSkips() -> dict[str, str]:
    listed = {}
    with open(os.path.join(HERE, "skips.txt"), encoding="utf-8") as stream:
        for line in stream:
            if line.strip() and not line.startswith("#"):
                pattern, _, reason = line.strip().partition(": ")
                assert reason, f"test/skips.txt: no reason given for {pattern}"
                listed[pattern] = reason
    return listed


def _NoteSkip(nodeid: str, cause: object) -> None:
    if not any(fnmatch.fnmatchcase(nodeid, pattern) for pattern in _ReadSkips()):
        _unlisted_skips.append(f"{nodeid}: {cause}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        _NoteSkip(report.nodeid, report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected failure")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _NoteSkip(report.nodeid, report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    watch = session.config.stash[_watch]
    watch.WaitUntilGone(3)
    gc.collect()
    _found_leftovers.extend(watch.Find())
    watch.KillProcesses()
    if (_found_leftovers or _unlisted_skips) and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _found_leftovers:
        terminalreporter.section("left behind", red=True)
        for line in _found_leftovers:
            terminalreporter.line(line)
    if _unlisted_skips:
        terminalreporter.section("skipped, not listed in test/skips.txt", red=True)
        for line in _unlisted_skips:
            terminalreporter.line(line)
