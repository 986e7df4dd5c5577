"""How much is tried before an answer is given up: counted, not timed, so that it is the same on every machine."""

from __future__ import annotations

from typing import Final

MOST: Final = 100_000
"""Tries of one instance on one node; a few seconds."""

GIVEN_UP: Final = (
    f"whether max-node-failures is kept takes more than {MOST} tries to find out; 'gnt-group modify"
    " --ipolicy-max-node-failures NUMBER GROUP' with a smaller number takes fewer"
)


class GivenUp(Exception):
    """The answer would take too long to find."""


class Effort:
    """What is left of the tries of each node group.

    ``Spend`` raises GivenUp when nothing is left, and from then on, until ``Renew`` is called because an instance found its place.
    """

    def __init__(self, most: int = MOST):
        self._most = most
        self._spent: dict[int, int] = {}

    def Spend(self, group: int, tries: int) -> None:
        """Count tries that are about to be made; raise GivenUp if those are too many."""
        self._spent[group] = self._spent.get(group, 0) + tries
        if self.UsedUp(group):
            raise GivenUp

    def UsedUp(self, group: int) -> bool:
        return self._spent.get(group, 0) > self._most

    def Renew(self) -> None:
        """Allow as many tries again, except in groups that were given up."""
        self._spent = {group: spent for group, spent in self._spent.items() if spent > self._most}

    @property
    def given_up(self) -> bool:
        """Whether the answer for some group was given up."""
        return any(self.UsedUp(group) for group in self._spent)
