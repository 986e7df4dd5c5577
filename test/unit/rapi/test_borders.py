"""What the room of RAPI may know: the master only over LUXI, and resources nothing of an encoding."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import sources
from support.fakemaster import FakeMaster
from support.rapi import WRITER, Site
from support.rapicalls import NAMES, Methods
from support.virtualnode import TOP

from ganeti import pathutils
from ganeti.rapi.declared import Job
from ganeti.rapi.master import MasterPool

ROOM = os.path.join(TOP, "lib", "rapi")
JSON = "application/json"


def _Imports(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (file, imported name) with full names."""
    for base, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".py"):
                continue
            with open(os.path.join(base, name), encoding="utf-8") as stream:
                tree = sources.Parse(stream.read())
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    yield from ((name, alias.name) for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield from ((name, f"{node.module}.{alias.name}") for alias in node.names)


class _Doors:
    """Which files this thread opens, which programs it starts and whom it calls, while it is watched."""

    def __init__(self) -> None:
        self.called: list[Any] = []
        self.opened: list[str] = []
        self.started: list[Any] = []
        self.watching = False
        self._thread = threading.get_ident()  # the master daemon of the test has others
        sys.addaudithook(self._Hear)  # stays until the process ends

    def _Hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watching or threading.get_ident() != self._thread:
            return
        if event == "socket.connect":
            self.called.append(args[1])
        elif event == "open" and isinstance(args[0], str):
            self.opened.append(args[0])
        elif event in ("subprocess.Popen", "os.posix_spawn", "os.system", "os.exec", "os.fork"):
            self.started.append(args[0] if args else event)


@pytest.mark.req("D20-RAPI-03")
def test_the_master_is_reached_over_luxi_only(tmp_path: Path) -> None:
    socket = str(tmp_path / "luxi")
    master = FakeMaster(socket)
    doors = _Doors()

    async def ask_all() -> list[str]:
        pool = MasterPool(path=socket)
        site = Site(str(tmp_path / "users"), master=pool)
        jobs = []
        for resource, verb, method in Methods():
            if method.media != JSON or resource.path.endswith("/wait"):
                continue  # streams and what waits
            body = b"" if verb == "GET" else method.example if method.example is not None else {}
            await site.Send(verb, resource.path.format(**NAMES), body, headers=WRITER)
            if isinstance(method.action, Job) and method.example is not None:
                jobs.append(method.action)
        pool.Close()
        return jobs

    doors.watching = True
    try:
        jobs = asyncio.run(ask_all())
    finally:
        doors.watching = False
        master.Shutdown()
    assert set(doors.called) == {socket}
    assert len(master.submitted) >= len(jobs) > 10
    assert doors.started == []
    data = (pathutils.DATA_DIR, pathutils.QUEUE_DIR, pathutils.RUN_DIR)
    assert [path for path in doors.opened if path.startswith(data) and "ssconf_" not in path] == []


@pytest.mark.req("D20-RAPI-03")
def test_nothing_of_the_masters_side_is_imported() -> None:
    inside = ("rpc", "config", "jqueue", "cmdlib", "mcpu", "locking", "master", "store", "server", "backend", "storage")
    found = list(_Imports(ROOM))
    assert [
        (file, name) for file, name in found if name.split(".")[:1] == ["ganeti"] and name.split(".")[1] in inside
    ] == []
    assert {file for file, name in found if name.startswith("ganeti.luxi.client")} == {"main.py", "master.py"}


@pytest.mark.req("D20-RAPI-09")
def test_resources_know_nothing_of_the_encoding() -> None:
    """They return values; what else they answer with says its own media type."""
    found = list(_Imports(os.path.join(ROOM, "resources")))
    used = {name for _, name in found}
    assert not [name for name in used if name.split(".")[0] in ("json", "simplejson") or name.endswith("serializer")]
    responding = {file for file, name in found if name.startswith("starlette") or name.endswith("JsonResponse")}
    others = {
        method.action.__class__.__module__.rpartition(".")[2] for _, _, method in Methods() if method.media != JSON
    }
    assert responding <= {f"{name}.py" for name in others}
