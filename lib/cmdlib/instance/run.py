"""Units that start, stop and show a running instance (doc/reference/drivers.md d.2)."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, TypeVar

from ganeti import constants, errors, locking, opcodes, params, store
from ganeti.cmdlib.base import Feedback, Filled
from ganeti.cmdlib.common import (
    STATE_DOWN,
    STATE_ONLINE,
    CheckInstanceState,
    CheckNicBridges,
    CheckNodeOnline,
    ExpandNode,
    InstanceInfo,
)
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.advice import WayOn
from ganeti.cmdlib.disk.copies import ChosenCopies, OlderCopies
from ganeti.cmdlib.disk.devices import AssembleDisks, ShutdownDisks, StartDisks, WaitForSync
from ganeti.cmdlib.instance.base import (
    DOWN,
    OFFLINE,
    UP,
    CheckHv,
    CheckNotForthcoming,
    ForceBeParams,
    ForceHvParams,
    InstanceLU,
    NoHooksInstanceLU,
)
from ganeti.cmdlib.instance.moving.looking import EndLeftovers, LookAround, Situation
from ganeti.cmdlib.instance.moving.whereabouts import Kind
from ganeti.cmdlib.instance.room import CheckRoom, FreeMemory, IsShared, LimitStart, MakeRoom
from ganeti.master import console
from ganeti.params import runstate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti import objects

REBOOT_SOFT, REBOOT_HARD = "soft", "hard"


_RunOp = TypeVar("_RunOp", opcodes.OpInstanceStartup, opcodes.OpInstanceShutdown, opcodes.OpInstanceReboot)


class _RunLU(InstanceLU[_RunOp]):
    """The common part of starting, stopping and restarting: where the instance is now."""

    _situation: Situation | None = None

    def NodesToConfirm(self) -> set[str]:
        """Return the instance's nodes, and those on which a migration left something."""
        leftovers = self._situation.verdict.leftovers if self._situation is not None else ()
        return super().NodesToConfirm() | self.OnlineNodes(leftovers)

    def _Look(self) -> Situation:
        return LookAround(self, self.instance)

    def _CheckPlace(self, doing: str) -> Situation:
        """Return what all nodes see of the instance; OpPrereqError unless it is on its primary node or nowhere.

        A sent copy that may be resumed is in the way as well, and so is a helper.
        """
        situation = self._Look()
        if any(view.helper for view in situation.views.values()):
            raise errors.OpPrereqError(
                f"Instance {self.instance.name} {doing}: {runstate.HelperText(str(self.instance.name))}",
                errors.ECODE_STATE,
            )
        nowhere = situation.verdict.kind is Kind.NOWHERE and not situation.verdict.choices
        if not nowhere and not situation.IsHere(self.instance.primary_node):
            raise situation.Refusal(doing)
        return situation

    def _AnnounceWait(self, seconds: int, option: str) -> None:
        """Say so when a guest that does not respond is given its whole time to stop."""
        if self._situation is None or not seconds:
            return
        if self._situation.State(self.instance.primary_node) == runstate.UNRESPONSIVE:
            self.LogWarning(
                f"Instance {self.instance.name} does not respond; it is given {seconds} seconds to stop, then it is ended",
                hint=f"with '{option} 0' it is ended at once",
            )

    def _EndLeftovers(self, keep: str = "") -> None:
        if self._situation is not None:
            EndLeftovers(self, self.instance, self._situation, keep)


class _StartingLU(_RunLU[_RunOp], abc.ABC):
    """The common part of what takes memory of the primary node: nobody else does so meanwhile."""

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        self.needed_locks[locking.LEVEL_NODE_RES] = []

    def DeclareLocks(self, level: int) -> None:
        if level == locking.LEVEL_NODE_RES:
            assert self.needed_locks is not None
            instance = self.snapshot.instances.get(Filled(self.op.instance_uuid))
            self.needed_locks[level] = [instance.primary_node] if instance is not None and self._Takes(instance) else []

    @abc.abstractmethod
    def _Takes(self, instance: objects.Instance) -> bool:
        """Return whether this will take memory of the primary node."""


def IsUserDown(lu: InstanceLU, info: dict[str, Any]) -> bool:
    """Return whether the guest was shut down from inside, and the cluster lets users do that."""
    return lu.snapshot.cluster.enabled_user_shutdown and info.get("state") == constants.INST_USER_SHUTDOWN


class LUInstanceStartup(_StartingLU[opcodes.OpInstanceStartup]):
    """Starts an instance."""

    def CheckArguments(self) -> None:
        self.op.beparams = ForceBeParams(self.op.beparams)

    def _Takes(self, instance: objects.Instance) -> bool:
        return True

    def OwnEnv(self) -> dict[str, Any]:
        return {"FORCE": self.op.force}

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance, snapshot = self.instance, self.snapshot
        CheckNotForthcoming(instance)
        node = snapshot.nodes[instance.primary_node]
        if self.op.hvparams:
            self.op.hvparams = ForceHvParams(self.op.hvparams, instance.hypervisor, f"instance '{instance.name}'")
            filled = {**params.FillHV(snapshot, instance), **self.op.hvparams}
            CheckHv(self, snapshot.AllNodes(instance), instance.hypervisor, filled)
        CheckInstanceState(self, instance, STATE_ONLINE)
        self._primary_offline = node.offline
        self._user_down = False
        self._needed: tuple[str, str, int, str] | None = None
        if node.offline and self.op.ignore_offline_nodes:
            self.LogWarning(f"Ignoring offline primary node {node.name}")
            if self.op.hvparams or self.op.beparams:
                self.LogWarning("Overridden parameters are ignored")
            return
        CheckNodeOnline(node, f"Primary node of instance '{instance.name}' is offline")
        CheckNicBridges(self, instance.nics, node.uuid)
        self._situation = self._CheckPlace("cannot be started")
        info = InstanceInfo(self, instance) if self._situation.IsHere(node.uuid) else {}
        self._user_down = IsUserDown(self, info)
        if not info or self._user_down:
            memory = {**params.FillBE(snapshot, instance), **self.op.beparams}["minmem"]
            self._needed = (node.uuid, f"starting instance {instance.name}", memory, instance.hypervisor)
            CheckRoom(self, *self._needed, but=instance.uuid)

    def Exec(self, feedback: Feedback) -> None:
        instance, free = self.instance, None
        if self._needed is not None:
            free = MakeRoom(self, *self._needed, feedback, but=instance.uuid)
        if not self.op.no_remember:
            instance = self.cfg.MarkInstanceUp(instance.uuid)
        if self._primary_offline:
            self.LogInfo(f"Primary node offline, marked instance {instance.name} as started")
            return
        if self._user_down:
            # What is left of the guest must go before it can start again.
            result = self.rpc.call_instance_shutdown(
                instance.primary_node, instance, self.op.shutdown_timeout, self.op.reason
            )
            result.Raise(f"Could not clean up the stopped instance {instance.name} on {result.node_name}")
            ShutdownDisks(self, instance)
        self._EndLeftovers()
        # A guest that is there uses its disks, and may wait for one of them.
        in_use = self._situation is not None and self._situation.IsHere(instance.primary_node) and not self._user_down
        opened = StartDisks(self, instance, self.op.force, in_use=in_use)
        result = self.rpc.call_instance_start(
            instance.primary_node,
            (opened, self.op.hvparams, self.op.beparams),
            self.op.startup_paused,
            self.op.reason,
        )
        if result.fail_msg:
            if not in_use:
                ShutdownDisks(self, instance)
            result.Raise(f"Could not start instance '{instance.name}'")
        LimitStart(self, instance, free, self.op.beparams)


class LUInstanceShutdown(_RunLU[opcodes.OpInstanceShutdown]):
    """Stops an instance."""

    def OwnEnv(self) -> dict[str, Any]:
        return {"TIMEOUT": self.op.timeout}

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance = self.instance
        CheckNotForthcoming(instance)
        if self.op.force:
            self.LogWarning("Ignoring offline instance check")
        else:
            CheckInstanceState(self, instance, STATE_ONLINE)
        node = self.snapshot.nodes[instance.primary_node]
        self._primary_offline = node.offline
        if node.offline and self.op.ignore_offline_nodes:
            self.LogWarning(f"Ignoring offline primary node {node.name}")
            return
        CheckNodeOnline(node, f"Primary node of instance '{instance.name}' is offline")
        self._situation = self._Look()
        if not self._situation.StopsWith(instance.primary_node):
            raise self._situation.Refusal("cannot be shut down")
        if self.op.admin_state_source == constants.USER_SOURCE and not IsUserDown(self, InstanceInfo(self, instance)):
            raise errors.OpPrereqError(f"Instance '{instance.name}' was not shut down by its user", errors.ECODE_STATE)

    def Exec(self, feedback: Feedback) -> None:
        instance = self.instance
        if not self.op.no_remember and instance.admin_state in (UP, DOWN):
            if self.op.admin_state_source == constants.USER_SOURCE:
                instance = self.cfg.MarkInstanceUserDown(instance.uuid)
            else:
                instance = self.cfg.MarkInstanceDown(instance.uuid)
        if self._primary_offline:
            self.LogInfo(f"Primary node offline, marked instance {instance.name} as stopped")
            return
        self._AnnounceWait(self.op.timeout, "--timeout")
        result = self.rpc.call_instance_shutdown(instance.primary_node, instance, self.op.timeout, self.op.reason)
        result.Raise(f"Instance {instance.name} could not be shut down")
        self._EndLeftovers(keep=instance.primary_node)
        ShutdownDisks(self, instance)


class LUInstanceReboot(_StartingLU[opcodes.OpInstanceReboot]):
    """Restarts an instance, inside the guest or from outside."""

    def _Takes(self, instance: objects.Instance) -> bool:
        return IsShared(self.snapshot, instance.primary_node)

    def OwnEnv(self) -> dict[str, Any]:
        return {
            "IGNORE_SECONDARIES": self.op.ignore_secondaries,
            "REBOOT_TYPE": self.op.reboot_type,
            "SHUTDOWN_TIMEOUT": self.op.shutdown_timeout,
        }

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        CheckNotForthcoming(self.instance)
        CheckInstanceState(self, self.instance, STATE_ONLINE)
        node = self.snapshot.nodes[self.instance.primary_node]
        CheckNodeOnline(node, f"Primary node of instance '{self.instance.name}' is offline")
        self._situation = self._Look()
        hung = self._situation.State(node.uuid) == runstate.UNRESPONSIVE and self._situation.IsSilentAt(node.uuid)
        if not hung:
            self._situation = self._CheckPlace("cannot be rebooted")
        CheckNicBridges(self, self.instance.nics, node.uuid)

    def Exec(self, feedback: Feedback) -> None:
        instance = self.instance
        if self.op.reboot_type != REBOOT_SOFT:
            self._AnnounceWait(self.op.shutdown_timeout, "--shutdown-timeout")
        self._EndLeftovers()
        info = InstanceInfo(self, instance)
        running, free = bool(info), self._Room(info, feedback)
        if running and self.op.reboot_type in (REBOOT_SOFT, REBOOT_HARD):
            result = self.rpc.call_instance_reboot(
                instance.primary_node, instance, self.op.reboot_type, self.op.shutdown_timeout, self.op.reason
            )
            result.Raise(f"Could not reboot instance '{instance.name}'")
        else:
            self._StopAndStart(instance, running)
        LimitStart(self, instance, free)
        self.cfg.MarkInstanceUp(instance.uuid)

    def _Room(self, info: dict[str, Any], feedback: Feedback) -> int | None:
        """Return what the guest may use when it runs again, None where memory is not shared."""
        instance, node = self.instance, self.instance.primary_node
        if not IsShared(self.snapshot, node):
            return None
        if info.get("state") == constants.INST_RUNNING:
            return int(info["memory"]) + max(0, FreeMemory(self, node, instance.hypervisor))
        least = params.FillBE(self.snapshot, instance)["minmem"]
        reason = f"starting instance {instance.name}"
        return MakeRoom(self, node, reason, least, instance.hypervisor, feedback, but=instance.uuid)

    def _StopAndStart(self, instance: objects.Instance, running: bool) -> None:
        if running:
            result = self.rpc.call_instance_shutdown(
                instance.primary_node, instance, self.op.shutdown_timeout, self.op.reason
            )
            result.Raise(f"Instance {instance.name} could not be shut down for its reboot")
            ShutdownDisks(self, instance)
        else:
            self.LogInfo(f"Instance {instance.name} was already stopped, starting now")
        opened = StartDisks(self, instance, self.op.ignore_secondaries)
        result = self.rpc.call_instance_start(instance.primary_node, (opened, None, None), False, self.op.reason)
        if result.fail_msg:
            ShutdownDisks(self, instance)
            result.Raise(f"Could not start instance '{instance.name}' for full reboot")


def StartAgain(lu: InstanceLU[Any], feedback: Feedback, instance: objects.Instance) -> None:
    """Start an instance that this job had stopped, with its stored parameters; raise OpExecError."""
    with lu.Undisturbed():
        _StartAgain(lu, feedback, instance)


def _StartAgain(lu: InstanceLU[Any], feedback: Feedback, instance: objects.Instance) -> None:
    feedback(f"* starting instance {instance.name}")
    node, least = instance.primary_node, params.FillBE(lu.snapshot, instance)["minmem"]
    reason = f"starting instance {instance.name}"
    failure = f"Instance {instance.name} could not be started again on node {lu.snapshot.NodeName(node)} and is down"
    hint = f"'gnt-instance startup {instance.name}' tries again"
    try:
        free = MakeRoom(lu, node, reason, least, instance.hypervisor, feedback, but=instance.uuid)
        opened = StartDisks(lu, instance, force=False)
    except store.MasterEnded:
        raise
    except errors.GenericError as err:
        raise errors.OpExecError(f"{failure}: {err}", hint=err.hint or hint) from err
    result = lu.rpc.call_instance_start(node, (opened, None, None), False, lu.op.reason)
    if result.failure is not None:
        failure = (
            f"It is not known whether instance {instance.name} runs again, as node {result.node_name} did not answer"
        )
        hint = f"'gnt-instance list -o name,pnode,status {instance.name}' shows it; {hint}"
    if result.fail_msg:
        if result.failure is None:
            ShutdownDisks(lu, instance)
        raise errors.OpExecError(f"{failure}: {result.fail_msg}", hint=hint)
    LimitStart(lu, instance, free)


class LUInstanceConsole(NoHooksInstanceLU[opcodes.OpInstanceConsole]):
    """Describes how to reach the console."""

    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        super().ExpandNames()
        self.share_locks[locking.LEVEL_INSTANCE] = 1

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        CheckNodeOnline(self.snapshot.nodes[self.instance.primary_node])

    def Exec(self, feedback: Feedback) -> dict[str, Any]:
        instance = self.instance
        info = InstanceInfo(self, instance)
        if info and runstate.Of(info) in runstate.NOT_THE_GUEST:
            raise LookAround(self, instance).Error("has no console")
        if not info:
            state = {UP: "ERROR_down", DOWN: "ADMIN_down", OFFLINE: "ADMIN_offline"}[instance.admin_state]
            raise errors.OpExecError(
                f"Instance {instance.name} is not running (state {state})",
                hint=f"start it with 'gnt-instance startup {instance.name}'",
            )
        request = {instance.name: console.Request(self.snapshot, instance)}
        result = self.rpc.call_instance_console_info([instance.primary_node], request)[instance.primary_node]
        result.Raise(f"Can't get the console of instance {instance.name}")
        return console.Checked(self.snapshot, instance, result.payload)


class LUInstanceActivateDisks(NoHooksInstanceLU[opcodes.OpInstanceActivateDisks]):
    """Sets the disks of an instance up."""

    LOCKS_NODES = True

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        CheckNotForthcoming(self.instance)
        CheckNodeOnline(self.snapshot.nodes[self.instance.primary_node])
        self._behind: objects.Node | None = None
        if self.op.ignore_consistency:
            self._CheckOptions()
        if self.op.behind is not None:
            self._behind = ExpandNode(self.snapshot, self.op.behind)
            self._CheckBehind(self._behind)

    def _CheckOptions(self) -> None:
        what = f"Cannot ignore the consistency of the disks of instance {self.instance.name}"
        if self.op.behind is None:
            raise errors.OpPrereqError(
                f"{what}: it must be said whose copies are given up",
                errors.ECODE_INVAL,
                hint="name the node with --behind",
            )
        if self.op.wait_for_sync:
            raise errors.OpPrereqError(
                f"{what} and wait for their sync: the copies on node {self.op.behind} may be lost",
                errors.ECODE_INVAL,
                hint="leave --wait-for-sync out",
            )

    def _CheckBehind(self, node: objects.Node) -> None:
        """Check that the copies on a node may be given up."""
        instance, snapshot = self.instance, self.snapshot
        if node.uuid == instance.primary_node:
            raise errors.OpPrereqError(
                f"Node {node.name} is the primary node of instance {instance.name}: its copies are in use",
                errors.ECODE_INVAL,
                hint=f"to use those of the other node, 'gnt-instance failover --ignore-consistency {instance.name}'",
            )
        disks = mirrors.Mirrors(snapshot.InstanceDisks(instance))
        if not disks or node.uuid not in snapshot.SecondaryNodes(instance):
            raise errors.OpPrereqError(
                f"Instance {instance.name} has no mirrored disk on node {node.name}", errors.ECODE_INVAL
            )
        situation = LookAround(self, instance)
        if situation.State(node.uuid) in runstate.HOLDS:
            raise situation.Refusal(f"cannot give up its copies on node {node.name}")
        if self.op.ignore_consistency:
            self._CheckMayGoBack(disks, situation)
        else:
            self._CheckMayChoose(disks, node)

    def _CheckMayChoose(self, disks: Sequence[objects.Disk], node: objects.Node) -> None:
        """Check that the primary node's copies may be the ones that count; ``node``: whose are given up."""
        instance, name = self.instance, self.snapshot.NodeName(self.instance.primary_node)
        fail_over = f"use 'gnt-instance failover {instance.name}'"
        mirrors.CheckCounts(
            self.snapshot, instance, instance.primary_node, "cannot give up the newer copies", fail_over
        )
        view = mirrors.Look(self, instance, disks, [instance.primary_node])[instance.primary_node] or {}
        states = [(disk, view[disk.uuid]) for disk in disks if disk.uuid in view]
        incomplete = [disk for disk, state in states if state.get("incomplete") and not state.get("stranger")]
        if incomplete:
            raise errors.OpPrereqError(
                f"Instance {instance.name} has no complete data of {', '.join(str(disk.iv_name) for disk in incomplete)} on"
                f" its primary node {name}: the copies on node {node.name} are needed",
                errors.ECODE_STATE,
                hint=f"if they are being filled, wait for that; otherwise use 'gnt-instance failover --ignore-consistency"
                f" {instance.name}' to use those on node {node.name}, and if these are lost for good, restore {instance.name}"
                " from a backup",
            )

    def _CheckMayGoBack(self, disks: Sequence[objects.Disk], situation: Situation) -> None:
        """Check that nobody has what the newer copies have, if the primary node's are to be used although they lack it."""
        instance, primary, name = self.instance, self.instance.primary_node, self.snapshot.NodeName
        what = "cannot go back to its older copies"
        if not situation.StopsWith(primary):
            raise situation.Refusal(what)
        views = mirrors.Look(self, instance, disks, self.snapshot.AllNodes(instance))
        open_on = [uuid for uuid, view in views.items() if any(state.get("primary") for state in (view or {}).values())]
        runs = situation.IsHere(primary)
        if (runs or primary in open_on) and not mirrors.BehindOn(disks, primary):
            raise errors.OpPrereqError(
                f"Instance {instance.name} uses its copies on node {name(primary)} already, and none of them is recorded as"
                " older",
                errors.ECODE_STATE,
            )
        if runs or open_on:
            use = f"it runs on node {name(primary)}" if runs else f"its disks are open on node {name(open_on[0])}"
            raise errors.OpPrereqError(
                f"Instance {instance.name} {what}: {use}, with what the newer ones have",
                errors.ECODE_STATE,
                hint="if these are lost for good, end the instance first with"
                f" 'gnt-instance shutdown --timeout 0 {instance.name}'",
            )
        if situation.verdict.kind is not Kind.NOWHERE or situation.verdict.choices:
            raise situation.Refusal(what)

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        instance, going_back = self.instance, self.op.ignore_consistency
        if self._behind is not None:
            disks = mirrors.Mirrors(self.snapshot.InstanceDisks(instance))
            sides = instance.primary_node, self._behind.uuid
            if going_back:
                OlderCopies(self, instance, *sides).TakeDownAndCheck(self.op.ignore_size)
            else:
                # It is for a split brain, in which neither side may be able to speak for itself.
                ChosenCopies(self, instance, *sides).CheckKnown()
            if older := mirrors.BehindOn(disks, instance.primary_node):
                text = mirrors.Describe(self.snapshot, older)
                self.LogWarning(f"{text}: what was written after that is given up, as requested")
            mirrors.RecordBehind(self, instance, disks, self._behind.uuid)
        assembled = AssembleDisks(
            self,
            instance,
            ignore_secondaries=self._behind is not None,
            ignore_size=self.op.ignore_size,
        )
        if not assembled.all_well:
            raise errors.OpExecError(
                f"Cannot activate the block devices of instance {instance.name}",
                hint="repeat the command"
                if going_back
                else WayOn(self, self.current, force=False) or self._IfNodeIsOff(),
            )
        try:
            if self.op.wait_for_sync and not WaitForSync(self, instance):
                raise errors.OpExecError(f"Some disks of instance {instance.name} are degraded")
        except errors.OpExecError:
            if not instance.disks_active:
                self.cfg.MarkInstanceDisksInactive(instance.uuid)
            raise
        return assembled.paths

    def _IfNodeIsOff(self) -> str | None:
        names = " and ".join(map(self.snapshot.NodeName, self.snapshot.SecondaryNodes(self.current)))
        return f"if node {names} is off, use 'gnt-node modify --offline yes {names}' and try again" if names else None


class LUInstanceDeactivateDisks(NoHooksInstanceLU[opcodes.OpInstanceDeactivateDisks]):
    """Takes the disks of an instance down."""

    LOCKS_NODES = True

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        CheckNotForthcoming(self.instance)

    def Exec(self, feedback: Feedback) -> None:
        if not self.op.force:
            CheckInstanceState(self, self.instance, STATE_DOWN)
        ShutdownDisks(self, self.instance)
