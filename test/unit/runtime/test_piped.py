"""Programs between descriptors, locks that they hold too, connections on which nothing is under way (the real machine only)."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulated import World
from support.allocator import Lease
from support.patience import Deadline

from ganeti import errors, runtime
from ganeti.utils import procfs


@pytest.fixture
def null() -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def _Wait(program: object) -> runtime.RunResult:
    deadline = Deadline(20)
    poller = runtime.Poller()
    poller.Register(program, runtime.IN)
    while (result := program.Result()) is None:  # type: ignore[attr-defined]
        assert not deadline.Passed()
        poller.Poll(1)
    poller.Close()
    return result  # type: ignore[no-any-return]


def test_a_program_between_two_pipes(null: int) -> None:
    to_read, to_write = runtime.Pipe(1 << 20)
    from_read, from_write = runtime.Pipe()
    program = runtime.StartProgram(["tr", "a-z", "A-Z"], stdin=to_read, stdout=from_write, stderr=null)
    os.close(to_read)
    os.close(from_write)
    assert program.Result() is None and program.Runs()
    # More than a pipe takes unasked, before anybody reads.
    assert os.write(to_write, b"data" * 50000) == 200000
    os.close(to_write)
    with open(from_read, "rb") as stream:
        assert stream.read() == b"DATA" * 50000
    result = _Wait(program)
    assert (result.exit_code, result.failed) == (0, False) and not program.Runs()
    program.Close()
    assert program.Result() is not None and program.Result().exit_code == 0  # type: ignore[union-attr]
    program.Close()
    program.Signal(9)


@pytest.mark.parametrize(("script", "code", "number"), [("exit 7", 7, None), ("kill -9 $$", None, 9)])
def test_how_a_program_ended(null: int, script: str, code: int | None, number: int | None) -> None:
    program = runtime.StartProgram(["sh", "-c", script], stdin=null, stdout=null, stderr=null)
    _Wait(program)
    for _ in range(2):
        result = program.Result()
        assert result is not None and (result.exit_code, result.signal, result.failed) == (code, number, True)
        program.Close()


def test_a_signal_reaches_the_whole_group_even_when_its_first_process_has_ended(null: int, tmp_path: Path) -> None:
    script = f"sleep 300 </dev/null & echo $! > {tmp_path}/pid"
    program = runtime.StartProgram(["sh", "-c", script], stdin=null, stdout=null, stderr=null)
    _Wait(program)
    left = int((tmp_path / "pid").read_text())
    assert program.Runs() and runtime.ProcessAlive(left)
    assert left in procfs.InSession(os.getsid(0)) and left not in procfs.InSession(program.pid)
    program.Signal(signal.SIGTERM)
    deadline = Deadline(20)
    while program.Runs():
        assert not deadline.Passed()
    assert not runtime.ProcessAlive(left)
    program.Close()


def test_it_gets_the_environment_and_the_descriptors_that_are_given(null: int) -> None:
    reader, writer = runtime.Pipe()
    other_read, other_write = runtime.Pipe()
    program = runtime.StartProgram(
        ["/bin/bash", "-c", f"echo $OURS $LC_ALL; echo more >&{other_write}; echo lost >&{reader}"],
        {"OURS": "1"},
        stdin=null,
        stdout=writer,
        stderr=null,
        pass_fds=[other_write],
    )
    os.close(writer)
    os.close(other_write)
    with open(reader) as stream, open(other_read) as other:
        assert (stream.read(), other.read()) == ("1\n", "more\n")
    assert _Wait(program).failed
    program.Close()


def test_a_program_that_cannot_be_started(null: int) -> None:
    with pytest.raises(errors.RunCmdError, match="command '/no/such x': program not found"):
        runtime.StartProgram(["/no/such", "x"], stdin=null, stdout=null, stderr=null)
    with pytest.raises(errors.RunCmdError, match="cannot be run"):
        runtime.StartProgram(["true"], {"A": "\0"}, stdin=null, stdout=null, stderr=null)


def test_a_lock_lasts_as_long_as_a_program_that_has_it(null: int, tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    reader, writer = runtime.Pipe()
    with runtime.LockFile(path) as lock:
        lock.Write(b"4711\n")
        program = runtime.StartProgram(["cat"], stdin=reader, stdout=null, stderr=null, pass_fds=[lock.fileno()])
    os.close(reader)
    with pytest.raises(runtime.LockBusy) as caught:
        runtime.LockFile(path, exclusive=False, timeout=0)
    assert caught.value.holder == 4711
    os.close(writer)
    _Wait(program)
    runtime.LockFile(path, timeout=0).release()
    program.Close()


def test_only_a_limit_of_silence_minds_a_peer_that_reads_nothing(addresses: Lease) -> None:
    with runtime.ListenTcp(addresses.Address(), 0) as listener:  # type: ignore[attr-defined]
        for limited in (True, False):
            sock = runtime.ConnectTcp(*listener.getsockname()[:2], 20)
            peer, _ = listener.accept()
            if limited:
                runtime.LimitSilence(sock.fileno(), 1.0)
            else:
                runtime.KeepAlive(sock.fileno(), 1, 1, 2)
            sock.setblocking(False)
            poller = runtime.Poller()
            try:
                while True:
                    sock.send(b"x" * 65536)
            except BlockingIOError:
                pass
            poller.Register(sock, runtime.ERR)
            # Longer than a peer that answers nothing would have.
            ended = bool(poller.Poll(20 if limited else 4))
            assert ended is limited
            poller.Close()
            sock.close()
            peer.close()


def test_keepalive_is_what_was_asked_for(addresses: Lease) -> None:
    with socket.create_server((addresses.Address(), 0)) as listener:
        sock = runtime.ConnectTcp(*listener.getsockname(), 20)
        runtime.KeepAlive(sock.fileno(), 60, 10, 5)
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        values = [sock.getsockopt(socket.IPPROTO_TCP, name) for name in names]  # type: ignore[attr-defined]
        assert values == [60, 10, 5, 0] and sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)  # type: ignore[attr-defined]
        sock.close()


def test_a_simulated_process_has_no_descriptors() -> None:
    with World(1) as world:
        machine = world.AddMachine("node1")

        def tell() -> None:
            for action in (
                runtime.Pipe,
                lambda: runtime.StartProgram(["true"], stdin=0, stdout=1, stderr=2),
                lambda: runtime.LockFile("/lock").fileno(),
            ):
                with pytest.raises(errors.ProgrammerError, match="no descriptors"):
                    action()
            runtime.KeepAlive(5, 1, 1, 1)

        machine.Call(tell)
