"""Bugs planted in the repair of volume groups: each is found by some seed of its play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulation.mirrors.driver import MirrorHalf
from simulation.mirrors.groups import GroupParts, Vgreduce

from ganeti import objects, watchedgroups
from ganeti.cmdlib import LU_MAPPING
from ganeti.cmdlib.node.storage import LURepairNodeStorage
from ganeti.config import ConfigWriter


class Bug(GroupParts):
    """``unit``: takes the place of the repair's logical unit; ``seeds``: one of these shows the bug."""

    unit: type[LURepairNodeStorage] = LURepairNodeStorage
    seeds = range(1, 201)

    def __init_subclass__(cls) -> None:
        cls.units: Mapping[str, Any] = {**LU_MAPPING, "OP_REPAIR_NODE_STORAGE": cls.unit}


class _Trusting(LURepairNodeStorage):
    def _Problems(self) -> Iterator[str]:
        yield from ()


class NobodyLooksAtTheOtherCopy(Bug):
    unit = _Trusting


class _Holding(LURepairNodeStorage):
    def _LetGo(self, inst: objects.Instance, dev: objects.Disk) -> None:
        del inst, dev


class MirrorsKeepTheirLostVolumes(Bug):
    unit = _Holding


class _Unrecorded(LURepairNodeStorage):
    def _LetGo(self, inst: objects.Instance, dev: objects.Disk) -> None:
        super()._LetGo(inst.Replace(disks_active=False), dev)


class ASideLetsGoUnrecorded(Bug):
    """The primary writes alone, and nobody knows, until the physical volume comes back."""

    unit = _Unrecorded


class _StaysPending(LURepairNodeStorage):
    def _Record(self, state: str) -> None:
        if state == watchedgroups.PENDING:
            super()._Record(state)


class ARepairIsUnderWayForEver(Bug):
    unit = _StaysPending


class VolumesInUseAreRemoved(Bug):
    """Nobody lets go of them, and LVM does not refuse."""

    unit = _Holding

    @staticmethod
    def Vgreduce() -> None:
        Vgreduce(force=True)


class _Late(MirrorHalf):
    def RemoveChildren(self, children: Sequence[objects.Disk]) -> None:
        self._Detach()


class ALateCallTakesVolumesAway(Bug):
    """It carries a decision that has been followed by another one, and is obeyed."""

    driver = _Late
    # Few calls come so late that what is asked before they are made has changed.
    seeds = range(680, 700)


class _Keeping(ConfigWriter):
    def DropECReservations(self, ec_id: Any) -> None:
        super().DropECReservations(ec_id)
        self.AllocateDRBDMinor(sorted(self.Snapshot().nodes), "left", ec_id)


class JobsKeepReservations(Bug):
    config = _Keeping


BUGS: Sequence[type[Bug]] = [
    bug for bug in list(globals().values()) if isinstance(bug, type) and issubclass(bug, Bug) and bug is not Bug
]
