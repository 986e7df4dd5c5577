"""Resources of the machine: addresses, a bridge, directories, files of the guest, and whether KVM really works."""

from __future__ import annotations

import posixpath
import signal

from ganeti import runtime
from ganeti.hypervisor.kvm import probe
from quickstart.place import NODED_PORT, RAPI_PORT, RAPI_USER, Networks, Place
from quickstart.progress import QuickstartError

QEMU = "/usr/bin/qemu-system-x86_64"
KVM_DEVICE = "/dev/kvm"
VHOST_DEVICE = "/dev/vhost-net"
_COMMAND_SECONDS = 30.0
_DOWNLOAD_SECONDS = 600.0
_PROBE_SECONDS = {"kvm": 12.0, "tcg": 60.0}
_LOOK_SECONDS = 0.1
_SERIAL_LIMIT = 16 * 1024 * 1024


def FindPlace(base: str, count: int) -> Place:
    """Return a place on a network of 127.0.0.0/8 where nothing listens at the ports of the daemons."""
    for network in Networks(base):
        place = Place(base, count, network)
        if all(_IsFree(place.Address(node)) for node in place.nodes):
            return place
    raise QuickstartError("No free network of 127.0.0.0/8 was found; are many clusters running on this machine?")


def _IsFree(address: str) -> bool:
    try:
        for port in (NODED_PORT, RAPI_PORT):
            runtime.ListenTcp(address, port).close()
    except OSError:
        return False
    return True


def MakeDirectories(place: Place) -> None:
    """Make the root directories of the nodes, the directory they share, and the hosts file beside them."""
    runtime.MakeDirs(place.shared, mode=0o750)
    runtime.WriteFile(f"{place.base}/hosts", place.Hosts(), mode=0o644)
    for node in place.nodes:
        root = place.Root(node)
        for name in ("etc/default", "etc/ganeti", "var/lock", "var/lib/ganeti", "var/log/ganeti", "var/run/ganeti"):
            runtime.MakeDirs(posixpath.join(root, name))
        runtime.WriteFile(f"{root}/etc/default/ganeti", place.Defaults(node), mode=0o644)
        runtime.WriteFile(f"{root}/etc/ganeti/file-storage-paths", place.shared + "\n", mode=0o644)


def MakeRapiUser(place: Place) -> None:
    """Give every node the same user of the REST interface; its password is for root of this machine alone."""
    password = runtime.RandomBytes(12).hex()
    runtime.WriteFile(RapiLogin(place), f'user = "{RAPI_USER}:{password}"\n', mode=0o600)
    for node in place.nodes:
        folder = f"{place.Root(node)}/var/lib/ganeti/rapi"
        runtime.MakeDirs(folder, mode=0o750)
        runtime.WriteFile(f"{folder}/users", f"{RAPI_USER} {password} write\n", mode=0o640)


def RapiLogin(place: Place) -> str:
    """The file from which curl takes name and password."""
    return f"{place.base}/curl-login"


def MakeBridge(name: str) -> None:
    """Make a bridge without an address: guests reach each other and nothing else."""
    for argv in (["ip", "link", "add", name, "type", "bridge"], ["ip", "link", "set", name, "up"]):
        if argv[2] == "add" and runtime.IsDir(f"/sys/class/net/{name}/bridge"):
            continue
        result = runtime.RunCmd(argv, timeout=_COMMAND_SECONDS)
        if result.failed:
            raise QuickstartError(
                f"A bridge could not be made ({result.fail_reason}); do you have all rights of root on this machine?"
            )


def PrepareGuest(place: Place, program: str) -> None:
    """Make the guest's kernel and ramdisk with the program of the OS definition."""
    result = runtime.RunCmd([program, place.guest_files], timeout=_DOWNLOAD_SECONDS)
    if result.failed:
        raise QuickstartError(result.stderr.strip() or result.fail_reason)


def BuildProbe(place: Place, accel: str, serial: str) -> list[str]:
    """Return the command line of a guest that boots the kernel and writes to the file ``serial``."""
    argv = [QEMU, "-accel", accel, "-m", "128", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-kernel", f"{place.guest_files}/vmlinuz"]
    argv += ["-initrd", f"{place.guest_files}/initrd.gz"]
    return [*argv, "-append", "console=ttyS0 quiet mini.name=probe", "-serial", f"file:{serial}"]


def GuestBoots(place: Place, accel: str) -> bool:
    """Whether a real guest reaches its first program with this accelerator."""
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
    """Return ``kvm`` if a guest really boots with it, else ``tcg``: the device file alone proves nothing."""
    # A boot sector fails quickly; only a whole system proves that it works.
    if runtime.Exists(KVM_DEVICE) and probe.Run(QEMU, "kvm", place.base) and GuestBoots(place, "kvm"):
        return "kvm"
    if not GuestBoots(place, "tcg"):
        raise QuickstartError(f"A guest did not boot even in software emulation; see {place.base}/quickstart.log")
    return "tcg"
