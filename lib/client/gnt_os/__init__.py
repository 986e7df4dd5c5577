"""gnt-os: the operating systems that instances can be installed with."""

from ganeti.cli.command import Program

PROGRAM = Program("gnt-os", "operating system commands", ("diagnose", "info", "list", "modify"), {"show": "info"})
