"""Bugs planted on purpose: each is found by some seed, or the simulation sees less than it claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from simulation.migration.master import NotePath, Parts
from simulation.migration.qemu import DEVICE, HostOf

from ganeti import errors, objects, opcodes
from ganeti.backend import blockdev, guestnotes, instance, migration, wire
from ganeti.backend.instance import RemoveLinks
from ganeti.cmdlib import LU_MAPPING
from ganeti.cmdlib.instance.moving.cleanup import TLCleanupMigration
from ganeti.cmdlib.instance.moving.looking import LookAround, Situation
from ganeti.cmdlib.instance.moving.migrate import LUInstanceFailover, LUInstanceMigrate
from ganeti.cmdlib.instance.moving.migration import TLMigrateInstance
from ganeti.cmdlib.instance.moving.whereabouts import Judge, Kind, Verdict, View
from ganeti.cmdlib.instance.run import LUInstanceReboot, LUInstanceShutdown, LUInstanceStartup
from ganeti.params import runstate
from ganeti.storage import links

Dict = dict[str, Any]
Handlers = dict[str, Callable[..., Any]]


class _Bug(Parts):
    """``changed``: node procedures that are replaced; ``exchanged``: logical units that are."""

    changed: Mapping[str, Callable[..., Any]] = {}
    exchanged: Mapping[str, Any] = {}

    @classmethod
    def Handlers(cls) -> Handlers:
        return {**super().Handlers(), **cls.changed}

    def __init_subclass__(cls) -> None:
        cls.units = {**LU_MAPPING, **cls.exchanged}


def _Migrating(tasklet: type[TLMigrateInstance], cleanup: type[TLCleanupMigration] = TLCleanupMigration) -> Any:
    """Return the unit of migrations with another tasklet in it."""

    class Unit(LUInstanceMigrate):
        def _MakeTasklet(self) -> Any:
            made = super()._MakeTasklet()
            made.__class__ = cleanup if self.op.cleanup else tasklet
            return made

    return Unit


# --- the master ---------------------------------------------------------------------------------------------------------


def _OldFinalizeSource(data: Dict, success: bool, live: bool) -> None:
    """As in 3.1: ends or resumes whatever is there."""
    guest, driver = migration._Load(data)
    if success:
        driver.EndNow(guest)
        driver.Cleanup(guest.name)
        RemoveLinks(guest)
    elif driver.Exists(guest.name):
        driver.Resume(guest)
    guestnotes.Clear(guest.name)


def _OldFinalizeDestination(data: Dict, info: Any, success: bool) -> None:
    """As before: without success it ends whatever is there."""
    guest, driver = migration._Load(data)
    if success:
        driver.WaitArrived(guest, info)
    else:
        driver.Stop(guest, force=True)
        driver.Cleanup(guest.name)
    guestnotes.Clear(guest.name)


def _EndAnything(data: Dict, ident: int, attempt: str | None, sent: bool) -> None:
    """End what is there, whatever it is."""
    _OldFinalizeSource(data, True, True)


_OLD = {
    "instance_finalize_migration_src": _OldFinalizeSource,
    "instance_end_sent": _EndAnything,
    "instance_finalize_migration_dst": _OldFinalizeDestination,
}


class _AbortingCleanup(TLCleanupMigration):
    def _Resolve(self, doing: str, patience: float) -> Situation:
        situation = self._Look(self._pair)
        there = [node for node, view in situation.views.items() if view.state not in ("gone", "offline", "unreachable")]
        if len(there) > 1:
            source = self._instance.primary_node
            for node in there:
                if node != source:
                    self.rpc.call_instance_finalize_migration_dst(node, self._instance, None, False)
            self.rpc.call_instance_finalize_migration_src(source, self._instance, False, True)
        return super()._Resolve(doing, patience)


class CleanupGoesByNames(_Bug):
    """The clean-up of 3.1: with the name on two nodes the target is ended and the source resumed."""

    changed = _OLD
    exchanged = {"OP_INSTANCE_MIGRATE": _Migrating(TLMigrateInstance, _AbortingCleanup)}


class _Impatient(TLMigrateInstance):
    def _Watch(self) -> str | None:
        result = self.rpc.call_instance_get_migration_status(self.source_uuid, self._instance)
        if result.fail_msg:
            self.rpc.call_instance_finalize_migration_dst(self.target_uuid, self._instance, None, False)
            self.rpc.call_instance_finalize_migration_src(self.source_uuid, self._instance, False, True)
            raise errors.OpExecError(f"Could not migrate: {result.fail_msg}")
        return super()._Watch()


class OneFailedStatusAborts(_Bug):
    """The migration of 3.1: a status that cannot be read ends the target and resumes the source."""

    changed = _OLD
    exchanged = {"OP_INSTANCE_MIGRATE": _Migrating(_Impatient)}


class _TrustingStart(LUInstanceStartup):
    def _CheckPlace(self, doing: str) -> Situation:
        situation = LookAround(self, self.instance)
        primary = self.instance.primary_node
        here = situation.State(primary) in runstate.HOLDS
        verdict = Verdict(Kind.HERE, primary) if here else Verdict(Kind.NOWHERE)
        return dataclasses.replace(situation, verdict=verdict)


class StartBelievesConfiguration(_Bug):
    """A start looks at the configured primary node only."""

    exchanged = {"OP_INSTANCE_STARTUP": _TrustingStart}


def _EndSource(tasklet: TLMigrateInstance, situation: Situation) -> None:
    view = situation.views[tasklet.source_uuid]
    tasklet.rpc.call_instance_end_sent(tasklet.source_uuid, tasklet._instance, view.ident, view.attempt, True)


class _EarlyEnder(TLMigrateInstance):
    def _Settle(self, situation: Situation) -> None:
        if situation.verdict.node != self.source_uuid:
            _EndSource(self, situation)
        super()._Settle(situation)


class SourceEndedBeforeTheCommit(_Bug):
    """The sent copy, which is the mark of a migration under way, is ended before the new primary is stored."""

    exchanged = {"OP_INSTANCE_MIGRATE": _Migrating(_EarlyEnder)}


class _Keeping:
    """Without the disks' part of settling."""

    _Open: Callable[..., None]

    def _GiveDisksTo(self, where: str, users: Any) -> None:
        self._Open([where], exclusive=True)


class _Keeper(_Keeping, TLMigrateInstance):
    pass


class _LazyCleaner(_Keeping, TLCleanupMigration):
    pass


class DisksStayOpenOnBoth(_Bug):
    """After a migration nobody closes the disks on the other node."""

    changed = {"instance_end_sent": lambda data, ident, attempt, sent: _WithoutLeaving(data)}
    exchanged = {"OP_INSTANCE_MIGRATE": _Migrating(_Keeper, _LazyCleaner)}


def _WithoutLeaving(data: Dict) -> None:
    guest, driver = migration._Load(data)
    if driver.Look(guest.name).state == runstate.SENT:
        driver.EndNow(guest)
    guestnotes.Clear(guest.name)


class _Believer(TLMigrateInstance):
    def _Conclude(self, trouble: str | None) -> None:
        if trouble is None:
            self.cfg.SetInstancePrimaryNode(self._instance_uuid, self.target_uuid)
            _EndSource(self, self._Look(self._pair))
        super()._Conclude(trouble)


class CompletedMeansArrived(_Bug):
    """A source that has sent everything is ended without a look at the target."""

    exchanged = {"OP_INSTANCE_MIGRATE": _Migrating(_Believer)}


def _Judging(judge: Callable[[Mapping[str, View], Collection[str]], Verdict]) -> Mapping[str, Any]:
    """Return units whose looks are judged in another way."""

    def again(situation: Situation) -> Situation:
        views = situation.views
        concerned = {node for node, view in views.items() if view.state == runstate.UNREACHABLE}
        return dataclasses.replace(situation, verdict=judge(views, concerned))

    class Mover(TLMigrateInstance):
        def _Look(self, named: Collection[str] = ()) -> Situation:
            return again(super()._Look(named))

    class Cleaner(TLCleanupMigration):
        def _Look(self, named: Collection[str] = ()) -> Situation:
            return again(super()._Look(named))

    class FailOver(LUInstanceFailover):
        def _MakeTasklet(self) -> Any:
            made = super()._MakeTasklet()
            made.__class__ = Cleaner if self.op.cleanup else Mover
            return made

    class Start(LUInstanceStartup):
        def _Look(self) -> Situation:
            return again(super()._Look())

    class Stop(LUInstanceShutdown):
        def _Look(self) -> Situation:
            return again(super()._Look())

    class Reboot(LUInstanceReboot):
        def _Look(self) -> Situation:
            return again(super()._Look())

    return {
        "OP_INSTANCE_MIGRATE": _Migrating(Mover, Cleaner),
        "OP_INSTANCE_FAILOVER": FailOver,
        "OP_INSTANCE_STARTUP": Start,
        "OP_INSTANCE_SHUTDOWN": Stop,
        "OP_INSTANCE_REBOOT": Reboot,
    }


def _SentHolds(views: Mapping[str, View], concerned: Collection[str]) -> Verdict:
    seen = {
        node: dataclasses.replace(view, state=runstate.RUNNING) if view.state == runstate.SENT else view
        for node, view in views.items()
    }
    return Judge(seen, concerned)


class SentCopyHolds(_Bug):
    """A copy in ``postmigrate`` counts as one that runs."""

    exchanged = _Judging(_SentHolds)


def _NobodyIsSilent(views: Mapping[str, View], concerned: Collection[str]) -> Verdict:
    return Judge({node: view for node, view in views.items() if view.state not in runstate.BLIND}, ())


class SilenceMeansNothing(_Bug):
    """Nodes and processes that do not answer count as having nothing."""

    exchanged = _Judging(_NobodyIsSilent)


def _OfflineSentNothing(views: Mapping[str, View], concerned: Collection[str]) -> Verdict:
    noted = {view.sent_to for view in views.values()}
    lost = any(view.state == runstate.OFFLINE for view in views.values())
    seen = {
        node: View(runstate.GONE) if lost and view.state == runstate.UNREACHABLE and node not in noted else view
        for node, view in views.items()
    }
    return Judge(seen, concerned)


class OfflineSourceHasSentNothing(_Bug):
    """A node that is off may have sent the guest to one that does not answer; that is not thought of."""

    exchanged = _Judging(_OfflineSentNothing)


def _GoneNeverRan(views: Mapping[str, View], concerned: Collection[str]) -> Verdict:
    seen = {
        node: dataclasses.replace(view, never=view.state in (runstate.GONE, runstate.OFFLINE))
        for node, view in views.items()
    }
    return Judge(seen, concerned)


class GoneMeansNeverRan(_Bug):
    """A sent copy is resumed whenever its target is gone, whether the guest ran there or not."""

    exchanged = _Judging(_GoneNeverRan)


class _Quiet(LUInstanceShutdown):
    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        self._situation = None

    def Exec(self, feedback: Any) -> None:
        instance = self.cfg.MarkInstanceDown(self.instance.uuid)
        self.rpc.call_instance_shutdown(instance.primary_node, instance, self.op.timeout, self.op.reason)


class StopIgnoresFailure(_Bug):
    """A stop is reported as done although the node said that it was not."""

    exchanged = {"OP_INSTANCE_SHUTDOWN": _Quiet}


class _Hopeful(LUInstanceReboot):
    def CheckPrereq(self) -> None:
        self.instance = self.snapshot.instances[self.op.instance_uuid]  # type: ignore[index]

    def Exec(self, feedback: Any) -> None:
        self._StopAndStart(self.instance, False)
        self.cfg.MarkInstanceUp(self.instance.uuid)


class RebootStartsAnyway(_Bug):
    """A restart looks at nothing and starts the guest on the primary node."""

    exchanged = {"OP_INSTANCE_REBOOT": _Hopeful}


# --- the nodes ----------------------------------------------------------------------------------------------------------


class FinalizeEndsWhateverIsThere(_Bug):
    """The end of a migration kills the source's process whatever state it is in: also when the call comes late."""

    changed = {"instance_end_sent": _EndAnything}


def _EndOfAnyAttempt(data: Dict, ident: int, attempt: str | None, sent: bool) -> None:
    guest, driver = migration._Load(data)
    state = driver.Look(guest.name).state
    if state == runstate.SENT:
        driver.EndNow(guest)
    elif state != runstate.GONE:
        raise errors.RpcCallError(f"state {state}")
    migration._Leave(driver, guest)
    guestnotes.Clear(guest.name)


def _EndOfWhatRan(data: Dict, ident: int, attempt: str | None, sent: bool) -> None:
    del sent
    migration.EndSent(data, ident, attempt, True)


class SentSinceTheLookIsEnded(_Bug):
    """A copy that ran when the master looked, and has been sent since, is ended with the attempt that seemed to have failed."""

    changed = {"instance_end_sent": _EndOfWhatRan}


class LateEndForgetsNewerMigration(_Bug):
    """The end of one attempt to send the guest also forgets what is noted of a later migration."""

    changed = {"instance_end_sent": _EndOfAnyAttempt}


def _AcceptAnywhere(data: Dict, info: str | None, target: str) -> None:
    """As before: on disks that are closed, too."""
    closed = not HostOf().open
    HostOf().open.add(DEVICE)
    try:
        migration.Accept(data, info, target)
    finally:
        if closed:
            HostOf().open.discard(DEVICE)


class TargetWaitsOnClosedDisks(_Bug):
    """A target is prepared although its side of the mirror is closed: the migration that opened it is over."""

    changed = {"accept_instance": _AcceptAnywhere}


def _WithdrawUnheld(data: Dict, info: Any, success: bool) -> None:
    if success:
        migration.FinalizeDestination(data, info, success)
        return
    guest, driver = migration._Load(data)
    if driver.Look(guest.name).state == runstate.ARRIVING:
        guestnotes.Write(guest.name, guestnotes.Note(arrival=runstate.NEVER))
        driver.EndNow(guest)
    migration._Leave(driver, guest)


class TargetEndedWithoutHolding(_Bug):
    """A target is looked at and ended, but not held in between: it may have arrived."""

    changed = {"instance_finalize_migration_dst": _WithdrawUnheld}


def _ResumeAnything(data: Dict, ident: int, attempt: str | None) -> None:
    guest, driver = migration._Load(data)
    driver.Resume(guest)
    guestnotes.Clear(guest.name)


class LateResumeIsObeyed(_Bug):
    """A sent copy is resumed without a look at whether this is still the process and the attempt meant."""

    changed = {"instance_resume_sent": _ResumeAnything}


def _MigrateUnnoted(cluster_name: str, data: Dict, target: str, live: bool) -> None:
    guest, driver = migration._Load(data)
    driver.Migrate(cluster_name, guest, target, live)


class NoNoteOfTransfers(_Bug):
    """The source does not remember to where it sent the guest."""

    changed = {"instance_migrate": _MigrateUnnoted}


def _StartWithLinks(data: Dict, paused: bool, trail: Any) -> None:
    guest = wire.Instance(data)
    for index, disk in enumerate(wire.InstanceDisks(guest)):
        blockdev.Open("", [disk.ToDict(runtime=True)], True)
        links.Make(guest.name, "/dev/shared", index, links.Opening(guest.attempt or "", guest.hypervisor))
    instance.Start(data, paused, trail)


class StartOpensDisks(_Bug):
    """A start opens the disks by itself: also one that comes late."""

    changed = {"instance_start": _StartWithLinks}


def _StartFromWhatIsOpen(data: Dict, paused: bool, trail: Any) -> None:
    opening = links.OpeningOf(data["name"], 0)
    instance.Start(data if opening is None else {**data, "attempt": opening.attempt}, paused, trail)


class StartFromAnyOpening(_Bug):
    """A start needs disks that are open, for whatever they were opened: also by a call that came late."""

    changed = {"instance_start": _StartFromWhatIsOpen}


def _PlainRow(name: Any) -> Callable[..., Any]:
    def rows(*args: Any) -> Any:
        return {
            guest: {key: value for key, value in row.items() if key != runstate.KEY}
            for guest, row in instance.AllInfo(*args).items()
        }

    return rows


class StateIsNotReported(_Bug):
    """As in 3.1, a process is all a report goes by."""

    changed = {"all_instances_info": _PlainRow(None)}


def _NoResume(data: Dict, info: Any, success: bool) -> None:
    guest, driver = migration._Load(data)
    if success:
        guestnotes.Clear(guest.name)
        driver.WaitArrived(guest, info)
        return
    migration.FinalizeDestination(data, info, success)


class HeldGuestStaysPaused(_Bug):
    """A guest that arrived after it was held is not let run."""

    changed = {"instance_finalize_migration_dst": _NoResume}


def _AcceptWithoutNote(data: Dict, info: Any, target: str) -> None:
    migration.Accept(data, info, target)
    guestnotes.Clear(objects.Instance.FromDict(data, runtime=True).name)


class TargetRemembersNothing(_Bug):
    """A target does not remember that it waits: when its guest could not be loaded, nobody knows that it never ran."""

    changed = {"accept_instance": _AcceptWithoutNote}


def _AcceptTwice(data: Dict, info: Any, target: str) -> None:
    guest, driver = migration._Load(data)
    if driver.Exists(guest.name):
        driver.EndNow(guest)
    migration.Accept(data, info, target)


class AcceptMakesRoom(_Bug):
    """A call that prepares a target ends what is there: also when it comes late."""

    changed = {"accept_instance": _AcceptTwice}


def _AcceptAnyway(data: Dict, info: Any, target: str) -> None:
    name = objects.Instance.FromDict(data, runtime=True).name
    if guestnotes.Read(name).arrival is not None:
        guestnotes.Clear(name)
    migration.Accept(data, info, target)


class LateAcceptWhereTheGuestRan(_Bug):
    """A target waits again although the guest has run there: what was sent before seems to be the newest copy."""

    changed = {"accept_instance": _AcceptAnyway}


def _EndSentUndurably(data: Dict, ident: int, attempt: str | None, sent: bool) -> None:
    host, path = HostOf(), NotePath()
    before = host.files.get(path)
    migration.EndSent(data, ident, attempt, sent)
    if before is not None and path not in host.files:
        host.unsynced.setdefault(path, before)


class SettledMigrationComesBack(_Bug):
    """What a source remembers of a migration is removed, but not for good: it is there again after a loss of power."""

    changed = {"instance_end_sent": _EndSentUndurably}


def _CloseInUse(name: str, disks: Any) -> None:
    return None


class ClosingIsForgotten(_Bug):
    """Disks are not closed when they should be."""

    changed = {"blockdev_close": _CloseInUse}
    exchanged = {"OP_INSTANCE_MIGRATE": LU_MAPPING["OP_INSTANCE_MIGRATE"]}


BUGS: tuple[type[Parts], ...] = tuple(
    value
    for value in dict(globals()).values()
    if isinstance(value, type) and issubclass(value, _Bug) and value is not _Bug
)
assert opcodes.OP_MAPPING.keys() >= {op for bug in BUGS for op in bug.units}
