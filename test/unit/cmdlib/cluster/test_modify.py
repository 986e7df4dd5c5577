"""The cluster's settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.configs import GROUP, WEB
from support.master import Master

from ganeti import errors, objects, opcodes, params, pathutils, runtime


def _Cluster(master: Master) -> objects.Cluster:
    return master.snapshot.cluster


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    """Three nodes, one of them a candidate."""
    return make(3, candidates=1)


def _Set(master: Master, **changes: Any) -> Any:
    return master.Run(opcodes.OpClusterSetParams(**changes))


def _Refused(master: Master, match: str, ecode: str = errors.ECODE_INVAL, **changes: Any) -> errors.OpPrereqError:
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Set(master, **changes)
    assert caught.value.args[1] == ecode
    assert master.snapshot is before
    return caught.value


def _Messages(master: Master) -> str:
    return "\n".join(master.last.messages)


# --- settings that stand alone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field", "stored"),
    [
        ({"max_running_jobs": 5}, "max_running_jobs", 5),
        ({"max_tracked_jobs": 9}, "max_tracked_jobs", 9),
        ({"maintain_node_health": True}, "maintain_node_health", True),
        ({"prealloc_wipe_disks": True}, "prealloc_wipe_disks", True),
        ({"modify_etc_hosts": False}, "modify_etc_hosts", False),
        ({"default_iallocator": ""}, "default_iallocator", ""),
        ({"default_iallocator": "hail"}, "default_iallocator", "hail"),
        (
            {"default_iallocator_params": {"no-capacity-checks": True}},
            "default_iallocator_params",
            {"no-capacity-checks": True},
        ),
        ({"mac_prefix": "AA:00:12"}, "mac_prefix", "aa:00:12"),
        ({"reserved_lvs": ["xenvg/root.*"]}, "reserved_lvs", ("xenvg/root.*",)),
        ({"install_image": "/srv/image"}, "install_image", "/srv/image"),
        ({"zeroing_image": "http://example.org/zero"}, "zeroing_image", "http://example.org/zero"),
        ({"compression_tools": ["gzip", "lzop"]}, "compression_tools", ("gzip", "lzop")),
        ({"enabled_user_shutdown": True}, "enabled_user_shutdown", True),
        ({"uid_pool": [[5000, 5009]]}, "uid_pool", ((5000, 5009),)),
        ({"add_uids": [[4020, 4029]]}, "uid_pool", ((4000, 4019), (4020, 4029))),
        ({"remove_uids": [[4005, 4009]]}, "uid_pool", ((4000, 4004), (4010, 4019))),
        ({"hidden_os": [["add", "x"], ["add", "x"], ["add", "y"], ["remove", "z"]]}, "hidden_os", ("x", "y")),
        ({"blacklisted_os": [["add", "x"], ["remove", "x"]]}, "blacklisted_os", ()),
        ({"file_storage_dir": "/srv/other"}, "file_storage_dir", "/srv/other"),
        ({"hv_state": {"kvm": {"cpu_total": 4}}}, "hv_state_static", {"kvm": {"cpu_total": 4}}),
    ],
)
def test_a_setting_is_stored_at_once(master: Master, change: dict[str, Any], field: str, stored: Any) -> None:
    before = _Cluster(master)
    assert _Set(master, **change) is None
    after = _Cluster(master)
    assert getattr(after, field) == stored
    assert after.serial_no == before.serial_no + (getattr(before, field) != stored)
    # Nothing else changed.
    kept = {name: getattr(before, name) for name in (field, "serial_no", "mtime")}
    assert after.Replace(**kept) == before
    assert master.Stored().cluster == after


def test_what_is_there_already_changes_nothing(master: Master) -> None:
    before = master.snapshot
    assert _Set(master, candidate_pool_size=before.cluster.candidate_pool_size, enabled_hypervisors=["kvm"]) is None
    assert master.snapshot.cluster == before.cluster


@pytest.mark.parametrize(
    ("match", "change"),
    [
        ("not valid", {"master_netmask": 33}),
        ("not valid", {"master_netmask": 0}),
        ("at least one member", {"enabled_hypervisors": []}),
        ("contains duplicates", {"enabled_disk_templates": ["plain", "plain"]}),
        ("lower bound", {"uid_pool": [[9, 1]]}),
        ("not in the user-id pool", {"remove_uids": [[1, 2]]}),
        ("absolute path or a URL", {"install_image": "image"}),
        ("Invalid compression tool", {"compression_tools": ["rm -rf"]}),
        ("Invalid compression tool", {"compression_tools": ["gzip", "-x"]}),
        ("not a valid MAC prefix", {"mac_prefix": "zz"}),
        ("not a valid regular expression", {"reserved_lvs": ["("]}),
        ("not a valid name of a network interface", {"master_netdev": "eth 0"}),
        ("Unknown data collector", {"enabled_data_collectors": {"nothing": True}}),
        ("above zero", {"data_collector_interval": {"drbd": 0}}),
        ("there is no monitoring daemon", {"enabled_data_collectors": {"drbd": False}}),
        ("there is no monitoring daemon", {"data_collector_interval": {"lv": 1000000}}),
        ("Invalid default iallocator", {"default_iallocator": "nowhere"}),
        ("Invalid default iallocator", {"default_iallocator": "hail,nowhere"}),
        ("unrecognized option `--a=b'", {"default_iallocator_params": {"a": "b"}}),
        ("static-kvm-node-memory: cannot parse", {"default_iallocator_params": {"static-kvm-node-memory": "much"}}),
        ("cannot be an option of allocators", {"default_iallocator": "", "default_iallocator_params": {"-x": "b"}}),
        ("needs a text as its value", {"default_iallocator": "", "default_iallocator_params": {"x": ["b"]}}),
        ("needs a text as its value", {"default_iallocator": "", "default_iallocator_params": {"x": "a\nb"}}),
        ("Invalid default iallocator", {"default_iallocator": "../../bin/true"}),
        ("Unknown hypervisor", {"hvparams": {"vmware": {}}}),
        ("Unknown kvm parameter", {"hvparams": {"kvm": {"colour": "red"}}}),
        ("Unknown backend parameter", {"beparams": {"colour": "red"}}),
        ("minimum memory", {"beparams": {"minmem": 1024, "maxmem": 512}}),
        ("Unknown drbd disk parameter", {"diskparams": {"drbd": {"colour": "red"}}}),
        ("Unknown NIC parameter", {"nicparams": {"mac": "aa:00:00:00:00:01"}}),
        ("node parameter", {"ndparams": {"spindle_count": "many"}}),
        ("Invalid key in new ipolicy", {"ipolicy": {"colour": 1}}),
        ("Can't unset", {"ipolicy": {"vcpu-ratio": "default"}}),
        ("Invalid instance policy", {"ipolicy": {"std": {"memory-size": 1}}}),
        ("allowed is 1 to 16", {"ipolicy": {"memory-ratio": 0}}),
        (r"^\(\"Invalid instance policy: unknown disk template 'x'\"", {"ipolicy": {"disk-templates": ["x"]}}),
        ("allowed is 1 to 3", {"ipolicy": {"max-node-failures": 4}}),
        ("max-node-failures", {"ipolicy": {"max-node-failures": 1.5}}),
        ("Invalid modification", {"hidden_os": [["attach", "x"]]}),
    ],
)
def test_what_cannot_be(master: Master, match: str, change: dict[str, Any]) -> None:
    _Refused(master, match, **change)


@pytest.mark.req("RM-MEM-04")
def test_limits_that_3_1_does_not_have_are_there_only_while_they_are_set(master: Master) -> None:
    before = dict(master.snapshot.cluster.ipolicy)
    _Set(master, ipolicy={"memory-ratio": 1.5, "max-node-failures": 2.0})
    assert master.snapshot.cluster.ipolicy == {**before, "memory-ratio": 1.5, "max-node-failures": 2}
    master.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"memory-ratio": 2}))
    (group,) = master.snapshot.nodegroups.values()
    filled = params.FillIPolicy(master.snapshot, group)
    assert (filled["memory-ratio"], filled["max-node-failures"]) == (2.0, 2)
    master.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"memory-ratio": "default"}))
    _Set(master, ipolicy={"memory-ratio": "default", "max-node-failures": "default"})
    assert dict(master.snapshot.cluster.ipolicy) == before
    assert dict(next(iter(master.snapshot.nodegroups.values())).ipolicy) == {}


# --- parameter sets -----------------------------------------------------------------------------------------------------


def test_parameters_are_merged(master: Master) -> None:
    before = _Cluster(master)
    _Set(
        master,
        hvparams={"kvm": {"acpi": False}},
        beparams={"memory": "1g", "vcpus": 2},
        ndparams={"spindle_count": 7},
        diskparams={"drbd": {"resync-rate": 1024}},
    )
    after = _Cluster(master)
    assert after.hvparams["kvm"] == {**before.hvparams["kvm"], "acpi": False}
    assert after.hvparams["fake"] == before.hvparams["fake"]
    assert after.beparams["default"] == {**before.beparams["default"], "minmem": 1024, "maxmem": 1024, "vcpus": 2}
    assert after.ndparams == {**before.ndparams, "spindle_count": 7}
    assert after.diskparams["drbd"] == {**before.diskparams["drbd"], "resync-rate": 1024}
    _Set(master, ndparams={"spindle_count": "default"})
    assert _Cluster(master).ndparams == before.ndparams


def test_settings_of_data_collectors_stay_what_they_are(master: Master) -> None:
    before = _Cluster(master).data_collectors
    _Set(
        master,
        enabled_data_collectors={name: own["active"] for name, own in before.items()},
        data_collector_interval={name: own["interval"] for name, own in before.items()},
    )
    assert before and _Cluster(master).data_collectors == before


@pytest.mark.req("RM-DISK-14")
def test_disk_parameters_of_cluster_and_group_must_go_together(master: Master) -> None:
    master.Run(opcodes.OpGroupSetParams(group_name="default", diskparams={"drbd": {"c-plan-ahead": 0}}))
    _Refused(
        master,
        "nodegroup 'default': .*dynamic-resync needs a c-plan-ahead above 0",
        diskparams={"drbd": {"dynamic-resync": True}},
    )
    master.Run(opcodes.OpGroupSetParams(group_name="default", diskparams={"drbd": {"c-plan-ahead": "default"}}))
    _Set(master, diskparams={"drbd": {"dynamic-resync": True}})
    before = master.snapshot
    for op in (
        opcodes.OpGroupSetParams(group_name="default", diskparams={"drbd": {"c-plan-ahead": 0}}),
        opcodes.OpGroupAdd(group_name="far", diskparams={"drbd": {"c-plan-ahead": 0}}),
    ):
        with pytest.raises(errors.OpPrereqError, match="dynamic-resync needs a c-plan-ahead above 0"):
            master.Run(op)
        assert master.snapshot is before


def test_a_new_hypervisor_has_all_its_parameters_and_suits_the_nodes(master: Master) -> None:
    root = master.snapshot
    kept = {name: own for name, own in root.cluster.hvparams.items() if name != "lxc"}
    master.cfg.Update(root.cluster.Replace(hvparams=kept))
    master[1].faults["hypervisor_validate_params"] = "no cgroups here"
    _Refused(master, "no cgroups here", errors.ECODE_ENVIRON, enabled_hypervisors=["kvm", "lxc"])
    master[1].faults.clear()
    _Set(master, enabled_hypervisors=["kvm", "lxc"])
    assert _Cluster(master).enabled_hypervisors == ("kvm", "lxc") and _Cluster(master).hvparams["lxc"]
    # Only what is enabled is asked of the nodes.
    master[1].calls.clear()
    _Set(master, hvparams={"chroot": {"init_script": "/init"}})
    assert "hypervisor_validate_params" not in master[1].calls
    _Set(master, enabled_hypervisors=["lxc"])
    assert "hypervisor that is no longer enabled: web.example.org" in _Messages(master)


def test_hypervisor_parameters_of_a_system(master: Master) -> None:
    _Set(master, os_hvp={"debian+minimal": {"kvm": {"boot_order": "network"}}, "bsd": {"kvm": {"acpi": False}}})
    assert _Cluster(master).os_hvp["debian+minimal"]["kvm"] == {"acpi": False, "boot_order": "network"}
    checked = master[1].arguments["hypervisor_validate_params"][1]
    assert checked["acpi"] is False and len(checked) == len(_Cluster(master).hvparams["kvm"])
    _Set(master, os_hvp={"debian+minimal": {"kvm": None}})
    assert _Cluster(master).os_hvp["debian+minimal"] == {} and "bsd" in _Cluster(master).os_hvp
    _Refused(master, "boot_order", os_hvp={"bsd": {"kvm": {"boot_order": "tape"}}})


@pytest.mark.req("D22-OSP-21", "D22-OSP-24")
def test_parameters_of_systems(master: Master) -> None:
    _Set(master, osparams={"debian": {"a": "10g"}}, osparams_private_cluster={"debian": {"b": "x"}})
    assert _Cluster(master).osparams["debian"] == {"mirror": "http://deb.example.org", "a": "10g"}
    assert _Cluster(master).osparams_private_cluster["debian"] == {"b": "x"}
    assert master[0].arguments["os_validate"][1] == "debian" and "os_validate" not in master[1].calls
    _Set(master, osparams={"debian": {"a": None, "mirror": "default"}})
    assert "debian" not in _Cluster(master).osparams
    _Refused(master, "not supported by the OS", osparams={"debian": {"wrong": "1"}})
    _Refused(master, "more than one of public, private", osparams={"debian": {"b": "y"}})
    _Set(master, osparams={"unknown": {"any": "thing"}})


def test_nic_defaults_must_suit_every_instance(master: Master) -> None:
    _Refused(master, "Instance web.example.org, nic/0: routed NIC with no ip address", nicparams={"mode": "routed"})
    _Set(master, nicparams={"link": "br9", "vlan": "7"})
    assert _Cluster(master).nicparams["default"] == {"mode": "bridged", "link": "br9", "vlan": ".7"}


# --- storage ------------------------------------------------------------------------------------------------------------


def test_templates_in_use_stay(master: Master) -> None:
    _Refused(master, "because instance web.example.org is using it", enabled_disk_templates=["plain"])
    _Refused(master, "not enabled on the cluster: plain", enabled_disk_templates=["drbd"])
    policy = {"disk-templates": ["drbd", "file"]}
    _Set(master, enabled_disk_templates=["drbd", "file"], ipolicy=policy)
    assert _Cluster(master).enabled_disk_templates == ("drbd", "file")
    group = master.snapshot.nodegroups[GROUP]
    master.cfg.Update(group.Replace(ipolicy={"disk-templates": ["file"]}))
    _Refused(
        master,
        "Node group default: .*file",
        enabled_disk_templates=["drbd"],
        ipolicy={"disk-templates": ["drbd"]},
    )


def test_a_volume_group_that_no_node_reports_is_not_taken(master: Master) -> None:
    """Nodes that fail are passed over, but not all of them."""
    before = _Cluster(master)
    _Refused(master, "No node reports its volume groups: 'other' cannot be used", errors.ECODE_ENVIRON, vg_name="other")
    assert _Cluster(master) == before


@pytest.fixture
def volumes(make: Callable[..., Master]) -> Master:
    """Three nodes with LVM: ``data`` is on the first, too small on the second and missing on the third."""
    return make(3, candidates=1, lvm=True, prepare=_MakeGroups)


def _MakeGroups(master: Master) -> None:
    master[0].lvm.AddPv("/dev/sdx", "data", 30000)
    master[1].lvm.AddPv("/dev/sdx", "data", 20000)


def test_a_volume_group_that_some_nodes_lack_is_not_taken(volumes: Master) -> None:
    """All of them are named at once, with what to do."""
    found = _Refused(volumes, "volume group 'data'", errors.ECODE_ENVIRON, vg_name="data")
    first, second = str(found.args[0]).split("; Error on")
    assert (
        first
        == "Error on node 'node2.example.org': volume group 'data' too small (20480 MiB required, 20000 MiB found)"
    )
    assert second == " node 'node3.example.org': volume group 'data' missing; this node has xenvg"
    assert "lvmstrap --vg-name=data --alldisks create" in str(found.hint)
    # Nodes that cannot have instances need none; one that does not answer is passed over.
    volumes.cfg.Update(volumes.snapshot.nodes[volumes.nodes[1]].Replace(vm_capable=False))
    volumes[2].faults["vg_list"] = "LVM is broken"
    _Set(volumes, vg_name="data")
    assert _Cluster(volumes).volume_group_name == "data"
    assert "node3.example.org (ignoring node): LVM is broken" in _Messages(volumes)


def test_a_drbd_helper_that_some_nodes_do_not_have(three: Master) -> None:
    for node, answer in zip(three.all, ("/bin/one", "/bin/two", None), strict=True):
        if answer is None:
            node.faults["drbd_helper"] = "no module"
        else:
            node.answers["drbd_helper"] = answer
    found = _Refused(three, "usermode helper", errors.ECODE_ENVIRON, drbd_helper="/bin/one")
    other, unknown = str(found.args[0]).split("; Error on")
    assert other.startswith("Error on node 'node2.example.org': the DRBD usermode helper is /bin/two, not /bin/one: ")
    assert "'echo /bin/one > /sys/module/drbd/parameters/usermode_helper'" in other
    assert unknown == " node 'node3.example.org': the drbd helper could not be read: no module"
    assert "modprobe drbd usermode_helper=/bin/one" in str(found.hint)
    three[1].answers["drbd_helper"] = "/bin/one"
    three.cfg.Update(three.snapshot.nodes[three.nodes[2]].Replace(offline=True))
    _Set(three, drbd_helper="/bin/one")
    assert _Cluster(three).drbd_usermode_helper == "/bin/one"


def test_lvm_in_use_stays(master: Master) -> None:
    _Refused(master, "lvm-based instances exist: web.example.org", vg_name="")
    _Refused(master, "drbd-based instances exist: web.example.org", drbd_helper="")
    master.cfg.RemoveInstance(WEB)
    _Refused(master, "lvm-based disk templates are enabled", vg_name="")
    _Set(
        master,
        enabled_disk_templates=["diskless"],
        ipolicy={"disk-templates": ["diskless"]},
        vg_name="",
        drbd_helper="",
    )
    assert _Cluster(master).volume_group_name is None and _Cluster(master).drbd_usermode_helper is None
    _Refused(
        master, "lvm-based disk templates", enabled_disk_templates=["plain"], ipolicy={"disk-templates": ["plain"]}
    )
    _Refused(
        master, "without a usermode helper", enabled_disk_templates=["drbd"], ipolicy={"disk-templates": ["drbd"]},
        vg_name="xenvg",
    )  # fmt: skip


def test_directories(master: Master) -> None:
    _Set(master, shared_file_storage_dir="/srv/shared")
    assert "not enabled" in _Messages(master)
    _Refused(master, "absolute", file_storage_dir="srv")
    wanted = {"disk-templates": ["drbd", "plain", "file", "gluster"]}
    _Refused(
        master, "gluster_storage_dir cannot be empty", enabled_disk_templates=wanted["disk-templates"], ipolicy=wanted
    )
    _Set(master, enabled_disk_templates=wanted["disk-templates"], ipolicy=wanted, gluster_storage_dir="/srv/gluster")
    _Refused(master, "file_storage_dir cannot be empty", file_storage_dir="")


# --- policy -------------------------------------------------------------------------------------------------------------


def test_instances_that_break_the_new_policy_are_named(master: Master) -> None:
    templates = {"disk-templates": ["drbd", "plain"]}
    bounds = {end: dict(spec) for end, spec in _Cluster(master).ipolicy["minmax"][0].items()}
    bounds["min"]["memory-size"] = 1024
    _Set(master, ipolicy={"minmax": [bounds], "std": {"memory-size": 2048}, "vcpu-ratio": 2, **templates})
    policy = _Cluster(master).ipolicy
    assert policy["minmax"][0]["min"]["memory-size"] == 1024 and policy["vcpu-ratio"] == 2.0
    assert policy["std"]["memory-size"] == 2048 and policy["std"]["cpu-count"] == 1
    assert "following instances violate them: web.example.org" in _Messages(master)
    _Set(master, ipolicy={"vcpu-ratio": 3.0})
    assert "violate" not in _Messages(master), "it did so before"
    bounds["min"]["disk-size"] = 500_000
    _Set(master, ipolicy={"minmax": [bounds], "std": {"disk-size": 500_000}})
    assert "following instances violate them: web.example.org" in _Messages(master), "in one more way"


def _MakeDevices(*names: str) -> None:
    for name in names:
        runtime.MakeDirs(f"/sys/class/net/{name}")


# --- the master's address -----------------------------------------------------------------------------------------------


def test_the_address_moves_to_another_device(master: Master) -> None:
    _MakeDevices("eth1")
    devices: list[Any] = []
    master[0].before = lambda name, args: devices.append((name, args[0]["netdev"])) if "master_ip" in name else None
    _Set(master, master_netdev="eth1", master_netmask=24)
    assert devices == [("node_deactivate_master_ip", "br0"), ("node_activate_master_ip", "eth1")]
    assert master[0].arguments["node_activate_master_ip"][0]["netmask"] == 24
    assert "node_change_master_netmask" not in master[0].calls


def test_an_address_that_does_not_go_down_stays_unless_forced(master: Master) -> None:
    _MakeDevices("eth1", "eth2")
    master[0].faults["node_deactivate_master_ip"] = "busy"
    with pytest.raises(errors.OpExecError, match="Could not disable the master ip on br0: busy"):
        _Set(master, master_netdev="eth1")
    assert _Cluster(master).master_netdev == "br0"
    _Set(master, master_netdev="eth1", force=True)
    assert _Cluster(master).master_netdev == "eth1" and "busy" in _Messages(master)
    master[0].faults = {"node_activate_master_ip": "no device"}
    _Set(master, master_netdev="eth2")
    assert "Could not re-enable the master ip on eth2: no device" in _Messages(master)
    assert "'gnt-cluster modify --master-netdev=eth1' goes back" in _Messages(master)


def test_a_device_that_is_not_there_takes_nothing_down(master: Master) -> None:
    refused = _Refused(master, "has no network device 'nix0'", errors.ECODE_ENVIRON, master_netdev="nix0")
    assert refused.hint and "'ip link'" in refused.hint and "node_deactivate_master_ip" not in master[0].calls
    _Set(master, master_netdev="nix0", force=True)
    assert _Cluster(master).master_netdev == "nix0"


def _MakeScript(mode: int = 0o755) -> None:
    runtime.MakeDirs(f"{pathutils.CONF_DIR}/scripts")
    runtime.WriteFile(pathutils.EXTERNAL_MASTER_SETUP_SCRIPT, "#!/bin/sh\n", mode=mode)


def test_the_administrators_script_must_be_there(master: Master) -> None:
    match = "/scripts/master-ip-setup, cannot be used: No such file"
    refused = _Refused(master, match, errors.ECODE_ENVIRON, use_external_mip_script=True)
    assert refused.hint and pathutils.DEFAULT_MASTER_SETUP_SCRIPT in refused.hint
    _MakeScript(0o644)
    _Refused(master, "is not an executable file", errors.ECODE_ENVIRON, use_external_mip_script=True)
    _MakeScript()
    _Set(master, use_external_mip_script=True)
    assert _Cluster(master).use_external_mip_script


def test_every_change_of_the_address_goes_through_the_administrators_script(master: Master) -> None:
    """One script stops the address, which knows how it came up; the script that is used from now on starts it."""
    _MakeScript()
    programs = master[0].machine.programs
    programs[pathutils.EXTERNAL_MASTER_SETUP_SCRIPT] = programs[pathutils.DEFAULT_MASTER_SETUP_SCRIPT]
    calls: list[Any] = []

    def before(name: str, args: Any) -> None:
        if "master_ip" in name or "netmask" in name:
            calls.append((name.removeprefix("node_"), args[0]["netmask"], args[1]))

    master[0].before = before
    _Set(master, use_external_mip_script=True)
    _Set(master, master_netmask=24)
    _Set(master, master_netmask=24, use_external_mip_script=True)
    _Set(master, use_external_mip_script=False)
    down, up = "deactivate_master_ip", "activate_master_ip"
    assert calls == [
        (down, 32, False),
        (up, 32, True),
        (down, 32, True),
        (up, 24, True),
        (down, 24, True),
        (up, 24, False),
    ]


def test_a_netmask_of_one_address(master: Master) -> None:
    _Set(master, master_netmask=32)
    assert master.snapshot.cluster.master_netmask == 32


def test_the_netmask_alone(master: Master) -> None:
    _Set(master, master_netmask=24)
    assert master[0].arguments["node_change_master_netmask"] == (32, 24, "192.0.2.1", "br0")
    assert _Cluster(master).master_netmask == 24
    master[0].faults["node_change_master_netmask"] = "it is not up"
    _Set(master, master_netmask=28)
    assert _Cluster(master).master_netmask == 28
    assert "The new netmask 28 is recorded, but" in _Messages(master)
    assert "'gnt-cluster activate-master-ip'" in _Messages(master)


# --- what follows -------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-FLAG-02", "D20-FLAG-03")
def test_a_larger_pool_is_filled(three: Master) -> None:
    master = three
    _Set(master, candidate_pool_size=3)
    assert all(node.master_candidate for node in master.snapshot.nodes.values())
    assert set(master.store.Voters().by_uuid) == set(master.nodes)
    _Set(master, candidate_pool_size=1)
    assert "more master candidates (3) than desired (1)" in _Messages(master)
    assert len(master.store.Voters().by_uuid) == 3


def test_instance_communication_is_refused_and_can_be_cleared(master: Master) -> None:
    _Refused(master, "Instance communication is not supported", instance_communication_network="comm")
    _Set(master, instance_communication_network="")
    for wanted in (True, False):
        op = opcodes.OpInstanceSetParams(instance_name="web.example.org", instance_communication=wanted)
        with pytest.raises(errors.OpPrereqError, match="Instance communication is not supported"):
            master.Run(op)


def test_nothing_of_others_is_lost(master: Master) -> None:
    """Another job changes the cluster object while the nodes are asked."""

    def meanwhile(**fields: Any) -> Callable[[str, Any], None]:
        def change(name: str, args: Any) -> None:
            if name == "hypervisor_validate_params":
                master[0].before = lambda name, args: None
                master.cfg.Transact(lambda draft: draft.Touch(draft.root.cluster.Replace(**fields)))

        return change

    master[0].before = meanwhile(max_running_jobs=7)
    _Set(master, hvparams={"kvm": {"acpi": False}})
    assert _Cluster(master).max_running_jobs == 7 and _Cluster(master).hvparams["kvm"]["acpi"] is False
    master[0].before = meanwhile(hvparams={**_Cluster(master).hvparams, "fake": {}})
    with pytest.raises(errors.ConfigurationError, match="hvparams of the cluster was changed meanwhile"):
        _Set(master, hvparams={"kvm": {"acpi": True}})
    assert _Cluster(master).hvparams["kvm"]["acpi"] is False


def test_everything_is_locked_shared(master: Master) -> None:
    modes: set[str] = set()
    names: set[str] = set()

    def look(name: str, args: Any) -> None:
        for row in master.glm.QueryLocks():
            if row.owner:
                modes.add(row.mode)
                names.add(row.name)

    master[0].before = look
    _Set(master, candidate_pool_size=2)
    assert modes == {"shared"}
    assert {"instance/web.example.org", f"nodegroup/{GROUP}", "node-alloc/NAL"} <= names


def test_a_dry_run_checks_and_changes_nothing(master: Master) -> None:
    before = master.snapshot
    _Set(master, hvparams={"kvm": {"acpi": False}}, candidate_pool_size=9, dry_run=True)
    assert "hypervisor_validate_params" in master[0].calls and "dry-run" in _Messages(master)
    assert master.snapshot is before


# --- after init -----------------------------------------------------------------------------------------------------------


def test_the_masters_open_vswitch_is_made_and_then_the_master_address_on_it(master: Master) -> None:
    calls: list[str] = []
    master[0].before = lambda name, _args: calls.append(name)
    assert master.Run(opcodes.OpClusterPostInit()) is True
    assert "node_configure_ovs" not in calls and "node_activate_master_ip" not in calls
    cluster = master.snapshot.cluster
    master.cfg.Update(cluster.Replace(ndparams={**cluster.ndparams, "ovs": True, "ovs_name": "sw", "ovs_link": "eth1"}))
    assert master.Run(opcodes.OpClusterPostInit()) is True
    assert [name for name in calls if name != "hooks_runner"] == ["node_configure_ovs", "node_activate_master_ip"]
    assert master[0].arguments["node_configure_ovs"] == ("sw", "eth1")


def test_an_open_vswitch_of_the_master_that_cannot_be_made(master: Master) -> None:
    cluster = master.snapshot.cluster
    master.cfg.Update(cluster.Replace(ndparams={**cluster.ndparams, "ovs": True}))
    master[0].faults["node_configure_ovs"] = "no ovs-vsctl"
    with pytest.raises(
        errors.OpExecError,
        match=r"Open vSwitch of node1.* could not be set up.*'gnt-cluster activate-master-ip'.*no ovs-vsctl",
    ):
        master.Run(opcodes.OpClusterPostInit())
