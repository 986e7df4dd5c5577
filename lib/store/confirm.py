"""Before a master acts on an object, the object's nodes have confirmed its epoch and that nothing older runs (rule 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.store.base import Epoch, MasterLost, Member, Position, StoreError
from ganeti.store.refusal import FollowsOther, Refusal

if TYPE_CHECKING:
    from ganeti.rpc.runner import RpcRunner
    from ganeti.store.copy.node import NodeStore

_ASK_AGAIN = 1.0


class NodeConfirmer:
    """Asks nodes for a promise and remembers those that gave it.  Any thread may call ``Confirm``.

    ``promised(member, store id, last)`` is called for each node that gave it; ``lost(refusal, node, joining)`` says whether a
    refusal ends this master, and sees to it.
    """

    def __init__(
        self,
        runner: RpcRunner,
        own: NodeStore,
        cluster: str,
        epoch: Epoch,
        promised: Callable[[Member, str, Position], None],
        lost: Callable[[Refusal, str, bool], bool],
    ):
        self._runner = runner
        self._message = {"cluster": cluster, "epoch": str(epoch), "master": own.node_name}
        self._promised = promised
        self._lost = lost
        self._lock = runtime.Lock()
        self._confirmed: set[str] = set()

    def Confirm(self, nodes: Iterable[str], timeout: float, joining: bool = False) -> None:
        """See Store.ConfirmNodes."""
        reasons = self._Wait(nodes, timeout, joining, None)
        if reasons:
            raise self._Unconfirmed(reasons)

    def Unconfirmed(self, nodes: Iterable[str], timeout: float) -> dict[str, str]:
        """See Store.UnconfirmedNodes."""
        strays: dict[str, str] = {}
        return {**self._Wait(nodes, timeout, False, strays), **strays}

    def _Wait(
        self, nodes: Iterable[str], timeout: float, joining: bool, strays: dict[str, str] | None
    ) -> dict[str, str]:
        """Return who has not confirmed in time, and why.  Those that follow another master are put into ``strays``, if given."""
        deadline = runtime.Monotonic() + timeout
        with self._lock:
            missing = [node for node in dict.fromkeys(nodes) if node not in self._confirmed]
        reasons: dict[str, str] = {}
        while missing:
            reasons = self._Ask(missing, joining, strays)
            missing = list(reasons)
            left = deadline - runtime.Monotonic()
            if left <= 0:
                break
            if missing:
                runtime.Sleep(min(_ASK_AGAIN, left))
        return reasons

    def Forget(self, node: str) -> None:
        """Make the node confirm again, as it was offline."""
        with self._lock:
            self._confirmed.discard(node)

    def _Ask(self, nodes: list[str], joining: bool, strays: dict[str, str] | None) -> dict[str, str]:
        """Ask all at once; return who did not confirm, and why, without ``strays``."""
        results = self._runner.call_store_promise(nodes, dict(self._message))
        reasons: dict[str, str] = {}
        for node, result in results.items():
            try:
                reason = self._Reason(node, result, joining)
            except FollowsOther as err:
                if strays is None:
                    raise
                strays[node] = f"{err}; {err.hint}"
                continue
            if reason:
                reasons[node] = reason
        return reasons

    def _Reason(self, node: str, result: Any, joining: bool) -> str:
        if result.fail_msg is not None:
            return f"node {result.node_name} does not answer ({result.fail_msg})"
        answer = result.payload
        if not isinstance(answer, dict):
            return f"node {result.node_name} sent an invalid answer"
        if "refused" in answer:
            refusal = Refusal.Parse(answer)
            if self._lost(refusal, node, joining):
                raise MasterLost(str(refusal.epoch), refusal.master, sent=False)
            raise FollowsOther(refusal, result.node_name)
        try:
            running = [(str(epoch), str(name)) for epoch, name in answer["running"]]
            store, last = str(answer["store"]), Position.Parse(answer["last"])
        except (KeyError, TypeError, ValueError, errors.ParseError):
            return f"node {result.node_name} sent an invalid answer"
        if running:
            epoch, name = running[0]
            return f"on node {result.node_name} {name} of the former master (epoch {epoch}) still runs"
        with self._lock:
            self._confirmed.add(node)
        self._promised(Member(node, result.node_name, ""), store, last)
        return ""

    @staticmethod
    def _Unconfirmed(reasons: dict[str, str]) -> StoreError:
        return StoreError(
            "nothing was done: " + "; ".join(sorted(reasons.values())),
            hint="a node that does not answer may still act for the former master: bring it back, or, if it is off,"
            " mark it with gnt-node modify --offline yes NODE",
        )
