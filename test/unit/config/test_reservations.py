"""Values handed out to jobs: unique among all there is, dropped with the job (doc/reference/config.md 14, 17, 18)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support import configs
from support.writers import Setup

from ganeti import errors, ht, network, objects, runtime
from ganeti.config import reservations
from ganeti.config.values import NormalizeMAC, NormalizeMACPrefix

WEB, DISK = configs.WEB, configs.WEB_DISK
NET = configs.Uuid(700)
FIRST, SECOND = 1, 2  # jobs


def _Instance(s: Setup, number: int, **values: Any) -> objects.Instance:
    nic = objects.NIC(mac=f"aa:00:00:00:02:{number:02x}", uuid=configs.Uuid(900 + number), network=NET, ip=None)
    given = {"nics": [nic], **values}
    return objects.Instance(
        name=f"i{number}", primary_node=s.nodes[0], os="o", hypervisor="kvm", admin_state="down", disks_active=False,
        uuid=configs.Uuid(1000 + number), **given,
    )  # fmt: skip


def _Drbd(s: Setup, number: int, port: int, minors: list[int]) -> objects.Disk:
    pair = s.nodes[:2]
    return objects.Disk(
        dev_type="drbd",
        logical_id=[*pair, port, *minors, f"{number:040x}"],
        size=4,
        nodes=pair,
        uuid=configs.Uuid(2000 + number),
    )


def _InThreads(function: Callable[[int], list[Any]], count: int = 8) -> list[Any]:
    """What ``function`` returned in each of some threads, all together."""
    found: list[Any] = []
    threads = [runtime.Thread(lambda n: found.extend(function(n)), f"job-{n}", (n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive()
    return found


# --- uuids, MACs, secrets, volumes --------------------------------------------------------------------------------------


def test_values_handed_out_at_the_same_time_are_different(setup: Setup) -> None:
    cfg = setup.cfg
    root = cfg.Snapshot()
    pair = root.disks[DISK].nodes

    def job(number: int) -> list[Any]:
        made = []
        for step in range(12):
            made.append(("uuid", cfg.GenerateUniqueID(number)))
            made.append(("mac", cfg.GenerateMAC(None, number)))
            made.append(("secret", cfg.GenerateDRBDSecret(number)))
            made.append(("port", cfg.AllocatePort(number)))
            minors = cfg.AllocateDRBDMinor(pair, f"disk {number} {step}", number)
            made.extend(zip(pair, minors, strict=True))
        return made

    values = _InThreads(job)
    assert len(values) == 8 * 12 * 6
    assert len(set(values)) == len(values)
    minors = sorted(value for kind, value in values if kind == pair[0])
    assert minors == list(range(1, 97)), "the lowest free ones; 0 is in use"
    ports = sorted(value for kind, value in values if kind == "port")
    assert ports == list(range(11002, 11098))


def test_a_uuid_is_new_to_everything(setup: Setup) -> None:
    cfg = setup.cfg
    root = cfg.Snapshot()
    fresh = configs.Uuid(5)
    inner = root.disks[DISK].children[0].uuid
    used = [root.cluster.uuid, setup.nodes[0], configs.GROUP, WEB, DISK, inner, root.instances[WEB].nics[0].uuid]
    assert all(root.IsUuidUsed(uuid) for uuid in used)
    offered = iter([*used, fresh])
    held = reservations.Reservations()
    assert held.Generate(reservations.UUID, FIRST, lambda: next(offered), root.IsUuidUsed) == fresh
    with pytest.raises(errors.ConfigurationError, match="no unused uuid found in 64 tries"):
        held.Generate(reservations.UUID, SECOND, lambda: fresh, root.IsUuidUsed)
    held.Drop(FIRST)
    assert held.Generate(reservations.UUID, SECOND, lambda: fresh, root.IsUuidUsed) == fresh


def test_generated_values_have_their_form(setup: Setup) -> None:
    cfg = setup.cfg
    assert ht.TUuid(cfg.GenerateUniqueID(FIRST))
    assert re.fullmatch("aa:00:00(:[0-9a-f]{2}){3}", cfg.GenerateMAC(None, FIRST))
    assert re.fullmatch("[0-9a-f]{40}", cfg.GenerateDRBDSecret(FIRST))
    cfg.AddNetwork(objects.Network(name="lan", network="10.0.0.0/24", uuid=NET, mac_prefix="52:54:00"))
    assert cfg.GenerateMAC(NET, FIRST).startswith("52:54:00:")
    cfg.AddNetwork(objects.Network(name="plain", network="10.0.1.0/24", uuid=configs.Uuid(701)))
    assert cfg.GenerateMAC(configs.Uuid(701), FIRST).startswith("aa:00:00:")


def test_given_mac_addresses(setup: Setup) -> None:
    cfg = setup.cfg
    assert cfg.ReserveMAC("AA:00:00:00:00:07", FIRST) == "aa:00:00:00:00:07"
    assert cfg.ReserveMAC("aa:00:00:00:00:07", FIRST) == "aa:00:00:00:00:07", "the same job may ask again"
    with pytest.raises(errors.ReservationError, match="aa:00:00:00:00:07 is reserved by job 1"):
        cfg.ReserveMAC("aa:00:00:00:00:07", SECOND)
    with pytest.raises(errors.ReservationError, match="aa:00:00:3f:12:c4 is in use already"):
        cfg.ReserveMAC("aa:00:00:3f:12:c4", FIRST)
    for bad in ("", "aa", "aa:00:00:00:00:0g", "aa:00:00:00:00:00:00", "aa-00-00-00-00-01"):
        with pytest.raises(errors.OpPrereqError, match="is not a valid MAC address"):
            cfg.ReserveMAC(bad, FIRST)
    with pytest.raises(errors.OpPrereqError, match="multicast"):
        NormalizeMAC("01:00:5e:00:00:01")
    assert NormalizeMACPrefix("AA:00:0F") == "aa:00:0f"
    with pytest.raises(errors.OpPrereqError, match="is not a valid MAC prefix"):
        NormalizeMACPrefix("aa:00")


def test_given_volumes(setup: Setup) -> None:
    cfg = setup.cfg
    cfg.ReserveLV("xenvg/mine", FIRST)
    with pytest.raises(errors.ReservationError, match="xenvg/mine is reserved by job 1"):
        cfg.ReserveLV("xenvg/mine", SECOND)
    with pytest.raises(errors.ReservationError, match="is in use already"):
        cfg.ReserveLV("xenvg/00000077-aaaa-4bbb-8ccc-000000000077.disk0_data", FIRST)
    cfg.DropECReservations(FIRST)
    cfg.ReserveLV("xenvg/mine", SECOND)


# --- minors and ports ---------------------------------------------------------------------------------------------------


def test_a_minor_is_free_again_with_its_disk_stored_or_given_up(setup: Setup) -> None:
    cfg = setup.cfg
    pair = setup.nodes[:2]
    disk = _Drbd(setup, 1, 11002, [1, 1])
    assert cfg.AllocateDRBDMinor(pair, disk.uuid, FIRST) == [1, 1]
    assert cfg.AllocateDRBDMinor(pair, "another", SECOND) == [2, 2]
    assert cfg.AllocateDRBDMinor([setup.nodes[2]], "third", SECOND) == [0]
    cfg.AddDisk(disk)
    assert cfg._reservations.Count(FIRST) == 0
    cfg.ReleaseDRBDMinors("another")
    assert cfg.AllocateDRBDMinor(pair, "more", SECOND) == [2, 2]
    cfg.RemoveDisk(disk.uuid)
    assert cfg.AllocateDRBDMinor(pair, "yet more", SECOND) == [1, 1], "the hole is filled first"
    cfg.DropECReservations(SECOND)
    assert cfg.AllocateDRBDMinor(pair[::-1], "again", FIRST) == [1, 1]
    assert [cfg.Snapshot().UsedMinors(uuid) for uuid in setup.nodes] == [{0: DISK}, {0: DISK}, {}]
    with pytest.raises(errors.ProgrammerError, match="different nodes"):
        cfg.AllocateDRBDMinor([pair[0], pair[0]], "x", FIRST)


def test_ports_go_with_the_disk_and_come_back_with_it(setup: Setup) -> None:
    cfg = setup.cfg

    def state() -> tuple[int, tuple[int, ...]]:
        cluster = cfg.Snapshot().cluster
        return cluster.highest_used_port, cluster.tcpudp_port_pool

    assert cfg.AllocatePort(FIRST) == 11002
    assert cfg.AllocatePort(SECOND) == 11003
    assert state() == (11001, ()), "nothing is stored before something uses it"
    cfg.AddDisk(_Drbd(setup, 1, 11003, [1, 1]))
    assert state() == (11003, (11002,)), "the one below is the first job's"
    assert cfg.AllocatePort(SECOND) == 11004, "so nobody else gets it"
    cfg.AddInstance(_Instance(setup, 1, network_port=11002, nics=[]), FIRST)
    assert state() == (11003, ())
    cfg.DropECReservations(FIRST)
    cfg.DropECReservations(SECOND)
    assert cfg.AllocatePort(FIRST) == 11004
    cfg.RemoveDisk(_Drbd(setup, 1, 0, [0, 0]).uuid)
    assert state() == (11003, (11003,))
    cfg.RemoveInstance(WEB)
    assert state() == (11003, (11000, 11001, 11003)), "at the head, the highest stays"
    assert [cfg.AllocatePort(SECOND) for _ in range(4)] == [11000, 11001, 11003, 11005]
    cfg.Update(cfg.Snapshot().instances[configs.Uuid(1001)].Replace(network_port=None), FIRST)
    assert state()[1][0] == 11002
    assert cfg.VerifyConfig() == []


def test_the_end_of_the_range(make: Any) -> None:
    root = configs.Example()
    setup = make(1, root=root.WithObject(root.cluster.Replace(highest_used_port=14998)))
    assert setup.cfg.AllocatePort(FIRST) == 14999
    with pytest.raises(errors.ConfigurationError, match="all ports of 11000-14999 are in use"):
        setup.cfg.AllocatePort(SECOND)
    setup.cfg.DropECReservations(FIRST)
    assert setup.cfg.AllocatePort(SECOND) == 14999


# --- addresses ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lan(setup: Setup) -> Setup:
    """A network of six addresses; .1 is the gateway, .2 the administrator's."""
    pool = network.AddressPool.Initialize(
        objects.Network(name="lan", network="10.0.0.0/29", gateway="10.0.0.1", uuid=NET)
    )
    pool.Reserve("10.0.0.2", external=True)
    setup.cfg.AddNetwork(pool.Network())
    return setup


def _Map(s: Setup) -> str:
    return network.AddressPool(s.cfg.Snapshot().networks[NET]).GetMap()


def test_an_address_is_taken_with_the_instance(lan: Setup) -> None:
    cfg = lan.cfg
    assert _Map(lan) == "XXX....X"
    serial = cfg.Snapshot().networks[NET].serial_no
    assert cfg.GenerateIp(NET, FIRST) == "10.0.0.3"
    assert cfg.GenerateIp(NET, SECOND) == "10.0.0.4"
    assert _Map(lan) == "XXX....X", "not before the instance is stored"
    instance = _Instance(lan, 1)
    nic = instance.nics[0].Replace(ip="10.0.0.3")
    cfg.AddInstance(instance.Replace(nics=[nic]), FIRST)
    assert _Map(lan) == "XXXX...X"
    assert cfg.Snapshot().networks[NET].serial_no == serial
    assert cfg._reservations.Count(FIRST) == 0
    cfg.DropECReservations(SECOND)
    assert cfg.GenerateIp(NET, SECOND) == "10.0.0.4"
    cfg.RemoveInstance(instance.uuid)
    assert _Map(lan) == "XXX....X"
    assert lan.Stored() == cfg.Snapshot()


def test_changing_an_address(lan: Setup) -> None:
    cfg = lan.cfg
    instance = _Instance(lan, 1)
    cfg.ReserveIp(NET, "10.0.0.3", FIRST)
    stored = cfg.AddInstance(instance.Replace(nics=[instance.nics[0].Replace(ip="10.0.0.3")]), FIRST)
    cfg.ReleaseIp(NET, "10.0.0.3", SECOND)
    cfg.ReserveIp(NET, "10.0.0.5", SECOND)
    with pytest.raises(errors.ReservationError, match=r"10\.0\.0\.3 is in use already"):
        cfg.ReserveIp(NET, "10.0.0.3", 3)
    stored = cfg.Update(stored.Replace(nics=[stored.nics[0].Replace(ip="10.0.0.5")]), SECOND)
    assert _Map(lan) == "XXX..X.X"
    # There and back in one job is nothing.
    cfg.ReleaseIp(NET, "10.0.0.5", 3)
    cfg.ReserveIp(NET, "10.0.0.5", 3)
    assert cfg._reservations.Count(3) == 0
    assert cfg.Update(stored, 3) == stored
    assert _Map(lan) == "XXX..X.X"


def test_addresses_that_cannot_be_had(lan: Setup) -> None:
    cfg = lan.cfg
    cfg.ReserveIp(NET, "10.0.0.3", FIRST)
    for owner in (FIRST, SECOND):
        with pytest.raises(errors.ReservationError, match=r"10\.0\.0\.3 is reserved by job 1"):
            cfg.ReserveIp(NET, "10.0.0.3", owner)
    with pytest.raises(errors.ReservationError, match=r"10\.0\.0\.2 is reserved externally"):
        cfg.ReserveIp(NET, "10.0.0.2", FIRST)
    with pytest.raises(errors.AddressPoolError, match="is not in network lan"):
        cfg.ReserveIp(NET, "10.0.1.2", FIRST)
    with pytest.raises(errors.ConfigurationError, match="is not in the configuration"):
        cfg.ReserveIp(configs.Uuid(1), "10.0.0.2", FIRST)
    assert [cfg.GenerateIp(NET, SECOND) for _ in range(3)] == ["10.0.0.4", "10.0.0.5", "10.0.0.6"]
    with pytest.raises(errors.ReservationError, match="has no free address"):
        cfg.GenerateIp(NET, SECOND)


def test_an_administrators_address_stays_his(lan: Setup) -> None:
    """Without the conflicts check an instance may have it, and keeps it when he gives it back."""
    cfg = lan.cfg
    cfg.ReserveIp(NET, "10.0.0.2", FIRST, check=False)
    instance = _Instance(lan, 1)
    cfg.AddInstance(instance.Replace(nics=[instance.nics[0].Replace(ip="10.0.0.2")]), FIRST)
    assert cfg.Snapshot().networks[NET].reservations == "00000000"
    pool = network.AddressPool(cfg.Snapshot().networks[NET])
    pool.Release("10.0.0.2", external=True)
    cfg.Update(pool.Network())
    assert _Map(lan) == "XXX....X", "the instance still has it"
    cfg.RemoveInstance(instance.uuid)
    assert _Map(lan) == "XX.....X"


def test_an_instances_end_leaves_the_administrators_reservation(lan: Setup) -> None:
    cfg = lan.cfg
    cfg.ReserveIp(NET, "10.0.0.2", FIRST, check=False)
    instance = _Instance(lan, 1)
    cfg.AddInstance(instance.Replace(nics=[instance.nics[0].Replace(ip="10.0.0.2")]), FIRST)
    cfg.RemoveInstance(instance.uuid)
    assert _Map(lan) == "XXX....X"


def test_an_update_of_a_network_keeps_what_instances_took_meanwhile(lan: Setup) -> None:
    cfg = lan.cfg
    old = cfg.Snapshot().networks[NET]
    cfg.ReserveIp(NET, "10.0.0.3", FIRST)
    instance = _Instance(lan, 1)
    cfg.AddInstance(instance.Replace(nics=[instance.nics[0].Replace(ip="10.0.0.3")]), FIRST)
    pool = network.AddressPool(old)
    pool.Reserve("10.0.0.4", external=True)
    cfg.Update(pool.Network())
    assert _Map(lan) == "XXXXX..X"
    late = network.AddressPool(old)
    late.Reserve("10.0.0.3", external=True)
    with pytest.raises(errors.AddressPoolError, match=r"10\.0\.0\.3 is reserved for an instance and externally"):
        cfg.Update(late.Network().Replace(serial_no=2))


def test_addresses_at_the_same_time(setup: Setup) -> None:
    """Jobs that create instances with pool addresses, all at once: each gets its own, and all are marked."""
    cfg = setup.cfg
    cfg.AddNetwork(objects.Network(name="lan", network="10.0.0.0/26", uuid=NET))

    def job(number: int) -> list[str]:
        made = []
        for step in range(4):
            address = cfg.GenerateIp(NET, number)
            instance = _Instance(setup, number * 4 + step)
            cfg.AddInstance(instance.Replace(nics=[instance.nics[0].Replace(ip=address)]), number)
            made.append(address)
        return made

    found = _InThreads(job)
    assert len(set(found)) == len(found) == 32
    pool = network.AddressPool(cfg.Snapshot().networks[NET])
    assert pool.GetReservedCount() == 34
    assert all(pool.IsReserved(address, external=False) for address in found)
    assert setup.Stored() == cfg.Snapshot()


def test_networks_of_a_nodes_group(lan: Setup) -> None:
    cfg = lan.cfg
    node = lan.nodes[0]
    assert cfg.GetGroupNetParams(NET, node) is None
    assert cfg.CheckIPInNodeGroup("10.0.0.3", node) is None
    group = cfg.Snapshot().nodegroups[configs.GROUP]
    cfg.Update(group.Replace(networks={NET: {"mode": "bridged", "link": "br0", "vlan": ""}}))
    assert cfg.GetGroupNetParams(NET, node) == {"mode": "bridged", "link": "br0", "vlan": ""}
    found = cfg.CheckIPInNodeGroup("10.0.0.3", node)
    assert found is not None
    assert found.uuid == NET
    assert cfg.CheckIPInNodeGroup("10.9.0.3", node) is None
    with pytest.raises(errors.ConfigurationError, match="is connected to node groups"):
        cfg.RemoveNetwork(NET)


def test_dropping_takes_a_jobs_values_only() -> None:
    held = reservations.Reservations()
    for owner in (FIRST, SECOND):
        held.Reserve(reservations.VOLUME, f"v{owner}", owner, lambda _: False)
        held.TakeMinors(["n"], f"d{owner}", owner, lambda _: ())
        held.AddIp(owner, reservations.IpAction("reserve", f"10.0.0.{owner}", NET))
    held.Drop(FIRST)
    assert (held.Count(FIRST), held.Count(SECOND)) == (0, 3)
    assert held.Owner(reservations.VOLUME, "v1") is None
    assert held.Owner(reservations.VOLUME, "v2") == SECOND
    assert held.TakeMinors(["n"], "d", 3, lambda _: ()) == [0]
    assert held.ReservedIps(NET) == {"10.0.0.2": SECOND}
