"""A node that follows a newer master refuses this one: whether this master has to stop (rule 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganeti import errors, pathutils
from ganeti.store.base import NO_EPOCH, NOWHERE, Epoch, Line, Position, StoreError

if TYPE_CHECKING:
    from ganeti.rpc.runner import RpcResult, RpcRunner


class FollowsOther(StoreError):
    """A node that this master needs, or is to take in, has promised a newer epoch to another; this master continues."""

    def __init__(self, refusal: Refusal, node: str):
        super().__init__(f"{refusal.Reason(node)}; nothing was changed", hint=HintOvertake(node))


@dataclass(frozen=True)
class Refusal:
    """A node's refusal: the epoch it promised, to which master, and the history that it holds."""

    epoch: Epoch
    master: str
    line: Line

    @staticmethod
    def Parse(answer: Mapping[str, Any]) -> Refusal:
        """Read the answer of a store call.

        One that names no history is taken as one without rows, one that names no epoch as one of an old call.
        """
        try:
            epoch = Epoch.Parse(answer["refused"])
        except errors.ParseError:
            epoch = NO_EPOCH
        try:
            last = Position.Parse(answer["last"])
            line = Line.Parse(answer["line"], last)
        except (KeyError, errors.ParseError):
            line = Line((), NOWHERE)
        return Refusal(epoch, str(answer.get("master", "")), line)

    def IsLate(self, own: Epoch) -> bool:
        """Return whether the epoch is not above ``own``, so that no master has to stop: it answers an older call."""
        return self.epoch <= own

    def FollowsForcedMaster(self, own: Line, acknowledged: Position) -> bool:
        """Return whether the newer master began without changes that this one has acknowledged.

        An election never does that, only a forced start whose administrator was wrong about this master being off.  A
        node that has only promised, and holds what another master before us did not get acknowledged, shows no such start.
        """
        last = self.line.last
        return last.epoch > acknowledged.epoch and not own.Holds(last) and not self.line.Holds(acknowledged)

    def Reason(self, node: str) -> str:
        return f"node {node} follows another master, {self.master or 'unknown'} (epoch {self.epoch})"


class RefusalJudge:
    """Decides whether a refusal means that this node is no longer the master.

    Voters alone decide who is master.  What a node says that is no voter, is being taken in or has left, and a forced
    start beside us, which has no right to our nodes, change nothing as long as a quorum follows us.  ``history()`` gives
    this master's line and what it has acknowledged; ``is_voter(node)`` takes a uuid or a name; ``has_quorum()`` looks at
    the voters that answer; ``look()`` asks them again, so that a master which was replaced ends now; ``lost(refusal)``
    stops this master.
    """

    def __init__(
        self,
        runner: RpcRunner,
        common: dict[str, Any],
        history: Callable[[], tuple[Line, Position]],
        is_voter: Callable[[str], bool],
        has_quorum: Callable[[], bool],
        look: Callable[[], None],
        lost: Callable[[Refusal], None],
    ):
        self._runner = runner
        self._common = common
        self._history = history
        self._is_voter = is_voter
        self._has_quorum = has_quorum
        self._look = look
        self._lost = lost

    def EndsUs(self, refusal: Refusal, node: str, joining: bool) -> bool:
        """Return whether the refusal ends this master; ``joining``: the node is being taken in, or has left."""
        own, acknowledged = self._history()
        if refusal.IsLate(own.last.epoch):
            return False
        if joining or not self._is_voter(node) or refusal.FollowsForcedMaster(own, acknowledged):
            return not self._has_quorum()
        return True

    def Judge(self, refusal: Refusal, node: str, joining: bool) -> bool:
        """Stop this master if the refusal ends it; return whether it does.  Any thread may call it."""
        ends = self.EndsUs(refusal, node, joining)
        if ends:
            self._lost(refusal)
        else:
            self._look()
        return ends

    def Ask(self, epoch: str, master: str, node: str) -> None:
        """Judge the refusal of a changing call, which does not say what the node holds: ask the node."""

        def judge(result: RpcResult) -> None:
            answer = result.payload if result.fail_msg is None else None
            held = answer if isinstance(answer, dict) else {}
            self.Judge(Refusal.Parse({**held, "refused": epoch, "master": master}), node, joining=False)

        self._runner.Start("store_status", [node], [self._common], judge)


def HintOvertake(node: str) -> str:
    """Return the hint for getting above an epoch that a node promised to a master that no longer is one."""
    return (
        f"stop the master daemon on {node}, if one runs there, then restart the one of this cluster on the master node:"
        f" '{pathutils.DAEMON_UTIL} stop-master', '{pathutils.DAEMON_UTIL} start-master'; its new epoch is above every"
        f" other, and {node} follows it"
    )
