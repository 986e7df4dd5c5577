"""From plain disks to mirrors and back with real volumes: what is on the nodes at each moment, and after a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, Mirrors, _Empty

from ganeti import errors, opcodes


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Add(master: Master, *disks: dict[str, Any]) -> Mirrors:
    mirrors = Mirrors(master)
    master.Run(OnDisks(WEB, *(disks or ({"size": 128}, {"size": 256})), disk_template="plain"))
    return mirrors


def _Convert(master: Master, template: str, **values: Any) -> None:
    if template == "drbd":
        values = {"remote_node": "node2", **values}
    master.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template=template, ignore_ipolicy=True, **values))


def _DataVolumes(master: Master) -> list[str]:
    """Return the volumes that the configuration names as the data of the instance's disks."""
    disks = master.snapshot.InstanceDisks(master.Instance(WEB))
    return [(disk.children[0] if disk.children else disk).logical_id[1] for disk in disks]


def _Refused(master: Master, match: str, template: str = "drbd", **values: Any) -> None:
    before = master.snapshot.disks, [list(node.lvm.Volumes()) for node in master.all]
    with pytest.raises(errors.OpPrereqError, match=match):
        _Convert(master, template, **values)
    assert (master.snapshot.disks, [list(node.lvm.Volumes()) for node in master.all]) == before


def test_the_data_is_where_the_configuration_says_at_every_moment(three: Master) -> None:
    """Whenever a master dies in between, its successor finds the volumes; nothing with data looks like a leftover."""
    mirrors = _Add(three)
    before = _DataVolumes(three)
    seen = []

    def look(name: str, _args: Any) -> None:
        seen.append(name)
        assert set(_DataVolumes(three)) <= {name for _, name in three[0].lvm.lvs}, name

    for node in three.all:
        node.before = look
    _Convert(three, "drbd", wait_for_sync=True)
    assert _DataVolumes(three) == before and mirrors.Volumes() == [4, 4, 0]
    assert mirrors.States() == [[PRIMARY] * 2, [SECONDARY] * 2, []]
    assert {"blockdev_create", "blockdev_getmirrorstatus"} <= set(seen)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    _Convert(three, "plain")
    assert _DataVolumes(three) == before and mirrors.Volumes() == [2, 0, 0]
    assert mirrors.States() == [[], [], []]
    assert len(three.snapshot.cluster.tcpudp_port_pool) == 2, "the ports are free again"


@pytest.mark.parametrize("number", range(1, 11))
def test_a_conversion_that_fails_leaves_what_was_there(three: Master, number: int) -> None:
    """Ten devices are made: three volumes and two sides for each disk."""
    mirrors = _Add(three)
    before = three.snapshot.disks, mirrors.Volumes(), _DataVolumes(three)
    made = [0]

    def fail(name: str, _args: Any) -> None:
        if name == "blockdev_create":
            made[0] += 1
            if made[0] == number:
                raise errors.RpcCallError("the disk is broken")

    for node in three.all:
        node.before = fail
    with pytest.raises(errors.OpExecError, match=r"Can't create block device.*the disk is broken"):
        _Convert(three, "drbd")
    assert made == [number]
    assert (three.snapshot.disks, mirrors.Volumes(), _DataVolumes(three)) == before
    assert mirrors.States() == [[], [], []]
    for node in three.all:
        node.before = lambda name, args: None
    _Convert(three, "drbd")
    assert mirrors.Volumes() == [4, 4, 0]


def test_a_mirror_that_is_not_filled_is_said(three: Master) -> None:
    mirrors = _Add(three, {"size": 128})
    mirrors.links.hold = True
    _Convert(three, "drbd", wait_for_sync=False)
    assert [states[0][2] for states in mirrors.States()[:2]] == ["UpToDate", "Inconsistent"]
    mirrors.links.Finish()
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    _Convert(three, "plain")
    mirrors.links.Cut()
    with pytest.raises(errors.OpExecError, match="degraded disks"):
        _Convert(three, "drbd", wait_for_sync=False)


def test_nodes_that_cannot_have_the_other_side(three: Master) -> None:
    _Add(three)
    three.Run(opcodes.OpNodeSetParams(node_name="node2", drained=True))
    _Refused(three, "drained")
    three[2].InstallLvm(300)
    _Refused(three, "(?i)not enough disk space on target node node3", remote_node="node3")
    _Refused(three, "same as the primary", remote_node="node1")


def test_parameters_of_a_provider_that_there_is_not(three: Master) -> None:
    _Add(three)
    _Refused(three, "takes no parameters of a provider", ext_params={"tier": "fast"})


def test_what_is_left_on_a_node_that_does_not_answer_is_said(three: Master) -> None:
    mirrors = _Add(three, {"size": 128})
    _Convert(three, "drbd", wait_for_sync=True)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))

    removals: list[str] = []

    def fail(name: str, _args: Any) -> None:
        removals.extend([name] if name == "blockdev_remove" else [])
        # Before the first removal the mirror is taken down, without which nothing is converted.
        if removals and name in ("blockdev_remove", "blockdev_shutdown"):
            raise errors.RpcCallError("it is busy")

    for node in three.all:
        node.before = fail
    _Convert(three, "plain")
    said = [message for message in three.last.messages if "it is busy" in message]
    assert len(said) == 2 and "on node node2" in said[0] and "on node node1" in said[1]
    assert any("run 'drbdsetup down resource0' and 'lvremove" in message for message in three.last.messages)
    assert mirrors.Volumes() == [2, 2, 0] and len(_DataVolumes(three)) == 1


def test_the_other_side_is_in_the_same_volume_group_and_needs_the_room(three: Master) -> None:
    for node, size in zip(three.all, (1000, 1000, 600), strict=True):
        node.lvm.AddPv("/dev/sdx", "other", size)
    _Add(three, {"size": 700, "vg": "other"})
    _Refused(three, r"(?i)not enough disk space on target node node3.* vg other", remote_node="node3")
    _Convert(three, "drbd", wait_for_sync=True)
    [(group, name)] = [key for key in three[1].lvm.lvs if key[0] == "other"]
    assert (group, name) in three[0].lvm.lvs and _DataVolumes(three) == [name], (
        "no room for a second copy is needed there"
    )
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    _Convert(three, "plain")
    assert list(three[0].lvm.lvs) == [("other", name)]


def _Allow(master: Master, *templates: str) -> None:
    cluster = master.snapshot.cluster
    policy = {**cluster.ipolicy, "disk-templates": list(templates)}
    master.cfg.Update(cluster.Replace(enabled_disk_templates=list(templates), ipolicy=policy))


def test_nodes_are_free_for_others_once_the_configuration_is_right(three: Master) -> None:
    """What follows, filling the other side or removing what was, may take long."""
    _Add(three, {"size": 128})
    _Allow(three, "plain", "drbd", "file")
    held: dict[str, set[str]] = {}

    def look(name: str, _args: Any) -> None:
        rows = [row.name for row in three.glm.QueryLocks() if row.owner and row.name.startswith("node/")]
        held.setdefault(name, set()).update(rows)

    for node in three.all:
        node.before = look
    for template, call in (
        ("drbd", "blockdev_getmirrorstatus"),
        ("plain", "blockdev_remove"),
        ("file", "blockdev_remove"),
    ):
        held.clear()
        _Convert(three, template)
        assert held[call] == set(), template
        three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))


def test_disks_that_cannot_be_read_are_not_copied(three: Master) -> None:
    """One side of a mirror does not know whether the other one has newer data."""
    mirrors = _Add(three, {"size": 128})
    _Allow(three, "plain", "drbd", "file")
    _Convert(three, "drbd", wait_for_sync=True)
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    before = three.snapshot.disks
    three[1].faults["blockdev_assemble"] = "the disk is broken"
    with pytest.raises(errors.OpExecError, match="Can't set up disk 0 on its nodes"):
        _Convert(three, "file")
    assert three.snapshot.disks == before and "blockdev_convert" not in three[0].calls
    assert mirrors.Volumes() == [2, 2, 0] and mirrors.States() == [[], [], []]


@pytest.mark.parametrize(("old", "new"), [("plain", "drbd"), ("drbd", "plain"), ("drbd", "file")])
def test_disks_that_were_activated_by_hand_are_down_before_anything_is_made(three: Master, old: str, new: str) -> None:
    """Somebody may write to them at the same time."""
    mirrors = _Add(three, {"size": 128})
    _Allow(three, "plain", "drbd", "file")
    if old == "drbd":
        _Convert(three, "drbd", wait_for_sync=True)
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    calls: list[str] = []
    changing = ("blockdev_shutdown", "blockdev_create", "blockdev_assemble", "blockdev_remove")

    def look(name: str, _args: Any) -> None:
        if name in changing:
            if calls and set(calls) == {"blockdev_shutdown"} and name != "blockdev_shutdown":
                assert mirrors.States() == [[], [], []]
            calls.append(name)

    for node in three.all:
        node.before = look
    _Convert(three, new)
    downs = 2 if old == "drbd" else 1
    assert calls[:downs] == ["blockdev_shutdown"] * downs and calls[downs] != "blockdev_shutdown"


@pytest.mark.parametrize(("old", "new"), [("plain", "drbd"), ("drbd", "plain"), ("drbd", "file")])
def test_disks_that_cannot_be_taken_down_are_not_converted(three: Master, old: str, new: str) -> None:
    mirrors = _Add(three, {"size": 128})
    _Allow(three, "plain", "drbd", "file")
    if old == "drbd":
        _Convert(three, "drbd", wait_for_sync=True)
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    before = three.snapshot.disks, mirrors.Volumes()
    three[0].faults["blockdev_shutdown"] = "it is in use"
    for node in three.all:
        node.calls.clear()
    with pytest.raises(errors.OpExecError, match=r"Can't shut down the disks of instance .*; nothing was changed"):
        _Convert(three, new)
    assert (three.snapshot.disks, mirrors.Volumes()) == before
    for node in three.all:
        assert not {"blockdev_create", "blockdev_assemble", "blockdev_remove"} & set(node.calls)


def test_a_mirror_cannot_have_exclusive_storage(three: Master) -> None:
    _Add(three)
    three.Run(opcodes.OpClusterSetParams(ndparams={"exclusive_storage": True}))
    _Refused(three, "Disk template drbd is not supported with exclusive storage")


# --- the copy that stays must be complete -------------------------------------------------------------------------------


class Stopped:
    """A stopped instance with two mirrored disks, the second of which is damaged on the primary node."""

    def __init__(self, master: Master):
        self.master = master
        self.mirrors = _Add(master)
        _Convert(master, "drbd", wait_for_sync=True)
        master.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
        _, self._disk = master.snapshot.InstanceDisks(master.Instance(WEB))

    def LoseData(self) -> None:
        del self.master[0].lvm.lvs[tuple(self._disk.children[0].logical_id)]

    def Mark(self, state: str) -> None:
        """The metadata on the primary node says this of the disk."""
        self.mirrors.machines[0].MetaOn("/dev/{}/{}".format(*self._disk.children[1].logical_id)).state = state

    def Refused(self) -> tuple[str, str]:
        """Return the error of the conversion and what it advises; nothing was changed by it."""
        master = self.master
        before = master.snapshot.disks, self.mirrors.Volumes()
        with pytest.raises(errors.OpExecError) as caught:
            _Convert(master, "plain")
        assert (master.snapshot.disks, self.mirrors.Volumes()) == before
        assert self.mirrors.States() == [[], [], []] and not master.Instance(WEB).disks_active
        return str(caught.value), str(caught.value.hint)

    def TakeOff(self) -> None:
        """The secondary node is lost, and marked offline."""
        self.master[1].Stop()
        self.master.cfg.Update(self.master.snapshot.nodes[self.master.nodes[1]].Replace(offline=True))

    def Convert(self) -> None:
        _Convert(self.master, "plain")
        self.master.Run(opcodes.OpInstanceStartup(instance_name=WEB))


def test_the_other_copy_is_not_removed_if_the_data_of_the_primary_is_gone(three: Master) -> None:
    stopped = Stopped(three)
    stopped.LoseData()
    error, hint = stopped.Refused()
    assert f"Disk disk/1 of instance {WEB} is Diskless on primary node node1.example.org" in error
    assert "the copy on node node2.example.org is needed and is not removed" in error
    assert f"'gnt-instance failover {WEB}'" in hint
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    stopped.Convert()
    assert stopped.mirrors.Volumes() == [0, 2, 0]


def test_the_other_copy_is_not_removed_if_that_of_the_primary_is_half_filled(three: Master) -> None:
    """As ``replace-disks -p`` of a stopped instance leaves it when it is cut off; no record is made for that."""
    stopped = Stopped(three)
    mirrors = stopped.mirrors
    mirrors.links.hold = True
    three[0].faults["blockdev_getmirrorstatus"] = "the power is gone"
    with pytest.raises(errors.OpExecError):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_primary"))
    three[0].faults.clear()
    mirrors.links.hold = False
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    error, hint = stopped.Refused()
    assert f"Disk disk/0 of instance {WEB} is Inconsistent on primary node node1.example.org" in error
    assert f"'gnt-instance activate-disks --wait-for-sync {WEB}', which fills it from node node2.example.org" in hint
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    stopped.Convert()
    assert mirrors.Volumes()[1:] == [0, 0]


def test_the_other_copy_is_not_removed_if_it_is_newer(three: Master) -> None:
    stopped = Stopped(three)
    stopped.Mark("Outdated")
    error, hint = stopped.Refused()
    assert f"Disk disk/1 of instance {WEB} is Outdated on primary node node1.example.org" in error
    assert f"'gnt-instance activate-disks --wait-for-sync {WEB}'" in hint
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    stopped.Convert()
    assert stopped.mirrors.Volumes() == [2, 0, 0]


def test_older_data_is_used_when_the_newer_one_is_lost_for_good(three: Master) -> None:
    stopped = Stopped(three)
    stopped.Mark("Outdated")
    stopped.TakeOff()
    _, hint = stopped.Refused()
    assert f"when node node2.example.org is back, use 'gnt-instance activate-disks --wait-for-sync {WEB}'" in hint
    assert (
        f"if node node2.example.org is lost for good, 'gnt-instance startup --force {WEB}' uses the older data" in hint
    )
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB, force=True))
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    stopped.Convert()
    assert stopped.mirrors.Volumes()[0] == 2


def test_the_other_copy_is_not_removed_if_the_primary_node_does_not_say_how_its_own_is(three: Master) -> None:
    stopped = Stopped(three)
    three[0].faults["drbd_views"] = "it hangs"
    error, hint = stopped.Refused()
    assert f"Node node1.example.org does not report the state of the disks of instance {WEB}" in error
    assert "'gnt-cluster verify'" in hint
    three[0].faults.clear()
    stopped.Convert()


def test_the_other_copy_is_not_removed_if_that_of_the_primary_stays_set_up(three: Master) -> None:
    """Its data volume would be stored as the disk while the mirror still has it open."""
    stopped = Stopped(three)
    before = three.snapshot.disks, stopped.mirrors.Volumes()
    looked: list[str] = []

    def fail(name: str, _args: Any) -> None:
        looked.extend([name] if name == "drbd_views" else [])
        if looked and name == "blockdev_shutdown":
            raise errors.RpcCallError("it is in use")

    three[0].before = fail
    with pytest.raises(errors.OpExecError, match=r"Can't shut down the disks of instance"):
        _Convert(three, "plain")
    assert looked and (three.snapshot.disks, stopped.mirrors.Volumes()) == before
    three[0].before = lambda name, args: None
    stopped.Convert()
    assert stopped.mirrors.Volumes() == [2, 0, 0]
