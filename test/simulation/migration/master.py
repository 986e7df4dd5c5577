"""The master of a run: wires to the hosts, a store that survives it, and jobs carried out by the real processor."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

from simulation.migration.world import Host, Killed, Side, World
from support import configs
from support.realcluster import MakeConfig

from ganeti import errors, locking, mcpu, objects, opcodes, pathutils, runtime, serializer, store
from ganeti.backend import blockdev, drbd, instance, migration, node
from ganeti.cmdlib import LU_MAPPING
from ganeti.config import ConfigWriter
from ganeti.rpc import RpcRunner
from ganeti.rpc.base import HEADER_EPOCH, Answer, EpochRefused, Request
from ganeti.rpc.procedures import PROCEDURES, Procedure
from ganeti.rpc.resolver import SnapshotResolver
from ganeti.rpc.server import Dispatcher
from ganeti.store import Epoch

NAME = "web.example.com"
UUID = configs.Uuid(500)
HOSTS = ("a", "b", "c")
_TIMED_OUT = "timed out"


def NotePath() -> str:
    """Return the file in which a node remembers the guest's migration."""
    return posixpath.join(pathutils.MIGRATIONS_DIR, NAME)


# Template -> the identity of a disk that every host reaches.
SHARED: dict[str, list[str]] = {
    "sharedfile": ["loop", "/srv/disk"],
    "rbd": ["rbd", "disk"],
    "gluster": ["gluster", "disk"],
    "ext": ["provider", "disk"],
}
DRBD = "drbd"


@cache
def _Base(template: str) -> objects.Snapshot:
    names, addresses = ["m", *HOSTS], [f"10.0.0.{number}" for number in range(1, 5)]
    root = MakeConfig(names, addresses, "10.0.0.99", 1)
    cluster = root.cluster.Replace(
        enabled_disk_templates=[template], ipolicy={**root.cluster.ipolicy, "disk-templates": [template]},
        candidate_certs={}, tags=[], candidate_pool_size=1, enabled_user_shutdown=False,
    )  # fmt: skip
    nodes = {
        uuid: found.Replace(tags=[], master_capable=found.name == "m", vm_capable=found.name != "m")
        for uuid, found in root.nodes.items()
    }
    pair = [uuid for uuid, found in nodes.items() if found.name in ("a", "b")]
    example = configs.Example()
    disk = example.disks[configs.WEB_DISK]
    if template == DRBD:
        disk = disk.Replace(
            nodes=pair,
            logical_id=[*pair, *disk.logical_id[2:]],
            children=[child.Replace(nodes=pair) for child in disk.children],
        )
    else:
        disk = disk.Replace(dev_type=template, logical_id=SHARED[template], children=[], nodes=[], params={})
    guest = example.instances[configs.WEB].Replace(
        uuid=UUID, name=NAME, primary_node=pair[0], hypervisor="fake", hvparams={}, beparams={}, nics=[], tags=[],
        disks=[disk.uuid], network_port=None, admin_state="up", disks_active=True,
    )  # fmt: skip
    return root.Replace(cluster=cluster, nodes=nodes, instances={UUID: guest}, disks={disk.uuid: disk})


@cache
def _BaseRows(template: str) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for kind, row_id, value in _Base(template).ToRows():
        rows.setdefault(kind, {})[row_id] = value
    return rows


class SmallStore:
    """Rows that outlive the master; each commit has a moment before and one after it is durable."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def Rows(self, kind: str) -> dict[str, str]:
        return dict(self._cluster.rows.get(kind, {}))

    def Commit(self, change: store.Change, patient: bool = False) -> None:
        del patient
        self._cluster.MasterStep("commit")
        for row in change.Prepare():
            if row.value is None:
                self._cluster.rows[row.kind].pop(row.id)
            else:
                self._cluster.rows.setdefault(row.kind, {})[row.id] = row.value
        self._cluster.MasterStep("committed")
        change.Publish()

    def Begin(self, change: store.Change, done: Callable[[Exception | None], None], patient: bool = False) -> None:
        self.Commit(change, patient)
        done(None)

    def AddVoter(self, member: Any, change: store.Change, timeout: float = 0.0) -> None:
        self.Commit(change)

    RemoveVoter = AddVoter

    def ConfirmNodes(self, nodes: Sequence[str], timeout: float) -> None:
        """Each node promises itself to this master's epoch, so that older calls do nothing."""
        for uuid in nodes:
            host = self._cluster.HostOf(uuid)
            self._cluster.MasterStep(f"confirm {host}")
            if not (host.noded and self._cluster.world.Reaches("m", host.name)):
                self._cluster.world.Pass(timeout)
                raise store.StoreError(f"nothing was done: node {host.name} does not answer")
            host.promised = self._cluster.epoch


class _Gate:
    def __init__(self, host: Host):
        self._host = host

    @contextmanager
    def Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> Iterator[None]:
        epoch = Epoch.Parse(headers[HEADER_EPOCH.lower()])
        if epoch.number < self._host.promised:
            raise EpochRefused(f"{self._host.promised}.1", "m")
        self._host.promised = epoch.number
        self._host.busy += 1
        try:
            yield
        finally:
            self._host.busy -= 1


class Wires:
    """The transport: carries a call at once, and does with it what ``fate`` says."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        cluster, world = self._cluster, self._cluster.world
        host = next(host for host in world.hosts.values() if host.address == request.host)
        name = request.path.removeprefix("/")
        cluster.MasterStep(f"{name} on {host}")
        fate = cluster.fate
        cluster.fate = ""
        if fate:
            world.Note(f"{name} on {host}: {fate}")
        if not (host.on and host.noded and world.Reaches("m", host.name)):
            done(Answer("connection refused" if host.on and not host.noded else f"connection {_TIMED_OUT}"))
            world.Pass(0.0 if host.on and not host.noded else request.connect_timeout)
            return
        if fate == "lost":
            world.Pass(world.rng.choice((0.0, request.timeout)))
            done(Answer(_TIMED_OUT))
            return
        if fate == "held":
            # On its way until a plot lets it arrive.
            world.held.append((host, lambda: self._CarryOutLate(host, request)))
            done(Answer(_TIMED_OUT))
            return
        if fate in ("late", "hangs"):
            # The connection breaks, or the time is over; the request is still on its way.
            waits = world.rng.choice((0.0, 0.0, 0.0, request.timeout))
            delays = (0.01, 0.3, 3.0, 10.0, 60.0, 300.0) if fate == "late" else (120.0, 200.0, 300.0)
            when = world.now + waits + world.rng.choice(delays)
            world.late.append((when, host, lambda: self._CarryOutLate(host, request)))
            world.Pass(waits)
            done(Answer(_TIMED_OUT))
            return
        answer = self._CarryOut(host, request)
        if fate == "unanswered":
            world.Pass(world.rng.choice((0.0, request.timeout)))
            answer = Answer(_TIMED_OUT)
        cluster.MasterStep(f"answer of {name} on {host}")
        done(answer)

    def _CarryOutLate(self, host: Host, request: Request) -> None:
        if host.on and host.noded:
            self._cluster.world.Note(f"{request.path} of {request.node} comes late")
            self._CarryOut(host, request)

    def _CarryOut(self, host: Host, request: Request) -> Answer:
        before, procedure = runtime.CurrentSide(), host.procedure
        host.serving = host.incarnation
        host.procedure = request.path.removeprefix("/")
        runtime.EnterSide(host.side)
        headers = {name.lower(): value for name, value in request.headers.items()}
        note = host.files.get(NotePath())
        try:
            status, more, body = self._cluster.dispatchers[host.name].Handle(request.path, headers, request.body)
        except Killed:
            return Answer("the connection broke")
        finally:
            host.procedure = procedure
            runtime.EnterSide(before)
        if note is not None and NotePath() not in host.files and serializer.Load(note)["attempt"] is not None:
            host.forgotten.add(note)
        return Answer(None, status, {name.lower(): value for name, value in more.items()}, body)

    def Abort(self, request: Request) -> None:
        pass

    def Close(self) -> None:
        pass


class Callbacks(mcpu.OpExecCbBase):
    """Writes what a job tells into the events."""

    def __init__(self, world: World):
        self._world = world

    def Feedback(self, kind: str, message: Any) -> None:
        self._world.Note(f"  | {message}")


class Parts:
    """What is played; planted bugs exchange parts of it."""

    units: Mapping[str, Any] = LU_MAPPING

    @classmethod
    def Handlers(cls) -> dict[str, Callable[..., Any]]:
        modules = (instance, migration, blockdev, drbd, node)
        return {name: handler for module in modules for name, handler in module.HANDLERS.items()}


class Cluster:
    """Hosts and their master.  ``template``: of the guest's disk.  ``fate``: what happens to the next call."""

    def __init__(self, world: World, template: str, parts: type[Parts]):
        self.world = world
        world.mirrored = template == DRBD
        self.parts = parts
        self.rows = {kind: dict(rows) for kind, rows in _BaseRows(template).items()}
        self.fate = ""
        self.epoch = 0
        self.dispatchers: dict[str, Dispatcher] = {}
        self._uuids: dict[str, str] = {}
        for uuid, found in _Base(template).nodes.items():
            self._uuids[found.name] = uuid
            if found.name in HOSTS:
                host = Host(world, found.name, found.secondary_ip)
                self.dispatchers[host.name] = Dispatcher(parts.Handlers(), _Gate(host))
        self.side = Side(world, None)
        self.StartMaster()

    def StartMaster(self) -> None:
        """A new master daemon reads what is stored, in an epoch of its own."""
        self.world.master_dead = False
        self.epoch += 1
        self._jobs = 0
        self.hint = ""
        small = SmallStore(self)
        self.cfg = ConfigWriter(small)
        epoch = Epoch(self.epoch, "0" * 16)
        rpc = RpcRunner(Wires(self), SnapshotResolver(self.cfg.Snapshot), lambda: str(epoch), self.cfg.Snapshot)
        root = self.cfg.Snapshot()
        glm = locking.LockManager(root.nodes, root.nodegroups, [NAME], root.networks)
        nobody = SimpleNamespace(offline=True, fail_msg=None, payload=[])
        self.context = mcpu.Context(self.cfg, glm, rpc, small, lambda *_: {"m": nobody}, None, 60.0)  # type: ignore[arg-type,dict-item]

    def MasterStep(self, what: str) -> None:
        self.world.Step(what)

    def Run(self, op: opcodes.OpCode) -> str:
        """Carry a job out; returns the error, nothing for success, or ``killed``."""
        self._jobs += 1
        self.hint = ""
        self.world.Note(
            f"$ {op.OP_ID} { ({k: v for k, v in op.ToDict().items() if v and k not in ('OP_ID', 'reason')}) }"
        )
        try:
            mcpu.Processor(self.context, self._jobs, self.parts.units).ExecOpCode(op, Callbacks(self.world))
            self.world.Note("  = done")
            return ""
        except Killed:
            self.StartMaster()
            return "killed"
        except errors.GenericError as err:
            self.world.Note(f"  = {err}")
            self.hint = str(err.hint or "")
            return str(err)

    # --- questions ----------------------------------------------------------------------------------------------------

    def Uuid(self, name: str) -> str:
        return self._uuids[name]

    def HostOf(self, uuid: str) -> Host:
        return self.world.hosts[self.cfg.Snapshot().nodes[uuid].name]

    @property
    def instance(self) -> objects.Instance:
        return self.cfg.Snapshot().instances[UUID]

    @property
    def primary(self) -> Host:
        return self.HostOf(self.instance.primary_node)

    def Set(self, name: str, **values: Any) -> None:
        """An administrator changes a node."""
        self.cfg.Update(self.cfg.Snapshot().nodes[self.Uuid(name)].Replace(**values))

    def Ask(self, procedure: str, host: Host, *args: Any) -> Any:
        """A call of our own, to see what a query would: None without an answer."""
        if not (host.on and host.noded):
            return None
        assert not PROCEDURES[procedure].changes
        before = runtime.CurrentSide()
        host.serving = host.incarnation
        runtime.EnterSide(host.side)
        try:
            return self.parts.Handlers()[procedure](*args)
        except (errors.GenericError, Killed):
            return None
        finally:
            runtime.EnterSide(before)
