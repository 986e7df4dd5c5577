"""Threads that do what a test tells them, one thing after the other, so that a test reads as a story."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganeti import runtime

PATIENCE = 20.0


class Promise:
    """What an actor was told to do: its outcome, once there is one."""

    def __init__(self) -> None:
        self._done = runtime.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def _Run(self, what: Callable[[], Any]) -> None:
        try:
            self._value = what()
        except BaseException as err:  # noqa: BLE001 - handed to the test
            self._error = err
        self._done.set()

    @property
    def pending(self) -> bool:
        return not self._done.is_set()

    def Result(self) -> Any:
        assert self._done.wait(PATIENCE), "the actor is still waiting"
        if self._error is not None:
            raise self._error
        return self._value


class Actor:
    """A thread with a list of things to do."""

    def __init__(self, name: str):
        self.name = name
        self._tasks = runtime.Queue()
        self._thread = runtime.Thread(self._Loop, name)
        self._thread.start()

    def _Loop(self) -> None:
        while (task := self._tasks.get()) is not None:
            promise, what = task
            promise._Run(what)

    def Start(self, what: Callable[..., Any], *args: Any, **kwargs: Any) -> Promise:
        """Begins ``what`` and does not wait for it."""
        promise = Promise()
        self._tasks.put((promise, lambda: what(*args, **kwargs)))
        return promise

    def Do(self, what: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Does ``what`` and waits for its outcome."""
        return self.Start(what, *args, **kwargs).Result()

    def Leave(self) -> None:
        self._tasks.put(None)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"{self.name} hangs"


class Cast:
    """Some actors; use as a context manager: all of them must have finished at the end."""

    def __init__(self, *names: str):
        self.actors = [Actor(name) for name in names]

    def __enter__(self) -> list[Actor]:
        return self.actors

    def __exit__(self, kind: object, *_exc: object) -> None:
        if kind is None:
            for actor in self.actors:
                actor.Leave()


def Until(predicate: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Waits until ``predicate()`` is true and returns its value."""
    deadline = runtime.Monotonic() + patience
    while not (value := predicate()):
        assert runtime.Monotonic() < deadline, f"never came: {predicate}"
        runtime.Sleep(0.0005)
    return value
