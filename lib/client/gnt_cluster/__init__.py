"""gnt-cluster: the cluster as a whole."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-cluster",
    "administration of the cluster as a whole",
    (
        "activate-master-ip",
        "add-tags",
        "capacity",
        "command",
        "copyfile",
        "deactivate-master-ip",
        "destroy",
        "epo",
        "getmaster",
        "info",
        "init",
        "list-tags",
        "master-failover",
        "master-ping",
        "modify",
        "queue",
        "rapi-token",
        "redist-conf",
        "remove-tags",
        "rename",
        "repair-disk-sizes",
        "search-tags",
        "show-ispecs-cmd",
        "upgrade",
        "verify",
        "verify-disks",
        "version",
        "watcher",
    ),
    {"masterfailover": "master-failover", "show": "info"},
)
