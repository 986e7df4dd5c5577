"""A node that loses the vote does nothing that only a master does."""

from __future__ import annotations

import random

import pytest
from simulated import World
from simulation.master.cluster import MasterCluster
from simulation.master.operators import Operators
from simulation.master.run import MAX_STEPS

from ganeti import pathutils, runtime


@pytest.mark.req("D20-VOTE-07")
@pytest.mark.parametrize("seed", range(1, 6))
def test_without_a_majority_there_is_no_socket_no_address_and_no_job(seed: int) -> None:
    with World(seed) as world:
        workload = Operators(random.Random(seed), 0)
        cluster = MasterCluster(world, 3, 3, workload)
        workload.cluster = cluster
        cluster.Found()
        first, second, third = cluster.nodes
        world.Run(until=lambda: len(first.machine.addresses) == 2, max_steps=MAX_STEPS)  # it has the cluster's address
        first.masterd.Kill()
        world.RunFor(1.0)
        for other in (first, third):
            cluster.network.Cut(second.name, other.name)
            cluster.network.Cut(other.name, second.name)
        calls: list[str] = []
        second.machine.programs[pathutils.DEFAULT_MASTER_SETUP_SCRIPT] = lambda invocation: calls.append("address")
        second.StartMasterd(take_over=True)
        world.Run(until=lambda: not second.masterd.alive, max_steps=MAX_STEPS)
        assert second.masterd.exit_code not in (0, None)
        assert any("does not come up" in event for event in cluster.ledger.events), "an error is given"
        assert list(second.machine.addresses) == [second.machine.address] and calls == []
        assert second.machine.Call(runtime.ListDir, pathutils.SOCKET_DIR) == []
