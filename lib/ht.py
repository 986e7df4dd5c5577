"""Types as objects: ``T(value)`` tests whether a value fits, ``T.Problem(value)`` says for people what is wrong with it.

``str(T)`` is the notation of opcode documents (``list[str+]``), ``T.words`` the same for people ("a list").
``Schema()`` gives the JSON schema from which API documents are made.  Types are immutable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

PUBLIC: Final = 0
PRIVATE: Final = 1
SECRET: Final = 2
"""What may happen to values: anything; they are kept out of logs; they are never stored either."""

_SHOWN = 80

# Where in a value the mistake is, from the outside to the inside, and what is expected there.
Explanation = tuple[tuple[str, ...], str]


class Type:
    """A set of values with a name, a test and a JSON schema.

    ``words`` name it in a sentence: "expected WORDS".  ``explain(value)`` finds the part of a value that does not fit;
    None: the value as a whole.  A ``test`` that is a type hands both on.
    """

    __slots__ = ("_explain", "_schema", "_test", "privacy", "text", "words")

    def __init__(
        self,
        text: str,
        test: Callable[[Any], bool],
        schema: Mapping[str, Any] | None = None,
        words: str = "",
        explain: Callable[[Any], Explanation | None] | None = None,
        privacy: int = PUBLIC,
    ):
        inner = test if isinstance(test, Type) else None
        self.text: str = text
        self.words: str = words or (inner.words if inner is not None else text)
        self.privacy: int = max(privacy, inner.privacy if inner is not None else PUBLIC)
        self._test = test
        self._schema = dict(inner.Schema() if schema is None and inner is not None else schema or {})
        self._explain = explain or (inner.Explain if inner is not None else None)

    def __call__(self, value: Any) -> bool:
        return self._test(value)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Type {self.text}>"

    def Schema(self) -> dict[str, Any]:
        return dict(self._schema)

    def Explain(self, value: Any) -> Explanation:
        """Return where a value that does not fit is wrong, and how."""
        found = self._explain(value) if self._explain is not None else None
        return found or ((), f"expected {self.words}, got {_Shown(value)}")

    def Problem(self, value: Any) -> str:
        """Return what is wrong with a value that does not fit: ``item 0, 'mode': expected ro or rw, got 'xx'``."""
        path, text = self.Explain(value)
        return f"{', '.join(path)}: {text}" if path else text


def _Shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _Inside(step: str, kind: Type, value: Any) -> Explanation:
    path, text = kind.Explain(value)
    return (step, *path), text


def _Listed(words: Iterable[str], last: str = " or ") -> str:
    *first, end = words
    return f"{', '.join(first)}{last}{end}" if first else end


# Whatever is stored, sent on or computed with fits into 64 bits; what does not overflows somewhere, or cannot be read again.
_MOST_BITS = 63


def _IsInt(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _MOST_BITS


def _ExplainInt(value: Any) -> Explanation | None:
    large = isinstance(value, int) and value.bit_length() > _MOST_BITS
    return ((), f"{_Shown(value)} does not fit into 64 bits") if large else None


TAny = Type("any", lambda _: True, words="anything")
TNone = Type("null", lambda v: v is None, {"type": "null"}, "nothing")
TBool = Type("bool", lambda v: isinstance(v, bool), {"type": "boolean"}, "true or false")
TInt = Type("int", _IsInt, {"type": "integer"}, "a whole number", _ExplainInt)
TNonNegativeInt = Type(
    "int>=0",
    lambda v: _IsInt(v) and v >= 0,
    {"type": "integer", "minimum": 0},
    "a whole number, 0 or more",
    _ExplainInt,
)
TPositiveInt = Type(
    "int>0", lambda v: _IsInt(v) and v > 0, {"type": "integer", "minimum": 1}, "a whole number above 0", _ExplainInt
)
TFloat = Type("float", lambda v: isinstance(v, float) or _IsInt(v), {"type": "number"}, "a number")
TNonNegativeFloat = Type(
    "float>=0", lambda v: TFloat(v) and v >= 0, {"type": "number", "minimum": 0}, "a number, 0 or more"
)
# No disk has so many bytes, and no program runs for so long; what is larger overflows where it is converted.
_LARGEST = 1e18
TQuantity = Type("float", lambda v: TFloat(v) and abs(v) <= _LARGEST, {"type": "number"}, "a number")
TString = Type("str", lambda v: isinstance(v, str), {"type": "string"}, "a text")
TNonEmptyString = Type(
    "str+", lambda v: isinstance(v, str) and bool(v), {"type": "string", "minLength": 1}, "a text that is not empty"
)
# Many generators of clients read no array without "items".
TList = Type("list", lambda v: isinstance(v, (list, tuple)), {"type": "array", "items": {}}, "a list")
TDict = Type("dict", lambda v: isinstance(v, dict), {"type": "object"}, "names with values")


def TMaybe(inner: Type) -> Type:
    """Accept ``inner`` or null."""
    return Type(
        f"?{inner}",
        lambda v: v is None or inner(v),
        {"anyOf": [inner.Schema(), {"type": "null"}]},
        inner.words,
        inner.Explain,
        inner.privacy,
    )


def TOr(*kinds: Type) -> Type:
    words = _Listed(kind.words for kind in kinds)

    def explain(value: Any) -> Explanation | None:
        """Return the alternative that fits farthest; all of them when none fits at all."""
        deepest = max((kind.Explain(value) for kind in kinds), key=lambda found: len(found[0]))
        return deepest if deepest[0] else None

    return Type(
        " or ".join(map(str, kinds)),
        lambda v: any(k(v) for k in kinds),
        {"anyOf": [k.Schema() for k in kinds]},
        words,
        explain,
        max(kind.privacy for kind in kinds),
    )


def TAnd(*kinds: Type) -> Type:
    def explain(value: Any) -> Explanation | None:
        return next((kind.Explain(value) for kind in kinds if not kind(value)), None)

    return Type(
        " and ".join(map(str, kinds)),
        lambda v: all(k(v) for k in kinds),
        {"allOf": [k.Schema() for k in kinds]},
        _Listed((kind.words for kind in kinds), " and "),
        explain,
        max(kind.privacy for kind in kinds),
    )


def TElemOf(values: Iterable[Any]) -> Type:
    """Accept one of the given values (True is not 1)."""
    allowed = tuple(values)
    return Type(
        "one of " + ", ".join(map(str, allowed)),
        lambda v: any(type(v) is type(a) and v == a for a in allowed),
        {"enum": list(allowed)},
        _Listed(map(str, allowed)),
    )


def TValue(value: Any) -> Type:
    return TElemOf([value])


def _IsList(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def TListOf(inner: Type) -> Type:
    def explain(value: Any) -> Explanation | None:
        if not _IsList(value):
            return None
        number, item = next((n, i) for n, i in enumerate(value) if not inner(i))
        return _Inside(f"item {number}", inner, item)

    return Type(
        f"list[{inner}]",
        lambda v: _IsList(v) and all(inner(i) for i in v),
        {"type": "array", "items": inner.Schema()},
        "a list",
        explain,
        inner.privacy,
    )


def TSetOf(inner: Type) -> Type:
    """Accept a list whose duplicates do not count."""
    return Type(f"set[{inner}]", TListOf(inner), {"type": "array", "items": inner.Schema(), "uniqueItems": True})


def TItems(*kinds: Type) -> Type:
    """Accept a list of exactly these items."""

    def explain(value: Any) -> Explanation | None:
        if not _IsList(value) or len(value) != len(kinds):
            return None
        number = next(n for n, kind in enumerate(kinds) if not kind(value[n]))
        return _Inside(f"item {number}", kinds[number], value[number])

    return Type(
        "[" + ", ".join(map(str, kinds)) + "]",
        lambda v: _IsList(v) and len(v) == len(kinds) and all(k(i) for k, i in zip(kinds, v, strict=True)),
        {
            "type": "array",
            "prefixItems": [k.Schema() for k in kinds],
            "items": {},
            "minItems": len(kinds),
            "maxItems": len(kinds),
        },
        f"a list of {len(kinds)} items ({'; '.join(kind.words for kind in kinds)})",
        explain,
        max(kind.privacy for kind in kinds),
    )


def TDictOf(key: Type, value: Type) -> Type:
    def explain(given: Any) -> Explanation | None:
        if not isinstance(given, dict):
            return None
        name, item = next((k, i) for k, i in given.items() if not (key(k) and value(i)))
        return _Inside(_Shown(name), value, item) if key(name) else _Inside("a key", key, name)

    return Type(
        f"dict[{key}, {value}]",
        lambda v: isinstance(v, dict) and all(key(k) and value(i) for k, i in v.items()),
        {"type": "object", "additionalProperties": value.Schema()},
        "names with values",
        explain,
        max(key.privacy, value.privacy),
    )


def TStrictDict(required: Mapping[str, Type], optional: Mapping[str, Type], others: Type | None = None) -> Type:
    """Accept a dictionary with these keys; ``others`` is the type of any further value, None forbids further keys."""
    known = {**required, **optional}

    def wrong(key: Any, item: Any) -> bool:
        kind = known.get(key, others) if isinstance(key, str) else None
        return kind is None or not kind(item)

    def fits(value: Any) -> bool:
        if not isinstance(value, dict) or not all(k in value for k in required):
            return False
        return not any(wrong(key, item) for key, item in value.items())

    def explain(value: Any) -> Explanation | None:
        if not isinstance(value, dict):
            return None
        missing = [key for key in required if key not in value]
        if missing:
            return (), f"{', '.join(map(repr, missing))} is missing"
        key, item = next((k, i) for k, i in value.items() if wrong(k, i))
        kind = known.get(key, others) if isinstance(key, str) else None
        if kind is None:
            return (), f"unknown key {_Shown(key)}, known are {', '.join(sorted(known)) or 'none'}"
        return _Inside(_Shown(key), kind, item)

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
        "names with values",
        explain,
        max((kind.privacy for kind in known.values()), default=PUBLIC),
    )


def TRegex(pattern: str, words: str = "") -> Type:
    """Accept a string that matches from start to end."""
    compiled = re.compile(pattern)
    return Type(
        f"str({pattern})",
        lambda v: isinstance(v, str) and compiled.fullmatch(v) is not None,
        {"type": "string", "pattern": f"^(?:{pattern})$"},
        words or f"a text of the form {pattern}",
    )


TUuid = TRegex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "a UUID in lower case")
# A job id: 3.1 also takes decimal strings where one is expected.
TJobId = Type(
    "job id",
    lambda v: TNonNegativeInt(v) or (isinstance(v, str) and len(v) <= 18 and v.isascii() and v.isdigit()),
    {"type": "integer"},
    "a job id",
)
TRelativeJobId = Type("job id or negative", _IsInt, {"type": "integer"}, "a job id, or a negative number")
