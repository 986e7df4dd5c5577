"""The master: its parts put together, its life from the opened store to the last file.

::

    start: queue lock -> vote -> store opened (quorum) -> configuration, locks -> files exact -> queue -> LUXI -> address
    stop:  no new jobs -> wait for running ones -> LUXI answers out -> queue, store -> files exact

``masterd`` makes a daemon of it.  Everything but waiting for the end happens on the threads of doc/architecture.rst.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ganeti import _autoconf, constants, daemon, errors, locking, mcpu, pathutils, runtime, watcherpause
from ganeti.cmdlib.allocation import ask, proofs
from ganeti.cmdlib.context import Context
from ganeti.config import ConfigWriter, VotersOf
from ganeti.daemon import users
from ganeti.daemon.main import ErrorText
from ganeti.jqueue import JobQueue
from ganeti.jqueue import directory as queue_directory
from ganeti.jqueue.scheduler import DEFAULT_MAX_RUNNING
from ganeti.luxi.server import Server
from ganeti.master.querydata import QueryData
from ganeti.rpc import RpcResult, RpcRunner
from ganeti.rpc.curl import CurlTransport
from ganeti.rpc.resolver import SnapshotResolver
from ganeti.server import exporting, opening, ownnode
from ganeti.server.eventring import EventRing
from ganeti.server.handlers import Handlers
from ganeti.server.hanging import HangingCalls
from ganeti.server.metering import Meter
from ganeti.server.mirrorkeeper import MirrorKeeper
from ganeti.server.ssconfpush import SsconfPusher
from ganeti.store import Member, NodeStore, StoreError
from ganeti.store.files import export

if TYPE_CHECKING:
    from ganeti.rpc import Transport

# Seconds a stop waits for running jobs; daemon-util waits 30 for all of it.
STOP_WAIT = 20.0
LINGER = 3.0


class Master:
    """All parts of the master daemon.  ``ended(error)`` is called, on any thread, when this master must stop.

    The classes it is made of are named here; a simulation puts others in their places.
    """

    transport_class: Callable[[], Transport] = CurlTransport
    node_store_class = NodeStore
    opener_class = opening.Opener
    config_class = ConfigWriter
    queue_class = JobQueue
    events_class = EventRing
    exporter_class = export.Exporter

    def __init__(self, wishes: opening.Wishes, ended: Any):
        self._ended = ended
        self._cfg: ConfigWriter | None = None
        self._transport = self.transport_class()
        self._own = ownnode.OwnStore(self.node_store_class)
        self._queue_lock = queue_directory.Own(*_Ids(constants.MASTERD))
        ears = opening.Ears(ended, self._Resolve, self._Candidates)
        opener = self.opener_class(self._own, self._transport, wishes, ears)
        self._store, self._me = opener.Open()
        self._cfg = cfg = self.config_class(self._store)
        self._glm = self._MakeLocks(cfg)
        self._rpc = RpcRunner(
            self._store.transport,
            SnapshotResolver(cfg.Snapshot),
            lambda: str(self._store.ActingEpoch()),
            cfg.Snapshot,
            self._store.Refused,
            self._me.name,
        )
        self._query = QueryData(
            cfg.Snapshot,
            self._rpc,
            lambda ids, archived: self._queue.Views(ids, archived),
            lambda: list(self._glm.QueryLocks()),
            lambda: self._queue.drained,
            watcherpause.PausedUntil,
            proofs.FromPayloads,
        )
        context = Context(cfg, self._glm, self._rpc, self._store, self._rpc.call_hooks_runner, self._query)
        self._events = self.events_class(self._store.Epoch(), cfg.Snapshot)
        self._queue = self.queue_class(
            self._store,
            mcpu.Execute(context),
            self._QueueSettings,
            self._EndCalls,
            lambda job_id: self._glm.EndWaits(str(job_id)),
            announce=self._events.JobChanged,
            end_asking=self._EndAsking,
        )
        owner = (_Ids(constants.MASTERD)[0], users.GroupId(_autoconf.DAEMONS_GROUP))
        self._server = Server(
            (pathutils.MASTER_SOCKET, pathutils.QUERY_SOCKET), self._MakeHandlers(cfg).Handle, owner=owner
        )
        texts = exporting.SsconfTexts() if exporting.MasterWritesSsconf() else None
        self._exporter = export.ExporterThread(
            self.exporter_class(self._own, exporting.FileOwners(), texts, serving=True, look=opener.look), self._store
        )
        self._pusher = SsconfPusher(self._store, cfg.Snapshot, self._rpc)
        self._keeper = MirrorKeeper(
            self._store,
            cfg.Snapshot,
            self._rpc,
            lambda ops: self._queue.SubmitJob(ops, to_drained=True),
            self._queue.StatusOf,
        )

    def _EndCalls(self, thread: int, still: Callable[[], bool]) -> int:
        return self._rpc.Abort(thread, still=still)

    def _EndAsking(self, thread: int, still: Callable[[], bool]) -> int:
        return self._rpc.Abort(thread, ask.PROCEDURE, still)

    def _MakeHandlers(self, cfg: ConfigWriter) -> Handlers:
        meter = Meter(
            cfg.Snapshot,
            self._queue,
            self._store,
            self._store.durations,
            [self._rpc.times, self._store.calls],
            HangingCalls(cfg.Snapshot, self._rpc).Counts,
        )
        return Handlers(cfg, self._queue, self._query, self._rpc, self._store, self._events, meter)

    @staticmethod
    def _MakeLocks(cfg: ConfigWriter) -> locking.LockManager:
        root = cfg.Snapshot()
        names = [inst.name for inst in root.instances.values() if inst.name is not None]
        return locking.LockManager(root.nodes, root.nodegroups, names, root.networks)

    def _Resolve(self, node: str) -> Any:
        if self._cfg is None:
            raise errors.OpPrereqError(f"Node '{node}' is not known yet", errors.ECODE_NOENT)
        return SnapshotResolver(self._cfg.Snapshot)(node)

    def _Candidates(self) -> Iterable[Member] | None:
        return None if self._cfg is None else VotersOf(self._cfg.Snapshot())

    def _QueueSettings(self) -> tuple[int, Any]:
        assert self._cfg is not None
        root = self._cfg.Snapshot()
        return root.cluster.max_running_jobs or DEFAULT_MAX_RUNNING, root.filters

    # --- life ---------------------------------------------------------------------------------------------------------

    def Start(self) -> None:
        """Begin to serve; what fails here ends the daemon's start."""
        self._exporter.Start()
        self._events.Start(self._store)
        self._queue.Start()
        runtime.MakeDirs(pathutils.SOCKET_DIR, 0o770)
        self._server.Start()
        self._pusher.Start()
        self._keeper.Start()
        self._ActivateAddress()
        logging.info("This node, %s, is the master in epoch %s", self._me.name, self._store.Epoch())

    def _ActivateAddress(self) -> None:
        """Bring up the cluster's address, which belongs to the master (design 2.0); the daemon survives a failure."""
        assert self._cfg is not None

        def done(result: RpcResult) -> None:
            if result.fail_msg:
                logging.error("The cluster's address could not be brought up: %s", result.fail_msg)

        cluster = self._cfg.Snapshot().cluster
        args = [self._cfg.GetMasterNetworkParameters()._asdict(), cluster.use_external_mip_script]
        self._rpc.Start("node_activate_master_ip", [self._me.uuid], args, done)

    def Quiesce(self, timeout: float, impatient: Any) -> list[int]:
        """Stop accepting jobs and wait for those that run; return those that still do.

        ``impatient()`` ends the wait early.
        """
        self._queue.Close()
        deadline = runtime.Monotonic() + timeout
        while not self._queue.WaitIdle(0.2):
            if runtime.Monotonic() >= deadline or impatient():
                return self._queue.RunningJobs()
        return []

    def GoOn(self) -> None:
        """Accept jobs again after a Quiesce that did not succeed."""
        self._queue.Reopen()

    def Stop(self, clean: bool) -> None:
        """End everything in order; ``clean``: this node still owns the store."""
        self._keeper.Stop()
        self._pusher.Stop()
        self._queue.Stop()
        self._events.Stop()
        self._server.Shutdown(LINGER)
        self._store.Stop(10.0)
        if clean:
            try:
                self._exporter.Stop()
            except (OSError, errors.GenericError) as err:
                logging.error("The files could not be brought up to date: %s", err)
        self._transport.Close()
        self._own.Close()
        self._queue_lock.release()


def _Ids(name: str) -> tuple[int, int]:
    user, group = users.DAEMON_USERS[name]
    return users.UserId(user), users.GroupId(group)


class Service:
    """A master at work: begins to serve when it is made, and ends by a signal or because it is refused.

    OSError and GenericError at the start mean that it does not come up.  ``make(wishes, ended)`` makes the master.
    """

    def __init__(self, wishes: opening.Wishes, make: Callable[..., Master] = Master):
        self._lost: StoreError | None = None
        self._stop: daemon.StopSignal | None = None
        self._master = make(wishes, self._Lost)
        self._master.Start()

    def _Lost(self, error: StoreError) -> None:
        self._lost = error
        if self._stop is not None:
            self._stop.set()

    def Run(self, stop: daemon.StopSignal) -> int:
        """Wait until this master must end, end it, and return the exit code."""
        self._stop = stop
        while True:
            if self._lost is None:
                stop.wait()
            if self._lost is not None:
                return self._EndLost(self._lost)
            running = self._master.Quiesce(STOP_WAIT, lambda: stop.count > 1 or self._lost is not None)
            if self._lost is not None:
                continue
            if not running or stop.count > 1:
                if running:
                    logging.warning("Stopping although jobs run: %s; they will be errors at the next start", running)
                self._master.Stop(clean=True)
                return constants.EXIT_SUCCESS
            logging.error(
                "Not stopping: jobs %s still run; try again when they have ended, or send the signal a second time within"
                " %d seconds to stop anyway",
                ", ".join(map(str, running)),
                STOP_WAIT,
            )
            stop.clear()
            self._master.GoOn()

    def _EndLost(self, error: StoreError) -> int:
        """End without touching anything: another node is the master now."""
        logging.error("%s", ErrorText(error))
        self._master.Stop(clean=False)
        return error.exit_code
