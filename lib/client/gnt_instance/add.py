"""gnt-instance add: creates an instance."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output, values
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Off, Options, Value
from ganeti.client.gnt_instance import devices
from ganeti.client.gnt_instance.options import (
    COMMUNICATION,
    DISK,
    DISK_TEMPLATE,
    FILE_DRIVER,
    FILE_STORAGE_DIR,
    FORCE_VARIANT,
    IP_CHECK,
    NAME_CHECK,
    NET,
    NO_WAIT_FOR_SYNC,
    NODE_PLACEMENT,
)
from ganeti.client.shared import typed
from ganeti.opcodes import OpInstanceCreate

HYPERVISOR = Value(
    "-H", "--hypervisor-parameters", dest="hypervisor", type="identkeyval", metavar="HV[:KEY=VALUE,...]",
    text="Hypervisor, and parameters that differ from the cluster's", grammar="hypervisor-new",
)  # fmt: skip
OS_SIZE = Value(
    "-s", "--os-size", dest="sd_size", type="unit", metavar="SIZE", text="One disk of this size, instead of --disk"
)
NO_NICS = Flag("--no-nics", dest="no_nics", text="Create no NIC; without --net and --no-nics there is one")
NO_INSTALL = Flag("--no-install", dest="no_install", text="Install no operating system, and do not start the instance")
NO_START = Off("--no-start", dest="start", text="Do not start the instance")

OPPORTUNISTIC = Flag(
    "--opportunistic-locking", dest="opportunistic_locking",
    text="Let the allocator choose among nodes on which no other job works; only if none of them fits, among all",
)  # fmt: skip

FORTHCOMING = Flag("--forthcoming", dest="forthcoming", text="Only reserve the resources; nothing is made on nodes")
COMMIT = Flag(
    "--commit", dest="commit",
    text="Make a reserved instance real; everything that is not given is as it was reserved",
)  # fmt: skip
# Accepted for scripts of 3.1, without an effect: no helper VM is ever started.
HELPER_STARTUP_TIMEOUT = Value(
    "--helper-startup-timeout", dest="helper_startup_timeout", type="int", text="Seconds for the helper VM to start"
).Hidden()
HELPER_SHUTDOWN_TIMEOUT = Value(
    "--helper-shutdown-timeout", dest="helper_shutdown_timeout", type="int", text="Seconds for the helper VM to stop"
).Hidden()
NO_IP_CHECK = Flag("--no-ip-check", dest="no_ip_check", text="No effect").Hidden()
NO_NAME_CHECK = Flag("--no-name-check", dest="no_name_check", text="No effect").Hidden()


def _Hypervisor(options: Options) -> tuple[str | None, dict[str, Any]]:
    """Return the hypervisor and the parameters of ``-H``."""
    if not options.hypervisor:
        return None, {}
    name, settings = options.hypervisor
    if "=" in name:
        raise errors.OpPrereqError(
            f"-H {name}: the name of the hypervisor is missing",
            errors.ECODE_INVAL,
            hint=f"write it before the parameters, such as '-H kvm:{name}'",
        )
    if not isinstance(settings, dict):
        raise errors.OpPrereqError(f"Invalid hypervisor '{name}'", errors.ECODE_INVAL)
    return name, typed.Hypervisor(settings, name if name in constants.HYPER_TYPES else None)


def _CheckOptions(options: Options) -> None:
    for dest, option in (("no_ip_check", "--no-ip-check"), ("no_name_check", "--no-name-check")):
        if getattr(options, dest):
            output.ToStderr(f"Warning: {option}: this is the default now, the option has no effect")
    if options.forthcoming and options.commit:
        raise errors.OpPrereqError("--forthcoming and --commit exclude each other", errors.ECODE_INVAL)
    if options.commit and options.no_nics:
        raise errors.OpPrereqError("--no-nics cannot be used with --commit: NICs are as reserved", errors.ECODE_INVAL)
    if options.ip_check and not options.name_check:
        raise errors.OpPrereqError(
            "--ip-check needs --name-check: the address to check comes from the name", errors.ECODE_INVAL
        )
    if options.iallocator and options.node:
        raise errors.OpPrereqError("Give either an iallocator (-I) or nodes (-n), not both", errors.ECODE_INVAL)


def MakeOpCode(options: Options, name: str) -> OpInstanceCreate:
    """Return the opcode that the command line asks for."""
    _CheckOptions(options)
    pnode, snode = values.ParseNodePair(options.node) if options.node else (None, None)
    hypervisor, hvparams = _Hypervisor(options)
    as_reserved = options.commit and not (options.disks or options.sd_size)
    return jobs.FromOptions(
        OpInstanceCreate,
        options,
        instance_name=name,
        mode="create",
        disks=[] if as_reserved else devices.NewDisks(options),
        nics=[] if options.commit and not options.nics else devices.NewNics(options),
        pnode=pnode,
        snode=snode or None,
        hypervisor=hypervisor,
        hvparams=hvparams,
        beparams=typed.Backend(options.beparams),
        start=options.start and not options.no_install,
    )


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(MakeOpCode(options, arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Create an instance",
    (One("host"),),
    (
        NODE_PLACEMENT, o.IALLOCATOR, OPPORTUNISTIC, DISK_TEMPLATE, DISK, OS_SIZE, NET, NO_NICS, o.OS_TYPE, FORCE_VARIANT,
        NO_INSTALL, NO_START, o.BACKEND, HYPERVISOR, o.OS_PARAMETERS, o.OS_PARAMETERS_PRIVATE, o.OS_PARAMETERS_SECRET,
        FILE_STORAGE_DIR, FILE_DRIVER, IP_CHECK, NAME_CHECK, o.NO_CONFLICTS_CHECK, NO_WAIT_FOR_SYNC, o.IGNORE_IPOLICY,
        o.NODE_GROUP.But(help="Node group of the instance"), o.TAGS.But(help="Tags of the instance"), FORTHCOMING, COMMIT,
        COMMUNICATION, HELPER_STARTUP_TIMEOUT, HELPER_SHUTDOWN_TIMEOUT, NO_IP_CHECK, NO_NAME_CHECK, *o.SET_JOB,
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
