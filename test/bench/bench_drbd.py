"""A new mirrored instance.  Run by hand: ``python test/bench/bench_drbd.py [disks]`` from the top of the tree.

Master, both nodes, LVM's and DRBD's programs are simulated in one process: what is measured is the CPU that the master's
and the nodes' code takes, with the encoding of calls; the time of the played programs is taken off.  Calls over TLS come
on top: ``bench_rpc.py`` has their price, the number of them is printed.  Target: 1 s for an instance of 1 GiB, without
waiting for its resync.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support import drivers  # noqa: E402
from support.creation import OnDisks  # noqa: E402
from support.master import Master  # noqa: E402
from support.standindrbd import Links, StandInDrbd  # noqa: E402

from ganeti import constants, hypervisor, objects, storage  # noqa: E402


class Cost(NamedTuple):
    """Seconds of CPU in our code and in the played programs; programs run, calls served."""

    ours: float
    tools: float
    runs: int
    calls: int


class _Clock:
    """Measures the programs of all machines."""

    def __init__(self, master: Master):
        self.seconds, self.runs = 0.0, 0
        for node in master.all:
            for name, program in list(node.machine.programs.items()):
                node.machine.programs[name] = self._Measured(program)

    def _Measured(self, program: Callable[[Any], int | None]) -> Callable[[Any], int | None]:
        def run(invocation: Any) -> int | None:
            began = time.process_time()
            try:
                return program(invocation)
            finally:
                self.seconds += time.process_time() - began
                self.runs += 1

        return run


def _Empty(root: objects.Snapshot) -> objects.Snapshot:
    return root.Replace(instances={}, disks={})


def Run(disks: int = 1) -> Cost:
    """Make an instance with disks of 1 GiB and start it."""
    master = Master(2, lvm=True, change=_Empty)
    links = Links()
    links.hold = True
    for node in master.all:
        StandInDrbd(node.machine, links, node.lvm)
    clock = _Clock(master)
    op = OnDisks(
        "web.example.org",
        *[{"size": 1024}] * disks,
        disk_template=constants.DT_DRBD8,
        snode="node2",
        wait_for_sync=False,
        start=True,
    )

    def create() -> float:
        real = {name: driver for name, driver in drivers.ON_LVM.items() if name != constants.DT_DRBD8}
        storage.UseDrivers(real)
        began = time.process_time()
        master.Run(op)
        return time.process_time() - began

    try:
        took = master.Perform(create)
        calls = sum(len(node.calls) for node in master.all)
        return Cost(took - clock.seconds, clock.seconds, clock.runs, calls)
    finally:
        master.Close()
        storage.UseDrivers({})
        hypervisor.UseDrivers({})


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    Run(count)
    cost = Run(count)
    print(
        f"{cost.ours:.3f} s in our code; {cost.tools:.3f} s in {cost.runs} programs that are played; {cost.calls} calls"
    )
