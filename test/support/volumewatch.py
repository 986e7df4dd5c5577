"""The real watcher of volume groups beside a real master over simulated nodes with the programs of LVM and DRBD.

``Jobs`` stands for LUXI: it answers queries by the master's own code, and executes jobs one after the other when it is told
to (``Work``), those that only look at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, opcodes, query, runtime, storage
from ganeti.jqueue import depends
from ganeti.jqueue import job as jobmodel
from ganeti.master import querydata
from ganeti.query.context import Context
from ganeti.query.engine import Plan
from ganeti.watcher import group, main, rows, state, volumerepair
from support import configs, drivers
from support.creation import OnDisks
from support.master import Master
from support.standindrbd import Links, StandInDrbd

WEB, DB = "web.example.org", "db.example.org"
VG = "xenvg"
PERMIT = "ganeti:watcher:autorepair:fix-storage"
MINUTE = 60.0
_LOOKING = ("OP_NODE_QUERY_STORAGE", "OP_NODE_QUERYVOLS", "OP_INSTANCE_QUERY_DATA")


class Jobs:
    """A LUXI client whose master is in the same process."""

    def __init__(self, master: Master):
        self._master = master
        self.jobs: dict[int, jobmodel.Job] = {}
        self.locks: list[list[Any]] = []
        # A status in which looks stay, as jobs that get no locks.
        self.stuck = ""

    def Query(self, kind: str, fields: Sequence[str], qfilter: Any = None) -> dict[str, Any]:
        if kind not in ("job", "lock"):
            return dict(self._master.context.query.QueryNow(kind, fields, qfilter))
        context = Context(self._master.snapshot, jobs=lambda ids, _archived: self._Views(ids))
        context.locks = self.locks
        return Plan(query.GetKind(kind), list(fields), qfilter, context).Result()

    def _Views(self, ids: Any) -> list[jobmodel.View]:
        chosen = ids or self.jobs
        return [jobmodel.View(number, self.jobs.get(number), []) for number in chosen]

    def QueryClusterInfo(self) -> dict[str, Any]:
        return querydata.ClusterInfo(self._master.snapshot)

    def QueryTags(self, kind: str, name: str) -> list[str]:
        root = self._master.snapshot
        found = root.cluster if kind == constants.TAG_CLUSTER else root.ExpandName(kind, name)
        return sorted(found.tags)

    def QueryJobs(self, ids: Sequence[int], fields: Sequence[str]) -> list[list[Any]]:
        return [[view.FieldValue(name) for name in fields] for view in self._Views(ids)]

    def SubmitJob(self, ops: Sequence[opcodes.OpCode]) -> int:
        [[accepted, job_id]] = self.SubmitManyJobs([ops])
        assert accepted
        if ops[0].OP_ID in _LOOKING and not self.stuck:
            self._Execute(job_id)
        return int(job_id)

    def SubmitManyJobs(self, jobs: Sequence[Sequence[opcodes.OpCode]]) -> list[list[Any]]:
        answers: list[list[Any]] = []
        for ops in jobs:
            job_id = len(self.jobs) + 1
            for op in ops:
                op.depends = depends.Resolve(op.depends, job_id, set())
            states = [jobmodel.OpState(jobmodel.OpInput(op.ToDict(), op.Summary()), priority=op.priority) for op in ops]
            self.jobs[job_id] = jobmodel.Job(job_id, states, jobmodel.Now())
            answers.append([True, job_id])
        return answers

    def WaitForJobChangeOnce(self, job_id: int, *_more: Any) -> Any:
        status = self.Status(job_id)
        if status not in constants.JOBS_FINALIZED:
            runtime.Sleep(_more[-1])
            return "nochange"
        return [[status], []]

    def CancelJob(self, job_id: int, kill: bool = False) -> list[Any]:
        if self.Status(job_id) != "queued":
            return [False, "it runs"]
        self._End(job_id, "canceled", [None])
        return [True, "canceled"]

    def ArchiveJob(self, job_id: int) -> bool:
        return True

    # --- the queue ----------------------------------------------------------------------------------------------------

    def Status(self, job_id: int) -> str:
        return str(self.jobs[job_id].status)

    def Of(self, op_id: str) -> list[int]:
        return [number for number, job in self.jobs.items() if job.ops[0].input.data["OP_ID"] == op_id]

    def Op(self, job_id: int) -> dict[str, Any]:
        return dict(self.jobs[job_id].ops[0].input.data)

    def Result(self, job_id: int) -> Any:
        return self.jobs[job_id].ops[0].result

    def Work(self) -> None:
        """Execute all jobs that wait."""
        for job_id in sorted(self.jobs):
            if self.Status(job_id) == "queued":
                self._Execute(job_id)

    def _Execute(self, job_id: int) -> None:
        job = self.jobs[job_id]
        verdict, text = depends.Check(job, 0, lambda number: self.Status(number))
        if verdict != depends.GO_ON:
            self._End(job_id, "canceled" if verdict == depends.CANCEL else "error", [text])
            return
        results: list[Any] = []
        status = "success"
        for op in job.ops:
            parsed = opcodes.OpCode.FromDict(op.input.data)
            try:
                results.append(self._master.Run(parsed))
            except errors.GenericError as err:
                status = "error"
                results.append(errors.EncodeException(err))
                break
        self._End(job_id, status, results)

    def _End(self, job_id: int, status: str, results: list[Any]) -> None:
        job = self.jobs[job_id]
        padded = [*results, *([None] * (len(job.ops) - len(results)))]
        states = [
            jobmodel.OpState(op.input, status=status, result=result, priority=op.priority, end=jobmodel.Now())
            for op, result in zip(job.ops, padded, strict=True)
        ]
        self.jobs[job_id] = jobmodel.Job(job_id, states, job.received, job.received, jobmodel.Now())


class Cluster:
    """Three nodes, each with a volume group of two disks; WEB is mirrored from the first to the second, DB from the third to it.

    ``Look`` is what one run of the watcher does about volume groups.
    """

    def __init__(self, master: Master, permitted: bool = True):
        storage.UseDrivers({name: driver for name, driver in drivers.ON_LVM.items() if name != constants.DT_DRBD8})
        self.master = master
        self.links = Links()
        self.mirrors = [StandInDrbd(node.machine, self.links, node.lvm) for node in master.all]
        self.jobs = Jobs(master)
        self.options = ["--repair-volume-groups"]
        for name, primary in ((WEB, "node1"), (DB, "node3")):
            master.Run(
                OnDisks(name, {"size": 1024}, pnode=primary, snode="node2", disk_template="drbd", start=True,
                        tags=[PERMIT] if permitted else [])
            )  # fmt: skip

    def Look(self, work: bool = True) -> None:
        """Make a run of the watcher; then carry out what it submitted."""
        file = state.File(configs.GROUP)
        try:
            options, _ = main.Parser().parse_args(["--ignore-pause", *self.options])
            visit = group.Visit.__new__(group.Visit)
            visit.uuid, visit.name = configs.GROUP, "default"
            visit.nodes = rows.Nodes(
                self.jobs.Query("node", rows.NODE_FIELDS, ["=", "group.uuid", configs.GROUP])["data"]
            )
            volumerepair.Run(self.jobs, visit, file, options)  # type: ignore[arg-type]
        finally:
            file.Close()
        if work:
            self.jobs.Work()

    def Watch(self, minutes: float, every: float = 5) -> None:
        """Have the watcher run every five minutes for so long; a rare run does for a time in which nothing is to change."""
        end = runtime.Time() + minutes * MINUTE
        while runtime.Time() < end:
            runtime.Sleep(every * MINUTE)
            self.Look()

    def States(self) -> dict[str, str]:
        file = state.File(configs.GROUP)
        try:
            volumes = file.Read().volumes
        finally:
            file.Close()
        return {node: known.groups[VG].state for node, known in volumes.items() if VG in known.groups}

    def Disk(self, node: int, missing: bool, name: str = "/dev/sda") -> None:
        """A disk goes away or comes back; one that was given up stays forgotten."""
        pv = self.master[node].lvm.pvs.get(name)
        if pv is not None:
            pv.missing = missing

    def Change(self, node: int) -> None:
        """Have somebody change the volume group while a disk is away, so that LVM keeps that it was."""
        for argv in ("lvcreate -Wn -L4m -nscratch -i1 xenvg /dev/sdb", "lvremove -f xenvg/scratch"):
            self.master[node].Call(runtime.RunCmd, argv.split())
