"""Node groups."""

from __future__ import annotations

from typing import Any

from ganeti import constants, ht, opcodes
from ganeti.rapi.declared import BodyUse, Etag, Method, Resource, Role
from ganeti.rapi.requests.call import Call
from ganeti.rapi.resources import examples, tags
from ganeti.rapi.resources.common import (
    BULK,
    FORCE,
    LOCK,
    OBJECT_TYPES,
    JobMethod,
    Listed,
    ListOrBulk,
    Single,
    StrictAnswer,
    TNames,
)

_TYPES: dict[str, ht.Type] = {
    "name": ht.TNonEmptyString,
    "alloc_policy": ht.TElemOf(list(constants.VALID_ALLOC_POLICIES)),
    "node_cnt": ht.TInt,
    "node_list": TNames,
    **dict.fromkeys(("ipolicy", "diskparams", "ndparams"), ht.TDict),
    **dict.fromkeys(("custom_ipolicy", "custom_diskparams", "custom_ndparams"), ht.TDict),
    **OBJECT_TYPES,
}
FIELDS = tuple(_TYPES)
TGroup = StrictAnswer(_TYPES)


def _Name(call: Call) -> dict[str, Any]:
    return {"group_name": call.names["name"]}


RESOURCES = (
    Resource(
        "/2/groups",
        "All node groups.",
        {
            "GET": Method(
                Listed("QueryGroups", "/2/groups", FIELDS),
                "List the groups.",
                Role.READ,
                answer=ListOrBulk("name", TGroup),
                answer_example=examples.GROUP_LINKS,
                etag=Etag.WHOLE,
                arguments=(BULK, LOCK),
            ),
            "POST": JobMethod(
                opcodes.OpGroupAdd,
                "Create a group.",
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                aliases={"name": "group_name"},
                example={"group_name": "rack2", "alloc_policy": "preferred"},
            ),
        },
    ),
    Resource(
        "/2/groups/{name}",
        "One node group.",
        {
            "GET": Method(
                Single("group", FIELDS),
                "Show a group: its effective parameters, and as `custom_` those set for it.",
                Role.READ,
                answer=TGroup,
                answer_example=examples.GROUP,
                etag=Etag.OBJECT,
                arguments=(LOCK,),
            ),
            "DELETE": JobMethod(
                opcodes.OpGroupRemove, "Remove a group that has no nodes.", static=_Name, dry_run_fixed=True
            ),
        },
    ),
    Resource(
        "/2/groups/{name}/modify",
        "Settings of a group.",
        {
            "PUT": JobMethod(
                opcodes.OpGroupSetParams,
                "Change settings.  The job returns the changes.",
                static=_Name,
                body=BodyUse.OPTIONAL,
                aliases={f"custom_{name}": name for name in ("ndparams", "ipolicy", "diskparams")},
                example={"alloc_policy": "last_resort"},
            )
        },
    ),
    Resource(
        "/2/groups/{name}/rename",
        "The name of a group.",
        {
            "PUT": JobMethod(
                opcodes.OpGroupRename,
                "Rename a group.  The job returns the new name.",
                static=_Name,
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                example={"new_name": "rack3"},
            )
        },
    ),
    Resource(
        "/2/groups/{name}/assign-nodes",
        "The nodes of a group.",
        {
            "PUT": JobMethod(
                opcodes.OpGroupAssignNodes,
                "Move nodes into a group.  `force=1` accepts that mirrored instances are then in two groups.",
                static=lambda call: {**_Name(call), "force": call.arguments[FORCE.name]},
                arguments=(FORCE,),
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                example={"nodes": ["node3.example.com"]},
            )
        },
    ),
    tags.GROUP,
)
