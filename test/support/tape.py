"""A disk template that nobody has heard of, declared as any new one is; ``pytest -p support.tape`` has it.

It must be there before other modules read the names.
"""

from __future__ import annotations

from typing import Any

from ganeti import constants

constants.DISK_TEMPLATES += ("tape",)

from ganeti import storage  # noqa: E402
from ganeti.params import disk  # noqa: E402


class Tape(disk.DiskTemplate):
    name = "tape"
    text = "reels in the cellar"
    storage_type = "tape"
    nodes = 1
    copyable = growable = True

    def _Identity(self, plan: disk.DiskPlan, request: disk.DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        del plan, request
        return ("reel", f"{prefix}.{index}")


disk.TEMPLATES["tape"] = Tape()
storage.DRIVERS["tape"] = "fake:FakeDevice"
