"""hbal balances a real cluster over the remote interface, with mirrors that are fake and guests that are down."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from support.mirroredlvm import LvmCluster, LvmNode
from support.realcluster import RAPI_USERS, WaitUntil
from support.stories import STARTER
from support.virtualnode import TOP

HBAL = os.path.join(TOP, "scripts", "hbal")
# Free memory is this machine's own and changes between two looks; only moves that gain more than that count.
LEAST_GAIN = ["--min-gain=0.3", "--min-gain-limit=100"]
EVERY_JOB = [["jobid", [">", "id", 0]]]


class _Node(LvmNode):
    """A node whose disks are large enough for shares of them to count."""

    disk = 65536


class _Cluster(LvmCluster):
    node_class = _Node


@pytest.fixture
def cluster() -> Iterator[LvmCluster]:
    """Three instances on two of four nodes, and an administrator's files."""
    with _Cluster(3, nodes=4) as made:
        made[0].StartRapi(users=RAPI_USERS)
        made[0].Write("/login", "writer secret-of-writer\n", 0o600)
        yield made


def _Words(cluster: LvmCluster, *words: str, login: str = "/login") -> list[str]:
    node = cluster[0]
    known = ["--cacert", node.Path("/var/lib/ganeti/rapi.pem"), "--credentials", node.Path(login)]
    return [HBAL, "-m", node.address, *known, *LEAST_GAIN, *words]


def _Jobs(cluster: LvmCluster) -> list[tuple[str, list[str]]]:
    """Status and opcodes of each job that hbal has submitted, in order."""
    with cluster[0].Client() as client:
        rows = client.QueryJobs(None, ["id", "status", "ops"])
    return [
        (status, [op["OP_ID"] for op in ops])
        for _, status, ops in sorted(rows)
        if str(ops[0].get("comment", "")).startswith("rebalancing via hbal ")
    ]


@pytest.mark.slow
def test_a_cluster_out_of_balance_is_balanced_by_jobs_of_the_remote_interface(cluster: LvmCluster) -> None:
    token = cluster[0].Python(STARTER, "gnt-cluster", "rapi-token", "--role", "read", "add", "looker").stdout.split()[0]
    cluster.more_secrets.append(token)
    cluster[0].Write("/token", token, 0o600)
    done = cluster[0].Run(_Words(cluster, "-X", login="/token"), timeout=200)
    assert done.returncode == 1, done
    assert "403 This needs a token with the role operate" in done.stderr and done.stderr.endswith(
        "Error: Aborting.\n"
    ), done
    assert _Jobs(cluster) == []

    by_luxi = cluster[0].Run([HBAL, f"-L{cluster[0].Path('/var/run/ganeti/socket/ganeti-query')}", "-C"], timeout=200)
    assert {"replace-disks", "failover"} <= {word for chosen in _JobSets(by_luxi.stdout) for word in chosen}, by_luxi
    commands = _InterruptedOne(cluster)
    assert commands
    done = cluster[0].Run(_Words(cluster, "-X", "-C"), timeout=400)
    assert done.returncode == 0, done
    commands += [word for chosen in _JobSets(done.stdout) for word in chosen]
    names = {"replace-disks": "OP_INSTANCE_REPLACE_DISKS", "failover": "OP_INSTANCE_MIGRATE"}
    assert _Jobs(cluster) == [("success", [names[word]]) for word in commands]
    done = cluster[0].Run(_Words(cluster, "-C"), timeout=200)
    assert "gnt-instance" not in done.stdout, done
    with cluster[0].Client() as client:
        primaries = client.QueryInstances(cluster.names, ["pnode", "status"])
    assert len({node for node, _ in primaries}) == 3 and {status for _, status in primaries} == {"ADMIN_down"}


def _JobSets(printed: str) -> list[list[str]]:
    """Return the verbs of the gnt-instance commands that ``-C`` has printed, in sets of what may be done at once."""
    sets: list[list[str]] = []
    for line in map(str.strip, printed.splitlines()):
        if line.startswith("echo jobset"):
            sets.append([])
        elif line.startswith("gnt-instance "):
            sets[-1].append(line.split()[1])
    return sets


def _InterruptedOne(cluster: LvmCluster) -> list[str]:
    """Begin to balance; while the first set waits, the REST daemon goes away and comes back, and somebody sends SIGINT.

    Return the verbs of the commands whose jobs have run.
    """
    node = cluster[0]
    with node.Client() as client:
        rule = client.ReplaceFilter(None, 0, EVERY_JOB, "PAUSE", [])
        errors = node.Path("/errors")
        with (
            open(errors, "w", encoding="utf-8") as stream,
            subprocess.Popen(
                _Words(cluster, "-X", "-C"), env=node.Environment(), stdout=subprocess.PIPE, stderr=stream, text=True
            ) as running,
        ):
            assert running.stdout is not None
            planned = ""
            for line in running.stdout:
                planned += line
                if line.startswith("Got job IDs "):
                    break
            node.Kill("ganeti-rapi")
            WaitUntil(lambda: "; trying again until " in node.Read("/errors"), "hbal notices", 60)
            running.send_signal(signal.SIGINT)
            node.StartRapi(users=None)
            client.DeleteFilter(rule)
            out, _ = running.communicate(timeout=200)
    said = node.Read("/errors")
    assert running.returncode == 0, (out, said)
    first, *others = _JobSets(planned)
    assert others, "there must be sets to leave out"
    assert out.splitlines()[-1] == f"Stopped as asked: 1 job sets were submitted, {len(others)} were not", (out, said)
    assert {status for status, _ in _Jobs(cluster)} == {"success"}
    return first
