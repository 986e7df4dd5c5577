"""gnt-network disconnect."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_network import groups
from ganeti.opcodes import OpNetworkDisconnect


def Run(options: Options, arguments: list[str]) -> int:
    network, *names = arguments
    for group in groups.Chosen(names):
        jobs.SubmitOpCode(OpNetworkDisconnect(network_name=network, group_name=group), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Disconnect a network from node groups whose instances do not use it",
    (One("network"), AnyNumber("group")),
    o.SET_PRIORITY,
    details="Without a group the network is disconnected from all groups, one after the other.",
)
