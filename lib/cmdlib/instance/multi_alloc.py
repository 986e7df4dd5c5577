"""Creating several instances with one request to the allocator (doc/reference/drivers.md d.6)."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ganeti import constants, errors, locking, opcodes
from ganeti.cmdlib.allocation import DEFAULT_SHORTCUT
from ganeti.cmdlib.allocation.ask import Ask
from ganeti.cmdlib.allocation.requests import Allocate, MultiAllocate
from ganeti.cmdlib.base import Feedback, NoHooksLU, ResultWithJobs
from ganeti.cmdlib.common import ExpandGroup, ExpandNode, Invalid
from ganeti.cmdlib.instance.create import LUInstanceCreate, NormalizeName
from ganeti.cmdlib.instance.shape import CheckSomePolicy, JudgeNew, OfDefinition
from ganeti.utils.text import NiceSort

AUTO = constants.VALUE_AUTO


class LUInstanceMultiAlloc(NoHooksLU[opcodes.OpInstanceMultiAlloc]):
    """Find nodes for several instances at once, and submit a job for each that creates it.

    ``instances`` all name their nodes, or none does.
    """

    REQ_BGL = False
    CHANGES_NODES = False  # its jobs do

    _ops: list[opcodes.OpInstanceCreate]
    _failed: list[str]

    # --- the request by itself ----------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        op = self.op
        self._ops = [_ParseOne(number, item) for number, item in enumerate(op.instances)]
        double = [name for name, count in Counter(one.instance_name for one in self._ops).items() if count > 1]
        if double:
            raise Invalid(f"There are duplicate instance names: {', '.join(NiceSort(double))}")
        named = [one.pnode is not None for one in self._ops]
        if any(named) and not all(named):
            without = NiceSort(one.instance_name for one in self._ops if one.pnode is None)
            raise Invalid(f"Some instances name their nodes and others do not: {', '.join(without)}")
        if any(named) and op.iallocator is not None:
            raise Invalid("The instances name their nodes: an allocator cannot be given as well")
        if not all(named) and op.iallocator in (None, DEFAULT_SHORTCUT):
            op.iallocator = self.snapshot.cluster.default_iallocator or None
            if op.iallocator is None:
                raise Invalid(
                    "Neither an allocator nor nodes were given, and the cluster has no default allocator",
                    hint="give an allocator (-I), or name the nodes of each instance (pnode, snode)",
                )
        if op.opportunistic_locking and op.iallocator is None:
            raise Invalid("Opportunistic locking is only available in combination with an instance allocator")
        for one in self._ops:
            with _Named(one):
                self._CheckJob(one)

    def _CheckJob(self, one: opcodes.OpInstanceCreate) -> None:
        """Raise OpPrereqError if the job that creates the instance must fail, wherever that is."""
        if one.commit:
            raise Invalid(
                "A reserved instance has its nodes already",
                hint=f"'gnt-instance add --commit {one.instance_name}' makes it real",
            )
        if one.mode != constants.CREATE_NEW:
            raise Invalid(f"Creation mode '{one.mode}' is possible for one instance at a time only")
        if one.opportunistic_locking:
            raise Invalid("Opportunistic locking can only be requested for all instances together")
        if one.pnode is None and (one.snode, one.pnode_uuid, one.snode_uuid) != (None, None, None):
            raise Invalid("Its definition names a node, but no primary node (pnode)")
        # Reserving the MAC addresses here would take them from the jobs; their names are resolved there alone, too.
        nics = [{**nic, "mac": None, "ip": None if nic.get("ip") == AUTO else nic.get("ip")} for nic in one.nics]
        probe = copy.copy(one)
        probe.nics, probe.name_check, probe.ip_check = nics, False, bool(one.ip_check and not one.name_check)
        if one.pnode is None:
            probe.iallocator = self.op.iallocator
        LUInstanceCreate(self.proc, probe, self.context).CheckAlone()

    # --- locks --------------------------------------------------------------------------------------------------------

    def ExpandNames(self) -> None:
        """Lock what the allocator's choice needs, and nothing where the nodes are named: the jobs look at them."""
        self.needed_locks = {}
        snapshot = self.snapshot
        if self.op.iallocator is not None:
            groups = {
                None if one.group_name is None else ExpandGroup(snapshot, one.group_name).uuid for one in self._ops
            }
            named = sorted(uuid for uuid in groups if uuid is not None)
            self.needed_locks[locking.LEVEL_NODE_ALLOC] = locking.ALL_SET
            self.needed_locks[locking.LEVEL_NODEGROUP] = named if None not in groups else locking.ALL_SET
            self.share_locks[locking.LEVEL_NODEGROUP] = 1
            return
        for one in self._ops:
            for slot in ("pnode", "snode"):
                name = getattr(one, slot)
                if name is not None:
                    setattr(one, slot, ExpandNode(snapshot, name, getattr(one, f"{slot}_uuid")).name)

    def _FreeNodes(self) -> tuple[str, ...]:
        """Return the names of the nodes on which no other job works or wants to."""
        free = self.glm.FreeNames(locking.LEVEL_NODE) & self.glm.FreeNames(locking.LEVEL_NODE_RES)
        nodes = self.snapshot.nodes
        return tuple(NiceSort(nodes[uuid].name for uuid in free if uuid in nodes))

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        self._failed = []
        if self.op.iallocator is not None and self._ops:
            self._Choose(self.op.iallocator)
        self.dry_run_result = {"jobs": [], **self._Names()}

    def _Choose(self, allocator: str) -> None:
        """Let the allocator choose the nodes of all instances; those that fit nowhere are left out."""
        snapshot = self.snapshot
        there = NiceSort(one.instance_name for one in self._ops if snapshot.InstanceByName(one.instance_name))
        if there:
            raise errors.OpPrereqError(
                f"These instances are already in the cluster: {', '.join(there)}",
                errors.ECODE_EXISTS,
                hint="leave them out of the request",
            )
        whitelist = self._FreeNodes() if self.op.opportunistic_locking else None
        request = MultiAllocate(tuple(self._Request(one) for one in self._ops), whitelist)
        self._CheckPolicies(request)
        most = max(one.required_nodes for one in request.instances)
        if whitelist is not None and len(whitelist) < most:
            raise errors.OpPrereqError(
                f"Only {len(whitelist)} of the {most} nodes that an instance needs are free for now: other jobs work on the"
                " rest",
                errors.ECODE_TEMP_NORES,
                hint="try again, or wait for busy nodes by leaving out opportunistic locking",
            )
        answer = Ask(self, allocator, request)
        wanted = {one.instance_name: one for one in self._ops}
        self._ops = []
        for name, uuids in answer.placed:
            one = wanted[name]
            names = [snapshot.nodes[uuid].name for uuid in uuids]
            one.pnode, one.snode = names[0], names[1] if len(names) > 1 else None
            self._ops.append(one)
        self._failed = answer.failed
        if self._failed:
            self.LogWarning(f"No place was found for these instances: {', '.join(self._failed)}")

    def _Request(self, one: opcodes.OpInstanceCreate) -> Allocate:
        with _Named(one):
            return OfDefinition(self.snapshot, one)

    def _CheckPolicies(self, request: MultiAllocate) -> None:
        """Raise OpPrereqError if policies forbid some of the instances wherever they might go."""
        groups = self.owned_locks(locking.LEVEL_NODEGROUP)
        judged = [
            (one.name, JudgeNew(self.snapshot, one), groups if one.group_uuid is None else (one.group_uuid,))
            for one in request.instances
            if not one.ignore_policy
        ]
        CheckSomePolicy(self.snapshot, judged, "change their definitions, or set 'ignore_ipolicy' in them")

    def _Names(self) -> dict[str, list[str]]:
        return {"allocatable": [one.instance_name for one in self._ops], "failed": self._failed}

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        return ResultWithJobs([[one] for one in self._ops], **self._Names())


@contextmanager
def _Named(one: opcodes.OpInstanceCreate) -> Iterator[None]:
    """Name the instance in errors of the body."""
    try:
        yield
    except errors.OpPrereqError as err:
        named = f"Instance '{one.instance_name}': {err.args[0]}"
        raise errors.OpPrereqError(named, *err.args[1:], hint=err.hint) from err


def _ParseOne(number: int, item: Any) -> opcodes.OpInstanceCreate:
    """Return the opcode of one item of the request."""
    try:
        one = opcodes.OpCode.FromDict(item)
    except errors.ParseError as err:
        raise Invalid(f"Instance definition {number}: {err}") from err
    if not isinstance(one, opcodes.OpInstanceCreate):
        raise Invalid(f"Instance definition {number}: {one.OP_ID} does not create an instance")
    if one.iallocator is not None:
        raise Invalid(f"Instance definition {number}: an allocator can only be given for all instances together")
    one.instance_name = NormalizeName(one.instance_name)
    return one
