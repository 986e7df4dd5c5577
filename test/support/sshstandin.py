"""A master node whose ssh and scp are stand-ins, for commands that reach the nodes over SSH."""

import os
import subprocess
import sys
import time

from support.fakemaster import FakeMaster
from support.stories import STARTER
from support.virtualnode import VirtualNode

MASTER = "node1.example.org"

# A stand-in for ssh and scp: keeps its arguments, fails for the reason in REASON if there is one.
PROGRAM = """#!/bin/sh
echo "${0##*/} $*" >> "$KEPT"
[ -z "$REASON" ] || { echo "$REASON" >&2; exit 255; }
for word; do case "$word" in
  *@node13.*) echo pid $$ >> "$KEPT"; [ -z "$HANGS" ] || { sleep 3000 & echo pid $! >> "$KEPT"; wait; } ;;
  *@node14.*) [ -z "$HANGS" ] || exit 3 ;;
esac; done
[ -z "$SECONDS_EACH" ] || sleep "$SECONDS_EACH"
[ -z "$GATE" ] || : < "$GATE"
echo done
"""


class Stage:
    """One master daemon that answers, and commands that run beside it."""

    def __init__(self, directory):
        self.node = VirtualNode(directory, MASTER)
        self.node.Write("/var/lib/ganeti/ssconf_cluster_name", "cluster.example.org\n")
        self.node.Write("/var/lib/ganeti/ssconf_master_node", MASTER + "\n")
        self.kept = os.path.join(directory, "kept")
        self.programs = os.path.join(directory, "bin")
        os.mkdir(self.programs)
        for name in ("ssh", "scp"):
            path = os.path.join(self.programs, name)
            with open(path, "w") as stream:
                stream.write(PROGRAM)
            os.chmod(path, 0o755)
        self.master = FakeMaster(self.node.Path("/var/run/ganeti/socket/ganeti-query"))

    def _Start(self, words, **more):
        environment = self.node.Environment(PATH=f"{self.programs}:{os.environ['PATH']}", KEPT=self.kept, **more)
        return {
            "args": [sys.executable, "-c", STARTER, "gnt-cluster", *words], "env": environment, "cwd": self.node.root,
            "stdin": subprocess.DEVNULL, "text": True, "start_new_session": True,
        }  # fmt: skip

    def Run(self, *words, reason="", **more):
        return subprocess.run(
            **self._Start(words, REASON=reason, **more), capture_output=True, timeout=100, check=False
        )

    def Begin(self, *words, **more):
        """The same, running."""
        return subprocess.Popen(**self._Start(words, REASON="", **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def AddNodes(self, count):
        """So that there are this many besides the master: node2 to node N."""
        snapshot = self.master.snapshot
        template = next(node for node in snapshot.nodes.values() if node.name != MASTER)
        for number in range(3, count + 2):
            node = template.Replace(
                uuid=f"{number:08}-aaaa-4bbb-8ccc-000000000099", name=f"node{number}.example.org",
                primary_ip=f"192.0.2.{100 + number}", secondary_ip=f"198.51.100.{100 + number}",
            )  # fmt: skip
            snapshot = snapshot.WithObject(node)
        self.master.snapshot = snapshot

    def Pids(self):
        return [int(line.split()[1]) for line in self.Kept() if line.startswith("pid ")]

    def WaitCalls(self, number, pids=0):
        """Until so many programs have been started, and those of node13 have told their numbers."""
        deadline = time.monotonic() + 60
        while not os.path.exists(self.kept) or len(self.Kept()) - len(self.Pids()) < number or len(self.Pids()) < pids:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def Kept(self):
        with open(self.kept, encoding="utf-8") as stream:
            return stream.read().splitlines()
