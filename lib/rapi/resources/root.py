"""What is there without asking the master: versions and features."""

from __future__ import annotations

from typing import Any, Final

from ganeti import constants, ht
from ganeti.rapi.declared import Method, Resource, Role, Scope
from ganeti.rapi.requests.call import Call

FEATURES: Final[dict[str, str]] = {
    # 3.1's; clients refuse to make instances without the first one.
    "instance-create-reqv1": "`POST /2/instances` takes version 1 of its body (`__version__`).",
    "instance-reinstall-reqv1": "`POST /2/instances/NAME/reinstall` takes a body, with `os`, `start` and `osparams`.",
    "node-migrate-reqv1": "`POST /2/nodes/NAME/migrate` takes a body, with `mode`, `target_node` and `iallocator`.",
    "node-evac-res1": "The job of `POST /2/nodes/NAME/evacuate` returns the numbers of the jobs that move the instances.",
    # Additions.
    "etag": "Answers with a version have an `ETag`, which `If-Match` and `If-None-Match` can name.",
    "keep-alive": "A connection stays open for further requests unless the client asks for its end.",
    "openapi": "`/2/openapi.json` describes the interface for programs.",
    "events": "`/2/events` streams what changes, and resumes after `Last-Event-ID`.",
    "metrics": "`/metrics` shows the cluster's numbers in the OpenMetrics format.",
    "tokens": "A token is accepted as `Authorization: Bearer TOKEN`, beside users with passwords.",
    "audit": "Each request that changes something is noted with its sender: in the daemon's log, and in the reason trail of its"
    " job.",
}
"""Each word of ``/2/features``, and what a client can rely on where it is there."""

_TFeature: Final = ht.Type(
    "feature",
    ht.TString,
    {"type": "string", "description": "\n".join(f"* `{word}`: {text}" for word, text in FEATURES.items())},
    "the name of a feature",
)


async def _Nothing(call: Call) -> Any:
    return None


async def _Version(call: Call) -> Any:
    return constants.RAPI_VERSION


async def _Features(call: Call) -> Any:
    return list(FEATURES)


RESOURCES: tuple[Resource, ...] = (
    Resource("/", "The root.", {"GET": Method(_Nothing, "Show nothing.", Role.READ, ht.TNone, Scope.OPEN)}),
    Resource(
        "/2", "The root of version 2.", {"GET": Method(_Nothing, "Show nothing.", Role.READ, ht.TNone, Scope.OPEN)}
    ),
    Resource(
        "/version",
        "The version of this interface.",
        {
            "GET": Method(
                _Version,
                "Show the version: 2.",
                Role.READ,
                ht.TPositiveInt,
                Scope.OPEN,
                answer_example=constants.RAPI_VERSION,
            )
        },
    ),
    Resource(
        "/2/features",
        "What this server can do beyond the first release of version 2.",
        {
            "GET": Method(
                _Features,
                "List the features.",
                Role.READ,
                ht.TListOf(_TFeature),
                Scope.OPEN,
                answer_example=list(FEATURES),
            )
        },
    ),
)
