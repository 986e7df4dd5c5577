"""Filter rules, ad-hoc rate limits and the number of running jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queues import Op

from ganeti import errors, objects
from ganeti.jqueue import filters
from ganeti.jqueue import job as jobs


def Rule(number: int, action, *predicates, priority: int = 0, watermark: int = 100) -> objects.FilterRule:
    return objects.FilterRule.FromDict(
        {
            "uuid": f"{number:08x}-aaaa-4bbb-8ccc-000000000000",
            "watermark": watermark,
            "priority": priority,
            "predicates": [list(p) for p in predicates],
            "action": action,
            "reason_trail": [],
        }
    )


def MakeJob(job_id: int = 101, *ops: dict) -> jobs.Job:
    return jobs.Job(job_id, [jobs.OpState(jobs.OpInput(op)) for op in ops or [Op()]], (1, 0))


def Action(job: jobs.Job, *rules: objects.FilterRule) -> str:
    return filters.RuleSet(rules).Judge(job).action


@pytest.mark.parametrize(
    ("predicate", "matches"),
    [
        (["jobid", [">", "id", "watermark"]], True),
        (["jobid", ["<=", "id", "watermark"]], False),
        (["jobid", ["&", ["==", "id", 101], ["!", ["<", "id", 5]]]], True),
        (["jobid", ["=~", "id", "1"]], False),
        (["jobid", ["==", "name", 101]], False),
        (["jobid", ["!=", "id", 5]], False),
        (["jobid", ["&", ["!=", "id", 5]]], False),  # not allowed for job ids, wherever it stands
        (["jobid", ["|", ["==", "id", 101], ["!", ["!=", "id", 101]]]], False),
        (["reason", ["|", ["==", "source", "gnt:user"], ["=~", "reason", "x"]]], False),
        (["opcode", ["==", "OP_ID", "OP_TEST_DELAY"]], True),
        (["opcode", ["=~", "OP_ID", "^OP_TEST"]], True),
        (["opcode", ["==", "beparams.vcpus", 4]], True),
        (["opcode", ["==", "beparams.none.x", 4]], False),
        (["opcode", ["!", ["==", "no_such_field", 4]]], False),
        (["opcode", ["<", "duration", "text"]], False),
        (["opcode", ["&", ["==", "duration", 0], ["==", "comment", "a"]]], False),  # no single opcode has both
        (["opcode", ["|", ["==", "duration", 0], ["==", "comment", "a"]]], True),
        (["reason", ["==", "source", "gnt:user"]], True),
        (["reason", ["<", "timestamp", 6]], True),
        (["reason", ["=~", "reason", "be"]], False),
        (["reason", ["==", "other", "x"]], False),
        (["nonsense", None], False),
        (["opcode", ["??"]], False),
        (["opcode", None], True),
        (["jobid", []], False),
    ],
)
def test_predicates(predicate, matches):
    job = MakeJob(
        101,
        {**Op(), "duration": 0, "comment": None, "beparams": {"vcpus": 4}, "reason": [["gnt:user", "because", 5]]},
        {**Op(), "duration": 1, "comment": "a", "reason": []},
    )
    rule = objects.FilterRule.FromDict({**Rule(1, "PAUSE").ToDict(), "predicates": []})
    rules = filters.RuleSet([rule])
    rules._rules = [(rule, [filters._CompilePredicate(predicate, rule.watermark)])]
    assert (rules.Judge(job).action == "PAUSE") is matches


def test_the_first_rule_that_matches_and_says_something_decides():
    job = MakeJob()
    never = ["jobid", ["<", "id", 0]]
    assert Action(job) == "ACCEPT"
    assert Action(job, Rule(1, "CONTINUE"), Rule(2, "PAUSE", priority=1), Rule(3, "REJECT", priority=2)) == "PAUSE"
    assert Action(job, Rule(2, "PAUSE", priority=5), Rule(3, "REJECT", priority=2)) == "REJECT"
    assert Action(job, Rule(9, "PAUSE", watermark=1), Rule(3, "REJECT", watermark=2)) == "PAUSE"
    assert Action(job, Rule(9, "PAUSE"), Rule(3, "REJECT")) == "REJECT"
    assert Action(job, Rule(1, "PAUSE", never), Rule(3, ["RATE_LIMIT", 4])) == "RATE_LIMIT"
    assert Action(job, Rule(1, "PAUSE", ["opcode", None], never)) == "ACCEPT"


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (7, "list of kind and filter"),
        (["jobid"], "list of kind and filter"),
        ("ab", "list of kind and filter"),
        (["jobid", None, None], "list of kind and filter"),
        (["job", None], "Unknown kind of predicate 'job'"),
        ([7, None], "Unknown kind of predicate"),
        (["opcode", ["??", "x"]], "Predicate 'opcode'"),
        (["jobid", ["==", "id"]], "Predicate 'jobid'"),
        (["reason", ["<", "timestamp", float("inf")]], "Predicate 'reason'"),
        (["jobid", ["==", "name", 101]], "'name'.*; its fields are id"),
        (["jobid", ["!=", "id", 5]], "only & | ! == = < <= > >= can be used"),
        (["jobid", ["!", ["=~", "id", "1"]]], "Predicate 'jobid'"),
        (["reason", ["==", "other", "x"]], "its fields are source, reason, timestamp"),
        (["reason", ["=~", "reason", "x"]], "Predicate 'reason': only"),
    ],
)
def test_a_rule_that_cannot_work_is_rejected(predicate, text):
    good = ["opcode", ["==", "OP_ID", "OP_TEST_DELAY"]]
    with pytest.raises(errors.OpPrereqError, match=text):
        filters.CheckPredicates([good, predicate])
    filters.CheckPredicates([good, ["jobid", [">", "id", "watermark"]], ["reason", None]])


def test_a_filter_nested_for_ever_is_refused():
    deep: list = ["==", "id", 5]
    for _ in range(5000):
        deep = ["!", deep]
    with pytest.raises(errors.OpPrereqError, match="nested"):
        filters.CheckPredicates([["jobid", deep]])
    assert filters._CompilePredicate(["jobid", deep], 5)(MakeJob()) is False


@pytest.mark.parametrize("depth", [0, 2, 150])
def test_the_watermark_counts_however_deep_it_stands(depth):
    part: list = [">", "id", "watermark"]
    for _ in range(depth):
        part = ["!", part]
    filters.CheckPredicates([["jobid", part]])
    assert Action(MakeJob(101), Rule(1, "PAUSE", ["jobid", part])) == "PAUSE"
    assert Action(MakeJob(100), Rule(1, "PAUSE", ["jobid", part])) == "ACCEPT"


def test_reasons_of_another_shape_in_old_files_match_nothing():
    odd = [7, "abc", None, [], ["gnt:user"], ["gnt:user", "because"], ["gnt:user", "because", 5, 6], {"source": 1}]
    job = MakeJob(1, {**Op(), "reason": odd})
    for part in (["==", "source", "gnt:user"], ["<", "timestamp", 6], ["!", ["==", "source", "x"]]):
        assert Action(job, Rule(1, "PAUSE", ["reason", part])) == "ACCEPT"
    right = MakeJob(1, {**Op(), "reason": [*odd, ["gnt:user", "because", 5]]})
    assert Action(right, Rule(1, "PAUSE", ["reason", ["==", "source", "gnt:user"]])) == "PAUSE"


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5) | st.booleans(), lambda s: st.lists(s, max_size=4)))
def test_no_predicate_whatever_breaks_the_queue(part):
    for kind in ("jobid", "opcode", "reason"):
        assert isinstance(filters._CompilePredicate([kind, part], 5)(MakeJob()), bool)
        try:
            filters.CheckPredicates([[kind, part]])
        except errors.OpPrereqError as err:
            assert str(err)


def test_the_buckets_named_in_reasons():
    def limits(*texts: str) -> set:
        ops = [{**Op(), "reason": [["a", text, 1]]} for text in texts]
        return set(filters.AdHocLimits(MakeJob(1, *ops)))

    assert limits("rate-limit:2:x:y") == {(("ad hoc", "x:y", 2), 2)}
    assert limits("rate-limit:2:x", "rate-limit:3:x", "rate-limit:2:x") == {
        (("ad hoc", "x", 2), 2),
        (("ad hoc", "x", 3), 3),
    }
    assert limits("rate-limit:0:x", "rate-limit:-1:x", "rate-limit:x", "rate-limit:1", "x rate-limit:1:y") == set()


class Settings:
    """What the configuration says; the map is another object when rules change."""

    def __init__(self, max_running: int = 20):
        self.max_running = max_running
        self.rules: dict = {}

    def __call__(self):
        return self.max_running, self.rules

    def Set(self, bench, *rules):
        self.rules = {rule.uuid: rule for rule in rules}
        bench.queue.Reconsider()


def test_no_more_of_a_bucket_run_than_it_allows(make):
    bench = make()
    limited = [["me", "rate-limit:2:disks", 1]]
    ids = [bench.Submit(f"gate {n}", reason=limited) for n in range(4)]
    bench.executor.WaitRunning(*ids[:2])
    free = bench.Submit("free")
    assert bench.WaitEnd(free) == "success"  # others are not held up
    assert [bench.Status(n) for n in ids[2:]] == ["queued"] * 2
    bench.executor.Open("1")
    bench.executor.WaitRunning(ids[0], ids[2])
    for n in range(4):
        bench.executor.Open(str(n))
    for job_id in ids:
        bench.WaitEnd(job_id)
    assert bench.executor.most_running == 3


def test_rules_hold_jobs_reject_them_and_let_them_go(make):
    settings = Settings()
    bench = make(settings=settings)
    mine = ["opcode", ["==", "comment", "mine"]]
    settings.Set(bench, Rule(1, "PAUSE", mine))
    paused = bench.Submit("mine")
    other = bench.Submit("other")
    assert bench.WaitEnd(other) == "success"
    assert bench.Status(paused) == "queued"
    settings.Set(bench)
    assert bench.WaitEnd(paused) == "success"
    settings.Set(bench, Rule(1, "PAUSE", mine))
    second = bench.Submit("mine")
    assert bench.WaitEnd(bench.Submit("other")) == "success"
    settings.Set(bench, Rule(1, "REJECT", mine))
    assert bench.WaitEnd(second) == "canceled"
    assert "rejected by filter rule 00000001" in bench.Field(second, "opresult")[0]
    third = bench.Submit("mine")
    assert bench.WaitEnd(third) == "canceled"
    assert bench.executor.executed.count((third, "mine")) == 0


def test_a_rule_limits_how_many_run(make):
    settings = Settings()
    bench = make(settings=settings)
    settings.Set(bench, Rule(1, ["RATE_LIMIT", 1]))
    ids = [bench.Submit(f"gate {n}") for n in range(3)]
    bench.executor.WaitRunning(ids[0])
    settings.Set(bench, Rule(1, ["RATE_LIMIT", 2]))
    bench.executor.WaitRunning(ids[0], ids[1])
    assert bench.Status(ids[2]) == "queued"
    for n in range(3):
        bench.executor.Open(str(n))
    for job_id in ids:
        bench.WaitEnd(job_id)
    assert bench.executor.most_running == 2


def test_more_may_run_when_the_configuration_says_so(make):
    settings = Settings(1)
    bench = make(settings=settings)
    ids = [bench.Submit(f"gate {n}") for n in range(3)]
    bench.executor.WaitRunning(ids[0])
    settings.max_running = 3
    bench.queue.Reconsider()
    bench.executor.WaitRunning(*ids)
    settings.max_running = 1
    bench.executor.Open("0")  # noticed when a job ends, without being told
    bench.WaitEnd(ids[0])
    last = bench.Submit("last")
    bench.executor.Open("1")
    bench.WaitEnd(ids[1])
    assert bench.Status(last) == "queued"
    bench.executor.Open("2")
    assert bench.WaitEnd(last) == "success"


def test_jobs_that_run_when_a_limit_comes_take_its_slots(make):
    settings = Settings()
    bench = make(settings=settings)
    ids = [bench.Submit(f"gate {n}") for n in range(3)]
    bench.executor.WaitRunning(*ids)
    settings.Set(bench, Rule(1, ["RATE_LIMIT", 2]))
    held = bench.Submit("held")
    free = bench.Submit("free", reason=[])
    for n in (0, 1):
        bench.executor.Open(str(n))
        assert bench.WaitEnd(ids[n]) == "success"
        if n == 0:
            assert bench.Status(held) == bench.Status(free) == "queued"  # two of two still run
    assert bench.WaitEnd(held) == bench.WaitEnd(free) == "success"
    bench.executor.Open("2")
    assert bench.WaitEnd(ids[2]) == "success"


def test_a_slow_expression_of_a_rule_holds_up_no_change(make):
    """Each search may take 50 ms and is given up then; nothing but the jobs themselves waits for it."""
    settings = Settings()
    bench = make(settings=settings)
    settings.Set(bench, Rule(1, "PAUSE", ["opcode", ["=~", "comment", "(a|aa)+$"]]))
    slow = "a" * 60 + "!"
    answer = bench.queue.SubmitManyJobs([[Op(comment=slow)] for _ in range(30)]).Result(20)
    ids = [job_id for _, job_id in answer]
    assert bench.queue.SetDrainFlag(True).Result(20) is True
    assert bench.queue._scheduler._unjudged  # acknowledged, while jobs are still looked at
    for job_id in ids:
        assert bench.WaitEnd(job_id) == "success"
