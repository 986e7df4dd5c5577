"""gnt-cluster modify."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options, Value
from ganeti.client.gnt_cluster.options import SET_SETTINGS
from ganeti.client.shared import policy, typed
from ganeti.opcodes import OpClusterSetParams

MAX_RUNNING_JOBS = Value(
    "--max-running-jobs", dest="max_running_jobs", type="int", metavar="NUMBER", text="Most jobs that run at a time"
)
MAX_TRACKED_JOBS = Value(
    "--max-tracked-jobs", dest="max_tracked_jobs", type="int", metavar="NUMBER",
    text="Most jobs that the scheduler considers at a time",
).Hidden()  # fmt: skip
RESERVED_LVS = Value(
    "--reserved-lvs", dest="reserved_lvs", type="list", metavar="VG/NAME,...",
    text="Logical volumes that 'gnt-cluster verify' ignores: names or regular expressions; replaces the list",
)  # fmt: skip
ADD_UIDS = Value(
    "--add-uids", dest="add_uids", type="uidpool", metavar="LOW-HIGH,...", text="User IDs to add to the pool"
)
REMOVE_UIDS = Value(
    "--remove-uids", dest="remove_uids", type="uidpool", metavar="LOW-HIGH,...", text="User IDs to remove from the pool"
)
MODIFY_ETC_HOSTS = Value(
    "--modify-etc-hosts", dest="modify_etc_hosts", type="bool", text="Keep /etc/hosts on the nodes up to date"
)
COMMUNICATION_NETWORK = Value(
    "--instance-communication-network", dest="instance_communication_network", text="Network of metadata NICs"
).Hidden()
DATA_COLLECTORS = Value(
    "--enabled-data-collectors", dest="enabled_data_collectors", type="keyval", default={}, metavar="NAME=BOOL,...",
    text="Data collectors to switch on or off",
).Hidden()  # fmt: skip
DATA_COLLECTOR_INTERVAL = Value(
    "--data-collector-interval", dest="data_collector_interval", type="keyval", default={},
    metavar="NAME=SECONDS,...", text="Intervals of data collectors",
).Hidden()  # fmt: skip


def _CompressionTools(given: list[str] | None) -> list[str] | None:
    return list(constants.DEFAULT_COMPRESSION_TOOLS) if given == [] else given


def _ParseCollectors(enabled: dict[str, Any]) -> dict[str, bool]:
    return {name: str(value).lower().startswith("t") for name, value in enabled.items()}


def _ParseIntervals(intervals: dict[str, Any]) -> dict[str, int]:
    """Return the intervals in microseconds; the command line has seconds."""
    result = {}
    for name, value in intervals.items():
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            raise errors.OpPrereqError(f"Interval '{value}' of data collector '{name}' is not a number") from None
        if not 0 < seconds < 1e9:
            raise errors.OpPrereqError(f"Interval of data collector '{name}' must be greater than 0 seconds") from None
        result[name] = int(seconds * 1e6)
    return result


def _Parameters(options: Options) -> dict[str, Any]:
    """Return the fields whose values have types of their own."""
    return {
        "hvparams": typed.Hypervisors(options.hvparams),
        "beparams": typed.Backend(options.beparams),
        "nicparams": typed.Nic(options.nicparams),
        "ndparams": typed.Node(options.ndparams),
        "diskparams": typed.DiskParameters(options.diskparams),
        "hv_state": typed.HypervisorState(options.hv_state),
        "disk_state": typed.DiskState(options.disk_state),
        "ipolicy": policy.FromOptions(options),
        "master_netmask": typed.Integer("--master-netmask", options.master_netmask),
        "enabled_data_collectors": _ParseCollectors(options.enabled_data_collectors),
        "data_collector_interval": _ParseIntervals(options.data_collector_interval),
        "compression_tools": _CompressionTools(options.compression_tools),
    }


def Run(options: Options, arguments: list[str]) -> int:
    try:
        op = jobs.FromOptions(OpClusterSetParams, options, **_Parameters(options))
    except errors.OpPrereqError as err:
        if len(err.args) == 1:  # an interval: 3.1 prints one line
            output.ToStderr(str(err))
            return constants.EXIT_FAILURE
        raise
    if options.default_iallocator_params == {}:
        op.default_iallocator_params = {}  # an empty set clears
    if not jobs.Changes(op, "force"):
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    result = jobs.SubmitOrSend(op, options)
    if not (isinstance(result, dict) and result.get("jobs")):
        return constants.EXIT_SUCCESS
    executor = jobs.JobExecutor(options)
    executor.AddJobIds(result["jobs"])
    code = constants.EXIT_SUCCESS
    for success, text in executor.GetResults():
        if not success:
            output.ToStderr(str(text))
            code = constants.EXIT_FAILURE
    return code


COMMAND = Command(
    Run,
    "Change settings of the cluster",
    (),
    (
        o.FORCE.But(help="Change the master network interface even if the old address cannot be removed"), *SET_SETTINGS,
        o.BACKEND, o.HYPERVISORS_KEYVALS, o.NIC_PARAMETERS, o.NODE_PARAMETERS, o.DISK_PARAMETERS, o.HYPERVISOR_STATE,
        o.DISK_STATE, *o.SET_IPOLICY, o.IPOLICY_STD, MAX_RUNNING_JOBS, MAX_TRACKED_JOBS, ADD_UIDS, REMOVE_UIDS,
        RESERVED_LVS, MODIFY_ETC_HOSTS, COMMUNICATION_NETWORK, DATA_COLLECTORS, DATA_COLLECTOR_INTERVAL, *o.SET_JOB,
    ),
)  # fmt: skip
