"""A migration's source in the wrong hands: what it sends must not choose what the target's QEMU does as root."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.virtual import MakeDisk, MakeInstance, MakeNic, MakeUuid

from ganeti import errors
from ganeti.hypervisor.base import GuestDisk
from ganeti.hypervisor.kvm import caps, cmdline, devices, incoming, runfile
from ganeti.params import hv

RECORDED = caps.Parse(json.loads((Path(__file__).parents[2] / "data" / "kvm" / "qemu-7.2.json").read_text()))
OTHERS = ("isapc", "pc-i440fx-4.2")
CAPS = dataclasses.replace(RECORDED, machines={**RECORDED.machines, **dict(zip(OTHERS, OTHERS, strict=True))})
HVP = {**hv.DEFAULTS["kvm"], "kernel_path": "", "vhost_net": False}
DISKS = [MakeDisk("plain", ["vg", f"lv{index}"], index=index) for index in range(2)]
INSTANCE = MakeInstance(hypervisor="kvm", hvparams=HVP, nics=[MakeNic()], disks=DISKS)
ENTRIES = [GuestDisk(disk, f"/links/guest:{index}") for index, disk in enumerate(DISKS)]

Sent = list[Any]


def Honest() -> Sent:
    """What a source sends that was not touched, with its own paths."""
    command = cmdline.BuildSaved(INSTANCE, CAPS, "tcg")
    places = devices.Places(HVP, cmdline.FindOption(command, "-machine") or "")
    nics = tuple(devices.PlaceNic(nic, HVP, places) for nic in INSTANCE.nics)
    disks = tuple(GuestDisk(devices.PlaceDisk(disk, HVP, places), "/source", None) for disk in DISKS)
    sent: Sent = json.loads(runfile.RunFile(tuple(command), nics, HVP, disks).Text())
    return sent


def Build(sent: Sent) -> runfile.RunFile:
    return incoming.Build(INSTANCE, json.dumps(sent), CAPS, ENTRIES)


def test_an_honest_source_is_followed() -> None:
    content = Build(Honest())
    assert list(content.command) == cmdline.BuildSaved(INSTANCE, CAPS, "tcg")
    assert [entry.path for entry in content.disks] == ["/links/guest:0", "/links/guest:1"]
    assert [entry.disk.hvinfo["addr"] for entry in content.disks if entry.disk.hvinfo] == ["0xd", "0xe"]


EVIL = "x,readonly=off,file.filename=/etc/shadow"


def OtherWords(sent: Sent) -> None:
    sent[0] = ["/tmp/evil", "-sandbox", "off", *sent[0][1:], "-drive", "file=/etc/shadow", "-device", "vfio-pci,host=1"]


def OtherParameters(sent: Sent) -> None:
    sent[2] = {**sent[2], "kvm_extra": "-hda /dev/sda", "kvm_path": "/tmp/evil", "security_model": "none"}


def OtherPaths(sent: Sent) -> None:
    for row in sent[3]:
        row[0] |= {"logical_id": ["vg", "other"], "mode": "rw", "dev_type": "blockdev"}
        row[1:] = ["/dev/sda", "gluster://h:1/v/p"]


def OtherNic(sent: Sent) -> None:
    sent[1][0] |= {"mac": "aa:00:00:99:99:99", "nicparams": {"mode": "routed", "link": "100"}, "ip": "192.0.2.1"}


@pytest.mark.parametrize("change", [OtherWords, OtherParameters, OtherPaths, OtherNic])
def test_what_it_adds_is_not_looked_at(change: Callable[[Sent], None]) -> None:
    sent = Honest()
    change(sent)
    assert Build(sent) == Build(Honest())


def Disk(**values: Any) -> Callable[[Sent], None]:
    return lambda sent: sent[3][0][0]["hvinfo"].update(values)


def Nic(**values: Any) -> Callable[[Sent], None]:
    return lambda sent: sent[1][0]["hvinfo"].update(values)


def Machine(text: str) -> Callable[[Sent], None]:
    def change(sent: Sent) -> None:
        sent[0][sent[0].index("-machine") + 1] = text

    return change


def Named(kind: int, uuid: str) -> Callable[[Sent], None]:
    def change(sent: Sent) -> None:
        device = sent[kind][0] if kind == 1 else sent[kind][0][0]
        device["uuid"] = uuid
        device["hvinfo"]["id"] = devices.DeviceId("nic" if kind == 1 else "disk", uuid)

    return change


def Twice(sent: Sent) -> None:
    sent[3].append(copy.deepcopy(sent[3][0]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        # Commands for the whole of the target's disk, past the boundaries of the guest's volume.
        (Disk(driver="scsi-generic"), "disk_type: 'scsi-generic' -> 'virtio-blk-pci'"),
        (Disk(driver="scsi-block", bus="scsi.0"), "disk_type: 'scsi-block' -> 'virtio-blk-pci'"),
        (Nic(driver="pcnet"), "nic_type: 'pcnet' -> 'virtio-net-pci'"),
        # Known to this QEMU, and not what the administrator chose.
        (Machine("isapc,accel=tcg"), "machine_version: 'isapc' -> 'i440fx'"),
        (Machine("pc-q35-7.2,accel=tcg"), "machine_version: 'q35' -> 'i440fx'"),
        (Machine("none,accel=tcg"), "machine_version: 'none' -> 'i440fx'"),
        (Machine("microvm-evil,accel=tcg"), "machine type 'microvm-evil'"),
        (Machine(f"pc-i440fx-7.2,accel={EVIL}"), "not valid"),
        (Machine("pc-i440fx-7.2,accel=kvm\n-drive"), "not valid"),
        (Machine("pc-i440fx-7.2"), "not valid"),
        # Values that would become further keys, or other devices.
        (Disk(driver="vfio-pci"), "not valid"),
        (Disk(driver=EVIL), "not valid"),
        (Disk(id=EVIL), "not valid"),
        (Disk(bus=EVIL), "not valid"),
        (Disk(bus=["pci.0"]), "not valid"),
        (Disk(addr=EVIL), "not valid"),
        (Disk(addr="0xc\n"), "not valid"),
        (Disk(addr="0x20"), "not valid"),
        (Disk(addr=12), "not valid"),
        (Disk(lun="0,drive=x"), "not valid"),
        (Disk(lun=True), "not valid"),
        (Disk(drive="other"), "not valid"),
        (Disk(**{"rombar=0,romfile": "/etc/shadow"}), "not valid"),
        (Disk(**{"x-pci-host": "0000:00:01.0"}), "not valid"),
        (Nic(romfile="/etc/shadow"), "not valid"),
        (Nic(netdev="nic-of-another"), "not valid"),
        (Named(3, MakeUuid("another guest's")), "disks that the configuration does not know"),
        (Named(3, EVIL), "disks that the configuration does not know"),
        (Named(1, MakeUuid("another guest's")), "NICs that the configuration does not know"),
        (Twice, "twice"),
    ],
)
def test_what_it_must_not_choose_is_rejected(change: Callable[[Sent], None], words: str) -> None:
    sent = Honest()
    change(sent)
    with pytest.raises(errors.HypervisorError) as found:
        Build(sent)
    assert words in str(found.value)


@pytest.mark.parametrize(
    "text", [None, "", "null", "[]", "5", '"x"', "[[],[],{},[]]", "[" * 100000, '[["kvm"],[],{},{}]', "1e999"]
)
def test_nonsense_is_rejected_in_words(text: str | None) -> None:
    with pytest.raises(errors.HypervisorError, match="not valid"):
        incoming.Build(INSTANCE, text, CAPS, ENTRIES)


def test_older_versions_of_the_same_machine_are_followed() -> None:
    sent = Honest()
    Machine("pc-i440fx-4.2,accel=tcg")(sent)
    command = Build(sent).command
    assert cmdline.FindOption(command, "-machine") == "pc-i440fx-4.2,accel=tcg"


def test_the_source_itself_says_first_what_the_target_would_reject() -> None:
    content = runfile.Parse(json.dumps(Honest()), "it")
    incoming.CheckUnchanged(INSTANCE, content, CAPS)
    changed = INSTANCE.Replace(hvparams={**HVP, "disk_type": "ide"})
    with pytest.raises(errors.HypervisorError, match=r"disk_type: 'virtio-blk-pci' -> 'ide-hd'.*reboot -t full guest"):
        incoming.CheckUnchanged(changed, content, CAPS)
