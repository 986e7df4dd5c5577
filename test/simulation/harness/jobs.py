"""The job queue on simulated masters: clients that submit, follow and cancel; what must hold of jobs whatever happens.

The invariants are Q1 to Q9 of doc/reference/locking.md 14.4, across masters: no accepted job is lost, no opcode is executed twice,
what a client was told stays true.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simulated import World
from simulation.harness.cluster import Cluster, Node, Parts, Workload
from simulation.harness.faults import FAULTS
from simulation.harness.ledger import Violation
from simulation.harness.play import Judged, Length, Result, Work
from simulation.harness.run import Heal, Settle

from ganeti import constants, errors, runtime, serializer
from ganeti.jqueue import JobQueue
from ganeti.jqueue import job as jobs
from ganeti.store import Member, Row, Store, StoreError

JOBS_PER_RUN = 12
MAX_STEPS = 400_000
WORKERS = 3
_LENGTH = Length(steps_with_faults=6000, seconds=120.0, max_steps=MAX_STEPS)
FINAL = constants.JOBS_FINALIZED


def Fail(text: str) -> None:
    raise Violation(text)


@dataclass
class Told:
    """What clients know for sure."""

    # job id -> tags of its opcodes
    accepted: dict[int, list[str]] = field(default_factory=dict)
    canceled: set[int] = field(default_factory=set)
    # job id -> dependencies as they were wanted, absolute
    depends: dict[int, list[Any]] = field(default_factory=dict)
    final: dict[int, str] = field(default_factory=dict)
    logs: dict[int, list[Any]] = field(default_factory=dict)


class JobLedger:
    """Every acknowledged version of every job, and every execution."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self.told = Told()
        self.rows: dict[int, dict[str, Any]] = {}
        # Everything up to here is in the rows that the newest master began with.
        self._adopted = 0
        self._epoch: Any = None
        # tag of an opcode -> how often it was executed
        self.executed: dict[str, int] = {}
        # (master process, job id) being executed now
        self.running: set[tuple[Any, int]] = set()

    def Check(self, right: bool, text: str) -> None:
        if not right:
            self._cluster.Check(Fail, text)

    def Acknowledged(self, seq: int, rows: Sequence[Row]) -> None:
        """A master shows these rows; one that was paused may do so after another has gone on from them."""
        for row in rows:
            if row.kind == "job" and row.value is not None and seq > self._adopted:
                self._CheckVersion(int(row.id), serializer.Load(row.value))  # Q3: complete JSON

    def Adopted(self, epoch: Any, seq: int, rows: dict[str, str]) -> None:
        """A master begins with these jobs: all that was acknowledged, and perhaps more that nobody had heard of."""
        if self._epoch is not None and epoch < self._epoch:
            return  # it was paused and does not know yet that there is a newer one
        self._epoch = epoch
        self._adopted = seq
        for job_id in self.rows:
            self.Check(str(job_id) in rows, f"job {job_id} was acknowledged and is lost")
        for row_id, value in rows.items():
            new = serializer.Load(value)
            if self.rows.get(int(row_id)) != new:
                self._CheckVersion(int(row_id), new)

    def _CheckVersion(self, job_id: int, new: dict[str, Any]) -> None:
        jobs.ReadJob(serializer.Dump(new))
        statuses = [op["status"] for op in new["ops"]]
        status = jobs.JobStatus(statuses)
        rest = list(statuses)
        while rest and rest[0] == "success":
            rest.pop(0)
        shape = len(set(rest)) <= 1 or (rest[0] in ("waiting", "running") and set(rest[1:]) == {"queued"})
        self.Check(shape, f"Q2: job {job_id} has the statuses {statuses}")
        self.Check((new["end_timestamp"] is not None) == (status in FINAL), f"Q4: job {job_id} {status} {new}")
        serials = [entry[0] for op in new["ops"] for entry in op["log"]]
        self.Check(serials == sorted(set(serials)), f"Q3: job {job_id} has the log serials {serials}")
        old = self.rows.get(job_id)
        self.rows[job_id] = new
        if old is None:
            return
        for before, after in zip(old["ops"], new["ops"], strict=True):
            self.Check(
                before["status"] not in FINAL or before["status"] == after["status"],
                f"Q4: an opcode of job {job_id} went from {before['status']} to {after['status']}",
            )
            self.Check(
                before["status"] != "running" or after["status"] not in ("queued", "canceled"),
                f"job {job_id}: a running opcode became {after['status']}",
            )
            self.Check(after["log"][: len(before["log"])] == before["log"], f"Q3: the log of job {job_id} shrank")
        self.Check(
            jobs.JobStatus(op["status"] for op in old["ops"]) not in FINAL or old == new,
            f"Q4: job {job_id} was written after its end",
        )

    def IsQuiet(self) -> bool:
        """Has every job that was ever acknowledged come to its end?"""
        return all(jobs.JobStatus(op["status"] for op in row["ops"]) in FINAL for row in self.rows.values())

    def CheckEnd(self) -> None:
        """After healing and quiet."""
        for job_id, tags in self.told.accepted.items():
            found = self.rows.get(job_id)
            if found is None:
                raise Violation(f"accepted job {job_id} is nowhere")
            if [op["input"]["comment"] for op in found["ops"]] != tags:
                raise Violation(f"job {job_id} is another one than that which was accepted")
            status = jobs.JobStatus(op["status"] for op in found["ops"])
            if status not in FINAL:
                raise Violation(f"Q5: job {job_id} never ended: {found}")
            if job_id in self.told.canceled and status != "canceled":
                raise Violation(f"Q8: job {job_id} was canceled for its client and is {status}")
            if self.told.final.get(job_id, status) != status:
                raise Violation(f"Q7: a client saw job {job_id} end as {self.told.final[job_id]}, it is {status}")
            self._CheckDepends(job_id, found, status)
            for op in found["ops"]:
                self._CheckOp(job_id, op)

    def _CheckDepends(self, job_id: int, found: dict[str, Any], status: str) -> None:
        wanted = self.told.depends.get(job_id, [])
        stored = found["ops"][0]["input"]["depends"] or []
        if stored != wanted:
            raise Violation(f"Q9: job {job_id} depends on {stored}, wanted was {wanted}")
        for other, accepted in wanted:
            ended = jobs.JobStatus(op["status"] for op in self.rows[other]["ops"])
            if ended == "canceled" and "canceled" not in accepted and status not in ("canceled", "error"):
                raise Violation(f"Q5: job {job_id} is {status} though job {other} was canceled")
            if accepted and ended not in accepted and status == "success":
                raise Violation(f"job {job_id} succeeded though job {other} ended as {ended}, not {accepted}")

    def _CheckOp(self, job_id: int, op: dict[str, Any]) -> None:
        tag = op["input"]["comment"]
        times = self.executed.get(tag, 0)
        if op["status"] == "success" and times != 1:
            raise Violation(f"Q6: {tag} of job {job_id} succeeded and was executed {times} times")
        if op["status"] == "canceled" and times:
            raise Violation(f"Q8: {tag} of job {job_id} is canceled and was executed")


class Executor:
    """What the processor does, seen from the queue: waits for locks, tells that it begins, works, tells things."""

    def __init__(self, ledger: JobLedger, rng: random.Random, process: Any):
        self._ledger = ledger
        self._rng = rng
        self._process = process

    def __call__(self, op: Any, ec_id: int, cbs: Any, timeout: float | None, priority: int) -> Any:
        del priority
        rng = self._rng
        cbs.CurrentPriority()
        if rng.random() < 0.3:
            wait = rng.uniform(0.0, 3.0)
            runtime.Sleep(wait if timeout is None else min(wait, timeout))
            if timeout is not None and wait >= timeout:
                raise errors.LockAcquireTimeout("locks are held by others")
            cbs.CurrentPriority()
        cbs.NotifyStart()
        key = (self._process, ec_id)
        self._ledger.Check(key not in self._ledger.running, f"Q1: two workers execute job {ec_id}")
        executed = self._ledger.executed
        executed[op.comment] = executed.get(op.comment, 0) + 1
        self._ledger.Check(executed[op.comment] == 1, f"Q6: {op.comment} of job {ec_id} is executed again")
        self._ledger.running.add(key)
        try:
            for number in range(rng.choice((0, 0, 1, 5))):
                cbs.Feedback(constants.ELOG_MESSAGE, f"{op.comment} {number}")
                runtime.Sleep(rng.uniform(0.0, 0.4))
            runtime.Sleep(rng.choice((0.0, 0.0, 0.3, 2.0)))
            if rng.random() < 0.1:
                raise errors.OpExecError("no luck")
            return op.comment
        finally:
            self._ledger.running.discard(key)


class JobClients(Workload):
    """Clients at whoever is master."""

    def __init__(self, rng: random.Random, count: int, queue_class: type[JobQueue] = JobQueue, clients: int = 3):
        self._rng = rng
        self._left = count
        self._clients = clients
        self._queue_class = queue_class
        self._tag = 0
        self.ledger: Any = None
        self.voter_changes = 0.0

    def SetMembers(self, members: list[Member], candidates: list[Member]) -> None:
        """The voters stay as they are."""

    def IsDone(self) -> bool:
        return self._left <= 0

    def Stop(self) -> None:
        self._left = 0

    def IsIdle(self) -> bool:
        return self.ledger.IsQuiet()

    def Serve(self, node: Node, store: Store, ended: Any) -> None:
        ledger: JobLedger = self.ledger
        ledger.Adopted(store.Epoch(), store.Acknowledged().seq, store.Rows("job"))
        store.Listen(lambda position, rows: ledger.Acknowledged(position.seq, rows))
        queue = self._MakeQueue(store, Executor(ledger, self._rng, node.masterd))
        try:
            queue.Start()
        except StoreError as err:
            node.cluster.Note(f"{node.name}: masterd cannot start: {err}")
            store.Stop(1.0)
            ended.set()
            return

        def stop() -> None:
            ended.wait()
            queue.Stop()

        runtime.Thread(stop, "stop").start()
        for number in range(self._clients):
            runtime.Thread(self._Client, f"client-{number}", (node, queue, ended)).start()
        self._AlsoServe(queue, ended)

    def _AlsoServe(self, queue: JobQueue, ended: Any) -> None:
        """Begin what else a master does once its queue works."""

    def _MakeQueue(self, store: Store, executor: Executor) -> JobQueue:
        return self._queue_class(store, executor, lambda: (WORKERS, {}))

    def _Client(self, node: Node, queue: JobQueue, ended: Any) -> None:
        rng = self._rng
        while self._left > 0 and not ended.is_set():
            self._left -= 1
            try:
                ids = self._Submit(queue)
                if ids and rng.random() < 0.25:
                    runtime.Sleep(rng.uniform(0.0, 1.0))
                    self._Cancel(queue, rng.choice(ids))
                elif ids and rng.random() < 0.2:
                    queue.ChangePriority(rng.choice(ids), rng.choice((-10, 0, 10))).Result(200)
                for job_id in ids:
                    if rng.random() < 0.6:
                        self._Follow(queue, job_id)
            except (errors.GenericError, TimeoutError) as err:
                node.cluster.Note(f"a client hears: {type(err).__name__} {err}")
                runtime.Sleep(rng.uniform(0.2, 2.0))

    def _Op(self, depends: list[Any] | None) -> tuple[str, dict[str, Any]]:
        self._tag += 1
        tag = f"op-{self._tag}"
        op = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "comment": tag, "depends": depends, "reason": []}
        return tag, op

    def _Submit(self, queue: JobQueue) -> list[int]:
        rng, told = self._rng, self.ledger.told
        submitted, tags, wishes = [], [], []
        for index in range(rng.choice((1, 1, 1, 3))):
            wish = None
            if index and rng.random() < 0.5:
                accepted = rng.choice(([], ["success"], ["success", "error", "canceled"]))
                wish = [[-rng.randint(1, index), accepted]]
            elif told.accepted and rng.random() < 0.2:
                wish = [[rng.choice(sorted(told.accepted)), rng.choice(([], ["success"]))]]
            made = [self._Op(wish if n == 0 else None) for n in range(rng.choice((1, 1, 2, 3)))]
            submitted.append([op for _, op in made])
            tags.append([tag for tag, _ in made])
            wishes.append(wish)
        if len(submitted) == 1 and rng.random() < 0.5:
            answer = [[True, queue.SubmitJob(submitted[0]).Result(200)]]
        else:
            answer = queue.SubmitManyJobs(submitted).Result(200)
        ids = []
        for (done, job_id), own_tags, wish in zip(answer, tags, wishes, strict=True):
            self.ledger.Check(done, f"a good job was refused: {job_id}")
            self.ledger.Check(job_id not in told.accepted, f"job id {job_id} was given twice")
            told.accepted[job_id] = own_tags
            told.depends[job_id] = [[n if n > 0 else job_id + n, accepted] for n, accepted in wish or []]
            ids.append(job_id)
        return ids

    def _Cancel(self, queue: JobQueue, job_id: int) -> None:
        done, _text = queue.CancelJob(job_id).Result(200)
        if done:
            self.ledger.told.canceled.add(job_id)

    def _Follow(self, queue: JobQueue, job_id: int) -> None:
        """Q7: as the command line does it."""
        info: Any = None
        serial: int | None = None
        log: list[Any] = []
        while True:
            before = runtime.Monotonic()
            values, entries = queue.Wait(job_id, ["status"], info, serial, 20.0).Result(60)
            self.ledger.Check(runtime.Monotonic() - before < 50.0, "Q7: the answer came too late")
            log += entries
            info = values
            serial = max([e[0] for e in entries], default=serial)
            if values[0] in FINAL and not entries:
                break
            if not entries and values[0] not in FINAL and runtime.Monotonic() - before > 19.0:
                return  # long enough
        self.ledger.told.final[job_id] = values[0]
        whole = [e for op in queue.QueryJobs([job_id], ["oplog"])[0][0] for e in op]
        self.ledger.Check(log == whole, f"Q7: the log of job {job_id} is {whole}, a client saw {log}")


@dataclass
class JobsResult(Result):
    executed: int = 0


def RunJobs(
    seed: int, queue_class: type[JobQueue] = JobQueue, faults: int = 3, count: int = JOBS_PER_RUN
) -> JobsResult:
    """One seed; never raises for what goes wrong inside."""
    result = JobsResult(seed)
    with World(seed) as world:
        rng = random.Random(f"jobs {seed}")
        nodes = rng.choice((1, 2, 3, 3))
        workload = JobClients(rng, count, queue_class)
        cluster = Cluster(world, nodes, nodes, workload, Parts)
        workload.ledger = ledger = JobLedger(cluster)
        with Judged(cluster, result):
            cluster.Found()
            cluster.Supervise()
            Work(cluster, rng, FAULTS, faults, _LENGTH, result)
            Heal(cluster)
            _Finish(world, cluster, ledger)
            Settle(cluster)
            ledger.CheckEnd()
        result.executed = len(ledger.executed)
        for found in ledger.rows.values():
            result.Count(jobs.JobStatus(op["status"] for op in found["ops"]))
    return result


def _Finish(world: World, cluster: Cluster, ledger: JobLedger) -> None:
    """A master must bring all jobs to their ends without anybody's help."""
    deadline = world.elapsed + 300.0

    def over() -> bool:
        return cluster.violation is not None or world.elapsed > deadline

    world.Run(
        until=lambda: (ledger.IsQuiet() and set(ledger.told.accepted) <= set(ledger.rows)) or over(),
        max_steps=MAX_STEPS,
    )
