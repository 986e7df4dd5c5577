"""What the simulation costs.  Run by hand: ``python test/bench/bench_simulated.py`` from the top of the tree.

Targets (2 cores): a switch to another thread at most 15 us of CPU, a step without one at most 2 us, the cluster of
3000 steps well below 0.5 s, making a world with 60 threads and throwing it away below 10 ms.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from simulated import World

from ganeti import runtime


def _Cpu(action: Callable[[], int]) -> tuple[float, int]:
    """(CPU seconds, steps)"""
    action()
    began = time.process_time()
    steps = action()
    return time.process_time() - began, steps


def _Steps(threads: int, switch: float, count: int) -> Callable[[], int]:
    def tick() -> None:
        for _ in range(count // threads):
            runtime.Time()

    def program() -> None:
        started = [runtime.Thread(tick, f"t{n}") for n in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()

    def action() -> int:
        with World(1, switch=switch) as world:
            world.AddMachine("n").Call(program)
            return world.steps

    return action


def _Node(requests: Any) -> None:
    """Stands for a node daemon: takes requests, writes files and rows, answers."""
    database = runtime.OpenDatabase("/srv/db")
    with database.Transaction():
        database.Execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, value TEXT)")
    while (request := requests.get()) is not None:
        number, reply = request
        runtime.WriteFile("/srv/file", f"{number}")
        with database.Transaction():
            database.Execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 100))
        reply.put(number)


def _Cluster() -> int:
    """One master with 10 workers, 5 nodes, about 3000 steps."""

    def master(queues: list) -> None:
        condition = runtime.Condition()
        done = [0]

        def work(first: int) -> None:
            reply = runtime.Queue()
            for number in range(first, first + 4):
                for index, queue in enumerate(queues):
                    queue.put((number * 10 + index, reply))
                for _ in queues:
                    reply.get(10)
                with condition:
                    done[0] += 1
                    condition.notify_all()

        for first in range(10):
            runtime.Thread(work, f"worker {first}", (first * 100,)).start()
        with condition:
            condition.wait_for(lambda: done[0] == 40)
        for queue in queues:
            queue.put(None)

    with World(3) as world:
        machines = [world.AddMachine(f"node{n}") for n in range(5)]
        for machine in machines:
            machine.Call(lambda: runtime.MakeDirs("/srv"))
        queues = [machine.Call(runtime.Queue) for machine in machines]
        for machine, queue in zip(machines, queues, strict=True):
            machine.StartProcess(_Node, "noded", (queue,))
        process = machines[0].StartProcess(master, "masterd", (queues,))
        world.Run(until=lambda: not process.alive)
        world.Run()
        assert world.failures == []
        return world.steps


def _Throwaway() -> int:
    def program() -> None:
        for number in range(60):
            runtime.Thread(runtime.Event().wait, f"t{number}").start()
        runtime.Event().wait()

    with World(1) as world:
        process = world.AddMachine("n").StartProcess(program, "p")
        world.Run(until=lambda: len(process.threads) == 61)
        return world.steps


def Main() -> None:
    for threads in (2, 10, 50):
        seconds, steps = _Cpu(_Steps(threads, 1.0, 20000))
        print(f"{threads:3} threads, switching always: {seconds / steps * 1e6:6.2f} us per step")
    seconds, steps = _Cpu(_Steps(10, 0.0, 20000))
    print(f" 10 threads, switching never:  {seconds / steps * 1e6:6.2f} us per step")
    seconds, steps = _Cpu(_Cluster)
    print(f"cluster: {steps} steps in {seconds * 1000:.0f} ms, {seconds / steps * 1e6:.2f} us per step")
    seconds, _ = _Cpu(_Throwaway)
    print(f"a world with 60 threads, made and thrown away: {seconds * 1000:.1f} ms")


if __name__ == "__main__":
    Main()
