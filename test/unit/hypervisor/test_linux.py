"""What a node says of its memory and processors, from recorded files."""

from __future__ import annotations

import pytest

from ganeti import errors
from ganeti.hypervisor import linux

MEMINFO = """MemTotal:       24672144 kB
MemFree:        20971520 kB
MemAvailable:   23672144 kB
Buffers:          204800 kB
Cached:          1048576 kB
SwapCached:            0 kB
Active:          2097152 kB
Active(anon):       1024 kB
HugePages_Total:       0
"""
CPUINFO = "processor\t: 0\nmodel name\t: Some CPU\ncore id\t: 0\n\nprocessor\t: 1\nmodel name\t: processor : 3\n"


def test_recorded_machine() -> None:
    assert linux.MakeNodeInfo(MEMINFO, CPUINFO) == {
        "memory_total": 24093,
        "memory_free": 20480 + 200 + 1024,
        "memory_dom0": 2048,
        "cpu_total": 2,
        "cpu_dom0": 2,
        "cpu_nodes": 1,
        "cpu_sockets": 1,
    }


def test_missing_line_is_named() -> None:
    with pytest.raises(errors.HypervisorError, match="Buffers"):
        linux.MakeNodeInfo(MEMINFO.replace("Buffers", "Other"), CPUINFO)
