"""What happens to a mirror while a job works on its other side, or when a program of that job hangs (doc/design-drbd.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, _Empty
from unit.cmdlib.instance.test_served import FIRST, SECOND, SERVED, Served

from ganeti import errors, opcodes, runtime


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Replace(master: Master, mode: str, **values: Any) -> None:
    master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=mode, **values))


def _Once(master: Master, number: int, call: str, act: Callable[[], Any]) -> None:
    """Something happens just before a node's first call of this name."""
    done: list[bool] = []

    def before(name: str, _args: Any) -> None:
        if name == call and not done:
            done.append(True)
            act()

    master[number].before = before


class _Stuck:
    """A node's ``drbdsetup detach`` waits in the kernel, as do later commands for the device; nobody can kill it."""

    def __init__(self, served: Served, number: int, when: Callable[[], None] = lambda: None):
        self._machine = served.mirrors.machines[number]
        self._links = served.mirrors.links
        self.waiting: list[str] = []
        programs = served.master[number].machine.programs
        ordinary = programs["drbdsetup"]
        self._acted = runtime.Event()

        def program(invocation: Any) -> int | None:
            verb = invocation.argv[1]
            if verb == "detach" and not self.waiting and not self._acted.is_set():
                self.waiting.append(invocation.argv[2])
                when()
            if self.waiting and verb != "show":
                invocation.unkillable = True
                self._acted.wait()
                return 0
            status: int | None = ordinary(invocation)
            return status

        programs["drbdsetup"] = program

    def Act(self) -> None:
        """The kernel carries out what it was told."""
        self._machine._DoDetach([self.waiting.pop()], {})
        self._acted.set()
        self._links.Connect()


def test_a_side_does_not_count_again_while_a_program_may_still_take_its_volumes(three: Master) -> None:
    served = Served(three)
    served.FailOver()
    stuck = _Stuck(served, 0)
    with pytest.raises(errors.OpExecError, match="did not end within 20 s"):
        _Replace(three, "replace_on_secondary")
    assert served.Behind() == [FIRST, None]
    with pytest.raises(errors.OpExecError, match="disk/0 keeps the record"):
        served.Settle()
    assert served.Behind() == [FIRST, None] and stuck.waiting
    stuck.Act()
    for machine in served.mirrors.machines[:2]:
        machine.LosePower()
    three[1].Stop()
    served._Mark(offline=True)
    with pytest.raises(errors.OpPrereqError, match="has been behind since"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))


def test_the_record_is_not_turned_while_the_primary_s_volumes_may_still_be_taken(three: Master) -> None:
    """The link is lost while the detach waits: the frozen side could go on, but is about to have no data."""
    served = Served(three)
    stuck = _Stuck(served, 0, when=served.mirrors.links.Cut)
    with pytest.raises(errors.OpExecError):
        _Replace(three, "replace_on_primary", disks=[0])
    assert served.Behind() == [FIRST, None]
    with pytest.raises(errors.OpExecError, match=r"cannot let the mirrors .* continue"):
        served.Settle()
    assert served.Behind() == [FIRST, None], "nothing is recorded that the node may not carry out"
    served.mirrors.links.Heal()
    stuck.Act()
    assert served.mirrors.States()[0][0] == SERVED
    served.FailOver()


@pytest.mark.parametrize(("mode", "number"), [("replace_on_secondary", 1), ("replace_new_secondary", 2)])
def test_the_copy_that_serves_the_guest_is_not_replaced(three: Master, mode: str, number: int) -> None:
    """The primary's disk fails while the new volumes are made: all that is written is on the side that was to go."""
    served = Served(three)
    _Once(three, number, "blockdev_create", lambda: served.FailDisks(0))
    with pytest.raises(errors.OpExecError, match=r"other copy of disk/0 .* is not given up: on node node1") as caught:
        _Replace(three, mode, remote_node="node3" if number == 2 else None)
    assert f"'gnt-instance replace-disks --auto {WEB}'" in str(caught.value.hint)
    assert served.Behind() == [None, None] and served.mirrors.States()[0] == [SERVED] * 2
    assert served.mirrors.Volumes() == [4, 4, 0], "what was made is removed"
    served.Settle()
    _Replace(three, "replace_auto")
    assert served.mirrors.States()[0] == [PRIMARY] * 2


@pytest.mark.parametrize("where", [0, 1])
def test_a_copy_that_was_filled_again_is_not_given_up_beside_a_primary_without_its_disk(
    three: Master, where: int
) -> None:
    """The other node's copy is recorded as behind still, and is the only one by the time that it is to be let go of."""
    served = Served(three)
    served.mirrors.links.Cut()
    served.Settle()
    served.mirrors.links.Heal()
    assert served.Behind() == [SECOND] * 2 and served.mirrors.States()[1] == [SECONDARY] * 2
    failing = list(served.mirrors.machines[0].devices)[where]
    _Once(three, 1, "blockdev_create", lambda: served.mirrors.machines[0].Detach(failing))
    with pytest.raises(errors.OpExecError, match=rf"other copy of disk/{where} .* is not given up: on node node1"):
        _Replace(three, "replace_on_secondary", disks=[where])
    assert served.mirrors.States()[0][where] == SERVED and served.mirrors.States()[1] == [SECONDARY] * 2


def test_the_copy_that_serves_the_guest_stays_until_the_last_new_mirror_is_made(three: Master) -> None:
    """The primary's disk fails during the very last of what is made on the new node."""
    served = Served(three)
    made: list[str] = []

    def before(name: str, args: Any) -> None:
        if name == "blockdev_create" and args[0]["dev_type"] == "drbd":
            made.append(args[0]["iv_name"])
            if made == ["disk/0", "disk/1"]:
                served.FailDisks(0)

    three[2].before = before
    with pytest.raises(errors.OpExecError, match=r"other copy of disk/0 .* is not given up: on node node1"):
        _Replace(three, "replace_new_secondary", remote_node="node3")
    assert served.mirrors.States() == [[SERVED] * 2, [SECONDARY] * 2, []] and served.mirrors.Volumes() == [4, 4, 0]


def test_a_volume_group_is_not_repaired_below_the_copy_that_serves_the_guest(three: Master) -> None:
    """The primary's disk fails after it was found good: what is left of the other node's group is all there is."""
    served = Served(three)
    lost = next(pv for pv in three[1].lvm.pvs.values() if pv.free < pv.size)
    lost.missing = True
    _Once(three, 1, "blockdev_find", lambda: served.FailDisks(0))
    with pytest.raises(errors.OpExecError, match=r"other copy of disk/0 .* is not given up: on node node1"):
        three.Run(opcodes.OpRepairNodeStorage(node_name="node2", storage_type="lvm-vg", name="xenvg"))
    assert served.Behind() == [None, None] and lost.name in three[1].lvm.pvs
    assert served.mirrors.States()[:2] == [[SERVED] * 2, [SECONDARY] * 2]


def test_a_side_that_was_filled_again_is_given_up_only_beside_one_that_answers(three: Master) -> None:
    served = Served(three)
    served.FillAgain()
    _Once(three, 0, "blockdev_create", three[1].Stop)
    with pytest.raises(errors.OpExecError, match=r"is not given up: node node2\S* does not answer"):
        _Replace(three, "replace_on_primary")
    assert served.mirrors.States()[0] == [PRIMARY] * 2


def test_while_one_disk_needs_the_other_node_no_side_there_is_given_up(three: Master) -> None:
    served = Served(three)
    served.FailFirstDisk()
    served.mirrors.links.Cut()
    with pytest.raises(errors.OpExecError, match="disk/0 stays frozen; disk/1 stays frozen"):
        served.Settle()
    assert any("disk/1 stays frozen" in text and "needs node2" in text for text in three.last.messages)
    assert served.Behind() == [FIRST, None]
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    assert WEB in three[1].guests


def test_nothing_is_replaced_while_the_side_that_stays_says_nothing(three: Master) -> None:
    served = Served(three)
    for device in served.mirrors.machines[1].devices.values():
        device.role = "Primary"
    served.mirrors.links.Publish()
    three[0].faults["drbd_views"] = "busy"
    with pytest.raises(errors.OpExecError, match=r"node node1\S* does not report its side"):
        _Replace(three, "replace_new_secondary", remote_node="node3")
    del three[0].faults["drbd_views"]
    with pytest.raises(errors.OpExecError, match=r"is open on node node2\S*, which is not the primary one"):
        _Replace(three, "replace_new_secondary", remote_node="node3")


# --- what a record lets a fail-over do --------------------------------------------------------------------------------------


def test_a_record_counts_only_while_the_side_it_names_is_known_not_to_have_gone_on(three: Master) -> None:
    served = Served(three)
    served.FillAgain()
    served.mirrors.links.Cut()
    three[0].faults["drbd_views"] = "busy"
    with pytest.raises(errors.OpExecError, match="degraded"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert WEB in three[0].guests
    three[0].faults.clear()
    with pytest.raises(errors.OpExecError, match="degraded"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))


def test_a_side_that_is_closed_has_not_gone_on(three: Master) -> None:
    served = Served(three)
    served.FillAgain()
    served.mirrors.links.Cut()
    three[0].KillGuest(WEB)
    for device in served.mirrors.machines[0].devices.values():
        device.role, device.frozen = "Secondary", False
    served.mirrors.links.Publish()
    served.FailOver()


def test_an_outdated_copy_that_is_not_set_up_is_not_used_because_the_other_node_is_offline(three: Master) -> None:
    served = Served(three)
    served.FailOver()
    for machine in served.mirrors.machines[:2]:
        machine.LosePower()
    for _, meta in served.mirrors.machines[0]._metas.values():
        meta.state = "Outdated"
    three[1].guests.clear()
    three[1].Stop()
    served._Mark(offline=True)
    with pytest.raises(errors.OpExecError, match="is Outdated on target node node1"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    assert WEB in three[0].guests


@pytest.mark.parametrize(
    ("number", "field"), [(0, "connected"), (0, "peer_uptodate"), (1, "connected"), (1, "local_uptodate")]
)
def test_each_of_two_nodes_must_say_that_the_primary_s_side_can_be_spared(
    three: Master, number: int, field: str
) -> None:
    served = Served(three)
    node = three.nodes[number]
    disks, instance = three.snapshot.InstanceDisks(three.Instance(WEB)), three.Instance(WEB)
    view = three.rpc.call_drbd_views([node], {node: [(disks, instance)]})[node].payload
    _Once(
        three, 0, "blockdev_create",
        lambda: three[number].answers.update(drbd_views={uuid: {**state, field: False} for uuid, state in view.items()}),
    )  # fmt: skip
    with pytest.raises(errors.OpExecError, match=rf"is not given up: on node node{number + 1}"):
        _Replace(three, "replace_on_primary")
    assert served.Behind() == [None, None]
