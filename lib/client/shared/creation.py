"""What gnt-instance add and gnt-backup import have in common: the options that describe an instance, and the opcode they make."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output, values
from ganeti.cli import options as o
from ganeti.cli.parser import Flag, Options, Value
from ganeti.client.shared import devices, typed
from ganeti.opcodes import OpInstanceCreate

HYPERVISOR = Value(
    "-H", "--hypervisor-parameters", dest="hypervisor", type="identkeyval", metavar="HV[:KEY=VALUE,...]",
    text="Hypervisor, and parameters that differ from the cluster's", grammar="hypervisor-new",
)  # fmt: skip
OS_SIZE = Value(
    "-s", "--os-size", dest="sd_size", type="unit", metavar="SIZE", text="One disk of this size, instead of --disk"
)
NO_NICS = Flag("--no-nics", dest="no_nics", text="Create no NIC; without --net and --no-nics there is one")
OPPORTUNISTIC = Flag(
    "--opportunistic-locking", dest="opportunistic_locking",
    text="Let the allocator choose among nodes on which no other job works; only if none of them fits, among all",
)  # fmt: skip
HELPER_STARTUP_TIMEOUT = Value(
    "--helper-startup-timeout", dest="helper_startup_timeout", type="int", metavar="SECONDS",
    text="How long a helper, which installs operating systems that no node trusts, may take to start; 300 by default",
)  # fmt: skip
HELPER_SHUTDOWN_TIMEOUT = Value(
    "--helper-shutdown-timeout", dest="helper_shutdown_timeout", type="int", metavar="SECONDS",
    text="How long the helper may take to install and power off; 7200 by default",
)  # fmt: skip
NO_IP_CHECK = Flag("--no-ip-check", dest="no_ip_check", text="No effect").Hidden()
NO_NAME_CHECK = Flag("--no-name-check", dest="no_name_check", text="No effect").Hidden()

# Where the instance and its disks are to be, and how the nodes are chosen.
SET_PLACE = (o.NODE_PLACEMENT, o.IALLOCATOR, OPPORTUNISTIC, o.DISK_TEMPLATE, o.DISK, OS_SIZE, o.NET)
SET_PARAMETERS = (
    o.BACKEND, HYPERVISOR, o.OS_PARAMETERS_PRIVATE, o.OS_PARAMETERS_SECRET,
    o.FILE_STORAGE_DIR, o.FILE_DRIVER, o.IP_CHECK, o.NAME_CHECK, o.NO_CONFLICTS_CHECK, o.NO_WAIT_FOR_SYNC, o.IGNORE_IPOLICY,
    o.NODE_GROUP.But(help="Node group of the instance"), o.TAGS.But(help="Tags of the instance"),
)  # fmt: skip
SET_HELPER = (HELPER_STARTUP_TIMEOUT, HELPER_SHUTDOWN_TIMEOUT)
SET_WITHOUT_EFFECT = (NO_IP_CHECK, NO_NAME_CHECK)


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
    if options.ip_check and not options.name_check:
        raise errors.OpPrereqError(
            "--ip-check needs --name-check: the address to check comes from the name", errors.ECODE_INVAL
        )
    if options.iallocator and options.node:
        raise errors.OpPrereqError("Give either an iallocator (-I) or nodes (-n), not both", errors.ECODE_INVAL)


def MakeOpCode(options: Options, name: str, mode: str, described: bool, start: bool) -> OpInstanceCreate:
    """Return the opcode that the command line asks for.

    ``described``: the master knows disks and NICs already, from a reservation or an export, so that none are sent unless
    they are given.
    """
    _CheckOptions(options)
    pnode, snode = values.ParseNodePair(options.node) if options.node else (None, None)
    hypervisor, hvparams = _Hypervisor(options)
    has_disks = bool(options.disks) or options.sd_size is not None
    return jobs.FromOptions(
        OpInstanceCreate,
        options,
        instance_name=name,
        mode=mode,
        disks=devices.NewDisks(options) if has_disks or not described else [],
        nics=devices.NewNics(options) if options.nics or not described else [],
        pnode=pnode,
        snode=snode or None,
        hypervisor=hypervisor,
        hvparams=hvparams,
        beparams=typed.Backend(options.beparams),
        start=start,
    )
