"""The table against release 3.1's and the store's lists, copied to test/data/rpc."""

from __future__ import annotations

import fnmatch
import inspect
import os
from pathlib import Path

import pytest
from support.programs import Load
from support.virtualnode import TOP

from ganeti import rpc
from ganeti.rpc import encoders
from ganeti.rpc.encodings import ENCODINGS
from ganeti.rpc.procedures import OUR_PROCEDURES, PROCEDURES, STORE_PROCEDURES, TIMEOUTS, Procedure

DATA = Path(__file__).parents[2] / "data" / "rpc"
WITHOUT_EPOCH = {
    "node_stop_master",
    "node_start_master_daemons",
    "node_activate_master_ip",
    "node_deactivate_master_ip",
    "node_leave_cluster",
}


def lines(name: str) -> list[str]:
    text = (DATA / name).read_text("utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def shape(row: Procedure) -> str:
    names = " ".join(arg.name for arg in row.args) or "-"
    number = "m" if row.multi else "s"
    return f"{row.name} | {names} | {row.timeout} {number} {row.resolver}{' o' if row.offline_too else ''}"


def test_the_table_is_release_3_1_and_ours() -> None:
    ours = {shape(row) for row in PROCEDURES.values() if row.name not in OUR_PROCEDURES}
    assert ours == set(lines("procedures-3.1.txt"))
    assert len(ours) == 109
    assert all(name.startswith("store_") for name in STORE_PROCEDURES)


def test_what_changes_something_carries_the_epoch() -> None:
    patterns = lines("reads.txt")
    for row in PROCEDURES.values():
        if row.name not in STORE_PROCEDURES:
            reads = any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)
            assert row.changes == (not reads), row.name
    assert {row.name for row in PROCEDURES.values() if row.without_epoch} == WITHOUT_EPOCH


def test_every_argument_has_an_encoding_and_every_call_a_time_limit() -> None:
    used = {arg.enc for row in PROCEDURES.values() for arg in row.args}
    assert used <= set(ENCODINGS)
    assert set(encoders._ENCODERS) <= set(ENCODINGS)
    for row in PROCEDURES.values():
        assert row.timeout in TIMEOUTS or row.timeout == "d+5"
    assert PROCEDURES["test_delay"].Seconds([2.7]) == 7
    assert PROCEDURES["node_info"].Seconds([None, None]) == 60
    assert PROCEDURES["instance_os_add"].Seconds([None, None, 0]) == 86400


@pytest.mark.parametrize("name", sorted(PROCEDURES))
def test_each_row_is_a_documented_method(name: str) -> None:
    method = getattr(rpc.RpcRunner, f"call_{name}")
    row = PROCEDURES[name]
    first = "nodes" if row.multi else "node"
    assert list(inspect.signature(method).parameters) == ["self", first, *(arg.name for arg in row.args)]
    assert method.__name__ == f"call_{name}"
    assert row.doc in method.__doc__


def test_stubs_and_page_are_made_from_the_table() -> None:
    writer = Load(os.path.join(TOP, "tools", "write-rpc"))
    for path, text in ((writer.STUBS, writer.Stubs()), (writer.PAGE, writer.Page())):
        assert Path(path).read_text("utf-8") == text, "run .venv/bin/python tools/write-rpc"
