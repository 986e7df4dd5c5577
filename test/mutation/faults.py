"""The faults that can be planted in a source file.

A fault replaces one piece of the syntax tree.  The planted file is written from the tree, so its line numbers differ from
the original's; tests do not depend on those.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Negating a condition that consists of one of these makes the fault that "comparison" makes.
_NEGATING = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_SYNC = ("sync", "flush")
_LOGGING = ("logging", "_log", "log", "logger")
# Nothing in these decides what the program does: annotations, texts, messages, checks of our own assumptions.
_SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "type_params")
_SKIPPED_FUNCTIONS = ("__repr__", "__str__")


class Spot(NamedTuple):
    """A node of the tree (at ``holder.key`` or ``holder[key]``) and what stands there when the fault is planted."""

    kind: str
    first: int
    last: int
    holder: ast.AST | list[ast.AST]
    key: str | int
    new: ast.AST
    before: str
    after: str


def Find(tree: ast.AST) -> list[Spot]:
    """Return every fault that can be planted, in the order of the source."""
    return list(_Walk(tree, None))


def Plant(tree: ast.AST, spot: Spot) -> str:
    """Return the source with one fault; the tree is afterwards as it was."""
    old = _Exchange(spot, spot.new)
    try:
        return ast.unparse(tree)
    finally:
        _Exchange(spot, old)


def _Exchange(spot: Spot, new: ast.AST) -> ast.AST:
    if isinstance(spot.holder, list):
        assert isinstance(spot.key, int)
        old, spot.holder[spot.key] = spot.holder[spot.key], new
    else:
        assert isinstance(spot.key, str)
        old = getattr(spot.holder, spot.key)
        setattr(spot.holder, spot.key, new)
    return old


# --- where ---------------------------------------------------------------------------------------------------------------


def _Walk(tree: ast.AST, statement: ast.stmt | None) -> Iterator[Spot]:
    for name, value in ast.iter_fields(tree):
        if name in _SKIPPED_FIELDS:
            continue
        for holder, key, child in _Children(tree, name, value):
            if _IsIrrelevant(child):
                continue
            around = child if isinstance(child, ast.stmt) else statement
            for kind, new, before, after in _Faults(tree, name, child):
                first = (around or child).lineno  # type: ignore[attr-defined]
                last = first if isinstance(child, ast.stmt) else child.end_lineno  # type: ignore[attr-defined]
                yield Spot(kind, first, last, holder, key, new, before, after)
            if not isinstance(child, ast.Raise):
                yield from _Walk(child, around)


def _Children(tree: ast.AST, name: str, value: object) -> Iterator[tuple[ast.AST | list[ast.AST], str | int, ast.AST]]:
    if isinstance(value, ast.AST):
        yield tree, name, value
    elif isinstance(value, list):
        yield from ((value, index, child) for index, child in enumerate(value) if isinstance(child, ast.AST))


def _IsIrrelevant(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in _SKIPPED_FUNCTIONS
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func).split(".")[0] in _LOGGING
    return isinstance(node, (ast.Assert, ast.JoinedStr))


# --- what ----------------------------------------------------------------------------------------------------------------

_Change = tuple[str, ast.AST, str, str]


def _Faults(parent: ast.AST, field: str, node: ast.AST) -> Iterator[_Change]:
    """Yield (kind, replacement, text before, text after)."""
    if isinstance(node, ast.stmt):
        yield from _InStatement(node)
    elif isinstance(node, ast.Compare):
        yield from _Comparisons(node)
    elif isinstance(node, ast.BoolOp):
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield _Expression("and/or", node, ast.BoolOp(op=other, values=node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _Expression("negated condition", node, node.operand)
    elif isinstance(node, ast.IfExp):
        yield _Expression("swapped branch", node, ast.IfExp(test=node.test, body=node.orelse, orelse=node.body))
    elif isinstance(node, ast.Constant):
        yield from _Constants(parent, field, node)
    if field in ("test", "ifs") and isinstance(parent, (ast.If, ast.While, ast.comprehension)):
        yield from _Condition(node)


def _Expression(kind: str, old: ast.AST, new: ast.AST) -> _Change:
    return kind, new, ast.unparse(old), ast.unparse(new)


def _Comparisons(node: ast.Compare) -> Iterator[_Change]:
    for index, operator in enumerate(node.ops):
        operators = list(node.ops)
        operators[index] = _COMPARE[type(operator)]()
        new = ast.Compare(left=node.left, ops=operators, comparators=node.comparators)
        yield _Expression("comparison", node, new)


def _Condition(node: ast.AST) -> Iterator[_Change]:
    assert isinstance(node, ast.expr)
    same = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], _NEGATING)
    # "not x" and "x and y" get faults of their own.
    if not same and not isinstance(node, (ast.UnaryOp, ast.Constant, ast.BoolOp)):
        yield _Expression("negated condition", node, ast.UnaryOp(op=ast.Not(), operand=node))


def _Constants(parent: ast.AST, field: str, node: ast.Constant) -> Iterator[_Change]:
    if isinstance(node.value, bool):
        if isinstance(parent, (ast.Return, ast.keyword, ast.Assign, ast.arguments)):
            kind = "removed sync" if isinstance(parent, ast.keyword) and parent.arg in _SYNC else "truth value"
            yield _Expression(kind, node, ast.Constant(value=not node.value))
    elif isinstance(node.value, int) and _IsBoundary(parent, field):
        yield _Expression("off by one", node, ast.Constant(value=node.value + 1))


def _IsBoundary(parent: ast.AST, field: str) -> bool:
    """Whether a number counts or marks a place; durations, sizes and codes are left alone."""
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, (ast.Add, ast.Sub))
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id in ("range", "max", "min", "enumerate")
    return isinstance(parent, ast.Slice) or (isinstance(parent, ast.Subscript) and field == "slice")


def _InStatement(node: ast.stmt) -> Iterator[_Change]:
    header = ast.unparse(node).partition("\n")[0]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = ast.unparse(node.value.func).lower()
        yield "removed sync" if any(word in name for word in _SYNC) else "removed call", ast.Pass(), header, "pass"
    elif isinstance(node, ast.Raise):
        yield "removed raise", ast.Pass(), header, "pass"
    elif isinstance(node, (ast.Continue, ast.Break)) or (isinstance(node, ast.Return) and node.value is None):
        yield "removed jump", ast.Pass(), header, "pass"
    elif isinstance(node, ast.With) and _IsLock(node):
        yield "removed lock", ast.If(test=ast.Constant(value=True), body=node.body, orelse=[]), header, "if True:"


def _IsLock(node: ast.With) -> bool:
    """Whether the block only happens inside something: a lock, a transaction."""
    return not any(item.optional_vars or "suppress" in ast.unparse(item) for item in node.items)
