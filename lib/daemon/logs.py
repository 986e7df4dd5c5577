"""Set-up of the standard logging module for programs of ours (doc/reference/files.md 5).

A line is ``DATE TIME,MSEC: PROGRAM pid=PID[/THREAD] LEVEL message``.  Continuation lines are indented and controls are
escaped: words of an outsider can neither look like a line of their own nor steer the terminal of a reader.  A line that
the file does not take goes to the console, from children too; a failing log never disturbs the work (D21-NODED-03).
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
import syslog
from collections.abc import Callable
from typing import Any

from ganeti import pathutils
from ganeti.utils import owndirs
from ganeti.utils.text import Printable

SYSLOG_NO, SYSLOG_YES, SYSLOG_ONLY = "no", "yes", "only"
SYSLOG_CHOICES = (SYSLOG_NO, SYSLOG_YES, SYSLOG_ONLY)

_SYSLOG_LEVELS = (
    (logging.CRITICAL, syslog.LOG_CRIT),
    (logging.ERROR, syslog.LOG_ERR),
    (logging.WARNING, syslog.LOG_WARNING),
    (logging.INFO, syslog.LOG_INFO),
)
# Added to the name of a log that belongs to somebody else.
_FOREIGN = ".foreign"


class LineFormatter(logging.Formatter):
    """The line of a log file; ``program`` and ``pid`` are left out for syslog, which adds its own."""

    def __init__(self, program: str | None):
        super().__init__()
        self._program = program

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            text += "\n" + record.stack_info
        if not text.isprintable():
            text = Printable(text, "\n\t").replace("\n", "\n  ")
        if self._program is None:
            return f"{record.levelname} {text}"
        thread = "" if record.threadName == "MainThread" else f"/{record.threadName}"
        return f"{self.formatTime(record)}: {self._program} pid={record.process}{thread} {record.levelname} {text}"


def OpenForAppending(path: str, say: Callable[[int, str], None] | None = None) -> int:
    """Open a log file, made if it is missing; OSError if there is anything else by that name.

    Users of other daemons may write to the directory: their links and pipes must lead nowhere, and a file of theirs would
    let them read and change what is written.  Root moves that one away; ``say`` is called with the new file and the reason.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW | os.O_NONBLOCK
    moved = ""
    while True:
        try:
            handle = os.open(path, flags)  # noqa: TID251 - appended to, never replaced
        except FileNotFoundError:
            try:
                handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)  # noqa: TID251 - nobody else's
            except FileExistsError:
                if moved or os.path.islink(path):
                    raise
                continue  # another process of ours was quicker
            if moved and say is not None:
                say(handle, moved)
            return handle
        info = os.fstat(handle)
        wrong = _Wrong(info)
        if wrong is None:
            return handle
        os.close(handle)
        foreign = stat.S_ISREG(info.st_mode) and info.st_nlink == 1
        if not foreign or moved or os.geteuid() != 0:
            raise OSError(errno.EINVAL, wrong, path)
        # It may be the log of another release, whose daemons had users of their own.
        os.replace(path, path + _FOREIGN)  # noqa: TID251 - a rename alone, nothing is written
        moved = f"The log before this line {wrong}, who could read and change it: it was moved to {path}{_FOREIGN}"


def _Wrong(info: os.stat_result) -> str | None:
    """Return why a file is not to be written to, None for one that is right."""
    if stat.S_ISCHR(info.st_mode):
        return None
    if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
        return "not a file of its own"
    if info.st_uid not in (0, os.geteuid()):
        return f"belonged to {owndirs.UserName(info.st_uid)}"
    return None


class _Loss:
    """The lines that a file did not take."""

    def __init__(self) -> None:
        self.ever = 0
        self.reason = ""
        self.Told()

    def Told(self) -> None:
        """Begin anew: the file tells how many are missing."""
        self.count = 0
        self.torn = False


_losses: dict[str, _Loss] = {}


def Lost() -> dict[str, int]:
    """Return how many lines each log file of this process did not take, by its path."""
    return {path: loss.ever for path, loss in _losses.items()}


def LostByLog() -> list[list[Any]]:
    """Return the same as a metric's series: ``[[[name of the log], lines], ...]``."""
    names = {os.path.basename(path).removesuffix(".log"): count for path, count in Lost().items()}
    return [[[name], count] for name, count in sorted(names.items())]


def Complain(program: str) -> None:
    """Say on stderr how many lines of this process are missing in its logs, if any: there is no other place."""
    for path, loss in _losses.items():
        if loss.ever:
            sys.stderr.write(f"{program}: {path}: {_Missing(loss.ever, loss.reason)}\n")


def _Missing(count: int, reason: str) -> str:
    return f"{count} {'line was' if count == 1 else 'lines were'} not written: {reason}"


class LogFile(logging.Handler):
    """Append to a file by its name: a rotated file is left for the new one at the next line, in every process.

    The first line that the file takes after others that it did not follows one that says how many are missing, unless the
    lines are for programs (``tells`` False), which would not understand it.
    """

    def __init__(self, path: str, console: str | None = pathutils.CONSOLE_DEVICE, tells: bool = True):
        super().__init__()
        self._tells = tells
        self.path = path
        self._console = console
        self._handle = -1
        self._loss = _losses.setdefault(path, _Loss())
        self._process = os.getpid()

    def Open(self) -> int:
        """Open the file; raises OSError.  Called at the start so that a wrong path is noticed there."""
        if self._handle < 0:
            self._handle = OpenForAppending(self.path, self._Say)
        return self._handle

    def _Say(self, handle: int, text: str) -> None:
        os.write(handle, self._Line(text))

    def _Line(self, text: str) -> bytes:
        """Return a line of our own about the log itself."""
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None)
        return (self.format(record) + "\n").encode("utf-8", "backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            data = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        except Exception as err:  # noqa: BLE001 - a wrong format string must not disturb the work
            data = f"{record.name}: message {record.msg!r} cannot be shown: {err}\n".encode("utf-8", "backslashreplace")
        if record.process != self._process and record.process is not None:
            # In a forked child: what its parent lost is the parent's to tell.
            self._process = record.process
            self._loss.ever = 0
            self._loss.Told()
        loss = self._loss
        missing = self._Line(_Missing(loss.count, loss.reason)) if loss.count and self._tells else b""
        whole = (b"\n" if loss.torn else b"") + missing + data
        try:
            self._Follow()
            written = os.write(self.Open(), whole)
            reason = os.strerror(errno.ENOSPC)
        except OSError as err:
            written = 0
            reason = err.strerror or str(err)
        if written == len(whole):
            loss.Told()
            return
        loss.ever += 1
        loss.count += 1
        loss.reason = reason
        # A part of a line, which the next one must not continue.
        loss.torn = written > 0 or loss.torn
        self._ToConsole(data)

    def _Follow(self) -> None:
        if self._handle >= 0:
            try:
                same = os.path.samestat(os.fstat(self._handle), os.lstat(self.path))
            except OSError:
                same = False
            if not same:
                self.CloseFile()
                self._loss.torn = False

    def _ToConsole(self, data: bytes) -> None:
        if self._console is None:
            return
        try:
            handle = os.open(  # noqa: TID251
                self._console, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError:
            return
        try:
            os.write(handle, data)
        except OSError:
            pass
        finally:
            os.close(handle)

    def CloseFile(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def close(self) -> None:
        self.CloseFile()
        super().close()


class SystemLog(logging.Handler):
    """Sends lines to syslog, facility daemon."""

    def __init__(self, program: str):
        super().__init__()
        syslog.openlog(program, syslog.LOG_PID, syslog.LOG_DAEMON)

    def emit(self, record: logging.LogRecord) -> None:
        level = next((value for limit, value in _SYSLOG_LEVELS if record.levelno >= limit), syslog.LOG_DEBUG)
        try:
            syslog.syslog(level, self.format(record).replace("\0", "\\0"))
        except Exception:  # noqa: BLE001, S110 - there is nowhere left to report it
            pass


class _Terminal(logging.StreamHandler[Any]):
    """stderr as it is at the time of the message."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a closed terminal: it is not worth a traceback."""


def SetUp(
    program: str,
    path: str | None,
    *,
    debug: int = 0,
    usage: str = SYSLOG_NO,
    terminal: int | None = None,
    console: bool = True,
) -> LogFile | None:
    """Send the messages of this process to ``path``, to syslog as ``usage`` says, and from level ``terminal`` to stderr.

    Raises OSError if the file cannot be opened, with everything set up to go to the console meanwhile.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    logging.raiseExceptions = False
    if terminal is not None:
        screen = _Terminal()
        screen.setLevel(logging.DEBUG if debug else terminal)
        screen.setFormatter(LineFormatter(program))
        root.addHandler(screen)
    if usage in (SYSLOG_YES, SYSLOG_ONLY):
        system = SystemLog(program)
        system.setFormatter(LineFormatter(None))
        root.addHandler(system)
    if usage == SYSLOG_ONLY or path is None:
        return None
    file = LogFile(path, pathutils.CONSOLE_DEVICE if console else None)
    file.setFormatter(LineFormatter(program))
    root.addHandler(file)
    file.Open()
    return file
