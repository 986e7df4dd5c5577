"""Plots: faults and acts that belong together and that chance alone would bring together too rarely.

Each returns what people do, one after the other; the first one is what the faults meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.migration.faults import Faults
    from simulation.migration.run import People

Acts = list[Callable[[], str]]


def CutOff(people: People, struck: Faults) -> Acts:
    """The master dies before or after the new primary is stored, and its next one may not see the target."""
    struck.At(people.rng.choice(("commit", "commit", "commit", "committed", "end_sent on")), struck.CutOff)
    return [
        people.Migrate,
        people.rng.choice((people.Start, people.Start, *[people.Reboot] * 4, people.FailOver, people.Stop)),
    ]


def SourceLost(people: People, struck: Faults) -> Acts:
    """The only node that knows where the guest went is off for good, and that node is out of sight."""
    struck.At("commit", struck.LoseSource)
    return [people.Migrate, people.FailOverElsewhere]


def TargetDies(people: People, struck: Faults) -> Acts:
    """The guest has run on the target and is gone: the copy on the source is old."""
    struck.At("commit", struck.KillTarget)
    return [people.Migrate, people.rng.choice((people.Cleanup, people.FailOver))]


def LateEnd(people: People, struck: Faults) -> Acts:
    """The end of one migration comes late, when the guest is back."""
    struck.At("end_sent on", struck.Fate("late"))
    return [people.Migrate, people.Cleanup, people.MigrateBack]


def LateEndAtTarget(people: People, struck: Faults) -> Acts:
    """The end of one migration comes late, when the next one has failed where the guest came from."""
    struck.At("end_sent on", struck.Fate("late"))
    struck.At("sending", struck.Spoil, 1)
    struck.At("answer of instance_migrate on", struck.KillMaster, 1)
    return [people.Migrate, people.Cleanup, people.MigrateBack]


def LateTarget(people: People, struck: Faults) -> Acts:
    """A target is prepared late, when the guest is there by another way."""
    struck.At("accept_instance on", struck.Fate("late"))
    return [people.Migrate, people.MigrateAgain, people.Cleanup]


def LateTargetOfTheDead(people: People, struck: Faults) -> Acts:
    """A target is prepared late, when the guest of the next migration has run there and died."""

    def kill() -> None:
        struck.KillTarget()
        people.world.Release()

    struck.At("accept_instance on", struck.Fate("held"))
    struck.At("commit", kill)
    return [people.Migrate, people.MigrateAgain, people.Cleanup]


def LateStart(people: People, struck: Faults) -> Acts:
    """A start comes late, when the guest was failed over."""
    struck.At("instance_start on", struck.Fate("late"))
    return [people.FailOver, people.FailOver, people.Cleanup]


def LateOpen(people: People, struck: Faults) -> Acts:
    """Disks are opened late, when the migration that wanted them was cleaned up."""
    struck.At("blockdev_open on", struck.Fate("late"), people.rng.choice((0, 1)))
    return [people.Migrate, people.Cleanup]


def LateResume(people: People, struck: Faults) -> Acts:
    """A sent copy is to run again late, when the guest was sent once more and runs on the target."""
    struck.At("sending", struck.Spoil)
    struck.At("resume_sent on", struck.Fate("late"))
    struck.At("commit", struck.KillMaster)
    return [people.Migrate, people.MigrateAgain, people.Start]


def Withdrawn(people: People, struck: Faults) -> Acts:
    """A transfer that seems to have failed is given up in the moment in which it ends."""
    struck.At("instance_migrate on", struck.Fate("unanswered"))
    if people.rng.random() < 0.5:
        struck.At(people.rng.choice(("QEMU stop", "kill", "finalize_migration_dst on")), struck.KillMaster)
    return [people.Migrate, people.Cleanup]


def LastStatus(people: People, struck: Faults) -> Acts:
    """The status fails just as the transfer ends."""
    struck.At("get_migration_status on", struck.Fate("lost"), people.rng.choice((0, 1, 5)))
    if people.rng.random() < 0.5:
        struck.At("answer of instance_get_migration_status", struck.KillMaster, people.rng.choice((0, 1, 5)))
    return [people.Migrate, people.Cleanup]


def SourceReset(people: People, struck: Faults) -> Acts:
    """The source loses its power for a moment, just after it was told to forget the migration."""

    def reset() -> None:
        struck.Reset(people.world.hosts[people.source])

    struck.At("answer of instance_end_sent on", reset)
    return [people.Migrate, people.MigrateBack]


def TwoLateCalls(people: People, struck: Faults) -> Acts:
    """The disks are opened late by one start and the guest is started late by the next one, when it was failed over."""
    # They are opened after the calls and the answers by which each node sets them up.
    struck.At("blockdev_assemble on", struck.Fate("held"), 4 if people.world.mirrored else 2)
    struck.At("instance_start on", struck.Fate("held"))
    struck.At("answer of instance_start on", people.world.Release)
    return [people.Stop, people.Start, people.Start, people.FailOver, people.Cleanup]


def StartAfterReset(people: People, struck: Faults) -> Acts:
    """The master dies before the new primary is stored, and the mark of the migration, the sent copy, is gone."""

    def reset() -> None:
        struck.KillMaster()
        struck.Reset(people.cluster.primary)

    struck.At("commit", reset)
    return [people.Migrate, people.Start]


def SentWhileLooked(people: People, struck: Faults) -> Acts:
    """The source is seen running; until the target is seen, all was sent, and the target could not load it."""
    struck.At("instance_migrate on", struck.Fate("unanswered"))
    struck.At("sending", struck.Spoil)
    # After the two looks before it, in each of which every node that may run the guest is asked, the source first.
    struck.At("answer of instance_run_state on", struck.Fate("lost"), 4 if people.world.mirrored else 6)
    return [people.Migrate, people.Cleanup]


def ClosedTarget(people: People, struck: Faults) -> Acts:
    """A target is prepared late, and the guest is sent to it late by the next migration, when both were cleaned up."""
    struck.At("accept_instance on", struck.Fate("held"))
    struck.At("instance_migrate on", struck.Fate("held"))
    # Each failed migration opens the disks on both nodes and then on the source alone, the clean-up once more.
    struck.At("answer of blockdev_open on", people.world.Release, 6)
    return [people.Migrate, people.MigrateAgain, people.Cleanup]


# Of a hundred seeds each plot has so many of its own; the others have none.  A new plot goes to the end: it takes its
# seeds from those that have none, and changes nothing for the others.
_SHARES = (
    (CutOff, 16),
    (SourceLost, 12),
    (TargetDies, 2),
    (LateEnd, 2),
    (LateEndAtTarget, 4),
    (LateTarget, 4),
    (LateTargetOfTheDead, 4),
    (LateStart, 2),
    (LateOpen, 2),
    (LateResume, 8),
    (Withdrawn, 10),
    (LastStatus, 2),
    (SourceReset, 4),
    (TwoLateCalls, 5),
    (StartAfterReset, 6),
    (SentWhileLooked, 6),
    (ClosedTarget, 4),
)
_SLOTS = 100
_BY_SLOT = tuple(plot for plot, share in _SHARES for _ in range(share))
assert len(_BY_SLOT) < _SLOTS


def PlotOf(seed: int) -> Callable[[People, Faults], Acts] | None:
    """Return the plot of a seed; it has a stream of its own."""
    slot = random.Random(f"plot {seed}").randrange(_SLOTS)
    return _BY_SLOT[slot] if slot < len(_BY_SLOT) else None
