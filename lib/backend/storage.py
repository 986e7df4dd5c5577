"""Procedures for what disks lie in: volumes, volume groups, other storage units (doc/reference/noderpc.md 3.7, drivers.md a.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import errors
from ganeti.params.units import FIX_CONSISTENCY
from ganeti.storage import units
from ganeti.storage.utilities import extprovider, lvmtools


def LvList(vg_name: Sequence[str]) -> dict[str, list[Any]]:
    """lv_list: {``vg/lv``: [MiB as text, inactive, open]} of these groups, or of all."""
    return {
        f"{lv.group}/{lv.name}": [f"{lv.size / 1024:.2f}", lv.listed_inactive, lv.open]
        for lv in lvmtools.Volumes().values()
        if not lv.virtual and (not vg_name or lv.group in vg_name)
    }


def VgList() -> dict[str, float]:
    """vg_list: {group: MiB}."""
    return lvmtools.GroupSizes()


def NodeVolumes() -> list[dict[str, str]]:
    """node_volumes: one row for each device of each volume.  Nodes of other releases do not have ``health``."""
    return [
        {
            "name": lv.name,
            "size": f"{lv.size / 1024:.2f}",
            "dev": device.partition("(")[0],
            "vg": lv.group,
            "health": "partial" if lv.partial else "",
        }
        for lv in lvmtools.Volumes().values()
        for device in lv.devices
    ]


def StorageList(su_name: str, su_args: Sequence[Any], name: str | None, fields: Sequence[str]) -> list[list[Any]]:
    """storage_list: rows in the order of the fields."""
    return units.List(su_name, su_args, name, fields)


def StorageModify(su_name: str, su_args: Sequence[Any], name: str, changes: Mapping[str, Any]) -> None:
    """storage_modify"""
    del su_args
    units.GetUnits(su_name).Modify(name, changes)


def StorageExecute(su_name: str, su_args: Sequence[Any], name: str, op: str) -> None:
    """storage_execute: the only operation is ``fix-consistency``."""
    del su_args
    if op != FIX_CONSISTENCY:
        raise errors.RpcCallError(f"Storage units cannot do '{op}', only {FIX_CONSISTENCY}")
    units.GetUnits(su_name).Repair(name)


# --- for node_verify ----------------------------------------------------------------------------------------------------


def PvList(vg_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the physical volumes of these groups, also those that may not be used."""
    return [
        {
            "name": pv.name,
            "vg_name": pv.group,
            "size": pv.size,
            "free": pv.free,
            "attributes": pv.attributes,
            "lv_list": list(pv.volumes),
        }
        for pv in lvmtools.PhysicalVolumes()
        if pv.group in vg_names
    ]


def SharedPvs(vg_names: Sequence[str]) -> list[list[Any]]:
    """Return [physical volume, its logical volumes] where these do not belong together: only halves of a mirror do."""
    return [
        [pv.name, list(pv.volumes)]
        for pv in lvmtools.PhysicalVolumes()
        if pv.group in vg_names and len({_Disk(name) for name in pv.volumes}) > 1
    ]


def _Disk(volume: str) -> str:
    """Return what the names of a mirror's data and metadata have in common."""
    return volume.removesuffix("_data").removesuffix("_meta")


HANDLERS = {
    "extstorage_diagnose": extprovider.Diagnose,
    "lv_list": LvList,
    "vg_list": VgList,
    "node_volumes": NodeVolumes,
    "storage_list": StorageList,
    "storage_modify": StorageModify,
    "storage_execute": StorageExecute,
}
