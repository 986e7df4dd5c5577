"""Runs of the real watcher, from its command line to the jobs that the master gets."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import configs
from support.watched import GROUP, MakeInstance, WatchedNode

from ganeti import opcodes

UP, DOWN = MakeInstance(1), MakeInstance(2, admin_state="down")
ONE, TWO = str(UP.name), str(DOWN.name)
HOUR = 3600.0

Make = Callable[..., WatchedNode]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[WatchedNode] = []
    # Paths of UNIX sockets are short.
    with tempfile.TemporaryDirectory(prefix="gnt-", dir="/tmp") as base:

        def build(*instances: Any) -> WatchedNode:
            made.append(WatchedNode(base, list(instances) or [UP, DOWN]))
            return made[0]

        yield build
        for node in made:
            node.Close()


@pytest.fixture
def node(make: Make) -> WatchedNode:
    return make()


@pytest.fixture
def dead(node: WatchedNode) -> WatchedNode:
    """The guest that should run does not."""
    node.master.dead = {ONE}
    return node


# --- instances ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-LOG-05")
def test_a_dead_guest_is_started_and_a_stopped_one_left_alone(dead: WatchedNode) -> None:
    dead.master.dead.add(TWO)
    lines = dead.LogOfRun()
    assert dead.master.Ops() == [f"INSTANCE_STARTUP {ONE}"]
    [[op]] = dead.master.submitted
    [[source, text, _]] = op["reason"]
    assert (source, text) == ("gnt:watcher", "Restarting: it should run and does not")
    assert f"INFO Starting instance {ONE}: it should run and does not (attempt 1 of 5)" in lines
    assert f"INFO Group default: 2 instances; start {ONE}" in lines
    # How the job ends is the business of the queue: nothing is said of it, and nobody waited for it.
    assert not [line for line in lines if "succe" in line or "started" in line]
    assert dead.Read("/var/run/ganeti/instance-status") == f"{ONE} ERROR_down\n{TWO} ADMIN_down\n"


def test_one_line_says_that_there_is_nothing_to_do(node: WatchedNode) -> None:
    assert [line for line in node.LogOfRun() if "default" in line] == [
        "INFO Group default: 2 instances, nothing to start"
    ]
    assert node.master.Ops() == []


def test_five_attempts_then_one_error(dead: WatchedNode) -> None:
    for attempt in range(1, 6):
        assert any(f"attempt {attempt} of 5" in line for line in dead.LogOfRun())
        dead.master.Forget()
    lines = dead.LogOfRun()
    assert [line for line in lines if line.startswith("ERROR")] == [
        f"ERROR Giving up on instance {ONE}: it should run and does not, and 5 attempts did not help; look at its jobs"
        " with 'gnt-job list'"
    ]
    lines = dead.LogOfRun()
    assert not [line for line in lines if line.startswith("ERROR")]
    assert f"INFO Leaving instance {ONE} alone: it should run and does not, and the watcher has given up" in lines
    assert dead.master.Ops() == []
    assert dead.State()["instance"][ONE]["restart_count"] == 6


def test_eight_hours_later_it_is_tried_again(dead: WatchedNode) -> None:
    dead.WriteState({"instance": {ONE: {"restart_count": 6, "restart_when": time.time() - 8 * HOUR - 10}}, "node": {}})
    dead.WatchInstances()
    assert dead.master.Ops() == []
    assert dead.State()["instance"] == {}
    dead.WatchInstances()
    assert dead.master.Ops() == [f"INSTANCE_STARTUP {ONE}"]


def test_a_guest_that_runs_again_has_all_its_attempts_before_it(dead: WatchedNode) -> None:
    dead.WatchInstances()
    dead.master.dead.clear()
    dead.master.Forget()
    assert f"INFO Forgetting the attempts at instance {ONE}: its status is running" in dead.LogOfRun()
    assert dead.State()["instance"] == {}


def test_a_locked_instance_is_left_alone(dead: WatchedNode) -> None:
    dead.master.locks = [[f"instance/{ONE}", "exclusive", ["job7"], []]]
    assert f"INFO Leaving instance {ONE} alone: it is locked by job7" in dead.LogOfRun()
    assert dead.master.Ops() == [] and dead.State()["instance"] == {}


@pytest.mark.parametrize("status", ["queued", "waiting", "running", "canceling"])
def test_an_instance_that_a_job_is_about_to_stop_is_left_alone(dead: WatchedNode, status: str) -> None:
    dead.master.statuses["OP_INSTANCE_SHUTDOWN"] = status
    dead.master._SubmitJob([{"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "inst1"}])
    assert f"INFO Leaving instance {ONE} alone: job 1001 acts on it" in dead.LogOfRun()
    assert dead.master.Ops() == [f"INSTANCE_SHUTDOWN {ONE.partition('.')[0]}"]


@pytest.mark.parametrize(
    "op",
    [
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": configs.NODE1},
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": "NODE1"},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": ONE.upper()},
        {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": str(UP.uuid)},
    ],
)
def test_whatever_a_queued_job_calls_the_instance_or_its_node(dead: WatchedNode, op: dict[str, Any]) -> None:
    """The master looks up what the user typed only when the job runs."""
    dead.master.statuses[op["OP_ID"]] = "queued"
    dead.master._SubmitJob([op])
    assert f"INFO Leaving instance {ONE} alone: job 1001 acts on it" in dead.LogOfRun()
    assert len(dead.master.submitted) == 1


def test_an_instance_that_a_job_stopped_while_the_watcher_looked_is_left_alone(dead: WatchedNode) -> None:
    """The job has ended when the watcher asks for jobs, and it cannot know whether its rows are older."""

    def stop(kind: str, _fields: list[str]) -> None:
        if kind == "instance":
            dead.master.End(1001, {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": ONE})

    dead.master.on_query = stop
    assert f"INFO Leaving instance {ONE} alone: job 1001 acts on it" in dead.LogOfRun()
    assert dead.master.Ops() == []
    dead.master.on_query = lambda _kind, _fields: None
    dead.WatchInstances()
    assert dead.master.Ops() == [f"INSTANCE_STARTUP {ONE}"], "it ended before this run"


def test_a_start_that_is_still_queued_is_not_submitted_again(dead: WatchedNode) -> None:
    dead.master.statuses["OP_INSTANCE_STARTUP"] = "waiting"
    dead.WatchInstances()
    dead.WatchInstances()
    assert dead.master.Ops() == [f"INSTANCE_STARTUP {ONE}"]
    assert dead.State()["instance"][ONE]["restart_count"] == 1


def test_what_a_user_shut_down_is_cleaned_up(make: Make) -> None:
    node = make(UP.Replace(hvparams={"user_shutdown": True}))
    node.master.snapshot = node.master.snapshot.WithObject(
        node.master.snapshot.cluster.Replace(enabled_user_shutdown=True)
    )
    node.master.user_down = {ONE}
    lines = node.LogOfRun()
    assert f"INFO Cleaning up instance {ONE}: its user shut it down (attempt 1 of 5)" in lines
    [[op]] = node.master.submitted
    assert (op["OP_ID"], op["instance_name"], op["admin_state_source"]) == ("OP_INSTANCE_SHUTDOWN", ONE, "user")
    assert op["if_match"] == f"{UP.uuid}-{UP.serial_no}"
    assert node.State()["instance"][ONE]["cleanup_count"] == 1


@pytest.mark.parametrize("changed", [False, True])
def test_a_job_that_found_its_instance_changed_is_no_attempt(dead: WatchedNode, changed: bool) -> None:
    """The administrator's shutdown ran between the look at the jobs and the start: the start must not undo it."""
    text = f"The instance {opcodes.CHANGED_SINCE}: its serial number is 8" if changed else "no memory"
    dead.master.failures["OP_INSTANCE_STARTUP"] = ["OpPrereqError", [text, "wrong_state"]]
    dead.WatchInstances()
    [[op]] = dead.master.submitted
    assert op["if_match"] == f"{UP.uuid}-{UP.serial_no}"
    assert dead.State()["instance"][ONE]["restart_job"] == 1001
    lines = dead.LogOfRun()
    said = (
        f"INFO Job 1001 did nothing because instance {ONE} had been changed; it does not count as an attempt" in lines
    )
    assert said == changed and not [line for line in lines if line.startswith("ERROR")]
    assert any(f"(attempt {1 if changed else 2} of 5)" in line for line in lines)
    assert dead.State()["instance"][ONE]["restart_count"] == (1 if changed else 2)


def test_an_attempt_is_taken_back_once(dead: WatchedNode) -> None:
    tries = {"restart_count": 3, "restart_when": time.time(), "restart_job": 1001}
    dead.WriteState({"instance": {ONE: tries}, "node": {}})
    text = f"The instance {opcodes.CHANGED_SINCE}: its serial number is 8"
    dead.master.failures["OP_INSTANCE_STARTUP"] = ["OpPrereqError", [text, "wrong_state"]]
    dead.master._SubmitJob([{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": ONE}])
    dead.master.locks = [[f"instance/{ONE}", "exclusive", ["job7"], []]]
    for _ in range(2):
        dead.WatchInstances()
        assert dead.State()["instance"][ONE]["restart_count"] == 2


def test_a_drained_queue_gets_nothing_and_no_attempt_counts(dead: WatchedNode) -> None:
    dead.master.answers["SubmitManyJobs"] = errors_encoded("JobQueueDrainError", "Job queue is drained, refusing job")
    lines = dead.LogOfRun()
    assert "WARNING No jobs can be submitted now: Job queue is drained, refusing job" in lines
    assert dead.Read(dead.StateFile()) == ""


def errors_encoded(name: str, text: str) -> list[object]:
    """An error as the master sends it."""
    return [name, [text]]


def test_a_rejected_job_is_no_attempt(dead: WatchedNode) -> None:
    dead.master.answers["SubmitManyJobs"] = [[False, "Job queue is full"]]
    assert "ERROR Job INSTANCE_STARTUP(" + ONE + ") was rejected: Job queue is full" in dead.LogOfRun()
    assert dead.State()["instance"] == {}


def test_a_run_that_fails_remembers_nothing(dead: WatchedNode) -> None:
    """The jobs were submitted; what came then did not work."""
    os.mkdir(dead.Path("/var/run/ganeti/instance-status"))
    dead.WriteState({"instance": {}, "node": {}})
    dead.master.answers["SubmitManyJobs"] = [[True]]  # nonsense
    done = dead.Watch("--no-verify-disks", "-g", GROUP)
    assert done.returncode == 1 and done.stderr == ""
    assert "unexpected error" in dead.Log()
    assert dead.State() == {"instance": {}, "node": {}}


def test_a_damaged_state_is_treated_as_empty(dead: WatchedNode) -> None:
    dead.Write(dead.StateFile(), "{]", 0o600)
    lines = dead.LogOfRun()
    assert any("is damaged and treated as empty" in line for line in lines)
    assert dead.State()["instance"][ONE]["restart_count"] == 1


# --- disks --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mirrored(make: Make) -> WatchedNode:
    example = configs.Example()
    node = make(example.instances[configs.WEB])
    node.master.snapshot = node.master.snapshot.Replace(disks=example.disks)
    node.WatchInstances()  # it knows the nodes' boot ids now
    node.master.Forget()
    return node


WEB = "web.example.org"


def test_disks_are_activated_after_a_reboot_of_their_secondary(mirrored: WatchedNode) -> None:
    mirrored.WatchInstances()
    assert mirrored.master.Ops() == []
    mirrored.master.boots[configs.NODE2] = "boot2"
    assert f"INFO Activating the disks of instance {WEB}: its secondary node was booted" in mirrored.LogOfRun()
    assert mirrored.master.Ops() == [f"INSTANCE_ACTIVATE_DISKS {WEB}"]
    assert mirrored.State()["node"]["node2.example.org"] == {"bootid": "boot2", "activation_jobs": [1001]}
    [[op]] = mirrored.master.submitted
    assert op["if_match"] == _Version(mirrored)
    mirrored.master.Forget()
    mirrored.WatchInstances()
    assert mirrored.master.Ops() == []
    assert mirrored.State()["node"]["node2.example.org"] == {"bootid": "boot2"}


def _Version(node: WatchedNode) -> str:
    instance = node.master.snapshot.InstanceByName(WEB)
    return f"{instance.uuid}-{instance.serial_no}"


def test_disks_are_looked_at_again_if_the_job_found_the_instance_changed(mirrored: WatchedNode) -> None:
    """A tag that was set in between would otherwise leave the mirrors down: the boot id is remembered already."""
    text = f"The instance {opcodes.CHANGED_SINCE}: its serial number is 8"
    mirrored.master.failures["OP_INSTANCE_ACTIVATE_DISKS"] = ["OpPrereqError", [text, "wrong_state"]]
    mirrored.master.boots[configs.NODE2] = "boot2"
    mirrored.WatchInstances()
    mirrored.master.failures.clear()
    assert any(
        "Job 1001 did nothing because an instance with disks on node node2" in line for line in mirrored.LogOfRun()
    )
    assert mirrored.master.Ops() == [f"INSTANCE_ACTIVATE_DISKS {WEB}"] * 2
    mirrored.WatchInstances()
    assert len(mirrored.master.submitted) == 2


def test_a_job_for_disks_that_is_still_queued_is_remembered(mirrored: WatchedNode) -> None:
    mirrored.master.statuses["OP_INSTANCE_ACTIVATE_DISKS"] = "queued"
    mirrored.master.boots[configs.NODE2] = "boot2"
    for _ in range(2):
        mirrored.WatchInstances()
        assert mirrored.State()["node"]["node2.example.org"]["activation_jobs"] == [1001]
    assert len(mirrored.master.submitted) == 1


def test_an_activation_that_was_rejected_is_submitted_by_the_next_run(mirrored: WatchedNode) -> None:
    """Of the boot nothing is remembered until the queue has a job because of it."""
    mirrored.WatchInstances()
    before = mirrored.State()["node"]
    mirrored.master.boots[configs.NODE2] = "boot2"
    mirrored.master.answers["SubmitManyJobs"] = [[False, "Job queue is full"]]
    assert f"ERROR Job INSTANCE_ACTIVATE_DISKS({WEB}) was rejected: Job queue is full" in mirrored.LogOfRun()
    assert (mirrored.master.Ops(), mirrored.State()["node"]) == ([], before)
    del mirrored.master.answers["SubmitManyJobs"]
    mirrored.WatchInstances()
    assert mirrored.master.Ops() == [f"INSTANCE_ACTIVATE_DISKS {WEB}"]
    assert mirrored.State()["node"]["node2.example.org"] == {"bootid": "boot2", "activation_jobs": [1001]}


def test_not_those_of_an_instance_that_is_started_just_now(mirrored: WatchedNode) -> None:
    mirrored.master.boots[configs.NODE2] = "boot2"
    mirrored.master.dead = {WEB}
    mirrored.WatchInstances()
    assert mirrored.master.Ops() == [f"INSTANCE_STARTUP {WEB}"]


def test_a_locked_instance_gets_its_disks_in_a_later_run(mirrored: WatchedNode) -> None:
    mirrored.master.boots[configs.NODE2] = "boot2"
    mirrored.master.locks = [[f"instance/{WEB}", "exclusive", ["job7"], []]]
    assert any("have to wait" in line for line in mirrored.LogOfRun())
    assert mirrored.master.Ops() == []
    mirrored.master.locks = []
    mirrored.WatchInstances()
    assert mirrored.master.Ops() == [f"INSTANCE_ACTIVATE_DISKS {WEB}"]


def test_inactive_disks_that_a_verification_finds_are_activated(mirrored: WatchedNode) -> None:
    mirrored.master.results["OP_GROUP_VERIFY_DISKS"] = [[{"node9": "no answer"}, [WEB], {}]]
    mirrored.Watch("--no-strict")
    assert mirrored.master.Ops() == [f"GROUP_VERIFY_DISKS {GROUP}", f"INSTANCE_ACTIVATE_DISKS {WEB}"]
    [[verify], [activation]] = mirrored.master.submitted
    assert activation["if_match"] == _Version(mirrored)
    assert verify["is_strict"] is False and verify["priority"] == 10
    assert sorted(mirrored.master.jobs) == [1002]  # the verification is archived
    assert "node node9 could not be asked about disks: no answer" in mirrored.Log()


def test_volumes_that_are_gone_are_reported_and_not_made_again(mirrored: WatchedNode) -> None:
    lost = [[configs.NODE2, f"xenvg/v{number}"] for number in range(12)]
    mirrored.master.results["OP_GROUP_VERIFY_DISKS"] = [[{}, [], {WEB: lost, "a.example.org": lost[:1]}]]
    mirrored.Watch()
    assert mirrored.master.Ops() == [f"GROUP_VERIFY_DISKS {GROUP}"]
    first, second = [line for line in mirrored.Log().splitlines() if "has lost" in line]
    assert "ERROR Instance a.example.org has lost xenvg/v0 on node node2.example.org; unless a job makes" in first
    assert (
        f"Instance {WEB} has lost xenvg/v0 on node" in second and "v9 on node node2.example.org and 2 more;" in second
    )


def test_each_instance_that_a_verification_reports_gets_a_job(mirrored: WatchedNode) -> None:
    """One that finds its instance changed does not keep the others from their disks."""
    snapshot = mirrored.master.snapshot
    web = snapshot.InstanceByName(WEB)
    other = web.Replace(uuid=configs.Uuid(77), name="other.example.org")
    mirrored.master.snapshot = snapshot.WithObject(other)
    mirrored.master.results["OP_GROUP_VERIFY_DISKS"] = [[{}, [other.name, WEB], {}]]
    mirrored.Watch()
    assert [[op["instance_name"] for op in ops] for ops in mirrored.master.submitted[1:]] == [[other.name], [WEB]]


def test_disks_that_are_no_longer_used_stay_inactive(mirrored: WatchedNode) -> None:
    """The instance was shut down while its group's disks were verified."""

    def stop() -> None:
        snapshot = mirrored.master.snapshot
        web = snapshot.InstanceByName(WEB)
        mirrored.master.snapshot = snapshot.WithObject(web.Replace(admin_state="down", disks_active=False))

    mirrored.master.on_call["WaitForJobChange"] = stop
    mirrored.master.results["OP_GROUP_VERIFY_DISKS"] = [[{}, [WEB], {}]]
    mirrored.Watch()
    assert mirrored.master.Ops() == [f"GROUP_VERIFY_DISKS {GROUP}"]
    assert (
        f"The disks of instance {WEB} are inactive and left so: it does not use its disks any longer" in mirrored.Log()
    )


def test_disks_of_an_instance_that_a_job_took_during_the_verification_stay_inactive(mirrored: WatchedNode) -> None:
    def take() -> None:
        if mirrored.master.submitted:
            mirrored.master.locks = [[f"instance/{WEB}", "exclusive", ["job7"], []]]

    mirrored.master.on_call["WaitForJobChange"] = take
    mirrored.master.results["OP_GROUP_VERIFY_DISKS"] = [[{}, [WEB], {}]]
    mirrored.Watch()
    assert mirrored.master.Ops() == [f"GROUP_VERIFY_DISKS {GROUP}"]
    assert f"The disks of instance {WEB} are inactive and left so: it is locked by job7" in mirrored.Log()


def test_a_run_by_the_half_hour_is_strict(mirrored: WatchedNode) -> None:
    mirrored.master.results["OP_GROUP_VERIFY_DISKS"] = [[{}, [], {}]]
    mirrored.Watch()
    [[verify]] = mirrored.master.submitted
    assert verify["is_strict"] is True


@pytest.mark.parametrize("word", [GROUP, "default"])
def test_a_verification_that_is_under_way_is_not_doubled(mirrored: WatchedNode, word: str) -> None:
    mirrored.master.statuses["OP_GROUP_VERIFY_DISKS"] = "waiting"
    mirrored.master._SubmitJob([{"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": word}])
    mirrored.Watch()
    assert mirrored.master.Ops() == [f"GROUP_VERIFY_DISKS {word}"]
    assert "disks are not verified, as job 1001 does so already" in mirrored.Log()


def test_disks_of_providers_are_not_verified(mirrored: WatchedNode) -> None:
    snapshot = mirrored.master.snapshot
    disk = snapshot.disks[configs.WEB_DISK].Replace(dev_type="ext", logical_id=("prov", "vol"), children=[])
    mirrored.master.snapshot = snapshot.Replace(disks={disk.uuid: disk})
    mirrored.Watch()
    assert mirrored.master.Ops() == []


def test_a_failed_verification_is_an_error_in_the_log(mirrored: WatchedNode) -> None:
    mirrored.master.failures["OP_GROUP_VERIFY_DISKS"] = ["OpExecError", ["no node answers"]]
    assert mirrored.Watch().returncode == 0
    assert "ERROR Group default: the verification of disks failed: no node answers\n" in mirrored.Log()


# --- may it work now ----------------------------------------------------------------------------------------------------


def test_a_pause_is_kept_and_can_be_ignored(dead: WatchedNode) -> None:
    dead.Write("/var/lib/ganeti/watcher.pause", f"{int(time.time() + 1000)}\n")
    assert any("the watcher is paused until" in line for line in dead.LogOfRun())
    assert dead.master.Ops() == [] and dead.Asked() == []
    dead.WatchInstances("--ignore-pause")
    assert dead.master.Ops() == [f"INSTANCE_STARTUP {ONE}"]


def _Pause(node: WatchedNode) -> None:
    node.Write("/var/lib/ganeti/watcher.pause", f"{int(time.time() + 1000)}\n")


def test_a_pause_that_begins_while_the_hooks_run_is_kept(dead: WatchedNode) -> None:
    path, until = dead.Path("/var/lib/ganeti/watcher.pause"), int(time.time() + 1000)
    dead.Write("/etc/ganeti/hooks/watcher/10-wait", f"#!/bin/sh\necho {until} > {path}\n", 0o755)
    assert any("the watcher is paused until" in line for line in dead.LogOfRun())
    assert dead.master.Ops() == [] and "AutoArchiveJobs" not in [call[0] for call in dead.master.calls]


def test_a_pause_that_begins_while_the_master_is_asked_is_kept(dead: WatchedNode) -> None:
    dead.master.on_call["Query"] = lambda: _Pause(dead)
    lines = dead.LogOfRun("-g", GROUP)
    assert any("the watcher is paused until" in line for line in lines)
    assert not [line for line in lines if "Starting" in line]
    assert dead.master.Ops() == []
    dead.WatchInstances("-g", GROUP, "--ignore-pause")
    assert dead.master.Ops() == [f"INSTANCE_STARTUP {ONE}"]


def test_a_pause_that_begins_while_the_watcher_decides_is_kept_and_nothing_counts(dead: WatchedNode) -> None:
    """It asks what became of its last job, and then submits the next."""
    before = {"restart_count": 1, "restart_when": time.time(), "restart_job": 1001}
    dead.WriteState({"instance": {ONE: before}, "node": {}})
    dead.master.on_query = lambda _kind, fields: _Pause(dead) if "opresult" in fields else None
    lines = dead.LogOfRun()
    assert f"INFO Starting instance {ONE}: it should run and does not (attempt 2 of 5)" in lines
    assert any("the watcher is paused until" in line for line in lines)
    assert dead.master.Ops() == []
    assert dead.State()["instance"][ONE]["restart_count"] == 1


def test_a_pause_that_begins_while_disks_are_verified_is_kept(mirrored: WatchedNode) -> None:
    mirrored.master.results["OP_GROUP_VERIFY_DISKS"] = [[{}, [WEB], {}]]
    mirrored.master.on_call["WaitForJobChange"] = lambda: mirrored.master.submitted and _Pause(mirrored)
    mirrored.Watch("-g", GROUP)
    assert mirrored.master.Ops() == [f"GROUP_VERIFY_DISKS {GROUP}"]


def test_a_pause_keeps_the_disks_from_being_verified(mirrored: WatchedNode) -> None:
    mirrored.master.on_call["Query"] = lambda: _Pause(mirrored)
    mirrored.Watch("-g", GROUP)
    assert mirrored.master.Ops() == []


def test_nothing_is_done_while_another_program_stops_daemons(dead: WatchedNode) -> None:
    path = dead.Write("/var/lock/ganeti-watcher.lock", "", 0o600)
    with open(path, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert any(line.startswith("ERROR Nothing is done: another program") for line in dead.LogOfRun())
    assert dead.master.Ops() == []


def test_the_state_of_a_group_belongs_to_one_run(dead: WatchedNode) -> None:
    path = dead.Write(dead.StateFile(), "", 0o600)
    with open(path, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert dead.Watch("-g", GROUP).returncode == 1
        lines = dead.LogOfRun()
    assert "ERROR Group default: skipped: another watcher is running" in lines
    assert "ERROR The watcher's process for group default ended with exit code 1" in lines
    assert dead.master.Ops() == []


def test_on_a_machine_without_a_cluster_nothing_happens(node: WatchedNode) -> None:
    os.unlink(node.Path("/var/lib/ganeti/ssconf_master_node"))
    done = node.Watch()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not os.path.exists(node.Path("/var/log/ganeti/watcher.log"))


def test_on_other_nodes_only_the_node_is_looked_after(dead: WatchedNode) -> None:
    dead.WriteSsconf("master_node", "node2.example.org")
    dead.Install("ganeti-noded")
    assert "INFO This node is not the master: nothing else to do" in dead.LogOfRun()
    assert dead.master.Ops() == [] and dead.Asked() == ["check-and-start ganeti-noded"]


def test_a_configuration_that_names_another_master_ends_it(dead: WatchedNode) -> None:
    snapshot = dead.master.snapshot
    dead.master.snapshot = snapshot.WithObject(snapshot.cluster.Replace(master_node=configs.NODE2))
    dead.Write("/etc/hosts", "")
    for options in ((), ("-g", GROUP)):
        done = dead.Watch(*options)
        assert done.returncode in (11, 12), done
    assert dead.master.Ops() == []


@pytest.mark.parametrize(
    ("word", "text"), [("default", "is not the UUID of a node group"), (configs.Uuid(5), "is not known on this node")]
)
def test_a_group_is_named_by_its_uuid(dead: WatchedNode, word: str, text: str) -> None:
    done = dead.Watch("-g", word)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert text in dead.Log()


@pytest.mark.parametrize(
    ("argv", "text"),
    [(["x"], "No arguments"), (["-A", "soon"], "Invalid time specification"), (["--no-such"], "no such option")],
)
def test_wrong_options_are_usage_errors(node: WatchedNode, argv: list[str], text: str) -> None:
    done = node.Watch(*argv)
    assert done.returncode == 2 and text in done.stderr


def test_help_and_version(node: WatchedNode) -> None:
    assert "--no-verify-disks" in node.Watch("--help").stdout
    assert node.Watch("--version").stdout.startswith("ganeti-watcher (ganeti) ")


# --- the node and the master's daemons -----------------------------------------------------------------------------------


def test_old_jobs_are_archived(node: WatchedNode) -> None:
    node.WatchInstances("-A", "30m")
    assert ["AutoArchiveJobs", 1800] in node.master.calls
    node.WatchInstances()
    assert ["AutoArchiveJobs", 21600] in node.master.calls


def test_hooks_run_in_order_and_their_failure_is_logged(node: WatchedNode) -> None:
    node.Write("/etc/ganeti/hooks/watcher/20-second", "#!/bin/sh\necho two\nexit 3\n", 0o755)
    node.Write("/etc/ganeti/hooks/watcher/10-first", '#!/bin/sh\necho "one $GANETI_HOSTNAME"\n', 0o755)
    node.Write("/etc/ganeti/hooks/watcher/30-not.run", "#!/bin/sh\necho never\n", 0o755)
    node.Write("/etc/ganeti/hooks/watcher/40-neither", "#!/bin/sh\necho never\n", 0o644)
    hooks = [line for line in node.LogOfRun() if "hook" in line]
    assert hooks == [
        "INFO Watcher hook 10-first ran: one node1.example.org",
        "WARNING Watcher hook 20-second failed: two",
    ]


def test_daemons_that_died_are_started(node: WatchedNode) -> None:
    node.Install("ganeti-noded", "ganeti-confd", "ganeti-masterd")
    node.WatchInstances()
    assert node.Asked() == [f"check-and-start ganeti-{name}" for name in ("noded", "confd", "masterd")]


def test_a_daemon_that_runs_is_left_alone_and_one_that_does_not_start_is_logged(node: WatchedNode) -> None:
    node.Install("ganeti-noded", "ganeti-masterd")
    node.OnDaemonUtil("check-and-start", "ganeti-masterd", "echo 'no vote was won' >&2; exit 1")
    path = node.Write("/var/run/ganeti/ganeti-noded.pid", f"{os.getpid()}\n", 0o600)
    with open(path, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        lines = node.LogOfRun()
    assert node.Asked() == ["check-and-start ganeti-masterd"]
    assert any(line.startswith("ERROR ganeti-masterd:") and "no vote was won" in line for line in lines)


def test_a_master_that_does_not_answer_is_named(node: WatchedNode) -> None:
    node.Close()
    done = node.Watch(timeout=100)
    assert done.returncode == 1
    assert "The master daemon does not answer, so no instance is looked after" in node.Log()


def test_expired_keys_are_removed_on_the_way(node: WatchedNode) -> None:
    from ganeti import x509

    _, certificate = x509.MakeSelfSigned("node1", -10, 1)
    node.Write("/var/run/ganeti/crypto/x509-old/cert", certificate)
    node.Write("/var/run/ganeti/crypto/x509-old/key", "k")
    assert any("Removed key x509-old: its certificate expired" in line for line in node.LogOfRun())
    assert os.listdir(node.Path("/var/run/ganeti/crypto")) == []


def test_several_groups_have_processes_of_their_own(make: Make) -> None:
    other = configs.Uuid(77)
    node = make(UP)
    snapshot = node.master.snapshot
    group = snapshot.nodegroups[configs.GROUP].Replace(uuid=other, name="second")
    second = MakeInstance(3, primary_node=configs.NODE2)
    node.master.snapshot = (
        snapshot.WithObject(group).WithObject(snapshot.nodes[configs.NODE2].Replace(group=other)).WithObject(second)
    )
    node.WriteSsconf("nodegroups", f"{GROUP} default\n{other} second")
    node.master.dead = {ONE, str(second.name)}
    started = time.monotonic()
    node.WatchInstances()
    assert time.monotonic() - started >= 1  # the second group's process comes a second later
    assert sorted(node.master.Ops()) == [f"INSTANCE_STARTUP {ONE}", f"INSTANCE_STARTUP {second.name}"]
    assert node.Read("/var/run/ganeti/instance-status") == f"{ONE} ERROR_down\n{second.name} ERROR_down\n"
    pids = {line.split(" pid=")[1].split()[0] for line in node.Log().splitlines() if "Starting instance" in line}
    assert len(pids) == 2


def test_a_group_of_which_nothing_is_known_fails_alone(dead: WatchedNode) -> None:
    dead.WriteSsconf("nodegroups", f"not-a-uuid broken\n{GROUP} default")
    assert "ERROR The watcher's process for group broken ended with exit code 1" in dead.LogOfRun()
    assert dead.master.Ops() == [f"INSTANCE_STARTUP {ONE}"]


def test_state_is_json(dead: WatchedNode) -> None:
    dead.WatchInstances()
    assert set(json.loads(dead.Read(dead.StateFile()))) == {"instance", "node"}
