"""A guest that took over its QEMU, and a local user who imitates one: what they say hides no guest and makes none."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.actors import Until
from support.nodes import MakeNodes, Node
from support.qmp import GREETING, Peer, Requests, Send

from ganeti import errors
from ganeti.hypervisor.kvm import layout, qmp, tuning
from ganeti.hypervisor.kvm.driver import KvmHypervisor
from ganeti.params import hv, runstate

NAME = "web.example.com"

# Becomes another program when it is told to: with the same number and the same start, and with any command line.
CHAMELEON = "import os, sys; sys.stdin.readline(); os.execv('/bin/sleep', ['sleep', '100', *['0' * 100000] * 15])"


@pytest.fixture
def node() -> Iterator[Node]:
    # Short, for the sake of the sockets.
    with tempfile.TemporaryDirectory(prefix="g") as folder, MakeNodes(Path(folder), "n")[0] as node:
        layout.MakeDirs()
        yield node


@pytest.fixture
def start(node: Node) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process that looks like the QEMU of a guest, and has its number in the guest's pid file."""
    started: list[subprocess.Popen[bytes]] = []

    def run(name: str = NAME, *words: str) -> subprocess.Popen[bytes]:
        pid_file = layout.PidFile(name)
        argv = [sys.executable, "-c", CHAMELEON, "-name", name, "-pidfile", pid_file, *words]
        started.append(subprocess.Popen(argv, stdin=subprocess.PIPE))
        Path(pid_file).write_text(f"{started[-1].pid}\n")
        # For an instant after it was started a process has no words.
        words_file = Path(f"/proc/{started[-1].pid}/cmdline")
        Until(lambda: pid_file.encode() in words_file.read_bytes())
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def Identity(text: str) -> None:
    Path(layout._IdentityFile(NAME)).write_text(text)


def test_a_process_that_hides_its_command_line_is_still_the_guest(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    process = start()
    assert layout.NoteProcess(NAME) is not None
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    Until(lambda: len(Path(f"/proc/{process.pid}/cmdline").read_bytes()) > 1024 * 1024)
    found = layout.FindProcess(NAME)
    assert found is not None and found.pid == process.pid, "or it could be started a second time, on the same disks"
    assert (found.memory, found.vcpus) == (0, 1)
    assert [info.name for info in KvmHypervisor().AllInfo()] == [NAME]


def test_another_process_with_the_number_and_the_words_of_a_guest_that_ended_is_not_the_guest(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    """A local user starts processes until one has the number that a crashed guest left in its pid file."""
    process = start()
    Identity(f"{process.pid} 1\n")
    assert layout.FindProcess(NAME) is None
    assert KvmHypervisor().AllInfo() == []


@pytest.mark.parametrize("noted", [None, "", "1 1\n"])
def test_guests_that_release_3_1_started_have_no_note_of_their_own(
    start: Callable[..., subprocess.Popen[bytes]], noted: str | None
) -> None:
    process = start()
    if noted is not None:
        Identity(noted)
    found = layout.FindProcess(NAME)
    assert found is not None and found.pid == process.pid


def test_numbers_of_any_length_in_a_command_line_hide_nobody(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    start("a.example.com", "-m", "9" * 5000, "-smp", "9" * 5000)
    start("b.example.com", "-m", "512", "-smp", "2")
    found = {info.name: (info.memory, info.vcpus, info.run_state) for info in KvmHypervisor().AllInfo()}
    silent = runstate.UNRESPONSIVE
    assert found == {"a.example.com": (0, 1, silent), "b.example.com": (512, 2, silent)}


# --- what it says over QMP --------------------------------------------------------------------------------------------

Answer = Callable[[dict[str, Any]], bytes]


def Rogue(answer: Answer) -> Callable[[socket.socket], None]:
    """Greet as QEMU does, then answer anything."""

    def serve(connection: socket.socket) -> None:
        Send(connection, GREETING)
        for request in Requests(connection):
            if request["execute"] == "qmp_capabilities":
                Send(connection, {"return": {}, **({"id": request["id"]} if "id" in request else {})})
            else:
                connection.sendall(answer(request) + b"\r\n")

    return serve


def Return(text: str) -> Answer:
    return lambda request: f'{{"return": {text}, "id": {json.dumps(request["id"])}}}'.encode()


def Raw(data: bytes) -> Answer:
    return lambda _: data


NONSENSE: list[Answer] = [
    Return("[" * 100_000 + "]" * 100_000),
    Return("9" * 5000),
    Return('"' + "x" * 12_000_000 + '"'),
    Raw(b"\xff\xfe{"),
    Raw(b"[1]"),
    Raw(b'{"return": {}, "id": [1]}'),
    Raw(b'{"error": 5, "id": {}}'),
    Raw(b'{"event": [1]}'),
]


@pytest.mark.parametrize("number", range(len(NONSENSE)))
def test_nonsense_from_one_guest_does_not_hide_another(tmp_path: Path, number: int) -> None:
    rogue = Peer(tmp_path / "rogue", Rogue(NONSENSE[number]))
    good = Peer(tmp_path / "good", Rogue(Return('{"status": "running"}')))
    try:
        found = qmp.AskMany({"rogue": rogue.path, "good": good.path}, ["query-status"], 3.0)
        assert found == {"rogue": None, "good": {"query-status": {"status": "running"}}}
        with pytest.raises(errors.HypervisorError, match=f"QMP {rogue.path}: query-status"):
            with qmp.Monitor(rogue.path) as monitor:
                monitor.Execute("query-status", timeout=0.5)
    finally:
        rogue.Close()
        good.Close()


ODD = ["null", "5", "-1", "true", '"x"', "[]", "[[]]", "{}", '{"actual": "x"}', '{"actual": 1e300}', '{"actual": [1]}']
ODD += [
    f'{{"actual": {2**64}}}',
    '{"actual": -5}',
    '{"status": ["running"]}',
    '{"status": {}, "ram": [1]}',
    '{"ram": 5}',
]


def test_answers_of_any_shape_leave_the_other_guests_in_the_list(
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    start("a.example.com", "-m", "64")
    start("b.example.com", "-m", "64")
    answers = {
        "query-status": '{"status": "running"}',
        "query-balloon": '{"actual": 1073741824}',
        "query-cpus-fast": "[{}]",
    }
    good = Peer(Path(layout.Socket("b.example.com", layout.LOOK)), Rogue(lambda r: Return(answers[r["execute"]])(r)))
    said: list[str] = []
    rogue = Peer(Path(layout.Socket("a.example.com", layout.LOOK)), Rogue(lambda request: Return(said[0])(request)))
    driver = KvmHypervisor()
    try:
        for text in ODD:
            said[:] = [text]
            a, b = driver.AllInfo()
            assert (b.memory, b.vcpus, b.run_state) == (1024, 1, runstate.RUNNING)
            assert a.name == "a.example.com" and a.vcpus == 1 and 0 <= a.memory <= 64
            assert driver.Look("a.example.com").state in (runstate.UNRESPONSIVE, runstate.STOPPED)
    finally:
        rogue.Close()
        good.Close()


def test_only_its_own_threads_are_bound_to_processors(tmp_path: Path) -> None:
    hvp = {**hv.DEFAULTS["kvm"], "cpu_mask": "0:0"}
    before = os.sched_getaffinity(os.getppid())
    for threads in ([1, os.getppid()], ["1", "--help"], [None, 1], [-1, 1]):
        said = json.dumps([{"thread-id": thread} for thread in threads])
        peer = Peer(tmp_path / f"qmp{time.monotonic_ns()}", Rogue(Return(said)))
        with qmp.Monitor(peer.path) as monitor, pytest.raises((errors.HypervisorError, TypeError, ValueError)):
            tuning.Pin(monitor, NAME, os.getpid(), hvp)
        peer.Close()
    assert os.sched_getaffinity(os.getppid()) == before
