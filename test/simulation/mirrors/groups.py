"""Volume groups that lose a physical volume below one side of a mirror, and are repaired (doc/design-lvm-repair.rst).

A physical volume comes back only if nobody has missed it: where the kernel has noticed an error, or a mirror was set up without
its volumes, the disk is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.harness.play import Result
from simulation.migration.qemu import HostOf
from simulation.migration.world import Violation, World
from simulation.mirrors.driver import HalfHere
from simulation.mirrors.kernel import CONNECTED, DISKLESS, UPTODATE, Half
from simulation.mirrors.run import GROUP, KeptCluster, MirrorParts, People
from simulation.mirrors.run import Run as RunMirrors

from ganeti import errors, opcodes, watchedgroups

_PV, _PV_UUID = "/dev/sda", "uuid-of-sda"
_REPAIRING = (
    "commit", "committed", "storage_list on", "node_volumes on", "blockdev_getmirrorstatus on", "blockdev_find on",
    "blockdev_removechildren on", "drbdsetup detach", "answer of blockdev_removechildren", "storage_execute on", "vgreduce",
    "answer of storage_execute", "lv_list on", "drbd_follow on", "answer of drbd_follow",
)  # fmt: skip
_FIELDS = {"name": lambda half: GROUP, "missing": lambda half: [_PV_UUID] if half.pv == "missing" else [],
           "returned": lambda half: [_PV] if half.pv == "returned" else []}  # fmt: skip


def _StorageList(su_name: str, su_args: list[Any], name: str | None, fields: list[str]) -> list[list[Any]]:
    del su_name, su_args, name
    return [[_FIELDS[field](HalfHere()) for field in fields]]


def _NodeVolumes() -> list[dict[str, str]]:
    half = HalfHere()
    return [
        {"name": name, "size": "1024.00", "dev": _PV, "vg": GROUP, "health": "partial" if name in half.missing else ""}
        for name in half.volumes
    ]


def _LvList(vg_name: list[str]) -> dict[str, list[Any]]:
    del vg_name
    return {f"{GROUP}/{name}": ["1024.00", False, False] for name in HalfHere().volumes}


def Vgreduce(force: bool = False) -> None:
    """As ``vgreduce --removemissing --force``; ``force``: remove volumes that are open, too, which LVM never does."""
    host, half = HostOf(), HalfHere()
    host.world.Step("vgreduce", host)
    if half.pv == "returned":
        raise errors.StorageError(f"'vgextend --restoremissing {GROUP} {_PV}' takes it back")
    used = half.assembled and half.storage is not None and half.kernel.data_volume() in half.missing
    if used and not force:
        raise errors.StorageError(f"Logical volume {GROUP}/{half.kernel.data_volume()} is used by another device.")
    if half.kernel.data_volume() in half.missing:
        half.kernel.CheckGivenUp(half)
    for name in half.missing:
        half.volumes.pop(name, None)
    half.missing, half.pv = set(), ""


class GroupParts(MirrorParts):
    @classmethod
    def Handlers(cls) -> dict[str, Callable[..., Any]]:
        return {
            **super().Handlers(),
            "storage_list": _StorageList,
            "storage_execute": lambda su_name, su_args, name, op: cls.Vgreduce(),
            "node_volumes": _NodeVolumes,
            "lv_list": _LvList,
        }

    @staticmethod
    def Vgreduce() -> None:
        Vgreduce()


def Run(seed: int, parts: type[MirrorParts] = GroupParts, faults: int | None = None) -> Result:
    """Run one seed; never raise for what goes wrong inside."""
    return RunMirrors(seed, parts, faults, Keepers)


class Keepers(People):
    """Administrators whose disks fail one at a time."""

    def __init__(self, world: World, cluster: KeptCluster):
        super().__init__(world, cluster)
        self.acts = (*self.acts, *[self.LoseAny] * 4, *[self.RepairGroup] * 6, self.ReturnPv, self.ReturnPv)
        self.plots = (*[self.LoseAndRepair] * 4, *[self.RepairAndReturn] * 2, self.RepairTwice, self.FailAndLose)

    # --- what they do -------------------------------------------------------------------------------------------------

    def _LosePv(self, half: Half) -> str:
        """A physical volume goes, but not below the last good side."""
        good = half.other.disk == UPTODATE and half.whole and self.disk.behind is None
        if not good or any(known.pv for known in self.kernel.everywhere):
            return "not now"
        self.world.Note(f"the physical volume below {half} is away")
        half.LosePv()
        if self.world.Chance(0.4):
            half.Notice()
        self.cluster.Keep(self.world.rng.choice((0.0, 6.0, 20.0)))
        return "lost"

    def LoseAny(self) -> str:
        return self._LosePv(self.world.rng.choice(self.kernel.halves))

    def ReturnPv(self) -> str:
        """A cable is plugged in again."""
        for half in self.kernel.everywhere:
            if half.pv == "missing" and not any(found and found.failed for found in half.volumes.values()):
                self.world.Note(f"the physical volume below {half} is there again")
                half.pv = "returned"
                return "returned"
        return "not now"

    def RepairOnlyCopy(self) -> str:
        """A physical volume is away for a while below the only side that has the data: nothing may be repaired there."""
        half, primary = self._Half(self.secondary), self._Half(self.cluster.primary)
        linked = primary.link == half.link == CONNECTED
        if not linked or primary.disk != DISKLESS or half.disk != UPTODATE or half.pv:
            return "not now"
        strike, self.world.strike = self.world.strike, lambda what, host: None
        touched, self.kernel.touched = self.kernel.touched, 0.0
        self.world.Note(f"the physical volume below {half} is away")
        half.LosePv()
        error = self.RepairGroup()
        self._TakeBack(half)
        self.world.strike, self.kernel.touched = strike, touched
        return error

    def RepairGroup(self) -> str:
        """Repair a volume group and do what the message says, as a person or with what the watcher has seen."""
        half = next((half for half in self.kernel.everywhere if half.pv), None)
        if half is None:
            return "nothing is missing"
        missing = [_PV_UUID] if self.world.Chance(0.4) else None
        error = self._Run(
            opcodes.OpRepairNodeStorage(node_name=half.host.name, storage_type="lvm-vg", name=GROUP, missing=missing)
        )
        said = f"{error} {self.cluster.hint}"
        if f"'vgextend --restoremissing {GROUP} {_PV}'" in said:
            self._TakeBack(half)
            return self.Activate()
        if "is used by another device" in error:
            raise Violation(f"a mirror has not let go of its lost volumes: {half}: {error}")
        if error:
            return error
        self._CheckRecorded(half)
        return self.Repair() if half in self.kernel.halves else ""

    def _TakeBack(self, half: Half) -> None:
        self.world.Note(f"{_PV} is taken back on {half.host}")
        half.missing, half.pv = set(), ""

    def _CheckRecorded(self, half: Half) -> None:
        tags = self.cluster.cfg.Snapshot().nodes[self.cluster.Uuid(half.host.name)].tags
        states = [repair.state for repair in watchedgroups.Repairs(tags).values()]
        if watchedgroups.PENDING in states:
            raise Violation(f"a repair has ended and stands for one that is under way: {tags}")

    # --- plots --------------------------------------------------------------------------------------------------------

    def _Side(self) -> Half:
        return self.kernel.HalfOf(self.world.rng.choice((self.cluster.primary, self.secondary)))

    def _StrikeRepair(self) -> None:
        struck = self.struck
        fates = [struck.Fate(fate) for fate in ("lost", "unanswered", "unanswered", "late")]
        reset = lambda: struck.Reset(self.secondary)  # noqa: E731 - named in what a run tells
        self._Strike(_REPAIRING, struck.KillMaster, struck.KillMaster, struck.CutLink, self._LoseNow, reset, *fates)

    def LoseAndRepair(self) -> list[Callable[[], str]]:
        """Something fails while a group is repaired, or its volumes are made again; then the primary's machine dies."""
        choice = self.world.rng.choice
        if self.world.Chance(0.8):
            self._StrikeRepair()
        after = choice((self.Wait, self.Cut, self.RepairGroup, self.LosePrimary))
        return [lambda: self._LosePv(self._Side()), self.RepairGroup, after, self.LosePrimary, self.Return]

    def RepairAndReturn(self) -> list[Callable[[], str]]:
        """A repair is cut off after the mirror has let go; the physical volume comes back, and the primary's machine dies."""
        moments = ("storage_execute on", "vgreduce", "answer of blockdev_removechildren", "blockdev_removechildren on")
        self._Strike(moments, self.struck.KillMaster, self.struck.Fate("lost"), self.struck.Fate("late"))
        last = self.world.rng.choice((self.RepairGroup, self.Wait, self.LosePrimary))
        return [
            lambda: self._LosePv(self._Side()), self.RepairGroup, self.Wait, self.ReturnPv, last, self.LosePrimary, self.Return,
        ]  # fmt: skip

    def RepairTwice(self) -> list[Callable[[], str]]:
        """The guest is moved between two losses."""
        first = [lambda: self._LosePv(self._Side()), self.RepairGroup, self.Wait, self.FailOver]
        return [*first, lambda: self._LosePv(self._Side()), self.RepairGroup, self.LosePrimary, self.Return]

    def FailAndLose(self) -> list[Callable[[], str]]:
        """The disk of one side fails, and then a cable below the other one is pulled out and plugged in."""
        return [self.FailDisk, self.RepairOnlyCopy, self.Repair, self.Wait, self.LosePrimary, self.Return]

    # --- the end ------------------------------------------------------------------------------------------------------

    def _IsWell(self) -> bool:
        return not any(half.pv for half in self.kernel.everywhere) and super()._IsWell()

    def _Step(self) -> str:
        if any(half.pv for half in self.kernel.everywhere):
            error = self.RepairGroup()
            if not error:
                return error
        error = super()._Step()
        return self._StartAgain() if "Please run activate-disks" in error else error

    def CheckEnd(self) -> None:
        super().CheckEnd()
        held = [row.name for row in self.cluster.context.glm.QueryLocks() if row.owner]
        if held:
            raise Violation(f"jobs have left locks: {held}")
        cfg = self.cluster.cfg
        for uuid in self.disk.nodes:
            used = cfg.Snapshot().UsedMinors(uuid)
            free = next(minor for minor in range(len(used) + 1) if minor not in used)
            if cfg.AllocateDRBDMinor([uuid], "stranger", "stranger") != [free]:
                raise Violation(f"jobs have left a reservation of minor {free} on {self.cluster.HostOf(uuid)}")
