"""The real transport: every call of the process through one thread and one curl multi handle.

::

    any thread --Submit--> inbox --eventfd--> the RPC thread: epoll -> curl.socket_action -> done(answer)

Connections are kept alive, at most two idle ones per node, and are not used again after ``MAX_IDLE`` seconds: a node ends
its side after 15, and a request must not meet that moment.  curl's own ``select`` is not used: it breaks above
descriptor 1023.
"""

from __future__ import annotations

import errno
import io
import logging
import os
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pycurl

from ganeti import constants, pathutils, renewal, runtime
from ganeti.rpc.base import ABORTED, MAX_BODY, Answer, Failure, Request
from ganeti.utils.files import IdentityOf

MAX_IDLE = 10  # seconds
SILENCE = 30  # seconds after which a machine that confirms nothing is taken for dead, however long a call may take
IDLE_PER_NODE = 2
MAX_HEADERS = 64 * 1024  # bytes of an answer's head
MAX_HELD = 2 * MAX_BODY  # bytes of all answers of one node that are under way
_SPARE_HANDLES = 64
_CERT_LIMIT = 1024 * 1024
_QUEUE_CHECK = 1.0  # seconds between looks at calls that wait for their turn
_TO_CURL = ((runtime.IN, pycurl.CSELECT_IN), (runtime.OUT, pycurl.CSELECT_OUT))
_FROM_CURL = {
    pycurl.POLL_IN: runtime.IN,
    pycurl.POLL_OUT: runtime.OUT,
    pycurl.POLL_INOUT: runtime.IN | runtime.OUT,
}

_ENDED_EARLY = "it ended the connection before its answer was complete"
_CAUSES = {
    pycurl.E_COULDNT_CONNECT: "cannot connect",
    pycurl.E_COULDNT_RESOLVE_HOST: "its name cannot be resolved",
    pycurl.E_OPERATION_TIMEDOUT: "time-out",
    pycurl.E_SSL_CACERT: "its certificate is not this cluster's",
    pycurl.E_SSL_CONNECT_ERROR: "TLS failed",
    pycurl.E_SSL_CERTPROBLEM: "the own certificate cannot be used",
    pycurl.E_SSL_CACERT_BADFILE: "the cluster certificate cannot be read",
    pycurl.E_GOT_NOTHING: _ENDED_EARLY,
    pycurl.E_SEND_FAIL_REWIND: _ENDED_EARLY,
    pycurl.E_PARTIAL_FILE: _ENDED_EARLY,
    pycurl.E_RECV_ERROR: "the connection broke",
    pycurl.E_SEND_ERROR: "the connection broke",
}
_OWN_FAULTS = (pycurl.E_SSL_CERTPROBLEM, pycurl.E_SSL_CACERT_BADFILE)
_ALERT = " alert "


class _Lane(NamedTuple):
    """How many calls of one kind run at once; the rest waits."""

    total: int
    per_node: int


# A node serves 20 calls at once.  Slow ones must not keep the quick ones out, and nothing may keep the store's out.
_SLOW = _Lane(512, 13)
_QUICK = _Lane(256, 5)
_URGENT = _Lane(1 << 30, 1 << 30)


def _LaneOf(request: Request) -> _Lane:
    if request.urgent:
        return _URGENT
    return _QUICK if request.timeout <= 60 else _SLOW


class _Job:
    """One request on its way."""

    def __init__(self, request: Request, done: Callable[[Answer], None], now: float):
        self.request = request
        self.done = done
        self.lane = _LaneOf(request)
        self.address = (request.host, request.port)
        self.began = now
        self.give_up = now + request.timeout
        self.handle: Any = None
        self.kept = False
        self.headers: dict[str, str] = {}
        self.header_bytes = 0
        self.body = io.BytesIO()
        # Bytes under way, by address; the loop's own from the start on.
        self.held: Counter[Any] = Counter()
        self.overflow = ""

    def TakeHeader(self, line: bytes) -> int | None:
        self.header_bytes += len(line)
        if self.header_bytes > MAX_HEADERS:
            self.overflow = f"the head of its answer is over {MAX_HEADERS} bytes"
            return -1
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            self.headers[name.strip().lower()] = value.strip()
        return None

    def TakeBody(self, data: bytes) -> int | None:
        if self.body.tell() + len(data) > MAX_BODY:
            self.overflow = f"its answer is over {MAX_BODY} bytes"
            return -1
        if self.held[self.address] + len(data) > MAX_HELD:
            self.overflow = f"its answers that are under way are over {MAX_HELD} bytes together"
            return -1
        self.held[self.address] += self.body.write(data)
        return None


class CurlTransport:
    """Carries requests over HTTPS.

    Both sides show certificates: ours is ``client_cert`` if that file exists, else ``server_cert``, which is also the
    only authority for the other side's.  Changed files are noticed.
    """

    def __init__(
        self,
        server_cert: str = pathutils.NODED_CERT_FILE,
        client_cert: str = pathutils.NODED_CLIENT_CERT_FILE,
    ):
        self._certs = _Certificates(server_cert, client_cert)
        self._lock = runtime.Lock()
        self._inbox: deque[tuple[str, Any]] = deque()
        self._closed = False
        self._waker = runtime.Waker()
        self._thread = runtime.Thread(_Loop(self).Run, "rpc")
        self._thread.start()

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        job = _Job(request, done, runtime.Monotonic())
        with self._lock:
            accepted = not self._closed
            if accepted:
                self._inbox.append(("submit", job))
        if accepted:
            self._waker.Wake()
        else:
            done(Answer("the RPC transport is closed"))

    def Abort(self, request: Request) -> None:
        with self._lock:
            if self._closed:
                return
            self._inbox.append(("abort", request))
        self._waker.Wake()

    def Close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._inbox.append(("close", None))
        self._waker.Wake()
        self._thread.join(5.0)


class _Certificates:
    """The content of the files to show; curl never uses a connection made with another content again."""

    def __init__(self, server_cert: str, client_cert: str):
        self._authorities = renewal.Paths(server_cert)
        self._client_cert = client_cert
        self._checked = -float("inf")
        self._seen: tuple[Any, ...] = ()
        self.authority = b""
        self.own = b""

    def Refresh(self, now: float) -> None:
        """Read the files again if they changed, looking now and then; OSError when the first cannot be read.

        While the cluster certificate is renewed, the old and the new one are accepted.
        """
        if now - self._checked < renewal.SEEN_WITHIN:
            return
        seen = tuple(map(IdentityOf, (*self._authorities, self._client_cert)))
        if seen != self._seen:
            server = runtime.ReadFile(self._authorities[0], _CERT_LIMIT)
            others = [renewal.ReadIfThere(path) or b"" for path in self._authorities[1:]]
            self.authority = b"\n".join([server, *others])
            self.own = renewal.ReadIfThere(self._client_cert) or server
            self._seen = seen
        self._checked = now


class _Loop:
    """The state of the RPC thread; no other thread touches it."""

    def __init__(self, transport: CurlTransport):
        self._transport = transport
        self._poller: Any = None
        self._multi: Any = None
        self._watched: dict[int, int] = {}
        self._timer: float | None = None
        self._waiting: dict[_Lane, deque[_Job]] = {lane: deque() for lane in (_URGENT, _QUICK, _SLOW)}
        self._expiry_looked = 0.0
        self._active: dict[Any, _Job] = {}
        self._by_request: dict[Request, _Job] = {}
        self._lanes: Counter[_Lane] = Counter()
        self._per_node: Counter[tuple[Any, _Lane]] = Counter()
        self._kept: Counter[Any] = Counter()
        self._held: Counter[Any] = Counter()
        self._spare: list[Any] = []
        self._open = True

    def Run(self) -> None:
        self._poller = runtime.Poller()
        self._poller.Register(self._transport._waker, runtime.IN)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._OnSocket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._OnTimer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 4096)
        while self._open:
            self._Once()
        waiting = [job for queue in self._waiting.values() for job in queue]
        for job in [*waiting, *self._active.values()]:
            self._Answer(job, Answer("the RPC transport is closed"))
        self._multi.close()
        self._poller.Close()

    def _Once(self) -> None:
        for sock, events in self._poller.Poll(self._PollTimeout()):
            if sock is self._transport._waker:
                sock.Clear()
            else:
                self._SocketAction(sock, _CurlEvents(events))
        if self._timer is not None and runtime.Monotonic() >= self._timer:
            self._timer = None
            self._SocketAction(pycurl.SOCKET_TIMEOUT, 0)
        self._TakeInbox()
        self._Collect()
        self._StartWaiting()

    def _PollTimeout(self) -> float | None:
        timeout = None
        if self._timer is not None:
            timeout = max(0.0, self._timer - runtime.Monotonic())
        if any(self._waiting.values()) and (timeout is None or timeout > _QUEUE_CHECK):
            timeout = _QUEUE_CHECK
        return timeout

    # Calls of curl

    def _OnSocket(self, what: int, sock: int, multi: Any, data: Any) -> None:
        del multi, data
        if what == pycurl.POLL_REMOVE:
            if self._watched.pop(sock, None) is not None:
                self._poller.Unregister(sock)
            return
        events = _FROM_CURL.get(what, 0)
        if sock in self._watched:
            self._poller.Modify(sock, events)
        else:
            self._poller.Register(sock, events)
        self._watched[sock] = events

    def _OnTimer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else runtime.Monotonic() + milliseconds / 1000

    def _SocketAction(self, sock: int, events: int) -> None:
        self._multi.socket_action(sock, events)

    # Work

    def _TakeInbox(self) -> None:
        transport = self._transport
        while transport._inbox:
            with transport._lock:
                what, item = transport._inbox.popleft()
            if what == "submit":
                self._by_request[item.request] = item
                self._waiting[item.lane].append(item)
            elif what == "abort":
                self._Abort(item)
            else:
                self._open = False

    def _Abort(self, request: Request) -> None:
        job = self._by_request.get(request)
        if job is None:
            return
        if job.handle is None:
            self._waiting[job.lane].remove(job)
        self._Answer(job, Answer(ABORTED))

    def _StartWaiting(self) -> None:
        """Start the waiting requests that may start, in order."""
        now = runtime.Monotonic()
        for lane, queue in self._waiting.items():
            passed: list[_Job] = []
            while queue and self._lanes[lane] < lane.total:
                job = queue.popleft()
                if self._per_node[job.address, lane] < lane.per_node:
                    self._Start(job, now)
                else:
                    passed.append(job)
            queue.extendleft(reversed(passed))
        if now - self._expiry_looked >= _QUEUE_CHECK:
            self._expiry_looked = now
            self._GiveUp(now)

    def _GiveUp(self, now: float) -> None:
        """End the requests that waited too long for their turn."""
        for lane, queue in self._waiting.items():
            late = [job for job in queue if now >= job.give_up]
            if late:
                self._waiting[lane] = deque(job for job in queue if now < job.give_up)
            for job in late:
                self._Answer(job, Answer(f"too many calls to node {job.request.node} are under way"))

    def _Start(self, job: _Job, now: float) -> None:
        job.handle = handle = self._spare.pop() if self._spare else pycurl.Curl()
        self._lanes[job.lane] += 1
        self._per_node[job.address, job.lane] += 1
        job.kept = self._kept[job.address] < IDLE_PER_NODE
        self._kept[job.address] += job.kept
        self._active[handle] = job
        job.held = self._held
        certs = self._transport._certs
        try:
            certs.Refresh(now)
            _SetOptions(handle, job, certs)
            self._multi.add_handle(handle)
        except (OSError, pycurl.error, ValueError) as err:
            self._Answer(job, Answer(f"node {job.request.node} cannot be called: {err}"))

    def _Collect(self) -> None:
        """Answer the requests that have ended."""
        while True:
            left, ended, failed = self._multi.info_read()
            for handle in ended:
                job = self._active.get(handle)
                if job is not None:
                    status = handle.getinfo(pycurl.RESPONSE_CODE)
                    self._Answer(job, Answer(None, status, job.headers, job.body.getvalue()))
            for handle, code, text in failed:
                job = self._active.get(handle)
                if job is not None:
                    self._Answer(job, _Failed(job, handle, code, text))
            if not left:
                return

    def _Answer(self, job: _Job, answer: Answer) -> None:
        """Remove the job from the books and answer its owner."""
        self._by_request.pop(job.request, None)
        handle, job.handle = job.handle, None
        if handle is not None:
            del self._active[handle]
            self._Uncount(self._lanes, job.lane)
            self._Uncount(self._per_node, (job.address, job.lane))
            if job.kept:
                self._Uncount(self._kept, job.address)
            self._Uncount(self._held, job.address, job.body.tell())
            self._Recycle(handle)
        answer.seconds = runtime.Monotonic() - job.began
        try:
            job.done(answer)
        except Exception:
            logging.exception("Error while the answer of node %s was taken", job.request.node)

    @staticmethod
    def _Uncount(counter: Counter[Any], key: Any, count: int = 1) -> None:
        counter[key] -= count
        if not counter[key]:
            del counter[key]

    def _Recycle(self, handle: Any) -> None:
        try:
            self._multi.remove_handle(handle)
        except pycurl.error:
            pass  # it was never added
        if len(self._spare) < _SPARE_HANDLES:
            handle.reset()
            self._spare.append(handle)
        else:
            handle.close()


def _CurlEvents(events: int) -> int:
    mask = 0
    for ours, curls in _TO_CURL:
        if events & ours:
            mask |= curls
    if events & (runtime.ERR | runtime.HUP):
        mask |= pycurl.CSELECT_ERR
    return mask


def _SetOptions(handle: Any, job: _Job, certs: _Certificates) -> None:
    request = job.request
    host = f"[{request.host}]" if ":" in request.host else request.host
    set_option = handle.setopt
    set_option(pycurl.URL, f"https://{host}:{request.port}{request.path}")
    set_option(pycurl.PROTOCOLS, pycurl.PROTO_HTTPS)
    set_option(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    set_option(pycurl.NOSIGNAL, 1)
    set_option(pycurl.NOPROXY, "*")
    set_option(pycurl.TCP_NODELAY, 1)
    set_option(pycurl.SOCKOPTFUNCTION, _LimitSilence)
    set_option(pycurl.CONNECTTIMEOUT_MS, int(request.connect_timeout * 1000))
    set_option(pycurl.TIMEOUT_MS, int(request.timeout * 1000))
    # Not 100-continue: it costs a round trip.
    set_option(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in request.headers.items()] + ["Expect:"])
    _SetBody(set_option, request)
    set_option(pycurl.HEADERFUNCTION, job.TakeHeader)
    set_option(pycurl.WRITEFUNCTION, job.TakeBody)
    set_option(pycurl.SSLCERT_BLOB, certs.own)
    set_option(pycurl.SSLKEY_BLOB, certs.own)
    set_option(pycurl.CAINFO_BLOB, certs.authority)
    set_option(pycurl.SSL_VERIFYPEER, 1)
    # All nodes share the one server certificate: the name in it says nothing.
    set_option(pycurl.SSL_VERIFYHOST, 0)
    set_option(pycurl.SSL_CIPHER_LIST, constants.TLS_CIPHERS)
    set_option(pycurl.SSL_ENABLE_ALPN, 0)
    set_option(pycurl.MAXAGE_CONN, MAX_IDLE)
    set_option(pycurl.FORBID_REUSE, int(not job.kept))


def _LimitSilence(descriptor: int, _purpose: int) -> int:
    runtime.LimitSilence(descriptor, SILENCE)
    return int(pycurl.SOCKOPT_OK)


def _SetBody(set_option: Callable[[int, Any], None], request: Request) -> None:
    """Set the body so that curl repeats a request only if that does no harm.

    When a connection used again turns out to be closed, curl sends the request once more on a new one, whatever the
    node did with the first.  It cannot if it would have to read the body a second time.
    """
    set_option(pycurl.POST, 1)
    if request.repeatable:
        set_option(pycurl.POSTFIELDS, request.body)
    else:
        set_option(pycurl.POSTFIELDSIZE, len(request.body))
        set_option(pycurl.READFUNCTION, io.BytesIO(request.body).read)


def _Failed(job: _Job, handle: pycurl.Curl, code: int, text: str) -> Answer:
    """Return the answer of a call for which curl has only an error."""
    request = job.request
    if job.overflow:
        return Answer(f"node {request.node}: {job.overflow}", failure=Failure.SILENT)
    number = handle.getinfo(pycurl.OS_ERRNO)
    failure = _Classify(code, number, text, connected=handle.getinfo(pycurl.LOCAL_PORT) > 0)
    cause = _CAUSES.get(code, f"curl error {code}")
    # libcurl's own words for a failed connect leave the reason out.
    detail = os.strerror(number) if number and text.endswith("Could not connect to server") else text
    if failure is Failure.REJECTED:
        cause = failure.value
    elif "unexpected eof" in text:
        cause, detail = _ENDED_EARLY, ""
    where = f"node {request.node} ({request.host}:{request.port})"
    return Answer(f"{where}: {cause}" + (f": {detail}" if detail else ""), failure=failure)


def _Classify(code: int, number: int, text: str, connected: bool) -> Failure:
    """Return how far a failed request got.  ``number``: curl's errno; ``connected``: the TCP connection was made."""
    if code in _OWN_FAULTS:
        return Failure.NOT_SENT
    if code == pycurl.E_COULDNT_CONNECT or not connected:
        return Failure.REFUSED if number == errno.ECONNREFUSED else Failure.UNREACHABLE
    # The node checks certificates during the handshake, which TLS 1.3 ends on this side before the node has looked.
    return Failure.REJECTED if _ALERT in text else Failure.SILENT
