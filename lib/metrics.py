"""The numbers that a master daemon gives about itself and its cluster, each declared once (doc/metrics.rst).

LUXI's ``QueryMetrics`` has their values, ``ganeti-rapi`` shows them at ``/metrics``.  Counting costs one addition and takes no
lock: each histogram is filled by one thread.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any, NamedTuple

from ganeti import watchedgroups

GAUGE = "gauge"
COUNTER = "counter"
HISTOGRAM = "histogram"

MASTER = "master"
NODES = "nodes"

SECONDS = "seconds"
BYTES = "bytes"

MAX_SERIES = 20_000
"""Pairs of node and procedure that are counted; clusters have far fewer."""


class Metric(NamedTuple):
    """A number, or one for each combination of labels.

    ``doc`` is one sentence without a full stop.  ``source``: who measures it, the master daemon (``server.metering``) or
    ``ganeti-rapi``, which asks the nodes (``rapi.metrics``).
    """

    name: str
    kind: str
    doc: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    source: str = MASTER

    @property
    def full_name(self) -> str:
        """Return the name as monitoring shows it, without the suffixes of counters and histograms."""
        return f"ganeti_{self.name}_{self.unit}" if self.unit else f"ganeti_{self.name}"


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("jobs", GAUGE, "Jobs that are not archived, by status", ("status",)),
        Metric("jobs_pending", GAUGE, "Jobs that have not begun to execute: queued or waiting for locks"),
        Metric("jobs_pending_oldest_age", GAUGE, "Age of the oldest job that has not begun to execute", unit=SECONDS),
        Metric("jobs_waiting_for_locks", GAUGE, "Jobs that wait for locks"),
        Metric("queue_drained", GAUGE, "1 while the queue accepts no new jobs, else 0"),
        Metric("commit_duration", HISTOGRAM, "Time from the start of a transaction to its quorum", unit=SECONDS),
        Metric("candidates", GAUGE, "Master candidates whose copies count"),
        Metric("candidates_silent", GAUGE, "Those of them that do not answer at the moment"),
        Metric("rpc_duration", HISTOGRAM, "Time of calls to nodes", ("node", "procedure"), SECONDS),
        Metric("rpc_failures", COUNTER, "Calls to nodes without a usable answer", ("node", "procedure")),
        Metric(
            "rpc_calls_hanging",
            GAUGE,
            "Calls that hang on a node: their callers gave up and the node still works on them; absent for a node that does"
            " not answer",
            ("node",),
        ),
        Metric(
            "log_lines_lost",
            COUNTER,
            "Lines that a log file of the master daemon or of ganeti-rapi did not take, such as on a full disk",
            ("log",),
        ),
        Metric("nodes", GAUGE, "Nodes by role: master, candidate, regular, drained, offline", ("role",)),
        Metric("instances", GAUGE, "Instances by configured state: up, down, offline, reserved", ("state",)),
        Metric("instances_memory", GAUGE, "Configured memory of instances by configured state", ("state",), BYTES),
        Metric("instances_cpus", GAUGE, "Configured virtual CPUs of instances by configured state", ("state",)),
        Metric("disks_size", GAUGE, "Configured size of disks by template", ("template",), BYTES),
        Metric(
            "volume_groups",
            GAUGE,
            f"Volume groups by the state that the watcher of the master saw last: {', '.join(watchedgroups.STATES)};"
            " absent where it has not looked for an hour, or has seen none",
            ("state",),
        ),
        Metric("node_memory", GAUGE, "Memory of a node, as it reports it: total, free", ("node", "kind"), BYTES, NODES),
        Metric(
            "node_storage",
            GAUGE,
            "Space of a node's volume group or directory: total, free",
            ("node", "kind"),
            BYTES,
            NODES,
        ),
        Metric("node_cpus", GAUGE, "CPUs of a node, as it reports them", ("node",), source=NODES),
    )
}

# Upper bounds in seconds; what took longer counts for the last, which is infinite.
BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0)


class Histogram:
    """How often something took how long; filled by one thread, read by any."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def Observe(self, seconds: float) -> None:
        self._counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def Value(self) -> dict[str, Any]:
        """Return ``{"counts": of each range, "sum": seconds}``."""
        return {"counts": list(self._counts), "sum": self._sum}


def AddHistograms(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of two values of histograms."""
    counts = [left + right for left, right in zip(one["counts"], other["counts"], strict=True)]
    return {"counts": counts, "sum": one["sum"] + other["sum"]}


class CallTimes:
    """Times and failures of calls by node and procedure."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, ...], Histogram] = {}
        self._failures: dict[tuple[str, ...], int] = {}

    def Observe(self, node: str, procedure: str, seconds: float | None, failed: bool) -> None:
        """Count a call; ``seconds`` None if it was not measured."""
        key = (node, procedure)
        if seconds is not None:
            histogram = self._durations.get(key)
            if histogram is None:
                if len(self._durations) >= MAX_SERIES:
                    return
                histogram = self._durations[key] = Histogram()
            histogram.Observe(seconds)
        if failed and (key in self._failures or len(self._failures) < MAX_SERIES):
            self._failures[key] = self._failures.get(key, 0) + 1

    def Durations(self) -> Mapping[tuple[str, ...], Any]:
        return {key: histogram.Value() for key, histogram in self._durations.copy().items()}

    def Failures(self) -> Mapping[tuple[str, ...], Any]:
        return self._failures.copy()


def Document() -> str:
    """Return the table as it stands in ``doc/metrics.rst``."""
    lines = []
    for metric in METRICS.values():
        labels = f", by {', '.join(f'``{label}``' for label in metric.labels)}" if metric.labels else ""
        lines += [f"``{metric.full_name}`` ({metric.kind}{labels})", f"   {metric.doc}.", ""]
    return "\n".join(lines)
