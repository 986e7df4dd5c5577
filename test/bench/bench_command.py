"""``gnt-cluster command`` on many nodes.  Run by hand: ``python test/bench/bench_command.py [nodes]`` from the top of the tree.

ssh is a stand-in that takes a second on each node.  Target: 3 s for 40 nodes, the start of the command included.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.sshstandin import Stage  # noqa: E402


def Main(nodes: int = 40) -> None:
    with tempfile.TemporaryDirectory(prefix="gnt-") as folder:
        stage = Stage(folder)
        stage.AddNodes(nodes)
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = stage.Run("command", "-M", "true", SECONDS_EACH="1")
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        stage.master.Shutdown()
    assert done.stdout.count(": done\n") == nodes, done
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{nodes} nodes: {seconds:.2f} s; CPU {used:.2f} s, the stand-ins included")


if __name__ == "__main__":
    Main(*map(int, sys.argv[1:]))
