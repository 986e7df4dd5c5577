"""Volumes and volume groups that a verification finds on nodes, compared with what disks need."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master

from ganeti import objects, opcodes, runtime

DATA, META = ("xenvg/00000077-aaaa-4bbb-8ccc-000000000077.disk0_" + part for part in ("data", "meta"))
WEB = "web.example.org"


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    """Two nodes with LVM; the example's instance has its volumes on both."""
    return make(2, candidates=2, lvm=True)


@pytest.fixture
def plain(make: Callable[..., Master]) -> Master:
    """As ``two``, with a plain disk on the first node."""
    return make(2, candidates=2, lvm=True, change=_Plain)


@pytest.fixture
def exclusive(make: Callable[..., Master]) -> Master:
    """As ``plain``, with exclusive storage."""
    return make(2, candidates=2, lvm=True, change=_Exclusive)


def _Plain(root: objects.Snapshot) -> objects.Snapshot:
    [disk] = root.disks.values()
    first = disk.nodes[:1]
    plain = disk.Replace(dev_type="plain", logical_id=disk.children[0].logical_id, children=[], nodes=first)
    return root.Replace(disks={disk.uuid: plain})


def _Exclusive(root: objects.Snapshot) -> objects.Snapshot:
    root = _Plain(root)
    cluster = root.cluster
    return root.Replace(cluster=cluster.Replace(ndparams={**cluster.ndparams, "exclusive_storage": True}))


def _Verify(master: Master, *codes: str) -> list[str]:
    """Return the findings with one of these codes, as scripts read them."""
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True))
    found = [text.strip() for text in master.last.messages]
    return [text for text in found if text.startswith("- ") and text.split(":")[1] in codes]


def _Questions(master: Master) -> set[str]:
    """What the second node is asked from now on."""
    asked: set[str] = set()

    def note(name: str, args: tuple[Any, ...]) -> None:
        if name == "node_verify":
            asked.update(args[0])

    master[1].before = note
    return asked


def _Lvm(master: Master, number: int, command: str) -> None:
    def run() -> None:
        result = runtime.RunCmd(command.split())
        assert not result.failed, result.stderr

    master[number].Call(run)


LVM_CODES = (
    "ENODELVM", "ENODEORPHANLV", "EINSTANCEMISSINGDISK", "EGROUPDIFFERENTPVSIZE", "EINSTANCEUNSUITABLENODE",
    "EINSTANCEMISSINGCFGPARAMETER",
)  # fmt: skip


def test_a_healthy_group_has_no_finding(two: Master) -> None:
    asked = _Questions(two)
    assert _Verify(two, *LVM_CODES) == []
    assert {"vglist", "lvlist", "pvlist"} <= asked and "exclusive-pvs" not in asked


def test_a_cluster_without_volume_group_asks_nothing(two: Master) -> None:
    two.cfg.Update(two.snapshot.cluster.Replace(volume_group_name=None))
    two[1].InstallLvm(100)
    asked = _Questions(two)
    assert _Verify(two, *LVM_CODES) == []
    assert "filelist" in asked and not {"vglist", "lvlist", "pvlist"} & asked


@pytest.mark.req("RM-CHK-04")
def test_volumes_that_nobody_owns(two: Master) -> None:
    _Lvm(two, 1, "lvcreate -Wn -L100m -nscratch -i1 xenvg")
    _Lvm(two, 1, "lvcreate -Wn -L100m -nswap0 -i1 xenvg")
    first, second = _Verify(two, *LVM_CODES)
    assert first.startswith("- ERROR:ENODEORPHANLV:node:node2.example.org:volume xenvg/scratch is unknown")
    assert "'lvremove xenvg/scratch'" in first and "xenvg/swap0" in second
    # The expressions cover the whole name, group and all.
    for patterns, left in ((["xenvg/swap.*"], ["scratch"]), (["swap.*", "xenvg/scratc"], ["scratch", "swap0"])):
        two.cfg.Update(two.snapshot.cluster.Replace(reserved_lvs=patterns))
        found = _Verify(two, *LVM_CODES)
        assert [text.split(" ")[2].rpartition("/")[2] for text in found] == left


def test_a_volume_that_a_replacement_left_behind_is_said_to_be_a_former_copy(two: Master) -> None:
    group, name = META.split("/")
    for left in (f"{name}_replaced-1700000000", "other_replaced-1700000000", f"{name}_replaced-odd"):
        _Lvm(two, 1, f"lvcreate -Wn -L100m -n{left} -i1 {group}")
    former, *others = sorted(_Verify(two, *LVM_CODES), key=lambda text: "Keep it" not in text)
    assert f"volume {META}_replaced-1700000000 is unknown: until 2023-11-1" in former
    assert f" it was {META} of disk/0 of instance {WEB}, and replace-disks could not remove it. Keep it until" in former
    assert former.endswith(f"then run 'lvremove {META}_replaced-1700000000' there")
    assert len(others) == 2 and all("if nobody needs it, run 'lvremove" in text for text in others)


def test_a_former_copy_is_taken_back_by_its_name_if_the_new_one_is_gone(two: Master) -> None:
    """While the new one is there, whatever is in it, the name is not free, and no command would help."""
    group, name = META.split("/")
    left = f"{name}_replaced-1700000000"
    _Lvm(two, 1, f"lvcreate -Wn -L100m -n{left} -i1 {group}")
    [found] = _Verify(two, *LVM_CODES)
    assert "lvrename" not in found and "it may be the last complete copy; then run 'lvremove" in found
    _Lvm(two, 1, f"lvremove -f {META}")
    [found] = _Verify(two, "ENODEORPHANLV")
    advice = re.search(r"last complete copy, which '(lvrename [^']*)' makes part of the disk again; then run", found)
    assert advice is not None, found
    _Lvm(two, 1, advice[1])
    assert _Verify(two, *LVM_CODES) == []


@pytest.mark.parametrize("name", ["xenvg/x;reboot", "xenvg/$(reboot)", "xenvg/x y", "xenvg/x'`reboot`"])
def test_the_name_of_a_volume_is_one_word_of_the_command_that_removes_it(two: Master, name: str) -> None:
    """LVM has no such names: it is said by a node that somebody has broken into."""

    def add(answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "lvlist": {**answer["lvlist"], name: ["100.00", False, False]}}

    two[1].edits["node_verify"] = add
    [found] = _Verify(two, *LVM_CODES)
    command = re.search(r"if nobody needs it, run '(.*)' there; if it is to stay", found)
    assert command is not None
    assert list(shlex.shlex(command[1], posix=True, punctuation_chars=True)) == ["lvremove", name], (
        "as a shell reads it"
    )


@pytest.mark.req("RM-CHK-04")
def test_a_volume_of_a_disk_on_another_node_is_nobodys(plain: Master) -> None:
    assert _Verify(plain, *LVM_CODES) == []
    _Lvm(plain, 1, f"lvcreate -Wn -L100m -n{DATA.partition('/')[2]} -i1 xenvg")
    [found] = _Verify(plain, *LVM_CODES)
    assert found.startswith(f"- ERROR:ENODEORPHANLV:node:node2.example.org:volume {DATA} is unknown")


def test_a_volume_that_is_gone(two: Master) -> None:
    _Lvm(two, 1, f"lvremove -f {META}")
    [found] = _Verify(two, *LVM_CODES)
    assert found.startswith(f"- ERROR:EINSTANCEMISSINGDISK:instance:{WEB}:volume {META} is missing on node node2")
    assert f"'gnt-instance replace-disks -a {WEB}'" in found


def test_a_volume_without_another_copy_that_is_gone(plain: Master) -> None:
    _Lvm(plain, 0, f"lvremove -f {DATA}")
    found = _Verify(plain, "EINSTANCEMISSINGDISK", "EINSTANCEFAULTYDISK")
    assert len(found) == 1, "it is said once, with the cure"
    assert f"'gnt-instance recreate-disks --disk=0 {WEB}'" in found[0]


def test_volume_groups(two: Master) -> None:
    """One too small on the first node, none on the second."""
    two[0].lvm.pvs["/dev/sdb"].group = ""
    two[0].lvm.pvs["/dev/sda"].size = 20476
    for pv in two[1].lvm.pvs.values():
        pv.group = "data"
    small, missing = _Verify(two, "ENODELVM")
    assert small.startswith(
        "- ERROR:ENODELVM:node:node1.example.org:volume group 'xenvg' too small (20480 MiB required"
    )
    assert "node2.example.org:volume group 'xenvg' missing; this node has data" in missing
    assert "'gnt-node modify --vm-capable=no node2.example.org'" in missing


def test_a_node_without_lvm(two: Master) -> None:
    def missing(invocation: Any) -> int:
        invocation.Complain("out of memory")
        return 5

    for program in ("vgs", "pvs", "lvs"):
        two[1].machine.programs[program] = missing
    found = _Verify(two, *LVM_CODES)
    assert [text.rpartition("node2.example.org:")[2][:50] for text in found] == [
        "its volume groups could not be listed; run 'vgs' there"[:50],
        "the node did not report its physical volumes",
        "its logical volumes could not be listed: LVM cannot be asked"[:50],
    ]
    assert "out of memory" in found[2]


def test_a_colon_in_the_name_of_a_physical_volume(two: Master) -> None:
    two[1].lvm.AddPv("/dev/a:b", "xenvg", 1024)
    [found] = _Verify(two, *LVM_CODES)
    assert found.startswith(
        "- ERROR:ENODELVM:node:node2.example.org:invalid character ':' in PV '/dev/a:b' of VG 'xenvg'"
    )


def test_physical_volumes_of_exclusive_storage(exclusive: Master) -> None:
    [spindles] = _Verify(exclusive, *LVM_CODES)
    assert spindles.startswith(f"- ERROR:EINSTANCEMISSINGCFGPARAMETER:instance:{WEB}:the number of spindles of disk/0")
    assert f"'gnt-cluster repair-disk-sizes {WEB}'" in spindles
    exclusive.Run(opcodes.OpClusterRepairDiskSizes(instances=[WEB]))
    assert _Verify(exclusive, *LVM_CODES) == []

    # Nodes differ from each other ...
    for pv in exclusive[1].lvm.pvs.values():
        pv.size = 70000
    [group] = _Verify(exclusive, *LVM_CODES)
    assert group == (
        "- ERROR:EGROUPDIFFERENTPVSIZE:group:default:PV sizes differ too much in the group; smallest (65536 MiB) is on"
        " node1.example.org, biggest (70000 MiB) is on node2.example.org; move one of these nodes to another group,"
        " or make its volumes anew"
    )
    # ... and the disks of one of them too; a little does no harm.
    exclusive[1].lvm.pvs["/dev/sda"].size = 66000
    node, group = _Verify(exclusive, *LVM_CODES)
    assert (
        "ENODELVM:node:node2.example.org:PVs have different sizes (/dev/sda has 66000 MiB, /dev/sdb has 70000" in node
    )
    exclusive[1].lvm.pvs["/dev/sdb"].size = 66000
    assert _Verify(exclusive, *LVM_CODES) == []

    _Lvm(exclusive, 0, "lvcreate -Wn -L100m -nother -i1 xenvg /dev/sda /dev/sdb")
    found = _Verify(exclusive, "ENODELVM")
    assert len(found) == 1 and "PV /dev/sda is shared by unrelated LVs" in found[0] and "other" in found[0]


def test_a_mirror_on_exclusive_storage(two: Master) -> None:
    [group] = two.snapshot.nodegroups.values()
    two.cfg.Update(group.Replace(ndparams={"exclusive_storage": True}))
    [found] = _Verify(two, "EINSTANCEUNSUITABLENODE", "EINSTANCEMISSINGCFGPARAMETER")
    assert (
        found.startswith(f"- ERROR:EINSTANCEUNSUITABLENODE:instance:{WEB}:disk/0 has template drbd")
        and "node2" in found
    )


def test_a_detached_disk_keeps_its_volumes(plain: Master) -> None:
    plain.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    plain.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["detach", 0, {}]], ignore_ipolicy=True))
    assert _Verify(plain, *LVM_CODES) == []
    _Lvm(plain, 0, f"lvremove -f {DATA}")
    [found] = _Verify(plain, *LVM_CODES)
    assert "EINSTANCEMISSINGDISK:node:node1.example.org" in found and "detached disk" in found
