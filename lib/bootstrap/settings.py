"""What a new cluster shall be like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti import constants


@dataclass
class Settings:
    """The choices of ``gnt-cluster init``; parameter sets are partial, and still text where they were typed."""

    cluster_name: str
    enabled_hypervisors: Sequence[str] = (constants.HT_XEN_PVM,)
    enabled_disk_templates: Sequence[str] = (constants.DT_DRBD8, constants.DT_PLAIN)
    vg_name: str | None = None
    drbd_helper: str | None = None
    master_netdev: str | None = None
    master_netmask: int | None = None
    use_external_mip_script: bool = False
    mac_prefix: str = constants.DEFAULT_MAC_PREFIX
    secondary_ip: str | None = None
    primary_ip_version: int = 4
    candidate_pool_size: int = 10
    beparams: Mapping[str, Any] = field(default_factory=dict)
    nicparams: Mapping[str, Any] = field(default_factory=dict)
    ndparams: Mapping[str, Any] = field(default_factory=dict)
    hvparams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    diskparams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ipolicy: Mapping[str, Any] = field(default_factory=dict)
    hv_state: Mapping[str, Any] = field(default_factory=dict)
    disk_state: Mapping[str, Any] = field(default_factory=dict)
    file_storage_dir: str | None = None
    shared_file_storage_dir: str | None = None
    gluster_storage_dir: str | None = None
    modify_etc_hosts: bool = True
    modify_ssh_setup: bool = True
    maintain_node_health: bool = False
    uid_pool: Sequence[tuple[int, int]] = ()
    default_iallocator: str | None = None
    default_iallocator_params: Mapping[str, Any] = field(default_factory=dict)
    prealloc_wipe_disks: bool = False
    install_image: str = ""
    zeroing_image: str = ""
    compression_tools: Sequence[str] | None = None
    enabled_user_shutdown: bool = False
    ssh_key_type: str = "rsa"
    ssh_key_bits: int | None = None
