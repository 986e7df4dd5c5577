"""Parameters from a request to the configuration, to nodes and back to people (designs 2.0 and 2.1, resource model)."""

from __future__ import annotations

from typing import Any

import pytest
from support.master import Master

from ganeti import constants, errors, objects, opcodes, runtime
from ganeti.hypervisor.kvm import network
from ganeti.params import hv

NEW = "new.example.org"
WEB = "web.example.org"


def _Allow(master: Master) -> None:
    cluster = master.snapshot.cluster
    master.cfg.Update(
        cluster.Replace(
            enabled_disk_templates=["diskless", "drbd", "plain", "file"],
            enabled_hypervisors=["fake", "kvm"],
            ipolicy={**cluster.ipolicy, "disk-templates": ["diskless", "drbd", "plain", "file"]},
        )
    )


@pytest.fixture
def free(make: Any) -> Master:
    """Diskless instances may be made, with two hypervisors."""
    made: Master = make(2, prepare=_Allow)
    return made


@pytest.fixture
def both(make: Any) -> Master:
    """As ``free``, and the two nodes have volume groups, so instances may be mirrored."""
    made: Master = make(2, prepare=_Allow, lvm=True)
    return made


def _Create(master: Master, **values: Any) -> objects.Instance:
    defaults: dict[str, Any] = {
        "instance_name": NEW, "mode": "create", "disk_template": "diskless", "disks": [], "nics": [{}], "no_install": True,
        "os_type": "debian+minimal", "pnode": "node1", "hypervisor": "fake", "start": False,
    }  # fmt: skip
    master.Run(opcodes.OpInstanceCreate(**{**defaults, **values}))
    return master.Instance(values.get("instance_name", NEW))


def _Modify(master: Master, name: str = NEW, **values: Any) -> objects.Instance:
    master.Run(opcodes.OpInstanceSetParams(instance_name=name, **values))
    return master.Instance(name)


def _Refused(run: Any, match: str, code: str = errors.ECODE_INVAL) -> None:
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        run()
    assert caught.value.args[1] == code


def _Shown(master: Master, name: str, *fields: str) -> list[Any]:
    """What a query answers for one instance."""
    (row,) = master.context.query.QueryNow("instance", fields, ["=", "name", name])["data"]
    return [value for _, value in row]


def _Info(master: Master, name: str = WEB) -> dict[str, Any]:
    found = master.Run(opcodes.OpInstanceQueryData(instances=[name], static=True))
    return dict(next(iter(found.values())))


# --- hypervisor and backend parameters ----------------------------------------------------------------------------------


@pytest.mark.req("D20-PAR-22")
def test_requests_name_only_what_differs(free: Master) -> None:
    """Every key is optional at creation; a modification takes the changed ones and leaves the others."""
    made = _Create(free, beparams={"vcpus": 2})
    assert (dict(made.beparams), dict(made.hvparams)) == ({"vcpus": 2}, {})
    changed = _Modify(free, beparams={"auto_balance": False})
    assert dict(changed.beparams) == {"vcpus": 2, "auto_balance": False}
    kept = _Modify(free, WEB, hvparams={"acpi": False})
    assert dict(kept.hvparams) == {"kernel_path": "", "acpi": False}
    back = _Modify(free, WEB, hvparams={"acpi": "default"})
    assert dict(back.hvparams) == {"kernel_path": ""}


@pytest.mark.req("D20-PAR-02")
def test_an_instance_has_only_its_own_hypervisors_parameters(free: Master) -> None:
    _Refused(lambda: _Create(free, hvparams={"kernel_path": "/x"}), "Unknown fake parameter 'kernel_path'")
    _Refused(lambda: _Modify(free, WEB, hvparams={"bootloader_path": "/x"}), "Unknown kvm parameter 'bootloader_path'")
    assert set(_Info(free)["hv_actual"]) == set(hv.TABLES["kvm"]) - hv.GLOBALS
    made = _Create(free)
    assert set(_Info(free, NEW)["hv_actual"]) == set(hv.TABLES["fake"]) - hv.GLOBALS
    assert not made.hvparams


@pytest.mark.req("D20-PAR-21")
def test_a_node_gets_final_values(free: Master) -> None:
    """Whatever is set nowhere but in the defaults of the cluster comes with the instance."""
    free.Run(opcodes.OpClusterSetParams(hvparams={"kvm": {"boot_order": "network"}}, beparams={"vcpus": 3}))
    _Create(free, hypervisor="kvm", beparams={"auto_balance": False})
    free.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    started = objects.Instance.FromDict(free[0].arguments["instance_start"][0], runtime=True)
    cluster = free.snapshot.cluster
    assert started.hvparams == {**cluster.hvparams["kvm"], "boot_order": "network", "acpi": False}, "acpi is the OS's"
    assert started.hvparams.keys() == hv.TABLES["kvm"].keys()
    assert started.beparams == {**cluster.beparams["default"], "vcpus": 3, "auto_balance": False}
    (nic,) = started.nics
    assert nic.nicparams == cluster.nicparams["default"]
    stored = free.Instance(NEW)
    assert (dict(stored.hvparams), dict(stored.beparams)) == ({}, {"auto_balance": False})


@pytest.mark.req("D21-PARAM-10")
def test_each_component_is_given_the_parameters_that_it_knows(free: Master) -> None:
    """The hypervisor of a node checks hypervisor parameters, the operating system its own, the master the others."""
    values = {"hvparams": {"acpi": False}, "beparams": {"vcpus": 2}, "osparams": {"mirror": "x"}}
    _Create(free, hypervisor="kvm", **values)
    name, given = free[0].arguments["hypervisor_validate_params"][-2:]
    assert (name, given.keys(), given["acpi"]) == ("kvm", hv.TABLES["kvm"].keys(), False)
    assert free[0].arguments["os_validate"][3] == {"mirror": "x"}
    for wrong, match in (
        ({"hvparams": {"vcpus": 2}}, "Unknown kvm parameter 'vcpus'"),
        ({"beparams": {"acpi": False}}, "'acpi'"),
        ({"osparams": {"acpi": "no"}}, "acpi"),
    ):
        with pytest.raises(errors.OpPrereqError, match=match):
            _Create(free, instance_name="wrong.example.org", hypervisor="kvm", **wrong)


@pytest.mark.req("D21-GLOBHV-02")
@pytest.mark.parametrize("name", sorted(hv.GLOBALS))
def test_cluster_wide_parameters_are_rejected_for_an_instance(free: Master, name: str) -> None:
    values = {name: hv.TABLES["kvm"][name].default}
    match = f"cannot contain cluster-wide ones: {name}"
    _Refused(lambda: _Create(free, hypervisor="kvm", hvparams=values), match)
    _Refused(lambda: _Modify(free, WEB, hvparams=values), match)
    assert name not in free.Instance(WEB).hvparams
    free.Run(opcodes.OpClusterSetParams(hvparams={"kvm": values}))


@pytest.mark.req("D21-GLOBHV-03", "D20-PAR-23")
def test_queries_show_what_an_instance_runs_with_and_nothing_cluster_wide(master: Master) -> None:
    """Single parameters and whole dictionaries, filled and own; the cluster's own parameters stand in neither."""
    shown = _Shown(master, WEB, "hvparams", "hv/acpi", "beparams", "be/vcpus", "custom_hvparams", "custom_beparams")
    hvparams, acpi, beparams, vcpus, own_hv, own_be = shown
    assert set(hvparams) == set(hv.TABLES["kvm"]) - hv.GLOBALS
    assert (hvparams["kernel_path"], hvparams["acpi"], acpi) == ("", False, False), "own, of the OS, the same alone"
    assert (beparams["maxmem"], beparams["vcpus"], vcpus) == (512, 1, 1)
    assert (own_hv, own_be) == ({"kernel_path": ""}, {"maxmem": 512, "minmem": 512})
    names = {definition["name"] for definition in master.context.query.QueryFields("instance", None)["fields"]}
    assert not {f"hv/{name}" for name in hv.GLOBALS} & names
    info = _Info(master)
    assert not hv.GLOBALS & info["hv_actual"].keys()
    assert info["hv_actual"] == hvparams
    assert info["be_actual"] == beparams


@pytest.mark.req("D20-PAR-13")
def test_how_devices_are_shown_is_one_value_for_all_of_an_instance(free: Master) -> None:
    """A hypervisor parameter; where a disk is stored is on the disk object, and a device has no value of its own."""
    assert not {"disk_type", "nic_type"} & {*objects.Disk.FIELDS, *objects.NIC.FIELDS}
    values = {"disk_type": "ide", "nic_type": "e1000"}
    disks = [{"size": 1024}, {"size": 2048}]
    _Create(free, hypervisor="kvm", hvparams=values, disk_template="file", disks=disks, nics=[{}, {}])
    assert _Shown(free, NEW, "hv/disk_type", "hv/nic_type") == ["ide", "e1000"]
    assert [disk.dev_type for disk in free.snapshot.InstanceDisks(free.Instance(NEW))] == ["file", "file"]
    _Modify(free, hvparams={"disk_type": "paravirtual"})
    free.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    started = objects.Instance.FromDict(free[0].arguments["instance_start"][0], runtime=True)
    assert (started.hvparams["disk_type"], started.hvparams["nic_type"]) == ("paravirtual", "e1000")
    with pytest.raises(errors.ParseError, match="unknown key"):
        _Modify(free, nics=[["add", -1, {"nic_type": "e1000"}]])


@pytest.mark.req("D20-PAR-24", "D20-PAR-08", "D21-PARAM-13")
def test_the_cluster_keeps_the_defaults_of_instances(master: Master) -> None:
    """Per hypervisor, and under the one category ``default``; opcodes change single values of them."""
    before = master.snapshot.cluster
    assert set(before.hvparams) == set(constants.HYPER_TYPES)
    assert set(before.beparams) == set(before.nicparams) == {"default"}
    master.Run(
        opcodes.OpClusterSetParams(
            hvparams={"kvm": {"boot_order": "network"}}, beparams={"vcpus": 3}, nicparams={"link": "br7"}
        )
    )
    after = master.snapshot.cluster
    assert after.hvparams["kvm"] == {**before.hvparams["kvm"], "boot_order": "network"}
    assert after.hvparams["xen-pvm"] == before.hvparams["xen-pvm"]
    assert after.beparams == {"default": {**before.beparams["default"], "vcpus": 3}}
    assert after.nicparams == {"default": {**before.nicparams["default"], "link": "br7"}}
    assert _Shown(master, WEB, "hv/boot_order", "be/vcpus", "nic.link/0") == ["network", 3, "br7"]


@pytest.mark.req("D20-CLI-13", "D20-CLI-17")
def test_an_instance_has_the_hypervisor_that_is_named_or_the_first_that_is_enabled(free: Master) -> None:
    for enabled in (["kvm", "fake"], ["fake", "kvm"]):
        free.Run(opcodes.OpClusterSetParams(enabled_hypervisors=enabled))
        name = f"{enabled[0]}.example.org"
        assert _Create(free, instance_name=name, hypervisor=None).hypervisor == enabled[0]
    for wrong in ([], ["vmware"], ["kvm", "vmware"]):
        with pytest.raises((errors.OpPrereqError, errors.ParseError)):
            free.Run(opcodes.OpClusterSetParams(enabled_hypervisors=wrong))
    chosen = _Create(free, instance_name="chosen.example.org", hypervisor="kvm", hvparams={"boot_order": "network"})
    assert (chosen.hypervisor, dict(chosen.hvparams)) == ("kvm", {"boot_order": "network"}), "not the default, fake"
    not_enabled = r"Selected hypervisor \(xen-pvm\) not enabled in the cluster \(fake, kvm\)"
    _Refused(lambda: _Create(free, hypervisor="xen-pvm"), not_enabled, errors.ECODE_STATE)
    with pytest.raises(errors.ParseError, match="vmware"):
        _Create(free, hypervisor="vmware")


# --- memory and state ---------------------------------------------------------------------------------------------------


@pytest.mark.req("RM-MEM-01", "RM-INST-02")
def test_an_instance_has_a_minimum_and_a_maximum_of_memory(free: Master) -> None:
    made = _Create(free, beparams={"minmem": 256, "maxmem": 1024})
    assert dict(made.beparams) == {"minmem": 256, "maxmem": 1024}
    assert _Shown(free, NEW, "be/minmem", "be/maxmem") == [256, 1024]
    _Refused(lambda: _Modify(free, beparams={"minmem": 2048}), r"minimum memory \(2048 MiB\) must not be above")
    assert dict(_Modify(free, beparams={"maxmem": "4g"}).beparams) == {"minmem": 256, "maxmem": 4096}


@pytest.mark.req("RM-INST-03")
def test_the_old_name_of_memory_sets_both_limits(free: Master) -> None:
    assert dict(_Create(free, beparams={"memory": "1g"}).beparams) == {"minmem": 1024, "maxmem": 1024}
    assert dict(_Modify(free, beparams={"memory": 512}).beparams) == {"minmem": 512, "maxmem": 512}
    assert dict(_Modify(free, beparams={"memory": 2048, "minmem": 128}).beparams) == {"minmem": 128, "maxmem": 2048}
    free.Run(opcodes.OpClusterSetParams(beparams={"memory": 640}))
    defaults = free.snapshot.cluster.beparams["default"]
    assert (defaults["minmem"], defaults["maxmem"], "memory" in defaults) == (640, 640, False)


@pytest.mark.req("RM-MEM-06")
def test_the_memory_of_a_running_instance_moves_between_its_limits(master: Master) -> None:
    _Modify(master, WEB, beparams={"minmem": 256})
    for size in (256, 300, 512):
        _Modify(master, WEB, runtime_mem=size)
        assert master[0].guests[WEB] == size
    for size in (255, 513):
        _Refused(lambda size=size: _Modify(master, WEB, runtime_mem=size), "between 256 and 512")  # type: ignore[misc]
    assert master[0].guests[WEB] == 512


@pytest.mark.req("RM-INST-01", "RM-SOR-12")
def test_an_offline_instance_is_more_than_a_stopped_one(free: Master) -> None:
    """It cannot be started, and its memory is not counted, until it is put online again."""
    _Create(free)
    offline = _Modify(free, offline=True)
    assert (offline.admin_state, offline.disks_active) == ("offline", False)
    assert _Shown(free, NEW, "admin_state", "status") == ["offline", "ADMIN_offline"]
    _Refused(lambda: free.Run(opcodes.OpInstanceStartup(instance_name=NEW)), "offline", errors.ECODE_STATE)
    assert _Modify(free, offline=False).admin_state == "down"
    free.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    assert NEW in free[0].guests
    free.Run(opcodes.OpInstanceShutdown(instance_name=NEW))
    assert free.Instance(NEW).admin_state == "down", "stopping is something else"


# --- policies -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("RM-ISPEC-04", "RM-ISPEC-06", "RM-ISPEC-13")
def test_requests_are_measured_by_the_policy(free: Master) -> None:
    """Minimum, maximum and standard are dictionaries; out of bounds is rejected, unless the policy is ignored."""
    policy = free.snapshot.cluster.ipolicy
    (bounds,) = policy["minmax"]
    assert set(bounds["min"]) == set(bounds["max"]) == set(policy["std"])
    low = {**bounds["min"], "nic-count": 0, "memory-size": 128}
    wanted = {"minmax": [{"min": low, "max": {**bounds["max"], "cpu-count": 4}}], "std": {"cpu-count": 2}}
    free.Run(opcodes.OpClusterSetParams(ipolicy=wanted))
    for values in ({"memory": 64}, {"vcpus": 5}):
        _Refused(lambda values=values: _Create(free, beparams=values), "is not in range")  # type: ignore[misc]
    _Create(free, beparams={"vcpus": 5}, ignore_ipolicy=True)
    assert any("violates the policy" in text for text in free.last.messages)
    _Create(free, instance_name="fits.example.org", beparams={"vcpus": 4})
    # The standard is one set of values of the cluster; it merges, and no group has its own.
    std = free.snapshot.cluster.ipolicy["std"]
    assert std == {**policy["std"], "cpu-count": 2}
    _Refused(
        lambda: free.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"std": {"cpu-count": 3}})),
        "std cannot appear in the instance policy of a group",
    )
    (row,) = free.context.query.QueryNow("group", ["ipolicy", "custom_ipolicy"], None)["data"]
    assert row[1][1] == {} and "std" not in row[1][1]


# --- network interfaces -------------------------------------------------------------------------------------------------


@pytest.mark.req("D21-PARAM-04", "D21-NIC-01")
def test_a_bridged_nic_is_on_its_own_bridge_or_on_the_clusters(free: Master) -> None:
    """The node is asked for the bridge that the NIC ends up with, and its hypervisor is given it."""
    _Refused(lambda: _Create(free, nics=[{"link": "br7"}]), "Missing bridges br7", errors.ECODE_ENVIRON)
    free[0].Call(runtime.MakeDirs, "/sys/class/net/br7/bridge")
    _Create(free, nics=[{"mode": "bridged", "link": "br7"}, {}])
    free.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    own, default = free.Instance(NEW).nics
    assert (dict(own.nicparams), dict(default.nicparams)) == ({"mode": "bridged", "link": "br7"}, {})
    assert _Shown(free, NEW, "nic.mode/0", "nic.link/0", "nic.mode/1", "nic.link/1") == [
        "bridged", "br7", "bridged", "br0",
    ]  # fmt: skip
    (asked,) = free[0].arguments["bridges_exist"]
    assert list(asked) == ["br0", "br7"]
    started = objects.Instance.FromDict(free[0].arguments["instance_start"][0], runtime=True)
    assert [nic.nicparams["link"] for nic in started.nics] == ["br7", "br0"]


@pytest.mark.req("D20-CLI-05", "D20-CLI-19")
def test_the_old_word_for_a_link_and_the_clusters_bridge_must_both_be_on_the_node(free: Master) -> None:
    _Refused(lambda: _Create(free, nics=[{"bridge": "br7"}]), "Missing bridges br7", errors.ECODE_ENVIRON)
    free[0].Call(runtime.MakeDirs, "/sys/class/net/br7/bridge")
    _Create(free, nics=[{"bridge": "br7"}, {"bridge": "auto"}])
    own, default = free.Instance(NEW).nics
    assert (dict(own.nicparams), dict(default.nicparams)) == ({"link": "br7"}, {})
    free.Run(opcodes.OpInstanceRemove(instance_name=NEW, shutdown_timeout=0, ignore_failures=False))
    free.Run(opcodes.OpClusterSetParams(nicparams={"link": "br9"}))
    _Refused(lambda: _Create(free, nics=[{}]), "Missing bridges br9", errors.ECODE_ENVIRON)


@pytest.mark.req("D20-CLI-19")
def test_a_mirrored_instance_needs_its_bridges_on_both_nodes(both: Master) -> None:
    """It could not be failed over to a node without them."""
    mirrored: dict[str, Any] = {"disk_template": "drbd", "disks": [{"size": 1024}], "snode": "node2"}

    def lacks(node: str, bridge: str, nic: dict[str, str]) -> None:
        match = f"node '{node}.example.org': Missing bridges {bridge}"
        _Refused(lambda: _Create(both, nics=[nic], **mirrored), match, errors.ECODE_ENVIRON)

    both[0].Call(runtime.MakeDirs, "/sys/class/net/br7/bridge")
    lacks("node2", "br7", {"link": "br7"})
    both[1].Call(runtime.MakeDirs, "/sys/class/net/br8/bridge")
    lacks("node1", "br8", {"link": "br8"})
    both.Run(opcodes.OpClusterSetParams(nicparams={"link": "br7"}))
    lacks("node2", "br7", {})
    assert _Create(both, instance_name="alone.example.org").primary_node == both.nodes[0], "no other node counts"
    both[1].Call(runtime.MakeDirs, "/sys/class/net/br7/bridge")
    assert len(_Create(both, **mirrored).disks) == 1


@pytest.mark.req("D21-NIC-03", "D21-PARAM-05")
def test_a_routed_nic_has_an_address_and_keeps_it(free: Master) -> None:
    """Its link is a routing table, which no node is asked for as a bridge and the node's hypervisor uses."""
    routed = {"mode": "routed", "link": "100"}
    _Refused(lambda: _Create(free, nics=[routed]), "routed NICs must have an IP address")
    _Create(free, nics=[{**routed, "ip": "10.0.0.5"}])
    free.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    assert _Shown(free, NEW, "nic.mode/0", "nic.link/0", "nic.ip/0") == ["routed", "100", "10.0.0.5"]
    assert "bridges_exist" not in free[0].calls
    rule, route, *_ = network.BuildRoute("tap0", "10.0.0.5", "100")
    assert rule[-4:] == ["dev", "tap0", "table", "100"]
    assert "table 100" in " ".join(route)
    _Refused(lambda: _Modify(free, nics=[["modify", 0, {"ip": "none"}]]), "IP address")
    assert free.Instance(NEW).nics[0].ip == "10.0.0.5"
    _Refused(lambda: _Modify(free, nics=[["add", -1, routed]]), "IP address")
    _Refused(lambda: _Create(free, instance_name="b", nics=[{"mode": "tunnel"}]), "'mode': found 'tunnel'")


# --- the pool of user ids -----------------------------------------------------------------------------------------------


@pytest.mark.req("D21-UID-01", "D21-UID-07")
def test_the_pool_of_user_ids_is_replaced_as_a_whole(master: Master) -> None:
    pool = [[4000, 4019], [5000, 5000]]
    master.Run(opcodes.OpClusterSetParams(uid_pool=pool))
    assert master.snapshot.cluster.uid_pool == ((4000, 4019), (5000, 5000))
    master.Run(opcodes.OpClusterSetParams(uid_pool=[[6000, 6001]]))
    assert master.snapshot.cluster.uid_pool == ((6000, 6001),)
    master.Run(opcodes.OpClusterSetParams(uid_pool=[]))
    assert master.snapshot.cluster.uid_pool == ()


# --- nodes that are offline ---------------------------------------------------------------------------------------------


@pytest.fixture
def trio(make: Any) -> Master:
    """The third node is a candidate and has no instances."""
    made: Master = make(3, candidates=3, prepare=_Allow)
    return made


@pytest.mark.req("D20-FLAG-11")
def test_an_offline_node_is_not_called_is_not_a_candidate_and_takes_no_instance(trio: Master) -> None:
    trio.Run(opcodes.OpNodeSetParams(node_name="node3", offline=True, force=True))
    node = trio.snapshot.nodes[trio.nodes[2]]
    assert (node.offline, node.master_candidate, node.drained) == (True, False, False)
    assert node.uuid not in trio.store.Voters()
    trio[2].calls.clear()
    _Refused(lambda: _Create(trio, pnode="node3"), "offline", errors.ECODE_STATE)
    _Refused(
        lambda: _Create(trio, disk_template="drbd", disks=[{"size": 1024}], snode="node3"),
        "offline",
        errors.ECODE_STATE,
    )
    trio.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    trio.Run(opcodes.OpTagsSet(kind="node", name="node3", tags=["a"]))
    assert trio.rpc.call_bdev_sizes([node.uuid], [])[node.uuid].offline
    assert [name for name in trio[2].calls if not name.startswith("store_")] == []
