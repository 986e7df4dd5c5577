"""The end of a cluster, after its last job (spec/cli.md 9.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ganeti import ssconf
from ganeti.rpc import RpcResult, RpcRunner


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


def FinalizeClusterDestroy(runner: RpcRunner, master_name: str, modify_ssh_setup: bool) -> list[str]:
    """Stops the master daemons and has the last node forget the cluster; what went wrong, as texts."""
    network = MasterNetworkParameters()
    steps: list[tuple[str, Callable[..., RpcResult], tuple[Any, ...]]] = [
        ("take the master address down", runner.call_node_deactivate_master_ip, (network, False)),
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
