"""The world of a run: time, chance, hosts with their power and files, and the guest's disk that tells who writes."""

from __future__ import annotations

import errno
import os
import random
import stat
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ganeti import runtime
from ganeti.runtime.contract import LockBusy

if TYPE_CHECKING:
    from simulation.migration.qemu import Qemu, Transfer

_IN_MEMORY = ("/run/", "/var/run/")
STEP_SECONDS = 0.001


class Violation(BaseException):
    """A promise was broken; nobody who handles errors may swallow it."""


class Killed(BaseException):
    """The process that runs is dead from here on."""


class GuestDisk:
    """What the guest writes to.  A copy that writes over what another one has written is a broken promise."""

    def __init__(self) -> None:
        self.writes = 0

    def Known(self, host: Host) -> int:
        """How many writes a guest finds that starts on a host."""
        del host
        return self.writes

    def Write(self, process: Qemu) -> None:
        """A guest that runs writes, or does not."""
        if process.memory != self.writes:
            raise Violation(
                f"{process} writes with a memory of {process.memory} writes to a disk of {self.writes}: another copy has run"
            )
        if process.world.Chance(0.5):
            self.writes += 1
            process.memory = self.writes


class World:
    """Time, hosts, and what is going on between them."""

    def __init__(self, seed: int):
        self.rng = random.Random(f"migration {seed}")
        self.now = 0.0
        self.steps = 0
        self.hosts: dict[str, Host] = {}
        self.transfers: list[Transfer] = []
        # How often QEMU did not load what it was sent, which happens without a fault.
        self.not_loaded = 0
        self.disk = GuestDisk()
        # The disk is the two halves of a mirror, which must be open where a guest writes.
        self.mirrored = False
        # QEMU reaches the disk by a URI, without a device of the host.
        self.by_uri = False
        # Whose memory is the guest's; None before it runs.
        self.current: Qemu | None = None
        self.events: list[str] = []
        self.late: list[tuple[float, Host, Callable[[], None]]] = []
        # Calls that arrive when a plot lets them, in this order.
        self.held: list[tuple[Host, Callable[[], None]]] = []
        # Looked at in every step; may raise Killed for the process that runs.
        self.strike: Callable[[str, Host | None], None] = lambda what, host: None
        # What else goes on by itself.
        self.live: Callable[[], None] = lambda: None
        # A copy was ended by a node procedure: (process, procedure).
        self.ended: Callable[[Qemu, str], None] = lambda process, procedure: None
        # Pairs of hosts between which nothing passes.
        self.cut: set[frozenset[str]] = set()
        self.master_dead = False
        self._inside = False

    def Note(self, text: str) -> None:
        self.events.append(f"{self.now:9.3f} {text}")

    def Chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def Step(self, what: str, host: Host | None = None, seconds: float = STEP_SECONDS) -> None:
        """Whoever runs has come to a step: time goes on, and it may be the last one."""
        self.steps += 1
        self.Pass(seconds)
        self._CheckAlive(host)
        self.strike(what, host)
        self._CheckAlive(host)

    def _CheckAlive(self, host: Host | None) -> None:
        if self.master_dead if host is None else (not host.noded or host.serving != host.incarnation):
            raise Killed

    def Pass(self, seconds: float) -> None:
        """Let time go by: guests write, transfers advance, late calls are carried out."""
        end = self.now + seconds
        while True:
            due = min((when for when, _, _ in self.late if when > self.now), default=end)
            self.now = min(end, due, self.now + 0.25 + (end - self.now) / 8)
            self._Live()
            if not self._inside:
                self._DoLate()
            if self.now >= end:
                return

    def Release(self) -> None:
        """What is held arrives now, one call after the other."""
        self.late += [(self.now + number * STEP_SECONDS, *call) for number, call in enumerate(self.held, 1)]
        self.held.clear()

    def _DoLate(self) -> None:
        for entry in sorted(self.late, key=lambda entry: entry[0]):
            when, host, call = entry
            if when <= self.now and not host.busy and entry in self.late:
                self.late.remove(entry)
                self._inside = True
                try:
                    call()
                finally:
                    self._inside = False

    def _Live(self) -> None:
        self.live()
        for transfer in list(self.transfers):
            transfer.Advance()
        running = [process for host in self.hosts.values() for process in host.processes.values() if process.runs]
        if len(running) > 1:
            raise Violation(f"two copies run: {' and '.join(str(process) for process in running)}")
        for process in running:
            process.Write()

    def Reaches(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self.cut


class Host:
    """A machine: power, node daemon, QEMU processes, files."""

    def __init__(self, world: World, name: str, address: str):
        self.world = world
        self.name = name
        self.address = address
        self.on = True
        self.noded = True
        self.busy = 0
        # The node daemon's life, and the one in which what runs now began.
        self.incarnation = self.serving = 0
        self.promised = 0
        self.processes: dict[str, Qemu] = {}
        self.load_failed: set[str] = set()
        self.open: set[str] = set()
        self.assembled = False
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.unsynced: dict[str, bytes | None] = {}
        # Notes of attempts that it was told to forget, and has said that it did.
        self.forgotten: set[bytes] = set()
        self.folders: set[str] = set()
        self.locked: set[str] = set()
        self.side = Side(world, self)
        self.procedure = ""
        # What else is lost with the power.
        self.on_power_off: list[Callable[[], None]] = []
        world.hosts[name] = self

    def __repr__(self) -> str:
        return self.name

    def PowerOff(self) -> None:
        """All processes are gone, and files that were not made durable may be."""
        self.world.Note(f"{self.name} loses power")
        self.on = self.noded = False
        self.incarnation += 1
        for process in list(self.processes.values()):
            process.Die()
        for lose in self.on_power_off:
            lose()
        for path, before in self.unsynced.items():
            if self.world.Chance(0.5):
                if before is None:
                    self.files.pop(path, None)
                else:
                    self.files[path] = before
        self.unsynced.clear()
        for files in (self.files, self.links):
            for path in [path for path in files if path.startswith(_IN_MEMORY)]:
                del files[path]
        # Whoever sent it must find out that the connection is gone.
        self.world.late = [entry for entry in self.world.late if entry[1] is not self]
        self.world.held = [entry for entry in self.world.held if entry[0] is not self]
        self.open.clear()
        self.assembled = False
        self.load_failed.clear()
        self.locked.clear()

    def PowerOn(self) -> None:
        self.world.Note(f"{self.name} is on again")
        self.on = self.noded = True

    def KillNoded(self) -> None:
        self.world.Note(f"the node daemon of {self.name} is killed")
        self.noded = False
        self.incarnation += 1
        self.locked.clear()


class _Lock:
    def __init__(self, host: Host, path: str):
        self.path = path
        self._host = host
        host.locked.add(path)
        host.files.setdefault(path, b"")

    def Write(self, data: bytes) -> None:
        self._host.files[self.path] = data

    def release(self) -> None:
        self._host.locked.discard(self.path)

    def __enter__(self) -> _Lock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class Side:
    """The runtime as the daemons of one host see it, without threads; ``host`` None: the master daemon's."""

    Lock = staticmethod(threading.Lock)
    RLock = staticmethod(threading.RLock)
    Event = staticmethod(threading.Event)
    Local = staticmethod(threading.local)

    def __init__(self, world: World, host: Host | None):
        self.world = world
        self.host = host

    def __getattr__(self, name: str) -> Any:
        # What has no effect in the world: conditions, thread names.
        return getattr(runtime.real, name)

    def Time(self) -> float:
        return 1_700_000_000.0 + self.world.now

    def Monotonic(self) -> float:
        return self.world.now

    def Sleep(self, seconds: float) -> None:
        self.world.Step("sleep", self.host, seconds)

    def Random(self) -> random.Random:
        return self.world.rng

    def RandomBytes(self, n: int) -> bytes:
        return self.world.rng.randbytes(n)

    # Files

    def _Files(self, what: str, path: str) -> Host:
        assert self.host is not None
        self.world.Step(f"{what} {path}", self.host)
        return self.host

    def ReadFile(self, path: str, limit: int | None = None) -> bytes:
        files = self._Files("read", path).files
        if path not in files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return files[path]

    def WriteFile(self, path: str, data: bytes, mode: int, uid: int, gid: int, sync: bool) -> None:
        host = self._Files("write", path)
        if sync:
            host.unsynced.pop(path, None)
        elif not path.startswith(_IN_MEMORY):
            host.unsynced.setdefault(path, host.files.get(path))
        host.files[path] = bytes(data)
        self.world.Step(f"written {path}", host)

    def RemoveFile(self, path: str, sync: bool = False) -> None:
        host = self._Files("remove", path)
        before = host.files.pop(path, None)
        host.links.pop(path, None)
        if sync:
            host.unsynced.pop(path, None)
        elif before is not None and not path.startswith(_IN_MEMORY):
            host.unsynced.setdefault(path, before)

    def Exists(self, path: str) -> bool:
        host = self._Files("exists", path)
        return path in host.files or path in host.links

    def MakeDirs(self, path: str, mode: int = 0o755) -> None:
        assert self.host is not None
        self.host.folders.add(path)

    def Stat(self, path: str, follow: bool = True) -> os.stat_result:
        if self.host is not None and path in self.host.folders:
            return os.stat_result((stat.S_IFDIR | 0o755, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        self._Files("stat", path)
        return os.stat_result((stat.S_IFBLK, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    def Symlink(self, target: str, path: str) -> None:
        host = self._Files("link", path)
        if path in host.links:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        host.links[path] = target

    def ReadLink(self, path: str) -> str:
        host = self._Files("read link", path)
        if path not in host.links:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return host.links[path]

    def LockFile(self, path: str, exclusive: bool = True, timeout: float | None = None, mode: int = 0o600) -> _Lock:
        host = self._Files("lock", path)
        if path in host.locked:
            raise LockBusy(path, None)
        return _Lock(host, path)
