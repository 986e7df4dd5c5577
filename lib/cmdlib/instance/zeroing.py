"""The helper that overwrites free space on an instance's disks with zeros (doc/design-transfers.rst).

What is in the cluster's image (``zeroing_image``) fills the file systems of the other disks with zeros.
"""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors, objects
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.instance.helper import Helper

_START_SECONDS = 300.0


class _Zeroing(Helper):
    SETTING, SET = "zeroing_image", "gnt-cluster modify --zeroing-image"
    DOING = "zeroing free space"
    UNDONE = "free space is not zeroed"

    def _Refused(self, why: str, hint: str | None = None) -> errors.OpPrereqError:
        return errors.OpPrereqError(
            f"Free space of instance {self._instance.name} cannot be zeroed: {why}", errors.ECODE_STATE, hint=hint
        )

    def _MoreTime(self) -> str:
        return "give it more time with --zeroing-timeout-per-mib"


def CheckZeroing(lu: LogicalUnit[Any], instance: objects.Instance) -> None:
    """Raise OpPrereqError unless the free space of an instance's disks can be zeroed; it may still run."""
    _Zeroing(lu, instance).Check(len(instance.disks))


def ZeroFreeSpace(
    lu: LogicalUnit[Any],
    feedback: Feedback,
    instance: objects.Instance,
    timeout_fixed: int | None,
    timeout_per_mib: float | None,
) -> None:
    """Zero the free space of a stopped instance's disks: ``Helper.Run``.

    The helper has ``timeout_fixed`` seconds, and ``timeout_per_mib`` more for each MiB; None: a default.
    """
    fixed = constants.ZEROING_SECONDS if timeout_fixed is None else timeout_fixed
    per_mib = constants.ZEROING_SECONDS_PER_MIB if timeout_per_mib is None else timeout_per_mib
    size = sum(disk.size for disk in lu.snapshot.InstanceDisks(instance))
    _Zeroing(lu, instance, feedback).Run(_START_SECONDS, max(0.0, fixed + per_mib * size))
