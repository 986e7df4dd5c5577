"""What a job costs the queue does not grow with the queue."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.queues import Bench, Op


def _Steps(bench: Bench, job_id: int) -> int:
    """How many calls of functions it takes to ask for one job, and to submit another one."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        bench.queue.QueryJobs([job_id], ["id", "status", "summary", "oplog"])
        submitted = bench.queue.SubmitJob([Op(comment="gate never")])
    finally:
        sys.setprofile(None)
    submitted.Result(20)
    return calls


@pytest.mark.req("D20-GOAL-08")
def test_asking_for_a_job_and_submitting_one_take_as_many_steps_beside_many_jobs_as_beside_few(bench: Bench) -> None:
    waiting, ended = [Op(comment="gate end")], [Op(comment="x")]
    first = bench.Submit("x")
    few = min(_Steps(bench, first) for _ in range(3))
    assert len(bench.queue.SubmitManyJobs([waiting] * 200 + [ended] * 200).Result(60)) == 400
    assert min(_Steps(bench, first) for _ in range(3)) < few * 1.2
    for name in ("end", "never"):
        bench.executor.Open(name)
