"""Clients that follow a REST daemon's stream of changes, over a model of masters that come and go; time passes only here.

Clients read slowly or quickly, leave, and come back with the last id that they saw.  Each must hear of everything that it
wants once and in order, unless it is told that events are missing; and of everything in the end, when all is quiet.
"""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from collections.abc import Sequence
from typing import Any

from ganeti import errors
from ganeti.rapi import events
from ganeti.rapi.requests.call import Caller

_CLIENTS = 6
_ROUNDS = 120
_PAGE = 4
_QUIET = 5.0
_KEEP_ALIVE = 0.02
MAX_PENDING = 600
AGAIN = 0.01


class Problem(Exception):
    """A client was told too much or too little."""


class _Clock(selectors.SelectSelector):
    """Time that passes at once when everybody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Problem("everybody waits for ever")
        self.now += max(timeout, 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._own_clock = _Clock()
        super().__init__(self._own_clock)

    def time(self) -> float:
        return self._own_clock.now


class _Master:
    """Events with numbers, of which the newest are kept; away for a while, or another one from now on."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self._keeps = rng.choice([5, 12, 1000])
        self._epoch = 1
        self._events: list[dict[str, Any]] = []
        self._changed = asyncio.Event()
        self.away = False
        self.kinds: list[str] = []
        """Of all events of all masters, in order."""

    def Happen(self) -> None:
        kind = self._rng.choice(["job", "instance", "cluster"])
        event_id = f"{self._epoch}.run-{len(self._events) + 1}"
        padding = "x" * self._rng.choice([1, 100, MAX_PENDING + 100])
        self._events.append({"id": event_id, "kind": kind, "place": len(self.kinds), "padding": padding})
        self.kinds.append(kind)
        self._Wake()

    def Restart(self) -> None:
        self._epoch += 1
        self._events = []
        self._Wake()

    def _Wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def Call(self, method: str, seen: str | None, kinds: None, timeout: float, caller: Any = None) -> Any:
        assert (method, kinds) == ("WaitForEvents", None)
        await asyncio.sleep(self._rng.random() * 0.004)
        end = asyncio.get_running_loop().time() + timeout
        while True:
            if self.away:
                raise errors.GenericError("nobody there")
            answer = self._Answer(seen)
            left = end - asyncio.get_running_loop().time()
            if answer["missed"] or answer["events"] or seen is None or left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                pass
        await asyncio.sleep(self._rng.random() * 0.004)
        return answer

    def _Answer(self, seen: str | None) -> dict[str, Any]:
        newest = len(self._events)
        epoch, _, number = (f"{self._epoch}.run-{newest}" if seen is None else seen).rpartition("-")
        known = epoch == f"{self._epoch}.run" and number.isdigit()
        if not known or not max(0, newest - self._keeps) <= int(number) <= newest:
            return {"last": f"{self._epoch}.run-{newest}", "missed": True, "events": []}
        found = self._events[int(number) :][:_PAGE]
        last = int(number) + len(found)
        return {"last": f"{self._epoch}.run-{last}", "missed": False, "events": found}


class _Client:
    """Follows the stream, and checks what it hears against what has happened."""

    def __init__(self, hub: events.Hub, master: _Master, rng: random.Random, name: str):
        self._hub = hub
        self._master = master
        self._rng = rng
        self._caller = Caller(name, "192.0.2.1:40000")
        self._kinds = rng.choice([None, ["job"], ["instance", "job"]])
        self._last_id: str | None = None
        # Everything before this place was heard of.
        self._known = 0
        # Since it heard that events are missing, or began: it does not know from where on it hears of them.
        self._unsure = True
        self.resumed = 0
        self.missed = 0

    async def Follow(self, quiet: asyncio.Event) -> None:
        """Connect again and again; from the moment that all is quiet stay for the rest."""
        while True:
            try:
                listener = await self._hub.Join(self._caller, events.Filter(self._kinds), self._last_id)
            except errors.GenericError:
                await asyncio.sleep(0.005)
                continue
            self.resumed += self._last_id is not None
            loop = asyncio.get_running_loop()
            until = loop.time() + self._rng.random() * 0.15
            while quiet.is_set() or loop.time() < until:
                try:
                    async with asyncio.timeout(0.05):
                        data = await listener.Take()
                except TimeoutError:
                    continue
                if not data:
                    break
                for block in data.decode("ascii").split("\n\n"):
                    self._Hear(block)
                if self._rng.random() < 0.3:
                    await asyncio.sleep(self._rng.random() * 0.03)
            self._hub.Leave(listener)
            await asyncio.sleep(self._rng.choice([0.0, 0.0, self._rng.random() * 0.05]))

    def _Hear(self, block: str) -> None:
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        self._last_id = fields.get("id", self._last_id)
        if fields.get("event") == events.MISSED:
            self._unsure = True
            self.missed += 1
        elif "event" in fields:
            place = json.loads(fields["data"])["place"]
            if place < self._known:
                raise Problem(f"event {place} comes again, or too late")
            self._CheckNothingWanted(place)
            self._known, self._unsure = place + 1, False

    def _CheckNothingWanted(self, end: int) -> None:
        """Raise Problem if it should have heard of an event between those that it knows and this one."""
        passed = [place for place in range(self._known, end) if self._Wants(self._master.kinds[place])]
        if passed and not self._unsure:
            raise Problem(f"nothing was heard of {passed}")

    def _Wants(self, kind: str) -> bool:
        return self._kinds is None or kind in self._kinds

    def CheckEnd(self) -> None:
        self._CheckNothingWanted(len(self._master.kinds))


async def _Story(rng: random.Random) -> Sequence[_Client]:
    master = _Master(rng)
    hub = events.Hub(master, keep_alive=_KEEP_ALIVE)  # type: ignore[arg-type]
    quiet = asyncio.Event()
    clients = [_Client(hub, master, random.Random(rng.random()), f"user{number}") for number in range(_CLIENTS)]
    following = [asyncio.create_task(client.Follow(quiet)) for client in clients]
    for _ in range(_ROUNDS):
        await asyncio.sleep(rng.random() * 0.006)
        for _ in range(rng.choice([0, 1, 1, 2, 7])):
            master.Happen()
        chance = rng.random()
        if chance < 0.02:
            master.Restart()
        elif chance < 0.04:
            master.away = True
        elif chance < 0.3:
            master.away = False
    master.away = False
    quiet.set()
    done, _ = await asyncio.wait(following, timeout=_QUIET)
    for task in done:
        task.result()
    for client in clients:
        client.CheckEnd()
    for task in following:
        task.cancel()
    return clients


def Run(seed: int) -> Sequence[_Client]:
    """Play the story of this seed; raise Problem if a client was told too much or too little."""

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(_Story(random.Random(seed)))


# --- planted bugs -----------------------------------------------------------------------------------------------------


class ForgetsWhatItGot(events.Listener):
    """What the hub hands on does not count when it falls behind later."""

    def Offer(self, event_id: str, data: bytes | None) -> None:
        before = self._seen
        super().Offer(event_id, data)
        self._seen = before


class KnowsNoOldEvents(events.Listener):
    """The hub may be behind a page."""

    def _IsOld(self, event_id: str) -> bool:
        return False


class GoesOnTooEarly(events.Listener):
    """The page ended before what the hub had handed on."""

    async def CatchUp(self) -> None:
        await super().CatchUp()
        self._behind, self._ahead = False, True


class _Cut(events.Listener):
    """Knows the event of a page that did not fit."""

    cut: str | None = None

    def _Fits(self, data: bytes) -> bool:
        fits = super()._Fits(data)
        if not fits:
            self.cut = data.decode("ascii").partition("\n")[0].removeprefix("id: ")
        return fits


class LosesWhatDoesNotFit(_Cut):
    """An event that does not fit counts as sent."""

    async def CatchUp(self) -> None:
        self.cut = None
        await super().CatchUp()
        self._seen = self.cut or self._seen


class RepeatsThePage(_Cut):
    """What came before an event that did not fit counts as not sent."""

    async def CatchUp(self) -> None:
        before, self.cut = self._seen, None
        await super().CatchUp()
        self._seen = before if self.cut else self._seen


BUGS = (ForgetsWhatItGot, KnowsNoOldEvents, GoesOnTooEarly, LosesWhatDoesNotFit, RepeatsThePage)
