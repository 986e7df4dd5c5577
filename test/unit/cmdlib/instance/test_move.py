"""Moving instances whose disks are on one node alone (doc/design-transfers.rst)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.dying import DiesIn, Killed
from support.master import Master
from support.playedtransfers import CONTENT, TwoDisks
from support.simnode import FILE_FOLDER, SimNode
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors, objects, opcodes, runtime
from ganeti.cmdlib.instance.moving.move import LUInstanceMove
from ganeti.params import disk as disk_params


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


class Moving(TwoDisks):
    """What becomes of the data."""

    def __init__(self, master: Master, template: str = "plain", up: bool = True):
        super().__init__(master, WEB, template, up)

    @property
    def home(self) -> int:
        return self.master.nodes.index(self.web.primary_node)

    def Content(self) -> list[bytes]:
        """What the disks hold where the configuration says that they are."""
        assert all(disk.nodes == (self.web.primary_node,) for disk in self.disks)
        return [self.File(self.home, disk).data for disk in self.disks]

    def Left(self) -> list[list[str]]:
        """The names of what lies on each node."""
        return [[*node.lvm.Volumes(), *node.Names(f"{FILE_FOLDER}/{WEB}")] for node in self.master.all]

    def Counts(self) -> list[int]:
        return [len(names) for names in self.Left()]

    def Guests(self) -> list[int]:
        return [number for number, node in enumerate(self.master.all) if WEB in node.guests]


def _Move(target: str = "node2", **values: Any) -> opcodes.OpInstanceMove:
    return opcodes.OpInstanceMove(instance_name="web", target_node=target, ignore_ipolicy=True, **values)


# --- what becomes of the instance -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["plain", "file"])
def test_a_running_instance_goes_to_another_node_with_its_data(three: Master, template: str) -> None:
    moving = Moving(three, template)
    before = moving.disks
    assert three.Run(_Move(compress="gzip")) is None
    assert moving.home == 1 and moving.Guests() == [1] and moving.Content() == CONTENT
    assert moving.Counts() == [0, 2, 0] and WEB not in three[0].Names(FILE_FOLDER)
    assert (moving.web.admin_state, moving.web.disks_active) == ("up", True)
    assert [disk.logical_id for disk in moving.disks] == [disk.logical_id for disk in before]
    assert moving.transfers.done == [
        ("node1.example.org", "node2.example.org", f"disk{index}", "gzip") for index in range(2)
    ]
    assert moving.transfers.programs == {}, "nothing is left of the programs"
    three.Run(_Move("node1"))
    assert moving.home == 0 and moving.Guests() == [0] and moving.Content() == CONTENT
    assert moving.Counts() == [2, 0, 0]


def test_a_stopped_instance_stays_down(three: Master) -> None:
    moving = Moving(three, up=False)
    # It needs no memory there, and nothing of what its hypervisor needs.
    three[2].SetMemory(1024)
    three.Run(_Move("node3", compress="none"))
    assert (moving.web.admin_state, moving.web.disks_active) == ("down", False)
    assert moving.home == 2 and moving.Guests() == [] and moving.Content() == CONTENT
    three[2].SetMemory(32768)
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert moving.Guests() == [2]


def test_what_runs_although_it_is_marked_down_is_stopped(three: Master) -> None:
    moving = Moving(three)
    three.cfg.MarkInstanceDown(moving.web.uuid)
    three.Run(_Move())
    assert moving.home == 1 and moving.Guests() == [] and moving.web.admin_state == "down"
    assert moving.Content() == CONTENT


def test_hooks(three: Master) -> None:
    Moving(three)
    three.Run(_Move("node3", shutdown_timeout=7))
    for node in (three[0], three[2]):
        runs = [(phase, env) for path, phase, env in node.hook_runs if path == "instance-move"]
        assert [phase for phase, _ in runs] == ["pre", "post"]
        for _, env in runs:
            assert env["GANETI_TARGET_NODE"] == "node3.example.org" and env["GANETI_SHUTDOWN_TIMEOUT"] == "7"
            assert env["GANETI_INSTANCE_PRIMARY"] == "node1.example.org" and env["GANETI_INSTANCE_NAME"] == WEB
        assert runs[1][1]["GANETI_POST_INSTANCE_PRIMARY"] == "node3.example.org"
    assert not [run for run in three[1].hook_runs if run[0] == "instance-move"]


def test_locks(three: Master) -> None:
    """The instance, both nodes and their resources are nobody else's until the data is where it belongs."""
    Moving(three)
    held: list[dict[str, str]] = []

    def look(name: str, _args: Any) -> None:
        if name in ("import_start", "blockdev_remove"):
            held.append({row.name: row.mode for row in three.glm.QueryLocks() if row.owner})

    for node in three.all:
        node.before = look
    three.Run(_Move())
    nodes = [f"{level}/{uuid}" for level in ("node", "node-res") for uuid in three.nodes[:2]]
    wanted = {"cluster/BGL": "shared", **dict.fromkeys([f"instance/{WEB}", *nodes], "exclusive")}
    assert held == [wanted] * 4


@pytest.fixture
def sharing(make: Callable[..., Master]) -> Master:
    """Memory is promised twice."""

    def change(root: objects.Snapshot) -> objects.Snapshot:
        root = _EmptyWithFiles(root)
        return root.Replace(cluster=root.cluster.Replace(ipolicy={**root.cluster.ipolicy, "memory-ratio": 2.0}))

    return make(3, lvm=True, change=change)


def test_the_guest_gets_memory_that_others_give_back(sharing: Master) -> None:
    moving = Moving(sharing)
    sharing.Run(OnDisks("large.example.org", {"size": 128}, disk_template="plain", pnode="node2"))
    for name in ("large", "web"):
        memory = {"minmem": 256, "maxmem": 8192}
        sharing.Run(opcodes.OpInstanceSetParams(instance_name=name, beparams=memory, ignore_ipolicy=True))
    sharing[1].SetMemory(8192)
    sharing.Run(opcodes.OpInstanceStartup(instance_name="large"))
    before = sharing[1].guests["large.example.org"]
    sharing.Run(_Move())
    assert moving.Guests() == [1]
    after, web = sharing[1].guests["large.example.org"], sharing[1].guests[WEB]
    assert 256 <= after < before and web >= 256


# --- what is refused -------------------------------------------------------------------------------------------------------


def _Refused(moving: Moving, op: opcodes.OpCode, match: str) -> str:
    """Nothing was done; return what is proposed."""
    before = moving.web, moving.Left(), moving.Guests()
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        moving.master.Run(op)
    assert (moving.web, moving.Left(), moving.Guests()) == before
    return caught.value.hint or ""


def test_nodes_that_cannot_take_it(three: Master) -> None:
    moving = Moving(three)
    hint = _Refused(moving, _Move("node1"), "node1.* is the primary node of instance web.* already")
    assert "gnt-instance list -o name,pnode,snodes,status web.example.org" in hint
    _Refused(moving, _Move("node9"), "Node 'node9' not known")
    _Refused(
        moving,
        _Move(compress="rot13"),
        "'rot13' is not allowed in this cluster; allowed are none, gzip, gzip-fast, gzip-slow",
    )
    for flags in ({"drained": True}, {"offline": True}, {"vm_capable": False}):
        node = three.snapshot.nodes[three.nodes[2]]
        three.cfg.Update(node.Replace(master_candidate=False, **flags))
        _Refused(moving, _Move("node3"), f"node.*node3|{next(iter(flags))}")
        three.cfg.Update(
            three.snapshot.nodes[three.nodes[2]].Replace(**{name: not value for name, value in flags.items()})
        )
    three[2].faults["bridges_exist"] = "Missing bridges br7"
    three.Run(opcodes.OpInstanceSetParams(instance_name=WEB, nics=[["add", -1, {}]], ignore_ipolicy=True))
    _Refused(moving, _Move("node3"), "Error checking bridges on destination node 'node3.*br7")
    del three[2].faults["bridges_exist"]
    three[2].faults["hypervisor_validate_params"] = "no kernel"
    _Refused(moving, _Move("node3"), "no kernel")
    del three[2].faults["hypervisor_validate_params"]
    three[2].SetMemory(1100)
    _Refused(moving, _Move("node3"), "Not enough memory on node node3.* for moving instance web")
    three[2].SetMemory(32768)
    three.Run(_Move("node3"))
    assert moving.home == 2 and moving.Content() == CONTENT


def test_the_guest_is_where_it_is_expected_or_nothing_is_touched(three: Master) -> None:
    moving = Moving(three)
    three[0].KillGuest(WEB)
    three[1].StartGuest(WEB)
    _Refused(moving, _Move(), "cannot be moved: it runs on node2")
    three[1].KillGuest(WEB)
    three.Run(_Move())
    assert moving.Guests() == [1], "it is marked up"


def test_rooms_for_volumes(three: Master) -> None:
    moving = Moving(three)
    three[1].InstallLvm(300)
    _Refused(moving, _Move(), "Not enough disk space on target node node2.* vg xenvg: required 384 MiB, available 300")
    three[1].InstallLvm(65536, group="other")
    _Refused(moving, _Move(), "node2.* did not report the free space of volume group 'xenvg'")
    three[1].InstallLvm(384)
    three.Run(_Move())
    assert moving.Content() == CONTENT


def test_room_for_files(three: Master) -> None:
    moving = Moving(three, "file")
    three[1].machine.disk_full = True
    _Refused(moving, _Move(), f"Not enough disk space on target node node2.* directory {FILE_FOLDER}: required 384 MiB")
    three[1].machine.disk_full = False
    three[1].Call(runtime.Rename, FILE_FOLDER, "/srv/away")
    _Refused(moving, _Move(), f"node2.* did not report the free space of directory '{FILE_FOLDER}'")


def test_the_policy_of_another_group(three: Master) -> None:
    moving = Moving(three)
    three.Run(opcodes.OpGroupAdd(group_name="small", ipolicy={"minmax": [_Sizes(1, 64)]}))
    three.Run(opcodes.OpGroupAssignNodes(group_name="small", nodes=["node3"]))
    _Refused(
        moving,
        opcodes.OpInstanceMove(instance_name=WEB, target_node="node3"),
        "violates the policy of node group small",
    )
    three.Run(_Move("node3"))
    assert moving.home == 2 and any("violates the policy" in text for text in three.last.messages)


def _Sizes(least: int, most: int) -> dict[str, dict[str, int]]:
    names = ("cpu-count", "disk-count", "disk-size", "memory-size", "nic-count", "spindle-use")
    return {
        "min": {name: least if name == "disk-size" else 0 for name in names},
        "max": {name: most if name == "disk-size" else 1 << 20 for name in names},
    }


def test_the_ratio_of_processors(three: Master) -> None:
    moving = Moving(three)
    policy = {**three.snapshot.cluster.ipolicy, "vcpu-ratio": 0.1}
    three.cfg.Update(three.snapshot.cluster.Replace(ipolicy=policy))
    _Refused(moving, opcodes.OpInstanceMove(instance_name=WEB, target_node="node3"), "virtual CPUs in use")
    three.cfg.Update(three.snapshot.nodes[three.nodes[0]].Replace(drained=True))
    three.Run(opcodes.OpInstanceMove(instance_name=WEB, target_node="node3"))
    assert moving.home == 2, "a node that is to be emptied gets rid of its guests"


@pytest.fixture
def mirrored(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True)


def test_templates_that_are_not_copied_name_the_commands_that_move_them(mirrored: Master) -> None:
    web = mirrored.Instance("web")
    with pytest.raises(
        errors.OpPrereqError, match="has disk template drbd: nothing of it needs to be copied"
    ) as caught:
        mirrored.Run(_Move("node3"))
    hint = str(caught.value.hint)
    assert "'gnt-instance replace-disks -n node3.example.org web.example.org' moves its second copy there" in hint
    assert "'gnt-instance failover -n node3.example.org web.example.org' stops it" in hint
    assert mirrored.Instance("web") == web
    mirrored.Run(opcodes.OpInstanceFailover(instance_name="web", target_node="node3"))
    assert mirrored.Instance("web").primary_node == mirrored.nodes[2]


@pytest.fixture
def diskless(make: Callable[..., Master]) -> Master:
    def change(root: objects.Snapshot) -> objects.Snapshot:
        policy = {**root.cluster.ipolicy, "disk-templates": ["diskless"]}
        cluster = root.cluster.Replace(enabled_disk_templates=["diskless"], ipolicy=policy)
        return root.Replace(cluster=cluster, disks={}, instances={})

    return make(2, change=change)


def test_without_disks_there_is_nothing_to_copy(diskless: Master) -> None:
    diskless.Run(OnDisks(WEB, disk_template="diskless", start=True))
    with pytest.raises(errors.OpPrereqError, match="has no disks") as caught:
        diskless.Run(_Move())
    assert "'gnt-instance failover -n node2.example.org web.example.org'" in str(caught.value.hint)
    diskless.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node="node2"))
    assert WEB in diskless[1].guests


def _MakeExclusive(master: Master) -> None:
    """The second node is in a group whose nodes have exclusive storage."""
    master[1].InstallLvm(10000, 10000, 10000)
    master.Run(opcodes.OpGroupAdd(group_name="dedicated", ndparams={"exclusive_storage": True}))
    master.Run(opcodes.OpGroupAssignNodes(group_name="dedicated", nodes=["node2"]))


def test_exclusive_storage(three: Master) -> None:
    _MakeExclusive(three)
    moving = Moving(three)
    _Refused(moving, _Move(), "Exclusive storage needs the number of spindles of disk 0")
    three.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    three.Run(opcodes.OpGroupAssignNodes(group_name="dedicated", nodes=["node3"]))
    three[2].InstallLvm(10000, 10000, 10000)
    three.Run(
        OnDisks(WEB, {"size": 128, "spindles": 1}, {"size": 256, "spindles": 1}, disk_template="plain", pnode="node2")
    )
    three.Run(_Move("node3"))
    assert moving.home == 2 and [disk.spindles for disk in moving.disks] == [1, 1]
    three.Run(_Move("node1"))
    assert moving.home == 0 and [disk.spindles for disk in moving.disks] == [None, None]


def test_files_are_not_for_exclusive_storage(three: Master) -> None:
    _MakeExclusive(three)
    _Refused(Moving(three, "file"), _Move(), "Disk template file is not supported with exclusive storage")


# --- when something fails --------------------------------------------------------------------------------------------------


def _Fails(moving: Moving, match: str, **values: Any) -> errors.OpExecError:
    """The instance is where it was, with its data, as it was; nothing is left elsewhere."""
    before = moving.web.admin_state, moving.Left(), moving.Guests(), moving.Content()
    with pytest.raises(errors.OpExecError, match=match) as caught:
        moving.master.Run(_Move(**values))
    assert (moving.web.admin_state, moving.Left(), moving.Guests(), moving.Content()) == before
    assert moving.home == 0 and WEB not in moving.master[1].Names(FILE_FOLDER)
    return caught.value


@pytest.mark.parametrize("template", ["plain", "file"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_target_that_cannot_hold_them_does_not_stop_the_guest(three: Master, template: str, number: int) -> None:
    moving = Moving(three, template)
    made = [0]

    def fail(name: str, _args: Any) -> None:
        made[0] += name == "blockdev_create"
        if name == "blockdev_create" and made[0] == number:
            raise errors.RpcCallError("the disk is broken")

    three[1].before = fail
    three[0].calls.clear()
    _Fails(moving, "Can't create block device disk/.* on node node2.* the disk is broken")
    assert "instance_shutdown" not in three[0].calls


@pytest.mark.parametrize("template", ["plain", "file"])
@pytest.mark.parametrize("up", [True, False])
def test_a_transfer_that_fails(three: Master, template: str, up: bool) -> None:
    moving = Moving(three, template, up)
    moving.transfers.failing["disk1"] = "no space left on device"
    before = moving.web.disks_active
    err = _Fails(moving, "could not be copied to node node2.*; it stays on node1")
    assert "disk 1: sending from node node1.example.org failed: no space left on device" in str(err)
    assert "disk 0" not in str(err)
    assert moving.web.disks_active == before
    moving.transfers.failing.clear()
    three.Run(_Move())
    assert moving.home == 1 and moving.Content() == CONTENT and moving.Guests() == ([1] if up else [])


def test_what_cannot_be_started_again_is_said(three: Master) -> None:
    moving = Moving(three)
    moving.transfers.failing["disk0"] = "broken"
    three[0].faults["instance_start"] = "no memory"
    with pytest.raises(errors.OpExecError, match="broken"):
        three.Run(_Move())
    assert any(
        "could not be started again on node node1" in text and "no memory" in text for text in three.last.messages
    )
    assert any(f"'gnt-instance startup {WEB}'" in text for text in three.last.messages)
    del three[0].faults["instance_start"]
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert moving.Guests() == [0] and moving.Counts() == [2, 0, 0]


def test_what_cannot_be_started_on_the_target_is_there(three: Master) -> None:
    moving = Moving(three)
    three[1].faults["instance_start"] = "no KVM"
    with pytest.raises(
        errors.OpExecError, match=r"has been moved to node node2.* could not be started again on node node2.*no KVM"
    ) as caught:
        three.Run(_Move())
    assert f"'gnt-instance startup {WEB}'" in str(caught.value.hint)
    assert moving.home == 1 and moving.Content() == CONTENT and moving.Counts() == [0, 2, 0]
    del three[1].faults["instance_start"]
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert moving.Guests() == [1]


@pytest.mark.parametrize("ignore", [False, True])
def test_what_may_still_run_is_never_copied(three: Master, ignore: bool) -> None:
    moving = Moving(three)
    three[0].faults["instance_shutdown"] = "it hangs"
    err = _Fails(
        moving,
        "Could not shut down instance web.*it hangs; nothing was moved, as it may still run",
        ignore_consistency=ignore,
    )
    assert f"'gnt-instance shutdown {WEB}' stops it" in str(err.hint)
    assert moving.transfers.done == []


def test_a_shutdown_that_fails_although_the_guest_has_ended(three: Master) -> None:
    moving = Moving(three)
    three[0].EndsUnheard(WEB)
    err = _Fails(moving, "connection lost; nothing was moved")
    assert "--ignore-consistency" in str(err.hint)
    three.Run(_Move(ignore_consistency=True))
    assert moving.home == 1 and moving.Guests() == [1] and moving.Content() == CONTENT
    assert any("connection lost; it has ended nevertheless, proceeding" in text for text in three.last.messages)


@pytest.mark.parametrize("template", ["plain", "file"])
@pytest.mark.parametrize("groups", [1, 2])
def test_what_is_left_on_the_source_is_named_with_its_commands(three: Master, template: str, groups: int) -> None:
    moving = Moving(three, template)
    if groups == 2:
        three.Run(opcodes.OpGroupAdd(group_name="other"))
        three.Run(opcodes.OpGroupAssignNodes(group_name="other", nodes=["node2"]))
    names = [disk_params.Of(disk).Removal(disk, three.nodes[0]) for disk in moving.disks]
    three[0].faults["blockdev_remove"] = "it is busy"
    three.Run(_Move())
    assert moving.home == 1 and moving.Guests() == [1] and moving.Content() == CONTENT
    for index, name in enumerate(names):
        said = f"Could not remove disk/{index} of instance {WEB} on node node1.example.org, where it is no longer used: it is busy"
        assert any(said in text for text in three.last.messages)
        assert any(name in text for text in three.last.messages)
    del three[0].faults["blockdev_remove"]
    for index, text in enumerate(sorted(_FollowVerify(moving), key=lambda text: text[text.index("disk/") :])):
        assert f"disk/{index} of instance {WEB}, which has this name, is on node2.example.org" in text
    assert moving.Counts() == [0, 2, 0] and moving.Content() == CONTENT


# --- when somebody dies ----------------------------------------------------------------------------------------------------


_CODES = (":ENODELVM:", ":ENODEORPHANLV:", "ERROR:EINSTANCE", ":ENODEORPHANINSTANCE:")


def _Findings(master: Master) -> list[str]:
    found: list[str] = []
    for group in master.snapshot.nodegroups.values():
        master.Run(opcodes.OpClusterVerifyGroup(group_name=group.name, error_codes=True))
        found += [text for text in master.last.messages if any(code in text for code in _CODES)]
    return found


_LEFT = r"ERROR:ENODEORPHANLV:.*(?:on node |node:)(node\d).*(?:run|then run) '(lvremove|rm|rm -r) (\S+)' there"


def _FollowVerify(moving: Moving) -> list[str]:
    """Do what verify says about leftovers; return that.  Then it has nothing to say."""
    said = []
    for text in _Findings(moving.master):
        match = re.search(_LEFT, text)
        assert match is not None, text
        number, command, place = int(match[1][-1]) - 1, match[2], match[3]
        node = moving.master[number]
        if command == "lvremove":
            node.Call(node.lvm._Lvremove, [f"/dev/{place}"])
        else:
            node.Call(runtime.RemoveFile, place)
        said.append(text)
    assert _Findings(moving.master) == []
    return said


@pytest.mark.req("D20-LOCK-11")
@pytest.mark.parametrize("template", ["plain", "file"])
def test_a_master_that_dies_in_any_step_leaves_the_data_where_the_configuration_says(
    three: Master, template: str
) -> None:
    moving = Moving(three, template)
    sides, named = set(), 0
    for number in range(1, 100):
        op, seen = _Move(f"node{2 - moving.home}"), list[str]()
        start = moving.home
        try:
            three.Run(op, units={op.OP_ID: DiesIn(LUInstanceMove, number, seen)})
        except Killed:
            sides.add(moving.home == start)
        else:
            break
        assert moving.Content() == CONTENT and moving.Guests() in ([], [moving.home]), seen
        three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
        named += len(_FollowVerify(moving))
        assert moving.Counts() == [2 * (moving.home == node) for node in range(3)], seen
        assert moving.Guests() == [moving.home] and moving.Content() == CONTENT
    assert len(seen) <= number and sides == {True, False} and named > 20
    assert moving.Content() == CONTENT and moving.Guests() == [moving.home]


@pytest.mark.parametrize(("template", "who"), [("plain", "source"), ("plain", "target"), ("file", "target")])
def test_a_node_that_dies_in_any_step(three: Master, template: str, who: str) -> None:
    """The master is another node.  Whatever is left is named, and the guest runs once, where the configuration says."""
    moving = Moving(three, template)
    three.Run(_Move("node3"))
    seen: list[str] = []
    failed = 0
    for number in range(1, 100):
        start, target = moving.home, 3 - moving.home
        died = three[start if who == "source" else target]
        seen.clear()

        def die(name: str, _args: Any, died: SimNode = died, number: int = number) -> None:
            seen.append(name)
            if len(seen) == number:
                died.Stop()

        died.before = die
        try:
            three.Run(_Move(f"node{target + 1}"))
        except errors.GenericError:
            failed += 1
        died.before = lambda name, args: None
        if len(seen) < number:
            break
        died.Start()
        assert moving.Guests() in ([], [moving.home]), seen
        three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
        _FollowVerify(moving)
        assert moving.Guests() == [moving.home] and moving.Content() == CONTENT, seen
        assert moving.Counts() == [2 * (moving.home == node) for node in range(3)], seen
    assert failed > 5 and moving.home == target
