"""gnt-instance add: makes a new instance."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs, output, values
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import devices, typed
from ganeti.opcodes import OpInstanceCreate


def _Hypervisor(options: Options) -> tuple[str | None, dict]:
    """``-H`` of a new instance: a name, or a name with parameters."""
    if not options.hypervisor:
        return None, {}
    name, settings = options.hypervisor
    if not isinstance(settings, dict):
        raise errors.OpPrereqError(f"Invalid hypervisor '{name}'", errors.ECODE_INVAL)
    return name, typed.Hypervisor(settings, name if name in constants.HYPER_TYPES else None)


def _CheckOptions(options: Options) -> None:
    for dest, option in (("no_ip_check", "--no-ip-check"), ("no_name_check", "--no-name-check")):
        if getattr(options, dest):
            output.ToStderr(f"Warning: {option}: this is the default now, the option has no effect")
    if options.forthcoming and options.commit:
        raise errors.OpPrereqError("--forthcoming and --commit exclude each other", errors.ECODE_INVAL)
    if options.ip_check and not options.name_check:
        raise errors.OpPrereqError(
            "--ip-check needs --name-check: the address to check comes from the name", errors.ECODE_INVAL
        )
    if options.iallocator and options.node:
        raise errors.OpPrereqError("Give either an iallocator (-I) or nodes (-n), not both", errors.ECODE_INVAL)


def MakeOpCode(options: Options, name: str) -> OpInstanceCreate:
    """The opcode that the command line means."""
    _CheckOptions(options)
    pnode, snode = values.ParseNodePair(options.node) if options.node else (None, None)
    hypervisor, hvparams = _Hypervisor(options)
    return OpInstanceCreate(
        instance_name=name,
        mode="create",
        disks=devices.NewDisks(options),
        disk_template=options.disk_template,
        group_name=options.nodegroup,
        nics=devices.NewNics(options),
        conflicts_check=options.conflicts_check,
        pnode=pnode,
        snode=snode or None,
        ip_check=options.ip_check,
        name_check=options.name_check,
        wait_for_sync=options.wait_for_sync,
        file_storage_dir=options.file_storage_dir,
        file_driver=options.file_driver,
        iallocator=options.iallocator,
        hypervisor=hypervisor,
        hvparams=hvparams,
        beparams=typed.Backend(options.beparams or {}),
        osparams=dict(options.osparams or {}),
        osparams_private=dict(options.osparams_private or {}),
        osparams_secret=dict(options.osparams_secret or {}),
        os_type=options.os,
        force_variant=options.force_variant,
        tags=typed.CommaList(options.tags) or [],
        start=options.start and not options.no_install,
        no_install=options.no_install,
        opportunistic_locking=options.opportunistic_locking,
        ignore_ipolicy=options.ignore_ipolicy,
        forthcoming=options.forthcoming,
        commit=options.commit,
        instance_communication=bool(options.instance_communication),
        helper_startup_timeout=options.helper_startup_timeout,
        helper_shutdown_timeout=options.helper_shutdown_timeout,
    )


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(MakeOpCode(options, arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Creates and adds a new instance to the cluster",
    (One("host"),),
    (
        *o.SET_CREATE,
        o.FORTHCOMING,
        o.COMMIT,
        o.NO_START,
        o.OS_TYPE,
        o.FORCE_VARIANT,
        o.NO_INSTALL,
        o.IGNORE_IPOLICY,
        o.COMMUNICATION,
        o.HELPER_STARTUP_TIMEOUT,
        o.HELPER_SHUTDOWN_TIMEOUT,
    ),
)
