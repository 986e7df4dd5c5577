"""Scenes that chance plays too rarely, set up step by step."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from simulated import World
from simulation.harness.ledger import Violation
from simulation.harness.play import Judged, Result
from simulation.master.cluster import MasterCluster
from simulation.master.machines import MasterNode
from simulation.master.operators import Operators
from simulation.master.parts import MasterParts
from simulation.master.run import MAX_STEPS, SnapshotOf

from ganeti import errors
from ganeti.luxi import client as luxi_client


@contextmanager
def _Scene(
    name: str, seed: int, count: int, result: Result, parts: type[MasterParts] = MasterParts
) -> Iterator[tuple[MasterCluster, random.Random]]:
    """A cluster before its first start, at most three of its nodes candidates; what the block breaks is in ``result``."""
    with World(seed) as world:
        rng = random.Random(f"{name} {seed}")
        workload = Operators(rng, 0)
        cluster = MasterCluster(world, count, min(count, 3), workload, parts)
        workload.cluster = cluster
        with Judged(cluster, result):
            yield cluster, rng


def TakeOverDuringJobs(seed: int, parts: type[MasterParts] = MasterParts) -> str:
    """Another node takes over while jobs of the old master, which nobody stops, are between two calls.

    Returns what was broken, or nothing.
    """
    result = Result(seed)
    with _Scene("take-over", seed, 3, result, parts) as (cluster, rng):
        # Long ways: a job spends its time between one call and the next.
        cluster.network.latency = (0.1, 0.4)
        cluster.Found()
        first, second, _ = cluster.nodes
        _Submit(cluster, first, [("OP_INSTANCE_STARTUP", {})])
        cluster.world.Run(until=cluster.jobs.IsQuiet, max_steps=MAX_STEPS)
        _Submit(cluster, first, [("OP_INSTANCE_REBOOT", {"reboot_type": "hard"})] * 3)
        cluster.world.RunFor(rng.uniform(0.0, 6.0))
        second.StartMasterd(take_over=True)
        cluster.world.RunFor(60.0)
    return result.problem


def SilenceDuringJobs(seed: int, parts: type[MasterParts] = MasterParts) -> str:
    """The master's network is cut while jobs change the configuration: when it is back, each of them succeeds.

    Returns what was broken, or nothing.
    """
    result = Result(seed)
    with _Scene("silence", seed, 3, result, parts) as (cluster, rng):
        cluster.network.latency = (0.01, 0.1)
        cluster.Found()
        first, *others = cluster.nodes
        clients = [first.machine.StartProcess(lambda: _SetTag(cluster.workload), "client") for _ in range(6)]
        cluster.world.RunFor(rng.uniform(0.0, 2.0))
        for other in others:
            cluster.network.Cut(first.name, other.name)
        cluster.world.RunFor(rng.uniform(10.0, 60.0))
        cluster.network.MendAll()
        cluster.world.Run(until=lambda: not any(client.alive for client in clients), max_steps=MAX_STEPS)
        cluster.world.RunFor(60.0)
        cluster.jobs.CheckEnd()
    return result.problem


def FailOverCutOff(seed: int, count: int) -> str:
    """The new master loses its power before its own or the others' files name it: nobody's help is needed when it is back.

    Returns what was broken, or nothing.
    """
    result = Result(seed)
    with _Scene("cut off", seed, count, result) as (cluster, rng):
        cluster.Found()
        second = cluster.nodes[1]
        second.StartMasterd(take_over=True)
        cluster.world.Run(until=lambda: second.serving, max_steps=MAX_STEPS)
        cluster.world.RunFor(rng.choice((0.0, rng.uniform(0.0, 1.0))))
        second.machine.PowerOff()
        if rng.random() < 0.5:
            for node in cluster.nodes:
                if node.masterd is not None:
                    node.masterd.Kill()
        cluster.healed = True  # whoever has to help from now on is counted
        cluster.Supervise()
        cluster.world.RunFor(rng.uniform(0.0, 100.0))
        second.Restart()
        deadline = cluster.world.elapsed + 3600.0
        cluster.world.Run(until=lambda: cluster.Serving() or cluster.world.elapsed > deadline, max_steps=MAX_STEPS)
        if not cluster.Serving() or cluster.human:
            raise Violation(f"serving: {[node.name for node in cluster.Serving()]}, helped {cluster.human} times")
    return result.problem and f"{result.problem}; {result.events[-6:]}"


def OldMasterReturns(seed: int, parts: type[MasterParts] = MasterParts) -> str:
    """The master loses its power, another node takes over and marks it offline; it comes back, tries to be master in every
    way that options allow, and is taken back by the command that its messages name.

    Returns what was broken, or nothing.
    """
    result = Result(seed)
    with _Scene("returns", seed, 3, result, parts) as (cluster, rng):
        cluster.Found()
        first, second, third = cluster.nodes
        cluster.world.RunFor(rng.uniform(0.0, 3.0))
        first.machine.PowerOff()
        second.StartMasterd(take_over=True)
        cluster.world.Run(until=lambda: second.serving, max_steps=MAX_STEPS)
        _Ask(cluster, cluster.workload.RoleOp(first.name, offline=True))
        cluster.world.RunFor(2.0)  # files that withdraw its certificate are behind by a second at most
        if rng.random() < 0.5:
            # Nothing of the new master gets through, so its copy is not emptied yet.
            cluster.network.Cut(second.name, first.name)
        first.Restart()
        for no_voting in (False, True, True):
            first.StartMasterd(no_voting=no_voting)
            masterd = first.masterd
            cluster.world.Run(until=lambda m=masterd: first.serving or not m.alive, max_steps=MAX_STEPS)  # type: ignore[misc]
            if first.serving:
                raise Violation(f"{first.name} is a second master beside {second.name}")
            cluster.world.RunFor(rng.uniform(0.0, 5.0))
        cluster.network.MendAll()
        _Ask(cluster, cluster.workload.RoleOp(first.name, offline=False))
        _Ask(cluster, cluster.workload.RoleOp(first.name, master_candidate=True))
        cluster.world.RunFor(30.0)
        store = cluster.open[second.name]
        if not second.serving or first.member.uuid not in store.Voters():
            raise Violation(f"{first.name} is not back; voters: {store.Voters().Names()}")
        third.machine.PowerOff()  # the one that is back is needed for a quorum now
        _Ask(cluster, cluster.workload.TagOp(None))
        if not cluster.jobs.IsQuiet():
            raise Violation("no job ends with the returned node as one of two")
    return result.problem and f"{result.problem}; {result.events[-6:]}"


def _Ask(cluster: MasterCluster, op: dict[str, Any]) -> None:
    """A job of one opcode, to its end."""
    cluster.workload.Ask([[op]])
    cluster.world.RunFor(20.0)
    deadline = cluster.world.elapsed + 300.0
    cluster.world.Run(until=lambda: cluster.jobs.IsQuiet() or cluster.world.elapsed > deadline, max_steps=MAX_STEPS)


def FullDiskForMoments(seed: int, parts: type[MasterParts] = MasterParts) -> str:
    """The master's disk is full for moments, while tags are set one after the other: what was told to be done is there.

    Returns what was broken, or nothing.
    """
    result = Result(seed)
    with _Scene("full", seed, 1, result, parts) as (cluster, rng):
        cluster.Found()
        (node,) = cluster.nodes
        for _ in range(12):
            process = node.machine.StartProcess(lambda: _SetTag(cluster.workload), "client")
            steps = cluster.world.steps + rng.randint(20, 400)
            cluster.world.Run(until=lambda steps=steps: cluster.world.steps >= steps, max_steps=MAX_STEPS)  # type: ignore[misc]
            node.machine.disk_full = True
            steps = cluster.world.steps + rng.randint(5, 60)
            cluster.world.Run(until=lambda steps=steps: cluster.world.steps >= steps, max_steps=MAX_STEPS)  # type: ignore[misc]
            node.machine.disk_full = False
            cluster.world.Run(until=lambda process=process: not process.alive, max_steps=MAX_STEPS)  # type: ignore[misc]
        cluster.world.RunFor(30.0)
        if cluster.Serving():
            problems = cluster.workload.CheckConfiguration(SnapshotOf(cluster.open[node.name]))
            if problems:
                raise Violation("; ".join(problems))
    return result.problem


def _SetTag(workload: Operators) -> None:
    try:
        with luxi_client.Client(connect_timeout=1, io_timeout=100, retry_delays=()) as client:
            (job_id,) = workload.SubmitJobs(client, [[workload.TagOp(None)]], [None])
            workload.Follow(client, job_id)
    except (errors.GenericError, TimeoutError, OSError):
        pass  # told that it failed, or nothing


def _Submit(cluster: MasterCluster, node: MasterNode, kinds: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Jobs of one opcode for each instance; nobody waits for them."""

    def work() -> None:
        workload = cluster.workload
        with luxi_client.Client(connect_timeout=1, io_timeout=100, retry_delays=()) as client:
            for op_id, more in kinds:
                for number in range(2):
                    op = workload.NewOp(op_id, instance_name=f"inst{number}.example.com", **more)
                    workload.SubmitJobs(client, [[op]], [None])

    process = node.machine.StartProcess(work, "client")
    cluster.world.Run(until=lambda: not process.alive, max_steps=MAX_STEPS)
