"""What happens to the committer from outside: each is put into its queue by some thread and handled on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ganeti.store.base import Member
from ganeti.store.commit.pending import Done, Entry
from ganeti.store.commit.voters import VoterStep

if TYPE_CHECKING:
    from ganeti.rpc.runner import RpcResult
    from ganeti.store.commit.peers import Peer


@dataclass(frozen=True)
class ChangeAsked:
    """A client wants a change."""

    entry: Entry


@dataclass(frozen=True)
class StepAsked:
    """A node is to become a voter, or no longer to be one."""

    step: VoterStep


@dataclass(frozen=True)
class EmptyAsked:
    """A node that is not a voter holds rows."""

    member: Member
    store_id: str


@dataclass(frozen=True)
class Answered:
    """A node answered a call of the procedure ``kind``, or did not."""

    kind: str
    peer: Peer
    result: RpcResult


@dataclass(frozen=True)
class LookAsked:
    """A request to ask the voters which master they follow."""


@dataclass(frozen=True)
class Overtaken:
    """A newer master exists."""

    epoch: str
    master: str


@dataclass(frozen=True)
class StopAsked:
    """A request to end this master when the changes under way are acknowledged; ``done`` is called then."""

    done: Done


@dataclass(frozen=True)
class EndAsked:
    """This master is to end at once."""


Event = ChangeAsked | StepAsked | EmptyAsked | Answered | LookAsked | Overtaken | StopAsked | EndAsked
