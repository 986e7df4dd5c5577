"""How much has passed, how fast, and when it may be over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti.impexpd.progress import SAMPLE_SECONDS, Progress

MIB = 1 << 20


def test_speed_is_that_of_the_last_minute() -> None:
    progress = Progress(1000 * MIB, 0.0)
    assert progress.Values() == {
        "progress_mbytes": 0,
        "progress_throughput": None,
        "progress_percent": 0,
        "progress_eta": None,
    }
    for number in range(1, 13):
        progress.Add(50 * MIB)
        progress.Sample(number * SAMPLE_SECONDS)
    assert progress.Values() == {
        "progress_mbytes": 600,
        "progress_throughput": 10,
        "progress_percent": 60,
        "progress_eta": 40,
    }
    for number in range(13, 25):
        progress.Add(5 * MIB)
        progress.Sample(number * SAMPLE_SECONDS)
    assert progress.Values()["progress_throughput"] == 1


def test_waiting_for_a_connection_is_no_slowness() -> None:
    progress = Progress(None, 0.0)
    progress.Sample(50.0)
    progress.Restart(55.0)
    progress.Add(10 * MIB)
    progress.Sample(60.0)
    assert progress.Values()["progress_throughput"] == 2


@given(
    expected=st.none() | st.integers(0, 1 << 50),
    steps=st.lists(st.tuples(st.integers(0, 1 << 40), st.floats(0.0, 100.0)), max_size=30),
)
def test_no_value_is_ever_absurd(expected: int | None, steps: list[tuple[int, float]]) -> None:
    progress, now = Progress(expected, 0.0), 0.0
    for count, seconds in steps:
        progress.Add(count)
        progress.Sample(now := now + seconds)
        values = progress.Values()
        assert values["progress_percent"] is None or 0 <= values["progress_percent"] <= 100
        assert (values["progress_percent"] is None) == (not expected)
        for key in ("progress_eta", "progress_throughput"):
            value = values[key]
            assert value is None or value >= 0
    assert progress.Values()["progress_mbytes"] == pytest.approx(sum(count for count, _ in steps) / MIB)
