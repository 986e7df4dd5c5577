"""The file that pauses a watcher, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import MakeNodes, Node

from ganeti import errors, pathutils, runtime, watcherpause


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (made,) = MakeNodes(tmp_path, "node1.example.org")
    with made:
        yield made


def test_a_pause_ends(node: Node) -> None:
    now = runtime.Time()
    assert watcherpause.Read() is None and watcherpause.PausedUntil() is None
    watcherpause.Write(now + 3600)
    assert watcherpause.PausedUntil() == watcherpause.Read() == int(now + 3600)
    watcherpause.Write(now - 3600)
    assert watcherpause.PausedUntil() is None and watcherpause.Read() == int(now - 3600)
    watcherpause.Write(None)
    watcherpause.Write(None)
    assert watcherpause.Read() is None


@pytest.mark.parametrize("data", [b"", b"soon", b"inf", b"nan", b"1e999", b"\xff", b"1" * 101])
def test_a_damaged_file_pauses_nothing_and_is_named(node: Node, data: bytes) -> None:
    Path(pathutils.WATCHER_PAUSE_FILE).write_bytes(data)
    assert watcherpause.PausedUntil() is None
    with pytest.raises(errors.ParseError, match=r"watcher\.pause does not hold a time; remove it"):
        watcherpause.Read()
