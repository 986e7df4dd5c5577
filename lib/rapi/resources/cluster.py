"""The cluster as a whole."""

from __future__ import annotations

from ganeti import ht, opcodes
from ganeti.rapi.declared import BodyUse, Etag, Method, Resource, Role
from ganeti.rapi.requests.call import Answer, Call
from ganeti.rapi.resources import examples
from ganeti.rapi.resources.common import ClusterVersion, JobMethod, StrictAnswer, TMaybeText, TNames

# What clients of older releases look for, beside the names of today.
_REPEATED = {"vg_name": "volume_group_name", "drbd_helper": "drbd_usermode_helper"}

_TInfo = StrictAnswer(
    {
        **dict.fromkeys(
            ("software_version", "vcs_version", "name", "master", "mac_prefix", "master_netdev"), ht.TString
        ),
        **dict.fromkeys(("protocol_version", "config_version", "os_api_version", "export_version"), ht.TInt),
        **dict.fromkeys(("candidate_pool_size", "max_running_jobs", "max_tracked_jobs", "master_netmask"), ht.TInt),
        **dict.fromkeys(("architecture", "enabled_hypervisors", "enabled_disk_templates", "compression_tools"), TNames),
        **dict.fromkeys(("tags", "reserved_lvs", "hidden_os", "blacklisted_os"), TNames),
        **dict.fromkeys(("hvparams", "os_hvp", "osparams", "beparams", "nicparams", "ipolicy"), ht.TDict),
        **dict.fromkeys(("ndparams", "diskparams", "default_iallocator_params"), ht.TDict),
        **dict.fromkeys(("use_external_mip_script", "maintain_node_health", "prealloc_wipe_disks"), ht.TBool),
        **dict.fromkeys(("enabled_user_shutdown", "modify_ssh_setup"), ht.TBool),
        **dict.fromkeys(("volume_group_name", "drbd_usermode_helper", *_REPEATED), TMaybeText),
        **dict.fromkeys(("file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir"), TMaybeText),
        **dict.fromkeys(("default_iallocator", "install_image", "instance_communication_network"), TMaybeText),
        "default_hypervisor": TMaybeText,
        "zeroing_image": TMaybeText,
        "ctime": ht.TFloat,
        "mtime": ht.TFloat,
        "uuid": ht.TNonEmptyString,
        "uid_pool": ht.TListOf(ht.TItems(ht.TInt, ht.TInt)),
        "primary_ip_version": ht.TElemOf([4, 6]),
        "enabled_data_collectors": ht.TDictOf(ht.TString, ht.TBool),
        "data_collector_interval": ht.TDictOf(ht.TString, ht.TInt),
        "ssh_key_type": ht.TString,
        "ssh_key_bits": ht.TInt,
    }
)


async def _Info(call: Call) -> Answer:
    info = await call.Ask("QueryClusterInfo")
    shown = {**info, **{name: info[source] for name, source in _REPEATED.items()}}
    return Answer(shown, version=(info["uuid"], info["mtime"], info["master"], info["software_version"]))


async def _OperatingSystems(call: Call) -> list[str]:
    """Return what instances can be given: each variant of every OS that all nodes have and that may be used."""
    fields = ["name", "variants"]
    usable = ["&", ["?", "valid"], ["!", ["?", "hidden"]], ["!", ["?", "blacklisted"]]]
    found = await call.Ask("Query", "os", fields, usable)
    names: list[str] = []
    for (_, name), (_, variants) in found["data"]:
        names += [f"{name}+{variant}" for variant in variants] if variants else [name]
    return names


RESOURCES = (
    Resource(
        "/2/info",
        "What is known about the cluster.",
        {
            "GET": Method(
                _Info,
                "Show versions, settings and default parameters.",
                Role.READ,
                answer=_TInfo,
                answer_example=examples.INFO,
                etag=Etag.WHOLE,
            )
        },
    ),
    Resource(
        "/2/os",
        "Operating systems.",
        {
            "GET": Method(
                _OperatingSystems,
                "List the operating systems that instances can be given: valid on all nodes, neither hidden nor blacklisted;"
                " one with variants appears as `NAME+VARIANT`.  All nodes are asked, which takes a moment.",
                Role.READ,
                answer=TNames,
                answer_example=["debian+minimal", "mini+default"],
            )
        },
    ),
    Resource(
        "/2/redistribute-config",
        "Files of the configuration on all nodes.",
        {
            "PUT": JobMethod(
                opcodes.OpClusterRedistConf,
                "Write the files that every node has to all nodes again.",
                body=BodyUse.OPTIONAL,
            )
        },
        reason="redist_config",
    ),
    Resource(
        "/2/modify",
        "Settings of the cluster.",
        {
            "PUT": JobMethod(
                opcodes.OpClusterSetParams,
                "Change settings; what is not given stays as it is.  The job returns null, or the numbers of further jobs.",
                body=BodyUse.REQUIRED,
                example={"candidate_pool_size": 5, "beparams": {"vcpus": 2}},
                forbidden=("compression_tools",),
            )
        },
        reason="cluster_modify",
        shown_at="/2/info",
        version=ClusterVersion,
    ),
)
