"""Clean-up after a migration that was interrupted (``gnt-instance migrate --cleanup``; doc/design-migration.rst)."""

from __future__ import annotations

import dataclasses
from typing import Any

from ganeti import errors
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.instance.base import CheckNotForthcoming
from ganeti.cmdlib.instance.moving.looking import Situation
from ganeti.cmdlib.instance.moving.settling import Settler
from ganeti.cmdlib.instance.moving.whereabouts import Kind, Verdict
from ganeti.params import disk as disk_params
from ganeti.params import runstate

# How long transfers may take to end, and nodes to answer.
_PATIENCE = 60.0


class TLCleanupMigration(Settler):
    """Find out where an interrupted migration has left the instance, and put everything right.

    ``keep``: the node whose copy the administrator has chosen; the others are ended without a question.
    """

    def __init__(self, lu: LogicalUnit[Any], instance_uuid: str, keep: str | None = None):
        super().__init__(lu, instance_uuid)
        self._keep = keep
        self.live = True

    def CheckPrereq(self) -> None:
        instance, snapshot = self._instance, self.snapshot
        CheckNotForthcoming(instance)
        traits = disk_params.TEMPLATES.get(snapshot.DiskTemplate(instance))
        self.mirror = traits.mirror if traits is not None else None
        if self.mirror is None:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' has its disks on one node only and is never migrated", errors.ECODE_STATE
            )
        self.source_uuid = instance.primary_node
        self.target_uuid = next(iter(snapshot.SecondaryNodes(instance)), instance.primary_node)
        situation = self._Look()
        self._touched = self._Touched(situation)
        self.target_uuid = self._OtherEnd(situation)
        if self._keep is not None:
            self._CheckKeep(situation, self._keep)

    def _Touched(self, situation: Situation) -> set[str]:
        return {self.source_uuid, self.target_uuid, *situation.Involved()}

    def _OtherEnd(self, situation: Situation) -> str:
        """Return the node beside the primary one: the other half of a mirror, else where a copy is or was."""
        if self.target_uuid != self.source_uuid:
            return self.target_uuid
        sent_to = situation.views[self.source_uuid].sent_to
        states = (runstate.OFFLINE, runstate.UNREACHABLE, runstate.GONE)
        copies = [node for node, view in situation.views.items() if view.state not in states]
        others = [node for node in (situation.verdict.node, sent_to, *copies) if node and node != self.source_uuid]
        return others[0] if others else self.source_uuid

    def _CheckKeep(self, situation: Situation, keep: str) -> None:
        state = situation.State(keep)
        if state not in (*runstate.HOLDS, runstate.SENT, runstate.UNRESPONSIVE):
            raise errors.OpPrereqError(
                f"Node {self._Name(keep)} has no copy of instance {situation.name} that could be kept ({situation.Text()})",
                errors.ECODE_STATE,
            )
        silent = [node for node in situation.verdict.silent if situation.State(node) == runstate.UNREACHABLE]
        if silent:
            raise situation.Refusal(f"cannot be kept on {self._Name(keep)} alone")

    def NodesToConfirm(self) -> set[str]:
        """Return the nodes on which something may be changed."""
        return self._touched

    @property
    def _pair(self) -> list[str]:
        return list(dict.fromkeys([self.source_uuid, self.target_uuid]))

    def Exec(self, feedback: Feedback) -> None:
        self._feedback = feedback
        instance = self._instance
        feedback(f"Cleaning up after a migration of instance {instance.name}")
        feedback("* looking where the instance runs")
        if self._keep is not None:
            self._EndOthers(self._keep)
        situation = self._Kept() or self._Resolve("cannot be cleaned up", _PATIENCE)
        where = situation.verdict.node
        if where not in self._pair and self.mirror == disk_params.INTERNAL:
            raise errors.OpExecError(
                f"Instance {instance.name} runs on {self._Name(where)}, which has none of its disks"
                f" ({situation.Text()}); log in to {self._Name(where)} and look at its process"
            )
        if where == instance.primary_node:
            feedback(f"* instance runs on its primary node {self._Name(where)}")
        else:
            feedback(f"* instance runs on {self._Name(where)}, which becomes its primary node")
        self._Settle(situation)
        state = situation.State(where)
        if state == runstate.UNRESPONSIVE:
            self.lu.LogWarning(
                f"The instance on {self._Name(where)} does not respond",
                hint=f"to end it, use 'gnt-instance shutdown --timeout 0 {instance.name}'",
            )
        elif state != runstate.RUNNING:
            self.lu.LogWarning(f"The instance on {self._Name(where)} does not run: its state is {state}")
        feedback("* done")

    def _EndOthers(self, keep: str) -> None:
        """End every other copy, then let the one run that the administrator chose."""
        situation = self._Look(self._pair)
        self._CheckStillThere(situation, keep)
        for node, view in situation.views.items():
            nothing = view.state in (runstate.GONE, runstate.OFFLINE, runstate.UNREACHABLE)
            if node == keep or nothing:
                continue
            self._feedback(f"* ending the copy on {self._Name(node)} (state {view.state})")
            result = self.rpc.call_instance_end_copy(node, self._instance, view.ident)
            self._RaiseUnsettled(result, f"The copy on {result.node_name} could not be ended")
        if situation.State(keep) == runstate.SENT and self._Look(self._pair).State(keep) == runstate.SENT:
            self._feedback(f"* resuming the copy on {self._Name(keep)}")
            self._ResumeSent(situation, keep)

    def _Kept(self) -> Situation | None:
        """Return where the instance is if all that is left is a process that does not respond, and it is to be kept."""
        situation = self._Look(self._pair)
        if self._keep is None or not situation.IsSilentAt(self._keep):
            return None
        if situation.State(self._keep) != runstate.UNRESPONSIVE or situation.verdict.leftovers:
            return None
        return dataclasses.replace(situation, verdict=Verdict(Kind.HERE, self._keep))

    def _CheckStillThere(self, situation: Situation, keep: str) -> None:
        state = situation.State(keep)
        silent = [node for node in situation.verdict.silent if situation.State(node) == runstate.UNREACHABLE]
        if silent or state not in (*runstate.HOLDS, runstate.SENT, runstate.UNRESPONSIVE):
            raise situation.Error(f"cannot be kept on {self._Name(keep)} alone")
