"""The cost of moves: what they copy counts against what they gain (hbal --move-cost)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ganeti.htools.choosing import balance
from ganeti.htools.model.moves import Kind, Move
from ganeti.htools.model.state import Cluster
from ganeti.htools.options import PROGRAM_OPTIONS, Parser
from ganeti.htools.sources import loading, text
from ganeti.tools.htools.hbal import RulesOf

USUAL = balance.Rules()


def _Cluster() -> Cluster:
    """Two guests on the first node: moving the disks of one of them balances best, migrating the other one nearly as well."""
    nodes = [f"n{i}|65536|512|{65024 - used}|2000000|{free}|64|N|u|64" for i, (used, free) in enumerate(_USED)]
    guests = [
        "big|2048|512000|1|running|Y|n0|n1|drbd|",
        "small|2048|1024|1|running|Y|n0|n1|drbd|",
    ]
    lines = ["g|u|preferred||", "", *nodes, "", *guests, "", ""]
    return loading.Build(text.Parse("\n".join(lines) + "\n"), loading.Wishes())


_USED = ((4096, 1486976), (0, 1486976), (0, 2000000))


def _First(cost: float) -> balance.Step | None:
    return next(balance.Balance(_Cluster().state, replace(USUAL, cost=cost)), None)


@pytest.mark.req("RM-LIM-22")
def test_a_cheap_migration_beats_a_large_replacement_of_disks() -> None:
    free, dear = _First(0.0), _First(0.001)
    assert free is not None and dear is not None
    assert free.instance.name == "big" and free.move.kind is not Kind.FAILOVER
    assert balance.Copied(free.instance, free.move) >= 500
    assert balance.Copied(dear.instance, dear.move) <= 5
    assert dear.score == dear.state.Score() >= free.score, "printed scores are those of the state"
    assert _First(1000.0) is None, "nothing is worth that much"


def test_what_is_copied() -> None:
    cluster = _Cluster()
    big = cluster.state.instances[0]
    found = {kind: balance.Copied(big, Move(kind, 2)) for kind in Kind}
    assert found == {
        Kind.FAILOVER: 2, Kind.FAILOVER_TO_ANY: 2, Kind.REPLACE_SECONDARY: 500, Kind.REPLACE_AND_FAILOVER: 502,
        Kind.FAILOVER_AND_REPLACE: 502, Kind.REPLACE_PRIMARY: 504,
    }  # fmt: skip


def test_the_option() -> None:
    parser = Parser(PROGRAM_OPTIONS["hbal"])
    assert RulesOf(parser.Parse([])).cost == 0.0
    assert RulesOf(parser.Parse(["--move-cost=0.25"])).cost == 0.25
    assert RulesOf(Parser(PROGRAM_OPTIONS["hcheck"]).Parse([])).cost == 0.0
