"""Whether a node has the data of a mirrored instance before the other copy is given up (doc/design-drbd.rst)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors
from ganeti.cmdlib.base import LogicalUnit, Tasklet
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.devices import IsDegraded, Unit
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc import RpcResult

_DISKLESS = "Diskless"
_LOOK_AT_NODE = "'gnt-cluster verify' names what is wrong with that node's disks; repair that, then try again"


class Copies:
    """The copies of an instance's mirrors on one node, of which ``source_uuid`` has the other ones.

    A subclass says for what they are needed; this is the target of a fail-over or migration.
    """

    # What messages call the node.
    _ROLE = "target node"

    def __init__(self, caller: LogicalUnit | Tasklet, instance: objects.Instance, node_uuid: str, source_uuid: str):
        self._caller = caller
        self._instance = instance
        self._node_uuid = node_uuid
        self._node = caller.snapshot.NodeName(node_uuid)
        self._source = caller.snapshot.nodes[source_uuid]
        self._disks = caller.snapshot.InstanceDisks(instance)
        self._there: mirrors.View | None = None

    def CheckActive(self, excused: bool, older: bool, feedback: Callable[[str], None]) -> list[objects.Disk]:
        """Raise OpExecError if an active disk lacks its storage, or is degraded without an excuse.

        A copy that has all the data, although the other one is not connected, has one.  ``older``: as in ``CheckIdle``.
        Returns the disks of which it has all because the other side is frozen: that one must be recorded as behind before
        anything lets it go on.
        """
        idle, waiting = [], []
        for disk in self._disks:
            if not disk_params.Of(disk).on_secondaries or not IsDegraded(
                self._caller, self._node_uuid, self._instance, disk
            ):
                continue
            view = self._View([disk])
            if view is None:
                raise self._Silent()
            state = view.get(disk.uuid)
            if self._IsWaitedFor(disk, state):
                waiting.append(disk)
                continue
            may_be_alone = excused or self._HasAll(disk)
            if state is None and may_be_alone:
                # Where it is not set up nothing is known of its data yet.
                idle.append(disk)
                continue
            if state is not None and state.get("incomplete") and not (state["in_resync"] and self._IsFilled(disk)):
                # The target would be recorded as the side that counts, and the only copy as one that does not.
                raise self._Lacking(disk, state)
            if not may_be_alone:
                raise errors.OpExecError(
                    f"Disk {disk.iv_name} is degraded or not fully synchronized on {self._ROLE} {self._node}, aborting",
                    hint=self._WhenDegraded(),
                )
            self._JudgeAge(disk, state, older, feedback)
            feedback(f"Ignoring degraded disk {disk.iv_name} on {self._ROLE} {self._node}")
        self._SetUpAndJudge(idle, older, feedback)
        return waiting

    def Waiting(self) -> list[objects.Disk]:
        """Return the disks without a record of which this node has all because the other side is frozen."""
        disks = mirrors.Mirrors(self._disks)
        view = self._View(disks) or {}
        return [disk for disk in disks if self._IsWaitedFor(disk, view.get(disk.uuid))]

    def _IsWaitedFor(self, disk: objects.Disk, state: dict[str, Any] | None) -> bool:
        """Return whether this copy has all because the other side is frozen."""
        return state is not None and bool(state["local_uptodate"]) and mirrors.Proves(disk, self._There(disk), state)

    def _There(self, disk: objects.Disk) -> dict[str, Any] | None:
        """Return the state of the other side; its node is asked once for all disks, as one that is silent costs seconds."""
        if self._there is None:
            disks = mirrors.Mirrors(self._disks)
            self._there = mirrors.LookBriefly(self._caller, self._instance, disks, self._source.uuid) or {}
        return self._there.get(disk.uuid)

    def _WhenDegraded(self) -> str:
        name = self._instance.name
        if mirrors.LookBriefly(self._caller, self._instance, self._disks, self._source.uuid) is None:
            return (
                f"node {self._source.name} does not answer: if it is off, use 'gnt-node modify --offline yes {self._source.name}'"
                " and try again"
            )
        return (
            f"its newest data may be on node {self._source.name} only: if the nodes cannot reach each other, repair the link between"
            f" them; use 'gnt-instance activate-disks --wait-for-sync {name}' and try again"
        )

    def _IsNewest(self, disk: objects.Disk) -> bool:
        """Return whether the record says that only the copy on this node counts."""
        return mirrors.Names(disk, self._source.uuid)

    def _HasAll(self, disk: objects.Disk) -> bool:
        """Return whether the record says so, and the other side, where it is open, has no data with which it could go on alone."""
        if not self._IsNewest(disk):
            return False
        view = mirrors.LookBriefly(self._caller, self._instance, [disk], self._source.uuid)
        if view is None:
            return False
        state = view.get(disk.uuid)
        return state is None or not (state["primary"] and state["local_uptodate"])

    def _IsFilled(self, disk: objects.Disk) -> bool:
        """Return whether the other side still fills this one: a link that broke a moment ago looks as before from here."""
        if self._source.offline:
            return False
        view = mirrors.LookBriefly(self._caller, self._instance, [disk], self._source.uuid)
        state = (view or {}).get(disk.uuid)
        return state is not None and (state["connected"] or state["in_resync"]) and state["local_uptodate"]

    def CheckIdle(self, older: bool, feedback: Callable[[str], None]) -> None:
        """Set the disks up on the node for as long as it takes to look; raise OpExecError if one cannot be used there.

        ``older``: data that the node knows to be older than that of the other side will do, missing data never does.
        """
        self._SetUpAndJudge(mirrors.Mirrors(self._disks), older, feedback)

    def CheckKnown(self) -> None:
        """Raise OpExecError if the node reports a copy as missing, incomplete or outdated; if it reports nothing, accept that.

        Disks that are not set up there are for as long as it takes to look.
        """
        disks = mirrors.Mirrors(self._disks)
        view = self._View(disks)
        if view is None:
            # Which disks are set up, and may be in use, is not known either: none is taken down afterwards.
            return
        idle = [disk for disk in disks if disk.uuid not in view]
        try:
            for disk in idle:
                self._SetUp(disk)
            if idle:
                view = self._View(disks) or view
            for disk in disks:
                if disk.uuid in view:
                    self._Judge(disk, view[disk.uuid], False, Unit(self._caller).LogInfo)
        finally:
            self._TakeDown(idle)

    def _SetUpAndJudge(self, disks: Sequence[objects.Disk], older: bool, feedback: Callable[[str], None]) -> None:
        try:
            for disk in disks:
                if trouble := self._SetUp(disk).fail_msg:
                    raise errors.OpExecError(
                        f"Disk {disk.iv_name} of instance {self._instance.name} cannot be set up on {self._ROLE} {self._node}:"
                        f" {trouble}",
                        hint=self._WhenNewer() if self._IsNewest(disk) else f"{_LOOK_AT_NODE}{self._Otherwise()}",
                    )
            view = self._View(disks) if disks else {}
            if view is None:
                raise self._Silent()
            for disk in disks:
                self._Judge(disk, view.get(disk.uuid), older, feedback)
        finally:
            self._TakeDown(disks)

    def _SetUp(self, disk: objects.Disk) -> RpcResult:
        """Activate a disk without opening it.

        Where one side is older it gets no link: the newer one, if it is there, would begin to fill that.
        """
        instance = self._instance
        sent = disk if disk.behind is None else disk_params.MirrorOf(disk).Unconnected(disk)
        return self._caller.rpc.call_blockdev_assemble(self._node_uuid, (sent, instance), instance, False, 0)

    def _Down(self, disk: objects.Disk, node_uuid: str) -> RpcResult:
        return self._caller.rpc.call_blockdev_shutdown(node_uuid, (disk, self._instance))

    def _TakeDown(self, disks: Sequence[objects.Disk]) -> None:
        for disk in disks:
            self._Down(disk, self._node_uuid).Warn(
                f"{disk.iv_name} could not be taken down on {self._node}", Unit(self._caller).LogWarning
            )

    def _Silent(self) -> errors.OpExecError:
        return errors.OpExecError(
            f"Node {self._node} does not report the state of the disks of instance {self._instance.name}",
            hint=self._WhenSilent(),
        )

    def _View(self, disks: Sequence[objects.Disk]) -> mirrors.View | None:
        return mirrors.Look(self._caller, self._instance, disks, [self._node_uuid])[self._node_uuid]

    def _Judge(
        self, disk: objects.Disk, state: dict[str, Any] | None, older: bool, feedback: Callable[[str], None]
    ) -> None:
        if state is None or state.get("stranger") or state.get("incomplete"):
            raise self._Lacking(disk, state)
        self._JudgeAge(disk, state, older, feedback)

    def _JudgeAge(
        self, disk: objects.Disk, state: dict[str, Any] | None, older: bool, feedback: Callable[[str], None]
    ) -> None:
        # What the record says counts even if it is marked as outdated.
        if state is None or state.get("disk") != mirrors.OUTDATED or self._IsNewest(disk):
            return
        if not older:
            raise errors.OpExecError(
                f"Disk {disk.iv_name} of instance {self._instance.name} is {mirrors.OUTDATED} on {self._ROLE} {self._node}: the other"
                f" side, on node {self._source.name}, has newer data",
                hint=f"{self._Fill()}; {self._GiveUp()}",
            )
        feedback(f"Ignoring that disk {disk.iv_name} is {mirrors.OUTDATED} on {self._ROLE} {self._node}")

    def _Lacking(self, disk: objects.Disk, state: dict[str, Any] | None) -> errors.OpExecError:
        """Return the error for a disk whose data is not, or not completely, on the node."""
        name = self._instance.name
        where, effect = f"on {self._ROLE} {self._node}", self._Effect()
        if state is None or state.get("stranger"):
            return errors.OpExecError(
                f"Disk {disk.iv_name} of instance {name} {where} is {mirrors.DescribeState(state)}: {effect}",
                hint=_LOOK_AT_NODE,
            )
        disk_state = state.get("disk") or "incomplete"
        diskless = disk_state == _DISKLESS
        why = ", its storage failed or is missing" if diskless else ", which does not have all of its data"
        hint = self._Renew() if diskless else self._Fill()
        if self._IsNewest(disk):
            hint = self._WhenNewer()
        return errors.OpExecError(
            f"Disk {disk.iv_name} of instance {name} is {disk_state} {where}{why}: {effect}",
            hint=f"{hint}{self._Otherwise()}",
        )

    def _Otherwise(self) -> str:
        """Return what is left if the other side is lost; nothing if it seems to be there."""
        backup = f"; if node {self._source.name} is lost, restore {self._instance.name} from a backup"
        return backup if self._source.offline else ""

    def _WhenBack(self) -> str:
        return f"when node {self._source.name} is back, " if self._source.offline else ""

    def _Fill(self) -> str:
        command = f"'gnt-instance activate-disks --wait-for-sync {self._instance.name}'"
        return f"{self._WhenBack()}use {command}, which fills it from node {self._source.name}, and try again"

    # --- what the copies are needed for -------------------------------------------------------------------------------

    def _Effect(self) -> str:
        return "the instance cannot run there"

    def _Renew(self) -> str:
        """Return what to do if the storage is missing."""
        command = f"'gnt-instance replace-disks --on-secondary {self._instance.name}'"
        return f"{self._WhenBack()}use {command}, which makes its disks there again, and try again"

    def _WhenNewer(self) -> str:
        """Return what to do if the record says that only the copy on this node, which cannot be used, is complete."""
        back = f"when node {self._source.name} is back: " if self._source.offline else ""
        lost = mirrors.HintIfLost(self._caller.snapshot, self._instance, self._source.uuid)
        activate = f"'gnt-instance activate-disks --wait-for-sync {self._instance.name}'"
        return f"{back}if the disk on node {self._node} can be read again, use {activate}, and try again; {lost}"

    def _GiveUp(self) -> str:
        """Return how to use a copy that is outdated."""
        return (
            "to give the newer data up for good, use"
            f" 'gnt-instance failover --ignore-consistency {self._instance.name}'"
        )

    def _WhenSilent(self) -> str:
        return f"try again; if the node is off for sure, use 'gnt-node modify --offline yes {self._node}'"


class KeptCopies(Copies):
    """Those of the primary node, when the ones on the secondary node are to be removed."""

    _ROLE = "primary node"

    def _Effect(self) -> str:
        return f"the copy on node {self._source.name} is needed and is not removed"

    def _Renew(self) -> str:
        command = f"'gnt-instance failover {self._instance.name}'"
        return f"{self._WhenBack()}use {command}, which uses the copy on node {self._source.name}, and try again"

    def _GiveUp(self) -> str:
        return (
            f"if node {self._source.name} is lost for good, 'gnt-instance startup --force {self._instance.name}' uses the"
            " older data; shut the instance down then, and try again"
        )

    def _WhenSilent(self) -> str:
        return "try again when it does; 'gnt-cluster verify' names what is wrong with that node"


class ChosenCopies(KeptCopies):
    """Those of the primary node, when an administrator says that they count and the ones on the secondary node do not."""

    def _Effect(self) -> str:
        return f"the copy on node {self._source.name} is needed and is not given up"

    def _Renew(self) -> str:
        command = f"'gnt-instance failover {self._instance.name}'"
        return f"{self._WhenBack()}use {command}, which uses the copy on node {self._source.name}"

    def _Fill(self) -> str:
        return self._Renew()

    def _Otherwise(self) -> str:
        return f"; if no complete copy is left, restore {self._instance.name} from a backup"

    def _GiveUp(self) -> str:
        command = f"'gnt-instance startup --force {self._instance.name}'"
        return f"if node {self._source.name} is lost for good, {command} uses the older data"


class OlderCopies(ChosenCopies):
    """Those of the primary node, when an administrator says that the newer ones on the secondary node are lost for good."""

    def TakeDownAndCheck(self, ignore_size: bool) -> None:
        """Take the mirrors down on both nodes, and check that the primary one has complete data of them, outdated or not.

        ``ignore_size``: their recorded size may be wrong.

        They are looked at without a link: what is left of the newer copy would overwrite the older one as soon as they are
        connected, and may fail before it has filled them.  Raises OpExecError.
        """
        disks = mirrors.Mirrors(self._disks)
        for node in (self._source.uuid, self._node_uuid):
            for disk in disks:
                result = self._Down(disk, node)
                if result.fail_msg and (node == self._node_uuid or not result.offline):
                    raise errors.OpExecError(
                        f"Disk {disk.iv_name} of instance {self._instance.name} cannot be taken down on node {result.node_name},"
                        f" as it must be before the older copy is used: {result.fail_msg}",
                        hint=f"{_LOOK_AT_NODE}; if that node is off, use 'gnt-node modify --offline yes {result.node_name}'",
                    )
        alone = [disk_params.MirrorOf(disk).Unconnected(disk) for disk in disks]
        if ignore_size:
            alone = [disk.Replace(size=0) for disk in alone]
        self._SetUpAndJudge(alone, True, Unit(self._caller).LogInfo)
