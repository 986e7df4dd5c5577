"""How much of the queue each kind of client may fill: strangers and readers never keep others from submitting jobs."""

from __future__ import annotations

from typing import Any

import pytest
from support.queues import Bench, Op

from ganeti import errors
from ganeti.jqueue import shares
from ganeti.jqueue.live import LiveJobs

MOST = 100  # so 2 for strangers, 10 for a reader, 20 for all readers, 90 for the remote interface
INFO = ["gnt:library:rlib2:instances_name_info", "", 1]
ADMIN = ["gnt:rapi:user", "jo", 1]


def _Reader(name: str) -> dict[str, Any]:
    return Op(reason=[INFO, ["gnt:rapi:reader", name, 1]])


def _Submit(bench: Bench, op: dict[str, Any]) -> int:
    job_id: int = bench.queue.SubmitJob([op]).Result(20)
    assert bench.WaitEnd(job_id) == "success"
    return job_id


def _Fill(bench: Bench, op: dict[str, Any]) -> int:
    """Submit until the queue takes no more, as an attacker does; return how many jobs that were."""
    for count in range(MOST + 1):
        try:
            _Submit(bench, op)
        except errors.JobQueueFull:
            return count
    pytest.fail("the queue takes everything")


def test_a_stranger_fills_the_queue_for_strangers_only(make):
    bench = make(max_live_jobs=MOST)
    stranger = _Reader("")
    assert _Fill(bench, stranger) == 2, "those that have ended count as well"
    with pytest.raises(errors.JobQueueFull, match="jobs of clients that have not logged in, 2 are allowed") as info:
        _Submit(bench, stranger)
    assert "gnt-job autoarchive all" in str(info.value.hint)
    with pytest.raises(errors.JobQueueFull, match="not logged in"):
        bench.queue.SubmitManyJobs([[Op()], [stranger]]).Result(20)
    for other in (_Reader("token:monitor"), Op(reason=[INFO, ADMIN]), Op()):
        _Submit(bench, other)


def test_the_next_master_counts_them_as_well(make):
    bench = make(max_live_jobs=MOST)
    first = _Submit(bench, _Reader(""))
    _Submit(bench, _Reader(""))
    bench.Crash()
    for _ in range(2):  # before and after the jobs that have ended are read from their texts
        with pytest.raises(errors.JobQueueFull, match="not logged in"):
            _Submit(bench, _Reader(""))
        bench.queue.QueryJobs(None, ["id"])
    assert bench.queue.ArchiveJob(first).Result(20) is True
    _Submit(bench, _Reader(""))


def test_readers_with_a_name_have_shares_of_their_own(make):
    bench = make(max_live_jobs=MOST)
    assert _Fill(bench, _Reader("token:a")) == 10
    with pytest.raises(
        errors.JobQueueFull, match="10 jobs of 'token:a', 10 are allowed for a client that may only read"
    ):
        _Submit(bench, _Reader("token:a"))
    assert _Fill(bench, _Reader('b "quoted"')) == 10
    with pytest.raises(errors.JobQueueFull, match="20 are allowed for all of these clients together"):
        _Submit(bench, _Reader("c"))
    with pytest.raises(errors.JobQueueFull, match="20 are allowed for all of these clients together"):
        _Submit(bench, _Reader(""))
    _Submit(bench, Op(reason=[INFO, ADMIN]))


def test_the_remote_interface_leaves_room_for_the_command_line(make):
    bench = make(max_live_jobs=MOST)
    assert _Fill(bench, Op(reason=[INFO, ADMIN])) == 90
    with pytest.raises(errors.JobQueueFull, match="90 are allowed for clients of the remote interface"):
        _Submit(bench, Op(reason=[INFO, ADMIN]))
    assert _Fill(bench, Op(reason=[["gnt:client:gnt-instance", "", 1]])) == 10


@pytest.mark.parametrize("name", ["", "jo", 'a"b', "ü\\", "token:x"])
def test_who_submitted_a_job_is_found_in_its_text(make, name: str):
    bench = make()
    job_id = _Submit(bench, _Reader(name))
    text = bench.rows[str(job_id)]
    assert shares.ReaderInText(text) == name
    live = LiveJobs()
    live.Load({str(job_id): text})
    assert live.readers.Of(name) == live.readers.total == 1
    live.Remove([live.Read()[0]] if live.Read() else live.All())
    assert (live.readers.Of(name), live.readers.total) == (0, 0)


def test_words_in_a_job_make_nobody_a_reader(make):
    bench = make()
    job_id = _Submit(bench, Op(comment='["gnt:rapi:reader","jo",1]'))
    text = bench.rows[str(job_id)]
    assert "gnt:rapi:reader" in text
    assert shares.ReaderInText(text) is None
