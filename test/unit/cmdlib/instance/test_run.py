"""Instances are started, stopped, rebooted, looked at (doc/reference/drivers.md d.2)."""

from __future__ import annotations

import pytest
from support.master import Master

from ganeti import constants, errors, opcodes, runtime
from ganeti.params import runstate

WEB = "web.example.org"


def _Stop(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))


def _State(master: Master) -> tuple[str, bool, bool]:
    """(admin state, disks active, running on the primary)."""
    web = master.Instance(WEB)
    return web.admin_state, web.disks_active, WEB in master[0].guests


def _Offline(master: Master, number: int) -> None:
    master.cfg.Update(master.snapshot.nodes[master.nodes[number]].Replace(offline=True, master_candidate=False))


def test_stop_and_start(master: Master) -> None:
    assert _State(master) == ("up", True, True)
    _Stop(master)
    assert _State(master) == ("down", False, False)
    assert not any(device.assembled for machine in master.machines.values() for device in machine.devices.values())
    master.Run(opcodes.OpInstanceStartup(instance_name="web"))
    assert _State(master) == ("up", True, True)
    hooks = [(path, phase) for path, phase, _ in master[1].hook_runs]
    assert hooks == [(f"instance-{what}", phase) for what in ("stop", "start") for phase in ("pre", "post")]
    before, after = [env for path, _, env in master[0].hook_runs if path == "instance-start"]
    assert (before["GANETI_INSTANCE_STATUS"], after["GANETI_POST_INSTANCE_STATUS"]) == ("down", "up")
    assert before["GANETI_FORCE"] == "False"


def test_environment_tells_all_of_the_instance(master: Master) -> None:
    _Stop(master)
    env = master[0].hook_runs[0][2]
    expected = {
        "OP_TARGET": WEB,
        "INSTANCE_NAME": WEB,
        "INSTANCE_PRIMARY": "node1.example.org",
        "INSTANCE_SECONDARIES": "node2.example.org",
        "INSTANCE_OS_TYPE": "debian+minimal",
        "INSTANCE_STATUS": "up",
        "INSTANCE_MINMEM": "512",
        "INSTANCE_MAXMEM": "512",
        "INSTANCE_MEMORY": "512",
        "INSTANCE_VCPUS": "1",
        "INSTANCE_DISK_TEMPLATE": "drbd",
        "INSTANCE_HYPERVISOR": "kvm",
        "INSTANCE_NIC_COUNT": "1",
        "INSTANCE_NIC0_MAC": "aa:00:00:3f:12:c4",
        "INSTANCE_NIC0_MODE": "bridged",
        "INSTANCE_NIC0_LINK": "br0",
        "INSTANCE_NIC0_BRIDGE": "br0",
        "INSTANCE_NIC0_IP": "",
        "INSTANCE_DISK_COUNT": "1",
        "INSTANCE_DISK0_SIZE": "10240",
        "INSTANCE_DISK0_MODE": "rw",
        "INSTANCE_DISK0_DEV_TYPE": "drbd",
        "INSTANCE_DISK0_PORT": "11001",
        "INSTANCE_DISK0_PNODE": "node1.example.org",
        "INSTANCE_DISK0_SNODE": "node2.example.org",
        "INSTANCE_DISK0_DATA_VG": "xenvg",
        "INSTANCE_DISK0_META_ID": "00000077-aaaa-4bbb-8ccc-000000000077.disk0_meta",
        "INSTANCE_TAGS": "prod",
        "INSTANCE_BE_vcpus": "1",
        "INSTANCE_HV_acpi": "False",
        "TIMEOUT": "120",
    }
    assert {name: env.get(f"GANETI_{name}") for name in expected} == expected
    assert not any("9f2c6a1d" in value for value in env.values()), "the mirror's secret must stay a secret"


@pytest.mark.req("RM-CHK-02")
def test_starting_needs_memory_bridges_and_a_node(master: Master) -> None:
    _Stop(master)
    master[0].SetMemory(1400)
    with pytest.raises(errors.OpPrereqError, match="needed 512 MiB, available 376 MiB"):
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB, beparams={"minmem": "376m"}))
    _Stop(master)
    master[0].SetMemory(32768)
    master[0].Call(runtime.RemoveTree, "/sys/class/net")
    with pytest.raises(errors.OpPrereqError, match="Missing bridges br0"):
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="'nosuch' not known"):
        master.Run(opcodes.OpInstanceStartup(instance_name="nosuch"))
    with pytest.raises(errors.OpPrereqError, match="cluster-wide ones: migration_port"):
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB, hvparams={"migration_port": 5}))
    assert _State(master) == ("down", False, False)


def test_each_start_has_an_attempt_of_its_own_which_its_disks_were_opened_for(master: Master) -> None:
    seen = []
    for reboot in (False, True):
        if reboot:
            master.Run(opcodes.OpInstanceReboot(instance_name=WEB, reboot_type="full"))
        else:
            master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
            master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
        opened, started = master[0].arguments["blockdev_assemble"][1], master[0].arguments["instance_start"][0]
        assert opened["attempt"] == started["attempt"] is not None
        seen.append(started["attempt"])
    assert seen[0] != seen[1]
    assert "attempt" not in master.Instance(WEB).ToDict(), "it is not stored"


def test_parameters_for_one_start_only(master: Master) -> None:
    _Stop(master)
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB, beparams={"memory": 1024}, hvparams={"acpi": True}))
    sent = master[0].arguments["instance_start"][0]
    assert (sent["beparams"]["maxmem"], sent["hvparams"]["acpi"]) == (1024, True)
    assert dict(master.Instance(WEB).beparams) == {"maxmem": 512, "minmem": 512}


def test_a_failed_start_takes_the_disks_down_again(master: Master) -> None:
    _Stop(master)
    master[0].faults["instance_start"] = "no KVM here"
    with pytest.raises(errors.OpExecError, match=r"Could not start instance 'web.example.org': no KVM here"):
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert _State(master) == ("up", False, False)
    assert not any(device.assembled for device in master[0].devices.values())


def test_disks_that_cannot_be_set_up_stop_the_start(master: Master) -> None:
    _Stop(master)
    master[1].faults["blockdev_assemble"] = "broken disk"
    with pytest.raises(errors.OpExecError, match="Disk consistency error"):
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert _State(master) == ("up", False, False)
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB, force=True))
    assert _State(master) == ("up", True, True)


def test_an_offline_primary_node(master: Master) -> None:
    _Stop(master)
    web = master.Instance(WEB)
    master.cfg.SetInstancePrimaryNode(web.uuid, master.nodes[1])
    _Offline(master, 1)
    with pytest.raises(errors.OpPrereqError, match=r"is offline: node2.example.org"):
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB, ignore_offline_nodes=True))
    assert master.Instance(WEB).admin_state == "up"
    assert master[1].guests == {}
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB, ignore_offline_nodes=True))
    assert master.Instance(WEB).admin_state == "down"


def test_starting_with_an_offline_secondary_is_a_warning(master: Master) -> None:
    _Stop(master)
    _Offline(master, 1)
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert _State(master) == ("up", True, True)
    assert any("node2.example.org" in text and "WARNING" in text for text in master.last.messages)


def test_the_state_need_not_be_remembered(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB, no_remember=True))
    assert _State(master) == ("up", False, False)
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB, no_remember=True))
    assert _State(master) == ("up", True, True)


def test_offline_instances_are_not_touched(master: Master) -> None:
    _Stop(master)
    master.cfg.MarkInstanceOffline(master.Instance(WEB).uuid)
    for op in (opcodes.OpInstanceStartup(instance_name=WEB), opcodes.OpInstanceShutdown(instance_name=WEB)):
        with pytest.raises(errors.OpPrereqError, match="is marked to be offline, it must be up or down") as caught:
            master.Run(op)
        assert caught.value.hint == f"use 'gnt-instance modify --online {WEB}' first"
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB, force=True))
    assert master.Instance(WEB).admin_state == "offline"


def test_a_guest_shut_down_by_its_user(master: Master) -> None:
    web = master.Instance(WEB)
    user = opcodes.OpInstanceShutdown(instance_name=WEB, admin_state_source=constants.USER_SOURCE)
    with pytest.raises(errors.OpPrereqError, match="was not shut down by its user"):
        master.Run(user)
    master.cfg.Update(master.snapshot.cluster.Replace(enabled_user_shutdown=True))
    master[0].ShutDownByUser(WEB)
    master.Run(user)
    assert (master.Instance(WEB).admin_state, master.Instance(WEB).admin_state_source) == ("down", "user")
    master[0].ShutDownByUser(WEB)
    master[0].calls.clear()
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    served = [name for name in master[0].calls if name in ("instance_shutdown", "instance_start")]
    assert served == ["instance_shutdown", "instance_start"]
    assert master.Instance(web.name).admin_state_source == "admin"


@pytest.mark.parametrize("kind", ["soft", "hard", "full"])
def test_reboot(master: Master, kind: str) -> None:
    master[0].calls.clear()
    master.Run(opcodes.OpInstanceReboot(instance_name=WEB, reboot_type=kind))
    expected = ["instance_shutdown", "instance_start"] if kind == "full" else ["instance_reboot"]
    looks = ("instance_info", "instance_run_state")
    assert [name for name in master[0].calls if name.startswith("instance_") and name not in looks] == expected
    assert _State(master) == ("up", True, True)


def test_reboot_starts_what_was_stopped(master: Master) -> None:
    _Stop(master)
    master.Run(opcodes.OpInstanceReboot(instance_name=WEB, reboot_type="soft"))
    assert _State(master) == ("up", True, True)


def test_console_of_a_running_instance_only(master: Master) -> None:
    console = master.Run(opcodes.OpInstanceConsole(instance_name=WEB))
    assert console == {
        "instance": WEB,
        "kind": "msg",
        "message": f"Console not available for fake hypervisor; instance {WEB} is on node node1.example.org",
    }
    master[0].KillGuest(WEB)
    with pytest.raises(errors.OpExecError, match="is not running \\(state ERROR_down\\)"):
        master.Run(opcodes.OpInstanceConsole(instance_name=WEB))
    _Stop(master)
    with pytest.raises(errors.OpExecError, match="ADMIN_down"):
        master.Run(opcodes.OpInstanceConsole(instance_name=WEB))


def test_disks_by_hand(master: Master) -> None:
    _Stop(master)
    result = master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    [[node, name, path]] = result
    assert (node, name) == ("node1.example.org", "disk/0") and path.endswith("disk0_data")
    assert _State(master) == ("down", True, False)
    master.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    assert _State(master) == ("down", False, False)
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="marked to be up, it must be down"):
        master.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    master[0].faults["blockdev_assemble"] = "gone"
    with pytest.raises(errors.OpExecError, match="Cannot activate"):
        master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))


def test_an_instance_of_the_same_name_is_another_one(master: Master) -> None:
    other = "00000099-aaaa-4bbb-8ccc-000000000099"
    with pytest.raises(errors.OpPrereqError, match="the request expected 00000099") as caught:
        master.Run(opcodes.OpInstanceStartup(instance_name=WEB, instance_uuid=other))
    assert caught.value.args[1] == errors.ECODE_NOTUNIQUE


def test_waiting_for_a_guest_that_hangs_is_announced(master: Master) -> None:
    for timeout, announced in ((30, True), (0, False)):
        master[0].StartGuest(WEB, state=runstate.UNRESPONSIVE)
        master.Run(opcodes.OpInstanceReboot(instance_name=WEB, reboot_type="hard", shutdown_timeout=timeout))
        assert any("does not respond" in text for text in master.last.messages) == announced
    master.Run(opcodes.OpInstanceReboot(instance_name=WEB, reboot_type="hard"))
    assert not any("does not respond" in text for text in master.last.messages)
    master[0].StartGuest(WEB, state=runstate.UNRESPONSIVE)
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB, timeout=20))
    told = f"Instance {WEB} does not respond; it is given 20 seconds to stop, then it is ended"
    assert any(told in text for text in master.last.messages)
    assert any("with '--timeout 0' it is ended at once" in text for text in master.last.messages)
