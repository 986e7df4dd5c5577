"""A disk template and a type of storage units that nobody has heard of, declared as any new ones are.

``pytest -p support.tape`` has them: they must be there before other modules read the names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants

constants.DISK_TEMPLATES += ("tape",)
constants.STORAGE_TYPES += ("cellar",)

if TYPE_CHECKING:
    from ganeti import objects

from ganeti import storage  # noqa: E402
from ganeti.params import disk  # noqa: E402
from ganeti.params import units as types  # noqa: E402
from ganeti.params.types import OneOf  # noqa: E402
from ganeti.storage import units  # noqa: E402


class Tape(disk.DiskTemplate):
    name = "tape"
    text = "reels in the cellar"
    storage_type = "cellar"
    nodes = 1
    copyable = growable = True

    def _Identity(self, plan: disk.DiskPlan, request: disk.DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        del plan, request
        return ("reel", f"{prefix}.{index}")


disk.TEMPLATES["tape"] = Tape()
storage.DRIVERS["tape"] = "fake:FakeDevice"


class CellarType(types.UnitType):
    def Holds(self, name: str, disk: objects.Disk) -> bool:
        return disk.dev_type == "tape" and name == "left"


class Cellars(units.Units):
    """Two cellars; what is done to them is in ``done``."""

    type = "cellar"
    done: list[Any]

    def __init__(self) -> None:
        self.done = []

    def Rows(self, arguments: Sequence[Any]) -> list[units.Row]:
        assert arguments == []
        space = {types.SIZE: 100.0, types.FREE: 60.0, types.USED: 40.0, types.ALLOCATABLE: True}
        return [{types.NAME: name, **space} for name in ("right", "left")]

    def More(self, rows: Sequence[units.Row], fields: Collection[str]) -> list[units.Row]:
        return [{**row, "air": "dry"} for row in rows]

    def Modify(self, name: str, changes: Mapping[str, Any]) -> None:
        self.done.append((name, dict(changes)))

    def Repair(self, name: str) -> None:
        self.done.append(name)


types.TYPES["cellar"] = CellarType(
    "cellar",
    "Cellar",
    listed=True,
    more={"air": types.Field("Air")},
    changes={"air": OneOf("dry", "damp")},
    operations=frozenset([types.FIX_CONSISTENCY]),
)
units.UNITS["cellar"] = CELLARS = Cellars()
