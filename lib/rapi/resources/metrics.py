"""The cluster's numbers for monitoring."""

from __future__ import annotations

import weakref

from starlette.responses import Response

from ganeti import ht
from ganeti.rapi import metrics
from ganeti.rapi.declared import Method, Resource, Role
from ganeti.rapi.requests.call import Call, Master
from ganeti.rapi.resources import examples


class _Show:
    """The action; it keeps what the nodes of each master reported lately."""

    def __init__(self) -> None:
        self._collectors: weakref.WeakKeyDictionary[Master, metrics.Collector] = weakref.WeakKeyDictionary()

    async def __call__(self, call: Call) -> Response:
        collector = self._collectors.get(call.master)
        if collector is None:
            collector = self._collectors[call.master] = metrics.Collector(call.master)
        return Response(await collector.Text(call.caller), headers={"Content-Type": metrics.CONTENT_TYPE})


RESOURCES = (
    Resource(
        "/metrics",
        "The cluster's numbers for monitoring.",
        {
            "GET": Method(
                _Show(),
                "Show the numbers that `doc/metrics.rst` describes, in the OpenMetrics format.",
                Role.READ,
                answer=ht.TString,
                answer_example=examples.METRICS,
                addition=True,
                media=metrics.MEDIA,
            )
        },
    ),
)
