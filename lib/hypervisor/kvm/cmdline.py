"""The command line of a guest: pure functions, facts in, arguments out.

It has two parts.  The *saved* part is what the guest sees of its machine; it stands in the runtime file, travels
with a migration and outlives changes of the configuration.  The *local* part belongs to this node and this start:
files and sockets, who it runs as, the screen, what it waits for.  Disks and NICs come from ``devices``.
"""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import errors, objects
from ganeti.hypervisor.kvm import display
from ganeti.hypervisor.kvm.caps import Capabilities
from ganeti.hypervisor.kvm.options import Opt

ACCEL_KVM = "kvm"
ACCEL_TCG = "tcg"

_RUN_WITH_USER = (9, 1, 0)
_AUDIO_OPTION = (7, 1, 0)


@dataclasses.dataclass(frozen=True)
class LocalFacts:
    """The facts that a start on this node needs besides the configuration."""

    pid_file: str
    qmp_socket: str
    look_socket: str
    log_file: str
    serial_socket: str | None = None
    agent_socket: str | None = None
    user: str | None = None
    chroot: str | None = None
    incoming: str | None = None
    screen: Sequence[str] = ()  # from display


def BuildSaved(
    instance: objects.Instance, caps: Capabilities, accel: str, machine_type: str | None = None
) -> list[str]:
    """Return the saved part; the first word is the program.

    ``machine_type``: what the guest has already, when it is not being started anew.
    """
    hvp, bep = instance.hvparams, instance.beparams
    argv = [hvp["kvm_path"], "-name", instance.name, "-uuid", instance.uuid]
    argv += ["-m", str(bep["maxmem"]), "-smp", BuildSmp(int(bep["vcpus"]), hvp)]
    machine = {"accel": accel, "acpi": None if hvp["acpi"] else "off"}
    argv += ["-machine", (machine_type or caps.Machine(hvp["machine_version"])) + "," + Opt("", machine)]
    if hvp["cpu_type"]:
        argv += ["-cpu", hvp["cpu_type"]]
    argv += ["-device", Opt("virtio-balloon", {"id": "balloon"})]
    if hvp["reboot_behavior"] == "exit":
        argv.append("-no-reboot")
    argv += BuildKernel(hvp)
    if hvp["mem_path"]:
        argv += ["-mem-path", hvp["mem_path"], "-mem-prealloc"]
    if hvp["use_localtime"]:
        argv += ["-rtc", "base=localtime"]
    argv += BuildUsb(hvp)
    argv += BuildSound(hvp["soundhw"], caps)
    argv += ["-vga", hvp["vga"]] if hvp["vga"] else (["-vga", "qxl"] if hvp["spice_bind"] else [])
    argv += ["-serial", "chardev:serial0" if hvp["serial_console"] else "none"]
    argv += BuildChannels(hvp)
    if hvp["disk_type"].startswith("scsi"):
        argv += ["-device", Opt(hvp["scsi_controller_type"], {"id": "scsi"})]
    if hvp["user_shutdown"]:
        # The process stays when the guest powers itself off, so that this can be told from a crash.
        argv.append("-no-shutdown")
    try:
        argv += shlex.split(hvp["kvm_extra"])
    except ValueError as err:
        raise errors.HypervisorError(f"Hypervisor parameter kvm_extra cannot be split into words: {err}") from err
    return argv


def BuildSmp(vcpus: int, hvp: Mapping[str, Any]) -> str:
    keys = ("cores", "threads", "sockets")
    return Opt(str(vcpus), {key: hvp[f"cpu_{key}"] or None for key in keys})


def BuildKernel(hvp: Mapping[str, Any]) -> list[str]:
    """Direct boot of a kernel of the node, if one is named."""
    if not hvp["kernel_path"]:
        return []
    words = [f"root={hvp['root_path']}", hvp["kernel_args"]]
    if hvp["serial_console"]:
        words.append(f"console=ttyS0,{hvp['serial_speed']}")
    argv = ["-kernel", hvp["kernel_path"]]
    if hvp["initrd_path"]:
        argv += ["-initrd", hvp["initrd_path"]]
    return [*argv, "-append", " ".join(word for word in words if word)]


def BuildUsb(hvp: Mapping[str, Any]) -> list[str]:
    """Return a mouse or tablet (by default with VNC: its pointer stays where the viewer's is), and further devices."""
    mouse = hvp["usb_mouse"] or ("tablet" if hvp["vnc_bind_address"] else "")
    others = [name.strip() for name in hvp["usb_devices"].split(",") if name.strip()]
    argv = ["-usb"] if mouse or others else []
    if mouse:
        argv += ["-device", f"usb-{mouse}"]
    for device in others:
        argv += ["-usbdevice", device]
    return argv


def BuildSound(soundhw: str, caps: Capabilities) -> list[str]:
    if not soundhw:
        return []
    if caps.version >= _AUDIO_OPTION:
        return ["-audio", Opt("driver=none", {"model": soundhw})]
    return ["-soundhw", soundhw]


def BuildChannels(hvp: Mapping[str, Any]) -> list[str]:
    """Serial channels to helpers inside the guest; their far ends are in the local part."""
    ports = []
    if hvp["use_guest_agent"]:
        ports.append({"chardev": "agent", "name": "org.qemu.guest_agent.0"})
    if hvp["spice_bind"] and hvp["spice_use_vdagent"]:
        ports.append({"chardev": "spicechannel0", "name": "com.redhat.spice.0"})
    argv = ["-device", Opt("virtio-serial-pci", {"id": "channels"})] if ports else []
    for port in ports:
        argv += ["-device", Opt("virtserialport", port)]
    return argv


def BuildLocal(hvp: Mapping[str, Any], caps: Capabilities, facts: LocalFacts) -> list[str]:
    """Return the local part.  A guest starts paused (``-S``) until it is resumed; one that arrives keeps its state."""
    argv = ["-daemonize", "-pidfile", facts.pid_file, "-D", facts.log_file, "-monitor", "none"]
    if not facts.incoming:
        argv.append("-S")
    for ident, path in (("qmp", facts.qmp_socket), ("look", facts.look_socket)):
        argv += ["-chardev", _ServerSocket(ident, path), "-mon", f"chardev={ident},mode=control"]
    if facts.serial_socket:
        argv += ["-chardev", _ServerSocket("serial0", facts.serial_socket)]
    if facts.agent_socket:
        argv += ["-chardev", _ServerSocket("agent", facts.agent_socket)]
    if hvp["spice_bind"] and hvp["spice_use_vdagent"]:
        argv += ["-chardev", Opt("spicevmc", {"id": "spicechannel0", "name": "vdagent"})]
    argv += facts.screen or ["-display", "none"]
    if hvp["keymap"]:
        argv += ["-k", hvp["keymap"]]
    argv += BuildConfinement(caps, facts.user, facts.chroot)
    if facts.incoming:
        argv += ["-incoming", facts.incoming]
    return argv


def BuildConfinement(caps: Capabilities, user: str | None, chroot: str | None) -> list[str]:
    """Another user and root directory, taken on once everything is opened."""
    modern: dict[str, Any] = {}
    argv: list[str] = []
    if chroot:
        if caps.HasOption("run-with", "chroot"):
            modern["chroot"] = chroot
        else:
            argv += ["-chroot", chroot]
    if user:
        if caps.HasOption("run-with", "user") or caps.version >= _RUN_WITH_USER:
            modern["user"] = user
        else:
            argv += ["-runas", user]
    return argv + (["-run-with", Opt("", modern)] if modern else [])


def BuildScreen(instance: objects.Instance, caps: Capabilities, address: display.BindAddress | None) -> list[str]:
    """VNC or SPICE, or nothing."""
    hvp = instance.hvparams
    if hvp["vnc_bind_address"] and address is not None:
        return display.BuildVnc(instance.name, hvp, instance.network_port, address)
    if hvp["spice_bind"] and address is not None:
        if not caps.has_spice:
            raise errors.HypervisorError(
                f"Instance {instance.name}: this QEMU has no SPICE; install it (Debian: qemu-system-modules-spice) "
                "or set spice_bind to the empty value"
            )
        return display.BuildSpice(hvp, instance.network_port, address)
    return []


def _ServerSocket(ident: str, path: str) -> str:
    return Opt("socket", {"id": ident, "path": path, "server": True, "wait": False})


def FindOption(argv: Sequence[str], option: str) -> str | None:
    """Return the argument of the last ``option`` in a command line; None when it is not there."""
    found = None
    for word, argument in itertools.pairwise(argv):
        if word == option:
            found = argument
    return found
