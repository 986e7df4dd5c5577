"""No function of ours is there for the tests alone."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.virtualnode import TOP

from ganeti.luxi.methods import METHODS

# What waits for the floor that will call it, or is for tests by its nature.
WAITING = {
    "AddDisk": "the whole of a reservation's life",
    "AddToLockMonitor": "doc/reference/locking.md",
    "CurrentSide": "the simulator",
    "EnterSide": "the simulator",
    "ExecWithUnusedUid": "D21-UID-20",
    "IsFull": "address pools",
    "JoinEscaped": "the opposite of SplitEscaped",
    "LoadSigned": "import and export",
    "RemoveDisk": "the whole of a reservation's life",
    "Sign": "import and export",
    "TransferCommand": "import and export",
}


def _Sources() -> Iterator[Path]:
    for folder in ("lib", "tools", "autotools"):
        for path in sorted(Path(TOP, folder).rglob("*")):
            if path.is_file() and path.suffix in (".py", "") and "__pycache__" not in path.parts:
                yield path


# A library for other programs.
OFFERED = "lib/rapi/client.py"


def _Words() -> Counter[str]:
    counted: Counter[str] = Counter()
    for path in _Sources():
        counted.update(re.findall(r"\b[A-Za-z_]\w*", path.read_text("utf-8", "replace")))
    return counted


def _Functions() -> Iterator[tuple[str, str]]:
    """Yield (name, place) of every function and method in CapWords."""
    for path in Path(TOP, "lib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_")[:1].isupper():
                yield node.name, f"{os.path.relpath(path, TOP)}:{node.lineno}"


def test_every_function_is_used_by_the_product() -> None:
    words = _Words()
    found = list(_Functions())
    defined = Counter(name for name, _ in found)
    # LUXI's methods are called by their names; ssconf has a getter for each key.
    by_name = {f"_{method}" for method in METHODS}
    unused = {
        name: place
        for name, place in found
        if words[name] <= defined[name] and name not in by_name and not place.startswith(("lib/ssconf.py", OFFERED))
    }
    wrong = sorted(f"{place}: {name}" for name, place in unused.items() if name not in WAITING)
    assert wrong == [], "call these, remove them, or say in WAITING what they wait for"
    assert sorted(WAITING.keys() - unused.keys()) == [], "these are used now, or gone"
