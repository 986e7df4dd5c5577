"""Fixtures for tests of logical units: a simulated cluster, in whose master daemon the test itself runs.

A conftest takes them over: ``from support.stage import make, master, pytest_pyfunc_call``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.master import Master

_master = pytest.StashKey[Master]()


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Master]]:
    """``make(count, candidates, spare, change, prepare)``, once; ``prepare(master)`` runs inside, before the test."""
    made: list[Master] = []

    def build(*args: Any, prepare: Callable[[Master], Any] = lambda master: None, **options: Any) -> Master:
        assert not made, "a test runs in one master"
        master = Master(*args, **options)
        made.append(master)
        request.node.stash[_master] = master
        master.Perform(lambda: prepare(master))
        return master

    yield build
    # A test's item lives as long as the run, and a master's disks may be large.
    if _master in request.node.stash:
        del request.node.stash[_master]
    for master in made:
        master.Close()


@pytest.fixture
def master(make: Callable[..., Master]) -> Master:
    """Two nodes; the example's DRBD instance lives on them and runs on the first."""
    return make(2)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test inside its master daemon, so that it may call whatever a job calls."""
    master = pyfuncitem.stash.get(_master, None)
    if master is None:
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    master.Perform(lambda: pyfuncitem.obj(**arguments))
    return True
