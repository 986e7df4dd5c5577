"""Files of 2.0 to 2.15 become files of this release (doc/reference/config.md 21)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs, oldconfigs

from ganeti import configfile, errors, objects, params, upgrade

_NO_TIMES = {"serial_no": 0, "ctime": 0.0, "mtime": 0.0}


def _Upgraded(release: str) -> objects.Snapshot:
    return configfile.LoadDict(upgrade.UpgradeConfig(oldconfigs.Aged(release)))


def _Facts(root: objects.Snapshot) -> Any:
    """What every release knows of a cluster, with names instead of UUIDs."""

    def disk_facts(disk: objects.Disk) -> Any:
        place = [root.NodeName(part) if part in root.nodes else part for part in disk.logical_id]
        nodes = [root.NodeName(uuid) for uuid in disk.nodes]
        return disk.dev_type, place, disk.size, disk.mode, disk.iv_name, nodes, list(map(disk_facts, disk.children))

    cluster = root.cluster
    nodes = {
        node.name: (node.primary_ip, node.secondary_ip, node.master_candidate, node.offline)
        for node in root.nodes.values()
    }
    instances = {}
    for instance in root.instances.values():
        instances[instance.name] = (
            (instance.os, instance.hypervisor, instance.hvparams, instance.network_port, sorted(instance.tags)),
            (instance.admin_state, instance.disks_active, params.FillBE(root, instance)),
            (
                root.NodeName(instance.primary_node or ""),
                [root.NodeName(uuid) for uuid in root.SecondaryNodes(instance)],
            ),
            [(nic.mac, nic.ip) for nic in instance.nics],
            [disk_facts(disk) for disk in root.InstanceDisks(instance)],
        )
    groups = sorted(group.name for group in root.nodegroups.values())
    return cluster.cluster_name, root.master_name, cluster.enabled_hypervisors[0], nodes, groups, instances


@pytest.mark.parametrize("release", oldconfigs.RELEASES)
def test_every_release_is_read_and_nothing_is_lost(release: str) -> None:
    root = _Upgraded(release)
    assert configfile.VerifyConfig(root) == []
    assert _Facts(root) == _Facts(configs.Example())


@pytest.mark.parametrize("release", [name for name in oldconfigs.RELEASES if oldconfigs.Number(name) >= 2090000])
def test_uuids_stay_what_they_are(release: str) -> None:
    now, then = configs.Example(), _Upgraded(release)
    assert then.nodes == now.nodes
    assert then.instances == now.instances
    for uuid, disk in now.disks.items():
        assert then.disks[uuid].Replace(**_NO_TIMES) == disk.Replace(**_NO_TIMES)


def test_uuids_of_nodes_and_instances_are_older_than_their_use() -> None:
    now, then = configs.Example(), _Upgraded("2.1")
    assert (set(then.nodes), set(then.instances)) == (set(now.nodes), set(now.instances))
    assert then.cluster.uuid == now.cluster.uuid


def test_a_bridge_becomes_the_link_of_its_nic() -> None:
    root = _Upgraded("2.0")
    (nic,) = next(iter(root.instances.values())).nics
    assert nic.nicparams == {"mode": "bridged", "link": "br7"}
    assert root.cluster.nicparams["default"]["link"] == configs.Example().cluster.nicparams["default"]["link"]


def test_limits_of_before_2_8_are_completed_as_they_were_inherited() -> None:
    root = _Upgraded("2.7")
    own = configs.Example().cluster.ipolicy
    (pair,) = root.cluster.ipolicy["minmax"]
    assert (pair["min"]["memory-size"], pair["max"]) == (
        own["minmax"][0]["min"]["memory-size"],
        own["minmax"][0]["max"],
    )
    assert pair["min"]["disk-count"] == 1, "what a file of then does not have is the default"
    (group,) = root.nodegroups.values()
    assert set(group.ipolicy) == {"minmax", "vcpu-ratio"}, "a group has no standard"
    (limits,) = group.ipolicy["minmax"]
    assert limits["max"] == {**pair["max"], "memory-size": 4096}
    assert limits["min"] == pair["min"]


def test_networks_of_nics_were_names() -> None:
    old = oldconfigs.Aged("2.8")
    old["networks"] = {configs.Uuid(7): {"name": "lan", "network": "192.0.2.0/24", "uuid": configs.Uuid(7)}}
    (instance,) = old["instances"].values()
    instance["nics"][0]["network"] = "lan"
    root = configfile.LoadDict(upgrade.UpgradeConfig(old))
    assert next(iter(root.instances.values())).nics[0].network == configs.Uuid(7)


def test_disks_get_their_numbers_and_the_times_of_their_instance() -> None:
    old = oldconfigs.Aged("2.11")
    (instance,) = old["instances"].values()
    plain = {"dev_type": "plain", "logical_id": ["xenvg", "second"], "size": 5, "mode": "ro", "uuid": configs.Uuid(8)}
    instance["disks"].append(plain)
    instance.update(ctime=3.5, mtime=4.5)
    root = configfile.LoadDict(upgrade.UpgradeConfig(old))
    second = root.disks[configs.Uuid(8)]
    assert (second.iv_name, second.ctime, second.mtime, second.serial_no) == ("disk/1", 3.5, 4.5, 1)
    assert second.nodes == (configs.NODE1,), "a volume is on the primary node"


def test_a_drbd_disk_names_the_primary_node_first_wherever_it_was_made() -> None:
    old = oldconfigs.Aged("2.13")
    (instance,) = old["instances"].values()
    instance["primary_node"] = configs.NODE2
    root = configfile.LoadDict(upgrade.UpgradeConfig(old))
    disk = root.disks[configs.WEB_DISK]
    assert disk.logical_id[:2] == (configs.NODE1, configs.NODE2), "the order of the two minors is not touched"
    assert [part.nodes for part in (disk, *disk.children)] == [(configs.NODE2, configs.NODE1)] * 3


def test_what_an_instance_names_must_be_there() -> None:
    old = oldconfigs.Aged("2.6")
    (instance,) = old["instances"].values()
    instance["primary_node"] = "node9.example.org"
    root = configfile.LoadDict(upgrade.UpgradeConfig(old))
    assert any("primary node node9.example.org does not exist" in text for text in configfile.StructuralProblems(root))


def _Paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from _Paths(item, (*path, key))


_FILES = {name: oldconfigs.Aged(name) for name in oldconfigs.RELEASES}
_PLACES = {name: list(_Paths(data)) for name, data in _FILES.items()}
_JUNK = st.sampled_from(
    [None, True, -1, 10**30, 0.5, "", "x", [], [None], ["x", 1], {}, {"x": None}, {"uuid": 5}, [{"nodes": 1}]]
)


@given(choice=st.data(), name=st.sampled_from(oldconfigs.RELEASES), junk=_JUNK)
def test_one_broken_field_is_read_or_named_never_a_traceback(choice: Any, name: str, junk: Any) -> None:
    *way, last = choice.draw(st.sampled_from(_PLACES[name]))
    data = copy.deepcopy(_FILES[name])
    part: Any = data
    for key in way:
        part = part[key]
    if choice.draw(st.booleans()):
        part[last] = junk
    else:
        del part[last]
    try:
        root = configfile.LoadDict(upgrade.UpgradeConfig(data))
    except errors.ConfigurationError as err:
        assert str(err)
        return
    configfile.VerifyConfig(root)
