"""gnt-network: networks, from whose addresses NICs are served."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-network",
    "administration of networks",
    (
        "add",
        "add-tags",
        "connect",
        "disconnect",
        "info",
        "list",
        "list-fields",
        "list-tags",
        "modify",
        "remove",
        "remove-tags",
        "rename",
    ),
)
