"""Who chooses nodes: the request, or an allocator (doc/reference/drivers.md d.0)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import errors
from ganeti.cmdlib.base import LogicalUnit

DEFAULT_SHORTCUT = "."


def CheckAllocatorOrNode(lu: LogicalUnit, allocator_slot: str, node_slot: str) -> None:
    """Exactly one of an allocator and nodes; with neither, or the allocator ".", the cluster's default allocator.

    Fills in the opcode's parameter.  Raises OpPrereqError.
    """
    node: str | Sequence[Any] | None = getattr(lu.op, node_slot)
    allocator = getattr(lu.op, allocator_slot)
    has_node = bool(node)
    if has_node and allocator:
        raise errors.OpPrereqError("Do not specify both iallocator and node", errors.ECODE_INVAL)
    if has_node:
        return
    if allocator in (None, DEFAULT_SHORTCUT):
        default = lu.snapshot.cluster.default_iallocator
        if not default:
            raise errors.OpPrereqError(
                "No iallocator or node given and no cluster-wide default iallocator found",
                errors.ECODE_INVAL,
                hint="give the node (-n), or an allocator (-I hail)",
            )
        setattr(lu.op, allocator_slot, default)
