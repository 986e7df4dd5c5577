"""What the machine gives: addresses, a bridge, directories, a guest's files, and the truth about KVM."""

from __future__ import annotations

import posixpath
import signal

from ganeti import runtime
from ganeti.hypervisor.kvm import probe
from ganeti.tools import miniguest
from ganeti.tools.quickstart.place import NODED_PORT, Networks, Place
from ganeti.tools.quickstart.progress import QuickstartError

QEMU = "/usr/bin/qemu-system-x86_64"
KVM_DEVICE = "/dev/kvm"
VHOST_DEVICE = "/dev/vhost-net"
_COMMAND_SECONDS = 30.0
_PROBE_SECONDS = {"kvm": 12.0, "tcg": 60.0}
_LOOK_SECONDS = 0.1
_SERIAL_LIMIT = 16 * 1024 * 1024


def FindPlace(base: str, count: int) -> Place:
    """A network of 127.0.0.0/8 on which nobody listens at the nodes' port."""
    for network in Networks(base):
        place = Place(base, count, network)
        if all(_IsFree(place.Address(node)) for node in place.nodes):
            return place
    raise QuickstartError("No free network of 127.0.0.0/8 was found; are many clusters running on this machine?")


def _IsFree(address: str) -> bool:
    try:
        runtime.ListenTcp(address, NODED_PORT).close()
    except OSError:
        return False
    return True


def MakeDirectories(place: Place) -> None:
    """Root directories of the nodes, the directory they share, and the hosts file beside them."""
    runtime.MakeDirs(place.shared, mode=0o750)
    runtime.WriteFile(f"{place.base}/hosts", place.Hosts(), mode=0o644)
    for node in place.nodes:
        root = place.Root(node)
        for name in ("etc/default", "etc/ganeti", "var/lock", "var/lib/ganeti", "var/log/ganeti", "var/run/ganeti"):
            runtime.MakeDirs(posixpath.join(root, name))
        runtime.WriteFile(f"{root}/etc/default/ganeti", place.Defaults(node), mode=0o644)
        runtime.WriteFile(f"{root}/etc/ganeti/file-storage-paths", place.shared + "\n", mode=0o644)


def MakeBridge(name: str) -> None:
    """A bridge without an address: guests see each other and nothing else."""
    for argv in (["ip", "link", "add", name, "type", "bridge"], ["ip", "link", "set", name, "up"]):
        if argv[2] == "add" and runtime.IsDir(f"/sys/class/net/{name}/bridge"):
            continue
        result = runtime.RunCmd(argv, timeout=_COMMAND_SECONDS)
        if result.failed:
            raise QuickstartError(
                f"No bridge can be made here ({result.fail_reason}); are you root of the whole machine?"
            )


def PrepareGuest(place: Place, init_path: str) -> None:
    miniguest.Prepare(place.guest_files, init_path)


def BuildProbe(place: Place, accel: str, serial: str) -> list[str]:
    """A guest that boots the kernel and says so in the file ``serial``."""
    argv = [QEMU, "-accel", accel, "-m", "128", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-kernel", f"{place.guest_files}/{miniguest.KERNEL_FILE}"]
    argv += ["-initrd", f"{place.guest_files}/{miniguest.INITRD_FILE}"]
    return [*argv, "-append", "console=ttyS0 quiet mini.name=probe", "-serial", f"file:{serial}"]


def GuestBoots(place: Place, accel: str) -> bool:
    """Whether a real guest gets as far as its first program with this accelerator."""
    serial = f"{place.base}/probe-{accel}"
    runtime.RemoveFile(serial)
    pid = runtime.StartProcess(BuildProbe(place, accel, serial), log_path=f"{place.base}/quickstart.log")
    deadline = runtime.Monotonic() + _PROBE_SECONDS[accel]
    try:
        while runtime.Monotonic() < deadline and runtime.ProcessAlive(pid):
            if runtime.Exists(serial) and b"boot-id=" in runtime.ReadFile(serial, limit=_SERIAL_LIMIT):
                return True
            runtime.Sleep(_LOOK_SECONDS)
        return False
    finally:
        runtime.KillProcess(pid, signal.SIGKILL)
        runtime.WaitProcess(pid, _COMMAND_SECONDS)
        runtime.RemoveFile(serial)


def PickAccelerator(place: Place) -> str:
    """``kvm`` where a guest really boots with it, else ``tcg``: the device's file proves nothing."""
    # The boot sector is quick to say no; only a whole system says yes.
    if runtime.Exists(KVM_DEVICE) and probe.Run(QEMU, "kvm", place.base) and GuestBoots(place, "kvm"):
        return "kvm"
    if not GuestBoots(place, "tcg"):
        raise QuickstartError(f"A guest does not even boot in software emulation; see {place.base}/quickstart.log")
    return "tcg"
