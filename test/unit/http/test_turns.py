"""Turns of calls: as many as there are clients, and calls that hang take none from others."""

from __future__ import annotations

import json

import pytest
from simulated import World

from ganeti import runtime
from ganeti.http import Reply, forking
from ganeti.http.forking import Child, Kind, NoTurn, Slots, TooManyLate
from ganeti.rpc.longcalls import LONG_CALLS, LongCall
from ganeti.rpc.procedures import PROCEDURES, STORE_PROCEDURES
from ganeti.rpc.server import Dispatcher
from ganeti.server.longcalls import LongCalls
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

    def Refused(self, kind: Kind) -> float:
        """Return for how long a call waits for its turn before it is refused."""

        def stays(seconds: float) -> bool:
            runtime.Sleep(seconds)
            return False

        with pytest.raises(NoTurn) as caught:
            self.machine.Call(Child(self.slots, self._used, CLIENTS).TakeTurn, False, stays, kind)
        return caught.value.seconds

    def LongCalls(self, seconds: float) -> list[LongCall]:
        long_calls = LongCalls()
        long_calls.calls = Child(self.slots, self._used, CLIENTS).Calls
        found: list[LongCall] = self.machine.Call(long_calls.Since, seconds)
        return found

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


def test_who_gets_no_turn_is_refused_before_he_gives_up(bench: Bench) -> None:
    for _ in range(CLIENTS):
        assert bench.Call(FINDS)
    assert LISTS.seconds - 15 < bench.Refused(LISTS) < LISTS.seconds


def test_who_waits_behind_calls_that_hang_is_refused_soon(bench: Bench) -> None:
    quick = [KindOf(f"/{name}") for name in sorted(set(PROCEDURES) - STORE_PROCEDURES - {LONG_CALLS})]
    quick = [kind for kind in quick if kind.seconds <= 900 and kind != FINDS][: forking._LATE + CLIENTS]
    for kind in quick:
        assert bench.Call(kind)
        bench.Wait(kind.seconds + 1)
    assert bench.Refused(FINDS) < 15


def test_calls_under_way_are_told_of_whatever_hangs(bench: Bench) -> None:
    for kind in (LISTS, FINDS, LISTS):
        assert bench.Call(kind)
        bench.Wait(LISTS.seconds)
    assert bench.Call(KindOf(f"/{LONG_CALLS}"), reserved=True), "how busy it is is told however busy it is"
    told = [(call.procedure, call.late) for call in bench.LongCalls(LISTS.seconds + 1)]
    assert told == [("lv_list", True), ("blockdev_find", False)]


def test_calls_that_ask_what_hangs_take_no_place_of_others_when_they_hang(bench: Bench) -> None:
    asking = KindOf(f"/{LONG_CALLS}")
    for _ in range(forking._LATE_OF_A_KIND):
        assert bench.Call(asking, reserved=True)
    bench.Wait(asking.seconds + 1)
    with pytest.raises(TooManyLate):
        bench.Call(asking, reserved=True)
    for _ in range(forking._LATE_OF_A_KIND + 1):
        assert bench.Call(STORE, reserved=True), "the store's calls are never refused"
        bench.Wait(STORE.seconds + 1)


class Gate:
    def Enter(self, *_args: object) -> None:
        raise AssertionError


def _Refusal(reply: Reply) -> str:
    status, _headers, body = reply
    fine, text = json.loads(body)
    assert (status, fine) == (200, False)
    return str(text)


def test_a_refusal_names_everything_that_hangs() -> None:
    dispatcher = Dispatcher({}, Gate())  # type: ignore[arg-type]
    text = _Refusal(dispatcher.Refuse("/lv_list", [70.0, 4000.0]))
    assert text.startswith(
        "this node is busy with 2 calls of 'lv_list' that do not end, the oldest one for 4000 s; 'gnt-"
    )
    calls = [LongCall("lv_list", 70, True), LongCall("vg_list", 80, True), LongCall("blockdev_wipe", 30, False)]
    text = _Refusal(dispatcher.Refuse("/lv_list", [70.0], calls[:2]))
    assert "; 2 calls hang: 1 vg_list since " in text and ", 1 lv_list since " in text
    text = _Refusal(dispatcher.RefuseWithoutTurn("/blockdev_find", 20.0, calls))
    assert text.startswith(
        "this node is too busy to serve a call of 'blockdev_find', which waited for 20 s; under way: 1 "
    )
    assert "under way: 1 blockdev_wipe since " in text and "; 2 calls hang: 1 vg_list since " in text


def test_each_procedure_has_a_number_of_its_own_and_its_own_time() -> None:
    kinds = [KindOf(f"/{name}") for name in PROCEDURES]
    assert len({kind.number for kind in kinds}) == len(PROCEDURES) and min(kind.number for kind in kinds) == 1
    assert (LISTS.seconds, FINDS.seconds) == (60, 900) and KindOf("/nothing") == Kind(0, 0.0)
