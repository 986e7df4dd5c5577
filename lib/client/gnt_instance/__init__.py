"""gnt-instance: the instances (virtual machines) of the cluster."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-instance",
    "administration of instances",
    (
        "activate-disks",
        "add",
        "add-tags",
        "batch-create",
        "change-group",
        "console",
        "deactivate-disks",
        "failover",
        "grow-disk",
        "info",
        "list",
        "list-fields",
        "list-tags",
        "migrate",
        "modify",
        "move",
        "reboot",
        "recreate-disks",
        "reinstall",
        "remove",
        "remove-tags",
        "rename",
        "replace-disks",
        "shutdown",
        "startup",
    ),
    {"show": "info", "start": "startup", "stop": "shutdown"},
)
