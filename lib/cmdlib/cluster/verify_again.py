"""What a look without locks found is looked at again under locks before it is reported (doc/design-verify.rst).

Whoever starts, moves or makes an instance holds its lock, or that of its nodes, until nodes and configuration agree again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ganeti import locking, objects, runtime
from ganeti.cmdlib.cluster.verify_report import CLUSTER, INSTANCE, NODE, About, Line, Look
from ganeti.cmdlib.common import ReleaseLocks
from ganeti.utils.text import NiceSort

if TYPE_CHECKING:
    from ganeti.cmdlib.base import LogicalUnit

# Findings that the work of a job on an instance may cause.
_OF_INSTANCES = frozenset(
    [
        "EINSTANCEDOWN",
        "EINSTANCEWRONGNODE",
        "EINSTANCEFAULTYDISK",
        "EINSTANCEMISSINGDISK",
        "ENODEORPHANINSTANCE",
        "ENODEORPHANLV",
        "ENODEDRBD",
        "ENODEN1",
        "ENODELOSS",
    ]
)
# Findings that a change of nodes or of the cluster may cause: of roles, keys, parameters.  Such a job is at work on a node for
# moments, those that hold its lock for long do other things.
_OF_NODES = frozenset(
    [
        "ENODEFILECHECK",
        "ECLUSTERFILECHECK",
        "ECLUSTERCLIENTCERT",
        "ECLUSTERCERT",
        "ENODESSH",
        "ENODENET",
        "ENODELVM",
        "ENODEHV",
    ]
)
_SILENT = "ENODERPC"
_LEVELS = (locking.LEVEL_INSTANCE, locking.LEVEL_NODE, locking.LEVEL_NODE_RES)
# For so long is waited for jobs that are at work on what may be wrong, and so often is looked whether they have ended.
_WAIT_SECONDS, _PAUSE = 300.0, 5.0


class Settled(NamedTuple):
    """``lines``: what is to be reported; ``busy``: names of what jobs were at work on all the time."""

    lines: list[Line]
    busy: list[str]


def Settle(lu: LogicalUnit, before: objects.Snapshot, first: Look, again: Callable[[frozenset[str]], Look]) -> Settled:
    """Look again at what may be wrong, under shared locks of just that, as soon as no job is at work on it.

    ``first`` was found with ``before``; ``again`` looks without the nodes with these uuids.  While a job is waited for no lock is
    held.
    """
    pending = {about for about in _Abouts(line for line in first.lines if not line.lasting) if _Moves(about)}
    found: dict[About, list[Line]] = {}
    newly_silent: dict[About, list[Line]] = {}
    silent = first.silent
    deadline = runtime.Monotonic() + _WAIT_SECONDS
    while pending := {about for about in pending if not _CannotTell(lu.snapshot, about, silent)}:
        last = runtime.Monotonic() >= deadline
        with _Locked(lu, pending) as free:
            if last:
                free |= {about for about in pending if about[0] in _OF_NODES}
            newer = again(silent) if free else Look([], silent)
        newly_silent.update(_Group(newer.lines, {about for about in _Abouts(newer.lines) if about[0] == _SILENT}))
        if newer.silent > silent:
            # Without these nodes it says too little; and their next answer is nothing to hold locks for.
            silent = newer.silent
            continue
        found.update(_Group((line for line in newer.lines if not line.lasting), free))
        pending -= free
        if not pending or last:
            break
        runtime.Sleep(_PAUSE)
    told = _Abouts(first.lines)
    lines = list(_Merge(first.lines, found))
    lines += [line for about, rows in newly_silent.items() if about not in told for line in rows]
    gone = {about for about in _Abouts(lines) | pending if _IsGone(before, lu.snapshot, about)}
    return Settled(
        [line for line in lines if line.about not in gone and (line.lasting or line.about not in pending)],
        NiceSort({item or "the cluster" for _, _, item in pending - gone}),
    )


def _Abouts(lines: Iterable[Line]) -> set[About]:
    return {line.about for line in lines if line.about is not None}


def _Group(lines: Iterable[Line], abouts: Iterable[About]) -> dict[About, list[Line]]:
    lines = list(lines)
    return {about: [line for line in lines if line.about == about] for about in abouts}


def _Moves(about: About) -> bool:
    code, kind, _ = about
    return (code in _OF_INSTANCES or code in _OF_NODES) and kind in (CLUSTER, NODE, INSTANCE)


def _CannotTell(snapshot: objects.Snapshot, about: About, silent: Collection[str]) -> bool:
    """Return whether another look would tell nothing because the node no longer answers."""
    _, kind, item = about
    node = snapshot.NodeByName(item) if kind == NODE and item is not None else None
    return node is not None and node.uuid in silent


def _Merge(lines: Iterable[Line], found: Mapping[About, list[Line]]) -> Iterator[Line]:
    """Yield the lines with those of the second look in the places of those that these replace."""
    told: set[About] = set()
    for line in lines:
        if line.lasting or line.about is None or line.about not in found:
            yield line
        elif line.about not in told:
            told.add(line.about)
            yield from found[line.about]


def _IsGone(before: objects.Snapshot, now: objects.Snapshot, about: About) -> bool:
    """Return whether what was found concerns an instance that has been removed, or a node that has been marked offline.

    Nodes are neither removed nor renamed, nor instances renamed, as such a job takes the lock of the cluster.
    """
    _, kind, item = about
    if item is None:
        return False
    if kind == INSTANCE:
        return before.InstanceByName(item) is not None and now.InstanceByName(item) is None
    if kind != NODE:
        return False
    then, node = before.NodeByName(item), now.NodeByName(item)
    return then is not None and node is not None and node.offline and not then.offline


# --- locks --------------------------------------------------------------------------------------------------------------


# Level -> names of locks, in the order in which levels are taken.
_Needs = dict[int, set[str]]


def _NeedsOf(snapshot: objects.Snapshot, about: About) -> _Needs:
    """Return the locks without which a finding cannot be judged."""
    code, kind, item = about
    if kind == CLUSTER:
        return {locking.LEVEL_NODE: set(snapshot.nodes)}
    if kind == INSTANCE:
        inst = snapshot.InstanceByName(item) if item is not None else None
        return {} if inst is None else {locking.LEVEL_INSTANCE: {inst.name}}
    node = snapshot.NodeByName(item) if item is not None else None
    if node is None:
        return {}
    if code in _OF_NODES:
        return {locking.LEVEL_NODE: {node.uuid}}
    there = [snapshot.instances[uuid] for role in snapshot.NodeInstances(node.uuid) for uuid in role]
    return {
        locking.LEVEL_INSTANCE: {inst.name for inst in there if not inst.forthcoming},
        locking.LEVEL_NODE: {node.uuid},
        # A job that took an instance's last volumes away from a node holds only this while it removes them.
        locking.LEVEL_NODE_RES: {node.uuid},
    }


def _Together(needs: Iterable[_Needs]) -> _Needs:
    needs = list(needs)
    return {level: set().union(*(one.get(level, ()) for one in needs)) for level in _LEVELS}


@contextmanager
def _Locked(lu: LogicalUnit, pending: Iterable[About]) -> Iterator[set[About]]:
    """Hold the shared locks of those findings at which no job works now; yield these."""
    pending = list(pending)
    try:
        for level, names in _Together(_NeedsOf(lu.snapshot, about) for about in pending).items():
            if names:
                lu.glm.acquire(level, sorted(names), shared=1, opportunistic=True)
        # Under the locks: an instance may have come to a node.
        owned = {level: lu.owned_locks(level) for level in _LEVELS}
        needs = {about: _NeedsOf(lu.snapshot, about) for about in pending}
        free = {about for about, one in needs.items() if all(names <= owned[level] for level, names in one.items())}
        for level, names in _Together(needs[about] for about in free).items():
            ReleaseLocks(lu, level, keep=names)
        yield free
    finally:
        for level in reversed(_LEVELS):
            ReleaseLocks(lu, level)
