"""Configurations of other releases: the only place that knows their shapes.

::

    2.0 ... 2.16 --> 3.0 --> 3.1        UpgradeConfig: a step for each release that changed the data
                     3.0 <-- 3.1        DowngradeConfig: only to the release before

Works on the parsed file, before any object is made of it; what every release's reader fills in by itself is left to
``configfile.LoadConfig``.  Converted files keep every key that is not named here.

Glossary:

step
    what one release changed in the data (doc/reference/config.md 21)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ganeti import constants, errors
from ganeti.upgrade import early

V2_0 = 2000000
V2_11 = 2110000
V2_16 = 2160000
V3_0 = 3000000
V3_1 = constants.CONFIG_VERSION

# The 3.0 of the original followed its 2.16.
_RELEASES = (*range(V2_0, V2_16 + 1, 10000), V3_0, V3_1)

_XEN = (constants.HT_XEN_PVM, constants.HT_XEN_HVM)
_XEN_CMD = "xen_cmd"
_DOWNGRADED_XEN_CMD = "xl"


class Step(NamedTuple):
    """What release ``target`` changed; ``convert`` changes the data in place."""

    target: int
    convert: Callable[[dict[str, Any]], None]


def VersionText(version: int) -> str:
    """Return ``3010000`` as people write it."""
    return f"{version // 1000000}.{version // 10000 % 100}"


def UpgradeConfig(data: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a parsed config.data in the form of this release; ``data`` of this release comes back unchanged.

    ConfigurationError for a release that is too old, too new, or not one: its hint says what to do.
    """
    version = Version(data)
    if version not in _RELEASES:
        raise _Unsupported(version)
    result = copy.deepcopy(data)
    for step in UPGRADES:
        if version < step.target:
            step.convert(result)
    result["version"] = V3_1
    return result


def DowngradeConfig(data: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a parsed config.data of this release in the form of 3.0."""
    version = Version(data)
    if version != V3_1:
        raise errors.ConfigurationError(
            f"only a configuration of {VersionText(V3_1)} can be taken back to {VersionText(V3_0)}, "
            f"this one is of {VersionText(version)}"
        )
    result = copy.deepcopy(data)
    _To30(result)
    result["version"] = V3_0
    return result


def Version(data: Any) -> int:
    """Return the version of the file without its revision, which never stood for a change of the format."""
    version = data.get("version") if isinstance(data, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1000000:
        raise errors.ConfigurationError(
            "the configuration has no version number",
            hint="make sure the file is a complete config.data; take it from another master candidate otherwise",
        )
    return version - version % 10000


def _Unsupported(version: int) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        f"a configuration of {VersionText(version)} cannot be upgraded to {VersionText(V3_1)}: "
        f"this release reads {VersionText(V2_0)} to {VersionText(V2_16)}, {VersionText(V3_0)} and its own",
        hint=f"install the release that wrote it, or take it back to {VersionText(V3_1)} or older with that release",
    )


# --- steps ------------------------------------------------------------------------------------------------------------


def _KvmSets(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every set of KVM parameters: of the cluster, of operating systems, of instances."""
    yield early.At(data, "cluster", "hvparams", constants.HT_KVM)
    for by_hypervisor in early.At(data, "cluster", "os_hvp").values():
        yield early.At(by_hypervisor, constants.HT_KVM)
    for instance in early.Items(data, "instances"):
        if instance.get("hypervisor") == constants.HT_KVM:
            yield early.At(instance, "hvparams")


def _To30From216(data: dict[str, Any]) -> None:
    """Add the type of SSH keys, which files from before 2.16 lack; 3.0 itself changed the version number only."""
    cluster = early.At(data, "cluster")
    if "ssh_key_type" not in cluster:
        cluster.update(ssh_key_type="dsa", ssh_key_bits=1024)


def _To31(data: dict[str, Any]) -> None:
    """Remove the choice of a Xen tool, since xl is the only one, and the discard value ``default``."""
    for name in _XEN:
        early.At(data, "cluster", "hvparams", name).pop(_XEN_CMD, None)
    for values in _KvmSets(data):
        if values.get("disk_discard") == "default":
            values["disk_discard"] = "ignore"


def _To30(data: dict[str, Any]) -> None:
    """Take back what 3.0 cannot read."""
    hvparams = early.At(data, "cluster", "hvparams")
    for name in _XEN:
        if name in hvparams:
            early.At(hvparams, name)[_XEN_CMD] = _DOWNGRADED_XEN_CMD


UPGRADES = (
    Step(2010000, early.To21),
    Step(2060000, early.To26),
    Step(2080000, early.To28),
    Step(2090000, early.To29),
    Step(2120000, early.To212),
    Step(2140000, early.To214),
    Step(V2_16, early.To216),
    Step(V3_0, _To30From216),
    Step(V3_1, _To31),
)
