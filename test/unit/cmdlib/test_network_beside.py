"""Networks change while other jobs are at work: who waits for whom, and what is looked at again."""

from __future__ import annotations

from typing import Any

import pytest
from support.configs import GROUP
from support.master import Master
from support.sidejobs import Held, SideJob, Until

from ganeti import errors, opcodes
from ganeti.cmdlib.network import LUNetworkConnect

NET = "198.51.100.0/28"
WEB_NAME = "web.example.org"


def _Add(master: Master) -> str:
    master.Run(opcodes.OpNetworkAdd(network_name="net", network=NET, conflicts_check=False))
    return next(iter(master.snapshot.networks))


def _Connect(**values: Any) -> opcodes.OpNetworkConnect:
    options = {"network_name": "net", "group_name": "default", "network_mode": "bridged", "network_link": "br0"}
    return opcodes.OpNetworkConnect(**{**options, **values})


_DISCONNECT = opcodes.OpNetworkDisconnect(network_name="net", group_name="default")
_REMOVE = opcodes.OpNetworkRemove(network_name="net")


def _Waits(master: Master, lock: str) -> None:
    """Waits until somebody waits for a lock."""
    Until(lambda: any(row.pending for row in master.glm.QueryLocks() if row.name == lock))


def test_jobs_of_networks_run_beside_a_job_that_takes_long(master: Master) -> None:
    held = Held(master, 1, "test_delay")
    delay = SideJob(master, opcodes.OpTestDelay(duration=0, on_nodes=[master[1].name], on_master=False), 950)
    held.Begun()
    for op in (
        opcodes.OpNetworkAdd(network_name="net", network=NET, conflicts_check=False),
        opcodes.OpNetworkSetParams(network_name="net", add_reserved_ips=["198.51.100.3"]),
        _Connect(),
        _DISCONNECT,
        opcodes.OpNetworkRename(network_name="net", new_name="other"),
        opcodes.OpNetworkRemove(network_name="other"),
    ):
        SideJob(master, op).Result()
    assert not delay.ended and not master.snapshot.networks
    held.Go()
    delay.Result()


def test_own_addresses_are_reserved_when_nobody_changes_a_node(master: Master) -> None:
    """A node that gets another secondary address meanwhile would leave the network with an address too many or too few."""
    held = Held(master, 1, "test_delay")
    delay = SideJob(master, opcodes.OpTestDelay(duration=0, on_nodes=[master[1].name], on_master=False), 950)
    held.Begun()
    adding = SideJob(master, opcodes.OpNetworkAdd(network_name="net", network=NET, conflicts_check=True))
    _Waits(master, f"node/{master.nodes[1]}")
    node = master.snapshot.nodes[master.nodes[1]]
    master.cfg.Update(node.Replace(secondary_ip="198.51.100.7"))
    held.Go()
    delay.Result()
    adding.Result()
    assert "Reserved IP address 198.51.100.7 of node node2.example.org" in "\n".join(adding.callbacks.messages)


@pytest.mark.parametrize("conflicts_check", [True, False])
def test_a_network_that_a_group_is_being_connected_to_is_not_removed(master: Master, conflicts_check: bool) -> None:
    net = _Add(master)
    held = Held(master, 0, "hooks_runner")
    connecting = SideJob(master, _Connect(conflicts_check=conflicts_check))
    held.Begun()
    removing = SideJob(master, _REMOVE, 901)
    _Waits(master, f"nodegroup/{GROUP}")
    held.Go()
    connecting.Result()
    with pytest.raises(errors.OpPrereqError, match="connected to the following node groups: default"):
        removing.Result()
    assert net in master.snapshot.nodegroups[GROUP].networks and net in master.snapshot.networks


@pytest.mark.parametrize("op", [_Connect(conflicts_check=False), _DISCONNECT, _REMOVE], ids=lambda op: op.OP_ID)
def test_a_network_that_was_removed_while_a_job_waited_is_named(master: Master, op: opcodes.OpCode) -> None:
    """It waits for the group, which the removal needs too."""
    _Add(master)
    held = Held(master, 0, "hooks_runner")
    removing = SideJob(master, _REMOVE)
    held.Begun()
    late = SideJob(master, op, 901)
    network_first = isinstance(op, opcodes.OpNetworkRemove)
    _Waits(master, f"network/{next(iter(master.snapshot.networks))}" if network_first else f"nodegroup/{GROUP}")
    held.Go()
    removing.Result()
    with pytest.raises(errors.OpPrereqError, match="Network 'net' was removed") as caught:
        late.Result()
    assert caught.value.args[1] == errors.ECODE_NOENT
    assert master.snapshot.nodegroups[GROUP].networks == {}


def test_instances_that_come_into_the_group_meanwhile_are_noticed(master: Master) -> None:
    """The instance's NIC was not looked at under its lock: nobody kept another job from giving it an address of the network."""
    net = _Add(master)
    master.Run(opcodes.OpGroupAdd(group_name="far"))
    far = next(uuid for uuid, group in master.snapshot.nodegroups.items() if group.name == "far")

    class Late(LUNetworkConnect):
        def ExpandNames(self) -> None:
            super().ExpandNames()
            with master.Elsewhere():
                self.cfg.AssignGroupNodes([(master.nodes[1], far)])

    with pytest.raises(errors.OpPrereqError, match=r"Instances in node group 'far' changed.*retry") as caught:
        master.Run(_Connect(group_name="far"), units={"OP_NETWORK_CONNECT": Late})
    assert caught.value.args[1] == errors.ECODE_STATE
    assert net not in master.snapshot.nodegroups[far].networks


def test_a_group_or_an_instance_of_it_that_is_removed_meanwhile_is_named(master: Master) -> None:
    _Add(master)
    master.Run(opcodes.OpGroupAdd(group_name="far"))
    far = next(uuid for uuid, group in master.snapshot.nodegroups.items() if group.name == "far")
    for lock, gone, op, match in (
        (
            f"nodegroup/{far}",
            opcodes.OpGroupRemove(group_name="far"),
            _Connect(group_name="far"),
            "Group 'far' was removed",
        ),
        (f"instance/{WEB_NAME}", opcodes.OpInstanceRemove(instance_name=WEB_NAME), _Connect(), "Instances.*retry"),
    ):
        held = Held(master, 0, "hooks_runner")
        removing = SideJob(master, gone)
        held.Begun()
        late = SideJob(master, op, 901)
        _Waits(master, lock)
        held.Go()
        removing.Result()
        with pytest.raises(errors.OpPrereqError, match=match):
            late.Result()


def test_no_nic_gets_an_address_of_a_network_that_is_being_connected(master: Master) -> None:
    """The answer about conflicts holds until the group is changed."""
    _Add(master)
    first, late = _Beside(master, _Connect(), {"ip": "198.51.100.7"})
    first.Result()
    late.Result()


def test_no_nic_gets_into_a_network_that_is_being_disconnected(master: Master) -> None:
    net = _Add(master)
    master.Run(_Connect())
    first, late = _Beside(master, _DISCONNECT, {"ip": "198.51.100.7", "network": "net"})
    first.Result()
    with pytest.raises(errors.OpPrereqError, match="not connected"):
        late.Result()
    assert all(item.network != net for inst in master.snapshot.instances.values() for item in inst.nics)


def _Beside(master: Master, op: opcodes.OpCode, nic: dict[str, str]) -> tuple[SideJob, SideJob]:
    """Return a job and one that came later and waits for it, which gives the instance's NIC other values."""
    held = Held(master, 0, "hooks_runner")
    first = SideJob(master, op)
    held.Begun()
    modify = opcodes.OpInstanceSetParams(instance_name=WEB_NAME, nics=[("modify", 0, nic)], conflicts_check=False)
    late = SideJob(master, modify, 901)
    _Waits(master, f"instance/{WEB_NAME}")
    held.Go()
    return first, late
