"""Removing the exports of an instance from all nodes (doc/reference/drivers.md d.5)."""

from __future__ import annotations

from collections.abc import Iterable

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.base import Feedback, NoHooksLU
from ganeti.cmdlib.common import ExpandInstance
from ganeti.params import exported
from ganeti.utils.text import NiceSort


class LUBackupRemove(NoHooksLU[opcodes.OpBackupRemove]):
    """Removes what nodes list as the export of a name, complete or not.

    The instance may no longer exist.  If it does, its lock prevents a new export in the meantime.
    """

    REQ_BGL = False

    def ExpandNames(self) -> None:
        # The instance's lock is what counts; the nodes need only stay what they are.
        self.needed_locks = dict.fromkeys((locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODE), locking.ALL_SET)
        self.share_locks[locking.LEVEL_NODE_ALLOC] = self.share_locks[locking.LEVEL_NODE] = 1
        self._known = self._Exporting()
        if self._known is not None:
            self.needed_locks[locking.LEVEL_INSTANCE] = [self._known.name]

    def _Exporting(self) -> objects.Instance | None:
        """Return the instance that could be exported to the name; put the instance's full name into the opcode."""
        snapshot = self.snapshot
        name = self.op.instance_name
        found: objects.Instance | None = snapshot.ExpandName("instance", name)
        if found is None or snapshot.IsBare(found):
            return snapshot.InstanceByName(name.removesuffix(exported.UNFINISHED))
        instance = ExpandInstance(snapshot, name, self.op.instance_uuid)
        self.op.instance_name, self.op.instance_uuid = instance.name, instance.uuid
        return instance

    def CheckPrereq(self) -> None:
        # Also those that run no instances: they may be there to keep exports.
        nodes = list(self.snapshot.nodes.values())
        names = {self.op.instance_name, self.op.instance_name + exported.UNFINISHED}
        self._unasked = [node.name for node in nodes if node.offline]
        self._places: list[str] = []
        for uuid, result in self.rpc.call_export_list([node.uuid for node in nodes if not node.offline]).items():
            if result.fail_msg:
                if not exported.SaysThereIsNone(result.fail_msg):
                    self.LogWarning(f"Node {result.node_name} did not list its exports: {result.fail_msg}")
                    self._unasked.append(result.node_name)
            elif names.intersection(result.payload):
                self._places.append(uuid)
        if not self._places:
            raise self._NotFound()

    def _NotFound(self) -> errors.OpPrereqError:
        name = self.op.instance_name
        where = f"; {_Nodes(self._unasked)} could not be asked" if self._unasked else ""
        return errors.OpPrereqError(
            f"No export of '{name}' was found{where}",
            errors.ECODE_NOENT,
            hint=None
            if self._known
            else "the export of an instance that was removed has its fully qualified name; see 'gnt-backup list'",
        )

    def NodesToConfirm(self) -> set[str]:
        # Those that have just answered: one that is down does not keep the others' exports.
        return self.OnlineNodes(self._places)

    def Exec(self, feedback: Feedback) -> None:
        name = self.op.instance_name
        failed = []
        for uuid in self._places:
            result = self.rpc.call_export_remove(uuid, name)
            if exported.SaysThereIsNone(result.fail_msg):
                # Nodes may share the directory.
                feedback(f"Export {name} was already gone from node {result.node_name}")
            elif result.fail_msg:
                self.LogWarning(f"Could not remove export {name} on node {result.node_name}: {result.fail_msg}")
                failed.append(result.node_name)
            else:
                feedback(f"Removed export {name} from node {result.node_name}")
        left = [*failed, *self._unasked]
        if len(failed) == len(self._places):
            raise errors.OpExecError(f"No export of {name} was removed; {_Nodes(left)} may still have one")
        if left:
            self.LogWarning(
                f"{_Nodes(left)} may still have an export of {name}",
                hint=f"'gnt-backup remove {name}' tries again; 'gnt-backup list' shows what there is",
            )


def _Nodes(names: Iterable[str]) -> str:
    ordered = NiceSort(names)
    return f"node{'s' if len(ordered) > 1 else ''} {', '.join(ordered)}"
