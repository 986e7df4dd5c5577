"""What the client library has beyond 3.1: conditional requests, metrics, the stream of events."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import allocator
from support.recorder import Recorder, Reply

from ganeti.rapi import client as rapi
from ganeti.rapi.client import Event, GanetiApiError, GanetiRapiClient, GenericCurlConfig

STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture
def recorder(tmp_path: Any) -> Iterator[Recorder]:
    lease = allocator.Lease()
    with Recorder(lease.Address(), lease.Port(), str(tmp_path)) as server:
        yield server
    lease.Release()


@pytest.fixture
def client(recorder: Recorder) -> GanetiRapiClient:
    return GanetiRapiClient(recorder.address, recorder.port, curl_config_fn=GenericCurlConfig(timeout=30))


def _Text(*events: tuple[str, str, Any]) -> bytes:
    return b"".join(f"id: {i}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode() for i, kind, data in events)


def _Follow(client: GanetiRapiClient, *args: Any, **options: Any) -> Iterator[Event]:
    """The events after the one that says that the stream is open."""
    events = client.Events(*args, **options)
    opened = next(events)
    assert (opened.kind, opened.data) == ("open", None)
    return events


def _Stream(text: bytes, cut: bool = False) -> Reply:
    return Reply(data=b"retry: 100\n\n" + text, headers=STREAM, cut=cut)


# --- versions --------------------------------------------------------------------------------------------------------


def test_a_change_can_depend_on_the_version_that_was_read(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/instances/i"] = Reply({"name": "i"}, headers={"ETag": '"u-4"'})
    client.GetInstance("i")
    assert client.etag == '"u-4"'
    careful = client.Conditional(if_match=client.etag, if_none_match='"x"')
    careful.ModifyInstance("i", beparams={"vcpus": 2})
    careful.GetInstance("i")
    client.ModifyInstance("i")
    read, change, again, plain = recorder.Take()
    names = ("if-match", "if-none-match")
    assert [[r.headers.get(name) for name in names] for r in (read, change, again, plain)] == [
        [None, None],
        ['"u-4"', None],
        [None, '"x"'],
        [None, None],
    ]
    assert client.etag is None


@pytest.mark.parametrize(("status", "data"), [(412, None), (304, b"")])
def test_a_condition_that_does_not_hold_is_an_error(
    recorder: Recorder, client: GanetiRapiClient, status: int, data: bytes | None
) -> None:
    recorder.replies["/2/groups/g"] = Reply({"code": status, "message": "m", "explain": "e"}, status, data)
    with pytest.raises(GanetiApiError) as caught:
        client.Conditional(if_none_match='"1"').GetGroup("g")
    assert caught.value.code == status


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_are_text(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/metrics"] = Reply(data=b"# TYPE a gauge\na 1\n# EOF\n", headers={"Content-Type": "text/plain"})
    assert client.GetMetrics() == "# TYPE a gauge\na 1\n# EOF\n"
    request = recorder.Take()[0]
    assert (request.method, request.headers["accept"]) == ("GET", "application/openmetrics-text")
    recorder.replies["/metrics"] = Reply({"code": 404, "message": "m", "explain": "e"}, 404)
    with pytest.raises(GanetiApiError, match="404 m: e"):
        client.GetMetrics()


# --- events ----------------------------------------------------------------------------------------------------------


def test_events_go_on_after_a_lost_connection(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/events"] = [
        _Stream(_Text(("e-1", "job", {"id": 1}), ("e-2", "job", {"id": 2})) + b"id: e-3\ndata: 3\n", cut=True),
        Reply({"code": 502, "message": "m", "explain": "e"}, 502),
        _Stream(_Text(("e-3", "job", {"id": 3}))),
    ]
    events = list(itertools.islice(_Follow(client, kind="job"), 3))
    assert events == [Event(f"e-{n}", "job", {"id": n}) for n in (1, 2, 3)]
    requests = recorder.Take()
    assert [r.headers.get("last-event-id") for r in requests] == [None, "e-2", "e-2"]
    assert {r.headers["accept"] for r in requests} == {"text/event-stream"}
    assert {tuple(r.query) for r in requests} == {(("kind", "job"),)}


def test_a_server_that_ends_each_stream_at_once_is_asked_less_and_less_often(recorder: Recorder) -> None:
    pauses = []

    class Log:
        def debug(self, *_args: Any) -> None:
            pass

        def info(self, _text: str, _failure: Any, pause: float) -> None:
            pauses.append(pause)

    client = GanetiRapiClient(recorder.address, recorder.port, logger=Log())
    ended = _Stream(b"event: dropped\ndata: {}\n\n")
    recorder.replies["/2/events"] = [
        _Stream(_Text(("e-1", "job", 1))),
        ended,
        ended,
        ended,
        _Stream(_Text(("e-2", "job", 2))),
        _Stream(_Text(("e-3", "job", 3))),
    ]
    events = (event for event in _Follow(client) if event.kind == "job")
    assert [event.id for event in itertools.islice(events, 3)] == ["e-1", "e-2", "e-3"]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 0.1]


def test_events_resume_where_the_caller_says(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/events"] = [_Stream(_Text(("e-8", "node", None)))]
    assert next(_Follow(client, "e-7")).id == "e-8"
    assert recorder.Take()[0].headers["last-event-id"] == "e-7"


def test_a_silent_stream_is_replaced(recorder: Recorder, client: GanetiRapiClient) -> None:
    """The first stream stays open without a word: its length is announced and not sent."""
    recorder.replies["/2/events"] = [
        Reply(
            data=b"retry: 100\n\n" + _Text(("e-1", "job", 1)), headers={**STREAM, "Content-Length": "9999"}, hold=True
        ),
        _Stream(_Text(("e-2", "job", 2))),
    ]
    assert [event.id for event in itertools.islice(_Follow(client, silence=1), 2)] == ["e-1", "e-2"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 502])
def test_a_first_connection_that_fails_is_an_error(recorder: Recorder, client: GanetiRapiClient, status: int) -> None:
    recorder.replies["/2/events"] = Reply({"code": status, "message": "m", "explain": "e"}, status)
    with pytest.raises(GanetiApiError, match=f"{status} m: e") as caught:
        next(client.Events())
    assert caught.value.code == status
    assert len(recorder.Take()) == 1


def test_a_later_rejection_is_an_error(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/events"] = [
        _Stream(_Text(("e-1", "job", 1))),
        Reply({"code": 401, "message": "m", "explain": "e"}, 401),
    ]
    events = _Follow(client)
    next(events)
    with pytest.raises(GanetiApiError, match="401"):
        next(events)


def test_patience_ends(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/events"] = [
        _Stream(_Text(("e-1", "job", 1))),
        *(Reply({"code": 503, "message": "m", "explain": "e"}, 503) for _ in range(100)),
    ]
    events = _Follow(client, patience=0.5)
    next(events)
    with pytest.raises(GanetiApiError, match="503"):
        next(events)


def test_what_the_caller_does_with_an_event_is_no_silence(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/events"] = [_Stream(_Text(("e-1", "job", 1))), _Stream(_Text(("e-2", "job", 2)))]
    events = _Follow(client, patience=2.0)
    next(events)
    time.sleep(2.1)
    assert next(events).id == "e-2"


def test_the_stream_says_that_it_is_open_and_where_it_begins(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/events"] = [
        Reply(data=b"retry: 100\nid: e-4\n\n", headers=STREAM, cut=True),
        _Stream(_Text(("e-5", "job", 1))),
    ]
    events = client.Events()
    assert next(events) == Event("e-4", "open", None)
    assert next(events) == Event("e-5", "job", 1)
    assert recorder.Take()[1].headers["last-event-id"] == "e-4"


def test_another_kind_of_answer_is_an_error(recorder: Recorder, client: GanetiRapiClient) -> None:
    recorder.replies["/2/events"] = Reply([])
    with pytest.raises(rapi.Error, match="instead of a stream of events"):
        next(client.Events())


def test_nobody_listens(addresses: allocator.Lease) -> None:
    with pytest.raises(GanetiApiError) as caught:
        next(GanetiRapiClient(addresses.Address(), addresses.Port()).Events())
    assert caught.value.code == 7


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=12).filter(
    lambda text: not text.startswith(" ")
)
EVENTS = st.lists(st.tuples(WORDS, WORDS, st.dictionaries(WORDS, st.integers() | WORDS, max_size=3)), max_size=5)


@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(1, 7), min_size=1), st.booleans())
def test_events_survive_every_cut_of_their_bytes(
    events: list[tuple[str, str, Any]], end: str, sizes: list[int], comments: bool
) -> None:
    text = _Text(*events).decode()
    if comments:
        text = ": still here\n\n" + text.replace("data:", ":x\nunknown: y\ndata:")
    data = text.replace("\n", end).encode()
    parser = rapi._EventParser(None)
    found: list[Event] = []
    cuts = itertools.cycle(sizes)
    position = 0
    while position < len(data):
        size = next(cuts)
        found += parser.Feed(data[position : position + size])
        position += size
    found += parser.Feed(b":\n")  # tells that a CR at the end was one end of line
    assert found == [Event(*event) for event in events]


def test_lines_of_data_are_joined_and_limits_hold() -> None:
    parser = rapi._EventParser("e-0")
    assert list(parser.Feed(b'data: {"a":\ndata: 1}\n\nretry: 5\nretry: x\nid: no\0\n\n')) == [
        Event("e-0", "message", {"a": 1})
    ]
    assert (parser.retry, parser.last_id) == (0.1, "e-0")
    assert list(parser.Feed(b"retry: 99999999\n")) == []
    assert parser.retry == 30
    with pytest.raises(GanetiApiError, match="more than"):
        for _ in range(20):
            list(parser.Feed(b"x" * 1024 * 1024))


def test_an_event_whose_end_did_not_come_is_forgotten() -> None:
    parser = rapi._EventParser(None)
    assert list(parser.Feed(b"id: 1\ndata: 1\n\nid: 2\ndata: 2\nda")) == [Event("1", "message", 1)]
    parser.Reset()
    assert parser.last_id == "1"
    assert list(parser.Feed(b"\n\ndata: 3\n\n")) == [Event("1", "message", 3)]
