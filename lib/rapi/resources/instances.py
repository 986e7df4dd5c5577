"""Instances: what is shown of them, their creation, change and removal; what is done with one: ``operations``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, ht, opcodes
from ganeti.rapi.declared import BodyUse, Etag, Job, Method, Resource, Role, Scope
from ganeti.rapi.requests import bodies
from ganeti.rapi.requests.call import Call, HttpError
from ganeti.rapi.resources import examples
from ganeti.rapi.resources.common import (
    BULK,
    LOCK,
    OBJECT_TYPES,
    READ_OR_WRITE,
    Cells,
    Flag,
    JobMethod,
    Listed,
    ListOrBulk,
    Single,
    StrictAnswer,
    TMaybeInt,
    TMaybeText,
    TMaybeTexts,
    TNames,
)

UNAVAILABLE = 503
_NIC_LISTS = ("ips", "macs", "modes", "links", "bridges", "uuids", "names", "networks", "networks.names")

TYPES: dict[str, ht.Type] = {
    # A reservation may lack everything but its UUID and serial number.
    "name": ht.TMaybe(ht.TNonEmptyString),
    "os": TMaybeText,
    "pnode": TMaybeText,
    "snodes": TNames,
    "disk_template": TMaybeText,
    "admin_state": ht.TMaybe(ht.TElemOf(sorted(constants.ADMINST_ALL))),
    "status": ht.TString,
    "oper_state": ht.TMaybe(ht.TBool),
    "oper_ram": TMaybeInt,
    "oper_vcpus": TMaybeInt,
    **dict.fromkeys((f"nic.{name}" for name in _NIC_LISTS), TMaybeTexts),
    "disk.sizes": ht.TListOf(TMaybeInt),
    "disk.spindles": ht.TListOf(TMaybeInt),
    **dict.fromkeys(("disk.uuids", "disk.names"), TMaybeTexts),
    "disk_usage": ht.TInt,
    **dict.fromkeys(("beparams", "hvparams", "custom_beparams", "custom_hvparams", "custom_osparams"), ht.TDict),
    "custom_nicparams": ht.TListOf(ht.TDict),
    "network_port": TMaybeInt,
    **OBJECT_TYPES,
}
FIELDS = tuple(TYPES)
TInstance = StrictAnswer(TYPES)


def _WithMemory(shown: dict[str, Any]) -> dict[str, Any]:
    """Add the name that ``maxmem`` had in older releases."""
    beparams = shown["beparams"]
    return {**shown, "beparams": {**beparams, "memory": beparams["maxmem"]}}


def Name(call: Call) -> dict[str, Any]:
    return {"instance_name": call.names["name"]}


# --- creation ---------------------------------------------------------------------------------------------------------

_VERSION = "__version__"
_CREATE_ALIASES = {"name": "instance_name", "os": "os_type"}
_EXAMPLE = {
    "instance_name": "web1.example.com",
    "mode": "create",
    "os_type": "debian+minimal",
    "disk_template": "drbd",
    "disks": [{"size": "10g"}],
    "nics": [{"link": "br0"}],
    "pnode": "node1.example.com",
    "snode": "node2.example.com",
    "beparams": {"memory": "2g", "vcpus": 2},
}
_MULTI_EXAMPLE = {
    "instances": [{k: v for k, v in _EXAMPLE.items() if k not in ("pnode", "snode")}],
    "iallocator": "hail",
}


def FixUsbDevices(_call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Accept blanks between USB devices, where the hypervisor wants commas."""
    fixed = dict(given)
    for name in ("hvparams", "custom_hvparams"):
        hvparams = given.get(name)
        if isinstance(hvparams, dict) and isinstance(devices := hvparams.get("usb_devices"), str):
            fixed[name] = {**hvparams, "usb_devices": devices.replace(" ", ",")}
    return fixed


def _ReadCreation(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    return FixUsbDevices(call, {name: value for name, value in given.items() if name != _VERSION})


_ONE_OF_MANY = Job(
    opcodes.OpInstanceCreate,
    aliases=_CREATE_ALIASES,
    # Only a job's own parameters are kept out of its file.
    forbidden=tuple(name for name, spec in opcodes.OpInstanceCreate.OP_PARAMS.items() if spec.private),
    static_names=("dry_run", "reason"),
)


def _ReadAllocation(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Turn each instance of the body into the opcode that creates it."""
    instances = [_OneOfMany(call, number, item) for number, item in enumerate(given["instances"])]
    return {**given, "instances": instances}


def _OneOfMany(call: Call, number: int, item: dict[str, Any]) -> Mapping[str, Any]:
    try:
        return bodies.Opcode(_ONE_OF_MANY, FixUsbDevices(call, item), {}).ToDict()
    except HttpError as err:
        raise HttpError(err.code, f"parameter 'instances', item {number}: {err}") from err


# --- console ----------------------------------------------------------------------------------------------------------

_TConsole = ht.TStrictDict(
    {"instance": ht.TString, "kind": ht.TElemOf(["ssh", "vnc", "spice", "msg"])},
    {
        "host": ht.TString,
        "port": ht.TInt,
        "user": ht.TString,
        "command": TNames,
        "display": ht.TInt,
        "message": ht.TString,
    },
)


async def _Console(call: Call) -> Any:
    name = call.names["name"]
    (status, console), (_, running) = await Cells(call, "instance", ["console", "oper_state"], call.target)
    if status != constants.RS_NORMAL:
        why = "its node does not answer" if running or running is None else "it is not running"
        raise HttpError(UNAVAILABLE, f"Instance '{name}' has no console at the moment: {why}")
    return console


_STATIC = Flag("static", "only what the configuration has; no node is asked")

RESOURCES = (
    Resource(
        "/2/instances",
        "All instances.",
        {
            "GET": Method(
                Listed("QueryInstances", "/2/instances", FIELDS, shown_as="id", change=_WithMemory),
                "List the instances.",
                Role.READ,
                answer=ListOrBulk("id", TInstance),
                scope=Scope.LIST,
                answer_example=examples.INSTANCE_LINKS,
                etag=Etag.WHOLE,
                arguments=(BULK, LOCK),
            ),
            "POST": JobMethod(
                opcodes.OpInstanceCreate,
                "Create an instance.  The job returns the names of its nodes.",
                body=BodyUse.REQUIRED,
                body_type=ht.TStrictDict({_VERSION: ht.TValue(1)}, {}, others=ht.TAny),
                example={_VERSION: 1, **_EXAMPLE},
                dry_run_fixed=True,
                aliases=_CREATE_ALIASES,
                reads=_ReadCreation,
            ),
        },
    ),
    Resource(
        "/2/instances-multi-alloc",
        "Several new instances at once.",
        {
            "POST": JobMethod(
                opcodes.OpInstanceMultiAlloc,
                "Find nodes for several instances, and create them.  Each item of `instances` is a request to create one,"
                f" without `{_VERSION}`.  The job returns the numbers of the jobs that create them.",
                body=BodyUse.REQUIRED,
                body_type=ht.TStrictDict({"instances": ht.TListOf(ht.TDict)}, {}, others=ht.TAny),
                example=_MULTI_EXAMPLE,
                dry_run_fixed=True,
                reads=_ReadAllocation,
            )
        },
    ),
    Resource(
        "/2/instances/{name}",
        "One instance.",
        {
            "GET": Method(
                Single("instance", FIELDS, _WithMemory),
                "Show an instance.  Sizes are in MiB; `oper_` values are null while its node does not answer.",
                Role.READ,
                answer=TInstance,
                scope=Scope.INSTANCE,
                answer_example=examples.INSTANCE,
                etag=Etag.OBJECT,
                arguments=(LOCK,),
            ),
            "DELETE": JobMethod(
                opcodes.OpInstanceRemove,
                "Stop and remove an instance and its disks.",
                static=lambda call: {**Name(call), "ignore_failures": False},
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                example={"shutdown_timeout": 60},
            ),
        },
    ),
    Resource(
        "/2/instances/{name}/info",
        "Everything about one instance.",
        {
            "GET": JobMethod(
                opcodes.OpInstanceQueryData,
                "Collect details of an instance, its disks and NICs.  The job returns `{NAME: details}`.",
                role=Role.READ,
                scope=Scope.INSTANCE,
                static=lambda call: {"instances": [call.target], "static": call.arguments[_STATIC.name]},
                arguments=(_STATIC,),
            )
        },
    ),
    Resource(
        "/2/instances/{name}/modify",
        "Settings of an instance.",
        {
            "PUT": JobMethod(
                opcodes.OpInstanceSetParams,
                "Change parameters, NICs and disks.  The job returns what was changed.",
                static=Name,
                body=BodyUse.REQUIRED,
                aliases={"custom_beparams": "beparams", "custom_hvparams": "hvparams"},
                reads=FixUsbDevices,
                example={"beparams": {"maxmem": "4g"}, "nics": [["add", -1, {"link": "br1"}]]},
            )
        },
    ),
    Resource(
        "/2/instances/{name}/console",
        "The console of an instance.",
        {
            "GET": Method(
                _Console,
                "Say how to reach the console: by `ssh`, `vnc` or `spice`; `msg` explains why there is none.  503 if the"
                " instance is not running.",
                Role.OPERATE,
                answer=_TConsole,
                scope=Scope.INSTANCE,
                answer_example=examples.CONSOLE,
                access=READ_OR_WRITE,
            )
        },
    ),
)
