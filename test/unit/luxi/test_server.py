"""A real server and its clients: good ones, silent ones, slow ones, greedy ones and mad ones."""

from __future__ import annotations

import os
import select
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.realcluster import WaitUntil

from ganeti import errors, runtime, serializer
from ganeti.luxi import client as luxi_client
from ganeti.luxi import protocol, server
from ganeti.luxi.pending import Completed, Pending

ETX = b"\x03"
REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


class Master:
    """Handlers that show every way to answer."""

    def __init__(self) -> None:
        self.pending: list[Pending] = []
        self.abandoned = threading.Event()
        self.gate = threading.Event()

    def Handle(self, method: str, args: list) -> object:
        if method == "QueryTags":
            return [["row", n] for n in range(60_000)] if args[0] == "large" else args
        if method == "QueryClusterInfo":
            return {"name": "cluster"}
        if method == "SubmitManyJobs":
            return [[True, n] for n, _ in enumerate(args[0])]
        if method == "WaitForJobChange":
            pending = Pending()
            pending.OnAbandon(self.abandoned.set)
            self.pending.append(pending)
            return pending
        if method == "ArchiveJob":
            raise errors.JobLost("Job lost", hint="look for it")
        if method == "QueryJobs":
            raise ZeroDivisionError("bug")
        if method == "QueryGroups":
            raise errors.ProgrammerError("used wrongly")
        if method == "CancelJob":
            return Completed([True, "done"])
        if method == "DeleteFilter":
            return object()  # cannot be written
        if method == "SetDrainFlag":
            self.gate.wait(30)
            return True
        raise server.Refused("not this one")


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def paths(tmp_path) -> list[str]:
    return [str(tmp_path / "m"), str(tmp_path / "q")]


@pytest.fixture
def serve(master, paths) -> Iterator[Callable[..., server.Server]]:
    started = []

    def start(**options) -> server.Server:
        instance = server.Server(paths, master.Handle, **options)
        instance.Start()
        started.append(instance)
        return instance

    yield start
    master.gate.set()
    for instance in started:
        instance.Shutdown(linger=0.2)


def Client(path: str, **options) -> luxi_client.Client:
    return luxi_client.Client(path, connect_timeout=2, retry_delays=(), **{"io_timeout": 10, **options})


def Raw(path: str) -> socket.socket:
    """A connection; while the server's queue of connections is full the kernel refuses at once, whatever the time-out."""
    deadline = time.monotonic() + 30
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(30)
        try:
            sock.connect(path)
        except BlockingIOError:
            sock.close()
            assert time.monotonic() < deadline, "the server accepts nobody"
            time.sleep(0.001)
        else:
            return sock


def ReadAnswer(sock: socket.socket) -> dict | None:
    """The next answer, or None if the server closed the connection instead."""
    data = b""
    while not data.endswith(ETX):
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return None
        data += part
    return serializer.Load(data[:-1])


def ReadEnd(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def Request(method: str, *args) -> bytes:
    return protocol.EncodeRequest(method, args)


def AssertServed(path: str) -> None:
    with Client(path) as good:
        assert good.QueryClusterInfo() == {"name": "cluster"}


@pytest.mark.req("D20-LUXI-01")
def test_both_sockets_serve_everything_and_replace_what_is_left(serve, paths):
    old = socket.socket(socket.AF_UNIX)
    old.bind(paths[0])  # a daemon that was killed leaves this
    old.close()
    before = os.umask(0o177)
    try:
        instance = serve()
    finally:
        os.umask(before)
    for path in paths:
        info = os.stat(path)
        assert stat.S_ISSOCK(info.st_mode)
        assert stat.S_IMODE(info.st_mode) == 0o660
        AssertServed(path)
    instance.Shutdown(linger=0)
    assert not any(os.path.exists(p) for p in paths)
    with pytest.raises(protocol.NoMasterError):
        Client(paths[0]).QueryClusterInfo()


@pytest.mark.req("D22-PRIV-04")
def test_the_sockets_belong_to_the_group_that_may_connect(serve, paths):
    """The RAPI user is in the group; nobody else gets in, and not for a moment before the owner is set."""
    groups = [group for group in os.getgroups() if group != os.getegid()]
    group = 12345 if os.geteuid() == 0 else (groups or [os.getegid()])[0]
    serve(owner=(-1, group))
    for path in paths:
        info = os.stat(path)
        assert (info.st_gid, stat.S_IMODE(info.st_mode)) == (group, 0o660)


def test_every_way_to_answer_reaches_the_client(serve, master, paths):
    serve()
    with Client(paths[0]) as client:
        assert client.CancelJob(1) == [True, "done"]
        with pytest.raises(errors.JobLost) as lost:
            client.ArchiveJob(1)
        assert lost.value.hint == "look for it"
        for broken in (
            lambda: client.QueryJobs(None, ["id"]),
            lambda: client.DeleteFilter("x"),
            lambda: client.QueryGroups([], ["name"]),
        ):
            with pytest.raises(protocol.InternalError, match="internal error"):
                broken()
        assert client.QueryClusterInfo() == {"name": "cluster"}  # the same connection goes on
        answer: list = []
        waiter = threading.Thread(
            daemon=True, target=lambda: answer.append(client.WaitForJobChangeOnce(1, ["status"], None, None))
        )
        waiter.start()
        while not master.pending:
            time.sleep(0.005)
        master.pending[0].Complete([["success"], []])
        assert not master.pending[0].Complete("late")
        waiter.join(10)
        assert answer == [[["success"], []]]
        with pytest.raises(protocol.RequestError, match="not this one"):
            client.SetWatcherPause(None)


BAD_THEN_CLOSED = [
    rb'{"method": "QueryTags", "args": ["node", "\udcfc"]}',
    b"",
    b"\n",
    b"{",
    b"\xff\xfe",
    b"7",
    b"[]",
    b"null",
    b'"x"',
    b"{}",
    b'{"method": "QueryClusterInfo"}',
    b'{"args": []}',
    b'{"method": null, "args": []}',
    b'{"method": {}, "args": []}',
    b'{"method": "__init__", "args": []}',
    b'{"method": "QueryClusterInfo", "args": {}}',
    b'{"method": "QueryClusterInfo", "args": null}',
    b'{"method": "QueryClusterInfo", "args": [1]}',
    b'{"method": "CancelJob", "args": ["no"]}',
    b'{"method": "CancelJob", "args": ["' + b"9" * 5000 + b'"]}',
    b'{"method": "QueryJobs", "args": [null, [' + b'"id",' * 1000 + b'"id"]]}',
    b"[" * 200_000,
    b'{"a":' * 50_000,
    b"9" * 10_000,
    b'{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "duration": 1e999}]]}',
    b'{"method": "SubmitManyJobs", "args": [[[{"OP_ID": "OP_TEST_DELAY", "duration": -1e999}]]]}',
    b'{"method": "ReplaceFilter", "args": [null, 0, [["opcode", ["<", "duration", 1e999]]], "PAUSE", []]}',
    b'{"method": "QueryClusterInfo", "args": [], "more": ["\\udc80"]}',
]


@pytest.mark.parametrize("bad", BAD_THEN_CLOSED, ids=lambda b: repr(b[:40]))
def test_what_is_no_request_gets_a_text_and_the_end_and_hurts_nobody(serve, paths, bad):
    serve()
    with Client(paths[0]) as good:
        good.QueryClusterInfo()
        sock = Raw(paths[0])
        sock.sendall(bad + ETX)
        answer = ReadAnswer(sock)
        assert answer is not None and answer["success"] is False
        assert isinstance(answer["result"], str) and answer["result"]
        assert ReadEnd(sock)
        sock.close()
        assert good.QueryClusterInfo() == {"name": "cluster"}


@given(st.lists(st.binary(max_size=200) | st.just(ETX) | st.just(Request("QueryClusterInfo")), max_size=20))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_stream_of_bytes_ends_in_answers_or_the_end(fuzzed, stream):
    sock = Raw(fuzzed)
    try:
        for part in stream:
            sock.sendall(part)
        sock.shutdown(socket.SHUT_WR)
        answers = b""
        while part := sock.recv(65536):
            answers += part
        for answer in map(serializer.Load, answers.split(ETX)[:-1]):
            assert answer["success"] is True or isinstance(answer["result"], (str, list))
    except (BrokenPipeError, ConnectionResetError):
        pass  # closed after the first bad message
    finally:
        sock.close()
    AssertServed(fuzzed)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory) -> Iterator[str]:
    path = str(tmp_path_factory.mktemp("f") / "s")
    instance = server.Server([path], Master().Handle)
    instance.Start()
    yield path
    instance.Shutdown(linger=0)


def test_several_requests_sent_at_once_are_answered_in_order_even_after_half_a_close(serve, paths):
    serve()
    sock = Raw(paths[0])
    sock.sendall(b"".join(Request("QueryTags", "n", str(n)) for n in range(50)))
    sock.shutdown(socket.SHUT_WR)
    stream = b""
    while part := sock.recv(65536):
        stream += part
    got = [serializer.Load(m)["result"] for m in stream.split(ETX)[:-1]]
    assert got == [["n", str(n)] for n in range(50)]


@pytest.mark.req("D22-MD-02", "D22-MD-04")
def test_the_silent_and_the_half_spoken_keep_nobody_waiting(serve, paths):
    serve(request_threads=2)
    socks = [Raw(paths[n % 2]) for n in range(300)]
    for sock in socks[:150]:
        sock.sendall(Request("QueryClusterInfo")[:-1])  # all but the end mark
    AssertServed(paths[0])
    for sock in socks[:150]:
        sock.sendall(ETX)
    for sock in socks[:150]:
        answer = ReadAnswer(sock)
        assert answer is not None and answer["success"]
    for sock in socks:
        sock.close()


@pytest.mark.req("D22-WAIT-02")
def test_more_waiting_clients_than_threads_leave_all_others_working(serve, master, paths):
    serve(request_threads=2)
    waiting = [Raw(paths[0]) for _ in range(50)]
    for sock in waiting:
        sock.sendall(Request("WaitForJobChange", 1, ["status"], None, None, 60))
    while len(master.pending) < 50:
        time.sleep(0.005)
    AssertServed(paths[0])
    for number, pending in enumerate(master.pending):
        pending.Complete([[number], []])
    assert sorted(ReadAnswer(s)["result"][0][0] for s in waiting) == list(range(50))
    for sock in waiting:
        sock.close()


@pytest.mark.req("D22-MD-06", "D22-MD-03")
def test_a_client_that_does_not_read_its_large_answer_delays_nobody(serve, paths):
    serve(request_threads=2)
    lazy = [Raw(paths[0]) for _ in range(6)]
    for sock in lazy:
        sock.sendall(Request("QueryTags", "large", "0"))
    for _ in range(20):
        AssertServed(paths[0])
    for sock in lazy[:2]:
        answer = ReadAnswer(sock)
        assert answer is not None and len(answer["result"]) == 60_000
    for sock in lazy:
        sock.close()


def test_who_stops_within_a_message_or_an_answer_is_dropped(serve, paths, monkeypatch):
    monkeypatch.setattr(server, "_TICK", 0.05)
    instance = serve(io_timeout=0.3)
    idle, half, deaf = Raw(paths[0]), Raw(paths[0]), Raw(paths[0])
    half.sendall(b'{"method"')
    deaf.sendall(Request("QueryTags", "large", "0"))
    assert ReadEnd(half)
    idle.sendall(Request("QueryClusterInfo"))  # idle longer than that is fine
    assert ReadAnswer(idle) is not None
    while instance.Statistics()["clients"] > 1:  # the deaf one has its answer still before it
        time.sleep(0.01)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        while deaf.recv(1 << 20):
            pass
        deaf.sendall(b"x")
    AssertServed(paths[0])


def test_the_subscription_ends_with_the_connection(serve, master, paths):
    serve()
    sock = Raw(paths[0])
    sock.sendall(Request("WaitForJobChange", 1, ["status"], None, None, 60))
    while not master.pending:
        time.sleep(0.005)
    sock.close()
    assert master.abandoned.wait(10)
    AssertServed(paths[0])


def test_when_there_are_too_many_the_longest_idle_goes(serve, paths):
    serve(max_clients=10)
    first = Raw(paths[0])
    others = [Raw(paths[0]) for _ in range(9)]
    for sock in others:
        sock.sendall(Request("QueryClusterInfo"))
        assert ReadAnswer(sock) is not None
    AssertServed(paths[0])
    assert ReadEnd(first)
    others[0].sendall(Request("QueryClusterInfo"))
    for sock in others:
        sock.close()


def test_when_all_wait_for_answers_a_new_one_is_refused_not_stuck(serve, master, paths):
    serve(max_clients=3, request_threads=4)
    busy = [Raw(paths[0]) for _ in range(3)]
    for number, sock in enumerate(busy, 1):
        sock.sendall(Request("WaitForJobChange", 1, ["status"], None, None, 60))
        # One after the other, so that the first answer is that of the first.
        WaitUntil(lambda number=number: len(master.pending) >= number, "the master has the call")
    assert ReadEnd(Raw(paths[0]))
    master.pending[0].Complete(None)
    assert ReadAnswer(busy[0]) is not None
    AssertServed(paths[0])


def test_too_large_a_message_is_refused_and_what_is_buffered_has_a_limit(serve, paths, monkeypatch):
    limit = 1 << 20
    monkeypatch.setattr(protocol.Framer.__init__, "__defaults__", (limit,))
    serve(max_buffered=4 * limit)
    sock = Raw(paths[0])
    answer = None
    try:
        for _ in range(limit // 1024 + 2):
            sock.sendall(b"x" * 1024)
    except (BrokenPipeError, ConnectionResetError):
        pass
    answer = ReadAnswer(sock)
    assert answer is not None and "limit" in answer["result"]
    greedy = [Raw(paths[0]) for _ in range(8)]
    for each in greedy:
        try:
            each.sendall(b"x" * (limit - 10))
        except (BrokenPipeError, ConnectionResetError):
            pass
    AssertServed(paths[0])
    WaitUntil(lambda: len(select.select(greedy, [], [], 0)[0]) >= 4, "some are dropped")
    gone = 0
    for each in select.select(greedy, [], [], 0)[0]:
        try:
            gone += each.recv(1) == b""
        except ConnectionResetError:
            gone += 1
    assert gone >= 4
    AssertServed(paths[0])


@pytest.mark.req("D22-MD-07")
def test_a_large_message_is_worked_on_beside_the_small_ones(serve, paths):
    serve(request_threads=1)
    sock = Raw(paths[0])
    sock.settimeout(60)
    jobs = [[{"OP_ID": "OP_TEST_DELAY", "duration": n, "comment": "c" * 60}] for n in range(100_000)]
    sender = threading.Thread(daemon=True, target=sock.sendall, args=(Request("SubmitManyJobs", jobs),))
    sender.start()
    slowest, began = 0.0, time.monotonic()
    with Client(paths[0]) as good:
        while sender.is_alive():
            start = time.monotonic()
            good.QueryClusterInfo()
            slowest = max(slowest, time.monotonic() - start)
    answer = ReadAnswer(sock)
    assert answer is not None and len(answer["result"]) == 100_000
    # A message that keeps the others waiting does it for most of its own time.
    assert slowest < max(2.0, (time.monotonic() - began) / 3)


def test_a_shutdown_lets_the_answers_out(serve, master, paths):
    instance = serve()
    slow, idle = Raw(paths[0]), Raw(paths[0])
    slow.sendall(Request("SetDrainFlag", True))
    idle.sendall(Request("QueryClusterInfo"))
    assert ReadAnswer(idle) is not None
    stopper = threading.Thread(target=instance.Shutdown, args=(10,))
    stopper.start()
    assert ReadEnd(idle)
    master.gate.set()
    answer = ReadAnswer(slow)
    assert answer is not None and answer["result"] is True
    stopper.join(10)
    assert not stopper.is_alive()


@pytest.mark.req("D20-LUXI-08")
def test_a_dead_master_is_told_in_bounded_time(tmp_path, monkeypatch):
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(5)
    start = time.monotonic()
    with pytest.raises(protocol.TimeoutError):
        Client(path, io_timeout=0.3).QueryClusterInfo()
    with pytest.raises(protocol.NoMasterError):
        Client(str(tmp_path / "none")).QueryClusterInfo()
    assert time.monotonic() - start < 20
    listener.close()


def test_the_client_connects_anew_and_sends_again(tmp_path):
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(5)

    def answer_second() -> None:
        listener.accept()[0].close()
        sock = listener.accept()[0]
        while not sock.recv(65536).endswith(ETX):
            pass
        sock.sendall(b'{"success": true, ')
        sock.sendall(b'"result": 17}\x03')
        sock.recv(1)

    thread = threading.Thread(target=answer_second, daemon=True)
    thread.start()
    with luxi_client.Client(path, connect_timeout=2, io_timeout=10, retry_delays=(0, 0)) as client:
        assert client.SubmitJob([{"OP_ID": "OP_TEST_DELAY"}]) == 17
    thread.join(5)
    listener.close()


def test_a_socket_that_may_not_be_used_is_told(tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs another user")
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o660)
    listener.listen(5)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            Client(path).QueryClusterInfo()
        except protocol.PermissionError:
            code = 0
        except protocol.NoMasterError:
            code = 0 if not os.access(str(tmp_path), os.X_OK) else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    listener.close()


def test_the_socket_can_be_chosen(monkeypatch):
    from ganeti import pathutils

    for value, expected in [
        ("", pathutils.QUERY_SOCKET),
        ("query", pathutils.QUERY_SOCKET),
        ("master", pathutils.MASTER_SOCKET),
        ("/some/where", "/some/where"),
    ]:
        monkeypatch.setenv("FORCE_LUXI_SOCKET", value)
        assert luxi_client.SocketPath() == expected


@pytest.mark.req("D20-LUXI-06", "D20-CALL-02")
def test_users_never_see_that_nothing_changed():
    class Scripted(luxi_client.Client):
        answers = ["nochange", [["queued"], []], [["running"], [[1, [0, 0], "message", "hi"]]]]

        def Call(self, method, args=()):
            assert args[4] <= 1
            if self.answers[0] != "nochange":
                time.sleep(1.1)  # unchanged values at the time-out, as 3.1 does it
            return self.answers.pop(0)

    client = Scripted("/nowhere", io_timeout=3)
    assert client.WaitForJobChange(1, ["status"], ["queued"], None)[0] == ["running"]
    client.answers = [None]
    with pytest.raises(errors.JobLost):
        client.WaitForJobChange(1, ["status"], ["queued"], None)


def test_the_client_is_light():
    code = (
        "import sys; from ganeti.luxi import client; client.Client('/x');"
        "print(*[m for m in ('ssl', 'logging.handlers', 'asyncio', 'subprocess', 'sqlite3', 'pycurl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout.strip() == ""


FEW_DESCRIPTORS = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
from ganeti.luxi import server
from ganeti.luxi.pending import Pending
made = server.Server([sys.argv[1]], lambda method, args: Pending() if method == "WaitForJobChange" else 7)
made.Start()
print("ready", flush=True)
sys.stdin.readline()
before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
time.sleep(2)
print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def short_of_descriptors(tmp_path) -> Iterator[tuple[str, subprocess.Popen]]:
    """A server of 30 descriptors in a process of its own, and its socket."""
    path = str(tmp_path / "s")
    process = subprocess.Popen(
        [sys.executable, "-c", FEW_DESCRIPTORS, path],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield path, process
    finally:
        process.kill()
        process.communicate()


def test_without_descriptors_the_server_rests_and_then_goes_on(short_of_descriptors):
    path, process = short_of_descriptors
    busy = []
    for _ in range(40):
        # Each asks at once: the server drops a connection that has asked nothing to make room for the next.
        busy.append(Raw(path))
        busy[-1].sendall(Request("WaitForJobChange", 1, ["status"], None, None, 60))
    process.stdin.write("\n")
    process.stdin.flush()
    assert float(process.stdout.readline()) < 0.2  # seconds of CPU in two of the clock: no loop at full speed
    for sock in busy:
        sock.close()
    assert luxi_client.Client(path, connect_timeout=40, io_timeout=40).QueryClusterInfo() == 7


def test_the_last_descriptor_costs_no_client_its_connection(short_of_descriptors):
    """Only who waits is a reason to drop one that is idle."""
    path, process = short_of_descriptors
    socks: list[socket.socket] = []
    for _ in range(30 - len(os.listdir(f"/proc/{process.pid}/fd"))):
        socks.append(Raw(path))
        for sock in socks:
            sock.sendall(Request("QueryClusterInfo"))
            assert ReadAnswer(sock) is not None
    assert len(os.listdir(f"/proc/{process.pid}/fd")) == 30
    assert Client(path).QueryClusterInfo() == 7
    assert ReadEnd(socks[0]), "the one that was idle for the longest time made room"
    for sock in socks:
        sock.close()


@pytest.mark.req("D22-MD-05")
def test_requests_are_worked_on_by_the_request_threads(tmp_path):
    names = set()
    instance = server.Server([str(tmp_path / "s")], lambda *_: names.add(runtime.ThreadName()), request_threads=3)
    instance.Start()
    for _ in range(20):
        Client(str(tmp_path / "s")).QueryClusterInfo()
    instance.Shutdown(linger=0)
    assert names <= {"Luxi1", "Luxi2", "Luxi3"} and names


@pytest.mark.req("D22-MD-07")
def test_messages_are_parsed_by_the_request_threads_only(serve, master, paths):
    """While all of them are busy even a message that is not JSON waits."""
    instance = serve(request_threads=1)
    slow, bad = Raw(paths[0]), Raw(paths[0])
    slow.sendall(Request("SetDrainFlag", True))
    bad.sendall(b"{" + ETX)
    while instance.Statistics()["waiting"] < 1:
        time.sleep(0.005)
    with pytest.raises(BlockingIOError):
        bad.setblocking(False)
        bad.recv(1)
    bad.settimeout(30)
    master.gate.set()
    answer = ReadAnswer(bad)
    assert answer is not None and "not valid JSON" in answer["result"]
    assert ReadAnswer(slow) is not None
    for sock in (slow, bad):
        sock.close()


TOO_COSTLY = {
    "lists": b"[" + b"[]," * 1_000_000 + b"[]]",
    "nested": b"[" * 600_000,
    "objects": b"[" + b"{}," * 500_000 + b"{}]",
    "numbers": b"[" + b"1," * 2_500_000 + b"1]",
    "a rare character in a long text": b'["' + "\U0001f600".encode() + b"x" * (52 << 20) + b'"]',
    "escapes": b'["' + b"\\n" * (17 << 20) + b'"]',
    "the same as an escape": b'["\\ud83d\\ude00' + b"x" * (52 << 20) + b'"]',
}


@pytest.mark.parametrize("kind", TOO_COSTLY)
def test_what_would_take_much_memory_is_rejected_by_counting(serve, paths, kind):
    serve()
    with Raw(paths[0]) as sock:
        used = time.process_time()
        sock.sendall(b'{"method": "SubmitManyJobs", "args": [' + TOO_COSTLY[kind] + b"]}" + ETX)
        answer = ReadAnswer(sock)
        assert answer is not None and "send it in parts" in answer["result"]
        assert time.process_time() - used < 5
    AssertServed(paths[0])


def test_long_numbers_are_rejected_in_no_time(serve, paths):
    """Reading a number takes time with the square of its length: 60 MiB of them took half a minute."""
    serve()
    with Raw(paths[0]) as sock:
        used = time.process_time()
        sock.sendall(b'{"method": "SubmitManyJobs", "args": [[' + b"1" * 4000 + b"," + b"2" * 400 + b"]]}" + ETX)
        answer = ReadAnswer(sock)
        assert answer is not None and "number of 4000 digits, 400 are allowed" in answer["result"]
        assert time.process_time() - used < 1
    with Client(paths[0]) as client:
        assert client.Call("QueryTags", ["n", "1"]) == ["n", "1"]
    assert serializer.LoadProper("[" + "2" * serializer.MAX_DIGITS + "]") == [int("2" * 400)]


TOO_LONG = {
    "string of": b'["' + b"x" * (40 << 20) + b'"]',
    "key of an object of": b'[1, {"a": {"' + b"x" * (40 << 20) + b'": 1}}]',
}


@pytest.mark.parametrize("what", TOO_LONG)
def test_texts_that_no_call_takes_to_pieces_are_rejected(serve, paths, what):
    """A key of 60 MiB was put together 64 KiB at a time, each time from the start: half a minute."""
    serve()
    with Raw(paths[0]) as sock:
        used = time.process_time()
        sock.sendall(b'{"method": "SubmitManyJobs", "args": [' + TOO_LONG[what] + b"]}" + ETX)
        answer = ReadAnswer(sock)
        assert answer is not None and what in answer["result"] and "are allowed: xxx" in answer["result"]
        assert time.process_time() - used < 2
    with Client(paths[0]) as client:
        assert client.Call("QueryTags", ["n", "x" * (2 << 20)]) == ["n", "x" * (2 << 20)]
    AssertServed(paths[0])


def test_a_small_message_of_many_values_is_parsed_beside_the_others(serve, paths):
    """Half a megabyte that becomes 60 MB is not parsed in one call."""
    serve(request_threads=1)
    with Client(paths[0]) as good:
        assert len(good.Call("SubmitManyJobs", [[[]] * 150_000])) == 150_000
        assert good.QueryClusterInfo() == {"name": "cluster"}


def test_the_memory_of_messages_that_wait_for_the_worker_program_is_limited(serve, master, paths, monkeypatch):
    """Their clients can be dropped, and then the messages are gone, too."""
    monkeypatch.setattr(server, "LARGE_MESSAGE", 1000)
    instance = serve(max_buffered=50_000)
    large = b'{"method": "SetDrainFlag", "args": [true], "x": "' + b"x" * 20_000 + b'"}' + ETX
    socks = [Raw(paths[0]) for _ in range(5)]
    for sock in socks:
        sock.sendall(large)
    # Nobody gets an answer yet: what can be read is the end of a connection.
    WaitUntil(lambda: len(select.select(socks, [], [], 0)[0]) == 3, "three are dropped")
    assert instance.Statistics()["clients"] == 2 and instance.Statistics()["buffered"] <= 50_000
    master.gate.set()
    assert sum(ReadAnswer(sock) is not None for sock in socks) == 2
    while instance.Statistics()["buffered"]:
        time.sleep(0.005)
    for sock in socks:
        sock.close()


def test_what_is_buffered_is_counted_exactly(serve, master, paths):
    instance = serve()
    half, waits, deaf, twice = (Raw(paths[0]) for _ in range(4))
    half.sendall(b"x" * 1000)
    request = Request("WaitForJobChange", 1, ["status"], None, None, 60)
    waits.sendall(request)
    while not master.pending or instance.Statistics()["buffered"] != 1000 + len(request) - 1:
        time.sleep(0.005)
    twice.sendall(Request("QueryTags", "n", "1") * 2)
    answers = b""
    while answers.count(ETX) < 2:
        answers += twice.recv(65536)
    deaf.sendall(Request("QueryTags", "large", "0"))
    while instance.Statistics()["buffered"] < 100_000:
        time.sleep(0.005)
    assert ReadAnswer(deaf) is not None
    master.pending[0].Complete(None)
    assert ReadAnswer(waits) is not None
    while instance.Statistics()["buffered"] != 1000:
        time.sleep(0.005)
    for sock in (half, waits, deaf, twice):
        sock.close()
    while instance.Statistics()["buffered"]:
        time.sleep(0.005)
