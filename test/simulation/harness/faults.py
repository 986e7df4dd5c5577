"""What can go wrong.  Each strikes once and says what it did; most end by themselves, ``run.Heal`` ends all."""

from __future__ import annotations

import random
from collections.abc import Callable

from simulation.harness.cluster import Cluster, Node

Strike = Callable[[Cluster, random.Random], str]
# How often somebody looks whether a new master has opened, before he gives up.
_LOOKS = 2000
# Calls that bring rows.
STORING = ("store_append", "store_catchup", "store_copy")


def _Later(
    cluster: Cluster, rng: random.Random, action: Callable[[], object], least: float = 0.5, most: float = 20.0
) -> None:
    """Ends a fault after a while."""
    cluster.world.Schedule(rng.uniform(least, most), action)


def _Harm(cluster: Cluster, delay: float, action: Callable[[], object]) -> None:
    """Does more harm after a while, unless all is healed by then."""
    cluster.world.Schedule(delay, lambda: None if cluster.healed else action())


def _Pick(cluster: Cluster, rng: random.Random) -> Node:
    """A node; the master is a favourite."""
    masters = cluster.Masters()
    return rng.choice(masters) if masters and rng.random() < 0.5 else rng.choice(cluster.nodes)


def KillMaster(cluster: Cluster, rng: random.Random) -> str:
    """The master daemon dies at whatever step it is."""
    del rng
    for node in cluster.Masters():
        assert node.masterd is not None
        node.masterd.Kill()
    return "all masterd"


def KillNoded(cluster: Cluster, rng: random.Random) -> str:
    node = _Pick(cluster, rng)
    if node.noded is not None:
        node.noded.Kill()
    return node.name


def LosePower(cluster: Cluster, rng: random.Random) -> str:
    node = _Pick(cluster, rng)
    if node.machine.on:
        node.machine.PowerOff()
        _Later(cluster, rng, node.Restart)
    return node.name


def LosePowerEverywhere(cluster: Cluster, rng: random.Random) -> str:
    for node in cluster.nodes:
        if node.machine.on:
            node.machine.PowerOff()
            _Later(cluster, rng, node.Restart, 0.5, 5.0)
    return "all"


def Isolate(cluster: Cluster, rng: random.Random) -> str:
    """A node is cut off, in one or both directions."""
    node = _Pick(cluster, rng)
    ways = rng.choice(("in", "out", "both"))
    for other in cluster.nodes:
        if other is not node:
            if ways in ("out", "both"):
                cluster.network.Cut(node.name, other.name)
            if ways in ("in", "both"):
                cluster.network.Cut(other.name, node.name)
    _Later(cluster, rng, cluster.network.MendAll)
    return f"{node.name} {ways}"


def CutSomeWires(cluster: Cluster, rng: random.Random) -> str:
    pairs = [(a.name, b.name) for a in cluster.nodes for b in cluster.nodes if a is not b]
    chosen = rng.sample(pairs, rng.randint(0, len(pairs)))
    for pair in chosen:
        cluster.network.Cut(*pair)
    _Later(cluster, rng, cluster.network.MendAll)
    return str(chosen)


def DisturbNetwork(cluster: Cluster, rng: random.Random) -> str:
    """Calls and answers get lost, come late, come twice."""
    cluster.network.lost = rng.choice((0.0, 0.05, 0.3))
    cluster.network.late = rng.choice((0.0, 0.05, 0.3))
    cluster.network.twice = rng.choice((0.0, 0.1, 0.5))
    return f"lost {cluster.network.lost} late {cluster.network.late} twice {cluster.network.twice}"


def FillDisk(cluster: Cluster, rng: random.Random) -> str:
    node = _Pick(cluster, rng)
    node.machine.disk_full = True
    _Later(cluster, rng, lambda: setattr(node.machine, "disk_full", False))
    return node.name


def SlowDisk(cluster: Cluster, rng: random.Random) -> str:
    node = _Pick(cluster, rng)
    node.machine.slow_disk = rng.choice((0.05, 0.5, 4.0))
    _Later(cluster, rng, lambda: setattr(node.machine, "slow_disk", 0.0))
    return f"{node.name} {node.machine.slow_disk}"


def LoseDisk(cluster: Cluster, rng: random.Random) -> str:
    """A disk breaks and is replaced: the node comes back empty.  Once in a run, and only where a quorum of others stays:
    what else would take a forced start.
    """
    stores = [cluster.open[node.name] for node in cluster.Masters() if node.name in cluster.open]
    if cluster.disk_lost or len(stores) != 1 or len(stores[0].Voters()) < 3 or not stores[0].IsSettled():
        return KillMaster(cluster, rng)
    cluster.disk_lost = True
    cluster.workload.voter_changes = 0.0
    node = _Pick(cluster, rng)
    node.machine.PowerOff()
    node.machine.disk_full = False
    node.machine.WipeDisk()
    _Later(cluster, rng, node.Restart)
    return node.name


def SecondMaster(cluster: Cluster, rng: random.Random) -> str:
    """Somebody starts a master though there is one."""
    del rng
    cluster.StartSomeMaster()
    return ""


def JumpClock(cluster: Cluster, rng: random.Random) -> str:
    node = _Pick(cluster, rng)
    node.machine.clock_offset = rng.choice((-86400.0, -30.0, 30.0, 86400.0))
    return f"{node.name} {node.machine.clock_offset}"


def PauseMaster(cluster: Cluster, rng: random.Random) -> str:
    """The master daemon stands still for a while, another one starts, then it goes on as if nothing had been."""
    for node in cluster.Masters():
        process = node.masterd
        assert process is not None
        process.Pause()
        _Later(cluster, rng, process.Continue, 1.0, 15.0)
    cluster.StartSomeMaster()
    return "all masterd"


def FailOver(cluster: Cluster, rng: random.Random) -> str:
    """The master is cut off and another node is made master; later both see each other again."""
    masters = cluster.Masters()
    for node in masters:
        alone = rng.random() < 0.6
        friend = rng.choice(cluster.nodes)
        for other in cluster.nodes:
            if other is not node and (alone or other is not friend):
                cluster.network.Cut(node.name, other.name)
                cluster.network.Cut(other.name, node.name)
    _Harm(cluster, rng.uniform(0.0, 2.0), cluster.StartSomeMaster)
    _Later(cluster, rng, cluster.network.MendAll, 1.0, 20.0)
    return str([node.name for node in masters])


def StopMasterAndNode(cluster: Cluster, rng: random.Random) -> str:
    """The master's machine loses power for long; another one takes over."""
    masters = cluster.Masters()
    for node in masters:
        node.machine.PowerOff()
        _Later(cluster, rng, node.Restart, 2.0, 60.0)
    _Harm(cluster, rng.uniform(0.0, 1.0), cluster.StartSomeMaster)
    return str([node.name for node in masters])


def Swizzle(cluster: Cluster, rng: random.Random) -> str:
    """Some nodes are cut off one after the other, and come back in another order."""
    chosen = rng.sample(cluster.nodes, rng.randint(1, len(cluster.nodes)))
    span = rng.choice((0.05, 1.0, 10.0))

    def cut(node: Node, act: Callable[[str, str], None]) -> None:
        for other in cluster.nodes:
            if other is not node:
                act(node.name, other.name)
                act(other.name, node.name)

    for node in chosen:
        start = rng.uniform(0.0, span)
        _Harm(cluster, start, lambda node=node: cut(node, cluster.network.Cut))  # type: ignore[misc]
        end = start + rng.uniform(0.0, span)
        cluster.world.Schedule(end, lambda node=node: cut(node, cluster.network.Mend))  # type: ignore[misc]
    _Harm(cluster, rng.uniform(0.0, span), cluster.StartSomeMaster)
    return f"{[node.name for node in chosen]} in {span} s"


def LoseLargeCalls(cluster: Cluster, rng: random.Random) -> str:
    """Some nodes answer small questions, while calls that bring much get nowhere, as where a router drops large packets;
    often somebody makes another node the master meanwhile.
    """
    kinds = rng.choice((("store_append",), ("store_catchup", "store_copy"), STORING))
    chosen = rng.sample(cluster.nodes, rng.randint(1, len(cluster.nodes)))

    def mend(node: Node) -> None:
        node.deaf_to = ()

    for node in chosen:
        node.deaf_to = kinds
        _Later(cluster, rng, lambda node=node: mend(node))  # type: ignore[misc]
    if rng.random() < 0.6:
        _Harm(cluster, rng.uniform(0.0, 5.0), cluster.StartSomeMaster)
    return f"{[node.name for node in chosen]} {kinds}"


def _FailOverWhileItWorks(
    cluster: Cluster, rng: random.Random, until: Callable[[Node], bool], then: Callable[[Node, Node], object]
) -> str:
    """Cut the master off while it stores a change, start another one, and do more when that has come to some point.

    Returns their names; nothing where there are not two nodes for it.
    """
    masters = cluster.Masters()
    others = [node for node in cluster.nodes if node.machine.on and node not in masters]
    if len(masters) != 1 or not others:
        return ""
    (former,), other = masters, rng.choice(others)
    for node in cluster.nodes:
        if node is not former:
            cluster.network.Cut(former.name, node.name)
    if former.noded is not None:
        former.noded.Kill()  # whoever asks it is refused at once
    cluster.workload.AskNow(cluster)
    _Harm(cluster, rng.uniform(0.05, 0.5), other.StartMasterd)
    looks = [0]

    def look() -> None:
        looks[0] += 1
        if until(other) or looks[0] > _LOOKS:
            _Harm(cluster, rng.choice((0.0, 0.0, 0.01, 0.3)), lambda: then(former, other))
        else:
            _Harm(cluster, 0.005, look)

    look()
    return f"{former.name}, {other.name}"


def FailOverAndBack(cluster: Cluster, rng: random.Random) -> str:
    """The master is cut off while it works and another one opens; that loses power before it has done much, and the former
    one is started again, with what nobody acknowledged.
    """

    def turn(former: Node, other: Node) -> None:
        other.machine.PowerOff()
        _Later(cluster, rng, other.Restart, 1.0, 30.0)
        cluster.network.MendAll()
        if former.masterd is not None:
            former.masterd.Kill()
        _Harm(cluster, rng.uniform(0.0, 0.2), former.StartMasterd)

    done = _FailOverWhileItWorks(cluster, rng, lambda other: other.name in cluster.open, turn)
    return done or KillMaster(cluster, rng)


def FormerMasterReturns(cluster: Cluster, rng: random.Random) -> str:
    """The master is cut off while it works and another one starts, whose first transaction gets nowhere; then the former
    one's node is there again and says how far it is, before anything is copied to it.
    """
    before = {node.name: node.ignored for node in cluster.nodes}
    for node in cluster.nodes:
        node.deaf_to = STORING
        _Later(cluster, rng, lambda node=node: setattr(node, "deaf_to", ()), 5.0)  # type: ignore[misc]

    def back(former: Node, other: Node) -> None:
        del other
        if former.masterd is not None:
            former.masterd.Kill()
        former.deaf_to = ("store_catchup", "store_copy")
        cluster.network.MendAll()
        former.StartNoded()

    def tried(other: Node) -> bool:
        return any(node.ignored > before[node.name] for node in cluster.nodes if node is not other)

    return _FailOverWhileItWorks(cluster, rng, tried, back) or KillMaster(cluster, rng)


def ReplaceVoter(cluster: Cluster, rng: random.Random) -> str:
    """A voter is taken out and in again, which copies the whole store to it, while calls come late and twice."""
    cluster.network.twice = 1.0
    cluster.network.late = rng.choice((0.0, 0.1, 0.3))
    _Later(cluster, rng, lambda: setattr(cluster.network, "twice", 0.0), 5.0, 30.0)
    return cluster.workload.ReplaceVoter(cluster) or KillMaster(cluster, rng)


FAULTS: tuple[Strike, ...] = (
    FailOverAndBack,
    FailOverAndBack,
    FormerMasterReturns,
    ReplaceVoter,
    ReplaceVoter,
    Swizzle,
    Swizzle,
    LoseLargeCalls,
    FailOver,
    FailOver,
    StopMasterAndNode,
    KillMaster,
    KillNoded,
    LosePower,
    LosePowerEverywhere,
    Isolate,
    CutSomeWires,
    DisturbNetwork,
    FillDisk,
    SlowDisk,
    LoseDisk,
    SecondMaster,
    JumpClock,
    PauseMaster,
)
