"""Does this node have what hypervisor parameters name?  The parameters' table says what to look for."""

from __future__ import annotations

import pwd
import stat
from collections.abc import Mapping
from typing import Any

from ganeti import runtime
from ganeti.params import checks, hv, types


def Problems(hypervisor: str, values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong on this node with a filled set of parameters."""
    found = []
    for name, kind, value in hv.NodeChecks(hypervisor, values):
        problem = _Problem(kind, str(value))
        if problem:
            found.append(f"Parameter '{name}' fails validation: {problem}")
    return found


def _Problem(kind: str, value: str) -> str | None:
    if kind == types.NODE_USER:
        try:
            pwd.getpwnam(value)
        except KeyError:
            return f"user '{value}' does not exist on this node; create it"
        return None
    if kind == types.NODE_FILE_OR_URL and checks.IsUrl(value):
        return None
    try:
        mode = runtime.Stat(value).st_mode
    except OSError as err:
        return f"'{value}' cannot be used on this node: {err.strerror}"
    if kind == types.NODE_DIR:
        return None if stat.S_ISDIR(mode) else f"'{value}' is not a directory"
    if stat.S_ISREG(mode) or (kind != types.NODE_FILE and stat.S_ISBLK(mode)):
        return None
    return f"'{value}' is not a regular file"
