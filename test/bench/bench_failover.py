"""A dead primary node.  Run by hand: ``python test/bench/bench_failover.py [instances]`` from the top of the tree.

Three nodes, real daemons on addresses of 127.0.0.0/8; disks and guests are fakes that answer at once.  Every process of the node
that runs all instances is killed, and who connects to it hears nothing, as of a machine without power.  Then it is marked
offline and each instance is failed over, as ``gnt-node modify --offline yes`` and ``gnt-node failover`` do.  Target (2 cores):
20 instances run on their secondary within 10 s.
"""

from __future__ import annotations

import os
import sys
import time

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.mirrored import MirrorCluster  # noqa: E402
from support.strangers import NoAnswer  # noqa: E402


def Run(instances: int = 20) -> float:
    """Return the seconds from the command to the last instance that runs again."""
    with MirrorCluster(instances) as cluster:
        cluster.StartAll()
        dead = cluster[1]
        cluster.CutPower(dead)
        with NoAnswer(dead.address):
            began = time.perf_counter()
            cluster.Jobs([{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": dead.name, "offline": True, "force": True}])
            cluster.Jobs([{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": name} for name in cluster.names])
            return time.perf_counter() - began


if __name__ == "__main__":
    print(f"{Run(*map(int, sys.argv[1:])):.2f} s")
