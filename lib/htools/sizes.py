"""Sizes of instances that are counted (doc/reference/htools.md 15.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ganeti.htools.model.entities import Failure

_MEMORY_UNIT = 64
_DISK_UNIT = 256


@dataclass(frozen=True)
class Size:
    """The size of instances to allocate; MiB for disk and memory.

    ``least``: their minimum of memory, which counts where memory is shared; None: it is all of it.
    """

    disk: int
    memory: int
    cpus: int
    spindles: int = 1
    least: int | None = None

    def LeastMemory(self) -> int | None:
        """Return the minimum of an instance that is not made any smaller than this."""
        return None if self.least is None else min(self.least, self.memory)

    def Shrink(self, failure: Failure) -> Size | None:
        """Return the next smaller size in what a failure is about; None if it cannot be smaller."""
        if failure is Failure.MEM and self.memory - _MEMORY_UNIT >= _MEMORY_UNIT:
            return replace(self, memory=self.memory - _MEMORY_UNIT)
        if failure is Failure.DISK and self.disk - _DISK_UNIT >= _DISK_UNIT:
            return replace(self, disk=self.disk - _DISK_UNIT)
        if failure is Failure.CPU and self.cpus > 1:
            return replace(self, cpus=self.cpus - 1)
        if failure is Failure.SPINDLES and self.spindles > 1:
            return replace(self, spindles=self.spindles - 1)
        return None
