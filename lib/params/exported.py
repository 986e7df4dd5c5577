"""``config.ini`` of an export: ``Compose`` on the node writes it, ``Parse`` on the master reads it (interfaces.md f.4).

What is read may come from any release since 2.0, and from anybody who can write to a node's directory of exports: it is text
until somebody checks it.  ``HvValues`` and ``BeValues`` give the parameters as creation checks them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants, errors, objects, serializer
from ganeti.params import be, hv, nic
from ganeti.params.types import MAYBE_STRING, ForceDictType, Table
from ganeti.utils import inifile

FILE_NAME = "config.ini"
# What is added to the name of a directory as long as the export is not complete.
UNFINISHED = ".new"
# Parts of what nodes say: there never was an export; there is none of this name.  See SaysThereIsNone.
NO_DIRECTORY = "has no directory of exports"
NO_EXPORT = "There is no export"
# Bytes of a whole file.
LIMIT = 1024 * 1024

_EXPORT, _INSTANCE, _HYPERVISOR, _BACKEND, _OS, _OS_PRIVATE = (
    "export",
    "instance",
    "hypervisor",
    "backend",
    "os",
    "os_private",
)
# What a network card is connected to on its node.
CONNECTION = (nic.NIC_MODE, nic.NIC_LINK, nic.NIC_VLAN)
NIC_KEYS = ("mac", "ip", "network", "name", *CONNECTION)
_DISK_ATTRIBUTES = (("ivname", "iv_name"), ("size", "size"), ("name", "name"))
_MOST_DIGITS = 15
_LONGEST_NAME = 255

_Values = Mapping[str, str | None]


def SaysThereIsNone(text: str | None) -> bool:
    """Return whether a node's failure says that it has no such export, or none at all."""
    return text is not None and (NO_EXPORT in text or NO_DIRECTORY in text)


class ExportedDisk(NamedTuple):
    """A disk of an export: MiB, its name if it has one, the file with its content (None: there is none)."""

    size: int
    name: str | None
    dump: str | None


@dataclasses.dataclass(frozen=True)
class Export:
    """What config.ini says, as text; absent values are None, absent parameters missing.

    ``beparams`` has minmem and maxmem whatever the release; ``nics`` have all of ``NIC_KEYS``.
    """

    timestamp: int | None
    os: str | None
    name: str
    disk_template: str | None
    hypervisor: str | None
    tags: tuple[str, ...]
    disks: tuple[ExportedDisk, ...]
    nics: tuple[Mapping[str, str | None], ...]
    hvparams: _Values
    beparams: Mapping[str, str]
    osparams: Mapping[str, str]
    osparams_private: Mapping[str, str] = dataclasses.field(repr=False)

    def HvValues(self, hypervisor: str) -> dict[str, Any]:
        """Return the hypervisor parameters of their types; raise ParseError for a value that is not of its type.

        What only the cluster can set is left out, as is what this release does not know (``Unknown``).  Another hypervisor
        than the one that the instance had uses nothing of them.
        """
        if hypervisor != self.hypervisor or hypervisor not in hv.TABLES:
            return {}
        table = {name: param for name, param in hv.TABLES[hypervisor].items() if name not in hv.GLOBALS}
        return _Typed(self.hvparams, table, _HYPERVISOR)

    def BeValues(self) -> dict[str, Any]:
        """Return the backend parameters that this release knows, of their types; raise ParseError as HvValues does."""
        return _Typed(self.beparams, be.TABLE, _BACKEND)

    def Unknown(self) -> list[str]:
        """Return the names of hypervisor and backend parameters that this release does not know, for a warning."""
        known = hv.TABLES.get(self.hypervisor or "", {}).keys()
        return sorted(self.hvparams.keys() - known) + sorted(self.beparams.keys() - be.TABLE.keys())


def _Typed(values: _Values, table: Table, section: str) -> dict[str, Any]:
    # An absent value is one of its own only where the type has it.
    known = {
        name: value
        for name, value in values.items()
        if name in table and (value is not None or table[name].type == MAYBE_STRING)
    }
    try:
        return ForceDictType(known, table)
    except errors.TypeEnforcementError as err:
        raise errors.ParseError(f"{FILE_NAME}: section [{section}]: {err}") from err


# --- writing ------------------------------------------------------------------------------------------------------------


def DumpName(disk: objects.Disk) -> str:
    """Return the name of the file with a disk's content, beside config.ini."""
    return disk.uuid


def Compose(instance: objects.Instance, disks: Sequence[objects.Disk | None], timestamp: int) -> str:
    """Return the text of config.ini.

    The instance has filled parameters and ``disks_info``; ``disks`` are those whose content was exported, in the same order,
    None where that failed.  Private OS parameters are in clear text, as in 3.1: the file is for root alone.
    """
    own = instance.disks_info or ()
    sections: dict[str, dict[str, Any]] = {
        _EXPORT: {
            "version": constants.EXPORT_VERSION,
            "timestamp": timestamp,
            "source": instance.primary_node,
            "os": instance.os,
            "compression": constants.NO_COMPRESSION,
        },
        _INSTANCE: {
            "name": instance.name,
            **{name: instance.beparams.get(name) for name in (be.BE_MAXMEM, be.BE_MINMEM, be.BE_VCPUS)},
            be.BE_MEMORY: instance.beparams.get(be.BE_MAXMEM),
            "disk_template": objects.CommonTemplate(own),
            "hypervisor": instance.hypervisor,
            "tags": " ".join(instance.tags),
            **_NicOptions(instance.nics),
            **_DiskOptions(own, disks),
        },
        _HYPERVISOR: {name: value for name, value in instance.hvparams.items() if name not in hv.GLOBALS},
        _BACKEND: dict(instance.beparams),
        _OS: dict(instance.osparams),
        _OS_PRIVATE: dict(instance.osparams_private),
    }
    return inifile.Dump(
        {
            section: {name: None if value is None else str(value) for name, value in values.items()}
            for section, values in sections.items()
        }
    )


def _NicOptions(nics: Sequence[objects.NIC]) -> dict[str, Any]:
    options: dict[str, Any] = {"nic_count": len(nics)}
    for index, card in enumerate(nics):
        values = {"mac": card.mac, "ip": card.ip, "network": card.network, "name": card.name}
        values.update((name, card.nicparams.get(name)) for name in nic.TABLE)
        options.update((f"nic{index}_{key}", values[key]) for key in NIC_KEYS)
    return options


def _DiskOptions(own: Sequence[objects.Disk], exported: Sequence[objects.Disk | None]) -> dict[str, Any]:
    options: dict[str, Any] = {"disk_count": len(own)}
    for index, (disk, copy) in enumerate(zip(own, exported, strict=True)):
        options.update({f"disk{index}_{key}": getattr(disk, attribute) for key, attribute in _DISK_ATTRIBUTES})
        if copy:
            options[f"disk{index}_dump"] = DumpName(copy)
    return options


# --- reading ------------------------------------------------------------------------------------------------------------


def Parse(text: str) -> Export:
    """Return what the text of a config.ini says; raise ParseError on anything malformed."""
    if len(text) > LIMIT:
        raise _Malformed(f"over {LIMIT} bytes")
    try:
        sections = inifile.Load(text)
    except errors.ParseError as err:
        raise _Malformed(str(err)) from err
    # Nothing else that comes in lets these through, and no file, command line or variable could have them.
    if serializer.HasNul(sections):
        raise _Malformed("a value has a NUL character")
    try:
        serializer.CheckTexts(sections)
    except errors.ParseError as err:
        raise _Malformed(str(err)) from err
    for section in (_EXPORT, _INSTANCE):
        if section not in sections:
            raise _Malformed(f"section [{section}] is missing")
    export, instance = sections[_EXPORT], sections[_INSTANCE]
    _CheckVersion(export)
    _CheckCompression(export)
    return Export(
        timestamp=_Number(export, "timestamp"),
        os=export.get("os"),
        name=_Needed(instance, "name"),
        disk_template=instance.get("disk_template"),
        hypervisor=instance.get("hypervisor"),
        tags=tuple((instance.get("tags") or "").split()),
        disks=_Disks(instance),
        nics=_Nics(instance),
        hvparams={k: v for k, v in sections.get(_HYPERVISOR, {}).items() if k not in hv.GLOBALS},
        beparams=be.UpgradeMemory(_Present(sections.get(_BACKEND) or _OldBackend(instance))),
        osparams=_Present(sections.get(_OS, {})),
        osparams_private=_Present(sections.get(_OS_PRIVATE, {})),
    )


def _Malformed(problem: str) -> errors.ParseError:
    return errors.ParseError(f"{FILE_NAME}: {problem}")


def _CheckVersion(export: _Values) -> None:
    found = _Needed(export, "version")
    if found != str(constants.EXPORT_VERSION):
        raise _Malformed(f"Wrong export version {found[:40]} (wanted {constants.EXPORT_VERSION})")


def _CheckCompression(export: _Values) -> None:
    """Only what travels is compressed; a release that left it so would have its disks written as they are."""
    found = export.get("compression") or constants.NO_COMPRESSION
    if found != constants.NO_COMPRESSION:
        raise _Malformed(
            f"the disks are compressed ({found[:40]}): unpack the files, and write 'compression = {constants.NO_COMPRESSION}'"
        )


def _Needed(values: _Values, key: str) -> str:
    found = values.get(key)
    if not found:
        raise _Malformed(f"'{key}' is missing")
    return found


def _Number(values: _Values, key: str, most: int = 10**_MOST_DIGITS) -> int | None:
    text = values.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise _Malformed(f"'{key}' must be a whole number, found {text[:40]!r}")
    if int(text) > most:
        raise _Malformed(f"'{key}' must be {most} at most, found {text}")
    return int(text)


def _Present(values: _Values) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _OldBackend(instance: _Values) -> dict[str, str | None]:
    """Return the backend parameters of a file that has no section for them."""
    return {name: instance[name] for name in be.INPUT_TABLE if name in instance}


def _Count(values: _Values, kind: str, key: str, most: int) -> int:
    """Return how many disks or NICs there are: as many as the file says or, if it does not, as it describes."""
    found = _Number(values, f"{kind}_count", most)
    if found is not None:
        return found
    return next((index for index in range(most) if f"{kind}{index}_{key}" not in values), most)


def _Disks(instance: _Values) -> tuple[ExportedDisk, ...]:
    return tuple(_Disk(instance, index) for index in range(_Count(instance, "disk", "size", constants.MAX_DISKS)))


def _Disk(instance: _Values, index: int) -> ExportedDisk:
    size = _Number(instance, f"disk{index}_size")
    if size is None:
        raise _Malformed(f"the size of disk {index} is missing")
    dump = instance.get(f"disk{index}_dump") or None
    if dump is not None and not _IsFileName(dump):
        raise _Malformed(
            f"{dump[:40]!r} is not a valid name for the content of disk {index}: it must name a file in the same directory"
        )
    return ExportedDisk(size, instance.get(f"disk{index}_name"), dump)


def _IsFileName(name: str) -> bool:
    """Return whether the name is that of a file beside config.ini and nothing else, on a shell's line too."""
    return name.isprintable() and "/" not in name and name[0] not in ".-" and len(name.encode()) <= _LONGEST_NAME


def _Nics(instance: _Values) -> tuple[dict[str, str | None], ...]:
    count = _Count(instance, "nic", "mac", constants.MAX_NICS)
    return tuple({key: instance.get(f"nic{index}_{key}") for key in NIC_KEYS} for index in range(count))
