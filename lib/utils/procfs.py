"""Files in which the kernel repeats names that any user can choose: of processes, of mount points."""

from __future__ import annotations

from ganeti import runtime


def ReadText(path: str, limit: int) -> str:
    """Return the content of a file of /proc; bytes that are no UTF-8 are kept as os.fsdecode does."""
    return runtime.ReadFile(path, limit).decode("utf-8", "surrogateescape")


def Lines(text: str) -> list[str]:
    """Return the lines of such a text: of all that may end one elsewhere, the kernel escapes only the line feed."""
    return text.removesuffix("\n").split("\n") if text else []
