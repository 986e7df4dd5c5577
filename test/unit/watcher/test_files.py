"""The watcher's files on a simulated machine: state, lists of statuses, pause, old keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import Machine, World

from ganeti import errors, pathutils, runtime, transferkeys, watcherpause, x509
from ganeti.watcher import guard, state, status, verifydisks
from ganeti.watcher.rows import Instance

GROUP, OTHER = "00000002-aaaa-4bbb-8ccc-000000000002", "00000002-aaaa-4bbb-8ccc-00000000000f"
FILE = pathutils.WatcherStateFile(GROUP)


@pytest.fixture
def machine() -> Machine:
    made = World(1).AddMachine("node1")
    for folder in (pathutils.DATA_DIR, pathutils.RUN_EXT_DIR, pathutils.CRYPTO_KEYS_DIR, pathutils.LOCK_DIR):
        made.Call(runtime.MakeDirs, folder)
    return made


def _With(machine: Machine, action: Callable[[state.File], Any]) -> Any:
    def run() -> Any:
        file = state.File(GROUP)
        try:
            return action(file)
        finally:
            file.Close()

    return machine.Call(run)


SOME = state.State(
    {"a.example.com": state.Tries(2, 100.0), "b.example.com": state.Tries(0, 0.0, 1, 5.0)},
    {"n1": "x", "n2": "y"},
    {"n1": frozenset([7, 8])},
)


# --- state --------------------------------------------------------------------------------------------------------------


def test_state_is_kept_in_the_shape_of_3_1(machine: Machine) -> None:
    assert _With(machine, lambda file: file.Read()) == state.EMPTY
    _With(machine, lambda file: file.Save(SOME))
    assert runtime_json(machine, FILE) == {
        "instance": {
            "a.example.com": {"restart_count": 2, "restart_when": 100.0},
            "b.example.com": {"cleanup_count": 1, "cleanup_when": 5.0},
        },
        "node": {"n1": {"bootid": "x", "activation_jobs": [7, 8]}, "n2": {"bootid": "y"}},
    }
    assert _With(machine, lambda file: file.Read()) == SOME
    assert machine.Call(runtime.Stat, FILE).st_mode & 0o777 == 0o600


def runtime_json(machine: Machine, path: str) -> Any:
    from ganeti import serializer

    return serializer.Load(machine.Call(runtime.ReadFile, path))


def test_unchanged_state_gets_a_new_time_only(machine: Machine) -> None:
    _With(machine, lambda file: file.Save(SOME))
    before = machine.Call(runtime.Stat, FILE)
    machine.Call(runtime.Sleep, 1000.0)
    _With(machine, lambda file: file.Save(SOME))
    after = machine.Call(runtime.Stat, FILE)
    assert after.st_ino == before.st_ino and after.st_mtime > before.st_mtime + 999


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"[1, 2]", b"{", b'{"instance": 3, "node": []}', b'"x"'])
def test_damaged_state_is_treated_as_empty(machine: Machine, text: bytes) -> None:
    machine.Call(runtime.WriteFile, FILE, text)
    assert _With(machine, lambda file: file.Read()) == state.EMPTY
    _With(machine, lambda file: file.Save(SOME))
    assert _With(machine, lambda file: file.Read()) == SOME


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["instance", "node", "bootid", "activation_jobs", "restart_count", "restart_when", "x"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(_ANY)
def test_whatever_the_file_says_a_state_comes_of_it(value: Any) -> None:
    import json

    try:
        found = state.Parse(json.dumps(value).encode())
    except errors.ParseError:
        return
    assert all(tries.restart_count >= 0 and tries.cleanup_count >= 0 for tries in found.tries.values())
    assert state.Parse(found.Dump()) == found


def test_two_runs_for_one_group_exclude_each_other(machine: Machine) -> None:
    def run() -> None:
        file = state.File(GROUP)
        with pytest.raises(runtime.LockBusy):
            state.File(GROUP)
        file.Save(SOME)
        file.Close()
        state.File(GROUP).Close()

    machine.Call(run)


def test_a_power_failure_while_saving_leaves_the_old_state_or_the_new_one() -> None:
    seen = set()
    for seed in range(60):
        machine = World(seed).AddMachine("node1")
        machine.Call(runtime.MakeDirs, pathutils.DATA_DIR)
        _With(machine, lambda file: file.Save(SOME))
        process = machine.StartProcess(lambda: state.File(GROUP).Save(state.EMPTY), "watcher")
        for _ in range(seed % 20):
            if process.alive:
                machine.world.Step()
        machine.PowerOff()
        machine.PowerOn()
        found = _With(machine, lambda file: file.Read())
        assert found in (SOME, state.EMPTY)
        seen.add(found is state.EMPTY or found == state.EMPTY)
    assert seen == {True, False}


def test_old_tries_and_those_of_instances_that_are_gone_are_dropped() -> None:
    now = 100_000.0
    tries = {
        "new": state.Tries(1, now - 10),
        "old": state.Tries(5, now - state.EXPIRES - 1),
        "future": state.Tries(5, now + state.EXPIRES + 1),
        "gone": state.Tries(1, now),
    }
    kept = state.State(tries, {"n1": "x"}).Maintained({"new", "old", "future"}, now)
    assert kept == state.State({"new": tries["new"]}, {"n1": "x"})


# --- lists of statuses --------------------------------------------------------------------------------------------------


def _Inst(name: str, word: str) -> Instance:
    return Instance(name, "u", word, "up", True, "n1")


def test_lists_of_groups_become_one_and_the_newest_counts(machine: Machine) -> None:
    machine.Call(status.Write, GROUP, [_Inst("b", "running"), _Inst("a", "ERROR_down"), _Inst("moved", "running")])
    machine.Call(runtime.Sleep, 5.0)
    machine.Call(status.Write, OTHER, [_Inst("moved", "ADMIN_down"), _Inst("c", "")])
    assert machine.Call(runtime.ReadText, pathutils.WatcherInstanceStatusFile(GROUP)) == (
        "a ERROR_down\nb running\nmoved running\n"
    )
    machine.Call(status.Merge, [GROUP, OTHER, "one-without-a-file"])
    assert machine.Call(runtime.ReadText, pathutils.INSTANCE_STATUS_FILE) == (
        "a ERROR_down\nb running\nc -\nmoved ADMIN_down\n"
    )
    assert machine.Call(runtime.Stat, pathutils.INSTANCE_STATUS_FILE).st_mode & 0o777 == 0o644
    machine.Call(runtime.SetTimes, pathutils.WatcherInstanceStatusFile(GROUP), 1e12, 1e12)
    machine.Call(status.Merge, [GROUP, OTHER])
    assert "moved running\n" in machine.Call(runtime.ReadText, pathutils.INSTANCE_STATUS_FILE)


def test_a_list_that_stays_locked_is_left_as_it_is_and_stops_nobody(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever merges goes on with volume groups and verification."""

    def merged(word: str) -> str:
        status.Write(GROUP, [_Inst("a", word)])
        status.Merge([GROUP])
        return runtime.ReadText(pathutils.INSTANCE_STATUS_FILE)

    def story() -> None:
        assert merged("running") == "a running\n"
        with runtime.LockFile(f"{pathutils.RUN_EXT_DIR}/instance-status.lock"):
            assert merged("ERROR_down") == "a running\n"
        assert "instance-status is not updated by this run" in caplog.text
        assert merged("ERROR_up") == "a ERROR_up\n"

    machine.Call(story)


def test_a_damaged_list_does_not_hide_the_others(machine: Machine) -> None:
    machine.Call(status.Write, GROUP, [_Inst("a", "running")])
    machine.Call(runtime.WriteFile, pathutils.WatcherInstanceStatusFile(OTHER), b"\xff\xff")
    machine.Call(status.Merge, [OTHER, GROUP])
    assert machine.Call(runtime.ReadText, pathutils.INSTANCE_STATUS_FILE) == "a running\n"


# --- pause, lock --------------------------------------------------------------------------------------------------------


def test_a_pause_ends_by_itself_and_its_file_goes_an_hour_later(machine: Machine) -> None:
    assert not machine.Call(guard.Paused)
    machine.Call(watcherpause.Write, machine.Call(runtime.Time) + 100)
    assert machine.Call(guard.Paused)
    machine.Call(runtime.Sleep, 200.0)
    assert not machine.Call(guard.Paused)
    assert machine.Call(runtime.Exists, pathutils.WATCHER_PAUSE_FILE)
    machine.Call(runtime.Sleep, 3600.0)
    assert not machine.Call(guard.Paused)
    assert not machine.Call(runtime.Exists, pathutils.WATCHER_PAUSE_FILE)


def test_a_damaged_pause_pauses_nothing(machine: Machine) -> None:
    machine.Call(runtime.WriteFile, pathutils.WATCHER_PAUSE_FILE, "soon\n")
    assert not machine.Call(guard.Paused)
    assert machine.Call(runtime.Exists, pathutils.WATCHER_PAUSE_FILE)


def test_runs_share_the_lock_with_each_other_only(machine: Machine) -> None:
    def run() -> None:
        first, second = guard.TakeLock(), guard.TakeLock()
        with pytest.raises(runtime.LockBusy):
            runtime.LockFile(pathutils.WATCHER_LOCK_FILE, timeout=0)
        first.release()
        second.release()
        with runtime.LockFile(pathutils.WATCHER_LOCK_FILE, timeout=0), pytest.raises(runtime.LockBusy):
            guard.TakeLock()

    machine.Call(run)


def test_a_lock_file_that_anybody_can_open_is_replaced(machine: Machine) -> None:
    machine.Call(runtime.WriteFile, pathutils.WATCHER_LOCK_FILE, b"", 0o666)

    def run() -> None:
        stranger = runtime.LockFile(pathutils.WATCHER_LOCK_FILE)
        guard.TakeLock().release()
        stranger.release()

    machine.Call(run)
    assert machine.Call(runtime.Stat, pathutils.WATCHER_LOCK_FILE).st_mode & 0o777 == 0o600


# --- keys of transfers --------------------------------------------------------------------------------------------------


def _MakeKey(machine: Machine, name: str, validity: int, *files: str) -> str:
    path = f"{pathutils.CRYPTO_KEYS_DIR}/{name}"
    machine.Call(runtime.MakeDirs, path)
    key, certificate = machine.Call(x509.MakeSelfSigned, "node1", validity, 1)
    machine.Call(runtime.WriteFile, f"{path}/key", key)
    machine.Call(runtime.WriteFile, f"{path}/cert", certificate)
    for file in files:
        machine.Call(runtime.WriteFile, f"{path}/{file}", b"")
    return path


def test_keys_go_when_their_certificates_have_expired(machine: Machine) -> None:
    _MakeKey(machine, "x509-old", 1000)
    used = _MakeKey(machine, "x509-used", 1000, "something-else")
    _MakeKey(machine, "x509-new", 100_000)
    machine.Call(transferkeys.RemoveExpired)
    assert len(machine.Call(runtime.ListDir, pathutils.CRYPTO_KEYS_DIR)) == 3
    machine.Call(runtime.Sleep, 2000.0)
    machine.Call(transferkeys.RemoveExpired)
    assert machine.Call(runtime.ListDir, pathutils.CRYPTO_KEYS_DIR) == ["x509-new", "x509-used"]
    assert machine.Call(runtime.ListDir, used) == ["something-else"]
    assert machine.Call(runtime.ListDir, f"{pathutils.CRYPTO_KEYS_DIR}/x509-new") == ["cert", "key"]


@pytest.mark.parametrize(("back", "left"), [(0.0, True), (500.0, True), (1000.0, False)])
def test_a_clock_that_is_set_back_a_little_costs_no_transfer_its_key(machine: Machine, back: float, left: bool) -> None:
    """Far in the future lies a key that nobody will come for."""
    path = _MakeKey(machine, "x509-one", 1000)
    machine.clock_offset -= back
    machine.Call(transferkeys.RemoveExpired)
    assert machine.Call(runtime.Exists, path) == left


def test_what_a_crash_left_goes_when_no_certificate_lives_so_long(machine: Machine) -> None:
    machine.Call(runtime.MakeDirs, f"{pathutils.CRYPTO_KEYS_DIR}/x509-half")
    machine.Call(runtime.WriteFile, f"{pathutils.CRYPTO_KEYS_DIR}/x509-half/key", b"k")
    machine.Call(transferkeys.RemoveExpired)
    assert machine.Call(runtime.ListDir, pathutils.CRYPTO_KEYS_DIR) == ["x509-half"]
    machine.Call(runtime.Sleep, float(x509.MAX_TRANSFER_VALIDITY + 10))
    machine.Call(transferkeys.RemoveExpired)
    assert machine.Call(runtime.ListDir, pathutils.CRYPTO_KEYS_DIR) == []


def test_no_keys_no_work(machine: Machine) -> None:
    machine.Call(runtime.RemoveDir, pathutils.CRYPTO_KEYS_DIR)
    machine.Call(transferkeys.RemoveExpired)


# --- patience -----------------------------------------------------------------------------------------------------------


class _SlowMaster:
    """A master whose jobs never begin."""

    def Query(self, *_: Any) -> dict[str, Any]:
        return {"data": []}

    def SubmitJob(self, _: Any) -> int:
        return 17

    def WaitForJobChangeOnce(self, job_id: int, fields: Any, status: Any, serial: Any, timeout: float) -> Any:
        del job_id, fields, serial
        runtime.Sleep(min(timeout, 10.0))
        return "nochange" if status else [["queued"]]


@pytest.mark.parametrize(("strict", "seconds"), [(True, 3600), (False, 120)])
def test_only_a_strict_run_waits_longer_for_a_verification_than_the_next_run_may(
    machine: Machine, strict: bool, seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    visit: Any = SimpleNamespace(
        uuid=GROUP, name="default", instances=[replace(_Inst("a", "running"), template="drbd")]
    )
    master: Any = _SlowMaster()
    options: Any = SimpleNamespace(strict=strict, ignore_pause=False)

    def run() -> float:
        began = runtime.Monotonic()
        verifydisks.Run(master, visit, options)
        return runtime.Monotonic() - began

    assert seconds <= machine.Call(run) < seconds + 20
    assert f"has not ended within {seconds // 60} minutes" in caplog.text
