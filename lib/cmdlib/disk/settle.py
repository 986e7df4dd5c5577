"""Deciding which sides of an instance's mirrors count (doc/design-drbd.rst).

The master's keeper submits it; it looks itself, so that it may be repeated and may come late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import errors, objects, opcodes
from ganeti.cmdlib.base import Feedback
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.advice import Choice
from ganeti.cmdlib.instance.base import NoHooksInstanceLU
from ganeti.params import disk as disk_params


class LUInstanceSettleMirrors(NoHooksInstanceLU[opcodes.OpInstanceSettleMirrors]):
    """Records which side lacks what the open one writes; lets both count again once they are complete."""

    def NodesToConfirm(self) -> set[str]:
        # The other side's node is mostly dead; it is only told what it would find out by itself.
        return self.OnlineNodes([self.instance.primary_node])

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        self._primary = self.instance.primary_node
        self._disks = mirrors.Mirrors(self.snapshot.InstanceDisks(self.instance))

    def Exec(self, feedback: Feedback) -> None:
        if not self._disks:
            return
        # What is not as it should be afterwards: the job fails, and is followed by another one after a while only.
        self._stuck: list[str] = []
        self._glances: dict[str, mirrors.View | None] = {}
        self._views: dict[str, mirrors.View | None] = {}
        view = self._View()
        self._elsewhere = self._OnlyElsewhere(view)
        lone = [disk for disk in self._disks if self._IsLone(disk, view.get(disk.uuid))]
        if lone:
            # At once: a guest waits for it.
            self._CheckObeys(lone)
            self._GoOnAlone(lone, "lost the connection to {other} and is frozen")
        # What the open side says is true of the writes, whatever was recorded before.
        counting = [disk for disk in self._disks if not mirrors.Names(disk, self._Other(disk))]
        alone = [disk for disk in counting if self._IsAlone(disk, view.get(disk.uuid))]
        short = [disk for disk in counting if mirrors.IsOneLegged(view.get(disk.uuid))]
        served = [
            disk
            for disk in self._disks
            if not mirrors.Names(disk, self._primary) and mirrors.IsServed(view.get(disk.uuid))
        ]
        healed = [disk for disk in self._disks if disk.behind and mirrors.IsComplete(view.get(disk.uuid))]
        if alone:
            self._GoOnAlone(alone, "has been written without its other side since the connection to {other} was lost")
        if short:
            self._GoOnAlone(short, "is written alone, because the disk of {other} failed")
        if served:
            self._WriteThere(served)
        if healed:
            self._CountAgain(healed)
        if self._stuck:
            raise errors.OpExecError(f"Instance {self.instance.name}: {'; '.join(self._stuck)}")
        if not (lone or alone or short or served or healed):
            feedback("The mirrors of this instance need no change")

    def _View(self) -> mirrors.View:
        """Return what the primary node says."""
        view = mirrors.Look(self, self.instance, self._disks, [self._primary])[self._primary]
        if view is not None and mirrors.Strangers(view):
            raise errors.OpExecError(
                f"Nothing is decided about the mirrors of instance {self.instance.name}, because on node"
                f" {self._Name(self._primary)} {'; '.join(mirrors.Strangers(view))}",
                hint="'gnt-cluster verify' says what to do",
            )
        if view is None:
            raise errors.OpExecError(
                f"Node {self._Name(self._primary)} did not report the state of the mirrors of instance {self.instance.name}"
            )
        return view

    def _Name(self, uuid: str) -> str:
        return self.snapshot.NodeName(uuid)

    def _Other(self, disk: objects.Disk) -> str:
        other = disk_params.OtherSide(disk, self._primary)
        assert other is not None, "a mirror has two sides"
        return other

    def _Glance(self, node_uuid: str) -> mirrors.View | None:
        """Return what a secondary node says; it is asked once, because the guest waits."""
        if node_uuid not in self._glances:
            self._glances[node_uuid] = mirrors.Glance(self, self._disks, node_uuid)
        return self._glances[node_uuid]

    def _IsOpenThere(self, disk: objects.Disk) -> bool:
        """Return whether the other node has this mirror open; a device of others in its place is none."""
        other = self._Other(disk)
        if not (self._Glance(other) or {}).get(disk.uuid, {}).get("primary"):
            return False
        # By its number it is open.  A node that does not say what it is may have the mirror there.
        view = self._LookAt(other)
        return view is None or bool(view.get(disk.uuid, {}).get("primary"))

    def _MayHaveBeenWrittenThere(self, disk: objects.Disk, refused: bool) -> bool:
        """Return whether one of the sides refuses to connect, and the other node's has data; another's device there has none.

        ``refused``: it is the open side that does.  Somebody may have used the other one by hand since the two were
        connected: then that one has to say itself that its data is older.
        """
        other = self._Other(disk)
        if refused:
            return self._Glance(other) is None or not mirrors.IsOlder((self._LookAt(other) or {}).get(disk.uuid))
        if not mirrors.RefusesWithData((self._Glance(other) or {}).get(disk.uuid)):
            return False
        view = self._LookAt(other)
        return view is None or mirrors.RefusesWithData(view.get(disk.uuid))

    def _LookAt(self, node_uuid: str) -> mirrors.View | None:
        """Return what a node says of its mirrors, which are not only looked for by number."""
        if node_uuid not in self._views:
            self._views[node_uuid] = mirrors.LookBriefly(self, self.instance, self._disks, node_uuid)
        return self._views[node_uuid]

    # --- a frozen primary ---------------------------------------------------------------------------------------------

    def _IsLone(self, disk: objects.Disk, state: dict[str, Any] | None) -> bool:
        """Return whether a frozen side may continue alone."""
        if state is None or not (state["primary"] and state["frozen"]):
            return False
        primary, other = self._Name(self._primary), self._Name(self._Other(disk))
        problem = hint = None
        if not state["local_uptodate"]:
            problem = f"the data on {primary} is not complete: it continues when it is connected to {other} again"
        elif self._IsOpenThere(disk):
            problem = f"it is open on {other} too"
            hint = f"use 'gnt-instance migrate --cleanup {self.instance.name}'"
        elif self._elsewhere:
            # The guest could not go on anyway, and the other node has all of its newest data.
            problem = f"the guest needs {other} for {', '.join(self._elsewhere)}"
        if problem is None:
            return True
        self.LogWarning(f"{disk.iv_name} stays frozen on {primary}: {problem}", hint=hint)
        self._stuck.append(f"{disk.iv_name} stays frozen")
        return False

    def _OnlyElsewhere(self, view: mirrors.View) -> list[str]:
        """Return the disks in use of which the primary node does not have all the data itself."""
        return [str(disk.iv_name) for disk in self._disks if mirrors.NeedsOther(view.get(disk.uuid))]

    def _CheckObeys(self, disks: Sequence[objects.Disk]) -> None:
        """Raise OpExecError if the primary node could not let these disks continue: nothing is recorded then.

        A program that hangs may be about to give its data up.
        """
        result = mirrors.Follow(self, self.instance, self._primary, [disk.Replace(behind=None) for disk in disks])
        result.Raise(
            f"Node {self._Name(self._primary)} cannot let the mirrors of instance {self.instance.name} continue"
        )

    def _IsAlone(self, disk: objects.Disk, state: dict[str, Any] | None) -> bool:
        """Return whether a side that was not fenced writes alone, as those that release 3.1 set up do."""
        if state is None or not mirrors.IsAlone(state):
            return False
        if self._MayHaveBeenWrittenThere(disk, refused=state["standalone"]):
            other = self._Other(disk)
            self.LogWarning(
                f"{disk.iv_name} does not connect to {self._Name(other)}, where it may have been written, too",
                hint=self._HowToChoose(other),
            )
            self._stuck.append(f"{disk.iv_name} has two sides that may both have been written")
            return False
        if not self._IsOpenThere(disk):
            return True
        self.LogWarning(
            f"{disk.iv_name} is open on {self._Name(self._primary)} and on {self._Name(self._Other(disk))}, without a"
            " connection between them",
            hint=f"use 'gnt-instance migrate --cleanup {self.instance.name}'",
        )
        self._stuck.append(f"{disk.iv_name} is open on both nodes")
        return False

    def _HowToChoose(self, other: str) -> str | None:
        if self._Glance(other) is not None:
            return Choice(self, self.instance)
        name = self._Name(other)
        return (
            f"if node {name} does not come back, use 'gnt-instance activate-disks --behind {name} {self.instance.name}'"
        )

    def _GoOnAlone(self, disks: Sequence[objects.Disk], why: str) -> None:
        """Record that the other sides do not count, outdate them, and only then let the primary node continue."""
        primary = self._Name(self._primary)
        for other in dict.fromkeys(self._Other(disk) for disk in disks):
            there = [disk for disk in disks if self._Other(disk) == other]
            names = ", ".join(str(disk.iv_name) for disk in there)
            self.LogInfo(
                f"{names} on {primary} {why.format(other=self._Name(other))}; the copy on"
                f" {self._Name(other)} is recorded as behind from now on, and {primary} continues alone"
            )
            answers = self._Glance(other) is not None
            changed = mirrors.RecordBehind(self, self.instance, there, other, answers)
            result = mirrors.Follow(self, self.instance, self._primary, changed)
            result.Raise(f"Node {primary} could not let {names} continue")

    def _WriteThere(self, disks: Sequence[objects.Disk]) -> None:
        """Record that the primary's own sides do not count: all that is written is on the other ones only."""
        names, primary = ", ".join(str(disk.iv_name) for disk in disks), self._Name(self._primary)
        self.LogInfo(
            f"{names} on {primary} has no complete data of its own and is written on the other node only; the copy on"
            f" {primary} is recorded as behind from now on"
        )
        mirrors.RecordBehind(self, self.instance, disks, self._primary, answers=True)

    # --- a mirror that is whole again ---------------------------------------------------------------------------------

    def _CountAgain(self, disks: Sequence[objects.Disk]) -> None:
        kept = mirrors.CountAgain(self, self.instance, disks)
        self._stuck += [f"{disk.iv_name} keeps the record that one of its copies is behind" for disk in kept]
