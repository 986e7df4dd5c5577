"""Disks and NICs on the command line: definitions for new instances, changes for existing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli.parser import Options
from ganeti.utils.text import ParseUnit, Suggestion

ACTIONS = ("add", "attach", "modify", "remove", "detach")
_REMOVALS = ("remove", "detach")

Item = tuple[str, Any]


def _Index(text: str, what: str, limit: int) -> int:
    index = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    if index is None or index >= limit:
        raise errors.OpPrereqError(
            f"Invalid {what} index passed: '{text}' (expected a number from 0 to {limit - 1})", errors.ECODE_INVAL
        )
    return index


def _Unit(text: Any, what: str) -> int:
    try:
        return ParseUnit(str(text))
    except errors.UnitParseError as err:
        raise errors.OpPrereqError(f"Invalid size for {what}: {err}", errors.ECODE_INVAL) from err


def _ByIndex(items: Iterable[Item], what: str, limit: int) -> list[dict[str, Any]]:
    """Return the definitions by index; missing ones are empty."""
    found: dict[int, dict[str, Any]] = {}
    for text, values in items:
        index = _Index(text, what, limit)
        if not isinstance(values, dict):
            raise errors.OpPrereqError(f"Invalid {what}/{index} value: expected KEY=VALUE pairs", errors.ECODE_INVAL)
        found[index] = values
    return [found.get(index, {}) for index in range(max(found, default=-1) + 1)]


# --- new instances ----------------------------------------------------------------------------------------------------


def NewDisks(options: Options) -> list[dict[str, Any]]:
    """Return the disks of ``--disk`` or ``-s`` for a new instance."""
    from ganeti.params import disk as disk_params

    items = list(options.disks or [])
    if options.disk_template in disk_params.With(has_disks=False):
        if items or options.sd_size is not None:
            raise errors.OpPrereqError("Diskless instance but disk information passed", errors.ECODE_INVAL)
        return []
    if options.sd_size is not None:
        if items:
            raise errors.OpPrereqError("Please use either the '--disk' or '-s' option", errors.ECODE_INVAL)
        items = [("0", {"size": options.sd_size})]
    if not items:
        raise errors.OpPrereqError("No disk information specified", errors.ECODE_INVAL)
    return [_NewDisk(index, dict(values)) for index, values in enumerate(_ByIndex(items, "disk", constants.MAX_DISKS))]


def _NewDisk(index: int, disk: dict[str, Any]) -> dict[str, Any]:
    if not disk:
        return disk
    if "size" in disk:
        if "adopt" in disk:
            raise errors.OpPrereqError(f"Only one of 'size' and 'adopt' allowed (disk {index})", errors.ECODE_INVAL)
        disk["size"] = _Unit(disk["size"], f"disk {index}")
    elif "adopt" in disk:
        if "spindles" in disk:
            raise errors.OpPrereqError(f"An adopted disk has its spindles already (disk {index})", errors.ECODE_INVAL)
        disk["size"] = 0
    else:
        misspelled = [f"Unknown key '{key}'. {found}" for key in disk if (found := Suggestion(key, ("size", "adopt")))]
        raise errors.OpPrereqError(
            f"Missing size or adoption source for disk {index}",
            errors.ECODE_INVAL,
            hint=misspelled[0] if misspelled else f"give its size: --disk {index}:size=20g",
        )
    return _Checked(disk, index)


def _Checked(disk: dict[str, Any], index: Any) -> dict[str, Any]:
    """Return the disk with its spindles as a number; what is wrong is said in the words of the option."""
    mode = disk.get("mode", constants.DISK_RDWR)
    if mode not in (constants.DISK_RDONLY, constants.DISK_RDWR):
        raise errors.OpPrereqError(
            f"Invalid mode for disk {index}: '{mode}' (expected {constants.DISK_RDONLY} or {constants.DISK_RDWR})",
            errors.ECODE_INVAL,
        )
    if "spindles" in disk:
        try:
            disk["spindles"] = int(disk["spindles"])
        except ValueError:
            raise errors.OpPrereqError(
                f"Invalid spindles for disk {index}: {disk['spindles']}", errors.ECODE_INVAL
            ) from None
    return disk


def NewNics(options: Options) -> list[dict[str, Any]]:
    """Return the NICs of ``--net``; without it one with automatic values, with ``--no-nics`` none."""
    if options.no_nics:
        if options.nics:
            raise errors.OpPrereqError("Please use either --no-nics or --net", errors.ECODE_INVAL)
        return []
    if not options.nics:
        return [{}]
    return _ByIndex(options.nics, "NIC", constants.MAX_NICS)


# --- existing disks ---------------------------------------------------------------------------------------------------


def DiskIndex(text: str) -> int:
    """Return the number of a disk; raise OpPrereqError if it cannot be one."""
    return _Index(text, "disk", constants.MAX_DISKS)


def DisksToRecreate(options: Options) -> list[list[Any]]:
    """Return ``--disk N`` or ``--disk N:KEY=VALUE,...`` of recreate-disks as [[index, new values]]."""
    disks = []
    for text, values in options.disks:
        index = DiskIndex(text)
        if not isinstance(values, dict):
            raise errors.OpPrereqError(f"Invalid disk/{index} value: expected KEY=VALUE pairs", errors.ECODE_INVAL)
        settings = dict(values)
        if "size" in settings:
            settings["size"] = _Unit(settings["size"], f"disk {index}")
        disks.append([index, _Checked(settings, index)])
    return disks


# --- changes ----------------------------------------------------------------------------------------------------------


def _ParseChange(identifier: str, values: Any) -> list[Any]:
    """Return one ``--disk`` or ``--net`` of a modification as [action, identifier, values]."""
    settings: dict[str, Any] = dict(values) if isinstance(values, Mapping) else {}
    if identifier in ("add", "attach"):
        return [identifier, -1, settings]
    if identifier in _REMOVALS:
        if settings:
            raise errors.OpPrereqError("Not accepting parameters on removal/detach", errors.ECODE_INVAL)
        return [identifier, -1, {}]
    words = [word for word in ACTIONS if settings.pop(word, None) is True]
    if len(words) > 1:
        raise errors.OpPrereqError(
            f"Give only one of the words {', '.join(ACTIONS)} for one device",
            errors.ECODE_INVAL,
        )
    action = words[0] if words else "modify"
    if action in _REMOVALS and settings:
        raise errors.OpPrereqError("Not accepting parameters on removal/detach", errors.ECODE_INVAL)
    try:
        return [action, int(identifier), settings]
    except ValueError:
        return [action, identifier, settings]


def _Changes(items: Sequence[Item] | None, complete: Callable[[list[Any]], None]) -> list[list[Any]]:
    changes = [_ParseChange(identifier, values) for identifier, values in items or []]
    for change in changes:
        complete(change)
    return changes


def DiskChanges(options: Options) -> list[list[Any]]:
    """Return the ``--disk`` options of a modification as [[action, index or name, values]]."""

    def complete(change: list[Any]) -> None:
        action, identifier, values = change
        if "size" in values:
            values["size"] = _Unit(values["size"], f"disk {identifier}")
        elif action == "add":
            raise errors.OpPrereqError(
                "Missing required parameter 'size'", errors.ECODE_INVAL, hint="write it as in '--disk add:size=10g'"
            )
        _Checked(values, identifier)

    return _Changes(options.disks, complete)


def NicChanges(options: Options) -> list[list[Any]]:
    """Return the ``--net`` options of a modification as [[action, index or name, values]]."""
    return _Changes(options.nics, lambda _: None)
