"""What an allocator may answer, and what it means (doc/reference/interfaces.md d.4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ganeti import errors, ht, objects, opcodes, serializer
from ganeti.cmdlib.allocation import requests
from ganeti.cmdlib.allocation.clusterdata import ClusterData
from ganeti.htools.choosing.explain import InWords
from ganeti.htools.model.entities import Failure
from ganeti.params import disk as disk_params
from ganeti.utils.text import Printable, Repeated

T = TypeVar("T")

MAX_ANSWER = 10 * 1024 * 1024
_SHOWN = 100
# Characters of a reason, which end up in the job's log and error.
MAX_INFO = 30000
# What to do about an allocator that does not work.
OTHER_WAY = "name the nodes yourself, or use another allocator"
# A job for each step, at the most; hail needs three for an instance.
_MAX_OPCODES = 10

_Names = ht.TListOf(ht.TNonEmptyString)
_Placed = ht.TItems(ht.TNonEmptyString, _Names)
_Failed = ht.TOr(ht.TNonEmptyString, ht.TItems(ht.TNonEmptyString, ht.TAny))
_Allocated = ht.TItems(ht.TListOf(_Placed), ht.TListOf(_Failed))
_Moved = ht.TItems(ht.TNonEmptyString, ht.TNonEmptyString, _Names)
_Unmoved = ht.TItems(ht.TNonEmptyString, ht.TString)
_Evacuated = ht.TItems(ht.TListOf(_Moved), ht.TListOf(_Unmoved), ht.TListOf(ht.TListOf(ht.TDict)))

MOVING_OPCODES = frozenset(["OP_INSTANCE_FAILOVER", "OP_INSTANCE_MIGRATE", "OP_INSTANCE_REPLACE_DISKS"])
_NODE_SLOTS = ("target_node", "remote_node")
# What an opcode of an answer may not have.  The answer says where an instance goes: nobody is asked again ("iallocator"), nodes
# and instances are named, not identified by what was not checked ("..._uuid"), a "cleanup" or "dry_run" moves nothing, and only an
# administrator gives up data ("ignore_consistency").  Which jobs wait for which, and for what, is for the unit that submits them.
_NOT_ALLOWED = (
    "depends", "iallocator", "instance_uuid", "target_node_uuid", "remote_node_uuid", "cleanup", "keep_node", "keep_node_uuid",
    "dry_run", "if_match", "if_primary", "ignore_consistency",
)  # fmt: skip
# What is dropped: 3.1's own opcodes can have these, and the jobs get those of the request.
_DROPPED = frozenset(["priority", "debug_level", "comment", "reason"])


@dataclass(frozen=True)
class Response:
    """What an allocator said."""

    success: bool
    info: str
    result: Any


def _Bad(name: str, what: str) -> errors.OpExecError:
    return errors.OpExecError(
        f"Can't parse the results of iallocator '{name}': {what}",
        hint=OTHER_WAY,
    )


def _Short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def Parse(name: str, text: str) -> Response:
    """Return the response that an allocator printed; raises OpExecError."""
    try:
        serializer.CheckCost([text.encode("utf-8", "replace")])
        value = serializer.LoadProper(text, MAX_ANSWER)
    except errors.ParseError as err:
        raise _Bad(name, f"{err}; it printed {_Short(text)}") from err
    if not isinstance(value, dict):
        raise _Bad(name, f"not an object: {_Short(value)}")
    if "nodes" in value and "result" not in value:
        value["result"] = value.pop("nodes")  # version 1 of the protocol
    for key in ("success", "info", "result"):
        if key not in value:
            raise _Bad(name, f"missing key '{key}'")
    if not isinstance(value["success"], bool):
        raise _Bad(name, f"'success' must be true or false, not {_Short(value['success'])}")
    if not isinstance(value["info"], str):
        raise _Bad(name, f"'info' must be a text, not {_Short(value['info'])}")
    # What follows a line break would look like a message of ours.
    return Response(value["success"], Printable(value["info"][:MAX_INFO]), value["result"])


def Check(name: str, data: ClusterData, request: requests.Request, response: Response) -> Any:
    """Return the result of a request, translated to uuids; raises OpPrereqError and OpExecError as ``Ask`` does."""
    if not response.success:
        whitelist = getattr(request, "whitelist", None)
        # Of a new instance the job's log says more, but not where the memory is missing.
        moves = isinstance(request, (requests.Relocate, requests.AllocateSecondary))
        explained = moves or Failure.N1.value in response.info
        raise errors.OpPrereqError(
            f"Can't compute nodes using iallocator '{name}': {response.info}",
            errors.ECODE_NORES if whitelist is None else errors.ECODE_TEMP_NORES,
            hint=(InWords(response.info) if explained else "") or None,
        )
    return _CHECKS[type(request)](_Checker(name, data), request, response.result)


class _Checker:
    """Checks the parts of one answer against the cluster that the allocator was told of."""

    def __init__(self, name: str, data: ClusterData):
        self.name = name
        self.data = data
        self.snapshot = data.snapshot

    def Refuse(self, what: str) -> errors.OpExecError:
        return errors.OpExecError(f"iallocator '{self.name}' {what}", hint=OTHER_WAY)

    def Shape(self, value: Any, kind: Callable[[Any], bool]) -> None:
        if not kind(value):
            raise self.Refuse(f"returned an invalid result, expected {kind}, got {_Short(value)}")

    def Node(self, word: str, allowed: Collection[str] | None = None, group: str | None = None) -> str:
        """Return the uuid of a node that an instance may go to."""
        node = self.snapshot.NodeByName(word)
        if node is None:
            raise self.Refuse(f"chose node {_Short(word)}, which is not in the cluster")
        if self.data.Offline(node):
            raise self.Refuse(f"chose node {word}, which is offline or does not answer")
        if node.drained:
            raise self.Refuse(f"chose node {word}, which is drained")
        if not node.vm_capable:
            raise self.Refuse(f"chose node {word}, which cannot run instances")
        if allowed is not None and word not in allowed:
            raise self.Refuse(f"chose node {word}, which is not among those that were offered")
        if group is not None and node.group != group:
            raise self.Refuse(f"chose node {word}, which is not in node group {self.snapshot.nodegroups[group].name}")
        return node.uuid

    def Count(self, nodes: Sequence[str], required: int) -> None:
        if len(nodes) != required:
            raise self.Refuse(f"returned invalid number of nodes ({len(nodes)}), required {required}")
        if again := Repeated(nodes):
            raise self.Refuse(f"named a node more than once: {', '.join(again)}")

    def Places(self, wanted: requests.Allocate, nodes: Sequence[str], whitelist: Collection[str] | None) -> list[str]:
        """Return the uuids of the nodes of a new instance."""
        self.Count(nodes, wanted.required_nodes)
        uuids = [self.Node(node, whitelist, wanted.group_uuid) for node in nodes]
        self._OneGroup(uuids)
        return uuids

    def _OneGroup(self, uuids: Sequence[str]) -> None:
        if len(self.Groups(uuids)) > 1:
            names = ", ".join(self.snapshot.NodeName(uuid) for uuid in uuids)
            raise self.Refuse(f"chose nodes of several node groups: {names}")

    def Instance(self, name: str) -> objects.Instance:
        """Return an instance that the request names."""
        instance = self.snapshot.InstanceByName(name)
        assert instance is not None, f"{name} is not in the configuration"
        return instance

    def Groups(self, uuids: Collection[str]) -> set[str]:
        return {self.snapshot.nodes[uuid].group for uuid in uuids}


def _Allocate(check: _Checker, request: requests.Allocate, result: Any) -> list[str]:
    check.Shape(result, _Names)
    return check.Places(request, result, request.whitelist)


def _Relocate(check: _Checker, request: requests.Relocate, result: Any) -> list[str]:
    check.Shape(result, _Names)
    check.Count(result, request.required_nodes)
    snapshot = check.snapshot
    instance = check.Instance(request.name)
    uuids = [check.Node(node) for node in result]
    stays = set(result) & {snapshot.NodeName(uuid) for uuid in snapshot.AllNodes(instance)}
    if stays:
        raise check.Refuse(f"chose node {', '.join(stays)} for instance {request.name}, which is already there")
    template = disk_params.TEMPLATES.get(snapshot.DiskTemplate(instance))
    kept = [instance.primary_node] if template is not None and template.mirror == disk_params.INTERNAL else []
    left = [node.uuid for node in map(snapshot.NodeByName, request.relocate_from) if node is not None]
    old, new = check.Groups([*left, *kept]), check.Groups([*uuids, *kept])
    if not new <= old:
        names = [", ".join(sorted(snapshot.nodegroups[uuid].name for uuid in groups)) for groups in (new, old)]
        raise check.Refuse(f"chose nodes of other node groups ({names[0]}) than before ({names[1]})")
    return uuids


def _AllocateSecondary(check: _Checker, request: requests.AllocateSecondary, result: Any) -> list[str]:
    check.Shape(result, ht.TNonEmptyString)
    instance = check.Instance(request.name)
    uuid = check.Node(result, None, check.snapshot.nodes[instance.primary_node].group)
    if uuid == instance.primary_node:
        raise check.Refuse(f"chose node {result}, which is the primary node of {request.name}")
    return [uuid]


def _MultiAllocate(check: _Checker, request: requests.MultiAllocate, result: Any) -> requests.Allocated:
    check.Shape(result, _Allocated)
    wanted = {one.name: one for one in request.instances}
    placed: list[tuple[str, list[str]]] = []
    failed = [entry if isinstance(entry, str) else entry[0] for entry in result[1]]
    named = [name for name, _ in result[0]] + failed
    if sorted(named) != sorted(wanted):
        raise check.Refuse(
            f"answered about instances {_Short(sorted(named))}, was asked about {_Short(sorted(wanted))}"
        )
    for name, nodes in result[0]:
        whitelist = wanted[name].whitelist if request.whitelist is None else request.whitelist
        placed.append((name, check.Places(wanted[name], nodes, whitelist)))
    return requests.Allocated(placed, failed)


def _Evacuate(
    check: _Checker, request: requests.NodeEvacuate | requests.ChangeGroup, result: Any
) -> requests.Evacuation:
    check.Shape(result, _Evacuated)
    wanted = set(request.instances)
    named = [entry[0] for entry in (*result[0], *result[1])]
    foreign = sorted(set(named) - wanted)
    if foreign:
        raise check.Refuse(f"answered about instances that were not named: {', '.join(foreign)}")
    missing = sorted(wanted - set(named))
    if missing:
        raise check.Refuse(f"said nothing about instances {', '.join(missing)}")
    if again := Repeated(named):
        raise check.Refuse(f"answered more than once about the same instance: {', '.join(again)}")
    moved = []
    for name, _, nodes in result[0]:
        uuids = [_Known(check, node) for node in nodes]
        if not uuids:
            raise check.Refuse(f"named no node for instance {name}")
        _CheckLeft(check, request, name, uuids)
        moved.append((name, check.snapshot.nodes[uuids[0]].group, uuids))
    steps = max(len(result[2]), sum(map(len, result[2])))
    if steps > _MAX_OPCODES * len(wanted):
        raise check.Refuse(f"returned {steps} jobs or opcodes for {len(wanted)} instances")
    if not all(result[2]):
        raise check.Refuse("returned a job without opcodes")
    allowed = {name: _GroupsFor(check, request, name) for name in wanted}
    jobs = [[_Opcode(check, allowed, opcode) for opcode in job] for job in result[2]]
    return requests.Evacuation(moved, [(name, reason[:MAX_INFO]) for name, reason in result[1]], jobs)


def _CheckLeft(
    check: _Checker, request: requests.NodeEvacuate | requests.ChangeGroup, name: str, uuids: Sequence[str]
) -> None:
    """Refuse an answer that leaves an instance where it was asked to move it from."""
    if not isinstance(request, requests.NodeEvacuate):
        return
    before = check.snapshot.AllNodes(check.Instance(name))
    kept = {
        requests.PRIMARY_ONLY: set(uuids[:1]) & set(before[:1]),
        requests.SECONDARY_ONLY: set(uuids) & set(before[1:]),
    }.get(request.mode, set())
    for uuid in kept:
        raise check.Refuse(f"left instance {name} on node {check.snapshot.NodeName(uuid)}, which it was asked to empty")


def _GroupsFor(check: _Checker, request: requests.NodeEvacuate | requests.ChangeGroup, name: str) -> set[str]:
    """Return the node groups to which an instance may be moved; some of its nodes may stay."""
    snapshot = check.snapshot
    own = check.Groups(snapshot.AllNodes(check.Instance(name)))
    if isinstance(request, requests.ChangeGroup):
        return own.union(request.target_groups or snapshot.nodegroups)
    return own


def _Balance(check: _Checker, request: requests.Balance, result: Any) -> requests.Evacuation:
    check.Shape(result, _Evacuated)
    names = [entry[0] for entry in result[0]]
    unknown = [name for name in names if check.snapshot.InstanceByName(name) is None]
    if unknown:
        raise check.Refuse(f"moved instances that do not exist: {_Short(unknown)}")
    if len(result[2]) > request.max_moves:
        raise check.Refuse(f"returned {len(result[2])} moves, at most {request.max_moves} were asked for")
    return _Evacuate(check, requests.NodeEvacuate(tuple(names), requests.ALL), result)


def _Capacity(check: _Checker, request: requests.Capacity, result: Any) -> list[list[str]]:
    check.Shape(result, ht.TListOf(_Names))
    if len(result) > request.limit:
        raise check.Refuse(f"placed {len(result)} instances, at most {request.limit} were asked for")
    return [check.Places(request.instance, nodes, request.instance.whitelist) for nodes in result]


def _Known(check: _Checker, word: str) -> str:
    """Return the uuid of a node where an instance is afterwards; it may have been there before."""
    node = check.snapshot.NodeByName(word)
    if node is None:
        raise check.Refuse(f"chose node {_Short(word)}, which is not in the cluster")
    return node.uuid


def _Opcode(check: _Checker, groups: Mapping[str, Collection[str]], values: Mapping[str, Any]) -> opcodes.OpCode:
    """Return an opcode that moves an instance; ``groups``: those to which each may go."""
    op_id = values.get("OP_ID")
    if op_id not in MOVING_OPCODES:
        raise check.Refuse(f"returned opcode {_Short(op_id)}; allowed are {', '.join(sorted(MOVING_OPCODES))}")
    try:
        op = opcodes.OpCode.FromDict({key: value for key, value in values.items() if key not in _DROPPED})
    except errors.ParseError as err:
        raise check.Refuse(f"returned an opcode that cannot be used: {err}") from err
    name: Any = getattr(op, "instance_name", None)
    if name not in groups:
        raise check.Refuse(f"returned an opcode for instance {_Short(name)}, which was not named")
    for slot in _NOT_ALLOWED:
        if getattr(op, slot, None):
            raise check.Refuse(f"returned an opcode for instance {name} with '{slot}', which an allocator may not set")
    for slot in _NODE_SLOTS:
        node = getattr(op, slot, None)
        if node is not None and check.snapshot.nodes[check.Node(node)].group not in groups[name]:
            raise check.Refuse(f"chose node {node} for instance {name}, which is in a node group that is not allowed")
    return op


_CHECKS: Mapping[type, Callable[[_Checker, Any, Any], Any]] = {
    requests.Allocate: _Allocate,
    requests.Relocate: _Relocate,
    requests.AllocateSecondary: _AllocateSecondary,
    requests.MultiAllocate: _MultiAllocate,
    requests.NodeEvacuate: _Evacuate,
    requests.ChangeGroup: _Evacuate,
    requests.Balance: _Balance,
    requests.Capacity: _Capacity,
}
