"""People with plots of their own, which others never follow: a new one shifts no seed of theirs."""

from __future__ import annotations

from collections.abc import Callable

from simulation.migration.master import NAME
from simulation.migration.world import Violation, World
from simulation.mirrors.kernel import INCONSISTENT, Half
from simulation.mirrors.run import DECIDING, KeptCluster, People

from ganeti import opcodes


class LateCalls(People):
    """A call of a migration arrives when that has ended, and nobody is called to clean up after it."""

    def __init__(self, world: World, cluster: KeptCluster):
        super().__init__(world, cluster)
        self.plots = (self.MoveAndHang,)

    def MoveAndHang(self) -> list[Callable[[], str]]:
        choose = self.world.rng.choice
        kind = choose(("drbd_attach_net", "drbd_attach_net", "blockdev_open", "accept_instance", "instance_migrate"))
        host = self.cluster.primary if kind == "instance_migrate" else self.secondary
        self.struck.At(f"{kind} on {host}", self.struck.Fate(choose(("late", "hangs"))), choose((0, 0, 1)))
        return [self.Migrate, *[self.Wait] * 6, self.Cut, self.Wait, self.Wait]

    def Migrate(self) -> str:
        error = super().Migrate()
        # Then it says so, and all is settled.
        self.moving = bool(error) and "it stays on" not in error
        return error


class BesideOlder(People):
    """A guest is to be started when one half has all its writes and no disk, and the other half is older."""

    def __init__(self, world: World, cluster: KeptCluster):
        super().__init__(world, cluster)
        self.plots = (self.StartBesideOlder,)

    def StartBesideOlder(self) -> list[Callable[[], str]]:
        """One half has all writes, and its volumes cannot be read when the guest is to be started beside the older one."""

        def slip(half: Half) -> str:
            self.struck.Slip(half)
            self.struck.HealLink()
            return "slipped"

        def slip_here() -> str:
            return slip(self._Half(self.cluster.primary))

        def slip_there() -> str:
            return slip(self._Half(self.secondary))

        parted = [self.Cut, self.Wait, self.Stop, slip_here]
        served = [slip_here, self.Wait, self.Stop, self.Wait, self.Wait, slip_there]
        return [*self.world.rng.choice((parted, served)), self.Start, self.Wait, self.Start, self.Return]


class GoesBack(People):
    """Somebody goes back to an older copy, because the newer one is lost, or seems to be."""

    def __init__(self, world: World, cluster: KeptCluster):
        super().__init__(world, cluster)
        self.acts = (*self.acts, self.GoBack)
        self.plots = (self.ServeAndGoBack,)

    def ServeAndGoBack(self) -> list[Callable[[], str]]:
        """The primary's disk fails for a while, the guest goes on with the other one, and that is lost."""
        choose = self.world.rng.choice

        def slip() -> str:
            self.struck.Slip(self._Half(self.cluster.primary))
            return "slipped"

        def lose() -> str:
            self.struck.TakeOff(self.secondary)
            return "lost"

        if self.world.Chance(0.5):
            self._Strike(DECIDING, self.struck.KillMaster, self._LoseNow, self.struck.Fate("unanswered"))
        ended = choose(([self.Stop], [self.Stop, self.Wait], []))
        lost = choose(([lose], [lose, self.Wait], []))
        return [slip, self.Wait, *ended, *lost, self.Start, self.GoBack, self.Start, self.Wait, self.Return]

    def GoBack(self) -> str:
        if self.moving:
            return "busy"
        kernel, half = self.kernel, self._Half(self.cluster.primary)
        before, served = set(kernel.given_up), self.Names(half)
        running = any(NAME in host.processes for host in self.world.hosts.values() if host.on)
        lacking = half.disk == INCONSISTENT
        self._GiveUpBut(half)
        op = opcodes.OpInstanceActivateDisks(instance_name=NAME, behind=self.secondary.name, ignore_consistency=True)
        error = self._Run(op)
        if not self.Names(half.other):
            kernel.given_up = before
        elif served and (running or lacking):
            raise Violation(f"the copy that a guest writes to was given up for {half}")
        return error

    def Names(self, half: Half) -> bool:
        """Whether the record names a half."""
        return self._OtherIsBehind(half.other)
