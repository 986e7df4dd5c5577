"""Large JSON values in small pieces, so that no single call of the JSON library stops all other threads.

A C call holds the interpreter: parsing 60 MiB in one go would freeze every client for a second.  Writing is done piece
by piece in the thread that needs it.  Parsing needs the places where to cut, and finding them costs as much as
parsing; so a large text goes to a worker program, which sends it back as lines, one small piece each.
::

    v<value>  a value                          m<list>   several items of the list that is open
    [  ]      a list begins, ends              {  }      an object begins, ends
    k<text>   the key of the next value        s  e      a long string begins, ends; its parts are values between
    !<text>   the message could not be read

The worker program is this module: ``python3 -m ganeti.luxi.pieces FD``; it reads the text from the descriptor up to
the end of the stream and answers there.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime, serializer

if TYPE_CHECKING:
    from ganeti.runtime import protocols

# Measured in nodes; a node is a number, a name, or 64 characters of a string.  This many take about 1 ms.
PIECE_WEIGHT = 2000
STRING_PART = 64 * 1024
# A string's parts are joined by one call, and a key is never taken apart.
MAX_STRING = 16 * 1024 * 1024
MAX_KEY = STRING_PART

WORKER_TIMEOUT = 60

# Texts that may need more are parsed by the worker program.
LARGE_COST = 16 * 1024 * 1024


def Weigh(value: Any, limit: int) -> int:
    """Return the number of nodes of ``value``, or something above ``limit`` as soon as that is sure."""
    weight = 1
    stack = [value]
    while stack and weight <= limit:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            weight += len(item)
            if weight <= limit:
                stack.extend(item)
        elif isinstance(item, dict):
            weight += 2 * len(item)
            if weight <= limit:
                weight += sum(len(key) // 64 for key in item if isinstance(key, str))
                stack.extend(item.values())
        elif isinstance(item, str):
            weight += len(item) // 64
    return weight


def IsLight(value: Any) -> bool:
    """Return whether this value may be read or written in one call."""
    return Weigh(value, PIECE_WEIGHT) <= PIECE_WEIGHT or not isinstance(value, (str, list, tuple, dict))


def _Groups(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield neighbours that are light enough together; a heavy one stands alone."""
    group: list[Any] = []
    weight = 0
    for item in items:
        own = Weigh(item, PIECE_WEIGHT)
        if group and weight + own > PIECE_WEIGHT:
            yield group
            group, weight = [], 0
        group.append(item)
        weight += own
    if group:
        yield group


def _StringParts(text: str) -> Iterator[str]:
    return (text[start : start + STRING_PART] for start in range(0, len(text), STRING_PART))


# --- writing ----------------------------------------------------------------------------------------------------------


class Encoded:
    """A value that is JSON text already: an answer that is given often, or made of texts."""

    __slots__ = ("text",)

    def __init__(self, value: Any):
        self.text = serializer.DumpBytes(value)

    @classmethod
    def FromText(cls, text: bytes) -> Encoded:
        """Return the value with this JSON text."""
        encoded = cls.__new__(cls)
        encoded.text = text
        return encoded


def Dump(value: Any) -> Iterator[bytes]:
    """Yield the JSON text of ``value`` in parts, each written by one short call."""
    if isinstance(value, Encoded):
        yield value.text
    elif IsLight(value):
        yield serializer.DumpBytes(value)
    elif isinstance(value, str):
        yield b'"'
        for part in _StringParts(value):
            yield serializer.DumpBytes(part)[1:-1]
        yield b'"'
    elif isinstance(value, dict):
        separator = b"{"
        for key, item in value.items():
            # As an object of one key, so that the library's own rule makes keys of numbers and null.
            yield separator + serializer.DumpBytes({key: 0})[1:-2]
            yield from Dump(item)
            separator = b","
        yield b"}"
    else:
        separator = b"["
        for group in _Groups(value):
            yield separator
            if len(group) == 1:
                yield from Dump(group[0])
            else:
                yield serializer.DumpBytes(group)[1:-1]
            separator = b","
        yield b"]"


# --- parsing ----------------------------------------------------------------------------------------------------------


def ToLines(value: Any) -> Iterator[bytes]:
    """Yield what the worker program answers for ``value``, without line ends, and take the value to pieces on the way.

    Raises errors.ParseError at a string or a key over its limit.
    """
    if IsLight(value):
        yield b"v" + serializer.DumpBytes(value)
    elif isinstance(value, str):
        _CheckLength("string", value, MAX_STRING)
        yield b"s"
        for part in _StringParts(value):
            yield b"v" + serializer.DumpBytes(part)
        yield b"e"
    elif isinstance(value, dict):
        yield b"{"
        for key in list(value):
            _CheckLength("key of an object", key, MAX_KEY)
            yield b"k" + serializer.DumpBytes(key)
            yield from ToLines(value.pop(key))
        yield b"}"
    else:
        yield b"["
        for group in _Groups(_Taken(value)):
            if len(group) == 1:
                yield from ToLines(group.pop())
            else:
                yield b"m" + serializer.DumpBytes(group)
        yield b"]"


def _CheckLength(what: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise errors.ParseError(f"{what} of {len(text)} characters, {limit} are allowed: {text[:40]}")


def _Taken(items: list[Any]) -> Iterator[Any]:
    """Yield the items in order, each only once it has left the list."""
    items.reverse()
    while True:
        try:
            yield items.pop()
        except IndexError:  # also if somebody else has emptied it
            return


class Builder:
    """Puts the lines of ToLines together again."""

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._keys: list[str] = []
        self._value: list[Any] = []

    def Line(self, line: bytes) -> None:
        kind, text = line[:1], line[1:]
        if kind == b"v":
            self._Put(serializer.Load(text))
        elif kind == b"m":
            self._open[-1].extend(serializer.Load(text))
        elif kind == b"k":
            self._keys.append(serializer.Load(text))
        elif kind == b"{":
            self._open.append({})
        elif kind in (b"[", b"s"):
            self._open.append([])
        elif kind in (b"}", b"]"):
            self._Put(self._open.pop())
        elif kind == b"e":
            self._Put("".join(self._open.pop()))
        elif kind == b"!":
            raise errors.ParseError(serializer.Load(text))
        else:
            raise errors.ParseError("the worker program for large messages answered something unknown")

    def _Put(self, value: Any) -> None:
        holder = self._open[-1] if self._open else self._value
        if isinstance(holder, dict):
            holder[self._keys.pop()] = value
        else:
            holder.append(value)

    def Result(self) -> Any:
        if len(self._value) != 1 or self._open:
            raise errors.ParseError("the worker program for large messages ended before it was done")
        return self._value[0]


def Load(chunks: list[bytearray]) -> Any:
    """Parse a large text with the help of the worker program, emptying ``chunks``; raises errors.ParseError."""
    ours, theirs = runtime.SocketPair()
    try:
        environment = dict(runtime.Environment())
        environment["PYTHONPATH"] = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
        argv = [sys.executable, "-m", "ganeti.luxi.pieces", str(theirs.fileno())]
        runtime.StartProcess(argv, env=environment, pass_fds=(theirs.fileno(),))
        theirs.close()
        return _Converse(ours, chunks)
    except OSError as err:
        raise errors.ParseError(f"a large message could not be read: {err}") from err
    finally:
        ours.close()
        theirs.close()


def _Converse(sock: protocols.Socket, chunks: list[bytearray]) -> Any:
    sock.settimeout(WORKER_TIMEOUT)
    for chunk in _Taken(chunks):
        sock.sendall(bytes(chunk))
    sock.shutdown(1)
    builder = Builder()
    rest = b""
    while data := sock.recv(STRING_PART):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            builder.Line(line)
    return builder.Result()


def _Read(descriptor: int) -> bytearray:
    text = bytearray()
    while data := os.read(descriptor, 1 << 20):
        text += data
    return text


def _Work(descriptor: int) -> None:
    """Run the worker program."""
    gc.disable()  # it ends before anything could be collected
    with os.fdopen(descriptor, "wb", buffering=1 << 20) as stream:
        try:
            for line in ToLines(serializer.LoadProper(serializer.Decode(_Read(descriptor)))):
                stream.write(line + b"\n")
        except errors.ParseError as err:
            stream.write(b"!" + serializer.DumpBytes(str(err)) + b"\n")


if __name__ == "__main__":
    _Work(int(sys.argv[1]))
