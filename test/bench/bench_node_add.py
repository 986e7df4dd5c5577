"""``gnt-node add`` over SSH.  By hand: ``python test/bench/bench_node_add.py [times]``, from the top of the tree.

Real daemons on addresses of 127.0.0.0/8, the real ssh with an SSH daemon in this process for each machine.  Two nodes exist; a
machine is added and removed again.  Target: 10 s of our own time.  The processor time is that of the command, of ssh and of the
programs on the machine, the generation of its key among them, without the daemons; ssh alone is a session that runs ``true``,
of which the command needs five.
"""

from __future__ import annotations

import os
import resource
import sys
import time

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from bench_cluster import Cpu  # noqa: E402
from support.managed import Managed  # noqa: E402
from support.sshserver import PORT  # noqa: E402

from ganeti import ssh  # noqa: E402


def _Children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def Run(times: int = 3) -> None:
    managed = Managed(2)
    try:
        for number in range(times):
            machine, server = managed.Machine(f"node{3 + number}.example.com")
            master = managed.master.Pid("ganeti-masterd")
            before, of_master, began = _Children(), Cpu(master), time.perf_counter()
            done = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
            seconds, used = time.perf_counter() - began, _Children() - before
            assert done.returncode == 0, done.stdout + done.stderr
            began = time.perf_counter()
            argv = ssh.BuildCommand(machine.name, "true", "cluster.example.com", PORT)
            managed.master.Run(argv, PATH=managed.path)
            session = time.perf_counter() - began
            print(
                f"gnt-node add: {seconds:.1f} s; {used:.1f} s of CPU, master daemon {Cpu(master) - of_master:.2f} s;"
                f" {len(server.commands)} commands over SSH, a session that does nothing {session:.2f} s",
                flush=True,
            )
            gone = managed.Command("gnt-node", "remove", machine.name)
            assert gone.returncode == 0, gone.stderr
    finally:
        managed.Close()


if __name__ == "__main__":
    Run(*map(int, sys.argv[1:]))
