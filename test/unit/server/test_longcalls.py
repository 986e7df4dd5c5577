"""What a node daemon says of calls that it has been working on for long."""

from __future__ import annotations

import re

import pytest

from ganeti.rpc.longcalls import Describe, LongCall, Sentence
from ganeti.server import longcalls
from ganeti.server.longcalls import ParseStat, WaitsFor

NOW = 1_000_000_000.0


def test_calls_are_told_by_procedure_the_oldest_first() -> None:
    day = 24 * 3600.0
    calls = [
        LongCall("lv_list", 120, True, "lvs, process 12, state D"),
        LongCall("blockdev_getmirrorstatus", 600, True),
        LongCall("blockdev_getmirrorstatus", 300, True, "drbdsetup status, process 7"),
        LongCall("vg_list", 2 * day, True),
    ]
    clock = re.sub(r"\d\d:\d\d", "HH:MM", Sentence(calls, "hang", NOW))  # in the zone of whoever runs the test
    assert re.sub("2001-09-0[67]", "DATE", clock) == (
        "4 calls hang: 1 vg_list since DATE HH:MM, 2 blockdev_getmirrorstatus since HH:MM (drbdsetup status, process 7),"
        " 1 lv_list since HH:MM (lvs, process 12, state D)"
    )
    assert Sentence(calls[:1], "take", NOW, " long").startswith("1 call takes long: 1 lv_list since ")
    assert Describe([], NOW) == ""


def test_a_program_is_found_through_those_that_started_it() -> None:
    stat = "4711 (a (b) c) D 1 4711 4711 0"
    assert ParseStat(stat) == (4711, "a (b) c", "D", 1)
    with pytest.raises(ValueError):
        ParseStat("rubbish")
    table = [(10, "noded", "S", 1), (20, "sh", "S", 10), (25, "no-such-program", "D", 20), (30, "other", "S", 1)]
    processes = [longcalls._Process(*row) for row in table]
    # A process that has this number here has another name: its words are not taken.
    assert WaitsFor(10, processes) == "no-such-program, process 25, state D"
    assert WaitsFor(30, processes) == "no program, process 30" and WaitsFor(99, processes) == ""
