"""What a parameter is: its declaration, and how values are brought to their type (doc/reference/parameters.md 0)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ganeti import errors
from ganeti.utils.text import Suggestion

BOOL = "bool"
INT = "int"
FLOAT = "float"
SIZE = "size"
STRING = "string"
MAYBE_STRING = "maybe-string"
TYPES = (BOOL, INT, FLOAT, SIZE, STRING, MAYBE_STRING)
WORDS = {
    BOOL: "true or false",
    INT: "a whole number",
    FLOAT: "a number",
    SIZE: "a size in MiB",
    STRING: "a text",
    MAYBE_STRING: "a text or nothing",
}

# What a node has to look for (Check.node).
NODE_FILE = "file"  # an existing regular file
NODE_DIR = "directory"  # an existing directory
NODE_FILE_OR_URL = "file or URL"  # an existing regular or block device file, unless it is a URL
NODE_FILE_OR_DEVICE = "file or device"  # an existing regular or block device file
NODE_USER = "user"  # a user of the system


class Check:
    """What is allowed: a text for people, a test of the value, and what the nodes have to look for."""

    __slots__ = ("choices", "node", "test", "text")

    def __init__(
        self,
        text: str,
        test: Callable[[Any], bool],
        node: str | None = None,
        choices: tuple[Any, ...] = (),
    ):
        self.text = text
        self.test = test
        self.node = node
        self.choices = choices


def OneOf(*values: Any) -> Check:
    shown = ", ".join(str(value) if value != "" else '""' for value in values)
    return Check(f"one of {shown}", lambda value: value in values, choices=values)


def Between(low: int, high: int) -> Check:
    return Check(f"{low} to {high}", lambda value: low <= value <= high)


def AtLeast(low: int) -> Check:
    return Check(f"{low} or more", lambda value: value >= low)


class Param:
    """The declaration of one parameter.

    ``required``: must not be empty after filling; any other empty value ("", 0, null) passes unchecked.
    ``is_global``: settable on the cluster only (node parameters: on cluster and group).
    ``of_node``: names something of the node, decides with which rights something is done there, or how people reach the guest's
    console; so does what its check looks up on a node.
    """

    __slots__ = ("check", "default", "doc", "is_global", "name", "of_node", "required", "since", "type")

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any,
        doc: str = "",
        check: Check | None = None,
        since: str = "2.0",
        required: bool = False,
        is_global: bool = False,
        of_node: bool = False,
    ):
        self.name = name
        self.type = kind
        self.default = default
        self.doc = doc
        self.check = check
        self.since = since
        self.required = required
        self.is_global = is_global
        self.of_node = of_node or (check is not None and check.node is not None)

    @property
    def allowed(self) -> str:
        """Return what values are allowed, for help and man pages."""
        text = self.check.text if self.check else ""
        return text if self.required or not text or not self._IsEmptyAllowed() else f'{text}, or ""'

    def _IsEmptyAllowed(self) -> bool:
        return self.type in (STRING, MAYBE_STRING) and "" not in (self.check.choices if self.check else ())

    def Problem(self, value: Any) -> str | None:
        """Return what is wrong with a value of the right type, None if nothing is."""
        if value is None or value == "":
            return "it must not be empty" if self.required else None
        if value == 0 and value is not False and not self.required:
            return None  # 0 stands for "not set" (doc/reference/parameters.md 0)
        if self.check is not None and not self.check.test(value):
            return f"found '{value}', allowed is {self.check.text}"
        return None

    def __repr__(self) -> str:
        return f"<Param {self.name} {self.type}>"


Table = Mapping[str, Param]


def MakeTable(*params: Param) -> dict[str, Param]:
    return {param.name: param for param in params}


def Defaults(table: Table) -> dict[str, Any]:
    return {name: param.default for name, param in table.items()}


def _ToBool(value: Any) -> bool:
    if isinstance(value, str) and value:
        lowered = value.lower()
        if lowered not in ("true", "false"):
            raise ValueError
        return lowered == "true"
    return bool(value)


def _ToInt(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    if not isinstance(value, (int, float, str)) or (isinstance(value, str) and not value.isascii()):
        raise ValueError
    return int(value)


def _ToFloat(value: Any) -> float:
    if not isinstance(value, (int, float, str)):
        raise ValueError
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError
    return number


def _ToSize(value: Any) -> int:
    # Only requests from people carry units.
    from ganeti.utils import text

    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    try:
        return text.ParseUnit(str(value))
    except errors.UnitParseError as err:
        raise ValueError(str(err)) from err


def _ToString(value: Any) -> str:
    if value is False:
        return ""
    if not isinstance(value, str):
        raise ValueError
    return value


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    BOOL: _ToBool,
    INT: _ToInt,
    FLOAT: _ToFloat,
    SIZE: _ToSize,
    STRING: _ToString,
    MAYBE_STRING: lambda value: None if value is None else _ToString(value),
}


def Convert(kind: str, value: Any) -> Any:
    """Return ``value`` as the type ``kind``; ValueError says what was expected."""
    try:
        return _CONVERTERS[kind](value)
    except (ValueError, OverflowError, TypeError) as err:
        detail = f" ({err})" if kind == SIZE and isinstance(value, str) else ""
        raise ValueError(f"expected {WORDS[kind]}{detail}") from err


def ForceDictType(
    values: Any, table: Table, allowed_values: Collection[Any] = (), subject: str = "parameter"
) -> dict[str, Any]:
    """Return a copy of ``values`` with every value of its declared type; TypeEnforcementError names what cannot be.

    ``allowed_values`` pass as they are: ``default`` and None where a request may reset a value.
    """
    if not isinstance(values, dict):
        raise errors.TypeEnforcementError(f"Expected a dictionary of {subject}s, got {_Shown(values)}")
    result: dict[str, Any] = {}
    for name, value in values.items():
        param = table.get(name)
        if param is None:
            raise errors.TypeEnforcementError(
                f"Unknown {subject} '{str(name)[:80]}'",
                hint=Suggestion(str(name), sorted(table)) or f"known are: {', '.join(sorted(table)) or 'none'}",
            )
        # "in" would take 1 for True.
        if any(type(value) is type(allowed) and value == allowed for allowed in allowed_values):
            result[name] = value
            continue
        try:
            result[name] = Convert(param.type, value)
        except ValueError as err:
            raise errors.TypeEnforcementError(f"Invalid value {_Shown(value)} of {subject} '{name}': {err}") from err
    return result


def _Shown(value: Any) -> str:
    return repr(value)[:80]


def TypeProblems(values: Mapping[str, Any], table: Table) -> list[str]:
    """Return what is wrong with stored values: unknown names, values that are not of their type already."""
    problems = []
    for name, value in values.items():
        param = table.get(name)
        if param is None:
            problems.append(f"unknown parameter '{name}'")
        elif not IsOfType(param.type, value):
            problems.append(f"parameter '{name}' must be {WORDS[param.type]}, found {_Shown(value)}")
    return problems


def ValueProblems(values: Mapping[str, Any], table: Table, subject: str = "parameter") -> list[str]:
    """Return what is wrong with values of the right types, each taken alone."""
    return [
        f"{subject} '{name}': {problem}"
        for name, value in values.items()
        if name in table and (problem := table[name].Problem(value))
    ]


def IsOfType(kind: str, value: Any) -> bool:
    """Return whether a stored value is of its type."""
    if kind == BOOL:
        return isinstance(value, bool)
    if kind in (INT, SIZE):
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == FLOAT:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str) or (kind == MAYBE_STRING and value is None)


def FillDict(defaults: Mapping[str, Any], custom: Mapping[str, Any], skip: Iterable[str] = ()) -> dict[str, Any]:
    """Return a copy of ``defaults`` with every key of ``custom`` replacing, without the keys of ``skip``."""
    result = {**defaults, **custom}
    for name in skip:
        result.pop(name, None)
    return result


def GetUpdatedParams(
    old: Mapping[str, Any], changes: Mapping[str, Any], use_default: bool = True, use_none: bool = False
) -> dict[str, Any]:
    """Return ``old`` with ``changes`` on top; ``default`` (with ``use_none`` also None) removes a key."""
    result = dict(old)
    for name, value in changes.items():
        if (use_default and value == "default") or (use_none and value is None):
            result.pop(name, None)
        else:
            result[name] = value
    return result
