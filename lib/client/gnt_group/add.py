"""gnt-group add."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_group.options import ALLOC_POLICY
from ganeti.client.shared import policy, typed
from ganeti.opcodes import OpGroupAdd


def Run(options: Options, arguments: list[str]) -> int:
    op = jobs.FromOptions(
        OpGroupAdd,
        options,
        group_name=arguments[0],
        ndparams=typed.Node(options.ndparams),
        diskparams=typed.DiskParameters(options.diskparams),
        ipolicy=policy.FromOptions(options, group=True),
        hv_state=typed.HypervisorState(options.hv_state),
        disk_state=typed.DiskState(options.disk_state),
    )
    result = jobs.SubmitOrSend(op, options)
    if not (isinstance(result, dict) and result.get("jobs")):
        return constants.EXIT_SUCCESS
    executor = jobs.JobExecutor(options)
    executor.AddJobIds(result["jobs"])
    return constants.EXIT_FAILURE if jobs.CountFailures(executor.GetResults()) else constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Add an empty node group",
    (One("group"),),
    (*o.SET_IPOLICY, *o.SET_JOB, ALLOC_POLICY, o.NODE_PARAMETERS, o.DISK_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE),
)
