"""Adoption of volumes: whose they are at each moment, if the master dies then, and after failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master

from ganeti import errors, locking, objects, opcodes, runtime
from ganeti.cmdlib.instance.create import LUInstanceCreate

WEB = "web.example.org"
VG = "xenvg"
OWN = {f"{VG}/first": 1000, f"{VG}/second": 2000}
# What changes the cluster while two volumes are adopted, in this order.
STEPS = ["AddInstance", "call_blockdev_rename", "UpdateMany", "MarkInstanceDisksActive"]


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    """Two nodes with LVM, two volumes of the administrator on the first one; no instance."""
    master = make(2, lvm=True, change=lambda root: root.Replace(instances={}, disks={}))
    for name, size in OWN.items():
        command = ["lvcreate", "-Wn", f"-L{size}m", f"-n{name.partition('/')[2]}", "-i1", VG]
        assert not master[0].Call(runtime.RunCmd, command).failed
    return master


def _Adoption(name: str = WEB) -> opcodes.OpCode:
    return OnDisks(name, {"adopt": "first"}, {"adopt": "second"}, disk_template="plain", no_install=True)


def _Sizes(master: Master) -> dict[str, int]:
    """Return the size of each volume on the first node, by its name."""
    return {f"{group}/{name}": int(lv.size) for (group, name), lv in master[0].lvm.lvs.items()}


def _Findings(master: Master) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True))
    return [text for text in master.last.messages if any(code in text for code in (":ENODEORPHANLV:", ":EINSTANCEM"))]


def _Disks(master: Master) -> list[objects.Disk]:
    return list(master.snapshot.InstanceDisks(master.Instance(WEB)))


def _CheckOwners(master: Master) -> None:
    """Check that all data has its own name or that of a disk of the right size."""
    named = {name: disk.size for disk in master.snapshot.disks.values() for name in disk.VolumeNames()}
    sizes = _Sizes(master)
    assert sorted(sizes.values()) == sorted(OWN.values())
    assert sizes.items() <= OWN.items() | named.items()


# --- the master dies ------------------------------------------------------------------------------------------------------


class _Killed(BaseException):
    """Ends a job as a signal ends its master: nothing in it takes notice."""


class _Watched:
    """Stands before what a job uses to change the cluster; ``fate`` sees each call, and makes it or not."""

    def __init__(self, real: Any, fate: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]):
        self._real = real
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in STEPS:
            return found
        return lambda *args, **values: self._fate(name, lambda *new: found(*new, **values), args)


def _RunWatched(master: Master, fate: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]) -> None:
    class Watched(LUInstanceCreate):
        def Exec(self, feedback: Any) -> list[str]:
            self.cfg, self.rpc = _Watched(self.cfg, fate), _Watched(self.rpc, fate)  # type: ignore[assignment]
            return super().Exec(feedback)

    op = _Adoption()
    master.Run(op, units={op.OP_ID: Watched})


def _Kill(master: Master, step: str, when: str) -> None:
    """Adopt the volumes with a master that dies before, during or after a step."""

    def fate(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name != step:
            return call(*args)
        if when == "during":
            node_uuid, renames = args
            call(node_uuid, renames[:1])
        if when == "after":
            call(*args)
        raise _Killed

    with pytest.raises(_Killed):
        _RunWatched(master, fate)
    # The next master makes a lock for each instance that is stored.
    known = master.glm.Names(locking.LEVEL_INSTANCE)
    if master.snapshot.InstanceByName(WEB) is not None and WEB not in known:
        master.glm.acquire(locking.LEVEL_CLUSTER, locking.BGL, None, 1)
        master.glm.add(locking.LEVEL_INSTANCE, WEB)
        master.glm.release(locking.LEVEL_CLUSTER)


MOMENTS = [(step, when) for step in STEPS for when in ("before", "after")] + [("call_blockdev_rename", "during")]


def test_these_are_the_steps(two: Master) -> None:
    seen: list[str] = []

    def fate(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        seen.append(name)
        return call(*args)

    _RunWatched(two, fate)
    assert seen == STEPS and _Findings(two) == []
    assert _Sizes(two) == {"/".join(disk.logical_id): disk.size for disk in _Disks(two)}
    assert [(disk.size, disk.adopts) for disk in _Disks(two)] == [(1000, None), (2000, None)]


@pytest.mark.parametrize(("step", "when"), MOMENTS)
def test_volumes_belong_to_somebody_whenever_the_master_dies(two: Master, step: str, when: str) -> None:
    """Once the configuration knows of them nothing advises to remove one, and removing the instance gives them back."""
    _Kill(two, step, when)
    _CheckOwners(two)
    findings = _Findings(two)
    if two.snapshot.InstanceByName(WEB) is None:
        assert (step, when) == ("AddInstance", "before")
        assert _Sizes(two) == OWN and all(":ENODEORPHANLV:" in text for text in findings), "as it was before the job"
    else:
        assert not any("lvremove" in text or "recreate-disks" in text for text in findings)
        missing = len(set(_Sizes(two)) & set(OWN))
        assert len(findings) == missing
        assert all(f"'gnt-instance remove {WEB}'" in text and ":EINSTANCEMISSINGDISK:" in text for text in findings)
        if (step, when) in (("UpdateMany", "after"), *((STEPS[-1], when) for when in ("before", "after"))):
            two.Run(opcodes.OpInstanceStartup(instance_name=WEB))
            return
        two.Run(opcodes.OpInstanceRemove(instance_name=WEB))
        assert _Sizes(two) == OWN and two.snapshot.disks == {}
    two.Run(_Adoption())
    assert [disk.size for disk in _Disks(two)] == [1000, 2000] and _Findings(two) == []
    two.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert _Sizes(two) == {}, "from then on they are volumes like all others"


def test_an_instance_that_has_all_its_volumes_can_be_started(two: Master) -> None:
    _Kill(two, "call_blockdev_rename", "after")
    assert [disk.adopts for disk in _Disks(two)] == ["first", "second"]
    two.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert [disk.adopts for disk in _Disks(two)] == [None, None] and _Findings(two) == []


def test_one_that_lacks_some_cannot(two: Master) -> None:
    _Kill(two, "call_blockdev_rename", "during")
    with pytest.raises(errors.OpExecError, match="could not be set up"):
        two.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert [disk.adopts for disk in _Disks(two)] == ["first", "second"]
    two.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert _Sizes(two) == OWN


def test_a_disk_that_is_removed_meanwhile_is_given_back(two: Master) -> None:
    _Kill(two, "call_blockdev_rename", "after")
    two.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["remove", 0, {}]], ignore_ipolicy=True))
    assert _Sizes(two) == {f"{VG}/first": 1000, "/".join(_Disks(two)[0].logical_id): 2000}


def test_no_new_volumes_are_made_in_their_place(two: Master) -> None:
    _Kill(two, "AddInstance", "after")
    with pytest.raises(errors.OpPrereqError, match="has not adopted its volumes completely"):
        two.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB))
    assert _Sizes(two) == OWN


def test_nobody_else_adopts_a_volume_meanwhile(two: Master) -> None:
    _Kill(two, "AddInstance", "after")
    with pytest.raises(
        errors.OpPrereqError, match=rf"xenvg/first cannot be adopted: its adoption by instance {WEB}"
    ) as info:
        two.Run(_Adoption("db.example.org"))
    assert f"'gnt-instance remove {WEB}'" in str(info.value.hint)
    _CheckOwners(two)


# --- the node fails -------------------------------------------------------------------------------------------------------


def _Count(master: Master, procedure: str, outcome: Callable[[int], None]) -> None:
    """Call ``outcome`` with the number of each call of a procedure that arrives at the first node."""
    calls = [0]

    def arrive(name: str, _args: Any) -> None:
        if name == procedure:
            calls[0] += 1
            outcome(calls[0])

    master[0].before = arrive


def _Fail(*numbers: int) -> Callable[[int], None]:
    def fail(number: int) -> None:
        if not numbers or number in numbers:
            raise errors.RpcCallError("the controller is broken")

    return fail


def test_a_rename_that_fails_leaves_what_was_there(two: Master) -> None:
    """The first volume has been renamed already."""
    programs = two[0].machine.programs
    real, seen = programs["lvrename"], []

    def fail(invocation: Any) -> int | None:
        seen.append(invocation.argv[-2])
        if "second" not in invocation.argv:
            return real(invocation)
        invocation.Complain("the volume is busy")
        return 5

    programs["lvrename"] = fail
    with pytest.raises(errors.OpExecError, match=r"Failed to rename adopted volumes on node node1.*is busy"):
        two.Run(_Adoption())
    assert seen[:2] == ["first", "second"] and len(seen) == 3
    assert _Sizes(two) == OWN and two.snapshot.instances == {} == two.snapshot.disks


def test_a_node_that_renames_nothing(two: Master) -> None:
    _Count(two, "blockdev_rename", _Fail(1))
    with pytest.raises(errors.OpExecError, match=r"Failed to rename adopted volumes on node node1.*controller"):
        two.Run(_Adoption())
    assert _Sizes(two) == OWN and two.snapshot.instances == {} == two.snapshot.disks
    two[0].before = lambda name, args: None
    two.Run(_Adoption())
    assert _Findings(two) == []


def test_volumes_that_cannot_be_given_back_keep_their_instance(two: Master) -> None:
    _Count(two, "blockdev_rename", _Fail())
    with pytest.raises(errors.OpExecError, match="Failed to rename adopted volumes"):
        two.Run(_Adoption())
    said = " ".join(two.last.messages)
    assert f"{WEB} stays in the configuration" in said and f"'gnt-instance remove {WEB}'" in said
    _CheckOwners(two)
    assert len(_Disks(two)) == 2
    two[0].before = lambda name, args: None
    two.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert _Sizes(two) == OWN


def test_a_node_whose_answer_is_lost(two: Master) -> None:
    """It may be at it still: the instance stays, so that whatever happens there is known to be its."""
    _Count(two, "blockdev_rename", lambda number: two[0].Stop() if number == 1 else None)
    asked: list[str] = []

    def fate(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        asked.append(name)
        result = call(*args)
        if name == "call_blockdev_rename":
            two[0].Start()
        return result

    with pytest.raises(errors.OpExecError, match="Failed to rename adopted volumes"):
        _RunWatched(two, fate)
    assert asked == STEPS[:2] and f"{WEB} stays in the configuration" in " ".join(two.last.messages)
    assert [disk.adopts for disk in _Disks(two)] == ["first", "second"]
    two.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert _Sizes(two) == OWN


def test_a_configuration_that_cannot_be_stored_renames_nothing(two: Master) -> None:
    def fate(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if name == "AddInstance":
            raise errors.ConfigurationError("no room")
        return call(*args)

    with pytest.raises(errors.ConfigurationError, match="no room"):
        _RunWatched(two, fate)
    assert _Sizes(two) == OWN and two.snapshot.instances == {}


def test_an_adoption_that_is_given_up_afterwards_removes_no_data(two: Master) -> None:
    """The node does not answer how the disks are: made ones would be removed then."""
    _Count(two, "blockdev_getmirrorstatus", _Fail())
    with pytest.raises(errors.OpExecError, match="mirror data"):
        two.Run(_Adoption())
    assert _Sizes(two) == OWN and two.snapshot.instances == {}
