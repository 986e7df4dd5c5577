"""The program import-export itself: its command line, its files, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.allocator import Lease
from support.realcluster import WaitUntil
from support.realtransfers import Pem
from support.virtualnode import TOP

from ganeti import runtime

_CODE = f"import sys; sys.path[:1] = [{TOP!r}]; from ganeti.tools.import_export import Main; sys.exit(Main())"


class Programs:
    """Runs of the program, each with a directory of its own; what still runs at the end is ended."""

    def __init__(self, base: Path, address: str):
        self.base = base
        self.address = address
        self.started: list[subprocess.Popen[str]] = []
        (base / "pem").write_text(Pem())

    def Argv(self, name: str, mode: str, *options: str) -> list[str]:
        (self.base / name).mkdir(exist_ok=True)
        keys = [f"--{key}={self.base}/pem" for key in ("key", "cert", "ca")]
        return [sys.executable, "-c", _CODE, *keys, *options, f"{self.base}/{name}/status", mode]

    def Start(self, name: str, mode: str, *options: str) -> subprocess.Popen[str]:
        argv = self.Argv(name, mode, *options)
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.started.append(process)
        return process

    def Status(self, name: str) -> dict[str, object]:
        try:
            return dict(json.loads((self.base / name / "status").read_text()))
        except FileNotFoundError:
            return {}

    def Port(self, name: str) -> str:
        return str(WaitUntil(lambda: self.Status(name).get("listen_port"), "it listens"))

    def Close(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture
def programs(tmp_path: Path, addresses: Lease) -> Iterator[Programs]:
    made = Programs(tmp_path, addresses.Address())
    yield made
    made.Close()


def test_both_ends(programs: Programs) -> None:
    base, address = programs.base, programs.address
    receiver = programs.Start("in", "import", f"--bind={address}", "--ipv4", f"--cmd-suffix=> {base}/target")
    sender = programs.Start(
        "out", "export", f"--host={address}", f"--port={programs.Port('in')}", "--cmd-prefix=echo data |", "--expected-size=1"
    )  # fmt: skip
    assert (sender.wait(30), receiver.wait(30)) == (0, 0)
    assert (base / "target").read_text() == "data\n"
    assert set(programs.Status("out")) == {
        "ctime", "mtime", "recent_output", "listen_port", "connected", "progress_mbytes", "progress_throughput",
        "progress_eta", "progress_percent", "exit_status", "error_message",
    }  # fmt: skip
    assert sender.stderr is not None and sender.stderr.read() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(programs: Programs, number: int) -> None:
    receiver = programs.Start("in", "import", f"--bind={programs.address}")
    programs.Port("in")
    receiver.send_signal(number)
    assert receiver.wait(30) == 1
    assert programs.Status("in")["error_message"] == "The transfer was stopped by a signal"


def test_its_pid_file_is_locked_as_long_as_it_lives(programs: Programs) -> None:
    receiver = programs.Start("in", "import", f"--bind={programs.address}")
    programs.Port("in")
    path = f"{programs.base}/in/pid"
    with pytest.raises(runtime.LockBusy) as caught:
        runtime.LockFile(path, timeout=0)
    assert caught.value.holder == receiver.pid
    assert os.stat(path).st_mode & 0o777 == 0o600
    receiver.terminate()
    receiver.wait(30)
    runtime.LockFile(path, timeout=0).release()


def test_a_directory_serves_one_transfer(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.Start("in", "import", f"--bind={programs.address}")
    programs.Port("in")
    other = programs.Start("in", "import", f"--bind={programs.address}")
    assert other.wait(30) != 0
    assert other.stderr is not None and "/in/pid is locked by process" in other.stderr.read()
    assert programs.Status("in")["exit_status"] is None


def test_a_directory_that_was_removed_meanwhile(programs: Programs) -> None:
    argv = programs.Argv("in", "import")
    (programs.base / "in").rmdir()
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert "in/pid: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["S"], "exactly two arguments"),
        (["S", "import", "x"], "exactly two arguments"),
        (["S", "send"], "'send' is not a mode"),
        (["S", "import", "--ipv4", "--ipv6"], "exclude each other"),
        (["S", "export", "--port=5"], "needs --host and --port"),
        (["S", "export", "--host=127.0.0.1"], "needs --host and --port"),
        (["S", "import", "--port=65536"], "--port: 65536"),
        (["S", "import", "--port=x"], "invalid integer value"),
        (["S", "import", "--bind=localhost"], "--bind: 'localhost'"),
        (["S", "import", "--bind=::1", "--ipv4"], "--bind: '::1'"),
        (["S", "import", "--compress=a/b"], "--compress: 'a/b'"),
        (["S", "import", "--magic=x y z"], "--magic needs 5 to 100"),
        (["S", "import", "--magic=1234"], "--magic needs 5 to 100"),
        (["S", "import", f"--magic={'x' * 101}"], "--magic needs 5 to 100"),
        (["S", "import", "--expected-size=-5"], "--expected-size: '-5'"),
        (["S", "import", "--expected-size=many"], "--expected-size: 'many'"),
        (["S", "import", "--connect-timeout=0"], "--connect-timeout must be positive"),
        (["S", "import", "--connect-retries=-1"], "must not be negative"),
        (["S", "import", "--unasked-timeout=0"], "--unasked-timeout must be positive"),
        (["S", "import", "--key="], "--key is missing"),
    ],
)
def test_mistakes_on_the_command_line(programs: Programs, words: list[str], complaint: str) -> None:
    argv = programs.Argv("in", "import")[:-2]
    result = subprocess.run([*argv, *words], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert result.stderr.startswith("Usage: import-export [options] STATUSFILE import|export\n\nimport-export: error: ")
    assert complaint in result.stderr
