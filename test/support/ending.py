"""Logical units whose master is replaced by another one while they work."""

from __future__ import annotations

from typing import Any

from ganeti import store
from ganeti.cmdlib.base import LogicalUnit


def EndsAfter(unit: type[LogicalUnit[Any]], change: str) -> type[LogicalUnit[Any]]:
    """Return the unit, whose master learns that it has ended after this change (a method of its configuration) is stored.

    It cannot know that it is stored.  A change that would change nothing more succeeds.
    """

    class Ends(unit):  # type: ignore[misc, valid-type]
        def Exec(self, feedback: Any) -> Any:
            real, ended = self.cfg, list[str]()

            class Config:
                def __getattr__(self, name: str) -> Any:
                    return _end if name == change and not ended else getattr(real, name)

            def _end(*args: Any) -> Any:
                getattr(real, change)(*args)
                ended.append(change)
                raise store.StoreEnded("what became of this change is not known")

            self.cfg = Config()  # type: ignore[assignment]
            return super().Exec(feedback)

    return Ends
