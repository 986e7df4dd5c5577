"""gnt-group modify."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import policy, typed
from ganeti.client.shared.changes import PrintChanges
from ganeti.opcodes import OpGroupSetParams


def Run(options: Options, arguments: list[str]) -> int:
    fields = {
        "ndparams": typed.Node(options.ndparams, typed.RESET),
        "alloc_policy": options.alloc_policy,
        "diskparams": typed.DiskParameters(options.diskparams, typed.RESET) or None,
        "ipolicy": policy.FromOptions(options, group=True) or None,
        "hv_state": typed.HypervisorState(options.hv_state),
        "disk_state": typed.DiskState(options.disk_state),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    result = jobs.SubmitOrSend(OpGroupSetParams(group_name=arguments[0], **given), options)
    PrintChanges("node group", arguments[0], result)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Alters the parameters of a node group",
    (One("group"),),
    (
        *o.SET_IPOLICY, *o.SET_JOB, o.ALLOC_POLICY, o.NODE_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE, o.DISK_PARAMETERS,
    ),
)  # fmt: skip
