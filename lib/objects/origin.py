"""Keys that this release has and no release of the original: on parsed files, before any object is made of them.

The original's programs do not start with an object that has a key they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti.objects.base import OURS, ConfigObject
from ganeti.objects.cluster import Cluster
from ganeti.objects.snapshot import KIND_MAPS


def StripConfig(data: Mapping[str, Any]) -> None:
    """Remove from all objects of a parsed config.data, in place, what only this release knows."""
    for cls, item in _Objects(data):
        Strip(cls, item)


def Strip(cls: type[ConfigObject], data: dict[str, Any]) -> dict[str, Any]:
    """Remove from an object's stored form, and from those embedded in it, what only this release knows; return it."""
    for key, part, item in _Family(cls, data):
        if key in part.FIELDS and part.FIELDS[key].since == OURS:
            del item[key]
    return data


def Unknown(data: Mapping[str, Any]) -> list[str]:
    """Return ``key 'decision' of disk UUID`` for each key of a parsed config.data that no release of the original has."""
    return [
        f"key '{key}' of {part.KIND} {item.get('name') or item.get('uuid') or ''}".rstrip()
        for cls, top in _Objects(data)
        for key, part, item in _Family(cls, top)
        if key not in part.FIELDS or part.FIELDS[key].since == OURS
    ]


def _Objects(data: Mapping[str, Any]) -> Iterator[tuple[type[ConfigObject], dict[str, Any]]]:
    """Yield the stored objects; what is of another shape has no keys."""
    cluster = data.get("cluster")
    if isinstance(cluster, dict):
        yield Cluster, cluster
    for _, attribute, cls in KIND_MAPS:
        kept = data.get(attribute)
        for item in kept.values() if isinstance(kept, dict) else ():
            if isinstance(item, dict):
                yield cls, item


def _Family(cls: type[ConfigObject], item: dict[str, Any]) -> Iterator[tuple[str, type[ConfigObject], dict[str, Any]]]:
    """Yield (key, class, object) for each key of an object and of those embedded in it."""
    for key, value in list(item.items()):
        field = cls.FIELDS.get(key)
        if field is not None and field.many is not None and isinstance(value, list):
            for part in value:
                if isinstance(part, dict):
                    yield from _Family(field.many, part)
        yield key, cls, item
