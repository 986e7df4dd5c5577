"""The server of LUXI.

::

    client ==bytes==> I/O thread --message--> request threads: parse, handle, write
           <==bytes==            <--answer--  (or whoever completes the Pending)

The I/O thread moves bytes and nothing else.  A client that sends nothing, stops in the middle of a message or does not
read costs a descriptor and some memory, never a thread; memory has limits, and who makes no progress for IO_TIMEOUT
seconds within a message is dropped.  One request of a client is worked on at a time; what it sends ahead waits unread.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, runtime, serializer
from ganeti.luxi import methods, pieces, protocol
from ganeti.luxi.pending import Pending

if TYPE_CHECKING:
    from ganeti.runtime import protocols

MAX_CLIENTS = 1000
# All clients together: bytes of messages not complete yet, and of answers not read yet.
MAX_BUFFERED = 256 * 1024 * 1024
# Messages over this are parsed by the worker program, one at a time on a thread of their own.
LARGE_MESSAGE = 4 * 1024 * 1024

_READ_SIZE = 256 * 1024
_WRITE_SIZE = 1 << 20
_JOIN_SIZE = 256 * 1024
_TICK = 5.0
# Connections taken in one go, so that a flood of them does not keep the others waiting.
_ACCEPT_BATCH = 64

_INTERNAL = "internal error, the master daemon's log says more"
_BUG = {protocol.INTERNAL: True}
_NOTHING: Mapping[str, Any] = {}

Handler = Callable[[str, list[Any]], Any]


class Refused(errors.LuxiError):
    """Raised by a handler: the text is the answer and the connection is closed after it (doc/reference/luxi.md 2.1)."""


class _Client:
    """One connection, owned by the I/O thread; only ``pending`` is shared with the thread that handles the request."""

    __slots__ = (
        "active",
        "busy",
        "closing",
        "counted",
        "eof",
        "framer",
        "handled",
        "ident",
        "inbox",
        "insize",
        "outbox",
        "outsize",
        "pending",
        "sock",
    )

    def __init__(self, ident: int, sock: protocols.Socket, now: float):
        self.ident = ident
        self.sock = sock
        self.framer = protocol.Framer()
        self.inbox: collections.deque[list[bytearray]] = collections.deque()
        self.insize = 0
        self.outbox: collections.deque[bytes] = collections.deque()
        self.outsize = 0
        self.busy = False  # a request is being handled
        self.handled: list[bytearray] = []  # its message; emptied to give the memory back
        self.counted = 0  # what the server's sum has of this client
        self.closing = False  # goes as soon as the answer is written
        self.eof = False
        self.active = now  # last progress
        self.pending: Pending | None = None

    @property
    def buffered(self) -> int:
        """Return bytes of messages and answers; those of the message being handled stay in ``insize``."""
        return self.framer.size + self.insize + self.outsize

    @property
    def idle(self) -> bool:
        return not (self.busy or self.inbox or self.outbox or self.framer.size)

    def Events(self) -> int:
        """Return what to wait for; a hang-up is always reported."""
        if self.outbox:
            return runtime.OUT
        reads = not (self.busy or self.inbox or self.eof or self.closing)
        return runtime.IN if reads else 0


class Server:
    """Serves LUXI on several sockets.

    ``handle(method, args)`` gets checked arguments, and returns the result or a Pending; it must not wait.  ``owner``
    are user and group id of the sockets, whose mode is 0660.
    """

    def __init__(
        self,
        paths: Sequence[str],
        handle: Handler,
        request_threads: int = 8,
        owner: tuple[int, int] = (-1, -1),
        io_timeout: float = protocol.IO_TIMEOUT,
        max_clients: int = MAX_CLIENTS,
        max_buffered: int = MAX_BUFFERED,
    ):
        self._paths = tuple(paths)
        self._handle = handle
        self._owner = owner
        self._io_timeout = io_timeout
        self._max_clients = max_clients
        self._max_buffered = max_buffered
        self._clients: dict[Any, _Client] = {}
        self._by_ident: dict[int, _Client] = {}
        self._next_ident = 1
        self._buffered = 0
        self._listeners: list[protocols.Socket] = []
        self._poller = runtime.Poller()
        self._waker = runtime.Waker()
        # What other threads ask of the I/O thread; append and popleft are atomic.
        self._asked: collections.deque[Callable[[], None]] = collections.deque()
        self._ask_lock = runtime.Lock()
        self._ended = False
        self._requests = runtime.Queue()
        self._large = runtime.Queue()
        self._draining = False
        self._accept_paused = False
        self._stop_at: float | None = None
        self._threads = [runtime.Thread(self._Serve, f"Luxi{n + 1}", (self._requests,)) for n in range(request_threads)]
        self._threads.append(runtime.Thread(self._Serve, "LuxiLarge", (self._large,)))
        self._io_thread = runtime.Thread(self._IoLoop, "LuxiIO")

    # --- life ---------------------------------------------------------------------------------------------------------

    def Start(self) -> None:
        """Bind the sockets, in the place of whatever is left there, and begin to serve."""
        for path in self._paths:
            listener = runtime.ListenUnix(path, 0o600)
            self._listeners.append(listener)
            if self._owner != (-1, -1):
                runtime.Chown(path, *self._owner)
            runtime.Chmod(path, 0o660)
            listener.setblocking(False)
            self._poller.Register(listener, runtime.IN)
        self._poller.Register(self._waker, runtime.IN)
        for thread in (*self._threads, self._io_thread):
            thread.start()

    def Shutdown(self, linger: float = 5.0) -> None:
        """Stop accepting, give requests under way and unread answers ``linger`` seconds, end the threads."""
        self._Ask(lambda: self._Drain(linger))
        self._io_thread.join()
        for thread in self._threads:
            (self._large if thread.name == "LuxiLarge" else self._requests).put(None)
        for thread in self._threads:
            thread.join(1.0)  # one that is stuck in a handler ends with the process
        with self._ask_lock:  # whoever completes an answer later finds nobody to give it to
            if not self._ended:
                self._ended = True
                self._poller.Close()
                self._waker.Close()

    def Statistics(self) -> dict[str, int]:
        """Return numbers for people: connections, bytes buffered, requests that wait for a thread."""
        return {"clients": len(self._clients), "buffered": self._buffered, "waiting": self._requests.qsize()}

    def _Drain(self, linger: float) -> None:
        self._draining = True
        self._stop_at = runtime.Monotonic() + linger
        for path, listener in zip(self._paths, self._listeners, strict=True):
            self._poller.Unregister(listener)
            listener.close()
            runtime.RemoveFile(path)
        self._listeners.clear()
        for client in list(self._clients.values()):
            client.inbox.clear()
            client.closing = True
            self._Update(client)

    # --- I/O thread ---------------------------------------------------------------------------------------------------

    def _Ask(self, call: Callable[[], None]) -> None:
        """Let the I/O thread do something; from any thread."""
        with self._ask_lock:
            if not self._ended:
                self._asked.append(call)
                self._waker.Wake()

    def _IoLoop(self) -> None:
        next_tick = runtime.Monotonic() + _TICK
        while not (self._draining and not self._clients):
            now = runtime.Monotonic()
            if self._stop_at is not None and now >= self._stop_at:
                break
            if now >= next_tick:
                self._Tick(now)
                next_tick = now + _TICK
                if self._accept_paused:
                    self._PauseAccepting(False)
            wake_at = next_tick if self._stop_at is None else min(next_tick, self._stop_at)
            for sock, events in self._poller.Poll(max(wake_at - now, 0)):
                self._Event(sock, events)
        for client in list(self._clients.values()):
            self._Drop(client)

    def _Event(self, sock: Any, events: int) -> None:
        try:
            if sock is self._waker:
                self._waker.Clear()
                while self._asked:
                    self._asked.popleft()()
            elif sock in self._clients:
                self._ClientEvent(self._clients[sock], events)
            elif sock in self._listeners:
                self._Accept(sock)
        except Exception:  # one client's trouble must not end the service of all others
            logging.exception("LUXI: an event could not be handled")
            if sock in self._clients:
                self._Drop(self._clients[sock])

    def _Accept(self, listener: protocols.Socket) -> None:
        """Accept who waits; when there are too many, drop the one that is idle for the longest time."""
        for number in range(_ACCEPT_BATCH):
            sock = self._AcceptOne(listener, announced=number == 0)
            if sock is None:
                return
            if len(self._clients) >= self._max_clients and not self._DropIdle():
                logging.warning("LUXI: %d clients wait for answers, a new one is rejected", len(self._clients))
                sock.close()
                continue
            sock.setblocking(False)
            client = _Client(self._next_ident, sock, runtime.Monotonic())
            self._next_ident += 1
            self._clients[sock] = client
            self._by_ident[client.ident] = client
            self._poller.Register(sock, runtime.IN)

    def _PauseAccepting(self, pause: bool) -> None:
        """Stop listening while there are no descriptors: the same event would come back at once, again and again."""
        self._accept_paused = pause
        for listener in self._listeners:
            self._poller.Modify(listener, 0 if pause else runtime.IN)

    def _AcceptOne(self, listener: protocols.Socket, announced: bool) -> protocols.Socket | None:
        """Return the next connection; ``announced``: the poller says that there is one."""
        try:
            return listener.accept()[0]
        except BlockingIOError:
            return None
        except OSError as err:
            if not announced:
                # Without descriptors the system fails even if nobody waits, and then nobody needs to make room.
                return None
            logging.warning("LUXI: a connection could not be taken: %s", err)
            if not self._DropIdle():
                self._PauseAccepting(True)
            return None

    def _DropIdle(self) -> bool:
        idle = min((c for c in self._clients.values() if c.idle), key=lambda c: c.active, default=None)
        if idle is None:
            return False
        self._Drop(idle)
        return True

    def _ClientEvent(self, client: _Client, events: int) -> None:
        if events & runtime.OUT:
            self._Write(client)
        if client.sock in self._clients and events & runtime.IN:
            self._Read(client)
        if client.sock in self._clients and events & (runtime.HUP | runtime.ERR):
            # Both directions are closed: nobody is there to read an answer.
            self._Drop(client)
        self._Count(client)

    def _Read(self, client: _Client) -> None:
        try:
            data = client.sock.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self._Drop(client)
            return
        if not data:
            client.eof = True
            if client.idle or client.framer.size:
                self._Drop(client)
            else:
                self._Update(client)
            return
        client.active = runtime.Monotonic()
        try:
            for message in client.framer.Feed(data):
                client.inbox.append(message)
                client.insize += sum(map(len, message))
        except protocol.MessageTooLarge as err:
            self._RejectAndClose(client, str(err))
            return
        self._NextRequest(client)

    def _Count(self, client: _Client) -> None:
        """Keep the sum of what is buffered; when it is too much the client with the most has to go."""
        if client.sock not in self._clients:
            return
        buffered = client.buffered
        self._buffered += buffered - client.counted
        client.counted = buffered
        if self._buffered > self._max_buffered:
            largest = max(self._clients.values(), key=lambda c: c.counted)
            logging.warning("LUXI: %d bytes are buffered, the largest client is dropped", self._buffered)
            self._Drop(largest)

    def _RejectAndClose(self, client: _Client, text: str) -> None:
        client.framer = protocol.Framer()
        client.inbox.clear()
        self._Answer(client.ident, list(_Envelope(False, text)), True)

    def _NextRequest(self, client: _Client) -> None:
        """Hand over the next message, if the client has no request under way."""
        if client.inbox and not client.busy and not client.outbox and not client.closing:
            client.handled = client.inbox.popleft()
            client.busy = True
            large = sum(map(len, client.handled)) > LARGE_MESSAGE
            (self._large if large else self._requests).put((client, large))
        self._Update(client)

    def _Answer(self, ident: int, parts: list[bytes], close: bool) -> None:
        """Take over a finished answer; on the I/O thread."""
        client = self._by_ident.get(ident)
        if client is None:
            return  # gone meanwhile
        client.busy = False
        client.pending = None
        client.handled = []
        client.insize = sum(len(chunk) for message in client.inbox for chunk in message)
        client.closing = client.closing or close
        client.outbox.extend(parts)
        client.outsize += sum(map(len, parts))
        client.active = runtime.Monotonic()
        self._Write(client)
        self._Count(client)

    def _Write(self, client: _Client) -> None:
        try:
            while client.outbox:
                part = client.outbox[0]
                sent = client.sock.send(part[:_WRITE_SIZE])
                client.outsize -= sent
                client.active = runtime.Monotonic()
                if sent < len(part):
                    client.outbox[0] = part[sent:]
                    break
                client.outbox.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._Drop(client)
            return
        if client.outbox:
            self._Update(client)
        else:
            self._NextRequest(client)

    def _Update(self, client: _Client) -> None:
        """Wait for the right events, or close what is finished."""
        done = client.closing or (client.eof and not client.inbox)
        if done and not client.busy and not client.outbox:
            self._Drop(client)
        else:
            self._poller.Modify(client.sock, client.Events())

    def _Drop(self, client: _Client) -> None:
        """Forget a client; a request under way continues, its answer is dropped."""
        if self._clients.pop(client.sock, None) is None:
            return
        del self._by_ident[client.ident]
        self._buffered -= client.counted
        client.handled.clear()
        self._poller.Unregister(client.sock)
        client.sock.close()
        if client.pending is not None:
            client.pending.Abandon()

    def _Tick(self, now: float) -> None:
        """Drop the clients that stopped within a message or do not read their answer."""
        for client in list(self._clients.values()):
            if client.buffered and not client.busy and now - client.active > self._io_timeout:
                logging.info("LUXI: a client made no progress for %d seconds, it is dropped", self._io_timeout)
                self._Drop(client)

    # --- request threads ----------------------------------------------------------------------------------------------

    def _Serve(self, requests: protocols.Queue) -> None:
        while True:
            item = requests.get()
            if item is None:
                return
            client, large = item
            try:
                self._HandleMessage(client, large)
            except Exception:
                logging.exception("LUXI: a request could not be answered")
                self._Reply(client.ident, False, _INTERNAL, more=_BUG)

    def _HandleMessage(self, client: _Client, large: bool) -> None:
        ident = client.ident
        if ident not in self._by_ident:
            return
        try:
            cost = serializer.CheckCost(client.handled)
            if cost > pieces.LARGE_COST and not large:
                self._large.put((client, True))
                return
            request = pieces.Load(client.handled) if large else serializer.LoadProper(b"".join(list(client.handled)))
            name, args = protocol.ReadRequest(request)
            method = methods.Find(name)
            bound = method.Bind(args)
        except (errors.ParseError, protocol.ProtocolError, methods.ArgumentError) as err:
            self._Reply(ident, False, str(err), True)
            return
        try:
            result = self._handle(method.name, bound)
        except errors.GenericError as err:
            self._ReplyError(ident, method.name, err)
            return
        if not isinstance(result, Pending):
            self._Reply(ident, True, result)
            return
        client.pending = result
        result.Then(lambda pending: self._Finish(ident, method.name, pending))
        if ident not in self._by_ident:
            result.Abandon()  # the client went before ``pending`` was set

    def _Finish(self, ident: int, method: str, pending: Pending) -> None:
        """Send an answer that came later; on the thread that completed it."""
        if pending.error is not None:
            self._ReplyError(ident, method, pending.error)
        else:
            self._Reply(ident, True, pending.value)

    def _ReplyError(self, ident: int, method: str, err: BaseException) -> None:
        if isinstance(err, Refused):
            self._Reply(ident, False, str(err), True)
        elif isinstance(err, errors.GenericError) and not isinstance(err, errors.ProgrammerError):
            logging.debug("LUXI: %s answers %s: %s", method, type(err).__name__, err)
            self._Reply(ident, False, errors.EncodeException(err), more={"hint": err.hint} if err.hint else {})
        else:
            logging.error("LUXI: %s failed", method, exc_info=err)
            self._Reply(ident, False, f"{method}: {_INTERNAL}", more=_BUG)

    def _Reply(
        self, ident: int, success: bool, result: Any, close: bool = False, more: Mapping[str, Any] = _NOTHING
    ) -> None:
        """Write an answer and hand it to the I/O thread; ``more``: further keys of its envelope."""
        if ident not in self._by_ident:
            return
        try:
            parts = list(_Envelope(success, result, more))
        except (TypeError, ValueError):
            logging.exception("LUXI: a result cannot be written as JSON")
            parts = list(_Envelope(False, _INTERNAL, _BUG))
        size = sum(map(len, parts))
        if size > protocol.MAX_MESSAGE:
            text = f"The answer is over the limit of {protocol.MAX_MESSAGE // 1024 // 1024} MiB"
            error = errors.LuxiError(f"{text}: ask for fewer objects or fields")
            parts = list(_Envelope(False, errors.EncodeException(error)))
        if size <= _JOIN_SIZE:
            parts = [b"".join(parts)]
        self._Ask(lambda: self._Answer(ident, parts, close))


def _Envelope(success: bool, result: Any, more: Mapping[str, Any] = _NOTHING) -> Iterable[bytes]:
    yield b'{"success":true,"result":' if success else b'{"success":false,"result":'
    yield from pieces.Dump(result)
    for key, value in more.items():
        yield b',"%s":' % key.encode("ascii")
        yield from pieces.Dump(value)
    yield b',"version":%d}' % constants.LUXI_VERSION
    yield protocol.EOM
