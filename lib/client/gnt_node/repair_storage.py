"""gnt-node repair-storage: a volume group that lost a disk."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.opcodes import OpRepairNodeStorage

IGNORE_CONSISTENCY = Flag(
    "--ignore-consistency", dest="ignore_consistency", text="Give up disks that have their only good copy in the group"
)


def Run(options: Options, arguments: list[str]) -> int:
    node, storage_type, name = arguments
    op = jobs.FromOptions(OpRepairNodeStorage, options, node_name=node, storage_type=storage_type, name=name)
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Repair a volume group that lost physical volumes",
    (One("node"), One("type"), One("name")),
    (IGNORE_CONSISTENCY, *o.SET_JOB),
    details="TYPE is lvm-vg, NAME the volume group.  The missing physical volumes are taken out of the group, with all"
    " volumes that were on them.  It is refused while an instance has its only good copy there; --ignore-consistency"
    " gives that up.  Afterwards make the lost halves of mirrors again with 'gnt-instance replace-disks -a INSTANCE'.",
)
