"""The stream of changes."""

from __future__ import annotations

import weakref
from typing import Final

from ganeti import ht
from ganeti.luxi import events as luxi_events
from ganeti.rapi import events
from ganeti.rapi.callers import tokens
from ganeti.rapi.declared import Argument, ArgumentKind, Header, Method, Resource, Role
from ganeti.rapi.requests.call import Call, HttpError, Master
from ganeti.rapi.resources import examples
from ganeti.utils.text import JoinOr

KIND = Argument("kind", ArgumentKind.FIELDS, f"only events of these kinds: {', '.join(luxi_events.KINDS)}")
NAME = Argument("name", ArgumentKind.TEXT, "only events of the object with this name, or of the job with this number")
LAST_EVENT_ID: Final = Header("Last-Event-ID", "the `id` of the newest event seen: the stream resumes after it")


class _Follow:
    """The action; it keeps one hub for each master that it was asked about."""

    def __init__(self) -> None:
        self._hubs: weakref.WeakKeyDictionary[Master, events.Hub] = weakref.WeakKeyDictionary()

    async def __call__(self, call: Call) -> events.Stream:
        kinds = call.arguments[KIND.name]
        unknown = sorted(set(kinds or ()) - set(luxi_events.KINDS))
        if unknown:
            shown = ", ".join(f"'{kind[:40]}'" for kind in unknown[:5])
            raise HttpError(400, f"There are no events of the kind {shown}; known are {', '.join(luxi_events.KINDS)}")
        hub = self._hubs.get(call.master)
        if hub is None:
            hub = self._hubs[call.master] = events.Hub(call.master)
        wants = events.Filter(kinds, call.arguments[NAME.name])
        listener = await hub.Join(
            call.caller, wants, call.headers.get(LAST_EVENT_ID.name.lower()), tokens.StillValid(call)
        )
        return events.Stream(hub, listener)


RESOURCES = (
    Resource(
        "/2/events",
        "What changes.",
        {
            "GET": Method(
                _Follow(),
                "Follow what changes, as server-sent events.  Each has an `id`, a kind as its `event`"
                f" ({JoinOr([f'`{kind}`' for kind in luxi_events.KINDS])}) and JSON as its `data`.  The event `missed` means that"
                " some events are no longer available: read everything again.",
                Role.READ,
                answer=ht.TString,
                answer_example=examples.EVENTS,
                arguments=(KIND, NAME),
                addition=True,
                media=events.MEDIA,
                headers=(LAST_EVENT_ID,),
            )
        },
    ),
)
