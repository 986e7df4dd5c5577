"""gnt-cluster info."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ganeti import constants, pathutils
from ganeti.cli import info, jobs, tables
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.client.shared import policy

_PARAMETERS = (
    ("candidate pool size", "candidate_pool_size"),
    ("maximal number of jobs running simultaneously", "max_running_jobs"),
    ("maximal number of jobs simultaneously tracked by the scheduler", "max_tracked_jobs"),
    ("mac prefix", "mac_prefix"),
    ("master netdev", "master_netdev"),
    ("master netmask", "master_netmask"),
    ("use external master IP address setup script", "use_external_mip_script"),
    ("lvm volume group", "volume_group_name"),
    ("lvm reserved volumes", "reserved_lvs"),
    ("drbd usermode helper", "drbd_usermode_helper"),
    ("file storage path", "file_storage_dir"),
    ("shared file storage path", "shared_file_storage_dir"),
    ("gluster storage path", "gluster_storage_dir"),
    ("maintenance of node health", "maintain_node_health"),
    ("uid pool", "uid_pool"),
    ("default instance allocator", "default_iallocator"),
    ("default instance allocator parameters", "default_iallocator_params"),
    ("primary ip version", "primary_ip_version"),
    ("preallocation wipe disks", "prealloc_wipe_disks"),
    ("OS search path", None),
    ("ExtStorage Providers search path", None),
    ("enabled disk templates", "enabled_disk_templates"),
    ("install image", "install_image"),
    ("instance communication network", "instance_communication_network"),
    ("zeroing image", "zeroing_image"),
    ("compression tools", "compression_tools"),
    ("enabled user shutdown", "enabled_user_shutdown"),
    ("modify ssh setup", "modify_ssh_setup"),
    ("ssh_key_type", "ssh_key_type"),
    ("ssh_key_bits", "ssh_key_bits"),
)


def _Comma(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)


def _UidPool(ranges: Iterable[Any]) -> str:
    return _Comma(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


_SHOWN: dict[str, Callable[[Any], Any]] = {
    "reserved_lvs": lambda value: _Comma(value) or "(none)",
    "uid_pool": _UidPool,
    "enabled_disk_templates": _Comma,
    "compression_tools": list,
}
_PATHS = {
    "OS search path": pathutils.OS_SEARCH_PATH,
    "ExtStorage Providers search path": pathutils.ES_SEARCH_PATH,
}


def _Parameters(facts: Mapping[str, Any]) -> info.Pairs:
    tree = info.Pairs()
    for title, key in _PARAMETERS:
        if key is None:
            tree.append((title, _Comma(_PATHS[title])))
        else:
            value = facts.get(key)
            tree.append((title, _SHOWN[key](value) if key in _SHOWN and value is not None else value))
    return tree


def _Collectors(facts: Mapping[str, Any]) -> dict[str, Any]:
    intervals = facts["data_collector_interval"]
    return {
        name: {"active": active, "interval": f"{intervals.get(name, 0) / 1e6:.3f}s"}
        for name, active in facts["enabled_data_collectors"].items()
    }


def Describe(facts: Mapping[str, Any]) -> info.Pairs:
    """Return the tree of a cluster."""
    return info.Pairs(
        [
            ("Cluster name", facts["name"]),
            ("Cluster UUID", facts["uuid"]),
            ("Creation time", tables.FormatTimestamp(facts["ctime"])),
            ("Modification time", tables.FormatTimestamp(facts["mtime"])),
            ("Master node", facts["master"]),
            ("Architecture (this node)", f"{facts['architecture'][0]} ({facts['architecture'][1]})"),
            ("Tags", _Comma(sorted(facts["tags"])) or "(none)"),
            ("Default hypervisor", facts["default_hypervisor"]),
            ("Enabled hypervisors", _Comma(facts["enabled_hypervisors"])),
            ("Hypervisor parameters", {hv: facts["hvparams"][hv] for hv in facts["enabled_hypervisors"]}),
            ("OS-specific hypervisor parameters", facts["os_hvp"]),
            ("OS parameters", facts["osparams"]),
            ("Hidden OSes", _Comma(facts["hidden_os"])),
            ("Blacklisted OSes", _Comma(facts["blacklisted_os"])),
            ("Cluster parameters", _Parameters(facts)),
            ("Default node parameters", facts["ndparams"]),
            ("Default instance parameters", facts["beparams"]),
            ("Default nic parameters", facts["nicparams"]),
            ("Default disk parameters", facts["diskparams"]),
            ("Instance policy - limits for instances", policy.Describe(None, facts["ipolicy"])),
            ("Data collectors", _Collectors(facts)),
        ]
    )


def _Roman(value: Any) -> Any:
    if isinstance(value, info.Pairs):
        return info.Pairs([(key, _Roman(item)) for key, item in value])
    if isinstance(value, Mapping):
        return {key: _Roman(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_Roman(item) for item in value]
    return tables.ToRoman(value)


def Run(options: Options, arguments: list[str]) -> int:
    facts = jobs.GetClient().QueryClusterInfo()
    if options.output:
        info.PrintInfo(facts, as_json=True)
        return constants.EXIT_SUCCESS
    tree = Describe(facts)
    info.PrintInfo(_Roman(tree) if options.roman_integers else tree)
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Show the settings of the cluster", (), (o.ROMAN, o.OUTPUT_FORMAT))
