"""What adopt does on one node, cut off at each write: the next run finishes, forward or back, and nothing is lost.

The steps are the real ones; the machine is simulated, with stand-ins of both releases' daemons.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from simulated import Invocation
from support import cutting
from support.cutting import FULL, KILLED, POWER, Cut, Machines
from support.virtualnode import TOP

from ganeti import configfile, objects, pathutils, runtime, serializer, upgrade
from ganeti.server import ownnode
from ganeti.store import Epoch
from ganeti.tools.adopt import node

PREFIX = "/opt/original"
REQUEST = {"original": PREFIX, "drained": False}
# A cluster of Debian's 3.0.2.
ORIGINAL = Path(TOP, "test", "data", "adoption", "debian-3.0.2.config.data").read_bytes()
PREPARE = ("record", "pause")
EXCHANGE = ("stop-original", "switch")
# In between the daemons of this release work.
BACK = ("hand-back", "switch-back", "start-original", "unpause", "forget")
UNITS = "/lib/systemd/system"
# Who owns what in DATA: the original's users.
OWNERS = {"config.data": (101, 102), "queue": (101, 103), "rapi": (104, 101)}
# How many of all the cuts one seed tries.
SAMPLE = 40  # of all cuts; CUTS=10000 tries every one


class Scene(Machines):
    """One node.  ``side``: whose daemons run."""

    def __init__(self) -> None:
        super().__init__(["node1.example.org"])
        self.side = "original"
        self.master.programs |= {
            f"{PREFIX}/lib/ganeti/daemon-util": self._Daemons("original"),
            pathutils.DAEMON_UTIL: self._Daemons("ours"),
            f"{PREFIX}/lib/ganeti/ensure-dirs": lambda invocation: 0,
            f"{PREFIX}/sbin/ganeti-noded": _Version,
            "tar": cutting.Guarded(_Tar),
            "sync": self._Sync,
        }
        self.Call(_Furnish)
        self.world.RunFor(60)
        self.found = self.Everything()

    def _Daemons(self, whose: str) -> Any:
        def run(invocation: Invocation) -> int:
            if invocation.argv[1] == "stop-all":
                self.side = "none" if self.side == whose else self.side
            elif invocation.argv[1] == "start-all":
                self.side = whose
            return 0

        return run

    def _Sync(self, invocation: Invocation) -> int:
        self.master.disk.FindFile(invocation.argv[1]).Sync()
        return 0

    def Boot(self, machine: Any) -> None:
        """The machine starts those daemons that its units lead to."""
        self.side = "none"

    def Do(self, *steps: str, cut: Cut | None = None) -> cutting.Happened:
        def command() -> int:
            for step in steps:
                node.STEPS[step](REQUEST)
            return 0

        return self.Run(command, cut)

    def Work(self) -> None:
        """This release at work: a store, the configuration in its form with something new, files of its own."""
        self.Call(_Work)
        self.side = "ours"
        self.world.RunFor(60)

    def Everything(self) -> dict[str, Any]:
        """All files with owner and mode, but for copies and what a process that was killed could not remove."""
        tops = (pathutils.DATA_DIR, "/lib", *map(os.path.dirname, (pathutils.CRON_FILE, pathutils.LOGROTATE_FILE)),
                pathutils.SYSTEMD_DIR)  # fmt: skip
        found = [row for top in tops for row in self.Call(_Below, top)]
        return {path: what for path, what in found if ".new-" not in path}


def _Furnish() -> None:
    for folder in (pathutils.QUEUE_DIR, pathutils.RAPI_DATA_DIR, pathutils.LOCK_DIR, pathutils.RUN_DIR, UNITS,
                   pathutils.SYSTEMD_DIR, pathutils.EXAMPLES_DIR, pathutils.BACKUP_DIR, pathutils.LOG_DIR,
                   *map(os.path.dirname, (pathutils.CRON_FILE, pathutils.LOGROTATE_FILE))):  # fmt: skip
        runtime.MakeDirs(folder)
    runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, ORIGINAL, mode=0o640)
    runtime.WriteFile(f"{pathutils.QUEUE_DIR}/job-1", "{}", mode=0o640)
    runtime.WriteFile(pathutils.RAPI_USERS_FILE, "jack abc\n", mode=0o640)
    runtime.WriteFile(pathutils.SsconfFile("release_version"), "3.0.2\n", mode=0o444)
    for name, (uid, gid) in OWNERS.items():
        runtime.Chown(f"{pathutils.DATA_DIR}/{name}", uid, gid)
    runtime.WriteFile(pathutils.CRON_FILE, "the original's\n", mode=0o644)
    runtime.WriteFile(pathutils.LOGROTATE_FILE, "the original's\n", mode=0o644)
    for name in ("ganeti-noded.service", "ganeti-luxid.service", "ganeti.target"):
        runtime.WriteFile(f"{UNITS}/{name}", "the original's\n", mode=0o644)
    runtime.WriteFile(f"{pathutils.SYSTEMD_DIR}/ganeti-noded.service", "the administrator's\n", mode=0o644)
    runtime.Symlink("/lib/systemd/system/ganeti.target", f"{pathutils.SYSTEMD_DIR}/ganeti.target")
    for name in ("ganeti.cron", "ganeti.logrotate", "ganeti-noded.service", "ganeti.target"):
        runtime.WriteFile(f"{pathutils.EXAMPLES_DIR}/{name}", "ours\n", mode=0o644)


def _Work() -> None:
    own = ownnode.OwnStore()
    own.Promise("c", Epoch(1, "aa"), "node1.example.org")
    own.Close()
    data = upgrade.UpgradeConfig(serializer.LoadProper(ORIGINAL))
    data["cluster"]["tags"] = ["made-here"]
    runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, objects.ConfigText(configfile.LoadDict(data)), mode=0o640)
    runtime.WriteFile(f"{pathutils.QUEUE_DIR}/job-2", "{}", mode=0o600)
    runtime.WriteFile(pathutils.SsconfFile("release_version"), "ours\n", mode=0o444)
    for name in OWNERS:
        runtime.Chown(f"{pathutils.DATA_DIR}/{name}", 0, 0)


def _Below(folder: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name in runtime.ListDir(folder):
        path = f"{folder.rstrip('/')}/{name}"
        info = runtime.Stat(path, follow=False)
        if runtime.IsDir(path):
            found += [(path, (info.st_mode, info.st_uid, info.st_gid)), *_Below(path)]
        else:
            try:
                content: Any = runtime.ReadLink(path)
            except OSError:
                content = runtime.ReadFile(path)
            found.append((path, (info.st_mode, info.st_uid, info.st_gid, content)))
    return found


def _Version(invocation: Invocation) -> int:
    invocation.Print("ganeti-noded (ganeti) 3.0.2\n")
    return 0


def _Tar(invocation: Invocation) -> int:
    path = invocation.argv[2]
    runtime.WriteFile(path, "a part", sync=False)
    runtime.Sleep(0.1)
    runtime.WriteFile(path, "whole", sync=False)
    return 0


def _CheckBack(scene: Scene, worked: bool) -> None:
    """The node is the original's as it was found, with what has been done meanwhile."""
    assert scene.side == "original"
    now, before = scene.Everything(), dict(scene.found)
    if worked:
        path = pathutils.CLUSTER_CONF_FILE
        (*owned, text), (*owned_before, _) = now.pop(path), before.pop(path)
        assert owned == owned_before
        data = serializer.LoadProper(text)
        assert data["version"] == 3000000 and data["cluster"]["tags"] == ["made-here"]
        new = now.pop(f"{pathutils.QUEUE_DIR}/job-2")
        assert new[:3] == before[f"{pathutils.QUEUE_DIR}/job-1"][:3]
    assert {path: what for path, what in now.items() if before.get(path) != what} == {}
    assert before.keys() <= now.keys()
    copies = scene.Call(runtime.ListDir, pathutils.BACKUP_DIR)
    assert all(name.endswith(".tar") for name in copies if ".new-" not in name), copies
    for name in copies:
        if name.endswith(".tar"):
            assert scene.Call(runtime.ReadFile, f"{pathutils.BACKUP_DIR}/{name}") == b"whole"


def _Finish(scene: Scene, steps: tuple[str, ...], happened: cutting.Happened) -> None:
    scene.Heal()
    if happened.code != 0:
        again = scene.Do(*steps)
        assert again.code == 0, (again.text, happened.text)


def Disturbed(phase: tuple[str, ...], cut: Cut, back: bool) -> None:
    """Raise AssertionError unless the node gets where it should; ``back``: the way back begins after the cut."""
    scene = Scene()
    try:
        for steps in (PREPARE, EXCHANGE):
            happened = scene.Do(*steps, cut=cut if steps is phase else None)
            if back and steps is phase:
                scene.Heal()
                undo = scene.Do(*(BACK if scene.Call(runtime.Exists, pathutils.ADOPTION_RECORD) else BACK[2:]))
                assert undo.code == 0, (undo.text, happened.text)
                _CheckBack(scene, worked=False)
                return
            _Finish(scene, steps, happened)
        scene.Work()
        happened = scene.Do(*BACK[:2], cut=cut if phase is BACK else None)
        _Finish(scene, BACK[:2], happened)
        assert not scene.Call(runtime.Exists, pathutils.DATA_EXT_DIR)
        assert scene.Do(*BACK[2:]).code == 0
        _CheckBack(scene, worked=True)
    finally:
        scene.Close()


def _Steps(phase: tuple[str, ...]) -> list[str]:
    scene = Scene()
    try:
        counts: list[str] = []
        for steps in (PREPARE, EXCHANGE, BACK):
            if steps is BACK:
                scene.Work()
            done = scene.Do(*(steps[:2] if steps is BACK else steps))
            assert done.code == 0, done.text
            if steps is phase:
                counts = list(scene.steps)
        assert scene.Do(*BACK[2:]).code == 0
        _CheckBack(scene, worked=True)
        return counts
    finally:
        scene.Close()


@pytest.mark.limit(300)
@pytest.mark.parametrize("phase", [PREPARE, EXCHANGE, BACK], ids=["prepare", "exchange", "back"])
def test_whatever_happens_at_any_write_the_next_run_finishes_and_nothing_is_lost(phase: tuple[str, ...]) -> None:
    steps = _Steps(phase)
    ways = (False,) if phase is BACK else (False, True)
    cases = itertools.product(cutting.Cuts(len(steps), (KILLED, POWER, FULL)), ways)
    cutting.Sweep(
        cases,
        SAMPLE,
        lambda case: Disturbed(phase, *case),
        lambda case: cutting.Told(steps, case[0]) + (", back" if case[1] else ""),
    )
