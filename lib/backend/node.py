"""Procedures about the machine itself: facts, hosts file, bridges, leaving the cluster, reset."""

from __future__ import annotations

import logging
import os
import posixpath
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ganeti import constants, errors, hosts, hypervisor, pathutils, runtime, ssconf, ssh, watcherpause
from ganeti.daemon import pidfile
from ganeti.daemon.memory import LockMemory
from ganeti.storage import units
from ganeti.utils.files import KeepCopy

BOOT_ID = "/proc/sys/kernel/random/boot_id"
POWERCYCLE_DELAY = 5
_STOP_TIMEOUT = 120
_OVS_TIMEOUT = 60
_EXPORT_TIMEOUT = 60
# Daemons that must not keep running on a node that leaves; the node daemon ends itself.
_OTHER_DAEMONS = (constants.RAPI, constants.MASTERD, constants.CONFD)


def Version() -> int:
    return constants.PROTOCOL_VERSION


def TestDelay(duration: float) -> None:
    runtime.Sleep(duration)


# Facts


def NodeInfo(storage_units: Sequence[Sequence[Any]] | None, hv_specs: Sequence[Sequence[Any]] | None) -> list[Any]:
    """Return [boot id, storage, hypervisors] (doc/reference/noderpc.md 3.6)."""
    boot_id = runtime.ReadText(BOOT_ID, 100).rstrip("\n")
    storage = None if storage_units is None else [_StorageInfo(*unit) for unit in storage_units]
    if hv_specs is None:
        return [boot_id, storage, None]
    return [boot_id, storage, [hypervisor.GetHypervisor(name).NodeInfo(params) for name, params in hv_specs]]


def _StorageInfo(kind: str, key: str | None, params: Sequence[Any] | None) -> dict[str, Any]:
    """Describe a storage unit; null for what is not known, so that it does not hide the rest."""
    try:
        free, size = units.GetUnits(kind).Space(key or "", bool(params and params[0]))
    except errors.GenericError as err:
        logging.warning("The space of %s %s is unknown: %s", kind, key, err)
        free, size = None, None
    return {"type": kind, "name": key, "storage_free": free, "storage_size": size}


def HasIpAddress(address: str) -> bool:
    return hosts.IsOwnAddress(address)


def BridgesExist(bridges: Sequence[str]) -> None:
    missing = MissingBridges(bridges)
    if missing:
        raise errors.RpcCallError(f"Missing bridges {', '.join(missing)}")


def MissingBridges(bridges: Sequence[str]) -> list[str]:
    """Return those that are not bridges of this machine."""
    return [name for name in bridges if not (_IsFileName(name) and runtime.Exists(f"/sys/class/net/{name}/bridge"))]


def _IsFileName(name: str) -> bool:
    return bool(name) and "/" not in name and name not in (".", "..") and "\0" not in name


# Small changes


def EtcHostsModify(mode: str, name: str, ip: str | None) -> bool:
    if mode == "add":
        if ip is None:
            raise errors.RpcCallError(f"Mode 'add' needs the address of host {name}")
        hosts.AddEtcHostsEntry(name, ip)
    else:
        if ip is not None:
            raise errors.RpcCallError(f"Mode 'remove' takes no address (host {name})")
        hosts.RemoveEtcHostsEntry(name)
    return True


def GetWatcherPause() -> int | None:
    until = watcherpause.Read()
    return None if until is None else int(until)


def SetWatcherPause(until: float | None) -> None:
    if until is not None and until < 0:
        raise errors.RpcCallError(f"Watcher pause: {until} is not a valid time")
    watcherpause.Write(until)


def EnsureDaemon(daemon: str, run: bool) -> bool:
    """Do nothing: the only daemon that 3.1 starts by this call is part of masterd here."""
    logging.info("Asked to %s daemon %s, which does not exist here", "start" if run else "stop", daemon)
    return False


def BuildOvs(name: str, link: str | None) -> list[list[str]]:
    commands = [["ovs-vsctl", "--may-exist", "add-br", name]]
    if link:
        commands.append(["ovs-vsctl", "--may-exist", "add-port", name, link])
    return commands


def ConfigureOvs(ovs_name: str, ovs_link: str | None) -> None:
    for argv in BuildOvs(ovs_name, ovs_link):
        result = runtime.RunCmd(argv, timeout=_OVS_TIMEOUT)
        if result.failed:
            raise errors.RpcCallError(f"Failed to set up Open vSwitch {ovs_name}: {result.fail_reason}")


# Leaving


def DemoteFromCandidate() -> None:
    """Remove config.data, keeping a copy."""
    if ssconf.SimpleStore().GetMasterNode() in (pathutils.HostName(), hosts.OwnName()):
        raise errors.RpcCallError("This node is the master, it cannot stop being a candidate")
    if pidfile.Running(constants.MASTERD):
        raise errors.RpcCallError("The master daemon runs on this node, it cannot stop being a candidate")
    KeepCopy(pathutils.CLUSTER_CONF_FILE)
    runtime.RemoveFile(pathutils.CLUSTER_CONF_FILE)


def LeaveCluster(modify_ssh_setup: bool) -> str:
    """Forget the cluster: its files, keys and this node's copy of the store; then the node daemon ends."""
    for name in _OTHER_DAEMONS:
        result = runtime.RunCmd([pathutils.DAEMON_UTIL, "stop", name], timeout=_STOP_TIMEOUT)
        if result.failed:
            logging.error("Cannot stop %s: %s", name, result.fail_reason)
    if modify_ssh_setup:
        _RemoveOwnKey()
    _RemoveCopy()
    RemoveFilesIn(pathutils.DATA_DIR)
    for directory in (
        pathutils.DATA_EXT_DIR,
        pathutils.JOB_QUEUE_ARCHIVE_DIR,
        pathutils.CRYPTO_KEYS_DIR,
    ):
        runtime.RemoveTree(directory)
    RemoveFilesIn(pathutils.QUEUE_DIR)
    RemoveFilesIn(pathutils.RAPI_DATA_DIR)
    # It ends this child too, but only after the answer.
    pid = pidfile.Running(constants.NODED)
    try:
        told = pid is not None and pidfile.Signal(constants.NODED, pid, signal.SIGTERM)
    except errors.PidFileLockError as err:
        logging.error("%s", err)
        told = False
    if not told:
        logging.error("The node daemon's process is not known; stop it by hand")
    return "Shutdown scheduled"


def _RemoveCopy() -> None:
    """Remove this node's copy of the store, and wait until no file is written from it.

    The exporter works until the node daemon ends, and writes anew what it misses.
    """
    runtime.RemoveFile(pathutils.STORE_FILE)
    if not runtime.Exists(pathutils.EXPORT_LOCK_FILE):
        return
    try:
        # A round that is under way comes to its end; the next one finds no copy.
        runtime.LockFile(pathutils.EXPORT_LOCK_FILE, timeout=_EXPORT_TIMEOUT).release()
    except errors.LockError as err:
        logging.error("Files of the cluster may be left in %s: %s", pathutils.DATA_DIR, err)


def _RemoveOwnKey() -> None:
    """Remove the cluster's SSH key and its line in authorized_keys, so that its owners can no longer log in here."""
    for kind in ssh.KEY_KINDS:
        private, public = ssh.UserKeyFiles(kind)
        line = ssh.ReadIfThere(public).strip()
        if line:
            try:
                # Whatever comment it was accepted with: its private half is removed.
                ssh.ForbidKeys([ssh.BareKey(line)])
            except errors.SshUpdateError as err:
                logging.error("Cannot take the key %s from the authorised ones: %s", public, err)
        runtime.RemoveFile(private)
        runtime.RemoveFile(public)


def RemoveFilesIn(directory: str) -> None:
    """Remove the files in a directory, not those below it."""
    try:
        names = runtime.ListDir(directory)
    except FileNotFoundError:
        return
    for name in names:
        path = posixpath.join(directory, name)
        if not runtime.IsDir(path):
            runtime.RemoveFile(path)


# Reset


def Powercycle(hypervisor_name: str, hvparams: Mapping[str, Any]) -> str:
    """Reset the machine in five seconds, by a process of its own."""
    if pathutils.IsVirtual() and hypervisor_name != constants.HT_FAKE:
        raise errors.RpcCallError(f"Node {pathutils.HostName()} is a virtual one: its machine is not its own to reset")
    driver = hypervisor.GetHypervisor(hypervisor_name)
    try:
        pid = runtime.Fork()
    except (OSError, errors.ProgrammerError) as err:
        # The answer is lost, the reset must not be.
        logging.error("Cannot fork (%s); resetting at once", err)
        driver.Powercycle(hvparams)
        return "Reboot"
    if pid:
        return f"Reboot scheduled in {POWERCYCLE_DELAY} seconds"
    try:
        os.setsid()
        LockMemory()
        runtime.Sleep(POWERCYCLE_DELAY)
        driver.Powercycle(hvparams)
    finally:
        os._exit(1)


HANDLERS: dict[str, Callable[..., Any]] = {
    "version": Version,
    "test_delay": TestDelay,
    "node_info": NodeInfo,
    "node_has_ip_address": HasIpAddress,
    "bridges_exist": BridgesExist,
    "etc_hosts_modify": EtcHostsModify,
    "get_watcher_pause": GetWatcherPause,
    "set_watcher_pause": SetWatcherPause,
    "node_ensure_daemon": EnsureDaemon,
    "node_configure_ovs": ConfigureOvs,
    "node_demote_from_mc": DemoteFromCandidate,
    "node_leave_cluster": LeaveCluster,
    "node_powercycle": Powercycle,
}
