"""Changes of an instance's device lists as requests write them (doc/reference/drivers.md d.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti import errors

ADD, ATTACH, REMOVE, DETACH, MODIFY = "add", "attach", "remove", "detach", "modify"
OPERATIONS = (ADD, ATTACH, REMOVE, DETACH, MODIFY)
LAST = -1


@dataclass
class Change:
    """One change: ``where`` is an index (-1: the last one, or at the end), a name or a uuid."""

    operation: str
    where: int | str
    values: dict[str, Any]

    def InsertIndex(self, count: int, kind: str) -> int:
        """Return where a new device goes in a list of ``count``."""
        if isinstance(self.where, str) and not self.where.lstrip("-").isdigit():
            raise errors.OpPrereqError(
                f"A new {kind} needs a positive integer index or -1, not '{self.where}'", errors.ECODE_INVAL
            )
        index = int(self.where)
        if index == LAST:
            return count
        if not 0 <= index <= count:
            raise errors.OpPrereqError(f"Cannot add a {kind} at index {index}: there are {count}", errors.ECODE_INVAL)
        return index


def ParseChanges(changes: Sequence[Sequence[Any]], kind: str) -> list[Change]:
    """Return the changes of a request; the old form ``[operation or index, values]`` too."""
    parsed = [_ParseOld(item) if len(item) == 2 else Change(item[0], item[1], dict(item[2])) for item in changes]
    old_ends = sum(1 for item in changes if len(item) == 2 and item[0] in OPERATIONS)
    if old_ends > 1:
        raise errors.OpPrereqError(
            f"Only one {kind} add or remove operation is supported at a time in this form", errors.ECODE_INVAL
        )
    for change in parsed:
        if change.operation == REMOVE and change.values:
            raise errors.OpPrereqError(f"Removing a {kind} takes no parameters", errors.ECODE_INVAL)
    return parsed


def _ParseOld(item: Sequence[Any]) -> Change:
    first, values = item
    if first in OPERATIONS:
        return Change(first, LAST, dict(values))
    return Change(MODIFY, first, dict(values))
