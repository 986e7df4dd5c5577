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


class Part:
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

    def __init__(self, loop: Loop, line: Callable[[str], None], ended: Callable[[Part], None]):
        self.parts: list[Part] = []
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
    ) -> Part:
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
        part = Part(role, program)
        self.parts.append(part)
        self._loop.Readable(program.fileno(), lambda: self._NoteEnd(part, self._ended))
        return part

    def _NoteEnd(self, part: Part, tell: Callable[[Part], None]) -> None:
        if part.result is not None:
            return
        part.result = part.program.Result()
        if part.result is not None:
            self._loop.Forget(part.program.fileno())
            tell(part)

    @property
    def succeeded(self) -> bool:
        """Whether all have ended as they should."""
        return all(part.succeeded for part in self.parts)

    def End(self) -> None:
        """End what still runs, and whatever the programs have left behind; return when nothing is left.

        What waits for storage that does not answer cannot be ended; after some seconds it is left alone.
        """
        self._ended = lambda part: None
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._Wait(0):
                for part in self.parts:
                    part.program.Signal(number)
                self._Wait(GRACE)
        for part in self.parts:
            self._NoteEnd(part, self._ended)
            if part.result is not None:
                part.program.Close()
            else:
                logging.error("Process %d of %s does not end, not even when it is killed", part.program.pid, part.role)
        os.close(self.errors)
        self._Gather()
        self._Print(self._output)
        self._loop.Forget(self._reader)
        os.close(self._reader)

    def _Wait(self, seconds: float) -> bool:
        """Wait until nothing of the programs runs; False if the time is over."""
        deadline = runtime.Monotonic() + seconds
        moment = 0

        def tick() -> None:
            nonlocal moment
            moment = self._loop.After(_TICK, tick)

        tick()
        self._loop.Run(lambda: not self._Run() or runtime.Monotonic() >= deadline)
        self._loop.Cancel(moment)
        return not self._Run()

    def _Run(self) -> bool:
        return any(part.program.Runs() for part in self.parts)

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
