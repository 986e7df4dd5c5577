"""Logical units whose master dies at a moment that the test names."""

from __future__ import annotations

from typing import Any

from ganeti.cmdlib.base import LogicalUnit


class Killed(BaseException):
    """Ends a job as a signal ends its master."""


def DiesAt(unit: type[LogicalUnit[Any]], *changes: str) -> type[LogicalUnit[Any]]:
    """Return the unit, killed when it is about to store the first of these changes (methods of its configuration)."""

    class Dies(unit):  # type: ignore[misc, valid-type]
        def Exec(self, feedback: Any) -> Any:
            real = self.cfg

            class Config:
                def __getattr__(self, name: str) -> Any:
                    if name in changes:
                        raise Killed
                    return getattr(real, name)

            self.cfg = Config()  # type: ignore[assignment]
            return super().Exec(feedback)

    return Dies


def DiesIn(unit: type[LogicalUnit[Any]], number: int, seen: list[str]) -> type[LogicalUnit[Any]]:
    """Return the unit, killed when it is about to make call number ``number`` to a node; ``seen``: the calls before."""

    class Dies(unit):  # type: ignore[misc, valid-type]
        def Exec(self, feedback: Any) -> Any:
            real = self.rpc

            class Calls:
                def __getattr__(self, name: str) -> Any:
                    if len(seen) >= number:
                        raise Killed
                    seen.append(name)
                    return getattr(real, name)

            self.rpc = Calls()  # type: ignore[assignment]
            return super().Exec(feedback)

    return Dies
