"""gnt-network modify."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options, Value
from ganeti.client.gnt_network.options import SET_ADDRESSES
from ganeti.opcodes import OpNetworkSetParams

REMOVE_RESERVED_IPS = Value(
    "--remove-reserved-ips", dest="remove_reserved_ips", type="list", metavar="ADDRESS,...",
    text="Addresses that instances may get again",
)  # fmt: skip


def Run(options: Options, arguments: list[str]) -> int:
    op = jobs.FromOptions(OpNetworkSetParams, options, network_name=arguments[0])
    if not jobs.Changes(op, "network_name"):
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Change the settings of a network",
    (One("network"),),
    (*SET_ADDRESSES, REMOVE_RESERVED_IPS, *o.SET_JOB),
    details="The value 'none' removes the gateway, the IPv6 network, the IPv6 gateway or the MAC prefix.  A running instance"
    " uses new values after its next start.  The gateway and reserved addresses are changed by two commands.",
)
