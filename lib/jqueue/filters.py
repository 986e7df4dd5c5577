"""Which rules of the administrator apply to a job: filter rules and ad-hoc rate limits (doc/reference/jobs.md 7.1).

The opcodes and reasons of a job never change, so its verdict is computed once per set of rules; starting a job then
only compares numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import errors
from ganeti.query.base import OTHER, Field
from ganeti.query.filters import MAX_DEPTH, Filter

if TYPE_CHECKING:
    from ganeti.jqueue.job import Job
    from ganeti.objects import FilterRule

ACCEPT = "ACCEPT"
CONTINUE = "CONTINUE"
PAUSE = "PAUSE"
REJECT = "REJECT"
RATE_LIMIT = "RATE_LIMIT"

_COMPARISONS = frozenset(["==", "=", "!=", "<", "<=", ">", ">="])
_JOB_ID_COMPARISONS = frozenset(["==", "=", "<", "<=", ">", ">="])
_JUNCTIONS = frozenset(["&", "|", "!"])

_AD_HOC = re.compile(r"rate-limit:([0-9]{1,9}):(.*)", re.DOTALL)


# Buckets (any hashable) a job takes a slot of, each with the number of its jobs that may run.
Limits = tuple[tuple[Any, int], ...]


class Verdict(NamedTuple):
    """The verdict on a job: the action of its rule, and its rate limits."""

    action: str
    rule: str | None
    limits: Limits


NO_VERDICT = Verdict(ACCEPT, None, ())


class _Missing(Exception):
    """The opcode has no such field."""


class _Fields(Mapping[str, Field]):
    """The fields a predicate may name; made as they are asked for."""

    def __init__(self, allowed: Callable[[str], bool]):
        self._allowed = allowed
        self._made: dict[str, Field] = {}

    def __getitem__(self, name: str) -> Field:
        if not self._allowed(name):
            raise KeyError(name)
        return self._made.setdefault(name, Field(name, name, OTHER, name, lambda _context, _item: None))

    def __iter__(self) -> Any:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _Uses(part: Any, operators: frozenset[str]) -> bool:
    """Return whether the filter consists of junctions and these comparisons only."""
    stack = [part]
    while stack:
        item = stack.pop()
        if item is None:
            continue
        if not isinstance(item, (list, tuple)) or not item:
            return False
        if isinstance(item[0], str) and item[0] in _JUNCTIONS:
            stack.extend(item[1:])
        elif not isinstance(item[0], str) or item[0] not in operators:
            return False
    return True


def _WithWatermark(part: Any, watermark: int, depth: int = 0) -> Any:
    """Return the filter with the word "watermark" replaced by its number."""
    if depth > MAX_DEPTH:
        raise errors.ParameterError(f"Filter is nested more than {MAX_DEPTH} levels deep")
    if not isinstance(part, (list, tuple)) or not part or not isinstance(part[0], str):
        return part
    if part[0] in _JUNCTIONS:
        return [part[0], *(_WithWatermark(p, watermark, depth + 1) for p in part[1:])]
    if len(part) == 3 and part[2] == "watermark":
        return [part[0], part[1], watermark]
    return part


def _Path(data: Any, name: str) -> Any:
    for key in name.split("."):
        if not isinstance(data, Mapping) or key not in data:
            raise _Missing
        data = data[key]
    return data


def _Holds(test: Filter, read: Callable[[str], Any]) -> bool:
    try:
        return bool(test.Evaluate(lambda field: read(field.name)))
    except (_Missing, errors.ParameterError):
        return False


Predicate = Callable[["Job"], bool]


def _Never(_job: Job) -> bool:
    return False


def _JobIdPredicate(part: Any, watermark: int) -> Predicate:
    if not _Uses(part, _JOB_ID_COMPARISONS):
        return _Never
    test = Filter(_WithWatermark(part, watermark), _Fields(lambda name: name == "id"))
    return lambda job: _Holds(test, lambda _: job.id)


def _OpCodePredicate(part: Any) -> Predicate:
    test = Filter(part, _Fields(lambda _: True))
    return lambda job: any(_Holds(test, lambda name, op=op: _Path(op.input.data, name)) for op in job.ops)  # type: ignore[misc]


def _ReasonPredicate(part: Any) -> Predicate:
    if not _Uses(part, _COMPARISONS):
        return _Never
    names = ("source", "reason", "timestamp")
    test = Filter(part, _Fields(lambda name: name in names))

    def matches(job: Job) -> bool:
        entries = [e for op in job.ops for e in op.input.reason if isinstance(e, (list, tuple)) and len(e) == 3]
        return any(_Holds(test, lambda name, entry=entry: entry[names.index(name)]) for entry in entries)  # type: ignore[misc]

    return matches


def _CompilePredicate(predicate: Any, watermark: int) -> Predicate:
    """Return the predicate's test; one that is not valid never holds."""
    try:
        kind, part = predicate
        if kind == "jobid":
            return _JobIdPredicate(part, watermark)
        if kind == "opcode":
            return _OpCodePredicate(part)
        if kind == "reason":
            return _ReasonPredicate(part)
    except (errors.ParameterError, ValueError, TypeError):
        pass
    return _Never


def CheckPredicates(predicates: Sequence[Any]) -> None:
    """Raise OpPrereqError on predicates that cannot be compiled; for rules about to be written."""
    for predicate in predicates:
        if not (isinstance(predicate, (list, tuple)) and len(predicate) == 2):
            raise errors.OpPrereqError("A predicate is a list of kind and filter", errors.ECODE_INVAL)
        kind, part = predicate
        if kind not in ("jobid", "opcode", "reason"):
            raise errors.OpPrereqError(f"Unknown kind of predicate {str(kind)[:40]!r}", errors.ECODE_INVAL)
        try:
            Filter(_WithWatermark(part, 0), _Fields(lambda _: True))
        except errors.ParameterError as err:
            raise errors.OpPrereqError(f"Predicate '{kind}': {err}", errors.ECODE_INVAL) from err


class RuleSet:
    """The filter rules in force, compiled."""

    def __init__(self, rules: Iterable[FilterRule] = ()):
        self._rules = [
            (rule, [_CompilePredicate(p, rule.watermark) for p in rule.predicates])
            for rule in sorted(rules, key=lambda rule: rule.order)
        ]

    def __len__(self) -> int:
        return len(self._rules)

    def Judge(self, job: Job, limits: Limits = ()) -> Verdict:
        """Return the verdict of the first rule that matches and is not CONTINUE; the job's own ``limits`` hold besides.

        May take long: expressions of the administrator's are searched in every opcode.
        """
        for rule, predicates in self._rules:
            if rule.action == CONTINUE or not all(holds(job) for holds in predicates):
                continue
            if isinstance(rule.action, str):
                return Verdict(rule.action, rule.uuid, limits)
            return Verdict(RATE_LIMIT, rule.uuid, (*limits, (("rule", rule.uuid), rule.action[1])))
        return Verdict(ACCEPT, None, limits)


def AdHocLimits(job: Job) -> Limits:
    """Return the buckets named in reasons: ``rate-limit:N:LABEL``.  Another N is another bucket."""
    found: dict[Any, int] = {}
    for op in job.ops:
        for entry in op.input.reason:
            text = entry[1] if isinstance(entry, (list, tuple)) and len(entry) == 3 else None
            match = _AD_HOC.fullmatch(text) if isinstance(text, str) else None
            if match and int(match[1]) > 0:
                found[("ad hoc", match[2], int(match[1]))] = int(match[1])
    return tuple(found.items())
