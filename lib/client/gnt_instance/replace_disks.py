"""gnt-instance replace-disks: gives a mirrored disk new storage, or its instance another secondary node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import devices, typed
from ganeti.opcodes import OpInstanceReplaceDisks


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
            "Give exactly one of the options -p (new storage on the primary node), -s (on the secondary node), -a (wherever"
            " a disk is faulty) and -n NODE (another secondary node)",
            errors.ECODE_INVAL,
        )
    return chosen[0]


def Run(options: Options, arguments: list[str]) -> int:
    mode = _Mode(options)
    disks = [devices.DiskIndex(text) for text in typed.CommaList(options.disk_indices) or []]
    if disks and options.auto:
        raise errors.OpPrereqError(
            "The faulty disks are found automatically with -a: --disks is not allowed", errors.ECODE_INVAL
        )
    op = OpInstanceReplaceDisks(
        instance_name=arguments[0],
        mode=mode,
        disks=disks,
        remote_node=options.remote_node,
        iallocator=options.iallocator,
        early_release=options.early_release,
        ignore_ipolicy=options.ignore_ipolicy,
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Replaces the disks of a DRBD instance on one of its nodes, or moves its mirror to another secondary node",
    (One("instance"),),
    (
        o.ON_PRIMARY, o.ON_SECONDARY, o.AUTO_REPLACE, o.NEW_SECONDARY, o.IALLOCATOR, o.DISK_INDICES, o.EARLY_RELEASE,
        o.IGNORE_IPOLICY, *o.SET_JOB,
    ),
)  # fmt: skip
