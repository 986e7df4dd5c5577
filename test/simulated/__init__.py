"""Whole clusters in one process, single-stepped from a seed, for tests and tools/simulate.

::

    world = World(seed)
      |-- machine = world.AddMachine("node1")      disk, addresses, programs, faults; PowerOff(), PowerOn()
      |     `-- process = machine.StartProcess(target, "masterd")       Kill(), Pause(), Continue()
      |           `-- threads, made by runtime.Thread in the process's code
      `-- Run(until), RunFor(seconds), Step(), Schedule(delay, action)

Real threads run the code, but only the one that holds the baton; at each *step* (a call of the runtime) the seed
decides who goes on.  Virtual time jumps when nobody can.  The same seed, program and calls from outside give the same
steps, within one process and, with a fixed PYTHONHASHSEED, in others.

A thread whose process was killed finds ``Killed`` raised by every runtime call, so that neither ``finally`` nor
``except`` can change anything any more.  Objects made inside belong to their world; threads outside may look at them,
but not wait.

Glossary

* baton -- the right to run; the caller of ``Run`` has it between runs and during scheduled actions
* step -- a runtime call; takes 10 microseconds of virtual time
* durable -- on the disk whatever happens; see ``disk``
"""

from simulated.machine import Machine, Process
from simulated.programs import Invocation, Program
from simulated.world import (
    Deadlock,
    Failure,
    Killed,
    SimulationError,
    StepsExceeded,
    World,
)

__all__ = [
    "Deadlock",
    "Failure",
    "Invocation",
    "Killed",
    "Machine",
    "Process",
    "Program",
    "SimulationError",
    "StepsExceeded",
    "World",
]
