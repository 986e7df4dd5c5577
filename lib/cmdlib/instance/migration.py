"""The work of failing over and migrating, shared by both units (spec/drivers.md d.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, params, runtime
from ganeti.cmdlib.base import Feedback, LogicalUnit, Tasklet
from ganeti.cmdlib.common import (
    CheckNicBridges,
    CheckNodeFreeMemory,
    CheckNodeNotDrained,
    CheckNodeOnline,
    InstanceInfo,
)
from ganeti.cmdlib.disk.devices import AssembleDisks, IsDegraded, ShutdownDisks
from ganeti.cmdlib.instance.base import CheckNotForthcoming, CheckTargetPolicy
from ganeti.params import disk as disk_params
from ganeti.params import hv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti import objects, rpc

_STATUS_PAUSE = 1.0
_REPORT_PAUSE = 10.0
_SYNC_PAUSE = 2.0
_ACTIVE, _COMPLETED = "active", "completed"
_FAILURES = ("failed", "cancelled")
# Set up on the secondary node too, so that their state there tells something.
_SEEN_ON_SECONDARY = frozenset([constants.DT_PLAIN, constants.DT_DRBD8])
_UNMAPPED = frozenset([constants.DT_RBD, constants.DT_EXT])


class TLMigrateInstance(Tasklet):
    """Moves an instance from its primary node to another one.

    ``failover``: stopped and started, else while it runs.  ``fallback``: a migration that cannot be done becomes a
    fail-over.  ``cleanup``: finds out where an interrupted migration has left the instance, and puts things right.
    After CheckPrereq ``source_uuid``, ``target_uuid`` and ``mirror`` (None, internal, external) are known.
    """

    source_uuid: str
    target_uuid: str
    mirror: str | None

    def __init__(
        self,
        lu: LogicalUnit,
        instance_uuid: str,
        failover: bool = False,
        fallback: bool = False,
        cleanup: bool = False,
        ignore_consistency: bool = False,
        allow_runtime_changes: bool = True,
        shutdown_timeout: int = constants.DEFAULT_SHUTDOWN_TIMEOUT,
        ignore_ipolicy: bool = False,
        ignore_hvversions: bool = False,
    ):
        super().__init__(lu)
        self._instance_uuid = instance_uuid
        self.failover = failover
        self._fallback = fallback
        self._cleanup = cleanup
        self._ignore_consistency = ignore_consistency
        self._allow_runtime_changes = allow_runtime_changes
        self._shutdown_timeout = shutdown_timeout
        self._ignore_ipolicy = ignore_ipolicy
        self._ignore_hvversions = ignore_hvversions
        self.live = True
        self._free_memory: int | None = None
        self._current_memory: int | None = None

    @property
    def _instance(self) -> objects.Instance:
        return self.snapshot.instances[self._instance_uuid]

    @property
    def _disks(self) -> tuple[objects.Disk, ...]:
        return self.snapshot.InstanceDisks(self._instance)

    def _Name(self, uuid: str) -> str:
        return self.snapshot.nodes[uuid].name

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        instance, snapshot = self._instance, self.snapshot
        CheckNotForthcoming(instance)
        self.source_uuid = instance.primary_node
        if not self._cleanup and not self.failover and self._fallback and instance.admin_state != constants.ADMINST_UP:
            self._FallBack(f"Instance {instance.name} is marked down or offline")
        self._FindTarget(instance)
        CheckTargetPolicy(self.lu, instance, self.target_uuid, self._ignore_ipolicy)
        target = snapshot.nodes[self.target_uuid]
        beparams = params.FillBE(snapshot, instance)
        if not self._cleanup:
            CheckNodeOnline(target)
            if not self.failover and beparams["always_failover"]:
                self.failover = True
                self.lu.LogInfo(f"Instance {instance.name} has 'always_failover' set: it is failed over")
            self._CheckMemory(instance, beparams["minmem"])
        CheckNicBridges(self.lu, instance.nics, self.target_uuid)
        if self._cleanup:
            return
        CheckNodeNotDrained(target)
        if not self.failover:
            self._CheckMigratable(instance)
        if not self.failover:
            self._current_memory = InstanceInfo(self.lu, instance).get("memory")

    def _FallBack(self, reason: str) -> None:
        self.lu.LogInfo(f"{reason}, fallback allowed, switching to failover")
        self.failover = True

    def _FindTarget(self, instance: objects.Instance) -> None:
        op, snapshot = self.lu.op, self.snapshot
        template = snapshot.DiskTemplate(instance)
        traits = disk_params.TRAITS.get(template)
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
        if op.iallocator or op.target_node_uuid not in (None, self.target_uuid):
            raise errors.OpPrereqError(
                f"Instances with disk template {template} cannot be {what} to arbitrary nodes, only to"
                f" {self._Name(self.target_uuid)}",
                errors.ECODE_INVAL,
                hint=f"change the secondary node first: 'gnt-instance replace-disks -n NODE {instance.name}'",
            )

    def _CheckMemory(self, instance: objects.Instance, minmem: int) -> None:
        if self.failover and instance.admin_state != constants.ADMINST_UP:
            self.lu.LogInfo("Not checking memory on the secondary node as instance will not be started")
            return
        what = "failing over" if self.failover else "migrating"
        self._free_memory = CheckNodeFreeMemory(
            self.lu, self.target_uuid, f"{what} instance {instance.name}", minmem, instance.hypervisor
        )

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
        if self._cleanup:
            feedback(f"Cleaning up after a migration of instance {instance.name}")
            self._ExecCleanup()
        elif self.failover:
            feedback(f"Failover instance {instance.name} from {source} to {target}")
            self._ExecFailover()
        else:
            feedback(f"Migrating instance {instance.name} from {source} to {target}")
            self._ExecMigration()

    def _ExecFailover(self) -> None:
        instance = self._instance
        source = self.snapshot.nodes[self.source_uuid]
        if instance.disks_active:
            self._feedback("* checking disk consistency between source and target")
            self._CheckConsistency(excused=source.offline or self._ignore_consistency)
        else:
            self._feedback("* not checking disk consistency as instance is not running")
        self._feedback("* shutting down instance on source node")
        result = self.rpc.call_instance_shutdown(source.uuid, instance, self._shutdown_timeout, self.lu.op.reason)
        if result.fail_msg and not (self._ignore_consistency or source.offline):
            raise errors.OpExecError(
                f"Could not shutdown instance {instance.name} on node {source.name}: {result.fail_msg}",
                hint=f"if the node is off for sure, use 'gnt-node modify --offline yes {source.name}' and try again",
            )
        result.Warn(
            f"Could not shutdown instance {instance.name} on node {source.name}, proceeding anyway;"
            f" please make sure node {source.name} is down",
            self.lu.LogWarning,
        )
        self._feedback("* deactivating the instance's disks on source node")
        if not ShutdownDisks(self, instance, ignore_primary=True):
            raise errors.OpExecError("Can't shut down the instance's disks")
        instance = self.cfg.SetInstancePrimaryNode(instance.uuid, self.target_uuid)
        if instance.admin_state == constants.ADMINST_UP:
            self._StartOnTarget()

    def _CheckConsistency(self, excused: bool) -> None:
        instance = self._instance
        for disk in self._disks:
            if disk.dev_type not in _SEEN_ON_SECONDARY or not IsDegraded(self, self.target_uuid, instance, disk):
                continue
            target = self._Name(self.target_uuid)
            if not excused:
                raise errors.OpExecError(
                    f"Disk {disk.iv_name} is degraded or not fully synchronized on target node {target}, aborting",
                    hint="its newest data may be on the other node only; wait for the sync or repair the disk",
                )
            self._feedback(f"Ignoring degraded disk {disk.iv_name} on target node {target}")

    def _StartOnTarget(self) -> None:
        target = self._Name(self.target_uuid)
        self._feedback(f"* activating the instance's disks on target node {target}")
        instance = self._instance
        all_well, _ = AssembleDisks(self, instance, ignore_secondaries=True)
        if not all_well:
            ShutdownDisks(self, instance)
            raise errors.OpExecError("Can't activate the instance's disks")
        self._feedback(f"* starting the instance on the target node {target}")
        instance = self._instance
        result = self.rpc.call_instance_start(self.target_uuid, (instance, None, None), False, self.lu.op.reason)
        if result.fail_msg:
            ShutdownDisks(self, instance)
            result.Raise(f"Could not start instance {instance.name} on node {target}")

    # --- while it runs ------------------------------------------------------------------------------------------------

    def _ExecMigration(self) -> None:
        instance = self._instance
        self._CheckVersions(instance)
        self._feedback("* checking disk consistency between source and target")
        self._CheckConsistency(excused=False)
        self._ShrinkMemory(instance)
        result = self.rpc.call_migration_info(self.source_uuid, instance)
        result.Raise(f"Failed fetching source migration information from {self._Name(self.source_uuid)}")
        info = result.payload
        self._OpenBoth()
        self._feedback(f"* preparing {self._Name(self.target_uuid)} to accept the instance")
        target_ip = self.snapshot.nodes[self.target_uuid].secondary_ip
        result = self.rpc.call_accept_instance(self.target_uuid, instance, info, target_ip)
        self._RaiseAfterUndo(result, info, "Could not pre-migrate instance")
        self._feedback(f"* migrating instance to {self._Name(self.target_uuid)}")
        cluster_name = self.snapshot.cluster.cluster_name
        result = self.rpc.call_instance_migrate(self.source_uuid, cluster_name, instance, target_ip, self.live)
        self._RaiseAfterUndo(result, info, "Could not migrate instance")
        self._WatchMigration(info)
        self._Finalize(info)
        self._CloseSource()
        self._feedback("* done")

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

    def _WatchMigration(self, info: Any) -> None:
        """Waits until the guest has gone over."""
        self._feedback("* starting memory transfer")
        reported = runtime.Monotonic()
        while True:
            instance = self._instance
            result = self.rpc.call_instance_get_migration_status(self.source_uuid, instance)
            status = {} if result.fail_msg else result.payload
            if result.fail_msg or status["status"] in _FAILURES:
                reason = result.fail_msg or f"the hypervisor says {status['status']}"
                self._AbortMigration(info)
                self._RevertDisks()
                raise errors.OpExecError(f"Could not migrate instance {instance.name}: {reason}")
            if status["status"] != _ACTIVE:
                self._feedback("* memory transfer complete")
                return
            now = runtime.Monotonic()
            if status.get("transferred_ram") is not None and now - reported >= _REPORT_PAUSE:
                reported = now
                total = status.get("total_ram") or 1
                self._feedback(f"* memory transfer progress: {100.0 * status['transferred_ram'] / total:.2f} %")
            runtime.Sleep(_STATUS_PAUSE)

    def _Finalize(self, info: Any) -> None:
        instance = self._instance
        result = self.rpc.call_instance_finalize_migration_src(self.source_uuid, instance, True, self.live)
        result.Raise(f"Could not finalize instance migration on {self._Name(self.source_uuid)}")
        result = self.rpc.call_instance_finalize_migration_dst(self.target_uuid, instance, info, True)
        result.Raise(
            f"Could not finalize instance migration on {self._Name(self.target_uuid)}; the instance may run there:"
            f" use 'gnt-instance migrate --cleanup {instance.name}'"
        )
        self.cfg.SetInstancePrimaryNode(instance.uuid, self.target_uuid)

    def _RaiseAfterUndo(self, result: rpc.RpcResult, info: Any, what: str) -> None:
        if not result.fail_msg:
            return
        self._feedback(f"{what}, aborting: {result.fail_msg}")
        self._AbortMigration(info)
        self._RevertDisks()
        raise errors.OpExecError(f"{what} {self._instance.name}: {result.fail_msg}")

    def _AbortMigration(self, info: Any) -> None:
        """Tells both sides that nothing comes of it."""
        instance = self._instance
        result = self.rpc.call_instance_finalize_migration_dst(self.target_uuid, instance, info, False)
        result.Warn(f"Aborting migration failed on target node {result.node_name}", self.lu.LogWarning)
        result = self.rpc.call_instance_finalize_migration_src(self.source_uuid, instance, False, self.live)
        result.Warn(f"Aborting migration failed on source node {result.node_name}", self.lu.LogWarning)

    # --- disks of both nodes ------------------------------------------------------------------------------------------

    @property
    def _pair(self) -> list[str]:
        return [self.source_uuid, self.target_uuid]

    def _OpenBoth(self) -> None:
        """Both nodes may use the disks."""
        if not self._disks:
            return
        if self.mirror == disk_params.INTERNAL:
            self._feedback("* changing disks into dual-master mode")
            self._Close(self.target_uuid)
            self._Disconnect()
            self._Attach(dual=True)
            self._WaitUntilSync()
        self._Open(self._pair, exclusive=False)

    def _CloseSource(self) -> None:
        """The instance runs on the target: the old node gives the disks up."""
        if not self._disks:
            return
        self._Close(self.source_uuid)
        if self.mirror == disk_params.INTERNAL:
            self._feedback("* changing disks into single-master mode")
            self._WaitUntilSync()
            self._Disconnect()
            self._Attach(dual=False)
            self._WaitUntilSync()
        self._Open([self.target_uuid], exclusive=True)
        self._Unmap(self.source_uuid)

    def _RevertDisks(self) -> None:
        """After a failure: only the source uses the disks again; what fails here is left to the administrator."""
        if not self._disks:
            return
        try:
            if self.mirror == disk_params.INTERNAL:
                self._Close(self.target_uuid)
                self._Disconnect()
                self._Attach(dual=False)
                self._WaitUntilSync()
            self._Unmap(self.target_uuid)
            self._Open([self.source_uuid], exclusive=True)
        except errors.OpExecError as err:
            self.lu.LogWarning(
                f"Migration failed and I can't reconnect the drives, please try to recover the instance manually: {err}"
            )

    def _Argument(self) -> tuple[Sequence[objects.Disk], objects.Instance]:
        return self._disks, self._instance

    def _Close(self, node_uuid: str) -> None:
        self._feedback(f"* switching node {self._Name(node_uuid)} to secondary mode")
        result = self.rpc.call_blockdev_close(node_uuid, self._instance.name, self._Argument())
        result.Raise(f"Cannot change disk to secondary on node {result.node_name}")

    def _Open(self, nodes: Sequence[str], exclusive: bool) -> None:
        mode = "exclusive" if exclusive else "shared"
        for node_uuid in nodes:
            self._feedback(f"* opening instance disks on node {self._Name(node_uuid)} in {mode} mode")
            result = self.rpc.call_blockdev_open(node_uuid, self._instance.name, self._Argument(), exclusive)
            result.Raise(f"Cannot open instance disks on node {result.node_name}")

    def _Disconnect(self) -> None:
        self._feedback("* changing into standalone mode")
        for result in self.rpc.call_drbd_disconnect_net(self._pair, self._Argument()).values():
            result.Raise(f"Cannot disconnect disks on node {result.node_name}")

    def _Attach(self, dual: bool) -> None:
        for result in self.rpc.call_drbd_attach_net(self._pair, self._Argument(), dual).values():
            result.Raise(f"Cannot change disks config on node {result.node_name}")

    def _WaitUntilSync(self) -> None:
        self._feedback("* wait until resync is done")
        while True:
            all_done, lowest = True, 100.0
            for result in self.rpc.call_drbd_wait_sync(self._pair, self._Argument()).values():
                result.Raise(f"Cannot resync disks on node {result.node_name}")
                done, percent = result.payload
                all_done = all_done and done
                if percent is not None:
                    lowest = min(lowest, percent)
            if all_done:
                return
            if lowest < 100:
                self._feedback(f"   - progress: {lowest:.1f}%")
            runtime.Sleep(_SYNC_PAUSE)

    def _Unmap(self, node_uuid: str) -> None:
        """What a node has mapped need not stay there; it is no harm if it does."""
        for disk in self._disks:
            if disk.dev_type in _UNMAPPED:
                result = self.rpc.call_blockdev_shutdown(node_uuid, (disk, self._instance))
                result.Warn(f"Could not unmap disk {disk.iv_name} on node {result.node_name}", self.lu.LogInfo)

    # --- after an interrupted migration -------------------------------------------------------------------------------

    def _ExecCleanup(self) -> None:
        instance = self._instance
        self._feedback(
            "* checking where the instance actually runs (if this hangs, the hypervisor might be in a bad state)"
        )
        running = self._RunningOn()
        if set(running) >= set(self._pair):
            self._feedback("* instance is on both nodes; aborting the migration and looking again")
            result = self.rpc.call_migration_info(self.source_uuid, instance)
            self._AbortMigration(None if result.fail_msg else result.payload)
            running = self._RunningOn()
        names = ", ".join(self._Name(uuid) for uuid in running)
        if len(running) > 1:
            raise errors.OpExecError(
                f"Instance {instance.name} seems to be running on several nodes ({names}), or the hypervisors are"
                " confused; you have to ensure manually that it runs only on one and restart this operation"
            )
        if not running:
            raise errors.OpExecError(
                f"Instance {instance.name} does not seem to be running at all; in this case it's safer to repair by"
                " running 'gnt-instance shutdown' to ensure disk shutdown, and then restarting it"
            )
        (where,) = running
        if where not in self._pair:
            if self.mirror == disk_params.INTERNAL:
                raise errors.OpExecError(f"Instance {instance.name} runs on {names}, which has none of its disks")
            self._feedback(f"* instance runs on unexpected node {names}, taking it as the target")
            self.target_uuid = where
        self._SettleOn(where)

    def _RunningOn(self) -> list[str]:
        """Uuids of the online nodes whose hypervisor knows the instance."""
        instance, snapshot = self._instance, self.snapshot
        hvparams = {instance.hypervisor: snapshot.cluster.hvparams.get(instance.hypervisor, {})}
        online = [uuid for uuid, node in snapshot.nodes.items() if not node.offline and node.vm_capable]
        found = []
        for uuid, result in self.rpc.call_instance_list(online, [instance.hypervisor], hvparams).items():
            if uuid in self._pair:
                result.Raise(f"Can't contact node {result.node_name}")
            elif result.Warn(f"Can't contact node {result.node_name}", self.lu.LogWarning):
                continue
            if instance.name in result.payload:
                found.append(uuid)
        return found

    def _SettleOn(self, where: str) -> None:
        if where == self.target_uuid:
            self._feedback(f"* instance running on secondary node ({self._Name(where)}), updating config")
            self.cfg.SetInstancePrimaryNode(self._instance_uuid, where)
            demoted = self.source_uuid
        else:
            self._feedback("* instance confirmed to be running on its primary node")
            demoted = self.target_uuid
        if self.mirror == disk_params.INTERNAL:
            self._Close(demoted)
            try:
                self._WaitUntilSync()
            except errors.OpExecError:
                # Disks that are not connected cannot be waited for; they are connected next.
                pass
            self._Disconnect()
            self._Attach(dual=False)
            self._WaitUntilSync()
        self._feedback("* done")
