"""A master for tests of the command line: real LUXI, real queries on a small configuration, jobs that end as told.

Jobs are not executed: each submitted opcode is kept in ``submitted`` and ends with the result, log and error that the test
set for its OP_ID.  Time stands still at START, so that outputs can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, opcodes, query
from ganeti.jqueue import job as jobmodel
from ganeti.luxi import server as luxi_server
from ganeti.luxi.pending import Pending
from ganeti.master import querydata
from ganeti.query.context import Context
from ganeti.query.engine import Plan
from support import configs

START = 1_700_000_000
_MIB_NODE = {"memory_total": 16384, "memory_free": 12000, "memory_dom0": 700, "cpu_total": 8, "cpu_nodes": 1,
             "cpu_sockets": 1, "cpu_dom0": 8}  # fmt: skip


class FakeMaster:
    """Answers LUXI calls at ``path``."""

    def __init__(self, path: str):
        self.snapshot = configs.Example()
        self.submitted: list[list[dict[str, Any]]] = []
        self.calls: list[list[Any]] = []
        self.results: dict[str, list[Any]] = {}
        self.failures: dict[str, Any] = {}
        self.logs: dict[str, list[list[Any]]] = {}
        self.statuses: dict[str, str] = {}
        self.answers: dict[str, Any] = {}
        self.jobs: dict[int, jobmodel.View] = {}
        self._server = luxi_server.Server([path], self._Handle, request_threads=2)
        self._server.Start()

    def Shutdown(self) -> None:
        self._server.Shutdown(linger=0.5)

    def _Handle(self, method: str, args: list[Any]) -> Any | Pending:
        if method in self.answers:
            self.calls.append([method, *args])
            answer = self.answers[method]
            errors.MaybeRaise(answer)
            return answer
        return getattr(self, f"_{method}")(*args)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _SubmitJob(self, ops: list[dict[str, Any]]) -> int:
        parsed = [opcodes.OpCode.FromDict(op) for op in ops]
        for op in parsed:
            if op.priority not in constants.OP_PRIO_SUBMIT_VALID:
                raise errors.GenericError(f"Priority {op.priority} is not allowed")
        self.submitted.append(ops)
        job_id = 1000 + len(self.submitted)
        stamp = (START + job_id, 0)
        states = [
            jobmodel.OpState(
                jobmodel.OpInput(op),
                status=self._Status(op["OP_ID"]),
                result=self.failures.get(op["OP_ID"], self._Result(op["OP_ID"])),
                start=stamp,
                exec_=stamp,
                end=stamp,
            )
            for op in ops
        ]
        logs = [
            jobmodel.OpLog([[number, [START + number, 0], kind, text] for number, kind, text in self._Log(op["OP_ID"])])
            for op in ops
        ]
        job = jobmodel.Job(job_id, states, (START, 0), (START + 1, 500000), (START + 3, 250000))
        self.jobs[job_id] = jobmodel.View(job_id, job, logs)
        return job_id

    def _Status(self, op_id: str) -> str:
        if op_id in self.statuses:
            return self.statuses[op_id]
        return constants.JOB_STATUS_ERROR if op_id in self.failures else constants.JOB_STATUS_SUCCESS

    def _Result(self, op_id: str) -> Any:
        """The next result for this opcode; the last one stays."""
        results = self.results.get(op_id, [None])
        return results.pop(0) if len(results) > 1 else results[0]

    def _Log(self, op_id: str) -> list[tuple[int, str, Any]]:
        return [(n + 1, kind, text) for n, (kind, text) in enumerate(self.logs.get(op_id, []))]

    _SubmitJobToDrainedQueue = _SubmitJob

    def _SubmitManyJobs(self, jobs: list[list[dict[str, Any]]]) -> list[list[Any]]:
        answers: list[list[Any]] = []
        for ops in jobs:
            try:
                answers.append([True, self._SubmitJob(ops)])
            except errors.GenericError as err:
                answers.append([False, str(err)])
        return answers

    def _WaitForJobChange(
        self, job_id: int, fields: list[str], prev_info: Any, prev_serial: int | None, timeout: float
    ) -> Any:
        view = self.jobs.get(job_id)
        if view is None:
            raise errors.JobLost("Can't load job file")
        entries = [
            entry
            for log in view.logs
            for entry in log.entries
            if entry[0] > (-1 if prev_serial is None else prev_serial)
        ]
        return [[view.FieldValue(name) for name in fields], entries]

    def _QueryJobs(self, ids: list[int] | None, fields: list[str]) -> list[list[Any]]:
        views = self._Views(ids, False)
        return [[view.FieldValue(name) for name in fields] for view in views]

    def _Views(self, ids: Sequence[int] | None, _archived: bool) -> list[Any]:
        if ids is None or not list(ids):
            return [self.jobs[number] for number in sorted(self.jobs)]
        return [self.jobs.get(number) or jobmodel.View(number, None) for number in ids]

    def _CancelManyJobs(self, job_ids: list[int], kill: bool) -> list[list[Any]]:
        self.calls.append(["CancelManyJobs", job_ids, kill])
        return [
            [True, f"Job {job_id} canceled"] if job_id in self.jobs else [False, f"Job {job_id} not found"]
            for job_id in job_ids
        ]

    def _ChangeJobPriority(self, job_id: int, priority: int) -> list[Any]:
        self.calls.append(["ChangeJobPriority", job_id, priority])
        return [True, f"Priorities of pending opcodes for job {job_id} have been changed to {priority}"]

    def _ArchiveJob(self, job_id: int) -> bool:
        return self.jobs.pop(job_id, None) is not None

    def _AutoArchiveJobs(self, age: int, timeout: float) -> list[int]:
        self.calls.append(["AutoArchiveJobs", age])
        return [len(self.jobs), 0]

    # --- queries ------------------------------------------------------------------------------------------------------

    def _Context(self) -> Context:
        context = Context(self.snapshot, jobs=self._Views)
        for uuid, node in self.snapshot.nodes.items():
            if not node.offline:
                context.node_info[uuid] = ["bootid", [{"type": "lvm-vg", "name": "xenvg", "storage_free": 51200,
                                                       "storage_size": 102400}], [_MIB_NODE]]  # fmt: skip
                context.instance_info[uuid] = {
                    inst.name: {"memory": 512, "vcpus": 1, "state": 0, "time": 1.0}
                    for inst in self.snapshot.instances.values()
                    if inst.primary_node == uuid and inst.admin_state == constants.ADMINST_UP
                }
                context.exports[uuid] = ["web.example.org"]
        context.locks = [
            ["cluster/BGL", "shared", ["job1001"], []],
            ["instance/web.example.org", "exclusive", ["job1001", "job1002"], [["exclusive", ["job1003", "job1004"]]]],
            ["node/node1.example.org", None, None, []],
        ]
        return context

    def _Query(self, kind: str, fields: list[str], qfilter: Any) -> dict[str, Any]:
        return Plan(query.GetKind(kind), fields, qfilter, self._Context()).Result()

    def _QueryFields(self, kind: str, fields: list[str] | None) -> dict[str, Any]:
        return {"fields": query.GetKind(kind).Definitions(fields or None)}

    def _QueryClusterInfo(self) -> dict[str, Any]:
        info = querydata.ClusterInfo(self.snapshot)
        return {**info, "software_version": "3.1.0", "architecture": ["64bits", "x86_64"]}

    def _QueryConfigValues(self, fields: list[str]) -> list[Any]:
        cluster = self.snapshot.cluster
        master = self.snapshot.nodes[cluster.master_node].name
        values = {
            "cluster_name": cluster.cluster_name,
            "master_node": master,
            "drain_flag": False,
            "watcher_pause": None,
            "modify_ssh_setup": False,
        }
        return [values.get(name) for name in fields]

    def _QueryTags(self, kind: str, name: str | None) -> list[str]:
        owners: dict[str, Any] = {
            constants.TAG_CLUSTER: lambda: self.snapshot.cluster,
            constants.TAG_NODE: lambda: self.snapshot.NodeByName(name or ""),
            constants.TAG_INSTANCE: lambda: self.snapshot.InstanceByName(name or ""),
            constants.TAG_NODEGROUP: lambda: self.snapshot.GroupByName(name or ""),
            constants.TAG_NETWORK: lambda: self.snapshot.NetworkByName(name or ""),
        }
        found = owners[kind]()
        if found is None:
            raise errors.OpPrereqError(f"{kind.capitalize()} '{name}' not known", errors.ECODE_NOENT)
        return sorted(found.tags)

    def _Flag(self, *args: Any) -> Any:
        self.calls.append(list(args))
        return args[-1]

    def _QueryRapiTokens(self, names: list[str] | None) -> list[dict[str, Any]]:
        assert names is None
        hashed = {"sha256": "0123456789abcdef" * 4}
        return [
            {**hashed, "name": "backup", "role": "read", "tags": [], "created": 1700000000.0, "expires": 1700003600.0},
            {**hashed, "name": "web", "role": "operate", "tags": ["a", "b"], "created": 1700000000.0, "expires": None},
        ]

    def _SetDrainFlag(self, flag: bool) -> Any:
        return self._Flag("SetDrainFlag", flag) or True

    def _SetWatcherPause(self, until: float | None) -> Any:
        self.calls.append(["SetWatcherPause", until is not None])
        return until
