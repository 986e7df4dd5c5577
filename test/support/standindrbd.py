"""DRBD 8.4 for simulated machines: programs and a /proc/drbd that behave as those of the laboratory were seen to.

Both ends of a link are played: who has newer data after a separation, what freezes, what is refused, a split brain.
Requests of guests are not: ``frozen`` says whether they would wait.  A resync takes no time, unless ``Links.hold`` is set.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulated.disk import File

if TYPE_CHECKING:
    from simulated import Invocation, Machine

    from ganeti import objects
    from support.standinlvm import StandInLvm

MIB = 1 << 20
_SECTOR = 512
_FREEZE, _SUSPEND = "resource-and-stonith", "suspend-io"
_GOOD = ("UpToDate", "Consistent")
_HEAD = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: F73C670A7EC572DB9CF3E5B \n"


@dataclass
class Meta:
    """What metadata on a volume remembers.

    ``now``: the generation of the data (0: none); ``base``: of the other side; ``size``: MiB, agreed with the other side.
    """

    state: str = "Inconsistent"
    now: int = 0
    base: int = 0
    size: int = 0


@dataclass
class Device:
    """One minor of a machine; ``cut``: the link is configured, but nothing gets through."""

    minor: int
    resource: str
    data: str | None = None
    meta: str | None = None
    known: Meta = field(default_factory=Meta)
    disk: str = "Diskless"
    role: str = "Secondary"
    link: str = "StandAlone"
    ends: tuple[str, str] | None = None
    secret: str = ""
    protocol: str = "C"
    two_primaries: bool = False
    discard: bool = False
    options: dict[str, str] = field(default_factory=dict)
    size: int = 0
    # Of the volume, and what the administrator wants of it (0: all).
    room: int = 0
    wanted: int = 0
    frozen: bool = False
    peer_disk: str = "DUnknown"
    paused: bool = False
    held_open: bool = False
    # What becomes of requests while no data can be reached; and without a disk, which generation its user has seen.
    no_data: str = "io-error"
    shown: int = 0
    # Requests of its user that are under way.
    pending: int = 0
    # Until when the other side takes it for open.
    seems_open: float = 0.0

    @property
    def freezes(self) -> bool:
        return self.options.get("fencing") == _FREEZE


class _Refused(Exception):
    """What a program complains of, and its exit code."""

    def __init__(self, text: str, status: int = 10):
        super().__init__(text)
        self.status = status


class Links:
    """What lies between machines: their stand-ins, and which of them cannot reach each other."""

    def __init__(self) -> None:
        self.machines: list[StandInDrbd] = []
        self.hold = False
        self.generations = itertools.count(1)
        # Whether modules can be told of new options of a link that is up; those of 8.3 cannot.
        self.tells_options = True
        # The machine that, when both sides refuse a link, sees only that it is lost, and goes on waiting for it.
        self.slow: StandInDrbd | None = None
        # Seconds until that has happened which commands do not wait for: the sides agree on a size, a disk is let go, the other
        # side learns that a device was closed.
        self.late = 0.0
        # How often a side has been filled.
        self.fills = 0
        self._cut = False

    def Cut(self) -> None:
        """Nothing gets through any longer, and everybody has noticed."""
        self._cut = True
        for machine in self.machines:
            for device in machine.devices.values():
                if device.link not in ("StandAlone", "WFConnection"):
                    machine.Lose(device, "WFConnection")
        self.Publish()

    def Heal(self) -> None:
        self._cut = False
        self.Connect()

    def Finish(self) -> None:
        """Resyncs are over."""
        self.hold = False
        for machine in self.machines:
            for device in machine.devices.values():
                if device.link == "SyncTarget":
                    self.Fill(self.PeerOf(device), device)
        self.Publish()

    def PeerOf(self, device: Device) -> Device:
        """Return the other end of a link that is up."""
        peer = self._Other(device)
        assert peer is not None
        return peer[1]

    def AreLinked(self, one: Device, two: Device) -> bool:
        """Return whether these are still the ends of a link that is up; a machine that was off has others."""
        found = self._Other(one)
        return found is not None and found[1] is two and "WFConnection" not in (one.link, two.link)

    def _Other(self, device: Device) -> tuple[StandInDrbd, Device] | None:
        for machine in self.machines:
            for other in machine.devices.values():
                if other is not device and device.ends and other.ends == (device.ends[1], device.ends[0]):
                    return machine, other
        return None

    def Connect(self) -> None:
        """Let those that wait for each other shake hands."""
        for machine in self.machines:
            for device in machine.devices.values():
                found = self._Other(device)
                if device.link == "WFConnection" and found and found[1].link == "WFConnection" and not self._cut:
                    self._Shake(device, found[1])
        self.Publish()

    def _Refuse(self, *sides: Device) -> None:
        unaware = self.slow.devices.values() if self.slow is not None else ()
        for device in sides:
            device.link = "WFConnection" if any(device is other for other in unaware) else "StandAlone"

    def _Shake(self, one: Device, two: Device) -> None:
        both_primary = one.role == two.role == "Primary"
        direction = _Compare(one, two)
        refused = one.secret != two.secret or one.two_primaries != two.two_primaries or one.protocol != two.protocol
        refused = refused or (both_primary and not one.two_primaries)
        refused = refused or any(
            side.role == "Primary" and side.disk == "Diskless" and side.shown not in (0, other.known.now)
            for side, other in ((one, two), (two, one))
        )
        if direction is None and one.discard != two.discard:
            direction = -1 if one.discard else 1
        if refused or direction is None:
            self._Refuse(one, two)
            return
        if not _AgreeOnSize(one, two):
            return
        for device in (one, two):
            device.link, device.frozen, device.discard = "Connected", False, False
        if direction:
            source, target = (one, two) if direction > 0 else (two, one)
            source.disk, target.disk = "UpToDate", "Inconsistent"
            source.link, target.link = "SyncSource", "SyncTarget"
            if not self.hold:
                self.Fill(source, target)
        elif one.disk in _GOOD or two.disk in _GOOD or "Diskless" in (one.disk, two.disk):
            for device in (one, two):
                if device.disk not in ("Diskless", "Inconsistent"):
                    device.disk = "UpToDate"
        for device, other in ((one, two), (two, one)):
            _Remember(device)
            device.peer_disk = other.disk
            if device.role == "Primary":
                self.Open(device)

    def GoAlone(self, device: Device) -> None:
        """Data changes here from now on and not there."""
        if not device.known.base:
            device.known.base = device.known.now
            device.known.now = next(self.generations)

    def Open(self, device: Device) -> None:
        """An open side is linked: what its user writes from now on is not on a side without a disk."""
        peer = self.PeerOf(device)
        for side, other in ((device, peer), (peer, device)):
            if side.disk == "UpToDate" and other.disk == "Diskless":
                self.GoAlone(side)
        device.shown = peer.known.now if device.disk == "Diskless" else 0

    def Fill(self, source: Device, target: Device) -> None:
        self.fills += 1
        _Fill(source, target)

    def Drop(self, device: Device) -> None:
        """One end goes; the other one waits for it."""
        found = self._Other(device)
        if found and device.link not in ("StandAlone", "WFConnection"):
            found[0].Lose(found[1], "WFConnection")

    def Tell(self, device: Device) -> None:
        """The other end learns what this one's disk is now."""
        found = self._Other(device)
        if found and device.link not in ("StandAlone", "WFConnection"):
            found[1].peer_disk, device.peer_disk = device.disk, found[1].disk

    def Publish(self) -> None:
        for machine in self.machines:
            machine.Publish()

    def RoleOfPeer(self, device: Device) -> str:
        found = self._Other(device)
        if not found or device.link in ("StandAlone", "WFConnection"):
            return "Unknown"
        machine, peer = found
        return "Primary" if machine.now < peer.seems_open else peer.role


def _Compare(one: Device, two: Device) -> int | None:
    """Return 1 if the first one has the newer data, -1 if the second one, 0 if both are the same, None after a split."""
    if "Diskless" in (one.disk, two.disk) or one.known.now == two.known.now:
        if one.disk != two.disk and "Inconsistent" in (one.disk, two.disk) and "Diskless" not in (one.disk, two.disk):
            return -1 if one.disk == "Inconsistent" else 1
        return 0
    for device, other, result in ((one, two, 1), (two, one, -1)):
        if other.known.now == 0 or (device.known.base == other.known.now and not other.known.base):
            return result
    return None


def _Fill(source: Device, target: Device) -> None:
    target.known.now, target.known.base, source.known.base = source.known.now, 0, 0
    for device in (source, target):
        device.disk = device.peer_disk = "UpToDate"
        device.link = "Connected"
        _Remember(device)


def _Remember(device: Device) -> None:
    if device.disk != "Diskless":
        device.known.state = device.disk


class StandInDrbd:
    """The module and the programs of one machine; ``runs``: the command lines seen; ``broken``: paths that dd cannot read.

    With ``lvm``, which has the volumes of the machine, those that a device has open are not removed.
    """

    def __init__(self, machine: Machine, links: Links, lvm: StandInLvm | None = None, helper: str = "/bin/true"):
        self.devices: dict[int, Device] = {}
        self.runs: list[list[str]] = []
        self.broken: set[str] = set()
        self._machine = machine
        self._links = links
        self._metas: dict[int, tuple[Any, Meta]] = {}
        # How often a link was seen to have changed its state.
        self.link_changes = 0
        self._links_seen: dict[int, str] = {}
        links.machines.append(self)
        if lvm is not None:
            lvm.held = self.Holds
        machine.programs["drbdsetup"] = self._Setup
        machine.programs["drbdmeta"] = self._Meta
        self._dd = machine.programs.get("dd")
        machine.programs["dd"] = self._Dd
        self._Write("/sys/module/drbd/parameters/usermode_helper", helper + "\n")
        self.hides_sizes = False
        self.Publish()

    @property
    def now(self) -> float:
        return float(self._machine.world.now)

    def Count(self, command: str) -> int:
        return sum(argv[1] == command for argv in self.runs)

    def MetaOn(self, path: str) -> Meta:
        """Return what the metadata on a volume says."""
        return self._metas[id(self._machine.disk.Lookup(path))][1]

    def Holds(self, path: str) -> bool:
        """Return whether a device has this volume open."""
        return any(path in (device.data, device.meta) for device in self.devices.values())

    def Detach(self, minor: int) -> None:
        """The disk below a device fails, and is let go."""
        self._DoDetach([str(minor)], {"force": ""})
        self._links.Publish()

    def SeemOpen(self, minor: int, seconds: float) -> None:
        """For a while the other side takes a device for open, whatever it is."""
        if seconds:
            self.devices[minor].seems_open = self.now + seconds
            self._machine.world.Schedule(seconds, self._links.Publish)
            self._links.Publish()

    def DropLink(self, minor: int) -> None:
        """An administrator drops a link by hand: both sides agree on what that means."""
        device = self.devices[minor]
        self._EndOrderly(device, self._links.PeerOf(device))
        self._links.Drop(device)
        device.link, device.ends = "StandAlone", None
        if device.role == "Primary":
            self._links.GoAlone(device)
        self._links.Publish()

    def LoseMeta(self, disk: objects.Disk) -> None:
        """What was written to a volume for metadata is gone."""
        del self._metas[id(self._machine.disk.Lookup("/dev/{}/{}".format(*disk.logical_id)))]

    def Minor(self, minor: int) -> Device:
        return self.devices[minor]

    # --- what others see ----------------------------------------------------------------------------------------------

    def _Write(self, path: str, text: str) -> None:
        disk = self._machine.disk
        disk.MakeFolders(path.rpartition("/")[0], 0o755)
        disk.Insert(path, File(disk, 0o644, data=text.encode()), replace=True)

    def Publish(self) -> None:
        seen = {minor: device.link for minor, device in self.devices.items()}
        self.link_changes += sum(seen[minor] != link for minor, link in self._links_seen.items() if minor in seen)
        self._links_seen = seen
        lines = [_HEAD]
        for minor in sorted(self.devices):
            device = self.devices[minor]
            if device.disk == "Diskless" and device.link == "StandAlone" and device.role == "Secondary":
                lines.append(f" {minor}: cs:Unconfigured\n")
                continue
            lines.append(self._Line(device))
            if device.link in ("SyncSource", "SyncTarget"):
                lines.append("\t[=>..................] sync'ed: 11.8% (65376/65536)K\n")
                lines.append("\tfinish: 0:02:43 speed: 160 (160) want: 480 K/sec\n")
            size = "" if self.hides_sizes else f"{device.size * MIB // _SECTOR}\n"
            self._Write(f"/sys/block/drbd{minor}/size", size)
            # What is written to a mirror is in its volume; the other side's content is not played.
            inode = self._machine.disk.Lookup(device.data) if device.data else None
            if inode is None:
                self._Write(f"/dev/drbd{minor}", "")
            else:
                self._machine.disk.Insert(f"/dev/drbd{minor}", inode, replace=True)
        self._Write("/proc/drbd", "".join(lines))

    def _Line(self, device: Device) -> str:
        peer_disk = device.peer_disk if device.link not in ("StandAlone", "WFConnection") else self._Guess(device)
        protocol = "" if device.link == "StandAlone" else device.protocol
        states = f"cs:{device.link} ro:{device.role}/{self._links.RoleOfPeer(device)} ds:{device.disk}/{peer_disk}"
        counts = f"ns:0 nr:0 dw:0 dr:0 al:8 bm:0 lo:0 pe:0 ua:0 ap:{device.pending} ep:1 wo:f oos:0"
        return f" {device.minor}: {states} {protocol} {'s' if device.frozen else 'r'}-----\n    {counts}\n"

    def _Guess(self, device: Device) -> str:
        return device.peer_disk if device.peer_disk in ("Outdated", "Inconsistent") else "DUnknown"

    def _Show(self) -> str:
        return "\n".join(_Shown(self.devices[minor]) for minor in sorted(self.devices))

    def Lose(self, device: Device, link: str) -> None:
        """The link is gone without any agreement about what that means."""
        device.link = link
        if device.disk == "Negotiating":
            device.disk, device.data, device.meta = "Diskless", None, None
        if device.role == "Primary" and device.disk == "Diskless":
            device.frozen = device.no_data == _SUSPEND
        if device.role != "Primary" or device.disk != "UpToDate":
            return
        if device.freezes and device.peer_disk not in ("Outdated", "Inconsistent", "Diskless"):
            device.frozen = True
        else:
            self._links.GoAlone(device)

    # --- programs: dd -------------------------------------------------------------------------------------------------

    def _Dd(self, invocation: Invocation) -> int:
        self.runs.append(list(invocation.argv))
        source = next((word[3:] for word in invocation.argv if word.startswith("if=")), "")
        if source in self.broken:
            invocation.Complain(f"dd: error reading '{source}': Input/output error\n")
            return 1
        return (self._dd(invocation) or 0) if self._dd is not None and "of=/dev/null" not in invocation.argv else 0

    # --- drbdmeta -----------------------------------------------------------------------------------------------------

    def _Meta(self, invocation: Invocation) -> int:
        words = [word for word in invocation.argv if word != "--force"]
        self.runs.append([words[0], words[-1], *words[1:-1]])
        minor, path = int(words[1].removeprefix("/dev/drbd")), words[3]
        device = self.devices.get(minor)
        inode = self._machine.disk.Lookup(path)
        linked = device is not None and device.link != "StandAlone"
        if device is not None and (device.disk != "Diskless" or (linked and words[-1] == "create-md")):
            invocation.Complain(f"Device '{words[1]}' is configured!\n")
            return 20
        if inode is None:
            invocation.Complain(f"open({path}) failed: No such file or directory\n")
            return 20
        if words[-1] == "create-md":
            self._metas[id(inode)] = inode, Meta()
        elif id(inode) not in self._metas:
            invocation.Complain("No valid meta data found\n")
            return 255
        return 0

    # --- drbdsetup ----------------------------------------------------------------------------------------------------

    def _Setup(self, invocation: Invocation) -> int:
        self.runs.append(list(invocation.argv))
        command, *words = invocation.argv[1:]
        options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
        names = [word for word in words if not word.startswith("--")]
        try:
            output = getattr(self, "_" + "".join(part.capitalize() for part in f"do-{command}".split("-")))(
                names, options
            )
        except _Refused as err:
            invocation.Complain(f"{err}\n")
            return err.status
        invocation.Print(output or "")
        self._links.Connect()
        return 0

    def _At(self, minor: str) -> Device:
        device = self.devices.get(int(minor))
        if device is None:
            raise _Refused(f"{minor}: Failure: (127) Device minor not allocated")
        return device

    def _DoShow(self, names: list[str], _options: dict[str, str]) -> str:
        assert names == ["all"]
        return self._Show()

    def _DoNewResource(self, _names: list[str], _options: dict[str, str]) -> None:
        """Make a resource; it may exist already."""

    def _DoNewMinor(self, names: list[str], _options: dict[str, str]) -> None:
        resource, minor, volume = names
        assert volume == "0"
        self.devices.setdefault(int(minor), Device(int(minor), resource))

    def _DoAttach(self, names: list[str], options: dict[str, str]) -> None:
        device = self._At(names[0])
        if device.disk != "Diskless":
            raise _Refused(f"{names[0]}: Failure: (124) Device is attached to a disk (use detach first)")
        inode, data = self._machine.disk.Lookup(names[2]), self._machine.disk.Lookup(names[1])
        if data is None or inode is None or id(inode) not in self._metas:
            raise _Refused(f"{names[0]}: Failure: (119) No valid meta-data signature found.")
        known = self._metas[id(inode)][1]
        room, wanted = data.size // MIB, int(options.get("size", "0m").removesuffix("m"))
        if wanted > room:
            raise _Refused(f"{names[0]}: Failure: (111) Low.dev. smaller than requested DRBD-dev. size.")
        alone = device.link in ("StandAlone", "WFConnection")
        if alone and device.role == "Primary" and device.shown not in (0, known.now):
            raise _Refused(f"{names[0]}: Failure: (150) Can only attach to the data we lost last (see kernel log).")
        device.data, device.meta, device.known, device.shown = names[1], names[2], known, 0
        device.options.update(options)
        device.room, device.wanted = room, wanted
        # More than was agreed on cannot be had alone.
        device.size = device.known.size = min(device.known.size or device.room, device.wanted or device.room)
        state = device.known.state
        device.disk = "Consistent" if device.freezes and state in _GOOD else state
        if device.link not in ("StandAlone", "WFConnection"):
            peer = self._links.PeerOf(device)
            if _Compare(device, peer) is None:
                # "Disk attach process on the peer node was aborted": this one is not told, and waits as long as the link is up.
                device.disk, peer.peer_disk = "Negotiating", "Diskless"
                return
            peer.link = device.link = "WFConnection"

    def _DoDiskOptions(self, names: list[str], options: dict[str, str]) -> None:
        device = self._At(names[0])
        if device.disk in ("Diskless", "Failed"):
            raise _Refused(f"{names[0]}: Failure: (138) Device does not have a disk.")
        device.options.update(options)

    def _DoResourceOptions(self, names: list[str], options: dict[str, str]) -> None:
        device = next(found for found in self.devices.values() if found.resource == names[0])
        device.no_data = options["on-no-data-accessible"]

    def _DoConnect(self, names: list[str], options: dict[str, str]) -> None:
        device = next(found for found in self.devices.values() if found.resource == names[0])
        if device.link != "StandAlone":
            raise _Refused(f"{names[0]}: Failure: (125) Device has a net-config (use disconnect first)")
        if device.freezes and options["protocol"] == "A":
            raise _Refused(
                f"{names[0]}: Failure: (154) Fencing policy resource-and-stonith only with prot B or C allowed"
            )
        if device.role == "Primary" and options.get("discard-my-data") == "yes":
            raise _Refused(f"{names[0]}: Failure: (123) --discard-my-data not allowed when primary.")
        device.ends, device.protocol = (names[1], names[2]), options["protocol"]
        device.secret = options.get("shared-secret", "")
        device.two_primaries = options.get("allow-two-primaries") == "yes"
        device.discard = options.get("discard-my-data") == "yes"
        device.link = "WFConnection"

    def _DoDisconnect(self, names: list[str], options: dict[str, str]) -> None:
        assert options == {"force": "yes"}, "an orderly end of a link lets the primary go on alone"
        device = self._LinkAt(names)
        if device.link == "WFConnection":
            device.link = "StandAlone"
        else:
            self._links.Drop(device)
            self.Lose(device, "StandAlone")
        device.ends = None

    def _LinkAt(self, names: list[str]) -> Device:
        """Return the device whose link has these ends; the kernel forgets a link that becomes StandAlone."""
        device = next((found for found in self.devices.values() if found.ends == tuple(names)), None)
        if device is None or device.link == "StandAlone":
            raise _Refused(
                "??: Failure: (162) Invalid configuration request\nadditional info from kernel:\nunknown connection"
            )
        return device

    def _DoNetOptions(self, names: list[str], options: dict[str, str]) -> None:
        device = self._LinkAt(names)
        two = options.get("allow-two-primaries", "yes" if device.two_primaries else "no") == "yes"
        protocol = options.get("protocol", device.protocol)
        connected = device.link != "WFConnection"
        if connected and not self._links.tells_options and two != device.two_primaries:
            raise _Refused("??: Failure: (163) Protocol version 100 or greater is required to change this")
        if not two and device.role == self._links.RoleOfPeer(device) == "Primary":
            raise _Refused(
                "??: Failure: (164) Can not clear allow_two_primaries as long as\nthere a primaries on both sides"
            )
        if two and protocol != "C":
            raise _Refused("??: Failure: (139) Protocol C required")
        if device.freezes and protocol == "A":
            raise _Refused("??: Failure: (154) Fencing policy resource-and-stonith only with prot B or C allowed")
        for side in (device, self._links.PeerOf(device)) if connected else (device,):
            side.two_primaries, side.protocol = two, protocol

    def _DoPrimary(self, names: list[str], options: dict[str, str]) -> None:
        device = self._At(names[0])
        linked = device.link not in ("StandAlone", "WFConnection")
        if device.role == "Primary":
            return
        if linked and self._links.RoleOfPeer(device) == "Primary" and not device.two_primaries:
            raise _Refused(f"{names[0]}: State change failed: (-1) Multiple primaries not allowed by config", 11)
        usable = device.disk == "UpToDate" or (device.disk == "Consistent" and not device.freezes)
        if (linked and device.peer_disk == "UpToDate") or ("force" in options and device.disk != "Diskless"):
            usable = True
        if not usable:
            raise _Refused(f"{names[0]}: State change failed: (-2) Need access to UpToDate data", 17)
        if not linked and device.freezes and "force" not in options:
            raise _Refused(
                f"{names[0]}: State change failed: (-7) Refusing to be Primary while peer is not outdated", 11
            )
        forced = device.disk in ("Inconsistent", "Outdated") and device.peer_disk != "UpToDate"
        if not linked or forced:
            device.disk = "UpToDate"
            if not linked:
                device.peer_disk = "Outdated" if device.freezes else "DUnknown"
            self._links.GoAlone(device)
        device.role, device.discard = "Primary", False
        _Remember(device)
        if linked:
            self._links.Open(device)
        if linked and device.disk == "UpToDate" and device.peer_disk == "Inconsistent" and device.link == "Connected":
            # A new mirror whose first side has just been chosen.
            self._links.PeerOf(device).link = device.link = "WFConnection"

    def _DoSecondary(self, names: list[str], _options: dict[str, str]) -> None:
        device = self._At(names[0])
        if device.held_open:
            raise _Refused(f"{names[0]}: State change failed: (-12) Device is held open by someone", 11)
        if device.role == "Primary":
            self.SeemOpen(device.minor, self._links.late)
        device.role = "Secondary"
        device.frozen = False

    def _DoDetach(self, names: list[str], options: dict[str, str]) -> None:
        device = self._At(names[0])
        if device.role == "Primary" and "force" not in options and device.peer_disk != "UpToDate":
            raise _Refused(f"{names[0]}: State change failed: (-2) Need access to UpToDate data", 17)
        device.disk, device.data, device.meta = "Diskless", None, None
        seen = device.known
        if device.link not in ("StandAlone", "WFConnection"):
            device.link = self._links.PeerOf(device).link = "Connected"
            self._links.GoAlone(self._links.PeerOf(device))
            seen = self._links.PeerOf(device).known
        else:
            device.frozen = device.role == "Primary" and (device.frozen or device.no_data == _SUSPEND)
        device.shown = seen.now if device.role == "Primary" else 0
        self._links.Tell(device)
        if "force" in options and self._links.late:
            device.disk = "Failed"
            self._Later(lambda: self._LetGo(device))

    def _LetGo(self, device: Device) -> None:
        if device.disk == "Failed":
            device.disk = "Diskless"
            self._links.Tell(device)

    def _DoOutdate(self, names: list[str], _options: dict[str, str]) -> None:
        device = self._At(names[0])
        if device.role == "Primary":
            raise _Refused(f"{names[0]}: State change failed: (-2) Need access to UpToDate data", 17)
        if device.disk in _GOOD:
            device.disk = "Outdated"
            _Remember(device)

    def _DoResumeIo(self, names: list[str], _options: dict[str, str]) -> None:
        device = self._At(names[0])
        if device.frozen:
            device.frozen = False
            if device.disk == "UpToDate":
                self._links.GoAlone(device)

    def _DoPauseSync(self, names: list[str], _options: dict[str, str]) -> None:
        if self._At(names[0]).paused:
            raise _Refused(f"{names[0]}: Failure: (134) Sync-pause flag is already set")
        self._At(names[0]).paused = True

    def _DoResumeSync(self, names: list[str], _options: dict[str, str]) -> None:
        if not self._At(names[0]).paused:
            raise _Refused(f"{names[0]}: Failure: (135) Sync-pause flag is already cleared")
        self._At(names[0]).paused = False

    def _DoResize(self, names: list[str], options: dict[str, str]) -> None:
        device = self._At(names[0])
        if device.link in ("StandAlone", "WFConnection"):
            raise _Refused(f"{names[0]}: Failure: (130) Resize not allowed while the peer is not connected")
        size = int(options["size"].removesuffix("m"))
        peer = self._links.PeerOf(device)
        self._Later(lambda: self._Enlarge(device, peer, size))

    def _Enlarge(self, device: Device, peer: Device, size: int) -> None:
        """Both sides have the new size, and the new part is filled."""
        if device.link != "Connected" or not self._links.AreLinked(device, peer):
            return
        for side in (device, peer):
            side.room = max(side.room, size)
            side.size = side.wanted = side.known.size = size
        if "Diskless" in (device.disk, peer.disk):
            return
        source, target = (peer, device) if peer.role == "Primary" else (device, peer)
        source.link, target.link, target.disk = "SyncSource", "SyncTarget", "Inconsistent"
        self._links.Tell(target)
        self._links.Publish()
        if not self._links.hold:
            self._Later(lambda: self._EndFilling(source, target))

    def _EndFilling(self, source: Device, target: Device) -> None:
        if target.link == "SyncTarget" and self._links.AreLinked(source, target):
            self._links.Fill(source, target)

    def _Later(self, action: Callable[[], None]) -> None:
        """Do what a command has begun, and does not wait for."""
        if not self._links.late:
            action()
            return

        def act() -> None:
            action()
            self._links.Publish()

        self._machine.world.Schedule(self._links.late, act)

    def _DoDown(self, names: list[str], _options: dict[str, str]) -> None:
        device = next((found for found in self.devices.values() if found.resource == names[0]), None)
        if device is None:
            return
        if device.held_open and device.role == "Primary":
            raise _Refused(f"{names[0]}: State change failed: (-12) Device is held open by someone", 11)
        if device.link not in ("StandAlone", "WFConnection"):
            self._EndOrderly(device, self._links.PeerOf(device))
        self._links.Drop(device)
        del self.devices[device.minor]

    def _EndOrderly(self, *sides: Device) -> None:
        """Both agree that a secondary side is outdated from now on, if the other one is open."""
        for side, other in (sides, sides[::-1]):
            if other.role == "Primary" and side.role == "Secondary" and side.disk in _GOOD:
                side.disk = other.peer_disk = "Outdated"
                _Remember(side)

    def LosePower(self) -> None:
        """The machine is switched off: its end of every link is gone, what metadata holds stays."""
        for device in list(self.devices.values()):
            self._links.Drop(device)
        self.devices.clear()
        self._links.Publish()


def _AgreeOnSize(one: Device, two: Device) -> bool:
    """Give both sides the same size; a side with good data that would become smaller leaves."""
    sides = [device for device in (one, two) if device.disk != "Diskless"]
    sizes = [size for device in sides for size in (device.room, device.wanted) if size]
    for device in sides:
        if device.disk in _GOOD and device.size > min(sizes):
            device.link = "StandAlone"
    if "StandAlone" in (one.link, two.link):
        return False
    for device in sides:
        device.size = device.known.size = min(sizes)
    return True


def _Shown(device: Device) -> str:
    """Return a device as ``drbdsetup show`` prints it."""
    no_data = [] if device.no_data == "io-error" else [f"        on-no-data-accessible\t{device.no_data};"]
    lines = [f"resource {device.resource} {{", "    options {", *no_data, "    }"]
    if device.ends:
        two = ["        allow-two-primaries\tyes;"] if device.two_primaries else []
        two += [] if device.protocol == "C" else [f"        protocol        \t{device.protocol};"]
        local, remote = (end.replace(":", " ", 1) for end in device.ends)
        lines += [
            "    net {",
            *two,
            '        cram-hmac-alg   \t"md5";',
            f'        shared-secret   \t"{device.secret}";',
            "    }",
        ]
        lines += ["    _remote_host {", f"        address\t\t\t{remote};", "    }"]
    lines.append("    _this_host {")
    if device.ends:
        lines.append(f"        address\t\t\t{local};")
    lines += ["        volume 0 {", f"            device\t\t\tminor {device.minor};"]
    if device.data:
        lines += [f'            disk\t\t\t"{device.data}";', f'            meta-disk\t\t\t"{device.meta}";']
        lines += ["            disk {", f"                size            \t{device.size * MIB // _SECTOR}s; # bytes"]
        if "fencing" in device.options:
            lines.append(f"                fencing         \t{device.options['fencing']};")
        lines.append("            }")
    return "\n".join([*lines, "        }", "    }", "}", ""])
