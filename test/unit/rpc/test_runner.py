"""The client: whom it calls, what a failure says, what goes over the wire."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support import configs

from ganeti import errors, rpc
from ganeti.rpc.base import ABORTED, Answer, Failure, Request
from ganeti.rpc.resolver import SnapshotResolver


class Wire:
    """A transport that answers at once with what the test says, and keeps what it was given."""

    def __init__(self, answer: Callable[[Request], Answer]):
        self.answer = answer
        self.requests: list[Request] = []

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        self.requests.append(request)
        done(self.answer(request))

    def Abort(self, request: Request) -> None:
        raise AssertionError(f"nothing is under way: {request}")

    def Close(self) -> None:
        pass


def success(payload: Any = None) -> Callable[[Request], Answer]:
    return lambda _: Answer(None, 200, {}, json.dumps([True, payload]).encode())


def resolve(node: str) -> tuple[str, str, int, bool, str]:
    if node == "nobody":
        raise errors.OpPrereqError("Node 'nobody' is not in the configuration", errors.ECODE_NOENT)
    return (f"{node}.example.com", "192.0.2.1", 1811, node == "asleep", f"uuid-{node}")


def runner_on(wire: Wire, **more: Any) -> rpc.RpcRunner:
    return rpc.RpcRunner(wire, resolve, lambda: "4.abcd", **more)


def test_one_node_gives_a_result_and_several_give_one_each() -> None:
    wire = Wire(success(3010000))
    runner = runner_on(wire)
    results = runner.call_version(["a", "b", "a"])
    assert list(results) == ["a", "b"]
    assert [result.payload for result in results.values()] == [3010000, 3010000]
    assert results["a"].node == "a" and results["a"].node_name == "a.example.com"
    assert runner.call_get_watcher_pause(node="a").payload == 3010000
    assert runner.call_version([]) == {}


def test_what_stands_in_a_request() -> None:
    wire = Wire(success())
    runner = runner_on(wire, sender="master.example.com")
    runner.call_bdev_sizes(["a"], ["/dev/x"])
    runner.call_export_remove("a", export="old")
    runner.call_test_delay(["a"], 2.5)
    reads, changes, delay = wire.requests
    assert (reads.host, reads.port, reads.path, reads.body) == ("192.0.2.1", 1811, "/bdev_sizes", b'[["/dev/x"]]')
    assert reads.headers["Content-Type"] == "application/json" and reads.headers["User-Agent"].startswith("Ganeti ")
    assert (reads.connect_timeout, reads.timeout, reads.repeatable) == (5, 60, True)
    assert "X-Ganeti-Epoch" not in reads.headers
    assert changes.headers["X-Ganeti-Epoch"] == "4.abcd"
    assert changes.headers["X-Ganeti-Master"] == "master.example.com"
    assert (changes.timeout, changes.repeatable, changes.body) == (300, False, b'["old"]')
    assert delay.timeout == 7


@pytest.mark.req("D20-FLAG-15")
def test_an_offline_node_is_not_called_at_all() -> None:
    wire = Wire(success(1))
    runner = runner_on(wire)
    result = runner.call_bdev_sizes(["asleep"], [])["asleep"]
    assert result.offline and result.fail_msg == "Node is marked offline" and result.payload is None
    assert wire.requests == []
    # Two calls are for nodes that are offline, too.
    assert runner.call_version(["asleep"])["asleep"].payload == 1
    assert not runner.call_node_powercycle("asleep", "kvm", {}).offline


def test_a_node_nobody_knows_fails_alone_and_version_asks_by_name() -> None:
    wire = Wire(success({"/dev/x": 1}))
    runner = runner_on(wire)
    results = runner.call_bdev_sizes(["a", "nobody"], [])
    assert results["a"].payload == {"/dev/x": 1}
    assert "not in the configuration" in (results["nobody"].fail_msg or "") and not results["nobody"].offline
    runner.call_version(["nobody"])
    assert wire.requests[-1].host == "nobody"
    # One that has to leave is in no configuration any more.
    assert wire.requests[-1].path == "/version"
    runner.call_node_leave_cluster("nobody", True)
    assert (wire.requests[-1].host, wire.requests[-1].path) == ("nobody", "/node_leave_cluster")


@pytest.mark.req("D20-LOG-06")
def test_every_failure_is_logged_even_if_nobody_looks(caplog: pytest.LogCaptureFixture) -> None:
    failures = [
        Answer("no route to host"),
        Answer(None, 200, {}, b'[false, "no such export"]'),
        Answer(None, 500, {}, b"oops"),
    ]
    for answer in failures:
        runner_on(Wire(lambda _, answer=answer: answer)).Start("export_list", ["a"], [], lambda _: None)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert "a.example.com" in caplog.text and "no such export" in caplog.text and "HTTP status 500" in caplog.text


def test_what_is_no_news_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A log that is full of nodes known to be offline, or of each look at a dead one, hides what matters."""
    runner = runner_on(Wire(lambda _: Answer("no route to host")))
    assert runner.call_export_list(["asleep"])["asleep"].fail_msg
    assert runner.call_store_status(["a"], {})["a"].fail_msg == "no route to host"
    assert caplog.records == []
    assert runner.call_export_list(["a"])["a"].fail_msg
    assert len(caplog.records) == 1


def test_how_far_a_call_got_is_known_without_reading_its_text() -> None:
    runner = runner_on(Wire(lambda _: Answer("no answer", failure=Failure.SILENT)))
    results = runner.call_bdev_sizes(["a", "nobody", "asleep"], [])
    found = {node: result.failure for node, result in results.items()}
    assert found == {"a": Failure.SILENT, "nobody": Failure.UNREACHABLE, "asleep": Failure.NOT_SENT}
    assert runner_on(Wire(success({}))).call_bdev_sizes(["a"], [])["a"].failure is None


def test_failures_have_the_words_of_the_protocol() -> None:
    def text(body: bytes) -> str | None:
        result = runner_on(Wire(lambda _: Answer(None, 200, {}, body))).call_export_list(["a"])["a"]
        assert result.fail_msg is None or result.payload is None
        return result.fail_msg

    assert text(b'{"a": 1}') == "RPC layer error: invalid result type (dict)"
    assert text(b"[]") == "RPC layer error: invalid result length (0), expected 2"
    assert text(b'[false, ""]') == "No error information"
    assert text(b'[0, "x"]') == "x"
    assert text(b'[false, ["prereq", 5]]') == '["prereq",5]'
    assert len(text(json.dumps([False, ["x"] * 1000]).encode()) or "") == 200
    assert text(b'[false, "first\\nsecond\\u001b"]') == "first\nsecond\\x1b"
    assert (text(b"\xff") or "").startswith("RPC layer error: ")
    assert text(b"[true, []]") is None


def test_a_node_of_another_release_says_that_it_lacks_the_procedure() -> None:
    def text(status: int) -> str | None:
        return runner_on(Wire(lambda _: Answer(None, status, {}, b""))).call_export_list(["a"])["a"].fail_msg

    assert text(404) == "HTTP status 404: the node has no procedure export_list (another release?)"
    assert text(503) == "HTTP status 503"


def test_raise_names_what_was_done_and_what_failed() -> None:
    result = runner_on(Wire(lambda _: Answer("no route"))).call_export_list(["a"])["a"]
    with pytest.raises(errors.OpExecError, match=r"^Could not list: no route$"):
        result.Raise("Could not list")
    with pytest.raises(errors.OpExecError, match=r"Call 'export_list' to node 'a.example.com' failed: no route"):
        result.Raise()
    with pytest.raises(errors.OpPrereqError) as caught:
        result.Raise("Cannot", prereq=True, ecode=errors.ECODE_STATE)
    assert caught.value.args == ("Cannot: no route", errors.ECODE_STATE)
    said: list[str] = []
    assert result.Warn("Could not list", said.append) and said == ["Could not list: no route"]
    assert result.Warn("", said.append)
    assert said.pop() == "Call 'export_list' to node 'a.example.com' failed: no route"
    good = runner_on(Wire(success([]))).call_export_list(["a"])["a"]
    good.Raise("never")
    assert not good.Warn("never", said.append) and len(said) == 1


def test_a_large_answer_is_parsed_by_whoever_looks() -> None:
    large = ["x" * 20000]
    results: list[rpc.RpcResult] = []
    runner_on(Wire(success(large))).Start("export_list", ["a"], [], results.append)
    assert "unread" in repr(results[0])
    assert results[0].payload == large and results[0].fail_msg is None
    assert "ok" in repr(results[0])


def test_a_refused_master_is_told_once_per_answer() -> None:
    told: list[tuple[str, str]] = []
    headers = {"x-ganeti-epoch": "5.ef", "x-ganeti-master": "node2"}
    wire = Wire(lambda _: Answer(None, 409, headers, b'[false, "refused"]'))
    runner = runner_on(wire, refused=lambda epoch, master, node: told.append((epoch, master)))
    result = runner.call_export_remove("a", "x")
    assert result.fail_msg == "refused" and result.epoch_refused == ("5.ef", "node2")
    assert told == [("5.ef", "node2")]


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"x-ganeti-epoch": "5.ef"}, [("5.ef", "", "a")]),
        # The call lacked an epoch: nobody else is master because of that.
        ({"x-ganeti-master": "node2"}, []),
        ({}, []),
    ],
)
def test_only_a_newer_epoch_ends_a_master(headers: dict[str, str], told: list[tuple[str, str, str]]) -> None:
    wire = Wire(lambda _: Answer(None, 409, headers, b'[false, "refused"]'))
    heard: list[tuple[str, str, str]] = []
    runner = runner_on(wire, refused=lambda *what: heard.append(what))
    assert runner.call_export_remove("a", "x").fail_msg == "refused"
    assert heard == told
    # Whoever did not ask to be told still gets its answer.
    assert runner_on(wire).call_export_remove("a", "x").fail_msg == "refused"


def test_a_refusal_is_an_error_like_every_other() -> None:
    refused = rpc.EpochRefused("7.beef", "node2")
    assert str(refused) == "refused: epoch 7.beef of master node2 is newer"
    assert str(rpc.EpochRefused("7.beef", "")) == "refused: epoch 7.beef of master (unknown) is newer"
    assert str(rpc.EpochRefused("", "")) == "this call changes something and named no epoch"
    # Whoever shows it to an administrator asks for the next step.
    assert refused.hint is None and refused.args == ("7.beef", "node2")


def test_without_an_epoch_of_its_own_a_process_sends_none() -> None:
    wire = Wire(success())
    rpc.RpcRunner(wire, resolve, lambda: None, sender="node1").call_export_remove("a", "x")
    assert not {"X-Ganeti-Epoch", "X-Ganeti-Master"} & set(wire.requests[0].headers)


def test_a_caller_may_be_in_more_of_a_hurry_than_the_table() -> None:
    wire = Wire(success())
    runner = runner_on(wire)
    for limit in (3, None, 1000):
        runner.Start("bdev_sizes", ["a"], [[]], lambda _: None, limit)
    assert [request.timeout for request in wire.requests] == [3, 60, 60]


def test_only_calls_of_the_store_pass_the_others() -> None:
    wire = Wire(success({}))
    runner = runner_on(wire)
    runner.call_store_status(["a"], {})
    runner.call_export_remove("a", "old")
    runner.call_version(["a"])
    assert [request.urgent for request in wire.requests] == [True, False, False]


def test_times_and_failures_of_calls_are_counted_by_node() -> None:
    answers = [
        Answer(None, 200, {}, b"[true, []]", seconds=0.5),
        Answer("no route", seconds=1.0),
        Answer(None, 500, {}, b"", seconds=0.25),
        Answer(None, 200, {}, b'[false, "no such export"]', seconds=0.25),
    ]
    runner = runner_on(Wire(lambda _: answers.pop(0)))
    for _ in range(4):
        runner.call_export_list(["a"])
    assert runner.times.Failures() == {("a.example.com", "export_list"): 2}, "a node that says no has answered"
    assert list(runner.times.Durations()) == [("a.example.com", "export_list")]


class Held(Wire):
    """A transport whose calls end when they are aborted, and where somebody acts while the first is handed over."""

    def __init__(self, meanwhile: Callable[[], object]):
        super().__init__(success())
        self.meanwhile = meanwhile
        self.waiting: dict[Request, Callable[[Answer], None]] = {}

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        self.requests.append(request)
        self.waiting[request] = done
        if len(self.requests) == 1:
            self.meanwhile()

    def Abort(self, request: Request) -> None:
        done = self.waiting.pop(request, None)
        if done is not None:
            done(Answer(ABORTED))


def test_a_call_that_is_aborted_while_it_is_handed_over_ends_on_all_nodes() -> None:
    """A job that is told to stop at this moment would otherwise wait as long as the procedure may take."""
    aborted: list[int] = []
    wire = Held(lambda: aborted.append(runner.Abort(threading.get_ident())))
    runner = runner_on(wire)
    results = runner.call_bdev_sizes(["a", "b", "c"], [])
    assert [result.fail_msg for result in results.values()] == [ABORTED] * 3
    assert {result.failure for result in results.values()} == {Failure.NOT_SENT}, "nothing is known of the nodes"
    assert aborted == [3]
    assert runner.Abort(threading.get_ident()) == 0


def test_wrong_use_is_a_bug_that_names_the_call() -> None:
    runner = runner_on(Wire(success()))
    with pytest.raises(TypeError):
        runner.call_version()
    with pytest.raises(errors.ProgrammerError, match="version takes a list of nodes"):
        runner.call_version("a")
    with pytest.raises(errors.ProgrammerError, match="export_remove takes"):
        runner.Start("export_remove", ["a"], [], lambda _: None)


def test_the_console_call_has_an_object_for_a_body() -> None:
    wire = Wire(success({"web": {}}))
    assert runner_on(wire).call_instance_console_info(["a"], {"web": {"node": 1}})["a"].payload == {"web": {}}
    assert json.loads(wire.requests[0].body) == {"web": {"node": 1}}


# Arguments that are filled from the configuration


def sent(call: Callable[[rpc.RpcRunner], Any], root: Any = None) -> list[Any]:
    """The argument lists that a call puts on the wire, one per node."""
    wire = Wire(success())
    snapshot = root or configs.Example()
    runner = rpc.RpcRunner(wire, SnapshotResolver(lambda: snapshot), lambda: "1.a", lambda: snapshot)
    call(runner)
    return [json.loads(request.body) for request in wire.requests]


def test_an_instance_travels_filled() -> None:
    root = configs.Example()
    web = root.instances[configs.WEB]
    ((instance, paused, reason),) = sent(lambda runner: runner.call_instance_start(configs.NODE1, web, False, []))
    assert (paused, reason) == (False, [])
    assert instance["name"] == web.name and instance["uuid"] == web.uuid
    assert set(root.cluster.hvparams["kvm"]) <= set(instance["hvparams"])
    assert set(root.cluster.beparams["default"]) <= set(instance["beparams"])
    assert instance["nics"][0]["nicparams"]["mode"] == root.cluster.nicparams["default"]["mode"]
    assert instance["secondary_nodes"] == [configs.NODE2]
    assert [disk["uuid"] for disk in instance["disks_info"]] == [configs.WEB_DISK]
    # The stored object is as it was.
    assert "disks_info" not in web.ToDict()


def test_temporary_values_win_over_stored_ones() -> None:
    web = configs.Example().instances[configs.WEB]
    ((instance, *_),) = sent(
        lambda runner: runner.call_instance_start(
            configs.NODE1, (web, {"kernel_path": "/boot/other"}, {"vcpus": 7}), True, []
        )
    )
    assert instance["hvparams"]["kernel_path"] == "/boot/other" and instance["beparams"]["vcpus"] == 7
    ((instance, *_),) = sent(
        lambda runner: runner.call_instance_os_add(configs.NODE1, (web, {"password": "x"}), False, 0)
    )
    assert instance["osparams"]["password"] == "x"


def test_a_mirror_is_described_to_each_node_as_it_sees_it() -> None:
    root = configs.Example()
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    one, two = sent(lambda runner: runner.call_drbd_disconnect_net([configs.NODE1, configs.NODE2], ([disk], web)))
    first, second = one[0][0]["dynamic_params"], two[0][0]["dynamic_params"]
    assert first == {
        "local-ip": root.nodes[configs.NODE1].secondary_ip,
        "remote-ip": root.nodes[configs.NODE2].secondary_ip,
        "local-minor": disk.logical_id[3],
        "remote-minor": disk.logical_id[4],
        "peer": "counts",
        "decision": 0,
    }
    assert (second["local-ip"], second["remote-ip"]) == (first["remote-ip"], first["local-ip"])
    assert one[0][0]["params"]["protocol"] and one[0][0]["children"][0]["params"]["stripes"] >= 1
    assert one[0][0]["children"][0]["dynamic_params"] == {}


def test_each_side_of_a_mirror_is_told_which_of_them_is_behind() -> None:
    root = configs.Example()
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    late = disk.Replace(behind={"node": configs.NODE2, "since": 1.5})
    one, two = (
        sent(lambda runner: runner.call_drbd_follow(configs.NODE1, ([late], web)))[0],
        sent(lambda runner: runner.call_drbd_follow(configs.NODE2, ([late], web)))[0],
    )
    assert one[0][0]["dynamic_params"]["peer"] == "behind"
    assert two[0][0]["dynamic_params"]["peer"] == "ahead"


def test_each_node_gets_its_own_disks() -> None:
    root = configs.Example()
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    mine = {configs.NODE1: ([disk], web), configs.NODE2: []}
    one, two = sent(lambda runner: runner.call_blockdev_getmirrorstatus_multi(list(mine), mine))
    assert [item["uuid"] for item in one[0]] == [disk.uuid] and two == [[]]


def test_other_shapes_of_disks_and_devices() -> None:
    root = configs.Example()
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    ((pairs,),) = sent(lambda runner: runner.call_blockdev_rename(configs.NODE1, [((disk, web), ["vg", "new"])]))
    assert pairs[0][0]["uuid"] == disk.uuid and pairs[0][1] == ["vg", "new"]
    ((_, snaps),) = sent(lambda runner: runner.call_finalize_export(configs.NODE1, web, ([disk, False], web)))
    assert snaps[0]["uuid"] == disk.uuid and snaps[1] is False
    ((_, _, _, nic, *_),) = sent(
        lambda runner: runner.call_hotplug_device(configs.NODE1, web, "hotadd", "nic", (web.nics[0], web), None, 1)
    )
    assert nic["uuid"] == web.nics[0].uuid and "mode" in nic["nicparams"]
    end = ("script", ((disk, web), 0))
    ((_, _, _, io),) = sent(lambda runner: runner.call_import_start(configs.NODE1, {}, (web, end), "disk/0", end))
    assert io[0] == "script" and io[1][0]["uuid"] == disk.uuid and io[1][1] == 0
    ((multi,),) = sent(lambda runner: runner.call_blockdev_getdimensions(configs.NODE1, [([disk], web), ([disk], web)]))
    assert len(multi) == 2
    # A disk without an instance takes its group from the node that is called.
    ((alone,),) = sent(lambda runner: runner.call_blockdev_find(configs.NODE2, (disk, None)))
    assert alone["dynamic_params"]["local-minor"] == disk.logical_id[4]


def test_lvm_storage_units_carry_the_nodes_flag() -> None:
    root = configs.Example()
    exclusive = root.WithObject(root.cluster.Replace(ndparams={**root.cluster.ndparams, "exclusive_storage": True}))
    units = [("lvm-vg", "xenvg"), ("file", "/srv")]
    for snapshot, flag in ((root, False), (exclusive, True)):
        ((storage, _),) = sent(lambda runner: runner.call_node_info([configs.NODE1], units, None), snapshot)
        assert storage == [["lvm-vg", "xenvg", [flag]], ["file", "/srv", []]]
    by_node = {configs.NODE1: units, configs.NODE2: []}
    one, two = sent(lambda runner: runner.call_node_info(list(by_node), by_node, None))
    assert len(one[0]) == 2 and two[0] == []
    (only,) = sent(lambda runner: runner.call_node_info([configs.NODE1], None, None))
    assert only == [None, None]


def test_a_call_that_needs_the_configuration_says_so() -> None:
    web = configs.Example().instances[configs.WEB]
    with pytest.raises(errors.ProgrammerError, match="needs the configuration"):
        runner_on(Wire(success())).call_instance_start("a", web, False, [])
