"""gnt-instance modify: changes parameters, disks and NICs of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import constants
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import COMPLETE_NODE, Flag, Off, Options, Value
from ganeti.client.gnt_instance.options import COMMUNICATION, FORCE_VARIANT, HVPARAMS
from ganeti.client.shared import devices, typed
from ganeti.client.shared.changes import PrintChanges
from ganeti.opcodes import OpInstanceSetParams

RUNTIME_MEMORY = Value(
    "-m", "--runtime-memory", dest="runtime_mem", type="unit", metavar="SIZE",
    text="Ask the running guest to use this much memory, between minmem and maxmem",
)  # fmt: skip
REMOTE_NODE = Value(
    "-n", "--node", dest="remote_node", metavar="NODE", completion=COMPLETE_NODE,
    text="Secondary node, for a conversion to drbd",
)  # fmt: skip
NEW_PRIMARY = Value(
    "--new-primary", dest="pnode", metavar="NODE", completion=COMPLETE_NODE,
    text="Record another primary node; only for disks that both nodes have, and only while the instance is stopped",
)  # fmt: skip
OFFLINE = Flag("--offline", dest="offline_inst", text="Mark the stopped instance offline, so that it cannot be started")
ONLINE = Flag("--online", dest="online_inst", text="Undo --offline; the instance stays stopped")
NO_HOTPLUG = Off("--no-hotplug", dest="hotplug", text="Apply changes of disks and NICs at the next start")
EXT_PARAMS = Value(
    "-e", "--ext-params", dest="ext_params", type="keyval", default={}, metavar="provider=NAME[,KEY=VALUE,...]",
    text="Provider and its parameters, for a conversion to ext",
)  # fmt: skip

# Options of which at least one has to be given.
_RELEVANT = (
    "nics", "disks", "disk_template", "hvparams", "beparams", "os_type", "osparams", "osparams_private", "offline_inst",
    "online_inst", "runtime_mem", "pnode",
)  # fmt: skip

_TEMPLATE_HELP = (
    "Convert all disks of the stopped instance to this kind of storage; with '--disk add' the kind of the first disks of an"
    " instance without any"
)
_NIC_QUESTION = "The NIC will be removed from the running instance and added again with the new settings. Continue?"


def _WrongCombination(options: Options) -> str | None:
    """Return what is wrong with options that belong together."""
    from ganeti.params import disk as disk_params

    providers, files = disk_params.With(provider=True), sorted(disk_params.With(file_based=True))
    if options.disk_template in providers and not options.ext_params.get("provider"):
        return f"A conversion to {options.disk_template} needs the provider of the disks: --ext-params provider=NAME"
    if options.ext_params and options.disk_template not in providers:
        return f"--ext-params is only allowed with --disk-template {', '.join(sorted(providers))}"
    if (options.file_driver or options.file_storage_dir) and options.disk_template not in files:
        return f"--file-driver and --file-storage-dir are only allowed with --disk-template {', '.join(files)}"
    return None


def _MakeOpCode(options: Options, name: str, nics: list[Any]) -> OpInstanceSetParams:
    return jobs.FromOptions(
        OpInstanceSetParams,
        options,
        instance_name=name,
        nics=nics,
        disks=devices.DiskChanges(options),
        hvparams=typed.Hypervisor(options.hvparams, allowed=typed.RESET),
        beparams=typed.Backend(options.beparams, allowed=typed.RESET),
        os_name=options.os_type,
        # --offline wins if both are given, as in 3.1.
        offline=True if options.offline_inst else False if options.online_inst else None,
    )


def _TakesEffectLater(changes: Sequence[Sequence[Any]]) -> bool:
    """Whether a change is not in force yet, as far as the master's answer shows."""
    items = [str(item) for item, _ in changes]
    if any(item.startswith(("be/", "hv/")) for item in items):
        return True
    devices_changed = any(item.lower().startswith(("nic", "disk")) and item != "disk_template" for item in items)
    outcomes = [value for _, value in changes if value in ("hotplug:done", "hotplug:failed")]
    return devices_changed and (not outcomes or "hotplug:failed" in outcomes)


def _PrintAdvice(options: Options, changes: Sequence[Sequence[Any]]) -> None:
    if _TakesEffectLater(changes):
        output.ToStdout(
            "Changes that are not hot-plugged take effect at the instance's next start by the cluster; a reboot from inside"
            " the guest is not enough."
        )
    if options.hvparams:
        output.ToStdout(
            "Do not migrate a running instance before that: the other node would use the new hypervisor parameters, and the"
            " guest may crash."
        )
    if options.runtime_mem is not None:
        output.ToStdout(
            "The guest was asked to change its memory; it does so only if it has a balloon driver. 'gnt-instance list' shows"
            " the memory that it uses."
        )


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    given = any(getattr(options, dest) not in (None, False, {}, []) for dest in _RELEVANT)
    if not given and options.instance_communication is None:
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    problem = _WrongCombination(options)
    if problem:
        output.ToStderr(problem)
        return constants.EXIT_FAILURE
    nics = devices.NicChanges(options)
    for action, _, _ in nics:
        if action == "modify" and options.hotplug and not options.force and not ask.Confirmed(_NIC_QUESTION, "--force"):
            return constants.EXIT_FAILURE
    changes = jobs.SubmitOrSend(_MakeOpCode(options, name, nics), options)
    if PrintChanges("instance", name, changes):
        _PrintAdvice(options, changes)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Change parameters, disks and NICs of an instance",
    (One("instance"),),
    (
        o.FORCE.But(help="Do not ask for confirmation, and treat failed checks of memory, bridges and the OS as warnings"),
        o.DISK.But(
            metavar="CHANGE[:KEY=VALUE,...]", grammar="disk-change", help="Change of a disk; repeat it for several disks"
        ),
        o.NET.But(metavar="CHANGE[:KEY=VALUE,...]", grammar="net-change", help="Change of a NIC; repeat it for several NICs"),
        o.BACKEND, HVPARAMS, RUNTIME_MEMORY, NO_HOTPLUG,
        o.DISK_TEMPLATE.But(help=_TEMPLATE_HELP), REMOTE_NODE, EXT_PARAMS,
        o.FILE_DRIVER, o.FILE_STORAGE_DIR, o.NO_WAIT_FOR_SYNC, o.IGNORE_IPOLICY, o.NO_CONFLICTS_CHECK,
        o.OS_TYPE.But(help="Record another operating system; nothing is installed"), FORCE_VARIANT, o.OS_PARAMETERS,
        o.OS_PARAMETERS_PRIVATE, OFFLINE, ONLINE, NEW_PRIMARY, o.IALLOCATOR, COMMUNICATION, *o.SET_JOB,
    ),
    details="The value 'default' resets a backend or hypervisor parameter, so that it is inherited from the cluster again.",
)  # fmt: skip
