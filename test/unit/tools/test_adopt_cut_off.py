"""Taking a cluster over, disturbed before and after each of its steps: it is taken back or continued, and ends as it should.

What walks through the steps is the real program; a machine's part is a model that insists on the order of things.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from simulated import Invocation, Machine
from support import cutting
from support.adoption import Report
from support.cutting import OTHER_FULL, SILENT, Cut, Machines

from ganeti import pathutils, runtime, serializer
from ganeti.tools.adopt import remote, takeover

PREFIX = "/usr"
STATE = f"{pathutils.DATA_DIR}/state-of-the-model"
ORIGINAL = {"side": "original", "form": "original", "boot": "original", "record": False, "paused": False}
OURS = {"side": "ours", "form": "ours", "boot": "ours", "record": True, "paused": False}
# What each step of a node needs of it, and what it changes.
STEPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "record": ({}, {"record": True}),
    "forget": ({}, {"record": False}),
    "pause": ({"record": True}, {"paused": True}),
    "unpause": ({}, {"paused": False}),
    "guests": ({}, {}),
    "start-master": ({"side": "ours"}, {}),
    "start-rest": ({"side": "ours"}, {}),
    "stop-master": ({}, {}),
    "switch": ({"record": True}, {"boot": "ours"}),
    "switch-back": ({"record": True, "form": "original"}, {"boot": "original"}),
    "start": ({"boot": "ours"}, {"side": "ours", "form": "ours"}),
    "hand-back": ({"record": True}, {"form": "original", "side": "none"}),
    "hand-back-late": ({"record": True}, {"form": "original", "side": "none"}),
    "look": ({}, {}),
    "start-original": ({"form": "original", "boot": "original"}, {"side": "original"}),
}
# What is returned, as far as anybody looks at it.
VALUES: dict[str, Any] = {"guests": {}, "hand-back": [], "pause": []}
# How many of all the cuts one seed tries.
SAMPLE = 20  # of all cuts; CUTS=10000 tries every one


class Scene(Machines):
    """Three nodes that the original runs."""

    def __init__(self) -> None:
        super().__init__([f"node{number}.example.org" for number in (1, 2, 3)])
        self.sides: dict[str, str] = {}
        for machine in self.all:
            machine.programs[pathutils.ADOPT] = functools.partial(self._OnNode, machine)
            for folder in (f"{PREFIX}/sbin", pathutils.SBIN_DIR):
                machine.programs[f"{folder}/gnt-job"] = functools.partial(_ListJobs, folder)
                machine.programs[f"{folder}/gnt-instance"] = lambda invocation: 0
                machine.programs[f"{folder}/gnt-cluster"] = _Queue
            machine.Call(runtime.MakeDirs, pathutils.QUEUE_DIR)
            machine.Call(_Write, ORIGINAL)
        self.world.RunFor(60)

    def _OnNode(self, machine: Machine, invocation: Invocation) -> int:
        request = serializer.Load(invocation.stdin)
        answer: dict[str, Any] = {"ok": True, "value": VALUES.get(request["steps"][-1])}
        state = _Read()
        try:
            for step in request["steps"]:
                if step == "start-original" and machine is self.master:
                    self._CheckAlone()
                if step == "stop-original" and state["side"] == "original":
                    assert state["paused"], "a watcher may be at work"
                    assert machine is not self.master or runtime.Exists(pathutils.JOB_QUEUE_DRAIN_FILE), (
                        "a job may be at work"
                    )
                state = _Do(step, state)
                self.sides[machine.name] = state["side"]
        except (AssertionError, OSError) as err:
            answer = {"ok": False, "value": str(err)}
        if request["steps"] == ["look"]:
            answer["value"] = Report(record=state["record"])
        invocation.Print(serializer.Dump(answer))
        return 0

    def _CheckAlone(self) -> None:
        """The original's master calls the others: daemons of this release run where they had to be left behind, at the most."""
        journal = takeover.Journal.Read()
        left = journal.left if journal is not None else {}
        for name, side in self.sides.items():
            assert side != "ours" or name in left, f"{name} has daemons of this release"

    def TakeOver(self, revert: bool = False, cut: Cut | None = None) -> cutting.Happened:
        def command() -> int:
            names = [machine.name for machine in self.all]
            fresh = {"state": takeover.TAKING_OVER, "prefix": PREFIX, "nodes": names}
            nodes = [remote.Node(name, 22, name == names[0], "cluster.example.org") for name in names]
            journal = takeover.Journal.Read() or takeover.Journal(fresh)
            work = takeover.Work(journal, nodes, 60, lambda text: None, dict)
            if journal.state == takeover.REVERTED:
                assert revert
                takeover.RevertLate(work, [node for node in nodes if node.name in journal.nodes], [])
            else:
                (takeover.Revert if revert else takeover.TakeOver)(work)
            return 0

        return self.Run(command, cut)

    def States(self) -> list[dict[str, Any]]:
        return [machine.Call(_Read) for machine in self.all]

    def Journal(self) -> takeover.Journal | None:
        return self.Call(takeover.Journal.Read)  # type: ignore[no-any-return]

    def Drained(self) -> bool:
        return bool(self.Call(runtime.Exists, pathutils.JOB_QUEUE_DRAIN_FILE))


def _Do(step: str, state: dict[str, Any]) -> dict[str, Any]:
    if step == "stop-original":
        # Files of this release stay as they are: its daemons may have started with the machine.
        return _Write({**state, "side": state["side"] if state["side"] == "ours" else "none"})
    needs, changes = STEPS[step]
    assert needs.items() <= state.items(), f"{step} needs {needs}, found {state}"
    return _Write({**state, **changes})


def _Write(state: dict[str, Any]) -> dict[str, Any]:
    runtime.WriteFile(STATE, serializer.Dump(state))
    return state


def _Read() -> dict[str, Any]:
    state: dict[str, Any] = serializer.Load(runtime.ReadFile(STATE))
    return state


def _ListJobs(folder: str, invocation: Invocation) -> int:
    """There are none, if its master is there to say so."""
    return 0 if _Read()["side"] == ("ours" if folder == pathutils.SBIN_DIR else "original") else 1


def _Queue(invocation: Invocation) -> int:
    try:
        if invocation.argv[2] == "drain":
            runtime.WriteFile(pathutils.JOB_QUEUE_DRAIN_FILE, b"")
        else:
            runtime.RemoveFile(pathutils.JOB_QUEUE_DRAIN_FILE)
    except OSError as err:
        invocation.Complain(f"Failed: {err.strerror}\n")
        return 1
    return 0


def _Steps() -> list[str]:
    scene = Scene()
    try:
        done = scene.TakeOver()
        assert done.code == 0, done.text
        assert scene.States() == [OURS] * 3 and not scene.Drained()
        return list(scene.steps)
    finally:
        scene.Close()


def Disturbed(cut: Cut) -> None:
    """Raise AssertionError unless the cluster is taken back or reported, and both ways lead to their ends afterwards."""
    scene = Scene()
    try:
        happened = scene.TakeOver(cut=cut)
        scene.Heal()
        if "runs the original again" in happened.text and "still have this release" not in happened.text:
            assert scene.States() == [ORIGINAL] * 3 and not scene.Drained(), (scene.States(), happened.text)
        journal = scene.Journal()
        if happened.code and journal is not None:
            # Once the master daemon has served, going back is for people to decide; before, only what failed is left to undo.
            assert (
                "--revert' again" in happened.text
                or "--revert' gives" in happened.text
                or "--take-over' again" in happened.text
            ), (journal.done, happened.text)
        behind = journal is not None and journal.state in (takeover.REVERTING, takeover.REVERTED)
        if behind or "--revert' again" in happened.text:
            assert scene.TakeOver(revert=True).code == 0
            assert scene.States() == [ORIGINAL] * 3 and not scene.Drained()
        again = scene.TakeOver()
        assert again.code == 0, (again.text, happened.text)
        assert scene.States() == [OURS] * 3 and not scene.Drained(), (scene.States(), happened.text)
        back = scene.TakeOver(revert=True)
        assert back.code == 0, back.text
        assert scene.States() == [ORIGINAL] * 3 and not scene.Drained(), scene.States()
        assert scene.Journal() is None
    finally:
        scene.Close()


@pytest.mark.limit(300)
def test_whatever_happens_at_any_step_the_cluster_goes_on_or_back() -> None:
    cutting.SweepCuts(_Steps(), SAMPLE, Disturbed)


def _Interrupted(when: Callable[[takeover.Journal, Scene], bool]) -> Scene:
    """Return a scene in which the run was killed when this was so."""
    for number in range(len(_Steps())):
        scene = Scene()
        scene.TakeOver(cut=Cut(number, cutting.AFTER, cutting.KILLED))
        scene.Heal()
        journal = scene.Journal()
        if journal is not None and when(journal, scene):
            return scene
        scene.Close()
    raise AssertionError


@pytest.mark.parametrize("drained", [False, True])
def test_what_people_did_between_two_runs_does_not_count_as_done(drained: bool) -> None:
    """The queue is not drained any longer, and the pause is over; the model's daemons insist on both when they stop."""
    scene = _Interrupted(lambda journal, _: journal.done == ["record", "drain", "pause"] and journal.current is None)
    try:
        if drained:  # by people, who gave that up then
            journal = scene.Journal()
            assert journal is not None
            journal.drained = True
            scene.Call(journal.Save)
        scene.Call(runtime.RemoveFile, pathutils.JOB_QUEUE_DRAIN_FILE)
        for machine, state in zip(scene.all, scene.States(), strict=True):
            machine.Call(_Write, {**state, "paused": False})
        again = scene.TakeOver()
        assert again.code == 0, again.text
        assert scene.States() == [OURS] * 3 and not scene.Drained()
    finally:
        scene.Close()


def test_a_continued_run_that_fails_again_takes_the_exchange_back_too() -> None:
    """Draining the queue once more must not hide from the way back that the exchange had begun."""
    scene = _Interrupted(
        lambda journal, scene: journal.current == "exchange" and scene.sides[scene.all[1].name] == "ours"
    )
    try:
        scene.silent.add(scene.all[2].name)
        assert "runs the original again" in scene.TakeOver().text
        assert scene.States()[:2] == [ORIGINAL] * 2 and not scene.Drained()
    finally:
        scene.Close()


# --- one node stays away --------------------------------------------------------------------------------------------------

AWAY = (SILENT, OTHER_FULL)


def _HasMaster(scene: Scene, happened: cutting.Happened) -> None:
    """Without the node that is away the others run the original again, and it follows once it is back."""
    first, _, third = scene.States()
    assert first == ORIGINAL and third == ORIGINAL and not scene.Drained(), (scene.States(), happened.text)
    journal = scene.Journal()
    if journal is not None:
        assert (journal.state, journal.nodes) == (takeover.REVERTED, [scene.all[1].name]), (
            vars(journal),
            happened.text,
        )
        scene.Heal()
        back = scene.TakeOver(revert=True)
        assert back.code == 0, back.text
    assert scene.States() == [ORIGINAL] * 3, (scene.States(), happened.text)
    assert scene.Journal() is None


def AwayWhileTakenOver(cut: Cut) -> None:
    scene = Scene()
    try:
        happened = scene.TakeOver(cut=cut)
        journal = scene.Journal()
        if journal is not None and journal.state != takeover.REVERTED:
            assert happened.code == 0 or "'gnt-node modify --offline=yes NODE'" in happened.text, happened.text
            happened = scene.TakeOver(revert=True)
            assert happened.code == 0, happened.text
        _HasMaster(scene, happened)
    finally:
        scene.Close()


def AwayWhileGivenBack(cut: Cut) -> None:
    scene = Scene()
    try:
        assert scene.TakeOver().code == 0
        happened = scene.TakeOver(revert=True, cut=cut)
        assert happened.code == 0, happened.text
        _HasMaster(scene, happened)
    finally:
        scene.Close()


def _StepsBack() -> list[str]:
    scene = Scene()
    try:
        assert scene.TakeOver().code == 0
        assert scene.TakeOver(revert=True).code == 0
        return list(scene.steps)
    finally:
        scene.Close()


@pytest.mark.limit(300)
def test_a_node_that_stays_away_does_not_keep_the_others_without_a_master() -> None:
    cutting.SweepCuts(_Steps(), SAMPLE, AwayWhileTakenOver, AWAY)
    cutting.SweepCuts(_StepsBack(), SAMPLE, AwayWhileGivenBack, AWAY)
