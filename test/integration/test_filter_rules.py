"""Rules about which jobs may start, by the command line of a real cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.commandline import CommandLine
from support.realcluster import FollowJob, InterruptDelay, RealCluster, WaitUntil
from support.stories import STARTER

UUID = "00000031-aaaa-4bbb-8ccc-000000000031"
AFTER = '[["jobid", [">", "id", "watermark"]]]'


class Scene:
    def __init__(self, cluster: RealCluster):
        self.cluster = cluster
        self.line = CommandLine(cluster[0])
        self.Run, self.Must = self.line.Quietly, self.line.Must

    def Add(self, *argv: str) -> str:
        return self.Must("gnt-filter", "add", *argv).strip()

    def Submit(self, *options: str, duration: str = "0") -> int:
        out = self.Must("gnt-debug", "delay", "--submit", "--print-jobid", "--no-locks", *options, duration)
        return int(out)

    def Status(self, job: int) -> str:
        return self.Must("gnt-job", "list", "--no-headers", "-o", "status", str(job)).strip()

    def End(self, job: int) -> str:
        with self.cluster[0].Client() as client:
            return FollowJob(client, job)[0]

    def Interrupt(self, job: int) -> None:
        """End an interruptible delay."""
        with self.cluster[0].Client() as client:
            InterruptDelay(client, job)

    def Rules(self) -> list[dict[str, Any]]:
        rules: list[dict[str, Any]] = json.loads(self.Must("gnt-filter", "list", "-o", "json"))
        return rules


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(1) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


@pytest.fixture
def scene(cluster: RealCluster) -> Iterator[Scene]:
    made = Scene(cluster)
    yield made
    for rule in made.Rules():
        made.Must("gnt-filter", "delete", rule["uuid"])
    made.line.Close()


def test_a_command_names_the_rules_that_may_hold_its_job(scene: Scene) -> None:
    scene.Add("--predicates=[]", "--action=CONTINUE")
    uuid = scene.Add("--priority=3", f"--predicates={AFTER}", "--action=PAUSE")
    node = scene.cluster[0]
    command = [sys.executable, "-c", STARTER, "gnt-debug", "delay", "--no-locks", "0"]
    with subprocess.Popen(
        command, env=node.Environment(), cwd=node.root, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().endswith(" is waiting in queue\n")
        line = process.stderr.readline()
        assert line == f"It may be held back by filter rules: {uuid} (PAUSE); 'gnt-filter info' shows them\n"
        assert process.poll() is None
        scene.Must("gnt-filter", "delete", uuid)
        _, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (0, "")


def test_nothing_new_starts_until_the_rule_is_deleted(scene: Scene) -> None:
    before = scene.Submit()
    assert scene.End(before) == "success"
    uuid = scene.Add("--priority=3", f"--predicates={AFTER}", "--action=PAUSE", "--reason=work on the switches")
    [rule] = scene.Rules()
    assert rule["watermark"] >= before and rule["priority"] == 3 and rule["action"] == "PAUSE"
    assert [entry[:2] for entry in rule["reason_trail"]] == [["gnt:user", "work on the switches"], ["luxid", ""]]
    assert f"UUID: {uuid}\n  Watermark: {rule['watermark']}\n  Priority: 3\n" in scene.Must("gnt-filter", "info", uuid)
    assert scene.Must("gnt-filter", "list", "--no-headers", "-o", "uuid", uuid) == f"{uuid}\n"
    held = scene.Submit()
    # The next one is let through by a rule of its own, and ends, so the first one was looked at.
    scene.Add("--priority=0", '--predicates=[["reason", ["=", "reason", "maintenance"]]]', "--action=ACCEPT")
    assert scene.End(scene.Submit("--reason=maintenance")) == "success"
    assert scene.Status(held) == "queued"
    assert scene.Must("gnt-filter", "delete", uuid) == ""
    assert scene.End(held) == "success"
    assert scene.Run("gnt-filter", "delete", uuid).code == 1


def test_a_rule_is_replaced(scene: Scene) -> None:
    assert scene.Must("gnt-filter", "replace", "--priority=7", "--action=PAUSE", UUID) == f"{UUID}\n"
    held = scene.Submit()
    assert [rule["priority"] for rule in scene.Rules()] == [7]
    assert scene.Must("gnt-filter", "replace", "--action=REJECT", "--reason=no more today", UUID) == f"{UUID}\n"
    assert scene.End(held) == "canceled"
    assert f"Job rejected by filter rule {UUID}" in scene.Must("gnt-job", "info", str(held))
    done = scene.Run("gnt-debug", "delay", "0")
    assert done.code == 1
    assert done.err == f"Failure: Job rejected by filter rule {UUID}: no more today\nsee 'gnt-filter info {UUID}'\n"
    # What is not given is the default, not what the rule was.
    scene.Must("gnt-filter", "replace", UUID)
    assert [(rule["priority"], rule["action"]) for rule in scene.Rules()] == [(0, "CONTINUE")]
    assert scene.End(scene.Submit()) == "success"
    done = scene.Run("gnt-filter", "add", "--priority=-1")
    assert done.code == 1 and "'-1' is not a valid priority of a filter rule" in done.err
    done = scene.Run("gnt-filter", "replace", "mine")
    assert done.code == 1 and "'mine' is not a valid UUID of a filter rule" in done.err


def test_a_running_job_is_not_rejected(scene: Scene) -> None:
    job = scene.Submit("--interruptible", duration="300")
    WaitUntil(lambda: scene.Status(job) == "running", "the job runs")
    scene.Add("--action=REJECT")
    assert scene.Status(job) == "running"
    scene.Interrupt(job)
    assert scene.End(job) == "success"


def test_at_most_so_many_run(scene: Scene) -> None:
    delays = '--predicates=[["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]'
    scene.Add(delays, "--action=RATE_LIMIT 2")
    assert scene.Rules()[0]["action"] == ["RATE_LIMIT", 2]
    jobs = [scene.Submit("--interruptible", duration="300")]
    WaitUntil(lambda: scene.Status(jobs[0]) == "running", "the first one has the lock that the others need")
    jobs += [scene.Submit(), scene.Submit()]
    WaitUntil(lambda: scene.Status(jobs[1]) == "waiting", "the second one has started, too")
    # A job to which the rule does not apply starts and ends: whoever may run has been started.
    assert scene.Run("gnt-cluster", "search-tags", "nothing").code == 1
    assert scene.Status(jobs[2]) == "queued"
    scene.Interrupt(jobs[0])
    assert [scene.End(job) for job in jobs] == ["success"] * 3


def test_the_first_rule_that_says_something_decides(scene: Scene) -> None:
    scene.Add("--priority=5", "--action=REJECT")
    scene.Add("--priority=1", "--action=CONTINUE")
    scene.Add("--priority=2", '--predicates=[["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]', "--action=ACCEPT")
    assert scene.End(scene.Submit()) == "success"
    done = scene.Run("gnt-cluster", "add-tags", "never")
    assert done.code == 1 and "Job rejected by filter rule" in done.err
    assert scene.Must("gnt-cluster", "list-tags") == ""


def test_rules_outlive_the_master_daemon(scene: Scene) -> None:
    uuid = scene.Add("--action=PAUSE")
    held = scene.Submit()
    scene.cluster[0].Stop("ganeti-masterd")
    scene.cluster[0].StartMaster()
    assert scene.Status(held) == "queued"
    assert [rule["uuid"] for rule in scene.Rules()] == [uuid]
    scene.Must("gnt-filter", "delete", uuid)
    assert scene.End(held) == "success"
