"""Searches for counterexamples; by hand: ``python test/simulation/model/search.py all``, longer with ``--seconds``.

``sound``: the rules as they stand, all states within each bound.  ``planted``: one rule broken at a time, must give a
counterexample.  ``written``: readings that the first wording of the rules allowed.  ``calls``: changing calls on nodes
across a change of master.  ``walk``: random walks, wider bounds.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from typing import Any, NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from simulation.model import calls  # noqa: E402
from simulation.model.rules import SOUND, Variant  # noqa: E402
from simulation.model.steps import Bounds, Label, Model  # noqa: E402

MOST_STATES = 12_000_000
_WALK_STEPS = 150


class Case(NamedTuple):
    """A search: its name, the rules, and how much may happen."""

    name: str
    rules: Variant
    bounds: Bounds


class Found(NamedTuple):
    """What a search found.  ``violation`` is empty if nothing; ``finished``: all states within the bounds were seen."""

    states: int
    finished: bool
    depth: int
    violation: str = ""
    trace: tuple[Label, ...] = ()


CHECKS = tuple(
    Case(name, SOUND, bounds)
    for name, bounds in (
        ("3 voters, a late call", Bounds(elections=2, writes=2, late=1)),
        ("3 voters, 3 elections", Bounds(elections=3, writes=1)),
        ("2 of 3 nodes vote, set changes", Bounds(v0=3, elections=2, writes=1, sets=2)),
        ("3 voters, set changes, late call", Bounds(elections=1, writes=1, sets=2, late=1)),
        ("1 voter of 2 nodes, set changes", Bounds(n=2, v0=1, elections=2, writes=2, sets=3, late=1)),
        ("2 voters of 4 nodes, set changes", Bounds(n=4, v0=3, elections=1, writes=1, sets=3, lost=0)),
        ("deletions pruned, set changes", Bounds(elections=1, writes=1, deletes=1, sets=2, prunes=1, lost=0)),
        ("deletions pruned, partial fetch", Bounds(elections=1, writes=2, deletes=1, prunes=1, lost=0)),
        ("lost disks", Bounds(elections=1, writes=1, sets=2, wipes=1)),
        ("forced start", Bounds(elections=2, writes=1, forced=1)),
        ("two forced starts", Bounds(elections=3, writes=1, forced=2, lost=0)),
        ("forced start, set changes", Bounds(elections=2, sets=1, forced=1)),
        ("forced start, 2 nodes, set changes", Bounds(n=2, v0=3, elections=2, writes=2, sets=2, forced=1, late=1)),
    )
)

PLANTED = tuple(
    Case(name, SOUND._replace(**broken), bounds)
    for name, broken, bounds in (
        ("acknowledged before a quorum has it", {"ack": "early"}, Bounds(elections=1, writes=1)),
        ("nodes do not check the epoch", {"epochs": False}, Bounds(elections=1, writes=1)),
        ("two voters changed in one step", {"step": 2}, Bounds(elections=1, writes=1, sets=1)),
        ("longest history, not the newest", {"newest": "length"}, Bounds(elections=2, writes=1, sets=1, lost=0)),
        ("no entry of the new epoch first", {"first": False}, Bounds(elections=3, writes=2, lost=0)),
        ("epoch is a bare number, equal ones pass", {"run": False}, Bounds(elections=2, writes=2)),
        ("catch-up by sequence number alone", {"line": False}, Bounds(elections=1, writes=2)),
        ("catch-up across pruned deletions", {"pruned": False}, Bounds(writes=2, deletes=1, sets=2, prunes=2)),
        (
            "what was pruned forgotten by a partial fetch",
            {"kept": False},
            Bounds(elections=1, writes=2, deletes=1, prunes=1, lost=0),
        ),
        ("a late full copy replaces a newer state", {"older": False}, Bounds(elections=2, writes=2, late=1, lost=0)),
        ("an emptied voter keeps its vote", {"ids": False}, Bounds(elections=1, writes=1, wipes=1)),
        ("changes of the set stacked", {"stacked": "any"}, Bounds(elections=1, writes=1, sets=2)),
        # Vouched for by people only.
        ("an old copy restored under its old id", {}, Bounds(elections=1, writes=1, restores=1)),
        ("forced start while the silent ones run", {"vouched": "none"}, Bounds(elections=1, writes=1, forced=1)),
        ("forced start beside another start", {"again": False}, Bounds(elections=2, writes=1, forced=1, lost=0)),
        (
            "forced start, only the voters it knows of are off",
            {"vouched": "voters"},
            Bounds(n=4, v0=3, elections=2, sets=3, forced=1, lost=0),
        ),
    )
)

_FIRST: dict[str, Any] = {
    "count": "both",
    "offline": True,
    "voters": "own",
    "allnodes": True,
    "stacked": "any",
    "run": False,
    "line": False,
    "pruned": False,
    "older": False,
    "ids": False,
}
WRITTEN = tuple(
    Case(name, SOUND._replace(**{**_FIRST, **mended}), bounds)
    for name, mended, bounds in (
        (
            "new master counts in its own, outdated set (4 nodes)",
            {"run": True, "line": True, "stacked": "no", "allnodes": False, "older": True},
            Bounds(n=4, elections=1, writes=1, sets=2, lost=0),
        ),
        (
            "the same beside half plus one of all nodes (5 nodes)",
            {"run": True, "line": True, "stacked": "no", "older": True},
            Bounds(n=5, elections=1, writes=1, sets=2, lost=0),
        ),
        (
            "`--offline yes` twice, the first unacknowledged",
            {"voters": "newest", "run": True, "line": True, "older": True},
            Bounds(elections=1, writes=1, sets=2),
        ),
        (
            "two masters choose the same epoch",
            {"line": True, "stacked": "no", "older": True},
            Bounds(elections=2, writes=2),
        ),
        (
            "divergence seen by sequence number",
            {"run": True, "stacked": "no", "older": True},
            Bounds(elections=1, writes=2),
        ),
        (
            "a re-added voter brings a deleted row back",
            {"run": True, "line": True, "stacked": "no", "older": True},
            Bounds(writes=2, deletes=1, sets=2, prunes=2),
        ),
        (
            "a late full copy",
            {"run": True, "line": True, "stacked": "no"},
            Bounds(elections=2, writes=2, late=1, lost=0),
        ),
        (
            "a voter with an emptied database",
            {"run": True, "line": True, "stacked": "no", "older": True},
            Bounds(elections=1, writes=1, wipes=1),
        ),
    )
)

WALKS = (
    Case(
        "4 nodes, everything but force",
        SOUND,
        Bounds(n=4, v0=7, elections=5, writes=4, deletes=1, sets=4, late=2, wipes=1, prunes=2),
    ),
    Case(
        "3 nodes, everything",
        SOUND,
        Bounds(v0=7, elections=5, writes=4, deletes=1, sets=3, late=2, wipes=1, forced=1, prunes=1),
    ),
)


def Search(model: Model, seconds: float) -> Found:
    """Look at all states breadth first, for so many seconds of CPU."""
    end = time.process_time() + seconds
    parents: dict[int, int | None] = {hash(model.initial): None}
    level, depth = [model.initial], 0
    while level:
        following = []
        for count, state in enumerate(level):
            if not count & 255 and (time.process_time() > end or len(parents) > MOST_STATES):
                return Found(len(parents), False, depth)
            h = hash(state)
            for label, new, bad in model.Steps(state):
                if bad:
                    return Found(len(parents), False, depth + 1, bad, (*_Trace(model, parents, h), label))
                k = hash(new)
                if k not in parents:
                    parents[k] = h
                    following.append(new)
        level = following
        depth += 1
    return Found(len(parents), True, depth - 1)


def _Trace(model: Model, parents: dict[int, int | None], target: int) -> list[Label]:
    """Return the labels from the initial state to ``target`` (a hash), by walking forward again."""
    chain = [target]
    while (parent := parents[chain[-1]]) is not None:
        chain.append(parent)
    state, out = model.initial, []
    for h in chain[-2::-1]:
        for label, new, bad in model.Steps(state):
            if not bad and hash(new) == h:
                out.append(label)
                state = new
                break
    return out


def Walk(model: Model, seconds: float, seed: int) -> Found:
    """Walk at random until the time is up; ``depth`` is the number of walks."""
    rng, end = random.Random(seed), time.process_time() + seconds
    walks = 0
    seen: set[int] = set()
    while time.process_time() < end:
        state, trace = model.initial, []
        walks += 1
        while len(trace) <= _WALK_STEPS:
            options = list(model.Steps(state))
            if not options:
                break
            kind = rng.choice(sorted({option[0][0] for option in options}))
            label, state, bad = rng.choice([option for option in options if option[0][0] == kind])
            trace.append(label)
            seen.add(hash(state))
            if bad:
                return Found(len(seen), False, walks, bad, tuple(trace))
    return Found(len(seen), False, walks)


def _Report(name: str, found: Found, wanted: bool) -> bool:
    verdict = "VIOLATED" if found.violation else "holds, all states" if found.finished else "holds so far"
    good = bool(found.violation) == wanted
    print(
        f"{'ok' if good else 'BAD':4} {name:62} {found.states:9} states, depth {found.depth:3}  {verdict}", flush=True
    )
    for label in found.trace:
        print("       " + " ".join(str(part) for part in label))
    if found.violation:
        print("       => " + found.violation)
    return good


def _Calls() -> bool:
    good = True
    variants = {"sound": calls.CallRules()}
    variants |= {f"without {key}": calls.CallRules(**{key: False}) for key in calls.CallRules._fields}
    for name, rules in variants.items():
        states, bad, trace = calls.Search(rules)
        found = Found(states, True, len(trace), bad, tuple((label,) for label in trace))
        good &= _Report(f"calls, {name}", found, name != "sound")
    return good


def Main() -> int:
    parser = argparse.ArgumentParser(description="Search the rules of the store for counterexamples.")
    parser.add_argument("what", choices=("sound", "planted", "written", "calls", "walk", "all"))
    parser.add_argument("--seconds", type=float, default=60, help="CPU seconds for each search")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a check's name")
    args = parser.parse_args()
    good = True
    for what, cases in (("sound", CHECKS), ("planted", PLANTED), ("written", WRITTEN)):
        if args.what in (what, "all"):
            for case in cases:
                if args.only in case.name:
                    found = Search(Model(case.rules, case.bounds), args.seconds)
                    good &= _Report(case.name, found, what != "sound")
    if args.what in ("calls", "all"):
        good &= _Calls()
    if args.what in ("walk", "all"):
        for case in WALKS:
            good &= _Report(case.name, Walk(Model(case.rules, case.bounds), args.seconds, args.seed), False)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(Main())
