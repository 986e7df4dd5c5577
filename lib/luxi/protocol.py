"""The bytes of LUXI: messages, envelopes, limits and the errors of the transport (doc/reference/luxi.md 1, 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganeti import constants, errors, serializer

EOM = b"\x03"
MAX_MESSAGE = serializer.MAX_MESSAGE

INTERNAL = "internal"
"""The key of an answer's envelope that is there, and true, where the master daemon itself failed."""

_CHUNK_SIZE = 64 * 1024

# Connecting, all tries together; one read or write; polling time of WaitForJobChange.
CONNECT_TIMEOUT = 30
IO_TIMEOUT = 180
WAIT_TIMEOUT = (IO_TIMEOUT - 1) // 2


class ProtocolError(errors.LuxiError):
    """Talking to the master daemon failed."""


class ConnectionClosedError(ProtocolError):
    """The master daemon closed the connection."""


class TimeoutError(ProtocolError):  # noqa: A001  -- the name clients of the 2.x and 3.x libraries catch
    """The master daemon did not answer in time."""


class RequestError(ProtocolError):
    """The master daemon rejected the request."""


class InternalError(ProtocolError):
    """The master daemon failed at a request that it had accepted: a bug, of which its log says more."""


class NoMasterError(ProtocolError):
    """No master daemon listens here."""


class PermissionError(ProtocolError):  # noqa: A001
    """The socket of the master daemon may not be used by this user."""


class StrangerError(ProtocolError):
    """Somebody else than the master daemon listens at its socket."""


class MessageTooLarge(ProtocolError):
    """A message is over the limit."""


class Framer:
    """Cuts a stream of bytes into messages.

    A message is a list of chunks, so that the thread that moves bytes never copies a large one in one go.
    """

    __slots__ = ("_limit", "chunks", "size")

    def __init__(self, limit: int = MAX_MESSAGE):
        self._limit = limit
        self.chunks: list[bytearray] = []
        self.size = 0

    def Feed(self, data: bytes) -> list[list[bytearray]]:
        """Take received bytes, return the messages that are complete now.

        Raises MessageTooLarge; then the stream cannot be used further.
        """
        if EOM not in data:
            self._Keep(data)
            return []
        complete = []
        parts = data.split(EOM)
        for part in parts[:-1]:
            self._Keep(part)
            complete.append(self.chunks)
            self.chunks = []
            self.size = 0
        self._Keep(parts[-1])
        return complete

    def _Keep(self, data: bytes) -> None:
        if not data:
            return
        self.size += len(data)
        if self.size > self._limit:
            raise MessageTooLarge(f"A message is over the limit of {self._limit // 1024 // 1024} MiB")
        if self.chunks and len(self.chunks[-1]) < _CHUNK_SIZE:
            self.chunks[-1] += data  # whoever sends single bytes must not make millions of objects
        else:
            self.chunks.append(bytearray(data))


def EncodeRequest(method: str, args: list[Any] | tuple[Any, ...]) -> bytes:
    """Return the bytes of a call, end mark included; raises MessageTooLarge."""
    request = {"method": method, "args": args, "version": constants.LUXI_VERSION}
    message = serializer.DumpBytes(request) + EOM
    if len(message) > MAX_MESSAGE:
        raise MessageTooLarge(
            f"{method}: the request of {len(message)} bytes is over the limit of {MAX_MESSAGE}",
            hint="submit fewer jobs at once",
        )
    return message


def ReadRequest(request: Any) -> tuple[Any, Any]:
    """Return method and arguments of a parsed envelope, neither checked; raises ProtocolError.

    The version is not looked at, as in 3.x: whoever speaks the methods is welcome.
    """
    if not isinstance(request, dict):
        raise ProtocolError(f"A request is a JSON object, got {type(request).__name__}")
    for key in ("method", "args"):
        if key not in request:
            raise ProtocolError(f"The request has no key '{key}'")
    return request["method"], request["args"]


def DecodeResponse(data: bytes, load: Callable[[bytes], Any] = serializer.Load) -> Any:
    """Return the result of a call, or raise the error that it was answered with (doc/reference/luxi.md 2.1)."""
    try:
        response = load(data)
    except errors.ParseError as err:
        raise ProtocolError(f"The master daemon's answer is not valid: {err}") from err
    if not (isinstance(response, dict) and "success" in response and "result" in response):
        raise ProtocolError("The master daemon's answer has no 'success' or 'result'")
    version = response.get("version")
    if version is not None and version != constants.LUXI_VERSION:
        raise errors.LuxiError(
            f"The master daemon speaks version {version}, this program {constants.LUXI_VERSION}",
            hint="restart the master daemon after an upgrade, or use the programs of the same release",
        )
    result = response["result"]
    if response["success"]:
        return result
    plain = InternalError if response.get(INTERNAL) is True else RequestError
    error = errors.DecodeException(result) or plain(result)
    hint = response.get("hint")
    error.hint = hint if isinstance(hint, str) else None
    raise error
