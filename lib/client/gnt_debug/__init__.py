"""gnt-debug: delays, locks, opcodes by hand, self tests."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-debug",
    "debug commands",
    ("delay", "iallocator", "locks", "metad", "submit-job", "test-jobqueue", "test-osparams", "wconfd"),
    {"allocator": "iallocator"},
)
