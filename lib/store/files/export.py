"""The files as everybody knows them, written from acknowledged rows (rule 10).

::

    rows up to the acknowledged position --> View: texts by path --> digests recorded --> files put in place --> exported

One ``Exporter`` per process: a thread of masterd, and a child of noded on every node that has rows.  A round is done
under a file lock, so both may run on one node: whoever comes later finds nothing to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ganeti import errors, objects, pathutils, runtime, serializer, ssconf
from ganeti.store.base import (
    ID_DRAIN,
    ID_MASTER,
    ID_SERIAL,
    KIND_ARCHIVED,
    KIND_JOB,
    KIND_MASTER,
    KIND_QUEUE,
    NOWHERE,
    Line,
    Position,
    StoredRow,
)
from ganeti.store.copy.database import FileRecord, State
from ganeti.store.files.look import Digest, IsArchived, IsJobId, IsOfJob, IsSsconf, JobFiles, Look, Stamp, StampOf
from ganeti.store.files.owned import NO_OWNER, LockOwned, MakeOwned, Owner
from ganeti.utils.trouble import Trouble

if TYPE_CHECKING:
    from ganeti.runtime import protocols
    from ganeti.store.base import Row
    from ganeti.store.copy.database import Database
    from ganeti.store.copy.node import NodeStore
    from ganeti.store.master import Store

QUEUE_VERSION = b"1\n"

POLL_SECONDS = 0.4
ROUND_SECONDS = 0.5
"""Between two rounds of masterd; with the time a round takes the files are at most one second behind."""

ASIDE_PREFIX = "aside-"
LOOK_AGAIN_SECONDS = 10.0
"""Seconds between two looks whether another program changed or removed files other than jobs'."""

PORTION = 1000
"""Files that are written or read before anything else is looked at."""

_LOCK_TIMEOUT = 10.0
# A master that starts waits for the round of noded's exporter, which gives way after its portion.
_START_TIMEOUT = 120.0
# Rows that every exporter reads when it begins, beside those that its files do not show yet.
_ALWAYS_READ = (*objects.ROW_KINDS, KIND_QUEUE)
_END_TIMEOUT = 600.0
_MAX_FILE = 512 * 1024 * 1024

ValuesByKind = Mapping[str, Mapping[str, str]]
SsconfTexts = Callable[[ValuesByKind], Mapping[str, str]]


class Owners(NamedTuple):
    """The owners of the files as (uid, gid); -1 leaves them to the writing process (doc/reference/files.md 2)."""

    config: Owner = NO_OWNER
    queue: Owner = NO_OWNER
    ssconf: Owner = NO_OWNER


class Target(NamedTuple):
    """A file as it is to be."""

    data: bytes
    mode: int
    owner: Owner


def VisiblePosition(state: State, line: Line) -> Position | None:
    """Up to where this copy may be shown: acknowledged, and known row by row; None if that is nowhere."""
    if not state.last.seq:
        return None
    acknowledged = state.acknowledged
    if acknowledged.epoch == state.last.epoch and acknowledged.seq >= state.last.seq:
        return state.last
    if acknowledged.seq >= max(state.whole, 1) and line.Holds(acknowledged):
        return acknowledged
    return None


class View:
    """Which texts the rows make.  Pure; keeps the configuration's fragments and which files they and the queue are."""

    def __init__(self, owners: Owners, ssconf: SsconfTexts | None):
        self._owners = owners
        self._ssconf = ssconf
        self.makes_ssconf = ssconf is not None
        self._config: dict[str, dict[str, str]] = {}

    def Clear(self) -> None:
        self._config = {}

    def Take(self, rows: Iterable[StoredRow]) -> tuple[dict[str, Target | None], list[str]]:
        """Return the files that these rows change (None: remove it), and archive files that are no longer views."""
        targets: dict[str, Target | None] = {}
        forget: list[str] = []
        config_changed = False
        for row in rows:
            if row.kind in objects.ROW_KINDS:
                self._TakeConfig(row)
                config_changed = True
            elif row.kind in (KIND_JOB, KIND_ARCHIVED) and not IsJobId(row.id):
                logging.error("A row of kind %s has the id %r, which is not a job id: it has no file", row.kind, row.id)
            elif row.kind == KIND_JOB:
                targets[pathutils.JobFile(int(row.id))] = self._QueueFile(row.value)
            elif row.kind == KIND_ARCHIVED:
                path = pathutils.ArchivedJobFile(int(row.id))
                if row.value is None:
                    forget.append(path)
                else:
                    targets[path] = self._QueueFile(row.value)
            elif row.kind == KIND_QUEUE:
                targets.update(self._TakeQueue(row))
        if config_changed and "config" in self._config and "cluster" in self._config:
            targets.update(self._ConfigFiles())
        return targets, forget

    def _TakeConfig(self, row: StoredRow) -> None:
        kind = self._config.setdefault(row.kind, {})
        if row.value is None:
            kind.pop(row.id, None)
        else:
            kind[row.id] = row.value

    def _TakeQueue(self, row: StoredRow) -> dict[str, Target | None]:
        value = serializer.Load(row.value) if row.value is not None else None
        if row.id == ID_SERIAL:
            return {pathutils.JOB_QUEUE_SERIAL_FILE: Target(f"{value or 0}\n".encode(), 0o640, self._owners.queue)}
        if row.id == ID_DRAIN:
            drained = Target(b"", 0o644, self._owners.queue) if value else None
            return {pathutils.JOB_QUEUE_DRAIN_FILE: drained}
        return {}

    def _QueueFile(self, value: str | None) -> Target | None:
        return None if value is None else Target(value.encode(), 0o640, self._owners.queue)

    def _ConfigFiles(self) -> dict[str, Target | None]:
        text = objects.ConfigTextOfRows(self._config)
        files: dict[str, Target | None] = {
            pathutils.CLUSTER_CONF_FILE: Target(text.encode(), 0o640, self._owners.config)
        }
        if self._ssconf is not None:
            for key, value in self._ssconf(self._config).items():
                data = value if not value or value.endswith("\n") else value + "\n"
                files[pathutils.SsconfFile(key)] = Target(
                    data.encode("utf-8", "backslashreplace"), 0o444, self._owners.ssconf
                )
        return files


@dataclass
class _Shown:
    """This process's knowledge of its node's files."""

    at: Position = NOWHERE
    # Digest of what lies in place, "" for nothing.
    placed: dict[str, str] = field(default_factory=dict)
    # Of the files that are looked at again now and then.
    stamps: dict[str, str] = field(default_factory=dict)
    exported: int = -1
    failed: bool = False


def LockFiles(own: NodeStore, serving: bool) -> protocols.FileLock:
    """Lock the files of a node, which other exporters then leave alone."""
    folder = own.path.rpartition("/")[0]
    return LockOwned(f"{folder}/export.lock", True, _START_TIMEOUT if serving else _LOCK_TIMEOUT, own.owner)


class GaveWay(Exception):
    """The rest of a round is not to be done: a master daemon has begun to serve on this node, or the copy is gone."""


class Exporter:
    """Writes the files of one node.  ``Round`` does all there is to do; any thread may call it, one at a time.

    ``serving``: this process is the master itself.  Any other leaves an edited file alone on the node whose copy names it
    as master, for the next start of the master to look at, and puts it aside on others (rule 11); all other files are
    written, and ``exported`` stays where it is until this one is in place, too.  While a master daemon
    serves on this node it leaves the files to that one, but for ssconf files if ``beside``: a master that runs as a user
    of its own may not write those.

    ``look``: a look at the files since which nobody else has written any; without it the first round looks itself.
    """

    def __init__(
        self,
        own: NodeStore,
        owners: Owners,
        ssconf: SsconfTexts | None = None,
        serving: bool = False,
        beside: bool = False,
        look: Look | None = None,
    ):
        self._own = own
        self._view = View(owners, ssconf)
        self._owners = owners
        self._serving = serving
        self._beside = beside
        self._only_ssconf = False
        self._folder = own.path.rpartition("/")[0]
        self._shown = _Shown()
        self._look = look
        # Digests of foreign files that were put aside and may still be in place.
        self._aside: dict[str, str] = {}
        # Edited files that are left to the next master, and when they are looked at again.
        self._left: frozenset[str] = frozenset()
        self._again_at = 0.0
        self._look_at = 0.0

    def Round(self, acknowledged: Position = NOWHERE) -> Position | None:
        """Bring the files up to what is acknowledged; return the position that they show, None if it is unknown.

        ``acknowledged``: what the caller knows beyond the database.  Raises OSError when a file could not be written:
        the next round tries again.
        """
        database = self._own.database
        if not database.GetState().last.seq:
            return None
        beside = not self._serving and self._own.IsServing()
        if beside and not self._beside:
            return None
        if beside != self._only_ssconf:
            self._shown = _Shown()
            self._left = frozenset()
            self._only_ssconf = beside
        with LockFiles(self._own, self._serving):
            try:
                # Whoever looked at the files meanwhile relies on it that they stay as they are.
                self.GiveWay()
                return self._Round(database, acknowledged)
            except GaveWay:
                self._shown.failed = True
                return None

    def GiveWay(self) -> None:
        """Between two portions of a long round of noded's exporter."""
        if not self._serving and not self._only_ssconf and self._own.IsServing():
            raise GaveWay

    def _Disturbed(self) -> bool:
        """Return whether another program wrote or removed a file other than a job's; looks now and then."""
        now = runtime.Monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_AGAIN_SECONDS
        return any(StampOf(path) != stamp for path, stamp in self._shown.stamps.items())

    def _Round(self, database: Database, acknowledged: Position) -> Position | None:
        begins = not self._shown.at.seq and not self._shown.failed and not self._only_ssconf
        taken_up = self._TakeUp(database) if begins else None
        with database.Transaction():
            state = database.GetState()
            state = state.With(acknowledged=max(state.acknowledged, acknowledged))
            line = database.GetLine(state.last)
            visible = VisiblePosition(state, line)
            if visible is None:
                return None
            if self._Waits(state, visible):
                return None
            self._shown.failed = self._shown.failed or self._Disturbed()
            if taken_up is not None:
                self._shown = taken_up
            elif visible == self._shown.at and not self._OthersWrote(state) and not self._shown.failed:
                return visible
            anew = self._MustLoadAnew(state, line, visible)
            # Unless this round comes to its end, the next one has to.
            self._shown.failed = True
            rows = database.GetRowsAt(visible.seq, 0 if anew else self._shown.at.seq)
            if taken_up is not None and not anew:
                rows += database.GetRowsAt(visible.seq, 0, _ALWAYS_READ)
            records = database.GetFiles() if anew else {}
        if anew:
            self._view.Clear()
        targets, forget = self._view.Take(rows)
        del rows  # their texts are in the targets now
        if anew:
            # The deletions of these rows may have been pruned before a round saw them.
            forget = [path for path in records if IsArchived(path) and path not in targets]
            for path in forget:
                del records[path]
        if self._only_ssconf:
            self._PlaceSsconf(targets, anew)
            self._shown.at = visible
            return visible
        unstamped: dict[str, str] = {}
        if anew:
            unstamped = self._LookAtFiles(database, state, records, targets)
            targets = {path: t for path, t in {**self._Gone(targets), **targets}.items() if path not in self._left}
        self._Place(database, targets, unstamped, forget, visible)
        self._shown.at = visible
        if self._left:
            # The next round looks at all of them again, at once if there is something new to show.
            self._shown.failed = True
            self._shown.exported = state.exported
            self._again_at = runtime.Monotonic() + LOOK_AGAIN_SECONDS
            return None
        self._shown.exported = visible.seq
        return visible

    def _Waits(self, state: State, visible: Position) -> bool:
        """Return whether edited files were left to the next master, and nothing has happened since."""
        return (
            bool(self._left)
            and visible == self._shown.at
            and not self._OthersWrote(state)
            and runtime.Monotonic() < self._again_at
        )

    def _TakeUp(self, database: Database) -> _Shown | None:
        """Return where another exporter of this node ended, if all files are in place as it left them.

        Then only rows that came later have to be read, and those from which more than one file, or none, is made.
        """
        look, self._look = self._look or Look(database.GetFiles()), None
        mine = self._view.makes_ssconf
        if look.unknown or any(mine or not IsSsconf(path) for path in look.changed):
            return None
        with database.Transaction():
            state = database.GetState()
            epoch = database.GetLine(state.last).EpochAt(state.exported) if state.exported else None
        if epoch is None:
            return None
        placed = {path: record.digest for path, record in look.records.items()}
        stamps = {path: record.stamp for path, record in look.records.items() if not IsOfJob(path)}
        return _Shown(Position(epoch, state.exported), placed, stamps, state.exported)

    def _MustLoadAnew(self, state: State, line: Line, visible: Position) -> bool:
        """Return whether the rows' seqs do not show what changed since the last round."""
        at = self._shown.at
        return (
            self._shown.failed
            or not at.seq
            or self._OthersWrote(state)
            or not line.Holds(at)
            or at.seq > visible.seq
            or state.pruned > at.seq
            or state.whole > at.seq
        )

    def _OthersWrote(self, state: State) -> bool:
        """Return whether another process wrote files since the last round."""
        return not self._only_ssconf and state.exported != self._shown.exported

    def _PlaceSsconf(self, targets: Mapping[str, Target | None], anew: bool) -> None:
        """Write ssconf files with other contents; a master daemon does the rest."""
        wanted = {path: target for path, target in targets.items() if target is not None and IsSsconf(path)}
        if anew:
            found = {path: _Read(path) for path in wanted}
            self._shown = _Shown(placed={path: "" if data is None else Digest(data) for path, data in found.items()})
            self._shown.stamps = {path: StampOf(path) for path in wanted}
        digests = {path: Digest(target.data) for path, target in wanted.items()}
        self._shown.failed = True
        self._WriteSsconf(
            {path: (wanted[path], digest) for path, digest in digests.items() if digest != self._shown.placed.get(path)}
        )
        self._shown.failed = False

    def _WriteSsconf(self, files: Mapping[str, tuple[Target, str]]) -> dict[str, str]:
        if not files:
            return {}
        with ssconf.Lock():
            return self._Write(files)

    def _LookAtFiles(
        self, database: Database, state: State, records: Mapping[str, FileRecord], targets: Mapping[str, Target | None]
    ) -> dict[str, str]:
        """Look at the files in place; put foreign ones aside, or note them as left to the master.

        Returns the stamps of those that were read, because none or another one was noted.
        """
        shown = _Shown()
        foreign: dict[str, str] = {}
        unstamped: dict[str, str] = {}
        for number, path in enumerate({*records, *targets, *JobFiles().values()}):
            if number % PORTION == 0:
                self.GiveWay()
            record = records.get(path)
            stamp = StampOf(path)
            if not IsOfJob(path):
                shown.stamps[path] = stamp
            if record is not None and record.stamp and stamp == record.stamp:
                digest = record.digest
            else:
                data = _Read(path) if stamp else None
                digest = "" if data is None else Digest(data)
                unstamped[path] = stamp
            shown.placed[path] = digest
            target = targets.get(path)
            known = [record.digest, record.placed] if record is not None else []
            if target is not None:
                known.append(Digest(target.data))
            if digest and digest not in known and not IsSsconf(path):
                foreign[path] = digest
        left: frozenset[str] = frozenset()
        if not self._serving and self._IsMasterNode(database):
            left = frozenset(foreign)
            if targets.get(pathutils.JOB_QUEUE_DRAIN_FILE) and _DrainTakenAway(state, records, shown.placed):
                left |= {pathutils.JOB_QUEUE_DRAIN_FILE}
            foreign = {}
        if left - self._left:
            logging.warning(
                "Files were edited by hand: %s; they are left for the next start of the master daemon",
                ", ".join(sorted(left)),
            )
        self._left = left
        for path, digest in foreign.items():
            if self._aside.get(path) != digest:
                self._PutAside(path, replaced=targets.get(path) is not None)
            self._aside[path] = digest
            shown.placed[path] = ""
        self._shown = shown
        return unstamped

    def _IsMasterNode(self, database: Database) -> bool:
        value = database.GetValue(KIND_MASTER, ID_MASTER)
        return value is not None and serializer.Load(value).get("name") == self._own.node_name

    def _Gone(self, targets: Mapping[str, Target | None]) -> dict[str, Target | None]:
        """Return the files to remove: live jobs and the drain flag that the rows do not make; others are left."""
        return {
            path: None
            for path, digest in self._shown.placed.items()
            if digest and path not in targets and path.startswith(pathutils.QUEUE_DIR + "/") and not IsArchived(path)
        }

    def _PutAside(self, path: str, replaced: bool) -> None:
        """Keep a file under another name; one that is ``replaced`` stays in place until then, as others read it."""
        target = f"{self._folder}/{ASIDE_PREFIX}{int(runtime.Time() * 1000)}-{path.rpartition('/')[2]}"
        if not (replaced and _Linked(path, target)):
            runtime.Rename(path, target)
        logging.warning(
            "File %s was not written by the store: it was put aside as %s and is written anew", path, target
        )

    def _Place(
        self,
        database: Database,
        targets: Mapping[str, Target | None],
        unstamped: Mapping[str, str],
        forget: Iterable[str],
        visible: Position,
    ) -> None:
        """Record the digests, then put the files in place; the next round repeats what fails.

        A file of release 3.1 may be just what is wanted: it is not written, and becomes one of ours by its record and
        its stamp.  So does one that somebody else wrote with just these contents.
        """
        write: dict[str, tuple[Target, str]] = {}
        remove: list[str] = []
        records: list[FileRecord] = []
        for path, target in targets.items():
            if target is None:
                remove.append(path)
                continue
            digest, placed = Digest(target.data), self._shown.placed.get(path, "")
            if digest != placed:
                write[path] = (target, digest)
            if digest != placed or path in unstamped:
                records.append(FileRecord(path, visible, digest, placed or digest))
        if records:
            with database.Transaction():
                database.PutFiles(records)
        recorded = [record.path for record in records]
        self._shown.failed = True
        self._MakeQueue()
        stamps = {path: stamp for path, stamp in {**self._shown.stamps, **unstamped}.items() if path not in write}
        stamps.update(self._Write({path: found for path, found in write.items() if not IsSsconf(path)}))
        stamps.update(self._WriteSsconf({path: found for path, found in write.items() if IsSsconf(path)}))
        for begin in range(0, len(remove), PORTION):
            self.GiveWay()
            runtime.RemoveFiles(remove[begin : begin + PORTION])
        for path in remove:
            self._shown.placed.pop(path, None)
            self._shown.stamps.pop(path, None)
        with database.Transaction():
            database.StampFiles({path: stamps.get(path, "") for path in recorded})
            database.ForgetFiles([*remove, *forget])
            # A history that came meanwhile is not what these files show; nor is a state of which a file was left out.
            if not self._left and database.GetLine(database.GetState().last).Holds(visible):
                database.SetExported(visible.seq)
        for path in forget:
            self._shown.placed.pop(path, None)
        self._aside.clear()
        self._shown.failed = False

    def _Write(self, files: Mapping[str, tuple[Target, str]]) -> dict[str, str]:
        """Put files in place, in portions; return their stamps."""
        stamps: dict[str, str] = {}
        paths = list(files)
        for folder in {path.rpartition("/")[0] for path in paths if IsArchived(path)}:
            MakeOwned(folder, 0o750, self._owners.queue)
        for begin in range(0, len(paths), PORTION):
            self.GiveWay()
            portion = paths[begin : begin + PORTION]
            targets = [(path, files[path][0]) for path in portion]
            made = runtime.WriteFiles([runtime.NewFile(path, t.data, t.mode, *t.owner) for path, t in targets])
            stamps.update(zip(portion, map(Stamp, made), strict=True))
            self._shown.placed.update((path, files[path][1]) for path in portion)
        self._shown.stamps.update((path, stamp) for path, stamp in stamps.items() if not IsOfJob(path))
        return stamps

    def _MakeQueue(self) -> None:
        if runtime.Exists(pathutils.JOB_QUEUE_VERSION_FILE):
            return
        MakeOwned(pathutils.QUEUE_DIR, 0o750, self._owners.queue)
        MakeOwned(pathutils.JOB_QUEUE_ARCHIVE_DIR, 0o750, self._owners.queue)
        runtime.WriteFile(pathutils.JOB_QUEUE_VERSION_FILE, QUEUE_VERSION, 0o640, *self._owners.queue)


def _DrainTakenAway(state: State, records: Mapping[str, FileRecord], placed: Mapping[str, str]) -> bool:
    """Return whether the drain flag was put in place and somebody removed it: an edit that has no content (rule 11)."""
    record = records.get(pathutils.JOB_QUEUE_DRAIN_FILE)
    return record is not None and record.shows.seq <= state.exported and not placed.get(pathutils.JOB_QUEUE_DRAIN_FILE)


def _Linked(path: str, name: str) -> bool:
    """Give a file another name; return False if that is not permitted.

    Linux lets only root and its owner link a file that one may not write (``fs.protected_hardlinks``).
    """
    try:
        runtime.HardLink(path, name)
    except PermissionError:
        return False
    return True


def _Read(path: str) -> bytes | None:
    try:
        return runtime.ReadFile(path, _MAX_FILE)
    except FileNotFoundError:
        return None


_BEHIND = "The configuration and queue files could not be brought up to date"
# The last three: a copy with readable rows that make no sense.  Whatever the cause, the exporter continues.
_FAILURES = (OSError, errors.GenericError, LookupError, TypeError, ValueError)


class ExporterThread:
    """The exporter of masterd: a round at most every half second, one at the start and one at the end."""

    def __init__(self, exporter: Exporter, store: Store):
        self._exporter = exporter
        self._store = store
        self._wake = runtime.Event()
        self._stopping = False
        self._thread = runtime.Thread(self._Run, "exporter")

    def Start(self) -> None:
        """Do the first round in the calling thread: after it the files are exact."""
        self._Round()
        self._store.Listen(self._Changed)
        self._wake.set()
        self._thread.start()

    def _Changed(self, position: Position, rows: Sequence[Row]) -> None:
        del position, rows
        self._wake.set()

    def Stop(self) -> None:
        """End the thread and do the last round, after the store has stopped: then the files are exact.

        Raises OSError if they are not.
        """
        self._stopping = True
        self._wake.set()
        self._thread.join(_END_TIMEOUT)
        self._Round()

    def _Run(self) -> None:
        trouble = Trouble(_BEHIND)
        while not self._stopping:
            self._wake.wait(LOOK_AGAIN_SECONDS)
            self._wake.clear()
            try:
                self._Round()
                trouble.Over()
            except _FAILURES as err:
                trouble.Log(_FailureText(err))
                self._wake.set()
            runtime.Sleep(ROUND_SECONDS)

    def _Round(self) -> None:
        shown = self._exporter.Round(self._store.Acknowledged())
        if shown is not None:
            self._store.SetExported(shown.seq)


def _FailureText(err: Exception) -> str:
    return str(err) if isinstance(err, (OSError, errors.GenericError)) else f"{type(err).__name__}: {err}"


def RunExporter(exporter: Exporter, stop: Callable[[], bool]) -> None:
    """Run a node's exporter: rounds until ``stop()``; noded's parent restarts it if it ends."""
    trouble = Trouble(_BEHIND)
    while not stop():
        try:
            exporter.Round()
            trouble.Over()
        except _FAILURES as err:
            trouble.Log(_FailureText(err))
        runtime.Sleep(POLL_SECONDS)
