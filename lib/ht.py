"""Types as objects: ``T(value)`` tells whether a value fits, ``str(T)`` names the type for people.

The notation of the names follows spec/opcodes.md 1.1.  ``Schema()`` gives the JSON schema from which API documents
are made.  Types are immutable and compare by their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Type:
    """A set of values with a name, a test and a JSON schema."""

    __slots__ = ("_schema", "_test", "text")

    def __init__(self, text: str, test: Callable[[Any], bool], schema: Mapping[str, Any] | None = None):
        self.text = text
        self._test = test
        self._schema = dict(schema or {})

    def __call__(self, value: Any) -> bool:
        return self._test(value)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Type {self.text}>"

    def Schema(self) -> dict[str, Any]:
        return dict(self._schema)


def _IsInt(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TAny = Type("any", lambda _: True)
TNone = Type("null", lambda v: v is None, {"type": "null"})
TBool = Type("bool", lambda v: isinstance(v, bool), {"type": "boolean"})
TInt = Type("int", _IsInt, {"type": "integer"})
TNonNegativeInt = Type("int>=0", lambda v: _IsInt(v) and v >= 0, {"type": "integer", "minimum": 0})
TPositiveInt = Type("int>0", lambda v: _IsInt(v) and v > 0, {"type": "integer", "minimum": 1})
TFloat = Type("float", lambda v: isinstance(v, float) or _IsInt(v), {"type": "number"})
TNonNegativeFloat = Type("float>=0", lambda v: TFloat(v) and v >= 0, {"type": "number", "minimum": 0})
TString = Type("str", lambda v: isinstance(v, str), {"type": "string"})
TNonEmptyString = Type("str+", lambda v: isinstance(v, str) and bool(v), {"type": "string", "minLength": 1})
TList = Type("list", lambda v: isinstance(v, (list, tuple)), {"type": "array"})
TDict = Type("dict", lambda v: isinstance(v, dict), {"type": "object"})


def TMaybe(inner: Type) -> Type:
    """``inner`` or null."""
    return Type(f"?{inner}", lambda v: v is None or inner(v), {"anyOf": [inner.Schema(), {"type": "null"}]})


def TOr(*kinds: Type) -> Type:
    return Type(
        " or ".join(map(str, kinds)), lambda v: any(k(v) for k in kinds), {"anyOf": [k.Schema() for k in kinds]}
    )


def TAnd(*kinds: Type) -> Type:
    return Type(
        " and ".join(map(str, kinds)), lambda v: all(k(v) for k in kinds), {"allOf": [k.Schema() for k in kinds]}
    )


def TElemOf(values: Iterable[Any]) -> Type:
    """One of the given values (True is not 1)."""
    allowed = tuple(values)
    return Type(
        "one of " + ", ".join(map(str, allowed)),
        lambda v: any(type(v) is type(a) and v == a for a in allowed),
        {"enum": list(allowed)},
    )


def TValue(value: Any) -> Type:
    return TElemOf([value])


def TListOf(inner: Type) -> Type:
    return Type(
        f"list[{inner}]",
        lambda v: isinstance(v, (list, tuple)) and all(inner(i) for i in v),
        {"type": "array", "items": inner.Schema()},
    )


def TSetOf(inner: Type) -> Type:
    """A list whose duplicates do not count."""
    return Type(f"set[{inner}]", TListOf(inner), {"type": "array", "items": inner.Schema(), "uniqueItems": True})


def TItems(*kinds: Type) -> Type:
    """A list of exactly these items."""
    return Type(
        "[" + ", ".join(map(str, kinds)) + "]",
        lambda v: (
            isinstance(v, (list, tuple)) and len(v) == len(kinds) and all(k(i) for k, i in zip(kinds, v, strict=True))
        ),
        {"type": "array", "prefixItems": [k.Schema() for k in kinds], "minItems": len(kinds), "maxItems": len(kinds)},
    )


def TDictOf(key: Type, value: Type) -> Type:
    return Type(
        f"dict[{key}, {value}]",
        lambda v: isinstance(v, dict) and all(key(k) and value(i) for k, i in v.items()),
        {"type": "object", "additionalProperties": value.Schema()},
    )


def TStrictDict(required: Mapping[str, Type], optional: Mapping[str, Type], others: Type | None = None) -> Type:
    """A dictionary with these keys; ``others`` is the type of any further value, None forbids further keys."""
    known = {**required, **optional}

    def fits(value: Any) -> bool:
        if not isinstance(value, dict) or not all(k in value for k in required):
            return False
        for key, item in value.items():
            kind = known.get(key, others)
            if not isinstance(key, str) or kind is None or not kind(item):
                return False
        return True

    text = ", ".join([f"{k}: {t}" for k, t in required.items()] + [f"{k}?: {t}" for k, t in optional.items()])
    return Type(
        "{" + text + "}",
        fits,
        {
            "type": "object",
            "properties": {k: t.Schema() for k, t in known.items()},
            "required": list(required),
            "additionalProperties": False if others is None else others.Schema(),
        },
    )


def TRegex(pattern: str) -> Type:
    """A string that matches from start to end."""
    compiled = re.compile(pattern)
    return Type(
        f"str({pattern})",
        lambda v: isinstance(v, str) and compiled.fullmatch(v) is not None,
        {"type": "string", "pattern": pattern},
    )


TUuid = TRegex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# A job id: 3.1 also takes decimal strings where one is expected.
TJobId = Type(
    "job id",
    lambda v: TNonNegativeInt(v) or (isinstance(v, str) and len(v) <= 18 and v.isascii() and v.isdigit()),
    {"type": "integer"},
)
TRelativeJobId = Type("job id or negative", _IsInt, {"type": "integer"})
