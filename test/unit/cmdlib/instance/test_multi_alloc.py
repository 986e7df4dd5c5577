"""Several instances at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import configs
from support.actors import Cast
from support.asking import Answering, Played
from support.master import Callbacks, Master
from support.moving import Hail, Ids, RunWithJobs

from ganeti import errors, locking, mcpu, objects, opcodes
from ganeti.cmdlib.instance.multi_alloc import LUInstanceMultiAlloc

DEFAULTS = {"OP_ID": "OP_INSTANCE_CREATE", "mode": "create", "disk_template": "drbd", "os_type": "noop"}


def _New(name: str, **values: Any) -> dict[str, Any]:
    return {**DEFAULTS, "instance_name": name, "disks": [{"size": 1024}], "nics": [{}], **values}


def _Multi(*instances: Any, **values: Any) -> opcodes.OpInstanceMultiAlloc:
    return opcodes.OpInstanceMultiAlloc(instances=list(instances), **values)


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, prepare=_Prepare)


def _Prepare(master: Master) -> None:
    master[0].AddAllocator("mine", Hail())
    master.cfg.Update(master.snapshot.cluster.Replace(default_iallocator=""))


def test_each_gets_a_job_with_its_nodes(three: Master) -> None:
    names = [f"new{number}.example.org" for number in range(4)]
    op = _Multi(*(_New(name) for name in names), iallocator="mine")
    result = three.Run(op)
    assert result == {"jobs": [[True, 100 + n] for n in range(4)], "allocatable": names, "failed": []}
    for job in three.last.jobs:
        three.Run(job[0])
    for name in names:
        nodes = three.snapshot.AllNodes(three.Instance(name))
        assert len(set(nodes)) == 2
    assert [text for text in three.last.messages if "Selected nodes" in text] == []  # chosen once, for all of them


def test_named_nodes_need_no_allocator(three: Master) -> None:
    op = _Multi(
        _New("New1.example.org", pnode="node3", snode="node1"),
        _New("new2.example.org", pnode="node2", disk_template="plain"),
    )
    jobs = RunWithJobs(three, op)
    assert Ids(jobs) == [["CREATE"], ["CREATE"]]
    assert three.snapshot.AllNodes(three.Instance("new1")) == (three.nodes[2], three.nodes[0])
    assert three.snapshot.AllNodes(three.Instance("new2")) == (three.nodes[1],)


def test_those_without_a_place_are_left_out(three: Master) -> None:
    chosen = ["small.example.org", [three[2].name, three[0].name]]
    three[0].AddAllocator("mine", Answering([[chosen], ["big.example.org"]]))
    op = _Multi(_New("big.example.org"), _New("small.example.org"), iallocator="mine", dry_run=True)
    assert three.Run(op) == {"jobs": [], "allocatable": ["small.example.org"], "failed": ["big.example.org"]}
    assert " - WARNING: No place was found for these instances: big.example.org" in three.last.messages
    op.dry_run = None
    assert three.Run(op)["jobs"] == [[True, 100]]
    [[one]] = three.last.jobs
    assert (one.pnode, one.snode) == (three[2].name, three[0].name)


def test_nothing_is_asked_about_nothing(three: Master) -> None:
    assert three.Run(_Multi(iallocator="nobody")) == {"jobs": [], "allocatable": [], "failed": []}


def test_what_the_allocator_is_told(three: Master) -> None:
    played = Played(lambda message: {"success": False, "info": "no", "result": []})
    three[0].AddAllocator("mine", played)
    new = _New(
        "new.example.org", tags=["t"], beparams={"memory": 512, "vcpus": "auto"}, group_name="default",
        nics=[{"mac": "aa:00:00:11:22:33", "link": "br9", "ip": "192.0.2.9"}], disks=[{"size": "1g", "mode": "ro"}],
    )  # fmt: skip
    with pytest.raises(errors.OpPrereqError, match="Can't compute nodes"):
        three.Run(_Multi(new, iallocator="mine"))
    [message] = played.asked
    assert message["request"] == {
        "type": "multi-allocate",
        "instances": [
            {
                "name": "new.example.org", "disk_template": "drbd", "tags": ["t"], "os": "noop", "vcpus": 1,
                "memory": 512, "spindle_use": 1, "disks": [{"size": 1024, "mode": "ro"}],
                "disk_space_total": 1152, "required_nodes": 2, "hypervisor": "kvm", "group_name": "default",
                "nics": [
                    {"mac": "aa:00:00:11:22:33", "ip": "192.0.2.9", "mode": "bridged", "link": "br9", "bridge": "br9"}
                ],
            }
        ],
        "group_name": "default",
    }  # fmt: skip


def test_no_policy_that_allows_them_is_known_before_anybody_is_asked(three: Master) -> None:
    """All of them are named, with values and bounds; whoever may ignore policies is not among them."""
    played = Played(lambda message: {"success": False, "info": "no", "result": []})
    three[0].AddAllocator("mine", played)
    big, many = {"beparams": {"memory": 2**20}}, {"disks": [{"size": 2**21}], "disk_template": "plain"}
    op = _Multi(
        _New("a", **big), _New("b"), _New("c", **many), _New("d", **big, ignore_ipolicy=True), iallocator="mine"
    )
    with pytest.raises(errors.OpPrereqError) as caught:
        three.Run(op)
    text, code = caught.value.args
    assert code == errors.ECODE_INVAL and played.asked == [] and "Instance b " not in text and "Instance d " not in text
    place = "violates the policy of every node group it may go to: node group default"
    assert f"Instance a {place}: memory-size value 1048576 is not in range [128, 32768]" in text
    assert f"Instance c {place}: disk-size/0 value 2097152 is not in range [1024, 1048576]" in text


def _TwoGroups(root: objects.Snapshot) -> objects.Snapshot:
    """The third and fourth node are in a group of their own, which nobody uses without being asked."""
    [first] = root.nodegroups.values()
    groups = [first, first.Replace(uuid=configs.Uuid(77), name="other", alloc_policy="unallocable")]
    nodes = list(root.nodes.values())
    moved = [*nodes[:2], *(node.Replace(group=configs.Uuid(77)) for node in nodes[2:])]
    return root.Replace(nodegroups={group.uuid: group for group in groups}, nodes={node.uuid: node for node in moved})


@pytest.fixture
def four(make: Callable[..., Master]) -> Master:
    return make(4, lvm=True, change=_TwoGroups, prepare=_Prepare)


@pytest.mark.parametrize("allocator", ["mine", "hail"])
def test_each_goes_to_the_group_that_it_names(four: Master, allocator: str) -> None:
    ops = [_New("a", group_name="other"), _New("b", group_name="default"), _New("c")]
    assert four.Run(_Multi(*ops, iallocator=allocator))["allocatable"] == ["a", "b", "c"]
    placed = {job[0].instance_name: {job[0].pnode, job[0].snode} for job in four.last.jobs}  # type: ignore[attr-defined]
    low, high = ({node.name for node in part} for part in (four.all[:2], four.all[2:]))
    assert placed == {"a": high, "b": low, "c": low}


def test_whoever_names_no_group_may_go_to_any(four: Master) -> None:
    """So all groups are locked, whatever the others name."""
    for ops, groups in (
        ([_New("a", group_name="other"), _New("b")], set(four.snapshot.nodegroups)),
        ([_New("a", group_name="other")], {configs.Uuid(77)}),
    ):
        _Watched.held = []
        four.Run(_Multi(*ops, iallocator="mine"), units={"OP_INSTANCE_MULTI_ALLOC": _Watched})
        assert _Watched.held[0][1] == groups


def test_why_some_fit_nowhere(four: Master) -> None:
    """One line for each reason and instance, also for those after the first one without a place."""
    large, huge = {"beparams": {"memory": 30000}}, {"disks": [{"size": 1000000}]}
    op = _Multi(_New("a"), _New("b", **large), _New("c", **huge), _New("d"), iallocator="hail")
    with pytest.raises(errors.OpPrereqError, match="Can't compute nodes using iallocator 'hail'") as caught:
        four.Run(op)
    assert caught.value.args[1] == errors.ECODE_NORES
    said = [text.removeprefix(" - INFO: Not chosen: ") for text in four.last.messages if "Not chosen" in text]
    elsewhere = "2 nodes: in node group other, which gets no new instances (for example node3.example.org)"
    assert said == [
        "instance b: 2 nodes: not enough free memory (for example node1.example.org)",
        f"instance b: {elsewhere}",
        "instance c: 2 nodes: not enough free disk space, or too many spindles in use already"
        " (for example node1.example.org)",
        f"instance c: {elsewhere}",
    ]
    # With their group named, those that fit are made and the others reported.
    named = _Multi(*({**one, "group_name": "default"} for one in op.instances), iallocator="hail")
    assert four.Run(named) == {"jobs": [[True, 100], [True, 101]], "allocatable": ["a", "d"], "failed": ["b", "c"]}
    said = [text.removeprefix(" - INFO: Not chosen: ") for text in four.last.messages if "Not chosen" in text]
    assert "instance b: 2 nodes: not enough free memory (for example node1.example.org)" in said and len(said) == 4


def test_instances_go_where_their_network_is(three: Master) -> None:
    """The only group lacks the network, so there is no place; with it there is one, and each gets its own address."""
    net = three.cfg.AddNetwork(objects.Network(name="lan", network="10.0.0.0/29", uuid=configs.Uuid(70)))
    op = _Multi(*(_New(f"n{n}.example.org", nics=[{"network": "lan", "ip": "pool"}]) for n in "ab"), iallocator="mine")
    with pytest.raises(errors.OpPrereqError, match="default is not connected to a network required by instance na"):
        three.Run(op)
    group = three.snapshot.nodegroups[configs.GROUP]
    three.cfg.Update(group.Replace(networks={net.uuid: {"mode": "bridged", "link": "br0", "vlan": ""}}))
    assert three.Run(op)["allocatable"] == ["na.example.org", "nb.example.org"]
    for job in three.last.jobs:
        three.Run(job[0])
    assert [three.Instance(name).nics[0].ip for name in ("na", "nb")] == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize(
    ("op", "match"),
    [
        (_Multi(_New("a"), _New("A"), iallocator="mine"), "duplicate instance names: a"),
        (_Multi(_New("a", pnode="node1"), _New("b"), iallocator="mine"), "others do not: b"),
        (_Multi(_New("a", pnode="node1", snode="node2"), iallocator="mine"), "cannot be given as well"),
        (_Multi(_New("a")), "no default allocator"),
        (_Multi(_New("a"), iallocator="."), "no default allocator"),
        (_Multi(_New("a", iallocator="mine"), iallocator="mine"), "only be given for all"),
        (_Multi(_New("a", pnode="node1", snode="node2"), opportunistic_locking=True), "in combination with"),
        (_Multi({"OP_ID": "OP_TEST_DELAY", "duration": 1}, iallocator="mine"), "definition 0: OP_TEST_DELAY does not"),
        (_Multi(_New("a"), 7, iallocator="mine"), "definition 1: An opcode is a JSON object"),
        (_Multi(_New("a", size=3), iallocator="mine"), "unknown parameter 'size'"),
        (_Multi(_New("web.example.org"), iallocator="mine"), r"already in the cluster: web\.example\.org"),
        (_Multi(_New("a", disks=[]), iallocator="mine"), "Instance 'a': No disks given"),
        (_Multi(_New("a", disks=[{"adopt": "x"}], disk_template="plain"), iallocator="mine"), "Disk adoption"),
        (_Multi(_New("a", pnode="node9", snode="node1")), "'node9' not known"),
        (_Multi(_New("a", group_name="nowhere"), iallocator="mine"), "'nowhere' not known"),
        (_Multi(_New("-a-"), iallocator="mine"), "Invalid host name"),
        # What its job would reject, wherever the instance goes:
        (_Multi(_New("a", commit=True), iallocator="mine"), "Instance 'a': A reserved instance has its nodes already"),
        (_Multi(_New("a", opportunistic_locking=True), iallocator="mine"), "only be requested for all instances"),
        (_Multi(_New("a", snode="node1"), iallocator="mine"), "Instance 'a': Its definition names a node, but no prim"),
        (_Multi(_New("a", pnode_uuid="00000004-aaaa-4bbb-8ccc-0000000000aa"), iallocator="mine"), "no primary node"),
        (_Multi(_New("a", snode_uuid="00000004-aaaa-4bbb-8ccc-0000000000aa"), iallocator="mine"), "no primary node"),
        (_Multi(_New("a", pnode="node1")), "Instance 'a': The disk template drbd needs a secondary node"),
        (
            _Multi(_New("a", mode="import"), iallocator="mine"),
            "mode 'import' is possible for one instance at a time only",
        ),
        (_Multi(_New("a", os_type=None), iallocator="mine"), "No guest OS"),
        (_Multi(_New("a", hypervisor="lxc"), iallocator="mine"), r"hypervisor \(lxc\) not enabled"),
        (_Multi(_New("a", hvparams={"nonsense": 1}), iallocator="mine"), "nonsense"),
        (_Multi(_New("a", beparams={"minmem": 2048, "maxmem": 512}), iallocator="mine"), "minimum memory"),
        (_Multi(_New("a", tags=["bad tag!"]), iallocator="mine"), "Tag 'bad tag!'"),
        (_Multi(_New("a", nics=[{"network": "nowhere"}]), iallocator="mine"), "Network 'nowhere' not known"),
        (_Multi(_New("a", nics=[{"mode": "zzz"}]), iallocator="mine"), "found 'zzz'"),
        (_Multi(_New("a", ip_check=True, name_check=False), iallocator="mine"), "without a name check"),
    ],
)
def test_what_cannot_be_is_rejected(three: Master, op: opcodes.OpCode, match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match):
        three.Run(op)
    assert three.last.jobs == []


# --- locks -----------------------------------------------------------------------------------------------------------------

_LEVELS = (locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODEGROUP, locking.LEVEL_NODE, locking.LEVEL_NODE_RES)


class _Watched(LUInstanceMultiAlloc):
    """Says what it holds when it looks whether it can be done."""

    held: list[list[set[str]]]

    def CheckPrereq(self) -> None:
        self.held.append([self.owned_locks(level) for level in _LEVELS])
        super().CheckPrereq()


@pytest.mark.req("RM-LOCK-07")
def test_what_is_locked(three: Master) -> None:
    groups = set(three.snapshot.nodegroups)
    op = _Multi(_New("a", pnode="node3", snode="node1"))
    _Watched.held = []
    three.Run(op, units={op.OP_ID: _Watched})
    assert _Watched.held == [[set(), set(), set(), set()]]
    for new in (_New("a"), _New("a", group_name="default")):
        _Watched.held = []
        three.Run(_Multi(new, iallocator="mine"), units={op.OP_ID: _Watched})
        assert _Watched.held == [[{locking.NAL}, groups, set(), set()]]


def test_definitions_reserve_nothing(three: Master) -> None:
    """A job may begin before this one has ended; the names are looked up there, too."""
    mac = "aa:00:00:11:22:33"
    op = _Multi(_New("a", nics=[{"mac": mac, "ip": "auto"}], name_check=True, ip_check=True), iallocator="mine")

    class Looking(LUInstanceMultiAlloc):
        def Exec(self, feedback: Any) -> Any:
            three.cfg.ReserveMAC(mac, 77)
            return super().Exec(feedback)

    assert three.Run(op, units={op.OP_ID: Looking})["allocatable"] == ["a"]
    three.cfg.DropECReservations(77)


def test_only_free_nodes_are_used(three: Master) -> None:
    """Opportunistic locking: a node that another job has is not offered."""
    names = [node.name for node in three.all]
    played = Played(lambda message: {"success": False, "info": "no", "result": []})
    three[0].AddAllocator("none", played)
    op = _Multi(_New("a"), iallocator="none", opportunistic_locking=True)
    with Cast("other") as [other]:
        other.Do(three.glm.acquire, locking.LEVEL_CLUSTER, [locking.BGL], shared=1)
        other.Do(three.glm.acquire, locking.LEVEL_NODE, [three.nodes[1]])
        with pytest.raises(errors.OpPrereqError) as caught:
            mcpu.Processor(three.context, 9).ExecOpCode(op, Callbacks())
        other.Do(three.glm.release, locking.LEVEL_NODE)
        other.Do(three.glm.release, locking.LEVEL_CLUSTER)
    assert caught.value.args[1] == errors.ECODE_TEMP_NORES
    [asked] = played.asked[0]["request"]["instances"]
    assert asked["restrict-to-nodes"] == [names[0], names[2]]


def test_a_choice_among_busy_nodes_is_put_off(three: Master) -> None:
    """The allocator cannot know that the cluster has the nodes."""
    op = _Multi(_New("p", disk_template="plain"), _New("a"), iallocator="hail", opportunistic_locking=True)
    with Cast("other") as [other]:
        other.Do(three.glm.acquire, locking.LEVEL_CLUSTER, [locking.BGL], shared=1)
        other.Do(three.glm.acquire, locking.LEVEL_NODE, three.nodes[1:])
        with pytest.raises(
            errors.OpPrereqError, match="Only 1 of the 2 nodes that an instance needs are free"
        ) as caught:
            mcpu.Processor(three.context, 9).ExecOpCode(op, Callbacks())
        other.Do(three.glm.release, locking.LEVEL_NODE)
        other.Do(three.glm.release, locking.LEVEL_CLUSTER)
    assert caught.value.args[1] == errors.ECODE_TEMP_NORES
    # Those on which another job makes disks are busy, too.
    with Cast("other") as [other]:
        other.Do(three.glm.acquire, locking.LEVEL_CLUSTER, [locking.BGL], shared=1)
        other.Do(three.glm.acquire, locking.LEVEL_NODE_RES, three.nodes[1:])
        with pytest.raises(errors.OpPrereqError, match="Only 1 of the 2 nodes"):
            mcpu.Processor(three.context, 9).ExecOpCode(op, Callbacks())
        other.Do(three.glm.release, locking.LEVEL_NODE_RES)
        other.Do(three.glm.release, locking.LEVEL_CLUSTER)


def test_nobody_else_chooses_at_the_same_time(three: Master) -> None:
    """The lock of allocations is held alone: neither an allocation nor a job on all nodes shares it."""
    modes: list[str | None] = []

    class Looking(LUInstanceMultiAlloc):
        def CheckPrereq(self) -> None:
            modes.extend(row.mode for row in three.glm.QueryLocks() if row.name.startswith("node-alloc/"))
            super().CheckPrereq()

    op = _Multi(_New("a"), iallocator="mine")
    three.Run(op, units={op.OP_ID: Looking})
    assert set(modes) == {"exclusive"}
