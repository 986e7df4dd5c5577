"""What the cluster object becomes by a request: merged, typed and checked, without asking any node (doc/reference/drivers.md d.10)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ganeti import constants, errors, objects, params, uidpool
from ganeti.cmdlib import policy
from ganeti.cmdlib.cluster.valuechecks import (
    CheckChoice,
    CheckCompressionTools,
    CheckImage,
    CheckInterface,
    CheckNetmask,
    CheckVolumeGroup,
)
from ganeti.cmdlib.common import (
    CheckNoProblems,
    ForceNdParams,
    ForceNodeState,
    ForceTypes,
    Invalid,
    MergeNodeState,
    NoCommunication,
)
from ganeti.cmdlib.instance.base import CheckBeLimits, CheckHvSyntax
from ganeti.config.values import NormalizeMACPrefix
from ganeti.objects.base import Freeze
from ganeti.objects.cluster import DATA_COLLECTORS, DEFAULT_COLLECTOR_INTERVAL
from ganeti.params import be, checks, disk, hv, nd, nic
from ganeti.utils.text import JoinFirst, NiceSort

_LISTED = 5
# Requests that become the field of the same name as they are.
_AS_GIVEN = (
    "enabled_disk_templates",
    "enabled_hypervisors",
    "candidate_pool_size",
    "max_running_jobs",
    "max_tracked_jobs",
    "maintain_node_health",
    "prealloc_wipe_disks",
    "modify_etc_hosts",
    "use_external_mip_script",
    "default_iallocator",
    "default_iallocator_params",
    "master_netdev",
    "master_netmask",
    "reserved_lvs",
    "file_storage_dir",
    "shared_file_storage_dir",
    "gluster_storage_dir",
    "install_image",
    "zeroing_image",
    "compression_tools",
    "enabled_user_shutdown",
    "instance_communication_network",
)
_OS_LISTS = ("hidden_os", "blacklisted_os")
_ADD, _REMOVE = "add", "remove"
_MAX_INTERVAL = 10**15  # microseconds


def CheckSimple(op: Any, cluster: objects.Cluster) -> None:
    """Check what the request alone shows."""
    for name, known in (
        ("enabled_hypervisors", constants.HYPER_TYPES),
        ("enabled_disk_templates", disk.TEMPLATES),
    ):
        chosen = getattr(op, name)
        if chosen is not None:
            CheckChoice(name.removeprefix("enabled_").replace("_", " "), chosen, known)
    for name in ("uid_pool", "add_uids", "remove_uids"):
        if getattr(op, name):
            uidpool.CheckUidPool(getattr(op, name))
    if op.master_netmask is not None:
        CheckNetmask(op.master_netmask, cluster.primary_ip_family)
    for name in ("install_image", "zeroing_image"):
        CheckImage(name, getattr(op, name) or "")
    CheckCompressionTools(op.compression_tools or ())
    if op.mac_prefix:
        op.mac_prefix = NormalizeMACPrefix(op.mac_prefix)
    if op.vg_name:
        CheckVolumeGroup(op.vg_name)
    if op.max_running_jobs is not None and op.max_running_jobs > constants.MAX_RUNNING_JOBS:
        raise Invalid(
            f"{_Short(op.max_running_jobs)} jobs cannot run at a time: at most {constants.MAX_RUNNING_JOBS} can"
        )
    if op.master_netdev is not None:
        CheckInterface(op.master_netdev)
    if op.instance_communication_network:
        raise NoCommunication()
    for pattern in op.reserved_lvs or ():
        _CheckPattern(pattern)
    _CheckCollectors(op, cluster)


def _Short(number: int) -> str:
    text = str(number)
    return text if len(text) <= 20 else f"{text[:17]}..."


def _CheckPattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as err:
        raise Invalid(f"Reserved LV expression '{pattern[:80]}' is not a valid regular expression: {err}") from err


def _CheckCollectors(op: Any, cluster: objects.Cluster) -> None:
    """Accept the values that are there, which a cluster of 3.1 brings along; nothing reads them."""
    for values in (op.enabled_data_collectors, op.data_collector_interval):
        unknown = sorted(set(values or ()) - set(DATA_COLLECTORS))
        if unknown:
            raise Invalid(f"Unknown data collector: {', '.join(unknown)[:200]}; known are {', '.join(DATA_COLLECTORS)}")
    for name, interval in (op.data_collector_interval or {}).items():
        if not 0 < interval <= _MAX_INTERVAL:
            raise Invalid(f"Interval of data collector {name} must be above zero and at most {_MAX_INTERVAL} us")
    if _Collectors(cluster, op)["data_collectors"] != {
        name: dict(own) for name, own in cluster.data_collectors.items()
    }:
        raise Invalid("Data collectors are not supported in this release: there is no monitoring daemon")


def NewValues(snapshot: objects.Snapshot, op: Any) -> dict[str, Any]:
    """Return the fields of the cluster object that a request changes, with what they become.

    OpPrereqError names what cannot be.
    """
    cluster = snapshot.cluster
    values: dict[str, Any] = {name: getattr(op, name) for name in _AS_GIVEN if getattr(op, name) is not None}
    for name, field in (("vg_name", "volume_group_name"), ("drbd_helper", "drbd_usermode_helper")):
        if getattr(op, name) is not None:
            values[field] = getattr(op, name) or None
    if op.mac_prefix:
        values["mac_prefix"] = op.mac_prefix
    values.update(_Hypervisors(cluster, op))
    values.update(_Instances(cluster, op))
    if "diskparams" in values:
        after = snapshot.WithObject(cluster.Replace(diskparams=values["diskparams"]))
        for group in (None, *snapshot.nodegroups.values()):
            CheckFilledDiskParams(after, group, op.diskparams)
    values.update(_Nodes(cluster, op))
    values.update(_Uids(cluster, op))
    values.update(_Collectors(cluster, op))
    if op.ipolicy:
        values["ipolicy"] = policy.UpdatedPolicy(cluster.ipolicy, op.ipolicy, is_group=False)
    return {name: value for name, value in values.items() if not Same(getattr(cluster, name), value)}


def Same(stored: Any, value: Any) -> bool:
    """Return whether a value is what is stored, whatever it is kept in."""
    return bool(Freeze(value) == stored)


# --- parameter sets -------------------------------------------------------------------------------------------------------


def _Hypervisors(cluster: objects.Cluster, op: Any) -> dict[str, Any]:
    """Return hvparams: the known values under the new ones; one that becomes enabled gets all its defaults."""
    hvparams = {name: dict(values) for name, values in cluster.hvparams.items()}
    for name, given in (op.hvparams or {}).items():
        if name not in hv.TABLES:
            raise Invalid(f"Unknown hypervisor '{name[:60]}' in hvparams; known are {', '.join(constants.HYPER_TYPES)}")
        typed = ForceTypes(given, hv.TABLES[name], subject=f"{name} parameter")
        hvparams[name] = {**hv.DEFAULTS[name], **hvparams.get(name, {}), **typed}
    for name in op.enabled_hypervisors or ():
        hvparams[name] = {**hv.DEFAULTS[name], **hvparams.get(name, {})}
    for name in {*(op.hvparams or ()), *(op.enabled_hypervisors or ())}:
        CheckHvSyntax(name, hvparams[name])
    values: dict[str, Any] = {"hvparams": hvparams}
    if op.os_hvp:
        values["os_hvp"] = _OsHvp(cluster, op.os_hvp, hvparams)
    return values


def _OsHvp(
    cluster: objects.Cluster, changes: Mapping[str, Any], hvparams: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """By OS and hypervisor; null takes the entry of a hypervisor away."""
    result = {os: {name: dict(own) for name, own in by_hv.items()} for os, by_hv in cluster.os_hvp.items()}
    for os_name, by_hv in changes.items():
        own = result.setdefault(os_name, {})
        for name, given in by_hv.items():
            if name not in hv.TABLES:
                raise Invalid(f"Unknown hypervisor '{name[:60]}' in os_hvp of {os_name}")
            if given is None:
                own.pop(name, None)
                continue
            typed = ForceTypes(given, hv.TABLES[name], subject=f"{name} parameter")
            own[name] = {**own.get(name, {}), **typed}
            CheckHvSyntax(name, {**hvparams.get(name, hv.DEFAULTS[name]), **own[name]})
    return result


def _Instances(cluster: objects.Cluster, op: Any) -> dict[str, Any]:
    """Return the defaults of instances: backend, NICs, disks, operating systems."""
    values: dict[str, Any] = {}
    if op.beparams:
        typed = be.UpgradeMemory(ForceTypes(op.beparams, be.INPUT_TABLE, subject="backend parameter"))
        filled = {**cluster.beparams.get(be.PP_DEFAULT, be.DEFAULTS), **typed}
        CheckNoProblems(be.SyntaxProblems(filled))
        CheckBeLimits(filled)
        values["beparams"] = {**cluster.beparams, be.PP_DEFAULT: filled}
    if op.nicparams:
        given = dict(op.nicparams)
        if "vlan" in given and isinstance(given["vlan"], str):
            given["vlan"] = nic.NormalizeVlan(given["vlan"])
        own = ForceTypes(given, nic.TABLE, subject="NIC parameter")
        filled = {**cluster.nicparams.get(constants.PP_DEFAULT, nic.DEFAULTS), **own}
        CheckNoProblems(nic.SyntaxProblems(filled))
        values["nicparams"] = {**cluster.nicparams, constants.PP_DEFAULT: filled}
    if op.diskparams:
        values["diskparams"] = UpdatedDiskParams(cluster.diskparams, op.diskparams)
    for name in ("osparams", "osparams_private_cluster"):
        if getattr(op, name):
            values[name] = _OsParams(getattr(cluster, name), getattr(op, name))
    for name in _OS_LISTS:
        if getattr(op, name):
            values[name] = _OsList(getattr(cluster, name), getattr(op, name))
    return values


def UpdatedDiskParams(
    old: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Mapping[str, Any]], defaults: bool = False
) -> dict[str, dict[str, Any]]:
    """By template; with ``defaults`` (in a group) the value ``default`` takes a parameter away, and empty sets go."""
    result = {template: dict(own) for template, own in old.items()}
    for template, given in changes.items():
        if template not in disk.TEMPLATES:
            raise Invalid(f"Unknown disk template '{template[:60]}' in diskparams")
        allowed = (constants.VALUE_DEFAULT, None) if defaults else ()
        typed = ForceTypes(dict(given), disk.TEMPLATES[template].params, allowed, f"{template} disk parameter")
        own = params.GetUpdatedParams(result.get(template, {}), typed, use_default=defaults, use_none=defaults)
        CheckNoProblems(disk.SyntaxProblems(template, own))
        result[template] = own
    return {template: own for template, own in result.items() if own or not defaults}


def CheckFilledDiskParams(
    snapshot: objects.Snapshot, group: objects.NodeGroup | None, templates: Collection[str]
) -> None:
    """Raise OpPrereqError if parameters of these templates do not go together where they are used.

    ``group``: None for what the cluster says alone.
    """
    filled = params.FillDiskParams(snapshot, group)
    for template in templates:
        CheckNoProblems(disk.SyntaxProblems(template, filled[template]), "" if group is None else group.label)


def _OsParams(old: Mapping[str, Mapping[str, str]], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """By OS; null and ``default`` take a parameter away, an OS without any disappears."""
    result = {os_name: dict(own) for os_name, own in old.items()}
    for os_name, given in changes.items():
        result[os_name] = params.GetUpdatedParams(result.get(os_name, {}), given, use_none=True)
        wrong = sorted(name for name, value in result[os_name].items() if not isinstance(value, str))
        if wrong:
            raise Invalid(f"OS parameters of {os_name} must be texts: {', '.join(wrong)}")
        if not result[os_name]:
            del result[os_name]
    return result


def _OsList(old: tuple[str, ...], changes: list[list[str]]) -> list[str]:
    """Return the new list; adding what is there, or removing what is not, does nothing."""
    result = list(old)
    for action, name in changes:
        if action == _ADD and name not in result:
            result.append(name)
        elif action == _REMOVE and name in result:
            result.remove(name)
        elif action not in (_ADD, _REMOVE):
            raise Invalid(f"Invalid modification '{action}' of an OS list: use add or remove")
    return result


def _Nodes(cluster: objects.Cluster, op: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if op.ndparams:
        typed = ForceNdParams(op.ndparams, "the cluster", of_node=False)
        reset = {name: nd.DEFAULTS[name] for name, value in typed.items() if value in (constants.VALUE_DEFAULT, None)}
        values["ndparams"] = {**cluster.ndparams, **typed, **reset}
    hv_state, disk_state = ForceNodeState(op.hv_state, op.disk_state)
    if hv_state is not None:
        values["hv_state_static"] = MergeNodeState(cluster.hv_state_static, hv_state)
    if disk_state is not None:
        values["disk_state_static"] = MergeNodeState(cluster.disk_state_static, disk_state)
    return values


def _Uids(cluster: objects.Cluster, op: Any) -> dict[str, Any]:
    """Return the new pool: a whole new one first, then what is added, then what is removed."""
    pool: Any = cluster.uid_pool
    if op.uid_pool is not None:
        pool = uidpool.AddToUidPool([], op.uid_pool)
    if op.add_uids:
        pool = uidpool.AddToUidPool(pool, op.add_uids)
    if op.remove_uids:
        pool = uidpool.RemoveFromUidPool(pool, op.remove_uids)
    return {"uid_pool": [list(pair) for pair in pool]}


def _Collectors(cluster: objects.Cluster, op: Any) -> dict[str, Any]:
    result = {name: dict(own) for name, own in cluster.data_collectors.items()}
    for name, active in (op.enabled_data_collectors or {}).items():
        result.setdefault(name, {"interval": DEFAULT_COLLECTOR_INTERVAL})["active"] = active
    for name, interval in (op.data_collector_interval or {}).items():
        result.setdefault(name, {"active": True})["interval"] = interval
    return {"data_collectors": result}


# --- what must hold afterwards --------------------------------------------------------------------------------------------


def CheckNics(after: objects.Snapshot) -> None:
    """Check that every instance's NICs fit the new defaults."""
    problems = []
    for inst in after.instances.values():
        for index, item in enumerate(inst.nics):
            filled = params.FillNIC(after, item)
            found = nic.SyntaxProblems(filled)
            if filled[nic.NIC_MODE] == constants.NIC_MODE_ROUTED and not item.ip:
                found.append("routed NIC with no ip address")
            problems += [f"Instance {inst.known_as}, nic/{index}: {text}" for text in found]
    if problems:
        raise Invalid(f"Cannot apply the change, errors: {'; '.join(problems[:20])}")


def CheckTemplates(before: objects.Snapshot, after: objects.Snapshot, op: Any) -> None:
    """Check that no template in use is disabled, and that policies allow enabled ones only."""
    enabled = after.cluster.enabled_disk_templates
    gone = set(before.cluster.enabled_disk_templates) - set(enabled)
    for inst in before.instances.values():
        used = {dev.dev_type for dev in before.InstanceDisks(inst)} or disk.With(has_disks=False)
        if used & gone:
            raise Invalid(
                f"Cannot disable disk template '{sorted(used & gone)[0]}', because instance {inst.known_as} is using it"
            )
    if op.ipolicy or op.enabled_disk_templates is not None:
        policy.CheckTemplates(after.cluster.ipolicy, enabled)
        for group in after.nodegroups.values():
            try:
                policy.CheckTemplates(group.ipolicy, enabled)
            except errors.OpPrereqError as err:
                raise Invalid(f"Node group {group.name}: {err}") from err


def CheckStorage(before: objects.Snapshot, after: objects.Snapshot, op: Any) -> None:
    """Check that volume group and DRBD helper are set where they are needed."""
    enabled = set(after.cluster.enabled_disk_templates)
    lvm = disk.With(lvm=True)
    used = {dev.dev_type for dev in before.disks.values()}
    helped = disk.With(helper=True)
    if not after.cluster.volume_group_name:
        if op.vg_name is not None and used & lvm:
            raise Invalid(f"Cannot disable lvm storage while lvm-based instances exist: {_Having(before, lvm)}")
        if enabled & lvm and (op.vg_name is not None or op.enabled_disk_templates is not None):
            raise Invalid(
                "Cannot have no volume group while lvm-based disk templates are enabled:"
                f" {', '.join(sorted(enabled & lvm))}"
            )
    if op.drbd_helper == "" and used & helped:
        raise Invalid(f"Cannot disable drbd helper while drbd-based instances exist: {_Having(before, helped)}")
    changed = op.drbd_helper is not None or op.enabled_disk_templates is not None
    if enabled & helped and changed and not after.cluster.drbd_usermode_helper:
        raise Invalid(
            "Cannot enable disk template drbd without a usermode helper: pass --drbd-usermode-helper="
            f"{disk.DEFAULT_DRBD_HELPER}, which does nothing, and load the module with it on every node"
            f" ('modprobe drbd usermode_helper={disk.DEFAULT_DRBD_HELPER}')"
        )


def FileDirectories() -> dict[str, str]:
    """Return the cluster's fields with directories -> the template whose files lie there."""
    return {template.directory: name for name, template in disk.TEMPLATES.items() if template.directory}


def CheckDirectories(before: objects.Snapshot, after: objects.Snapshot) -> list[str]:
    """Check that each enabled template has the directory that it needs; return warnings for unused ones."""
    warnings = []
    for name, template in FileDirectories().items():
        path = getattr(after.cluster, name)
        enabled = template in after.cluster.enabled_disk_templates
        newly = enabled and template not in before.cluster.enabled_disk_templates
        if path == getattr(before.cluster, name) and not newly:
            continue
        if path and not checks.IsAbsNormPath(path):
            raise Invalid(f"{name} must be an absolute, normalised path, not '{path[:80]}'")
        if enabled and not path:
            raise Invalid(f"Disk template '{template}' is enabled and needs a directory: {name} cannot be empty")
        if path and not enabled:
            warnings.append(f"Storage directory {path} is set although disk template '{template}' is not enabled")
    return warnings


def _Having(snapshot: objects.Snapshot, templates: Collection[str]) -> str:
    """Return whose disks are of these templates: the first names of instances, and the detached disks."""
    found: set[str] = set()
    for dev in snapshot.disks.values():
        if dev.dev_type in templates:
            owner = snapshot.DiskOwner(dev.uuid)
            found.add(f"detached disk {dev.uuid}" if owner is None else snapshot.instances[owner].known_as)
    return JoinFirst(NiceSort(found), _LISTED)
