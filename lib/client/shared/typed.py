"""Parameter options, converted to the types of their tables before anything is submitted.

The tables are imported when an option was given: most commands run without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ganeti import constants, errors

# Values that reset a parameter where that makes sense.
RESET = (constants.VALUE_DEFAULT, None)

Groups = Iterable[tuple[str, Any]]


def _Force(values: Mapping[str, Any], table: Any, allowed: Collection[Any], subject: str) -> dict[str, Any]:
    from ganeti.params.types import ForceDictType

    return ForceDictType(dict(values), table, allowed, subject)


def Backend(values: Mapping[str, Any], allowed: Collection[Any] = ()) -> dict[str, Any]:
    """Return the values of ``-B``; ``memory`` stays, as the master sets two parameters from it."""
    if not values:
        return {}
    from ganeti.params import be

    return _Force(values, be.INPUT_TABLE, allowed, "backend parameter")


def Nic(values: Mapping[str, Any], allowed: Collection[Any] = ()) -> dict[str, Any]:
    if not values:
        return {}
    from ganeti.params import nic

    return _Force(values, nic.TABLE, allowed, "NIC parameter")


def Node(values: Mapping[str, Any] | None, allowed: Collection[Any] = ()) -> dict[str, Any] | None:
    """Return the values of ``--node-parameters``; None if the option was not given."""
    if values is None:
        return None
    from ganeti.params import nd

    return _Force(values, nd.TABLE, allowed, "node parameter")


def Hypervisor(
    values: Mapping[str, Any], hypervisor: str | None = None, allowed: Collection[Any] = ()
) -> dict[str, Any]:
    """Return the values of ``-H key=value``, without a hypervisor by the names of all; blanks in usb_devices become commas."""
    if not values:
        return {}
    from ganeti.params import hv

    if hypervisor is None:
        table: Any = {name: param for one in hv.TABLES.values() for name, param in one.items()}
    else:
        table = hv.Table(hypervisor)
    typed = _Force(values, table, allowed, "hypervisor parameter")
    if isinstance(typed.get("usb_devices"), str):
        typed["usb_devices"] = typed["usb_devices"].replace(" ", ",")
    return typed


def Grouped(option: str, groups: Groups) -> dict[str, dict[str, Any]]:
    """Return the values of repeated ``name:key=value,...`` by name; reject removals, which make no sense here."""
    result: dict[str, dict[str, Any]] = {}
    for name, values in groups:
        if not isinstance(values, dict):
            raise errors.OpPrereqError(f"Option {option}: '{name}' cannot be removed", errors.ECODE_INVAL)
        result.setdefault(name, {}).update(values)
    return result


def Hypervisors(groups: Groups, allowed: Collection[Any] = ()) -> dict[str, dict[str, Any]]:
    """Return the values of repeated ``-H hypervisor:key=value,...`` by hypervisor."""
    by_name = Grouped("-H", groups)
    for name in by_name:
        if name not in constants.HYPER_TYPES:
            raise errors.OpPrereqError(f"Unknown hypervisor '{name}'", errors.ECODE_INVAL)
    return {name: Hypervisor(values, name, allowed) for name, values in by_name.items()}


def DiskParameters(groups: Groups, allowed: Collection[Any] = ()) -> dict[str, dict[str, Any]]:
    """Return the values of repeated ``-D template:key=value,...`` by template."""
    by_name = Grouped("-D", groups)
    if not by_name:
        return {}
    from ganeti.params import disk

    for name in by_name:
        if name not in disk.TEMPLATES:
            raise errors.OpPrereqError(f"Unknown disk template '{name}'", errors.ECODE_INVAL)
    return {
        name: _Force(values, disk.TEMPLATES[name].params, allowed, f"parameter of disk template {name}")
        for name, values in by_name.items()
    }


def HypervisorState(groups: Groups) -> dict[str, dict[str, Any]] | None:
    """Return the values of repeated ``--hypervisor-state`` by hypervisor; None if not given."""
    by_name = Grouped("--hypervisor-state", groups)
    if not by_name:
        return None
    for name in by_name:
        if name not in constants.HYPER_TYPES:
            raise errors.OpPrereqError(f"Unknown hypervisor '{name}' in option --hypervisor-state", errors.ECODE_INVAL)
    from ganeti.params import nd

    return {name: _Force(values, nd.HV_STATE_TABLE, (), "state") for name, values in by_name.items()}


def DiskState(groups: Groups) -> dict[str, dict[str, Any]] | None:
    """Return the values of repeated ``--disk-state`` as type -> name -> state; None if not given."""
    by_name = Grouped("--disk-state", groups)
    if not by_name:
        return None
    from ganeti.params import nd

    result: dict[str, dict[str, Any]] = {}
    for name, values in by_name.items():
        kind, slash, storage = name.partition("/")
        if not slash:
            raise errors.OpPrereqError(f"Disk state '{name}' must be TYPE/NAME", errors.ECODE_INVAL)
        result.setdefault(kind, {})[storage] = _Force(values, nd.DISK_STATE_TABLE, (), "state")
    return result


def Integer(option: str, text: str | None) -> int | None:
    """Return the number of an option that takes any text in 3.1."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.OpPrereqError(f"Option {option}: '{text}' is not a number", errors.ECODE_INVAL) from None
