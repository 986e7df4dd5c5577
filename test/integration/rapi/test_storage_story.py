"""A broken disk, seen and repaired over REST: real daemons, with LVM's programs and the drivers of disks stood in for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.mirrored import GROUP
from support.mirroredlvm import PVS, LvmCluster, LvmNode
from support.rapihttp import Rapi

WEB = "inst0.example.com"
PRIMARY, SECONDARY, SPARE = "node2.example.com", "node3.example.com", "node4.example.com"


@pytest.fixture
def cluster() -> Iterator[LvmCluster]:
    with LvmCluster(1, nodes=4) as made:
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
