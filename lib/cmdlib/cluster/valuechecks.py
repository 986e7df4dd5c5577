"""Checks of values of the cluster object, the same when a cluster is made and when it is modified.

Each raises OpPrereqError that names the value; none asks a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ganeti import constants
from ganeti.cmdlib.common import Invalid
from ganeti.params import checks


def CheckChoice(what: str, chosen: Sequence[str], known: Collection[str]) -> None:
    """Check a list of enabled hypervisors or disk templates."""
    if not chosen:
        raise Invalid(f"Enabled {what} list must contain at least one member")
    unknown = [value for value in chosen if value not in known]
    if unknown:
        raise Invalid(
            f"Enabled {what} contains invalid entries: {', '.join(unknown)}", hint=f"known are: {', '.join(known)}"
        )
    if len(set(chosen)) != len(chosen):
        raise Invalid(f"Enabled {what} list contains duplicates: {', '.join(chosen)}")


def CheckNetmask(netmask: int, family: int) -> None:
    """Check the netmask of the master address; ``family``: of primary addresses."""
    highest = 128 if family == constants.IP6_FAMILY else 32
    if not 0 < netmask <= highest:
        raise Invalid(f"CIDR netmask {netmask} is not valid: it must be 1 to {highest}")


def CheckImage(name: str, image: str) -> None:
    """Check the place of an image; "" is none."""
    if image and not (checks.IsAbsNormPath(image) or checks.IsUrl(image)):
        raise Invalid(f"{name} must be an absolute path or a URL, not '{image[:80]}'")


def CheckCompressionTools(names: Iterable[str]) -> None:
    for name in names:
        if not checks.IsCompressionTool(name):
            raise Invalid(f"Invalid compression tool name '{name[:60]}': {checks.COMPRESSION_TOOL_RULE}")


def CheckVolumeGroup(name: str) -> None:
    if not checks.IsVolumeGroupName(name):
        raise Invalid(f"'{name[:60]}' is not a valid name of a volume group: letters, digits and + _ . - are allowed")


def CheckInterface(name: str) -> None:
    if not checks.IsInterfaceName(name):
        raise Invalid(f"'{name[:60]}' is not a valid name of a network interface")
