"""A master for tests of logical units: real store, configuration, locks, processor, calls and node daemons.

Its cluster is simulated (``simnode``), so waiting takes no time.  A test that uses the fixtures of ``support.stage`` runs
inside the master daemon's process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from simulated import World
from simulated.transport import Network, SimulatedTransport

from ganeti import constants, errors, hypervisor, locking, mcpu, objects, opcodes, runtime, storage
from ganeti.cmdlib import LU_MAPPING
from ganeti.cmdlib.allocation import proofs
from ganeti.config import ConfigWriter, VotersOf
from ganeti.master.querydata import QueryData
from ganeti.rpc import RpcRunner
from ganeti.rpc.resolver import SnapshotResolver
from ganeti.server.opening import MembersOf
from ganeti.store import Member, Row, election
from ganeti.store.files import adopt
from support import drivers
from support.lockwatch import LockWatch
from support.simnode import SimNode
from support.writers import ExampleOn


class Callbacks(mcpu.OpExecCbBase):
    """Remembers what the processor reported, and takes jobs."""

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


class KilledInPause(Callbacks):
    """An administrator ends the job with a kill; it notices that in one of its pauses, and cleans up."""

    def __init__(self, which: int = 3) -> None:
        super().__init__()
        self._left = which

    def Pause(self, seconds: float) -> None:
        super().Pause(seconds)
        self._left -= 1
        if self._left == 0:
            raise errors.OpExecError("The job was ended with 'gnt-job cancel --kill'")


class KilledMeanwhile(Exception):
    """The master daemon was killed while it worked."""


class Master:
    """``count`` nodes, the first one the master, and ``spare`` machines; ``Run`` executes an opcode as a job would.

    ``change`` makes another configuration of the example.  With ``lvm`` volumes are made by the real driver, on each
    machine's LVM (``SimNode.lvm``); mirrors above them stay fakes.
    """

    def __init__(
        self,
        count: int = 2,
        candidates: int = 1,
        spare: int = 0,
        change: Callable[[objects.Snapshot], objects.Snapshot] = lambda root: root,
        seed: int = 1,
        lvm: bool = False,
    ):
        self.world = World(seed, switch=0.1)
        storage.UseDrivers(drivers.ON_LVM if lvm else drivers.STORAGE)
        hypervisor.UseDrivers(dict.fromkeys(constants.HYPER_TYPES, drivers.Guests))
        self.network = Network(self.world)
        self.all = [SimNode(self.world, self.network, number) for number in range(1, count + spare + 1)]
        for node in self.all if lvm else ():
            node.InstallLvm()
        self.nodes = [node.member.uuid for node in self.all[:count]]
        self.lost: list[Exception] = []
        self._count = count
        self._job = 0
        self._tasks: Any = None
        self.cfg: Any = None
        root = change(ExampleOn([node.member for node in self.all[:count]], candidates))
        for node in self.all[:count]:
            node.WriteSsconf(root)
        self._Start(lambda: self._Found(root))

    def _Start(self, first: Callable[[], None]) -> None:
        self._tasks = None
        self._masterd = self.all[0].machine.StartProcess(self._Masterd, "masterd")
        self.Perform(first)

    def Kill(self) -> None:
        """The master daemon is killed, and with it the job that it runs."""
        self._masterd.Kill()

    @property
    def alive(self) -> bool:
        return bool(self._masterd.alive)

    def Restart(self) -> None:
        """The master daemon starts again on its node, whose node daemon runs; no job is left of the one before."""
        self.Kill()
        self._Start(self._Continue)

    def _Masterd(self) -> None:
        """Carries out what tests want to happen in this process."""
        self._tasks = runtime.Queue()
        while True:
            function, outcome = self._tasks.get()
            try:
                outcome.append((function(), None))
            except (Exception, *_OUTCOMES) as err:  # noqa: BLE001 - whoever asked gets it
                outcome.append((None, err))

    def Perform(self, function: Callable[[], Any]) -> Any:
        """Calls a function inside the master daemon; returns or raises what it does.

        KilledMeanwhile where the daemon was killed before the end.
        """
        self.world.Run(until=lambda: self._tasks is not None)
        outcome: list[tuple[Any, BaseException | None]] = []
        masterd = self._masterd
        self._tasks.put((function, outcome))
        self.world.Run(until=lambda: outcome or not masterd.alive)
        if not outcome:
            raise KilledMeanwhile
        [(result, error)] = outcome
        if error is not None:
            raise error
        return result

    def _Found(self, root: objects.Snapshot) -> None:
        members = [node.member for node in self.all[: self._count]]
        voters = [member for member in members if root.nodes[member.uuid].master_candidate]
        self._Open(
            lambda own, wire, options: adopt.FoundStore(
                own,
                members[0],
                root.cluster.uuid,
                members,
                voters,
                [Row(*row) for row in root.ToRows()],
                wire,
                candidates_now=self._Candidates,
                **options,
            )
        )
        self._MakeInstances(self.cfg.Snapshot())
        self._Watch()

    def _Continue(self) -> None:
        def make(own: Any, wire: Any, options: dict[str, Any]) -> Any:
            rows = [(row.kind, row.id, row.value) for row in own.database.GetRows() if row.value is not None]
            nodes = MembersOf(objects.Snapshot.FromRows(rows))
            return election.BecomeMaster(own, self.all[0].member, nodes, wire, candidates=self._Candidates, **options)

        self._Open(make)
        self._Watch()

    def _Candidates(self) -> list[Member] | None:
        return VotersOf(self.cfg.Snapshot()) if self.cfg else None

    def _Open(self, make: Callable[[Any, Any, dict[str, Any]], Any]) -> None:
        self.cfg = None
        own = self.all[0].NewStore()
        wire = SimulatedTransport(self.network)
        options = {"lost": self.lost.append, "resolve": SnapshotResolver(lambda: self.cfg.Snapshot())}
        self.store = make(own, wire, options)
        self.own = own
        self.cfg = ConfigWriter(self.store)
        self.rpc = RpcRunner(
            wire, SnapshotResolver(self.cfg.Snapshot), lambda: str(self.store.Epoch()), self.cfg.Snapshot
        )
        root = self.cfg.Snapshot()
        self.glm = locking.LockManager(
            root.nodes, root.nodegroups, [i.name for i in root.instances.values() if i.name is not None], root.networks
        )
        query = QueryData(
            self.cfg.Snapshot,
            self.rpc,
            lambda ids, archived: [],
            list,
            lambda: False,
            lambda: None,
            proofs.FromPayloads,
        )
        self.context = mcpu.Context(self.cfg, self.glm, self.rpc, self.store, self.rpc.call_hooks_runner, query)

    def _Watch(self) -> None:
        self._watch = LockWatch(self.glm, self.cfg)
        self.store.Listen(self._watch.Acknowledged)
        for node in self.all:
            node.watch = functools.partial(self._watch.Call, node.member.uuid)
            node.calls.clear()
            node.arguments.clear()

    def _MakeInstances(self, root: objects.Snapshot) -> None:
        """Disks and guests of what is configured."""
        for guest in root.instances.values():
            if guest.forthcoming:
                continue
            guest = guest.Replace(attempt=guest.uuid)
            for index, disk in enumerate(root.InstanceDisks(guest)):
                for uuid in dict.fromkeys([guest.primary_node, *disk.nodes]):
                    self._MakeDisk(guest, disk, index, uuid)
            if guest.admin_state == constants.ADMINST_UP:
                self.rpc.call_instance_start(guest.primary_node, guest, False, []).Raise("the example cannot start")

    def _MakeDisk(self, guest: objects.Instance, disk: objects.Disk, index: int, uuid: str) -> None:
        primary = uuid == guest.primary_node
        if disk.dev_type == constants.DT_FILE:
            folder = disk.logical_id[1].rpartition("/")[0]
            self.rpc.call_file_storage_dir_create(uuid, folder).Raise("the example's directory cannot be made")
        for part in (*disk.children, disk):
            self.rpc.call_blockdev_create(
                uuid, (part, guest), part.size, guest.name, primary, f"originstname+{guest.name}", False
            ).Raise("the example's disk cannot be made")
        if guest.disks_active:
            self.rpc.call_blockdev_assemble(uuid, (disk, guest), guest, primary, index).Raise("no disk")
        else:
            self.rpc.call_blockdev_shutdown(uuid, (disk, guest)).Raise("no disk")

    # --- looking ------------------------------------------------------------------------------------------------------

    def __getitem__(self, number: int) -> SimNode:
        return self.all[number]

    @property
    def machines(self) -> dict[str, SimNode]:
        return {node.member.uuid: node for node in self.all}

    @property
    def snapshot(self) -> objects.Snapshot:
        return self.cfg.Snapshot()

    def Stored(self) -> objects.Snapshot:
        """What the master's own database holds."""
        rows = self.own.database.GetRows()
        return objects.Snapshot.FromRows((row.kind, row.id, row.value) for row in rows if row.value is not None)

    def Instance(self, name: str) -> objects.Instance:
        found = self.snapshot.ExpandName("instance", name)
        assert found is not None
        return found

    def Spare(self, number: int = 0) -> SimNode:
        """A machine that is not a node."""
        return self.all[self._count + number]

    def DistributeSsconf(self) -> None:
        """From now on every change reaches the nodes' ssconf files, as the exporters see to; but see ``ssconf_stuck``."""

        def distribute(_position: Any, _rows: Any) -> None:
            for node in self.all[: self._count]:
                if node.machine.on and not node.ssconf_stuck:
                    node.WriteSsconf(self.cfg.Snapshot())

        self.store.Listen(distribute)

    # --- acting -------------------------------------------------------------------------------------------------------

    def Elsewhere(self) -> AbstractContextManager[None]:
        """For what a test changes while a job runs: it is not the job's doing."""
        return self._watch.Elsewhere()

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
        try:
            assert self.world.failures == []
        finally:
            self.world.Close()
            storage.UseDrivers({})
            hypervisor.UseDrivers({})


def _Outcomes() -> tuple[type[BaseException], ...]:
    """What pytest.fail and pytest.skip raise."""
    import pytest

    return (pytest.fail.Exception, pytest.skip.Exception)


_OUTCOMES = _Outcomes()
