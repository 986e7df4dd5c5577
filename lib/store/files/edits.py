"""Files that were edited by hand while no master ran (rule 11).

An edit is taken as a change if it was made on just the state the files showed last and makes sense; anything else is
refused, and nothing is touched.  Files that are missing, or that the store never wrote, are no edits: the store's state
is written in their place, and what lay there is kept aside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ganeti import configfile, errors, objects, pathutils, runtime, serializer
from ganeti.store.base import ID_DRAIN, ID_SERIAL, KIND_JOB, KIND_QUEUE, Row
from ganeti.store.files.export import LockFiles
from ganeti.store.files.look import Digest, LiveJobOf, Look

if TYPE_CHECKING:
    from ganeti.store.copy.node import NodeStore
    from ganeti.store.election import Adopted

_MAX_FILE = 512 * 1024 * 1024
KIND_CONFIG = "config"
_MAX_JOB = 64 * 1024 * 1024
_HINT = "put the file back as it was, or remove it: it is then written anew from the store"


class HandEdits:
    """Looks for edits at the start of a master.

    ``check_job(id, text)`` raises a GenericError if the text is no job file of that job.  ``look`` is what the exporter of
    the new master continues from.
    """

    def __init__(self, own: NodeStore, check_job: Callable[[int, str], None]):
        self._check_job = check_job
        with LockFiles(own, serving=True):
            self._state = own.GetState()
            self.look = Look(own.database.GetFiles())

    def Rows(self, adopted: Adopted) -> list[Row]:
        """Return the changes made by hand, as rows on top of ``adopted``; raise ConfigurationError to reject them."""
        rows = self._Config(adopted)
        rows += self._Jobs(adopted)
        rows += self._Queue(adopted)
        for row in rows:
            logging.warning("Taken over from a file edited by hand: %s %s", row.kind, row.id)
        return rows

    def _Edited(self, path: str, limit: int) -> bytes | None:
        """Return the content of a file of the store that was edited; None if it was not."""
        if path not in self.look.changed:
            return None
        record = self.look.records[path]
        try:
            data = runtime.ReadFile(path, limit)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise _Refusal(path, f"it cannot be read ({err.strerror or err})") from err
        return None if Digest(data) in (record.digest, record.placed) else data

    def _CheckBase(self, path: str, adopted: Adopted, newest: int) -> None:
        """Reject an edit that was not made on the newest state."""
        shows = self.look.records[path].shows
        if (
            not adopted.line.Holds(shows)
            or newest > shows.seq
            or (self._state.exported and self._state.exported < shows.seq)
        ):
            raise _Refusal(path, "it was edited on an older state than the cluster's newest")

    # The configuration

    def _Config(self, adopted: Adopted) -> list[Row]:
        path = pathutils.CLUSTER_CONF_FILE
        data = self._Edited(path, _MAX_FILE)
        if data is None:
            return []
        try:
            snapshot = configfile.LoadConfig(data)
        except errors.GenericError as err:
            raise _Refusal(path, str(err)) from err
        if self._IsStored(adopted, snapshot):
            return []
        newest = max((seq for kind in objects.ROW_KINDS for seq in adopted.seqs.get(kind, {}).values()), default=0)
        self._CheckBase(path, adopted, newest)
        problems = configfile.StructuralProblems(snapshot)
        if problems:
            raise _Refusal(path, "; ".join(problems))
        stored = serializer.Load(adopted.values["config"]["config"])
        cluster = serializer.Load(adopted.values["cluster"]["cluster"])
        for key in ("uuid", "master_node"):
            if getattr(snapshot.cluster, key) != cluster.get(key):
                raise _Refusal(path, f"the cluster's {key} cannot be changed by hand")
        snapshot = snapshot.Replace(
            serial_no=max(int(stored.get("serial_no", 0)), snapshot.serial_no) + 1, mtime=runtime.Time()
        )
        return _Differences(adopted, snapshot)

    def _IsStored(self, adopted: Adopted, snapshot: objects.Snapshot) -> bool:
        """Return whether a start adopted the edit already, and ended before the files were written."""
        return all(row.kind == KIND_CONFIG for row in _Differences(adopted, snapshot))

    # The queue

    def _Jobs(self, adopted: Adopted) -> list[Row]:
        rows = []
        for path in sorted(self.look.changed):
            job_id = LiveJobOf(path)
            value = adopted.values.get(KIND_JOB, {}).get(str(job_id))
            data = self._Edited(path, _MAX_JOB) if job_id is not None and value is not None else None
            if job_id is None or value is None or data is None or data == value.encode():
                continue
            self._CheckBase(path, adopted, adopted.seqs[KIND_JOB][str(job_id)])
            try:
                text = data.decode("utf-8")
                self._check_job(job_id, text)
            except (errors.GenericError, ValueError) as err:
                raise _Refusal(path, str(err)) from err
            rows.append(Row(KIND_JOB, str(job_id), text))
        return rows

    def _Queue(self, adopted: Adopted) -> list[Row]:
        stored = {key: serializer.Load(text) for key, text in adopted.values.get(KIND_QUEUE, {}).items()}
        rows = []
        path = pathutils.JOB_QUEUE_SERIAL_FILE
        data = self._Edited(path, 100)
        if data is not None:
            text = data.decode("ascii", "replace").strip()
            if not (text.isascii() and text.isdigit()) or int(text) < int(stored.get(ID_SERIAL) or 0):
                raise _Refusal(
                    path, f"it must hold a number that is not below the last job id, {stored.get(ID_SERIAL)}"
                )
            if int(text) != int(stored.get(ID_SERIAL) or 0):
                rows.append(Row(KIND_QUEUE, ID_SERIAL, text))
        return [*rows, *self._Drain(bool(stored.get(ID_DRAIN)))]

    def _Drain(self, drained: bool) -> list[Row]:
        """Return the change of the drain flag, which is a file that exists or not."""
        if pathutils.JOB_QUEUE_SERIAL_FILE not in self.look.records:
            return []
        record = self.look.records.get(pathutils.JOB_QUEUE_DRAIN_FILE)
        there = runtime.Exists(pathutils.JOB_QUEUE_DRAIN_FILE)
        if there == (record is not None) or drained == there:
            return []
        if record is not None and record.shows.seq > self._state.exported:
            # It was recorded and never written: the exporter ended in between.
            return []
        return [Row(KIND_QUEUE, ID_DRAIN, serializer.Dump(True) if there else None)]


def _Differences(adopted: Adopted, snapshot: Any) -> list[Row]:
    new = {(kind, row_id): value for kind, row_id, value in snapshot.ToRows()}
    old = {
        (kind, row_id): value for kind in objects.ROW_KINDS for row_id, value in adopted.values.get(kind, {}).items()
    }
    rows = [Row(*key, value) for key, value in new.items() if old.get(key) != value]
    rows += [Row(*key, None) for key in old if key not in new]
    return rows


def _Refusal(path: str, reason: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(f"{path} was edited by hand and cannot be taken over: {reason}", hint=_HINT)
