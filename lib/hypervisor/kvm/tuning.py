"""Which processors a guest may use (doc/reference/drivers.md b.3, pinning)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import errors, runtime
from ganeti.hypervisor.kvm import qmp
from ganeti.params import checks

_SECONDS = 30.0


def BuildPin(ident: int, cpus: Sequence[int], all_threads: bool) -> list[str]:
    """Return the command that binds a thread, or a process with all its threads, to processors."""
    return ["taskset", *(["-a"] if all_threads else []), "-c", "-p", ",".join(map(str, cpus)), str(ident)]


def Plan(pid: int, threads: Sequence[int], mask: str) -> list[list[str]]:
    """Return the commands for a mask: one list for all, or one per virtual processor; none for ``all``."""
    parts = checks.ParseMultiCpuMask(mask)
    if len(parts) == 1:
        return [] if parts[0] is None else [BuildPin(pid, parts[0], True)]
    if len(parts) != len(threads):
        raise errors.HypervisorError(f"cpu_mask {mask} names {len(parts)} processors, the guest has {len(threads)}")
    return [BuildPin(thread, cpus, False) for thread, cpus in zip(threads, parts, strict=True) if cpus is not None]


def Pin(monitor: qmp.Monitor, name: str, pid: int, hvp: Mapping[str, Any]) -> None:
    mask = hvp["cpu_mask"]
    if mask == checks.CPU_PINNING_ALL:
        return
    threads = [int(cpu["thread-id"]) for cpu in monitor.Execute("query-cpus-fast")]
    if not all(runtime.Exists(f"/proc/{pid}/task/{thread}") for thread in threads):
        raise errors.HypervisorError(f"Instance {name}: QEMU names threads that are not its own; cpu_mask is not set")
    for argv in Plan(pid, threads, mask):
        result = runtime.RunCmd(argv, timeout=_SECONDS)
        if result.failed:
            raise errors.HypervisorError(f"Instance {name}: cpu_mask {mask} cannot be set: {result.fail_reason}")
