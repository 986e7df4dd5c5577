"""Options of several commands of gnt-cluster; those that only ``init`` and ``modify`` share are most of them."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import options as o
from ganeti.cli.parser import COMPLETE_IALLOCATOR, ElementsOf, FileValue, Value

SSH_KEY_TYPE = Value("--ssh-key-type", dest="ssh_key_type", choices=ElementsOf("TSshKeyType"), text="Type of SSH keys")
SSH_KEY_BITS = Value("--ssh-key-bits", dest="ssh_key_bits", type="int", metavar="BITS", text="Length of SSH keys")

CANDIDATE_POOL_SIZE = Value(
    "-C", "--candidate-pool-size", dest="candidate_pool_size", type="int", metavar="NUMBER",
    text="Wanted number of master candidates",
)  # fmt: skip
ENABLED_HYPERVISORS = Value(
    "--enabled-hypervisors", dest="enabled_hypervisors", type="names", metavar="HV,...",
    text="Hypervisors that instances may use; the first is the default",
)  # fmt: skip
ENABLED_DISK_TEMPLATES = Value(
    "--enabled-disk-templates", dest="enabled_disk_templates", type="names", metavar="TEMPLATE,...",
    text="Disk templates that instances may use; the first is the default",
)  # fmt: skip
MASTER_NETDEV = Value(
    "--master-netdev", dest="master_netdev", metavar="INTERFACE", text="Network interface of the master IP address"
)
MASTER_NETMASK = Value(
    "--master-netmask", dest="master_netmask", metavar="LENGTH", text="Prefix length of the master IP address"
)
EXTERNAL_MIP_SCRIPT = Value(
    "--use-external-mip-script", dest="use_external_mip_script", type="bool",
    text="Set up the master IP address with the site's own script",
)  # fmt: skip
VG_NAME = Value("--vg-name", dest="vg_name", metavar="VG", text="LVM volume group; empty to use no LVM")
DRBD_HELPER = FileValue(
    "--drbd-usermode-helper", dest="drbd_helper", metavar="PATH",
    text="Usermode helper of DRBD on the nodes; empty to use no DRBD",
)  # fmt: skip
PREALLOC_WIPE = Value(
    "--prealloc-wipe-disks", dest="prealloc_wipe_disks", type="bool", text="Overwrite new disks before they are used"
)
UID_POOL = Value(
    "--uid-pool", dest="uid_pool", type="uidpool", metavar="LOW-HIGH,...",
    text="User IDs for instances with security_model pool, such as 4000-4019,5000",
)  # fmt: skip
FILE_STORAGE_DIR = FileValue(
    "--file-storage-dir", dest="file_storage_dir", metavar="DIR",
    text="Directory on the nodes for disks of the template file",
)  # fmt: skip
SHARED_FILE_STORAGE_DIR = FileValue(
    "--shared-file-storage-dir", dest="shared_file_storage_dir", metavar="DIR",
    text="Directory on the nodes for disks of the template sharedfile",
)  # fmt: skip
USER_SHUTDOWN = Value(
    "--user-shutdown", dest="enabled_user_shutdown", type="bool",
    text="Do not restart instances that were shut down from inside",
)  # fmt: skip
MAINTAIN_NODE_HEALTH = Value(
    "--maintain-node-health", dest="maintain_node_health", type="bool",
    text="Have the watcher end guests and DRBD devices on nodes that are marked offline",
)  # fmt: skip

DEFAULT_IALLOCATOR = Value(
    "-I", "--default-iallocator", dest="default_iallocator", metavar="NAME[,...]", completion=COMPLETE_IALLOCATOR,
    text="Allocator that chooses nodes where none are named; several are tried in order, '' clears",
)  # fmt: skip
DEFAULT_IALLOCATOR_PARAMS = Value(
    "--default-iallocator-params", dest="default_iallocator_params", type="keyval", metavar="KEY=VALUE,...",
    text="Options that allocators get, without dashes: no-capacity-checks,static-kvm-node-memory=2048;"
    " '' clears",
)  # fmt: skip

ZEROING_IMAGE = Value(
    "--zeroing-image", dest="zeroing_image", metavar="FILE-OR-URL",
    text="Image of the system that overwrites the unused space of disks for gnt-backup export with --zero-free-space",
)  # fmt: skip
COMPRESSION_TOOLS = Value(
    "--compression-tools", dest="compression_tools", type="names", metavar="TOOL,...",
    text="Programs that may compress disks on their way to other nodes; '' allows the usual ones"
    f" ({', '.join(constants.DEFAULT_COMPRESSION_TOOLS)})",
)  # fmt: skip
INSTALL_IMAGE = Value(
    "--install-image", dest="install_image", metavar="FILE-OR-URL",
    text="Image of the system in which scripts 'create_untrusted' of operating systems run",
)  # fmt: skip

# What init and modify have in common, but for the common sets of parameters.
SET_SETTINGS = (
    CANDIDATE_POOL_SIZE, ENABLED_HYPERVISORS, ENABLED_DISK_TEMPLATES, o.MAC_PREFIX, MASTER_NETDEV, MASTER_NETMASK,
    EXTERNAL_MIP_SCRIPT, VG_NAME, DRBD_HELPER, PREALLOC_WIPE, UID_POOL, FILE_STORAGE_DIR, SHARED_FILE_STORAGE_DIR,
    USER_SHUTDOWN, MAINTAIN_NODE_HEALTH, DEFAULT_IALLOCATOR, DEFAULT_IALLOCATOR_PARAMS, ZEROING_IMAGE,
    COMPRESSION_TOOLS, INSTALL_IMAGE,
)  # fmt: skip
