"""What a job is: its status, its file, what can happen to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import constants, errors, opcodes, serializer
from ganeti.jqueue import job as jobs

STATUSES = st.sampled_from(sorted(constants.JOB_STATUS_ALL))
STAMPS = st.none() | st.tuples(st.integers(0, 2**40), st.integers(0, 999_999))


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], "success"),
        (["queued"], "queued"),
        (["success", "queued"], "queued"),
        (["waiting", "queued"], "waiting"),
        (["success", "running", "queued"], "running"),
        (["success", "error", "error"], "error"),
        (["canceling", "canceling"], "canceling"),
        (["success", "canceled"], "canceled"),
        (["success", "success"], "success"),
    ],
)
def test_the_status_of_a_job_follows_from_its_opcodes(statuses, expected):
    assert jobs.JobStatus(statuses) == expected


@st.composite
def Jobs(draw):
    ops = draw(
        st.lists(
            st.builds(
                jobs.OpState,
                st.builds(jobs.OpInput, st.dictionaries(st.text(), st.integers() | st.text(), max_size=3)),
                STATUSES,
                st.none() | st.text() | st.lists(st.integers()),
                st.integers(-20, 19),
                STAMPS,
                STAMPS,
                STAMPS,
            ),
            max_size=4,
        )
    )
    job = jobs.Job(draw(st.integers(0, 2**40)), ops, draw(STAMPS), draw(STAMPS))
    return job.Replace(ops, end=draw(STAMPS)) if job.final else job


@pytest.mark.req("D20-JOB-13")
@given(Jobs())
def test_what_is_written_is_read_again_and_written_the_same(job):
    logs = [jobs.OpLog([[n + 1, [5, 6], "message", "text"]]) for n, _ in enumerate(job.ops)]
    text = job.Json(logs)
    again, more = jobs.ReadJob(text)
    assert again.Json(more) == text
    assert again.status == job.status
    data = serializer.Load(text)
    assert set(data) == {"id", "ops", "received_timestamp", "start_timestamp", "end_timestamp"}
    for op in data["ops"]:
        assert list(op) == [
            "input",
            "status",
            "result",
            "log",
            "priority",
            "start_timestamp",
            "exec_timestamp",
            "end_timestamp",
        ]


def test_a_packed_job_says_what_it_said_before():
    op_input = jobs.OpInput({"OP_ID": "OP_TEST_DELAY", "reason": [["a", "b", 1]]}, "TEST_DELAY(1)")
    job = jobs.Job(7, [jobs.OpState(op_input, constants.JOB_STATUS_SUCCESS, {"a": [1]})], (1, 2))
    logs = [jobs.OpLog([[1, [2, 3], "message", "x"]])]
    text, view = job.Json(logs), jobs.View(7, job, logs)
    shown = {name: view.FieldValue(name) for name in jobs.FIELDS}
    job.Pack()
    assert {name: view.FieldValue(name) for name in jobs.FIELDS} == shown
    assert view.FieldValue("ops")[0] is not op_input.data, "it is made anew for each who asks"
    assert job.Json(logs) == text


def test_a_job_file_of_3_1_is_read_and_what_it_knew_of_processes_is_dropped():
    text = serializer.Dump(
        {
            "id": 7,
            "ops": [
                {
                    "input": {"OP_ID": "OP_NO_SUCH", "x": 1},
                    "status": "success",
                    "result": [1],
                    "priority": -10,
                    "start_timestamp": [1, 2],
                    "exec_timestamp": [1, 3],
                    "end_timestamp": None,
                }
            ],
            "received_timestamp": [1, 0],
            "start_timestamp": None,
            "end_timestamp": None,
            "livelock": "/var/run/x",
            "process_id": 17,
        }
    )
    job, logs = jobs.ReadJob(text)
    view = jobs.View(7, job, logs)
    assert view.FieldValue("summary") == ["NO_SUCH"]
    assert view.FieldValue("ops") == [{"OP_ID": "OP_NO_SUCH", "x": 1}]
    assert "livelock" not in job.Json(logs)
    assert jobs.ReadJob('{"id": "12", "ops": []}')[0].id == 12  # 2.6


@pytest.mark.parametrize(
    "text",
    ["", "7", "[]", "{}", '{"id": true, "ops": []}', '{"id": 1}', '{"id": 1, "ops": [7]}', '{"id": -1, "ops": []}']
    + ['{"id": 1, "ops": [{"input": {}, "status": "odd"}]}', '{"id": 1, "ops": [], "end_timestamp": 5}']
    + ['{"id": 1, "ops": [{"input": {}, "log": [[1]]}]}', '{"id": 1, "ops": [{"input": {}, "status": ["queued"]}]}']
    + ['{"id": 1, "ops": [{"input": {}, "status": "queued"}], "end_timestamp": [1, 2]}']
    + ['{"id": 1, "ops": [{"input": {}, "status": {}}]}', '{"id": 1, "ops": [{"input": {"x": 1e999}}]}'],
)
def test_what_is_no_job_is_told(text):
    with pytest.raises(errors.JobFileCorrupted):
        jobs.ReadJob(text)


def test_an_input_that_is_no_opcode_still_has_a_summary():
    for data in ({}, 7, None, {"OP_ID": 7}, []):
        op_input = jobs.OpInput(data)
        assert op_input.summary == "INVALID_OP"
        assert op_input.depends == [] and op_input.reason == []


def test_private_values_leave_the_file_when_they_are_used():
    name, cls = next(
        (name, cls)
        for cls in opcodes.OP_MAPPING.values()
        for name, spec in cls.OP_PARAMS.items()
        if spec.private and not spec.secret
    )
    op_input = jobs.OpInput({"OP_ID": cls.OP_ID, name: {"key": "hidden"}})
    job = jobs.Job(1, [jobs.OpState(op_input)], (1, 0))
    assert "hidden" in job.Json([jobs.OpLog()])
    running = jobs.MarkRunning(job, 0, (2, 0))
    assert "hidden" not in running.Json([jobs.OpLog()])
    assert running.ops[0].input.data[name] == {"key": None}


TRANSFORMS = st.sampled_from(
    [
        lambda job, n: jobs.MarkWaiting(job, n, (5, 0)) if job.ops[n].status == "queued" else job,
        lambda job, n: jobs.MarkRunning(job, n, (5, 0)) if job.ops[n].status in ("queued", "waiting") else job,
        lambda job, n: jobs.MarkSuccess(job, n, None) if job.ops[n].status == "running" else job,
        lambda job, n: jobs.MarkError(job, n, "x"),
        lambda job, n: jobs.MarkCanceling(job) if job.status == "waiting" else job,
        lambda job, n: jobs.MarkCanceled(job) if job.status in ("queued", "canceling") else job,
        lambda job, n: jobs.MarkQueued(job),
        lambda job, n: jobs.MarkUnclean(job) if job.status in ("running", "canceling") else job,
        lambda job, n: jobs.WithPriority(job, -10),
    ]
)


def CheckShape(job: jobs.Job) -> None:
    """Q2: success*, at most one under way, then queued*; or all of the rest equal."""
    rest = [op.status for op in job.ops]
    while rest and rest[0] == "success":
        rest.pop(0)
    assert len(set(rest)) <= 1 or (rest[0] in ("waiting", "running") and set(rest[1:]) == {"queued"}), job
    assert (job.end is not None) == job.final  # Q4
    for op in job.ops:
        assert (op.end is not None) == (op.status in constants.JOBS_FINALIZED)


@pytest.mark.req("D20-STAT-01", "D20-STAT-03")
@given(st.integers(1, 4), st.lists(TRANSFORMS, max_size=20))
def test_a_job_goes_along_the_drawn_lines_only(count, transforms):
    job = jobs.Job(1, [jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"})) for _ in range(count)], (1, 0))
    began = set()
    for transform in transforms:
        index = job.NextOp()
        if index is None:
            break
        before = job
        job = transform(job, index)
        CheckShape(job)
        if job.ops[index].status == "running":
            began.add(index)
        for number, (old, new) in enumerate(zip(before.ops, job.ops, strict=True)):
            if old.status in constants.JOBS_FINALIZED:
                assert new.status == old.status
            assert not (new.status == "canceled" and number in began)


@pytest.mark.parametrize(
    ("op", "step"),
    [
        ({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web1"}, "'gnt-instance migrate --cleanup web1' finds out"),
        ({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web 1; reboot"}, "--cleanup 'web 1; reboot''"),
        ({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": None}, None),
        ({"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "web1"}, "see 'gnt-instance info web1'"),
        ({"OP_ID": "OP_NODE_ADD", "node_name": "node4"}, "'gnt-node add --readd node4'"),
        ({"OP_ID": "OP_CLUSTER_RENAME", "name": "x"}, "'gnt-cluster verify'"),
        (
            {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", "confd_hmac_key": True, "renew_ssh_keys": True, "ssh_key_type": "rsa"},
            "'gnt-cluster renew-crypto --new-confd-hmac-key --new-ssh-keys --ssh-key-type=rsa' continues",
        ),
        ({"OP_ID": "OP_TEST_DELAY", "duration": 5}, None),
        (7, None),
    ],
)
def test_an_opcode_that_was_cut_off_names_the_next_step(op, step):
    """Only the one that ran: the others did nothing."""
    states = [jobs.OpState(jobs.OpInput(op), status) for status in ("success", "running", "queued")]
    ended = jobs.MarkUnclean(jobs.Job(1, states, (1, 0)))
    done, running, queued = (state.result for state in ended.ops)
    assert done is None and queued == ["OpExecError", ["Unclean master daemon shutdown"]]
    [kind, [text]] = running
    assert kind == "OpExecError"
    assert (step in text and text.startswith("Unclean master daemon shutdown; ")) if step else running == queued


def test_next_steps_are_named_for_opcodes_that_exist():
    from ganeti.jqueue import unclean

    named = {*unclean._INSTANCE, *unclean._NODE, *unclean._OTHERS}
    assert named <= set(opcodes.OP_MAPPING)


@pytest.mark.parametrize(
    ("ops", "priority"),
    [
        ([], 0),
        ([("queued", 10)], 10),
        ([("queued", 10), ("queued", -10)], -10),
        ([("queued", -10), ("queued", 10)], -10),
        ([("success", -20), ("running", 5), ("queued", 7)], 5),
        ([("success", -20), ("success", -10)], 0),
        ([("canceled", -20), ("error", -10), ("waiting", 3)], 3),
    ],
)
def test_a_job_is_as_urgent_as_the_most_urgent_opcode_that_is_not_final(ops, priority):
    states = [jobs.OpState(jobs.OpInput({}), status, priority=number) for status, number in ops]
    assert jobs.Job(1, states, None).priority == priority


def test_a_job_starts_with_its_first_opcode_and_keeps_that_time():
    job = jobs.Job(1, [jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"})) for _ in range(2)], (1, 0))
    job = jobs.MarkWaiting(job, 0, (2, 0))
    assert (job.start, job.ops[0].start, job.ops[0].exec) == ((2, 0), (2, 0), None)
    job = jobs.MarkRunning(job, 0, (3, 0))
    assert (job.start, job.ops[0].start) == ((2, 0), (2, 0)) and job.ops[0].exec is not None
    job = jobs.MarkWaiting(jobs.MarkSuccess(job, 0, None), 1, (5, 0))
    assert (job.start, job.ops[1].start) == ((2, 0), (5, 0))
    quick = jobs.Job(1, [jobs.OpState(jobs.OpInput({"OP_ID": "OP_TEST_DELAY"}))], (1, 0))
    quick = jobs.MarkRunning(quick, 0, (4, 0))
    assert (quick.start, quick.ops[0].start) == ((4, 0), (4, 0))
