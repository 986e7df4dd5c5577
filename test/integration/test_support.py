"""What the tests' own cluster notices when it ends, and that another cluster's shell does not reach the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
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
