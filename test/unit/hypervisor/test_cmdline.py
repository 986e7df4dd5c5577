"""The command line of a guest: what parameters become, checked word by word; capabilities from recorded answers."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.virtual import MakeDisk, MakeInstance, MakeNic

from ganeti import errors, objects
from ganeti.hypervisor.base import GuestDisk
from ganeti.hypervisor.kvm import caps, cmdline, devices, display, layout, probe, runfile, screen, tuning
from ganeti.hypervisor.kvm.options import Opt
from ganeti.params import hv

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "kvm" / "qemu-7.2.json").read_text())
CAPS = caps.Parse(RECORDED)
MODERN = caps.Capabilities(
    (10, 0, 0), "pc-i440fx-10.0", {"pc": "pc-i440fx-10.0"}, {"run-with": ["chroot", "user"]}, frozenset(["query-spice"])
)


def Hvp(**changes: Any) -> dict[str, Any]:
    return {**hv.DEFAULTS["kvm"], "kernel_path": "", "vhost_net": False, **changes}


def Saved(**changes: Any) -> list[str]:
    return cmdline.BuildSaved(MakeInstance(hypervisor="kvm", hvparams=Hvp(**changes)), CAPS, "kvm")


def Local(**changes: Any) -> list[str]:
    facts = cmdline.LocalFacts("/p/pid", "/p/qmp", "/p/look", "/p/log", "/p/serial", "/p/agent")
    return cmdline.BuildLocal(Hvp(**changes), CAPS, facts)


def Pairs(argv: list[str]) -> list[str]:
    return [f"{one} {two}" for one, two in itertools.pairwise(argv) if one.startswith("-")]


# --- capabilities -----------------------------------------------------------------------------------------------------


def test_recorded_qemu_is_understood() -> None:
    assert CAPS.version == (7, 2, 22)
    assert CAPS.Machine("") == "pc-i440fx-7.2"
    assert CAPS.Machine("q35") == "pc-q35-7.2", "an alias becomes the name that keeps its meaning"
    assert CAPS.Machine("pc,usb=on") == "pc-i440fx-7.2,usb=on"
    assert CAPS.HasOption("vnc", "password") and not CAPS.HasOption("run-with")
    assert not CAPS.has_spice and MODERN.has_spice
    assert caps.Capabilities.FromDict(CAPS.ToDict()) == CAPS
    with pytest.raises(errors.HypervisorError, match=r"Machine type 'pc-i440fx-99' .* it has, for example: "):
        CAPS.Machine("pc-i440fx-99")


@pytest.mark.parametrize("missing", list(caps.QUERIES))
def test_unknown_answers_are_an_error_in_words(missing: str) -> None:
    for damaged in ({**RECORDED, missing: None}, {key: RECORDED[key] for key in RECORDED if key != missing}):
        with pytest.raises(errors.HypervisorError, match="described itself in an unknown way"):
            caps.Parse(damaged)


def test_boot_sector_is_one() -> None:
    sector = probe.BootSector()
    assert len(sector) == 512 and sector[-2:] == b"\x55\xaa"
    # The far jump leads to the 64-bit code, behind itself.
    assert sector[0x57:0x5C].hex() == "ea5c7c0800" and sector[0x5C] == 0xB9


# --- the saved part ---------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-PAR-15")
def test_plain_guest() -> None:
    assert Saved() == [
        *("/usr/bin/kvm", "-name", "guest.example.com", "-uuid", MakeInstance().uuid),
        *("-m", "128", "-smp", "1", "-machine", "pc-i440fx-7.2,accel=kvm"),
        *("-device", "virtio-balloon,id=balloon", "-serial", "chardev:serial0"),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"acpi": False}, "-machine pc-i440fx-7.2,accel=kvm,acpi=off"),
        ({"machine_version": "q35"}, "-machine pc-q35-7.2,accel=kvm"),
        ({"cpu_type": "Nehalem,+aes"}, "-cpu Nehalem,+aes"),
        ({"cpu_cores": 2, "cpu_threads": 1, "cpu_sockets": 4}, "-smp 1,cores=2,threads=1,sockets=4"),
        (
            {
                "kernel_path": "/boot/vmlinuz",
                "initrd_path": "/boot/initrd",
                "kernel_args": "ro x=1",
                "serial_speed": 9600,
            },
            "-append root=/dev/vda1 ro x=1 console=ttyS0,9600",
        ),
        ({"kernel_path": "/boot/vmlinuz", "serial_console": False}, "-append root=/dev/vda1 ro"),
        ({"kernel_path": "/boot/vmlinuz"}, "-kernel /boot/vmlinuz"),
        ({"mem_path": "/hugepages"}, "-mem-path /hugepages"),
        ({"use_localtime": True}, "-rtc base=localtime"),
        ({"vga": "cirrus"}, "-vga cirrus"),
        ({"spice_bind": "127.0.0.1"}, "-vga qxl"),
        ({"spice_bind": "127.0.0.1"}, "-device virtserialport,chardev=spicechannel0,name=com.redhat.spice.0"),
        ({"use_guest_agent": True}, "-device virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
        ({"vnc_bind_address": "127.0.0.1"}, "-device usb-tablet"),
        ({"usb_mouse": "mouse"}, "-device usb-mouse"),
        ({"usb_devices": "braille, wacom-tablet"}, "-usbdevice wacom-tablet"),
        ({"soundhw": "ac97"}, "-audio driver=none,model=ac97"),
        ({"disk_type": "scsi-hd", "scsi_controller_type": "virtio-scsi-pci"}, "-device virtio-scsi-pci,id=scsi"),
        ({"serial_console": False}, "-serial none"),
        ({"kvm_extra": "-smbios 'type=1,product=My Box'"}, "-smbios type=1,product=My Box"),
    ],
)
def test_parameters_become_options(changes: dict[str, Any], words: str) -> None:
    assert words in Pairs(Saved(**changes))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"reboot_behavior": "exit"}, "-no-reboot"),
        ({"user_shutdown": True}, "-no-shutdown"),
        ({"mem_path": "/x"}, "-mem-prealloc"),
    ],
)
def test_flags(changes: dict[str, Any], word: str) -> None:
    assert word in Saved(**changes) and word not in Saved()


def test_extra_words_that_cannot_be_split_are_an_error() -> None:
    with pytest.raises(errors.HypervisorError, match="kvm_extra cannot be split"):
        Saved(kvm_extra="-x 'open")


def test_saved_part_names_nothing_of_this_node() -> None:
    """It travels with a migration: another node has other directories."""
    argv = Saved(use_guest_agent=True, spice_bind="127.0.0.1", use_chroot=True, vnc_password_file="/etc/secret")
    assert not any("/p/" in word or "/var" in word or "secret" in word for word in argv)


# --- the local part ---------------------------------------------------------------------------------------------------


def test_local_part() -> None:
    assert Local(use_guest_agent=True) == [
        *("-daemonize", "-pidfile", "/p/pid", "-D", "/p/log", "-monitor", "none", "-S"),
        *("-chardev", "socket,id=qmp,path=/p/qmp,server=on,wait=off", "-mon", "chardev=qmp,mode=control"),
        *("-chardev", "socket,id=look,path=/p/look,server=on,wait=off", "-mon", "chardev=look,mode=control"),
        *("-chardev", "socket,id=serial0,path=/p/serial,server=on,wait=off"),
        *("-chardev", "socket,id=agent,path=/p/agent,server=on,wait=off"),
        *("-display", "none"),
    ]
    facts = cmdline.LocalFacts("/p/pid", "/p/qmp", "/p/look", "/p/log", incoming="defer")
    argv = cmdline.BuildLocal(Hvp(keymap="de"), CAPS, facts)
    assert "-S" not in argv, "a guest that arrives runs on"
    assert argv[-4:] == ["-k", "de", "-incoming", "defer"]


@pytest.mark.req("D22-KVM-01", "D22-KVM-04", "D22-KVM-09")
def test_confinement_in_both_ways_of_saying_it() -> None:
    assert cmdline.BuildConfinement(CAPS, "nobody", "/empty") == ["-chroot", "/empty", "-runas", "nobody"]
    assert cmdline.BuildConfinement(MODERN, "nobody", "/empty") == ["-run-with", "chroot=/empty,user=nobody"]
    assert cmdline.BuildConfinement(MODERN, None, None) == []


def Screen(port: int | None = 11000, known: caps.Capabilities = MODERN, **changes: Any) -> list[str]:
    instance = MakeInstance(hypervisor="kvm", hvparams=Hvp(**changes), network_port=port)
    return cmdline.BuildScreen(instance, known, screen.Resolve(instance.hvparams))


@pytest.mark.parametrize(
    ("changes", "argv"),
    [
        ({"vnc_bind_address": "127.0.0.1"}, ["-vnc", "127.0.0.1:5100"]),
        ({"vnc_bind_address": "0.0.0.0"}, ["-vnc", ":5100"]),
        ({"vnc_bind_address": "::1"}, ["-vnc", "[::1]:5100"]),
        ({"vnc_bind_address": "/run/vnc"}, ["-vnc", "unix:/run/vnc/guest.example.com.vnc"]),
        (
            {"vnc_bind_address": "127.0.0.1", "vnc_tls": True, "vnc_password_file": "/pw"},
            [
                *("-object", "tls-creds-anon,id=vnctls0,endpoint=server"),
                *("-vnc", "127.0.0.1:5100,tls-creds=vnctls0,password=on"),
            ],
        ),
        (
            {"vnc_bind_address": "127.0.0.1", "vnc_tls": True, "vnc_x509_path": "/x509", "vnc_x509_verify": True},
            [
                *("-object", "tls-creds-x509,id=vnctls0,dir=/x509,endpoint=server,verify-peer=on"),
                *("-vnc", "127.0.0.1:5100,tls-creds=vnctls0"),
            ],
        ),
        (
            {"spice_bind": "127.0.0.1"},
            ["-spice", "addr=127.0.0.1,port=11000,disable-ticketing=on", "-display", "none"],
        ),
        (
            {
                "spice_bind": "127.0.0.1",
                "spice_password_file": "/pw",
                "spice_image_compression": "glz",
                "spice_playback_compression": False,
                "spice_use_vdagent": False,
            },
            [
                "-spice",
                "addr=127.0.0.1,port=11000,image-compression=glz,playback-compression=off,agent-mouse=off",
                *("-display", "none"),
            ],
        ),
        ({}, []),
    ],
)
def test_screens(changes: dict[str, Any], argv: list[str]) -> None:
    assert Screen(**changes) == argv


def test_screen_with_tls_names_the_cluster_s_certificate() -> None:
    [_, spice, *_] = Screen(spice_bind="127.0.0.1", spice_use_tls=True)
    assert "tls-port=11000" in spice and "x509-key-file=" in spice and ",port=" not in spice


def test_screen_that_cannot_be() -> None:
    assert Screen(5900, vnc_bind_address="127.0.0.1") == ["-display", "none"]
    with pytest.raises(errors.HypervisorError, match="has no SPICE"):
        Screen(known=CAPS, spice_bind="127.0.0.1")
    with pytest.raises(errors.HypervisorError, match="neither an address nor an interface"):
        Screen(vnc_bind_address="nosuch0")


ADDRESSES = """[{"ifname":"eth0","addr_info":[{"family":"inet6","local":"fe80::1"},
{"family":"inet6","local":"2001:db8::7"},{"family":"inet","local":"192.0.2.7"}]}]"""


@pytest.mark.parametrize(("family", "wanted"), [(0, "192.0.2.7"), (4, "192.0.2.7"), (6, "2001:db8::7")])
def test_interface_stands_for_an_address(family: int, wanted: str) -> None:
    found = display.PickAddress("eth0", screen.ParseAddresses(ADDRESSES), family)
    assert found.text == wanted and found.from_interface


def test_interface_without_address() -> None:
    with pytest.raises(errors.HypervisorError, match="has no IPv6 address"):
        display.PickAddress("eth0", ["192.0.2.7"], 6)
    for text in ("", "x", "{}", "[3]", '[{"addr_info": 3}]'):
        try:
            assert screen.ParseAddresses(text) == []
        except errors.HypervisorError as err:
            assert "not understood" in str(err)


# --- disks and NICs ---------------------------------------------------------------------------------------------------


def Disk(template: str = "plain", index: int = 0, **more: Any) -> objects.Disk:
    return MakeDisk(template, ["vg", f"lv{index}"], index=index, **more)


def Place(disk: objects.Disk, **changes: Any) -> objects.Disk:
    return devices.PlaceDisk(disk, Hvp(**changes), devices.Places(Hvp(**changes), "pc-i440fx-7.2"))


def test_disk_as_options() -> None:
    disk = Place(Disk())
    ident = "disk-" + "-".join(disk.uuid.split("-")[:3])
    assert devices.BuildDisk(GuestDisk(disk, "/links/guest:0"), True, Hvp(), 1) == [
        "-blockdev",
        f"driver=raw,node-name={ident},read-only=off,discard=ignore,cache.direct=off,cache.no-flush=off,"
        "file.driver=host_device,file.filename=/links/guest:0,file.aio=threads,file.discard=ignore,"
        "file.cache.direct=off,file.cache.no-flush=off",
        "-device",
        f"virtio-blk-pci,id={ident},bus=pci.0,addr=0xc,drive={ident},write-cache=on,bootindex=1",
    ]


@pytest.mark.req("D20-VAR-02")
def test_read_only_disk() -> None:
    disk = Place(Disk(mode="ro"))
    assert devices.BlockNode(GuestDisk(disk, "/x"), True, Hvp())["read-only"] is True
    assert devices.BlockNode(GuestDisk(Place(Disk(mode="rw")), "/x"), True, Hvp())["read-only"] is False
    with pytest.raises(errors.HypervisorError, match="IDE disks cannot be read-only"):
        devices.DiskDevice(Place(Disk(mode="ro"), disk_type="ide"), Hvp(disk_type="ide"))


@pytest.mark.parametrize(
    ("template", "wanted", "cache", "write_cache"),
    [
        ("plain", "default", {"direct": False, "no-flush": False}, "on"),
        ("plain", "none", {"direct": True, "no-flush": False}, "on"),
        ("plain", "writethrough", {"direct": False, "no-flush": False}, "off"),
        ("sharedfile", "writeback", {"direct": True, "no-flush": False}, "on"),
        ("blockdev", "writethrough", {"direct": True, "no-flush": False}, "on"),
        ("rbd", "writeback", {"direct": False, "no-flush": False}, "on"),
    ],
)
def test_shared_storage_is_never_cached_on_a_node(
    template: str, wanted: str, cache: Mapping[str, bool], write_cache: str
) -> None:
    disk, hvp = Place(Disk(template)), Hvp(disk_cache=wanted)
    assert devices.BlockNode(GuestDisk(disk, "/x"), True, hvp)["cache"] == cache
    assert devices.DiskDevice(disk, hvp)["write-cache"] == write_cache


def test_storage_that_only_qemu_reaches() -> None:
    assert devices.UriNode("rbd:pool/vol") == {"driver": "rbd", "pool": "pool", "image": "vol"}
    server = {"type": "inet", "host": "::1", "port": "24007"}
    node = devices.UriNode("gluster://[::1]:24007/gv0/a/b")
    assert node == {"driver": "gluster", "volume": "gv0", "path": "a/b", "server": [server]}
    assert devices.Flatten(node)["server.0.host"] == "::1"
    with_user = {"driver": "rbd", "pool": "p", "image": "v", "user": "admin", "conf": "/etc/ceph/b.conf"}
    assert devices.UriNode("rbd:p/v:id=admin:conf=/etc/ceph/b.conf") == with_user
    inet = {"type": "inet", "host": "192.0.2.1", "port": "10809"}
    assert devices.UriNode("nbd://192.0.2.1/one") == {"driver": "nbd", "server": inet, "export": "one"}
    unix = {"type": "unix", "path": "/run/san/one"}
    assert devices.UriNode("nbd+unix:///one?socket=/run/san/one") == {"driver": "nbd", "server": unix, "export": "one"}
    assert devices.UriNode("iscsi://[2001:db8::1]/iqn.2001-04.com.example:one/3") == {
        "driver": "iscsi", "transport": "tcp", "portal": "[2001:db8::1]:3260", "target": "iqn.2001-04.com.example:one",
        "lun": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    "uri",
    [
        "http://x/y", "rbd:", "rbd:pool", "rbd:p/v:password=x", "gluster://h/v/p", "gluster://h:1/v", "gluster://h:x/v/p",
        "gluster://[::1/v/p", "nbd:///one", "nbd+unix:///one", "iscsi://h/target", "iscsi://h/target/x", "",
    ],
)  # fmt: skip
def test_uris_that_qemu_has_no_client_for(uri: str) -> None:
    with pytest.raises(errors.HypervisorError, match=r"no client for; use access=kernelspace"):
        devices.UriNode(uri)


@pytest.mark.lab
def test_qemu_opens_a_disk_by_its_uri(tmp_path: Path) -> None:
    """The real one, a disk that only the URI leads to: what a provider prints ends in QEMU's own client."""
    image, socket = tmp_path / "image", tmp_path / "socket"
    image.write_bytes(b"\0" * (8 << 20))
    pid = tmp_path / "pid"
    subprocess.run(
        ["qemu-storage-daemon", "--daemonize", "--pidfile", pid, "--blockdev", f"file,node-name=one,filename={image}",
         "--nbd-server", f"addr.type=unix,addr.path={socket}", "--export", "nbd,id=one,node-name=one,writable=on,name=one"],
        check=True,
    )  # fmt: skip
    try:
        guest_disk = GuestDisk(Place(Disk("ext")), "", f"nbd+unix:///one?socket={socket}")
        [option, node, *_] = devices.BuildDisk(guest_disk, False, Hvp())
        asked = b'{"execute":"qmp_capabilities"}{"execute":"query-named-block-nodes"}{"execute":"quit"}'
        done = subprocess.run(
            ["qemu-system-x86_64", "-machine", "none", "-nodefaults", "-display", "none", "-qmp", "stdio", option, node],
            input=asked, capture_output=True, timeout=120, check=True,
        )  # fmt: skip
    finally:
        os.kill(int(pid.read_text()), signal.SIGTERM)
    found = json.loads(done.stdout.splitlines()[2])["return"]
    (top,) = [each for each in found if each.get("node-name", "").startswith("disk-")]
    assert top["image"]["virtual-size"] == 8 << 20 and top["drv"] == "raw" and not top["ro"]


def test_every_device_has_its_own_place() -> None:
    hvp = Hvp()
    places = devices.Places(hvp, "pc")
    disks = [devices.PlaceDisk(Disk(index=index), hvp, places) for index in range(12)]
    nics = [devices.PlaceNic(MakeNic(index), hvp, places) for index in range(8)]
    slots = [device.hvinfo["addr"] for device in [*disks, *nics] if device.hvinfo]
    assert slots == [hex(slot) for slot in range(12, 32)]
    with pytest.raises(errors.HypervisorError, match="All 20 PCI slots"):
        devices.PlaceNic(MakeNic(9), hvp, places)
    again = devices.Places(hvp, "pc", [disk.hvinfo for disk in disks[1:]])
    assert devices.PlaceDisk(Disk(index=40), hvp, again).hvinfo["addr"] == "0xc", "the free one is found"
    assert devices.PlaceDisk(disks[3], hvp, again) is disks[3], "a place is kept"


def test_scsi_targets() -> None:
    hvp = Hvp(disk_type="scsi-hd")
    places = devices.Places(hvp, "pc")
    placed = [devices.PlaceDisk(Disk(index=index), hvp, places).hvinfo for index in range(7)]
    assert [info["scsi-id"] for info in placed if info] == list(range(7))
    with pytest.raises(errors.HypervisorError, match="All SCSI targets"):
        devices.PlaceDisk(Disk(index=8), hvp, places)
    with pytest.raises(errors.HypervisorError, match="disk_type pflash cannot be used"):
        Place(Disk(), disk_type="pflash")


def test_other_machines_have_another_bus() -> None:
    info = devices.PlaceDisk(Disk(), Hvp(), devices.Places(Hvp(), "pc-q35-7.2,accel=kvm")).hvinfo
    assert info is not None and info["bus"] == "pcie.0"


def test_nic_as_options() -> None:
    nic = devices.PlaceNic(MakeNic(), Hvp(), devices.Places(Hvp(), "pc"))
    ident = "nic-" + "-".join(nic.uuid.split("-")[:3])
    assert devices.BuildNic(nic, [7], False) == [
        *("-netdev", f"tap,id={ident},fd=7"),
        *("-device", f"virtio-net-pci,id={ident},bus=pci.0,addr=0xc,netdev={ident},mac=aa:00:00:00:00:00"),
    ]
    assert devices.BuildNic(nic, [7, 8], True, 1) == [
        *("-netdev", f"tap,id={ident},fds=7:8,vhost=on"),
        "-device",
        f"virtio-net-pci,id={ident},bus=pci.0,addr=0xc,netdev={ident},mac=aa:00:00:00:00:00,mq=on,vectors=6,bootindex=1",
    ]


@pytest.mark.req("D20-CLI-15")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"cdrom_image_path": "/a.iso", "boot_order": "cdrom"},
            "-device ide-cd,id=cd0,drive=cdrom0,bootindex=1",
        ),
        (
            {"cdrom_image_path": "/a.iso", "boot_order": "cdrom"},
            "-blockdev driver=raw,node-name=cdrom0,read-only=on,file.driver=file,file.filename=/a.iso",
        ),
        ({"cdrom_image_path": "/a.iso"}, "-device virtio-blk-pci,id=cd0,drive=cdrom0"),
        ({"cdrom2_image_path": "/b.iso", "cdrom_disk_type": "ide"}, "-device ide-cd,id=cd1,drive=cdrom1"),
        (
            {"cdrom_image_path": "https://h/a,b.iso"},
            "-blockdev driver=raw,node-name=cdrom0,read-only=on,file.driver=https,file.url=https://h/a,,b.iso",
        ),
        ({"floppy_image_path": "/f", "boot_order": "floppy"}, "-device floppy,drive=floppy0,bootindex=1"),
    ],
)
def test_removable_media(changes: dict[str, Any], words: str) -> None:
    assert words in Pairs(devices.BuildRemovable(Hvp(**changes)))


@pytest.mark.req("D20-CLI-15")
def test_what_boots() -> None:
    assert devices.DiskBootIndex(0, Hvp()) == 1 and devices.DiskBootIndex(1, Hvp()) is None
    assert devices.DiskBootIndex(0, Hvp(kernel_path="/k")) is None
    assert devices.NicBootIndex(0, Hvp(boot_order="network")) == 1 and devices.NicBootIndex(0, Hvp()) is None


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_no_value_can_become_another_option(text: str) -> None:
    option = Opt("file", {"filename": text, "x": "y"})
    rest = option.removeprefix("file,filename=")
    end = 0
    while end < len(rest):  # QEMU's own rule: a single comma ends the value
        if rest[end] == ",":
            if rest[end : end + 2] != ",,":
                break
            end += 1
        end += 1
    assert rest[:end].replace(",,", ",") == text and rest[end:] == ",x=y"


# --- what is kept, what is found --------------------------------------------------------------------------------------


def RunFile(**changes: Any) -> runfile.RunFile:
    hvp = Hvp(**changes)
    places = devices.Places(hvp, "pc")
    disk = devices.PlaceDisk(Disk(), hvp, places)
    return runfile.RunFile(
        ("/usr/bin/kvm", "-m", "128"), (devices.PlaceNic(MakeNic(), hvp, places),), hvp, (GuestDisk(disk, "/l", None),)
    )


def test_runtime_file_comes_back_as_it_was() -> None:
    content = RunFile()
    assert runfile.Parse(content.Text(), "it") == content
    assert [type(part) for part in json.loads(content.Text())] == [list, list, dict, list]


def test_runtime_file_has_no_key_that_the_original_cannot_read() -> None:
    """It reads the file when it has got the cluster back; what a mirror's sides are worth is nothing that a guest was started with."""
    content = RunFile()
    (entry,) = content.disks
    disk = entry.disk.Replace(
        decision=3, behind={"node": "n", "since": 1.0}, children=(entry.disk.Replace(decision=2),)
    )
    text = dataclasses.replace(content, disks=(GuestDisk(disk, "/l", None),)).Text()
    assert "decision" not in text and "behind" not in text
    (read,) = runfile.Parse(text, "it").disks
    assert read.disk == entry.disk.Replace(children=(entry.disk,))


@pytest.mark.req("D21-VNC-05")
def test_today_s_outside_yesterday_s_inside() -> None:
    content = RunFile(nic_type="e1000", vnc_password_file="/old", security_model="none")
    effective = content.Effective(Hvp(nic_type="rtl8139", vnc_password_file="/new", security_model="pool", new_one=1))
    assert effective["nic_type"] == "e1000"
    assert effective["vnc_password_file"] == "/new" and effective["security_model"] == "pool"
    assert effective["new_one"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[[], [], {}, []]",
        '[["kvm"], [], []]',
        '[["kvm"], [{}], {}, []]',
        "[1, 2, 3, 4]",
        '[["kvm"], [], {}, [1]]',
    ],
)
def test_damaged_runtime_file_is_told(text: str) -> None:
    with pytest.raises(errors.HypervisorError, match="Runtime file X cannot be read"):
        runfile.Parse(text, "Runtime file X")


def test_process_is_recognised_by_name_and_pid_file() -> None:
    argv = layout.ParseArgv(
        b"/usr/bin/kvm\0-name\0guest.example.com,debug-threads=on\0-m\0size=512M\0-smp\x002,cores=1\0-pidfile\0/run/a\0"
    )
    process = layout.Process(4711, argv)
    assert (process.memory, process.vcpus) == (512, 2)
    assert layout.IsGuest(argv, "guest.example.com", "/run/a")
    assert not layout.IsGuest(argv, "guest.example.com", "/run/b"), "the same guest on another node of this machine"
    assert not layout.IsGuest(argv, "guest", "/run/a")
    assert not layout.IsGuest(("sleep", "5"), "guest", "/run/a")


def test_pinning() -> None:
    assert tuning.Plan(7, [8, 9], "all") == []
    assert tuning.Plan(7, [8, 9], "0-1,3") == [["taskset", "-a", "-c", "-p", "0,1,3", "7"]]
    assert tuning.Plan(7, [8, 9], "1:all") == [["taskset", "-c", "-p", "1", "8"]]
    with pytest.raises(errors.HypervisorError, match="names 2 processors, the guest has 1"):
        tuning.Plan(7, [8], "1:2")


def test_sockets_have_short_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from ganeti import pathutils

    monkeypatch.setattr(pathutils, "KVM_DIR", "/r" * 20)
    long_name = "x" * 63 + ".example.com"
    assert layout.Socket("short", "qmp") == "/r" * 20 + "/ctrl/short.qmp"
    path = layout.Socket(long_name, "serial")
    assert len(os.fsencode(path)) <= 107 and path != layout.Socket(long_name + "x", "serial")
    monkeypatch.setattr(pathutils, "KVM_DIR", "/r" * 60)
    with pytest.raises(errors.HypervisorError, match="107 are possible; use a shorter directory"):
        layout.Socket("short", "qmp")
