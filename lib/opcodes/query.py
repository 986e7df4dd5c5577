"""Queries and commands that are run as jobs.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from typing import Any

from ganeti import ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param


class OpQuery(OpCode):
    """Query2 as a job; 3.x Python side implements only cluster, os, extstorage."""

    OP_DSC_FIELD = "what"
    OP_RESULT = types.TQueryResult

    what: str = common.WHAT
    use_locking: bool = common.USE_LOCKING
    fields: list[str] = Param(ht.TListOf(ht.TNonEmptyString), doc="requested fields")
    qfilter: list[Any] | None = Param(ht.TMaybe(ht.TList), None, doc="filter, see queries.md")


class OpQueryFields(OpCode):
    """List fields of a resource kind."""

    OP_DSC_FIELD = "what"
    OP_RESULT = types.TQueryFieldsResult

    what: str = common.WHAT
    fields: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="restrict to these; null = all"
    )


class OpOobCommand(OpCode):
    """Out-of-band power/health command through the node's oob_program."""

    OP_RESULT = ht.TListOf(ht.TListOf(ht.TItems(ht.TInt, ht.TAny)))

    node_names: list[str] = Param(
        ht.TListOf(ht.TNonEmptyString),
        [],
        doc="nodes; empty = all (the master is then skipped for power-off/power-cycle)",
    )
    node_uuids: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="overwritten from node_names"
    )
    command: str = Param(types.TOobCommand, doc="action")
    timeout: int = Param(ht.TInt, 60, doc="seconds before the helper is killed")
    ignore_status: bool = Param(ht.TBool, False, doc="allow power-off of nodes not marked offline")
    power_delay: float = Param(ht.TFloat, 2.0, doc="seconds between power-ons")


class OpRestrictedCommand(OpCode):
    """Run a pre-installed restricted command on nodes."""

    OP_RESULT = ht.TListOf(ht.TItems(ht.TBool, ht.TString))

    use_locking: bool = Param(ht.TBool, False, doc="take node locks exclusively")
    nodes: list[str] = Param(ht.TListOf(ht.TNonEmptyString), doc="nodes, at least one")
    node_uuids: list[str] | None = common.NODE_UUIDS
    command: str = Param(ht.TNonEmptyString, doc="file name of the command")
