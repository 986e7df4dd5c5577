"""Brings the ssconf files to nodes that hold no rows; all others write them from their own copy (design-store, 10)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ganeti import objects, runtime, ssconf
from ganeti.store import StoreError

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult, RpcRunner
    from ganeti.store import Position, Row, Store

# Seconds before a node that failed is tried again.
RETRY_AFTER = 30.0
_KINDS = frozenset(objects.ROW_KINDS)


class SsconfPusher:
    """A thread that sends changed values; it tries again when a node does not answer."""

    def __init__(self, store: Store, snapshot: Callable[[], objects.Snapshot], rpc: RpcRunner):
        self._store = store
        self._snapshot = snapshot
        self._rpc = rpc
        self._wake = runtime.Event()
        self._stopping = False
        # What each node holds for sure.
        self._sent: dict[str, dict[str, str]] = {}
        self._thread = runtime.Thread(self._Run, "SsconfPusher")

    def Start(self) -> None:
        self._store.Listen(self._Changed)
        self._wake.set()
        self._thread.start()

    def Stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def _Changed(self, _position: Position, rows: Sequence[Row]) -> None:
        if any(row.kind in _KINDS for row in rows):
            self._wake.set()

    def _Run(self) -> None:
        failed = False
        while True:
            self._wake.wait(RETRY_AFTER if failed else None)
            self._wake.clear()
            if self._stopping:
                return
            try:
                failed = not self.Push()
            except StoreError as err:
                logging.info("ssconf files are no longer sent: %s", err)
                return

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
        for uuid, result in results.items():
            if result.fail_msg:
                logging.warning("ssconf files could not be written on %s: %s", result.node_name, result.fail_msg)
            else:
                self._sent[uuid] = values
        return all(not result.fail_msg for result in results.values())
