"""Events, tokens, metrics and audit lines of the real daemons."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support.rapi import Basic
from support.rapihttp import Rapi
from support.realcluster import RealCluster, RealNode, WaitUntil
from support.stories import STARTER

from ganeti import constants, metrics

OP = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_master": False, "on_nodes": [], "reason": []}
WAIT = 40


class Stream:
    """A stream of events, read as it comes."""

    def __init__(self, node: RealNode, query: str = "", last: str | None = None, headers: dict[str, str] | None = None):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        port = constants.DEFAULT_RAPI_PORT
        self._connection = http.client.HTTPSConnection(node.address, port, timeout=WAIT, context=context)
        resume = {} if last is None else {"Last-Event-ID": last}
        self._connection.request("GET", f"/2/events{query}", headers={**(headers or {}), **resume})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        assert self._answer.headers["Content-Type"].startswith("text/event-stream")
        # The first block comes at once: from then on nothing is missed.
        self.last = self._Block().get("id", last)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()

    def _Block(self) -> dict[str, str]:
        """Read up to the next blank line; nothing at the end."""
        fields = {}
        while line := self._answer.readline():
            text = line.decode().rstrip("\n")
            if not text:
                return fields
            name, _, value = text.partition(":")
            fields[name] = value.strip()
        raise EOFError

    def Next(self) -> tuple[str, Any]:
        """Return kind and data of the next event."""
        while True:
            fields = self._Block()
            if "data" in fields:
                self.last = fields.get("id", self.last)
                return fields["event"], json.loads(fields["data"])

    def Until(self, kind: str, **wanted: Any) -> list[tuple[str, Any]]:
        """Return the events up to the first one with these values."""
        found = []
        while True:
            found.append(self.Next())
            if found[-1][0] == kind and wanted.items() <= found[-1][1].items():
                return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2) as made:
        made.StartWithRapi()
        yield made


def _Gnt(cluster: RealCluster, line: str) -> subprocess.CompletedProcess[str]:
    return cluster[0].Python(STARTER, *line.split())


def _Submit(cluster: RealCluster, **more: Any) -> int:
    with cluster[0].Client() as client:
        return int(client.SubmitJob([{**OP, **more}]))


def test_events_tell_the_life_of_a_job_and_changes_of_the_configuration(cluster: RealCluster) -> None:
    with Stream(cluster[0]) as stream, Stream(cluster[0], "?kind=cluster") as other:
        job = _Submit(cluster)
        found = stream.Until("job", job=job, status="success")
        states = [data["status"] for kind, data in found if kind == "job"]
        assert states[0] == "queued" and states == sorted(states, key=["queued", "waiting", "running", "success"].index)
        assert _Gnt(cluster, "gnt-cluster add-tags blue").returncode == 0
        [*_, (_, data)] = stream.Until("cluster")
        assert other.Next() == ("cluster", data)
        with Rapi(cluster[0]) as rapi:
            assert data["uuid"] == rapi.Get("/2/info")["uuid"]


def test_a_stream_resumes_where_it_broke_also_at_another_daemon(cluster: RealCluster) -> None:
    with Stream(cluster[0], "?kind=job") as stream:
        first = _Submit(cluster)
        stream.Until("job", job=first, status="success")
        last = stream.last
    second = _Submit(cluster)
    with Stream(cluster[0], "?kind=job", last=last) as stream:
        expected = stream.Until("job", job=second, status="success")
        assert {data["job"] for _, data in expected} == {second}
    cluster[0].Stop("ganeti-rapi")
    cluster[0].StartRapi()
    with Stream(cluster[0], "?kind=job", last=last) as stream:
        assert stream.Until("job", job=second, status="success") == expected


@pytest.mark.limit(120)
def test_a_new_master_daemon_is_announced_and_followed(cluster: RealCluster) -> None:
    with Stream(cluster[0]) as stream:
        job = _Submit(cluster)
        stream.Until("job", job=job, status="success")
        before = stream.last
        cluster[0].Kill("ganeti-masterd")
        cluster[0].StartMaster()
        stream.Until("missed")
        assert stream.last is not None and before is not None
        assert stream.last.rpartition("-")[0] != before.rpartition("-")[0]
        job = _Submit(cluster)
        stream.Until("job", job=job, status="success")
    with Stream(cluster[0], last=before) as stream:
        assert stream.Next()[0] == "missed"


def test_the_story_of_a_token(cluster: RealCluster) -> None:
    made = _Gnt(cluster, "gnt-cluster rapi-token --role operate --expires 1h add robot")
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    assert re.fullmatch(r"robot\.[\w-]{43}", token)
    headers = {"Authorization": f"Bearer {token}"}
    assert "robot operate -" in _Gnt(cluster, "gnt-cluster rapi-token list").stdout
    with Rapi(cluster[0], headers) as rapi, Stream(cluster[0], headers=headers) as stream:
        assert rapi.Ask("PUT", "/2/tags?tag=x").status == 403
        reply = rapi.Ask("PUT", "/2/instances/nobody/startup")
        assert reply.status == 200
        job = rapi.Get(f"/2/jobs/{reply.value}")
        assert ["gnt:rapi:user", "token:robot"] in [entry[:2] for entry in job["ops"][0]["reason"]]
        assert _Gnt(cluster, "gnt-cluster rapi-token remove robot").returncode == 0
        assert rapi.Ask("GET", "/2/info").status == 401
        with pytest.raises(EOFError):
            stream.Until("never")
    secret = token.partition(".")[2]
    with cluster[0].Client() as client:
        history = client.QueryJobs(None, ["ops", "summary"])
    assert [summary for _, summary in history if "TOKEN" in summary[0]] == [
        ["CLUSTER_RAPI_TOKEN_ADD(robot)"],
        ["CLUSTER_RAPI_TOKEN_REMOVE(robot)"],
    ]
    for name in ("ganeti-rapi", "ganeti-masterd"):
        assert secret not in cluster[0].Log(name)
    assert secret not in str(history) + cluster[0].Read("/var/lib/ganeti/config.data")
    [line] = [line for line in cluster[0].Log("ganeti-rapi").splitlines() if "audit {" in line and "nobody" in line]
    noted = json.loads(line[line.index("{") :])
    assert (noted["who"], noted["status"], noted["job"]) == ("token:robot", 200, reply.value)


def _Families(rapi: Rapi) -> dict[str, Any]:
    text = rapi.Ask("GET", "/metrics").body.decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def _With(name: str, families: dict[str, Any]) -> dict[str, Any] | None:
    return families if name in families else None


def test_metrics_are_scraped_while_jobs_run(cluster: RealCluster) -> None:
    running = _Submit(cluster, duration=600.0, on_nodes=[cluster[1].name])
    waiting = [_Submit(cluster, depends=[[running, []]]) for _ in range(3)]
    with cluster[0].Client() as client, Rapi(cluster[0], Basic("reader", "secret-of-reader")) as rapi:
        status = [""]
        while status != ["running"]:
            status, _ = client.WaitForJobChangeOnce(running, ["status"], status, None, 5)
            assert status[0] not in constants.JOBS_FINALIZED
        # What nodes report is left out as long as they are being asked.
        families = WaitUntil(lambda: _With("ganeti_node_memory_bytes", _Families(rapi)), "the nodes have reported")
        client.CancelJob(running, True)
        for job in waiting:
            client.CancelJob(job)

    def value(name: str, **labels: str) -> float:
        [found] = [s.value for s in families[name].samples if s.labels == labels and not s.name.endswith("_created")]
        return float(found)

    assert set(families) <= {metric.full_name for metric in metrics.METRICS.values()}
    assert value("ganeti_jobs", status="running") == 1
    assert value("ganeti_jobs_pending") == 3 and value("ganeti_jobs_pending_oldest_age_seconds") > 0
    assert value("ganeti_nodes", role="master") == 1
    assert value("ganeti_candidates_silent") == 0
    assert value("ganeti_node_memory_bytes", node=cluster[0].name, kind="total") > 2**28
    counts = {s.name: s.value for s in families["ganeti_commit_duration_seconds"].samples}
    assert counts["ganeti_commit_duration_seconds_count"] > 5
    called = {s.labels["procedure"] for s in families["ganeti_rpc_duration_seconds"].samples}
    assert "store_append" in called
