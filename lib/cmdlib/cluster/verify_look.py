"""One look at the nodes of a group: what they answer is compared with one state of the configuration.

Locks are the business of whoever looks (``verify_again``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, objects, opcodes, params, pathutils, runtime
from ganeti.cmdlib.cluster import (
    verify_crypto,
    verify_drbd,
    verify_files,
    verify_losses,
    verify_lvm,
    verify_mirrors,
    verify_ssh,
    verify_storage,
    verify_tags,
)
from ganeti.cmdlib.cluster import verify_nodes as checks
from ganeti.cmdlib.cluster.verify_report import INSTANCE, NODE, Report
from ganeti.cmdlib.instance import room
from ganeti.cmdlib.node.power import OobProgram
from ganeti.params import disk as disk_params
from ganeti.params import ipolicy
from ganeti.rpc.base import Failure
from ganeti.store.relay import HintUnknown
from ganeti.utils.text import NiceSort

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult, RpcRunner


def HypervisorParameterSets(snapshot: objects.Snapshot) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (source, hypervisor, full parameters) of every set in use."""
    cluster = snapshot.cluster
    sets: list[tuple[str, str, dict[str, Any]]] = []
    for name in cluster.enabled_hypervisors:
        sets.append(("cluster", name, params.HVDefaults(cluster, name)))
        sets += [
            (f"os {os_name}", name, params.HVDefaults(cluster, name, os_name))
            for os_name, by_hv in cluster.os_hvp.items()
            if by_hv.get(name)
        ]
    for inst in snapshot.WholeInstances():
        if inst.hvparams:
            sets.append((f"instance {inst.name}", inst.hypervisor, params.FillHV(snapshot, inst)))
    return sets


class GroupLook:
    """``snapshot``: what is compared; ``left_out``: nodes that are not asked, as if they had given no answer.

    ``members``, ``instances``: the nodes of the group and their primary instances; ``silent``: the uuids of the nodes that gave
    no answer, those left out among them.
    """

    def __init__(
        self,
        rpc: RpcRunner,
        op: opcodes.OpClusterVerifyGroup,
        snapshot: objects.Snapshot,
        group_uuid: str,
        report: Report,
        left_out: Collection[str] = (),
    ):
        self.rpc = rpc
        self.snapshot = snapshot
        self.silent = set(left_out)
        self._op = op
        self._group_uuid = group_uuid
        self._report = report
        self._left_out = frozenset(left_out)
        self.members = [snapshot.nodes[uuid] for uuid in snapshot.GroupNodes(group_uuid)]
        self.instances = [inst for node in self.members for inst in snapshot.PrimaryInstances(node.uuid)]
        self.asked = self._NodesToAsk()
        self._nodes = self._NodesOfDisks()
        self._answered: list[str] = []
        self._rules = verify_files.Rules(snapshot)
        self._about_keys = verify_ssh.Questions(snapshot) if op.verify_clutter else {}

    def Run(self) -> None:
        """Ask the nodes and report what is wrong."""
        report, snapshot, members, asked = self._report, self.snapshot, self.members, self.asked
        start = runtime.Time()
        answers = self._Ask(snapshot, members, asked)
        end = runtime.Time()
        report.Heading("Verifying configuration file consistency")
        names = {n.uuid: n.name for n in snapshot.nodes.values()}
        sums = _FileSums(answers)
        self._answered = sorted(sums)
        found = verify_files.WaitForViews(self._rules, names, sums, self._AskForFiles)
        verify_files.CheckFiles(report, names, self._rules, found)
        report.Heading("Verifying node status")
        images = {node.uuid: self._CheckNode(snapshot, node, answers.get(node.uuid), start, end) for node in members}
        verify_crypto.CheckKeys(report, snapshot, self.rpc.call_crypto_look([node.uuid for node in asked]))
        self._CompareNodes(snapshot, images)
        report.Heading("Verifying instance status")
        self._CheckInstances(snapshot, images)
        self._CheckStates(snapshot, images)
        self._CheckDisks(snapshot, names, images)
        verify_storage.CheckFiles(report, snapshot, self.instances, answers)
        former = verify_storage.FormerHomes(snapshot, members, answers)
        verify_storage.CheckFormerHomes(report, snapshot, verify_storage.AskForFolders(self.rpc, snapshot, former))
        verify_tags.CheckExclusion(report, snapshot, members)
        if "nplusone_mem" not in self._op.skip_checks:
            report.Heading("Verifying N+1 Memory redundancy")
            checks.CheckSpareMemory(report, images, snapshot)
            report.Heading("Verifying that nodes may fail")
            verify_losses.Check(self.rpc, snapshot, report, members, self._nodes)

    def _NodesToAsk(self) -> list[objects.Node]:
        """Return the nodes of the group, the master, and one node of another group: their files must be the same."""
        snapshot = self.snapshot
        asked = {node.uuid: node for node in self.members if not node.offline}
        master = snapshot.master
        if master is not None:
            asked.setdefault(master.uuid, master)
        for node in snapshot.nodes.values():
            if node.uuid not in asked and node.vm_capable and not node.offline and node.group != self._group_uuid:
                asked[node.uuid] = node
                break
        return [node for node in asked.values() if node.uuid not in self._left_out]

    def _NodesOfDisks(self) -> set[str]:
        """Return the nodes of the group, and those with the other sides of its instances' mirrors."""
        snapshot, mirrored = self.snapshot, disk_params.With(mirror=disk_params.INTERNAL)
        nodes = {node.uuid for node in self.members}
        for inst in self.instances:
            if snapshot.DiskTemplate(inst) in mirrored:
                nodes.update(snapshot.AllNodes(inst))
        return nodes - self._left_out

    def _AskForFiles(self, paths: list[str]) -> verify_files.Found:
        """Ask the nodes that answered again for the checksums of a few files."""
        request = {"filelist": paths}
        return _FileSums(self.rpc.call_node_verify(self._answered, request, self.snapshot.cluster.cluster_name, {}))

    def _CheckStates(self, snapshot: objects.Snapshot, images: Mapping[str, checks.NodeImage]) -> None:
        """Ask the guests' processes themselves: one that hangs is on the list of its node as well."""
        cluster = snapshot.cluster
        nodes = [uuid for uuid, image in images.items() if image.running]
        hvparams = {name: dict(cluster.hvparams.get(name, {})) for name in cluster.enabled_hypervisors}
        results = self.rpc.call_all_instances_info(nodes, list(cluster.enabled_hypervisors), hvparams)
        for uuid, result in results.items():
            name = snapshot.nodes[uuid].name
            if result.fail_msg:
                self._report.Error("ENODEHV", NODE, name, f"the state of its instances is unknown: {result.fail_msg}")
            else:
                checks.CheckStates(self._report, name, result.payload, snapshot)
                images[uuid].surplus = room.Surplus(snapshot, uuid, result.payload)

    def _CheckDisks(
        self, snapshot: objects.Snapshot, names: dict[str, str], images: Mapping[str, checks.NodeImage]
    ) -> None:
        # A node that did not answer has been reported.
        failed = {uuid for uuid, image in images.items() if image.failed}
        nodes = [snapshot.nodes[uuid] for uuid in self._nodes - failed]
        usable = [n.uuid for n in nodes if n.vm_capable and not n.offline]
        instances = self.instances
        findings, silent = verify_storage.AskForDisks(self.rpc, snapshot, instances, usable)
        lost = verify_lvm.FindLost(images.values(), snapshot)
        verify_storage.CheckDisks(self._report, names, findings, silent, lost)
        answers = verify_mirrors.Ask(self.rpc, snapshot, instances, usable)
        verify_mirrors.Check(self._report, snapshot, instances, answers)
        self._report.Heading("Verifying logical volumes")
        verify_lvm.CheckVolumes(self._report, images.values(), snapshot)

    def _Ask(
        self, snapshot: objects.Snapshot, members: list[objects.Node], asked: list[objects.Node]
    ) -> dict[str, Any]:
        cluster = snapshot.cluster
        online = [n for n in members if not n.offline]
        master = snapshot.nodes[cluster.master_node]
        candidates = [n.name for n in snapshot.nodes.values() if n.master_candidate]
        request: dict[str, Any] = {
            "filelist": sorted({rule.path for rule in self._rules}),
            "hypervisor": list(cluster.enabled_hypervisors),
            "hvparms": HypervisorParameterSets(snapshot),
            "node-net-test": [[[n.name, n.primary_ip, n.secondary_ip] for n in online], candidates],
            "instancelist": list(cluster.enabled_hypervisors),
            "version": None,
            "hvinfo": cluster.enabled_hypervisors[0],
            "nodesetup": None,
            "time": None,
            "master-ip": [master.name, cluster.master_ip, candidates],
            "oslist": None,
            "os-facts": None,
            "nonvmnodes": [n.name for n in snapshot.nodes.values() if not n.vm_capable],
            "user-scripts": [pathutils.EXTERNAL_MASTER_SETUP_SCRIPT] if cluster.use_external_mip_script else [],
            "client-cert": None,
            "bridges": self._Bridges(snapshot),
            "oob-paths": sorted({OobProgram(snapshot, node) for node in snapshot.nodes.values()} - {""}),
        }
        request.update(verify_lvm.Questions(snapshot, members))
        request.update(verify_drbd.Questions(cluster))
        request.update(verify_storage.Questions(snapshot, self.instances, members))
        request.update(self._about_keys)
        if cluster.modify_ssh_setup:
            request["nodelist"] = [
                [n.name for n in online],
                checks.Neighbours(snapshot, self._group_uuid, online),
                candidates,
            ]
        templates = set(cluster.enabled_disk_templates)
        if templates & disk_params.With(file_based=True):
            request["allowed-file-storage-paths"] = master.name
        for template in map(disk_params.TEMPLATES.__getitem__, templates):
            if template.directory and template.verify_key:
                request[template.verify_key] = getattr(cluster, template.directory)
        hvparams = {name: dict(cluster.hvparams.get(name, {})) for name in cluster.enabled_hypervisors}
        answers: dict[str, Any] = self.rpc.call_node_verify(
            [n.uuid for n in asked], request, cluster.cluster_name, hvparams
        )
        return answers

    def _Bridges(self, snapshot: objects.Snapshot) -> list[str]:
        wanted = set()
        default = snapshot.cluster.nicparams[constants.PP_DEFAULT]
        if default["mode"] == constants.NIC_MODE_BRIDGED and self.instances:
            wanted.add(default["link"])
        for inst in self.instances:
            for nic in inst.nics:
                filled = params.FillNIC(snapshot, nic)
                if filled["mode"] == constants.NIC_MODE_BRIDGED:
                    wanted.add(filled["link"])
        return sorted(wanted)

    def _CheckNode(
        self, snapshot: objects.Snapshot, node: objects.Node, result: Any, start: float, end: float
    ) -> checks.NodeImage:
        report = self._report
        image = checks.NodeImage(node)
        if node.offline:
            report.Verbose(f"Skipping offline node {node.name}")
            return image
        if node.uuid in self._left_out:
            image.failed = True
            return image
        role = node.Role(snapshot.cluster.master_node)
        shown = "master candidate" if role == objects.ROLE_CANDIDATE else role
        report.Verbose(f"Verifying node {node.name} ({shown})")
        failure = result.fail_msg
        if failure or not isinstance(result.payload, dict):
            image.failed = True
            self.silent.add(node.uuid)
            text = f"while contacting node: {failure or 'answer of the wrong shape'}"
            if result.failure is Failure.REJECTED:
                text += f"; {HintUnknown(node.name)}"
            report.Error("ENODERPC", NODE, node.name, text)
            return image
        answer = result.payload
        is_master = node.uuid == snapshot.cluster.master_node
        if not checks.CheckVersion(report, node.name, answer):
            image.failed = True
            return image
        checks.CheckSetup(report, node.name, answer)
        checks.CheckTime(report, node.name, answer, start, end)
        checks.CheckNetwork(report, node.name, answer)
        verify_ssh.CheckKeys(report, node.name, self._about_keys, answer)
        checks.CheckPrograms(report, node.name, answer)
        checks.CheckOobPrograms(report, node, answer)
        checks.CheckStoragePaths(report, node.name, answer, is_master)
        verify_crypto.CheckClient(report, snapshot, node, answer.get("client-cert"))
        if node.vm_capable:
            checks.CheckHypervisors(report, node.name, answer)
            checks.CheckBridges(report, node.name, answer)
            checks.ReadGuests(report, image, answer)
            checks.ReadOs(report, image, answer)
            checks.CheckGuests(report, image, snapshot)
            verify_lvm.CheckGroup(report, image, snapshot, answer)
            verify_drbd.CheckNode(report, image, snapshot, answer)
        return image

    def _CompareNodes(self, snapshot: objects.Snapshot, images: Mapping[str, checks.NodeImage]) -> None:
        known = [image for image in images.values() if image.os_rows is not None]
        for image in known:
            checks.CheckOs(self._report, image, known[0])
        verify_drbd.CheckVersions(self._report, images.values())
        verify_lvm.CheckSizes(self._report, self.snapshot.nodegroups[self._group_uuid].name, images.values())

    def _CheckInstances(self, snapshot: objects.Snapshot, images: dict[str, checks.NodeImage]) -> None:
        group = snapshot.nodegroups[self._group_uuid]
        policy = params.FillIPolicy(snapshot, group)
        for inst in self.instances:
            self._report.Verbose(f"Verifying instance {inst.name}")
            self._CheckPolicy(snapshot, inst, policy)
            self._CheckPlaces(snapshot, inst, images)
            verify_lvm.CheckExclusive(self._report, snapshot, inst)

    def _CheckPolicy(self, snapshot: objects.Snapshot, inst: objects.Instance, policy: dict[str, Any]) -> None:
        beparams = params.FillBE(snapshot, inst)
        disks = snapshot.InstanceDisks(inst)
        for problem in ipolicy.Violations(
            policy,
            beparams["maxmem"],
            beparams["vcpus"],
            len(inst.nics),
            [disk.size for disk in disks],
            beparams["spindle_use"],
            [disk.dev_type for disk in disks],
        ):
            self._report.Warning("EINSTANCEPOLICY", INSTANCE, inst.name, problem)

    def _CheckPlaces(
        self, snapshot: objects.Snapshot, inst: objects.Instance, images: dict[str, checks.NodeImage]
    ) -> None:
        report = self._report
        primary = snapshot.nodes[inst.primary_node]
        image = images[primary.uuid]
        wanted_up = inst.admin_state == constants.ADMINST_UP
        report.ErrorIf(
            wanted_up and primary.offline,
            "EINSTANCEBADNODE",
            INSTANCE,
            inst.name,
            f"it should run, but its primary node {primary.name} is offline",
        )
        if wanted_up and not primary.offline and image.running is not None:
            report.ErrorIf(
                inst.name not in image.running,
                "EINSTANCEDOWN",
                INSTANCE,
                inst.name,
                f"it should run on node {primary.name} and does not",
            )
        report.ErrorIf(
            not primary.vm_capable,
            "EINSTANCEBADNODE",
            INSTANCE,
            inst.name,
            f"its primary node {primary.name} may not run instances",
        )
        secondaries = [snapshot.nodes[u] for u in snapshot.SecondaryNodes(inst)]
        offline = NiceSort(n.name for n in secondaries if n.offline)
        report.ErrorIf(
            offline,
            "EINSTANCEBADNODE",
            INSTANCE,
            inst.name,
            f"secondary node {', '.join(offline)} is offline",
        )
        report.WarnIf(
            len(secondaries) > 1,
            "EINSTANCELAYOUT",
            INSTANCE,
            inst.name,
            f"it has more than one secondary node: {', '.join(n.name for n in secondaries)}",
        )
        groups = {n.group for n in secondaries} | {primary.group}
        report.WarnIf(
            len(groups) > 1 and secondaries,
            "EINSTANCESPLITGROUPS",
            INSTANCE,
            inst.name,
            f"its nodes are in different groups: {', '.join(n.name for n in [primary, *secondaries])}",
        )


def _FileSums(answers: Mapping[str, RpcResult]) -> verify_files.Found:
    """Return the checksums of the nodes that answered, by node uuid."""
    return {
        uuid: result.payload["filelist"]
        for uuid, result in answers.items()
        if not result.fail_msg and isinstance(result.payload, dict) and isinstance(result.payload.get("filelist"), dict)
    }
