"""The output of the ``info`` commands: a tree in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti.cli import output

_INDENT = 2


class Pairs(list[tuple[str, Any]]):
    """A mapping that keeps its order, with keys for people."""


def _IsContainer(value: Any) -> bool:
    return isinstance(value, (Mapping, list)) and not isinstance(value, str)


def _Scalar(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_Scalar(item) for item in value) + "]"
    if isinstance(value, float):
        return f"{value:.16g}"
    return output.WithoutControls(str(value))


def _Lines(value: Any, level: int, after_dash: bool) -> list[str]:
    """Return the lines of a container at a level; the first one follows a dash if ``after_dash``."""
    margin = " " * (_INDENT * level)
    lines: list[str] = []

    def add(text: str) -> None:
        first = after_dash and not lines
        lines.append(text if first else margin + text)

    if isinstance(value, (Pairs, Mapping)):
        items = value if isinstance(value, Pairs) else sorted(value.items(), key=lambda item: str(item[0]))
        for key, item in items:
            if _IsContainer(item):
                add(f"{key}: ")
                lines.extend(_Lines(item, level + 1, False))
            else:
                add(f"{key}: {_Scalar(item)}")
    else:
        for item in value:
            if _IsContainer(item):
                inner = _Lines(item, level + 1, True)
                if inner:
                    add(f"- {inner[0]}")
                    lines.extend(inner[1:])
                else:
                    add("- ")
            else:
                add(f"- {_Scalar(item)}")
    return lines


def FormatInfo(value: Any) -> str:
    """Return the text of a tree of Pairs, dictionaries, lists and scalars."""
    if not _IsContainer(value):
        return _Scalar(value)
    return "\n".join(_Lines(value, 0, False)).rstrip("\n")


def ToPlain(value: Any) -> Any:
    """Return the same tree in types of JSON."""
    if isinstance(value, Pairs):
        return {key: ToPlain(item) for key, item in value}
    if isinstance(value, Mapping):
        return {str(key): ToPlain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [ToPlain(item) for item in value]
    return value


def PrintInfo(value: Any, as_json: bool = False) -> None:
    if as_json:
        output.PrintJson(ToPlain(value))
    else:
        output.ToStdout(FormatInfo(value))


def WithDefaults(custom: Mapping[str, Any] | None, actual: Mapping[str, Any], level: int = 0) -> dict[str, Any]:
    """Return the effective parameters; inherited ones are marked ``default (VALUE)``, in nested dictionaries, too."""
    own = custom or {}
    result: dict[str, Any] = {}
    for key, value in actual.items():
        if isinstance(value, Mapping):
            inner = own.get(key)
            result[key] = WithDefaults(inner if isinstance(inner, Mapping) else {}, value, level + 1)
        elif key in own:
            result[key] = own[key]
        else:
            result[key] = f"default ({_Scalar(value)})"
    return result
