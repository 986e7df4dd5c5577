"""Datagrams: four bytes, then a JSON object with a text, a salt and the signature of both.  No I/O.

``Open...`` raises BadDatagram unless it gets the exact bytes that a holder of the key sent; nobody answers anything else.
Only what is signed is accepted: an envelope with further keys is rejected, too.
"""

from __future__ import annotations

import bisect
import hmac
from array import array
from typing import Any, Final, NamedTuple, TypeGuard

from ganeti import errors, serializer
from ganeti.confd import queries

MAGIC = b"plj0"
MAX_DATAGRAM = 61440
# A client's clock may differ by so many seconds.
MAX_SKEW = 300
# Characters of an rsalt, which the reply repeats; a uuid has 36.
MAX_RSALT = 256
# Requests that are remembered, so that a copy gets no second answer: 5000 a second for as long as one may be old.
MAX_REMEMBERED = 5000 * MAX_SKEW

# Why a datagram is dropped: the keys of the daemon's counters.
SIZE = "size"
BAD_MAGIC = "magic"
ENVELOPE = "envelope"
SIGNATURE = "signature"
CLOCK = "clock"
REPLAY = "replay"
MESSAGE = "message"
REASONS: Final = {
    SIZE: f"more than {MAX_DATAGRAM} bytes",
    BAD_MAGIC: f"does not begin with ``{MAGIC.decode()}``",
    ENVELOPE: "not an object with exactly the three texts",
    SIGNATURE: "made with another key, or changed on the way",
    CLOCK: f"the clocks of client and candidate differ by more than {MAX_SKEW} seconds, or the question is older than the daemon",
    MESSAGE: "not a question: another protocol, unknown type, no ``rsalt``",
    REPLAY: f"a copy of a question that was answered (all of the last {MAX_SKEW} seconds are remembered, up to"
    f" {MAX_REMEMBERED // MAX_SKEW} a second)",
}

_ENVELOPE_KEYS = {"msg", "salt", "hmac"}
_MAX_CLOCK_DIGITS = 20
# Of a signature, to recognise it: 64 bits that nobody without the key can choose.
_MARK_DIGITS = 16


class BadDatagram(errors.GenericError):
    """A datagram is not what the holder of the key would send; ``reason``: one of REASONS."""

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.reason = reason


class Request(NamedTuple):
    """A question; ``rsalt`` must be new each time."""

    kind: int
    query: Any
    rsalt: str


class Reply(NamedTuple):
    """An answer."""

    status: int
    answer: Any
    serial: int


def Signature(key: bytes, salt: str, message: str) -> str:
    """Return the signature of salt and message; ``key`` is the key file's whole content."""
    return hmac.digest(key, (salt + message).encode("utf-8"), "sha1").hex()


def _Pack(key: bytes, salt: str, message: dict[str, Any]) -> bytes:
    text = serializer.Dump(message) + "\n"
    return MAGIC + serializer.DumpBytes({"msg": text, "salt": salt, "hmac": Signature(key, salt, text)})


def PackRequest(key: bytes, request: Request, now: float) -> bytes:
    """Return the datagram of a request made at ``now``.

    Raises UdpDataSizeError if it is too large, ParseError for a text that nobody could read.
    """
    message = {"protocol": queries.PROTOCOL, "type": request.kind, "query": request.query, "rsalt": request.rsalt}
    # Half a character of a command line would be dropped there, and the client wait for nothing.
    serializer.LoadProper(serializer.Dump(message))
    data = _Pack(key, str(int(now)), message)
    if len(data) > MAX_DATAGRAM:
        raise errors.UdpDataSizeError(f"The question has {len(data)} bytes, a datagram holds {MAX_DATAGRAM}")
    return data


def PackReply(key: bytes, reply: Reply, rsalt: str) -> bytes:
    """Return the datagram of a reply; one that would be too large says so instead."""
    data = _PackReply(key, reply, rsalt)
    if len(data) > MAX_DATAGRAM:
        text = f"The answer has {len(data)} bytes, a datagram holds {MAX_DATAGRAM}: ask for a part of it"
        data = _PackReply(key, Reply(queries.ERROR, text, 0), rsalt)
    return data


def _PackReply(key: bytes, reply: Reply, rsalt: str) -> bytes:
    message = {
        "protocol": queries.PROTOCOL,
        "status": reply.status,
        "answer": reply.answer,
        "serial": reply.serial,
    }
    return _Pack(key, rsalt, message)


def _Open(key: bytes, data: bytes) -> tuple[str, str, str]:
    """Return (message, salt, signature) of a datagram whose signature is right."""
    if len(data) > MAX_DATAGRAM:
        raise BadDatagram(SIZE, f"more than {MAX_DATAGRAM} bytes")
    if data[: len(MAGIC)] != MAGIC:
        raise BadDatagram(BAD_MAGIC, f"does not begin with {MAGIC.decode()}")
    try:
        envelope = serializer.LoadProper(data[len(MAGIC) :])
    except errors.ParseError as err:
        raise BadDatagram(ENVELOPE, str(err)) from err
    if not isinstance(envelope, dict) or envelope.keys() != _ENVELOPE_KEYS:
        raise BadDatagram(ENVELOPE, "not an object with exactly msg, salt and hmac")
    message, salt, signature = envelope["msg"], envelope["salt"], envelope["hmac"]
    if not (isinstance(message, str) and isinstance(salt, str) and isinstance(signature, str)):
        raise BadDatagram(ENVELOPE, "msg, salt and hmac must be texts")
    # Compared as bytes: other text than ASCII is an error of the function instead of a difference.
    if not hmac.compare_digest(Signature(key, salt, message).encode(), signature.encode()):
        raise BadDatagram(SIGNATURE, "wrong signature: it was made with another key, or changed on the way")
    return message, salt, signature


def _Message(text: str) -> dict[str, Any]:
    try:
        message = serializer.LoadProper(text)
    except errors.ParseError as err:
        raise BadDatagram(MESSAGE, str(err)) from err
    if not isinstance(message, dict):
        raise BadDatagram(MESSAGE, "the message must be an object")
    if not _IsInt(message.get("protocol")) or message["protocol"] != queries.PROTOCOL:
        raise BadDatagram(MESSAGE, "another protocol")
    return message


def _IsInt(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


class Gate:
    """Lets each request through once, if its clock is right.

    ``since``: when it began to remember; what is older may have been answered before and is rejected, as is what is older
    than what had to be forgotten because there was more than ``remembered``.
    """

    def __init__(self, since: float = 0.0, remembered: int = MAX_REMEMBERED) -> None:
        self._room = remembered
        self._count = 0
        # The time of a request, in whole seconds -> beginnings of signatures, in order: 8 bytes each, where a set takes 140.
        self._seen: dict[int, array[int]] = {}
        self._oldest = int(since)

    def Open(self, key: bytes, data: bytes, now: float) -> Request:
        """Return the request in a datagram; raises BadDatagram."""
        text, salt, signature = _Open(key, data)
        # An honest client writes digits only; what int() takes besides is not worth a thought.
        if not (salt.isascii() and salt.isdigit() and len(salt) <= _MAX_CLOCK_DIGITS):
            raise BadDatagram(CLOCK, "the salt of a request must be the time")
        if abs(now - int(salt)) > MAX_SKEW:
            raise BadDatagram(CLOCK, f"its clock differs by {int(salt) - now:+.0f} s, {MAX_SKEW} are allowed")
        if int(salt) < self._oldest:
            raise BadDatagram(CLOCK, "it is older than what this daemon remembers, and may be a copy")
        message = _Message(text)
        kind, rsalt = message.get("type"), message.get("rsalt")
        if not _IsInt(kind) or kind not in queries.QUERY_TYPES:
            raise BadDatagram(MESSAGE, "unknown type of query")
        if not isinstance(rsalt, str) or len(rsalt) > MAX_RSALT:
            raise BadDatagram(MESSAGE, f"rsalt must be a text of at most {MAX_RSALT} characters")
        self._Remember(int(salt), signature, now)
        return Request(kind, message.get("query"), rsalt)

    def _Remember(self, second: int, signature: str, now: float) -> None:
        mark = int(signature[:_MARK_DIGITS], 16)
        seen = self._seen.get(second)
        if seen is None:
            self._Forget(now - MAX_SKEW - 1)
            seen = self._seen[second] = array("Q")
        place = bisect.bisect_left(seen, mark)
        if place < len(seen) and seen[place] == mark:
            raise BadDatagram(REPLAY, "a copy of a request that was answered")
        seen.insert(place, mark)
        self._count += 1
        if self._count > self._room:
            self._Forget(min(self._seen) + 1)

    def _Forget(self, before: float) -> None:
        """Forget the requests of before a time, and accept none from there again."""
        for second in [second for second in self._seen if second < before]:
            self._count -= len(self._seen.pop(second))
            self._oldest = max(self._oldest, second + 1)


def OpenReply(key: bytes, data: bytes) -> tuple[Reply, str]:
    """Return (reply, salt) of a datagram; raises BadDatagram."""
    text, salt, _ = _Open(key, data)
    message = _Message(text)
    status, serial = message.get("status"), message.get("serial")
    if not _IsInt(status) or not _IsInt(serial) or "answer" not in message:
        raise BadDatagram(MESSAGE, "a reply must have status, answer and serial")
    return Reply(status, message["answer"], serial), salt
