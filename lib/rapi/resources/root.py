"""What is there without asking the master: versions and features."""

from __future__ import annotations

from typing import Any

from ganeti import constants, ht
from ganeti.rapi.call import Call
from ganeti.rapi.declared import Method, Resource, Role

# The first four are 3.1's; clients refuse to make instances without the first one.
FEATURES: tuple[str, ...] = (
    "instance-create-reqv1",
    "instance-reinstall-reqv1",
    "node-migrate-reqv1",
    "node-evac-res1",
    "etag",
    "keep-alive",
    "openapi",
    "events",
    "metrics",
    "tokens",
    "audit",
)


async def _Nothing(call: Call) -> Any:
    return None


async def _Version(call: Call) -> Any:
    return constants.RAPI_VERSION


async def _Features(call: Call) -> Any:
    return list(FEATURES)


RESOURCES: tuple[Resource, ...] = (
    Resource("/", "The root.", {"GET": Method(_Nothing, "Show nothing.", Role.READ, ht.TNone)}),
    Resource("/2", "The root of version 2.", {"GET": Method(_Nothing, "Show nothing.", Role.READ, ht.TNone)}),
    Resource(
        "/version",
        "The version of this interface.",
        {"GET": Method(_Version, "Show the version: 2.", Role.READ, ht.TPositiveInt)},
    ),
    Resource(
        "/2/features",
        "What this server can do beyond the first release of version 2.",
        {"GET": Method(_Features, "List the features.", Role.READ, ht.TListOf(ht.TString))},
    ),
)
