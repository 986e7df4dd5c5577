"""Clusters in one process, driven from a seed: nodes, masters, clients, faults, and what must hold whatever happens.

::

    Run(seed) --> Cluster: machines, their noded, masterd where the supervisor starts it
                    |-- Workload: what a master does for its clients           (others put jobs and configuration in here)
                    |-- faults: crashes, power, network, disks, clocks
                    |-- Oracle: every transaction of every node must be a step that the rules of the store allow
                    `-- Ledger: what was acknowledged, checked while it runs and at the end

The same seed gives the same run.  ``tools/simulate --seeds N --start S`` runs many; a test runs some hundreds.
"""

from __future__ import annotations
