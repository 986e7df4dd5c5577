"""gnt-network connect."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_network import groups
from ganeti.client.shared import typed
from ganeti.opcodes import OpNetworkConnect
from ganeti.params import nic


def Run(options: Options, arguments: list[str]) -> int:
    network, *names = arguments
    params = {**nic.DEFAULTS, **typed.Nic(options.nicparams)}
    for group in groups.Chosen(names):
        op = jobs.FromOptions(
            OpNetworkConnect,
            options,
            network_name=network,
            group_name=group,
            network_mode=params[nic.NIC_MODE],
            network_link=params[nic.NIC_LINK],
            network_vlan=params[nic.NIC_VLAN],
        )
        jobs.SubmitOpCode(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Connect a network to node groups, so that their instances can use it",
    (One("network"), AnyNumber("group")),
    (
        o.NIC_PARAMETERS.But(
            help="How NICs in the network are connected on the nodes of the groups", grammar="connection"
        ),
        o.NO_CONFLICTS_CHECK.But(help="Connect although instances of the groups use addresses of the network"),
        *o.SET_PRIORITY,
    ),
    details="Without a group the network is connected to all groups, one after the other.  Parameters that are not given have"
    f" these values, whatever the cluster's defaults are: {nic.NIC_MODE}={nic.DEFAULTS[nic.NIC_MODE]},"
    f" {nic.NIC_LINK}={nic.DEFAULTS[nic.NIC_LINK]}, no {nic.NIC_VLAN}.",
)
