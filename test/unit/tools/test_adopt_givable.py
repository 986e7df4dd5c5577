"""The checks before a cluster is given back to the original: what keeps it here, and that it then works on as before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from simulated import Invocation
from support import cutting
from support.cutting import Machines

from ganeti import pathutils, runtime, serializer
from ganeti.server import ownnode
from ganeti.store import Epoch, Row
from ganeti.store.base import NOWHERE, Line
from ganeti.tools.adopt import main, remote, takeover

TOKENS = {"cluster": {"rapi_tokens": [{"name": "backup"}]}}


class Scene(Machines):
    """Two nodes that belong to this release.  ``jobs``: what its list of jobs shows, one text after the other."""

    def __init__(self) -> None:
        super().__init__(["node1.example.org", "node2.example.org"])
        self.jobs = [""]
        self.said: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.read_while_drained: bool | None = None
        for machine in self.all:
            machine.programs[pathutils.ADOPT] = self._Answer
        self.master.programs |= {
            f"{pathutils.SBIN_DIR}/gnt-cluster": _Queue,
            f"{pathutils.SBIN_DIR}/gnt-job": self._ListJobs,
        }
        self.Call(runtime.MakeDirs, pathutils.QUEUE_DIR)
        names = [machine.name for machine in self.all]
        # Of the steps that were done, those that say something about the queue.
        done = [takeover.Record.name, takeover.Release.name]
        self.Call(takeover.Journal({"state": takeover.ADOPTED, "prefix": "/usr", "nodes": names, "done": done}).Save)

    def _Answer(self, invocation: Invocation) -> int:
        self.asked.append(serializer.Load(invocation.stdin))
        value: Any = [] if self.asked[-1]["steps"][-1] == "pause" else {}
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
            takeover.CheckGivable(self._Work(wait), read)
            return 0

        return self.Run(command)

    def Revert(self) -> cutting.Happened:
        def command() -> int:
            takeover.Revert(self._Work(60))
            return 0

        return self.Run(command)

    def _Work(self, wait: float) -> takeover.Work:
        journal = takeover.Journal.Read()
        assert journal is not None
        nodes = [remote.Node(name, 22, name == self.master.name, "cluster.example.org") for name in journal.nodes]
        return takeover.Work(journal, nodes, wait, self.said.append)

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


# --- the command line -----------------------------------------------------------------------------------------------------


def _Config(*online: str, offline: tuple[str, ...] = ()) -> dict[str, Any]:
    names = [*online, *offline]
    nodes = {name: {"name": name, "group": "g", "offline": name in offline} for name in names}
    return {
        "cluster": {"cluster_name": "cluster.example.org", "master_node": names[0]},
        "nodes": nodes,
        "nodegroups": {"g": {}},
    }


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
        assert {tuple(request["steps"]) for request in scene.asked} == {("guests",)}

    play(story)


def test_nothing_happens_without_a_word(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["adopt", "--revert"])

    def story(scene: Scene) -> None:
        config = _Config(*scene.journal.nodes)
        scene.Call(runtime.WriteFile, pathutils.CLUSTER_CONF_FILE, serializer.Dump(config))
        assert scene.Run(main.Main).code == 1  # nobody is at a terminal
        assert not scene.drained and scene.journal.state == takeover.ADOPTED and scene.journal.found == {}

    play(story)
