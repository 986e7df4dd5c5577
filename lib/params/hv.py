"""Hypervisor parameters: tables, traits and the checks that the master can do (doc/reference/parameters.md 1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import constants, errors, pathutils
from ganeti.params import hv_kvm, hv_others
from ganeti.params.types import Defaults, Param, ValueProblems

if TYPE_CHECKING:
    from ganeti import objects

TABLES: dict[str, dict[str, Param]] = {
    constants.HT_FAKE: hv_others.FAKE,
    constants.HT_CHROOT: hv_others.CHROOT,
    constants.HT_KVM: hv_kvm.TABLE,
    constants.HT_XEN_PVM: hv_others.XEN_PVM,
    constants.HT_XEN_HVM: hv_others.XEN_HVM,
    constants.HT_LXC: hv_others.LXC,
}
DEFAULTS: dict[str, dict[str, Any]] = {name: Defaults(table) for name, table in TABLES.items()}

# Those that this release has a driver for (hypervisor.DRIVERS).
DRIVEN = frozenset([constants.HT_FAKE, constants.HT_KVM])

# Every name that any hypervisor knows, for --help and query fields; equal names have one meaning everywhere.
ALL_NAMES = tuple(sorted({name for table in TABLES.values() for name in table}))

# Settable on the cluster only, whatever the hypervisor.
GLOBALS = frozenset(name for table in TABLES.values() for name, param in table.items() if param.is_global)

_OF_NODE = frozenset(name for table in TABLES.values() for name, param in table.items() if param.of_node)
# Texts for the guest's kernel, and what lists of CPUs and their features look like.  Any other text is one word: QEMU takes
# a comma for the beginning of an option of its own, and a slash is that of a file.
_FREE_TEXTS = frozenset(["kernel_args", "root_path"])
_LIST_PARAMETERS = frozenset(["cpu_type", "cpuid"])
_LIST_TEXT = re.compile(r"[-+=:,.\w]*", re.ASCII)
_WORD = re.compile(r"[-+.\w]*", re.ASCII)
# What a guest is given to boot from; none of it where the value is empty, while an empty file of a password would mean none.
_BOOTED = frozenset(["cdrom2_image_path", "cdrom_image_path", "floppy_image_path", "initrd_path", "kernel_path"])
# What makes no sense without something else.
NEEDS = {("boot_order", hv_kvm.BOOT_CDROM): "cdrom_image_path"}
# Ways to show a disk on which the guest sends commands to the device itself, past the boundaries of its volume.
_PAST_THE_VOLUME = frozenset(["scsi-block", "scsi-generic"])


def IsOfGuest(name: str, value: Any) -> bool:
    """Return whether a value decides only what the guest sees of its machine: nothing of the node, and no rights there."""
    if name in _BOOTED and not value:
        return True
    if name in _OF_NODE or value in _PAST_THE_VOLUME:
        return False
    if not isinstance(value, str) or name in _FREE_TEXTS:
        return True
    return (_LIST_TEXT if name in _LIST_PARAMETERS else _WORD).fullmatch(value) is not None


_CROSS_CHECKS: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    constants.HT_KVM: hv_kvm.CrossProblems,
    constants.HT_XEN_PVM: hv_others.PvmCrossProblems,
}


_ASSESSMENTS: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {constants.HT_KVM: hv_kvm.Assess}


class HVTraits(NamedTuple):
    """What the master has to know of a hypervisor.

    ``files``: (path, optional) that vm_capable nodes need.  ``boot_disk``: parameters with which a guest boots from its first
    disk, and has no other drives, unless it has a kernel of its node; None where no guest boots from a disk.  ``own_system``:
    besides, those with which it has no such kernel, and Linux calls its disks ``disk_prefix`` and a letter each.
    """

    needs_port: bool
    can_migrate: bool
    multi_cpu_mask: bool
    ordered_versions: bool = False  # a running guest can move to the same or a newer version only
    files: tuple[tuple[str, bool], ...] = ()
    boot_disk: Mapping[str, Any] | None = None
    own_system: Mapping[str, Any] = MappingProxyType({})
    disk_prefix: str = "/dev/vd"


_XEN_FILES = ((pathutils.XEN_CONFIG_DIR + "/xl.conf", True), (pathutils.XEN_CONFIG_DIR + "/scripts/vif-bridge", False))

TRAITS: dict[str, HVTraits] = {
    constants.HT_FAKE: HVTraits(needs_port=False, can_migrate=True, multi_cpu_mask=False),
    constants.HT_CHROOT: HVTraits(needs_port=False, can_migrate=False, multi_cpu_mask=False),
    constants.HT_KVM: HVTraits(
        needs_port=True,
        can_migrate=True,
        multi_cpu_mask=True,
        ordered_versions=True,
        files=((pathutils.KVM_VIF_BRIDGE, True),),
        boot_disk={
            "boot_order": hv_kvm.BOOT_DISK,
            "cdrom_image_path": "",
            "cdrom2_image_path": "",
            "floppy_image_path": "",
        },
        own_system={"kernel_path": "", "disk_type": "paravirtual"},
    ),
    constants.HT_XEN_PVM: HVTraits(
        needs_port=False,
        can_migrate=True,
        multi_cpu_mask=True,
        files=_XEN_FILES,
        boot_disk={},
        disk_prefix="/dev/xvd",
    ),
    constants.HT_XEN_HVM: HVTraits(
        needs_port=True,
        can_migrate=True,
        multi_cpu_mask=True,
        files=(*_XEN_FILES, (pathutils.VNC_PASSWORD_FILE, True)),
        boot_disk={"boot_order": "c", "cdrom_image_path": ""},
        own_system={"disk_type": "paravirtual"},
        disk_prefix="/dev/xvd",
    ),
    constants.HT_LXC: HVTraits(needs_port=False, can_migrate=False, multi_cpu_mask=False),
}


def IsSafeMove(hypervisor: str, source: Any, target: Any) -> bool:
    """Return whether a running guest can go from one version of the hypervisor to another, as the nodes name them."""
    if not TRAITS[hypervisor].ordered_versions:
        return True
    return _VersionKey(source) <= _VersionKey(target)


def _VersionKey(version: Any) -> list[int]:
    text = ".".join(map(str, version)) if isinstance(version, (list, tuple)) else str(version)
    return [int(number) for number in re.findall(r"\d+", text)][:2]


# Parameters whose value names a file with a password: the files in use are sent to the nodes.
PASSWORD_FILES = ("vnc_password_file", "spice_password_file")


def Table(hypervisor: str) -> dict[str, Param]:
    """Return the parameters of one hypervisor; HypervisorError for a name that is none."""
    table = TABLES.get(hypervisor)
    if table is None:
        raise errors.HypervisorError(
            f"Unknown hypervisor '{hypervisor[:80]}'", hint=f"known are {', '.join(constants.HYPER_TYPES)}"
        )
    return table


def SyntaxProblems(hypervisor: str, values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a full set of parameters, as far as one can tell without a node."""
    table = TABLES.get(hypervisor)
    if table is None:
        return [f"unknown hypervisor '{hypervisor[:80]}'"]
    problems = [f"parameter '{name}' is not supported" for name in values if name not in table]
    problems += [f"parameter '{name}' is missing" for name in table if name not in values]
    problems += ValueProblems(values, table)
    if not problems and hypervisor in _CROSS_CHECKS:
        problems.extend(_CROSS_CHECKS[hypervisor](values))
    return sorted(problems)


def Assess(hypervisor: str, values: Mapping[str, Any]) -> list[str]:
    """Return what a full set of correct parameters permits although it is seldom wanted."""
    return list(_ASSESSMENTS[hypervisor](values)) if hypervisor in _ASSESSMENTS else []


def NodeChecks(hypervisor: str, values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what a node has to look for: (parameter, kind of check, value), for the values that are set."""
    found = []
    for name, param in Table(hypervisor).items():
        value = values.get(name)
        if value and param.check is not None and param.check.node is not None:
            found.append((name, param.check.node, value))
    return found


def GlobalProblems(values: Iterable[str], where: str) -> list[str]:
    """Return the names that can be set on the cluster only, as a problem; ``where`` names the object asked for."""
    found = sorted(GLOBALS.intersection(values))
    if not found:
        return []
    return [
        f"Hypervisor parameters of {where} cannot contain cluster-wide ones: {', '.join(found)}; "
        "use 'gnt-cluster modify' to change them"
    ]


def OfCluster(cluster: objects.Cluster) -> dict[str, dict[str, Any]]:
    """Return the cluster's parameters of all enabled hypervisors, as calls that ask nodes for their guests take them."""
    return {name: dict(cluster.hvparams.get(name, {})) for name in cluster.enabled_hypervisors}


def AncillaryFiles(snapshot: objects.Snapshot) -> dict[str, bool]:
    """Return files that vm_capable nodes need for the enabled hypervisors: path to "may be missing".

    Password files named by any parameter set in use count too, the cluster's own and those of single instances.
    """
    cluster = snapshot.cluster
    files: dict[str, bool] = {}
    sets: list[Mapping[str, Any]] = [cluster.hvparams.get(name, {}) for name in cluster.enabled_hypervisors]
    sets += [values for by_hv in cluster.os_hvp.values() for values in by_hv.values()]
    sets += [instance.hvparams for instance in snapshot.instances.values()]
    for values in sets:
        for name in PASSWORD_FILES:
            path = values.get(name)
            if isinstance(path, str) and path:
                files[path] = True
    for name in cluster.enabled_hypervisors:
        if name in TRAITS:
            files.update(TRAITS[name].files)
    return files
