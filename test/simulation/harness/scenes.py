"""Scenes that chance plays too rarely, set up step by step."""

from __future__ import annotations

import random
from collections.abc import Callable

from simulated import SimulationError, World
from simulation.harness.clients import CandidateRow, Clients
from simulation.harness.cluster import Cluster, Node, Parts
from simulation.harness.faults import STORING
from simulation.harness.ledger import Violation
from simulation.harness.run import MAX_STEPS, Heal, Settle


def _CutOff(cluster: Cluster, node: Node, act: Callable[[str, str], None] | None = None) -> None:
    act = act or cluster.network.Cut
    for other in cluster.nodes:
        if other is not node:
            act(node.name, other.name)
            act(other.name, node.name)


def SeqOfAnOldEpoch(parts: type[Parts]) -> str:
    """A copy that holds the same seq of an older epoch must not count (rule 2).

    node1 stores a last change alone and is cut off; node2 becomes master with node3, which falls silent before it has
    node2's first transaction; then node1 comes back and says what it has before anything is copied to it: that seq, but
    of the older epoch.  When node2 is gone,
    node1 and node3 must be able to go on, and nothing node2 acknowledged may be missing.  Returns what was broken, or nothing.
    """
    with World(1) as world:
        clients = Clients(world.NewRandom("scene"), 0)
        cluster = Cluster(world, 3, 3, clients, parts)
        clients.SetMembers(cluster.members, cluster.members)
        one, two, three = cluster.nodes
        cluster.Found()
        store = cluster.open[one.name]
        world.Run(until=store.IsSettled, max_steps=10_000)
        _CutOff(cluster, one)
        alone = clients.NewRowsOp(cluster, "alone")
        clients.Submit(one, store, alone)
        world.Run(until=lambda: alone.prepared, max_steps=10_000)
        world.RunFor(0.5)
        assert one.masterd is not None
        one.masterd.Kill()
        _SilenceAfterPromise(cluster, two, three, one)
        two.machine.PowerOff()
        three.deaf_to = one.deaf_to = ()
        cluster.network.MendAll()
        three.StartMasterd()
        world.RunFor(60.0)
        if cluster.violation is None and three.name not in cluster.open:
            return f"node3 cannot go on: {cluster.ledger.events[-1]}"
        return str(cluster.violation or "")


def _SilenceAfterPromise(cluster: Cluster, master: Node, silent: Node, returning: Node) -> None:
    """Makes ``master`` master; ``silent`` gets none of its transactions, and ``returning`` is back in time for them."""
    silent.deaf_to = STORING
    returning.deaf_to = ("store_catchup", "store_copy")
    master.StartMasterd()
    cluster.world.Run(until=lambda: silent.ignored > 0, max_steps=100_000)
    _CutOff(cluster, returning, cluster.network.Mend)
    cluster.world.RunFor(30.0)


def ForcedStart(seed: int, parts: type[Parts] = Parts) -> tuple[str, int]:
    """Most candidates lose power at once; a survivor is forced to be master; the others come back later.

    The administrator keeps his word: who did not answer stays off until the new master has reached it.  Returns what was
    broken, or nothing, and how many acknowledged changes were given up.
    """
    with World(seed) as world:
        rng = random.Random(f"forced {seed}")
        clients = Clients(rng, 25)
        clients.pause = (0.0, 0.5)
        count = rng.choice((2, 3, 4, 5))
        cluster = Cluster(world, count, count, clients, parts)
        clients.SetMembers(cluster.members, cluster.members)
        try:
            cluster.Found()
            cluster.network.late = rng.choice((0.0, 0.1, 0.4))
            enough = world.steps + rng.randint(100, 3000)
            world.Run(until=lambda: world.steps > enough or clients.IsDone(), max_steps=MAX_STEPS)
            survivors = rng.sample(cluster.nodes, (count - 1) // 2 or 1)
            _Force(cluster, survivors)
            if count == 2 and cluster.given_up:
                raise Violation("of two candidates the survivor holds all that was acknowledged, and lost some of it")
            Heal(cluster)
            Settle(cluster)
        except (Violation, SimulationError) as err:
            return f"seed {seed}: {cluster.violation or err}", cluster.given_up
        return (f"seed {seed}: {cluster.violation}" if cluster.violation else ""), cluster.given_up


def _Force(cluster: Cluster, survivors: list[Node]) -> None:
    world = cluster.world
    for node in cluster.nodes:
        if node not in survivors:
            node.machine.PowerOff()
    for node in survivors:
        if node.masterd is not None:
            node.masterd.Kill()
    cluster.network.late = 0.0
    cluster.open.clear()
    cluster.forced = True
    masters = len(cluster.ledger.masters)
    for _ in range(10):
        survivors[0].StartMasterd(
            vouch=lambda question: True,
            first=lambda adopted: [CandidateRow(uuid, False, 0) for uuid in adopted.without],
        )
        world.Run(
            until=lambda: not survivors[0].masterd.alive or survivors[0].name in cluster.open, max_steps=MAX_STEPS
        )
        if len(cluster.ledger.masters) > masters:
            break
        world.RunFor(5.0)
    else:
        raise Violation(f"no forced start: {cluster.ledger.events[-1]}")
    store = cluster.open[survivors[0].name]
    for node in cluster.nodes:
        node.Restart()
    reached: list[bool] = []

    def reach() -> None:
        store.ConfirmNodes([node.member.uuid for node in cluster.nodes if node not in survivors], 60.0)
        reached.append(True)

    assert survivors[0].masterd is not None
    world.Launch(survivors[0].masterd.NewThread(reach, "reach", ()))
    world.Run(until=lambda: reached, max_steps=MAX_STEPS)
    cluster.Supervise()
