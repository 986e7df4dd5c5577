"""Benches that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.queues import Bench


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def build(**options: Any) -> Bench:
        made.append(Bench(str(tmp_path / str(len(made))), **options))
        return made[-1]

    yield build
    for bench in made:
        bench.Close()


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    return make()
