"""Procedures for the network side of mirrored disks (doc/reference/drivers.md a.4), over the contract ``storage.base.Mirror``."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from ganeti import errors, objects
from ganeti.backend import wire
from ganeti.params import disk as disk_params
from ganeti.storage import GetDriver, base, tree, waiting
from ganeti.storage.utilities import drbdtools

Dict = dict[str, Any]

_ATTACH_SECONDS = 120.0
_CONNECT_SECONDS = 15.0
# Seconds between two looks at many mirrors.
_LONGEST_PAUSE = 5.0


def _Mirror(disk: objects.Disk) -> base.Mirror:
    device = tree.FindOrFail(disk)
    if not isinstance(device, base.Mirror):
        raise errors.RpcCallError(f"{device}: is not mirrored over the network")
    return device


def DisconnectNet(disks: list[Dict]) -> None:
    """drbd_disconnect_net: disconnect the mirrors from the other node."""
    for disk in wire.Disks(disks):
        _Mirror(disk).DisconnectNet()


def AttachNet(disks: list[Dict], multimaster: bool) -> None:
    """drbd_attach_net: have links and wait; ``multimaster``: both sides may be open, this one is once both are complete."""
    mirrors = [_Mirror(disk) for disk in wire.Disks(disks)]
    for mirror in mirrors:
        mirror.AttachNet(multimaster)

    def connected() -> bool:
        states = [_IsConnected(mirror, multimaster) for mirror in mirrors]  # all are looked at, each may need a push
        return all(states)

    if not waiting.Until(connected, _ATTACH_SECONDS, _LONGEST_PAUSE):
        states = "; ".join(f"{mirror} {_Said(mirror.Connection())}" for mirror in mirrors)
        raise errors.RpcCallError(
            f"Mirrors did not connect within {_ATTACH_SECONDS:g} s: {states}. Once the nodes reach each other at their"
            " secondary addresses, 'gnt-instance activate-disks INSTANCE' connects them"
        )
    if multimaster:
        for mirror in mirrors:
            mirror.Open(exclusive=False)


def _IsConnected(mirror: base.Mirror, multimaster: bool) -> bool:
    state = mirror.Connection()
    if state.standalone:
        mirror.AttachNet(multimaster)  # the other side was not there yet and this one gave up
        return False
    if multimaster:
        return state.connected and state.local_uptodate and state.peer_uptodate
    return state.connected or state.in_resync


def _Said(state: base.MirrorState) -> str:
    """Return for people how far a mirror has come, with the word that /proc/drbd has for it."""
    if state.standalone:
        return "is StandAlone: it refused the other side, or was refused; 'dmesg' says why"
    if state.in_resync:
        done = "" if state.sync_percent is None else f", {state.sync_percent:g} %"
        return f"is being filled{done}"
    if not state.connected:
        return "waits for the other side (WFConnection)"
    lacking = [side for side, fine in (("this", state.local_uptodate), ("the other", state.peer_uptodate)) if not fine]
    return f"is connected, and {' and '.join(lacking) or 'no'} side lacks data"


def Follow(disks: list[Dict]) -> None:
    """drbd_follow: make active mirrors obey what the disks say of their other side; try all, pass over inactive ones."""
    problems = []
    for disk in wire.Disks(disks):
        try:
            # The guest waits: its volumes, for which LVM would be asked, do not matter here.
            device = tree.FindAlone(disk)
            if isinstance(device, base.Mirror):
                device.Follow()
        except errors.BlockDeviceError as err:
            problems.append(str(err))
    if problems:
        raise errors.BlockDeviceError("; ".join(problems))


def States() -> dict[str, Dict]:
    """drbd_states: return the state of each mirror of this node, by minor, whosever it is."""
    drivers = [GetDriver(template) for template in sorted(disk_params.With(mirror=disk_params.INTERNAL))]
    return {
        str(minor): dataclasses.asdict(state)
        for driver in drivers
        if issubclass(driver, base.Mirror)
        for minor, state in driver.States().items()
    }


def Views(node_disks: list[Dict]) -> dict[str, Dict]:
    """drbd_views: return the state of each of these mirrors that is set up here, or of what is in its place, by uuid."""
    states: dict[type[base.Mirror], dict[int, base.MirrorState]] = {}
    views = {}
    for disk in wire.Disks(node_disks):
        device = tree.Make(disk)
        if not isinstance(device, base.Mirror):
            continue
        driver = type(device)
        if driver not in states:
            states[driver] = driver.States()
        number = device.LocalMinor() if device.Attach() else None
        stranger = device.Stranger()
        state = None if number is None else states[driver].get(number)
        if stranger is not None:
            # One of ours that is linked elsewhere may still be open.
            state = _Nothing(stranger, state is not None and state.primary)
        if state is not None:
            views[disk.uuid] = dataclasses.asdict(state)
    return views


def _Nothing(stranger: str, is_open: bool) -> base.MirrorState:
    """Return the state of a mirror in whose place, or at whose other end, something else was found."""
    return base.MirrorState(False, False, False, False, False, primary=is_open, incomplete=True, stranger=stranger)


def Helper() -> str:
    """drbd_helper: return the program that the module calls."""
    return drbdtools.Helper()


def Version() -> str:
    """For node_verify: return the module's version if the node's programs can drive it."""
    version = drbdtools.LoadedVersion()
    drbdtools.Configs()
    return str(version)


def MinorsInUse() -> list[int]:
    """For node_verify: return the numbers of the mirrors that are configured."""
    drbdtools.LoadedVersion()
    return sorted(number for number, minor in drbdtools.Minors().items() if minor.in_use)


def WaitSync(disks: list[Dict]) -> list[Any]:
    """drbd_wait_sync: return [all done, lowest percent]; give a lost connection a moment."""
    done, lowest = True, 100.0
    for disk in wire.Disks(disks):
        mirror = _Mirror(disk)
        if not waiting.Until(functools.partial(_IsTalking, mirror), _CONNECT_SECONDS):
            raise errors.RpcCallError(f"{mirror}: is not connected and does not sync; look at the other node")
        state = mirror.Connection()
        done = done and state.connected
        if state.sync_percent is not None:
            lowest = min(lowest, state.sync_percent)
    return [done, lowest]


def _IsTalking(mirror: base.Mirror) -> bool:
    state = mirror.Connection()
    return state.connected or state.in_resync


def NeedsActivation(disks: list[Dict]) -> list[str]:
    """drbd_needs_activation: return the uuids of the disks that must be assembled again."""
    needing = []
    for disk in wire.Disks(disks):
        device = tree.Find(disk)
        if device is None or (isinstance(device, base.Mirror) and device.NeedsActivation()):
            needing.append(disk.uuid)
    return needing


HANDLERS = {
    "drbd_attach_net": AttachNet,
    "drbd_disconnect_net": DisconnectNet,
    "drbd_follow": Follow,
    "drbd_helper": Helper,
    "drbd_needs_activation": NeedsActivation,
    "drbd_states": States,
    "drbd_views": Views,
    "drbd_wait_sync": WaitSync,
}
