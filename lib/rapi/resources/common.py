"""What the declarations share: arguments, builders of methods, types of answers, reading objects from the master."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ganeti import ht
from ganeti.opcodes import OpCode
from ganeti.rapi.callers.tokens import IsAllowed
from ganeti.rapi.declared import Argument, ArgumentKind, BodyUse, Job, Method, Role, Scope, Static
from ganeti.rapi.requests.bodies import BAD_REQUEST
from ganeti.rapi.requests.call import Answer, Call, HttpError, Master

NOT_FOUND = 404

BULK = Argument("bulk", ArgumentKind.FLAG, "show all fields of every object", default=False)
LOCK = Argument("lock", ArgumentKind.FLAG, "must be 0: queries take no locks", default=False)
DRY_RUN = Argument("dry-run", ArgumentKind.FLAG, "only check whether the job could be done", default=False)
FORCE = Argument("force", ArgumentKind.FLAG, "continue although a safety check fails", default=False)
REASON = Argument("reason", ArgumentKind.TEXT, "why, for the job's reason trail")


def Flag(name: str, doc: str) -> Argument:
    return Argument(name, ArgumentKind.FLAG, doc, default=False)


# --- jobs -------------------------------------------------------------------------------------------------------------

TJob: Final = ht.Type("job id", ht.TPositiveInt, ht.TPositiveInt.Schema(), "the number of a job")


def JobMethod(
    opcode: type[OpCode],
    doc: str,
    role: Role = Role.ADMIN,
    scope: Scope = Scope.CLOSED,
    static: Static = lambda call: {},
    arguments: Sequence[Argument] = (),
    body: BodyUse = BodyUse.IGNORED,
    body_type: ht.Type | None = None,
    example: Any = None,
    access: tuple[str, ...] | None = None,
    dry_run_fixed: bool = False,
    **job: Any,
) -> Method:
    """Declare a method that submits one opcode.

    ``dry_run_fixed``: the body must not hold ``dry_run``.  ``job``: further attributes of the Job.
    """

    def parameters(call: Call) -> dict[str, Any]:
        fixed = {"dry_run": call.arguments[DRY_RUN.name]} if dry_run_fixed else {}
        return {**static(call), **fixed}

    return Method(
        action=Job(opcode, static=parameters, **job),
        doc=doc,
        role=role,
        scope=scope,
        answer=TJob,
        access=access,
        arguments=(*arguments, DRY_RUN, REASON),
        body=body,
        body_type=body_type,
        example=example,
    )


# --- types of answers -------------------------------------------------------------------------------------------------

TNames = ht.TListOf(ht.TString)
TMaybeInt = ht.TMaybe(ht.TInt)
TMaybeText = ht.TMaybe(ht.TString)
TMaybeTexts = ht.TListOf(TMaybeText)
OBJECT_TYPES: Final[dict[str, ht.Type]] = {
    "ctime": ht.TFloat,
    "mtime": ht.TFloat,
    "uuid": ht.TNonEmptyString,
    "serial_no": ht.TInt,
    "tags": TNames,
}


def ListOrBulk(key: str, bulk: ht.Type, key_type: ht.Type = ht.TString) -> ht.Type:
    """Return the type of a list: of links, or with ``bulk=1`` of objects."""
    link = ht.TStrictDict({key: key_type, "uri": ht.TString}, {})
    return ht.TOr(ht.TListOf(link), ht.TListOf(bulk))


# --- reading ----------------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], dict[str, Any]]


def Unchanged(shown: dict[str, Any]) -> dict[str, Any]:
    return shown


def CheckLock(call: Call) -> None:
    if call.arguments.get(LOCK.name):
        raise HttpError(BAD_REQUEST, "Sync queries are not allowed: queries take no locks; leave out 'lock'")


async def Cells(call: Call, kind: str, fields: Sequence[str], name: str) -> list[list[Any]]:
    """Return status and value of an object's fields; 404 for an unknown one.

    A node and an instance are also found by the first part of their names, everything by its UUID.
    """
    key = "uuid" if ht.TUuid(name) else "name"
    # As jobs find them: host names are stored in lower case.
    asked = name.lower() if kind in ("node", "instance") else name
    found = await call.Ask("Query", kind, list(fields), ["=", key, asked])
    if not found["data"]:
        raise HttpError(NOT_FOUND, f"{kind.capitalize()} '{name}' does not exist")
    cells: list[list[Any]] = found["data"][0]
    return cells


async def One(call: Call, kind: str, fields: Sequence[str], name: str) -> dict[str, Any]:
    """Return an object's fields, null for those without a value; 404 for an unknown one."""
    cells = await Cells(call, kind, fields, name)
    return {field: value for field, (_, value) in zip(fields, cells, strict=True)}


def Single(kind: str, fields: Sequence[str], change: Change = Unchanged) -> Callable[[Call], Awaitable[Answer]]:
    """Return the action that shows one object.

    Its version is the object's own (``Etag.OBJECT``), so that it can be demanded when the object is changed; other objects'
    values and live ones show too, so that it says nothing about the answer as a whole.
    """

    async def action(call: Call) -> Answer:
        CheckLock(call)
        shown = await One(call, kind, fields, call.target)
        return Answer(change(shown), version=(shown["uuid"], shown["serial_no"]))

    return action


class Listed:
    """The action that lists the objects of a kind: links, or all fields with ``bulk=1``.

    The links depend on the configuration alone: its serial number is their version, and while that stays as it is they
    are not read again.
    """

    def __init__(
        self,
        method: str,
        path: str,
        fields: Sequence[str],
        key: str = "name",
        shown_as: str = "",
        change: Change = Unchanged,
    ):
        """``method``: the classic query of LUXI.  ``key``: the field that a link names, ``shown_as`` in the answer."""
        self._method = method
        self._path = path
        self._fields = list(fields)
        self._key = key
        self._shown_as = shown_as or key
        self._change = change
        self._known: weakref.WeakKeyDictionary[Master, tuple[Any, list[Any]]] = weakref.WeakKeyDictionary()

    async def __call__(self, call: Call) -> Answer:
        CheckLock(call)
        if call.caller.tags:
            return Answer(await self._Allowed(call))
        if call.arguments[BULK.name]:
            rows = await self._Rows(call, self._fields)
            return Answer([self._change(dict(zip(self._fields, row, strict=True))) for row in rows])
        version = await ConfigVersion(call)
        known, links = self._known.get(call.master, (None, []))
        if known != version:
            links = self._Links(await self._Rows(call, [self._key, "uuid"]))
            self._known[call.master] = (version, links)
        return Answer(links, version=(self._path, *version))

    async def _Allowed(self, call: Call) -> list[Any]:
        """Return what a token may see that is for some objects only (``rapi.callers.tokens``)."""
        bulk = call.arguments[BULK.name]
        fields = self._fields if bulk else [self._key, "uuid"]
        rows = [row for *row, tags in await self._Rows(call, [*fields, "tags"]) if IsAllowed(call.caller, tags)]
        if bulk:
            return [self._change(dict(zip(self._fields, row, strict=True))) for row in rows]
        return self._Links(rows)

    def _Links(self, rows: list[list[Any]]) -> list[Any]:
        """Return links from rows of key and UUID; by its UUID is shown what has no name, as a reservation may."""
        names = sorted(uuid if name is None else name for name, uuid in rows)
        return [{self._shown_as: name, "uri": f"{self._path}/{name}"} for name in names]

    async def _Rows(self, call: Call, fields: list[str]) -> list[list[Any]]:
        args: list[Any] = [[], fields]
        if self._method != "QueryFilters":
            args.append(False)  # without locks
        rows: list[list[Any]] = await call.Ask(self._method, *args)
        return rows


async def ConfigVersion(call: Call) -> tuple[Any, ...]:
    """Return what changes with every change of the configuration."""
    return tuple(await call.Ask("QueryConfigValues", ["cluster_uuid", "config_serial"]))


async def ClusterVersion(call: Call) -> tuple[Any, ...]:
    """Return UUID and serial number of the cluster, which a job compares again (``Resource.version``)."""
    return tuple(await call.Ask("QueryConfigValues", ["cluster_uuid", "cluster_serial"]))


def StrictAnswer(types: Mapping[str, ht.Type], **more: ht.Type) -> ht.Type:
    """Return the type of an object with exactly these keys."""
    return ht.TStrictDict({**types, **more}, {})


READ_OR_WRITE: Final = ("read", "write")
