"""The first history of a cluster: rows that were files of release 3.1 (rule 11).

Only a start makes one, never a fail-over: where half plus one of all nodes name this node as master and have promised
an epoch, and none that answers has a store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import pathutils, runtime, serializer
from ganeti.store import silence
from ganeti.store.base import (
    FORCED_START,
    ID_MASTER,
    KIND_MASTER,
    NOWHERE,
    Line,
    Member,
    Row,
    StoredRow,
    StoreError,
    Voter,
    VoterSet,
)
from ganeti.store.copy.image import Image
from ganeti.store.election import READY_TIMEOUT, Election, ForcedStart, HoldServing, NotElected, Open, TooFewAnswer
from ganeti.store.master import Store

if TYPE_CHECKING:
    from ganeti.rpc.base import Transport
    from ganeti.store.copy.node import NodeStore


def FoundStore(
    own: NodeStore,
    me: Member,
    cluster: str,
    nodes: Iterable[Member],
    candidates: Iterable[Member],
    rows: Sequence[Row],
    transport: Transport,
    *,
    vote: Callable[[], None] | None = None,
    vouch: Callable[[ForcedStart], bool] | None = None,
    resolve: Callable[[str], Sequence[Any]] | None = None,
    lost: Callable[[StoreError], None] | None = None,
    candidates_now: Callable[[], Iterable[Member] | None] | None = None,
    ready_timeout: float = READY_TIMEOUT,
    election_class: type[Election] = Election,
) -> Store:
    """Make the cluster's first history out of ``rows``, with the candidates that answer as first voters.

    ``nodes``: all nodes of the configuration; ``candidates``: those of them that shall be voters, this one included.
    The other arguments are those of ``election.BecomeMaster`` (``candidates_now`` is its ``candidates``).
    """
    nodes = list(nodes)
    if vote is not None:
        vote()
    with HoldServing(own) as serving:
        election = election_class(own, me, nodes, transport, cluster)
        # A look disturbs nobody, a promise would.
        election.Statuses()
        _CheckNobodyHasStore(election)
        needed = len({node.uuid for node in nodes} | {me.uuid}) // 2 + 1
        vouched = False
        if len(election.answers) < needed and vouch is not None:
            election.Vouched(vouch)
            vouched = True
        election.Promises()
        _CheckNobodyHasStore(election)
        if len(election.answers) < needed and not vouched:
            raise _TooFew(election, needed)
        wanted = {member.uuid for member in candidates} | {me.uuid}
        voters = VoterSet(
            Voter(heard.member, heard.store_id) for uuid, heard in election.answers.items() if uuid in wanted
        )
        record = {"epoch": str(election.epoch), "node": me.uuid, "name": me.name, "since": runtime.Time()}
        first = [*rows, voters.Row(), Row(KIND_MASTER, ID_MASTER, serializer.Dump(record))]
        position = own.Adopt(election.epoch, None, Line((), NOWHERE), 0, False, first)
        image = Image()
        image.Take(StoredRow(*row, position.seq, position.epoch) for row in first)
        logging.info("The files of the cluster are now a store; its voters: %s", ", ".join(voters.Names()))
        store = election.store_class(own, me, cluster, election.epoch, image, transport, resolve, lost, candidates_now)
        for uuid in voters.by_uuid:
            heard = election.answers[uuid]
            store.TakeAnswer(uuid, heard.store_id, heard.last)
        return Open(store, serving, ready_timeout)


def _CheckNobodyHasStore(election: Election) -> None:
    for heard in election.answers.values():
        if heard.last.seq:
            raise NotElected(
                f"node {heard.member.name} has a copy of this cluster's store, this node has none: its files are not"
                " read, they may be old",
                hint=f"start the master daemon on {heard.member.name}, or on another candidate that has a copy",
            )
        if heard.acknowledged.seq:
            raise NotElected(
                f"node {heard.member.name} was a master candidate when this cluster's store had {heard.acknowledged.seq}"
                " changes; its copy was removed when it ceased to be one. The store is on other nodes, and the files of this"
                " node may be old",
                hint="start the master daemon on a candidate that has a copy; only if all copies are lost, stop the node"
                f" daemon on {heard.member.name}, move {pathutils.STORE_FILE} there away and start both again",
            )


def _TooFew(election: Election, needed: int) -> NotElected:
    silent = election.silent.values()
    return TooFewAnswer(
        f"only {len(election.answers)} nodes answer, {needed} are needed to begin the store: {silence.Describe(silent)}",
        hint=silence.NextStep(silent, election.own_name, FORCED_START),
    )
