"""What an administrator recorded of a node, beside what the node reports.

Recorded values take the place of reported and guessed ones.  Where memory is recorded completely, free memory follows from the
records alone: what guests use at this moment, and how much of it is only cached, decides nothing; stopped instances keep
their memory, and others may use that of offline ones.  Free disk space is the smaller of what records and node say, because
volumes that no record knows take space, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ganeti import constants
from ganeti.htools.model.entities import Instance, NodeFacts


def Apply(facts: NodeFacts, instances: Collection[Instance], static_kvm_memory: int) -> NodeFacts:
    """Return a node with its recorded values in force.

    ``instances``: those that have the node as primary or secondary.  ``static_kvm_memory``: what is taken for the memory of
    a node under KVM that has none recorded; 0 is what it reports.
    """
    record = facts.record
    if record is None:
        return facts
    kvm = facts.hypervisor == constants.HT_KVM and static_kvm_memory > 0
    kept = _Or(record.node_memory, static_kvm_memory if kvm else facts.node_memory) + _Or(record.hypervisor_memory, 0)
    facts = replace(
        facts,
        # The guess for KVM is part of the sum already.
        hypervisor=None,
        node_memory=kept,
        total_memory=facts.total_memory if record.total_memory is None else float(record.total_memory),
        total_cpus=facts.total_cpus if record.total_cpus is None else float(record.total_cpus),
        node_cpus=_Or(record.node_cpus, facts.node_cpus),
        least_disk=_Or(record.disk_reserved, 0),
    )
    if record.total_memory is not None and record.node_memory is not None:
        used = sum(inst.memory for inst in instances if inst.primary == facts.index and inst.uses_memory)
        facts = replace(facts, free_memory=record.total_memory - kept - used, from_records=True)
    if record.total_disk is not None:
        total = record.total_disk - _Or(record.disk_overhead, 0)
        taken = sum(inst.disk for inst in instances if inst.local and not inst.forthcoming)
        facts = replace(facts, total_disk=float(total), free_disk=max(0, min(facts.free_disk, total - taken)))
    return facts


def _Or(recorded: int | None, otherwise: int) -> int:
    return otherwise if recorded is None else recorded
