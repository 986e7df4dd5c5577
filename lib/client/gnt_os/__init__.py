"""gnt-os: operating system definitions."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-os", "administration of operating system definitions", ("diagnose", "info", "list", "modify"), {"show": "info"}
)
