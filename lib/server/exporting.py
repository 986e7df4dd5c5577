"""What the exporter of a daemon needs: the owners of the exported files, and the contents of ssconf files."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import _autoconf, errors, pathutils, runtime
from ganeti.daemon import users
from ganeti.store.base import NOWHERE, Position
from ganeti.store.copy.node import NodeStore
from ganeti.store.files import export
from ganeti.utils import owndirs

if TYPE_CHECKING:
    from ganeti import objects


def FileOwners() -> export.Owners:
    """Return the owners of files as (uid, gid), by doc/reference/files.md 2."""
    master = users.UserId(_autoconf.MASTERD_USER)
    return export.Owners(
        config=(master, users.GroupId(_autoconf.CONFD_GROUP)),
        queue=(master, users.GroupId(_autoconf.DAEMONS_GROUP)),
        ssconf=(users.UserId(_autoconf.NODED_USER), users.GroupId(_autoconf.NODED_GROUP)),
    )


def MasterWritesSsconf() -> bool:
    """Return whether the master daemon runs as the user who owns the ssconf files."""
    return _autoconf.MASTERD_USER == _autoconf.NODED_USER


class SsconfTexts:
    """The values of all ssconf keys for the configuration in the rows it is called with.

    Keeps the objects: of the next rows only those with another text are read.
    """

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, str]] = {}
        self._snapshot: objects.Snapshot | None = None

    def __call__(self, rows: Mapping[str, Mapping[str, str]]) -> Any:
        # Only an exporter with rows needs the configuration's objects.
        from ganeti import objects, ssconf

        if self._snapshot is None:
            self._snapshot = objects.Snapshot.FromRows(
                (kind, row_id, value) for kind in rows for row_id, value in rows[kind].items()
            )
        else:
            self._snapshot = self._snapshot.WithRows(self._Changed(rows))
        self._rows = {kind: dict(values) for kind, values in rows.items()}
        return ssconf.Writable(ssconf.Values(self._snapshot))

    def _Changed(self, rows: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str, str | None]]:
        for kind in {*rows, *self._rows}:
            now, before = rows.get(kind, {}), self._rows.get(kind, {})
            yield from ((kind, row_id, value) for row_id, value in now.items() if before.get(row_id) != value)
            yield from ((kind, row_id, None) for row_id in before if row_id not in now)


class NodeExporter(export.Exporter):
    """Writes nothing where the node has no copy: before it joins a cluster, and after it has left; this process may have one open."""

    def Round(self, acknowledged: Position = NOWHERE) -> Position | None:
        # Whoever opens a copy that is missing makes an empty one.
        return super().Round(acknowledged) if self._HasCopy() else None

    def _HasCopy(self) -> bool:
        return runtime.Exists(self._own.path)

    def GiveWay(self) -> None:
        if not self._HasCopy():
            raise export.GaveWay
        super().GiveWay()


class _RootsExporter(NodeExporter):
    """Writes with root's rights into folders that lie in one of the master daemon's user."""

    def Round(self, acknowledged: Position = NOWHERE) -> Position | None:
        for folder in (pathutils.QUEUE_DIR, pathutils.JOB_QUEUE_ARCHIVE_DIR):
            if runtime.Exists(folder) and not stat.S_ISDIR(runtime.Stat(folder, follow=False).st_mode):
                raise errors.StorageError(owndirs.NotADirectory(folder))
        return super().Round(acknowledged)


def RunNodeExporter(node_store: NodeStore, stop: Callable[[], bool]) -> None:
    """Run noded's exporter child until ``stop()`` or a signal."""
    made = NodeExporter if MasterWritesSsconf() else _RootsExporter
    export.RunExporter(made(node_store, FileOwners(), SsconfTexts(), beside=not MasterWritesSsconf()), stop)
