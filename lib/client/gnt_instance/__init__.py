"""gnt-instance: the virtual machines of the cluster."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-instance",
    "virtual machine related commands",
    (
        "activate-disks",
        "add",
        "add-tags",
        "console",
        "deactivate-disks",
        "failover",
        "info",
        "list",
        "list-fields",
        "list-tags",
        "migrate",
        "modify",
        "reboot",
        "reinstall",
        "remove",
        "remove-tags",
        "rename",
        "shutdown",
        "startup",
    ),
    {"show": "info", "start": "startup", "stop": "shutdown"},
)
