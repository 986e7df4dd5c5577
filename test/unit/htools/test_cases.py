"""The programs print, write and decide what release 3.0.2 does (test/data/htools-cases)."""

from __future__ import annotations

import pathlib

import pytest
from support import htoolscases

from ganeti.tools.htools import main

_READY = [case for case in htoolscases.MANIFEST if htoolscases.Programs(case) <= set(main.ROLES)]


@pytest.mark.parametrize("case", _READY)
def test_case(case: str, tmp_path: pathlib.Path) -> None:
    found = htoolscases.RunCase(case, tmp_path)
    assert not found, "\n\n".join(found)
