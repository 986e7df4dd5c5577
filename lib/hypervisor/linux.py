"""Memory and processors of this machine (doc/reference/drivers.md b.1, node info)."""

from __future__ import annotations

import re
from typing import Any

from ganeti import errors, runtime

_LIMIT = 4 * 1024 * 1024
_MEMORY_LINE = re.compile(r"^(\w+(?:\(\w+\))?):\s+(\d+)(?: kB)?$")
_PROCESSOR_LINE = re.compile(r"^processor\s*:\s*\d+$", re.MULTILINE)


def ParseMemory(text: str) -> dict[str, int]:
    """MiB per name of a /proc/meminfo."""
    values = {}
    for line in text.splitlines():
        found = _MEMORY_LINE.match(line.strip())
        if found:
            values[found[1]] = int(found[2]) // 1024
    return values


def ParseProcessors(text: str) -> int:
    """Return how many processors a /proc/cpuinfo lists."""
    return len(_PROCESSOR_LINE.findall(text))


def MakeNodeInfo(meminfo: str, cpuinfo: str) -> dict[str, Any]:
    memory, cpus = ParseMemory(meminfo), ParseProcessors(cpuinfo)
    try:
        free = memory["MemFree"] + memory["Buffers"] + memory["Cached"]
        return {
            "memory_total": memory["MemTotal"],
            "memory_free": free,
            "memory_dom0": memory["Active"],
            "cpu_total": cpus,
            "cpu_dom0": cpus,
            "cpu_nodes": 1,
            "cpu_sockets": 1,
        }
    except KeyError as err:
        raise errors.HypervisorError(f"/proc/meminfo of this node has no line {err.args[0]}") from err


def NodeInfo() -> dict[str, Any]:
    try:
        return MakeNodeInfo(
            runtime.ReadText("/proc/meminfo", limit=_LIMIT), runtime.ReadText("/proc/cpuinfo", limit=_LIMIT)
        )
    except OSError as err:
        raise errors.HypervisorError(f"Cannot read memory and processors of this node: {err}") from err
