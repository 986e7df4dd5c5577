"""Changing the cluster's settings (doc/reference/drivers.md d.10).

::

    CheckArguments   the request alone                         cluster_values.CheckSimple
    CheckPrereq      what the cluster object becomes           cluster_values.NewValues
                     does that fit the rest?                   cluster_values.Check*
                     does that fit the nodes?                  here
    Exec             one transaction; master address around it, candidates after it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors, locking, objects, opcodes, params, pathutils, runtime
from ganeti.cmdlib import candidates, masterscript, policy
from ganeti.cmdlib.allocation.ask import CheckOptions
from ganeti.cmdlib.base import HTYPE_CLUSTER, Feedback, Filled, LogicalUnit
from ganeti.cmdlib.cluster import values as changes
from ganeti.cmdlib.cluster.life import ActivateMasterIp, DeactivateMasterIp
from ganeti.cmdlib.common import ShareAll
from ganeti.cmdlib.distribute import RedistributeAncillaryFiles
from ganeti.cmdlib.drbdchecks import HelperProblem
from ganeti.cmdlib.instance.base import CheckHvOnNodes, CheckOs
from ganeti.cmdlib.lvmchecks import GroupProblem, HowToMake
from ganeti.config.draft import Draft
from ganeti.params import disk
from ganeti.utils.text import NiceSort

# What only files on the nodes show.
_SHOWN_BY_FILES = frozenset(
    ["modify_etc_hosts", "use_external_mip_script", "enabled_hypervisors", "hvparams", "os_hvp"]
)


def _RejectProblems(problems: Mapping[str, str], hint: str) -> None:
    """Raise OpPrereqError with what is wrong on each node by its name, if anything is."""
    if problems:
        told = "; ".join(f"Error on node '{name}': {problems[name]}" for name in NiceSort(problems))
        raise errors.OpPrereqError(told, errors.ECODE_ENVIRON, hint=hint)


class LUClusterSetParams(LogicalUnit[opcodes.OpClusterSetParams]):
    """Change settings of the whole cluster; those not named stay."""

    HTYPE = HTYPE_CLUSTER
    REQ_BGL = False

    def CheckArguments(self) -> None:
        changes.CheckSimple(self.op, self.snapshot.cluster)

    def ExpandNames(self) -> None:
        levels = (locking.LEVEL_INSTANCE, locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODEGROUP, locking.LEVEL_NODE)
        self.needed_locks = dict.fromkeys(levels, locking.ALL_SET)
        self.share_locks = ShareAll()

    def NodesToConfirm(self) -> set[str]:
        # Only the master address is changed, on the master itself.
        return {self.snapshot.cluster.master_node}

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"OP_TARGET": self.snapshot.cluster.cluster_name, "NEW_VG_NAME": self.op.vg_name}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        master = [self.snapshot.cluster.master_node]
        return (master, master)

    # --- checks -----------------------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        before = self.snapshot
        self._before = before
        self._values = changes.NewValues(before, self.op)
        after = before.Replace(cluster=before.cluster.Replace(**self._values))
        self._after = after
        changes.CheckTemplates(before, after, self.op)
        changes.CheckStorage(before, after, self.op)
        for warning in changes.CheckDirectories(before, after):
            self.LogWarning(warning)
        if self.op.nicparams:
            changes.CheckNics(after)
        if self._values.get("use_external_mip_script"):
            masterscript.Check()
        self._CheckDevice()
        self._CheckAllocators()
        self._CheckVolumeGroup()
        self._CheckDrbdHelper()
        self._CheckHypervisors()
        self._CheckSystems()
        if self.op.ipolicy:
            violating = policy.NewViolations(before, after, before.WholeInstances())
            if violating:
                self.LogWarning(
                    f"After the ipolicy change the following instances violate them: {', '.join(violating)}"
                )

    def _CheckDevice(self) -> None:
        """Raise OpPrereqError if the master, on which this runs, has no such device, before the address is taken down."""
        device, cluster = self._values.get("master_netdev"), self._after.cluster
        # A script of the administrator may make its device; the nodes of a virtual cluster have no devices of their own.
        if device is None or self.op.force or cluster.use_external_mip_script or pathutils.IsVirtual():
            return
        if not runtime.Exists(f"/sys/class/net/{device}"):
            raise errors.OpPrereqError(
                f"The master node has no network device '{device}': the master IP address stays on"
                f" {self._before.cluster.master_netdev}",
                errors.ECODE_ENVIRON,
                hint="'ip link' shows the devices it has; --force records this one nevertheless",
            )

    def _Online(self, vm_capable: bool = False) -> list[str]:
        nodes = self._before.nodes.values()
        return [node.uuid for node in nodes if not node.offline and (node.vm_capable or not vm_capable)]

    def _CheckAllocators(self) -> None:
        if {"default_iallocator", "default_iallocator_params"} & self._values.keys():
            CheckOptions(self._after.cluster)
        for name in filter(None, self._values.get("default_iallocator", "").split(",")):
            if name == constants.IALLOC_HAIL:
                continue  # runs in the master daemon
            paths = [f"{folder}/{name}" for folder in pathutils.IALLOCATOR_SEARCH_PATH]
            if "/" in name or not any(runtime.Exists(path) for path in paths):
                raise errors.OpPrereqError(
                    f"Invalid default iallocator script '{name[:60]}' specified: it is not in"
                    f" {', '.join(pathutils.IALLOCATOR_SEARCH_PATH)}",
                    errors.ECODE_INVAL,
                )

    def _Gets(self, template: str) -> bool:
        """Return whether a template becomes enabled."""
        return template in self._after.cluster.enabled_disk_templates and (
            template not in self._before.cluster.enabled_disk_templates
        )

    def _CheckVolumeGroup(self) -> None:
        """Raise OpPrereqError unless every node has it, large enough.

        Nodes that do not answer are passed over, but one must: otherwise nothing is known of the volume group.
        """
        name = self._after.cluster.volume_group_name
        if not name or not (self.op.vg_name or any(self._Gets(template) for template in disk.With(lvm=True))):
            return
        results = self.rpc.call_vg_list(self._Online(vm_capable=True)).values()
        problems = {}
        for result in results:
            if result.fail_msg:
                self.LogWarning(
                    f"Error while gathering data on node {result.node_name} (ignoring node): {result.fail_msg}"
                )
            elif problem := GroupProblem(name, result.payload):
                problems[result.node_name] = problem
        _RejectProblems(
            problems,
            f"{HowToMake(name)}, or exclude the node with 'gnt-node modify --vm-capable=no NODE'",
        )
        if results and all(result.fail_msg for result in results):
            raise errors.OpPrereqError(
                f"No node reports its volume groups: '{name}' cannot be used; run 'vgs' on the nodes",
                errors.ECODE_ENVIRON,
            )

    def _CheckDrbdHelper(self) -> None:
        """Check that every node's DRBD module calls the same helper."""
        helper = self._after.cluster.drbd_usermode_helper
        users = disk.With(helper=True).intersection(self._after.cluster.enabled_disk_templates)
        if not (helper and users and (self.op.drbd_helper or any(map(self._Gets, users)))):
            return
        problems = {}
        for result in self.rpc.call_drbd_helper(self._Online(vm_capable=True)).values():
            if result.fail_msg:
                problems[result.node_name] = f"the drbd helper could not be read: {result.fail_msg}"
            elif problem := HelperProblem(result.payload, helper):
                problems[result.node_name] = problem
        _RejectProblems(
            problems,
            "load the module with the same option on every node ('modprobe drbd usermode_helper="
            f"{helper}'), or exclude a node with 'gnt-node modify --vm-capable=no NODE'",
        )

    def _CheckHypervisors(self) -> None:
        """Check that the nodes have what the parameters name; warn about instances whose hypervisor is disabled."""
        cluster = self._after.cluster
        touched = {*(self.op.hvparams or ()), *(self.op.enabled_hypervisors or ())}
        nodes = self._Online(vm_capable=True)
        for name in sorted(touched.intersection(cluster.enabled_hypervisors)):
            CheckHvOnNodes(self, nodes, name, cluster.hvparams[name])
        for os_name in self.op.os_hvp or ():
            for name, own in cluster.os_hvp.get(os_name, {}).items():
                if name in cluster.enabled_hypervisors:
                    CheckHvOnNodes(self, nodes, name, {**cluster.hvparams.get(name, {}), **own})
        gone = set(self._before.cluster.enabled_hypervisors) - set(cluster.enabled_hypervisors)
        left = sorted(inst.name for inst in self._before.instances.values() if inst.hypervisor in gone)
        if left:
            self.LogWarning(f"Instances use a hypervisor that is no longer enabled: {', '.join(left[:20])}")

    def _CheckSystems(self) -> None:
        """Check that the operating system accepts the parameters, if the master has it."""
        cluster = self._after.cluster
        for os_name in sorted({*(self.op.osparams or ()), *(self.op.osparams_private_cluster or ())}):
            values = params.FillOSAll(cluster, os_name)
            # A bare name stands for all of its variants.
            CheckOs(self, [cluster.master_node], os_name, values, force_variant="+" not in os_name, required=False)

    # --- doing it ---------------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> None:
        before = self._before.cluster
        # An administrator's script has no other way to change something than to stop and start.
        external = before.use_external_mip_script and "master_netmask" in self._values
        moves = external or self._values.keys() & {"master_netdev", "use_external_mip_script"}
        if moves:
            self._TakeAddressDown(before.master_netdev)
        elif "master_netmask" in self._values:
            self._ChangeNetmask(before)
        try:
            if self._values:
                self.cfg.Transact(self._Store)
        finally:
            if moves:
                self._BringAddressUp()
        if self._values.keys() & _SHOWN_BY_FILES:
            RedistributeAncillaryFiles(self)
        if "candidate_pool_size" in self._values:
            candidates.MaintainPool(self)

    def _Store(self, draft: Draft) -> None:
        """Change the fields asked for on the newest object; others may have changed the rest of it meanwhile."""
        newest = draft.root.cluster
        for name in self._values:
            if getattr(newest, name) != getattr(self._before.cluster, name):
                raise errors.ConfigurationError(
                    f"{name} of the cluster was changed meanwhile; nothing was changed, try again"
                )
        draft.Touch(newest.Replace(**self._values))

    def _TakeAddressDown(self, netdev: str) -> None:
        result = DeactivateMasterIp(self)
        if not result.fail_msg:
            return
        message = f"Could not disable the master ip on {netdev}: {result.fail_msg}"
        if not self.op.force:
            raise errors.OpExecError(message, hint="--force changes the device anyway")
        self.LogWarning(message)

    def _BringAddressUp(self) -> None:
        result = ActivateMasterIp(self)
        if result.fail_msg:
            device, old = self.snapshot.cluster.master_netdev, self._before.cluster.master_netdev
            other = f", or 'gnt-cluster modify --master-netdev={old}' goes back" if device != old else ""
            self.LogWarning(
                f"Could not re-enable the master ip on {device}: {result.fail_msg}",
                hint=f"'gnt-cluster activate-master-ip' when that is repaired{other}",
            )

    def _ChangeNetmask(self, before: objects.Cluster) -> None:
        result = self.rpc.call_node_change_master_netmask(
            before.master_node,
            before.master_netmask,
            Filled(self.op.master_netmask),
            before.master_ip,
            before.master_netdev,
        )
        if result.fail_msg:
            self.LogWarning(
                f"The new netmask {self.op.master_netmask} is recorded, but the address could not be given it now:"
                f" {result.fail_msg}",
                hint="it is used when the address is started: 'gnt-cluster deactivate-master-ip' (if it is up), then"
                " 'gnt-cluster activate-master-ip'",
            )
