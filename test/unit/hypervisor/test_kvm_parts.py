"""NICs on bridges and routes, progress of a migration, passwords: what is built and read, without a guest."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import World
from support.nodes import MakeNodes, Node
from support.virtual import MakeInstance, MakeNic, MakeUuid

from ganeti import errors, pathutils, runtime
from ganeti.hypervisor import base
from ganeti.hypervisor.kvm import confine, driver, hotplug, layout, migration, network, screen
from ganeti.params import hv


def Hvp(**changes: Any) -> dict[str, Any]:
    return {**hv.DEFAULTS["kvm"], **changes}


# --- network ----------------------------------------------------------------------------------------------------------


def test_commands_for_a_bridge() -> None:
    assert network.BuildUp("tap0", "aa:00:00:12:34:56", 9000) == [
        *("ip", "link", "set", "dev", "tap0", "address", "fe:00:00:12:34:56", "mtu", "9000", "up")
    ]
    assert network.BuildEnslave("tap0", "br0") == ["ip", "link", "set", "dev", "tap0", "master", "br0"]
    vlans = network.BuildBridgeVlans("tap0", ["eth0"], network.ParseVlan(".5:7"))
    assert [" ".join(argv) for argv in vlans] == [
        "bridge vlan del dev tap0 vid 1",
        "bridge vlan add dev tap0 vid 5 pvid untagged",
        "bridge vlan add dev tap0 vid 7",
        "bridge vlan add dev eth0 vid 5",
        "bridge vlan add dev eth0 vid 7",
    ]


@pytest.mark.parametrize(
    ("vlan", "words"),
    [("", ""), (".5", " tag=5"), (":5:6", " trunks=5,6"), (".5:6", " tag=5 trunks=6 vlan_mode=native-untagged")],
)
def test_commands_for_a_switch(vlan: str, words: str) -> None:
    argv = network.BuildSwitchPort("sw", "tap0", network.ParseVlan(vlan))
    assert " ".join(argv) == "ovs-vsctl --if-exists del-port sw tap0 -- add-port sw tap0" + words


def test_commands_for_a_route() -> None:
    assert [" ".join(argv) for argv in network.BuildRoute("tap0", "192.0.2.7", "100")] == [
        "ip rule add dev tap0 table 100",
        "ip route replace 192.0.2.7 table 100 proto static dev tap0",
        "sysctl -q -w net/ipv4/conf/tap0/proxy_arp=1",
        "sysctl -q -w net/ipv4/conf/tap0/forwarding=1",
    ]
    assert [" ".join(argv) for argv in network.BuildRoute("tap0", "2001:db8::1", None)] == [
        "ip -6 route replace 2001:db8::1 proto static dev tap0",
        "sysctl -q -w net/ipv6/conf/tap0/proxy_ndp=1",
        "sysctl -q -w net/ipv6/conf/tap0/forwarding=1",
    ]


@given(st.text(alphabet=".:0123456789x", max_size=12))
def test_vlans_are_understood_or_refused(text: str) -> None:
    try:
        found = network.ParseVlan(text)
    except errors.HypervisorError:
        return
    written = ("" if found.access is None else f".{found.access}") + "".join(f":{vlan}" for vlan in found.trunk)
    assert network.ParseVlan(written) == found


def test_script_gets_everything() -> None:
    info = {"name": "lan", "network": "192.0.2.0/24", "gateway": "192.0.2.1", "tags": ["t"]}
    nic = MakeNic(0, ip="192.0.2.7", name="eth", network=MakeUuid("lan"), netinfo=info)
    instance = MakeInstance(nics=[nic], tags=["a", "b"])
    assert network.ScriptEnvironment(instance, nic, 0, "tap3", network.NetworkValues(nic), "/bin") == {
        "PATH": "/bin:/sbin:/usr/sbin",
        "INSTANCE": "guest.example.com",
        "TAGS": "a b",
        "MAC": "aa:00:00:00:00:00",
        "MODE": "bridged",
        "INTERFACE": "tap3",
        "INTERFACE_INDEX": "0",
        "INTERFACE_UUID": nic.uuid,
        "INTERFACE_NAME": "eth",
        "IP": "192.0.2.7",
        "LINK": "br0",
        "BRIDGE": "br0",
        "NETWORK_NAME": "lan",
        "NETWORK_UUID": MakeUuid("lan"),
        "NETWORK_TAGS": "t",
        "NETWORK_SUBNET": "192.0.2.0/24",
        "NETWORK_GATEWAY": "192.0.2.1",
    }


def test_script_of_the_administrator_replaces_ours(tmp_path: Path) -> None:
    [node] = MakeNodes(tmp_path, "node1")
    with node:
        script = Path(pathutils.KVM_VIF_BRIDGE)
        script.write_text(f'#!/bin/sh\necho "$1 $INTERFACE $LINK $MODE" > {tmp_path}/out\n')
        script.chmod(0o755)
        nic = MakeNic(0, link="no-such-bridge")
        network.Configure(MakeInstance(nics=[nic]), nic, 0, "tap9")
        assert (tmp_path / "out").read_text() == "tap9 tap9 no-such-bridge bridged\n"
        assert network.Recall("guest.example.com", 0) == "tap9"
        script.write_text("#!/bin/sh\necho no port left >&2\nexit 1\n")
        with pytest.raises(errors.HypervisorError, match=r"NIC 0: .*no port left"):
            network.Configure(MakeInstance(nics=[nic]), nic, 0, "tap9")


def test_missing_bridge_and_address_are_named(tmp_path: Path) -> None:
    [node] = MakeNodes(tmp_path, "node1")
    with node:
        for nic, words in [
            (MakeNic(1, link="no-such-br"), "NIC 1: bridge 'no-such-br' is not on this node; make it"),
            (MakeNic(1, mode="routed", link=""), "NIC 1: a routed NIC needs an IP address"),
            (MakeNic(1, mode="odd"), "NIC 1: mode 'odd' is not known"),
        ]:
            with pytest.raises(errors.HypervisorError, match=words):
                network.Configure(MakeInstance(), nic, 1, "tap9")


def test_missing_vhost_is_told_and_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(network, "VHOST_DEVICE", "/nowhere/vhost-net")
    assert network.CanVhost("guest", Hvp(vhost_net=True), "virtio-net-pci") is False
    assert "no /nowhere/vhost-net" in caplog.text
    monkeypatch.setattr(network, "VHOST_DEVICE", "/dev/null")
    assert network.CanVhost("guest", Hvp(vhost_net=True), "virtio-net-pci") is True
    assert network.CanVhost("guest", Hvp(vhost_net=True), "e1000") is False
    assert network.CanVhost("guest", Hvp(vhost_net=False), "virtio-net-pci") is False


# --- migration --------------------------------------------------------------------------------------------------------

ACTIVE = {"status": "active", "ram": {"transferred": 5, "total": 9, "dirty-sync-count": 2}}


def test_progress_as_qemu_tells_it() -> None:
    assert migration.ParseProgress(ACTIVE) == base.MigrationProgress("active", 5, 9)
    assert migration.ParseProgress({}).status == "failed", "nothing under way is no success"
    for state in ("setup", "device", "pre-switchover", "cancelling", "wait-unplug"):
        assert migration.ParseProgress({"status": state}).status == "active"
    for state in ("completed", "failed", "cancelled"):
        assert migration.ParseProgress({"status": state}).status == state
    assert migration.ParseProgress({**ACTIVE, "status": "postcopy-active"}).postcopy_status == "postcopy-active"


def test_limits_and_capabilities() -> None:
    hvp = Hvp(migration_bandwidth=32, migration_downtime=50, migration_caps="xbzrle:postcopy-ram")
    assert migration.Parameters(hvp) == {
        "downtime-limit": 50,
        "max-bandwidth": 32 << 20,
        "max-postcopy-bandwidth": 32 << 20,
    }
    assert migration.Parameters(Hvp(migration_bandwidth=0)) == {"downtime-limit": 30}
    assert migration.CapabilityArguments(migration.Capabilities(hvp), True) == {
        "capabilities": [{"capability": "xbzrle", "state": True}, {"capability": "postcopy-ram", "state": True}]
    }
    assert migration.Capabilities(Hvp()) == []


def test_postcopy_begins_after_two_rounds() -> None:
    hvp = Hvp(migration_caps="postcopy-ram")
    assert migration.WantsPostcopy(ACTIVE, hvp)
    assert not migration.WantsPostcopy(ACTIVE, Hvp())
    assert not migration.WantsPostcopy({**ACTIVE, "ram": {"dirty-sync-count": 1}}, hvp)
    assert not migration.WantsPostcopy({**ACTIVE, "status": "completed"}, hvp)


def test_addresses() -> None:
    assert migration.Uri("192.0.2.7", 8102) == "tcp:192.0.2.7:8102"
    assert migration.Uri("2001:db8::1", 8102) == "tcp:[2001:db8::1]:8102"


# --- passwords, users, chroots ----------------------------------------------------------------------------------------


def test_password_is_the_first_line(tmp_path: Path) -> None:
    one, two, empty = tmp_path / "one", tmp_path / "two", tmp_path / "empty"
    one.write_text("secret1\nmore\n")
    two.write_text("secret2")
    empty.write_text("\n")
    assert screen.ReadPassword(str(one)) == "secret1" and screen.ReadPassword(str(two)) == "secret2"
    for path in (empty, tmp_path / "none"):
        with pytest.raises(errors.HypervisorError, match=f"Password file {path}"):
            screen.ReadPassword(str(path))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return MakeNodes(tmp_path, "node1")[0]


POOL = Hvp(security_model="pool")


def _SetPool(text: str) -> None:
    Path(pathutils.SsconfFile("uid_pool")).write_text(text)


@pytest.mark.req("D22-KVM-07", "D21-UID-17", "D21-UID-20")
def test_each_guest_gets_a_user_of_the_pool(node: Node) -> None:
    with node:
        layout.MakeDirs()
        _SetPool("61001-61002\n")
        with confine.User("one", POOL) as first:
            pass
        with confine.User("two", POOL) as second:
            pass
        assert {first, second} == {"61001:61001", "61002:61002"}, "a number without a name is given as a number"
        confine.Release("one")
        with confine.User("three", POOL) as third:
            assert third in (first, second)
        with pytest.raises(RuntimeError):
            with confine.User("four", POOL):
                raise RuntimeError("the start failed")
        assert not Path(layout.UidFile("four")).exists()


@pytest.mark.req("D21-UID-06")
def test_pool_without_ids_and_other_models(node: Node) -> None:
    with node:
        layout.MakeDirs()
        _SetPool("")
        with pytest.raises(errors.HypervisorError, match="needs user ids; add some with"):
            with confine.User("one", POOL):
                pass
        with confine.User("one", Hvp(security_model="user", security_domain="nobody")) as user:
            assert user == "nobody"
        with confine.User("one", Hvp()) as user:
            assert user is None
    assert confine.UserName(pwd.getpwnam("nobody").pw_uid) == "nobody"


@pytest.mark.req("D22-KVM-04")
def test_chroot_is_empty_and_what_was_left_in_it_is_put_aside(node: Node) -> None:
    with node:
        layout.MakeDirs()
        assert confine.MakeChroot("one", Hvp()) is None
        path = confine.MakeChroot("one", Hvp(use_chroot=True))
        assert path is not None and os.listdir(path) == []
        confine.Release("one")
        assert not os.path.exists(path)
        confine.MakeChroot("one", Hvp(use_chroot=True))
        Path(path, "core").write_text("x")
        confine.Release("one")
        [aside] = Path(layout.QuarantineDir()).iterdir()
        assert aside.name.startswith("one-") and (aside / "core").exists() and not os.path.exists(path)


def test_descriptors_by_name() -> None:
    assert hotplug.NetdevArguments("nic-1", ["nic-1-0"], []) == {"type": "tap", "id": "nic-1", "fd": "nic-1-0"}
    assert hotplug.NetdevArguments("nic-1", ["a", "b"], ["va", "vb"]) == {
        "type": "tap",
        "id": "nic-1",
        "fds": "a:b",
        "vhost": True,
        "vhostfds": "va:vb",
    }


def test_taps_are_real_and_go_with_their_descriptors() -> None:
    tap = network.OpenTap(True, 2)
    try:
        assert os.path.isdir(f"/sys/class/net/{tap.name}") and len(tap.fds) == 2
        subprocess.run(network.BuildUp(tap.name, "aa:00:00:12:34:56", 1400), check=True)
        assert Path(f"/sys/class/net/{tap.name}/address").read_text().strip() == "fe:00:00:12:34:56"
    finally:
        tap.Close()
    assert not os.path.isdir(f"/sys/class/net/{tap.name}")


@pytest.mark.req("D22-KVM-10")
def test_example_rules_stop_what_is_not_named() -> None:
    """Only processes of the pool are concerned, and what no rule lets through is refused."""
    text = (Path(__file__).parents[3] / "doc" / "examples" / "kvm-users.iptables.in").read_text()
    rules = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert rules[0] == ["*filter"] and rules[1][0] == ":KVM-USERS" and rules[-1] == ["COMMIT"]
    output = [rule for rule in rules if rule[:2] == ["-A", "OUTPUT"]]
    assert output == [["-A", "OUTPUT", "-m", "owner", "--uid-owner", "61001-61999", "-j", "KVM-USERS"]]
    own = [rule for rule in rules if rule[:2] == ["-A", "KVM-USERS"]]
    assert own[-1][2:] == ["-j", "REJECT"] and len(output) + len(own) == len(rules) - 3


# --- processes and what is said of them -------------------------------------------------------------------------------

_WRITES_AT_THE_END = (
    "import signal, sys\n"
    "def end(*args):\n"
    "    open(sys.argv[1], 'w').write('all')\n"
    "    sys.exit()\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "print('ready', flush=True)\n"
    "signal.pause()\n"
)


@pytest.mark.parametrize(("state", "written"), [("runs", True), ("at once", False), ("stands still", False)])
def test_a_process_that_can_may_write_what_it_holds_before_it_ends(tmp_path: Path, state: str, written: bool) -> None:
    file = tmp_path / "held"
    with subprocess.Popen([sys.executable, "-c", _WRITES_AT_THE_END, str(file)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        if state == "stands still":
            os.kill(child.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        layout.Kill("web", layout.Process(child.pid, ("qemu",)), at_once=state == "at once")
    assert file.exists() is written


def test_memory_of_a_guest_is_what_its_balloon_leaves_it() -> None:
    process = layout.Process(7, ("qemu", "-m", "512", "-smp", "3"))
    answers = {
        "query-status": {"status": "running"},
        "query-cpus-fast": [{}, {}],
        "query-balloon": {"actual": 384 << 20},
    }
    info = driver._ReadInfo("web", process, answers)
    assert (info.memory, info.vcpus, info.run_state) == (384, 2, "running")
    info = driver._ReadInfo("web", process, {**answers, "query-balloon": None, "query-cpus-fast": None})
    assert (info.memory, info.vcpus) == (512, 3), "as it was started"


def test_of_what_qemu_says_the_errors_count() -> None:
    warning = "qemu-system-x86_64: warning: TCG doesn't support requested feature\n"
    assert driver.StartTrouble(f"{warning}qemu-system-x86_64: no such disk\n") == "qemu-system-x86_64: no such disk"
    assert driver.StartTrouble(warning) == warning.strip(), "better than nothing"
    assert driver.StartTrouble("") == "QEMU gave no reason"


@pytest.mark.parametrize("seed", range(10))
def test_the_log_of_an_earlier_guest_does_not_come_back_with_a_loss_of_power(seed: int) -> None:
    """It may say that nothing could be loaded, when the guest of a later migration has run."""

    def write() -> None:
        runtime.MakeDirs(pathutils.LOG_KVM_DIR)
        runtime.WriteFile(layout.LogFile("web"), b"load of migration failed: Input/output error\n")

    machine = World(seed).AddMachine("node1")
    machine.Call(write)
    assert migration.LoadFailed(machine.Call(layout.ReadLog, "web"))
    machine.Call(layout.EmptyLog, "web")
    machine.PowerOff()
    machine.PowerOn()
    assert not migration.LoadFailed(machine.Call(layout.ReadLog, "web"))
