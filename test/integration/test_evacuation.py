"""Moving instances off a node, and creating several at once, by the command line of a real cluster with hail."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from support.commandline import CommandLine
from support.realcluster import RealCluster

OS = "noop"


class Scene:
    """Three nodes with a shared directory for disks, and the command line of the master."""

    def __init__(self, cluster: RealCluster):
        self.cluster = cluster
        self.line = CommandLine(cluster[0])
        cluster.MakeOs(OS)
        shared = os.path.join(cluster.files, "shared")
        os.makedirs(shared, exist_ok=True)
        self.Must(
            "gnt-cluster", "modify", "--enabled-disk-templates=diskless,sharedfile", f"--shared-file-storage-dir={shared}",
            "--ipolicy-disk-templates=diskless,sharedfile", "--default-iallocator=hail",
        )  # fmt: skip

    def Must(self, *argv: str) -> str:
        done = self.line.Run(*argv)
        assert done.code == 0, done.out + done.err
        return done.out

    def Primaries(self) -> dict[str, str]:
        """The primary node of each instance that runs."""
        out = self.Must("gnt-instance", "list", "--no-headers", "--separator= ", "-o", "name,pnode,oper_state")
        rows = [line.split() for line in out.splitlines()]
        return {name: node for name, node, running in rows if running == "Y"}


@pytest.fixture
def scene() -> Iterator[Scene]:
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        made = Scene(cluster)
        yield made
        made.line.Close()


@pytest.mark.req("IAL-08")
def test_many_are_created_and_a_node_is_emptied(scene: Scene) -> None:
    names = [f"many{number}.example.com" for number in range(4)]
    path = os.path.join(scene.cluster.files, "batch.json")
    one = {
        "disk_template": "sharedfile",
        "disks": [{"size": "1g"}],
        "os_type": f"{OS}+default",
        "ignore_ipolicy": True,
    }
    with open(path, "w") as file:
        json.dump(
            [
                {
                    **one,
                    "instance_name": name,
                    "beparams": {"memory": 128},
                    "nics": [{"mode": "routed", "link": "main", "ip": f"192.0.2.{70 + number}"}],
                }
                for number, name in enumerate(names)
            ],
            file,
        )
    out = scene.Must("gnt-instance", "batch-create", "--dry-run", path)
    assert out.endswith("4 of 4 instances would be created.\n")
    assert scene.Primaries() == {}
    out = scene.Must("gnt-instance", "batch-create", "-I", "hail", path)
    assert out.endswith("All instances created successfully.\n")
    before = scene.Primaries()
    assert sorted(before) == names
    node = before[names[0]]
    out = scene.Must("gnt-node", "evacuate", "-f", node)
    assert out.endswith("All instances evacuated successfully.\n")
    after = scene.Primaries()
    assert sorted(after) == names and node not in after.values()
    assert all(after[name] == before[name] for name in names if before[name] != node)
    done = scene.line.Run("gnt-node", "evacuate", "-f", "-p", node)
    assert (done.code, done.err) == (0, f"No instances to evacuate on node(s) {node}, exiting.\n")


def test_a_reservation_leaves_the_node_and_becomes_an_instance(scene: Scene) -> None:
    name = "later.example.com"
    scene.Must(
        "gnt-instance", "add", "--forthcoming", "-I", "hail", "-t", "sharedfile", "-s", "1g", "-o", f"{OS}+default",
        "-B", "memory=128", "--net", "0:mode=routed,link=main,ip=192.0.2.80", name,
    )  # fmt: skip
    fields = ("gnt-instance", "list", "--no-headers", "--separator= ", "-o", "pnode,forthcoming,nic.macs", name)
    node, forthcoming, mac = scene.Must(*fields).split()
    assert forthcoming == "Y" and scene.Primaries() == {}
    done = scene.line.Run("gnt-instance", "startup", name)
    assert done.code == 1 and "only a reservation" in done.err
    out = scene.Must("gnt-node", "evacuate", "-f", node)
    assert out.endswith("All instances evacuated successfully.\n")
    new, _, _ = scene.Must(*fields).split()
    assert new != node
    done = scene.line.Run("gnt-instance", "add", "--commit", "-n", node, name)
    assert done.code == 1 and f"has reserved primary node {new}" in done.err
    scene.Must("gnt-instance", "add", "--commit", name)
    assert scene.Must(*fields).split() == [new, "N", mac]
    assert scene.Primaries() == {name: new}
