"""The interface's own description."""

from __future__ import annotations

from ganeti import constants, ht
from ganeti.rapi import openapi
from ganeti.rapi.declared import Etag, Method, Resource, Role, Scope
from ganeti.rapi.requests.call import Answer, Call
from ganeti.rapi.resources import examples


async def _OpenApi(call: Call) -> Answer:
    return Answer(openapi.Document(), version=("openapi", constants.RELEASE_VERSION))


RESOURCES = (
    Resource(
        "/2/openapi.json",
        "The description of this interface.",
        {
            "GET": Method(
                _OpenApi,
                "Show the interface as an OpenAPI 3.1 document, from which programs make clients and forms.",
                Role.READ,
                answer=ht.TDict,
                scope=Scope.OPEN,
                answer_example=examples.OPENAPI,
                etag=Etag.WHOLE,
                addition=True,
            )
        },
    ),
)
