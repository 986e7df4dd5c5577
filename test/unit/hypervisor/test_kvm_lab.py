"""Real QEMU with real guests, in software emulation: what only a running machine shows."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import ECB
from support.guests import KvmRig
from support.realcluster import WaitUntil
from support.virtual import MakeNic

from ganeti import constants, errors, pathutils, runtime
from ganeti.hypervisor import base
from ganeti.hypervisor.kvm import layout, network, qmp, runfile

pytestmark = pytest.mark.lab


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[KvmRig]:
    made = KvmRig(tmp_path)
    yield made
    made.End()


def test_guest_keeps_running_while_it_moves(rig: KvmRig) -> None:
    with rig.first:
        rig.Start()
        with rig.Console() as console:
            before = console.Ask()
    rig.Arrive(rig.Depart())
    with rig.second, rig.Console() as console:
        after = console.Ask()
    assert after.boot_id == before.boot_id and after.uptime > before.uptime


def test_migration_broken_off_lets_the_guest_go_on(rig: KvmRig) -> None:
    driver, instance = rig.driver, rig.instance
    rig.Change(migration_bandwidth=1)  # slow enough to be caught on its way
    with rig.first:
        rig.Start()
        with rig.Console() as console:
            before = console.Ask()
    rig.Depart()
    with rig.first:
        assert driver.MigrationStatus(rig.instance).status == base.MIGRATION_ACTIVE
        assert driver.Look(instance.name).sending
    with rig.second:
        driver.Hold(instance)
        driver.EndNow(instance)
    with rig.first:
        assert rig.WaitMigrated() == base.MIGRATION_FAILED
        look = driver.Look(instance.name)
        assert look.state == "running" and not look.sending
        with rig.Console() as console:
            after = console.Ask()
        assert after.boot_id == before.boot_id and after.uptime > before.uptime


def test_guest_powers_itself_off_when_asked(rig: KvmRig) -> None:
    with rig.first:
        rig.Start()
        with rig.Console() as console:
            console.Ask()
            rig.driver.Stop(rig.instance)
            console.WaitFor(b"mini powers off")
        rig.WaitStopped()
        assert rig.driver.Info(rig.instance.name) is None
        rig.driver.Cleanup(rig.instance.name)


def test_guest_that_another_release_started_runs_on_until_its_next_start(rig: KvmRig) -> None:
    """Its runtime file has the node's part of the command line too, which a second start would use twice."""
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
        kept = runfile.Load(instance.name)
        command = (*kept.command, "-pidfile", layout.PidFile(instance.name), "-daemonize", "-monitor", "none")
        runfile.Save(instance.name, dataclasses.replace(kept, command=command))
        with pytest.raises(errors.HypervisorError, match=r"another release.*use 'gnt-instance reboot -t hard"):
            driver.Reboot(instance)
        with pytest.raises(errors.HypervisorError, match=r"another release.*use 'gnt-instance reboot -t full"):
            driver.MigrationInfo(instance)
        with rig.Console() as console:
            assert console.Ask().uptime > 0


@pytest.mark.req("RM-LIM-06")
def test_the_driver_in_a_guest_gives_memory_back_and_takes_it_again(rig: KvmRig) -> None:
    """What QEMU calls the guest's memory changes only when the driver in the guest has moved the balloon."""
    rig.instance = rig.instance.Replace(beparams={**rig.instance.beparams, "minmem": 128, "maxmem": 192})

    def has(memory: int) -> bool:
        info = rig.driver.Info(rig.instance.name)
        assert info is not None
        return info.memory == memory

    with rig.first:
        rig.Start()
        with rig.Console() as console:
            before = console.Ask()
            assert has(192)
            for memory in (128, 192):
                rig.driver.Balloon(rig.instance, memory)
                WaitUntil(lambda wanted=memory: has(wanted), f"the guest has {memory} MiB", timeout=120)
            after = console.Ask()
    assert after.boot_id == before.boot_id and after.uptime >= before.uptime


def test_paused_guest_waits(rig: KvmRig) -> None:
    with rig.first:
        rig.Start(paused=True)
        with qmp.Monitor(layout.Socket(rig.instance.name, layout.QMP)) as monitor:
            assert monitor.Execute("query-status")["status"] == "prelaunch"
            monitor.Execute("cont")
        with rig.Console() as console:
            assert console.Ask().name == "unnamed"


@pytest.mark.req("D20-CLI-15")
@pytest.mark.parametrize(("boot_order", "place"), [("cdrom", 1), ("disk", -1)])
def test_a_guest_has_the_image_of_its_cd(rig: KvmRig, boot_order: str, place: int) -> None:
    """The firmware tries devices from place 1 on, and none whose place is -1."""
    image = rig.files / "setup.iso"
    image.write_bytes(bytes(1 << 16))
    rig.Change(kernel_path="", initrd_path="", boot_order=boot_order, cdrom_image_path=str(image))
    with rig.first:
        rig.Start(paused=True)
        with qmp.Monitor(layout.Socket(rig.instance.name, layout.QMP)) as monitor:
            found = [entry["inserted"] for entry in monitor.Execute("query-block") if "inserted" in entry]
            [cd] = [medium for medium in found if medium["node-name"] == "cdrom0"]
            assert (cd["image"]["filename"], cd["ro"]) == (str(image), True)
            asked = {"path": "/machine/peripheral/cd0", "property": "bootindex"}
            assert monitor.Execute("qom-get", asked) == place


def test_trouble_at_the_start_is_told_and_leaves_nothing(rig: KvmRig) -> None:
    broken = rig.instance.Replace(hvparams={**rig.instance.hvparams, "kvm_extra": "-device no-such-thing"})
    with rig.first:
        with pytest.raises(errors.HypervisorError, match=r"Failed to start instance \S+: .*no-such-thing"):
            rig.driver.Start(broken, rig.Disks(), False)
        assert rig.driver.List() == []
        left = [str(path) for path in Path(pathutils.KVM_DIR).rglob("*") if path.is_file() or path.is_socket()]
        assert left == []


def test_guest_stopped_by_its_user_is_seen(rig: KvmRig) -> None:
    """Its process stays until somebody cleans up, so that a power-off can be told from a crash."""
    asking = rig.instance.Replace(hvparams={**rig.instance.hvparams, "user_shutdown": True})
    with rig.first:
        rig.driver.Start(asking, rig.Disks(), False)
        with rig.Console() as console:
            console.Ask()
            rig.driver.Stop(asking)  # the same signal a user inside would give
            console.WaitFor(b"mini powers off")
        for _ in range(100):
            info = rig.driver.Info(asking.name)
            assert info is not None
            if info.state == constants.INST_USER_SHUTDOWN:
                break
            runtime.Sleep(0.1)
        assert info.state == constants.INST_USER_SHUTDOWN
        rig.driver.Stop(asking)
        rig.WaitStopped()
        assert rig.driver.Info(asking.name) is None


# --- network ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bridge() -> Iterator[str]:
    """A bridge of this test's own, without any address."""
    name = f"gt{os.getpid() % 100000}b"
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    subprocess.run(["ip", "link", "set", name, "mtu", "1400", "up"], check=True)
    yield name
    subprocess.run(["ip", "link", "del", name], check=True)


def _Ports(bridge: str) -> list[str]:
    return os.listdir(f"/sys/class/net/{bridge}/brif")


@pytest.mark.req("D20-VAR-04")
def test_nics_are_on_the_bridge_wherever_the_guest_is(rig: KvmRig, bridge: str) -> None:
    rig.instance = rig.instance.Replace(nics=tuple(MakeNic(index, link=bridge) for index in range(2)))
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
        [one, two] = _Ports(bridge)
        assert Path(f"/sys/class/net/{one}/mtu").read_text() == "1400\n"
        noted = {Path(layout.NicFile(instance.name, index)).read_text().strip() for index in range(2)}
        assert noted == {one, two}
    info = rig.Depart()
    assert len(_Ports(bridge)) == 4
    rig.Arrive(info)
    with rig.second:
        WaitUntil(lambda: len(_Ports(bridge)) == 2, "the source's taps go with its process")
        driver.Stop(instance, force=True)
        rig.WaitStopped()
        WaitUntil(lambda: _Ports(bridge) == [], "taps go with the guest")


@pytest.mark.req("D21-NIC-05", "D21-NIC-06", "D21-NIC-07")
def test_routed_and_bridged_nics_side_by_side(rig: KvmRig, bridge: str) -> None:
    """What the route leaves on the node goes with the guest."""
    table, ip = "61077", "192.0.2.77"
    nics = (MakeNic(0, mode="routed", link=table, ip=ip), MakeNic(1, link=bridge))
    rig.instance = rig.instance.Replace(nics=nics)
    with rig.first:
        rig.Start()
        tap = network.Recall(rig.instance.name, 0)
        assert tap not in _Ports(bridge) and len(_Ports(bridge)) == 1
        assert f"{ip} dev {tap} proto static" in _Output("ip", "route", "show", "table", table)
        assert f"iif {tap} lookup {table}" in _Output("ip", "rule", "show")
        assert Path(f"/proc/sys/net/ipv4/conf/{tap}/proxy_arp").read_text() == "1\n"
        rig.driver.Stop(rig.instance, force=True)
        rig.WaitStopped()
        rig.driver.Cleanup(rig.instance.name)
        assert table not in _Output("ip", "rule", "show")
        assert _Output("ip", "route", "show", "table", table) == ""


def _Output(*argv: str) -> str:
    """What a command prints; a table that does not exist prints nothing."""
    return subprocess.run(argv, capture_output=True, text=True).stdout


def test_missing_bridge_stops_the_start(rig: KvmRig) -> None:
    rig.instance = rig.instance.Replace(nics=(MakeNic(0, link="gt-no-bridge"),))
    with rig.first:
        with pytest.raises(errors.HypervisorError, match="bridge 'gt-no-bridge' is not on this node"):
            rig.Start()
        assert rig.driver.List() == []


# --- devices of a running guest ---------------------------------------------------------------------------------------


def _Plugged(rig: KvmRig) -> set[str]:
    """Ids of the devices that QEMU has, as far as they are ours."""
    with qmp.Monitor(layout.Socket(rig.instance.name, layout.QMP)) as monitor:
        found = monitor.Execute("qom-list", {"path": "/machine/peripheral"})
    return {entry["name"] for entry in found if entry["name"].startswith(("disk-", "nic-"))}


def test_devices_come_and_go_while_the_guest_runs(rig: KvmRig, bridge: str) -> None:
    driver, instance = rig.driver, rig.instance
    new_disk, new_nic = rig.MakeDisk(1), MakeNic(0, link=bridge)
    with rig.first:
        with pytest.raises(errors.HotplugError, match="not running"):
            driver.HotplugSupported(instance)
        rig.Start()
        driver.HotplugSupported(instance)
        with rig.Console() as console:
            console.Ask()
        before = _Plugged(rig)
        driver.HotAdd(instance, base.HOTPLUG_DISK, new_disk, [str(new_disk.logical_id[1]), None], 1)
        driver.HotAdd(instance, base.HOTPLUG_NIC, new_nic, None, 0)
        assert len(_Plugged(rig)) == len(before) + 2 and len(_Ports(bridge)) == 1
        os.truncate(str(new_disk.logical_id[1]), 2 << 20)
        driver.ResizeDisk(instance, new_disk, 2 << 20)
        driver.ResizeDisk(instance, new_disk, 4 << 20)
        driver.ResizeDisk(instance, new_disk, 3 << 20)
        assert os.stat(str(new_disk.logical_id[1])).st_size == 4 << 20, "a call that came late"

        with_both = instance.Replace(disks_info=(*(instance.disks_info or ()), new_disk), nics=(new_nic,))
        info = driver.MigrationInfo(with_both)
        assert info is not None and new_disk.uuid in info and new_nic.uuid in info

        place = driver.HotRemove(instance, base.HOTPLUG_DISK, new_disk, 1)
        assert place["driver"] == "virtio-blk-pci" and place["bus"] == "pci.0"
        driver.HotModify(instance, base.HOTPLUG_NIC, new_nic, None, 0)
        driver.HotRemove(instance, base.HOTPLUG_NIC, new_nic, 0)
        assert _Plugged(rig) == before and _Ports(bridge) == []
        with pytest.raises(errors.HotplugError, match="was not plugged in"):
            driver.HotRemove(instance, base.HOTPLUG_DISK, new_disk, 1)
        driver.HotAdd(instance, base.HOTPLUG_DISK, new_disk, [str(new_disk.logical_id[1]), None], 1)
        with rig.Console() as console:
            assert console.Ask().uptime > 0


# --- screens and confinement ------------------------------------------------------------------------------------------


@pytest.mark.req("D21-VNC-05")
def test_password_is_set_and_never_shown(rig: KvmRig, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sesame\n")
    sockets = rig.base / "vnc"
    sockets.mkdir()
    rig.Change(vnc_bind_address=str(sockets), vnc_password_file=str(tmp_path / "password"))
    with rig.first:
        rig.Start()
        process = layout.FindProcess(rig.instance.name)
        assert process is not None
        assert not any("sesame" in word for word in process.argv)
        with qmp.Monitor(layout.Socket(rig.instance.name, layout.QMP)) as monitor:
            assert monitor.Execute("query-vnc")["auth"] == "vnc"
        assert (sockets / f"{rig.instance.name}.vnc").is_socket()


def _LogIn(path: Path, password: str) -> bool:
    """Whether the screen at this socket lets a viewer in who knows this password (RFC 6143, 7.1 and 7.2.2)."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        stream = sock.makefile("rb")
        assert stream.read(12) == b"RFB 003.008\n"
        sock.sendall(b"RFB 003.008\n")
        kinds = stream.read(stream.read(1)[0])
        assert kinds == b"\x02", "a password is the only way in"
        sock.sendall(kinds)
        # Each byte of the key goes from its last bit to its first.
        key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in password.encode()[:8].ljust(8, b"\0"))
        cipher = Cipher(TripleDES(key * 3), ECB()).encryptor()
        sock.sendall(cipher.update(stream.read(16)))
        return int.from_bytes(stream.read(4), "big") == 0


@pytest.mark.req("D21-VNC-03")
def test_guests_with_different_files_have_different_passwords(rig: KvmRig, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = KvmRig(tmp_path / "other")
    passwords = {"sesame": rig, "mellon": other}
    try:
        for password, one in passwords.items():
            file, sockets = tmp_path / password, one.base / "vnc"
            file.write_text(f"{password}\n")
            sockets.mkdir()
            one.Change(vnc_bind_address=str(sockets), vnc_password_file=str(file))
            with one.first:
                one.Start()
        for password in passwords:
            let_in = [_LogIn(one.base / "vnc" / f"{one.instance.name}.vnc", password) for one in (rig, other)]
            assert let_in == [passwords[password] is one for one in (rig, other)]
    finally:
        other.End()


def _OpenFiles(pid: int) -> list[str]:
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(entry.path))
    return found


def _Status(rig: KvmRig, key: str) -> list[str]:
    process = layout.FindProcess(rig.instance.name)
    assert process is not None
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return line.split()[1:]
    raise AssertionError(key)


@pytest.mark.req("D22-KVM-01", "D22-KVM-04", "D22-KVM-05", "D22-KVM-06", "D22-KVM-07", "D22-KVM-09")
def test_guest_of_the_pool_in_its_chroot(rig: KvmRig, bridge: str) -> None:
    """It runs as nobody's user in an empty directory, and its disk, console and sockets work all the same."""
    rig.Change(security_model="pool", use_chroot=True)
    rig.instance = rig.instance.Replace(nics=(MakeNic(0, link=bridge),))
    with rig.first:
        Path(pathutils.SsconfFile("uid_pool")).write_text("61001-61009\n")
        rig.Start()
        uid = int(_Status(rig, "Uid")[0])
        assert 61001 <= uid <= 61009 and set(_Status(rig, "Uid")) == {str(uid)}
        process = layout.FindProcess(rig.instance.name)
        assert process is not None
        root = os.readlink(f"/proc/{process.pid}/root")
        assert root == layout.ChrootDir(rig.instance.name) and os.listdir(root) == []
        info = os.stat(root)
        assert info.st_uid != uid and not info.st_mode & 0o022, "it can write nothing there"
        assert not [path for path in _OpenFiles(process.pid) if path.startswith(("/etc/", "/var/lib/", "/root/"))]
        with rig.Console() as console:
            assert console.Ask().name == "unnamed"
        # A disk it could not open itself is handed over.
        disk = rig.MakeDisk(1)
        os.chmod(str(disk.logical_id[1]), 0o600)
        rig.driver.HotAdd(rig.instance, base.HOTPLUG_DISK, disk, [str(disk.logical_id[1]), None], 1)
        rig.driver.Stop(rig.instance, force=True)
        rig.WaitStopped()
        rig.driver.Cleanup(rig.instance.name)
        assert not os.path.exists(root) and os.listdir(pathutils.UIDPOOL_LOCK_DIR) == []


@pytest.mark.req("D22-KVM-01", "D22-KVM-02")
def test_guest_of_a_user_of_its_own(rig: KvmRig) -> None:
    rig.Change(security_model="user", security_domain="nobody")
    with rig.first:
        rig.Start()
        assert set(_Status(rig, "Uid")) == {str(pwd.getpwnam("nobody").pw_uid)}


@pytest.mark.req("D22-KVM-03", "D22-KVM-07", "D22-KVM-08")
def test_guests_of_the_pool_cannot_touch_each_other_or_the_node(rig: KvmRig) -> None:
    rig.Change(security_model="pool")
    one = rig.instance
    with rig.first:
        Path(pathutils.SsconfFile("uid_pool")).write_text("61101-61102\n")
        secret = Path(pathutils.NODED_CERT_FILE)
        secret.write_text("key")
        secret.chmod(0o440)
        rig.Start()
        uid = _Status(rig, "Uid")[0]
        rig.instance = one.Replace(name="other.example.com", disks_info=(), disks=())
        rig.driver.Start(rig.instance, [], False)
        try:
            assert _Status(rig, "Uid")[0] != uid
            assert _Status(rig, "CapEff") == ["0000000000000000"]
            other = layout.FindProcess(rig.instance.name)
            assert other is not None
            as_one = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
            for argv in (
                ["kill", "-0", str(other.pid)],
                ["head", "-c1", f"/proc/{other.pid}/mem"],
                ["cat", str(secret)],
            ):
                done = subprocess.run([*as_one, *argv], capture_output=True, text=True)
                assert done.returncode != 0 and ("ermission" in done.stderr or "permitted" in done.stderr), argv
        finally:
            rig.driver.Stop(rig.instance, force=True)
            rig.driver.Cleanup(rig.instance.name)
            rig.instance = one


def test_console_data_leads_to_the_socket(rig: KvmRig) -> None:
    with rig.first:
        console = rig.driver.Console(rig.instance, "node1.example.com", 2222).ToDict()
        assert (console["kind"], console["host"], console["port"], console["user"]) == (
            "ssh",
            "node1.example.com",
            2222,
            "root",
        )
        assert console["command"][2] == rig.instance.name
        assert console["command"][-1] == "UNIX-CONNECT:" + layout.Socket(rig.instance.name, layout.SERIAL)
        rig.Change(serial_console=False)
        assert rig.driver.Console(rig.instance, "n", 22).kind == "msg"
        vnc = rig.instance.Replace(
            hvparams={**rig.instance.hvparams, "vnc_bind_address": "0.0.0.0"}, network_port=11001
        )
        assert rig.driver.Console(vnc, "n", 22).ToDict() == {
            "instance": rig.instance.name,
            "kind": "vnc",
            "host": "n",
            "port": 11001,
            "display": 5101,
        }


def test_node_says_what_is_wrong_with_parameters(rig: KvmRig) -> None:
    with rig.first:
        rig.driver.ValidateParameters(rig.instance.hvparams)
        for changes, words in [
            ({"machine_version": "pc-i440fx-99"}, "Machine type 'pc-i440fx-99'"),
            ({"disk_type": "pflash"}, "disk_type pflash cannot be used"),
            ({"vnc_bind_address": "127.0.0.1", "spice_bind": "127.0.0.1"}, "exclude each other"),
            ({"vnc_bind_address": "nosuch0"}, "neither an address nor an interface"),
            ({"kernel_path": "/nowhere/vmlinuz"}, "/nowhere/vmlinuz' cannot be used on this node"),
            ({"kvm_path": "/nowhere/kvm"}, "/nowhere/kvm' cannot be used on this node"),
        ]:
            with pytest.raises(errors.HypervisorError, match=words):
                rig.driver.ValidateParameters({**rig.instance.hvparams, **changes})
        assert rig.driver.NodeInfo(rig.instance.hvparams)["hv_version"][0] >= 5


def test_console_wrapper_lets_a_paused_guest_go(rig: KvmRig, capfd: pytest.CaptureFixture[str]) -> None:
    from ganeti.tools import kvm_console_wrapper

    with rig.first:
        rig.Start(paused=True)
        kvm_console_wrapper.LetGo(rig.instance.name, layout.Socket(rig.instance.name, layout.QMP))
        assert "is paused, unpausing" in capfd.readouterr().err
        with rig.Console() as console:
            assert console.Ask().name == "unnamed"
        kvm_console_wrapper.LetGo(rig.instance.name, layout.Socket(rig.instance.name, layout.QMP))
        assert capfd.readouterr().err == ""
        kvm_console_wrapper.LetGo(rig.instance.name, "/nowhere")
