"""Live migration over QMP, on either side (spec/drivers.md b.3)."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import Any

from ganeti import errors, runtime
from ganeti.hypervisor import base
from ganeti.hypervisor.kvm import qmp

POSTCOPY = "postcopy-ram"
# Rounds over memory that still changes before the rest is fetched on demand.
_POSTCOPY_AFTER_SYNCS = 2
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


def Uri(target: str, port: int) -> str:
    host = f"[{target}]" if ipaddress.ip_address(target).version == 6 else target
    return f"tcp:{host}:{port}"


def Capabilities(hvp: Mapping[str, Any]) -> list[str]:
    """The names in ``migration_caps``, joined by colons there."""
    return [name for name in hvp["migration_caps"].split(":") if name]


def CapabilityArguments(names: list[str], state: bool) -> dict[str, Any]:
    return {"capabilities": [{"capability": name, "state": state} for name in names]}


def Parameters(hvp: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of migrate-set-parameters: bandwidth in bytes per second (0: as QEMU likes), downtime in ms."""
    parameters: dict[str, Any] = {"downtime-limit": int(hvp["migration_downtime"])}
    bandwidth = int(hvp["migration_bandwidth"]) * 1024 * 1024
    if bandwidth:
        parameters["max-bandwidth"] = bandwidth
        if POSTCOPY in Capabilities(hvp):
            parameters["max-postcopy-bandwidth"] = bandwidth
    return parameters


def ParseProgress(answer: Mapping[str, Any]) -> base.MigrationProgress:
    """The answer of query-migrate."""
    state = str(answer.get("status", "none"))
    ram = answer.get("ram") or {}
    return base.MigrationProgress(
        _STATES.get(state, base.MIGRATION_ACTIVE),
        ram.get("transferred"),
        ram.get("total"),
        state if state.startswith("postcopy") else None,
    )


def WantsPostcopy(answer: Mapping[str, Any], hvp: Mapping[str, Any]) -> bool:
    """Whether it is time to let the guest run on the target and fetch the rest of its memory on demand."""
    syncs = (answer.get("ram") or {}).get("dirty-sync-count", 0)
    return POSTCOPY in Capabilities(hvp) and answer.get("status") == "active" and syncs >= _POSTCOPY_AFTER_SYNCS


def Listen(monitor: qmp.Monitor, hvp: Mapping[str, Any], target: str) -> None:
    """Target: opens the port.  The guest was started with ``-incoming defer``."""
    names = Capabilities(hvp)
    if names:
        monitor.Execute("migrate-set-capabilities", CapabilityArguments(names, True))
    port = int(hvp["migration_port"])
    try:
        monitor.Execute("migrate-incoming", {"uri": Uri(target, port)})
    except qmp.CommandError as err:
        raise errors.HypervisorError(
            f"Cannot wait for the migration on {target} port {port} ({err}); "
            "is another migration to this node under way, or the address not this node's?"
        ) from err


def Send(monitor: qmp.Monitor, hvp: Mapping[str, Any], target: str, live: bool) -> None:
    """Source: starts; returns at once."""
    if not live:
        monitor.Execute("stop")
    monitor.Execute("migrate-set-parameters", Parameters(hvp))
    names = Capabilities(hvp)
    if names:
        monitor.Execute("migrate-set-capabilities", CapabilityArguments(names, True))
    monitor.Execute("migrate", {"uri": Uri(target, int(hvp["migration_port"]))})


def Progress(monitor: qmp.Monitor, hvp: Mapping[str, Any], name: str) -> base.MigrationProgress:
    """Source: how far it is; changes to postcopy when that was asked for and it is time."""
    answer = monitor.Execute("query-migrate")
    if WantsPostcopy(answer, hvp):
        monitor.TryExecute("migrate-start-postcopy")
    if answer.get("error-desc"):
        logging.warning("Instance %s: migration failed: %s", name, answer["error-desc"])
    return ParseProgress(answer)


def Cancel(monitor: qmp.Monitor, hvp: Mapping[str, Any], name: str) -> None:
    """Source: ends what is under way; the guest runs on here."""
    monitor.TryExecute("migrate_cancel")
    deadline = runtime.Monotonic() + _CANCEL_SECONDS
    while ParseProgress(monitor.Execute("query-migrate")).status == base.MIGRATION_ACTIVE:
        if runtime.Monotonic() > deadline:
            raise errors.HypervisorError(f"Instance {name}: its migration cannot be cancelled; look at the node")
        runtime.Sleep(_LOOK_SECONDS)
    ClearCapabilities(monitor, hvp)
    monitor.Execute("cont")


def ClearCapabilities(monitor: qmp.Monitor, hvp: Mapping[str, Any]) -> None:
    names = Capabilities(hvp)
    if names:
        monitor.TryExecute("migrate-set-capabilities", CapabilityArguments(names, False))


def WaitArrived(monitor: qmp.Monitor, name: str) -> None:
    """Target: until the guest is here as a whole; the source says it has sent all."""
    deadline = runtime.Monotonic() + _ARRIVAL_SECONDS
    while monitor.Execute("query-status")["status"] == "inmigrate":
        if runtime.Monotonic() > deadline:
            raise errors.HypervisorError(f"Instance {name}: the migration has not arrived as a whole; look at the node")
        runtime.Sleep(_LOOK_SECONDS)
