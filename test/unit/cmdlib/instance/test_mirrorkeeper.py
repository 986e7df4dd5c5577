"""The keeper of mirrors: which instances get a job, and when; the nodes' real driver, played programs (doc/design-drbd.rst)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master
from unit.cmdlib.instance.test_mirrors import WEB, Mirrors, _Empty

from ganeti import constants, errors, objects, opcodes, runtime
from ganeti.luxi.pending import Completed, Pending
from ganeti.server.mirrorkeeper import (
    PATIENCE,
    PER_NODE,
    PERIOD,
    RETRY_AFTER,
    RETRY_AT_LAST,
    MirrorKeeper,
    NeedsDecision,
)

QUEUED, WAITING, RUNNING = constants.JOB_STATUS_QUEUED, constants.JOB_STATUS_WAITING, constants.JOB_STATUS_RUNNING
SUCCESS, ERROR = constants.JOB_STATUS_SUCCESS, constants.JOB_STATUS_ERROR


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


class Kept:
    """A keeper whose jobs are taken in and wait for what the test makes of them."""

    def __init__(self, master: Master):
        self.jobs: list[str] = []
        self.states: dict[int, str] = {}
        self.refuses = False
        self.seen: objects.Snapshot | None = None
        """What the keeper goes by, if the configuration has changed since it looked there."""
        self._master = master
        self.keeper = MirrorKeeper(
            master.store, lambda: self.seen or master.snapshot, master.rpc, self._Submit, self.states.get
        )

    def _Submit(self, ops: Sequence[opcodes.OpCode]) -> Pending:
        [op] = ops
        assert isinstance(op, opcodes.OpInstanceSettleMirrors)
        if self.refuses:
            raise errors.JobQueueFull("the queue is full")
        self.jobs.append(str(op.instance_name))
        self.states[len(self.jobs)] = QUEUED
        return Completed(len(self.jobs))

    def Look(self, times: int = 1) -> list[str]:
        """Let it look so often, with a period after each look in which nodes answer; return the new jobs' instances."""
        before = len(self.jobs)
        for _ in range(times):
            self.keeper.Look()
            runtime.Sleep(PERIOD)
        return self.jobs[before:]

    def Asked(self) -> list[int]:
        """Return how often each node was asked in the next look."""
        for node in self._master.all:
            node.calls.clear()
        self.Look()
        return [node.calls.count("drbd_states") for node in self._master.all]


def _Add(master: Master, name: str = WEB, **values: Any) -> None:
    master.Run(OnDisks(name, {"size": 128}, disk_template="drbd", **{"snode": "node2", "start": True, **values}))


def test_what_two_looks_in_a_row_show_gets_one_job(three: Master) -> None:
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    assert kept.Look(4) == [], "nothing is wrong"
    mirrors.links.Cut()
    assert kept.Look(2) == [], "one answer says so"
    assert kept.Look() == [WEB]
    for state in (QUEUED, WAITING, RUNNING):
        kept.states[1] = state
        assert kept.Look(12) == [], "there is a job"
    mirrors.links.Heal()
    kept.states[1] = SUCCESS
    assert kept.Look(2) == []
    for _ in range(2):
        mirrors.links.Cut()
        assert kept.Look() == []
        mirrors.links.Heal()
        assert kept.Look(2) == [], "it was whole in between"


def test_a_job_that_failed_is_followed_by_another_one_after_a_while(three: Master) -> None:
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    mirrors.links.Cut()
    assert kept.Look(3) == [WEB]
    began = runtime.Monotonic() - PERIOD
    kept.states[1] = ERROR
    while not kept.Look():
        assert runtime.Monotonic() - began < RETRY_AFTER + 3 * PERIOD
    assert runtime.Monotonic() - began >= RETRY_AFTER
    kept.states[2] = SUCCESS
    assert kept.Look(2) == [], "what was reported before it ended may be what it has changed"
    assert kept.Look() == [WEB], "what has succeeded and did not help need not wait"
    del kept.states[3]
    assert kept.Look(2) == [], "a job that is not known any longer may have failed"
    kept.refuses = True
    kept.states[3] = ERROR
    assert kept.Look(20) == []
    kept.refuses = False
    assert kept.Look(10) == [WEB]


def test_what_was_reported_while_a_job_worked_makes_no_other_one(three: Master) -> None:
    """Each look reads what was answered after the one before: when the job was made, and while it worked."""
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    mirrors.links.Cut()
    assert kept.Look(3) == [WEB]
    kept.states[1] = RUNNING
    assert kept.Look(3) == []
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    kept.states[1] = SUCCESS
    assert kept.Look(6) == [], "the guest continues alone"
    mirrors.links.Heal()
    assert kept.Look(3) == [WEB]
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    kept.states[2] = SUCCESS
    assert kept.Look(6) == [], "both copies count again"


@pytest.mark.parametrize("fenced", [False, True])
def test_what_no_job_can_decide_gets_few_jobs(three: Master, fenced: bool) -> None:
    """As a migration that was cut off leaves it: open on both nodes, without a connection."""
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    mirrors.machines[1].devices[0].role = "Primary"
    if not fenced:
        for machine in mirrors.machines[:2]:
            machine.devices[0].options["fencing"] = "dont-care"
    mirrors.links.Cut()
    began = runtime.Monotonic()
    for _ in range(60):
        for _ in kept.Look():
            with pytest.raises(errors.OpExecError):
                three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
            kept.states[len(kept.jobs)] = ERROR
    assert any("migrate --cleanup" in text for text in three.last.messages)
    tries = (runtime.Monotonic() - began) / RETRY_AFTER
    if fenced:
        # The guest stands still: somebody may do something about it at any moment.
        assert tries / 2 <= len(kept.jobs) <= tries + 1
        return
    # 15, 30 and 60 s lie between them, then 120; all goes on, so no hurry is needed.
    assert len(kept.jobs) == 4


def test_jobs_that_fail_in_vain_become_rare_until_something_changes(three: Master) -> None:
    """Two sides may both have been written: nobody can tell but the administrator, and the guest goes on meanwhile."""
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    for machine in mirrors.machines[:2]:
        machine.devices[0].options["fencing"] = "dont-care"
    mirrors.machines[1].devices[0].role = "Primary"
    mirrors.links.Cut()

    def nextly() -> float:
        began = runtime.Monotonic()
        while not kept.Look():
            assert runtime.Monotonic() - began < 2 * RETRY_AT_LAST
        kept.states[len(kept.jobs)] = ERROR
        return runtime.Monotonic() - began

    def about(seconds: float) -> Any:
        return pytest.approx(seconds, abs=2 * PERIOD)

    nextly()
    assert [nextly() for _ in range(7)] == [about(seconds) for seconds in (15, 30, 60, 120, 240, 300, 300)]
    # What has changed is looked at as soon as after the first failure.
    (disk,) = three.snapshot.InstanceDisks(three.Instance(WEB))
    three.cfg.SetDisksBehind([disk.uuid], three.nodes[0])
    assert [nextly() for _ in range(3)] == [about(seconds) for seconds in (15, 15, 30)]
    # The guest stands still: from then on it is looked at often.
    three.cfg.SetDisksBehind([disk.uuid], None)
    assert [nextly() for _ in range(4)][-1] == about(60)
    mirrors.machines[0].devices[0].frozen = True
    mirrors.links.Publish()
    assert [nextly() for _ in range(4)] == [about(15)] * 4


def _FailDisk(number: int) -> Callable[[Master, Mirrors], None]:
    """A power cut before the record would make the old data of this side look complete."""
    return lambda _master, mirrors: mirrors.machines[number].Detach(0)


def _Keep(master: Master, _mirrors: Mirrors) -> None:
    """Both sides are complete and one does not count: if the primary's node dies meanwhile, there is none that does."""
    (disk,) = master.snapshot.InstanceDisks(master.Instance(WEB))
    master.cfg.SetDisksBehind([disk.uuid], master.nodes[1])


@pytest.mark.parametrize("event", [_FailDisk(0), _FailDisk(1), _Keep])
def test_what_waits_for_no_administrator_is_tried_as_often_as_before(
    three: Master, event: Callable[[Master, Mirrors], None]
) -> None:
    """The node is slow for minutes, or the other one does not confirm."""
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    event(three, mirrors)
    began = runtime.Monotonic()
    while runtime.Monotonic() < began + 10 * RETRY_AFTER:
        kept.Look()
        kept.states[len(kept.jobs)] = ERROR
    assert 8 <= len(kept.jobs) <= 10


def test_which_mirrors_are_looked_at(three: Master) -> None:
    Mirrors(three)
    kept = Kept(three)
    assert kept.keeper.Look() is False
    _Add(three, start=False)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    three.Run(OnDisks("plain.example.org", {"size": 128}, disk_template="plain", pnode="node3", start=True))
    assert kept.keeper.Look() is False, "one is not in use, the other is not a mirror"
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert kept.keeper.Look() is True and kept.Asked() == [1, 0, 0]
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    assert kept.Look() == [] and kept.keeper.Look() is False
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert kept.Asked() == [0, 1, 0]
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    instance = three.Instance(WEB)
    three.cfg.Update(instance.Replace(disks_active=False), None)
    assert kept.Asked() == [1, 0, 0], "it is meant to run"
    _Add(three, "far.example.org", pnode="node2", snode="node3")
    assert kept.Asked() == [1, 1, 0]
    three.Run(opcodes.OpNodeSetParams(node_name="node2", offline=True, force=True))
    assert kept.Asked() == [1, 0, 0], "node2 is offline"


def test_a_silent_node_delays_nothing_but_itself(three: Master, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    _Add(three, "far.example.org", pnode="node2", snode="node3")
    mirrors.links.Cut()
    hung = [True]

    def hang(name: str, _args: Any) -> None:
        if name == "drbd_states" and hung[0]:
            runtime.Sleep(PATIENCE + 2 * PERIOD)

    three[1].before = hang
    assert kept.Look(3) == [WEB]
    assert kept.Asked()[1] == 0, "it has not answered yet"
    kept.Look(int(3 * PATIENCE / PERIOD))
    said = [record.getMessage() for record in caplog.records if "the state of its mirrors" in record.getMessage()]
    assert len(said) == 1 and "node2.example.org did not report" in said[0], "once, however often it is asked"
    hung[0] = False
    assert "far.example.org" in kept.Look(int(2 * PATIENCE / PERIOD))
    assert "reports" in [record.getMessage() for record in caplog.records if "state of its" in record.getMessage()][-1]


def test_a_silent_look_between_two_others_proves_nothing(three: Master) -> None:
    """The mirror may have been whole, and another guest's link be the one that is cut now."""
    mirrors, kept = Mirrors(three), Kept(three)
    _Add(three)
    mirrors.links.Cut()
    assert kept.Look() == [], "it is asked, and will say that a decision is needed"
    three[0].faults["drbd_states"] = "DRBD is busy"
    assert kept.Look() == [], "that is read; the next answer says nothing"
    three[0].faults.clear()
    assert kept.Look(2) == [], "one answer since says that it is needed"
    assert kept.Look() == [WEB]


def _Said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged of silent nodes since the last call."""
    found = [record.getMessage() for record in caplog.records if "the state of its mirrors" in record.getMessage()]
    caplog.clear()
    return found


def _InWords(words: Callable[[], str]) -> Callable[[str, Any], None]:
    """Return what makes a node refuse to say how its mirrors are, each time in the words that it has then."""

    def refuse(name: str, _args: Any) -> None:
        if name == "drbd_states":
            raise errors.GenericError(words())

    return refuse


def test_a_node_that_stays_silent_is_logged_when_it_has_something_new_to_say_and_once_a_minute_at_most(
    three: Master, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Mirrors(three)
    kept = Kept(three)
    _Add(three)
    minute, looks = 60.0, int(60.0 / PERIOD)
    three[0].before = _InWords(lambda: "DRBD hangs")
    kept.Look(5 * looks)
    (said,) = _Said(caplog)
    assert "node1.example.org did not report" in said and said.endswith("DRBD hangs"), "the same is said once"
    three[0].before = _InWords(lambda: f"DRBD has hung until {runtime.Monotonic()}")
    began = runtime.Monotonic()
    kept.Look(5 * looks)
    times = [float(text.rpartition(" ")[2]) for text in _Said(caplog)]
    assert 4 <= len(times) <= 6 and times[0] - began <= 2 * PERIOD, "the last words are older than a minute"
    assert all(later - earlier >= minute - 1 for earlier, later in itertools.pairwise(times))
    three[0].before = lambda _name, _args: None
    kept.Look(2)
    assert _Said(caplog) == ["Node node1.example.org reports the state of its mirrors again"]
    three[0].before = _InWords(lambda: "DRBD hangs")
    kept.Look(2)
    assert len(_Said(caplog)) == 1, "it was well in between"


def test_of_a_silent_node_only_the_beginning_of_its_reason_is_logged(
    three: Master, caplog: pytest.LogCaptureFixture
) -> None:
    Mirrors(three)
    kept = Kept(three)
    _Add(three)
    three[0].before = _InWords(lambda: "DRBD hangs: " + "x" * 5000)
    kept.Look(2)
    (said,) = _Said(caplog)
    assert "DRBD hangs: xxx" in said and len(said) < 600


def test_an_offline_node_owes_no_answer(three: Master, caplog: pytest.LogCaptureFixture) -> None:
    """It is marked offline just after the keeper has found out whom to ask."""
    Mirrors(three)
    kept = Kept(three)
    _Add(three, pnode="node2", snode="node3")
    kept.seen = three.snapshot
    three.Run(opcodes.OpNodeSetParams(node_name="node2", offline=True, force=True))
    caplog.clear()
    assert kept.Asked() == [0, 0, 0] and kept.Look(60) == []
    assert _Said(caplog) == []
    kept.seen = None
    three.Run(opcodes.OpNodeSetParams(node_name="node2", offline=False))
    three[1].before = _InWords(lambda: "DRBD hangs")
    kept.Look(2)
    assert len(_Said(caplog)) == 1, "it owes one again"


def test_a_node_whose_programs_hang_does_not_get_every_worker(three: Master, caplog: pytest.LogCaptureFixture) -> None:
    mirrors, kept = Mirrors(three), Kept(three)
    names = [f"i{number}.example.org" for number in range(PER_NODE + 2)]
    for name in names:
        _Add(three, name)
    _Add(three, "far.example.org", pnode="node2", snode="node3")
    mirrors.links.Cut()
    first = kept.Look(3)
    assert len(first) == PER_NODE + 1 and "far.example.org" in first
    assert kept.Look(3) == []
    full = [record.getMessage() for record in caplog.records if "wait for a decision" in record.getMessage()]
    assert len(full) == 1 and "node1.example.org" in full[0] and "jobs 1, 2" in full[0]
    number = next(index for index, name in enumerate(kept.jobs, 1) if name != "far.example.org")
    kept.states[number] = WAITING
    [more] = kept.Look()
    assert more in set(names) - set(first), "one that waits for a lock calls no node"
    kept.states[number] = ERROR
    assert kept.Look() == [] and len(set(kept.jobs)) == PER_NODE + 2
    kept.states.update(dict.fromkeys(kept.states, ERROR))
    runtime.Sleep(RETRY_AFTER)
    (left,) = set(names) - set(kept.jobs)
    assert next(name for name in kept.Look() if name in names) == left, "it has waited longest"


def test_turns(three: Master) -> None:
    Mirrors(three)
    kept = Kept(three)
    assert kept.keeper.Turn() is None, "it waits for a change"
    _Add(three)
    began = runtime.Monotonic()
    assert kept.keeper.Turn() == 0.0 and runtime.Monotonic() - began == pytest.approx(PERIOD, abs=0.1)


def test_when_a_decision_is_needed(three: Master) -> None:
    Mirrors(three)
    _Add(three)
    (disk,) = three.snapshot.InstanceDisks(three.Instance(WEB))
    primary, secondary = three.nodes[:2]
    whole = {"connected": True, "standalone": False, "in_resync": False, "local_uptodate": True, "peer_uptodate": True,
             "primary": True, "frozen": False, "incomplete": False, "stranger": None}  # fmt: skip
    lost = {**whole, "connected": False, "peer_uptodate": False}
    frozen = {**lost, "frozen": True}
    served = {**whole, "local_uptodate": False, "incomplete": True}
    behind = {node: disk.Replace(behind={"node": node, "since": 1.0}) for node in (primary, secondary)}
    for record, state, needed in (
        (disk, None, False),
        (disk, whole, False),
        (disk, frozen, True),
        (disk, {**frozen, "local_uptodate": False}, False),
        (disk, {**frozen, "primary": False}, False),
        (disk, lost, True),
        (behind[secondary], lost, False),
        (behind[secondary], frozen, True),
        (behind[primary], frozen, True),
        (behind[primary], lost, True),
        (behind[primary], {**whole, "peer_uptodate": False}, True),
        (disk, served, True),
        (behind[primary], served, False),
        (behind[secondary], served, True),
        (disk, {**served, "primary": False}, False),
        (disk, {**served, "in_resync": True, "connected": False}, False),
        (disk, {**served, "peer_uptodate": False}, False),
        (behind[primary], whole, True),
        (behind[secondary], whole, True),
        (behind[secondary], {**whole, "peer_uptodate": False}, False),
    ):
        assert NeedsDecision(record, primary, state) is needed, (record.behind, state)


def test_a_guest_that_needs_the_other_node_gets_no_jobs(three: Master) -> None:
    """One of its disks has no data here: it stands still until the link is back, whatever becomes of the other disk."""
    mirrors, kept = Mirrors(three), Kept(three)
    three.Run(OnDisks(WEB, {"size": 128}, {"size": 128}, disk_template="drbd", snode="node2", start=True))
    machine = mirrors.machines[0]
    machine.Detach(min(machine.devices))
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    mirrors.links.Cut()
    assert kept.Look(6) == []
