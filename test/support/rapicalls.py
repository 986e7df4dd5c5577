"""Requests of the REST interface without a server: calls as actions see them, and a master daemon that notes its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from ganeti.rapi.declared import ArgumentKind, Job, Method, Resource
from ganeti.rapi.requests import dispatch
from ganeti.rapi.requests.call import ABSENT, Call, Caller
from ganeti.rapi.resources import RESOURCES

NAMES = {
    "name": "thing1",
    "uuid": "ab3ef36a-0b9c-4a6a-8f0c-8f6a3bd2b3a1",
    "resource": "node",
    "job": "17",
    "index": "1",
}


class NotingMaster:
    """A master daemon that answers from a table of LUXI methods and notes what it is asked."""

    def __init__(self, **answers: Any):
        self.answers = {"SubmitJob": 4711, **answers}
        self.calls: list[tuple[Any, ...]] = []

    async def Call(self, method: str, *args: Any, caller: Any = None) -> Any:
        self.calls.append((method, *args))
        answer = self.answers[method]
        return answer(*args) if callable(answer) else answer

    @property
    def ops(self) -> list[dict[str, Any]]:
        """The opcodes of the only job that was submitted."""
        [(method, ops)] = self.calls
        assert method == "SubmitJob"
        return ops


def Find(path: str) -> Resource:
    [found] = [r for r in RESOURCES if r.path == path]
    return found


def Methods() -> Iterator[tuple[Resource, str, Method]]:
    for resource in RESOURCES:
        for verb, method in resource.methods.items():
            yield resource, verb, method


def JobMethods() -> list[tuple[str, str]]:
    return [(r.path, verb) for r, verb, method in Methods() if isinstance(method.action, Job)]


def Arguments(method: Method, given: dict[str, Any]) -> dict[str, Any]:
    """Every declared argument's value, as dispatch hands it on."""
    values = {
        a.name: [] if a.kind in (ArgumentKind.TEXTS, ArgumentKind.FIELDS) else a.default for a in method.arguments
    }
    assert given.keys() <= values.keys(), f"unknown arguments {given.keys() - values.keys()}"
    return {**values, **given}


def MakeCall(
    path: str,
    verb: str,
    body: Any = ABSENT,
    master: NotingMaster | None = None,
    caller: str | None = None,
    names: dict[str, str] | None = None,
    options: frozenset[str] = frozenset(["write"]),
    **arguments: Any,
) -> Call:
    """``options``: of the caller.  ``arguments``: with ``_`` for ``-``, unless the declared name has it."""
    resource = Find(path)
    method = resource.methods[verb]
    declared = {a.name for a in method.arguments}
    given = {n if n in declared else n.replace("_", "-"): v for n, v in arguments.items()}
    return Call(
        resource=resource,
        method=method,
        verb=verb,
        caller=Caller(caller, "192.0.2.7", options),
        master=master or NotingMaster(),
        names={n: v for n, v in {**NAMES, **(names or {})}.items() if f"{{{n}}}" in path},
        arguments=Arguments(method, given),
        body=body,
    )


def Act(path: str, verb: str, body: Any = ABSENT, **more: Any) -> tuple[Any, NotingMaster]:
    """Runs a method's action: what it returns, and the master daemon it asked."""
    call = MakeCall(path, verb, body, **more)
    dispatch.CheckBody(call.method, call.body)
    result = asyncio.run(call.method.action(call))
    assert isinstance(call.master, NotingMaster)
    return result, call.master
