"""Rule 7 of doc/design-store.rst for the configuration: a job's change waits for a quorum, everybody else is answered."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from simulated import World
from support import configs
from support.store_nodes import Until
from support.writers import Setup

from ganeti import errors, objects, runtime
from ganeti.rpc import RpcRunner
from ganeti.rpc.resolver import SnapshotResolver
from ganeti.store import DiskRefused, MasterEnded, MasterLost, NoQuorum, NotKnown, StoreEnded, StoreError

WEB = configs.WEB
SILENCE = 400.0
"""Longer than any limit of the store or the configuration."""


class Job:
    """A thread that does what a running job does; remembers how it ended."""

    def __init__(self, work: Callable[[], Any]):
        self.result: Any = None
        self.error: Exception | None = None
        self.ended = False
        self._work = work
        runtime.Thread(self._Run, "job").start()

    def _Run(self) -> None:
        try:
            self.result = self._work()
        except Exception as err:  # noqa: BLE001 - the test looks at it
            self.error = err
        self.ended = True


def _Play(story: Callable[[Setup, World], None], count: int = 3, candidates: int = 3) -> None:
    with World(7) as world:

        def play() -> None:
            setup = Setup("/srv", count, candidates)
            story(setup, world)
            setup.Close()

        world.AddMachine("all").Call(play)
        assert not world.failures


def _Silence(setup: Setup, *numbers: int, silent: bool = True) -> None:
    for number in numbers:
        setup.cluster[number].up = not silent


def _Web(setup: Setup) -> objects.Instance:
    return setup.cfg.Snapshot().instances[WEB]


def _Node(setup: Setup, number: int) -> objects.Node:
    return setup.cfg.Snapshot().nodes[setup.nodes[number]]


def test_a_job_between_two_changes_waits_until_the_quorum_is_back() -> None:
    """The end of a migration: the guest has moved, and the configuration must follow whatever happens to the others."""

    def story(setup: Setup, _world: World) -> None:
        cfg = setup.cfg
        other = setup.nodes[1]

        def migrate() -> None:
            cfg.MarkInstanceDisksActive(WEB)
            _Silence(setup, 1, 2)
            cfg.SetInstancePrimaryNode(WEB, other)  # under way when the silence is noticed
            cfg.MarkInstanceDown(WEB)

        job = Job(migrate)
        runtime.Sleep(SILENCE)
        assert not job.ended
        assert _Web(setup).primary_node != other, "nobody sees what is not acknowledged"
        second = Job(lambda: cfg.AddTags("instance", WEB, ["late"]))  # begins when the silence is known
        runtime.Sleep(SILENCE)
        assert not second.ended
        _Silence(setup, 1, 2, silent=False)
        Until(lambda: job.ended and second.ended, 30)
        assert (job.error, second.error) == (None, None)
        web = _Web(setup)
        assert (web.primary_node, web.admin_state, "late" in web.tags) == (other, "down", True)
        assert setup.Stored() == cfg.Snapshot()

    _Play(story)


def test_a_jobs_change_of_the_voters_waits_for_room_on_the_disk() -> None:
    def story(setup: Setup, world: World) -> None:
        (machine,) = world.machines.values()
        machine.disk_full = True
        job = Job(lambda: setup.cfg.Update(_Node(setup, 1).Replace(master_candidate=False)))
        runtime.Sleep(60)
        assert not job.ended
        machine.disk_full = False
        Until(lambda: job.ended, 30)
        assert job.error is None
        assert set(setup.store.Voters().by_uuid) == {setup.nodes[0]}

    _Play(story, count=2, candidates=2)


def test_requests_from_outside_a_job_are_answered() -> None:
    """A client at the socket is told after seconds what is not known, and at once that nothing can be changed."""

    def story(setup: Setup, _world: World) -> None:
        _Silence(setup, 1, 2)
        answers: list[tuple[float, Exception | None]] = []
        began = runtime.Monotonic()

        def ask(tag: str) -> None:
            setup.cfg.TransactAsync(
                lambda draft: draft.Touch(draft.root.cluster.Replace(tags=[tag])),
                lambda error: answers.append((runtime.Monotonic() - began, error)),
            )

        ask("first")
        Until(lambda: len(answers) == 1, 20)
        ask("second")
        Until(lambda: len(answers) == 2, 1)
        assert [type(error) for _, error in answers] == [NotKnown, NoQuorum]
        assert answers[0][0] < 10
        _Silence(setup, 1, 2, silent=False)
        Until(lambda: setup.cfg.Snapshot().cluster.tags == ("first",), 30)

    _Play(story)


def test_a_node_taken_offline_on_request_is_answered_in_time() -> None:
    """The request thread of a standstill must not wait as a job does, neither before the change begins nor after."""

    def story(setup: Setup, _world: World) -> None:
        _Silence(setup, 1, 2, 3, 4)
        began = runtime.Monotonic()
        with pytest.raises(NotKnown):  # the silence is noticed while the change is under way
            setup.cfg.TakeOffline(setup.nodes[4])
        assert runtime.Monotonic() - began < 20
        with pytest.raises(StoreError, match=r"node4\.example\.org is still a voter: an earlier change"):
            setup.cfg.TakeOffline(setup.nodes[3])
        assert runtime.Monotonic() - began < 100

    _Play(story, count=5, candidates=5)


def test_a_request_that_cannot_end_a_standstill_is_told_at_once() -> None:
    def story(setup: Setup, _world: World) -> None:
        _Silence(setup, 1, 2, 3, 4)
        waits = Job(lambda: setup.cfg.MarkInstanceDown(WEB))
        runtime.Sleep(20)
        began = runtime.Monotonic()
        with pytest.raises(NoQuorum):
            setup.cfg.TakeOffline(setup.nodes[3])
        assert runtime.Monotonic() - began < 1
        assert not waits.ended

    _Play(story, count=5, candidates=5)


def test_a_jobs_change_of_the_voters_waits_too() -> None:
    """Neither a demotion nor a promotion is given up while the quorum is missing, however long the copy may take."""

    def story(setup: Setup, _world: World) -> None:
        cfg = setup.cfg
        _Silence(setup, 1, 2, 3)
        waits = Job(lambda: cfg.MarkInstanceDown(WEB))
        runtime.Sleep(20)
        jobs = [
            waits,
            Job(lambda: cfg.Update(_Node(setup, 1).Replace(master_candidate=False))),
            Job(lambda: cfg.PromoteNode(setup.nodes[4], timeout=30)),
        ]
        runtime.Sleep(SILENCE)
        assert not any(job.ended for job in jobs)
        _Silence(setup, 1, 2, 3, silent=False)
        Until(lambda: all(job.ended for job in jobs), 60)
        assert [job.error for job in jobs] == [None] * 3
        assert set(setup.store.Voters().by_uuid) == {setup.nodes[0], *setup.nodes[2:]}

    _Play(story, count=5, candidates=4)


def test_a_waiting_job_does_not_block_the_way_out() -> None:
    """Two of four are dead: a demotion of a living one waits, the dead one is taken offline, and that ends both waits."""

    def story(setup: Setup, _world: World) -> None:
        cfg = setup.cfg
        _Silence(setup, 2, 3)
        waits = Job(lambda: cfg.MarkInstanceDown(WEB))
        runtime.Sleep(20)
        # Of the three that are left two are silent.
        demotion = Job(lambda: cfg.Update(_Node(setup, 1).Replace(master_candidate=False)))
        runtime.Sleep(20)
        assert not demotion.ended
        cfg.TakeOffline(setup.nodes[3])
        Until(lambda: waits.ended, 30)
        assert waits.error is None
        cfg.TakeOffline(setup.nodes[2])
        Until(lambda: demotion.ended, 60)
        assert demotion.error is None
        assert set(setup.store.Voters().by_uuid) == {setup.nodes[0]}

    _Play(story, count=4, candidates=4)


def test_the_dead_one_of_two_is_taken_out() -> None:
    """No change without the other; taking it out needs only the master, and is what the waiting job waits for."""

    def story(setup: Setup, _world: World) -> None:
        _Silence(setup, 1)
        job = Job(lambda: setup.cfg.MarkInstanceDown(WEB))
        runtime.Sleep(SILENCE)
        assert not job.ended
        setup.cfg.TakeOffline(setup.nodes[1])
        Until(lambda: job.ended, 10)
        assert job.error is None
        root = setup.cfg.Snapshot()
        assert (root.instances[WEB].admin_state, root.nodes[setup.nodes[1]].offline) == ("down", True)
        assert set(setup.store.Voters().by_uuid) == {setup.nodes[0]}

    _Play(story, count=2, candidates=2)


def test_a_full_disk_makes_a_job_wait_and_a_request_fail() -> None:
    def story(setup: Setup, world: World) -> None:
        (machine,) = world.machines.values()
        machine.disk_full = True
        job = Job(lambda: setup.cfg.MarkInstanceDown(WEB))
        answers: list[Exception | None] = []
        setup.cfg.TransactAsync(lambda draft: draft.BumpCluster(), answers.append)
        runtime.Sleep(60)
        assert not job.ended
        assert [type(error) for error in answers] == [DiskRefused]
        machine.disk_full = False
        Until(lambda: job.ended, 30)
        assert job.error is None
        assert _Web(setup).admin_state == "down"
        assert _Web(setup).serial_no == 3, "stored once"

    _Play(story, count=1, candidates=1)


def _Acting(setup: Setup) -> tuple[RpcRunner, Callable[[], list[str]]]:
    """Calls as the master daemon makes them, and the names of those that nodes served."""
    rpc = RpcRunner(setup.cluster[0].way, SnapshotResolver(setup.cfg.Snapshot), lambda: str(setup.store.ActingEpoch()))
    return rpc, lambda: [name for node in setup.cluster.nodes for name in node.served if not name.startswith("store_")]


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        (lambda setup: setup.store.Refused("99.new", "node2.example.org", setup.cluster.members[1].uuid), MasterLost),
        (lambda setup: setup.store.Stop(1.0), StoreEnded),
    ],
    ids=["a newer master", "a forced stop"],
)
def test_a_job_whose_master_ends_while_it_waits_never_acts_again(end: Any, wanted: type[MasterEnded]) -> None:
    """Whether its change had begun or not, it hears that this master has ended; then no node takes a call from it."""

    def story(setup: Setup, _world: World) -> None:
        rpc, served = _Acting(setup)
        _Silence(setup, 1, 2)
        acted: list[str] = []

        def work() -> None:
            try:
                setup.cfg.MarkInstanceDown(WEB)
            except errors.GenericError as err:
                assert isinstance(err, wanted)
                # What a logical unit does to undo its work.
                for act in (
                    lambda: rpc.call_instance_shutdown(setup.nodes[0], {"name": "web.example.org"}, 1, "x"),
                    lambda: setup.cfg.MarkInstanceUp(WEB),
                    lambda: setup.cfg.PromoteNode(setup.nodes[1]),
                ):
                    with pytest.raises(wanted):
                        act()
                raise
            acted.append("went on")

        jobs = [Job(work)]
        runtime.Sleep(20)
        jobs.append(Job(work))
        runtime.Sleep(20)
        end(setup)
        Until(lambda: all(job.ended for job in jobs), 30)
        assert [type(job.error) for job in jobs] == [wanted] * 2
        assert (acted, served()) == ([], [])

    _Play(story)


# --- what is under way is in use ----------------------------------------------------------------------------------------


def _DrbdInstance(setup: Setup) -> tuple[objects.Instance, objects.Disk]:
    """A second instance with a DRBD disk like the example's, nothing of it reserved by anybody."""
    root = setup.cfg.Snapshot()
    web, dev = root.instances[WEB], root.disks[configs.WEB_DISK]
    children = [
        child.Replace(uuid=configs.Uuid(20 + n), logical_id=["xenvg", f"new{n}"])
        for n, child in enumerate(dev.children)
    ]
    disk = dev.Replace(uuid=configs.Uuid(2), logical_id=[*dev.logical_id[:2], 11002, 1, 1, "s" * 40], children=children)
    nic = web.nics[0].Replace(mac="aa:00:00:00:00:07", uuid=configs.Uuid(3))
    new = web.Replace(uuid=configs.Uuid(1), name="new", disks=[disk.uuid], nics=[nic], network_port=11003)
    return new, disk


def test_values_of_a_change_under_way_are_not_handed_out() -> None:
    """Nobody reserved them, and readers do not see the instance yet: another job must still not get them."""

    def story(setup: Setup, _world: World) -> None:
        cfg = setup.cfg
        new, disk = _DrbdInstance(setup)
        _Silence(setup, 1, 2)
        job = Job(lambda: cfg.AddInstance(new, None, [disk]))
        Until(lambda: cfg.Newest() is not cfg.Snapshot())
        for reserve, value in (
            (cfg.ReserveMAC, new.nics[0].mac),
            (cfg.ReserveLV, "xenvg/new1"),
        ):
            with pytest.raises(errors.ReservationError, match="in use already"):
                reserve(value, 7)
        # The example's disk has minor 0 on both nodes.
        assert cfg.AllocateDRBDMinor(list(disk.nodes), configs.Uuid(9), 7) == [2, 2]
        assert cfg.AllocatePort(7) == 11004
        assert all(cfg._IsUuidUsed(uuid) for uuid in (new.uuid, new.nics[0].uuid, disk.uuid, disk.children[0].uuid))
        _Silence(setup, 1, 2, silent=False)
        Until(lambda: job.ended, 30)
        assert job.error is None

    _Play(story)


def test_what_a_withdrawn_change_took_stays_its_jobs_own() -> None:
    """The disk is full: until the job's change is stored at last, its addresses and minors are not given to others."""

    def story(setup: Setup, world: World) -> None:
        cfg = setup.cfg
        (machine,) = world.machines.values()
        net = cfg.AddNetwork(objects.Network(name="lan", network="10.0.0.0/29", uuid=configs.Uuid(5)))
        new, disk = _DrbdInstance(setup)
        address = cfg.GenerateIp(net.uuid, 1)
        minors = cfg.AllocateDRBDMinor(list(disk.nodes), disk.uuid, 1)
        assert minors == [1, 1]
        nic = new.nics[0].Replace(ip=address, network=net.uuid)
        machine.disk_full = True
        job = Job(lambda: cfg.AddInstance(new.Replace(nics=[nic]), 1, [disk]))
        runtime.Sleep(5)
        assert cfg.Newest() is cfg.Snapshot()
        assert cfg.AllocateDRBDMinor(list(disk.nodes), configs.Uuid(9), 2) == [2, 2]
        with pytest.raises(errors.ReservationError, match="reserved by job 1"):
            cfg.ReserveIp(net.uuid, address, 2)
        machine.disk_full = False
        Until(lambda: job.ended, 30)
        assert job.error is None
        with pytest.raises(errors.ReservationError, match="in use already"):
            cfg.ReserveIp(net.uuid, address, 2)
        # What is stored needs no reservation.
        assert cfg._reservations.Count(1) == 0

    _Play(story, count=2, candidates=1)


def test_a_node_that_became_a_voter_meanwhile_is_not_removed_as_a_regular_one() -> None:
    """Who votes is looked at again when the change is made: a voter leaves through the store only."""

    def story(setup: Setup, _world: World) -> None:
        cfg = setup.cfg
        uuid = setup.nodes[3]
        _Silence(setup, 1, 2)
        promotion = Job(lambda: cfg.PromoteNode(uuid))
        Until(lambda: cfg.Newest().nodes[uuid].master_candidate, 30)
        removal = Job(lambda: cfg.RemoveNode(uuid))
        runtime.Sleep(20)
        _Silence(setup, 1, 2, silent=False)
        Until(lambda: promotion.ended and removal.ended, 60)
        assert promotion.error is None
        assert isinstance(removal.error, errors.ConfigurationError)
        assert "is out of date" in str(removal.error)
        assert uuid in setup.store.Voters() and cfg.Snapshot().nodes[uuid].master_candidate

    _Play(story, count=4, candidates=3)


def test_roots_that_nobody_reads_are_forgotten() -> None:
    """Each change makes a root; a master that ran for a year does not hold them all."""

    def story(setup: Setup, _world: World) -> None:
        cfg = setup.cfg
        first = weakref.ref(cfg.Snapshot())
        for state in (cfg.MarkInstanceDown, cfg.MarkInstanceUp, cfg.MarkInstanceDown):
            state(WEB)
        gc.collect()
        assert first() is None
        assert cfg.Newest() is cfg.Snapshot()

    _Play(story, count=1, candidates=1)
