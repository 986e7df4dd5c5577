"""What a guest was started with: the runtime file, which is also what a migration carries.

JSON: [command line, NICs, hypervisor parameters, [[disk, link, uri], ...]], as release 3.1 writes it; NICs and disks
carry their ``hvinfo``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ganeti import errors, objects, runtime, serializer
from ganeti.hypervisor.base import GuestDisk
from ganeti.hypervisor.kvm import layout
from ganeti.hypervisor.kvm.cmdline import FindOption
from ganeti.objects import origin

_LIMIT = 4 * 1024 * 1024

# Parameters that concern the outside of a guest: today's value counts, not the one it was started with.
_OUTSIDE_PREFIXES = ("security_", "migration_", "vnc_")
_OUTSIDE = frozenset(
    ["use_chroot", "keymap", "kvm_path", "cpu_mask", "disk_aio", "spice_ip_version", "spice_password_file"]
    + ["spice_use_tls", "spice_tls_ciphers", "spice_image_compression", "spice_jpeg_wan_compression"]
    + ["spice_zlib_glz_wan_compression", "spice_streaming_video", "spice_playback_compression"]
)


@dataclasses.dataclass(frozen=True)
class RunFile:
    """``command`` is the saved part of the command line; its first word is the program."""

    command: tuple[str, ...]
    nics: tuple[objects.NIC, ...]
    hvparams: Mapping[str, Any]
    disks: tuple[GuestDisk, ...]

    def Text(self) -> str:
        """Return what the file holds: only keys that the original knows, which could not read it after a way back."""
        nics = [origin.Strip(objects.NIC, nic.ToDict(runtime=True)) for nic in self.nics]
        disks = [
            [origin.Strip(objects.Disk, entry.disk.ToDict(runtime=True)), entry.path, entry.uri] for entry in self.disks
        ]
        return serializer.Dump([list(self.command), nics, dict(self.hvparams), disks])

    def Effective(self, current: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters for another start: what the guest sees stays, everything else is as configured now."""
        kept = {name: value for name, value in self.hvparams.items() if not IsOutside(name)}
        return {**current, **kept}

    @property
    def is_of_another_release(self) -> bool:
        """Return whether another release started the guest: those save what belongs to the node as well."""
        return "-daemonize" in self.command

    @property
    def machine(self) -> str:
        return FindOption(self.command, "-machine") or FindOption(self.command, "-M") or ""


def IsOutside(name: str) -> bool:
    return name in _OUTSIDE or name.startswith(_OUTSIDE_PREFIXES)


def Parse(text: str, where: str) -> RunFile:
    """Parse a runtime file; raise a HypervisorError that names ``where`` if anything is wrong."""
    try:
        value = serializer.Load(text, limit=_LIMIT)
        command, nics, hvparams, *rest = value
        disks = rest[0] if rest else []
        if not command or not all(isinstance(word, str) for word in command) or not isinstance(hvparams, dict):
            raise ValueError("a command line or the parameters are missing")
        return RunFile(
            tuple(command),
            tuple(objects.NIC.FromDict(nic, runtime=True) for nic in nics),
            hvparams,
            tuple(GuestDisk(objects.Disk.FromDict(disk, runtime=True), path, uri) for disk, path, uri in disks),
        )
    except (TypeError, ValueError, errors.GenericError) as err:
        raise errors.HypervisorError(f"{where} cannot be read: {err}") from err


def Load(name: str) -> RunFile:
    path = layout.RuntimeFile(name)
    try:
        return Parse(runtime.ReadText(path, limit=_LIMIT), f"Runtime file {path} of instance {name}")
    except (OSError, UnicodeDecodeError) as err:
        raise errors.HypervisorError(
            f"Instance {name}: its runtime file {path} cannot be read ({err}); stop and start the instance"
        ) from err


def Save(name: str, content: RunFile) -> None:
    runtime.WriteFile(layout.RuntimeFile(name), content.Text(), mode=0o600, sync=False)
