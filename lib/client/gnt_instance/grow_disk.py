"""gnt-instance grow-disk: makes a disk larger."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import devices
from ganeti.opcodes import OpInstanceGrowDisk
from ganeti.utils.text import ParseUnit


def _Amount(text: str) -> int:
    try:
        return ParseUnit(text)
    except errors.UnitParseError as err:
        raise errors.OpPrereqError(f"Can't parse the given amount '{text}': {err}", errors.ECODE_INVAL) from err


def Run(options: Options, arguments: list[str]) -> int:
    name, disk, amount = arguments
    op = OpInstanceGrowDisk(
        instance_name=name,
        disk=devices.DiskIndex(disk),
        amount=_Amount(amount),
        absolute=options.absolute,
        wait_for_sync=options.wait_for_sync,
        ignore_ipolicy=options.ignore_ipolicy,
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Makes a disk of an instance larger by SIZE, or with --absolute as large as SIZE (such as 10g); a running guest sees"
    " the new size at once if its hypervisor supports that, its file systems have to be grown from inside",
    (One("instance"), One("disk"), One("size")),
    (o.ABSOLUTE, o.NO_WAIT_FOR_SYNC, o.IGNORE_IPOLICY, *o.SET_JOB),
)
