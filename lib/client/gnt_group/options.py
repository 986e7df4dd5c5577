"""Options of several commands of gnt-group."""

from __future__ import annotations

from ganeti.cli.parser import ElementsOf, Value

ALLOC_POLICY = Value(
    "--alloc-policy", dest="alloc_policy", metavar="POLICY", choices=ElementsOf("TAllocPolicy"),
    text="Whether allocators may place new instances in the group",
)  # fmt: skip
