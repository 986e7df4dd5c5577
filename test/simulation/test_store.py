"""The store's promises under faults, and that the simulation would see them broken."""

from __future__ import annotations

import random

import pytest
from simulated import World
from simulation.harness import bugs, scenes
from simulation.harness.clients import Clients
from simulation.harness.cluster import Cluster, Parts
from simulation.harness.play import Describe
from simulation.harness.run import MAX_STEPS, Run

from ganeti import pathutils, runtime
from ganeti.store.base import KIND_ARCHIVED

SEEDS = 500
_CHUNK = 50
# Within so many seeds each planted bug shows.
SEEDS_FOR_A_BUG = 300


@pytest.mark.req("D20-JOB-03", "D20-JOB-09", "D20-VOTE-03", "D20-VOTE-07", "D20-VOTE-11")
@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_no_promise_is_broken_under_faults(start: int) -> None:
    broken = [result for result in map(Run, range(start, start + _CHUNK)) if result.problem]
    assert not broken, "\n".join(Describe("store", result, events=False) for result in broken)


@pytest.mark.req("D20-JOB-13", "D20-JOB-14", "D20-JOB-16", "D20-JOB-17")
@pytest.mark.parametrize("start", (1, 31, 61))
def test_files_show_what_is_acknowledged(start: int) -> None:
    broken = [result for seed in range(start, start + 30) if (result := Run(seed, exporting=True)).problem]
    assert not broken, "\n".join(Describe("store", result, events=False) for result in broken)


def _Quiet(world: World, seed: int) -> Cluster:
    """Three candidates without faults, with their files, after some changes."""
    clients = Clients(random.Random(seed), 40)
    clients.pause = (0.0, 0.3)
    cluster = Cluster(world, 3, 3, clients, exporting=True)
    clients.SetMembers(cluster.members, cluster.members)
    cluster.Found()
    world.Run(until=lambda: clients.IsDone() and clients.IsIdle(), max_steps=MAX_STEPS)
    return cluster


def test_rows_of_archived_jobs_go_when_every_voter_has_the_file() -> None:
    with World(4) as world:
        cluster = _Quiet(world, 4)
        archived = [
            row.id for _, rows in cluster.ledger.by_seq.values() for row in rows or () if row.kind == KIND_ARCHIVED
        ]
        assert archived
        world.RunFor(30.0)
        for node in cluster.nodes:
            assert not [row for row in node.Read()[2] if row.kind == KIND_ARCHIVED and row.value is not None]
            paths = [pathutils.ArchivedJobFile(int(job)) for job in archived]
            assert all(node.machine.Call(lambda paths=paths: [runtime.Exists(path) for path in paths]))


def test_the_files_are_at_most_a_second_behind() -> None:
    with World(5) as world:
        cluster = _Quiet(world, 5)
        store = cluster.open["node1"]
        for number in range(5):
            op = cluster.workload.NewRowsOp(cluster, str(100 + number))
            cluster.workload.Submit(cluster.nodes[0], store, op)
            world.Run(until=lambda op=op: op.outcome is not None, max_steps=MAX_STEPS)
            acknowledged = world.elapsed
            for node in cluster.nodes:
                path = pathutils.JobFile(100 + number)
                while not node.machine.Call(lambda path=path: runtime.Exists(path)):
                    assert world.elapsed < acknowledged + 1.0, node.name
                    world.RunFor(0.02)


def test_many_faults_at_once() -> None:
    broken = [result for seed in range(1, 41) if (result := Run(seed, faults=9, changes=80)).problem]
    assert not broken, "\n".join(Describe("store", result, events=False) for result in broken)


def test_faults_really_strike_and_masters_change() -> None:
    results = [Run(seed) for seed in range(1, 41)]
    assert sum(result.masters for result in results) > 60
    assert sum(result.outcomes.get("not known", 0) for result in results) > 5
    assert sum(result.outcomes.get("acknowledged", 0) for result in results) > 400


def test_a_seed_gives_the_same_run_again() -> None:
    for seed in (3, 11):
        first, second = Run(seed), Run(seed)
        assert (first.steps, first.events) == (second.steps, second.events)


@pytest.mark.parametrize("bug", bugs.ALL_BUGS)
def test_each_planted_bug_is_found(bug: type[Parts]) -> None:
    assert any(Run(seed, bug).problem for seed in range(1, SEEDS_FOR_A_BUG + 1))


def test_forced_starts_give_up_only_what_the_silent_nodes_held() -> None:
    ends = [scenes.ForcedStart(seed) for seed in range(1, 121)]
    assert [problem for problem, _ in ends if problem] == []
    assert sum(lost for _, lost in ends) > 5


def test_a_seq_of_an_old_epoch_does_not_count() -> None:
    assert scenes.SeqOfAnOldEpoch(Parts) == ""


def test_it_would_be_seen_if_a_seq_of_an_old_epoch_did_count() -> None:
    assert "acknowledged" in scenes.SeqOfAnOldEpoch(bugs.OldEpochCounted)
