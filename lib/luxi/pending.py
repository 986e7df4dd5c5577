"""An answer that comes later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ganeti import errors, runtime


class Pending:
    """The result of something that was begun; completed once, from any thread.

    What is done first counts: a second ``Complete`` or ``Fail`` changes nothing.  Callbacks run on the thread that
    completes, or at once on the caller's if the answer is already there, and must not block.
    """

    __slots__ = ("_abandoned", "_callbacks", "_condition", "_done", "_error", "_on_abandon", "_value")

    def __init__(self) -> None:
        self._condition = runtime.Condition()
        self._done = False
        self._abandoned = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Pending], None]] = []
        self._on_abandon: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<Pending {'error' if self._error else 'done' if self._done else 'open'}>"

    @property
    def done(self) -> bool:
        return self._done

    @property
    def error(self) -> BaseException | None:
        return self._error

    @property
    def value(self) -> Any:
        """Return the value; only meaningful once done without an error."""
        return self._value

    def Complete(self, value: Any = None) -> bool:
        """Give the value; False if the answer was there already."""
        return self._Finish(value, None)

    def Fail(self, error: BaseException) -> bool:
        return self._Finish(None, error)

    def _Finish(self, value: Any, error: BaseException | None) -> bool:
        with self._condition:
            if self._done:
                return False
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._on_abandon = None
            self._condition.notify_all()
        for callback in callbacks:
            callback(self)
        return True

    def Then(self, callback: Callable[[Pending], None]) -> None:
        """Call ``callback(self)`` when the answer is there."""
        with self._condition:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def OnAbandon(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` as soon as nobody waits for the answer."""
        with self._condition:
            if self._done:
                return
            if not self._abandoned:
                self._on_abandon = callback
                return
        callback()

    def Abandon(self) -> None:
        """Say that nobody waits for the answer; what was begun may continue."""
        with self._condition:
            self._abandoned = True
            callback, self._on_abandon = self._on_abandon, None
        if callback:
            callback()

    def Result(self, timeout: float | None = None) -> Any:
        """Wait and return the value or raise the error; raises TimeoutError when it takes longer than ``timeout``."""
        deadline = None if timeout is None else runtime.Monotonic() + timeout
        with self._condition:
            while not self._done:
                left = None if deadline is None else deadline - runtime.Monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"no answer within {timeout} s")
                self._condition.wait(left)
        if self._error is not None:
            raise self._error
        return self._value

    def Map(self, change: Callable[[Any], Any]) -> Pending:
        """Return the answer that ``change`` makes of this one's value; an error stays, one it raises becomes the answer."""
        result = Pending()

        def finish(pending: Pending) -> None:
            if pending.error is not None:
                result.Fail(pending.error)
                return
            try:
                result.Complete(change(pending.value))
            except errors.GenericError as err:
                result.Fail(err)

        self.Then(finish)
        return result


def Completed(value: Any) -> Pending:
    """Return an answer that is there already."""
    pending = Pending()
    pending.Complete(value)
    return pending


def Begun(start: Callable[[Callable[[Exception | None], None]], object]) -> Pending:
    """Return the answer of what ``start(done)`` begins and ``done(error or None)`` ends; its value is None."""
    pending = Pending()

    def done(error: Exception | None) -> None:
        if error is None:
            pending.Complete()
        else:
            pending.Fail(error)

    start(done)
    return pending


def All(pendings: Sequence[Pending]) -> Pending:
    """Return the answer that comes with the last of ``pendings``, and consists of them: some may have failed."""
    result = Pending()
    left = len(pendings)
    lock = runtime.Lock()

    def finish(_pending: Pending) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = not left
        if last:
            result.Complete(pendings)

    if not pendings:
        result.Complete(pendings)
    for pending in pendings:
        pending.Then(finish)
    return result
