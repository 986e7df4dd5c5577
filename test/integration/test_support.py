"""What the tests' own cluster notices when it ends."""

from __future__ import annotations

import pytest
from support.realcluster import RealCluster

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
