"""Whether a node that refuses shows that a forced master began beside this one."""

from __future__ import annotations

import pytest

from ganeti.store.base import NOWHERE, Epoch, Line, Position
from ganeti.store.refusal import Refusal

OLD, OURS, NEWER = Epoch(1, "aaa"), Epoch(3, "ccc"), Epoch(3, "ddd")
OWN = Line([(OLD, 1), (OURS, 8)], Position(OURS, 20))
ACKNOWLEDGED = Position(OURS, 19)


@pytest.mark.parametrize(
    ("held", "forced"),
    [
        # Only promised, to somebody who did not become master.
        (Line([(OLD, 1)], Position(OLD, 7)), False),
        (Line([(OLD, 1), (OURS, 8)], Position(OURS, 15)), False),
        # The same, with what the master before us did not get acknowledged.
        (Line([(OLD, 1)], Position(OLD, 9)), False),
        (Line((), NOWHERE), False),
        # Elected: it has all that we acknowledged.
        (Line([(OLD, 1), (OURS, 8), (NEWER, 21)], Position(NEWER, 22)), False),
        # Forced without those who had it.
        (Line([(OLD, 1), (NEWER, 8)], Position(NEWER, 9)), True),
        (Line([(OLD, 1), (OURS, 8), (NEWER, 19)], Position(NEWER, 30)), True),
    ],
)
def test_only_a_history_that_began_without_ours_shows_a_forced_master(held: Line, forced: bool) -> None:
    assert Refusal(NEWER, "node2", held).FollowsForcedMaster(OWN, ACKNOWLEDGED) is forced
