"""What programs may send to a running master daemon: rubbish, too much, or nothing at all; everybody else is served.

The server alone is tested in test/unit/luxi; here the real daemon answers, with its queue and its store behind it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support import patience
from support.realcluster import FollowJob, RealCluster, RealNode

from ganeti import errors, opcodes, serializer
from ganeti.luxi import methods, protocol

MASTERD = "ganeti-masterd"
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": False, "reason": []}
# What every type but the widest refuses one of.
RUBBISH: tuple[Any, ...] = ({"x": []}, "no\nword", 5.5, -7, True, [[]], [None, {}], None, "", 10**30)
DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]


@pytest.fixture(scope="module")
def node() -> Iterator[RealNode]:
    with RealCluster(2) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        pid = cluster[0].Pid(MASTERD)
        yield cluster[0]
        log = cluster[0].Log(MASTERD)
        assert cluster[0].Pid(MASTERD) == pid
        assert "Traceback" not in log and "could not be answered" not in log


def Raw(node: RealNode) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(node.Path("/var/run/ganeti/socket/ganeti-query"))  # waits while too many connect at once
    sock.settimeout(30)
    return sock


def ReadAnswer(sock: socket.socket) -> dict[str, Any] | None:
    """The next answer; None if the connection was closed instead."""
    data = b""
    while protocol.EOM not in data:
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return None
        data += part
    return serializer.Load(data.partition(protocol.EOM)[0])


def AssertServed(node: RealNode, within: float = 15.0) -> None:
    """A job goes through and a list comes, quickly enough for a person; on an idle machine that takes 0.1 s.

    What waited for others here would wait without end.
    """
    started = time.monotonic()
    with node.Client() as client:
        assert FollowJob(client, client.SubmitJob([DELAY]))[0] == "success"
        assert client.QueryNodes([], ["name"])
    assert time.monotonic() - started < within * patience.Shared()


def LastJob(node: RealNode) -> int:
    with node.Client() as client:
        return max((row[0] for row in client.QueryJobs(None, ["id"])), default=0)


def PssMiB(node: RealNode) -> int:
    with open(f"/proc/{node.Pid(MASTERD)}/smaps_rollup", encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("Pss:")) // 1024


def Complete(op_id: str) -> dict[str, Any]:
    """The opcode with its required parameters, as far as one of a few values fits their types."""
    op: dict[str, Any] = {"OP_ID": op_id}
    for name, spec in opcodes.OP_MAPPING[op_id].OP_PARAMS.items():
        if spec.required:
            fitting = [
                v for v in ("x", 1, [], {}, True, ["x"], "add", "00000000-0000-4000-8000-000000000000") if spec.type(v)
            ]
            if fitting:
                op[name] = fitting[0]
    return op


def WrongOpcodes() -> Iterator[tuple[str, dict[str, Any]]]:
    """(what must be named, opcode) for every parameter of every opcode."""
    for op_id, cls in opcodes.OP_MAPPING.items():
        yield op_id, {**Complete(op_id), "no_such_parameter": 1}
        for name, spec in cls.OP_PARAMS.items():
            if spec.required:
                yield op_id, {key: value for key, value in Complete(op_id).items() if key != name}
            for value in [each for each in RUBBISH if not spec.type(each)][:3]:
                yield op_id, {**Complete(op_id), name: value}


def test_no_opcode_with_a_wrong_parameter_becomes_a_job(node: RealNode) -> None:
    before = LastJob(node)
    cases = list(WrongOpcodes())
    assert len(cases) > 1500
    wrong = []
    with node.Client() as client:
        for word, op in cases:
            try:
                wrong.append((op, client.SubmitJob([op])))
            except errors.OpPrereqError as err:
                if word not in err.args[0] or len(err.args[0]) > 2000:
                    wrong.append((op, err))
        # All of them at once are refused at once: none is taken in before the bad one is found.
        with pytest.raises(errors.OpPrereqError):
            client.SubmitManyJobs([[DELAY], *([op] for _, op in cases)])
    assert wrong == []
    assert LastJob(node) == before


@pytest.mark.parametrize(
    "op",
    [
        {"OP_ID": "OP_NO_SUCH_THING"},
        {"OP_ID": 5},
        {"OP_ID": None},
        {},
        {"OP_ID": "OP_TEST_DELAY\0"},
        {"OP_ID": "x" * 9999},
    ],
)
def test_an_opcode_nobody_knows_becomes_no_job(node: RealNode, op: dict[str, Any]) -> None:
    before = LastJob(node)
    with node.Client() as client, pytest.raises(errors.GenericError) as caught:
        client.SubmitJob([op])
    assert 0 < len(str(caught.value)) < 2000
    assert LastJob(node) == before


@pytest.mark.parametrize("name", sorted(methods.METHODS))
def test_every_method_with_rubbish_for_arguments(node: RealNode, name: str) -> None:
    """Answers or says why not; what would stop the queue for everybody is not called with arguments that fit."""
    count = len(methods.METHODS[name].args)
    calls: list[Any] = [[value] * n for value in (*RUBBISH, DEEP) for n in {0, 1, count, count + 1}]
    calls += [{}, "x", 7, None]
    for args in calls:
        if name == "SetDrainFlag" and args == [True]:
            continue
        sock = Raw(node)
        with contextlib.closing(sock):
            sock.sendall(serializer.DumpBytes({"method": name, "args": args}) + protocol.EOM)
            answer = ReadAnswer(sock)
        assert answer is not None, args
        assert "internal error" not in str(answer["result"])
        assert answer["success"] or answer["result"]
    AssertServed(node)


@pytest.mark.parametrize(
    "kind", ["node", "instance", "group", "network", "job", "filter", "lock", "os", "export", "cluster"]
)
def test_queries_with_rubbish_for_filters(node: RealNode, kind: str) -> None:
    """Depths, operators and values that make no sense: an answer or a reason, in time."""
    key = {"job": "id", "filter": "uuid", "export": "node"}.get(kind, "name")
    operators = ("==", "!=", "<", "<=", ">", ">=", "=~", "=[]", "?", "&", "|", "!", "no-such-operator", 5, None)
    values: tuple[Any, ...] = (None, [], {}, -1, 1e300, "((((", "(a+)+$", "\0", True, ["&"], 10**30, DEEP)
    cases: list[Any] = [[operator, key, value] for operator in operators for value in values]
    cases += [[operator] for operator in operators] + [[], [[]], [{}], ["&"] * 5000, DEEP]
    bomb: Any = ["==", key, "x"]
    for _ in range(200):
        bomb = ["!", bomb]
    with node.Client() as client:
        for qfilter in [*cases, bomb]:
            with contextlib.suppress(errors.GenericError):
                answer = client.Query(kind, [key], qfilter)
                assert set(answer) == {"data", "fields"}
        for fields in ([], ["no-such-field"], ["x" * 9999], [key] * 1000, [""]):
            with contextlib.suppress(errors.GenericError):
                client.Query(kind, fields, None)
    AssertServed(node)


def test_over_64_mib_the_connection_ends_and_the_others_go_on(node: RealNode) -> None:
    before = LastJob(node)
    ended: list[dict[str, Any] | None] = []

    def flood() -> None:
        sock = Raw(node)
        with contextlib.closing(sock):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(b'{"method": "SubmitJob", "args": [["')
                for _ in range(66):
                    sock.sendall(b"x" * (1 << 20))
                sock.sendall(b'"]]}' + protocol.EOM)
            ended.append(ReadAnswer(sock))

    threads = [threading.Thread(target=flood, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        AssertServed(node)
    for thread in threads:
        thread.join(30)
    # Whether the words still get through depends on how much was on its way.
    assert len(ended) == 3
    for answer in ended:
        assert answer is None or ("limit" in answer["result"] and not answer["success"])
    with node.Client() as client:
        statuses = client.QueryJobs(None, ["id", "status"])
    assert all(status == "success" for number, status in statuses if number > before)


def test_a_message_of_nearly_64_mib_is_read_and_refused_for_what_it_says(node: RealNode) -> None:
    comment = "x" * (60 << 20)
    sock = Raw(node)
    with contextlib.closing(sock):
        sock.settimeout(60)
        sock.sendall(protocol.EncodeRequest("SubmitJob", [[{**DELAY, "comment": comment}]]))
        answer = ReadAnswer(sock)
    assert answer is not None and answer["success"] is False
    text = str(answer["result"])
    assert len(text) < 2000
    AssertServed(node)


def test_who_says_nothing_and_who_does_not_listen_keep_nobody_waiting(node: RealNode) -> None:
    with node.Client() as client:
        ids = [job_id for _, job_id in client.SubmitManyJobs([[DELAY]] * 300)]
        for job_id in ids[-5:]:
            assert FollowJob(client, job_id)[0] == "success"
    silent = [Raw(node) for _ in range(300)]
    deaf = [Raw(node) for _ in range(30)]
    fields = ["id", "status", "ops", "opresult", "oplog", "received_ts"]
    request = protocol.EncodeRequest("QueryJobs", [None, fields])
    try:
        for sock in deaf:
            sock.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                for _ in range(20):
                    sock.sendall(request)
        for sock in silent[::2]:
            sock.sendall(b'{"method": "QueryClusterInfo", ')
        for _ in range(3):
            AssertServed(node)
        assert PssMiB(node) < 400
        # The one that begins to listen gets all it asked for, in order.
        deaf[0].settimeout(30)
        answer = ReadAnswer(deaf[0])
        assert answer is not None and len(answer["result"]) >= 300
    finally:
        for sock in silent + deaf:
            sock.close()
    AssertServed(node)


def test_who_waits_for_a_job_and_goes_away_leaves_nothing(node: RealNode) -> None:
    pid = node.Pid(MASTERD)
    with node.Client() as client:
        job_id = client.SubmitJob([{**DELAY, "duration": 2.0}])
        before = len(client.QueryClusterInfo())
        descriptors = len(_Descriptors(pid))
        for _ in range(200):
            sock = Raw(node)
            request = ["WaitForJobChange", [job_id, ["status"], ["running"], None, 60]]
            sock.sendall(protocol.EncodeRequest(*request))
            sock.close()
        assert FollowJob(client, job_id)[0] == "success"
        assert len(client.QueryClusterInfo()) == before
        deadline = time.monotonic() + 20
        while len(_Descriptors(pid)) > descriptors + 10:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _Descriptors(pid: int) -> list[str]:
    return os.listdir(f"/proc/{pid}/fd")
