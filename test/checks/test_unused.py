"""No function of ours is there for the tests alone."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support import sources
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
    "RemoveDisk": "the whole of a reservation's life",
}


# Fields that are read only as part of a whole record.
WHOLE = {
    "i_pri_memory": "asdict: the allocator's message",
    "i_pri_up_memory": "asdict: the allocator's message",
    "postcopy_status": "asdict: the answer of instance_get_migration_status",
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
        for node in ast.walk(sources.Parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_")[:1].isupper():
                yield node.name, f"{os.path.relpath(path, TOP)}:{node.lineno}"


def _Fields() -> Iterator[tuple[str, str]]:
    """Yield (name, place) of every field of a dataclass."""
    for path in Path(TOP, "lib").rglob("*.py"):
        if os.path.relpath(path, TOP) == OFFERED:
            continue
        for node in ast.walk(sources.Parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            made_by = " ".join(map(ast.unparse, [*node.bases, *node.decorator_list]))
            if "dataclass" not in made_by:  # those of a tuple may be read by their places
                continue
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id.islower():
                    yield item.target.id, f"{os.path.relpath(path, TOP)}:{item.lineno}"


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


def test_every_field_is_read_by_the_product() -> None:
    """A field of a record that is only filled in says nothing; a test that reads it keeps it alive for nobody."""
    text = "\n".join(path.read_text("utf-8", "replace") for path in _Sources())
    read = set(re.findall(r"\.([a-z]\w*)", text)) | set(re.findall(r"""["']([a-z]\w*)["']""", text))
    unread = {name: place for name, place in _Fields() if name not in read}
    assert sorted(f"{place}: {name}" for name, place in unread.items() if name not in WHOLE) == [], (
        "read or remove these"
    )
    assert sorted(WHOLE.keys() - unread.keys()) == [], "these are read now, or gone"
