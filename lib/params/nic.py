"""NIC parameters (doc/reference/parameters.md 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ganeti import constants
from ganeti.params.types import STRING, Check, Defaults, MakeTable, OneOf, Param, ValueProblems

NIC_MODE = "mode"
NIC_LINK = "link"
NIC_VLAN = "vlan"
MODES = (constants.NIC_MODE_BRIDGED, constants.NIC_MODE_ROUTED, constants.NIC_MODE_OVS)
DEFAULT_OVS = "switch1"
MAX_VLAN = 4094

_VLAN = re.compile(r"(?:\.(\d{1,4}))?((?::\d{1,4})*)", re.ASCII)
_BARE_VLAN = re.compile(r"\d{1,4}", re.ASCII)


def _IsVlan(value: str) -> bool:
    match = _VLAN.fullmatch(value)
    if match is None:
        return False
    tags = [int(tag) for tag in re.findall(r"\d+", value)]
    return bool(tags) and all(1 <= tag <= MAX_VLAN for tag in tags)


_LINK = re.compile(r"(?!-)[!-.0-~]{0,255}", re.ASCII)


TABLE = MakeTable(
    Param(NIC_MODE, STRING, constants.NIC_MODE_BRIDGED, "how it is connected", OneOf(*MODES), "2.1", required=True),
    Param(
        NIC_LINK,
        STRING,
        constants.DEFAULT_BRIDGE,
        "bridge, routing table or switch",
        Check(
            "a name without blanks and slashes that does not begin with -",
            lambda value: _LINK.fullmatch(value) is not None,
        ),
        "2.1",
    ),
    Param(
        NIC_VLAN,
        STRING,
        "",
        "tags of an Open vSwitch port or of a bridge with VLAN filtering",
        Check(".N for access, :N:M for a trunk, .N:M for both", _IsVlan),
        "2.10",
    ),
)
DEFAULTS: dict[str, Any] = Defaults(TABLE)


def NormalizeVlan(value: str) -> str:
    """Return the stored form: a bare number is an access port."""
    return "." + value if _BARE_VLAN.fullmatch(value) else value


def SyntaxProblems(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a full set."""
    problems = ValueProblems({name: values.get(name, "") for name in TABLE}, TABLE, "NIC parameter")
    if values.get(NIC_MODE) == constants.NIC_MODE_BRIDGED and not values.get(NIC_LINK):
        problems.append(f"a NIC in mode {constants.NIC_MODE_BRIDGED} needs a link")
    return problems
