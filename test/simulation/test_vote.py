"""Who may become master, and what a node that may not leaves undone."""

from __future__ import annotations

import random

import pytest
from simulated import World
from simulation.master.cluster import MasterCluster
from simulation.master.machines import MasterNode
from simulation.master.operators import Operators
from simulation.master.run import MAX_STEPS

from ganeti import pathutils, runtime, ssconf


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


def _Found(world: World, count: int, candidates: int) -> MasterCluster:
    workload = Operators(random.Random(1), 0)
    cluster = MasterCluster(world, count, candidates, workload)
    workload.cluster = cluster
    cluster.Found()
    world.RunFor(10.0)  # every candidate has its files
    return cluster


def _Cut(cluster: MasterCluster, one: MasterNode, *others: MasterNode) -> None:
    for other in others:
        cluster.network.Cut(one.name, other.name)
        cluster.network.Cut(other.name, one.name)


@pytest.mark.req("D20-VOTE-01")
@pytest.mark.parametrize("how", ["start", "fail-over"])
def test_the_checks_run_at_each_way_into_the_role(how: str) -> None:
    with World(7) as world:
        cluster = _Found(world, 3, 3)
        first, second, _ = cluster.nodes
        first.masterd.Kill()
        world.RunFor(5.0)
        taker = first if how == "start" else second
        _Cut(cluster, taker, *(node for node in cluster.nodes if node is not taker))

        def begin() -> None:
            if how == "start":
                taker.StartMasterd()
            else:
                taker.FailOver()

        begin()
        world.RunFor(200.0)
        assert cluster.Serving() == [], "without a quorum nobody takes the role"
        cluster.network.MendAll()
        for _ in range(10):
            begin()
            world.RunFor(60.0)
        assert cluster.Serving() == [taker], cluster.ledger.events[-12:]


@pytest.mark.req("D20-VOTE-12")
def test_nobody_becomes_master_without_being_told_to() -> None:
    with World(8) as world:
        cluster = _Found(world, 3, 3)
        first, second, third = cluster.nodes
        world.RunFor(5.0)
        first.machine.PowerOff()
        for _ in range(20):  # what init does on every node, again and again
            for node in (second, third):
                node.StartNoded()
                node.StartMasterd()
            world.RunFor(60.0)
            assert cluster.Serving() == []
        second.FailOver()
        world.Run(until=lambda: cluster.Serving() == [second], max_steps=MAX_STEPS)


@pytest.mark.req("D20-FLAG-05", "D20-FLAG-08")
def test_a_node_that_is_no_candidate_knows_the_master_and_cannot_replace_it() -> None:
    with World(9) as world:
        cluster = _Found(world, 4, 3)
        first, *_, last = cluster.nodes
        world.RunFor(10.0)
        look = last.machine.Call
        assert look(lambda: ssconf.SimpleStore().GetMasterNode()) == first.name
        assert not look(runtime.Exists, pathutils.CLUSTER_CONF_FILE)
        first.machine.PowerOff()
        last.FailOver()
        world.RunFor(200.0)
        assert cluster.Serving() == []
        assert any(f"{last.name}: fail-over refused" in event for event in cluster.ledger.events)


@pytest.mark.req("D21-UID-11")
def test_a_new_pool_of_user_ids_is_on_every_node_within_seconds() -> None:
    """On the master, on a candidate, and on a node that holds no configuration."""
    with World(11) as world:
        cluster = _Found(world, 3, 2)
        workload = cluster.workload
        for pool in ([(4000, 4019), (5000, 5000)], [(6000, 6001)], []):
            wanted = [list(pair) for pair in pool]
            workload.Ask([[workload.NewOp("OP_CLUSTER_SET_PARAMS", uid_pool=wanted)]])
            world.RunFor(5.0)
            found = [node.machine.Call(lambda: ssconf.SimpleStore().GetUidPool()) for node in cluster.nodes]
            assert found == [pool] * 3


@pytest.mark.req("D20-FLAG-19")
def test_one_of_two_nodes_starts_by_force_only() -> None:
    with World(10) as world:
        cluster = _Found(world, 2, 2)
        first, second = cluster.nodes
        world.RunFor(5.0)
        first.masterd.Kill()
        second.machine.PowerOff()
        first.StartMasterd()
        world.RunFor(200.0)
        assert cluster.Serving() == []
        if first.masterd.alive:
            first.masterd.Kill()
        first.StartMasterd(no_voting=True)
        world.Run(until=lambda: cluster.Serving() == [first], max_steps=MAX_STEPS)
