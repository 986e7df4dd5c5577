"""The options that several programs share, each declared once.

An option of one command is declared in that command's module, an option of several commands of one program in
``client/gnt_X/options.py``.  ``dest`` is the name of the opcode's field where there is one, so that ``jobs.FromOptions``
finds it.  Names in upper case follow the long option; where commands use one long option for different things, a suffix
tells them apart.
"""

from __future__ import annotations

from ganeti import constants
from ganeti.cli.parser import (
    COMPLETE_GROUP,
    COMPLETE_IALLOCATOR,
    COMPLETE_NODE,
    COMPLETE_NODE_PAIR,
    COMPLETE_OS,
    ElementsOf,
    FileValue,
    Flag,
    Off,
    Opt,
    Value,
    Values,
)

# --- on every command -------------------------------------------------------------------------------------------------

DEBUG = Opt("-d", "--debug", dest="debug", action="count", default=0, help="Log more; repeat it for even more")
REASON = Value("--reason", dest="reason", text="Reason to record in the reason trail of the job")
HELP = Opt("-h", "--help", dest="help", action="help", help="Show this help and exit")
COMMON = (DEBUG, REASON, HELP)

# --- jobs -------------------------------------------------------------------------------------------------------------

SUBMIT = Flag("--submit", dest="submit_only", text="Submit the job and exit without waiting for it")
PRINT_JOBID = Flag("--print-jobid", dest="print_jobid", text="Print the job ID on the first line")
DRY_RUN = Flag("--dry-run", dest="dry_run", text="Run the checks only, change nothing")
PRIORITIES = {
    "low": constants.OP_PRIO_LOW,
    "normal": constants.OP_PRIO_NORMAL,
    "high": constants.OP_PRIO_HIGH,
}
PRIORITY = Value("--priority", dest="priority", choices=sorted(PRIORITIES), text="Priority of the job")

SET_SUBMIT = (SUBMIT, PRINT_JOBID)
SET_DRY = (DRY_RUN,)
SET_PRIORITY = (PRIORITY,)
SET_JOB = (*SET_SUBMIT, DRY_RUN, PRIORITY)

# --- output -----------------------------------------------------------------------------------------------------------

NO_HEADERS = Flag("--no-headers", dest="no_headers", text="Print no column titles")
SEPARATOR = Value("--separator", dest="separator", text="Separator between columns; switches off their alignment")
OUTPUT = Value(
    "-o", "--output", dest="output", metavar="FIELDS",
    text="Columns, separated by commas; +FIELDS adds to the usual ones; json or json:FIELDS prints a JSON document",
)  # fmt: skip
OUTPUT_FORMAT = Value("--output", dest="output", choices=["json"], text="Print a JSON document")
VERBOSE = Flag("-v", "--verbose", dest="verbose", text="Print more details")
UNITS = Value(
    "--units", dest="units", choices=["h", "m", "g", "t"],
    text="Unit of sizes: (h)uman-readable, (m)iB, (g)iB or (t)iB",
)  # fmt: skip
FILTER = Flag("-F", "--filter", dest="force_filter", text="Read the argument as a filter expression").But(
    grammar="filter"
)
ROMAN = Flag("--roman", dest="roman_integers", text="Print Roman numerals")
TAG_SOURCE = FileValue(
    "--from", dest="tags_source",
    text="File with more tags, one on each line; - is standard input",
)  # fmt: skip

SET_HEADERS = (NO_HEADERS, SEPARATOR)
SET_LIST = (*SET_HEADERS, OUTPUT, VERBOSE)
SET_TAGS = (TAG_SOURCE, PRIORITY, *SET_SUBMIT)

# --- confirmation -----------------------------------------------------------------------------------------------------

FORCE = Flag("-f", "--force", dest="force", text="Do not ask for confirmation")
YES = Flag("--yes", dest="yes", text="Do not ask for confirmation")
YES_DO_IT = Flag("--yes-do-it", "--ya-rly", dest="yes_do_it", text="Confirm that this is really wanted")

# --- nodes and groups -------------------------------------------------------------------------------------------------

NODE_GROUP = Value(
    "-g", "--node-group", dest="group_name", metavar="GROUP", completion=COMPLETE_GROUP,
    text="Only nodes of this node group",
)  # fmt: skip
NODE_LIST = Values(
    "-n", "--node", dest="nodes", metavar="NODE", completion=COMPLETE_NODE, text="Only this node; repeat it for several"
)
SECONDARY_IP = Value(
    "-s", "--secondary-ip", dest="secondary_ip", metavar="ADDRESS", text="Address of the node on the secondary network"
)
TARGET_NODE = Value(
    "-n", "--target-node", dest="target_node", metavar="NODE", completion=COMPLETE_NODE,
    text="Node to move to; for disks that more than one other node can use, such as sharedfile, an allocator chooses otherwise",
)  # fmt: skip
IALLOCATOR = Value(
    "-I", "--iallocator", dest="iallocator", metavar="NAME", completion=COMPLETE_IALLOCATOR,
    text="Allocator that chooses the nodes, for example hail; '.' is the cluster's default one",
)  # fmt: skip
MIGRATION_MODE = Value(
    "--migration-mode", dest="migration_mode", choices=ElementsOf("TMigrationMode"),
    text="Use this mode instead of the hypervisor parameter migration_mode",
)  # fmt: skip
NON_LIVE = Flag("--non-live", dest="non_live", text="Pause the instance during the whole migration")
NO_RUNTIME_CHANGES = Off(
    "--no-runtime-changes", dest="allow_runtime_changes", text="Fail instead of shrinking the instance's memory to fit"
)
IGNORE_CONSISTENCY = Flag(
    "--ignore-consistency", dest="ignore_consistency", text="Use the target's disks even if they may be out of date"
)
IGNORE_IPOLICY = Flag(
    "--ignore-ipolicy", dest="ignore_ipolicy", text="Treat violations of the instance policy as warnings"
)

# --- instances --------------------------------------------------------------------------------------------------------

DISK = Values(
    "--disk", dest="disks", type="identkeyval", metavar="N:KEY=VALUE,...",
    text="Definition of disk N; repeat it for several disks", grammar="disk",
)  # fmt: skip
NET = Values(
    "--net", dest="nics", type="identkeyval", metavar="N:KEY=VALUE,...",
    text="Definition of NIC N; repeat it for several NICs", grammar="net",
)  # fmt: skip
DISK_TEMPLATE = Value(
    "-t", "--disk-template", dest="disk_template", metavar="TEMPLATE", choices=ElementsOf("TDiskTemplate"),
    text="Kind of storage for all disks", grammar="disk-template",
)  # fmt: skip
FILE_STORAGE_DIR = Value(
    "--file-storage-dir", dest="file_storage_dir", metavar="DIR",
    text="Directory below the cluster's file storage directory",
)  # fmt: skip
FILE_DRIVER = Value(
    "--file-driver", dest="file_driver", metavar="DRIVER", choices=ElementsOf("TFileDriver"),
    text="Driver for disks in files",
)  # fmt: skip
NO_WAIT_FOR_SYNC = Off("--no-wait-for-sync", dest="wait_for_sync", text="Do not wait until mirrors are in sync")
NODE_PLACEMENT = Value(
    "-n", "--node", dest="node", metavar="PRIMARY[:SECONDARY]", completion=COMPLETE_NODE_PAIR,
    text="Primary node, and the secondary node of mirrored disks",
)  # fmt: skip
IP_CHECK = Flag(
    "--ip-check", dest="ip_check", text="Fail if the instance's address is already in use (needs --name-check)"
)
NAME_CHECK = Flag("--name-check", dest="name_check", text="Resolve the instance's name first")
SHUTDOWN_TIMEOUT = Value(
    "--shutdown-timeout", dest="shutdown_timeout", type="int", metavar="SECONDS",
    default=constants.DEFAULT_SHUTDOWN_TIMEOUT, text="Time for a clean shutdown before the instance is killed",
)  # fmt: skip

# --- power of nodes ---------------------------------------------------------------------------------------------------

OOB_TIMEOUT = Value(
    "--oob-timeout", dest="oob_timeout", type="int", metavar="SECONDS", default=60,
    text="Time for the out-of-band program of each node, before it is killed",
)  # fmt: skip
POWER_DELAY = Value(
    "--power-delay", dest="power_delay", type="float", metavar="SECONDS", default=2.0,
    text="Pause between nodes that are switched on, so that they do not draw all at once",
)  # fmt: skip

# --- parameters of clusters, groups, nodes and instances ----------------------------------------------------------------

_PAIRS = "KEY=VALUE,..."

HYPERVISORS_KEYVALS = Values(
    "-H", "--hypervisor-parameters", dest="hvparams", type="identkeyval", metavar=f"HV:{_PAIRS}",
    text="Parameters of a hypervisor; repeat it for several hypervisors", grammar="hypervisors",
)  # fmt: skip
BACKEND = Value(
    "-B", "--backend-parameters", dest="beparams", type="keyval", default={}, metavar=_PAIRS,
    text="Backend parameters, such as memory and virtual CPUs", grammar="backend",
)  # fmt: skip
NIC_PARAMETERS = Value(
    "-N", "--nic-parameters", dest="nicparams", type="keyval", default={}, metavar=_PAIRS,
    text="Default parameters of NICs", grammar="nic-parameters",
)  # fmt: skip
MAC_PREFIX = Value(
    "-m", "--mac-prefix", dest="mac_prefix", metavar="PREFIX",
    text="First three bytes of generated MAC addresses, such as aa:00:00",
)  # fmt: skip
NO_CONFLICTS_CHECK = Off(
    "--no-conflicts-check", dest="conflicts_check",
    text="Allow addresses that belong to a network the NIC is not connected to",
)  # fmt: skip
TAGS = Value("--tags", dest="tags", type="names", metavar="TAG,...", text="Tags of the new object")
NODE_PARAMETERS = Value(
    "--node-parameters", dest="ndparams", type="keyval", metavar=_PAIRS, text="Node parameters",
    grammar="node-parameters",
)  # fmt: skip
DISK_PARAMETERS = Values(
    "-D", "--disk-parameters", dest="diskparams", type="identkeyval", metavar=f"TEMPLATE:{_PAIRS}",
    text="Parameters of a disk template; repeat it for several templates", grammar="disk-parameters",
)  # fmt: skip
HYPERVISOR_STATE = Values(
    "--hypervisor-state", dest="hv_state", type="identkeyval", metavar=f"HV:{_PAIRS}",
    text="Recorded CPUs and memory of a hypervisor", grammar="hypervisor-state",
)  # fmt: skip
DISK_STATE = Values(
    "--disk-state", dest="disk_state", type="identkeyval", metavar=f"TYPE/NAME:{_PAIRS}",
    text="Recorded space of a storage unit", grammar="disk-state",
)  # fmt: skip
OS_TYPE = Value(
    "-o", "--os-type", dest="os_type", metavar="OS[+VARIANT]", completion=COMPLETE_OS, text="Operating system"
)
OS_PARAMETERS = Value(
    "-O", "--os-parameters", dest="osparams", type="keyval", default={}, metavar=_PAIRS,
    text="Parameters for the scripts of the operating system; os-image=FILE-OR-URL fills the first disk from an image instead",
)  # fmt: skip
OS_PARAMETERS_PRIVATE = Value(
    "--os-parameters-private", dest="osparams_private", type="keyprivateval", default={}, metavar=_PAIRS,
    text="The same, hidden in logs; @FILE reads lines KEY=VALUE from a file, @- from standard input",
)  # fmt: skip
OS_PARAMETERS_SECRET = Value(
    "--os-parameters-secret", dest="osparams_secret", type="keyprivateval", default={}, metavar=_PAIRS,
    text="The same, hidden in logs and never stored; @FILE reads lines KEY=VALUE from a file, @- from standard input",
)  # fmt: skip

IPOLICY_BOUNDS = Value(
    "--ipolicy-bounds-specs", dest="ipolicy_bounds_specs", type="multilistidentkeyval",
    metavar="min:SPECS/max:SPECS[//...]", text="Ranges in which the size of an instance must lie",
    grammar="ipolicy-bounds",
)  # fmt: skip
IPOLICY_TEMPLATES = Value(
    "--ipolicy-disk-templates", dest="ipolicy_disk_templates", type="list", metavar="TEMPLATE,...",
    text="Disk templates that instances may use",
)  # fmt: skip
IPOLICY_VCPU_RATIO = Value(
    "--ipolicy-vcpu-ratio", dest="ipolicy_vcpu_ratio", type="maybefloat", metavar="RATIO",
    text="Most virtual CPUs for each CPU of a node",
)  # fmt: skip
IPOLICY_SPINDLE_RATIO = Value(
    "--ipolicy-spindle-ratio", dest="ipolicy_spindle_ratio", type="maybefloat", metavar="RATIO",
    text="Most spindles of instances for each spindle of a node",
)  # fmt: skip
IPOLICY_MEMORY_RATIO = Value(
    "--ipolicy-memory-ratio", dest="ipolicy_memory_ratio", type="maybefloat", metavar="RATIO",
    text="Most memory that instances are promised for each MiB that a node has for them; 'default' as if it was never given;"
    " for a node group 0: not the cluster's either",
)  # fmt: skip
IPOLICY_MAX_NODE_FAILURES = Value(
    "--ipolicy-max-node-failures", dest="ipolicy_max_node_failures", type="maybefloat", metavar="NUMBER",
    text="Nodes of a group that may fail, one after the other (1 to 3); 'default' as if it was never given",
)  # fmt: skip
IPOLICY_STD = Value(
    "--ipolicy-std-specs", dest="ipolicy_std_specs", type="keyval", metavar="SPECS",
    text="Size of a standard instance", grammar="ipolicy-std",
)  # fmt: skip
SET_IPOLICY = (
    IPOLICY_BOUNDS, IPOLICY_TEMPLATES, IPOLICY_VCPU_RATIO, IPOLICY_SPINDLE_RATIO, IPOLICY_MEMORY_RATIO,
    IPOLICY_MAX_NODE_FAILURES,
)  # fmt: skip

# --- gnt-cluster master-failover, gnt-instance console ------------------------------------------------------------------

NO_VOTING = Flag("--no-voting", dest="no_voting", text="Do not ask the other nodes which node is the master")
YES_DO_IT_FAILOVER = Flag("--yes-do-it", dest="yes_do_it", text="Do not ask for confirmation of --no-voting")
ABORT_JOBS = Flag(
    "--abort-jobs", dest="abort_jobs", text="Take over although jobs run on the old master; they become errors"
)
IGNORE_OFFLINE_NODES = Value(
    "--ignore-offline-nodes", dest="ignore_offline_nodes", default=True, text="Leave offline nodes out of the vote"
)
SHOW_CMD = Flag("--show-cmd", dest="show_command", text="Print the command instead of running it")
