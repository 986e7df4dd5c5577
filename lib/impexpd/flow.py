"""Moving bytes from a source to a sink, neither of which is ever waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from ganeti.impexpd.channel import PIECE
from ganeti.impexpd.loop import Loop

# After so many pieces others get their turn.
_TURNS = 16


class Source(Protocol):
    """Where bytes come from; ``Read`` returns them (valid until its next call), nothing at the end, None if there is nothing now."""

    def fileno(self) -> int: ...

    def Read(self) -> memoryview | None: ...


class Sink(Protocol):
    """Where bytes go; ``Write`` returns how many were taken, 0 if it is full, and raises BrokenPipeError if nobody reads them."""

    def fileno(self) -> int: ...

    def Write(self, data: memoryview) -> int: ...


class PipeSource:
    """The reading end of a pipe."""

    def __init__(self, descriptor: int):
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = memoryview(bytearray(PIECE))

    def fileno(self) -> int:
        return self._descriptor

    def Read(self) -> memoryview | None:
        try:
            return self._buffer[: os.readv(self._descriptor, [self._buffer])]
        except BlockingIOError:
            return None

    def Close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class PipeSink:
    """The writing end of a pipe."""

    def __init__(self, descriptor: int):
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def Write(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0

    def Close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Flow:
    """Moves all of a source to a sink.

    ``magic`` goes before it; ``passing`` sees every piece and returns what of it goes on; ``ended`` is called when all
    was taken, ``broken`` when nobody reads the sink any longer.
    """

    def __init__(
        self,
        loop: Loop,
        source: Source,
        sink: Sink,
        ended: Callable[[], None],
        broken: Callable[[], None],
        passing: Callable[[memoryview], memoryview] = lambda piece: piece,
        magic: bytes = b"",
    ):
        self._loop = loop
        self._source = source
        self._sink = sink
        self._ended = ended
        self._broken = broken
        self._passing = passing
        self._rest = memoryview(magic)
        self._stopped = False
        self._Wait()
        # Data may have come with the end of a handshake; then the socket does not become readable for it again.
        loop.After(0, self._Move)

    def _Wait(self) -> None:
        """Wait for the side that is to act next."""
        full = bool(self._rest)
        self._loop.Readable(self._source.fileno(), None if full else self._Move)
        self._loop.Writable(self._sink.fileno(), self._Move if full else None)

    def _Move(self) -> None:
        if self._stopped:
            return
        for _ in range(_TURNS):
            if self._rest:
                if not self._Write():
                    break
                continue
            piece = self._source.Read()
            if piece is None:
                break
            if not piece:
                self.Stop()
                self._ended()
                return
            self._rest = self._passing(piece)
        else:
            # The source may have received more than it gave, and then nothing would become readable.
            self._loop.After(0, self._Move)
        if not self._stopped:
            self._Wait()

    def _Write(self) -> bool:
        """Return whether the sink has taken anything."""
        try:
            taken = self._sink.Write(self._rest)
        except BrokenPipeError:
            self.Stop()
            self._broken()
            return False
        self._rest = self._rest[taken:]
        return taken > 0

    def Stop(self) -> None:
        """Move nothing more."""
        if not self._stopped:
            self._stopped = True
            self._loop.Readable(self._source.fileno(), None)
            self._loop.Writable(self._sink.fileno(), None)
