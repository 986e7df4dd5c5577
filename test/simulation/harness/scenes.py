"""Scenes that chance plays too rarely, set up step by step."""

from __future__ import annotations

from collections.abc import Callable

from simulation.harness.clients import Clients
from simulation.harness.cluster import Cluster, Node, Parts

from ganeti.runtime.simulated import World


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
    silent.deaf_to = ("store_append", "store_catchup", "store_copy")
    returning.deaf_to = ("store_catchup", "store_copy")
    master.StartMasterd()
    cluster.world.Run(until=lambda: silent.ignored > 0, max_steps=100_000)
    _CutOff(cluster, returning, cluster.network.Mend)
    cluster.world.RunFor(30.0)
