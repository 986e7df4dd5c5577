"""gnt-network add."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options, Value
from ganeti.client.gnt_network.options import SET_ADDRESSES
from ganeti.opcodes import OpNetworkAdd

NETWORK = Value(
    "--network", dest="network", metavar="NETWORK", text="IPv4 network, such as 192.0.2.0/24; its prefix is /16 to /30"
)


def Run(options: Options, arguments: list[str]) -> int:
    if options.network is None:
        raise errors.OpPrereqError("The --network option must be given", errors.ECODE_INVAL)
    jobs.SubmitOrSend(jobs.FromOptions(OpNetworkAdd, options, network_name=arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Define a network",
    (One("new_network"),),
    (
        NETWORK,
        *SET_ADDRESSES,
        o.NO_CONFLICTS_CHECK.But(help="Do not reserve the addresses of nodes and cluster that lie in the network"),
        o.TAGS.But(help="Tags of the network"),
        *o.SET_JOB,
    ),
    details="The first and the last address of the network and its gateway are reserved, and so are addresses of nodes and"
    " cluster that lie in it.  NICs can use the network when it is connected to the node group: see 'gnt-network connect NETWORK'.",
)
