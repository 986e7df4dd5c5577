"""What many logical units do alike: names, locks, states of nodes and instances (doc/reference/locking.md 8.1, drivers.md d.0)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ganeti import constants, errors, locking, params, runtime
from ganeti.cmdlib.base import LogicalUnit, Tasklet
from ganeti.params import nd, types

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc import RpcResult

# A node that need not answer is not waited for longer, in seconds.
BRIEF = 3.0
# Sets of admin states that a check allows.
STATE_DOWN = (constants.ADMINST_DOWN,)
STATE_ONLINE = (constants.ADMINST_UP, constants.ADMINST_DOWN)
STATE_NOT_RUNNING = (constants.ADMINST_DOWN, constants.ADMINST_OFFLINE)

REPLACE, APPEND = "replace", "append"

T = TypeVar("T")


# --- calls --------------------------------------------------------------------------------------------------------------


def Briefly(caller: LogicalUnit | Tasklet, name: str, node_uuid: str, args: Sequence[Any]) -> RpcResult:
    """Call a node, and wait for ``BRIEF`` only: it may go on working then."""
    results: list[RpcResult] = []
    ready = runtime.Event()

    def done(result: RpcResult) -> None:
        results.append(result)
        ready.set()

    caller.rpc.Start(name, [node_uuid], args, done, BRIEF)
    ready.wait()
    return results[0]


# --- names --------------------------------------------------------------------------------------------------------------


def _CheckUuid(kind: str, obj: Any, expected: str | None) -> None:
    if expected is not None and expected != obj.uuid:
        raise errors.OpPrereqError(
            f"The {kind} '{obj.name}' has uuid {obj.uuid}, the request expected {expected}: it was re-created or renamed",
            errors.ECODE_NOTUNIQUE,
        )


def NoCommunication() -> errors.OpPrereqError:
    """Return the refusal of what needs the metadata daemon."""
    return errors.OpPrereqError(
        "Instance communication is not supported in this release, which has no metadata daemon that instances could talk to",
        errors.ECODE_INVAL,
    )


def Invalid(message: str, *, hint: str | None = None, ecode: str = errors.ECODE_INVAL) -> errors.OpPrereqError:
    """Return the error for a request that is wrong in itself."""
    return errors.OpPrereqError(message, ecode, hint=hint)


def ExpandNode(snapshot: objects.Snapshot, name: str, uuid: str | None = None) -> objects.Node:
    """Return the node of a name, short name or uuid; raise OpPrereqError unless it is the expected one."""
    node: objects.Node | None = snapshot.ExpandName("node", name)
    if node is None:
        raise errors.OpPrereqError(f"Node '{name}' not known", errors.ECODE_NOENT, hint="see 'gnt-node list'")
    _CheckUuid("node", node, uuid)
    return node


def ExpandOtherNode(lu: LogicalUnit, slot: str) -> objects.Node | None:
    """Return the node that the opcode's optional parameter ``slot`` names; put full name and uuid into the opcode."""
    name = getattr(lu.op, slot)
    if name is None:
        return None
    node = ExpandNode(lu.snapshot, name, getattr(lu.op, f"{slot}_uuid"))
    setattr(lu.op, slot, node.name)
    setattr(lu.op, f"{slot}_uuid", node.uuid)
    return node


def ExpandInstance(snapshot: objects.Snapshot, name: str, uuid: str | None = None) -> objects.Instance:
    """Do the same as ExpandNode for an instance."""
    instance: objects.Instance | None = snapshot.ExpandName("instance", name)
    if instance is None:
        raise errors.OpPrereqError(f"Instance '{name}' not known", errors.ECODE_NOENT, hint="see 'gnt-instance list'")
    _CheckUuid("instance", instance, uuid)
    CheckNotBare(snapshot, instance)
    return instance


def CheckNotBare(snapshot: objects.Snapshot, instance: objects.Instance) -> None:
    """Raise OpPrereqError if this is a reservation without what jobs need (doc/reference/config.md 8.1)."""
    if snapshot.IsBare(instance):
        what = "a name" if instance.name is None else "all that an instance must have"
        raise errors.OpPrereqError(
            f"Instance {instance.known_as} is only a reservation without {what} (forthcoming): it can be removed,"
            " nothing else",
            errors.ECODE_STATE,
            hint=f"'gnt-instance remove {instance.known_as}' removes it",
        )


def ExpandGroup(snapshot: objects.Snapshot, name: str) -> objects.NodeGroup:
    """Return the node group of a name or uuid."""
    group: objects.NodeGroup | None = snapshot.ExpandName("nodegroup", name)
    if group is None:
        raise errors.OpPrereqError(f"Group '{name}' not known", errors.ECODE_NOENT, hint="see 'gnt-group list'")
    return group


def ExpandNetwork(snapshot: objects.Snapshot, name: str) -> objects.Network:
    """Return the network of a name or uuid."""
    network: objects.Network | None = snapshot.ExpandName("network", name)
    if network is None:
        raise errors.OpPrereqError(f"Network '{name}' not known", errors.ECODE_NOENT, hint="see 'gnt-network list'")
    return network


def VolumesOf(snapshot: objects.Snapshot, instance: objects.Instance) -> Iterator[tuple[str, str]]:
    """Return (node, ``vg/lv``) of every logical volume below an instance's disks."""
    for disk in snapshot.InstanceDisks(instance):
        for volume in disk.VolumeNames():
            yield from ((uuid, volume) for uuid in disk.nodes)


# --- locks --------------------------------------------------------------------------------------------------------------


def ShareAll() -> dict[int, int]:
    """Return the share_locks of a unit that takes everything shared."""
    return dict.fromkeys(locking.LEVELS, 1)


def CheckViolations(
    lu: LogicalUnit, name: str, group: objects.NodeGroup, violations: Sequence[str], ignore: bool
) -> None:
    """Raise OpPrereqError if an instance as planned violates the policy of its node group; ``ignore`` makes it a warning."""
    if not violations:
        return
    text = f"Instance {name} violates the policy of node group {group.name}: {'; '.join(violations)}"
    if not ignore:
        raise errors.OpPrereqError(text, errors.ECODE_INVAL, hint="change the instance, or use --ignore-ipolicy")
    lu.LogWarning(text)


def ExpandAndLockInstance(lu: LogicalUnit) -> objects.Instance:
    """Find the opcode's instance, put its full name and uuid into the opcode, and declare its lock."""
    if lu.needed_locks is None:
        lu.needed_locks = {}
    assert locking.LEVEL_INSTANCE not in lu.needed_locks, "ExpandAndLockInstance called with instance locks declared"
    instance = ExpandInstance(lu.snapshot, lu.op.instance_name, lu.op.instance_uuid)
    lu.op.instance_name = instance.name
    lu.op.instance_uuid = instance.uuid
    lu.needed_locks[locking.LEVEL_INSTANCE] = [instance.name]
    return instance


def Removed(kind: str, name: str) -> errors.OpPrereqError:
    """Return what to raise if an object was removed before its lock was held."""
    return errors.OpPrereqError(
        f"{kind} '{name}' was removed or renamed while this job waited for its lock", errors.ECODE_NOENT
    )


def StillThere(found: T | None, kind: str, name: str) -> T:
    """Return what a look-up found once the lock is held; raise OpPrereqError if the object was removed before that."""
    if found is None:
        raise Removed(kind, name)
    return found


def LockedInstance(lu: LogicalUnit) -> objects.Instance:
    """Return the instance of ExpandAndLockInstance as it is configured now that its lock is held."""
    found = lu.snapshot.instances.get(lu.op.instance_uuid)
    same = found if found is not None and found.name == lu.op.instance_name else None
    instance = StillThere(same, "Instance", lu.op.instance_name)
    assert lu.op.instance_name in lu.owned_locks(locking.LEVEL_INSTANCE) or lu.REQ_BGL
    return instance


def LockInstancesNodes(lu: LogicalUnit, primary_only: bool = False, level: int = locking.LEVEL_NODE) -> None:
    """Declare the locks of the nodes of all locked instances; to be called from DeclareLocks.

    ``recalculate_locks[level]`` says whether they replace what is declared or are added to it.
    """
    assert level in lu.recalculate_locks, f"locks of level {locking.LEVEL_NAMES[level]} are not to be recalculated"
    assert lu.needed_locks is not None
    snapshot = lu.snapshot
    wanted: list[str] = []
    for name in sorted(lu.owned_locks(locking.LEVEL_INSTANCE)):
        instance = snapshot.InstanceByName(name)
        if instance is not None and not snapshot.IsBare(instance):
            wanted += [instance.primary_node] if primary_only else snapshot.AllNodes(instance)
    if lu.recalculate_locks.pop(level) == APPEND:
        declared = lu.needed_locks[level]
        assert isinstance(declared, list)
        wanted = declared + wanted
    lu.needed_locks[level] = list(dict.fromkeys(wanted))


def LockInstancesNodesAnd(lu: LogicalUnit, node_uuid: str | None) -> None:
    """Lock the nodes of the locked instances, and one more if it is given."""
    LockInstancesNodes(lu)
    declared = lu.needed_locks[locking.LEVEL_NODE] if lu.needed_locks is not None else []
    assert isinstance(declared, list)
    if node_uuid is not None and node_uuid not in declared:
        declared.append(node_uuid)


def CopyNodeLocks(lu: LogicalUnit) -> None:
    """Declare for node-res what is declared for the nodes; to be called from DeclareLocks(LEVEL_NODE_RES)."""
    assert lu.needed_locks is not None
    declared = lu.needed_locks[locking.LEVEL_NODE]
    lu.needed_locks[locking.LEVEL_NODE_RES] = list(declared) if isinstance(declared, list) else declared


def ReleaseLocks(
    lu: LogicalUnit, level: int, names: Iterable[str] | None = None, keep: Collection[str] | None = None
) -> None:
    """Release locks of a level: ``names``, or all but ``keep``, or all.

    Giving back any of them also gives up the claim to the whole level.
    """
    assert names is None or keep is None, "either names or keep"
    if not lu.glm.is_owned(level):
        return
    owned = lu.owned_locks(level)
    if names is not None:
        going = owned.intersection(names)
    elif keep:
        going = owned.difference(keep)
    else:
        lu.glm.release(level)
        return
    if going or lu.glm.owning_all(level):
        lu.glm.release(level, going)


def StoreNew(lu: LogicalUnit, level: int, add: Callable[[], T]) -> T:
    """Store a new object whose lock stands in ``add_locks[level]``; from then on the lock stays."""
    stored = add()
    lu.remove_locks.pop(level, None)
    return stored


def CheckNodeGroupsUnchanged(lu: LogicalUnit, instance: objects.Instance) -> None:
    """Check that the instance's nodes are still in the locked groups, which were found without locks."""
    snapshot = lu.snapshot
    groups = {snapshot.nodes[uuid].group for uuid in snapshot.AllNodes(instance)}
    if not groups <= lu.owned_locks(locking.LEVEL_NODEGROUP):
        raise errors.OpPrereqError(
            f"Instance '{instance.name}' has moved to other node groups since its locks were acquired; try again",
            errors.ECODE_STATE,
        )


# --- states -------------------------------------------------------------------------------------------------------------


def CheckNodeOnline(node: objects.Node, message: str = "Can't use offline node") -> None:
    if node.offline:
        raise errors.OpPrereqError(
            f"{message}: {node.name}",
            errors.ECODE_STATE,
            hint=f"if it works, use 'gnt-node modify --offline no {node.name}'",
        )


def CheckNodeNotDrained(node: objects.Node) -> None:
    if node.drained:
        raise errors.OpPrereqError(f"Can't use drained node {node.name}", errors.ECODE_STATE)


def CheckNodeVmCapable(node: objects.Node) -> None:
    if not node.vm_capable:
        raise errors.OpPrereqError(f"Can't use non-vm_capable node {node.name}", errors.ECODE_STATE)


def CheckTarget(node: objects.Node) -> None:
    """Check a node that is to get an instance or a disk: online, not drained, able to run instances."""
    CheckNodeOnline(node)
    CheckNodeNotDrained(node)
    CheckNodeVmCapable(node)


def CheckInstanceState(lu: LogicalUnit, instance: objects.Instance, allowed: Sequence[str]) -> None:
    """Check that the instance's admin state is in ``allowed``; if "up" is not, also that it does not run."""
    if instance.admin_state not in allowed:
        command = _COMMAND_TO.get(allowed[0], "modify --offline")
        if instance.admin_state == constants.ADMINST_OFFLINE:
            command = "modify --online"
        raise errors.OpPrereqError(
            f"Instance '{instance.name}' is marked to be {instance.admin_state}, it must be {' or '.join(allowed)}",
            errors.ECODE_STATE,
            hint=f"use 'gnt-instance {command} {instance.name}' first",
        )
    if constants.ADMINST_UP in allowed:
        return
    node = lu.snapshot.nodes[instance.primary_node]
    if node.offline:
        lu.LogWarning(f"Primary node {node.name} is offline: whether {instance.name} runs there is not known")
        return
    if IsRunning(lu, instance):
        raise errors.OpPrereqError(
            f"Instance '{instance.name}' is running on {node.name}",
            errors.ECODE_STATE,
            hint=f"use 'gnt-instance shutdown {instance.name}' first",
        )


_COMMAND_TO = {constants.ADMINST_DOWN: "shutdown", constants.ADMINST_UP: "startup"}


def IsRunning(lu: LogicalUnit, instance: objects.Instance) -> bool:
    """Return whether the instance runs on its primary node; raise OpPrereqError if the node does not report it."""
    hvparams = {instance.hypervisor: lu.snapshot.cluster.hvparams.get(instance.hypervisor, {})}
    result = lu.rpc.call_instance_list([instance.primary_node], [instance.hypervisor], hvparams)[instance.primary_node]
    result.Raise(f"Can't get the running instances of node {result.node_name}", prereq=True)
    return instance.name in result.payload


def InstanceInfo(lu: LogicalUnit, instance: objects.Instance) -> dict[str, Any]:
    """Return what the primary node reports of a running instance, {} if it does not run; raise OpPrereqError without an answer."""
    hvparams = lu.snapshot.cluster.hvparams.get(instance.hypervisor, {})
    result = lu.rpc.call_instance_info(instance.primary_node, instance.name, instance.hypervisor, hvparams)
    result.Raise(f"Error checking instance {instance.name} on node {result.node_name}", prereq=True)
    return result.payload or {}


def NodeFreeMemory(lu: LogicalUnit, node_uuid: str, hypervisor: str) -> int:
    """Return the node's free memory in MiB; raise OpPrereqError if it does not report it."""
    hvparams = lu.snapshot.cluster.hvparams.get(hypervisor, {})
    result = lu.rpc.call_node_info([node_uuid], None, [[hypervisor, hvparams]])[node_uuid]
    result.Raise(f"Can't get data from node {result.node_name}", prereq=True)
    free = _MemoryFree(result.payload)
    if free is None:
        raise errors.OpPrereqError(f"Node {result.node_name} did not report its free memory", errors.ECODE_ENVIRON)
    return free


def _MemoryFree(payload: Any) -> int | None:
    try:
        free = payload[2][0]["memory_free"]
    except (TypeError, LookupError):
        return None
    return free if isinstance(free, int) and not isinstance(free, bool) else None


def CheckNicBridges(lu: LogicalUnit, nics: Iterable[objects.NIC], node_uuid: str) -> None:
    """Check that the bridges of bridged NICs exist on the node."""
    snapshot = lu.snapshot
    filled = [params.FillNIC(snapshot, nic) for nic in nics]
    bridges = sorted({nic["link"] for nic in filled if nic["mode"] == constants.NIC_MODE_BRIDGED})
    if bridges:
        result = lu.rpc.call_bridges_exist(node_uuid, bridges)
        result.Raise(f"Error checking bridges on destination node '{result.node_name}'", prereq=True)


MAX_NAME = 128
"""Characters in the name of a group or network."""


def CheckName(kind: str, name: str) -> None:
    """Raise OpPrereqError unless ``name`` can be given to a new object without getting into anybody's way.

    Such names stand alone in lines of files, in comma lists, in URLs and on the command line.
    """
    if len(name) > MAX_NAME:
        problem = f"at most {MAX_NAME} characters are allowed, it has {len(name)}"
    elif any(char.isspace() for char in name):
        problem = "spaces and line breaks are not allowed"
    elif not name.isprintable() or set(name) & set(",/"):
        problem = "commas, slashes and control characters are not allowed"
    elif name.startswith("-"):
        problem = "it must not begin with a hyphen"
    else:
        return
    raise errors.OpPrereqError(f"{name[:40]!r} is not a valid name for a {kind}: {problem}", errors.ECODE_INVAL)


# --- parameters ---------------------------------------------------------------------------------------------------------


def ForceTypes(
    values: dict[str, Any], table: types.Table, allowed: Collection[Any] = (), subject: str = "parameter"
) -> dict[str, Any]:
    """Convert values as ``params.ForceDictType``; raise OpPrereqError for wrong ones."""
    try:
        return types.ForceDictType(values, table, allowed, subject)
    except errors.TypeEnforcementError as err:
        raise errors.OpPrereqError(str(err), errors.ECODE_INVAL, hint=err.hint) from err


def CheckNoProblems(problems: Sequence[str], subject: str = "") -> None:
    """Raise OpPrereqError that lists what is wrong with a request's parameters, if anything is."""
    if problems:
        text = "; ".join(problems)
        raise errors.OpPrereqError(f"{subject}: {text}" if subject else text, errors.ECODE_INVAL)


def ForceNdParams(values: dict[str, Any], where: str, of_node: bool) -> dict[str, Any]:
    """Node parameters as given in a request, typed and checked; ``default`` and null reset a value."""
    typed = ForceTypes(values, nd.TABLE, ("default", None), "node parameter")
    if of_node:
        CheckNoProblems(nd.GlobalProblems(typed, where))
    CheckNoProblems(nd.SyntaxProblems({k: v for k, v in typed.items() if v not in ("default", None)}))
    return typed


def _Object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise errors.OpPrereqError(f"{where}: {str(value)[:80]!r} is not an object with values", errors.ECODE_INVAL)
    return value


def ForceNodeState(
    hv_state: dict[str, Any] | None, disk_state: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Declared states of a node as given in a request, typed: {hypervisor: values}, {type: {name: values}}."""
    typed_hv = None
    if hv_state is not None:
        unknown = sorted(set(hv_state) - set(constants.HYPER_TYPES))
        if unknown:
            raise errors.OpPrereqError(f"Unknown hypervisor in hv_state: {', '.join(unknown)}", errors.ECODE_INVAL)
        typed_hv = {hv: ForceTypes(_Object(values, "hv_state"), nd.HV_STATE_TABLE) for hv, values in hv_state.items()}
    typed_disk = None
    if disk_state is not None:
        unknown = sorted(set(disk_state) - set(nd.DISK_STATE_TYPES))
        if unknown:
            raise errors.OpPrereqError(f"Unknown storage type in disk_state: {', '.join(unknown)}", errors.ECODE_INVAL)
        typed_disk = {
            kind: {
                name: ForceTypes(_Object(values, "disk_state"), nd.DISK_STATE_TABLE)
                for name, values in _Object(named, "disk_state").items()
            }
            for kind, named in disk_state.items()
        }
    return typed_hv, typed_disk


def MergeNodeState(old: Any, new: dict[str, Any] | None) -> dict[str, Any]:
    """Return a declared state with changes merged in, key by key at every level."""
    result = dict(old)
    for key, value in (new or {}).items():
        below = result.get(key)
        result[key] = MergeNodeState(below or {}, value) if isinstance(value, dict) else value
    return result
