"""gnt-cluster: the cluster as a whole."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-cluster",
    "cluster commands",
    (
        "activate-master-ip",
        "add-tags",
        "command",
        "copyfile",
        "deactivate-master-ip",
        "getmaster",
        "info",
        "list-tags",
        "master-ping",
        "modify",
        "queue",
        "redist-conf",
        "remove-tags",
        "rename",
        "repair-disk-sizes",
        "search-tags",
        "show-ispecs-cmd",
        "verify",
        "verify-disks",
        "version",
        "watcher",
    ),
    {"show": "info"},
)
