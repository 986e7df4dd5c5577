"""gnt-node: the machines of the cluster."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-node",
    "node related commands",
    (
        "add",
        "add-tags",
        "evacuate",
        "failover",
        "info",
        "list",
        "list-fields",
        "list-storage",
        "list-tags",
        "migrate",
        "modify",
        "modify-storage",
        "powercycle",
        "remove",
        "remove-tags",
        "repair-storage",
        "show-join-data",
        "volumes",
    ),
    {"show": "info"},
)
