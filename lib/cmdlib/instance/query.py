"""Everything about instances, as ``gnt-instance info`` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ganeti import constants, locking, objects, opcodes, params
from ganeti.cmdlib.base import Feedback, NoHooksLU
from ganeti.cmdlib.common import ExpandInstance, ShareAll
from ganeti.objects.base import Thaw
from ganeti.params import disk as disk_params
from ganeti.params import runstate
from ganeti.utils.text import NiceSort

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult

Status = list[Any] | None

_STATES = {
    runstate.RUNNING: "up",
    runstate.PAUSED: "paused",
    runstate.STOPPED: "stopped by an error",
    runstate.ENDED: "down",
    runstate.GONE: "down",
    runstate.LEAVING: "migrating",
    runstate.ARRIVING: "waiting for a migration",
    runstate.SENT: "sent to another node by a migration",
    runstate.UNRESPONSIVE: "unresponsive",
}

_STATUS_KEYS = (
    "dev_path",
    "major",
    "minor",
    "sync_percent",
    "estimated_time",
    "is_degraded",
    "ldisk_status",
)


class LUInstanceQueryData(NoHooksLU[opcodes.OpInstanceQueryData]):
    """Return the configuration of instances and, unless ``static``, their state on the nodes."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        if not self.op.use_locking and not self.op.static:
            self.LogWarning("Non-static data requested, locks need to be acquired")
            self.op.use_locking = True
        self._named = bool(self.op.instances)
        self._wanted = {
            inst.name: inst.uuid for inst in (ExpandInstance(self.snapshot, name) for name in self.op.instances)
        }
        names = list(self._wanted)
        self.share_locks = ShareAll()
        self.needed_locks = {}
        if self.op.use_locking:
            self.needed_locks = {
                locking.LEVEL_INSTANCE: names if self._named else locking.ALL_SET,
                locking.LEVEL_NODEGROUP: [],
                locking.LEVEL_NODE: [],
                locking.LEVEL_NETWORK: [],
            }

    def DeclareLocks(self, level: int) -> None:
        assert self.needed_locks is not None
        if level == locking.LEVEL_INSTANCE or not self.op.use_locking:
            return
        snapshot = self.snapshot
        found = [snapshot.InstanceByName(name) for name in self.owned_locks(locking.LEVEL_INSTANCE)]
        instances = [inst for inst in found if inst is not None and not snapshot.IsBare(inst)]
        if level == locking.LEVEL_NETWORK:
            wanted = {nic.network for inst in instances for nic in inst.nics if nic.network}
        else:
            wanted = {uuid for inst in instances for uuid in snapshot.AllNodes(inst)}
            if level == locking.LEVEL_NODEGROUP:
                wanted = {snapshot.nodes[uuid].group for uuid in wanted}
        self.needed_locks[level] = sorted(wanted)

    def Exec(self, feedback: Feedback) -> dict[str, Any]:
        snapshot = self.snapshot
        if self._named:
            # One that was removed while this job waited is left out, and so is a new one of its name.
            found = [(snapshot.InstanceByName(name), uuid) for name, uuid in self._wanted.items()]
            instances = [inst for inst, uuid in found if inst is not None and inst.uuid == uuid]
        else:
            by_name = {inst.name: inst for inst in snapshot.WholeInstances()}
            instances = [by_name[name] for name in NiceSort(by_name)]
        return {inst.name: self._Describe(snapshot, inst) for inst in instances}

    # --- one instance -------------------------------------------------------------------------------------------------

    def _Describe(self, snapshot: objects.Snapshot, inst: objects.Instance) -> dict[str, Any]:
        primary = snapshot.nodes[inst.primary_node]
        secondaries = [snapshot.nodes[uuid] for uuid in snapshot.SecondaryNodes(inst)]
        groups = snapshot.nodegroups
        return {
            "name": inst.name,
            "config_state": inst.admin_state,
            "run_state": self._RunState(snapshot, inst),
            "pnode": primary.name,
            "pnode_group_uuid": primary.group,
            "pnode_group_name": groups[primary.group].name,
            "snodes": [node.name for node in secondaries],
            "snodes_group_uuids": [node.group for node in secondaries],
            "snodes_group_names": [groups[node.group].name for node in secondaries],
            "os": inst.os,
            "nics": [self._Nic(snapshot, nic) for nic in inst.nics],
            "disk_template": snapshot.DiskTemplate(inst),
            "disks": [self._Disk(snapshot, inst, disk) for disk in snapshot.InstanceDisks(inst)],
            "hypervisor": inst.hypervisor,
            "network_port": inst.network_port,
            "hv_instance": Thaw(inst.hvparams),
            "hv_actual": Thaw(params.FillHV(snapshot, inst, skip_globals=True)),
            "be_instance": Thaw(inst.beparams),
            "be_actual": Thaw(params.FillBE(snapshot, inst)),
            "os_instance": Thaw(inst.osparams),
            "os_actual": Thaw(params.FillOS(snapshot, inst)),
            "serial_no": inst.serial_no,
            "mtime": inst.mtime,
            "ctime": inst.ctime,
            "uuid": inst.uuid,
        }

    def _RunState(self, snapshot: objects.Snapshot, inst: objects.Instance) -> str | None:
        """Return what the primary node reports; None when it was not asked or did not answer."""
        if self.op.static:
            return None
        if snapshot.nodes[inst.primary_node].offline:
            return "offline"
        hvparams = Thaw(snapshot.cluster.hvparams.get(inst.hypervisor, {}))
        result: RpcResult = self.rpc.call_instance_info(inst.primary_node, inst.name, inst.hypervisor, hvparams)
        if result.fail_msg:
            self.LogWarning(f"Can't get the state of {inst.name} from node {result.node_name}: {result.fail_msg}")
            return None
        if not isinstance(result.payload, dict) or "state" not in result.payload:
            return "down"
        if result.payload["state"] == constants.INST_USER_SHUTDOWN:
            return "user down"
        return _STATES[runstate.Of(result.payload)]

    def _Nic(self, snapshot: objects.Snapshot, nic: objects.NIC) -> list[Any]:
        filled = params.FillNIC(snapshot, nic)
        network = snapshot.networks.get(nic.network) if nic.network else None
        info = None if network is None else network.ToDict()
        name = None if network is None else network.name
        return [nic.name, nic.uuid, nic.ip, nic.mac, filled["mode"], filled["link"], filled.get("vlan"), name, info]

    # --- disks --------------------------------------------------------------------------------------------------------

    def _Disk(self, snapshot: objects.Snapshot, inst: objects.Instance, disk: objects.Disk) -> dict[str, Any]:
        template = disk_params.Of(disk)
        secondary = None
        if template.mirror == disk_params.INTERNAL:
            others = [uuid for uuid in disk.nodes if uuid != inst.primary_node]
            secondary = others[0] if others else None
        return {
            "iv_name": disk.iv_name,
            "dev_type": disk.dev_type,
            "logical_id": template.ShownId(disk, snapshot.NodeName),
            "drbd_info": template.MirrorInfo(disk, snapshot.NodeName),
            "pstatus": self._DiskStatus(snapshot, inst, disk, inst.primary_node),
            "sstatus": None if secondary is None else self._DiskStatus(snapshot, inst, disk, secondary),
            "children": [self._Disk(snapshot, inst, child) for child in disk.children],
            "mode": disk.mode,
            "size": disk.size,
            "spindles": disk.spindles,
            "name": disk.name,
            "uuid": disk.uuid,
            **self._Behind(snapshot, disk),
        }

    @staticmethod
    def _Behind(snapshot: objects.Snapshot, disk: objects.Disk) -> dict[str, Any]:
        """Return which side of a mirror does not count; nothing while both do, as in 3.1."""
        if disk.behind is None:
            return {}
        return {"behind": [snapshot.NodeName(disk.behind["node"]), disk.behind["since"]]}

    def _DiskStatus(self, snapshot: objects.Snapshot, inst: objects.Instance, disk: objects.Disk, node: str) -> Status:
        if self.op.static or snapshot.nodes[node].offline:
            return None
        result: RpcResult = self.rpc.call_blockdev_find(node, (disk, inst))
        if result.fail_msg:
            self.LogWarning(f"Can't compute disk status for {inst.name} on node {result.node_name}: {result.fail_msg}")
            return None
        found = result.payload
        return None if not isinstance(found, dict) else [found.get(key) for key in _STATUS_KEYS]
