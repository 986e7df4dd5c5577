"""Calls of an older master's epoch: refused once a newer one is promised, waited for while they run (rule 6)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from simulated import Machine, World
from support.store_nodes import CLUSTER, Cluster

from ganeti import errors, runtime, serializer
from ganeti.rpc.base import HEADER_EPOCH
from ganeti.rpc.procedures import PROCEDURES
from ganeti.rpc.server import Dispatcher
from ganeti.store import Epoch, MasterLost, NodeStore, Row, Rows, StoreError

E1, E2, E3 = Epoch(1, "aa"), Epoch(2, "bb"), Epoch(3, "cc")
CHANGING = "set_watcher_pause"


class Node:
    """A machine whose changing calls take as long as they are told to, each served by a process of its own."""

    def __init__(self, world: World):
        self.world = world
        self.machine: Machine = world.AddMachine("node1")
        self.story: list[str] = []
        # Keeps time from leaping while a test looks.
        self.machine.StartProcess(self._Tick, "clock")

    @staticmethod
    def _Tick() -> None:
        while True:
            runtime.Sleep(0.25)

    def Store(self) -> NodeStore:
        return NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls")

    def Call(
        self, epoch: Epoch | None, seconds: float = 0.0, name: str = CHANGING, done: Callable[[Any], None] = print
    ) -> Any:
        """Starts a process that serves one call, like noded's children do."""

        def serve() -> None:
            def work(*args: Any) -> None:
                del args
                self.story.append(f"begin {epoch}")
                runtime.Sleep(seconds)
                self.story.append(f"end {epoch}")

            store = self.Store()
            dispatcher = Dispatcher({name: work}, store)
            headers = (
                {} if epoch is None else {"x-ganeti-epoch": str(epoch), "x-ganeti-master": f"master{epoch.number}"}
            )
            args: list[Any] = [1.0] if name == CHANGING else []
            status, answer, body = dispatcher.Handle(f"/{name}", headers, serializer.DumpBytes(args))
            done((status, answer, serializer.Load(body)))

        return self.machine.StartProcess(serve, "noded-child")

    def Promise(self, epoch: Epoch) -> Any:
        message = {"cluster": CLUSTER, "epoch": str(epoch), "master": f"master{epoch.number}"}
        return self.machine.Call(lambda: self.Store().Handlers()["store_promise"](message))


@pytest.fixture
def node() -> Any:
    with World(5) as world:
        yield Node(world)


def Answer(node: Node, *args: Any, **more: Any) -> Any:
    answers: list[Any] = []
    node.Call(*args, done=answers.append, **more)
    node.world.Run(until=lambda: answers)
    return answers[0]


def test_an_older_call_is_refused_with_the_name_of_the_newer_master(node: Node) -> None:
    node.Promise(E2)
    status, headers, body = Answer(node, E1)
    assert status == 409
    assert (headers["X-Ganeti-Epoch"], headers["X-Ganeti-Master"]) == ("2.bb", "master2")
    assert body[0] is False and "2.bb" in body[1]
    assert node.story == []


def test_a_changing_call_without_an_epoch_is_refused_but_for_bootstrap(node: Node) -> None:
    assert Answer(node, None)[0] == 409
    assert Answer(node, None, name="node_stop_master")[0] == 200
    assert Answer(node, None, name="version")[0] == 200


def test_a_call_of_a_newer_epoch_promises_it(node: Node) -> None:
    assert Answer(node, E2)[0] == 200
    assert Answer(node, E1)[0] == 409
    state = node.machine.Call(lambda: node.Store().GetState())
    assert (state.promised, state.promised_master) == (E2, "master2")


def test_nonsense_in_the_header_is_answered_with_words(node: Node) -> None:
    def serve() -> Any:
        dispatcher = Dispatcher({CHANGING: lambda until: None}, node.Store())
        return dispatcher.Handle(f"/{CHANGING}", {"x-ganeti-epoch": "../../etc/passwd"}, b"[1.0]")

    status, _, body = node.machine.Call(serve)
    assert status == 200
    assert serializer.Load(body)[0] is False


def test_a_promise_ends_no_call_and_tells_it(node: Node) -> None:
    answers: list[Any] = []
    node.Call(E1, 30.0, done=answers.append)
    node.world.Run(until=lambda: node.story)
    assert node.Promise(E2)["running"] == [["1.aa", CHANGING]]
    node.world.Run(until=lambda: answers)
    assert answers[0][0] == 200
    assert node.Promise(E2)["running"] == []


def test_a_call_of_the_promised_master_is_no_older_one(node: Node) -> None:
    node.Call(E1, 30.0)
    node.world.Run(until=lambda: node.story)
    assert node.Promise(E1)["running"] == []
    assert node.machine.Call(lambda: node.Store().Handlers()["store_status"]({}))["running"] == []
    answers: list[Any] = []
    node.Call(E1, 1.0, done=answers.append)
    node.world.Run(until=lambda: answers)
    assert node.story == ["begin 1.aa", "begin 1.aa", "end 1.aa"], "it does not wait for its own master's"


def test_a_newer_call_waits_until_the_older_one_has_ended(node: Node) -> None:
    answers: list[Any] = []
    node.Call(E1, 30.0)
    node.world.Run(until=lambda: node.story)
    node.Call(E2, 1.0, done=answers.append)
    node.world.Run(until=lambda: answers)
    assert node.story == ["begin 1.aa", "end 1.aa", "begin 2.bb", "end 2.bb"]
    assert answers[0][0] == 200


def test_a_call_that_waited_is_refused_if_a_newer_master_came_meanwhile(node: Node) -> None:
    answers: list[Any] = []
    node.Call(E1, 30.0)
    node.world.Run(until=lambda: node.story)
    node.Call(E2, 1.0, done=answers.append)
    node.world.RunFor(5.0)
    node.Promise(E3)
    node.world.Run(until=lambda: answers)
    assert answers[0][0] == 409
    assert answers[0][1]["X-Ganeti-Epoch"] == "3.cc"
    assert node.story == ["begin 1.aa", "end 1.aa"]


def test_a_newer_call_names_the_older_one_that_does_not_end(node: Node) -> None:
    answers: list[Any] = []
    node.Call(E1, 100_000.0)
    node.world.Run(until=lambda: node.story)
    node.Call(E2, done=lambda answer: answers.append((answer, list(node.story))))
    node.world.Run(until=lambda: answers)
    (_, _, body), story = answers[0]
    assert body[0] is False
    assert CHANGING in body[1] and "1.aa" in body[1]
    assert story == ["begin 1.aa"]


def test_the_entry_of_a_dead_process_counts_for_nothing(node: Node) -> None:
    process = node.Call(E1, 1000.0)
    node.world.Run(until=lambda: node.story)
    process.Kill()
    assert node.Promise(E2)["running"] == []
    assert node.machine.Call(runtime.ListDir, "/srv/run/calls") == []
    started = node.world.elapsed
    assert Answer(node, E2)[0] == 200
    assert node.world.elapsed - started < 1


def test_check_and_entry_are_one_step_for_a_promise() -> None:
    """Whatever the order of steps: a call either is refused, or the promise tells of it or finds it ended."""
    for seed in range(60):
        with World(seed, switch=1.0) as world:
            node = Node(world)
            node.Promise(E1)
            answers: list[Any] = []
            promised: list[Any] = []
            node.Call(E1, 0.001, done=answers.append)

            def promise(node: Node = node, promised: list[Any] = promised) -> None:
                message = {"cluster": CLUSTER, "epoch": str(E2), "master": "m"}
                answer = node.Store().Handlers()["store_promise"](message)
                promised.append((answer["running"], list(node.story)))

            node.machine.StartProcess(promise, "noded-child")
            world.Run(until=lambda promised=promised, answers=answers: promised and answers)
            running, story = promised[0]
            refused = answers[0][0] == 409 or answers[0][2][0] is False
            if refused:
                assert node.story == []
            else:
                assert running or "end 1.aa" in story


# The master's side of it


def Play(story: Callable[[], None]) -> None:
    with World(7) as world:
        world.AddMachine("all").Call(story)


def test_nodes_are_asked_once_and_a_silent_one_is_named() -> None:
    def story() -> None:
        cluster = Cluster("/srv", 4)
        store = cluster.Found(candidates=3)
        other = cluster[3]
        store.ConfirmNodes([other.member.uuid, cluster[1].member.uuid], 5.0)
        asked = other.served.count("store_promise")
        store.ConfirmNodes([other.member.uuid], 5.0)
        assert other.served.count("store_promise") == asked
        other.up = False
        store.ConfirmNodes([other.member.uuid], 5.0)
        silent = cluster.Become(1)
        with pytest.raises(StoreError) as caught:
            silent.ConfirmNodes([other.member.uuid], 3.0)
        assert "node4.example.org" in str(caught.value) and "offline" in str(caught.value.hint)
        with pytest.raises(MasterLost):
            store.ConfirmNodes([cluster[2].member.uuid], 3.0)
            store.Commit(Rows(Row("job", "1", "{}")))
        cluster.Close()

    Play(story)


def test_a_node_where_an_older_call_runs_is_waited_for() -> None:
    def story() -> None:
        cluster = Cluster("/srv", 2)
        old = cluster.Found()
        headers = {HEADER_EPOCH.lower(): str(old.Epoch())}
        running = ExitStack()
        running.enter_context(cluster[1].store.Enter(PROCEDURES["import_start"], headers))
        new = cluster.Become(0) if old.Stop() else None
        assert new is not None
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                new.ConfirmNodes([cluster[1].member.uuid], 2.0)
            assert "import_start of the former master" in str(caught.value)
        running.close()
        new.ConfirmNodes([cluster[1].member.uuid], 2.0)
        cluster.Close()

    Play(story)


def test_a_node_that_is_no_voter_and_holds_rows_is_emptied() -> None:
    def story() -> None:
        cluster = Cluster("/srv", 3)
        store = cluster.Found()
        cluster[2].up = False
        store.RemoveVoter(cluster[2].member.uuid, Rows())
        store.Stop()
        new = cluster.Become(0)
        assert cluster[2].store.GetState().last.seq
        cluster[2].up = True
        new.ConfirmNodes([cluster[2].member.uuid], 3.0)
        deadline = runtime.Monotonic() + 60
        while cluster[2].store.GetState().last.seq:
            assert runtime.Monotonic() < deadline
            runtime.Sleep(0.5)
        cluster.Close()

    Play(story)


def test_errors_of_the_store_stay_at_home() -> None:
    """Nothing of the store travels under a name 3.1 does not know."""
    assert errors.EncodeException(MasterLost("1.a", "node1", sent=True))[0] == "GenericError"
