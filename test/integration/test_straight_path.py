"""From LUXI through the master daemon to real node daemons and back; crashes, stops, a newer master."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.realcluster import FollowJob, InterruptDelay, RealCluster, RealNode, WaitGone, WaitUntil

from ganeti import errors, serializer
from ganeti.luxi import protocol

MASTERD = "ganeti-masterd"


def Delay(
    duration: float = 0.0, nodes: list[str] | None = None, on_master: bool = False, **more: Any
) -> dict[str, Any]:
    return {
        "OP_ID": "OP_TEST_DELAY",
        "duration": duration,
        "on_nodes": nodes or [],
        "on_master": on_master,
        "reason": [],
        **more,
    }


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with RealCluster(3) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[RealCluster]:
    with RealCluster(3) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def Statuses(client: Any, ids: list[int]) -> list[str]:
    return [row[0] for row in client.QueryJobs(ids, ["status"])]


def JobFile(node: RealNode, job_id: int) -> str | None:
    try:
        return node.Read(f"/var/lib/ganeti/queue/job-{job_id}")
    except OSError:
        return None


@pytest.mark.req("D20-CORE-02", "D20-CORE-03")
def test_a_delay_on_every_node_and_back(shared: RealCluster) -> None:
    names = [node.name for node in shared.nodes]
    with shared[0].Client("ganeti-master") as client:
        job_id = client.SubmitJob([Delay(0.01, names, repeat=2), Delay(0.0, on_master=True)])
    with shared[0].Client("ganeti-query") as client:  # the submitter is gone, another follows
        status, log = FollowJob(client, job_id)
        assert status == "success"
        assert [entry[3] for entry in log] == [
            " - INFO: Test delay iteration 0/1",
            " - INFO: Test delay iteration 1/1",
        ]
        [[result, summary, opstatus]] = client.QueryJobs([job_id], ["opresult", "summary", "opstatus"])
        assert result == [None, None] and opstatus == ["success", "success"]
        assert summary == ["TEST_DELAY(10000000 ns)", "TEST_DELAY(0 ns)"]
        answer = client.Query("job", ["id", "status", "nonsense"], ["==", "id", job_id])
        assert answer["data"] == [[[0, job_id], [0, "success"], [1, None]]]
        failed = client.SubmitJob([Delay(0.0, ["no-such-node"])])
        assert FollowJob(client, failed)[0] == "error"
        assert client.QueryJobs([failed], ["opresult"])[0][0][0][0] == "OpPrereqError"


def test_exports_are_listed_and_removed(shared: RealCluster) -> None:
    for node in shared.nodes[1:]:
        node.Write("/srv/ganeti/export/gone.example.com/config.ini", "[export]\nversion = 0\n", 0o600)
    names = [node.name for node in shared.nodes]
    with shared[0].Client() as client:
        assert client.QueryExports([]) == [[names[1], "gone.example.com"], [names[2], "gone.example.com"]]
        removal = {"OP_ID": "OP_BACKUP_REMOVE", "instance_name": "gone.example.com", "reason": []}
        job_id = client.SubmitJob([removal])
        status, log = FollowJob(client, job_id)
        assert (status, [entry[3] for entry in log]) == (
            "success",
            [f"Removed export gone.example.com from node {name}" for name in names[1:]],
        )
        assert client.QueryJobs([job_id], ["summary", "opresult"]) == [[["BACKUP_REMOVE(gone.example.com)"], [None]]]
        assert client.QueryExports([]) == []
        assert FollowJob(client, client.SubmitJob([removal]))[0] == "error"


def test_the_small_queries(shared: RealCluster) -> None:
    with shared[0].Client() as client:
        info = client.QueryClusterInfo()
        assert info["name"] == "cluster.example.com" and info["master"] == shared[0].name
        values = client.QueryConfigValues(["cluster_name", "master_node", "drain_flag", "watcher_pause", "nonsense"])
        assert values == ["cluster.example.com", shared[0].name, False, None, None]
        nodes = client.QueryNodes([], ["name", "role", "offline"])
        assert nodes == [[shared[0].name, "M", False], [shared[1].name, "C", False], [shared[2].name, "C", False]]
        assert client.QueryGroups([], ["name", "node_cnt"])[0][1] == 3
        assert client.QueryInstances([], ["name"]) == client.QueryNetworks([], ["name"]) == []
        live = client.Query("node", ["name", "mtotal"], None)["data"]
        assert all(row[1][0] == 0 and row[1][1] > 0 for row in live)
        assert {f["name"] for f in client.QueryFields("job")["fields"]} >= {"id", "status", "oplog"}
        assert client.QueryTags("cluster", "") == sorted(shared.config.cluster.tags)
        assert client.QueryTags("node", "node2") == sorted(shared.config.nodes[shared[1].uuid].tags)
        for bad, code in [
            (lambda: client.QueryTags("job", "x"), errors.ECODE_INVAL),
            (lambda: client.QueryTags("node", "none"), errors.ECODE_NOENT),
            (lambda: client.Query("nonsense", ["x"], None), errors.ECODE_INVAL),
            (lambda: client.Call("QueryNodes", [[], ["name"], True]), errors.ECODE_INVAL),
            (lambda: client.QueryNodes([], ["nam"]), errors.ECODE_INVAL),
        ]:
            with pytest.raises(errors.OpPrereqError) as caught:
                bad()
            assert caught.value.args[1] == code
        with pytest.raises(errors.GenericError, match="need not be picked up"):
            client.Call("PickupJob", [5])


def test_the_watcher_pause_reaches_every_node(shared: RealCluster) -> None:
    with shared[0].Client() as client:
        until = time.time() + 1000
        assert client.SetWatcherPause(until) == until
        assert client.QueryConfigValues(["watcher_pause"]) == [int(until)]
        for node in shared.nodes:
            assert float(node.Read("/var/lib/ganeti/watcher.pause")) == pytest.approx(until, abs=1)
        with pytest.raises(errors.GenericError, match="must end in the future"):
            client.SetWatcherPause(5)
        assert client.SetWatcherPause(None) is None
        assert not os.path.exists(shared[1].Path("/var/lib/ganeti/watcher.pause"))
        assert client.QueryConfigValues(["watcher_pause"]) == [None]


def test_filter_rules_are_written_and_obeyed(shared: RealCluster) -> None:
    with shared[0].Client() as client:
        mine = [["opcode", ["==", "comment", "hold me"]]]
        uuid = client.ReplaceFilter(None, 5, mine, "PAUSE", [["me", "because", 1]])
        [[watermark, action, trail]] = client.QueryFilters([uuid], ["watermark", "action", "reason_trail"])
        assert action == "PAUSE" and [e[:2] for e in trail] == [["me", "because"], ["luxid", ""]]
        held = client.SubmitJob([Delay(comment="hold me")])
        assert held > watermark
        assert FollowJob(client, client.SubmitJob([Delay()]))[0] == "success"
        assert Statuses(client, [held]) == ["queued"]
        assert client.ReplaceFilter(uuid, 5, mine, "REJECT", []) == uuid
        assert FollowJob(client, held)[0] == "canceled"
        client.DeleteFilter(uuid)
        assert client.QueryFilters(None, ["uuid"]) == []
        with pytest.raises(errors.OpPrereqError):
            client.DeleteFilter(uuid)
        for bad in (
            lambda: client.ReplaceFilter("x", 5, mine, "PAUSE", []),
            lambda: client.ReplaceFilter(None, 5, [["nonsense", []]], "PAUSE", []),
            lambda: client.ReplaceFilter(None, 5, mine, "JUMP", []),
            lambda: client.ReplaceFilter(None, 5, mine, ["RATE_LIMIT", 0], []),
            lambda: client.ReplaceFilter(None, 5, mine, "PAUSE", [["x"]]),
        ):
            with pytest.raises(errors.OpPrereqError):
                bad()


def test_nothing_a_client_sends_hurts_the_others(shared: RealCluster) -> None:
    path = shared[0].Path("/var/run/ganeti/socket/ganeti-master")
    before = shared[0].Pid(MASTERD)
    odd = [
        b"\x03" * 1000,
        b"{" * 100_000 + b"\x03",
        b'{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "duration": "x"}]]}\x03',
        b'{"method": "SubmitJob", "args": [[7]]}\x03',
        b'{"method": "WaitForJobChange", "args": [1, ["status"], null, null, 1e308]}\x03',
        b'{"method": "WaitForJobChange", "args": [999999, ["status"], {}, null, 1]}\x03',
        b'{"method": "Query", "args": ["job", ["id"], ["=~", "id", "("]]}\x03',
        b'{"method": "Query", "args": ["node", ["name"], ["=~", "name", "((((("]]}\x03',
        b'{"method": "QueryJobs", "args": [[18446744073709551616999], ["id"]]}\x03',
        b'{"method": "AutoArchiveJobs", "args": [-5, 0]}\x03',
        b'{"method": "ChangeJobPriority", "args": [1, 99999]}\x03',
        b'{"method": "QueryTags", "args": ["cluster", null]}\x03',
        os.urandom(5000),
    ]
    socks = []
    for data in odd * 3:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        sock.settimeout(5)
        sock.sendall(data)
        socks.append(sock)
    with shared[0].Client() as client:
        assert FollowJob(client, client.SubmitJob([Delay()]))[0] == "success"
    for sock in socks:
        sock.close()
    assert shared[0].Pid(MASTERD) == before
    assert "Traceback" not in shared[0].Log(MASTERD)


@pytest.mark.req("D22-MD-01")
def test_the_idle_master_is_small(shared: RealCluster) -> None:
    pid = shared[0].Pid(MASTERD)
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as stream:
        pss = next(int(line.split()[1]) for line in stream if line.startswith("Pss:"))
    assert pss < 80 * 1024
    assert len(os.listdir(f"/proc/{pid}/task")) < 52


@pytest.mark.req("D22-MD-08", "D22-JQ-07", "D20-GOAL-01")
def test_under_load_lists_and_submissions_are_answered_at_once(shared: RealCluster) -> None:
    with shared[0].Client() as client:
        # One runs on each node, the others wait for its lock: all 20 workers are busy.
        running, others = Crowd(shared, client)
        slowest = 0.0
        submitted = []
        for _ in range(30):
            start = time.monotonic()
            submitted.append(client.SubmitJob([Delay()]))
            client.QueryJobs(None, ["id", "status", "summary"])
            slowest = max(slowest, time.monotonic() - start)
        assert slowest < 10
        for job_id in running:
            client.CancelJob(job_id, kill=True)
        for job_id in others + submitted:
            assert FollowJob(client, job_id)[0] == "success"


def Crowd(cluster: RealCluster, client: Any) -> tuple[list[int], list[int]]:
    """50 jobs: three that run for long, one on each node, and others that wait for their locks or for a worker."""
    names = [node.name for node in cluster.nodes]
    running = [client.SubmitJob([Delay(600, [name])]) for name in names]
    others = [job_id for _, job_id in client.SubmitManyJobs([[Delay(0.0, [names[n % 3]])] for n in range(47)])]
    WaitUntil(lambda: Statuses(client, running) == ["running"] * 3, "three jobs run")
    WaitUntil(lambda: Statuses(client, others).count("waiting") == 17, "the other workers wait for locks")
    assert Statuses(client, others).count("queued") == 30
    return running, others


@pytest.mark.req("D20-JOB-09", "D20-JOB-14")
@pytest.mark.limit(120)
def test_after_kill_9_every_accepted_job_is_there(cluster: RealCluster) -> None:
    accepted: list[int] = []
    with cluster[0].Client() as client:
        running, others = Crowd(cluster, client)
    stop = threading.Event()

    def submit() -> None:
        with cluster[0].Client() as client:
            while not stop.is_set():
                try:
                    accepted.append(client.SubmitJob([Delay(comment="more")]))
                except errors.LuxiError:
                    return

    threads = [threading.Thread(target=submit, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    WaitUntil(lambda: len(accepted) > 30, "some are accepted")
    cluster[0].Kill(MASTERD)
    stop.set()
    for node in cluster.nodes:  # no half a file, wherever it was cut off
        folder = node.Path("/var/lib/ganeti/queue")
        for name in os.listdir(folder):
            if name.startswith("job-"):
                serializer.Load(node.Read(f"/var/lib/ganeti/queue/{name}"))
    for thread in threads:
        thread.join(20)
    cluster[0].StartMaster()
    with cluster[0].Client() as client:
        ids = [row[0] for row in client.QueryJobs(None, ["id"])]
        assert set(running + others + accepted) <= set(ids)
        for job_id in running:
            [[status, result, end]] = client.QueryJobs([job_id], ["status", "opresult", "end_ts"])
            assert status == "error" and end is not None
            assert result == [["OpExecError", ["Unclean master daemon shutdown"]]]
        for job_id in others + accepted:
            assert FollowJob(client, job_id)[0] in ("success", "error")
        assert Statuses(client, others) == ["success"] * 47
        cut_off = {tuple(r[0][1]) for r in (x[0] for x in client.QueryJobs(accepted, ["opresult"])) if r[0]}
        assert cut_off <= {("Unclean master daemon shutdown",)}
        newest = max(ids)
        assert client.SubmitJob([Delay()]) > newest


def IsStopping(client: Any) -> bool:
    """Whether the master daemon refuses new jobs because it is about to end."""
    try:
        client.SubmitJob([Delay()])
    except errors.JobQueueError as err:
        return "shutting down" in str(err)
    return False


@pytest.mark.req("D20-JOB-16", "D20-JOB-17", "D20-HIST-01")
def test_a_clean_stop_waits_and_leaves_exact_files(cluster: RealCluster) -> None:
    node = cluster[0]
    with node.Client() as client:
        done = client.SubmitJob([Delay()])
        FollowJob(client, done)
        archived = client.SubmitJob([Delay()])
        FollowJob(client, archived)
        assert client.ArchiveJob(archived) is True
        assert client.QueryJobs([archived], ["status", "archived"]) == [["success", True]]
        running = client.SubmitJob([Delay(300, on_master=True, interruptible=True)])
        WaitUntil(lambda: Statuses(client, [running]) == ["running"], "the job runs")
        pid = node.Signal(MASTERD, signal.SIGTERM)
        WaitUntil(lambda: IsStopping(client), "new jobs are refused")
        newest = max(row[0] for row in client.QueryJobs(None, ["id"]))
        InterruptDelay(client, running)
    WaitGone(pid)
    assert node.Pid(MASTERD) == 0
    for name in ("ganeti-master", "ganeti-query"):
        assert not os.path.exists(node.Path(f"/var/run/ganeti/socket/{name}"))
    texts = {n: serializer.Load(JobFile(node, n) or "null") for n in (done, running)}
    assert [text["ops"][0]["status"] for text in texts.values()] == ["success", "success"]
    assert JobFile(node, archived) is None
    assert node.Read(f"/var/lib/ganeti/queue/archive/0/job-{archived}")
    assert node.Read("/var/lib/ganeti/queue/serial") == f"{newest}\n"
    assert node.Read("/var/lib/ganeti/queue/version") == "1\n"
    node.StartMaster()
    with node.Client() as client:
        assert Statuses(client, [done, running]) == ["success", "success"]
        assert client.QueryJobs([archived], ["status", "archived"]) == [["success", True]]


def test_a_second_signal_stops_although_a_job_runs(cluster: RealCluster) -> None:
    node = cluster[0]
    with node.Client() as client:
        running = client.SubmitJob([Delay(600, [node.name])])
        WaitUntil(lambda: Statuses(client, [running]) == ["running"], "the job runs")
        pid = node.Signal(MASTERD, signal.SIGTERM)
        WaitUntil(lambda: IsStopping(client), "new jobs are refused")
        assert Statuses(client, [running]) == ["running"]  # it still answers
    node.Signal(MASTERD, signal.SIGTERM)
    WaitGone(pid)
    node.StartMaster()
    with node.Client() as client:
        assert Statuses(client, [running]) == ["error"]


@pytest.mark.slow
@pytest.mark.limit(90)
def test_a_stop_is_refused_while_a_job_runs_on_and_the_master_goes_on(cluster: RealCluster) -> None:
    node = cluster[0]
    with node.Client() as client:
        running = client.SubmitJob([Delay(600, [node.name])])
        WaitUntil(lambda: Statuses(client, [running]) == ["running"], "the job runs")
        pid = node.Signal(MASTERD, signal.SIGTERM)

        def accepted() -> bool:
            try:
                client.SubmitJob([Delay()])
            except errors.JobQueueError:
                return False
            return "Not stopping" in node.Log(MASTERD)

        WaitUntil(accepted, "jobs are taken again", 40)
        assert node.Pid(MASTERD) == pid
        assert FollowJob(client, client.SubmitJob([Delay()]))[0] == "success"


def test_a_job_is_killed_by_ending_its_calls(cluster: RealCluster) -> None:
    with cluster[0].Client() as client:
        job_id = client.SubmitJob([Delay(600, [cluster[1].name])])
        WaitUntil(lambda: Statuses(client, [job_id]) == ["running"], "the job runs")
        assert client.CancelJob(job_id)[0] is False
        done, text = client.CancelJob(job_id, kill=True)
        assert done and "killed" in text
        assert Statuses(client, [job_id]) == ["error"]


def test_a_job_that_waits_on_the_master_is_killed_too(cluster: RealCluster) -> None:
    with cluster[0].Client() as client:
        job_id = client.SubmitJob([Delay(600, on_master=True)])
        WaitUntil(lambda: Statuses(client, [job_id]) == ["running"], "the job runs")
        assert client.CancelJob(job_id, kill=True) == [True, f"Job {job_id} was killed; node calls ended: 0"]
        [[status, result]] = client.QueryJobs([job_id], ["status", "opresult"])
        assert status == "error" and "ended with 'gnt-job cancel --kill'" in str(result)


@pytest.mark.req("D20-VOTE-06", "D20-VOTE-07")
def test_masterd_starts_on_the_master_only() -> None:
    with RealCluster(2) as cluster:
        refused = cluster[1].StartMaster(check=False)
        assert refused.returncode == 5 and "this node has no configuration" in refused.stderr
        cluster[1].Write("/var/lib/ganeti/config.data", cluster[0].Read("/var/lib/ganeti/config.data"), 0o640)
        refused = cluster[1].StartMaster(check=False)
        assert refused.returncode == 11 and f"{cluster[0].name} is" in refused.stderr
        odd = cluster[0].StartMaster("--yes-do-it", check=False)
        assert odd.returncode == 1 and "--no-voting" in odd.stderr
        asked = cluster[0].StartMaster("--no-voting", check=False)
        assert asked.returncode == 13  # nobody is there to say yes
        # One of two nodes names another master: no vote is won, nothing is served, nothing is begun.
        cluster.StartNodeDaemons()
        named = cluster[1].Path("/var/lib/ganeti/ssconf_master_node")
        os.chmod(named, 0o644)
        cluster[1].Write("/var/lib/ganeti/ssconf_master_node", cluster[1].name + "\n", 0o444)
        lost = cluster[0].StartMaster(check=False)
        assert lost.returncode == 11 and "1 of 2 nodes name" in lost.stderr
        assert cluster[0].Pid(MASTERD) == 0
        assert os.listdir(cluster[0].Path("/var/run/ganeti/socket")) == []
        cluster[1].Kill("ganeti-noded")
        forced = cluster[0].StartMaster("--no-voting", "--yes-do-it")
        assert forced.returncode == 0
        second = cluster[0].StartMaster(check=False)
        assert second.returncode != 0
        with cluster[0].Client() as client:
            assert client.QueryConfigValues(["cluster_name"]) == ["cluster.example.com"]


@pytest.mark.limit(120)
def test_a_refused_master_stops_at_once_with_code_11_and_no_job_is_lost() -> None:
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        old = subprocess.Popen(
            [sys.executable, "-c", "import sys; from ganeti.server.masterd import Main; sys.exit(Main())", "-f"],
            env=cluster[0].Environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            socket_path = cluster[0].Path("/var/run/ganeti/socket/ganeti-query")
            WaitUntil(lambda: os.path.exists(socket_path), "the first master serves")
            with cluster[0].Client() as client:
                done = client.SubmitJob([Delay()])
                assert FollowJob(client, done)[0] == "success"
                running = client.SubmitJob([Delay(600, [cluster[2].name])])
                waiting = client.SubmitJob([Delay(0, [cluster[2].name])])
                WaitUntil(lambda: Statuses(client, [running]) == ["running"], "the job runs")
                WaitUntil(lambda: JobFile(cluster[1], waiting), "the other nodes have the jobs")
            cluster[1].StartMaster("--take-over")
            assert old.wait(30) == 11
            with pytest.raises((protocol.NoMasterError, protocol.ConnectionClosedError)):
                cluster[0].Client(connect_timeout=1).SubmitJob([Delay()])
            with cluster[1].Client() as client:
                assert client.QueryConfigValues(["master_node"]) == [cluster[1].name]
                assert Statuses(client, [done, running]) == ["success", "error"]
                assert FollowJob(client, waiting)[0] == "success"
                assert client.SubmitJob([Delay()]) > waiting
        finally:
            old.kill()
            old.wait()
