"""What can go wrong with a whole cluster: the store's faults, and those of daemons that people stop and start."""

from __future__ import annotations

import random

from simulation.harness import faults as store_faults
from simulation.harness.faults import Strike
from simulation.master.cluster import MasterCluster

from ganeti import pathutils, runtime


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


_REPLACED = {store_faults.LoseDisk: LoseStore, store_faults.SecondMaster: FailOverWithMasterAlive}

FAULTS: tuple[Strike, ...] = (
    *(_REPLACED.get(fault, fault) for fault in store_faults.FAULTS),  # type: ignore[arg-type]
    StopMaster,  # type: ignore[arg-type]
    KillMasterTwice,  # type: ignore[arg-type]
    FailOverWithMasterAlive,  # type: ignore[arg-type]
)
