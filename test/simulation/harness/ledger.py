"""What happened as the outside knows it, and the promises that must hold (doc/design-store.rst)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ganeti.store import Epoch, Position, Row
from ganeti.store.base import KIND_ARCHIVED, Line, StoredRow

ACKED = "acknowledged"
FAILED = "failed"
UNKNOWN = "not known"


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Op:
    """One change a client asked for.  ``outcome`` is None while nobody has heard anything."""

    number: int
    rows: list[Row]
    outcome: str | None = None
    prepared: bool = False
    text: str = ""


@dataclass
class Ledger:
    """Everything that was acknowledged, by seq; and every change that was asked for."""

    # The rows are None for a master's first transaction, which nobody asked for.
    by_seq: dict[int, tuple[Epoch, tuple[Row, ...] | None]] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    # (kind, id) -> (seq, value) of the newest acknowledged write
    newest: dict[tuple[str, str], tuple[int, str | None]] = field(default_factory=dict)
    masters: list[tuple[str, Epoch]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def Acknowledged(self, position: Position, rows: list[Row]) -> None:
        """A master shows a transaction to its readers."""
        found = self.by_seq.get(position.seq)
        if found is not None and found not in ((position.epoch, tuple(rows)), (position.epoch, None)):
            raise Violation(
                f"seq {position.seq} was acknowledged in epoch {found[0]} and again, otherwise, in {position.epoch}:"
                f" {found[1]} / {rows}"
            )
        self.by_seq[position.seq] = (position.epoch, tuple(rows))
        for row in rows:
            key = (row.kind, row.id)
            if key not in self.newest or self.newest[key][0] <= position.seq:
                self.newest[key] = (position.seq, row.value)

    def Opened(self, epoch: Epoch, line: Line) -> None:
        """A master has opened: its first transaction, and all before it, is acknowledged."""
        first = dict(line.entries)[epoch]
        found = self.by_seq.setdefault(first, (epoch, None))
        if found[0] != epoch:
            raise Violation(f"seq {first} was acknowledged in epoch {found[0]} and again in {epoch}")

    def GiveUp(self, line: Line) -> int:
        """A forced start: what only silent nodes held is given up.  How many acknowledged transactions that were."""
        lost = [seq for seq, (epoch, _) in self.by_seq.items() if not line.Holds(Position(epoch, seq))]
        for seq in lost:
            del self.by_seq[seq]
        self.newest = {}
        for seq in sorted(self.by_seq):
            for row in self.by_seq[seq][1] or ():
                self.newest[(row.kind, row.id)] = (seq, row.value)
        return len(lost)

    def CheckMaster(self, who: str, epoch: Epoch, line: Line, rows: list[StoredRow]) -> None:
        """A master has opened: it must hold all that was acknowledged, and nothing that was refused."""
        for seq, (acked_epoch, _) in self.by_seq.items():
            if acked_epoch < epoch and not line.Holds(Position(acked_epoch, seq)):
                raise Violation(f"master {who} of epoch {epoch} lacks {acked_epoch}/{seq}, which was acknowledged")
        held = {(row.kind, row.id): row for row in rows}
        for key, (seq, value) in self.newest.items():
            if self.by_seq[seq][0] >= epoch:
                continue
            row = held.get(key)
            if row is None or row.value is None:
                if value is not None and (row is None or row.seq <= seq) and not self._MayBeDeleted(key):
                    raise Violation(f"master {who} of epoch {epoch} lost {key}, acknowledged with seq {seq}")
            elif row.seq < seq or (row.seq == seq and row.value != value):
                raise Violation(
                    f"master {who} of epoch {epoch} has {key} as of seq {row.seq} ({row.value}), acknowledged was"
                    f" seq {seq} ({value})"
                )
        self.CheckNothingRefused(who, rows)

    def _MayBeDeleted(self, key: tuple[str, str]) -> bool:
        """Whether a deletion whose end nobody knows may have turned up; rows of archived jobs the master deletes itself."""
        return key[0] == KIND_ARCHIVED or any(
            op.outcome in (None, UNKNOWN)
            and op.prepared
            and any((r.kind, r.id) == key and r.value is None for r in op.rows)
            for op in self.ops
        )

    def CheckNothingRefused(self, who: str, rows: list[StoredRow]) -> None:
        """What a client was told has failed must be nowhere."""
        refused = {row.value for op in self.ops if op.outcome == FAILED for row in op.rows if row.value is not None}
        for row in rows:
            if row.value in refused:
                raise Violation(f"{who} holds {row.kind} {row.id} = {row.value}, which was refused or failed")
