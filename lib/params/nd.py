"""Node parameters (doc/reference/parameters.md 4), and what is recorded of nodes (7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti.params import checks, disk
from ganeti.params.types import (
    BOOL,
    FLOAT,
    INT,
    MAYBE_STRING,
    STRING,
    Between,
    Check,
    Defaults,
    MakeTable,
    Param,
    ValueProblems,
)

ND_OOB_PROGRAM = "oob_program"
ND_SPINDLE_COUNT = "spindle_count"
ND_EXCLUSIVE_STORAGE = "exclusive_storage"
ND_OVS = "ovs"
ND_OVS_NAME = "ovs_name"
ND_OVS_LINK = "ovs_link"
ND_SSH_PORT = "ssh_port"
ND_CPU_SPEED = "cpu_speed"

TABLE = MakeTable(
    Param(ND_OOB_PROGRAM, STRING, "", "out-of-band helper on the master", checks.PATH, "2.4"),
    Param(ND_SPINDLE_COUNT, INT, 1, "spindles of the node", None, "2.6"),
    Param(ND_EXCLUSIVE_STORAGE, BOOL, False, "one physical volume per logical volume", None, "2.7", is_global=True),
    Param(ND_OVS, BOOL, False, "set up Open vSwitch on the node", None, "2.10"),
    Param(ND_OVS_NAME, MAYBE_STRING, "switch1", "name of the switch", None, "2.10"),
    Param(ND_OVS_LINK, MAYBE_STRING, "", "physical interface of the switch", None, "2.10"),
    Param(ND_SSH_PORT, INT, 22, "port of the SSH daemon", Between(1, 65535), "2.11", required=True),
    Param(
        ND_CPU_SPEED,
        FLOAT,
        1.0,
        "speed relative to other nodes, for balancing",
        Check("more than 0", lambda value: value > 0),
        "2.12",
        required=True,
    ),
)
DEFAULTS: dict[str, Any] = Defaults(TABLE)
GLOBALS = frozenset(name for name, param in TABLE.items() if param.is_global)

HV_STATE_TABLE = MakeTable(
    Param("cpu_node", INT, 1, "CPUs the node keeps", None, "2.6"),
    Param("cpu_total", INT, 1, "CPUs in all", None, "2.6"),
    Param("mem_hv", INT, 0, "MiB of the hypervisor", None, "2.6"),
    Param("mem_node", INT, 0, "MiB the node keeps", None, "2.6"),
    Param("mem_total", INT, 0, "MiB in all", None, "2.6"),
)
HV_STATE_DEFAULTS: dict[str, Any] = Defaults(HV_STATE_TABLE)

DISK_STATE_TABLE = MakeTable(
    Param("disk_overhead", INT, 0, "MiB that other volumes take", None, "2.6"),
    Param("disk_reserved", INT, 0, "MiB not for instances", None, "2.6"),
    Param("disk_total", INT, 0, "MiB in all", None, "2.6"),
)
DISK_STATE_DEFAULTS: dict[str, Any] = Defaults(DISK_STATE_TABLE)
DISK_STATE_TYPES = tuple(sorted(disk.With(disk_state=True)))


def SyntaxProblems(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with values of the right types."""
    return ValueProblems(values, TABLE, "node parameter")


def GlobalProblems(values: Iterable[str], where: str) -> list[str]:
    """Return the names that cannot be set on a single node, as a problem; ``where`` names the node."""
    found = sorted(GLOBALS.intersection(values))
    if not found:
        return []
    return [
        f"Node parameters of {where} cannot contain: {', '.join(found)}; set them for its node group or for the cluster"
    ]
