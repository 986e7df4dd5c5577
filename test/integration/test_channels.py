"""What the daemons of a cluster really listen on, beside the table of doc/security.rst."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.realcluster import RealCluster
from support.virtualnode import TOP

from ganeti import constants, pathutils

_LISTENING = "0A"


def _Inodes(pids: list[int]) -> set[str]:
    """The sockets that these processes have open."""
    links = []
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                links.append(os.readlink(f"{folder}/{name}"))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def _Channels(inodes: set[str], base: str) -> Iterator[str]:
    """Each open door as the page names it."""
    for protocol, states in (("tcp", (_LISTENING,)), ("tcp6", (_LISTENING,)), ("udp", ("07",)), ("udp6", ("07",))):
        for line in Path("/proc/net", protocol).read_text().splitlines()[1:]:
            cells = line.split()
            if cells[9] in inodes and cells[3] in states:
                yield f"{protocol[:3].upper()} {int(cells[1].rpartition(':')[2], 16)}"
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        cells = line.split()
        if len(cells) == 8 and cells[6] in inodes and cells[7].startswith(base):
            yield os.path.dirname(cells[7][cells[7].index("/var/") :]).replace(pathutils.RUN_DIR, "RUN")


@pytest.mark.req("D20-CORE-05")
def test_the_page_on_security_names_every_door_and_no_more() -> None:
    page = Path(TOP, "doc", "security.rst").read_text(encoding="utf-8")
    table = " ".join(page[page.index("Who may talk to whom") : page.index("The list of candidates")].split())
    with RealCluster(1) as cluster:
        cluster.StartWithRapi()
        node = cluster[0]
        node.StartConfd()
        pids = [node.Pid(daemon) for daemon in constants.DAEMONS]
        assert all(pids)
        open_doors = set(_Channels(_Inodes(pids), cluster.base))
        assert "TCP 1811" in open_doors and "RUN/socket" in open_doors
    named = set(re.findall(r"TCP \d+|UDP \d+|RUN/\w+", table))
    assert open_doors == named
