"""A master with made-up machines for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.master import Master


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Master]]:
    """``make(count, candidates, root)``."""
    made: list[Master] = []

    def build(*args: Any, **options: Any) -> Master:
        made.append(Master(str(tmp_path / str(len(made))), *args, **options))
        return made[-1]

    yield build
    for master in made:
        master.Close()


@pytest.fixture
def master(make: Callable[..., Master]) -> Master:
    """Two machines; the example's DRBD instance lives on them, its devices are there."""
    return make(2)
