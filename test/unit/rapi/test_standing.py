"""How calls say whether they are for somebody who has logged in, and which token is still accepted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.rapicalls import MakeCall, NotingMaster

from ganeti.rapi.callers import tokens
from ganeti.rapi.declared import Role
from ganeti.rapi.events import Hub
from ganeti.rapi.requests.call import Caller, HttpError
from ganeti.utils import tokens as secrets


class _Master(NotingMaster):
    """Notes for whom it is asked."""

    def __init__(self, **answers: Any):
        super().__init__(**answers)
        self.callers: list[str | None] = []

    async def Call(self, method: str, *args: Any, caller: Any = None) -> Any:
        self.callers.append(caller.name)
        return await super().Call(method, *args)


@pytest.mark.parametrize("name", [None, "jack"])
def test_the_master_is_asked_for_whoever_sent_the_request(name: str | None) -> None:
    master = _Master(QueryClusterInfo={}, WaitForEvents={"last": "x", "missed": False, "events": []})
    call = MakeCall("/2/info", "GET", master=master, caller=name)
    asyncio.run(call.Ask("QueryClusterInfo"))

    async def page() -> None:
        await Hub(master).Page("x", Caller(name, "192.0.2.7"))

    asyncio.run(page())
    assert master.callers == [name] * 2


def test_a_token_stays_valid_while_the_master_daemon_is_away_and_no_longer_than_it_is_stored() -> None:
    answers: list[Any] = [HttpError(502), []]

    def stored(names: list[str]) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, HttpError):
            raise answer
        return answer

    call = MakeCall("/2/info", "GET", master=NotingMaster(QueryRapiTokens=stored))
    assert tokens.StillValid(call) is None, "a request without a token"
    call.caller = Caller("token:robot", "192.0.2.7", role=Role.READ)
    call.headers = {"authorization": f"Bearer {secrets.Make('robot', bytes(32))}"}
    valid = tokens.StillValid(call)
    assert valid is not None

    async def story() -> list[bool]:
        return [await valid(), await valid()]

    assert asyncio.run(story()) == [True, False]
