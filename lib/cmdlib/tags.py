"""Tags of the cluster and its objects (doc/reference/drivers.md d.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ganeti import constants, errors, locking, objects, opcodes
from ganeti.cmdlib.base import Feedback, Filled, NoHooksLU
from ganeti.cmdlib.common import ExpandGroup, ExpandInstance, ExpandNetwork, ExpandNode, ShareAll, StillThere
from ganeti.config.writer import CheckTags
from ganeti.utils.patterns import Pattern
from ganeti.utils.text import NiceSort

# Kind of tagged object -> (how it is found, level of its lock).
_KINDS: dict[str, tuple[Callable[..., Any], int]] = {
    constants.TAG_NODE: (ExpandNode, locking.LEVEL_NODE),
    constants.TAG_INSTANCE: (ExpandInstance, locking.LEVEL_INSTANCE),
    constants.TAG_NODEGROUP: (ExpandGroup, locking.LEVEL_NODEGROUP),
    constants.TAG_NETWORK: (ExpandNetwork, locking.LEVEL_NETWORK),
}


_TagsOp = TypeVar("_TagsOp", opcodes.OpTagsGet, opcodes.OpTagsSet, opcodes.OpTagsDel)


class _TagsLU(NoHooksLU[_TagsOp]):
    """The common part of the units for one object's tags."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}
        self._uuid = ""
        if self.op.kind == constants.TAG_CLUSTER:
            return
        if not self.op.name:
            raise errors.OpPrereqError(f"Tags of kind '{self.op.kind}' need the name of an object", errors.ECODE_INVAL)
        expand, level = _KINDS[self.op.kind]
        target: Any = expand(self.snapshot, self.op.name)
        self._uuid = target.uuid
        if self._Locks():
            self.needed_locks[level] = [target.name if level == locking.LEVEL_INSTANCE else target.uuid]

    def _Locks(self) -> bool:
        return True

    def _Target(self) -> Any:
        """Return the object as it is configured now."""
        if self.op.kind == constants.TAG_CLUSTER:
            return self.snapshot.cluster
        target = self.snapshot.Objects(self.op.kind).get(self._uuid)
        return StillThere(target, self.op.kind.capitalize(), Filled(self.op.name))

    def CheckPrereq(self) -> None:
        self._Target()


class LUTagsGet(_TagsLU[opcodes.OpTagsGet]):
    """Answers the tags of one object."""

    def ExpandNames(self) -> None:
        super().ExpandNames()
        self.share_locks = ShareAll()

    def _Locks(self) -> bool:
        return bool(self.op.use_locking)

    def Exec(self, feedback: Feedback) -> list[str]:
        return list(self._Target().tags)


class LUTagsSet(_TagsLU[opcodes.OpTagsSet]):
    """Adds tags to one object."""

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        try:
            CheckTags(self.op.tags)
        except errors.TagError as err:
            raise errors.OpPrereqError(str(err), errors.ECODE_INVAL) from err

    def Exec(self, feedback: Feedback) -> None:
        target = self._Target()
        self.cfg.AddTags(target.KIND, target.uuid, self.op.tags)


class LUTagsDel(_TagsLU[opcodes.OpTagsDel]):
    """Removes tags from one object; all of them must be there."""

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        missing = NiceSort(set(self.op.tags) - set(self._Target().tags))
        if missing:
            shown = ", ".join(f"'{tag}'" for tag in missing)
            raise errors.OpPrereqError(f"Tag(s) {shown} not found", errors.ECODE_NOENT)

    def Exec(self, feedback: Feedback) -> None:
        target = self._Target()
        self.cfg.RemoveTags(target.KIND, target.uuid, self.op.tags)


class LUTagsSearch(NoHooksLU[opcodes.OpTagsSearch]):
    """Finds tags by a regular expression."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}

    def CheckPrereq(self) -> None:
        try:
            self._pattern = Pattern(self.op.pattern)
        except errors.ParameterError as err:
            raise errors.OpPrereqError(
                f"Invalid search pattern '{self.op.pattern}': {err}", errors.ECODE_INVAL
            ) from err

    def Exec(self, feedback: Feedback) -> list[list[str]]:
        return [[path, tag] for path, obj in _Paths(self.snapshot) for tag in obj.tags if self._pattern.Search(tag)]


def _Paths(snapshot: objects.Snapshot) -> Iterator[tuple[str, Any]]:
    """Return every tagged object with its path."""
    yield "/cluster", snapshot.cluster
    for path, found in (
        ("instances", snapshot.instances),
        ("nodes", snapshot.nodes),
        ("nodegroup", snapshot.nodegroups),
        ("network", snapshot.networks),
    ):
        for obj in found.values():
            yield f"/{path}/{obj.name or obj.uuid}", obj
