"""Instances that are only reserved, as 3.1 stores them: no job trips over what they do not have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import configs
from support.master import Master

from ganeti import errors, objects, opcodes, query
from ganeti.cmdlib import LU_MAPPING
from ganeti.htools.sources import luxidata
from ganeti.master.querydata import ClusterInfo

NODE, OTHER, GROUP, NEW_GROUP, NET = "node1", "node2", "default", "group2", "net1"
MIRRORED, NAMED_UUID = configs.Uuid(9010), configs.Uuid(9012)
NAMED = "reserved.example.org"
RESERVATIONS = (configs.RESERVATION, configs.PLACED_RESERVATION, MIRRORED, NAMED)

# Values of parameters that say what is acted on and how; each is tried alone where an opcode does not require it.
_VALUES: dict[str, tuple[Any, ...]] = {
    "instance_name": RESERVATIONS,
    "instances": ([], *([name] for name in RESERVATIONS)),
    "node_name": (NODE, OTHER),
    "nodes": ([OTHER],),
    "on_nodes": ([NODE],),
    "remote_node": (OTHER,),
    "target_node": (OTHER,),
    "pnode": (OTHER,),
    "group_name": (GROUP,),
    "group": (GROUP,),
    "target_groups": ([NEW_GROUP],),
    "iallocator": ("hail",),
    "network_name": (NET,),
    "network_mode": ("bridged",),
    "network_link": ("br0",),
    "tags": (["web"],),
    "changes": ({"allocatable": False},),
    "storage_type": ("lvm-vg",),
    "pattern": (".",),
    "new_name": ("other.example.org",),
    "sha256": ("0" * 64,),
    "duration": (0,),
    "network": ("192.0.2.0/24",),
    "disk": (0,),
    "amount": (128,),
    "reboot_type": ("hard",),
    "enabled_hypervisors": (["fake"], ["kvm"]),
    "enabled_disk_templates": (["plain"], ["drbd", "file", "diskless"]),
    "ipolicy": ({"minmax": [{"min": {"cpu-count": 2}, "max": {"cpu-count": 4}}]}, {"disk-templates": ["plain"]}),
    "diskparams": ({"drbd": {"metavg": "xenvg"}},),
    "beparams": ({"maxmem": 512},),
    "offline": (True,),
    "drained": (True,),
    "vm_capable": (False,),
    "secondary_ip": ("198.51.100.77",),
    "vg_name": ("xenvg",),
    "wait_for_sync": (True,),
}
_OWN_VALUES: dict[tuple[str, str], tuple[Any, ...]] = {
    ("OP_NODE_ADD", "node_name"): ("node3",),
    ("OP_GROUP_ADD", "group_name"): ("group3",),
    ("OP_GROUP_ASSIGN_NODES", "group_name"): (NEW_GROUP,),
    ("OP_NETWORK_ADD", "network_name"): ("net2",),
    ("OP_CLUSTER_RENAME", "name"): ("other.example.org",),
    ("OP_CLUSTER_RAPI_TOKEN_ADD", "name"): ("token",),
    ("OP_CLUSTER_RAPI_TOKEN_REMOVE", "name"): ("token",),
    ("OP_CLUSTER_CONFIG_QUERY", "output_fields"): (["cluster_name"],),
    ("OP_EXT_STORAGE_DIAGNOSE", "output_fields"): (["name"],),
    ("OP_OS_DIAGNOSE", "output_fields"): (["name"],),
    ("OP_NODE_QUERYVOLS", "output_fields"): (["node", "name", "instance"],),
    ("OP_NODE_QUERY_STORAGE", "output_fields"): (["node", "name", "size"],),
    ("OP_INSTANCE_CREATE", "instance_name"): (*RESERVATIONS, "new.example.org"),
    ("OP_INSTANCE_CREATE", "mode"): ("create",),
    ("OP_INSTANCE_CREATE", "disks"): ([{"size": 128}],),
    ("OP_INSTANCE_CREATE", "nics"): ([{}],),
    ("OP_INSTANCE_MULTI_ALLOC", "instances"): ([],),
    ("OP_TEST_ALLOCATOR", "name"): (*RESERVATIONS, "new.example.org"),
    ("OP_TEST_ALLOCATOR", "iallocator"): ("hail",),
    ("OP_QUERY", "fields"): (["name"],),
    ("OP_QUERY_FIELDS", "fields"): (["name"],),
}
_TOGETHER = 8
_TAGGED = {"cluster": [None], "node": [NODE], "nodegroup": [GROUP], "network": [NET], "instance": RESERVATIONS}


def _Configuration(root: objects.Snapshot) -> objects.Snapshot:
    """Four ways of being reserved: nothing, a place, disks on two nodes, a name; a second group and a network."""
    root = configs.WithReservations(root)
    nodes = list(root.nodes)
    bare = {"serial_no": 1, "forthcoming": True}
    disk = objects.Disk.FromDict(
        {**bare, "uuid": configs.Uuid(9011), "dev_type": "drbd", "nodes": nodes[:2], "size": 64}
    )
    group = root.nodegroups[configs.GROUP].Replace(name=NEW_GROUP, uuid=configs.Uuid(9013))
    net = objects.Network(name=NET, uuid=configs.Uuid(9014), network="192.0.2.0/24")
    made = (
        disk,
        objects.Instance.FromDict({**bare, "uuid": MIRRORED, "primary_node": nodes[1], "disks": [disk.uuid]}),
        objects.Instance.FromDict({**bare, "uuid": NAMED_UUID, "name": NAMED}),
        group,
        net,
    )
    for one in made:
        root = root.WithObject(one)
    return root


def _Values(op_id: str, name: str, spec: Any) -> tuple[Any, ...]:
    own = _OWN_VALUES.get((op_id, name), _VALUES.get(name))
    if own is not None:
        return own
    choices = spec.type.Schema().get("enum")
    return tuple(choices) if choices else ()


def _Opcodes(op_id: str) -> Iterator[opcodes.OpCode]:
    """An opcode with every choice of what it requires, and each with every other parameter that has a value here."""
    op_class = opcodes.OP_MAPPING[op_id]
    specs = {name: spec for name, spec in op_class.OP_PARAMS.items() if name not in ("dry_run", "depends", "kind")}
    needed = [[(name, value) for value in _Values(op_id, name, spec)] for name, spec in specs.items() if spec.required]
    chosen = [dict(one) for one in itertools.product(*needed)]
    if "kind" in op_class.OP_PARAMS:
        kinds = [{"kind": kind, "name": name} for kind, names in _TAGGED.items() for name in names]
        chosen = [{**one, **kind} for one in chosen for kind in kinds]
    for one in chosen:
        yield op_class(**one)
        for name, spec in specs.items():
            if not spec.required and name not in one:
                flag = (not spec.default,) if isinstance(spec.default, bool) else ()
                yield from (op_class(**one, **{name: value}) for value in _Values(op_id, name, spec) or flag)


def _Check(master: Master, op: opcodes.OpCode) -> None:
    before = master.snapshot
    try:
        master.Run(op)
    except (errors.OpPrereqError, errors.OpExecError) as err:
        assert "None" not in str(err), op
    except Exception as err:
        raise AssertionError(f"{op.OP_ID} {op.ToDict()}: {err!r}") from err
    if isinstance(op, opcodes.OpInstanceRemove):
        return
    after = master.snapshot
    for uuid in (configs.RESERVATION, configs.PLACED_RESERVATION, MIRRORED):
        assert after.instances[uuid] == before.instances[uuid]


def _Trials() -> list[Any]:
    """A few opcodes of one kind for each test, because some change the cluster."""
    return [
        pytest.param(some, id=f"{op_id}-{number}")
        for op_id in sorted(LU_MAPPING)
        for number, some in enumerate(_Parts(list(_Opcodes(op_id))))
    ]


def _Parts(ops: list[opcodes.OpCode]) -> Iterator[list[opcodes.OpCode]]:
    return (ops[start : start + _TOGETHER] for start in range(0, len(ops), _TOGETHER))


@pytest.fixture
def reserved(make: Callable[..., Master]) -> Master:
    """Two nodes and a machine that is none; one real instance, and the reservations."""
    return make(2, spare=1, change=_Configuration, lvm=True)


@pytest.mark.parametrize("ops", _Trials())
def test_no_job_fails_because_of_what_a_reservation_lacks(reserved: Master, ops: list[opcodes.OpCode]) -> None:
    for op in ops:
        _Check(reserved, op)


@pytest.mark.parametrize("name", RESERVATIONS)
def test_it_can_be_removed(reserved: Master, name: str) -> None:
    """Otherwise it would keep its node in the cluster for ever."""
    before = reserved.snapshot
    found = before.ExpandName("instance", name)
    assert found is not None
    with pytest.raises(errors.OpPrereqError):
        reserved.Run(opcodes.OpInstanceRemove(instance_name=name, instance_uuid=configs.WEB))
    reserved.Run(opcodes.OpInstanceRemove(instance_name=name, dry_run=True))
    assert found.uuid in reserved.snapshot.instances
    reserved.Run(opcodes.OpInstanceRemove(instance_name=name))
    after = reserved.snapshot
    assert before.instances.keys() - after.instances.keys() == {found.uuid}
    assert before.disks.keys() - after.disks.keys() == set(found.disks)


@pytest.mark.parametrize("kind", ["instance", "node", "group", "network", "lock", "cluster"])
def test_every_field_can_be_asked_for(reserved: Master, kind: str) -> None:
    """Each field alone, as filter and as key; a list shows the reservations."""
    for name in query.GetKind(kind).fields:
        for qfilter in (None, ["?", name], ["==", name, "x"], ["=~", name, "x"]):
            try:
                answer = reserved.context.query.QueryNow(kind, [name], qfilter)
            except (errors.OpPrereqError, errors.ParameterError):
                assert qfilter is not None  # not each field fits each filter
            else:
                assert qfilter is not None or kind != "instance" or len(answer["data"]) == 5, name


def test_the_allocators_programs_read_a_cluster_with_reservations(reserved: Master) -> None:
    asked = {"node": luxidata.NODE_FIELDS, "instance": luxidata.INSTANCE_FIELDS, "group": luxidata.GROUP_FIELDS}
    nodes, instances, groups = (reserved.context.query.QueryNow(what, fields, None) for what, fields in asked.items())
    assert len(instances["data"]) == 5
    raw = luxidata.Parse(nodes, instances, ClusterInfo(reserved.snapshot), groups)
    assert [instance.name for instance in raw.instances] == ["web.example.org"]
