"""The seam between calls and the network: a request goes in, one answer comes out.  The gate of a node."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ganeti import constants, errors
from ganeti.rpc.procedures import Procedure

HEADER_EPOCH = "X-Ganeti-Epoch"
HEADER_MASTER = "X-Ganeti-Master"
STATUS_OK = 200
STATUS_EPOCH_REFUSED = 409
MAX_BODY = 64 * 1024 * 1024
"""Bytes of a request or an answer, on every side."""

ABORTED = "the call was aborted; what the node did meanwhile is not known"
"""``Answer.error`` of a request that ``Transport.Abort`` ended."""


# Compared by identity: two equal requests are two requests.
@dataclass(eq=False, slots=True)
class Request:
    """One call to one node.  ``node`` is its name, for messages; times in seconds; ``path`` starts with ``/``.

    ``repeatable``: a transport that cannot know whether the node got the request may send it again.  ``urgent``: never
    waits behind other calls to the node.
    """

    node: str
    host: str
    port: int
    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    connect_timeout: float = 5.0
    timeout: float = 60.0
    repeatable: bool = False
    urgent: bool = False


class Failure(enum.Enum):
    """How far a request got that was not answered; says whether the node may be off (doc/design-store.rst, 8)."""

    UNREACHABLE = "cannot be reached"
    """No connection: no route, no such name, or nothing came back."""
    REFUSED = "refused the connection"
    """The machine is up; no node daemon listens."""
    REJECTED = "rejected this node's certificate"
    """The node daemon runs and broke off TLS."""
    SILENT = "accepted the connection and did not answer"
    """Something listens; it broke off, or was too slow."""
    NOT_SENT = "was not called"
    """Our own side failed: an unreadable certificate, too many calls, an aborted call."""

    @property
    def accepted(self) -> bool:
        """Return whether the node accepted a TCP connection: its machine and a daemon on it are running."""
        return self in (Failure.REJECTED, Failure.SILENT)


@dataclass(slots=True)
class Answer:
    """The answer to a request: ``error`` says why there is none (then ``status`` is 0); header names are lower case.

    ``failure``: how far the request got, where ``error`` is set.
    """

    error: str | None
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    failure: Failure | None = None
    seconds: float | None = None
    """How long it took, where the transport measures that."""

    def __post_init__(self) -> None:
        if self.error is not None and self.failure is None:
            self.failure = Failure.NOT_SENT


class Transport(Protocol):
    """Carries requests.  All methods may be called from any thread and do not block."""

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        """Send a request; ``done(answer)`` is called exactly once, on any thread, and must not block."""

    def Abort(self, request: Request) -> None:
        """End a request under way: its ``done`` gets ``ABORTED``.  One that has ended is left alone."""

    def Close(self) -> None:
        """End everything under way and reject later requests."""


class EpochRefused(errors.GenericError):
    """A node has promised a newer epoch: the caller is no longer master.  Arguments: newer epoch, its master's name."""

    exit_code = constants.EXIT_NOTMASTER

    def __init__(self, newer_epoch: str, master_name: str):
        super().__init__(newer_epoch, master_name)
        self.newer_epoch = newer_epoch
        self.master_name = master_name

    def __str__(self) -> str:
        if not self.newer_epoch:
            return "this call changes something and named no epoch"
        return f"refused: epoch {self.newer_epoch} of master {self.master_name or '(unknown)'} is newer"


class Gate(Protocol):
    """A node's check before a procedure that changes something."""

    def Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """Return the context in which the call runs.

        ``headers`` has lower-case names.  Raises EpochRefused, or another GenericError whose text becomes the answer
        (for instance: a call of an older epoch did not end in time).
        """
