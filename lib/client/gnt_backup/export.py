"""gnt-backup export: copies the disks of an instance, and what describes it, to a node."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Off, Options, Value
from ganeti.client.shared import transferoptions
from ganeti.opcodes import OpBackupExport

TRANSPORT_COMPRESSION = transferoptions.Compression("--transport-compression")
NO_SHUTDOWN = Off("--noshutdown", dest="shutdown", text="Do not stop the instance: export snapshots of its disks")
REMOVE_INSTANCE = Flag("--remove-instance", dest="remove_instance", text="Remove the instance after its export")
IGNORE_REMOVE_FAILURES = Flag(
    "--ignore-remove-failures", dest="ignore_remove_failures",
    text="With --remove-instance: remove it from the configuration even if a node reports an error",
)  # fmt: skip
ZERO_FREE_SPACE = Flag(
    "--zero-free-space", dest="zero_free_space",
    text="Overwrite unused space with zeros first, so that it compresses well; needs --transport-compression",
)  # fmt: skip
ZEROING_TIMEOUT_FIXED = Value(
    "--zeroing-timeout-fixed", dest="zeroing_timeout_fixed", type="int", metavar="SECONDS",
    text=f"Time for --zero-free-space, whatever the size of the disks (default: {constants.ZEROING_SECONDS})",
)  # fmt: skip
ZEROING_TIMEOUT_PER_MIB = Value(
    "--zeroing-timeout-per-mib", dest="zeroing_timeout_per_mib", type="float", metavar="SECONDS",
    text=f"More time for --zero-free-space, for each MiB of the disks (default: {constants.ZEROING_SECONDS_PER_MIB})",
)  # fmt: skip
LONG_SLEEP = Flag(
    "--long-sleep", dest="long_sleep",
    text="Keep the instance stopped during the whole export where its disks have no snapshots",
)  # fmt: skip


def Run(options: Options, arguments: list[str]) -> int:
    transferoptions.CheckTarget(options)
    jobs.SubmitOrSend(jobs.FromOptions(OpBackupExport, options, instance_name=arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Export an instance to a node",
    (One("instance"),),
    (
        transferoptions.TARGET_NODE.But(help="Node that keeps the export"), TRANSPORT_COMPRESSION, NO_SHUTDOWN, o.SHUTDOWN_TIMEOUT,
        LONG_SLEEP, REMOVE_INSTANCE, IGNORE_REMOVE_FAILURES, ZERO_FREE_SPACE, ZEROING_TIMEOUT_FIXED,
        ZEROING_TIMEOUT_PER_MIB, o.FORCE.Hidden(), *o.SET_JOB,
    ),
    details="The export holds the disks and the settings of the instance; gnt-backup import makes an instance of it.  An"
    " earlier export of the instance is replaced.  A running instance is stopped, its disks are snapshotted, and it is started"
    " again before the snapshots are copied.  Disks without snapshots, such as those in files, need --long-sleep: the"
    " instance is started again after the copy.\n\n"
    "For example, with disks in files: 'gnt-backup export -n node3 --long-sleep --transport-compression=gzip-fast web1'.",
)  # fmt: skip
