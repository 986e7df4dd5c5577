"""A server whose parent only accepts: one forked child per connection, with limits on their number.

::

    parent (one thread): accept -> lobby -> fork      slots (shared memory): greeting | idle since T | busy | reserved | waiting
    child: prove who the peer is, then serve its requests  ---writes--->  its own slot

* A peer that has not proved who it is occupies one of the ``_GREETERS``; it never costs an authenticated one its place.
* At most ``max_clients`` ordinary calls run at once; one more waits in its child until another has ended.  Calls that
  must not wait (the store's) run beside them.
* When more than ``max_clients`` authenticated connections are open, the longest idle one is ended.

A child that is idle dies of SIGTERM at once, a busy one after its answer.  Helpers are children for the life of the
server: one that ends is started again.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import daemon, runtime
from ganeti.http.lobby import Greeting, Lobby, Visitor

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_RECORD = struct.Struct("=dBHdI")
_FREE, _GREETING, _IDLE, _BUSY, _RESERVED, _WAITING = range(6)
_AUTHENTICATED = (_IDLE, _BUSY, _RESERVED, _WAITING)
_GREETERS = 16
"""Connections at a time whose peer has yet to prove who it is; one address gets half of them."""
_RESERVE = 8
"""Children beyond ``max_clients``, for calls that must not wait."""
_LATE = 24
"""Children beyond ``max_clients`` whose caller has given up, while they still work: most likely they hang."""
_LATE_OF_A_KIND = 4
# While others wait, a peer must prove who it is within this time.
_GREETING_RIGHTS = 1.0
# A connection that was made or used just now is likely to bring a request at once: it does not count as idle yet.
_IDLE_RIGHTS = 0.5
# Seconds between looks at the slots while somebody waits; a child also signals when its state changes.
_FULL_CHECK = 0.25
# A call waits for so long for its turn while every turn is taken by a call that hangs; otherwise until so many seconds before
# its caller gives up.
_HOPELESS = 10.0
# How often a waiting call looks for its turn.
_TURN_CHECK = 0.02
_ACCEPT_AT_ONCE = 64
_STOP_WAIT = 5.0
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# Seconds before a helper that ended is started again: doubled each time, back to the first when it lived longer.
_HELPER_DELAYS = (1.0, 60.0)
# Strangers must not fill the log: after so many lines a minute the rest is counted only.
_LINES_PER_MINUTE = 30


class Kind(NamedTuple):
    """What a call is counted with, and after how many seconds its caller has given up.

    ``limited``: no more of them are served while some hang.
    """

    number: int
    seconds: float
    limited: bool = True


class Call(NamedTuple):
    """A call under way: the number of its kind, its age in seconds, whether its caller has given up, its process."""

    number: int
    age: float
    late: bool
    pid: int


class TooManyLate(Exception):
    """Calls of the same kind are still at work although their callers have given up; the seconds since each began."""

    def __init__(self, ages: Sequence[float]):
        super().__init__()
        self.ages = ages


class NoTurn(Exception):
    """All turns are taken by calls that do not end, or the caller is about to give up; for how long this one waited."""

    def __init__(self, seconds: float):
        super().__init__()
        self.seconds = seconds


class Slots:
    """The states of the children, in memory shared with the parent.  The first byte: whether a connection waits."""

    def __init__(self, count: int):
        self.count = count
        self._memory = mmap.mmap(-1, 1 + count * _RECORD.size)

    def Set(self, slot: int, state: int, kind: Kind = Kind(0, 0.0)) -> None:  # noqa: B008 - a constant
        pid = runtime.ProcessId()
        offset = 1 + slot * _RECORD.size
        _RECORD.pack_into(self._memory, offset, runtime.Monotonic(), state, kind.number, kind.seconds, pid)

    def _Read(self, slot: int) -> tuple[float, int, int, float, int]:
        since, state, number, seconds, pid = _RECORD.unpack_from(self._memory, 1 + slot * _RECORD.size)
        return since, state, number, seconds, pid

    def Get(self, slot: int) -> tuple[float, int]:
        """Return (since when, state)."""
        return self._Read(slot)[:2]

    def Calls(self, *states: int) -> list[Call]:
        """Return the calls under way: those that have a turn and those that need none."""
        now = runtime.Monotonic()
        found = []
        for slot in range(self.count):
            since, state, number, seconds, pid = self._Read(slot)
            if state in (states or (_BUSY, _RESERVED)):
                found.append(Call(number, now - since, now - since > seconds, pid))
        return found

    def Late(self, number: int | None = None, state: int = _BUSY) -> list[float]:
        """Return for each call whose caller has given up how long it has worked; ``number``: those of this kind."""
        return [call.age for call in self.Calls(state) if call.late and number in (None, call.number)]

    def Busy(self) -> int:
        """Return how many turns are taken: late calls have places of their own, as long as there are any."""
        return self.Count(_BUSY) - min(len(self.Late()), _LATE)

    def Count(self, *states: int) -> int:
        return sum(self.Get(slot)[1] in states for slot in range(self.count))

    @property
    def wanted(self) -> bool:
        return bool(self._memory[0])

    @wanted.setter
    def wanted(self, value: bool) -> None:
        self._memory[0] = int(value)


class Child:
    """A child's reports about itself while it serves.  ``quiet``: do not log refusals."""

    def __init__(self, slots: Slots, slot: int, max_clients: int, quiet: bool = False):
        self._slots = slots
        self._slot = slot
        self._max_clients = max_clients
        self._parent = runtime.ProcessId()
        self.quiet = quiet
        self.ending = False
        """Told to end: the answer under way is the last one."""

    def OnState(self, busy: bool) -> None:
        """Record that the child waits for a request (False) or that one has begun (True).

        The first call is also the proof that the peer is one of ours.
        """
        if busy:
            signal.signal(signal.SIGTERM, self._OnTerm)
            self._slots.Set(self._slot, _WAITING)
            return
        greeted = self._slots.Get(self._slot)[1] == _GREETING
        self._slots.Set(self._slot, _IDLE)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if (greeted or self._slots.wanted) and not self._Orphaned():
            runtime.KillProcess(self._parent, signal.SIGUSR1)

    def TakeTurn(self, reserved: bool, gone: Callable[[float], bool], kind: Kind) -> bool:
        """Wait until the request may be served; False if the peer went away meanwhile.

        ``reserved``: it need not wait.  ``gone(seconds)`` waits for that long for the peer to go.  Raises TooManyLate if
        calls of this kind hang: another one would hang too, and in the end there would be room for none of any kind.
        Raises NoTurn when it is useless to wait for longer.
        """
        state = _RESERVED if reserved else _BUSY
        began = runtime.Monotonic()
        while True:
            late = self._slots.Late(kind.number, state)
            if kind.limited and len(late) >= _LATE_OF_A_KIND:
                raise TooManyLate(late)
            if reserved or self._slots.Busy() < self._max_clients:
                break
            waited = runtime.Monotonic() - began
            if waited >= self._Patience(kind):
                raise NoTurn(waited)
            if gone(_TURN_CHECK):
                return False
        self._slots.Set(self._slot, state, kind)
        return True

    def _Patience(self, kind: Kind) -> float:
        """Return for how many seconds a call waits for its turn: its caller is to be told why there was none."""
        hanging = len(self._slots.Late()) - _LATE >= self._max_clients
        return _HOPELESS if hanging else max(kind.seconds - _HOPELESS, _HOPELESS)

    def Calls(self) -> list[Call]:
        """Return what the children of the server work on, this one too."""
        return self._slots.Calls()

    def Ending(self) -> bool:
        """Return whether no further request may be served.  A parent that is killed cannot end its children."""
        return self.ending or self._Orphaned()

    def _Orphaned(self) -> bool:
        return os.getppid() != self._parent

    def _OnTerm(self, number: int, frame: Any) -> None:
        del number, frame
        self.ending = True


class Helper:
    """A child that always runs: ``run()`` in a process of its own."""

    def __init__(self, name: str, run: Callable[[], None]):
        self.name = name
        self.run = run
        self.pid = 0
        self.started = 0.0
        self.delay = _HELPER_DELAYS[0]

    def Ended(self, now: float) -> None:
        """Decide when it may be started again."""
        lowest, highest = _HELPER_DELAYS
        self.delay = lowest if now - self.started > highest else min(self.delay * 2, highest)
        self.pid = 0

    def Due(self, now: float) -> bool:
        return not self.pid and (not self.started or now - self.started >= self.delay)


class ForkingServer:
    """Accept on ``listener`` until ``stop`` is set; ``serve(sock, child)`` runs in the child.

    ``judge`` says from the first bytes of a connection whether it is worth a child (``lobby``).
    """

    def __init__(
        self,
        listener: protocols.Socket,
        serve: Callable[[protocols.Socket, Child], None],
        judge: Callable[[bytes], Greeting],
        max_clients: int,
        stop: daemon.StopSignal,
        helpers: Sequence[Helper] = (),
    ):
        self._listener = listener
        self._serve = serve
        self._stop = stop
        self._helpers = list(helpers)
        self._max_clients = max_clients
        self._slots = Slots(max_clients + _RESERVE + _GREETERS + _LATE)
        # Process -> slot, and the address of its peer.
        self._children: dict[int, int] = {}
        self._addresses: dict[int, str] = {}
        self._told: set[int] = set()
        self._poller = runtime.Poller()
        self._lobby = Lobby(self._poller, judge)
        self._refusals = _Refusals()
        self._bell, self._bell_end = runtime.SocketPair()
        self._listening = False
        self._ending = False

    def Run(self) -> None:
        """Serve until the stop signal; busy children may outlive it."""
        self._InstallSignals()
        self._poller.Register(self._bell, runtime.IN)
        self._poller.Register(self._stop, runtime.IN)
        self._listener.setblocking(False)
        while not self._stop.is_set():
            self._StartHelpers()
            self._Listen(self._lobby.HasRoom())
            events = self._poller.Poll(self._PollTimeout())
            if self._AnswerBell():
                self._Reap()
            for source, what in events:
                if source is self._listener:
                    self._Accept()
                elif isinstance(source, Visitor):
                    self._lobby.OnEvent(source, what)
            self._lobby.Expire()
            self._Admit()
            self._MakeRoom()
            self._refusals.Report(self._lobby)
        self._Shutdown()

    def _PollTimeout(self) -> float | None:
        if self._slots.wanted or any(not helper.pid for helper in self._helpers):
            return _FULL_CHECK
        timeouts = [t for t in (self._lobby.Timeout(), self._refusals.Timeout()) if t is not None]
        return min(timeouts, default=None)

    def _InstallSignals(self) -> None:
        """Make every signal that a child sends or causes wake the poll."""
        for end in (self._bell, self._bell_end):
            end.setblocking(False)
        signal.set_wakeup_fd(self._bell_end.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _AnswerBell(self) -> bool:
        """Empty the pipe of signals; whether there were any."""
        rung = False
        try:
            while self._bell.recv(4096):
                rung = True
        except BlockingIOError:
            pass
        return rung

    # Children for life

    def _StartHelpers(self) -> None:
        now = runtime.Monotonic()
        for helper in self._helpers:
            if helper.Due(now):
                helper.started = now
                helper.pid = self._Fork(helper.run)
                logging.info("Started %s as process %d", helper.name, helper.pid)

    def _ReapHelpers(self) -> None:
        for helper in self._helpers:
            if not helper.pid or not _HasEnded(helper.pid):
                continue
            if self._ending:
                helper.pid = 0
            else:
                logging.error("%s (process %d) ended; it is started again", helper.name, helper.pid)
                helper.Ended(runtime.Monotonic())

    # Connections

    def _Listen(self, wanted: bool) -> None:
        if wanted != self._listening:
            if wanted:
                self._poller.Register(self._listener, runtime.IN)
            else:
                self._poller.Unregister(self._listener)
            self._listening = wanted

    def _Accept(self) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            if not self._lobby.HasRoom():
                return
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as err:
                # The peer went away again, or descriptors are short; the next round tries again.
                logging.debug("Cannot accept a connection: %s", err)
                return
            self._lobby.Add(sock, str(address[0]))

    def _Admit(self) -> None:
        """Start a child for each connection that may have one; make room for those that may not yet."""
        while (slot := self._FreeSlot()) is not None:
            greeters = self._Greeters()
            if sum(greeters.values()) >= _GREETERS:
                break
            visitor = self._lobby.Next(greeters, _GREETERS // 2)
            if visitor is None:
                break
            try:
                self._StartChild(visitor, slot)
            except OSError as err:
                logging.error("Cannot fork for a connection: %s", err)
            finally:
                visitor.sock.close()
        self._slots.wanted = self._lobby.AnyReady()
        if self._slots.wanted:
            self._EndSlowGreeter()

    def _Greeters(self) -> Counter[str]:
        """Count the children that have not proved who they serve, by address."""
        return Counter(self._addresses[pid] for pid, slot in self._children.items() if self._State(slot) == _GREETING)

    def _State(self, slot: int) -> int:
        return self._slots.Get(slot)[1]

    def _FreeSlot(self) -> int | None:
        used = set(self._children.values())
        return next((slot for slot in range(self._slots.count) if slot not in used), None)

    def _EndSlowGreeter(self) -> None:
        """End the oldest of those that take too long to prove who they are, of the address that has the most of them."""
        greeters = self._Greeters()
        slow = []
        for pid, slot in self._children.items():
            since, state = self._slots.Get(slot)
            if state == _GREETING and runtime.Monotonic() - since >= _GREETING_RIGHTS and pid not in self._told:
                slow.append((-greeters[self._addresses[pid]], since, pid))
        if slow:
            self._Tell(min(slow)[2])

    def _MakeRoom(self) -> None:
        """End the longest idle connections when there are more than there should be."""
        # One that got the signal just as its next call came may take long to end: another one goes instead.
        states = {pid: self._State(self._children[pid]) for pid in self._told}
        self._told = {pid for pid, state in states.items() if state in (_GREETING, _IDLE)}
        going = sum(state == _IDLE for state in states.values())
        open_ones = self._slots.Count(*_AUTHENTICATED) - min(len(self._slots.Late()), _LATE)
        too_many = open_ones - self._max_clients - going
        if too_many <= 0:
            return
        self._slots.wanted = True
        now = runtime.Monotonic()
        idle = []
        for pid, slot in self._children.items():
            since, state = self._slots.Get(slot)
            if state == _IDLE and now - since >= _IDLE_RIGHTS and pid not in self._told:
                idle.append((since, pid))
        for _, pid in sorted(idle)[:too_many]:
            logging.debug("More than %d connections are open; ending the longest idle one", self._max_clients)
            self._Tell(pid)

    def _Tell(self, pid: int) -> None:
        self._told.add(pid)
        runtime.KillProcess(pid, signal.SIGTERM)

    def _StartChild(self, visitor: Visitor, slot: int) -> None:
        self._slots.Set(slot, _GREETING)
        child = Child(self._slots, slot, self._max_clients, quiet=self._refusals.TooMany())
        pid = self._Fork(lambda: self._serve(visitor.sock, child))
        self._children[pid] = slot
        self._addresses[pid] = visitor.address

    def _Fork(self, run: Callable[[], None]) -> int:
        """Run ``run`` in a child; return its pid."""
        # A signal that came to a new child while it still has the parent's handlers would be lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            pid = runtime.Fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return pid
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)
            daemon.ForkedChild()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for other in (self._listener, self._bell, self._bell_end):
                other.close()
            self._lobby.Close()
            self._poller.Close()
            run()
            status = 0
        except Exception:
            logging.exception("Error in a child")
        finally:
            # Nothing of the parent's clean-up may run here.
            os._exit(status)

    def _Reap(self) -> None:
        for pid in list(self._children):
            if _HasEnded(pid):
                slot = self._children.pop(pid)
                if self._State(slot) == _GREETING:
                    self._refusals.Count()
                self._slots.Set(slot, _FREE)
                self._addresses.pop(pid)
                self._told.discard(pid)
        self._ReapHelpers()

    def _Shutdown(self) -> None:
        """End idle children and wait a little for busy ones; those that take longer finish their call alone."""
        self._ending = True
        self._Listen(False)
        self._listener.close()
        self._lobby.Close()
        self._poller.Unregister(self._stop)
        for pid in self._Living():
            runtime.KillProcess(pid, signal.SIGTERM)
        deadline = runtime.Monotonic() + _STOP_WAIT
        while self._Living() and runtime.Monotonic() < deadline:
            self._poller.Poll(max(0.0, deadline - runtime.Monotonic()))
            self._AnswerBell()
            self._Reap()
        if self._children:
            logging.warning("%d calls are still under way and will be finished by their processes", len(self._children))

    def _Living(self) -> list[int]:
        return [*self._children, *(helper.pid for helper in self._helpers if helper.pid)]


class _Refusals:
    """Counts connections whose peer did not prove who it is, so that they do not fill the log."""

    def __init__(self) -> None:
        self._since = runtime.Monotonic()
        self._ended = 0
        self._turned_away = 0

    def Count(self) -> None:
        self._ended += 1

    def TooMany(self) -> bool:
        return self._ended >= _LINES_PER_MINUTE

    def Timeout(self) -> float | None:
        """Return the seconds until there is something to report."""
        if not self._ended and not self._turned_away:
            return None
        return max(0.0, self._since + 60.0 - runtime.Monotonic())

    def Report(self, lobby: Lobby) -> None:
        """Write one line a minute about what has no line of its own."""
        self._turned_away += lobby.turned_away
        lobby.turned_away = 0
        now = runtime.Monotonic()
        if now - self._since < 60.0:
            return
        silent = max(0, self._ended - _LINES_PER_MINUTE) + self._turned_away
        if silent:
            logging.warning("%d more connections were refused in the last %.0f seconds", silent, now - self._since)
        self._since, self._ended, self._turned_away = now, 0, 0


def _HasEnded(pid: int) -> bool:
    """Collect a child if it has ended; whether it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
