"""What logical units see of the master and of the processor that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ganeti import locking, opcodes

if TYPE_CHECKING:
    from ganeti.cmdlib.allocation.model import Memory
    from ganeti.config import ConfigWriter
    from ganeti.master.querydata import QueryData
    from ganeti.rpc import RpcResult, RpcRunner


class NodeConfirmer(Protocol):
    """The part of store.Store that the processor and units need."""

    def ConfirmNodes(self, nodes: Sequence[str], timeout: float, joining: bool = False) -> None:
        """Wait until each node confirmed this master and ended what an older one began (doc/design-store.rst, 6)."""

    def UnconfirmedNodes(self, nodes: Sequence[str], timeout: float) -> dict[str, str]:
        """Wait as ConfirmNodes does; return which nodes did not confirm, and why."""


# (node names or uuids, hook path, phase, environment) -> result by node; rpc.call_hooks_runner.
HooksCall = Callable[[list[str], str, str, dict[str, str]], "dict[str, RpcResult]"]


def _NewMemory() -> Memory:
    from ganeti.cmdlib.allocation.model import Memory

    return Memory()


@dataclass(frozen=True)
class Context:
    """One per master."""

    cfg: ConfigWriter
    glm: locking.LockManager
    rpc: RpcRunner
    store: NodeConfirmer
    hooks: HooksCall
    query: QueryData | None = None
    # What the allocator in this process keeps from one request to the next.
    allocation: Memory = field(default_factory=_NewMemory)
    # UUIDs of guests that gave no memory back when they were last asked to; they are asked last.
    unwilling: set[str] = field(default_factory=set)
    # Seconds in which nodes must confirm this master before a job gives up.
    confirm_timeout: float = 60.0


class Processor(Protocol):
    """The part of the processor (mcpu.Processor) that a unit may use."""

    @property
    def ec_id(self) -> Any: ...

    def Log(self, *args: Any) -> None: ...

    def LogStep(self, current: int, total: int, message: str) -> None: ...

    def LogInfo(self, message: str) -> None: ...

    def LogWarning(self, message: str, hint: str | None = None) -> None: ...

    def Pause(self, seconds: float) -> None: ...

    def Undisturbed(self) -> AbstractContextManager[None]: ...

    def SubmitManyJobs(self, jobs: list[list[opcodes.OpCode]]) -> list[list[Any]]: ...

    def RunPostHooks(self, node_names: list[str]) -> None: ...
