"""Checks across the whole configuration (doc/reference/config.md 20).

StructuralProblems are those with which no master may start; VerifyConfig finds everything that is wrong, and
prevents nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ganeti import constants, ht, params
from ganeti.objects.cluster import Cluster
from ganeti.objects.instance import Disk, Instance
from ganeti.objects.node import Node, NodeGroup
from ganeti.objects.snapshot import KIND_MAPS, Snapshot
from ganeti.params import be, disk, hv, ipolicy, nd, nic
from ganeti.params.types import Table, TypeProblems
from ganeti.utils.text import JoinFirst

# Of many that share something, so many are named.
_LISTED = 10
_MAC = re.compile("[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def StructuralProblems(root: Snapshot) -> list[str]:
    """Return why no master may start with this configuration; empty if one may."""
    cluster = root.cluster
    problems = []
    if not cluster.enabled_hypervisors:
        problems.append("cluster: enabled_hypervisors is empty")
    problems += [
        f"cluster: enabled_hypervisors has '{name}', for which there are no hvparams"
        for name in cluster.enabled_hypervisors
        if name not in cluster.hvparams
    ]
    if not cluster.enabled_disk_templates:
        problems.append("cluster: enabled_disk_templates is empty")
    if cluster.master_node not in root.nodes:
        problems.append(f"cluster: master_node {cluster.master_node} is not a node of the configuration")
    for kind, attribute, _ in KIND_MAPS:
        for uuid, obj in getattr(root, attribute).items():
            if obj.uuid != uuid:
                problems.append(f"{kind} stored under {uuid} has the uuid {obj.uuid}")
    for node in root.nodes.values():
        if node.group not in root.nodegroups:
            problems.append(f"{node.label}: group {node.group} does not exist")
    for instance in root.instances.values():
        problems.extend(_DanglingInstance(root, instance))
    return problems


def _DanglingInstance(root: Snapshot, instance: Instance) -> Iterator[str]:
    if instance.primary_node not in root.nodes and not (instance.forthcoming and instance.primary_node is None):
        yield f"{instance.label}: primary node {instance.primary_node} does not exist"
    for uuid in instance.disks:
        if uuid not in root.disks:
            yield f"{instance.label}: disk {uuid} does not exist"


def VerifyConfig(root: Snapshot) -> list[str]:
    """Return Everything that is wrong, one text each, naming the object."""
    problems = StructuralProblems(root)
    for check in _CHECKS:
        problems.extend(check(root))
    return problems


def _Shared(root: Snapshot, what: str, *kinds: str) -> Iterator[tuple[Any, str]]:
    """Yield (value, labels of its users) of each value that is used more than once; the users are of these kinds."""
    for value, users in root.AllUsers(what):
        if len(users) > 1:
            found = [obj for uuid in users for kind in kinds if (obj := root.Find(kind, uuid)) is not None]
            yield value, JoinFirst([obj.label for obj in found], _LISTED)


def _Namesakes(root: Snapshot, kind: str, plural: str) -> Iterator[str]:
    for name, users in root.AllUsers(f"{kind} name"):
        if len(users) > 1:
            yield f"{kind} '{name}': several {plural} have this name: {', '.join(users)}"


def _Labelled(obj: Any, look: Callable[[Any], Iterable[str]]) -> list[str]:
    return [f"{obj.label}: {text}" for text in look(obj)]


def _Twice(pairs: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, list[str]]]:
    """Yield (value, owners) of each value that more than one owner has."""
    owners: dict[Any, list[str]] = {}
    for value, owner in pairs:
        owners.setdefault(value, []).append(owner)
    return ((value, found) for value, found in owners.items() if len(found) > 1)


# --- cluster ----------------------------------------------------------------------------------------------------------


def _CheckCluster(root: Snapshot) -> Iterator[str]:
    cluster = root.cluster
    for name in cluster.enabled_hypervisors:
        if name not in hv.TABLES:
            yield f"cluster: unknown hypervisor '{name}' is enabled"
    for name in cluster.enabled_disk_templates:
        if name not in disk.TEMPLATES:
            yield f"cluster: unknown disk template '{name}' is enabled"
    for text in _ClusterParamProblems(cluster):
        yield f"cluster: {text}"
    for text in ipolicy.SyntaxProblems(cluster.ipolicy, is_group=False):
        yield f"cluster: {text}"
    for template, values in cluster.diskparams.items():
        yield from (f"cluster: {text}" for text in _DiskParamProblems(template, values))


def _ClusterParamProblems(cluster: Cluster) -> Iterator[str]:
    for name, values in cluster.hvparams.items():
        if name in hv.TABLES:
            problems = TypeProblems(values, hv.TABLES[name]) or hv.SyntaxProblems(name, values)
            yield from (f"hvparams of {name}: {text}" for text in problems)
    for os_name, by_hv in cluster.os_hvp.items():
        for name, values in by_hv.items():
            if name in hv.TABLES:
                yield from (f"os_hvp of {os_name}, {name}: {text}" for text in TypeProblems(values, hv.TABLES[name]))
    yield from _Checked("beparams", cluster.beparams.get(be.PP_DEFAULT, {}), be.TABLE, be.SyntaxProblems)
    yield from _Checked("nicparams", cluster.nicparams.get(constants.PP_DEFAULT, {}), nic.TABLE, nic.SyntaxProblems)
    yield from _Checked("ndparams", cluster.ndparams, nd.TABLE, nd.SyntaxProblems)


def _Checked(
    what: str, values: Mapping[str, Any], table: Table, syntax: Callable[[Mapping[str, Any]], list[str]]
) -> Iterator[str]:
    """Yield problems of type, else of syntax."""
    return (f"{what}: {text}" for text in TypeProblems(values, table) or syntax(values))


def _DiskParamProblems(template: str, values: Mapping[str, Any]) -> list[str]:
    if template not in disk.TEMPLATES:
        return [f"diskparams: unknown disk template '{template}'"]
    found = [f"diskparams of {template}: {text}" for text in TypeProblems(values, disk.TEMPLATES[template].params)]
    return found or disk.SyntaxProblems(template, values)


def _CheckCandidates(root: Snapshot) -> Iterator[str]:
    master = root.master
    if master is not None and not master.master_candidate:
        yield f"{master.label}: it is the master and no master candidate"
    eligible = sum(node.is_eligible for node in root.nodes.values())
    now = sum(node.master_candidate for node in root.nodes.values())
    wanted = min(root.cluster.candidate_pool_size, eligible)
    if now < wanted:
        yield f"cluster: {now} master candidates, there should be {wanted}"


# --- nodes and groups -------------------------------------------------------------------------------------------------


def _CheckNodes(root: Snapshot) -> Iterator[str]:
    for node in root.nodes.values():
        yield from node.Derived((), functools.partial(_Labelled, node, _NodeProblems))
    yield from _Namesakes(root, "node", "nodes")


def _NodeProblems(node: Node) -> Iterator[str]:
    flags = [name for name in ("master_candidate", "drained", "offline") if getattr(node, name)]
    if len(flags) > 1:
        yield f"it is {' and '.join(flags)}, only one of them is possible"
    yield from _Checked("ndparams", node.ndparams, nd.TABLE, nd.SyntaxProblems)
    forbidden = sorted(nd.GLOBALS.intersection(node.ndparams))
    if forbidden:
        yield f"ndparams: {', '.join(forbidden)} cannot be set for a node"


def _CheckGroups(root: Snapshot) -> Iterator[str]:
    for group in root.nodegroups.values():
        yield from (f"{group.label}: {text}" for text in _GroupProblems(root, group))
    yield from _Namesakes(root, "nodegroup", "groups")


def _GroupProblems(root: Snapshot, group: NodeGroup) -> Iterator[str]:
    if ht.TUuid(group.name):
        yield "its name looks like a uuid"
    yield from ipolicy.SyntaxProblems(group.ipolicy, is_group=True)
    yield from _Checked("ndparams", group.ndparams, nd.TABLE, nd.SyntaxProblems)
    for template, values in group.diskparams.items():
        # Each value is fine by itself in some that do not go together.
        yield from _DiskParamProblems(template, {**root.cluster.diskparams.get(template, {}), **values})
    for uuid, values in group.networks.items():
        if uuid not in root.networks:
            yield f"network {uuid} does not exist"
        yield from _Checked(f"network {uuid}", values, nic.TABLE, nic.SyntaxProblems)


def _CheckNetworks(root: Snapshot) -> Iterator[str]:
    yield from _Namesakes(root, "network", "networks")


# --- instances and disks ----------------------------------------------------------------------------------------------


def _CheckInstances(root: Snapshot) -> Iterator[str]:
    for instance in root.instances.values():
        if not instance.forthcoming:
            yield from _FoundOf(root, instance).problems
    yield from _Namesakes(root, "instance", "instances")
    for mac, owners in _Shared(root, "MAC address", "instance"):
        yield f"MAC address {mac} is used by several NICs: {owners}"


class _Found(NamedTuple):
    """What is wrong with an instance; and ((link, address, network), label) of each NIC that has an address."""

    problems: list[str]
    addresses: list[tuple[Any, str]]


def _FoundOf(root: Snapshot, instance: Instance) -> _Found:
    """Look at an instance, unless nothing has changed since it was looked at last."""
    about = (root.cluster.nicparams, root.nodes, root.networks, *(root.disks.get(uuid) for uuid in instance.disks))

    def look() -> _Found:
        problems = [f"{instance.label}: {text}" for text in _InstanceProblems(root, instance)]
        return _Found(problems, list(_NicAddresses(root, instance)))

    return instance.Derived(about, look)


def _NicAddresses(root: Snapshot, instance: Instance) -> Iterator[tuple[Any, str]]:
    for index, item in enumerate(instance.nics):
        if item.ip is not None:
            filled = params.FillNIC(root, item)
            link = f"{filled.get(nic.NIC_MODE)}:{filled.get(nic.NIC_LINK)}"
            yield (link, item.ip, item.network), f"{instance.label} (NIC {index})"


def _InstanceProblems(root: Snapshot, instance: Instance) -> Iterator[str]:
    if instance.hypervisor in hv.TABLES:
        yield from (f"hvparams: {text}" for text in TypeProblems(instance.hvparams, hv.TABLES[instance.hypervisor]))
    else:
        yield f"unknown hypervisor '{instance.hypervisor}'"
    yield from _Checked("beparams", instance.beparams, be.TABLE, be.SyntaxProblems)
    for index, item in enumerate(instance.nics):
        filled = params.FillNIC(root, item)
        yield from _Checked(f"NIC {index}", filled, nic.TABLE, nic.SyntaxProblems)
        if not _MAC.fullmatch(item.mac):
            yield f"NIC {index}: '{item.mac[:40]}' is not a valid MAC address"
        if item.network is not None and item.network not in root.networks:
            yield f"NIC {index}: network {item.network} does not exist"
    yield from _InstanceDiskProblems(root, instance)


def _InstanceDiskProblems(root: Snapshot, instance: Instance) -> Iterator[str]:
    for index, uuid in enumerate(instance.disks):
        dev = root.disks.get(uuid)
        if dev is None:
            continue  # a structural problem, found already
        if dev.iv_name != f"disk/{index}":
            yield f"disk {index} has the iv_name '{dev.iv_name}', it must be 'disk/{index}'"
        for node in dev.nodes:
            if node not in root.nodes:
                yield f"disk {index}: node {node} does not exist"


def _CheckDisks(root: Snapshot) -> Iterator[str]:
    for dev in root.disks.values():
        if not dev.forthcoming:
            yield from dev.Derived((), functools.partial(_Labelled, dev, _DiskProblems))
    for uuid, owners in _Shared(root, "attached disk", "instance"):
        yield f"disk {uuid} belongs to several instances or more than once: {owners}"


def _DiskProblems(dev: Disk) -> Iterator[str]:
    for part in dev.Walk():
        template = disk.TEMPLATES.get(part.dev_type)
        if template is None or not template.has_disks:
            yield f"unknown disk template '{part.dev_type}'"
        wanted = template.id_items if template else 2
        if len(part.logical_id) != wanted:
            yield f"logical_id must have {wanted} items, it has {len(part.logical_id)}"
        access = part.params.get(disk.ACCESS, disk.KERNELSPACE)
        if access not in (disk.KERNELSPACE, disk.USERSPACE):
            yield f"access must be {disk.KERNELSPACE} or {disk.USERSPACE}, found '{access}'"


# --- numbers and addresses --------------------------------------------------------------------------------------------


def _CheckPorts(root: Snapshot) -> Iterator[str]:
    cluster = root.cluster
    pool = cluster.tcpudp_port_pool
    shared = dict(_Shared(root, "port", "instance", "disk"))
    for port in dict.fromkeys(pool):
        users = [obj.label for uuid in root.Users("port", port) if (obj := _UserOfPort(root, uuid)) is not None]
        if len(users) + pool.count(port) > 1:
            shared[port] = JoinFirst(["the pool of free ports"] * pool.count(port) + users, _LISTED)
    for port, owners in shared.items():
        yield f"port {port} is used more than once: {owners}"
    numbers = [port for port, _ in root.AllUsers("port") if isinstance(port, int)]
    top = max([*numbers, *pool], default=0)
    if top > cluster.highest_used_port:
        yield f"cluster: highest_used_port is {cluster.highest_used_port}, port {top} is in use"


def _UserOfPort(root: Snapshot, uuid: str) -> Instance | Disk | None:
    return root.instances.get(uuid) or root.disks.get(uuid)


def _CheckMinors(root: Snapshot) -> Iterator[str]:
    for (node, minor), owners in _Shared(root, "minor", "disk"):
        found = root.nodes.get(node)
        name = found.label if found is not None else f"node {node}"
        yield f"{name}: DRBD minor {minor} is used more than once: {owners}"


def _CheckAddresses(root: Snapshot) -> Iterator[str]:
    users: list[tuple[Any, str]] = [(root.cluster.master_ip, "cluster")]
    for node in root.nodes.values():
        users.append((node.primary_ip, f"{node.label} (primary)"))
        if node.secondary_ip != node.primary_ip:
            users.append((node.secondary_ip, f"{node.label} (secondary)"))
    for ip, owners in _Twice(users):
        yield f"address {ip} is used more than once: {JoinFirst(owners, _LISTED)}"
    links = [pair for instance in root.instances.values() for pair in _FoundOf(root, instance).addresses]
    for (link, ip, _), owners in _Twice(links):
        yield f"address {ip} on {link} is used more than once: {JoinFirst(owners, _LISTED)}"


_CHECKS: tuple[Callable[[Snapshot], Iterator[str]], ...] = (
    _CheckCluster,
    _CheckCandidates,
    _CheckNodes,
    _CheckGroups,
    _CheckNetworks,
    _CheckInstances,
    _CheckDisks,
    _CheckPorts,
    _CheckMinors,
    _CheckAddresses,
)
