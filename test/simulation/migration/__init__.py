"""Migration under faults: real logical units, real node procedures, simulated QEMU processes on simulated hosts.

::

    Operators --> Processor, logical units --> RpcRunner --> Wires: lost? late? broken? --> Dispatcher, backend
        |               |                                                                      |
     the words     SmallStore (rows survive the master)                     SimulatedDriver, SimulatedDisk
     of errors                                                                                 |
                                                                         Host: Qemu processes, files, power
    Oracle: who writes, who ended what, what is called healthy  <-----------------------------'

Everything runs in one thread: whoever comes to a step of the world (a call, a file, a word to QEMU) may find that time has
gone on, that a late call was carried out, or that it is dead.  So a run takes milliseconds, and any two steps can have
anything between them.
"""

from __future__ import annotations
