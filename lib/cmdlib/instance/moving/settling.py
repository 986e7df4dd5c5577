"""Finding out where a guest is and bringing everything in line with it (doc/design-migration.rst).

Fail-over, migration and clean-up end here; each step may be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.cmdlib.base import Feedback, LogicalUnit, Tasklet
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.instance.moving.looking import EndLeftovers, LookAround, Situation
from ganeti.cmdlib.instance.moving.whereabouts import Kind
from ganeti.params import disk as disk_params
from ganeti.params import runstate

if TYPE_CHECKING:
    from ganeti import objects

_SYNC_PAUSE = 2.0
_LOOK_PAUSE = 2.0


class Settler(Tasklet):
    """Work on one instance and the two nodes between which it moves.

    After CheckPrereq ``source_uuid``, ``target_uuid`` and ``mirror`` (None, internal, external) are known.
    """

    source_uuid: str
    target_uuid: str
    mirror: str | None

    def __init__(self, lu: LogicalUnit[Any], instance_uuid: str):
        super().__init__(lu)
        self._instance_uuid = instance_uuid
        self._feedback: Feedback = lu.LogInfo

    @property
    def _instance(self) -> objects.Instance:
        return self.snapshot.instances[self._instance_uuid]

    @property
    def _disks(self) -> tuple[objects.Disk, ...]:
        return self.snapshot.InstanceDisks(self._instance)

    @property
    def _pair(self) -> list[str]:
        return [self.source_uuid, self.target_uuid]

    def _Name(self, uuid: str) -> str:
        return self.snapshot.nodes[uuid].name

    def _Look(self, named: Collection[str] = ()) -> Situation:
        return LookAround(self, self._instance, named)

    @property
    def _cleanup_hint(self) -> str:
        return f"use 'gnt-instance migrate --cleanup {self._instance.name}'"

    # --- where is it --------------------------------------------------------------------------------------------------

    def _Resolve(self, doing: str, patience: float) -> Situation:
        """Look until the guest is on one node; end transfers and let the guest return where that is safe.

        ``patience``: seconds in which nodes may answer again and transfers may end.  Raises OpExecError with every view.
        """
        deadline = runtime.Monotonic() + patience
        while True:
            situation = self._Look(self._pair)
            verdict = situation.verdict
            if verdict.kind is Kind.HERE:
                return situation
            if verdict.kind is Kind.RETURNS:
                self._feedback(
                    f"* {self._Name(verdict.target)} never ran it, resuming it on {self._Name(verdict.node)}"
                )
                if self._ResumeSent(situation, verdict.node):
                    continue
            elif verdict.kind is Kind.ARRIVING:
                if self._Receive(verdict.target) or self._Withdraw(verdict.target):
                    continue
            elif verdict.kind is Kind.UNDER_WAY:
                sends_rest = situation.State(verdict.node) == runstate.LEAVING
                if not sends_rest and self._Withdraw(verdict.target):
                    continue
            elif not verdict.silent:
                raise situation.Error(doing)
            if runtime.Monotonic() >= deadline:
                raise self._Unresolved(situation, doing)
            runtime.Sleep(_LOOK_PAUSE)

    def _Unresolved(self, situation: Situation, doing: str) -> errors.OpExecError:
        """Return the error; when a node answers again, its disks are still as the migration had set them up."""
        error = situation.Error(doing)
        if any(situation.State(node) == runstate.UNREACHABLE for node in situation.verdict.silent):
            return errors.OpExecError(f"{error}; after that, {self._cleanup_hint}")
        return error

    def _Receive(self, node: str) -> bool:
        """Wait for the guest to arrive; whether it has."""
        result = self.rpc.call_instance_finalize_migration_dst(node, self._instance, None, True)
        return not result.Warn(f"Instance {self._instance.name} has not arrived on {result.node_name}", self._feedback)

    def _Withdraw(self, node: str) -> bool:
        """End a process that waits for the guest and has never run it; whether that is certain."""
        result = self.rpc.call_instance_finalize_migration_dst(node, self._instance, None, False)
        return not result.Warn(f"The transfer to {result.node_name} cannot be ended now", self._feedback)

    def _ResumeSent(self, situation: Situation, node: str) -> bool:
        view = situation.views[node]
        result = self.rpc.call_instance_resume_sent(node, self._instance, view.ident, view.attempt)
        return not result.Warn(
            f"Instance {self._instance.name} cannot be resumed on {result.node_name}", self._feedback
        )

    # --- bringing everything in line ----------------------------------------------------------------------------------

    def _Settle(self, situation: Situation) -> None:
        """Make the node where the guest is the primary one, end what is left elsewhere, and give it the disks alone."""
        instance, where = self._instance, situation.verdict.node
        awaited = situation.views[where].arrival not in (None, runstate.ARRIVED)
        if awaited and situation.State(where) != runstate.UNRESPONSIVE:
            result = self.rpc.call_instance_finalize_migration_dst(where, instance, None, True)
            self._RaiseUnsettled(result, f"Could not finish the migration on {result.node_name}")
        if instance.primary_node != where:
            instance = self.cfg.SetInstancePrimaryNode(instance.uuid, where)
        EndLeftovers(self, instance, situation)
        self._ForgetTransfers(situation)
        self._GiveDisksTo(where, self._DiskUsers(situation))

    def _ForgetTransfers(self, situation: Situation) -> None:
        """Remove notes of transfers that are over, where the guest is and where it was or might have been since."""
        for node, view in situation.views.items():
            was_here = view.state == runstate.GONE and view.arrival not in (None, runstate.NEVER)
            if (view.attempt is not None and view.state != runstate.SENT) or was_here:
                result = self.rpc.call_instance_end_sent(node, self._instance, view.ident, view.attempt, False)
                self._RaiseUnsettled(result, f"Could not finish the migration on {result.node_name}")

    def _DiskUsers(self, situation: Situation) -> list[str]:
        """Return the nodes that may have the disks open: those that migrate, and any that has or had a copy."""
        nodes = dict.fromkeys([*self._pair, *situation.Involved()])
        return [node for node in nodes if not self.snapshot.nodes[node].offline]

    def _RaiseUnsettled(self, result: Any, text: str) -> None:
        if not result.fail_msg:
            return
        first = ""
        if result.failure is not None:
            name = result.node_name
            first = f"start the node daemon of {name}, or, if that node is off, use 'gnt-node modify --offline yes {name}'; after that, "
        raise errors.OpExecError(f"{text}: {result.fail_msg}; {first}{self._cleanup_hint}")

    def _GiveDisksTo(self, where: str, users: Iterable[str]) -> None:
        """Close the disks on every other node, bring mirrors back to one writer, open them on ``where`` alone."""
        if not self._disks:
            return
        users = list(users)
        others = [node for node in users if node != where]
        self._OutdateCalls()
        # Others have no side of the mirrors.
        self._Follow(node for node in users if node in self._pair)
        for node in others:
            self._Close(node)
        if self.mirror == disk_params.INTERNAL and not any(self.snapshot.nodes[node].offline for node in self._pair):
            self._MakeSingle(where)
        for node in others:
            self._Unmap(node)
        self._Open([where], exclusive=True)

    def _MakeSingle(self, where: str) -> None:
        """Bring the mirrors back to one writer."""
        self._feedback("* changing disks into single-master mode")
        try:
            self._Attach(dual=False)
            self._WaitUntilSync()
        except errors.OpExecError as err:
            name = self._instance.name
            raise errors.OpExecError(
                f"Instance {name} is on {self._Name(where)}, but its mirrored disks are not connected and complete ({err});"
                f" use 'gnt-instance activate-disks {name}'"
            ) from err

    def _OutdateCalls(self) -> None:
        """Number the mirrors anew: calls of before that come late are refused by the nodes that know it (design-drbd)."""
        if self.mirror == disk_params.INTERNAL:
            self.cfg.RenewDisksBehind([disk.uuid for disk in self._disks])

    def _Follow(self, nodes: Iterable[str]) -> None:
        """Have nodes know the number of the mirrors, before a call that opens or connects them can come between two steps."""
        if self.mirror != disk_params.INTERNAL:
            return
        for node in nodes:
            result = mirrors.Follow(self, self._instance, node, self._disks)
            self._RaiseUnsettled(result, f"Cannot prepare the mirrors on node {result.node_name}")

    # --- disks --------------------------------------------------------------------------------------------------------

    def _OpenBoth(self) -> None:
        """Both nodes may use the disks."""
        if not self._disks:
            return
        if self.mirror == disk_params.INTERNAL:
            self._feedback("* changing disks into dual-master mode")
            self._OutdateCalls()
            self._Close(self.target_uuid)
            self._Attach(dual=True)
            self._WaitUntilSync()
        self._Open(self._pair, exclusive=False)

    def _Argument(self) -> tuple[Sequence[objects.Disk], objects.Instance]:
        return self._disks, self._instance

    def _Close(self, node_uuid: str) -> None:
        self._feedback(f"* switching node {self._Name(node_uuid)} to secondary mode")
        result = self.rpc.call_blockdev_close(node_uuid, self._instance.name, self._Argument())
        self._RaiseUnsettled(result, f"Cannot close the instance's disks on node {result.node_name}")

    def _TryClose(self, node_uuid: str) -> None:
        """Close the disks on a node, with what shows that an instance may be started from them there."""
        result = self.rpc.call_blockdev_close(node_uuid, self._instance.name, self._Argument())
        result.Warn(f"The disks may still be open on node {self._Name(node_uuid)}", self.lu.LogWarning)

    def _Open(self, nodes: Sequence[str], exclusive: bool) -> None:
        mode = "exclusive" if exclusive else "shared"
        for node_uuid in nodes:
            self._feedback(f"* opening instance disks on node {self._Name(node_uuid)} in {mode} mode")
            # Without a name no links are made: a call that comes late must not let anything start there.
            result = self.rpc.call_blockdev_open(node_uuid, "", self._Argument(), exclusive)
            self._RaiseUnsettled(result, f"Cannot open the instance's disks on node {result.node_name}")

    def _Attach(self, dual: bool) -> None:
        """Connect the sides, and say whether both may be open; a link that is there is kept if DRBD can do that on it."""
        for result in self.rpc.call_drbd_attach_net(self._pair, self._Argument(), dual).values():
            result.Raise(f"Cannot connect disks on node {result.node_name}")

    def _WaitUntilSync(self) -> None:
        self._feedback("* wait until resync is done")
        while True:
            all_done, lowest = True, 100.0
            for result in self.rpc.call_drbd_wait_sync(self._pair, self._Argument()).values():
                result.Raise(f"Cannot resync disks on node {result.node_name}")
                done, percent = result.payload
                all_done = all_done and done
                if percent is not None:
                    lowest = min(lowest, percent)
            if all_done:
                return
            if lowest < 100:
                self._feedback(f"   - progress: {lowest:.1f}%")
            self.lu.Pause(_SYNC_PAUSE)

    def _Unmap(self, node_uuid: str) -> None:
        """Unmap the devices of disks on a node; leaving them mapped does no harm."""
        for disk in self._disks:
            if disk_params.Of(disk).mapped:
                result = self.rpc.call_blockdev_shutdown(node_uuid, (disk, self._instance))
                result.Warn(f"Could not unmap disk {disk.iv_name} on node {result.node_name}", self.lu.LogInfo)
