"""Changing calls across a change of master (rule 6): who may act on a node, searched in all states."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any, NamedTuple


class CallRules(NamedTuple):
    atomic: bool = True  # epoch check and entry in the list of running calls are one step
    drain: bool = True  # calls of a newer epoch wait until older ones on this node ended
    both: bool = True  # all nodes of an object are asked first; a silent one counts as acting


class _Calls(NamedTuple):
    """Of each node: promised epoch, epochs of running calls, calls checked but not entered, confirmed by master 2."""

    prom: tuple[int, ...]
    running: tuple[tuple[int, ...], ...]
    checked: tuple[int, ...]
    left: int
    sure: tuple[int, ...]


def Search(rules: CallRules) -> tuple[int, str, list[str]]:
    """Return how many states there are, the violation, and the steps that lead to it.

    Old master 1, new master 2, an object on nodes 0 and 1.  The old master never learns anything; the new one acts on
    node 1 when the rules let it.  Violation: both act on the object at once.
    """
    first = _Calls((1, 1), ((), ()), (0, 0), 2, (0, 0))
    parents: dict[_Calls, Any] = {first: None}
    queue = collections.deque([first])
    while queue:
        state = queue.popleft()
        busy = state.running[0] + state.running[1]
        if 1 in busy and 2 in busy:
            out = []
            while parents[state]:
                label, state = parents[state]
                out.append(label)
            return len(parents), "two masters act on one object", out[::-1]
        for label, new in _Steps(rules, state):
            if new not in parents:
                parents[new] = (label, state)
                queue.append(new)
    return len(parents), "", []


def _Steps(rules: CallRules, s: _Calls) -> Iterator[tuple[str, _Calls]]:
    for i in (0, 1):
        if s.left and s.prom[i] == 1:
            if rules.atomic:
                begun = _Put(s.running, i, (*s.running[i], 1))
                yield f"old call begins on {i}", s._replace(running=begun, left=s.left - 1)
            elif not s.checked[i]:
                yield f"old call checked on {i}", s._replace(checked=_Put(s.checked, i, 1), left=s.left - 1)
        if s.checked[i]:
            begun = _Put(s.running, i, (*s.running[i], 1))
            yield f"old call begins on {i}", s._replace(running=begun, checked=_Put(s.checked, i, 0))
        for epoch in set(s.running[i]):
            less = list(s.running[i])
            less.remove(epoch)
            yield f"call of {epoch} ends on {i}", s._replace(running=_Put(s.running, i, tuple(less)))
        if s.prom[i] == 1:
            yield f"{i} promises", s._replace(prom=_Put(s.prom, i, 2))
        if s.prom[i] == 2 and not s.sure[i] and (not rules.drain or 1 not in s.running[i]):
            yield f"{i} confirms: no older call runs", s._replace(sure=_Put(s.sure, i, 1))
    if s.sure[1] and (s.sure[0] or not rules.both) and 2 not in s.running[1]:
        yield "new call begins on 1", s._replace(running=_Put(s.running, 1, (*s.running[1], 2)))


def _Put(seq: Any, i: int, value: Any) -> Any:
    return (*seq[:i], value, *seq[i + 1 :])
