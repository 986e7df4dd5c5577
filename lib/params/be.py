"""Backend parameters: neutral to the hypervisor (doc/reference/parameters.md 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants
from ganeti.params.types import BOOL, INT, SIZE, AtLeast, Defaults, MakeTable, Param, ValueProblems

BE_MEMORY = "memory"
BE_MINMEM = "minmem"
BE_MAXMEM = "maxmem"
BE_VCPUS = "vcpus"
BE_AUTO_BALANCE = "auto_balance"
BE_ALWAYS_FAILOVER = "always_failover"
BE_SPINDLE_USE = "spindle_use"

TABLE = MakeTable(
    Param(BE_MINMEM, SIZE, 128, "MiB that must be free to start and that ballooning leaves", AtLeast(1), required=True),
    Param(BE_MAXMEM, SIZE, 128, "MiB wanted", AtLeast(1), required=True),
    Param(BE_VCPUS, INT, 1, "virtual CPUs", AtLeast(1), required=True),
    Param(BE_AUTO_BALANCE, BOOL, True, "counted in N+1 checks, moved by balancing"),
    Param(BE_ALWAYS_FAILOVER, BOOL, False, "fail over where a migration is asked for", since="2.7"),
    Param(BE_SPINDLE_USE, INT, 1, "spindles counted by allocation", AtLeast(0), since="2.6"),
)
# What requests may name besides: sets both limits.
INPUT_TABLE = {**TABLE, BE_MEMORY: Param(BE_MEMORY, SIZE, None, "sets minmem and maxmem", AtLeast(1))}

DEFAULTS: dict[str, Any] = Defaults(TABLE)
BES_PARAMETERS = frozenset(TABLE)
PP_DEFAULT = constants.PP_DEFAULT


def UpgradeMemory(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` with the old name ``memory`` turned into minmem and maxmem, where these are not given."""
    result = dict(values)
    if BE_MEMORY in result:
        memory = result.pop(BE_MEMORY)
        result.setdefault(BE_MAXMEM, memory)
        result.setdefault(BE_MINMEM, memory)
    return result


def SyntaxProblems(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with values of the right types."""
    return ValueProblems(values, TABLE, "backend parameter")
