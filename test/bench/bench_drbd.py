"""A new mirrored instance.  Run by hand: ``python test/bench/bench_drbd.py [disks]`` from the top of the tree.

Target: 1 s for an instance of 1 GiB, without waiting for its resync, the tools' own time apart.  Two numbers together are that:

* By the clock, with real daemons, TLS and jobs; the drivers of disks and guests are fakes that answer at once.
* In the drivers: master, both nodes, LVM's and DRBD's programs are simulated in one process.  It is the CPU that the
  master's and the nodes' code takes, with the encoding of calls; the time of the played programs is taken off.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from bench_verify import InstallLvm  # noqa: E402
from support import drivers  # noqa: E402
from support.creation import OnDisks  # noqa: E402
from support.master import Master  # noqa: E402
from support.mirrored import MirrorCluster  # noqa: E402
from support.standindrbd import Links, StandInDrbd  # noqa: E402

from ganeti import constants, hypervisor, objects, opcodes, storage  # noqa: E402


class Cost(NamedTuple):
    """Seconds of CPU in our code and in the played programs; programs run, calls served."""

    ours: float
    tools: float
    runs: int
    calls: int


class _Programs:
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


def _Create(name: str, disks: int, **more: Any) -> opcodes.OpCode:
    return OnDisks(
        name,
        *[{"size": 1024}] * disks,
        disk_template=constants.DT_DRBD8,
        wait_for_sync=False,
        start=True,
        **more,
    )


class _Cluster(MirrorCluster):
    """Its nodes also say how much space is left."""

    def StartNodeDaemons(self) -> None:
        for node in self.nodes:
            path = f"{InstallLvm(self, node)}:{os.environ['PATH']}"
            node.Start(constants.NODED, "-b", node.address, "--no-mlock", PATH=path)


def ByTheClock(disks: int = 1, times: int = 10) -> list[float]:
    """Return the seconds of each of several creations, from submission to success, in ascending order."""
    with _Cluster(0) as cluster:
        first, second = (node.name for node in cluster.nodes[1:3])
        took = []
        for number in range(times + 1):
            op = _Create(
                f"new{number}.example.com",
                disks,
                pnode=first,
                snode=second,
                os_type="empty+default",
                hypervisor="fake",
                hvparams={},
            )
            began = time.perf_counter()
            cluster.Jobs([op.ToDict()])
            took.append(time.perf_counter() - began)
    # The first one warms everything up.
    return sorted(took[1:])


def Run(disks: int = 1) -> Cost:
    """Make an instance with disks of 1 GiB and start it."""
    master = Master(2, lvm=True, change=_Empty)
    links = Links()
    links.hold = True
    for node in master.all:
        StandInDrbd(node.machine, links, node.lvm)
    programs = _Programs(master)
    op = _Create("web.example.org", disks, snode="node2")

    def create() -> float:
        real = {name: driver for name, driver in drivers.ON_LVM.items() if name != constants.DT_DRBD8}
        storage.UseDrivers(real)
        began = time.process_time()
        master.Run(op)
        return time.process_time() - began

    try:
        took = master.Perform(create)
        calls = sum(len(node.calls) for node in master.all)
        return Cost(took - programs.seconds, programs.seconds, programs.runs, calls)
    finally:
        master.Close()
        storage.UseDrivers({})
        hypervisor.UseDrivers({})


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    seconds = ByTheClock(count)
    print(
        f"{seconds[len(seconds) // 2]:.3f} s by the clock, {seconds[-1]:.3f} at most, with drivers that answer at once"
    )
    Run(count)
    cost = Run(count)
    print(
        f"{cost.ours:.3f} s of CPU with the real drivers; {cost.tools:.3f} s in {cost.runs} programs that are played;"
        f" {cost.calls} calls"
    )
