"""Disk templates: parameters, traits, and the names a device knows them by (doc/reference/parameters.md 5, config.md 15, 16)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ganeti import constants
from ganeti.params.types import (
    BOOL,
    INT,
    STRING,
    AtLeast,
    Between,
    Check,
    Defaults,
    MakeTable,
    OneOf,
    Param,
    ValueProblems,
)

ACCESS = "access"
KERNELSPACE, USERSPACE = "kernelspace", "userspace"
DRBD_META_SIZE = 128  # MiB
DEFAULT_DRBD_HELPER = "/bin/true"

_BARRIERS = re.compile("n|(?!.*(.).*\\1)[bdf]{1,3}")


def _IsBarriers(value: str) -> bool:
    return _BARRIERS.fullmatch(value) is not None


def _Access(since: str) -> Param:
    return Param(
        ACCESS, STRING, KERNELSPACE, "how a disk is opened", OneOf(KERNELSPACE, USERSPACE), since, required=True
    )


_NAME = Check("a name without blanks", lambda value: not any(c.isspace() for c in value))

_DRBD = MakeTable(
    Param("resync-rate", INT, 61440, "KiB/s when not dynamic", AtLeast(0), "2.6"),
    Param("data-stripes", INT, 1, "stripes of the data volume", AtLeast(1), "2.6", required=True),
    Param("meta-stripes", INT, 1, "stripes of the metadata volume", AtLeast(1), "2.6", required=True),
    Param(
        "disk-barriers",
        STRING,
        "n",
        "what is switched off",
        Check("n for nothing, or letters of b (barriers), f (flushes), d (drain)", _IsBarriers),
        "2.6",
        required=True,
    ),
    Param("meta-barriers", BOOL, False, "true: no flushes of metadata", None, "2.6"),
    Param("metavg", STRING, "xenvg", "volume group of metadata", _NAME, "2.6", required=True),
    Param("disk-custom", STRING, "", "further arguments when a disk is attached", None, "2.6"),
    Param("net-custom", STRING, "", "further arguments of the connection", None, "2.6"),
    Param("protocol", STRING, "C", "when a write counts as done", OneOf("A", "B", "C"), "2.11", required=True),
    Param("dynamic-resync", BOOL, False, "rate from the c-* values", None, "2.6"),
    Param("c-plan-ahead", INT, 20, "tenths of a second", AtLeast(0), "2.6"),
    Param("c-fill-target", INT, 0, "sectors", AtLeast(0), "2.6"),
    Param("c-delay-target", INT, 1, "tenths of a second", AtLeast(0), "2.6"),
    Param("c-max-rate", INT, 61440, "KiB/s", AtLeast(0), "2.6"),
    Param("c-min-rate", INT, 4096, "KiB/s", AtLeast(0), "2.6"),
)  # fmt: skip
_PLAIN = MakeTable(Param("stripes", INT, 1, "stripes of the volume", AtLeast(1), "2.6", required=True))
_RBD = MakeTable(Param("pool", STRING, "rbd", "RADOS pool", _NAME, "2.6", required=True), _Access("2.9"))
_GLUSTER = MakeTable(
    _Access("2.11"),
    Param("host", STRING, "127.0.0.1", "a server of the volume", _NAME, "2.11", required=True),
    Param("port", INT, 24007, "its port", Between(1, 65535), "2.11", required=True),
    Param("volume", STRING, "gv0", "the volume", _NAME, "2.11", required=True),
)

# Parameters by template, as clusters and groups keep them.
TABLES: dict[str, dict[str, Param]] = {
    constants.DT_BLOCK: {},
    constants.DT_DISKLESS: {},
    constants.DT_DRBD8: _DRBD,
    constants.DT_EXT: MakeTable(_Access("2.13")),
    constants.DT_FILE: {},
    constants.DT_GLUSTER: _GLUSTER,
    constants.DT_PLAIN: _PLAIN,
    constants.DT_RBD: _RBD,
    constants.DT_SHARED_FILE: {},
}
DEFAULTS: dict[str, dict[str, Any]] = {name: Defaults(table) for name, table in TABLES.items()}

# Device parameters by template: for the disk itself and for its children in order, device name to template's name.
LD_NAMES: dict[str, tuple[dict[str, str], ...]] = {
    constants.DT_DRBD8: (
        {
            "resync-rate": "resync-rate",
            "disabled-barriers": "disk-barriers",
            "disable-meta-flush": "meta-barriers",
            "default-metavg": "metavg",
            "disk-custom": "disk-custom",
            "net-custom": "net-custom",
            "protocol": "protocol",
            "dynamic-resync": "dynamic-resync",
            "c-plan-ahead": "c-plan-ahead",
            "c-fill-target": "c-fill-target",
            "c-delay-target": "c-delay-target",
            "c-max-rate": "c-max-rate",
            "c-min-rate": "c-min-rate",
        },
        {"stripes": "data-stripes"},
        {"stripes": "meta-stripes"},
    ),
    **{
        name: ({key: key for key in TABLES[name]},)
        for name in (constants.DT_PLAIN, constants.DT_RBD, constants.DT_EXT, constants.DT_GLUSTER)
    },
}


class DiskTraits(NamedTuple):
    """What the master has to know of a disk template.  ``mirror``: None, "internal" or "external"."""

    storage_type: str  # for space queries
    lvm: bool = False
    mirror: str | None = None
    file_based: bool = False
    copyable: bool = False  # movable by copying
    growable: bool = False
    name_in_path: bool = False  # the instance's name is part of the path
    access: bool = False  # has the parameter "access"
    space_checked: bool = False  # free space is checked before creation
    snapshots: bool = False
    may_adopt: bool = False
    must_adopt: bool = False
    convertible_from: bool = True
    convertible_to: bool = True
    exclusive_storage: bool = False  # allowed with exclusive storage
    nodes: int = 0  # how many nodes stand in the disk's node list


INTERNAL, EXTERNAL = "internal", "external"

TRAITS: dict[str, DiskTraits] = {
    constants.DT_DISKLESS: DiskTraits("diskless", mirror=EXTERNAL, convertible_from=False, convertible_to=False),
    constants.DT_FILE: DiskTraits("file", file_based=True, copyable=True, growable=True, name_in_path=True, nodes=1),
    constants.DT_SHARED_FILE: DiskTraits(
        "sharedfile", mirror=EXTERNAL, file_based=True, growable=True, name_in_path=True
    ),
    constants.DT_PLAIN: DiskTraits(
        "lvm-vg",
        lvm=True,
        copyable=True,
        growable=True,
        space_checked=True,
        snapshots=True,
        may_adopt=True,
        exclusive_storage=True,
        nodes=1,
    ),
    constants.DT_BLOCK: DiskTraits("blockdev", mirror=EXTERNAL, may_adopt=True, must_adopt=True, convertible_to=False),
    constants.DT_DRBD8: DiskTraits(
        "lvm-vg", lvm=True, mirror=INTERNAL, growable=True, space_checked=True, snapshots=True, nodes=2
    ),
    constants.DT_RBD: DiskTraits("rados", mirror=EXTERNAL, growable=True, access=True),
    constants.DT_EXT: DiskTraits("ext", mirror=EXTERNAL, growable=True, access=True, snapshots=True),
    constants.DT_GLUSTER: DiskTraits("gluster", mirror=EXTERNAL, file_based=True, growable=True, access=True),
}


def With(**wanted: Any) -> frozenset[str]:
    """Name of the templates that have all these traits: ``With(lvm=True)``, ``With(mirror="internal")``."""
    return frozenset(
        name
        for name, traits in TRAITS.items()
        if all(getattr(traits, trait) == value for trait, value in wanted.items())
    )


MIRRORED = With(mirror=INTERNAL) | With(mirror=EXTERNAL)


def SyntaxProblems(template: str, values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with values of the right types."""
    problems = ValueProblems(values, TABLES.get(template, {}), f"disk template {template}, parameter")
    if values.get("dynamic-resync") and not values.get("c-plan-ahead", 1):
        problems.append(f"disk template {template}: dynamic-resync needs a c-plan-ahead above 0")
    return problems
