"""The client of LUXI: one method per call.

Light to import: command line programs start with it.  ``asyncclient`` is the one for programs with an event loop; both leave
the bytes to ``protocol``, and nothing outside this room builds or reads messages.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, pathutils, runtime, ssconf
from ganeti.luxi import peer, protocol

if TYPE_CHECKING:
    from ganeti.runtime import protocols

FORCE_SOCKET = "FORCE_LUXI_SOCKET"

# 3.x: the connection broke, so connect and send again; seconds before each try (doc/reference/luxi.md 1.1).
RETRY_DELAYS = tuple(range(0, 75, 5))

# Seconds after which an answer is late, besides those that a call may take because it was asked to wait for something.
LATE = 10.0
# Calls that wait -> place of the argument that says for how long.
_WAITING_CALLS = {"WaitForJobChange": 4, "WaitForEvents": 2, "AutoArchiveJobs": 1}

_RECV_SIZE = 64 * 1024
_SEND_SIZE = 1 << 20

Operations = Sequence[Any]


def SocketPath() -> str:
    """Return the socket for clients: ``FORCE_LUXI_SOCKET`` may say master, query or a path."""
    forced = runtime.Environment().get(FORCE_SOCKET, "")
    return {"": pathutils.QUERY_SOCKET, "query": pathutils.QUERY_SOCKET, "master": pathutils.MASTER_SOCKET}.get(
        forced, forced
    )


def Listens() -> bool:
    """Return whether a master daemon accepts connections here; true also where this user may not find out."""
    try:
        runtime.ConnectUnix(SocketPath(), 1.0).close()
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def RetryingText(seconds: float) -> str:
    """Return what a program says to people while it tries for so long to reach the master daemon."""
    from ganeti.utils.text import TryingAgain  # most programs need it never

    return f"The master daemon does not answer; {TryingAgain(seconds)} (Ctrl-C to stop)"


def LateText(seconds: float) -> str:
    """Return what a program says to people when it has waited so long for an answer of the master daemon."""
    return (
        f"The master daemon has not answered for {seconds:.0f} seconds and is still waited for (Ctrl-C to stop);"
        f" {pathutils.DaemonLog(constants.MASTERD)} may say why, but not while its process is stopped"
    )


class Transport:
    """One connection: sends a message, waits for the answer; ``late`` is called once for each answer that is late."""

    def __init__(
        self,
        path: str,
        connect_timeout: float = protocol.CONNECT_TIMEOUT,
        io_timeout: float = protocol.IO_TIMEOUT,
        retrying: Callable[[float], None] = lambda seconds: None,
        late: Callable[[float], None] = lambda seconds: None,
    ):
        self._path = path
        self._retrying = retrying
        self._late = late
        self._io_timeout = io_timeout
        self._framer = protocol.Framer()
        self._sock = self._Connect(connect_timeout)

    def _Connect(self, timeout: float) -> protocols.Socket:
        """Try once a second until the time is over, unless trying again makes no sense."""
        deadline = runtime.Monotonic() + timeout
        told = False
        while True:
            try:
                sock = runtime.ConnectUnix(self._path, max(deadline - runtime.Monotonic(), 0.1))
            except OSError as err:
                self._JudgeConnectError(err, runtime.Monotonic() + 1 > deadline)
            else:
                try:
                    peer.Check(self._path, sock)
                except protocol.StrangerError:
                    sock.close()
                    raise
                sock.settimeout(self._io_timeout)
                return sock
            if not told:
                self._retrying(deadline - runtime.Monotonic())
                told = True
            runtime.Sleep(1)

    def _JudgeConnectError(self, err: OSError, last: bool) -> None:
        """Raise unless another try may succeed."""
        if err.errno in (errno.EPERM, errno.EACCES):
            raise protocol.PermissionError(
                self._path, hint="use an account of the group that owns the socket, or root"
            ) from err
        if err.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
            # Elsewhere no daemon will come up, however long one waits.
            if last or not ssconf.SimpleStore().IsMaster():
                raise protocol.NoMasterError(
                    self._path, hint="run this on the master node; 'gnt-cluster getmaster' names it"
                ) from err
        elif isinstance(err, TimeoutError) or err.errno == errno.EAGAIN:
            if last:
                raise protocol.TimeoutError(f"Connecting to {self._path} took too long") from err
        else:
            raise protocol.ProtocolError(f"Cannot connect to {self._path}: {err}") from err

    def Call(self, message: bytes, late_after: float = LATE) -> bytes:
        """Send ``message`` (with its end mark), return the answer without it."""
        deadline = runtime.Monotonic() + 2 * self._io_timeout
        try:
            for start in range(0, len(message), _SEND_SIZE):
                self._sock.sendall(message[start : start + _SEND_SIZE])
            data = self._First(late_after)
            while True:
                if not data:
                    raise protocol.ConnectionClosedError("The master daemon closed the connection")
                complete = self._framer.Feed(data)
                if complete:
                    return b"".join(complete[0])
                if runtime.Monotonic() > deadline:
                    raise protocol.TimeoutError("The master daemon's answer did not end in time")
                data = self._sock.recv(_RECV_SIZE)
        except TimeoutError as err:
            raise protocol.TimeoutError(
                f"No answer from the master daemon within {self._io_timeout} seconds",
                hint="the request may still be carried out: look with 'gnt-job list'",
            ) from err
        except OSError as err:
            raise protocol.ConnectionClosedError(f"The connection to the master daemon broke: {err}") from err

    def _First(self, late_after: float) -> bytes:
        """Return the beginning of the answer; call ``late`` if it does not come in time."""
        if late_after >= self._io_timeout:
            return self._sock.recv(_RECV_SIZE)
        self._sock.settimeout(late_after)
        try:
            return self._sock.recv(_RECV_SIZE)
        except TimeoutError:
            self._late(late_after)
            self._sock.settimeout(self._io_timeout - late_after)
            return self._sock.recv(_RECV_SIZE)
        finally:
            self._sock.settimeout(self._io_timeout)

    def Close(self) -> None:
        self._sock.close()


def _Plain(ops: Iterable[Any]) -> list[Any]:
    """Return opcode objects as JSON objects."""
    return [op.ToDict() if hasattr(op, "ToDict") else op for op in ops]


def _AskedToWait(method: str, args: Sequence[Any]) -> float:
    """Return the seconds for which the daemon may wait before it answers this call."""
    place = _WAITING_CALLS.get(method, len(args))
    timeout = args[place] if place < len(args) else 0
    return timeout if isinstance(timeout, (int, float)) else 0


class Client:
    """Calls methods of the master daemon; connects at the first call.  Not for use by several threads at once.

    Errors: those of the called method, and protocol.ProtocolError and its children.  A connection that breaks is made
    anew and the request sent again: a submission may then happen twice (``doc/luxi.rst``), never get lost unnoticed.
    """

    def __init__(
        self,
        path: str | None = None,
        connect_timeout: float = protocol.CONNECT_TIMEOUT,
        io_timeout: float = protocol.IO_TIMEOUT,
        retry_delays: Sequence[float] = RETRY_DELAYS,
    ):
        self._path = path or SocketPath()
        self._connect_timeout = connect_timeout
        self._io_timeout = io_timeout
        self._retry_delays = retry_delays
        self._transport: Transport | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.Close()

    def Close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.Close()

    def Retrying(self, seconds: float) -> None:
        """Do nothing; called when the daemon cannot be reached and is tried again for so long."""

    def Late(self, seconds: float) -> None:
        """Do nothing; called once for each answer that has not come after so long and is still waited for."""

    def Call(self, method: str, args: Sequence[Any] = ()) -> Any:
        """Call a method by name; return its result or raise its error."""
        message = protocol.EncodeRequest(method, list(args))
        late_after = LATE + _AskedToWait(method, args)
        for delay in self._retry_delays:
            runtime.Sleep(delay)
            try:
                return self._CallOnce(message, late_after)
            except protocol.ConnectionClosedError:
                continue
        return self._CallOnce(message, late_after)

    def _CallOnce(self, message: bytes, late_after: float) -> Any:
        if self._transport is None:
            self._transport = Transport(self._path, self._connect_timeout, self._io_timeout, self.Retrying, self.Late)
        try:
            answer = self._transport.Call(message, late_after)
        except BaseException:
            self.Close()  # an answer that still comes must not be taken for that of the next call
            raise
        return protocol.DecodeResponse(answer)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def SubmitJob(self, ops: Operations) -> int:
        """Store a job, return its id."""
        return int(self.Call("SubmitJob", [_Plain(ops)]))

    def SubmitJobToDrainedQueue(self, ops: Operations) -> int:
        return int(self.Call("SubmitJobToDrainedQueue", [_Plain(ops)]))

    def SubmitManyJobs(self, jobs: Iterable[Operations]) -> list[list[Any]]:
        """Return [true, id] or [false, error text] for each job."""
        return self.Call("SubmitManyJobs", [[_Plain(ops) for ops in jobs]])

    def CancelJob(self, job_id: int, kill: bool = False) -> list[Any]:
        """Return [whether it worked, text]."""
        return self.Call("CancelJob", [job_id, kill])

    def CancelManyJobs(self, job_ids: Sequence[int], kill: bool = False) -> list[list[Any]]:
        """Return [whether it worked, text] for each."""
        return self.Call("CancelManyJobs", [list(job_ids), kill])

    def ChangeJobPriority(self, job_id: int, priority: int) -> list[Any]:
        return self.Call("ChangeJobPriority", [job_id, priority])

    def ArchiveJob(self, job_id: int) -> bool:
        return self.Call("ArchiveJob", [job_id])

    def AutoArchiveJobs(self, age: int) -> list[int]:
        """Return [archived, not examined]; age in seconds, -1 for every finished job."""
        return self.Call("AutoArchiveJobs", [age, self._WaitTimeout()])

    def _WaitTimeout(self) -> float:
        return (self._io_timeout - 1) // 2

    def WaitForJobChangeOnce(
        self,
        job_id: int,
        fields: Sequence[str],
        prev_info: Sequence[Any] | None,
        prev_log_serial: int | None,
        timeout: float | None = None,
    ) -> Any:
        """Return [values, log entries]; "nochange" (2.x masters) or unchanged values after ``timeout`` seconds."""
        if timeout is None:
            timeout = self._WaitTimeout()
        capped = max(0, min(timeout, self._WaitTimeout()))
        return self.Call("WaitForJobChange", [job_id, list(fields), prev_info, prev_log_serial, capped])

    def WaitForJobChange(
        self, job_id: int, fields: Sequence[str], prev_info: Sequence[Any] | None, prev_log_serial: int | None
    ) -> tuple[list[Any], list[Any]]:
        """Wait until the values differ from ``prev_info`` or there are log entries after ``prev_log_serial``.

        Calls again while nothing changes, so neither "nochange" nor an answer at the time-out is ever seen.  Raises
        errors.JobLost for a job that is unknown or archived.
        """
        while True:
            start = runtime.Monotonic()
            answer = self.WaitForJobChangeOnce(job_id, fields, prev_info, prev_log_serial)
            if answer == "nochange":
                continue
            if answer is None:
                raise errors.JobLost(f"Job {job_id} lost")
            values, log = answer
            # Unchanged values that come early are those of a job that has ended.
            if log or values != prev_info or runtime.Monotonic() - start < self._WaitTimeout():
                return values, log

    def WaitForEvents(
        self, last_id: str | None, kinds: Sequence[str] | None = None, timeout: float | None = None
    ) -> Any:
        """Return ``{"last", "missed", "events"}`` (luxi.events): what follows an event, or nothing after ``timeout`` seconds."""
        if timeout is None:
            timeout = self._WaitTimeout()
        wanted = None if kinds is None else list(kinds)
        return self.Call("WaitForEvents", [last_id, wanted, max(0, min(timeout, self._WaitTimeout()))])

    def QueryMetrics(self) -> dict[str, Any]:
        return self.Call("QueryMetrics", [])

    # --- the remote interface -----------------------------------------------------------------------------------------

    def QueryRapiTokens(self, names: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return the tokens of these names that exist, or all; ``expires`` is null for one that does not."""
        found: list[dict[str, Any]] = self.Call("QueryRapiTokens", [None if names is None else list(names)])
        return found

    # --- queries ------------------------------------------------------------------------------------------------------

    def Query(self, what: str, fields: Sequence[str], qfilter: list[Any] | None = None) -> dict[str, Any]:
        return self.Call("Query", [what, list(fields), qfilter])

    def QueryFields(self, what: str, fields: Sequence[str] | None = None) -> dict[str, Any]:
        return self.Call("QueryFields", [what, None if fields is None else list(fields)])

    def QueryJobs(self, ids: Sequence[int] | None, fields: Sequence[str]) -> list[list[Any]]:
        return self.Call("QueryJobs", [ids, list(fields)])

    def QueryInstances(self, names: Sequence[str], fields: Sequence[str]) -> list[list[Any]]:
        return self.Call("QueryInstances", [list(names), list(fields), False])

    def QueryNodes(self, names: Sequence[str], fields: Sequence[str]) -> list[list[Any]]:
        return self.Call("QueryNodes", [list(names), list(fields), False])

    def QueryGroups(self, names: Sequence[str], fields: Sequence[str]) -> list[list[Any]]:
        return self.Call("QueryGroups", [list(names), list(fields), False])

    def QueryNetworks(self, names: Sequence[str], fields: Sequence[str]) -> list[list[Any]]:
        return self.Call("QueryNetworks", [list(names), list(fields), False])

    def QueryExports(self, nodes: Sequence[str]) -> list[list[Any]]:
        return self.Call("QueryExports", [list(nodes), False])

    def QueryClusterInfo(self) -> dict[str, Any]:
        return self.Call("QueryClusterInfo")

    def QueryConfigValues(self, fields: Sequence[str]) -> list[Any]:
        return self.Call("QueryConfigValues", [list(fields)])

    def QueryTags(self, kind: str, name: str) -> list[str]:
        return self.Call("QueryTags", [kind, name])

    # --- filters, flags -----------------------------------------------------------------------------------------------

    def QueryFilters(self, uuids: Sequence[str] | None, fields: Sequence[str]) -> list[list[Any]]:
        return self.Call("QueryFilters", [uuids, list(fields)])

    def ReplaceFilter(
        self, uuid: str | None, priority: int, predicates: list[Any], action: Any, reason: list[Any]
    ) -> str:
        """Write a filter rule, a new one if ``uuid`` is None; return its UUID."""
        return self.Call("ReplaceFilter", [uuid, priority, predicates, action, reason])

    def DeleteFilter(self, uuid: str) -> None:
        self.Call("DeleteFilter", [uuid])

    def SetDrainFlag(self, flag: bool) -> bool:
        return self.Call("SetDrainFlag", [flag])

    def SetWatcherPause(self, until: float | None) -> float | None:
        return self.Call("SetWatcherPause", [until])
