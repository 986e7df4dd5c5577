"""The numbered events of a master."""

from __future__ import annotations

import gc
import random
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest
from support import configs

from ganeti import objects, serializer
from ganeti.jqueue import job as jobs
from ganeti.luxi.pending import Pending
from ganeti.server import eventring
from ganeti.server.eventring import EventRing
from ganeti.store import Position, Row, Store
from ganeti.store.base import Epoch

_AT = cast(Position, None)
_WAIT = 30.0


def _Read(pending: Pending) -> dict[str, Any]:
    """The answer as clients read it."""
    answer: dict[str, Any] = serializer.Load(pending.Result(_WAIT).text)
    return answer


class _World:
    """A ring, with what it follows in the test's hands."""

    def __init__(self) -> None:
        self.root = configs.Example()
        self.ring = EventRing(Epoch(3, "abc"), lambda: self.root)
        self.ring.Start(cast(Store, self))

    def Listen(self, listener: Callable[[Position, Sequence[Row]], None]) -> None:
        self._tell = listener

    def Change(self, *changed: objects.ConfigObject) -> None:
        """Acknowledge a transaction that stores these objects."""
        for obj in changed:
            self.root = self.root.WithObject(obj)
        rows = [Row(obj.KIND, obj.__dict__["uuid"], obj.Json()) for obj in changed]
        self._tell(_AT, [*rows, Row("config", "config", "{}")])

    def Remove(self, *gone: objects.ConfigObject) -> None:
        for obj in gone:
            self.root = self.root.WithoutObject(obj.KIND, obj.__dict__["uuid"])
        self._tell(_AT, [Row(obj.KIND, obj.__dict__["uuid"], None) for obj in gone])

    def Ask(self, last: str | None, kinds: list[str] | None = None, timeout: float = 0.0) -> dict[str, Any]:
        return _Read(self.ring.Wait(last, kinds, timeout))

    def Job(self, job_id: int, before: jobs.Job | None, after: jobs.Job | None) -> None:
        """Acknowledge a transaction with a new version of a job."""
        self.ring.JobChanged(job_id, before, after)
        self._tell(_AT, [Row("job", str(job_id), None)])

    @property
    def web(self) -> objects.Instance:
        return self.root.instances[configs.WEB]


@pytest.fixture
def world() -> Iterator[_World]:
    made = _World()
    yield made
    made.ring.Stop()


def _Job(number: int, *statuses: str) -> jobs.Job:
    data = {"OP_ID": "OP_TEST_DELAY", "duration": 1.0}
    ops = [jobs.OpState(jobs.OpInput(data), status=status) for status in statuses]
    return jobs.Job(number, ops, None)


def _Shown(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(event["kind"], event["change"], event.get("name", event.get("job"))) for event in answer["events"]]


def test_an_event_says_what_changed_and_has_the_next_number(world: _World) -> None:
    begin = world.Ask(None)
    assert begin == {"last": "3.abc-0", "missed": False, "events": []}
    world.Change(world.web.Replace(serial_no=9))
    node = world.root.nodes[configs.NODE1]
    world.Change(node, world.root.cluster)
    answer = world.Ask(begin["last"])
    assert answer["last"] == "3.abc-3" and [event["id"] for event in answer["events"]] == [
        "3.abc-1",
        "3.abc-2",
        "3.abc-3",
    ]
    assert {k: v for k, v in answer["events"][0].items() if k not in ("id", "time")} == {
        "kind": "instance",
        "change": "changed",
        "uuid": configs.WEB,
        "name": world.web.name,
        "serial_no": 9,
    }
    assert {event["name"] for event in answer["events"][1:]} == {node.name, world.root.cluster.cluster_name}
    assert world.Ask("3.abc-1")["events"] == answer["events"][1:]


def _SlowJob(number: int, begun: threading.Event, go: threading.Event, described: list[bool]) -> jobs.Job:
    """A job that is described when the test lets it."""

    class Slow(jobs.Job):
        @property
        def status(self) -> str:
            if not begun.is_set():
                begun.set()
                described.append(go.wait(_WAIT))
            return super().status

    return Slow(number, _Job(number, "queued").ops, None)


def test_a_change_during_the_numbering_does_not_wait_for_the_next_one(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventring, "IDLE", 3600.0)
    begun, go = threading.Event(), threading.Event()
    answers: list[dict[str, Any]] = []
    world.Job(7, None, _SlowJob(7, begun, go, []))
    asking = threading.Thread(target=lambda: answers.append(world.Ask("3.abc-0", ["instance"], 60.0)))
    asking.start()
    assert begun.wait(_WAIT)
    world.Change(world.web.Replace(serial_no=9))
    go.set()
    asking.join(_WAIT)
    assert [_Shown(answer) for answer in answers] == [[("instance", "changed", world.web.name)]]


def test_the_committer_does_not_wait_for_changes_to_become_events(world: _World) -> None:
    """While one thread describes what changed, others note more, and everything gets its number in order."""
    begun, go = threading.Event(), threading.Event()
    described: list[bool] = []
    world.Job(7, None, _SlowJob(7, begun, go, described))
    asking = threading.Thread(target=world.Ask, args=("3.abc-0",))
    asking.start()
    assert begun.wait(_WAIT)
    world.Job(8, None, _Job(8, "queued"))
    world.Job(9, None, _Job(9, "queued"))
    assert described == [], "both were noted meanwhile"
    go.set()
    asking.join(_WAIT)
    assert [(event["job"], event["id"]) for event in world.Ask("3.abc-0")["events"]] == [
        (7, "3.abc-1"),
        (8, "3.abc-2"),
        (9, "3.abc-3"),
    ]
    assert described == [True]


def test_whoever_asks_meanwhile_gets_no_number_before_what_happened_earlier(world: _World) -> None:
    begun, go = threading.Event(), threading.Event()
    world.Job(7, None, _SlowJob(7, begun, go, []))
    first, second = (threading.Thread(target=world.Ask, args=("3.abc-0",)) for _ in range(2))
    first.start()
    assert begun.wait(_WAIT)
    world.Job(8, None, _Job(8, "queued"))
    second.start()
    second.join(0.2)  # so long does it have to do it wrong
    go.set()
    for thread in (first, second):
        thread.join(_WAIT)
    assert [(event["job"], event["id"]) for event in world.Ask("3.abc-0")["events"]] == [(7, "3.abc-1"), (8, "3.abc-2")]


def test_a_disk_is_part_of_its_instance_and_one_transaction_says_everything_once(world: _World) -> None:
    disk = world.root.disks[configs.WEB_DISK]
    world.Change(world.web.Replace(serial_no=9), disk.Replace(size=2048))
    world.Change(disk.Replace(size=4096))
    assert _Shown(world.Ask("3.abc-0")) == [("instance", "changed", world.web.name)] * 2
    name = world.web.name
    world.Remove(world.web, disk)
    assert _Shown(world.Ask("3.abc-2")) == [("instance", "removed", name)]


def test_jobs_are_announced_when_their_states_change_and_only_then(world: _World) -> None:
    queued, running = _Job(7, "queued", "queued"), _Job(7, "running", "queued")
    world.Job(7, None, queued)
    world.Job(7, queued, running)
    world.Job(7, running, _Job(7, "running", "queued"))  # its log or priority changed
    world.Job(7, running, _Job(7, "success", "running"))
    world.Job(7, _Job(7, "success", "success"), None)
    found = world.Ask("3.abc-0", ["job"])["events"]
    assert [(e["change"], e["status"], e["opstatus"]) for e in found] == [
        ("added", "queued", ["queued", "queued"]),
        ("changed", "running", ["running", "queued"]),
        ("changed", "running", ["success", "running"]),
        ("removed", "success", ["success", "success"]),
    ]
    assert found[0]["summary"] == ["TEST_DELAY(1000000000 ns)"] * 2


def test_of_several_versions_in_one_transaction_only_the_last_was_ever_stored(world: _World) -> None:
    queued = _Job(7, "queued")
    world.ring.JobChanged(7, queued, _Job(7, "waiting"))
    world.Job(7, _Job(7, "waiting"), _Job(7, "canceled"))
    [event] = world.Ask("3.abc-0")["events"]
    assert (event["change"], event["status"]) == ("changed", "canceled")
    world.ring.JobChanged(8, None, queued)
    world.Job(8, queued, _Job(8, "waiting"))
    [event] = world.Ask(event["id"])["events"]
    assert (event["change"], event["status"]) == ("added", "waiting"), "nobody has heard of it yet"


def test_a_job_of_many_opcodes_makes_no_large_event(world: _World) -> None:
    world.Job(8, None, _Job(8, *["queued"] * 5000))
    [event] = world.Ask("3.abc-0")["events"]
    assert (len(event["opstatus"]), len(event["summary"]), event["opcodes"]) == (100, 100, 5000)


def test_who_waits_is_answered_by_the_next_event_of_a_kind_that_is_wanted(world: _World) -> None:
    pending = world.ring.Wait("3.abc-0", ["node"], 60.0)
    world.Change(world.web)
    assert world.Ask("3.abc-0", None, 60.0)["last"] == "3.abc-1"
    assert not pending.done
    world.Change(world.root.nodes[configs.NODE1])
    answer = _Read(pending)
    assert [event["kind"] for event in answer["events"]] == ["node"] and answer["last"] == "3.abc-2"


def test_at_the_time_out_the_answer_is_empty_and_names_the_newest_event(world: _World) -> None:
    pending = world.ring.Wait("3.abc-0", ["node"], 0.05)
    world.Change(world.web)
    assert _Read(pending) in (
        {"last": "3.abc-1", "missed": False, "events": []},
        {"last": "3.abc-0", "missed": False, "events": []},
    )


def test_a_wait_whose_time_is_over_ends_once_and_leaves_nothing_behind(world: _World) -> None:
    answers: list[Any] = []
    pending = world.ring.Wait("3.abc-0", ["node"], 0.01)
    pending.Then(answers.append)
    pending.Result(_WAIT)
    assert world.ring._waiters == []
    world.Change(world.root.nodes[configs.NODE1])
    assert len(world.Ask("3.abc-0")["events"]) == 1
    world.ring.Stop()
    assert len(answers) == 1


def test_a_waiter_that_left_is_forgotten(world: _World) -> None:
    pending = world.ring.Wait("3.abc-0", None, 60.0)
    pending.Abandon()
    world.Change(world.web)
    assert len(world.Ask("3.abc-0")["events"]) == 1
    assert not pending.done


@pytest.mark.parametrize(
    "strange", ["", "x", "2.abc-0", "3.abd-0", "3.abc-1", "3.abc--1", "3.abc-\u0661", "3.abc-" + "9" * 40]
)
def test_whoever_comes_with_another_id_is_told_that_events_are_missing(world: _World, strange: str) -> None:
    assert world.Ask(strange, None, 60.0) == {"last": "3.abc-0", "missed": True, "events": []}


def test_old_events_go_and_whoever_needs_them_hears_it(world: _World) -> None:
    count = eventring.MAX_EVENTS + 5
    for number in range(count):
        world.Job(number, None, _Job(number, "queued"))
        if number % 1000 == 0:
            world.Ask(None)  # makes events of them
    assert world.Ask("3.abc-4")["missed"]
    answer = world.Ask("3.abc-5")
    assert not answer["missed"] and [event["job"] for event in answer["events"]] == list(
        range(5, 5 + eventring.MAX_ANSWER)
    )
    seen = answer
    while seen["events"]:
        last, seen = seen["events"][-1]["job"], world.Ask(seen["last"])
    assert last == count - 1


def test_events_of_small_jobs_take_little_memory(world: _World) -> None:
    """As objects, ten thousand of them took eight megabytes of the master daemon."""
    versions = [_Job(number, "queued") for number in range(2000)]
    for job in versions:
        assert [op.input.summary for op in job.ops]  # which jobs keep, with or without events
    tracemalloc.start()
    try:
        for job in versions:
            world.Job(job.id, None, job)
        world.Ask(None)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(world.Ask("3.abc-1500")["events"]) == 500
    assert taken / len(versions) < 250


def test_large_events_do_not_fill_the_memory(world: _World) -> None:
    group = world.root.nodegroups[configs.GROUP]
    long = group.Replace(name="g" * (eventring.MAX_CHARACTERS // 3))
    for _ in range(4):
        world.Change(long)
    assert world.Ask("3.abc-1")["missed"]
    assert len(world.Ask("3.abc-2")["events"]) == 2


def test_more_changes_than_can_wait_are_missing_and_not_lost_unseen(world: _World) -> None:
    full = _Job(1, "queued")
    seen = world.Ask(None)["last"]
    with world.ring._lock:  # nobody takes the backlog meanwhile
        world.ring._backlog = [eventring._Change(0.0, 1, None, full)] * eventring.MAX_BACKLOG
    world.Job(2, None, _Job(2, "queued"))
    answer = world.Ask(seen)
    assert answer["missed"]
    world.Job(3, None, _Job(3, "queued"))
    assert _Shown(world.Ask(answer["last"])) == [("job", "added", 3)]


def test_whoever_waits_hears_at_once_that_there_were_more_changes_than_can_wait(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else happens that would wake it."""
    monkeypatch.setattr(eventring, "MAX_BACKLOG", 10)
    monkeypatch.setattr(eventring, "MAX_TIMEOUT", 3600.0)
    pending = world.ring.Wait("3.abc-0", None, 3600.0)
    for number in range(11):
        world.ring.JobChanged(number, None, _Job(number, "queued"))
    world.Change()
    assert _Read(pending) == {"last": "3.abc-1", "missed": True, "events": []}


class _Reader:
    """Somebody who asks now and then for what is new, and knows what has happened up to where it is."""

    def __init__(self, kinds: list[str] | None):
        self.kinds = kinds
        self.last = "3.abc-0"
        self.known = 0

    def Ask(self, world: _World, happened: list[tuple[str, int]], lost: set[int]) -> str:
        """Return how it went on: with everything that it wants, or with the word that events are missing."""
        answer = world.Ask(self.last, self.kinds)
        new = range(self.known, len(happened))
        if answer["missed"]:
            assert lost.intersection(new) or len(new) > eventring.MAX_EVENTS
            self.last, self.known = answer["last"], len(happened)
            return "missed"
        wanted = [place for place in new if self.kinds is None or happened[place][0] in self.kinds]
        told = [(event["kind"], event.get("job", event.get("serial_no"))) for event in answer["events"]]
        assert told == [happened[place] for place in wanted][: eventring.MAX_ANSWER]
        assert not lost.intersection(new), "it hears nothing of what is lost"
        complete = len(told) == len(wanted)
        self.last, self.known = answer["last"], len(happened) if complete else wanted[len(told) - 1] + 1
        return "complete" if complete else "a part"


@pytest.mark.parametrize("seed", range(12))
def test_everybody_hears_everything_in_order_or_that_something_is_missing(
    world: _World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for name, value in (("MAX_EVENTS", 20), ("MAX_BACKLOG", 8), ("MAX_ANSWER", 6), ("IDLE", 3600.0)):
        monkeypatch.setattr(eventring, name, value)
    rng = random.Random(seed)
    readers = [_Reader(kinds) for kinds in (None, None, None, ["job"], ["instance"])]
    happened: list[tuple[str, int]] = []
    lost: set[int] = set()
    waiting = 0  # changes that nobody has asked about yet
    outcomes: Counter[str] = Counter()
    for _ in range(400):
        if rng.random() < 0.3:
            outcomes[rng.choice(readers).Ask(world, happened, lost)] += 1
            waiting = 0
            continue
        count = rng.choice((1, 1, 1, 2, 4))
        first = len(happened)
        if count == 1 and rng.random() < 0.5:
            happened.append(("instance", first))
            world.Change(world.web.Replace(serial_no=first))
        else:
            for number in range(first, first + count):
                happened.append(("job", number))
                world.ring.JobChanged(number, None, _Job(number, "queued"))
            world.Change()
        if waiting + count > eventring.MAX_BACKLOG:
            lost.update(range(first, first + count))
        else:
            waiting += count
    assert min(outcomes[name] for name in ("missed", "complete", "a part")) > 2, outcomes


def test_a_stop_answers_everybody(world: _World) -> None:
    pending = world.ring.Wait("3.abc-0", None, 60.0)
    world.ring.Stop()
    assert _Read(pending)["events"] == []


@pytest.mark.parametrize("ends", ["time-out", "stop"])
def test_a_wait_that_ends_loses_nothing_that_others_have_numbered_meanwhile(world: _World, ends: str) -> None:
    world.ring._ticker.Stop()  # its calls are made by this story
    begin = world.Ask(None)["last"]
    tired = world.ring.Wait(begin, ["instance"], 60.0)
    [waiter] = world.ring._waiters

    def another_client_asks() -> None:
        world.Change(world.web.Replace(serial_no=9))
        assert len(world.Ask(begin)["events"]) == 2

    # It is answered in the delivery with which the other's wait ends.
    world.ring.Wait(begin, ["node"], 60.0).Then(lambda _pending: another_client_asks())
    world.Change(world.root.nodes[configs.NODE1])
    if ends == "stop":
        world.ring.Stop()
    else:
        assert waiter.timer is not None and waiter.timer.call is not None
        waiter.timer.call()
    answer = _Read(tired)
    assert (_Shown(answer), answer["last"]) == ([("instance", "changed", world.web.name)], "3.abc-2")


def test_a_page_of_old_events_costs_the_master_little(world: _World) -> None:
    """A stranger resumes after the first event again and again: what was written once is neither read nor written again."""
    for number in range(1, 1201):
        world.Job(number, None, _Job(number, "queued"))
    first = world.Ask("3.abc-0")
    assert len(first["events"]) == eventring.MAX_ANSWER and first["last"] == f"3.abc-{eventring.MAX_ANSWER}"
    assert [event["id"] for event in first["events"][:2]] == ["3.abc-1", "3.abc-2"]
    calls: list[str] = []

    def note(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == serializer.__file__:
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        world.ring.Wait("3.abc-0", None, 0.0)
    finally:
        sys.setprofile(None)
    assert 0 < len(calls) < 10
