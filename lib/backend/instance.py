"""Procedures for running instances: start, stop, look (doc/reference/drivers.md b.1, doc/reference/noderpc.md 6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants, errors, hypervisor, objects, pathutils, runtime
from ganeti.backend import guestnotes, reason, wire
from ganeti.hypervisor.base import GuestDisk, GuestInfo, Hypervisor, NotEnded
from ganeti.params import runstate
from ganeti.storage import links, shown, tree
from ganeti.storage.base import BlockDev, Mirror

REBOOT_SOFT = "soft"
REBOOT_HARD = "hard"

# How often a guest that was asked to stop is asked again, and how often one looks whether it did.
_ASK_AGAIN_SECONDS = 5.0
_LOOK_SECONDS = 0.25
# After the last, forced stop.
_FORCED_SECONDS = 5.0
_DEFAULT_SSH_PORT = 22

Dict = dict[str, Any]


class _FoundDisk(NamedTuple):
    disk: objects.Disk
    device_path: str | None
    uri: str | None


def OpenedDisks(instance: objects.Instance, attempts: Sequence[str | None]) -> list[GuestDisk]:
    """Find every disk of the instance; each must be open on this node, and for the attempt given.

    Closing the disks of a node removes their links, so a start that comes late finds nothing to write to; and what a
    late call opens again is open for another attempt.
    """
    disks = _FoundDisks(instance, _Writable)
    for index, ((_, device_path, _), attempt) in enumerate(zip(disks, attempts, strict=True)):
        is_linked = not device_path or links.IsMade(instance.name, device_path, index)
        if not is_linked or _OpenFor(instance, index) != attempt:
            raise errors.BlockDeviceError(
                f"Instance {instance.name}: disk {index} is not open on this node for this start, which may have been"
                f" overtaken by another one; use 'gnt-instance startup {instance.name}' if it is to run"
            )
    return _GuestDisks(instance, disks)


def _OpenFor(instance: objects.Instance, index: int) -> str | None:
    opening = links.OpeningOf(instance.name, index)
    return None if opening is None else opening.attempt


def _Attempts(instance: objects.Instance) -> list[str | None]:
    """Return for what each disk is open here; None for one that is closed, or that an older release opened."""
    return [_OpenFor(instance, index) for index in range(len(wire.InstanceDisks(instance)))]


def LinkedDisks(instance: objects.Instance) -> list[GuestDisk]:
    """Find every disk of the instance and link it, for a guest that arrives here: nothing can be started from that."""
    disks = _FoundDisks(instance, _Writable)
    opening = links.Own(instance.hypervisor)
    for index, (_, device_path, _) in enumerate(disks):
        links.Make(instance.name, device_path, index, opening)
    return _GuestDisks(instance, disks)


def _Writable(disk: objects.Disk) -> BlockDev | None:
    """Return the device; raise BlockDeviceError for a side of a mirror that is not open: a guest could not write to it."""
    device = tree.Reach(disk)
    if isinstance(device, Mirror) and not device.Connection().primary:
        raise errors.BlockDeviceError(f"{device}: is not open on this node; the call that opened it may be overtaken")
    return device


def _GuestDisks(instance: objects.Instance, disks: Sequence[_FoundDisk]) -> list[GuestDisk]:
    for disk, _, _ in disks:
        ShowDisk(instance, disk, disk.size)
    return [
        GuestDisk(disk, pathutils.InstanceDiskLink(instance.name, index) if device_path else "", uri)
        for index, (disk, device_path, uri) in enumerate(disks)
    ]


def ShowDisk(instance: objects.Instance, disk: objects.Disk, mib: int) -> None:
    """Note that the guest sees a disk up to ``mib``; raise BlockDeviceError if that may be being wiped."""
    # Those of a helper are wiped after its end, and are removed then.
    if not _IsOfHelper(disk):
        shown.Note(f"Instance {instance.name}: {disk.iv_name or disk.uuid}", disk.uuid, mib)


def _IsOfHelper(disk: objects.Disk) -> bool:
    return disk.iv_name == constants.HELPER_DISK


def _FoundDisks(
    instance: objects.Instance, look: Callable[[objects.Disk], BlockDev | None] = tree.Find
) -> list[_FoundDisk]:
    found = []
    for index, disk in enumerate(wire.InstanceDisks(instance)):
        device = look(disk)
        uri = None
        if device is not None:
            uri = device.UserspaceUri(instance.hypervisor)
        if device is None or (device.dev_path is None and uri is None):
            raise errors.BlockDeviceError(
                f"Instance {instance.name}: block device of disk {index} is not set up; "
                f"run gnt-instance activate-disks {instance.name}"
            )
        found.append(_FoundDisk(disk, device.dev_path, uri))
    return found


def RemoveLinks(instance: objects.Instance) -> None:
    links.Remove(instance.name, max(len(wire.InstanceDisks(instance)), len(instance.disks)))


def Start(instance_hvp_bep: Dict, startup_paused: bool, trail: reason.Trail) -> None:
    """instance_start: start the instance from disks opened for the same attempt; one that runs already is left alone."""
    instance = wire.Instance(instance_hvp_bep)
    driver = hypervisor.GetHypervisor(instance.hypervisor)
    count = len(wire.InstanceDisks(instance))
    if count and instance.attempt is None:
        raise errors.RpcCallError(f"Instance {instance.name} cannot be started: the call names no attempt")
    _Start(driver, instance, startup_paused, [instance.attempt] * count)
    reason.Store(instance.name, trail, "start")


def _Start(driver: Hypervisor, instance: objects.Instance, paused: bool, attempts: Sequence[str | None]) -> None:
    is_helper = any(_IsOfHelper(disk) for disk in wire.InstanceDisks(instance))
    with guestnotes.Locked(instance.name):
        if driver.Exists(instance.name):
            _CheckIsGuest(driver, instance)
            if not is_helper:
                CheckNoHelper(instance.name)
            elif not guestnotes.Read(instance.name).helper:
                raise errors.RpcCallError(
                    f"Instance {instance.name} is running, so that no helper can work on its disks"
                )
            logging.info("Instance %s is running already, not starting it", instance.name)
            return
        disks = OpenedDisks(instance, attempts)
        if is_helper:
            guestnotes.Write(instance.name, guestnotes.Note(helper=True))
        else:
            guestnotes.Clear(instance.name)
        try:
            driver.Start(instance, disks, paused)
        except errors.HypervisorError:
            RemoveLinks(instance)
            raise


def CheckNoHelper(name: str) -> None:
    """Raise RpcCallError if what runs here is a helper, which its job would end."""
    if guestnotes.Read(name).helper:
        raise errors.RpcCallError(f"Instance {name} is not running: {runstate.HelperText(name)}")


def _CheckIsGuest(driver: Hypervisor, instance: objects.Instance) -> None:
    """Raise RpcCallError unless the process that is here holds the guest."""
    state = driver.Look(instance.name).state
    if state == runstate.UNRESPONSIVE:
        raise errors.RpcCallError(
            f"Instance {instance.name} is there but does not respond; to start it anew use"
            f" 'gnt-instance shutdown --timeout 0 {instance.name}' first"
        )
    if state not in runstate.HOLDS:
        raise errors.RpcCallError(
            f"Instance {instance.name} is here only as a copy of a migration (state {state});"
            f" use 'gnt-instance migrate --cleanup {instance.name}'"
        )


def Shutdown(instance: Dict, timeout: float, trail: reason.Trail) -> None:
    """instance_shutdown: ask the guest to stop, again and again; after ``timeout`` seconds end it."""
    guest = wire.Instance(instance)
    driver = hypervisor.GetHypervisor(guest.hypervisor)
    # A sent copy shows where the guest went: keep the record until that node was asked.
    is_guest = driver.Look(guest.name).state in runstate.HOLDS
    _Shutdown(driver, guest, timeout)
    with guestnotes.Locked(guest.name):
        # A start that came in between has to be seen, or the guest would be started elsewhere as well.
        CheckGone(driver, guest.name, "its disks stay open here")
        RemoveLinks(guest)
        if is_guest:
            guestnotes.Clear(guest.name)
    reason.Store(guest.name, trail, "shutdown")


def CheckGone(driver: Hypervisor, name: str, consequence: str) -> None:
    """Raise RpcCallError if a process of the instance is here."""
    if driver.Exists(name):
        raise errors.RpcCallError(
            f"Instance {name} has a process on this node, {consequence}; 'gnt-instance migrate --cleanup {name}' finds out"
            " where it runs"
        )


def _Shutdown(driver: Hypervisor, instance: objects.Instance, timeout: float) -> None:
    if not driver.Exists(instance.name):
        logging.info("Instance %s is not running, nothing to shut down", instance.name)
    elif not _AskToStop(driver, instance, timeout):
        logging.error("Instance %s did not shut down within %g s, ending it", instance.name, timeout)
        try:
            driver.Stop(instance, force=True)
        except NotEnded as err:
            # What it waits for may be released below.
            logging.warning("%s", err)
        if not (_WaitGone(driver, instance, _FORCED_SECONDS) or _WaitReleased(driver, instance)):
            raise errors.RpcCallError(
                f"Could not shut down instance {instance.name} even by destroying it; {_WhatHoldsIt(instance)}"
            )
    driver.Cleanup(instance.name)


def _WaitReleased(driver: Hypervisor, instance: objects.Instance) -> bool:
    """Return whether a guest that was killed goes once nothing waits any longer on sides of mirrors that do not count.

    No process ends before its disks have answered it, and such a side may never see the other one again.
    """
    for device in _Mirrors(instance):
        try:
            device.Release()
        except errors.BlockDeviceError as err:
            logging.warning("Instance %s: %s", instance.name, err)
    return _WaitGone(driver, instance, _FORCED_SECONDS)


def _Mirrors(instance: objects.Instance) -> list[Mirror]:
    """Return the mirrors that are set up here; those that cannot be looked at are left out."""
    found = []
    for disk in wire.InstanceDisks(instance):
        try:
            device = tree.Find(disk)
        except errors.BlockDeviceError as err:
            logging.warning("Instance %s: %s", instance.name, err)
        else:
            found += [device] if isinstance(device, Mirror) else []
    return found


def _WhatHoldsIt(instance: objects.Instance) -> str:
    """Return what a process may wait for that does not end, and what to do."""
    frozen = [str(device) for device in _Mirrors(instance) if device.Connection().frozen]
    if not frozen:
        return "look at its process on the node, it may hang in the kernel"
    return f"it waits for {', '.join(frozen)}, frozen here until it is connected; 'gnt-cluster verify' says what to do"


def _AskToStop(driver: Hypervisor, instance: objects.Instance, timeout: float) -> bool:
    """Return whether the guest stopped within ``timeout``.  One that cannot be asked also gets that time."""
    deadline = runtime.Monotonic() + timeout
    retry = False
    while True:
        left = deadline - runtime.Monotonic()
        if left <= 0:
            return not driver.Exists(instance.name)
        try:
            driver.Stop(instance, retry=retry, timeout=left)
        except errors.HypervisorError as err:
            logging.warning("Instance %s cannot be asked to shut down: %s", instance.name, err)
        retry = True
        left = deadline - runtime.Monotonic()
        if _WaitGone(driver, instance, min(_ASK_AGAIN_SECONDS, max(left, 0.0))):
            return True


def _WaitGone(driver: Hypervisor, instance: objects.Instance, seconds: float) -> bool:
    deadline = runtime.Monotonic() + seconds
    while driver.Exists(instance.name):
        left = deadline - runtime.Monotonic()
        if left <= 0:
            return False
        runtime.Sleep(min(_LOOK_SECONDS, left))
    return True


def Reboot(inst: Dict, reboot_type: str, shutdown_timeout: float, trail: reason.Trail) -> None:
    """instance_reboot: restart softly within the running hypervisor, or stop and start; leave the disks as they are."""
    instance = wire.Instance(inst)
    driver = hypervisor.GetHypervisor(instance.hypervisor)
    if not driver.Exists(instance.name):
        raise errors.RpcCallError(f"Cannot reboot instance {instance.name}: it is not running")
    if driver.Look(instance.name).state not in (*runstate.HOLDS, runstate.UNRESPONSIVE):
        _CheckIsGuest(driver, instance)
    CheckNoHelper(instance.name)
    if reboot_type == REBOOT_SOFT:
        # It may be given its disks anew, as large as they are by now.
        for disk in wire.InstanceDisks(instance):
            ShowDisk(instance, disk, disk.size)
        driver.Reboot(instance)
    elif reboot_type == REBOOT_HARD:
        # If the disks are closed and opened for another start meanwhile, this is no longer the one that counts.
        attempts = _Attempts(instance)
        _Shutdown(driver, instance, shutdown_timeout)
        _Start(driver, instance, False, attempts)
    else:
        raise errors.RpcCallError(f"Invalid reboot type '{reboot_type}'; use {REBOOT_SOFT} or {REBOOT_HARD}")
    reason.Store(instance.name, trail, "reboot")


def Balloon(instance: Dict, memory: int) -> None:
    """instance_balloon_memory: set the guest's memory; leave one that does not run alone."""
    guest = wire.Instance(instance)
    driver = hypervisor.GetHypervisor(guest.hypervisor)
    if not driver.Exists(guest.name):
        logging.info("Instance %s is not running, not changing its memory", guest.name)
        return
    driver.Balloon(guest, memory)


# --- looking ----------------------------------------------------------------------------------------------------------


def _Row(info: GuestInfo) -> Dict:
    """Return the row of 3.1, with the state of a guest that does not simply run."""
    more = {} if info.run_state == runstate.RUNNING else {runstate.KEY: info.run_state}
    return {"memory": info.memory, "vcpus": info.vcpus, "state": info.state, "time": info.cpu_time, **more}


def Info(instance: str, hname: str, hvparams: Dict) -> Dict:
    """instance_info: describe the guest; {} when it is not here."""
    found = hypervisor.GetHypervisor(hname).Info(instance, hvparams)
    return {} if found is None else _Row(found)


def AllInfo(hypervisor_list: Sequence[str], all_hvparams: Mapping[str, Any]) -> Dict:
    """all_instances_info: describe the guests of several hypervisors; a name reported twice must be one guest."""
    rows: Dict = {}
    for hname in hypervisor_list:
        for info in hypervisor.GetHypervisor(hname).AllInfo(all_hvparams.get(hname)):
            row = _Row(info)
            for key in ("memory", "vcpus"):
                if info.name in rows and rows[info.name][key] != row[key]:
                    raise errors.RpcCallError(
                        f"Instance {info.name} is running twice with different values of '{key}': "
                        f"{rows[info.name][key]} and {row[key]}; stop one of the two"
                    )
            rows[info.name] = row
    return rows


def List(hypervisor_list: Sequence[str], hvparams: Mapping[str, Any]) -> list[str]:
    """instance_list: return the names of the guests of several hypervisors."""
    found: list[str] = []
    for hname in hypervisor_list:
        try:
            found += hypervisor.GetHypervisor(hname).List(hvparams.get(hname))
        except errors.HypervisorError as err:
            raise errors.RpcCallError(f"Error listing instances of hypervisor {hname}: {err}") from err
    return found


def ConsoleInfo(instances: Mapping[str, Mapping[str, Any]]) -> Dict:
    """instance_console_info: return how to reach each instance's console.

    Each value has ``instance``, ``node`` and ``group`` in their stored forms, ``hvParams`` and ``beParams`` filled.
    """
    result: Dict = {}
    for name, request in instances.items():
        try:
            data, node, group = request["instance"], request["node"], request["group"]
            instance = wire.Instance({**data, "hvparams": request["hvParams"], "beparams": request["beParams"]})
            ndparams = {**group.get("ndparams", {}), **node.get("ndparams", {})}
            port = int(ndparams.get("ssh_port", _DEFAULT_SSH_PORT))
            node_name = str(node["name"])
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            raise errors.RpcCallError(f"Console of instance {name[:80]}: the request is incomplete ({err!r})") from err
        driver = hypervisor.GetHypervisor(instance.hypervisor)
        result[name] = driver.Console(instance, node_name, port).ToDict()
    return result


def MetadataModify(instance: Dict) -> None:
    """instance_metadata_modify: do nothing, as there is no metadata daemon."""
    raise errors.RpcCallError(
        f"Instance {instance.get('name', '?')}: this installation has no metadata daemon; "
        "untrusted operating systems and instance communication cannot be used"
    )


def ValidateParams(hvname: str, hvfull: Dict) -> None:
    """hypervisor_validate_params: check filled parameters against this node."""
    hypervisor.GetHypervisor(hvname).ValidateParameters(hvfull)


HANDLERS = {
    "all_instances_info": AllInfo,
    "hypervisor_validate_params": ValidateParams,
    "instance_balloon_memory": Balloon,
    "instance_console_info": ConsoleInfo,
    "instance_info": Info,
    "instance_list": List,
    "instance_metadata_modify": MetadataModify,
    "instance_reboot": Reboot,
    "instance_shutdown": Shutdown,
    "instance_start": Start,
}
