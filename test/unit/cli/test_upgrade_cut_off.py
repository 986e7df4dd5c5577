"""gnt-cluster upgrade, disturbed before and after each of its steps: it is taken back or reported, and another run finishes it.

The machines are simulated, with stand-ins of daemons and programs; what walks through the steps is the real command.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from simulated import Invocation, Machine, Program
from support import cutting
from support.configs import Example
from support.cutting import Cut, Machines

from ganeti import constants, pathutils, runtime, ssconf
from ganeti.bootstrap import releases
from ganeti.client.gnt_cluster import upgrade
from ganeti.luxi import server as luxi_server
from ganeti.tools.common import Parser

OLD, NEW, OLDER = constants.RELEASE_VERSION, "3.1.7", "3.0"
# The form of a machine's files; of the release from which the change goes to an older one, what is set aside.
KEPT = pathutils.DATA_EXT_KEPT_DIR
FORM, OWN_FORM = f"{pathutils.DATA_DIR}/form-of-the-model", "own"
DRAIN, PAUSE = pathutils.JOB_QUEUE_DRAIN_FILE, pathutils.WATCHER_PAUSE_FILE
# How many of all the cuts one seed tries.
SAMPLE = 25  # of all cuts; CUTS=10000 tries every one


class Scene(Machines):
    """Three nodes with two releases each.  ``running``: the release whose daemons run on a machine."""

    def __init__(self) -> None:
        root = Example()
        names = sorted(node.name for node in root.nodes.values() if not node.offline)
        super().__init__(sorted(names, key=lambda name: name != root.master_name))
        self.running: dict[str, str] = {}
        self.stopped: list[tuple[str, bool]] = []
        for number, machine in enumerate(self.all):
            machine.Call(self._Furnish, ssconf.Values(root))
            self._Install(machine)
            self.Call(self._StartDaemons, machine, on=number)
        self.world.RunFor(60)  # everything is written down

    def _Furnish(self, values: dict[str, str]) -> None:
        for folder in (pathutils.QUEUE_DIR, pathutils.SOCKET_DIR, pathutils.CONF_DIR, pathutils.LOCK_DIR,
                       *(f"{releases.LIB_DIR}/{version}" for version in (OLD, NEW, OLDER))):  # fmt: skip
            runtime.MakeDirs(folder)
        runtime.WriteFile(FORM, OWN_FORM)
        runtime.Symlink(f"{releases.LIB_DIR}/{OLD}", releases.LIB_LINK)
        ssconf.WriteSsconfFiles(values)

    def Boot(self, machine: Machine) -> None:
        """A machine that boots starts the daemons of the release that its link leads to."""
        self.running.pop(machine.name, None)
        machine.StartProcess(lambda: self._StartDaemons(machine), "boot")

    # --- programs -----------------------------------------------------------------------------------------------------

    def _Install(self, machine: Machine) -> None:
        def daemon_util(invocation: Invocation) -> int:
            if invocation.argv[1] == "start-all":
                return self._StartDaemons(machine)
            self.stopped.append((machine.name, self.master.disk.Lookup(DRAIN) is not None))
            self._StopDaemons(machine)
            return 0

        def link(invocation: Invocation) -> int:
            _, _, target, path = invocation.argv
            runtime.RemoveFile(f"{path}.new")  # the real one takes a new name each time
            runtime.Symlink(target, f"{path}.new")
            runtime.Rename(f"{path}.new", path, sync=False)
            return 0

        def sync(invocation: Invocation) -> int:
            machine.disk.SyncFolder(invocation.argv[1])
            return 0

        def test(invocation: Invocation) -> int:
            _, first, *more = invocation.argv
            if first == "-d":
                return 0 if runtime.IsDir(more[0]) else 1
            if first == "-e":
                return 0 if any(runtime.Exists(path) for path in invocation.argv if path.startswith("/")) else 1
            assert more[0] == "-ef"
            return 0 if runtime.ReadLink(first) == more[1] else 1

        def archive(invocation: Invocation) -> int:
            try:
                runtime.WriteFile(invocation.argv[2], b"x" * 5000)
            except OSError as err:
                invocation.Complain(f"tar: {err.strerror}\n")
                return 2
            return 0

        def hand_back(invocation: Invocation) -> int:
            if machine.name in self.running:
                invocation.Complain("ganeti-noded is running on this node\n")
                return 1
            if "--undo" in invocation.argv:
                if runtime.Exists(KEPT):
                    runtime.WriteFile(FORM, OWN_FORM)
                    runtime.RemoveFile(KEPT)
                return 0
            runtime.WriteFile(KEPT, b"")
            runtime.WriteFile(FORM, invocation.argv[-1])
            invocation.Print("memory-ratio of cluster is removed\n")
            return 0

        def remove(invocation: Invocation) -> int:
            runtime.RemoveFile(invocation.argv[-1], sync=True)  # one that a power failure brings back does no harm
            return 0

        programs: dict[str, Program] = {
            pathutils.HAND_BACK: hand_back,
            "rm": remove,
            pathutils.DAEMON_UTIL: daemon_util,
            "ln": link,
            "sync": sync,
            "tar": archive,
            "test": test,
            f"{pathutils.SBIN_DIR}/gnt-cluster": self._GntCluster,
            pathutils.POST_UPGRADE: lambda invocation: 0,
        }
        machine.programs |= {name: cutting.Guarded(program) for name, program in programs.items()}

    def _StartDaemons(self, machine: Machine) -> int:
        if machine.disk_full:
            return 1  # no daemon starts that cannot write its pid file
        release = os.path.basename(runtime.ReadLink(releases.LIB_LINK))
        if machine is self.master and release == OLD and runtime.ReadText(FORM) != OWN_FORM:
            return 1  # without its copy of the store the master daemon refuses
        runtime.MakeDirs(pathutils.SOCKET_DIR)  # as ensure-dirs does; a reboot empties /run
        if machine.name not in self.running:
            self.running[machine.name] = release
            if machine is self.master:
                machine.StartProcess(self._Masterd, "masterd")
                while not runtime.Exists(pathutils.QUERY_SOCKET):
                    runtime.Sleep(0.01)
        return 0

    def _StopDaemons(self, machine: Machine) -> None:
        self.running.pop(machine.name, None)
        for process in [each for each in machine.processes.values() if each.name == "masterd"]:
            process.Kill()
        runtime.MakeDirs(pathutils.SOCKET_DIR)
        runtime.RemoveFiles([pathutils.MASTER_SOCKET, pathutils.QUERY_SOCKET])

    def _Masterd(self) -> None:
        runtime.RemoveFiles([pathutils.MASTER_SOCKET, pathutils.QUERY_SOCKET])
        luxi_server.Server([pathutils.MASTER_SOCKET, pathutils.QUERY_SOCKET], _Answer, request_threads=1).Start()
        while True:
            runtime.Sleep(1000)

    def _GntCluster(self, invocation: Invocation) -> int:
        if self.master.name not in self.running:
            invocation.Complain("Cannot communicate with the master daemon")
            return 1
        words = invocation.argv[1:]
        if words == ["queue", "undrain"]:
            runtime.RemoveFile(DRAIN)
        elif words == ["watcher", "continue"]:
            runtime.RemoveFile(PAUSE)
        return 0

    def Type(self, machine: Machine, words: list[str]) -> None:
        """An administrator types a command on a machine."""
        program = machine.programs.get(words[0]) or machine.programs[f"{pathutils.SBIN_DIR}/{words[0]}"]
        machine.Call(program, Invocation(words, {}, b"", None, None))

    # --- looking ------------------------------------------------------------------------------------------------------

    def Upgrade(self, *words: str, cut: Cut | None = None) -> cutting.Happened:
        parser = Parser("", version=False)
        parser.add_option("--to", dest="to")
        parser.add_option("--resume", action="store_true", dest="resume", default=False)
        options, _ = parser.parse_args(list(words))
        return self.Run(lambda: upgrade.Run(options, []), cut)  # type: ignore[arg-type]

    def State(self) -> dict[str, Any]:
        def look() -> tuple[str, str, bool, bool, bool, bool]:
            link = os.path.basename(runtime.ReadLink(releases.LIB_LINK))
            form = runtime.ReadText(FORM)
            return link, form, runtime.Exists(KEPT), *map(runtime.Exists, (DRAIN, PAUSE, pathutils.INTENT_TO_UPGRADE))  # type: ignore[return-value]

        found = [self.Call(look, on=number) for number in range(len(self.all))]
        return {
            "links": {link for link, *_ in found},
            "running": {self.running.get(machine.name) for machine in self.all},
            "forms": {form for _, form, *_ in found},
            "kept": any(kept for _, _, kept, *_ in found),
            "drained": found[0][3],
            "paused": found[0][4],
            "recorded": found[0][5],
        }


def _Answer(method: str, args: list[Any]) -> Any:
    if method == "QueryConfigValues":
        return [runtime.Exists(DRAIN)]
    if method == "SetDrainFlag":
        runtime.WriteFile(DRAIN, b"")
        return True
    if method == "SetWatcherPause":
        runtime.WriteFile(PAUSE, b"")
        return args[0]
    assert method == "Query"
    return {"data": [], "fields": []}


def Whole(version: str) -> dict[str, Any]:
    """A cluster at this release, and nothing left of a change."""
    form = OLDER if version == OLDER else OWN_FORM
    return {"links": {version}, "running": {version}, "forms": {form}, "kept": False,
            "drained": False, "paused": False, "recorded": False}  # fmt: skip


def _Steps(target: str) -> list[str]:
    scene = Scene()
    try:
        done = scene.Upgrade("--to", target)
        assert done.code == 0, done.text
        assert scene.State() == Whole(target)
        return list(scene.steps)
    finally:
        scene.Close()


_TYPED = re.compile(r"'([^']+)'")


def _FollowAdvice(scene: Scene, text: str) -> None:
    """Type the commands that the messages name, those for "these nodes" on all of them."""
    for line in text.splitlines():
        if line.startswith("Remove the cause, then "):
            machines = scene.all if "these nodes" in line else scene.all[:1]
            for words in map(shlex.split, _TYPED.findall(line)):
                if words[:2] != ["gnt-cluster", "upgrade"]:
                    for machine in machines:
                        scene.Type(machine, words)


def Disturbed(target: str, cut: Cut) -> None:
    """Raise AssertionError unless what a disturbed run says is true and helps, and another run finishes the work."""
    scene = Scene()
    try:
        happened = scene.Upgrade("--to", target, cut=cut)
        scene.Heal()
        if happened.code == 0:
            assert scene.State() == Whole(target), (scene.State(), happened.text)
        elif happened.code is not None:
            _FollowAdvice(scene, happened.text)
            state = scene.State()
            assert state in (Whole(OLD), Whole(target)) or "'gnt-cluster upgrade --resume'" in happened.text, (
                state,
                happened.text,
            )
        again = scene.Upgrade(*(("--resume",) if scene.State()["recorded"] else ("--to", target)))
        assert again.code == 0, (again.text, happened.text)
        assert scene.State() == Whole(target), (scene.State(), again.text, happened.text)
    finally:
        scene.Close()


@pytest.mark.limit(300)
@pytest.mark.parametrize("target", [NEW, OLDER])
def test_whatever_happens_at_any_step_another_run_finishes_the_change(target: str) -> None:
    cutting.SweepCuts(_Steps(target), SAMPLE, functools.partial(Disturbed, target))


def test_a_way_back_that_fails_on_one_node_is_taken_back_on_those_that_were_handed_back() -> None:
    scene = Scene()
    try:
        scene.all[1].programs[pathutils.HAND_BACK] = lambda invocation: 1 if "--keep" in invocation.argv else 0
        happened = scene.Upgrade("--to", OLDER)
        assert happened.code == 1
        assert "memory-ratio of cluster is removed" in happened.text
        assert "Giving the cluster's files the form of this release again" in happened.text
        assert scene.State() == Whole(OLD)
    finally:
        scene.Close()


def _CutOff(when: Callable[[dict[str, Any], Scene], bool]) -> Scene:
    """Return a scene in which the way to the older release was cut off when this was so."""
    for number in range(len(_Steps(OLDER))):
        scene = Scene()
        scene.Upgrade("--to", OLDER, cut=Cut(number, cutting.AFTER, cutting.KILLED))
        scene.Heal()
        state = scene.State()
        if state["recorded"] and when(state, scene):
            scene.stopped.clear()
            return scene
        scene.Close()
    raise AssertionError


def test_nothing_is_stopped_under_a_job_where_nothing_was_handed_back() -> None:
    """People have allowed jobs again after a run that was cut off early; a job that moves a disk needs all node daemons."""
    scene = _CutOff(lambda state, _: state["forms"] == {OWN_FORM} and state["running"] == {OLD})
    try:
        scene.Call(runtime.RemoveFile, DRAIN)
        done = scene.Upgrade("--resume")
        assert done.code == 0, done.text
        assert scene.stopped and all(drained for _, drained in scene.stopped), scene.stopped
        assert scene.State()["forms"] == {OLDER}
    finally:
        scene.Close()


def test_where_something_was_handed_back_the_daemons_stop_for_the_way_back() -> None:
    """The master was, and its machine has been rebooted; the others have work to do."""
    scene = _CutOff(lambda state, _: state["forms"] == {OWN_FORM, OLDER})
    try:
        back = {machine.name for machine in scene.all if machine.Call(runtime.Exists, KEPT)}
        assert 0 < len(back) < 3
        scene.Call(runtime.RemoveFile, DRAIN)
        done = scene.Upgrade("--resume")
        assert done.code == 0, done.text
        assert {name for name, drained in scene.stopped if not drained} == back
    finally:
        scene.Close()
