"""VNC and SPICE on a node: which address, which password."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ganeti import errors, objects, runtime
from ganeti.hypervisor.kvm import cmdline, display, qmp
from ganeti.hypervisor.kvm.caps import Capabilities

_SECONDS = 30.0
_PASSWORD_LIMIT = 4096
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - recognised, not bound


def BuildAddresses(interface: str) -> list[str]:
    return ["ip", "-j", "address", "show", "dev", interface]


def ParseAddresses(text: str) -> list[str]:
    """Return the addresses in the answer to ``BuildAddresses``."""
    try:
        return [info["local"] for link in json.loads(text) for info in link.get("addr_info", ()) if "local" in info]
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise errors.HypervisorError(f"The answer of 'ip address' is not understood: {err}") from err


def Resolve(hvp: Mapping[str, Any]) -> display.BindAddress | None:
    """Return where the screen of these parameters listens on this node; None if it has none."""
    wanted = hvp["vnc_bind_address"] or hvp["spice_bind"]
    if not wanted:
        return None
    known = display.ParseBind(wanted)
    if known is not None:
        return known
    result = runtime.RunCmd(BuildAddresses(wanted), timeout=_SECONDS)
    if result.failed:
        raise errors.HypervisorError(
            f"'{wanted}' is neither an address nor an interface of this node ({result.stderr.strip()})"
        )
    family = 4 if hvp["vnc_bind_address"] else int(hvp["spice_ip_version"])
    return display.PickAddress(wanted, ParseAddresses(result.stdout), family)


def Build(instance: objects.Instance, known: Capabilities) -> list[str]:
    return cmdline.BuildScreen(instance, known, Resolve(instance.hvparams))


def HostToShow(address: display.BindAddress | None, node_name: str) -> str:
    """Return where a viewer connects to: the address itself if it is one, else the node."""
    return node_name if address is None or address.text in _EVERYWHERE or not address.family else address.text


def SetPasswords(monitor: qmp.Monitor, hvp: Mapping[str, Any]) -> None:
    """Send QEMU the passwords, which never appear in a command line."""
    for protocol, bind, file in (
        ("vnc", "vnc_bind_address", "vnc_password_file"),
        ("spice", "spice_bind", "spice_password_file"),
    ):
        if hvp[bind] and hvp[file]:
            monitor.Execute("set_password", {"protocol": protocol, "password": ReadPassword(hvp[file])})


def ReadPassword(path: str) -> str:
    """Return the first line of a password file."""
    try:
        text = runtime.ReadText(path, limit=_PASSWORD_LIMIT)
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "it is not text"
        raise errors.HypervisorError(f"Password file {path} cannot be read: {reason}") from err
    line = (text.splitlines() or [""])[0]
    if not line:
        raise errors.HypervisorError(f"Password file {path} has no password in its first line")
    return line
