"""Who listens at the socket of the master daemon."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.luxi import client, protocol
from ganeti.rapi.master import MasterPool
from ganeti.rapi.requests.call import HttpError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

NOBODY = 65534
# The end of its standard input ends it; what it was asked goes to its standard output.
_LISTEN = """
import os, socket, sys, threading
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
os.setuid(int(sys.argv[2]))
sock.listen(5)
print("up", flush=True)
def serve():
    while True:
        print(sock.accept()[0].recv(100), flush=True)
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()
"""


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[str]:
    """A socket at which another user listens; at the end of the test nothing may have been said to him."""
    path = str(tmp_path / "query")
    argv = [sys.executable, "-I", "-c", _LISTEN, path, str(NOBODY)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        yield path
        said = process.communicate("")[0]
    assert set(said.splitlines()) <= {"b''"}


def test_a_stranger_is_not_asked(stranger: str) -> None:
    with pytest.raises(protocol.StrangerError, match=f"user {NOBODY} listens at {stranger}") as caught:
        client.Client(stranger).QueryClusterInfo()
    assert caught.value.hint and stranger in caught.value.hint


def test_the_remote_interface_does_not_ask_him_either(stranger: str) -> None:
    async def story() -> None:
        with pytest.raises(HttpError, match="poses as the master daemon") as caught:
            await MasterPool(path=stranger).Call("QueryClusterInfo")
        assert caught.value.code == 502

    asyncio.run(asyncio.wait_for(story(), 30))


def test_root_is_no_stranger(tmp_path: Path) -> None:
    path = str(tmp_path / "query")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client.Transport(path).Close()
