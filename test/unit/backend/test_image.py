"""Filling a disk from an image: never more than the disk has room for, and no file that not everybody may read."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.allocator import Lease

from ganeti import errors, runtime
from ganeti.backend import blockdev
from ganeti.storage import base

MIB = 1 << 20
SECRET = b"a secret"
TROUBLE = "disk: cannot be filled"


class Server:
    """Serves ``content`` under every path, without saying how long it is; ``asked``: the paths."""

    def __init__(self) -> None:
        self.content = b""
        self.asked: list[str] = []
        self.goes_to: str | None = None
        self.status = 200
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                self.send_response(302 if server.goes_to else server.status)
                if server.goes_to:
                    self.send_header("Location", server.goes_to)
                self.end_headers()
                try:
                    self.wfile.write(server.content)
                except OSError:
                    pass  # the client has enough

            def log_message(self, *args: Any) -> None:
                pass

        self._lease = Lease()
        address, port = self._lease.Address(), self._lease.Port()
        self.place = f"{address}:{port}"
        self._http = http.server.ThreadingHTTPServer((address, port), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))
        self._thread.start()

    def Close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self._lease.Release()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.Close()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.write_bytes(b"old" * 100)
    os.truncate(path, MIB)
    return path


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A directory that everybody may enter, in spite of those of the test above it."""
    above = [folder for folder in (tmp_path, *tmp_path.parents) if not folder.stat().st_mode & 0o001]
    modes = {folder: folder.stat().st_mode & 0o7777 for folder in above}
    for folder, mode in modes.items():
        folder.chmod(mode | 0o001)
    yield tmp_path
    for folder, mode in modes.items():
        folder.chmod(mode)


def Fill(disk: Path, image: object) -> None:
    blockdev.FillFromImage(base.BuildImport(str(disk)), str(image), 1, TROUBLE)


@pytest.mark.parametrize("command", [base.BuildWipe("/dev/full", 0, 1), base.BuildImport("/dev/full")])
def test_a_full_disk_is_the_reason_that_is_named(command: list[str]) -> None:
    """Not the statistics of dd.  /dev/full can neither be written past the cache nor synced."""
    through = [word.replace("oflag=direct", "oflag=dsync").replace(",fsync", "") for word in command]
    assert "No space left on device" in runtime.RunCmd(through, stdin=b"data").fail_reason


@pytest.mark.parametrize("size", [0, 5, MIB - 1, MIB])
def test_the_content_of_a_url_that_fits(server: Server, disk: Path, size: int) -> None:
    before = disk.read_bytes()
    server.content = os.urandom(size)
    Fill(disk, f"http://{server.place}/image")
    assert disk.read_bytes() == server.content + before[size:]


@pytest.mark.parametrize("size", [MIB + 1, 2 * MIB, 30 * MIB])
def test_the_content_of_a_url_that_is_larger_than_the_disk(server: Server, disk: Path, size: int) -> None:
    server.content = b"x" * size
    with pytest.raises(errors.RpcCallError, match=f"{TROUBLE}: it is larger than the disk, which has 1 MiB"):
        Fill(disk, f"http://{server.place}/image")
    assert disk.stat().st_size == MIB


def test_patterns_in_a_url_are_none(server: Server, disk: Path) -> None:
    server.content = b"x"
    Fill(disk, f"http://{server.place}/[1-5]{{a,b}}")
    assert server.asked == ["/[1-5]{a,b}"]


def test_a_server_cannot_lead_to_a_file_of_the_node(server: Server, disk: Path, public: Path) -> None:
    (public / "secret").write_bytes(SECRET)
    server.goes_to = f"file://{public}/secret"
    with pytest.raises(errors.RpcCallError, match=TROUBLE):
        Fill(disk, f"http://{server.place}/image")
    assert SECRET not in disk.read_bytes()


def test_an_error_page_is_no_image(server: Server, disk: Path) -> None:
    before = disk.read_bytes()
    server.status, server.content = 404, b"not here"
    with pytest.raises(errors.RpcCallError, match=TROUBLE):
        Fill(disk, f"http://{server.place}/image")
    assert disk.read_bytes() == before


def test_a_file_that_everybody_may_read(disk: Path, public: Path) -> None:
    (public / "image").write_bytes(b"image")
    (public / "link").symlink_to("image")
    Fill(disk, public / "link")
    assert disk.read_bytes().startswith(b"image")
    assert disk.stat().st_size == MIB


@pytest.mark.parametrize(
    ("folder", "file", "problem"), [(0o755, 0o640, "chmod o+r"), (0o700, 0o644, "private may not be entered")]
)
@pytest.mark.parametrize("by_link", [False, True])
def test_a_file_that_not_everybody_may_read(
    disk: Path, public: Path, folder: int, file: int, problem: str, by_link: bool
) -> None:
    """Neither by its own name nor by that of a link that everybody can read."""
    private = public / "private"
    private.mkdir()
    (private / "key").write_bytes(SECRET)
    (private / "key").chmod(file)
    (public / "link").symlink_to(private / "key")
    private.chmod(folder)
    with pytest.raises(errors.RpcCallError, match=problem.replace("+", "[+]")):
        Fill(disk, public / "link" if by_link else private / "key")
    assert SECRET not in disk.read_bytes()


def test_what_is_no_file(disk: Path, public: Path) -> None:
    os.mkfifo(public / "pipe")  # nobody writes to it: it must not be waited for
    with pytest.raises(errors.RpcCallError, match="not a regular file"):
        Fill(disk, public / "pipe")
    with pytest.raises(errors.RpcCallError, match="No such file"):
        Fill(disk, public / "missing")
    (public / "large").write_bytes(b"x" * (MIB + 1))
    with pytest.raises(errors.RpcCallError, match="1048577 bytes, the disk only 1 MiB"):
        Fill(disk, public / "large")


class Exchanging:
    """A side of the process on which somebody does something when the image has been looked at."""

    def __init__(self, exchange: Callable[[], None]):
        self._side, self._exchange = runtime.CurrentSide(), exchange

    def __getattr__(self, name: str) -> object:
        return getattr(self._side, name)

    def RunCmd(self, *args: object) -> object:
        self._exchange()
        return self._side.RunCmd(*args)


def FillMeanwhile(disk: Path, image: Path, exchange: Callable[[], None]) -> str:
    before = runtime.CurrentSide()
    runtime.EnterSide(Exchanging(exchange))
    try:
        with pytest.raises(errors.RpcCallError) as caught:
            Fill(disk, image)
    finally:
        runtime.EnterSide(before)
    assert SECRET not in disk.read_bytes()
    return str(caught.value)


@pytest.fixture(name="secret")
def _Secret(public: Path) -> Path:
    secret = public / "private" / "image"
    secret.parent.mkdir()
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    return secret


def test_a_file_that_is_exchanged_meanwhile(disk: Path, public: Path, secret: Path) -> None:
    image = public / "image"
    image.write_bytes(b"image")

    def exchange() -> None:
        image.unlink()
        image.symlink_to(secret)

    assert "symbolic links" in FillMeanwhile(disk, image, exchange)


@pytest.mark.skipif(os.geteuid() != 0, reason="whoever runs this may read the file")
def test_a_directory_that_is_exchanged_meanwhile(disk: Path, public: Path, secret: Path) -> None:
    """What can be checked by name can be exchanged; the rights of whoever reads cannot."""
    image = public / "mine" / "image"
    image.parent.mkdir()
    image.write_bytes(b"image")

    def exchange() -> None:
        image.parent.rename(public / "away")
        image.parent.symlink_to(secret.parent)

    assert "Permission denied" in FillMeanwhile(disk, image, exchange)


def test_a_pipe_in_the_place_of_the_file(disk: Path, public: Path) -> None:
    """Nobody writes to it, and nobody waits for that."""
    image = public / "image"
    image.write_bytes(b"image")

    def exchange() -> None:
        image.unlink()
        os.mkfifo(image)

    before, side = disk.read_bytes(), runtime.CurrentSide()
    runtime.EnterSide(Exchanging(exchange))
    try:
        Fill(disk, image)
    finally:
        runtime.EnterSide(side)
    assert disk.read_bytes() == before
