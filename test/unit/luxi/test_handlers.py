"""Methods of LUXI on a real configuration and queue."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support import configs
from support.queues import Executor, Op
from support.realcluster import WaitUntil
from support.writers import Setup

from ganeti import errors, runtime, serializer
from ganeti.jqueue import JobQueue
from ganeti.luxi import methods
from ganeti.luxi.pending import Pending
from ganeti.luxi.pieces import Encoded
from ganeti.master.querydata import ClusterInfo
from ganeti.metrics import MASTER, METRICS, CallTimes
from ganeti.rpc import RpcRunner
from ganeti.server.eventring import EventRing
from ganeti.server.handlers import Handlers
from ganeti.server.metering import Meter, _Instances


class Door:
    """The handlers of a small cluster, behind the check of arguments that the server makes."""

    def __init__(self, folder: str):
        self.setup = Setup(folder)
        settings = lambda: (5, self.setup.cfg.Snapshot().filters)  # noqa: E731
        self.events = EventRing(self.setup.store.Epoch(), self.setup.cfg.Snapshot)
        self.queue = JobQueue(self.setup.store, Executor(), settings, announce=self.events.JobChanged)
        self.events.Start(self.setup.store)
        self.queue.Start()
        times = self.times = CallTimes()
        times.Observe("node2", "version", 0.02, False)
        times.Observe("node2", "version", None, True)
        store = self.setup.store
        self.meter = Meter(self.setup.cfg.Snapshot, self.queue, store, store.durations, [times, store.calls], dict)
        # No query and no node is asked here.
        self.handlers = Handlers(
            self.setup.cfg,
            self.queue,
            cast(Any, None),
            cast(RpcRunner, None),
            self.setup.store,
            self.events,
            self.meter,
        )

    def Call(self, method: str, *args: Any) -> Any:
        answer = self.handlers.Handle(method, methods.Find(method).Bind(list(args)))
        if isinstance(answer, Pending):
            answer = answer.Result(20)
        return serializer.Load(answer.text) if isinstance(answer, Encoded) else answer

    def Close(self) -> None:
        self.queue.Stop()
        self.events.Stop()
        self.setup.cluster.Close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(str(tmp_path))
    yield made
    made.Close()


def test_the_remembered_cluster_info_is_that_of_the_configuration(door: Door) -> None:
    def expected() -> Any:
        return serializer.Load(serializer.Dump(ClusterInfo(door.setup.cfg.Snapshot())))

    assert door.Call("QueryClusterInfo") == expected()
    cluster = door.setup.cfg.Snapshot().cluster
    door.setup.cfg.Update(cluster.Replace(candidate_pool_size=7))
    assert door.Call("QueryClusterInfo")["candidate_pool_size"] == 7
    master = door.setup.cfg.Snapshot().nodes[door.setup.nodes[0]]
    door.setup.cfg.Update(master.Replace(vm_capable=False))
    assert door.Call("QueryClusterInfo")["master"] == master.name
    assert door.Call("QueryClusterInfo") == expected()


def test_a_filter_rule_is_made_replaced_and_removed_and_the_queue_follows(door: Door) -> None:
    before = door.Call("SubmitJob", [Op()])
    uuid = door.Call("ReplaceFilter", None, 0, [["opcode", ["==", "comment", "mine"]]], "REJECT", [["me", "why", 1]])
    rule = door.setup.cfg.Snapshot().filters[uuid]
    assert (rule.action, rule.priority, rule.watermark) == ("REJECT", 0, before)
    assert [list(entry[:2]) for entry in rule.reason_trail] == [["me", "why"], ["luxid", ""]]
    assert End(door, door.Call("SubmitJob", [Op(comment="mine")])) == "canceled"
    assert door.Call("ReplaceFilter", uuid, 5, [], "ACCEPT", []) == uuid
    assert door.setup.cfg.Snapshot().filters[uuid].priority == 5
    assert End(door, door.Call("SubmitJob", [Op(comment="mine")])) == "success"
    assert door.Call("DeleteFilter", uuid) is None
    assert door.setup.cfg.Snapshot().filters == {}
    with pytest.raises(errors.OpPrereqError, match="does not exist"):
        door.Call("DeleteFilter", uuid)
    with pytest.raises(errors.OpPrereqError, match="UUID of another object"):
        door.Call("ReplaceFilter", door.setup.nodes[0], 0, [], "PAUSE", [])
    with pytest.raises(errors.OpPrereqError, match="not a valid UUID"):
        door.Call("ReplaceFilter", "x", 0, [], "PAUSE", [])
    with pytest.raises(errors.OpPrereqError, match=r"\('Not a filter rule: filter: key .* must be .*, found \"FOO\"'"):
        door.Call("ReplaceFilter", None, 0, [], "FOO", [])
    with pytest.raises(errors.OpPrereqError, match=f"Not a filter rule: filter .*{uuid}.*: key .* must be"):
        door.Call("ReplaceFilter", uuid, 0, [], "FOO", [])


def test_a_rule_is_acknowledged_when_the_queue_follows_it(door: Door) -> None:
    busy = threading.Event()
    door.queue._ticker.Soon(busy.wait)
    answer = door.handlers.Handle(
        "ReplaceFilter",
        methods.Find("ReplaceFilter").Bind([None, 0, [["opcode", ["==", "comment", "mine"]]], "REJECT", []]),
    )
    WaitUntil(lambda: door.setup.cfg.Snapshot().filters, "the rule is stored")
    assert isinstance(answer, Pending) and not answer.done
    busy.set()
    uuid = answer.Result(20)
    assert End(door, door.Call("SubmitJob", [Op(comment="mine")])) == "canceled"
    busy.clear()
    door.queue._ticker.Soon(busy.wait)
    answer = door.handlers.Handle("DeleteFilter", methods.Find("DeleteFilter").Bind([uuid]))
    WaitUntil(lambda: not door.setup.cfg.Snapshot().filters, "the rule is gone")
    assert isinstance(answer, Pending) and not answer.done
    busy.set()
    answer.Result(20)
    assert End(door, door.Call("SubmitJob", [Op(comment="mine")])) == "success"


@pytest.mark.req("D20-RAPI-06")
def test_a_filter_rule_is_compared_when_it_is_changed(door: Door) -> None:
    fields = ["uuid", "watermark", "priority", "predicates", "action", "reason_trail"]
    uuid = door.Call("ReplaceFilter", None, 0, [["opcode", ["==", "comment", 1.0]]], "PAUSE", [["me", "why", 1]])
    [row] = [list(map(rule.ToDict().get, fields)) for rule in door.setup.cfg.Snapshot().filters.values()]
    seen = serializer.LoadWhole(serializer.DumpBytes(dict(zip(fields, row, strict=True))))
    stale = {**seen, "priority": 3}
    for wrong in (stale, {**seen, "unknown": 1}, {"action": "NONE"}):
        with pytest.raises(errors.OpPrereqError, match="was changed since") as caught:
            door.Call("ReplaceFilter", uuid, 3, [], "ACCEPT", [], wrong)
        assert caught.value.args[1] == errors.ECODE_STATE
        with pytest.raises(errors.OpPrereqError, match="was changed since"):
            door.Call("DeleteFilter", uuid, wrong)
    assert door.setup.cfg.Snapshot().filters[uuid].action == "PAUSE"
    assert door.Call("ReplaceFilter", uuid, 3, [], "ACCEPT", [], seen) == uuid
    with pytest.raises(errors.OpPrereqError, match="was changed since"):
        door.Call("DeleteFilter", uuid, seen)
    assert door.Call("DeleteFilter", uuid, {}) is None
    for method, *args in (("ReplaceFilter", uuid, 3, [], "ACCEPT", [], {}), ("DeleteFilter", uuid, {})):
        with pytest.raises(errors.OpPrereqError, match="no longer exists"):
            door.Call(method, *args)


def End(door: Door, job_id: int) -> str:
    """Wait for the queue to know the newest rules, and for the job's end."""
    info: Any = None
    while True:
        values, _log = door.Call("WaitForJobChange", job_id, ["status"], info, 1 << 40, 20.0)
        if values[0] in ("success", "canceled", "error"):
            return str(values[0])
        info = values


def test_several_jobs_are_canceled_in_one_call(door: Door) -> None:
    blocker = door.Call("SubmitJob", [Op(comment="gate g")])
    door.queue._worker._execute.WaitRunning(blocker)  # type: ignore[attr-defined]
    waiting = [door.Call("SubmitJob", [Op(depends=[[blocker, []]])]) for _ in range(3)]
    answers = door.Call("CancelManyJobs", [str(waiting[0]), *waiting[1:], blocker])
    assert [ok for ok, _ in answers] == [True, True, True, False]
    door.queue._worker._execute.Open("g")  # type: ignore[attr-defined]
    assert End(door, blocker) == "success"


def test_the_watchers_pause_must_end_some_time(door: Door) -> None:
    for until in (runtime.Time() - 5, 1e300):
        with pytest.raises(errors.OpPrereqError, match="pause must end"):
            door.Call("SetWatcherPause", until)


def test_events_follow_jobs_and_configuration(door: Door) -> None:
    begin = door.Call("WaitForEvents", None, None, 20.0)
    assert (begin["events"], begin["missed"]) == ([], False)
    job = door.Call("SubmitJob", [Op(comment="ok")])
    assert End(door, job) == "success"
    answer = door.Call("WaitForEvents", begin["last"], ["job"], 20.0)
    while answer["events"][-1]["status"] != "success":
        more = door.Call("WaitForEvents", answer["last"], ["job"], 20.0)
        answer = {**more, "events": answer["events"] + more["events"]}
    first, last = answer["events"][0], answer["events"][-1]
    assert (first["kind"], first["change"], first["job"], first["status"]) == ("job", "added", job, "queued")
    assert (last["change"], last["opstatus"], last["summary"]) == ("changed", ["success"], ["TEST_DELAY(0 ns)"])
    door.setup.cfg.AddTags("node", door.setup.nodes[0], ["rack1"])
    [node] = door.Call("WaitForEvents", answer["last"], ["node"], 20.0)["events"]
    stored = door.setup.cfg.Snapshot().nodes[door.setup.nodes[0]]
    assert (node["uuid"], node["name"], node["serial_no"]) == (stored.uuid, stored.name, stored.serial_no)


@pytest.mark.parametrize("wrong", [5, "x" * 81, ["a"]])
def test_an_id_that_cannot_be_one_is_rejected(door: Door, wrong: Any) -> None:
    with pytest.raises(methods.ArgumentError, match="last_id"):
        door.Call("WaitForEvents", wrong, None, 0.0)
    with pytest.raises(methods.ArgumentError, match="kinds"):
        door.Call("WaitForEvents", None, ["weather"], 0.0)


def test_a_reservation_of_which_nothing_is_known_is_counted_as_one() -> None:
    root = configs.Example()
    before, after = (_Instances(snapshot) for snapshot in (root, configs.WithReservations(root)))
    assert (before["instances"][("reserved",)], after["instances"][("reserved",)]) == (0, 2)
    assert {key: value for key, value in after["instances"].items() if key != ("reserved",)} == {
        key: value for key, value in before["instances"].items() if key != ("reserved",)
    }
    assert after["disks_size"] == before["disks_size"]
    assert None not in {label for series in after.values() for labels in series for label in labels}


def test_metrics_count_what_there_is(door: Door) -> None:
    def read() -> dict[str, dict[tuple[str, ...], Any]]:
        found = door.Call("QueryMetrics")
        assert found.keys() == {name for name, metric in METRICS.items() if metric.source == MASTER}
        return {name: {tuple(labels): value for labels, value in rows} for name, rows in found.items()}

    before = read()
    assert before["jobs"][("queued",)] == before["jobs_pending"][()] == before["jobs_pending_oldest_age"][()] == 0
    blocker = door.Call("SubmitJob", [Op(comment="gate g")])
    door.queue._worker._execute.WaitRunning(blocker)  # type: ignore[attr-defined]
    waiting = [door.Call("SubmitJob", [Op(depends=[[blocker, []]])]) for _ in range(3)]
    now = read()
    assert (now["jobs"][("running",)], now["jobs"][("queued",)], now["jobs_pending"][()]) == (1, 3, 3)
    assert 0 < now["jobs_pending_oldest_age"][()] < 600
    door.queue._worker._execute.Open("g")  # type: ignore[attr-defined]
    assert [End(door, job) for job in (blocker, *waiting)] == ["success"] * 4
    after = read()
    assert after["jobs"][("success",)] == 4 and after["jobs_pending"][()] == 0
    commits = [sum(each["commit_duration"][()]["counts"]) for each in (before, now, after)]
    assert commits == sorted(set(commits))
    assert after["commit_duration"][()]["sum"] > 0
    assert sum(after["rpc_duration"][("node2", "version")]["counts"]) == 1
    assert after["rpc_failures"][("node2", "version")] == 1

    assert (after["nodes"][("master",)], after["candidates"][()], after["candidates_silent"][()]) == (1, 1, 0)
    [web] = door.setup.cfg.Snapshot().instances.values()
    assert after["instances"][(web.admin_state,)] == 1
    assert after["instances_memory"][(web.admin_state,)] > 0
    assert sum(after["disks_size"].values()) > 0


def test_nodes_have_their_names_in_the_metrics_and_counters_begin_at_zero(door: Door) -> None:
    """A node is called by its address until it has joined; what changes from nothing to 1 is no increase."""
    [mine] = door.setup.cfg.Snapshot().nodes.values()
    for node in (mine.primary_ip, mine.name):
        door.times.Observe(node, "version", 0.02, False)
    door.times.Observe(mine.primary_ip, "node_leave_cluster", None, True)
    found = {name: {tuple(labels): value for labels, value in rows} for name, rows in door.Call("QueryMetrics").items()}
    assert found["rpc_failures"] == {
        ("node2", "version"): 1,
        (mine.name, "version"): 0,
        (mine.name, "node_leave_cluster"): 1,
    }
    times = found["rpc_duration"]
    assert set(times) == {("node2", "version"), (mine.name, "version")}
    assert sum(times[mine.name, "version"]["counts"]) == 2 and times[mine.name, "version"]["sum"] == pytest.approx(0.04)
