"""The whole master under faults: real node daemons, real master daemons, real clients, on simulated machines.

::

    operators (LUXI clients) --> masterd: Service, Master, store, queue, processor, exporter   --calls--> noded: Dispatcher, gate
          |                        ^  started by init, by daemon-util, by master-failover                    |
          v                        |                                                                         v
        Told <---- checks ---- JobBook (every version of every job)        CallWatch (every call) <---- handlers

What must hold is said in doc/design-store.rst and doc/reference/locking.md 14.4; the network, the disks and the clocks are those of
``simulation.harness``, which plays the store alone.
"""

from __future__ import annotations
