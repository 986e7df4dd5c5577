"""A broken disk, seen and repaired over REST: real daemons, with LVM's programs and the drivers of disks stood in for."""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.mirrored import GROUP, MirrorCluster, MirrorNode
from support.rapihttp import Rapi
from support.standinlvm import Pv
from support.virtualnode import TOP

WEB = "inst0.example.com"
PRIMARY, SECONDARY, SPARE = "node2.example.com", "node3.example.com", "node4.example.com"
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
    """A node with a volume group of two physical volumes."""

    def StartNoded(self) -> None:
        self.WritePvs({name: Pv(name, GROUP, 1024, 1024) for name in PVS})
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
    node_class = LvmNode


@pytest.fixture
def cluster() -> Iterator[LvmCluster]:
    with LvmCluster(1, nodes=4) as made:
        os.makedirs(made[3].Path("/var/lib/ganeti/ext/fake-storage"), exist_ok=True)
        made[0].StartRapi()
        yield made


def _Units(rapi: Rapi, node: str, kind: str, *fields: str) -> list[list[Any]]:
    """Rows of a node's storage units, as the job returns them."""
    job = rapi.Do("GET", f"/2/nodes/{node}/storage?storage_type={kind}&output_fields={','.join(fields)}")
    rows: list[list[Any]] = job["opresult"][0]
    return rows


@pytest.mark.limit(180)
def test_a_node_loses_a_disk_and_is_repaired(cluster: LvmCluster) -> None:
    node = cluster[2]
    assert isinstance(node, LvmNode)
    with Rapi(cluster[0]) as rapi:
        # The administrator distrusts a disk: no new volume goes there.
        unit = f"/2/nodes/{SECONDARY}/storage/modify?storage_type=lvm-pv&name=/dev/sdb1"
        rapi.Do("PUT", f"{unit}&allocatable=0")
        expected = [[PVS[0], True], [PVS[1], False]]
        assert sorted(_Units(rapi, SECONDARY, "lvm-pv", "name", "allocatable")) == expected
        assert _Units(rapi, PRIMARY, "lvm-pv", "allocatable") == [[True], [True]], "those of other nodes stay"
        rapi.Do("PUT", f"{unit}&allocatable=1")
        assert _Units(rapi, SECONDARY, "lvm-pv", "allocatable") == [[True], [True]]

        # Then the disk dies.  The instance gets its mirror on another node, after which nothing of the group is needed.
        pvs = node.Pvs()
        pvs[PVS[1]].missing = True
        node.WritePvs(pvs)
        repair = f"/2/nodes/{SECONDARY}/storage/repair?storage_type=lvm-vg&name={GROUP}"
        body = {"mode": "replace_new_secondary", "remote_node": SPARE}
        rapi.Do("POST", f"/2/instances/{WEB}/replace-disks", body)
        shown = rapi.Get(f"/2/instances/{WEB}")
        assert (shown["pnode"], shown["snodes"]) == (PRIMARY, [SPARE])
        rapi.Do("PUT", repair)
        assert list(node.Pvs()) == [PVS[0]]
        assert _Units(rapi, SECONDARY, "lvm-vg", "name", "size") == [[GROUP, 1024.0]]
