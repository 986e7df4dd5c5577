"""Allocators, requests and clusters for tests of placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganeti import opcodes
from support.asking import Played, Success
from support.master import Master

NEW = "new.example.org"


def First(message: dict[str, Any]) -> dict[str, Any]:
    """The first nodes by name that may be used."""
    request = message["request"]
    allowed = request.get("restrict-to-nodes")
    fit = [
        name
        for name, node in sorted(message["nodes"].items())
        if not node["offline"] and not node["drained"] and (allowed is None or name in allowed)
    ]
    count = request["required_nodes"]
    if len(fit) < count:
        return {"success": False, "info": "no room", "result": []}
    return Success(fit[:count])


def Prepare(master: Master) -> None:
    cluster = master.snapshot.cluster
    templates = ["drbd", "file", "plain", "rbd", "diskless"]
    policy = {**cluster.ipolicy, "disk-templates": templates}
    master.cfg.Update(
        cluster.Replace(
            enabled_disk_templates=templates,
            enabled_hypervisors=["fake", "kvm"],
            ipolicy=policy,
            default_iallocator="",
        )
    )


def Allocator(master: Master, answer: Callable[[dict[str, Any]], Any] = First, name: str = "first") -> Played:
    played = Played(answer)
    master[0].AddAllocator(name, played)
    return played


def Create(name: str = NEW, **values: Any) -> opcodes.OpInstanceCreate:
    defaults: dict[str, Any] = {
        "mode": "create",
        "disk_template": "drbd",
        "disks": [{"size": 1024}],
        "nics": [{}],
        "os_type": "debian+minimal",
        "hypervisor": "fake",
        "iallocator": "first",
    }
    return opcodes.OpInstanceCreate(instance_name=name, **{**defaults, **values})


def Nodes(master: Master, name: str = NEW) -> tuple[str, ...]:
    """Numbers of an instance's nodes, the primary first."""
    return tuple(str(master.nodes.index(uuid) + 1) for uuid in master.snapshot.AllNodes(master.Instance(name)))
