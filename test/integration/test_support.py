"""What the tests' own cluster notices when it ends, and that another cluster's shell does not reach the tests."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import sources
from support.realcluster import RealCluster

TREE = Path(__file__).resolve().parents[2]

FAILED = (
    "2026-11-22 20:00:00,000: ganeti-masterd pid=1 ERROR x\nTraceback (most recent call last):\nKeyError: 'serial'\n"
)


def test_an_error_in_the_log_of_a_daemon_fails_the_test() -> None:
    with (
        pytest.raises(AssertionError, match=r"(?s)node1.*master-daemon.*KeyError: 'serial'"),
        RealCluster(1) as cluster,
    ):
        cluster[0].Write("/var/log/ganeti/master-daemon.log", FAILED + "later\n" * 10000)
    with RealCluster(1) as cluster:
        cluster[0].Write("/var/log/ganeti/master-daemon.log", FAILED)
        cluster.expect_tracebacks = True
    with pytest.raises(ZeroDivisionError), RealCluster(1) as cluster:
        cluster[0].Write("/var/log/ganeti/master-daemon.log", FAILED)
        raise ZeroDivisionError  # what went wrong in the test is shown, not this


@pytest.mark.parametrize(
    "program",
    [
        ["-m", "pytest", "--collect-only", "-q", "test/simulation/test_master.py"],
        ["tools/simulate", "master", "--seeds", "1"],
    ],
)
def test_tests_are_not_those_of_the_cluster_that_this_shell_uses(program: list[str]) -> None:
    """After eval "$(tools/quickstart --env)" every path was that cluster's, and no simulated master opened.

    Whatever reads these two variables here ends at once, as they do not fit together.
    """
    shell = {
        **os.environ,
        "GANETI_ROOTDIR": "/tmp/gq/node1.example.com",
        "GANETI_HOSTNAME": "node2.example.com",
        "GANETI_TEST_HALF": "1",  # not the run whose end looks at the machine
    }
    done = subprocess.run([sys.executable, *program], cwd=TREE, env=shell, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_source_is_parsed_although_a_finalizer_would_parse_too() -> None:
    def parse(phase: str, _info: object, depth: int = 20) -> None:
        if depth:
            parse(phase, _info, depth - 1)
        elif phase == "start":
            ast.parse("a = b + c")

    text = Path(sources.__file__).read_text("utf-8") * 50
    before = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(50)
    try:
        assert len(sources.Parse(text).body) > 50
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(parse)


_CONFTEST = """
from support import sharing

def pytest_addoption(parser):
    sharing.AddOptions(parser)

def pytest_configure(config):
    sharing.Register(config)
"""
# The first test of a run goes on when the other run has come to its own.
_WAITING = """
import os, pytest

@pytest.fixture(scope="{scope}")
def place():
    yield
    print("torn down {name}")

@pytest.mark.parametrize("case", "ab")
def test_{name}(case, place):
    open("ran-{name}-" + case + "-" + os.environ["RUN"], "x").close()
    if not os.environ.get("MET"):
        os.environ["MET"] = "yes"
        os.close(os.open("meeting", os.O_RDONLY if os.environ["RUN"] == "first" else os.O_WRONLY))
"""


def test_two_runs_share_files_and_each_test_runs_once(tmp_path: Path) -> None:
    names = ["first/five", "first/two", "four", "one", "second/three"]
    for name in names:
        path = tmp_path / "test/integration" / os.path.dirname(name) / f"test_{os.path.basename(name)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_WAITING.format(name=os.path.basename(name), scope="package"))
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "shared").mkdir()
    os.mkfifo(tmp_path / "meeting")
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--share-{end}=shared", "test"],
            cwd=tmp_path,
            env={**os.environ, "RUN": end, "PYTHONPATH": str(TREE / "test")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for end in ("first", "last")
    ]
    printed = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], printed
    ran = sorted(path.name.split("-")[1:3] for path in tmp_path.glob("ran-*"))
    assert ran == sorted([os.path.basename(name), case] for name in names for case in "ab")
    assert (tmp_path / "ran-five-a-first").exists() and (tmp_path / "ran-one-a-last").exists()
