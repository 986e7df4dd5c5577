"""Brings the ssconf files to nodes that hold no rows; all others write them from their own copy (design-store, 10)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ganeti import objects, ssconf
from ganeti.server.woken import WokenThread

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult, RpcRunner
    from ganeti.store import Store

RETRY_SECONDS = (1.0, 30.0)
"""Before a node that failed is tried again, at first and at most; twice as long each time.

A node that has just left the store refuses until its copy is gone, which is soon; a node that is broken stays broken.
"""


class SsconfPusher(WokenThread):
    """Sends changed values; tries again when a node does not answer."""

    def __init__(self, store: Store, snapshot: Callable[[], objects.Snapshot], rpc: RpcRunner):
        super().__init__(store, "SsconfPusher", objects.ROW_KINDS)
        self._snapshot = snapshot
        self._rpc = rpc
        # What each node holds for sure.
        self._sent: dict[str, dict[str, str]] = {}
        # Nodes that failed the last time, and how long each was to be left alone.
        self._delays: dict[str, float] = {}

    def Turn(self) -> float | None:
        return None if self.Push() else min(self._delays.values())

    def Push(self) -> bool:
        """Send the values to every node that lacks them; return whether all have them now."""
        root = self._snapshot()
        voters = self._store.Voters()
        nodes = [n for n in root.nodes.values() if not n.offline and n.uuid not in voters]
        self._sent = {n.uuid: self._sent[n.uuid] for n in nodes if n.uuid in self._sent}
        if not nodes:
            return True
        values = ssconf.Writable(ssconf.Values(root))
        lacking = [n.uuid for n in nodes if self._sent.get(n.uuid) != values]
        if not lacking:
            return True
        results: dict[str, RpcResult] = self._rpc.call_write_ssconf_files(lacking, values)
        first, most = RETRY_SECONDS
        self._delays = {
            uuid: min(2 * self._delays[uuid], most) if uuid in self._delays else first
            for uuid, result in results.items()
            if result.fail_msg
        }
        for uuid, result in results.items():
            if result.fail_msg:
                logging.warning("ssconf files could not be written on %s: %s", result.node_name, result.fail_msg)
            else:
                self._sent[uuid] = values
        return all(not result.fail_msg for result in results.values())
