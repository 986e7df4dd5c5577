"""One run: a guest is migrated while faults strike, people try what they may try, and in the end advice is followed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from simulation.harness.play import Result
from simulation.migration.faults import Faults
from simulation.migration.judged import Judged
from simulation.migration.master import DRBD, HOSTS, NAME, SHARED, UUID, Cluster, NotePath, Parts
from simulation.migration.plots import PlotOf
from simulation.migration.qemu import DEVICE, Qemu, SimulatedDisk, SimulatedMirror
from simulation.migration.world import Host, Violation, World

from ganeti import opcodes, pathutils, runtime
from ganeti.params import runstate
from ganeti.query.context import Context
from ganeti.query.instance import InstanceStatus

# Procedures by which an administrator ends a guest on purpose.
_STOPS = frozenset(["instance_shutdown", "instance_reboot", "instance_end_copy"])
_COMMAND = re.compile(r"'(gnt-[a-z]+ [^']+)'")
_ROUNDS = 8
# Templates whose disks QEMU may reach without a device.
_BY_URI = ("rbd", "gluster", "ext")
_QUIET_SECONDS = 900.0


def DiskOf(seed: int) -> tuple[str, bool]:
    """Return the template of the guest's disk in a run, and whether QEMU reaches it without a device of the host.

    They come from a stream of their own.
    """
    rng = random.Random(f"disk {seed}")
    template = DRBD if rng.random() < 0.5 else rng.choice(list(SHARED))
    return template, template in _BY_URI and rng.random() < 0.5


def Run(seed: int, parts: type[Parts] = Parts, faults: int | None = None) -> Result:
    """Run one seed; never raise for what goes wrong inside."""
    result = Result(seed)
    world = World(seed)
    template, world.by_uri = DiskOf(seed)
    disk = {template: SimulatedMirror if template == DRBD else SimulatedDisk}
    with Judged(world, result, {**disk, "plain": SimulatedDisk}):
        _Play(world, Cluster(world, template, parts), faults, result)
    return result


def _Play(world: World, cluster: Cluster, faults: int | None, result: Result) -> None:
    runtime.EnterSide(cluster.side)
    people = People(world, cluster)
    world.ended = people.Ended
    people.Begin()
    count = world.rng.choice((0, 1, 2, 2, 3, 4)) if faults is None else faults
    plot = PlotOf(result.seed) if faults != 0 else None
    if plot is not None:
        count = world.rng.choice((0, 0, 0, 1))
    people.struck = struck = Faults(world, cluster, count)
    result.faults = struck.told  # also of a run that ends by what it breaks
    world.strike = struck.Strike
    acts = [people.Migrate, *(world.rng.choice(people.acts) for _ in range(world.rng.choice((1, 1, 2, 3))))]
    if plot is not None:
        acts = plot(people, struck)
    for number, act in enumerate(acts):
        if number:
            struck.Repair(world.Chance(0.1 if struck.cut_off else 0.5))
            world.Pass(world.rng.choice((0.0, 1.0, 20.0)))
        result.Count(act() or "done")
        people.CheckReports()
    struck.Heal()
    world.Pass(_QUIET_SECONDS)
    people.FollowAdvice()
    people.CheckEnd()


class People:
    """Administrators, and what they must never see."""

    def __init__(self, world: World, cluster: Cluster):
        self.world = world
        self.cluster = cluster
        self.rng = world.rng
        # Where the guest came from last, and where it was to go.
        self.source, self.target = "", ""
        # The guest was stopped on purpose.
        self.stopped = False
        self.struck = Faults(world, cluster, 0)
        self.acts: tuple[Callable[[], str], ...] = (
            self.Cleanup, self.Cleanup, self.Migrate, self.Migrate, self.FailOver, self.Start, self.Stop, self.Reboot,
        )  # fmt: skip

    def Begin(self) -> None:
        """The guest runs on its primary node."""
        world, host = self.world, self.cluster.primary
        for each in world.hosts.values():
            each.files["/proc/sys/kernel/random/boot_id"] = b"boot\n"
            each.assembled = world.mirrored
        host.open.add(DEVICE)
        host.links[pathutils.InstanceDiskLink(NAME, 0)] = DEVICE
        guest = Qemu(host, NAME, runstate.PAUSED)
        guest.memory = 0
        if world.Chance(0.1):
            world.current = guest
        else:
            guest.Run()
        self.paused = guest.state == runstate.PAUSED
        self.boot = guest.boot

    def Ended(self, process: Qemu, procedure: str) -> None:
        """A node procedure ends a process."""
        world = self.world
        if process is not world.current:
            return
        if procedure in _STOPS:
            self.stopped = True
            return
        raise Violation(f"{procedure} ends the only current copy, {process}")

    # --- what they do -------------------------------------------------------------------------------------------------

    def Migrate(self) -> str:
        return self._MigrateTo(self.rng.choice([name for name in HOSTS if name != self.cluster.primary.name]))

    def MigrateBack(self) -> str:
        """To where it came from, if it has gone."""
        return self._MigrateTo(self.source) if self.source != self.cluster.primary.name else self.Cleanup()

    def MigrateAgain(self) -> str:
        return self._MigrateTo(self.target) if self.target != self.cluster.primary.name else self.Cleanup()

    def _MigrateTo(self, target: str) -> str:
        self.source, self.target = self.cluster.primary.name, target
        return self.cluster.Run(
            opcodes.OpInstanceMigrate(
                instance_name=NAME,
                target_node=None if self.world.mirrored else target,
                live=self.world.Chance(0.7),
                allow_failover=self.world.Chance(0.2),
            )
        )

    def Cleanup(self) -> str:
        return self.cluster.Run(opcodes.OpInstanceMigrate(instance_name=NAME, cleanup=True))

    def FailOver(self) -> str:
        return self._FailOverBut({self.cluster.primary.name})

    def FailOverElsewhere(self) -> str:
        """To neither end of the last migration."""
        return self._FailOverBut({self.cluster.primary.name, self.source, self.target})

    def _FailOverBut(self, taken: set[str]) -> str:
        choices = [name for name in HOSTS if name not in taken]
        target = None if self.world.mirrored else self.world.rng.choice(choices)
        return self.cluster.Run(
            opcodes.OpInstanceFailover(instance_name=NAME, target_node=target, shutdown_timeout=self._Timeout())
        )

    def Start(self) -> str:
        return self.cluster.Run(opcodes.OpInstanceStartup(instance_name=NAME, force=self.world.Chance(0.5)))

    def Stop(self) -> str:
        error = self.cluster.Run(opcodes.OpInstanceShutdown(instance_name=NAME, timeout=self._Timeout()))
        return error or self._CheckStopped()

    def Reboot(self) -> str:
        kind = self.world.rng.choice(("soft", "hard", "full"))
        return self.cluster.Run(
            opcodes.OpInstanceReboot(instance_name=NAME, reboot_type=kind, shutdown_timeout=self._Timeout())
        )

    def _Timeout(self) -> int:
        return self.world.rng.choice((0, 10, 120))

    def _CheckStopped(self) -> str:
        """A stop that succeeded has stopped it, wherever it was; of silent nodes nothing is known."""
        for host in self._Copies():
            if host.noded and host.processes[NAME].runs and self.world.Reaches("m", host.name):
                raise Violation(f"the stop succeeded, and the guest runs on {host}")
        return ""

    def _Copies(self) -> list[Host]:
        return [host for host in self.world.hosts.values() if NAME in host.processes]

    def _Running(self) -> list[Host]:
        return [host for host in self._Copies() if host.processes[NAME].runs]

    # --- what they see ------------------------------------------------------------------------------------------------

    def CheckReports(self) -> None:
        """No report calls a guest healthy that does not run, nor one on the wrong node; nothing that was settled comes back."""
        cluster = self.cluster
        for host in self.world.hosts.values():
            if host.files.get(NotePath()) in host.forgotten:
                raise Violation(f"{host} remembers a migration again that was settled: {host.files[NotePath()]!r}")
        strike, self.world.strike = self.world.strike, lambda what, host: None
        before = self._Running()
        answers = {
            cluster.Uuid(host.name): cluster.Ask("all_instances_info", host, ["fake"], {"fake": {}})
            for host in self.world.hosts.values()
        }
        self.world.strike = strike
        running = self._Running()
        root, inst = cluster.cfg.Snapshot(), cluster.instance
        status = InstanceStatus(Context(root, instance_info=answers), inst)
        if status == "running" and cluster.primary not in before + running:
            raise Violation(f"the list says 'running' on {cluster.primary}; it runs on {running or 'no node'}")

    def FollowAdvice(self) -> None:
        """Everything works again: the commands that errors name lead to a guest that runs, and nothing else does."""
        error = self._Lead()
        for _ in range(_ROUNDS):
            if not error:
                return
            commands = _COMMAND.findall(error)
            if not commands:
                raise Violation(f"no command is named: {error}")
            self._CheckIsOpen(error)
            for command in self._Choose(commands):
                error = self._Type(command)
            error = error or self._Lead()
        raise Violation(f"the advice leads nowhere: {error}")

    def _CheckIsOpen(self, error: str) -> None:
        """Nothing is left to people that could have been decided."""
        current = self.world.current
        hung = any(host.processes[NAME].hung for host in self._Copies())
        if (
            current is not None
            and current.alive
            and current.state == runstate.SENT
            and not self.struck.lost
            and not hung
        ):
            raise Violation(f"it was not seen that {current} can run again: {error}")

    def _Lead(self) -> str:
        """Return what is in the way of a healthy guest."""
        error = self.Cleanup()
        if error:
            return error
        return self.cluster.Run(opcodes.OpInstanceStartup(instance_name=NAME))

    def _Choose(self, commands: list[str]) -> list[str]:
        """The administrator keeps the current copy if there is one, starts anew if there is none, and sees that no node is off."""
        commands = [command for command in commands if not command.startswith("gnt-node modify --offline")]
        keep = [command for command in commands if "--keep" in command]
        current = self.world.current
        if current is not None and current.alive:
            right = [command for command in keep if f"--keep {current.host.name} " in command]
            if right:
                return right
        plain = [command for command in commands if "--keep" not in command]
        return plain or keep[:1]

    def _Type(self, command: str) -> str:
        words = command.split()
        if words[:3] == ["gnt-instance", "migrate", "--cleanup"]:
            keep = words[4] if words[3] == "--keep" else None
            return self.cluster.Run(opcodes.OpInstanceMigrate(instance_name=NAME, cleanup=True, keep_node=keep))
        if words[:2] == ["gnt-instance", "shutdown"]:
            self._CheckMayStop(command)
            timeout = int(words[3]) if words[2] == "--timeout" else 120
            return self.cluster.Run(opcodes.OpInstanceShutdown(instance_name=NAME, timeout=timeout))
        if words[:2] == ["gnt-instance", "startup"]:
            return self.Start()
        if words[:2] == ["gnt-instance", "activate-disks"]:
            return self.cluster.Run(opcodes.OpInstanceActivateDisks(instance_name=NAME))
        raise Violation(f"nobody can type this: {command}")

    def _CheckMayStop(self, command: str) -> None:
        """A guest that could go on is not to be started anew."""
        current = self.world.current
        if current is not None and current.alive and not current.hung and not self.struck.lost:
            raise Violation(f"the advice is '{command}', and {current} could go on")

    def CheckEnd(self) -> None:
        """One copy, on the primary node, with the disk open there alone; the same guest if nobody stopped or killed it."""
        world, cluster = self.world, self.cluster
        copies = self._Copies()
        if copies != [cluster.primary]:
            raise Violation(f"in the end there are copies on {copies}, the primary node is {cluster.primary}")
        process = cluster.primary.processes[NAME]
        if process is not world.current:
            raise Violation(f"{process} is not the current copy")
        if not process.runs and not (self.paused and process.state == runstate.PAUSED):
            raise Violation(f"in the end the guest does not run: {process}")
        if process.boot != self.boot and not self.stopped and not self.struck.lost:
            raise Violation("the guest was started anew, although nobody stopped it and nothing that held it was lost")
        opened = [host for host in world.hosts.values() if DEVICE in host.open]
        # A call that opens a file on one more host, and comes late, leaves nothing but a link.
        if world.mirrored and opened != [cluster.primary]:
            raise Violation(f"in the end the disk is open on {opened}")
        if cluster.instance.uuid != UUID:
            raise Violation("another instance")
        self.CheckReports()
