"""What an allocator gets to know of an instance that needs nodes: one shape, whether it is made, one of many, or exists.

Whether some policy allows that shape is looked at here, too, before anybody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ganeti import constants, errors, opcodes, params
from ganeti.cmdlib.allocation.requests import Allocate
from ganeti.cmdlib.common import ExpandGroup, Invalid
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.instance.base import ForceBeParams, PolicyViolations
from ganeti.cmdlib.instance.nicgen import AllocatorNic, NamedNetwork, OwnParams
from ganeti.params import be, ipolicy

if TYPE_CHECKING:
    from ganeti import objects

AUTO = constants.VALUE_AUTO

Judge = Callable[["objects.NodeGroup"], list[str]]
"""Says where an instance breaks the policy of a node group."""


class _Disk(Protocol):
    """A disk of a request or of an instance; MiB."""

    @property
    def size(self) -> int: ...

    @property
    def mode(self) -> str: ...

    @property
    def spindles(self) -> int | None: ...


def Shape(
    name: str,
    template: str,
    filled: Mapping[str, Any],
    disks: Iterable[_Disk],
    nics: Iterable[Mapping[str, Any]],
    *,
    tags: Iterable[str],
    os: str | None,
    hypervisor: str,
    group_uuid: str | None,
    ignore_policy: bool = False,
) -> Allocate:
    """Return the request for nodes of an instance.

    ``filled``: its backend parameters with all defaults; ``nics``: as ``AllocatorNic`` makes them; ``group_uuid``: the only
    group to use.
    """
    shapes = ({"size": disk.size, "mode": disk.mode, "spindles": disk.spindles} for disk in disks)
    return Allocate(
        name=name,
        disk_template=template,
        tags=tuple(sorted(set(tags))),
        os=os,
        vcpus=filled[be.BE_VCPUS],
        memory=filled[be.BE_MAXMEM],
        least_memory=filled[be.BE_MINMEM],
        spindle_use=filled[be.BE_SPINDLE_USE],
        disks=tuple({key: value for key, value in shape.items() if value is not None} for shape in shapes),
        nics=tuple(nics),
        hypervisor=hypervisor,
        group_uuid=group_uuid,
        ignore_policy=ignore_policy,
    )


def OfInstance(
    snapshot: objects.Snapshot, instance: objects.Instance, disks: Iterable[objects.Disk], group_uuid: str
) -> Allocate:
    """Return the request for new nodes, in a group, for an instance that exists and has or will have these disks."""
    networks = snapshot.networks
    nics = (
        AllocatorNic(snapshot, nic.nicparams, nic.mac, nic.ip, None if nic.network is None else networks[nic.network])
        for nic in instance.nics
    )
    return Shape(
        instance.name,
        snapshot.DiskTemplate(instance),
        params.FillBE(snapshot, instance),
        disks,
        nics,
        tags=instance.tags,
        os=instance.os,
        hypervisor=instance.hypervisor,
        group_uuid=group_uuid,
    )


def OfDefinition(snapshot: objects.Snapshot, op: opcodes.OpInstanceCreate) -> Allocate:
    """Return the request for an instance that a job of its own is to make; nothing is reserved."""
    cluster = snapshot.cluster
    template = op.disk_template or cluster.enabled_disk_templates[0]
    diskgen.CheckTemplateEnabled(snapshot, template)
    disks = diskgen.ParseDisks(op.disks, template)
    if any(disk.adopt for disk in disks):
        raise Invalid("Disk adoption is not allowed with an allocator")
    defaults = params.BEDefaults(cluster)
    own = ForceBeParams({name: defaults.get(name) if value == AUTO else value for name, value in op.beparams.items()})
    nics = (
        AllocatorNic(snapshot, OwnParams(one), one.get("mac") or AUTO, one.get("ip"), NamedNetwork(snapshot, one))
        for one in op.nics
    )
    return Shape(
        op.instance_name,
        template,
        {**defaults, **own},
        disks,
        nics,
        tags=op.tags,
        os=op.os_type,
        hypervisor=cluster.enabled_hypervisors[0] if op.hypervisor in (None, AUTO) else op.hypervisor,
        group_uuid=None if op.group_name is None else ExpandGroup(snapshot, op.group_name).uuid,
        ignore_policy=op.ignore_ipolicy,
    )


# --- policies -----------------------------------------------------------------------------------------------------------


def JudgeNew(snapshot: objects.Snapshot, request: Allocate) -> Judge:
    """Return what judges an instance that does not exist yet."""

    def judge(group: objects.NodeGroup) -> list[str]:
        return ipolicy.Violations(
            params.FillIPolicy(snapshot, group),
            request.memory,
            request.vcpus,
            len(request.nics),
            [disk["size"] for disk in request.disks],
            request.spindle_use,
            [request.disk_template] * len(request.disks),
        )

    return judge


def JudgeOld(snapshot: objects.Snapshot, instance: objects.Instance) -> Judge:
    """Return what judges an instance as it is configured."""
    return lambda group: PolicyViolations(snapshot, instance, group)


def CheckSomePolicy(
    snapshot: objects.Snapshot, wanted: Iterable[tuple[str, Judge, Collection[str]]], hint: str
) -> None:
    """Raise OpPrereqError if instances break the policies of all groups that an allocator may choose for them.

    ``wanted``: the name of each instance, what judges it, and the uuids of its groups, of which those without nodes do not
    count.  All such instances are named, with values and bounds.
    """
    used = {node.group for node in snapshot.nodes.values()}
    texts = []
    for name, judge, groups in wanted:
        found = {snapshot.nodegroups[uuid].name: judge(snapshot.nodegroups[uuid]) for uuid in used.intersection(groups)}
        if not found or not all(found.values()):
            continue
        same: dict[str, list[str]] = {}
        for group in sorted(found):
            same.setdefault("; ".join(found[group]), []).append(group)
        reasons = "; ".join(f"node group {', '.join(names)}: {text}" for text, names in same.items())
        texts.append(f"Instance {name} violates the policy of every node group it may go to: {reasons}")
    if texts:
        raise errors.OpPrereqError(". ".join(texts), errors.ECODE_INVAL, hint=hint)
