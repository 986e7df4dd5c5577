"""Facts that more than one room needs.  What only one room needs stands in that room.

Defaults of parameters live in ``params``, paths in ``pathutils``, error codes in ``errors``.
"""

from __future__ import annotations

# --- versions ---------------------------------------------------------------------------------------------------------

CONFIG_MAJOR = 3
CONFIG_MINOR = 1
CONFIG_VERSION = CONFIG_MAJOR * 1000000 + CONFIG_MINOR * 10000
PROTOCOL_VERSION = CONFIG_VERSION
LUXI_VERSION = CONFIG_VERSION
RELEASE_VERSION = "3.1.0"
VCS_VERSION = "(none)"
OS_API_V10, OS_API_V15, OS_API_V20 = 10, 15, 20
OS_API_VERSIONS = frozenset([OS_API_V10, OS_API_V15, OS_API_V20])
# Seconds by which clocks of nodes and clusters may differ.
MAX_CLOCK_SKEW = 150.0
# What a node is asked about an operating system: whether it takes parameters, and has an optional script.
OS_CHECK_PARAMETERS = "parameters"
OS_SCRIPT_EXPORT, OS_SCRIPT_IMPORT = "export", "import"
# The parameter of an instance that names an image to be used in place of an operating system's scripts (doc/reference/interfaces.md a.6).
OS_IMAGE = "os-image"
EXPORT_VERSION = 0
IALLOCATOR_VERSION = 2
# The allocator that is part of the master daemon.
IALLOC_HAIL = "hail"
JOB_QUEUE_VERSION = 1
# Each job that runs has a thread of the master daemon.
MAX_RUNNING_JOBS = 500
RAPI_VERSION = 2

# --- processes --------------------------------------------------------------------------------------------------------

NODED = "ganeti-noded"
MASTERD = "ganeti-masterd"
RAPI = "ganeti-rapi"
CONFD = "ganeti-confd"
DAEMONS = (NODED, CONFD, MASTERD, RAPI)
DEFAULT_NODED_PORT = 1811
DEFAULT_CONFD_PORT = 1814
DEFAULT_MOND_PORT = 1815
DEFAULT_RAPI_PORT = 5080
# Of every server of ours, and of calls to nodes: 3.1's without static RSA, as every node has the key of server.pem and could
# read what it recorded.
TLS_CIPHERS = "HIGH:-DES:-3DES:-EXPORT:-DH:-kRSA:-aNULL"
FIRST_DRBD_PORT = 11000
LAST_DRBD_PORT = 14999
VNC_BASE_PORT = 5900
CONSOLE_SOCAT_OPTIONS = "STDIO,raw,echo=0,escape=0x1d"

EXIT_SUCCESS = 0
EXIT_FAILURE = 1
EXIT_CONFIG = 2
EXIT_NOTCLUSTER = 5
EXIT_NOTMASTER = 11
EXIT_NODESETUP_ERROR = 12
EXIT_CONFIRMATION = 13
EXIT_UNKNOWN_FIELD = 14

# --- hypervisors, disks, instances ------------------------------------------------------------------------------------

HT_KVM = "kvm"
HT_XEN_PVM = "xen-pvm"
HT_XEN_HVM = "xen-hvm"
HT_FAKE = "fake"
HT_CHROOT = "chroot"
HT_LXC = "lxc"
HYPER_TYPES = (HT_KVM, HT_XEN_PVM, HT_CHROOT, HT_XEN_HVM, HT_LXC, HT_FAKE)

DT_DISKLESS = "diskless"
DT_FILE = "file"
DT_SHARED_FILE = "sharedfile"
DT_PLAIN = "plain"
DT_BLOCK = "blockdev"
DT_DRBD8 = "drbd"
DT_RBD = "rbd"
DT_EXT = "ext"
DT_GLUSTER = "gluster"
DT_MIXED = "mixed"
# In this order they are listed where nobody chose; what each is, params.disk says.
DISK_TEMPLATES = (DT_DISKLESS, DT_FILE, DT_SHARED_FILE, DT_PLAIN, DT_BLOCK, DT_DRBD8, DT_RBD, DT_EXT, DT_GLUSTER)

ST_BLOCK = "blockdev"
ST_DISKLESS = "diskless"
ST_EXT = "ext"
ST_FILE = "file"
ST_GLUSTER = "gluster"
ST_LVM_PV = "lvm-pv"
ST_LVM_VG = "lvm-vg"
ST_RADOS = "rados"
ST_SHARED_FILE = "sharedfile"
# What each is, params.units says.
STORAGE_TYPES = (
    ST_BLOCK, ST_DISKLESS, ST_EXT, ST_FILE, ST_GLUSTER, ST_LVM_PV, ST_LVM_VG, ST_RADOS, ST_SHARED_FILE
)  # fmt: skip

FD_LOOP, FD_BLKTAP, FD_BLKTAP2 = "loop", "blktap", "blktap2"
FILE_DRIVERS = (FD_LOOP, FD_BLKTAP, FD_BLKTAP2)

ADMINST_UP = "up"
ADMINST_DOWN = "down"
ADMINST_OFFLINE = "offline"
ADMINST_ALL = (ADMINST_UP, ADMINST_DOWN, ADMINST_OFFLINE)
ADMIN_SOURCE = "admin"
USER_SOURCE = "user"

# States of an instance on its node (noderpc 3.2).
INST_RUNNING = 0
INST_USER_SHUTDOWN = 1

DISK_RDONLY = "ro"
DISK_RDWR = "rw"
MAX_DISKS = 16
MAX_NICS = 8

NIC_MODE_BRIDGED = "bridged"
NIC_MODE_ROUTED = "routed"
NIC_MODE_OVS = "openvswitch"
NIC_MODE_POOL = "pool"

LDS_OKAY, LDS_SYNC, LDS_UNKNOWN, LDS_FAULTY = 1, 2, 3, 4

# What the configuration says of the other side of a mirror (storage.base.Mirror): a key of ``dynamic_params``.
PEER = "peer"
PEER_COUNTS = "counts"
PEER_BEHIND = "behind"
PEER_AHEAD = "ahead"
PEER_ALL = (PEER_COUNTS, PEER_BEHIND, PEER_AHEAD)
# How often that was decided anew: a call with a lower number comes late.
DECISION = "decision"

# What the disks of a helper are called that works in the place of an instance (doc/design-install.rst).
HELPER_DISK = "helper"

# How an instance begins, and where an export goes: to a node, or to another cluster.
CREATE_NEW, CREATE_IMPORT, CREATE_REMOTE_IMPORT = "create", "import", "remote-import"
EXPORT_LOCAL, EXPORT_REMOTE = "local", "remote"

# What compresses disks on their way.
NO_COMPRESSION = "none"
DEFAULT_COMPRESSION_TOOLS = ("gzip", "gzip-fast", "gzip-slow")

# How long zeroing free space may take if nobody says it: in all, and more for each MiB of the disks.
ZEROING_SECONDS, ZEROING_SECONDS_PER_MIB = 300, 0.05

VALUE_AUTO = "auto"
VALUE_GENERATE = "generate"
VALUE_DEFAULT = "default"
VALUE_NONE = "none"

ALLOC_POLICY_PREFERRED = "preferred"
ALLOC_POLICY_LAST_RESORT = "last_resort"
ALLOC_POLICY_UNALLOCABLE = "unallocable"
VALID_ALLOC_POLICIES = (ALLOC_POLICY_PREFERRED, ALLOC_POLICY_LAST_RESORT, ALLOC_POLICY_UNALLOCABLE)

PP_DEFAULT = "default"
INITIAL_NODE_GROUP_NAME = "default"
DEFAULT_MAC_PREFIX = "aa:00:00"
DEFAULT_BRIDGE = "xen-br0"
IP4_FAMILY, IP6_FAMILY = 2, 10
DEFAULT_SHUTDOWN_TIMEOUT = 120

# --- tags -------------------------------------------------------------------------------------------------------------

TAG_CLUSTER = "cluster"
TAG_NODE = "node"
TAG_INSTANCE = "instance"
TAG_NODEGROUP = "nodegroup"
TAG_NETWORK = "network"
VALID_TAG_TYPES = (TAG_CLUSTER, TAG_NODE, TAG_INSTANCE, TAG_NODEGROUP, TAG_NETWORK)
MAX_TAG_LEN = 128
MAX_TAGS_PER_OBJ = 4096

# --- tokens of the remote interface (doc/design-rapi.rst) -------------------------------------------------------------

RAPI_ROLE_READ = "read"
RAPI_ROLE_OPERATE = "operate"
RAPI_ROLE_ADMIN = "admin"
# Each includes those before it.
RAPI_ROLE_DOCS = {
    RAPI_ROLE_READ: "looks only",
    RAPI_ROLE_OPERATE: "also starts, stops and moves instances",
    RAPI_ROLE_ADMIN: "does everything",
}
RAPI_ROLES = tuple(RAPI_ROLE_DOCS)
# Nothing that these may do changes which instances have a tag, or what an instance's name is.
RAPI_ROLES_WITH_TAGS = (RAPI_ROLE_READ, RAPI_ROLE_OPERATE)
MAX_RAPI_TOKENS = 500
# Sources of entries in the reason trail of a job (doc/reference/rapi.md 6.4): that the job came by the remote interface, and, with
# the name, that whoever sent it may only read.
RAPI_REASON_SOURCE = "gnt:library:rlib2:"
RAPI_READER_SOURCE = "gnt:rapi:reader"

# --- jobs (doc/reference/jobs.md) ----------------------------------------------------------------------------------------------

JOB_STATUS_QUEUED = "queued"
JOB_STATUS_WAITING = "waiting"
JOB_STATUS_CANCELING = "canceling"
JOB_STATUS_RUNNING = "running"
JOB_STATUS_CANCELED = "canceled"
JOB_STATUS_SUCCESS = "success"
JOB_STATUS_ERROR = "error"
JOBS_FINALIZED = frozenset([JOB_STATUS_CANCELED, JOB_STATUS_SUCCESS, JOB_STATUS_ERROR])
JOBS_PENDING = frozenset([JOB_STATUS_QUEUED, JOB_STATUS_WAITING, JOB_STATUS_CANCELING])
JOB_STATUS_ALL = frozenset([JOB_STATUS_RUNNING]) | JOBS_FINALIZED | JOBS_PENDING

OP_PRIO_LOWEST = 19
OP_PRIO_LOW = 10
OP_PRIO_NORMAL = 0
OP_PRIO_HIGH = -10
OP_PRIO_HIGHEST = -20
OP_PRIO_SUBMIT_VALID = (OP_PRIO_LOW, OP_PRIO_NORMAL, OP_PRIO_HIGH)

ELOG_MESSAGE = "message"
ELOG_MESSAGE_LIST = "message-list"
ELOG_REMOTE_IMPORT = "remote-import"
ELOG_JQUEUE_TEST = "jqueue-test"
ELOG_DELAY_TEST = "delay-test"

JOB_ID_TEMPLATE = "job-{}"
JOBS_PER_ARCHIVE_DIRECTORY = 10000

# --- node RPC time-outs in seconds (noderpc 2) ------------------------------------------------------------------------

RPC_CONNECT_TIMEOUT = 5
RPC_TMO_URGENT = 60
RPC_TMO_FAST = 300
RPC_TMO_NORMAL = 900
RPC_TMO_SLOW = 3600
RPC_TMO_4HRS = 14400
RPC_TMO_1DAY = 86400

# --- hooks ------------------------------------------------------------------------------------------------------------

# PATH of hooks and of the scripts of operating systems.
SCRIPT_PATH = "/sbin:/bin:/usr/sbin:/usr/bin"

HOOKS_PHASE_PRE = "pre"
HOOKS_PHASE_POST = "post"
HKR_SKIP, HKR_FAIL, HKR_SUCCESS = 0, 1, 2

# --- queries (doc/reference/queries.md) ----------------------------------------------------------------------------------------

RS_NORMAL, RS_UNKNOWN, RS_NODATA, RS_UNAVAIL, RS_OFFLINE = 0, 1, 2, 3, 4
