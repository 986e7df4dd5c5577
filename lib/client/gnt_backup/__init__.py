"""gnt-backup: exports of instances, and instances made of them."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-backup",
    "exports of instances",
    ("export", "import", "list", "list-fields", "remove"),
)
