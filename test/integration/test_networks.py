"""Networks by the command line of a real cluster: made, connected, used by instances, emptied, removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.commandline import CommandLine
from support.realcluster import FollowJob, RealCluster

OS = "noop"
NIC = ("nic.ips", "nic.networks.names", "nic.modes", "nic.links", "nic.vlans")


class Scene:
    """Two nodes; scripts of the operating system and hooks write down what they were told."""

    def __init__(self, cluster: RealCluster):
        self.cluster = cluster
        self.line = CommandLine(cluster[0])
        self.Run, self.Must = self.line.Quietly, self.line.Must
        self._os_told = os.path.join(cluster.files, "os-told")
        self._Script(os.path.join(cluster.MakeOs(OS), "create"), self._os_told)

    def _Script(self, path: str, told: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(f"#!/bin/sh\nenv >{told}\n")
        os.chmod(path, 0o755)

    def Listen(self, hook: str) -> str:
        """Write down what a hook is told on the master; return the file."""
        told = os.path.join(self.cluster.files, f"told-{hook}")
        self._Script(self.cluster[0].Path(f"/etc/ganeti/hooks/{hook}-post.d/tell"), told)
        return told

    def OsTold(self) -> dict[str, str]:
        return Told(self._os_told)

    def Fails(self, words: str, *argv: str) -> None:
        """A command fails with these words, in the error or in the hint of the job's log."""
        done = self.Run(*argv)
        assert done.code == 1, done
        assert words in done.err + done.out, done

    def Add(self, name: str, *nets: str) -> str:
        nics = [word for number, net in enumerate(nets) for word in ("--net", f"{number}:{net}")]
        return self.Must(
            "gnt-instance", "add", "-t", "diskless", "--ignore-ipolicy", "--no-start", "-o", f"{OS}+default", "-n", "node2.example.com",
            *nics, name,
        )  # fmt: skip

    def Row(self, program: str, name: str, *fields: str) -> Any:
        """The values of some fields of one object."""
        [row] = json.loads(self.Must(program, "list", "-o", f"json:{','.join(fields)}", name))
        return [row[field] for field in fields] if len(fields) > 1 else row[fields[0]]


def Told(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as stream:
        return dict(line.split("=", 1) for line in stream.read().splitlines() if "=" in line)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with RealCluster(2) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        made = Scene(cluster)
        yield made
        made.line.Close()


def test_the_life_of_a_network(scene: Scene) -> None:
    told = scene.Listen("network-add")
    scene.Must(
        "gnt-network", "add", "--network=192.0.2.0/28", "--gateway=192.0.2.1", "--network6=2001:db8::/64",
        "--gateway6=2001:db8::1", "--mac-prefix=AA:00:77", "--add-reserved-ips=192.0.2.3", "--tags=b,a", "lan",
    )  # fmt: skip
    env = Told(told)
    assert env["GANETI_NETWORK_NAME"] == "lan" and env["GANETI_NETWORK_GATEWAY6"] == "2001:db8::1"
    assert env["GANETI_NETWORK_TAGS"] == "a b" and env["GANETI_NETWORK_MAC_PREFIX"] == "aa:00:77"
    assert scene.Row("gnt-network", "lan", "map", "free_count", "tags") == ["XX.X...........X", 12, ["a", "b"]]

    scene.Must("gnt-network", "modify", "--gateway=192.0.2.14", "lan")
    assert scene.Row("gnt-network", "lan", "map") == "X..X..........XX"
    scene.Must("gnt-network", "modify", "--add-reserved-ips=192.0.2.2", "--remove-reserved-ips=192.0.2.3", "lan")
    assert scene.Row("gnt-network", "lan", "external_reservations") == "192.0.2.0, 192.0.2.2, 192.0.2.14, 192.0.2.15"
    scene.Fails("192.0.2.2 is already reserved", "gnt-network", "modify", "--gateway=192.0.2.2", "lan")
    scene.Must("gnt-network", "modify", "--gateway=none", "--gateway6=none", "--mac-prefix=none", "lan")
    fields = ("gateway", "gateway6", "mac_prefix", "network6")
    assert scene.Row("gnt-network", "lan", *fields) == [None, None, None, "2001:db8::/64"]

    scene.Must("gnt-network", "add-tags", "lan", "c")
    scene.Must("gnt-network", "remove-tags", "lan", "a")
    assert scene.Must("gnt-network", "list-tags", "lan") == "b\nc\n"
    assert scene.Must("gnt-cluster", "search-tags", "^c$") == "/network/lan c\n"
    told = scene.Listen("network-rename")
    scene.Must("gnt-network", "rename", "lan", "office")
    assert (Told(told)["GANETI_OLD_NAME"], Told(told)["GANETI_NEW_NAME"]) == ("lan", "office")
    scene.Fails("'lan' not known", "gnt-network", "remove", "lan")
    scene.Must("gnt-network", "remove", "--dry-run", "office")
    scene.Must("gnt-network", "remove", "office")
    assert scene.Must("gnt-network", "list", "--no-headers") == ""


def test_addresses_of_nodes_and_cluster_are_kept(scene: Scene) -> None:
    own = scene.cluster[0].address
    around = ".".join([*own.split(".")[:3], "0"]) + "/24"
    out = scene.Must("gnt-network", "add", f"--network={around}", "hosts")
    assert f"Reserved IP address {own} of node node1.example.com" in out
    assert scene.Row("gnt-network", "hosts", "map")[int(own.rpartition(".")[2])] == "X"
    scene.Must("gnt-network", "remove", "hosts")
    scene.Must("gnt-network", "add", f"--network={around}", "--no-conflicts-check", "hosts")
    assert scene.Row("gnt-network", "hosts", "reserved_count") == 2
    scene.Must("gnt-network", "remove", "hosts")


def test_instances_in_a_network(scene: Scene) -> None:
    scene.Must(
        "gnt-network", "add", "--network=198.51.100.0/29", "--gateway=198.51.100.1", "--mac-prefix=aa:00:78", "net"
    )
    scene.Fails(
        "'gnt-network connect -N mode=MODE,link=LINK net default' connects it",
        *_AddLine("early", "network=net,ip=pool"),
    )
    told = scene.Listen("network-connect")
    scene.Must("gnt-network", "connect", "-N", "mode=openvswitch,link=switch1,vlan=100", "net")
    assert Told(told)["GANETI_GROUP_NETWORK_VLAN"] == ".100"
    assert "already mapped" in scene.Must("gnt-network", "connect", "net", "default")
    assert "default (openvswitch, switch1, .100)" in scene.Must("gnt-network", "list")

    assert "Chose IP 198.51.100.2 from network net" in scene.Add("i1.example.com", "network=net,ip=pool")
    scene.Add("i2.example.com", "network=net,ip=198.51.100.4", "network=net")
    wanted = [["198.51.100.2"], ["net"], ["openvswitch"], ["switch1"], [".100"]]
    assert scene.Row("gnt-instance", "i1.example.com", *NIC) == wanted
    assert scene.Row("gnt-instance", "i1.example.com", "nic.macs")[0].startswith("aa:00:78:")
    assert scene.Row("gnt-network", "net", "map", "inst_list") == ["XXX.X..X", ["i1.example.com", "i2.example.com"]]
    assert "  used by 2 instances:\n    i1.example.com: 0:198.51.100.2\n" in scene.Must("gnt-network", "info", "net")
    scene.Fails("198.51.100.2 is in use already", *_AddLine("i3.example.com", "network=net,ip=198.51.100.2"))
    scene.Fails("198.51.100.1 is reserved externally", *_AddLine("i3.example.com", "network=net,ip=198.51.100.1"))
    scene.Fails("is not in network net", *_AddLine("i3.example.com", "network=net,ip=192.0.2.9"))
    scene.Fails("come from the network", *_AddLine("i3.example.com", "network=net,ip=pool,link=br1"))
    scene.Fails("lies in network 'net'", *_AddLine("i3.example.com", "mode=routed,link=x,ip=198.51.100.5"))
    assert scene.Row("gnt-network", "net", "map") == "XXX.X..X"

    scene.Must("gnt-instance", "modify", "-f", "--net", "0:ip=198.51.100.6", "i1.example.com")
    assert scene.Row("gnt-network", "net", "map") == "XX..X.XX"
    scene.Must("gnt-instance", "modify", "-f", "--net", "add:network=net,ip=pool", "i1.example.com")
    assert scene.Row("gnt-instance", "i1.example.com", "nic.ips") == ["198.51.100.6", "198.51.100.2"]
    scene.Must("gnt-instance", "modify", "-f", "--net", "0:remove", "i1.example.com")
    scene.Must(
        "gnt-instance", "modify", "-f", "--net", "0:network=none,mode=routed,link=x,ip=203.0.113.9", "i2.example.com"
    )
    assert scene.Row("gnt-network", "net", "map") == "XXX....X"

    scene.Fails("following node groups: default", "gnt-network", "remove", "net")
    scene.Fails("is used by instances of group 'default': i1.example.com", "gnt-network", "disconnect", "net")
    scene.Must("gnt-instance", "remove", "-f", "i1.example.com")
    scene.Must("gnt-instance", "remove", "-f", "i2.example.com")
    assert scene.Row("gnt-network", "net", "map") == "XX.....X"
    scene.Must("gnt-network", "disconnect", "net", "default")
    assert "is not mapped" in scene.Must("gnt-network", "disconnect", "net")
    scene.Must("gnt-network", "remove", "net")


def _AddLine(name: str, net: str) -> list[str]:
    return [
        "gnt-instance", "add", "-t", "diskless", "--ignore-ipolicy", "--no-start", "-o", f"{OS}+default", "-n", "node2.example.com",
        "--net", f"0:{net}", name,
    ]  # fmt: skip


def test_a_connection_that_conflicts(scene: Scene) -> None:
    """An instance of the group has an address of the network without being in it."""
    scene.Add("alone.example.com", "mode=routed,link=x,ip=203.0.113.5")
    scene.Must("gnt-network", "add", "--network=203.0.113.0/28", "late")
    line = ("gnt-network", "connect", "-N", "mode=routed,link=main", "late")
    scene.Fails("are used by instances of group 'default': alone.example.com (NIC 0: 203.0.113.5)", *line)
    scene.Must(*line[:2], "--no-conflicts-check", *line[2:])
    assert scene.Row("gnt-network", "late", "group_list") == [["default", "routed", "main", "-"]]
    scene.Must("gnt-instance", "remove", "-f", "alone.example.com")
    scene.Must("gnt-network", "disconnect", "late")
    scene.Must("gnt-network", "remove", "late")


def test_what_scripts_are_told(scene: Scene) -> None:
    scene.Must(
        "gnt-network", "add", "--network=192.0.2.128/28", "--gateway=192.0.2.129", "--network6=2001:db8:1::/64",
        "--tags=green", "scripts",
    )  # fmt: skip
    scene.Must("gnt-network", "connect", "-N", "mode=routed,link=main", "scripts")
    told = scene.Listen("instance-add")
    scene.Must(
        "gnt-instance", "add", "-t", "file", "-s", "1g", "--ignore-ipolicy", "--no-start", "-o", f"{OS}+default", "-n", "node2.example.com",
        "--net", "0:network=scripts,ip=pool", "web.example.com",
    )  # fmt: skip
    values = {
        "NETWORK_NAME": "scripts", "NETWORK_SUBNET": "192.0.2.128/28", "NETWORK_GATEWAY": "192.0.2.129",
        "NETWORK_SUBNET6": "2001:db8:1::/64", "NETWORK_TAGS": "green", "IP": "192.0.2.130", "MODE": "routed",
    }  # fmt: skip
    env = scene.OsTold()
    assert {name: env.get(f"NIC_0_{name}") for name in values} == values
    assert "NIC_0_NETWORK_GATEWAY6" not in env
    env = Told(told)
    assert {name: env.get(f"GANETI_INSTANCE_NIC0_{name}") for name in values} == values
    scene.Must("gnt-instance", "remove", "-f", "web.example.com")
    scene.Must("gnt-network", "disconnect", "scripts")
    scene.Must("gnt-network", "remove", "scripts")


@pytest.mark.parametrize("chosen", ["named", "hail"])
def test_a_batch_takes_addresses_of_a_pool(scene: Scene, chosen: str) -> None:
    scene.Must("gnt-network", "add", "--network=192.0.2.64/28", "batch")
    scene.Must("gnt-network", "connect", "-N", "mode=routed,link=main", "batch")
    names = [f"{chosen}{number}.example.com" for number in range(5)]
    one = {
        "disk_template": "diskless", "os_type": f"{OS}+default", "start": False, "ignore_ipolicy": True,
        "nics": [{"network": "batch", "ip": "pool"}], "beparams": {"memory": 128},
    }  # fmt: skip
    nodes = {"pnode": "node2.example.com"} if chosen == "named" else {}
    path = os.path.join(scene.cluster.files, "batch.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump([{**one, **nodes, "instance_name": name} for name in names], stream)
    scene.Must("gnt-instance", "batch-create", *(("-I", "hail") if chosen == "hail" else ()), path)
    rows = json.loads(scene.Must("gnt-instance", "list", "-o", "json:name,nic.ips", *names))
    addresses = [row["nic.ips"][0] for row in rows]
    assert sorted(addresses) == [f"192.0.2.{number}" for number in range(65, 70)]
    for name in names:
        scene.Must("gnt-instance", "remove", "-f", name)
    assert scene.Row("gnt-network", "batch", "map") == "X" + "." * 14 + "X"
    scene.Must("gnt-network", "disconnect", "batch")
    scene.Must("gnt-network", "remove", "batch")


def _VerifyErrors(scene: Scene) -> str:
    """What 'gnt-cluster verify' says against the configuration itself."""
    lines = scene.Run("gnt-cluster", "verify", "--error-codes").out.splitlines()
    return "\n".join(line for line in lines if "ECLUSTERCFG" in line)


def test_many_jobs_share_a_pool(scene: Scene) -> None:
    """More jobs than addresses, all at once: each address is given once, and the rest of the jobs say why they have none."""
    scene.Must("gnt-network", "add", "--network=192.0.2.32/29", "--gateway=192.0.2.33", "few")
    scene.Must("gnt-network", "connect", "-N", "mode=routed,link=main", "few")
    names = [f"many{number}.example.com" for number in range(8)]
    lines = [_AddLine(name, "network=few,ip=pool") for name in names]
    jobs = [int(scene.Must(*line[:2], "--submit", "--print-jobid", *line[2:])) for line in lines]
    with scene.cluster[0].Client() as client:
        ends = [FollowJob(client, job)[0] for job in jobs]
        results = client.QueryJobs(jobs, ["status", "opresult"])
    assert ends.count("success") == 5, results
    refused = [str(result) for status, result in results if status == "error"]
    assert all("Network few (192.0.2.32/29) has no free address" in text for text in refused), refused
    rows = json.loads(scene.Must("gnt-instance", "list", "-o", "json:name,nic.ips", "many*"))
    assert sorted(row["nic.ips"][0] for row in rows) == [f"192.0.2.{number}" for number in range(34, 39)]
    assert scene.Row("gnt-network", "few", "free_count") == 0
    assert _VerifyErrors(scene) == ""
    for row in rows:
        scene.Must("gnt-instance", "remove", "-f", row["name"])
    assert scene.Row("gnt-network", "few", "free_count") == 5
