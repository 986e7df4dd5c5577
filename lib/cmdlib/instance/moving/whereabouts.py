"""Which node has a guest, judged from what every node sees: the table of doc/design-migration.rst.

::

    nodes' answers --> View per node --> Judge --> Verdict --> what migration, clean-up, start, stop, fail-over do

Pure: nothing here calls a node or reads the configuration.  The configured primary node never decides.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ganeti.params import runstate


class Kind(enum.Enum):
    """The conclusion from the views."""

    HERE = "here"
    UNDER_WAY = "under way"
    ARRIVING = "arriving"
    RETURNS = "returns"
    NOWHERE = "nowhere"
    UNDECIDABLE = "undecidable"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class View:
    """One node's view.  ``sent_to``: the node to which it sent the guest; ``never``: the guest it awaits never ran.

    ``helper``: what runs there is not the guest, but a helper that works on its disks.
    """

    state: str
    ident: int = 0
    sending: bool = False
    never: bool = False
    sent_to: str | None = None
    attempt: str | None = None
    arrival: str | None = None
    helper: bool = False


@dataclass(frozen=True)
class Verdict:
    """``node``: where the guest is (HERE), goes from (UNDER_WAY, ARRIVING) or can run again (RETURNS).

    ``target``: where it goes to.  ``choices``: nodes whose copy may be the guest, when somebody has to choose.
    ``leftovers``: nodes with copies that are not the guest.  ``silent``: nodes that ought to be asked.
    """

    kind: Kind
    node: str = ""
    target: str = ""
    choices: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def Concerned(views: Mapping[str, View], named: Collection[str]) -> frozenset[str]:
    """Return the nodes whose silence matters: those ``named``, and targets of transfers.

    While one of the named nodes is offline nobody knows where it sent the guest, so every node matters.
    """
    if any(views[node].state == runstate.OFFLINE for node in named if node in views):
        return frozenset(views)
    return frozenset(named) | {view.sent_to for view in views.values() if view.sent_to is not None}


def Judge(views: Mapping[str, View], concerned: Collection[str]) -> Verdict:
    """Return what the views of all nodes amount to; ``concerned``: see ``Concerned``."""
    holders = _With(views, runstate.HOLDS)
    leaving = _With(views, {runstate.LEAVING})
    sent = _With(views, {runstate.SENT})
    arriving = _With(views, {runstate.ARRIVING})
    hung = _With(views, {runstate.UNRESPONSIVE})
    silent = tuple(node for node in _With(views, {runstate.UNREACHABLE}) if node in concerned) + hung
    if len(holders) > 1:
        return Verdict(Kind.UNDECIDABLE, choices=holders, leftovers=(*sent, *arriving), silent=silent)
    if leaving:
        target = (*holders, *arriving, "")[0]
        others = tuple(node for node in (*leaving[1:], *sent, *arriving) if node != target)
        return Verdict(Kind.UNDER_WAY, leaving[0], target, leftovers=others, silent=silent)
    if holders:
        return _JudgeOne(views, holders[0], (*sent, *arriving), arriving, silent, hung)
    if silent:
        return Verdict(Kind.UNKNOWN, choices=(*hung, *sent), leftovers=arriving, silent=silent)
    return _JudgeNone(views, sent, arriving)


def _With(views: Mapping[str, View], states: Collection[str]) -> tuple[str, ...]:
    return tuple(node for node, view in views.items() if view.state in states)


def _JudgeOne(
    views: Mapping[str, View],
    holder: str,
    leftovers: tuple[str, ...],
    arriving: tuple[str, ...],
    silent: tuple[str, ...],
    hung: tuple[str, ...],
) -> Verdict:
    if silent:
        return Verdict(Kind.UNDECIDABLE, choices=(holder, *hung), leftovers=leftovers, silent=silent)
    if views[holder].sending and arriving:
        sent_to = views[holder].sent_to
        target = sent_to if sent_to in arriving else arriving[0]
        return Verdict(Kind.UNDER_WAY, holder, target, leftovers=tuple(node for node in leftovers if node != target))
    return Verdict(Kind.HERE, holder, leftovers=leftovers)


def _JudgeNone(views: Mapping[str, View], sent: tuple[str, ...], arriving: tuple[str, ...]) -> Verdict:
    """Judge where no node holds the guest, and all that matter have answered."""
    for node in sent:
        target = views[node].sent_to or ""
        others = tuple(other for other in (*sent, *arriving) if other != node)
        if target in arriving:
            return Verdict(Kind.ARRIVING, node, target, leftovers=tuple(o for o in others if o != target))
        if target in views and views[target].never:
            return Verdict(Kind.RETURNS, node, target, leftovers=others)
    return Verdict(Kind.NOWHERE, choices=sent, leftovers=(*sent, *arriving))
