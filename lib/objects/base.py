"""What every configuration object is made of: declared fields, frozen values, one JSON shape.

Reading checks every value against its declaration, so that code behind it may trust what it holds.  Values live in the
instance's own dictionary and fields are no descriptors: attribute access costs what it costs everywhere.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

from ganeti import errors, ht, serializer

# When a field is written (doc/reference/config.md 4).
REQUIRED = "R"  # always; absent on reading is an error unless there is a default
DEFAULTED = "D"  # always; the default is filled in on reading
OPTIONAL = "O"  # left out when there is no value
NON_DEFAULT = "N"  # left out when equal to the default
RUNTIME = "X"  # never stored: travels in node RPC only

# ``since`` of a field that no release of the original has.
OURS = "ours"

_SHOWN = 80

T = TypeVar("T")


class _Missing:
    def __repr__(self) -> str:
        return "(none)"


MISSING = _Missing()


class FrozenDict(dict[str, Any]):
    """A dictionary that cannot be changed; ``|`` and ``dict()`` give ordinary copies."""

    __slots__ = ()

    def _Refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("configuration values are frozen: build a new one and use Replace()")

    __setitem__ = __delitem__ = __ior__ = _Refuse
    update = pop = popitem = setdefault = clear = _Refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _memo: Any) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))


EMPTY: Mapping[str, Any] = FrozenDict()


def Freeze(value: Any) -> Any:
    """Return ``value`` with every list a tuple and every dictionary a FrozenDict, all the way down."""
    kind = value.__class__
    if kind is str or kind is int or kind is bool or kind is FrozenDict:
        return value
    if isinstance(value, dict):
        return FrozenDict({key: Freeze(item) for key, item in value.items()}) if value else EMPTY
    if isinstance(value, (list, tuple)):
        return tuple([Freeze(item) for item in value]) if value else ()
    return value


def Thaw(value: Any) -> Any:
    """Return the opposite of Freeze: plain lists and dictionaries that belong to the caller."""
    kind = value.__class__
    if kind is str or kind is int or kind is bool:
        return value
    if isinstance(value, dict):
        return {key: Thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [Thaw(item) for item in value]
    return value


def Show(value: Any) -> str:
    """Return ``value`` for an error message, cut to a readable length."""
    try:
        text = serializer.Dump(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _WrongPart(kind: ht.Type, raw: Any) -> Any:
    """Return those entries of a dictionary or list that are wrong by themselves; everything else as it is."""
    if isinstance(raw, dict):
        return {key: item for key, item in raw.items() if not kind({key: item})} or raw
    if isinstance(raw, list):
        return [item for item in raw if not kind([item])] or raw
    return raw


class FieldInfo:
    """The declaration of one field."""

    __slots__ = ("default", "doc", "many", "name", "secret", "since", "type", "written")

    def __init__(self, kind: ht.Type, default: Any, written: str, since: str, doc: str, secret: bool, many: Any):
        self.name = ""
        self.type = kind
        self.default = MISSING if default is MISSING else Freeze(default)
        self.written = written
        self.since = since
        self.doc = doc
        self.secret = secret
        self.many = many

    def __repr__(self) -> str:
        return f"<Field {self.name} {self.written} {self.type}>"


def Field(
    kind: ht.Type,
    default: Any = MISSING,
    written: str = REQUIRED,
    since: str = "2.0",
    doc: str = "",
    secret: bool = False,
    many: Any = None,
) -> Any:
    """Declare a field in a class body.

    ``default`` is what an absent key means (none: the key must be there).  ``since``: the release of the original that
    brought it, or OURS.  ``secret`` keeps the value out of error messages.  ``many`` is the class of the objects in a list
    of embedded objects (a name for the class itself).
    """
    return FieldInfo(kind, default, written, since, doc, secret, many)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class ConfigObject:
    """A frozen object of the configuration.  Change it with Replace(), store it with the configuration's Update().

    ``FIELDS`` maps names to declarations, in the order in which they are written.  Keys that are not declared survive
    from reading to writing, behind the key they stood behind.
    """

    KIND: ClassVar[str] = ""
    FIELDS: ClassVar[Mapping[str, FieldInfo]] = {}
    # Fields that a reservation (key "forthcoming") must have; empty: there are no reservations of this kind.
    FORTHCOMING_NEEDS: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        fields: dict[str, FieldInfo] = dict(cls.FIELDS)
        for name, item in vars(cls).items():
            if isinstance(item, FieldInfo):
                item.name = name
                item.many = cls if item.many == "self" else item.many
                fields[name] = item
        cls.FIELDS = fields

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - self.FIELDS.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        self.__dict__.update(self._Read(values, True))

    @classmethod
    def FromDict(cls, data: Any, runtime: bool = False) -> Self:
        """Return the object stored as ``data``; wrong or missing values are a ConfigurationError.

        ``runtime`` also reads the fields that exist in node RPC only; from stored data they are dropped.
        """
        if not isinstance(data, dict):
            raise errors.ConfigurationError(f"{cls.KIND}: expected an object, found {Show(data)}")
        self = cls.__new__(cls)
        self.__dict__.update(cls._Read(data, runtime))
        if not all(map(cls.FIELDS.__contains__, data)):
            self.__dict__["_extra"] = cls._ReadExtra(data)
        return self

    @classmethod
    def _Read(cls, data: Mapping[str, Any], runtime: bool) -> dict[str, Any]:
        values: dict[str, Any] = {}
        get = data.get
        for name, field in cls.FIELDS.items():
            raw = get(name)
            if raw is None or (field.written == RUNTIME and not runtime):
                values[name] = cls._Absent(field, data)
            else:
                values[name] = cls._Value(field, raw, data, runtime)
        return values

    @classmethod
    def _Value(cls, field: FieldInfo, raw: Any, data: Mapping[str, Any], runtime: bool) -> Any:
        if field.many is not None and isinstance(raw, (list, tuple)):
            try:
                return tuple(
                    [item if isinstance(item, field.many) else field.many.FromDict(item, runtime) for item in raw]
                )
            except errors.ConfigurationError as err:
                raise errors.ConfigurationError(f"{cls._Label(data)}: key '{field.name}': {err}") from err
        if not field.type(raw):
            found = "something else (not shown: secret)" if field.secret else Show(_WrongPart(field.type, raw))
            raise errors.ConfigurationError(
                f"{cls._Label(data)}: key '{field.name}' must be {field.type.words}, found {found}"
            )
        return Freeze(raw)

    @classmethod
    def _Absent(cls, field: FieldInfo, data: Mapping[str, Any]) -> Any:
        if field.default is not MISSING:
            return field.default
        if field.written in (OPTIONAL, RUNTIME):
            return None
        if cls.FORTHCOMING_NEEDS and data.get("forthcoming") is True and field.name not in cls.FORTHCOMING_NEEDS:
            return None
        state = "is null" if field.name in data else "is missing"
        raise errors.ConfigurationError(
            f"{cls._Label(data)}: key '{field.name}' {state}, it must be {field.type.words}"
        )

    @classmethod
    def _Label(cls, data: Mapping[str, Any]) -> str:
        for key in ("name", "cluster_name", "uuid"):
            if isinstance(data.get(key), str):
                return f"{cls.KIND} '{data[key][:_SHOWN]}'"
        return cls.KIND

    @classmethod
    def _ReadExtra(cls, data: Mapping[str, Any]) -> tuple[tuple[str | None, str, Any], ...]:
        """Return the undeclared keys as (declared key before it or None, key, value)."""
        extra = []
        anchor = None
        for key, value in data.items():
            if key in cls.FIELDS:
                anchor = key
            else:
                extra.append((anchor, key, Freeze(value)))
        return tuple(extra)

    @property
    def extra(self) -> Mapping[str, Any]:
        """Return the keys of the stored form that this release does not know."""
        return {key: value for _, key, value in self.__dict__.get("_extra", ())}

    def ToDict(self, runtime: bool = False) -> dict[str, Any]:
        """Return the stored form, as plain lists and dictionaries of the caller's own."""
        extra = self.__dict__.get("_extra", ())
        result: dict[str, Any] = {key: Thaw(value) for anchor, key, value in extra if anchor is None}
        for field, value in self._Written(runtime):
            if value is not MISSING:
                if field.many is None:
                    result[field.name] = Thaw(value)
                else:
                    result[field.name] = [item.ToDict(runtime) for item in value]
            if extra:
                result.update({key: Thaw(item) for anchor, key, item in extra if anchor == field.name})
        return result

    def _Written(self, runtime: bool) -> Iterator[tuple[FieldInfo, Any]]:
        """Yield every field with its value, MISSING for one that is not written."""
        values = self.__dict__
        reservation = bool(self.FORTHCOMING_NEEDS) and values["forthcoming"] is True
        for name, field in self.FIELDS.items():
            value = values[name]
            if field.written == RUNTIME:
                present = runtime
            elif field.written == NON_DEFAULT or (reservation and name not in self.FORTHCOMING_NEEDS):
                present = value != field.default
            else:
                present = True
            yield field, value if present and value is not None else MISSING

    def Json(self) -> str:
        """Return the stored form as text; made once."""
        text = self.__dict__.get("_json")
        if text is None:
            text = serializer.Dump(self.ToDict())
            self.__dict__["_json"] = text
        return text

    @classmethod
    def FromJson(cls, text: str) -> Self:
        """Return the object of a text that Json() gave; the text itself is kept as the object's fragment."""
        self = cls.FromDict(serializer.Load(text))
        self.__dict__["_json"] = text
        return self

    def Replace(self, **changes: Any) -> Self:
        """Return a copy with other values; None removes an optional value.  Wrong types are a ConfigurationError."""
        clone = type(self).__new__(type(self))
        values = clone.__dict__
        values.update(self.__dict__)
        values.pop("_json", None)
        values.pop("_found", None)
        for name, raw in changes.items():
            field = self.FIELDS.get(name)
            if field is None:
                raise TypeError(f"{type(self).__name__} has no field {name}")
            values[name] = self._Absent(field, values) if raw is None else self._Value(field, raw, values, True)
        return clone

    def Derived(self, about: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return ``make()``, which looks at this object and ``about`` only; kept until one of these is another object."""
        kept = self.__dict__.get("_found")
        if kept is None or not all(map(operator.is_, kept[0], about)):
            kept = self.__dict__["_found"] = (about, make())
        found: T = kept[1]
        return found

    def SameContent(self, other: ConfigObject) -> bool:
        """Return whether both are equal but for serial number and modification time."""
        if type(other) is not type(self) or self.extra != other.extra:
            return False
        ignored = ("serial_no", "mtime")
        return all(self.__dict__[name] == other.__dict__[name] for name in self.FIELDS if name not in ignored)

    @property
    def label(self) -> str:
        """Return kind and name, for people."""
        return self._Label(self.__dict__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if self is other:
            return True
        mine, theirs = self.__dict__, other.__dict__
        return all(mine[name] == theirs[name] for name in self.FIELDS) and self.extra == other.extra

    def __hash__(self) -> int:
        return hash((self.KIND, self.__dict__.get("uuid")))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise TypeError(f"{self.label} is frozen: use Replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise TypeError(f"{self.label} is frozen")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self

    def __repr__(self) -> str:
        return f"<{self.label} {self.__dict__.get('uuid', '')}>"


def UuidField() -> Any:
    return Field(ht.TUuid, since="2.1", doc="equals the key under which the object is stored")


def TagsField() -> Any:
    return Field(ht.TSetOf(ht.TString), default=(), doc="set of tags, the order is free")


def TimeField(doc: str) -> Any:
    return Field(ht.TFloat, default=0.0, since="2.1", doc=doc + ", seconds since the epoch, 0 if unknown")


def SerialField() -> Any:
    return Field(ht.TNonNegativeInt, default=1, doc="1 at creation, +1 with every change")
