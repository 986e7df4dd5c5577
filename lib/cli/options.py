"""The option catalogue: every option of the commands, once (spec/cli.md 8).

Names in upper case follow the long option; where commands use one long option for different things a suffix tells them
apart.  ``dest`` is the name of the opcode's field where there is one.
"""

from __future__ import annotations

from ganeti import constants
from ganeti.cli.parser import (
    COMPLETE_FILE,
    COMPLETE_GROUP,
    COMPLETE_IALLOCATOR,
    COMPLETE_NODE,
    COMPLETE_NODE_PAIR,
    COMPLETE_OS,
    Flag,
    Opt,
    Value,
    Values,
)

# --- on every command -------------------------------------------------------------------------------------------------

DEBUG = Opt("-d", "--debug", dest="debug", action="count", default=0, help="Increase debugging level")
REASON = Value("--reason", dest="reason", text="The reason for executing the command")
HELP = Opt("-h", "--help", action="help", help="Show this help message and exit")
COMMON = (DEBUG, REASON, HELP)

# --- sets -------------------------------------------------------------------------------------------------------------

SUBMIT = Flag("--submit", dest="submit_only", text="Submit the job and return at once, without waiting for it")
PRINT_JOBID = Flag("--print-jobid", dest="print_jobid", text="Print the job's id on the first line")
DRY_RUN = Flag("--dry-run", dest="dry_run", text="Run the checks only, change nothing")
PRIORITIES = {
    "low": constants.OP_PRIO_LOW,
    "normal": constants.OP_PRIO_NORMAL,
    "high": constants.OP_PRIO_HIGH,
}
PRIORITY = Value(
    "--priority", dest="priority", choices=sorted(PRIORITIES), text="Priority of the job: high, low or normal"
)
NO_HEADERS = Flag("--no-headers", dest="no_headers", text="Don't display column headers")
SEPARATOR = Value("--separator", dest="separator", text="Separator between columns; columns are not padded then")
OUTPUT = Value(
    "-o",
    "--output",
    dest="output",
    metavar="FIELDS",
    text="Comma list of columns, or +FIELDS in addition to the usual ones; json or json:FIELDS for a JSON document",
)
OUTPUT_FORMAT = Value("--output", dest="output", choices=["json"], text="Print a JSON document")
VERBOSE = Flag("-v", "--verbose", dest="verbose", text="Say more")
UNITS = Value(
    "--units",
    dest="units",
    choices=["h", "m", "g", "t"],
    text="Unit of sizes: (h)uman-readable, (m)iB, (g)iB, (t)iB",
)
FILTER = Flag("-F", "--filter", dest="force_filter", text="The argument is a filter expression")
TAG_SOURCE = Value(
    "--from", dest="tags_source", completion=COMPLETE_FILE, text="File with one more tag per line, - for standard input"
)

SET_SUBMIT = (SUBMIT, PRINT_JOBID)
SET_DRY = (DRY_RUN,)
SET_PRIORITY = (PRIORITY,)
SET_JOB = (*SET_SUBMIT, DRY_RUN, PRIORITY)
SET_HEADERS = (NO_HEADERS, SEPARATOR)
SET_LIST = (*SET_HEADERS, OUTPUT, VERBOSE)
SET_TAGS = (TAG_SOURCE, PRIORITY, *SET_SUBMIT)

# --- confirmation, force ----------------------------------------------------------------------------------------------

FORCE = Flag("-f", "--force", dest="force", text="Do it without asking")
FORCE_MULTIPLE = Flag("--force-multiple", dest="force_multi", text="Do not ask when several objects are concerned")
YES = Flag("--yes", dest="yes", text="Do not ask for confirmation")
YES_DO_IT = Flag("--yes-do-it", "--ya-rly", dest="yes_do_it", text="Confirms that this is really wanted")
YES_DO_IT_FAILOVER = Flag("--yes-do-it", dest="yes_do_it", text="Do not ask before going on without voting")
YES_DO_IT_REDIST = Flag("--yes-do-it", dest="yes_do_it", text="Submit the job although the queue is drained")
ALL_OBJECTS = Flag("--all", dest="show_all", text="Act on every object")
GROUPS = Flag("--groups", dest="groups", text="The arguments are node groups")

# --- selectors of several instances -----------------------------------------------------------------------------------

SELECT_INSTANCES = "instances"
SELECT_ALL = "all"
SELECT_NODES = "nodes"
SELECT_PRIMARY = "nodes_pri"
SELECT_SECONDARY = "nodes_sec"
SELECT_TAGS = "instances_by_tags"
SELECT_NODE_TAGS = "nodes_both_by_tags"
SELECT_PRIMARY_TAGS = "nodes_pri_by_tags"
SELECT_SECONDARY_TAGS = "nodes_sec_by_tags"


def _Selector(name: str, value: str, text: str) -> Opt:
    return Opt(name, dest="multi_mode", action="store_const", const=value, default=SELECT_INSTANCES, help=text)


SET_MULTI = (
    FORCE_MULTIPLE,
    _Selector("--instance", SELECT_INSTANCES, "Arguments are instance names (default)"),
    _Selector("--all", SELECT_ALL, "Select all instances"),
    _Selector("--node", SELECT_NODES, "Arguments are nodes: instances with primary or secondary there"),
    _Selector("--primary", SELECT_PRIMARY, "Arguments are nodes: instances with primary there"),
    _Selector("--secondary", SELECT_SECONDARY, "Arguments are nodes: instances with secondary there"),
    _Selector("--tags", SELECT_TAGS, "Arguments are instance tags"),
    _Selector("--node-tags", SELECT_NODE_TAGS, "Arguments are node tags: as --node for nodes with any of them"),
    _Selector("--pri-node-tags", SELECT_PRIMARY_TAGS, "Arguments are node tags: as --primary"),
    _Selector("--sec-node-tags", SELECT_SECONDARY_TAGS, "Arguments are node tags: as --secondary"),
)

# --- selectors of job status ------------------------------------------------------------------------------------------


def _Status(name: str, status: frozenset[str], text: str) -> Opt:
    return Opt(name, dest="status_filter", action="store_const", const=status, default=None, help=text)


JOBS_PENDING = _Status("--pending", constants.JOBS_PENDING, "Jobs that have not begun or are being canceled")
JOBS_QUEUED = _Status("--queued", frozenset([constants.JOB_STATUS_QUEUED]), "Jobs that are queued")
JOBS_WAITING = _Status("--waiting", frozenset([constants.JOB_STATUS_WAITING]), "Jobs that wait for locks")
JOBS_RUNNING = _Status("--running", frozenset([constants.JOB_STATUS_RUNNING]), "Jobs that run")
JOBS_ERROR = _Status("--error", frozenset([constants.JOB_STATUS_ERROR]), "Jobs that failed")
JOBS_FINISHED = _Status("--finished", constants.JOBS_FINALIZED, "Jobs that have ended")
ARCHIVED = Flag("--archived", dest="archived", text="Archived jobs too; adds a column")
KILL = Flag("--kill", dest="kill", text="Abort running jobs (needs --yes-do-it)")

# --- parameters of clusters, groups, nodes, instances -----------------------------------------------------------------

HYPERVISORS_KEYVALS = Values(
    "-H", "--hypervisor-parameters", dest="hvparams", type="identkeyval", metavar="HV:KEY=VALUE,...",
    text="Parameters of a hypervisor; repeat for several hypervisors",
)  # fmt: skip
HVPARAMS = Value(
    "-H", "--hypervisor-parameters", dest="hvparams", type="keyval", default={}, metavar="KEY=VALUE,...",
    text="Hypervisor parameters",
)  # fmt: skip
HYPERVISOR = Value(
    "-H", "--hypervisor-parameters", dest="hypervisor", type="identkeyval", metavar="HV[:KEY=VALUE,...]",
    text="Hypervisor, and parameters that differ from the cluster's",
)  # fmt: skip
BACKEND = Value(
    "-B", "--backend-parameters", dest="beparams", type="keyval", default={}, metavar="KEY=VALUE,...",
    text="Backend parameters: maxmem, minmem, memory, vcpus, auto_balance, always_failover, spindle_use",
)  # fmt: skip
NIC_PARAMETERS = Value(
    "-N", "--nic-parameters", dest="nicparams", type="keyval", default={}, metavar="KEY=VALUE,...",
    text="Network parameters: mode, link, vlan",
)  # fmt: skip
NODE_PARAMETERS = Value(
    "--node-parameters", dest="ndparams", type="keyval", metavar="KEY=VALUE,...", text="Node parameters"
)
DISK_PARAMETERS = Values(
    "-D", "--disk-parameters", dest="diskparams", type="identkeyval", metavar="TEMPLATE:KEY=VALUE,...",
    text="Disk parameters of a template; repeat for several templates",
)  # fmt: skip
HYPERVISOR_STATE = Values(
    "--hypervisor-state", dest="hv_state", type="identkeyval", metavar="HV:KEY=VALUE,...",
    text="What a hypervisor has at hand: cpu_node, cpu_total, mem_hv, mem_node, mem_total",
)  # fmt: skip
DISK_STATE = Values(
    "--disk-state", dest="disk_state", type="identkeyval", metavar="TYPE/NAME:KEY=VALUE,...",
    text="What storage has at hand: disk_total, disk_reserved, disk_overhead",
)  # fmt: skip
OS_PARAMETERS = Value(
    "-O", "--os-parameters", dest="osparams", type="keyval", default={}, metavar="KEY=VALUE,...", text="OS parameters"
)
OS_PARAMETERS_PRIVATE = Value(
    "--os-parameters-private", dest="osparams_private", type="keyprivateval", default={}, metavar="KEY=VALUE,...",
    text="OS parameters that are not shown in logs",
)  # fmt: skip
OS_PARAMETERS_SECRET = Value(
    "--os-parameters-secret", dest="osparams_secret", type="keyprivateval", default={}, metavar="KEY=VALUE,...",
    text="OS parameters that are neither shown nor kept",
)  # fmt: skip

IPOLICY_BOUNDS = Value(
    "--ipolicy-bounds-specs", dest="ipolicy_bounds_specs", type="multilistidentkeyval",
    metavar="min:KEY=VALUE,.../max:KEY=VALUE,...[//...]", text="Smallest and largest instances allowed",
)  # fmt: skip
IPOLICY_TEMPLATES = Value(
    "--ipolicy-disk-templates", dest="ipolicy_disk_templates", type="list", metavar="TEMPLATE,...",
    text="Disk templates allowed",
)  # fmt: skip
IPOLICY_VCPU_RATIO = Value(
    "--ipolicy-vcpu-ratio", dest="ipolicy_vcpu_ratio", type="maybefloat", text="Virtual to physical CPUs, at most"
)
IPOLICY_SPINDLE_RATIO = Value(
    "--ipolicy-spindle-ratio", dest="ipolicy_spindle_ratio", type="maybefloat", text="Instances to spindles, at most"
)
IPOLICY_STD = Value(
    "--ipolicy-std-specs", dest="ipolicy_std_specs", type="keyval", metavar="KEY=VALUE,...",
    text="Size of a standard instance",
)  # fmt: skip
SET_IPOLICY = (IPOLICY_BOUNDS, IPOLICY_TEMPLATES, IPOLICY_VCPU_RATIO, IPOLICY_SPINDLE_RATIO)


def _Specs(name: str, dest: str, what: str) -> Opt:
    return Value(name, dest=dest, type="keyval", default={}, metavar="min=,max=,std=", text=f"Policy of {what}")


SPECS = {
    "cpu-count": _Specs("--specs-cpu-count", "ispecs_cpu_count", "the number of virtual CPUs"),
    "disk-count": _Specs("--specs-disk-count", "ispecs_disk_count", "the number of disks"),
    "disk-size": _Specs("--specs-disk-size", "ispecs_disk_size", "the size of a disk"),
    "memory-size": _Specs("--specs-mem-size", "ispecs_mem_size", "the memory"),
    "nic-count": _Specs("--specs-nic-count", "ispecs_nic_count", "the number of NICs"),
}

# --- cluster ----------------------------------------------------------------------------------------------------------

CANDIDATE_POOL_SIZE = Value(
    "-C", "--candidate-pool-size", dest="candidate_pool_size", type="int", text="Wanted number of master candidates"
)
MAX_RUNNING_JOBS = Value("--max-running-jobs", dest="max_running_jobs", type="int", text="Jobs that may run at a time")
MAX_TRACKED_JOBS = Value(
    "--max-tracked-jobs", dest="max_tracked_jobs", type="int", text="Jobs that the scheduler looks at"
)
ENABLED_HYPERVISORS = Value(
    "--enabled-hypervisors", dest="enabled_hypervisors", metavar="HV,...", text="Hypervisors; the first is the default"
)
ENABLED_DISK_TEMPLATES = Value(
    "--enabled-disk-templates", dest="enabled_disk_templates", metavar="TEMPLATE,...", text="Disk templates in use"
)
MAC_PREFIX = Value(
    "-m", "--mac-prefix", dest="mac_prefix", metavar="PREFIX", text="First three octets of generated MAC addresses"
)
MASTER_NETDEV = Value(
    "--master-netdev", dest="master_netdev", metavar="NETDEV", text="Network interface of the master's address"
)
MASTER_NETMASK = Value(
    "--master-netmask", dest="master_netmask", metavar="NETMASK", text="Prefix length of the master's address"
)
EXTERNAL_MIP_SCRIPT = Value(
    "--use-external-mip-script", dest="use_external_mip_script", type="bool",
    text="Set up the master's address by the site's own script",
)  # fmt: skip
VG_NAME = Value("--vg-name", dest="vg_name", metavar="VG", text="LVM volume group; empty: no LVM")
RESERVED_LVS = Value(
    "--reserved-lvs", dest="reserved_lvs", metavar="NAME,...", text="Volumes (names or patterns) that verify ignores"
)
DRBD_HELPER = Value(
    "--drbd-usermode-helper", dest="drbd_helper", completion=COMPLETE_FILE, text="DRBD's usermode helper"
)
PREALLOC_WIPE = Value(
    "--prealloc-wipe-disks", dest="prealloc_wipe_disks", type="bool", text="Wipe new disks before use"
)
MAINTAIN_NODE_HEALTH = Value(
    "--maintain-node-health", dest="maintain_node_health", type="bool",
    text="The watcher stops what still runs on offline nodes",
).Hidden()  # fmt: skip
UID_POOL = Value("--uid-pool", dest="uid_pool", metavar="LOW-HIGH,...", text="User ids for instances")
ADD_UIDS = Value("--add-uids", dest="add_uids", metavar="LOW-HIGH,...", text="User ids to add to the pool")
REMOVE_UIDS = Value(
    "--remove-uids", dest="remove_uids", metavar="LOW-HIGH,...", text="User ids to take out of the pool"
)
DEFAULT_IALLOCATOR = Value(
    "-I", "--default-iallocator", dest="default_iallocator", metavar="NAME", completion=COMPLETE_IALLOCATOR,
    text="Allocator used where none is given; empty: none",
).Hidden()  # fmt: skip
DEFAULT_IALLOCATOR_PARAMS = Value(
    "--default-iallocator-params", dest="default_iallocator_params", type="keyval", metavar="KEY=VALUE,...",
    text="Parameters of the default allocator",
).Hidden()  # fmt: skip
PRIMARY_IP_VERSION = Value(
    "--primary-ip-version",
    dest="primary_ip_version",
    default="4",
    metavar="4|6",
    text="IP version of primary addresses",
)
FILE_STORAGE_DIR_CLUSTER = Value(
    "--file-storage-dir", dest="file_storage_dir", metavar="DIR", completion=COMPLETE_FILE,
    text="Directory of file based disks",
)  # fmt: skip
SHARED_FILE_STORAGE_DIR = Value(
    "--shared-file-storage-dir", dest="shared_file_storage_dir", metavar="SHAREDDIR", completion=COMPLETE_FILE,
    text="Directory of disks in shared files",
)  # fmt: skip
GLUSTER_STORAGE_DIR = Value(
    "--gluster-storage-dir", dest="gluster_storage_dir", metavar="GLUSTERDIR", completion=COMPLETE_FILE,
    text="Directory of gluster's mounts",
)  # fmt: skip
INSTALL_IMAGE = Value("--install-image", dest="install_image", text="Image in which OS scripts run").Hidden()
ZEROING_IMAGE = Value("--zeroing-image", dest="zeroing_image", text="Image that zeroes free disk space").Hidden()
COMPRESSION_TOOLS = Value(
    "--compression-tools", dest="compression_tools", metavar="TOOL,...", text="Compression programs that may be used"
).Hidden()
COMMUNICATION_NETWORK = Value(
    "--instance-communication-network", dest="instance_communication_network", text="Network of metadata NICs"
).Hidden()
USER_SHUTDOWN = Value(
    "--user-shutdown", dest="enabled_user_shutdown", type="bool", text="Instances shut down from inside stay down"
)
MODIFY_ETC_HOSTS = Value("--modify-etc-hosts", dest="modify_etc_hosts", type="bool", text="Keep /etc/hosts up to date")
NO_ETC_HOSTS = Opt(
    "--no-etc-hosts", dest="modify_etc_hosts", action="store_false", default=True, help="Leave /etc/hosts alone"
)
NO_SSH_INIT = Opt(
    "--no-ssh-init", dest="modify_ssh_setup", action="store_false", default=True, help="Leave SSH keys alone"
)
DATA_COLLECTORS = Value(
    "--enabled-data-collectors", dest="enabled_data_collectors", type="keyval", default={}, metavar="NAME=BOOL,...",
    text="Data collectors to switch on or off",
).Hidden()  # fmt: skip
DATA_COLLECTOR_INTERVAL = Value(
    "--data-collector-interval", dest="data_collector_interval", type="keyval", default={},
    metavar="NAME=SECONDS,...", text="Intervals of data collectors",
).Hidden()  # fmt: skip
SSH_KEY_TYPE = Value("--ssh-key-type", dest="ssh_key_type", choices=["dsa", "ecdsa", "rsa"], text="Type of SSH keys")
SSH_KEY_BITS = Value("--ssh-key-bits", dest="ssh_key_bits", type="int", text="Length of SSH keys")
NO_VOTING = Flag("--no-voting", dest="no_voting", text="Do not ask the nodes who the master is")
IGNORE_OFFLINE_NODES = Value(
    "--ignore-offline-nodes", dest="ignore_offline_nodes", default=True, text="Leave offline nodes out of the vote"
)
UPGRADE_TO = Value("--to", dest="to", metavar="VERSION", text="Version to change to")
RESUME = Flag("--resume", dest="resume", text="Go on with an upgrade that was interrupted")
USE_REPLICATION_NETWORK = Flag(
    "--use-replication-network", dest="use_replication_network", text="Connect to secondary addresses"
)
SHOW_MACHINE_NAMES = Flag("-M", "--show-machine-names", dest="show_machine_names", text="Begin each line with the node")
FAILURE_ONLY = Flag("--failure-only", dest="failure_only", text="Leave out nodes on which the command succeeded")

# Renewing certificates and keys.
NEW_CLUSTER_CERT = Flag("--new-cluster-certificate", dest="new_cluster_cert", text="Make a new cluster certificate")
NEW_RAPI_CERT = Flag("--new-rapi-certificate", dest="new_rapi_cert", text="Make a new RAPI certificate")
RAPI_CERT = Value(
    "--rapi-certificate", dest="rapi_cert", completion=COMPLETE_FILE, text="File with RAPI certificate and key"
)
NEW_CONFD_HMAC_KEY = Flag("--new-confd-hmac-key", dest="new_confd_hmac_key", text="Make a new key for confd")
NEW_DOMAIN_SECRET = Flag(
    "--new-cluster-domain-secret", dest="new_cluster_domain_secret", text="Make a new cluster domain secret"
)
DOMAIN_SECRET = Value(
    "--cluster-domain-secret", dest="cluster_domain_secret", completion=COMPLETE_FILE,
    text="File with the cluster domain secret",
)  # fmt: skip
NEW_SPICE_CERT = Flag("--new-spice-certificate", dest="new_spice_cert", text="Make a new SPICE certificate")
SPICE_CERT = Value(
    "--spice-certificate", dest="spice_cert", completion=COMPLETE_FILE, text="File with SPICE certificate and key"
)
SPICE_CACERT = Value(
    "--spice-ca-certificate", dest="spice_cacert", completion=COMPLETE_FILE, text="File with SPICE's CA certificate"
)
NEW_NODE_CERTS = Flag("--new-node-certificates", dest="new_node_cert", text="Make new client certificates on all nodes")
NEW_SSH_KEYS = Flag("--new-ssh-keys", dest="new_ssh_keys", text="Make new SSH keys on all nodes")

# --- verification -----------------------------------------------------------------------------------------------------

DEBUG_SIMULATE_ERRORS = Flag(
    "--debug-simulate-errors", dest="debug_simulate_errors", text="Let nearly every check report a failure"
)
ERROR_CODES = Flag("--error-codes", dest="error_codes", text="Messages with codes, for programs")
NO_NPLUS1 = Opt(
    "--no-nplus1-mem", dest="skip_nplusone_mem", action="store_true", default=False, help="Skip the N+1 memory check"
)
NO_HV_ASSESSMENT = Flag(
    "--no-hv-param-assessment", dest="skip_hvparam_assessment", text="Skip the assessment of hypervisor parameters"
)
NO_STRICT = Opt(
    "--no-strict", dest="is_strict", action="store_false", default=True, help="Tolerate errors of single nodes"
)
VERIFY_CLUTTER = Flag(
    "--verify-ssh-clutter", dest="verify_clutter", text="Look for keys in authorized_keys that are not the cluster's"
)

# --- nodes ------------------------------------------------------------------------------------------------------------

NODE_LIST = Values(
    "-n", "--node", dest="nodes", metavar="NODE", completion=COMPLETE_NODE, text="Only this node; repeat for several"
)
NODE_GROUP = Value(
    "-g", "--node-group", dest="nodegroup", metavar="GROUP", completion=COMPLETE_GROUP, text="Node group"
)
SECONDARY_IP = Value("-s", "--secondary-ip", dest="secondary_ip", metavar="ADDRESS", text="Replication address")
READD = Flag("--readd", dest="readd", text="Take a known node in again")
NO_SSH_KEY_CHECK = Opt(
    "--no-ssh-key-check", dest="ssh_key_check", action="store_false", default=True, help="Do not check host keys"
).Hidden()
FORCE_JOIN = Flag("--force-join", dest="force_join", text="Without effect; kept for old scripts").Hidden()
NO_NODE_SETUP = Opt(
    "--no-node-setup", dest="node_setup", action="store_false", default=True, help="The node was set up by hand"
)
MASTER_CANDIDATE = Value("-C", "--master-candidate", dest="master_candidate", type="bool", text="Candidate flag")
MASTER_CAPABLE = Value("--master-capable", dest="master_capable", type="bool", text="May it become a candidate?")
VM_CAPABLE = Value("--vm-capable", dest="vm_capable", type="bool", text="May it host instances?")
DRAINED = Value("-D", "--drained", dest="drained", type="bool", text="Drained flag")
OFFLINE_NODE = Value("-O", "--offline", dest="offline", type="bool", text="Offline flag")
NODE_POWERED = Value("--node-powered", dest="powered", type="bool", text="Recorded power state")
AUTO_PROMOTE = Flag("--auto-promote", dest="auto_promote", text="Promote other nodes if candidates get too few")
IGNORE_STATUS = Flag("--ignore-status", dest="ignore_status", text="Leave the offline flag alone")
OOB_TIMEOUT = Value("--oob-timeout", dest="oob_timeout", type="int", default=60, text="Seconds for the power helper")
POWER_DELAY = Value("--power-delay", dest="power_delay", type="float", default=2.0, text="Seconds between power-ons")
POWER_ON = Flag("--on", dest="on", text="Power on again")
PRIMARY_ONLY = Flag("-p", "--primary-only", dest="primary_only", text="Primary instances only")
SECONDARY_ONLY = Flag("-s", "--secondary-only", dest="secondary_only", text="Secondary instances only")
ALLOCATABLE = Value("--allocatable", dest="allocatable", type="bool", text="May new volumes be placed there?")
STORAGE_TYPE = Value(
    "-t", "--storage-type", dest="storage_type", metavar="STORAGE_TYPE",
    choices=["file", "gluster", "lvm-pv", "lvm-vg", "sharedfile"], text="Kind of storage",
)  # fmt: skip
SYNC = Flag("--sync", dest="do_locking", text="Lock the nodes meanwhile")

# --- groups -----------------------------------------------------------------------------------------------------------

ALLOC_POLICY = Value(
    "--alloc-policy", dest="alloc_policy", metavar="POLICY",
    text="How allocators use the group: preferred, last_resort or unallocable",
)  # fmt: skip
INCLUDE_DEFAULTS = Flag("--include-defaults", dest="include_defaults", text="Print inherited values too")
SEQUENTIAL = Flag("--sequential", dest="sequential", text="Do one job after the other")
FORCE_FAILOVER = Flag("--force-failover", dest="force_failover", text="Never migrate")
TO_GROUPS = Values(
    "--to", dest="to", metavar="GROUP", completion=COMPLETE_GROUP, text="Group to move to; may be repeated"
)

# --- instances --------------------------------------------------------------------------------------------------------

DISK = Values("--disk", dest="disks", type="identkeyval", metavar="N:KEY=VALUE,...", text="Disk definition or change")
DISK_TEMPLATE = Value(
    "-t", "--disk-template", dest="disk_template", metavar="TEMPL", choices=sorted(constants.DISK_TEMPLATES),
    text="Disk layout",
)  # fmt: skip
OS_SIZE = Value("-s", "--os-size", dest="sd_size", type="unit", metavar="SIZE", text="One disk of this size")
NET = Values("--net", dest="nics", type="identkeyval", metavar="N:KEY=VALUE,...", text="NIC definition or change")
NO_NICS = Flag("--no-nics", dest="no_nics", text="No NIC at all")
NODE_PLACEMENT = Value(
    "-n",
    "--node",
    dest="node",
    metavar="PNODE[:SNODE]",
    completion=COMPLETE_NODE_PAIR,
    text="Primary and secondary node",
)
TARGET_NODE = Value(
    "-n", "--target-node", dest="dst_node", metavar="NODE", completion=COMPLETE_NODE, text="Node to move to"
)
SINGLE_NODE = Value("-n", "--node", dest="node", metavar="NODE", completion=COMPLETE_NODE, text="Target node")
NEW_SECONDARY = Value(
    "-n", "--new-secondary", dest="remote_node", metavar="NODE", completion=COMPLETE_NODE, text="New secondary node"
)
NEW_PRIMARY = Value(
    "--new-primary", dest="new_primary_node", metavar="NODE", completion=COMPLETE_NODE,
    text="Record another primary node (disks on shared storage only)",
)  # fmt: skip
IALLOCATOR = Value(
    "-I", "--iallocator", dest="iallocator", metavar="NAME", completion=COMPLETE_IALLOCATOR,
    text="Allocator that chooses nodes; . for the cluster's default",
).Hidden()  # fmt: skip
OPPORTUNISTIC = Flag(
    "--opportunistic-locking", dest="opportunistic_locking", text="Use only nodes that are free now"
).Hidden()
FILE_STORAGE_DIR = Value(
    "--file-storage-dir", dest="file_storage_dir", metavar="DIR", text="Directory below the cluster's"
)
FILE_DRIVER = Value(
    "--file-driver",
    dest="file_driver",
    metavar="DRIVER",
    choices=sorted(constants.FILE_DRIVERS),
    text="Driver of files",
)
OS_TYPE = Value(
    "-o", "--os-type", dest="os", metavar="OS", completion=COMPLETE_OS, text="Operating system, name+variant"
)
FORCE_VARIANT = Flag("--force-variant", dest="force_variant", text="Accept a variant that the OS does not declare")
SELECT_OS = Flag("--select-os", dest="select_os", text="Ask which OS to install")
NO_INSTALL = Flag("--no-install", dest="no_install", text="Do not install the OS (and do not start)")
NO_START = Opt("--no-start", dest="start", action="store_false", default=True, help="Leave it stopped")
FORTHCOMING = Flag("--forthcoming", dest="forthcoming", text="Only reserve resources").Hidden()
COMMIT = Flag("--commit", dest="commit", text="Turn a reservation into an instance").Hidden()
COMMUNICATION = Value(
    "-c", "--communication", dest="instance_communication", type="bool", text="Extra NIC for the metadata network"
).Hidden()
IP_CHECK = Flag("--ip-check", dest="ip_check", text="Fail if the instance's address is in use (needs --name-check)")
NAME_CHECK = Flag("--name-check", dest="name_check", text="Resolve the instance's name first")


def _Deprecated(name: str, dest: str) -> Opt:
    return Flag(name, dest=dest, text="Without effect; kept for old scripts").Hidden()


NO_IP_CHECK = _Deprecated("--no-ip-check", "no_ip_check")
NO_NAME_CHECK = _Deprecated("--no-name-check", "no_name_check")
NO_CONFLICTS_CHECK = Opt(
    "--no-conflicts-check", dest="conflicts_check", action="store_false", default=True,
    help="Do not look for address conflicts with networks",
)  # fmt: skip
NO_WAIT_FOR_SYNC = Opt(
    "--no-wait-for-sync", dest="wait_for_sync", action="store_false", default=True, help="Do not wait for mirrors"
)
WAIT_FOR_SYNC = Flag("--wait-for-sync", dest="wait_for_sync", text="Wait until mirrors are in sync")
IGNORE_IPOLICY = Flag("--ignore-ipolicy", dest="ignore_ipolicy", text="Only warn about the instance policy")
HELPER_STARTUP_TIMEOUT = Value(
    "--helper-startup-timeout", dest="helper_startup_timeout", type="int", text="Seconds for the helper VM to start"
).Hidden()
HELPER_SHUTDOWN_TIMEOUT = Value(
    "--helper-shutdown-timeout", dest="helper_shutdown_timeout", type="int", text="Seconds for the helper VM to stop"
).Hidden()
TAGS = Value("--tags", dest="tags", metavar="TAG,...", text="Tags of the new object")
SET_CREATE = (
    BACKEND, DISK, DISK_TEMPLATE, FILE_STORAGE_DIR, FILE_DRIVER, HYPERVISOR, IALLOCATOR, NET, NODE_PLACEMENT, NODE_GROUP,
    IP_CHECK, NO_IP_CHECK, NAME_CHECK, NO_NAME_CHECK, NO_CONFLICTS_CHECK, NO_NICS, NO_WAIT_FOR_SYNC, OS_PARAMETERS,
    OS_PARAMETERS_PRIVATE, OS_PARAMETERS_SECRET, OS_SIZE, OPPORTUNISTIC, TAGS, *SET_JOB,
)  # fmt: skip
SHUTDOWN_TIMEOUT = Value(
    "--shutdown-timeout", dest="shutdown_timeout", type="int", default=constants.DEFAULT_SHUTDOWN_TIMEOUT,
    text="Seconds before it is stopped by force",
)  # fmt: skip
TIMEOUT = Value(
    "--timeout", dest="timeout", type="int", default=constants.DEFAULT_SHUTDOWN_TIMEOUT,
    text="Seconds before it is stopped by force",
)  # fmt: skip
IGNORE_OFFLINE = Flag("--ignore-offline", dest="ignore_offline", text="Go on although the primary node is offline")
IGNORE_SECONDARIES = Flag("--ignore-secondaries", dest="ignore_secondaries", text="Ignore errors of secondary nodes")
IGNORE_CONSISTENCY = Flag(
    "--ignore-consistency", dest="ignore_consistency", text="Go on although mirrors are degraded or unreachable"
)
IGNORE_FAILURES = Flag("--ignore-failures", dest="ignore_failures", text="Remove it from the configuration in any case")
IGNORE_SIZE = Flag("--ignore-size", dest="ignore_size", text="Go on although the recorded size differs")
IGNORE_HVVERSIONS = Flag("--ignore-hvversions", dest="ignore_hvversions", text="Allow other hypervisor versions")
IGNORE_SOFT_ERRORS = Flag("--ignore-soft-errors", dest="ignore_soft_errors", text="The allocator may break soft rules")
NO_REMEMBER = Flag("--no-remember", dest="no_remember", text="Do not change the recorded state")
PAUSED = Flag("--paused", dest="startup_paused", text="Start it with its CPUs halted")
REBOOT_TYPE = Value(
    "-t", "--type", dest="reboot_type", metavar="REBOOT", choices=["full", "hard", "soft"], default="hard",
    text="soft: by the guest; hard: stop and start; full: disks too",
)  # fmt: skip
CLEANUP = Flag("--cleanup", dest="cleanup", text="Recover from an interrupted migration")
NON_LIVE = Opt("--non-live", dest="live", action="store_false", default=True, help="Migrate with a pause")
MIGRATION_MODE = Value(
    "--migration-mode",
    dest="migration_mode",
    choices=["live", "non-live"],
    text="Mode that differs from the hypervisor's",
)
ALLOW_FAILOVER = Flag("--allow-failover", dest="allow_failover", text="Fail over where migration is impossible")
NO_RUNTIME_CHANGES = Opt(
    "--no-runtime-changes", dest="allow_runtime_changes", action="store_false", default=True,
    help="Do not shrink its memory to make it fit",
)  # fmt: skip
RUNTIME_MEMORY = Value(
    "-m", "--runtime-memory", dest="runtime_mem", type="unit", metavar="SIZE", text="Change its memory now to this"
)
OFFLINE_INSTANCE = Flag("--offline", dest="offline_inst", text="Mark it offline")
ONLINE_INSTANCE = Flag("--online", dest="online_inst", text="Undo --offline")
NO_HOTPLUG = Opt(
    "--no-hotplug",
    dest="hotplug",
    action="store_false",
    default=True,
    help="Change a running instance at its restart only",
)
EXT_PARAMS = Value(
    "-e", "--ext-params", dest="ext_params", type="keyval", default={}, metavar="provider=P[,KEY=VALUE,...]",
    text="Provider and parameters for disks of template ext",
)  # fmt: skip
STATIC = Flag("-s", "--static", dest="static", text="Only what the configuration knows; takes no locks")
ROMAN = Flag("--roman", dest="roman_integers", text="Roman numbers")
SHOW_CMD = Flag("--show-cmd", dest="show_command", text="Print the command instead of running it")
ABSOLUTE = Flag("--absolute", dest="absolute", text="The size is the final one, not what is added")
AUTO_REPLACE = Flag("-a", "--auto", dest="auto", text="Replace whatever disks are faulty")
ON_PRIMARY = Flag("-p", "--on-primary", dest="on_primary", text="Replace disks on the primary")
ON_SECONDARY = Flag("-s", "--on-secondary", dest="on_secondary", text="Replace disks on the secondary")
DISK_INDICES = Value("--disks", dest="disk_indices", metavar="N,...", text="Indices of disks; default all")
EARLY_RELEASE = Flag("--early-release", dest="early_release", text="Release locks before mirrors are in sync")
COMPRESS = Value("--compress", dest="compress", default="none", metavar="TOOL", text="Compression of the transfer")

# --- exports ----------------------------------------------------------------------------------------------------------

TRANSPORT_COMPRESSION = Value(
    "--transport-compression", dest="compress", default="none", metavar="TOOL", text="Compression of the transfer"
)
NOSHUTDOWN = Opt("--noshutdown", dest="shutdown", action="store_false", default=True, help="Export while it runs")
REMOVE_INSTANCE = Flag("--remove-instance", dest="remove_instance", text="Remove it after the export")
IGNORE_REMOVE_FAILURES = Flag(
    "--ignore-remove-failures", dest="ignore_remove_failures", text="Ignore errors of --remove-instance"
)
ZERO_FREE_SPACE = Flag("--zero-free-space", dest="zero_free_space", text="Zero free disk space before")
ZEROING_TIMEOUT_FIXED = Value(
    "--zeroing-timeout-fixed", dest="zeroing_timeout_fixed", type="int", text="Seconds for zeroing"
)
ZEROING_TIMEOUT_PER_MIB = Value(
    "--zeroing-timeout-per-mib", dest="zeroing_timeout_per_mib", type="float", text="Seconds more for each MiB"
)
LONG_SLEEP = Flag("--long-sleep", dest="long_sleep", text="Allow a long shutdown")
IDENTIFY_DEFAULTS = Flag(
    "--identify-defaults", dest="identify_defaults", text="Inherit values that equal the present defaults"
)
SRC_DIR = Value("--src-dir", dest="src_dir", metavar="DIR", text="Directory of the export")
SRC_NODE = Value("--src-node", dest="src_node", metavar="NODE", completion=COMPLETE_NODE, text="Node with the export")

# --- networks ---------------------------------------------------------------------------------------------------------

NETWORK = Value("--network", dest="network", text="IPv4 subnet")
GATEWAY = Value("--gateway", dest="gateway", text="IPv4 gateway")
NETWORK6 = Value("--network6", dest="network6", text="IPv6 subnet")
GATEWAY6 = Value("--gateway6", dest="gateway6", text="IPv6 gateway")
ADD_RESERVED_IPS = Value(
    "--add-reserved-ips", dest="add_reserved_ips", metavar="IP,...", text="Addresses that others use"
)
REMOVE_RESERVED_IPS = Value(
    "--remove-reserved-ips", dest="remove_reserved_ips", metavar="IP,...", text="Addresses that others use no more"
)

# --- filters ----------------------------------------------------------------------------------------------------------

FILTER_PRIORITY = Value("--priority", dest="priority", type="int", default=0, text="Rules of lower numbers come first")
PREDICATES = Value("--predicates", dest="predicates", type="json", default=[], metavar="JSON", text="Which jobs")
ACTION = Value(
    "--action", dest="action", type="filteraction", default="CONTINUE",
    text="ACCEPT, CONTINUE, PAUSE, REJECT or 'RATE_LIMIT n'",
)  # fmt: skip

# --- OS, debugging ----------------------------------------------------------------------------------------------------

HIDDEN = Value("--hidden", dest="hidden", type="bool", text="Not listed, but may be installed")
BLACKLISTED = Value("--blacklisted", dest="blacklisted", type="bool", text="Not listed, not for new instances")

DELAY_NODES = Values("-n", dest="on_nodes", metavar="NODE", completion=COMPLETE_NODE, text="Node to sleep on")
NO_MASTER = Opt("--no-master", dest="on_master", action="store_false", default=True, help="Do not sleep on the master")
REPEAT = Value("-r", "--repeat", dest="repeat", type="int", default=0, text="How often to repeat it")
INTERRUPTIBLE = Flag("-i", "--interruptible", dest="interruptible", text="End when somebody connects to a socket")
NO_LOCKS = Flag("-l", "--no-locks", dest="no_locks", text="Take no locks")
INTERVAL = Value("--interval", dest="interval", type="int", metavar="SECONDS", text="Repeat every so often")
OP_REPEAT = Value("--op-repeat", dest="rep_op", type="int", default=1, text="How often to repeat the opcodes in a job")
JOB_REPEAT = Value("--job-repeat", dest="rep_job", type="int", default=1, text="How often to submit the jobs")
TIMING_STATS = Flag("--timing-stats", dest="timing_stats", text="Print counters and times")
EACH = Flag("--each", dest="each", text="Submit every job by a call of its own")
DIRECTION = Value("--dir", dest="direction", choices=["in", "out"], default="in", text="in: print the request only")
ALLOC_MODE = Value(
    "-m", "--mode", dest="mode", default="relocate",
    choices=["allocate", "allocate-secondary", "change-group", "multi-allocate", "node-evacuate", "relocate"],
    text="Kind of request",
)  # fmt: skip
ALLOC_MEMORY = Value("--memory", dest="memory", type="unit", default=128, text="Memory of the instance")
ALLOC_DISKS = Value("--disks", dest="disks", default="4096,4096", metavar="SIZE,...", text="Sizes of its disks")
ALLOC_NICS = Value("--nics", dest="nics", default="00:11:22:33:44:55", metavar="MAC/IP/BRIDGE,...", text="Its NICs")
ALLOC_VCPUS = Value("-p", "--vcpus", dest="vcpus", type="int", default=1, text="Virtual CPUs")
ALLOC_COUNT = Value("--count", dest="count", type="int", default=2, text="How many instances (multi-allocate)")
EVAC_MODE = Value(
    "--evac-mode", dest="evac_mode", choices=["all", "primary-only", "secondary-only"], default="all",
    text="Which instances (node-evacuate)",
)  # fmt: skip
TARGET_GROUPS = Values("--target-groups", dest="target_groups", completion=COMPLETE_GROUP, text="Groups (change-group)")
SPINDLE_USE = Value("--spindle-use", dest="spindle_use", type="int", default=1, text="Spindles")
