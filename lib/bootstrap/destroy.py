"""The end of a cluster, after its last job (doc/reference/cli.md 9.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ganeti import errors, pathutils, runtime, serializer, ssconf
from ganeti.rpc import RpcResult, RpcRunner

_CONFIG_LIMIT = 512 * 1024 * 1024


def MasterNetworkParameters() -> dict[str, Any]:
    """Argument of the calls that handle the master address, from this node's ssconf."""
    store = ssconf.SimpleStore()
    return {
        "uuid": "",
        "ip": store.GetMasterIP(),
        "netmask": store.GetMasterNetmask(),
        "netdev": store.GetMasterNetdev(),
        "ip_family": store.GetPrimaryIPFamily(),
    }


def UsesExternalScript() -> bool:
    """Return whether the administrator's own script moves the master address, by this node's configuration file."""
    path = pathutils.CLUSTER_CONF_FILE
    try:
        data = serializer.LoadProper(runtime.ReadFile(path, _CONFIG_LIMIT), _CONFIG_LIMIT)
        return bool(data["cluster"]["use_external_mip_script"])
    except (OSError, errors.ParseError, LookupError, TypeError) as err:
        raise errors.OpPrereqError(
            f"{path} does not say how the master address is set up: {err}",
            errors.ECODE_ENVIRON,
            hint="run this on a master candidate whose file is in order",
        ) from err


def FinalizeClusterDestroy(runner: RpcRunner, master_name: str, modify_ssh_setup: bool, external: bool) -> list[str]:
    """Stop the master daemons and have the last node forget the cluster; return what went wrong, as texts.

    ``external``: the administrator's own script moves the master address.
    """
    network = MasterNetworkParameters()
    steps: list[tuple[str, Callable[..., RpcResult], tuple[Any, ...]]] = [
        ("take the master address down", runner.call_node_deactivate_master_ip, (network, external)),
        ("stop the master daemons", runner.call_node_stop_master, ()),
        ("leave the cluster", runner.call_node_leave_cluster, (modify_ssh_setup,)),
    ]
    problems = []
    for what, call, args in steps:
        result = call(master_name, *args)
        if result.fail_msg:
            problems.append(f"Could not {what}: {result.fail_msg}")
            logging.warning(problems[-1])
    return problems
