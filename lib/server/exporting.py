"""What the exporter of a daemon is told: who owns the exported files, and what stands in ssconf files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ganeti import _autoconf
from ganeti.daemon import users
from ganeti.store import export
from ganeti.store.node import NodeStore


def FileOwners() -> export.Owners:
    """Owners as (uid, gid), by spec/files.md 2."""
    master = users.UserId(_autoconf.MASTERD_USER)
    return export.Owners(
        config=(master, users.GroupId(_autoconf.CONFD_GROUP)),
        queue=(master, users.GroupId(_autoconf.DAEMONS_GROUP)),
        ssconf=(users.UserId(_autoconf.NODED_USER), users.GroupId(_autoconf.NODED_GROUP)),
    )


def SsconfTexts(rows: Mapping[str, Mapping[str, str]]) -> Any:
    """The values of all ssconf keys for the configuration in these rows."""
    # Only an exporter with rows needs the configuration's objects.
    from ganeti import objects, ssconf

    return ssconf.Values(
        objects.Snapshot.FromRows((kind, row_id, value) for kind in rows for row_id, value in rows[kind].items())
    )


def RunNodeExporter(node_store: NodeStore, stop: Callable[[], bool]) -> None:
    """The life of noded's exporter child: until ``stop()`` or a signal."""
    export.RunExporter(export.Exporter(node_store, FileOwners(), SsconfTexts), stop)
