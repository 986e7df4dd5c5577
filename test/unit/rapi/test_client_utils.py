"""Waiting for a job over the REST interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import allocator
from support.recorder import Recorder, Reply

from ganeti import errors
from ganeti.cli.jobs import Feedback
from ganeti.rapi.client import GanetiApiError, GanetiRapiClient
from ganeti.rapi.client_utils import PollJob

MISSING = Reply({"code": 404, "message": "m", "explain": "e"}, 404)


class _Heard(Feedback):
    def __init__(self) -> None:
        self.lines: list[Any] = []

    def Log(self, timestamp: Any, kind: str, message: Any) -> None:
        self.lines.append(message)

    def Waiting(self, job_id: int, status: str) -> None:
        self.lines.append((job_id, status))


@pytest.fixture
def recorder(tmp_path: Any) -> Iterator[Recorder]:
    lease = allocator.Lease()
    with Recorder(lease.Address(), lease.Port(), str(tmp_path)) as server:
        yield server
    lease.Release()


def _Change(status: str, *log: tuple[int, str]) -> Reply:
    return Reply({"job_info": [status], "log_entries": [[n, [1, 2], "message", text] for n, text in log]})


def _Poll(recorder: Recorder, status: Any, *changes: Reply) -> tuple[Any, list[Any]]:
    recorder.replies["/2/jobs/7/wait"] = list(changes)
    recorder.replies["/2/jobs/7"] = status
    heard = _Heard()
    return PollJob(GanetiRapiClient(recorder.address, recorder.port), 7, heard), heard.lines


def test_the_log_is_followed_to_the_results(recorder: Recorder) -> None:
    done = Reply({"status": "success", "opstatus": ["success"], "opresult": ["x"]})
    changes = [
        _Change("queued"), Reply(None), _Change("running", (4, "one"), (5, "two")), _Change("success", (9, "three")),
        _Change("success"),
    ]  # fmt: skip
    assert _Poll(recorder, done, *changes) == (["x"], [(7, "queued"), "one", "two", "three"])
    waits = [r.value for r in recorder.Take() if r.path.endswith("/wait")]
    assert [w["previous_job_info"] for w in waits] == [None, ["queued"], ["queued"], ["running"], ["success"]]
    assert [w["previous_log_serial"] for w in waits] == [None, None, None, 5, 9]


def test_a_failed_job_raises_its_error(recorder: Recorder) -> None:
    result = ["OpPrereqError", ["no such node", "unknown_entity"]]
    failed = Reply({"status": "error", "opstatus": ["error"], "opresult": [result]})
    with pytest.raises(errors.OpPrereqError, match="no such node"):
        _Poll(recorder, failed, _Change("error"))


@pytest.mark.parametrize("status", [MISSING, Reply({"status": None, "opstatus": None, "opresult": None})])
def test_a_job_that_is_not_there_is_lost(recorder: Recorder, status: Reply) -> None:
    with pytest.raises(errors.JobLost):
        _Poll(recorder, status, MISSING)
    with pytest.raises(errors.JobLost):
        _Poll(recorder, status, _Change("success"))


def test_other_errors_are_not_about_the_job(recorder: Recorder) -> None:
    away = Reply({"code": 502, "message": "m", "explain": "e"}, 502)
    with pytest.raises(GanetiApiError):
        _Poll(recorder, MISSING, away)
    with pytest.raises(GanetiApiError):
        _Poll(recorder, away, _Change("success"))
