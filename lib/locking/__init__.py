"""Who may touch what: the locks of the master, all in its memory.

::

    LockManager           one per master; the only thing logical units' processor talks to
      |  level 0  cluster     BGL             every operation shares it, a few take it alone
      |  level 1  instance    by name
      |  level 2  node-alloc  NAL             choosing nodes
      |  level 3  nodegroup   by uuid
      |  level 4  node        by uuid
      |  level 5  node-res    by uuid         heavy work on a node's disks
      v  level 6  network     by uuid
    LockSet               one level: its members and one lock over the set itself (``level/[lockset]``)
    SharedLock            one readers/writer lock with one queue per priority
    LockMonitor           who owns and who waits, for ``gnt-debug locks``

A thread takes levels from top to bottom and members by name, so no circle of waiters can form.

Glossary

* owner -- the thread that acquired; people see the name it gave itself with ``LockManager.SetOwnerName``, a job id
* set-lock -- taken when a whole level is wanted; nobody can add members meanwhile
* opportunistic -- takes whichever members are free, waits for none
* priority -- smaller is more urgent; queues of more urgent requests are served first
"""

from ganeti.locking.lockset import ALL_SET, LockSet
from ganeti.locking.manager import (
    BGL,
    LEVEL_CLUSTER,
    LEVEL_INSTANCE,
    LEVEL_NAMES,
    LEVEL_NETWORK,
    LEVEL_NODE,
    LEVEL_NODE_ALLOC,
    LEVEL_NODE_RES,
    LEVEL_NODEGROUP,
    LEVELS,
    LEVELS_MOD,
    NAL,
    LockManager,
)
from ganeti.locking.monitor import LockMonitor, LockRow
from ganeti.locking.shared import DEFAULT_PRIORITY, SharedLock

__all__ = [
    "ALL_SET",
    "BGL",
    "DEFAULT_PRIORITY",
    "LEVELS",
    "LEVELS_MOD",
    "LEVEL_CLUSTER",
    "LEVEL_INSTANCE",
    "LEVEL_NAMES",
    "LEVEL_NETWORK",
    "LEVEL_NODE",
    "LEVEL_NODE_ALLOC",
    "LEVEL_NODE_RES",
    "LEVEL_NODEGROUP",
    "LockManager",
    "LockMonitor",
    "LockRow",
    "LockSet",
    "NAL",
    "SharedLock",
]
