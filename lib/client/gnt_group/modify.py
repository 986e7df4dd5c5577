"""gnt-group modify."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_group.options import ALLOC_POLICY
from ganeti.client.shared import policy, typed
from ganeti.client.shared.changes import PrintChanges
from ganeti.opcodes import OpGroupSetParams


def Run(options: Options, arguments: list[str]) -> int:
    op = jobs.FromOptions(
        OpGroupSetParams,
        options,
        group_name=arguments[0],
        ndparams=typed.Node(options.ndparams, typed.RESET),
        diskparams=typed.DiskParameters(options.diskparams, typed.RESET),
        ipolicy=policy.FromOptions(options, group=True),
        hv_state=typed.HypervisorState(options.hv_state),
        disk_state=typed.DiskState(options.disk_state),
    )
    if not jobs.Changes(op, "group_name"):
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    PrintChanges("node group", arguments[0], jobs.SubmitOrSend(op, options))
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Change the settings of a node group",
    (One("group"),),
    (*o.SET_IPOLICY, *o.SET_JOB, ALLOC_POLICY, o.NODE_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE, o.DISK_PARAMETERS),
    details="The value 'default' resets a parameter, or the whole bounds or disk templates of the policy, so that it is"
    " inherited from the cluster again.",
)
