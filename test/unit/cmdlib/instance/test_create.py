"""Instances are made (doc/reference/drivers.md d.1)."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master

from ganeti import errors, objects, opcodes, runtime

NEW = "new.example.org"
OTHER = "00000000-aaaa-4bbb-8ccc-00000000ffff"


@pytest.fixture
def big(make: Callable[..., Master]) -> Master:
    """All templates enabled and allowed, a second hypervisor, directories for files."""
    return make(2, prepare=_Enable)


def _Enable(master: Master) -> None:
    cluster = master.snapshot.cluster
    templates = ["plain", "drbd", "file", "sharedfile", "diskless", "rbd", "ext", "blockdev"]
    master.cfg.Update(
        cluster.Replace(
            enabled_disk_templates=templates,
            enabled_hypervisors=["fake", "kvm"],
            ipolicy={**cluster.ipolicy, "disk-templates": templates},
            shared_file_storage_dir="/srv/shared",
        )
    )


def _Create(**values: Any) -> opcodes.OpInstanceCreate:
    defaults: dict[str, Any] = {
        "instance_name": NEW,
        "mode": "create",
        "disk_template": "file",
        "disks": [{"size": 1024}],
        "nics": [{}],
        "os_type": "debian+minimal",
        "pnode": "node1",
        "hypervisor": "fake",
    }
    return opcodes.OpInstanceCreate(**{**defaults, **values})


def _Refused(master: Master, match: str, code: str, **values: Any) -> None:
    before = master.snapshot.serial_no
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(_Create(**values))
    assert caught.value.args[1] == code
    assert master.snapshot.serial_no == before


def _Disks(master: Master) -> tuple[objects.Disk, ...]:
    return master.snapshot.InstanceDisks(master.Instance(NEW))


def test_from_request_to_running_guest(big: Master) -> None:
    result = big.Run(_Create(tags=["b", "a"], beparams={"memory": "1g"}))
    assert result == ["node1.example.org"]
    instance = big.Instance(NEW)
    assert (instance.admin_state, instance.disks_active, instance.serial_no) == ("up", True, 3)
    assert dict(instance.beparams) == {"minmem": 1024, "maxmem": 1024}
    assert instance.tags == ("a", "b") and instance.network_port is None
    (disk,) = _Disks(big)
    assert disk.logical_id[0] == "loop"
    assert disk.logical_id[1].startswith(f"/srv/ganeti/file-storage/{NEW}/") and disk.logical_id[1].endswith(
        ".file.disk0"
    )
    assert (disk.size, disk.iv_name, disk.nodes) == (1024, "disk/0", (big.nodes[0],))
    machine = big[0]
    assert machine.Names("/srv/ganeti/file-storage") == [NEW]
    assert machine.installed == [(NEW, False, {"mirror": "http://deb.example.org"})]
    assert machine.guests[NEW] == 1024
    order = [n for n in machine.calls if n in ("blockdev_create", "instance_os_add", "instance_start")]
    assert order == ["blockdev_create", "instance_os_add", "instance_start"]
    assert NEW in big.glm.Names(1)
    mac = instance.nics[0].mac
    assert mac.startswith("aa:00:00:") and dict(instance.nics[0].nicparams) == {}
    big.Run(opcodes.OpInstanceShutdown(instance_name=NEW))


def test_hooks_know_the_instance_before_it_exists(big: Master) -> None:
    big.Run(_Create(disks=[{"size": "1g", "name": "root"}, {"size": 2048, "mode": "ro"}]))
    before, after = [env for path, _, env in big[0].hook_runs if path == "instance-add"]
    expected = {
        "ADD_MODE": "create",
        "INSTANCE_NAME": NEW,
        "INSTANCE_STATUS": "True",
        "INSTANCE_PRIMARY": "node1.example.org",
        "INSTANCE_SECONDARIES": "",
        "INSTANCE_DISK_TEMPLATE": "file",
        "INSTANCE_DISK_COUNT": "2",
        "INSTANCE_DISK0_SIZE": "1024",
        "INSTANCE_DISK0_NAME": "root",
        "INSTANCE_DISK0_UUID": "",
        "INSTANCE_DISK1_MODE": "ro",
        "INSTANCE_HYPERVISOR": "fake",
    }
    assert {name: before.get(f"GANETI_{name}") for name in expected} == expected
    uuid = _Disks(big)[0].uuid
    assert after["GANETI_POST_INSTANCE_DISK0_UUID"] == uuid and after["GANETI_POST_INSTANCE_DISK0_DRIVER"] == "loop"


@pytest.mark.parametrize(
    ("template", "values", "logical_id"),
    [
        ("rbd", {"size": 1024}, ("rbd", ".rbd.disk0")),
        ("ext", {"size": 1024, "provider": "p1", "color": "red"}, ("p1", ".ext.disk0")),
        ("sharedfile", {"size": 1024}, ("loop", ".sharedfile.disk0")),
    ],
)
def test_other_templates(big: Master, template: str, values: dict[str, Any], logical_id: tuple[str, str]) -> None:
    big.Run(_Create(disk_template=template, disks=[values]))
    (disk,) = _Disks(big)
    assert disk.logical_id[0] == logical_id[0] and disk.logical_id[1].endswith(logical_id[1])
    assert dict(disk.params) == ({"provider": "p1", "color": "red"} if template == "ext" else {})
    assert disk.nodes == ()


def test_without_disks_and_without_system(big: Master) -> None:
    big.Run(_Create(disk_template="diskless", disks=[], hypervisor="kvm"))
    assert _Disks(big) == () and big[0].installed == []
    assert big.Instance(NEW).network_port == 11002
    big.Run(_Create(instance_name="other.example.org", os_type=None, no_install=True))
    assert big.Instance("other").admin_state == "down"
    assert [name for name, _, _ in big[0].installed] == []


@pytest.mark.parametrize(
    ("match", "code", "values"),
    [
        ("already in the cluster", errors.ECODE_EXISTS, {"instance_name": "web.example.org"}),
        ("Invalid host name", errors.ECODE_INVAL, {"instance_name": "no way"}),
        ("'node9' not known", errors.ECODE_NOENT, {"pnode": "node9"}),
        ("cannot be the primary node: both are node1", errors.ECODE_INVAL, {"disk_template": "drbd", "snode": "node1"}),
        ("needs a secondary node", errors.ECODE_INVAL, {"disk_template": "drbd"}),
        ("No disks given", errors.ECODE_INVAL, {"disks": []}),
        ("Missing size of disk 0", errors.ECODE_INVAL, {"disks": [{}]}),
        ("Invalid size of disk 0", errors.ECODE_INVAL, {"disks": [{"size": "much"}]}),
        ("Unknown parameter of disk 0: color", errors.ECODE_INVAL, {"disks": [{"size": 1024, "color": "red"}]}),
        ("must not be a number", errors.ECODE_INVAL, {"disks": [{"size": 1024, "name": "7"}]}),
        ("Too many disks", errors.ECODE_INVAL, {"disks": [{"size": 1024}] * 17}),
        ("Too many NICs", errors.ECODE_INVAL, {"nics": [{}] * 9}),
        ("is not enabled in the cluster", errors.ECODE_INVAL, {"disk_template": "gluster"}),
        ("Disk adoption is not supported", errors.ECODE_INVAL, {"disks": [{"adopt": "x"}]}),
        ("requires disk adoption", errors.ECODE_INVAL, {"disk_template": "blockdev"}),
        ("must lie below", errors.ECODE_INVAL, {"file_storage_dir": "../../etc"}),
        ("must lie below", errors.ECODE_INVAL, {"file_storage_dir": "/etc"}),
        ("not enabled in the cluster", errors.ECODE_STATE, {"hypervisor": "xen-pvm"}),
        ("Unknown backend parameter 'cpus'", errors.ECODE_INVAL, {"beparams": {"cpus": 3}}),
        ("minimum memory", errors.ECODE_INVAL, {"beparams": {"minmem": 512, "maxmem": 256}}),
        ("Unknown fake parameter", errors.ECODE_INVAL, {"hvparams": {"acpi": True}}),
        ("cluster-wide ones", errors.ECODE_INVAL, {"hypervisor": "kvm", "hvparams": {"migration_port": 1}}),
        ("violates the policy.*memory-size", errors.ECODE_INVAL, {"beparams": {"memory": 64}}),
        ("violates the policy.*disk-size/1", errors.ECODE_INVAL, {"disks": [{"size": 1024}, {"size": 4}]}),
        ("No guest OS specified", errors.ECODE_INVAL, {"os_type": None}),
        ("Directory for OS suse not found", errors.ECODE_INVAL, {"os_type": "suse"}),
        ("Unsupported OS variant 'huge'", errors.ECODE_INVAL, {"os_type": "debian+huge"}),
        ("not supported by the OS debian: wrong", errors.ECODE_INVAL, {"osparams": {"wrong": "1"}}),
        ("more than one of public, private", errors.ECODE_INVAL, {"osparams": {"a": "1"}, "osparams_secret": {"a": "2"}}),
        ("Missing bridges br9", errors.ECODE_ENVIRON, {"nics": [{"link": "br9"}]}),
        ("MAC address .* in use already", errors.ECODE_NOTUNIQUE, {"nics": [{"mac": "aa:00:00:3f:12:c4"}]}),
        ("is not a valid MAC address", errors.ECODE_INVAL, {"nics": [{"mac": "zz"}]}),
        ("must have an IP address", errors.ECODE_INVAL, {"nics": [{"mode": "routed"}]}),
        ("Invalid IP address", errors.ECODE_INVAL, {"nics": [{"ip": "1.2.3"}]}),
        ("name checks have been skipped", errors.ECODE_INVAL, {"nics": [{"ip": "auto"}]}),
        ("needs a network", errors.ECODE_INVAL, {"nics": [{"ip": "pool"}]}),
        ("without a name check", errors.ECODE_INVAL, {"ip_check": True}),
        ("invalid characters|characters other", errors.ECODE_INVAL, {"tags": ["a b"]}),
        ("both iallocator and node", errors.ECODE_INVAL, {"iallocator": "hail"}),
        ("Opportunistic locking", errors.ECODE_INVAL, {"opportunistic_locking": True}),
        ("No export '.*' found on any node", errors.ECODE_INVAL, {"mode": "import"}),
        ("needs its handshake", errors.ECODE_INVAL, {"mode": "remote-import"}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(big: Master, match: str, code: str, values: dict[str, Any]) -> None:
    _Refused(big, match, code, **values)
    assert "blockdev_create" not in big[0].calls


def test_disks_go_again_if_the_instance_cannot_be_stored(big: Master) -> None:
    """Somebody else has taken the name meanwhile."""

    def before(name: str, args: tuple[Any, ...]) -> None:
        if name == "blockdev_create" and big.snapshot.InstanceByName(NEW) is None:
            other = big.Instance("web").Replace(uuid=OTHER, name=NEW, nics=(), disks=(), network_port=None)
            big.cfg.AddInstance(other, "other", [])

    big[0].before = before
    devices = [dict(machine.devices) for machine in big.machines.values()]
    with pytest.raises(errors.ConfigurationError):
        big.Run(_Create())
    assert [dict(machine.devices) for machine in big.machines.values()] == devices
    assert big.Instance(NEW).uuid == OTHER


@pytest.mark.req("D20-GOAL-06")
def test_guests_of_two_hypervisors_live_side_by_side(big: Master) -> None:
    second = "second.example.org"
    runtime.MakeDirs("/sys/class/net/br0/bridge")
    big.Run(_Create())
    big.Run(_Create(instance_name=second, hypervisor="kvm", pnode="node2", hvparams={"kernel_path": ""}))
    both = [big.Instance(name) for name in (NEW, second)]
    assert [(one.hypervisor, one.admin_state) for one in both] == [("fake", "up"), ("kvm", "up")]
    started = [big[i].arguments["instance_start"][0] for i in (0, 1)]
    assert [one["hypervisor"] for one in started] == ["fake", "kvm"]
    assert "kernel_path" in started[1]["hvparams"] and "kernel_path" not in started[0]["hvparams"]


@pytest.mark.req("D20-CLI-06")
@pytest.mark.parametrize("size", [0, -5, "0"])
def test_a_size_is_above_zero(big: Master, size: int | str) -> None:
    with pytest.raises(errors.OpPrereqError, match="Invalid size of disk"):
        big.Run(_Create(disks=[{"size": size}]))


@pytest.mark.parametrize("size", [(1 << 43) + 1, f"{(1 << 43) + 1}m", 1 << 60])
def test_a_size_is_not_more_than_a_device_can_have(big: Master, size: int | str) -> None:
    """The bytes of a device are a number of 63 bits."""
    with pytest.raises(
        errors.OpPrereqError, match=f"Invalid size of disk 0: {size}; 1 to 8796093022208 MiB are possible"
    ):
        big.Run(_Create(disks=[{"size": size}], ignore_ipolicy=True))
    with pytest.raises(errors.OpPrereqError, match="free space of volume group"):  # only the room for it is missing
        big.Run(_Create(disks=[{"size": 1 << 43}], ignore_ipolicy=True, disk_template="plain"))


@pytest.mark.req("D21-UUID-02")
def test_a_new_instance_is_reported_with_its_uuid(big: Master) -> None:
    big.Run(_Create())
    [text] = [text for text in big.last.messages if "uuid" in text]
    assert text.endswith(f"Instance {NEW} is in the configuration, its uuid is {big.Instance(NEW).uuid}")


@pytest.mark.req("D20-CLI-04")
def test_a_mac_is_made_unless_it_is_given(big: Master) -> None:
    given = "aa:00:00:11:22:33"
    big.Run(_Create(nics=[{}, {"mac": "auto"}, {"mac": given}]))
    first, second, third = (nic.mac for nic in big.Instance(NEW).nics)
    assert third == given and len({first, second, third}) == 3
    for wrong in ("aa:00:00:11:22", "aa:00:00:11:22:3g", "ab:00:00:11:22:33", given):
        with pytest.raises(errors.OpPrereqError):
            big.Run(_Create(instance_name="wrong.example.org", nics=[{"mac": wrong}]))
    assert first.startswith("aa:00:00:") and second.startswith("aa:00:00:")


def test_nodes_must_be_fit(big: Master) -> None:
    node = big.snapshot.nodes[big.nodes[1]]
    for flag, match in (("drained", "drained node"), ("offline", "offline node")):
        changed = big.cfg.Update(big.snapshot.nodes[node.uuid].Replace(**{flag: True}))
        _Refused(big, match, errors.ECODE_STATE, pnode="node2")
        big.cfg.Update(changed.Replace(**{flag: False}))
    big.cfg.Update(big.snapshot.nodes[node.uuid].Replace(vm_capable=False))
    _Refused(big, "non-vm_capable", errors.ECODE_STATE, pnode="node2")


def test_room_must_be_there(big: Master) -> None:
    big[0].SetMemory(1700)
    _Refused(big, "Not enough memory on node node1", errors.ECODE_NORES, beparams={"memory": 512})
    big.Run(_Create(beparams={"memory": 512}, start=False))


@pytest.mark.req("D20-VAR-02", "D20-CLI-08")
def test_a_disk_that_cannot_be_written_beside_one_that_can(big: Master) -> None:
    with pytest.raises(errors.ParseError, match="'mode': expected ro or rw, got 'w'"):
        big.Run(_Create(disks=[{"size": 1024, "mode": "w"}]))
    big.Run(_Create(disks=[{"size": 1024}, {"size": 1024, "mode": "ro"}]))
    assert [disk.mode for disk in _Disks(big)] == ["rw", "ro"]
    started = big[0].arguments["instance_start"][0]
    assert [disk["mode"] for disk in started["disks_info"]] == ["rw", "ro"]


def test_a_blacklisted_system(big: Master) -> None:
    big.cfg.Update(big.snapshot.cluster.Replace(blacklisted_os=["debian"]))
    _Refused(big, "not allowed for installation", errors.ECODE_STATE)


def test_a_policy_can_be_ignored(big: Master) -> None:
    big.Run(_Create(beparams={"memory": 64}, ignore_ipolicy=True))
    assert any("violates the policy" in text for text in big.last.messages)


def test_dry_run_makes_nothing(big: Master) -> None:
    serial = big.snapshot.serial_no
    assert big.Run(_Create(dry_run=True)) == [big.nodes[0]]
    assert big.snapshot.serial_no == serial and "blockdev_create" not in big[0].calls
    assert NEW not in big.glm.Names(1)


# --- failures on the way -------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-LOCK-26")
def test_disks_that_cannot_be_made_leave_nothing(big: Master) -> None:
    created: list[str] = []

    def before(name: str, args: tuple[Any, ...]) -> None:
        if name == "blockdev_create":
            created.append(name)
            if len(created) == 3:
                raise errors.RpcCallError("disk full")

    big[0].before = before
    devices = [dict(machine.devices) for machine in big.machines.values()]
    with pytest.raises(errors.OpExecError, match=r"Can't create block device.*node1.*disk full"):
        big.Run(_Create(disks=[{"size": 1024}] * 3))
    assert [dict(machine.devices) for machine in big.machines.values()] == devices
    assert big.snapshot.InstanceByName(NEW) is None and NEW not in big.glm.Names(1)
    assert _Said(big)[0] == f"Instance {NEW} is not in the cluster" and "repeat the command" in _Said(big)[1]
    big[0].before = lambda name, args: None
    big.Run(_Create(disks=[{"size": 1024}] * 3))


def test_a_disk_that_cannot_be_wiped_takes_the_instance_away_again(big: Master) -> None:
    big.cfg.Update(big.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    big[0].faults["blockdev_wipe"] = "I/O error"
    devices = [dict(machine.devices) for machine in big.machines.values()]
    with pytest.raises(errors.OpExecError, match="Could not wipe disk disk/0 at offset 0"):
        big.Run(_Create())
    assert [dict(machine.devices) for machine in big.machines.values()] == devices
    assert big.snapshot.InstanceByName(NEW) is None and NEW not in big.glm.Names(1)
    assert _Said(big)[0] == f"Instance {NEW} is not in the cluster" and "repeat the command" in _Said(big)[1]


def test_a_failed_installation_leaves_the_instance_and_the_next_step(big: Master) -> None:
    big[0].faults["instance_os_add"] = "no space in image"
    with pytest.raises(errors.OpExecError, match=r"Could not add os for instance new.*no space in image"):
        big.Run(_Create())
    assert big.Instance(NEW).admin_state == "down" and NEW in big.glm.Names(1)
    assert NEW not in big[0].guests
    what, then = _Said(big)
    assert what == f"Instance {NEW} stays in the configuration, stopped and without a complete operating system"
    assert f"'gnt-instance reinstall {NEW}'" in then and f"'gnt-instance remove {NEW}' removes it" in then
    del big[0].faults["instance_os_add"]
    big.Run(opcodes.OpInstanceReinstall(instance_name=NEW))
    big.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    assert NEW in big[0].guests


def test_a_failed_start_leaves_the_instance_marked_up(big: Master) -> None:
    big[0].faults["instance_start"] = "no such bridge"
    with pytest.raises(errors.OpExecError, match="Could not start instance"):
        big.Run(_Create())
    what, then = _Said(big)
    assert what == f"Instance {NEW} stays in the configuration and is marked to be up, but its start failed"
    for command in ("startup", "shutdown", "remove"):
        assert f"'gnt-instance {command} {NEW}'" in then
    del big[0].faults["instance_start"]
    big.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    assert big.Instance(NEW).admin_state == "up" and NEW in big[0].guests


def _Said(master: Master) -> tuple[str, str]:
    """Return what the job said last of the instance, and what to do next."""
    [line] = [number for number, text in enumerate(master.last.messages) if text.startswith(" - WARNING: Instance ")]
    what, then = master.last.messages[line : line + 2]
    return what.removeprefix(" - WARNING: "), then


IMAGE = "/srv/images/debian.img"


def _Provide(master: Master, text: str, mode: int = 0o644) -> None:
    master[0].Call(runtime.MakeDirs, posixpath.dirname(IMAGE))
    master[0].Call(runtime.WriteFile, IMAGE, text, mode)


def test_an_image_takes_the_place_of_a_system(big: Master) -> None:
    _Provide(big, "a system")
    big.Run(_Create(os_type=None, osparams={"os-image": IMAGE}))
    instance = big.Instance(NEW)
    assert (instance.os, dict(instance.osparams), instance.admin_state) == ("", {"os-image": IMAGE}, "up")
    assert big[0].installed == []
    order = [n for n in big[0].calls if n in ("blockdev_create", "blockdev_image", "instance_start")]
    assert order == ["blockdev_create", "blockdev_image", "instance_start"]
    assert big[0].copied == [(IMAGE, _Disks(big)[0].logical_id[1])]


@pytest.mark.parametrize(
    ("image", "values", "match"),
    [
        ("images/x", {}, "'images/x' is not a valid image"),
        ("/srv/images/none", {}, "Image /srv/images/none does not exist on node node1"),
        (IMAGE, {"disk_template": "diskless", "disks": []}, "An image needs a disk"),
        (IMAGE, {"disks": [{"size": 1}]}, "has 2.0 MiB, the first disk only 1 MiB"),
    ],
)
def test_an_image_that_cannot_be_used_is_rejected(big: Master, image: str, values: dict[str, Any], match: str) -> None:
    _Provide(big, "x" * (2 << 20))
    with pytest.raises(errors.OpPrereqError, match=match):
        big.Run(_Create(osparams={"os-image": image}, ignore_ipolicy=True, **values))
    assert big.snapshot.InstanceByName(NEW) is None


def test_an_image_that_fails_leaves_the_instance_and_the_next_step(big: Master) -> None:
    _Provide(big, "a system", mode=0o600)
    with pytest.raises(errors.OpExecError, match="may not be read by every user") as failed:
        big.Run(_Create(os_type=None, osparams={"os-image": IMAGE}))
    assert failed.value.hint == f"'gnt-instance reinstall -O os-image={IMAGE} {NEW}' does it again"
    assert big.Instance(NEW).admin_state == "down"


def test_scripts_do_not_see_the_image(big: Master) -> None:
    """It is used again in a reinstallation, unless that one names a system."""
    _Provide(big, "a system")
    big.Run(_Create(osparams={"os-image": IMAGE, "a": "1"}, start=False))
    assert big[0].installed == [] and big.Instance(NEW).os == "debian+minimal"
    big.Run(opcodes.OpInstanceReinstall(instance_name=NEW))
    assert big[0].installed == [] and big[0].calls.count("blockdev_image") == 2
    big.Run(opcodes.OpInstanceReinstall(instance_name=NEW, os_type="noop"))
    assert big[0].installed == [(NEW, True, {"a": "1"})]
    assert dict(big.Instance(NEW).osparams) == {"a": "1"}


def test_disks_are_wiped_where_the_cluster_says_so(big: Master) -> None:
    big.cfg.Update(big.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    big.Run(_Create(disks=[{"size": 1500}]))
    (key,) = [key for key in big[0].devices if key.startswith("file%")]
    assert big[0].devices[key].wiped == 1500
    assert big[0].calls.count("blockdev_wipe") == 10


def test_secret_parameters_reach_the_scripts_only(big: Master) -> None:
    big.Run(_Create(osparams={"a": "1"}, osparams_private={"b": "2"}, osparams_secret={"c": "3"}))
    expected = {"mirror": "http://deb.example.org", "a": "1", "b": "2", "c": "3"}
    assert big[0].installed == [(NEW, False, expected)]
    instance = big.Instance(NEW)
    assert (dict(instance.osparams), dict(instance.osparams_private)) == ({"a": "1"}, {"b": "2"})
    assert '"3"' not in instance.Json()


def test_defaults_are_not_stored_when_told_so(big: Master) -> None:
    big.Run(
        _Create(
            beparams={"vcpus": 1, "memory": 256},
            osparams={"mirror": "http://deb.example.org"},
            nics=[
                dict(big.snapshot.cluster.nicparams["default"]),
                {"mode": "bridged", "link": "br0"},
                {"mode": "routed", "link": "100", "ip": "192.0.2.9"},
            ],
            identify_defaults=True,
        )
    )
    instance = big.Instance(NEW)
    assert [dict(nic.nicparams) for nic in instance.nics] == [{}, {}, {"mode": "routed", "link": "100"}]
    assert dict(instance.beparams) == {"minmem": 256, "maxmem": 256} and dict(instance.osparams) == {}


def test_addresses_of_a_network(big: Master) -> None:
    net = big.cfg.AddNetwork(
        objects.Network(name="lan", network="10.0.0.0/29", uuid="00000070-aaaa-4bbb-8ccc-000000000070")
    )
    _Refused(big, "not connected to node group default", errors.ECODE_INVAL, nics=[{"network": "lan", "ip": "pool"}])
    group = next(iter(big.snapshot.nodegroups.values()))
    big.cfg.Update(group.Replace(networks={net.uuid: {"mode": "bridged", "link": "br0", "vlan": ""}}))
    _Refused(big, "come from the network", errors.ECODE_INVAL, nics=[{"network": "lan", "link": "br0"}])
    _Refused(big, "lies in network 'lan'", errors.ECODE_STATE, nics=[{"ip": "10.0.0.3"}])
    big.Run(_Create(nics=[{"network": "lan", "ip": "pool"}, {"network": net.uuid, "ip": "10.0.0.4"}]))
    nics = big.Instance(NEW).nics
    assert [(nic.ip, nic.network) for nic in nics] == [("10.0.0.1", net.uuid), ("10.0.0.4", net.uuid)]
    assert dict(nics[0].nicparams) == {"mode": "bridged", "link": "br0", "vlan": ""}
    assert big.snapshot.networks[net.uuid].reservations == "01001000"
    _Refused(
        big,
        "10.0.0.4 is in use",
        errors.ECODE_NOTUNIQUE,
        instance_name="n2",
        nics=[{"network": "lan", "ip": "10.0.0.4"}],
    )
