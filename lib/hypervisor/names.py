"""Names that become part of file names on a node."""

from __future__ import annotations

import re

from ganeti import errors

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}")


def CheckInstanceName(name: str) -> str:
    """Return ``name`` if it is safe in a path; the master checked that, but a node does not rely on it."""
    if not _SAFE.fullmatch(name) or ".." in name:
        raise errors.HypervisorError(f"Instance name {name[:80]!r} cannot be used in file names")
    return name
