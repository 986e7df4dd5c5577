"""Files in which the kernel repeats names that any user can choose: of processes, of mount points."""

from __future__ import annotations

from ganeti import runtime

# Of what follows the name in /proc/PID/stat: state and session.
_STATE_FIELD, _SESSION_FIELD = 0, 3
_STAT_LIMIT = 4096


def ReadText(path: str, limit: int) -> str:
    """Return the content of a file of /proc; bytes that are no UTF-8 are kept as os.fsdecode does."""
    return runtime.ReadFile(path, limit).decode("utf-8", "surrogateescape")


def Lines(text: str) -> list[str]:
    """Return the lines of such a text: of all that may end one elsewhere, the kernel escapes only the line feed."""
    return text.removesuffix("\n").split("\n") if text else []


def InSession(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    return [int(name) for name in runtime.ListDir("/proc") if name.isdigit() and _IsIn(session, name)]


def _IsIn(session: int, pid: str) -> bool:
    try:
        fields = runtime.ReadFile(f"/proc/{pid}/stat", _STAT_LIMIT).rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[_SESSION_FIELD]) == session and fields[_STATE_FIELD] not in (b"Z", b"X")
