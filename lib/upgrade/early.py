"""What releases 2.1 to 2.14 changed in the data, as steps of ``upgrade.UpgradeConfig`` (doc/reference/config.md 21).

Parts of the wrong type are left alone: the reader of this release rejects them, and names them.  Those that it would not
know again, because they are replaced here, are a ConfigurationError at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import constants, errors, runtime, serializer
from ganeti.params import ipolicy, nic

_BRIDGED = "bridged"
_OLD_DEVICE_TYPES = {"lvm": constants.DT_PLAIN, "drbd8": constants.DT_DRBD8}
# Worked out for calls only; releases before 2.16 have stored some of it.
_NOT_STORED_OF_DISKS = ("physical_id", "pci", "dynamic_params")
_NOT_STORED_OF_NICS = ("pci", "netinfo")


def At(value: Any, *keys: Any) -> dict[str, Any]:
    """Return the object below these keys; an empty one, of nobody, if it is missing or no object.

    A key out of the data that is no text leads nowhere.
    """
    for key in keys:
        value = value.get(key) if isinstance(value, dict) and isinstance(key, str) else None
    return value if isinstance(value, dict) else {}


def Items(data: Mapping[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    """Yield the stored objects of a kind."""
    yield from _Dicts(list(At(data, kind).values()))


def _Dicts(value: Any) -> Iterator[dict[str, Any]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def Texts(value: Any) -> list[str]:
    """Return the texts of a list; nothing if it is no list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _Nics(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for instance in Items(data, "instances"):
        yield from _Dicts(instance.get("nics"))


def _InstanceDisks(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the disks that lie in instances, with their children."""
    for instance in Items(data, "instances"):
        yield from _Family(instance.get("disks"))


def _Family(disks: Any) -> Iterator[dict[str, Any]]:
    for disk in _Dicts(disks):
        yield disk
        yield from _Family(disk.get("children"))


def _Wrong(label: str, key: str, wanted: str, found: Any) -> errors.ConfigurationError:
    return errors.ConfigurationError(f"{label}: key '{key}' must be {wanted}, found {serializer.Dump(found)[:60]}")


# --- steps ------------------------------------------------------------------------------------------------------------


def To21(data: dict[str, Any]) -> None:
    """The default hypervisor became the first of the enabled ones, the bridge of a NIC a parameter."""
    cluster = At(data, "cluster")
    default = cluster.pop("default_hypervisor", None)
    if default is not None and not isinstance(default, str):
        raise _Wrong("cluster", "default_hypervisor", "a text", default)
    enabled = cluster.get("enabled_hypervisors")
    if isinstance(default, str) and isinstance(enabled, list | None):
        cluster["enabled_hypervisors"] = [default, *(name for name in enabled or () if name != default)]
    for item in _Nics(data):
        bridge = item.pop("bridge", None)
        if isinstance(bridge, str) and bridge and item.get("nicparams") is None:
            item["nicparams"] = {nic.NIC_MODE: _BRIDGED, nic.NIC_LINK: bridge}


def To26(data: dict[str, Any]) -> None:
    """Whether an instance should run became one of three states."""
    for name, instance in At(data, "instances").items():
        if not isinstance(instance, dict):
            continue
        up = instance.pop("admin_up", None)
        if isinstance(up, bool):
            instance.setdefault("admin_state", constants.ADMINST_UP if up else constants.ADMINST_DOWN)
        elif "admin_state" not in instance:
            raise _Wrong(f"instance '{name}'", "admin_up", "true or false", up)


def To28(data: dict[str, Any]) -> None:
    """Limits of a policy became a list of pairs, each with every limit; groups have no standard."""
    default = ipolicy.DEFAULTS[ipolicy.MINMAX][0]
    own = At(data, "cluster", "ipolicy")
    _PairLimits(own, default)
    pairs = own.get(ipolicy.MINMAX)
    pair = pairs[0] if isinstance(pairs, list) and pairs and isinstance(pairs[0], dict) else default
    for group in Items(data, "nodegroups"):
        policy = At(group, "ipolicy")
        policy.pop(ipolicy.STD, None)
        _PairLimits(policy, pair)


def _PairLimits(policy: dict[str, Any], weaker: Mapping[str, Any]) -> None:
    """Replace ``min`` and ``max`` by a pair; what they lack is that of the weaker pair."""
    own = {key: policy.pop(key) for key in (ipolicy.MIN, ipolicy.MAX) if key in policy}
    if any(At(values) for values in own.values()) and ipolicy.MINMAX not in policy:
        pair = {key: {**At(weaker, key), **At(own, key)} for key in (ipolicy.MIN, ipolicy.MAX)}
        policy[ipolicy.MINMAX] = [pair]


def To29(data: dict[str, Any]) -> None:
    """Nodes and instances are kept and named by their UUIDs instead of their names, networks of NICs too."""
    nodes = _ByUuid(data, "nodes")
    _ByUuid(data, "instances")
    networks = {At(item).get("name"): uuid for uuid, item in At(data, "networks").items()}
    cluster = At(data, "cluster")
    _Translate(cluster, "master_node", nodes)
    for instance in Items(data, "instances"):
        _Translate(instance, "primary_node", nodes)
    for item in _Nics(data):
        _Translate(item, "network", networks)
    for disk in _InstanceDisks(data):
        kind = disk.get("dev_type")
        disk["dev_type"] = _OLD_DEVICE_TYPES.get(kind, kind) if isinstance(kind, str) else kind
        place = disk.get("logical_id")
        if disk["dev_type"] == constants.DT_DRBD8 and isinstance(place, list):
            ends = [nodes.get(end, end) if isinstance(end, str) else end for end in place[:2]]
            disk["logical_id"] = [*ends, *place[2:]]


def _ByUuid(data: dict[str, Any], kind: str) -> dict[str, str]:
    """Keep the objects of a kind by UUID, which releases before 2.1 did not give; return name -> UUID."""
    found: dict[str, str] = {}
    items = At(data, kind)
    for name, item in list(items.items()):
        if isinstance(item, dict):
            if item.get("name") != name:
                raise _Wrong(f"key '{kind}', entry '{name}'", "name", f"'{name}'", item.get("name"))
            uuid = item.get("uuid")
            uuid = item["uuid"] = uuid if isinstance(uuid, str) and uuid else runtime.NewUuid()
            del items[name]
            items[uuid] = item
            found[name] = uuid
    return found


def _Translate(item: dict[str, Any], key: str, known: Mapping[Any, str]) -> None:
    """Replace a name by its UUID; a name that nothing has is left for the checks to report."""
    name = item.get(key)
    if isinstance(name, str):
        item[key] = known.get(name, name)


def To212(data: dict[str, Any]) -> None:
    """Disks left their instances, which name them instead."""
    if not isinstance(data.setdefault("disks", {}), dict):
        return
    for instance in Items(data, "instances"):
        disks = instance.get("disks")
        if not isinstance(disks, list) or not all(isinstance(disk, dict) for disk in disks):
            continue
        times = {"ctime": instance.get("ctime", 0.0), "mtime": instance.get("mtime", 0.0), "serial_no": 1}
        for index, disk in enumerate(disks):
            if not isinstance(disk.get("dev_type"), str):
                label = f"instance '{instance.get('name')}': disk {index}"
                raise _Wrong(label, "dev_type", "a text", disk.get("dev_type"))
            if not isinstance(disk.get("uuid"), str):
                disk["uuid"] = runtime.NewUuid()
            disk["iv_name"] = f"disk/{index}"
            data["disks"][disk["uuid"]] = {**times, **disk}
        instance["disks"] = [disk["uuid"] for disk in disks]


def To214(data: dict[str, Any]) -> None:
    """Disks say on which nodes they are; the template of an instance is that of its disks."""
    disks = At(data, "disks")
    for instance in Items(data, "instances"):
        instance.pop("disk_template", None)
        uuids = instance.get("disks")
        primary = instance.get("primary_node")
        for uuid in uuids if isinstance(uuids, list) else ():
            disk = At(disks, uuid) if isinstance(uuid, str) else {}
            for part in _Family([disk]):
                part.setdefault("nodes", _NodesOf(disk, primary))
    for disk in Items(data, "disks"):
        # One that belongs to no instance.
        for part in _Family([disk]):
            part.setdefault("nodes", _NodesOf(disk, None))


def _NodesOf(disk: Mapping[str, Any], primary: Any) -> list[str]:
    """Return the nodes of a disk, the primary one first."""
    kind, place = disk.get("dev_type"), disk.get("logical_id")
    if kind == constants.DT_DRBD8 and isinstance(place, list):
        return sorted((end for end in place[:2] if isinstance(end, str)), key=lambda end: end != primary)
    if kind in (constants.DT_PLAIN, constants.DT_FILE) and isinstance(primary, str):
        return [primary]
    return []


def To216(data: dict[str, Any]) -> None:
    """Leave out what is not stored: places of devices, and the second name of a disk."""
    for disk in _Family(list(Items(data, "disks"))):
        for key in _NOT_STORED_OF_DISKS:
            disk.pop(key, None)
    for item in _Nics(data):
        for key in _NOT_STORED_OF_NICS:
            item.pop(key, None)
