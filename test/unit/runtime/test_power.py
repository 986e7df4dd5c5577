"""What survives: a program is crashed at every step, and what it had acknowledged must be there."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies
from simulated import Machine, World

from ganeti import runtime

_KINDS = ("row", "file", "rename")


class _Ledger:
    """What the program was told is done, kept outside the machine."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.begun = 0


def _Program(plan: list[str], ledger: _Ledger) -> None:
    """Carries out numbered changes, one after the other; goes on where an earlier life of it stopped."""
    runtime.MakeDirs("/srv/a")
    runtime.MakeDirs("/srv/b")
    database = runtime.OpenDatabase("/srv/db")
    with database.Transaction():
        database.Execute("CREATE TABLE IF NOT EXISTS t (number INTEGER, half TEXT)")
    for number, kind in enumerate(plan):
        ledger.begun = number
        if kind == "row":
            with database.Transaction():
                database.Execute("INSERT INTO t VALUES (?, 'left')", (number,))
                database.Execute("INSERT INTO t VALUES (?, 'right')", (number,))
        elif kind == "file":
            runtime.WriteFile("/srv/a/file", f"{number}\n" * 50)
        else:
            runtime.WriteFile(f"/srv/a/{number}.new", f"{number}", sync=True)
            runtime.Rename(f"/srv/a/{number}.new", f"/srv/b/{number}")
        ledger.acknowledged.append(number)


def _Found(plan: list[str]) -> dict[str, list[int]]:
    """The numbers of the changes that are there, by kind; half a change is an error."""
    rows: list[int] = []
    if runtime.Exists("/srv/db"):
        database = runtime.OpenDatabase("/srv/db")
        if database.Query("SELECT 1 FROM sqlite_master"):
            halves = database.Query("SELECT number, count(*) FROM t GROUP BY number ORDER BY number")
            assert all(count == 2 for _, count in halves)
            rows = [number for number, _ in halves]
    files: list[int] = []
    if runtime.Exists("/srv/a/file"):
        lines = runtime.ReadText("/srv/a/file").splitlines()
        assert len(lines) == 50
        assert len(set(lines)) == 1
        last = int(lines[0])
        files = [number for number, kind in enumerate(plan) if kind == "file" and number <= last]
    renamed: list[int] = []
    if runtime.Exists("/srv/b"):
        renamed = sorted(int(name) for name in runtime.ListDir("/srv/b"))
        assert all(runtime.ReadText(f"/srv/b/{number}") == str(number) for number in renamed)
        both = {name.removesuffix(".new") for name in runtime.ListDir("/srv/a")} & {str(number) for number in renamed}
        assert not both
    return {"row": rows, "file": files, "rename": renamed}


def _Strike(machine: Machine, how: str) -> None:
    if how == "kill":
        for process in list(machine.processes.values()):
            process.Kill()
    else:
        machine.PowerOff()
        machine.PowerOn()


def _CrashAt(seed: int, plan: list[str], step: int, how: str) -> bool:
    """Runs the program up to a step, crashes it, and compares; False if it had ended before."""
    with World(seed) as world:
        machine = world.AddMachine("node1")
        ledger = _Ledger()
        machine.StartProcess(_Program, "program", (plan, ledger))
        if world.Run(max_steps=step):
            assert ledger.acknowledged == list(range(len(plan)))
            return False
        _Strike(machine, how)
        found = machine.Call(_Found, plan)
        for kind in _KINDS:
            expected = [number for number in ledger.acknowledged if plan[number] == kind]
            perhaps = [ledger.begun] if ledger.begun < len(plan) and plan[ledger.begun] == kind else []
            assert found[kind] in (expected, sorted({*expected, *perhaps})), (step, kind)
        assert world.failures == []
        return True


@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_step_of_a_plan_is_a_safe_place_to_crash(how: str, seed: int) -> None:
    plan = ["row", "file", "rename", "file", "row"]
    step = 1
    while _CrashAt(seed, plan, step, how):
        step += 1
    assert step > 25


@hypothesis.given(
    seed=strategies.integers(0, 1 << 20),
    plan=strategies.lists(strategies.sampled_from(_KINDS), min_size=1, max_size=6),
    step=strategies.integers(1, 80),
    how=strategies.sampled_from(["kill", "power"]),
)
@hypothesis.settings(max_examples=150)
def test_what_was_acknowledged_survives_any_crash(seed: int, plan: list[str], step: int, how: str) -> None:
    _CrashAt(seed, plan, step, how)


def _AfterPowerLoss(seed: int, before, look, wait: float = 0.0):
    with World(seed) as world:
        machine = world.AddMachine("n")
        machine.Call(before)
        world.RunFor(wait)
        machine.PowerOff()
        machine.PowerOn()
        return machine.Call(look)


def _ReadOrNone(path: str) -> str | None:
    return runtime.ReadText(path) if runtime.Exists(path) else None


def test_what_was_not_synced_may_be_lost_or_torn() -> None:
    def write() -> None:
        runtime.WriteFile("/tmp/file", "old")
        runtime.WriteFile("/tmp/file", "brand new", sync=False)

    found = {_AfterPowerLoss(seed, write, lambda: runtime.ReadText("/tmp/file")) for seed in range(80)}
    assert {"old", "brand new"} <= found
    assert any(text not in ("old", "brand new") for text in found)
    assert all("brand new".startswith(text) or text == "old" for text in found)


def test_after_half_a_minute_the_system_has_written_by_itself() -> None:
    def write() -> None:
        runtime.WriteFile("/tmp/file", "old")
        runtime.WriteFile("/tmp/file", "new", sync=False)
        runtime.RemoveFile("/tmp/gone")

    for seed in range(10):
        assert _AfterPowerLoss(seed, write, lambda: runtime.ReadText("/tmp/file"), wait=31) == "new"


def test_an_unsynced_rename_is_lost_or_kept_as_a_whole() -> None:
    def write() -> None:
        runtime.MakeDirs("/srv/a")
        runtime.MakeDirs("/srv/b")
        runtime.WriteFile("/srv/a/file", "x")
        runtime.Rename("/srv/a/file", "/srv/b/file", sync=False)

    def look() -> tuple[bool, bool]:
        return runtime.Exists("/srv/a/file"), runtime.Exists("/srv/b/file")

    assert {_AfterPowerLoss(seed, write, look) for seed in range(20)} == {(True, False), (False, True)}


def test_a_removed_file_may_come_back_unless_synced() -> None:
    def remove(sync: bool):
        def program() -> None:
            runtime.WriteFile("/tmp/file", "x")
            runtime.RemoveFile("/tmp/file", sync=sync)

        return program

    assert {_AfterPowerLoss(seed, remove(False), lambda: _ReadOrNone("/tmp/file")) for seed in range(20)} == {"x", None}
    assert {_AfterPowerLoss(seed, remove(True), lambda: _ReadOrNone("/tmp/file")) for seed in range(20)} == {None}


def test_syncing_a_folder_keeps_what_had_to_come_before() -> None:
    def write() -> None:
        runtime.MakeDirs("/srv/a")
        runtime.MakeDirs("/srv/b")
        runtime.WriteFile("/srv/a/one", "1")
        runtime.Rename("/srv/a/one", "/srv/a/two", sync=False)
        runtime.Rename("/srv/a/two", "/srv/b/three", sync=True)

    for seed in range(20):
        assert _AfterPowerLoss(seed, write, lambda: (runtime.ListDir("/srv/a"), runtime.ListDir("/srv/b"))) == (
            [],
            ["three"],
        )


def test_losing_power_again_loses_nothing_more() -> None:
    def write() -> None:
        for number in range(5):
            runtime.WriteFile(f"/tmp/{number}", "x", sync=False)

    for seed in range(10):
        with World(seed) as world:
            machine = world.AddMachine("n")
            machine.Call(write)
            states = []
            for _ in range(3):
                machine.PowerOff()
                machine.PowerOn()
                names = machine.Call(lambda: runtime.ListDir("/tmp"))
                states.append([(name, machine.Call(lambda name=name: _ReadOrNone(f"/tmp/{name}"))) for name in names])
            assert states[0] == states[1] == states[2]


def test_many_files_written_at_once_are_whole_and_durable() -> None:
    for step in range(1, 200):
        with World(step) as world:
            machine = world.AddMachine("node1")
            acknowledged: list[bool] = []

            def write(acknowledged: list[bool] = acknowledged) -> None:
                runtime.MakeDirs("/srv")
                runtime.WriteFiles([runtime.NewFile(f"/srv/{number}", b"x" * 5000) for number in range(5)])
                acknowledged.append(True)

            machine.StartProcess(write, "writer")
            world.Run(max_steps=step)
            machine.PowerOff()
            machine.PowerOn()

            def look() -> list[bytes]:
                names = runtime.ListDir("/srv") if runtime.Exists("/srv") else []
                return [runtime.ReadFile(f"/srv/{name}") for name in names if not name.startswith(".")]

            found = machine.Call(look)
            assert all(data == b"x" * 5000 for data in found), "a file has its name only with its content"
            if acknowledged:
                assert len(found) == 5
                return
    raise AssertionError("it takes more steps than that")
