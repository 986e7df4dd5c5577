"""gnt-instance replace-disks: gives mirrored disks new storage, or their instance another secondary node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import COMPLETE_NODE, Flag, Options, Value
from ganeti.client.shared import devices
from ganeti.opcodes import OpInstanceReplaceDisks

ON_PRIMARY = Flag("-p", "--on-primary", dest="on_primary", text="Replace the disks on the primary node")
ON_SECONDARY = Flag("-s", "--on-secondary", dest="on_secondary", text="Replace the disks on the secondary node")
AUTO = Flag("-a", "--auto", dest="auto", text="Replace the faulty disks, on whichever node they are")
NEW_SECONDARY = Value(
    "-n", "--new-secondary", dest="remote_node", metavar="NODE", completion=COMPLETE_NODE,
    text="Move the mirror to this node, which becomes the secondary node",
)  # fmt: skip
DISKS = Value("--disks", dest="disk_indices", type="names", metavar="N,...", text="Numbers of the disks (default: all)")
EARLY_RELEASE = Flag(
    "--early-release", dest="early_release", text="Release locks and the old storage before the new mirrors are in sync"
)


def _Mode(options: Options) -> str:
    """Return the mode of the opcode; raise OpPrereqError unless exactly one way was chosen."""
    chosen = [
        mode
        for mode, given in (
            ("replace_on_primary", options.on_primary),
            ("replace_on_secondary", options.on_secondary),
            ("replace_auto", options.auto),
            ("replace_new_secondary", options.remote_node is not None),
            ("replace_new_secondary", options.iallocator is not None),
        )
        if given
    ]
    if len(chosen) != 1:
        raise errors.OpPrereqError(
            "Give exactly one of the options -p (new storage on the primary node), -s (on the secondary node), -a (for"
            " faulty disks on either node), -n NODE or -I ALLOCATOR (another secondary node)",
            errors.ECODE_INVAL,
        )
    return chosen[0]


def Run(options: Options, arguments: list[str]) -> int:
    mode = _Mode(options)
    if options.disk_indices is not None and not options.disk_indices:
        raise errors.OpPrereqError("--disks names no disk; leave it out for all of them", errors.ECODE_INVAL)
    disks = [devices.DiskIndex(text) for text in options.disk_indices or []]
    if disks and options.auto:
        raise errors.OpPrereqError("-a finds the faulty disks itself: --disks is not allowed", errors.ECODE_INVAL)
    op = jobs.FromOptions(OpInstanceReplaceDisks, options, instance_name=arguments[0], mode=mode, disks=disks)
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Replace the mirrored disks of a DRBD instance on one node, or move the mirror to another node",
    (One("instance"),),
    (
        ON_PRIMARY, ON_SECONDARY, AUTO, NEW_SECONDARY, o.IALLOCATOR, DISKS, EARLY_RELEASE, o.IGNORE_IPOLICY, *o.SET_JOB,
    ),
    details="Exactly one of -p, -s, -a, -n and -I is needed.  The instance keeps running; the new disks are filled from the"
    " intact half of the mirror.",
)  # fmt: skip
