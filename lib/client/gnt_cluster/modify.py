"""gnt-cluster modify."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output, values
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.client.shared import policy, typed
from ganeti.opcodes import OpClusterSetParams

# Options whose value goes into the opcode's field of the same name as it is; None is "unchanged".
_AS_GIVEN = (
    "vg_name", "candidate_pool_size", "max_running_jobs", "max_tracked_jobs", "maintain_node_health", "prealloc_wipe_disks",
    "drbd_helper", "default_iallocator", "default_iallocator_params", "mac_prefix", "master_netdev",
    "use_external_mip_script", "modify_etc_hosts", "file_storage_dir", "shared_file_storage_dir", "install_image",
    "instance_communication_network", "zeroing_image", "enabled_user_shutdown",
)  # fmt: skip

# What an empty list of compression tools means.
_COMPRESSION_TOOLS = ["gzip", "gzip-fast", "gzip-slow"]


def _ParseCollectors(enabled: dict[str, Any]) -> dict[str, bool]:
    return {name: str(value).lower().startswith("t") for name, value in enabled.items()}


def _ParseIntervals(intervals: dict[str, Any]) -> dict[str, int]:
    """Seconds of the command line in microseconds."""
    result = {}
    for name, value in intervals.items():
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            raise errors.OpPrereqError(f"Interval '{value}' of data collector '{name}' is not a number") from None
        if not 0 < seconds < 1e9:
            raise errors.OpPrereqError(f"Interval of data collector '{name}' must be above zero") from None
        result[name] = int(seconds * 1e6)
    return result


def _Lists(options: Options) -> dict[str, Any]:
    """Fields that are written as lists."""
    tools = typed.CommaList(options.compression_tools)
    fields: dict[str, Any] = {
        "enabled_hypervisors": typed.CommaList(options.enabled_hypervisors),
        "enabled_disk_templates": typed.CommaList(options.enabled_disk_templates),
        "compression_tools": _COMPRESSION_TOOLS if tools == [] else tools,
    }
    if options.reserved_lvs is not None:
        fields["reserved_lvs"] = values.ParseList(options.reserved_lvs)
    for name in ("uid_pool", "add_uids", "remove_uids"):
        text = getattr(options, name)
        if text is not None:
            fields[name] = [list(pair) for pair in values.ParseUidPool(text)] if text else []
    return fields


def _Parameters(options: Options) -> dict[str, Any]:
    """Fields with parameters of their own types."""
    return {
        "hvparams": typed.Hypervisors(options.hvparams) or None,
        "beparams": typed.Backend(options.beparams) or None,
        "nicparams": typed.Nic(options.nicparams) or None,
        "ndparams": typed.Node(options.ndparams),
        "diskparams": typed.DiskParameters(options.diskparams) or None,
        "hv_state": typed.HypervisorState(options.hv_state),
        "disk_state": typed.DiskState(options.disk_state),
        "ipolicy": policy.FromOptions(options) or None,
        "master_netmask": typed.Integer("--master-netmask", options.master_netmask),
        "enabled_data_collectors": _ParseCollectors(options.enabled_data_collectors) or None,
        "data_collector_interval": _ParseIntervals(options.data_collector_interval) or None,
    }


def Run(options: Options, arguments: list[str]) -> int:
    fields: dict[str, Any] = {name: getattr(options, name) for name in _AS_GIVEN}
    fields.update(_Lists(options))
    try:
        fields.update(_Parameters(options))
    except errors.OpPrereqError as err:
        if len(err.args) == 1:  # an interval: 3.1 says it in one line
            output.ToStderr(str(err))
            return constants.EXIT_FAILURE
        raise
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    result = jobs.SubmitOrSend(OpClusterSetParams(force=options.force, **given), options)
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
    "Alters the parameters of the cluster",
    (),
    (
        o.FORCE, o.BACKEND, o.CANDIDATE_POOL_SIZE, o.MAX_RUNNING_JOBS, o.MAX_TRACKED_JOBS, o.INSTALL_IMAGE,
        o.COMMUNICATION_NETWORK, o.ENABLED_HYPERVISORS, o.HYPERVISORS_KEYVALS, o.MAC_PREFIX, o.MASTER_NETDEV,
        o.MASTER_NETMASK, o.NIC_PARAMETERS, o.VG_NAME, o.MAINTAIN_NODE_HEALTH, o.UID_POOL, o.ADD_UIDS, o.REMOVE_UIDS,
        o.DRBD_HELPER, o.DEFAULT_IALLOCATOR, o.DEFAULT_IALLOCATOR_PARAMS, o.RESERVED_LVS, *o.SET_JOB, o.PREALLOC_WIPE,
        o.NODE_PARAMETERS, o.EXTERNAL_MIP_SCRIPT, o.DISK_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE, *o.SET_IPOLICY,
        o.ENABLED_DISK_TEMPLATES, o.IPOLICY_STD, o.MODIFY_ETC_HOSTS, o.USER_SHUTDOWN, o.FILE_STORAGE_DIR_CLUSTER,
        o.SHARED_FILE_STORAGE_DIR, o.ZEROING_IMAGE, o.COMPRESSION_TOOLS, o.DATA_COLLECTORS, o.DATA_COLLECTOR_INTERVAL,
    ),
)  # fmt: skip
