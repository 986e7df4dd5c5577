"""Faults of a run: calls lost, late or unanswered; daemons, processes and machines that die or hang between two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.migration.master import HOSTS, Cluster
from simulation.migration.qemu import Qemu
from simulation.migration.world import Host, World

from ganeti import runtime

# Half of the faults strike within so many steps, about as many as a migration has; the others at a certain one.
_STEPS = 80
_MOMENTS = (
    "accept_instance on", "instance_migrate on", "instance_migrate on", "get_migration_status on",
    "answer of instance_get_migration_status", "get_migration_status on", "commit", "commit", "instance_start on",
    "finalize_migration_dst on", "end_sent on", "resume_sent on", "run_state on", "instance_start on",
    "instance_shutdown on", "blockdev_open on", "blockdev_close on", "commit", "committed", "confirm", "waits", "sending",
    "QEMU stop", "QEMU migrate_cancel", "QEMU cont", "QEMU query-status", "killed", "write /var/lib", "remove /var/lib",
)  # fmt: skip


@dataclass
class _Moment:
    """``words`` are in the name of the step; so many of them pass by before; ``kind`` None: chance decides."""

    words: str
    passing: int
    kind: Callable[[], None] | None = None


class Faults:
    """Strikes at planned steps and moments.  ``lost``: what may have held the guest, or showed that it did not, is lost."""

    moments: tuple[str, ...] = _MOMENTS

    def __init__(self, world: World, cluster: Cluster, count: int):
        self.world = world
        self.cluster = cluster
        self.lost = False
        self.told: list[str] = []
        rng = world.rng
        steps = [rng.random() < 0.4 for _ in range(count)]
        self._steps = sorted(world.steps + rng.randrange(1, _STEPS) for step in steps if step)
        self._moments = [_Moment(rng.choice(self.moments), rng.choice((0, 0, 0, 1, 2))) for step in steps if not step]
        self._marked: set[str] = set()
        # The master died during a migration, and the target may be out of its sight.
        self.cut_off = False
        self._source_lost = False
        kinds = (
            (8, self._Call), (4, self.KillMaster), (3, self._KillNoded), (2, self._KillQemu), (2, self._HangQemu),
            (2, self._PowerOff), (2, self._Reboot), (3, self._Cut), (2, self._Storm), (5, self.CutOff),
        )  # fmt: skip
        self._kinds: list[Callable[[], None]] = [kind for weight, kind in kinds for _ in range(weight)]

    def Strike(self, what: str, host: Host | None) -> None:
        """For ``World.strike``."""
        if self._steps and self.world.steps >= self._steps[0]:
            self._steps.pop(0)
            self._StrikeNow(what, host, None)
        for moment in self._moments:
            if moment.words in what:
                if moment.passing:
                    moment.passing -= 1
                else:
                    self._moments.remove(moment)
                    self._StrikeNow(what, host, moment.kind)
                return

    def At(self, words: str, kind: Callable[[], None], passing: int = 0) -> None:
        """Plan a certain fault for a step with these words in its name; ``passing`` such steps pass by before."""
        self._moments.insert(0, _Moment(words, passing, kind))

    def _StrikeNow(self, what: str, host: Host | None, kind: Callable[[], None] | None) -> None:
        if kind is None:
            kind = self.world.rng.choice(self._kinds)
            if " on " in what and self.world.Chance(0.5):
                kind = self._Call
        self.told.append(f"{kind.__name__.removeprefix('_')} at '{what}'{f' on {host}' if host else ''}")
        kind()

    def _Storm(self) -> None:
        """Several at once."""
        for kind in self.world.rng.sample((self._Call, self.KillMaster, self._Reboot, self._Cut, self._KillNoded), 3):
            kind()

    def CutOff(self) -> None:
        """The master dies; its next one may not see the target, and the source may have lost its power for a moment."""
        self.cut_off = True
        self.KillMaster()
        primary = self.cluster.primary
        others = [host for host in self.world.hosts.values() if host.processes and host is not primary]
        if others and self.world.Chance(0.75):
            self.world.Note(f"nothing passes between m and {others[0]}")
            self.world.cut.add(frozenset(("m", others[0].name)))
        if self.world.Chance(0.5):
            self.PowerOffHost(primary)
            self._PowerOnHost(primary)

    def LoseSource(self) -> None:
        """The master dies, its next one does not see the target, and the source is off for good."""
        self.cut_off = self._source_lost = True
        self.KillMaster()
        primary = self.cluster.primary
        for host in self.world.hosts.values():
            if host.processes and host is not primary:
                self.world.cut.add(frozenset(("m", host.name)))
        self.PowerOffHost(primary)

    def _Reboot(self) -> None:
        self.Reset(self._Host())

    def Reset(self, host: Host) -> None:
        """A machine loses its power for a moment."""
        self.PowerOffHost(host)
        if not host.on:
            self._PowerOnHost(host)

    def _PowerOnHost(self, host: Host) -> None:
        host.PowerOn()
        host.files["/proc/sys/kernel/random/boot_id"] = b"another boot\n"

    def _Host(self) -> Host:
        return self.world.hosts[self.world.rng.choice(HOSTS)]

    def _Qemu(self) -> Qemu | None:
        found = [process for host in self.world.hosts.values() for process in host.processes.values()]
        return self.world.rng.choice(found) if found else None

    def _Call(self) -> None:
        self.cluster.fate = self.world.rng.choice(("lost", "late", "late", "unanswered"))

    def Fate(self, fate: str) -> Callable[[], None]:
        """Return the fault that the call which begins meets this fate."""

        def call() -> None:
            self.cluster.fate = fate

        return call

    def KillTarget(self) -> None:
        """The target ends after it has run for a while, and the master does not see it."""
        self.world.Pass(3.0)
        self.world.master_dead = True
        current = self.world.current
        if current is not None and current.host is not self.cluster.primary:
            self.world.Note(f"{current} is killed")
            self._Lose(current)
            current.Die()

    def Spoil(self) -> None:
        """What is being sent cannot be loaded."""
        for transfer in self.world.transfers:
            transfer.loads = False

    def KillMaster(self) -> None:
        self.world.Note("the master daemon is killed")
        self.world.master_dead = True

    def _KillNoded(self) -> None:
        self._Host().KillNoded()

    def _KillQemu(self) -> None:
        process = self._Qemu()
        if process is not None:
            self.world.Note(f"{process} is killed")
            self._Lose(process)
            process.Die()

    def _HangQemu(self) -> None:
        process = self._Qemu()
        if process is not None:
            self.world.Note(f"{process} hangs")
            process.hung = True

    def _PowerOff(self) -> None:
        self.PowerOffHost(self._Host())

    def PowerOffHost(self, host: Host) -> None:
        if host.on:
            for process in host.processes.values():
                self._Lose(process)
            # With the power goes the log that says that a target never ran: its source is not known to be the guest.
            self.lost = self.lost or bool(host.load_failed)
            host.PowerOff()

    def _Lose(self, process: Qemu) -> None:
        # A target in flight may be as much the guest as its source.
        if process is self.world.current or process.transfer is not None:
            self.lost = True

    def _Cut(self) -> None:
        pair = frozenset(self.world.rng.sample(("m", *HOSTS), 2))
        self.world.Note(f"nothing passes between {' and '.join(sorted(pair))}")
        self.world.cut.add(pair)

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def Repair(self, everything: bool) -> None:
        """People put some things right: daemons are started, machines that are off are marked so or switched on."""
        world = self.world
        certain = everything or self._source_lost
        self.cluster.fate = ""
        for host in world.hosts.values():
            if host.on and not host.noded and (everything or world.Chance(0.6)):
                host.noded = True
                world.Note(f"the node daemon of {host} is started")
            if not host.on and host.name not in self._marked and (certain or world.Chance(0.6)):
                self._MarkOffline(host)
            for process in list(host.processes.values()):
                if process.hung and world.Chance(0.3):
                    process.hung = False
                    world.Note(f"{process} answers again")
        if everything or (self.cut_off and world.Chance(0.2)):
            world.cut.clear()

    def _MarkOffline(self, host: Host) -> None:
        self.world.Note(f"{host} is marked offline")
        self._marked.add(host.name)
        self._AsMaster(lambda: self.cluster.Set(host.name, offline=True))

    def _AsMaster(self, change: Callable[[], None]) -> None:
        strike, self.world.strike = self.world.strike, lambda what, host: None
        before = runtime.CurrentSide()
        runtime.EnterSide(self.cluster.side)
        try:
            change()
        finally:
            runtime.EnterSide(before)
            self.world.strike = strike

    def Heal(self) -> None:
        """Everything works; what hangs stays so or does not."""
        self._steps.clear()
        self._moments.clear()
        self.Repair(True)
        if self.world.master_dead:
            self.cluster.StartMaster()
        for host in self.world.hosts.values():
            if not host.on:
                self._PowerOnHost(host)
            if host.name in self._marked:
                self._marked.discard(host.name)
                self._AsMaster(lambda name=host.name: self.cluster.Set(name, offline=False))  # type: ignore[misc]
