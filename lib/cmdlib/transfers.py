"""The master's side of disks that travel between machines (doc/design-transfers.rst).

A *program* is one run of ``import-export`` on a node, the sending or the receiving end of one disk's stream.  A receiving
program is started first; when it listens, the sending one is started, on another node of this cluster or by another cluster.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, pathutils, runtime
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.params import checks

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc import RpcResult

# What the node's procedures take as IO (doc/reference/noderpc.md 3.1): ("file", path) below the export directory,
# ("raw", (disk, instance)) or ("script", ((disk, instance), index)), the disk being set up on the node.
End = tuple[str, Any]

_CANCELED = "canceled because another disk failed"
_MAGIC_VERSION = 0
# Seconds in which a program must report, then listen; a busy node is slow in starting Python.
_READY_SECONDS = 60.0
# Seconds in which a receiver inside this cluster waits for its sender.
_CONNECT_SECONDS = 60
# Seconds in which a node may fail to answer while its program goes on.
_SILENCE_SECONDS = 60.0
# Seconds in which one end must notice that the other one has failed; TCP takes as long where a machine is gone.
_LINGER_SECONDS = 120.0
# For the start of a program, a look at those of a node, and the end of one, which has the time to end its own programs.
_START_SECONDS, _CALL_SECONDS, _CLEANUP_SECONDS = 120.0, 20.0, 60.0
_REPORT_SECONDS = 60.0
# A transfer that is connected may take as long as it wants, as scripts do; that nothing moves is said.
_STALL_SECONDS = 600.0
# The pause between two looks grows with the time that the transfer has taken.
_MIN_PAUSE, _MAX_PAUSE, _PAUSE_SHARE = 0.2, 5.0, 0.1


@dataclasses.dataclass(frozen=True)
class DiskTransfer:
    """The way of an instance's disk from a source on one node to a target on another; an end in another cluster is None.

    ``limit``: the most MiB that a file may take.  ``read`` is called once, when nothing reads the source any longer: a snapshot
    may go then.
    """

    index: int
    source: End | None
    target: End | None
    read: Callable[[], None] = lambda: None
    limit: int | None = None

    @property
    def component(self) -> str:
        """Return what names it in the files of nodes."""
        return f"disk{self.index}"


@dataclasses.dataclass(frozen=True)
class Trust:
    """Whose certificate counts in a stream: that of the cluster, or for another cluster a key of the node and its peer's CA."""

    key_name: str | None = None
    ca_pem: str | None = None

    def Options(self) -> dict[str, Any]:
        return {"key_name": self.key_name, "ca_pem": self.ca_pem}


CLUSTER = Trust()


@dataclasses.dataclass(frozen=True)
class Address:
    """Where another cluster receives a disk, and the text by which both ends know that they mean the same one."""

    host: str
    port: int
    magic: str


def DiskEnd(instance: objects.Instance, disk: objects.Disk, index: int) -> End:
    """Return how a disk is read or written: by a script of the instance's operating system, or without one as raw data."""
    return ("script", ((disk, instance), index)) if instance.os else ("raw", (disk, instance))


def CheckCompression(snapshot: objects.Snapshot, tool: str) -> None:
    """Raise OpPrereqError unless the cluster allows this program to compress streams."""
    tools = snapshot.cluster.compression_tools
    if tool not in (constants.NO_COMPRESSION, *tools):
        more = ",".join([*tools, tool])
        raise errors.OpPrereqError(
            f"Compression tool '{tool}' is not allowed in this cluster; allowed are"
            f" {', '.join([constants.NO_COMPRESSION, *tools])}",
            errors.ECODE_INVAL,
            hint=f"install it on all nodes, then 'gnt-cluster modify --compression-tools={more}' allows it"
            if checks.IsCompressionTool(tool)
            else None,
        )


def NewMagicBase() -> str:
    """Return the secret from which the magic texts of one job are made."""
    return runtime.RandomBytes(6).hex()


def Magic(base: str, instance_name: str, index: int) -> str:
    """Return the text that the stream of a disk begins with (doc/reference/interfaces.md f.2)."""
    text = f"{_MAGIC_VERSION}{base}{instance_name}{index}"
    return hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).hexdigest()


# --- what units call ----------------------------------------------------------------------------------------------------


def TransferDisks(
    lu: LogicalUnit,
    feedback: Feedback,
    instance: objects.Instance,
    source_uuid: str,
    target_uuid: str,
    transfers: Sequence[DiskTransfer],
    compress: str,
) -> str | None:
    """Send all disks at the same time; return what failed, disk by disk, or None.

    Never raises for a transfer that fails; raises OpExecError if the job was killed.  When it returns, no program of it runs on either node as far as these answer.
    """
    base = NewMagicBase()
    host = lu.snapshot.nodes[target_uuid].secondary_ip
    with _Monitored(lu, feedback) as monitor:
        pairs = []
        for transfer in transfers:
            options = _Options(compress, Magic(base, instance.name, transfer.index), host)
            send = functools.partial(_Sender, lu, instance, source_uuid, transfer, options, host)
            receiver = _Receiver(
                lu, instance, target_uuid, transfer, {**options, "bind": host, "limit": transfer.limit}
            )
            pairs.append(_Pair(monitor, receiver, send))
        monitor.Run()
        return _Failures(pairs)


def SendDisks(
    lu: LogicalUnit,
    feedback: Feedback,
    instance: objects.Instance,
    transfers: Sequence[DiskTransfer],
    addresses: Sequence[Address],
    trust: Trust,
    compress: str,
) -> str | None:
    """Send disks of the primary node to another cluster; return what failed, disk by disk, or None."""
    with _Monitored(lu, feedback) as monitor:
        senders = []
        for transfer, address in zip(transfers, addresses, strict=True):
            options = _Options(compress, address.magic, address.host, trust)
            sender = _Sender(lu, instance, instance.primary_node, transfer, options, address.host, address.port)
            sender.on_end = transfer.read
            senders.append(sender)
            monitor.Add(sender)
        monitor.Run()
        return _Failures(senders)


def ReceiveDisks(
    lu: LogicalUnit,
    feedback: Feedback,
    instance: objects.Instance,
    transfers: Sequence[DiskTransfer],
    trust: Trust,
    compress: str,
    seconds: int,
    listening: Callable[[list[Address]], None],
) -> str | None:
    """Receive disks on the primary node from another cluster; return what failed, disk by disk, or None.

    ``listening`` gets all addresses once all programs listen; the other cluster has ``seconds`` to connect.
    """
    base = NewMagicBase()
    host = lu.snapshot.nodes[instance.primary_node].primary_ip
    with _Monitored(lu, feedback) as monitor:
        receivers = []
        for transfer in transfers:
            options = _Options(compress, Magic(base, instance.name, transfer.index), host, trust, seconds)
            receiver = _Receiver(lu, instance, instance.primary_node, transfer, {**options, "bind": host}, seconds)
            receivers.append(receiver)
            monitor.Add(receiver)

        def tell(_port: int) -> None:
            ports = [receiver.port for receiver in receivers]
            if all(ports):
                magics = [receiver.options["magic"] for receiver in receivers]
                listening([Address(host, port, magic) for port, magic in zip(ports, magics, strict=True) if port])

        for receiver in receivers:
            receiver.on_listening = tell
        if not receivers:
            listening([])
        monitor.Run()
        return _Failures(receivers)


def RemoveKey(lu: LogicalUnit, node_uuid: str, key_name: str) -> None:
    """Remove a key that was made on a node for a transfer between clusters; a failure is only reported."""
    result = lu.rpc.call_x509_cert_remove(node_uuid, key_name)
    result.Warn(f"Could not remove the key of the transfer on node {result.node_name}", lu.LogWarning)


def _Failures(ends: Iterable[_Program | _Pair]) -> str | None:
    """Return what failed, disk by disk, or None."""
    return "; ".join(f"disk {end.index}: {end.problem}" for end in ends if end.problem is not None) or None


def _Options(
    compress: str, magic: str, host: str, trust: Trust = CLUSTER, seconds: int = _CONNECT_SECONDS
) -> dict[str, Any]:
    """Return OBJ of import_start and export_start (doc/reference/noderpc.md 3.1)."""
    own = {"compress": compress, "magic": magic, "ipv6": ":" in host, "connect_timeout": seconds}
    return {**trust.Options(), **own}


# --- programs -----------------------------------------------------------------------------------------------------------


class _Program:
    """One run of the transfer program on a node.

    ``error`` is None while it runs and when it ended well.  ``on_end`` is called once, when it has ended or did not start.
    """

    doing, preposition, done = "", "", ""
    # What the node calls it in names of logs.
    kind = ""

    def __init__(
        self,
        lu: LogicalUnit,
        instance: objects.Instance,
        node_uuid: str,
        transfer: DiskTransfer,
        connect_seconds: float,
        reports: bool,
    ):
        self.node_uuid = node_uuid
        self.index = transfer.index
        self.component = transfer.component
        self.name: str | None = None
        self.ended = False
        # The master ended it, so its own error is not shown.
        self.aborted = False
        # When it must have ended.
        self.deadline: float | None = None
        self.error: str | None = None
        self.on_end: Callable[[], None] = lambda: None
        self._lu, self._instance = lu, instance
        # Whether it says how far the disk is: one end does.
        self._reports = reports
        self._node_name = lu.snapshot.NodeName(node_uuid)
        self._connect_seconds = connect_seconds
        self.connected = False
        self._started = self._answered = self._reported = self._moved = runtime.Monotonic()
        self._amount: Any = None

    @property
    def problem(self) -> str | None:
        """Return how it failed, without the disk; None if it has not."""
        return _CANCELED if self.error is not None and self.aborted else self.error

    @property
    def what(self) -> str:
        """Return what it does, for messages."""
        return f"{self.doing} {self.preposition} node {self._node_name}"

    @property
    def _log(self) -> str:
        """Return where its own messages are, and those of an operating system's script."""
        path = pathutils.OsLog(self.kind, "*", self._instance.name, self.component, "*")
        return f"see the newest {path} there"

    def Start(self) -> None:
        result = self._Begin()
        self._started = self._answered = self._reported = runtime.Monotonic()
        if result.fail_msg:
            self.Fail(f"{self.what} could not start: {result.fail_msg}")
        else:
            self.name = result.payload

    def _Begin(self) -> RpcResult:
        raise NotImplementedError

    def Fail(self, error: str) -> None:
        """End it, as far as the master is concerned; whoever runs it cleans up."""
        if not self.ended:
            self.ended, self.error = True, error
            self.on_end()

    def Look(self, status: Mapping[str, Any] | None, feedback: Feedback) -> None:
        """Take note of what the node reports; None if it does not know the program yet."""
        now = runtime.Monotonic()
        if status is None or not status:
            if now - self._answered > _READY_SECONDS:
                self.Fail(
                    f"node {self._node_name} has not reported on {self.doing} for {_READY_SECONDS:.0f} seconds; {self._log}"
                )
            return
        self._answered = now
        came = bool(status.get("connected")) and not self.connected
        self.connected = self.connected or came
        if status.get("exit_status") is not None:
            self._End(status)
            return
        if self.deadline is not None and now > self.deadline:
            self.Fail(
                f"{self.what} did not stop within {_LINGER_SECONDS:.0f} seconds after the other end failed; {self._log}"
            )
            return
        self._Listening(status, feedback)
        if came:
            self._reported = self._moved = now
            self._Connected(feedback)
        if self.connected:
            self._Report(status, now, feedback)
            self._WarnOfStall(status, now)
        elif now - self._started > self._connect_seconds + _READY_SECONDS:
            seconds = self._connect_seconds + _READY_SECONDS
            self.Fail(f"{self.what} had no connection after {seconds:.0f} seconds; is TCP between the nodes blocked?")

    def _WarnOfStall(self, status: Mapping[str, Any], now: float) -> None:
        """Say so when nothing has moved for long."""
        if status.get("progress_mbytes") != self._amount:
            self._amount, self._moved = status.get("progress_mbytes"), now
        elif now - self._moved > _STALL_SECONDS:
            self._moved = now
            self._lu.LogWarning(
                f"disk {self.index}: no data has moved on node {self._node_name} for {_STALL_SECONDS / 60:.0f} minutes;"
                f" {self._log}",
                hint=f"'gnt-job cancel --kill --yes-do-it {self._lu.ec_id}' ends the job, which cleans up",
            )

    def NodeSilent(self, reason: str) -> None:
        """Take note that the node does not answer."""
        if runtime.Monotonic() - self._answered > _SILENCE_SECONDS:
            self.Fail(
                f"{self.doing} was abandoned: node {self._node_name} has not answered for {_SILENCE_SECONDS:.0f} seconds"
                f" ({reason})"
            )

    def _End(self, status: Mapping[str, Any]) -> None:
        if status["exit_status"] == 0 and not status.get("error_message"):
            self.ended = True
            self.on_end()
            return
        why = status.get("error_message") or f"exit code {status['exit_status']}"
        output = [line for line in status.get("recent_output") or () if line not in str(why)]
        shown = f" ({'; '.join(map(str, output[-3:]))})" if output else ""
        self.Fail(f"{self.what} failed: {why}{shown}; {self._log}")

    def _Listening(self, status: Mapping[str, Any], feedback: Feedback) -> None:
        """Note where it listens; only receivers do."""

    def _Connected(self, feedback: Feedback) -> None:
        if self._reports:
            feedback(f"* {self.doing} disk {self.index} {self._Way()}")

    def _Way(self) -> str:
        """Return where the data comes from or goes to, for messages."""
        raise NotImplementedError

    def _Report(self, status: Mapping[str, Any], now: float, feedback: Feedback) -> None:
        if self._reports and now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            feedback(f"  disk {self.index}: {_DescribeProgress(status, self.done)}")


class _Receiver(_Program):
    doing, preposition, done = "receiving", "on", "received"
    kind = "import"

    def __init__(
        self,
        lu: LogicalUnit,
        instance: objects.Instance,
        node_uuid: str,
        transfer: DiskTransfer,
        options: dict[str, Any],
        connect_seconds: float = _CONNECT_SECONDS,
    ):
        super().__init__(lu, instance, node_uuid, transfer, connect_seconds, reports=transfer.source is None)
        self.transfer = transfer
        self.options = options
        self.port: int | None = None
        self.on_listening: Callable[[int], None] = lambda _port: None

    def _Begin(self) -> RpcResult:
        target = self.transfer.target
        assert target is not None
        known = (self._instance, target)
        return self._lu.rpc.call_import_start(self.node_uuid, self.options, known, self.component, target)

    def _Listening(self, status: Mapping[str, Any], feedback: Feedback) -> None:
        port = status.get("listen_port")
        if self.port is None and port:
            self.port = int(port)
            self.on_listening(self.port)

    def _Way(self) -> str:
        return f"on {self._node_name}"


class _Sender(_Program):
    doing, preposition, done = "sending", "from", "sent"
    kind = "export"

    def __init__(
        self,
        lu: LogicalUnit,
        instance: objects.Instance,
        node_uuid: str,
        transfer: DiskTransfer,
        options: dict[str, Any],
        host: str,
        port: int,
    ):
        super().__init__(lu, instance, node_uuid, transfer, _CONNECT_SECONDS, reports=True)
        self._source, self._options = transfer.source, options
        self._host, self._port = host, port

    def _Begin(self) -> RpcResult:
        assert self._source is not None
        known = (self._instance, self._source)
        return self._lu.rpc.call_export_start(
            self.node_uuid, self._options, self._host, self._port, known, self.component, self._source
        )

    def _Way(self) -> str:
        return f"from {self._node_name} to {self._host}"


def _DescribeProgress(status: Mapping[str, Any], done: str) -> str:
    """Return how far a program is, in words; ``done``: sent or received."""
    words = [f"{status.get('progress_mbytes') or 0:.0f} MiB {done}"]
    if status.get("progress_percent") is not None:
        words.append(f"{status['progress_percent']:.0f}%")
    if status.get("progress_throughput") is not None:
        words.append(f"{status['progress_throughput']:.1f} MiB/s")
    if status.get("progress_eta") is not None:
        words.append(f"{status['progress_eta']:.0f} s left")
    return ", ".join(words)


class _Pair:
    """Both ends of a stream inside this cluster."""

    def __init__(self, monitor: _Monitor, receiver: _Receiver, send: Callable[[int], _Sender]):
        self.index = receiver.index
        self._monitor, self._receiver, self._send = monitor, receiver, send
        self._read = receiver.transfer.read
        self._sender: _Sender | None = None
        receiver.on_listening = self._StartSender
        receiver.on_end = self._Received
        monitor.Add(receiver)

    def _StartSender(self, port: int) -> None:
        self._sender = self._send(port)
        self._sender.on_end = self._Sent
        self._monitor.Add(self._sender)

    def _Received(self) -> None:
        if self._sender is None:
            # Nothing will be read.
            self._read()
        elif self._receiver.error is not None:
            self._monitor.EndWith(self._receiver, self._sender)

    def _Sent(self) -> None:
        self._read()
        if self._sender is not None and self._sender.error is not None:
            self._monitor.EndWith(self._sender, self._receiver)

    @property
    def problem(self) -> str | None:
        """Return how it failed, without the disk; None if it has not."""
        failed = [program for program in (self._sender, self._receiver) if program is not None and program.error]
        said = [program.problem for program in failed if program.problem != _CANCELED]
        return "; ".join(map(str, said)) or (_CANCELED if failed else None)


# --- all together -------------------------------------------------------------------------------------------------------


class _Monitor:
    """Looks after all programs of one transfer until each has ended."""

    def __init__(self, lu: LogicalUnit, feedback: Feedback):
        self._lu, self._feedback = lu, feedback
        self._programs: list[_Program] = []
        self._waiting: list[_Program] = []

    def Add(self, program: _Program) -> None:
        """Have a program started at the next look."""
        self._waiting.append(program)

    def EndWith(self, failed: _Program, program: _Program) -> None:
        """Have a program end whose other end has failed.

        One that was connected notices, and has something to say itself; others would wait for nobody.
        """
        if program.name is None or program.ended:
            return
        if failed.connected or program.connected:
            program.deadline = runtime.Monotonic() + _LINGER_SECONDS
        else:
            self._Abort(program, program.name)

    def _Abort(self, program: _Program, name: str) -> None:
        program.aborted = True
        program.deadline = runtime.Monotonic() + _LINGER_SECONDS
        self._lu.rpc.call_impexp_abort(program.node_uuid, name)

    def Run(self) -> None:
        begun = runtime.Monotonic()
        while True:
            while self._waiting:
                program = self._waiting.pop(0)
                self._programs.append(program)
                if not program.ended:
                    with self._lu.rpc.Within(_START_SECONDS, _START_SECONDS):
                        program.Start()
            if all(program.ended for program in self._programs):
                return
            # A guest may be down until this is over, so a node that hangs is not waited for.
            with self._lu.rpc.Within(_CALL_SECONDS, _SILENCE_SECONDS):
                self._AskNodes()
                self._EndOthers()
            if not self._waiting:
                share = (runtime.Monotonic() - begun) * _PAUSE_SHARE
                self._lu.Pause(min(_MAX_PAUSE, max(_MIN_PAUSE, share)))

    def _AskNodes(self) -> None:
        """Ask each node once for all its programs."""
        by_node: dict[str, list[_Program]] = {}
        for program in self._programs:
            if not program.ended:
                by_node.setdefault(program.node_uuid, []).append(program)
        for node_uuid, programs in by_node.items():
            result = self._lu.rpc.call_impexp_status(node_uuid, [program.name or "" for program in programs])
            for index, program in enumerate(programs):
                if result.fail_msg:
                    program.NodeSilent(result.fail_msg)
                elif index < len(result.payload):
                    program.Look(result.payload[index], self._feedback)

    def _EndOthers(self) -> None:
        """Once a disk has failed, the others' data is of no use: end what sends or takes it."""
        failed = {program.index for program in self._programs if program.error is not None}
        if not failed:
            return
        for program in [*self._programs, *self._waiting]:
            if program.index in failed or program.ended or program.aborted:
                continue
            if program.name is None:
                program.aborted = True
                program.Fail(_CANCELED)
            else:
                self._Abort(program, program.name)

    def CleanUp(self) -> None:
        """End what still runs on the nodes and remove what they keep of it; a node that does not answer is asked once."""
        silent: set[str] = set()
        for program in [*self._programs, *self._waiting]:
            with self._lu.rpc.Within(_CLEANUP_SECONDS, _CLEANUP_SECONDS):
                program.Fail(f"{program.what} was canceled")
                if program.name is None or program.node_uuid in silent:
                    continue
                result = self._lu.rpc.call_impexp_cleanup(program.node_uuid, program.name)
            if result.failure is not None:
                silent.add(program.node_uuid)
            result.Warn(
                f"Could not clean up after {program.doing} disk {program.index} {program.preposition} node {result.node_name}",
                functools.partial(self._lu.LogWarning, hint="it is removed by the first transfer there after a day"),
            )


@contextmanager
def _Monitored(lu: LogicalUnit, feedback: Feedback) -> Iterator[_Monitor]:
    monitor = _Monitor(lu, feedback)
    try:
        yield monitor
    finally:
        monitor.CleanUp()
