"""Durable rows, replicated to the master candidates: what was acknowledged stays (``doc/design-store.rst``).

::

    master                                              each node
    master.Store: what other rooms use                  copy.node.NodeStore --- acceptance rules, gate
      |                                                    |   calls: running calls of masters
    commit.committer --- one thread, its events            |   database: the tables; image: rows in memory
      |   pending: changes on their way                    |   replaced: what a copy replaced
      |   tally: who holds what                            v
      |   peers: who lacks what                         DATA/ext/store.db
      |   voters: one in or out at a time                  |
      v                                                    v
    files.export: config.data, queue, ssconf as a view of the database
      |   archived: rows that may go; owned: files that daemons of several users share
      |   adopt: the first history; edits: files changed by hand; look: which files were touched

    both sides: base (vocabulary), messages (what calls carry)
    election: becoming master; silence: who does not answer; refusal: whether this master has to stop
    confirm: nodes that know this epoch; relay: calls by way of another candidate, and that one's side

Glossary

* epoch -- (number, run) of one master's life; a node that promised a newer one takes nothing from an older
* row -- (kind, id, JSON text); a transaction is a set of rows with one seq
* position -- (epoch, seq); *last* is where a node's history ends
* line -- which epoch wrote which seq; a history holds another if the other's last lies on its line
* voter -- a node and its store id whose copy counts; quorum is half of them plus one
* acknowledged -- on disk at a quorum; nobody sees a change before
* learner -- a node that is copied in order to become a voter
"""

from __future__ import annotations

from ganeti.store.base import (
    Change,
    DiskRefused,
    Epoch,
    MasterEnded,
    MasterLost,
    Member,
    NoQuorum,
    NotKnown,
    Position,
    Row,
    Rows,
    StoreEnded,
    StoreError,
    TooLarge,
    Voter,
    VoterSet,
)
from ganeti.store.copy.node import NodeStore
from ganeti.store.master import Store
from ganeti.store.refusal import FollowsOther

__all__ = [
    "Change",
    "DiskRefused",
    "Epoch",
    "FollowsOther",
    "MasterEnded",
    "MasterLost",
    "Member",
    "NoQuorum",
    "NodeStore",
    "NotKnown",
    "Position",
    "Row",
    "Rows",
    "Store",
    "StoreEnded",
    "StoreError",
    "TooLarge",
    "Voter",
    "VoterSet",
]
