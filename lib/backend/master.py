"""Procedures about the master's role on this node: its address, its daemons, its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ganeti import constants, errors, hosts, pathutils, runtime, ssconf
from ganeti.backend import programs

_SCRIPT_TIMEOUT = 120
_DAEMONS_TIMEOUT = 280
_IP_TIMEOUT = 30
_START, _STOP = "start", "stop"
_HOOKS = {
    _START: ("master-ip-turnup", "OP_CLUSTER_IP_TURNUP"),
    _STOP: ("master-ip-turndown", "OP_CLUSTER_IP_TURNDOWN"),
}
_IP_VERSIONS = {constants.IP4_FAMILY: "4", constants.IP6_FAMILY: "6"}
_LABEL_LIMIT = 15  # characters of an interface's name and label


def MasterNodeName() -> str:
    try:
        name = ssconf.SimpleStore().GetMasterNode()
    except errors.ConfigurationError:
        name = ""
    if not name:
        raise errors.RpcCallError("This node does not know a master: it is not set up, or has left its cluster")
    return name


# Daemons


def StartMasterDaemons(no_voting: bool) -> None:
    env = dict(runtime.Environment())
    if no_voting:
        env["EXTRA_MASTERD_ARGS"] = "--no-voting --yes-do-it"
    _RunDaemonUtil("start-master", env)


def StopMaster() -> None:
    _RunDaemonUtil("stop-master", dict(runtime.Environment()))


def _RunDaemonUtil(verb: str, env: Mapping[str, str]) -> None:
    result = runtime.RunCmd([pathutils.DAEMON_UTIL, verb], env=env, timeout=_DAEMONS_TIMEOUT)
    if result.failed:
        raise errors.RpcCallError(f"{verb}: {result.fail_reason}; output: {result.output.strip()}")


# Address


def ScriptEnvironment(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a master-ip-setup script (doc/reference/files.md 13)."""
    try:
        version = _IP_VERSIONS[params["ip_family"]]
        return {
            "MASTER_NETDEV": str(params["netdev"]),
            "MASTER_IP": str(params["ip"]),
            "MASTER_NETMASK": str(params["netmask"]),
            "CLUSTER_IP_VERSION": version,
        }
    except (KeyError, TypeError) as err:
        raise errors.RpcCallError(f"Master network parameters: {err} is missing or wrong") from err


def _RunSetupScript(params: Mapping[str, Any], action: str, external: bool) -> None:
    env = ScriptEnvironment(params)
    script = pathutils.EXTERNAL_MASTER_SETUP_SCRIPT if external else pathutils.DEFAULT_MASTER_SETUP_SCRIPT
    with programs.LocalHooks(*_HOOKS[action], env):
        result = runtime.RunCmd([script, action], env=env, timeout=_SCRIPT_TIMEOUT)
    if result.failed:
        raise errors.RpcCallError(
            f"Failed to {action} the master IP {env['MASTER_IP']}: {result.fail_reason};"
            f" output: {result.output.strip() or '(none)'}"
        )


def ActivateMasterIp(master_params: Mapping[str, Any], use_external_mip_script: bool) -> None:
    _RunSetupScript(master_params, _START, use_external_mip_script)


def DeactivateMasterIp(master_params: Mapping[str, Any], use_external_mip_script: bool) -> None:
    _RunSetupScript(master_params, _STOP, use_external_mip_script)


def BuildNetmaskChange(old_netmask: int, netmask: int, ip: str, device: str) -> list[list[str]]:
    """Return the commands that change the mask.

    The new address comes first, so that one is always there; Linux has no IPv6 address twice on a device, there the old one goes
    first.  As at the start the address is never the source of connections that this node opens (``preferred_lft``).
    """
    add = ["ip", "address", "add", f"{ip}/{netmask}", "dev", device]
    remove = ["ip", "address", "del", f"{ip}/{old_netmask}", "dev", device]
    label = f"{device}:0"
    if ":" in ip:
        return [remove, [*add, "preferred_lft", "0", "nodad"]]  # it was nobody else's a moment ago
    if len(label) <= _LABEL_LIMIT:
        add += ["label", label]
    return [[*add, "preferred_lft", "0"], remove]


def ChangeMasterNetmask(old_netmask: int, netmask: int, master_ip: str, master_netdev: str) -> None:
    if old_netmask == netmask:
        return
    if not hosts.IsOwnAddress(master_ip):
        raise errors.RpcCallError(f"The master IP address {master_ip} is not up, its netmask is not changed")
    for argv in BuildNetmaskChange(old_netmask, netmask, master_ip, master_netdev):
        result = runtime.RunCmd(argv, timeout=_IP_TIMEOUT)
        if result.failed:
            what = f"set the new netmask {netmask}" if "add" in argv else f"remove the old netmask {old_netmask}"
            raise errors.RpcCallError(
                f"Could not {what} of the master IP address {master_ip}: {result.fail_reason}; output:"
                f" {result.output.strip() or '(none)'}"
            )


HANDLERS: dict[str, Callable[..., Any]] = {
    "master_node_name": MasterNodeName,
    "node_start_master_daemons": StartMasterDaemons,
    "node_stop_master": StopMaster,
    "node_activate_master_ip": ActivateMasterIp,
    "node_deactivate_master_ip": DeactivateMasterIp,
    "node_change_master_netmask": ChangeMasterNetmask,
}
