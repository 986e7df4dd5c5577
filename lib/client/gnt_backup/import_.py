"""gnt-backup import: makes an instance of an export."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import COMPLETE_NODE, Flag, Options, Value
from ganeti.client.shared import creation, transferoptions

SOURCE_NODE = Value(
    "--src-node", dest="src_node", metavar="NODE", completion=COMPLETE_NODE,
    text="Node that has the export; without it all nodes are searched",
)  # fmt: skip
SOURCE_DIR = Value(
    "--src-dir", dest="src_path", metavar="DIR",
    text="Name of the export, or with --src-node its directory; without it the name of the instance",
)  # fmt: skip
IDENTIFY_DEFAULTS = Flag(
    "--identify-defaults", dest="identify_defaults",
    text="Let parameters that equal the cluster's present defaults follow those from now on",
)  # fmt: skip


def _CheckDevices(options: Options) -> None:
    if options.no_nics:
        raise errors.OpPrereqError(
            "--no-nics cannot be used for an import: without --net the NICs are those of the export", errors.ECODE_INVAL
        )
    for number, disk in options.disks:
        if isinstance(disk, dict) and "adopt" in disk:
            raise errors.OpPrereqError(
                f"--disk {number}:adopt={disk['adopt']}: an import writes to new disks and cannot adopt any",
                errors.ECODE_INVAL,
                hint=f"give the size of the new disk: --disk {number}:size=20g",
            )


def Run(options: Options, arguments: list[str]) -> int:
    _CheckDevices(options)
    op = creation.MakeOpCode(options, arguments[0], constants.CREATE_IMPORT, described=True, start=False)
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Create an instance from an export",
    (One("instance"),),
    (
        SOURCE_NODE, SOURCE_DIR, *creation.SET_PLACE,
        o.OS_PARAMETERS.But(help="Parameters for the scripts of the operating system"), *creation.SET_PARAMETERS,
        IDENTIFY_DEFAULTS, transferoptions.COMPRESS,
        creation.NO_NICS.Hidden(), *(option.Hidden() for option in creation.SET_HELPER), *creation.SET_WITHOUT_EFFECT,
        *o.SET_JOB,
    ),
    details="What is not given is taken from the export: operating system, disks, NICs and parameters, and the disk template if"
    " the cluster enables it.  Values that name a file, device, address or processor of a node, give rights there, or say how"
    " people reach the console, are taken only if they are those of the cluster, and an image in os-image is not: the job names"
    " them; set them with -H and -O.  The instance is not started.\n\n"
    "For example, with plain disks on node1: 'gnt-backup import -t plain -n node1 web1'.  As another instance, with a"
    " mirrored disk, on nodes that hail chooses: 'gnt-backup import --src-dir=web1.example.com -t drbd -I hail"
    " --net 0:mac=generate web2'.",
)  # fmt: skip
