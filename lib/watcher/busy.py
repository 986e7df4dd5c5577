"""Which instances the watcher must not touch: a job has locked them, is about to act on them, or just did.

Stricter than release 3.1, which looks at locks only (doc/compatibility.rst): a shutdown that is still queued has no lock
yet, and a start submitted after it would undo it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ganeti import constants
from ganeti.watcher.rows import Instance

JOB_FIELDS = ("id", "status", "ops", "opstatus", "end_ts")
LOCK_FIELDS = ("name", "mode", "owner")
_LOCK_PREFIX = "instance/"

# Opcodes that name instances and change none.
_READERS = frozenset(
    {"OP_INSTANCE_QUERY_DATA", "OP_INSTANCE_CONSOLE", "OP_TAGS_SET", "OP_TAGS_DEL", "OP_TAGS_GET", "OP_TAGS_SEARCH",
     "OP_CLUSTER_REPAIR_DISK_SIZES"}
)  # fmt: skip
# Opcodes that act on the instances of the node that they name; of the group; on all.
_OF_NODE = frozenset(
    {"OP_NODE_EVACUATE", "OP_NODE_MIGRATE", "OP_NODE_SET_PARAMS", "OP_NODE_POWERCYCLE", "OP_NODE_REMOVE", "OP_OOB_COMMAND",
     "OP_REPAIR_NODE_STORAGE"}
)  # fmt: skip
_OF_GROUP = frozenset({"OP_GROUP_EVACUATE"})
_OF_ALL = frozenset({"OP_CLUSTER_DESTROY"})


# The filter for jobs that have not ended.
PENDING = ["|", *(["=", "status", status] for status in sorted(constants.JOB_STATUS_ALL - constants.JOBS_FINALIZED))]


def JobFilter(since: float) -> list[Any]:
    """Return the filter for jobs that have not ended, or ended after ``since``, when the run began.

    Filters compare whole seconds only; ``Find`` is exact.
    """
    return [*PENDING, [">=", "end_ts", int(since)]]


def Find(
    instances: Sequence[Instance], locks: Sequence[Sequence[Any]], jobs: Sequence[Sequence[Any]], since: float
) -> dict[str, str]:
    """Return why each busy instance must be left alone.

    ``locks``: values of LOCK_FIELDS; ``jobs``: values of JOB_FIELDS; ``since``: when the run began.
    """
    found: dict[str, str] = {}
    aimed = _Targets([job for job in jobs if not _EndedBefore(job, since)])
    if aimed:
        for instance in instances:
            job_id = aimed.Find(instance)
            if job_id is not None:
                found[instance.name] = f"job {job_id} acts on it"
    for name, mode, owners in locks:
        if mode is not None and name.startswith(_LOCK_PREFIX):
            found[name.removeprefix(_LOCK_PREFIX)] = f"it is locked by {', '.join(map(str, owners or ())) or 'a job'}"
    return found


def _EndedBefore(job: Sequence[Any], since: float) -> bool:
    _, status, _, _, end = job
    return status in constants.JOBS_FINALIZED and bool(end) and end[0] + end[1] / 1e6 < since


class _Targets:
    """What the opcodes of jobs name, with the job's id."""

    def __init__(self, jobs: Sequence[Sequence[Any]]):
        self._names: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._everything: int | None = None
        for job_id, status, ops, opstatus, _ in jobs:
            ended = status in constants.JOBS_FINALIZED
            for op, own_status in zip(ops or (), opstatus or (), strict=False):
                # Of a job that ended during this run every opcode may have changed something.
                if isinstance(op, dict) and (ended or own_status not in constants.JOBS_FINALIZED):
                    self._Add(job_id, op)

    def __bool__(self) -> bool:
        return bool(self._names or self._nodes or self._groups or self._everything is not None)

    def _Add(self, job_id: int, op: Mapping[str, Any]) -> None:
        kind = op.get("OP_ID")
        if kind in _READERS:
            return
        if kind in _OF_ALL:
            self._everything = job_id
        for value in _InstanceNames(op):
            self._names[value] = job_id
        for kinds, target, key in ((_OF_NODE, self._nodes, "node"), (_OF_GROUP, self._groups, "group")):
            if kind in kinds:
                values = [op.get(f"{key}_name"), op.get(f"{key}_uuid"), *(op.get(f"{key}_names") or ())]
                target.update(dict.fromkeys([value for value in values if isinstance(value, str)], job_id))

    def Find(self, instance: Instance) -> int | None:
        """Return the job that acts on the instance."""
        for word in _Words(instance.name, instance.uuid):
            if word in self._names:
                return self._names[word]
        for node in instance.nodes:
            for word in _Words(node):
                if word in self._nodes:
                    return self._nodes[word]
        groups = instance.groups | instance.group_names
        return next((job_id for group, job_id in self._groups.items() if group in groups), self._everything)


def _InstanceNames(op: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an opcode calls instances: names, short names or UUIDs."""
    # Several instances may be made by one opcode, each described by an opcode of its own.
    several = [item.get("instance_name") if isinstance(item, dict) else item for item in op.get("instances") or ()]
    values = [op.get("instance_name"), op.get("instance_uuid"), *several]
    yield from (value for value in values if isinstance(value, str))


def _Words(name: str, uuid: str = "") -> Iterator[str]:
    """Yield what an object may be called: by its name, by each shorter form of it, by its UUID."""
    yield uuid
    yield name
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts)))
