"""The methods of LUXI, declared once (doc/reference/luxi.md 4).

Client methods, the server's check of arguments and ``doc/luxi.rst`` follow this table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ganeti import errors, ht
from ganeti.luxi import events


class ArgumentError(errors.LuxiError):
    """A request names an unknown method, or has a wrong number or type of arguments."""


class Arg(NamedTuple):
    """One positional argument; one with a ``default`` may be left out at the end."""

    name: str
    kind: ht.Type
    doc: str
    default: Any = None
    optional: bool = False
    read: Callable[[Any], Any] | None = None


class Method(NamedTuple):
    """One call: its arguments in order, what comes back, and the release it is newer than, if any."""

    name: str
    args: tuple[Arg, ...]
    result: str
    doc: str
    since: str = ""

    def __str__(self) -> str:
        args = ", ".join(f"{a.name}={a.default}" if a.optional else a.name for a in self.args)
        return f"{self.name}({args}) -> {self.result}"

    def Bind(self, args: Any) -> list[Any]:
        """Return the checked arguments, complete and with job ids as numbers; raises ArgumentError."""
        if not isinstance(args, list):
            raise ArgumentError(f"{self.name}: args must be a list, got {type(args).__name__}")
        needed = sum(1 for a in self.args if not a.optional)
        if not needed <= len(args) <= len(self.args):
            wanted = str(needed) if needed == len(self.args) else f"{needed} to {len(self.args)}"
            raise ArgumentError(f"{self.name} takes {wanted} arguments, got {len(args)}")
        bound = []
        for arg, value in zip(self.args, args, strict=False):
            if not arg.kind(value):
                raise ArgumentError(f"{self.name}: argument {_Problem(arg, value)}")
            bound.append(arg.read(value) if arg.read else value)
        bound.extend(arg.default for arg in self.args[len(args) :])
        return bound


def _Problem(arg: Arg, value: Any) -> str:
    """Say which part of an argument does not fit, without the part itself, which may be a secret."""
    path, text = arg.kind.Explain(value)
    expected, found, _ = text.partition(", got ")
    if path and found:
        return f"'{arg.name}', {', '.join(path)[:100]}: {expected}"
    return f"'{arg.name}' must be {arg.kind.words}, got {_Shown(value)}"


def _Shown(value: Any) -> str:
    """Name the value's type, and the value only where it cannot be a secret."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)[:60]
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def _ReadIds(value: Sequence[int | str] | None) -> list[int] | None:
    return None if value is None else [int(v) for v in value]


# No kind has half as many.
MAX_FIELDS = 1000
_FieldNames = ht.TAnd(
    ht.TListOf(ht.TString), ht.Type(f"at most {MAX_FIELDS}", lambda v: len(v) <= MAX_FIELDS, {"maxItems": MAX_FIELDS})
)
_NAMES = Arg("names", ht.TListOf(ht.TString), "names or UUIDs; empty = all")
_FIELDS = Arg("fields", _FieldNames, "field names")
_LOCKING = Arg("use_locking", ht.TBool, "must be false: queries take no locks")
_JOB = Arg("job_id", ht.TJobId, "the job", read=int)
_EventId = ht.TAnd(
    ht.TString,
    ht.Type(f"at most {events.MAX_ID} characters", lambda v: len(v) <= events.MAX_ID, {"maxLength": events.MAX_ID}),
)
_OPS = Arg("ops", ht.TListOf(ht.TDict), "opcodes in order of execution")
_KIND = Arg("what", ht.TString, "kind of resource")
_FILTER_UUID = Arg("uuid", ht.TString, "the filter rule")
_EXPECTED = Arg(
    "expected",
    ht.TMaybe(ht.TDict),
    "values that the stored rule must have, else OpPrereqError; {} = it must exist",
    optional=True,
)


def _Classic(name: str, subject: str, since: str = "") -> Method:
    return Method(name, (_NAMES, _FIELDS, _LOCKING), "list[list[any]]", f"Bare field values of {subject}.", since)


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method("SubmitJob", (_OPS,), "job id", "Stores a job and returns its id; does not wait for it."),
        Method("SubmitJobToDrainedQueue", (_OPS,), "job id", "The same, also while the queue is drained.", since="2.9"),
        Method(
            "SubmitManyJobs",
            (Arg("jobs", ht.TListOf(ht.TListOf(ht.TDict)), "the opcodes of each job"),),
            "list[[bool, job id or error text]]",
            "Stores several jobs in one step.",
        ),
        Method("PickupJob", (_JOB,), "always an error", "Reserved: jobs need not be picked up.", since="2.9"),
        Method(
            "WaitForJobChange",
            (
                _JOB,
                _FIELDS,
                Arg("prev_info", ht.TMaybe(ht.TList), "values of the last answer"),
                Arg("prev_log_serial", ht.TMaybe(ht.TInt), "highest log serial seen"),
                Arg("timeout", ht.TNonNegativeFloat, "seconds; the server caps it"),
            ),
            "[list values, list log entries]",
            "Answers as soon as the job differs from what the caller saw, with unchanged values at the time-out.",
        ),
        Method(
            "CancelJob",
            (_JOB, Arg("kill", ht.TBool, "also stop a running job", default=False, optional=True)),
            "[bool, str]",
            "Cancels a job that has not begun to execute.",
        ),
        Method(
            "CancelManyJobs",
            (
                Arg("job_ids", ht.TListOf(ht.TJobId), "the jobs", read=_ReadIds),
                Arg("kill", ht.TBool, "also stop running jobs", default=False, optional=True),
            ),
            "list[[bool, str]]",
            "Cancels jobs that have not begun to execute, in one step: none of them starts meanwhile.",
            since="3.1",
        ),
        Method(
            "ChangeJobPriority",
            (_JOB, Arg("priority", ht.TInt, "-20 (most urgent) to 19")),
            "[bool, str]",
            "Gives the opcodes that wait a new priority.",
            since="2.6",
        ),
        Method("ArchiveJob", (_JOB,), "bool", "Moves a finished job to the archive."),
        Method(
            "AutoArchiveJobs",
            (
                Arg("age", ht.TInt, "seconds since the end; -1 = every finished job"),
                Arg("timeout", ht.TNonNegativeFloat, "seconds the work may take"),
            ),
            "[int archived, int not examined]",
            "Archives jobs that ended long enough ago.",
        ),
        Method(
            "Query",
            (_KIND, _FIELDS, Arg("qfilter", ht.TMaybe(ht.TList), "filter; null = everything")),
            '{"fields": list[fielddef], "data": list[list[[int status, any]]]}',
            "Rows of a resource kind.",
        ),
        Method(
            "QueryFields",
            (_KIND, Arg("fields", ht.TMaybe(_FieldNames), "null = all")),
            '{"fields": list[fielddef]}',
            "Describes the fields of a resource kind.",
        ),
        Method(
            "QueryJobs",
            (Arg("ids", ht.TMaybe(ht.TListOf(ht.TJobId)), "null or [] = all live jobs", read=_ReadIds), _FIELDS),
            "list[list[any]]",
            "Bare field values of jobs.",
        ),
        _Classic("QueryInstances", "instances"),
        _Classic("QueryNodes", "nodes"),
        _Classic("QueryGroups", "node groups"),
        _Classic("QueryNetworks", "networks", since="2.6"),
        Method(
            "QueryFilters",
            (Arg("uuids", ht.TMaybe(ht.TListOf(ht.TString)), "null or [] = all"), _FIELDS),
            "list[list[any]]",
            "Bare field values of job filter rules.",
            since="2.12",
        ),
        Method(
            "ReplaceFilter",
            (
                Arg("uuid", ht.TMaybe(ht.TString), "rule to replace or create; null = a new one"),
                Arg("priority", ht.TNonNegativeInt, "rules are tried from the lowest number on"),
                Arg("predicates", ht.TList, "list of [kind, filter]"),
                Arg("action", ht.TOr(ht.TString, ht.TList), "ACCEPT, CONTINUE, PAUSE, REJECT or [RATE_LIMIT, n]"),
                Arg("reason", ht.TList, "reason trail"),
                _EXPECTED,
            ),
            "str uuid",
            "Writes a job filter rule.",
            since="2.12",
        ),
        Method("DeleteFilter", (_FILTER_UUID, _EXPECTED), "null", "Removes a job filter rule.", since="2.12"),
        Method(
            "QueryExports",
            (Arg("nodes", ht.TListOf(ht.TString), "empty = all"), _LOCKING),
            "list[[node, ?export]]",
            "Lists the exports on nodes; null stands for a node that did not answer.",
        ),
        Method("QueryConfigValues", (_FIELDS,), "list[any]", "A few facts about the cluster."),
        Method("QueryClusterInfo", (), "dict", "All facts about the cluster."),
        Method(
            "QueryTags",
            (
                Arg("kind", ht.TString, "cluster, nodegroup, node, instance or network"),
                Arg("name", ht.TMaybe(ht.TString), "name or UUID; ignored for the cluster"),
            ),
            "list[str]",
            "Tags of an object.",
        ),
        Method("SetDrainFlag", (Arg("flag", ht.TBool, "true = take no new jobs"),), "true", "Drains the job queue."),
        Method(
            "SetWatcherPause",
            (Arg("until", ht.TMaybe(ht.TFloat), "Unix time; null = no pause"),),
            "the argument",
            "Pauses the watcher.",
        ),
        Method(
            "QueryMetrics",
            (),
            "{metric: list[[list values of labels, value]]}",
            "The numbers of doc/metrics.rst; a histogram's value is {counts, sum}.",
            since="3.1",
        ),
        Method(
            "QueryRapiTokens",
            (Arg("names", ht.TMaybe(ht.TListOf(ht.TString)), "null = all; names that do not exist are left out"),),
            'list[{"name", "sha256", "role", "tags", "created", "expires"}]',
            "The tokens of the remote interface; the tokens themselves are known to nobody but their owners.",
            since="3.1",
        ),
        Method(
            "WaitForEvents",
            (
                Arg("last_id", ht.TMaybe(_EventId), "the newest event seen, an answer's last; null = begin now"),
                Arg("kinds", ht.TMaybe(ht.TListOf(ht.TElemOf(events.KINDS))), "null = all"),
                Arg("timeout", ht.TNonNegativeFloat, "seconds; the server caps it"),
            ),
            '{"last": id, "missed": bool, "events": list[event]}',
            "Answers with the events after the one seen as soon as there are any, with none at the time-out.",
            since="3.1",
        ),
    )
}


def Find(name: Any) -> Method:
    """Return the method of this name; raises ArgumentError."""
    method = METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        raise ArgumentError(f"Unknown method {str(name)[:100]!r}: this release knows {', '.join(METHODS)}")
    return method


def Document() -> str:
    """Return the methods as they stand in ``doc/luxi.rst``."""
    lines = []
    for method in METHODS.values():
        since = f" (newer than {method.since})" if method.since else ""
        lines += [f"``{method}``{since}", f"   {method.doc}", ""]
        lines += [f"   * ``{arg.name}``: {arg.kind}; {arg.doc}" for arg in method.args]
        lines += [""] if method.args else []
    return "\n".join(lines)
