"""Marked secrets through every way in, with all daemons at their most talkative: they show up nowhere.

The places where everybody may look are the logs, files, the process list, answers and messages.  At the end of this cluster, as of
every other one, its logs and files are read for them (``support.secrets``).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.realcluster import RealCluster
from support.secrets import MARK
from support.stories import STARTER

from ganeti import errors
from ganeti.rapi.client import Error, GanetiRapiClient

# Others may run this test on the same machine.
MINE = f"{MARK}{os.getpid()}-"
PASSWORD, PRIVATE, SECRET, CLUSTER = (MINE + word for word in ("password", "private", "secret", "cluster"))
NAME = "web1.example.com"
_DEBUG = "--debug"


class ProcessWatch(threading.Thread):
    """Reads the machine's process list again and again; ``seen``: what has one of our secrets among its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.looks = 0
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(0.005):
            self.looks += 1
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if MINE.encode() in line:
                        self.seen.add(line.replace(b"\0", b" ").decode("utf-8", "replace"))

    def __enter__(self) -> ProcessWatch:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self.join()


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2) as made:
        folder = Path(made.MakeOs("mini"))
        (folder / "parameters.list").write_text("key a word\nother another word\n")
        for node in made.nodes:
            node.Start("ganeti-noded", "-b", node.address, "--no-mlock", _DEBUG)
            node.StartConfd(_DEBUG)
        made[0].StartMaster(_DEBUG)
        made[0].StartRapi(_DEBUG, users=f"marked {PASSWORD} write\n")
        yield made


def Connect(cluster: RealCluster, **login: Any) -> GanetiRapiClient:
    return GanetiRapiClient(cluster[0].address, **(login or {"username": "marked", "password": PASSWORD}))


def Run(cluster: RealCluster, *argv: str, stdin: str | None = None) -> str:
    """What a command prints, whether it succeeds or not."""
    done = cluster[0].Run([sys.executable, "-c", STARTER, *argv], stdin=stdin, timeout=50)
    return done.stdout + done.stderr


def Message(call: Callable[[], Any]) -> str:
    with pytest.raises((Error, errors.GenericError)) as caught:
        call()
    return str(caught.value)


def Create(client: GanetiRapiClient, node: str, name: str = NAME, **more: Any) -> int:
    values = {"os": "mini+default", "pnode": node, "hypervisor": "fake", "ignore_ipolicy": True, "start": False, **more}
    private = {"osparams_private": {"key": PRIVATE}, "osparams_secret": {"other": SECRET}}
    return client.CreateInstance("create", name, "file", [{"size": 16}], [], **{**private, **values})


def Rejected(cluster: RealCluster, client: GanetiRapiClient) -> list[str]:
    """The messages of requests that are wrong and have secrets in them."""
    node = cluster[0].name
    with cluster[0].Client() as luxi:
        submit = luxi.SubmitJob
        bad = {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": NAME, "osparams_secret": SECRET}
        texts = [
            Message(lambda: submit([bad])),
            Message(lambda: luxi.Call("SubmitJob", [[{**bad, "OP_ID": "OP_NONE"}]])),
        ]
    return [
        *texts,
        Message(lambda: Create(client, node, osparams_secret=SECRET)),
        Message(lambda: Create(client, node, osparams_private=[[PRIVATE]])),
        Message(lambda: Create(client, node, osparams_secret={"other": [SECRET]}, osparams=5)),
        Message(lambda: client.ModifyInstance(NAME, osparams_private={"key": PRIVATE}, nonsense=1)),
        Message(lambda: client.ModifyCluster(osparams_private_cluster={"mini": CLUSTER})),
        Message(lambda: Connect(cluster, username="marked", password=PASSWORD + "x").GetInfo()),
        Message(lambda: Connect(cluster, username=PASSWORD, password="x").GetInfo()),
        Message(lambda: Connect(cluster, token=SECRET).GetInfo()),
    ]


def Work(cluster: RealCluster, client: GanetiRapiClient) -> list[str]:
    """Jobs with secrets that succeed, fail, wait while the master restarts, and are canceled; what is shown of them."""
    node = cluster[0].name
    wait = client.WaitForJobCompletion
    assert wait(client.ModifyCluster(osparams_private_cluster={"mini": {"key": CLUSTER}}), 0.1)
    assert wait(Create(client, node), 0.1)
    assert wait(client.ModifyInstance(NAME, osparams_private={"key": PRIVATE + "2"}), 0.1)
    assert not wait(Create(client, "nobody.example.com", "web2.example.com"), 0.1)
    assert not wait(Create(client, node, "web3.example.com", osparams_secret={"nonsense": SECRET}), 0.1)
    client.AddFilter(1, [["opcode", ["=", "comment", "hold me"]]], "PAUSE")
    held = Create(client, node, "web4.example.com", comment="hold me")
    shown = [str(client.GetJobs(bulk=True)), Run(cluster, "gnt-job", "info")]
    cluster[0].Stop("ganeti-masterd")
    cluster[0].StartMaster(_DEBUG)
    shown += [str(client.GetJobStatus(held)), str(client.CancelJob(held))]
    return [*shown, str(client.GetJobs(bulk=True)), str(client.GetInstances(bulk=True))]


def Commands(cluster: RealCluster) -> list[str]:
    """What commands show, and one that gets a secret by a file."""
    path = cluster[0].Write("/root/secret", f"{SECRET}\n", 0o600)
    reinstalled = Run(
        cluster, "gnt-instance", "reinstall", "-f", "--debug", f"--os-parameters-secret=other=@{path}", NAME
    )
    assert "Running the instance OS create scripts" in reinstalled, reinstalled
    token = Run(cluster, "gnt-cluster", "rapi-token", "--role", "admin", "add", "script").split()[0]
    secret = token.partition(".")[2]
    cluster.more_secrets.append(secret)
    assert Connect(cluster, token=token).GetInfo()["name"]
    texts = [
        reinstalled,
        Run(cluster, "gnt-instance", "info", NAME),
        Run(cluster, "gnt-instance", "list", "--output", "json"),
        Run(cluster, "gnt-cluster", "info"),
        Run(cluster, "gnt-cluster", "rapi-token", "list"),
        Run(cluster, "gnt-job", "info"),
        Message(lambda: Connect(cluster, token=token[:-1] + "-").GetInfo()),
    ]
    assert secret[:-1] not in "".join(texts)
    return texts


@pytest.mark.limit(240)
def test_marked_secrets_show_up_nowhere(cluster: RealCluster) -> None:
    client = Connect(cluster)
    with ProcessWatch() as watch:
        texts = [*Rejected(cluster, client), *Work(cluster, client), *Commands(cluster)]
    assert watch.looks > 100 and watch.seen == set()
    assert [text for text in texts if MARK in text] == []
    # They were there: what was kept is in the configuration.
    config = cluster[0].Read("/var/lib/ganeti/config.data")
    assert PRIVATE in config and CLUSTER in config and SECRET not in config
    for daemon in ("ganeti-masterd", "ganeti-noded", "ganeti-rapi"):
        assert "DEBUG" in cluster[0].Log(daemon), daemon
