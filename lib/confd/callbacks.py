"""Callbacks to put between a Client and its user: only news, a count of answers, the newest answer."""

from __future__ import annotations

from collections.abc import Callable

from ganeti.confd import client, wire

Callback = Callable[[client.Event], None]


def _SameContent(one: wire.Reply, other: wire.Reply) -> bool:
    return (one.status, one.answer) == (other.status, other.answer)


class FilterCallback:
    """Passes on the first reply to a request, then only newer ones with another content, and the expiry.

    Replies of one serial that differ cannot all be right: ``IsInconsistent`` reports it.
    """

    def __init__(self, callback: Callback):
        self._callback = callback
        self._newest: dict[str, wire.Reply] = {}
        self._inconsistent: set[str] = set()

    def IsInconsistent(self, rsalt: str) -> bool:
        """Return whether the newest replies to this request contradict each other."""
        return rsalt in self._inconsistent

    def __call__(self, event: client.Event) -> None:
        if event.reply is None:
            self._newest.pop(event.rsalt, None)
            self._inconsistent.discard(event.rsalt)
            self._callback(event)
        elif self._IsNews(event.rsalt, event.reply):
            self._callback(event)

    def _IsNews(self, rsalt: str, reply: wire.Reply) -> bool:
        newest = self._newest.get(rsalt)
        if newest is not None:
            same = _SameContent(newest, reply)
            if reply.serial <= newest.serial:
                if reply.serial == newest.serial and not same:
                    self._inconsistent.add(rsalt)
                return False
            # What was in doubt is older than this reply.
            self._inconsistent.discard(rsalt)
            self._newest[rsalt] = reply
            return not same
        self._newest[rsalt] = reply
        return True


class CountingCallback:
    """Counts the replies to registered requests, and passes everything on."""

    def __init__(self, callback: Callback):
        self._callback = callback
        self._counts: dict[str, int] = {}

    def Register(self, rsalt: str) -> None:
        """Count the replies to this request from now on."""
        self._counts.setdefault(rsalt, 0)

    def Count(self, rsalt: str) -> int:
        return self._counts.get(rsalt, 0)

    def AllAnswered(self) -> bool:
        """Return whether every registered request has a reply."""
        return all(self._counts.values())

    def __call__(self, event: client.Event) -> None:
        if event.reply is not None and event.rsalt in self._counts:
            self._counts[event.rsalt] += 1
        self._callback(event)


class StoreCallback:
    """Keeps the newest reply to each request until the request expires."""

    def __init__(self) -> None:
        self._events: dict[str, client.Event] = {}

    def Newest(self, rsalt: str) -> client.Event | None:
        """Return the reply with the highest serial, None if there is none."""
        return self._events.get(rsalt)

    def __call__(self, event: client.Event) -> None:
        if event.reply is None:
            self._events.pop(event.rsalt, None)
            return
        known = self._events.get(event.rsalt)
        if known is None or known.reply is None or event.reply.serial >= known.reply.serial:
            self._events[event.rsalt] = event
