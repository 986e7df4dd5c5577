"""Verification of the whole cluster, of its configuration, of a group (doc/reference/drivers.md c.3, doc/reference/cli.md 9.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, locking, objects, opcodes, params, pathutils, runtime, x509
from ganeti.cmdlib.base import HTYPE_CLUSTER, Feedback, LogicalUnit, NoHooksLU, ResultWithJobs
from ganeti.cmdlib.cluster import (
    verify_calls,
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
from ganeti.cmdlib.cluster.verify_report import CLUSTER, INSTANCE, NODE, Report
from ganeti.cmdlib.common import ExpandGroup, ShareAll, StillThere
from ganeti.cmdlib.instance import room
from ganeti.cmdlib.node.power import OobProgram
from ganeti.params import disk as disk_params
from ganeti.params import hv, hv_kvm, ipolicy
from ganeti.rpc.base import Failure
from ganeti.store.relay import HintUnknown
from ganeti.utils.text import NiceSort

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult

_PEM_LIMIT = 1 << 20
_NAMES_SHOWN = 3
# Seconds for one call, and for all: the locks of all instances and nodes of the group are held meanwhile, and whoever wants to
# move instances away from a node that hangs has to wait for them.
_CALL_SECONDS, _LOOK_SECONDS = 180.0, 900.0
_CALL_SECONDS_IF_SOME_HANG = 30.0


def _MakeReport(op: Any, feedback: Feedback) -> Report:
    return Report(feedback, op.error_codes, op.ignore_errors, op.debug_simulate_errors, op.verbose)


class LUClusterVerify(NoHooksLU[opcodes.OpClusterVerify]):
    """Submits the verification of the configuration, and of every group after it."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        op = self.op
        common = {
            "debug_simulate_errors": op.debug_simulate_errors,
            "error_codes": op.error_codes,
            "ignore_errors": op.ignore_errors,
            "verbose": op.verbose,
        }
        jobs: list[list[opcodes.OpCode]] = []
        if op.group_name is None:
            jobs.append([opcodes.OpClusterVerifyConfig(**common)])
            groups = NiceSort(group.name for group in self.snapshot.nodegroups.values())
        else:
            groups = [ExpandGroup(self.snapshot, op.group_name).name]
        for index, name in enumerate(groups):
            depends = [[-(index + 1), []]] if op.group_name is None else None
            jobs.append(
                [
                    opcodes.OpClusterVerifyGroup(
                        group_name=name,
                        skip_checks=op.skip_checks,
                        verify_clutter=op.verify_clutter,
                        depends=depends,
                        **common,
                    )
                ]
            )
        return ResultWithJobs(jobs)


class LUClusterVerifyConfig(NoHooksLU[opcodes.OpClusterVerifyConfig]):
    """The checks that need no node."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = dict.fromkeys(locking.LEVELS[1:], locking.ALL_SET)
        self.share_locks = ShareAll()

    def Exec(self, feedback: Feedback) -> bool:
        report = _MakeReport(self.op, feedback)
        snapshot = self.snapshot
        report.Heading("Verifying cluster config")
        for problem in self.cfg.VerifyConfig():
            report.Error("ECLUSTERCFG", CLUSTER, None, problem)
        self._CheckCopies(report, snapshot)
        report.Heading("Verifying cluster certificate files")
        for path in (pathutils.NODED_CERT_FILE, pathutils.RAPI_CERT_FILE, pathutils.SPICE_CERT_FILE):
            self._CheckCertificate(report, path)
        report.Heading("Verifying hypervisor parameters")
        self._CheckHypervisorParameters(report, snapshot)
        self._CheckUsers(report, snapshot)
        report.Heading("Verifying all nodes belong to an existing group")
        for node in snapshot.nodes.values():
            if node.group not in snapshot.nodegroups:
                instances = NiceSort(snapshot.instances[u].known_as for u in snapshot.NodeInstances(node.uuid)[0])
                report.Error(
                    "ECLUSTERDANGLINGNODES",
                    NODE,
                    node.name,
                    f"its group does not exist; its instances are: {', '.join(instances) or 'none'}",
                )
        for inst in snapshot.instances.values():
            if inst.primary_node not in snapshot.nodes and not (inst.forthcoming and inst.primary_node is None):
                report.Error(
                    "ECLUSTERDANGLINGINST",
                    CLUSTER,
                    None,
                    f"the primary node of instance {inst.known_as} does not exist",
                )
        return not report.bad

    def _CheckCopies(self, report: Report, snapshot: objects.Snapshot) -> None:
        """Report how many failures the configuration itself survives (doc/design-store.rst, 9)."""
        voters = [n.name for n in snapshot.nodes.values() if n.master_candidate and not n.offline]
        if len(voters) == 1 and len(snapshot.nodes) > 1:
            report.Notice(
                f"Only {voters[0]} has the configuration: nobody can take over when it is lost; make another node master"
                " candidate with gnt-node modify --master-candidate=yes"
            )
        elif len(voters) == 2:
            report.Notice(
                f"The configuration is on two nodes ({' and '.join(NiceSort(voters))}): when either is down, changes wait"
                " until it is marked offline; three master candidates stand the loss of one"
            )

    def _CheckCertificate(self, report: Report, path: str) -> None:
        try:
            pem = runtime.ReadFile(path, _PEM_LIMIT)
        except OSError as err:
            report.Error("ECLUSTERCERT", CLUSTER, None, f"Failed to load certificate {path}: {err.strerror}")
            return
        code, text = x509.CheckExpiry(pem, path)
        if code == x509.ERROR:
            report.Error("ECLUSTERCERT", CLUSTER, None, str(text))
        elif code is not None:
            report.Warning("ECLUSTERCERT", CLUSTER, None, str(text))

    def _CheckHypervisorParameters(self, report: Report, snapshot: objects.Snapshot) -> None:
        for source, name, values in HypervisorParameterSets(snapshot):
            for problem in hv.SyntaxProblems(name, values):
                report.Error(
                    "ECLUSTERCFG",
                    CLUSTER,
                    None,
                    f"hypervisor {name} parameters syntax check (source {source}): {problem}",
                )

    def _CheckUsers(self, report: Report, snapshot: objects.Snapshot) -> None:
        """Say that QEMU runs as root.  Not a finding: it is the default, and a healthy cluster has none."""
        as_root = NiceSort(
            inst.name
            for inst in snapshot.WholeInstances()
            if inst.hypervisor == constants.HT_KVM
            and inst.admin_state == constants.ADMINST_UP
            and params.FillHV(snapshot, inst).get("security_model", hv_kvm.SECURITY_NONE) == hv_kvm.SECURITY_NONE
        )
        if as_root:
            shown = ", ".join(as_root[:_NAMES_SHOWN]) + (", ..." if len(as_root) > _NAMES_SHOWN else "")
            report.Notice(
                f"QEMU runs as root for {len(as_root)} instance(s) ({shown}): security_model is 'none'. Each gets a user of its"
                " own at its next start after 'gnt-cluster modify --add-uids 5000-5099' and"
                " 'gnt-cluster modify -H kvm:security_model=pool'"
            )


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


class LUClusterVerifyGroup(LogicalUnit[opcodes.OpClusterVerifyGroup]):
    """Query the nodes of a group and compare their answers with the configuration."""

    HTYPE = HTYPE_CLUSTER
    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        group = ExpandGroup(self.snapshot, self.op.group_name)
        self._group_uuid = group.uuid
        self.op.group_name = group.name
        names = [self.snapshot.instances[u].name for u in self._PrimaryInstances()]
        self.needed_locks = {
            locking.LEVEL_INSTANCE: names,
            locking.LEVEL_NODEGROUP: [group.uuid],
            locking.LEVEL_NODE: [],
            locking.LEVEL_NODE_ALLOC: locking.ALL_SET,
        }
        self.share_locks = ShareAll()

    def _PrimaryInstances(self) -> list[str]:
        nodes = self.snapshot.GroupNodes(self._group_uuid)
        return [inst.uuid for node in nodes for inst in self.snapshot.PrimaryInstances(node)]

    def DeclareLocks(self, level: int) -> None:
        if level != locking.LEVEL_NODE:
            return
        assert self.needed_locks is not None
        snapshot = self.snapshot
        nodes = set(snapshot.GroupNodes(self._group_uuid))
        for name in self.owned_locks(locking.LEVEL_INSTANCE):
            inst = snapshot.InstanceByName(name)
            if inst is not None and snapshot.DiskTemplate(inst) in disk_params.With(mirror=disk_params.INTERNAL):
                nodes.update(snapshot.AllNodes(inst))
        self.needed_locks[level] = sorted(nodes)

    def CheckPrereq(self) -> None:
        snapshot = self.snapshot
        StillThere(snapshot.nodegroups.get(self._group_uuid), "Group", self.op.group_name)
        missing = set(snapshot.GroupNodes(self._group_uuid)) - self.owned_locks(locking.LEVEL_NODE)
        if missing:
            names = ", ".join(NiceSort(snapshot.nodes[u].name for u in missing))
            raise errors.OpPrereqError(
                f"Nodes were added to group '{self.op.group_name}' since the locks were acquired: {names}; try again",
                errors.ECODE_STATE,
            )

    def BuildHooksEnv(self) -> dict[str, Any]:
        snapshot = self.snapshot
        env: dict[str, Any] = {"CLUSTER_TAGS": " ".join(snapshot.cluster.tags)}
        for uuid in snapshot.GroupNodes(self._group_uuid):
            node = snapshot.nodes[uuid]
            env[f"NODE_TAGS_{node.name}"] = " ".join(node.tags)
        return env

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        return ([], [u for u in self.snapshot.GroupNodes(self._group_uuid) if not self.snapshot.nodes[u].offline])

    # --- the work -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> bool:
        report = self._report = _MakeReport(self.op, feedback)
        snapshot = self.snapshot
        report.Heading(f"Verifying group '{self.op.group_name}'")
        members = [snapshot.nodes[u] for u in snapshot.GroupNodes(self._group_uuid)]
        if not members:
            report.Heading("Empty node group, skipping verification")
            return True
        asked = self._NodesToAsk(snapshot, members)
        report.Heading(f"Gathering data ({len(members)} nodes)")
        report.Heading(f"Gathering information about nodes ({len(members)} nodes)")
        self._rules = verify_files.Rules(snapshot)
        self._about_keys = verify_ssh.Questions(snapshot) if self.op.verify_clutter else {}
        # First: where calls hang, the others of this verification may hang too.
        hang = verify_calls.Check(report, self.rpc, snapshot, asked)
        with self.rpc.Within(_CALL_SECONDS_IF_SOME_HANG if hang else _CALL_SECONDS, _LOOK_SECONDS):
            self._Look(snapshot, members, asked)
        report.Heading("Other Notes")
        self._Notes(snapshot, members)
        return not report.bad

    def _Look(self, snapshot: objects.Snapshot, members: list[objects.Node], asked: list[objects.Node]) -> None:
        report = self._report
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
        verify_tags.CheckExclusion(report, snapshot, members)
        if "nplusone_mem" not in self.op.skip_checks:
            report.Heading("Verifying N+1 Memory redundancy")
            checks.CheckSpareMemory(report, images, snapshot)
            report.Heading("Verifying that nodes may fail")
            verify_losses.Check(self, report, members, self.owned_locks(locking.LEVEL_NODE))

    def _NodesToAsk(self, snapshot: objects.Snapshot, members: list[objects.Node]) -> list[objects.Node]:
        """Return the nodes of the group, the master, and one node of another group: their files must be the same."""
        asked = {node.uuid: node for node in members if not node.offline}
        master = snapshot.master
        if master is not None:
            asked.setdefault(master.uuid, master)
        for node in snapshot.nodes.values():
            if node.uuid not in asked and node.vm_capable and not node.offline and node.group != self._group_uuid:
                asked[node.uuid] = node
                break
        return list(asked.values())

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
        owned = self.owned_locks(locking.LEVEL_NODE)
        # A node that did not answer has been reported.
        failed = {uuid for uuid, image in images.items() if image.failed}
        nodes = [snapshot.nodes[uuid] for uuid in owned - failed]
        usable = [n.uuid for n in nodes if n.vm_capable and not n.offline]
        instances = [snapshot.instances[uuid] for uuid in self._PrimaryInstances()]
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
        if default["mode"] == constants.NIC_MODE_BRIDGED and self._PrimaryInstances():
            wanted.add(default["link"])
        for uuid in self._PrimaryInstances():
            for nic in snapshot.instances[uuid].nics:
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
        role = node.Role(snapshot.cluster.master_node)
        shown = "master candidate" if role == objects.ROLE_CANDIDATE else role
        report.Verbose(f"Verifying node {node.name} ({shown})")
        failure = result.fail_msg
        if failure or not isinstance(result.payload, dict):
            image.failed = True
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
        verify_lvm.CheckSizes(self._report, self.op.group_name, images.values())

    def _CheckInstances(self, snapshot: objects.Snapshot, images: dict[str, checks.NodeImage]) -> None:
        group = snapshot.nodegroups[self._group_uuid]
        policy = params.FillIPolicy(snapshot, group)
        for uuid in self._PrimaryInstances():
            inst = snapshot.instances[uuid]
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

    def _Notes(self, snapshot: objects.Snapshot, members: list[objects.Node]) -> None:
        if self.op.verify_clutter and not self._about_keys:
            self._report.Notice("This cluster does not manage SSH keys: authorized_keys was not checked")
        instances = [snapshot.instances[u] for u in self._PrimaryInstances()]
        mirrored = disk_params.Mirrored()
        counts = [
            (sum(snapshot.DiskTemplate(i) not in mirrored for i in instances), "non-redundant instance(s) found."),
            (
                sum(not params.FillBE(snapshot, i)["auto_balance"] for i in instances),
                "non-auto-balanced instance(s) found.",
            ),
            (sum(i.admin_state == constants.ADMINST_OFFLINE for i in instances), "offline instance(s) found."),
            (sum(n.offline for n in members), "offline node(s) found."),
            (sum(n.drained for n in members), "drained node(s) found."),
        ]
        for count, text in counts:
            if count:
                self._report.Notice(f"{count} {text}")

    def HooksCallBack(self, phase: str, results: Any, feedback: Feedback, lu_result: Any) -> Any:
        """Report failing hooks as findings."""
        if phase != constants.HOOKS_PHASE_POST:
            return lu_result
        report = self._report
        report.Heading("Hooks Results")
        for result in (results or {}).values():
            if result.offline:
                continue
            if report.ErrorIf(
                result.fail_msg,
                "ENODEHOOKS",
                NODE,
                result.node_name,
                f"the hooks could not be run: {result.fail_msg}",
            ):
                continue
            for script, status, output in result.payload or []:
                if report.ErrorIf(
                    status == constants.HKR_FAIL,
                    "ENODEHOOKS",
                    NODE,
                    result.node_name,
                    f"script {script} failed with this output:",
                ):
                    report.Raw("\n".join(f"      {line}" for line in str(output).splitlines()))
        return lu_result and not report.bad


def _FileSums(answers: Mapping[str, RpcResult]) -> verify_files.Found:
    """Return the checksums of the nodes that answered, by node uuid."""
    return {
        uuid: result.payload["filelist"]
        for uuid, result in answers.items()
        if not result.fail_msg and isinstance(result.payload, dict) and isinstance(result.payload.get("filelist"), dict)
    }
