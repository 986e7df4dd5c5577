"""Arguments on their way to a node: each node reads what holds for it, and nothing else is accepted from anybody."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support import configs

from ganeti import errors, objects
from ganeti.rpc import encoders
from ganeti.rpc.encodings import ENCODINGS
from ganeti.rpc.procedures import DEFAULT, Arg, Procedure

NETWORK = configs.Uuid(77)


@pytest.fixture
def root() -> objects.Snapshot:
    """The example, its instance's NIC in a network that the configuration knows."""
    root = configs.Example()
    network = objects.Network.FromDict({"name": "dmz", "network": "192.0.2.0/24", "uuid": NETWORK, "serial_no": 1})
    web = root.instances[configs.WEB]
    nic = web.nics[0].Replace(network=NETWORK)
    return root.WithObject(network).WithObject(web.Replace(nics=(nic,)))


def written(root: objects.Snapshot | None, enc: str, value: Any, node: str = configs.NODE1, name: str = "") -> Any:
    """What a node gets as a call's only argument.  ``name``: what the caller names the node by."""
    row = Procedure("made_up", (Arg("what", enc),), "N", True, DEFAULT, True, False, "Shows.")
    ((result,),) = (json.loads(encoders.Body(row, [value], root).For(name or node, node).data),)
    return result


def shapes(root: objects.Snapshot) -> dict[str, Any]:
    """A value for each encoding whose text depends on the node."""
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    units = {configs.NODE1: [("lvm-vg", "xenvg")], configs.NODE2: [("lvm-vg", "other")]}
    return {
        "INST": web,
        "INST+osp": (web, None),
        "INST for IO": (web, ("raw", (disk, web))),
        "INST+hvp,bep": (web, None, None),
        "DISK": (disk, web),
        "[DISK]": ([disk], web),
        "[DISK] by node": {configs.NODE1: ([disk], web), configs.NODE2: []},
        "[[DISK, id]]": [((disk, web), ["vg", "new"])],
        "[DISK or false]": ([False, disk], web),
        "NIC or DISK": (disk, web),
        "IO": ("raw", (disk, web)),
        "storage units": units,
    }


def test_of_everything_that_differs_between_nodes_each_gets_its_own(root: objects.Snapshot) -> None:
    values = shapes(root)
    assert set(values) == {name for name, encoding in ENCODINGS.items() if encoding.per_node}
    for enc, value in values.items():
        row = Procedure("made_up", (Arg("what", enc),), "N", True, DEFAULT, True, False, "Shows.")
        body = encoders.Body(row, [value], root)
        first, second = (body.For(node, node) for node in (configs.NODE1, configs.NODE2))
        assert first != second, f"{enc}: the second node would act on what was meant for the first"
        assert first == body.For(configs.NODE1, configs.NODE1)
    # Long ones that all nodes share are written once.
    row = Procedure("made_up", (Arg("what", "BLOB"),), "N", True, DEFAULT, True, False, "Shows.")
    body = encoders.Body(row, ["x" * 100], root)
    assert body.For(configs.NODE1, configs.NODE1) is body.For(configs.NODE2, configs.NODE2)


@pytest.mark.parametrize("enc", ["INST", "INST+osp", "INST+hvp,bep"])
def test_an_instance_is_complete_with_and_without_temporary_values(root: objects.Snapshot, enc: str) -> None:
    web = root.instances[configs.WEB]
    for value in (web, shapes(root)[enc]):
        instance = written(root, enc, value)
        assert [disk["uuid"] for disk in instance["disks_info"]] == [configs.WEB_DISK]
        assert instance["disks_info"][0]["dynamic_params"]["local-minor"] == 0
        assert instance["secondary_nodes"] == [configs.NODE2]
        assert instance["hvparams"]["acpi"] is False and instance["beparams"]["maxmem"] == 512
        assert instance["osparams"] == {"mirror": "http://deb.example.org"}
        assert instance["nics"][0]["netinfo"]["name"] == "dmz", "scripts of the guest's network read it"
        # What is written already travels as it is.
        assert written(root, enc, instance) == instance


def test_only_the_given_temporary_values_win(root: objects.Snapshot) -> None:
    web = root.instances[configs.WEB]
    with_os = written(root, "INST+osp", (web, {"mirror": "http://other"}))
    assert with_os["osparams"] == {"mirror": "http://other"}
    hardware = written(root, "INST+hvp,bep", (web, {"acpi": True}, None))
    assert (hardware["hvparams"]["acpi"], hardware["beparams"]["maxmem"]) == (True, 512)
    size = written(root, "INST+hvp,bep", (web, None, {"maxmem": 700}))
    assert (size["hvparams"]["acpi"], size["beparams"]["maxmem"]) == (False, 700)


def test_a_node_that_keeps_a_file_of_an_instance_learns_none_of_its_secrets(root: objects.Snapshot) -> None:
    web = root.instances[configs.WEB].Replace(osparams={"a": "b"}, osparams_private={"c": "hidden"})
    root = root.WithObject(web)
    disk = root.disks[configs.WEB_DISK]
    assert "hidden" in str(written(root, "INST for IO", (web, ("script", ((disk, web), 0)))))
    bare = written(root, "INST for IO", (web, ("file", "/srv/ganeti/export/web.new/x")))
    assert (bare["name"], bare["os"], bare["osparams"], bare["disks_info"]) == (web.name, web.os, {}, [])
    assert "hidden" not in str(bare)


def test_the_secret_of_a_mirror_is_for_its_own_nodes(root: objects.Snapshot) -> None:
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    ends = (configs.NODE1, configs.NODE2)
    mirror = disk.Replace(dev_type="drbd", logical_id=(*ends, 11000, 0, 0, "hidden"), nodes=ends)
    for node in ends:
        assert written(root, "DISK", (mirror, web), node)["logical_id"][5] == "hidden"
    assert written(root, "DISK", (mirror, web), configs.Uuid(99))["logical_id"][5] == ""


def test_a_nic_is_described_with_its_network_as_far_as_that_is_known(root: objects.Snapshot) -> None:
    web = root.instances[configs.WEB]
    nic = written(root, "NIC or DISK", (web.nics[0], web))
    assert (nic["netinfo"]["network"], nic["nicparams"]["link"]) == ("192.0.2.0/24", "br0")
    for network in (None, configs.Uuid(78)):
        alone = written(root, "NIC or DISK", (web.nics[0].Replace(network=network), web))
        assert "netinfo" not in alone and alone["nicparams"]["link"] == "br0"
    assert written(root, "NIC or DISK", nic) == nic


@pytest.mark.req("RM-DISK-05")
def test_a_disk_has_the_parameters_of_the_group_that_its_instance_lives_in(root: objects.Snapshot) -> None:
    """Both ends of a mirror have to agree, also while an instance moves from one group to another."""
    group = root.nodegroups[configs.GROUP]
    other = group.Replace(uuid=configs.Uuid(5), name="other", diskparams={"drbd": {"protocol": "A"}})
    root = root.WithObject(other).WithObject(root.nodes[configs.NODE2].Replace(group=other.uuid))
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    ours, theirs = (written(root, "DISK", (disk, web), node)["params"] for node in (configs.NODE1, configs.NODE2))
    assert ours["protocol"] == theirs["protocol"] == "C"
    # One that belongs to no instance has nothing but the node to go by.
    alone = [written(root, "DISK", (disk, None), node)["params"] for node in (configs.NODE1, configs.NODE2)]
    assert [params["protocol"] for params in alone] == ["C", "A"]


def test_disks_travel_in_every_form_that_callers_have(root: objects.Snapshot) -> None:
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    ready = written(root, "DISK", (disk, web))
    assert ready["dynamic_params"]["local-minor"] == 0 and ready["children"][0]["dynamic_params"] == {}
    assert written(root, "DISK", ready) == written(root, "DISK", (ready, web)) == ready
    for disks in (([disk], web), [([disk], web)], [ready], ([ready], web)):
        assert written(root, "[DISK]", disks) == [ready]
    assert written(root, "[DISK]", [ready, ([disk, disk], web)]) == [ready] * 3
    assert written(root, "[DISK or false]", [ready, False]) == [ready, False]
    assert written(root, "[DISK or false]", ([disk, False], web)) == [ready, False]
    assert written(root, "[[DISK, id]]", [((disk, web), ("vg", "new"))]) == [[ready, ["vg", "new"]]]


def test_what_is_meant_for_one_node_is_found_by_its_uuid_and_by_its_name(root: objects.Snapshot) -> None:
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    for key in (configs.NODE1, "node1.example.org"):
        mine = {key: ([disk], web), "another": []}
        assert len(written(root, "[DISK] by node", mine, configs.NODE1, "node1.example.org")) == 1
    with pytest.raises(errors.ProgrammerError, match=f"nothing for node {configs.NODE2}"):
        written(root, "[DISK] by node", {configs.NODE1: ([disk], web)}, configs.NODE2)


def test_both_ends_of_a_transfer_can_be_a_file_a_disk_or_a_program(root: objects.Snapshot) -> None:
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    ready = written(root, "DISK", (disk, web))
    assert written(root, "IO", ("file", "/srv/dump")) == ["file", ["/srv/dump"]]
    assert written(root, "IO", ("raw", (disk, web))) == ["raw", [ready]]
    assert written(root, "IO", ("script", ((disk, web), 2))) == ["script", [ready, 2]]
    with pytest.raises(errors.ProgrammerError, match="no such end of a transfer: 'pipe'"):
        written(root, "IO", ("pipe", (disk, web)))


def test_storage_is_asked_for_with_what_its_kind_needs(root: objects.Snapshot) -> None:
    group = root.nodegroups[configs.GROUP]
    other = group.Replace(uuid=configs.Uuid(5), name="other", ndparams={"exclusive_storage": True})
    root = root.WithObject(other).WithObject(root.nodes[configs.NODE1].Replace(group=other.uuid))
    for kind in ("lvm-vg", "lvm-pv"):
        assert written(root, "storage units", [(kind, "xenvg")]) == [[kind, "xenvg", [True]]]
        assert written(root, "storage units", [(kind, "xenvg", ["old"])], configs.NODE2) == [[kind, "xenvg", [False]]]
        # A node that is about to join has no flag yet.
        assert written(root, "storage units", [(kind, "xenvg")], configs.Uuid(9)) == [[kind, "xenvg", [False]]]
    units = [("file", "/srv"), ("file", "/srv", []), ("file", "/srv", None), ("ext", None, ["provider"])]
    expected = [["file", "/srv", []]] * 3 + [["ext", None, ["provider"]]]
    assert written(root, "storage units", units) == expected
    assert written(root, "storage units", None) is None


def test_objects_and_dictionaries_are_the_same_on_the_wire(root: objects.Snapshot) -> None:
    web = root.instances[configs.WEB]
    assert written(root, "OBJ", web) == written(root, "OBJ", web.ToDict()) == web.ToDict()


def test_a_file_travels_with_its_content_and_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_bytes(b"key\n")
    path.chmod(0o640)
    name, content, mode, *_ = written(None, "FILE", str(path))
    assert (name, content, mode) == (str(path), [0, "key\n"], 0o640)
    sent = written(None, "FILE", ("/etc/motd", "hello", 0o644, "root", "root", 1.0, 2.0))
    assert sent == ["/etc/motd", [0, "hello"], 0o644, "root", "root", 1.0, 2.0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_an_owner_without_a_name_is_not_sent(tmp_path: Path) -> None:
    """On the other node the number may be somebody's."""
    path = tmp_path / "file"
    path.touch()
    os.chown(path, 61234, 0)
    with pytest.raises(errors.OpExecError, match="user id 61234 has no name on this node; give the file a known owner"):
        encoders.ReadForUpload(str(path))
    os.chown(path, 0, 61235)
    with pytest.raises(
        errors.OpExecError, match="group id 61235 has no name on this node; give the file a known group"
    ):
        encoders.ReadForUpload(str(path))


# What a node accepts

_LONG = 4096
ACCEPTED: dict[str, list[Any]] = {
    "name": ["a", "a b", "\u00e4", "x" * _LONG],
    "name?": [None, "a"],
    "path": ["/", "/a b", "/" + "x" * (_LONG - 1)],
    "port": [1, 65535],
    "mode": [None, 0, 0o600, 0o777],
    "int": [0, -(2**63) + 1, 2**63 - 1],
    "size": [0, 2**63 - 1],
    "seconds": [0, 0.5, 2**31],
    "time": [0, -(2**33), 2**33, 1.5],
    "{}": [{}, {"a": []}],
    "OBJ": [{}, {"a": 1}],
    "BLOB": [[0, ""], [1, "x"]],
    "tokens": [[["create", "ssl", None]]],
    "renames": [[["/a", "/b"]]],
}
REJECTED: dict[str, list[Any]] = {
    "name": ["", None, 5, [], "a\nb", "a\tb", "a\0", "a\x1f", "a\x7f", "x" * (_LONG + 1)],
    "name?": ["", "\n", 5],
    "path": ["", "a", "a/", "../a", "/a\nb", "/\0", None, 5, "/" + "x" * _LONG],
    "port": [0, -1, 65536, 22.0, "22", None, True],
    "mode": [-1, 0o1000, 0o1777, 0o4755, "600", 1.5],
    "int": [-(2**63), 2**63, 1.5, "1", None],
    "size": [-1, 2**63, 1.5],
    "seconds": [-0.5, 2**31 + 1, None],
    "time": [-(2**33) - 1, 2**33 + 1, None],
    "{}": [[], "", None, 0],
    "OBJ": [[], "", None],
    "BLOB": [[2, ""], [0], [0, None], "x"],
    "tokens": [[["create", "ssl"]], {}],
    "renames": [[["/a", "b"]], [["/a"]]],
}


@pytest.mark.parametrize("enc", sorted(ACCEPTED))
def test_a_node_accepts_what_a_system_call_can_take_and_nothing_more(enc: str) -> None:
    wire = ENCODINGS[enc].wire
    assert [value for value in ACCEPTED[enc] if not wire(value)] == []
    assert [value for value in REJECTED[enc] if wire(value)] == []
