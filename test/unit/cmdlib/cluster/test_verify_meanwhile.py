"""What other jobs do while a node keeps a verification waiting (doc/design-verify.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master
from support.sidejobs import Held, Holders, SideJob

from ganeti import opcodes, runtime

_LEVELS = ("instance", "node", "node-res", "nodegroup", "node-alloc")
WEB, NEW = "web.example.org", "new.example.org"


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    """Three nodes; the first two have one mirrored instance, which runs on the first."""
    return make(3, lvm=True)


def _Create(**values: Any) -> opcodes.OpCode:
    return OnDisks(NEW, {"size": 1024}, **{"disk_template": "plain", "start": True, **values})


def _AddStray(master: Master, number: int) -> None:
    """Somebody makes a volume by hand."""
    master[number].Call(runtime.RunCmd, ["lvcreate", "-Wn", "-L128m", "-nstray", "-i1", "xenvg"])


def _Verifying(master: Master) -> SideJob:
    return SideJob(master, opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True), 950)


def _Findings(job: SideJob) -> list[str]:
    job.Result()
    said = [str(text).strip() for text in job.callbacks.messages]
    return [text for text in said if text.startswith(("- ERROR", "- NOTICE: Jobs")) and ("example.org" in text)]


def _Lasting(master: Master) -> set[str]:
    """What a verification finds of the example anyway."""
    return set(_Findings(_Verifying(master)))


def test_jobs_neither_wait_for_it_nor_are_reported(three: Master) -> None:
    """The slow node answers with what is so after one instance was stopped and another one made."""
    lasting = _Lasting(three)
    held = Held(three, 0, "node_verify")
    verifying = _Verifying(three)
    held.Begun()
    SideJob(three, opcodes.OpInstanceShutdown(instance_name=WEB)).Result()
    SideJob(three, _Create(), 901).Result()
    assert not verifying.ended and WEB not in three[0].guests and NEW in three[0].guests
    held.Go()
    assert set(_Findings(verifying)) == lasting


def _Starting(master: Master) -> tuple[SideJob, Held]:
    """A job that has recorded that the instance runs, and whose node has not started it yet."""
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    held = Held(master, 0, "instance_start")
    working = SideJob(master, opcodes.OpInstanceStartup(instance_name=WEB))
    held.Begun()
    return working, held


def test_a_job_that_is_still_at_work_is_waited_for(three: Master) -> None:
    """No lock is held meanwhile, and a look at other things holds none that only this one needs."""
    three.Run(_Create())
    _AddStray(three, 0)
    lasting = _Lasting(three)
    working, held = _Starting(three)
    kept: list[str] = []
    three[1].before = lambda name, args: kept.extend(Holders(three, "instance")) if name == "node_verify" else None
    verifying = _Verifying(three)
    runtime.Sleep(60)
    assert not verifying.ended and kept and NEW not in kept
    assert {job for level in _LEVELS for jobs in Holders(three, level).values() for job in jobs} == {"900"}
    held.Go()
    working.Result()
    assert set(_Findings(verifying)) == lasting


def test_what_a_job_that_does_not_end_may_have_done_is_left_out(three: Master) -> None:
    lasting = _Lasting(three)
    working, held = _Starting(three)
    found = set(_Findings(_Verifying(three)))
    [notice] = found - lasting
    assert "Jobs are at work on web.example.org:" in notice and "'gnt-cluster verify --node-group default'" in notice
    held.Go()
    working.Result()


def test_what_a_busy_node_lacks_is_reported_nevertheless(three: Master) -> None:
    """Jobs on instances do not take files away; five minutes later it is no change of the node's role any more."""
    working = SideJob(three, opcodes.OpTestDelay(duration=700.0, on_master=False, on_nodes=["node1"]))
    found = _Findings(_Verifying(three))
    assert not working.ended
    assert "- ERROR:ENODEFILECHECK:node:node1.example.org:File /var/lib/ganeti/hmac.key is missing" in found
    assert not any("NOTICE" in text for text in found)
    working.Result()


def test_what_is_wrong_is_looked_at_under_its_locks_alone(three: Master) -> None:
    three.Run(_Create())
    three[0].KillGuest(WEB)
    seen: list[list[dict[str, list[str]]]] = []

    def look(name: str, _args: Any) -> None:
        if name == "node_verify":
            seen.append([Holders(three, level) for level in _LEVELS])

    three[1].before = look
    found = _Findings(_Verifying(three))
    assert len([text for text in found if "EINSTANCEDOWN" in text]) == 1, found
    first, *again = seen
    assert not any(first)
    # The files of the example's nodes are wrong, too.
    assert again and again[-1] == [{WEB: ["950"]}, {key: ["950"] for key in three.nodes}, {}, {}, {}]


def test_volumes_that_a_job_is_about_to_remove_are_not_without_an_owner(three: Master) -> None:
    """The instance has no side on its old secondary node any more, and the lock of that node is given back."""
    three.Run(_Create(disk_template="drbd", snode="node2"))
    lasting = _Lasting(three)
    held = Held(three, 1, "blockdev_remove")
    replacing = SideJob(
        three,
        opcodes.OpInstanceReplaceDisks(instance_name=NEW, mode="replace_new_secondary", remote_node="node3"),
    )
    held.Begun()
    assert three.nodes[1] not in Holders(three, "node")
    verifying = _Verifying(three)
    runtime.Sleep(60)
    assert not verifying.ended
    held.Go()
    replacing.Result()
    assert set(_Findings(verifying)) == lasting


def test_a_node_that_dies_between_the_looks_is_reported_and_hides_nothing(three: Master) -> None:
    three.Run(_Create())
    three[0].KillGuest(WEB)
    _AddStray(three, 0)
    _AddStray(three, 1)
    # The last question of a look.
    three[0].before = lambda name, args: three[1].Stop() if name == "node_info" else None
    found = _Findings(_Verifying(three))
    for text in (
        "ENODERPC:node:node2.example.org:while contacting node: ",
        f"EINSTANCEDOWN:instance:{WEB}:",
        "ENODEORPHANLV:node:node1.example.org:volume xenvg/stray is unknown",
        "ENODEORPHANLV:node:node2.example.org:volume xenvg/stray is unknown",
    ):
        assert len([said for said in found if text in said]) == 1, (text, found)


def test_what_is_wrong_on_the_other_node_is_reported_although_the_primary_is_silent(three: Master) -> None:
    three[0].answers["node_verify"] = "nothing that anybody understands"
    _AddStray(three, 1)
    found = _Findings(_Verifying(three))
    assert any("ENODERPC:node:node1" in text for text in found)
    assert any("ENODEORPHANLV:node:node2" in text for text in found)


def test_a_node_that_was_marked_offline_meanwhile_is_nobodys_fault(three: Master) -> None:
    """It is switched off then."""
    lasting = _Lasting(three)
    held = Held(three, 0, "node_verify")
    verifying = _Verifying(three)
    held.Begun()
    SideJob(three, opcodes.OpNodeSetParams(node_name="node3", offline=True)).Result()
    three[2].Stop()
    held.Go()
    assert {text for text in _Findings(verifying) if "node3" in text} - lasting == set()


def test_a_node_that_is_marked_offline_before_it_answers_is_not_reported(three: Master) -> None:
    held = Held(three, 2, "node_verify")
    verifying = _Verifying(three)
    held.Begun()
    SideJob(three, opcodes.OpNodeSetParams(node_name="node3", offline=True)).Result()
    three[2].Stop()
    assert not any("ENODERPC" in text for text in _Findings(verifying))
