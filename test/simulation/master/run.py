"""One run: build a cluster, let people work while faults strike, heal, and check."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simulated import World
from simulation.harness import files
from simulation.harness.ledger import Violation
from simulation.harness.play import Judged, Length, Result, Work
from simulation.harness.run import CheckCopies, Heal
from simulation.master import plots
from simulation.master.cluster import MasterCluster
from simulation.master.faults import FAULTS
from simulation.master.operators import Operators
from simulation.master.parts import MasterParts

from ganeti import configfile, objects, runtime
from ganeti.config import VotersOf
from ganeti.jqueue import job as jobs

ACTS_PER_RUN = 20
FAULTS_PER_RUN = 3
# A call that vanished ends at its own time-out, which may be long.
HEALING_SECONDS = 4000.0
MAX_STEPS = 600_000
LOOKS = 10
TRIES = 6
_LENGTH = Length(steps_with_faults=6000, seconds=90.0, max_steps=MAX_STEPS)


@dataclass
class MasterResult(Result):
    """``human``: fail-overs needed after healing; ``changing``: calls that changed a node; ``edits``: made by hand."""

    human: int = 0
    changing: int = 0
    edits: int = 0


class _Tracebacks(logging.Handler):
    """What daemons log with a traceback is a bug of theirs; errors of the system are none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        process = getattr(runtime.CurrentSide(), "process", None)
        # A thread that dies with its process may stumble over what it could not do any more.
        alive = process is not None and process.alive
        if alive and record.exc_info and not isinstance(record.exc_info[1], OSError):
            self.found.append(self.format(record))

    def __enter__(self) -> _Tracebacks:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger().removeHandler(self)


def Run(
    seed: int, parts: type[MasterParts] = MasterParts, faults: int = FAULTS_PER_RUN, acts: int = ACTS_PER_RUN
) -> MasterResult:
    """Runs one seed; never raises for what goes wrong inside."""
    result = MasterResult(seed)
    tracebacks = _Tracebacks()
    with World(seed) as world, tracebacks:
        rng = random.Random(f"master {seed}")
        count = rng.choice((1, 2, 3, 3, 3, 3, 4, 5))
        candidates = count if count < 4 else rng.choice((3, count))
        workload = Operators(rng, acts)
        workload.pause = (0.0, rng.choice((0.05, 0.5, 2.0)))
        if count > 1:
            workload.voter_changes = rng.choice((0.0, 0.0, 0.15, 0.3))
        cluster = MasterCluster(world, count, candidates, workload, parts)
        workload.cluster = cluster
        cluster.network.latency = (0.0002, rng.choice((0.001, 0.05, 0.3)))
        with Judged(cluster, result):
            cluster.Found()
            cluster.Supervise()
            Work(cluster, rng, FAULTS, faults, _LENGTH, result)  # type: ignore[arg-type]
            Heal(cluster)
            _Take(cluster, _RESTING)
            plot = plots.PlotOf(seed, count) if faults else None
            if plot is not None and cluster.violation is None:
                result.faults.append(plot.__name__)
                # What happened before is as it would be without the plot, and needs no seeds of its own.
                cluster.Note(f"plot {plot.__name__}: {plot(cluster, random.Random(f'plot {seed} of a master'))}")
                _Take(cluster, _RESTING)
            _Take(cluster, _ENDING)
        if tracebacks.found and not result.problem:
            result.problem = "logged with a traceback: " + tracebacks.found[0]
        result.human = cluster.human
        result.changing = cluster.watch.changing
        result.edits = cluster.edits
        for row in cluster.jobs.rows.values():
            result.Count(jobs.JobStatus(op["status"] for op in row["ops"]))
    return result


def _Finish(cluster: MasterCluster) -> None:
    """A master must come, end every job, take one more in and do it."""
    world = cluster.world
    deadline = world.elapsed + HEALING_SECONDS

    def settled() -> bool:
        return _IsSettled(cluster) or world.elapsed > deadline or cluster.violation is not None

    for _ in range(TRIES):
        world.Run(until=settled, max_steps=MAX_STEPS)
        if cluster.violation is not None:
            return
        serving = cluster.Serving()
        if not _IsSettled(cluster):
            raise Violation(f"after healing the cluster does not come to rest: {_Unrest(cluster)}")
        process = cluster.workload.LastWord(serving[0])
        world.Run(until=lambda process=process: not process.alive, max_steps=MAX_STEPS)  # type: ignore[misc]
        if process.result == "success":
            world.Run(until=settled, max_steps=MAX_STEPS)
            return
        cluster.Note(f"the last word: {process.result}")
        world.RunFor(5.0)
    raise Violation(f"after healing no job succeeds: {process.result}")


def _IsOver(cluster: MasterCluster, deadline: float) -> bool:
    return cluster.violation is not None or cluster.world.elapsed > deadline


def _IsSettled(cluster: MasterCluster) -> bool:
    serving = cluster.Serving()
    if len(serving) != 1 or any(node.failover is not None and node.failover.alive for node in cluster.nodes):
        return False
    store: Any = cluster.open.get(serving[0].name)
    book = cluster.jobs
    return (
        store is not None
        and store.IsRunning()
        and book.IsQuiet()
        and set(book.told.accepted) <= set(book.rows)
        and store.IsSettled()
        and _VotersAreRight(store)
    )


def _VotersAreRight(store: Any) -> bool:
    """Rule 4: the voters are the candidates that are not offline."""
    return set(store.Voters().by_uuid) == {member.uuid for member in VotersOf(SnapshotOf(store))}


def SnapshotOf(store: Any) -> objects.Snapshot:
    return objects.Snapshot.FromRows(
        (kind, row_id, value) for kind in objects.ROW_KINDS for row_id, value in store.Rows(kind).items()
    )


def _Unrest(cluster: MasterCluster) -> str:
    """Why it is not settled, in words."""
    book = cluster.jobs
    parts = [f"serving: {[node.name for node in cluster.Serving()]}"]
    for node in cluster.Serving():
        store: Any = cluster.open.get(node.name)
        parts.append(
            f"{node.name}: settled {store.IsSettled()}, voters {store.Voters().Names()}, silent {store.Silent()}"
        )
    for job_id, row in book.rows.items():
        statuses = [op["status"] for op in row["ops"]]
        if jobs.JobStatus(statuses) not in jobs.FINAL:
            parts.append(f"job {job_id} {statuses} {[op['input']['OP_ID'] for op in row['ops']]}")
    missing = sorted(set(book.told.accepted) - set(book.rows))
    if missing:
        parts.append(f"accepted and nowhere: {missing}")
    return "; ".join(parts)


def _CheckStores(cluster: MasterCluster) -> None:
    """All copies that have the same position are equal, and voters have everything."""
    for _ in range(LOOKS):
        deadline = cluster.world.elapsed + HEALING_SECONDS
        cluster.world.Run(until=lambda: _IsSettled(cluster) or _IsOver(cluster, deadline), max_steps=MAX_STEPS)  # noqa: B023
        if cluster.violation is not None:
            return
        seqs = len(cluster.ledger.by_seq)
        copies = {node.name: node.Read() for node in cluster.nodes}
        # Reading takes time, in which the master may have done something by itself.
        if _IsSettled(cluster) and seqs == len(cluster.ledger.by_seq):
            CheckCopies(cluster, copies)
            return
    raise Violation("the copies do not become equal")


def _LetOthersEnd(cluster: MasterCluster) -> None:
    """Init starts no master any more, and those that are not the master have found out."""
    cluster.resting = True
    deadline = cluster.world.elapsed + HEALING_SECONDS
    cluster.world.Run(until=lambda: len(cluster.Masters()) == 1 or _IsOver(cluster, deadline), max_steps=MAX_STEPS)


def _CheckConfiguration(cluster: MasterCluster) -> None:
    (master,) = cluster.Serving()
    snapshot = SnapshotOf(cluster.open[master.name])
    problems = cluster.workload.CheckConfiguration(snapshot) + configfile.StructuralProblems(snapshot)
    if problems:
        raise Violation("; ".join(problems))


def _Take(cluster: MasterCluster, steps: Sequence[Callable[[MasterCluster], None]]) -> None:
    """Take these steps as long as nothing was found."""
    for step in steps:
        if cluster.violation is None:
            step(cluster)


_RESTING = (_Finish, _CheckStores)
_ENDING = (
    lambda cluster: cluster.jobs.CheckEnd(),
    _CheckConfiguration,
    _LetOthersEnd,
    files.CheckFiles,
)
"""What is done and looked at in the end, when all is healed and at rest, in order."""
