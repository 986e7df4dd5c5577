"""The values of all metrics that the master daemon knows by itself (``ganeti.metrics``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, metrics, objects, params, runtime, watchedgroups
from ganeti.daemon import logs

if TYPE_CHECKING:
    from ganeti.jqueue import JobQueue
    from ganeti.metrics import CallTimes, Histogram
    from ganeti.store import Store

_MIB = 1024 * 1024
_PENDING = frozenset([constants.JOB_STATUS_QUEUED, constants.JOB_STATUS_WAITING])

# The state of an instance that is only planned; what else is stored of it may be nothing.
RESERVED = "reserved"

# Values of labels -> value.
Series = Mapping[tuple[str, ...], Any]


class Meter:
    """Answers ``QueryMetrics``; nothing is computed until somebody asks.

    ``calls``: of each runner; no two call the same procedure of a node.  ``hanging``: see ``HangingCalls.Counts``.
    """

    def __init__(
        self,
        snapshot: Callable[[], objects.Snapshot],
        queue: JobQueue,
        store: Store,
        commits: Histogram,
        calls: Sequence[CallTimes],
        hanging: Callable[[], Series],
    ):
        self._snapshot = snapshot
        self._queue = queue
        self._store = store
        self._commits = commits
        self._calls = calls
        self._hanging = hanging

    def Read(self) -> dict[str, list[list[Any]]]:
        """Return ``{metric: [[values of labels, value], ...]}``; a histogram's value is that of ``Histogram.Value``."""
        root = self._snapshot()
        found: dict[str, Series] = {
            **self._Jobs(),
            "commit_duration": {(): self._commits.Value()},
            "candidates": {(): len(self._store.Voters())},
            "candidates_silent": {(): len(self._store.Silent())},
            **self._CallsToNodes(root),
            "rpc_calls_hanging": self._hanging(),
            "nodes": _Roles(root),
            **_Instances(root),
            "volume_groups": _VolumeGroups(root),
        }
        rows = {name: [[list(labels), value] for labels, value in sorted(found[name].items())] for name in found}
        return {**rows, "log_lines_lost": logs.LostByLog()}

    def _CallsToNodes(self, root: objects.Snapshot) -> dict[str, Series]:
        """Return times and failures by the names of nodes, also of one that was called by its address until it joined.

        A counter begins at 0 for each node and each procedure that is used, so that the first failure is seen to be one.
        """
        names = {node.primary_ip: node.name for node in root.nodes.values()}
        durations: dict[tuple[str, ...], Any] = {}
        failures: Counter[tuple[str, ...]] = Counter()
        for calls in self._calls:
            for (node, procedure), value in calls.Durations().items():
                key = (names.get(node, node), procedure)
                durations[key] = metrics.AddHistograms(durations[key], value) if key in durations else value
            for (node, procedure), count in calls.Failures().items():
                failures[names.get(node, node), procedure] += count
        for procedure in sorted({procedure for _, procedure in (*durations, *failures)}):
            for node in names.values():
                if len(failures) < metrics.MAX_SERIES:
                    failures[node, procedure] += 0
        return {"rpc_duration": durations, "rpc_failures": failures}

    def _Jobs(self) -> dict[str, Series]:
        statuses = Counter(dict.fromkeys(sorted(constants.JOB_STATUS_ALL), 0))
        oldest: float | None = None
        for status, received in self._queue.Statuses():
            statuses[status] += 1
            if status in _PENDING and received is not None and (oldest is None or received < oldest):
                oldest = received
        waiting = statuses[constants.JOB_STATUS_WAITING]
        return {
            "jobs": {(status,): count for status, count in statuses.items()},
            "jobs_pending": {(): sum(statuses[status] for status in _PENDING)},
            "jobs_pending_oldest_age": {(): 0.0 if oldest is None else max(0.0, runtime.Time() - oldest)},
            "jobs_waiting_for_locks": {(): waiting},
            "queue_drained": {(): int(self._queue.drained)},
        }


def _Roles(root: objects.Snapshot) -> Series:
    roles = Counter(dict.fromkeys(objects.NODE_ROLES, 0))
    roles.update(node.Role(root.cluster.master_node) for node in root.nodes.values())
    return {(role,): count for role, count in roles.items()}


def _VolumeGroups(root: objects.Snapshot) -> Series:
    """Return how many volume groups are in which state, as far as the watcher of this node looked lately."""
    seen = [counts for uuid in root.nodegroups if (counts := watchedgroups.Read(uuid)) is not None]
    return {(state,): sum(counts[state] for counts in seen) for state in watchedgroups.STATES} if seen else {}


def _Instances(root: objects.Snapshot) -> dict[str, Series]:
    states = [*sorted(constants.ADMINST_ALL), RESERVED]
    counts, memory, cpus = (Counter(dict.fromkeys(states, 0)) for _ in range(3))
    sizes: Counter[str] = Counter()
    for instance in root.instances.values():
        state = RESERVED if instance.forthcoming else instance.admin_state
        filled = params.FillBE(root, instance)
        counts[state] += 1
        memory[state] += filled["maxmem"] * _MIB
        cpus[state] += filled["vcpus"]
    for disk in root.disks.values():
        # A reservation may not say yet how large, or in what it will lie.
        if disk.dev_type is not None and disk.size is not None:
            sizes[disk.dev_type] += disk.size * _MIB
    return {
        "instances": {(state,): count for state, count in counts.items()},
        "instances_memory": {(state,): value for state, value in memory.items()},
        "instances_cpus": {(state,): value for state, value in cpus.items()},
        "disks_size": {(template,): value for template, value in sizes.items()},
    }
