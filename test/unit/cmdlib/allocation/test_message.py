"""What allocators are told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from support import configs
from support.asking import Answering, AskOn
from support.htoolscases import CASES
from support.master import Master

from ganeti import constants, objects, params, runtime, serializer
from ganeti.cmdlib.allocation import clusterdata, hail, requests
from ganeti.htools.sources import request as htools_request
from ganeti.params import disk

_KEYS_OF_NODES = {
    "tags", "primary_ip", "secondary_ip", "offline", "drained", "master_candidate", "group", "master_capable", "vm_capable",
    "ndparams",
}  # fmt: skip
_NUMBERS = {
    "total_memory", "reserved_memory", "free_memory", "total_disk", "free_disk", "total_spindles", "free_spindles",
    "total_cpus", "reserved_cpus", "i_pri_memory", "i_pri_up_memory",
}  # fmt: skip
_KEYS_OF_INSTANCES = {
    "tags", "admin_state", "vcpus", "memory", "spindle_use", "os", "nodes", "nics", "disks", "disk_template",
    "disks_active", "hypervisor", "disk_space_total",
}  # fmt: skip
NEW = requests.Allocate("new.example.org", "drbd", memory=512, disks=({"size": 1024}, {"size": 2048}))
PLAIN = dataclasses.replace(NEW, disk_template="plain")


def _Change(root: objects.Snapshot) -> objects.Snapshot:
    """node4 is marked offline, node5 drained, node6 not for instances."""
    nodes = dict(root.nodes)
    *_, fourth, fifth, sixth = nodes
    for uuid, flag in ((fourth, {"offline": True}), (fifth, {"drained": True}), (sixth, {"vm_capable": False})):
        nodes[uuid] = nodes[uuid].Replace(master_candidate=False, **flag)
    third = list(nodes)[2]
    nodes[third] = nodes[third].Replace(secondary_ip=nodes[third].primary_ip, tags=["rack:7"])
    return root.Replace(nodes=nodes, cluster=root.cluster.Replace(tags=["here", "there"]))


@pytest.fixture
def six(make: Callable[..., Master]) -> Master:
    return make(6, lvm=True, change=_Change)


def _Told(master: Master, request: requests.Request = PLAIN) -> dict[str, Any]:
    played = Answering([master[0].name])
    master[0].AddAllocator("mine", played)
    AskOn(master, "mine", request)
    (message,) = played.asked
    assert played.options == [[]]
    return message


@pytest.mark.req("IAL-09", "IAL-12", "IAL-13", "IAL-14", "IAL-15", "IAL-16")
def test_the_top_and_the_request(six: Master) -> None:
    message = _Told(six)
    assert list(message) == [
        "version", "cluster_name", "cluster_tags", "enabled_hypervisors", "ipolicy", "nodegroups", "nodes", "instances",
        "request",
    ]  # fmt: skip
    root = six.snapshot
    assert (message["version"], message["cluster_name"]) == (2, root.cluster.cluster_name)
    assert message["cluster_tags"] == ["here", "there"]
    assert message["enabled_hypervisors"] == list(root.cluster.enabled_hypervisors)
    assert set(message["ipolicy"]) == {"minmax", "std", "disk-templates", "vcpu-ratio", "spindle-ratio"}
    asked = message["request"]
    assert asked["type"] == "allocate" and asked["name"] not in message["instances"]
    assert (asked["required_nodes"], asked["disk_space_total"]) == (1, 3072)
    assert NEW.Entry(root)["required_nodes"] == 2 and NEW.Entry(root)["disk_space_total"] == 3328
    assert asked["disks"] == [{"size": 1024}, {"size": 2048}]
    (group,) = root.nodegroups.values()
    (entry,) = message["nodegroups"].values()
    assert set(entry) == {"name", "alloc_policy", "networks", "ipolicy", "tags"} and entry["name"] == group.name
    limited = dataclasses.replace(NEW, group_uuid=group.uuid, whitelist=("a", "b")).Entry(root)
    assert (limited["group_name"], limited["restrict-to-nodes"]) == (group.name, ["a", "b"])
    assert not {"group_name", "restrict-to-nodes"} & set(asked)


@pytest.mark.req("IAL-24", "IAL-27", "D20-FLAG-27")
def test_nodes(six: Master) -> None:
    six[1].Stop()
    nodes = _Told(six)["nodes"]
    names = [node.name for node in six.all]
    assert list(nodes) == names
    first, silent, third, offline, drained, incapable = (nodes[name] for name in names)
    for full in (first, third, drained):
        assert set(full) - {"hv_state", "disk_state"} == _KEYS_OF_NODES | _NUMBERS
    for bare in (silent, offline, incapable):
        assert set(bare) - {"hv_state", "disk_state"} == _KEYS_OF_NODES
    assert [node["offline"] for node in nodes.values()] == [False, True, False, True, False, False]
    assert [node["drained"] for node in nodes.values()] == [False] * 4 + [True, False]
    assert [node["vm_capable"] for node in nodes.values()] == [True] * 5 + [False]
    assert third["secondary_ip"] == third["primary_ip"] and first["secondary_ip"] != first["primary_ip"]
    facts = six.rpc.call_node_info([six.nodes[2]], [("lvm-vg", "xenvg")], [["kvm", {}]])[six.nodes[2]].payload
    assert (third["total_memory"], third["total_cpus"]) == (facts[2][0]["memory_total"], facts[2][0]["cpu_total"])
    assert (third["total_disk"], third["free_disk"]) == (facts[1][0]["storage_size"], facts[1][0]["storage_free"])
    assert third["total_disk"] > 100_000
    assert third["free_memory"] == facts[2][0]["memory_free"] > third["reserved_memory"] == facts[2][0]["memory_dom0"]
    node = six.snapshot.nodes[six.nodes[2]]
    assert (third["primary_ip"], third["tags"], third["group"]) == (node.primary_ip, ["rack:7"], node.group)
    warnings = [text for text in six.last.messages if "WARNING" in text]
    assert len(warnings) == 1 and f"Node {names[1]} counts as offline for the allocator: " in warnings[0]


@pytest.mark.req("IAL-26")
def test_all_cpus_of_a_machine_count(six: Master) -> None:
    """The operating system of a Xen node sees two of them, its hypervisor all 16."""
    answer = six.rpc.call_node_info([six.nodes[2]], [("lvm-vg", "xenvg")], [["kvm", {}]])[six.nodes[2]].payload
    boot, storage, [facts] = answer
    six[2].answers["node_info"] = [boot, storage, [{**facts, "cpu_total": 16, "cpu_dom0": 2}]]
    entry = _Told(six)["nodes"][six[2].name]
    assert (entry["total_cpus"], entry["reserved_cpus"]) == (16, 2)


@pytest.mark.req("IAL-21", "IAL-22", "IAL-23")
def test_instances(six: Master) -> None:
    root = six.snapshot
    (web,) = root.instances.values()
    (entry,) = _Told(six)["instances"].values()
    assert set(entry) == _KEYS_OF_INSTANCES
    assert entry["nodes"] == [root.NodeName(uuid) for uuid in root.AllNodes(web)] and len(entry["nodes"]) == 2
    disks = root.InstanceDisks(web)
    assert entry["disk_space_total"] == sum(disk.size + 128 for disk in disks)
    assert entry["disks"] == [
        {"size": disk.size, "mode": disk.mode, "spindles": None, "dev_type": "drbd"} for disk in disks
    ]
    (nic,) = web.nics
    link = root.cluster.nicparams["default"]["link"]
    bridged = {"mode": "bridged", "link": link, "bridge": link}
    assert entry["nics"] == [{"mac": nic.mac, "ip": nic.ip, "network": None, **bridged}]
    filled = params.FillBE(root, web)
    sizes = {"memory": filled["maxmem"], "vcpus": filled["vcpus"], "spindle_use": filled["spindle_use"]}
    said = {"os": web.os, "hypervisor": web.hypervisor, "disk_template": "drbd", "tags": list(web.tags)}
    assert entry == {**entry, **sizes, **said}
    assert entry["admin_state"] == web.admin_state == constants.ADMINST_UP
    six.cfg.MarkInstanceDown(web.uuid)
    (entry,) = _Told(six)["instances"].values()
    # The guest still runs: what counts is what is configured.
    assert entry["admin_state"] == constants.ADMINST_DOWN
    six.cfg.MarkInstanceUp(web.uuid)


def test_what_running_guests_may_still_claim_is_not_free(six: Master) -> None:
    root = six.snapshot
    (web,) = root.instances.values()
    name = root.NodeName(web.primary_node)
    before = _Told(six)["nodes"][name]
    now = six.rpc.call_all_instances_info([web.primary_node], ["kvm"], {"kvm": {}})[web.primary_node].payload
    memory = now[web.name]["memory"]
    larger = web.Replace(beparams={**web.beparams, "maxmem": memory + 700, "minmem": memory})
    with six.Elsewhere():
        six.cfg.Transact(lambda draft: draft.Put(larger))
    after = _Told(six)["nodes"][name]
    assert (after["i_pri_memory"], after["i_pri_up_memory"]) == (memory + 700, memory + 700)
    assert before["free_memory"] - after["free_memory"] == 700 - max(0, before["i_pri_memory"] - memory)


@pytest.mark.req("IAL-25")
def test_stopped_guests_claim_nothing(six: Master) -> None:
    (web,) = six.snapshot.instances.values()
    name = six.snapshot.NodeName(web.primary_node)
    larger = web.Replace(beparams={"maxmem": 9000, "minmem": 128}, admin_state=constants.ADMINST_DOWN)
    with six.Elsewhere():
        six.cfg.Transact(lambda draft: draft.Put(larger))
    stopped = _Told(six)["nodes"][name]
    assert (stopped["i_pri_memory"], stopped["i_pri_up_memory"]) == (9000, 0)
    facts = six.rpc.call_node_info([web.primary_node], None, [["kvm", {}]])[web.primary_node].payload[2][0]
    assert stopped["free_memory"] == facts["memory_free"]


@pytest.mark.req("IAL-20", "IAL-28")
def test_a_relocation_is_told_the_same(six: Master) -> None:
    root = six.snapshot
    (web,) = root.instances.values()
    secondary = root.NodeName(root.SecondaryNodes(web)[0])
    played = Answering([six[2].name])
    six[0].AddAllocator("mine", played)
    AskOn(six, "mine", requests.Relocate(web.name, (secondary,)))
    (relocation,) = played.asked
    assert relocation.pop("request") == {
        "type": "relocate",
        "name": web.name,
        "disk_space_total": sum(disk.size + 128 for disk in root.InstanceDisks(web)),
        "required_nodes": 1,
        "relocate_from": [secondary],
    }
    allocation = _Told(six)
    del allocation["request"]
    assert relocation == allocation


def test_the_storage_of_the_instances_counts_not_that_of_the_first_template(six: Master) -> None:
    """A cluster whose first enabled template is outside LVM still knows the space for its mirrored instances."""
    cluster = six.snapshot.cluster.Replace(enabled_disk_templates=["ext", "drbd", "plain"])
    six.cfg.Transact(lambda draft: draft.Put(cluster))
    (web,) = six.snapshot.instances.values()

    def space(request: requests.Request, result: Any) -> int:
        played = Answering(result)
        six[0].AddAllocator("mine", played)
        AskOn(six, "mine", request)
        return int(played.asked[0]["nodes"][six[0].name]["total_disk"])

    stays = [[], [[web.name, "no"]], []]
    assert space(requests.NodeEvacuate((web.name,), requests.ALL), stays) > 100_000
    assert space(requests.ChangeGroup((web.name,)), stays) > 100_000
    assert space(requests.Balance(1), [[], [], []]) > 100_000
    ext = requests.Allocate("new1.example.org", "ext", memory=128)
    assert space(ext, [six[0].name]) == 0
    both = requests.MultiAllocate((ext, dataclasses.replace(PLAIN, name="new2.example.org")))
    assert space(both, [[], ["new1.example.org", "new2.example.org"]]) > 100_000


def test_storage_that_nobody_reports_counts_as_none(make: Callable[..., Master]) -> None:
    root = configs.Example()
    cluster = root.cluster.Replace(enabled_disk_templates=["ext", "drbd", "file"], file_storage_dir="/srv/files")
    assert disk.StorageUnits(cluster, "ext") == []
    group = cluster.volume_group_name
    assert disk.StorageUnits(cluster, "drbd") == [("lvm-vg", group), ("lvm-pv", group)]
    assert disk.StorageUnits(cluster, "file") == [("file", "/srv/files")]
    # Without a template, or with one that is no longer enabled, it is the first whose space nodes report.
    assert disk.StorageUnits(cluster) == disk.StorageUnits(cluster, "plain") == [("lvm-vg", group), ("lvm-pv", group)]
    assert disk.StorageUnits(cluster.Replace(enabled_disk_templates=["ext"])) == []


@pytest.mark.parametrize(("template", "space"), [
    ("plain", 30), ("drbd", 286), ("file", 30), ("sharedfile", 30), ("rbd", 30), ("ext", 30), ("blockdev", 0),
    ("diskless", 0),
])  # fmt: skip
def test_space_by_template(template: str, space: int) -> None:
    assert requests.DiskSpace(template, [10, 20]) == space


def _Files() -> list[Any]:
    found = [path for path in sorted(CASES.glob("3*-hail-*/*.json")) if "40-hail-bad" not in str(path)]
    assert len(found) > 20
    return found


def test_the_files_of_3_1_have_nothing_that_ours_lacks(six: Master) -> None:
    message = _Told(six, PLAIN)
    node = message["nodes"][six[0].name]
    (inst,) = message["instances"].values()
    (group,) = message["nodegroups"].values()
    for path in _Files():
        told = json.loads(path.read_text(encoding="utf-8"))
        assert set(told) <= set(message), path
        for theirs, ours in (("nodes", node), ("instances", inst), ("nodegroups", group)):
            for entry in told[theirs].values():
                assert set(entry) - {"forthcoming"} <= set(ours), (path, theirs)
    # And ours is read by our own programs.
    assert htools_request.Parse(serializer.Dump(message)).request.type is htools_request.Type.ALLOCATE


def test_the_message_of_a_large_cluster_is_small_enough() -> None:
    root = configs.Large(2000)
    numbers = dict.fromkeys(root.nodes, clusterdata.Numbers(*[100000] * 11))
    data = clusterdata.ClusterData(root, numbers, {})
    begin = runtime.Monotonic()
    text = serializer.Dump(clusterdata.Message(data, hail.Entry(data, NEW)))
    assert len(text) < 4_000_000 and runtime.Monotonic() - begin < 5
