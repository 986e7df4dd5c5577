"""gnt-debug: delays, locks, hand-written opcodes, self tests."""

from ganeti.cli.command import Program

PROGRAM = Program("gnt-debug", "debugging of the cluster", ("delay", "locks", "submit-job", "test-jobqueue", "wconfd"))
