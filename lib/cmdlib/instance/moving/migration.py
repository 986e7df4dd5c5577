"""Failing an instance over, and migrating it while it runs (doc/design-migration.rst, doc/reference/drivers.md d.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, params, runtime
from ganeti.cmdlib import ratios
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.common import (
    CheckNicBridges,
    CheckNodeNotDrained,
    CheckNodeOnline,
    CheckViolations,
    InstanceInfo,
)
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.advice import WayOn
from ganeti.cmdlib.disk.copies import Copies
from ganeti.cmdlib.disk.devices import AssembleDisks, ShutdownDisks
from ganeti.cmdlib.instance.base import CheckNotForthcoming, CheckTargetPolicy
from ganeti.cmdlib.instance.moving.looking import EndLeftovers, Situation
from ganeti.cmdlib.instance.moving.settling import Settler
from ganeti.cmdlib.instance.moving.whereabouts import Kind
from ganeti.cmdlib.instance.room import CheckRoom, IsShared, LimitStart, MakeRoom
from ganeti.params import disk as disk_params
from ganeti.params import hv, runstate

if TYPE_CHECKING:
    from ganeti import objects

_STATUS_PAUSE = 1.0
# How long DRBD may take to notice that the other node is gone.
_DEATH_SECONDS = 30.0
_REPORT_PAUSE = 10.0
# How long a source may be silent before its guest is looked for, and how long that may take.
_SILENCE = 60.0
_PATIENCE = 120.0
_ACTIVE = "active"
_FAILURES = ("failed", "cancelled")


class TLMigrateInstance(Settler):
    """Move an instance from its primary node to another one.

    ``failover``: stopped and started, else while it runs.  ``fallback``: a migration that cannot be done becomes a
    fail-over.
    """

    def __init__(
        self,
        lu: LogicalUnit[Any],
        instance_uuid: str,
        failover: bool = False,
        fallback: bool = False,
        ignore_consistency: bool = False,
        allow_runtime_changes: bool = True,
        shutdown_timeout: int = constants.DEFAULT_SHUTDOWN_TIMEOUT,
        ignore_ipolicy: bool = False,
        ignore_hvversions: bool = False,
    ):
        super().__init__(lu, instance_uuid)
        self.failover = failover
        self._fallback = fallback
        self._ignore_consistency = ignore_consistency
        self._allow_runtime_changes = allow_runtime_changes
        self._shutdown_timeout = shutdown_timeout
        self._ignore_ipolicy = ignore_ipolicy
        self._ignore_hvversions = ignore_hvversions
        self.live = True
        self._free_memory: int | None = None
        self._room: int | None = None
        self._needed: tuple[str, str, int, str] | None = None
        self._current_memory: int | None = None

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        instance, snapshot = self._instance, self.snapshot
        CheckNotForthcoming(instance)
        self.source_uuid = instance.primary_node
        if not self.failover and self._fallback and instance.admin_state != constants.ADMINST_UP:
            self._FallBack(f"Instance {instance.name} is marked down or offline")
        self._FindTarget(instance)
        CheckTargetPolicy(self.lu, instance, self.target_uuid, self._ignore_ipolicy)
        self._CheckCounts()
        target = snapshot.nodes[self.target_uuid]
        beparams = params.FillBE(snapshot, instance)
        CheckNodeOnline(target)
        if not self.failover and beparams["always_failover"]:
            self.failover = True
            self.lu.LogInfo(f"Instance {instance.name} has 'always_failover' set: it is failed over")
        situation = self._Look(self._pair)
        if not self.failover and not self._MayMigrate(situation):
            raise situation.Refusal("cannot be migrated")
        if not self.failover:
            self._CheckMinima(beparams)
        self._CheckMemory(instance, self._LeastMemory(beparams))
        CheckNicBridges(self.lu, instance.nics, self.target_uuid)
        CheckNodeNotDrained(target)
        if not self.failover:
            self._CheckMigratable(instance)
        if self.failover:
            if not self._MayFailOver(situation):
                raise situation.Refusal("cannot be failed over")
        elif self._current_memory is None:
            self._current_memory = InstanceInfo(self.lu, instance).get("memory")

    def _CheckCounts(self) -> None:
        """Check that the target has all the data as far as the configuration knows."""
        instance, target = self._instance, self._Name(self.target_uuid)
        if not self.failover:
            for node in self._pair:
                hint = self._HowToFill(instance) if node == self.source_uuid else ""
                mirrors.CheckCounts(self.snapshot, instance, node, "cannot be migrated", hint)
            return
        behind = mirrors.BehindOn(self._disks, self.target_uuid)
        if behind and self._ignore_consistency:
            text = mirrors.Describe(self.snapshot, behind)
            self.lu.LogWarning(f"{text}: what was written after that is given up, as requested")
            return
        source = self.snapshot.nodes[self.source_uuid]
        hint = f"if node {source.name} comes back, wait until {target} is filled again"
        if behind and not source.offline:
            view = mirrors.LookBriefly(self, instance, behind, source.uuid)
            if view is not None:
                hint = self._HowToFill(instance)
                if all(view.get(disk.uuid, {}).get("local_uptodate") for disk in behind):
                    raise mirrors.NotCounting(self.snapshot, instance, behind, "cannot be failed over", hint)
        mirrors.CheckCounts(self.snapshot, instance, self.target_uuid, "cannot be failed over", hint)

    def _HowToFill(self, instance: objects.Instance) -> str:
        return (
            f"if the disk works again, use 'gnt-instance activate-disks --wait-for-sync {instance.name}', otherwise"
            f" 'gnt-instance replace-disks --auto {instance.name}'; then wait some seconds and try again"
        )

    def _MayMigrate(self, situation: Situation) -> bool:
        """Return whether the guest is on its primary node, as far as these views go; what runs nowhere is for later."""
        if situation.verdict.kind is Kind.NOWHERE:
            return not situation.verdict.choices
        return situation.IsHere(self.source_uuid) or (self._fallback and situation.IsSilentAt(self.source_uuid))

    def _MayFailOver(self, situation: Situation) -> bool:
        """Return whether the guest can be ended on the source without there being another one."""
        if situation.IsSilentAt(self.source_uuid):
            return situation.State(self.target_uuid) == runstate.GONE
        places = (self.source_uuid, self.target_uuid)
        return situation.verdict.kind is Kind.NOWHERE or any(situation.IsHere(node) for node in places)

    def _FallBack(self, reason: str) -> None:
        self.lu.LogInfo(f"{reason}, fallback allowed, switching to failover")
        self.failover = True

    def _FindTarget(self, instance: objects.Instance) -> None:
        op, snapshot = self.lu.op, self.snapshot
        template = snapshot.DiskTemplate(instance)
        traits = disk_params.TEMPLATES.get(template)
        self.mirror = traits.mirror if traits is not None else None
        what = "failed over" if self.failover else "migrated"
        if self.mirror is None:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' has disk template {template}, whose disks are on one node only:"
                f" it cannot be {what}",
                errors.ECODE_STATE,
            )
        if self.mirror == disk_params.EXTERNAL:
            self.target_uuid = op.target_node_uuid
            if self.target_uuid == instance.primary_node:
                raise errors.OpPrereqError(
                    f"Cannot migrate instance {instance.name} to its primary node ({self._Name(self.target_uuid)})",
                    errors.ECODE_STATE,
                )
            return
        (self.target_uuid, *more) = snapshot.SecondaryNodes(instance) or ("",)
        if not self.target_uuid or more:
            raise errors.ConfigurationError(f"Instance {instance.name} has not exactly one secondary node")
        if op.target_node_uuid == instance.primary_node:
            raise errors.OpPrereqError(
                f"Node {self._Name(instance.primary_node)} is the primary node of instance {instance.name} already;"
                " nothing was moved",
                errors.ECODE_STATE,
                hint=f"'gnt-instance list -o name,pnode,snodes,status {instance.name}' shows where it is and whether it runs",
            )
        self._ChooseMirrored(instance)

    def _ChooseMirrored(self, instance: objects.Instance) -> None:
        """Check the node that was asked for; the mirror's other side is ``target_uuid`` already."""
        if self.lu.op.target_node_uuid not in (None, self.target_uuid):
            raise errors.OpPrereqError(
                f"The secondary node of instance {instance.name} was changed while this job waited; try again",
                errors.ECODE_STATE,
            )

    @property
    def secondaries(self) -> tuple[str, str]:
        """Return the secondary nodes of a mirror before and after."""
        return self.target_uuid, self.source_uuid

    def _CheckMinima(self, beparams: dict[str, Any]) -> None:
        """Check that the minima of all instances fit on the target, whether they run at this moment or not.

        Their maxima may be more than the ratio allows: a node must be easy to empty, and guests can be made smaller.
        """
        instance, snapshot = self._instance, self.snapshot
        group = snapshot.nodegroups[snapshot.nodes[self.target_uuid].group]
        found = ratios.MemoryViolations(
            self.lu, self.target_uuid, beparams, instance.hypervisor, instance.uuid, promises=False
        )
        # A node that is to be emptied must get rid of its guests.
        ignore = self._ignore_ipolicy or snapshot.nodes[self.source_uuid].drained
        CheckViolations(self.lu, instance.name, group, found, ignore)

    def _LeastMemory(self, beparams: dict[str, Any]) -> int:
        """Return what must be free on the target: the minimum, or what the guest has if it may not be made smaller.

        The latter only where others can make room for it; else it is found out when nothing was moved yet, as in 3.1.
        """
        least = int(beparams["minmem"])
        if self.failover or self._allow_runtime_changes or not IsShared(self.snapshot, self.target_uuid):
            return least
        self._current_memory = InstanceInfo(self.lu, self._instance).get("memory")
        return max(least, self._current_memory or 0)

    def _CheckMemory(self, instance: objects.Instance, minmem: int) -> None:
        if self.failover and instance.admin_state != constants.ADMINST_UP:
            self.lu.LogInfo("Not checking memory on the secondary node as instance will not be started")
            return
        what = "failing over" if self.failover else "migrating"
        self._needed = (self.target_uuid, f"{what} instance {instance.name}", minmem, instance.hypervisor)
        self._free_memory = CheckRoom(self.lu, *self._needed, but=instance.uuid)

    def _CheckMigratable(self, instance: objects.Instance) -> None:
        result = self.rpc.call_instance_migratable(instance.primary_node, instance)
        if result.fail_msg and self._fallback:
            self._FallBack(f"Can't migrate, the node says: {result.fail_msg}")
            return
        result.Raise("Can't migrate, please use failover", prereq=True, ecode=errors.ECODE_STATE)

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> None:
        self._feedback = feedback
        instance = self._instance
        source, target = self._Name(self.source_uuid), self._Name(self.target_uuid)
        if self.failover:
            feedback(f"Failing instance {instance.name} over from {source} to {target}")
            self._ExecFailover()
        else:
            feedback(f"Migrating instance {instance.name} from {source} to {target}")
            self._ExecMigration()

    def _ExecFailover(self) -> None:
        instance = self._instance
        source = self.snapshot.nodes[self.source_uuid]
        situation = self._Look(self._pair)
        if not self._MayFailOver(situation):
            raise situation.Error("cannot be failed over")
        if situation.IsHere(self.target_uuid):
            self._feedback(f"* the instance is on {self._Name(self.target_uuid)} already")
            self._Settle(situation)
            return
        EndLeftovers(self, instance, situation, keep=source.uuid)
        self._CheckSourceIsOff(self.target_uuid)
        waiting = self._CheckCopies(self.target_uuid, situation, excused=source.offline or self._ignore_consistency)
        self._MakeRoom()
        if waiting:
            self._GiveUpWaiting(waiting)
        silent = self._StopGuest(instance, source)
        if silent:
            # The old primary's copy is given up: one that it was still filling stays incomplete.
            self._CheckCopies(self.target_uuid, situation, excused=True)
        elif waiting and (more := Copies(self, self._instance, self.target_uuid, self.source_uuid).Waiting()):
            # Each link is found to be lost at a moment of its own.
            self._GiveUpWaiting(more)
        self._feedback("* deactivating the instance's disks on source node")
        # A device that stays open there would be open on two nodes.
        if not ShutdownDisks(self, instance, ignore_primary=source.offline or self._ignore_consistency):
            raise errors.OpExecError(
                f"Can't shut down the disks of instance {instance.name}, which is stopped",
                hint=f"try again; if node {source.name} is off for sure, use 'gnt-node modify --offline yes {source.name}'"
                " first",
            )
        # A guest that was not seen to end may write for as long as its node is not told otherwise.
        instance = self.cfg.SetInstancePrimaryNode(instance.uuid, self.target_uuid, alone=silent)
        if instance.admin_state == constants.ADMINST_UP:
            self._StartOnTarget(stays=not (source.offline or self._ignore_consistency))

    def _CheckSourceIsOff(self, other_uuid: str) -> None:
        """Raise OpExecError if the source, which is marked offline, still has a mirror open: its guest would be frozen.

        DRBD on the other node knows; that a node has died is noticed there some seconds later.
        """
        source = self.snapshot.nodes[self.source_uuid]
        disks = mirrors.Mirrors(self._disks)
        if not (source.offline and disks):
            return
        until = runtime.Monotonic() + _DEATH_SECONDS
        while True:
            view = mirrors.Look(self, self._instance, disks, [other_uuid])[other_uuid] or {}
            used = [str(disk.iv_name) for disk in disks if view.get(disk.uuid, {}).get("peer_primary")]
            if not used:
                return
            if runtime.Monotonic() >= until:
                break
            self.lu.Pause(_STATUS_PAUSE)
        name = self._instance.name
        raise errors.OpExecError(
            f"Instance {name} cannot be failed over: node {source.name} is marked offline, but it is connected to"
            f" {self._Name(other_uuid)} and has {', '.join(used)} open",
            hint=f"if it works, use 'gnt-node modify --offline no {source.name}', and 'gnt-instance migrate {name}' or"
            f" 'gnt-instance failover {name}' if the instance is to be moved; if it hangs, switch it off and try again",
        )

    def _StopGuest(self, instance: objects.Instance, source: objects.Node) -> bool:
        """Shut the guest down; return whether its node did not say that it has ended."""
        self._feedback("* shutting down instance on source node")
        result = self.rpc.call_instance_shutdown(source.uuid, instance, self._shutdown_timeout, self.lu.op.reason)
        if result.fail_msg and not (self._ignore_consistency or source.offline):
            raise errors.OpExecError(
                f"Instance {instance.name} could not be shut down on node {source.name}: {result.fail_msg}",
                hint=f"if the node is off for sure, use 'gnt-node modify --offline yes {source.name}' and try again",
            )
        result.Warn(
            f"Instance {instance.name} could not be shut down on node {source.name}, proceeding anyway;"
            f" please make sure node {source.name} is down",
            self.lu.LogWarning,
        )
        return bool(result.fail_msg)

    def _GiveUpWaiting(self, disks: Sequence[objects.Disk]) -> None:
        """Record that the source's sides of disks, which are frozen, do not count: what waits there can be failed then."""
        names = ", ".join(str(disk.iv_name) for disk in disks)
        source, target = self._Name(self.source_uuid), self._Name(self.target_uuid)
        self._feedback(
            f"* nothing is written to {names} on {source} until {target} is connected again, so {target} has all that was"
            f" acknowledged; the copy on {source} is recorded as behind from now on"
        )
        mirrors.RecordBehind(self, self._instance, disks, self.source_uuid, answers=True)

    def _CheckCopies(self, node_uuid: str, situation: Situation, excused: bool) -> list[objects.Disk]:
        """Check that a node has the data of all disks; ``excused``: a mirror in use may be degraded.

        Return the disks of which it has all because the other side is frozen.
        """
        copies = Copies(self, self._instance, node_uuid, self.source_uuid)
        # Disks of a guest that runs are in use whatever is recorded of them.
        if self._instance.disks_active or situation.IsHere(self.source_uuid):
            self._feedback("* checking disk consistency between source and target")
            return copies.CheckActive(excused, self._ignore_consistency, self._feedback)
        if self.mirror == disk_params.INTERNAL:
            self._feedback(f"* checking the disks on {self._Name(node_uuid)}")
            copies.CheckIdle(self._ignore_consistency, self._feedback)
        else:
            self._feedback("* not checking disk consistency as instance is not running")
        return []

    def _StartOnTarget(self, stays: bool, ignore_secondaries: bool = True) -> None:
        """Set the disks up and start the guest.

        ``stays``: a side on the source that is there and does not connect may be the newer one; then the instance stays there.
        """
        target = self._Name(self.target_uuid)
        self._feedback(f"* activating the instance's disks on target node {target}")
        instance = self._instance
        assembled = AssembleDisks(self, instance, ignore_secondaries=ignore_secondaries, may_part=not stays)
        if not assembled.all_well:
            error = f"Can't activate the disks of instance {instance.name} on node {target}"
            raise self._StayOnSource(error) if stays else self._DisksDown(error)
        self._feedback(f"* starting the instance on the target node {target}")
        instance, opened = self._instance, assembled.instance
        result = self.rpc.call_instance_start(self.target_uuid, (opened, None, None), False, self.lu.op.reason)
        if result.fail_msg:
            ShutdownDisks(self, instance)
            result.Raise(f"Could not start instance {instance.name} on node {target}")
        LimitStart(self.lu, instance, self._room)

    def _DisksDown(self, error: str) -> errors.OpExecError:
        ShutdownDisks(self, self._instance)
        return errors.OpExecError(error)

    def _StayOnSource(self, error: str) -> errors.OpExecError:
        """Take the disks down, give the instance back to the source, and return the error."""
        hint = self._WhenItStays()
        # As long as the target is the primary node, this reaches it.
        self._TryClose(self.target_uuid)
        ShutdownDisks(self, self._instance)
        self.cfg.SetInstancePrimaryNode(self._instance_uuid, self.source_uuid, as_recorded=True)
        return errors.OpExecError(f"{error}; it stays on {self._Name(self.source_uuid)}", hint=hint)

    def _WhenItStays(self) -> str:
        """Return what to do if the instance stays on the source, going by the disks as they are set up now."""
        name, source, target = self._instance.name, self._Name(self.source_uuid), self._Name(self.target_uuid)
        if self.mirror != disk_params.INTERNAL:
            return f"'gnt-instance startup {name}' starts it there again"
        # Where the target has newer data of a disk, a fail-over would be named, which has just failed for another one.
        needed = mirrors.BehindOn(self._disks, self.source_uuid)
        way = None if needed else WayOn(self, self._instance.Replace(primary_node=self.source_uuid), force=False)
        return way or (
            "if the nodes cannot reach each other, repair the link between them and try again; 'gnt-instance failover"
            f" --ignore-consistency {name}' uses the copy on {target} and gives up what only {source} has"
        )

    # --- while it runs ------------------------------------------------------------------------------------------------

    def _ExecMigration(self) -> None:
        instance = self._instance
        situation = self._Look(self._pair)
        if not situation.IsHere(self.source_uuid):
            raise situation.Error("cannot be migrated")
        EndLeftovers(self, instance, situation)
        self._ForgetTransfers(situation)
        self._CheckVersions(instance)
        self._CheckCopies(self.target_uuid, situation, excused=False)
        mirrors.CheckViews(self, instance, self._pair, "cannot be migrated")
        self._MakeRoom()
        self._ShrinkMemory(instance)
        result = self.rpc.call_migration_info(self.source_uuid, instance)
        result.Raise(f"Failed fetching source migration information from {self._Name(self.source_uuid)}")
        self._Conclude(self._Transfer(result.payload))

    def _Transfer(self, info: Any) -> str | None:
        """Send the guest; why that failed, as far as this can be told, or None."""
        instance = self._instance
        try:
            self._OpenBoth()
        except errors.OpExecError as err:
            return str(err)
        self._feedback(f"* preparing {self._Name(self.target_uuid)} to accept the instance")
        target_ip = self.snapshot.nodes[self.target_uuid].secondary_ip
        result = self.rpc.call_accept_instance(self.target_uuid, instance, info, target_ip)
        if result.fail_msg:
            return f"{result.node_name} cannot accept it: {result.fail_msg}"
        self._feedback(f"* migrating instance to {self._Name(self.target_uuid)}")
        cluster_name = self.snapshot.cluster.cluster_name
        result = self.rpc.call_instance_migrate(self.source_uuid, cluster_name, instance, target_ip, self.live)
        if result.fail_msg:
            return f"{result.node_name} cannot send it: {result.fail_msg}"
        return self._Watch()

    def _Watch(self) -> str | None:
        """Wait until the source says that it has sent all; why not, or None.  A source that is silent is asked again."""
        self._feedback("* starting memory transfer")
        reported = heard = runtime.Monotonic()
        while True:
            result = self.rpc.call_instance_get_migration_status(self.source_uuid, self._instance)
            now = runtime.Monotonic()
            progress = result.payload if not result.fail_msg and isinstance(result.payload, dict) else {}
            status = progress.get("status")
            if status in _FAILURES:
                return f"the hypervisor of {result.node_name} reports '{status}'"
            if status is None:
                if now - heard >= _SILENCE:
                    return f"{result.node_name} does not report the state of the transfer: {result.fail_msg}"
            elif status != _ACTIVE:
                self._feedback("* memory transfer complete")
                return None
            else:
                heard = now
                if now - reported >= _REPORT_PAUSE:
                    reported = now
                    self._ReportProgress(progress)
            try:
                self.lu.Pause(_STATUS_PAUSE)
            except errors.OpExecError as err:
                return str(err)

    def _ReportProgress(self, progress: dict[str, Any]) -> None:
        sent, total = progress.get("transferred_ram"), progress.get("total_ram")
        if isinstance(sent, int) and isinstance(total, int) and total > 0:
            self._feedback(f"* memory transfer progress: {100.0 * sent / total:.2f} %")

    def _Conclude(self, trouble: str | None) -> None:
        """Find out where the guest is now, and settle that; fails unless it is on the target."""
        name = self._instance.name
        situation = self._ResolveAfter(trouble)
        if situation.verdict.node == self.source_uuid:
            problem = self._TrySettle(situation)
            # A call that came late may have sent it since it was looked for: then it returns, or has arrived.
            situation = self._ResolveAfter(trouble)
            if situation.verdict.node == self.source_uuid:
                # Or have something wait for it on the target, which can be ended now.
                problem = self._TrySettle(situation) if problem is not None else None
                if problem is not None:
                    self.lu.LogWarning(f"After the failed migration: {problem}")
                trouble = trouble or f"{self._Name(self.target_uuid)} could not receive it"
                raise errors.OpExecError(
                    f"Could not migrate instance {name}: {trouble}; it stays on {self._Name(self.source_uuid)}"
                )
        self._Settle(situation)
        where, state = situation.verdict.node, situation.State(situation.verdict.node)
        if state != runstate.RUNNING:
            self.lu.LogWarning(f"The instance does not run on {self._Name(where)}: its state is {state}, as before")
        self._feedback("* done")

    def _ResolveAfter(self, trouble: str | None) -> Situation:
        try:
            return self._Resolve("could not be migrated", _PATIENCE)
        except errors.OpExecError as err:
            raise errors.OpExecError(f"{trouble}: {err}" if trouble else str(err)) from err

    def _TrySettle(self, situation: Situation) -> errors.OpExecError | None:
        try:
            self._Settle(situation)
        except errors.OpExecError as err:
            return err
        return None

    def _CheckVersions(self, instance: objects.Instance) -> None:
        hvparams = self.snapshot.cluster.hvparams.get(instance.hypervisor, {})
        pair = [self.source_uuid, self.target_uuid]
        results = self.rpc.call_node_info(pair, None, [[instance.hypervisor, hvparams]])
        for result in results.values():
            result.Raise(f"Can't get hypervisor information from {result.node_name}")
        source, target = [results[uuid].payload[2][0].get("hv_version") for uuid in pair]
        if source == target or source is None or target is None:
            return
        self._feedback(f"* warning: hypervisor version mismatch between source ({source}) and target ({target}) node")
        if hv.IsSafeMove(instance.hypervisor, source, target):
            return
        if not self._ignore_hvversions:
            raise errors.OpExecError(
                f"Unsafe migration: the hypervisor of {self._Name(self.target_uuid)} is older ({target}) than that of"
                f" {self._Name(self.source_uuid)} ({source})",
                hint="use --ignore-hvversions to try nevertheless, or fail over",
            )
        self._feedback("  (ignoring it, as requested)")

    def _MakeRoom(self) -> None:
        """Have the target's other guests give memory back, if the instance needs it there."""
        if self._needed is not None:
            self._room = MakeRoom(self.lu, *self._needed, self._feedback, but=self._instance_uuid)
            self._free_memory = self._free_memory if self._room is None else self._room

    def _ShrinkMemory(self, instance: objects.Instance) -> None:
        free, current = self._free_memory, self._current_memory
        if free is None or current is None or current <= free:
            return
        if not self._allow_runtime_changes:
            raise errors.OpExecError(
                f"Memory ballooning not allowed and not enough free memory to fit instance {instance.name} on target"
                f" node {self._Name(self.target_uuid)} (have {free} MiB, need {current} MiB)"
            )
        self._feedback(f"* setting instance memory to {free} MiB")
        result = self.rpc.call_instance_balloon_memory(self.source_uuid, instance, free)
        result.Raise("Cannot modify instance runtime memory")
