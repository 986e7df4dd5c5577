"""A client with a socket, in a simulated network: virtual time, real code on both ends."""

from __future__ import annotations

from typing import Any

import pytest
from simulated.world import World

from ganeti import confd, errors, pathutils, runtime
from ganeti.confd import queries, wire

KEY = b"0123456789abcdef0123456789abcdef01234567\n"
ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def _Serve(answer: Any, serial: int, delay: float = 0.0, junk: bool = False) -> None:
    """Be a master candidate that gives one answer."""
    gate = wire.Gate()
    sock = runtime.OpenUdp("", 1814)
    while True:
        data, sender = sock.recvfrom(65536)
        request = gate.Open(KEY, data, runtime.Time())
        runtime.Sleep(delay)
        if junk:
            sock.sendto(b"plj0{}", sender)
            sock.sendto(data, sender)
            sock.sendto(wire.PackReply(b"other", wire.Reply(0, "forged", 99), request.rsalt), sender)
            sock.sendto(wire.PackReply(KEY, wire.Reply(0, "old", 99), "salt of another question"), sender)
        sock.sendto(wire.PackReply(KEY, wire.Reply(queries.OK, answer, serial), request.rsalt), sender)


def _Run(servers: list[tuple[Any, ...]], ask: Any) -> Any:
    """Start one candidate for each entry, the rest are silent; call ``ask`` on another machine."""
    with World(3) as world:
        for number, address in enumerate(ADDRESSES):
            machine = world.AddMachine(f"node{number}", address)
            if number < len(servers):
                machine.StartProcess(lambda settings=servers[number]: _Serve(*settings), "confd")
        return world.AddMachine("asker").Call(ask)


def _Timed(**settings: Any) -> tuple[confd.Result, float]:
    begin = runtime.Monotonic()
    result = confd.Ask(queries.PING, peers=ADDRESSES, key=KEY, **settings)
    return result, runtime.Monotonic() - begin


@pytest.mark.req("D21-CONFD-06")
def test_the_stale_candidate_loses() -> None:
    result, seconds = _Run([("old", 4), ("new", 5, 1.0), ("old", 4, 8.0)], _Timed)
    assert result == confd.Result(wire.Reply(queries.OK, "new", 5), False, False, 3, 2)
    assert 1 <= seconds < 2


@pytest.mark.req("D21-CONFD-03")
def test_without_enough_answers_it_ends_in_time() -> None:
    result, seconds = _Run([("a", 4)], lambda: _Timed(timeout=5))
    assert (result.reply, result.timed_out, result.sent, result.received) == (wire.Reply(0, "a", 4), True, 3, 1)
    assert 5 <= seconds < 5.5
    result, seconds = _Run([], _Timed)
    assert result == confd.Result(None, True, False, 3, 0)
    assert 10 <= seconds < 10.5


def test_one_candidate_alone() -> None:
    result = _Run([("a", 4)], lambda: confd.Ask(queries.PING, peers=ADDRESSES[:1], key=KEY))
    assert result == confd.Result(wire.Reply(queries.OK, "a", 4), False, False, 1, 1)


def test_answers_that_contradict_each_other() -> None:
    result, _ = _Run([("a", 4), ("b", 4), ("a", 4, 9.0)], _Timed)
    assert result.inconsistent and result.received == 2


@pytest.mark.req("D21-CONFD-09")
def test_junk_does_not_disturb() -> None:
    result, _ = _Run([("a", 4, 0.0, True), ("a", 4, 0.0, True), ("a", 4)], _Timed)
    assert result == confd.Result(wire.Reply(0, "a", 4), False, False, 3, 2)


def test_several_questions_at_once() -> None:
    def ask() -> list[Any]:
        store = confd.StoreCallback()
        with confd.Link(KEY, ADDRESSES, store) as link:
            salts = [link.Send(queries.PING, coverage=confd.EVERY_PEER) for _ in range(3)]
            assert all(link.WaitForReply(salt).answered for salt in salts)
        return [store.Newest(salt) for salt in salts]

    found = _Run([("a", 4), ("a", 4), ("a", 4)], ask)
    assert [event.reply.answer for event in found] == ["a", "a", "a"]


@pytest.mark.parametrize("address", [ADDRESSES[0], "192.0.2.9"])
def test_a_question_leaves_no_socket_behind_whether_it_is_answered_or_not(address: str) -> None:
    """A daemon asks for as long as it lives."""
    with World(3) as world:
        world.AddMachine("node0", ADDRESSES[0]).StartProcess(lambda: _Serve("a", 4), "confd")
        asker = world.AddMachine("asker")

        def ask() -> int:
            confd.Ask(queries.PING, peers=[address], key=KEY, timeout=2)
            return len(asker.datagrams)

        assert asker.Call(ask) == 0


def test_key_and_peers_come_from_the_nodes_files() -> None:
    def story() -> None:
        with pytest.raises(errors.ConfigurationError, match=r"hmac\.key cannot be read: No such file"):
            confd.ReadKey()
        runtime.MakeDirs(pathutils.DATA_DIR)
        runtime.WriteFile(pathutils.CONFD_HMAC_KEY, b"\n")
        with pytest.raises(errors.ConfigurationError, match="is empty"):
            confd.ReadKey()
        runtime.WriteFile(pathutils.CONFD_HMAC_KEY, KEY)
        assert confd.ReadKey() == KEY
        runtime.WriteFile(pathutils.SsconfFile("master_candidates_ips"), "\n".join(ADDRESSES) + "\n")
        assert confd.Peers() == ADDRESSES
        result = confd.Ask(queries.PING)
        assert result.reply is not None and result.reply.answer == "a"

    _Run([("a", 4), ("a", 4), ("a", 4)], story)
