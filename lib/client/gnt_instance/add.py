"""gnt-instance add: creates an instance."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Off, Options
from ganeti.client.gnt_instance.options import COMMUNICATION, FORCE_VARIANT
from ganeti.client.shared import creation
from ganeti.opcodes import OpInstanceCreate

NO_INSTALL = Flag("--no-install", dest="no_install", text="Install no operating system, and do not start the instance")
NO_START = Off("--no-start", dest="start", text="Do not start the instance")
FORTHCOMING = Flag("--forthcoming", dest="forthcoming", text="Only reserve the resources; nothing is made on nodes")
COMMIT = Flag(
    "--commit", dest="commit",
    text="Make a reserved instance real; everything that is not given is as it was reserved",
)  # fmt: skip


def MakeOpCode(options: Options, name: str) -> OpInstanceCreate:
    """Return the opcode that the command line asks for."""
    if options.forthcoming and options.commit:
        raise errors.OpPrereqError("--forthcoming and --commit exclude each other", errors.ECODE_INVAL)
    if options.commit and options.no_nics:
        raise errors.OpPrereqError("--no-nics cannot be used with --commit: NICs are as reserved", errors.ECODE_INVAL)
    start = options.start and not options.no_install
    return creation.MakeOpCode(options, name, constants.CREATE_NEW, described=options.commit, start=start)


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(MakeOpCode(options, arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Create an instance",
    (One("host"),),
    (
        *creation.SET_PLACE, creation.NO_NICS, o.OS_TYPE, FORCE_VARIANT, NO_INSTALL, NO_START, o.OS_PARAMETERS,
        *creation.SET_PARAMETERS, *creation.SET_HELPER, FORTHCOMING, COMMIT, COMMUNICATION, *creation.SET_WITHOUT_EFFECT,
        *o.SET_JOB,
    ),
    details="Without -n and -I the cluster's default allocator chooses the nodes, if there is one; the job's log shows its choice"
    " and why.  With --dry-run nothing is created, and the log shows where the instance would go.  With --forthcoming"
    " nodes, addresses and the names of disks are reserved in the configuration; --commit makes the instance on them"
    " later.\n\n"
    "For example, an instance with one disk of 20 GiB in a file on node1, 2 GiB of memory and one NIC on bridge br0:"
    " 'gnt-instance add -n node1 -t file --disk 0:size=20g -B memory=2g,vcpus=2 --net 0:link=br0 -o debian+default web1'."
    "  With a mirrored disk on two nodes that hail chooses: 'gnt-instance add -I hail -t drbd --disk 0:size=20g"
    " -o debian+default web1'.",
)  # fmt: skip
