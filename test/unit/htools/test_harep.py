"""harep: its output, and its jobs on a cluster whose nodes fail."""

from __future__ import annotations

import io
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.fakemaster import FakeMaster
from support.master import Master

from ganeti import constants, errors, opcodes, serializer
from ganeti.htools.options import PROGRAM_OPTIONS, Parser
from ganeti.htools.sources import loading, luxidata
from ganeti.master import querydata
from ganeti.tools.htools import harep, main
from ganeti.tools.htools.output import Failed, Streams

P = "ganeti:watcher:autorepair:"
WEB = "web.example.org"
SUMMARY = ["---------------------", "Instance status count", "---------------------"]
ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class Jobs:
    """A master's side of LUXI: jobs are executed when they are submitted, those of ``held`` opcodes when told."""

    def __init__(self, master: Master):
        self._master = master
        self.statuses: dict[int, str] = {}
        self.submitted: list[list[dict[str, Any]]] = []
        self.held: set[str] = set()
        self.refuse = False

    def SubmitManyJobs(self, jobs: Sequence[Sequence[dict[str, Any]]]) -> list[list[Any]]:
        return [[False, "the queue is drained"] if self.refuse else [True, self._Submit(list(ops))] for ops in jobs]

    def _Submit(self, ops: list[dict[str, Any]]) -> int:
        self.submitted.append(ops)
        number = len(self.submitted)
        self.statuses[number] = constants.JOB_STATUS_QUEUED
        if not self.held & {op["OP_ID"] for op in ops}:
            self.Execute(number)
        return number

    def Execute(self, number: int) -> None:
        try:
            for op in self.submitted[number - 1]:
                self._master.Run(opcodes.OpCode.FromDict(op))
        except errors.GenericError:
            self.statuses[number] = constants.JOB_STATUS_ERROR
        else:
            self.statuses[number] = constants.JOB_STATUS_SUCCESS

    def QueryJobs(self, ids: Sequence[int], fields: Sequence[str]) -> list[list[Any]]:
        assert fields == ["id", "status"]
        return [[number, self.statuses.get(number)] for number in ids]


class Harep:
    """Runs of the program on a master's cluster."""

    def __init__(self, master: Master):
        self.master = master
        self.jobs = Jobs(master)

    def Run(self, *words: str) -> list[str]:
        query = self.master.context.query
        nodes = query.QueryNow("node", luxidata.NODE_FIELDS, None)
        instances = query.QueryNow("instance", luxidata.INSTANCE_FIELDS, None)
        groups = query.QueryNow("group", luxidata.GROUP_FIELDS, None)
        raw = luxidata.Parse(nodes, instances, querydata.ClusterInfo(self.master.snapshot), groups)
        out = io.StringIO()
        options = Parser(PROGRAM_OPTIONS["harep"]).Parse(words)
        client: Any = self.jobs
        try:
            harep.Run(loading.Build(raw, loading.Wishes()), client, options, Streams(out, out, lambda path, text: None))
        finally:
            self.lines = out.getvalue().splitlines()
        return self.lines

    @property
    def tags(self) -> list[str]:
        """The instance's tags for repairs."""
        return sorted(tag for tag in self.master.Instance(WEB).tags if tag.startswith(P))

    def Opcodes(self) -> list[list[str]]:
        return [[op["OP_ID"] for op in ops] for ops in self.jobs.submitted]


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _Tag(master: Master, kind: str, *tags: str, name: str | None = None) -> None:
    master.Run(opcodes.OpTagsSet(kind=kind, name=name, tags=[P + tag for tag in tags]))


def _LosePrimary(master: Master) -> None:
    """The instance runs on the second node, which fails; the first one is the master."""
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    master[1].Stop()
    node = master.snapshot.nodes[master.nodes[1]]
    master.cfg.Update(node.Replace(offline=True, master_candidate=False))
    master[0].SetMirrors({"is_degraded": True})


@pytest.fixture
def lost(make: Callable[..., Master]) -> Harep:
    return Harep(make(2, prepare=_LosePrimary))


def test_a_permitted_repair_is_submitted_followed_and_recorded(lost: Harep) -> None:
    _Tag(lost.master, "cluster", "failover")
    lost.jobs.held.add("OP_INSTANCE_FAILOVER")
    lines = lost.Run("--reason", "the night")
    [pending] = lost.tags
    assert re.fullmatch(rf"{P}pending:failover:{ID}:\d+:1", pending)
    assert lines == [
        f"Executing ArFailover repair on {WEB}",
        f">>> Adding the following tag to {WEB}:",
        f'"{pending}"',
        *SUMMARY,
        "Pending repair: 1",
    ]
    assert lost.Opcodes() == [["OP_TEST_DELAY", "OP_INSTANCE_FAILOVER"], ["OP_TAGS_SET"]]
    [delay, failover] = lost.jobs.submitted[0]
    assert (delay["duration"], delay["on_master"], delay["no_locks"]) == (10.0, True, False)
    for op in (delay, failover, *lost.jobs.submitted[1]):
        [[source, text, _]] = op["reason"]
        assert (source, text, op["priority"], op["depends"]) == ("harep", "the night", 0, None)
        assert op["comment"].startswith("automated repairs by harep ")
    # While the job is not over nothing is done, and it is not submitted again.
    assert lost.Run() == [*SUMMARY, "Pending repair: 1"]
    assert lost.tags == [pending]
    lost.jobs.Execute(1)
    # The new secondary node is the offline one.
    lost.master.Run(opcodes.OpTagsDel(kind="cluster", tags=[f"{P}failover"]))
    lines = lost.Run()
    [result] = lost.tags
    ident = pending.split(":")[5]
    assert re.fullmatch(rf"{P}result:failover:{ident}:\d+:success:1", result)
    assert lines == [
        f'Moving {WEB} from "Pending repair" to "Healthy"',
        f">>> Adding the following tag to {WEB}:",
        f'"{result}"',
        f">>> Removing the following tags from {WEB}:",
        f'"{pending}"',
        f"Not repairing {WEB} because it's in state ArNotEnabled",
        *SUMMARY,
        "Healthy: 1",
    ]
    assert lost.master.Instance(WEB).primary_node == lost.master.nodes[0]


def _LoseSecondary(master: Master) -> None:
    master[1].Stop()
    node = master.snapshot.nodes[master.nodes[1]]
    master.cfg.Update(node.Replace(offline=True, master_candidate=False))


@pytest.fixture
def halved(make: Callable[..., Master]) -> Harep:
    """Three nodes; the mirror's second side is on one that is lost."""
    return Harep(make(3, prepare=_LoseSecondary, lvm=True))


def test_a_lost_mirror_gets_another_node_from_hail(halved: Harep) -> None:
    _Tag(halved.master, "cluster", "fix-storage")
    lines = halved.Run("--job-delay=0")
    assert lines[0] == f"Executing ArFixStorage repair on {WEB}"
    assert halved.Opcodes()[0] == ["OP_INSTANCE_REPLACE_DISKS"]
    lines = halved.Run()
    assert lines[0] == f'Moving {WEB} from "Pending repair" to "Healthy"'
    assert lines[-1] == "Healthy: 1"
    assert halved.master.snapshot.SecondaryNodes(halved.master.Instance(WEB)) == (halved.master.nodes[2],)
    # Everything is repaired.
    count = len(halved.jobs.submitted)
    assert halved.Run() == [*SUMMARY, "Healthy: 1"]
    assert len(halved.jobs.submitted) == count


def test_a_repair_that_fails_is_not_tried_again(lost: Harep) -> None:
    _Tag(lost.master, "instance", "failover", name=WEB)
    lost.master[0].faults["instance_start"] = "no"
    lost.Run("--job-delay=0")
    assert lost.Opcodes()[0] == ["OP_INSTANCE_FAILOVER"]
    lines = lost.Run()
    assert lines[0] == f'Moving {WEB} from "Pending repair" to "Failure"'
    assert lines[-1] == "Failure: 1"
    before = (lost.tags, lost.Opcodes())
    assert ":failure:1" in "".join(lost.tags) and ":pending:" not in "".join(lost.tags)
    assert lost.Run() == [*SUMMARY, "Failure: 1"]
    assert (lost.tags, lost.Opcodes()) == before


def test_a_repair_beyond_what_is_permitted_is_noted_once(lost: Harep) -> None:
    """The note of the last run is replaced: tags do not pile up while nobody looks."""
    _Tag(lost.master, "cluster", "fix-storage")
    lines = lost.Run()
    assert lines[0] == (
        f"Not performing a repair of type ArFailover on {WEB} because only repairs up to ArFixStorage are allowed"
    )
    assert lines[-1] == "Needs repair: 1"
    [first] = lost.tags
    assert re.fullmatch(rf"{P}result:failover:{ID}:\d+:enoperm:", first)
    lost.Run()
    [second] = lost.tags
    assert second != first and second.endswith(":enoperm:")
    assert {op for ops in lost.Opcodes() for op in ops} == {"OP_TAGS_SET", "OP_TAGS_DEL"}


@pytest.mark.parametrize(
    ("tag", "state"),
    [
        (None, "ArNotEnabled"),
        ("suspend", "ArSuspended Forever"),
        ("suspend:2500000000", "ArSuspended (Until Mon Mar 22 04:26:40 UTC 2049)"),
    ],
)
@pytest.mark.usefixtures("in_utc")
def test_without_permission_nothing_is_submitted(lost: Harep, tag: str | None, state: str) -> None:
    if tag:
        _Tag(lost.master, "cluster", "failover")
        _Tag(lost.master, "nodegroup", tag, name="default")
    assert lost.Run() == [f"Not repairing {WEB} because it's in state {state}", *SUMMARY, "Healthy: 1"]
    assert lost.jobs.submitted == [] and lost.tags == []


def test_a_dry_run_prints_the_jobs_and_changes_nothing(lost: Harep) -> None:
    _Tag(lost.master, "cluster", "reinstall")
    lines = lost.Run("--dry-run", "--job-delay", "2.5")
    assert lines[0] == f"Executing ArFailover repair on {WEB}"
    [[delay, failover]] = serializer.Load(lines[1].removeprefix("jobs: "))
    assert delay == {"OP_ID": "OP_TEST_DELAY", "duration": 2.5, "on_master": True, "on_nodes": [], "repeat": 0,
                     "interruptible": False, "no_locks": False}  # fmt: skip
    assert failover.keys() == {
        "OP_ID",
        "instance_name",
        "shutdown_timeout",
        "ignore_consistency",
        "ignore_ipolicy",
        "cleanup",
    }
    assert re.fullmatch(rf'"{P}pending:failover:{ID}:\d+:"', lines[3])
    assert lines[-1] == "Pending repair: 1"
    assert lost.jobs.submitted == [] and lost.tags == []


def test_contradicting_tags_end_the_run_and_say_which_to_remove(lost: Harep) -> None:
    pending = "pending:failover:a:5:1"
    _Tag(lost.master, "instance", pending, "pending:failover:b:6:2", name=WEB)
    with pytest.raises(Failed, match=rf"gnt-instance remove-tags {WEB} {P}{pending}'"):
        lost.Run()
    assert lost.jobs.submitted == []


def test_a_master_that_accepts_no_jobs_ends_the_run(lost: Harep) -> None:
    _Tag(lost.master, "cluster", "failover")
    lost.jobs.refuse = True
    with pytest.raises(Failed, match=f"The repair of {WEB} was rejected: the queue is drained"):
        lost.Run()
    assert lost.tags == []


def test_a_tag_that_cannot_be_written_is_fatal_and_names_the_job(lost: Harep) -> None:
    """Without the tag the next run would not know of the repair."""
    _Tag(lost.master, "cluster", "failover")
    lost.jobs.held = {"OP_INSTANCE_FAILOVER"}
    count = constants.MAX_TAGS_PER_OBJ - len(lost.master.Instance(WEB).tags)
    most = [f"x{number}" for number in range(count)]
    lost.master.Run(opcodes.OpTagsSet(kind="instance", name=WEB, tags=most))
    with pytest.raises(Failed, match=r"job 2: error; the repair itself is job 1: unless the instance has the tag"):
        lost.Run()


# --- as a program ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def fake(tmp_path: pathlib.Path) -> Iterator[FakeMaster]:
    made = FakeMaster(str(tmp_path / "socket"))
    yield made
    made.Shutdown()


def _Program(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = main.Run("harep", words, Streams(out, err, lambda path, text: None))
    return code, out.getvalue(), err.getvalue()


def test_the_program_reads_the_cluster_over_luxi(fake: FakeMaster, tmp_path: pathlib.Path) -> None:
    code, out, _ = _Program(f"-L{tmp_path}/socket")
    count = len(fake.snapshot.instances)
    assert (code, out.splitlines()[-4:]) == (0, [*SUMMARY, f"Healthy: {count}"])
    assert fake.submitted == []


def test_the_program_s_bad_ends(tmp_path: pathlib.Path) -> None:
    code, _, err = _Program(f"-L{tmp_path}/none")
    assert code == 1 and err.startswith("Error: failed to load data, aborting: ")
    assert _Program("-t", "x")[0] == 2
    assert _Program("--job-delay=soon")[0] == 1
    assert _Program("node1") == (1, "", "Error: This program doesn't take any arguments.\n")


def test_the_program_completes() -> None:
    assert _Program("--help-completion")[1].splitlines() == [
        "-L,--luxi file", "--job-delay float", "--reason none", "--dry-run none",
        "-V,--version none", "-h,--help none", "--help-completion none",
    ]  # fmt: skip
