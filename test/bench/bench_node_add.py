"""``gnt-node add`` over SSH.  By hand, as root: ``python test/bench/bench_node_add.py [times]``, from the top of the tree.

Three light machines of the laboratory: real daemons, ssh and SSH daemons in namespaces.  Two are a cluster; the third is added,
removed, and replaced by a new one.  Target: 10 s of our own time.  The processor time is that of all programs on all machines,
ssh and the generation of the new node's key among them; ssh alone is a session that runs ``true``, of which the command needs
five.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

_TEST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(_TEST), _TEST]

from lab.cluster import NAME  # noqa: E402
from lab.site import LightSite  # noqa: E402

_TICKS = os.sysconf("SC_CLK_TCK")
# In /proc/PID/stat after the name: of the process in user and kernel mode, then of its children that have ended.
_USED = slice(11, 15)


def _Used(site: LightSite) -> float:
    """Return the processor seconds of everything on the machines until now; those of commands are this process' children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = 0
    for node in site.nodes:
        lines = node.Shell("cat /proc/[0-9]*/stat", check=False).splitlines()
        ticks += sum(int(word) for line in lines for word in line.rpartition(")")[2].split()[_USED])
    return children.ru_utime + children.ru_stime + ticks / _TICKS


def Run(times: int = 3) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="lab-", dir="/var/tmp") as folder,
        LightSite(Path(folder), 3, print) as site,
    ):
        # "gnt-node remove" would forget the machine's name.
        options = ["--master-netdev", "eth0", "--enabled-hypervisors", "fake", "--no-etc-hosts", *site.init]
        site.Gnt("cluster", "init", *options, NAME)
        second, third = site.nodes[1:]
        site.Gnt("node", "add", "--no-ssh-key-check", second.name)
        for _ in range(times):
            before, began = _Used(site), time.perf_counter()
            site.Gnt("node", "add", "--no-ssh-key-check", third.name)
            seconds, used = time.perf_counter() - began, _Used(site) - before
            began = time.perf_counter()
            site.Gnt("cluster", "command", "-n", third.name, "true")
            command = time.perf_counter() - began
            began = time.perf_counter()
            options = ["-o", "UserKnownHostsFile=/var/lib/ganeti/known_hosts", "-o", f"HostKeyAlias={NAME}"]
            site.master.Run("ssh", "-o", "BatchMode=yes", *options, third.name, "true")
            session = time.perf_counter() - began
            print(
                f"gnt-node add: {seconds:.1f} s, {used:.1f} s of CPU; 'gnt-cluster command' on it {command:.1f} s;"
                f" a session over SSH that does nothing {session:.2f} s; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            site.Gnt("node", "remove", third.name)
            site.Replace(third)


if __name__ == "__main__":
    Run(*map(int, sys.argv[1:]))
