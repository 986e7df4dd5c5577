"""Light machines: namespaces of this machine's kernel instead of a kernel of their own, for stories that need none.

::

    site      one process holds it: a mount namespace with the disks, a network namespace with a bridge
    machine   a root of its own above the system of this machine, its own processes, host name and network

What such a machine changes lies on a disk in memory (tmpfs), which survives until the machine gets another one; it can be full.
An end of power ends all processes, but no written data is lost by it: stories about that need virtual machines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.agent import PATH
from lab.files import NodeFiles
from lab.machine import Done, Machine, Needed

_DISK_MIB = 96
_PREFIX = 24
# What this machine may have there is nobody else's business.
_OWN = ("etc/ganeti", "etc/ssh", "root/.ssh", "var/lib/ganeti", "var/log/ganeti")
# Arguments: a directory, for what all machines have.  Layers of an overlay must not lie in one another, so nothing that lies
# above the system of this machine can stay on its disk.
_HOLD = """set -e
mount -t tmpfs -o mode=755 lab "$1"
ip link add switch type bridge
ip link set switch up
ip link set lo up
echo ready
exec sleep 100000
"""
# Arguments: host name, directory of the disk, what lies below it, what is needed from this machine by its path.
_INIT = """set -e
name=$1 disk=$2 lower=$3; shift 3
new=$disk/new
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$disk/upper,workdir=$disk/work" "$new"
mount -t proc proc "$new/proc"
mount -t sysfs sys "$new/sys"
mount --rbind /dev "$new/dev"
for path; do
  [ -e "$new$path" ] || { mkdir -p "$new$path"; mount --rbind "$path" "$new$path"; }
done
for folder in run tmp var/tmp; do mount -t tmpfs -o mode=1777,size=64m tmpfs "$new/$folder"; done
chmod 755 "$new/run"
mkdir "$new/run/lock"
hostname "$name"
ip link set lo up
echo ready
# As every first process, it takes care of orphans.
exec chroot "$new" /bin/sh -c 'while :; do sleep 1000 & wait $!; done'
"""


class LightSwitch:
    """What holds the machines of one site, and the network between them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir()
        self._ports: list[str] = []

    def __enter__(self) -> LightSwitch:
        self._holder = Hold(["unshare", "--mount", "--net", "sh", "-c", _HOLD, "sh", str(self._folder)])
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.communicate()

    def Lay(self, folders: Sequence[Path]) -> list[Path]:
        """Copy what lies over the system of each machine, the topmost first; return where ``Start`` finds it."""
        copies = [self._folder / f"{number}" for number in range(len(folders))]
        for source, copy in zip(folders, copies, strict=True):
            self.Do("cp", "-a", str(source), str(copy))
        return copies

    def Command(self, *argv: str) -> list[str]:
        """Return what runs a program among the disks and beside the bridge."""
        return ["nsenter", "-t", str(self._holder.pid), "-m", "-n", *argv]

    def Do(self, *argv: str) -> None:
        subprocess.run(self.Command(*argv), check=True, stdin=subprocess.DEVNULL, timeout=60)

    def See(self, path: Path) -> Path:
        """Return how this process can reach a path of the disks."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    def Plug(self, name: str, pid: int, address: str) -> None:
        """Give the machine whose first process is ``pid`` its interface eth0."""
        # As in a virtual machine: another one in its place is found by those who remember where the old one was.
        mac = f"52:54:00:00:00:{int(address.rpartition('.')[2]):02x}"
        inner = ["name", "eth0", "address", mac, "netns", str(pid)]
        self.Do("ip", "link", "add", name, "type", "veth", "peer", *inner)
        self.Do("ip", "link", "set", name, "master", "switch", "up")
        inside = ["nsenter", "-t", str(pid), "-n", "ip"]
        for words in (["addr", "add", f"{address}/{_PREFIX}", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            subprocess.run([*inside, *words], check=True, timeout=60)
        self._ports.append(name)

    def Unplug(self, name: str) -> None:
        """Remove the machine's interface, which its namespace may keep for a moment."""
        self._ports.remove(name)
        subprocess.run(self.Command("ip", "link", "del", name), check=False, capture_output=True, timeout=60)

    def CutOff(self, name: str) -> None:
        """Drop what the machine sends and gets; its interface does not notice."""
        self.Do("bridge", "link", "set", "dev", name, "state", "0")

    def Heal(self) -> None:
        for name in self._ports:
            self.Do("bridge", "link", "set", "dev", name, "state", "3")


class LightMachine(Machine):
    """A machine of a site; ``PowerOff`` ends everything that runs on it."""

    def __init__(self, name: str, folder: Path, address: str, switch: LightSwitch, layers: Sequence[Path]):
        super().__init__(name, folder, NodeFiles(Path(), Path(), Path()), (), address)
        self._switch = switch
        self._layers = list(layers)
        self._disk = folder / f"{name}.disk"
        self._pid = 0

    def MakeDisk(self) -> None:
        """Put an empty disk into it."""
        if self._disk.exists():
            self._switch.Do("umount", str(self._disk))
        self._disk.mkdir(exist_ok=True)
        self._switch.Do("mount", "-t", "tmpfs", "-o", f"mode=755,size={_DISK_MIB}m", "lab", str(self._disk))
        seen = self._switch.See(self._disk)
        for folder in ("upper", "work", "new"):
            (seen / folder).mkdir()
        for folder in _OWN:
            (seen / "upper" / folder).mkdir(parents=True)
            os.setxattr(seen / "upper" / folder, "trusted.overlay.opaque", b"y")
            installed = self._switch.See(self._layers[0]) / folder
            if installed.is_dir():
                shutil.copytree(installed, seen / "upper" / folder, dirs_exist_ok=True)
        for folder in ("root", "root/.ssh"):
            (seen / "upper" / folder).chmod(0o700)

    @property
    def running(self) -> bool:
        return self._pid != 0

    def Start(self) -> None:
        lower = ":".join(map(str, [*self._layers, "/"]))
        argv = [
            "unshare",
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            _INIT,
            "sh",
        ]
        argv += [self.name, str(self._disk), lower, *map(str, Needed())]
        self._process = Hold(self._switch.Command(*argv))
        pid = self._process.pid
        self._pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii"))
        self._switch.Plug(self.name, self._pid, self.address)

    def Wait(self) -> Machine:
        return self

    def PowerOff(self) -> None:
        if self._process is not None:
            self._switch.Unplug(self.name)
            os.kill(self._pid, 9)
            self._process.communicate(timeout=60)
            self._process, self._pid = None, 0

    def Run(self, *argv: str, stdin: str = "", seconds: float = 120.0, check: bool = True, **env: str) -> Done:
        assert self._pid, f"{self.name} is off"
        enter = ["nsenter", "-t", str(self._pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w"]
        said = subprocess.run(
            [*enter, *argv], input=stdin, env={"PATH": PATH, "LC_ALL": "C", "HOME": "/root", **env},
            capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
        )  # fmt: skip
        done = Done(said.returncode, said.stdout, said.stderr)
        assert not check or done.status == 0, f"{self.name}: {' '.join(argv)}: {done}"
        return done


def Hold(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start what prints "ready" when it is, and then holds namespaces until it is killed."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd="/")
    assert process.stdout is not None and process.stderr is not None
    if process.stdout.readline() != b"ready\n":
        raise AssertionError(f"namespaces could not be made: {process.stderr.read().decode(errors='replace')}")
    return process
