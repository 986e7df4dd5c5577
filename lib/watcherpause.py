"""The file that pauses a node's watcher: the time at which the pause ends, in seconds since the epoch."""

from __future__ import annotations

import math

from ganeti import errors, pathutils, runtime

_LIMIT = 100


def Read() -> float | None:
    """Return when the pause ends, or ended; None if there is no file, ParseError if it does not hold a time."""
    path = pathutils.WATCHER_PAUSE_FILE
    try:
        until = float(runtime.ReadText(path, _LIMIT))
        if not math.isfinite(until):
            raise ValueError("not a finite number")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise errors.ParseError(f"{path} does not hold a time; remove it ({err})") from err
    return until


def PausedUntil() -> float | None:
    """Return when the pause ends; None if the watcher is not paused.  A damaged file pauses nothing."""
    try:
        until = Read()
    except errors.ParseError:
        return None
    return until if until is not None and until > runtime.Time() else None


def Write(until: float | None) -> None:
    """Pause until this time; None ends the pause."""
    if until is None:
        runtime.RemoveFile(pathutils.WATCHER_PAUSE_FILE)
    else:
        runtime.WriteFile(pathutils.WATCHER_PAUSE_FILE, f"{int(until)}\n", mode=0o644)
