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
from typing import Any

from ganeti import pathutils
from ganeti.utils.text import Printable

SYSLOG_NO, SYSLOG_YES, SYSLOG_ONLY = "no", "yes", "only"
SYSLOG_CHOICES = (SYSLOG_NO, SYSLOG_YES, SYSLOG_ONLY)

_SYSLOG_LEVELS = (
    (logging.CRITICAL, syslog.LOG_CRIT),
    (logging.ERROR, syslog.LOG_ERR),
    (logging.WARNING, syslog.LOG_WARNING),
    (logging.INFO, syslog.LOG_INFO),
)


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


def OpenForAppending(path: str) -> int:
    """Open a log file, made if it is missing; OSError if there is anything else by that name.

    Users of other daemons may write to the directory: their links and pipes must lead nowhere.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(path, flags, 0o600)  # noqa: TID251 - appended to, never replaced
    info = os.fstat(handle)
    if not (stat.S_ISREG(info.st_mode) or stat.S_ISCHR(info.st_mode)) or info.st_nlink > 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "not a file of its own", path)
    return handle


class LogFile(logging.Handler):
    """Append to a file by its name: a rotated file is left for the new one at the next line, in every process."""

    def __init__(self, path: str, console: str | None = pathutils.CONSOLE_DEVICE):
        super().__init__()
        self.path = path
        self._console = console
        self._handle = -1

    def Open(self) -> int:
        """Open the file; raises OSError.  Called at the start so that a wrong path is noticed there."""
        if self._handle < 0:
            self._handle = OpenForAppending(self.path)
        return self._handle

    def emit(self, record: logging.LogRecord) -> None:
        try:
            data = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        except Exception as err:  # noqa: BLE001 - a wrong format string must not disturb the work
            data = f"{record.name}: message {record.msg!r} cannot be shown: {err}\n".encode("utf-8", "backslashreplace")
        try:
            self._Follow()
            written = os.write(self.Open(), data)
        except OSError:
            written = 0
        if written < len(data):
            self._ToConsole(data)

    def _Follow(self) -> None:
        if self._handle >= 0:
            try:
                same = os.path.samestat(os.fstat(self._handle), os.lstat(self.path))
            except OSError:
                same = False
            if not same:
                self.CloseFile()

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
