"""Nodes with fake mirrors whose volume groups a stand-in of LVM's programs shows: disks have a size, and can break."""

from __future__ import annotations

import fcntl
import os
import pickle
import sys

from support.mirrored import GROUP, MirrorCluster, MirrorNode
from support.standinlvm import Pv
from support.virtualnode import TOP

PVS = ("/dev/sda1", "/dev/sdb1")

# The stand-in of the simulated machines as a program of a real one; it keeps its physical volumes in a file.
_PROGRAM = """#!{python}
import fcntl, os, pickle, sys, types
sys.path[:0] = [{top!r}, {test!r}]
from support.standinlvm import StandInLvm
alone = open({state!r} + ".lock", "w")
fcntl.flock(alone, fcntl.LOCK_EX)
lvm = StandInLvm(types.SimpleNamespace(programs={{}}))
with open({state!r}, "rb") as stream:
    lvm.pvs = pickle.load(stream)
code = lvm._Run(types.SimpleNamespace(
    argv=[os.path.basename(sys.argv[0]), *sys.argv[1:]], Print=sys.stdout.write, Complain=sys.stderr.write))
with open({state!r} + ".new", "wb") as stream:
    pickle.dump(lvm.pvs, stream)
os.rename({state!r} + ".new", {state!r})
sys.exit(code)
"""


class LvmNode(MirrorNode):
    """A node with a volume group of two physical volumes, of ``disk`` MiB each."""

    disk = 1024

    def StartNoded(self) -> None:
        self.WritePvs({name: Pv(name, GROUP, self.disk, self.disk) for name in PVS})
        text = _PROGRAM.format(
            python=sys.executable, top=TOP, test=os.path.join(TOP, "test"), state=self.Path("/var/lib/ganeti/pvs")
        )
        for name in ("pvs", "vgs", "lvs", "pvchange", "vgreduce"):
            self.Write(f"/programs/{name}", text, 0o755)
        path = f"{self.Path('/programs')}:{os.environ['PATH']}"
        self.Start("ganeti-noded", "-b", self.address, "--no-mlock", PATH=path)

    def WritePvs(self, pvs: dict[str, Pv]) -> None:
        path = self.Path("/var/lib/ganeti/pvs")
        with open(f"{path}.lock", "w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            with open(f"{path}.new", "wb") as stream:
                pickle.dump(pvs, stream)
            os.rename(f"{path}.new", path)

    def Pvs(self) -> dict[str, Pv]:
        with open(self.Path("/var/lib/ganeti/pvs"), "rb") as stream:
            found: dict[str, Pv] = pickle.load(stream)
        return found


class LvmCluster(MirrorCluster):
    """Nodes beyond the third have no disks yet."""

    node_class = LvmNode

    def _Configure(self) -> None:
        super()._Configure()
        for node in self.nodes[3:]:
            os.makedirs(node.Path("/var/lib/ganeti/ext/fake-storage"), exist_ok=True)
