"""A place for transfers; when a test is over, nothing of them runs and no descriptor is left open."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.allocator import Lease
from support.leftovers import RUN_VARIABLE, Watch
from support.realtransfers import Place


@pytest.fixture
def place(tmp_path: Path, addresses: Lease) -> Iterator[Place]:
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    made = Place(tmp_path, addresses.Address())
    yield made
    made.Close()
    assert Watch(os.environ[RUN_VARIABLE], alone=False).Processes() == []
    gc.collect()
    after = {name: _Target(name) for name in os.listdir("/proc/self/fd") if name not in before}
    assert {name: target for name, target in after.items() if target} == {}


def _Target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""  # the one that was open for the listing
