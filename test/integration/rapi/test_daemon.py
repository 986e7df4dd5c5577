"""ganeti-rapi as a real process: files it follows, the master that comes and goes, what it never shows."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
from typing import Any

import pytest
from support import allocator
from support.rapi import WRITER, Basic
from support.rapiserver import ReadAnswer
from support.realcluster import RAPI_USERS, FollowJob, RealCluster, RealNode, WaitGone, WaitUntil

from ganeti import constants, x509

RAPI, MASTERD = "ganeti-rapi", "ganeti-masterd"
MARK = "marked-secret-4711"


@pytest.fixture(scope="module")
def cluster():
    with RealCluster(2) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        yield cluster


@pytest.fixture
def node(cluster):
    """The master node with its REST daemon."""
    node = cluster[0]
    node.StartRapi()
    yield node
    node.Stop(RAPI)


def Connect(node: RealNode, port: int = constants.DEFAULT_RAPI_PORT) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((node.address, port), 60))


def Ask(
    node: RealNode, verb: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Status and JSON value of one request on a connection of its own."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{verb} {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(data)}"]
    lines += ["Content-Type: application/json"] if data else []
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    with Connect(node) as sock:
        sock.sendall("\r\n".join([*lines, "", ""]).encode() + data)
        status, _, answer = ReadAnswer(sock)
    return status, json.loads(answer)


def Status(node: RealNode, *login: str) -> int:
    return Ask(node, "GET", "/version", headers=Basic(*login) if login else None)[0]


def Certificate(node: RealNode) -> bytes:
    with Connect(node) as sock:
        return sock.getpeercert(binary_form=True) or b""


# Starting


@pytest.mark.req("D20-RAPI-02", "D20-MD-01")
def test_only_the_master_has_one(cluster):
    done = cluster[1].Start(RAPI, "-b", cluster[1].address, check=False)
    assert done.returncode == constants.EXIT_NOTMASTER
    assert f"is not the master: {cluster[0].name} is" in done.stderr
    assert not cluster[1].Pid(RAPI)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--max-clients", "0"], "--max-clients must be from 1"),
        (["-C", "/nonexistent.pem"], "No such file"),
        (["-b", "192.0.2.77"], "cannot listen"),
        (["-b", "127.0.0.1", "-i", "lo"], "exclude each other"),
        (["word"], "Usage"),
    ],
)
def test_starts_that_fail_say_why(cluster, options, text):
    done = cluster[0].Start(RAPI, *options, check=False)
    assert done.returncode != 0
    assert text in done.stderr and "Traceback" not in done.stderr
    assert not cluster[0].Pid(RAPI)


def test_what_a_new_cluster_shows(node):
    assert Ask(node, "GET", "/version") == (200, 2)
    status, info = Ask(node, "GET", "/2/info")
    assert (status, info["master"]) == (200, node.name)
    status, job = Ask(node, "PUT", "/2/tags?tag=from-rapi", headers=WRITER)
    assert status == 200 and isinstance(job, int)


def test_everybody_must_log_in(cluster):
    node = cluster[0]
    node.StartRapi("--require-authentication")
    try:
        assert Status(node) == 401, "which the watcher takes for alive"
        assert Status(node, "plain", "secret-of-plain") == 200
    finally:
        node.Stop(RAPI)


def test_without_tls_and_at_another_port(cluster):
    node = cluster[0]
    port = allocator.Lease().Port()
    node.StartRapi("--no-ssl", "-p", str(port))
    try:
        done = subprocess.run(
            ["curl", "-s", f"http://{node.address}:{port}/version"], capture_output=True, text=True, timeout=60
        )
        assert done.stdout == "2\n"
    finally:
        node.Stop(RAPI)


def test_a_chain_of_certificates(cluster, tmp_path):
    node = cluster[0]
    root_key, root = x509.MakeSelfSigned("root.example.com")
    leaf = x509.MakeClientPem(root_key + root, "rapi.example.com")
    (tmp_path / "leaf.pem").write_text(leaf)
    (tmp_path / "chain.pem").write_text(root)
    file = str(tmp_path / "leaf.pem")
    node.StartRapi("-C", file, "-K", file, "--ssl-chain", str(tmp_path / "chain.pem"))
    try:
        shown = subprocess.run(
            ["openssl", "s_client", "-showcerts", "-connect", f"{node.address}:5080"],
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert shown.stdout.count("BEGIN CERTIFICATE") == 2
    finally:
        node.Stop(RAPI)


# Files


def test_the_users_file_is_followed(node):
    users = "/var/lib/ganeti/rapi/users"

    def becomes(status: int, *login: str) -> None:
        WaitUntil(lambda: Status(node, *login) == status, f"the login of {login[0]} becomes {status}")

    assert Status(node, "writer", "secret-of-writer") == 200
    node.Write(users, f"other {MARK} write\n", 0o640)
    becomes(200, "other", MARK)
    assert Status(node, "writer", "secret-of-writer") == 401
    node.Write(users + ".new", RAPI_USERS, 0o640)
    os.rename(node.Path(users + ".new"), node.Path(users))
    becomes(200, "writer", "secret-of-writer")
    os.unlink(node.Path(users))
    becomes(401, "writer", "secret-of-writer")
    assert "users does not exist: nobody can log in" in node.Log(RAPI)
    with open(node.Path(users), "wb") as stream:
        stream.write(b"writer secret-of-writer write\n\xff\xff\n")
    WaitUntil(lambda: "it is not UTF-8 at byte 30; nobody can log in" in node.Log(RAPI), "the reason is logged")
    assert Status(node, "writer", "secret-of-writer") == 401
    assert Status(node) == 200, "reading is open, as before"
    node.Write(users, RAPI_USERS, 0o640)
    becomes(200, "writer", "secret-of-writer")


def test_the_certificate_is_followed(node):
    path = "/var/lib/ganeti/rapi.pem"
    before, old = node.Read(path), Certificate(node)
    new = x509.MakeRapiPem()
    with Connect(node) as kept:
        node.Write(path, new, 0o440)
        WaitUntil(lambda: Certificate(node) != old, "new connections get the new certificate")
        renewed = Certificate(node)
        node.Write(path, "this is not a certificate\n", 0o440)
        WaitUntil(lambda: "certificate is not read again" in node.Log(RAPI), "the reason is logged")
        assert Certificate(node) == renewed, "one that can be used is kept"
        kept.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert ReadAnswer(kept)[0] == 200, "connections stay as they are"
    node.Write(path, before, 0o440)
    WaitUntil(lambda: Certificate(node) == old, "the old one is back")


@pytest.mark.req("D21-REDIST-02")
def test_users_and_certificate_are_where_the_next_master_may_be(node, cluster):
    status, job = Ask(node, "PUT", "/2/redistribute-config", headers=WRITER)
    assert status == 200
    with node.Client() as client:
        assert FollowJob(client, job)[0] == "success"
    for path in ("/var/lib/ganeti/rapi/users", "/var/lib/ganeti/rapi.pem"):
        assert cluster[1].Read(path) == node.Read(path)
        assert not os.stat(cluster[1].Path(path)).st_mode & 0o007


def test_a_job_is_bound_to_what_was_looked_at(node):
    """Two jobs with the same ETag wait for a third: the first one changes the group, the other finds that out."""
    with node.Client() as client:
        name, uuid, serial = client.QueryGroups([], ["name", "uuid", "serial_no"])[0]
        blocker, later = _Blocker(node, client)
        tag = f'"{uuid}-{serial}"'
        path, headers = f"/2/groups/{name}/modify", {**WRITER, "If-Match": tag}
        sent = [
            Ask(node, "PUT", path, {"alloc_policy": policy, **later}, headers)
            for policy in ("last_resort", "unallocable")
        ]
        assert [status for status, _ in sent] == [200, 200], "nothing has changed yet"
        client.CancelJob(blocker, True)
        ends = [FollowJob(client, job)[0] for _, job in sent]
        assert sorted(ends) == ["error", "success"]
        failed = sent[ends.index("error")][1]
        _AssertOvertaken(client, failed)
    assert Ask(node, "PUT", path, {}, headers)[0] == 412


def test_a_change_of_the_cluster_is_bound_to_its_version(node):
    with node.Client() as client:
        uuid, serial = client.QueryConfigValues(["cluster_uuid", "cluster_serial"])
        headers = {**WRITER, "If-Match": f'"{uuid}-{serial}"'}
        blocker, later = _Blocker(node, client)
        status, job = Ask(node, "PUT", "/2/modify", {"candidate_pool_size": 9, **later}, headers)
        assert status == 200, "nothing has changed yet"
        assert FollowJob(client, Ask(node, "PUT", "/2/tags?tag=overtakes", None, WRITER)[1])[0] == "success"
        client.CancelJob(blocker, True)
        assert FollowJob(client, job)[0] == "error"
        _AssertOvertaken(client, job)
    assert Ask(node, "PUT", "/2/modify", {}, headers)[0] == 412


def _Blocker(node, client):
    """A running job, and the body of one that begins after it."""
    op = {"OP_ID": "OP_TEST_DELAY", "duration": 600.0, "on_nodes": [node.name], "on_master": False, "reason": []}
    blocker = client.SubmitJob([op])
    WaitUntil(lambda: client.QueryJobs([blocker], ["status"]) == [["running"]], "the others wait for it")
    return blocker, {"depends": [[blocker, ["success", "error", "canceled"]]]}


def _AssertOvertaken(client, job):
    (result,) = client.QueryJobs([job], ["opresult"])[0][0]
    assert result[0] == "OpPrereqError" and "was changed since it was looked at" in result[1][0]


# The master


def test_clients_wait_while_the_master_restarts(node):
    """They wait for ten seconds.  A start may take longer on a busy machine: here it is over, but for the socket."""
    node.Stop(MASTERD)
    node.StartMaster()
    path = node.Path("/var/run/ganeti/socket/ganeti-query")
    os.rename(path, path + ".away")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Connect(node)) for _ in range(5)]
        for client in clients:
            client.sendall(b"GET /2/info HTTP/1.1\r\nHost: x\r\n\r\n")
        # By now they are waiting.
        assert Ask(node, "GET", "/version") == (200, 2)
        os.rename(path + ".away", path)
        assert [ReadAnswer(client)[0] for client in clients] == [200] * 5


def test_a_master_that_is_away_is_said(node):
    node.Kill(MASTERD)
    try:
        status, answer = Ask(node, "GET", "/2/info")
        assert (status, answer["code"]) == (502, 502)
        assert "does not listen on this node" in answer["message"]
        assert Ask(node, "GET", "/version") == (200, 2), "what needs no master is there"
    finally:
        node.StartMaster()
    assert Ask(node, "GET", "/2/info")[0] == 200


@pytest.mark.limit(120)
def test_the_old_master_names_the_new_one(cluster):
    """Clients that wait while the cluster gets another master hear where it is."""
    old, new = cluster.nodes
    old.StartRapi()
    old.Stop(MASTERD)
    answers: list[tuple[int, Any]] = []
    client = threading.Thread(target=lambda: answers.append(Ask(old, "PUT", "/2/tags?tag=x", headers=WRITER)))
    client.start()
    new.StartMaster("--take-over")
    try:
        client.join(60)
        WaitUntil(
            lambda: Ask(old, "GET", "/2/info")[1]["message"].startswith("This node is not the master"), "it knows"
        )
        status, answer = Ask(old, "GET", "/2/info")
        assert status == 502 and f"{new.name} is" in answer["message"]
        assert answers[0][0] == 502
        new.StartRapi()
        assert Ask(new, "GET", "/2/info")[1]["master"] == new.name
        new.Stop(RAPI)
    finally:
        old.Stop(RAPI)
        new.Stop(MASTERD)
        old.StartMaster("--take-over")


# What is written


@pytest.mark.req("D20-LOG-03")
def test_lines_of_the_log(node):
    Ask(node, "GET", "/2/nodes?bulk=%0Aforged&y=1")
    Ask(node, "GET", "/nothing")
    with Connect(node) as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        assert ReadAnswer(sock)[0] == 400
    lines = node.Log(RAPI).splitlines()
    assert any(
        line.endswith("GET /2/nodes?bulk=%0Aforged&y=... HTTP/1.1 400") and " INFO 127." in line for line in lines
    )
    assert any(line.endswith("GET /nothing HTTP/1.1 404") for line in lines)
    assert any(line.endswith(" None 400") for line in lines)


@pytest.mark.req("D20-LOG-04")
def test_the_access_log_is_a_file_of_its_own(node):
    path = "/var/log/ganeti/rapi-access.log"
    Ask(node, "GET", "/2/nodes?bulk=1", headers={**WRITER, "User-Agent": "tool"})
    WaitUntil(lambda: '"tool"\n' in node.Read(path), "the line is there")
    assert re.search(
        r'^127\.\S+ - writer \[[^]]+\] "GET /2/nodes\?bulk=1 HTTP/1\.1" 200 [0-9]+ "-" "tool"$',
        node.Read(path),
        re.MULTILINE,
    )
    assert os.stat(node.Path(path)).st_mode & 0o777 == 0o600
    os.rename(node.Path(path), node.Path(path) + ".1")
    node.Signal(RAPI, signal.SIGHUP)
    Ask(node, "GET", "/version", headers={"User-Agent": "after"})
    WaitUntil(lambda: os.path.exists(node.Path(path)) and '"after"\n' in node.Read(path), "the new file is written")
    assert '"after"' not in node.Read(path + ".1")


def test_secrets_stay_where_they_are(node):
    """Passwords are neither in the log nor in process lists nor in answers."""
    node.Write("/var/lib/ganeti/rapi/users", f"{RAPI_USERS}marked {MARK} write\n", 0o640)
    WaitUntil(lambda: Status(node, "marked", MARK) == 200, "the user is known")
    answers = [
        Ask(node, "GET", "/version", headers=Basic("marked", MARK + "x")),
        Ask(node, "GET", "/version", headers=Basic(MARK, "x")),
        Ask(node, "GET", "/version", headers={"Authorization": f"Bearer {MARK}"}),
        Ask(node, "GET", "/nothing", headers=Basic("marked", MARK)),
        Ask(node, "PUT", "/2/instances/x/modify", {"osparams_secret": {"key": MARK}}, Basic("marked", MARK)),
        Ask(node, "POST", "/2/instances", {"osparams_private": MARK, "__version__": 1}, Basic("marked", MARK)),
    ]
    for start in (f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization : {MARK}", f"GET /{MARK}\x01 HTTP/1.1"):
        with Connect(node) as sock:
            sock.sendall(f"{start}\r\n\r\n".encode())
            _, _, body = ReadAnswer(sock)
            answers.append((0, body.decode()))
    assert MARK not in str(answers)
    log = node.Log(RAPI) + node.Read("/var/log/ganeti/rapi-access.log")
    assert MARK not in log
    with open(f"/proc/{node.Pid(RAPI)}/cmdline", encoding="utf-8") as stream:
        assert MARK not in stream.read()


def test_it_ends_when_told_and_can_start_again(node):
    with Connect(node) as idle:
        pid = node.Signal(RAPI, signal.SIGTERM)
        # Its file, by which others find it, is gone a moment before.
        WaitGone(pid)
        assert idle.recv(10) == b""
    node.StartRapi()
    assert node.Pid(RAPI) not in (0, pid)
    assert Ask(node, "GET", "/version") == (200, 2)
