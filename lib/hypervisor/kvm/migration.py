"""Live migration over QMP, on either side; doc/design-migration.rst has the reasons."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import Any

from ganeti import errors, runtime
from ganeti.hypervisor import base
from ganeti.hypervisor.kvm import qmp
from ganeti.params import runstate

POSTCOPY = "postcopy-ram"
# Rounds over memory that still changes before the rest is fetched on demand.
_POSTCOPY_AFTER_SYNCS = 2
# As long as QEMU takes: it stops the guest and sends all the rest.
_ANY_DOWNTIME = 2_000_000  # ms
_CANCEL_SECONDS = 30.0
_ARRIVAL_SECONDS = 30.0
_LOOK_SECONDS = 0.1
# Set up, running and winding down are all "under way" for the master.
_STATES = {
    "completed": base.MIGRATION_COMPLETED,
    "failed": base.MIGRATION_FAILED,
    "cancelled": base.MIGRATION_CANCELLED,
    "none": base.MIGRATION_FAILED,
}
_RUN_STATES = {
    "running": runstate.RUNNING,
    "suspended": runstate.RUNNING,  # put itself to sleep
    "paused": runstate.PAUSED,
    "prelaunch": runstate.PAUSED,
    "preconfig": runstate.PAUSED,
    "save-vm": runstate.PAUSED,
    "restore-vm": runstate.PAUSED,
    "debug": runstate.PAUSED,
    "shutdown": runstate.ENDED,
    "inmigrate": runstate.ARRIVING,
    "finish-migrate": runstate.LEAVING,
    "postmigrate": runstate.SENT,
}
# What QEMU writes to its log when it gives up an incoming guest that has never run.
_LOAD_FAILED = "load of migration failed"


def RunState(status: Any) -> str:
    """Return the state for the answer of query-status; io-error, guest-panicked and the like count as stopped."""
    name = status.get("status") if isinstance(status, Mapping) else None
    return _RUN_STATES.get(str(name), runstate.STOPPED) if name else runstate.UNRESPONSIVE


def IsSending(state: str, answer: Any) -> bool:
    """Return whether the guest is on its way to another node; ``answer``: of query-migrate."""
    under_way = isinstance(answer, Mapping) and ParseProgress(answer).status == base.MIGRATION_ACTIVE
    return under_way and state != runstate.ARRIVING


def LoadFailed(log: str) -> bool:
    return _LOAD_FAILED in log


def Uri(target: str, port: int) -> str:
    host = f"[{target}]" if ipaddress.ip_address(target).version == 6 else target
    return f"tcp:{host}:{port}"


def Capabilities(hvp: Mapping[str, Any]) -> list[str]:
    """Return the names in ``migration_caps``, joined by colons there."""
    return [name for name in hvp["migration_caps"].split(":") if name]


def CapabilityArguments(names: list[str], state: bool) -> dict[str, Any]:
    return {"capabilities": [{"capability": name, "state": state} for name in names]}


def Parameters(hvp: Mapping[str, Any], live: bool = True) -> dict[str, Any]:
    """Return arguments of migrate-set-parameters: bandwidth in bytes per second (0: as QEMU likes), downtime in ms.

    Not live: any downtime will do, so QEMU stops the guest at once.  We do not stop it, so that it resumes
    wherever it ends up, and a paused guest was always paused on purpose.
    """
    parameters: dict[str, Any] = {"downtime-limit": int(hvp["migration_downtime"]) if live else _ANY_DOWNTIME}
    bandwidth = int(hvp["migration_bandwidth"]) * 1024 * 1024
    if bandwidth:
        parameters["max-bandwidth"] = bandwidth
        if POSTCOPY in Capabilities(hvp):
            parameters["max-postcopy-bandwidth"] = bandwidth
    return parameters


def ParseProgress(answer: Mapping[str, Any]) -> base.MigrationProgress:
    """Read the answer of query-migrate."""
    state = str(answer.get("status", "none"))
    ram = _Ram(answer)
    return base.MigrationProgress(
        _STATES.get(state, base.MIGRATION_ACTIVE),
        ram.get("transferred"),
        ram.get("total"),
        state if state.startswith("postcopy") else None,
    )


def _Ram(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    ram = answer.get("ram")
    return ram if isinstance(ram, Mapping) else {}


def WantsPostcopy(answer: Mapping[str, Any], hvp: Mapping[str, Any]) -> bool:
    """Return whether it is time to let the guest run on the target and fetch the rest of its memory on demand."""
    syncs = _Ram(answer).get("dirty-sync-count", 0)
    return POSTCOPY in Capabilities(hvp) and answer.get("status") == "active" and syncs >= _POSTCOPY_AFTER_SYNCS


def SetCapabilities(monitor: qmp.Monitor, hvp: Mapping[str, Any]) -> None:
    """Switch on what ``migration_caps`` names, and off what an earlier migration left on."""
    wanted = Capabilities(hvp)
    known = monitor.TryExecute("query-migrate-capabilities") or ()
    old = [cap["capability"] for cap in known if cap["state"] and cap["capability"] not in wanted]
    if old:
        monitor.TryExecute("migrate-set-capabilities", CapabilityArguments(old, False))
    if wanted:
        monitor.Execute("migrate-set-capabilities", CapabilityArguments(wanted, True))


def Listen(monitor: qmp.Monitor, hvp: Mapping[str, Any], target: str) -> None:
    """Target: open the port.  The guest was started with ``-incoming defer``."""
    SetCapabilities(monitor, hvp)
    port = int(hvp["migration_port"])
    try:
        monitor.Execute("migrate-incoming", {"uri": Uri(target, port)})
    except qmp.CommandError as err:
        raise errors.HypervisorError(
            f"Cannot wait for the migration on {target} port {port} ({err}); another migration to this node may be under"
            " way (then try again later), or the address may not be this node's"
        ) from err


def Send(monitor: qmp.Monitor, hvp: Mapping[str, Any], target: str, live: bool) -> None:
    """Source: start sending; return at once."""
    monitor.Execute("migrate-set-parameters", Parameters(hvp, live))
    SetCapabilities(monitor, hvp)
    monitor.Execute("migrate", {"uri": Uri(target, int(hvp["migration_port"]))})


def Progress(monitor: qmp.Monitor, hvp: Mapping[str, Any], name: str) -> base.MigrationProgress:
    """Source: return how far it is; change to postcopy when that was asked for and it is time."""
    answer = monitor.Execute("query-migrate")
    if WantsPostcopy(answer, hvp):
        monitor.TryExecute("migrate-start-postcopy")
    if answer.get("error-desc"):
        logging.warning("Instance %s: migration failed: %s", name, answer["error-desc"])
    return ParseProgress(answer)


def Resume(monitor: qmp.Monitor, name: str) -> None:
    """Cancel what is under way and let the guest run; safe only when no other copy runs or will run."""
    monitor.TryExecute("migrate_cancel")
    deadline = runtime.Monotonic() + _CANCEL_SECONDS
    while ParseProgress(monitor.Execute("query-migrate")).status == base.MIGRATION_ACTIVE:
        if runtime.Monotonic() > deadline:
            raise errors.HypervisorError(f"Instance {name}: its migration cannot be cancelled; look at the node")
        runtime.Sleep(_LOOK_SECONDS)
    monitor.Execute("cont")


def WaitArrived(monitor: qmp.Monitor, name: str) -> None:
    """Target: wait until the guest is here as a whole; the source says it has sent all."""
    deadline = runtime.Monotonic() + _ARRIVAL_SECONDS
    while RunState(monitor.Execute("query-status")) == runstate.ARRIVING:
        if runtime.Monotonic() > deadline:
            raise errors.HypervisorError(f"Instance {name} has not arrived within {_ARRIVAL_SECONDS:g} s")
        runtime.Sleep(_LOOK_SECONDS)
