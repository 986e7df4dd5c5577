"""JSON with limits: the one place that writes and reads it (simplejson lives behind this module)."""

from __future__ import annotations

from typing import Any

import simplejson

from ganeti import errors

MAX_MESSAGE = 64 * 1024 * 1024


class TooLargeError(errors.ParseError):
    """A text is longer than the reader allows."""


def Dump(value: Any, pretty: bool = False) -> str:
    """JSON text of ``value``: compact, keys in the order given, ASCII only; ``pretty`` for people."""
    if pretty:
        return simplejson.dumps(value, indent=2, allow_nan=False) + "\n"
    return simplejson.dumps(value, separators=(",", ":"), allow_nan=False)


def DumpBytes(value: Any) -> bytes:
    return Dump(value).encode("ascii")


def Load(text: str | bytes, limit: int = MAX_MESSAGE) -> Any:
    """The value of a JSON text; every kind of bad input is a ParseError that says where."""
    if len(text) > limit:
        raise TooLargeError(f"JSON text of {len(text)} bytes is over the limit of {limit}")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return simplejson.loads(text)
    except UnicodeDecodeError as err:
        raise errors.ParseError(f"not UTF-8 at byte {err.start}") from err
    except RecursionError as err:
        raise errors.ParseError("JSON text is nested too deeply") from err
    except ValueError as err:
        raise errors.ParseError(f"not valid JSON: {err}") from err


def LoadProper(text: str | bytes, limit: int = MAX_MESSAGE) -> Any:
    """Load for what outsiders write: texts with half a character are refused as well.

    JSON can spell one (``\\udc80``), as Python does for bytes of a command line that are no UTF-8, but no file, header or
    environment could ever take it.
    """
    value = Load(text, limit)
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if b"\\ud" in raw.lower():
        try:
            simplejson.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as err:
            around = repr(err.object[max(0, err.start - 20) : err.start])
            raise errors.ParseError(f"not UTF-8: half a character after {around}") from err
    return value
