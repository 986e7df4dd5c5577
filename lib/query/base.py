"""Fields, their kinds, and the values they can have (doc/reference/queries.md 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ganeti import constants
from ganeti.utils.text import NiceSort as NiceSort
from ganeti.utils.text import NiceSortKey as NiceSortKey

# Kinds of fields.
TEXT: Final = "text"
BOOL: Final = "bool"
NUMBER: Final = "number"
FLOAT: Final = "float"
UNIT: Final = "unit"
TIMESTAMP: Final = "timestamp"
OTHER: Final = "other"
UNKNOWN: Final = "unknown"


class Absent:
    """A field without a value for this item, and why."""

    __slots__ = ("status",)

    def __init__(self, status: int):
        self.status = status

    def __repr__(self) -> str:
        return f"<Absent {self.status}>"


NODATA: Final = Absent(constants.RS_NODATA)
UNAVAIL: Final = Absent(constants.RS_UNAVAIL)
OFFLINE: Final = Absent(constants.RS_OFFLINE)


def OrUnavail(value: Any) -> Any:
    """Return ``value``, or UNAVAIL when there is none."""
    return UNAVAIL if value is None else value


class Field:
    """One field of a kind.

    ``getter(context, item)`` gives the value or an Absent; ``live`` names the part of the live data it reads (None:
    the configuration is enough); ``hostname``: short names match in filters; ``seconds``: only the seconds of a
    [seconds, microseconds] pair are compared.
    """

    __slots__ = ("doc", "getter", "hostname", "kind", "live", "name", "seconds", "title")

    def __init__(
        self,
        name: str,
        title: str,
        kind: str,
        doc: str,
        getter: Callable[[Any, Any], Any],
        live: str | None = None,
        hostname: bool = False,
        seconds: bool = False,
    ):
        self.name = name
        self.title = title
        self.kind = kind
        self.doc = doc
        self.getter = getter
        self.live = live
        self.hostname = hostname
        self.seconds = seconds

    def Definition(self) -> dict[str, str]:
        return {"name": self.name, "title": self.title, "kind": self.kind, "doc": self.doc}


def UnknownDefinition(name: str) -> dict[str, str]:
    return {"name": name, "title": name, "kind": UNKNOWN, "doc": f"Unknown field '{name}'"}


class Kind:
    """A kind of object that can be listed: its fields and how its items are named.

    ``items(context)`` are all items; ``name(item)`` the value of the key field; ``uuid(item)`` another name that finds it;
    ``find`` is set when items named in a request need not be among ``items`` (jobs); ``live_items`` names the live data
    the items themselves come from (locks), which their fields need not repeat.  ``rows(context, item)`` is set where an
    item has any number of rows (exports of nodes), which come from the live data ``live_rows``.
    """

    def __init__(
        self,
        name: str,
        key: str | None,
        fields: Iterable[Field],
        items: Callable[[Any], Iterable[Any]],
        item_name: Callable[[Any], Any],
        item_uuid: Callable[[Any], str | None] = lambda _: None,
        by_name: bool = True,
        aliases: Mapping[str, str] | None = None,
        find: Callable[[Any, list[int]], list[Any]] | None = None,
        live_items: str | None = None,
        rows: Callable[[Any, Any], list[Any]] = lambda _context, item: [item],
        live_rows: str | None = None,
        default_fields: str = "",
    ):
        self.name = name
        self.key = key
        self.items = items
        self.item_name = item_name
        self.item_uuid = item_uuid
        self.by_name = by_name
        self.find = find
        self.live_items = live_items
        self.rows = rows
        self.live_rows = live_rows
        self.default_fields = default_fields.split()
        self.fields = {f.name: f for f in fields}
        for alias, target in (aliases or {}).items():
            f = self.fields[target]
            self.fields[alias] = Field(alias, f.title, f.kind, f.doc, f.getter, f.live, f.hostname, f.seconds)

    def Definitions(self, names: Iterable[str] | None) -> list[dict[str, str]]:
        """Return the definitions of the named fields in that order, or of all in natural order."""
        if not names:
            names = NiceSort(self.fields)
        return [self.fields[n].Definition() if n in self.fields else UnknownDefinition(n) for n in names]
