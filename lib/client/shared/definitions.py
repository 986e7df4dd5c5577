"""What nodes report about directories that an administrator installs: operating systems, storage providers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def Listed(what: str, values: Sequence[Any]) -> str:
    return f" [{what}: {', '.join(str(v) for v in values)}]" if values else f" [no {what}]"


def NodeLines(
    status: Mapping[str, Sequence[Any]], names: Mapping[str, str], missing: str, details: Callable[[Any], str]
) -> list[str]:
    """Return one line for each node, the nodes with a valid copy first, and one for each copy that another one hides.

    ``status``: node uuid -> copies, each [path, valid, message, ...]; ``details(copy)``: what to say of a valid one.
    """
    lines: list[tuple[bool, str, list[str]]] = []
    for key, copies in status.items():
        node = names.get(key, key)
        if not copies:
            lines.append((False, node, [f"  Node: {node}, status: {missing}"]))
            continue
        (path, valid, message, *_), *hidden = copies
        text = [f"  Node: {node}, status: {_State(valid, message)} (path: {path}){details(copies[0]) if valid else ''}"]
        for path, hidden_valid, hidden_message, *_ in hidden:
            text.append(f"    [hidden] path: {path}, status: {_State(hidden_valid, hidden_message)}")
        lines.append((bool(valid), node, text))
    lines.sort(key=lambda line: (not line[0], line[1]))
    return [text for _, _, texts in lines for text in texts]


def _State(valid: bool, message: str) -> str:
    return "valid" if valid else f"invalid - {message}"
