"""hbal and hsqueeze carry out what they print, as jobs of a master daemon."""

from __future__ import annotations

import errno
import io
import os
import pathlib
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from support import htoolscases
from support.fakemaster import FakeMaster

from ganeti.htools.sources import luxidata
from ganeti.tools.htools import main
from ganeti.tools.htools.output import Streams


class Master(FakeMaster):
    """A master whose cluster has instances on its first node only."""

    def __init__(self, path: str, instances: int):
        super().__init__(path)
        self._cluster = _Cluster(instances)
        self.answers["QueryClusterInfo"] = self._cluster["info"]

    def _Query(self, what: str, fields: list[str], qfilter: Any) -> Any:
        return self._cluster[what]


@pytest.fixture
def master(tmp_path: pathlib.Path) -> Iterator[Master]:
    fake = Master(str(tmp_path / "socket"), 4)
    yield fake
    fake.Shutdown()


def _Run(master: FakeMaster, tmp_path: pathlib.Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = main.Run(words[0], [f"-L{tmp_path}/socket", *words[1:]], Streams(out, err, lambda path, text: None))
    return code, out.getvalue(), err.getvalue()


def _Rows(names: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"data": [[[0, row.get(name)] for name in names] for row in rows]}


def _Cluster(instances: int) -> dict[str, Any]:
    """Answers of a master with two nodes and all instances on the first."""
    node = {
        "mtotal": 32768, "mnode": 1024, "dtotal": 500000, "dfree": 500000, "ctotal": 8, "cnos": 1, "offline": False,
        "drained": False, "vm_capable": True, "ndp/spindle_count": 4, "group.uuid": "g", "tags": [],
        "ndp/exclusive_storage": False, "sptotal": 0, "spfree": 0, "ndp/cpu_speed": 1.0,
    }  # fmt: skip
    nodes = [
        {**node, "name": "node1", "mfree": 32768 - 1024 - 1024 * instances},
        {**node, "name": "node2", "mfree": 32768 - 1024},
    ]
    guests = [
        {
            "name": f"inst{i}", "disk_usage": 1024, "be/memory": 1024, "be/vcpus": 1, "status": "running", "pnode": "node1",
            "snodes": [], "tags": [], "be/auto_balance": True, "disk_template": "ext", "be/spindle_use": 1,
            "disk.sizes": [1024], "disk.spindles": [None], "forthcoming": False,
        }
        for i in range(instances)
    ]  # fmt: skip
    policy = {
        "std": dict.fromkeys(("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use"), 1),
        "minmax": [], "disk-templates": ["ext"], "vcpu-ratio": 4.0, "spindle-ratio": 32.0,
    }  # fmt: skip
    group = {"uuid": "g", "name": "default", "alloc_policy": "preferred", "ipolicy": policy, "tags": []}
    return {
        "node": _Rows(luxidata.NODE_FIELDS, nodes),
        "instance": _Rows(luxidata.INSTANCE_FIELDS, guests),
        "group": _Rows(luxidata.GROUP_FIELDS, [group]),
        "info": {"tags": [], "ipolicy": policy, "master": "node1", "default_hypervisor": "fake"},
    }


def test_a_solution_is_submitted_in_sets_and_waited_for(master: Master, tmp_path: pathlib.Path) -> None:
    code, out, err = _Run(master, tmp_path, "hbal", "-X", "--reason", "Friday", "--priority=low")
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == ["Got job IDs 1001", "Got job IDs 1002"]
    [[first], [second]] = master.submitted
    assert (first["instance_name"], second["instance_name"]) == ("inst0", "inst1")
    assert {op["target_node"] for op in (first, second)} == {"node2"}
    assert (first["OP_ID"], first["priority"]) == ("OP_INSTANCE_MIGRATE", 10)
    [[source, text, _]] = first["reason"]
    assert (source, text) == ("hbal", "Friday")
    assert first["comment"].startswith("rebalancing via hbal ")


def test_a_job_that_fails_ends_the_run(master: Master, tmp_path: pathlib.Path) -> None:
    master.failures["OP_INSTANCE_MIGRATE"] = ["OpExecError", ["no"]]
    code, out, err = _Run(master, tmp_path, "hbal", "-X")
    assert code == 1
    assert err == "Not all jobs completed successfully: job 1001: error\nError: Aborting.\n"
    assert len(master.submitted) == 1
    assert "Got job IDs 1001" in out


def _Interrupting(master: Master, number: int) -> None:
    """Send this process a signal when its first set of jobs was submitted."""
    submit = master._SubmitManyJobs

    def interrupted(jobs: list[list[dict[str, Any]]]) -> Any:
        answer = submit(jobs)
        os.kill(os.getpid(), number)
        return answer

    master._SubmitManyJobs = interrupted  # type: ignore[method-assign]


def test_an_interrupt_lets_the_set_end_and_says_what_is_left(master: Master, tmp_path: pathlib.Path) -> None:
    _Interrupting(master, signal.SIGINT)
    code, out, err = _Run(master, tmp_path, "hbal", "-X")
    assert (code, err, len(master.submitted)) == (0, "", 1)
    assert out.splitlines()[-2:] == [
        "Got job IDs 1001",
        "Stopped as asked: 1 job sets were submitted, 1 were not",
    ]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_termination_ends_at_once_and_leaves_what_was_submitted(master: Master, tmp_path: pathlib.Path) -> None:
    _Interrupting(master, signal.SIGTERM)
    code, _, err = _Run(master, tmp_path, "hbal", "-X")
    assert (code, len(master.submitted)) == (2, 1)
    assert err == "Ended at once; jobs that were submitted go on, see 'gnt-job list'\n"


@pytest.fixture
def spread(master: Master) -> Master:
    """The master is the second node, so that the first one, with all instances, can be switched off."""
    master.answers["QueryClusterInfo"]["master"] = "node2"
    return master


def test_nodes_that_are_not_needed_are_emptied_then_marked_then_switched_off(
    spread: Master, tmp_path: pathlib.Path
) -> None:
    code, _, err = _Run(spread, tmp_path, "hsqueeze", "-X", "--target-resources=1")
    assert (code, err) == (0, "")
    *moves, [tag], power = spread.submitted
    assert [op["OP_ID"] for [op] in moves] == ["OP_INSTANCE_MIGRATE"] * 4
    assert (tag["OP_ID"], tag["kind"], tag["name"], tag["tags"]) == (
        "OP_TAGS_SET", "node", "node1", ["htools:standby:auto"],
    )  # fmt: skip
    assert [op["OP_ID"] for op in power] == ["OP_NODE_SET_PARAMS", "OP_OOB_COMMAND"]
    assert (power[0]["node_name"], power[0]["offline"]) == ("node1", True)
    off = power[1]
    assert (off["node_names"], off["command"], off["timeout"], off["power_delay"]) == (["node1"], "power-off", 60, 2.0)
    assert power[0]["comment"].startswith("condensing by 1 nodes ") and power[0]["reason"][0][0] == "hsqueeze"


def test_an_interrupted_squeeze_switches_nothing_off(spread: Master, tmp_path: pathlib.Path) -> None:
    _Interrupting(spread, signal.SIGINT)
    code, out, _ = _Run(spread, tmp_path, "hsqueeze", "-X", "--target-resources=1")
    assert code == 0 and out.splitlines()[-1] == "Stopped as asked: 1 job sets were submitted, 5 were not"
    assert [op["OP_ID"] for job in spread.submitted for op in job] == ["OP_INSTANCE_MIGRATE"]


def test_a_squeeze_whose_moves_fail_switches_nothing_off(spread: Master, tmp_path: pathlib.Path) -> None:
    spread.failures["OP_INSTANCE_MIGRATE"] = ["OpExecError", ["no"]]
    code, _, err = _Run(spread, tmp_path, "hsqueeze", "-X", "--target-resources=1")
    assert code == 1 and err.endswith("Error: Aborting.\n")
    assert len(spread.submitted) == 1


def test_nodes_that_are_needed_are_switched_on_together(master: Master, tmp_path: pathlib.Path) -> None:
    """Nothing moves to them yet: how much memory they have is not known while they are off (24.2)."""
    rows = master._cluster["node"]["data"]
    status, tags, name = (luxidata.NODE_FIELDS.index(field) for field in ("offline", "tags", "name"))
    asleep = [list(rows[1]), list(rows[1])]
    for number, row in enumerate(asleep, 2):
        row[status], row[tags], row[name] = [0, True], [0, ["htools:standby:auto"]], [0, f"node{number}"]
    master._cluster["node"]["data"] = [rows[0], *asleep]
    code, _, err = _Run(master, tmp_path, "hsqueeze", "-X", "--minimal-resources=28000")
    assert (code, err) == (0, "")
    [power] = master.submitted
    assert [op["OP_ID"] for op in power] == ["OP_NODE_SET_PARAMS", "OP_NODE_SET_PARAMS", "OP_OOB_COMMAND"]
    assert {op["offline"] for op in power[:2]} == {False}
    assert (power[2]["node_names"], power[2]["command"]) == (["node2", "node3"], "power-on")
    assert power[2]["comment"].startswith("expanding by 2 nodes ")


def test_nothing_is_submitted_without_the_wish(master: Master, tmp_path: pathlib.Path) -> None:
    code, out, _ = _Run(master, tmp_path, "hbal")
    assert (code, master.submitted) == (0, [])
    assert "Solution length=2" in out


def test_jobs_need_the_master_daemon(tmp_path: pathlib.Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    path = htoolscases.CASES / "10-hbal-basic" / "cluster.data"
    code = main.Run("hbal", ["-t", str(path), "-X"], Streams(out, err, lambda path, text: None))
    assert (code, err.getvalue()) == (1, "Error: hbal: Execution of commands possible only on LUXI and RAPI\n")


def test_a_master_that_is_not_there_is_an_error_in_words(tmp_path: pathlib.Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    code = main.Run("hinfo", [f"-L{tmp_path}/none"], Streams(out, err, lambda path, text: None))
    assert code == 1
    assert err.getvalue().startswith("Error: failed to load data, aborting: ")


@pytest.mark.parametrize("words", [("hscan",), ("hsqueeze", "-S", "x"), ("hbal", "-S", "x"), ("hbal", "-C/x", "-q")])
def test_a_file_that_cannot_be_written_is_named(master: Master, tmp_path: pathlib.Path, words: tuple[str, ...]) -> None:
    def fail(path: str, text: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    out, err = io.StringIO(), io.StringIO()
    assert main.Run(words[0], [f"-L{tmp_path}/socket", *words[1:]], Streams(out, err, fail)) == 1
    assert re.search(r"Error: \S+ cannot be written: No such file or directory\n", err.getvalue())


def test_a_master_that_is_not_there_is_said(tmp_path: pathlib.Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main.Run("hbal", [f"-L{tmp_path}/socket"], Streams(out, err, lambda path, text: None)) == 1
    assert f"aborting: No master daemon listens on socket {tmp_path}/socket; run this on the master" in err.getvalue()
