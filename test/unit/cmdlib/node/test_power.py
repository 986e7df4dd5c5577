"""The power of nodes: out-of-band programs, what is recorded, and restricted commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulated.programs import Invocation
from support.master import Master

from ganeti import constants, errors, objects, opcodes, runtime
from ganeti.utils import oob

PROGRAM = "/usr/local/sbin/oob"
NORMAL, NODATA, UNAVAIL = constants.RS_NORMAL, constants.RS_NODATA, constants.RS_UNAVAIL


class Bmc:
    """The program on every node that may be the master; ``says`` is what it prints for a command, by the node."""

    def __init__(self, master: Master):
        self.master = master
        self.calls: list[tuple[str, str]] = []
        self.times: list[float] = []
        self.says: dict[str, str] = {}
        self.fails: set[str] = set()
        self.acts = True
        for node in master.all:
            node._Install(PROGRAM, self._Run)

    def _Run(self, invocation: Invocation) -> int:
        _, command, name = invocation.argv
        self.calls.append((command, name))
        self.times.append(runtime.Monotonic())
        if name in self.fails:
            invocation.Complain("no route to the BMC")
            return 1
        invocation.Print(self.says.get(name, ""))
        machine = next(node.machine for node in self.master.all if node.name == name)
        if command == oob.POWER_OFF and self.acts:
            machine.PowerOff()
        return 0


def _Node(master: Master, number: int) -> objects.Node:
    return master.snapshot.nodes[master.nodes[number]]


def _Names(master: Master, *numbers: int) -> list[str]:
    return [_Node(master, number).name for number in numbers]


def _Prepare(master: Master) -> None:
    """All nodes but the last one have a program, the first two by their group, which the last one overrides."""
    group = next(iter(master.snapshot.nodegroups.values()))
    master.cfg.Update(group.Replace(ndparams={"oob_program": PROGRAM}))
    last = _Node(master, 3)
    master.cfg.Update(last.Replace(ndparams={"oob_program": ""}))


@pytest.fixture
def four(make: Callable[..., Master]) -> Master:
    """Four nodes, the first three of them candidates, of which the first is the master."""
    return make(4, candidates=3, prepare=_Prepare)


@pytest.fixture
def bmc(four: Master) -> Bmc:
    return Bmc(four)


def _Do(master: Master, command: str, *numbers: int, **values: Any) -> Any:
    return master.Run(opcodes.OpOobCommand(command=command, node_names=_Names(master, *numbers), **values))


def _Said(master: Master) -> str:
    return "\n".join(master.last.messages)


def _Refused(
    master: Master, match: str, ecode: str, command: str, *numbers: int, **values: Any
) -> errors.OpPrereqError:
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Do(master, command, *numbers, **values)
    assert caught.value.args[1] == ecode and master.snapshot is before
    return caught.value


def test_the_program_runs_on_the_master_for_each_node_in_the_order_of_names(four: Master, bmc: Bmc) -> None:
    bmc.says = dict.fromkeys(_Names(four, 0, 1, 2), '{"powered": true}')
    names = _Names(four, 0, 1, 2, 3)
    result = _Do(four, "power-status")
    assert result == [
        *([[NORMAL, name], [NORMAL, {"powered": True}]] for name in names[:3]),
        [[NORMAL, names[3]], [UNAVAIL, None]],
    ]
    assert bmc.calls == [("power-status", name) for name in names[:3]]
    assert "run_oob" in four[0].calls and not any("run_oob" in node.calls for node in four.all[1:])
    bmc.calls.clear()
    assert [entry[0][1] for entry in _Do(four, "power-status", 2, 1, 2)] == [names[1], names[2]]


def test_power_is_recorded(four: Master, bmc: Bmc) -> None:
    bmc.acts = False
    assert _Do(four, "power-off", 1, 2, ignore_status=True)[0] == [[NORMAL, _Node(four, 1).name], [NORMAL, None]]
    assert [_Node(four, number).powered for number in range(4)] == [True, False, False, True]
    _Do(four, "power-on", 2)
    assert [_Node(four, number).powered for number in range(4)] == [True, False, True, True]
    assert _Node(four, 1).name not in _Said(four) and "power-on succeeded" in _Said(four)
    _Do(four, "power-cycle", 1)
    assert _Node(four, 1).powered is False, "a cycle says nothing of the state"


def test_a_node_without_program_keeps_its_record(four: Master, bmc: Bmc) -> None:
    before = four.snapshot
    assert _Do(four, "power-off", 3, ignore_status=True) == [[[NORMAL, _Node(four, 3).name], [UNAVAIL, None]]]
    assert four.snapshot is before and bmc.calls == []


def test_a_failed_program_leaves_the_record_as_it_was(four: Master, bmc: Bmc) -> None:
    name = _Node(four, 1).name
    bmc.fails = {name}
    bmc.acts = False
    result = _Do(four, "power-off", 1, 2, ignore_status=True)
    assert [entry[1][0] for entry in result] == [NODATA, NORMAL]
    assert [_Node(four, number).powered for number in (1, 2)] == [True, False]
    assert f"Out-of-band RPC failed on node '{name}'" in _Said(four) and "no route to the BMC" in _Said(four)
    _Do(four, "power-on", 1)
    assert _Node(four, 1).powered is True
    four.cfg.Update(_Node(four, 1).Replace(powered=False))
    _Do(four, "power-on", 1)
    assert _Node(four, 1).powered is False
    _Do(four, "power-off", 1, ignore_status=True)
    assert _Node(four, 1).powered is False


def test_all_are_recorded_before_the_first_is_off(four: Master, bmc: Bmc) -> None:
    """Without the nodes that go there are too few voters to record anything: the job does what it began."""
    seen: list[list[bool]] = []
    four[0].before = lambda name, args: (
        seen.append([_Node(four, number).powered for number in (1, 2)]) if name == "run_oob" else None
    )
    result = _Do(four, "power-off", 1, 2, ignore_status=True)
    assert [entry[1] for entry in result] == [[NORMAL, None]] * 2
    assert seen == [[False, False]] * 2
    assert not four[1].machine.on and not four[2].machine.on


def test_the_master_is_refused_by_name_and_else_left_out(four: Master, bmc: Bmc) -> None:
    name = _Node(four, 0).name
    for command in ("power-off", "power-cycle"):
        _Refused(
            four, f"not allowed for {command}; run '{PROGRAM} {command} {name}' if", errors.ECODE_INVAL, command, 0, 1
        )
    assert bmc.calls == []
    _Do(four, "power-cycle")
    assert bmc.calls == [("power-cycle", each) for each in _Names(four, 1, 2)]
    assert f"Node {name} is the master, it is left out of power-cycle" in _Said(four)
    four.cfg.Update(_Node(four, 0).Replace(ndparams={"oob_program": ""}))
    _Refused(four, "it does not support out-of-band operations", errors.ECODE_INVAL, "power-cycle", 0)


def test_only_a_node_that_is_marked_offline_is_switched_off(four: Master, bmc: Bmc) -> None:
    four.cfg.Update(_Node(four, 3).Replace(offline=True, ndparams={}))
    error = _Refused(four, "because it is not marked offline", errors.ECODE_STATE, "power-off", 2, 3)
    assert f"'gnt-node modify --offline=yes {_Node(four, 2).name}'" in str(error.hint)
    assert bmc.calls == []
    assert _Do(four, "power-off", 3)[0][1] == [NORMAL, None]
    assert bmc.calls == [("power-off", _Node(four, 3).name)]


def test_a_dead_node_is_switched_on(four: Master, bmc: Bmc) -> None:
    """It cannot confirm this master, and need not."""
    four[2].machine.PowerOff()
    four.cfg.Update(_Node(four, 2).Replace(powered=False))
    _Do(four, "power-on", 2)
    assert _Node(four, 2).powered is True


def test_nodes_are_switched_on_one_after_the_other(four: Master, bmc: Bmc) -> None:
    _Do(four, "power-on", power_delay=7.5)
    assert [later - before for before, later in zip(bmc.times, bmc.times[1:], strict=False)] == pytest.approx(
        [7.5] * 2, abs=1.0
    )
    ended = runtime.Monotonic()
    assert ended - bmc.times[-1] < 5, "after the last one nothing is waited for"


def test_health_reports_what_is_not_well(four: Master, bmc: Bmc) -> None:
    names = _Names(four, 1, 2)
    bmc.says = {names[0]: '[["fan", "OK"], ["disk 3", "CRITICAL"]]', names[1]: '{"fan": "OK"}'}
    result = _Do(four, "health", 1, 2)
    assert [entry[1] for entry in result] == [[NORMAL, [["fan", "OK"], ["disk 3", "CRITICAL"]]], [NODATA, None]]
    assert f"Item 'disk 3' on node '{names[0]}' has status 'CRITICAL'" in _Said(four) and "'fan'" not in _Said(four)
    assert f"Payload returned by node '{names[1]}' is not valid" in _Said(four)
    assert f"run '{PROGRAM} health {names[1]}'" in _Said(four)


def test_a_state_that_differs_from_the_record_is_reported(four: Master, bmc: Bmc) -> None:
    name = _Node(four, 1).name
    bmc.says = {name: '{"powered": false}'}
    _Do(four, "power-status", 1)
    assert f"Node '{name}' is unpowered, but recorded as powered" in _Said(four)
    assert f"'gnt-node power --ignore-status off {name}' makes the record true" in _Said(four), (
        "off alone marks it offline"
    )
    assert _Node(four, 1).powered is True


@pytest.mark.parametrize(
    "values", [{"timeout": 0}, {"timeout": -1}, {"timeout": 900}, {"power_delay": -0.1}, {"power_delay": 1e9}]
)
def test_times_have_limits(four: Master, bmc: Bmc, values: dict[str, Any]) -> None:
    _Refused(four, "possible", errors.ECODE_INVAL, "power-on", 1, **values)
    assert bmc.calls == []


def test_unknown_nodes(four: Master, bmc: Bmc) -> None:
    with pytest.raises(errors.OpPrereqError, match="'node9' not known"):
        four.Run(opcodes.OpOobCommand(command="power-on", node_names=["node9"]))


def test_verify_reports_programs_that_the_next_master_could_not_run(four: Master, bmc: Bmc) -> None:
    four[2].Call(runtime.RemoveFile, PROGRAM)
    four[3].Call(runtime.RemoveFile, PROGRAM)
    four.cfg.Update(_Node(four, 3).Replace(master_capable=False))
    four.Run(opcodes.OpClusterVerifyGroup(group_name="default", verbose=True, error_codes=True))
    found = [text for text in four.last.messages if "ENODEOOBPATH" in text]
    assert len(found) == 1 and f"{_Node(four, 2).name}" in found[0] and f"{PROGRAM}: No such file" in found[0]
    assert "change the node parameter oob_program" in found[0]


# --- restricted commands ------------------------------------------------------------------------------------------------


def test_each_node_answers_for_itself(four: Master) -> None:
    for number, text in ((1, "up 3 days\n"), (3, "")):
        four[number].answers["restricted_command"] = text
    four[2].machine.PowerOff()
    names = _Names(four, 3, 2, 1)
    result = four.Run(opcodes.OpRestrictedCommand(nodes=[*names, names[0]], command="uptime"))
    assert result[0] == [True, ""] and result[2] == [True, "up 3 days\n"] and len(result) == 3
    assert result[1][0] is False and result[1][1].startswith(f"Command 'uptime' on node '{names[1]}' failed: ")
    assert four[1].arguments["restricted_command"] == ("uptime",)


@pytest.mark.parametrize(("use_locking", "mode"), [(False, "shared"), (True, "exclusive")])
def test_a_restricted_command_shares_its_nodes_unless_asked(four: Master, use_locking: bool, mode: str) -> None:
    seen: list[str | None] = []

    def look(name: str, _args: Any) -> None:
        if name == "restricted_command":
            seen.extend(row.mode for row in four.glm.QueryLocks() if row.owner and row.name.startswith("node/"))

    four[1].before = look
    four[1].answers["restricted_command"] = "x"
    four.Run(opcodes.OpRestrictedCommand(nodes=_Names(four, 1), command="x", use_locking=use_locking))
    assert seen == [mode]


def test_a_restricted_command_needs_nodes(four: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="needs the names of nodes"):
        four.Run(opcodes.OpRestrictedCommand(nodes=[], command="x"))
