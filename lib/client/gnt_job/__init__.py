"""gnt-job: the jobs of the cluster."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-job",
    "management of jobs",
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
