"""Configurations for tests: the example of two nodes, made ones of any size, and generated objects."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import strategies as st

from ganeti import configfile, objects, serializer

EXAMPLE_PATH = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data/config/two-nodes-3.1.json"
)
CLASSES: tuple[type[objects.ConfigObject], ...] = (
    objects.Cluster,
    objects.Node,
    objects.NodeGroup,
    objects.Instance,
    objects.NIC,
    objects.Disk,
    objects.Network,
    objects.FilterRule,
)

NODE1 = "00000003-aaaa-4bbb-8ccc-000000000003"
NODE2 = "00000004-aaaa-4bbb-8ccc-000000000004"
GROUP = "00000002-aaaa-4bbb-8ccc-000000000002"
WEB = "00000005-aaaa-4bbb-8ccc-000000000005"
WEB_DISK = "00000006-aaaa-4bbb-8ccc-000000000006"


def ExampleText() -> str:
    with open(EXAMPLE_PATH, encoding="utf-8") as handle:
        return handle.read()


def ExampleDict() -> dict[str, Any]:
    value: dict[str, Any] = serializer.Load(ExampleText())
    return value


def Example() -> objects.Snapshot:
    return configfile.LoadConfig(ExampleText())


def Uuid(number: int) -> str:
    """A different uuid for each number."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"


RESERVATION, PLACED_RESERVATION = Uuid(9001), Uuid(9002)


def WithReservation(root: objects.Snapshot) -> objects.Snapshot:
    """The configuration with a reservation that has nothing but what it must have."""
    return root.WithObject(objects.Instance.FromDict({"uuid": RESERVATION, "serial_no": 1, "forthcoming": True}))


def WithReservations(root: objects.Snapshot) -> objects.Snapshot:
    """The same with another one that has a place, and disks of which one has a template."""
    bare = {"serial_no": 1, "forthcoming": True}
    node = next(iter(root.nodes))
    disks = [
        objects.Disk.FromDict({**bare, "uuid": Uuid(9003)}),
        objects.Disk.FromDict({**bare, "uuid": Uuid(9004), "dev_type": "file", "nodes": [node]}),
    ]
    placed = {**bare, "uuid": PLACED_RESERVATION, "primary_node": node, "disks": [disk.uuid for disk in disks]}
    for made in (*disks, objects.Instance.FromDict(placed)):
        root = root.WithObject(made)
    return WithReservation(root)


def Large(instances: int, nodes: int = 100) -> objects.Snapshot:
    """A valid configuration: DRBD instances spread over nodes."""
    root = Example()
    cluster = root.cluster.Replace(highest_used_port=11001 + instances)
    node, instance, disk = root.nodes[NODE1], root.instances[WEB], root.disks[WEB_DISK]
    made: dict[str, dict[str, Any]] = {"nodes": {}, "instances": {}, "disks": {}}
    for number in range(1, nodes + 1):
        uuid = Uuid(number)
        ips = {"primary_ip": f"10.0.{number >> 8}.{number & 255}", "secondary_ip": f"10.1.{number >> 8}.{number & 255}"}
        made["nodes"][uuid] = node.Replace(name=f"node{number}.example.org", uuid=uuid, **ips)
    minors: dict[str, int] = {}
    for number in range(instances):
        pair = [Uuid(1 + number % nodes), Uuid(1 + (number + 1) % nodes)]
        numbers = [minors.setdefault(name, 0) for name in pair]
        for name in pair:
            minors[name] += 1
        made["disks"][Uuid(200000 + number)] = disk.Replace(
            uuid=Uuid(200000 + number),
            nodes=pair,
            logical_id=[*pair, 11001 + number, *numbers, f"{number:040x}"],
            children=[
                child.Replace(nodes=pair, uuid=Uuid(300000 + 2 * number + i)) for i, child in enumerate(disk.children)
            ],
        )
        made["instances"][Uuid(100000 + number)] = instance.Replace(
            uuid=Uuid(100000 + number),
            name=f"inst{number}.example.org",
            primary_node=pair[0],
            disks=[Uuid(200000 + number)],
            network_port=None,
            nics=[
                instance.nics[0].Replace(mac=f"aa:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}:01")
            ],
        )
    cluster = cluster.Replace(master_node=Uuid(1), candidate_certs={})
    return root.Replace(cluster=cluster, **made)


# --- generated objects --------------------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
UUIDS = st.uuids(version=4).map(str)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_SET = st.dictionaries(_TEXT, _JSON, max_size=3)
_SETS = st.dictionaries(_TEXT, _SET, max_size=2)
_SMALL = st.integers(0, 1 << 40)
_INTS = st.integers(-(2**63) + 1, 2**63 - 1)
_FLOATS = st.floats(0, 1e12)

# By the name of a field's type; types that are one of several values are read from their schema.
_TOKEN = {"sha256": "0123456789abcdef" * 4, "role": "read", "tags": [], "created": 1700000000.5}
_TOKENS = st.sampled_from(
    [{}, {"backup": _TOKEN}, {"web-1": {**_TOKEN, "role": "operate", "tags": ["a", "b"], "expires": 1800000000}}]
)
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "dict": _SET,
    "dict[str, dict[str, dict]]": st.dictionaries(_TEXT, _SETS, max_size=2),
    "dict[str, dict]": _SETS,
    "dict[str, str]": st.dictionaries(_TEXT, _TEXT, max_size=2),
    "dict[str, {active: bool, interval: float>=0}]": st.dictionaries(
        _TEXT, st.fixed_dictionaries({"active": st.booleans(), "interval": _SMALL}), max_size=2
    ),
    "{node: str+, since: float}": st.fixed_dictionaries({"node": UUIDS, "since": _FLOATS}),
    "float": _FLOATS | _SMALL,
    "int": _INTS,
    "int>0": st.integers(1, 1 << 40),
    "int>=0": _SMALL,
    "list": st.lists(_JSON, max_size=3),
    "list[str or int or null]": st.lists(_TEXT | _INTS | st.none(), max_size=6),
    "list[[int>=0, int>=0]]": st.lists(st.lists(_SMALL, min_size=2, max_size=2), max_size=2),
    "list[[one of jobid, opcode, reason, any]]": st.lists(
        st.tuples(st.sampled_from(["jobid", "opcode", "reason"]), _JSON).map(list), max_size=2
    ),
    "list[[str, str, int]]": st.lists(st.tuples(_TEXT, _TEXT, _INTS).map(list), max_size=2),
    "list[int]": st.lists(_INTS, max_size=3),
    "list[str]": st.lists(_TEXT, max_size=3),
    "set[str]": st.lists(_TEXT, max_size=3),
    "str": _TEXT,
    "str+": st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
    "str([01]*)": st.text("01", max_size=16),
    "one of ACCEPT, PAUSE, REJECT, CONTINUE or [one of RATE_LIMIT, int>0]": st.sampled_from(["ACCEPT", "PAUSE"])
    | st.integers(1, 9).map(lambda n: ["RATE_LIMIT", n]),
}


def _Values(field: objects.FieldInfo, depth: int) -> st.SearchStrategy[Any]:
    if field.many is not None:
        return st.just([]) if depth else st.lists(StoredForms(field.many, depth + 1), max_size=2)
    name = str(field.type)
    if name.startswith("str([0-9a-f]"):
        return UUIDS
    found = _TOKENS if field.name == "rapi_tokens" else _BY_TYPE.get(name)
    return found if found is not None else st.sampled_from(field.type.Schema()["enum"])


def StoredForms(cls: type[objects.ConfigObject], depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """Complete stored forms of a class, keys in the declared order, optional ones there or not, nothing undeclared."""
    required = {}
    optional = {}
    for name, field in cls.FIELDS.items():
        if field.written == "X" or name == "forthcoming":
            continue
        target = required if field.written in ("R", "D") else optional
        target[name] = _Values(field, depth)

    def ordered(values: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in values.items() if not (cls.FIELDS[k].written == "N" and v == {})}
        return {name: kept[name] for name in cls.FIELDS if name in kept}

    return st.fixed_dictionaries(required, optional=optional).map(ordered)


@st.composite
def WithUnknownKeys(draw: Any, cls: type[objects.ConfigObject]) -> dict[str, Any]:
    """Stored forms with keys that nobody declared, at any place."""
    items = list(draw(StoredForms(cls)).items())
    names = draw(
        st.lists(st.text("abcxyz_", min_size=1, max_size=6).map("x-{}".format), unique=True, min_size=1, max_size=3)
    )
    for name in names:
        items.insert(draw(st.integers(0, len(items))), (name, draw(_JSON)))
    return dict(items)
