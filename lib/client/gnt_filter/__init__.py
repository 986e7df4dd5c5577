"""gnt-filter: rules that decide which jobs may start."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-filter",
    "rules about which jobs may start",
    ("add", "delete", "info", "list", "list-fields", "replace"),
)
