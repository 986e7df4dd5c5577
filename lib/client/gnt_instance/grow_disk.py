"""gnt-instance grow-disk: makes a disk larger."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.client.shared import devices
from ganeti.opcodes import OpInstanceGrowDisk
from ganeti.utils.text import ParseUnit

ABSOLUTE = Flag("--absolute", dest="absolute", text="SIZE is the new size of the disk, not the increment")


def _Amount(text: str) -> int:
    try:
        return ParseUnit(text)
    except errors.UnitParseError as err:
        raise errors.OpPrereqError(f"Can't parse the given amount '{text}': {err}", errors.ECODE_INVAL) from err


def Run(options: Options, arguments: list[str]) -> int:
    name, disk, amount = arguments
    op = jobs.FromOptions(
        OpInstanceGrowDisk, options, instance_name=name, disk=devices.DiskIndex(disk), amount=_Amount(amount)
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Enlarge a disk of an instance",
    (One("instance"), One("disk"), One("size")),
    (ABSOLUTE, o.NO_WAIT_FOR_SYNC, o.IGNORE_IPOLICY, *o.SET_JOB),
    details="DISK is the number of the disk, starting with 0; SIZE is what to add, such as 512m or 10g.  For example, make"
    " the first disk 10 GiB larger with 'gnt-instance grow-disk web1 0 10g', or 50 GiB large with 'gnt-instance grow-disk"
    " --absolute web1 0 50g'.\n\n"
    "A command that failed can be repeated: volumes that have the new size already keep it.\n\n"
    "Disks cannot be made smaller.  A running guest sees the new size at once if its hypervisor supports that, else after"
    " its next start; partitions and file systems have to be enlarged inside the guest.",
)
