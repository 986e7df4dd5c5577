"""The file of a node group in which the watcher notes the state of each volume group, and the master daemon counts these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ganeti import pathutils, runtime

GOOD, BAD, RETURNED, GONE, REPAIRING, FAILED = STATES = ("good", "bad", "returned", "gone", "repairing", "failed")

# The master daemon may have a user of its own.
_MODE = 0o644
_LIMIT = 1 << 24
FRESH_SECONDS = 3600.0
"""For so long what was seen is shown."""


def Text(groups: Iterable[tuple[str, str, str]]) -> str:
    """Return the content of the file; ``groups``: node, volume group, state."""
    return "".join(f"{node} {name} {state}\n" for node, name, state in groups)


def Parse(text: str) -> Counter[str]:
    """Return how many volume groups are in each state; what is no state is left out."""
    counts = Counter(dict.fromkeys(STATES, 0))
    counts.update(state for state in (line.rpartition(" ")[2] for line in text.splitlines()) if state in STATES)
    return counts


def Write(group_uuid: str, groups: Iterable[tuple[str, str, str]]) -> None:
    runtime.WriteFile(pathutils.WatcherVolumeGroupsFile(group_uuid), Text(groups), mode=_MODE)


def Read(group_uuid: str) -> Counter[str] | None:
    """Return how many volume groups are in each state; None if the watcher has not looked lately."""
    path = pathutils.WatcherVolumeGroupsFile(group_uuid)
    try:
        if abs(runtime.Time() - runtime.Stat(path).st_mtime) >= FRESH_SECONDS:
            return None
        return Parse(runtime.ReadText(path, _LIMIT))
    except (OSError, ValueError):
        return None
