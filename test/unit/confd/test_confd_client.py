"""The client's algorithm with a faked network: the test is the peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated.world import World

from ganeti import confd, errors, runtime
from ganeti.confd import client, queries, wire

KEY = b"key\n"
PEERS = [f"192.0.2.{n}" for n in range(1, 9)]


class Peers:
    """A client whose datagrams end here, and what it reported."""

    def __init__(self, peers: Sequence[str] = PEERS):
        self.sent: list[tuple[bytes, str]] = []
        self.events: list[confd.Event] = []
        self.client = confd.Client(KEY, peers, self.events.append, lambda data, peer: self.sent.append((data, peer)))

    def Answer(self, peer: str, rsalt: str, answer: Any = 0, serial: int = 1, key: bytes = KEY) -> None:
        self.client.Receive(wire.PackReply(key, wire.Reply(queries.OK, answer, serial), rsalt), peer)


@pytest.fixture
def machine():
    with World(1) as world:
        yield world.AddMachine("host")


def _On(machine: Any, story: Any) -> None:
    """Run a story on a simulated machine, whose clock it moves."""
    machine.Call(story)


@pytest.mark.req("D21-CONFD-06")
def test_a_question_goes_to_some_candidates(machine: Any) -> None:
    def story() -> None:
        for coverage, count in ((confd.AUTOMATIC, 6), (confd.EVERY_PEER, 8), (3, 3), (8, 8)):
            peers = Peers()
            peers.client.Send(queries.PING, coverage=coverage)
            assert len({peer for _, peer in peers.sent} & set(PEERS)) == len(peers.sent) == count
            assert len({data for data, _ in peers.sent}) == 1
        for coverage in (9, -2):
            with pytest.raises(errors.ConfdClientError, match="there are 8"):
                Peers().client.Send(queries.PING, coverage=coverage)
        peers = Peers(PEERS[:2])
        peers.client.Send(queries.PING)
        assert len(peers.sent) == 2

    _On(machine, story)


def test_not_always_the_same_candidates_are_asked(machine: Any) -> None:
    def story() -> None:
        peers = Peers()
        for _ in range(50):
            peers.client.Send(queries.PING, coverage=1)
        assert len({peer for _, peer in peers.sent}) > 1

    _On(machine, story)


def test_wrong_use() -> None:
    for peers in ([], ["192.0.2.1", "2001:db8::1"], ["node1"], ["192.0.2.1 "]):
        with pytest.raises(errors.ConfdClientError):
            Peers(peers)
    peers = Peers()
    with pytest.raises(errors.ConfdClientError, match="Unknown query type 99"):
        peers.client.Send(99)
    with pytest.raises(errors.UdpDataSizeError):
        peers.client.Send(queries.CONFIG, "/" * 70000)
    peers.client.Send(queries.PING, rsalt="mine")
    with pytest.raises(errors.ConfdClientError, match="'mine' is pending already"):
        peers.client.Send(queries.PING, rsalt="mine")
    with pytest.raises(errors.ConfdClientError, match="No request with the salt 'other'"):
        peers.client.Progress("other")
    assert len(peers.sent) == 6


def test_an_address_that_is_listed_twice_is_asked_once() -> None:
    peers = Peers(["192.0.2.1", "192.0.2.1"])
    peers.client.Send(queries.PING, coverage=confd.EVERY_PEER)
    assert len(peers.sent) == 1


@pytest.mark.req("D21-CONFD-09")
def test_only_answers_to_our_own_questions_count(machine: Any) -> None:
    def story() -> None:
        peers = Peers()
        rsalt = peers.client.Send(queries.PING)
        assert rsalt != peers.client.Send(queries.PING)
        for wrong in ("other", rsalt.upper(), ""):
            with pytest.raises(wire.BadDatagram):
                peers.Answer(PEERS[0], wrong)
        with pytest.raises(wire.BadDatagram):
            peers.Answer(PEERS[0], rsalt, key=b"other")
        # Our own question, sent back to us.
        with pytest.raises(wire.BadDatagram):
            peers.client.Receive(peers.sent[0][0], PEERS[0])
        assert peers.events == []
        peers.Answer(PEERS[0], rsalt, 5)
        (event,) = peers.events
        assert event.reply is not None
        assert (event.rsalt, event.reply.answer, event.address) == (rsalt, 5, PEERS[0])
        # After the expiry it is somebody else's.
        runtime.Sleep(client.EXPIRY)
        peers.client.Expire()
        with pytest.raises(wire.BadDatagram):
            peers.Answer(PEERS[1], rsalt)

    _On(machine, story)


@pytest.mark.req("D21-CONFD-09")
def test_only_those_who_were_asked_count(machine: Any) -> None:
    def story() -> None:
        peers = Peers([*PEERS[:3]])
        rsalt = peers.client.Send(queries.PING, coverage=2)
        asked = [peer for _, peer in peers.sent]
        [spared] = set(PEERS[:3]) - set(asked)
        for stranger in (spared, "192.0.2.99", "2001:db8::1"):
            with pytest.raises(wire.BadDatagram, match="was not asked"):
                peers.Answer(stranger, rsalt)
        assert peers.events == [] and peers.client.Progress(rsalt) == confd.Waiting(False, 2, 0)
        for peer in asked:
            peers.Answer(peer, rsalt)
        assert peers.client.Progress(rsalt) == confd.Waiting(True, 2, 2)

    _On(machine, story)


def test_one_peer_may_reply_from_another_of_its_addresses(machine: Any) -> None:
    """It was asked at the cluster's address: the kernel chooses the address that the reply comes from."""

    def story() -> None:
        peers = Peers(["192.0.2.100"])
        rsalt = peers.client.Send(queries.PING)
        peers.Answer("192.0.2.1", rsalt)
        assert [event.address for event in peers.events] == ["192.0.2.100"]
        assert peers.client.Progress(rsalt) == confd.Waiting(True, 1, 1)

    _On(machine, story)


def test_an_address_may_be_written_in_several_ways(machine: Any) -> None:
    def story() -> None:
        peers = Peers(["2001:DB8:0::1", "2001:db8::1", "2001:db8::2"])
        rsalt = peers.client.Send(queries.PING)
        assert sorted(peer for _, peer in peers.sent) == ["2001:db8::1", "2001:db8::2"]
        peers.Answer("2001:db8:0:0::1", rsalt)
        assert peers.client.Progress(rsalt).received == 1

    _On(machine, story)


def test_a_request_expires_once(machine: Any) -> None:
    def story() -> None:
        peers = Peers()
        rsalt = peers.client.Send(queries.PING)
        runtime.Sleep(9.9)
        peers.client.Expire()
        assert peers.events == []
        runtime.Sleep(0.2)
        peers.client.Expire()
        peers.client.Expire()
        assert [(event.kind, event.rsalt) for event in peers.events] == [(client.EXPIRED, rsalt)]
        rsalt = peers.client.Send(queries.PING)
        peers.client.Extend(rsalt, 5)
        runtime.Sleep(14)
        peers.client.Expire()
        assert len(peers.events) == 1

    _On(machine, story)


@pytest.mark.parametrize(("sent", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4), (8, 5)])
def test_how_many_answers_are_enough(sent: int, needed: int) -> None:
    peers = Peers()
    rsalt = peers.client.Send(queries.PING, coverage=sent)
    for number in range(needed):
        assert not peers.client.Progress(rsalt).answered
        # One peer that answers twice is one peer.
        peers.Answer(peers.sent[number][1], rsalt)
        peers.Answer(peers.sent[number][1], rsalt)
    assert peers.client.Progress(rsalt) == confd.Waiting(True, sent, needed)


# --- callbacks --------------------------------------------------------------------------------------------------------


def _Event(answer: Any, serial: int, rsalt: str = "r", status: int = queries.OK) -> confd.Event:
    request = wire.Request(queries.PING, None, rsalt)
    return confd.Event(client.REPLY, rsalt, request, wire.Reply(status, answer, serial), "192.0.2.1")


_EXPIRY = confd.Event(client.EXPIRED, "r", wire.Request(queries.PING, None, "r"))


@pytest.mark.req("D21-CONFD-23")
@pytest.mark.parametrize("status", [queries.NOT_IMPLEMENTED, 3, 7, 4711])
def test_a_status_of_a_later_release_reaches_the_program_that_asked(machine: Any, status: int) -> None:
    """It is neither dropped nor taken for an answer, and agrees with no other status."""

    def story() -> None:
        peers = Peers()
        rsalt = peers.client.Send(queries.PING, coverage=2)
        asked = [peer for _, peer in peers.sent]
        later = wire.Reply(status, "packed", 5)
        for number, reply in enumerate((later, wire.Reply(queries.OK, "packed", 5))):
            peers.client.Receive(wire.PackReply(KEY, reply, rsalt), asked[number])
        assert [event.reply for event in peers.events] == [later, wire.Reply(queries.OK, "packed", 5)]
        assert peers.client.Progress(rsalt).answered
        news = confd.FilterCallback(lambda event: None)
        for event in peers.events:
            news(event)
        assert news.IsInconsistent(rsalt)

    _On(machine, story)


@pytest.mark.req("D21-CONFD-06")
def test_only_news_pass_the_filter() -> None:
    passed: list[confd.Event] = []
    news = confd.FilterCallback(passed.append)
    for answer, serial, passes in (
        ("a", 5, True),
        ("a", 5, False),
        ("a", 6, False),  # newer, and the same
        ("b", 5, False),  # stale
        ("b", 7, True),
        ("a", 6, False),
    ):
        before = len(passed)
        news(_Event(answer, serial))
        assert len(passed) - before == passes, (answer, serial)
    assert not news.IsInconsistent("r")
    news(_EXPIRY)
    assert passed[-1] is _EXPIRY
    # Forgotten: the next one is the first again.
    news(_Event("a", 1))
    assert len(passed) == 4


def test_different_answers_of_one_serial_are_inconsistent() -> None:
    news = confd.FilterCallback(lambda event: None)
    news(_Event("a", 5))
    news(_Event("b", 4))
    assert not news.IsInconsistent("r")
    news(_Event("b", 5))
    assert news.IsInconsistent("r") and not news.IsInconsistent("other")
    # A newer answer ends the doubt.
    news(_Event("b", 6))
    assert not news.IsInconsistent("r")
    news(_Event("b", 6, status=queries.ERROR))
    assert news.IsInconsistent("r")


@pytest.mark.req("D21-CONFD-06")
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=12))
def test_whatever_the_order_the_newest_reply_wins(replies: list[tuple[int, str]]) -> None:
    store = confd.StoreCallback()
    news = confd.FilterCallback(store)
    for serial, answer in replies:
        news(_Event(answer, serial))
    newest = [answer for serial, answer in replies if serial == max(replies)[0]]
    found = store.Newest("r")
    assert found is not None and found.reply is not None and found.reply.answer == newest[0]
    assert news.IsInconsistent("r") == (len(set(newest)) > 1)
    # Nothing is left of a request that has expired.
    news(_EXPIRY)
    news(_Event("z", 0))
    assert not news.IsInconsistent("r")


def test_counting() -> None:
    passed: list[confd.Event] = []
    count = confd.CountingCallback(passed.append)
    count.Register("r")
    count.Register("s")
    count(_Event("a", 1))
    count(_Event("a", 1))
    count(_Event("a", 1, "not registered"))
    assert (count.Count("r"), count.Count("s"), count.Count("not registered")) == (2, 0, 0)
    assert not count.AllAnswered()
    count(_EXPIRY)
    count(_Event("a", 1, "s"))
    assert count.AllAnswered() and len(passed) == 5


@pytest.mark.req("D21-CONFD-06")
def test_the_store_keeps_the_newest() -> None:
    store = confd.StoreCallback()
    assert store.Newest("r") is None
    for answer, serial in (("b", 5), ("c", 6), ("a", 4)):
        store(_Event(answer, serial))
    newest = store.Newest("r")
    assert newest is not None and newest.reply is not None and newest.reply.answer == "c"
    store(_Event("d", 6))
    newest = store.Newest("r")
    assert newest is not None and newest.reply is not None and newest.reply.answer == "d", "of equals the last"
    store(_EXPIRY)
    assert store.Newest("r") is None
