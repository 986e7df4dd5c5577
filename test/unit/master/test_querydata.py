"""How answers to queries are put together: what is asked of whom, and what an odd answer is worth."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from simulated import World
from support import configs

from ganeti import errors, objects, runtime, serializer
from ganeti.cmdlib.allocation import proofs
from ganeti.master.proving import FRESH_SECONDS, MOST_WAITING, Prove
from ganeti.master.querydata import ClusterInfo, QueryData
from ganeti.rpc import RpcRunner
from ganeti.rpc.base import Answer, Request


class Nodes:
    """A transport behind which every node answers what ``answers[procedure]`` says; nothing is an unreachable node."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str]] = []
        self.seconds: set[float] = set()

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        procedure = request.path.lstrip("/")
        self.asked.append((procedure, request.node))
        self.seconds.add(request.timeout)
        found = self.answers.get(procedure)
        if callable(found):
            found = found(request.node)
        if found is None:
            done(Answer("cannot connect", 0, {}, b""))
        else:
            done(Answer(None, 200, {}, serializer.DumpBytes(found)))

    def Abort(self, request: Request) -> None:
        raise AssertionError("nobody aborts here")

    def Close(self) -> None:
        pass


class Desk:
    """A master's query desk over the example configuration."""

    def __init__(self, prove: Prove = proofs.FromPayloads) -> None:
        self.root: objects.Snapshot = configs.Example()
        self.nodes = Nodes()
        self.locks: list[tuple[Any, ...]] = []
        runner = RpcRunner(self.nodes, self._Resolve, lambda: None, lambda: self.root)
        self.data = QueryData(
            lambda: self.root,
            runner,
            lambda ids, archived: [],
            lambda: self.locks,
            lambda: True,
            lambda: None,
            prove,
        )

    def _Resolve(self, uuid: str) -> Sequence[Any]:
        node = self.root.nodes[uuid]
        return (node.name, node.primary_ip, 1811, node.offline, uuid)

    def Rows(self, kind: str, fields: str, qfilter: Any = None) -> list[Any]:
        return self.data.QueryNow(kind, fields.split(), qfilter)["data"]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_the_configuration_knows_costs_no_call(desk: Desk) -> None:
    rows = desk.Rows("node", "name role pinst_cnt")
    assert [row[0][1] for row in rows] == sorted(node.name for node in desk.root.nodes.values())
    assert desk.Rows("instance", "name os admin_state")[0][0][0] == 0
    assert desk.nodes.asked == []


def _Steps(desk: Desk, instances: int) -> list[int]:
    """How many calls of functions each of two short commands takes, just after the configuration has changed."""
    desk.root = configs.Large(instances, 3)
    works = (lambda: ClusterInfo(desk.root), lambda: desk.Rows("node", "name role"))
    for work in works:
        work()
    changed = next(iter(desk.root.instances.values()))
    desk.root = desk.root.WithObject(changed.Replace(admin_state="down"))
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    taken = []
    for work in works:
        # What other tests have left is not ours to end: its functions would be counted.
        gc.collect()
        gc.disable()
        calls = 0
        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(None)
            gc.enable()
        taken.append(calls)
    return taken


@pytest.mark.req("D20-GOAL-08")
def test_short_commands_take_as_many_steps_in_a_large_cluster_as_in_a_small_one(desk: Desk) -> None:
    """gnt-cluster info and gnt-node list; test/bench/bench_cluster.py has their times."""
    assert _Steps(desk, 1000) == _Steps(desk, 10)


def test_nodes_are_asked_once_for_all_their_live_fields(desk: Desk) -> None:
    info = [True, ["boot", [], [{"memory_free": 100, "memory_total": 200}]]]
    desk.nodes.answers["node_info"] = info
    rows = desk.Rows("node", "bootid mfree mtotal ctotal")
    assert rows[0] == [(0, "boot"), (0, 100), (0, 200), (2, None)]
    assert len(desk.nodes.asked) == len(desk.root.nodes)


@pytest.mark.parametrize(
    "rubbish", [None, [True, {}], [True, ["x"]], [True, [1, 2, 3]], [False, "no"], "text", [True, None]]
)
def test_a_node_that_answers_rubbish_has_no_data(desk: Desk, rubbish: Any) -> None:
    desk.nodes.answers["node_info"] = rubbish
    assert {tuple(row[0]) for row in desk.Rows("node", "mfree")} == {(2, None)}
    desk.nodes.answers["all_instances_info"] = rubbish
    assert {tuple(row[0]) for row in desk.Rows("instance", "oper_ram")} <= {(2, None), (3, None)}


def test_a_list_does_not_wait_long_for_a_node_that_hangs(desk: Desk) -> None:
    desk.Rows("node", "mfree")
    desk.Rows("instance", "status console")
    assert desk.nodes.seconds == {10}


def test_an_offline_node_is_not_called(desk: Desk) -> None:
    uuid, node = next(iter(desk.root.nodes.items()))
    desk.root = desk.root.WithObject(node.Replace(offline=True, master_candidate=False))
    rows = desk.Rows("node", "mfree", ["==", "name", node.name])
    assert rows == [[(4, None)]]
    assert uuid not in dict(desk.nodes.asked).values()
    assert desk.nodes.asked == []


_FACTS = {"memory_total": 32768, "memory_dom0": 1024, "memory_free": 28000, "cpu_total": 8, "cpu_dom0": 1}


def _Answering(**others: int) -> Callable[[str], Any]:
    """Nodes with much memory, but for the memory of those that are named."""

    def answer(node: str) -> Any:
        memory = others.get(node.partition(".")[0], 32768)
        if memory == 0:
            return None
        facts = {**_FACTS, "memory_total": memory, "memory_free": memory - 1024}
        space = {"type": "lvm-vg", "name": "xenvg", "storage_size": 100000, "storage_free": 90000}
        return [True, ["boot", [space], [facts]]]

    return answer


def test_what_the_cluster_can_bear_is_a_field(desk: Desk) -> None:
    desk.nodes.answers["all_instances_info"] = [True, {}]
    desk.nodes.answers["node_info"] = _Answering()
    assert desk.Rows("node", "name losses") == [
        [(0, "node1.example.org"), (0, [])],
        [(0, "node2.example.org"), (0, [])],
    ]
    [[weak, room]] = desk.Rows("group", "weak_nodes room")
    assert weak == (0, []) and room[0] == 0 and room[1] > 0
    assert desk.Rows("cluster", "weak_nodes room") == [[(0, []), (0, {"default": room[1]})]]
    # The secondary has no room for the instance of the first node, which is all that is asked about.
    desk = Desk()
    desk.nodes.answers["all_instances_info"] = [True, {}]
    desk.nodes.answers["node_info"] = _Answering(node2=4096 + 256)
    assert desk.Rows("node", "losses", ["==", "name", "node1.example.org"]) == [[(0, ["web.example.org"])]]
    assert desk.Rows("group", "weak_nodes") == [[(0, ["node1.example.org"])]]
    assert desk.Rows("cluster", "weak_nodes") == [[(0, ["node1.example.org"])]]


def test_nodes_that_do_not_answer_or_are_offline_have_no_losses(desk: Desk) -> None:
    desk.nodes.answers["all_instances_info"] = [True, {}]
    desk.nodes.answers["node_info"] = _Answering(node2=0)
    assert desk.Rows("node", "losses mtotal") == [[(0, ["web.example.org"]), (0, 32768)], [(2, None), (2, None)]]
    asked = [node for procedure, node in desk.nodes.asked if procedure == "node_info"]
    assert len(asked) == len(set(asked)) == 2, "each node is asked once, for live fields and for the model"
    node = next(node for node in desk.root.nodes.values() if node.name == "node2.example.org")
    desk.root = desk.root.WithObject(node.Replace(offline=True, master_candidate=False))
    assert [row[0] for row in desk.Rows("node", "losses")] == [(0, ["web.example.org"]), (4, None)]


class _Proofs:
    """Makes proofs once they are allowed to be made."""

    def __init__(self) -> None:
        self.count = 0
        self.allowed = runtime.Event()

    def Make(self, *answers: Any) -> Any:
        self.count += 1
        self.allowed.wait()
        return proofs.FromPayloads(*answers)


class _Side:
    """The side of a simulated process, where starts of threads are counted and may fail."""

    def __init__(self) -> None:
        self._inner = runtime.CurrentSide()
        self.threads = 0
        self.failing = False
        self._inner.process.side = self
        runtime.EnterSide(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def Thread(self, *args: Any) -> Any:
        if self.failing:
            raise RuntimeError("can't start new thread")
        self.threads += 1
        return self._inner.Thread(*args)


def _InSimulation(story: Callable[[], None]) -> None:
    with World(1) as world:
        world.AddMachine("node1").Call(story)
        assert world.failures == []


def test_however_many_ask_what_the_cluster_can_bear_it_is_one_thread_and_one_proof() -> None:
    def story() -> None:
        side = _Side()
        made = _Proofs()
        desk = Desk(made.Make)
        desk.nodes.answers.update({"all_instances_info": [True, {}], "node_info": _Answering()})
        outcomes: list[tuple[Any, Exception | None]] = []
        everything = runtime.Event()

        def done(result: Any, error: Exception | None) -> None:
            outcomes.append((result, error))
            if len(outcomes) == MOST_WAITING + 2:
                everything.set()

        desk.data.Query("node", ["losses"], None, done)
        while not made.count:
            runtime.Sleep(0.01)
        for _ in range(MOST_WAITING):
            desk.data.Query("node", ["losses"], None, done)
        assert outcomes == [] and side.threads == 1
        desk.data.Query("node", ["losses"], None, done)
        [(_, refused)] = outcomes
        assert isinstance(refused, errors.OpPrereqError) and refused.args[1] == errors.ECODE_TEMP_NORES
        made.allowed.set()
        everything.wait()
        assert all(error is None for _, error in outcomes[1:])
        assert made.count == 1
        # What was worked out serves for a while, unless the configuration changes.
        desk.Rows("group", "room")
        assert made.count == 1
        runtime.Sleep(FRESH_SECONDS)
        desk.Rows("group", "room")
        assert made.count == 2
        desk.root = desk.root.WithObject(next(iter(desk.root.instances.values())).Replace(admin_state="down"))
        desk.Rows("group", "room")
        assert made.count == 3

    _InSimulation(story)


def test_a_query_that_gets_no_thread_ends_with_an_error() -> None:
    def story() -> None:
        side = _Side()
        desk = Desk()
        desk.nodes.answers.update({"all_instances_info": [True, {}], "node_info": _Answering()})
        side.failing = True
        with pytest.raises(errors.OpExecError, match=r"cannot start a thread .can't start new thread.; ask again"):
            desk.Rows("node", "losses")
        side.failing = False
        assert desk.Rows("node", "losses") == [[(0, [])], [(0, [])]]

    _InSimulation(story)


def test_room_that_takes_too_long_to_count_is_not_known() -> None:
    def slow(*answers: Any) -> Any:
        proof = proofs.FromPayloads(*answers)
        runtime.Sleep(proofs.ROOM_SECONDS + 1)
        return proof

    def story() -> None:
        desk = Desk(slow)
        desk.nodes.answers.update({"all_instances_info": [True, {}], "node_info": _Answering()})
        assert desk.Rows("group", "room weak_nodes") == [[(2, None), (0, [])]]
        assert desk.Rows("cluster", "room") == [[(0, {"default": None})]]

    _InSimulation(story)


def test_an_answer_that_nobody_takes_does_not_keep_others_from_theirs() -> None:
    def story() -> None:
        desk = Desk()
        desk.nodes.answers.update({"all_instances_info": [True, {}], "node_info": _Answering()})
        told = runtime.Event()

        def gone(result: Any, error: Exception | None) -> None:
            told.set()
            raise OSError("the client is gone")

        desk.data.Query("node", ["losses"], None, gone)
        told.wait()
        assert desk.Rows("node", "losses") == [[(0, [])], [(0, [])]]

    _InSimulation(story)


def test_the_state_of_an_instance_in_one_word(desk: Desk) -> None:
    inst = next(iter(desk.root.instances.values()))
    primary = desk.root.nodes[inst.primary_node].name
    running = {inst.name: {"memory": 64, "vcpus": 1, "state": 0, "time": 0}}

    def state(on_primary: Any, elsewhere: Any = None) -> str:
        desk.nodes.answers["all_instances_info"] = lambda node: on_primary if node == primary else elsewhere
        return desk.Rows("instance", "status", ["==", "name", inst.name])[0][0][1]

    nothing = [True, {}]
    assert state([True, running], nothing) == "running"
    assert state(nothing, nothing) == "ERROR_down"
    assert state(nothing, [True, running]) == "ERROR_wrongnode"
    assert state(None, [True, running]) == "ERROR_wrongnode"
    assert state(None, nothing) == "ERROR_nodedown"
    desk.root = desk.root.WithObject(inst.Replace(admin_state="down"))
    assert state([True, running], nothing) == "ERROR_up"
    assert state(nothing, nothing) == "ADMIN_down"
    desk.root = desk.root.WithObject(inst.Replace(admin_state="offline"))
    assert state(nothing, nothing) == "ADMIN_offline"


def test_locks_that_nobody_has_or_wants_are_not_listed(desk: Desk) -> None:
    desk.locks = [
        ("node/b", None, None, []),
        ("instance/a", "exclusive", ["7"], []),
        ("node/a", None, None, [("shared", ["8"])]),
    ]
    assert [row[0][1] for row in desk.Rows("lock", "name")] == ["instance/a", "node/a"]


def test_systems_are_what_all_nodes_have(desk: Desk) -> None:
    def diagnose(node: str) -> Any:
        variants = ["a", "b"] if node.startswith("node1") else ["b", "c"]
        return [True, [["debian", "/os", True, "", variants, [["p", "help"]], [20], True]]]

    desk.nodes.answers["os_diagnose"] = diagnose
    assert desk.Rows("os", "name valid variants api_versions") == [[(0, "debian"), (0, True), (0, ["b"]), (0, [20])]]


@pytest.mark.req("D22-OSP-04")
def test_the_version_of_a_system_is_known_for_each_node(desk: Desk) -> None:
    def facts(node: str) -> Any:
        return [True, {"debian": {"version": f"of {node}", "hypervisors": None}}]

    desk.nodes.answers["os_diagnose"] = lambda node: [True, [["debian", "/os", True, "", [], [], [20], True]]]
    desk.nodes.answers["os_extra_info"] = facts
    [[(_, name), (status, versions)]] = desk.Rows("os", "name os_version")
    names = {uuid: node.name for uuid, node in desk.root.nodes.items() if node.vm_capable and not node.offline}
    assert (name, status) == ("debian", 0)
    assert versions == {uuid: f"of {node}" for uuid, node in names.items()} != {}


def test_an_unknown_kind_is_refused_in_words(desk: Desk) -> None:
    with pytest.raises(errors.OpPrereqError, match="Unknown query kind 'colour'"):
        desk.data.QueryNow("colour", ["name"], None)


def test_the_cluster_tells_about_itself(desk: Desk) -> None:
    info = ClusterInfo(desk.root)
    assert info["name"] == desk.root.cluster.cluster_name
    assert info["master"] == desk.root.nodes[desk.root.cluster.master_node].name
    assert info["hvparams"].keys() >= {*desk.root.cluster.hvparams, *desk.root.cluster.enabled_hypervisors}
    assert (info["config_version"], info["os_api_version"], info["export_version"]) == (3010000, 20, 0)
    assert desk.Rows("cluster", "name drain_flag watcher_pause") == [
        [(0, desk.root.cluster.cluster_name), (0, True), (3, None)]
    ]


def test_a_node_describes_consoles_of_its_own_guests_only(desk: Desk) -> None:
    """Node2 answers for the instance that node1 was asked about, and claims another host."""
    web, other = _TwoInstances(desk)
    lie = {"kind": "msg", "message": "look at http://evil.example.com"}

    def consoles(node: str) -> Any:
        own, foreign = (web, other) if node == "node1.example.org" else (other, web)
        return [True, {own: {"kind": "msg", "message": f"of {node}"}, foreign: lie}]

    desk.nodes.answers["all_instances_info"] = lambda node: [
        True,
        {web if node == "node1.example.org" else other: {"memory": 1, "vcpus": 1, "state": 0, "time": 1.0}},
    ]
    desk.nodes.answers["instance_console_info"] = consoles
    found = {row[0][1]: row[1] for row in desk.Rows("instance", "name console")}
    assert found[web][1]["message"] == "of node1.example.org"
    assert found[other][1]["message"] == "of node2.example.org"


def _TwoInstances(desk: Desk) -> tuple[str, str]:
    """The example's instance, and a copy of it on the other node."""
    inst = desk.root.instances[configs.WEB]
    other = inst.Replace(uuid=configs.Uuid(7), name="db.example.org", primary_node=configs.NODE2, disks=[], nics=[])
    desk.root = desk.root.WithObject(other)
    return inst.name, other.name
