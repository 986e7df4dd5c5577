"""The store's rules, searched for counterexamples: they hold, and each of them is needed.

The searches are short here; ``python test/simulation/model/search.py all`` looks at all states.
"""

from __future__ import annotations

import pytest
from simulation.model import calls, search
from simulation.model.search import Case
from simulation.model.steps import Model

_SECONDS = 1.0
# These take half a minute together; they are found by hand.
_LONG = (
    "no entry of the new epoch first",
    "a late full copy replaces a newer state",
    "a late full copy",
    "forced start, only the voters it knows of are off",
    "new master counts in its own, outdated set (4 nodes)",
    "the same beside half plus one of all nodes (5 nodes)",
)
_BROKEN = [case for case in (*search.PLANTED, *search.WRITTEN) if case.name not in _LONG]


def _Name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", search.CHECKS, ids=_Name)
def test_the_rules_hold(case: Case) -> None:
    assert search.Search(Model(case.rules, case.bounds), _SECONDS).violation == ""


@pytest.mark.parametrize("case", _BROKEN, ids=_Name)
def test_a_broken_rule_gives_a_counterexample(case: Case) -> None:
    found = search.Search(Model(case.rules, case.bounds), 60.0)
    assert found.violation
    assert found.trace


def test_random_walks_break_no_rule() -> None:
    for case in search.WALKS:
        assert search.Walk(Model(case.rules, case.bounds), _SECONDS, 1).violation == ""


def test_two_masters_never_act_on_one_object() -> None:
    assert calls.Search(calls.CallRules())[1] == ""


@pytest.mark.parametrize("rule", calls.CallRules._fields)
def test_each_rule_of_changing_calls_is_needed(rule: str) -> None:
    assert calls.Search(calls.CallRules(**{rule: False}))[1]
