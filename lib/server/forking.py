"""A server whose parent only accepts: one forked child per connection, a limit on their number.

::

    parent (one thread): accept -> fork          slots (shared memory): free | greeting | idle since T | busy
    child: serve one connection  ---writes--->   its own slot
    parent: no free slot -> ends the longest idle child, or waits until one is idle

A child that is idle dies of SIGTERM at once, a busy one after its answer.  Helpers are children for the life of the
server: one that ends is started again.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import daemon, runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_RECORD = struct.Struct("=dB")
_FREE, _GREETING, _IDLE, _BUSY = range(4)
# A connection that has not proved who it is must not keep others out for longer than this.
_GREETING_RIGHTS = 1.0
# A connection that was made or used just now is likely to bring a request at once: it does not count as idle yet.
_IDLE_RIGHTS = 0.5
# Looks at the slots while all are taken; a child that turns idle also says so by a signal.
_FULL_CHECK = 0.25
_STOP_WAIT = 5.0
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# Seconds before a helper that ended is started again: doubled each time, back to the first when it lived longer.
_HELPER_DELAYS = (1.0, 60.0)


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


class Helper:
    """A child that always runs: ``run()`` in a process of its own."""

    def __init__(self, name: str, run: Callable[[], None]):
        self.name = name
        self.run = run
        self.pid = 0
        self.started = 0.0
        self.delay = _HELPER_DELAYS[0]

    def Ended(self, now: float) -> None:
        """Settles when it may be started again."""
        lowest, highest = _HELPER_DELAYS
        self.delay = lowest if now - self.started > highest else min(self.delay * 2, highest)
        self.pid = 0

    def Due(self, now: float) -> bool:
        return not self.pid and (not self.started or now - self.started >= self.delay)


class ForkingServer:
    """Accepts on ``listener`` until ``stop`` is set; ``serve(sock, child)`` runs in the child."""

    def __init__(
        self,
        listener: protocols.Socket,
        serve: Callable[[protocols.Socket, Child], None],
        max_clients: int,
        stop: daemon.StopSignal,
        helpers: Sequence[Helper] = (),
    ):
        self._listener = listener
        self._serve = serve
        self._stop = stop
        self._helpers = list(helpers)
        self._slots = Slots(max_clients)
        self._children: dict[int, int] = {}
        self._told: set[int] = set()
        self._poller = runtime.Poller()
        self._bell, self._bell_end = runtime.SocketPair()
        self._listening = False

    def Run(self) -> None:
        """Serves until told to stop; busy children may outlive it."""
        self._InstallSignals()
        self._poller.Register(self._bell, runtime.IN)
        self._poller.Register(self._stop, runtime.IN)
        self._listener.setblocking(False)
        while not self._stop.is_set():
            self._StartHelpers()
            self._Listen(len(self._children) < self._slots.count or self._CanMakeRoom())
            events = self._poller.Poll(self._PollTimeout())
            self._AnswerBell()
            self._Reap()
            if any(sock is self._listener for sock, _ in events):
                self._OnConnection()
        self._Shutdown()

    def _PollTimeout(self) -> float | None:
        if self._slots.wanted or any(not helper.pid for helper in self._helpers):
            return _FULL_CHECK
        return None

    def _InstallSignals(self) -> None:
        """Every signal that a child sends or causes wakes the poll."""
        for end in (self._bell, self._bell_end):
            end.setblocking(False)
        signal.set_wakeup_fd(self._bell_end.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _AnswerBell(self) -> None:
        try:
            while self._bell.recv(4096):
                pass
        except BlockingIOError:
            pass

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
            if helper.pid and _HasEnded(helper.pid):
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
            if state == _IDLE and now - since >= _IDLE_RIGHTS:
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
        pid = self._Fork(lambda: self._serve(sock, Child(self._slots, slot)))
        self._children[pid] = slot

    def _Fork(self, run: Callable[[], None]) -> int:
        """Runs ``run`` in a child; its pid."""
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
                self._slots.Set(self._children.pop(pid), _FREE)
                self._told.discard(pid)
        self._ReapHelpers()

    def _Shutdown(self) -> None:
        """Ends idle children, waits a little for busy ones; those that take longer finish their call alone."""
        self._Listen(False)
        self._listener.close()
        self._poller.Unregister(self._stop)
        for pid in self._Living():
            runtime.KillProcess(pid, signal.SIGTERM)
        deadline = runtime.Monotonic() + _STOP_WAIT
        while self._Living() and runtime.Monotonic() < deadline:
            self._poller.Poll(max(0.0, deadline - runtime.Monotonic()))
            self._AnswerBell()
            self._Reap()
        if self._children:
            logging.warning("%d calls are still under way and go on by themselves", len(self._children))

    def _Living(self) -> list[int]:
        return [*self._children, *(helper.pid for helper in self._helpers if helper.pid)]


def _HasEnded(pid: int) -> bool:
    """Whether a child has ended; then it is collected."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
