"""What one job is to the queue: its reading, its log, its requests, its dependencies, its place in the archive."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from simulated import World
from support.queues import Op

from ganeti import constants, errors, pathutils, runtime
from ganeti.jqueue import attempts, depends, directory
from ganeti.jqueue import entry as entry_module
from ganeti.jqueue import job as jobs
from ganeti.jqueue.archive import Archive, Archiver
from ganeti.jqueue.changes import Portions
from ganeti.jqueue.entry import Cancel, ChangePriority, CheckPriority, Cut, Entry, InputSize, JobChange, Keeper
from ganeti.jqueue.ticker import Ticker
from ganeti.luxi.pending import Completed, Pending


def MakeJob(*statuses: str, depends_on: Any = None, end: Any = None, job_id: int = 7) -> jobs.Job:
    ops = [jobs.OpState(jobs.OpInput({**Op(), "depends": depends_on}), status) for status in statuses]
    return jobs.Job(job_id, ops, (100, 0), end=end)


def MakeEntry(*statuses: str, **more: Any) -> Entry:
    job = MakeJob(*statuses, **more)
    return Entry(job, [jobs.OpLog() for _ in statuses], published=job)


# Dependencies


@pytest.mark.parametrize(
    ("depends_on", "found", "outcome", "words"),
    [
        (None, {}, depends.GO_ON, ""),
        ([], {}, depends.GO_ON, ""),
        ([[3, []]], {3: "success"}, depends.GO_ON, ""),
        ([[3, []]], {3: "error"}, depends.GO_ON, ""),
        ([[3, ["success", "error"]]], {3: "error"}, depends.GO_ON, ""),
        ([[3, ["canceled"]]], {3: "canceled"}, depends.GO_ON, ""),
        ([[3, []]], {3: "canceled"}, depends.CANCEL, "because job 3, on which it depends, was canceled"),
        ([[3, ["success"]]], {3: "canceled"}, depends.CANCEL, "because job 3"),
        ([[3, ["success"]]], {3: "error"}, depends.FAIL, "finished with status 'error', not one of 'success'"),
        ([[3, []]], {}, depends.FAIL, "job 3 does not exist"),
        ([[7, []]], {7: "running"}, depends.FAIL, "can't depend on itself"),
        ([[3, []], [4, ["success"]]], {3: "success", 4: "error"}, depends.FAIL, "Dependency job 4"),
    ],
)
def test_how_the_jobs_before_it_ended_decides_what_becomes_of_an_opcode(
    depends_on: Any, found: dict[int, str], outcome: str, words: str
) -> None:
    came, text = depends.Check(MakeJob("queued", depends_on=depends_on), 0, found.get)
    assert came == outcome and words in text and bool(text) is (outcome != depends.GO_ON)


def test_only_living_jobs_hold_a_job_and_only_through_opcodes_that_are_left() -> None:
    job = MakeJob("queued", "waiting", depends_on=[[3, []], [4, []], [7, []]])
    assert depends.Unfinished(job, lambda job_id: job_id != 4) == {3}, "never itself, or it would wait for ever"
    assert depends.Unfinished(MakeJob("success", "error", depends_on=[[3, []]]), lambda _: True) == set()
    assert depends.Unfinished(MakeJob("success", "queued", depends_on=[[3, []]]), lambda _: True) == {3}


def test_relative_numbers_of_jobs_count_back_within_what_is_submitted() -> None:
    assert depends.Resolve(None, 5, set()) is None
    assert depends.Resolve([[-1, ["success"]], [3, []], ["4", ()]], 5, set()) == [[4, ["success"]], [3, []], [4, []]]
    assert depends.Resolve([[-4, []]], 5, {2}) == [[1, []]]
    for relative, failed in ((-5, set()), (-6, set()), (-1, {4})):
        with pytest.raises(errors.OpPrereqError, match=f"relative job ID {relative}"):
            depends.Resolve([[relative, []]], 5, failed)
    assert depends.Resolve([[4, []]], 5, {4}) == [[4, []]], "an absolute one is looked at when the job starts"


# Reading


def Text(**changes: Any) -> str:
    op = {"input": Op(), "status": "success", "result": 1, "log": [[1, [1, 2], "message", "x"]], "priority": 5}
    job = {"id": 7, "ops": [op], "received_timestamp": [1, 2], "start_timestamp": None, "end_timestamp": [3, 4]}
    for name, value in changes.items():
        where, _, key = name.partition("__")
        if where == "op":
            op[key] = value
        else:
            job[name] = value
    return json.dumps({key: value for key, value in job.items() if value is not ...})


def test_a_job_file_is_read_with_what_it_may_leave_out() -> None:
    job, logs = jobs.ReadJob(Text())
    assert (job.id, job.status, job.received, job.start, job.end) == (7, "success", (1, 2), None, (3, 4))
    assert (job.ops[0].priority, job.ops[0].result, logs[0].entries) == (5, 1, [[1, [1, 2], "message", "x"]])
    assert jobs.ReadJob(Text(id="007"))[0].id == 7 and jobs.ReadJob(Text(id=0))[0].id == 0
    bare, logs = jobs.ReadJob('{"id": 7, "ops": [{"input": {}}]}')
    assert (bare.status, bare.ops[0].priority, bare.received, logs[0].entries) == ("queued", 0, None, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"id": None},
        {"id": -1},
        {"id": True},
        {"id": 1.5},
        {"id": "x"},
        {"id": ""},
        {"id": "-1"},
        {"id": "\u0661"},
        {"ops": None},
        {"ops": {}},
        {"ops": [5]},
        {"ops": [{}]},
        {"op__status": "odd"},
        {"op__status": 5},
        {"op__status": []},
        {"op__priority": "5"},
        {"op__log": "x"},
        {"op__log": [5]},
        {"op__log": [[1, [1, 2], "message"]]},
        {"op__log": [["1", [1, 2], "message", "x"]]},
        {"op__start_timestamp": [1]},
        {"op__end_timestamp": "x"},
        {"received_timestamp": [1, "2"]},
        {"end_timestamp": [1, 2, 3]},
        {"op__status": "running"},
    ],
    ids=str,
)
def test_a_job_file_without_sense_is_left_alone(changes: Any) -> None:
    with pytest.raises(errors.JobFileCorrupted):
        jobs.ReadJob(Text(**changes))


def test_what_is_no_object_is_no_job() -> None:
    for text in ("[]", "5", "", "{", b"\xff"):
        with pytest.raises(errors.JobFileCorrupted):
            jobs.ReadJob(text)


# The log


def test_a_full_log_says_so_once_and_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_module, "MAX_LOG", 200)
    entry = MakeEntry("running", "queued")
    for number in range(20):
        entry.AddLog(number % 2, constants.ELOG_MESSAGE, f"message {number}")
    found = [(each[0], each[3]) for each in entry.LogAfter(None)]
    kept = len(found) - 1
    assert found == [*((n + 1, f"message {n}") for n in range(kept)), (kept + 1, "The log is full, no more is kept")]
    written = sum(len(json.dumps(each, separators=(",", ":"))) for each in entry.LogAfter(None)[:-1])
    last = len(json.dumps(entry.LogAfter(None)[-2], separators=(",", ":")))
    assert written - last <= 200 < written
    assert entry.LogAfter(kept - 1) == entry.LogAfter(None)[-2:] and entry.LogAfter(kept + 1) == []


def test_a_log_of_exactly_the_limit_is_not_full_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = MakeEntry("running")
    entry.AddLog(0, constants.ELOG_MESSAGE, "x")
    monkeypatch.setattr(entry_module, "MAX_LOG", entry.row_size - InputSize(entry.draft))
    entry.AddLog(0, constants.ELOG_MESSAGE, "y")
    assert [each[3] for each in entry.LogAfter(None)] == ["x", "y", "The log is full, no more is kept"]


def test_each_message_of_a_list_has_a_number_and_the_same_time() -> None:
    entry = MakeEntry("running")
    entry.AddLog(0, constants.ELOG_MESSAGE_LIST, ["a", {"b": 1}])
    first, second = entry.LogAfter(None)
    assert (first[0], first[2:], second[0], second[2:]) == (1, ["message", "a"], 2, ["message", {"b": 1}])
    assert first[1] == second[1]
    assert json.loads(entry.logs[0].Json()) == [first, second]


def test_a_message_may_have_exactly_the_limit() -> None:
    limit = entry_module.MAX_MESSAGE
    assert Cut("x" * limit) == "x" * limit
    assert Cut("x" * (limit + 1)) == "x" * limit + f"... ({limit + 1} characters, the rest is not kept)"
    entry = MakeEntry("running")
    for message in (["x" * (limit - 4)], ["x" * (limit - 3)]):  # with brackets and quotes
        entry.AddLog(0, constants.ELOG_MESSAGE, message)
    whole, cut = (each[3] for each in entry.LogAfter(None))
    assert whole == ["x" * (limit - 4)] and cut == f"A message of {limit + 1} bytes is not kept: {limit} are allowed"


# Requests


@pytest.mark.parametrize(
    ("status", "after", "answer"),
    [
        ("queued", "canceled", (True, "Job 7 canceled")),
        ("waiting", "canceling", None),
        ("canceling", "canceling", None),
        ("running", "running", (False, "Job 7 is no longer waiting in the queue")),
        ("success", "success", (False, "Job 7 is no longer waiting in the queue")),
        ("canceled", "canceled", (False, "Job 7 is no longer waiting in the queue")),
    ],
)
def test_what_a_request_to_cancel_does_depends_on_how_far_the_job_is(status: str, after: str, answer: Any) -> None:
    cancel = Cancel("why")
    changed = cancel(MakeJob(status))
    assert (changed.status, cancel.answer) == (after, answer)
    if status == "queued":
        assert changed.ops[0].result == "why"


@pytest.mark.parametrize(
    ("statuses", "answer"),
    [
        (["queued"], (True, "Priorities of pending opcodes for job 7 have been changed to -5")),
        (["waiting", "queued"], (True, "Priorities of pending opcodes for job 7 have been changed to -5")),
        (["running", "queued"], (True, "Priorities of pending opcodes for job 7 have been changed to -5")),
        (["running"], (False, "Job 7 had no pending opcodes")),
        (["success"], (False, "Job 7 is finished")),
        (["error"], (False, "Job 7 is finished")),
        (["canceling"], (False, "Job 7 is cancelling")),
    ],
)
def test_a_priority_changes_for_what_still_waits(statuses: list[str], answer: Any) -> None:
    wish = ChangePriority(-5)
    before = MakeJob(*statuses)
    changed = wish(before)
    assert wish.answer == answer and (changed is before) is (not answer[0])
    assert [op.priority for op in changed.ops] == [
        -5 if s in ("queued", "waiting") and answer[0] else 0 for s in statuses
    ]


def test_priorities_have_two_ends() -> None:
    for good in (constants.OP_PRIO_HIGHEST, 0, constants.OP_PRIO_LOWEST):
        CheckPriority(good)
    for bad in (constants.OP_PRIO_HIGHEST - 1, constants.OP_PRIO_LOWEST + 1):
        with pytest.raises(errors.GenericError, match=r"-20 \(most urgent\) to 19"):
            CheckPriority(bad)


class Kept(Keeper):
    """A queue of which nothing is wanted but what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def OnPublished(self, entry: Entry, before: jobs.Job) -> None:
        self.told.append((before.status, entry.shown.status))

    def SeveralRun(self) -> bool:
        return False


def test_a_change_that_changes_nothing_writes_nothing_unless_messages_wait() -> None:
    keeper, entry = Kept(), MakeEntry("running")
    idle = JobChange(keeper, entry, lambda job: job)
    assert idle.Prepare() == []
    idle.Publish()
    assert keeper.told == []
    with_log = JobChange(keeper, entry, lambda job: job, with_log=True)
    assert [row.id for row in with_log.Prepare()] == ["7"]
    with_log.Publish()
    assert keeper.told == [], "messages are told otherwise"
    end = JobChange(keeper, entry, lambda job: jobs.MarkSuccess(job, 0, None))
    [row] = end.Prepare()
    assert json.loads(row.value or "")["ops"][0]["status"] == "success"
    assert (entry.draft.status, entry.shown.status) == ("success", "running"), "it is not acknowledged yet"
    end.Publish()
    assert keeper.told == [("running", "success")]
    # The log of a job that has ended is complete.
    assert JobChange(keeper, entry, lambda job: job, with_log=True).Prepare() == []
    end.Withdraw()
    assert entry.draft.status == "running"


# Portions, and the archive


def test_jobs_are_taken_in_portions_of_so_many_and_so_large() -> None:
    entries = [MakeEntry("queued", job_id=number) for number in range(5)]
    size = entries[0].row_size

    def portions(count: int, most: int) -> list[list[int]]:
        return [[entry.id for entry in portion] for portion in Portions(entries, count, most)]

    assert portions(2, 10 * size) == [[0, 1], [2, 3], [4]]
    assert portions(5, 10 * size) == [[0, 1, 2, 3, 4]]
    assert portions(9, 2 * size) == [[0, 1], [2, 3], [4]]
    assert portions(9, 2 * size - 1) == [[0], [1], [2], [3], [4]]
    assert portions(9, 1) == [[0], [1], [2], [3], [4]], "one that is larger goes alone"
    assert list(Portions([], 2)) == []


class Archived:
    """A store of which only the rows of archived jobs are wanted, and the changes that move jobs there."""

    def __init__(self, rows: dict[str, str] | None = None):
        self.rows = rows or {}
        self.moved: list[list[int]] = []
        self.fail_at = 0

    def Value(self, kind: str, row_id: str) -> str | None:
        assert kind == "archived"
        return self.rows.get(row_id)

    def Rows(self, kind: str) -> dict[str, str]:
        assert kind == "archived"
        return self.rows

    def Begin(self, change: Any, done: Any) -> None:
        if len(self.moved) + 1 == self.fail_at:
            done(errors.GenericError("no quorum"))
            return
        self.moved.append([entry.id for entry in change.taken])
        done(None)


class Moved:
    def __init__(self, entries: Any):
        self.taken = [entry for entry in entries if entry.id != 99]


def test_archived_jobs_are_found_in_rows_and_in_files_and_what_cannot_be_read_is_not_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with World(3) as world:

        def story() -> None:
            archive = Archive(Archived({"12": Text(id=12), "13": "{"}))  # type: ignore[arg-type]
            for job_id, text in ((20_001, Text(id=20_001)), (20_002, "nonsense")):
                path = pathutils.ArchivedJobFile(job_id)
                runtime.MakeDirs(path.rpartition("/")[0], 0o750)
                runtime.WriteFile(path, text.encode(), 0o640)
            runtime.MakeDirs(pathutils.ArchivedJobFile(20_003), 0o750)
            runtime.MakeDirs(f"{pathutils.JOB_QUEUE_ARCHIVE_DIR}/other", 0o750)
            runtime.WriteFile(f"{pathutils.JOB_QUEUE_ARCHIVE_DIR}/other/job-5", b"", 0o640)
            runtime.WriteFile(f"{pathutils.JOB_QUEUE_ARCHIVE_DIR}/2/note", b"", 0o640)
            for job_id in (12, 20_001):
                view = archive.Find(job_id)
                assert view is not None and view.found and view.FieldValue("archived") is True
                assert view.FieldValue("status") == "success"
            assert [archive.Find(job_id) for job_id in (13, 14, 20_002, 20_003)] == [None] * 4
            assert archive.Ids() == [12, 13, 20_001, 20_002, 20_003]

        world.AddMachine("one").Call(story)
        assert not world.failures
    said = [
        record.getMessage().partition(" cannot")[0] for record in caplog.records if record.levelno == logging.WARNING
    ]
    assert said == ["Archived job 13", "Archived job 20002", "Archived job 20003"], "that one is not there is no news"


def test_an_archive_that_was_never_used_is_empty() -> None:
    with World(3) as world:
        assert world.AddMachine("one").Call(lambda: Archive(Archived()).Ids()) == []  # type: ignore[arg-type]


def Old(the_store: Archived, entries: list[Entry], age: float, timeout: float = 10.0) -> Pending:
    return Archiver(the_store, Moved).Old(entries, age, timeout)  # type: ignore[arg-type]


def test_jobs_go_to_the_archive_when_their_end_is_old_enough() -> None:
    with World(3) as world:

        def story() -> None:
            now = int(runtime.Time())
            ends = {1: now - 100, 2: now - 50, 3: now - 49, 4: now}
            entries = [MakeEntry("success", job_id=n, end=(end, 0)) for n, end in ends.items()]
            entries += [MakeEntry("running", job_id=5), MakeEntry("success", job_id=99, end=(1, 0))]
            # What never noted its end counts from when it came.
            entries.append(MakeEntry("error", job_id=6))
            for age, moved in ((60, [1, 99, 6]), (-1, [1, 2, 3, 4, 99, 6]), (1e10, [])):
                the_store = Archived()
                assert Old(the_store, entries, age).Result(1) == [len([n for n in moved if n != 99]), 0]
                assert [n for portion in the_store.moved for n in portion] == [n for n in moved if n != 99]

        world.AddMachine("one").Call(story)
        assert not world.failures


def test_a_look_for_old_jobs_ends_in_time_and_says_how_many_are_left() -> None:
    entries = [MakeEntry("success", job_id=number) for number in range(5)]
    the_store = Archived()
    assert Old(the_store, entries, -1, timeout=0.0).Result(1) == [0, 5]
    assert the_store.moved == []


def test_what_a_failed_portion_leaves_is_not_moved_and_the_failure_is_told() -> None:
    entries = [MakeEntry("success", job_id=number) for number in range(250)]
    the_store = Archived()
    the_store.fail_at = 2
    answer = Old(the_store, entries, -1)
    assert answer.done and str(answer.error) == "no quorum" and len(the_store.moved) == 1


def test_one_job_goes_to_the_archive_when_it_has_ended() -> None:
    archiver = Archiver(Archived(), Moved)  # type: ignore[arg-type]
    answers = [
        archiver.One(entry).Result(1)
        for entry in (None, MakeEntry("running"), MakeEntry("success"), MakeEntry("success", job_id=99))
    ]
    assert answers == [False, False, True, False]
    assert Completed(5).Result(0) == 5


# Tries, timers, the queue's folder


def test_the_times_of_tries_vary_a_little_and_end_with_patience() -> None:
    tries = attempts.LockAttempts()
    taken = []
    for planned in attempts.SERIES:
        assert tries.Peek() == planned
        found = tries.Next()
        assert found is not None and 0.95 * planned <= found <= 1.05 * planned
        taken.append(found / planned)
    assert tries.Peek() is None and tries.Next() is None and tries.Next() is None
    assert max(taken) > 1.0 > min(taken), "jobs that wait for one another meet again at other times"
    assert attempts.SERIES[0] == attempts.MIN_WAIT and attempts.SERIES[-1] == attempts.MAX_WAIT
    assert sum(attempts.SERIES[:-1]) < attempts.TOTAL_WAIT <= sum(attempts.SERIES)


def test_what_is_to_be_done_sooner_is_done_first_whenever_it_was_asked_for() -> None:
    with World(2) as world:

        def story() -> list[tuple[str, float]]:
            ticker = Ticker("ticker")
            ticker.Start()
            done: list[tuple[str, float]] = []
            last = runtime.Event()
            began = runtime.Monotonic()

            def after(delay: float, name: str) -> Any:
                return ticker.After(delay, lambda: done.append((name, round(runtime.Monotonic() - began, 2))))

            after(9.0, "late")
            runtime.Sleep(1.0)
            gone = after(3.0, "canceled")
            after(3.0, "soon")
            after(5.0, "later")
            runtime.Sleep(1.0)
            gone.Cancel()
            ticker.After(20.0, last.set)
            assert last.wait(60.0)
            ticker.Stop()
            after(0.0, "after the stop")
            runtime.Sleep(1.0)
            return done

        assert world.AddMachine("one").Call(story) == [("soon", 4.0), ("later", 6.0), ("late", 9.0)]
        assert not world.failures


def test_when_a_stop_returns_nothing_of_the_ticker_is_under_way() -> None:
    with World(2) as world:

        def story() -> list[str]:
            ticker = Ticker("ticker")
            ticker.Start()
            done: list[str] = []
            ticker.Soon(lambda: (runtime.Sleep(2.0), done.append("the long one")))
            ticker.After(1.5, lambda: done.append("too late"))
            runtime.Sleep(1.0)
            ticker.Stop()
            return list(done)

        assert world.AddMachine("one").Call(story) == ["the long one"]
        assert not world.failures


def test_a_queue_whose_version_cannot_be_read_is_left_alone() -> None:
    with World(1) as world:

        def story() -> None:
            directory.CheckVersion()
            runtime.MakeDirs(pathutils.JOB_QUEUE_VERSION_FILE, 0o750)
            with pytest.raises(errors.JobQueueError, match=f"{pathutils.JOB_QUEUE_VERSION_FILE} cannot be read"):
                directory.Own()
            runtime.RemoveTree(pathutils.JOB_QUEUE_VERSION_FILE)
            before = runtime.Stat(pathutils.QUEUE_DIR)
            # A folder that was there keeps its owner.
            with directory.Own(123, 456):
                assert (runtime.Stat(pathutils.QUEUE_DIR).st_uid, before.st_mode) == (before.st_uid, before.st_mode)

        world.AddMachine("node1").Call(story)
        assert not world.failures
