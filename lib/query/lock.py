"""Fields of locks (doc/reference/queries.md 3.6)."""

from __future__ import annotations

from ganeti.query.base import OTHER, Field, Kind
from ganeti.query.common import Column
from ganeti.query.context import LIVE_LOCKS

KIND = Kind(
    "lock",
    "name",
    [
        Field("name", "Name", OTHER, "Lock name", Column(0)),
        Field("mode", "Mode", OTHER, "Mode in which the lock is held", Column(1)),
        Field("owner", "Owner", OTHER, "Who holds the lock", Column(2)),
        Field("pending", "Pending", OTHER, "Who waits for the lock", Column(3)),
    ],
    items=lambda context: context.locks,
    item_name=lambda row: row[0],
    by_name=False,
    live_items=LIVE_LOCKS,
    default_fields="name mode owner pending",
)
