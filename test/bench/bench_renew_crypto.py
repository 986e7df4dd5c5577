"""``gnt-cluster renew-crypto`` of everything.  By hand: ``python test/bench/bench_renew_crypto.py [nodes]``, from the top.

Real daemons on addresses of 127.0.0.0/8, ganeti-confd on each node, the real ssh with an SSH daemon in this process for each
node.  Meanwhile a client asks the master daemon for the nodes every 50 ms.  Target (2 cores): 20 nodes within 60 s; the longest
answer says how well the cluster serves.
"""

from __future__ import annotations

import os
import sys
import threading
import time

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.managed import Managed  # noqa: E402

_SHARED = (
    "--new-cluster-certificate", "--new-node-certificates", "--new-confd-hmac-key", "--new-rapi-certificate",
    "--new-spice-certificate", "--new-cluster-domain-secret",
)  # fmt: skip
_SSH = ("--new-ssh-keys",)


def Renew(managed: Managed, *options: str) -> tuple[float, float]:
    """Return the seconds that the command takes, and those of the slowest answer meanwhile."""
    slowest, ended = 0.0, threading.Event()

    def ask() -> None:
        nonlocal slowest
        with managed.master.Client() as client:
            while not ended.wait(0.05):
                began = time.perf_counter()
                assert client.Query("node", ["name", "role"], None)["data"]
                slowest = max(slowest, time.perf_counter() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    began = time.perf_counter()
    done = managed.Command("gnt-cluster", "renew-crypto", "--force", *options)
    seconds = time.perf_counter() - began
    ended.set()
    asking.join()
    assert done.returncode == 0, done.stdout + done.stderr
    return seconds, slowest


def Run(nodes: int = 20) -> None:
    managed = Managed(nodes, candidates=min(nodes, 10))
    try:
        for node in managed.cluster.nodes:
            node.StartConfd()
        for words, options in (("certificates", _SHARED), ("SSH keys", _SSH), ("everything", (*_SHARED, *_SSH))):
            print(f"{words}: {{:.1f}} s, slowest answer {{:.2f}} s".format(*Renew(managed, *options)), flush=True)
    finally:
        managed.Close()


if __name__ == "__main__":
    Run(*map(int, sys.argv[1:]))
