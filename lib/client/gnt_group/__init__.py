"""gnt-group: groups of nodes."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-group",
    "administration of node groups",
    (
        "add",
        "add-tags",
        "assign-nodes",
        "evacuate",
        "info",
        "list",
        "list-fields",
        "list-tags",
        "modify",
        "remove",
        "remove-tags",
        "rename",
        "show-ispecs-cmd",
    ),
)
