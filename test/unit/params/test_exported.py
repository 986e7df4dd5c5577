"""config.ini of an export: what the node writes the master reads, whatever stands in it."""

from __future__ import annotations

import configparser
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.virtual import MakeDisk, MakeInstance, MakeNic

from ganeti import constants, errors, objects
from ganeti.params import be, exported, hv, types
from ganeti.params.exported import ExportedDisk

# As release 3.1 writes it.
OF_3_1 = """[export]
version = 0
timestamp = 1700000000
source = 00000003-aaaa-4bbb-8ccc-000000000003
os = debian+minimal
compression = none

[instance]
name = web.example.org
maxmem = 512
minmem = 256
memory = 512
vcpus = 2
disk_template = drbd
hypervisor = kvm
tags = prod web:front
nic0_mac = aa:00:00:3f:12:c4
nic0_ip = None
nic0_network = None
nic0_name = None
nic0_mode = bridged
nic0_link = br0
nic0_vlan =\x20
nic_count = 1
disk0_ivname = disk/0
disk0_dump = 00000006-aaaa-4bbb-8ccc-000000000006
disk0_size = 10240
disk0_name = None
disk_count = 1

[hypervisor]
acpi = True
vnc_bind_address =\x20
kernel_args = ro
security_model = none
serial_speed = 38400
root_path = None
migration_port = 8102
made_up = 5

[backend]
maxmem = 512
minmem = 256
vcpus = 2
auto_balance = True
always_failover = False
spindle_use = 1

[os]
mirror = http://mirror.example.org/a=b
rate = 50%%

[os_private]
password = geheim#1
"""
# The first releases that exported had one memory, no names, and no sections for parameters.
OF_2_0 = """[export]
version = 0
timestamp = 1200000000
source = node1.example.org
os = debian
compression = none

[instance]
name = old.example.org
memory = 128
vcpus = 1
disk_template = plain
nic0_mac = aa:00:00:00:00:01
nic0_ip = None
nic0_bridge = br0
nic1_mac = aa:00:00:00:00:02
nic_count = 2
disk0_ivname = disk/0
disk0_dump = d0.snap
disk0_size = 1024
disk1_ivname = disk/1
disk1_dump = d1.snap
disk1_size = 2048
disk_count = 2
"""


def _Without(text: str, *beginnings: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(beginnings))


# --- instances ----------------------------------------------------------------------------------------------------------

# Nothing else can be stored (serializer).
_ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10) | st.text(
    "ab=:#;%[] \t\n\r\\", max_size=10
)
_MAYBE = st.none() | _ANY
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    types.BOOL: st.booleans(),
    types.INT: st.integers(-5, 1 << 40),
    types.SIZE: st.integers(0, 1 << 40).map(lambda size: 4 * size),  # others are rounded up wherever they come from
    types.STRING: _ANY,
    types.MAYBE_STRING: _MAYBE,
}


def _Values(table: types.Table) -> st.SearchStrategy[dict[str, Any]]:
    one = st.sampled_from(sorted(table)).flatmap(lambda name: st.tuples(st.just(name), _BY_TYPE[table[name].type]))
    return st.lists(one, max_size=6).map(dict)


_HYPERVISORS = {name: _Values(table) for name, table in hv.TABLES.items()}
_BACKEND = _Values(be.TABLE)
_OS = st.dictionaries(_ANY, _ANY, max_size=3)
_TAGS = st.sets(st.text("abc:/+", min_size=1, max_size=5), max_size=3).map(sorted)
_NICS = st.lists(st.tuples(_ANY, _ANY, _MAYBE, _MAYBE, _MAYBE), max_size=3)
_DISKS = st.lists(st.tuples(st.integers(0, 1 << 40), _MAYBE, st.booleans()), max_size=3)


@st.composite
def _Instances(draw: Any) -> tuple[objects.Instance, list[objects.Disk | None]]:
    """Instances as a node gets them to export, and the disks that were."""
    hypervisor = draw(st.sampled_from(sorted(_HYPERVISORS)))
    disks, copies = [], []
    for index, (size, name, kept) in enumerate(draw(_DISKS)):
        disks.append(MakeDisk("plain", ["vg", f"disk{index}"], size, index=index, name=name))
        copies.append(disks[-1] if kept else None)
    nics = [
        MakeNic(index, mode, link, ip=ip, network=network, name=name)
        for index, (mode, link, ip, network, name) in enumerate(draw(_NICS))
    ]
    instance = MakeInstance(
        name=draw(st.sampled_from(["web", "None", "web.example.org"])),
        hypervisor=hypervisor,
        hvparams=draw(_HYPERVISORS[hypervisor]),
        beparams=draw(_BACKEND),
        nics=nics,
        disks=disks,
        os=draw(_ANY),
        tags=draw(_TAGS),
        osparams=draw(_OS),
        osparams_private=draw(_OS),
    )
    return instance, copies


@given(_Instances(), st.integers(0, 1 << 33))
def test_what_the_node_writes_the_master_reads(
    exporting: tuple[objects.Instance, list[objects.Disk | None]], timestamp: int
) -> None:
    instance, copies = exporting
    text = exported.Compose(instance, copies, timestamp)
    read = exported.Parse(text)
    own = instance.disks_info or ()
    assert read == exported.Export(
        timestamp=timestamp,
        os=instance.os,
        name=instance.name,
        disk_template="plain" if own else "diskless",
        hypervisor=instance.hypervisor,
        tags=tuple(instance.tags),
        disks=tuple(
            ExportedDisk(disk.size, disk.name, None if copy is None else copy.uuid)
            for disk, copy in zip(own, copies, strict=True)
        ),
        nics=tuple(
            {"mac": nic.mac, "ip": nic.ip, "network": nic.network, "name": nic.name, **nic.nicparams}
            for nic in instance.nics
        ),
        hvparams={
            name: None if value is None else str(value)
            for name, value in instance.hvparams.items()
            if name not in hv.GLOBALS
        },
        beparams={name: str(value) for name, value in instance.beparams.items()},
        osparams=dict(instance.osparams),
        osparams_private=dict(instance.osparams_private),
    )
    assert read.HvValues(instance.hypervisor) == {k: v for k, v in instance.hvparams.items() if k not in hv.GLOBALS}
    assert read.BeValues() == instance.beparams
    assert read.Unknown() == []


@pytest.mark.req("D20-VAR-01", "D20-VAR-04")
def test_as_many_disks_and_nics_as_an_instance_can_have() -> None:
    disks = [
        MakeDisk("plain", ["vg", f"disk{index}"], 100 + index, index=index) for index in range(constants.MAX_DISKS)
    ]
    nics = [MakeNic(index, link=f"br{index}") for index in range(constants.MAX_NICS)]
    read = exported.Parse(exported.Compose(MakeInstance(nics=nics, disks=disks), disks, 1))
    assert [(disk.size, disk.dump) for disk in read.disks] == [(disk.size, disk.uuid) for disk in disks]
    assert [(nic["mac"], nic["link"]) for nic in read.nics] == [(nic.mac, nic.nicparams["link"]) for nic in nics]


def test_a_disk_that_was_not_exported_is_counted_and_has_no_dump() -> None:
    disks = [MakeDisk("plain", ["vg", f"disk{index}"], 8, index=index) for index in range(3)]
    text = exported.Compose(MakeInstance(disks=disks), [disks[0], None, disks[2]], 1)
    assert [disk.dump is None for disk in exported.Parse(text).disks] == [False, True, False]
    # An older importer looks whether there is such a key, not what it says.
    assert "disk1_size = 8" in text and "disk1_dump" not in text and "disk_count = 3" in text


def test_other_releases_find_what_they_look_for() -> None:
    disk = MakeDisk("plain", ["vg", "d"], 8)
    guest = MakeInstance(nics=[MakeNic()], disks=[disk], hypervisor="kvm", hvparams={"acpi": True, "migration_port": 8102},
                         osparams={"size": "50%"}, osparams_private={"key": "k"})  # fmt: skip
    parser = configparser.ConfigParser()
    parser.read_string(exported.Compose(guest, [disk], 7))
    own = {"version": "0", "timestamp": "7", "source": guest.primary_node, "compression": "none"}
    assert own.items() <= dict(parser["export"]).items()
    assert parser["instance"]["memory"] == parser["instance"]["maxmem"] == "128"
    assert parser["instance"]["minmem"] == "64" and parser["instance"]["disk0_dump"] == disk.uuid
    assert parser["instance"]["nic0_ip"] == "None"
    assert dict(parser["hypervisor"]) == {"acpi": "True"}  # the port is the cluster's
    assert parser["os"]["size"] == "50%" and parser["os_private"]["key"] == "k"


@pytest.mark.parametrize(
    ("text", "none"),
    [
        ("This node has no directory of exports (/srv/ganeti/export): the first export to it makes one", True),
        ("There is no export web.example.org in /srv/ganeti/export", True),
        ("Removing export web.example.org failed: /srv/ganeti/export/web.example.org: Input/output error", False),
        ("", False),
        (None, False),
    ],
)
def test_what_a_node_says_that_has_none(text: str | None, none: bool) -> None:
    assert exported.SaysThereIsNone(text) == none


def test_an_export_of_3_1() -> None:
    read = exported.Parse(OF_3_1)
    assert (read.name, read.os, read.hypervisor, read.disk_template) == (
        "web.example.org",
        "debian+minimal",
        "kvm",
        "drbd",
    )
    assert read.tags == ("prod", "web:front") and read.timestamp == 1700000000
    assert read.disks == ((10240, None, "00000006-aaaa-4bbb-8ccc-000000000006"),)
    [nic] = read.nics
    assert nic == {"mac": "aa:00:00:3f:12:c4", "ip": None, "network": None, "name": None, "mode": "bridged", "link": "br0",
                   "vlan": ""}  # fmt: skip
    assert read.osparams == {"mirror": "http://mirror.example.org/a=b", "rate": "50%"}
    assert read.osparams_private == {"password": "geheim#1"} and "geheim" not in repr(read)
    assert read.HvValues("kvm") == {
        "acpi": True, "vnc_bind_address": "", "kernel_args": "ro", "security_model": "none", "serial_speed": 38400,
        "root_path": None,
    }  # fmt: skip
    assert read.HvValues("fake") == {} and read.HvValues("no such") == {}
    assert read.BeValues() == {
        "maxmem": 512, "minmem": 256, "vcpus": 2, "auto_balance": True, "always_failover": False, "spindle_use": 1
    }  # fmt: skip
    assert read.Unknown() == ["made_up"]


def test_an_export_of_2_0() -> None:
    read = exported.Parse(OF_2_0)
    assert read.BeValues() == {"minmem": 128, "maxmem": 128, "vcpus": 1}
    assert read.disks == ((1024, None, "d0.snap"), (2048, None, "d1.snap"))
    assert [nic["mac"] for nic in read.nics] == ["aa:00:00:00:00:01", "aa:00:00:00:00:02"]
    assert read.nics[1] == {**dict.fromkeys(exported.NIC_KEYS), "mac": "aa:00:00:00:00:02"}
    assert (read.hypervisor, read.hvparams, read.osparams) == (None, {}, {})


def test_memory_stands_for_both_limits_where_they_are_missing() -> None:
    text = _Without(OF_3_1, "maxmem", "minmem").replace("[backend]", "[backend]\nmemory = 300")
    assert {"minmem": 300, "maxmem": 300}.items() <= exported.Parse(text).BeValues().items()


def test_disks_and_nics_are_counted_where_their_number_is_missing() -> None:
    read = exported.Parse(_Without(OF_2_0, "disk_count", "nic_count"))
    assert len(read.disks) == 2 and len(read.nics) == 2


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[export]", "[exports]", r"section \[export\] is missing"),
        ("[instance]", "[guest]", r"section \[instance\] is missing"),
        ("version = 0\n", "", "'version' is missing"),
        ("version = 0", "version = 1", r"Wrong export version 1 \(wanted 0\)"),
        ("compression = none", "compression = gzip", r"the disks are compressed \(gzip\): unpack the files"),
        ("name = web.example.org", "name = None", "'name' is missing"),
        ("= 1700000000", "= yesterday", "'timestamp' must be a whole number, found 'yesterday'"),
        ("disk_count = 1", "disk_count = 17", "'disk_count' must be 16 at most, found 17"),
        ("disk_count = 1", "disk_count = -1", "'disk_count' must be a whole number"),
        ("nic_count = 1", "nic_count = 99999999999", "'nic_count' must be 8 at most"),
        ("disk_count = 1", "disk_count = " + "9" * 9999, "'disk_count' must be a whole number"),
        ("disk_count = 1", "disk_count = ²", "'disk_count' must be a whole number"),
        # A release that does not count disks that failed.
        ("disk_count = 1", "disk_count = 2\ndisk2_size = 5", "the size of disk 1 is missing"),
        ("disk0_size = 10240", "disk0_size = 10 GB", "'disk0_size' must be a whole number, found '10 GB'"),
        ("00000006-aaaa-4bbb-8ccc-000000000006", "../../../etc/shadow", "'../../../etc/shadow' is not a valid name"),
        ("00000006-aaaa-4bbb-8ccc-000000000006", "..", "'..' is not a valid name"),
        ("00000006-aaaa-4bbb-8ccc-000000000006", "-rf", "'-rf' is not a valid name"),
        ("00000006-aaaa-4bbb-8ccc-000000000006", "a\n\tb", r"'a\\nb' is not a valid name"),
        ("00000006-aaaa-4bbb-8ccc-000000000006", "x" * 256, "'xxx.*' is not a valid name"),
        ("acpi = True", "acpi = True\nacpi = False", "line 33: 'acpi' appears twice"),
        ("[os]", "[os]\n" + "x" * exported.LIMIT, "over 1048576 bytes"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_one_clear_error(old: str, new: str, problem: str) -> None:
    assert old in OF_3_1
    with pytest.raises(errors.ParseError, match=f"config.ini: {problem}"):
        exported.Parse(OF_3_1.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("acpi = True", "acpi = perhaps", "'perhaps' of parameter 'acpi': expected true or false"),
        ("serial_speed = 38400", "serial_speed = fast", "'fast' of parameter 'serial_speed': expected a whole number"),
        ("spindle_use = 1", "spindle_use = 1.5", "'1.5' of parameter 'spindle_use'"),
    ],
)
def test_a_parameter_that_is_not_of_its_type_is_named(old: str, new: str, problem: str) -> None:
    read = exported.Parse(OF_3_1.replace(old, new))
    with pytest.raises(errors.ParseError, match=f"config.ini: section .*{problem}"):
        read.HvValues("kvm"), read.BeValues()


_LINES = st.sampled_from(OF_3_1.split("\n")) | st.text(max_size=20)


@given(
    st.lists(_LINES, max_size=40).map("\n".join)
    | st.lists(_LINES, max_size=6).map(lambda more: OF_3_1 + "\n".join(more))
)
@example(OF_3_1.replace("\n", "\r\n"))
def test_no_file_does_harm(text: str) -> None:
    try:
        read = exported.Parse(text)
        read.HvValues(read.hypervisor or "kvm"), read.BeValues()
    except errors.ParseError as err:
        assert str(err).startswith("config.ini: ")
        return
    assert len(read.disks) <= constants.MAX_DISKS
    for disk in read.disks:
        assert disk.size >= 0 and (disk.dump is None or "/" not in disk.dump)
