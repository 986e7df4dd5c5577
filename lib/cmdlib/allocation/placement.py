"""How a unit gets its nodes: an allocator chooses them, and only they are locked (doc/design-placement.rst)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, cast

from ganeti import errors, locking, params, runtime
from ganeti.cmdlib.allocation import DEFAULT_SHORTCUT, CheckAllocatorOrNode
from ganeti.cmdlib.allocation.ask import SLOW, Ask, Patience
from ganeti.cmdlib.allocation.requests import Allocate, AllocateSecondary, Relocate
from ganeti.cmdlib.base import DeclareAgain, LogicalUnit, Needed
from ganeti.cmdlib.common import ReleaseLocks

if TYPE_CHECKING:
    from ganeti import objects

Request = Allocate | Relocate | AllocateSecondary

# How often nodes are chosen while others change them first.
MAX_CHOICES = 5
# How many times as long as it took before an allocator may take, and keep others from choosing, when it is asked again.
_TIMES = 2
# Fields of an object that say how often and when it was written.
_BOOKKEEPING = {"serial_no": 0, "ctime": 0.0, "mtime": 0.0}

# What a second question may end with: no room, or an answer that cannot be used (not every program knows
# ``restrict-to-nodes``, which is of 3.1).  The first answer counts then, or a new choice.
_REFUSED = (errors.OpPrereqError, errors.OpExecError)


class _Caller:
    """The unit as an allocator's caller; messages are kept until the choice is final."""

    def __init__(self, lu: LogicalUnit):
        self._lu = lu
        self.messages: list[tuple[Callable[[str], None], str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lu, name)

    def LogInfo(self, message: str) -> None:
        self.messages.append((self._lu.LogInfo, message))

    def LogWarning(self, message: str) -> None:
        self.messages.append((self._lu.LogWarning, message))

    def Report(self) -> None:
        """Write the messages to the job's log, once."""
        messages, self.messages = self.messages, []
        for log, message in messages:
            log(message)


class Placement:
    """The nodes of a request: those it names, or those that an allocator chooses.

    ``allocator`` is None where the request names its nodes; then the unit does everything itself.  Otherwise::

        CheckArguments   Placement(self, ...)
        ExpandNames      Declare(...)
        DeclareLocks     DeclareLocks(level), for all levels
        CheckPrereq      Chosen()

    The allocator is asked while node-alloc and the groups are held, before any node is locked; then exactly the chosen nodes
    are.  What happened to them in between makes it ask again.
    """

    def __init__(
        self, lu: LogicalUnit, allocator_slot: str = "iallocator", node_slot: str = "pnode", required: bool = True
    ):
        """Decide who chooses; raise OpPrereqError if the request names both, or nobody can.

        ``required``: without either the cluster's default allocator chooses, otherwise nobody does.
        """
        if required or getattr(lu.op, allocator_slot):
            CheckAllocatorOrNode(lu, allocator_slot, node_slot)
        self.allocator: str | None = getattr(lu.op, allocator_slot)
        assert self.allocator != DEFAULT_SHORTCUT
        self._lu = lu
        self._caller = _Caller(lu)
        self._nodes: list[str] = []
        self._choices = 0
        self._longest = 0.0

    # --- what the unit calls ------------------------------------------------------------------------------------------

    def Declare(
        self,
        request: Callable[[], Request],
        groups: Callable[[], Needed],
        beside: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Declare the locks of a choice, from ExpandNames.

        ``request()`` is what to ask, ``groups()`` the node groups to choose from, ``beside()`` nodes that are locked whatever is
        chosen.  They are called when it is time, from DeclareLocks, maybe more than once.
        """
        lu = self._lu
        assert lu.needed_locks is not None
        self._request, self._groups, self._beside = request, groups, beside
        lu.needed_locks[locking.LEVEL_NODE_ALLOC] = locking.ALL_SET
        for level in (locking.LEVEL_NODEGROUP, locking.LEVEL_NODE, locking.LEVEL_NODE_RES):
            lu.needed_locks[level] = []
        lu.share_locks[locking.LEVEL_NODEGROUP] = 1

    def DeclareLocks(self, level: int) -> None:
        """Choose before the nodes are locked, and look again once they are."""
        lu = self._lu
        assert lu.needed_locks is not None
        if level == locking.LEVEL_NODEGROUP:
            lu.needed_locks[level] = self._groups()
        elif level == locking.LEVEL_NODE:
            self._Choose()
            lu.needed_locks[level] = list(dict.fromkeys([*self._beside(), *self._nodes]))
        elif level == locking.LEVEL_NODE_RES:
            if self._Facts(self._before) != self._Facts(lu.snapshot):
                self._ChooseAgain()
            ReleaseLocks(lu, locking.LEVEL_NODE_ALLOC)
            lu.needed_locks[level] = sorted(lu.owned_locks(locking.LEVEL_NODE))

    def Chosen(self) -> list[str]:
        """Return the uuids of the chosen nodes, the primary first; they are locked and as the allocator saw them."""
        self._caller.Report()
        return list(self._nodes)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _Choose(self) -> None:
        lu = self._lu
        self._choices += 1
        self._before = lu.snapshot
        request = self._request()
        if getattr(lu.op, "opportunistic_locking", False):
            request = self._AmongFree(request)
        nodes, self._caller = self._Ask(request)
        busy = set(nodes) - self._Free()
        if busy and isinstance(request, Allocate) and request.whitelist is None:
            nodes = self._PreferFree(request, nodes, busy)
        self._nodes = nodes
        self._CheckGroups()
        groups = {lu.snapshot.nodes[uuid].group for uuid in (*nodes, *self._beside())}
        ReleaseLocks(lu, locking.LEVEL_NODEGROUP, keep=groups)
        if self._choices == 1:
            # Others may choose now; whoever was overtaken once keeps them from doing it again.
            ReleaseLocks(lu, locking.LEVEL_NODE_ALLOC)

    def _Ask(self, request: Request, quiet: bool = False) -> tuple[list[str], _Caller]:
        """Return the allocator's choice and its messages; those of a failure are logged unless ``quiet``."""
        assert self.allocator is not None
        caller = _Caller(self._lu)
        # Whoever was overtaken once keeps others from choosing as long as its allocator has been seen to need.
        seconds = SLOW if self._choices == 1 else SLOW + _TIMES * self._longest
        began = runtime.Monotonic()
        try:
            return Ask(cast(LogicalUnit, caller), self.allocator, request, Patience(seconds, "gnt-job cancel")), caller
        except errors.GenericError as err:
            if quiet:
                logging.info("Asked again for %s, iallocator '%s' failed: %s", request.name, self.allocator, err)
            else:
                caller.Report()
            raise
        finally:
            self._longest = max(self._longest, runtime.Monotonic() - began)

    def _Free(self) -> set[str]:
        """Return the nodes on which no other job works or wants to."""
        glm = self._lu.glm
        return glm.FreeNames(locking.LEVEL_NODE) & glm.FreeNames(locking.LEVEL_NODE_RES)

    def _FreeNames(self, groups: Collection[str]) -> tuple[str, ...]:
        """Return the names of the free nodes of these groups."""
        snapshot = self._lu.snapshot
        nodes = [snapshot.nodes[uuid] for uuid in self._Free() if uuid in snapshot.nodes]
        return tuple(sorted(node.name for node in nodes if node.group in groups))

    def _AmongFree(self, request: Request) -> Allocate:
        """Return the request for free nodes only; raise OpPrereqError if there are too few of them."""
        assert isinstance(request, Allocate)
        free = self._FreeNames(self._lu.owned_locks(locking.LEVEL_NODEGROUP))
        if len(free) < request.required_nodes:
            busy = f"all nodes but {', '.join(free)}" if free else "all nodes"
            raise errors.OpPrereqError(
                f"Not enough nodes are free for instance {request.name}: it needs {request.required_nodes}, and other jobs"
                f" are at work on {busy}",
                errors.ECODE_TEMP_NORES,
            )
        return dataclasses.replace(request, whitelist=free)

    def _PreferFree(self, request: Allocate, first: list[str], busy: Collection[str]) -> list[str]:
        """Return free nodes, if there are some where the instance fits, rather than wait for the first choice.

        They are of the same group: which groups come first is the site's decision, and jobs are no reason to deviate from it.
        """
        snapshot = self._lu.snapshot
        group = snapshot.nodes[first[0]].group
        free = self._FreeNames({group})
        if len(free) < request.required_nodes:
            return first
        try:
            nodes, caller = self._Ask(dataclasses.replace(request, group_uuid=group, whitelist=free), quiet=True)
        except _REFUSED:
            return first
        names, at_work = (", ".join(map(snapshot.NodeName, uuids)) for uuids in (first, sorted(busy, key=first.index)))
        self._caller = caller
        caller.LogInfo(
            f"The first choice was {names}; other jobs are at work on {at_work}, so free nodes are used instead"
        )
        return nodes

    def _CheckGroups(self) -> None:
        snapshot, groups = self._lu.snapshot, self._lu.owned_locks(locking.LEVEL_NODEGROUP)
        outside = [snapshot.nodes[uuid] for uuid in self._nodes if snapshot.nodes[uuid].group not in groups]
        if outside:
            names = ", ".join(f"{node.name} of group {snapshot.nodegroups[node.group].name}" for node in outside)
            raise errors.OpExecError(
                f"iallocator '{self.allocator}' chose {names}, outside the groups that are allowed"
            )

    # --- what changed meanwhile ---------------------------------------------------------------------------------------

    def _Facts(self, snapshot: objects.Snapshot) -> list[Any]:
        """Return what the choice of these nodes depends on, as far as the configuration has it."""
        return [
            (
                snapshot.nodes[uuid].Replace(**_BOOKKEEPING),
                {one: _Demand(snapshot, one) for role in snapshot.NodeInstances(uuid) for one in role},
            )
            for uuid in self._nodes
        ]

    def _ChooseAgain(self) -> None:
        """Keep the locked nodes if they are still the choice; otherwise begin anew, a few times."""
        held = sorted(self._lu.owned_locks(locking.LEVEL_NODE))
        request = self._request()
        if isinstance(request, Allocate):
            names = map(self._lu.snapshot.NodeName, held)
            allowed = tuple(name for name in names if request.whitelist is None or name in request.whitelist)
            request = dataclasses.replace(request, whitelist=allowed)
        try:
            nodes, caller = self._Ask(request, quiet=True)
        except _REFUSED:
            nodes = []
        if nodes and set(nodes) <= set(held):
            self._nodes, self._caller = nodes, caller
            return
        if self._choices >= MAX_CHOICES:
            names_text = ", ".join(map(self._lu.snapshot.NodeName, self._nodes))
            raise errors.OpPrereqError(
                f"Nodes for instance {request.name} were chosen {self._choices} times, and each time other jobs changed them"
                f" before they were locked, the last time {names_text}; try again",
                errors.ECODE_STATE,
            )
        raise DeclareAgain


def _Demand(snapshot: objects.Snapshot, uuid: str) -> tuple[Any, ...]:
    """Return what an instance takes of its nodes, and what decides which others it may be beside."""
    instance = snapshot.instances[uuid]
    disks = [(disk.dev_type, disk.size, disk.spindles) for disk in snapshot.InstanceDisks(instance)]
    filled = params.FillBE(snapshot, instance)
    return instance.admin_state, filled, disks, sorted(instance.tags), snapshot.AllNodes(instance)
