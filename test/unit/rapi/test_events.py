"""The stream of changes: one wait at the master daemon, and what each listener gets."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.rapi import READER, Site

from ganeti.rapi import events
from ganeti.rapi.requests.call import Caller, HttpError

JACK = Caller("jack", "192.0.2.1:40000")

_LIMIT = 30.0
_MOST = 1000
"""Events in one answer of the master daemon."""


class Master:
    """A master daemon with events; ``Restart`` makes it another one, which knows none of the ids."""

    def __init__(self) -> None:
        self._epoch = 1
        self._events: list[dict[str, Any]] = []
        self._changed = asyncio.Event()
        self.waits = 0
        self.away = False
        self.kept = 10_000
        self.before_answer: Callable[[], None] = lambda: None

    def Happen(self, kind: str, name: str = "web") -> str:
        number = len(self._events) + 1
        event = {"id": f"{self._epoch}.run-{number}", "kind": kind, "change": "changed", "name": name}
        self._events.append(event)
        self._changed.set()
        return str(event["id"])

    def Restart(self) -> None:
        self._epoch += 1
        self._events = []
        self._changed.set()

    async def Call(self, method: str, last: str | None, kinds: None, timeout: float, caller: Any = None) -> Any:
        assert (method, kinds) == ("WaitForEvents", None)
        if self.away:
            raise HttpError(502, "nobody there")
        await asyncio.sleep(0)  # others go on while an answer is under way
        self.waits += timeout > 0
        while True:
            answer = self._Answer(last)
            if timeout:
                self._changed.clear()
            if answer["missed"] or answer["events"] or not timeout:
                self.before_answer()
                return answer
            await self._changed.wait()

    def _Answer(self, last: str | None) -> dict[str, Any]:
        newest = f"{self._epoch}.run-{len(self._events)}"
        epoch, _, number = (newest if last is None else last).rpartition("-")
        if epoch != f"{self._epoch}.run" or int(number) < len(self._events) - self.kept:
            return {"last": newest, "missed": True, "events": []}
        found = self._events[int(number) :][:_MOST]
        return {"last": found[-1]["id"] if found else newest, "missed": False, "events": found}


class Sent(NamedTuple):
    """One event as a client reads it."""

    name: str
    event_id: str | None
    data: Any


class Client:
    """Reads a stream, or leaves it unread."""

    def __init__(self, hub: events.Hub, listener: events.Listener):
        self.text = b""
        self.ids: list[str] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self._came = asyncio.Event()
        self._left = asyncio.Event()
        self.task = asyncio.create_task(events.Stream(hub, listener)({}, self._Receive, self._Send))

    async def _Receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _Send(self, message: Any) -> None:
        await self.reading.wait()
        self.text += message.get("body", b"")
        self._came.set()

    def Leave(self) -> None:
        self._left.set()

    @property
    def events(self) -> list[Sent]:
        found = []
        for block in self.text.decode("ascii").split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
            if "data" in fields:
                found.append(Sent(fields["event"], fields.get("id"), json.loads(fields["data"])))
        return found

    async def Until(self, count: int) -> list[Sent]:
        async with asyncio.timeout(_LIMIT):
            while self.text.count(b"\ndata: ") < count and not self.task.done():
                self._came.clear()
                await self._came.wait()
        return self.events


def Play(story: Callable[[Master, events.Hub], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        master = Master()
        async with asyncio.timeout(_LIMIT):
            await story(master, events.Hub(master))

    asyncio.run(run())


async def _Join(
    hub: events.Hub,
    last: str | None = None,
    wants: events.Filter | None = None,
    caller: Caller = JACK,
    **more: Any,
) -> Client:
    return Client(hub, await hub.Join(caller, wants or events.Filter(), last, **more))


def test_all_listeners_get_an_event_from_one_wait() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        clients = [await _Join(hub) for _ in range(50)]
        wanted = [master.Happen("job", "7")]
        for client in clients:
            assert [sent.event_id for sent in await client.Until(1)] == wanted
        wanted.append(master.Happen("node", "node1"))
        for client in clients:
            got = await client.Until(2)
            assert [sent.event_id for sent in got] == wanted
            assert (got[1].name, got[1].data["name"]) == ("node", "node1")
        assert master.waits <= 3

    Play(story)


def test_a_new_listener_hears_where_it_begins() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        last = master.Happen("job")
        client = await _Join(hub)
        master.Happen("job")
        await client.Until(1)
        assert client.text.startswith(f"retry: 2000\nid: {last}\n\n".encode())
        assert len(client.events) == 1

    Play(story)


def test_filters() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        of_kind = await _Join(hub, wants=events.Filter(["job", "node"]))
        of_name = await _Join(hub, wants=events.Filter(None, "web"))
        for kind, name in (("instance", "web"), ("job", "7"), ("node", "web"), ("instance", "db")):
            master.Happen(kind, name)
        assert [sent.name for sent in await of_kind.Until(2)] == ["job", "node"]
        assert [sent.name for sent in await of_name.Until(2)] == ["instance", "node"]

    Play(story)


@pytest.mark.parametrize("others", [0, 1])
def test_who_comes_back_gets_everything_once_also_what_happens_meanwhile(others: int) -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        for _ in range(others):
            await _Join(hub)
        ids = [master.Happen("job") for _ in range(5)]
        left = 6

        def more() -> None:
            nonlocal left
            if left:
                left -= 1
                ids.append(master.Happen("instance"))

        master.before_answer = more
        client = await _Join(hub, ids[1])
        ids.append(master.Happen("node"))
        await client.Until(len(ids) - 2)
        ids.append(master.Happen("node"))
        while len(client.events) < len(ids) - 2:  # answers under way may add to the ids
            await client.Until(len(ids) - 2)
        assert [sent.event_id for sent in client.events] == ids[2:]

    Play(story)


@pytest.mark.parametrize("strange", ["", "x", "0.old-3", "z" * 500])
def test_an_id_that_is_not_known_means_that_events_are_missing(strange: str) -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        last = master.Happen("job")
        client = await _Join(hub, strange)
        [missed] = await client.Until(1)
        assert (missed.name, missed.event_id) == ("missed", last)

    Play(story)


def test_another_master_is_announced_to_everybody() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        clients = [await _Join(hub, wants=events.Filter(["node"])) for _ in range(3)]
        master.Happen("node")
        for client in clients:
            await client.Until(1)
        master.Restart()
        for client in clients:
            assert (await client.Until(2))[1].name == "missed"
        wanted = master.Happen("node")
        for client in clients:
            assert (await client.Until(3))[2].event_id == wanted

    Play(story)


def _MoreThanWaits(master: Master) -> list[str]:
    """Let so much happen that one listener cannot be sent it at once, and that it is more than one answer."""
    ids = [master.Happen("job", str(number)) for number in range(2 * events.MAX_PENDING // 60)]
    assert len(ids) > 2 * _MOST
    return ids


def test_who_comes_back_late_gets_everything_as_it_reads() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        begin = master.Happen("job")
        ids = _MoreThanWaits(master)
        listener = await hub.Join(JACK, events.Filter(), begin)
        assert listener.waiting <= events.MAX_PENDING
        client = Client(hub, listener)
        client.reading.clear()
        ids.append(master.Happen("node"))
        client.reading.set()
        await client.Until(len(ids))
        ids.append(master.Happen("node"))
        assert [sent.event_id for sent in await client.Until(len(ids))] == ids

    Play(story)


def test_a_burst_larger_than_what_may_wait_loses_nobody_who_reads() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        everything, nodes = await _Join(hub), await _Join(hub, wants=events.Filter(["node"]))
        ids = _MoreThanWaits(master)
        assert [sent.event_id for sent in await everything.Until(len(ids))] == ids
        wanted = master.Happen("node")
        assert [sent.event_id for sent in await nodes.Until(1)] == [wanted]
        assert [sent.event_id for sent in await everything.Until(len(ids) + 1)] == [*ids, wanted]

    Play(story)


def test_who_does_not_read_costs_no_more_than_the_limit_and_delays_nobody() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        listener = await hub.Join(JACK, events.Filter(), None)
        slow, quick = Client(hub, listener), await _Join(hub)
        slow.reading.clear()
        ids = _MoreThanWaits(master)
        assert len(await quick.Until(len(ids))) == len(ids)
        assert 0 < listener.waiting <= events.MAX_PENDING
        slow.reading.set()
        assert [sent.event_id for sent in await slow.Until(len(ids))] == ids

    Play(story)


def test_who_reads_too_late_hears_that_events_are_missing_and_goes_on_from_there() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        slow, quick = await _Join(hub), await _Join(hub)
        slow.reading.clear()
        newest = _MoreThanWaits(master)[-1]
        await quick.Until(int(newest.rpartition("-")[2]))
        master.kept = 50
        slow.reading.set()
        async with asyncio.timeout(_LIMIT):
            while b"event: missed" not in slow.text:
                slow._came.clear()
                await slow._came.wait()
        *before, missed = slow.events
        assert [sent.data["name"] for sent in before] == [str(number) for number in range(len(before))]
        assert (missed.name, missed.event_id) == ("missed", newest)
        wanted = master.Happen("node")
        assert (await slow.Until(len(before) + 2))[-1].event_id == wanted

    Play(story)


def test_a_stream_that_is_behind_ends_when_the_master_is_away_and_can_be_resumed() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        begin = master.Happen("job")
        ids = _MoreThanWaits(master)
        listener = await hub.Join(JACK, events.Filter(), begin)
        master.away = True
        client = Client(hub, listener)
        await client.task
        got = [sent.event_id for sent in client.events]
        assert 0 < len(got) < len(ids) and got == ids[: len(got)]
        master.away = False
        again = await _Join(hub, got[-1])
        assert [sent.event_id for sent in await again.Until(len(ids) - len(got))] == ids[len(got) :]

    Play(story)


def test_nobody_waits_at_the_master_for_nobody() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        client = await _Join(hub)
        client.Leave()
        await client.task
        assert hub._task is None
        again = await _Join(hub)
        wanted = master.Happen("job")
        assert [sent.event_id for sent in await again.Until(1)] == [wanted]

    Play(story)


def test_a_master_that_is_about_to_end_is_not_asked_again_and_again() -> None:
    class Ending(Master):
        async def Call(self, method: str, last: str | None, kinds: None, timeout: float, caller: Any = None) -> Any:
            self.waits += timeout > 0
            return await super().Call(method, last, kinds, 0.0)

    async def run() -> None:
        master = Ending()
        hub = events.Hub(master)
        await _Join(hub)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert master.waits == 1

    asyncio.run(run())


def test_without_a_master_there_is_no_stream() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        master.away = True
        with pytest.raises(HttpError):
            await hub.Join(JACK, events.Filter(), None)
        master.away = False
        await hub.Join(JACK, events.Filter(), None)
        master.away = True
        with pytest.raises(HttpError):
            await hub.Join(JACK, events.Filter(), "1.run-0")
        assert len(hub._listeners) == 1

    Play(story)


def test_a_stream_ends_when_its_token_is_revoked() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        accepted = True

        async def valid() -> bool:
            return accepted

        client = await _Join(hub, valid=valid)
        master.Happen("cluster")
        await client.Until(1)
        accepted = False
        master.Happen("cluster")
        await client.task
        assert len(client.events) == 1

    Play(story)


def test_a_stream_ends_when_its_token_expires_also_while_events_flow() -> None:
    async def run() -> None:
        accepted = True

        async def valid() -> bool:
            return accepted

        master = Master()
        client = await _Join(events.Hub(master, keep_alive=0.2), valid=valid)
        count = 0
        async with asyncio.timeout(_LIMIT):
            while not client.task.done():
                count += 1
                accepted = count < 100
                master.Happen("job", str(count))
                await client.Until(count)
        assert count >= 100

    asyncio.run(run())


def test_another_master_may_not_know_the_token_any_more() -> None:
    async def run() -> None:
        accepted = True

        async def valid() -> bool:
            return accepted

        master = Master()
        hub = events.Hub(master, keep_alive=3600.0)  # no other reason to look
        revoked, other = await _Join(hub, valid=valid), await _Join(hub)
        master.Happen("job")
        await revoked.Until(1)
        accepted = False
        master.Restart()
        async with asyncio.timeout(_LIMIT):
            await revoked.task
            assert (await other.Until(2))[1].name == "missed"
        assert [sent.name for sent in revoked.events] == ["job"]

    asyncio.run(run())


def test_strangers_at_one_address_take_only_some_of_the_places() -> None:
    async def story(_master: Master, hub: events.Hub) -> None:
        ports = itertools.count(40_000)

        async def join(address: str, name: str | None = None) -> Client:
            return await _Join(hub, caller=Caller(name, f"{address}:{next(ports)}"))

        clients = [await join("192.0.2.9") for _ in range(events.MAX_OF_STRANGER)]
        with pytest.raises(HttpError, match=r"from 192\.0\.2\.9 already: log in") as caught:
            await join("192.0.2.9")
        assert caught.value.code == 503
        await join("192.0.2.10")
        await join("192.0.2.9", "jack")
        clients[0].Leave()
        await clients[0].task
        await join("192.0.2.9")

    Play(story)


def test_who_has_a_name_gets_a_place_where_strangers_have_them_all() -> None:
    async def story(master: Master, hub: events.Hub) -> None:
        named = await _Join(hub)
        strangers = [
            await _Join(hub, caller=Caller(None, f"2001:db8::{number // events.MAX_OF_STRANGER}:{number}"))
            for number in range(events.MAX_LISTENERS - 1)
        ]
        with pytest.raises(HttpError, match="1000 clients"):
            await _Join(hub, caller=Caller(None, "2001:db8::ffff:1"))
        more = [await _Join(hub), await _Join(hub)]
        await asyncio.gather(strangers[-1].task, strangers[-2].task)
        wanted = master.Happen("job")
        for client in (named, *more, *strangers[:-2]):
            assert [sent.event_id for sent in await client.Until(1)] == [wanted]
        assert not any(sent.event_id == wanted for client in strangers[-2:] for sent in client.events)
        assert len(hub._listeners) == events.MAX_LISTENERS

    Play(story)


def test_where_only_callers_with_names_listen_nobody_gives_way() -> None:
    async def story(_master: Master, hub: events.Hub) -> None:
        for _ in range(events.MAX_OF_NAME):
            await hub.Join(JACK, events.Filter(), None)
        with pytest.raises(HttpError, match="750 clients follow the events as jack already") as caught:
            await hub.Join(JACK, events.Filter(), None)
        assert caught.value.code == 503
        jill = Caller("jill", JACK.address)
        for _ in range(events.MAX_LISTENERS - events.MAX_OF_NAME):
            await hub.Join(jill, events.Filter(), None)
        with pytest.raises(HttpError, match="1000 clients") as caught:
            await hub.Join(jill, events.Filter(), None)
        assert caught.value.code == 503

    Play(story)


def test_an_unknown_kind_is_rejected(tmp_path: Path) -> None:
    reply = Site(str(tmp_path / "users")).Ask("GET", "/2/events?kind=job,weather", headers=READER)
    assert reply.status == 400 and "weather" in reply.value["message"]
    reply = Site(str(tmp_path / "users")).Ask("GET", "/2/events", headers={"Accept": "application/json"})
    assert reply.status == 406
