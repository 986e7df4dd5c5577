"""Screens of a guest: VNC and SPICE arguments (doc/reference/drivers.md b.3); pure."""

from __future__ import annotations

import dataclasses
import ipaddress
import posixpath
from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors, pathutils
from ganeti.hypervisor.kvm.options import Opt


@dataclasses.dataclass(frozen=True)
class BindAddress:
    """Where a screen listens: an IP address (``family`` 4 or 6, 0 for a directory) or a directory for sockets."""

    text: str
    family: int
    from_interface: bool = False


def ParseBind(value: str) -> BindAddress | None:
    """Return the address or directory that a parameter names; None when it must be an interface."""
    if posixpath.isabs(value):
        return BindAddress(value, 0)
    try:
        return BindAddress(value, ipaddress.ip_address(value).version)
    except ValueError:
        return None


def PickAddress(interface: str, addresses: list[str], family: int) -> BindAddress:
    """Return the address of an interface that a screen listens on.

    ``family`` 4 or 6: the first of it; 0: there must be only one family to choose from, IPv4 winning.
    """
    parsed = [ipaddress.ip_address(text) for text in addresses]
    wanted = [ip for ip in parsed if not ip.is_link_local and (not family or ip.version == family)]
    wanted.sort(key=lambda ip: ip.version)
    if not wanted:
        kind = f"IPv{family} " if family else ""
        raise errors.HypervisorError(f"Interface {interface} has no {kind}address to listen on; give it one")
    return BindAddress(str(wanted[0]), wanted[0].version, from_interface=True)


def BuildVnc(name: str, hvp: Mapping[str, Any], port: int | None, address: BindAddress) -> list[str]:
    """Return ``-vnc`` and its certificates; nothing when the instance has no usable port."""
    extra: dict[str, Any] = {}
    argv: list[str] = []
    if address.family == 0:
        head = f"unix:{posixpath.join(address.text, name)}.vnc"
    else:
        if port is None or port <= constants.VNC_BASE_PORT:
            return ["-display", "none"]
        host = f"[{address.text}]" if address.family == 6 else address.text
        head = f"{'' if address.text == '0.0.0.0' else host}:{port - constants.VNC_BASE_PORT}"  # noqa: S104
    if hvp["vnc_tls"]:
        argv += ["-object", _VncCredentials(hvp)]
        extra["tls-creds"] = "vnctls0"
    if hvp["vnc_password_file"]:
        extra["password"] = True
    return [*argv, "-vnc", Opt(head, extra)]


def _VncCredentials(hvp: Mapping[str, Any]) -> str:
    if hvp["vnc_x509_path"]:
        values = {
            "id": "vnctls0",
            "dir": hvp["vnc_x509_path"],
            "endpoint": "server",
            "verify-peer": bool(hvp["vnc_x509_verify"]),
        }
        return Opt("tls-creds-x509", values)
    return Opt("tls-creds-anon", {"id": "vnctls0", "endpoint": "server"})


def BuildSpice(hvp: Mapping[str, Any], port: int | None, address: BindAddress) -> list[str]:
    if port is None:
        raise errors.HypervisorError("SPICE needs a network port and the instance has none; run gnt-cluster verify")
    values: dict[str, Any] = {"addr": address.text}
    if hvp["spice_use_tls"]:
        values["tls-port"] = port
        values["x509-cacert-file"] = pathutils.SPICE_CACERT_FILE
        values["x509-key-file"] = pathutils.SPICE_CERT_FILE
        values["x509-cert-file"] = pathutils.SPICE_CERT_FILE
        values["tls-ciphers"] = hvp["spice_tls_ciphers"] or None
    else:
        values["port"] = port
    if not hvp["spice_password_file"]:
        values["disable-ticketing"] = True
    if address.from_interface:
        values[f"ipv{address.family}"] = True
    values["image-compression"] = hvp["spice_image_compression"] or None
    values["jpeg-wan-compression"] = hvp["spice_jpeg_wan_compression"] or None
    values["zlib-glz-wan-compression"] = hvp["spice_zlib_glz_wan_compression"] or None
    values["streaming-video"] = hvp["spice_streaming_video"] or None
    if not hvp["spice_playback_compression"]:
        values["playback-compression"] = False
    if not hvp["spice_use_vdagent"]:
        values["agent-mouse"] = False
    return ["-spice", Opt("", values), "-display", "none"]
