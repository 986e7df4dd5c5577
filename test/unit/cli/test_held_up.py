"""What a command says of a job that does not start or go on, by what can be seen from beside the master daemon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ganeti import pathutils, runtime
from ganeti.cli import jobs
from ganeti.client.gnt_job import wait
from ganeti.luxi import client as luxi_client

PAUSE = ["00000031-aaaa-4bbb-8ccc-000000000031", "PAUSE"]
LIMIT = ["00000032-aaaa-4bbb-8ccc-000000000032", ["RATE_LIMIT", 3]]
OTHERS = [["00000033-aaaa-4bbb-8ccc-000000000033", "ACCEPT"], ["00000034-aaaa-4bbb-8ccc-000000000034", "CONTINUE"]]
QUEUED = [["queued"], []]
RUNNING = [["running"], []]
SUCCESS = [["success"], []]


class Master(luxi_client.Client):
    """Answers with these states of a job, one for each time that it is waited for, and these filter rules."""

    def __init__(self, states: Sequence[Any], rules: Sequence[Sequence[Any]] = ()):
        super().__init__("/nowhere")
        self._states = list(states)
        self._rules = rules
        self.timeouts: list[float] = []
        self.queries = 0

    def Call(self, method: str, args: Sequence[Any] = ()) -> Any:
        if method == "WaitForJobChange":
            self.timeouts.append(args[4])
            return self._states.pop(0)
        if method == "Query":
            assert args[:2] == ["filter", ["uuid", "action"]]
            self.queries += 1
            return {"data": [[[0, value] for value in rule] for rule in self._rules]}
        assert method == "QueryJobs"
        return [["success", ["success"], [None]]]


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes free in the file system of each directory."""
    space = {pathutils.DATA_DIR: 1 << 30}
    monkeypatch.setattr(runtime, "DiskFree", space.__getitem__)
    return space


def _Said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_rules_that_may_hold_a_job_are_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    master = Master([QUEUED, QUEUED, QUEUED, "nochange", RUNNING, SUCCESS], [OTHERS[0], PAUSE, LIMIT, OTHERS[1]])
    jobs.PollJob(7, master)
    assert _Said(capsys) == [
        "Job 7 is waiting in queue",
        f"It may be held back by filter rules: {PAUSE[0]} (PAUSE), {LIMIT[0]} (RATE_LIMIT 3); 'gnt-filter info' shows them",
    ]
    assert master.queries == 1
    # It is said soon; from then on the master is asked as seldom as before.
    assert master.timeouts[1:4] == [jobs.QUEUED_TIMEOUT, jobs.POLL_TIMEOUT, jobs.POLL_TIMEOUT]


@pytest.mark.parametrize("rules", [[], OTHERS])
def test_without_such_rules_it_just_waits_in_the_queue(
    capsys: pytest.CaptureFixture[str], rules: Sequence[Sequence[Any]]
) -> None:
    jobs.PollJob(7, Master([QUEUED, QUEUED, SUCCESS], rules))
    assert _Said(capsys) == ["Job 7 is waiting in queue"]


def test_a_job_that_starts_in_time_is_not_commented(capsys: pytest.CaptureFixture[str]) -> None:
    master = Master([QUEUED, RUNNING, RUNNING, SUCCESS], [PAUSE])
    jobs.PollJob(7, master)
    assert _Said(capsys) == [] and master.queries == 0


def test_a_job_that_waits_for_locks_is_not_held_by_rules(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = [["waiting"], []]
    jobs.PollJob(7, Master([waiting, waiting, SUCCESS], [PAUSE]))
    assert _Said(capsys) == ["Job 7 is trying to acquire all necessary locks"]


@pytest.mark.parametrize(("state", "first"), [(QUEUED, ["Job 7 is waiting in queue"]), (RUNNING, [])])
def test_a_full_disk_is_named_once(
    capsys: pytest.CaptureFixture[str], free: dict[str, int], state: list[Any], first: list[str]
) -> None:
    free[pathutils.DATA_DIR] = 8192
    jobs.PollJob(7, Master([state, state, state, SUCCESS]))
    assert _Said(capsys) == [
        *first,
        f"The file system of {pathutils.DATA_DIR} has 8 KiB left: jobs wait while it is full, and go on by themselves when"
        " there is room again",
    ]


def test_a_disk_that_fills_up_later_is_named_then(capsys: pytest.CaptureFixture[str], free: dict[str, int]) -> None:
    class Filling(jobs.Feedback):
        polls = 0

        def Polled(self) -> None:
            self.polls += 1
            if self.polls == 3:
                free[pathutils.DATA_DIR] = 0

    jobs.PollJob(7, Master([RUNNING, RUNNING, RUNNING, RUNNING, SUCCESS]), Filling())
    assert len(_Said(capsys)) == 1


def test_a_directory_that_cannot_be_looked_at_is_no_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(runtime, "DiskFree", fail)
    jobs.PollJob(7, Master([QUEUED, QUEUED, SUCCESS], [PAUSE]))
    assert len(_Said(capsys)) == 2


def test_who_wants_to_hear_nothing_hears_nothing(capsys: pytest.CaptureFixture[str], free: dict[str, int]) -> None:
    free[pathutils.DATA_DIR] = 0
    jobs.PollJob(7, Master([QUEUED, QUEUED, SUCCESS], [PAUSE]), wait._Silent())
    assert _Said(capsys) == []
