"""What is known of volume groups outside the watcher.

A file of each node group says in which state the volume groups are; the master daemon counts these.  Tags of a node say which
of its groups the watcher had repaired, and how that ended: they are part of the configuration, so that the watcher of the
next master knows it too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ganeti import pathutils, runtime

GOOD, BAD, RETURNED, GONE, REPAIRING, FAILED = STATES = ("good", "bad", "returned", "gone", "repairing", "failed")

REPAIR_PREFIX = "ganeti:watcher:volume-group:"
PENDING, DONE = "pending", "done"
_REPAIR = re.compile(rf"{REPAIR_PREFIX}({PENDING}|{DONE}|{FAILED}):([0-9]{{1,12}}):([0-9]{{1,18}}):([^:]+)")
# A tag has at most 128 characters.
_NAME_LENGTH = 70

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
    """Return how many volume groups are in each state; None if the watcher has not looked lately or has seen none."""
    path = pathutils.WatcherVolumeGroupsFile(group_uuid)
    try:
        if abs(runtime.Time() - runtime.Stat(path).st_mtime) >= FRESH_SECONDS:
            return None
        counts = Parse(runtime.ReadText(path, _LIMIT))
        return counts if counts.total() else None
    except (OSError, ValueError):
        return None


# --- repairs ------------------------------------------------------------------------------------------------------------


class Repair(NamedTuple):
    """A repair that the watcher submitted; ``time``: when it was in this state, ``job``: 0 if not known."""

    state: str
    time: int
    job: int
    group: str

    @property
    def tag(self) -> str:
        return f"{REPAIR_PREFIX}{self.state}:{self.time}:{self.job}:{self.group[:_NAME_LENGTH]}"


def Repairs(tags: Iterable[str]) -> dict[str, Repair]:
    """Return the last repair of each volume group that the tags of a node name; others' tags are left out."""
    found: dict[str, Repair] = {}
    for tag in tags:
        repair = _ParseRepair(tag)
        if repair is not None and (repair.group not in found or repair.time > found[repair.group].time):
            found[repair.group] = repair
    return found


def WithoutRepairs(tags: Iterable[str], group: str) -> list[str]:
    """Return the tags of a node without those about repairs of this volume group."""
    name = group[:_NAME_LENGTH]
    return [tag for tag in tags if (repair := _ParseRepair(tag)) is None or repair.group != name]


def _ParseRepair(tag: str) -> Repair | None:
    found = _REPAIR.fullmatch(tag)
    return Repair(found[1], int(found[2]), int(found[3]), found[4]) if found else None
