"""Changing an instance (doc/reference/drivers.md d.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors, locking, objects, opcodes, params
from ganeti.cmdlib import ratios
from ganeti.cmdlib.allocation.placement import Placement
from ganeti.cmdlib.allocation.requests import AllocateSecondary
from ganeti.cmdlib.base import Feedback, Filled
from ganeti.cmdlib.common import (
    STATE_NOT_RUNNING,
    CheckInstanceState,
    CheckNodeGroupsUnchanged,
    CheckViolations,
    CopyNodeLocks,
    ExpandNode,
    InstanceInfo,
    IsRunning,
    LockedInstance,
    LockInstancesNodes,
    NoCommunication,
    ReleaseLocks,
)
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.convert import Conversion
from ganeti.cmdlib.disk.generate import CheckTemplateEnabled
from ganeti.cmdlib.hookenv import InstanceFacts
from ganeti.cmdlib.instance import image
from ganeti.cmdlib.instance.base import (
    AllOsParams,
    CheckBeLimits,
    CheckHvOnNodes,
    CheckHvSyntax,
    CheckNotForthcoming,
    CheckOs,
    ForceBeParams,
    ForceHvParams,
    GroupsOf,
    InstanceLU,
)
from ganeti.cmdlib.instance.changes import ADD, ParseChanges
from ganeti.cmdlib.instance.modify_disks import DiskChanges, Entry
from ganeti.cmdlib.instance.modify_nics import HOT_ADD, HOT_REMOVE, HotChange, NicPlan
from ganeti.cmdlib.instance.room import CheckFreeMemory, CheckRoom, IsShared
from ganeti.params import checks, ipolicy
from ganeti.params import disk as disk_params
from ganeti.params.types import GetUpdatedParams

DEFAULT = constants.VALUE_DEFAULT
_CPU_MASK = "cpu_mask"
_TWO_STEPS = "Disk template conversion and other disk changes not supported at the same time"


class LUInstanceSetParams(InstanceLU[opcodes.OpInstanceSetParams]):
    """Changes parameters, devices, disk template or state of an instance; answers [[what, new value], ...]."""

    LOCKS_NODES = True

    # --- the request by itself ----------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        op = self.op
        if op.instance_communication is not None:
            raise NoCommunication()
        wanted = (
            op.nics,
            op.disks,
            op.disk_template,
            op.hvparams,
            op.beparams,
            op.os_name,
            op.osparams,
            op.osparams_private,
            op.runtime_mem,
            op.pnode,
        )
        if not any(wanted) and op.offline is None:
            raise errors.OpPrereqError("No changes submitted", errors.ECODE_INVAL)
        self._nic_changes = ParseChanges(op.nics, "NIC")
        self._disk_changes = ParseChanges(op.disks, "disk")
        if op.disk_template is not None and any(change.operation != ADD for change in self._disk_changes):
            raise errors.OpPrereqError(_TWO_STEPS, errors.ECODE_INVAL)
        self._placement: Placement | None = None
        if op.disk_template in disk_params.With(mirror=disk_params.INTERNAL):
            placement = Placement(self, node_slot="remote_node")
            self._placement = placement if placement.allocator else None
        elif op.iallocator:
            self.LogWarning("The allocator is not used: it only chooses the secondary node of a conversion to drbd")
        op.beparams = ForceBeParams(op.beparams, (DEFAULT, None))

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        op, snapshot = self.op, self.snapshot
        for slot in ("pnode", "remote_node"):
            name = getattr(op, slot)
            if name is not None:
                node = ExpandNode(snapshot, name, getattr(op, f"{slot}_uuid"))
                setattr(op, slot, node.name)
                setattr(op, f"{slot}_uuid", node.uuid)
        instance = snapshot.instances[Filled(op.instance_uuid)]
        self.needed_locks[locking.LEVEL_NODEGROUP] = GroupsOf(snapshot, instance)
        self.share_locks[locking.LEVEL_NODEGROUP] = 1
        memory = op.runtime_mem is not None or any("mem" in name for name in op.beparams or {})
        if op.disk_template is not None or (memory and IsShared(snapshot, instance.primary_node)):
            self.needed_locks[locking.LEVEL_NODE_RES] = []
        if self._placement is not None:
            self._placement.Declare(
                self._Request,
                lambda: GroupsOf(self.snapshot, LockedInstance(self)),
                lambda: [*self.snapshot.AllNodes(LockedInstance(self)), *self._NamedNodes()],
            )

    def _NamedNodes(self) -> list[str]:
        return [uuid for uuid in (self.op.remote_node_uuid, self.op.pnode_uuid) if uuid is not None]

    def _Request(self) -> AllocateSecondary:
        """Ask for a secondary node; what cannot be converted at all is rejected first."""
        instance = LockedInstance(self)
        CheckNotForthcoming(instance)
        if not instance.disks:
            raise self._NotFirst(instance)
        Conversion(self, instance).CheckTemplates()
        return AllocateSecondary(instance.name)

    def DeclareLocks(self, level: int) -> None:
        assert self.needed_locks is not None
        if self._placement is not None:
            self._placement.DeclareLocks(level)
        elif level == locking.LEVEL_NODE:
            LockInstancesNodes(self)
            declared = self.needed_locks[level]
            assert isinstance(declared, list)
            declared += [uuid for uuid in self._NamedNodes() if uuid not in declared]
        elif level == locking.LEVEL_NODE_RES:
            CopyNodeLocks(self)

    # --- hooks --------------------------------------------------------------------------------------------------------

    def BuildHooksEnv(self) -> dict[str, Any]:
        facts = InstanceFacts.Existing(self.snapshot, self.current)
        facts.beparams = {**facts.beparams, **{k: v for k, v in self._filled_be.items() if k in facts.beparams}}
        facts.nics = self._nic_plan.nics
        env = facts.Env()
        if self.op.disk_template is not None:
            env["NEW_DISK_TEMPLATE"] = self.op.disk_template
        if self.op.runtime_mem is not None:
            env["RUNTIME_MEMORY"] = self.op.runtime_mem
        return env

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        op = self.op
        CheckNotForthcoming(self.instance)
        CheckNodeGroupsUnchanged(self, self.instance)
        if self._placement is not None:
            (op.remote_node_uuid,) = self._placement.Chosen()
        self._warnings: list[Any] = []
        self._pnode = self.snapshot.nodes[op.pnode_uuid or self.instance.primary_node]
        self._nodes = self.snapshot.AllNodes(self.instance)
        self._CheckPrimaryNode()
        self._CheckState()
        self._PlanParameters()
        self._conversion: Conversion | None = None
        if op.disk_template is not None:
            self._CheckTemplate()
        self._CheckGuest()
        self._disks = DiskChanges(self, self.instance, self._disk_changes)
        planned_disks = self._disks.Check(self._running, self._hot)
        self._nic_plan = NicPlan(self, self.instance, self._pnode.uuid)
        self._nic_plan.Apply(self._nic_changes)
        self._CheckPolicy(planned_disks)
        if op.offline is False and self.instance.admin_state == constants.ADMINST_OFFLINE and not op.force:
            self._CheckRoom()

    def _CheckTemplate(self) -> None:
        """A template is that of the first disks of an instance without any, or the one to convert to."""
        template = Filled(self.op.disk_template)
        if not self._disk_changes:
            CheckInstanceState(self, self.instance, (constants.ADMINST_DOWN,))
            self._conversion = Conversion(self, self.instance)
            self._conversion.Check()
            return
        if self.instance.disks:
            raise errors.OpPrereqError(_TWO_STEPS, errors.ECODE_INVAL)
        CheckTemplateEnabled(self.snapshot, template)
        if not disk_params.TEMPLATES[template].first:
            raise self._NotFirst(self.instance)

    def _NotFirst(self, instance: objects.Instance) -> errors.OpPrereqError:
        return errors.OpPrereqError(
            f"Instance {instance.name} has no disks, and its first one cannot have template {self.op.disk_template}",
            errors.ECODE_INVAL,
            hint=f"give it a plain disk first ('gnt-instance modify -t plain --disk add:size=SIZE {instance.name}'),"
            " and convert that",
        )

    def _CheckPrimaryNode(self) -> None:
        if self.op.pnode_uuid is None or self.op.pnode_uuid == self.instance.primary_node:
            return
        self._CheckCopy(self.op.pnode_uuid)
        if self.op.force:
            return
        try:
            running = IsRunning(self, self.instance)
        except errors.OpPrereqError as err:
            self._warnings.append(f"Can't get instance runtime information: {err.args[0]}")
            return
        if running:
            raise errors.OpPrereqError(
                f"Instance is still running on {self.snapshot.nodes[self.instance.primary_node].name}",
                errors.ECODE_STATE,
            )

    def _CheckCopy(self, node_uuid: str) -> None:
        """Check that a new primary node has the disks, and a copy of them that counts; no option overrides that."""
        instance, snapshot = self.instance, self.snapshot
        mirror = disk_params.TEMPLATES[snapshot.DiskTemplate(instance)].mirror
        if mirror == disk_params.EXTERNAL:
            return
        name = snapshot.NodeName(node_uuid)
        if mirror is None:
            raise errors.OpPrereqError(
                f"The disks of instance {instance.name} are on node {snapshot.NodeName(instance.primary_node)} only:"
                f" node {name} cannot become its primary node",
                errors.ECODE_STATE,
                hint=f"'gnt-instance modify -t drbd -n {name} {instance.name}' gives it a copy there, in a volume group; after"
                f" that, 'gnt-instance failover {instance.name}' moves it",
            )
        if node_uuid not in snapshot.SecondaryNodes(instance):
            raise errors.OpPrereqError(
                f"Node {name} has no copy of the disks of instance {instance.name} and cannot become its primary node",
                errors.ECODE_STATE,
                hint=f"use 'gnt-instance failover -n {name} {instance.name}'",
            )
        mirrors.CheckCounts(
            snapshot,
            instance,
            node_uuid,
            f"cannot have {name} as its primary node",
        )

    def _CheckState(self) -> None:
        if self.op.offline:
            CheckInstanceState(self, self.instance, STATE_NOT_RUNNING)
        elif self.op.offline is False and self.instance.admin_state == constants.ADMINST_UP:
            raise errors.OpPrereqError(
                f"Instance '{self.instance.name}' is marked up: only an offline one can be taken online",
                errors.ECODE_STATE,
            )

    def _PlanParameters(self) -> None:
        op, instance, snapshot = self.op, self.instance, self.snapshot
        self._given_hv = given_hv = ForceHvParams(
            op.hvparams, instance.hypervisor, f"instance '{instance.name}'", (DEFAULT,)
        )
        self._hvparams = GetUpdatedParams(instance.hvparams, given_hv)
        self._beparams = GetUpdatedParams(instance.beparams, op.beparams, use_none=True)
        self._os_name = op.os_name or instance.os
        self._osparams = GetUpdatedParams(instance.osparams, op.osparams)
        self._osparams_private = GetUpdatedParams(instance.osparams_private, op.osparams_private or {})
        planned = instance.Replace(
            hvparams=self._hvparams,
            beparams=self._beparams,
            os=self._os_name,
            osparams=self._osparams,
            osparams_private=self._osparams_private,
        )
        self._planned = planned
        self._filled_be = params.FillBE(snapshot, planned)
        CheckBeLimits(self._filled_be)
        if given_hv:
            filled = params.FillHV(snapshot, planned)
            CheckHvSyntax(instance.hypervisor, filled)
            CheckHvOnNodes(self, self._nodes, instance.hypervisor, filled)
        self._CheckCpuMask(given_hv)
        if op.os_name is not None and not op.force:
            CheckOs(self, [self._pnode.uuid], op.os_name, {}, op.force_variant, required=True)
        image.ImageOf(self._osparams, instance.disks)
        if (op.osparams or op.osparams_private) and self._os_name:
            CheckOs(self, self._nodes, self._os_name, AllOsParams(snapshot, planned), op.force_variant, required=False)

    def _CheckCpuMask(self, given_hv: Mapping[str, Any]) -> None:
        """Check that a mask per virtual CPU has as many entries as the guest has CPUs, and that the node has them."""
        filled = params.FillHV(self.snapshot, self._planned)
        mask = filled.get(_CPU_MASK)
        if not mask or mask == checks.CPU_PINNING_ALL:
            return
        masks = checks.ParseMultiCpuMask(mask)
        if len(masks) > 1 and len(masks) != self._filled_be["vcpus"]:
            raise errors.OpPrereqError(
                f"Number of vCPUs ({self._filled_be['vcpus']}) does not match the CPU mask ({mask})",
                errors.ECODE_INVAL,
            )
        highest = max((cpu for entry in masks if entry for cpu in entry), default=-1)
        if _CPU_MASK not in given_hv or highest < 0:
            return
        hvparams = self.snapshot.cluster.hvparams.get(self.instance.hypervisor, {})
        for result in self.rpc.call_node_info(list(self._nodes), None, [[self.instance.hypervisor, hvparams]]).values():
            result.Raise(f"Cannot get current information from node {result.node_name}", prereq=True)
            total = result.payload[2][0].get("cpu_total")
            if not isinstance(total, int):
                raise errors.OpPrereqError(
                    f"Can't compute number of CPUs on node {result.node_name}", errors.ECODE_ENVIRON
                )
            if highest >= total:
                raise errors.OpPrereqError(
                    f"CPU mask {mask} names CPU {highest}, node {result.node_name} has {total} CPUs",
                    errors.ECODE_NORES,
                )

    def _CheckGuest(self) -> None:
        """Check a running guest: memory that is to grow or shrink, devices that can be changed meanwhile."""
        op, instance = self.op, self.instance
        self._running = self._hot = False
        old = params.FillBE(self.snapshot, instance)
        grows = self._filled_be["maxmem"] > old["maxmem"] or (
            self._filled_be["minmem"] > old["minmem"] and IsShared(self.snapshot, instance.primary_node)
        )
        devices = bool(self._nic_changes or self._disk_changes)
        if not (op.runtime_mem is not None or devices or (grows and not op.force)):
            return
        try:
            info = InstanceInfo(self, instance)
        except errors.OpPrereqError as err:
            if op.runtime_mem is not None:
                raise
            self._warnings.append(f"Can't get info from primary node {self._pnode.name}: {err.args[0]}")
            return
        self._running = bool(info) and info.get("state", constants.INST_RUNNING) == constants.INST_RUNNING
        if grows and not op.force:
            self._CheckMoreMemory(info)
        if op.runtime_mem is not None:
            self._CheckRuntimeMemory(info)
        if devices and op.hotplug and self._running:
            self._CheckHotplug()

    def _CheckMoreMemory(self, info: Mapping[str, Any]) -> None:
        """With more memory the instance can still start here and on its secondary nodes.

        Where memory is shared its minimum must be there; the maximum is a matter of the ratio.
        """
        instance = self.instance
        maxmem = self._filled_be["minmem" if IsShared(self.snapshot, instance.primary_node) else "maxmem"]
        needed = max(0, maxmem - int(info.get("memory") or 0))
        text = f"starting instance {instance.name} with {maxmem} MiB"
        CheckRoom(self, instance.primary_node, text, needed, instance.hypervisor, but=instance.uuid)
        if not self._filled_be["auto_balance"]:
            return
        for uuid in self.snapshot.SecondaryNodes(instance):
            try:
                CheckRoom(self, uuid, f"failing over {text}", maxmem, instance.hypervisor)
            except errors.OpPrereqError as err:
                raise errors.OpPrereqError(
                    f"This change will prevent the instance from failover: {err.args[0]}", errors.ECODE_STATE
                ) from err

    def _CheckRoom(self) -> None:
        """Check that an instance that leaves the offline state, and so claims memory again, could be started where it is."""
        memory, name = self._filled_be["minmem"], self.instance.name
        try:
            CheckRoom(self, self._pnode.uuid, f"taking instance {name} online", memory, self.instance.hypervisor)
        except errors.OpPrereqError as err:
            if err.args[1:] != (errors.ECODE_NORES,):
                self._warnings.append(f"Whether there is memory for the instance is not known: {err.args[0]}")
                return
            err.hint = f"make room, or run 'gnt-instance modify --online --force {name}' and start it elsewhere"
            raise

    def _CheckRuntimeMemory(self, info: Mapping[str, Any]) -> None:
        instance, wanted = self.instance, Filled(self.op.runtime_mem)
        if not self._running:
            raise errors.OpPrereqError(f"Instance {instance.name} is not running", errors.ECODE_STATE)
        low, high = self._filled_be["minmem"], self._filled_be["maxmem"]
        if not low <= wanted <= high and not self.op.force:
            raise errors.OpPrereqError(
                f"Instance {instance.name} must have memory between {low} and {high} MiB unless --force is given",
                errors.ECODE_INVAL,
            )
        more = wanted - int(info["memory"])
        if more > 0:
            CheckFreeMemory(
                self,
                instance.primary_node,
                f"ballooning memory for instance {instance.name}",
                more,
                instance.hypervisor,
            )

    def _CheckHotplug(self) -> None:
        result = self.rpc.call_hotplug_supported(self.instance.primary_node, self.instance)
        self._hot = not result.Warn(
            "Hotplugging is not possible, changes of devices take effect at the next start", self._warnings.append
        )

    def _CheckPolicy(self, planned_disks: list[Any]) -> None:
        """Check that the changed instance fits the policy of its group, with the most and with the least memory."""
        snapshot = self.snapshot
        group = snapshot.nodegroups[self._pnode.group]
        policy = params.FillIPolicy(snapshot, group)
        template = self.op.disk_template or snapshot.DiskTemplate(self.instance)
        before = set(self._Violations(policy, snapshot.DiskTemplate(self.instance), None))
        found = [text for text in self._Violations(policy, template, planned_disks) if text not in before]
        found += self._RatioViolations(template)
        CheckViolations(self, self.instance.name, group, found, self.op.ignore_ipolicy)

    def _RatioViolations(self, template: str) -> list[str]:
        """Return which ratios nodes exceed because the instance grows or counts again."""
        instance, filled = self.instance, self._filled_be
        old = params.FillBE(self.snapshot, instance)
        offline = instance.admin_state == constants.ADMINST_OFFLINE
        returns = offline and self.op.offline is False
        found: list[str] = []
        if returns or (filled["vcpus"] > old["vcpus"] and not offline):
            found += ratios.CpuViolations(self, self._pnode.uuid, filled["vcpus"], instance.hypervisor, instance.uuid)
        more = any(filled[name] > old[name] for name in ("minmem", "maxmem"))
        if returns or (more and not offline):
            found += ratios.MemoryViolations(self, self._pnode.uuid, filled, instance.hypervisor, instance.uuid)
        if ratios.TakesSpindles(template) and filled["spindle_use"] > old["spindle_use"]:
            for uuid in self._nodes:
                found += ratios.SpindleViolations(self, uuid, filled["spindle_use"], instance.uuid)
        return found

    def _Violations(self, policy: Mapping[str, Any], template: str, planned: list[Any] | None) -> list[str]:
        """Of the instance as it is to be, or (``planned`` None) as it is."""
        snapshot = self.snapshot
        filled = params.FillBE(snapshot, self.instance) if planned is None else self._filled_be
        disks = snapshot.InstanceDisks(self.instance) if planned is None else planned
        nics = self.instance.nics if planned is None else self._nic_plan.nics
        found: list[str] = []
        for memory in dict.fromkeys((filled["maxmem"], filled["minmem"])):
            found += ipolicy.Violations(
                policy,
                memory,
                filled["vcpus"],
                len(nics),
                [disk.size for disk in disks],
                filled["spindle_use"],
                [template] * len(disks),
            )
        return list(dict.fromkeys(found))

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> list[Entry]:
        for warning in self._warnings:
            feedback(f"WARNING: {warning}")
        entries: list[Entry] = []
        instance, op = self.instance, self.op
        if op.pnode_uuid is not None and op.pnode_uuid != instance.primary_node:
            self.cfg.SetInstancePrimaryNode(instance.uuid, op.pnode_uuid)
            # Not an entry of the answer: in 3.1 there is none for this.
            self.LogInfo(f"Instance {instance.name} now has {self._pnode.name} as its primary node; no data was moved")
        if op.runtime_mem is not None:
            result = self.rpc.call_instance_balloon_memory(instance.primary_node, instance, op.runtime_mem)
            result.Raise("Cannot modify instance runtime memory")
            entries.append(("runtime_memory", op.runtime_mem))
        entries += self._disks.Apply(self._HotDisk if self._hot else None)
        if instance.disks and not self.current.disks:
            self.LogInfo(
                f"Instance {instance.name} has no disks left; to give it one again, use 'gnt-instance modify -t"
                f" {self._disks.template} --disk add:size=SIZE {instance.name}'"
            )
        if self._conversion is not None:
            self._conversion.Exec(feedback, lambda: ReleaseLocks(self, locking.LEVEL_NODE))
            entries.append(("disk_template", op.disk_template))
        ReleaseLocks(self, locking.LEVEL_NODE)
        ReleaseLocks(self, locking.LEVEL_NODE_RES)
        entries += self._NicEntries()
        entries += self._Store()
        return [list(entry) for entry in entries]  # type: ignore[misc]

    def _NicEntries(self) -> list[Entry]:
        """Change the NICs of a running guest; return each change with its outcome."""
        entries = list(self._nic_plan.entries)
        if not self._hot:
            return entries
        said = [(place, self._Hotplug("nic", change, None)) for place, change in self._nic_plan.hot]
        for place, entry in reversed(said):
            entries.insert(place, entry)
        return entries

    def _HotDisk(self, action: str, disk: Any, index: int, extra: Any) -> list[Entry]:
        return [self._Hotplug("disk", HotChange(action, disk, index, f"disk/{index}"), extra)]

    def _Hotplug(self, kind: str, change: HotChange, extra: Any) -> Entry:
        current = self.current
        what = {HOT_ADD: "add", HOT_REMOVE: "remove"}.get(change.action, "change")
        result = self.rpc.call_hotplug_device(
            current.primary_node, current, change.action, kind, (change.device, current), extra, change.position
        )
        failed = result.Warn(
            f"Could not {what} {kind} {change.position} of the running instance; the change takes effect at its next start",
            self.LogWarning,
        )
        return (change.entry, "hotplug:failed" if failed else "hotplug:done")

    def _Store(self) -> list[Entry]:
        """Write parameters, NICs and state."""
        op = self.op
        entries: list[Entry] = [(f"hv/{name}", value) for name, value in self._given_hv.items()]
        entries += [(f"be/{name}", value) for name, value in op.beparams.items()]
        entries += [(f"os/{name}", value) for name, value in op.osparams.items()]
        entries += [(f"os_private/{name}", opcodes.REDACTED) for name in op.osparams_private or {}]
        changed = self.current.Replace(
            nics=self._nic_plan.nics,
            hvparams=self._hvparams,
            beparams=self._beparams,
            os=self._os_name,
            osparams=self._osparams,
            osparams_private=self._osparams_private,
        )
        instance = self.cfg.Update(changed, self.ec_id)
        if op.offline:
            self.cfg.MarkInstanceOffline(instance.uuid)
            entries.append(("admin_state", constants.ADMINST_OFFLINE))
        elif op.offline is False:
            self.cfg.MarkInstanceDown(instance.uuid)
            entries.append(("admin_state", constants.ADMINST_DOWN))
        return entries
