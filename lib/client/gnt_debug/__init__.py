"""gnt-debug: delays, locks, opcodes by hand, self tests."""

from ganeti.cli.command import Program

PROGRAM = Program("gnt-debug", "debugging", ("delay", "locks", "submit-job", "test-jobqueue", "wconfd"))
