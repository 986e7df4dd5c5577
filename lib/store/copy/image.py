"""The rows of a history in memory: a new master reads them once and continues from there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ganeti.store.base import StoredRow


@dataclass
class Image:
    """``values``: kind -> id -> JSON text; ``seqs``: kind -> id -> seq of the last write, deletions too."""

    values: dict[str, dict[str, str]] = field(default_factory=dict)
    seqs: dict[str, dict[str, int]] = field(default_factory=dict)

    def Take(self, rows: Iterable[StoredRow]) -> None:
        """Put newer rows on top."""
        for row in rows:
            values = self.values.setdefault(row.kind, {})
            self.seqs.setdefault(row.kind, {})[row.id] = row.seq
            if row.value is None:
                values.pop(row.id, None)
            else:
                values[row.id] = row.value

    def Deletions(self) -> list[int]:
        """Return the seqs of the deletions, ascending."""
        return sorted(
            seq for kind, seqs in self.seqs.items() for row_id, seq in seqs.items() if row_id not in self.values[kind]
        )
