"""The root: look-ups, persistent changes, the store's rows, the file's text."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import configs

from ganeti import configfile, errors, objects, serializer


def test_lookups_by_name() -> None:
    root = configs.Example()
    node = root.NodeByName("node1.example.org")
    assert node is not None
    assert node.uuid == configs.NODE1
    assert root.NodeByName("node1") is None
    found = root.InstanceByName("web.example.org")
    assert found is not None
    assert found.uuid == configs.WEB
    group = root.GroupByName("default")
    assert group is not None
    assert group.uuid == configs.GROUP
    assert root.NetworkByName("none") is None
    assert root.master is not None
    assert root.master.uuid == configs.NODE1
    assert root.Find("cluster", "") is root.cluster
    assert root.Find("node", configs.NODE2) is root.nodes[configs.NODE2]
    assert root.Find("node", configs.WEB) is None


def test_names_expand_as_people_write_them() -> None:
    root = configs.Example()
    base = root.instances[configs.WEB]
    for number, name in enumerate(("web1.example.com", "web1.example.net", "Mail.example.com", "mail2", "solo")):
        root = root.WithObject(base.Replace(uuid=configs.Uuid(number), name=name))

    def expand(text: str, **options: Any) -> str | None:
        found = root.ExpandName("instance", text, **options)
        return None if found is None else found.name

    assert expand("web1.example.com") == "web1.example.com"
    assert expand("web1") is None, "two fit"
    assert expand("web1.example") is None, "two fit"
    assert expand("web1.ex") is None, "no part of a component"
    assert expand("solo") == "solo"
    assert expand("sol") is None
    assert expand("mail") == "Mail.example.com"
    assert expand("MAIL") == "Mail.example.com"
    assert expand("mail", case_sensitive=True) is None
    assert expand("Mail", case_sensitive=True) == "Mail.example.com"
    assert expand("WEB1.EXAMPLE.COM") == "web1.example.com"
    assert expand("web") == "web.example.org"
    assert expand(configs.WEB) == "web.example.org"
    assert expand("") is None
    assert root.ExpandName("node", "node2").uuid == configs.NODE2
    assert root.ExpandName("nodegroup", "default").uuid == configs.GROUP
    assert root.ExpandName("nodegroup", "DEFAULT") is None
    assert root.ExpandName("nodegroup", configs.GROUP).name == "default"
    assert root.ExpandName("network", "x") is None


def test_an_exact_name_wins_over_longer_ones() -> None:
    root = configs.Example()
    base = root.instances[configs.WEB]
    root = root.WithObject(base.Replace(uuid=configs.Uuid(1), name="web"))
    assert root.ExpandName("instance", "web").uuid == configs.Uuid(1)
    assert root.ExpandName("instance", "WEB").uuid == configs.Uuid(1)


def test_relations() -> None:
    root = configs.Example()
    web = root.instances[configs.WEB]
    assert [disk.uuid for disk in root.InstanceDisks(web)] == [configs.WEB_DISK]
    assert root.SecondaryNodes(web) == (configs.NODE2,)
    assert root.AllNodes(web) == (configs.NODE1, configs.NODE2)
    assert root.DiskTemplate(web) == "drbd"
    assert root.DiskTemplate(web.Replace(disks=[])) == "diskless"
    assert root.DiskOwner(configs.WEB_DISK) == configs.WEB
    assert root.DiskOwner(configs.WEB) is None
    assert root.GroupNodes(configs.GROUP) == (configs.NODE1, configs.NODE2)
    assert root.GroupNodes(configs.WEB) == ()
    assert root.NodeInstances(configs.NODE1) == ((configs.WEB,), ())
    assert root.NodeInstances(configs.NODE2) == ((), (configs.WEB,))
    assert root.PrimaryInstances(configs.NODE1) == (web,)
    assert root.SecondaryInstances(configs.NODE2) == (web,)
    plain = root.disks[configs.WEB_DISK].children[0].Replace(uuid=configs.Uuid(9))
    mixed = root.WithObject(plain).WithObject(web.Replace(disks=[configs.WEB_DISK, plain.uuid]))
    assert mixed.DiskTemplate(mixed.instances[configs.WEB]) == "mixed"
    with pytest.raises(errors.ConfigurationError, match=r"web\.example\.org.*is not in the configuration"):
        root.InstanceDisks(web.Replace(disks=[configs.Uuid(9)]))


def test_an_instance_may_carry_its_disks() -> None:
    root = configs.Example()
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    other = disk.Replace(uuid=configs.Uuid(9), nodes=[configs.Uuid(8)])
    carrying = web.Replace(disks=[other.uuid, disk.uuid], disks_info=[other, disk])
    assert root.InstanceDisks(carrying) == (other, disk)
    assert root.SecondaryNodes(carrying) == (configs.Uuid(8), configs.NODE2)


def test_a_change_shares_everything_else() -> None:
    root = configs.Example()
    node = root.nodes[configs.NODE1].Replace(drained=True, master_candidate=False)
    changed = root.WithObject(node)
    assert changed.nodes[configs.NODE1].drained
    assert not root.nodes[configs.NODE1].drained
    assert changed.instances is root.instances
    assert changed.disks is root.disks
    assert changed.nodes[configs.NODE2] is root.nodes[configs.NODE2]
    gone = changed.WithoutObject("instance", configs.WEB)
    assert gone.InstanceByName("web.example.org") is None
    assert changed.InstanceByName("web.example.org") is not None
    with pytest.raises(KeyError):
        gone.WithoutObject("instance", configs.WEB)
    cluster = root.WithObject(root.cluster.Replace(master_ip="192.0.2.9"))
    assert cluster.cluster.master_ip == "192.0.2.9"
    assert cluster.nodes is root.nodes
    assert cluster != root
    assert cluster.WithObject(root.cluster) == root


# One change of a random object, from a few uuids and names, so that names collide and relations change.
_NUMBERS = st.integers(0, 3)
_CHANGES = st.lists(
    st.tuples(st.sampled_from(["node", "instance", "disk", "nodegroup"]), _NUMBERS, _NUMBERS, _NUMBERS, st.booleans()),
    max_size=12,
)


def _Apply(root: objects.Snapshot, change: tuple[str, int, int, int, bool]) -> objects.Snapshot:
    kind, number, a, b, remove = change
    uuid = configs.Uuid(number)
    if remove:
        return root.WithoutObject(kind, uuid) if uuid in root.Objects(kind) else root
    obj: objects.ConfigObject
    if kind == "node":
        obj = root.nodes[configs.NODE1].Replace(uuid=uuid, name=f"n{a}.org", group=configs.Uuid(b))
    elif kind == "nodegroup":
        obj = root.nodegroups[configs.GROUP].Replace(uuid=uuid, name=f"g{a}")
    elif kind == "disk":
        base = root.disks[configs.WEB_DISK]
        pair = [configs.Uuid(a), configs.Uuid(b)]
        children = [base.children[0].Replace(uuid=configs.Uuid(90 + a), logical_id=["vg", f"lv{b}"])]
        obj = base.Replace(uuid=uuid, nodes=pair, logical_id=[*pair, 11000 + a, a, b, f"{b}"], children=children)
    else:
        disks = [configs.Uuid(n) for n in {a, b} if configs.Uuid(n) in root.disks]
        name = f"{'I' if a % 2 else 'i'}{b}.org"
        base_instance = root.instances[configs.WEB]
        nics = [base_instance.nics[0].Replace(mac=f"aa:00:00:00:00:0{a}", uuid=configs.Uuid(80 + b))]
        values = {
            "primary_node": configs.Uuid(a),
            "disks": disks,
            "nics": nics,
            "network_port": 12000 + b if a else None,
        }
        obj = base_instance.Replace(uuid=uuid, name=name, **values)
    return root.WithObject(obj)


_VALUES: dict[str, list[Any]] = {
    "MAC address": [f"aa:00:00:00:00:0{a}" for a in range(4)],
    "port": [start + n for start in (11000, 12000) for n in range(4)],
    "secret": [str(n) for n in range(4)],
    "volume": [f"vg/lv{n}" for n in range(4)],
    "minor": [(configs.Uuid(n), minor) for n in range(4) for minor in range(4)],
    "attached disk": [configs.Uuid(n) for n in range(4)],
    "node address": ["192.0.2.11", "198.51.100.11"],
}


def _Answers(root: objects.Snapshot) -> list[Any]:
    numbers = [configs.Uuid(n) for n in (0, 1, 2, 3, 80, 82, 91, 93)] + [configs.GROUP, configs.NODE1]
    names = [f"{letter}{n}" for letter in "nigI" for n in range(4)]
    return [
        [root.GroupNodes(uuid) for uuid in numbers],
        [root.NodeInstances(uuid) for uuid in numbers],
        [root.DiskOwner(uuid) for uuid in numbers],
        [root.ExpandName(kind, name) for name in names for kind in ("node", "instance", "nodegroup")],
        [root.InstanceByName(f"{name}.org") for name in names],
        [sorted(root.UsedMinors(uuid)) for uuid in numbers],
        [root.Users(what, value) for what, values in _VALUES.items() for value in values],
        [sorted(root.AllUsers(what), key=str) for what in _VALUES],
        [root.IsUuidUsed(uuid) for uuid in numbers],
        root.Total("bytes of instance names"),
    ]


@given(changes=_CHANGES)
@settings(max_examples=60)
def test_indexes_that_survive_changes_answer_like_fresh_ones(changes: list[tuple[str, int, int, int, bool]]) -> None:
    root = configs.Example()
    for change in changes:
        _Answers(root)
        root = _Apply(root, change)
        fresh = objects.Snapshot.FromRows(root.ToRows())
        assert _Answers(root) == _Answers(fresh)


def test_rows() -> None:
    root = configs.Example()
    rows = list(root.ToRows())
    assert {kind for kind, _, _ in rows} <= set(objects.ROW_KINDS)
    assert ("config", "config", root.TopRow()) in rows
    assert ("cluster", "cluster", root.cluster.Json()) in rows
    assert ("node", configs.NODE1, root.nodes[configs.NODE1].Json()) in rows
    again = objects.Snapshot.FromRows([*reversed(rows), ("job", "1", "{}")])
    assert again == root
    assert objects.ConfigText(again) == objects.ConfigText(root)
    with pytest.raises(errors.ConfigurationError, match="no configuration"):
        objects.Snapshot.FromRows([])
    with pytest.raises(errors.ConfigurationError, match="'serial_no' must be a number"):
        objects.Snapshot.FromRows([("config", "config", '{"version":3010000,"serial_no":"x"}')])


def test_the_text_is_the_whole_file_in_declared_order() -> None:
    stored = configs.ExampleDict()
    root = objects.Snapshot.FromDict(stored)
    assert objects.ConfigText(root) == serializer.Dump(stored) + "\n"
    text = objects.ConfigText(configs.Example())
    value = serializer.Load(text)
    assert list(value) == [
        "version", "cluster", "nodes", "nodegroups", "instances", "networks", "disks", "filters",
        "ctime", "mtime", "serial_no",
    ]  # fmt: skip
    assert objects.ConfigText(configfile.LoadConfig(text)) == text


def test_objects_are_written_by_uuid_whatever_their_history() -> None:
    root = configs.Example()
    node = root.nodes[configs.NODE1]
    again = root.WithoutObject("node", configs.NODE1).WithObject(node)
    assert list(again.nodes) != list(root.nodes)
    assert objects.ConfigText(again) == objects.ConfigText(root)


def test_unknown_keys_of_the_top_level_survive() -> None:
    stored = configs.ExampleDict() | {"novelty": {"a": [1]}, "maintenance": {"jobs": []}}
    root = configfile.LoadDict(stored)
    assert root.extra == {"novelty": {"a": (1,)}}
    assert objects.ConfigText(root).endswith(',"serial_no":17,"novelty":{"a":[1]}}\n')
    assert objects.Snapshot.FromRows(root.ToRows()) == root


def test_the_cost_of_a_change_in_a_large_cluster() -> None:
    """2000 instances: joining kept fragments and making a new root take milliseconds of the processor (bounds are far above the usual)."""
    root = configs.Large(2000)
    text = objects.ConfigText(root)
    web = root.instances[configs.Uuid(100007)]
    root.BuildIndexes()  # as a master does once
    best_join = best_change = 1.0
    for number in range(5):
        start = time.thread_time()
        changed = root.WithObject(web.Replace(admin_state="down", serial_no=number))
        changed.NodeInstances(web.primary_node)
        changed.ExpandName("instance", "inst77")
        best_change = min(best_change, time.thread_time() - start)
        start = time.thread_time()
        joined = objects.ConfigText(changed)
        best_join = min(best_join, time.thread_time() - start)
        assert abs(len(joined) - len(text)) < 20
    assert best_join < 0.05
    assert best_change < 0.01


def test_a_root_after_rows_were_written_is_the_root_of_all_rows() -> None:
    root = configs.Example()
    web = root.instances[configs.WEB]
    changed = root.WithObject(web.Replace(name="wob.example.org")).Replace(serial_no=99)
    changed = changed.WithObject(root.cluster.Replace(mac_prefix="aa:bb:cc"))
    new = {(kind, uuid): value for kind, uuid, value in changed.ToRows()}
    old = {(kind, uuid): value for kind, uuid, value in root.ToRows()}
    rows = [(*key, value) for key, value in new.items() if old[key] != value]
    assert 1 < len(rows) < len(new)
    assert root.WithRows([*rows, ("job", "1", "{}"), ("network", "none", None)]) == changed
    assert root.WithRows([("instance", configs.WEB, None)]) == root.WithoutObject("instance", configs.WEB)
