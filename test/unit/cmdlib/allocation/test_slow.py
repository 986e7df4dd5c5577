"""Allocators that take long, or hang: what the job's log says, who need not wait, and what ends the wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Played
from support.master import Master
from support.placing import NEW, Allocator, Create, First, Nodes, Prepare
from support.sidejobs import Holders, SideJob, Until

from ganeti import errors, opcodes, runtime
from ganeti.cmdlib.allocation import ask

OTHER = "other.example.org"


@pytest.fixture
def four(make: Callable[..., Master]) -> Master:
    return make(4, prepare=Prepare, lvm=True)


class Hanging:
    """An allocator that answers one of its questions, by default the first, when it is told to."""

    def __init__(
        self,
        master: Master,
        question: int = 1,
        others: Callable[[dict[str, Any]], Any] = First,
        late: Callable[[dict[str, Any]], Any] = First,
    ) -> None:
        self.begun, self.go = runtime.Event(), runtime.Event()
        self._question, self._others, self._late = question, others, late
        self.played: Played = Allocator(master, self._Answer, "slow")

    def _Answer(self, message: dict[str, Any]) -> Any:
        if len(self.played.asked) == self._question:
            self.begun.set()
            self.go.wait()
            return self._late(message)
        return self._others(message)


def test_others_choose_while_an_allocator_hangs_and_its_choice_is_made_again(four: Master) -> None:
    hanging = Hanging(four)
    Allocator(four)
    slow = SideJob(four, Create(iallocator="slow", disk_template="plain"), 901)
    assert hanging.begun.wait(60)
    assert Holders(four, "node-alloc")
    began = runtime.Monotonic()
    quick = SideJob(four, Create(OTHER, disk_template="plain"), 902)
    assert quick.Result() == [four[0].name]
    assert ask.SLOW - 2 < runtime.Monotonic() - began < ask.SLOW + 30
    [text] = [line for line in slow.callbacks.messages if "iallocator slow" in line]
    assert f"iallocator slow has been running on {four[0].name} for 10 s; it is ended when it takes 15 minutes" in text
    assert "'gnt-job cancel 901' ends the wait" in text
    assert not slow.ended
    hanging.go.set()
    assert slow.Result() == [four[0].name]
    # What the other one took was not in the first question, so there was a second one.
    first, second = hanging.played.asked
    assert OTHER not in first["instances"] and OTHER in second["instances"]
    assert Nodes(four, NEW) == ("1",)


def test_others_wait_longer_for_whoever_was_overtaken_but_not_for_a_program_that_hangs(four: Master) -> None:
    """The first question takes five seconds, and its node changes meanwhile; the second one is refused, the third one hangs."""

    def change(message: dict[str, Any]) -> Any:
        if "restrict-to-nodes" in message["request"]:
            return "an allocator for 2.x"
        runtime.Sleep(5)
        with four.Elsewhere():
            four.cfg.Update(four.snapshot.nodes[four.nodes[0]].Replace(tags=("rack:2",)))
        return First(message)

    hanging = Hanging(four, 3, change)
    Allocator(four)
    slow = SideJob(four, Create(iallocator="slow", disk_template="plain"), 901)
    assert hanging.begun.wait(60)
    began = runtime.Monotonic()
    assert SideJob(four, Create(OTHER, disk_template="plain"), 902).Result()
    assert ask.SLOW + 2 * 5 - 2 < runtime.Monotonic() - began < ask.SLOW + 2 * 5 + 30
    assert len([line for line in slow.callbacks.messages if "has been running" in line]) == 1
    assert not slow.ended
    hanging.go.set()
    slow.Result()


@pytest.mark.parametrize("kind", ["evacuation", "several"])
def test_others_choose_while_an_allocator_hangs_in_a_job_that_runs(four: Master, kind: str) -> None:
    ops = {
        "evacuation": opcodes.OpNodeEvacuate(node_name="node1", mode="all", iallocator="slow"),
        "several": opcodes.OpInstanceMultiAlloc(
            iallocator="slow", instances=[Create(iallocator=None, disk_template="plain").ToDict()]
        ),
    }
    hanging = Hanging(four, late=lambda message: {"success": False, "info": "no room", "result": []})
    Allocator(four)
    slow = SideJob(four, ops[kind], 901)
    assert hanging.begun.wait(60)
    assert Holders(four, "node-alloc")
    began = runtime.Monotonic()
    assert SideJob(four, Create(OTHER, disk_template="plain"), 902).Result()
    assert ask.SLOW - 2 < runtime.Monotonic() - began < ask.SLOW + 30
    assert not slow.ended
    [text] = [line for line in slow.callbacks.messages if "iallocator slow has been running" in line]
    assert "'gnt-job cancel --kill --yes-do-it 901' ends the wait" in text
    hanging.go.set()
    with pytest.raises(errors.OpPrereqError, match="no room"):
        slow.Result()


def test_a_quick_allocator_is_not_mentioned(four: Master) -> None:
    Allocator(four)
    job = SideJob(four, Create(disk_template="plain"), 901)
    job.Result()
    assert not [line for line in job.callbacks.messages if "has been running" in line]


def test_the_wait_for_an_allocator_can_be_ended_and_nothing_is_left(four: Master) -> None:
    hanging = Hanging(four)
    thread: list[int] = []
    job = SideJob(four, Create(iallocator="slow"), 901)
    job.callbacks.CurrentPriority = lambda: thread.append(runtime.ThreadIdent())  # type: ignore[method-assign]
    assert hanging.begun.wait(60)
    Until(lambda: thread)
    assert four.rpc.Abort(thread[-1], "instance_start") == 0, "other calls are left alone"
    assert not job.ended
    assert four.rpc.Abort(thread[-1], ask.PROCEDURE) == 1
    with pytest.raises(errors.OpExecError, match="the call was aborted"):
        job.Result()
    assert Holders(four, "node-alloc") == Holders(four, "instance") == {}
    assert NEW not in {inst.name for inst in four.snapshot.instances.values()}
    hanging.go.set()
