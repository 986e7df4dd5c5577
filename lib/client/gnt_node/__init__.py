"""gnt-node: the nodes of the cluster."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-node",
    "administration of nodes",
    (
        "add",
        "add-tags",
        "failover",
        "info",
        "list",
        "list-fields",
        "list-tags",
        "migrate",
        "modify",
        "powercycle",
        "remove",
        "remove-tags",
        "show-join-data",
    ),
    {"show": "info"},
)
