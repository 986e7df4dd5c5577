"""Who follows the REST daemon's stream hears of everything once and in order, and a stream that is wrong would be seen."""

from __future__ import annotations

import pytest
from simulation.harness import streams

from ganeti.rapi import events

SEEDS = 20
_CHUNK = 10
SEEDS_FOR_A_BUG = 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little fits into a listener, so that clients fall behind."""
    monkeypatch.setattr(events, "MAX_PENDING", streams.MAX_PENDING)
    monkeypatch.setattr(events, "_AGAIN", streams.AGAIN)


@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_everybody_hears_of_everything_once_and_in_order(start: int) -> None:
    clients = []
    for seed in range(start, start + _CHUNK):
        try:
            clients += streams.Run(seed)
        except streams.Problem as err:
            pytest.fail(f"seed {seed}: {err}")
    assert sum(client.resumed for client in clients) > _CHUNK
    assert sum(client.missed for client in clients) > 0


@pytest.mark.parametrize("bug", streams.BUGS)
def test_each_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: type[events.Listener]) -> None:
    monkeypatch.setattr(events, "Listener", bug)
    with pytest.raises(streams.Problem):
        for seed in range(1, SEEDS_FOR_A_BUG + 1):
            streams.Run(seed)
