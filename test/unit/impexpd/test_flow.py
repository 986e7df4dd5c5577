"""A flow moves everything, whatever comes in which pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganeti import runtime
from ganeti.impexpd.flow import Flow, PipeSink, PipeSource
from ganeti.impexpd.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.Close()


class Hoard:
    """A source that receives everything at once and gives it in pieces, as TLS does: nothing becomes readable any more."""

    def __init__(self, pieces: list[bytes]):
        self._reader, writer = runtime.Pipe()
        os.write(writer, b"x")
        os.set_blocking(self._reader, False)
        self._writer = writer
        self._pieces = pieces
        self._received = False

    def fileno(self) -> int:
        return self._reader

    def Read(self) -> memoryview | None:
        if not self._received:
            try:
                os.read(self._reader, 1)
            except BlockingIOError:
                return None
            self._received = True
        return memoryview(self._pieces.pop(0) if self._pieces else b"")

    def Close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class Miser:
    """A sink that takes some bytes at a time, and sometimes none."""

    def __init__(self, portions: list[int]):
        self.taken = b""
        self._portions = portions
        self._reader, self._writer = runtime.Pipe()

    def fileno(self) -> int:
        return self._writer

    def Write(self, data: memoryview) -> int:
        portion = self._portions.pop(0) if self._portions else len(data)
        self.taken += data[:portion]
        return min(portion, len(data))

    def Close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=20), max_size=100),
    portions=st.lists(st.integers(0, 20), max_size=100),
    magic=st.binary(max_size=30),
)
def test_nothing_is_lost_and_it_ends(loop: Loop, pieces: list[bytes], portions: list[int], magic: bytes) -> None:
    source, sink = Hoard(list(pieces)), Miser(list(portions))
    over: list[str] = []
    seen: list[bytes] = []

    def passing(piece: memoryview) -> memoryview:
        seen.append(bytes(piece))
        return piece

    Flow(loop, source, sink, lambda: over.append("ended"), lambda: over.append("broken"), passing, magic)
    loop.After(30, lambda: over.append("too late"))
    loop.Run(lambda: bool(over))
    assert over == ["ended"] and seen == pieces
    assert sink.taken == magic + b"".join(pieces)
    source.Close()
    sink.Close()


def test_a_sink_that_nobody_reads(loop: Loop) -> None:
    reader, writer = runtime.Pipe()
    other_reader, other_writer = runtime.Pipe()
    os.write(writer, b"data")
    os.close(other_reader)
    source, sink = PipeSource(reader), PipeSink(other_writer)
    over: list[str] = []
    Flow(loop, source, sink, lambda: over.append("ended"), lambda: over.append("broken"))
    loop.Run(lambda: bool(over))
    assert over == ["broken"]
    os.close(writer)
    for _ in range(2):
        source.Close()
        sink.Close()
