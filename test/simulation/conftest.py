"""What all simulations share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep quiet what daemons in trouble log; a logged traceback is found by the run itself where it counts."""
    before = logging.root.handlers[:]
    logging.root.handlers[:] = [logging.NullHandler()]
    yield
    logging.root.handlers[:] = before
