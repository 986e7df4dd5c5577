"""Instances and disks: what belongs together changes together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import configs
from support.writers import Setup

from ganeti import configfile, errors, objects
from ganeti.config import Draft

WEB, DISK = configs.WEB, configs.WEB_DISK
NEW = configs.Uuid(600)


def _Plain(number: int, **values: Any) -> objects.Disk:
    given_values = {"dev_type": "plain", "logical_id": ["xenvg", f"lv{number}"], "size": 1024, **values}
    return objects.Disk(uuid=configs.Uuid(500 + number), **given_values)


def _Instance(s: Setup, **values: Any) -> objects.Instance:
    base: dict[str, Any] = {
        "name": "new.example.org", "primary_node": s.nodes[0], "os": "debian", "hypervisor": "kvm", "admin_state": "down",
        "disks_active": False, "uuid": NEW,
    }  # fmt: skip
    return objects.Instance(**{**base, **values})


def _Names(s: Setup, uuid: str = WEB) -> list[tuple[str, str]]:
    root = s.cfg.Snapshot()
    return [(disk.uuid, disk.iv_name) for disk in root.InstanceDisks(root.instances[uuid])]


def test_an_instance_with_its_disks_in_one_step(setup: Setup) -> None:
    cfg = setup.cfg
    disks = [_Plain(number, iv_name="") for number in range(3)]
    before = cfg.Snapshot().serial_no
    added = cfg.AddInstance(_Instance(setup, disks=[disk.uuid for disk in disks]), 1, disks=disks)
    assert added.serial_no == 1
    assert _Names(setup, NEW) == [(configs.Uuid(500 + n), f"disk/{n}") for n in range(3)]
    assert cfg.Snapshot().serial_no == before + 1 + 3
    assert cfg.VerifyConfig() == []
    with pytest.raises(errors.ConfigurationError):
        cfg.AddInstance(_Instance(setup, uuid=configs.Uuid(601), disks=[]), 1, disks=[_Plain(9)])
    assert configs.Uuid(509) not in cfg.Newest().disks, "all or none"
    cfg.RemoveInstance(NEW)
    assert not any(disk.uuid in cfg.Snapshot().disks for disk in disks)
    assert setup.Stored() == cfg.Snapshot()


@pytest.mark.req("D20-DISK-02", "D20-DISK-03")
def test_minor_and_port_of_a_disk_are_kept_in_the_configuration(setup: Setup) -> None:
    cfg = setup.cfg
    pair = setup.nodes[:2]
    minors = cfg.AllocateDRBDMinor(pair, configs.Uuid(500), 1)
    port = cfg.AllocatePort(1)
    drbd = _Plain(0, dev_type="drbd", logical_id=[*pair, port, *minors, cfg.GenerateDRBDSecret(1)], nodes=pair)
    cfg.AddInstance(_Instance(setup, disks=[drbd.uuid]), 1, disks=[drbd])
    cfg.DropECReservations(1)
    stored = setup.Stored().disks[drbd.uuid]
    assert stored.logical_id[2:5] == (port, *minors)
    assert cfg.VerifyConfig() == []
    # The secondary moves: another minor there, which differs from the old one, kept as well.
    for number in range(minors[1] + 1):
        cfg.AllocateDRBDMinor([setup.nodes[2]], configs.Uuid(700 + number), 3)
    (minor,) = cfg.AllocateDRBDMinor([setup.nodes[2]], drbd.uuid, 2)
    assert minor == minors[1] + 1
    moved = [pair[0], setup.nodes[2], port, minors[0], minor, "s"]
    cfg.Update(cfg.Snapshot().disks[drbd.uuid].Replace(logical_id=moved, nodes=[pair[0], setup.nodes[2]]), 2)
    assert cfg._reservations.Count(2) == 0
    assert setup.Stored().UsedMinors(setup.nodes[2]) == {minor: drbd.uuid}
    assert drbd.uuid not in setup.Stored().UsedMinors(pair[1]).values()
    assert cfg.Snapshot().SecondaryNodes(cfg.Snapshot().instances[NEW]) == (setup.nodes[2],)


def test_a_reservation_becomes_a_real_instance(setup: Setup) -> None:
    cfg = setup.cfg
    disk = objects.Disk.FromDict({"forthcoming": True, "uuid": configs.Uuid(500), "serial_no": 1, "size": 1024})
    soon = objects.Instance.FromDict(
        {"forthcoming": True, "uuid": NEW, "serial_no": 1, "name": "new.example.org", "disks": [disk.uuid]}
    )
    cfg.AddInstance(soon, 1, disks=[disk])
    assert setup.Stored().instances[NEW].forthcoming
    assert cfg.VerifyConfig() == []
    with pytest.raises(errors.ConfigurationError, match="in use already"):
        cfg.AddInstance(_Instance(setup), 1)
    real = cfg.AddInstance(_Instance(setup, disks=[disk.uuid]), 1, disks=[_Plain(0)], replace=True)
    assert (real.forthcoming, real.serial_no, real.uuid) == (None, 1, NEW)
    assert setup.Stored().disks[disk.uuid].forthcoming is None
    assert cfg.VerifyConfig() == []
    with pytest.raises(errors.ConfigurationError, match="is not a reservation"):
        cfg.AddInstance(_Instance(setup, disks=[disk.uuid]), 1, replace=True)


@pytest.mark.parametrize(
    ("kind", "path", "renamed"),
    [
        ("file", "/srv/file-storage/web.example.org/u.file.disk0", "/srv/file-storage/other.org/u.file.disk0"),
        ("sharedfile", "/srv/shared/dir/web.example.org/u", "/srv/shared/dir/other.org/u"),
        ("file", "/srv/elsewhere/u.file.disk0", "/srv/elsewhere/u.file.disk0"),
        ("plain", "web.example.org", "web.example.org"),
        ("gluster", "ganeti/web.example.org/u", "ganeti/web.example.org/u"),
    ],
)
def test_renaming_moves_the_paths_of_files(setup: Setup, kind: str, path: str, renamed: str) -> None:
    cfg = setup.cfg
    cfg.AddInstanceDisk(WEB, _Plain(0, dev_type=kind, logical_id=["loop", path]))
    cfg.RenameInstance(WEB, "other.org")
    assert cfg.Snapshot().disks[configs.Uuid(500)].logical_id == ("loop", renamed)
    assert cfg.Snapshot().disks[DISK].logical_id[2] == 11001
    assert cfg.Snapshot().InstanceByName("other.org") is not None
    assert cfg.Snapshot().InstanceByName("web.example.org") is None
    with pytest.raises(errors.ConfigurationError, match="has this name already"):
        cfg.AddInstance(_Instance(setup, name="other.org"), 1)
    cfg.AddInstance(_Instance(setup, name="web.example.org"), 1)


def test_disks_are_numbered_in_order(setup: Setup) -> None:
    cfg = setup.cfg
    a, b, c = (configs.Uuid(500 + n) for n in range(3))
    cfg.AddInstanceDisk(WEB, _Plain(0))
    cfg.AddInstanceDisk(WEB, _Plain(1), index=0)
    cfg.AddDisk(_Plain(2))
    assert cfg.Snapshot().disks[c].iv_name == ""
    cfg.AttachInstanceDisk(WEB, c, index=1)
    assert _Names(setup) == [(b, "disk/0"), (c, "disk/1"), (DISK, "disk/2"), (a, "disk/3")]
    cfg.DetachInstanceDisk(WEB, c)
    assert cfg.Snapshot().disks[c].iv_name == ""
    assert cfg.Snapshot().DiskOwner(c) is None
    cfg.RemoveInstanceDisk(WEB, b)
    assert _Names(setup) == [(DISK, "disk/0"), (a, "disk/1")]
    assert b not in cfg.Snapshot().disks
    cfg.RemoveDisk(c)
    assert cfg.VerifyConfig() == []
    assert setup.Stored() == cfg.Snapshot()


@pytest.mark.parametrize(
    ("calls", "state", "active", "source"),
    [
        (["Up"], "up", True, "admin"),
        (["Down"], "down", True, "admin"),
        (["DisksInactive", "Up"], "up", True, "admin"),
        (["Offline"], "offline", False, "admin"),
        (["UserDown"], "down", True, "user"),
        (["UserDown", "Down"], "down", True, "admin"),
        (["Offline", "DisksActive"], "offline", True, "admin"),
        (["Down", "DisksInactive"], "down", False, "admin"),
    ],
)
def test_states(setup: Setup, calls: list[str], state: str, active: bool, source: str) -> None:
    for call in calls:
        getattr(setup.cfg, f"MarkInstance{call}")(WEB)
    web = setup.Stored().instances[WEB]
    assert (web.admin_state, web.disks_active, web.admin_state_source) == (state, active, source)


@pytest.mark.req("RM-SOR-10")
def test_an_offline_instance_keeps_its_addresses_and_disks(setup: Setup) -> None:
    cfg = setup.cfg
    cfg.MarkInstanceOffline(WEB)
    mac = cfg.Snapshot().instances[WEB].nics[0].mac
    with pytest.raises(errors.ReservationError, match="in use already"):
        cfg.ReserveMAC(mac, 1)
    with pytest.raises(errors.ConfigurationError, match="it is attached to"):
        cfg.RemoveDisk(DISK)
    assert cfg.AllocateDRBDMinor(setup.nodes[:2], "x", 1) == [1, 1]


# --- any sequence of changes --------------------------------------------------------------------------------------------

_STEPS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


def _Do(s: Setup, step: tuple[int, int, int]) -> None:
    """One operation with arguments that often make sense and often do not."""
    what, a, b = step
    cfg = s.cfg
    root = cfg.Snapshot()
    inst, disk, node = configs.Uuid(600 + a), configs.Uuid(500 + b), s.nodes[a % len(s.nodes)]
    if what in (2, 3, 6, 11, 12, 13) and root.instances:
        inst = sorted(root.instances)[a % len(root.instances)]
    if what in (2, 4, 12) and root.disks:
        disk = sorted(root.disks)[b % len(root.disks)]
    if what == 3 and inst in root.instances and root.instances[inst].disks:
        disk = root.instances[inst].disks[0]
    if what == 0:
        nic = objects.NIC(mac=f"aa:00:00:00:00:0{b}", uuid=configs.Uuid(700 + a))
        cfg.AddInstance(_Instance(s, uuid=inst, name=f"n{a}", nics=[nic], primary_node=node, network_port=11003 + b), a)
    elif what == 1:
        pair = [s.nodes[a % len(s.nodes)], s.nodes[(a + 1) % len(s.nodes)]]
        drbd = {"dev_type": "drbd", "logical_id": [*pair, 11004 + a, a, b, f"{a}{b}"], "nodes": pair}
        cfg.AddDisk(_Plain(b, **(drbd if a else {})))
    elif what == 2:
        cfg.AttachInstanceDisk(inst, disk, index=-(b % 2))
    elif what == 3:
        cfg.DetachInstanceDisk(inst, disk)
    elif what == 4:
        cfg.RemoveDisk(disk)
    elif what == 5:
        cfg.RemoveInstance(inst if a else WEB)
    elif what == 6:
        cfg.RenameInstance(inst, f"n{b}")
    elif what == 7:
        cfg.RemoveNode(node)
    elif what == 8:
        cfg.AddNodeGroup(objects.NodeGroup(name=f"g{b}", uuid=configs.Uuid(800 + a)))
    elif what == 9:
        cfg.AssignGroupNodes([(node, configs.Uuid(800 + b))])
    elif what == 10:
        cfg.RemoveNodeGroup(configs.Uuid(800 + a))
    elif what == 11:
        cfg.Update(root.instances[inst].Replace(primary_node=node, network_port=11003 + b if b else None), a)
    elif what == 12:
        cfg.Update(root.instances[inst].Replace(disks=[disk], serial_no=root.instances[inst].serial_no + (b == 3)))
    else:
        cfg.SetInstancePrimaryNode(inst, node)


@given(steps=_STEPS)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_done_the_configuration_stays_sound(make: Any, steps: list[tuple[int, int, int]]) -> None:
    """Each change is done as a whole or refused as a whole; afterwards nothing contradicts, on disk as in memory."""
    s = make(3)
    try:
        for step in steps:
            before = s.cfg.Snapshot()
            try:
                _Do(s, step)
            except (errors.GenericError, KeyError):
                assert s.cfg.Newest() == before
            assert s.cfg.VerifyConfig() == []
            used = [port for port, _ in s.cfg.Snapshot().AllUsers("port")]
            assert not set(used) & set(s.cfg.Snapshot().cluster.tcpudp_port_pool)
            assert max([*used, 0]) <= s.cfg.Snapshot().cluster.highest_used_port
        assert s.Stored() == s.cfg.Snapshot()
        assert configfile.LoadConfig(objects.ConfigText(s.cfg.Snapshot())) == s.cfg.Snapshot()
    finally:
        s.Close()


def test_a_draft_reads_its_own_changes(setup: Setup) -> None:
    def change(draft: Draft) -> None:
        draft.Touch(draft.Get("instance", WEB).Replace(os="x"))
        assert draft.Get("instance", WEB).os == "x"
        assert draft.base.instances[WEB].os != "x"
        draft.Remove("instance", WEB)
        with pytest.raises(errors.ConfigurationError, match="removed meanwhile"):
            draft.Get("instance", WEB)
        draft.Put(draft.base.instances[WEB])

    setup.cfg.Transact(change)
    assert setup.cfg.Snapshot().instances[WEB].serial_no == 2
