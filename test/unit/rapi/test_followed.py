"""Files that are read again when they change, however they are replaced."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ganeti.rapi.transport.followed import FollowedFiles

_LIMIT = 30.0
_INTERVAL = 0.05
_NEVER = 1000.0


class _Reader:
    """What a daemon knows of a file: its text as it was when a change was announced."""

    def __init__(self, path: Path, interval: float = _INTERVAL):
        self._path = path
        self._came = asyncio.Event()
        self.text: str | None = None
        self.followed = FollowedFiles([str(path)], self._Read, interval)
        self.followed.Start()
        self._Read()

    def _Read(self) -> None:
        self.text = self._path.read_text() if self._path.exists() else None
        self._came.set()

    async def Until(self, text: str | None) -> None:
        async with asyncio.timeout(_LIMIT):
            while self.text != text:
                self._came.clear()
                await self._came.wait()


def _Replace(path: Path, text: str) -> None:
    new = path.with_name("new")
    new.write_text(text)
    new.rename(path)


def _Written(path: Path) -> None:
    path.write_text("new")


def _Renamed(path: Path) -> None:
    _Replace(path, "new")


def _FolderReplaced(path: Path) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.parent.mkdir()
    path.write_text("new")


def _LinkTargetWritten(path: Path) -> None:
    Path(os.readlink(path)).write_text("new")


def _LinkTargetReplaced(path: Path) -> None:
    _Replace(Path(os.readlink(path)), "new")


def _Link(path: Path) -> None:
    target = path.parent.with_name("elsewhere") / "target"
    target.parent.mkdir()
    path.rename(target)
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("prepare", "change"),
    [
        (None, _FolderReplaced),
        (_Link, _LinkTargetWritten),
        (_Link, _LinkTargetReplaced),
    ],
)
def test_what_inotify_does_not_report_is_noticed_by_comparison(
    tmp_path: Path, prepare: Callable[[Path], None] | None, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "rapi" / "users"
    path.parent.mkdir()
    path.write_text("first")
    if prepare is not None:
        prepare(path)

    async def run() -> None:
        reader = _Reader(path)
        change(path)
        await reader.Until("new")
        reader.followed.Stop()

    asyncio.run(run())


@pytest.mark.parametrize("change", [_Written, _Renamed])
def test_a_change_in_the_folder_is_noticed_at_once(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "users"
    path.write_text("first")

    async def run() -> None:
        reader = _Reader(path, _NEVER)
        change(path)
        await reader.Until("new")
        path.unlink()
        await reader.Until(None)
        reader.followed.Stop()

    asyncio.run(run())


def test_a_folder_that_is_made_later_is_watched_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "rapi" / "users"

    async def run() -> None:
        reader = _Reader(path)
        path.parent.mkdir()
        path.write_text("first")
        await reader.Until("first")
        _FolderReplaced(path)
        await reader.Until("new")
        assert reader.followed._timer is not None
        reader.followed._timer.cancel()  # from here on only inotify can notice
        _Replace(path, "newer")
        await reader.Until("newer")
        reader.followed.Stop()

    asyncio.run(run())


def test_what_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("first")

    async def run() -> None:
        reads = 0

        def read() -> None:
            nonlocal reads
            reads += 1

        followed = FollowedFiles([str(path)], read, 0.001)
        followed.Start()
        other = _Reader(tmp_path / "other", 0.001)
        for number in range(20):
            (tmp_path / "other").write_text(str(number))
            await other.Until(str(number))
        followed.Stop()
        other.followed.Stop()
        assert reads == 0

    asyncio.run(run())
