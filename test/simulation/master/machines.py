"""Simulated nodes with real daemons: node daemon, exporter, master daemon, and the few programs they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulated.transport import ServeCalls, SimulatedTransport
from simulation.harness.cluster import Node
from simulation.master.watch import WatchedDispatcher
from support import configs

from ganeti import constants, daemon, errors, pathutils, runtime, ssconf, x509
from ganeti.bootstrap import failover
from ganeti.daemon import pidfile
from ganeti.rpc import RpcRunner
from ganeti.rpc.resolver import NodedPort, ResolveBySsconf
from ganeti.server import exporting, masterd, noded, opening
from ganeti.server.master import Service
from ganeti.store import Member
from ganeti.store.files import export

if TYPE_CHECKING:
    from simulated import Invocation, Process
    from simulation.master.cluster import MasterCluster

    from ganeti import objects
    from ganeti.store import NodeStore

CALLS_DIR = pathutils.CALLS_DIR
_POLL = 0.2
_STOP_TIMEOUT = 30.0
_START_TIMEOUT = 120.0
# What lives in memory on a machine of today.
_LINKS = (("/run", "/var/run"), ("/run/lock", "/var/lock"))
_FOLDERS = (
    (pathutils.DATA_DIR, 0o755),
    (pathutils.QUEUE_DIR, 0o750),
    (pathutils.JOB_QUEUE_ARCHIVE_DIR, 0o750),
    (pathutils.RUN_DIR, 0o775),
    (pathutils.SOCKET_DIR, 0o770),
    ("/run/lock", 0o755),
)


def Uuid(number: int) -> str:
    """Of the ``number``-th node, from 1."""
    return configs.Uuid(99 + number)


class MasterNode(Node):
    """A machine with everything a node of a cluster has."""

    cluster: MasterCluster

    def __init__(self, cluster: Any, number: int):
        super().__init__(cluster, number)
        self.member = Member(Uuid(number), self.machine.name, self.machine.address)
        self.files: dict[str, bytes] = {}
        self.serving = False
        self.failover: Process | None = None
        self._last_note = ""
        self.stop: daemon.StopSignal | None = None
        # What is done before the daemons come up again.
        self.at_boot: list[Callable[[], None]] = []
        self.machine.programs[pathutils.DAEMON_UTIL] = self._DaemonUtil
        self.machine.programs[pathutils.DEFAULT_MASTER_SETUP_SCRIPT] = self._SetUpAddress

    def NewStore(self) -> NodeStore:
        return self.cluster.parts.node_store(pathutils.STORE_FILE, self.name, CALLS_DIR)

    # --- node daemon --------------------------------------------------------------------------------------------------

    def _Boot(self) -> None:
        """What the system does before it starts daemons; a daemon for which there is no room is started again later."""
        try:
            self._Prepare()
        except OSError as err:
            self.cluster.Note(f"{self.name}: a daemon cannot start: {err}")
            raise SystemExit(1) from err

    def _Prepare(self) -> None:
        for target, link in _LINKS:
            if not runtime.Exists(link):
                runtime.MakeDirs(target)
                try:
                    runtime.Symlink(target, link)
                except FileExistsError:
                    pass  # another daemon was quicker
                runtime.WriteFile("/var/installed", b"")  # makes the links' names durable, as an installation does
        for path, mode in _FOLDERS:
            runtime.MakeDirs(path, mode)
        actions, self.at_boot = self.at_boot, []
        for action in actions:
            action()

    def _Noded(self) -> None:
        self._Boot()
        own = self.NewStore()
        passer = self.cluster.parts.passer(own, lambda: SimulatedTransport(self.cluster.network))
        handlers = {**noded.NodeHandlers(own), **passer.Handlers(), **self.cluster.workload.Handlers(self)}
        handlers = {name: self._Hearing(name, handler) for name, handler in handlers.items()}
        listener = runtime.ListenTcp("", NodedPort())
        runtime.Thread(_AcceptAll, "accept", (listener,)).start()
        dispatcher = WatchedDispatcher(handlers, own, self.name, self.cluster.watch)
        ServeCalls(self.cluster.network, dispatcher, _Admits)

    def _Export(self) -> None:
        self._Boot()
        exporter = self.cluster.parts.exporter(self.NewStore(), exporting.FileOwners(), exporting.SsconfTexts())
        export.RunExporter(exporter, lambda: False)

    def PutFiles(self, snapshot: objects.Snapshot, config: bytes | None) -> None:
        """What release 3.1 left on this node."""

        def put() -> None:
            self._Boot()
            if config is not None:
                runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, config, 0o640)
            runtime.WriteFile(pathutils.JOB_QUEUE_VERSION_FILE, export.QUEUE_VERSION, 0o640)
            ssconf.WriteSsconfFiles(ssconf.Values(snapshot))

        self.machine.Call(put)

    # --- master daemon ------------------------------------------------------------------------------------------------

    def StartMasterd(self, **options: Any) -> None:
        if self.name != self.cluster.edited_on and options.get("take_over"):
            self.cluster.edited_on = ""
        if self.machine.on and (self.masterd is None or not self.masterd.alive):
            self.finishing = self.stopping = self.stopped = self.serving = False
            self.stop = None
            self.cluster.open.pop(self.name, None)
            self.masterd = self.machine.StartProcess(lambda: self._Masterd(**options), "masterd")

    def _Masterd(self, take_over: bool = False, no_voting: bool = False) -> None:
        try:
            self._Boot()
            masterd.CheckRole(take_over)
            lock = pidfile.Lock(constants.MASTERD)
            self.stop = daemon.StopSignal()
            wishes = opening.Wishes(no_voting, no_voting, take_over)
            service = Service(wishes, lambda wishes, ended: self.cluster.parts.master(self, wishes, ended))
        except (errors.GenericError, OSError) as err:
            self._NoteOnce(f"{self.name}: masterd does not come up: {err}")
            if "edited by hand" in str(err):
                self.cluster.EditRefused(self, str(err))
            raise SystemExit(getattr(err, "exit_code", 1)) from err
        self.serving = True
        self.cluster.workload.Serving(self)
        code = service.Run(self.stop)
        self.serving = False
        self.stopped = code == constants.EXIT_SUCCESS
        self.cluster.Note(f"{self.name}: masterd ends with {code}")
        lock.release()
        raise SystemExit(code)

    def _NoteOnce(self, text: str) -> None:
        if text != self._last_note:
            self.cluster.Note(text)
        self._last_note = text

    def StopMasterd(self) -> None:
        """As a TERM signal from outside."""
        assert self.masterd is not None
        self.stopping = True
        if self.stop is not None:
            self.cluster.world.Launch(self.masterd.NewThread(self.stop.set, "signal", ()))

    # --- programs -----------------------------------------------------------------------------------------------------

    def _DaemonUtil(self, invocation: Invocation) -> int:
        words = invocation.argv[1:]
        extra = invocation.env.get("EXTRA_MASTERD_ARGS", "").split()
        if words[0] == "stop-master":
            return self._StopAndWait()
        if words[0] == "start-master" or words[:2] == ["start", constants.MASTERD]:
            options = [*words[2:], *extra]
            return self._StartAndWait(take_over=failover.TAKE_OVER in options, no_voting="--no-voting" in options)
        invocation.Complain(f"unknown: {' '.join(words)}\n")
        return 1

    def _StartAndWait(self, **options: Any) -> int:
        self.StartMasterd(**options)
        process = self.masterd
        deadline = runtime.Monotonic() + _START_TIMEOUT
        while process is not None and process.alive and not self.serving:
            if runtime.Monotonic() > deadline:
                return 1
            runtime.Sleep(_POLL)
        if process is None or not process.alive:
            return process.exit_code or 1 if process is not None else 1
        return 0

    def _StopAndWait(self) -> int:
        process = self.masterd
        if process is None or not process.alive:
            return 0
        if self.stop is None:
            process.Kill()
            return 0
        self.StopMasterd()
        return 0 if runtime.WaitProcess(process.pid, _STOP_TIMEOUT) else 1

    def _SetUpAddress(self, invocation: Invocation) -> int:
        address = invocation.env["MASTER_IP"]
        if invocation.argv[1] == "start":
            self.machine.addresses[address] = None
        else:
            self.machine.addresses.pop(address, None)
        return 0

    # --- the administrator at this machine ----------------------------------------------------------------------------

    def FailOver(self, choices: failover.Choices | None = None) -> None:
        """Runs gnt-cluster master-failover here."""

        def run() -> None:
            transport = SimulatedTransport(self.cluster.network)
            runner = RpcRunner(transport, ResolveBySsconf, lambda: None)
            try:
                outcome = failover.MasterFailover(runner, choices or failover.Choices())
                self.cluster.Note(f"{self.name}: fail-over done; {'; '.join(outcome.warnings) or 'no warnings'}")
            except (errors.GenericError, OSError) as err:
                self.cluster.Note(f"{self.name}: fail-over refused: {err}")

        if self.machine.on:
            self.cluster.Note(f"{self.name}: master-failover")
            self.failover = self.machine.StartProcess(run, "failover")

    def Restart(self) -> None:
        if not self.machine.on:
            for address in list(self.machine.addresses)[1:]:
                del self.machine.addresses[address]
        super().Restart()


def CertificateOf(name: str) -> str:
    """What stands for the digest of a node's certificate."""
    return x509.DigestOfDer(name.encode())


def _Admits(source: str) -> bool:
    """As server.nodepolicy.NodePolicy: who shows a certificate that no candidate has may not call."""
    candidates = ssconf.SimpleStore().GetMasterCandidatesCertMap().values()
    return not candidates or CertificateOf(source) in candidates


def _AcceptAll(listener: Any) -> None:
    """Whoever looks whether somebody is there finds that it is so."""
    while True:
        sock, _ = listener.accept()
        sock.close()
