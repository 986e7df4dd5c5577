"""The two sides of mirrors: which of them count, and what each says of the other (doc/design-drbd.rst)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.cmdlib.base import LogicalUnit, Tasklet
from ganeti.cmdlib.common import Briefly
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc import RpcResult

Caller = LogicalUnit | Tasklet

HERE, THERE = "here", "there"
# Seconds between looks at two sides that change at the moment.
_AGREE_PAUSE = 2.0
# What DRBD calls data that it knows to be older than the other side's, and data that is partly so.
OUTDATED, INCONSISTENT = "Outdated", "Inconsistent"

# What a node says of the mirrors asked for: by the disk's uuid; None without an answer.
View = dict[str, dict[str, Any]]


def Mirrors(disks: Iterable[objects.Disk]) -> list[objects.Disk]:
    """Return the disks that we mirror."""
    return [disk for disk in disks if disk_params.Of(disk).mirror == disk_params.INTERNAL]


def Pick(disks: Iterable[objects.Disk], node_uuid: str, payload: Any) -> View:
    """Return the answer to ``drbd_states`` of a node by disk; mirrors that are not set up there are left out."""
    found = {}
    for disk in disks:
        state = payload.get(str(disk_params.Of(disk).Minor(disk, node_uuid)))
        if state is not None:
            found[disk.uuid] = state
    return found


def Look(
    caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk], nodes: Iterable[str]
) -> dict[str, View | None]:
    """Return what each node says of an instance's mirrors; a foreign device in the place of one never counts as good."""
    asked = list(dict.fromkeys(nodes))
    if not asked:
        return {}
    results = caller.rpc.call_drbd_views(asked, {uuid: [(tuple(disks), instance)] for uuid in asked})
    return {uuid: None if results[uuid].fail_msg else results[uuid].payload for uuid in asked}


def LookBriefly(
    caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk], node_uuid: str
) -> View | None:
    """Return what ``Look`` does of one node; None if it does not answer within moments."""
    result = Briefly(caller, "drbd_views", node_uuid, [{node_uuid: [(tuple(disks), instance)]}])
    return None if result.fail_msg else result.payload


def Glance(caller: Caller, disks: Sequence[objects.Disk], node_uuid: str) -> View | None:
    """Return what a node says of the mirrors if it answers within moments, going by their numbers alone.

    This may prompt a closer look, but never decides whether a copy is used or given up.
    """
    result = Briefly(caller, "drbd_states", node_uuid, [])
    return None if result.fail_msg else Pick(disks, node_uuid, result.payload)


def Strangers(view: View) -> list[str]:
    """Return, for people, what a node has in the places of mirrors."""
    return [str(state["stranger"]) for state in view.values() if state.get("stranger")]


def IsComplete(state: dict[str, Any] | None) -> bool:
    """Return whether a side is connected and both sides have all the data."""
    return state is not None and bool(state["connected"] and state["local_uptodate"] and state["peer_uptodate"])


def IsOneLegged(state: dict[str, Any] | None) -> bool:
    """Return whether a side in use writes alone although the other one is connected: that one has no usable disk."""
    return state is not None and bool(state["primary"]) and Lacking(state) == THERE


def IsServed(state: dict[str, Any] | None) -> bool:
    """Return whether a side in use has no usable disk and writes to the other one only."""
    return state is not None and bool(state["primary"]) and Lacking(state) == HERE


def Lacking(state: dict[str, Any] | None) -> str | None:
    """Return which of two connected sides, one of them complete, has no data that counts and is not being filled.

    HERE is the side that says so, THERE the other one.
    """
    if state is None or state["in_resync"] or not state["connected"]:
        return None
    if state["local_uptodate"]:
        return None if state["peer_uptodate"] else THERE
    return HERE if state["peer_uptodate"] and state.get("incomplete") else None


def IsAlone(state: dict[str, Any] | None) -> bool:
    """Return whether a side in use writes alone without a connection: the other one was not fenced when it was lost.

    One that refuses to connect may have met another that was written, too: nobody but an administrator chooses between them.
    If the other side was known to lack data, the link may just have been dropped by hand.
    """
    if state is None or not (state["primary"] and state["local_uptodate"]):
        return False
    if state["frozen"] or state["connected"] or state["in_resync"]:
        return False
    return bool(not state["standalone"] or state.get("peer_older"))


def RefusesWithData(state: dict[str, Any] | None) -> bool:
    """Return whether a side has data of its own that may count, and refuses to connect."""
    return (
        state is not None
        and bool(state["standalone"])
        and not state.get("incomplete")
        and state.get("disk") != OUTDATED
    )


def IsOlder(state: Mapping[str, Any] | None) -> bool:
    """Return whether a side has data, and knows that it lacks some of the other side's."""
    return state is not None and state.get("disk") in (OUTDATED, INCONSISTENT)


def LacksData(state: Mapping[str, Any] | None) -> bool:
    """Return whether a side has no complete data and is not being filled."""
    return state is not None and bool(state.get("incomplete")) and not state["in_resync"]


def NeedsOther(state: dict[str, Any] | None) -> bool:
    """Return whether a side in use does not have all the data itself."""
    return state is not None and bool(state["primary"]) and not state["local_uptodate"]


def Proves(disk: objects.Disk, frozen: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Return whether a side that is frozen shows that the other one has every write that was acknowledged.

    The other one was complete when the link was lost: attached after that it would be ``Consistent``.  A side that refuses to
    connect may have been used by hand.  One without data of its own is frozen in any case, also if it was written alone before
    it lost that.
    """
    if disk.behind is not None or frozen is None or other is None or frozen["standalone"] or other["standalone"]:
        return False
    return bool(frozen["primary"] and frozen["frozen"] and frozen["local_uptodate"] and other["local_uptodate"])


def IsWaiting(state: dict[str, Any] | None) -> bool:
    """Return whether a side has data of its own that it could use, but is not connected to the other one."""
    if state is None or state.get("incomplete"):
        return False
    filling = state["in_resync"] and state.get("sync_percent") is not None
    return not (state["connected"] or filling)


# --- the record ---------------------------------------------------------------------------------------------------------


def BehindOn(disks: Iterable[objects.Disk], node_uuid: str) -> list[objects.Disk]:
    """Return the mirrors whose side on a node does not count."""
    return [disk for disk in disks if Names(disk, node_uuid)]


def Names(disk: objects.Disk, node_uuid: str | None) -> bool:
    """Return whether the record of a mirror names its side on a node."""
    return disk.behind is not None and disk.behind["node"] == node_uuid


def Describe(snapshot: objects.Snapshot, disks: Iterable[objects.Disk]) -> str:
    """Return, for people, which sides do not count and since when."""
    texts = []
    for disk in disks:
        if disk.behind is not None:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(disk.behind["since"]))
            name = snapshot.NodeName(disk.behind["node"])
            texts.append(f"the copy of {disk.iv_name} on node {name} has been behind since {since}")
    return "; ".join(texts)


def HowToFill(snapshot: objects.Snapshot, instance: objects.Instance, node_uuid: str) -> str:
    """Return how the copies on a node, which the record names, are filled from the other one."""
    other = snapshot.nodes[OtherNode(snapshot, instance, node_uuid)]
    back = f"when node {other.name} is back ('gnt-node modify --offline no {other.name}'), " if other.offline else ""
    return f"{back}use 'gnt-instance activate-disks --wait-for-sync {instance.name}'"


def HintToFill(snapshot: objects.Snapshot, instance: objects.Instance, node_uuid: str) -> str:
    """Return what to do first about something that needs the copies on a node, which the record names."""
    return f"{HowToFill(snapshot, instance, node_uuid)}, then wait some seconds and try again"


def HintIfLost(snapshot: objects.Snapshot, instance: objects.Instance, node_uuid: str) -> str:
    """Return how the copies on a node, which the record names, are used if the other, newer ones are lost."""
    other = snapshot.NodeName(OtherNode(snapshot, instance, node_uuid))
    command = f"'gnt-instance failover --ignore-consistency {instance.name}'"
    if node_uuid == instance.primary_node:
        command = f"'gnt-instance activate-disks --behind {other} --ignore-consistency {instance.name}'"
    return f"if the copy on node {other} is lost for good, {command} uses the older one on node {snapshot.NodeName(node_uuid)}"


def OtherNode(snapshot: objects.Snapshot, instance: objects.Instance, node_uuid: str) -> str:
    """Return the other one of the two nodes that have the copies of an instance."""
    return next(uuid for uuid in snapshot.AllNodes(instance) if uuid != node_uuid)


def CheckCounts(
    snapshot: objects.Snapshot,
    instance: objects.Instance,
    node_uuid: str,
    what: str,
    hint: str = "",
    indexes: Sequence[int] | None = None,
) -> None:
    """Raise OpPrereqError if a copy on a node does not count; ``indexes``: of these disks only.

    ``hint``: what helps as long as the other copy is there, if not that this one is filled.
    """
    disks = snapshot.InstanceDisks(instance)
    behind = BehindOn(disks if indexes is None else [disks[index] for index in indexes], node_uuid)
    if behind:
        hint = f"{hint or HintToFill(snapshot, instance, node_uuid)}; {HintIfLost(snapshot, instance, node_uuid)}"
        raise NotCounting(snapshot, instance, behind, what, hint)


def NotCounting(
    snapshot: objects.Snapshot, instance: objects.Instance, behind: Iterable[objects.Disk], what: str, hint: str
) -> errors.OpPrereqError:
    """Return the error for what cannot be done as copies on a node, which the records name, do not count."""
    return errors.OpPrereqError(
        f"Instance {instance.name} {what}: {Describe(snapshot, behind)}; what was written after that is missing there",
        errors.ECODE_STATE,
        hint=hint,
    )


def CheckViews(
    caller: Caller,
    instance: objects.Instance,
    nodes: Sequence[str],
    what: str,
    disks: Iterable[objects.Disk] | None = None,
    patience: float = 0.0,
) -> None:
    """Raise OpExecError unless these nodes say of every mirror that both sides are connected and complete.

    ``disks``: all of the instance's if None; others than mirrors are left out.  ``patience``: how many seconds they may take to
    become so.
    """
    checked = Mirrors(caller.snapshot.InstanceDisks(instance) if disks is None else disks)
    deadline = runtime.Monotonic() + patience
    while problems := _Shortcomings(caller, instance, checked, nodes):
        if runtime.Monotonic() >= deadline:
            raise errors.OpExecError(
                f"Instance {instance.name} {what}: {', '.join(problems)}",
                hint="if the nodes cannot reach each other, repair the link between them; use 'gnt-instance activate-disks"
                f" --wait-for-sync {instance.name}', or, if a disk has failed, 'gnt-instance replace-disks --auto {instance.name}',"
                " and try again",
            )
        runtime.Sleep(_AGREE_PAUSE)


def _Shortcomings(
    caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk], nodes: Sequence[str]
) -> list[str]:
    """Return, for people, where mirrors are not connected and complete."""
    problems: list[str] = []
    if not disks:
        return problems
    for uuid, view in Look(caller, instance, disks, nodes).items():
        name = caller.snapshot.NodeName(uuid)
        if view is None:
            problems.append(f"node {name} does not answer")
            continue
        problems += [
            f"{disk.iv_name} on node {name} is {DescribeState(view.get(disk.uuid))}"
            for disk in disks
            if not IsComplete(view.get(disk.uuid))
        ]
    return problems


def CheckAgreement(
    caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk], keeps: str, gives: str
) -> None:
    """Raise OpExecError if the side to be replaced, on node ``gives``, contradicts the other one: it may have what that lacks.

    It is replaced because something is wrong with it, so it need not be set up, complete, or on a node that answers.
    """
    for last in (False, False, True):
        problems = _Contradictions(caller, instance, disks, keeps, gives)
        if not problems:
            return
        if not last:
            # The two were not asked at the same moment.
            runtime.Sleep(_AGREE_PAUSE)
    raise errors.OpExecError(
        f"The sides of instance {instance.name} contradict each other, so none is replaced:"
        f" {', '.join(text for text, _ in problems)}",
        hint=problems[0][1],
    )


def _Contradictions(
    caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk], keeps: str, gives: str
) -> list[tuple[str, str]]:
    """Return each contradiction, and what to do about it."""
    clean_up = f"'gnt-instance migrate --cleanup {instance.name}' finds out where it runs; then try again"
    activate = f"use 'gnt-instance activate-disks {instance.name}' and try again"
    names = [caller.snapshot.NodeName(uuid) for uuid in (keeps, gives)]
    kept = LookBriefly(caller, instance, disks, keeps)
    if kept is None:
        return [(f"node {names[0]} does not report its side", "try again when it does")]
    views = kept, LookBriefly(caller, instance, disks, gives) or {}
    problems = []
    for disk in disks:
        here, there = (view.get(disk.uuid) for view in views)
        if here is None or there is None or here.get("stranger") or there.get("stranger"):
            continue
        for uuid, state, name in ((keeps, here, names[0]), (gives, there, names[1])):
            if state["primary"] and uuid != instance.primary_node:
                problems.append((f"{disk.iv_name} is open on node {name}, which is not the primary one", clean_up))
        if here["connected"] and there["connected"] and not _SayTheSame(here, there):
            said = f"{DescribeState(here)} on node {names[0]} and {DescribeState(there)} on node {names[1]}"
            problems.append((f"{disk.iv_name} is {said}", activate))
    return problems


def _SayTheSame(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return bool(one["local_uptodate"] == two["peer_uptodate"] and one["peer_uptodate"] == two["local_uptodate"])


def DescribeState(state: dict[str, Any] | None) -> str:
    """Return the state of one side in a few words."""
    if state is None:
        return "not set up"
    if state.get("stranger"):
        return f"not there: {state['stranger']}"
    words = []
    if state["frozen"]:
        words.append("frozen")
    if state["standalone"]:
        words.append("standalone")
    elif not (state["connected"] or state["in_resync"]):
        words.append("not connected")
    if state["in_resync"]:
        words.append("being filled")
    if not state["local_uptodate"]:
        words.append("without complete data of its own")
    if not state["peer_uptodate"]:
        words.append("without a complete other side")
    return ", ".join(words) or "complete"


def Follow(caller: Caller, instance: objects.Instance, node_uuid: str, disks: Sequence[objects.Disk]) -> RpcResult:
    """Send a node what the records of these disks mean for it."""
    return caller.rpc.call_drbd_follow(node_uuid, (disks, instance))


def RecordBehind(
    caller: Caller,
    instance: objects.Instance,
    disks: Iterable[objects.Disk],
    node_uuid: str,
    answers: bool | None = None,
) -> list[objects.Disk]:
    """Record that the sides on a node do not count, then mark their data if the node answers; return the changed disks."""
    changed = caller.cfg.SetDisksBehind([disk.uuid for disk in disks], node_uuid)
    if answers is None:
        answers = Glance(caller, changed, node_uuid) is not None
    if not answers:
        return changed
    # A guest may wait for this, and the record counts without it.
    result = Briefly(caller, "drbd_follow", node_uuid, [(changed, instance)])
    if result.fail_msg:
        unit = caller.lu if isinstance(caller, Tasklet) else caller
        unit.LogWarning(f"Node {result.node_name} could not mark its copies as outdated: {result.fail_msg}")
    return changed


def GiveUpOwn(caller: Caller, instance: objects.Instance, disk: objects.Disk) -> objects.Disk:
    """Record that the side of the primary node, which is in use, is behind, before it is detached from its volumes.

    Raises OpExecError unless the other one serves it (``CheckServed``).
    """
    CheckServed(caller, instance, disk)
    (changed,) = RecordBehind(caller, instance, [disk], instance.primary_node)
    return changed


def CheckHasAll(caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk]) -> None:
    """Raise OpExecError unless the primary node has all the data of these disks itself, before the other side is given up."""
    primary = instance.primary_node
    view, name = Look(caller, instance, disks, [primary])[primary], caller.snapshot.NodeName(primary)
    for disk in disks:
        state = (view or {}).get(disk.uuid)
        if not (state and state["local_uptodate"]):
            what = f"The other copy of {disk.iv_name} of instance {instance.name}"
            cure = f"'gnt-instance replace-disks --auto {instance.name}' makes the copy on node {name} again if its disk failed"
            raise _NotGivenUp(what, name, view, state, cure)


def CheckServed(caller: Caller, instance: objects.Instance, disk: objects.Disk) -> None:
    """Raise OpExecError unless the other side has all that is written on the primary node and would serve it.

    Only the primary node knows whether the other side has all that is written; raises OpExecError unless it says so.  That
    it does may be some seconds old, in which the other node can have died: that one must answer, too.
    """
    primary = instance.primary_node
    views = Look(caller, instance, [disk], [primary, OtherNode(caller.snapshot, instance, primary)])
    for uuid, view in views.items():
        state = (view or {}).get(disk.uuid)
        good = "peer_uptodate" if uuid == primary else "local_uptodate"
        if not (state and state["connected"] and state[good]):
            own = caller.snapshot.NodeName(primary)
            what = f"The copy of {disk.iv_name} of instance {instance.name} on its primary node {own}"
            cure = f"use 'gnt-instance activate-disks --wait-for-sync {instance.name}' and try again"
            raise _NotGivenUp(what, caller.snapshot.NodeName(uuid), view, state, cure)


def _NotGivenUp(what: str, node: str, view: View | None, state: dict[str, Any] | None, cure: str) -> errors.OpExecError:
    """Return the error for a copy that is needed, going by what a node says, or does not."""
    if view is None:
        return errors.OpExecError(
            f"{what} is not given up: node {node} does not answer", hint=f"try again when node {node} answers"
        )
    return errors.OpExecError(f"{what} is not given up: on node {node} it is {DescribeState(state)}", hint=cure)


def CountAgain(unit: LogicalUnit, instance: objects.Instance, disks: Sequence[objects.Disk]) -> list[objects.Disk]:
    """Have the primary freeze on a lost link again, and remove the records of mirrors that are still complete then.

    Return the mirrors whose other node does not confirm that it knows: their records stay, for another try.
    """
    primary, name = instance.primary_node, unit.snapshot.NodeName
    # A call that let the primary continue alone, or takes the other side's volumes, and hangs must not come after this.
    disks = unit.cfg.RenewDisksBehind([disk.uuid for disk in disks])
    # First, as the primary does not freeze while the other node is waited for.
    kept = _Unconfirmed(unit, instance, disks)
    disks = [disk for disk in disks if disk not in kept]
    if not disks:
        return kept
    result = Follow(unit, instance, primary, [disk.Replace(behind=None) for disk in disks])
    result.Raise(f"Node {name(primary)} did not accept that both copies are valid again")
    view = Look(unit, instance, disks, [primary])[primary] or {}
    whole = [disk for disk in disks if IsComplete(view.get(disk.uuid))]
    broken = [disk for disk in disks if disk not in whole]
    if whole:
        names = ", ".join(str(disk.iv_name) for disk in whole)
        unit.LogInfo(f"Both copies of {names} are complete again: both count from now on")
        unit.cfg.SetDisksBehind([disk.uuid for disk in whole], None)
    if broken:
        result = Follow(unit, instance, primary, broken)
        result.Raise(f"Node {name(primary)} could not let its mirrors continue")
    return kept


def _Unconfirmed(unit: LogicalUnit, instance: objects.Instance, disks: Sequence[objects.Disk]) -> list[objects.Disk]:
    """Tell the other sides that both count; return the mirrors whose other node did not confirm it within moments.

    One that is marked offline is not called, and not waited for.
    """
    kept: list[objects.Disk] = []
    others = {disk.uuid: disk_params.OtherSide(disk, instance.primary_node) for disk in disks}
    for other in dict.fromkeys(filter(None, others.values())):
        there = [disk for disk in disks if others[disk.uuid] == other]
        result = Briefly(unit, "drbd_follow", other, [([disk.Replace(behind=None) for disk in there], instance)])
        if result.fail_msg and not result.offline:
            names = ", ".join(str(disk.iv_name) for disk in there)
            unit.LogWarning(
                f"The record on {names} stays, because node {result.node_name}"
                f" does not confirm that both copies count again: {result.fail_msg}"
            )
            kept += there
    return kept
