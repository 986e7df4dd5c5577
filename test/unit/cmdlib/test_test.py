"""Delays, messages of the job queue, secret parameters."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from support.actors import Actor, Cast
from support.master import Callbacks, Master

from ganeti import constants, errors, opcodes, pathutils, runtime


def test_a_delay_on_nodes_and_master(master: Master) -> None:
    started = runtime.Monotonic()
    master.Run(opcodes.OpTestDelay(duration=0.05, on_nodes=["node2"], repeat=2))
    assert runtime.Monotonic() - started >= 0.1
    assert master[1].calls.count("test_delay") == 2 and "test_delay" not in master[0].calls
    assert master.last.messages == [
        " - INFO: Test delay iteration 0/1",
        " - INFO: Test delay iteration 1/1",
    ]
    master.Run(opcodes.OpTestDelay(duration=0, on_master=False))
    with pytest.raises(errors.OpPrereqError, match="must not be negative"):
        master.Run(opcodes.OpTestDelay(duration=-1))
    master[1].faults["test_delay"] = "no patience"
    with pytest.raises(errors.OpExecError, match="no patience"):
        master.Run(opcodes.OpTestDelay(duration=0, on_nodes=["node2"]))


def test_nodes_are_locked_while_they_wait(master: Master) -> None:
    held: list[str] = []
    master[1].before = lambda name, args: held.extend(r.name for r in master.glm.QueryLocks() if r.owner)
    master.Run(opcodes.OpTestDelay(duration=0, on_nodes=["node2"]))
    assert f"node/{master.nodes[0]}" in held and f"node/{master.nodes[1]}" in held


def test_a_delay_can_be_interrupted(master: Master) -> None:
    class Interrupting(Callbacks):
        def Feedback(self, kind: str, message: Any) -> None:
            super().Feedback(kind, message)
            if kind == constants.ELOG_DELAY_TEST:
                runtime.ConnectUnix(message[0]).close()

    started = runtime.Monotonic()
    cbs = Interrupting()
    master.Run(opcodes.OpTestDelay(duration=20, interruptible=True), cbs=cbs)
    assert runtime.Monotonic() - started < 10
    assert cbs.messages == [" - INFO: The delay was interrupted"]
    master.Run(opcodes.OpTestDelay(duration=0.01, interruptible=True))
    assert master.last.messages == [" - INFO: Nobody interrupted the delay"]
    assert runtime.ListDir(pathutils.SOCKET_DIR) == []


class _Client(Callbacks):
    """Answers each announcement of the opcode, on a thread of its own."""

    def __init__(self, actor: Actor, answer: bytes = b"1"):
        super().__init__()
        self._actor = actor
        self._answer = answer
        self.heard: list[tuple[str, Any]] = []

    def Feedback(self, kind: str, message: Any) -> None:
        super().Feedback(kind, message)
        if kind == constants.ELOG_JQUEUE_TEST:
            path, test, argument = message
            self.heard.append((test, argument))
            self._actor.Start(self._Answer, path)

    def _Answer(self, path: str) -> None:
        with contextlib.closing(runtime.ConnectUnix(path)) as client:
            client.sendall(self._answer)


def test_a_client_follows_an_opcode(master: Master) -> None:
    with Cast("client") as (actor,):
        cbs = _Client(actor)
        op = opcodes.OpTestJqueue(notify_waitlock=True, notify_exec=True, log_messages=["a", "b"])
        assert master.Run(op, cbs=cbs) is True
        assert cbs.heard == [("expandnames", None), ("exec", None), ("startmsg", 2), ("logmsg", "a"), ("logmsg", "b")]
        assert cbs.messages == [
            " - INFO: Expanding names",
            " - INFO: Executing",
            " - INFO: a",
            " - INFO: b",
        ]
        with pytest.raises(errors.OpExecError, match="failure was requested"):
            master.Run(opcodes.OpTestJqueue(fail=True))
        with pytest.raises(errors.OpExecError, match="did not confirm 'exec'"):
            master.Run(opcodes.OpTestJqueue(notify_exec=True), cbs=_Client(actor, b""))


def test_secret_parameters_reach_the_job_and_nobody_else(master: Master) -> None:
    master.Run(opcodes.OpTestOsParams(osparams_secret={"password": "sesame"}))
    assert not master.last.log and not master[1].calls
    for nothing in (None, {}):
        with pytest.raises(errors.OpExecError, match="No secret parameter reached the job"):
            master.Run(opcodes.OpTestOsParams(osparams_secret=nothing))
