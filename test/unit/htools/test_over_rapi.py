"""hbal carries out its moves over the remote interface: what is sent, in which order, and what is said when that ends."""

from __future__ import annotations

import base64
import io
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import allocator, htoolscases
from support.recorder import Recorder, Reply, ServerPem
from support.virtualnode import TOP

from ganeti import x509
from ganeti.rapi.client import GanetiRapiClient
from ganeti.tools.htools import execution, main, remote
from ganeti.tools.htools.output import Failed, Streams

POLICY = {
    "std": dict.fromkeys(("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use"), 1),
    "minmax": [], "disk-templates": ["drbd"], "vcpu-ratio": 4.0, "spindle-ratio": 32.0,
}  # fmt: skip


def _Node(name: str, guests: int) -> dict[str, Any]:
    return {
        "name": name, "mtotal": 32768, "mnode": 1024, "mfree": 31744 - 1024 * guests, "dtotal": 500000, "dfree": 400000,
        "ctotal": 8, "cnos": 1, "offline": False, "drained": False, "vm_capable": True, "group.uuid": "g", "tags": [],
        "ndparams": {"exclusive_storage": False, "spindle_count": 4}, "sptotal": 0, "spfree": 0,
    }  # fmt: skip


def _Guest(number: int) -> dict[str, Any]:
    return {
        "name": f"inst{number}", "disk_usage": 1024, "disk.sizes": [1024], "disk.spindles": [None], "oper_ram": 1024,
        "beparams": {"vcpus": 1, "auto_balance": True, "spindle_use": 1, "maxmem": 1024}, "pnode": "node1",
        "snodes": ["node2"], "status": "running", "tags": [], "disk_template": "drbd",
    }  # fmt: skip


class Server(Recorder):
    """A cluster whose guests are all on the first node; jobs succeed unless ``status`` says something else."""

    def __init__(self, address: str, port: int, folder: str):
        super().__init__(address, port, folder)
        group = {"uuid": "g", "name": "default", "alloc_policy": "preferred", "ipolicy": POLICY, "tags": []}
        self.replies |= {
            "/2/groups": Reply([group]),
            "/2/nodes": Reply([_Node("node1", 4), *(_Node(f"node{n}", 0) for n in range(2, 5))]),
            "/2/instances": Reply([_Guest(number) for number in range(4)]),
            "/2/info": Reply({"master": "node1", "tags": [], "ipolicy": POLICY, "default_hypervisor": "fake"}),
        }
        self.status: dict[int, Any] = {}
        """Of jobs: a status, or a list of replies."""
        self.submitted = 0
        self.at: dict[int, Callable[[], Any]] = {}
        """What happens in place of the n-th submission; it returns a reply."""

    def ReplyTo(self, path: str) -> Any:
        if path.startswith("/2/jobs/"):
            number = int(path.rpartition("/")[2])
            wanted = self.status.get(number, "success")
            reply = wanted.pop(0) if isinstance(wanted, list) else wanted
            return Reply({"status": reply}) if isinstance(reply, str) else reply
        if path.count("/") == 4:
            self.submitted += 1
            special = self.at.get(self.submitted)
            return Reply(1000 + self.submitted) if special is None else special()
        return super().ReplyTo(path)

    def Jobs(self) -> list[tuple[str, str, dict[str, Any]]]:
        """What was submitted: method, path and body."""
        return [(r.method, r.path, r.value) for r in self.Take() if r.path.count("/") == 4]


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[Server]:
    lease = allocator.Lease()
    with Server(lease.Address(), lease.Port(), str(tmp_path)) as made:
        yield made
    lease.Release()


def _Run(server: Server, *words: str, login: str = "writer:secret@") -> tuple[int, list[str], str]:
    out, err = io.StringIO(), io.StringIO()
    address = f"https://{login}{server.address}:{server.port}"
    streams = Streams(out, err, lambda path, text: None)
    code = main.Run("hbal", ["-m", address, "--static-kvm-node-memory=0", *words], streams)
    return code, out.getvalue().splitlines(), err.getvalue()


def _Steps(jobs: list[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """Each job as "INSTANCE WORD TARGET after JOB"."""
    lines = []
    for _, path, body in jobs:
        _, _, _, name, word = path.split("/")
        to = f" {body[key]}" if (key := "remote_node") in body else ""
        after = "".join(f" after {number}" for number, states in body.get("depends", ()) if states == ["success"])
        lines.append(f"{name} {word}{to}{after}")
    return lines


FIRST = ["inst0 migrate", "inst0 replace-disks node3 after 1001", "inst0 migrate after 1002"]


def test_each_step_of_a_move_is_a_job_that_follows_the_one_before(server: Server) -> None:
    """The solution is that of ``hbal -C``: four sets, the moves of each as LUXI has them in one job."""
    code, out, err = _Run(server, "-X", "--reason", "Friday & night", "--priority=low", "-q")
    assert (code, err) == (0, "")
    assert out[-4:] == [
        "Got job IDs 1001,1002,1003", "Got job IDs 1004,1005", "Got job IDs 1006,1007", "Got job IDs 1008",
    ]  # fmt: skip
    requests = server.Take()
    jobs = [(r.method, r.path, r.value) for r in requests if r.path.count("/") == 4]
    assert _Steps(jobs) == [
        *FIRST,
        "inst1 replace-disks node4", "inst1 migrate after 1004",
        "inst2 migrate", "inst2 replace-disks node3 after 1006",
        "inst0 replace-disks node4",
    ]  # fmt: skip
    migrate, replace = jobs[0], jobs[1]
    assert (migrate[0], replace[0]) == ("PUT", "POST")
    comment = replace[2].pop("comment")
    assert comment.startswith("rebalancing via hbal ")
    assert migrate[2] == {
        "allow_failover": True, "allow_runtime_changes": False, "cleanup": False, "comment": comment,
        "ignore_hvversions": True, "ignore_ipolicy": False, "priority": 10,
    }  # fmt: skip
    assert replace[2] == {
        "depends": [[1001, ["success"]]], "disks": [], "early_release": False, "ignore_ipolicy": False,
        "mode": "replace_new_secondary", "priority": 10, "remote_node": "node3",
    }  # fmt: skip
    assert all(r.query == [("reason", "Friday & night")] for r in requests if r.path.count("/") == 4)
    login = "Basic " + base64.b64encode(b"writer:secret").decode()
    assert {r.headers["authorization"] for r in requests} == {login}
    # Nothing of a set is submitted before all jobs of the one before have ended.
    looked = [r.path for r in requests[4:]]
    assert looked.index("/2/jobs/1003") < looked.index("/2/instances/inst1/replace-disks")


def test_a_job_that_fails_ends_the_run(server: Server) -> None:
    server.status = {1001: ["running", "error"], 1002: "canceled", 1003: "canceled"}
    code, _, err = _Run(server, "-X", "-q")
    assert (code, err) == (
        1,
        "Not all jobs completed successfully: job 1001: error, job 1002: canceled, job 1003: canceled\nError: Aborting.\n",
    )
    assert _Steps(server.Jobs()) == FIRST


def _Send(number: int, answer: Any) -> Callable[[], Any]:
    def act() -> Any:
        os.kill(os.getpid(), number)
        return answer

    return act


def test_an_interrupt_lets_the_set_end_and_says_what_is_left(server: Server) -> None:
    server.at[1] = _Send(signal.SIGINT, Reply(1001))
    code, out, err = _Run(server, "-X", "-q")
    assert (code, err) == (0, "")
    assert out[-2:] == ["Got job IDs 1001,1002,1003", "Stopped as asked: 1 job sets were submitted, 3 were not"]
    assert _Steps(server.Jobs()) == FIRST


def test_a_termination_cuts_no_move_in_two(server: Server) -> None:
    server.at[1] = _Send(signal.SIGTERM, Reply(1001))
    code, _, err = _Run(server, "-X", "-q")
    assert (code, err) == (2, "Ended at once; jobs that were submitted go on, see 'gnt-job list'\n")
    assert _Steps(server.Jobs()) == FIRST


def test_whoever_may_not_is_told_at_the_first_step(server: Server) -> None:
    refusal = {"code": 403, "message": "Forbidden", "explain": "The token 'looker' has the role read"}
    server.at[1] = lambda: Reply(refusal, 403)
    code, out, err = _Run(server, "-X", "-q")
    assert (code, "Got job IDs" in out[-1]) == (1, False)
    assert err == (
        "Not all jobs completed successfully: inst0: migrate: 403 Forbidden: The token 'looker' has the role read\n"
        "Error: Aborting.\n"
    )
    assert _Steps(server.Jobs()) == ["inst0 migrate"]


def _Break() -> Any:
    raise ConnectionResetError


@pytest.mark.parametrize(
    "answer", [_Break, lambda: Reply(data=b"<html>Bad Gateway</html>", status=502), lambda: Reply()]
)
def test_a_submission_without_an_answer_is_not_sent_again_and_is_said(server: Server, answer: Any) -> None:
    server.at[2] = answer
    code, out, err = _Run(server, "-X", "-q")
    assert (code, out[-1]) == (1, "Got job IDs 1001")
    assert err.startswith(
        "Not all jobs completed successfully: inst0: replace-disks (it would have followed job 1001): "
    )
    assert err.endswith("; it may have been submitted, see 'gnt-job list'\nError: Aborting.\n")
    assert _Steps(server.Jobs()) == FIRST[:2]


def test_what_would_have_come_after_a_break_is_named(server: Server) -> None:
    """Three moves at once: the first is rejected by itself, at the second the server goes away."""
    server.at = {1: lambda: Reply({"code": 404, "message": "Not Found", "explain": "no inst0"}, 404), 2: _Break}
    queue, _ = _Queue(server)
    jobs = [[{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": f"inst{number}"}] for number in range(4)]
    ids, refused = queue.Submit(jobs)
    assert ids == []
    assert refused[0] == "inst0: failover: 404 Not Found: no inst0"
    assert refused[1].startswith("inst1: failover: Request to ")
    assert refused[2:] == ["inst2: not submitted", "inst3: not submitted"]
    assert [path for _, path, _ in server.Jobs()] == ["/2/instances/inst0/failover", "/2/instances/inst1/failover"]


def _Queue(server: Server, patience: float = 30) -> tuple[remote.RapiQueue, io.StringIO]:
    err = io.StringIO()
    client = GanetiRapiClient(server.address, server.port, username="writer", password="secret")
    return remote.RapiQueue(client, "why", Streams(io.StringIO(), err, lambda path, text: None), patience), err


def test_a_server_that_comes_back_is_waited_for(server: Server) -> None:
    away = Reply({"code": 502, "message": "Bad Gateway", "explain": "no master daemon"}, 502)
    server.status[1001] = [away, Reply(data=b"<html>", status=503), "running", "success"]
    code, out, err = _Run(server, "-X", "-q")
    assert (code, len(server.Jobs()), out[-1]) == (0, 8, "Got job IDs 1008")
    [line] = err.splitlines()
    assert line.startswith("502 Bad Gateway: no master daemon; trying again until ")
    assert line.endswith(" (submitted jobs go on)")


def test_a_server_that_stays_away_is_given_up(server: Server) -> None:
    server.status[1001] = [Reply({"code": 502, "message": "Bad Gateway", "explain": "gone"}, 502)] * 9
    queue, _ = _Queue(server, patience=0.5)
    streams = Streams(io.StringIO(), io.StringIO(), lambda path, text: None)
    sets = [[[{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": f"inst{number}"}]] for number in range(3)]
    with pytest.raises(Failed) as caught:
        execution.RunSets(execution.Executor(queue, streams), sets, lambda job: job, streams)
    assert str(caught.value) == (
        "Job 1001 cannot be looked at: 502 Bad Gateway: gone; jobs that were submitted go on, see 'gnt-job list';"
        " 2 job sets were not submitted"
    )
    assert len(server.Jobs()) == 1


def test_a_job_that_is_archived_or_hidden_is_no_success(server: Server) -> None:
    queue, _ = _Queue(server)
    server.status = {7: Reply({}, 404), 8: Reply([1])}
    assert queue.States([7]) == [(7, None)]
    with pytest.raises(execution.QueueFailed, match="Job 8 cannot be looked at: the answer has no status"):
        queue.States([8])


# --- who asks, and whom -----------------------------------------------------------------------------------------------


def _Write(folder: pathlib.Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_token_is_sent_to_a_server_whose_certificate_is_known(server: Server, tmp_path: pathlib.Path) -> None:
    """Its name is another one than the address, as that of each new cluster."""
    token = _Write(tmp_path, "token", "abc.def\n")
    certificate = _Write(tmp_path, "crt", x509.CertificateOnly(ServerPem()))
    code, _, err = _Run(server, "-X", "-q", f"--credentials={token}", f"--cacert={certificate}", login="")
    assert (code, err) == (0, "")
    assert {r.headers["authorization"] for r in server.Take()} == {"Bearer abc.def"}


@pytest.mark.parametrize("content", ["jack secret\n", "abc.def"])
def test_credentials_are_not_sent_to_strangers(server: Server, tmp_path: pathlib.Path, content: str) -> None:
    given = f"--credentials={_Write(tmp_path, 'login', content)}"
    code, _, err = _Run(server, "-X", given, login="")
    assert code == 1 and "are not sent to a server that is not known: give its certificate with --cacert" in err
    other = _Write(tmp_path, "crt", x509.MakeSelfSigned()[1])
    code, _, err = _Run(server, "-X", given, f"--cacert={other}", login="")
    assert code == 1 and "Cannot read groups: " in err and "certificate" in err
    assert server.Take() == []


def test_an_authority_vouches_for_one_name_only(server: Server, tmp_path: pathlib.Path) -> None:
    """The name of a certificate that no cluster made for itself must be that of the address."""
    authority = x509.MakeSelfSigned("authority.example.com")[1]
    both = _Write(tmp_path, "crt", authority + x509.CertificateOnly(ServerPem()))
    code, _, err = _Run(server, f"--cacert={both}")
    assert code == 1 and "Cannot read groups: " in err and "does not match target hostname" in err
    assert server.Take() == []


@pytest.mark.parametrize(
    ("content", "what"),
    [("", "expected 'USER PASSWORD', or a token"), ("a b c", "expected 'USER PASSWORD'"), (None, "No such file")],
)
def test_files_that_say_nothing_are_named(server: Server, tmp_path: pathlib.Path, content: Any, what: str) -> None:
    path = str(tmp_path / "login") if content is None else _Write(tmp_path, "login", content)
    certificate = _Write(tmp_path, "crt", x509.CertificateOnly(ServerPem()))
    code, _, err = _Run(server, f"--credentials={path}", f"--cacert={certificate}")
    assert code == 1 and f"aborting: {path}: {what}" in err
    code, _, err = _Run(server, f"--cacert={_Write(tmp_path, 'bad', 'nothing')}")
    assert code == 1 and f"aborting: {tmp_path}/bad: " in err


def test_jobs_go_nowhere_but_to_a_server_with_tls(tmp_path: pathlib.Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    address = f"file://{htoolscases.CASES}/05-rapi-files/rapi"
    code = main.Run("hbal", ["-m", address, "-X", "-e", "-1"], Streams(out, err, lambda path, text: None))
    assert code == 1
    assert (
        err.getvalue().splitlines()[-1].startswith("Error: hbal: jobs are submitted over https:// only; give -m HOST")
    )


def test_nothing_else_loads_curl() -> None:
    """The programs start in a tenth of a second, of which curl would take a part each time."""
    code = "import sys, ganeti.tools.htools.hbal; print('pycurl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "False\n"
