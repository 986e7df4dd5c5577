"""A master for tests of logical units: real store, configuration, locks, processor and calls; only the machines are made up."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from simulated import World

from ganeti import constants, locking, mcpu, objects, opcodes, params, ssconf
from ganeti.cmdlib import LU_MAPPING
from ganeti.master.querydata import QueryData
from ganeti.rpc import RpcRunner
from ganeti.rpc.resolver import SnapshotResolver
from ganeti.rpc.server import Dispatcher
from support.lockwatch import LockWatch
from support.machine import Device, Identity, Machine
from support.writers import Setup


class Callbacks(mcpu.OpExecCbBase):
    """Remembers what the processor told, and takes jobs."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.jobs: list[list[opcodes.OpCode]] = []
        self.events: list[str] = []

    def NotifyStart(self) -> None:
        self.events.append("start")

    def NotifyRetry(self) -> None:
        self.events.append("retry")

    def Feedback(self, kind: str, message: Any) -> None:
        self.log.append((kind, message))

    def SubmitManyJobs(self, jobs: list[Any]) -> list[list[Any]]:
        self.jobs.extend(jobs)
        return [[True, 100 + number] for number in range(len(jobs))]

    @property
    def messages(self) -> list[str]:
        return [message for kind, message in self.log if kind == constants.ELOG_MESSAGE]


class Master:
    """``count`` nodes, the first one the master, and ``spare`` machines; ``Run`` executes an opcode as a job would."""

    def __init__(
        self,
        folder: str,
        count: int = 2,
        candidates: int = 1,
        root: objects.Snapshot | None = None,
        spare: int = 0,
    ):
        self.setup = Setup(folder, count, candidates, root, spare)
        self.cfg = self.setup.cfg
        self.nodes = self.setup.nodes
        self.machines = {node.member.uuid: Machine(node.name) for node in self.setup.cluster.nodes}
        for node in self.setup.cluster.nodes:
            machine = self.machines[node.member.uuid]
            machine.reachable = self._ByAddress
            machine.ssconf = lambda: ssconf.Values(self.cfg.Snapshot())
            node.dispatcher = Dispatcher({**node.store.Handlers(), **machine.Handlers()}, node.store)
        self.rpc = RpcRunner(
            self.setup.cluster.wire,
            SnapshotResolver(self.cfg.Snapshot),
            lambda: str(self.setup.store.Epoch()),
            self.cfg.Snapshot,
        )
        self._MakeInstances()
        root = self.cfg.Snapshot()
        self.glm = locking.LockManager(
            root.nodes, root.nodegroups, [i.name for i in root.instances.values()], root.networks
        )
        query = QueryData(self.cfg.Snapshot, self.rpc, lambda ids, archived: [], list, lambda: False, lambda: None)
        self.context = mcpu.Context(
            self.cfg, self.glm, self.rpc, self.setup.store, self.rpc.call_hooks_runner, query, confirm_timeout=0.2
        )
        self._job = 0
        self._watch = LockWatch(self.glm, self.cfg)
        self.setup.store.Listen(self._watch.Acknowledged)
        for uuid, machine in self.machines.items():
            machine.watch = functools.partial(self._watch.Call, uuid)

    def _MakeInstances(self) -> None:
        """Devices and guests of what is configured."""
        root = self.cfg.Snapshot()
        for instance in root.instances.values():
            for disk in root.InstanceDisks(instance):
                for uuid in {instance.primary_node, *disk.nodes}:
                    for part in disk.Walk():
                        device = Device(part.size, f"originstname+{instance.name}")
                        device.assembled = instance.disks_active
                        device.primary = instance.disks_active and uuid == instance.primary_node
                        self.machines[uuid].devices[Identity(part.ToDict())] = device
            if instance.admin_state == constants.ADMINST_UP:
                memory = params.FillBE(root, instance)["maxmem"]
                self.machines[instance.primary_node].guests[instance.name] = {"memory": memory}

    def Instance(self, name: str) -> objects.Instance:
        found = self.snapshot.ExpandName("instance", name)
        assert found is not None
        return found

    def Serve(self, number: int) -> None:
        """Gives a machine's handlers to its node again, after they were exchanged."""
        node = self.setup.cluster.nodes[number]
        node.dispatcher = Dispatcher({**node.store.Handlers(), **self[number].Handlers()}, node.store)

    def Elsewhere(self) -> AbstractContextManager[None]:
        """For what a test changes while a job runs: it is not the job's doing."""
        return self._watch.Elsewhere()

    def Patient(self) -> None:
        """As long as a real master waits for nodes to confirm it."""
        self.context = dataclasses.replace(self.context, confirm_timeout=mcpu.Context.confirm_timeout)

    def _ByAddress(self, address: str) -> Machine | None:
        for node in self.snapshot.nodes.values():
            if address in (node.primary_ip, node.secondary_ip):
                return self.machines[node.uuid]
        return None

    @property
    def snapshot(self) -> objects.Snapshot:
        return self.cfg.Snapshot()

    def Spare(self, number: int = 0) -> tuple[Machine, str]:
        """A machine that is no node, and a name that every resolver knows as its address (127.3 is 127.0.0.3)."""
        member = self.setup.cluster.members[len(self.nodes) + number]
        return self.machines[member.uuid], member.address.replace(".0.0", "")

    def __getitem__(self, number: int) -> Machine:
        return self.machines[self.nodes[number]]

    def Run(self, op: opcodes.OpCode, cbs: Callbacks | None = None, units: Any = LU_MAPPING, **options: Any) -> Any:
        """Executes an opcode that went over the wire; afterwards nothing of the job may be left."""
        self._job += 1
        callbacks = cbs or Callbacks()
        self.last = callbacks
        self._watch.Begin(self._job)
        try:
            return mcpu.Processor(self.context, self._job, units).ExecOpCode(
                opcodes.OpCode.FromDict(op.ToDict()), callbacks, **options
            )
        finally:
            self._watch.End()
            self.CheckNothingLeft(self._job)

    def CheckNothingLeft(self, job: int) -> None:
        assert [row for row in self.glm.QueryLocks() if row.owner or row.pending] == []
        assert self.cfg._reservations.Count(job) == 0

    def Close(self) -> None:
        self.setup.Close()


def InSimulation(story: Callable[[Master], None], count: int = 2) -> None:
    """Tells a story on a simulated machine, where waiting takes no time."""

    def program() -> None:
        master = Master("/srv/m", count)
        try:
            story(master)
        finally:
            master.Close()

    with World(1) as world:
        world.AddMachine("m").Call(program)
