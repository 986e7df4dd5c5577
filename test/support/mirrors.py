"""Mirrors as a master sends them to one of their two nodes."""

from __future__ import annotations

from typing import Any

from ganeti import constants, objects
from ganeti.params.disk import TEMPLATES
from support.virtual import MakeDisk

SECRET = "0123456789abcdef0123"
PORT = 11000
META_MIB = 128


def MakeMirror(
    local: str,
    remote: str,
    minor: int = 0,
    remote_minor: int = 0,
    name: str = "one",
    peer: str | None = constants.PEER_COUNTS,
    size: int = 64,
    port: int | None = PORT,
    decision: int | None = None,
    **params: Any,
) -> objects.Disk:
    """Return the disk for the node with the address ``local``; ``params``: of the device, beside the defaults."""
    template = TEMPLATES[constants.DT_DRBD8]
    values = {own: template.defaults[key] for own, key in template.layers[0].items()}
    children = [
        MakeDisk(constants.DT_PLAIN, ["vg", f"{name}_{part}"], mib, params={"stripes": 1})
        for part, mib in (("data", size), ("meta", META_MIB))
    ]
    dynamic = {"local-ip": local, "remote-ip": remote, "local-minor": minor, "remote-minor": remote_minor}
    if peer is not None:
        dynamic[constants.PEER] = peer
    if decision is not None:
        dynamic[constants.DECISION] = decision
    identity = ["node a", "node b", port, minor, remote_minor, SECRET]
    return MakeDisk(
        constants.DT_DRBD8, identity, size, children, params={**values, **params}, dynamic_params=dynamic
    )  # fmt: skip
