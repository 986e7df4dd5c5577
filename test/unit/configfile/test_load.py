"""Reading a file: version, what is filled in, what is put right (doc/reference/config.md 19)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import configs

from ganeti import configfile, constants, errors, ht, objects, serializer
from ganeti.params import disk, hv, ipolicy, nd


def _Load(**cluster: Any) -> objects.Snapshot:
    """The example with other cluster keys; MISSING takes one away."""
    stored = configs.ExampleDict()
    for key, value in cluster.items():
        if value is objects.MISSING:
            stored["cluster"].pop(key, None)
        else:
            stored["cluster"][key] = value
    return configfile.LoadDict(stored)


def test_a_written_file_is_stable() -> None:
    text = objects.ConfigText(configs.Example())
    for _ in range(2):
        assert objects.ConfigText(configfile.LoadConfig(text)) == text
    # And nothing of the example is lost: every value of it is still there.
    _CheckContains(serializer.Load(text), configs.ExampleDict(), "")


def _CheckContains(found: Any, wanted: Any, where: str) -> None:
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert key in found, f"{where}/{key}"
            _CheckContains(found[key], value, f"{where}/{key}")
    else:
        assert found == wanted, where


@pytest.mark.parametrize("version", [2160000, 3000000, 3020000, None, "3010000", True])
def test_another_version_is_refused_with_the_way_out(version: Any) -> None:
    stored = configs.ExampleDict() | {"version": version}
    with pytest.raises(errors.ConfigVersionMismatch, match="this release needs"):
        configfile.LoadDict(stored)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("[]", "must be a JSON object"),
        ("{" * 100000, "cannot be read"),
        ('{"version":3010000,"nodes":[]}', "'nodes' must be an object"),
        ('{"version":3010000}', "cluster: key 'rsahostkeypub' is missing"),
        ('{"version":3010000,"cluster":5}', "'cluster' must be an object"),
    ],
)
def test_a_file_that_is_none(text: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        configfile.LoadConfig(text)


@given(data=st.data())
@settings(max_examples=150)
def test_a_damaged_value_is_never_a_traceback(data: Any) -> None:
    """Whatever stands in the place of a value: it loads, or it is refused as a configuration error; so do all checks."""
    stored = configs.ExampleDict()
    place: Any = stored
    for _ in range(data.draw(st.integers(1, 6))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key]:
            break
        parent, place = place, place[key]
    else:
        place = parent
    junk = [None, True, -1, 1.5, "x", "", [], {}, [[]], {"x": {}}, [{}], {"x": 1}, ["x"]]
    place[key if key in place or isinstance(place, list) else next(iter(place))] = data.draw(st.sampled_from(junk))
    try:
        root = configfile.LoadDict(stored)
    except errors.ConfigurationError:
        return
    configfile.VerifyConfig(root)
    assert configfile.LoadConfig(objects.ConfigText(root)) == root


def test_parameter_sets_are_completed() -> None:
    cluster = configs.Example().cluster
    assert set(cluster.hvparams) == set(constants.HYPER_TYPES)
    for name in constants.HYPER_TYPES:
        assert cluster.hvparams[name] == hv.DEFAULTS[name]
    assert cluster.ndparams == nd.DEFAULTS
    assert cluster.diskparams == disk.AllDefaults()
    own = _Load(
        hvparams={"kvm": {"acpi": False}}, diskparams={"plain": {"stripes": 3}}, ndparams={"ssh_port": 23}
    ).cluster
    assert own.hvparams["kvm"] == hv.DEFAULTS["kvm"] | {"acpi": False}
    assert own.diskparams["plain"] == {"stripes": 3}
    assert own.diskparams["drbd"] == disk.TEMPLATES["drbd"].defaults
    assert own.ndparams == nd.DEFAULTS | {"ssh_port": 23}


@pytest.mark.req("D21-NIC-02")
def test_the_old_default_bridge_becomes_the_link() -> None:
    cluster = _Load(nicparams=objects.MISSING, default_bridge="br7", default_hypervisor="kvm").cluster
    assert cluster.nicparams == {"default": {"mode": "bridged", "link": "br7", "vlan": ""}}
    assert not cluster.extra
    assert _Load(nicparams=objects.MISSING).cluster.nicparams["default"]["link"] == constants.DEFAULT_BRIDGE


def test_old_memory_becomes_both_limits() -> None:
    stored = configs.ExampleDict()
    stored["cluster"]["beparams"] = {"default": {"memory": 700, "vcpus": 2}}
    stored["instances"][configs.WEB]["beparams"] = {"memory": 900}
    root = configfile.LoadDict(stored)
    default = root.cluster.beparams["default"]
    assert (default["minmem"], default["maxmem"], default["vcpus"], default["spindle_use"]) == (700, 700, 2, 1)
    assert "memory" not in default
    assert root.instances[configs.WEB].beparams == {"minmem": 900, "maxmem": 900}


def test_absent_cluster_keys_get_their_values() -> None:
    expected = {
        "modify_etc_hosts": True,
        "modify_ssh_setup": True,
        "maintain_node_health": False,
        "uid_pool": (),
        "default_iallocator": "",
        "default_iallocator_params": {},
        "reserved_lvs": (),
        "hidden_os": (),
        "blacklisted_os": (),
        "primary_ip_family": 2,
        "master_netmask": 32,
        "prealloc_wipe_disks": False,
        "shared_file_storage_dir": "",
        "gluster_storage_dir": "",
        "use_external_mip_script": False,
        "candidate_certs": {},
        "max_running_jobs": 20,
        "max_tracked_jobs": 25,
        "install_image": "",
        "instance_communication_network": "",
        "compression_tools": ("gzip", "gzip-fast", "gzip-slow"),
        "enabled_user_shutdown": False,
        "ssh_key_type": "rsa",
        "ssh_key_bits": 2048,
        "os_hvp": {},
        "osparams": {},
        "osparams_private_cluster": {},
        "hv_state_static": {},
        "disk_state_static": {},
    }
    root = _Load(**dict.fromkeys(expected, objects.MISSING))
    for key, value in expected.items():
        assert getattr(root.cluster, key) == value, key
        assert key in root.cluster.ToDict(), key
    assert _Load(primary_ip_family=10, master_netmask=objects.MISSING).cluster.master_netmask == 128


@pytest.mark.parametrize(
    ("group", "types", "expected"),
    [
        ("xenvg", ["drbd"], ("drbd", "plain")),
        (None, ["drbd"], ("drbd",)),
        (None, ["sharedfile", "rbd", "file", "ext", "blockdev"], ("blockdev", "ext", "file", "rbd", "sharedfile")),
        (None, [], ("diskless",)),
        ("xenvg", [], ("diskless", "drbd", "plain")),
    ],
)
def test_enabled_templates_are_inferred(group: str | None, types: list[str], expected: tuple[str, ...]) -> None:
    stored = configs.ExampleDict()
    stored["cluster"].pop("enabled_disk_templates")
    stored["cluster"]["volume_group_name"] = group
    base = stored["disks"].pop(configs.WEB_DISK)
    stored["instances"][configs.WEB]["disks"] = [configs.Uuid(n) for n in range(len(types))]
    for number, kind in enumerate(types):
        stored["disks"][configs.Uuid(number)] = base | {"uuid": configs.Uuid(number), "dev_type": kind}
    assert configfile.LoadDict(stored).cluster.enabled_disk_templates == expected


def test_drbd_needs_a_helper() -> None:
    assert _Load(drbd_usermode_helper=objects.MISSING).cluster.drbd_usermode_helper == "/bin/true"
    without = _Load(drbd_usermode_helper=objects.MISSING, enabled_disk_templates=["plain"]).cluster
    assert without.drbd_usermode_helper is None


def test_policies_keep_to_enabled_templates() -> None:
    stored = configs.ExampleDict()
    stored["cluster"]["ipolicy"] = {}
    stored["nodegroups"][configs.GROUP]["ipolicy"] = {"disk-templates": ["rbd", "plain"]}
    root = configfile.LoadDict(stored)
    assert sorted(root.cluster.ipolicy["disk-templates"]) == ["drbd", "plain"]
    assert root.nodegroups[configs.GROUP].ipolicy == {"disk-templates": ("plain",)}
    assert root.cluster.ipolicy["std"] == ipolicy.DEFAULTS["std"]
    assert not configfile.VerifyConfig(root)
    with pytest.raises(errors.ConfigurationError, match="memory-rate"):
        _Load(ipolicy={"memory-rate": 1.0})


def test_a_cluster_without_groups_gets_one() -> None:
    stored = configs.ExampleDict()
    stored["nodegroups"] = {}
    for node in stored["nodes"].values():
        del node["group"]
    root = configfile.LoadDict(stored)
    (group,) = root.nodegroups.values()
    assert (group.name, group.alloc_policy, group.serial_no) == ("default", "preferred", 1)
    assert {node.group for node in root.nodes.values()} == {group.uuid}
    assert not configfile.VerifyConfig(root)


def test_groups_are_completed_and_members_left_to_the_nodes() -> None:
    stored = configs.ExampleDict()
    stored["nodegroups"][configs.GROUP] = {
        "name": "default",
        "uuid": configs.GROUP,
        "members": [configs.NODE1],
        "networks": {configs.Uuid(5): {"mode": "routed", "link": "100"}},
    }
    group = configfile.LoadDict(stored).nodegroups[configs.GROUP]
    assert group.members == ()
    assert group.networks == {configs.Uuid(5): {"mode": "routed", "link": "100", "vlan": ""}}
    assert (group.alloc_policy, group.serial_no, group.ctime) == ("preferred", 1, 0)


@pytest.mark.req("D21-GLOBHV-04")
def test_global_parameters_leave_instances_and_nodes() -> None:
    stored = configs.ExampleDict()
    stored["instances"][configs.WEB]["hvparams"] = {"migration_port": 9, "migration_mode": "live", "acpi": False}
    stored["nodes"][configs.NODE1]["ndparams"] = {"exclusive_storage": True, "ovs": True}
    root = configfile.LoadDict(stored)
    assert root.instances[configs.WEB].hvparams == {"acpi": False}
    assert root.nodes[configs.NODE1].ndparams == {"ovs": True}


@pytest.mark.req("D21-UUID-05")
def test_every_object_without_a_uuid_gets_one() -> None:
    """What is stored under a uuid has that one; what is embedded, and the cluster, get new ones, which stay."""
    stored = configs.ExampleDict()
    stored["networks"][configs.Uuid(5)] = {"name": "net", "network": "10.0.0.0/24"}
    web, dev = stored["instances"][configs.WEB], stored["disks"][configs.WEB_DISK]
    lacking = [stored["cluster"], web, dev, *web["nics"], *dev["children"], *stored["nodes"].values()]
    lacking += stored["nodegroups"].values()
    for item in lacking:
        del item["uuid"]
    root = configfile.LoadDict(stored)
    for kind, attribute, _ in objects.KIND_MAPS:
        assert [obj.uuid for obj in root.Objects(kind).values()] == list(getattr(root, attribute))
    (nic,), children = root.instances[configs.WEB].nics, root.disks[configs.WEB_DISK].children
    made = [root.cluster.uuid, nic.uuid, *(child.uuid for child in children)]
    assert all(ht.TUuid(uuid) for uuid in made)
    assert len(set(made)) == len(made) == 4
    assert configfile.StructuralProblems(root) == []
    assert configfile.LoadConfig(objects.ConfigText(root)) == root


def test_old_instances_nics_disks_and_networks() -> None:
    stored = configs.ExampleDict()
    web = stored["instances"][configs.WEB]
    for key in ("osparams", "osparams_private", "disks_active", "admin_state_source"):
        del web[key]
    del web["nics"][0]["uuid"]
    del web["nics"][0]["nicparams"]
    disk_item = stored["disks"][configs.WEB_DISK]
    disk_item["dev_type"] = "drbd8"
    for key in ("params", "serial_no", "ctime", "mtime"):
        del disk_item[key]
    for child in disk_item["children"]:
        child["dev_type"] = "lvm"
    stored["networks"][configs.Uuid(5)] = {
        "name": "net", "network": "10.0.0.0/24", "uuid": configs.Uuid(5), "network_type": "private", "family": 4,
    }  # fmt: skip
    root = configfile.LoadDict(stored)
    loaded = root.instances[configs.WEB]
    assert (loaded.disks_active, loaded.admin_state_source, loaded.osparams) == (True, "admin", {})
    assert len(loaded.nics[0].uuid) == 36
    assert loaded.nics[0].nicparams == {}
    drbd = root.disks[configs.WEB_DISK]
    assert (drbd.dev_type, drbd.serial_no, drbd.ctime, drbd.params) == ("drbd", 1, 0, {})
    assert [child.dev_type for child in drbd.children] == ["plain", "plain"]
    network = root.networks[configs.Uuid(5)]
    assert not network.extra
    assert (network.serial_no, network.tags) == (1, ())
    assert not configfile.VerifyConfig(root)
    web["admin_state"] = "down"
    del web["disks_active"]
    assert configfile.LoadDict(stored).instances[configs.WEB].disks_active is False
