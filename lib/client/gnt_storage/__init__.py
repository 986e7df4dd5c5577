"""gnt-storage: providers of external storage."""

from ganeti.cli.command import Program

PROGRAM = Program("gnt-storage", "state of the providers of external storage", ("diagnose", "info"), {"show": "info"})
