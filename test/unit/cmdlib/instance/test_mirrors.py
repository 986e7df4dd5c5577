"""Instances on mirrors whose programs are played: creation, growth, replacement, migration, fail-over with the real driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import drivers
from support.creation import OnDisks
from support.master import Master
from support.standindrbd import Links, StandInDrbd

from ganeti import constants, errors, objects, opcodes, storage

WEB = "web.example.org"


class Mirrors:
    """The stand-ins of all machines, in their order."""

    def __init__(self, master: Master):
        storage.UseDrivers({name: driver for name, driver in drivers.ON_LVM.items() if name != constants.DT_DRBD8})
        self.master = master
        self.links = Links()
        self.machines = [StandInDrbd(node.machine, self.links, node.lvm) for node in master.all]

    def States(self) -> list[list[tuple[str, str, str]]]:
        return [
            [(device.link, device.role, device.disk) for device in machine.devices.values()]
            for machine in self.machines
        ]

    def Volumes(self) -> list[int]:
        return [len(node.lvm.Volumes()) for node in self.master.all]


PRIMARY, SECONDARY = ("Connected", "Primary", "UpToDate"), ("Connected", "Secondary", "UpToDate")


def _Empty(root: objects.Snapshot) -> objects.Snapshot:
    return root.Replace(instances={}, disks={})


def _EmptyWithFiles(root: objects.Snapshot) -> objects.Snapshot:
    """Without instances; besides volumes and mirrors there may be disks in files."""
    templates = ["drbd", "plain", "file"]
    cluster = root.cluster
    ipolicy = {**cluster.ipolicy, "disk-templates": templates}
    return _Empty(root).Replace(cluster=cluster.Replace(enabled_disk_templates=templates, ipolicy=ipolicy))


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


@pytest.mark.req("D20-VAR-01")
def test_any_number_of_disks(three: Master) -> None:
    mirrors = Mirrors(three)
    disks = [{"size": 128}] * constants.MAX_DISKS
    three.Run(OnDisks(WEB, *disks, disk_template="drbd", snode="node2", start=True))
    assert mirrors.States() == [[PRIMARY] * constants.MAX_DISKS, [SECONDARY] * constants.MAX_DISKS, []]
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3"))
    assert mirrors.States() == [[], [PRIMARY] * constants.MAX_DISKS, [SECONDARY] * constants.MAX_DISKS]
    three.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert mirrors.States() == [[], [], []] and mirrors.Volumes() == [0, 0, 0]


def test_the_size_is_recorded_before_the_mirror_has_it(three: Master) -> None:
    """A side that comes back after a power cut is attached with the recorded size, and must not be smaller than its peer."""
    mirrors = Mirrors(three)
    _Add(three, start=True)

    def size() -> tuple[int, int]:
        disk = three.snapshot.InstanceDisks(three.Instance(WEB))[0]
        return disk.size, disk.children[0].size

    seen: list[Any] = []

    def before(name: str, args: Any) -> None:
        if name == "blockdev_grow":
            seen.append((args[2:4], size()))

    three[0].before = before
    grow = opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=512)
    three.Run(grow)
    old, new = (1024, 1024), (1536, 1536)
    assert seen == [((True, True), old), ((False, True), old), ((False, False), new)] and size() == new
    for machine in mirrors.machines[:2]:
        assert machine.devices[min(machine.devices)].size == 1536

    def fail(name: str, args: Any) -> None:
        if name == "blockdev_grow" and not args[3]:
            raise errors.RpcCallError("the other side is gone")

    three[0].before = fail
    with pytest.raises(errors.OpExecError, match=r"Disk 0 could not grow on node node1.*the other side is gone"):
        three.Run(grow)
    assert size() == new, "what the device has"


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("template", ["plain", "drbd"])
def test_a_disk_whose_new_part_cannot_be_wiped_is_up_only_if_it_was(
    three: Master, template: str, running: bool
) -> None:
    mirrors = Mirrors(three)
    secondary = {"snode": "node2"} if template == "drbd" else {}
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template=template, start=running, **secondary))
    if not running:
        three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    three.cfg.Update(three.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    three[0].faults["blockdev_wipe"] = "no answer"
    before, node = mirrors.States(), three[0]
    node.calls.clear()
    with pytest.raises(errors.OpExecError, match="was not wiped and may contain old data"):
        three.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=512))
    assert mirrors.States() == before and node.calls.count("blockdev_shutdown") == (not running)


def _Findings(master: Master) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    return [text for text in master.last.messages if "disk/" in text]


def test_a_growth_that_was_cut_off_before_it_was_recorded(three: Master) -> None:
    """As a master of release 3.1 leaves it: what verify says leads back."""
    mirrors = Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    instance = three.Instance(WEB)
    (disk,) = three.snapshot.InstanceDisks(instance)
    for node in three.nodes[:2]:
        three.rpc.call_blockdev_grow(node, (disk, instance), 512, False, True, False).Raise("")
    three.rpc.call_blockdev_grow(three.nodes[0], (disk, instance), 512, False, False, False).Raise("")
    (finding,) = _Findings(three)
    assert (
        "disk/0 has 1536 MiB, 1024 MiB are recorded" in finding and f"'gnt-cluster repair-disk-sizes {WEB}'" in finding
    )
    mirrors.machines[1].LosePower()
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert [machine.devices[0].link for machine in mirrors.machines[:2]] == ["StandAlone", "WFConnection"]
    (finding,) = [text for text in _Findings(three) if "do not connect" in text]
    assert "because they have 1536 MiB on node node1.example.org and 1024 MiB on node node2.example.org" in finding
    assert f"'gnt-cluster repair-disk-sizes {WEB}'" in finding and f"'gnt-instance activate-disks {WEB}'" in finding
    three.Run(opcodes.OpClusterRepairDiskSizes(instances=[WEB]))
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert mirrors.States()[:2] == [[PRIMARY], [SECONDARY]] and _Findings(three) == []
    assert {machine.devices[0].size for machine in mirrors.machines[:2]} == {1536}


def _Add(master: Master, **values: Any) -> None:
    master.Run(OnDisks(WEB, {"size": 1024}, {"size": 512}, disk_template="drbd", snode="node2", **values))


def test_life_of_an_instance(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    assert mirrors.States() == [[PRIMARY] * 2, [SECONDARY] * 2, []]
    assert mirrors.Volumes() == [4, 4, 0]

    three.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=256, wait_for_sync=True))
    assert [machine.devices[0].size for machine in mirrors.machines[:2]] == [1280, 1280]

    before = [machine.Count("disconnect") + machine.Count("connect") for machine in mirrors.machines]
    three.Run(opcodes.OpInstanceMigrate(instance_name=WEB, mode="live"))
    assert mirrors.States() == [[SECONDARY] * 2, [PRIMARY] * 2, []]
    assert before == [machine.Count("disconnect") + machine.Count("connect") for machine in mirrors.machines]
    assert not any(device.two_primaries for machine in mirrors.machines for device in machine.devices.values())

    for mode in ("replace_on_secondary", "replace_on_primary"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=mode, disks=[0, 1]))
        assert mirrors.States() == [[SECONDARY] * 2, [PRIMARY] * 2, []]
        assert mirrors.Volumes() == [4, 4, 0]

    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3"))
    assert mirrors.States() == [[], [PRIMARY] * 2, [SECONDARY] * 2]
    assert mirrors.Volumes() == [0, 4, 4]

    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert mirrors.States() == [[], [SECONDARY] * 2, [PRIMARY] * 2]
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    assert mirrors.States() == [[], [], []]
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert mirrors.States() == [[], [SECONDARY] * 2, [PRIMARY] * 2]
    three.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert (mirrors.States(), mirrors.Volumes()) == ([[], [], []], [0, 0, 0])


def test_with_a_new_secondary_no_write_is_acknowledged_alone_again(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.machines[1].LosePower()
    three[1].Stop()
    devices = mirrors.machines[0].devices
    assert all(device.frozen for device in devices.values())
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert not any(device.frozen for device in devices.values()), "it was let go on alone"
    three.cfg.Update(three.snapshot.nodes[three.nodes[1]].Replace(offline=True))

    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3"))
    assert mirrors.States() == [[PRIMARY] * 2, [], [SECONDARY] * 2]
    mirrors.links.Cut()
    assert all(device.frozen for device in devices.values())


@pytest.mark.parametrize("command", ["attach", "connect", "create-md"])
def test_a_secondary_that_fails_leaves_nothing(three: Master, command: str) -> None:
    mirrors = Mirrors(three)
    programs = three.all[1].machine.programs
    program = "drbdmeta" if command == "create-md" else "drbdsetup"
    real = programs[program]

    def broken(invocation: Any) -> int:
        if command in invocation.argv:
            invocation.Complain("the disk is on fire\n")
            return 10
        return real(invocation) or 0

    programs[program] = broken
    with pytest.raises(errors.OpExecError, match=f"{program} {command}' failed with exit code 10: the disk is on fire"):
        _Add(three, start=False)
    assert (mirrors.States(), mirrors.Volumes()) == ([[], [], []], [0, 0, 0])
    assert three.cfg.Snapshot().instances == {}


@pytest.mark.parametrize("mode", ["replace_on_primary", "replace_on_secondary", "replace_new_secondary"])
@pytest.mark.parametrize("what", ["data", "open"])
def test_sides_that_contradict_each_other_are_not_replaced(three: Master, mode: str, what: str) -> None:
    """The one that goes may have what the other one lacks."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    device = mirrors.machines[1].devices[min(mirrors.machines[1].devices)]
    if what == "data":
        device.peer_disk = "Inconsistent"
    else:
        device.role = "Primary"
    mirrors.links.Publish()
    before = mirrors.Volumes()
    values = {"remote_node": "node3"} if mode == "replace_new_secondary" else {}
    replace = opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=mode, **values)
    with pytest.raises(errors.OpExecError, match="contradict each other, so none is replaced: disk/0 is ") as caught:
        three.Run(replace)
    said = {
        "data": "without a complete other side on node node2.example.org",
        "open": "is open on node node2.example.org, which is not the primary one",
    }
    assert said[what] in str(caught.value)
    command = {"data": "activate-disks", "open": "migrate --cleanup"}[what]
    assert f"'gnt-instance {command} {WEB}'" in str(caught.value.hint)
    assert mirrors.Volumes() == before
    device.peer_disk, device.role = "UpToDate", "Secondary"
    mirrors.links.Publish()
    three.Run(replace)


def test_sides_that_changed_between_two_looks_are_looked_at_again(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    device = mirrors.machines[1].devices[min(mirrors.machines[1].devices)]
    device.peer_disk = "Inconsistent"
    mirrors.links.Publish()
    looks: list[str] = []

    def before(name: str, args: Any) -> None:
        looks.append(name)
        if looks.count("drbd_views") == 2:
            device.peer_disk = "UpToDate"
            mirrors.links.Publish()

    three[1].before = before
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary"))
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


def test_a_primary_whose_data_is_incomplete_is_not_chosen(three: Master) -> None:
    """Its disk was exchanged, and the link broke while it was being filled."""
    mirrors = Mirrors(three)
    _Add(three, start=True)

    def split(incomplete: int) -> str:
        for number, machine in enumerate(mirrors.machines[:2]):
            for device in machine.devices.values():
                device.link = "StandAlone"
                device.disk = device.known.state = "Inconsistent" if number == incomplete else "UpToDate"
        mirrors.links.Publish()
        return next(text for text in _Findings(three) if "do not connect" in text and "disk/0" in text)

    give_up, fail_over = "activate-disks --behind node2.example.org", "failover --ignore-consistency"
    finding = split(0)
    assert "on node node1.example.org is not complete" in finding and fail_over in finding and give_up not in finding
    with pytest.raises(errors.OpPrereqError, match="no complete data of disk/0, disk/1 on its primary node") as caught:
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node2"))
    assert fail_over in str(caught.value.hint)
    assert all(disk.behind is None for disk in three.snapshot.disks.values())
    finding = split(1)
    assert "on node node2.example.org is not complete" in finding and give_up in finding and fail_over not in finding


@pytest.fixture
def filed(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


def test_a_mirror_is_copied_to_another_template_and_back(filed: Master) -> None:
    mirrors = Mirrors(filed)
    filed.Run(OnDisks(WEB, {"size": 8}, disk_template="drbd", snode="node2", start=False))
    filed.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="file"))
    assert (mirrors.States(), mirrors.Volumes()) == ([[], [], []], [0, 0, 0])
    assert {disk.dev_type for disk in filed.snapshot.disks.values()} == {"file"}
    filed.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="drbd", remote_node="node2"))
    assert (mirrors.States(), mirrors.Volumes()) == ([[], [], []], [2, 2, 0])
    filed.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert mirrors.States() == [[PRIMARY], [SECONDARY], []]


def _Split(master: Master, mirrors: Mirrors) -> None:
    """Stop the instance and have each side written alone, as release 3.1 may leave them."""
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    for machine in mirrors.machines[:2]:
        for _, meta in machine._metas.values():
            meta.base, meta.now, meta.state = meta.now, next(mirrors.links.generations), "UpToDate"


@pytest.mark.parametrize("slow", [None, 0, 1])
@pytest.mark.parametrize("kept", [0, 1])
def test_a_split_that_a_start_meets_is_decided_by_name(three: Master, kept: int, slow: int | None) -> None:
    """``slow``: the side that waits for the link that the other one has refused."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    _Split(three, mirrors)
    mirrors.links.slow = None if slow is None else mirrors.machines[slow]
    written = [[meta.now for _, meta in machine._metas.values() if meta.now] for machine in mirrors.machines[:2]]
    with pytest.raises(errors.OpExecError, match="could not be set up") as caught:
        three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    hint = str(caught.value.hint)
    assert "activate-disks --behind node2.example.org" in hint and "startup --force" not in hint
    if kept:
        assert "failover --ignore-consistency" in hint and "activate-disks --behind node1.example.org" in hint
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind=f"node{2 - kept}"))
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert mirrors.States()[kept] == [PRIMARY] * 2 and mirrors.States()[1 - kept] == [SECONDARY] * 2
    for machine in mirrors.machines[:2]:
        assert {device.known.now for device in machine.devices.values()} == set(written[kept])


def _Behind(master: Master) -> list[str | None]:
    disks = master.snapshot.InstanceDisks(master.Instance(WEB))
    return [None if disk.behind is None else master.snapshot.NodeName(disk.behind["node"]) for disk in disks]


def test_a_frozen_side_without_complete_data_waits_for_the_other_one(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    first, second = mirrors.machines[0].devices.values()
    first.disk = "Inconsistent"
    mirrors.links.Publish()
    with pytest.raises(errors.OpExecError, match="stays frozen"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert any("is not complete: it continues when" in text for text in three.last.messages)
    # The guest is frozen anyway, and the other node has all of its data.
    assert (first.frozen, second.frozen) == (True, True) and _Behind(three) == [None, None]


def test_a_disk_that_nobody_uses_does_not_keep_the_guest_from_going_on(three: Master) -> None:
    """It is closed and incomplete; what the guest has open is complete and frozen."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    used, closed = mirrors.machines[0].devices.values()
    closed.role, closed.frozen, closed.disk = "Secondary", False, "Inconsistent"
    mirrors.links.Publish()
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert not used.frozen and _Behind(three) == ["node2.example.org", None]


def test_only_those_that_are_still_whole_count_again(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == ["node2.example.org"] * 2
    mirrors.links.Heal()
    broken: list[str] = []

    def part(name: str, _args: Any) -> None:
        if name == "drbd_follow" and not broken:
            broken.append(name)
            for machine in mirrors.machines[:2]:
                list(machine.devices.values())[1].link = "StandAlone"
            mirrors.links.Publish()

    three[0].before = part
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [None, "node2.example.org"]


def test_verify_warns_of_mirrors_whose_writes_may_be_lost(three: Master) -> None:
    Mirrors(three)
    _Add(three, start=True)
    assert _Findings(three) == []
    three.Run(opcodes.OpClusterSetParams(diskparams={"drbd": {"protocol": "A"}}))
    findings = _Findings(three)
    assert len(findings) == 2 and all("WARNING" in text and "uses protocol A" in text for text in findings)


def test_an_instance_whose_data_is_gone_where_it_counts_starts_with_what_the_other_side_has(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    disks = three.snapshot.InstanceDisks(three.Instance(WEB))
    three.cfg.SetDisksBehind([disk.uuid for disk in disks], three.nodes[0])
    three[1].lvm.lvs.clear()

    def start() -> str:
        with pytest.raises(errors.OpExecError, match="could not be set up") as caught:
            three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
        return str(caught.value.hint)

    gone = (
        "the data of disk/0, disk/1 on node node2.example.org is gone, and the copy of disk/0 on node node1.example.org"
    )
    three[0].faults["drbd_views"] = "it hangs"
    hint = start()
    assert hint.startswith(gone) and hint.endswith("bring node node1.example.org back, then try again")
    three[0].faults.clear()
    hint = start()
    assert (
        hint.startswith(gone) and f"'gnt-instance failover --ignore-consistency {WEB}' starts it on node node1" in hint
    )
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert mirrors.States()[0] == [PRIMARY] * 2
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    # Where both are gone there is nothing to choose.
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    three.cfg.SetDisksBehind([disk.uuid for disk in disks], three.nodes[1])
    for node in three.all[:2]:
        node.lvm.lvs.clear()
    assert start().endswith(f"and is not complete either: restore {WEB} from a backup")


def test_a_secondary_that_dies_in_each_step_of_a_creation(three: Master) -> None:
    """What was made is removed again, or named where its node no longer answers; no instance stays."""
    mirrors = Mirrors(three)
    died_in: list[str] = []
    for step in range(1, 100):
        count = 0

        def die(name: str, _args: Any, step: int = step) -> None:
            nonlocal count
            count += not name.startswith("store_")
            if count == step and not name.startswith("store_"):
                died_in.append(name)
                three[1].Stop()

        three[1].before = die
        try:
            three.Run(OnDisks(WEB, {"size": 128}, disk_template="drbd", snode="node2", start=True))
        except errors.GenericError as err:
            said = "\n".join([str(err), str(err.hint or ""), *three.last.messages])
        else:
            break
        finally:
            three[1].before = lambda name, args: None
        three[1].Start()
        assert (mirrors.Volumes()[0], mirrors.States()[0]) == (0, []), died_in
        for volume in three[1].lvm.Volumes():
            assert str(volume) in said, (died_in[-1], volume, said)
        assert not three.snapshot.instances and not three.snapshot.disks
        three[1].lvm.lvs.clear()
        mirrors.machines[1].devices.clear()
    assert died_in.count("blockdev_create") >= 3, died_in
