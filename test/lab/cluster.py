"""A cluster of laboratory nodes, formed by the commands an administrator types; nodes join without SSH."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lab.files import Fetch, Install, MakeGuestDisk, NodeFiles
from lab.machine import Done, Machine, MakeDisk, MakeStateDisk
from lab.switch import Switch

NAME = "cluster"
GROUP = "xenvg"
OS = "tests+default"
# Its disk boots inside/guest.asm.
OS_OF_WRITER = "tests+writer"
NETWORK = "10.77.0"
_MIRROR_NETWORK = "10.78.0"
_MEMORY = 768
_DISKS = 2
# For a command of the master, in software emulation beside other load.
_COMMAND_SECONDS = 900.0
# A volume group for a cluster has at least 20 GiB; the files are sparse.
_DISK_MIB = 11264
_OS_FOLDER = "/srv/ganeti/os/tests"
_OS_SCRIPTS = ("create", "import", "export", "rename", "verify")
_OS_FILES = {
    "ganeti_api_version": "20\n",
    "variants.list": "default\nwriter\n",
    "parameters.list": "",
    **dict.fromkeys(_OS_SCRIPTS, "#!/bin/sh\nexit 0\n"),
    "create": f"""#!/bin/sh
[ "$OS_VARIANT" != writer ] || exec dd if={_OS_FOLDER}/disk of="$DISK_0_PATH" bs=1M oflag=direct status=none
""",
}
# Instances may be as small as the nodes are.
_SMALL = ["--specs-mem-size=min=16,max=1024,std=64", "--specs-disk-size=min=8,max=2048,std=64"]
_SMALL += ["--specs-nic-count=min=0,max=1,std=0", "--specs-disk-count=min=0,max=4,std=1"]
DAEMONS = "/usr/lib/ganeti"


class Node:
    """One node: its machine, and what it says of itself."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.name = machine.name
        self.mirror_address = f"{_MIRROR_NETWORK}.{machine.address.rpartition('.')[2]}"

    def Run(self, *argv: str, **options: Any) -> Done:
        return self.machine.Run(*argv, **options)

    def Shell(self, script: str, **options: Any) -> str:
        return self.machine.Run("sh", "-c", script, **options).stdout

    def Volumes(self) -> list[str]:
        """Return the names of all logical volumes."""
        return sorted(self.Run("lvs", "--noheadings", "-o", "lv_name").stdout.split())

    def Read(self, path: str) -> str:
        return self.Run("cat", path).stdout

    def Pid(self, daemon: str) -> str:
        return self.Read(f"/run/ganeti/{daemon}.pid").strip()


class Machines:
    """Some machines, on the first of which the administrator works; ``say`` gets a line for each step."""

    def __init__(self, folder: Path, nodes: Sequence[Node], say: Callable[[str], None]):
        self.folder = folder
        self.nodes = list(nodes)
        self._say = say
        self._stack = contextlib.ExitStack()

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    @property
    def running(self) -> list[Node]:
        """The nodes that have power."""
        return [node for node in self.nodes if node.machine.running]

    @property
    def master(self) -> Node:
        return self.nodes[0]

    def Gnt(self, *argv: str, **options: Any) -> Done:
        """Run a command on the master; ``Gnt("instance", "list")`` is ``gnt-instance list``."""
        return self.master.Run(f"gnt-{argv[0]}", *argv[1:], **{"seconds": _COMMAND_SECONDS, **options})

    @contextlib.contextmanager
    def Step(self, text: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._say(f"{text}: {time.monotonic() - began:.1f} s")

    def OnAll(self, work: Callable[[Node], Any]) -> list[Any]:
        """Do it on all nodes at once."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            return list(pool.map(work, self.nodes))


class LabCluster(Machines):
    """``count`` nodes, the first of them the master; ``say`` gets a line for each step.

    ``switch`` is the network of the nodes, ``links`` the secondary one, which mirrors use.  ``install``: makes the directory
    that lies over the system of each machine.
    """

    def __init__(
        self,
        folder: Path,
        count: int = 2,
        say: Callable[[str], None] = lambda _: None,
        install: Callable[[Path], Path] | None = None,
    ):
        self.switch = Switch(folder)
        (folder / "links").mkdir()
        self.links = Switch(folder / "links")
        self.numbers = itertools.count(1)
        super().__init__(folder, (), say)
        files, installed = Fetch(), (install or InstallAll)(folder / "installed")
        self.nodes = [self._MakeNode(number, files, installed) for number in range(1, count + 1)]

    def _MakeNode(self, number: int, files: NodeFiles, installed: Path) -> Node:
        name = f"node{number}"
        disks, state = self._MakeDisks(name)
        network = [*self.switch.AddPort(name, number), *self.links.AddPort(name, number, 1)]
        address = f"{NETWORK}.{number}"
        return Node(Machine(name, self.folder, files, disks, address, network, _MEMORY, state, installed))

    def _MakeDisks(self, name: str) -> tuple[list[Path], Path]:
        disks = [MakeDisk(self.folder / f"{name}.disk{disk}", _DISK_MIB) for disk in range(_DISKS)]
        return disks, MakeStateDisk(self.folder / f"{name}.state")

    def __enter__(self) -> LabCluster:
        for switch in (self.switch, self.links):
            self._stack.enter_context(switch)
        for node in self.nodes:
            self._stack.enter_context(node.machine)
        try:
            self._Form()
        except BaseException:
            self._stack.close()
            raise
        return self

    # --- making it ----------------------------------------------------------------------------------------------------

    def _Form(self) -> None:
        with self.Step("booting"):
            self.OnAll(lambda node: node.machine.Start())
            self.OnAll(self._Settle)
            self.OnAll(MakeGroup)
        with self.Step(f"gnt-cluster init on {self.master.name}"):
            argv = ["--enabled-hypervisors", "fake", "--enabled-disk-templates", "plain,drbd,diskless"]
            argv += ["--drbd-usermode-helper", "/bin/true"]
            argv += [
                "--vg-name",
                GROUP,
                "--secondary-ip",
                self.master.mirror_address,
                "--master-netdev",
                "eth0",
                "--no-etc-hosts",
                "--no-ssh-init",
            ]
            # One voter: the stories are about disks, and the master must decide while the other node is gone.
            argv += ["--candidate-pool-size", "1", *_SMALL, "--nic-parameters", "mode=routed,link=100"]
            self.Gnt("cluster", "init", *argv, NAME)
        for node in self.nodes[1:]:
            with self.Step(f"gnt-node add {node.name}"):
                data = self.Gnt("node", "show-join-data", node.name).stdout
                node.Run(f"{DAEMONS}/ensure-dirs")
                node.Run(f"{DAEMONS}/node-daemon-setup", stdin=data, seconds=300)
                self.Gnt("node", "add", "--no-node-setup", "--secondary-ip", node.mirror_address, node.name)

    def _Settle(self, node: Node) -> None:
        """What an installation leaves in files that do not survive here."""
        node.machine.Wait()
        hosts = ["127.0.0.1 localhost", f"{NETWORK}.254 {NAME}"]
        hosts += [f"{other.machine.address} {other.name}" for other in self.nodes]
        script = "cat > /etc/hosts; echo 'NODED_ARGS=--no-mlock' > /etc/default/ganeti; vgchange -q -aay"
        script += f"; ip link set eth1 mtu 9000 up; ip addr add {node.mirror_address}/24 dev eth1"
        node.Run("sh", "-c", script, stdin="\n".join(hosts) + "\n")

    # --- faults -------------------------------------------------------------------------------------------------------

    def PowerOff(self, node: Node) -> None:
        node.machine.PowerOff()

    def PowerOn(self, node: Node) -> None:
        """Give a node its power back and start its daemons, as its init system would."""
        node.machine.Start()
        self._Settle(node)
        node.Run(f"{DAEMONS}/daemon-util", "start-all", seconds=300)

    # --- what the cluster says ----------------------------------------------------------------------------------------

    def Config(self) -> dict[str, Any]:
        data = json.loads(self.master.Read("/var/lib/ganeti/config.data"))
        assert isinstance(data, dict)
        return data


def MakeGroup(node: Node) -> None:
    disks = [f"/dev/vd{chr(ord('a') + number)}" for number in range(_DISKS)]
    node.Run("vgcreate", "-q", "-y", GROUP, *disks)


def InstallAll(folder: Path) -> Path:
    Install(folder)
    where = Path(f"{folder}{_OS_FOLDER}")
    where.mkdir(parents=True)
    for name, text in _OS_FILES.items():
        (where / name).write_text(text, encoding="ascii")
        (where / name).chmod(0o755)
    MakeGuestDisk(where / "disk")
    keys = folder / "etc" / "ssh"
    keys.mkdir(parents=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(keys / "ssh_host_rsa_key")], check=True)
    return folder


__all__ = [
    "DAEMONS",
    "GROUP",
    "NAME",
    "NETWORK",
    "OS",
    "OS_OF_WRITER",
    "InstallAll",
    "LabCluster",
    "Machines",
    "MakeGroup",
    "Node",
]
