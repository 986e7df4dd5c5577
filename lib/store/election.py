"""Becoming master (rules 5 and 8): a start, a restart or a fail-over that the administrator ordered; never a choice.

::

    vote --> own promise --> everybody's promises --> newest history, its set, its quorum
                                    ^                           |
                                    +--- members not asked yet --+--> fetch --> own copy + first transaction --> quorum
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, pathutils, runtime, serializer
from ganeti.rpc.base import Failure
from ganeti.rpc.runner import RpcRunner
from ganeti.store import silence
from ganeti.store.base import (
    FORCED_START,
    ID_FORCED,
    ID_MASTER,
    KIND_MASTER,
    RUN_LENGTH,
    Epoch,
    EpochTooOld,
    Line,
    Member,
    ParseStoredRows,
    Position,
    Row,
    StoredRow,
    StoreError,
    VoterSet,
)
from ganeti.store.commit.peers import Directory
from ganeti.store.copy.database import AfterAll, CursorOf
from ganeti.store.copy.image import Image
from ganeti.store.master import Store
from ganeti.store.relay import Relay
from ganeti.store.silence import Silent

if TYPE_CHECKING:
    from ganeti.rpc.base import Transport
    from ganeti.runtime import protocols
    from ganeti.store.copy.node import NodeStore

_ROUNDS = 6
_FORCED_KEPT = 20
# So many nodes must agree on a history for it to stand against a forced start.
_WITNESSES = 2
_AGAIN = "start the master daemon again"
READY_TIMEOUT = 60.0


@dataclass(frozen=True)
class Adopted:
    """The history that a new master takes over, for those that add to its first transaction.

    ``values``: kind -> id -> JSON text; ``seqs``: kind -> id -> seq of the last write, deletions too; ``without``: uuids of
    the silent nodes of a forced start, else empty.
    """

    values: dict[str, dict[str, str]]
    seqs: dict[str, dict[str, int]]
    last: Position
    line: Line
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fetched:
    """The rows that a new master lacked: all of a history, or, if ``partial``, those written after its own last.

    ``rows`` is None if it lacked none; ``pruned`` is how far the node that gave them had pruned deletions.
    """

    rows: list[StoredRow] | None
    partial: bool
    pruned: int


FirstRows = Callable[[Adopted], Sequence[Row]]


class NotElected(StoreError):
    """This node does not become master; nothing was changed but promises."""

    exit_code = constants.EXIT_NOTMASTER


class TooFewAnswer(NotElected):
    """It may, when more nodes answer: whoever supervises the daemon is to start it again."""

    exit_code = constants.EXIT_FAILURE


@dataclass(frozen=True)
class Heard:
    """One node's answer about its store."""

    member: Member
    cluster: str
    store_id: str
    promised: Epoch
    master: str
    last: Position
    line: Line
    voters: VoterSet
    acknowledged: Position
    pruned: int
    serving: bool
    forced: frozenset[Epoch] = frozenset()

    @staticmethod
    def Parse(member: Member, answer: Any) -> Heard:
        """Return the answer of a node; raise ParseError if it makes no sense."""
        if not isinstance(answer, dict):
            raise errors.ParseError("the answer must be an object")
        try:
            last = Position.Parse(answer["last"])
            return Heard(
                member,
                str(answer["cluster"]),
                str(answer["store"]),
                Epoch.Parse(answer["promised"]),
                str(answer["master"]),
                last,
                Line.Parse(answer["line"], last),
                VoterSet.FromText(answer["voters"]),
                Position.Parse(answer["acknowledged"]),
                int(answer["pruned"]),
                bool(answer["serving"]),
                frozenset(epoch for epoch, _ in ParseForced(answer.get("forced"))),
            )
        except (KeyError, TypeError, ValueError) as err:
            raise errors.ParseError(f"the answer lacks something ({err})") from err


@dataclass(frozen=True)
class ForcedStart:
    """The question to the administrator: are the silent nodes off, and do they stay off?

    ``silence`` says how each of them is silent; those that are ``running`` accepted a connection, and are not off.
    """

    epoch: Epoch
    silent: list[str]
    answers: list[tuple[str, Position]]
    newest: str
    voters: list[str]
    silence: str = ""
    running: tuple[str, ...] = ()
    next_step: str = ""

    def Lines(self) -> list[str]:
        """Return the question in words."""
        lines = ["There is no quorum among the master candidates: this would be a forced start."]
        lines.append(f"Nodes that do not answer: {self.silence or ', '.join(self.silent) or 'none'}.")
        lines += [f"  {name}: its copy ends at {last}" for name, last in self.answers]
        lines.append(f"The copy of {self.newest} would be taken; it names as voters: {', '.join(self.voters)}.")
        lines.append(
            "Every node that does not answer must be off, and stay off until this master has reached it;"
            " changes that only those nodes hold are given up."
        )
        return lines


class Election:
    """One attempt.  ``answers`` and ``silent`` are those of the last round."""

    store_class: type[Store] = Store

    def __init__(self, own: NodeStore, me: Member, nodes: Iterable[Member], transport: Transport, cluster: str):
        self._own = own
        self._me = me
        self._cluster = cluster
        self._directory = Directory()
        relay = Relay(transport, self._Common, self._Helpers)
        self._runner: Any = RpcRunner(relay, self._directory.Resolve, lambda: None)
        self._known: dict[str, Member] = {}
        self.answers: dict[str, Heard] = {}
        self.silent: dict[str, Silent] = {}
        self.epoch = own.GetState().promised
        # The administrator has vouched for the silent nodes.
        self._forced = False
        for node in nodes:
            self._Learn(node)
        for voter in own.GetVoters().by_uuid.values():
            self._Learn(voter.member)

    @property
    def own_name(self) -> str:
        return self._own.node_name

    def _Learn(self, member: Member) -> None:
        """Add a node, unless it is known already."""
        if member.uuid not in self._known and member.uuid != self._me.uuid:
            self._known[member.uuid] = member
            self._directory.Add(member)

    def Promises(self) -> None:
        """Have this node and everybody promise a new epoch, above all that anybody has learned of."""
        before = self.answers
        for _ in range(1 if self._forced else _ROUNDS):
            self.epoch = Epoch(self.epoch.number + 1, runtime.RandomBytes(RUN_LENGTH // 2).hex())
            newer = self._Round("store_promise")
            if newer is None:
                if self._forced:
                    self._CheckSame(before)
                return
            if self._forced:
                raise NotElected(f"epoch {newer.newer} of {newer.master} came in between: another master starts")
            logging.info("Epoch %s has been promised to another master (%s)", newer.newer, newer.master)
            self.epoch = newer.newer
            runtime.Sleep(runtime.Random().uniform(0.0, 0.5))
        raise NotElected(
            "another node is becoming master at the same time: its epochs went ahead each time",
            hint="see on which node the master daemon starts; only one should",
        )

    def Statuses(self) -> None:
        """Ask all nodes for their state; no node promises anything."""
        self._Round("store_status")

    def Vouched(self, vouch: Callable[[ForcedStart], bool]) -> ForcedStart:
        """Have the administrator vouch for the silent nodes, before anybody promises anything; then ask all once more.

        Raises NotElected if the answer is no, or if something is not as it was asked about.
        """
        question = self.Question(self.Newest())
        if not vouch(question):
            raise NotElected("the forced start was not confirmed")
        before = self.answers
        self.Statuses()
        newer = max(heard.promised for heard in self.answers.values())
        if newer > max(heard.promised for heard in before.values()):
            raise NotElected(f"epoch {newer} came in between: another master starts")
        for node in self.silent.values():
            if node.accepted and node.name not in question.running:
                raise NotElected(f"node {node.name} is running now", hint=_AGAIN)
        self._CheckSame(before)
        # The promises follow at once: whoever refuses now has learned of another start.
        self.epoch = newer
        self._forced = True
        return question

    def _CheckSame(self, before: dict[str, Heard]) -> None:
        for uuid, heard in self.answers.items():
            if uuid not in before:
                raise NotElected(f"node {heard.member.name} answers now: it may hold more", hint=_AGAIN)
            if heard.last != before[uuid].last or heard.store_id != before[uuid].store_id:
                raise NotElected(f"the copy of node {heard.member.name} changed meanwhile", hint=_AGAIN)
        for uuid, heard in before.items():
            if uuid not in self.answers:
                raise NotElected(f"node {heard.member.name} no longer answers", hint=_AGAIN)

    def _Round(self, call: str) -> EpochTooOld | None:
        """Ask all nodes, voters that turn up in answers too; return the highest refusal, if any."""
        self.answers, self.silent = {}, {}
        refusals: list[EpochTooOld] = []
        if call == "store_promise":
            try:
                self._own.Promise(self._cluster, self.epoch, self._own.node_name)
            except EpochTooOld as err:
                return err
        self.answers[self._me.uuid] = Heard.Parse(self._me, self._own.Describe())
        if self.answers[self._me.uuid].promised != self.epoch and call == "store_promise":
            mine = self.answers[self._me.uuid]
            return EpochTooOld(mine.promised, mine.master)
        asked: set[str] = set()
        while True:
            missing = [uuid for uuid in self._known if uuid not in asked]
            if not missing:
                break
            asked.update(missing)
            refusals += self._Ask(call, missing)
            for heard in list(self.answers.values()):
                for voter in heard.voters.by_uuid.values():
                    self._Learn(voter.member)
        # The others have answered now: whoever rejects this node's certificate is asked through them (rule 14).
        rejecting = [uuid for uuid, node in self.silent.items() if node.failure is Failure.REJECTED]
        if rejecting and self._Helpers():
            refusals += self._Ask(call, rejecting)
        return max(refusals, key=lambda refusal: refusal.newer, default=None)

    def _Common(self) -> dict[str, Any]:
        return {"cluster": self._cluster, "epoch": str(self.epoch), "master": self._own.node_name}

    def _Helpers(self) -> list[Member]:
        """Return the other candidates that have answered."""
        return [heard.member for uuid, heard in list(self.answers.items()) if heard.last.seq and uuid != self._me.uuid]

    def _Ask(self, call: str, uuids: list[str]) -> list[EpochTooOld]:
        results = getattr(self._runner, f"call_{call}")(uuids, self._Common())
        refusals = []
        for uuid, result in results.items():
            member = self._known[uuid]
            answer = result.payload if result.fail_msg is None else None
            try:
                if isinstance(answer, dict) and "refused" in answer:
                    refusals.append(EpochTooOld(Epoch.Parse(answer["refused"]), str(answer.get("master", ""))))
                elif answer is None:
                    self.silent[uuid] = silence.FromResult(result)
                else:
                    self.answers[uuid] = Heard.Parse(member, answer)
                    self.silent.pop(uuid, None)
            except errors.ParseError as err:
                self.silent[uuid] = silence.FromResult(result, str(err))
            if uuid in self.silent:
                logging.warning("Node %s does not answer for its store: %s", member.name, self.silent[uuid].reason)
        return refusals

    # Judging the answers

    def SetOf(self, newest: Heard) -> VoterSet:
        """Return the set that counts: the one written in the history to adopt."""
        return newest.voters

    def Newest(self) -> Heard:
        """Return the history to adopt: the own copy where it is as new as any."""
        newest = self.answers[self._me.uuid]
        for heard in self.answers.values():
            if heard.last > newest.last:
                newest = heard
        overruling = [heard for heard in self.answers.values() if self._Overrules(heard, newest)]
        return max(overruling, key=lambda heard: heard.last, default=newest)

    def _Overrules(self, heard: Heard, newest: Heard) -> bool:
        """Return whether a history overrules a newer one that a forced start began without its acknowledged changes.

        The forced start took its members for off; a quorum of their own set holds the history, so they were not (rule 8).
        One node alone proves nothing: a dead master that had continued alone looks the same when it returns.
        """
        if heard.voters.quorum < _WITNESSES:
            return False
        if not IsForkedByForce(newest, heard) or IsForkedByForce(heard, newest):
            return False
        if newest.line.Holds(heard.acknowledged) or newest.line.OlderThanKept(heard.acknowledged):
            return False
        holders = [other for other in self.Promised(heard.voters) if other.line.Holds(heard.acknowledged)]
        return len(holders) >= heard.voters.quorum

    def Promised(self, voters: VoterSet) -> list[Heard]:
        """Return the voters of a set that answered with the database that is listed; a copy of it elsewhere does not count."""
        return [heard for uuid, heard in self.answers.items() if _IsVoter(voters, uuid, heard.store_id)]

    def CheckMember(self, newest: Heard) -> None:
        mine = self.answers[self._me.uuid]
        if not _IsVoter(self.SetOf(newest), self._me.uuid, mine.store_id):
            raise NotElected(
                f"the newest copy of the cluster's state ({newest.last}, on node {newest.member.name}) does not count"
                f" this node among its voters: {', '.join(newest.voters.Names()) or 'none'}",
                hint="start the master daemon on one of those",
            )

    def CheckOwnSide(self, newest: Heard) -> None:
        """Raise NotElected if this node would give up the history of a forced start that it holds (rule 8)."""
        mine = self.answers[self._me.uuid]
        if newest is mine or not IsForkedByForce(mine, newest):
            return
        holders = [heard.member.name for heard in self.Promised(newest.voters) if heard.line.Holds(newest.acknowledged)]
        names = ", ".join(sorted(holders))
        raise NotElected(
            f"this node was made master by a forced start, and now {names} answer with changes that were acknowledged without"
            f" it: one of the two histories has to be given up, and only a person can know which",
            hint=f"if {names} worked as one cluster meanwhile, start the master daemon there, which takes this node back; if"
            f" they were off, run '{pathutils.NODE_CLEANUP} --yes-do-it' on each of them, start this master again, and add"
            " them to it",
        )

    def CheckNothingLost(self, newest: Heard) -> None:
        """Raise NotElected if a voter knows of an acknowledged change that the history to adopt does not hold (rule 5)."""
        for heard in self.Promised(newest.voters):
            known = heard.acknowledged
            if IsForkedByForce(heard, newest):
                continue  # what a forced start acknowledged beside the quorum was never this cluster's
            if not newest.line.Holds(known) and not newest.line.OlderThanKept(known):
                raise NotElected(
                    f"node {heard.member.name} knows that change {known} was acknowledged, and no copy that answers holds"
                    f" it (the newest ends at {newest.last}): a copy was lost or restored from a backup",
                    hint=f"bring back the candidates that do not answer ({self.SilentNames()}); only if none of them has the"
                    f" change, give it up: stop the node daemon on {heard.member.name}, then '{FORCED_START}'",
                )

    def SilentNames(self) -> str:
        return silence.Names(self.silent.values())

    def Question(self, newest: Heard) -> ForcedStart:
        return ForcedStart(
            self.epoch,
            sorted(node.name for node in self.silent.values()),
            sorted((heard.member.name, heard.last) for heard in self.answers.values()),
            newest.member.name,
            newest.voters.Names(),
            silence.Describe(self.silent.values()),
            tuple(silence.Accepting(self.silent.values())),
            silence.NextStep(self.silent.values(), self.own_name, FORCED_START),
        )

    # Fetching

    def Fetch(self, newest: Heard) -> Fetched:
        """Get the rows that this node lacks of the history to adopt."""
        mine = self.answers[self._me.uuid]
        if mine.last == newest.last:
            return Fetched(None, True, mine.pruned)
        partial = bool(mine.last.seq) and newest.line.Holds(mine.last) and mine.last.seq >= newest.pruned
        after = mine.last.seq if partial else 0
        failures = []
        sources = [newest] + [h for h in self.answers.values() if h.last == newest.last and h is not newest]
        for source in sources:
            if source.pruned > after and partial:
                continue
            try:
                return Fetched(self._FetchFrom(source, after), partial, source.pruned)
            except (errors.GenericError, ValueError) as err:
                failures.append(f"{source.member.name}: {err}")
        raise TooFewAnswer(f"the newest copy could not be fetched ({'; '.join(failures)})", hint="try again")

    def _FetchFrom(self, source: Heard, after: int) -> list[StoredRow]:
        rows: list[StoredRow] = []
        cursor = AfterAll(after) if after else (0, "", "")
        while True:
            result = self._runner.call_store_fetch(source.member.uuid, {**self._Common(), "after": cursor})
            result.Raise(f"fetching the store from node {source.member.name}")
            answer = result.payload
            if not isinstance(answer, dict) or "refused" in answer:
                raise NotElected(f"node {source.member.name} has promised a newer epoch meanwhile")
            if answer.get("store") != source.store_id or Position.Parse(answer.get("last")) != source.last:
                raise NotElected(f"the copy of node {source.member.name} changed meanwhile")
            page = ParseStoredRows(answer.get("rows"))
            rows += page
            if not answer.get("more"):
                return rows
            if not page:
                raise NotElected(f"node {source.member.name} has more rows and sent none")
            cursor = CursorOf(page[-1])


def BecomeMaster(
    own: NodeStore,
    me: Member,
    nodes: Iterable[Member],
    transport: Transport,
    *,
    vote: Callable[[], None] | None = None,
    vouch: Callable[[ForcedStart], bool] | None = None,
    first: FirstRows | None = None,
    resolve: Callable[[str], Sequence[Any]] | None = None,
    lost: Callable[[StoreError], None] | None = None,
    candidates: Callable[[], Iterable[Member] | None] | None = None,
    ready_timeout: float = READY_TIMEOUT,
    election_class: type[Election] = Election,
) -> Store:
    """Make this node the master and return its store, everything in it acknowledged.

    ``nodes``: all nodes the own configuration names, offline ones too.  ``vote()`` raises unless half plus one of all
    nodes name this node (left out for ``--no-voting`` and by a fail-over's own check); such a plain start is refused while
    another master works.  ``vouch(question)`` allows a forced
    start; without it none is made.  ``first(adopted)`` gives rows for the first transaction, on top of what was adopted; what
    it raises ends the start.
    Raise NotElected, NotKnown (no quorum took the first transaction), what ``vote`` raises, OSError of the own disk.
    """
    CheckVoter(own)
    if vote is not None:
        vote()
    with HoldServing(own) as serving:
        election = election_class(own, me, nodes, transport, own.GetState().cluster)
        forced = None
        if vouch is not None:
            forced = _Force(election, me, vouch)
        elif vote is not None:
            _CheckNoOtherMaster(election, me)
        election.Promises()
        newest = election.Newest()
        election.CheckOwnSide(newest)
        election.CheckMember(newest)
        voters = election.SetOf(newest)
        if len(election.Promised(voters)) >= voters.quorum:
            forced = None
            election.CheckNothingLost(newest)
        elif forced is None:
            raise _NoQuorum(election, voters)
        fetched = election.Fetch(newest)
        store = _Begin(own, me, election, newest, fetched, forced, first, transport, resolve, lost, candidates)
        return Open(store, serving, ready_timeout)


@contextmanager
def HoldServing(own: NodeStore) -> Iterator[protocols.FileLock]:
    """Mark this node as serving its store until the start fails; turn a newer epoch into NotElected."""
    serving = own.Serve()
    try:
        yield serving
    except EpochTooOld as err:
        serving.release()
        raise NotElected(f"another master starts: {err}") from err
    except BaseException:
        serving.release()
        raise


def Open(store: Store, serving: protocols.FileLock, ready_timeout: float) -> Store:
    """Start the committer and wait until the first transaction is acknowledged."""
    store.HoldServing(serving)
    store.Start()
    try:
        store.WaitReady(ready_timeout)
    except BaseException:
        store.Stop(0)
        raise
    return store


def CheckVoter(own: NodeStore) -> None:
    """Raise NotElected if this node is not a voter by its own database (rule 5)."""
    state = own.GetState()
    voters = own.GetVoters()
    if not state.last.seq:
        raise NotElected(
            f"node {own.node_name} holds no copy of the cluster's state: not a candidate, or no copy yet",
            hint="start the master daemon on a master candidate",
        )
    if state.store_id not in voters.ids:
        raise NotElected(
            f"node {own.node_name} does not count among the voters of its own copy: {', '.join(voters.Names()) or 'none'}",
            hint="start the master daemon on one of those",
        )


def _Force(election: Election, me: Member, vouch: Callable[[ForcedStart], bool]) -> ForcedStart | None:
    """Prepare a forced start (rule 8), before any node promises anything; None where a quorum answers.

    A forced start is refused while a master answers.
    """
    election.Statuses()
    newest = election.Newest()
    voters = election.SetOf(newest)
    if len(election.Promised(voters)) >= voters.quorum:
        return None
    for uuid, heard in election.answers.items():
        if heard.serving and uuid != me.uuid:
            raise NotElected(
                f"node {heard.member.name} runs a master daemon (epoch {heard.promised}): no forced start beside it",
                hint=f"stop the master daemon on {heard.member.name} first, or fail over with enough candidates up",
            )
    election.CheckMember(newest)
    return election.Vouched(vouch)


def _CheckNoOtherMaster(election: Election, me: Member) -> None:
    """Raise NotElected if another master is at work: the files that name this node may be older than a fail-over.

    Called before any node promises anything.  The master is the one that the newest epoch was promised to.
    """
    election.Statuses()
    newest = max(heard.promised for heard in election.answers.values())
    best = election.Newest()
    for uuid, heard in election.answers.items():
        if IsForkedByForce(heard, best) and not IsForkedByForce(best, heard):
            logging.warning(
                "Node %s was started as master by force (epoch %s), without changes that this cluster has acknowledged:"
                " it does not count",
                heard.member.name,
                heard.promised,
            )
            continue
        if uuid != me.uuid and heard.serving and heard.promised == newest and heard.master == heard.member.name:
            raise NotElected(
                f"node {heard.member.name} runs the master daemon (epoch {heard.promised}), after a fail-over this node"
                " has not learned of",
                hint=f"to make this node the master again: gnt-cluster master-failover, on {me.name}",
            )


def _NoQuorum(election: Election, voters: VoterSet) -> NotElected:
    silent = election.silent.values()
    missing = silence.Describe(silent) or "nobody is silent, but their copies do not count"
    return (TooFewAnswer if silent else NotElected)(
        f"only {len(election.Promised(voters))} of {len(voters)} master candidates answer, {voters.quorum} are needed:"
        f" {missing}",
        hint=silence.NextStep(silent, election.own_name, FORCED_START),
    )


def _Begin(
    own: NodeStore,
    me: Member,
    election: Election,
    newest: Heard,
    fetched: Fetched,
    forced: ForcedStart | None,
    first: FirstRows | None,
    transport: Transport,
    resolve: Callable[[str], Sequence[Any]] | None,
    lost: Callable[[StoreError], None] | None,
    candidates: Callable[[], Iterable[Member] | None] | None,
) -> Store:
    """Store the adopted history with the first transaction on top, and return the store."""
    image = Image()
    if fetched.rows is None or fetched.partial:
        image.Take(own.ReadAll()[2])
    image.Take(fetched.rows or ())
    adopted = Adopted(image.values, image.seqs, newest.last, newest.line)
    record: dict[str, Any] = {
        "epoch": str(election.epoch),
        "node": me.uuid,
        "name": me.name,
        "since": runtime.Time(),
    }
    begin: list[Row] = []
    if forced is not None:
        record["forced"] = {"without": forced.silent, "adopted": newest.last.Wire()}
        logging.warning("Forced start in epoch %s, without %s", election.epoch, ", ".join(forced.silent) or "nobody")
        adopted = replace(adopted, without=tuple(election.silent))
        members = {heard.member.uuid for heard in election.Promised(newest.voters)}
        begin.append(VoterSet(v for uuid, v in newest.voters.by_uuid.items() if uuid in members).Row())
        known = ParseForced(adopted.values.get(KIND_MASTER, {}).get(ID_FORCED))
        starts = [*known, (election.epoch, newest.last)][-_FORCED_KEPT:]
        entries = [[str(epoch), position.Wire()] for epoch, position in starts]
        begin.append(Row(KIND_MASTER, ID_FORCED, serializer.Dump(entries)))
    begin.append(Row(KIND_MASTER, ID_MASTER, serializer.Dump(record)))
    if first is not None:
        begin += first(adopted)
    position = own.Adopt(election.epoch, fetched.rows, newest.line, fetched.pruned, fetched.partial, begin)
    image.Take(StoredRow(*row, position.seq, position.epoch) for row in begin)
    store = election.store_class(
        own, me, election.answers[me.uuid].cluster, election.epoch, image, transport, resolve, lost, candidates
    )
    voters = own.GetVoters()
    for uuid, heard in election.answers.items():
        if uuid in voters:
            store.TakeAnswer(uuid, heard.store_id, heard.last)
        elif heard.last.seq:
            store.EmptyNode(heard.member, heard.store_id)
    return store


def ParseForced(text: Any) -> list[tuple[Epoch, Position]]:
    """Read the list of forced starts of a history: epoch, and the position that was adopted."""
    value = serializer.Load(text) if isinstance(text, str) else []
    if not isinstance(value, list) or not all(isinstance(entry, list) and len(entry) == 2 for entry in value):
        raise errors.ParseError("the list of forced starts must hold pairs")
    return [(Epoch.Parse(epoch), Position.Parse(position)) for epoch, position in value]


def IsForkedByForce(heard: Heard, other: Heard) -> bool:
    """Return whether a forced start made the history of ``heard`` leave that of ``other``, which lacks it."""
    return bool(heard.forced - other.forced) and not other.line.Holds(heard.last)


def _IsVoter(voters: VoterSet, uuid: str, store_id: str) -> bool:
    voter = voters.by_uuid.get(uuid)
    return voter is not None and voter.store_id == store_id
