"""gnt-instance recreate-disks: creates lost disks again, empty."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs, values
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import devices
from ganeti.opcodes import OpInstanceRecreateDisks


def Run(options: Options, arguments: list[str]) -> int:
    if options.node and options.iallocator:
        raise errors.OpPrereqError("An iallocator (-I) and nodes (-n) exclude each other", errors.ECODE_INVAL)
    nodes = [node for node in values.ParseNodePair(options.node) if node] if options.node else []
    op = OpInstanceRecreateDisks(
        instance_name=arguments[0],
        disks=devices.DisksToRecreate(options),
        nodes=nodes,
        iallocator=options.iallocator,
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Creates the lost disks of a stopped instance again, empty",
    (One("instance"),),
    (o.DISK, o.NODE_PLACEMENT, o.IALLOCATOR, *o.SET_JOB),
)
