"""Directories of scripts that an administrator installs: operating system definitions, storage providers."""

from __future__ import annotations

import posixpath
import re
import stat
import time
from collections.abc import Iterable

from ganeti import errors, runtime

PARAMETERS_FILE = "parameters.list"

_LIST_LIMIT = 1024 * 1024
_TAIL_LINES, _TAIL_CHARACTERS = 20, 4000
# More characters than are shown, of the longest that UTF-8 has: whatever the first ones are cut to, they do not matter.
_TAIL_BYTES = 4 * (_TAIL_CHARACTERS + 2)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def Entries(search_path: Iterable[str]) -> list[tuple[str, str]]:
    """Return (name, path) of everything in the search path; a directory that cannot be listed ends the search."""
    entries = []
    for directory in search_path:
        if not runtime.IsDir(directory):
            continue
        try:
            names = sorted(runtime.ListDir(directory))
        except OSError:
            break
        entries += [(name, posixpath.join(directory, name)) for name in names if not name.startswith(".")]
    return entries


def Find(name: str, search_path: Iterable[str]) -> str | None:
    """Return the directory of a definition: the first in the search path."""
    if not _NAME.fullmatch(name):
        return None
    for directory in search_path:
        path = posixpath.join(directory, name)
        if runtime.IsDir(path):
            return path
    return None


def HasScript(path: str, name: str, error: type[errors.GenericError]) -> bool:
    """Return whether the script exists; raise ``error`` unless it is a regular file that its owner can run."""
    file = posixpath.join(path, name)
    try:
        mode = runtime.Stat(file).st_mode
    except FileNotFoundError:
        return False
    except OSError as err:
        raise error(f"File '{name}' under path '{path}' is missing ({err.strerror})") from err
    if not stat.S_ISREG(mode):
        raise error(f"File '{name}' under path '{path}' is not a regular file")
    if not mode & stat.S_IXUSR:
        raise error(f"File '{name}' under path '{path}' is not executable")
    return True


def ReadList(path: str, name: str, what: str, error: type[errors.GenericError]) -> str | None:
    """Return the text of a file; None when it does not exist; ``what`` it is, for messages."""
    file = posixpath.join(path, name)
    try:
        if not stat.S_ISREG(runtime.Stat(file).st_mode):
            raise error(f"File '{name}' under path '{path}' is not a regular file")
        return runtime.ReadText(file, limit=_LIST_LIMIT)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as err:
        raise error(f"Error while reading the {what} file at {file}: {err}") from err


def ReadParameters(path: str, what: str, error: type[errors.GenericError]) -> tuple[tuple[str, ...], ...]:
    """Return the rows of the list of parameters, which must be there."""
    text = ReadList(path, PARAMETERS_FILE, f"{what} parameters", error)
    if text is None:
        raise error(f"File '{PARAMETERS_FILE}' under path '{path}' is missing (No such file or directory)")
    return ParseParameters(text)


def ParseParameters(text: str) -> tuple[tuple[str, ...], ...]:
    """Return rows of (name, description); a line without description gives a row of one."""
    return tuple(tuple(line.split(None, 1)) for line in (raw.strip() for raw in text.splitlines()) if line)


def LogStamp() -> str:
    """Return the time as the names of scripts' logs have it."""
    return time.strftime("%Y-%m-%d_%H_%M_%S", time.localtime(runtime.Time()))


def LastLines(text: str) -> str:
    """Return the end of what a script printed, which may be one line without an end."""
    lines = "\n".join(text.splitlines()[-_TAIL_LINES:])
    return lines if len(lines) <= _TAIL_CHARACTERS else f"[...]{lines[-_TAIL_CHARACTERS:]}"


def Tail(path: str) -> str:
    """Return the last lines of a log."""
    try:
        text = runtime.ReadEnd(path, _TAIL_BYTES).decode("utf-8", "replace")
    except OSError as err:
        return f"(the log cannot be read: {err})"
    return LastLines(text)
