"""Jobs beside the test's own, in one master."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganeti import mcpu, opcodes, runtime
from support.master import Callbacks, Master

_LONG = 900.0


def Until(condition: Callable[[], Any]) -> None:
    """Waits, in the simulation's time, until something is so."""
    end = runtime.Monotonic() + _LONG
    while not condition():
        assert runtime.Monotonic() < end, "it does not happen"
        runtime.Sleep(0.05)


class SideJob:
    """An opcode that another thread of the master executes; tests say when it may go on (``Held``)."""

    def __init__(self, master: Master, op: opcodes.OpCode, number: int = 900, timeout: float | None = None):
        self._master = master
        self._timeout = timeout
        self._op = opcodes.OpCode.FromDict(op.ToDict())
        self._number = number
        self.callbacks = Callbacks()
        self.result: Any = None
        self.error: BaseException | None = None
        self._ended = runtime.Event()
        runtime.Thread(self._Run, f"job{number}").start()

    def _Run(self) -> None:
        try:
            processor = mcpu.Processor(self._master.context, self._number)
            self.result = processor.ExecOpCode(self._op, self.callbacks, self._timeout)
        except Exception as err:  # noqa: BLE001 - whoever waits for the job gets it
            self.error = err
        finally:
            self._ended.set()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def Result(self) -> Any:
        """Waits for the end; returns or raises what the job did."""
        assert self._ended.wait(_LONG), "the job does not end"
        if self.error is not None:
            raise self.error
        return self.result


class Held:
    """The first call of a procedure on a node waits until ``Go``; ``Begun`` waits for that call."""

    def __init__(self, master: Master, number: int, procedure: str):
        self._begun, self._go = runtime.Event(), runtime.Event()
        self._procedure = procedure
        master[number].before = self._Before

    def _Before(self, name: str, args: Any) -> None:
        if name == self._procedure:
            self._begun.set()
            self._go.wait()

    def Begun(self) -> None:
        assert self._begun.wait(_LONG), f"nobody calls {self._procedure}"

    def Go(self) -> None:
        self._go.set()


def Holders(master: Master, level: str) -> dict[str, list[str]]:
    """Lock of a level -> jobs that hold it."""
    rows = [row for row in master.glm.QueryLocks() if row.name.startswith(f"{level}/") and row.owner]
    return {row.name.partition("/")[2]: list(row.owner or ()) for row in rows}
