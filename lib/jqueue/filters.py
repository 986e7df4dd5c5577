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

_JUNCTIONS = frozenset(["&", "|", "!"])


class _Kind(NamedTuple):
    """Describes what predicates of a kind may be made of; None: of everything."""

    fields: tuple[str, ...] | None = None
    comparisons: tuple[str, ...] | None = None


_KINDS: Mapping[str, _Kind] = {
    "jobid": _Kind(("id",), ("==", "=", "<", "<=", ">", ">=")),
    "opcode": _Kind(),
    "reason": _Kind(("source", "reason", "timestamp"), ("==", "=", "!=", "<", "<=", ">", ">=")),
}

_AD_HOC = re.compile(r"rate-limit:([0-9]{1,9}):(.*)", re.DOTALL)


# Buckets (any hashable) a job takes a slot of, each with the number of its jobs that may run.
Limits = tuple[tuple[Any, int], ...]


class Verdict(NamedTuple):
    """The verdict on a job: the action of its rule, and its rate limits; ``reason``: what the rule's maker gave."""

    action: str
    rule: str | None
    limits: Limits
    reason: str = ""


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


def _Uses(part: Any, operators: tuple[str, ...] | None) -> bool:
    """Return whether the filter consists of junctions and these comparisons only."""
    if operators is None:
        return True
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


def _JobIdPredicate(test: Filter) -> Predicate:
    return lambda job: _Holds(test, lambda _: job.id)


def _OpCodePredicate(test: Filter) -> Predicate:
    return lambda job: any(_Holds(test, lambda name, op=op: _Path(op.input.data, name)) for op in job.ops)  # type: ignore[misc]


def _ReasonPredicate(test: Filter) -> Predicate:
    names = _KINDS["reason"].fields or ()

    def matches(job: Job) -> bool:
        entries = [e for op in job.ops for e in op.input.reason if isinstance(e, (list, tuple)) and len(e) == 3]
        return any(_Holds(test, lambda name, entry=entry: entry[names.index(name)]) for entry in entries)  # type: ignore[misc]

    return matches


_TESTS: Mapping[str, Callable[[Filter], Predicate]] = {
    "jobid": _JobIdPredicate,
    "opcode": _OpCodePredicate,
    "reason": _ReasonPredicate,
}


def _Compile(predicate: Any, watermark: int) -> Predicate:
    """Return the predicate's test; ParameterError if it is not valid, or could never hold."""
    if not (isinstance(predicate, (list, tuple)) and len(predicate) == 2):
        raise errors.ParameterError(f"A predicate is a list of kind and filter, not {str(predicate)[:80]!r}")
    kind, part = predicate
    if not isinstance(kind, str) or kind not in _KINDS:
        raise errors.ParameterError(f"Unknown kind of predicate {str(kind)[:40]!r}: the kinds are {', '.join(_KINDS)}")
    fields, comparisons = _KINDS[kind]
    if kind == "jobid":
        part = _WithWatermark(part, watermark)
    try:
        test = Filter(part, _Fields(lambda name: fields is None or name in fields))
    except errors.ParameterError as err:
        known = "" if fields is None else f"; its fields are {', '.join(fields)}"
        raise errors.ParameterError(f"Predicate '{kind}': {err}{known}") from err
    if not _Uses(part, comparisons):
        raise errors.ParameterError(f"Predicate '{kind}': only & | ! {' '.join(comparisons or ())} can be used")
    return _TESTS[kind](test)


def _CompilePredicate(predicate: Any, watermark: int) -> Predicate:
    """Return the predicate's test; one that is not valid never holds."""
    try:
        return _Compile(predicate, watermark)
    except errors.ParameterError:
        return _Never


def CheckPredicates(predicates: Sequence[Any]) -> None:
    """Raise OpPrereqError on predicates that are not valid or could never hold; for rules about to be written."""
    for predicate in predicates:
        try:
            _Compile(predicate, 0)
        except errors.ParameterError as err:
            raise errors.OpPrereqError(str(err), errors.ECODE_INVAL) from err


def _GivenReason(rule: FilterRule) -> str:
    """Return the reason that the maker of a rule gave, on one line; "" if there is none."""
    for entry in rule.reason_trail:
        if isinstance(entry, (list, tuple)) and len(entry) == 3 and entry[1] and isinstance(entry[1], str):
            return " ".join(entry[1].split())
    return ""


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
                return Verdict(rule.action, rule.uuid, limits, _GivenReason(rule))
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
