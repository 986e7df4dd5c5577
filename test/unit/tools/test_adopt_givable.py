"""The checks before a cluster is given back to the original: what keeps it here, and that it then works on as before."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated import Invocation
from support import cutting
from support.adoption import Report
from support.cutting import Machines
from support.virtualnode import TOP

from ganeti import pathutils, runtime, serializer
from ganeti.server import ownnode
from ganeti.store import Epoch, Row
from ganeti.store.base import NOWHERE, Line
from ganeti.tools.adopt import main, remote, takeover
from ganeti.tools.adopt import node as onnode

ORIGINAL = Path(TOP, "test", "data", "adoption", "debian-3.0.2.config.data")
TOKENS = {"cluster": {"rapi_tokens": [{"name": "backup"}]}}


class Scene(Machines):
    """Two nodes that belong to this release.  ``jobs``: what its list of jobs shows, one text after the other."""

    def __init__(self) -> None:
        super().__init__(["node1.example.org", "node2.example.org"])
        self.jobs = [""]
        self.said: list[str] = []
        self.impatient = False
        self.started: list[str] = []
        self.reported: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []
        self.read_while_drained: bool | None = None
        for machine in self.all:
            machine.programs[pathutils.ADOPT] = self._Answer
        self.master.programs |= {
            f"{pathutils.SBIN_DIR}/gnt-cluster": _Queue,
            "/usr/sbin/gnt-cluster": _Queue,
            f"{pathutils.SBIN_DIR}/gnt-instance": lambda invocation: 0,
            f"{pathutils.SBIN_DIR}/gnt-job": self._ListJobs,
        }
        self.Call(runtime.MakeDirs, pathutils.QUEUE_DIR)
        names = [machine.name for machine in self.all]
        # Of the steps that were done, those that say something about the queue.
        done = [takeover.Record.name, takeover.Release.name]
        self.Call(takeover.Journal({"state": takeover.ADOPTED, "prefix": "/usr", "nodes": names, "done": done}).Save)

    def _Answer(self, invocation: Invocation) -> int:
        self.asked.append(serializer.Load(invocation.stdin))
        if self.asked[-1]["steps"] == ["look"]:
            invocation.Print(serializer.Dump({"ok": True, "value": {**Report(time=runtime.Time()), **self.reported}}))
            return 0
        if self.asked[-1]["steps"] == ["started-here"]:
            invocation.Print(serializer.Dump({"ok": True, "value": self.started}))
            return 0
        value: Any = [] if self.asked[-1]["steps"][-1] in ("pause", "hand-back") else {}
        invocation.Print(serializer.Dump({"ok": True, "value": value}))
        return 0

    def _ListJobs(self, invocation: Invocation) -> int:
        invocation.Print(self.jobs.pop(0) if len(self.jobs) > 1 else self.jobs[0])
        return 0

    def Check(self, config: dict[str, Any] | None = None, wait: float = 60) -> cutting.Happened:
        def read() -> dict[str, Any]:
            self.read_while_drained = runtime.Exists(pathutils.JOB_QUEUE_DRAIN_FILE)
            return config or {}

        def command() -> int:
            try:
                takeover.CheckGivable(self._Work(wait, read))
            except KeyboardInterrupt:
                return 130
            return 0

        return self.Run(command)

    def Revert(self, config: takeover.Config = dict) -> cutting.Happened:
        def command() -> int:
            takeover.Revert(self._Work(60, config))
            return 0

        return self.Run(command)

    def _Work(self, wait: float, config: takeover.Config) -> takeover.Work:
        journal = takeover.Journal.Read()
        assert journal is not None
        nodes = [remote.Node(name, 22, name == self.master.name, "cluster.example.org") for name in journal.nodes]
        return takeover.Work(journal, nodes, wait, self._Say, config)

    def _Say(self, text: str) -> None:
        self.said.append(text)
        if self.impatient and "waiting" in text:
            raise KeyboardInterrupt

    def Begin(self, state: str, *done: str, current: str | None = None) -> None:
        """As if a run had come so far."""
        journal = self.journal
        journal.state, journal.done, journal.current = state, list(done), current
        journal.found = {"drain begun": True, "instances": [], "guests": {}}
        self.Call(journal.Save)

    def Steps(self) -> list[str]:
        return [step for request in self.asked for step in request["steps"]]

    @property
    def drained(self) -> bool:
        return bool(self.Call(runtime.Exists, pathutils.JOB_QUEUE_DRAIN_FILE))

    def Drain(self) -> None:
        """As an administrator does."""
        self.Call(runtime.WriteFile, pathutils.JOB_QUEUE_DRAIN_FILE, b"")

    @property
    def journal(self) -> takeover.Journal:
        return self.Call(takeover.Journal.Read)  # type: ignore[no-any-return]


def _Queue(invocation: Invocation) -> int:
    if invocation.argv[2] == "drain":
        runtime.WriteFile(pathutils.JOB_QUEUE_DRAIN_FILE, b"")
    else:
        runtime.RemoveFile(pathutils.JOB_QUEUE_DRAIN_FILE)
    return 0


def _Fill() -> None:
    """A change that the files of this node do not show yet."""
    own = ownnode.OwnStore()
    epoch = Epoch(1, "aa")
    own.Promise("c", epoch, "node1.example.org")
    own.Adopt(epoch, None, Line((), NOWHERE), 0, False, [Row("job", "1", "{}")])
    own.Close()


@pytest.fixture
def play() -> Any:
    """``play(story)``: tells a story of a scene of its own."""

    def run(story: Callable[[Scene], None]) -> None:
        scene = Scene()
        try:
            story(scene)
        finally:
            scene.Close()

    return run


def test_a_cluster_that_can_be_given_back_has_no_job_that_could_change_that(play: Any) -> None:
    def story(scene: Scene) -> None:
        scene.jobs = ["7|running\n8|success\n", "7|running\n", "7|success\n"]
        assert scene.Check() == (0, "")
        assert scene.said == ["  waiting for jobs 7"]
        assert scene.drained and scene.read_while_drained
        # Undone, it is the queue of before: nobody had drained it.
        assert not scene.journal.drained and scene.journal.found == {"revert begun": True}

    play(story)


@pytest.mark.parametrize("drained", [False, True])
def test_what_the_original_does_not_support_keeps_the_cluster_here_and_at_work(play: Any, drained: bool) -> None:
    """The queue is afterwards as people had left it, and so it is noted when they try again."""

    def story(scene: Scene) -> None:
        if drained:
            scene.Drain()
        happened = scene.Check(TOKENS)
        assert happened.code == 1 and "'gnt-cluster rapi-token remove NAME'" in happened.text
        assert "run this again" in happened.text
        assert scene.read_while_drained and scene.drained == drained
        assert scene.journal.state == takeover.ADOPTED and scene.journal.found == {}
        if not drained:
            scene.Drain()
        assert scene.Check().code == 0
        assert scene.journal.drained

    play(story)


@pytest.mark.parametrize("drained", [False, True])
def test_the_original_gets_the_queue_as_people_had_left_it(play: Any, drained: bool) -> None:
    """Draining it was a part of the checks; each node is told whether its mark stays."""

    def story(scene: Scene) -> None:
        if drained:
            scene.Drain()
        assert scene.Check().code == 0
        scene.asked.clear()
        happened = scene.Revert()
        assert happened == (0, "")
        assert [request["steps"] for request in scene.asked] == [["pause"]] * 2 + [["forget"]] * 2
        assert {request["drained"] for request in scene.asked} == {drained}

    play(story)


def test_a_node_that_does_not_reply_has_to_be_marked_offline_first(play: Any) -> None:
    def story(scene: Scene) -> None:
        scene.silent.add(scene.all[1].name)
        happened = scene.Check()
        assert happened.code == 1 and "Node node2.example.org did not reply: " in happened.text
        assert "'gnt-node modify --offline=yes NODE'" in happened.text
        # Nothing was touched: that command is a job.
        assert not scene.drained and scene.journal.found == {} and scene.read_while_drained is None

    play(story)


def test_jobs_that_do_not_end_keep_the_cluster_here_and_at_work(play: Any) -> None:
    def story(scene: Scene) -> None:
        scene.jobs = ["7|waiting\n9|queued\n"]
        happened = scene.Check(wait=5)
        assert happened.code == 1 and "Jobs 7, 9 have not ended within 5 seconds" in happened.text
        assert "--wait" in happened.text
        assert not scene.drained and scene.read_while_drained is None

    play(story)


def test_files_that_stay_behind_the_state_are_not_judged(play: Any) -> None:
    """A token of a moment ago may not be in them yet."""

    def story(scene: Scene) -> None:
        scene.Call(runtime.MakeDirs, pathutils.DATA_EXT_DIR)
        scene.Call(_Fill)
        before = scene.world.now
        happened = scene.Check(TOKENS)
        assert happened.code == 1 and "older than its copy of the state" in happened.text
        assert scene.world.now - before >= 30
        assert not scene.drained and scene.read_while_drained is None

    play(story)


def test_a_queue_that_cannot_be_stopped_is_left_as_it_is(play: Any) -> None:
    def story(scene: Scene) -> None:
        calls: list[str] = []

        def queue(invocation: Invocation) -> int:
            calls.append(invocation.argv[2])
            if invocation.argv[2] == "drain":
                invocation.Complain("the master daemon does not reply\n")
                return 1
            return _Queue(invocation)

        scene.master.programs[f"{pathutils.SBIN_DIR}/gnt-cluster"] = queue
        happened = scene.Check()
        assert happened.code == 1 and "the master daemon does not reply" in happened.text
        assert calls == ["drain", "undrain"] and scene.journal.found == {}

    play(story)


@pytest.mark.parametrize("drained", [False, True])
def test_who_does_not_want_to_wait_any_longer_has_a_queue_that_works(play: Any, drained: bool) -> None:
    """Ctrl-C, or a terminal that is gone."""

    def story(scene: Scene) -> None:
        if drained:
            scene.Drain()
        scene.jobs, scene.impatient = ["7|running\n"], True
        assert scene.Check().code == 130
        assert scene.drained == drained and scene.journal.found == {}
        assert scene.said[1:] == ([] if drained else ["  Jobs may start again: the queue is not drained any longer."])

    play(story)


SERVED = ("record", "drain", "pause", "exchange", "start master")


@pytest.mark.parametrize(("done", "current"), [(SERVED, None), (SERVED[:-1], "start master")])
def test_whoever_worked_with_an_unfinished_take_over_is_asked_too(
    play: Any, monkeypatch: pytest.MonkeyPatch, done: tuple[str, ...], current: str | None
) -> None:
    """The run ended behind the start of the master daemon; what people have made with it since may not be lost."""
    monkeypatch.setattr(sys, "argv", ["adopt", "--revert", "--yes-do-it"])

    def story(scene: Scene) -> None:
        scene.Begin(takeover.TAKING_OVER, *done, current=current)
        config = _Config(*scene.journal.nodes)
        config["cluster"] |= TOKENS["cluster"]
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(config))
        happened = scene.Run(main.Main)
        assert happened.code == 1 and "The remote interface has tokens" in happened.text
        assert not scene.drained and scene.journal.state == takeover.TAKING_OVER
        assert set(scene.Steps()) == {"started-here", "guests"}

    play(story)


@pytest.mark.parametrize("marked", [False, True])
def test_the_mark_of_the_way_forward_is_not_taken_for_one_of_people(play: Any, marked: bool) -> None:
    def story(scene: Scene) -> None:
        scene.Begin(takeover.TAKING_OVER, *SERVED)
        if marked:
            scene.Drain()
        assert scene.Check().code == 0
        assert not scene.journal.drained

    play(story)


def test_what_was_made_while_going_back_keeps_the_master_daemon_at_work(play: Any) -> None:
    """A job that was waited for may have made it, or people after an interruption."""

    def story(scene: Scene) -> None:
        scene.Begin(takeover.REVERTING, *SERVED)
        happened = scene.Revert(lambda: TOKENS)
        assert happened.code == 1 and "The remote interface has tokens" in happened.text
        assert "--revert' again" in happened.text
        assert not scene.drained and "stop-master" not in scene.Steps()
        scene.jobs = ["", "7|running\n", "7|success\n"]
        assert scene.Revert().code == 0
        assert "  waiting for jobs 7" in scene.said and "stop-master" in scene.Steps()

    play(story)


def test_a_master_daemon_that_has_ended_does_not_keep_the_cluster_here(play: Any) -> None:
    """Its files are judged."""

    def story(scene: Scene) -> None:
        scene.Begin(takeover.TAKING_OVER, *SERVED)
        scene.master.programs[f"{pathutils.SBIN_DIR}/gnt-job"] = lambda invocation: 1
        assert scene.Check(TOKENS).code == 1
        assert scene.Check().code == 0

    play(story)


# --- the command line -----------------------------------------------------------------------------------------------------


def _Config(*online: str, offline: tuple[str, ...] = ()) -> dict[str, Any]:
    names = [*online, *offline]
    nodes = {name: {"name": name, "group": "g", "offline": name in offline} for name in names}
    return {
        "cluster": {"cluster_name": "cluster.example.org", "master_node": names[0]},
        "nodes": nodes,
        "nodegroups": {"g": {}},
    }


@pytest.mark.parametrize("joined", [False, True])
def test_only_nodes_that_have_the_original_are_taken_over_late(
    play: Any, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    """One that was added since has none of its programs: it is as the others, and nothing is done there."""
    monkeypatch.setattr(sys, "argv", ["adopt", "--take-over"])

    def story(scene: Scene) -> None:
        journal = scene.journal
        names, journal.nodes = journal.nodes, journal.nodes[:1]
        scene.Call(journal.Save)
        scene.reported = {"daemons": {"ganeti-noded": "ours" if joined else "original"}, "record": False}
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(_Config(*names)))
        happened = scene.Run(main.Main)
        assert happened.code == 0, happened.text
        assert ("stop-original" in scene.Steps()) is not joined
        assert scene.journal.nodes == (names[:1] if joined else names)

    play(story)


def test_two_runs_do_not_work_at_the_same_time(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["adopt", "--revert", "--yes-do-it"])

    def story(scene: Scene) -> None:
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(_Config(*scene.journal.nodes)))

        def beside() -> int:
            runtime.MakeDirs(pathutils.RUN_DIR)
            with runtime.LockFile(pathutils.ADOPTION_LOCK):
                return main.Main()

        happened = scene.Run(beside)
        assert happened.code == 1 and "Another run of adopt is at work" in happened.text
        assert scene.Steps() == [] and scene.journal.state == takeover.ADOPTED

    play(story)


def test_a_node_finishes_what_a_run_whose_connection_broke_began(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"steps": ["unpause"], "original": "/usr"}

    def story(scene: Scene) -> None:
        def beside() -> str:
            runtime.MakeDirs(pathutils.RUN_DIR)
            with runtime.LockFile(pathutils.ADOPTION_NODE_LOCK):
                stdin, stdout = io.TextIOWrapper(io.BytesIO(serializer.Dump(request).encode())), io.StringIO()
                monkeypatch.setattr(sys, "stdin", stdin)
                monkeypatch.setattr(sys, "stdout", stdout)
                try:
                    assert onnode.Main() == 0
                finally:
                    monkeypatch.undo()
                return stdout.getvalue()

        begun = scene.world.now
        answer = serializer.Load(scene.Call(beside))
        assert not answer["ok"] and "What an earlier run began on this node is still at work" in answer["value"]
        assert scene.world.now - begun >= 120

    play(story)


def test_nodes_that_joined_later_are_taken_out_first(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no original to go back to; one that is offline is not asked."""
    monkeypatch.setattr(sys, "argv", ["adopt", "--revert", "--yes-do-it"])

    def story(scene: Scene) -> None:
        config = _Config(*scene.journal.nodes, "node3.example.org", offline=("node4.example.org",))
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(config))
        happened = scene.Run(main.Main)
        assert happened.code == 1, happened.text
        assert (
            "node3.example.org joined the cluster later" in happened.text and "'gnt-node remove NODE'" in happened.text
        )
        assert "node4" not in happened.text and not scene.drained and scene.journal.state == takeover.ADOPTED

    play(story)


def test_a_cluster_that_cannot_be_given_back_stays(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["adopt", "--revert", "--yes-do-it"])

    def story(scene: Scene) -> None:
        config = _Config(*scene.journal.nodes)
        config["cluster"] |= TOKENS["cluster"]
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(config))
        happened = scene.Run(main.Main)
        assert happened.code == 1 and "The remote interface has tokens" in happened.text
        assert not scene.drained and scene.journal.state == takeover.ADOPTED and scene.journal.found == {}
        assert set(scene.Steps()) == {"started-here", "guests"}

    play(story)


def test_guests_that_the_original_cannot_handle_are_named_before_anything_happens(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["adopt", "--revert"])

    def story(scene: Scene) -> None:
        scene.started = ["web"]
        config = _Config(*scene.journal.nodes)
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(config))
        happened = scene.Run(main.Main)
        assert "Instances that this release has started: web, web." in happened.text
        assert "'gnt-instance shutdown'" in happened.text and not scene.drained

    play(story)


def test_nothing_happens_without_a_word(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["adopt", "--revert"])

    def story(scene: Scene) -> None:
        config = _Config(*scene.journal.nodes)
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(config))
        assert scene.Run(main.Main).code == 1  # nobody is at a terminal
        assert not scene.drained and scene.journal.state == takeover.ADOPTED and scene.journal.found == {}

    play(story)


@pytest.mark.parametrize(
    ("nodes", "reported", "current", "problem"),
    [
        (("node1.example.org", "node2.example.org"), {"free": 10}, None, "has 10 MiB free"),
        (("node1.example.org", "node2.example.org"), {"free": 10}, "exchange", "has 10 MiB free"),
        (("node1.example.org",), {}, None, "Node node2.example.org joined or left the cluster"),
        (
            ("node1.example.org", "node2.example.org", "node3.example.org"),
            {},
            None,
            "Node node3.example.org joined or left the cluster",
        ),
    ],
)
def test_a_take_over_that_continues_checks_what_may_have_changed(
    play: Any,
    monkeypatch: pytest.MonkeyPatch,
    nodes: tuple[str, ...],
    reported: dict[str, Any],
    current: str | None,
    problem: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["adopt", "--take-over", "--yes-do-it"])

    def story(scene: Scene) -> None:
        scene.Begin(takeover.TAKING_OVER, "record", "drain", "pause", current=current)
        scene.reported = reported
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(_Config(*nodes)))
        happened = scene.Run(main.Main)
        assert (
            happened.code == 1
            and problem in happened.text
            and "'--revert' goes back" in happened.text.replace(pathutils.ADOPT + " ", "")
        )
        assert set(scene.Steps()) == {"look"} and not scene.drained
        assert scene.journal.state == takeover.TAKING_OVER and scene.journal.current == current

    play(story)


def test_an_exchange_that_was_interrupted_continues_without_the_original_s_master(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has stopped, and nodes have daemons and files of this release: that is no reason to stay without a master."""
    monkeypatch.setattr(sys, "argv", ["adopt", "--take-over", "--yes-do-it"])

    def story(scene: Scene) -> None:
        scene.Begin(takeover.TAKING_OVER, "record", "drain", "pause", current="exchange")
        scene.reported = {"daemons": {"ganeti-noded": "ours"}, "store": True, "record": True}
        config = json.loads(ORIGINAL.read_text())
        names = scene.journal.nodes
        ours = dict(
            zip(sorted(config["nodes"], key=lambda uuid: str(config["nodes"][uuid]["name"])), names, strict=False)
        )
        for uuid, node in config["nodes"].items():
            node["name"] = ours.get(uuid, node["name"])
            node["offline"] = uuid not in ours
        config["cluster"]["master_node"] = next(iter(ours))
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(config))
        happened = scene.Run(main.Main)
        assert happened.code == 0, happened.text
        assert "the original's master has stopped: no job can start" in happened.text
        assert scene.Steps().count("stop-original") == 3

    play(story)
