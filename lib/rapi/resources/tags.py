"""Tags of all kinds of objects: the same three methods everywhere."""

from __future__ import annotations

from typing import Any

from ganeti import constants, opcodes
from ganeti.rapi.declared import Argument, ArgumentKind, Etag, Method, Resource, Role, Scope
from ganeti.rapi.requests.call import Answer, Call
from ganeti.rapi.resources import examples
from ganeti.rapi.resources.common import ClusterVersion, ConfigVersion, JobMethod, TNames

_TAG = Argument("tag", ArgumentKind.TEXTS, "a tag; may be given several times")


def _Tags(path: str, kind: str, word: str) -> Resource:
    def name(call: Call) -> str | None:
        return call.names.get("name")

    async def get(call: Call) -> Answer:
        version = await ConfigVersion(call)
        tags = await call.Ask("QueryTags", kind, call.target if call.names else "")
        return Answer(tags, version=(call.resource.path, name(call), *version))

    def static(call: Call) -> dict[str, Any]:
        return {"kind": kind, "name": name(call), "tags": call.arguments[_TAG.name]}

    def change(opcode: type[opcodes.OpCode], doc: str) -> Method:
        return JobMethod(opcode, doc, static=static, arguments=(_TAG,), dry_run_fixed=True)

    scope = Scope.INSTANCE if kind == constants.TAG_INSTANCE else Scope.CLOSED
    return Resource(
        path,
        f"Tags of {word}.",
        {
            "GET": Method(
                get,
                "List the tags, sorted.",
                Role.READ,
                answer=TNames,
                scope=scope,
                answer_example=examples.TAGS,
                etag=Etag.WHOLE,
            ),
            "PUT": change(opcodes.OpTagsSet, "Add tags; those that are there already stay."),
            "DELETE": change(opcodes.OpTagsDel, "Remove tags; the job fails if one of them is missing."),
        },
        version=ClusterVersion if kind == constants.TAG_CLUSTER else None,
    )


CLUSTER = _Tags("/2/tags", constants.TAG_CLUSTER, "the cluster")
NODE = _Tags("/2/nodes/{name}/tags", constants.TAG_NODE, "a node")
INSTANCE = _Tags("/2/instances/{name}/tags", constants.TAG_INSTANCE, "an instance")
GROUP = _Tags("/2/groups/{name}/tags", constants.TAG_NODEGROUP, "a node group")
NETWORK = _Tags("/2/networks/{name}/tags", constants.TAG_NETWORK, "a network")
