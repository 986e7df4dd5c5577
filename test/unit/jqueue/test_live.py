"""Jobs that a new master finds: those that had ended are read when somebody asks for them."""

from __future__ import annotations

import pytest
from support.queues import Op

from ganeti import errors
from ganeti.jqueue import JobQueue, live
from ganeti.store import Row, Rows


def _WithText(bench, job_id, change):
    """Plants another text as the row of a job."""
    text = change(bench.rows[str(job_id)])
    bench.store.Commit(Rows(Row("job", str(job_id), text)))


def test_jobs_that_had_ended_at_the_start_are_there_for_whoever_asks_first(bench):
    ids = [bench.Submit(comment) for comment in ("log 2", "fail broken", "x", "x")]
    ends = [bench.WaitEnd(job_id) for job_id in ids]
    assert ends == ["success", "error", "success", "success"]
    before = bench.queue.QueryJobs(None, ["id", "status", "oplog", "opresult", "end_ts"])
    for look in range(6):
        bench.Crash()
        queue = bench.queue
        match look:
            case 0:
                assert queue.QueryJobs([ids[1]], ["id", "status", "oplog", "opresult", "end_ts"]) == [before[1]]
                assert queue.QueryJobs(None, ["id", "status", "oplog", "opresult", "end_ts"]) == before
            case 1:
                assert queue.Wait(ids[0], ["status"], None, None, 0).Result(30)[0] == ["success"]
                assert queue.StatusOf(ids[1]) == "error"
            case 2:
                assert queue.CancelJob(ids[0]).Result(30) == [False, f"Job {ids[0]} is no longer waiting in the queue"]
                assert queue.ChangePriority(ids[0], 5).Result(30) == [False, f"Job {ids[0]} is finished"]
            case 3:
                assert bench.WaitEnd(bench.Submit("y", depends=[[ids[0], []]])) == "success"
                assert bench.WaitEnd(bench.Submit("y", depends=[[ids[1], ["success"]]])) == "error"
            case 4:
                assert queue.ArchiveJob(ids[2]).Result(30) is True
                assert queue.StatusOf(ids[2]) == "success"
            case 5:
                assert queue.AutoArchive(-1, 10).Result(30) == [5, 0]
                assert queue.QueryJobs(None, ["id"]) == []


@pytest.mark.parametrize("damage", [('"status":"success"', '"status":"odd"'), ('{"id":2,', '{"id":1,')])
def test_an_ended_job_that_cannot_be_read_is_noticed_by_the_first_who_asks(bench, caplog, damage):
    good, bad = bench.Submit("x"), bench.Submit("x")
    for job_id in (good, bad):
        bench.WaitEnd(job_id)
    assert (good, bad) == (1, 2)
    _WithText(bench, bad, lambda text: text.replace(*damage))
    bench.Crash()
    assert "cannot be read" not in caplog.text, "a start does not read what has ended"
    assert bench.queue.QueryJobs(None, ["id", "status"]) == [[good, "success"]]
    assert f"Job {bad} cannot be read and is left alone" in caplog.text
    assert bench.queue.QueryJobs([bad], ["status"]) == [[None]]
    assert str(bad) in bench.rows
    assert bench.Submit("x") > bad


def test_ended_jobs_count_before_anybody_has_asked_for_them(make):
    bench = make(max_live_jobs=3)
    for _ in range(3):
        bench.WaitEnd(bench.Submit("x"))
    bench.Crash()
    with pytest.raises(errors.GenericError, match="3"):
        bench.Submit("x")


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (
            '{"id":7,"ops":[],"received_timestamp":null,"start_timestamp":null,"end_timestamp":[1700000000,123456]}',
            True,
        ),
        ('{"id":7,"ops":[],"received_timestamp":null,"start_timestamp":null,"end_timestamp":null}', False),
        # Only the end of the job itself counts, not that of an opcode, and not what a client wrote into one.
        ('{"end_timestamp":null,"ops":[{"end_timestamp":[1700000000,123456]}]}', False),
        ('{"end_timestamp":null,"ops":[{"input":{"comment":"\\"end_timestamp\\":[1,2]}"}}]}', False),
        ('{"end_timestamp":null,"ops":[],"x":"\\"end_timestamp\\":[1,2]}"}', False),
        # As other programs may write it: read to be sure.
        ('{"id":7, "ops":[], "end_timestamp": [1700000000, 123456]}', False),
    ],
)
def test_whether_a_job_has_ended_is_told_by_the_end_of_its_text_alone(text, ended):
    assert live.SaysEnded(text) is ended


def test_a_queue_that_has_not_started_takes_no_jobs(bench):
    queue = JobQueue(bench.store, bench.executor)
    with pytest.raises(errors.JobQueueError, match="shutting down"):
        queue.SubmitJob([Op()])
    queue.Start()
    assert queue.SubmitJob([Op()]).Result(20) > 0
    queue.Stop()
