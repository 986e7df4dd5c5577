"""Instances are changed (doc/reference/drivers.md d.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.dying import DiesAt, Killed
from support.master import Master
from support.simnode import FILE_FOLDER, NameOf
from support.writers import InFiles

from ganeti import errors, objects, opcodes, pathutils, runtime
from ganeti.cmdlib.instance.modify import LUInstanceSetParams

WEB = "web.example.org"


def _Modify(master: Master, **values: Any) -> Any:
    return master.Run(opcodes.OpInstanceSetParams(instance_name=WEB, **values))


def _Refused(master: Master, match: str, code: str, **values: Any) -> None:
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Modify(master, **values)
    assert caught.value.args[1] == code
    assert master.snapshot is before


def _Web(master: Master) -> objects.Instance:
    return master.Instance(WEB)


def _Disks(master: Master) -> tuple[objects.Disk, ...]:
    return master.snapshot.InstanceDisks(_Web(master))


def _Link(index: int) -> str:
    return f"{pathutils.DISK_LINKS_DIR}/{WEB}:{index}"


def _Stop(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))


@pytest.fixture
def stopped(make: Callable[..., Master]) -> Master:
    return make(2, prepare=_Stop)


@pytest.fixture
def filed(make: Callable[..., Master]) -> Master:
    """The instance is stopped and has its disk in a file."""
    return make(2, change=InFiles, prepare=_Stop)


@pytest.fixture
def running(make: Callable[..., Master]) -> Master:
    """The instance runs and has its disk in a file."""
    return make(2, change=InFiles)


# --- parameters ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-CLI-15")
def test_an_instance_boots_from_an_image_of_a_cd_that_was_set_for_it(stopped: Master) -> None:
    image = "/srv/iso/setup.iso"
    with pytest.raises(errors.OpPrereqError, match="cannot boot from cdrom"):
        _Modify(stopped, hvparams={"boot_order": "cdrom"})
    runtime.MakeDirs("/srv/iso")
    runtime.WriteFile(image, b"iso")
    _Modify(stopped, hvparams={"boot_order": "cdrom", "cdrom_image_path": image})
    stopped.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    started = stopped[0].arguments["instance_start"][0]
    assert (started["hvparams"]["boot_order"], started["hvparams"]["cdrom_image_path"]) == ("cdrom", image)
    _Modify(stopped, hvparams={"boot_order": "network"})
    stopped.Run(opcodes.OpInstanceReboot(instance_name=WEB, reboot_type="full"))
    assert stopped[0].arguments["instance_start"][0]["hvparams"]["boot_order"] == "network"
    assert dict(stopped.snapshot.cluster.hvparams["kvm"]).get("cdrom_image_path", "") == "", "that one instance's alone"


def test_parameters_are_set_and_reset(master: Master) -> None:
    result = _Modify(
        master,
        beparams={"vcpus": 2, "maxmem": "1g", "minmem": None},
        hvparams={"acpi": False, "boot_order": "network"},
        osparams={"mirror": "http://other"},
        osparams_private={"b": "hush"},
    )
    assert ["be/vcpus", 2] in result and ["be/maxmem", 1024] in result and ["hv/boot_order", "network"] in result
    assert ["os/mirror", "http://other"] in result and ["os_private/b", "<redacted>"] in result
    assert "hush" not in str(result)
    web = _Web(master)
    assert dict(web.beparams) == {"vcpus": 2, "maxmem": 1024}
    assert dict(web.hvparams) == {"kernel_path": "", "acpi": False, "boot_order": "network"}
    assert (dict(web.osparams), dict(web.osparams_private)) == ({"mirror": "http://other"}, {"b": "hush"})
    env = next(env for path, phase, env in master[0].hook_runs if path == "instance-modify" and phase == "pre")
    assert (env["GANETI_INSTANCE_VCPUS"], env["GANETI_INSTANCE_MAXMEM"], env["GANETI_INSTANCE_MINMEM"]) == (
        "2",
        "1024",
        "128",
    )
    _Modify(
        master,
        beparams={"vcpus": "default", "maxmem": "default"},
        hvparams={"boot_order": "default", "acpi": "default"},
    )
    assert dict(_Web(master).beparams) == {} and dict(_Web(master).hvparams) == {"kernel_path": ""}


@pytest.mark.parametrize(
    ("match", "code", "values"),
    [
        ("No changes submitted", errors.ECODE_INVAL, {}),
        ("Unknown backend parameter", errors.ECODE_INVAL, {"beparams": {"cpus": 1}}),
        ("minimum memory", errors.ECODE_INVAL, {"beparams": {"maxmem": 256}}),
        ("cluster-wide ones", errors.ECODE_INVAL, {"hvparams": {"migration_port": 1}}),
        ("Unknown kvm parameter", errors.ECODE_INVAL, {"hvparams": {"nonsense": 1}}),
        ("boot_order", errors.ECODE_INVAL, {"hvparams": {"boot_order": "tape"}}),
        ("OS suse not found", errors.ECODE_INVAL, {"os_name": "suse"}),
        ("not supported by the OS debian: wrong", errors.ECODE_INVAL, {"osparams": {"wrong": "1"}}),
        ("does not match the CPU mask", errors.ECODE_INVAL, {"hvparams": {"cpu_mask": "1:2:3"}}),
        ("names CPU 9, node node1.example.org has 8", errors.ECODE_NORES, {"hvparams": {"cpu_mask": "1,9"}}),
        ("marked to be up", errors.ECODE_STATE, {"offline": True}),
        ("only an offline one", errors.ECODE_STATE, {"offline": False}),
        ("violates the policy.*memory-size", errors.ECODE_INVAL, {"beparams": {"minmem": 64}}),
        ("violates the policy.*cpu-count", errors.ECODE_INVAL, {"beparams": {"vcpus": 9}}),
        (
            "both iallocator and",
            errors.ECODE_INVAL,
            {"disk_template": "drbd", "iallocator": "hail", "remote_node": "node2"},
        ),
        ("not supported at the same time", errors.ECODE_INVAL, {"disk_template": "plain", "disks": [["remove", {}]]}),
        ("still running on node1", errors.ECODE_STATE, {"pnode": "node2"}),
    ],
)
def test_what_cannot_be_is_refused(master: Master, match: str, code: str, values: dict[str, Any]) -> None:
    _Refused(master, match, code, **values)


def test_more_memory_must_be_there(master: Master) -> None:
    master[0].SetMemory(2048)
    _Refused(master, "needed 1488 MiB, available 512", errors.ECODE_NORES, beparams={"maxmem": 2000})
    master[0].SetMemory(32768)
    master[1].SetMemory(2048)
    _Refused(master, "prevent the instance from failover", errors.ECODE_STATE, beparams={"maxmem": 2000})
    _Modify(master, beparams={"maxmem": 2000}, force=True)
    _Modify(master, beparams={"maxmem": 2100, "auto_balance": False})


def test_an_unreachable_node_is_a_warning_only(master: Master) -> None:
    master[0].faults["instance_info"] = "timeout"
    _Modify(master, beparams={"maxmem": 1024})
    assert any("Can't get info from primary node node1.example.org" in text for text in master.last.messages)


def test_running_memory(master: Master) -> None:
    _Modify(master, beparams={"minmem": 256})
    assert _Modify(master, runtime_mem=300) == [["runtime_memory", 300]]
    assert master[0].guests[WEB] == 300
    _Refused(master, "between 256 and 512", errors.ECODE_INVAL, runtime_mem=200)
    master[0].SetMemory(1024 + 300 + 10)
    _Refused(master, "needed 100 MiB, available 10 MiB", errors.ECODE_NORES, runtime_mem=400)
    _Stop(master)
    _Refused(master, "is not running", errors.ECODE_STATE, runtime_mem=300)


@pytest.mark.req("RM-SOR-11")
def test_leaving_the_offline_state_needs_memory(stopped: Master) -> None:
    _Modify(stopped, offline=True)
    stopped[0].SetMemory(1024 + 200)
    _Refused(stopped, "taking instance web.example.org online: needed 512 MiB, available 200 MiB", errors.ECODE_NORES,
             offline=False)  # fmt: skip
    assert _Web(stopped).admin_state == "offline"
    # A smaller one fits.
    assert ["admin_state", "down"] in _Modify(stopped, offline=False, beparams={"minmem": 128, "maxmem": 512})
    _Modify(stopped, offline=True, beparams={"minmem": 512})
    assert _Modify(stopped, offline=False, force=True) == [["admin_state", "down"]]


def test_an_instance_of_a_node_that_does_not_answer_can_be_taken_online(stopped: Master) -> None:
    _Modify(stopped, offline=True)
    stopped[0].faults["node_info"] = "it hangs"
    assert _Modify(stopped, offline=False) == [["admin_state", "down"]]
    assert any("Whether there is memory for the instance is not known" in text for text in stopped.last.messages)


def test_state_and_place_on_record(stopped: Master) -> None:
    assert _Modify(stopped, offline=True) == [["admin_state", "offline"]]
    assert (_Web(stopped).admin_state, _Web(stopped).disks_active) == ("offline", False)
    assert _Modify(stopped, offline=False) == [["admin_state", "down"]]
    assert _Web(stopped).admin_state == "down"
    _Modify(stopped, pnode="node2")
    assert _Web(stopped).primary_node == stopped.nodes[1]
    assert any(
        "now has node2.example.org as its primary node; no data was moved" in text for text in stopped.last.messages
    )
    _Modify(stopped, os_name="noop")
    assert _Web(stopped).os == "noop"
    _Modify(stopped, os_name="unknown", force=True)
    assert _Web(stopped).os == "unknown"


@pytest.mark.parametrize("force", [False, True])
def test_disks_of_one_node_need_that_node_as_the_primary(filed: Master, force: bool) -> None:
    """On another node a start would find no disks, and what it proposes would make empty ones."""
    with pytest.raises(errors.OpPrereqError, match=r"are on node node1\.example\.org only") as caught:
        _Modify(filed, pnode="node2", force=force)
    assert f"'gnt-instance modify -t drbd -n node2.example.org {WEB}' gives it a copy there" in str(caught.value.hint)
    assert _Web(filed).primary_node == filed.nodes[0]


@pytest.mark.req("D22-OSP-19")
def test_another_system_leaves_the_instances_own_parameters_as_they_are(stopped: Master) -> None:
    _Modify(stopped, osparams={"mirror": "http://other"}, osparams_private={"b": "hush"})
    _Modify(stopped, os_name="noop", force=True)
    web = _Web(stopped)
    assert web.os == "noop"
    assert (dict(web.osparams), dict(web.osparams_private)) == ({"mirror": "http://other"}, {"b": "hush"})


# --- NICs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-CLI-10", "D20-CLI-11")
def test_nics_come_change_and_go(stopped: Master) -> None:
    result = _Modify(stopped, nics=[["add", -1, {"mac": "aa:00:00:11:22:33", "name": "second"}]])
    assert result == [["nic.1", "add:mac=aa:00:00:11:22:33,ip=None,mode=bridged,link=br0,network=None"]]
    result = _Modify(stopped, nics=[["modify", "second", {"mode": "routed", "ip": "10.9.8.7", "link": "rt5"}]])
    assert result == [["nic.ip/1", "10.9.8.7"], ["nic.mode/1", "routed"], ["nic.link/1", "rt5"]]
    nic = _Web(stopped).nics[1]
    assert (nic.ip, dict(nic.nicparams)) == ("10.9.8.7", {"mode": "routed", "link": "rt5"})
    _Refused(stopped, "to None on a routed NIC", errors.ECODE_INVAL, nics=[[1, {"ip": "none"}]])
    result = _Modify(
        stopped, nics=[["modify", nic.uuid, {"mode": "default", "link": "default", "mac": "generate", "name": "none"}]]
    )
    assert [entry[0] for entry in result] == ["nic.mac/1", "nic.name/1", "nic.mode/1", "nic.link/1"]
    nic = _Web(stopped).nics[1]
    assert dict(nic.nicparams) == {} and nic.name is None and nic.mac != "aa:00:00:11:22:33"
    assert _Modify(stopped, nics=[["add", 0, {}], ["remove", 2, {}]])[1] == ["NIC/2", "remove"]
    assert [nic.mac for nic in _Web(stopped).nics][1:] == ["aa:00:00:3f:12:c4"]
    first, _ = _Web(stopped).nics
    assert _Modify(stopped, nics=[["remove", -1, {}]]) == [["NIC/1", "remove"]]
    assert _Web(stopped).nics == (first,)
    _Modify(stopped, nics=[["add", {}]])
    assert _Modify(stopped, nics=[["remove", {}]]) == [["NIC/1", "remove"]], "as old clients write it"
    assert _Web(stopped).nics == (first,)


@pytest.mark.parametrize(
    ("match", "code", "nics"),
    [
        ("Missing bridges br7", errors.ECODE_ENVIRON, [["add", -1, {"link": "br7"}]]),
        ("There is no NIC 4: instance web.example.org has 1, counted from 0", errors.ECODE_INVAL, [["modify", 4, {}]]),
        ("Instance web.example.org has no NIC with the name or uuid 'x'", errors.ECODE_NOENT, [["remove", "x", {}]]),
        ("Cannot add a NIC at index 3", errors.ECODE_INVAL, [["add", 3, {}]]),
        ("takes no parameters", errors.ECODE_INVAL, [["remove", 0, {"ip": "none"}]]),
        ("'auto' is not a valid MAC", errors.ECODE_INVAL, [["modify", 0, {"mac": "auto"}]]),
        ("too many network interfaces", errors.ECODE_STATE, [["add", -1, {}]] * 8),
        ("more than one NIC", errors.ECODE_INVAL, [["add", -1, {"name": "a"}], ["add", -1, {"name": "a"}]]),
        ("Only one NIC add or remove", errors.ECODE_INVAL, [["add", {}], ["add", {}]]),
        ("needs a network", errors.ECODE_INVAL, [["modify", 0, {"ip": "pool"}]]),
        ("cannot be attached", errors.ECODE_INVAL, [["attach", 0, {}]]),
    ],
)
def test_nics_that_cannot_be(stopped: Master, match: str, code: str, nics: list[Any]) -> None:
    _Refused(stopped, match, code, nics=nics)


def test_a_bridge_that_the_secondary_node_lacks_is_told(stopped: Master) -> None:
    def warnings() -> list[str]:
        _Modify(stopped, nics=[["modify", 0, {"link": "br0"}]])
        return [text for text in stopped.last.messages if "bridges" in text]

    assert warnings() == []
    stopped[1].faults["bridges_exist"] = "Missing bridges br0"
    [told] = warnings()
    assert "bridges on 'node2.example.org', the secondary node of web.example.org: Missing bridges br0" in told
    stopped.cfg.Update(stopped.snapshot.NodeByName("node2.example.org").Replace(offline=True))
    assert warnings() == [] and _Web(stopped).nics[0].nicparams["link"] == "br0"


def test_addresses_follow_the_networks(stopped: Master) -> None:
    group = next(iter(stopped.snapshot.nodegroups.values()))
    nets = []
    for number, prefix in ((1, None), (2, "aa:bb:cc")):
        uuid = f"0000007{number}-aaaa-4bbb-8ccc-00000000007{number}"
        nets.append(
            stopped.cfg.AddNetwork(
                objects.Network(name=f"net{number}", network=f"10.0.{number}.0/29", mac_prefix=prefix, uuid=uuid)
            )
        )
    connected = {net.uuid: {"mode": "bridged", "link": "br0", "vlan": ""} for net in nets}
    stopped.cfg.Update(group.Replace(networks=connected))

    def bits() -> list[str]:
        return [str(stopped.snapshot.networks[net.uuid].reservations) for net in nets]

    _Modify(stopped, nics=[["modify", 0, {"network": "net1", "ip": "pool"}]])
    assert _Web(stopped).nics[0].ip == "10.0.1.1" and bits() == ["01000000", "00000000"]
    assert _Web(stopped).nics[0].mac == "aa:00:00:3f:12:c4"
    _Refused(stopped, "come from the network", errors.ECODE_INVAL, nics=[["modify", 0, {"link": "br0"}]])
    _Modify(stopped, nics=[["modify", 0, {"network": "net2", "ip": "10.0.2.5"}]])
    assert bits() == ["00000000", "00000100"]
    assert _Web(stopped).nics[0].mac.startswith("aa:bb:cc:")
    _Modify(stopped, nics=[["modify", 0, {"network": "none", "ip": "none", "link": "br0"}]])
    assert bits() == ["00000000", "00000000"] and dict(_Web(stopped).nics[0].nicparams) == {"link": "br0"}
    _Refused(stopped, "lies in network 'net1'", errors.ECODE_STATE, nics=[["modify", 0, {"ip": "10.0.1.3"}]])
    _Modify(stopped, nics=[["add", -1, {"network": "net1", "ip": "pool"}]])
    _Modify(stopped, nics=[["remove", 1, {}]])
    assert bits() == ["00000000", "00000000"]


def test_a_running_guest_sees_its_new_nics(master: Master) -> None:
    result = _Modify(master, nics=[["add", -1, {"mac": "aa:00:00:11:22:33"}], ["modify", 0, {"name": "first"}]])
    assert [entry[1] for entry in result if entry[0] in ("nic.0", "nic.1")][1:] == ["hotplug:done", "hotplug:done"]
    assert master[0].calls.count("hotplug_device") == 2
    master[0].faults["hotplug_device"] = "no slot"
    result = _Modify(master, nics=[["remove", 1, {}]])
    assert result == [["NIC/1", "remove"], ["nic.1", "hotplug:failed"]]
    assert len(_Web(master).nics) == 1
    before = master[0].calls.count("hotplug_device")
    _Modify(master, nics=[["add", -1, {}]], hotplug=False)
    master[0].faults["hotplug_supported"] = "old machine"
    _Modify(master, nics=[["remove", 1, {}]])
    assert master[0].calls.count("hotplug_device") == before
    assert any("take effect at the next start" in text for text in master.last.messages)


# --- disks ---------------------------------------------------------------------------------------------------------------


def _ModesAtStart(master: Master) -> list[str]:
    """Start the instance and stop it; return the modes of the disks with which its node started it."""
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    return [disk["mode"] for disk in master[0].arguments["instance_start"][0]["disks_info"]]


@pytest.mark.req("D20-VAR-03", "D20-CLI-10", "D20-CLI-11", "D20-CLI-12")
def test_disks_come_change_and_go(filed: Master) -> None:
    assert _Modify(filed, disks=[["add", 0, {"size": "1g", "name": "data"}]]) == [["disk/0", "add:size=1024,mode=rw"]]
    first, second = _Disks(filed)
    assert (first.size, first.iv_name, second.size, second.iv_name) == (1024, "disk/0", 10240, "disk/1")
    assert set(filed[0].devices) == {NameOf(first), NameOf(second)} and filed[1].devices == {}
    assert not any(device.assembled for device in filed[0].devices.values())
    assert _Modify(filed, disks=[["modify", "data", {"mode": "ro", "name": "old"}]]) == [
        ["disk.mode/0", "ro"],
        ["disk.name/0", "old"],
    ]
    assert (_Disks(filed)[0].mode, _Disks(filed)[0].name) == ("ro", "old")
    assert _ModesAtStart(filed) == ["ro", "rw"]
    assert _Modify(filed, disks=[["modify", 0, {"mode": "rw"}]]) == [["disk.mode/0", "rw"]]
    assert _ModesAtStart(filed) == ["rw", "rw"]
    assert [disk.mode for disk in _Disks(filed)] == ["rw", "rw"]
    two = _Disks(filed)
    for add in (["add", -1, {"size": 1024}], ["add", {"size": 1024}]):
        assert _Modify(filed, disks=[add]) == [["disk/2", "add:size=1024,mode=rw"]]
        assert _Disks(filed)[:2] == two
        assert _Modify(filed, disks=[["remove", -1, {}]]) == [["disk/2", "remove"]]
        assert _Disks(filed) == two
    assert _Modify(filed, disks=[["remove", 0, {}]]) == [["disk/0", "remove"]]
    (only,) = _Disks(filed)
    assert (only.size, only.iv_name) == (10240, "disk/0")
    assert list(filed[0].devices) == [NameOf(only)]


@pytest.mark.parametrize(
    ("match", "code", "disks"),
    [
        ("Missing size", errors.ECODE_INVAL, [["add", -1, {}]]),
        ("use grow-disk", errors.ECODE_INVAL, [["modify", 0, {"size": 5}]]),
        ("Only mode and name", errors.ECODE_INVAL, [["modify", 0, {"vg": "x"}]]),
        (
            "There is no disk 3: instance web.example.org has 1, counted from 0",
            errors.ECODE_INVAL,
            [["remove", 3, {}]],
        ),
        ("too many disks", errors.ECODE_STATE, [["add", -1, {"size": 1024}]] * 16),
        ("cannot be adopted", errors.ECODE_INVAL, [["add", -1, {"adopt": "x"}]]),
        ("violates the policy.*disk-size/1", errors.ECODE_INVAL, [["add", -1, {"size": 8}]]),
        ("exactly one of its name and its uuid", errors.ECODE_INVAL, [["attach", -1, {}]]),
        ("No disk has the name 'x'", errors.ECODE_NOENT, [["attach", -1, {"name": "x"}]]),
    ],
)
def test_disks_that_cannot_be(filed: Master, match: str, code: str, disks: list[Any]) -> None:
    _Refused(filed, match, code, disks=disks)
    assert len(filed[0].devices) == 1


def test_the_last_disk_goes_and_a_first_one_comes(filed: Master) -> None:
    _Allow(filed, "file", "diskless", "drbd")
    assert _Modify(filed, disks=[["remove", 0, {}]]) == [["disk/0", "remove"]]
    assert _Disks(filed) == () and filed[0].devices == {}
    (way_back,) = [text for text in filed.last.messages if "has no disks left" in text]
    assert f"'gnt-instance modify -t file --disk add:size=SIZE {WEB}'" in way_back
    add: list[Any] = ["add", -1, {"size": 1024}]
    _Refused(filed, "without a disk template", errors.ECODE_INVAL, disks=[add])
    _Refused(
        filed, "not supported at the same time", errors.ECODE_INVAL, disks=[["remove", 0, {}]], disk_template="file"
    )
    _Refused(filed, "cannot have template diskless", errors.ECODE_INVAL, disks=[add], disk_template="diskless")
    drbd: dict[str, Any] = {"disk_template": "drbd", "remote_node": "node2"}
    _Refused(filed, "cannot have template drbd", errors.ECODE_INVAL, disks=[add], **drbd)
    chosen: dict[str, Any] = {"disk_template": "drbd", "iallocator": "hail"}
    _Refused(filed, "cannot have template drbd", errors.ECODE_INVAL, disks=[add], **chosen)
    _Refused(filed, "not enabled", errors.ECODE_INVAL, disks=[add], disk_template="sharedfile")
    assert _Modify(filed, disks=[add, add], disk_template="file") == [
        ["disk/0", "add:size=1024,mode=rw"],
        ["disk/1", "add:size=1024,mode=rw"],
    ]
    assert [disk.dev_type for disk in _Disks(filed)] == ["file", "file"]
    assert set(filed[0].devices) == {NameOf(disk) for disk in _Disks(filed)}
    _Refused(filed, "not supported at the same time", errors.ECODE_INVAL, disks=[add], disk_template="file")


def test_a_disk_that_cannot_be_made_is_not_added(filed: Master) -> None:
    filed[0].faults["blockdev_create"] = "disk full"
    with pytest.raises(errors.OpExecError, match="disk full"):
        _Modify(filed, disks=[["add", -1, {"size": 1024}]])
    assert len(_Disks(filed)) == 1 and len(filed[0].devices) == 1


def test_detach_and_attach(filed: Master) -> None:
    _Modify(filed, disks=[["add", -1, {"size": 1024, "name": "spare"}]])
    uuid = _Disks(filed)[1].uuid
    assert _Modify(filed, disks=[["detach", "spare", {}]]) == [["disk/1", "detach"]]
    assert len(_Disks(filed)) == 1 and uuid in filed.snapshot.disks and len(filed[0].devices) == 2
    assert _Modify(filed, disks=[["attach", 0, {"uuid": uuid}]]) == [["disk/0", "attach:size=1024,mode=rw"]]
    assert _Disks(filed)[0].uuid == uuid
    _Refused(filed, "attached to instance web", errors.ECODE_INVAL, disks=[["attach", -1, {"uuid": uuid}]])


def test_the_directory_goes_with_the_last_file_in_it(filed: Master) -> None:
    """It has the instance's name: one that is renamed to this name later would find it in its way."""
    uuid = _Disks(filed)[0].uuid
    _Modify(filed, disks=[["add", -1, {"size": 1024, "name": "spare"}]])
    _Modify(filed, disks=[["detach", "spare", {}]])
    assert WEB in filed[0].Names(FILE_FOLDER)
    _Modify(filed, disks=[["detach", 0, {}]])
    assert WEB not in filed[0].Names(FILE_FOLDER)
    _Modify(filed, disks=[["attach", 0, {"uuid": uuid}]])
    _Modify(filed, disks=[["remove", 0, {}]])
    assert WEB not in filed[0].Names(FILE_FOLDER)


def test_a_detached_disk_is_named_with_the_command_that_attaches_it(filed: Master) -> None:
    _Modify(filed, disks=[["add", -1, {"size": 1024, "name": "spare"}]])
    uuid = _Disks(filed)[1].uuid
    _Modify(filed, disks=[["detach", 1, {}]])
    [text] = [text for text in filed.last.messages if "is detached" in text]
    assert f"'gnt-instance modify --disk attach:uuid={uuid} {WEB}'" in text
    filed.Run(opcodes.OpClusterVerifyConfig())
    [text] = [text for text in filed.last.messages if "detached" in text]
    assert "1 disk is detached" in text and f"{uuid} (spare, file, 1024 MiB)" in text
    assert "'gnt-instance modify --disk attach:uuid=UUID INSTANCE'" in text
    _Modify(filed, disks=[["attach", -1, {"uuid": uuid}]])
    filed.Run(opcodes.OpClusterVerifyConfig())
    assert not any("detached" in text for text in filed.last.messages)


def test_a_move_of_a_file_that_was_interrupted_is_repeated(filed: Master) -> None:
    _Modify(filed, disks=[["add", -1, {"size": 1024, "name": "spare"}]])
    uuid = _Disks(filed)[1].uuid
    inside = _Disks(filed)[1].logical_id
    dies = DiesAt(LUInstanceSetParams, "AttachInstanceDisk", "DetachInstanceDisk")
    for change in (["detach", "spare", {}], ["attach", -1, {"uuid": uuid}]):
        op = opcodes.OpInstanceSetParams(instance_name=WEB, disks=[change])
        before, files = filed.snapshot.disks, set(filed[0].devices)
        with pytest.raises(Killed):
            filed.Run(op, units={op.OP_ID: dies})
        assert filed.snapshot.disks == before and set(filed[0].devices) != files
        filed.Run(op)
        assert NameOf(filed.snapshot.disks[uuid]) in filed[0].devices and len(filed[0].devices) == 2
    assert _Disks(filed)[1].logical_id == inside


def test_a_running_guest_gets_a_disk(running: Master) -> None:
    result = _Modify(running, disks=[["add", -1, {"size": 1024}]])
    assert result == [["disk/1", "add:size=1024,mode=rw"], ["disk/1", "hotplug:done"]]
    added = _Disks(running)[1]
    assert NameOf(added) in running[0].devices
    assert running[0].arguments["hotplug_device"][4] == [_Link(1), None]
    _Refused(running, "without hotplugging", errors.ECODE_INVAL, disks=[["remove", 1, {}]], hotplug=False)
    assert _Modify(running, disks=[["remove", 1, {}]]) == [["disk/1", "remove"], ["disk/1", "hotplug:done"]]


# --- templates -----------------------------------------------------------------------------------------------------------


def _Allow(master: Master, *templates: str) -> None:
    cluster = master.snapshot.cluster
    master.cfg.Update(
        cluster.Replace(
            enabled_disk_templates=list(templates), ipolicy={**cluster.ipolicy, "disk-templates": list(templates)}
        )
    )


def test_from_mirror_to_plain(stopped: Master) -> None:
    _Allow(stopped, "drbd", "plain")
    data = _Disks(stopped)[0].children[0].logical_id
    assert _Modify(stopped, disk_template="plain") == [["disk_template", "plain"]]
    (disk,) = _Disks(stopped)
    assert (disk.dev_type, disk.logical_id, disk.nodes, disk.iv_name) == ("plain", data, (stopped.nodes[0],), "disk/0")
    assert list(stopped[0].devices) == [NameOf(disk)] and stopped[1].devices == {}
    assert list(stopped.snapshot.cluster.tcpudp_port_pool) == [11001]
    stopped.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert WEB in stopped[0].guests


def test_any_other_conversion_copies(stopped: Master) -> None:
    _Allow(stopped, "drbd", "file")
    assert _Modify(stopped, disk_template="file") == [["disk_template", "file"]]
    (disk,) = _Disks(stopped)
    assert disk.logical_id[1].startswith(f"/srv/ganeti/file-storage/{WEB}/")
    assert list(stopped[0].devices) == [NameOf(disk)] and stopped[1].devices == {}
    assert not stopped[0].devices[NameOf(disk)].assembled
    [(source, target)] = stopped[0].copied
    assert source.endswith("disk0_data") and target == disk.logical_id[1]
    stopped.Run(opcodes.OpInstanceStartup(instance_name=WEB))


def test_conversions_that_cannot_be(stopped: Master) -> None:
    _Refused(stopped, "not enabled", errors.ECODE_INVAL, disk_template="file")
    _Refused(stopped, "already has disk template", errors.ECODE_INVAL, disk_template="drbd", remote_node="node2")
    _Allow(stopped, "drbd", "plain", "blockdev", "ext")
    _Refused(stopped, "is not supported", errors.ECODE_INVAL, disk_template="blockdev")
    _Refused(stopped, "needs a provider", errors.ECODE_INVAL, disk_template="ext")
    _Modify(stopped, disk_template="plain")
    _Refused(stopped, "same as the primary", errors.ECODE_STATE, disk_template="drbd", remote_node="node1")
    stopped.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    _Refused(stopped, "marked to be up", errors.ECODE_STATE, disk_template="drbd", remote_node="node2")


def test_policy_that_is_ignored_is_still_named(master: Master) -> None:
    master.Run(opcodes.OpInstanceSetParams(instance_name=WEB, beparams={"vcpus": 9}, ignore_ipolicy=True))
    assert master.Instance(WEB).beparams["vcpus"] == 9
    assert any(WEB in text and "violates the policy" in text for text in master.last.messages)
