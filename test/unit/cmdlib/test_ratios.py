"""Ratios of a policy: what a person places or lets grow by hand keeps them, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Answering
from support.master import Master

from ganeti import constants, errors, opcodes

WEB = "web.example.org"


@pytest.fixture
def master(make: Callable[..., Master]) -> Master:
    """Two nodes with 8 CPUs, one of them kept; the example's instance on both has one virtual CPU."""
    made = make(2, prepare=_Prepare, lvm=True)
    assert isinstance(made, Master)
    return made


def _Prepare(master: Master) -> None:
    root = master.snapshot
    hypervisor = root.instances[next(iter(root.instances))].hypervisor
    wide = {"min": dict.fromkeys(_SPECS, 0), "max": dict.fromkeys(_SPECS, 1 << 20)}
    templates = ["drbd", "plain", "diskless"]
    policy = {**root.cluster.ipolicy, "minmax": [wide], "disk-templates": templates}
    kept = {hypervisor: {"cpu_node": 1}}
    changed = {"ipolicy": policy, "hv_state_static": kept, "enabled_hypervisors": [hypervisor]}
    master.cfg.Update(root.cluster.Replace(enabled_disk_templates=templates, **changed))


_SPECS = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")


def _Group(master: Master, **values: Any) -> None:
    master.Run(
        opcodes.OpGroupSetParams(group_name="default", ipolicy={k.replace("_", "-"): v for k, v in values.items()})
    )


def _Modify(master: Master, **values: Any) -> Any:
    return master.Run(opcodes.OpInstanceSetParams(instance_name=WEB, **values))


def _Create(master: Master, name: str, **values: Any) -> Any:
    plan = {
        "disk_template": "plain",
        "disks": [{"size": 1024}],
        "nics": [],
        "os_type": "noop",
        "pnode": "node1",
        **values,
    }
    return master.Run(
        opcodes.OpInstanceCreate(
            instance_name=name, mode="create", start=False, hypervisor=master.Instance(WEB).hypervisor, **plan
        )
    )


def _Refused(text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(errors.OpPrereqError, match=text) as caught:
        call()
    assert caught.value.args[1] == errors.ECODE_INVAL
    assert "--ignore-ipolicy" in (caught.value.hint or "")


@pytest.mark.req("RM-ALLOC-01")
def test_virtual_cpus_of_a_node_are_limited(master: Master) -> None:
    _Group(master, vcpu_ratio=1.0)
    # 8 CPUs, one kept and one used by the example.
    _Refused(
        r"node1.example.org would have 9 virtual CPUs in use \(1 by itself\) on 8 CPUs; vcpu-ratio 1 allows 8",
        lambda: _Create(master, "new.example.org", beparams={"vcpus": 7}),
    )
    _Create(master, "new.example.org", beparams={"vcpus": 6})
    _Refused("vcpu-ratio 1 allows 8", lambda: _Modify(master, beparams={"vcpus": 2}))
    _Modify(master, beparams={"vcpus": 2}, ignore_ipolicy=True)
    assert any("vcpu-ratio 1 allows 8" in str(text) for text in master.last.messages)
    # What does not grow is left alone, also where it is too much already.
    _Modify(master, beparams={"minmem": 256})
    _Modify(master, beparams={"vcpus": 1})
    # The cluster's ratio counts where the group has none.
    _Group(master, vcpu_ratio="default")
    _Modify(master, beparams={"vcpus": 3})


def test_a_reservation_counts_once(master: Master) -> None:
    """Its place is kept for it, and it is not counted beside itself when it is committed."""
    _Group(master, vcpu_ratio=1.0, spindle_ratio=3.0)
    _Create(master, "new.example.org", forthcoming=True, beparams={"vcpus": 6, "spindle_use": 2})
    _Refused("vcpu-ratio 1 allows 8", lambda: _Create(master, "two.example.org", beparams={"vcpus": 1}))
    commit = {"instance_name": "new.example.org", "mode": "create", "commit": True, "disks": [], "nics": []}
    master.Run(opcodes.OpInstanceCreate(**commit, start=False))
    assert not master.Instance("new.example.org").forthcoming


def test_what_an_allocator_chose_is_not_judged_again(master: Master) -> None:
    """It may have been told to ignore soft errors."""
    _Group(master, vcpu_ratio=1.0)
    master[0].AddAllocator("mine", Answering([master[0].name]))
    _Create(master, "new.example.org", pnode=None, iallocator="mine", beparams={"vcpus": 50})
    assert master.Instance("new.example.org").primary_node == master.nodes[0]


def test_recorded_cpus_come_before_reported_ones(master: Master) -> None:
    hypervisor = master.Instance(WEB).hypervisor
    state = {hypervisor: {"cpu_total": 2, "cpu_node": 1}}
    master.Run(opcodes.OpNodeSetParams(node_name="node1", hv_state=state))
    before = master[0].calls.count("node_info")
    _Refused("on 2 CPUs; vcpu-ratio 4 allows 8", lambda: _Modify(master, beparams={"vcpus": 8}))
    assert master[0].calls.count("node_info") == before
    _Modify(master, beparams={"vcpus": 7})


def test_a_node_that_does_not_report_its_cpus_is_a_warning(master: Master) -> None:
    master[0].faults["node_info"] = "it hangs"
    _Modify(master, beparams={"vcpus": 99})
    assert any("Node node1.example.org did not report its CPUs" in str(text) for text in master.last.messages)


@pytest.mark.req("RM-ALLOC-03", "RM-ALLOC-02")
def test_the_spindles_of_both_nodes_are_limited(master: Master) -> None:
    _Group(master, spindle_ratio=3.0)
    _Create(master, "one.example.org", pnode="node2", beparams={"spindle_use": 2})
    # A mirrored instance uses the spindles of both nodes: the second one is full.
    _Refused(
        r"spindle use of node node2.example.org would be 4 on 1 spindle\(s\); spindle-ratio 3 allows 3",
        lambda: _Modify(master, beparams={"spindle_use": 2}),
    )
    _Refused("node2.example.org would be 4", lambda: _Create(master, "two.example.org", pnode="node2"))
    master.Run(opcodes.OpNodeSetParams(node_name="node2", ndparams={"spindle_count": 2}))
    _Modify(master, beparams={"spindle_use": 2})
    _Refused(
        "spindle use of node node1.example.org would be 4",
        lambda: _Create(master, "two.example.org", beparams={"spindle_use": 2}),
    )
    # Without volumes of LVM spindles are not used.
    _Create(master, "two.example.org", disk_template="diskless", disks=[], beparams={"spindle_use": 2})
    _Modify(master, beparams={"spindle_use": 3})


def test_on_exclusive_storage_no_spindles_are_shared(master: Master) -> None:
    """There each disk has its own, and the ratio says nothing."""
    _Group(master, spindle_ratio=1.0)
    _Refused("spindle-ratio 1 allows 1", lambda: _Create(master, "new.example.org", beparams={"spindle_use": 3}))
    group = next(iter(master.snapshot.nodegroups.values()))
    master.cfg.Update(group.Replace(ndparams={"exclusive_storage": True}))
    spindles = [{"size": 1024, "spindles": 1}]
    _Create(master, "new.example.org", beparams={"spindle_use": 3}, disks=spindles)


def test_an_offline_instance_uses_no_cpus_until_it_returns(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    _Modify(master, offline=True)
    _Group(master, vcpu_ratio=1.0)
    _Create(master, "new.example.org", beparams={"vcpus": 7})
    _Modify(master, beparams={"vcpus": 2})
    _Refused("would have 10 virtual CPUs", lambda: _Modify(master, offline=False))
    assert master.Instance(WEB).admin_state == constants.ADMINST_OFFLINE
    _Modify(master, offline=False, ignore_ipolicy=True)


def test_a_negative_ratio_is_no_limit_as_in_the_htools(master: Master) -> None:
    _Group(master, vcpu_ratio=-1.0)
    _Create(master, "two.example.org", beparams={"vcpus": 8})
    assert not any("vcpu-ratio" in str(text) for text in master.last.messages)
