"""One run: build a cluster, let clients work while faults strike, heal, and check."""

from __future__ import annotations

import random
from typing import Any

from simulated import World
from simulation.harness import files
from simulation.harness.clients import Clients
from simulation.harness.cluster import Cluster, Node, Parts
from simulation.harness.faults import FAULTS
from simulation.harness.ledger import Violation
from simulation.harness.play import Judged, Length, Result, Work

from ganeti.store import Row, Rows, StoreError

FAULTS_PER_RUN = 3
CHANGES_PER_RUN = 30
HEALING_SECONDS = 200.0
MAX_STEPS = 120_000
LOOKS = 10
_LENGTH = Length(steps_with_faults=2500, seconds=60.0, max_steps=MAX_STEPS)


def Run(
    seed: int,
    parts: type[Parts] = Parts,
    faults: int = FAULTS_PER_RUN,
    changes: int = CHANGES_PER_RUN,
    exporting: bool | None = None,
) -> Result:
    """Runs one seed; never raises for what goes wrong inside.  ``exporting``: with the files, None leaves it to the seed."""
    result = Result(seed)
    with World(seed) as world:
        rng = random.Random(f"run {seed}")
        count = rng.choice((1, 2, 3, 3, 3, 4, 5))
        candidates = count if count < 4 else rng.choice((3, count))
        workload = Clients(rng, changes)
        if exporting is None:
            exporting = rng.random() < 0.2
        cluster = Cluster(world, count, candidates, workload, parts, exporting)
        workload.SetMembers(cluster.members, cluster.first_candidates)
        if count > 1:
            workload.voter_changes = rng.choice((0.0, 0.0, 0.1, 0.2))
            workload.probing = rng.choice((0.0, 0.1, 0.3))
        workload.pause = (0.0, rng.choice((0.05, 0.5, 2.0)))
        cluster.network.latency = (0.0002, rng.choice((0.001, 0.05, 0.5)))
        with Judged(cluster, result):
            cluster.Found()
            cluster.Supervise()
            Work(cluster, rng, FAULTS, faults, _LENGTH, result)
            Heal(cluster)
            Settle(cluster)
            if exporting:
                files.CheckFiles(cluster)
        for op in cluster.ledger.ops:
            result.Count(op.outcome or "nobody heard")
    return result


def Heal(cluster: Cluster) -> None:
    """Ends all faults and brings everything up."""
    cluster.Note("healing")
    cluster.healed = True
    cluster.workload.Stop()
    cluster.network.Heal()
    for node in cluster.nodes:
        node.machine.disk_full = False
        node.machine.slow_disk = 0.0
        node.deaf_to = ()
        node.Restart()


def Settle(cluster: Cluster) -> None:
    """A master must come without a human's help, take changes again, and all copies must become equal."""
    world = cluster.world
    done: list[int] = []

    def settled() -> bool:
        return bool(done) or cluster.violation is not None

    def finish(node: Node, store: Any) -> None:
        # Needs a quorum, and is patient: it must come to an end.
        try:
            store.Commit(Rows(Row("last", "last", '"word"')), patient=True)
        except StoreError:
            return
        done.append(store.Acknowledged().seq)

    def watch() -> None:
        for node in cluster.Masters():
            store = cluster.open.get(node.name)
            if store is not None and store.IsRunning() and not node.finishing:
                node.finishing = True
                process = node.masterd
                thread = process.NewThread(finish, "finish", (node, store))
                world.Launch(thread)
        if not settled():
            world.Schedule(1.0, watch)

    world.Schedule(1.0, watch)
    deadline = world.elapsed + HEALING_SECONDS
    world.Run(until=lambda: settled() or world.elapsed > deadline, max_steps=MAX_STEPS)
    if cluster.violation is not None:
        return
    if not done:
        raise Violation("after everything was healed no master took a change")
    for _ in range(LOOKS):
        world.Run(until=lambda: _AreEqual(cluster) or world.elapsed > deadline, max_steps=MAX_STEPS)
        seqs = len(cluster.ledger.by_seq)
        copies = {node.name: node.Read() for node in cluster.nodes}
        # Reading takes time, in which the master may have done something by itself.
        if _AreEqual(cluster) and seqs == len(cluster.ledger.by_seq):
            CheckCopies(cluster, copies)
            return
    raise Violation("the copies do not become equal")


def _AreEqual(cluster: Cluster) -> bool:
    """Whether master and voters show the same end; looks at the databases from outside."""
    stores = [cluster.open[node.name] for node in cluster.Masters() if node.name in cluster.open]
    if len(stores) != 1 or len(cluster.Masters()) != 1:
        return False
    return cluster.workload.IsIdle() and stores[0].IsSettled()


def CheckCopies(cluster: Cluster, copies: dict[str, Any]) -> None:
    """Equal positions mean equal rows; voters have all there is; nothing refused is anywhere."""
    by_last: dict[Any, tuple[str, dict[Any, Any]]] = {}
    lasts = {}
    for node in cluster.nodes:
        state, _, rows = copies[node.name]
        lasts[node.name] = state.last
        cluster.ledger.CheckNothingRefused(node.name, rows)
        live = {(r.kind, r.id): (r.value, r.seq, r.epoch) for r in rows if r.value is not None}
        if state.last in by_last and by_last[state.last][1] != live:
            raise Violation(f"{node.name} and {by_last[state.last][0]} are both at {state.last} with different rows")
        by_last.setdefault(state.last, (node.name, live))
    masters = [node for node in cluster.Masters() if node.name in cluster.open]
    if len(masters) != 1:
        raise Violation(f"after healing there are {len(masters)} masters: {[node.name for node in masters]}")
    store = cluster.open[masters[0].name]
    for voter in store.Voters().by_uuid.values():
        if lasts[voter.member.name] != lasts[masters[0].name]:
            raise Violation(
                f"voter {voter.member.name} is at {lasts[voter.member.name]}, the master at {lasts[masters[0].name]}"
            )
    newest = {(r.kind, r.id): r.value for r in copies[masters[0].name][2] if r.value is not None}
    for key, (seq, value) in cluster.ledger.newest.items():
        if store.Epoch() != cluster.ledger.by_seq[seq][0]:
            continue
        if newest.get(key) != value:
            raise Violation(f"the last master shows {key} as {newest.get(key)}, acknowledged was {value}")
