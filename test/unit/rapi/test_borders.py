"""What the room of RAPI may know: the master only over LUXI, and resources nothing of an encoding."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

import pytest
from support.virtualnode import TOP

ROOM = os.path.join(TOP, "lib", "rapi")


def _Imports(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (file, imported name) with full names."""
    for base, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".py"):
                continue
            with open(os.path.join(base, name), encoding="utf-8") as stream:
                tree = ast.parse(stream.read())
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    yield from ((name, alias.name) for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield from ((name, f"{node.module}.{alias.name}") for alias in node.names)


@pytest.mark.req("D20-RAPI-03")
def test_the_master_is_reached_over_luxi_only():
    inside = ("rpc", "config", "jqueue", "cmdlib", "mcpu", "locking", "master", "store", "server", "backend", "storage")
    found = list(_Imports(ROOM))
    assert [
        (file, name) for file, name in found if name.split(".")[:1] == ["ganeti"] and name.split(".")[1] in inside
    ] == []
    assert {file for file, name in found if name.startswith("ganeti.luxi.client")} == {"main.py", "master.py"}
    submitting = [file for file, name in found if name in ("ganeti.rapi.master.MasterPool",)]
    assert submitting == ["main.py"]


@pytest.mark.req("D20-RAPI-09")
def test_resources_know_nothing_of_the_encoding():
    used = {name for _, name in _Imports(os.path.join(ROOM, "resources"))}
    assert not [name for name in used if name.split(".")[0] in ("json", "simplejson") or name.endswith("serializer")]
