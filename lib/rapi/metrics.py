"""The cluster's numbers in the OpenMetrics format, made by prometheus-client from the declarations of ``ganeti.metrics``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, metrics
from ganeti.daemon import logs
from ganeti.rapi.requests.call import Caller, Master

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

MEDIA = "application/openmetrics-text"
CONTENT_TYPE = f"{MEDIA}; version=1.0.0; charset=utf-8"
CAPACITY_SECONDS = 60.0
"""For so long what nodes reported about themselves is shown again: they are asked, and some may hang."""

PATIENCE_SECONDS = 1.0
"""For so long an answer waits for what nodes report; then it shows the values of before, or none."""

_MIB = 1024 * 1024
_NODE_FIELDS = ["name", "mtotal", "mfree", "dtotal", "dfree", "ctotal"]

Values = Mapping[str, list[list[Any]]]


class Collector:
    """Reads the numbers from the master daemon."""

    def __init__(self, master: Master):
        self._master = master
        self._capacity: Values = {}
        self._capacity_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def Text(self, caller: Caller | None = None) -> bytes:
        """Return all numbers as they are now; what nodes report may be older, or missing while they are asked."""
        values: Values = await self._master.Call("QueryMetrics", caller=caller)
        lost = [*values.get("log_lines_lost", []), *logs.LostByLog()]
        return Encode({**values, **await self._Capacity(caller), "log_lines_lost": lost})

    async def _Capacity(self, caller: Caller | None) -> Values:
        """Return what the nodes reported; they are asked beside the requests, none of which ends that when it gives up."""
        now = asyncio.get_running_loop().time()
        asks = self._reading is not None and not self._reading.done()
        if not asks and (self._capacity_at is None or now - self._capacity_at > CAPACITY_SECONDS):
            self._reading = asyncio.create_task(self._Read(caller))
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=PATIENCE_SECONDS)
        return self._capacity

    async def _Read(self, caller: Caller | None) -> None:
        try:
            found = await self._master.Call("Query", "node", _NODE_FIELDS, None, caller=caller)
        except errors.GenericError as err:
            logging.warning("The nodes' capacity for the metrics cannot be read: %s", err)
            self._capacity = {}
            return
        self._capacity = _OfNodes(found["data"])
        self._capacity_at = asyncio.get_running_loop().time()


def _OfNodes(rows: list[list[list[Any]]]) -> Values:
    """Return memory, space and CPUs of the nodes that reported them."""
    found: dict[str, list[list[Any]]] = {"node_memory": [], "node_storage": [], "node_cpus": []}
    places = [
        ("node_memory", ["total"], _MIB),
        ("node_memory", ["free"], _MIB),
        ("node_storage", ["total"], _MIB),
        ("node_storage", ["free"], _MIB),
        ("node_cpus", [], 1),
    ]
    for (_, name), *cells in rows:
        for (metric, more, factor), (status, value) in zip(places, cells, strict=True):
            if status == constants.RS_NORMAL and isinstance(value, (int, float)):
                found[metric].append([[name, *more], value * factor])
    return found


def Encode(values: Values) -> bytes:
    """Return the exposition of these values, in the order of the declarations."""
    from prometheus_client.openmetrics.exposition import generate_latest

    class Registry:
        """What the library reads from."""

        def collect(self) -> Iterator[Family]:
            for metric in metrics.METRICS.values():
                if metric.name in values:
                    yield _Family(metric, values[metric.name])

    text: bytes = generate_latest(Registry())
    return text


def _Family(metric: metrics.Metric, rows: list[list[Any]]) -> Family:
    from prometheus_client import metrics_core

    # The library takes the unit from the name's end.
    arguments: dict[str, Any] = {"labels": metric.labels, "unit": metric.unit}
    if metric.kind == metrics.HISTOGRAM:
        histogram = metrics_core.HistogramMetricFamily(metric.full_name, metric.doc, **arguments)
        for labels, value in rows:
            histogram.add_metric(labels, _Buckets(value["counts"]), value["sum"])
        return histogram
    kind = metrics_core.CounterMetricFamily if metric.kind == metrics.COUNTER else metrics_core.GaugeMetricFamily
    family = kind(metric.full_name, metric.doc, **arguments)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _Buckets(counts: list[int]) -> list[tuple[str, float]]:
    """Return (upper bound, how many took at most that)."""
    total = 0
    buckets = []
    for bound, count in zip((*map(str, metrics.BOUNDS), "+Inf"), counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
