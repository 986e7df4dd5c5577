"""Calls that a node has been working on for long: how they travel, and how people are told of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

LONG_CALLS = "node_long_calls"
LONG_SECONDS = 60.0
"""What takes longer than this is worth telling."""
_ONE_DAY = 20 * 3600.0


class LongCall(NamedTuple):
    """``late``: its caller has given up, so it hangs; ``waits_for``: the program that it runs, empty if not known."""

    procedure: str
    seconds: float
    late: bool
    waits_for: str = ""


def FromPayload(payload: Sequence[Sequence[Any]]) -> list[LongCall]:
    return [LongCall(*row) for row in payload]


def Sentence(calls: Sequence[LongCall], verb: str, now: float, rest: str = "") -> str:
    """Return "12 calls hang: 5 lv_list since 02:11 (lvs), ..."; ``now``: seconds since 1970."""
    noun = f"1 call {verb}s{rest}" if len(calls) == 1 else f"{len(calls)} calls {verb}{rest}"
    return f"{noun}: {Describe(calls, now)}"


def Describe(calls: Iterable[LongCall], now: float) -> str:
    """Return the calls of each procedure in a few words, what began first at the beginning."""
    by_procedure: dict[str, list[LongCall]] = {}
    for call in sorted(calls, key=lambda call: (-call.seconds, call.procedure)):
        by_procedure.setdefault(call.procedure, []).append(call)
    return ", ".join(_OfProcedure(name, alike, now) for name, alike in by_procedure.items())


def _OfProcedure(name: str, calls: Sequence[LongCall], now: float) -> str:
    waits_for = next((f" ({call.waits_for})" for call in calls if call.waits_for), "")
    return f"{len(calls)} {name} since {_Clock(now - calls[0].seconds, now)}{waits_for}"


def _Clock(when: float, now: float) -> str:
    form = "%H:%M" if now - when < _ONE_DAY else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(when))
