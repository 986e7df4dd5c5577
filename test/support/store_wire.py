"""One node's store, called as masters call it: through its Dispatcher, with messages written by hand."""

from __future__ import annotations

from typing import Any

from ganeti import serializer
from ganeti.rpc.server import Dispatcher
from ganeti.store import Epoch, NodeStore, Position
from ganeti.store.base import NOWHERE, Line, StoredRow
from support.store_nodes import CLUSTER


def At(epoch: Epoch, seq: int) -> Position:
    return Position(epoch, seq)


class Wire:
    """Talks to one node as masters do."""

    def __init__(self, folder: str):
        self.store = NodeStore(f"{folder}/ext/store.db", "node1", f"{folder}/run/calls")
        self._dispatcher = Dispatcher(self.store.Handlers(), self.store)

    def Raw(self, name: str, message: Any) -> Any:
        status, _, body = self._dispatcher.Handle(f"/{name}", {}, serializer.DumpBytes([message]))
        assert status == 200
        return serializer.Load(body)

    def Call(self, name: str, epoch: Epoch, **message: Any) -> Any:
        answer = self.Raw(f"store_{name}", {"cluster": CLUSTER, "epoch": str(epoch), "master": "m", **message})
        return answer[1] if answer[0] else answer

    @property
    def id(self) -> str:
        return self.store.GetState().store_id

    def Append(
        self, epoch: Epoch, before: Position, rows: list[list[Any]] | None, acked: Position = NOWHERE, **more: Any
    ) -> Any:
        message = {
            "stores": [self.id],
            "before": before.Wire(),
            "seq": None if rows is None else before.seq + 1,
            "rows": rows,
            "acknowledged": acked.Wire(),
            "prune": 0,
            **more,
        }
        return self.Call("append", epoch, **message)

    def Copy(self, epoch: Epoch, rows: list[StoredRow], last: Position, line: Line, **more: Any) -> Any:
        final = {"pieces": 1, "last": last.Wire(), "line": line.Wire(), "pruned": 0, "acknowledged": NOWHERE.Wire()}
        message = {"store": self.id, "copy": "c", "piece": 0, "rows": [row.Wire() for row in rows], "final": final}
        return self.Call("copy", epoch, **{**message, **more})

    def CatchUp(
        self, epoch: Epoch, before: Position, rows: list[StoredRow], last: Position, line: Line, **more: Any
    ) -> Any:
        final = {"pieces": 1, "before": before.Wire(), "last": last.Wire(), "line": line.Wire()}
        final["acknowledged"] = NOWHERE.Wire()
        message = {"store": self.id, "copy": "c", "piece": 0, "rows": [row.Wire() for row in rows], "final": final}
        return self.Call("catchup", epoch, **{**message, **more})

    def Live(self) -> dict[str, str | None]:
        return {row.id: row.value for row in self.store.database.GetRows()}
