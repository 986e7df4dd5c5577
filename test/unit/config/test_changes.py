"""How changes become durable: serial numbers, stale objects, readers, refusals (doc/reference/config.md 13)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support import configs
from support.configwork import Work
from support.store_nodes import CLUSTER
from support.writers import Setup

from ganeti import errors, objects, runtime
from ganeti.config import ConfigWriter, Draft
from ganeti.config.base import ConfigChange
from ganeti.luxi.pending import Begun
from ganeti.store import NotKnown

WEB, DISK, GROUP = configs.WEB, configs.WEB_DISK, configs.GROUP


def _Web(s: Setup) -> objects.Instance:
    return s.cfg.Snapshot().instances[WEB]


def _Disk(s: Setup) -> objects.Disk:
    return s.cfg.Snapshot().disks[DISK]


def _NewDisk(number: int = 500) -> objects.Disk:
    return objects.Disk(
        dev_type="plain", logical_id=["xenvg", f"lv{number}"], size=1024, uuid=configs.Uuid(number), nodes=[]
    )


def _NewInstance(s: Setup, number: int = 600) -> objects.Instance:
    nic = objects.NIC(mac=f"aa:00:00:00:01:{number % 256:02x}", uuid=configs.Uuid(number + 1))
    return objects.Instance(
        name=f"new{number}.example.org", primary_node=s.nodes[0], os="debian", hypervisor="kvm", admin_state="down",
        disks_active=False, nics=[nic], uuid=configs.Uuid(number),
    )  # fmt: skip


def _Group(s: Setup) -> objects.NodeGroup:
    return s.cfg.Snapshot().nodegroups[GROUP]


def _Network() -> objects.Network:
    return objects.Network(name="lan", network="10.0.0.0/24", uuid=configs.Uuid(700))


# operation, (kind, uuid) of the object, its serial number's growth (None: it is new with 1, or gone), whether the cluster's
# grows, the growth of the top level's.  Preparations come first and do not count.
Case = tuple[str, Callable[[Setup], Any] | None, Callable[[Setup], Any], tuple[str, str], int | None, bool, int]
NODE = "00000002-aaaa-4bbb-8ccc-0000000000aa"  # the second machine
NEW, NEW_DISK, NEW_NET = configs.Uuid(600), configs.Uuid(500), configs.Uuid(700)
OTHER_GROUP = configs.Uuid(800)

CASES: list[Case] = [
    ("add node", None,
     lambda s: s.cfg.AddNode(s.cfg.Snapshot().nodes[NODE].Replace(
         uuid=NEW, name="x", primary_ip="192.0.2.99", secondary_ip="192.0.2.99", serial_no=9)),
     ("node", NEW), None, True, 1),
    ("update node", None, lambda s: s.cfg.Update(s.cfg.Snapshot().nodes[NODE].Replace(powered=False)),
     ("node", NODE), 1, True, 1),
    ("remove node", lambda s: s.cfg.RemoveInstance(WEB), lambda s: s.cfg.RemoveNode(NODE), ("node", NODE), None, True, 1),
    ("add group", None, lambda s: s.cfg.AddNodeGroup(_Group(s).Replace(uuid=OTHER_GROUP, name="g", serial_no=5)),
     ("nodegroup", OTHER_GROUP), None, True, 1),
    ("remove group", lambda s: s.cfg.AddNodeGroup(_Group(s).Replace(uuid=OTHER_GROUP, name="g")),
     lambda s: s.cfg.RemoveNodeGroup(OTHER_GROUP), ("nodegroup", OTHER_GROUP), None, True, 1),
    ("assign nodes: node", lambda s: s.cfg.AddNodeGroup(_Group(s).Replace(uuid=OTHER_GROUP, name="g")),
     lambda s: s.cfg.AssignGroupNodes([(NODE, OTHER_GROUP)]), ("node", NODE), 1, True, 1),
    ("assign nodes: new group", lambda s: s.cfg.AddNodeGroup(_Group(s).Replace(uuid=OTHER_GROUP, name="g")),
     lambda s: s.cfg.AssignGroupNodes([(NODE, OTHER_GROUP), (s.nodes[2], OTHER_GROUP)]),
     ("nodegroup", OTHER_GROUP), 1, True, 1),
    ("assign nodes: old group", lambda s: s.cfg.AddNodeGroup(_Group(s).Replace(uuid=OTHER_GROUP, name="g")),
     lambda s: s.cfg.AssignGroupNodes([(NODE, OTHER_GROUP)]), ("nodegroup", GROUP), 1, True, 1),
    ("assign nodes to where they are", None, lambda s: s.cfg.AssignGroupNodes([(NODE, GROUP)]),
     ("nodegroup", GROUP), 0, False, 0),
    ("update group", None, lambda s: s.cfg.Update(_Group(s).Replace(ndparams={"ovs": True})),
     ("nodegroup", GROUP), 1, False, 1),
    ("add network", None, lambda s: s.cfg.AddNetwork(_Network()), ("network", NEW_NET), None, True, 1),
    ("remove network", lambda s: s.cfg.AddNetwork(_Network()), lambda s: s.cfg.RemoveNetwork(NEW_NET),
     ("network", NEW_NET), None, True, 1),
    ("update network", lambda s: s.cfg.AddNetwork(_Network()),
     lambda s: s.cfg.Update(s.cfg.Snapshot().networks[NEW_NET].Replace(mac_prefix="aa:bb:cc")),
     ("network", NEW_NET), 1, False, 1),
    ("add instance", None, lambda s: s.cfg.AddInstance(_NewInstance(s), 1), ("instance", NEW), None, False, 1),
    ("remove instance", None, lambda s: s.cfg.RemoveInstance(WEB), ("instance", WEB), None, True, 1),
    ("rename instance", None, lambda s: s.cfg.RenameInstance(WEB, "other.example.org"), ("instance", WEB), 0, True, 1),
    ("update instance", None, lambda s: s.cfg.Update(_Web(s).Replace(beparams={"vcpus": 2}), 1),
     ("instance", WEB), 1, False, 1),
    ("mark down", None, lambda s: s.cfg.MarkInstanceDown(WEB), ("instance", WEB), 1, False, 1),
    ("mark up what is up", None, lambda s: s.cfg.MarkInstanceUp(WEB), ("instance", WEB), 0, False, 0),
    ("disks inactive", None, lambda s: s.cfg.MarkInstanceDisksInactive(WEB), ("instance", WEB), 1, False, 1),
    ("disks active already", None, lambda s: s.cfg.MarkInstanceDisksActive(WEB), ("instance", WEB), 0, False, 0),
    ("add disk", None, lambda s: s.cfg.AddDisk(_NewDisk()), ("disk", NEW_DISK), None, False, 2),
    ("attach disk", lambda s: s.cfg.AddDisk(_NewDisk()), lambda s: s.cfg.AttachInstanceDisk(WEB, NEW_DISK),
     ("instance", WEB), 1, False, 1),
    ("attach disk: the disk", lambda s: s.cfg.AddDisk(_NewDisk()), lambda s: s.cfg.AttachInstanceDisk(WEB, NEW_DISK),
     ("disk", NEW_DISK), 0, False, 1),
    ("detach disk", None, lambda s: s.cfg.DetachInstanceDisk(WEB, DISK), ("instance", WEB), 1, False, 1),
    ("remove disk", lambda s: s.cfg.DetachInstanceDisk(WEB, DISK), lambda s: s.cfg.RemoveDisk(DISK),
     ("disk", DISK), None, True, 1),
    ("update disk", None, lambda s: s.cfg.Update(_Disk(s).Replace(size=20480)), ("disk", DISK), 1, False, 1),
    ("set primary node", None, lambda s: s.cfg.SetInstancePrimaryNode(WEB, NODE), ("instance", WEB), 0, False, 1),
    ("detach disk and move it", None, lambda s: s.cfg.DetachInstanceDisk(WEB, DISK, ["loop", "/srv/files/a"]),
     ("disk", DISK), 0, False, 1),
    ("attach disk and move it", lambda s: s.cfg.AddDisk(_NewDisk()),
     lambda s: s.cfg.AttachInstanceDisk(WEB, NEW_DISK, -1, ["loop", "/srv/files/a"]), ("disk", NEW_DISK), 0, False, 1),
    ("update cluster", None, lambda s: s.cfg.Update(s.cfg.Snapshot().cluster.Replace(max_running_jobs=7)),
     ("cluster", CLUSTER), 1, True, 1),
    ("tag a node", None, lambda s: s.cfg.AddTags("node", NODE, ["a"]), ("node", NODE), 1, True, 1),
    ("tag the cluster", None, lambda s: s.cfg.AddTags("cluster", CLUSTER, ["a"]), ("cluster", CLUSTER), 1, True, 1),
    ("tag twice", lambda s: s.cfg.AddTags("instance", WEB, ["a"]), lambda s: s.cfg.AddTags("instance", WEB, ["a"]),
     ("instance", WEB), 0, False, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prepare", "operation", "key", "growth", "cluster_grows", "top_growth"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_serial_numbers_and_times(
    setup: Setup,
    prepare: Any,
    operation: Any,
    key: tuple[str, str],
    growth: int | None,
    cluster_grows: bool,
    top_growth: int,
) -> None:
    if prepare is not None:
        prepare(setup)
    before = setup.cfg.Snapshot()
    old: Any = before.Find(*key)
    operation(setup)
    after = setup.cfg.Snapshot()
    new: Any = after.Find(*key)
    assert after.serial_no - before.serial_no == top_growth
    assert (after.mtime > before.mtime) == (top_growth > 0)
    assert after.ctime == before.ctime
    assert after.cluster.serial_no - before.cluster.serial_no == int(cluster_grows)
    assert (after.cluster.mtime > before.cluster.mtime) == cluster_grows
    if growth is None and old is None:
        assert new.serial_no == 1
        assert new.ctime == new.mtime == after.mtime
    elif growth is None:
        assert new is None
    else:
        assert new.serial_no - old.serial_no == growth
        assert (new.mtime > old.mtime) == (growth > 0)
        assert new.ctime == old.ctime
    assert setup.Stored() == after
    assert objects.ConfigText(setup.Stored()) == objects.ConfigText(after)


@pytest.mark.req("D21-UUID-04", "D21-UUID-06")
def test_a_uuid_outlives_every_change(setup: Setup) -> None:
    setup.cfg.RenameInstance(WEB, "other.example.org")
    setup.cfg.Update(_Web(setup).Replace(name="third.example.org"))
    assert setup.cfg.Snapshot().InstanceByName("third.example.org") is _Web(setup)
    assert _Web(setup).uuid == WEB


def test_an_object_that_was_changed_meanwhile_is_refused(setup: Setup) -> None:
    mine = _Web(setup).Replace(beparams={"vcpus": 4})
    setup.cfg.MarkInstanceDown(WEB)
    before = setup.cfg.Snapshot()
    with pytest.raises(
        errors.ConfigurationError, match=r"web\.example\.org' is out of date.*2, stored is 3.*try again"
    ):
        setup.cfg.Update(mine)
    assert setup.cfg.Snapshot() is before
    assert setup.Stored() == before
    with pytest.raises(errors.ConfigurationError, match="out of date"):
        setup.cfg.Update(mine.Replace(serial_no=99))
    with pytest.raises(errors.ConfigurationError, match="not in the configuration"):
        setup.cfg.Update(mine.Replace(uuid=configs.Uuid(1)))


def test_updating_with_the_same_is_nothing(setup: Setup) -> None:
    before = setup.cfg.Snapshot()
    web = _Web(setup)
    assert setup.cfg.Update(web.Replace(mtime=web.mtime + 5)) == web
    assert setup.cfg.Snapshot() is before


def test_several_objects_change_together_or_not_at_all(setup: Setup) -> None:
    web, disk = _Web(setup), _Disk(setup)
    stored = setup.cfg.UpdateMany([web.Replace(os="x"), disk.Replace(size=5)])
    assert [obj.serial_no for obj in stored] == [web.serial_no + 1, disk.serial_no + 1]
    before = setup.cfg.Snapshot()
    with pytest.raises(errors.ConfigurationError, match="out of date"):
        setup.cfg.UpdateMany([_Web(setup).Replace(os="y"), disk.Replace(size=6)])
    assert setup.cfg.Snapshot() is before
    node = before.nodes[setup.nodes[1]]
    with pytest.raises(errors.ProgrammerError, match="by Update alone"):
        setup.cfg.UpdateMany([node.Replace(master_candidate=True)])


@pytest.mark.req("D20-GOAL-01")
def test_no_change_is_lost_between_threads(setup: Setup) -> None:
    """Eight threads add to the same instance, each trying again when it was too late."""
    refused = []

    def work(number: int) -> None:
        for step in range(6):
            while True:
                web = _Web(setup)
                try:
                    setup.cfg.Update(web.Replace(osparams={**web.osparams, f"p{number}-{step}": "x"}))
                    break
                except errors.ConfigurationError:
                    refused.append(number)

    threads = [runtime.Thread(work, f"job-{number}", (number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    web = _Web(setup)
    assert len(web.osparams) == 48
    assert web.serial_no == 2 + 48
    assert setup.Stored() == setup.cfg.Snapshot()
    assert refused, "they did meet"


def test_changes_see_those_before_them_that_are_not_acknowledged(make: Any) -> None:
    """While the other voters are silent nothing is published; a second change still builds on the first."""
    setup = make(3, candidates=3)
    cfg = setup.cfg
    before = cfg.Snapshot()
    held = [setup.cluster[1], setup.cluster[2]]
    for node in held:
        node.up = False
    results: list[Exception | None] = []
    cfg.TransactAsync(lambda draft: draft.Touch(draft.Get("instance", WEB).Replace(os="first")), results.append)
    deadline = runtime.Monotonic() + 30
    while cfg.Newest() is before and runtime.Monotonic() < deadline:
        runtime.Sleep(0.01)
    assert cfg.Newest().instances[WEB].os == "first"
    assert cfg.Snapshot() is before, "readers see acknowledged roots only"
    assert cfg.Snapshot().instances.get(WEB) == before.instances[WEB]
    for node in held:
        node.up = True
    second = cfg.Transact(lambda draft: draft.Touch(draft.Get("instance", WEB).Replace(hypervisor="fake")))
    assert (second.os, second.hypervisor, second.serial_no) == ("first", "fake", 4)
    assert cfg.Snapshot().instances[WEB] == second
    assert results == [None] or isinstance(results[0], NotKnown)


def test_a_change_that_the_disk_refuses_leaves_nothing_behind(setup: Setup) -> None:
    """The store takes a refused transaction back, newest change first; both changes were prepared, neither stays."""
    cfg = setup.cfg
    before = cfg.Snapshot()

    def claim(draft: Draft) -> None:
        draft.Touch(draft.Get("instance", WEB).Replace(network_port=11002))

    first = ConfigChange(cfg, claim)
    second = ConfigChange(cfg, lambda draft: draft.Remove("instance", WEB))
    assert [row.kind for row in first.Prepare()] == ["instance", "cluster", "config"]
    assert second.Prepare()[0].value is None
    assert WEB not in cfg.Newest().instances
    second.Withdraw()
    assert cfg.Newest().instances[WEB].network_port == 11002
    first.Withdraw()
    assert cfg.Newest() is cfg.Snapshot() is before
    assert cfg.MarkInstanceDown(WEB).serial_no == 3


def test_a_change_that_raises_changes_nothing(setup: Setup) -> None:
    before = setup.cfg.Snapshot()

    def fails(draft: Draft) -> None:
        draft.Remove("instance", WEB)
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        setup.cfg.Transact(fails)
    assert setup.cfg.Newest() is setup.cfg.Snapshot() is before
    setup.cfg.MarkInstanceDown(WEB)


def test_another_writer_on_the_same_rows_reads_the_same(setup: Setup) -> None:
    setup.cfg.AddInstance(_NewInstance(setup), 1)
    setup.cfg.RemoveInstance(WEB)
    again = ConfigWriter(setup.store)
    assert again.Snapshot() == setup.cfg.Snapshot()
    assert again.VerifyConfig() == []


def test_no_master_starts_with_a_broken_structure(make: Any) -> None:
    root = configs.Example()
    broken = root.WithObject(root.instances[WEB].Replace(disks=[configs.Uuid(1)]))
    with pytest.raises(errors.ConfigVerifyError) as caught:
        make(1, root=broken)
    assert caught.value.args[1] == [f"instance 'web.example.org': disk {configs.Uuid(1)} does not exist"]


REFUSED: list[tuple[str, Callable[[Setup], Any], str]] = [
    ("node of an instance", lambda s: s.cfg.RemoveNode(NODE), "instances have it as a node: web.example.org"),
    ("unknown node", lambda s: s.cfg.RemoveNode(NEW), "not in the configuration"),
    ("node with a taken name", lambda s: s.cfg.AddNode(s.cfg.Snapshot().nodes[NODE].Replace(uuid=NEW)),
     "another node has this name"),
    ("node with a taken uuid", lambda s: s.cfg.AddNode(s.cfg.Snapshot().nodes[NODE].Replace(uuid=WEB, name="x")),
     "is in use already"),
    ("node into no group", lambda s: s.cfg.Update(s.cfg.Snapshot().nodes[NODE].Replace(group=NEW)), "does not exist"),
    ("group with nodes", lambda s: s.cfg.RemoveNodeGroup(GROUP), "has nodes"),
    ("group with a taken name", lambda s: s.cfg.AddNodeGroup(_Group(s).Replace(uuid=NEW)), "has this name already"),
    ("group named like a uuid", lambda s: s.cfg.AddNodeGroup(_Group(s).Replace(uuid=NEW, name=NEW)), "looks like a uuid"),
    ("move to no group", lambda s: s.cfg.AssignGroupNodes([(NODE, NEW)]), "not in the configuration"),
    ("instance with a taken name", lambda s: s.cfg.AddInstance(_NewInstance(s).Replace(name="web.example.org"), 1),
     "has this name already"),
    ("instance with a taken MAC", lambda s: s.cfg.AddInstance(
        _NewInstance(s).Replace(nics=[_Web(s).nics[0].Replace(uuid=NEW_NET)]), 1), "MAC address aa:00:00:3f:12:c4 is in use"),
    ("instance with one MAC twice", lambda s: s.cfg.AddInstance(
        _NewInstance(s).Replace(nics=[_NewInstance(s).nics[0]] * 2), 1), "is in use"),
    ("instance on no node", lambda s: s.cfg.AddInstance(_NewInstance(s).Replace(primary_node=NEW), 1), "does not exist"),
    ("instance with a taken disk", lambda s: s.cfg.AddInstance(_NewInstance(s).Replace(disks=[DISK]), 1), "belongs to"),
    ("instance with no such disk", lambda s: s.cfg.AddInstance(_NewInstance(s).Replace(disks=[NEW_DISK]), 1),
     "does not exist"),
    ("instance with a taken port", lambda s: s.cfg.AddInstance(_NewInstance(s).Replace(network_port=11001), 1),
     "port 11001 is in use"),
    ("instance again", lambda s: s.cfg.AddInstance(_Web(s), 1), "is in use already"),
    ("replacing what is no reservation", lambda s: s.cfg.AddInstance(_Web(s), 1, replace=True), "is not a reservation"),
    ("disk that is attached", lambda s: s.cfg.RemoveDisk(DISK), "it is attached to instance 'web.example.org'"),
    ("disk with a taken minor", lambda s: s.cfg.AddDisk(_Disk(s).Replace(
        uuid=NEW_DISK, children=[], logical_id=[s.nodes[0], NEW, 11002, 0, 7, "s"])), "DRBD minor 0 of node"),
    ("disk with a taken port", lambda s: s.cfg.AddDisk(_Disk(s).Replace(
        uuid=NEW_DISK, children=[], logical_id=[s.nodes[0], NEW, 11000, 5, 7, "s"])), "port 11000 is in use"),
    ("disk on no node", lambda s: s.cfg.AddDisk(_NewDisk().Replace(nodes=[NEW])), f"node {NEW} does not exist"),
    ("node of a detached disk", lambda s: (s.cfg.DetachInstanceDisk(WEB, DISK), s.cfg.RemoveNode(NODE)),
     f"detached disks lie on it: {DISK}"),
    ("disk twice", lambda s: s.cfg.AttachInstanceDisk(WEB, DISK), "belongs to an instance already"),
    ("disk at no place", lambda s: s.cfg.AddInstanceDisk(WEB, _NewDisk(), 5), "cannot be inserted at 5"),
    ("detaching another's disk", lambda s: s.cfg.DetachInstanceDisk(WEB, NEW_DISK), "has no disk"),
    ("network with a taken name", lambda s: (s.cfg.AddNetwork(_Network()), s.cfg.AddNetwork(_Network().Replace(uuid=NEW))),
     "has this name already"),
    ("too many tags", lambda s: s.cfg.AddTags("instance", WEB, [f"t{n}" for n in range(4097)]), "at most 4096"),
    ("no tag", lambda s: s.cfg.AddTags("instance", WEB, ["a b"]), "contains characters other than"),
    ("long tag", lambda s: s.cfg.AddTags("instance", WEB, ["a" * 129]), "too long"),
    ("missing tag", lambda s: s.cfg.RemoveTags("instance", WEB, ["prod", "x"]), "x not found"),
    ("missing filter", lambda s: Begun(lambda done: s.cfg.RemoveFilter(NEW, done)).Result(20), "does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "message"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_would_contradict_is_refused(setup: Setup, operation: Any, message: str) -> None:
    with pytest.raises(errors.GenericError) as caught:
        operation(setup)
    assert message in str(caught.value.args[0])
    assert setup.cfg.VerifyConfig() == []
    assert setup.cfg.Newest() is setup.cfg.Snapshot()
    assert setup.Stored() == setup.cfg.Snapshot()


def _Pair(s: Setup) -> list[Any]:
    """Two more instances with a DRBD disk each, stored; and their disks."""
    web, dev = _Web(s), _Disk(s)
    made: list[Any] = []
    for n in (1, 2):
        disk = dev.Replace(
            uuid=configs.Uuid(500 + n),
            logical_id=[*s.nodes[:2], 11010 + n, 10 + n, 10 + n, f"secret{n}"],
            children=[
                child.Replace(uuid=configs.Uuid(510 + 2 * n + i), logical_id=["xenvg", f"{n}-{i}"])
                for i, child in enumerate(dev.children)
            ],
        )
        nic = web.nics[0].Replace(mac=f"aa:00:00:00:00:0{n}", uuid=configs.Uuid(700 + n), ip=f"10.0.0.1{n}")
        new = web.Replace(
            uuid=configs.Uuid(600 + n), name=f"i{n}.org", nics=[nic], disks=[disk.uuid], network_port=11020 + n
        )
        made.append((s.cfg.AddInstance(new, n, [disk]), s.cfg.Snapshot().disks[disk.uuid]))
    return made


TWICE: list[tuple[str, Callable[[Setup, list[Any]], list[objects.ConfigObject]], str]] = [
    ("a MAC", lambda s, p: [_WithNic(i, mac="aa:00:00:00:00:99") for i, _ in p], "MAC address aa:00:00:00:00:99 is in use"),
    ("a MAC twice in one", lambda s, p: [p[0][0].Replace(nics=[
        p[0][0].nics[0].Replace(mac="aa:00:00:00:00:99", uuid=configs.Uuid(n)) for n in (81, 82)])],
     "MAC address aa:00:00:00:00:99 is in use"),
    ("an address of a network", lambda s, p: [_WithNic(i, network=NEW_NET, ip="10.0.0.7") for i, _ in p],
     "address 10.0.0.7 of its network is in use"),
    ("the uuid of a NIC", lambda s, p: [_WithNic(i, uuid=NEW) for i, _ in p], f"uuid {NEW} is in use"),
    ("the uuid of an object for a NIC", lambda s, p: [_WithNic(p[0][0], uuid=p[1][1].uuid)], "is in use"),
    ("a port", lambda s, p: [i.Replace(network_port=11077) for i, _ in p], "port 11077 is in use"),
    ("a port of a disk and a console", lambda s, p: [p[0][0].Replace(network_port=11077), _WithId(p[0][1], 2, 11077)],
     "port 11077 is in use"),
    ("a name", lambda s, p: [i.Replace(name="new.org") for i, _ in p], "another instance has this name"),
    ("a disk", lambda s, p: [i.Replace(disks=[NEW_DISK]) for i, _ in p], f"disk {NEW_DISK} belongs to an instance"),
    ("a minor", lambda s, p: [_WithId(d, 3, 77) for _, d in p], "DRBD minor 77 of node"),
    ("a minor, nodes the other way round", lambda s, p: [_WithId(p[0][1], 3, 77), p[1][1].Replace(
        logical_id=[*reversed(s.nodes[:2]), 11012, 78, 77, "secret2"])], "DRBD minor 77 of node"),
    ("a secret", lambda s, p: [_WithId(d, 5, "shared") for _, d in p], "its DRBD secret is in use"),
    ("a volume", lambda s, p: [_WithVolume(d, "lv") for _, d in p], "logical volume xenvg/lv is in use"),
    ("the uuid of a child", lambda s, p: [d.Replace(children=[d.children[0].Replace(uuid=NEW), d.children[1]])
                                          for _, d in p], f"uuid {NEW} is in use"),
    ("an address of nodes", lambda s, p: [s.cfg.Snapshot().nodes[u].Replace(secondary_ip="198.51.100.77")
                                          for u in s.nodes[1:]], "address 198.51.100.77 is in use"),
    ("the primary address of another", lambda s, p: [s.cfg.Snapshot().nodes[s.nodes[2]].Replace(
        secondary_ip=s.cfg.Snapshot().nodes[s.nodes[1]].primary_ip)], "is in use"),
]  # fmt: skip


def _WithNic(instance: objects.Instance, **changes: Any) -> objects.Instance:
    return instance.Replace(nics=[instance.nics[0].Replace(**changes)])


def _WithId(disk: objects.Disk, index: int, value: Any) -> objects.Disk:
    items = list(disk.logical_id)
    items[index] = value
    return disk.Replace(logical_id=items)


def _WithVolume(disk: objects.Disk, name: str) -> objects.Disk:
    return disk.Replace(children=[disk.children[0].Replace(logical_id=["xenvg", name]), disk.children[1]])


@pytest.mark.parametrize(("make_targets", "message"), [c[1:] for c in TWICE], ids=[c[0] for c in TWICE])
def test_one_change_cannot_give_a_value_to_two(setup: Setup, make_targets: Any, message: str) -> None:
    """Neither of them had it before, so only the whole of the change shows it."""
    pair = _Pair(setup)
    setup.cfg.AddNetwork(_Network())
    setup.cfg.AddDisk(_NewDisk())
    before = setup.cfg.Snapshot()
    with pytest.raises(errors.ConfigurationError, match=re.escape(message)):
        setup.cfg.UpdateMany(make_targets(setup, pair), 1)
    assert setup.cfg.Newest() is before


def test_values_can_change_hands_in_one_step(setup: Setup) -> None:
    (one, disk1), (two, disk2) = _Pair(setup)
    setup.cfg.UpdateMany(
        [
            one.Replace(nics=two.nics, name=two.name, network_port=two.network_port, disks=two.disks),
            two.Replace(nics=one.nics, name=one.name, network_port=one.network_port, disks=one.disks),
            disk1.Replace(logical_id=disk2.logical_id, children=disk2.children),
            disk2.Replace(logical_id=disk1.logical_id, children=disk1.children),
        ],
        1,
    )
    root = setup.cfg.Snapshot()
    assert root.InstanceByName("i1.org") == root.instances[two.uuid]
    assert root.Users("MAC address", one.nics[0].mac) == (two.uuid,)
    assert setup.cfg.VerifyConfig() == []
    assert setup.Stored() == root


def test_a_value_that_two_have_already_keeps_neither_from_changing(make: Any) -> None:
    """A file edited by hand: the instances can still be started, and one of them is given another address."""
    root = configs.Example()
    web = root.instances[WEB]
    twin = web.Replace(uuid=NEW, name="twin", disks=[], network_port=None)
    s = make(2, root=root.WithObject(twin))
    assert any("MAC address" in text for text in s.cfg.VerifyConfig())
    assert s.cfg.MarkInstanceDown(WEB).admin_state == "down"
    nic = twin.nics[0].Replace(mac="aa:00:00:00:00:01", uuid=NEW_NET)
    s.cfg.Update(s.cfg.Snapshot().instances[NEW].Replace(nics=[nic]))
    assert s.cfg.VerifyConfig() == []


def test_filter_rules(setup: Setup) -> None:
    rule = objects.FilterRule(
        watermark=1, priority=0, action="PAUSE", predicates=[["jobid", [">", "id", "watermark"]]], uuid=NEW
    )

    def put(rule: objects.FilterRule) -> None:
        Begun(lambda done: setup.cfg.SetFilter(rule, done)).Result(20)

    put(rule)
    assert setup.cfg.Snapshot().filters == {NEW: rule}
    put(rule.Replace(priority=5))
    assert setup.cfg.Snapshot().filters[NEW].priority == 5
    with pytest.raises(errors.OpPrereqError, match="another object"):
        put(rule.Replace(uuid=WEB))
    Begun(lambda done: setup.cfg.RemoveFilter(NEW, done)).Result(20)
    assert not setup.cfg.Snapshot().filters
    assert setup.Stored() == setup.cfg.Snapshot()


def test_tags(setup: Setup) -> None:
    assert setup.cfg.AddTags("instance", WEB, ["z", "a"]).tags == ("a", "prod", "z")  # type: ignore[attr-defined]
    assert setup.cfg.RemoveTags("instance", WEB, ["a", "z"]).tags == ("prod",)  # type: ignore[attr-defined]


def test_an_update_of_the_cluster_keeps_ports_that_were_taken_meanwhile(setup: Setup) -> None:
    cluster = setup.cfg.Snapshot().cluster
    setup.cfg.RemoveInstance(WEB)
    after = setup.cfg.Snapshot().cluster
    assert sorted(after.tcpudp_port_pool) == [11000, 11001]
    stored = setup.cfg.Update(cluster.Replace(serial_no=after.serial_no, max_running_jobs=3))
    assert (stored.max_running_jobs, sorted(stored.tcpudp_port_pool)) == (3, [11000, 11001])


def test_who_the_master_is(setup: Setup) -> None:
    parameters = setup.cfg.GetMasterNetworkParameters()
    assert parameters == (setup.nodes[0], "192.0.2.1", 32, "br0", 2)


def _Steps(instances: int) -> int:
    """How many calls of functions a job's change takes: adding an instance, changing it, removing it."""
    work = Work(instances)
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        uuid = work.Add()
        work.cfg.MarkInstanceDown(uuid)
        work.cfg.RemoveInstance(uuid)
    finally:
        sys.setprofile(None)
    return calls


def test_a_change_takes_as_many_steps_in_a_large_cluster_as_in_a_small_one() -> None:
    """Names, indexes, uniqueness, free values: nothing looks at every object."""
    few, many = _Steps(300), _Steps(3000)
    assert many < few * 1.2
