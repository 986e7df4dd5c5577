"""The one change that is still possible when too many master candidates are silent: one of them is taken offline.

No job can be taken in then, so ``gnt-node modify --offline yes NODE`` would be refused like everything else.  The node's
flags and the set of voters change first, in one transaction that the smaller set acknowledges; then the job is taken in
as always and finds that part done (doc/design-store.rst, 7).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ganeti import errors, objects, runtime
from ganeti.luxi.pending import Pending

if TYPE_CHECKING:
    from ganeti.config import ConfigWriter
    from ganeti.store import Store

OP_NODE_SET_PARAMS = "OP_NODE_SET_PARAMS"


class Standstill:
    """Looks at submitted jobs for the one that ends a standstill."""

    def __init__(self, cfg: ConfigWriter, store: Store, submit: Callable[[list[Any]], Pending]):
        self._cfg = cfg
        self._store = store
        self._submit = submit

    def Submit(self, ops: list[Any]) -> Pending:
        """Take the job in; if nothing else is possible, take its node out of the voters first."""
        node = self._NodeToTakeOut(ops)
        if node is None:
            return self._submit(ops)
        result = Pending()
        runtime.Thread(self._TakeOut, "standstill", (node, ops, result)).start()
        return result

    def _NodeToTakeOut(self, ops: list[Any]) -> objects.Node | None:
        if not self._store.StandsStill() or not isinstance(ops, list) or len(ops) != 1 or not isinstance(ops[0], dict):
            return None
        op = ops[0]
        if op.get("OP_ID") != OP_NODE_SET_PARAMS or op.get("offline") is not True:
            return None
        snapshot = self._cfg.Snapshot()
        name = op.get("node_uuid") or op.get("node_name")
        if not isinstance(name, str):
            return None
        node = snapshot.nodes.get(name) or snapshot.NodeByName(name)
        if node is None or node.uuid not in self._store.Voters() or node.uuid == snapshot.cluster.master_node:
            return None
        return node if node.name in self._store.Silent() else None

    def _TakeOut(self, node: objects.Node, ops: list[Any], result: Pending) -> None:
        logging.warning(
            "Too few master candidates answer; node %s is taken offline on the administrator's word", node.name
        )
        try:
            self._cfg.TakeOffline(node.uuid)
            submitted = self._submit(ops)
        except errors.GenericError as err:
            result.Fail(err)
            return

        def finish(pending: Pending) -> None:
            if pending.error is not None:
                result.Fail(pending.error)
            else:
                result.Complete(pending.value)

        submitted.Then(finish)
