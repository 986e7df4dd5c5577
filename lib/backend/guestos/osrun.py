"""Procedures that run an operating system's scripts (doc/reference/interfaces.md a.5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors, objects, pathutils, runtime
from ganeti.backend import wire
from ganeti.backend.guestos import osdef, osenv
from ganeti.backend.guestos.osdef import OsDefinition
from ganeti.utils import definitions, owndirs

Dict = dict[str, Any]

_CHECKED_SCRIPTS = (osdef.EXPORT, osdef.IMPORT)

_SCRIPT_SECONDS = 86400.0
_VERIFY_SECONDS = 300.0
_UMASK = 0o022


def Add(instance_osp: Dict, reinstall: bool, debug: int) -> None:
    """Run the create script (instance_os_add)."""
    instance = wire.Instance(instance_osp)
    found = osdef.Load(instance.os)
    _CheckTrusted(found)
    extra = {"INSTANCE_REINSTALL": "1"} if reinstall else {}
    _RunScript(found, osdef.CREATE, "add", instance, instance.name, debug, extra)


def _CheckTrusted(found: OsDefinition) -> None:
    """Raise OsError for a system whose script must not run here (doc/design-install.rst)."""
    if not found.trusted:
        raise osdef.OsError(
            f"OS {found.name} has a script '{osdef.CREATE_UNTRUSTED}' now, so it is installed in a helper VM and never on a node; "
            "repeat the command"
        )


def RunRename(instance: Dict, old_name: str, debug: int) -> None:
    """Run the OS script that gives the guest's system its new name (instance_run_rename)."""
    guest = wire.Instance(instance)
    found = osdef.Load(guest.os)
    extra = {"OLD_INSTANCE_NAME": old_name}
    _RunScript(found, osdef.RENAME, "rename", guest, f"{old_name}-{guest.name}", debug, extra)


def _RunScript(
    found: OsDefinition,
    script: str,
    kind: str,
    instance: objects.Instance,
    log_name: str,
    debug: int,
    extra: Mapping[str, str],
) -> None:
    path = found.Script(script)
    found.CheckHypervisor(instance.hypervisor)
    env = osenv.ForInstance(found, instance, debug, extra)
    log = LogPath(kind, instance.os, log_name)
    result = runtime.RunCmd([path], env=env, cwd=found.path, umask=_UMASK, output_path=log, timeout=_SCRIPT_SECONDS)
    if result.failed:
        logging.error("OS %s script of %s failed: %s; log: %s", script, instance.name, result.fail_reason, log)
        raise errors.RpcCallError(
            f"OS {script} script failed ({result.fail_reason}), last lines in the log file {log}:\n{definitions.Tail(log)}"
        )


def LogPath(kind: str, os_name: str, name: str, component: str | None = None) -> str:
    """Return a new log file's path; its directory is made."""
    owndirs.MakeOwn(pathutils.LOG_OS_DIR, 0o750)
    safe = [part.replace("/", "_") for part in (os_name, name)]
    return pathutils.OsLog(kind, safe[0], safe[1], component, definitions.LogStamp())


def TransferCommand(
    kind: str, instance: objects.Instance, disk: objects.Disk, index: int, debug: int = 0
) -> tuple[str, dict[str, str]]:
    """Return (shell fragment, environment) of an import or export script for one disk.

    ``kind``: osdef.IMPORT or osdef.EXPORT; ``disk`` is what is read or written (for exports the snapshot), ``index``
    its number in the instance.  The fragment stands in the pipeline of doc/reference/interfaces.md f.1.
    """
    found = osdef.Load(instance.os)
    script = found.Script(kind)
    found.CheckHypervisor(instance.hypervisor)
    device = osenv.OpenDisk(disk)
    prefix = kind.upper()
    extra = {f"{prefix}_INDEX": str(index)}
    if device.dev_path:
        extra[f"{prefix}_DEVICE"] = extra[f"{prefix}_DISK_PATH"] = device.dev_path
    uri = device.UserspaceUri(instance.hypervisor)
    if uri:
        extra[f"{prefix}_DISK_URI"] = uri
    fragment = f"( cd {runtime.ShellQuote(found.path)} && {runtime.ShellQuote(script)}; )"
    return fragment, osenv.ForInstance(found, instance, debug, extra)


# --- checks -----------------------------------------------------------------------------------------------------------


def Validate(required: bool, name: str, checks: list[str], params: Dict, force_variant: bool) -> bool:
    """Return true, or false when the OS is not there and need not be; anything wrong is an error (os_validate).

    ``checks``: constants.OS_CHECK_PARAMETERS; the name of a script: that there is one.
    """
    unknown = set(checks) - {constants.OS_CHECK_PARAMETERS, *_CHECKED_SCRIPTS}
    if unknown:
        raise errors.RpcCallError(f"Unknown checks {', '.join(sorted(unknown))} for OS {name}")
    try:
        found = osdef.Load(name)
    except osdef.OsError:
        if required:
            raise
        return False
    variant = osdef.SplitName(name)[1]
    if force_variant:
        found.CheckForced(variant)
    else:
        found.CheckVariant(variant)
    for script in _CHECKED_SCRIPTS:
        if script in checks:
            found.Script(script)
    if constants.OS_CHECK_PARAMETERS in checks and max(found.api_versions) >= constants.OS_API_V20:
        _ValidateParameters(found, name, params)
    return True


def _ValidateParameters(found: OsDefinition, name: str, params: Dict) -> None:
    unknown = sorted(set(params) - set(found.parameter_names))
    if unknown:
        known = ", ".join(found.parameter_names) or "none"
        raise osdef.OsError(
            f"The following parameters are not supported by the OS {found.name}: {', '.join(unknown)}; it has {known}"
        )
    if osdef.VERIFY not in found.scripts:
        if params:
            found.Script(osdef.VERIFY)
        return
    result = runtime.RunCmd(
        [found.Script(osdef.VERIFY), constants.OS_CHECK_PARAMETERS],
        env=osenv.Core(found, name, params),
        cwd=found.path,
        umask=_UMASK,
        timeout=_VERIFY_SECONDS,
    )
    if result.failed:
        logging.error("OS validate of parameters of %s failed: %s", found.name, result.output)
        output = result.output.strip() or result.fail_reason
        raise osdef.OsError(f"OS validation script of {found.name} failed: {output}")


HANDLERS = {
    "instance_os_add": Add,
    "instance_run_rename": RunRename,
    "os_validate": Validate,
}
