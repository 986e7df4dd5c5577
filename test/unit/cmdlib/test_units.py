"""Every logical unit fits its opcode."""

from __future__ import annotations

import typing

import pytest

from ganeti import opcodes
from ganeti.cmdlib import LU_MAPPING, LogicalUnit, NoHooksLU


def OpcodeOf(unit: type) -> type:
    """The class in the brackets of ``class LUX(LogicalUnit[OpX])``."""
    [base] = [base for base in unit.__orig_bases__ if typing.get_args(base)]  # type: ignore[attr-defined]
    [found] = typing.get_args(base)
    return found


@pytest.mark.parametrize("op_id", sorted(LU_MAPPING))
def test_unit_is_of_its_opcode(op_id: str) -> None:
    unit, opcode = LU_MAPPING[op_id], opcodes.OP_MAPPING[op_id]
    assert OpcodeOf(unit) is opcode
    assert issubclass(unit, NoHooksLU) == (opcode.OP_HOOK is None), f"{unit.__name__}, hooks: {opcode.OP_HOOK}"
    if opcode.OP_HOOK is not None:
        assert unit.HTYPE is not None
        assert unit.BuildHooksEnv is not LogicalUnit.BuildHooksEnv
        assert unit.BuildHooksNodes is not LogicalUnit.BuildHooksNodes
