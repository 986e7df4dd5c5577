"""One transfer from beginning to end: what flows where, when it is complete, and what is said when it fails."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ganeti import constants, errors, runtime
from ganeti.impexpd import TransferError, channel, compression
from ganeti.impexpd.channel import Channel
from ganeti.impexpd.connecting import Connecting
from ganeti.impexpd.flow import Flow, PipeSink, PipeSource
from ganeti.impexpd.listening import Listening
from ganeti.impexpd.loop import Loop
from ganeti.impexpd.programs import BuildShell, Child, Programs
from ganeti.impexpd.progress import SAMPLE_SECONDS, Progress
from ganeti.impexpd.settings import EXPORT, SIZE_FROM_DESCRIPTOR, SIZE_VARIABLE, Settings
from ganeti.impexpd.status import StatusFile

if TYPE_CHECKING:
    from ganeti.daemon.signals import StopSignal
    from ganeti.runtime import protocols

_MIB = 1 << 20
# The default limit of /proc/sys/fs/pipe-max-size.
_PIPE_ROOM = 1 << 20
# How long a program that closed its input has to exit, so that its exit code can be shown.
_BROKEN_SECONDS = 5.0
# How often within the time that a transfer may be forgotten it looks whether it is.
_LOOKS = 10
# Of what a program writes as the expected size.
_SIZE_LENGTH, _SIZE_DIGITS = 64, 18


class _ProgramFailed(TransferError):
    """A program failed; what it printed last may still be on its way."""


class Transfer:
    """What both directions have in common.

    ``lock``: a held lock that the programs are to hold as well, so that it lasts as long as anything of the transfer runs.
    """

    ROLE: str
    """What the shell's line does, for messages."""

    def __init__(self, settings: Settings, stop: StopSignal, lock: protocols.FileLock | None = None):
        self.settings = settings
        self._stop = stop
        self._inherited = () if lock is None else (lock.fileno(),)
        self._loop = Loop()
        self._status = StatusFile(settings.status_file)
        size = settings.expected_size
        self._progress = Progress(size * _MIB if isinstance(size, int) else None, runtime.Monotonic())
        self._programs = Programs(self._loop, self._NoteLine, self._ProgramEnded)
        self._channel: Channel | None = None
        self._flows: list[Flow] = []
        # What is closed at the end, whatever happened.
        self._ends: list[PipeSource | PipeSink] = []
        self._done = False
        # When somebody asked for the status: as the file says, and by our clock.
        self._asked, self._asked_at = self._LastAsked(), runtime.Monotonic()

    def Run(self) -> int:
        """Carry the transfer out; return the exit code.  The last status says how it ended."""
        self._status.Write()
        problem: Exception | None = None
        try:
            self._loop.Readable(self._stop.fileno(), self._Stopped)
            self._loop.After(SAMPLE_SECONDS, self._Sample)
            self._LookForOwner()
            compression.Check(self.settings.compress)
            self._Begin(channel.MakeContext(self.settings))
            self._loop.Run(lambda: self._done)
        except (errors.GenericError, OSError) as err:
            problem = err
        except Exception as err:
            logging.exception("The transfer ends because of an unexpected error")
            problem = TransferError(f"Unexpected error ({type(err).__name__}: {err})")
        return self._End(problem)

    def _End(self, problem: Exception | None) -> int:
        """End everything; the programs first, so that none takes the end of its input for the end of the data."""
        self._loop.Forget(self._stop.fileno())
        for flow in self._flows:
            flow.Stop()
        self._Leave()
        if self._channel is not None:
            self._loop.Forget(self._channel.fileno())
            if problem is None:
                self._channel.Close()
            else:
                self._channel.Abort()
        self._programs.End()
        for end in self._ends:
            self._loop.Forget(end.fileno())
            end.Close()
        self._loop.Close()
        text = None if problem is None else self._Explain(problem)
        code = constants.EXIT_SUCCESS if problem is None else constants.EXIT_FAILURE
        logging.log(logging.ERROR if text else logging.INFO, "%s", text or "Everything was transferred")
        self._progress.Sample(runtime.Monotonic())
        values = {**self._progress.Values(), "exit_status": code, "error_message": text}
        return code if self._status.Write(**values) else constants.EXIT_FAILURE

    def _Explain(self, problem: Exception) -> str:
        text = problem.args[0] if isinstance(problem, errors.GenericError) else str(problem)
        if isinstance(problem, _ProgramFailed) and self._status.last_line:
            text += f" ({self._status.last_line})"
        return str(text)

    # --- what both directions do for themselves ---------------------------------------------------------------------------

    def _Begin(self, context: channel.ssl.SSLContext) -> None:
        """Look for the other side."""
        raise NotImplementedError

    def _Leave(self) -> None:
        """Look for the other side no longer."""
        raise NotImplementedError

    def _Check(self) -> None:
        """Go on if everything has flowed and the programs have done their work."""
        raise NotImplementedError

    # --- events -----------------------------------------------------------------------------------------------------------

    def _Stopped(self) -> None:
        raise TransferError("The transfer was stopped by a signal")

    def _Sample(self) -> None:
        self._progress.Sample(runtime.Monotonic())
        self._status.Write(**self._progress.Values())
        self._loop.After(SAMPLE_SECONDS, self._Sample)

    def _LookForOwner(self) -> None:
        """End if nobody has asked for so long that the job that wants this, or its master, must be gone."""
        limit = self.settings.unasked_timeout
        if limit is None:
            return
        now, asked = runtime.Monotonic(), self._LastAsked()
        if asked != self._asked:
            self._asked, self._asked_at = asked, now
        elif now - self._asked_at > limit:
            raise TransferError(f"Nobody has asked for this transfer for {limit:g} seconds; its job must have ended")
        self._loop.After(limit / _LOOKS, self._LookForOwner)

    def _LastAsked(self) -> int:
        try:
            return runtime.Stat(self.settings.pid_file).st_mtime_ns
        except FileNotFoundError:
            return 0

    def _NoteLine(self, line: str) -> None:
        """A program has printed this."""
        logging.info("Output: %s", line)
        self._status.Note(line)

    def _ProgramEnded(self, child: Child) -> None:
        assert child.result is not None
        if child.result.failed:
            raise _ProgramFailed(f"{child.role} failed: {child.result.cause}")
        if not child.fed:
            raise _ProgramFailed(f"{child.role} ended before reading all its input")
        self._Check()

    def _NobodyReads(self, child: Callable[[], Child]) -> None:
        """A program has closed its input: it must have ended, and its end says more."""

        def fail() -> None:
            raise _ProgramFailed(f"{child().role} stopped reading")

        self._loop.After(_BROKEN_SECONDS, fail)

    def _Meet(self, found: Channel) -> None:
        logging.info("Connected to %s", found.peer)
        self._channel = found
        self._progress.Restart(runtime.Monotonic())
        self._status.Write(connected=True)

    # --- pipes and programs -----------------------------------------------------------------------------------------------

    def _Count(self, piece: memoryview) -> memoryview:
        self._progress.Add(len(piece))
        return piece

    def _StartCompression(self, role: str, argv: list[str]) -> tuple[PipeSink, PipeSource, Child, Callable[[], None]]:
        """Start a program between two pipes; return their ends here, it, and what to call when it has been given everything."""
        read, sink = self._PipeTo()
        source, write = self._PipeFrom()
        child = self._StartChild(role, argv, read, write)

        def fed() -> None:
            child.fed = True
            sink.Close()

        return sink, source, child, fed

    def _PipeTo(self) -> tuple[int, PipeSink]:
        """Return a pipe into a program: its end, and ours."""
        reader, writer = runtime.Pipe(_PIPE_ROOM)
        sink = PipeSink(writer)
        self._ends.append(sink)
        return reader, sink

    def _PipeFrom(self) -> tuple[PipeSource, int]:
        """Return a pipe out of a program: our end, and its own."""
        reader, writer = runtime.Pipe(_PIPE_ROOM)
        source = PipeSource(reader)
        self._ends.append(source)
        return source, writer

    def _StartChild(self, role: str, argv: list[str], stdin: int, stdout: int, size: int | None = None) -> Child:
        """Start a program and close our copies of the pipes' ends that it gets."""
        variables = {} if size is None else {SIZE_VARIABLE: str(size)}
        given = self._inherited if size is None else (*self._inherited, size)
        try:
            return self._programs.Start(role, argv, stdin, stdout, variables, given)
        finally:
            for descriptor in (stdin, stdout, size):
                if descriptor not in (None, self._programs.errors):
                    os.close(descriptor)


class Import(Transfer):
    """Receives: TLS --> [decompressor] --> shell."""

    ROLE = "The command that writes the data"

    def __init__(self, settings: Settings, stop: StopSignal, lock: protocols.FileLock | None = None):
        super().__init__(settings, stop, lock)
        self._listening: Listening | None = None
        self._timer: int | None = None
        self._magic, self._seen = settings.sent_magic, b""
        self._shell_input: int | None = None
        self._shell: Child | None = None
        self._sink: PipeSink | None = None
        self._complete = False

    def _Begin(self, context: channel.ssl.SSLContext) -> None:
        settings = self.settings
        everywhere = "::" if settings.family == 6 else ""
        self._listening = Listening(self._loop, context, settings.bind or everywhere, settings.port, self._Connected)
        self._timer = self._loop.After(settings.connect_timeout, self._NoSenderCame)
        logging.info("Listening on port %d", self._listening.port)
        self._status.Write(listen_port=self._listening.port)

    def _NoSenderCame(self) -> None:
        text = f"No sender connected within {self.settings.connect_timeout:g} seconds"
        if self._listening is not None and self._listening.rejected:
            text += f"; last rejected connection: {self._listening.rejected}"
        raise TransferError(text)

    def _Leave(self) -> None:
        if self._listening is not None:
            self._listening.Close()

    def _Connected(self, found: Channel) -> None:
        self._loop.Cancel(self._timer)
        self._Meet(found)
        self._shell_input, self._sink = self._PipeTo()
        argv = compression.BuildDecompress(self.settings.compress)
        if argv is None:
            self._Flow(found, self._sink, self._ForShell, self._Taken)
        else:
            tool_input, tool_output, tool, fed = self._StartCompression(f"Decompression ({argv[0]})", argv)
            self._Flow(found, tool_input, lambda piece: piece, fed, lambda: tool)
            self._Flow(tool_output, self._sink, self._ForShell, self._Taken)
        if not self._magic:
            self._StartShell()

    def _Flow(
        self,
        source: Channel | PipeSource,
        sink: PipeSink,
        passing: Callable[[memoryview], memoryview],
        ended: Callable[[], None],
        reader: Callable[[], Child] | None = None,
    ) -> None:
        flow = Flow(self._loop, source, sink, ended, lambda: self._NobodyReads(reader or self._Shell), passing)
        self._flows.append(flow)

    def _Shell(self) -> Child:
        assert self._shell is not None
        return self._shell

    def _StartShell(self) -> None:
        """Start what writes the data, once it is known that it is the right data."""
        settings = self.settings
        assert self._shell_input is not None
        argv = BuildShell(settings.prefix, settings.suffix)
        self._shell = self._StartChild(self.ROLE, argv, self._shell_input, self._programs.errors)
        self._shell_input = None

    def _ForShell(self, piece: memoryview) -> memoryview:
        """Return what of a piece of plain text is data."""
        missing = len(self._magic) - len(self._seen)
        if missing:
            self._seen += piece[:missing]
            piece = piece[missing:]
            if self._seen != self._magic[: len(self._seen)]:
                self._WrongMagic()
            if self._seen == self._magic:
                self._StartShell()
        return self._Count(piece)

    def _WrongMagic(self) -> None:
        assert self._channel is not None
        raise TransferError(
            f"Magic value mismatch: {self._channel.peer} sent the data of another disk or job; repeat the job"
        )

    def _Taken(self) -> None:
        """The shell has been given everything that there is."""
        self._complete = True
        self._Check()

    def _Check(self) -> None:
        """End the shell's input once nothing can be missing, and confirm what it says then."""
        others = all(child.succeeded for child in self._programs.children if child is not self._shell)
        if not self._complete or not others or self._channel is None or self._sink is None:
            return
        if self._seen != self._magic:
            self._WrongMagic()
        shell = self._Shell()
        if not shell.fed:
            shell.fed = True
            self._sink.Close()
        elif shell.succeeded:
            self._channel.AnnounceEnd()
            try:
                self._channel.Flush()
            except TransferError:
                pass  # a sender of 3.1 does not wait for it
            self._done = True

    def _End(self, problem: Exception | None) -> int:
        code = super()._End(problem)
        if self._shell_input is not None:
            os.close(self._shell_input)
        return code


class Export(Transfer):
    """Sends: shell --> [compressor] --> TLS."""

    ROLE = "The command that reads the data"

    def __init__(self, settings: Settings, stop: StopSignal, lock: protocols.FileLock | None = None):
        super().__init__(settings, stop, lock)
        self._connecting: Connecting | None = None
        self._complete = False
        self._announced = False
        self._size = b""

    def _Begin(self, context: channel.ssl.SSLContext) -> None:
        self._connecting = Connecting(self._loop, context, self.settings, self._Connected)

    def _Leave(self) -> None:
        if self._connecting is not None:
            self._connecting.Close()

    def _Connected(self, found: Channel) -> None:
        self._Meet(found)
        self._loop.Readable(found.fileno(), self._PeerSays)
        magic = self.settings.sent_magic
        output = self._StartShell()
        argv = compression.BuildCompress(self.settings.compress)
        if argv is None:
            self._Flow(output, found, self._Count, magic, self._Sent)
            return
        tool_input, tool_output, tool, fed = self._StartCompression(f"Compression ({argv[0]})", argv)
        self._Flow(output, tool_input, self._Count, magic, fed, lambda: tool)
        self._Flow(tool_output, found, lambda piece: piece, b"", self._Sent)

    def _Flow(
        self,
        source: PipeSource,
        sink: Channel | PipeSink,
        passing: Callable[[memoryview], memoryview],
        magic: bytes,
        ended: Callable[[], None],
        reader: Callable[[], Child] | None = None,
    ) -> None:
        broken = (lambda: None) if reader is None else (lambda: self._NobodyReads(reader))
        self._flows.append(Flow(self._loop, source, sink, ended, broken, passing, magic))

    def _StartShell(self) -> PipeSource:
        """Start what reads the data; return where it comes from."""
        settings = self.settings
        size = None
        if settings.expected_size == SIZE_FROM_DESCRIPTOR:
            reader, size = runtime.Pipe()
            source = PipeSource(reader)
            self._ends.append(source)
            self._loop.Readable(reader, lambda: self._ReadSize(source))
        output, write = self._PipeFrom()
        nothing, writer = runtime.Pipe()
        os.close(writer)
        child = self._StartChild(self.ROLE, BuildShell(settings.prefix, settings.suffix), nothing, write, size)
        child.fed = True
        return output

    def _ReadSize(self, source: PipeSource) -> None:
        """Read the size in bytes that the program predicts; anything but a number is ignored."""
        piece = source.Read()
        if piece is None:
            return
        self._size += piece[: _SIZE_LENGTH - len(self._size)]
        if piece and b"\n" not in self._size and len(self._size) < _SIZE_LENGTH:
            return
        self._loop.Forget(source.fileno())
        text = self._size.partition(b"\n")[0].strip()
        if text.isdigit() and len(text) <= _SIZE_DIGITS:
            self._progress.expected = int(text)

    def _PeerSays(self) -> None:
        assert self._channel is not None
        said = self._channel.Read()
        if said is None:
            return
        if len(said):
            raise TransferError(f"{self._channel.peer} sent data, which no receiver does")
        if not self._announced:
            raise TransferError(f"{self._channel.peer} has ended the transfer before everything was sent")
        self._done = True

    def _Sent(self) -> None:
        self._complete = True
        self._Check()

    def _Check(self) -> None:
        """Announce the end, which is what makes the data complete, if no program failed."""
        if self._complete and self._programs.succeeded and self._channel is not None and not self._announced:
            self._announced = True
            self._channel.AnnounceEnd()
            self._FlushEnd()

    def _FlushEnd(self) -> None:
        assert self._channel is not None
        waits = not self._channel.Flush()
        self._loop.Writable(self._channel.fileno(), self._FlushEnd if waits else None)


def Make(settings: Settings, stop: StopSignal, lock: protocols.FileLock | None = None) -> Transfer:
    return (Export if settings.mode == EXPORT else Import)(settings, stop, lock)
