"""A server whose parent only accepts: one forked child per connection, a limit on their number.

::

    parent (one thread): accept -> fork          slots (shared memory): free | greeting | idle since T | busy
    child: serve one connection  ---writes--->   its own slot
    parent: no free slot -> ends the longest idle child, or waits until one is idle

A child that is idle dies of SIGTERM at once, a busy one after its answer.
"""

from __future__ import annotations

import gc
import logging
import mmap
import os
import signal
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ganeti import errors, runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_RECORD = struct.Struct("=dB")
_FREE, _GREETING, _IDLE, _BUSY = range(4)
# A connection that has not proved who it is must not keep others out for longer than this.
_GREETING_RIGHTS = 1.0
# Looks at the slots while all are busy; a child that turns idle also says so by a signal.
_FULL_CHECK = 1.0
_STOP_WAIT = 5.0


class Slots:
    """What each child does, in memory shared with the parent.  The first byte tells children that somebody waits."""

    def __init__(self, count: int):
        self.count = count
        self._memory = mmap.mmap(-1, 1 + count * _RECORD.size)

    def Set(self, slot: int, state: int) -> None:
        _RECORD.pack_into(self._memory, 1 + slot * _RECORD.size, runtime.Monotonic(), state)

    def Get(self, slot: int) -> tuple[float, int]:
        """(since when, state)."""
        since, state = _RECORD.unpack_from(self._memory, 1 + slot * _RECORD.size)
        return since, state

    @property
    def wanted(self) -> bool:
        return bool(self._memory[0])

    @wanted.setter
    def wanted(self, value: bool) -> None:
        self._memory[0] = int(value)


class Child:
    """What a child tells about itself while it serves."""

    def __init__(self, slots: Slots, slot: int):
        self._slots = slots
        self._slot = slot
        self.ending = False
        """Told to end: the answer under way is the last one."""

    def OnState(self, busy: bool) -> None:
        """Before each wait for a request (False) and when one has begun (True)."""
        if busy:
            signal.signal(signal.SIGTERM, self._OnTerm)
            self._slots.Set(self._slot, _BUSY)
            return
        self._slots.Set(self._slot, _IDLE)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._slots.wanted:
            runtime.KillProcess(os.getppid(), signal.SIGUSR1)

    def Ending(self) -> bool:
        return self.ending

    def _OnTerm(self, number: int, frame: Any) -> None:
        del number, frame
        self.ending = True


class ForkingServer:
    """Accepts on ``listener`` until SIGTERM or SIGINT.

    ``serve(sock, child)`` runs in the child, ``on_hangup()`` and ``tick()`` in the parent: on SIGHUP, and about every
    ``tick_seconds``.
    """

    def __init__(
        self,
        listener: protocols.Socket,
        serve: Callable[[protocols.Socket, Child], None],
        max_clients: int,
        on_hangup: Callable[[], None] = lambda: None,
        tick: Callable[[], None] = lambda: None,
        tick_seconds: float = 60.0,
    ):
        self._listener = listener
        self._serve = serve
        self._on_hangup = on_hangup
        self._tick = tick
        self._tick_seconds = tick_seconds
        self._slots = Slots(max_clients)
        self._children: dict[int, int] = {}
        self._told: set[int] = set()
        self._poller = runtime.Poller()
        self._bell, self._bell_end = runtime.SocketPair()
        self._listening = False
        self._stop = False
        self._hangup = False

    def Run(self) -> None:
        """Serves until told to stop; busy children may outlive it."""
        self._InstallSignals()
        self._poller.Register(self._bell, runtime.IN)
        self._listener.setblocking(False)
        # What exists now is shared with every child for ever: the collector must not touch and so copy it.
        gc.collect()
        gc.freeze()
        next_tick = runtime.Monotonic()
        while not self._stop:
            now = runtime.Monotonic()
            if now >= next_tick:
                self._tick()
                next_tick = now + self._tick_seconds
            self._Listen(len(self._children) < self._slots.count or self._CanMakeRoom())
            timeout = _FULL_CHECK if self._slots.wanted else max(0.0, next_tick - now)
            events = self._poller.Poll(timeout)
            self._AnswerBell()
            self._Reap()
            if any(sock is self._listener for sock, _ in events):
                self._OnConnection()
        self._Shutdown()

    # Signals

    def _InstallSignals(self) -> None:
        for end in (self._bell, self._bell_end):
            end.setblocking(False)
        signal.set_wakeup_fd(self._bell_end.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._OnStop)
        signal.signal(signal.SIGHUP, self._OnHangup)
        for number in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _OnStop(self, number: int, frame: Any) -> None:
        del number, frame
        self._stop = True

    def _OnHangup(self, number: int, frame: Any) -> None:
        del number, frame
        self._hangup = True

    def _AnswerBell(self) -> None:
        try:
            while self._bell.recv(4096):
                pass
        except BlockingIOError:
            pass
        if self._hangup:
            self._hangup = False
            self._on_hangup()

    # Connections

    def _Listen(self, wanted: bool) -> None:
        if wanted != self._listening:
            if wanted:
                self._poller.Register(self._listener, runtime.IN)
            else:
                self._poller.Unregister(self._listener)
            self._listening = wanted
        if wanted:
            self._slots.wanted = False

    def _OnConnection(self) -> None:
        slot = self._FreeSlot()
        if slot is None:
            self._MakeRoom()
            return
        try:
            sock, _ = self._listener.accept()
        except OSError as err:
            # The peer went away again, or descriptors are short; the next round tries again.
            logging.debug("Cannot accept a connection: %s", err)
            return
        try:
            self._StartChild(sock, slot)
        except OSError as err:
            logging.error("Cannot fork for a connection: %s", err)
        finally:
            sock.close()

    def _FreeSlot(self) -> int | None:
        used = set(self._children.values())
        return next((slot for slot in range(self._slots.count) if slot not in used), None)

    def _CanMakeRoom(self) -> bool:
        """Whether a connection that comes now can be served soon; else children are asked to tell when they are idle."""
        self._slots.wanted = True
        # One that was told just when its next call came may take long to end.
        self._told = {pid for pid in self._told if self._slots.Get(self._children[pid])[1] != _BUSY}
        return not self._told and self._Victim() is not None

    def _Victim(self) -> int | None:
        """The child that is idle for longest, else one that takes too long to say who it is."""
        now = runtime.Monotonic()
        found: list[tuple[int, float, int]] = []
        for pid, slot in self._children.items():
            since, state = self._slots.Get(slot)
            if state == _IDLE:
                found.append((0, since, pid))
            elif state == _GREETING and now - since >= _GREETING_RIGHTS:
                found.append((1, since, pid))
        return min(found)[2] if found else None

    def _MakeRoom(self) -> None:
        victim = self._Victim()
        if victim is not None and not self._told:
            logging.debug("All %d slots are taken; ending the longest idle connection", self._slots.count)
            self._told.add(victim)
            runtime.KillProcess(victim, signal.SIGTERM)

    def _StartChild(self, sock: protocols.Socket, slot: int) -> None:
        self._slots.Set(slot, _GREETING)
        pid = runtime.Fork()
        if pid == 0:
            self._RunChild(sock, slot)
        self._children[pid] = slot

    def _RunChild(self, sock: protocols.Socket, slot: int) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            for other in (self._listener, self._bell, self._bell_end):
                other.close()
            self._poller.Close()
            self._serve(sock, Child(self._slots, slot))
            status = 0
        except Exception:
            logging.exception("Error while a connection was served")
        finally:
            # Nothing of the parent's clean-up may run here.
            os._exit(status)

    def _Reap(self) -> None:
        for pid in list(self._children):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid
            if ended:
                self._slots.Set(self._children.pop(pid), _FREE)
                self._told.discard(pid)

    def _Shutdown(self) -> None:
        """Ends idle children, waits a little for busy ones; those that take longer finish their call alone."""
        self._Listen(False)
        self._listener.close()
        for pid in self._children:
            runtime.KillProcess(pid, signal.SIGTERM)
        deadline = runtime.Monotonic() + _STOP_WAIT
        while self._children and runtime.Monotonic() < deadline:
            self._poller.Poll(max(0.0, deadline - runtime.Monotonic()))
            self._AnswerBell()
            self._Reap()
        if self._children:
            logging.warning("%d calls are still under way and go on by themselves", len(self._children))


def CheckMaxClients(value: int) -> None:
    if not 1 <= value <= 1000:
        raise errors.OpPrereqError(f"--max-clients must be from 1 to 1000, not {value}", errors.ECODE_INVAL)
