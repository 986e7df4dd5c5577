"""An instance's disks on their nodes: made, set up, taken down, removed (doc/reference/drivers.md a.5, a.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import errors, params, runtime
from ganeti.cmdlib.base import LogicalUnit, Tasklet
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.advice import WayOn
from ganeti.params import disk as disk_params
from ganeti.params import nd

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc import RpcResult

# Both kinds of callers have rpc, cfg and snapshot; messages go through the unit.
Caller = LogicalUnit | Tasklet

# Waiting for a mirror: tries and pauses in seconds.
_RPC_TRIES, _RPC_PAUSE = 10, 6.0
_DEGRADED_TRIES, _DEGRADED_PAUSE = 10, 1.0
_MAX_PAUSE = 60.0

_WIPE_CHUNK = 1024  # MiB
_WIPE_PERCENT = 10
_WIPE_REPORT = 60.0  # seconds between messages


def Unit(caller: Caller) -> LogicalUnit:
    return caller.lu if isinstance(caller, Tasklet) else caller


def InfoText(instance: objects.Instance) -> str:
    """Return the note on an instance's devices that names their owner."""
    return f"originstname+{instance.name}"


def DiskNodes(caller: Caller, instance: objects.Instance, disk: objects.Disk) -> list[str]:
    """Return the uuids of the nodes on which a disk is set up: the primary one, then those that hold it."""
    return list(dict.fromkeys([instance.primary_node, *disk.nodes]))


# --- making and removing ------------------------------------------------------------------------------------------------


class _Made:
    """The devices made in one call, so that they can be removed again."""

    def __init__(self) -> None:
        self.devices: list[tuple[str, objects.Disk]] = []


def CreateDisks(
    caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk], template: str
) -> list[tuple[str, objects.Disk]]:
    """Make devices on all their nodes and return (node uuid, device) of each; a failure removes those made.

    The disks need not be in the configuration yet.  Raises OpExecError.
    """
    if disks and (directory := disk_params.TEMPLATES[template].Directory(disks[0])):
        result = caller.rpc.call_file_storage_dir_create(instance.primary_node, directory)
        result.Raise(f"Failed to create directory '{directory}' on node {result.node_name}")
    made = _Made()
    try:
        for disk in disks:
            Unit(caller).LogInfo(f"Creating disk {disk.iv_name or disk.uuid} for instance '{instance.name}'")
            for node_uuid in DiskNodes(caller, instance, disk):
                on_primary = node_uuid == instance.primary_node
                _CreateTree(caller, node_uuid, instance, disk, on_primary, on_primary, made)
    except BaseException:
        Undo(caller, made.devices, instance)
        raise
    return made.devices


def _CreateTree(
    caller: Caller,
    node_uuid: str,
    instance: objects.Instance,
    disk: objects.Disk,
    force_create: bool,
    force_open: bool,
    made: _Made,
) -> None:
    """Make the children first, then the device itself where it is wanted."""
    force_create = force_create or disk_params.Of(disk).on_secondaries
    for child in Parts(caller, instance, disk):
        _CreateTree(caller, node_uuid, instance, child, force_create, force_open, made)
    if not force_create:
        return
    CreateSingle(caller, node_uuid, instance, disk, force_open, made.devices)


def Parts(caller: Caller, instance: objects.Instance, disk: objects.Disk) -> tuple[objects.Disk, ...]:
    """Return the children of a disk with the parameters that its template has for them; made alone they would get their own."""
    return params.AnnotateDisk(caller.snapshot, disk, instance.primary_node).children


def CreateSingle(
    caller: Caller,
    node_uuid: str,
    instance: objects.Instance,
    disk: objects.Disk,
    force_open: bool,
    made: list[tuple[str, objects.Disk]],
) -> None:
    """Make one device whose children exist, and add it to those made."""
    result = caller.rpc.call_blockdev_create(
        node_uuid,
        (disk, instance),
        disk.size,
        instance.name,
        force_open,
        InfoText(instance),
        ExclusiveStorage(caller, node_uuid),
    )
    # Without an answer it may be there.  A mirror is taken down then, or its volumes could not be removed; what has the name
    # of a volume may be older than this call.
    if not result.fail_msg or (result.failure is not None and disk.children):
        made.append((node_uuid, disk))
    result.Raise(
        f"Can't create block device {disk.iv_name or disk.uuid} on node {result.node_name} for instance {instance.name}"
    )


def ExclusiveStorage(caller: Caller, node_uuid: str) -> bool:
    snapshot = caller.snapshot
    return bool(params.FillND(snapshot, snapshot.nodes[node_uuid])[nd.ND_EXCLUSIVE_STORAGE])


def Undo(caller: Caller, made: Iterable[tuple[str, objects.Disk]], instance: objects.Instance) -> None:
    """Remove devices that were made, the last one first; failures are only reported."""
    for node_uuid, disk in reversed(list(made)):
        if disk.children:
            # A node knows a mirror of ours by its volumes, which are removed one by one.
            result = caller.rpc.call_blockdev_shutdown(node_uuid, (disk, instance))
        else:
            result = caller.rpc.call_blockdev_remove(node_uuid, (disk, instance))
        if result.fail_msg:
            Unit(caller).LogWarning(
                f"Failed to remove newly-created disk {disk.iv_name or disk.uuid} on node {result.node_name}:"
                f" {result.fail_msg}",
                hint=disk_params.Of(disk).Removal(disk.Replace(children=[]), node_uuid),
            )


def RemoveDevice(caller: Caller, node_uuid: str, instance: objects.Instance, disk: objects.Disk) -> RpcResult:
    """Remove the device of a disk on a node; a volume whose adoption has not ended gets its own name back instead."""
    if disk.adopts is None:
        return caller.rpc.call_blockdev_remove(node_uuid, (disk, instance))
    return caller.rpc.call_blockdev_rename(node_uuid, [((disk, instance), disk.OwnId())])


def EndAdoption(caller: Caller, instance: objects.Instance) -> list[objects.Disk]:
    """Store that the volumes are the instance's for good; return its disks."""
    marked = [disk for disk in caller.snapshot.InstanceDisks(instance) if disk.adopts is not None]
    if marked:
        caller.cfg.UpdateMany([disk.Replace(adopts=None) for disk in marked], Unit(caller).ec_id)
    return list(caller.snapshot.InstanceDisks(instance))


def RemoveDisks(caller: Caller, instance: objects.Instance, target_node: str | None = None) -> bool:
    """Remove the devices of all disks, on ``target_node`` alone if given; return whether all are gone.

    What an offline secondary node still holds does not count.  Volumes whose adoption has not ended are given back.
    """
    unit = Unit(caller)
    disks = caller.snapshot.InstanceDisks(instance)
    all_gone = True
    for disk in disks:
        nodes = [target_node] if target_node else DiskNodes(caller, instance, disk)
        for node_uuid in nodes:
            result = RemoveDevice(caller, node_uuid, instance, disk)
            if result.fail_msg:
                unit.LogWarning(
                    f"Could not remove disk {disk.iv_name or disk.uuid} on node {result.node_name},"
                    f" continuing anyway: {result.fail_msg}"
                )
                if not (result.offline and node_uuid != instance.primary_node):
                    all_gone = False
    if disks and (directory := disk_params.Of(disks[0]).Directory(disks[0])):
        target = target_node or instance.primary_node
        result = caller.rpc.call_file_storage_dir_remove(target, directory)
        if result.fail_msg:
            unit.LogWarning(
                f"Could not remove directory '{directory}' for instance {instance.name} on node"
                f" {result.node_name}: {result.fail_msg}"
            )
            all_gone = False
    return all_gone


def RemoveEmptied(caller: Caller, instance: objects.Instance, disk: objects.Disk) -> None:
    """Remove the directory of a file that the instance no longer has there, unless other disks of it are there.

    It has the instance's name: another instance that gets this name later would find it in its way.
    """
    instance = caller.snapshot.instances[instance.uuid]
    directory = _SharedDirectory(disk)
    if directory is None or directory in map(_SharedDirectory, caller.snapshot.InstanceDisks(instance)):
        return
    result = caller.rpc.call_file_storage_dir_remove(instance.primary_node, directory)
    result.Warn(f"Could not remove directory '{directory}' on node {result.node_name}", Unit(caller).LogWarning)


def _SharedDirectory(disk: objects.Disk) -> str | None:
    """Return the directory that a disk's file shares with the others of its instance, if it has the instance's name."""
    return disk_params.Of(disk).Directory(disk)


# --- setting up and taking down -----------------------------------------------------------------------------------------


class Assembled(NamedTuple):
    """``paths``: [[node name, iv_name, path], ...] of the primary; ``instance``: as it can be started from these disks."""

    all_well: bool
    paths: list[list[Any]]
    instance: objects.Instance


def AssembleDisks(
    caller: Caller,
    instance: objects.Instance,
    disks: Sequence[objects.Disk] | None = None,
    ignore_secondaries: bool = False,
    ignore_size: bool = False,
    may_part: bool = True,
) -> Assembled:
    """Set disks up on all their nodes.

    All disks are marked active first, so that a watcher repairs what is interrupted; when it fails they are what they were
    before, as a guest may be using them.  The side of a mirror on a node that is offline, or to be ignored, and cannot be
    set up does not count from then on; nor does one that is to be ignored, is set up and does not connect (``may_part``).
    """
    chosen = caller.snapshot.InstanceDisks(instance) if disks is None else disks
    active = caller.snapshot.instances[instance.uuid].disks_active if disks is None else True
    if disks is None:
        instance = caller.cfg.MarkInstanceDisksActive(instance.uuid)
    instance = _NewAttempt(instance)
    assembly = _Assembly(caller, instance, ignore_secondaries, ignore_size, may_part)
    assembly.OpenOlder(mirrors.Mirrors(chosen))
    if assembly.all_well:
        # First everywhere as secondary: with the mirror connected before it becomes primary nothing is resynchronised
        # needlessly, and two primaries cannot meet unseen.
        for disk in chosen:
            assembly.SetUp(disk)
        assembly.GoOnWithout(chosen)
        for disk in chosen:
            assembly.Open(disk)
    if assembly.all_well and disks is None:
        EndAdoption(caller, instance)
    if not (assembly.all_well or active):
        caller.cfg.MarkInstanceDisksInactive(instance.uuid)
    return Assembled(assembly.all_well, assembly.paths, instance)


def OpenDisks(caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk]) -> objects.Instance:
    """Open disks that are set up on the primary node; return the instance as it can be started.  Raises OpExecError."""
    instance = _NewAttempt(instance)
    assembly = _Assembly(caller, instance)
    for disk in disks:
        assembly.Open(disk)
    if not assembly.all_well:
        name = caller.snapshot.NodeName(instance.primary_node)
        raise errors.OpExecError(f"Could not open the disks of instance {instance.name} on {name}")
    return instance


def _NewAttempt(instance: objects.Instance) -> objects.Instance:
    """Return the instance with an attempt that no call has named before.

    A start is sent when every call that opened its disks has been answered.  So none of these is on its way when they are
    closed, and the start that may be is one for which nothing is open.
    """
    return instance.Replace(attempt=runtime.NewUuid())


class _Assembly:
    """Setting the disks of one instance up."""

    def __init__(
        self,
        caller: Caller,
        instance: objects.Instance,
        ignore_secondaries: bool = False,
        ignore_size: bool = False,
        may_part: bool = True,
    ):
        self.all_well = True
        self.paths: list[list[Any]] = []
        self._caller = caller
        self._instance = instance
        self._ignore_secondaries = ignore_secondaries
        self._ignore_size = ignore_size
        self._may_part = ignore_secondaries and may_part
        self._indexes = {uuid: index for index, uuid in enumerate(instance.disks)}
        # Disks of which no side that can be reached has all the data.
        self._hopeless: set[str] = set()
        # The other sides that could not be set up, by disk; whether one of the instance's disks cannot do without its own.
        self._away: dict[str, str] = {}
        disks = caller.snapshot.InstanceDisks(instance)
        self._needs_other = bool(mirrors.BehindOn(disks, instance.primary_node))

    def _Call(self, node_uuid: str, disk: objects.Disk, as_primary: bool) -> RpcResult:
        sent = disk.Replace(size=0) if self._ignore_size else disk
        index = self._indexes.get(disk.uuid, 0)
        result = self._caller.rpc.call_blockdev_assemble(
            node_uuid, (sent, self._instance), self._instance, as_primary, index
        )
        if result.fail_msg:
            Unit(self._caller).LogWarning(
                f"{disk.iv_name} could not be {'opened' if as_primary else 'set up'} on node {result.node_name}:"
                f" {result.fail_msg}"
            )
        return result

    def OpenOlder(self, disks: Sequence[objects.Disk]) -> None:
        """Open sides of the primary node that count by the record, but are marked as outdated, before they have a link.

        For the kernel the other side is the newer one: it would fill them as soon as they are connected, until it fails.
        """
        primary = self._instance.primary_node
        for disk in map(self._Newest, disks):
            if disk.behind is None or mirrors.Names(disk, primary):
                continue
            alone = disk_params.MirrorOf(disk).Unconnected(disk)
            state = self._OnPrimary(disk)
            if state is None and not self._Call(primary, alone, False).fail_msg:
                state = self._OnPrimary(disk)
            older = state is not None and state.get("disk") == mirrors.OUTDATED and not state.get("stranger")
            if older and self._Call(primary, alone, True).fail_msg:
                self.all_well = False

    def SetUp(self, disk: objects.Disk) -> None:
        """Set a disk up on all its nodes, the primary one included, without opening it.

        The primary one is the last: a side that is open there without data waits for the other one.
        """
        primary, usable = self._instance.primary_node, True
        away = None
        for node_uuid in reversed(DiskNodes(self._caller, self._instance, disk)):
            result = self._Call(node_uuid, disk, False)
            if not result.fail_msg:
                continue
            if node_uuid == primary or not (self._ignore_secondaries or result.offline):
                self.all_well = usable = False
            else:
                away = node_uuid
        if usable and away is not None and away == disk_params.OtherSide(disk, primary):
            self._away[disk.uuid] = away

    def GoOnWithout(self, disks: Sequence[objects.Disk]) -> None:
        """Give up the sides that could not be set up, unless one of them is needed: then none is."""
        missed = [disk for disk in disks if disk.uuid in self._away]
        states = {disk.uuid: self._OnPrimary(disk) for disk in missed}
        for disk in missed:
            state = states[disk.uuid]
            # A mirror comes up without its volumes, too.
            if mirrors.LacksData(state) and state is not None and not (state["connected"] or state["primary"]):
                name, away = self._caller.snapshot.NodeName, self._away[disk.uuid]
                kept = "" if mirrors.Names(disk, away) else ", and is not given up"
                Unit(self._caller).LogWarning(
                    f"{disk.iv_name} has no complete data on node {name(self._instance.primary_node)}: the copy on node"
                    f" {name(away)} is needed{kept}"
                )
                self._hopeless.add(disk.uuid)
                self.all_well = False
        self._needs_other = self._needs_other or bool(self._hopeless)
        for disk in missed:
            if mirrors.IsWaiting(states[disk.uuid]) and not self._needs_other:
                self._SetBehind(disk, self._away[disk.uuid])

    def Open(self, disk: objects.Disk) -> None:
        """Open a disk on the primary node; first record the side that lacks data, or is missed and may be given up."""
        if disk.uuid in self._hopeless:
            return
        disk = self._Newest(disk)
        result = self._Call(self._instance.primary_node, disk, True)
        # A call that was not answered may still be carried out, and the attempt is the same.
        if result.fail_msg and result.failure is None and disk.behind is None:
            side = self._Lacking(disk)
            if side is not None:
                self._SetBehind(disk, side)
                result = self._Call(self._instance.primary_node, self._Newest(disk), True)
        if result.fail_msg:
            self.all_well = False
        else:
            self.paths.append([result.node_name, disk.iv_name, _DevicePath(result.payload)])

    def _Lacking(self, disk: objects.Disk) -> str | None:
        """Return the node without whose side a disk can be used, as far as the primary one knows; None: with neither.

        Without a record, both sides have every acknowledged write, or had it before they lost their data.
        """
        primary = self._instance.primary_node
        other = disk_params.OtherSide(disk, primary)
        if other is None:
            return None
        state = self._OnPrimary(disk)
        part = self._may_part or disk.uuid in self._away
        if part and not self._needs_other and mirrors.IsWaiting(state):
            return other
        return {mirrors.HERE: primary, mirrors.THERE: other}.get(mirrors.Lacking(state) or "")

    def _OnPrimary(self, disk: objects.Disk) -> dict[str, Any] | None:
        """Return what the primary node says of a mirror."""
        primary = self._instance.primary_node
        return (mirrors.Look(self._caller, self._instance, [disk], [primary])[primary] or {}).get(disk.uuid)

    def _Newest(self, disk: objects.Disk) -> objects.Disk:
        """Return a disk with its record as it is now; one that is not in the configuration yet has none."""
        stored = self._caller.snapshot.disks.get(disk.uuid)
        return disk if stored is None else disk.Replace(behind=stored.behind, decision=stored.decision)

    def _SetBehind(self, disk: objects.Disk, node_uuid: str) -> None:
        stored = self._caller.snapshot.disks.get(disk.uuid)
        if stored is None or stored.behind is not None:
            return
        mirrors.RecordBehind(self._caller, self._instance, [disk], node_uuid)
        Unit(self._caller).LogWarning(
            f"The copy of {disk.iv_name} on node {self._caller.snapshot.NodeName(node_uuid)} does not count from now on, before it has"
            " been filled again"
        )


def _DevicePath(payload: Any) -> Any:
    return payload[0] if isinstance(payload, list) and payload else payload


def StartDisks(
    caller: Caller, instance: objects.Instance, force: bool, hint: str | None = None, in_use: bool = False
) -> objects.Instance:
    """Set all disks up, or take them down again and fail; ``force`` ignores failing secondary nodes.

    ``hint``: what to do if the secondary node is the problem; ``in_use``: the guest is there, and keeps them whatever
    happens.  Returns the instance as it can be started.
    """
    assembled = AssembleDisks(caller, instance, ignore_secondaries=force)
    if not assembled.all_well:
        way = WayOn(caller, instance, force)
        if not in_use:
            ShutdownDisks(caller, instance)
        if way is not None:
            hint = way
        elif hint is None and not force and caller.snapshot.SecondaryNodes(instance):
            hint = f"if the secondary node is down, use 'gnt-instance startup --force {instance.name}'"
        raise errors.OpExecError(f"Disk consistency error: the disks of {instance.name} could not be set up", hint=hint)
    return assembled.instance


def ShutdownDisks(
    caller: Caller,
    instance: objects.Instance,
    disks: Sequence[objects.Disk] | None = None,
    ignore_primary: bool = False,
) -> bool:
    """Take disks down on all their nodes; return whether all are, but for offline secondary nodes.

    ``ignore_primary``: what the primary node answers does not count.
    """
    chosen = caller.snapshot.InstanceDisks(instance) if disks is None else disks
    if disks is None:
        caller.cfg.MarkInstanceDisksInactive(instance.uuid)
    all_down = True
    for disk in chosen:
        for node_uuid in DiskNodes(caller, instance, disk):
            result = caller.rpc.call_blockdev_shutdown(node_uuid, (disk, instance))
            if result.fail_msg:
                Unit(caller).LogWarning(
                    f"{disk.iv_name} could not be taken down on node {result.node_name}: {result.fail_msg}"
                )
                on_primary = node_uuid == instance.primary_node
                excused = ignore_primary if on_primary else result.offline
                all_down = all_down and excused
    return all_down


# --- mirrors and content ------------------------------------------------------------------------------------------------


def WaitForSync(
    caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk] | None = None, oneshot: bool = False
) -> bool:
    """Wait until the disks are in sync (``oneshot``: not for a sync to end); return whether none is degraded."""
    unit = Unit(caller)
    chosen = list(caller.snapshot.InstanceDisks(instance) if disks is None else disks)
    if not chosen:
        return True
    if not oneshot:
        unit.LogInfo(f"Waiting for instance {instance.name} to sync disks")
    rpc_tries = _RPC_TRIES
    degraded_tries = _DEGRADED_TRIES
    while True:
        result = caller.rpc.call_blockdev_getmirrorstatus(instance.primary_node, (chosen, instance))
        if result.fail_msg:
            unit.LogWarning(f"Can't get any data from node {result.node_name}: {result.fail_msg}")
            rpc_tries -= 1
            if rpc_tries == 0:
                raise errors.OpExecError(f"Can't contact node {result.node_name} for mirror data, aborting")
            unit.Pause(_RPC_PAUSE)
            continue
        rpc_tries = _RPC_TRIES
        done, degraded, longest = _JudgeSync(unit, chosen, result.payload, result.node_name, quiet=oneshot)
        if (done or oneshot) and degraded and degraded_tries > 0:
            # A mirror is degraded for a moment after its sync has ended.
            degraded_tries -= 1
            unit.Pause(_DEGRADED_PAUSE)
            continue
        if done or oneshot:
            break
        unit.Pause(min(_MAX_PAUSE, longest))
    if done and not oneshot:
        degraded = _TellIncomplete(caller, instance, chosen) or degraded
        if not degraded:
            unit.LogInfo(f"Instance {instance.name}'s disks are in sync")
    return not degraded


def _TellIncomplete(caller: Caller, instance: objects.Instance, disks: Iterable[objects.Disk]) -> bool:
    """Warn about mirrors that have not two complete sides, none of which is being filled; return whether there are any."""
    primary, chosen = instance.primary_node, mirrors.Mirrors(disks)
    view = (mirrors.Look(caller, instance, chosen, [primary])[primary] if chosen else None) or {}
    short = [disk for disk in chosen if disk.uuid in view and not mirrors.IsComplete(view[disk.uuid])]
    for disk in short:
        Unit(caller).LogWarning(
            f"{disk.iv_name} is {mirrors.DescribeState(view[disk.uuid])} on node {caller.snapshot.NodeName(primary)}",
            hint=f"if a disk of either node has failed, use 'gnt-instance replace-disks --auto {instance.name}'; 'gnt-cluster"
            " verify' says more",
        )
    return bool(short)


def _JudgeSync(
    unit: LogicalUnit, disks: Sequence[objects.Disk], payload: Any, node_name: str, quiet: bool
) -> tuple[bool, bool, float]:
    """Return (no sync under way, some disk degraded without a sync, longest estimate in seconds)."""
    done, degraded, longest = True, False, 1.0
    for disk, status in zip(disks, payload, strict=True):
        if status is None:
            unit.LogWarning(f"Node {node_name} did not report the state of {disk.iv_name}")
            continue
        percent = status["sync_percent"]
        degraded = degraded or (status["is_degraded"] and percent is None)
        if percent is None:
            continue
        done = False
        estimate = status["estimated_time"]
        if estimate is not None:
            longest = max(longest, estimate)
        if not quiet:
            rest = f"{estimate:.0f} s remaining (estimated)" if estimate is not None else "no time estimate"
            unit.LogInfo(f"- device {disk.iv_name}: {percent:5.2f}% done, {rest}")
    return done, degraded, longest


def WipeDisks(caller: Caller, instance: objects.Instance, disks: Iterable[tuple[objects.Disk, int]]) -> None:
    """Overwrite each disk with zeros from an offset in MiB; pause synchronisation meanwhile."""
    unit = Unit(caller)
    wanted = list(disks)
    node_uuid = instance.primary_node
    objects_only = [disk for disk, _ in wanted]
    unit.LogInfo(f"Pausing synchronization of disks of instance '{instance.name}'")
    result = caller.rpc.call_blockdev_pause_resume_sync(node_uuid, (objects_only, instance), True)
    result.Raise(f"Failed to pause disk synchronization on node '{result.node_name}'")
    try:
        for disk, offset in wanted:
            _WipeOne(caller, instance, disk, offset)
    finally:
        unit.LogInfo(f"Resuming synchronization of disks of instance '{instance.name}'")
        result = caller.rpc.call_blockdev_pause_resume_sync(node_uuid, (objects_only, instance), False)
        if result.fail_msg:
            unit.LogWarning(f"Failed to resume disk synchronization on node '{result.node_name}': {result.fail_msg}")


def _WipeOne(caller: Caller, instance: objects.Instance, disk: objects.Disk, offset: int) -> None:
    unit = Unit(caller)
    chunk = max(1, min(_WIPE_CHUNK, disk.size * _WIPE_PERCENT // 100))
    unit.LogInfo(f"* Wiping disk {disk.iv_name}")
    started = reported = runtime.Monotonic()
    position = offset
    while position < disk.size:
        size = min(chunk, disk.size - position)
        result = caller.rpc.call_blockdev_wipe(instance.primary_node, (disk, instance), position, size)
        result.Raise(f"Could not wipe disk {disk.iv_name} at offset {position} for size {size}")
        position += size
        now = runtime.Monotonic()
        if now - reported >= _WIPE_REPORT:
            reported = now
            rest = (now - started) / (position - offset) * (disk.size - position)
            unit.LogInfo(f" - done: {100.0 * position / disk.size:.1f}% ETA: {rest:.0f} s")


def WipeOrUndo(
    caller: Caller,
    instance: objects.Instance,
    disks: Iterable[tuple[objects.Disk, int]],
    made: Iterable[tuple[str, objects.Disk]],
) -> None:
    """Wipe disks; if that fails, remove the devices just made."""
    try:
        WipeDisks(caller, instance, disks)
    except errors.OpExecError:
        Undo(caller, made, instance)
        raise


def IsDegraded(caller: Caller, node_uuid: str, instance: objects.Instance, disk: objects.Disk) -> bool:
    """Return whether a disk is missing or degraded on a node, its children included; a silent node counts as such."""
    result = caller.rpc.call_blockdev_find(node_uuid, (disk, instance))
    if result.fail_msg:
        Unit(caller).LogWarning(f"Can't find disk {disk.iv_name} on node {result.node_name}: {result.fail_msg}")
        return True
    if not result.payload:
        Unit(caller).LogWarning(f"Can't find disk {disk.iv_name} on node {result.node_name}")
        return True
    return bool(result.payload["is_degraded"])
