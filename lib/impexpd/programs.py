"""The programs at this side's end of a transfer: the shell and the (de)compressor."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ganeti import errors, runtime
from ganeti.impexpd import TransferError
from ganeti.impexpd.loop import Loop

if TYPE_CHECKING:
    from ganeti.runtime import protocols

GRACE = runtime.KILL_DELAY
"""Seconds between asking programs to end and killing them: a script may have to unmount something."""

_TICK = 0.05
_READ = 65536
# A line of a program's output that is longer is cut.
_LINE = 4096


def BuildShell(prefix: str, suffix: str) -> list[str]:
    """Return the command of the local end: ``cat`` stands where the transport stands in 3.1."""
    return ["bash", "-o", "errexit", "-o", "pipefail", "-c", f"{prefix} cat {suffix}"]


class Child:
    """One program; ``role`` says what it does, for messages.  ``fed``: all of its input was written."""

    def __init__(self, role: str, program: protocols.Program):
        self.role = role
        self.program = program
        self.fed = False
        self.result: runtime.RunResult | None = None

    @property
    def succeeded(self) -> bool:
        return self.result is not None and not self.result.failed


class Programs:
    """All programs of a transfer.

    ``line`` gets each line that they write to their standard error, ``ended`` each program that has ended by itself.
    """

    def __init__(self, loop: Loop, line: Callable[[str], None], ended: Callable[[Child], None]):
        self.children: list[Child] = []
        self._loop = loop
        self._line = line
        self._ended = ended
        self._output = b""
        self._reader, self.errors = runtime.Pipe()
        os.set_blocking(self._reader, False)
        loop.Readable(self._reader, self._Gather)

    def Start(
        self,
        role: str,
        argv: Sequence[str],
        stdin: int,
        stdout: int,
        variables: dict[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Child:
        """Start a program; the environment is ours, with these variables.  Raises TransferError."""
        logging.info("Starting %s", runtime.RunResult(argv, None).cmd)
        try:
            program = runtime.StartProgram(
                argv,
                {**runtime.Environment(), **(variables or {})},
                stdin=stdin,
                stdout=stdout,
                stderr=self.errors,
                pass_fds=pass_fds,
            )
        except errors.RunCmdError as err:
            raise TransferError(str(err)) from err
        child = Child(role, program)
        self.children.append(child)
        self._loop.Readable(program.fileno(), lambda: self._NoteEnd(child, self._ended))
        return child

    def _NoteEnd(self, child: Child, tell: Callable[[Child], None]) -> None:
        if child.result is not None:
            return
        child.result = child.program.Result()
        if child.result is not None:
            self._loop.Forget(child.program.fileno())
            tell(child)

    @property
    def succeeded(self) -> bool:
        """Whether all have ended as they should."""
        return all(child.succeeded for child in self.children)

    def End(self) -> None:
        """End what still runs, and whatever the programs have left behind; return when nothing is left.

        What waits for storage that does not answer cannot be ended; after some seconds it is left alone.
        """
        self._ended = lambda child: None
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._Wait(0):
                for child in self.children:
                    child.program.Signal(number)
                self._Wait(GRACE)
        for child in self.children:
            self._NoteEnd(child, self._ended)
            if child.result is not None:
                child.program.Close()
            else:
                logging.error(
                    "Process %d of %s does not end, not even when it is killed", child.program.pid, child.role
                )
        os.close(self.errors)
        self._Gather()
        self._Print(self._output)
        self._loop.Forget(self._reader)
        os.close(self._reader)

    def _Wait(self, seconds: float) -> bool:
        """Wait until nothing of the programs runs; False if the time is over."""
        deadline = runtime.Monotonic() + seconds
        timer = 0

        def tick() -> None:
            nonlocal timer
            timer = self._loop.After(_TICK, tick)

        tick()
        self._loop.Run(lambda: not self._AnyRuns() or runtime.Monotonic() >= deadline)
        self._loop.Cancel(timer)
        return not self._AnyRuns()

    def _AnyRuns(self) -> bool:
        return any(child.program.Runs() for child in self.children)

    def _Gather(self) -> None:
        """Read what the programs have written, and pass on the lines that are complete."""
        while True:
            try:
                data = os.read(self._reader, _READ)
            except BlockingIOError:
                return
            if not data:
                self._loop.Forget(self._reader)
                return
            *lines, self._output = (self._output + data).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                self._Print(line)
            if len(self._output) > _LINE:
                self._Print(self._output)
                self._output = b""

    def _Print(self, line: bytes) -> None:
        text = line[:_LINE].decode("utf-8", "replace").strip()
        if text:
            self._line(text)
