"""What a volume group must be like, judged by what its node reports (doc/reference/drivers.md c.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti import pathutils

MIN_VG_SIZE = 20480  # MiB
PV_LIST, SHARED_PVS = "pvlist", "exclusive-pvs"
REPLACED = "_replaced-"
"""Between the name of a volume that ``replace-disks`` put aside and the second in which it did so."""
# Physical volumes of exclusive storage differ by at most this part of their size, up and down.
_PV_MARGIN = 0.01


def GroupProblem(name: str, groups: Mapping[str, float]) -> str | None:
    """Return what is wrong with a volume group; ``groups``: MiB by name, as the node lists them."""
    size = groups.get(name)
    if size is None:
        others = f"; this node has {', '.join(sorted(groups))}" if groups else ""
        return f"volume group '{name}' missing{others}"
    if size < MIN_VG_SIZE:
        return f"volume group '{name}' too small ({MIN_VG_SIZE} MiB required, {size:.0f} MiB found)"
    return None


def HowToMake(name: str) -> str:
    return (
        f"make the volume group there with '{pathutils.TOOLS_DIR}/lvmstrap --vg-name={name} --alldisks create' or extend it"
        " with 'vgextend'"
    )


def SizesDiffer(smallest: float, biggest: float) -> bool:
    """Return whether physical volumes of these MiB are too different for exclusive storage."""
    return smallest * (1 + _PV_MARGIN) < biggest * (1 - _PV_MARGIN)


def PvProblems(answer: Mapping[str, Any], exclusive: bool) -> list[str]:
    """Return what is wrong with a node's physical volumes, by its answer to node_verify."""
    volumes = answer.get(PV_LIST)
    if not isinstance(volumes, list):
        return ["the node did not report its physical volumes"]
    problems = [
        f"invalid character ':' in PV '{volume['name']}' of VG '{volume['vg_name']}'"
        for volume in volumes
        if ":" in volume["name"]
    ]
    if not exclusive:
        return problems
    return problems + _NotExclusive(volumes, answer.get(SHARED_PVS) or [])


def _NotExclusive(volumes: Iterable[Mapping[str, Any]], shared: Iterable[Any]) -> list[str]:
    problems = []
    by_size = sorted((volume["size"], volume["name"]) for volume in volumes)
    if by_size and SizesDiffer(by_size[0][0], by_size[-1][0]):
        (least, smallest), (most, biggest) = by_size[0], by_size[-1]
        problems.append(
            f"PVs have different sizes ({smallest} has {least:.0f} MiB, {biggest} has {most:.0f} MiB): exclusive storage"
            " wants equal ones; 'vgreduce' takes an empty one out, or turn exclusive storage off for the node"
        )
    return problems + [
        f"PV {name} is shared by unrelated LVs ({', '.join(volumes_on)}), which exclusive storage does not allow"
        for name, volumes_on in shared
    ]
