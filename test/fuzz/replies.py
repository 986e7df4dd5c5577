"""Answers of a rogue node: queries and jobs of the master end with a result or an error of ours."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from support.master import Callbacks, Master

from fuzz import damage
from fuzz.target import Broken, Target
from ganeti import errors, opcodes, query
from ganeti.cmdlib.allocation import proofs
from ganeti.master.querydata import QueryData
from ganeti.rpc import RpcRunner
from ganeti.rpc.base import Answer, Request, Transport
from ganeti.rpc.resolver import SnapshotResolver

WEB = "web.example.org"
_NEW: dict[str, Any] = {
    "disk_template": "plain", "memory": 256, "vcpus": 1, "disks": [{"size": 1024}], "nics": [{}],
}  # fmt: skip
_QUERIES = {"node": "name", "instance": "name", "os": "name", "extstorage": "name", "export": "node", "group": "name"}

# What is damaged where the example's nodes have nothing to list.
_ROWS: dict[str, Any] = {
    "/node_volumes": [{"dev": "/dev/sda", "vg": "xenvg", "name": "v", "size": "12.50", "health": ""}],
    "/storage_list": [["xenvg", 1024.0, ["pv-uuid"], []]],
    "/lv_list": {"xenvg/v": ["12.50", False, False]},
}


class RogueTransport:
    """Carries calls, and damages the answers of one node while ``rng`` is set."""

    def __init__(self, wire: Transport, node: str):
        self._wire = wire
        self._node = node
        self.rng: random.Random | None = None
        self.last: list[tuple[str, bytes]] = []

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        def arrived(answer: Answer) -> None:
            if self.rng is not None and request.node == self._node and self.rng.random() < 0.7:
                answer = self._Damaged(self.rng, request, answer)
            done(answer)

        self._wire.Submit(request, arrived)

    def _Damaged(self, rng: random.Random, request: Request, answer: Answer) -> Answer:
        try:
            value = json.loads(answer.body)
            if value == [True, []] or value == [True, {}]:
                value = [True, _ROWS.get(request.path, value[1])]
            if rng.random() < 0.9:
                value = [True, damage.Value(rng, value[1])]
            body = damage.Text(rng, value) if rng.random() < 0.2 else json.dumps(value).encode()
        except ValueError:
            body = damage.Bytes(rng, answer.body)
        self.last.append((request.path, body[:1000]))
        return dataclasses.replace(answer, body=body, status=200, error=None)

    def Abort(self, request: Request) -> None:
        self._wire.Abort(request)

    def Close(self) -> None:
        self._wire.Close()


class Replies(Target):
    """Queries of every kind and the usual opcodes against a master one of whose nodes is rogue."""

    ROUNDS = 120

    def __enter__(self) -> Self:
        logging.disable(logging.CRITICAL)
        self._Make()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._master.Close()
        logging.disable(logging.NOTSET)

    def _Make(self) -> None:
        self._master = Master(3, 2)
        master = self._master
        # The primary node of the example's instance, which is not the master.
        self._rogue = master.all[1]
        master.Perform(self._Take)

    def _Take(self) -> None:
        master = self._master
        wire = RogueTransport(master.rpc._transport, self._rogue.name)
        resolver = SnapshotResolver(master.cfg.Snapshot)
        runner = RpcRunner(wire, resolver, lambda: str(master.store.Epoch()), master.cfg.Snapshot)
        data = QueryData(
            master.cfg.Snapshot,
            runner,
            lambda ids, archived: [],
            list,
            lambda: False,
            lambda: None,
            proofs.FromPayloads,
        )
        self._wire, self._data = wire, data
        master.context = dataclasses.replace(
            master.context, rpc=runner, hooks=runner.call_hooks_runner, query=data, confirm_timeout=0.5
        )

    def Round(self, rng: random.Random) -> Any:
        self._wire.last.clear()
        act = self._Query if rng.random() < 0.4 else self._Job
        try:
            self._master.Perform(lambda: act(rng))
        except errors.GenericError:
            pass
        except Exception as err:
            raise Broken(f"{type(err).__name__}: {err} after {self._wire.last}") from err
        finally:
            self._wire.rng = None

    def _Query(self, rng: random.Random) -> None:
        kind = rng.choice(sorted(_QUERIES))
        fields = sorted(query.GetKind(kind).fields)
        self._wire.rng = rng
        self._data.QueryNow(kind, rng.sample(fields, min(len(fields), 12)), None)

    def _Job(self, rng: random.Random) -> None:
        op = rng.choice(_Jobs(self._master, self._rogue.name))
        self._wire.rng = rng
        self._master.Run(op, Callbacks())


def _Jobs(master: Master, rogue: str) -> list[opcodes.OpCode]:
    """Opcodes that ask the rogue node; each leaves the cluster as the next one needs it, or nearly."""
    return [
        opcodes.OpInstanceStartup(instance_name=WEB),
        opcodes.OpInstanceShutdown(instance_name=WEB),
        opcodes.OpInstanceReboot(instance_name=WEB, reboot_type="hard"),
        opcodes.OpInstanceConsole(instance_name=WEB),
        opcodes.OpInstanceQueryData(instances=[WEB]),
        opcodes.OpInstanceActivateDisks(instance_name=WEB),
        opcodes.OpInstanceSettleMirrors(instance_name=WEB),
        opcodes.OpInstanceDeactivateDisks(instance_name=WEB),
        opcodes.OpInstanceSetParams(instance_name=WEB, beparams={"minmem": 128, "maxmem": 256}),
        opcodes.OpInstanceMigrate(instance_name=WEB),
        opcodes.OpInstanceFailover(instance_name=WEB),
        opcodes.OpInstanceReinstall(instance_name=WEB, os_type="noop"),
        opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_primary"),
        opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=1),
        opcodes.OpNodeQueryvols(nodes=[], output_fields=["node", "name", "size"]),
        opcodes.OpNodeQueryStorage(nodes=[], storage_type="lvm-vg", output_fields=["node", "name", "free", "missing"]),
        opcodes.OpRepairNodeStorage(node_name=rogue, storage_type="lvm-vg", name="xenvg", missing=["pv-uuid"]),
        opcodes.OpNodeSetParams(node_name=rogue, drained=True),
        opcodes.OpNodeSetParams(node_name=rogue, drained=False),
        opcodes.OpNodeSetParams(node_name=rogue, master_candidate=True),
        opcodes.OpClusterVerifyConfig(),
        opcodes.OpClusterVerifyGroup(group_name="default"),
        opcodes.OpClusterVerifyDisks(),
        opcodes.OpClusterRepairDiskSizes(instances=[WEB]),
        opcodes.OpOsDiagnose(output_fields=["name", "valid", "variants", "node_status", "trusted"], names=[]),
        opcodes.OpTestAllocator(direction="out", mode="balance", name="x", iallocator="hail", count=2),
        opcodes.OpTestAllocator(direction="out", mode="capacity", name="x", iallocator="hail", count=2, **_NEW),
        opcodes.OpTestAllocator(direction="in", mode="node-evacuate", name="x", instances=[WEB]),
        opcodes.OpTestDelay(duration=0.1, on_nodes=[rogue], on_master=False),
    ]
