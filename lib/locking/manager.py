"""All locks of one master, by level, and the rules about the order of levels (doc/reference/locking.md 1, 4).

Breaking the order is an AssertionError at once, never a wait: two threads that took levels in different orders could
wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from ganeti.locking.lockset import LockNames, LockSet
from ganeti.locking.monitor import LockMonitor, LockRow, RowsSource

LEVEL_CLUSTER = 0
LEVEL_INSTANCE = 1
LEVEL_NODE_ALLOC = 2
LEVEL_NODEGROUP = 3
LEVEL_NODE = 4
LEVEL_NODE_RES = 5
LEVEL_NETWORK = 6

LEVELS = (
    LEVEL_CLUSTER,
    LEVEL_INSTANCE,
    LEVEL_NODE_ALLOC,
    LEVEL_NODEGROUP,
    LEVEL_NODE,
    LEVEL_NODE_RES,
    LEVEL_NETWORK,
)

# Levels whose members come and go with objects of the configuration.
LEVELS_MOD = frozenset([LEVEL_INSTANCE, LEVEL_NODEGROUP, LEVEL_NODE, LEVEL_NODE_RES, LEVEL_NETWORK])

LEVEL_NAMES = {
    LEVEL_CLUSTER: "cluster",
    LEVEL_INSTANCE: "instance",
    LEVEL_NODE_ALLOC: "node-alloc",
    LEVEL_NODEGROUP: "nodegroup",
    LEVEL_NODE: "node",
    LEVEL_NODE_RES: "node-res",
    LEVEL_NETWORK: "network",
}

BGL = "BGL"
NAL = "NAL"


class LockManager:
    """One per master.  Members of the node level and of node-res are node uuids, of the instance level names."""

    def __init__(
        self,
        nodes: Iterable[str],
        groups: Iterable[str],
        instances: Iterable[str],
        networks: Iterable[str],
    ):
        node_uuids = list(nodes)
        members: dict[int, Iterable[str]] = {
            LEVEL_CLUSTER: [BGL],
            LEVEL_INSTANCE: instances,
            LEVEL_NODE_ALLOC: [NAL],
            LEVEL_NODEGROUP: groups,
            LEVEL_NODE: node_uuids,
            LEVEL_NODE_RES: node_uuids,
            LEVEL_NETWORK: networks,
        }
        self._monitor = LockMonitor()
        self._sets = {level: LockSet(members[level], LEVEL_NAMES[level], self._monitor) for level in LEVELS}

    # --- questions about the calling thread ---------------------------------------------------------------------------

    def is_owned(self, level: int) -> bool:
        return self._sets[level].is_owned()

    def list_owned(self, level: int) -> set[str]:
        return self._sets[level].list_owned()

    def check_owned(self, level: int, names: Iterable[str] | str, shared: int = -1) -> bool:
        return self._sets[level].check_owned(names, shared)

    def owning_all(self, level: int) -> bool:
        return self._sets[level].owning_all()

    def Names(self, level: int) -> set[str]:
        """Return the members of a level that exist now."""
        return self._sets[level].Names()

    def FreeNames(self, level: int) -> set[str]:
        """Return the members of a level that nobody holds or waits for at the moment."""
        return self._sets[level].FreeNames()

    def _OwnsAbove(self, level: int) -> bool:
        return any(self._sets[other].is_owned() for other in LEVELS if other > level)

    def _OwnsBgl(self) -> bool:
        return self._sets[LEVEL_CLUSTER].list_owned() == {BGL}

    # --- acquiring and giving back ------------------------------------------------------------------------------------

    def acquire(
        self,
        level: int,
        names: LockNames,
        timeout: float | None = None,
        shared: int = 0,
        priority: int | None = None,
        opportunistic: bool = False,
    ) -> set[str] | None:
        """Take locks of one level (LockSet.acquire); the BGL must be owned, and nothing of a later level."""
        assert level == LEVEL_CLUSTER or self._OwnsBgl(), "the BGL must be owned before any other lock"
        assert not self._OwnsAbove(level), f"level {LEVEL_NAMES[level]} asked for while owning a later one"
        return self._sets[level].acquire(names, timeout, shared, priority, opportunistic)

    def AcquireAndAdd(
        self,
        level: int,
        names: Iterable[str] | str,
        making: Iterable[str] | str,
        timeout: float | None = None,
        priority: int | None = None,
    ) -> bool:
        """Take locks of one level and make others there (LockSet.AcquireAndAdd); as ``acquire`` and ``add`` demand."""
        self._CheckAdding(level)
        return self._sets[level].AcquireAndAdd(names, making, timeout, priority)

    def release(self, level: int, names: Iterable[str] | str | None = None) -> None:
        """Give locks of one level back, all if None; the BGL is the last."""
        assert level != LEVEL_CLUSTER or not self._OwnsAbove(level), "the BGL is released before other locks"
        self._sets[level].release(names)

    def downgrade(self, level: int, names: Iterable[str] | str | None = None) -> bool:
        return self._sets[level].downgrade(names)

    # --- members come and go ------------------------------------------------------------------------------------------

    def add(
        self,
        level: int,
        names: Iterable[str] | str,
        acquired: int = 0,
        shared: int = 0,
        timeout: float | None = None,
        priority: int | None = None,
    ) -> bool:
        """Make locks for new objects (LockSet.add); the BGL must be owned, and nothing of a later level."""
        self._CheckAdding(level)
        return self._sets[level].add(names, acquired, shared, timeout, priority)

    def _CheckAdding(self, level: int) -> None:
        assert level in LEVELS_MOD, f"the members of level {LEVEL_NAMES[level]} are fixed"
        assert self._OwnsBgl(), "the BGL must be owned before locks are added"
        assert not self._OwnsAbove(level), f"locks added at level {LEVEL_NAMES[level]} while owning a later one"

    def remove(self, level: int, names: Iterable[str] | str) -> list[str]:
        """Delete the locks of objects that are gone (LockSet.remove)."""
        assert level in LEVELS_MOD, f"the members of level {LEVEL_NAMES[level]} are fixed"
        assert self._OwnsBgl(), "the BGL must be owned while locks are removed"
        assert self.is_owned(level) or not self._OwnsAbove(level), (
            f"locks removed at level {LEVEL_NAMES[level]} while owning a later one"
        )
        return self._sets[level].remove(names)

    # --- for people ---------------------------------------------------------------------------------------------------

    def SetOwnerName(self, name: str | None) -> None:
        """Name the calling thread in listings, a job id; None goes back to the thread's own name."""
        self._monitor.SetOwnerName(name)

    def EndWaits(self, name: str) -> None:
        """End the waits of the thread that has this owner name: its requests fail as at their time-out."""
        self._monitor.EndWaits(name)

    def AddToLockMonitor(self, source: RowsSource) -> None:
        """Add rows of another room to the listing: the queue's waiting jobs."""
        self._monitor.AddSource(source)

    def QueryLocks(self) -> list[LockRow]:
        """Return all locks with their owners and waiters, sorted by name."""
        return self._monitor.Rows()
