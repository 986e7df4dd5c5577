"""Taking a cluster over, disturbed before and after each of its steps: it is taken back or continued, and ends as it should.

What walks through the steps is the real program; a machine's part is a model that insists on the order of things.
"""

from __future__ import annotations

from typing import Any

import pytest
from simulated import Invocation
from support import cutting
from support.cutting import Cut, Machines

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
    "hand-back": ({"record": True}, {"form": "original"}),
    "start-original": ({"form": "original", "boot": "original"}, {"side": "original"}),
}
# How many of all the cuts one seed tries.
SAMPLE = 20  # of all cuts; CUTS=10000 tries every one


class Scene(Machines):
    """Three nodes that the original runs."""

    def __init__(self) -> None:
        super().__init__([f"node{number}.example.org" for number in (1, 2, 3)])
        for machine in self.all:
            machine.programs[pathutils.ADOPT] = self._OnNode
            for folder in (f"{PREFIX}/sbin", pathutils.SBIN_DIR):
                machine.programs[f"{folder}/gnt-job"] = lambda invocation: 0
                machine.programs[f"{folder}/gnt-instance"] = lambda invocation: 0
                machine.programs[f"{folder}/gnt-cluster"] = _Queue
            machine.Call(runtime.MakeDirs, pathutils.QUEUE_DIR)
            machine.Call(_Write, ORIGINAL)
        self.world.RunFor(60)

    def _OnNode(self, invocation: Invocation) -> int:
        request = serializer.Load(invocation.stdin)
        answer: dict[str, Any] = {"ok": True, "value": []}
        state = _Read()
        try:
            for step in request["steps"]:
                state = _Do(step, state)
        except (AssertionError, OSError) as err:
            answer = {"ok": False, "value": str(err)}
        if request["steps"] == ["guests"]:
            answer["value"] = {}
        invocation.Print(serializer.Dump(answer))
        return 0

    def TakeOver(self, revert: bool = False, cut: Cut | None = None) -> cutting.Happened:
        def command() -> int:
            names = [machine.name for machine in self.all]
            fresh = {"state": takeover.TAKING_OVER, "prefix": PREFIX, "nodes": names}
            journal = takeover.Journal.Read() or takeover.Journal(fresh)
            nodes = [remote.Node(name, 22, name == names[0], "cluster.example.org") for name in names]
            work = takeover.Work(journal, nodes, 60, lambda text: None)
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
        if "runs the original again" in happened.text:
            assert scene.States() == [ORIGINAL] * 3 and not scene.Drained(), (scene.States(), happened.text)
        journal = scene.Journal()
        if happened.code and journal is not None:
            # Once the master daemon has served, going back is for people to decide; before, only what failed is left to undo.
            assert (
                "--revert' again" in happened.text
                or "--take-over' again" in happened.text
                or "start master" in journal.done
            ), (journal.done, happened.text)
        if "--revert' again" in happened.text:
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
