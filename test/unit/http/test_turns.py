"""Turns of calls: as many as there are clients, and calls that hang take none from others."""

from __future__ import annotations

import json

import pytest
from simulated import World

from ganeti.http import forking
from ganeti.http.forking import Child, Kind, Slots, TooManyLate
from ganeti.rpc.procedures import PROCEDURES, STORE_PROCEDURES
from ganeti.rpc.server import Dispatcher
from ganeti.server.noded import KindOf

CLIENTS = 3
LISTS, FINDS, STORE = (KindOf(f"/{name}") for name in ("lv_list", "blockdev_find", "store_fetch"))


class Bench:
    """Children of a server with room for three calls, on a simulated machine's clock."""

    def __init__(self) -> None:
        self.world = World(1)
        self.machine = self.world.AddMachine("node1")
        self.slots = Slots(CLIENTS + 40)
        self._used = 0

    def Call(self, kind: Kind, reserved: bool = False) -> bool:
        """Return whether a call has its turn at once."""
        child = Child(self.slots, self._used, CLIENTS)
        taken: bool = self.machine.Call(child.TakeTurn, reserved, lambda _seconds: True, kind)
        self._used += taken
        return taken

    def Wait(self, seconds: float) -> None:
        self.world.RunFor(seconds)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_calls_whose_callers_wait_take_turns(bench: Bench) -> None:
    assert [bench.Call(LISTS) for _ in range(CLIENTS + 1)] == [True] * CLIENTS + [False]
    assert not bench.Call(FINDS) and bench.Call(STORE, reserved=True)


def test_a_call_that_hangs_takes_no_turn_once_its_caller_has_given_up(bench: Bench) -> None:
    for _ in range(CLIENTS):
        assert bench.Call(LISTS)
    assert not bench.Call(FINDS)
    bench.Wait(LISTS.seconds + 1)
    assert [bench.Call(FINDS) for _ in range(CLIENTS + 1)] == [True] * CLIENTS + [False]


def test_another_call_of_what_hangs_is_refused_and_others_are_served(bench: Bench) -> None:
    for _ in range(forking._LATE_OF_A_KIND):
        assert bench.Call(LISTS)
        bench.Wait(LISTS.seconds + 1)
    with pytest.raises(TooManyLate) as caught:
        bench.Call(LISTS)
    assert len(caught.value.ages) == 4 and max(caught.value.ages) >= 4 * LISTS.seconds
    assert all(bench.Call(FINDS) for _ in range(CLIENTS)), "all turns are free for others"
    assert not bench.Call(FINDS)


def test_more_calls_than_there_are_places_for_late_ones_take_turns(bench: Bench) -> None:
    kinds = [KindOf(f"/{name}") for name in sorted(set(PROCEDURES) - STORE_PROCEDURES)]
    quick = [kind for kind in kinds if kind.seconds <= 300][: forking._LATE + CLIENTS]
    for kind in quick:
        assert bench.Call(kind)
        bench.Wait(kind.seconds + 1)
    assert not bench.Call(FINDS)


def test_the_refusal_names_what_hangs() -> None:
    class Gate:
        def Enter(self, *_args: object) -> None:
            raise AssertionError

    dispatcher = Dispatcher({}, Gate())  # type: ignore[arg-type]
    status, _headers, body = dispatcher.Refuse("/lv_list", [70.0, 4000.0])
    fine, text = json.loads(body)
    assert (status, fine) == (200, False)
    assert text.startswith("this node is busy with 2 calls of 'lv_list' that do not end, the oldest one for 4000 s")


def test_each_procedure_has_a_number_of_its_own_and_its_own_time() -> None:
    kinds = [KindOf(f"/{name}") for name in PROCEDURES]
    assert len({kind.number for kind in kinds}) == len(PROCEDURES) and min(kind.number for kind in kinds) == 1
    assert (LISTS.seconds, FINDS.seconds) == (60, 900) and KindOf("/nothing") == Kind(0, 0.0)
