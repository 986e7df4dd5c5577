"""Inheritance of parameters on a snapshot (doc/reference/config.md 15): the weakest level first, each stronger one on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors
from ganeti.params import be, disk, hv, ipolicy, nd
from ganeti.params.types import FillDict

if TYPE_CHECKING:
    from ganeti import objects

_NONE: Mapping[str, Any] = {}


def HVDefaults(
    cluster: objects.Cluster, hypervisor: str, os_name: str | None = None, skip_globals: bool = False
) -> dict[str, Any]:
    """Return what an instance of this hypervisor and OS has without own values.

    The OS is looked up by its whole name with the variant; there is no second look-up by the bare name.
    """
    values = cluster.hvparams.get(hypervisor, _NONE)
    if os_name is not None:
        values = {**values, **cluster.os_hvp.get(os_name, _NONE).get(hypervisor, _NONE)}
    return FillDict(values, _NONE, hv.GLOBALS if skip_globals else ())


def FillHV(snapshot: objects.Snapshot, instance: objects.Instance, skip_globals: bool = False) -> dict[str, Any]:
    """Return hypervisor parameters: cluster < OS < instance.  The instance cannot override cluster-wide ones."""
    defaults = HVDefaults(snapshot.cluster, instance.hypervisor, instance.os, skip_globals)
    return {**defaults, **{k: v for k, v in instance.hvparams.items() if k not in hv.GLOBALS}}


def FillBE(snapshot: objects.Snapshot, instance: objects.Instance) -> dict[str, Any]:
    """Return backend parameters: cluster < instance."""
    return {**BEDefaults(snapshot.cluster), **be.UpgradeMemory(instance.beparams)}


def BEDefaults(cluster: objects.Cluster, be_type: str = be.PP_DEFAULT) -> dict[str, Any]:
    return dict(cluster.beparams.get(be_type, _NONE))


def FillNIC(snapshot: objects.Snapshot, nic: objects.NIC) -> dict[str, Any]:
    """Return NIC parameters: cluster < NIC."""
    return SimpleFillNIC(snapshot.cluster, nic.nicparams)


def SimpleFillNIC(cluster: objects.Cluster, nicparams: Mapping[str, Any]) -> dict[str, Any]:
    return {**cluster.nicparams.get(constants.PP_DEFAULT, _NONE), **nicparams}


def FillND(snapshot: objects.Snapshot, node: objects.Node) -> dict[str, Any]:
    """Return node parameters: cluster < group < node, which cannot override the global ones."""
    group = snapshot.nodegroups.get(node.group)
    values = {**snapshot.cluster.ndparams, **(group.ndparams if group is not None else _NONE)}
    return {**values, **{k: v for k, v in node.ndparams.items() if k not in nd.GLOBALS}}


def FillNDGroup(snapshot: objects.Snapshot, group: objects.NodeGroup) -> dict[str, Any]:
    """Return node parameters: cluster < group."""
    return {**snapshot.cluster.ndparams, **group.ndparams}


def OSDefaults(levels: Mapping[str, Mapping[str, str]], os_name: str | None) -> dict[str, str]:
    """Return the cluster's values for an OS: those of the bare name < those of name+variant."""
    if not os_name:
        return {}
    base = os_name.split("+", 1)[0]
    values = dict(levels.get(base, _NONE))
    if os_name != base:
        values.update(levels.get(os_name, _NONE))
    return values


def FillOS(snapshot: objects.Snapshot, instance: objects.Instance) -> dict[str, str]:
    """Return public OS parameters: cluster by OS < cluster by OS and variant < instance."""
    return {**OSDefaults(snapshot.cluster.osparams, instance.os), **instance.osparams}


def FillOSPrivate(snapshot: objects.Snapshot, instance: objects.Instance) -> dict[str, str]:
    """Return private OS parameters, in the same order."""
    return {**OSDefaults(snapshot.cluster.osparams_private_cluster, instance.os), **instance.osparams_private}


def FillOSAll(
    cluster: objects.Cluster,
    os_name: str,
    public: Mapping[str, str] | None = None,
    private: Mapping[str, str] | None = None,
    secret: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return every OS parameter for a script, the given ones over the cluster's, in clear text.

    OpPrereqError names parameters that are set in two of the three visibilities.
    """
    layers = (
        {**OSDefaults(cluster.osparams, os_name), **(public or {})},
        {**OSDefaults(cluster.osparams_private_cluster, os_name), **(private or {})},
        dict(secret or {}),
    )
    double = sorted(_Doubles(layers))
    if double:
        raise errors.OpPrereqError(
            f"OS parameters of '{os_name}' are set in more than one of public, private and secret: {', '.join(double)}",
            errors.ECODE_INVAL,
        )
    return {name: value for layer in layers for name, value in layer.items()}


def _Doubles(layers: Iterable[Mapping[str, str]]) -> set[str]:
    seen: set[str] = set()
    double: set[str] = set()
    for layer in layers:
        double |= seen & layer.keys()
        seen |= layer.keys()
    return double


def FillIPolicy(snapshot: objects.Snapshot, group: objects.NodeGroup | None) -> dict[str, Any]:
    """Return instance policy: cluster < group."""
    return ipolicy.Fill(snapshot.cluster.ipolicy, group.ipolicy if group is not None else _NONE)


def FillDiskParams(snapshot: objects.Snapshot, group: objects.NodeGroup | None) -> dict[str, dict[str, Any]]:
    """Return disk parameters of every template by the template's names: constants < cluster < group."""
    own = group.diskparams if group is not None else _NONE
    cluster = snapshot.cluster.diskparams
    return {
        template: {**defaults, **cluster.get(template, _NONE), **own.get(template, _NONE)}
        for template, defaults in disk.AllDefaults().items()
    }


def _GroupOf(snapshot: objects.Snapshot, node_uuid: str | None) -> objects.NodeGroup | None:
    node = snapshot.nodes.get(node_uuid) if node_uuid is not None else None
    return snapshot.nodegroups.get(node.group) if node is not None else None


def ComputeLDParams(template: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a template's values by the names of its devices: of the disk, then of its children in order."""
    known = disk.TEMPLATES.get(template)
    return [{ld: values[dt] for ld, dt in names.items()} for names in (known.layers if known else ({},))]


def FillDisk(snapshot: objects.Snapshot, dev: objects.Disk, node_uuid: str | None) -> dict[str, Any]:
    """Return device parameters of a disk: constants < cluster < group of ``node_uuid`` < the disk's own.

    ``node_uuid`` is the instance's primary node, or the node asked for when the disk is detached.
    """
    template = FillDiskParams(snapshot, _GroupOf(snapshot, node_uuid)).get(dev.dev_type, {})
    return {**ComputeLDParams(dev.dev_type, template)[0], **dev.params}


def AnnotateDisk(snapshot: objects.Snapshot, dev: objects.Disk, node_uuid: str | None) -> objects.Disk:
    """Return the disk with its device parameters filled, its children alike, as nodes get it (doc/reference/noderpc.md 3.1)."""
    template = FillDiskParams(snapshot, _GroupOf(snapshot, node_uuid)).get(dev.dev_type, {})
    own, *below = ComputeLDParams(dev.dev_type, template)
    children = tuple(
        child.Replace(params={**filled, **child.params})
        for child, filled in zip(dev.children, below + [{}] * (len(dev.children) - len(below)), strict=False)
    )
    return dev.Replace(params={**own, **dev.params}, children=children)
