"""The cluster, made by the commands an administrator types."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti import _autoconf, runtime
from quickstart import console, machine
from quickstart.place import CLUSTER, Place
from quickstart.progress import QuickstartError

_COMMAND_SECONDS = 300.0
_BOOT_SECONDS = 120.0
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHOWN_LINES = 12


class Cluster:
    """Runs commands on the nodes of one place."""

    def __init__(self, place: Place, hypervisor: str, accel: str):
        self.place = place
        self.hypervisor = hypervisor
        self.accel = accel

    def Run(self, node: str, argv: Sequence[str], stdin: str | None = None) -> str:
        """Run a command on a node and return its standard output; the log gets a copy."""
        env = self.place.Environment(node, f"{_autoconf.SBIN_DIR}:{_SYSTEM_PATH}")
        result = runtime.RunCmd(argv, env=env, stdin=stdin, timeout=_COMMAND_SECONDS)
        shown = " ".join(runtime.ShellQuote(word) for word in argv)
        self._Log(f"[{node}] {shown}\n{result.output if 'show-join-data' not in argv else '(secret)'}")
        if result.failed:
            lines = (result.stderr.strip() or result.stdout.strip()).splitlines()[-_SHOWN_LINES:]
            raise QuickstartError(
                f"On {node}: {shown}\n" + "\n".join(f"    {line}" for line in lines or ["(no output)"])
            )
        return result.stdout

    def OnMaster(self, *argv: str) -> str:
        return self.Run(self.place.nodes[0], argv)

    def _Log(self, text: str) -> None:
        path = f"{self.place.base}/quickstart.log"
        runtime.RunCmd(["cat"], stdin=text + "\n", output_path=path)

    # --- steps --------------------------------------------------------------------------------------------------------

    def Init(self) -> None:
        self.OnMaster(*InitCommand(self.place, self.hypervisor, self.accel))

    def AddNode(self, node: str) -> None:
        """Give the node the cluster's keys, then add it; without SSH."""
        data = self.OnMaster("gnt-node", "show-join-data", node)
        self.Run(node, [f"{_autoconf.PKGLIB_DIR}/ensure-dirs"])
        self.Run(node, [f"{_autoconf.PKGLIB_DIR}/node-daemon-setup"], stdin=data)
        self.OnMaster("gnt-node", "add", "--no-node-setup", node)

    def AddInstance(self, number: int) -> None:
        self.OnMaster(*AddCommand(self.place, self.hypervisor, number))

    def StartInstance(self, number: int) -> None:
        self.OnMaster("gnt-instance", "startup", self.place.Instance(number))

    def Ask(self, number: int) -> console.Answer:
        """Return the answer of the guest on its serial console, reached as gnt-instance console would."""
        command = self.OnMaster("gnt-instance", "console", "--show-cmd", self.place.Instance(number))
        return console.Ask(console.SocketOf(command), _BOOT_SECONDS)

    def Migrate(self, number: int, target: str) -> None:
        self.OnMaster("gnt-instance", "migrate", "-f", "-n", target, self.place.Instance(number))

    def PrimaryOf(self, number: int) -> str:
        fields = ["gnt-instance", "list", "--no-headers", "-o", "pnode", self.place.Instance(number)]
        return self.OnMaster(*fields).strip()

    def Verify(self) -> None:
        """Check the whole cluster; a new one has neither errors nor warnings."""
        output = self.OnMaster("gnt-cluster", "verify")
        found = [line for line in output.splitlines() if "ERROR" in line or "WARNING" in line]
        if found:
            raise QuickstartError("gnt-cluster verify reports:\n" + "\n".join(f"    {line}" for line in found))

    def Tables(self) -> str:
        nodes = self.OnMaster("gnt-node", "list", "-o", "name,role,pip,pinst_cnt,mfree")
        instances = self.OnMaster("gnt-instance", "list", "-o", "name,hypervisor,os,pnode,status,be/maxmem,disk.sizes")
        return f"{nodes}\n{instances}"


def InitCommand(place: Place, hypervisor: str, accel: str) -> list[str]:
    argv = ["gnt-cluster", "init", "--enabled-hypervisors", hypervisor]
    argv += ["--enabled-disk-templates", "sharedfile,diskless", "--shared-file-storage-dir", place.shared]
    argv += ["--no-etc-hosts", "--no-ssh-init", "--master-netdev", "lo"]
    argv += ["--default-iallocator", "hail"]
    argv += ["--nic-parameters", f"mode=bridged,link={place.bridge}"]
    if hypervisor == "kvm":
        values = {
            "kvm_path": machine.QEMU,
            "kvm_flag": "enabled" if accel == "kvm" else "disabled",
            "kernel_path": "",
            "serial_speed": "115200",
            "vhost_net": str(runtime.Exists(machine.VHOST_DEVICE)).lower(),
            # Emulated guests touch their memory faster than 30 ms of downtime allow for.
            "migration_downtime": "300",
        }
        argv += ["--hypervisor-parameters", "kvm:" + ",".join(f"{key}={value}" for key, value in values.items())]
    return [*argv, CLUSTER]


def AddCommand(place: Place, hypervisor: str, number: int) -> list[str]:
    """Return the command that adds a guest with a bootable disk; with the fake hypervisor it has none."""
    argv = ["gnt-instance", "add", "-n", place.NodeOf(number), "-o", "mini", "-B", "memory=128,vcpus=1"]
    argv += ["--net", f"0:link={place.bridge}"]
    if hypervisor == "kvm":
        argv += ["-t", "sharedfile", "--disk", "0:size=1g", "-O", f"files={place.guest_files}"]
    else:
        argv += ["-t", "diskless", "--no-install"]
    return [*argv, place.Instance(number)]
