"""The cluster as a whole: first and last hooks, name, master address, distribution of files (doc/reference/drivers.md d.10)."""

from __future__ import annotations

from typing import Any

from ganeti import _autoconf, constants, errors, hosts, locking, opcodes, pathutils, runtime, ssconf
from ganeti.cmdlib.base import HTYPE_CLUSTER, Feedback, LogicalUnit, NoHooksLU, OpT
from ganeti.cmdlib.common import ShareAll
from ganeti.cmdlib.distribute import RedistributeAncillaryFiles, UploadFile
from ganeti.cmdlib.node.switch import SetUpSwitch
from ganeti.daemon import users
from ganeti.rpc import resolver
from ganeti.utils.text import NiceSort


class _ClusterLU(LogicalUnit[OpT]):
    """A unit whose hooks are about the cluster."""

    HTYPE = HTYPE_CLUSTER

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"OP_TARGET": self.snapshot.cluster.cluster_name}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        return ([], [])


class LUClusterPostInit(_ClusterLU[opcodes.OpClusterPostInit]):
    """Sets up the master's Open vSwitch if it is to have one, and runs the hooks after a cluster was made."""

    REQ_BGL = True

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        return ([], [self.snapshot.cluster.master_node])

    def Exec(self, feedback: Feedback) -> bool:
        snapshot = self.snapshot
        master = snapshot.nodes[snapshot.cluster.master_node]
        trouble = (
            f"The cluster is made, but the Open vSwitch of {master.name} could not be set up; set it up by hand, then use"
            " 'gnt-cluster activate-master-ip'"
        )
        if SetUpSwitch(self, master, trouble):
            # The master address may be on the switch, which was not there when the master started.
            ActivateMasterIp(self).Warn("The master address could not be activated", self.LogWarning)
        return True


class LUClusterDestroy(_ClusterLU[opcodes.OpClusterDestroy]):
    """The last job of a cluster; the client takes the daemons down afterwards."""

    REQ_BGL = True

    def CheckPrereq(self) -> None:
        snapshot = self.snapshot
        others = len(snapshot.nodes) - 1
        if others:
            raise errors.OpPrereqError(f"There are still {others} node(s) in this cluster.", errors.ECODE_INVAL)
        if snapshot.instances:
            raise errors.OpPrereqError(
                f"There are still {len(snapshot.instances)} instance(s) in this cluster.", errors.ECODE_INVAL
            )

    def Exec(self, feedback: Feedback) -> str:
        cluster = self.snapshot.cluster
        self.proc.RunPostHooks([self.snapshot.nodes[cluster.master_node].name])
        result = DeactivateMasterIp(self)
        if result.fail_msg:
            self.LogWarning(f"Error disabling the master IP address: {result.fail_msg}")
        return cluster.master_node


def ActivateMasterIp(lu: LogicalUnit) -> Any:
    """Bring the master address up on the master and return the result of the call."""
    cluster = lu.snapshot.cluster
    network = lu.cfg.GetMasterNetworkParameters()
    return lu.rpc.call_node_activate_master_ip(cluster.master_node, network._asdict(), cluster.use_external_mip_script)


def DeactivateMasterIp(lu: LogicalUnit) -> Any:
    """Take the master address down."""
    cluster = lu.snapshot.cluster
    network = lu.cfg.GetMasterNetworkParameters()
    return lu.rpc.call_node_deactivate_master_ip(
        cluster.master_node, network._asdict(), cluster.use_external_mip_script
    )


class LUClusterActivateMasterIp(NoHooksLU[opcodes.OpClusterActivateMasterIp]):
    """Brings the master address up."""

    REQ_BGL = True

    def Exec(self, feedback: Feedback) -> None:
        ActivateMasterIp(self).Raise("Could not activate the master IP")


class LUClusterDeactivateMasterIp(NoHooksLU[opcodes.OpClusterDeactivateMasterIp]):
    """Takes the master address down."""

    REQ_BGL = True

    def Exec(self, feedback: Feedback) -> None:
        DeactivateMasterIp(self).Raise("Could not deactivate the master IP")


class LUClusterRename(_ClusterLU[opcodes.OpClusterRename]):
    """Another name, and with it perhaps another address."""

    REQ_BGL = True

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {**super().BuildHooksEnv(), "NEW_NAME": self.op.name}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        return ([self.snapshot.cluster.master_node], list(self.snapshot.nodes))

    def CheckPrereq(self) -> None:
        cluster = self.snapshot.cluster
        host = hosts.Lookup(self.op.name, ipv6=cluster.primary_ip_family == constants.IP6_FAMILY)
        self._new_name, self._new_ip = host
        if (host.name, host.ip) == (cluster.cluster_name, cluster.master_ip):
            raise errors.OpPrereqError("The cluster has this name and address already", errors.ECODE_INVAL)
        if host.ip != cluster.master_ip and hosts.IsInUse(host.ip, resolver.NodedPort()):
            raise errors.OpPrereqError(
                f"Something answers at the new address {host.ip} already",
                errors.ECODE_NOTUNIQUE,
            )
        self.op.name = host.name

    def Exec(self, feedback: Feedback) -> str:
        DeactivateMasterIp(self).Raise("Could not take the master IP down")
        try:
            cluster = self.snapshot.cluster
            self.cfg.Update(cluster.Replace(cluster_name=self._new_name, master_ip=self._new_ip), self.ec_id)
            self._WriteKnownHosts()
        finally:
            result = ActivateMasterIp(self)
            if result.fail_msg:
                self.LogWarning(f"The master IP is not up: {result.fail_msg}; try gnt-cluster activate-master-ip")
        return self._new_name

    def _WriteKnownHosts(self) -> None:
        snapshot = self.snapshot
        old = (
            runtime.ReadText(pathutils.SSH_KNOWN_HOSTS_FILE, 1 << 20)
            if runtime.Exists(pathutils.SSH_KNOWN_HOSTS_FILE)
            else ""
        )
        lines = [line.split(" ", 1) for line in old.splitlines() if " " in line]
        text = "".join(f"{self._new_name} {rest}\n" for _, rest in lines)
        uid, gid = users.UserId(_autoconf.MASTERD_USER), users.GroupId(_autoconf.MASTERD_GROUP)
        runtime.WriteFile(pathutils.SSH_KNOWN_HOSTS_FILE, text, mode=0o644, uid=uid, gid=gid)
        online = [n.uuid for n in snapshot.nodes.values() if not n.offline and n.uuid != snapshot.cluster.master_node]
        UploadFile(self, pathutils.SSH_KNOWN_HOSTS_FILE, online)


class LUClusterRedistConf(NoHooksLU[opcodes.OpClusterRedistConf]):
    """Sends everything again that nodes should have."""

    REQ_BGL = False

    def ExpandNames(self) -> None:
        self.needed_locks = {locking.LEVEL_NODE: locking.ALL_SET, locking.LEVEL_NODE_ALLOC: locking.ALL_SET}
        self.share_locks = ShareAll()

    def NodesToConfirm(self) -> set[str]:
        # What is sent is read here: no former master may still be replacing it.
        return {self.snapshot.cluster.master_node}

    def Exec(self, feedback: Feedback) -> list[str] | None:
        # The cluster object is written again, although nothing changed: every view of it is made anew.
        self.cfg.Transact(lambda draft: draft.BumpCluster())
        root = self.snapshot
        online = sorted(node.uuid for node in root.nodes.values() if not node.offline)
        # A node that has not confirmed this master keeps nothing from the others, which is safe by doc/design-store.rst, 6:
        # each node is an object of its own here.  What one gets says nothing of another one, which may have missed an
        # upload before; those that are sent something have ended what a former master began there and take nothing of
        # it; and the one is left as it is, whomever it follows.
        left_out = self.context.store.UnconfirmedNodes(online, self.context.confirm_timeout)
        for uuid, reason in sorted(left_out.items()):
            self.LogWarning(f"Nothing is copied to node {root.NodeName(uuid)}: {reason}")
        chosen = [uuid for uuid in online if uuid not in left_out]
        failed = {*map(root.NodeName, left_out), *RedistributeAncillaryFiles(self, only=chosen)}
        # Master candidates write theirs from their copy of the store, and look after them.
        others = [uuid for uuid in chosen if not root.nodes[uuid].master_candidate]
        if others:
            for result in self.rpc.call_write_ssconf_files(others, ssconf.Values(root)).values():
                if result.Warn(f"ssconf files could not be written on node {result.node_name}", self.LogWarning):
                    failed.add(result.node_name)
        return self._Missed(NiceSort(failed))

    def _Missed(self, names: list[str]) -> list[str] | None:
        """Name those that did not get everything, and return them."""
        if not names:
            return None
        self.LogWarning(
            f"Not all files were copied to: {', '.join(names)}",
            hint="repair what is named above and run 'gnt-cluster redist-conf' again; a node that is off is marked with"
            f" 'gnt-node modify --offline yes {names[0]}' and gets them when it is marked online again",
        )
        return names
