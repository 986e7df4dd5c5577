"""Clusters as allocators see them, and requests about them, drawn at random; no master and no node behind them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from ganeti import constants, objects
from ganeti.cmdlib.allocation import requests
from ganeti.cmdlib.allocation.clusterdata import ClusterData, Numbers
from support import configs

_GROUPS = (configs.Uuid(901), configs.Uuid(902))
_TEMPLATES = ("drbd", "drbd", "drbd", "plain", "ext", "diskless", "mixed")
_CLUSTER_TAGS = ("htools:iextags:service", "htools:nlocation:power", "htools:migration:os", "other")
_INSTANCE_TAGS = ("service:web", "service:db", "blue")
_NODE_TAGS = ("power:a", "power:b", "os:x", "rack1")


def Some(chance: random.Random, words: Iterable[str]) -> list[str]:
    return [word for word in words if chance.random() < 0.3]


class Drawn:
    """One cluster: ``data`` as Gather would return it."""

    def __init__(self, chance: random.Random, nodes: int | None = None, instances: int | None = None):
        self._chance = chance
        self._roomy = chance.random() < 0.5
        root = configs.Example()
        self._node, self._instance = root.nodes[configs.NODE1], root.instances[configs.WEB]
        self._disk = root.disks[configs.WEB_DISK]
        first = root.nodegroups[configs.GROUP]
        policies: Any = chance.choice([constants.VALID_ALLOC_POLICIES, [constants.ALLOC_POLICY_PREFERRED]])
        groups = [
            first.Replace(uuid=uuid, name=name, alloc_policy=chance.choice(policies), tags=Some(chance, _NODE_TAGS))
            for uuid, name in zip(_GROUPS, ("one", "two"), strict=True)
        ]
        hosts = [self._Node(number) for number in range(1, (nodes or chance.randint(1, 7)) + 1)]
        guests = [
            self._Instance(number, hosts)
            for number in range(chance.randint(0, 3 if self._roomy else 12) if instances is None else instances)
        ]
        self.snapshot = root.Replace(
            cluster=root.cluster.Replace(tags=Some(chance, _CLUSTER_TAGS), master_node=hosts[0].uuid),
            nodegroups={group.uuid: group for group in groups},
            nodes={node.uuid: node for node in hosts},
            instances={inst.uuid: inst for inst, _ in guests},
            disks={disk.uuid: disk for _, disks in guests for disk in disks},
        )
        silent = {node.uuid: "asleep" for node in hosts if chance.random() < 0.1}
        numbers = {
            node.uuid: self._Numbers(node)
            for node in hosts
            if not node.offline and node.vm_capable and node.uuid not in silent
        }
        self.data = ClusterData(self.snapshot, numbers, silent)

    def Widen(self, chance: random.Random) -> None:
        """Use what few clusters have: a memory ratio, exclusive storage, recorded values."""
        snapshot = self.snapshot
        for holder in (snapshot.cluster, *snapshot.nodegroups.values()):
            if chance.random() < 0.2:
                changed = holder.Replace(ipolicy={**holder.ipolicy, "memory-ratio": chance.choice([1.0, 2.5])})
                snapshot = snapshot.WithObject(changed)
        for group in snapshot.nodegroups.values():
            if chance.random() < 0.3:
                snapshot = snapshot.WithObject(group.Replace(ndparams={"exclusive_storage": True}))
        for node in snapshot.nodes.values():
            if chance.random() < 0.3:
                node = node.Replace(ndparams={"spindle_count": 3})
            if chance.random() < 0.3:
                node = node.Replace(
                    hv_state_static={constants.HT_KVM: {"mem_node": 700}, constants.HT_FAKE: {"mem_hv": 9}}
                )
            if chance.random() < 0.3:
                volumes = {"xenvg": {"disk_reserved": 99}, "other": {"disk_reserved": 7}}
                node = node.Replace(disk_state_static={"plain": volumes})
            snapshot = snapshot.WithObject(node)
        self.snapshot = snapshot
        self.data = ClusterData(snapshot, self.data.numbers, self.data.silent)

    def _Node(self, number: int) -> objects.Node:
        chance = self._chance
        flags = chance.choice([{}] * 6 + [{"offline": True}, {"drained": True}, {"vm_capable": False}])
        ips = {"primary_ip": f"10.0.0.{number}", "secondary_ip": f"10.1.0.{number}"}
        return self._node.Replace(
            **{"master_candidate": False, **flags},
            name=f"node{number}.example.org",
            uuid=configs.Uuid(number),
            group=chance.choice(_GROUPS) if chance.random() < 0.3 else _GROUPS[0],
            tags=Some(chance, _NODE_TAGS),
            **ips,
        )

    def _Instance(self, number: int, hosts: list[objects.Node]) -> tuple[objects.Instance, list[objects.Disk]]:
        chance = self._chance
        template = chance.choice(_TEMPLATES)
        places = [node.uuid for node in chance.sample(hosts, min(2, len(hosts)))]
        if template == "drbd" and len(places) == 1:
            template = "plain"
        kinds = ["plain", "ext"] if template == "mixed" else [template] * chance.randint(1, 2)
        disks = [] if template == "diskless" else [self._Disk(number, i, kind, places) for i, kind in enumerate(kinds)]
        inst = self._instance.Replace(
            uuid=configs.Uuid(1000 + number),
            name=f"inst{number}.example.org",
            primary_node=places[0],
            disks=[disk.uuid for disk in disks],
            admin_state=chance.choice(constants.ADMINST_ALL),
            beparams={"maxmem": chance.choice([128, 512, 2048]), "minmem": 128, "vcpus": chance.randint(1, 4)},
            tags=Some(chance, _INSTANCE_TAGS),
            forthcoming=True if chance.random() < 0.1 else None,
        )
        return inst, disks

    def _Disk(self, number: int, index: int, kind: str, places: list[str]) -> objects.Disk:
        nodes = {"drbd": places, "plain": places[:1]}.get(kind, [])
        return self._disk.Replace(
            uuid=configs.Uuid(10000 + 10 * number + index),
            dev_type=kind,
            nodes=nodes,
            size=self._chance.choice([512, 1024, 1024, 2048]),
            spindles=self._chance.choice([None, 1, 2]),
            children=[],
        )

    def _Numbers(self, node: objects.Node) -> Numbers:
        chance = self._chance
        memory, disk = chance.choice([4096, 16384, 65536]), chance.choice([20480, 102400, 1024000])
        free = (
            (memory - 512, disk - 4096) if self._roomy else (chance.randint(0, memory - 512), chance.randint(0, disk))
        )
        return Numbers(
            total_memory=memory,
            reserved_memory=512,
            free_memory=free[0],
            total_disk=disk,
            free_disk=free[1],
            total_spindles=chance.choice([0, 4]),
            free_spindles=0,
            total_cpus=chance.choice([4, 16]),
            reserved_cpus=1,
            i_pri_memory=0,
            i_pri_up_memory=0,
        )

    # --- requests -----------------------------------------------------------------------------------------------------

    def Request(self) -> requests.Request:
        chance = self._chance
        names = [inst.name for inst in self.snapshot.instances.values()]
        kind = chance.choice(
            ["allocate", "allocate", "multi", "relocate", "secondary", "evacuate", "change", "balance", "capacity"]
        )
        if not names and kind in ("relocate", "secondary", "evacuate", "change"):
            kind = "allocate"
        match kind:
            case "allocate":
                return self.New()
            case "multi":
                return requests.MultiAllocate(tuple(self.New(number) for number in range(chance.randint(1, 3))))
            case "balance":
                return requests.Balance(chance.randint(0, 4))
            case "capacity":
                return requests.Capacity(self.New(), chance.randint(0, 4))
            case "relocate":
                name = chance.choice(names)
                return requests.Relocate(name, (self._Leaves(name),))
            case "secondary":
                alone = [name for name in names if self._Template(name) == "plain"]
                return requests.AllocateSecondary(chance.choice(alone or names))
            case "evacuate":
                mode = chance.choice(["primary-only", "secondary-only", "all"])
                some = tuple(chance.sample(names, chance.randint(1, min(3, len(names)))))
                return requests.NodeEvacuate(some, mode, ignore_soft_errors=chance.random() < 0.3)
        return requests.ChangeGroup((chance.choice(names),), tuple(Some(chance, _GROUPS)))

    def _Template(self, name: str) -> str:
        inst = self.snapshot.InstanceByName(name)
        assert inst is not None
        return self.snapshot.DiskTemplate(inst)

    def _Leaves(self, name: str) -> str:
        inst = self.snapshot.InstanceByName(name)
        assert inst is not None
        internal = self._Template(name) == "drbd"
        return self.snapshot.NodeName(self.snapshot.AllNodes(inst)[1 if internal else 0])

    def New(self, number: int = 0) -> requests.Allocate:
        chance = self._chance
        whitelist = tuple(Some(chance, [node.name for node in self.snapshot.nodes.values()]))
        sizes = [1024, 2048] if self._roomy else [1024, 2048, 51200]
        return requests.Allocate(
            name=f"new{number}.example.org",
            disk_template=chance.choice(["drbd", "plain", "ext"]),
            tags=tuple(Some(chance, _INSTANCE_TAGS)),
            os="noop",
            vcpus=chance.choice([1, 2, 2, 64]),
            memory=chance.choice([128, 1024, 8192]),
            disks=tuple({"size": size, "mode": "rw"} for size in chance.sample(sizes, 2)),
            nics=({"mac": "aa:00:00:00:00:01", "ip": None, "mode": "bridged", "link": "br0"},),
            hypervisor=constants.HT_FAKE,
            group_uuid=chance.choice([None, None, *_GROUPS]),
            whitelist=whitelist if chance.random() < 0.3 else None,
        )
