"""Which job comes next, and what it costs to know."""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any

import pytest
from support.queues import Op

from ganeti.jqueue import filters, scheduler
from ganeti.jqueue import job as jobs
from ganeti.jqueue.entry import Entry


@functools.cache
def _Input(limits: tuple[str, ...]) -> jobs.OpInput:
    return jobs.OpInput(Op(reason=[["me", f"rate-limit:{limit}", 1] for limit in limits]), "x")


def MakeEntry(job_id: int, *limits: str, priority: int = 0) -> Entry:
    return Entry(jobs.Job(job_id, [jobs.OpState(_Input(limits), priority=priority)], (1, 0)), [jobs.OpLog()])


class CountingRules(filters.RuleSet):
    """Rules that answer what the test says, and count how often they are asked."""

    def __init__(self, **verdicts: str):
        super().__init__()
        self.verdicts = verdicts
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 1

    def Judge(self, job: jobs.Job, limits: filters.Limits = ()) -> filters.Verdict:
        self.asked.append(job.id)
        return filters.Verdict(self.verdicts.get(f"j{job.id}", filters.ACCEPT), "rule", limits)


class Stage:
    """A scheduler whose one worker is the test."""

    def __init__(self) -> None:
        self.rejected: list[int] = []
        self.wishes = 0
        self.scheduler = scheduler.Scheduler(lambda entry: self.rejected.append(entry.id), self._JudgeSoon)
        self.scheduler.SetMaxRunning(1000)
        self.scheduler.SetActive(True)

    def _JudgeSoon(self) -> None:
        self.wishes += 1

    def Add(self, *entries: Entry, after: tuple[int, ...] = ()) -> None:
        self.scheduler.Add([(entry, after) for entry in entries])

    def Started(self) -> list[int]:
        """Take whatever may run now."""
        taken = []
        while self.scheduler._ready:  # ``Next`` would wait for ever where there is nothing
            with self.scheduler._lock:
                entry = self.scheduler._Pick(self.scheduler._ready)
            taken += [entry.id] if entry is not None else []
        return taken

    def End(self, entry: Entry) -> None:
        self.scheduler.Ended(entry.id)
        self.scheduler.Release(entry, False)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def EndCost(count: int) -> float:
    """Seconds of CPU from the end of a job until workers find nothing more to start, where ``count`` wait for two slots."""
    stage = Stage()
    stage.Add(*(MakeEntry(n, "2:backup") for n in range(count)))
    running = stage.Started()
    assert running == [0, 1]
    costs = []
    for _ in range(60):
        entry = stage.scheduler._entries[running.pop(0)]
        began = time.thread_time()
        stage.End(entry)
        found = stage.Started()  # by all workers: too many that were released cost those that put them back
        costs.append(time.thread_time() - began)
        assert len(found) == 1
        running += found
    assert running == [60, 61]
    return statistics.median(costs)


def test_the_end_of_a_job_costs_the_same_however_many_wait_for_its_slot():
    assert EndCost(50_000) - EndCost(100) < 0.001


def test_a_free_slot_goes_to_the_most_urgent_of_those_that_wait(stage):
    first = MakeEntry(1, "1:disks")
    stage.Add(first)
    assert stage.Started() == [1]
    stage.Add(MakeEntry(2, "1:disks"), MakeEntry(3, "1:disks", priority=-10), MakeEntry(4))
    assert stage.Started() == [4]
    waiting = stage.scheduler._entries[2]
    waiting.draft = jobs.WithPriority(waiting.draft, -20)
    stage.scheduler.Reprioritise(waiting)
    stage.End(first)
    assert stage.Started() == [2]
    stage.End(waiting)
    assert stage.Started() == [3]


def test_a_job_needs_a_slot_of_each_of_its_limits_and_blocks_none_it_cannot_use(stage):
    a, b, both, more = MakeEntry(1, "1:a"), MakeEntry(2, "1:b"), MakeEntry(3, "1:a", "1:b"), MakeEntry(4, "1:a")
    stage.Add(a, b)
    assert stage.Started() == [1, 2]
    stage.Add(both, more)
    assert stage.Started() == []
    stage.End(a)
    assert stage.Started() == [4]  # "both" still lacks b
    stage.End(b)
    assert stage.Started() == []
    stage.End(more)
    assert stage.Started() == [3]
    stage.Add(MakeEntry(5, "1:a"), MakeEntry(6, "1:b"))
    assert stage.Started() == []
    stage.End(both)
    assert stage.Started() == [5, 6]


def test_a_canceled_job_leaves_its_place_and_its_slot_to_others(stage):
    running, second, third = (MakeEntry(n, "1:x") for n in (1, 2, 3))
    stage.Add(running, second, third)
    assert stage.Started() == [1]
    stage.scheduler.Ended(second.id)  # canceled while it waited
    stage.End(running)
    assert stage.Started() == [3]
    assert set(stage.scheduler._places) == set(stage.scheduler._waiting) == set()
    # Canceled after a slot was given to it and before a worker came.
    fourth, fifth = MakeEntry(4, "1:x"), MakeEntry(5, "1:x")
    stage.Add(fourth, fifth)
    assert stage.Started() == []
    stage.End(third)
    stage.scheduler.Ended(fourth.id)
    assert stage.Started() == [5]


def test_a_job_that_ended_while_its_worker_was_to_come_back_is_forgotten(stage):
    entry = MakeEntry(1, "1:x")
    stage.Add(entry)
    assert stage.Started() == [1]
    stage.scheduler.Ended(1)
    stage.scheduler.Release(entry, True)
    stage.Add(MakeEntry(2, "1:x"))
    assert stage.Started() == [2]
    assert stage.scheduler.Busy() == [2]


def test_each_job_is_judged_once_by_each_set_of_rules_and_not_by_who_adds_it(stage):
    first = CountingRules(j2=filters.PAUSE)
    stage.scheduler.SetRules(first)
    blocked = MakeEntry(4)
    stage.Add(*(MakeEntry(n) for n in (1, 2, 3)))
    stage.Add(blocked, after=(1,))
    assert first.asked == [] and stage.wishes >= 2
    assert stage.Started() == []  # none may start before it is judged
    stage.scheduler.Judge()
    assert stage.Started() == [1, 3]
    one = stage.scheduler._entries[1]
    stage.scheduler.Release(one, True)
    assert stage.Started() == [1]
    stage.End(one)
    assert stage.Started() == [4]
    assert sorted(first.asked) == [1, 2, 3, 4]
    second = CountingRules(j3=filters.REJECT, j2=filters.ACCEPT)
    stage.scheduler.SetRules(second)
    assert stage.Started() == []
    stage.scheduler.Judge()
    assert stage.Started() == [2]
    assert sorted(second.asked) == [2, 3, 4] and stage.rejected == [3]
    assert sorted(first.asked) == [1, 2, 3, 4]


def test_a_job_that_was_paused_moves_with_its_priority_again(stage):
    stage.scheduler.SetRules(CountingRules(j1=filters.PAUSE))
    one, two = MakeEntry(1), MakeEntry(2)
    stage.Add(one, two)
    stage.scheduler.Judge()
    assert stage.Started() == [2]
    stage.scheduler.SetRules(CountingRules())
    stage.Add(MakeEntry(3))
    stage.scheduler.Judge()
    one.draft = jobs.WithPriority(one.draft, 10)
    stage.scheduler.Reprioritise(one)
    assert stage.Started() == [3, 1]


def test_new_jobs_are_judged_before_those_that_have_a_verdict(stage):
    stage.Add(*(MakeEntry(n) for n in range(300)))
    rules = CountingRules()
    stage.scheduler.SetRules(rules)
    stage.Add(MakeEntry(1000))
    stage.scheduler.Judge()
    assert rules.asked[0] == 1000 and len(rules.asked) == 301


def test_rules_that_come_while_others_judge_are_those_that_count(stage):
    class Replaced(CountingRules):
        def Judge(self, job: jobs.Job, limits: Any = ()) -> filters.Verdict:
            if job.id == 3:
                stage.scheduler.SetRules(last)
            return super().Judge(job, limits)

    last = CountingRules()
    old = Replaced(**{f"j{n}": filters.REJECT for n in range(10)})
    stage.scheduler.SetRules(old)
    stage.Add(*(MakeEntry(n) for n in range(10)))
    stage.scheduler.Judge()
    assert old.asked == [0, 1, 2, 3]
    assert sorted(last.asked) == list(range(10))
    assert stage.rejected == [0, 1, 2]
    assert set(range(3, 10)) <= set(stage.Started())


def test_a_job_that_ends_while_it_is_judged_or_before_is_forgotten(stage):
    class Ending(CountingRules):
        def Judge(self, job: jobs.Job, limits: Any = ()) -> filters.Verdict:
            if job.id == 1:
                stage.scheduler.Ended(1)
            return super().Judge(job, limits)

    rules = Ending(j1=filters.REJECT, j2=filters.REJECT)
    stage.Add(*(MakeEntry(n) for n in (1, 2, 3, 4)))
    stage.scheduler.SetRules(rules)
    stage.scheduler.Ended(4)
    stage.Add(MakeEntry(5))
    stage.scheduler.Ended(5)
    stage.scheduler.Judge()
    assert sorted(rules.asked) == [1, 2, 3] and stage.rejected == [2]
    assert stage.Started() == [3]
    assert set(stage.scheduler._places) == stage.scheduler._paused == {2}
    stage.scheduler.Ended(2)
    assert set(stage.scheduler._places) == stage.scheduler._paused == set()


def test_a_job_whose_dependency_ended_waits_for_its_verdict(stage):
    rules = CountingRules(j2=filters.PAUSE)
    stage.scheduler.SetRules(rules)
    stage.Add(MakeEntry(2), after=(1,))
    stage.Add(MakeEntry(3), after=(1,))
    stage.scheduler.Ended(1)
    assert stage.Started() == []
    stage.scheduler.Judge()
    assert stage.Started() == [3]
    stage.scheduler.SetRules(filters.RuleSet())
    stage.scheduler.Judge()
    assert stage.Started() == [2]


def test_no_rule_holds_an_urgent_job(stage: Stage) -> None:
    op = {"OP_ID": "OP_INSTANCE_SETTLE_MIRRORS", "reason": [["me", "rate-limit:1:x", 1]]}
    urgent = Entry(jobs.Job(7, [jobs.OpState(jobs.OpInput(op, "x"))], (1, 0)), [jobs.OpLog()])
    rules = CountingRules(j7="REJECT", j8="PAUSE")
    stage.scheduler.SetRules(rules)
    stage.Add(urgent, MakeEntry(8))
    stage.scheduler.SetMaxRunning(0)
    stage.scheduler.Judge()
    assert rules.asked == [8] and stage.rejected == []
    assert stage.scheduler.Next(urgent=True) is urgent
