"""Machines as an administrator finds them: they have an SSH daemon, this release is installed, and no cluster knows them.

``Site`` has virtual machines, ``LightSite`` light ones.  The administrator has a key on the first machine with which root is
let in everywhere; each machine has host keys of its own, made when it was installed.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from lab.cluster import DAEMONS, GROUP, NAME, NETWORK, InstallAll, LabCluster, Machines, MakeGroup, Node
from lab.files import FetchPackages
from lab.light import LightMachine, LightSwitch
from lab.switch import Switch

_SSHD = """HostKey /etc/ssh/ssh_host_rsa_key
HostKey /etc/ssh/ssh_host_ecdsa_key
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
UsePAM no
Subsystem sftp /usr/lib/openssh/sftp-server
"""
# What the package openssh-server does when it is installed; names, which a real site has in DNS; root has no password.
_PREPARE = """set -e
grep -q ^sshd: /etc/passwd || echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >> /etc/passwd
sed -i 's/^root:![^:]*:/root:*:/' /etc/shadow
cat > /run/names
grep -q '254 cluster$' /etc/hosts || cat /run/names > /etc/hosts
chmod 700 /root/.ssh
if [ ! -e /etc/ssh/sshd_config ]; then
  rm -f /etc/ssh/ssh_host_*
  ssh-keygen -q -A
  printf %s "$KEY" > /root/.ssh/authorized_keys
  printf %s "$SSHD" > /etc/ssh/sshd_config
fi
/etc/init.d/ssh start
"""
_KEY = "id_ed25519"


class SiteMachines(Machines):
    """What both kinds share."""

    switch: Switch | LightSwitch
    # What gnt-cluster init is given besides the cluster's name.
    init: tuple[str, ...] = ()
    # What gnt-cluster verify rightly says of these machines.
    lack: re.Pattern[str] | None = None
    # What it may say of some of them, but not of every pair.
    slow: re.Pattern[str] | None = None

    def Install(self, node: Node) -> None:
        """Do what the installation of a machine does, and start its SSH daemon; its daemons of the cluster are left alone."""
        key = self._Key()
        hosts = [f"{NETWORK}.254 {NAME}", *(f"{other.machine.address} {other.name}" for other in self.nodes)]
        names = "\n".join(["127.0.0.1 localhost", *hosts, ""])
        public = key.with_suffix(".pub").read_text(encoding="ascii")
        node.Run("sh", "-c", _PREPARE, stdin=names, KEY=public, SSHD=_SSHD)
        if node is self.master:
            node.Run("sh", "-c", f"umask 077; cat > /root/.ssh/{_KEY}", stdin=key.read_text(encoding="ascii"))

    def _Key(self) -> Path:
        key = self.folder / _KEY
        if not key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        return key

    def _Begin(self) -> None:
        self._Key()
        with self.Step("booting"):
            self.OnAll(self.First)

    def First(self, node: Node) -> None:
        """Switch on a machine with new disks."""
        node.machine.Start()
        node.machine.Wait()
        self.Install(node)

    def PowerOff(self, node: Node) -> None:
        node.machine.PowerOff()

    def PowerOn(self, node: Node) -> None:
        """Give a machine its power back; its init system starts the daemons that have what they need."""
        node.machine.Start()
        node.machine.Wait()
        self.Install(node)
        node.Run(f"{DAEMONS}/daemon-util", "start-all", seconds=300, check=False)

    def Replace(self, node: Node) -> None:
        """Put another machine in a node's place: the same name and address, new disks, newly installed."""
        self.PowerOff(node)
        self.First(node)

    def CutOff(self, node: Node) -> None:
        """Take the machine's cable out."""
        self.switch.CutOff(node.name)

    def Heal(self) -> None:
        self.switch.Heal()


class Site(SiteMachines, LabCluster):
    """Virtual machines."""

    # Nine sessions at once take longer in software emulation; those of some pairs must be in time.
    slow = re.compile("ssh communication with node .* ended after 30 seconds without a result")
    # Their /etc/hosts is lost with their power.
    init = ("--enabled-disk-templates", "plain,diskless", "--vg-name", GROUP, "--no-etc-hosts")

    def _Form(self) -> None:
        self._Begin()

    def First(self, node: Node) -> None:
        super().First(node)
        MakeGroup(node)

    def PowerOff(self, node: Node) -> None:
        SiteMachines.PowerOff(self, node)

    def PowerOn(self, node: Node) -> None:
        SiteMachines.PowerOn(self, node)

    def Replace(self, node: Node) -> None:
        self.PowerOff(node)
        self._MakeDisks(node.name)
        super().Replace(node)


class LightSite(SiteMachines):
    """Light machines."""

    init = ("--enabled-disk-templates", "diskless")
    # The kernel is this machine's.
    lack = re.compile("/proc/sysrq-trigger is missing")

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        say: Callable[[str], None] = lambda _: None,
        install: Callable[[Path], Path] | None = None,
    ):
        super().__init__(folder, (), say)
        self._count = count
        self._above = [(install or InstallAll)(folder / "installed"), FetchPackages()]
        self.switch = LightSwitch(folder / "layers")

    def __enter__(self) -> LightSite:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.switch)
            layers = self.switch.Lay(self._above)
            for number in range(1, self._count + 1):
                machine = LightMachine(f"node{number}", self.folder, f"{NETWORK}.{number}", self.switch, layers)
                self.nodes.append(Node(stack.enter_context(machine)))
            self._Begin()
            self._stack = stack.pop_all()
        return self

    def First(self, node: Node) -> None:
        assert isinstance(node.machine, LightMachine)
        node.machine.MakeDisk()
        super().First(node)


__all__ = ["LightSite", "Site", "SiteMachines"]
