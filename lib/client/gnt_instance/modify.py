"""gnt-instance modify: parameters, disks and NICs of an instance."""

from __future__ import annotations

from typing import Any

from ganeti import constants
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import devices, typed
from ganeti.client.shared.changes import PrintChanges
from ganeti.opcodes import OpInstanceSetParams

# Options of which at least one has to be given.
_RELEVANT = (
    "nics",
    "disks",
    "disk_template",
    "hvparams",
    "beparams",
    "os",
    "osparams",
    "osparams_private",
    "offline_inst",
    "online_inst",
    "runtime_mem",
    "new_primary_node",
    "instance_communication",
)


def _Offline(options: Options) -> bool | None:
    if options.offline_inst:  # it wins when both are given (spec/cli.md 8)
        return True
    return False if options.online_inst else None


def _WrongCombination(options: Options) -> str | None:
    """What is wrong with options that belong together, as a text."""
    if options.disk_template == constants.DT_EXT and not options.ext_params.get("provider"):
        return "Please give the provider of the disks by --ext-params provider=..."
    if options.ext_params and options.disk_template != constants.DT_EXT:
        return "--ext-params makes sense with --disk-template ext only"
    files = (constants.DT_FILE, constants.DT_SHARED_FILE, constants.DT_GLUSTER)
    if (options.file_driver or options.file_storage_dir) and options.disk_template not in files:
        return "--file-driver and --file-storage-dir need a file-based --disk-template"
    return None


def _MakeOpCode(options: Options, name: str, nics: list[Any]) -> OpInstanceSetParams:
    return OpInstanceSetParams(
        instance_name=name,
        nics=nics,
        disks=devices.DiskChanges(options),
        hotplug=options.hotplug,
        disk_template=options.disk_template,
        ext_params=dict(options.ext_params),
        file_driver=options.file_driver,
        file_storage_dir=options.file_storage_dir,
        remote_node=options.node,
        iallocator=options.iallocator,
        pnode=options.new_primary_node,
        hvparams=typed.Hypervisor(options.hvparams or {}, allowed=typed.RESET),
        beparams=typed.Backend(options.beparams or {}, allowed=typed.RESET),
        runtime_mem=options.runtime_mem,
        os_name=options.os,
        osparams=dict(options.osparams or {}),
        osparams_private=dict(options.osparams_private or {}),
        force_variant=options.force_variant,
        force=options.force,
        wait_for_sync=options.wait_for_sync,
        offline=_Offline(options),
        conflicts_check=options.conflicts_check,
        ignore_ipolicy=options.ignore_ipolicy,
        instance_communication=options.instance_communication,
    )


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    if not any(getattr(options, dest) not in (None, False, {}, []) for dest in _RELEVANT):
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    problem = _WrongCombination(options)
    if problem:
        output.ToStderr(problem)
        return constants.EXIT_FAILURE
    nics = devices.NicChanges(options)
    question = "The running instance loses this NIC for a moment and gets it again with the new settings. Continue?"
    for action, _, _ in nics:
        if action == "modify" and options.hotplug and not options.force and not ask.Confirmed(question):
            return constants.EXIT_FAILURE
    result = jobs.SubmitOrSend(_MakeOpCode(options, name, nics), options)
    if PrintChanges("instance", name, result):
        output.ToStdout(
            "Most changes take effect when the instance is stopped and started by the cluster the next time; a reboot from inside does not do it."
        )
        if options.hvparams:
            output.ToStdout(
                "Until then do not migrate it: the other node would start it with the new hypervisor parameters, and it may crash."
            )
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Alters the parameters of an instance",
    (One("instance"),),
    (
        o.BACKEND,
        o.DISK,
        o.FORCE,
        o.HVPARAMS,
        o.NET,
        o.DISK_TEMPLATE,
        o.SINGLE_NODE,
        o.IALLOCATOR,
        o.OS_TYPE,
        o.FORCE_VARIANT,
        o.OS_PARAMETERS,
        o.OS_PARAMETERS_PRIVATE,
        o.NO_WAIT_FOR_SYNC,
        o.OFFLINE_INSTANCE,
        o.ONLINE_INSTANCE,
        o.IGNORE_IPOLICY,
        o.RUNTIME_MEMORY,
        o.NO_CONFLICTS_CHECK,
        o.NEW_PRIMARY,
        o.NO_HOTPLUG,
        o.COMMUNICATION,
        o.EXT_PARAMS,
        o.FILE_DRIVER,
        o.FILE_STORAGE_DIR,
        *o.SET_JOB,
    ),
)
