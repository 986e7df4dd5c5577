"""The model under every hypervisor, with the memory that its nodes report (doc/reference/drivers.md b, htools.md 4 and 5.1).

KVM and LXC report as the node's own memory what is in active use, which says little; Xen reports what its first domain has.
Where that domain is ballooned automatically, it has whatever the guests do not use, and little is free.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis
import pytest
from hypothesis import strategies as st

from ganeti.htools.model.entities import Failure, Instance, Status
from ganeti.htools.model.resources import AddPrimary, Node
from ganeti.htools.sources import loading, luxidata
from ganeti.htools.sources.loading import Wishes

POLICY = {
    "std": dict.fromkeys(("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use"), 1),
    "minmax": [], "disk-templates": ["plain"], "vcpu-ratio": 32.0, "spindle-ratio": 32.0,
}  # fmt: skip
OTHERS = ("lxc", "chroot", "xen-pvm", "xen-hvm")


class Machine(NamedTuple):
    """MiB: of the machine, of its hypervisor, of the guests that run, of the node itself with nothing else to do, in caches."""

    total: int
    hypervisor: int
    guests: tuple[int, ...]
    own: int
    slack: int

    @property
    def Free(self) -> int:
        return self.total - self.hypervisor - self.own - sum(self.guests)

    def Reported(self, kind: str) -> dict[str, int]:
        """What a node reports; ``kind``: "active" (KVM, LXC), "static" or "ballooned" (Xen)."""
        if kind == "active":
            # What the kernel and all guests have touched lately; the guests' part is no part of the node's own memory.
            return {
                "mtotal": self.total,
                "mnode": min(self.total, self.own + sum(self.guests) // 2),
                "mfree": self.Free,
            }
        if kind == "static":
            return {"mtotal": self.total, "mnode": self.own, "mfree": self.Free}
        free = min(self.slack, self.Free)
        return {"mtotal": self.total, "mnode": self.own + self.Free - free, "mfree": free}

    def Record(self) -> dict[str, int]:
        return {"mem_total": self.total, "mem_node": self.own, "mem_hv": self.hypervisor}


@st.composite
def _Machines(draw: st.DrawFn) -> Machine:
    guests = tuple(draw(st.lists(st.integers(64, 4096), max_size=6)))
    own, hypervisor = draw(st.integers(256, 4096)), draw(st.integers(0, 512))
    spare = draw(st.integers(2, 65536))
    return Machine(own + hypervisor + sum(guests) + spare, hypervisor, guests, own, draw(st.integers(0, 512)))


def _Rows(names: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"data": [[[0, row[name]] if name in row else [3, None] for name in names] for row in rows]}


def _Load(machine: Machine, hypervisor: str, kind: str, record: bool) -> Node:
    """Return the node as the programs see it over LUXI."""
    node: dict[str, Any] = {
        "name": "node1", "dtotal": 900000, "dfree": 900000, "ctotal": 64, "cnos": 1, "offline": False, "drained": False,
        "vm_capable": True, "ndp/spindle_count": 1, "group.uuid": "g", "tags": [], "ndp/exclusive_storage": False,
        "sptotal": 0, "spfree": 0, "ndp/cpu_speed": 1.0, **machine.Reported(kind),
    }  # fmt: skip
    if record:
        node["hv_state"] = {hypervisor: machine.Record()}
    guests = [
        {
            "name": f"inst{number}", "disk_usage": 0, "be/memory": memory, "be/vcpus": 1, "pnode": "node1", "snodes": [],
            "tags": [], "be/auto_balance": True, "disk_template": "diskless", "be/spindle_use": 1, "disk.sizes": [],
            "disk.spindles": [], "forthcoming": False, "status": "running",
        }
        for number, memory in enumerate(machine.guests)
    ]  # fmt: skip
    info = {
        "tags": [], "ipolicy": POLICY, "master": "node1", "default_hypervisor": hypervisor, "volume_group_name": "xenvg",
    }  # fmt: skip
    group = {"uuid": "g", "name": "default", "alloc_policy": "preferred", "ipolicy": POLICY, "tags": []}
    raw = luxidata.Parse(
        _Rows(luxidata.NODE_FIELDS, [node]),
        _Rows(luxidata.INSTANCE_FIELDS, guests),
        info,
        _Rows(luxidata.GROUP_FIELDS, [group]),
    )
    return loading.Build(raw, Wishes()).state.nodes[0]


def _Kinds(hypervisor: str) -> tuple[str, ...]:
    return ("static", "ballooned") if hypervisor.startswith("xen") else ("active",)


def _Guest(memory: int) -> Instance:
    return Instance(99, "new", memory, 0, 1, Status.RUNNING, "diskless", 0)


def _TakesLessThan(node: Node, memory: int) -> None:
    """An instance may have less than this memory, and not one MiB more."""
    assert AddPrimary(node, _Guest(memory)) is Failure.MEM
    if memory > 1:
        assert isinstance(AddPrimary(node, _Guest(memory - 1)), Node)


@pytest.mark.req("RM-GEN-04")
@pytest.mark.parametrize("hypervisor", OTHERS)
@hypothesis.given(machine=_Machines())
def test_without_a_record_the_node_is_believed_as_in_3_1(hypervisor: str, machine: Machine) -> None:
    """Only under KVM a fixed memory of the node takes the place of what it reports."""
    for kind in _Kinds(hypervisor):
        said, node = machine.Reported(kind), _Load(machine, hypervisor, kind, record=False)
        assert node.facts.node_memory == said["mnode"]
        recorded = said["mtotal"] - said["mnode"] - sum(machine.guests)
        assert node.facts.missing_memory == recorded - said["mfree"]
        assert node.unallocated == min(recorded, said["mfree"])
    kvm = _Load(machine, "kvm", "active", record=False)
    assert kvm.facts.node_memory == 4096
    assert kvm.unallocated == min(machine.total - 4096 - sum(machine.guests), machine.Free)


@pytest.mark.req("RM-GEN-04", "RM-SOR-08")
@hypothesis.given(machine=_Machines())
def test_with_records_every_hypervisor_leaves_the_same_memory(machine: Machine) -> None:
    """However large Xen's first domain has grown, and whatever else a node reports."""
    for hypervisor in ("kvm", *OTHERS):
        for kind in _Kinds(hypervisor):
            node = _Load(machine, hypervisor, kind, record=True)
            assert (node.unallocated, node.facts.missing_memory) == (machine.Free, 0), (hypervisor, kind)
            _TakesLessThan(node, machine.Free)


@pytest.mark.req("RM-GEN-04")
@hypothesis.given(machine=_Machines())
def test_a_ballooned_first_domain_gives_its_memory_back_only_on_record(machine: Machine) -> None:
    """What it has is taken for the node's own without a record, so that nothing is promised that 3.1 would not promise."""
    without = _Load(machine, "xen-pvm", "ballooned", record=False)
    with_record = _Load(machine, "xen-pvm", "ballooned", record=True)
    assert without.unallocated <= with_record.unallocated == machine.Free
    assert without.unallocated <= machine.slack
