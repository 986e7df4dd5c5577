"""What is done with an instance: its state, its place, its disks, its name, its backups."""

from __future__ import annotations

import re
from typing import Any

from ganeti import ht, opcodes
from ganeti.rapi.declared import Argument, ArgumentKind, BodyUse, Resource, Role, Scope
from ganeti.rapi.requests.bodies import BAD_REQUEST
from ganeti.rapi.requests.call import Call, HttpError
from ganeti.rapi.resources import tags
from ganeti.rapi.resources.common import FORCE, Flag, JobMethod
from ganeti.rapi.resources.instances import Name

_NO_REMEMBER = Flag("no_remember", "leave the wanted state as it is; the watcher may undo this")
_REBOOT_TYPE = Argument("type", ArgumentKind.TEXT, "`hard` (the default), `soft` or `full`")
_IGNORE_SECONDARIES = Flag("ignore_secondaries", "start although disks of the secondary node fail")
_IGNORE_SIZE = Flag("ignore_size", "do not trust the recorded size of the disks")
_EXPORT_MODE = Argument("mode", ArgumentKind.TEXT, "`local` or `remote`", required=True)


def _Flags(*flags: Argument) -> Any:
    """Return a function for parameters that have the names of these arguments."""
    return lambda call: {**Name(call), **{flag.name: call.arguments[flag.name] for flag in flags}}


def _Reboot(call: Call) -> dict[str, Any]:
    kind = call.arguments[_REBOOT_TYPE.name]
    return {**_Flags(_IGNORE_SECONDARIES)(call), "reboot_type": "hard" if kind is None else kind}


def _Disk(call: Call) -> dict[str, Any]:
    return {**Name(call), "disk": int(call.names["index"])}


# --- replacing disks --------------------------------------------------------------------------------------------------

_REPLACE = tuple(
    Argument(name, ArgumentKind.TEXT, f"old form of `{name}` in the body")
    for name in ("remote_node", "mode", "disks", "iallocator")
)


_TDisks = opcodes.OpInstanceReplaceDisks.OP_PARAMS["disks"].type
_TReplacement = ht.TStrictDict({}, {"disks": ht.TOr(_TDisks, ht.TString)}, others=ht.TAny)


def _ReadReplacement(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Take the query string's old form if there is no body; disks may be a text such as ``0, 1``."""
    if not given:
        given = {a.name: call.arguments[a.name] for a in _REPLACE if call.arguments[a.name] is not None}
    disks = given.get("disks")
    if isinstance(disks, str):
        given = {**given, "disks": _DiskNumbers(disks)}
    return given


def _DiskNumbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise HttpError(
            BAD_REQUEST, f"Invalid disk index passed in parameter 'disks': expected numbers, got '{text[:40]}'"
        )
    return [int(part) for part in parts]


# --- reinstallation ---------------------------------------------------------------------------------------------------

_OS = Argument("os", ArgumentKind.TEXT, "old form of `os` in the body")
_NO_STARTUP = Argument("nostartup", ArgumentKind.FLAG, "old form of `start` in the body: 1 leaves the instance stopped")
_TReinstall = ht.TStrictDict({}, {"start": ht.TBool}, others=ht.TAny)
_OF_ALL_STEPS = ("instance_name", "instance_uuid", "dry_run", "debug_level", "priority", "comment", "reason")
_OF_FIRST_STEP = ("depends",)
_UNTIL_STOPPED = ("if_match",)


def _Given(call: Call) -> dict[str, Any]:
    return call.body if isinstance(call.body, dict) else {}


def _ReadReinstallation(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Take the query string's old form if there is no body; ``start`` is for the steps."""
    old = [argument.name for argument in (_OS, _NO_STARTUP) if call.arguments[argument.name] is not None]
    if given and old:
        raise HttpError(BAD_REQUEST, f"Can't combine query and body parameters: leave out {' and '.join(old)}")
    if not given:
        given = {"os": call.arguments[_OS.name]}
    return {name: value for name, value in given.items() if name != "start"}


def _ReinstallationSteps(call: Call, installation: opcodes.OpCode) -> list[opcodes.OpCode]:
    """Return the opcodes that check what is to be installed, stop an instance, install it again and start it.

    In a dry run nothing is stopped, so that the installation itself is the check.
    """
    given = vars(installation)
    common = {name: given[name] for name in _OF_ALL_STEPS if name in given}
    first = {name: given[name] for name in _OF_FIRST_STEP if name in given}
    bound = {name: given[name] for name in _UNTIL_STOPPED if name in given}
    installed = {name: value for name, value in given.items() if name not in {*first, *bound}}
    steps: list[opcodes.OpCode] = []
    if not given.get("dry_run"):
        steps.append(opcodes.OpInstanceReinstall(**{**installed, **first, **bound, "check_only": True}))
        first = {}
    steps += [opcodes.OpInstanceShutdown(**common, **first, **bound), opcodes.OpInstanceReinstall(**installed)]
    if _Given(call).get("start", not call.arguments[_NO_STARTUP.name]):
        steps.append(opcodes.OpInstanceStartup(**common, force=False))
    return steps


RESOURCES = (
    Resource(
        "/2/instances/{name}/reboot",
        "A running instance.",
        {
            "POST": JobMethod(
                opcodes.OpInstanceReboot,
                "Reboot: `soft` asks the guest, `hard` stops and starts it, `full` also restarts its disks.",
                role=Role.OPERATE,
                scope=Scope.INSTANCE,
                static=_Reboot,
                arguments=(_REBOOT_TYPE, _IGNORE_SECONDARIES),
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                example={"shutdown_timeout": 60},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/startup",
        "A stopped instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceStartup,
                "Start an instance.",
                role=Role.OPERATE,
                scope=Scope.INSTANCE,
                static=_Flags(FORCE, _NO_REMEMBER),
                arguments=(FORCE, _NO_REMEMBER),
                dry_run_fixed=True,
            )
        },
    ),
    Resource(
        "/2/instances/{name}/shutdown",
        "A running instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceShutdown,
                "Stop an instance.",
                role=Role.OPERATE,
                scope=Scope.INSTANCE,
                static=_Flags(_NO_REMEMBER),
                arguments=(_NO_REMEMBER,),
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                example={"timeout": 60},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/reinstall",
        "The operating system of an instance.",
        {
            "POST": JobMethod(
                opcodes.OpInstanceReinstall,
                "Check an operating system and its parameters; then stop an instance, install the system on its disks, and"
                " start it unless `start` is false.  Each step of a dry run is checked as things are, so that one of an"
                " instance that runs fails at the second.",
                static=Name,
                forbidden=("check_only",),
                aliases={"os": "os_type"},
                arguments=(_OS, _NO_STARTUP),
                body=BodyUse.OPTIONAL,
                body_type=_TReinstall,
                reads=_ReadReinstallation,
                steps=_ReinstallationSteps,
                example={"os": "debian+minimal", "start": True},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/replace-disks",
        "The mirrors of an instance's disks.",
        {
            "POST": JobMethod(
                opcodes.OpInstanceReplaceDisks,
                "Replace the disks of one side, or the secondary node.  `disks` may also be a text such as `0, 1`.",
                static=Name,
                arguments=_REPLACE,
                body=BodyUse.OPTIONAL,
                body_type=_TReplacement,
                reads=_ReadReplacement,
                example={"mode": "replace_new_secondary", "remote_node": "node3.example.com"},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/activate-disks",
        "The disks of an instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceActivateDisks,
                "Make the disks usable on the primary node.  The job returns node, name and device of each.",
                role=Role.OPERATE,
                scope=Scope.INSTANCE,
                static=_Flags(_IGNORE_SIZE),
                arguments=(_IGNORE_SIZE,),
            )
        },
    ),
    Resource(
        "/2/instances/{name}/deactivate-disks",
        "The disks of an instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceDeactivateDisks,
                "Shut the disks of a stopped instance down.",
                role=Role.OPERATE,
                scope=Scope.INSTANCE,
                static=_Flags(FORCE),
                arguments=(FORCE,),
            )
        },
    ),
    Resource(
        "/2/instances/{name}/recreate-disks",
        "The disks of an instance.",
        {
            "POST": JobMethod(
                opcodes.OpInstanceRecreateDisks,
                "Create disks that are lost again, empty; optionally on other nodes.",
                static=Name,
                body=BodyUse.OPTIONAL,
                example={"disks": [[0, {"size": 10240}]], "nodes": ["node1.example.com"]},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/disk/{index}/grow",
        "One disk of an instance.",
        {
            "POST": JobMethod(
                opcodes.OpInstanceGrowDisk,
                "Enlarge a disk by `amount` MiB, or to it if `absolute`.",
                static=_Disk,
                body=BodyUse.OPTIONAL,
                example={"amount": 1024},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/prepare-export",
        "An export to come.",
        {
            "PUT": JobMethod(
                opcodes.OpBackupPrepare,
                "Prepare an export.  For `remote` the job returns what the other cluster needs.",
                static=_Flags(_EXPORT_MODE),
                arguments=(_EXPORT_MODE,),
            )
        },
    ),
    Resource(
        "/2/instances/{name}/export",
        "A backup of an instance.",
        {
            "PUT": JobMethod(
                opcodes.OpBackupExport,
                "Export to a node (`destination` is its name) or to another cluster.",
                static=Name,
                body=BodyUse.OPTIONAL,
                aliases={"destination": "target_node"},
                example={"destination": "node2.example.com", "mode": "local"},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/migrate",
        "The primary node of a running instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceMigrate,
                "Migrate an instance without stopping it.",
                role=Role.OPERATE,
                scope=Scope.INSTANCE,
                static=Name,
                body=BodyUse.OPTIONAL,
                example={"mode": "live"},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/failover",
        "The primary node of an instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceFailover,
                "Stop an instance and start it on another node.",
                role=Role.OPERATE,
                scope=Scope.INSTANCE,
                static=Name,
                body=BodyUse.OPTIONAL,
                example={"ignore_consistency": False},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/rename",
        "The name of a stopped instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceRename,
                "Rename an instance.  The job returns the new name.",
                static=Name,
                body=BodyUse.OPTIONAL,
                example={"new_name": "web2.example.com"},
            )
        },
    ),
    tags.INSTANCE,
)
