"""The node's side of a call, without any network: bytes in, bytes out.

The same object works under noded's HTTP server and under the simulated network.  It knows the table and the gate;
what a procedure does is a handler's affair.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ganeti import errors, runtime, serializer
from ganeti.http import STATUS_BAD_REQUEST, STATUS_NOT_FOUND, STATUS_TOO_LARGE, ErrorPage, Reply
from ganeti.rpc.base import (
    HEADER_EPOCH,
    HEADER_MASTER,
    MAX_BODY,
    STATUS_EPOCH_REFUSED,
    STATUS_OK,
    EpochRefused,
    Gate,
)
from ganeti.rpc.encodings import OBJECTS
from ganeti.rpc.longcalls import Describe, LongCall, Sentence
from ganeti.rpc.procedures import PROCEDURES, WATCHING_PROCEDURES, Procedure

Handler = Callable[..., Any]

_JSON_HEADERS = {"Content-Type": "application/json"}
_SHOWN = 80  # characters of a foreign text in messages


class OpenGate:
    """Lets every call pass: a node before it has a store, and tests."""

    def Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        del procedure, headers
        return nullcontext()


class Dispatcher:
    """Finds the handler, checks arguments and epoch, and shapes every outcome as the protocol demands.

    ``handlers``: procedure name -> callable(*args) returning the payload; one that raises a GenericError says no with
    its text.  A name in the table without a handler is a procedure this node does not have.
    """

    def __init__(self, handlers: Mapping[str, Handler], gate: Gate):
        unknown = sorted(set(handlers) - set(PROCEDURES))
        if unknown:
            raise errors.ProgrammerError(f"handlers for procedures that are not in the table: {', '.join(unknown)}")
        self._handlers = dict(handlers)
        self._gate = gate

    def Handle(self, path: str, headers: Mapping[str, str], body: bytes, method: str = "POST") -> Reply:
        """Answer one request; never raise.  ``headers`` has lower-case names."""
        if method != "POST":
            return ErrorPage(STATUS_BAD_REQUEST, f"Method {_Clip(method)} is not supported, use POST")
        name = path.removeprefix("/")
        procedure = PROCEDURES.get(name)
        handler = self._handlers.get(name)
        if procedure is None or handler is None:
            return ErrorPage(STATUS_NOT_FOUND, f"Procedure {_Clip(name)} does not exist")
        if len(body) > MAX_BODY:
            return ErrorPage(STATUS_TOO_LARGE, f"The request has {len(body)} bytes, the limit is {MAX_BODY}")
        try:
            args = ParseArguments(procedure, body)
        except errors.ParseError as err:
            logging.warning("Refused call of %s: %s", name, err)
            return _Failure(str(err))
        return self._Run(procedure, handler, headers, args)

    def Refuse(self, path: str, ages: Sequence[float], hanging: Sequence[LongCall] = ()) -> Reply:
        """Answer a request that is not served, because earlier ones of its procedure hang.

        ``ages``: their seconds; ``hanging``: every call of any procedure that hangs.
        """
        name = _Clip(path.removeprefix("/"))
        return self._NotServed(
            name,
            f"this node is busy with {len(ages)} calls of {name} that do not end, the oldest one for {max(ages):.0f} s",
            hanging if len(hanging) > len(ages) else (),
        )

    def RefuseWithoutTurn(self, path: str, seconds: float, calls: Sequence[LongCall]) -> Reply:
        """Answer a request that got no turn for so many seconds; ``calls``: what is under way."""
        name = _Clip(path.removeprefix("/"))
        now = runtime.Time()
        hanging = [call for call in calls if call.late]
        why = f"this node is too busy to serve a call of {name}, which waited for {seconds:.0f} s"
        others = Describe([call for call in calls if not call.late], now)
        return self._NotServed(name, why + (f"; under way: {others}" if others else ""), hanging)

    def _NotServed(self, name: str, why: str, hanging: Sequence[LongCall]) -> Reply:
        if hanging:
            why += f"; {Sentence(hanging, 'hang', runtime.Time())}"
        logging.warning("Refused call of %s: %s", name, why)
        return _Failure(
            f"{why}; 'gnt-cluster verify' names the programs that its calls wait for, 'dmesg' and 'ps axf' on the node show"
            " what these wait for: most likely a disk that does not answer"
        )

    def _Run(self, procedure: Procedure, handler: Handler, headers: Mapping[str, str], args: list[Any]) -> Reply:
        started = runtime.Monotonic()
        try:
            with self._Enter(procedure, headers):
                payload = handler(*args)
            reply = _Success(procedure.name, payload)
        except EpochRefused as err:
            logging.warning("Refused call of %s: %s", procedure.name, err)
            refusal = {**_JSON_HEADERS, HEADER_EPOCH: _HeaderValue(err.newer_epoch)}
            refusal[HEADER_MASTER] = _HeaderValue(err.master_name)
            return STATUS_EPOCH_REFUSED, refusal, serializer.DumpBytes([False, str(err)])
        except errors.GenericError as err:
            logging.info("Call of %s failed: %s", procedure.name, err)
            return _Failure(str(err) or type(err).__name__)
        except Exception as err:
            logging.exception("Error in call of %s", procedure.name)
            return _Failure(f"Error while executing backend function: {str(err) or type(err).__name__}")
        # The store calls at every change: its own lines would hide all others.
        level = logging.DEBUG if procedure.name in WATCHING_PROCEDURES else logging.INFO
        logging.log(level, "Call of %s took %.3f s", procedure.name, runtime.Monotonic() - started)
        return reply

    def _Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        return self._gate.Enter(procedure, headers) if procedure.changes else nullcontext()


def ParseArguments(procedure: Procedure, body: bytes) -> list[Any]:
    """Return the positional arguments in a request body; ParseError when they do not fit the table."""
    value = serializer.LoadProper(body, MAX_BODY)
    if procedure.body_object:
        value = [value]
    if not isinstance(value, list):
        raise errors.ParseError(f"{procedure.name}: the body must be a JSON list of arguments")
    if len(value) != len(procedure.args):
        expected = ", ".join(arg.name for arg in procedure.args) or "none"
        raise errors.ParseError(
            f"{procedure.name}: {len(value)} arguments given, {len(procedure.args)} expected ({expected})"
        )
    for arg, item in zip(procedure.args, value, strict=True):
        if not arg.encoding.wire(item):
            raise errors.ParseError(f"{procedure.name}: argument {arg.name} must be {arg.encoding.wire}")
        if arg.enc in OBJECTS and b"\\u0000" in body and serializer.HasNul(item):
            raise errors.ParseError(f"{procedure.name}: argument {arg.name} must not contain a NUL character")
    return value


def _Success(name: str, payload: Any) -> Reply:
    body = serializer.DumpBytes([True, payload])
    if len(body) > MAX_BODY:
        return _Failure(f"the answer of {name} has {len(body)} bytes, the limit is {MAX_BODY}")
    return STATUS_OK, dict(_JSON_HEADERS), body


def _Failure(text: str) -> Reply:
    return STATUS_OK, dict(_JSON_HEADERS), serializer.DumpBytes([False, text])


def _Clip(text: str) -> str:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return ascii(shown)


def _HeaderValue(text: str) -> str:
    """Return ``text`` without anything that could end a header line."""
    return "".join(char for char in text if " " <= char <= "~")
