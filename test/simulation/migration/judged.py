"""How a run of one guest ended, whatever ended it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from simulation.harness.play import SHOWN, Result
from simulation.migration.qemu import SimulatedDriver
from simulation.migration.world import Violation, World

from ganeti import hypervisor, runtime, storage
from ganeti.storage.base import BlockDev


@contextmanager
def Judged(world: World, result: Result, drivers: Mapping[str, type[BlockDev]]) -> Iterator[None]:
    """Play the block with these drivers of disks; note in ``result`` what it broke and what happened, and raise nothing."""
    before = runtime.CurrentSide()
    try:
        storage.UseDrivers(drivers)
        hypervisor.UseDrivers({"fake": SimulatedDriver})
        yield
    except Violation as err:
        result.problem = f"Violation: {str(err)[:SHOWN]}"
    except Exception:  # noqa: BLE001 - whatever it was, it is this seed's result
        result.problem = traceback.format_exc()
    finally:
        runtime.EnterSide(before)
        storage.UseDrivers({})
        hypervisor.UseDrivers({})
        result.steps = world.steps
        result.events = world.events
