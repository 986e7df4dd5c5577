"""The requirements: which there are, which tests show them, and why the others are not shown.

Sources: test/data/requirements.  A test names what it shows by ``pytest.mark.req("ID", ...)``.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from support import sources
from support.virtualnode import TOP

DATA = os.path.join(TOP, "test", "data", "requirements")
_ROW = re.compile(r"\| ((?:D2\d-[A-Z0-9]+|IAL|RM-[A-Z]+)-\d+) \| (.*?) \|(?:.*?\bdiffers: (.*?) \|)?")


class Requirement(NamedTuple):
    """One row of the requirement pages; ``page`` is the file's name without ending.

    ``difference``: what release 3.1 does in another way than the design says; mostly empty.
    """

    id: str
    text: str
    page: str
    difference: str = ""

    @property
    def group(self) -> str:
        return self.id.rpartition("-")[0]


def Read() -> dict[str, Requirement]:
    """id -> requirement, in the order of the pages."""
    found: dict[str, Requirement] = {}
    for name in sorted(os.listdir(DATA)):
        if not name.endswith(".md"):
            continue
        with open(os.path.join(DATA, name), encoding="utf-8") as stream:
            for line in stream:
                row = _ROW.match(line)
                if row:
                    found[row[1]] = Requirement(row[1], row[2].strip(), name.removesuffix(".md"), row[3] or "")
    return found


def _Listed(name: str) -> Iterator[tuple[list[str], str]]:
    with open(os.path.join(DATA, name), encoding="utf-8") as stream:
        for line in stream:
            if line.strip() and not line.startswith("#"):
                keys, _, reason = line.strip().partition(": ")
                yield keys.split(), reason


def RuledOut() -> dict[str, str]:
    return {key: reason for keys, reason in _Listed("ruled-out.txt") for key in keys}


def NotYet() -> dict[str, str]:
    """Start of ids -> reason."""
    return {key: reason for keys, reason in _Listed("not-yet.txt") for key in keys}


def WhyNotYet(ident: str, reasons: dict[str, str]) -> str | None:
    """The start of ids in ``reasons`` that fits best; None if there is none."""
    fitting = [start for start in reasons if ident == start or ident.startswith(start + "-")]
    return max(fitting, key=len) if fitting else None


def _Marks(node: ast.AST) -> Iterator[str]:
    """The ids in calls of ``pytest.mark.req`` below a node."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "req":
            yield from (arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def _OfFile(path: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef):
                        yield from ((ident, f"{path}::{node.name}::{method.name}") for ident in _Marks(method))
                for decorator in node.decorator_list:
                    yield from ((ident, f"{path}::{node.name}") for ident in _Marks(decorator))
            else:
                yield from ((ident, f"{path}::{node.name}") for ident in _Marks(node))
        else:
            yield from ((ident, path) for ident in _Marks(node))


def Shown() -> dict[str, list[str]]:
    """id -> tests that show it."""
    shown: dict[str, list[str]] = {}
    for directory, folders, names in os.walk(os.path.join(TOP, "test")):
        folders.sort()
        for name in sorted(names):
            if name.startswith("test_") and name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as stream:
                    tree = sources.Parse(stream.read())
                for ident, test in _OfFile(os.path.relpath(path, TOP), tree):
                    if test not in shown.setdefault(ident, []):
                        shown[ident].append(test)
    return shown
