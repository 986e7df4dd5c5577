"""Indexes over the objects of a root: who has this name, this MAC address, this disk.

An index maps keys to the items that objects contribute: ``TABLE[name][kind](object)`` gives the object's (key, item)
pairs and depends on that object alone.  So the exchange of one object changes only its own keys, and a change costs what
it touches however many objects there are.  Items of a key are sorted: an index is the same whichever way it came about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ganeti.objects.base import ConfigObject
from ganeti.objects.instance import Disk

Pairs = Iterable[tuple[Any, Any]]
Items = tuple[Any, ...]

MIN_RECENT = 64


class Index:
    """Frozen.  Most keys stand in ``_settled``, which many indexes share; what changed lately stands in ``_recent``.

    Copying ``_recent`` and now and then joining both costs about the root of the number of keys for each change.
    """

    __slots__ = ("_recent", "_settled")

    def __init__(self, settled: dict[Any, Items], recent: dict[Any, Items] | None = None):
        self._settled = settled
        self._recent = {} if recent is None else recent

    @classmethod
    def Of(cls, pairs: Pairs) -> Index:
        """Return the index of these pairs."""
        lists: dict[Any, list[Any]] = {}
        for key, item in pairs:
            lists.setdefault(key, []).append(item)
        return cls({key: _Sorted(items) if len(items) > 1 else (items[0],) for key, items in lists.items()})

    def Get(self, key: Any) -> Items:
        """Return the items of a key, none for one that nobody has."""
        found = self._recent.get(key)
        return self._settled.get(key, ()) if found is None else found

    def All(self) -> Iterator[tuple[Any, Items]]:
        """Yield every key with its items."""
        for key, items in self._settled.items():
            if key not in self._recent:
                yield key, items
        for key, items in self._recent.items():
            if items:
                yield key, items

    def Exchange(self, old: list[tuple[Any, Any]], new: list[tuple[Any, Any]]) -> Index:
        """Return the index after an object contributes ``new`` instead of ``old``."""
        if old == new:
            return self
        recent = dict(self._recent)
        changed = Index(self._settled, recent)
        for key, item in old:
            items = list(changed.Get(key))
            items.remove(item)
            recent[key] = tuple(items)
        for key, item in new:
            recent[key] = _Sorted((*changed.Get(key), item))
        if len(recent) <= MIN_RECENT + math.isqrt(len(self._settled)):
            return changed
        joined = {**self._settled, **recent}
        for key, items in recent.items():
            if not items:
                del joined[key]
        return Index(joined)


def _Sorted(items: Iterable[Any]) -> Items:
    # What a damaged file holds need not be comparable.
    return tuple(sorted(items, key=str))


# --- what objects contribute ------------------------------------------------------------------------------------------


def _Name(obj: Any) -> Pairs:
    return () if obj.name is None else ((obj.name, obj.uuid),)


def _LowerName(obj: Any) -> Pairs:
    return () if obj.name is None else ((obj.name.lower(), obj.uuid),)


def _Beginnings(obj: Any) -> Pairs:
    """Return the beginnings of a name up to a dot, in lower case."""
    if obj.name is None:
        return
    name = obj.name.lower()
    end = name.find(".")
    while end != -1:
        yield name[:end], obj.uuid
        end = name.find(".", end + 1)


def _EachOf(values: Callable[[Disk], Iterable[Any]]) -> Callable[[Any], Pairs]:
    def pairs(disk: Disk) -> Pairs:
        return ((value, disk.uuid) for value in values(disk))

    return pairs


def _Uuids(obj: Any) -> Pairs:
    yield obj.uuid, obj.uuid
    for nic in getattr(obj, "nics", ()):
        yield nic.uuid, obj.uuid
    for child in getattr(obj, "children", ()):
        for part in child.Walk():
            yield part.uuid, obj.uuid


def _ConsolePort(instance: Any) -> Pairs:
    return () if instance.network_port is None else ((instance.network_port, instance.uuid),)


def _NicAddresses(instance: Any) -> Pairs:
    return (((nic.network, nic.ip), instance.uuid) for nic in instance.nics if nic.network and nic.ip)


TABLE: Mapping[str, Mapping[str, Callable[[Any], Pairs]]] = {
    # What only one object may have.
    "node name": {"node": _Name},
    "nodegroup name": {"nodegroup": _Name},
    "instance name": {"instance": _Name},
    "network name": {"network": _Name},
    "node address": {
        "node": lambda node: ((ip, node.uuid) for ip in dict.fromkeys((node.primary_ip, node.secondary_ip)))
    },
    "NIC address": {"instance": _NicAddresses},
    "MAC address": {"instance": lambda instance: ((nic.mac, instance.uuid) for nic in instance.nics)},
    "attached disk": {"instance": lambda instance: ((disk, instance.uuid) for disk in instance.disks)},
    "volume": {"disk": _EachOf(Disk.VolumeNames)},
    "secret": {"disk": _EachOf(Disk.Secrets)},
    "minor": {"disk": _EachOf(Disk.Minors)},
    "port": {"disk": _EachOf(Disk.Ports), "instance": _ConsolePort},
    "uuid": dict.fromkeys(("node", "nodegroup", "instance", "network", "disk", "filter"), _Uuids),
    # Look-ups.
    "node lower name": {"node": _LowerName},
    "node beginning": {"node": _Beginnings},
    "instance lower name": {"instance": _LowerName},
    "instance beginning": {"instance": _Beginnings},
    "nodes of group": {"node": lambda node: ((node.group, node.uuid),)},
    "primaries of node": {"instance": lambda instance: ((instance.primary_node, instance.uuid),)},
    "disks of node": {"disk": lambda disk: ((node, disk.uuid) for node in dict.fromkeys(disk.nodes))},
    "minors of node": {"disk": lambda disk: ((node, (minor, disk.uuid)) for node, minor in disk.Minors())},
}


# Sums over all objects of a kind.
TOTALS: Mapping[str, tuple[str, Callable[[Any], int]]] = {
    "bytes of instance names": (
        "instance",
        lambda instance: 0 if instance.name is None else len(instance.name.encode("utf-8", "replace")),
    ),
}


def Build(name: str, objects: Callable[[str], Iterable[ConfigObject]]) -> Index | int:
    """Return the index or total called ``name``; ``objects(kind)`` are the objects of a kind."""
    if name in TOTALS:
        kind, number = TOTALS[name]
        return sum(map(number, objects(kind)))
    return Index.Of(pair for kind, pairs in TABLE[name].items() for obj in objects(kind) for pair in pairs(obj))


def Gained(name: str, old: ConfigObject | None, new: ConfigObject) -> list[Any]:
    """Return the keys of an index that an object has now and did not have before, or not as often."""
    pairs = TABLE[name].get(new.KIND)
    if pairs is None:
        return []
    after = [key for key, _ in pairs(new)]
    if old is not None:
        for key, _ in pairs(old):
            if key in after:
                after.remove(key)
    return after


def Exchange(
    built: Mapping[str, Index | int], kind: str, old: ConfigObject | None, new: ConfigObject | None
) -> dict[str, Index | int]:
    """Return the indexes and totals after ``new`` took the place of ``old``; None: there is none."""
    after: dict[str, Index | int] = {}
    for name, index in built.items():
        if isinstance(index, int):
            counted, number = TOTALS[name]
            if counted == kind:
                index += (0 if new is None else number(new)) - (0 if old is None else number(old))
            after[name] = index
            continue
        pairs = TABLE[name].get(kind)
        if pairs is not None:
            index = index.Exchange([] if old is None else list(pairs(old)), [] if new is None else list(pairs(new)))
        after[name] = index
    return after
