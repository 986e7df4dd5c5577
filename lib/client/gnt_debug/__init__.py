"""gnt-debug: delays, allocators, locks, hand-written opcodes, self tests."""

from ganeti.cli.command import Program

PROGRAM = Program(
    "gnt-debug",
    "debugging of the cluster",
    ("delay", "iallocator", "locks", "submit-job", "test-jobqueue", "test-osparams", "wconfd"),
    {"allocator": "iallocator"},
)
