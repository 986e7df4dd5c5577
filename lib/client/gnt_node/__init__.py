"""gnt-node: the nodes of the cluster."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-node",
    "administration of nodes",
    (
        "add",
        "add-tags",
        "evacuate",
        "failover",
        "health",
        "info",
        "list",
        "list-drbd",
        "list-fields",
        "list-storage",
        "list-tags",
        "migrate",
        "modify",
        "modify-storage",
        "power",
        "powercycle",
        "remove",
        "remove-tags",
        "repair-storage",
        "restricted-command",
        "show-join-data",
        "volumes",
    ),
    {"show": "info"},
)
