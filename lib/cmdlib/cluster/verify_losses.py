"""Check which nodes may fail: would the instances that have their disks elsewhere run again? (doc/extensions.rst)"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti.cmdlib.allocation import proofs
from ganeti.cmdlib.cluster.verify_report import NODE, Report
from ganeti.params import disk as disk_params
from ganeti.params import hv

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc import RpcRunner

# Instances of one node that are named with what would help.
_EXAMPLES = 5


def _Ask(rpc: RpcRunner, snapshot: objects.Snapshot, nodes: Collection[str]) -> proofs.Proof | None:
    """Return what follows from what nodes have; those that do not answer count as offline."""
    cluster = snapshot.cluster
    hypervisors = list(cluster.enabled_hypervisors)
    hvparams = hv.OfCluster(cluster)
    first = hypervisors[0]
    info = rpc.call_node_info(nodes, disk_params.StorageUnits(cluster), [[first, hvparams[first]]])
    guests = rpc.call_all_instances_info(nodes, hypervisors, hvparams)
    return proofs.FromPayloads(snapshot, _Payloads(info), _Payloads(guests))


def _Payloads(answers: Mapping[str, Any]) -> dict[str, Any]:
    return {uuid: answer.payload for uuid, answer in answers.items() if not answer.fail_msg}


def Check(
    rpc: RpcRunner,
    snapshot: objects.Snapshot,
    report: Report,
    members: Iterable[objects.Node],
    asked: Collection[str],
) -> None:
    """Report members of a group whose failure would leave instances down that have their disks on other nodes, too.

    ``asked``: the nodes to ask, those of the group and the secondary nodes of its instances.  These are warnings, as 3.1
    knows no such check: a cluster that passed there does not fail here because of it.
    """
    members = list(members)
    if sum(node.vm_capable for node in members) < 2:
        return  # a group of one node bears no failure, and was made so
    nodes = [snapshot.nodes[uuid] for uuid in sorted(asked)]
    proof = _Ask(rpc, snapshot, [node.uuid for node in nodes if node.vm_capable and not node.offline])
    if proof is None:
        report.Notice("Which nodes may fail cannot be worked out: see the log of the master daemon")
        return
    for node in members:
        if proof.Offline(node.uuid):
            continue
        losses = [loss for loss in proof.Losses(node.uuid) if not loss.alone]
        shown = losses[:_EXAMPLES]
        for loss, remedy in zip(shown, proof.Remedies(node.uuid, shown), strict=True):
            report.Warning(
                "ENODELOSS",
                NODE,
                node.name,
                f"if it failed, instance {loss.instance} would stay down: {loss.text}; what would help: {remedy}",
            )
        if len(losses) > _EXAMPLES:
            report.Warning(
                "ENODELOSS", NODE, node.name, f"and {len(losses) - _EXAMPLES} more instances would stay down"
            )
