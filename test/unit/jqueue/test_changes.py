"""What changes of the queue write, and what they take back when the disk refuses them."""

from __future__ import annotations

import gc
from typing import Any, ClassVar

import pytest
from support.queues import Op
from support.store_nodes import Until

from ganeti import errors, runtime, serializer
from ganeti.jqueue import JobQueue, submit
from ganeti.jqueue import entry as entry_module
from ganeti.jqueue import job as jobs
from ganeti.jqueue.archive import ARCHIVE_GROUP
from ganeti.jqueue.changes import ArchiveChange, DrainChange, RestartChange, SubmitChange
from ganeti.jqueue.entry import Entry, JobChange
from ganeti.jqueue.live import LiveJobs
from ganeti.jqueue.worker import Worker
from ganeti.store import Row, Rows


def MakeEntry(job_id: int, status: str = "queued") -> Entry:
    job = jobs.Job(job_id, [jobs.OpState(jobs.OpInput(Op()), status)], (1, 0))
    return Entry(job, [jobs.OpLog()], published=job)


def Serial(rows: Any) -> int:
    [value] = [row.value for row in rows if row.id == "serial"]
    return int(value)


def test_the_last_id_never_goes_back(bench):
    """Ids are given out before their order in the store is known."""
    before = bench.queue.state.serial
    later, earlier = (SubmitChange(bench.queue, [MakeEntry(before + n)], False) for n in (7, 2))
    assert Serial(later.Prepare()) == before + 7
    assert Serial(earlier.Prepare()) == before + 7
    earlier.Withdraw()
    assert bench.queue.state.serial == before + 7
    later.Withdraw()
    assert bench.queue.state.serial == before


def test_a_drain_under_way_counts_and_one_taken_back_does_not(bench):
    drain = DrainChange(bench.queue, True)
    drain.Prepare()
    assert not bench.queue.drained  # not acknowledged
    with pytest.raises(errors.JobQueueDrainError):
        SubmitChange(bench.queue, [MakeEntry(9)], False).Prepare()
    assert SubmitChange(bench.queue, [MakeEntry(9)], True).Prepare()
    drain.Withdraw()
    assert SubmitChange(bench.queue, [MakeEntry(9)], False).Prepare()
    assert [row.value for row in DrainChange(bench.queue, False).Prepare()] == [None]


def test_a_job_goes_to_the_archive_once_and_only_after_its_end(bench):
    done, running = MakeEntry(1, "success"), MakeEntry(2, "running")
    first, second = (ArchiveChange(bench.queue, [done, running]) for _ in range(2))
    rows = first.Prepare()
    assert [(row.kind, row.id, row.value is None) for row in rows] == [("job", "1", True), ("archived", "1", False)]
    assert second.Prepare() == [] and second.taken == []
    first.Withdraw()
    assert first.taken == []
    assert second.Prepare() and second.taken == [done]


def test_a_job_whose_end_is_not_acknowledged_stays(make):
    bench = make(voters=3)
    job_id = bench.Submit("gate a")
    bench.executor.WaitRunning(job_id)
    bench.cluster[1].up = bench.cluster[2].up = False
    bench.executor.Open("a")
    entry = bench.queue._live.Get(job_id)
    while not entry.draft.final:
        pass
    assert bench.queue.ArchiveJob(job_id).Result(30) is False
    assert bench.queue.AutoArchive(-1, 10).Result(30) == [0, 0]
    bench.cluster[1].up = True
    assert bench.WaitEnd(job_id) == "success"
    assert bench.queue.ArchiveJob(job_id).Result(20) is True


def test_a_change_that_cannot_be_written_leaves_the_job_as_it_was(bench):
    entry = MakeEntry(1)
    before = entry.draft
    with pytest.raises(TypeError):
        JobChange(bench.queue, entry, lambda job: jobs.MarkSuccess(job, 0, object())).Prepare()
    assert entry.draft is before
    change = JobChange(bench.queue, entry, lambda job: jobs.MarkSuccess(job, 0, 7))
    [row] = change.Prepare()
    assert serializer.Load(row.value)["ops"][0]["result"] == 7 and entry.draft.final
    change.Withdraw()
    assert entry.draft is before and entry.shown is before


def test_ids_go_on_behind_every_job_that_is_there(bench):
    """Whatever the serial says: a queue of release 3.1 may have been repaired by hand."""
    job_id = bench.Submit("x")
    bench.WaitEnd(job_id)
    text = bench.rows[str(job_id)]
    data = {**serializer.Load(text), "id": 70}
    bench.store.Commit(Rows(Row("job", "70", serializer.Dump(data)), Row("queue", "serial", "3")))
    bench.Crash()
    assert bench.Submit("y") == 71
    bench.store.Commit(Rows(Row("queue", "serial", "90")))
    bench.Crash()
    assert bench.Submit("z") == 91


def test_of_a_submission_in_portions_only_what_is_stored_is_accepted(bench, monkeypatch):
    monkeypatch.setattr(submit, "SUBMIT_GROUP", 2)

    class Refused(SubmitChange):
        def Prepare(self) -> list[Row]:
            raise errors.JobQueueError("no room")

    def make_change(entries: Any, to_drained: bool) -> SubmitChange:
        return (Refused if entries[0].id in refused else SubmitChange)(bench.queue, entries, to_drained)

    submitter = submit.Submitter(bench.store, make_change, LiveJobs(), 100)
    submitter.last_id = 10
    refused = {13}
    outcomes = submitter.Submit([[Op()] for _ in range(5)], False).Result(10)
    assert [ok for ok, _ in outcomes] == [True, True, False, False, True]
    assert [value for ok, value in outcomes if ok] == [11, 12, 15]
    assert all(str(value) == "no room" for ok, value in outcomes if not ok)
    assert sorted(map(int, bench.rows)) == [11, 12, 15]
    refused = {16, 18}
    with pytest.raises(errors.JobQueueError, match="no room"):
        submitter.Submit([[Op()] for _ in range(4)], False).Result(10)


def test_results_may_have_just_as_much_as_is_allowed(monkeypatch):
    monkeypatch.setattr(entry_module, "MAX_RESULTS", 20)
    entry = MakeEntry(1)
    entry.TakeResult("x" * 8)  # with its quotes 10 characters
    entry.TakeResult("y" * 8)
    with pytest.raises(errors.OpResultError, match="was carried out"):
        entry.TakeResult(0)


def test_serials_of_a_log_go_on_where_they_were_left():
    job = jobs.Job(1, [jobs.OpState(jobs.OpInput({})), jobs.OpState(jobs.OpInput({}))], None)
    entry = Entry(job, [jobs.OpLog([[4, [1, 0], "message", "x"]]), jobs.OpLog()])
    entry.AddLog(1, "message", "y")
    assert [each[0] for each in entry.LogAfter(None)] == [4, 5]
    assert [each[0] for each in entry.LogAfter(4)] == [5]
    fresh = Entry(job, [jobs.OpLog(), jobs.OpLog()])
    fresh.AddLog(0, "message", "first")
    assert [each[0] for each in fresh.LogAfter(None)] == [1]


def test_a_judgement_that_the_disk_refused_is_taken_back():
    entries = [MakeEntry(1, "running"), MakeEntry(2, "waiting"), MakeEntry(3, "success")]
    before = [entry.draft for entry in entries]
    change = RestartChange(entries)
    rows = change.Prepare()
    assert [row.id for row in rows] == ["1", "2", "3"][: len(rows)] and {row.id for row in rows} >= {"1", "2"}
    assert [entry.draft.status for entry in entries] == ["error", "queued", "success"]
    assert [entry.shown.status for entry in entries] == ["running", "waiting", "success"]
    change.Withdraw()
    assert [entry.draft for entry in entries] == before
    change.Prepare()
    change.Publish()
    assert [entry.shown.status for entry in entries] == ["error", "queued", "success"]


def test_the_end_of_a_job_waits_for_company_only_while_other_jobs_are_worked_on(bench):
    """Whoever runs one job at a time has its answer at once."""
    entry = MakeEntry(900)
    assert not JobChange(bench.queue, entry, lambda job: job, last=True).leisurely
    first, second = bench.Submit("gate a"), bench.Submit("gate b")
    bench.executor.WaitRunning(first, second)
    assert JobChange(bench.queue, entry, lambda job: job, last=True).leisurely
    assert not JobChange(bench.queue, entry, lambda job: job).leisurely
    bench.executor.Open("a")
    bench.executor.Open("b")


class _Noting(Worker):
    noted: ClassVar[list[bool]] = []

    def Commit(self, entry: Entry, transform: Any, last: bool = False) -> jobs.Job:
        self.noted.append(last)
        return super().Commit(entry, transform, last)


class _NotingQueue(JobQueue):
    worker_class = _Noting


def test_only_the_end_of_the_last_opcode_may_wait(bench):
    queue = _NotingQueue(bench.store, bench.executor)
    bench.queue.Stop()
    bench.queue = queue
    queue.Start()
    bench.WaitEnd(bench.Submit("one", "two"))
    assert _Noting.noted == [False, False, False, True]


def test_a_log_is_not_dropped_while_somebody_writes_to_it():
    entry = MakeEntry(1, "running")
    entry.AddLog(0, "message", "text")
    dropping = runtime.Thread(entry.DropLogs, "drop")
    with entry.lock:
        dropping.start()
        dropping.join(0.1)
        assert len(entry.LogAfter(None)) == 1
    dropping.join(20)
    assert entry.LogAfter(None) == []


def test_old_jobs_are_archived_in_portions_that_keep_nobody_waiting(bench):
    ids = [bench.Submit("x") for _ in range(3)]
    ids += [answer[1] for answer in bench.queue.SubmitManyJobs([[Op()]] * (2 * ARCHIVE_GROUP)).Result(60)]
    for job_id in ids:
        bench.WaitEnd(job_id)
    moved = []
    bench.store.Listen(lambda position, rows: moved.append(sum(row.kind == "archived" for row in rows)))
    assert bench.queue.AutoArchive(-1, 60).Result(60) == [len(ids), 0]
    assert [count for count in moved if count] == [ARCHIVE_GROUP, ARCHIVE_GROUP, 3]


def test_nothing_of_an_archived_job_stays_in_memory(bench):
    """Neither with the workers, which wait for other jobs, nor in the store, which hands the jobs over to the queue."""
    for _ in range(30):
        bench.WaitEnd(bench.Submit("seen nowhere else"))
    assert bench.store.Rows("job") == {}

    def kept():
        gc.collect()
        return [
            o for o in gc.get_objects() if isinstance(o, Entry) and "seen nowhere else" in o.draft.ops[0].input.json
        ]

    assert len(kept()) == 30
    assert bench.queue.AutoArchive(-1, 60).Result(60) == [30, 0]
    Until(lambda: not kept())
