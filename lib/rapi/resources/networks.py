"""Networks: pools of addresses."""

from __future__ import annotations

from typing import Any

from ganeti import ht, opcodes
from ganeti.rapi.declared import BodyUse, Etag, Method, Resource, Role
from ganeti.rapi.requests.call import Call
from ganeti.rapi.resources import examples, tags
from ganeti.rapi.resources.common import (
    BULK,
    LOCK,
    OBJECT_TYPES,
    JobMethod,
    Listed,
    ListOrBulk,
    Single,
    StrictAnswer,
    TMaybeText,
    TNames,
)

_TYPES: dict[str, ht.Type] = {
    "name": ht.TNonEmptyString,
    "network": ht.TString,
    **dict.fromkeys(("gateway", "network6", "gateway6", "mac_prefix"), TMaybeText),
    **dict.fromkeys(("free_count", "reserved_count"), ht.TInt),
    "map": ht.TString,
    "group_list": ht.TListOf(ht.TItems(ht.TString, ht.TString, ht.TString, ht.TString)),
    "inst_list": TNames,
    "external_reservations": ht.TString,
    **OBJECT_TYPES,
}
FIELDS = tuple(_TYPES)
TNetwork = StrictAnswer(_TYPES)


_TTags = opcodes.OpNetworkAdd.OP_PARAMS["tags"].type


def _Name(call: Call) -> dict[str, Any]:
    return {"network_name": call.names["name"]}


def _WithoutNullTags(_call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Accept what the Python client sends for a network without tags."""
    return {name: value for name, value in given.items() if not (name == "tags" and value is None)}


def _Change(opcode: type[opcodes.OpCode], doc: str, example: Any) -> Method:
    return JobMethod(opcode, doc, static=_Name, body=BodyUse.OPTIONAL, dry_run_fixed=True, example=example)


RESOURCES = (
    Resource(
        "/2/networks",
        "All networks.",
        {
            "GET": Method(
                Listed("QueryNetworks", "/2/networks", FIELDS),
                "List the networks.",
                Role.READ,
                answer=ListOrBulk("name", TNetwork),
                answer_example=examples.NETWORK_LINKS,
                etag=Etag.WHOLE,
                arguments=(BULK, LOCK),
            ),
            "POST": JobMethod(
                opcodes.OpNetworkAdd,
                "Create a network.",
                body=BodyUse.OPTIONAL,
                dry_run_fixed=True,
                body_type=ht.TStrictDict({}, {"tags": ht.TMaybe(_TTags)}, others=ht.TAny),
                aliases={"name": "network_name"},
                reads=_WithoutNullTags,
                example={"network_name": "lan", "network": "192.0.2.0/24", "gateway": "192.0.2.1"},
            ),
        },
    ),
    Resource(
        "/2/networks/{name}",
        "One network.",
        {
            "GET": Method(
                Single("network", FIELDS),
                "Show a network.  `map` has a character for each address: `.` free, `X` used.",
                Role.READ,
                answer=TNetwork,
                answer_example=examples.NETWORK,
                etag=Etag.OBJECT,
                arguments=(LOCK,),
            ),
            "DELETE": _Change(
                opcodes.OpNetworkRemove, "Remove a network that no group is connected to.", {"force": False}
            ),
        },
    ),
    Resource(
        "/2/networks/{name}/connect",
        "A network and a group.",
        {
            "PUT": _Change(
                opcodes.OpNetworkConnect,
                "Connect a network to a group.",
                {"group_name": "default", "network_mode": "bridged", "network_link": "br0"},
            )
        },
    ),
    Resource(
        "/2/networks/{name}/disconnect",
        "A network and a group.",
        {"PUT": _Change(opcodes.OpNetworkDisconnect, "Disconnect a network from a group.", {"group_name": "default"})},
    ),
    Resource(
        "/2/networks/{name}/modify",
        "Settings of a network.",
        {
            "PUT": JobMethod(
                opcodes.OpNetworkSetParams,
                "Change anything but the IPv4 network itself.",
                static=_Name,
                body=BodyUse.OPTIONAL,
                example={"gateway": "192.0.2.254"},
            )
        },
    ),
    Resource(
        "/2/networks/{name}/rename",
        "The name of a network.",
        {
            "PUT": _Change(
                opcodes.OpNetworkRename, "Rename a network.  The job returns the new name.", {"new_name": "dmz"}
            )
        },
    ),
    tags.NETWORK,
)
