"""Filters in their JSON form: compiled once, then asked for every item (doc/reference/queries.md 4.1, 4.2).

While live data is missing a comparison is neither true nor false; ``Evaluate`` then answers None where the outcome
depends on it, so that only items which may still pass cost a call to a node.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ganeti import errors
from ganeti.query.base import Absent, Field
from ganeti.utils.patterns import Pattern
from ganeti.utils.text import Suggestion

MAX_DEPTH: Final = 200
PENDING: Final = Absent(-1)

# Reads a field of the item under test: a value, an Absent, or PENDING.
Reader = Callable[[Field], Any]
Test = Callable[[Reader], "bool | None"]

_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def IsNumber(value: Any) -> bool:
    """Return whether this is a number; true and false, and floats that are infinite or none, are not."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    )


def _Mismatch(field: Field, value: Any) -> errors.ParameterError:
    return errors.ParameterError(f"Filter value {value!r} does not fit field '{field.name}' of kind {field.kind}")


def _Compared(field: Field, found: Any) -> Any:
    """Return the part of the field's value that is compared."""
    if field.seconds and isinstance(found, (list, tuple)) and found:
        return found[0]
    return found


def _Leaf(field: Field, test: Callable[[Any], bool]) -> Test:
    def run(read: Reader) -> bool | None:
        found = read(field)
        if found is PENDING:
            return None
        if isinstance(found, Absent):
            return True
        return test(_Compared(field, found))

    return run


def _Equal(field: Field, value: Any) -> Callable[[Any], bool]:
    if field.seconds and isinstance(value, (list, tuple)) and value:
        value = value[0]

    def test(found: Any) -> bool:
        if isinstance(found, bool):
            if isinstance(value, bool):
                return found == value
            raise _Mismatch(field, value)
        if isinstance(found, str):
            if not isinstance(value, str):
                raise _Mismatch(field, value)
            return found == value or (field.hostname and found.startswith(value + "."))
        if IsNumber(found):
            if not IsNumber(value):
                raise _Mismatch(field, value)
            if field.seconds:
                return int(found) == int(value)
            return bool(found == value)
        if found is None:
            return False
        raise _Mismatch(field, value)

    return test


def _Ordered(compare: Callable[[Any, Any], bool], field: Field, value: Any) -> Callable[[Any], bool]:
    if field.seconds and isinstance(value, (list, tuple)) and value:
        value = value[0]

    def test(found: Any) -> bool:
        same = (IsNumber(found) and IsNumber(value)) or (isinstance(found, str) and isinstance(value, str))
        if not same:
            raise _Mismatch(field, value)
        return bool(compare(found, value))

    return test


def _Truth(field: Field) -> Callable[[Any], bool]:
    def test(found: Any) -> bool:
        if not isinstance(found, bool):
            raise errors.ParameterError(f"Field '{field.name}' of kind {field.kind} is not a yes-or-no field")
        return found

    return test


def _Matches(field: Field, value: Any) -> Callable[[Any], bool]:
    if not isinstance(value, str):
        raise errors.ParameterError(f"Operator '=~' needs a regular expression for field '{field.name}', got {value!r}")
    pattern = Pattern(value)

    def test(found: Any) -> bool:
        if not isinstance(found, str):
            raise _Mismatch(field, value)
        return pattern.Search(found)

    return test


def _Contains(field: Field, value: Any) -> Callable[[Any], bool]:
    def test(found: Any) -> bool:
        if not isinstance(found, (list, tuple)):
            raise errors.ParameterError(f"Field '{field.name}' of kind {field.kind} is not a list")
        return value in found

    return test


def _Negated(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda found: not test(found)


_BINARY: dict[str, Callable[[Field, Any], Callable[[Any], bool]]] = {
    "==": _Equal,
    "=": _Equal,
    "!=": lambda f, v: _Negated(_Equal(f, v)),
    "=~": _Matches,
    "=[]": _Contains,
    **{op: partial(_Ordered, fn) for op, fn in _ORDER.items()},
}


class Filter:
    """A compiled filter over the fields of one kind; ``fields`` are those it reads."""

    def __init__(self, qfilter: Any, fields: Mapping[str, Field]):
        self._known = fields
        self.fields: dict[str, Field] = {}
        self._test = self._Compile(qfilter, 0)

    def Evaluate(self, read: Reader) -> bool | None:
        """Return whether the item passes; None when that depends on live data not read yet."""
        return self._test(read)

    def _Compile(self, part: Any, depth: int) -> Test:
        if depth > MAX_DEPTH:
            raise errors.ParameterError(f"Filter is nested more than {MAX_DEPTH} levels deep")
        if part is None:
            return lambda _: True
        if not isinstance(part, (list, tuple)) or not part or not isinstance(part[0], str):
            raise errors.ParameterError(f"A filter is an array that starts with an operator, got {str(part)[:100]!r}")
        op, *operands = part
        if op in ("&", "|"):
            return _Junction([self._Compile(p, depth + 1) for p in operands], op == "&")
        if op == "!":
            (inner,) = self._Operands(op, operands, 1)
            return _Not(self._Compile(inner, depth + 1))
        if op == "?":
            (name,) = self._Operands(op, operands, 1)
            field = self._Field(name)
            return _Leaf(field, _Truth(field))
        if op in _BINARY:
            name, value = self._Operands(op, operands, 2)
            if not isinstance(value, str) and not IsNumber(value) and not isinstance(value, (bool, list)):
                raise errors.ParameterError(f"Operator '{op}' needs a text or a number for '{name}', got {value!r}")
            field = self._Field(name)
            return _Leaf(field, _BINARY[op](field, value))
        raise errors.ParameterError(f"Unknown filter operator {op[:20]!r}")

    def _Operands(self, op: str, operands: list[Any], count: int) -> list[Any]:
        if len(operands) != count:
            raise errors.ParameterError(f"Filter operator '{op}' takes {count} operand(s), got {len(operands)}")
        return operands

    def _Field(self, name: Any) -> Field:
        field = self._known.get(name) if isinstance(name, str) else None
        if field is None:
            raise errors.ParameterError(
                f"Unknown field {str(name)[:100]!r} in the filter", hint=Suggestion(str(name), self._known) or None
            )
        self.fields[field.name] = field
        return field


def _Junction(parts: list[Test], conjunction: bool) -> Test:
    # "and" is decided by the first false, "or" by the first true.
    decisive = not conjunction

    def run(read: Reader) -> bool | None:
        pending = False
        for part in parts:
            outcome = part(read)
            if outcome is decisive:
                return decisive
            pending = pending or outcome is None
        return None if pending else conjunction

    return run


def _Not(inner: Test) -> Test:
    def run(read: Reader) -> bool | None:
        outcome = inner(read)
        return None if outcome is None else not outcome

    return run


def RequestedNames(qfilter: Any, key: str | None) -> list[Any] | None:
    """Return the names a filter asks for, if it does nothing else: equalities on the key field joined by "or".

    None: all items have to be looked at.
    """
    if key is None or not isinstance(qfilter, (list, tuple)) or not qfilter:
        return None
    names: list[Any] = []
    pending: list[tuple[Any, int]] = [(qfilter, 0)]
    while pending:
        part, depth = pending.pop()
        if not isinstance(part, (list, tuple)) or not part or depth > MAX_DEPTH:
            return None
        if part[0] == "|":
            pending.extend((p, depth + 1) for p in reversed(part[1:]))
        elif part[0] in ("==", "=") and len(part) == 3 and part[1] == key and isinstance(part[2], (str, int)):
            names.append(part[2])
        else:
            return None
    return names or None
