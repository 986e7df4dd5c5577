"""What the calls of the store carry, as a node reads it: nothing in it is believed before it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti import errors
from ganeti.store.base import Epoch, IsSeq, Line, Position

if TYPE_CHECKING:
    from ganeti.store.copy.database import Cursor


class Message:
    """The argument of a store call; whatever is read from it is checked."""

    def __init__(self, value: Mapping[str, Any]):
        self._value = value
        self.cluster = self.Text("cluster")
        self.epoch = Epoch.Parse(value.get("epoch"))
        self.master = self.Text("master")

    def Text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str) or len(value) > 300:
            raise errors.ParseError(f"{key} must be a text")
        return value

    def Number(self, key: str) -> int:
        value = self._value.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
            raise errors.ParseError(f"{key} must be a number")
        return value

    def Place(self, key: str) -> Position:
        return Position.Parse(self._value.get(key))

    def __getitem__(self, key: str) -> Any:
        return self._value.get(key)


class Final:
    """The end of a catch-up, sent with the last piece: the number of pieces, and the state they lead to."""

    def __init__(self, message: Message, whole: bool):
        value = message["final"]
        if not isinstance(value, dict):
            raise errors.ParseError("final must be an object")
        self.last = Position.Parse(value.get("last"))
        if self.last.epoch != message.epoch:
            raise errors.ParseError("what a master sends must end in a transaction of its own epoch")
        self.line = Line.Parse(value.get("line"), self.last)
        self.acknowledged = Position.Parse(value.get("acknowledged"))
        self.before = None if whole else Position.Parse(value.get("before"))
        self.pieces, self.pruned = value.get("pieces"), value.get("pruned")
        if not IsSeq(self.pieces) or (whole and not IsSeq(self.pruned)):
            raise errors.ParseError("pieces and pruned must be numbers")


def ParseCursor(value: object) -> Cursor:
    """Return where a page begins that is asked for; raise ParseError."""
    if isinstance(value, (list, tuple)) and len(value) == 3:
        seq, kind, row_id = value
        if IsSeq(seq) and isinstance(kind, str) and isinstance(row_id, str):
            return seq, kind, row_id
    raise errors.ParseError("after must be [seq, kind, id]")
