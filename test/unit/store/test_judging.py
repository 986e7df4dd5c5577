"""What a node that becomes master makes of the answers: which history it adopts, and when it does not start (rules 5, 8)."""

from __future__ import annotations

from typing import Any

import pytest
from support.store_nodes import CLUSTER, Story

from ganeti import errors, serializer
from ganeti.rpc.base import Answer, Failure, Request
from ganeti.store import Epoch, Member, Position, Row, Rows, Voter, election
from ganeti.store.base import NOWHERE, Line, VoterSet
from ganeti.store.election import Election, Heard, IsForkedByForce, NotElected
from ganeti.store.relay import MAX_TEXT, Passer, ReadRelayed, Relay
from ganeti.store.silence import Silent

E1, E2, E3 = Epoch(1, "aa"), Epoch(2, "bb"), Epoch(3, "cc")


def member(number: int) -> Member:
    return Member(f"u{number}", f"n{number}", f"192.0.2.{number}")


def voters(*numbers: int) -> VoterSet:
    return VoterSet(Voter(member(number), f"s{number}") for number in numbers)


def line(*entries: tuple[Epoch, int], last: int) -> Line:
    return Line(entries, Position(entries[-1][0], last) if entries else NOWHERE)


def heard(number: int, held: Line, acknowledged: Position = NOWHERE, **more: Any) -> Heard:
    values: dict[str, Any] = {
        "cluster": "c",
        "store_id": f"s{number}",
        "promised": E3,
        "master": "n1",
        "voters": voters(1, 2, 3),
        "pruned": 0,
        "serving": False,
        **more,
    }
    return Heard(member=member(number), last=held.last, line=held, acknowledged=acknowledged, **values)


ONE = line((E1, 1), last=9)
"""A history of one master."""
LONGER = line((E1, 1), last=12)
NEWER = line((E1, 1), (E2, 8), last=8)
"""Another master began where seven transactions were known."""


class Judge:
    """The election of node 1, as it stands after a round with these answers."""

    def __init__(self, make: Any, *answers: Heard):
        cluster = make(1)
        node = cluster[0]
        self.election = Election(node.store, member(1), [], node.way, CLUSTER)
        self.election.answers = {answer.member.uuid: answer for answer in answers}


@Story
def test_the_history_of_the_newest_master_is_adopted_and_the_own_where_it_is_as_new(make: Any) -> None:
    judge = Judge(make, heard(1, ONE), heard(2, LONGER), heard(3, NEWER)).election
    assert judge.Newest().member.name == "n3", "the epoch comes first, however long the others are"
    judge.answers = {answer.member.uuid: answer for answer in (heard(2, ONE), heard(1, ONE), heard(3, ONE))}
    assert judge.Newest().member.name == "n1", "nothing has to be fetched"
    del judge.answers["u3"]
    judge.answers["u2"] = heard(2, LONGER)
    assert judge.Newest().member.name == "n2"
    assert judge.SetOf(judge.Newest()) == voters(1, 2, 3)


@Story
def test_only_listed_databases_count_for_a_quorum(make: Any) -> None:
    judge = Judge(make, heard(1, ONE), heard(2, ONE, store_id="new"), heard(4, ONE)).election
    assert [found.member.name for found in judge.Promised(voters(1, 2, 3))] == ["n1"]
    judge.CheckMember(judge.Newest())
    for newest in (heard(2, NEWER, voters=voters(2, 3)), heard(2, NEWER, voters=VoterSet([Voter(member(1), "old")]))):
        with pytest.raises(NotElected, match="does not count this node among its voters") as caught:
            judge.CheckMember(newest)
        assert caught.value.hint


@Story
def test_a_start_is_refused_where_an_acknowledged_change_is_missing(make: Any) -> None:
    knows = heard(2, line((E1, 1), last=12), acknowledged=Position(E1, 12))
    judge = Judge(make, heard(1, NEWER), knows).election
    judge.silent = {"u3": Silent("n3", Failure.UNREACHABLE, "")}
    with pytest.raises(NotElected, match=r"node n2 knows that change 1\.aa/12 was acknowledged") as caught:
        judge.CheckNothingLost(judge.answers["u1"])
    assert "bring back the candidates that do not answer (n3)" in str(caught.value.hint)
    # What the newest history holds is not lost, and what no voter says counts as little as a stranger's word.
    judge.answers["u2"] = heard(2, ONE, acknowledged=Position(E1, 7))
    judge.CheckNothingLost(judge.answers["u1"])
    judge.answers["u2"] = heard(2, LONGER, acknowledged=Position(E1, 12), store_id="stray")
    judge.CheckNothingLost(judge.answers["u1"])


FORCED = line((E1, 1), (E2, 5), last=6)
"""A forced start that began without what others had from the fifth transaction on."""


def test_who_left_whom_by_force() -> None:
    forced, old = heard(1, FORCED, forced=frozenset([E2])), heard(2, ONE)
    assert IsForkedByForce(forced, old) and not IsForkedByForce(old, forced)
    both = heard(2, line((E1, 1), (E2, 5), last=9), forced=frozenset([E2]))
    assert not IsForkedByForce(forced, both), "it is the same history"
    assert not IsForkedByForce(heard(1, FORCED), old), "an election is no forced start"
    assert not IsForkedByForce(heard(1, line((E1, 1), last=5), forced=frozenset([E2])), old)


@Story
def test_a_quorum_that_holds_what_it_acknowledged_overrules_a_forced_start_and_one_node_does_not(make: Any) -> None:
    stray = heard(1, FORCED, forced=frozenset([E2]), voters=voters(1))
    quorum = [heard(number, ONE, acknowledged=Position(E1, 9)) for number in (2, 3)]
    judge = Judge(make, stray, *quorum).election
    assert judge.Newest().member.name in ("n2", "n3")
    with pytest.raises(
        NotElected, match="this node was made master by a forced start, and now n2, n3 answer"
    ) as caught:
        judge.CheckOwnSide(judge.Newest())
    assert "node-cleanup" in str(caught.value.hint) or "cleanup" in str(caught.value.hint)
    judge.CheckOwnSide(stray)
    judge.CheckNothingLost(quorum[0])
    for less in (
        [quorum[0]],  # alone: a dead master that had gone on looks the same
        [heard(number, ONE, acknowledged=Position(E1, 4)) for number in (2, 3)],  # nothing of theirs is missing
        [quorum[0], heard(3, line((E1, 1), last=3), acknowledged=NOWHERE)],  # the second does not hold it
        [quorum[0], heard(3, ONE, acknowledged=Position(E1, 9), store_id="another")],
        [heard(2, ONE, acknowledged=Position(E1, 9), voters=voters(2))],
    ):
        judge.answers = {answer.member.uuid: answer for answer in (stray, *less)}
        assert judge.Newest().member.name == "n1", less


@Story
def test_what_an_administrator_is_asked_names_everybody(make: Any) -> None:
    judge = Judge(make, heard(1, NEWER), heard(2, ONE)).election
    judge.silent = {
        "u3": Silent("n3", Failure.UNREACHABLE, ""),
        "u4": Silent("n4", Failure.SILENT, ""),
    }
    question = judge.Question(judge.Newest())
    assert (question.silent, question.newest, question.voters) == (["n3", "n4"], "n1", ["n1", "n2", "n3"])
    assert question.answers == [("n1", NEWER.last), ("n2", ONE.last)]
    assert question.running == ("n4",)
    text = "\n".join(question.Lines())
    assert "n4 accepted the connection and did not answer; n3 cannot be reached" in text
    assert "  n2: its copy ends at 1.aa/9" in text and "it names as voters: n1, n2, n3" in text
    bare = election.ForcedStart(E1, [], [], "n1", [])
    assert "Nodes that do not answer: none." in "\n".join(bare.Lines())


@pytest.mark.parametrize(
    "change",
    [
        {"last": None},
        {"last": ...},
        {"line": [["1.aa", 5]]},
        {"promised": "x"},
        {"promised": ...},
        {"voters": "[]"},
        {"acknowledged": ["1.aa"]},
        {"pruned": "many"},
        {"pruned": None},
        {"forced": "{}"},
        {"store": ...},
        {"cluster": ...},
        {"serving": ...},
        {"master": ...},
    ],
    ids=str,
)
def test_an_answer_that_lacks_something_is_none(change: dict[str, Any]) -> None:
    @Story
    def play(make: Any) -> None:
        cluster = make(1)
        cluster.Found().Stop()
        good = serializer.Load(serializer.Dump(cluster[0].store.Describe()))
        assert Heard.Parse(member(1), good).last == cluster[0].store.GetState().last
        bad = {key: value for key, value in {**good, **change}.items() if value is not ...}
        with pytest.raises(errors.ParseError):
            Heard.Parse(member(1), bad)

    play()


def test_an_answer_that_is_no_object_is_none() -> None:
    for odd in (None, 5, [], "x"):
        with pytest.raises(errors.ParseError):
            Heard.Parse(member(1), odd)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ([heard(1, ONE), heard(2, ONE)], ""),
        ([heard(1, ONE)], "node n2 no longer answers"),
        ([heard(1, ONE), heard(2, ONE), heard(3, ONE)], "node n3 answers now: it may hold more"),
        ([heard(1, ONE), heard(2, LONGER)], "the copy of node n2 changed meanwhile"),
        ([heard(1, ONE), heard(2, ONE, store_id="new")], "the copy of node n2 changed meanwhile"),
    ],
)
def test_a_forced_start_is_made_only_on_what_the_administrator_was_asked_about(now: list[Heard], words: str) -> None:
    @Story
    def play(make: Any) -> None:
        judge = Judge(make, *now).election
        before = {answer.member.uuid: answer for answer in (heard(1, ONE), heard(2, ONE))}
        if not words:
            judge._CheckSame(before)
            return
        with pytest.raises(NotElected, match=words) as caught:
            judge._CheckSame(before)
        assert caught.value.hint == "start the master daemon again"

    play()


@Story
def test_a_plain_start_is_refused_while_another_master_works_and_not_because_of_one_that_was(make: Any) -> None:
    cluster = make(3)
    cluster.Found().Stop()
    working = cluster.Become(1)
    with pytest.raises(NotElected, match=r"node node2\.example\.org runs the master daemon"):
        cluster.Become(0, vote=lambda: None)
    working.Commit(Rows(Row("job", "1", "{}")))
    assert working.IsRunning(), "the start that was refused disturbed nobody"
    working.Stop()
    # A daemon that only holds its own store open, and follows somebody else, is no other master.
    with cluster[2].store.Serve():
        assert cluster.Become(0, vote=lambda: None).Rows("job") == {"1": "{}"}


# Calls that are passed on


class Way:
    """A transport that answers when it is told to, and notes how it was used."""

    def __init__(self, answer: Answer | None):
        self.answer = answer
        self.sent: list[Request] = []
        self.aborted: list[Request] = []
        self.held: list[Any] = []
        self.closed = 0

    def Submit(self, request: Request, done: Any) -> None:
        self.sent.append(request)
        if self.answer is None:
            self.held.append(done)
        else:
            done(self.answer)

    def Abort(self, request: Request) -> None:
        self.aborted.append(request)

    def Close(self) -> None:
        self.closed += 1


@Story
def test_a_helper_says_how_the_node_answered_or_did_not(make: Any) -> None:
    cluster = make(3)
    gone = Row("node", "u8", None)
    known = Row("node", "u9", serializer.Dump({"name": "n9", "primary_ip": "192.0.2.9"}))
    cluster.Found(0, known, gone, Row("node", "u7", '"odd"')).Stop()
    epoch = cluster[0].store.GetState().promised
    common = {"cluster": CLUSTER, "epoch": str(epoch), "master": "m"}
    envelope = {**common, "node": "n9", "procedure": "store_append", "body": serializer.Dump([common])}

    def passed(way: Way, **changed: Any) -> Any:
        return Passer(cluster[0].store, lambda: way).Pass({**envelope, **changed})

    way = Way(Answer(None, 200, {"x-other": "1"}, b"[true, 1]"))
    assert passed(way) == {"status": 200, "headers": {}, "body": "[true, 1]"}
    assert [(request.node, request.host, request.urgent) for request in way.sent] == [("n9", "192.0.2.9", True)]
    assert way.closed == 1 and "X-Ganeti-Epoch" not in way.sent[0].headers
    told = passed(Way(Answer("no route", failure=Failure.UNREACHABLE)))
    assert told == {"failure": "n9 cannot be reached: no route"}
    found, reason = ReadRelayed(Answer(None, 200, {}, serializer.DumpBytes([True, told])))
    assert (found, reason) == (None, "n9 cannot be reached: no route")
    # As much as one call may carry, and not more.
    assert len(passed(Way(Answer(None, 200, {}, b"x" * MAX_TEXT)))["body"]) == MAX_TEXT
    with pytest.raises(errors.RpcCallError, match="too large to be passed on"):
        passed(Way(Answer(None, 200, {}, b"x" * (MAX_TEXT + 1))))
    with pytest.raises(errors.RpcCallError, match="must name a node and have a body"):
        passed(Way(None), body="x" * (MAX_TEXT + 1))
    # A status is nobody's in particular, so it needs no epoch.
    status = Way(Answer(None, 200, {}, b"[true, {}]"))
    assert passed(status, procedure="store_status", epoch="nonsense")["status"] == 200
    old = Way(None)
    assert passed(old, epoch="0.a", body=serializer.Dump([{**common, "epoch": "0.a"}]))["refused"] == str(epoch)
    assert old.sent == []


def test_what_a_helper_answers_is_read_with_its_reason() -> None:
    assert ReadRelayed(Answer("no route")) == (None, "no route")
    assert ReadRelayed(Answer(None, 503, {}, b"")) == (None, "HTTP status 503")
    assert ReadRelayed(Answer(None, 200, {}, b'[false, "busy"]')) == (None, "busy")
    assert ReadRelayed(Answer(None, 200, {}, b"[true, 5, 6]")) == (None, "its answer makes no sense")
    assert ReadRelayed(Answer(None, 200, {}, b'[true, {"refused": "9.x"}]')) == (None, "9.x")
    found, reason = ReadRelayed(Answer(None, 200, {}, b'[true, {"status": 409, "headers": {"a": 5}, "body": "x"}]'))
    assert (found, reason) == (Answer(None, 409, {"a": "5"}, b"x"), "")
    long = serializer.DumpBytes([False, "x" * 1000])
    assert len(ReadRelayed(Answer(None, 200, {}, long))[1]) == 200


def common() -> dict[str, str]:
    return {"cluster": CLUSTER, "epoch": "1.aa", "master": "n1"}


@Story
def test_a_node_that_answers_by_itself_again_is_no_longer_helped_by_the_last_one(make: Any) -> None:
    del make
    way = Way(Answer("rejected", failure=Failure.REJECTED))
    relay = Relay(way, common, lambda: [member(2), member(3)])

    def ask() -> None:
        relay.Submit(Request("n9", "h", 1811, "/store_append", b"[{}]"), lambda answer: None)

    ask()
    assert [request.node for request in way.sent] == ["n9", "n2", "n3"]
    assert [request.path for request in way.sent] == ["/store_append", "/store_relay", "/store_relay"]
    [message] = serializer.Load(way.sent[1].body)
    assert message == {**common(), "node": "n9", "procedure": "store_append", "body": "[{}]"}
    way.sent.clear()
    relay.Submit(Request("n9", "h", 1811, "/store_status", b"[{}]"), lambda answer: None)
    [message] = serializer.Load(way.sent[1].body)
    assert message == {"node": "n9", "procedure": "store_status", "body": "[{}]"}
    relay.Close()
    assert way.closed == 1


@Story
def test_a_call_that_is_aborted_before_its_turn_asks_nobody(make: Any) -> None:
    del make
    way = Way(None)
    relay = Relay(way, common, lambda: [member(2)])
    answers: list[Answer] = []
    requests = [Request(f"n{number}", "h", 1811, "/store_append", b"[{}]") for number in range(20, 40)]
    for request in requests:
        relay.Submit(request, answers.append)
    rejected, way.held = way.held, []
    for done in rejected:
        done(Answer("rejected", failure=Failure.REJECTED))
    running = len(way.held)
    assert 0 < running < 20
    for request in requests[running:]:
        relay.Abort(request)
    assert way.aborted == requests[running:], "what is under way of them is the call itself"
    while way.held:
        way.held.pop()(Answer("gone", failure=Failure.REFUSED))
    assert len(answers) == 20 and {answer.failure for answer in answers} == {Failure.REJECTED}
    assert sum(request.path == "/store_relay" for request in way.sent) == running
