"""What allocators may not answer, kind by kind."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs

from ganeti import constants, errors, objects, opcodes
from ganeti.cmdlib.allocation import answers, requests
from ganeti.cmdlib.allocation.answers import Response
from ganeti.cmdlib.allocation.clusterdata import ClusterData

_OTHER_GROUP = configs.Uuid(900)
N1, N2, N3, N4, OFF, DRAINED, INCAPABLE, SILENT, FOREIGN = (
    f"{name}.example.org" for name in ("n1", "n2", "n3", "n4", "off", "drained", "incapable", "silent", "foreign")
)


def _Node(base: objects.Node, number: int, name: str, **changes: Any) -> objects.Node:
    return base.Replace(name=name, uuid=configs.Uuid(number), master_candidate=False, **changes)


def _Cluster() -> ClusterData:
    """web1 mirrored on n1 and n2; single plain on n1; ext1 on storage that all nodes reach, on n1."""
    root = configs.Example()
    base, group = root.nodes[configs.NODE1], root.nodegroups[configs.GROUP]
    nodes = [
        *[_Node(base, number, name) for number, name in enumerate((N1, N2, N3, N4), 1)],
        _Node(base, 5, OFF, offline=True),
        _Node(base, 6, DRAINED, drained=True),
        _Node(base, 7, INCAPABLE, vm_capable=False),
        _Node(base, 8, SILENT),
        _Node(base, 9, FOREIGN, group=_OTHER_GROUP),
    ]
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    guests, disks = [], []
    kinds = (("web1", "drbd", [1, 2]), ("single", "plain", [1]), ("ext1", "ext", []))
    for number, (name, template, places) in enumerate(kinds, 20):
        uuids = [configs.Uuid(place) for place in places]
        disks.append(disk.Replace(uuid=configs.Uuid(100 + number), dev_type=template, nodes=uuids, children=[]))
        guests.append(
            web.Replace(uuid=configs.Uuid(number), name=name, primary_node=configs.Uuid(1), disks=[disks[-1].uuid])
        )
    snapshot = root.Replace(
        nodes={node.uuid: node for node in nodes},
        nodegroups={group.uuid: group, _OTHER_GROUP: group.Replace(uuid=_OTHER_GROUP, name="elsewhere")},
        instances={inst.uuid: inst for inst in guests},
        disks={disk.uuid: disk for disk in disks},
    )
    return ClusterData(snapshot, {}, {configs.Uuid(8): "asleep"})


DATA = _Cluster()
DRBD = requests.Allocate("new", "drbd", disks=({"size": 1},))
PLAIN = requests.Allocate("new", "plain", disks=({"size": 1},))
RELOCATE = requests.Relocate("web1", (N2,))
MULTI = requests.MultiAllocate((DRBD, requests.Allocate("other", "plain")))
EVACUATE = requests.NodeEvacuate(("web1", "ext1"), requests.ALL)
MIGRATE = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web1"}
_STAY = [["web1", "g", [N1, N2]], ["ext1", "g", [N1]]]


def _Check(request: requests.Request, result: Any) -> Any:
    return answers.Check("mine", DATA, request, Response(True, "fine", result))


def _Uuids(*numbers: int) -> list[str]:
    return [configs.Uuid(number) for number in numbers]


@pytest.mark.req("IAL-31", "IAL-32")
def test_good_answers_become_uuids() -> None:
    assert _Check(DRBD, [N3, N1]) == _Uuids(3, 1)
    assert _Check(PLAIN, [FOREIGN]) == _Uuids(9)
    assert _Check(RELOCATE, [N3]) == _Uuids(3)
    assert _Check(requests.Relocate("ext1", (N1,)), [N2]) == _Uuids(2)
    assert _Check(requests.AllocateSecondary("single"), N4) == _Uuids(4)
    placed = _Check(MULTI, [[["new", [N2, N1]]], [["other", "no room"]]])
    assert placed == requests.Allocated([("new", _Uuids(2, 1))], ["other"])
    assert _Check(MULTI, [[["new", [N2, N1]]], ["other"]]) == placed
    moved = _Check(EVACUATE, [[["web1", "default", [N2, N1]]], [["ext1", "no place"]], [[MIGRATE]]])
    group = DATA.snapshot.nodes[configs.Uuid(2)].group
    assert (moved.moved, moved.failed) == ([("web1", group, _Uuids(2, 1))], [("ext1", "no place")])
    assert [[type(op).__name__ for op in job] for job in moved.jobs] == [["OpInstanceMigrate"]]


_BAD_NODES = [
    ("unknown.example.org", "which is not in the cluster"),
    (OFF, "which is offline"),
    (SILENT, "does not answer"),
    (DRAINED, "which is drained"),
    (INCAPABLE, "cannot run instances"),
]


@pytest.mark.parametrize(("node", "words"), _BAD_NODES)
@pytest.mark.parametrize(
    ("request_", "result"),
    [
        (DRBD, lambda node: [N1, node]),
        (RELOCATE, lambda node: [node]),
        (requests.AllocateSecondary("single"), lambda node: node),
        (MULTI, lambda node: [[["new", [N1, N2]], ["other", [node]]], []]),
        (EVACUATE, lambda node: [_STAY, [], [[{**MIGRATE, "target_node": node}]]]),
    ],
)
def test_nodes_that_take_nothing(request_: requests.Request, result: Any, node: str, words: str) -> None:
    with pytest.raises(errors.OpExecError, match=re.escape("iallocator 'mine' chose node")) as caught:
        _Check(request_, result(node))
    assert words in str(caught.value)


_WRONG: list[tuple[str, requests.Request, Any, str]] = [
    ("too few nodes", DRBD, [N1], "returned invalid number of nodes (1), required 2"),
    ("too many nodes", PLAIN, [N1, N2], "returned invalid number of nodes (2), required 1"),
    ("no nodes", RELOCATE, [], "returned invalid number of nodes (0), required 1"),
    ("a node twice", DRBD, [N1, N1], "named a node more than once"),
    ("nodes of two groups", DRBD, [N1, FOREIGN], "nodes of several node groups"),
    (
        "a group not asked for",
        requests.Allocate("new", "plain", group_uuid=_OTHER_GROUP),
        [N1],
        "not in node group elsewhere",
    ),
    (
        "a node not offered",
        requests.Allocate("new", "plain", whitelist=(N2,)),
        [N1],
        "not among those that were offered",
    ),
    ("a text for a list", DRBD, N1, "returned an invalid result, expected list[str+]"),
    ("a list for a text", requests.AllocateSecondary("single"), [N1], "returned an invalid result, expected str+"),
    ("nothing", DRBD, None, "returned an invalid result"),
    ("numbers", DRBD, [1, 2], "returned an invalid result"),
    ("another type", DRBD, [[], [], []], "returned an invalid result"),
    ("the present primary", RELOCATE, [N1], "which is already there"),
    ("the node it leaves", RELOCATE, [N2], "which is already there"),
    ("another group", RELOCATE, [FOREIGN], "other node groups (default, elsewhere) than before (default)"),
    ("another group, all reach", requests.Relocate("ext1", (N1,)), [FOREIGN], "other node groups (elsewhere)"),
    ("its own primary", requests.AllocateSecondary("single"), N1, "which is the primary node of single"),
    ("a secondary far away", requests.AllocateSecondary("single"), FOREIGN, "not in node group default"),
    ("one of two forgotten", MULTI, [[["new", [N1, N2]]], []], "was asked about"),
    ("a third instance", MULTI, [[["new", [N1, N2]], ["other", [N1]], ["third", [N1]]], []], "was asked about"),
    ("placed and failed", MULTI, [[["new", [N1, N2]], ["other", [N1]]], ["new"]], "was asked about"),
    (
        "a node offered to nobody",
        requests.MultiAllocate(MULTI.instances, whitelist=(N1, N2)),
        [[["new", [N1, N2]], ["other", [N3]]], []],
        "not among those that were offered",
    ),
    (
        "a node offered to another one",
        requests.MultiAllocate((DRBD, requests.Allocate("other", "plain", whitelist=(N2,)))),
        [[["new", [N1, N3]], ["other", [N1]]], []],
        "not among those that were offered",
    ),
    ("more than the limit", requests.Capacity(PLAIN, 1), [[N1], [N1]], "placed 2 instances, at most 1 were asked for"),
    (
        "room on a node not offered",
        requests.Capacity(requests.Allocate("new", "plain", whitelist=(N2,)), 3),
        [[N2], [N1]],
        "not among those that were offered",
    ),
    (
        "more moves than wanted",
        requests.Balance(1),
        [[_STAY[1]], [], [[{**MIGRATE, "instance_name": "ext1"}]] * 2],
        "returned 2 moves, at most 1 were asked for",
    ),
    ("moves of a stranger", requests.Balance(1), [[["x", "g", [N1]]], [], []], "moved instances that do not exist"),
    ("too few for one", MULTI, [[["new", [N1]], ["other", [N1]]], []], "invalid number of nodes (1), required 2"),
    ("nodes for evacuation", EVACUATE, [N1, N2], "returned an invalid result"),
    ("a foreign instance", EVACUATE, [[*_STAY, ["single", "g", [N1]]], [], []], "not named: single"),
    ("an instance forgotten", EVACUATE, [[_STAY[0]], [], []], "said nothing about instances ext1"),
    ("an instance twice", EVACUATE, [[*_STAY, _STAY[0]], [], []], "more than once about the same instance: "),
    ("moved to nowhere", EVACUATE, [[["web1", "g", []], _STAY[1]], [], []], "named no node for instance web1"),
    ("moved to a stranger", EVACUATE, [[["web1", "g", ["x"]], _STAY[1]], [], []], "not in the cluster"),
    (
        "a primary left where it is",
        requests.NodeEvacuate(("web1",), requests.PRIMARY_ONLY),
        [[_STAY[0]], [], []],
        f"left instance web1 on node {N1}, which it was asked to empty",
    ),
    (
        "a mirror left where it is",
        requests.NodeEvacuate(("web1",), requests.SECONDARY_ONLY),
        [[["web1", "g", [N3, N2]]], [], []],
        f"left instance web1 on node {N2}, which it was asked to empty",
    ),
    (
        "moved to another group",
        EVACUATE,
        [_STAY, [], [[{**MIGRATE, "instance_name": "ext1", "target_node": FOREIGN}]]],
        f"chose node {FOREIGN} for instance ext1, which is in a node group that is not allowed",
    ),
    (
        "moved to a third group",
        requests.ChangeGroup(("ext1",), (configs.GROUP,)),
        [[_STAY[1]], [], [[{**MIGRATE, "instance_name": "ext1", "target_node": FOREIGN}]]],
        "which is in a node group that is not allowed",
    ),
    (
        "another opcode",
        EVACUATE,
        [_STAY, [], [[{"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "web1"}]]],
        "OP_INSTANCE_REMOVE",
    ),
    ("no opcode", EVACUATE, [_STAY, [], [[{}]]], "returned opcode None"),
    ("a job without opcodes", EVACUATE, [_STAY, [], [[MIGRATE], []]], "returned a job without opcodes"),
    *[
        (
            f"an opcode with {key}",
            EVACUATE,
            [_STAY, [], [[{**MIGRATE, "OP_ID": f"OP_INSTANCE_{kind}", **more, key: value}]]],
            f"for instance web1 with '{key}', which an allocator may not set",
        )
        for kind, more, key, value in (
            ("MIGRATE", {}, "depends", [[7, ["success"]]]),
            ("MIGRATE", {}, "iallocator", "other"),
            ("FAILOVER", {}, "instance_uuid", configs.Uuid(21)),
            ("FAILOVER", {"target_node": N2}, "target_node_uuid", configs.Uuid(6)),
            ("MIGRATE", {}, "cleanup", True),
            ("MIGRATE", {}, "dry_run", True),
            ("FAILOVER", {}, "ignore_consistency", True),
            ("MIGRATE", {}, "if_match", f"{configs.Uuid(20)}-1"),
            (
                "REPLACE_DISKS",
                {"mode": "replace_new_secondary", "remote_node": N3},
                "remote_node_uuid",
                configs.Uuid(6),
            ),
            ("REPLACE_DISKS", {"mode": "replace_auto"}, "if_primary", N1),
        )
    ],
    ("a wrong parameter", EVACUATE, [_STAY, [], [[{**MIGRATE, "live": []}]]], "an opcode that cannot be used"),
    ("an opcode elsewhere", EVACUATE, [_STAY, [], [[{**MIGRATE, "instance_name": "single"}]]], "which was not named"),
]


@pytest.mark.parametrize(("request_", "result", "words"), [row[1:] for row in _WRONG], ids=[row[0] for row in _WRONG])
def test_answers_that_are_refused(request_: requests.Request, result: Any, words: str) -> None:
    with pytest.raises(errors.OpExecError, match=re.escape(words)):
        _Check(request_, result)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("Segmentation fault", "it printed 'Segmentation fault'"),
        ("[1, 2]", "not an object: [1, 2]"),
        ('{"success": true, "info": ""}', "missing key 'result'"),
        ('{"info": "", "result": []}', "missing key 'success'"),
        ('{"success": true, "result": []}', "missing key 'info'"),
        ('{"success": 1, "info": "", "result": []}', "'success' must be true or false, not 1"),
        ('{"success": true, "info": ["a"], "result": []}', "'info' must be a text"),
        ("[" * 100000, "nested too deeply"),
        ('{"success": true, "info": "\\udc80", "result": []}', "half a character"),
        (f'{{"success": true, "info": "{"x" * 11_000_000}", "result": []}}', "over the limit"),
        (f'{{"success": true, "info": "", "result": [{"[]," * 3_000_000}[]]}}', "memory"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
@pytest.mark.req("IAL-11", "IAL-29")
def test_output_that_is_no_response(text: str, words: str) -> None:
    with pytest.raises(errors.OpExecError, match="Can't parse the results of iallocator 'mine': ") as caught:
        answers.Parse("mine", text)
    assert words in str(caught.value) and len(str(caught.value)) < 1000


def test_megabytes_of_reasons_do_not_reach_the_job() -> None:
    text = json.dumps({"success": False, "info": "x" * 9_000_000, "result": []})
    assert len(answers.Parse("mine", text).info) == answers.MAX_INFO
    moved = _Check(EVACUATE, [[_STAY[0]], [["ext1", "x" * 1_000_000]], []])
    assert len(moved.failed[0][1]) == answers.MAX_INFO
    for jobs in ([[]] * 21, [[MIGRATE] * 21]):
        with pytest.raises(errors.OpExecError, match="returned 21 jobs or opcodes for 2 instances"):
            _Check(EVACUATE, [_STAY, [], jobs])
    assert len(_Check(EVACUATE, [_STAY, [], [[MIGRATE] * 20]]).jobs) == 1


@pytest.mark.req("IAL-29", "IAL-30", "IAL-33")
def test_a_response_of_version_1_is_read() -> None:
    assert answers.Parse("mine", '{"success": true, "info": "x", "nodes": ["a"]}') == Response(True, "x", ["a"])
    # Where both are there the newer key counts.
    assert answers.Parse("mine", '{"success": true, "info": "x", "nodes": ["a"], "result": 1}').result == 1
    failed = answers.Parse("mine", '{"success": false, "info": "cluster is full", "nodes": []}')
    with pytest.raises(errors.OpPrereqError) as caught:
        answers.Check("mine", DATA, DRBD, failed)
    assert caught.value.args == ("Can't compute nodes using iallocator 'mine': cluster is full", errors.ECODE_NORES)


def test_what_a_job_gets_from_the_request_is_dropped() -> None:
    """Opcodes of 3.1 may have these, and those that are not set."""
    more = {"priority": -20, "debug_level": 4, "comment": "quick", "reason": [["me", "now", 1]], "depends": None}
    moved = _Check(EVACUATE, [_STAY, [], [[{**MIGRATE, **more, "iallocator": None}]]])
    [[op]] = moved.jobs
    opcodes.InheritFromParent(op, opcodes.OpNodeEvacuate(node_name="n1", mode="all", priority=5))
    assert (op.priority, op.debug_level, op.comment, op.reason) == (5, None, "Submitted by OP_NODE_EVACUATE", [])


_WORDS = st.sampled_from(
    [N1, N2, FOREIGN, SILENT, "", "web1", "ext1", "single", "new", "other", "OP_INSTANCE_MIGRATE", "g"]
)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["OP_ID", "instance_name", "target_node", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)
_REQUESTS = [
    DRBD, PLAIN, RELOCATE, requests.AllocateSecondary("single"), MULTI, EVACUATE, requests.ChangeGroup(("web1",)),
    requests.Balance(2), requests.Capacity(PLAIN, 2),
]  # fmt: skip


@given(st.sampled_from(_REQUESTS), _ANYTHING)
def test_no_answer_breaks_the_unit(request_: requests.Request, result: Any) -> None:
    try:
        _Check(request_, result)
    except errors.OpExecError as err:
        assert str(err)


@given(st.text(max_size=30) | _ANYTHING.map(json.dumps))
def test_no_output_breaks_the_unit(text: str) -> None:
    try:
        answers.Parse("mine", text)
    except errors.OpExecError as err:
        assert "iallocator 'mine'" in str(err)


def test_every_request_has_its_check() -> None:
    assert set(answers._CHECKS) == set(requests.Request.__args__)
    assert constants.IALLOCATOR_VERSION == 2
