"""The cluster object (doc/reference/config.md 5): identity, defaults of every kind, policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, ht
from ganeti.objects.base import (
    DEFAULTED,
    NON_DEFAULT,
    OPTIONAL,
    OURS,
    ConfigObject,
    Field,
    SerialField,
    TagsField,
    TimeField,
    UuidField,
)
from ganeti.utils import tokens

DATA_COLLECTORS = ("cpu-avg-load", "diskstats", "drbd", "inst-status-xen", "lv", "xen-cpu-avg-load")
DEFAULT_COLLECTOR_INTERVAL = 5000000
DEFAULT_DATA_COLLECTORS = {name: {"active": True, "interval": DEFAULT_COLLECTOR_INTERVAL} for name in DATA_COLLECTORS}

_LIST = ht.TListOf(ht.TString)
_SETS = ht.TDictOf(ht.TString, ht.TDict)
_RANGES = ht.TListOf(ht.TItems(ht.TNonNegativeInt, ht.TNonNegativeInt))
_COLLECTORS = ht.TDictOf(
    ht.TString, ht.TStrictDict({"active": ht.TBool, "interval": ht.TNonNegativeFloat}, {}, others=ht.TAny)
)
_TOKENS = ht.TDictOf(
    tokens.TName,
    ht.TStrictDict(
        {"sha256": tokens.TDigest, "role": ht.TElemOf(constants.RAPI_ROLES), "tags": _LIST, "created": ht.TFloat},
        {"expires": ht.TFloat},
        others=ht.TAny,
    ),
)


class Cluster(ConfigObject):
    """The one cluster object."""

    KIND = "cluster"

    rsahostkeypub: str = Field(ht.TString, doc="base64 body of the RSA host key, for known_hosts")
    dsahostkeypub: str | None = Field(ht.TString, default=None, written=OPTIONAL, since="2.8", doc="the same for DSA")
    highest_used_port: int = Field(
        ht.TInt, default=constants.FIRST_DRBD_PORT - 1, doc="last port handed out from the range"
    )
    tcpudp_port_pool: tuple[int, ...] = Field(
        ht.TListOf(ht.TInt), default=(), doc="returned ports, reused first, head of the list first"
    )
    mac_prefix: str = Field(ht.TString, default=constants.DEFAULT_MAC_PREFIX, doc="three octets for generated MACs")
    volume_group_name: str | None = Field(ht.TString, default=None, written=OPTIONAL, doc="absent when there is no LVM")
    reserved_lvs: tuple[str, ...] = Field(
        _LIST, default=(), since="2.2", doc="regular expressions on vg/lv: volumes that verify ignores"
    )
    drbd_usermode_helper: str | None = Field(
        ht.TString, default=None, written=OPTIONAL, since="2.2", doc="helper set in the DRBD module of each node"
    )
    master_node: str = Field(ht.TString, doc="uuid of the master")
    master_ip: str = Field(ht.TString, doc="address of the cluster's name")
    master_netdev: str = Field(ht.TString, doc="interface of the master address")
    master_netmask: int = Field(ht.TNonNegativeInt, default=32, since="2.6", doc="prefix length of the master address")
    use_external_mip_script: bool = Field(
        ht.TBool, default=False, since="2.6", doc="the administrator's script sets the master address up"
    )
    cluster_name: str = Field(ht.TString, doc="fully qualified name")
    file_storage_dir: str = Field(ht.TString, default="", doc="empty: disabled")
    shared_file_storage_dir: str = Field(ht.TString, default="", since="2.5", doc="empty: disabled")
    gluster_storage_dir: str = Field(ht.TString, default="", since="2.11", doc="mount directory, empty: disabled")
    enabled_hypervisors: tuple[str, ...] = Field(_LIST, doc="the first is the default of new instances")
    hvparams: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, doc="full set per known hypervisor")
    os_hvp: Mapping[str, Mapping[str, Mapping[str, Any]]] = Field(
        ht.TDictOf(ht.TString, _SETS), default={}, since="2.1", doc="overrides per OS and hypervisor"
    )
    beparams: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, doc="full set under 'default'")
    osparams: Mapping[str, Mapping[str, str]] = Field(
        _SETS, default={}, since="2.2", doc="public OS parameters by os or os+variant"
    )
    osparams_private_cluster: Mapping[str, Mapping[str, str]] = Field(
        _SETS, default={}, since="2.12", doc="private OS parameters by os or os+variant", secret=True
    )
    nicparams: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, since="2.1", doc="full set under 'default'")
    ndparams: Mapping[str, Any] = Field(ht.TDict, default={}, since="2.4", doc="full set of node parameters")
    diskparams: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, since="2.6", doc="full set per template")
    candidate_pool_size: int = Field(ht.TPositiveInt, default=10, doc="wanted number of master candidates")
    modify_etc_hosts: bool = Field(ht.TBool, default=True, doc="manage /etc/hosts of the nodes")
    modify_ssh_setup: bool = Field(ht.TBool, default=True, since="2.1", doc="manage root's SSH keys")
    maintain_node_health: bool = Field(
        ht.TBool, default=False, since="2.1", doc="the watcher may shut down what runs on offline nodes"
    )
    uid_pool: tuple[tuple[int, int], ...] = Field(
        _RANGES, default=(), since="2.1", doc="inclusive ranges of user ids for KVM"
    )
    default_iallocator: str = Field(ht.TString, default="", since="2.2", doc="empty: none")
    default_iallocator_params: Mapping[str, Any] = Field(ht.TDict, default={}, since="2.11")
    hidden_os: tuple[str, ...] = Field(_LIST, default=(), since="2.2", doc="not listed")
    blacklisted_os: tuple[str, ...] = Field(_LIST, default=(), since="2.2", doc="not valid for creation")
    primary_ip_family: int = Field(
        ht.TElemOf((constants.IP4_FAMILY, constants.IP6_FAMILY)),
        default=constants.IP4_FAMILY,
        since="2.3",
        doc="2 = IPv4, 10 = IPv6",
    )
    prealloc_wipe_disks: bool = Field(ht.TBool, default=False, since="2.3", doc="new disks are wiped")
    ipolicy: Mapping[str, Any] = Field(ht.TDict, default={}, since="2.6", doc="full instance policy")
    hv_state_static: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, written=DEFAULTED, since="2.6")
    disk_state_static: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, written=DEFAULTED, since="2.6")
    enabled_disk_templates: tuple[str, ...] = Field(_LIST, since="2.8", doc="the first is the default")
    candidate_certs: Mapping[str, str] = Field(
        ht.TDictOf(ht.TString, ht.TString), default={}, since="2.11", doc="node uuid to digest of its certificate"
    )
    max_running_jobs: int = Field(ht.TPositiveInt, default=20, since="2.11")
    max_tracked_jobs: int = Field(ht.TPositiveInt, default=25, since="2.12")
    install_image: str = Field(ht.TString, default="", since="2.12", doc="path or URL of the installing helper's image")
    instance_communication_network: str = Field(ht.TString, default="", since="2.12", doc="name of the network")
    zeroing_image: str = Field(ht.TString, default="", since="2.12", doc="path or URL of the zeroing helper's image")
    compression_tools: tuple[str, ...] = Field(_LIST, default=constants.DEFAULT_COMPRESSION_TOOLS, since="2.12")
    enabled_user_shutdown: bool = Field(ht.TBool, default=False, since="2.11")
    data_collectors: Mapping[str, Mapping[str, Any]] = Field(
        _COLLECTORS, default=DEFAULT_DATA_COLLECTORS, since="2.13", doc="interval in microseconds"
    )
    ssh_key_type: str = Field(ht.TString, default="rsa", since="2.16")
    ssh_key_bits: int = Field(ht.TPositiveInt, default=2048, since="2.16")
    rapi_tokens: Mapping[str, Mapping[str, Any]] = Field(
        _TOKENS,
        default={},
        written=NON_DEFAULT,
        since=OURS,
        doc="tokens of the remote interface by name: SHA-256, role, tags, created, expires (doc/design-rapi.rst)",
        secret=True,
    )
    uuid: str = UuidField()
    tags: tuple[str, ...] = TagsField()
    ctime: float = TimeField("creation of the cluster")
    mtime: float = TimeField("last change of the cluster object")
    serial_no: int = SerialField()
