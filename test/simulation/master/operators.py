"""People and programs at the master's socket: they submit, follow, cancel, archive, change rules, and note what they are told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulation.harness.cluster import Workload
from simulation.harness.jobs import FINAL
from simulation.master.machines import CertificateOf

from ganeti import errors, runtime
from ganeti.luxi import client as luxi_client

if TYPE_CHECKING:
    from simulation.master.cluster import MasterCluster
    from simulation.master.machines import MasterNode

    from ganeti import objects

FOLLOWED = 60.0
_WAIT = 15.0
# Words of an error after which nothing may have happened.
_REFUSALS = ("nothing was changed", "Job queue is drained")
# A rule that speaks of no job there is.
_PREDICATES = [["jobid", [">", "id", 10**9]]]

_ALL_JOBS = [["jobid", [">", "id", 0]]]

OpCode = dict[str, Any]


class Told:
    """What people were told about the configuration, for sure."""

    def __init__(self) -> None:
        # tag -> (kind, name, comment of the opcode that sets it)
        self.tags: dict[str, tuple[str, str, str]] = {}
        # Tags that somebody tried to take away, rules that somebody tried to delete.
        self.tags_gone: set[str] = set()
        self.rules: set[str] = set()
        self.rules_gone: set[str] = set()


class Operators(Workload):
    """Some clients at whoever is master, until ``acts`` things have been asked for."""

    def __init__(self, rng: random.Random, acts: int, clients: int = 3):
        self._rng = rng
        self._left = acts
        self._clients = clients
        self._number = 0
        self._working = 0
        self.told = Told()
        self.pause = (0.0, 1.0)
        # Chance that an opcode changes a node's role, and so perhaps the voters.
        self.voter_changes = 0.0
        self.cluster: MasterCluster | None = None

    def Handlers(self, node: Any) -> dict[str, Callable[..., Any]]:
        return {"node_crypto_tokens": lambda request: [[kind, CertificateOf(node.name)] for kind, _, _ in request]}

    def IsDone(self) -> bool:
        return self._left <= 0 and not self._working

    def Stop(self) -> None:
        self._left = 0

    def IsIdle(self) -> bool:
        assert self.cluster is not None
        return self.cluster.jobs.IsQuiet()

    def Serving(self, node: MasterNode) -> None:
        """A master serves on this node: clients come."""
        masterd = node.masterd
        for number in range(self._clients):
            node.machine.StartProcess(lambda: self._Client(node, masterd), f"client-{number}")

    # --- one client ---------------------------------------------------------------------------------------------------

    def _Client(self, node: MasterNode, masterd: Any) -> None:
        assert self.cluster is not None
        acts = (self._Jobs,) * 8 + (self._Rules, self._Archive, self._Drain, self._Pause)
        while self._left > 0 and masterd.alive:
            self._left -= 1
            self._working += 1
            try:
                with luxi_client.Client(connect_timeout=1, io_timeout=100, retry_delays=()) as client:
                    self._rng.choice(acts)(client)
            except (errors.GenericError, TimeoutError, OSError) as err:
                self.cluster.Note(f"a client on {node.name} hears: {type(err).__name__} {err}")
            finally:
                self._working -= 1
            runtime.Sleep(self._rng.uniform(*self.pause))

    def _Jobs(self, client: luxi_client.Client) -> None:
        rng = self._rng
        ids = self._Submit(client)
        if ids and rng.random() < 0.2:
            runtime.Sleep(rng.uniform(0.0, 1.0))
            self._Cancel(client, rng.choice(ids))
        elif ids and rng.random() < 0.1:
            client.ChangeJobPriority(rng.choice(ids), rng.choice((-10, 0, 10)))
        for job_id in ids:
            if rng.random() < 0.6:
                self.Follow(client, job_id)

    def _Submit(self, client: luxi_client.Client) -> list[int]:
        rng = self._rng
        jobs, wishes = [], []
        for index in range(rng.choice((1, 1, 1, 3))):
            wish = self._Dependency(index)
            jobs.append([self._OpCode(wish if number == 0 else None) for number in range(rng.choice((1, 1, 2, 3)))])
            wishes.append(wish)
        return self.SubmitJobs(client, jobs, wishes)

    def SubmitJobs(self, client: luxi_client.Client, jobs: list[list[OpCode]], wishes: list[Any]) -> list[int]:
        """Submits, and notes what became of it; the ids of the accepted jobs."""
        assert self.cluster is not None
        book = self.cluster.jobs
        tags = [[op["comment"] for op in ops] for ops in jobs]
        try:
            if len(jobs) == 1 and self._rng.random() < 0.5:
                answer = [[True, client.SubmitJob(jobs[0])]]
            else:
                answer = client.SubmitManyJobs(jobs)
        except errors.GenericError as err:
            if any(words in str(err) for words in _REFUSALS):
                book.refused.update(tag for own in tags for tag in own)
            raise
        ids = []
        for (done, job_id), own, wish in zip(answer, tags, wishes, strict=True):
            book.Check(done, f"a good job was refused: {job_id}")
            book.Check(job_id not in book.told.accepted, f"job id {job_id} was given twice")
            book.told.accepted[job_id] = own
            book.told.depends[job_id] = [[n if n > 0 else job_id + n, accepted] for n, accepted in wish or []]
            ids.append(job_id)
        return ids

    def _Dependency(self, index: int) -> list[Any] | None:
        rng = self._rng
        assert self.cluster is not None
        accepted = self.cluster.jobs.told.accepted
        if index and rng.random() < 0.5:
            return [[-rng.randint(1, index), rng.choice(([], ["success"], ["success", "error", "canceled"]))]]
        if accepted and rng.random() < 0.2:
            return [[rng.choice(sorted(accepted)), rng.choice(([], ["success"]))]]
        return None

    def _Cancel(self, client: luxi_client.Client, job_id: int) -> None:
        assert self.cluster is not None
        done, _text = client.CancelJob(job_id)
        if done:
            self.cluster.jobs.told.canceled.add(job_id)

    def Follow(self, client: luxi_client.Client, job_id: int) -> str | None:
        """Q7: as the command line does it.  The final status, None if it took too long."""
        assert self.cluster is not None
        book = self.cluster.jobs
        info: Any = None
        serial: int | None = None
        log: list[Any] = []
        deadline = runtime.Monotonic() + FOLLOWED
        while True:
            before = runtime.Monotonic()
            values, entries = client.WaitForJobChangeOnce(job_id, ["status"], info, serial, _WAIT)
            book.Check(runtime.Monotonic() - before < 50.0, "Q7: the answer came too late")
            log += entries
            info = values
            serial = max([entry[0] for entry in entries], default=serial)
            if values[0] in FINAL and not entries:
                break
            if runtime.Monotonic() > deadline:
                return None
        book.told.final[job_id] = values[0]
        [[logs]] = client.QueryJobs([job_id], ["oplog"])
        if logs is not None:
            whole = sorted((entry for op in logs for entry in op), key=lambda entry: entry[0])
            book.Check(log == whole, f"Q7: the log of job {job_id} is {whole}, a client saw {log}")
        return str(values[0])

    def Ask(self, jobs: list[list[OpCode]]) -> None:
        """Have somebody submit these jobs, one after the other, to whoever serves; nobody follows them."""
        assert self.cluster is not None

        def work() -> None:
            try:
                with luxi_client.Client(connect_timeout=1, io_timeout=100, retry_delays=()) as client:
                    for ops in jobs:
                        self.SubmitJobs(client, [ops], [None])
            except (errors.GenericError, TimeoutError, OSError):
                pass  # told that it was refused, or nothing

        for node in self.cluster.Serving():
            node.machine.StartProcess(work, "asker")

    def AskNow(self, cluster: Any) -> None:
        del cluster
        self.Ask([[self.TagOp(None)]])

    def ReplaceVoter(self, cluster: Any) -> str:
        serving = cluster.Serving()
        others = [node.name for node in cluster.nodes if node not in serving]
        if len(serving) != 1 or not others:
            return ""
        name = self._rng.choice(others)
        self.Ask([[self.RoleOp(name, master_candidate=flag)] for flag in (False, True)])
        return name

    # --- opcodes ------------------------------------------------------------------------------------------------------

    def NewOp(self, op_id: str, depends: list[Any] | None = None, **values: Any) -> OpCode:
        self._number += 1
        return {"OP_ID": op_id, "comment": f"op-{self._number}", "depends": depends, "reason": [], **values}

    def _OpCode(self, depends: list[Any] | None) -> OpCode:
        assert self.cluster is not None
        kind = self._rng.random()
        if kind < self.voter_changes:
            return self._NodeOp(depends)
        makers = (self.DelayOp, self.DelayOp, self.TagOp, self.TagOp, self._UntagOp, self._InstanceOp)
        return self._rng.choice(makers)(depends)

    def _Names(self) -> list[str]:
        assert self.cluster is not None
        return [node.name for node in self.cluster.nodes]

    def DelayOp(self, depends: list[Any] | None = None, nodes: list[str] | None = None) -> OpCode:
        """Its duration is no other's, so that nodes know whose it is."""
        rng = self._rng
        if nodes is None:
            nodes = rng.sample(self._Names(), rng.randint(0, 2) % (len(self._Names()) + 1))
        duration = rng.choice((0.0, 0.0, 0.2, 1.5)) + (self._number + 1) * 1e-6
        return self.NewOp(
            "OP_TEST_DELAY",
            depends,
            duration=duration,
            on_nodes=nodes,
            on_master=rng.random() < 0.5,
            repeat=rng.choice((0, 0, 2)),
        )

    def TagOp(self, depends: list[Any] | None) -> OpCode:
        kind, name = self._rng.choice(
            [("cluster", None), ("nodegroup", "default"), ("instance", "inst0.example.com"), ("node", self._Names()[0])]
        )
        tag = f"tag-{self._number + 1}"
        op = self.NewOp("OP_TAGS_SET", depends, kind=kind, name=name, tags=[tag])
        self.told.tags[tag] = (kind, name or "", op["comment"])
        return op

    def _UntagOp(self, depends: list[Any] | None) -> OpCode:
        there = sorted(set(self.told.tags) - self.told.tags_gone)
        if not there:
            return self.TagOp(depends)
        tag = self._rng.choice(there)
        self.told.tags_gone.add(tag)
        kind, name, _ = self.told.tags[tag]
        return self.NewOp("OP_TAGS_DEL", depends, kind=kind, name=name or None, tags=[tag])

    def _InstanceOp(self, depends: list[Any] | None) -> OpCode:
        name = f"inst{self._rng.randrange(2)}.example.com"
        op_id = self._rng.choice(("OP_INSTANCE_STARTUP", "OP_INSTANCE_SHUTDOWN", "OP_INSTANCE_REBOOT"))
        more = {"reboot_type": "hard"} if op_id == "OP_INSTANCE_REBOOT" else {}
        return self.NewOp(op_id, depends, instance_name=name, **more)

    def _NodeOp(self, depends: list[Any] | None) -> OpCode:
        flag = self._rng.choice(("master_candidate", "master_candidate", "offline", "drained"))
        return self.RoleOp(self._rng.choice(self._Names()), depends, **{flag: self._rng.random() < 0.5})

    def RoleOp(self, name: str, depends: list[Any] | None = None, **flags: bool) -> OpCode:
        """A node gets another role."""
        promote = self._rng.random() < 0.5
        return self.NewOp("OP_NODE_SET_PARAMS", depends, node_name=name, auto_promote=promote, force=True, **flags)

    # --- other acts ---------------------------------------------------------------------------------------------------

    def _Rules(self, client: luxi_client.Client) -> None:
        """Filter rules: changes of the configuration that are no jobs."""
        there = sorted(self.told.rules - self.told.rules_gone)
        if there and self._rng.random() < 0.4:
            rule = self._rng.choice(there)
            self.told.rules_gone.add(rule)
            client.DeleteFilter(rule)
        elif self._rng.random() < 0.5:
            self.told.rules.add(client.ReplaceFilter(None, 5, _PREDICATES, "ACCEPT", []))
        else:
            limit = ["RATE_LIMIT", self._rng.randint(1, 3)]
            self.told.rules.add(client.ReplaceFilter(None, 5, _ALL_JOBS, limit, []))

    def _Archive(self, client: luxi_client.Client) -> None:
        assert self.cluster is not None
        ended = sorted(self.cluster.jobs.told.final)
        if ended and self._rng.random() < 0.6:
            client.ArchiveJob(self._rng.choice(ended))
        else:
            client.AutoArchiveJobs(self._rng.choice((-1, 5)))

    def _Drain(self, client: luxi_client.Client) -> None:
        client.SetDrainFlag(True)
        runtime.Sleep(self._rng.uniform(0.0, 0.5))
        client.SetDrainFlag(False)

    def _Pause(self, client: luxi_client.Client) -> None:
        client.SetWatcherPause(runtime.Time() + 1000.0 if self._rng.random() < 0.7 else None)

    # --- at the end ---------------------------------------------------------------------------------------------------

    def LastWord(self, node: MasterNode) -> Any:
        """A client that wants one more job done on all nodes; the process, whose result is the job's status."""

        def work() -> str | None:
            try:
                with luxi_client.Client(connect_timeout=1, io_timeout=100, retry_delays=()) as client:
                    client.SetDrainFlag(False)
                    [job_id] = self.SubmitJobs(client, [[self.DelayOp(None, [])]], [None])
                    return self.Follow(client, job_id)
            except (errors.GenericError, TimeoutError, OSError) as err:
                return f"{type(err).__name__} {err}"

        return node.machine.StartProcess(work, "last-word")

    def CheckConfiguration(self, snapshot: objects.Snapshot) -> list[str]:
        """What is missing in the configuration of that which people were told."""
        assert self.cluster is not None
        problems = []
        done = {
            op["input"]["comment"]: op["status"] == "success"
            for row in self.cluster.jobs.rows.values()
            for op in row["ops"]
        }
        for tag, (kind, name, comment) in self.told.tags.items():
            target: Any = snapshot.cluster if kind == "cluster" else snapshot.ExpandName(kind, name)
            if done.get(comment) and tag not in self.told.tags_gone and tag not in target.tags:
                problems.append(f"{tag} of {kind} {name}, set by {comment}, is missing")
        problems += [
            f"filter rule {rule} is missing" for rule in self.told.rules - self.told.rules_gone - set(snapshot.filters)
        ]
        return problems
