"""What units wait for, in virtual time: mirrors, migrations, nodes that do not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import InSimulation, Master

from ganeti import errors, opcodes, runtime

WEB = "web.example.org"
NEW = "new.example.org"


def _Create(**values: Any) -> opcodes.OpInstanceCreate:
    return opcodes.OpInstanceCreate(
        instance_name=NEW, mode="create", disk_template="drbd", disks=[{"size": 1024}], nics=[{}], os_type="noop",
        pnode="node1", snode="node2", start=False, **values,
    )  # fmt: skip


def _Took(what: Callable[[], Any]) -> float:
    started = runtime.Monotonic()
    what()
    return runtime.Monotonic() - started


def test_a_sync_is_waited_for() -> None:
    def story(master: Master) -> None:
        master[0].sync = [
            {"sync_percent": 10.0, "estimated_time": 600, "is_degraded": True},
            {"sync_percent": 60.0, "estimated_time": 20, "is_degraded": True},
            {"sync_percent": 99.0, "estimated_time": None, "is_degraded": True},
            {},
        ]
        assert 81 <= _Took(lambda: master.Run(_Create())) < 82
        assert [text for text in master.last.messages if "device disk/0" in text] == [
            " - INFO: - device disk/0: 10.00% done, 600 s remaining (estimated)",
            " - INFO: - device disk/0: 60.00% done, 20 s remaining (estimated)",
            " - INFO: - device disk/0: 99.00% done, no time estimate",
        ]

    InSimulation(story)


def test_without_waiting_one_look_is_enough() -> None:
    def story(master: Master) -> None:
        master[0].sync = [{"sync_percent": 10.0, "estimated_time": 600, "is_degraded": True}]
        assert _Took(lambda: master.Run(_Create(wait_for_sync=False))) < 1
        paused = [name for name in master[0].calls if name == "blockdev_pause_resume_sync"]
        assert len(paused) == 2 and master[0].installed[0][0] == NEW

    InSimulation(story)


@pytest.mark.parametrize("wait_for_sync", [True, False])
def test_mirrors_that_stay_degraded_take_the_instance_away(wait_for_sync: bool) -> None:
    def story(master: Master) -> None:
        master[0].sync = [{"is_degraded": True}] * 11

        def create() -> None:
            with pytest.raises(errors.OpExecError, match="There are some degraded disks"):
                master.Run(_Create(wait_for_sync=wait_for_sync))

        assert 10 <= _Took(create) < 11
        assert master.snapshot.InstanceByName(NEW) is None and NEW not in master.glm.Names(1)
        assert len(master[0].devices) == len(master[1].devices) == 3

    InSimulation(story)


def test_a_moment_of_degradation_is_forgiven() -> None:
    def story(master: Master) -> None:
        master[0].sync = [{"is_degraded": True}] * 10
        assert 10 <= _Took(lambda: master.Run(_Create())) < 11
        assert master.Instance(NEW).disks_active

    InSimulation(story)


def test_a_node_that_tells_nothing_of_its_mirrors() -> None:
    def story(master: Master) -> None:
        tries: list[str] = []

        def before(name: str, args: Any) -> None:
            if name == "blockdev_getmirrorstatus" and len(tries) < limit:
                tries.append(name)
                raise errors.RpcCallError("busy")

        master[0].before = before
        limit = 9
        assert 54 <= _Took(lambda: master.Run(_Create())) < 55
        tries.clear()
        limit = 10
        with pytest.raises(errors.OpExecError, match="Can't contact node node1"):
            master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))

    InSimulation(story)


def test_a_migration_is_watched() -> None:
    def story(master: Master) -> None:
        steps = [100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 980, 990, 1000]

        def status(instance: Any) -> dict[str, Any]:
            done = steps.pop(0)
            state = "completed" if done == 1000 else "active"
            return {"status": state, "transferred_ram": done, "total_ram": 1000, "postcopy_status": None}

        master[0].instance_get_migration_status = status  # type: ignore[method-assign]
        master.Serve(0)
        assert 12 <= _Took(lambda: master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))) < 13
        assert "* memory transfer progress: 98.00 %" in master.last.messages
        assert master.Instance(WEB).primary_node == master.nodes[1]

    InSimulation(story)


def test_a_silent_node_is_given_a_minute() -> None:
    def story(master: Master) -> None:
        master.Patient()
        master.setup.cluster[1].up = False

        def start() -> None:
            with pytest.raises(errors.GenericError, match="node2") as caught:
                master.Run(opcodes.OpInstanceReboot(instance_name=WEB, reboot_type="hard"))
            assert "offline" in (getattr(caught.value, "hint", None) or str(caught.value))

        assert 60 <= _Took(start) < 70
        assert "instance_reboot" not in master[0].calls

    InSimulation(story)
