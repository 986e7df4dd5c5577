"""Reading fields of JSON objects, with the messages of release 3.x (doc/reference/htools.md 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ganeti import errors, serializer
from ganeti.htools.model.entities import TEMPLATES, AllocPolicy, Policy, Record, Spec
from ganeti.htools.sources.loading import LoadError

T = TypeVar("T")

_MISSING: Final = object()


class BadValue(Exception):
    """A value has another type, or a word is not one of those allowed."""


# --- types: JSON value -> value; raise BadValue ---------------------------------------------------------------------------


def Int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise BadValue("Unable to read Int")
    return int(value)


def Real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadValue("Unable to read Double")
    return float(value)


def Bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValue("Unable to read Bool")
    return value


def Text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadValue("Unable to read String")
    return value


def Object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadValue("Unable to read JSObject")
    return value


def List(inner: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    def read(value: Any) -> tuple[T, ...]:
        if not isinstance(value, (list, tuple)):
            raise BadValue("Unable to read List")
        return tuple(inner(item) for item in value)

    return read


def Maybe(inner: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else inner(value)


def Word(kind: str, words: Mapping[str, T]) -> Callable[[Any], T]:
    """Return a reader of an enumeration."""

    def read(value: Any) -> T:
        text = Text(value)
        if text not in words:
            raise BadValue(f'Invalid string value for type {kind}: "{text}"')
        return words[text]

    return read


Template = Word("DiskTemplate", {name: name for name in TEMPLATES})
AllocPolicyWord = Word("AllocPolicy", {policy.word: policy for policy in AllocPolicy})


class Fields:
    """The fields of one object; ``context`` begins each message."""

    def __init__(self, value: Any, context: str):
        self.context = context
        try:
            self.values = Object(value)
        except BadValue as err:
            raise LoadError(f"{context}: {err}") from None

    def Get(self, key: str, kind: Callable[[Any], T], default: Any = _MISSING) -> T:
        """Return a value; without a ``default`` it must be there.  Null counts as absent where there is a default."""
        value = self.values.get(key, _MISSING)
        if default is not _MISSING and (value is _MISSING or value is None):
            return default
        if value is _MISSING:
            known = ",".join(f'"{name}"' for name in self.values)
            raise LoadError(f"{self.context}: key '{key}' not found, object contains only [{known}]")
        try:
            return kind(value)
        except BadValue as err:
            raise LoadError(f"{self.context}: key '{key}': {err}") from None

    def Inner(self, key: str) -> Fields:
        """Return the fields of an object inside this one, with the same context."""
        return Fields(self.Get(key, Object), self.context)


def ParseJson(text: str, context: str) -> Any:
    """Return the value of a text; raises LoadError."""
    try:
        return serializer.Load(text)
    except errors.ParseError as err:
        raise LoadError(f"{context}: Malformed JSON: {err}") from err


def _Recorded(value: Any) -> int | None:
    number = None if value is None else Int(value)
    return number if number is not None and number > 0 else None


def ReadRecord(node: Fields, hypervisor: str | None, volume_group: str | None) -> Record | None:
    """Return what is recorded of a node in its fields ``hv_state`` and ``disk_state``, as queries have them; None without.

    Memory and CPUs count for this hypervisor, disks for this volume group; None: there is one at most.
    """
    hypervisors = node.Get("hv_state", Object, {})
    groups = Fields(node.Get("disk_state", Object, {}), node.context).Get("plain", Object, {})
    memory = Fields(hypervisors.get(hypervisor or "", {}), node.context)
    group = next(iter(groups), "") if volume_group is None else volume_group
    disks = Fields(groups.get(group, {}), node.context)
    values = (
        *(memory.Get(key, _Recorded, None) for key in ("mem_total", "mem_node", "mem_hv", "cpu_total", "cpu_node")),
        *(disks.Get(key, _Recorded, None) for key in ("disk_total", "disk_overhead", "disk_reserved")),
    )
    return Record(*values) if any(value is not None for value in values) else None


_SPEC_KEYS = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")


def _ReadSpec(fields: Fields) -> Spec:
    return Spec(*(fields.Get(key, Int) for key in _SPEC_KEYS))


def ReadPolicy(fields: Fields) -> Policy:
    """Return a policy in JSON."""
    pairs: Sequence[Any] = fields.Get("minmax", List(Object))
    bounds = [Fields(pair, fields.context) for pair in pairs]
    return Policy(
        _ReadSpec(fields.Inner("std")),
        tuple((_ReadSpec(pair.Inner("min")), _ReadSpec(pair.Inner("max"))) for pair in bounds),
        fields.Get("disk-templates", List(Template)),
        fields.Get("vcpu-ratio", Real),
        fields.Get("spindle-ratio", Real),
        fields.Get("memory-ratio", Maybe(Real), None),
        fields.Get("max-node-failures", Int, 1),
    )
