"""Nodes."""

from __future__ import annotations

from typing import Any

from ganeti import ht, opcodes
from ganeti.params.disk import UnitTypes
from ganeti.rapi.declared import WRITE, Argument, ArgumentKind, BodyUse, Etag, Method, Resource, Role
from ganeti.rapi.requests.bodies import BAD_REQUEST
from ganeti.rapi.requests.call import Answer, Call, HttpError
from ganeti.rapi.resources import examples, tags
from ganeti.rapi.resources.common import (
    BULK,
    FORCE,
    LOCK,
    OBJECT_TYPES,
    CheckLock,
    Flag,
    JobMethod,
    Listed,
    ListOrBulk,
    One,
    Single,
    StrictAnswer,
    TMaybeInt,
    TNames,
)

_TYPES: dict[str, ht.Type] = {
    "name": ht.TNonEmptyString,
    **dict.fromkeys(("offline", "master_candidate", "drained", "master_capable", "vm_capable"), ht.TBool),
    "role": ht.TElemOf(["M", "C", "R", "D", "O"]),
    **dict.fromkeys(("dtotal", "dfree", "sptotal", "spfree", "mtotal", "mnode", "mfree"), TMaybeInt),
    **dict.fromkeys(("ctotal", "cnos", "cnodes", "csockets"), TMaybeInt),
    **dict.fromkeys(("pip", "sip", "group.uuid"), ht.TString),
    **dict.fromkeys(("pinst_cnt", "sinst_cnt"), ht.TInt),
    **dict.fromkeys(("pinst_list", "sinst_list"), TNames),
    "ndparams": ht.TDict,
    **OBJECT_TYPES,
}
FIELDS = tuple(_TYPES)
TNode = StrictAnswer(_TYPES, secondary_ip=ht.TString)
TBulkNode = StrictAnswer(_TYPES)


def _WithSecondaryIp(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "secondary_ip": shown["sip"]}


# --- roles ------------------------------------------------------------------------------------------------------------

_ROLES = {"M": "master", "C": "master-candidate", "R": "regular", "D": "drained", "O": "offline"}
_FLAGS: dict[str, dict[str, bool]] = {
    "regular": {"master_candidate": False, "offline": False, "drained": False},
    "master-candidate": {"master_candidate": True},
    "drained": {"drained": True},
    "offline": {"offline": True},
}
_TRole = ht.Type(
    "role",
    lambda value: isinstance(value, str) and value in _FLAGS,
    {"enum": list(_FLAGS)},
    f"a role that can be set: {', '.join(_FLAGS)}",
)
_AUTO_PROMOTE = Flag("auto-promote", "make other nodes master candidates so that enough remain")


async def _Role(call: Call) -> Answer:
    CheckLock(call)
    shown = await One(call, "node", ["role", "uuid", "serial_no"], call.names["name"])
    return Answer(_ROLES[shown["role"]], version=(shown["uuid"], shown["serial_no"]))


def _SetRole(call: Call) -> dict[str, Any]:
    if not _TRole(call.body):
        raise HttpError(BAD_REQUEST, f"The body must be {_TRole.words}")
    arguments = call.arguments
    return {
        **_Name(call),
        **_FLAGS[call.body],
        "force": arguments[FORCE.name],
        "auto_promote": arguments[_AUTO_PROMOTE.name],
    }


# --- jobs -------------------------------------------------------------------------------------------------------------

_LIVE = Argument("live", ArgumentKind.FLAG, "old form of the body: 0 is `non-live`")
_MODE = Argument("mode", ArgumentKind.TEXT, "old form of the body: `live` or `non-live`")
_UNIT_TYPE = Argument("storage_type", ArgumentKind.TEXT, ", ".join(f"`{name}`" for name in UnitTypes()))
_OUTPUT_FIELDS = Argument(
    "output_fields",
    ArgumentKind.FIELDS,
    "some of `name`, `size`, `used`, `free`, `node`, `type`, `allocatable`",
    required=True,
)
_UNIT = Argument("name", ArgumentKind.TEXT, "the storage unit", required=True)
_NEEDED_TYPE = Argument("storage_type", ArgumentKind.TEXT, "kind of the storage unit", required=True)
_ALLOCATABLE = Argument("allocatable", ArgumentKind.FLAG, "whether new volumes may be put there")


def _Name(call: Call) -> dict[str, Any]:
    return {"node_name": call.names["name"]}


def _Forced(call: Call) -> dict[str, Any]:
    return {**_Name(call), "force": call.arguments[FORCE.name]}


def _ReadMigration(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Let the query string's old form take the place of the body."""
    live, mode = call.arguments[_LIVE.name], call.arguments[_MODE.name]
    if live is not None and mode is not None:
        raise HttpError(BAD_REQUEST, "Only one of 'live' and 'mode' can be given")
    if live is not None:
        return {"mode": "live" if live else "non-live"}
    return given if mode is None else {"mode": mode}


def _Storage(call: Call) -> dict[str, Any]:
    arguments = call.arguments
    return {
        "nodes": [call.names["name"]],
        "storage_type": arguments[_UNIT_TYPE.name],
        "output_fields": arguments[_OUTPUT_FIELDS.name],
    }


def _Unit(call: Call) -> dict[str, Any]:
    arguments = call.arguments
    return {**_Name(call), "storage_type": arguments[_NEEDED_TYPE.name], "name": arguments[_UNIT.name]}


def _UnitChanges(call: Call) -> dict[str, Any]:
    allocatable = call.arguments[_ALLOCATABLE.name]
    return {**_Unit(call), "changes": {} if allocatable is None else {"allocatable": bool(allocatable)}}


RESOURCES = (
    Resource(
        "/2/nodes",
        "All nodes.",
        {
            "GET": Method(
                Listed("QueryNodes", "/2/nodes", FIELDS, shown_as="id"),
                "List the nodes.",
                Role.READ,
                answer=ListOrBulk("id", TBulkNode),
                answer_example=examples.NODE_LINKS,
                etag=Etag.WHOLE,
                arguments=(BULK, LOCK),
            )
        },
    ),
    Resource(
        "/2/nodes/{name}",
        "One node.",
        {
            "GET": Method(
                Single("node", FIELDS, _WithSecondaryIp),
                "Show a node.  Sizes are in MiB; numbers that the node reports itself are null while it does not answer.",
                Role.READ,
                answer=TNode,
                answer_example=examples.NODE,
                etag=Etag.OBJECT,
                arguments=(LOCK,),
            )
        },
    ),
    Resource(
        "/2/nodes/{name}/role",
        "The role of a node.",
        {
            "GET": Method(
                _Role,
                "Show the role.",
                Role.READ,
                answer=ht.TElemOf(list(_ROLES.values())),
                answer_example="master-candidate",
                arguments=(LOCK,),
                etag=Etag.OBJECT,
            ),
            "PUT": JobMethod(
                opcodes.OpNodeSetParams,
                "Set the role: `regular`, `master-candidate`, `drained` or `offline`.  The job returns the changes.",
                static=_SetRole,
                static_names=("master_candidate", "offline", "drained"),
                arguments=(FORCE, _AUTO_PROMOTE),
                body=BodyUse.ANY,
                body_type=_TRole,
                example="drained",
            ),
        },
    ),
    Resource(
        "/2/nodes/{name}/modify",
        "Settings of a node.",
        {
            "POST": JobMethod(
                opcodes.OpNodeSetParams,
                "Change flags, parameters or the secondary address.  The job returns the changes.",
                static=_Name,
                body=BodyUse.OPTIONAL,
                example={"drained": True, "ndparams": {"spindle_count": 2}},
            )
        },
    ),
    Resource(
        "/2/nodes/{name}/powercycle",
        "The power of a node.",
        {
            "POST": JobMethod(
                opcodes.OpNodePowercycle,
                "Reset a node at once.  The master resets itself only with `force=1`.",
                static=_Forced,
                arguments=(FORCE,),
                body=BodyUse.OPTIONAL,
            )
        },
    ),
    Resource(
        "/2/nodes/{name}/evacuate",
        "Instances of a node, on other nodes.",
        {
            "POST": JobMethod(
                opcodes.OpNodeEvacuate,
                "Move instances away from a node.  The job returns the numbers of the jobs that do it.",
                static=_Name,
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                example={"mode": "secondary-only", "remote_node": "node3.example.com"},
            )
        },
    ),
    Resource(
        "/2/nodes/{name}/migrate",
        "Running instances of a node, on other nodes.",
        {
            "POST": JobMethod(
                opcodes.OpNodeMigrate,
                "Migrate all primary instances.  The job returns the numbers of the jobs that do it.  With one of the"
                " arguments `live` and `mode` the body is not read.",
                static=_Name,
                arguments=(_LIVE, _MODE),
                body=BodyUse.OPTIONAL,
                reads=_ReadMigration,
                example={"mode": "live"},
            )
        },
    ),
    Resource(
        "/2/nodes/{name}/storage",
        "Storage units of a node.",
        {
            "GET": JobMethod(
                opcodes.OpNodeQueryStorage,
                "List storage units.  The job returns a row for each, in the order of `output_fields`; sizes in MiB.",
                role=Role.READ,
                static=_Storage,
                arguments=(_UNIT_TYPE, _OUTPUT_FIELDS),
                access=(WRITE,),
            )
        },
    ),
    Resource(
        "/2/nodes/{name}/storage/modify",
        "A storage unit of a node.",
        {
            "PUT": JobMethod(
                opcodes.OpNodeModifyStorage,
                "Say whether new volumes may be put on a physical volume (`lvm-pv`).",
                static=_UnitChanges,
                arguments=(_NEEDED_TYPE, _UNIT, _ALLOCATABLE),
            )
        },
    ),
    Resource(
        "/2/nodes/{name}/storage/repair",
        "A storage unit of a node.",
        {
            "PUT": JobMethod(
                opcodes.OpRepairNodeStorage,
                "Remove what is missing from a volume group (`lvm-vg`).",
                static=_Unit,
                arguments=(_NEEDED_TYPE, _UNIT),
            )
        },
    ),
    tags.NODE,
)
