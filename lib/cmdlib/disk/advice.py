"""What to do where the sides of an instance's mirrors keep its disks from being set up (doc/storage.rst)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.mirrors import Caller
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti import objects


def WayOn(caller: Caller, instance: objects.Instance, force: bool) -> str | None:
    """Return what to do where disks could not be set up because of what the sides of mirrors have; None: that is not why.

    ``force``: whoever asked does without the other side.
    """
    newer = _PrimaryIsOld(caller, instance)
    return newer or _PrimaryLostOtherOld(caller, instance) or (None if force else Choice(caller, instance))


def _PrimaryIsOld(caller: Caller, instance: objects.Instance) -> str | None:
    """Return what to do if the record says that the primary side lacks data; None if it does not."""
    snapshot, primary = caller.snapshot, instance.primary_node
    old = mirrors.BehindOn(snapshot.InstanceDisks(instance), primary)
    if not old:
        return None
    other = snapshot.SecondaryNodes(instance)[0]
    there = mirrors.Look(caller, instance, old, [other])[other] or {}
    gone = [str(disk.iv_name) for disk in old if mirrors.LacksData(there.get(disk.uuid))]
    lost = mirrors.HintIfLost(snapshot, instance, primary)
    if not gone:
        return f"{_OtherIsNewer(caller, instance)}; {lost}"
    return (
        f"node {snapshot.NodeName(other)} has newer data of {', '.join(gone)}, which cannot be used there: if its disk can be read"
        f" again, use 'gnt-instance startup {instance.name}'; {lost}"
    )


def _OtherIsNewer(caller: Caller, instance: objects.Instance) -> str:
    """Return what to do where the primary side lacks data that the other one has."""
    snapshot = caller.snapshot
    other = snapshot.nodes[snapshot.SecondaryNodes(instance)[0]]
    online = f" ('gnt-node modify --offline no {other.name}' once it runs)" if other.offline else ""
    return (
        f"node {other.name} has newer data: bring it back if it is away{online}, then use 'gnt-instance failover"
        f" {instance.name}' to use the copy there, or 'gnt-instance startup {instance.name}' to use both"
    )


def _PrimaryLostOtherOld(caller: Caller, instance: objects.Instance) -> str | None:
    """Return what is left where the data of the primary side is gone and that of the other side is old, or away."""
    snapshot, primary = caller.snapshot, instance.primary_node
    others = list(snapshot.SecondaryNodes(instance))
    disks = mirrors.Mirrors(snapshot.InstanceDisks(instance))
    old = [disk for node in others for disk in mirrors.BehindOn(disks, node)]
    if not old:
        return _PrimaryLost(caller, instance, disks)
    views = mirrors.Look(caller, instance, old, [primary, *others])
    here, there = views[primary] or {}, views[others[0]]
    gone = [disk for disk in old if mirrors.LacksData(here.get(disk.uuid))]
    if not gone:
        return None
    names = ", ".join(str(disk.iv_name) for disk in gone)
    text = f"the data of {names} on node {snapshot.NodeName(primary)} is gone, and {mirrors.Describe(snapshot, gone)}"
    other = snapshot.NodeName(others[0])
    if there is None or any(disk.uuid not in there for disk in gone):
        return f"{text}: bring node {other} back, then try again"
    if any(mirrors.LacksData(there[disk.uuid]) for disk in gone):
        return f"{text} and is not complete either: restore {instance.name} from a backup"
    return (
        f"{text}: 'gnt-instance failover --ignore-consistency {instance.name}' starts it on node {other} with its data of"
        " that time, and gives up what was written since"
    )


def _PrimaryLost(caller: Caller, instance: objects.Instance, disks: Sequence[objects.Disk]) -> str | None:
    """Return what is left where the data of the primary side is gone and the other one, which counts, is away or gone, too."""
    nodes = caller.snapshot.AllNodes(instance) if disks else ()
    views = mirrors.Look(caller, instance, disks, nodes)
    here = views.pop(instance.primary_node, None) or {}
    lost = [disk for disk in disks if mirrors.LacksData(here.get(disk.uuid))]
    gone = ", ".join(str(disk.iv_name) for disk in lost)
    if not lost:
        return None
    if not any(views.values()):
        name = caller.snapshot.NodeName(instance.primary_node)
        return f"the data of {gone} on node {name} is gone: {_OtherIsNewer(caller, instance)}"
    if not all(mirrors.LacksData((view or {}).get(disk.uuid)) for view in views.values() for disk in lost):
        return None
    indexes = [instance.disks.index(disk.uuid) for disk in lost]
    again = " and ".join(f"'gnt-instance recreate-disks --disk={index} {instance.name}'" for index in indexes)
    left = "; ".join(
        f"{disk.iv_name} on node {caller.snapshot.NodeName(uuid)}: {disk_params.Of(disk).Removal(disk, uuid)}"
        for disk in lost
        for uuid in nodes
    )
    return (
        f"neither node has complete data of {gone}: if a disk of theirs can be read again, try again then; otherwise shut the"
        f" instance down and remove what is left of them ({left}); then make them again, empty, with {again}, and restore what"
        " was on them from a backup"
    )


def Choice(caller: Caller, instance: objects.Instance) -> str | None:
    """Return how to choose a side if those of a mirror refuse to connect; whoever starts it by force chooses unseen."""
    snapshot, primary = caller.snapshot, instance.primary_node
    disks = mirrors.Mirrors(snapshot.InstanceDisks(instance))
    # The side that was activated last waits for the other one again.
    views = mirrors.Look(caller, instance, disks, snapshot.AllNodes(instance) if disks else ()).values()
    if not any(state["standalone"] for view in views for state in (view or {}).values()):
        return None
    here, (there,) = snapshot.NodeName(primary), map(snapshot.NodeName, snapshot.SecondaryNodes(instance))
    give_up = "gnt-instance activate-disks --behind"
    return (
        f"its two sides do not connect, each may have writes of its own: '{give_up} {there} {instance.name}' keeps those on"
        f" {here}; 'gnt-instance failover --ignore-consistency {instance.name}' and then '{give_up} {here} {instance.name}'"
        f" keep those on {there}. Start it afterwards"
    )
