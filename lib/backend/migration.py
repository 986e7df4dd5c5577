"""Procedures of a live migration and of devices changed while an instance runs (doc/design-migration.rst).

Each changing call may come late: it looks and acts in one step, under the guest's lock, and does nothing unless what it
relies on is still so.
"""

from __future__ import annotations

import logging
from typing import Any

from ganeti import errors, hypervisor, objects, pathutils, runtime
from ganeti.backend import guestnotes, wire
from ganeti.backend.instance import CheckNoHelper, LinkedDisks, RemoveLinks, ShowDisk
from ganeti.hypervisor.base import HOTPLUG_DISK, HOTPLUG_NIC, Hypervisor, Look
from ganeti.params import runstate
from ganeti.storage import tree
from ganeti.storage.base import BLOCK_BYTES

Dict = dict[str, Any]

# A source notices within a moment that its target was ended.
_NOTICE_SECONDS, _NOTICE_STEP = 15.0, 0.2


def _Load(data: Dict) -> tuple[objects.Instance, Hypervisor]:
    instance = wire.Instance(data)
    return instance, hypervisor.GetHypervisor(instance.hypervisor)


def RunState(instance: str, hname: str, hvparams: Dict) -> Dict:
    """instance_run_state: return what the guest's process is doing here, and the record of its migrations.

    ``never``: the process is gone and has never run the guest that it waited for.
    """
    look = hypervisor.GetHypervisor(hname).Look(instance)
    note = guestnotes.Read(instance)
    return {
        runstate.KEY: look.state,
        "ident": look.ident,
        "sending": look.sending,
        "never": _HasNeverRun(look, note),
        **note.ToDict(),
    }


def _HasNeverRun(look: Look, note: guestnotes.Note) -> bool:
    if look.state != runstate.GONE:
        return False
    return note.arrival == runstate.NEVER or (note.arrival in (runstate.AWAITED, runstate.HELD) and look.load_failed)


def Migratable(instance: Dict) -> None:
    """instance_migratable: fail unless the instance runs here and can be sent."""
    guest, driver = _Load(instance)
    state = driver.Look(guest.name).state
    if state == runstate.GONE:
        raise errors.RpcCallError(f"Instance {guest.name} is not running")
    _CheckSendable(guest.name, state)
    CheckNoHelper(guest.name)
    driver.MigrationInfo(guest)
    for index in range(len(wire.InstanceDisks(guest))):
        link = pathutils.InstanceDiskLink(guest.name, index)
        if not runtime.Exists(link):
            logging.warning("Instance %s is missing the link %s of disk %d", guest.name, link, index)


def _CheckSendable(name: str, state: str) -> None:
    if state not in (runstate.RUNNING, runstate.PAUSED):
        raise errors.RpcCallError(f"Instance {name} cannot be migrated: the state of its process here is {state}")


def Info(instance: Dict) -> str | None:
    """migration_info: return what the target needs, opaque to the master."""
    guest, driver = _Load(instance)
    return driver.MigrationInfo(guest)


def Accept(instance: Dict, info: str | None, target: str) -> None:
    """accept_instance: wait for the guest, on the target."""
    guest, driver = _Load(instance)
    with guestnotes.Locked(guest.name):
        if driver.Exists(guest.name):
            state = driver.Look(guest.name).state
            raise errors.RpcCallError(f"Instance {guest.name} cannot be accepted: it is here already (state {state})")
        note = guestnotes.Read(guest.name)
        if note.attempt is not None:
            raise errors.RpcCallError(
                f"Instance {guest.name} cannot be accepted: it was sent from here to {note.sent_to} and that was not"
                f" settled; use 'gnt-instance migrate --cleanup {guest.name}'"
            )
        if note.arrival not in (None, runstate.NEVER):
            # This call may be an old one.  With a process that waits for a guest, the copy that sent it would seem to be the
            # newest, and run again.
            raise errors.RpcCallError(
                f"Instance {guest.name} cannot be accepted: it may have run here already (noted as {note.arrival}) and that was"
                f" not settled; use 'gnt-instance migrate --cleanup {guest.name}'"
            )
        guestnotes.Write(guest.name, guestnotes.Note(arrival=runstate.AWAITED))
        try:
            disks = LinkedDisks(guest)
            driver.Accept(guest, info, target, disks)
        except (errors.HypervisorError, errors.BlockDeviceError):
            if not driver.Exists(guest.name):
                guestnotes.Write(guest.name, guestnotes.Note(arrival=runstate.NEVER))
                RemoveLinks(guest)
            raise


def Migrate(cluster_name: str, instance: Dict, target: str, live: bool) -> None:
    """instance_migrate: start sending, on the source."""
    guest, driver = _Load(instance)
    with guestnotes.Locked(guest.name):
        look = driver.Look(guest.name)
        _CheckSendable(guest.name, look.state)
        CheckNoHelper(guest.name)
        if look.sending:
            raise errors.RpcCallError(f"Instance {guest.name} is being migrated already")
        guestnotes.Write(guest.name, guestnotes.Note(target, runtime.NewUuid()))
        driver.Migrate(cluster_name, guest, target, live)


def Status(instance: Dict) -> Dict:
    """instance_get_migration_status: return the progress, on the source."""
    guest, driver = _Load(instance)
    return driver.MigrationStatus(guest).ToDict()


def EndSent(instance: Dict, ident: int, attempt: str | None, sent: bool) -> None:
    """instance_end_sent: forget an ``attempt`` that is over; end the sent copy on the source, if it is still there.

    ``sent``: the master has seen such a copy.  If it has seen a running guest, a copy that was sent since may be the only one.
    """
    guest, driver = _Load(instance)
    with guestnotes.Locked(guest.name):
        look = _CheckSame(driver, guest, ident, attempt)
        if look.state == runstate.SENT and not sent:
            raise _Changed(guest, look)
        if look.sending and look.state in runstate.HOLDS:
            look = _WaitFailed(driver, guest, ident, attempt)
        if look.sending or look.state not in (runstate.SENT, runstate.GONE, *runstate.HOLDS):
            raise errors.RpcCallError(
                f"Instance {guest.name}: its process here is not what this call is for (state {look.state}), it is left"
                " alone"
            )
        if look.state == runstate.SENT:
            driver.EndNow(guest)
        if look.state not in runstate.HOLDS:
            _Leave(driver, guest)
        guestnotes.Clear(guest.name)


def _WaitFailed(driver: Hypervisor, guest: objects.Instance, ident: int, attempt: str | None) -> Look:
    """Wait until QEMU has noticed that the target of its transfer is gone; return the last look.

    RpcCallError if it was sent after all.
    """
    deadline = runtime.Monotonic() + _NOTICE_SECONDS
    while True:
        look = _CheckSame(driver, guest, ident, attempt)
        if look.state not in runstate.HOLDS:
            raise _Changed(guest, look)
        if not look.sending or runtime.Monotonic() >= deadline:
            return look
        runtime.Sleep(_NOTICE_STEP)


def _CheckSame(driver: Hypervisor, guest: objects.Instance, ident: int, attempt: str | None) -> Look:
    """Look, and raise RpcCallError unless process and attempt are those that the master has looked at."""
    look = driver.Look(guest.name)
    if look.ident != ident or guestnotes.Read(guest.name).attempt != attempt:
        raise _Changed(guest, look)
    return look


def _Changed(guest: objects.Instance, look: Look) -> errors.RpcCallError:
    return errors.RpcCallError(
        f"Instance {guest.name} has changed since it was looked at (state {look.state}), it is left alone"
    )


def FinalizeDestination(instance: Dict, info: str | None, success: bool) -> None:
    """instance_finalize_migration_dst: wait until the guest is here; without ``success`` end one that never will be."""
    guest, driver = _Load(instance)
    with guestnotes.Locked(guest.name):
        if not success:
            _Withdraw(driver, guest)
            return
        held = guestnotes.Read(guest.name).arrival == runstate.HELD
        driver.WaitArrived(guest, info)
        state = driver.Look(guest.name).state
        if state not in runstate.HOLDS:
            raise errors.RpcCallError(f"Instance {guest.name} has not arrived (state {state})")
        if held and state == runstate.PAUSED:
            driver.Resume(guest)
        # The note of a guest that is being sent on is not this call's.
        if guestnotes.Read(guest.name).arrival is not None:
            guestnotes.Write(guest.name, guestnotes.Note(arrival=runstate.ARRIVED))


def _Withdraw(driver: Hypervisor, guest: objects.Instance) -> None:
    """End a waiting process that has never run; a guest that has arrived is never touched."""
    look, note = driver.Look(guest.name), guestnotes.Read(guest.name)
    if look.state == runstate.ARRIVING:
        guestnotes.Write(guest.name, guestnotes.Note(arrival=runstate.HELD))
        driver.Hold(guest)
        look = driver.Look(guest.name)
        if look.state == runstate.ARRIVING:
            # Whatever still arrives, it does not run.
            driver.EndNow(guest)
            note, look = guestnotes.Note(arrival=runstate.NEVER), Look(runstate.GONE)
        elif look.state == runstate.PAUSED:
            driver.Resume(guest)  # it came in the same moment
            guestnotes.Write(guest.name, note)
    if look.state != runstate.GONE:
        raise errors.RpcCallError(
            f"Instance {guest.name}: its process here is not waiting for a guest (state {look.state}), it is left alone"
        )
    if _HasNeverRun(look, note):
        guestnotes.Write(guest.name, guestnotes.Note(arrival=runstate.NEVER))
    _Leave(driver, guest)


def _Leave(driver: Hypervisor, guest: objects.Instance) -> None:
    """Give up what a copy that has ended had on this node: its files and its access to the disks."""
    driver.Cleanup(guest.name)
    RemoveLinks(guest)
    for disk in wire.InstanceDisks(guest):
        try:
            device = tree.Find(disk)
            if device is not None:
                device.Close()
        except errors.BlockDeviceError as err:
            # The master closes them again, and reports what fails then.
            logging.warning("Instance %s: a disk could not be closed: %s", guest.name, err)


def ResumeSent(instance: Dict, ident: int, attempt: str | None) -> None:
    """instance_resume_sent: resume the guest on the source after its ``attempt`` to be sent has failed for good."""
    guest, driver = _Load(instance)
    with guestnotes.Locked(guest.name):
        look = _CheckSame(driver, guest, ident, attempt)
        if look.state not in (runstate.SENT, runstate.LEAVING) and not look.sending:
            raise errors.RpcCallError(f"Instance {guest.name} was not sent (state {look.state}), it is left alone")
        driver.Resume(guest)
        guestnotes.Clear(guest.name)


def EndCopy(instance: Dict, ident: int) -> None:
    """instance_end_copy: end the process that was looked at, at once: another copy is the guest."""
    guest, driver = _Load(instance)
    with guestnotes.Locked(guest.name):
        look = driver.Look(guest.name)
        if look.state == runstate.GONE:
            return  # what is noted here may belong to a later migration
        if look.ident != ident:
            raise _Changed(guest, look)
        driver.EndNow(guest)
        _Leave(driver, guest)
        guestnotes.Clear(guest.name)


# --- devices of a running instance ------------------------------------------------------------------------------------


def HotplugSupported(instance: Dict) -> None:
    """hotplug_supported: fail unless devices of the running guest can be changed."""
    guest, driver = _Load(instance)
    driver.HotplugSupported(guest)


def Hotplug(instance: Dict, action: str, dev_type: str, device: Dict, extra: Any, seq: int) -> Dict | None:
    """hotplug_device: add, remove or change a device; a removal returns how it was plugged."""
    guest, driver = _Load(instance)
    driver.HotplugSupported(guest)
    if dev_type == HOTPLUG_NIC:
        plugged: objects.NIC | objects.Disk = wire.Nic(device)
    elif dev_type == HOTPLUG_DISK:
        plugged = wire.Disk(device)
        if action == "hotadd":
            ShowDisk(guest, plugged, plugged.size)
    else:
        raise errors.RpcCallError(f"Device type '{dev_type}' cannot be changed on a running instance")
    if action == "hotadd":
        driver.HotAdd(guest, dev_type, plugged, extra, seq)
    elif action == "hotremove":
        return driver.HotRemove(guest, dev_type, plugged, seq)
    elif action == "hotmod":
        driver.HotModify(guest, dev_type, plugged, extra, seq)
    else:
        raise errors.RpcCallError(f"Unknown action '{action}' for a device of a running instance")
    return None


def ResizeDisk(instance: Dict, disk: Dict, new_size: int) -> None:
    """resize_disk: notify the guest of the disk's ``new_size`` in bytes."""
    guest, driver = _Load(instance)
    resized = wire.Disk(disk)
    ShowDisk(guest, resized, -(-new_size // BLOCK_BYTES))
    driver.ResizeDisk(guest, resized, new_size)


HANDLERS = {
    "accept_instance": Accept,
    "hotplug_device": Hotplug,
    "hotplug_supported": HotplugSupported,
    "instance_finalize_migration_dst": FinalizeDestination,
    "instance_end_copy": EndCopy,
    "instance_end_sent": EndSent,
    "instance_get_migration_status": Status,
    "instance_migratable": Migratable,
    "instance_migrate": Migrate,
    "instance_resume_sent": ResumeSent,
    "instance_run_state": RunState,
    "migration_info": Info,
    "resize_disk": ResizeDisk,
}
