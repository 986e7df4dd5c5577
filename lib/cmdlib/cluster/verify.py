"""Verification of the whole cluster, of its configuration, of a group (doc/reference/drivers.md c.3, doc/reference/cli.md 9.6)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ganeti import constants, locking, objects, opcodes, params, pathutils, runtime, x509
from ganeti.cmdlib.base import HTYPE_CLUSTER, Feedback, Filled, LogicalUnit, NoHooksLU, ResultWithJobs
from ganeti.cmdlib.cluster import verify_again, verify_calls, verify_ssh
from ganeti.cmdlib.cluster.verify_look import GroupLook, HypervisorParameterSets
from ganeti.cmdlib.cluster.verify_report import CLUSTER, NODE, Look, Report
from ganeti.cmdlib.common import ExpandGroup, ShareAll, StillThere
from ganeti.params import disk as disk_params
from ganeti.params import hv, hv_kvm
from ganeti.utils.text import Counted, JoinFirst, NiceSort

_PEM_LIMIT = 1 << 20
_NAMES_SHOWN = 3
_DETACHED_SHOWN = 50
# Seconds for one call, and for all, of a look that holds no locks.
_CALL_SECONDS, _LOOK_SECONDS = 180.0, 900.0
_CALL_SECONDS_IF_SOME_HANG = 30.0
# Of a look under locks, at nodes that have just answered.
_CALL_SECONDS_AGAIN, _LOOK_SECONDS_AGAIN = 30.0, 90.0


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
        self._NameDetached(report, snapshot)
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
            shown = JoinFirst(as_root, _NAMES_SHOWN)
            report.Notice(
                f"QEMU runs as root for {Counted(len(as_root), 'instance')} ({shown}): security_model is 'none'. Each gets a user of its"
                " own at its next start after 'gnt-cluster modify --add-uids 5000-5099' and"
                " 'gnt-cluster modify -H kvm:security_model=pool'"
            )

    def _NameDetached(self, report: Report, snapshot: objects.Snapshot) -> None:
        """Say which disks no instance has: nothing else shows them."""
        detached = [
            f"{disk.uuid} ({', '.join([*filter(None, [disk.name]), disk.dev_type, f'{disk.size} MiB'])})"
            for disk in snapshot.disks.values()
            if snapshot.DiskOwner(disk.uuid) is None
        ]
        if detached:
            report.Notice(
                f"{Counted(len(detached), 'disk')} {'is' if len(detached) == 1 else 'are'} detached:"
                f" {JoinFirst(sorted(detached), _DETACHED_SHOWN)}; 'gnt-instance modify --disk attach:uuid=UUID INSTANCE'"
                " attaches one, also so that it can be removed"
            )


class LUClusterVerifyGroup(LogicalUnit[opcodes.OpClusterVerifyGroup]):
    """Query the nodes of a group and compare their answers with the configuration."""

    HTYPE = HTYPE_CLUSTER
    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        group = ExpandGroup(self.snapshot, self.op.group_name)
        self._group_uuid = group.uuid
        self.op.group_name = group.name
        self.needed_locks = {}

    def CheckPrereq(self) -> None:
        self._before = self.snapshot
        StillThere(self._before.nodegroups.get(self._group_uuid), "Group", self.op.group_name)

    def BuildHooksEnv(self) -> dict[str, Any]:
        snapshot = self._before
        env: dict[str, Any] = {"CLUSTER_TAGS": " ".join(snapshot.cluster.tags)}
        for uuid in snapshot.GroupNodes(self._group_uuid):
            node = snapshot.nodes[uuid]
            env[f"NODE_TAGS_{node.name}"] = " ".join(node.tags)
        return env

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        nodes = self._before.nodes
        return ([], [u for u in self._before.GroupNodes(self._group_uuid) if not nodes[u].offline])

    # --- the work -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> bool:
        report = self._report = _MakeReport(self.op, feedback)
        report.Heading(f"Verifying group '{self.op.group_name}'")
        count = len(self._before.GroupNodes(self._group_uuid))
        if not count:
            report.Heading("Empty node group, skipping verification")
            return True
        report.Heading(f"Gathering data ({count} nodes)")
        report.Heading(f"Gathering information about nodes ({count} nodes)")
        look, first = self._LookFirst(report)
        settled = verify_again.Settle(self, look.snapshot, first, lambda silent: self._LookAgain(report, silent))
        for line in settled.lines:
            report.Tell(line)
        report.Heading("Other Notes")
        if settled.busy:
            report.Notice(
                f"Jobs are at work on {', '.join(settled.busy)}: what was found there may be their doing and is left out;"
                f" 'gnt-cluster verify --node-group {self.op.group_name}' looks again"
            )
        self._Notes(look)
        if "hvparam_assessment" not in self.op.skip_checks:
            self._AssessParameters(look)
        return not report.bad

    def _LookFirst(self, report: Report) -> tuple[GroupLook, Look]:
        """Look without any lock."""
        draft = report.Draft()
        look = GroupLook(self.rpc, self.op, self._before, self._group_uuid, draft)
        # First: where calls hang, the others of this verification may hang too.
        hang = verify_calls.Check(draft, self.rpc, look.snapshot, look.asked)
        with self.rpc.Within(_CALL_SECONDS_IF_SOME_HANG if hang else _CALL_SECONDS, _LOOK_SECONDS):
            look.Run()
        return look, Look(draft.lines, frozenset(look.silent))

    def _LookAgain(self, report: Report, silent: Collection[str]) -> Look:
        """Look once more, under locks of what may be wrong, without the nodes that give no answer."""
        snapshot = self.snapshot
        if self._group_uuid not in snapshot.nodegroups:
            return Look([], frozenset(silent))
        draft = report.Draft()
        look = GroupLook(self.rpc, self.op, snapshot, self._group_uuid, draft, silent)
        with self.rpc.Within(_CALL_SECONDS_AGAIN, _LOOK_SECONDS_AGAIN):
            look.Run()
        return Look(draft.lines, frozenset(look.silent))

    def _Notes(self, look: GroupLook) -> None:
        snapshot, members, instances = look.snapshot, look.members, look.instances
        if self.op.verify_clutter and not verify_ssh.Questions(snapshot):
            self._report.Notice("This cluster does not manage SSH keys: authorized_keys was not checked")
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

    def _AssessParameters(self, look: GroupLook) -> None:
        """Name hypervisor parameters that are permitted and seldom wanted.  Not findings: a healthy cluster may have them."""
        concerned: dict[str, list[str]] = {}
        for inst in look.instances:
            if inst.forthcoming:
                continue
            for text in hv.Assess(Filled(inst.hypervisor), params.FillHV(look.snapshot, inst)):
                concerned.setdefault(text, []).append(Filled(inst.name))
        for text, names in concerned.items():
            shown = JoinFirst(NiceSort(names), _NAMES_SHOWN)
            self._report.Notice(f"Hypervisor parameters of {Counted(len(names), 'instance')} ({shown}): {text}")

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
