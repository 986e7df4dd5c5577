"""Many commands of a node, one after the other and quickly: each in a fork of one warmed process.

::

    with CommandLine(node) as line:
        done = line.Run("gnt-node", "list", "nobody")       # .code .out .err

What runs is the real main program with descriptors of its own; no terminal, so questions get their last answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from support import patience
from support.virtualnode import VirtualNode

# Seconds after which a command is ended.
TIMEOUT = int(40 * patience.MOST)


class Done(NamedTuple):
    """What a command left behind; ``code`` is negative when a signal ended it."""

    code: int
    out: str
    err: str


class CommandLine:
    """The commands of one node."""

    def __init__(self, node: VirtualNode):
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from support import commandline; commandline.Serve()"],
            env=node.Environment(PYTHONPATH=os.pathsep.join(_Paths()), TZ="UTC"),
            cwd=node.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> CommandLine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.Close()

    def Run(self, *argv: str, stdin: str = "") -> Done:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([argv, stdin]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process that runs commands ended at {argv}"
        return Done(*json.loads(answer))

    def Quietly(self, *argv: str) -> Done:
        """Runs a command that may fail, but never with a traceback."""
        done = self.Run(*argv)
        assert "Traceback" not in done.err + done.out
        return done

    def Must(self, *argv: str) -> str:
        """What a command prints that succeeds."""
        done = self.Quietly(*argv)
        assert done.code == 0, done.out + done.err
        return done.out

    def Close(self) -> None:
        self._process.communicate(timeout=TIMEOUT)


def _Paths() -> list[str]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [os.path.dirname(here), here]


# --- in the process that runs commands ----------------------------------------------------------------------------------


def Serve() -> None:
    """Reads commands from standard input, a line each, and answers with what they left."""
    _Warm()
    for line in sys.stdin:
        argv, stdin = json.loads(line)
        answer = json.dumps(_RunOne(argv, stdin))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _Warm() -> None:
    """Imports what every command would import anew."""
    from ganeti import opcodes  # noqa: F401
    from ganeti.cli import failures, lists, main, tables  # noqa: F401
    from ganeti.cli.command import PROGRAMS, LoadProgram

    for name in PROGRAMS:
        program = LoadProgram(name)
        for command in program.commands:
            program.Load(command)


def _RunOne(argv: list[str], stdin: str) -> tuple[int, str, str]:
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    os.write(files[0], stdin.encode())
    os.lseek(files[0], 0, os.SEEK_SET)
    pid = os.fork()
    if pid == 0:
        _Child(argv, files)
    status = os.waitpid(pid, 0)[1]
    texts = []
    for number in files[1:]:
        size = os.lseek(number, 0, os.SEEK_END)
        texts.append(os.pread(number, size, 0).decode("utf-8", "replace"))
    for number in files:
        os.close(number)
    return (os.waitstatus_to_exitcode(status), *texts)


def _Child(argv: list[str], files: list[int]) -> Any:
    import signal

    code = 70
    try:
        for number, descriptor in enumerate(files):
            os.dup2(descriptor, number)
        os.closerange(3, 64)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        signal.alarm(TIMEOUT)
        from ganeti.cli.main import Main

        sys.argv = list(argv)
        try:
            code = Main() or 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - a traceback is what tests look for
            import traceback

            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
