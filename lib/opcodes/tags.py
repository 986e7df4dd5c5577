"""Opcodes of tags.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from ganeti import ht
from ganeti.opcodes import common
from ganeti.opcodes.base import OpCode, Param


class OpTagsGet(OpCode):
    """Tags of an object."""

    OP_DSC_FIELD = "name"
    OP_RESULT = ht.TListOf(ht.TNonEmptyString)

    kind: str = common.KIND
    use_locking: bool = common.USE_LOCKING
    name: str | None = Param(ht.TMaybe(ht.TString), None, doc="object name; ignored for cluster")


class OpTagsSearch(OpCode):
    """Find tags by regex."""

    OP_DSC_FIELD = "pattern"
    OP_RESULT = ht.TListOf(ht.TItems(ht.TNonEmptyString, ht.TNonEmptyString))

    pattern: str = Param(ht.TNonEmptyString, doc="regular expression (search, not match)")


class OpTagsSet(OpCode):
    """Add tags."""

    OP_RESULT = ht.TNone

    kind: str = common.KIND
    tags: list[str] = Param(ht.TListOf(ht.TString), doc="tags to add")
    name: str | None = Param(ht.TMaybe(ht.TString), None, doc="object name; null for cluster")


class OpTagsDel(OpCode):
    """Remove tags; all must be present."""

    OP_RESULT = ht.TNone

    kind: str = common.KIND
    tags: list[str] = Param(ht.TListOf(ht.TString), doc="tags to remove")
    name: str | None = Param(ht.TMaybe(ht.TString), None, doc="object name; null for cluster")
