"""Which instances the watcher must not touch: a job has locked them, is about to act on them, or just did.

Stricter than release 3.1, which looks at locks only (doc/compatibility.rst): a shutdown that is still queued has no lock
yet, and a start submitted after it would undo it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ganeti import constants
from ganeti.watcher.rows import Instance

JOB_FIELDS = ("id", "status", "ops", "opstatus", "end_ts")
LOCK_FIELDS = ("name", "mode", "owner")
_LOCK_PREFIX = "instance/"

# Opcodes that name instances and change none.
_READERS = frozenset(
    {"OP_INSTANCE_QUERY_DATA", "OP_INSTANCE_CONSOLE", "OP_TAGS_SET", "OP_TAGS_DEL", "OP_TAGS_GET", "OP_TAGS_SEARCH",
     "OP_CLUSTER_REPAIR_DISK_SIZES", "OP_TEST_ALLOCATOR"}
)  # fmt: skip
_NODE_READERS = frozenset({"OP_NODE_QUERY_STORAGE", "OP_NODE_QUERYVOLS"})
# Opcodes that act on the instances of the node that they name; of the group; on all.
_OF_NODE = frozenset(
    {"OP_NODE_EVACUATE", "OP_NODE_MIGRATE", "OP_NODE_SET_PARAMS", "OP_NODE_POWERCYCLE", "OP_NODE_REMOVE", "OP_OOB_COMMAND",
     "OP_REPAIR_NODE_STORAGE"}
)  # fmt: skip
_OF_GROUP = frozenset({"OP_GROUP_EVACUATE"})
_OF_ALL = frozenset({"OP_CLUSTER_DESTROY"})
# Those that mean all nodes if they name none.
_OF_ALL_BY_DEFAULT = frozenset({"OP_OOB_COMMAND"})


# The filter for jobs that have not ended.
PENDING = ["|", *(["=", "status", status] for status in sorted(constants.JOB_STATUS_ALL - constants.JOBS_FINALIZED))]


def JobFilter(since: float) -> list[Any]:
    """Return the filter for jobs that have not ended, or ended after ``since``, when the run began.

    Filters compare whole seconds only; ``Find`` is exact.
    """
    return [*PENDING, [">=", "end_ts", int(since)]]


def Find(
    instances: Sequence[Instance],
    locks: Sequence[Sequence[Any]],
    jobs: Sequence[Sequence[Any]],
    since: float,
    node_uuids: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return why each busy instance must be left alone.

    ``locks``: values of LOCK_FIELDS; ``jobs``: values of JOB_FIELDS; ``since``: when the run began; ``node_uuids``: the
    UUID of each node by its name, as a job may name a node by either.
    """
    found: dict[str, str] = {}
    aimed = _Targets([job for job in jobs if not _EndedBefore(job, since)])
    if aimed:
        for instance in instances:
            job_id = aimed.Find(instance, node_uuids or {})
            if job_id is not None:
                found[instance.name] = f"job {job_id} acts on it"
    for name, mode, owners in locks:
        if mode is not None and name.startswith(_LOCK_PREFIX):
            found[name.removeprefix(_LOCK_PREFIX)] = f"it is locked by {', '.join(map(str, owners or ())) or 'a job'}"
    return found


def ActingOn(words: Collection[str], jobs: Sequence[Sequence[Any]]) -> int | None:
    """Return a job that has not ended and has one of the words, in lower case, in an opcode that may change something."""
    for job_id, status, ops, opstatus, _ in jobs:
        if status in constants.JOBS_FINALIZED:
            continue
        for op, own_status in zip(ops or (), opstatus or (), strict=False):
            changes = isinstance(op, dict) and op.get("OP_ID") not in _READERS | _NODE_READERS
            waits = own_status not in constants.JOBS_FINALIZED
            if waits and changes and any(text.lower() in words for text in _Texts(op)):
                return int(job_id)
    return None


def _Texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _Texts(part)


def _EndedBefore(job: Sequence[Any], since: float) -> bool:
    _, status, _, _, end = job
    return status in constants.JOBS_FINALIZED and bool(end) and end[0] + end[1] / 1e6 < since


class _Targets:
    """What the opcodes of jobs name, in lower case, with the job's id.

    A job's opcode has the words that its user typed: the master looks them up only when the job runs
    (``Snapshot.ExpandName``).  Where a word fits several objects, all of them are left alone.
    """

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
        nodes = list(_Called(op, "node"))
        if kind in _OF_ALL or (kind in _OF_ALL_BY_DEFAULT and not nodes):
            self._everything = job_id
        self._names.update(dict.fromkeys(_Called(op, "instance"), job_id))
        if kind in _OF_NODE:
            self._nodes.update(dict.fromkeys(nodes, job_id))
        if kind in _OF_GROUP:
            self._groups.update(dict.fromkeys(_Called(op, "group"), job_id))

    def Find(self, instance: Instance, node_uuids: Mapping[str, str]) -> int | None:
        """Return the job that acts on the instance."""
        nodes = [word for name in instance.nodes for word in Words(name, node_uuids.get(name, ""))]
        groups = [word.lower() for word in instance.groups | instance.group_names]
        for words, named in (
            (Words(instance.name, instance.uuid), self._names),
            (nodes, self._nodes),
            (groups, self._groups),
        ):
            for word in words:
                if word in named:
                    return named[word]
        return self._everything


def _Called(op: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield what an opcode calls objects of a kind, in lower case: names, short names or UUIDs."""
    # Several instances may be made by one opcode, each described by an opcode of its own.
    several = [item.get(f"{kind}_name") if isinstance(item, dict) else item for item in op.get(f"{kind}s") or ()]
    one = [op.get(f"{kind}_name"), op.get(f"{kind}_uuid")]
    for value in (*one, *several, *(op.get(f"{kind}_names") or ()), *(op.get(f"{kind}_uuids") or ())):
        if isinstance(value, str) and value:
            yield value.lower()


def Words(name: str, uuid: str) -> Iterator[str]:
    """Yield what an object may be called, in lower case: by its UUID, by its name, by each shorter form of it."""
    yield uuid.lower()
    parts = name.lower().split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
