"""A node that rejects the certificate of the master follows it by way of another candidate (design-store, 14)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.store_nodes import CLUSTER, Live, Story, Until

from ganeti import errors, runtime, serializer
from ganeti.rpc import RpcRunner
from ganeti.rpc.base import Answer, Failure, Request
from ganeti.store import Epoch, MasterLost, Member, NoQuorum, Row, Rows
from ganeti.store.election import NotElected
from ganeti.store.relay import MAX_AT_ONCE, RELAYED, Passer, ReadRelayed, Relay

OLD, NEWER = Epoch(1, "aa"), Epoch(99, "other")
NODES = [f"node{number}.example.org" for number in range(1, 6)]


def Job(number: int) -> Rows:
    return Rows(Row("job", str(number), "{}"))


def NodeRow(member: Member) -> Row:
    return Row("node", member.uuid, serializer.Dump({"name": member.name, "primary_ip": member.address}))


def Relays(cluster: Any, number: int) -> int:
    return int(cluster[number].served.count("store_relay"))


def Rejecting(make: Any, count: int, number: int) -> tuple[Any, Any]:
    """A cluster whose master is node NUMBER + 1, which the last one does not know; and the new master's store."""
    cluster = make(count)
    cluster.wanted = cluster.members
    store = cluster.Found(0, *(NodeRow(member) for member in cluster.members))
    Until(store.IsSettled)
    store.Stop()
    cluster[-1].rejects = {NODES[number]}
    return cluster, cluster.Become(number)


@Story
def test_a_voter_that_rejects_the_master_follows_it_by_way_of_another(make: Any) -> None:
    cluster, store = Rejecting(make, 3, 1)
    store.Commit(Job(1))
    Until(store.IsSettled)
    assert Live(cluster[2]) == Live(cluster[1])
    assert store.Silent() == []
    assert Relays(cluster, 0) > 0
    # Once it knows, nobody is asked to help.
    cluster[2].rejects = set()
    before = Relays(cluster, 0)
    store.Commit(Job(2))
    Until(store.IsSettled)
    assert Relays(cluster, 0) == before


@Story
def test_one_that_lost_everything_is_copied_in_the_same_way(make: Any) -> None:
    cluster, store = Rejecting(make, 3, 1)
    Until(store.IsSettled)
    cluster[2].LoseDisk()
    store.Commit(Job(1))
    Until(lambda: store.IsSettled() and Live(cluster[2]) == Live(cluster[1]), 60)


@Story
def test_its_answer_makes_the_quorum(make: Any) -> None:
    """Three of five are up: the master, a helper and the one that rejects."""
    cluster, store = Rejecting(make, 5, 1)
    Until(store.IsSettled)
    cluster[0].up = cluster[2].up = False
    store.Commit(Job(1))
    assert Live(cluster[4])["job", "1"] == "{}"


@Story
def test_its_promise_makes_a_master(make: Any) -> None:
    cluster = make(5)
    store = cluster.Found()
    Until(store.IsSettled)
    store.Commit(Job(1))
    Until(store.IsSettled)
    store.Stop()
    cluster[0].up = cluster[2].up = False
    cluster[4].rejects = {NODES[1]}
    store = cluster.Become(1)
    store.Commit(Job(2))
    assert cluster[4].store.GetState().promised == store.Epoch()


@Story
def test_where_nobody_helps_it_is_silent_and_named(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    store.Stop()
    cluster[2].rejects = set(NODES[:2])
    store = cluster.Become(1)
    Until(lambda: store.Silent() == [NODES[2]])
    store.Commit(Job(1))
    cluster[0].up = False
    with pytest.raises(NoQuorum) as caught:
        for number in range(2, 20):
            try:
                store.Commit(Job(number))
            except NoQuorum:
                raise
            except errors.GenericError:
                runtime.Sleep(1)
    assert f"gnt-cluster getmaster' on {NODES[2]}" in str(caught.value.hint)


def test_the_log_names_helper_and_way_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    wire = _Wires({"n2": {}, "n3": {"n9": "SILENT"}})
    relay = Relay(wire, _Common, lambda: [Member("u2", "n2", "h2"), Member("u3", "n3", "h3")])
    for _ in range(2):
        _Submit(relay, "n9")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "'gnt-node add --readd n9'" in warnings[0]
    wire.helpers["n3"] = {"n9": "ok"}
    for _ in range(2):
        assert _Submit(relay, "n9").body == b"ok"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2 and "node n3 passes the store's calls on" in warnings[1]


# The helper's side


class _Notes:
    """A way that notes what is sent, and answers."""

    def __init__(self, answer: Answer):
        self.sent: list[Request] = []
        self._answer = answer

    def Submit(self, request: Request, done: Any) -> None:
        self.sent.append(request)
        done(self._answer)

    def Abort(self, request: Request) -> None:
        del request

    def Close(self) -> None:
        """Nothing is open."""


def _Envelope(epoch: Epoch, procedure: str = "store_append", **changed: Any) -> dict[str, Any]:
    common = {"cluster": CLUSTER, "epoch": str(epoch), "master": NODES[1]}
    return {**common, "node": NODES[2], "procedure": procedure, "body": serializer.Dump([common]), **changed}


@Story
def test_a_helper_passes_on_nothing_of_an_epoch_below_its_own(make: Any) -> None:
    cluster = make(3)
    cluster.Found().Stop()
    cluster[0].store.Promise(CLUSTER, NEWER, "node9.example.org")
    way = _Notes(Answer(None, 200, {}, b"[true, {}]"))
    passer = Passer(cluster[0].store, lambda: way)
    for procedure in RELAYED - {"store_status"}:
        answer = passer.Pass(_Envelope(OLD, procedure))
        assert (answer["refused"], answer["master"]) == (str(NEWER), "node9.example.org")
    assert way.sent == []
    # The epoch inside is the one that counts for the node: it must be the one that was looked at.
    with pytest.raises(errors.RpcCallError, match="not of the cluster and epoch"):
        passer.Pass({**_Envelope(OLD), "epoch": str(NEWER)})
    assert way.sent == []
    assert passer.Pass(_Envelope(NEWER))["status"] == 200
    assert [(request.node, request.host, request.path) for request in way.sent] == [
        (NODES[2], cluster[2].member.address, "/store_append")
    ]


@Story
def test_a_helper_promises_the_newer_epoch_of_what_it_passes_on(make: Any) -> None:
    cluster = make(3)
    cluster.Found().Stop()
    Passer(cluster[0].store, lambda: _Notes(Answer("gone"))).Pass(_Envelope(NEWER))
    assert cluster[0].store.GetState().promised == NEWER
    before = cluster[1].store.GetState().promised
    Passer(cluster[1].store, lambda: _Notes(Answer("gone"))).Pass(_Envelope(NEWER, "store_status"))
    assert cluster[1].store.GetState().promised == before


@Story
def test_a_helper_writes_the_list_under_the_master_s_epoch(make: Any) -> None:
    cluster = make(3)
    cluster.Found().Stop()
    way = _Notes(Answer(None, 409, {"x-ganeti-epoch": "100.x", "x-ganeti-master": "n", "other": "x"}, b"[false, 1]"))
    answer = Passer(cluster[0].store, lambda: way).Pass(_Envelope(NEWER, "write_ssconf_files", body="[{}]"))
    assert way.sent[0].headers["X-Ganeti-Epoch"] == str(NEWER)
    assert (way.sent[0].headers["X-Ganeti-Master"], way.sent[0].body) == (NODES[1], b"[{}]")
    found, _ = ReadRelayed(Answer(None, 200, {}, serializer.DumpBytes([True, answer])))
    assert found == Answer(None, 409, {"x-ganeti-epoch": "100.x", "x-ganeti-master": "n"}, b"[false, 1]")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"procedure": "node_powercycle"}, "is not passed on"),
        ({"procedure": "store_relay"}, "is not passed on"),
        ({"procedure": ["store_append"]}, "is not passed on"),
        ({"node": "evil.example.com"}, "knows no node"),
        ({"node": 7}, "must name a node"),
        ({"body": None}, "must name a node"),
        ({"body": "[]"}, "not of the cluster"),
        ({"body": "["}, "JSON"),
        ({"epoch": "x"}, "epoch"),
        ({"cluster": "another"}, "not of the cluster"),
    ],
)
def test_a_helper_calls_only_nodes_of_its_cluster_and_nothing_but_the_store(changed: Any, message: str) -> None:
    @Story
    def play(make: Any) -> None:
        cluster = make(3)
        cluster.Found().Stop()
        way = _Notes(Answer(None, 200, {}, b"[true, {}]"))
        with pytest.raises(errors.GenericError, match=message):
            Passer(cluster[0].store, lambda: way).Pass({**_Envelope(NEWER), **changed})
        assert way.sent == []

    play()


# Old masters


@Story
def test_the_node_itself_refuses_a_master_that_was_replaced(make: Any) -> None:
    """A helper that has not heard of the newer master passes the call on; the node has, and the old master ends."""
    cluster, store = Rejecting(make, 3, 1)
    Until(store.IsSettled)
    before = cluster[2].store.GetState().last
    cluster[2].store.Promise(CLUSTER, NEWER, NODES[2])
    with pytest.raises(MasterLost):
        for number in range(1, 100):
            store.Commit(Job(number))
            runtime.Sleep(0.1)
    assert cluster[2].store.GetState().last == before
    assert not store.IsRunning()


class _CarelessPasser(Passer):
    """A planted bug: what is passed on goes out under the helper's own epoch, whoever the master was."""

    def Pass(self, value: dict[str, Any]) -> dict[str, Any]:
        own = str(self._own.GetState().promised)
        (inner,) = serializer.Load(value["body"])
        return super().Pass({**value, "epoch": own, "body": serializer.Dump([{**inner, "epoch": own}])})


@pytest.mark.parametrize("passer", (Passer, _CarelessPasser))
def test_an_old_master_changes_no_node_of_a_newer_epoch_through_a_helper(passer: type[Passer]) -> None:
    """Whoever passes on without the epoch of the call lets a master that was replaced write to nodes of the newer one."""

    @Story
    def play(make: Any) -> None:
        cluster = make(3)
        store = cluster.Found()
        Until(store.IsSettled)
        last = cluster[2].store.GetState().last
        epoch = store.Epoch()
        for node in (cluster[0], cluster[2]):
            node.store.Promise(CLUSTER, NEWER, NODES[0])
        common = {"cluster": CLUSTER, "epoch": str(epoch), "master": NODES[0]}
        rows = {"stores": [cluster[2].store.GetState().store_id], "before": last.Wire(), "seq": last.seq + 1}
        body = [{**common, **rows, "rows": [["job", "7", "{}"]], "acknowledged": last.Wire(), "prune": 0}]
        envelope = {**common, "node": NODES[2], "procedure": "store_append", "body": serializer.Dump(body)}
        answer = passer(cluster[0].store, lambda: cluster[0].way).Pass(envelope)
        written = ("job", "7") in Live(cluster[2])
        assert written is (passer is _CarelessPasser)
        assert ("refused" in answer) is (passer is Passer)

    play()


@Story
def test_a_start_that_was_overtaken_hears_of_it_through_a_helper(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[2].rejects = {NODES[1]}
    cluster[2].store.Promise(CLUSTER, NEWER, NODES[2])
    store.Stop()
    cluster[2].store.Serve()
    with pytest.raises(NotElected, match="runs the master daemon"):
        cluster.Become(1, vote=lambda: None)


# The caller's side


def _Common() -> dict[str, str]:
    return {"cluster": CLUSTER, "epoch": "1.aa", "master": "n1"}


class _Wires:
    """Nodes that reject everybody but helpers; ``helpers``: name -> node -> how that one answers it."""

    def __init__(self, helpers: dict[str, dict[str, str]]):
        self.helpers = helpers
        self.asked: list[tuple[str, str]] = []
        self.held: list[Any] | None = None
        self.aborted: list[Request] = []

    def Submit(self, request: Request, done: Any) -> None:
        self.asked.append((request.node, request.path))
        if request.path != "/store_relay":
            done(Answer("rejected", failure=Failure.REJECTED))
            return
        if self.held is not None:
            self.held.append((request, done))
            return
        (message,) = serializer.Load(request.body)
        outcome = self.helpers[request.node].get(message["node"], "REJECTED")
        payload = (
            {"status": 200, "headers": {}, "body": outcome} if outcome == "ok" else {"failure": f"it is {outcome}"}
        )
        done(Answer(None, 200, {}, serializer.DumpBytes([True, payload])))

    def Abort(self, request: Request) -> None:
        self.aborted.append(request)

    def Close(self) -> None:
        """Nothing is open."""


def _Submit(relay: Relay, node: str, path: str = "/store_append") -> Answer:
    answers: list[Answer] = []
    relay.Submit(Request(node, "h", 1811, path, b"[{}]"), answers.append)
    (answer,) = answers
    return answer


def test_helpers_are_asked_one_after_the_other_and_the_good_one_first() -> None:
    helpers = [Member(f"u{number}", f"n{number}", f"h{number}") for number in range(2, 5)]
    wire = _Wires({"n2": {}, "n3": {"n9": "ok"}, "n4": {"n9": "ok"}})
    relay = Relay(wire, _Common, lambda: [*helpers, Member("u9", "n9", "h9")])
    assert _Submit(relay, "n9").body == b"ok"
    assert [node for node, _ in wire.asked] == ["n9", "n2", "n3"]
    wire.asked.clear()
    assert _Submit(relay, "n9").body == b"ok"
    assert [node for node, _ in wire.asked] == ["n9", "n3"]


def test_what_nobody_passes_on_stays_rejected() -> None:
    wire = _Wires({"n2": {}})
    relay = Relay(wire, _Common, lambda: [Member("u2", "n2", "h2")])
    assert _Submit(relay, "n9").failure is Failure.REJECTED
    wire.asked.clear()
    assert _Submit(relay, "n9", "/node_info").failure is Failure.REJECTED
    assert wire.asked == [("n9", "/node_info")]


def test_few_calls_wait_for_helpers_at_a_time() -> None:
    wire = _Wires({})
    wire.held = []
    relay = Relay(wire, _Common, lambda: [Member("u2", "n2", "h2")])
    answers: list[Answer] = []
    for number in range(10, 20):
        relay.Submit(Request(f"n{number}", "h", 1811, "/store_append", b"[{}]"), answers.append)
    assert (len(wire.held), answers) == (MAX_AT_ONCE, [])
    while wire.held:
        assert len(wire.held) <= MAX_AT_ONCE
        _, done = wire.held.pop(0)
        done(Answer("gone", failure=Failure.REFUSED))
    assert [answer.failure for answer in answers] == [Failure.REJECTED] * 10


def test_an_aborted_call_asks_nobody_else() -> None:
    wire = _Wires({})
    wire.held = []
    relay = Relay(wire, _Common, lambda: [Member("u2", "n2", "h2"), Member("u3", "n3", "h3")])
    answers: list[Answer] = []
    request = Request("n9", "h", 1811, "/store_append", b"[{}]")
    relay.Submit(request, answers.append)
    relay.Abort(request)
    (held,) = wire.held
    assert wire.aborted == [held[0]]
    held[1](Answer("aborted"))
    assert len(answers) == 1 and wire.asked[-1] == ("n2", "/store_relay")


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"7", b"[true]", b"[true, 7]", b"[true, {}]", b'[false, "no"]', b'[true, {"status": "x"}]',
     b'[true, {"status": 200, "headers": [], "body": ""}]', b'[true, {"status": 200, "headers": {}, "body": 7}]'],
)  # fmt: skip
def test_a_helper_that_answers_without_sense_is_no_help(body: bytes) -> None:
    found, reason = ReadRelayed(Answer(None, 200, {}, body))
    assert found is None and reason


def test_a_runner_takes_what_was_passed_on_for_the_node_s_own_answer() -> None:
    class Wires(_Wires):
        def Submit(self, request: Request, done: Any) -> None:
            if request.path == "/store_relay":
                payload = {
                    "status": 409,
                    "headers": {"x-ganeti-epoch": "9.x", "x-ganeti-master": "n7"},
                    "body": '[false, "refused"]',
                }
                done(Answer(None, 200, {}, serializer.DumpBytes([True, payload])))
            else:
                super().Submit(request, done)

    relay = Relay(Wires({}), _Common, lambda: [Member("u2", "n2", "h2")])
    refused: list[Any] = []
    runner = RpcRunner(
        relay,
        lambda node: (node, "h", 1811, False, node),
        lambda: "1.aa",
        refused=lambda *args: refused.append(args),
    )
    (result,) = runner.call_write_ssconf_files(["n9"], {"cluster_name": "c"}).values()
    assert result.fail_msg == "refused"
    assert refused == [("9.x", "n7", "n9")]
