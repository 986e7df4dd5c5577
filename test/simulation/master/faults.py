"""What can go wrong with a whole cluster: the store's faults, and those of daemons that people stop and start."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from simulation.harness import faults as store_faults
from simulation.harness.faults import Strike
from simulation.master.cluster import MasterCluster

from ganeti import pathutils, runtime, serializer

if TYPE_CHECKING:
    from simulated import Process
    from simulation.master.machines import MasterNode
# Seconds after which an exporter has written what a full disk did not take.
WRITTEN_AFTER = 5.0


def LoseStore(cluster: MasterCluster, rng: random.Random) -> str:
    """A node's copy of the store is deleted while it is off: it comes back as an empty one.  Not the master's, which
    would take an administrator; once in a run, and only where a quorum of others stays.
    """
    serving = cluster.Serving()
    stores = [cluster.open[node.name] for node in serving if node.name in cluster.open]
    others = [node for node in cluster.nodes if node not in serving]
    if cluster.disk_lost or len(stores) != 1 or len(stores[0].Voters()) < 3 or not stores[0].IsSettled() or not others:
        return store_faults.KillMaster(cluster, rng)
    cluster.disk_lost = True
    cluster.workload.voter_changes = 0.0
    node = rng.choice(others)
    node.machine.PowerOff()
    node.at_boot.append(lambda: runtime.RemoveTree(pathutils.DATA_EXT_DIR))
    cluster.world.Schedule(rng.uniform(0.5, 20.0), node.Restart)
    return node.name


def StopMaster(cluster: MasterCluster, rng: random.Random) -> str:
    """The master daemon is asked to end; init starts it again, or somebody fails over meanwhile."""
    serving = cluster.Serving()
    for node in serving:
        node.StopMasterd()
    if rng.random() < 0.3:
        cluster.world.Schedule(rng.uniform(0.0, 5.0), lambda: None if cluster.healed else cluster.StartSomeMaster())
    return str([node.name for node in serving])


def FailOverWithMasterAlive(cluster: MasterCluster, rng: random.Random) -> str:
    """An administrator makes another node the master while the old one lives and sees everybody."""
    del rng
    cluster.StartSomeMaster()
    return ""


def KillMasterTwice(cluster: MasterCluster, rng: random.Random) -> str:
    """It dies, is started at once, and dies again while it starts."""
    store_faults.KillMaster(cluster, rng)

    def again() -> None:
        if not cluster.healed:
            store_faults.KillMaster(cluster, rng)

    for node in cluster.nodes:
        node.StartMasterd()
    cluster.world.Schedule(rng.choice((0.001, 0.01, 0.1, 1.0)) * rng.random(), again)
    return ""


def FlickerDisk(cluster: MasterCluster, rng: random.Random) -> str:
    """The master's disk is full for moments, again and again, while configuration changes are asked for."""
    serving = cluster.Serving()
    for node in serving:
        at = 0.0
        for _ in range(60):
            at += rng.uniform(0.005, 0.2)
            cluster.world.Schedule(at, lambda node=node: _SetFull(cluster, node, True))  # type: ignore[misc]
            at += rng.uniform(0.001, 0.05)
            cluster.world.Schedule(at, lambda node=node: _SetFull(cluster, node, False))  # type: ignore[misc]
    cluster.workload.Ask([[cluster.workload.TagOp(None)] for _ in range(8)])
    return str([node.name for node in serving])


def _SetFull(cluster: MasterCluster, node: MasterNode, full: bool) -> None:
    node.machine.disk_full = full and not cluster.healed
    if full:
        cluster.last_full = cluster.world.elapsed


def AbsenteeTakesOver(cluster: MasterCluster, rng: random.Random) -> str:
    """While a candidate is cut off, others enter and leave the voters; then it is told to take over, and sees one of them."""
    serving = cluster.Serving()
    others = [node for node in cluster.nodes if node not in serving]
    if len(serving) != 1 or len(others) < 2:
        return StopMaster(cluster, rng)
    absent = rng.choice(others)
    for node in cluster.nodes:
        if node is not absent:
            cluster.network.Cut(node.name, absent.name)
            cluster.network.Cut(absent.name, node.name)
    changed = rng.sample([node for node in others if node is not absent], rng.randint(1, len(others) - 1))
    workload = cluster.workload
    workload.Ask([[workload.RoleOp(node.name, master_candidate=rng.random() < 0.7)] for node in changed])

    def take_over() -> None:
        if cluster.healed:
            return
        friend = rng.choice([node for node in cluster.nodes if node is not absent])
        rest = [node.name for node in cluster.nodes if node not in (absent, friend)]
        cluster.network.MendAll()
        cluster.network.Partition([absent.name, friend.name], rest)
        if rng.random() < 0.5:
            store_faults.KillMaster(cluster, rng)
        absent.StartMasterd(take_over=True)
        cluster.world.Schedule(rng.uniform(5.0, 20.0), cluster.network.MendAll)

    cluster.world.Schedule(rng.uniform(1.0, 8.0), take_over)
    return f"{absent.name}; {[node.name for node in changed]}"


def StackVoters(cluster: MasterCluster, rng: random.Random) -> str:
    """Several nodes are to enter and leave the voters at once, while one of them does not hear the master; then another one
    takes over.
    """
    serving = cluster.Serving()
    others = [node for node in cluster.nodes if node not in serving]
    if len(serving) != 1 or len(others) < 2:
        return StopMaster(cluster, rng)
    (master,) = serving
    for node in rng.sample(others, rng.randint(1, len(others) - 1)):
        cluster.network.Cut(master.name, node.name)
    for node in others:
        cluster.workload.Ask([[cluster.workload.RoleOp(node.name, master_candidate=rng.random() < 0.5)]])

    def take_over() -> None:
        if not cluster.healed:
            cluster.network.MendAll()
            store_faults.KillMaster(cluster, rng)
            rng.choice(others).StartMasterd(take_over=True)

    cluster.world.Schedule(rng.uniform(0.2, 6.0), take_over)
    return master.name


def RejectStop(cluster: MasterCluster, rng: random.Random) -> str:
    """The master daemon is asked to end while a long job runs and another one waits for its lock: it goes on with both."""
    serving = cluster.Serving()
    for node in serving:
        workload = cluster.workload
        target = rng.choice(cluster.nodes).name
        long = {**workload.DelayOp(None, [target]), "duration": rng.uniform(22.0, 30.0) + rng.random() * 1e-6}
        workload.Ask([[long], [workload.DelayOp(None, [target])], [workload.TagOp(None)]])
        cluster.world.Schedule(rng.uniform(0.5, 3.0), lambda node=node: _Terminate(node))  # type: ignore[misc]
    return str([node.name for node in serving])


def _Terminate(node: MasterNode) -> None:
    if node.masterd is not None and node.masterd.alive:
        node.StopMasterd()


def EditByHand(cluster: MasterCluster, rng: random.Random) -> str:
    """The master daemon is stopped, its files are edited, and it is started again; often it dies before it has written any."""
    serving = cluster.Serving()
    if len(serving) != 1 or cluster.hands_on:
        return StopMaster(cluster, rng)
    (node,) = serving
    cluster.hands_on = True
    node.StopMasterd()
    looks = [0]

    def look() -> None:
        looks[0] += 1
        if cluster.healed or looks[0] > 100 or not node.machine.on or cluster.Serving() not in ([], [node]):
            cluster.hands_on = False
        elif node.masterd is not None and node.masterd.alive:
            cluster.world.Schedule(0.5, look)
        elif not node.stopped or cluster.world.elapsed - cluster.last_full < WRITTEN_AFTER:
            # It died, or its disk was full: what lies there is not the newest state, which a stop leaves.
            cluster.hands_on = False
        else:
            # A fail-over that is under way elsewhere may change the state that is edited, as does one that begins later.
            others = (other for other in cluster.nodes if other is not node)
            alone = not any(other.masterd is not None and other.masterd.alive for other in others)
            cluster.edited_on = node.name if alone else ""
            edit = node.machine.StartProcess(lambda: Edit(cluster, rng), "editor")
            cluster.world.Schedule(1.0, lambda: start(edit))

    def start(edit: Process) -> None:
        cluster.edits += edit.result is True
        if edit.result is not True:
            cluster.edited_on = ""
        cluster.hands_on = False
        if cluster.healed:
            return
        node.StartMasterd()
        if rng.random() < 0.8:
            _KillWhenOpen(cluster, node, rng.choice((0.0, 0.0, 0.003, 0.03)))

    look()
    return node.name


def _KillWhenOpen(cluster: MasterCluster, node: MasterNode, delay: float) -> None:
    """Its first transaction is acknowledged, and the files do not show it yet."""
    masterd = node.masterd

    def look() -> None:
        if cluster.healed or masterd is None or not masterd.alive:
            return
        if node.name in cluster.open:
            cluster.world.Schedule(delay, masterd.Kill)
        else:
            cluster.world.Schedule(0.001, look)

    look()


def Edit(cluster: MasterCluster, rng: random.Random) -> bool:
    """An administrator with an editor."""
    try:
        data = serializer.LoadProper(runtime.ReadFile(pathutils.CLUSTER_CONF_FILE))
        data["cluster"]["tags"].append(f"hand-{cluster.edits}")
        runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, serializer.Dump(data), 0o640)
        if rng.random() < 0.3:
            runtime.WriteFile(pathutils.JOB_QUEUE_DRAIN_FILE, b"", 0o644)
        elif rng.random() < 0.5:
            runtime.RemoveFile(pathutils.JOB_QUEUE_DRAIN_FILE)
    except OSError:
        return False
    return True


_REPLACED = {store_faults.LoseDisk: LoseStore, store_faults.SecondMaster: FailOverWithMasterAlive}

FAULTS: tuple[Strike, ...] = (
    *(_REPLACED.get(fault, fault) for fault in store_faults.FAULTS),  # type: ignore[arg-type]
    StopMaster,  # type: ignore[arg-type]
    KillMasterTwice,  # type: ignore[arg-type]
    FailOverWithMasterAlive,  # type: ignore[arg-type]
    FlickerDisk,  # type: ignore[arg-type]
    AbsenteeTakesOver,  # type: ignore[arg-type]
    AbsenteeTakesOver,  # type: ignore[arg-type]
    StackVoters,  # type: ignore[arg-type]
    StackVoters,  # type: ignore[arg-type]
    RejectStop,  # type: ignore[arg-type]
    EditByHand,  # type: ignore[arg-type]
)
