"""Running a query: what has to be asked of the nodes first, then the rows (doc/reference/queries.md 1, 2).

A query goes in two halves, because a request thread never waits::

    plan = Plan(kind, fields, qfilter, context)      names resolved, items picked as far as the configuration tells
    ... the caller collects plan.parts for plan.items (RPC, lock monitor) and puts them into the context ...
    plan.Rows()                                      the answer
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ganeti import constants, errors
from ganeti.query.base import Absent, Field, Kind, NiceSortKey, UnknownDefinition
from ganeti.query.filters import PENDING, Filter, RequestedNames

Cell = tuple[int, Any]


def SortKey(value: Any) -> Any:
    return value if isinstance(value, int) else NiceSortKey(str(value))


# How 3.1 calls the kinds when a name is unknown (doc/reference/cli.md 6).
_NAMED = {"group": "NodeGroup", "export": "Node"}


class Plan:
    """One query over one kind.  ``items`` are the candidates, ``parts`` the live data still to be collected."""

    def __init__(self, kind: Kind, fields: Iterable[str], qfilter: Any, context: Any, names: list[Any] | None = None):
        """``names``: items asked for by name or UUID besides the filter (the classic calls)."""
        self.kind = kind
        self.context = context
        self.fields = list(fields)
        self._wanted: list[Field | None] = [kind.fields.get(f) for f in self.fields]
        self._filter = Filter(qfilter, kind.fields)
        read = [f for f in self._wanted if f is not None] + list(self._filter.fields.values())
        needed = [field.live for field in read] + [kind.live_items, kind.live_rows]
        self.parts = frozenset(part for part in needed if part is not None)
        self._names = names
        self._requested = RequestedNames(qfilter, kind.key) if kind.by_name and names is None else None
        self.items: list[Any] = [] if kind.live_items else self._Pick()

    def _Pick(self) -> list[Any]:
        """Return the items that may pass, as far as can be said without live data."""
        if self._names is not None:
            candidates = self._ByNameOrUuid(self._names)
        elif self._requested is not None:
            candidates = self._Named(self._requested)
        else:
            candidates = self._All()
        return [i for i in candidates if self._filter.Evaluate(self._Reader(i, live=False)) is not False]

    def _All(self) -> list[Any]:
        return sorted(self.kind.items(self.context), key=lambda i: SortKey(self.kind.item_name(i)))

    def _Named(self, requested: list[Any]) -> list[Any]:
        if self.kind.find is not None:
            return self.kind.find(self.context, [_JobId(n) for n in dict.fromkeys(requested)])
        items = list(self.kind.items(self.context))
        by_name: dict[Any, list[Any]] = {}
        for item in items:
            by_name.setdefault(self.kind.item_name(item), []).append(item)
            uuid = self.kind.item_uuid(item)
            if uuid is not None:
                by_name.setdefault(uuid, []).append(item)
        key = self.kind.fields[str(self.kind.key)]
        found: list[Any] = []
        for name in requested:
            matches = by_name.get(name)
            if matches is None and key.hostname and isinstance(name, str):
                matches = [i for i in items if str(self.kind.item_name(i)).startswith(name + ".")]
                if len(matches) > 1:
                    texts = ", ".join(sorted(str(self.kind.item_name(i)) for i in matches))
                    raise errors.OpPrereqError(
                        f"{self.kind.name} name '{name}' is ambiguous: {texts}", errors.ECODE_INVAL
                    )
            if not matches:
                raise errors.OpPrereqError(
                    f"{_NAMED.get(self.kind.name, self.kind.name.capitalize())} name {name} not found",
                    errors.ECODE_NOENT,
                )
            found.extend(matches)
        return found

    def _ByNameOrUuid(self, names: list[Any]) -> list[Any]:
        """Return the items of the classic calls: unknown names give no row, the order is the natural one."""
        if self.kind.find is not None:
            return self.kind.find(self.context, [_JobId(n) for n in dict.fromkeys(names)])
        key = self.kind.fields[str(self.kind.key)]

        def wanted(item: Any) -> bool:
            name = self.kind.item_name(item)
            if name in names or self.kind.item_uuid(item) in names:
                return True
            return key.hostname and any(isinstance(n, str) and n and str(name).startswith(n + ".") for n in names)

        return [i for i in self._All() if wanted(i)]

    def _Reader(self, item: Any, live: bool) -> Any:
        def read(field: Field) -> Any:
            if field.live is not None and not live:
                return PENDING
            return field.getter(self.context, item)

        return read

    def Rows(self) -> list[list[Cell]]:
        """Return the rows; the live data named by ``parts`` must be in the context by now."""
        return [[_ToCell(value) for value in row] for row in self._Values()]

    def _Values(self) -> Iterator[list[Any]]:
        """Yield the values of each row: an Absent where there is none."""
        if self.kind.live_items:
            self.items = self._Pick()
        getters = [_Unknown if field is None else field.getter for field in self._wanted]
        context = self.context
        for item in self.items:
            for row in self.kind.rows(context, item):
                if self._filter.Evaluate(self._Reader(row, live=True)):
                    yield [get(context, row) for get in getters]

    def Result(self) -> dict[str, Any]:
        """Answer of LUXI Query and OP_QUERY."""
        definitions = [
            UnknownDefinition(name) if field is None else field.Definition()
            for name, field in zip(self.fields, self._wanted, strict=True)
        ]
        return {"fields": definitions, "data": self.Rows()}

    def ClassicRows(self) -> list[list[Any]]:
        """Bare values as in the classic calls: null for every status but normal."""
        unknown = [name for name, field in zip(self.fields, self._wanted, strict=True) if field is None]
        if unknown:
            text = ", ".join(f"'{n}'" for n in unknown)
            raise errors.OpPrereqError(f"Unknown output field(s) {text} for {self.kind.name}", errors.ECODE_INVAL)
        return [[None if isinstance(value, Absent) else value for value in row] for row in self._Values()]


_UNKNOWN = Absent(constants.RS_UNKNOWN)


def _Unknown(_context: Any, _item: Any) -> Absent:
    return _UNKNOWN


def _ToCell(value: Any) -> Cell:
    return (value.status, None) if isinstance(value, Absent) else (constants.RS_NORMAL, value)


def _JobId(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise errors.OpPrereqError(f"Invalid job ID {str(value)[:100]!r}", errors.ECODE_INVAL)
