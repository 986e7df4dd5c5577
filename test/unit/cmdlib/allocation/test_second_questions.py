"""Placements that ask again: because nodes are busy, or because something changed before they were locked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Played, Success
from support.master import Master
from support.placing import NEW, Allocator, Create, First, Nodes, Prepare
from support.sidejobs import Held, Holders, SideJob, Until

from ganeti import errors, objects, opcodes

WEB = "web.example.org"
OTHER = "0000aaaa-0000-4000-8000-00000000000b"


@pytest.fixture
def five(make: Callable[..., Master]) -> Master:
    """The example's instance is on the first two of five nodes."""
    return make(5, prepare=Prepare, lvm=True)


@pytest.fixture
def reserve(make: Callable[..., Master]) -> Master:
    """Four nodes; the last two are a group of last resort."""

    def divide(root: objects.Snapshot) -> objects.Snapshot:
        (first,) = root.nodegroups.values()
        last = first.Replace(uuid=OTHER, name="reserve", alloc_policy="last_resort")
        nodes = list(root.nodes.values())
        moved = [*nodes[:2], *(node.Replace(group=OTHER) for node in nodes[2:])]
        return root.Replace(
            nodegroups={group.uuid: group for group in (first, last)}, nodes={node.uuid: node for node in moved}
        )

    return make(4, change=divide, prepare=Prepare, lvm=True)


def _Busy(master: Master, number: int, job: int = 950) -> tuple[Held, SideJob]:
    """Somebody works on a node for a while."""
    held = Held(master, number, "test_delay")
    side = SideJob(master, opcodes.OpTestDelay(duration=0, on_nodes=[master[number].name], on_master=False), job)
    held.Begun()
    return held, side


def _Restrictions(played: Played) -> list[Any]:
    return [message["request"].get("restrict-to-nodes") for message in played.asked]


def _AwaitWaiter(master: Master, number: int) -> None:
    name = f"node/{master.nodes[number]}"
    Until(lambda: any(row.pending for row in master.glm.QueryLocks() if row.name == name))


# --- the first choice is busy --------------------------------------------------------------------------------------------


def test_a_short_job_does_not_send_an_instance_to_the_last_resort(reserve: Master) -> None:
    held, busy = _Busy(reserve, 1)
    job = SideJob(reserve, Create(iallocator="hail"), 901)
    _AwaitWaiter(reserve, 1)
    held.Go()
    busy.Result()
    assert set(job.Result()) == {reserve[0].name, reserve[1].name}


def test_free_nodes_of_other_groups_are_not_offered(reserve: Master) -> None:
    played = Allocator(reserve)
    held, busy = _Busy(reserve, 0)
    job = SideJob(reserve, Create(disk_template="plain"), 901)
    assert job.Result() == [reserve[1].name]
    assert _Restrictions(played) == [None, [reserve[1].name]]
    held.Go()
    busy.Result()


def test_free_nodes_are_looked_for_in_the_group_of_the_first_choice(five: Master) -> None:
    played = Allocator(five)
    held, busy = _Busy(five, 1)
    job = SideJob(five, Create(), 901)
    assert job.Result() == [five[0].name, five[2].name]
    assert _Restrictions(played) == [None, [node.name for node in (five[0], *five.all[2:])]]
    assert [message["request"].get("group_name") for message in played.asked] == [None, "default"]
    said = (
        f" - INFO: The first choice was {five[0].name}, {five[1].name}; other jobs are at work on {five[1].name},"
        " so free nodes are used instead"
    )
    assert job.callbacks.messages.count(said) == 1
    held.Go()
    busy.Result()


@pytest.mark.parametrize("again", ["the same", "rubbish"])
def test_an_allocator_that_cannot_answer_again_keeps_its_first_choice(five: Master, again: str) -> None:
    """Programs written for 2.x do not know ``restrict-to-nodes``."""

    def answer(message: dict[str, Any]) -> Any:
        if "restrict-to-nodes" in message["request"] and again == "rubbish":
            return again
        return Success([five[0].name, five[1].name])

    played = Allocator(five, answer)
    held, busy = _Busy(five, 1)
    job = SideJob(five, Create(), 901)
    _AwaitWaiter(five, 1)
    held.Go()
    busy.Result()
    assert job.Result() == [five[0].name, five[1].name] and len(played.asked) == 2
    assert not any("free nodes are used" in text for text in job.callbacks.messages)


def _Answer(master: Master, *numbers: int) -> Callable[[dict[str, Any]], Any]:
    return lambda message: Success([master[number].name for number in numbers])


def test_disks_being_filled_make_a_node_busy(five: Master) -> None:
    """A creation that waits for its mirror holds no lock of the nodes as such, but of their resources."""
    Allocator(five)
    held = Held(five, 0, "blockdev_getmirrorstatus")
    first = SideJob(five, Create("one.example.org"))
    held.Begun()
    assert Holders(five, "node") == {} and set(Holders(five, "node-res")) == {five.nodes[0], five.nodes[1]}
    second = SideJob(five, Create("two.example.org"), 901)
    assert second.Result() == [five[2].name, five[3].name]
    held.Go()
    first.Result()


def test_what_is_missing_is_said_when_too_few_nodes_are_free(five: Master) -> None:
    Allocator(five)
    works = [_Busy(five, number, 950 + number) for number in range(1, 5)]
    with pytest.raises(errors.LockAcquireTimeout) as caught:
        SideJob(five, Create(opportunistic_locking=True)).Result()
    assert f"it needs 2, and other jobs are at work on all nodes but {five[0].name}" in str(caught.value.__cause__)
    for held, job in works:
        held.Go()
        job.Result()


# --- what changes before the nodes are locked ----------------------------------------------------------------------------


def _Node(**values: Any) -> Callable[[Master], None]:
    """Change the second node."""
    return lambda master: master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(**values))


def _Instance(**values: Any) -> Callable[[Master], None]:
    """Change the instance whose secondary node is the second one."""
    return lambda master: master.cfg.Update(master.Instance(WEB).Replace(**values))


def _Be(**values: Any) -> Callable[[Master], None]:
    return lambda master: _Instance(beparams={**master.Instance(WEB).beparams, **values})(master)


def _Disk(**values: Any) -> Callable[[Master], None]:
    def change(master: Master) -> None:
        disk = master.snapshot.InstanceDisks(master.Instance(WEB))[0]
        master.cfg.Update(disk.Replace(**values))

    return change


def _OtherGroup(master: Master) -> str:
    (old,) = master.snapshot.nodegroups.values()
    return master.cfg.AddNodeGroup(old.Replace(name="other", uuid=OTHER)).uuid


_CHANGES: dict[str, Callable[[Master], None]] = {
    "offline": _Node(offline=True, master_candidate=False),
    "drained": _Node(drained=True, master_candidate=False),
    "vm capable": _Node(vm_capable=False),
    "parameters of the node": _Node(ndparams={"spindle_count": 7}),
    "state of the hypervisor": _Node(hv_state_static={"fake": {"mem_node": 512}}),
    "state of the disks": _Node(disk_state_static={"plain": {"xenvg": {"disk_overhead": 64}}}),
    "tags of the node": _Node(tags=("rack:2",)),
    "memory": _Be(maxmem=640),
    "vcpus": _Be(vcpus=3),
    "spindle use": _Be(spindle_use=4),
    "admin state": _Instance(admin_state="down"),
    "tags of the instance": _Instance(tags=("service:dns",)),
    "size of a disk": _Disk(size=4096),
    "spindles of a disk": _Disk(spindles=2),
    "the other node": lambda master: _Instance(primary_node=master.nodes[4])(master),
}


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_what_a_choice_depends_on_is_looked_at_again(five: Master, change: Callable[[Master], None]) -> None:
    """The allocator chooses nodes 2 and 3, and the change comes before they are locked."""
    found = _AskedWhile(five, change)
    assert found == [None, [five[1].name, five[2].name], None]
    assert five.snapshot.InstanceByName(NEW) is None


def test_what_a_choice_does_not_depend_on_is_no_reason_to_ask_again(five: Master) -> None:
    def change(master: Master) -> None:
        _CHANGES["tags of the node"](master)
        _Node(tags=())(master)
        master.cfg.Update(master.snapshot.nodes[master.nodes[4]].Replace(drained=True, master_candidate=False))

    before = five.snapshot.nodes[five.nodes[1]].serial_no
    assert _AskedWhile(five, change) == [None] and Nodes(five) == ("2", "3")
    assert five.snapshot.nodes[five.nodes[1]].serial_no > before


def _AskedWhile(master: Master, change: Callable[[Master], None]) -> list[Any]:
    """Return what each question was restricted to; the allocator answers only the first one."""

    def answer(message: dict[str, Any]) -> Any:
        if len(played.asked) > 1:
            return {"success": False, "info": "not any more", "result": []}
        with master.Elsewhere():
            change(master)
        return Success([master[1].name, master[2].name])

    played = Allocator(master, answer)
    try:
        master.Run(Create())
    except errors.OpPrereqError as err:
        assert "not any more" in err.args[0]
    return _Restrictions(played)


def test_a_chosen_node_that_moves_to_another_group_is_looked_at_again(five: Master) -> None:
    group = _OtherGroup(five)
    played = Allocator(five, lambda message: _Answer(five, *((1, 2) if len(played.asked) < 4 else (3, 4)))(message))
    held, busy = _Busy(five, 1)
    job = SideJob(five, Create(), 901)
    _AwaitWaiter(five, 1)
    five.cfg.AssignGroupNodes([(five.nodes[1], group)])
    held.Go()
    busy.Result()
    # For free nodes, for those that are locked (they are of two groups by then), and anew.
    assert job.Result() == [five[3].name, five[4].name] and len(played.asked) == 4


@pytest.mark.parametrize("second", ["ignores", "rubbish"])
def test_a_second_look_that_fails_leads_to_a_new_choice(five: Master, second: str) -> None:
    """The allocator ignores ``restrict-to-nodes``, or cannot answer with it."""

    def answer(message: dict[str, Any]) -> Any:
        if len(played.asked) == 1:
            with five.Elsewhere():
                _CHANGES["drained"](five)
            return Success([five[0].name, five[1].name])
        if second == "rubbish" and "restrict-to-nodes" in message["request"]:
            return second
        return Success([five[0].name, five[2].name])

    played = Allocator(five, answer)
    assert five.Run(Create()) == [five[0].name, five[2].name]
    assert _Restrictions(played) == [None, [five[0].name, five[1].name], None]


def test_the_allocation_lock_is_released_when_a_second_choice_is_locked(five: Master) -> None:
    def answer(message: dict[str, Any]) -> Any:
        result = First(message)
        if len(played.asked) == 1:
            with five.Elsewhere():
                _CHANGES["drained"](five)
        return result

    played = Allocator(five, answer)
    held = Held(five, 2, "blockdev_create")
    job = SideJob(five, Create())
    held.Begun()
    assert len(played.asked) == 3 and Holders(five, "node-alloc") == {}
    assert set(Holders(five, "node")) == {five.nodes[0], five.nodes[2]}
    held.Go()
    job.Result()


def test_a_node_that_is_not_locked_is_not_used(five: Master) -> None:
    """Asked again, the allocator names another new secondary node."""
    answers = [3, 2, 2]

    def answer(message: dict[str, Any]) -> Any:
        if len(answers) == 3:
            with five.Elsewhere():
                five.cfg.Update(five.snapshot.nodes[five.nodes[3]].Replace(tags=("rack:2",)))
        return Success([five[answers.pop(0)].name])

    Allocator(five, answer)
    held = Held(five, 2, "blockdev_create")
    op = opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", iallocator="first")
    job = SideJob(five, op)
    held.Begun()
    wanted = {five.nodes[number] for number in (0, 1, 2)}
    # The resources of the nodes where the instance is are locked as well.
    assert set(Holders(five, "node")) == wanted and set(Holders(five, "node-res")) == wanted
    assert answers == []
    held.Go()
    job.Result()
    assert Nodes(five, WEB) == ("1", "3")


def test_named_nodes_that_move_to_another_group_before_they_are_locked(five: Master) -> None:
    group = _OtherGroup(five)
    held, busy = _Busy(five, 3)
    job = SideJob(five, Create(iallocator=None, pnode="node4", snode="node5"), 901)
    _AwaitWaiter(five, 3)
    five.cfg.AssignGroupNodes([(five.nodes[number], group) for number in (3, 4)])
    held.Go()
    busy.Result()
    with pytest.raises(errors.OpPrereqError, match=r"moved to other node groups.*try again") as caught:
        job.Result()
    assert caught.value.args[1] == errors.ECODE_STATE and five.snapshot.InstanceByName(NEW) is None


# --- what no group allows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"beparams": {"memory": 64}}, r"memory-size value 64 is not in range \[128, "),
        ({"beparams": {"vcpus": 64}}, r"cpu-count value 64 is not in range \[1, "),
        ({"disks": [{"size": 2**40}]}, r"disk-size/0 value 1099511627776 is not in range \[1024, "),
        ({"disk_template": "sharedfile"}, "sharedfile"),
    ],
)
def test_an_instance_that_no_policy_allows_is_refused_before_anybody_is_asked(
    reserve: Master, values: dict[str, Any], words: str
) -> None:
    played = Allocator(reserve)
    with pytest.raises(errors.OpPrereqError, match=words) as caught:
        reserve.Run(Create(**values))
    assert caught.value.args[1] in (errors.ECODE_INVAL, errors.ECODE_STATE) and played.asked == []


def test_which_groups_refuse_an_instance(reserve: Master) -> None:
    played = Allocator(reserve, _Answer(reserve, 2, 3))
    policy = reserve.snapshot.cluster.ipolicy
    ((pair,), group) = policy["minmax"], reserve.snapshot.nodegroups[OTHER]
    small = {"minmax": [{**pair, "max": {**pair["max"], "memory-size": 4096}}]}
    reserve.cfg.Update(group.Replace(ipolicy=small))
    with pytest.raises(errors.OpPrereqError) as caught:
        reserve.Run(Create(beparams={"memory": 2**20}))
    most = pair["max"]["memory-size"]
    assert f"node group default: memory-size value 1048576 is not in range [128, {most}]" in caught.value.args[0]
    assert "node group reserve: memory-size value 1048576 is not in range [128, 4096]" in caught.value.args[0]
    assert played.asked == []
    # One that may have it is enough, and whoever ignores policies is not stopped.
    with pytest.raises(
        errors.OpPrereqError, match=r"violates the policy of node group reserve: memory-size value 8192"
    ):
        reserve.Run(Create(beparams={"memory": 8192}))
    reserve.Run(Create(beparams={"memory": 2**20}, ignore_ipolicy=True, start=False))
    assert len(played.asked) == 2
