"""What units wait for, in virtual time: mirrors, nodes that do not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master

from ganeti import errors, opcodes, runtime

WEB = "web.example.org"


def _Stop(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))


@pytest.fixture
def stopped(make: Callable[..., Master]) -> Master:
    return make(2, prepare=_Stop)


def _Activate() -> opcodes.OpInstanceActivateDisks:
    return opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True)


def _Took(what: Callable[[], Any]) -> float:
    started = runtime.Monotonic()
    what()
    return runtime.Monotonic() - started


def test_a_sync_is_waited_for(stopped: Master) -> None:
    stopped[0].SetMirrors(
        {"sync_percent": 10.0, "estimated_time": 600, "is_degraded": True},
        {"sync_percent": 60.0, "estimated_time": 20, "is_degraded": True},
        {"sync_percent": 99.0, "estimated_time": None, "is_degraded": True},
        {},
    )
    assert 81 <= _Took(lambda: stopped.Run(_Activate())) < 82
    assert [text for text in stopped.last.messages if "device disk/0" in text] == [
        " - INFO: - device disk/0: 10.00% done, 600 s remaining (estimated)",
        " - INFO: - device disk/0: 60.00% done, 20 s remaining (estimated)",
        " - INFO: - device disk/0: 99.00% done, no time estimate",
    ]


def test_mirrors_that_stay_degraded_are_an_error(stopped: Master) -> None:
    stopped[0].SetMirrors({"is_degraded": True})

    def activate() -> None:
        with pytest.raises(errors.OpExecError, match="degraded"):
            stopped.Run(_Activate())

    assert 10 <= _Took(activate) < 11


def test_a_moment_of_degradation_is_forgiven(stopped: Master) -> None:
    stopped[0].SetMirrors(*[{"is_degraded": True}] * 10, {})
    assert 10 <= _Took(lambda: stopped.Run(_Activate())) < 11
    assert stopped.Instance(WEB).disks_active


def test_a_node_that_says_nothing_of_its_mirrors(stopped: Master) -> None:
    tries: list[str] = []

    def before(name: str, args: Any) -> None:
        if name == "blockdev_getmirrorstatus" and len(tries) < limit:
            tries.append(name)
            raise errors.RpcCallError("busy")

    stopped[0].before = before
    limit = 9
    assert 54 <= _Took(lambda: stopped.Run(_Activate())) < 55
    tries.clear()
    limit = 10
    with pytest.raises(errors.OpExecError, match="Can't contact node node1"):
        stopped.Run(_Activate())


def test_a_silent_node_is_given_a_minute(master: Master) -> None:
    master[1].Stop()

    def start() -> None:
        with pytest.raises(errors.GenericError, match="node2") as caught:
            master.Run(_Activate())
        assert "offline" in (getattr(caught.value, "hint", None) or str(caught.value))

    assert 60 <= _Took(start) < 70
    assert "blockdev_assemble" not in master[0].calls
