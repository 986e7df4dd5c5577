"""A cluster is taken over.  Run by hand: ``python test/bench/bench_adopt.py [nodes [instances]]`` from the top of the tree.

Daemons on addresses of 127.0.0.0/8; the original is a stand-in (``support.original``), ssh a shell.  Measured from the word that
stops the original's master to the first answer of this release's one to a client that asks all the while.  Target: 5 nodes
and 200 instances, 30 s without master, no instance touched.
"""

from __future__ import annotations

import os
import sys
import threading
import time

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.original import OriginalCluster  # noqa: E402

from ganeti import errors  # noqa: E402


def _WaitForMaster(cluster: OriginalCluster, answered: list[float]) -> None:
    while not answered:
        try:
            with cluster[0].Client(connect_timeout=0) as client:
                client.QueryConfigValues(["cluster_name"])
            answered.append(time.time())
        except (OSError, errors.GenericError):
            time.sleep(0.05)


def Run(nodes: int = 5, instances: int = 200) -> tuple[float, str]:
    """Return the seconds without master, and what the program printed."""
    with OriginalCluster(nodes, instances) as cluster:
        cluster.StartOriginal()
        guests = cluster.Guests()
        answered: list[float] = []
        asker = threading.Thread(target=_WaitForMaster, args=(cluster, answered), daemon=True)
        asker.start()
        code, text = cluster.Adopt("--take-over", "--yes-do-it", "--change-owners", timeout=600)
        assert code == 0, text
        asker.join(60)
        assert cluster.Guests() == guests, "an instance was touched"
        stopped = next(float(line.split()[0]) for line in cluster.Notes() if line.endswith(" stop-all"))
        return answered[0] - stopped, text


if __name__ == "__main__":
    seconds, printed = Run(*map(int, sys.argv[1:]))
    print("\n".join(line for line in printed.splitlines() if line.startswith(("* ", "  ")) and "becomes" not in line))
    print(f"{seconds:.1f} s without master")
