"""One run: a mirrored guest writes while faults strike and administrators do what they may do; in the end all is whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simulation.harness.play import Result
from simulation.migration.judged import Judged
from simulation.migration.master import DRBD, NAME, Cluster, Parts
from simulation.migration.qemu import DEVICE, Qemu
from simulation.migration.world import Host, Killed, Violation, World
from simulation.mirrors.driver import HalfHere, MirrorHalf, Volume
from simulation.mirrors.faults import MirrorFaults
from simulation.mirrors.kernel import CONNECTED, DISKLESS, INCONSISTENT, STANDALONE, UPTODATE, Half, Kernel, Storage

from ganeti import objects, opcodes, pathutils, runtime
from ganeti.backend import drbd, wire
from ganeti.config import ConfigWriter
from ganeti.luxi.pending import Completed, Pending
from ganeti.params import disk as disk_params
from ganeti.params import runstate
from ganeti.server.mirrorkeeper import PERIOD, RETRY_AFTER, MirrorKeeper
from ganeti.storage import tree

# A frozen guest continues within so many seconds while a master and the primary's node live: the link's end is noticed
# (10), a job that failed is followed by another one, and nodes that are silent are waited for.
FROZEN_SECONDS = 60.0
_ROUNDS = 16
GROUP = "xenvg"
DECIDING = (
    "commit", "committed", "drbd_follow on", "answer of drbd_follow", "drbd_views on", "answer of drbd_views",
    "drbdsetup resume-io", "drbdsetup disk-options", "drbdsetup outdate",
)  # fmt: skip
_REPLACING = (
    "commit", "committed", "blockdev_create on", "answer of blockdev_create", "blockdev_shutdown on",
    "drbd_disconnect_net on", "answer of drbd_disconnect_net", "drbd_attach_net on", "answer of drbd_attach_net",
    "blockdev_getmirrorstatus on", "blockdev_removechildren on", "blockdev_addchildren on", "blockdev_remove on",
)  # fmt: skip
_EXCHANGING = (
    "blockdev_removechildren on", "drbdsetup detach", "answer of blockdev_removechildren", "blockdev_rename on",
    "answer of blockdev_rename", "blockdev_addchildren on", "drbdsetup attach", "answer of blockdev_addchildren",
)  # fmt: skip
_MOVING = (
    "drbdsetup net-options", "drbdsetup primary", "drbd_attach_net on", "answer of drbd_attach_net",
    "drbd_wait_sync on", "accept_instance on", "blockdev_close on", "instance_migrate on",
)  # fmt: skip


class MirrorParts(Parts):
    """What is played; planted bugs exchange parts of it."""

    keeper: type[MirrorKeeper] = MirrorKeeper
    driver: type[MirrorHalf] = MirrorHalf
    config: type[ConfigWriter] = ConfigWriter
    people: Callable[[World, KeptCluster], People] | None = None

    @classmethod
    def Handlers(cls) -> dict[str, Callable[..., Any]]:
        return {**super().Handlers(), "drbd_attach_net": _AttachNet, "vg_list": lambda: {GROUP: 1 << 20}}


def _AttachNet(disks: list[dict[str, Any]], multimaster: bool) -> None:
    """As on the node; but of two calls that are made at once, and here one after the other, only the last one can wait."""
    half = HalfHere()
    if half.link != CONNECTED and (half.other.link == STANDALONE or half.other.dual != multimaster):
        for disk in wire.Disks(disks):
            tree.FindOrFail(disk).AttachNet(multimaster)  # type: ignore[attr-defined]
        return
    drbd.AttachNet(disks, multimaster)


def Run(
    seed: int,
    parts: type[MirrorParts] = MirrorParts,
    faults: int | None = None,
    people: Callable[[World, KeptCluster], People] | None = None,
) -> Result:
    """Run one seed, by default with the people of ``parts``; never raise for what goes wrong inside."""
    result = Result(seed)
    world = World(seed + (1 << 32))
    with Judged(world, result, {"drbd": parts.driver, "plain": Volume}):
        cluster = KeptCluster(world, DRBD, parts)
        _Play(world, cluster, (people or parts.people or People)(world, cluster), faults, result)
    return result


def _Play(world: World, cluster: KeptCluster, people: People, faults: int | None, result: Result) -> None:
    runtime.EnterSide(cluster.side)
    people.Begin()
    count = world.rng.choice((0, 1, 1, 2, 2, 3, 4)) if faults is None else faults
    people.struck = struck = MirrorFaults(world, cluster, people.kernel, count)
    result.faults = struck.told  # also of a run that ends by what it breaks
    world.strike = struck.Strike
    acts = [world.rng.choice(people.acts) for _ in range(world.rng.choice((2, 3, 4, 5)))]
    if world.Chance(0.7):
        acts = world.rng.choice(people.plots)()
    for act in acts:
        result.Count(people.Do(act) or "done")
        struck.Repair(False)
    struck.Heal()
    people.Lead()
    people.CheckEnd()


class KeptCluster(Cluster):
    """A master with its keeper of mirrors, whose jobs are carried out at once."""

    def StartMaster(self) -> None:
        super().StartMaster()
        assert issubclass(self.parts, MirrorParts)
        self.cfg.__class__ = self.parts.config
        self._done: dict[int, str] = {}
        self.keeper = self.parts.keeper(
            self.context.store,  # type: ignore[arg-type]
            self.cfg.Snapshot,
            self.context.rpc,
            self._Submit,
            self._done.get,
        )

    def _Submit(self, ops: Sequence[opcodes.OpCode]) -> Pending:
        done, number = self._done, len(self._done) + 1
        done[number] = "running"
        error = self.Run(ops[0])
        done[number] = "error" if error else "success"
        return Completed(number)

    def Keep(self, seconds: float) -> None:
        """Let time go by while the keeper looks."""
        end = self.world.now + seconds
        while self.world.now < end:
            try:
                if self.world.master_dead:
                    self.StartMaster()
                self.keeper.Look()
            except Killed:
                self.StartMaster()
            self.world.Pass(PERIOD)


class People:
    """Administrators, and what they must never see."""

    def __init__(self, world: World, cluster: KeptCluster):
        self.world = world
        self.cluster = cluster
        self.kernel = Kernel(world, list(world.hosts.values()))
        self.kernel.recorded = self._OtherIsBehind
        self.kernel.data_volume = lambda: str(self.disk.children[0].logical_id[1])
        self.kernel.configured = lambda: [cluster.HostOf(uuid) for uuid in self.disk.nodes]
        self.struck = MirrorFaults(world, cluster, self.kernel, 0)
        # Somebody accepted a loss; a migration was begun and not finished.
        self.accepted = self.moving = False
        # The disks have to be made again.
        self.lost = False
        self._decision = self.disk.decision
        wait = self.Wait
        self.acts: tuple[Callable[[], str], ...] = (
            wait, wait, wait, self.Cut, self.Cut, self.HealLink, self.HealLink, self.FailOver, self.FailOver, self.Migrate,
            self.Stop, self.Start, self.Activate, self.LosePrimary, self.LosePrimary, self.LoseSecondary, self.Return,
            self.Return, self.Accept, self.GiveUp, self.NewSecondary, self.NewSecondary, self.NewStorage, self.FailDisk,
            self.Slip,
        )  # fmt: skip
        self.plots: tuple[Callable[[], list[Callable[[], str]]], ...] = (
            *[self.DecideAndDie] * 3, *[self.HealAndBreak] * 4, self.MoveAndLose, self.MoveAndLose, self.StartApart,
            self.AcceptAndReturn, self.DecideAndHang, self.DecideAndHang, self.ReplaceAndLose, self.ReplaceAndLose,
            self.FailAndReplace, self.ReplaceBehind, self.ExchangeAndLose, self.RecreateAndDie, self.FailOverAndFill,
            self.RecreateAndStart, self.RecreateAndStart, self.SlipAndLose, self.SlipAndLose, self.ExchangeAndStart,
            self.ExchangeAndStart, self.StartWithout, self.StartWithout, self.FailAndStart, self.FailAndStart,
        )  # fmt: skip

    @property
    def disk(self) -> objects.Disk:
        (disk,) = self.cluster.cfg.Snapshot().InstanceDisks(self.cluster.instance)
        return disk

    def _OtherIsBehind(self, half: Half) -> bool:
        """Whether the configuration says that the side other than this one does not count."""
        behind = self.disk.behind
        return behind is not None and behind["node"] != self.cluster.Uuid(half.host.name)

    @property
    def secondary(self) -> Host:
        return next(half.host for half in self.kernel.halves if half.host is not self.cluster.primary)

    @property
    def third(self) -> Host:
        """The host that has no half."""
        return next(half.host for half in self.kernel.everywhere if half not in self.kernel.halves)

    def _Half(self, host: Host) -> Half:
        return self.kernel.HalfOf(host)

    def Begin(self) -> None:
        """The guest runs on its primary node, and both halves are complete."""
        world, kernel = self.world, self.kernel
        world.mirrored, world.disk = True, kernel
        world.live = self._Live
        for host in world.hosts.values():
            host.files["/proc/sys/kernel/random/boot_id"] = b"boot\n"
            minor = disk_params.TEMPLATES["drbd"].Minor(self.disk, self.cluster.Uuid(host.name))
            if minor is not None:
                kernel.minors[host.name] = minor
        data, meta = (str(child.logical_id[1]) for child in self.disk.children)
        for half in kernel.halves:
            half.storage = Storage(UPTODATE, 1)
            half.volumes = {data: half.storage, meta: None}
            half.assembled = half.host.assembled = half.fencing = True
            half.link, half.peer_disk = CONNECTED, UPTODATE
        primary = self.cluster.primary
        self._Half(primary).primary = True
        primary.open.add(DEVICE)
        primary.links[pathutils.InstanceDiskLink(NAME, 0)] = DEVICE
        guest = Qemu(primary, NAME, runstate.PAUSED)
        guest.memory = 0
        guest.Run()

    def _Live(self) -> None:
        self.kernel.Advance()
        self._CheckOnePrimary()
        disk = self.disk
        if disk.decision != self._decision:
            self._decision = disk.decision
            if disk.behind is not None:
                self.kernel.CheckRecord(self._Half(self.cluster.HostOf(disk.behind["node"])))

    def _CheckOnePrimary(self) -> None:
        if not self.moving and sum(half.primary for half in self.kernel.everywhere) > 1:
            raise Violation(f"two halves are open, and nobody migrates: {self.kernel.everywhere}")

    # --- what they do -------------------------------------------------------------------------------------------------

    def Do(self, act: Callable[[], str]) -> str:
        try:
            return act()
        except Killed:
            self.cluster.StartMaster()
            return "killed"

    def _Run(self, op: opcodes.OpCode) -> str:
        if self.world.master_dead:
            self.cluster.StartMaster()
        error = self.cluster.Run(op)
        self.cluster.Keep(2 * PERIOD)
        return error

    def Wait(self) -> str:
        """Nothing happens but what happens; a frozen guest whose node can be reached must continue."""
        struck = len(self.struck.told)
        self.cluster.Keep(FROZEN_SECONDS)
        if len(self.struck.told) == struck:
            self._CheckContinues()
            self._CheckSlipped()
        return "done"

    def _CheckSlipped(self) -> None:
        """A half whose disk failed while the guest ran must be recorded by now."""
        host = self.cluster.primary
        half = self._Half(host)
        reachable = host.on and host.noded and self.world.Reaches("m", host.name)
        if not (reachable and half.primary and half.link == CONNECTED):
            return
        for side in (half, half.other):
            if side.slipped and side.other.disk == UPTODATE and not self._OtherIsBehind(side.other):
                raise Violation(f"{side} slipped and is not recorded after {FROZEN_SECONDS:g} s")

    def _CheckContinues(self) -> None:
        host = self.cluster.primary
        half = self._Half(host)
        reachable = host.on and host.noded and self.world.Reaches("m", host.name)
        whole = half.disk == UPTODATE and not half.other.primary
        if reachable and whole and half.frozen and NAME in host.processes:
            raise Violation(f"the guest stands still after {FROZEN_SECONDS:g} s: {half}")

    def Cut(self) -> str:
        self.world.rng.choice((self.struck.CutLink, self.struck.CutLink, self.struck.CutOneWay))()
        self.cluster.Keep(self.world.rng.choice((0.0, 4.0, 20.0)))
        return "cut"

    def HealLink(self) -> str:
        self.struck.HealLink()
        self.cluster.Keep(self.world.rng.choice((0.0, 4.0, 20.0)))
        return "healed"

    def FailOver(self, accept: bool = False) -> str:
        if accept:
            self._GiveUpBut(self._Half(self.secondary))
        return self._Run(opcodes.OpInstanceFailover(instance_name=NAME, ignore_consistency=accept, shutdown_timeout=0))

    def _GiveUpBut(self, kept: Half) -> None:
        """An administrator accepts to lose what one half does not have, and sees to it that the other one is off."""
        self.accepted = True
        self.kernel.given_up |= self.kernel.acknowledged - kept.data

    def Accept(self) -> str:
        """The primary's machine is off for good, and what only it has is given up."""
        self.struck.TakeOff(self.cluster.primary)
        return self._FailOverSurely(accept=True)

    def _FailOverSurely(self, accept: bool) -> str:
        """Fail over; where nothing is in the way this must start the guest."""
        target, struck = self._Half(self.secondary), len(self.struck.told)
        behind = self.disk.behind is not None and self.disk.behind["node"] == self.cluster.Uuid(target.host.name)
        host = target.host
        complete = target.disk not in (INCONSISTENT, DISKLESS) and not target.missing
        wanted = complete and not self.moving and (accept or not behind)
        node = self.cluster.cfg.Snapshot().nodes[self.cluster.Uuid(host.name)]
        wanted = wanted and self.cluster.instance.admin_state == "up" and not node.offline
        error = self.FailOver(accept)
        able = host.on and host.noded and self.world.Reaches("m", host.name) and len(self.struck.told) == struck
        if error and error != "killed" and wanted and able:
            raise Violation(f"the guest could have been started on {target}: {error}")
        return error

    def GiveUp(self) -> str:
        """What only the secondary has is given up, while the guest does not run there."""
        if self.moving or NAME in self.secondary.processes:
            return "busy"
        self._GiveUpBut(self._Half(self.cluster.primary))
        return self._Run(opcodes.OpInstanceActivateDisks(instance_name=NAME, behind=self.secondary.name))

    def Migrate(self) -> str:
        struck, able, not_loaded = len(self.struck.told), self._MayMigrate(), self.world.not_loaded
        self.moving = True
        error = self._Run(opcodes.OpInstanceMigrate(instance_name=NAME))
        self.moving = bool(error)
        if len(self.struck.told) == struck:
            # QEMU may fail to load what it was sent; the guest then goes back, and the disks are not to blame.
            if error and able and self.world.not_loaded == not_loaded:
                raise Violation(f"nothing was in the way of the migration: {error}")
            if not error and any(half.dual for half in self.kernel.halves):
                raise Violation(f"both halves may be open after the migration: {self.kernel.halves}")
        return error

    def _MayMigrate(self) -> bool:
        """Whether all is well, and nobody will notice that it is not."""
        nodes = self.cluster.cfg.Snapshot().nodes
        return self._IsWell() and all(
            half.host.noded and self.world.Reaches("m", half.host.name) and self.kernel.IsUp(half)
            and not (half.pv or half.slipped or nodes[self.cluster.Uuid(half.host.name)].offline)
            for half in self.kernel.halves
        )  # fmt: skip

    def Stop(self) -> str:
        return self._Run(opcodes.OpInstanceShutdown(instance_name=NAME, timeout=0))

    def Start(self) -> str:
        return self._Run(opcodes.OpInstanceStartup(instance_name=NAME, force=self.world.Chance(0.5)))

    def Activate(self) -> str:
        return self._Run(opcodes.OpInstanceActivateDisks(instance_name=NAME))

    def NewSecondary(self) -> str:
        """The second half goes to the host that has none; what others left there is removed before."""
        if self.moving:
            return "busy"
        self._Sweep()
        return self._Replace(mode="replace_new_secondary", remote_node=self.third.name)

    def _Sweep(self) -> None:
        """Do on a host without a half what verify says: take down what is there, and remove volumes that are unknown."""
        half = self._Half(self.third)
        if half.host.on and half.host.noded:
            half.TakeDown()
            half.storage = None
            half.host.assembled = False
            half.volumes.clear()
            half.primary = False

    def NewStorage(self) -> str:
        if self.moving:
            return "busy"
        modes = ("replace_on_primary", "replace_on_secondary", "replace_auto")
        return self._Replace(mode=self.world.rng.choice(modes))

    def _Replace(self, **values: Any) -> str:
        return self._Run(opcodes.OpInstanceReplaceDisks(instance_name=NAME, **values))

    def LoseVolumes(self) -> str:
        """The volumes of a guest that is down are lost on both hosts, and so are its writes."""
        if self.moving or self.cluster.instance.disks_active or any(half.assembled for half in self.kernel.halves):
            return "busy"
        for half in self.kernel.halves:
            half.volumes.clear()
        self.kernel.given_up |= self.kernel.acknowledged
        self.accepted = self.lost = True
        return "lost"

    def Recreate(self) -> str:
        if not self.lost:
            return "nothing is lost"
        if self.kernel.acknowledged - self.kernel.given_up:
            # One half was made before the job was cut off, and the guest has run on it since.
            self.lost = False
            return "in use again"
        if self.cluster.instance.admin_state != "down":
            self.Stop()
        for half in self.kernel.halves:
            # What an attempt that was cut off has left is removed, as the message says.
            if half.host.on:
                half.TakeDown()
                half.storage = None
                half.primary = half.host.assembled = False
                half.volumes.clear()
        error = self._Run(opcodes.OpInstanceRecreateDisks(instance_name=NAME))
        self.lost = bool(error)
        return error

    def RecreateAnyway(self) -> str:
        """Somebody has disks made again that are there."""
        there = any(half.volumes for half in self.kernel.halves)
        error = self._Run(opcodes.OpInstanceRecreateDisks(instance_name=NAME))
        if there and not error:
            raise Violation(f"disks were made again over those that are there: {self.kernel.halves}")
        return error

    def FailDisk(self) -> str:
        """One local disk fails, but not the last good one."""
        half = self.world.rng.choice(self.kernel.halves)
        if not (half.other.disk == UPTODATE and half.whole):
            return "not now"
        self.struck.FailDisk(half)
        self.cluster.Keep(self.world.rng.choice((0.0, 6.0, 20.0)))
        return "failed"

    def Slip(self) -> str:
        """One local disk fails for a while: its mirror lets go of it, but what it has is still there."""
        half = self.world.rng.choice(self.kernel.halves)
        if not half.whole:
            return "not now"
        self.struck.Slip(half)
        self.cluster.Keep(self.world.rng.choice((0.0, 6.0, 20.0)))
        return "slipped"

    def Reboot(self) -> str:
        """Both machines lose power; only the primary's comes back, and somebody says so."""
        primary = self.cluster.primary
        self.struck.PowerOffHost(primary)
        self.struck.TakeOff(self.secondary)
        self.world.Pass(self.world.rng.choice((1.0, 100.0)))
        self.struck.Return(primary)
        return "rebooted"

    def LosePrimary(self) -> str:
        """The primary's machine dies; it is marked offline and the guest is failed over."""
        self.struck.TakeOff(self.cluster.primary)
        self.cluster.Keep(self.world.rng.choice((0.0, 20.0)))
        return self._FailOverSurely(accept=False)

    def LoseSecondary(self) -> str:
        host = self.secondary
        self.struck.PowerOffHost(host)
        self.cluster.Keep(self.world.rng.choice((0.0, 4.0, 30.0)))
        return "lost"

    def Return(self) -> str:
        for half in self.kernel.halves:
            if not half.host.on:
                self.struck.Return(half.host)
        return self.Activate()

    # --- plots: faults where they hurt ---------------------------------------------------------------------------------

    def _Strike(self, moments: Sequence[str], *kinds: Callable[[], None]) -> None:
        rng = self.world.rng
        self.struck.At(rng.choice(moments), rng.choice(kinds), rng.choice((0, 0, 1, 2)))

    def DecideAndDie(self) -> list[Callable[[], str]]:
        """The link breaks, something fails while that is decided, then the primary's machine dies."""
        struck = self.struck
        calls = [struck.Fate(fate) for fate in ("lost", "unanswered", "late")]
        self._Strike(DECIDING, struck.KillMaster, struck.KillMaster, struck.KillMaster, *calls)
        after = self.world.rng.choice((self.Wait, self.HealLink, self.Cut))
        return [self.Cut, self.world.rng.choice((self.Wait, self.Cut, after)), self.LosePrimary, self.Return]

    def HealAndBreak(self) -> list[Callable[[], str]]:
        """The link works again, and breaks while the record is to be removed."""
        struck = self.struck

        def heal() -> str:
            if self.world.Chance(0.5):
                struck.At("drbd_follow on", struck.Fate("lost"))
            else:
                self._Strike(DECIDING, struck.KillMaster, struck.CutLink, struck.CutLink, struck.Fate("unanswered"))
            struck.HealLink()
            self.cluster.Keep(40.0)
            return "healed"

        def cut() -> str:
            struck.CutLink()
            self.cluster.Keep(self.world.rng.choice((0.0, 20.0)))
            return "cut"

        return [self.Cut, self.Wait, heal, self.world.rng.choice((cut, cut, self.HealLink)), self.LosePrimary]

    def MoveAndLose(self) -> list[Callable[[], str]]:
        """The primary's machine dies while both halves are opened, or one is closed again, for a migration."""
        struck = self.struck
        self._Strike(_MOVING, self._LoseNow, self._LoseNow, struck.KillMaster, struck.CutLink)
        return [self.Migrate, self.LosePrimary, self.Return]

    def StartApart(self) -> list[Callable[[], str]]:
        """The link breaks while the guest is down; it is started, and then its machine dies."""
        return [self.Stop, self.Cut, self.Start, self.Wait, self.LosePrimary, self.Return]

    def AcceptAndReturn(self) -> list[Callable[[], str]]:
        """Both halves go ways of their own, one after the other."""
        return [self.Cut, self.Wait, self.Accept, self.Wait, self.HealLink, self.Return]

    def DecideAndHang(self) -> list[Callable[[], str]]:
        """What lets the primary continue alone hangs on its node until both halves count again; then the link breaks."""
        if self.world.Chance(0.5):
            return self._DetachAndHang()
        kind = self.world.rng.choice(("drbd_follow", "drbd_follow", "blockdev_assemble"))
        first = self.Cut if kind == "drbd_follow" else self.Activate
        self.struck.At(f"{kind} on {self.cluster.primary}", self.struck.Fate("hangs"), self.world.rng.choice((0, 0, 1)))
        waits = [self.Wait] * self.world.rng.choice((3, 5, 6))
        return [self.Cut, first, self.Wait, self.HealLink, *waits, self.Cut, self.LosePrimary, self.Return]

    def _DetachAndHang(self) -> list[Callable[[], str]]:
        """What takes the secondary's volumes hangs there until both halves count again, which that node may not hear."""
        struck, host = self.struck, self.secondary
        struck.At(f"blockdev_removechildren on {host}", struck.Fate("hangs"), 0)
        struck.At(f"drbd_follow on {host}", struck.Fate("lost"), self.world.rng.choice((1, 1, 2)))
        waits = [self.Wait] * 6
        return [lambda: self._Replace(mode="replace_on_secondary"), *waits, self.LosePrimary, self.Return]

    def ReplaceAndLose(self) -> list[Callable[[], str]]:
        """Something fails while the second half goes to another host; then the primary's machine dies, or the link."""
        struck = self.struck
        fates = [struck.Fate(fate) for fate in ("lost", "unanswered", "late")]
        self._Strike(_REPLACING, struck.KillMaster, struck.CutLink, self._LoseNow, *fates)
        after = self.world.rng.choice((self.Wait, self.Cut, self.LosePrimary, self.LosePrimary))
        return [self.NewSecondary, after, self.Wait, self.HealLink, self.LosePrimary, self.Return]

    def FailAndReplace(self) -> list[Callable[[], str]]:
        """A local disk fails; its volumes are made again, whatever fails meanwhile."""
        struck = self.struck
        if self.world.Chance(0.6):
            self._Strike(_REPLACING, struck.KillMaster, struck.CutLink, self._LoseNow, struck.Fate("unanswered"))
        choice = self.world.rng.choice
        return [self.FailDisk, choice((self.NewStorage, self.Repair)), choice((self.Cut, self.Wait)), self.LosePrimary]

    def ExchangeAndLose(self) -> list[Callable[[], str]]:
        """The primary's machine or the master dies while good volumes of the secondary are exchanged."""
        self._Strike(_EXCHANGING, self._LoseNow, self.struck.KillMaster, self.struck.KillMaster, self.struck.CutLink)
        return [lambda: self._Replace(mode="replace_on_secondary"), self.LosePrimary, self.Return]

    def SlipAndLose(self) -> list[Callable[[], str]]:
        """A local disk fails for a while; the guest goes on with the other one, whose machine dies later."""
        choice = self.world.rng.choice
        if self.world.Chance(0.5):
            self._Strike(DECIDING, self.struck.KillMaster, self.struck.KillMaster, self.struck.Fate("unanswered"))
        return [self.Slip, self.Wait, choice((self.Reboot, self.Reboot, self.LosePrimary)), self.Start, self.Return]

    def ExchangeAndStart(self) -> list[Callable[[], str]]:
        """The exchange of the primary's volumes is cut off, and the guest goes on; it is to be started alone later."""
        struck = self.struck
        struck.At(self.world.rng.choice(_EXCHANGING), struck.KillMaster, self.world.rng.choice((0, 0, 0, 1)))
        return [lambda: self._Replace(mode="replace_on_primary"), self.Wait, self.Reboot, self.Start, self.Return]

    def StartWithout(self) -> list[Callable[[], str]]:
        """The guest is started while the volumes of one half cannot be read; they can later, and a machine dies."""

        def slip() -> str:
            self.struck.Slip(self.world.rng.choice(self.kernel.halves))
            return "slipped"

        after = self.world.rng.choice((self.LosePrimary, self.Reboot))
        return [self.Stop, slip, self.Start, after, self.Start, self.Return]

    def FailAndStart(self) -> list[Callable[[], str]]:
        """The primary's disk fails for good; the guest is to be started while the other half is away."""

        def fail() -> str:
            half = self._Half(self.cluster.primary)
            if not half.whole:
                return "not now"
            self.struck.FailDisk(half)
            self.cluster.Keep(self.world.rng.choice((0.0, 20.0)))
            return "failed"

        return [fail, self.Reboot, self.Start, self.Return, self.LosePrimary]

    def RecreateAndDie(self) -> list[Callable[[], str]]:
        """All volumes are lost, and the disks are made again; the master or a machine dies meanwhile."""
        self._Strike(_REPLACING, self.struck.KillMaster, self.struck.KillMaster, self.struck.Fate("unanswered"))
        return [self.Stop, self.LoseVolumes, self.Recreate, self.Start, self.Cut, self.LosePrimary, self.Return]

    def RecreateAndStart(self) -> list[Callable[[], str]]:
        """The primary went on alone; its disks are to be made again without need, and its machine dies before a start."""
        return [self.Cut, self.Wait, self.Stop, self.RecreateAnyway, self.LosePrimary, self.Start, self.Return]

    def FailOverAndFill(self) -> list[Callable[[], str]]:
        """The guest moves, the old primary's half is filled again and something fails then; the guest moves back."""
        choice = self.world.rng.choice
        self._Strike(("connected", *DECIDING), self.struck.KillMaster, self.struck.CutLink, self.struck.CutOneWay)
        return [self.LosePrimary, self.Return, choice((self.Wait, self.Cut)), self.FailOver, self.Cut, self.LosePrimary]

    def Repair(self) -> str:
        """As verify says where a side has no disk."""
        return self._Replace(mode="replace_auto")

    def ReplaceBehind(self) -> list[Callable[[], str]]:
        """The second half is behind, because the link or its machine is gone; it goes to another host, then a link breaks."""

        def replace() -> str:
            self.struck.HealLink()
            return self.NewSecondary()

        first = self.world.rng.choice((self.Cut, self.LoseSecondary))
        after = self.world.rng.choice((self.Cut, self.Cut, self.LosePrimary))
        return [first, self.Wait, replace, after, self.Wait, self.LosePrimary]

    def _LoseNow(self) -> None:
        """Some time passes, and the primary's machine dies."""
        strike, self.world.strike = self.world.strike, lambda what, host: None
        self.world.Pass(self.world.rng.choice((0.1, 2.0)))
        self.world.strike = strike
        self.struck.PowerOffHost(self.cluster.primary)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _IsWell(self) -> bool:
        host = self.cluster.primary
        process = host.processes.get(NAME)
        whole = all(half.whole for half in self.kernel.halves)
        return process is not None and process.runs and whole and self.disk.behind is None and not self.moving

    def Lead(self) -> None:
        """Everything works again: the usual commands lead to a guest that runs on a mirror that is whole."""
        error = ""
        for _ in range(_ROUNDS):
            self.cluster.Keep(FROZEN_SECONDS)
            self._CheckContinues()
            self._CheckSlipped()
            if self._IsWell():
                return
            error = self._Step()
        raise Violation(
            f"nothing leads to a guest that runs on a whole mirror: {error}; {self.kernel.halves}, {self.disk.behind}"
        )

    def _Step(self) -> str:
        if self.moving:
            error = self._Run(opcodes.OpInstanceMigrate(instance_name=NAME, cleanup=True))
            self.moving = bool(error) and "it does not run on any node" not in error
            if "activate-disks" in error:
                self._Run(opcodes.OpInstanceActivateDisks(instance_name=NAME))
            return error
        if self.lost:
            return self.Recreate()
        primary, secondary = self._Half(self.cluster.primary), self._Half(self.secondary)
        for half in (primary, secondary):
            active = half.assembled and self.cluster.instance.disks_active
            if active and half.disk == DISKLESS and half.other.whole is False and half.link == CONNECTED:
                return self._Mend(half)
        process = self.cluster.primary.processes.get(NAME)
        if process is None:
            return self._StartAgain()
        error = self._Run(opcodes.OpInstanceActivateDisks(instance_name=NAME))
        self.cluster.Keep(FROZEN_SECONDS)
        if primary.link == secondary.link == STANDALONE:
            if not self.accepted:
                raise Violation(f"the halves parted although nobody accepted a loss: {self.kernel.halves}")
            return self.GiveUp()
        return error

    def _StartAgain(self) -> str:
        """Start the guest, where its data is if the message says so."""
        error = self._Run(opcodes.OpInstanceStartup(instance_name=NAME))
        if " is gone, and " in self.cluster.hint and "failover --ignore-consistency" in self.cluster.hint:
            # Nothing is accepted by that: what was lost was lost with the disk.
            return self._Run(opcodes.OpInstanceFailover(instance_name=NAME, ignore_consistency=True))
        return error

    def _Mend(self, half: Half) -> str:
        """Make the volumes of a half without a disk again; unknown ones are removed before, as verify says."""
        known = {str(child.logical_id[1]) for child in self.disk.children}
        for name in [name for name in half.volumes if name not in known]:
            del half.volumes[name]
        return self.Repair()

    def CheckEnd(self) -> None:
        kept = self.kernel.needed
        for half in self.kernel.halves:
            if kept - half.data:
                raise Violation(f"{len(kept - half.data)} acknowledged writes are lost on {half}")
        assert RETRY_AFTER < FROZEN_SECONDS
