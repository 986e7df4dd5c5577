"""Datagrams of confd: what is read is what was signed, and everything else is dropped."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs
from support.timing import Compared
from support.virtualnode import TOP

from ganeti import errors
from ganeti.confd import queries, wire

KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NOW = 1249637704.25
QUESTION = wire.Request(queries.NODE_ROLE, "node1.example.com", "9aa6ce92-8336-11de-af38-001d093e835f")
ANSWER = wire.Reply(queries.OK, queries.ROLE_MASTER, 42)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
REQUESTS = st.builds(wire.Request, st.sampled_from(list(queries.QUERY_TYPES)), VALUES, TEXTS)
REPLIES = st.builds(wire.Reply, st.integers(0, 9), VALUES, st.integers(0, 2**40))


def _Envelope(key: bytes = KEY, salt: str = "1249637704", message: Any = None, **changes: Any) -> bytes:
    """Make a datagram without our code; ``message`` may be text."""
    inner = {"type": 1, "rsalt": "rsalt", "protocol": 1, "query": "node1.example.com"} if message is None else message
    text = inner if isinstance(inner, str) else json.dumps(inner) + "\n"
    signature = hmac.new(key, (salt + text).encode(), hashlib.sha1).hexdigest()
    return b"plj0" + json.dumps({"msg": text, "salt": salt, "hmac": signature, **changes}).encode()


def _Reason(datagram: bytes, now: float = NOW) -> str:
    with pytest.raises(wire.BadDatagram) as caught:
        wire.Gate().Open(KEY, datagram, now)
    return caught.value.reason


@pytest.mark.req("D21-CONFD-15")
@pytest.mark.req("D21-CONFD-17")
@pytest.mark.req("D21-CONFD-19")
def test_a_request_is_what_the_design_shows() -> None:
    datagram = wire.PackRequest(KEY, QUESTION, NOW)
    assert datagram[:4] == b"plj0"
    envelope = json.loads(datagram[4:])
    assert envelope.keys() == {"msg", "salt", "hmac"}
    assert envelope["salt"] == "1249637704"
    signed = (envelope["salt"] + envelope["msg"]).encode()
    assert envelope["hmac"] == hmac.new(KEY, signed, hashlib.sha1).hexdigest()
    assert json.loads(envelope["msg"]) == {
        "protocol": 1,
        "type": 1,
        "query": "node1.example.com",
        "rsalt": "9aa6ce92-8336-11de-af38-001d093e835f",
    }


@pytest.mark.req("D21-CONFD-21")
def test_a_reply_is_what_the_design_shows() -> None:
    datagram = wire.PackReply(KEY, ANSWER, QUESTION.rsalt)
    envelope = json.loads(datagram[4:])
    assert datagram[:4] == b"plj0" and envelope.keys() == {"msg", "salt", "hmac"}
    assert envelope["salt"] == QUESTION.rsalt
    assert json.loads(envelope["msg"]) == {"protocol": 1, "status": 0, "answer": 0, "serial": 42}
    assert wire.OpenReply(KEY, datagram) == (ANSWER, QUESTION.rsalt)


def test_what_another_implementation_writes_is_read() -> None:
    assert wire.Gate().Open(KEY, _Envelope(), NOW) == wire.Request(1, "node1.example.com", "rsalt")
    # The design's example has a query that may be missing.
    assert wire.Gate().Open(KEY, _Envelope(message={"type": 0, "rsalt": "r", "protocol": 1}), NOW).query is None


@given(REQUESTS, st.integers(-300, 300))
def test_every_request_comes_through(request: wire.Request, skew: int) -> None:
    datagram = wire.PackRequest(KEY, request, NOW + skew)
    assert wire.Gate().Open(KEY, datagram, float(int(NOW))) == request


@pytest.mark.req("D21-CONFD-16")
@pytest.mark.parametrize("code", [b"plj1", b"bin0", b"PLJ0", b"enc\xff"])
def test_another_encoding_is_told_apart_by_its_code_alone(code: bytes) -> None:
    """Whatever comes after it need not be JSON, and is not looked at: so an encoding can be added beside ours."""
    for rest in (_Envelope()[4:], b"", b"\x00\xff packed", DEEP.encode()):
        assert _Reason(code + rest) == wire.BAD_MAGIC
        with pytest.raises(wire.BadDatagram, match="does not begin with plj0"):
            wire.OpenReply(KEY, code + rest)


@given(REPLIES, TEXTS)
def test_every_reply_comes_through(reply: wire.Reply, rsalt: str) -> None:
    assert wire.OpenReply(KEY, wire.PackReply(KEY, reply, rsalt)) == (reply, rsalt)


@pytest.mark.req("D21-CONFD-18")
@given(st.data())
def test_any_damaged_bit_drops_the_datagram(data: st.DataObject) -> None:
    request = wire.PackRequest(KEY, QUESTION, NOW)
    reply = wire.PackReply(KEY, ANSWER, QUESTION.rsalt)
    for datagram, read in (
        (request, lambda text: wire.Gate().Open(KEY, text, NOW)),
        (reply, lambda text: wire.OpenReply(KEY, text)),
    ):
        bit = data.draw(st.integers(0, len(datagram) * 8 - 1))
        damaged = bytearray(datagram)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(wire.BadDatagram):
            read(bytes(damaged))
        cut = data.draw(st.integers(0, len(datagram) - 1))
        with pytest.raises(wire.BadDatagram):
            read(datagram[:cut])


@given(st.binary(max_size=300))
def test_whatever_arrives_is_dropped_with_a_reason(noise: bytes) -> None:
    for datagram in (noise, b"plj0" + noise):
        assert _Reason(datagram) in wire.REASONS
        with pytest.raises(wire.BadDatagram):
            wire.OpenReply(KEY, datagram)


@pytest.mark.req("D21-CONFD-08")
def test_the_clock_of_a_request_must_be_right() -> None:
    now = 1249637704.0
    for skew in (-300, 0, 300):
        assert wire.Gate().Open(KEY, _Envelope(salt=str(int(now) + skew)), now).kind == 1
    for skew in (-301, 301, -100000, 1 << 40):
        assert _Reason(_Envelope(salt=str(int(now) + skew)), now) == wire.CLOCK
    for salt in ("", "now", "1249637704.5", "-5", " 1249637704", "१", "1" * 5000):
        assert _Reason(_Envelope(salt=salt), now) == wire.CLOCK


def test_a_copy_of_a_request_is_dropped() -> None:
    gate, datagram = wire.Gate(), wire.PackRequest(KEY, QUESTION, NOW)
    gate.Open(KEY, datagram, NOW)
    with pytest.raises(wire.BadDatagram) as caught:
        gate.Open(KEY, datagram, NOW + 100)
    assert caught.value.reason == wire.REPLAY
    # The same question, asked anew.
    assert gate.Open(KEY, wire.PackRequest(KEY, QUESTION._replace(rsalt="new"), NOW), NOW).rsalt == "new"


def _Made(at: float, number: int = 0) -> bytes:
    return wire.PackRequest(KEY, QUESTION._replace(rsalt=f"r{number}"), at)


def _Rejected(gate: wire.Gate, datagram: bytes, now: float) -> str:
    with pytest.raises(wire.BadDatagram) as caught:
        gate.Open(KEY, datagram, now)
    return caught.value.reason


def test_what_was_made_before_the_daemon_began_is_not_answered() -> None:
    """The process before may have answered it."""
    gate = wire.Gate(NOW)
    assert _Rejected(gate, _Made(NOW - 1), NOW + 2) == wire.CLOCK
    assert gate.Open(KEY, _Made(NOW), NOW + 2).kind == QUESTION.kind


def test_no_copy_is_answered_at_any_time_and_what_is_too_old_is_forgotten() -> None:
    gate = wire.Gate()
    made = [_Made(NOW + second, number) for second in range(0, 300, 50) for number in range(100)]
    for number, datagram in enumerate(made):
        gate.Open(KEY, datagram, NOW + number // 100 * 50)
    for datagram in made:
        assert _Rejected(gate, datagram, NOW + 290) == wire.REPLAY
    gate.Open(KEY, _Made(NOW + 900), NOW + 900)
    assert sum(map(len, gate._seen.values())) == gate._count == 1
    for datagram in made:  # the clock was put back
        assert _Rejected(gate, datagram, NOW + 290) == wire.CLOCK


def test_where_there_are_too_many_to_remember_the_oldest_are_too_old() -> None:
    gate = wire.Gate(remembered=20)
    made = [_Made(NOW + second, number) for second in range(5) for number in range(8)]
    for datagram in made:
        gate.Open(KEY, datagram, NOW + 5)
    assert gate._count <= 20
    assert [_Rejected(gate, datagram, NOW + 5) for datagram in made] == [wire.CLOCK] * 24 + [wire.REPLAY] * 16


def test_what_is_remembered_takes_a_few_bytes_each() -> None:
    """5000 questions a second for five minutes are 1.5 million."""
    gate = wire.Gate()
    made = [_Made(NOW + number // 1250, number) for number in range(5000)]
    tracemalloc.start()
    try:
        for datagram in made:
            gate.Open(KEY, datagram, NOW + 4)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert gate._count == len(made)
    assert grown / len(made) <= 12
    with open(os.path.join(TOP, "doc", "confd.rst"), encoding="utf-8") as stream:
        assert "8 bytes each" in stream.read()


def test_the_promised_rate_fits_into_what_is_remembered() -> None:
    with open(os.path.join(TOP, "doc", "confd.rst"), encoding="utf-8") as stream:
        promised = re.search(r"all of the last (\d+) seconds are remembered, up to (\d+) a second", stream.read())
    assert promised is not None
    assert int(promised[1]) * int(promised[2]) <= wire.MAX_REMEMBERED


DEEP = "[" * 20000 + "]" * 20000
BAD = {
    "empty": (b"", wire.BAD_MAGIC),
    "magic only": (b"plj0", wire.ENVELOPE),
    "other magic": (b"plj1" + _Envelope()[4:], wire.BAD_MAGIC),
    "61441 bytes": (_Envelope() + b" " * (61441 - len(_Envelope())), wire.SIZE),
    "not UTF-8": (b"plj0\xff\xfe", wire.ENVELOPE),
    "deep": (b"plj0" + DEEP.encode(), wire.ENVELOPE),
    "list": (b"plj0[]", wire.ENVELOPE),
    "more keys": (_Envelope(fourth=""), wire.ENVELOPE),
    "salt is a number": (_Envelope(salt="1249637704").replace(b'"1249637704"', b"1249637704"), wire.ENVELOPE),
    "half a character": (_Envelope(hmac="\ud800"), wire.ENVELOPE),
    "other key": (_Envelope(key=b"other"), wire.SIGNATURE),
    "key without newline": (_Envelope(key=KEY.strip()), wire.SIGNATURE),
    "other signature": (_Envelope(hmac="é"), wire.SIGNATURE),
    "upper case signature": (_Envelope(hmac=json.loads(_Envelope()[4:])["hmac"].upper()), wire.SIGNATURE),
    "reply": (wire.PackReply(KEY, ANSWER, "1249637704"), wire.MESSAGE),
    "message is no JSON": (_Envelope(message="{"), wire.MESSAGE),
    "message is deep": (_Envelope(message=DEEP), wire.MESSAGE),
    "message is a list": (_Envelope(message=[]), wire.MESSAGE),
    "protocol 2": (_Envelope(message={"type": 1, "rsalt": "r", "protocol": 2}), wire.MESSAGE),
    "protocol true": (_Envelope(message={"type": 1, "rsalt": "r", "protocol": True}), wire.MESSAGE),
    "no rsalt": (_Envelope(message={"type": 1, "protocol": 1}), wire.MESSAGE),
    "rsalt is a number": (_Envelope(message={"type": 1, "protocol": 1, "rsalt": 5}), wire.MESSAGE),
    "rsalt is long": (_Envelope(message={"type": 1, "protocol": 1, "rsalt": "r" * 257}), wire.MESSAGE),
    "unknown type": (_Envelope(message={"type": 99, "protocol": 1, "rsalt": "r"}), wire.MESSAGE),
    "type is text": (_Envelope(message={"type": "1", "protocol": 1, "rsalt": "r"}), wire.MESSAGE),
    "type is a list": (_Envelope(message={"type": [1], "protocol": 1, "rsalt": "r"}), wire.MESSAGE),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_datagrams(name: str) -> None:
    datagram, reason = BAD[name]
    assert _Reason(datagram) == reason


@pytest.mark.req("D21-CONFD-18")
def test_a_client_does_not_take_a_reply_with_a_wrong_signature() -> None:
    with pytest.raises(wire.BadDatagram) as caught:
        wire.OpenReply(KEY, wire.PackReply(b"other", ANSWER, "r"))
    assert caught.value.reason == wire.SIGNATURE
    for message in (
        {"protocol": 1, "status": 0, "answer": 1},
        {"protocol": 1, "status": "0", "answer": 1, "serial": 1},
    ):
        with pytest.raises(wire.BadDatagram):
            wire.OpenReply(KEY, _Envelope(message=message))
    # A question that comes back is no answer.
    with pytest.raises(wire.BadDatagram):
        wire.OpenReply(KEY, wire.PackRequest(KEY, QUESTION, NOW))


def test_a_wrong_signature_costs_as_much_as_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes to drop a datagram does not say how much of its signature is right."""
    compared = Compared(monkeypatch)
    data = wire.PackRequest(KEY, wire.Request(queries.PING, None, "r"), 1000.0)
    envelope = json.loads(data[4:])
    for signature in (envelope["hmac"], "0" * 40, envelope["hmac"][:-1] + "x"):
        sent = wire.MAGIC + json.dumps({**envelope, "hmac": signature}).encode()
        if signature == envelope["hmac"]:
            wire.Gate().Open(KEY, sent, 1000.0)
        else:
            with pytest.raises(wire.BadDatagram, match="wrong signature"):
                wire.Gate().Open(KEY, sent, 1000.0)
        assert compared.Take() == [40]


def test_what_cannot_be_sent() -> None:
    with pytest.raises(errors.UdpDataSizeError, match="a datagram holds 61440"):
        wire.PackRequest(KEY, wire.Request(queries.CONFIG, "/" * 70000, "r"), NOW)
    with pytest.raises(errors.ParseError, match="half a character after 'caf'"):
        wire.PackRequest(KEY, wire.Request(queries.NODE_ROLE, "caf\udce9", "r"), NOW)
    datagram = wire.PackReply(KEY, wire.Reply(queries.OK, "x" * 61440, 7), "r")
    reply, _ = wire.OpenReply(KEY, datagram)
    assert len(datagram) < 1000
    assert reply.status == queries.ERROR and "ask for a part of it" in reply.answer
    # The largest answer that fits, and the longest salt of a request.
    longest = wire.PackReply(KEY, wire.Reply(queries.OK, "x" * 70000, 7), "\u20ac" * wire.MAX_RSALT)
    assert len(longest) < 5000
    # Quotes are escaped twice on the wire: what counts is the datagram's size.
    assert wire.OpenReply(KEY, wire.PackReply(KEY, wire.Reply(queries.OK, '"' * 20000, 7), "r"))[0].status == 1


# In a process of its own every number and key of ``queries`` is another one before anybody else reads them.
_RENUMBERED = """
import importlib.util, re, sys
spec = importlib.util.find_spec("ganeti")
path = spec.submodule_search_locations[0] + "/confd/queries.py"
module = type(sys)("ganeti.confd.queries")
with open(path, encoding="utf-8") as stream:
    text = re.sub(r'^([A-Z_0-9]+ = "?)([0-9]+)', lambda found: f"{found[1]}{int(found[2]) + 7000}", stream.read(), flags=re.M)
assert text.count("= 70") > 20
sys.modules[module.__name__] = module
exec(text, vars(module))

from ganeti import confd, configfile
from ganeti.confd import answers, queries, view, wire
with open(sys.argv[1], encoding="utf-8") as stream:
    root = configfile.LoadConfig(stream.read())
known, key, replies = view.View(root), b"key", []

def serve(data, peer):
    request = wire.Gate().Open(key, data, __import__("time").time())
    replies.append(wire.PackReply(key, answers.Answer(known, request), request.rsalt))

client = confd.Client(key, ["192.0.2.1"], lambda event: print(event.reply.status, event.reply.answer), serve)
node, ip = root.master_name, {queries.KEY_IPS: [], queries.KEY_LINK: "br0"}
for kind, query in (
    (queries.PING, None), (queries.NODE_ROLE, node), (queries.NODE_ROLE, "nobody"), (queries.NODE_ROLE, 1),
    (queries.CLUSTER_MASTER, {queries.KEY_FIELDS: [queries.FIELD_NAME]}), (queries.NODE_IP_BY_INSTANCE_IP, ip),
):
    client.Send(kind, query)
    client.Receive(replies.pop(), "192.0.2.1")
"""


@pytest.mark.req("D21-CONFD-25")
def test_client_and_daemon_share_the_numbers() -> None:
    """Nobody has numbers of their own: with all of them changed in their one place, questions are answered as before."""
    done = subprocess.run(
        [sys.executable, "-c", _RENUMBERED, configs.EXAMPLE_PATH],
        env={**os.environ, "PYTHONPATH": TOP}, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    root = configs.Example()
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        [
            f"7000 {root.version}",
            "7000 7000",
            "7001 Unknown node 'nobody'",
            "7001 7002",
            f"7000 ['{root.master_name}']",
            "7000 []",
        ],
    )


@pytest.mark.req("D21-CONFD-25")
def test_numbers_are_those_of_the_reference() -> None:
    types = [queries.QUERY_TYPES[number].name for number in sorted(queries.QUERY_TYPES)]
    assert len(types) == len(set(types))
    assert [number for number in queries.QUERY_TYPES if number < 100] == list(range(12))
    roles = (
        queries.ROLE_MASTER,
        queries.ROLE_CANDIDATE,
        queries.ROLE_OFFLINE,
        queries.ROLE_DRAINED,
        queries.ROLE_REGULAR,
    )
    assert roles == (0, 1, 2, 3, 4)
    assert (queries.OK, queries.ERROR, queries.NOT_IMPLEMENTED) == (0, 1, 2)
    assert (queries.UNKNOWN_ENTRY, queries.INTERNAL, queries.ARGUMENT) == (0, 1, 2)
    assert (queries.PROTOCOL, wire.MAGIC, wire.MAX_DATAGRAM, wire.MAX_SKEW) == (1, b"plj0", 61440, 300)
