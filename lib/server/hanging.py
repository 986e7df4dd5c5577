"""How many calls hang on each node, for the metrics: asked when somebody reads them, shown the next time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ganeti import objects, runtime
from ganeti.rpc.longcalls import LONG_CALLS, LONG_SECONDS, FromPayload

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult, RpcRunner

PAUSE_SECONDS = 15.0
"""Nodes are not asked more often than this, whoever reads."""

FRESH_SECONDS = 300.0
"""For so long an answer is shown."""

_PATIENCE = 10.0


class HangingCalls:
    """Asks the nodes of a cluster; nothing here blocks, and no thread is needed."""

    def __init__(self, snapshot: Callable[[], objects.Snapshot], rpc: RpcRunner):
        self._snapshot = snapshot
        self._rpc = rpc
        self._lock = runtime.Lock()
        self._asked_at: float | None = None
        self._waiting: set[str] = set()
        # Node -> when it answered, how many calls hang there.
        self._answers: dict[str, tuple[float, int]] = {}

    def Counts(self) -> Mapping[tuple[str, ...], int]:
        """Return how many calls hang on each node that answered lately, and ask all nodes again if that was a while ago."""
        now, nodes = runtime.Monotonic(), self._snapshot().nodes
        online = [uuid for uuid, node in nodes.items() if not node.offline]
        with self._lock:
            free = self._Due(now, online)
            self._answers = {uuid: self._answers[uuid] for uuid in online if uuid in self._answers}
            counts: dict[tuple[str, ...], int] = {
                (str(nodes[uuid].name),): count
                for uuid, (when, count) in self._answers.items()
                if now - when < FRESH_SECONDS
            }
        if free:
            self._rpc.Start(LONG_CALLS, free, [LONG_SECONDS], self._Answered, _PATIENCE)
        return counts

    def _Due(self, now: float, online: list[str]) -> list[str]:
        if self._asked_at is not None and now - self._asked_at < PAUSE_SECONDS:
            return []
        self._asked_at = now
        free = [uuid for uuid in online if uuid not in self._waiting]
        self._waiting.update(free)
        return free

    def _Answered(self, result: RpcResult) -> None:
        with self._lock:
            self._waiting.discard(result.node)
            if result.fail_msg:
                # It is off, or of another release: other metrics show that calls to it fail.
                self._answers.pop(result.node, None)
                return
            hanging = sum(call.late for call in FromPayload(result.payload))
            self._answers[result.node] = runtime.Monotonic(), hanging
