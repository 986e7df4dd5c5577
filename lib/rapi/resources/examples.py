"""Answers as they could be, for the OpenAPI document: one small cluster, seen through each resource."""

from __future__ import annotations

from typing import Any, Final

_NODE: Final = "node1.example.com"
_OTHER: Final = "node2.example.com"
_INSTANCE: Final = "web1.example.com"
_GROUP_UUID: Final = "5c2f1f8e-3b0d-4f5c-9e62-0d9c4a3a7b10"
_TIME: Final = [1767225600, 250000]

TAGS: Final = ["customer:a", "web"]
UUID: Final = "0f6c2e6e-8a3d-4b51-9d5b-1f2d7c9a4e22"


def _Object(uuid: str, *tags: str) -> dict[str, Any]:
    return {"ctime": 1767225600.25, "mtime": 1767229200.5, "uuid": uuid, "serial_no": 7, "tags": list(tags)}


def _Links(path: str, value: Any, key: str = "id") -> list[dict[str, Any]]:
    """Return a list with one link."""
    return [{key: value, "uri": f"{path}/{value}"}]


NODE: Final = {
    "name": _NODE,
    "offline": False, "master_candidate": True, "drained": False, "master_capable": True, "vm_capable": True,
    "role": "M",
    "dtotal": 1907728, "dfree": 1886224, "sptotal": 2, "spfree": 2, "mtotal": 65536, "mnode": 1024, "mfree": 60416,
    "ctotal": 16, "cnos": 16, "cnodes": 2, "csockets": 2,
    "pip": "192.0.2.1", "sip": "198.51.100.1", "secondary_ip": "198.51.100.1", "group.uuid": _GROUP_UUID,
    "pinst_cnt": 1, "sinst_cnt": 0, "pinst_list": [_INSTANCE], "sinst_list": [],
    "ndparams": {"exclusive_storage": False, "oob_program": "", "spindle_count": 2, "ssh_port": 22},
    **_Object("d6a2f4b0-5c0e-4d1c-8a57-0b3f1f6f2c11", "rack1"),
}  # fmt: skip
NODE_LINKS: Final = _Links("/2/nodes", _NODE)

_BEPARAMS: Final = {"always_failover": False, "auto_balance": True, "maxmem": 2048, "minmem": 2048, "vcpus": 2}
INSTANCE: Final = {
    "name": _INSTANCE, "os": "debian+minimal", "pnode": _NODE, "snodes": [_OTHER], "disk_template": "drbd",
    "admin_state": "up", "status": "running", "oper_state": True, "oper_ram": 2048, "oper_vcpus": 2,
    "nic.ips": ["192.0.2.77"], "nic.macs": ["aa:00:00:5f:0a:31"], "nic.modes": ["bridged"], "nic.links": ["br0"],
    "nic.bridges": ["br0"], "nic.uuids": ["1b1e6d3c-90f4-4d6a-8c9b-6d1f6a2f8c01"], "nic.names": [None],
    "nic.networks": [None], "nic.networks.names": [None],
    "disk.sizes": [10240], "disk.spindles": [None], "disk.names": [None], "disk_usage": 10368,
    "disk.uuids": ["2c7b8a4d-5f1e-4b6c-9a37-3e8d1c5f7b02"],
    "beparams": {**_BEPARAMS, "memory": 2048}, "custom_beparams": {"maxmem": 2048, "minmem": 2048, "vcpus": 2},
    "hvparams": {"acpi": True, "boot_order": "disk"}, "custom_hvparams": {}, "custom_osparams": {},
    "custom_nicparams": [{"link": "br0", "mode": "bridged"}], "network_port": 11000,
    **_Object(UUID, *TAGS),
}  # fmt: skip
INSTANCE_LINKS: Final = _Links("/2/instances", _INSTANCE)
CONSOLE: Final = {"instance": _INSTANCE, "kind": "vnc", "host": _NODE, "port": 11000, "display": 5100}

GROUP: Final = {
    "name": "default", "alloc_policy": "preferred", "node_cnt": 2, "node_list": [_NODE, _OTHER],
    "ipolicy": {"disk-templates": ["drbd", "plain"], "spindle-ratio": 32.0, "vcpu-ratio": 4.0},
    "diskparams": {"drbd": {"resync-rate": 61440}}, "ndparams": {"spindle_count": 1, "ssh_port": 22},
    "custom_ipolicy": {"vcpu-ratio": 4.0}, "custom_diskparams": {}, "custom_ndparams": {},
    **_Object(_GROUP_UUID),
}  # fmt: skip
GROUP_LINKS: Final = _Links("/2/groups", "default", "name")

NETWORK: Final = {
    "name": "lan", "network": "192.0.2.0/29", "gateway": "192.0.2.1", "network6": None, "gateway6": None,
    "mac_prefix": None, "free_count": 4, "reserved_count": 4, "map": "XX....XX",
    "group_list": [["default", "bridged", "br0", ""]], "inst_list": [], "external_reservations": "192.0.2.0, 192.0.2.7",
    **_Object("3d9c7b5e-6a2f-4c7d-8b48-4f9e2d6a8c03"),
}  # fmt: skip
NETWORK_LINKS: Final = _Links("/2/networks", "lan", "name")

_LOG: Final = [[1, _TIME, "message", "* starting the instance..."]]
JOB: Final = {
    "id": 4711, "status": "success", "summary": [f"INSTANCE_STARTUP({_INSTANCE})"], "opstatus": ["success"],
    "ops": [{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": _INSTANCE, "force": False}],
    "received_ts": _TIME, "start_ts": [1767225600, 310000], "end_ts": [1767225603, 120000],
    "oplog": [_LOG], "opresult": [None],
}  # fmt: skip
JOB_LINKS: Final = _Links("/2/jobs", 4711)
WAIT: Final = {"job_info": ["running"], "log_entries": _LOG}

FILTER: Final = {
    "uuid": UUID, "watermark": 4711, "priority": 0, "action": "PAUSE",
    "predicates": [["jobid", [">", "id", "watermark"]]],
    "reason_trail": [["jack", "maintenance of the storage", 1767225600000000000]],
}  # fmt: skip
FILTER_LINKS: Final = _Links("/2/filters", UUID, "uuid")

_NAME_FIELD: Final = {"name": "name", "title": "Instance", "kind": "text", "doc": "Instance name"}
FIELDS: Final = {"fields": [_NAME_FIELD]}
QUERY: Final = {**FIELDS, "data": [[[0, _INSTANCE]]]}

INFO: Final = {
    "software_version": "3.1.0", "vcs_version": "v3.1.0", "protocol_version": 3010000, "config_version": 3010000,
    "os_api_version": 20, "export_version": 0, "architecture": ["64bit", "x86_64"], "name": "cluster.example.com",
    "master": _NODE, "mac_prefix": "aa:00:00", "master_netdev": "br0", "master_netmask": 32, "primary_ip_version": 4,
    "candidate_pool_size": 10, "max_running_jobs": 20, "max_tracked_jobs": 25, "uid_pool": [[20000, 20100]],
    "enabled_hypervisors": ["kvm"], "default_hypervisor": "kvm", "enabled_disk_templates": ["drbd", "plain"],
    "compression_tools": ["gzip"], "tags": [], "reserved_lvs": [], "hidden_os": [], "blacklisted_os": [],
    "hvparams": {"kvm": {"acpi": True}}, "os_hvp": {}, "osparams": {}, "beparams": {"default": _BEPARAMS},
    "nicparams": {"default": {"link": "br0", "mode": "bridged"}}, "ipolicy": {"vcpu-ratio": 4.0},
    "ndparams": {"spindle_count": 1}, "diskparams": {"drbd": {"resync-rate": 61440}},
    "default_iallocator": "hail", "default_iallocator_params": {}, "use_external_mip_script": False,
    "maintain_node_health": False, "prealloc_wipe_disks": False, "enabled_user_shutdown": False,
    "modify_ssh_setup": True, "volume_group_name": "xenvg", "vg_name": "xenvg", "drbd_usermode_helper": "/bin/true",
    "drbd_helper": "/bin/true", "file_storage_dir": None, "shared_file_storage_dir": None,
    "gluster_storage_dir": None, "install_image": None, "instance_communication_network": None,
    "zeroing_image": None, "ctime": 1767225600.25, "mtime": 1767229200.5, "ssh_key_type": "rsa", "ssh_key_bits": 2048,
    "uuid": "4e8f6c1a-7b3d-4d8e-9c59-5a1f3e7b9d04",
    "enabled_data_collectors": {"inst-status-xen": True}, "data_collector_interval": {"inst-status-xen": 5000000},
}  # fmt: skip
EVENTS: Final = (
    'id: 12-345\nevent: instance\ndata: {"id":"12-345","time":1767225600.25,"kind":"instance","change":"changed",'
    f'"name":"{_INSTANCE}","uuid":"{UUID}","serial_no":8}}\n\n'
)
METRICS: Final = (
    "# HELP ganeti_jobs_pending Jobs that have not begun to execute: queued or waiting for locks\n"
    "# TYPE ganeti_jobs_pending gauge\n"
    "ganeti_jobs_pending 3.0\n"
    "# EOF\n"
)
OPENAPI: Final = {"openapi": "3.1.0", "info": {"title": "Ganeti remote API", "version": "3.1.0"}, "paths": {}}
