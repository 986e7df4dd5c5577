"""Objects as such: what is read is what is written, wrong values are refused by name, nothing changes in place."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import configs
from support.virtualnode import TOP

from ganeti import errors, objects, serializer
from ganeti.objects.base import OURS

every_class = pytest.mark.parametrize("cls", configs.CLASSES, ids=lambda cls: cls.__name__)


@every_class
@given(data=st.data())
@settings(max_examples=25)
def test_what_is_read_is_what_is_written(cls: type[objects.ConfigObject], data: Any) -> None:
    stored = data.draw(configs.StoredForms(cls))
    obj = cls.FromDict(copy.deepcopy(stored))
    assert obj.ToDict() == stored
    assert list(obj.ToDict()) == list(stored)
    assert obj.Json() == serializer.Dump(stored)
    again = cls.FromJson(obj.Json())
    assert again == obj
    assert hash(again) == hash(obj)
    assert again.Json() == obj.Json()


@every_class
@given(data=st.data())
@settings(max_examples=25)
def test_unknown_keys_survive_where_they_stood(cls: type[objects.ConfigObject], data: Any) -> None:
    stored = data.draw(configs.WithUnknownKeys(cls))
    obj = cls.FromDict(copy.deepcopy(stored))
    assert obj.Json() == serializer.Dump(stored)
    changed = obj.Replace()
    assert changed.Json() == serializer.Dump(stored)
    assert set(obj.extra) == {key for key in stored if key not in cls.FIELDS}
    assert cls.FromDict({k: v for k, v in stored.items() if k in cls.FIELDS}) != obj


@every_class
@given(data=st.data())
@settings(max_examples=25)
def test_keys_come_out_as_declared_whatever_their_order_was(cls: type[objects.ConfigObject], data: Any) -> None:
    stored = data.draw(configs.StoredForms(cls))
    shuffled = dict(data.draw(st.permutations(list(stored.items()))))
    assert list(cls.FromDict(shuffled).ToDict()) == list(stored)


@every_class
@given(data=st.data())
@settings(max_examples=25)
def test_a_wrong_type_is_refused_with_object_and_key(cls: type[objects.ConfigObject], data: Any) -> None:
    stored = data.draw(configs.StoredForms(cls))
    fields = [f for f in cls.FIELDS.values() if f.name in stored]
    field = data.draw(st.sampled_from(fields))
    stored[field.name] = {"this is": ["no", "good"]} if not field.type({"this is": ["no", "good"]}) else "wrong"
    with pytest.raises(errors.ConfigurationError) as caught:
        cls.FromDict(stored)
    assert cls.KIND in str(caught.value)
    assert f"'{field.name}'" in str(caught.value)


def test_the_error_shows_what_was_found() -> None:
    disk = configs.ExampleDict()["disks"][configs.WEB_DISK]
    with pytest.raises(errors.ConfigurationError) as caught:
        objects.Disk.FromDict({**disk, "size": "10G"})
    assert (
        str(caught.value) == f"disk '{configs.WEB_DISK}': key 'size' must be a whole number, 0 or more, found \"10G\""
    )
    with pytest.raises(errors.ConfigurationError, match="key 'size' is missing"):
        objects.Disk.FromDict({k: v for k, v in disk.items() if k != "size"})
    with pytest.raises(errors.ConfigurationError, match="key 'size' is null"):
        objects.Disk.FromDict({**disk, "size": None})
    with pytest.raises(errors.ConfigurationError, match=r"key 'children'.*key 'mode'"):
        objects.Disk.FromDict({**disk, "children": [{**disk["children"][0], "mode": "x"}]})
    with pytest.raises(errors.ConfigurationError, match="expected an object"):
        objects.Disk.FromDict(["no"])
    with pytest.raises(errors.ConfigurationError, match="must be true or false, found 1"):
        objects.Node.FromDict({**configs.ExampleDict()["nodes"][configs.NODE1], "offline": 1})


def test_secrets_stay_out_of_errors() -> None:
    instance = configs.ExampleDict()["instances"][configs.WEB]
    disk = configs.ExampleDict()["disks"][configs.WEB_DISK]
    for cls, stored in (
        (objects.Instance, {**instance, "osparams_private": ["hush hush"]}),
        (objects.Disk, {**disk, "logical_id": "hush hush"}),
        (objects.Cluster, {**configs.ExampleDict()["cluster"], "osparams_private_cluster": {"os": "hush hush"}}),
    ):
        with pytest.raises(errors.ConfigurationError) as caught:
            cls.FromDict(stored)
        assert "hush" not in str(caught.value)


def test_nothing_changes_in_place() -> None:
    root = configs.Example()
    instance = root.instances[configs.WEB]
    before = instance.Json()
    with pytest.raises(TypeError, match="frozen"):
        instance.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError, match="frozen"):
        del instance.name
    for change in (
        lambda: instance.hvparams.__setitem__("acpi", True),  # type: ignore[attr-defined]
        lambda: instance.hvparams.update(acpi=True),  # type: ignore[attr-defined]
        lambda: instance.beparams.pop("maxmem"),  # type: ignore[attr-defined]
        lambda: root.cluster.hvparams["kvm"].clear(),  # type: ignore[attr-defined]
        lambda: root.nodes.setdefault("x", None),  # type: ignore[attr-defined]
    ):
        with pytest.raises(TypeError, match="frozen"):
            change()
    with pytest.raises(TypeError, match="frozen"):
        root.serial_no = 3  # type: ignore[misc]
    assert isinstance(instance.disks, tuple)
    stored = instance.ToDict()
    stored["hvparams"]["acpi"] = True
    stored["nics"][0]["mac"] = "x"
    assert instance.Json() == before
    assert objects.Instance.FromDict(serializer.Load(before)) == instance


def test_copies_of_frozen_values_are_ordinary() -> None:
    values = configs.Example().cluster.hvparams["kvm"]
    merged = values | {"acpi": False}  # type: ignore[operator]
    merged["boot_order"] = "network"
    assert type(merged) is dict
    assert values["boot_order"] == "disk"
    assert copy.deepcopy(values) is values
    assert pickle.loads(pickle.dumps(values)) == values


def test_replace() -> None:
    node = configs.Example().nodes[configs.NODE1]
    drained = node.Replace(drained=True, master_candidate=False)
    assert (node.drained, drained.drained) == (False, True)
    assert drained.Json() != node.Json()
    assert drained != node
    assert node.SameContent(node.Replace(serial_no=99, mtime=5.0))
    assert not node.SameContent(drained)
    with pytest.raises(errors.ConfigurationError, match="'offline' must be true or false"):
        node.Replace(offline="yes")
    with pytest.raises(TypeError, match="no field colour"):
        node.Replace(colour="red")
    with pytest.raises(TypeError, match="no field colour"):
        objects.NIC(mac="aa:00:00:00:00:01", uuid=configs.NODE1, colour="red")  # type: ignore[call-arg]


def test_an_optional_value_can_be_removed() -> None:
    instance = configs.Example().instances[configs.WEB]
    assert instance.network_port == 11000
    without = instance.Replace(network_port=None)
    assert without.network_port is None
    assert "network_port" not in without.ToDict()
    with pytest.raises(errors.ConfigurationError, match="'name' is null"):
        instance.Replace(name=None)


def test_a_reservation_needs_only_uuid_and_serial() -> None:
    stored = {"forthcoming": True, "uuid": configs.WEB, "serial_no": 1}
    for cls in (objects.Instance, objects.Disk):
        obj = cls.FromDict(dict(stored))
        assert obj.ToDict() == stored
    partly = {
        "forthcoming": True,
        "name": "soon.example.org",
        "hvparams": {"acpi": True},
        "uuid": configs.WEB,
        "serial_no": 1,
    }
    assert objects.Instance.FromDict(dict(partly)).ToDict() == partly
    with pytest.raises(errors.ConfigurationError, match="'uuid' is missing"):
        objects.Instance.FromDict({"forthcoming": True, "serial_no": 1})
    with pytest.raises(errors.ConfigurationError, match="is missing"):
        objects.Instance.FromDict({"uuid": configs.WEB, "serial_no": 1})


def test_fields_of_node_rpc_are_never_stored() -> None:
    root = configs.Example()
    instance = root.instances[configs.WEB]
    nic = instance.nics[0].Replace(netinfo={"name": "net"}, hvinfo={"driver": "x"})
    sent = instance.Replace(
        nics=[nic],
        secondary_nodes=[configs.NODE2],
        disks_info=[root.disks[configs.WEB_DISK].Replace(dynamic_params={"local-minor": 0})],
        osparams_secret={"password": "x"},
    )
    assert sent.ToDict() == instance.ToDict()
    assert sent.Json() == instance.Json()
    wire = sent.ToDict(runtime=True)
    received = objects.Instance.FromDict(wire, runtime=True)
    assert received == sent
    assert received.disks_info is not None
    assert received.disks_info[0].dynamic_params == {"local-minor": 0}
    assert received.nics[0].netinfo == {"name": "net"}
    stored = objects.Instance.FromDict(wire)
    assert stored == instance
    assert not stored.extra


@pytest.mark.req("D21-UUID-01", "D20-PAR-14", "D22-OSP-25")
def test_what_objects_are_made_of() -> None:
    for cls in configs.CLASSES:
        assert cls.FIELDS["uuid"].written == "R"
    wanted = {
        "name", "primary_node", "os", "hypervisor", "admin_state", "nics", "disks", "network_port", "serial_no",
        "hvparams", "beparams", "osparams",
    }  # fmt: skip
    assert wanted <= objects.Instance.FIELDS.keys()
    assert not {"disk_template", "status", "osparams_secret"} & configs.Example().instances[configs.WEB].ToDict().keys()
    assert {"hvparams", "beparams", "osparams"} <= objects.Cluster.FIELDS.keys()
    for cls in configs.CLASSES:
        for field in cls.FIELDS.values():
            assert field.since == OURS or field.since[0] in "23"
            assert field.written in "RDONX"


def test_filter_rules_are_evaluated_in_order() -> None:
    def rule(priority: int, watermark: int, number: int) -> objects.FilterRule:
        return objects.FilterRule(
            watermark=watermark, priority=priority, action="PAUSE", predicates=[], uuid=configs.Uuid(number)
        )

    rules = [rule(1, 0, 1), rule(0, 9, 2), rule(0, 3, 4), rule(0, 3, 3)]
    assert [found.uuid for found in sorted(rules, key=lambda r: r.order)] == [configs.Uuid(n) for n in (3, 4, 2, 1)]
    with pytest.raises(errors.ConfigurationError, match="'action'"):
        rules[0].Replace(action=["RATE_LIMIT", 0])


@pytest.mark.req("D21-UUID-09")
def test_what_a_drbd_disk_uses() -> None:
    disk = configs.Example().disks[configs.WEB_DISK]
    assert list(disk.Minors()) == [(configs.NODE1, 0), (configs.NODE2, 0)]
    assert list(disk.Ports()) == [11001]
    assert list(disk.Secrets()) == ["9f2c6a1d4b7e8039c5d1f0a2b3c4d5e6f7081929"]
    prefix = "xenvg/00000077-aaaa-4bbb-8ccc-000000000077.disk0"
    assert list(disk.VolumeNames()) == [f"{prefix}_data", f"{prefix}_meta"]
    assert len(list(disk.Walk())) == 3


def test_importing_the_room_is_cheap() -> None:
    """No parameter tables, no threads, no dataclasses come in with the objects."""
    code = "import sys; import ganeti.objects; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TOP
    ).stdout.split()
    assert "ganeti.objects" in loaded
    for heavy in ("dataclasses", "ganeti.params", "ganeti.runtime", "threading", "inspect"):
        assert heavy not in loaded
