"""Answers of nodes: the shape that each procedure's may have, and what becomes of all others."""

from __future__ import annotations

import gc
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ganeti import ht, rpc
from ganeti.rpc.answers import ANSWERS, ONE_EACH, Fits
from ganeti.rpc.base import Answer, Request
from ganeti.rpc.procedures import PROCEDURES


def test_every_procedure_has_one_shape() -> None:
    assert set(ANSWERS) == set(PROCEDURES)


ODD: list[Any] = [None, 5, -1, 1.5, True, "x", [], {}, [None], [[]], [["x"]], {"x": None}, {"x": {}}, [{}], {"": [[]]}]


class Wire:
    """A node that replies to every call with the same payload."""

    def __init__(self, body: bytes):
        self.body = body

    def Submit(self, request: Request, done: Any) -> None:
        done(Answer(None, 200, {}, self.body))

    def Abort(self, request: Request) -> None:
        raise AssertionError(request)

    def Close(self) -> None:
        pass


def call(name: str, body: bytes, args: list[Any] | None = None) -> rpc.RpcResult:
    runner = rpc.RpcRunner(Wire(body), lambda node: (node, "192.0.2.1", 1811, False, ""), lambda: "1.a")
    results: list[rpc.RpcResult] = []
    runner.Start(name, ["node1"], args or [None] * len(PROCEDURES[name].args), results.append)
    return results[0]


@pytest.mark.parametrize("name", ["version", "node_has_ip_address", "get_watcher_pause", "master_node_name", "vg_list"])
def test_an_answer_of_another_shape_is_a_failure_with_words(name: str) -> None:
    for payload in ODD:
        result = call(name, json.dumps([True, payload]).encode())
        if ANSWERS[name](payload):
            assert result.payload == payload and result.fail_msg is None
        else:
            assert result.payload is None
            assert f"invalid answer to {name}, expected" in (result.fail_msg or "")


@pytest.mark.parametrize(
    ("name", "payload", "fits"),
    [
        ("x509_cert_create", ["x509-2026-01-01_00_00_00-1a2b", "PEM"], True),
        ("x509_cert_create", ["0:203.0.113.9:4433:magic12345", "PEM"], False),
        ("x509_cert_create", ["x509-" + "a" * 200, "PEM"], False),
        ("blockdev_snapshot", ["xenvg", "1a2b.disk0_data.snap"], True),
        ("blockdev_snapshot", ["xenvg", "x; reboot #"], False),
        ("blockdev_snapshot", ["xenvg", "-f"], False),
    ],
)
def test_what_is_signed_or_pasted_has_a_shape_that_means_nothing_else(name: str, payload: Any, fits: bool) -> None:
    """A key's name is signed with the secret of all clusters; a snapshot's is part of a command in a hint."""
    assert Fits(name, payload) == fits


def test_nothing_is_deep_enough_to_break_the_check() -> None:
    body = b"[true," + b"[" * 400 + b"]" * 400 + b"]"
    for name in ("version", "vg_list"):
        assert call(name, body).fail_msg


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"0,", b"[[[[[[[[]]]]]]]],", b'"",', b'"\\u0100",'])
def test_an_answer_that_would_fill_the_memory_is_not_even_parsed(piece: bytes) -> None:
    body = b"[true,[" + piece * (60 * 1024 * 1024 // len(piece)) + b"0]]"
    gc.collect()
    before = _Resident()
    assert "MiB of memory, 192 are allowed" in (call("node_info", body).fail_msg or "")
    assert _Resident() - before < 16
    # Rows of the store come from master candidates only, and must come through whatever is in them.
    rows = json.dumps([True, {"rows": ["[" * 1_000_000]}]).encode()
    assert call("store_fetch", rows).fail_msg is None
    assert call("store_status", rows).fail_msg


def _Resident() -> int:
    """Return the MiB of memory that this process has."""
    return int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0]) // 1024


def test_words_of_a_failing_node_are_short_and_steer_nothing() -> None:
    result = call("version", json.dumps([False, "\x1b[2J" + "x" * 1_000_000]).encode())
    assert (result.fail_msg or "").startswith("\\x1b[2Jx")
    assert len(result.fail_msg or "") < 70_000


def test_shapes_are_strict_where_somebody_reads() -> None:
    guest = {"memory": 1, "vcpus": 1, "state": 0, "time": 0.5}
    assert Fits("all_instances_info", {"web": guest})
    for key in guest:
        assert not Fits("all_instances_info", {"web": {**guest, key: None}})
        assert not Fits("all_instances_info", {"web": {k: v for k, v in guest.items() if k != key}})
    system = ["deb", "/os/deb", True, "", ["default"], [["p", "help"]], [20], True]
    assert Fits("os_diagnose", [system])
    for place in range(len(system)):
        assert not Fits("os_diagnose", [[*system[:place], {}, *system[place + 1 :]]])
    assert not Fits("os_diagnose", [system[:-1]]) and not Fits("os_diagnose", [[*system, 1]])
    assert all(ht.TAny == shape or not shape(object()) for shape in ANSWERS.values())


_SIDE = ["connected", "standalone", "in_resync", "local_uptodate", "peer_uptodate", "primary", "frozen"]


@pytest.mark.parametrize("procedure", ["drbd_states", "drbd_views"])
def test_what_a_side_of_a_mirror_says_is_yes_or_no(procedure: str) -> None:
    """What is neither may be read either way, and a copy may be given up for it."""
    side: dict[str, Any] = dict.fromkeys(_SIDE, False)
    flags = dict.fromkeys(("incomplete", "peer_primary", "peer_older"), True)
    more: dict[str, Any] = {**flags, "size": 1 << 30, "disk": "UpToDate", "stranger": None}
    assert Fits(procedure, {"disk": side}) and Fits(procedure, {"disk": {**side, **more, "added_later": {}}})
    for key in (*_SIDE, *flags):
        for odd in (None, 0, 1, "no", "", [], {}):
            assert not Fits(procedure, {"disk": {**side, **more, key: odd}}), (key, odd)
    for key in _SIDE:
        assert not Fits(procedure, {"disk": {name: value for name, value in side.items() if name != key}})
    for key, odd in (("size", "1"), ("size", True), ("disk", 5), ("stranger", ["x"])):
        assert not Fits(procedure, {"disk": {**side, **more, key: odd}}), (key, odd)


def test_rows_of_storage_have_everything_that_is_read() -> None:
    row = {"dev": "/dev/sda", "vg": "xenvg", "name": "v", "size": "12.50"}
    assert Fits("node_volumes", [row, {**row, "size": 12, "health": "partial"}])
    for key in row:
        assert not Fits("node_volumes", [{k: v for k, v in row.items() if k != key}])
    for size in ("%s%n", "", "nan", "inf", "1" * 400, 10**400, float("nan"), None):
        assert not Fits("node_volumes", [{**row, "size": size}])
        assert not Fits("lv_list", {"xenvg/v": [size, False, False]})
    for large in (2**63, 10**400):
        assert not Fits("blockdev_getdimensions", [[large, None]])
        assert not Fits("blockdev_getdimensions", [[1, large]])
    assert not Fits("bdev_sizes", {"/dev/sda": 10**400}) and Fits("bdev_sizes", {"/dev/sda": 1 << 50})


@pytest.mark.parametrize(
    "rows",
    [[["xenvg"]], [[]], [["xenvg", 1, 2]], [["xenvg", "%s"]], [["xenvg", 10**400]], [[7, 1]], [None]],
)
def test_rows_of_storage_units_have_the_fields_that_were_asked_for(rows: Any) -> None:
    asked = ["lvm-vg", [], None, ["name", "free"]]
    assert call("storage_list", json.dumps([True, [["xenvg", 1.5]]]).encode(), asked).fail_msg is None
    assert "invalid answer to storage_list" in (
        call("storage_list", json.dumps([True, rows]).encode(), asked).fail_msg or ""
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"listen_port": 0},
        {"listen_port": "22"},
        {"listen_port": 70000},
        {"exit_status": "0"},
        {"exit_status": 0.5},
        {"progress_eta": "soon"},
        {"progress_mbytes": 10**400},
        {"recent_output": "text"},
        {"recent_output": [5]},
        {"connected": 1},
        {"error_message": ["x"]},
        {5: 5},
        [],
        "x",
    ],
)
def test_what_a_transfer_says_of_itself(wrong: Any) -> None:
    assert Fits("impexp_status", [{}, None, {"listen_port": 22, "exit_status": 0, "added_later": {}}])
    assert not Fits("impexp_status", [wrong])


@pytest.mark.parametrize("name", ["", "a/b", "..\n", 5, None, "x" * 300, "a b"])
def test_the_name_of_a_transfer_is_a_plain_one(name: Any) -> None:
    for procedure in ("import_start", "export_start"):
        assert Fits(procedure, "import-disk0-2026-11-24_19_29_00-0f0f0f0f") and not Fits(procedure, name)


_STATUS = {"is_degraded": False, "ldisk_status": 0, "sync_percent": None, "estimated_time": None}
_ENTRIES: dict[str, Any] = {
    "blockdev_getdimensions": [1 << 30, None],
    "blockdev_getmirrorstatus": _STATUS,
    "blockdev_getmirrorstatus_multi": [True, _STATUS],
    "blockdev_pause_resume_sync": [True, None],
    "impexp_status": {"listen_port": 1234, "connected": False, "exit_status": None, "recent_output": []},
}


@pytest.mark.parametrize("name", sorted(ONE_EACH))
def test_an_answer_about_fewer_or_more_disks_than_asked_is_a_failure(name: str) -> None:
    disks = [{"dev_type": "plain"}, {"dev_type": "plain"}]
    args = [disks, *[True] * (len(PROCEDURES[name].args) - 1)]
    for count in range(5):
        result = call(name, json.dumps([True, [_ENTRIES[name]] * count]).encode(), args)
        if count == len(disks):
            assert len(result.payload) == count and result.fail_msg is None
        else:
            assert result.payload is None
            assert result.fail_msg == f"RPC layer error: invalid answer to {name}, it has {count} entries for 2"
