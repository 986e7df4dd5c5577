"""What stories of the laboratory share: instances, and whether volumes, mirrors and the configuration agree."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from support.patience import Deadline

from lab.cluster import GROUP, OS, LabCluster, Machines, Node
from lab.writes import Writer

_FIRST_PORT = 11000
_MIRROR = re.compile(r"^ *(\d+): cs:(\S+) ro:(\w+)/(\w+) ds:(\w+)/(\w+) (\S+) (\S+)", re.MULTILINE)
# The export of the configuration and the end of what a job left to others may take a moment.
_AGREE_SECONDS = 60.0

_Cluster = TypeVar("_Cluster", bound=Machines)


class Mirror:
    """A line of /proc/drbd: ``role`` and ``data`` of this side, ``peer_role`` and ``peer_data`` of the other."""

    def __init__(self, words: tuple[str, ...]):
        self.minor = int(words[0])
        self.connection, self.role, self.peer_role, self.data, self.peer_data, self.protocol, self.flags = words[1:]

    def __repr__(self) -> str:
        return f"{self.minor}: {self.connection} {self.role} {self.data}/{self.peer_data} {self.flags}"


def Mirrors(node: Node) -> dict[int, Mirror]:
    """Return the configured minors of a node."""
    found = (Mirror(words) for words in _MIRROR.findall(node.Read("/proc/drbd")))
    return {mirror.minor: mirror for mirror in found if mirror.connection != "Unconfigured"}


class Teller(Generic[_Cluster]):
    """Some machines for stories; ``random`` decides what a story leaves open.

    ``first``: the place, from 1, at which a story begins that goes from place to place; ``strikes``: what it does at each
    of them, ``one`` thing after the other in turn, the ``others`` or ``all``.
    """

    def __init__(
        self,
        cluster: _Cluster,
        seed: int,
        say: Callable[[str], None] = lambda _: None,
        first: int = 1,
        strikes: str = "one",
    ):
        self.cluster = cluster
        self.seed = seed
        self.first = first
        self.strikes = strikes
        self.random = random.Random(seed)
        self.say = say

    def Begin(self, name: str) -> None:
        """Begin a story: what it chooses follows from the seed and its name, whatever was told before it."""
        self.random = random.Random(f"{self.seed} {name}")
        self.say(f"{name}, seed {self.seed}")

    def Gnt(self, *argv: str, **options: Any) -> str:
        """Run a command on the master and return what it printed."""
        began = time.monotonic()
        done = self.cluster.Gnt(*argv, **options)
        self.say(f"  {time.monotonic() - began:5.1f} s  gnt-{' '.join(argv)}")
        return done.stdout + done.stderr

    def Verify(self) -> list[str]:
        """Return the errors that gnt-cluster verify reports."""
        lines = self.Gnt("cluster", "verify", check=False).splitlines()
        return [line for line in lines if "ERROR" in line]


class Stage(Teller[LabCluster]):
    """A cluster for stories about disks."""

    @contextlib.contextmanager
    def Instance(
        self, template: str, *nodes: Node, size: int = 64, disks: int = 1, options: Sequence[str] = ("-o", OS)
    ) -> Iterator[str]:
        """Make a running instance; remove it afterwards, and check that nothing is left of it.

        ``options``: its OS, and what else it is to have.
        """
        name = f"inst{next(self.cluster.numbers)}"
        words = [word for number in range(disks) for word in ("--disk", f"{number}:size={size}m")]
        words += ["-n", ":".join(node.name for node in nodes), "-t", template, *options, "--no-nics"]
        # Stories wait themselves, and need not sleep for as long as the node expects a sync to take.
        words += ["--no-wait-for-sync"] if template == "drbd" else []
        self.Gnt("instance", "add", *words, "-B", "memory=64", name)
        yield name
        self.Gnt("instance", "remove", "-f", name)
        self.CheckAgreement()

    @contextlib.contextmanager
    def Writing(self, instance: str, node: Node, kind: type[Writer] = Writer) -> Iterator[Writer]:
        """A guest writes meanwhile; afterwards every acknowledged write is on ``node``, where the instance runs."""
        with kind(self.cluster, instance) as writer:
            writer.WaitFor()
            yield writer
        self.CheckWrites(writer, node)

    def CheckWrites(self, writer: Writer, node: Node) -> None:
        count = writer.Check(node)
        self.say(f"         {count} acknowledged writes are on {node.name}")

    def Other(self, node: Node) -> Node:
        return next(other for other in self.cluster.nodes if other is not node)

    def Primary(self, instance: str) -> Node:
        name = self.Gnt("instance", "list", "--no-headers", "-o", "pnode", instance).split()[0]
        return next(node for node in self.cluster.nodes if node.name == name)

    def PowerOff(self, node: Node) -> None:
        self.say(f"         {node.name} loses its power")
        self.cluster.PowerOff(node)

    def PowerOn(self, node: Node, *writers: Writer) -> None:
        self.PowerOnTogether([node], *writers)

    def PowerOnTogether(self, nodes: Sequence[Node], *writers: Writer) -> None:
        """Give nodes their power back at once: alone the master would find nobody who votes for it, and give up."""
        began = time.monotonic()
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(self.cluster.PowerOn, nodes))
        self.say(f"  {time.monotonic() - began:5.1f} s  {', '.join(node.name for node in nodes)}: power is back")
        for node in nodes:
            for writer in writers:
                writer.Begin(node)

    def StartMaster(self) -> None:
        """Start the master daemon if it has given up, as the watcher does within five minutes."""
        program = "/usr/lib/ganeti/daemon-util"
        self.cluster.master.Shell(f"{program} check ganeti-masterd || {program} start ganeti-masterd", seconds=300)

    # --- what must be true at rest ------------------------------------------------------------------------------------

    def CheckAgreement(self) -> None:
        """Raise AssertionError unless volumes, mirrors, ports and links of all nodes are those of the configuration."""
        deadline = Deadline(_AGREE_SECONDS)
        while wrong := self.Disagreements():
            assert not deadline.Passed(), "volumes, mirrors and configuration do not agree:\n" + "\n".join(wrong)
            time.sleep(0.5)
        errors = self.Verify()
        assert not errors, "gnt-cluster verify reports:\n" + "\n".join(errors)

    def Disagreements(self) -> list[str]:
        config = self.cluster.Config()
        wanted = _Wanted(config)
        wrong = _WrongPorts(config)
        for node in self.cluster.running:
            volumes, minors, links = wanted.get(node.name, (set(), set(), set()))
            for what, there, should in (
                ("volumes", set(node.Volumes()), volumes),
                ("minors", set(Mirrors(node)), minors),
                ("links of disks", set(node.Shell("ls /run/ganeti/instance-disks", check=False).split()), links),
            ):
                # Whether a stopped instance is active is not the configuration's to say, only what nobody knows is wrong.
                missing = should - there if what == "volumes" else set()
                if there - should or missing:
                    wrong.append(f"{node.name}: {what} too many: {sorted(there - should)}, missing: {sorted(missing)}")
        return wrong


def _Wanted(config: dict[str, Any]) -> dict[str, tuple[set[str], set[int], set[str]]]:
    """Return volumes, minors and links of disks that each node may have, by the configuration."""
    names = {uuid: node["name"] for uuid, node in config["nodes"].items()}
    wanted: dict[str, tuple[set[str], set[int], set[str]]] = {name: (set(), set(), set()) for name in names.values()}
    for instance in config["instances"].values():
        primary = names[instance["primary_node"]]
        for number, uuid in enumerate(instance["disks"]):
            disk = config["disks"][uuid]
            wanted[primary][2].add(f"{instance['name']}:{number}")
            if disk["dev_type"] == "plain":
                wanted[primary][0].add(disk["logical_id"][1])
                continue
            first, second, _, first_minor, second_minor, *_ = disk["logical_id"]
            for node, minor in ((first, first_minor), (second, second_minor)):
                wanted[names[node]][0].update(child["logical_id"][1] for child in disk["children"])
                wanted[names[node]][1].add(minor)
    return wanted


def _WrongPorts(config: dict[str, Any]) -> list[str]:
    """Return what is wrong with the ports: each is free or belongs to one mirror."""
    cluster = config["cluster"]
    used = [disk["logical_id"][2] for disk in config["disks"].values() if disk["dev_type"] == "drbd"]
    used += [instance["network_port"] for instance in config["instances"].values() if instance.get("network_port")]
    ports = sorted([*used, *cluster["tcpudp_port_pool"]])
    given = list(range(_FIRST_PORT, cluster["highest_used_port"] + 1)) if cluster.get("highest_used_port") else []
    return (
        []
        if set(given) - {_FIRST_PORT} == set(ports) - {_FIRST_PORT} and len(set(ports)) == len(ports)
        else [f"ports free or in use: {ports}, given out: {given}"]
    )


__all__ = ["GROUP", "Mirror", "Mirrors", "Stage", "Teller"]
