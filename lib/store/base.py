"""The store's vocabulary: epochs, positions, lines, rows, voters, changes, outcomes, and how they look on the wire."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from ganeti import constants, errors, pathutils, serializer
from ganeti.rpc.base import Failure
from ganeti.store import silence

MAX_LINE = 1000
"""Entries of a line that are kept, the newest."""

PIECE_BYTES = 512 * 1024
"""Characters of values in one piece of a copy: keeps each step of building and reading JSON short."""

MAX_TRANSACTION = 16 * 1024 * 1024
"""Characters of values in one transaction; escaped once more it still fits into one call."""

KIND_VOTERS = "voters"
ID_VOTERS = "voters"
KIND_MASTER = "master"
ID_MASTER = "master"
ID_FORCED = "forced"
"""Id of the row of kind ``master`` that lists the newest forced starts of a history: [[epoch, adopted position], ...]."""

KIND_JOB = "job"
KIND_ARCHIVED = "archived"
KIND_QUEUE = "queue"
ID_SERIAL = "serial"
ID_DRAIN = "drain"
RUN_LENGTH = 12


class Epoch(NamedTuple):
    """One master's life; ordered by number, then run.  ``NUMBER.RUN`` on the wire."""

    number: int
    run: str

    def __str__(self) -> str:
        return f"{self.number}.{self.run}"

    @staticmethod
    def Parse(text: object) -> Epoch:
        """Return the epoch written in ``text``; raise ParseError if there is none."""
        if isinstance(text, str) and len(text) <= 40:
            number, dot, run = text.partition(".")
            if dot and number.isascii() and number.isdigit() and (not run or (run.isascii() and run.isalnum())):
                return Epoch(int(number), run)
        raise errors.ParseError("not an epoch: NUMBER.RUN is expected")


NO_EPOCH = Epoch(0, "")


class Position(NamedTuple):
    """Where a history stands: the transaction ``seq`` that the master of ``epoch`` made."""

    epoch: Epoch
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}/{self.seq}"

    def Wire(self) -> list[Any]:
        return [str(self.epoch), self.seq]

    @staticmethod
    def Parse(value: object) -> Position:
        if isinstance(value, (list, tuple)) and len(value) == 2 and IsSeq(value[1]):
            return Position(Epoch.Parse(value[0]), value[1])
        raise errors.ParseError("not a position: [epoch, seq] is expected")


NOWHERE = Position(NO_EPOCH, 0)


def IsSeq(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


class Line:
    """Which epoch wrote which seq: entries (epoch, its first seq), ascending, and where the history ends."""

    __slots__ = ("entries", "last")

    def __init__(self, entries: Iterable[tuple[Epoch, int]], last: Position):
        self.entries: tuple[tuple[Epoch, int], ...] = tuple(entries)[-MAX_LINE:]
        self.last = last

    def EpochAt(self, seq: int) -> Epoch | None:
        """Return the epoch that wrote ``seq``; None before the line begins and after its end."""
        if seq > self.last.seq:
            return None
        found = None
        for epoch, first in self.entries:
            if first > seq:
                break
            found = epoch
        return found

    def Holds(self, position: Position) -> bool:
        """Return whether this history holds all of one that ends at ``position``."""
        if position.seq == 0:
            return True
        return self.EpochAt(position.seq) == position.epoch

    def Common(self, other: Line) -> int:
        """Return the seq up to which both histories are the same; 0 if the kept entries do not show it."""
        ends = dict(self._Ends())
        return max((min(end, ends[epoch]) for epoch, end in other._Ends() if epoch in ends), default=0)

    def _Ends(self) -> Iterator[tuple[Epoch, int]]:
        """Yield each epoch with the last seq that it wrote."""
        for (epoch, _), (_, following) in itertools.pairwise(self.entries):
            yield epoch, following - 1
        if self.entries:
            yield self.entries[-1][0], self.last.seq

    def OlderThanKept(self, position: Position) -> bool:
        """Return whether ``position`` lies before the entries that are kept, so that nothing is known of it."""
        return len(self.entries) == MAX_LINE and position.seq < self.entries[0][1]

    def With(self, position: Position) -> Line:
        """Return the line after one more transaction."""
        entries = self.entries
        if not entries or entries[-1][0] != position.epoch:
            entries = (*entries, (position.epoch, position.seq))
        return Line(entries, position)

    def Wire(self) -> list[Any]:
        return [[str(epoch), first] for epoch, first in self.entries]

    @staticmethod
    def Parse(value: object, last: Position) -> Line:
        if not isinstance(value, (list, tuple)) or len(value) > MAX_LINE:
            raise errors.ParseError("not a line: a list of [epoch, seq] is expected")
        entries = [Position.Parse(item) for item in value]
        for before, after in itertools.pairwise(entries):
            if not (before.epoch < after.epoch and before.seq < after.seq):
                raise errors.ParseError("not a line: epochs and their first seqs must grow")
        line = Line(entries, last)
        if last.seq and line.EpochAt(last.seq) != last.epoch:
            raise errors.ParseError("not a line: it does not lead to the last transaction")
        return line


class Row(NamedTuple):
    """One durable thing.  ``value`` is JSON text; None deletes."""

    kind: str
    id: str
    value: str | None


class StoredRow(NamedTuple):
    """A row as it stands in a database, with the transaction that wrote it."""

    kind: str
    id: str
    value: str | None
    seq: int
    epoch: Epoch

    def Wire(self) -> list[Any]:
        return [self.kind, self.id, self.value, self.seq, str(self.epoch)]


@dataclass
class RowsByKind:
    """The values of rows: kind -> id -> JSON text; not those of kinds that somebody else keeps."""

    by_kind: dict[str, dict[str, str]] = field(default_factory=dict)
    handed_over: set[str] = field(default_factory=set)

    def HandOver(self, kind: str) -> dict[str, str]:
        """Return the rows of a kind, and keep none of them from now on."""
        self.handed_over.add(kind)
        return self.by_kind.pop(kind, {})

    def Take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.kind in self.handed_over:
                continue
            kind = self.by_kind.setdefault(row.kind, {})
            if row.value is None:
                kind.pop(row.id, None)
            else:
                kind[row.id] = row.value


def ParseRows(value: object) -> list[Row]:
    """Return the rows of a transaction as they came over the wire; raise ParseError."""
    if not isinstance(value, (list, tuple)):
        raise errors.ParseError("rows must be a list")
    rows = []
    for item in value:
        if not isinstance(item, (list, tuple)) or len(item) != 3:
            raise errors.ParseError("a row must be [kind, id, value]")
        _CheckRow(item)
        rows.append(Row(*item))
    return rows


def ParseStoredRows(value: object) -> list[StoredRow]:
    """Return the rows of a copy as they came over the wire; raise ParseError."""
    if not isinstance(value, (list, tuple)):
        raise errors.ParseError("rows must be a list")
    rows = []
    epochs: dict[str, Epoch] = {}
    for item in value:
        if not isinstance(item, (list, tuple)) or len(item) != 5 or not IsSeq(item[3]):
            raise errors.ParseError("a stored row must be [kind, id, value, seq, epoch]")
        _CheckRow(item)
        text = item[4]
        if not isinstance(text, str):
            raise errors.ParseError("a stored row's epoch must be a string")
        if text not in epochs:
            epochs[text] = Epoch.Parse(text)
        rows.append(StoredRow(item[0], item[1], item[2], item[3], epochs[text]))
    return rows


def _CheckRow(item: Sequence[Any]) -> None:
    kind, row_id, value = item[:3]
    if not (isinstance(kind, str) and kind and isinstance(row_id, str) and (value is None or isinstance(value, str))):
        raise errors.ParseError("a row's kind and id must be strings, its value a string or null")


@dataclass(frozen=True, slots=True)
class Member:
    """A node as the store sees it.  ``uuid`` is its identity, ``name`` is for people, ``address`` for calls."""

    uuid: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the set: a node with one particular database."""

    member: Member
    store_id: str


class VoterSet:
    """The nodes whose copies count (rule 4).  Compared by nodes and store ids."""

    __slots__ = ("by_uuid",)

    def __init__(self, voters: Iterable[Voter] = ()):
        self.by_uuid: dict[str, Voter] = {v.member.uuid: v for v in sorted(voters, key=lambda v: v.member.uuid)}

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(v.store_id for v in self.by_uuid.values())

    @property
    def quorum(self) -> int:
        return len(self.by_uuid) // 2 + 1

    def __len__(self) -> int:
        return len(self.by_uuid)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.by_uuid

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._Key() == other._Key()

    def __hash__(self) -> int:
        return hash(self._Key())

    def _Key(self) -> frozenset[tuple[str, str]]:
        return frozenset((uuid, voter.store_id) for uuid, voter in self.by_uuid.items())

    def With(self, voter: Voter) -> VoterSet:
        return VoterSet([*self.by_uuid.values(), voter])

    def Without(self, uuid: str) -> VoterSet:
        return VoterSet(v for v in self.by_uuid.values() if v.member.uuid != uuid)

    def Names(self) -> list[str]:
        return sorted(v.member.name for v in self.by_uuid.values())

    def Row(self) -> Row:
        """Return the row that makes this set the one in force."""
        value = {
            uuid: {"store": v.store_id, "name": v.member.name, "address": v.member.address}
            for uuid, v in self.by_uuid.items()
        }
        return Row(KIND_VOTERS, ID_VOTERS, serializer.Dump(value))

    @staticmethod
    def FromText(text: str | None) -> VoterSet:
        """Return the set in a row's value; raise ParseError if it makes no sense."""
        value = serializer.Load(text) if text else {}
        if not isinstance(value, dict):
            raise errors.ParseError("the voters' row must be an object")
        voters = []
        for uuid, entry in value.items():
            if not isinstance(entry, dict) or not all(
                isinstance(entry.get(k), str) for k in ("store", "name", "address")
            ):
                raise errors.ParseError("a voter must have store, name and address")
            voters.append(Voter(Member(uuid, entry["name"], entry["address"]), entry["store"]))
        return VoterSet(voters)


class Change:
    """One unit of work for the committer.  All three run on the committer's thread.

    One that is ``leisurely`` may wait a moment for others to share its transaction.
    """

    leisurely = False

    def Prepare(self) -> Sequence[Row]:
        """Return the rows to write; every earlier change is visible.  An exception makes this change alone fail."""
        raise NotImplementedError

    def Publish(self) -> None:
        """Show the change to readers: it is acknowledged.  Called in the order of the changes."""

    def Withdraw(self) -> None:
        """Undo what Prepare did: the change was sent to nobody.  Called for the newest change first."""


class Rows(Change):
    """A change whose rows are known beforehand."""

    def __init__(self, *rows: Row):
        self._rows = rows

    def Prepare(self) -> Sequence[Row]:
        return self._rows


class StoreError(errors.GenericError):
    """A change was not acknowledged; the class says what is known of it."""


class NoQuorum(StoreError):
    """Refused: nothing was changed.  ``silent``: the voters that do not answer, by name."""

    def __init__(self, silent: Mapping[str, silence.Silent], voters: int, hint: str | None = None):
        self.silent = sorted(silent)
        self.voters = voters
        names = _WithReasons(silent) or "none"
        super().__init__(
            f"no change is accepted: too few of {voters} master candidates answer; no answer from {names}; nothing was changed",
            hint=hint or HintSilent(silent, voters),
        )


class NotKnown(StoreError):
    """Stored on some voters, not yet on a quorum; it is repeated and may still become done."""

    def __init__(self, stored: int, voters: int, silent: Mapping[str, silence.Silent]):
        self.stored = stored
        self.voters = voters
        self.silent = sorted(silent)
        super().__init__(
            f"not acknowledged yet: stored on {stored} of {voters} master candidates, {voters // 2 + 1} are needed;"
            f" no answer from {_WithReasons(silent) or 'the others yet'}; the master keeps trying",
            hint=HintSilent(silent, voters),
        )


class DiskRefused(StoreError):
    """Failed: the master's own disk did not take it, and it was not sent."""

    def __init__(self, cause: object):
        super().__init__(
            f"failed: the master's own disk did not store the change ({cause}); nothing was changed",
            hint="look at free space and health of the file system of the data directory",
        )


class TooLarge(StoreError):
    """Refused: a change of more bytes than nodes take in one call would block all that come after it."""

    def __init__(self, size: int):
        super().__init__(
            f"refused: the change has {size} bytes, at most {MAX_TRANSACTION} can be stored at once; nothing was changed",
            hint="make it in smaller steps",
        )


class MasterEnded(StoreError):
    """This master acknowledges nothing further; nothing that works for it may act again."""


class MasterLost(MasterEnded):
    """A newer master exists.  ``sent``: whether the change may be part of its history."""

    exit_code = constants.EXIT_NOTMASTER

    def __init__(self, epoch: str, master: str, sent: bool):
        self.epoch = epoch
        self.master = master
        self.sent = sent
        who = master or f"of epoch {epoch}"
        state = "what became of this change is not known" if sent else "nothing was changed"
        super().__init__(f"this node is no longer the master: {state}, ask {who}", hint=f"run the command on {who}")


class StoreEnded(MasterEnded):
    """The store of this master has ended, by a stop or an error of its own; the text says what is known of the change."""


class EpochTooOld(errors.GenericError):
    """A call of an epoch below the promised one."""

    def __init__(self, newer: Epoch, master: str):
        super().__init__(f"epoch {newer} of master {master or '(unknown)'} is newer")
        self.newer = newer
        self.master = master


def _WithReasons(silent: Mapping[str, silence.Silent]) -> str:
    return ", ".join(f"{name} ({_Reason(silent[name])})" if silent[name].reason else name for name in sorted(silent))


def _Reason(node: silence.Silent) -> str:
    """Return why a node did not answer, without the name that stands before it."""
    text = node.reason.removeprefix(f"node {node.name} ")
    return text.removeprefix("(").replace("): ", ": ", 1) if text.startswith("(") else text


def HintSilent(silent: Mapping[str, silence.Silent], voters: int) -> str:
    """Return the next step when voters do not answer (rules 7 and 8)."""
    if not silent:
        return "wait, or look at the log of the master daemon"
    names = sorted(silent)
    rejecting = [node.name for node in silent.values() if node.failure is Failure.REJECTED]
    if rejecting:
        return (
            f"{', '.join(sorted(rejecting))} accept no calls of this node: another node has become master, or this one became a"
            f" candidate while they were away. Run 'gnt-cluster getmaster' on {min(rejecting)}: if that node runs the master"
            f" daemon, stop the one here: '{pathutils.DAEMON_UTIL} stop-master'; if not, bring back another candidate, which"
            f" passes the calls on, or run 'gnt-cluster master-failover' on {min(rejecting)}"
        )
    left = voters - 1
    if voters - len(silent) >= left // 2 + 1:
        return f"bring {_OneOf(names)} back; if {names[0]} is switched off for good: 'gnt-node modify --offline yes {names[0]}'"
    running = silence.Accepting(silent.values())
    if running:
        return f"look at the node daemon of {', '.join(running)}: it accepts connections and does not answer"
    return (
        f"bring {_OneOf(names)} back; only if all nodes that do not answer are switched off and stay off, go on without them:"
        f" '{pathutils.DAEMON_UTIL} stop-master', then '{FORCED_START}'; this marks them offline, and what they alone had"
        " stored is lost"
    )


def _OneOf(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


FORCED_START = f"{pathutils.DAEMON_UTIL} start {constants.MASTERD} --no-voting --yes-do-it"
"""The command of a forced start on this node (rule 8)."""
