"""The same on many nodes at once, with a limit: results in the order of the nodes, progress on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ganeti import runtime

# Each is a process of ssh with a connection; more would wait for the processor of the master node.
AT_ONCE = 64
# Seconds between attempts to end what is left after an interruption.
_IMPATIENCE = 0.1
_NAMES_SHOWN = 3

Item = TypeVar("Item")
Result = TypeVar("Result")


class Progress:
    """One line on standard error, if that is a terminal, that says how far things are and for whom they wait."""

    def __init__(self, total: int):
        self._total = total
        self._shown = total > 1 and sys.stderr.isatty()

    def Show(self, waiting: Sequence[str]) -> None:
        if not self._shown or not waiting:
            return
        names = ", ".join(waiting[:_NAMES_SHOWN]) + (" ..." if len(waiting) > _NAMES_SHOWN else "")
        sys.stderr.write(f"\r\x1b[K{self._total - len(waiting)} of {self._total} nodes done; waiting for {names}")
        sys.stderr.flush()

    def Clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _Pool(Generic[Item, Result]):
    """Threads that take items until there are none."""

    def __init__(self, items: Sequence[Item], act: Callable[[Item], Result], at_once: int):
        self._act = act
        self._todo = runtime.Queue()
        self.done = runtime.Queue()
        self._stopped = False
        for number, item in enumerate(items):
            self._todo.put((number, item))
        self.workers = min(len(items), at_once)
        for number in range(self.workers):
            runtime.Thread(self._Work, f"node{number}").start()

    def _Work(self) -> None:
        while not self._stopped:
            try:
                number, item = self._todo.get(0)
            except runtime.QueueEmpty:
                break
            try:
                outcome: Any = (self._act(item), None)
            except Exception as err:  # noqa: BLE001 - raised again where the results are read
                outcome = (None, err)
            self.done.put((number, *outcome))
        self.done.put(None)

    def Stop(self) -> None:
        """Begin nothing further, and kill what runs."""
        self._stopped = True
        left = self.workers
        while left:
            runtime.KillPrograms()
            try:
                left -= self.done.get(_IMPATIENCE) is None
            except runtime.QueueEmpty:
                pass


def Each(
    items: Sequence[Item],
    act: Callable[[Item], Result],
    name: Callable[[Item], str] | None = None,
    at_once: int = AT_ONCE,
) -> Iterator[tuple[Item, Result]]:
    """Yield (item, what ``act`` returned) in the order of the items, each as soon as those before it are ready.

    With ``name`` progress is shown.  When the user interrupts, the programs that ``act`` runs are killed.
    """
    if not items:
        return
    pool = _Pool(items, act, at_once)
    progress = Progress(len(items))
    ready: dict[int, tuple[Any, Exception | None]] = {}
    waiting = dict(enumerate(items))
    complete = False
    try:
        for number, item in enumerate(items):
            while number not in ready:
                if name is not None:
                    progress.Show([name(left) for left in waiting.values()])
                found = pool.done.get()
                if found is None:
                    pool.workers -= 1
                    continue
                del waiting[found[0]]
                ready[found[0]] = found[1:]
            result, error = ready.pop(number)
            progress.Clear()
            if error is not None:
                raise error
            yield item, result
        complete = True
    finally:
        progress.Clear()
        if not complete:
            pool.Stop()
