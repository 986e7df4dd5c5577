"""Networks come and go, are connected and disconnected."""

from __future__ import annotations

from typing import Any

import pytest
from support.configs import GROUP, WEB
from support.master import Master

from ganeti import errors, locking, network, objects, opcodes

NET = "198.51.100.0/28"


def _Refused(master: Master, op: opcodes.OpCode, match: str, ecode: str = errors.ECODE_INVAL) -> None:
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(op)
    assert caught.value.args[1] == ecode and master.snapshot is before


def _Network(master: Master, name: str = "net") -> objects.Network:
    found = master.snapshot.NetworkByName(name)
    assert found is not None
    return found


def _Add(master: Master, **values: Any) -> objects.Network:
    options = {"network_name": "net", "network": NET, "conflicts_check": False, **values}
    assert master.Run(opcodes.OpNetworkAdd(**options)) is None
    return _Network(master, options["network_name"])


def _Taken(master: Master, external: bool = True) -> list[str]:
    """Last numbers of the addresses that are taken."""
    pool = network.AddressPool(_Network(master))
    names = [f"198.51.100.{number}" for number in range(16)]
    return [name.rpartition(".")[2] for name in names if pool.IsReserved(name, external=external)]


def _Connect(master: Master, **values: Any) -> Any:
    options = {"network_name": "net", "group_name": "default", "network_mode": "bridged", "network_link": "br0"}
    return master.Run(opcodes.OpNetworkConnect(**{**options, **values}))


def _Messages(master: Master) -> str:
    return "\n".join(master.last.messages)


# --- adding -------------------------------------------------------------------------------------------------------------


def test_a_network_comes_and_goes(master: Master) -> None:
    net = _Add(
        master,
        gateway="198.51.100.14",
        network6="2001:db8::/64",
        gateway6="2001:db8::1",
        mac_prefix="AA:00:55",
        add_reserved_ips=["198.51.100.5", "198.51.100.5"],
        tags=["x", "a"],
    )
    assert (net.gateway, net.network6, net.gateway6) == ("198.51.100.14", "2001:db8::/64", "2001:db8::1")
    assert (net.mac_prefix, net.tags, net.serial_no) == ("aa:00:55", ("a", "x"), 1)
    assert _Taken(master) == ["0", "5", "14", "15"] and _Taken(master, external=False) == []
    assert net.uuid in master.glm.Names(locking.LEVEL_NETWORK)
    env = master[0].hook_runs[0][2]
    assert env["GANETI_NETWORK_NAME"] == "net" and env["GANETI_NETWORK_SUBNET"] == NET
    assert env["GANETI_NETWORK_GATEWAY"] == "198.51.100.14" and env["GANETI_NETWORK_TAGS"] == "a x"
    assert master.Run(opcodes.OpNetworkRename(network_name="net", new_name="other")) == "other"
    master.Run(opcodes.OpNetworkRemove(network_name="other"))
    assert not master.snapshot.networks and not master.glm.Names(locking.LEVEL_NETWORK)


def test_own_addresses_are_not_handed_out(master: Master) -> None:
    """The nodes' secondary addresses are 198.51.100.1 and .2."""
    _Add(master, conflicts_check=True)
    assert _Taken(master, external=False) == ["1", "2"] and _Taken(master) == ["0", "15"]
    assert "Reserved IP address 198.51.100.2 of node node2.example.org" in _Messages(master)
    assert "Cannot reserve" not in _Messages(master)  # the other addresses of the nodes are none of this network
    master.Run(opcodes.OpNetworkRemove(network_name="net"))
    _Add(master, conflicts_check=True, gateway="198.51.100.1")
    assert "Cannot reserve IP address 198.51.100.1 of node node1.example.org" in _Messages(master)
    master.Run(opcodes.OpNetworkRemove(network_name="net"))
    _Add(master)
    assert _Taken(master, external=False) == []


@pytest.mark.parametrize(
    ("match", "values"),
    [
        ("is not a valid IPv4 address", {"gateway": "198.51.100.300"}),
        ("is not a valid IPv6 network", {"network6": "2001:db8::1/64"}),
        ("is not a valid IPv6 address", {"gateway6": "1.2.3.4"}),
        ("is not a valid IPv6 address", {"gateway6": "fe80::1%eth0\nX=1"}),
        ("is not a valid IPv6 network", {"network6": "2001:db8::%\0/64"}),
        ("not a valid MAC prefix", {"mac_prefix": "xx"}),
        ("is not a valid IPv4 address", {"add_reserved_ips": ["net"]}),
        ("other than letters", {"tags": ["a b"]}),
    ],
)
def test_what_cannot_be(master: Master, match: str, values: dict[str, Any]) -> None:
    _Refused(master, opcodes.OpNetworkAdd(network_name="net", network=NET, **values), match)


@pytest.mark.parametrize(
    ("match", "values"),
    [
        ("IPv4 network", {"network": "here"}),
        ("prefix must be /16 to /30", {"network": "10.0.0.0/8"}),
        ("not in network", {"gateway": "192.0.2.1"}),
        ("reserved externally already", {"add_reserved_ips": ["198.51.100.0"]}),
    ],
)
def test_a_pool_that_cannot_be(master: Master, match: str, values: dict[str, Any]) -> None:
    with pytest.raises(errors.OpExecError, match=match):
        _Add(master, **values)
    assert not master.snapshot.networks and not master.glm.Names(locking.LEVEL_NETWORK)


def test_names_are_unique(master: Master) -> None:
    _Add(master)
    _Refused(master, opcodes.OpNetworkAdd(network_name="net", network=NET), "already exists", errors.ECODE_EXISTS)
    _Add(master, network_name="two", network="192.0.2.0/24")
    _Refused(master, opcodes.OpNetworkRename(network_name="two", new_name="net"), "already exists", errors.ECODE_EXISTS)
    _Refused(master, opcodes.OpNetworkRename(network_name="two", new_name="a\nb"), "line breaks", errors.ECODE_INVAL)
    _Refused(master, opcodes.OpNetworkAdd(network_name="x" * 129, network=NET), "at most 128", errors.ECODE_INVAL)


# --- changing -----------------------------------------------------------------------------------------------------------


def _Set(master: Master, **values: Any) -> None:
    assert master.Run(opcodes.OpNetworkSetParams(network_name="net", **values)) is None


def test_the_gateway_moves(master: Master) -> None:
    _Add(master, gateway="198.51.100.14", mac_prefix="aa:00:55", network6="2001:db8::/64")
    _Set(master, gateway="198.51.100.13")
    assert _Taken(master) == ["0", "13", "15"] and _Network(master).gateway == "198.51.100.13"
    _Refused(
        master,
        opcodes.OpNetworkSetParams(network_name="net", gateway="198.51.100.15"),
        "already reserved",
        errors.ECODE_STATE,
    )
    _Refused(master, opcodes.OpNetworkSetParams(network_name="net", gateway="192.0.2.1"), "not in network")
    serial = _Network(master).serial_no
    _Set(master, gateway="198.51.100.13")  # as it is
    assert _Network(master).serial_no == serial and _Taken(master) == ["0", "13", "15"]
    _Set(master, gateway="none", mac_prefix="none", network6="none")
    net = _Network(master)
    assert (net.gateway, net.mac_prefix, net.network6) == (None, None, None) and _Taken(master) == ["0", "15"]
    op = opcodes.OpNetworkSetParams(network_name="net", gateway="198.51.100.1", add_reserved_ips=["198.51.100.2"])
    _Refused(master, op, "at once")


def test_reserved_addresses(master: Master) -> None:
    _Add(master, gateway="198.51.100.14")
    _Set(master, add_reserved_ips=["198.51.100.3", "198.51.100.4", "198.51.100.0"])
    assert _Taken(master) == ["0", "3", "4", "14", "15"]
    assert "Cannot reserve IP address 198.51.100.0" in _Messages(master)
    _Set(master, remove_reserved_ips=["198.51.100.3", "198.51.100.14", "198.51.100.9"])
    assert _Taken(master) == ["0", "4", "14", "15"]
    assert "Cannot unreserve the gateway's IP address 198.51.100.14" in _Messages(master)
    assert "198.51.100.9" in _Messages(master)
    for name in ("add_reserved_ips", "remove_reserved_ips"):
        op = opcodes.OpNetworkSetParams(network_name="net", **{name: ["198.51.100.5", "198.51.100.16"]})
        _Refused(master, op, "198.51.100.16 is not in network net")
        op = opcodes.OpNetworkSetParams(network_name="net", **{name: ["198.51.100.5/32"]})
        _Refused(master, op, "'198.51.100.5/32' is not a valid IPv4 address")


def test_addresses_of_instances_stay_theirs(master: Master) -> None:
    net = _Add(master)

    def take(name: str, args: Any) -> None:
        """Another job's instance gets an address while this job has the network's old state in hand."""
        if name == "hooks_runner" and "9" not in _Taken(master, external=False):
            master.cfg.Transact(lambda draft: draft.Put(net.Replace(reservations="0000000001000000")))

    master[0].before = take
    _Set(master, add_reserved_ips=["198.51.100.3"])
    assert _Taken(master, external=False) == ["9"] and _Taken(master) == ["0", "3", "15"]
    _Set(master, add_reserved_ips=["198.51.100.9"])
    assert "reserved for an instance" in _Messages(master)


def test_a_network_whose_reservations_contradict_each_other_is_not_changed(master: Master) -> None:
    """As a configuration from elsewhere may have them."""
    net = _Add(master)
    both = net.Replace(reservations="1" + "0" * 15)
    master.cfg.Transact(lambda draft: draft.Put(both))
    with pytest.raises(errors.OpExecError, match=r"198\.51\.100\.0 is reserved for an instance and externally"):
        _Set(master, add_reserved_ips=["198.51.100.3"])
    assert _Network(master) == both


def test_an_address_that_a_job_was_given_is_not_reserved(master: Master) -> None:
    net = _Add(master)
    address = master.cfg.GenerateIp(net.uuid, "job-77")
    assert address == "198.51.100.1"
    op = opcodes.OpNetworkSetParams(network_name="net", gateway=address)
    _Refused(master, op, "198.51.100.1 is reserved by job job-77", errors.ECODE_NOTUNIQUE)
    _Set(master, add_reserved_ips=[address, "198.51.100.2"])
    assert "Cannot reserve IP address 198.51.100.1" in _Messages(master) and _Taken(master) == ["0", "2", "15"]
    inst = master.snapshot.instances[WEB]
    master.cfg.Update(inst.Replace(nics=[inst.nics[0].Replace(ip=address, network=net.uuid)]), "job-77")
    assert _Taken(master, external=False) == ["1"]
    _Refused(master, op, "is already reserved", errors.ECODE_STATE)


def test_no_job_is_given_the_gateway_before_it_is_stored(master: Master) -> None:
    net = _Add(master)
    given: list[str] = []

    def give(name: str, args: Any) -> None:
        """Another job wants an address when this one has looked and has not stored yet."""
        if name == "hooks_runner" and not given:
            given.append(master.cfg.GenerateIp(net.uuid, "job-77"))

    master[0].before = give
    _Set(master, gateway="198.51.100.1")
    assert given == ["198.51.100.2"] and _Taken(master) == ["0", "1", "15"]
    inst = master.snapshot.instances[WEB]
    master.cfg.Update(inst.Replace(nics=[inst.nics[0].Replace(ip=given[0], network=net.uuid)]), "job-77")
    assert _Taken(master, external=False) == ["2"]


def test_the_ends_of_a_network_stay_reserved(master: Master) -> None:
    _Add(master)
    for address in ("198.51.100.0", "198.51.100.15"):
        op = opcodes.OpNetworkSetParams(network_name="net", remove_reserved_ips=["198.51.100.3", address])
        _Refused(master, op, f"{address} is the first or last of network net")


# --- groups -------------------------------------------------------------------------------------------------------------


def test_a_group_is_connected_and_disconnected(master: Master) -> None:
    net = _Add(master)
    _Connect(master, network_vlan="7")
    wanted = {"mode": "bridged", "link": "br0", "vlan": ".7"}
    assert master.snapshot.nodegroups[GROUP].networks[net.uuid] == wanted
    runs = [(path, env) for path, phase, env in master[1].hook_runs if phase == "pre"]
    assert runs[0][0] == "network-connect" and runs[0][1]["GANETI_GROUP_NETWORK_VLAN"] == ".7"
    serial = master.snapshot.serial_no
    _Connect(master, network_mode="routed")
    assert master.snapshot.serial_no == serial
    assert (
        "already mapped to group 'default', with other parameters, which are kept: link=br0, mode=bridged"
        in _Messages(master)
    )
    assert "'gnt-network disconnect net default' first" in _Messages(master)
    _Connect(master, network_vlan="7")
    assert "already mapped" in _Messages(master) and "other parameters" not in _Messages(master)
    _Refused(master, opcodes.OpNetworkRemove(network_name="net"), "following node groups: default", errors.ECODE_STATE)
    op = opcodes.OpNetworkDisconnect(network_name="net", group_name="default")
    master.Run(op)
    assert master.snapshot.nodegroups[GROUP].networks == {}
    assert master[1].hook_runs[-1][2]["GANETI_GROUP_NETWORK_LINK"] == "br0"
    serial = master.snapshot.serial_no
    master.Run(op)
    assert master.snapshot.serial_no == serial and "is not mapped" in _Messages(master)
    assert "GANETI_GROUP_NETWORK_LINK" not in master[1].hook_runs[-1][2]


def test_an_address_outside_of_the_network_is_no_conflict(master: Master) -> None:
    net = _Add(master)
    inst = master.snapshot.instances[WEB]
    master.cfg.Update(inst.Replace(nics=[inst.nics[0].Replace(ip="198.51.100.16")]))
    _Connect(master)
    assert net.uuid in master.snapshot.nodegroups[GROUP].networks


def test_what_is_so_already_needs_no_check(master: Master) -> None:
    """The addresses of a connected network are those of the group's instances; one that is not connected stays so."""
    net = _Add(master)
    _Connect(master)
    inst = master.snapshot.instances[WEB]
    nic = inst.nics[0].Replace(ip="198.51.100.7", network=net.uuid)
    inst = master.cfg.Update(inst.Replace(nics=[nic]))
    _Connect(master)
    assert "already mapped" in _Messages(master)
    group = master.snapshot.nodegroups[GROUP]
    master.cfg.Update(group.Replace(networks={}))  # as after moving the instance from another group
    master.Run(opcodes.OpNetworkDisconnect(network_name="net", group_name="default"))
    assert "is not mapped" in _Messages(master)


def test_what_cannot_be_connected(master: Master) -> None:
    _Add(master)
    for values, match in (
        ({"network_mode": "pool"}, "mode"),
        ({"network_vlan": "x"}, "vlan"),
    ):
        with pytest.raises(errors.OpPrereqError, match=match) as caught:
            _Connect(master, **values)
        assert caught.value.args[1] == errors.ECODE_INVAL
    with pytest.raises(errors.OpPrereqError, match="'far' not known"):
        _Connect(master, group_name="far")


def test_addresses_in_use_are_a_conflict(master: Master) -> None:
    net = _Add(master)
    inst = master.snapshot.instances[WEB]
    master.cfg.Update(inst.Replace(nics=[inst.nics[0].Replace(ip="198.51.100.7")]))
    with pytest.raises(errors.OpPrereqError, match=r"web.example.org \(NIC 0: 198.51.100.7\)") as caught:
        _Connect(master)
    assert caught.value.args[1] == errors.ECODE_STATE
    _Connect(master, conflicts_check=False)
    inst = master.snapshot.instances[WEB]
    master.cfg.Update(inst.Replace(nics=[inst.nics[0].Replace(network=net.uuid)]))
    with pytest.raises(errors.OpPrereqError, match=r"is used by instances.*web.example.org"):
        master.Run(opcodes.OpNetworkDisconnect(network_name="net", group_name="default"))


def test_what_is_locked(master: Master) -> None:
    net = _Add(master)
    held: set[str] = set()
    master[0].before = lambda name, args: held.update(
        f"{row.name} {row.mode}" for row in master.glm.QueryLocks() if row.owner and row.name != "cluster/BGL"
    )
    expected = {"instance/web.example.org shared", f"nodegroup/{GROUP} exclusive"}
    _Connect(master)
    assert held == {*expected, f"network/{net.uuid} shared"}
    held.clear()
    master.Run(opcodes.OpNetworkDisconnect(network_name="net", group_name="default"))
    assert held == expected
    held.clear()
    _Connect(master, conflicts_check=False)
    assert held == {f"nodegroup/{GROUP} exclusive"}
