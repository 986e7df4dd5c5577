"""The number of calls that hang on each node, as the metrics show it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.master import Master

from ganeti import runtime
from ganeti.server.hanging import FRESH_SECONDS, PAUSE_SECONDS, HangingCalls

HERE, THERE, AWAY = (f"node{number}.example.org" for number in (1, 2, 3))
HANGS = ["lv_list", 90.0, True, "lvs, process 7"]
TAKES_LONG = ["blockdev_wipe", 300.0, False, "dd, process 5"]


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3)


class Reader:
    """Somebody who reads the metrics now and then."""

    def __init__(self, master: Master):
        self._master = master
        self._calls = HangingCalls(master.cfg.Snapshot, master.rpc)

    def Read(self, after: float = PAUSE_SECONDS) -> dict[str, int]:
        """Let time pass, in which nodes answer, and read."""
        runtime.Sleep(after)
        return {name: count for (name,), count in self._calls.Counts().items()}

    def Asked(self, number: int) -> int:
        return self._master[number].calls.count("node_long_calls")


def test_what_hangs_is_counted_and_what_only_takes_long_is_not(three: Master) -> None:
    three[0].answers["node_long_calls"] = [TAKES_LONG]
    three[1].answers["node_long_calls"] = [HANGS, TAKES_LONG, HANGS]
    reader = Reader(three)
    assert reader.Read() == {}, "nobody has been asked yet, and nobody waits for that"
    assert reader.Read() == {HERE: 0, THERE: 2, AWAY: 0}
    del three[1].answers["node_long_calls"]
    reader.Read()
    assert reader.Read()[THERE] == 0


def test_a_node_that_does_not_answer_has_no_number(three: Master) -> None:
    reader = Reader(three)
    reader.Read()
    assert set(reader.Read()) == {HERE, THERE, AWAY}
    three[1].Stop()
    three.cfg.Update(three.snapshot.nodes[three.nodes[2]].Replace(offline=True))
    reader.Read()
    asked = reader.Asked(2)
    assert set(reader.Read()) == {HERE} and reader.Asked(2) == asked
    three[1].answers["node_long_calls"] = [["rubbish"]]
    three[1].Start()
    reader.Read()
    assert set(reader.Read()) == {HERE}


def test_nodes_are_not_asked_for_every_reader_and_old_answers_go(three: Master) -> None:
    reader = Reader(three)
    for _ in range(10):
        reader.Read(after=PAUSE_SECONDS / 100)
    assert reader.Asked(1) == 1
    assert reader.Read(after=FRESH_SECONDS + 1) == {} and len(reader.Read()) == 3
