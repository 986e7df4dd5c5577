"""Faults of a run: calls, daemons, machines, and the link in both directions or in one."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from simulation.migration.faults import Faults
from simulation.migration.master import Cluster
from simulation.migration.world import Host, World
from simulation.mirrors.kernel import Half, Kernel

_MOMENTS = (
    "commit", "committed", "commit", "committed", "drbd_follow on", "answer of drbd_follow", "drbd_states on",
    "answer of drbd_states", "drbd_views on", "answer of drbd_views", "blockdev_assemble on", "answer of blockdev_assemble", "drbdsetup primary",
    "drbdsetup resume-io", "drbdsetup outdate", "drbdsetup connect", "drbdsetup secondary", "drbdsetup disconnect",
    "drbdsetup net-options",
    "blockdev_create on", "blockdev_removechildren on", "blockdev_addchildren on", "blockdev_rename on",
    "blockdev_remove on", "answer of blockdev_remove", "drbd_disconnect_net on", "drbdsetup attach", "drbdsetup detach",
    "instance_start on", "instance_shutdown on", "instance_migrate on", "drbd_attach_net on", "blockdev_shutdown on",
)  # fmt: skip


class MirrorFaults(Faults):
    """Strikes at planned steps; ``kinds`` are those of this play."""

    moments = _MOMENTS

    def __init__(self, world: World, cluster: Cluster, kernel: Kernel, count: int):
        super().__init__(world, cluster, count)
        self._kernel = kernel
        kinds = (
            (6, self._Call), (5, self.KillMaster), (3, self._KillNoded), (4, self.CutLink), (2, self.CutOneWay),
            (2, self._PowerOff), (3, self._Reboot), (2, self._CutControl), (2, self._Storm),
        )  # fmt: skip
        self._kinds: list[Callable[[], None]] = [kind for weight, kind in kinds for _ in range(weight)]

    def _Host(self) -> Host:
        """One of those that the configuration names, or sometimes any."""
        hosts = self._kernel.configured() if self.world.Chance(0.8) else list(self.world.hosts.values())
        return self.world.rng.choice(hosts)

    def CutLink(self) -> None:
        self.world.Note("the link is cut")
        self.world.cut.update(self._Links())

    def _Links(self) -> list[frozenset[str]]:
        return [frozenset(pair) for pair in itertools.combinations(self.world.hosts, 2)]

    def CutOneWay(self) -> None:
        self._kernel.unheard = self._Host()
        self.world.Note(f"what {self._kernel.unheard} sends over the link is lost")

    def _CutControl(self) -> None:
        host = self._Host()
        self.world.Note(f"nothing passes between m and {host}")
        self.world.cut.add(frozenset(("m", host.name)))

    def _Storm(self) -> None:
        for kind in self.world.rng.sample(
            (self._Call, self.KillMaster, self._Reboot, self.CutLink, self._KillNoded), 3
        ):
            kind()

    def HealLink(self) -> None:
        self.world.Note("the link works")
        self.world.cut.difference_update(self._Links())
        self._kernel.unheard = None

    def Return(self, host: Host) -> None:
        """A machine that was off is a node again."""
        if not host.on:
            self._PowerOnHost(host)
        host.noded = True
        if host.name in self._marked:
            self._marked.discard(host.name)
            self.world.Note(f"{host} is marked online")
            self._AsMaster(lambda: self.cluster.Set(host.name, offline=False))

    def FailDisk(self, half: Half) -> None:
        """The local disk of a half can neither be read nor written any longer."""
        if half.storage is not None:
            self.world.Note(f"the local disk of {half} fails")
            half.storage.failed = True
            half.Detach()

    def Slip(self, half: Half) -> None:
        """The local disk of a half fails and is there again later, with what was written to it before."""
        if half.held is not None:
            self.world.Note(f"the local disk of {half} fails for a while")
            half.Slip(self.world.rng.choice((5.0, 30.0, 90.0)))

    def TakeOff(self, host: Host) -> None:
        """An administrator switches a machine off and says so."""
        self.PowerOffHost(host)
        if host.name not in self._marked:
            self._MarkOffline(host)

    def Repair(self, everything: bool) -> None:
        """People start daemons; only what is switched off for sure is marked so."""
        self.cluster.fate = ""
        for host in self.world.hosts.values():
            if host.on and not host.noded and (everything or self.world.Chance(0.6)):
                host.noded = True
                self.world.Note(f"the node daemon of {host} is started")
        if everything or self.world.Chance(0.3):
            for host in self.world.hosts.values():
                self.world.cut.discard(frozenset(("m", host.name)))
        if everything:
            self.HealLink()

    def Heal(self) -> None:
        self._steps.clear()
        self._moments.clear()
        self.Repair(True)
        if self.world.master_dead:
            self.cluster.StartMaster()
        for host in self.world.hosts.values():
            self.Return(host)
