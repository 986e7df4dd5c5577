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
    if options.node is not None and not options.node:
        raise errors.OpPrereqError("-n names no node; leave it out for the present ones", errors.ECODE_INVAL)
    op = jobs.FromOptions(
        OpInstanceRecreateDisks,
        options,
        instance_name=arguments[0],
        disks=devices.DisksToRecreate(options),
        nodes=[node for node in values.ParseNodePair(options.node) if node] if options.node else [],
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Create the lost disks of a stopped instance again, empty",
    (One("instance"),),
    (
        o.DISK.But(
            metavar="N[:KEY=VALUE,...]", grammar="disk-recreate", help="Recreate disk N only; repeat it for several disks"
        ),
        o.NODE_PLACEMENT.But(help="Create all disks on these nodes instead of the present ones"), o.IALLOCATOR, *o.SET_JOB,
    ),
    details="This is for disks whose data is lost, for example because a node is gone.  Without --disk all disks of the"
    " instance are created.  A disk that still exists is an error.  Afterwards install the instance again with"
    " 'gnt-instance reinstall', or restore a backup.",
)  # fmt: skip
