"""Bugs planted on purpose: each is found by some seed, or the play sees less than it claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from simulation.mirrors.driver import HalfHere, MirrorHalf
from simulation.mirrors.kernel import CONNECTED, OUTDATED, STANDALONE, UPTODATE, Half
from simulation.mirrors.others import BesideOlder, GoesBack
from simulation.mirrors.run import MirrorParts

from ganeti import constants, objects
from ganeti.cmdlib import LU_MAPPING
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.recreate import LUInstanceRecreateDisks
from ganeti.cmdlib.disk.replace import LUInstanceReplaceDisks, NewSecondary, NewStorage
from ganeti.cmdlib.disk.settle import LUInstanceSettleMirrors
from ganeti.cmdlib.instance.moving.looking import Situation
from ganeti.cmdlib.instance.moving.migrate import LUInstanceFailover, LUInstanceMigrate
from ganeti.cmdlib.instance.moving.migration import TLMigrateInstance
from ganeti.cmdlib.instance.run import LUInstanceActivateDisks
from ganeti.config import ConfigWriter
from ganeti.server.mirrorkeeper import MirrorKeeper
from ganeti.storage.base import BlockDev, MirrorState


class _Bug(MirrorParts):
    """``exchanged``: logical units that are replaced."""

    exchanged: Mapping[str, Any] = {}

    def __init_subclass__(cls) -> None:
        cls.units = {**LU_MAPPING, **cls.exchanged}


def _Settling(unit: type[LUInstanceSettleMirrors]) -> Mapping[str, Any]:
    return {"OP_INSTANCE_SETTLE_MIRRORS": unit}


def _Moving(tasklet: type[TLMigrateInstance]) -> Mapping[str, Any]:
    """Return the units of fail-over and migration with another tasklet in them."""

    class Failover(LUInstanceFailover):
        def _MakeTasklet(self) -> Any:
            made = super()._MakeTasklet()
            if isinstance(made, TLMigrateInstance):
                made.__class__ = tasklet
            return made

    class Migrate(LUInstanceMigrate):
        def _MakeTasklet(self) -> Any:
            made = super()._MakeTasklet()
            if isinstance(made, TLMigrateInstance):
                made.__class__ = tasklet
            return made

    return {"OP_INSTANCE_FAILOVER": Failover, "OP_INSTANCE_MIGRATE": Migrate}


# --- the job ------------------------------------------------------------------------------------------------------------


class _FollowFirst(LUInstanceSettleMirrors):
    def _GoOnAlone(self, disks: Sequence[objects.Disk], why: str) -> None:
        self.LogInfo(why)
        for disk in disks:
            other = self._Other(disk)
            behind = disk.Replace(behind={"node": other, "since": 0.0})
            mirrors.Follow(self, self.instance, self._primary, [behind]).Raise("cannot continue")
            self.cfg.SetDisksBehind([disk.uuid], other)


class PrimaryGoesOnBeforeTheRecord(_Bug):
    exchanged = _Settling(_FollowFirst)


class _RemovedFirst(LUInstanceSettleMirrors):
    def _CountAgain(self, disks: Sequence[objects.Disk]) -> None:
        self.cfg.SetDisksBehind([disk.uuid for disk in disks], None)
        super()._CountAgain(disks)


class RecordGoesBeforeFencingIsOn(_Bug):
    exchanged = _Settling(_RemovedFirst)


class _NoSecondLook(LUInstanceSettleMirrors):
    def _CountAgain(self, disks: Sequence[objects.Disk]) -> None:
        counting = [disk.Replace(behind=None) for disk in disks]
        mirrors.Follow(self, self.instance, self._primary, counting).Warn("", self.LogInfo)
        self.cfg.SetDisksBehind([disk.uuid for disk in disks], None)


class FencingIsNotChecked(_Bug):
    """Whether the primary has heard that its other side counts again does not matter."""

    exchanged = _Settling(_NoSecondLook)


class _WaitsForAll(LUInstanceSettleMirrors):
    def NodesToConfirm(self) -> set[str]:
        return self.OnlineNodes(self.snapshot.AllNodes(self.instance))


class DeadSecondaryHoldsTheJobUp(_Bug):
    exchanged = _Settling(_WaitsForAll)


class _ToldAfterwards(LUInstanceSettleMirrors):
    def _CountAgain(self, disks: Sequence[objects.Disk]) -> None:
        disks = self.cfg.RenewDisksBehind([disk.uuid for disk in disks])
        counting = [disk.Replace(behind=None) for disk in disks]
        mirrors.Follow(self, self.instance, self._primary, counting).Raise("cannot freeze")
        if all(mirrors.IsComplete(state) for state in self._View().values()):
            self.cfg.SetDisksBehind([disk.uuid for disk in disks], None)
        for disk in counting:
            mirrors.Follow(self, self.instance, self._Other(disk), [disk]).Warn("", self.LogInfo)


class OtherSideIsToldAfterwards(_Bug):
    """The record goes before the other node knows, which still takes calls from the time of the record then."""

    exchanged = _Settling(_ToldAfterwards)


class _NeverCounts(LUInstanceSettleMirrors):
    def _CountAgain(self, disks: Sequence[objects.Disk]) -> None:
        self.LogInfo("The record stays")


class RecordStays(_Bug):
    exchanged = _Settling(_NeverCounts)


class _Incomplete(LUInstanceSettleMirrors):
    def Exec(self, feedback: Any) -> None:
        for disk in self._disks:
            if disk.behind is not None:
                self._CountAgain([disk])

    def _CountAgain(self, disks: Sequence[objects.Disk]) -> None:
        self.cfg.SetDisksBehind([disk.uuid for disk in disks], None)


class _EagerKeeper(MirrorKeeper):
    def _Judge(self, node: str, watched: Any, payload: Any) -> None:
        super()._Judge(node, watched, payload)
        for instance, disk in watched:
            if disk.behind is not None:
                self._Settle(instance, [])


class RecordGoesBeforeTheSideIsFilled(_Bug):
    exchanged = _Settling(_Incomplete)
    keeper = _EagerKeeper


# --- the keeper ---------------------------------------------------------------------------------------------------------


class _Blind(MirrorKeeper):
    def Look(self) -> bool:
        return True


class NobodyLooks(_Bug):
    keeper = _Blind


class _OneTry(MirrorKeeper):
    def _Settle(self, instance: objects.Instance, said: Any) -> None:
        if instance.uuid not in self._jobs:
            super()._Settle(instance, said)


class KeeperTriesOnce(_Bug):
    keeper = _OneTry


class _Forgetful(MirrorKeeper):
    def _Answered(self, result: Any) -> None:
        if not result.fail_msg:
            super()._Answered(result)


class SilentNodeIsNeverAskedAgain(_Bug):
    keeper = _Forgetful


# --- fail-over and migration --------------------------------------------------------------------------------------------


class _Careless(TLMigrateInstance):
    def _CheckCounts(self) -> None:
        pass


class FailoverIgnoresTheRecord(_Bug):
    exchanged = _Moving(_Careless)


class _Excusing(TLMigrateInstance):
    def _CheckCounts(self) -> None:
        if not self.snapshot.nodes[self.source_uuid].offline:
            super()._CheckCounts()


class OfflineNodeExcuses(_Bug):
    """As in 3.1: a primary that is marked offline makes the secondary good enough."""

    exchanged = _Moving(_Excusing)


class _NotTurned(ConfigWriter):
    def SetInstancePrimaryNode(
        self, inst_uuid: str, node_uuid: str, alone: bool = False, as_recorded: bool = False
    ) -> objects.Instance:
        return super().SetInstancePrimaryNode(inst_uuid, node_uuid, as_recorded=True)


class RecordIsNotTurnedRound(_Bug):
    config = _NotTurned


class _Forgetting(ConfigWriter):
    def SetDisksBehind(self, disk_uuids: Iterable[str], node_uuid: str | None) -> list[objects.Disk]:
        changed = super().SetDisksBehind(disk_uuids, node_uuid)
        if node_uuid is not None:
            super().SetDisksBehind([disk.uuid for disk in changed], None)
        return changed


class NothingIsRecorded(_Bug):
    config = _Forgetting


# --- replacement --------------------------------------------------------------------------------------------------------


def _Replacing(
    storage: type[NewStorage] = NewStorage, secondary: type[NewSecondary] = NewSecondary
) -> Mapping[str, Any]:
    """Return the unit of replacement with other steps in it."""

    class Replace(LUInstanceReplaceDisks):
        storage_class = storage
        secondary_class = secondary

    return {"OP_INSTANCE_REPLACE_DISKS": Replace}


class _RemovedBefore(NewSecondary):
    def _Finish(self) -> None:
        self._RemoveOld()
        super()._Finish()


class OldSideGoesBeforeTheNewOneIsFilled(_Bug):
    exchanged = _Replacing(secondary=_RemovedBefore)


class _NobodyLooks(NewSecondary):
    def _CheckResult(self) -> None:
        pass


class OldSideGoesUnseen(_Bug):
    """The old half is removed when the wait for the new one has ended, however it ended."""

    exchanged = _Replacing(secondary=_NobodyLooks)


class _OtherTarget(NewStorage):
    def _Allocate(self) -> Any:
        self._target, self._other = self._other, self._target
        return super()._Allocate()


class WrongSideGetsNewVolumes(_Bug):
    exchanged = _Replacing(storage=_OtherTarget)


class _Unrecorded(NewStorage):
    def _GivenUp(self, disk: objects.Disk) -> objects.Disk:
        return disk


class ExchangeIsNotRecorded(_Bug):
    """The primary writes alone while the volumes of the secondary are exchanged, and nobody knows."""

    exchanged = _Replacing(storage=_Unrecorded)


class _OwnUnrecorded(NewStorage):
    def _GivenUp(self, disk: objects.Disk) -> objects.Disk:
        return disk if self._target == self._primary else super()._GivenUp(disk)


class ExchangeOnThePrimaryIsNotRecorded(_Bug):
    """The guest is served by the other half while the primary's volumes are exchanged, and the old ones look complete."""

    exchanged = _Replacing(storage=_OwnUnrecorded)


class _OwnSideCounts(LUInstanceSettleMirrors):
    def _WriteThere(self, disks: Sequence[objects.Disk]) -> None:
        self.LogInfo("The primary's side counts as it did")


class PrimaryWithoutADiskIsNotRecorded(_Bug):
    """The disk below the primary fails for a moment; what is on it looks complete afterwards."""

    exchanged = _Settling(_OwnSideCounts)


# --- disks that are made again ------------------------------------------------------------------------------------------


class _CountedFirst(LUInstanceRecreateDisks):
    def Exec(self, feedback: Any) -> None:
        self.cfg.SetDisksBehind(self.instance.disks, None)
        self._PlanDisks(self.current)
        super().Exec(feedback)


class RecordGoesBeforeTheNewDisksAreMade(_Bug):
    """Both sides are new, so both count: also if their volumes turn out to be there, and nothing is made."""

    exchanged = {"OP_INSTANCE_RECREATE_DISKS": _CountedFirst}


# --- the node's side ----------------------------------------------------------------------------------------------------


class _Unfenced(MirrorHalf):
    def _FollowNow(self) -> None:
        super()._FollowNow()
        HalfHere().fencing = False


class NoFencing(_Bug):
    """As in 3.1: a primary goes on alone as soon as the link is lost."""

    driver = _Unfenced


class _Hasty(MirrorHalf):
    def _WaitForHandshake(self) -> None:
        pass


class OpensBeforeTheHandshake(_Bug):
    driver = _Hasty


class _Trusting(MirrorHalf):
    def _CheckData(self, half: Half) -> None:
        if self.Peer() != constants.PEER_COUNTS:
            super()._CheckData(half)


class StartIsNotRecorded(_Bug):
    """A guest is started beside a half without volumes, and writes on one leg until the keeper sees it."""

    driver = _Trusting


class _Boasting(MirrorHalf):
    def Connection(self) -> MirrorState:
        return super().Connection()._replace(incomplete=False)


class SideWithoutDataGivesUpTheOther(_Bug):
    """A mirror could be set up on the primary node, so the half that is away is recorded as behind."""

    driver = _Boasting


class _Blithe(MirrorHalf):
    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        half = HalfHere()
        if half.disk == OUTDATED or half.link != CONNECTED:
            half.disk = "UpToDate"
            half.Promote()
            half.host.open.add("/dev/shared")
            BlockDev.Open(self)
            return
        super().Open(force, exclusive)


class OpensWhateverThereIs(_Bug):
    driver = _Blithe


class _Graceful(MirrorHalf):
    def DisconnectNet(self) -> None:
        half = self._Command("disconnect")
        if half.link == CONNECTED:
            other = half.other
            secondary = other if half.primary else half
            secondary.disk = OUTDATED
            half.peer_disk, other.peer_disk = other.disk, half.disk
            half.Leave()
        half.link = STANDALONE


class DisconnectingLetsThePrimaryGoOn(_Bug):
    """Without force the kernel outdates the secondary, and the primary acknowledges alone what nobody recorded."""

    driver = _Graceful


class _Permissive(MirrorHalf):
    def _Permit(self, half: Half, dual: bool) -> None:
        if dual:
            super()._Permit(half, dual)


class PermissionIsNotWithdrawn(_Bug):
    """After a migration both halves may still be open."""

    driver = _Permissive


class _Contented(MirrorHalf):
    def _Permit(self, half: Half, dual: bool) -> None:
        """A half that has a link is connected: what more could be wanted?"""


class ConnectedIsTakenForPermitted(_Bug):
    driver = _Contented


class _Keeping(MirrorHalf):
    def _AssembleNow(self) -> None:
        super()._AssembleNow()
        HalfHere().discard = False

    def AttachNet(self, multimaster: bool) -> None:
        super().AttachNet(multimaster)
        HalfHere().discard = False


class AheadSideKeepsItsChanges(_Bug):
    driver = _Keeping


class _ServedByAnybody(MirrorHalf):
    def _CheckData(self, half: Half) -> None:
        if self.Peer() != constants.PEER_BEHIND:
            super()._CheckData(half)


class TheSideThatIsBehindServes(_Bug):
    """Beside a half without a disk it looks complete, although the record says that it does not count."""

    driver = _ServedByAnybody
    people = BesideOlder


class _Credulous(MirrorHalf):
    def _CheckData(self, half: Half) -> None:
        if not (self.Peer() == constants.PEER_AHEAD and half.link == CONNECTED and half.disk == UPTODATE):
            super()._CheckData(half)


class OutdatedDataIsTakenForComplete(_Bug):
    """As above, of the half that does not count itself."""

    driver = _Credulous
    people = BesideOlder


class _Heedless(LUInstanceActivateDisks):
    def _CheckMayGoBack(self, disks: Sequence[objects.Disk], situation: Situation) -> None:
        pass


class OlderDataIsUsedUnderAGuest(_Bug):
    """Whoever goes back to the primary's older copy need not end the guest that has seen more."""

    exchanged: Mapping[str, Any] = {"OP_INSTANCE_ACTIVATE_DISKS": _Heedless}
    people = GoesBack


class _Oblivious(MirrorHalf):
    def Obeying(self) -> AbstractContextManager[None]:
        return nullcontext()


class NodesForgetDecisions(_Bug):
    """A call that comes minutes late is obeyed, whatever was decided since."""

    driver = _Oblivious


class _NotRenewed(ConfigWriter):
    def RenewDisksBehind(self, disk_uuids: Iterable[str]) -> list[objects.Disk]:
        disks = self.Snapshot().disks
        return [disks[uuid] for uuid in disk_uuids]


class EndOfTheRecordIsNoDecision(_Bug):
    """What tells the primary that both sides count has the number of what told it that they do not."""

    config = _NotRenewed


BUGS: Sequence[type[MirrorParts]] = [
    bug for bug in list(globals().values()) if isinstance(bug, type) and issubclass(bug, _Bug) and bug is not _Bug
]
