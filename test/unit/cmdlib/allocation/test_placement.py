"""How units get their nodes from an allocator: what they lock, and what happens beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Success
from support.master import Master
from support.placing import NEW, Allocator, Create, First, Nodes, Prepare
from support.sidejobs import Held, Holders, SideJob, Until

from ganeti import errors, locking, mcpu, objects, opcodes, runtime


@pytest.fixture
def five(make: Callable[..., Master]) -> Master:
    """The example's instance is on the first two of five nodes."""
    return make(5, prepare=Prepare, lvm=True)


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    return make(2, prepare=Prepare, lvm=True)


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, prepare=Prepare, lvm=True)


# --- who chooses ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("IAL-05", "IAL-07")
def test_an_allocator_chooses_the_nodes_of_a_new_instance(five: Master) -> None:
    played = Allocator(five, lambda message: Success([five[3].name, five[1].name]))
    result = five.Run(Create(tags=["b", "a"], nics=[{"mode": "bridged"}]))
    assert result == [five[3].name, five[1].name] and Nodes(five) == ("4", "2")
    (message,) = played.asked
    request = message["request"]
    assert (request["name"], request["required_nodes"], request["tags"]) == (NEW, 2, ["a", "b"])
    assert request["disks"] == [{"size": 1024, "mode": "rw"}] and request["memory"] == 128
    assert request["nics"][0]["mac"] == five.Instance(NEW).nics[0].mac
    assert "restrict-to-nodes" not in request
    said = f" - INFO: Selected nodes for instance {NEW} via iallocator first: {five[3].name}, {five[1].name}"
    assert five.last.messages.count(said) == 1


@pytest.mark.req("IAL-17", "IAL-18", "IAL-19")
def test_what_is_asked_about_a_new_instance(five: Master) -> None:
    played = Allocator(five)
    disks = [{"size": 2048}, {"size": 1024, "mode": "ro"}]
    nics = [{"mode": "bridged"}, {"mode": "routed", "ip": "198.51.100.9"}]
    five.Run(Create(disks=disks, nics=nics, tags=["b", "a"], beparams={"vcpus": 3, "maxmem": 384, "minmem": 256}))
    request = played.asked[0]["request"]
    assert request["disks"] == [{"size": 2048, "mode": "rw"}, {"size": 1024, "mode": "ro"}]
    first, second = five.Instance(NEW).nics
    keys = ("ip", "mac", "mode", "bridge")
    assert [tuple(nic.get(key) for key in keys) for nic in request["nics"]] == [
        (None, first.mac, "bridged", five.snapshot.cluster.nicparams["default"]["link"]),
        ("198.51.100.9", second.mac, "routed", None),
    ]
    said = {"vcpus": 3, "memory": 384, "disk_template": "drbd", "os": "debian+minimal", "tags": ["a", "b"]}
    assert request == {**request, **said}


@pytest.mark.req("D21-IALLOC-02")
def test_without_a_default_somebody_has_to_choose(five: Master) -> None:
    for allocator in (None, "."):
        with pytest.raises(errors.OpPrereqError, match="No iallocator or node given") as caught:
            five.Run(Create(iallocator=allocator))
        assert caught.value.args[1] == errors.ECODE_INVAL
    with pytest.raises(errors.OpPrereqError, match="both iallocator and node"):
        five.Run(Create(pnode="node1", snode="node2"))


@pytest.mark.req("D21-IALLOC-03")
def test_the_default_chooses_unless_nodes_are_named(five: Master) -> None:
    played = Allocator(five)
    five.cfg.Update(five.snapshot.cluster.Replace(default_iallocator="first"))
    five.Run(Create(iallocator=None))
    five.Run(Create("dot.example.org", iallocator="."))
    assert len(played.asked) == 2 and Nodes(five) == Nodes(five, "dot") == ("1", "2")
    five.Run(Create("named.example.org", iallocator=None, pnode="node4", snode="node3"))
    assert len(played.asked) == 2 and Nodes(five, "named") == ("4", "3")


def test_what_does_not_go_with_an_allocator(five: Master) -> None:
    five.cfg.Update(five.snapshot.cluster.Replace(default_iallocator="first"))
    for match, values in (
        ("without the primary node", {"snode": "node2", "iallocator": None}),
        ("only available in combination", {"pnode": "node1", "snode": "node2", "iallocator": None}),
    ):
        with pytest.raises(errors.OpPrereqError, match=match):
            five.Run(Create(opportunistic_locking=True, **values))
    with pytest.raises(errors.OpPrereqError, match="adoption not allowed with an iallocator"):
        five.Run(Create(disk_template="plain", disks=[{"adopt": "lv"}], iallocator=None))


@pytest.mark.req("D21-IALLOC-05")
def test_dry_run_returns_the_chosen_nodes_and_changes_nothing(five: Master) -> None:
    Allocator(five, lambda message: Success([five[4].name, five[2].name]))
    serial = five.snapshot.serial_no
    assert five.Run(Create(dry_run=True)) == [five.nodes[4], five.nodes[2]]
    assert five.snapshot.serial_no == serial and NEW not in five.glm.Names(locking.LEVEL_INSTANCE)
    assert all("blockdev_create" not in node.calls for node in five.all)
    with pytest.raises(errors.OpPrereqError, match=r"violates the policy.*memory-size"):
        five.Run(Create(dry_run=True, beparams={"memory": 64}))


def test_hooks_see_the_chosen_nodes(five: Master) -> None:
    Allocator(five, lambda message: Success([five[3].name, five[2].name]))
    five.Run(Create())
    for node in (five[0], five[3], five[2]):
        phases = [(phase, env) for path, phase, env in node.hook_runs if path == "instance-add"]
        assert [phase for phase, _ in phases] == ["pre", "post"]
        assert phases[0][1]["GANETI_INSTANCE_PRIMARY"] == five[3].name
        assert phases[0][1]["GANETI_INSTANCE_SECONDARIES"] == five[2].name
    assert not [run for run in five[1].hook_runs if run[0] == "instance-add"]


@pytest.mark.req("D20-FLAG-22")
def test_a_node_that_an_allocator_must_not_choose_is_refused(five: Master) -> None:
    Allocator(five, lambda message: Success([five[3].name, five[2].name]))
    five.cfg.Update(five.snapshot.nodes[five.nodes[2]].Replace(drained=True))
    with pytest.raises(errors.OpExecError, match=r"node3.*drained"):
        five.Run(Create())
    assert five.snapshot.InstanceByName(NEW) is None


def test_only_the_wanted_group_is_offered_and_locked(five: Master) -> None:
    group = _MoveToOwnGroup(five, 2, 3)
    seen: list[Any] = []

    def answer(message: dict[str, Any]) -> Any:
        seen.append((message["request"]["group_name"], list(Holders(five, "nodegroup"))))
        return Success([five[2].name, five[3].name])

    Allocator(five, answer)
    five.Run(Create(group_name="other"))
    assert seen == [("other", [group.uuid])] and Nodes(five) == ("3", "4")
    Allocator(five, lambda message: Success([five[0].name, five[1].name]), "wrong")
    with pytest.raises(errors.GenericError, match=r"wrong.*node1"):
        five.Run(Create("x.example.org", group_name="other", iallocator="wrong"))
    assert five.snapshot.InstanceByName("x.example.org") is None


def test_groups_that_were_not_chosen_are_released(five: Master) -> None:
    group = _MoveToOwnGroup(five, 2, 3)
    Allocator(five, lambda message: Success([five[2].name, five[3].name]))
    held = Held(five, 2, "blockdev_create")
    job = SideJob(five, Create())
    held.Begun()
    assert set(Holders(five, "nodegroup")) == {group.uuid}
    held.Go()
    job.Result()


def test_free_nodes_of_other_groups_are_not_offered(five: Master) -> None:
    _MoveToOwnGroup(five, 2, 3)
    played = Allocator(five)
    five.Run(Create(group_name="other", opportunistic_locking=True))
    assert played.asked[0]["request"]["restrict-to-nodes"] == [five[2].name, five[3].name]


@pytest.mark.req("IAL-33")
def test_why_nothing_fits_is_in_the_log_of_the_job(five: Master) -> None:
    for name in ("one", "other"):
        Allocator(five, lambda message: {"success": False, "info": "full", "result": []}, name)
    with pytest.raises(errors.OpPrereqError, match="using iallocator 'other': full") as caught:
        five.Run(Create(iallocator="one,other"))
    assert caught.value.args[1] == errors.ECODE_NORES
    assert any("iallocator 'one': full; the next allocator is tried" in text for text in five.last.messages)
    assert five.snapshot.InstanceByName(NEW) is None and not any("blockdev_create" in node.calls for node in five.all)


def _MoveToOwnGroup(master: Master, *numbers: int) -> objects.NodeGroup:
    (old,) = master.snapshot.nodegroups.values()
    group = master.cfg.AddNodeGroup(old.Replace(name="other", uuid="00000077-aaaa-4bbb-8ccc-000000000077"))
    master.glm._sets[locking.LEVEL_NODEGROUP].add(group.uuid)
    master.cfg.AssignGroupNodes([(master.nodes[number], group.uuid) for number in numbers])
    return group


# --- locks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.req("RM-LOCK-06", "RM-LOCK-07", "RM-LOCK-09")
def test_the_allocator_is_asked_under_the_allocation_lock_and_no_lock_of_a_node(five: Master) -> None:
    seen: list[tuple[dict[str, list[str]], ...]] = []

    def answer(message: dict[str, Any]) -> Any:
        seen.append(tuple(Holders(five, level) for level in ("node-alloc", "node", "node-res")))
        return First(message)

    Allocator(five, answer)
    held = Held(five, 0, "blockdev_create")
    job = SideJob(five, Create())
    held.Begun()
    # The choice is made: others may choose, and only what was chosen is locked.
    assert Holders(five, "node-alloc") == {}
    for level in ("node", "node-res"):
        assert set(Holders(five, level)) == {five.nodes[0], five.nodes[1]}
    held.Go()
    job.Result()
    [(alloc, nodes, res)] = seen
    assert set(alloc) == {"[lockset]", "NAL"} and (nodes, res) == ({}, {})


@pytest.mark.req("RM-LIM-17", "RM-LOCK-08")
def test_two_allocations_that_do_not_compete_run_side_by_side(five: Master) -> None:
    played = Allocator(five)
    held = Held(five, 0, "blockdev_create")
    first = SideJob(five, Create("one.example.org"))
    held.Begun()
    second = SideJob(five, Create("two.example.org"), 901)
    assert second.Result() == [five[2].name, five[3].name]
    assert not first.ended and five.snapshot.InstanceByName("one.example.org") is None
    # It was asked for all nodes first, then for those on which nobody works.
    allowed = [message["request"].get("restrict-to-nodes") for message in played.asked]
    assert allowed == [None, None, [five[2].name, five[3].name, five[4].name]]
    assert any("free nodes are used instead" in text for text in second.callbacks.messages)
    held.Go()
    assert first.Result() == [five[0].name, five[1].name]


@pytest.mark.req("RM-LOCK-02")
def test_an_allocation_waits_for_its_choice_if_it_fits_nowhere_else(two: Master) -> None:
    played = Allocator(two)
    held = Held(two, 0, "blockdev_create")
    first = SideJob(two, Create("one.example.org"))
    held.Begun()
    second = SideJob(two, Create("two.example.org"), 901)
    Until(lambda: any(row.pending for row in two.glm.QueryLocks() if row.name.startswith("node/")))
    assert not second.ended and Holders(two, "node-alloc") == {}
    held.Go()
    first.Result()
    # One came to its nodes meanwhile: it is asked whether they still do.
    assert second.Result() == [two[0].name, two[1].name]
    last = played.asked[-1]
    assert "one.example.org" in last["instances"]
    assert last["request"]["restrict-to-nodes"] == [two[0].name, two[1].name]
    selected = [text for text in second.callbacks.messages if "Selected nodes" in text]
    assert len(selected) == 1


def test_time_for_choosing_is_no_time_for_waiting(two: Master) -> None:
    """The allocator takes longer than the job may wait for locks, and the nodes it chooses are not free yet."""

    def answer(message: dict[str, Any]) -> Any:
        runtime.Sleep(20)
        return First(message)

    Allocator(two, answer)
    held = Held(two, 1, "blockdev_create")
    busy = SideJob(two, Create("busy.example.org", iallocator=None, pnode="node2", snode="node1"), 901)
    held.Begun()
    job = SideJob(two, Create(), timeout=5)
    Until(lambda: any(row.pending for row in two.glm.QueryLocks() if row.name.startswith("node/")))
    held.Go()
    busy.Result()
    assert job.Result() == [two[0].name, two[1].name]


# --- what changes between the choice and the locks -----------------------------------------------------------------------


@pytest.mark.req("RM-LOCK-04")
def test_a_node_that_changes_before_it_is_locked_is_not_used(five: Master) -> None:
    """The second node is marked drained while the allocator thinks."""

    def answer(message: dict[str, Any]) -> Any:
        result = First(message)
        node = five.snapshot.nodes[five.nodes[1]]
        if not node.drained:
            with five.Elsewhere():
                five.cfg.Update(node.Replace(drained=True))
        return result

    played = Allocator(five, answer)
    assert five.Run(Create()) == [five[0].name, five[2].name]
    # Once for all, once whether the locked ones still do, and once more for all.
    assert [message["request"].get("restrict-to-nodes") for message in played.asked] == [
        None, [five[0].name, five[1].name], None,
    ]  # fmt: skip
    assert len([text for text in five.last.messages if "Selected nodes" in text]) == 1


@pytest.mark.req("RM-LOCK-03")
def test_an_instance_that_grows_before_its_node_is_locked_counts_as_it_is_then(five: Master) -> None:
    """The example's instance on the first two nodes gets more memory while the allocator thinks."""

    def answer(message: dict[str, Any]) -> Any:
        result = First(message)
        inst = five.Instance("web.example.org")
        if inst.beparams["maxmem"] == 512:
            with five.Elsewhere():
                five.cfg.Update(inst.Replace(beparams={"maxmem": 4096, "minmem": 512}))
        return {**result, "info": f"answer {len(played.asked)}"}

    played = Allocator(five, answer)
    assert five.Run(Create()) == [five[0].name, five[1].name]
    said = [text for text in five.last.messages if "iallocator first: answer" in text]
    assert said == [" - INFO: iallocator first: answer 2"], "only the answer that counts is in the job's log"
    told = [message["instances"]["web.example.org"]["memory"] for message in played.asked]
    assert told == [512, 4096], "asked again whether the locked nodes still do"
    assert played.asked[-1]["request"]["restrict-to-nodes"] == [five[0].name, five[1].name]


def test_whoever_was_overtaken_lets_nobody_else_choose(five: Master) -> None:
    """After a choice that did not hold the next one is for nodes that are busy: the allocation lock is kept meanwhile."""
    held = Held(five, 3, "blockdev_create")

    def answer(message: dict[str, Any]) -> Any:
        node = five.snapshot.nodes[five.nodes[1]]
        if "restrict-to-nodes" in message["request"]:
            return {"success": False, "info": "not there", "result": []}
        if node.drained:
            return Success([five[3].name, five[4].name])
        five.cfg.Update(node.Replace(drained=True))
        return Success([five[0].name, five[1].name])

    Allocator(five, answer)
    other = SideJob(five, Create("busy.example.org", iallocator=None, pnode="node4", snode="node3"))
    held.Begun()
    job = SideJob(five, Create(), 901)
    Until(lambda: any(row.pending for row in five.glm.QueryLocks() if row.name == f"node/{five.nodes[3]}"))
    assert Holders(five, "node-alloc")["NAL"] == ["901"]
    held.Go()
    other.Result()
    assert job.Result() == [five[3].name, five[4].name]


def test_a_cluster_that_never_holds_still_is_reported(five: Master) -> None:
    """Whatever is chosen has changed by then."""
    asked: list[Any] = []

    def answer(message: dict[str, Any]) -> Any:
        asked.append(message["request"].get("restrict-to-nodes"))
        pair = [five[3].name, five[4].name] if len(asked) % 4 < 2 else [five[1].name, five[2].name]
        with five.Elsewhere():
            for number in range(1, 5):
                node = five.snapshot.nodes[five.nodes[number]]
                five.cfg.Update(node.Replace(vm_capable=not node.vm_capable))
        if asked[-1] is not None:
            return {"success": False, "info": "not any more", "result": []}
        return Success(pair)

    five.cfg.Update(five.snapshot.nodes[five.nodes[0]].Replace())
    Allocator(five, answer)
    with pytest.raises(errors.OpPrereqError, match=r"chosen 5 times.*node\d.*try again") as caught:
        five.Run(Create())
    assert caught.value.args[1] == errors.ECODE_STATE
    assert len([one for one in asked if one is None]) == 5


# --- opportunistic locking -----------------------------------------------------------------------------------------------


def _Busy(master: Master, number: int, job: int = 950) -> tuple[Held, SideJob]:
    """Somebody works on a node for a while."""
    held = Held(master, number, "test_delay")
    side = SideJob(master, opcodes.OpTestDelay(duration=0, on_nodes=[master[number].name], on_master=False), job)
    held.Begun()
    return held, side


def test_only_free_nodes_are_offered(five: Master) -> None:
    played = Allocator(five)
    held, busy = _Busy(five, 0)
    side = SideJob(five, Create(opportunistic_locking=True))
    assert side.Result() == [five[1].name, five[2].name]
    (message,) = played.asked
    assert message["request"]["restrict-to-nodes"] == [node.name for node in five.all[1:]]
    assert not busy.ended
    held.Go()
    busy.Result()


def _FallsBack(master: Master, times_asked: int) -> None:
    played = Allocator(master, lambda message: {"success": False, "info": "full", "result": []})
    held, busy = _Busy(master, 1)
    side = SideJob(master, Create(opportunistic_locking=True))
    with pytest.raises(errors.LockAcquireTimeout):
        side.Result()
    assert len(played.asked) == times_asked
    assert "* falling back to full lock allocation" in side.callbacks.messages
    assert side.callbacks.events == []
    held.Go()
    busy.Result()


def test_free_nodes_without_room_are_not_the_last_word(three: Master) -> None:
    _FallsBack(three, 1)


def test_two_nodes_must_be_free_for_a_mirror(two: Master) -> None:
    _FallsBack(two, 0)


def test_the_second_try_is_for_all_nodes(five: Master) -> None:
    """The opcode of the job remembers it; then a lack of room is no longer temporary."""
    played = Allocator(five, lambda message: {"success": False, "info": "full", "result": []})
    op = opcodes.OpCode.FromDict(Create(opportunistic_locking=True).ToDict())
    for number, error in ((1, errors.LockAcquireTimeout), (2, errors.OpPrereqError)):
        with pytest.raises(error) as caught:
            mcpu.Processor(five.context, 960 + number).ExecOpCode(op)
    assert caught.value.args[1] == errors.ECODE_NORES
    assert ["restrict-to-nodes" in message["request"] for message in played.asked] == [True, False]
