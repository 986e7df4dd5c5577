"""Each fuzzer for a moment, from the seed of the test run."""

from __future__ import annotations

import os
import random

import pytest

from fuzz import damage
from fuzz.targets import TARGETS
from ganeti import errors

SEED = int(os.environ.get("SEED", "1"))


@pytest.mark.limit(180)
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_answered_or_rejected(name: str) -> None:
    with TARGETS[name]() as target:
        target.Run(target.ROUNDS, SEED)


@pytest.mark.parametrize(
    "name", ["config", "job-files", "runtime-files", "databases", "node-rpc", "replies", "luxi", "confd"]
)
def test_undamaged_input_is_accepted(name: str) -> None:
    """Otherwise the damaged would be rejected for another reason, and nothing behind the first check be reached."""
    accepted = 0
    with TARGETS[name]() as target, damage.Off():
        for number in range(20):
            try:
                target.Round(random.Random(number))
                accepted += 1
            except errors.GenericError:
                pass
    assert accepted >= 10
