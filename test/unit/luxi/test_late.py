"""A client says once that an answer is late, and goes on waiting for it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.realcluster import WaitUntil

from ganeti import pathutils
from ganeti.luxi import client as luxi_client
from ganeti.luxi import protocol, server
from ganeti.luxi.pending import Pending

SOON = 0.1


class Slow:
    """A master that answers WaitForJobChange when it is told to, and everything else at once."""

    def __init__(self, path: str):
        self.path = path
        self.asked: list[Pending] = []
        self._server = server.Server([path], self._Handle)
        self._server.Start()

    def _Handle(self, method: str, args: list[object]) -> object:
        if method != "WaitForJobChange":
            return {"name": "cluster"}
        pending = Pending()
        self.asked.append(pending)
        return pending

    def Answer(self) -> None:
        WaitUntil(lambda: self.asked, "a call")
        self.asked.pop().Complete([["queued"], []])

    def Close(self) -> None:
        self._server.Shutdown(linger=0.1)


@pytest.fixture
def slow(tmp_path) -> Iterator[Slow]:
    made = Slow(str(tmp_path / "s"))
    yield made
    made.Close()


def _Message(method: str, *args: object) -> bytes:
    return protocol.EncodeRequest(method, list(args))


WAIT = _Message("WaitForJobChange", 1, ["status"], None, None, 0)


def test_it_is_said_once_and_the_answer_is_taken(slow):
    said: list[float] = []

    def late(seconds: float) -> None:
        said.append(seconds)
        slow.Answer()

    transport = luxi_client.Transport(slow.path, io_timeout=20, late=late)
    try:
        assert protocol.DecodeResponse(transport.Call(WAIT, SOON)) == [["queued"], []]
        assert said == [SOON]
        # The next answer is judged anew; one that comes at once is not late.
        assert protocol.DecodeResponse(transport.Call(_Message("QueryClusterInfo"), 60)) == {"name": "cluster"}
        assert protocol.DecodeResponse(transport.Call(WAIT, SOON)) == [["queued"], []]
        assert said == [SOON, SOON]
    finally:
        transport.Close()


@pytest.mark.parametrize(("late_after", "lines"), [(SOON, [SOON]), (60, [])])
def test_the_time_out_stays_what_it_was(slow, late_after, lines):
    said: list[float] = []
    transport = luxi_client.Transport(slow.path, io_timeout=1.0, late=said.append)
    try:
        start = time.monotonic()
        with pytest.raises(protocol.TimeoutError, match=r"No answer from the master daemon within 1\.0 seconds"):
            transport.Call(WAIT, late_after)
        assert time.monotonic() - start >= 0.99
    finally:
        transport.Close()
    assert said == lines


class Recorder(luxi_client.Client):
    """Keeps after how long its calls would be late."""

    late_after = 0.0

    def _CallOnce(self, message: bytes, late_after: float) -> object:
        self.late_after = late_after
        return 0


@pytest.mark.parametrize(
    ("method", "args", "waits"),
    [
        ("QueryClusterInfo", [], 0),
        ("Query", ["node", ["name"], None, 7, 60], 0),
        ("WaitForJobChange", [1, ["status"], None, None, 60], 60),
        ("WaitForJobChange", [1], 0),
        ("WaitForJobChange", [1, ["status"], None, None, "long"], 0),
        ("WaitForEvents", [None, None, 20], 20),
        ("AutoArchiveJobs", [3600, 89], 89),
    ],
)
def test_what_a_call_waits_for_on_purpose_does_not_count(method, args, waits):
    client = Recorder("/nowhere")
    client.Call(method, args)
    assert client.late_after == waits + luxi_client.LATE


def test_people_are_told_where_to_look():
    text = luxi_client.LateText(70.0)
    assert "has not answered for 70 seconds" in text
    assert pathutils.DaemonLog("ganeti-masterd") in text
