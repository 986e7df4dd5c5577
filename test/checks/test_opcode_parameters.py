"""Every parameter of an opcode is read by whoever carries the opcode out, or there is a reason why not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support import sources
from support.virtualnode import TOP

from ganeti.opcodes import COMMON_PARAMS, OP_MAPPING

# Where opcodes are carried out; elsewhere they are only made and shown.
READERS = ("lib/cmdlib", "lib/jqueue", "lib/mcpu.py", "lib/renewal.py")
UNREAD = {
    ("OP_TEST_DELAY", "no_locks"): "as in 3.1 the nodes are locked whatever it says",
    ("OP_CLUSTER_RENEW_CRYPTO", "debug"): "the programs that it ran on nodes are procedures of the node daemon here",
}


def _Modules() -> Iterator[Path]:
    for name in READERS:
        path = Path(TOP, name)
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def Read(source: str) -> set[str]:
    """Return the names that a module reads from an opcode, or has in a table of such names.

    ``self.op.NAME``, ``op.NAME``, ``lu.op.NAME``, and every text that could be a name.
    """
    found = set()
    for node in ast.walk(sources.Parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value
            if (isinstance(owner, ast.Name) and owner.id in ("op", "asked")) or (
                isinstance(owner, ast.Attribute) and owner.attr == "op"
            ):
                found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)
    return found


def test_what_counts_as_reading() -> None:
    assert {"size", "name", "force"} <= Read("x = self.op.size + op.name + getattr(op, 'force')")
    assert not {"size", "name"} & Read("self.op.size = 1\nother.name")


def test_every_parameter_is_read() -> None:
    read = set().union(*(Read(path.read_text("utf-8")) for path in _Modules()))
    unread = {
        (cls.OP_ID, name)
        for cls in OP_MAPPING.values()
        if cls.WITH_LU
        for name in cls.OP_PARAMS.keys() - COMMON_PARAMS.keys()
        if name not in read
    }
    assert sorted(unread - UNREAD.keys()) == [], "nobody reads these"
    assert sorted(UNREAD.keys() - unread) == [], "these are read now, or gone"
