"""Reading config.data: version check and what is filled in or put right on the way (doc/reference/config.md 19).

First every stored object gets the keys it needs to be read at all, then the objects are completed: what is missing is
appended behind what the file has, so that a complete file comes out as it went in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ganeti import constants, errors, params, runtime, serializer
from ganeti.objects.base import Show
from ganeti.objects.cluster import Cluster
from ganeti.objects.instance import Instance
from ganeti.objects.node import Node, NodeGroup
from ganeti.objects.snapshot import KIND_MAPS, Snapshot
from ganeti.params import be, disk, hv, ipolicy, nd, nic
from ganeti.utils.text import JoinFirst

_DROPPED_TOP_KEYS = ("maintenance",)
_DROPPED_NETWORK_KEYS = ("network_type", "family")
_OLD_DEVICE_TYPES = {"lvm": constants.DT_PLAIN, "drbd8": constants.DT_DRBD8}
MAX_CONFIG = 512 * 1024 * 1024


def LoadConfig(text: str | bytes) -> Snapshot:
    """Return the root of a config.data of this release, normalised; any other version is a ConfigVersionMismatch.

    ConfigurationError says which object and key cannot be read.  Checks across objects: StructuralProblems and
    VerifyConfig.
    """
    try:
        data = serializer.LoadProper(text, limit=MAX_CONFIG)
    except errors.ParseError as err:
        raise errors.ConfigurationError(f"the configuration cannot be read: {err}") from err
    return LoadDict(data)


def LoadDict(data: Any) -> Snapshot:
    """Return LoadConfig for a file that is parsed already; ``data`` belongs to the callee."""
    if not isinstance(data, dict):
        raise errors.ConfigurationError(f"the configuration must be a JSON object, found {Show(data)}")
    CheckVersion(data)
    for key in ("cluster", *(attribute for _, attribute, _ in KIND_MAPS)):
        if not isinstance(data.setdefault(key, {}), dict):
            raise errors.ConfigurationError(
                f"the configuration's key '{key}' must be an object, found {Show(data[key])}"
            )
    for key in _DROPPED_TOP_KEYS:
        data.pop(key, None)
    _Prepare(data)
    return Normalise(Snapshot.FromDict(data))


def CheckVersion(data: Mapping[str, Any]) -> None:
    version = data.get("version")
    if version != constants.CONFIG_VERSION or isinstance(version, bool):
        raise errors.ConfigVersionMismatch(
            constants.CONFIG_VERSION, version if isinstance(version, int) else "no number"
        )


# --- stored dictionaries ----------------------------------------------------------------------------------------------


def _Objects(data: Mapping[str, Any], attribute: str) -> Iterable[dict[str, Any]]:
    return [item for item in data[attribute].values() if isinstance(item, dict)]


def _Prepare(data: dict[str, Any]) -> None:
    """Put in what an object cannot be read without.  What has a wrong type is left for the reader to reject."""
    _PrepareUuids(data)
    for item in _Objects(data, "disks"):
        _PrepareDisk(item)
    for item in _Objects(data, "instances"):
        _PrepareInstance(item)
    for item in _Objects(data, "networks"):
        for key in _DROPPED_NETWORK_KEYS:
            item.pop(key, None)
    if not data["nodegroups"]:
        _AddDefaultGroup(data)
    if len(data["nodegroups"]) == 1:
        for item in _Objects(data, "nodes"):
            if item.get("group") is None:
                item["group"] = next(iter(data["nodegroups"]))
    _PrepareCluster(data)


def _PrepareUuids(data: dict[str, Any]) -> None:
    """Give every object a uuid that lacks one: that under which it is stored, or a new one."""
    cluster = data["cluster"]
    if cluster and cluster.get("uuid") is None:
        cluster["uuid"] = runtime.NewUuid()
    for _, attribute, _ in KIND_MAPS:
        for key, item in data[attribute].items():
            if isinstance(item, dict):
                if item.get("uuid") is None:
                    item["uuid"] = key
                for part in _Embedded(item):
                    if part.get("uuid") is None:
                        part["uuid"] = runtime.NewUuid()


def _Embedded(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects within a stored object: NICs, children of a disk and theirs."""
    for key in ("nics", "children"):
        parts = item.get(key)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield part
                yield from _Embedded(part)


def _PrepareDisk(item: dict[str, Any]) -> None:
    kind = item.get("dev_type")
    if isinstance(kind, str):
        item["dev_type"] = _OLD_DEVICE_TYPES.get(kind, kind)
    children = item.get("children")
    if isinstance(children, list):
        for child in children:
            if isinstance(child, dict):
                _PrepareDisk(child)


def _PrepareInstance(item: dict[str, Any]) -> None:
    if item.get("disks_active") is None and item.get("admin_state") is not None:
        item["disks_active"] = item["admin_state"] == constants.ADMINST_UP


def _AddDefaultGroup(data: dict[str, Any]) -> None:
    uuid = runtime.NewUuid()
    now = runtime.Time()
    data["nodegroups"][uuid] = {
        "name": constants.INITIAL_NODE_GROUP_NAME,
        "uuid": uuid,
        "serial_no": 1,
        "ctime": now,
        "mtime": now,
    }


def _PrepareCluster(data: dict[str, Any]) -> None:
    cluster = data["cluster"]
    bridge = cluster.pop("default_bridge", None)
    cluster.pop("default_hypervisor", None)
    if cluster.get("nicparams") is None:
        own = {nic.NIC_LINK: bridge} if isinstance(bridge, str) and bridge else {}
        cluster["nicparams"] = {constants.PP_DEFAULT: {**nic.DEFAULTS, **own}}
    if cluster.get("master_netmask") is None:
        cluster["master_netmask"] = 128 if cluster.get("primary_ip_family") == constants.IP6_FAMILY else 32
    if cluster.get("enabled_disk_templates") is None:
        cluster["enabled_disk_templates"] = _InferTemplates(data)


def _InferTemplates(data: Mapping[str, Any]) -> list[str]:
    """Return the templates in use, for a file that does not say which ones are enabled."""
    found = {kind for item in _Objects(data, "disks") if isinstance(kind := item.get("dev_type"), str)}
    if any(not item.get("disks") for item in _Objects(data, "instances")):
        found.add(constants.DT_DISKLESS)
    if data["cluster"].get("volume_group_name"):
        found.update((constants.DT_DRBD8, constants.DT_PLAIN))
    return [template for template in sorted(disk.TEMPLATES) if template in found]


# --- objects ----------------------------------------------------------------------------------------------------------


def Complete(own: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``own`` with what it lacks of ``defaults`` behind it."""
    return {**own, **{key: value for key, value in defaults.items() if key not in own}}


def Normalise(root: Snapshot) -> Snapshot:
    """Return the root with every parameter set in the shape that 3.1 keeps it in."""
    cluster = _NormaliseCluster(root.cluster)
    enabled = cluster.enabled_disk_templates
    return root.Replace(
        cluster=cluster,
        nodes={uuid: _NormaliseNode(node) for uuid, node in root.nodes.items()},
        nodegroups={uuid: _NormaliseGroup(group, enabled) for uuid, group in root.nodegroups.items()},
        instances={uuid: _NormaliseInstance(instance) for uuid, instance in root.instances.items()},
    )


def _NormaliseCluster(cluster: Cluster) -> Cluster:
    beparams = dict(cluster.beparams)
    beparams[be.PP_DEFAULT] = Complete(be.UpgradeMemory(beparams.get(be.PP_DEFAULT, {})), be.DEFAULTS)
    nicparams = dict(cluster.nicparams)
    nicparams[constants.PP_DEFAULT] = Complete(nicparams.get(constants.PP_DEFAULT, {}), nic.DEFAULTS)
    helper = cluster.drbd_usermode_helper
    if not helper and constants.DT_DRBD8 in cluster.enabled_disk_templates:
        helper = disk.DEFAULT_DRBD_HELPER
    return cluster.Replace(
        hvparams=_CompleteSets(cluster.hvparams, hv.DEFAULTS),
        beparams=beparams,
        nicparams=nicparams,
        ndparams=Complete(cluster.ndparams, nd.DEFAULTS),
        diskparams=_CompleteSets(cluster.diskparams, disk.AllDefaults()),
        ipolicy=_NormalisePolicy(cluster.ipolicy, cluster.enabled_disk_templates),
        drbd_usermode_helper=helper,
    )


def _CompleteSets(own: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    result = dict(own)
    for name, values in defaults.items():
        result[name] = Complete(own.get(name, {}), values)
    return result


def _NormalisePolicy(own: Mapping[str, Any], enabled: Iterable[str]) -> dict[str, Any]:
    unknown = sorted(own.keys() - set(ipolicy.ALL_KEYS))
    if unknown:
        raise errors.ConfigurationError(
            f"cluster: key 'ipolicy' has unknown keys {JoinFirst(unknown, 5)}; known are {', '.join(ipolicy.ALL_KEYS)}"
        )
    policy = Complete(own, ipolicy.DEFAULTS)
    if isinstance(policy[ipolicy.STD], Mapping):
        policy[ipolicy.STD] = Complete(policy[ipolicy.STD], ipolicy.DEFAULTS[ipolicy.STD])
    return _EnabledOnly(policy, enabled)


def _EnabledOnly(policy: Mapping[str, Any], enabled: Iterable[str]) -> dict[str, Any]:
    """Return a policy whose disk templates are cut to the enabled ones."""
    result = dict(policy)
    templates = result.get(ipolicy.DISK_TEMPLATES)
    if isinstance(templates, (list, tuple)):
        result[ipolicy.DISK_TEMPLATES] = [name for name in templates if name in enabled]
    return result


def _NormaliseGroup(group: NodeGroup, enabled: Iterable[str]) -> NodeGroup:
    return group.Replace(
        members=(),
        ipolicy=_EnabledOnly(group.ipolicy, enabled),
        networks={uuid: Complete(values, nic.DEFAULTS) for uuid, values in group.networks.items()},
    )


def _NormaliseNode(node: Node) -> Node:
    if nd.GLOBALS.isdisjoint(node.ndparams):
        return node
    return node.Replace(ndparams=params.FillDict(node.ndparams, {}, nd.GLOBALS))


def _NormaliseInstance(instance: Instance) -> Instance:
    changes: dict[str, Any] = {}
    if not hv.GLOBALS.isdisjoint(instance.hvparams):
        changes["hvparams"] = params.FillDict(instance.hvparams, {}, hv.GLOBALS)
    if be.BE_MEMORY in instance.beparams:
        changes["beparams"] = be.UpgradeMemory(instance.beparams)
    return instance.Replace(**changes) if changes else instance
