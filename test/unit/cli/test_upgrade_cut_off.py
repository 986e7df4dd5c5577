"""gnt-cluster upgrade, disturbed before and after each of its steps: it is taken back or reported, and another run finishes it.

The machines are simulated, with stand-ins of daemons and programs; what walks through the steps is the real command.
"""

from __future__ import annotations

import os
import re
import shlex
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

OLD, NEW = constants.RELEASE_VERSION, "3.1.7"
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
        for number, machine in enumerate(self.all):
            machine.Call(self._Furnish, ssconf.Values(root))
            self._Install(machine)
            self.Call(self._StartDaemons, machine, on=number)
        self.world.RunFor(60)  # everything is written down

    def _Furnish(self, values: dict[str, str]) -> None:
        for folder in (pathutils.QUEUE_DIR, pathutils.SOCKET_DIR, pathutils.CONF_DIR, pathutils.LOCK_DIR,
                       *(f"{releases.LIB_DIR}/{version}" for version in (OLD, NEW))):  # fmt: skip
            runtime.MakeDirs(folder)
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
            assert more[0] == "-ef"
            return 0 if runtime.ReadLink(first) == more[1] else 1

        def archive(invocation: Invocation) -> int:
            try:
                runtime.WriteFile(invocation.argv[2], b"x" * 5000)
            except OSError as err:
                invocation.Complain(f"tar: {err.strerror}\n")
                return 2
            return 0

        programs: dict[str, Program] = {
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
        runtime.MakeDirs(pathutils.SOCKET_DIR)  # as ensure-dirs does; a reboot empties /run
        if machine.name not in self.running:
            self.running[machine.name] = os.path.basename(runtime.ReadLink(releases.LIB_LINK))
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
        def look() -> tuple[str, bool, bool, bool]:
            link = os.path.basename(runtime.ReadLink(releases.LIB_LINK))
            return link, *map(runtime.Exists, (DRAIN, PAUSE, pathutils.INTENT_TO_UPGRADE))  # type: ignore[return-value]

        found = [self.Call(look, on=number) for number in range(len(self.all))]
        return {
            "links": {link for link, *_ in found},
            "running": {self.running.get(machine.name) for machine in self.all},
            "drained": found[0][1],
            "paused": found[0][2],
            "recorded": found[0][3],
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
    return {"links": {version}, "running": {version}, "drained": False, "paused": False, "recorded": False}


def _Steps() -> list[str]:
    scene = Scene()
    try:
        done = scene.Upgrade("--to", NEW)
        assert done.code == 0, done.text
        assert scene.State() == Whole(NEW)
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


def Disturbed(cut: Cut) -> None:
    """Raise AssertionError unless what a disturbed run says is true and helps, and another run finishes the work."""
    scene = Scene()
    try:
        happened = scene.Upgrade("--to", NEW, cut=cut)
        scene.Heal()
        if happened.code == 0:
            assert scene.State() == Whole(NEW), (scene.State(), happened.text)
        elif happened.code is not None:
            _FollowAdvice(scene, happened.text)
            state = scene.State()
            assert state in (Whole(OLD), Whole(NEW)) or "'gnt-cluster upgrade --resume'" in happened.text, (
                state,
                happened.text,
            )
        again = scene.Upgrade(*(("--resume",) if scene.State()["recorded"] else ("--to", NEW)))
        assert again.code == 0, (again.text, happened.text)
        assert scene.State() == Whole(NEW), (scene.State(), again.text, happened.text)
    finally:
        scene.Close()


@pytest.mark.limit(300)
def test_whatever_happens_at_any_step_another_run_finishes_the_change() -> None:
    cutting.SweepCuts(_Steps(), SAMPLE, Disturbed)
