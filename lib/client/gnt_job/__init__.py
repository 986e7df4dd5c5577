"""gnt-job: the jobs of the cluster."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-job",
    "job related commands",
    (
        "archive",
        "autoarchive",
        "cancel",
        "change-priority",
        "info",
        "list",
        "list-fields",
        "wait",
        "watch",
    ),
    {"show": "info"},
)
