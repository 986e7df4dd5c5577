"""Golden stories of the command line: a file holds commands and what they say; a flag writes it anew.

::

    # text for the reader
    % directive words...           sets the scene, see Story._Direct
    $ gnt-job list                 run as on the master node
    ID Status Summary              its stdout,
    ! Warning: ...                 stderr, each line with an exclamation mark
    = 1                            exit code unless 0
    > OP_TEST_DELAY {"duration": 1.0}     what was submitted, without defaults
    < ["CancelJob", 7, false]      other calls that change something

Without ``--regenerate-golden`` the text must be what the commands say now.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import time
from typing import Any

from ganeti import opcodes, serializer
from support import configs, patience
from support.fakemaster import FakeMaster
from support.virtualnode import TOP, VirtualNode

_MASTER = "node1.example.org"
# Fields that are the same in every opcode of a command line, or hold the time.
_NANOSECONDS = re.compile(r"\b1\d{18}\b")
_HIDDEN = ("OP_ID", "reason", "debug_level")
STARTER = "import sys\nfrom ganeti.cli.main import Main\nsys.argv[0] = sys.argv.pop(1)\nsys.exit(Main())"


class Story:
    """Runs one golden file."""

    def __init__(self, directory: str):
        self.node = VirtualNode(directory, _MASTER)
        self.node.Write("/var/lib/ganeti/ssconf_cluster_name", "cluster.example.org\n")
        self.node.Write("/var/lib/ganeti/ssconf_master_node", _MASTER + "\n")
        self.master: FakeMaster | None = FakeMaster(self.node.Path("/var/run/ganeti/socket/ganeti-query"))
        self._answers: list[str] | None = None
        self._environment: dict[str, str] = {"TZ": "UTC"}
        self._lines: list[str] = []
        self._shown = 0
        self._called = 0

    def Close(self) -> None:
        if self.master is not None:
            self.master.Shutdown()
            self.master = None

    def Play(self, text: str) -> str:
        """The file as it should be."""
        for line in text.splitlines():
            if line.startswith("% "):
                self._lines.append(line)
                self._Direct(line[2:])
            elif line.startswith("#") or not line.strip():
                if line or not (self._lines and self._lines[-1] == ""):
                    self._lines.append(line)
            elif line.startswith("$ "):
                self._lines.append(line)
                self._Run(line[2:])
        return "\n".join(self._lines).rstrip("\n") + "\n"

    # --- setting the scene --------------------------------------------------------------------------------------------

    def _Direct(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        getattr(self, f"_Set_{word}")(rest)

    def _Set_result(self, rest: str) -> None:
        """OP_ID JSON: the next result of this opcode."""
        assert self.master is not None
        op_id, _, value = rest.partition(" ")
        self.master.results[op_id] = [*self.master.results.get(op_id, []), serializer.Load(value)]

    def _Set_forget(self, rest: str) -> None:
        """OP_ID: no results, logs, failures of this opcode any more."""
        assert self.master is not None
        for table in (self.master.results, self.master.logs, self.master.failures, self.master.statuses):
            table.pop(rest, None)

    def _Set_fail(self, rest: str) -> None:
        """OP_ID JSON: it ends with this encoded error."""
        assert self.master is not None
        op_id, _, value = rest.partition(" ")
        self.master.failures[op_id] = serializer.Load(value)

    def _Set_status(self, rest: str) -> None:
        """OP_ID STATUS."""
        assert self.master is not None
        op_id, status = rest.split()
        self.master.statuses[op_id] = status

    def _Set_log(self, rest: str) -> None:
        """OP_ID TEXT: a log entry."""
        assert self.master is not None
        op_id, _, text = rest.partition(" ")
        self.master.logs.setdefault(op_id, []).append(["message", text.encode().decode("unicode_escape")])

    def _Set_call(self, rest: str) -> None:
        """METHOD JSON: the answer of a LUXI method, or its encoded error."""
        assert self.master is not None
        method, _, value = rest.partition(" ")
        self.master.answers[method] = serializer.Load(value)

    def _Set_change(self, rest: str) -> None:
        """KIND UUID JSON: changes fields of an object of the configuration."""
        assert self.master is not None
        kind, uuid, changes = rest.split(" ", 2)
        snapshot = self.master.snapshot
        found = snapshot.cluster if kind == "cluster" else getattr(snapshot, kind)[uuid]
        self.master.snapshot = snapshot.WithObject(found.Replace(**serializer.Load(changes)))

    def _Set_put(self, rest: str) -> None:
        """KIND JSON: adds an object to the configuration, or changes the one with its UUID; values as they are stored."""
        assert self.master is not None
        kind, _, text = rest.partition(" ")
        snapshot, values = self.master.snapshot, serializer.Load(text)
        old = getattr(snapshot, f"{kind}s").get(values["uuid"])
        cls = next(cls for cls in configs.CLASSES if kind == cls.KIND)
        self.master.snapshot = snapshot.WithObject(cls.FromDict({**(old.ToDict() if old else {}), **values}))

    def _Set_file(self, rest: str) -> None:
        """NAME TEXT: a file in the directory in which commands run."""
        name, _, text = rest.partition(" ")
        self.node.Write("/" + name, text.encode().decode("unicode_escape"))

    def _Set_answers(self, rest: str) -> None:
        """WORD...: the next command runs at a terminal where these are typed."""
        self._answers = rest.split(" ")

    def _Set_environment(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self._environment[name] = value

    def _Set_stop(self, _rest: str) -> None:
        """The master daemon ends."""
        self.Close()

    def _Set_remove(self, rest: str) -> None:
        os.unlink(self.node.Path(rest))

    def _Set_write(self, rest: str) -> None:
        """PATH TEXT: a file of the node."""
        path, _, text = rest.partition(" ")
        self.node.Write(path, text + "\n")

    # --- commands -----------------------------------------------------------------------------------------------------

    def _Run(self, command: str) -> None:
        argv = [sys.executable, "-c", STARTER, *shlex.split(command)]
        environment = self.node.Environment(**self._environment)
        if self._answers is not None:
            answers, self._answers = self._answers, None
            stdout, stderr, code, terminal = _RunAtTerminal(argv, environment, self.node.root, answers)
            self._Add("", terminal.replace("\r\n", "\n"), prefix="| ")
        else:
            done = subprocess.run(
                argv, env=environment, cwd=self.node.root, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=50, start_new_session=True,
            )  # fmt: skip
            stdout, stderr, code = done.stdout, done.stderr, done.returncode
        self._Add("", stdout)
        self._Add("", stderr, prefix="! ")
        if code:
            self._lines.append(f"= {code}")
        self._ShowSubmitted()

    def _Add(self, _kind: str, text: str, prefix: str = "") -> None:
        text = _NANOSECONDS.sub("NANOSECONDS", text.replace(self.node.root, "ROOT"))
        for line in text.split("\n")[: -1 if text.endswith("\n") else None]:
            if line or text:
                self._lines.append((prefix + line).rstrip() if prefix else _Mark(line))

    def _ShowSubmitted(self) -> None:
        if self.master is None:
            return
        for ops in self.master.submitted[self._shown :]:
            self._lines.extend(f"> {_ShowOp(op)}" for op in ops)
        self._shown = len(self.master.submitted)
        self._lines.extend(
            f"< {_NANOSECONDS.sub('NANOSECONDS', serializer.Dump(call))}" for call in self.master.calls[self._called :]
        )
        self._called = len(self.master.calls)


def _Mark(line: str) -> str:
    """Output that would look like something else, or be lost, gets a full stop before it; blanks at its end are shown."""
    if line.endswith(" "):
        line += "$"
    return f".{line}" if not line or line[0] in "#%$!=><|." else line


def _ShowOp(op: dict[str, Any]) -> str:
    """The opcode without hidden fields and defaults."""
    specs = opcodes.OP_MAPPING[op["OP_ID"]].OP_PARAMS
    shown = {
        name: value
        for name, value in sorted(op.items())
        if name not in _HIDDEN
        and (specs[name].required or value != specs[name].default)
        and (name, value) != ("dry_run", False)
    }
    return f"{op['OP_ID']} {serializer.Dump(shown)}"


def _RunAtTerminal(
    argv: list[str], environment: dict[str, str], cwd: str, answers: list[str]
) -> tuple[str, str, int, str]:
    """Runs a program with a terminal of its own on which the answers are typed, each when it was asked for."""
    leader, follower = pty.openpty()
    import termios

    attributes = termios.tcgetattr(follower)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(follower, termios.TCSANOW, attributes)
    process = subprocess.Popen(
        [sys.executable, "-c", "import os, sys, fcntl, termios\nos.setsid()\n"
         "fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)\nos.execv(sys.argv[2], sys.argv[2:])", str(follower), *argv],
        env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        pass_fds=[follower],
    )  # fmt: skip
    os.close(follower)
    seen = b""
    asked = 0
    deadline = patience.Deadline(40)
    os.set_blocking(leader, False)
    while process.poll() is None and not deadline.Passed():
        try:
            seen += os.read(leader, 4096)
        except (BlockingIOError, OSError):
            time.sleep(0.01)
        if seen.count(b"?: ") > asked and answers:
            asked += 1
            os.write(leader, answers.pop(0).encode() + b"\n")
    try:
        seen += os.read(leader, 65536)
    except OSError:
        pass
    os.close(leader)
    stdout, stderr = process.communicate(timeout=10 * patience.MOST)
    return stdout, stderr, process.returncode, seen.decode()


GOLDEN = os.path.join(TOP, "test", "golden")
