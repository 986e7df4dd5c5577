"""Every path of ours (doc/reference/files.md 1-5), with the prefix of a virtual cluster's node (section 14).

Several nodes can live on one machine: ``GANETI_ROOTDIR`` is the directory of this node and is put before everything
that belongs to a node; ``GANETI_HOSTNAME`` is its name.  Both are read once, when this module is imported.  Two things
differ from 3.1 there (``doc/compatibility.rst``): a node has SSH host keys of its own, and all nodes share one hosts
file beside their directories.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ganeti import _autoconf, errors

ENV_ROOTDIR = "GANETI_ROOTDIR"
ENV_HOSTNAME = "GANETI_HOSTNAME"

# Stands for the sender's prefix in paths that travel between nodes.
VIRTUAL_PATH_MARKER = "/###-VIRTUAL-PATH-###,"
REAL_ETC_HOSTS = "/etc/hosts"


def ReadVirtualNode(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return (root directory, host name) of this virtual node; both empty outside virtual clusters.

    Raises ConfigurationError when the variables make no sense: going on could touch another node's files.
    """
    root = environment.get(ENV_ROOTDIR, "")
    name = environment.get(ENV_HOSTNAME, "")
    if not root and not name:
        return ("", "")
    if not root or not name:
        raise errors.ConfigurationError(f"{ENV_ROOTDIR} and {ENV_HOSTNAME} must be set together")
    if not root.startswith("/") or os.path.normpath(root) != root:
        raise errors.ConfigurationError(f"{ENV_ROOTDIR}: '{root}' is not an absolute and normalised path")
    if os.path.basename(root) != name:
        raise errors.ConfigurationError(
            f"{ENV_ROOTDIR}: the last part of '{root}' must be the node's name, {ENV_HOSTNAME} says '{name}'"
        )
    return (root, name)


try:
    ROOT_DIR, VIRTUAL_HOSTNAME = ReadVirtualNode(os.environ)
except errors.ConfigurationError as _err:
    raise SystemExit(f"Failure: {_err}") from None


def IsVirtual() -> bool:
    """Return whether this process is a node of a virtual cluster."""
    return bool(ROOT_DIR)


def HostName() -> str:
    """Return this machine's own name, unresolved; in a virtual cluster the node's."""
    if VIRTUAL_HOSTNAME:
        return VIRTUAL_HOSTNAME
    from ganeti import runtime

    return runtime.HostName()


# --- paths that travel ------------------------------------------------------------------------------------------------


def AddNodePrefix(path: str) -> str:
    """Return the place of ``path`` for this node; the path itself outside virtual clusters."""
    return ROOT_DIR + path


def _WithoutPrefix(path: str) -> str:
    """Return ``path`` as it would be called outside a virtual cluster."""
    if not path.startswith("/") or os.path.normpath(path) != path:
        raise errors.ProgrammerError(f"Path '{path}' is not absolute and normalised")
    if not path.startswith(ROOT_DIR + "/"):
        raise errors.ConfigurationError(f"Path '{path}' does not lie in this node's directory '{ROOT_DIR}'")
    return path.removeprefix(ROOT_DIR)


def MakeVirtualPath(path: str) -> str:
    """Prepare a path of this node for the way to another one."""
    if not ROOT_DIR or path == REAL_ETC_HOSTS:
        return path
    if path == ETC_HOSTS:
        return REAL_ETC_HOSTS
    return VIRTUAL_PATH_MARKER + _WithoutPrefix(path)


def LocalizeVirtualPath(path: str) -> str:
    """Return the own place of a path that another node sent; raises ConfigurationError on one without the marker."""
    if not ROOT_DIR:
        return path
    if path == REAL_ETC_HOSTS:
        return ETC_HOSTS
    if not path.startswith(VIRTUAL_PATH_MARKER):
        raise errors.ConfigurationError(f"Path '{path}' was not sent by a node of this virtual cluster")
    rest = path.removeprefix(VIRTUAL_PATH_MARKER)
    if not rest.startswith("/") or os.path.normpath(rest) != rest:
        raise errors.ConfigurationError(f"Path '{rest}' is not absolute and normalised")
    return ROOT_DIR + rest


def EnvironmentForHost(name: str) -> dict[str, str]:
    """Return the variables under which programs of node ``name`` run; empty outside virtual clusters."""
    if not ROOT_DIR:
        return {}
    return {ENV_ROOTDIR: os.path.join(os.path.dirname(ROOT_DIR), name), ENV_HOSTNAME: name}


def ExchangeNodeRoot(name: str, path: str) -> str:
    """Return the place on node ``name`` of a path of this node: sibling directories in a virtual cluster."""
    if not ROOT_DIR:
        return path
    return os.path.join(os.path.dirname(ROOT_DIR), name) + _WithoutPrefix(path)


# --- directories ------------------------------------------------------------------------------------------------------

DATA_DIR = AddNodePrefix(_autoconf.LOCALSTATE_DIR + "/lib/ganeti")
RUN_DIR = AddNodePrefix(_autoconf.LOCALSTATE_DIR + "/run/ganeti")
LOG_DIR = AddNodePrefix(_autoconf.LOCALSTATE_DIR + "/log/ganeti")
LOCK_DIR = AddNodePrefix(_autoconf.LOCK_DIR)
CONF_DIR = AddNodePrefix(_autoconf.SYSCONF_DIR + "/ganeti")
EXPORT_DIR = AddNodePrefix(_autoconf.EXPORT_DIR)
BACKUP_DIR = AddNodePrefix(_autoconf.BACKUP_DIR)
DEFAULT_FILE = AddNodePrefix(_autoconf.SYSCONF_DIR + "/default/ganeti")

SBIN_DIR = _autoconf.SBIN_DIR
DAEMON_DIR = _autoconf.DAEMON_DIR
PKGLIB_DIR = _autoconf.PKGLIB_DIR
TOOLS_DIR = _autoconf.TOOLS_DIR
SHARE_DIR = _autoconf.SHARE_DIR
EXAMPLES_DIR = _autoconf.EXAMPLES_DIR

OS_SEARCH_PATH = _autoconf.OS_SEARCH_PATH
ES_SEARCH_PATH = _autoconf.ES_SEARCH_PATH
IALLOCATOR_SEARCH_PATH = _autoconf.IALLOCATOR_SEARCH_PATH

DEFAULT_FILE_STORAGE_DIR = AddNodePrefix(_autoconf.FILE_STORAGE_DIR)
DEFAULT_SHARED_FILE_STORAGE_DIR = AddNodePrefix(_autoconf.SHARED_FILE_STORAGE_DIR)
DEFAULT_GLUSTER_STORAGE_DIR = RUN_DIR + "/gluster"

# --- programs ---------------------------------------------------------------------------------------------------------

DAEMON_UTIL = PKGLIB_DIR + "/daemon-util"
ENSURE_DIRS = PKGLIB_DIR + "/ensure-dirs"
PREPARE_NODE_JOIN = PKGLIB_DIR + "/prepare-node-join"
NODE_DAEMON_SETUP = PKGLIB_DIR + "/node-daemon-setup"
SSH_UPDATE = PKGLIB_DIR + "/ssh-update"
SSL_UPDATE = PKGLIB_DIR + "/ssl-update"
IMPORT_EXPORT_DAEMON = PKGLIB_DIR + "/import-export"
CHECK_CERT_EXPIRED = PKGLIB_DIR + "/check-cert-expired"
KVM_IFUP = PKGLIB_DIR + "/kvm-ifup"
XEN_IFUP_OS = PKGLIB_DIR + "/xen-ifup-os"
CFGUPGRADE = TOOLS_DIR + "/cfgupgrade"
ADOPT = TOOLS_DIR + "/adopt"
HAND_BACK = TOOLS_DIR + "/hand-back"
POST_UPGRADE = TOOLS_DIR + "/post-upgrade"
KVM_CONSOLE_WRAPPER = TOOLS_DIR + "/kvm-console-wrapper"
XEN_CONSOLE_WRAPPER = TOOLS_DIR + "/xen-console-wrapper"
DEFAULT_MASTER_SETUP_SCRIPT = TOOLS_DIR + "/master-ip-setup"
LVMSTRAP = TOOLS_DIR + "/lvmstrap"
NODE_CLEANUP = TOOLS_DIR + "/node-cleanup"
USERS_SETUP = TOOLS_DIR + "/users-setup"


def DaemonProgram(name: str) -> str:
    """Return the program of a daemon, ``ganeti-noded``, or of the watcher and the cleaner."""
    return f"{DAEMON_DIR}/{name}"


# --- DATA -------------------------------------------------------------------------------------------------------------

CLUSTER_CONF_FILE = DATA_DIR + "/config.data"
LOCKS_DATA_FILE = DATA_DIR + "/locks.data"
TEMP_RES_FILE = DATA_DIR + "/tempres.data"
NODED_CERT_FILE = DATA_DIR + "/server.pem"
NODED_CLIENT_CERT_FILE = DATA_DIR + "/client.pem"
RAPI_CERT_FILE = DATA_DIR + "/rapi.pem"
SPICE_CERT_FILE = DATA_DIR + "/spice.pem"
SPICE_CACERT_FILE = DATA_DIR + "/spice-ca.pem"
CONFD_HMAC_KEY = DATA_DIR + "/hmac.key"
CLUSTER_DOMAIN_SECRET_FILE = DATA_DIR + "/cluster-domain-secret"
SSH_KNOWN_HOSTS_FILE = DATA_DIR + "/known_hosts"
SSH_PUB_KEYS_FILE = DATA_DIR + "/ganeti_pub_keys"
RAPI_DATA_DIR = DATA_DIR + "/rapi"
RAPI_USERS_FILE = RAPI_DATA_DIR + "/users"
OLD_RAPI_USERS_FILE = DATA_DIR + "/rapi_users"
QUEUE_DIR = DATA_DIR + "/queue"
JOB_QUEUE_LOCK_FILE = QUEUE_DIR + "/lock"
JOB_QUEUE_VERSION_FILE = QUEUE_DIR + "/version"
JOB_QUEUE_SERIAL_FILE = QUEUE_DIR + "/serial"
JOB_QUEUE_DRAIN_FILE = QUEUE_DIR + "/drain"
JOB_QUEUE_ARCHIVE_DIR = QUEUE_DIR + "/archive"
OLD_WATCHER_STATE_FILE = DATA_DIR + "/watcher.data"
WATCHER_PAUSE_FILE = DATA_DIR + "/watcher.pause"
INTENT_TO_UPGRADE = DATA_DIR + "/intent-to-upgrade"
# Of a cluster that was taken over from the original: on the master, and on every node.
ADOPTION_JOURNAL = DATA_DIR + "/adoption.json"
ADOPTION_RECORD = DATA_DIR + "/adoption-node.json"
# Held by a run of adopt on the master, and by what it has a node do, which goes on there when the connection breaks.
ADOPTION_LOCK = RUN_DIR + "/adoption.lock"
ADOPTION_NODE_LOCK = RUN_DIR + "/adoption-node.lock"

# Ours, beside everything 3.1 knows (doc/extensions.rst).
DATA_EXT_DIR = DATA_DIR + "/ext"
DATA_EXT_KEPT_DIR = DATA_DIR + "/ext.kept"
# The configuration as it was before it was handed back; it goes where the copy of the store goes.
CONFIG_BEFORE_FILE = DATA_EXT_DIR + "/config.data.before"
STORE_FILE = DATA_EXT_DIR + "/store.db"
EXPORT_LOCK_FILE = DATA_EXT_DIR + "/export.lock"
MIGRATIONS_DIR = DATA_EXT_DIR + "/migrations"

_SSCONF_PREFIX = DATA_DIR + "/ssconf_"


def SsconfFile(key: str) -> str:
    return _SSCONF_PREFIX + key


def JobFile(job_id: int) -> str:
    return f"{QUEUE_DIR}/job-{job_id}"


def ArchivedJobFile(job_id: int) -> str:
    """Return the path of an archived job: directories hold ten thousand each."""
    return f"{JOB_QUEUE_ARCHIVE_DIR}/{job_id // 10000}/job-{job_id}"


def WatcherStateFile(group_uuid: str) -> str:
    return f"{DATA_DIR}/watcher.{group_uuid}.data"


def WatcherInstanceStatusFile(group_uuid: str) -> str:
    return f"{DATA_DIR}/watcher.{group_uuid}.instance-status"


def WatcherVolumeGroupsFile(group_uuid: str) -> str:
    return f"{DATA_DIR}/watcher.{group_uuid}.volume-groups"


def OnetimeArgsFile(daemon: str) -> str:
    """Return the arguments for the next start of a daemon by systemd."""
    return f"{DATA_DIR}/{daemon}.onetime.conf"


# --- RUN --------------------------------------------------------------------------------------------------------------

SOCKET_DIR = RUN_DIR + "/socket"
MASTER_SOCKET = SOCKET_DIR + "/ganeti-master"
QUERY_SOCKET = SOCKET_DIR + "/ganeti-query"
BDEV_CACHE_DIR = RUN_DIR + "/bdev-cache"
DISK_LINKS_DIR = RUN_DIR + "/instance-disks"
IMPORT_EXPORT_DIR = RUN_DIR + "/import-export"
CRYPTO_KEYS_DIR = RUN_DIR + "/crypto"
INSTANCE_REASON_DIR = RUN_DIR + "/instance-reason"
INSTANCE_STATUS_FILE = RUN_DIR + "/instance-status"
UIDPOOL_LOCK_DIR = RUN_DIR + "/uid-pool"
LIVELOCK_DIR = RUN_DIR + "/livelocks"
LUXID_MESSAGES_DIR = RUN_DIR + "/luxidmessages"
KVM_DIR = RUN_DIR + "/kvm-hypervisor"
KVM_DIRS: Mapping[str, int] = {
    KVM_DIR: 0o755,
    **{f"{KVM_DIR}/{name}": 0o755 for name in ("pid", "uid", "nic", "chroot", "chroot-quarantine")},
    **{f"{KVM_DIR}/{name}": 0o700 for name in ("ctrl", "conf", "identity")},
}
"""The directory and those in it, with their modes."""
XEN_DIR = RUN_DIR + "/xen-hypervisor"
LXC_DIR = RUN_DIR + "/lxc"
CHROOT_DIR = RUN_DIR + "/chroot-hypervisor"
FAKE_DIR = RUN_DIR + "/fake-hypervisor"

# Ours (doc/extensions.rst); CALLS_DIR: one locked file per changing call under way.
RUN_EXT_DIR = RUN_DIR + "/ext"
CALLS_DIR = RUN_EXT_DIR + "/calls"
CALLS_LOCK_FILE = CALLS_DIR + ".lock"
MASTER_LOCK_FILE = RUN_EXT_DIR + "/master.lock"
# In 3.1 in LOCK_DIR, where every user of the machine can make or lock them.
RESTRICTED_COMMANDS_LOCK_FILE = RUN_EXT_DIR + "/restricted-commands.lock"
SSCONF_LOCK_FILE = RUN_EXT_DIR + "/ssconf.lock"
SSH_PUB_KEYS_LOCK_FILE = RUN_EXT_DIR + "/ganeti_pub_keys.lock"
GUEST_LOCKS_DIR = RUN_EXT_DIR + "/guests"
DISK_OPENINGS_DIR = RUN_EXT_DIR + "/openings"
MIRRORS_DIR = RUN_EXT_DIR + "/mirrors"
DISKS_SHOWN_DIR = RUN_EXT_DIR + "/shown"


def DaemonPidFile(name: str) -> str:
    return f"{RUN_DIR}/{name}.pid"


def BdevCacheFile(device: str) -> str:
    """Return the file that says who uses an assembled block device, ``/dev/xenvg/lv`` -> ``bdev_xenvg_lv``."""
    return f"{BDEV_CACHE_DIR}/bdev_{device.removeprefix('/dev/').replace('/', '_')}"


def InstanceDiskLink(instance: str, index: int) -> str:
    return f"{DISK_LINKS_DIR}/{instance}:{index}"


def InstanceDiskOpening(instance: str, index: int) -> str:
    """Return the file that says for which start a disk of the instance is open on this node."""
    return f"{DISK_OPENINGS_DIR}/{instance}:{index}"


def InstanceReasonFile(instance: str) -> str:
    return f"{INSTANCE_REASON_DIR}/{instance}"


# --- CONF -------------------------------------------------------------------------------------------------------------

FILE_STORAGE_PATHS_FILE = CONF_DIR + "/file-storage-paths"
HOOKS_BASE_DIR = CONF_DIR + "/hooks"
WATCHER_HOOKS_DIR = HOOKS_BASE_DIR + "/watcher"
EXTERNAL_MASTER_SETUP_SCRIPT = CONF_DIR + "/scripts/master-ip-setup"
VNC_PASSWORD_FILE = CONF_DIR + "/vnc-cluster-password"
KVM_VIF_BRIDGE = CONF_DIR + "/kvm-vif-bridge"
RESTRICTED_COMMANDS_DIR = CONF_DIR + "/restricted-commands"
# The administrator's own list of files to send to every node (design 2.1).
EXTRA_FILES_LIST = CONF_DIR + "/extra-files"

XEN_CONFIG_DIR = AddNodePrefix(_autoconf.XEN_CONFIG_DIR)

ETC_HOSTS = os.path.join(os.path.dirname(ROOT_DIR), "hosts") if ROOT_DIR else REAL_ETC_HOSTS

# Where the machine starts programs from.
CRON_FILE = AddNodePrefix(_autoconf.SYSCONF_DIR + "/cron.d/ganeti")
LOGROTATE_FILE = AddNodePrefix(_autoconf.SYSCONF_DIR + "/logrotate.d/ganeti")
SYSTEMD_DIR = AddNodePrefix(_autoconf.SYSCONF_DIR + "/systemd/system")

SSH_CONFIG_DIR = AddNodePrefix(_autoconf.SSH_CONFIG_DIR)


def SshHostKey(kind: str) -> tuple[str, str]:
    """Return (private key, public key) of the SSH daemon; ``kind`` is rsa, dsa, ecdsa or ed25519."""
    private = f"{SSH_CONFIG_DIR}/ssh_host_{kind}_key"
    return (private, private + ".pub")


# --- LOG and LOCK -----------------------------------------------------------------------------------------------------

_DAEMON_LOG_NAMES = {
    "ganeti-noded": "node-daemon",
    "ganeti-masterd": "master-daemon",
    "ganeti-confd": "conf-daemon",
    "ganeti-rapi": "rapi-daemon",
}

LOG_RAPI_ACCESS = LOG_DIR + "/rapi-access.log"
LOG_WATCHER = LOG_DIR + "/watcher.log"
LOG_COMMANDS = LOG_DIR + "/commands.log"
LOG_BURNIN = LOG_DIR + "/burnin.log"
LOG_JOBS = LOG_DIR + "/jobs.log"
LOG_OS_DIR = LOG_DIR + "/os"
LOG_ES_DIR = LOG_DIR + "/extstorage"
LOG_XEN_DIR = LOG_DIR + "/xen"
LOG_KVM_DIR = LOG_DIR + "/kvm"
LOG_LXC_DIR = LOG_DIR + "/lxc"
LOG_CLEANER_DIR = LOG_DIR + "/cleaner"
LOG_MASTER_CLEANER_DIR = LOG_DIR + "/master-cleaner"
CONSOLE_DEVICE = "/dev/console"

WATCHER_LOCK_FILE = LOCK_DIR + "/ganeti-watcher.lock"


def DaemonLog(name: str) -> str:
    return f"{LOG_DIR}/{_DAEMON_LOG_NAMES[name]}.log"


def OsLog(kind: str, os_name: str, instance: str, component: str | None, timestamp: str) -> str:
    """Return the log of one run of an operating system's script; ``kind`` is add, import, export, rename..."""
    parts = [kind, os_name, instance] + ([component] if component else []) + [timestamp]
    return f"{LOG_OS_DIR}/{'-'.join(parts)}.log"


def EsLog(action: str, provider: str, volume: str, timestamp: str) -> str:
    """Return the log of one run of an external storage provider's script."""
    return f"{LOG_ES_DIR}/{action}-{provider}-{volume}-{timestamp}.log"
