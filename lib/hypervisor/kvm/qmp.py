"""QEMU's machine protocol: the only way to speak to a running guest.

The library is asynchronous; ``Monitor`` is its calm face: one call, one answer, every wait with an end.  A guest's
QMP socket serves one client at a time, so a Monitor is opened, used and closed within one procedure.  ``AskMany`` puts
the same questions to many guests at once, with one time limit for all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from qemu.qmp import ConnectError, EventListener, ExecuteError, QMPClient, QMPError
from qemu.qmp.qmp_client import NegotiationError

from ganeti import errors

# Connecting includes waiting for another client of the same socket to go.
CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 30.0
# For those who only want to know how a guest is.
LOOK_TIMEOUT = 5.0
_CLOSE_TIMEOUT = 5.0
_GREETINGS = 3

# What the library raises for a peer that goes away or sends nonsense: a guest may have taken over its QEMU.  It asserts
# that a connection it just made is still there, and lets errors of decoding and of odd shapes pass.
_FAILURES = (
    *(QMPError, OSError, EOFError, AssertionError),
    *(ValueError, TypeError, LookupError, AttributeError, RecursionError),
)

_T = TypeVar("_T")
Event = dict[str, Any]

# The library logs every lost connection with a traceback; what matters is raised.
logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)


class CommandError(errors.HypervisorError):
    """QEMU rejected a command; ``error_class`` is QMP's, for example CommandNotFound."""

    def __init__(self, text: str, error_class: str):
        super().__init__(text)
        self.error_class = error_class


class Monitor:
    """A conversation with one QEMU, as a context manager.

    Every failure (no answer in time, connection lost, command refused) is a HypervisorError that names the socket.
    """

    def __init__(self, path: str, connect_timeout: float = CONNECT_TIMEOUT):
        self.path = path
        self._connect_timeout = connect_timeout
        self._loop = asyncio.new_event_loop()
        self._client = QMPClient()
        self._events = EventListener()
        self._client.register_listener(self._events)

    def __enter__(self) -> Monitor:
        try:
            self._Run(_Connect(self._client, self.path), self._connect_timeout, "connect")
        except BaseException:
            _Finish(self._loop)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._Run(self._client.disconnect(), _CLOSE_TIMEOUT, "disconnect")
        except errors.HypervisorError as err:
            logging.debug("%s", err)
        finally:
            _Finish(self._loop)

    def Execute(self, command: str, arguments: dict[str, Any] | None = None, timeout: float = COMMAND_TIMEOUT) -> Any:
        """Execute one command and return its answer."""
        return self._Run(self._client.execute(command, arguments), timeout, command)

    def TryExecute(self, command: str, arguments: dict[str, Any] | None = None) -> Any:
        """Execute, but return None when QEMU rejects the command: for facts that are nice to know."""
        try:
            return self.Execute(command, arguments)
        except CommandError as err:
            logging.debug("%s", err)
            return None

    def Quit(self) -> None:
        """End this QEMU at once; that the connection ends with it is not an error."""
        try:
            self.Execute("quit", timeout=_CLOSE_TIMEOUT)
        except CommandError:
            raise
        except errors.HypervisorError as err:
            logging.debug("%s", err)

    def SendFd(self, name: str, descriptor: int) -> None:
        """Hand a descriptor to QEMU, known there as ``name``."""

        async def send() -> None:
            self._client.send_fd_scm(descriptor)
            await self._client.execute("getfd", {"fdname": name})

        self._Run(send(), COMMAND_TIMEOUT, "getfd")

    def AddFd(self, descriptor: int, label: str) -> str:
        """Hand a descriptor to QEMU; return the file name it has there.  ``label`` is for ``RemoveFds``."""

        async def send() -> Any:
            self._client.send_fd_scm(descriptor)
            return await self._client.execute("add-fd", {"opaque": label})

        answer = self._Run(send(), COMMAND_TIMEOUT, "add-fd")
        return f"/dev/fdset/{int(answer['fdset-id'])}"

    def RemoveFds(self, label: str) -> None:
        """Take back the descriptors passed under this label."""
        for fdset in self.Execute("query-fdsets"):
            if any(each.get("opaque") == label for each in fdset["fds"]):
                self.TryExecute("remove-fd", {"fdset-id": fdset["fdset-id"]})

    def WaitEvent(self, accept: Callable[[Event], bool], timeout: float) -> Event | None:
        """Return the first event since the connection began that ``accept`` takes; None when none came in time."""

        async def wait() -> Event:
            async for event in self._events:
                plain = dict(event)
                if accept(plain):
                    return plain
            raise QMPError("connection lost")

        try:
            return self._Run(wait(), timeout, "event")
        except _NoAnswer:
            return None

    def _Run(self, work: Coroutine[Any, Any, _T], timeout: float, what: str) -> _T:
        async def limited() -> _T:
            return await asyncio.wait_for(work, timeout)

        try:
            return self._loop.run_until_complete(limited())
        except ExecuteError as err:
            raise CommandError(f"QMP {self.path}: {what}: {err}", err.error_class) from err
        except TimeoutError as err:
            raise _NoAnswer(
                f"QMP {self.path}: {what}: no answer within {timeout:g} s; the guest's QEMU process may hang"
            ) from err
        except _FAILURES as err:
            raise errors.HypervisorError(f"QMP {self.path}: {what}: {err or type(err).__name__}") from err


async def _Connect(client: QMPClient, path: str) -> None:
    """Connect and agree on capabilities.

    An event that QEMU sends in that moment, for example because a migrated guest starts to run, comes before its answer.
    The library takes it for the answer and gives up; so it is asked again.
    """
    for left in reversed(range(_GREETINGS)):
        try:
            await client.connect(path)
        except ConnectError as err:
            if not left or not isinstance(err.exc, NegotiationError):
                raise
        else:
            return


class _NoAnswer(errors.HypervisorError):
    """The time is over."""


# Per question QEMU's answer, None where it rejected the question.
Answers = dict[str, Any]


def AskMany(
    sockets: Mapping[str, str], questions: Sequence[str], timeout: float = LOOK_TIMEOUT
) -> dict[str, Answers | None]:
    """Put questions to guests, all at the same time: {name: answers}, None for one that does not answer in time.

    ``sockets``: name -> path.
    """
    if not sockets:
        return {}

    async def run() -> list[Answers | None]:
        return await asyncio.gather(*(_AskOne(path, questions, timeout) for path in sockets.values()))

    loop = asyncio.new_event_loop()
    try:
        found = loop.run_until_complete(run())
    finally:
        _Finish(loop)
    return dict(zip(sockets, found, strict=True))


async def _AskOne(path: str, questions: Sequence[str], timeout: float) -> Answers | None:
    client = QMPClient()
    try:
        async with asyncio.timeout(timeout):
            await _Connect(client, path)
            return {question: await _Ask(client, question) for question in questions}
    except (*_FAILURES, TimeoutError) as err:
        logging.debug("QMP %s: %s", path, err or type(err).__name__)
        return None
    finally:
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await client.disconnect()
        except (*_FAILURES, TimeoutError) as err:
            logging.debug("QMP %s: %s", path, err or type(err).__name__)


async def _Ask(client: QMPClient, question: str) -> Any:
    try:
        return await client.execute(question)
    except ExecuteError as err:
        logging.debug("%s: %s", question, err)
        return None


def _Finish(loop: asyncio.AbstractEventLoop) -> None:
    """End what the library still has under way, so that nothing complains about it later."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT))
    loop.close()
