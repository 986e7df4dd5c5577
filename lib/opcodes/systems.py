"""Opcodes of operating systems and external storage providers.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from ganeti import ht
from ganeti.opcodes import common
from ganeti.opcodes.base import OpCode, Param


class OpOsDiagnose(OpCode):
    """OS definitions (query kind `os`, old-style rows)."""

    OP_RESULT = ht.TListOf(ht.TList)

    output_fields: list[str] = Param(
        ht.TListOf(ht.TNonEmptyString),
        doc="fields of kind os; if valid/hidden/blacklisted is not among them, invalid/hidden/blacklisted OSes are left out",
    )
    names: list[str] = common.NAMES


class OpExtStorageDiagnose(OpCode):
    """ExtStorage providers (query kind `extstorage`)."""

    OP_RESULT = ht.TListOf(ht.TList)

    output_fields: list[str] = common.OUTPUT_FIELDS
    names: list[str] = common.NAMES
