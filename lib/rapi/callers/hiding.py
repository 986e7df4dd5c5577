"""What never leaves through RAPI: the values of private and secret parameters in the opcodes of jobs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ganeti import opcodes

OPS = "ops"


@functools.cache
def _Hidden(op_id: str) -> tuple[str, ...]:
    cls = opcodes.OP_MAPPING.get(op_id)
    return tuple(name for name, spec in cls.OP_PARAMS.items() if spec.private) if cls is not None else ()


def Job(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a job without what must not be seen."""
    return {name: _Ops(value) if name == OPS else value for name, value in shown.items()}


def Values(fields: Iterable[str], values: Any) -> Any:
    """Return values in the order of ``fields`` without what must not be seen."""
    if not isinstance(values, list):
        return values
    return [_Ops(value) if name == OPS else value for name, value in zip(fields, values, strict=False)]


def Cells(fields: Iterable[str], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return rows of ``[status, value]`` without what must not be seen."""
    names = list(fields)
    return [
        [
            [status, _Ops(value)] if name == OPS else [status, value]
            for name, (status, value) in zip(names, row, strict=True)
        ]
        for row in rows
    ]


def _Ops(ops: Any) -> Any:
    return [_Op(op) for op in ops] if isinstance(ops, list) else ops


def _Op(op: Any) -> Any:
    if not isinstance(op, dict):
        return op
    hidden = _Hidden(str(op.get("OP_ID")))
    shown = {name: _Nulls(value) if name in hidden else value for name, value in op.items()}
    nested = shown.get("instances")
    if isinstance(nested, list):  # opcodes inside of one
        shown["instances"] = [_Op(item) for item in nested]
    return shown


def _Nulls(value: Any) -> Any:
    """Return the keys of a value, which may be of two levels, with null for everything else."""
    if not isinstance(value, dict):
        return None
    return {name: _Nulls(inner) for name, inner in value.items()}
