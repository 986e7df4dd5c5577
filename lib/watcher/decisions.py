"""What the watcher does about each instance and node: functions of what it saw, which touch nothing."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterator, Mapping, Sequence

from ganeti import constants
from ganeti.watcher import state
from ganeti.watcher.rows import Instance, Node

MAX_TRIES = 5

STATUS_DOWN = "ERROR_down"
STATUS_USER_DOWN = "USER_down"
# What these instances do cannot be seen.
STATUS_UNSEEN = frozenset({"ERROR_nodedown", "ERROR_nodeoffline", ""})


class Action(enum.Enum):
    """What is done about an instance."""

    START = "start"
    CLEAN_UP = "clean up"
    GIVE_UP = "give up"
    LEAVE = "leave alone"
    FORGET = "forget its tries"


@dataclasses.dataclass(frozen=True)
class Decision:
    """One instance that needed a thought, what is done, and why in words that follow its name."""

    instance: str
    action: Action
    why: str


def Decide(instances: Sequence[Instance], busy: Mapping[str, str], tries: Mapping[str, state.Tries]) -> list[Decision]:
    """Return what is done about the instances; those that are as they should be, and always were, have no entry."""
    return [found for instance in instances for found in _Decide(instance, busy, tries.get(instance.name, state.NONE))]


def _Decide(instance: Instance, busy: Mapping[str, str], tries: state.Tries) -> Iterator[Decision]:
    name = instance.name
    user_down = instance.status == STATUS_USER_DOWN and instance.admin_state != constants.ADMINST_DOWN
    if instance.status != STATUS_DOWN and not user_down:
        if tries != state.NONE:
            yield Decision(name, Action.FORGET, f"its status is {instance.status}")
        return
    if len(instance.groups) > 1:
        yield Decision(name, Action.LEAVE, "its nodes are in several groups")
    elif name in busy:
        yield Decision(name, Action.LEAVE, busy[name])
    elif user_down:
        yield _Counted(name, Action.CLEAN_UP, tries.cleanup_count, "its user shut it down")
    else:
        yield _Counted(name, Action.START, tries.restart_count, "it should run and does not")


def _Counted(name: str, action: Action, done: int, why: str) -> Decision:
    if done < MAX_TRIES:
        return Decision(name, action, f"{why} (attempt {done + 1} of {MAX_TRIES})")
    if done == MAX_TRIES:
        return Decision(name, Action.GIVE_UP, f"{why}, and {MAX_TRIES} attempts did not help")
    return Decision(name, Action.LEAVE, f"{why}, and the watcher has given up")


def WithTry(tries: state.Tries, instance: Instance, now: float, job_id: int = 0) -> state.Tries:
    """Return the tries with one more; giving up counts too, so that it is reported once."""
    return tries.Restarted(now, job_id) if instance.status == STATUS_DOWN else tries.CleanedUp(now, job_id)


@dataclasses.dataclass(frozen=True)
class Disks:
    """``activate``: instance whose disks are activated -> nodes because of which; ``boot_ids``: what is remembered then.

    ``postponed``: node -> why it is looked at again in the next run.
    """

    activate: dict[str, list[str]]
    boot_ids: dict[str, str]
    postponed: dict[str, str]


def DecideDisks(
    instances: Sequence[Instance],
    nodes: Sequence[Node],
    busy: Mapping[str, str],
    started: Collection[str],
    boot_ids: Mapping[str, str],
) -> Disks:
    """Return the instances whose secondary node was booted since it was last looked at.

    Those ``started`` just now get their disks that way.  A node with a busy instance keeps its old boot id, as its turn
    comes in the next run.
    """
    remembered = {node.name: boot_ids[node.name] for node in nodes if node.name in boot_ids}
    activate: dict[str, list[str]] = {}
    postponed: dict[str, str] = {}
    for node in nodes:
        if node.offline or node.boot_id is None or remembered.get(node.name) == node.boot_id:
            continue
        concerned = [
            instance
            for instance in instances
            if node.name in instance.secondaries
            and instance.disks_active
            and len(instance.groups) <= 1
            and instance.name not in started
        ]
        waiting = [instance.name for instance in concerned if instance.name in busy]
        for instance in concerned:
            if instance.name not in busy:
                activate.setdefault(instance.name, []).append(node.name)
        if waiting:
            postponed[node.name] = f"instance {waiting[0]}: {busy[waiting[0]]}"
        else:
            remembered[node.name] = node.boot_id
    return Disks(activate, remembered, postponed)


def DecideRepair(
    instances: Sequence[Instance], nodes: Sequence[Node], busy: Mapping[str, str], reported: Sequence[str]
) -> tuple[list[Instance], dict[str, str]]:
    """Return whose disks are activated, of those that a verification reported; and why the others are not."""
    known = {instance.name: instance for instance in instances}
    offline = {node.name for node in nodes if node.offline}
    activate: list[Instance] = []
    left: dict[str, str] = {}
    for name in reported:
        instance = known.get(name)
        if instance is None:
            left[name] = "it does not exist in this group"
        elif instance.status in STATUS_UNSEEN:
            left[name] = f"its status is {instance.status or 'not known'}"
        elif offline.intersection(instance.secondaries):
            left[name] = "its secondary node is offline"
        elif name in busy:
            left[name] = busy[name]
        elif not instance.disks_active:
            left[name] = "it does not use its disks any longer"
        else:
            activate.append(instance)
    return activate, left
