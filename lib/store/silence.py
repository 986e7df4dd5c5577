"""What is known of nodes that did not answer, in words: how far the call got decides on the next step (rule 8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ganeti import pathutils
from ganeti.rpc.base import Failure

if TYPE_CHECKING:
    from ganeti.rpc.runner import RpcResult


class Silent(NamedTuple):
    """A node that gave no usable answer.  ``reason`` is the whole story, for the log."""

    name: str
    failure: Failure
    reason: str

    @property
    def accepted(self) -> bool:
        """Return whether the node is running: it accepted a connection."""
        return self.failure.accepted


def FromResult(result: RpcResult, reason: str = "") -> Silent:
    """Make the record of a call without a usable answer; a node that answered nonsense is running, too."""
    return Silent(result.node_name, result.failure or Failure.SILENT, reason or result.fail_msg or "no answer")


def Names(silent: Iterable[Silent]) -> str:
    return ", ".join(sorted(node.name for node in silent)) or "none"


def Describe(silent: Iterable[Silent]) -> str:
    """Return one clause for each way of not answering, the most informative first."""
    by_failure: dict[Failure, list[Silent]] = {}
    for node in silent:
        by_failure.setdefault(node.failure, []).append(node)
    order = (Failure.REJECTED, Failure.SILENT, Failure.REFUSED, Failure.UNREACHABLE, Failure.NOT_SENT)
    return "; ".join(f"{Names(by_failure[kind])} {kind.value}" for kind in order if kind in by_failure)


def Accepting(silent: Iterable[Silent]) -> list[str]:
    """Return the names of the nodes that are certainly running."""
    return sorted(node.name for node in silent if node.accepted)


def NextStep(silent: Iterable[Silent], own_name: str, forced: str) -> str:
    """Return what to do about nodes that do not answer.  ``forced``: the command of a forced start.

    That command is named only where every silent node may be off.
    """
    silent = list(silent)
    rejecting = [node for node in silent if node.failure is Failure.REJECTED]
    if rejecting:
        return HintRejected(Names(rejecting), own_name)
    stuck = [node for node in silent if node.accepted]
    if stuck:
        return (
            f"look at the node daemon of {Names(stuck)}: it accepts connections and does not answer; while it runs no other"
            " master may be started"
        )
    refusing = [node for node in silent if node.failure is Failure.REFUSED]
    steps = []
    if refusing:
        steps.append(f"on {Names(refusing)} run '{pathutils.DAEMON_UTIL} start ganeti-noded'")
    steps.append(f"only if {Names(silent)} are switched off and stay off: '{forced}'")
    return "; ".join(steps)


def HintRejected(names: str, own_name: str) -> str:
    """Return the hint for a node whose certificate was withdrawn."""
    first = names.partition(",")[0]
    return (
        f"{names} accept no calls of this node: while it was away it was marked offline, demoted or removed, and another"
        f" node is the master. Find that node with 'gnt-cluster getmaster' on {first}; there,"
        f" 'gnt-node modify --offline no {own_name}' takes this node back. If 'gnt-node list' there does not show it, run"
        f" '{pathutils.NODE_CLEANUP} --yes-do-it' here and add it again. Do not start a master daemon here"
    )
