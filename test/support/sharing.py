"""Two runs side by side share files of tests: each file is done, as a whole, by the run that comes to it first.

::

    pytest --share-first=DIR a b     whatever nobody else shares; then what both share, from the first file
    pytest --share-last=DIR c b      the same, from the last file

``DIR`` belongs to both; what is shared lies below ``SHARED``.  So neither has to be told how long the tests of the other take.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

import pytest

SHARED = "test/integration"


def AddOptions(parser: pytest.Parser) -> None:
    for end in ("first", "last"):
        parser.addoption(f"--share-{end}", metavar="DIR", help=f"share {SHARED} with another run, {end} file first")


def Register(config: pytest.Config) -> None:
    """Take part, if that is asked for."""
    for end in ("first", "last"):
        if folder := config.getoption(f"--share-{end}"):
            config.pluginmanager.register(_Share(config.rootpath / SHARED, Path(folder), backwards=end == "last"))


class _Share:
    """The pytest plugin of one of the two runs."""

    def __init__(self, shared: Path, folder: Path, backwards: bool):
        self._shared = shared
        self._folder = folder
        self._backwards = backwards
        # File -> whether it is ours.
        self._decided: dict[Path, bool] = {}

    def _IsShared(self, item: pytest.Item) -> bool:
        return self._shared in item.path.parents

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        alone = [item for item in items if not self._IsShared(item)]
        files = [list(group) for _, group in itertools.groupby(filter(self._IsShared, items), lambda item: item.path)]
        items[:] = itertools.chain(alone, *(reversed(files) if self._backwards else files))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if not self._IsShared(item):
            return None
        if item.path not in self._decided:
            self._decided[item.path] = self._Claim(item.path)
        # After a file of the other run only such follow, as that comes from the other end: none of ours finds what another
        # directory's tests have set up.
        return None if self._decided[item.path] else True

    def _Claim(self, path: Path) -> bool:
        mark = self._folder / str(path.relative_to(self._shared)).replace("/", "%")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            return True
        return False
