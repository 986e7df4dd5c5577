"""Storage of others for simulated machines: programs with the command lines of the real ones.

``Ceph`` and ``Gluster`` are services that machines reach; ``Provider`` is a directory of scripts on a machine, with
storage that several machines may share.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulated.disk import Device, File

from ganeti import pathutils, runtime

if TYPE_CHECKING:
    from simulated import Invocation, Machine

MIB = 1 << 20
_RBD_MAJOR, _EXT_MAJOR = 252, 240


def AddDevice(machine: Machine, path: str, size: int, rdev: int | None = None) -> Device:
    """Give a machine a block device of ``size`` bytes; without ``rdev`` with a number of its own."""
    rdev = os.makedev(8, machine.disk.NextNumber()) if rdev is None else rdev
    machine.disk.MakeFolders(path.rpartition("/")[0], 0o755)
    device = Device(machine.disk, size, rdev)
    machine.disk.Insert(path, device)
    return device


def AddBlockTools(machine: Machine) -> None:
    """Give a machine ``blockdev``, and a ``dd`` that copies."""
    machine.programs["blockdev"] = _Blockdev
    machine.programs["dd"] = _Dd


def _Blockdev(invocation: Invocation) -> int:
    option, path = invocation.argv[1:]
    assert option == "--getsize64", invocation.argv
    try:
        invocation.Print(f"{runtime.Stat(path).st_size}\n")
    except OSError:
        invocation.Complain(f"blockdev: cannot open {path}: No such file or directory\n")
        return 1
    return 0


def _Dd(invocation: Invocation) -> int:
    """dd: what it reads and writes are whole blocks; a power cut takes them along unless it was told to wait for the disk."""
    options = dict(word.split("=", 1) for word in invocation.argv[1:])
    block = int(options.get("bs", 512))
    source = options.get("if")
    if source is None:
        data = invocation.stdin
    elif source == "/dev/zero":
        data = bytes(block * int(options["count"]))
    else:
        data = _FileAt(source, options.get("iflag", "")).Read()[: block * int(options["count"])]
    if "of" not in options:
        invocation.Print(data.decode("latin-1"))
        return 0
    target = _FileAt(options["of"], options.get("oflag", ""))
    Write(target, data, block * int(options.get("seek", 0)))
    target.written_at, target.synced = runtime.CurrentSide().machine.world.now, False
    if "fsync" in options.get("conv", "").split(","):
        target.Sync()
    return 0


def _FileAt(path: str, flags: str = "") -> File:
    machine = runtime.CurrentSide().machine
    inode = machine.disk.Find(path, follow="nofollow" not in flags.split(","))
    assert isinstance(inode, File), path
    return inode


def Write(file: File, data: bytes, offset: int = 0) -> None:
    """Write into a file or device; zeros at its end take no memory."""
    assert offset + len(data) <= file.length or not isinstance(file, Device), "No space left on device"
    file.data = (file.data[:offset].ljust(offset, b"\0") + data + file.data[offset + len(data) :]).rstrip(b"\0")
    file.length = max(file.length, offset + len(data))


class _Refused(Exception):
    """What a program complains of, and how it ends."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


def _Serve(handler: Callable[[Invocation], str | None]) -> Callable[[Invocation], int]:
    def run(invocation: Invocation) -> int:
        try:
            invocation.Print(handler(invocation) or "")
        except _Refused as err:
            invocation.Complain(f"{err}\n")
            return err.code
        return 0

    return run


class Ceph:
    """A Ceph cluster: its images by (pool, name), each mapped on any number of machines.

    ``release``: how ``rbd showmapped`` prints: "luminous" a dict, "nautilus" a list, "argonaut" a table only.
    """

    def __init__(self, release: str = "nautilus"):
        self.release = release
        self.pools = {"rbd"}
        self.images: dict[tuple[str, str], int] = {}
        self.contents: dict[tuple[str, str], bytes] = {}
        self.mapped: dict[str, dict[str, tuple[str, str]]] = {}
        self.runs: list[list[str]] = []

    def Join(self, machine: Machine) -> None:
        """Give a machine the program ``rbd``."""
        devices = self.mapped.setdefault(machine.name, {})

        def rbd(invocation: Invocation) -> str | None:
            self.runs.append(list(invocation.argv))
            command, *words = invocation.argv[1:]
            if command == "showmapped":
                return self._ShowMapped(devices, words)
            if command == "unmap":
                return self._Unmap(machine, devices, words[0])
            dash, pool, name, *rest = words
            assert dash == "-p", invocation.argv
            if pool not in self.pools:
                raise _Refused(errno.ENOENT, f"rbd: error opening pool '{pool}': (2) No such file or directory")
            if command != "create" and (pool, name) not in self.images:
                raise _Refused(errno.ENOENT, f"rbd: error opening image {name}: (2) No such file or directory")
            if command == "map":
                return self._Map(machine, devices, (pool, name))
            return getattr(self, f"_{command.capitalize()}")((pool, name), rest)

        machine.programs["rbd"] = _Serve(rbd)

    def MapTwice(self, machine: Machine, name: str) -> None:
        self._Map(machine, self.mapped[machine.name], ("rbd", name))

    def _ShowMapped(self, devices: dict[str, tuple[str, str]], words: list[str]) -> str:
        rows = [
            {"id": device.removeprefix("/dev/rbd"), "pool": pool, "name": name, "snap": "-", "device": device}
            for device, (pool, name) in devices.items()
        ]
        if self.release == "argonaut":
            if words:
                raise _Refused(1, "rbd: error parsing command 'showmapped': unrecognised option '--format'")
            lines = [("id", "pool", "image", "snap", "device"), *(tuple(row.values()) for row in rows)]
            return "".join("\t".join(line) + "\n" for line in lines)
        assert words == ["--format", "json"], words
        if self.release == "luminous":
            return json.dumps({row.pop("id"): row for row in rows})
        return json.dumps([{**row, "namespace": ""} for row in rows])

    def _Map(self, machine: Machine, devices: dict[str, tuple[str, str]], image: tuple[str, str]) -> str:
        device = f"/dev/rbd{len(devices)}"
        node = AddDevice(machine, device, self.images[image] * MIB, os.makedev(_RBD_MAJOR, len(devices)))
        Write(node, self.contents.pop(image, b""))
        devices[device] = image
        return f"{device}\n"

    def _Unmap(self, machine: Machine, devices: dict[str, tuple[str, str]], device: str) -> None:
        if device not in devices:
            raise _Refused(errno.EINVAL, f"rbd: '{device}' is not an rbd device")
        image = devices.pop(device)
        node = machine.disk.Find(device)
        assert isinstance(node, Device)
        self.contents[image] = node.data
        machine.disk.Remove(device)

    def _Create(self, image: tuple[str, str], words: list[str]) -> None:
        option, size = words
        assert option == "--size", words
        if image in self.images:
            raise _Refused(errno.EEXIST, "rbd: create error: (17) File exists")
        self.images[image] = int(size)

    def _Resize(self, image: tuple[str, str], words: list[str]) -> None:
        option, size = words
        assert option == "--size", words
        if int(size) < self.images[image]:
            raise _Refused(errno.EINVAL, "rbd: shrinking an image is only allowed with the --allow-shrink flag")
        self.images[image] = int(size)
        for machine in runtime.CurrentSide().world.machines.values():
            for device, mapped in self.mapped.get(machine.name, {}).items():
                if mapped == image:
                    node = machine.disk.Find(device)
                    assert isinstance(node, Device)
                    node.length = int(size) * MIB

    def _Rm(self, image: tuple[str, str], _words: list[str]) -> None:
        if any(image in devices.values() for devices in self.mapped.values()):
            raise _Refused(errno.EBUSY, "rbd: error: image still has watchers")
        del self.images[image]
        self.contents.pop(image, None)


class Gluster:
    """A Gluster volume ``gv0`` that machines mount: one folder of files for all of them.

    ``mount`` returns 0 even where nothing was mounted, as the real helper may.
    """

    def __init__(self) -> None:
        self.up = True
        self.runs: list[list[str]] = []
        self._folder: object = None

    def Join(self, machine: Machine) -> None:
        machine.disk.MakeFolders("/proc/self", 0o755)
        machine.disk.Insert("/proc/self/mounts", File(machine.disk, 0o444, data=b"/dev/sda1 / ext4 rw 0 0\n"))

        def mount(invocation: Invocation) -> str | None:
            self.runs.append(list(invocation.argv))
            _, dash_t, kind, dash_o, options, source, target = invocation.argv
            assert (dash_t, kind, dash_o) == ("-t", "glusterfs", "-o") and options.startswith("server-port=")
            assert invocation.cwd == target, "started where it mounts"
            if self.up and source.endswith(":/gv0"):
                machine.disk.RemoveTree(target)
                if self._folder is None:
                    machine.disk.MakeFolders(target, 0o755)
                    self._folder = machine.disk.Find(target)
                else:
                    machine.disk.Insert(target, self._folder)  # type: ignore[arg-type]
                line = f"{source} {machine.disk.Split(target)[2]} fuse.glusterfs rw,relatime 0 0\n"
                Write(_FileAt("/proc/self/mounts"), line.encode(), _FileAt("/proc/self/mounts").length)
            return None

        machine.programs["mount"] = _Serve(mount)


SCRIPTS = ("create", "attach", "detach", "remove", "grow", "setinfo", "verify", "snapshot", "open", "close")


class Provider:
    """A provider of external storage, whose volumes are devices while they are attached.

    ``runs``: (script, its VOL_ and EXTP_ variables); ``sizes``: MiB of each volume.  ``output``: what attach prints
    instead of the device; ``uri``: printed after it; ``failures``: script -> what it does instead of its work.
    """

    def __init__(self, name: str = "san"):
        self.name = name
        self.path = f"{pathutils.ES_SEARCH_PATH[0]}/{name}"
        self.sizes: dict[str, int] = {}
        self.runs: list[tuple[str, dict[str, str]]] = []
        self.output: str | None = None
        self.uri = ""
        self.failures: dict[str, Callable[[Invocation], int]] = {}
        self._contents: dict[str, bytes] = {}

    def Join(self, machine: Machine, scripts: tuple[str, ...] = SCRIPTS) -> None:
        machine.disk.MakeFolders(self.path, 0o755)
        parameters = File(machine.disk, 0o644, data=b"tier  fast or cheap\nreplicas\n")
        machine.disk.Insert(f"{self.path}/parameters.list", parameters)
        for script in scripts:
            machine.disk.Insert(f"{self.path}/{script}", File(machine.disk, 0o755))
            machine.programs[f"{self.path}/{script}"] = self._Script(machine, script)

    def _Script(self, machine: Machine, script: str) -> Callable[[Invocation], int]:
        def work(invocation: Invocation) -> str | None:
            assert invocation.cwd == self.path
            own = {key: value for key, value in invocation.env.items() if key.startswith(("VOL_", "EXTP_"))}
            self.runs.append((script, own))
            return getattr(self, f"_{script.capitalize()}")(machine, own["VOL_NAME"], own)

        serve = _Serve(work)

        def run(invocation: Invocation) -> int:
            instead = self.failures.get(script)
            return instead(invocation) if instead else serve(invocation)

        return run

    def _Create(self, _machine: Machine, name: str, env: dict[str, str]) -> None:
        if name in self.sizes:
            raise _Refused(1, f"volume {name} exists")
        self.sizes[name] = int(env["VOL_SIZE"])

    def _Attach(self, machine: Machine, name: str, _env: dict[str, str]) -> str:
        if name not in self.sizes:
            raise _Refused(1, f"volume {name} does not exist")
        device = f"/dev/{self.name}/{name}"
        if machine.disk.Lookup(device) is None:
            node = AddDevice(machine, device, self.sizes[name] * MIB, os.makedev(_EXT_MAJOR, len(self.sizes)))
            Write(node, self._contents.get(name, b""))
        return f"{device if self.output is None else self.output}\n{self.uri}"

    def _Detach(self, machine: Machine, name: str, _env: dict[str, str]) -> None:
        node = machine.disk.Lookup(f"/dev/{self.name}/{name}")
        if isinstance(node, Device):
            self._contents[name] = node.data
            machine.disk.Remove(f"/dev/{self.name}/{name}")

    def _Remove(self, _machine: Machine, name: str, _env: dict[str, str]) -> None:
        self.sizes.pop(name, None)
        self._contents.pop(name, None)

    def _Grow(self, machine: Machine, name: str, env: dict[str, str]) -> None:
        assert int(env["VOL_SIZE"]) == self.sizes[name]
        self.sizes[name] = int(env["VOL_NEW_SIZE"])
        node = machine.disk.Lookup(f"/dev/{self.name}/{name}")
        if isinstance(node, Device):
            node.length = self.sizes[name] * MIB

    def _Setinfo(self, _machine: Machine, _name: str, _env: dict[str, str]) -> None:
        pass

    def _Verify(self, _machine: Machine, _name: str, _env: dict[str, str]) -> None:
        raise AssertionError("verify is never run")

    def _Snapshot(self, _machine: Machine, name: str, env: dict[str, str]) -> None:
        self.sizes[env["VOL_SNAPSHOT_NAME"]] = int(env["VOL_SNAPSHOT_SIZE"])
        self._contents[env["VOL_SNAPSHOT_NAME"]] = self._contents.get(name, b"")

    def _Open(self, _machine: Machine, _name: str, _env: dict[str, str]) -> None:
        pass

    def _Close(self, _machine: Machine, _name: str, _env: dict[str, str]) -> None:
        pass
