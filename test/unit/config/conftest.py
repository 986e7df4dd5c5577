"""A configuration on a real store for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.writers import Setup


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Setup]]:
    """``make(count, candidates, root)``."""
    made: list[Setup] = []

    def build(*args: Any, **options: Any) -> Setup:
        made.append(Setup(str(tmp_path / str(len(made))), *args, **options))
        return made[-1]

    yield build
    for setup in made:
        setup.Close()


@pytest.fixture
def setup(make: Callable[..., Setup]) -> Setup:
    """Three machines, the first one master and only candidate."""
    return make(3)
