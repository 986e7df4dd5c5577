"""What a verification makes of the nodes' answers."""

from __future__ import annotations

import pytest
from support import configs

from ganeti import constants, objects
from ganeti.cmdlib.cluster import verify_nodes as checks
from ganeti.cmdlib.cluster.verify_report import Report

NAMES = {"u1": "node1", "u2": "node2", "u3": "node10"}


def _Report(**options: object) -> tuple[Report, list[str]]:
    lines: list[str] = []
    return Report(lines.append, **options), lines  # type: ignore[arg-type]


def _Image(name: str = "node1", **values: object) -> checks.NodeImage:
    node = objects.Node(
        name=name, uuid="00000001-aaaa-4bbb-8ccc-000000000001", primary_ip="", secondary_ip="", group="g"
    )
    return checks.NodeImage(node, **values)  # type: ignore[arg-type]


def test_findings_come_in_both_forms_and_can_be_ignored() -> None:
    report, lines = _Report()
    report.Error("ENODEVERSION", "node", "node1", "old")
    report.Error("ECLUSTERCFG", "cluster", None, "odd")
    assert lines == ["  - ERROR: node node1: old", "  - ERROR: cluster : odd"]
    assert report.bad
    report, lines = _Report(codes=True, ignored=["ENODEVERSION"])
    report.Error("ENODEVERSION", "node", "node1", "old")
    assert lines == ["  - WARNING:ENODEVERSION:node:node1:old"]
    assert not report.bad


def test_with_simulated_errors_every_check_fails() -> None:
    report, lines = _Report(simulate=True)
    assert checks.CheckVersion(report, "node1", {"version": [constants.PROTOCOL_VERSION, "x"]}) is False
    assert report.bad
    assert lines


@pytest.mark.parametrize(
    ("clock", "finding"),
    [((1000, 0), None), ((851, 0), None), ((849, 0), "151.0s"), ((1160, 500000), "0.5s"), ((1159, 0), None)],
)
def test_a_clock_may_be_off_by_a_little(clock: tuple[int, int], finding: str | None) -> None:
    report, lines = _Report()
    checks.CheckTime(report, "node1", {"time": list(clock)}, 1000.0, 1010.0)
    assert report.bad == (finding is not None)
    if finding:
        assert finding in lines[0]


@pytest.mark.parametrize("answer", [{}, {"time": None}, {"time": "x"}, {"time": [1]}, {"time": ["a", "b"]}])
def test_rubbish_for_a_time_is_a_finding(answer: dict) -> None:
    report, _ = _Report()
    checks.CheckTime(report, "node1", answer, 0.0, 0.0)
    assert report.bad


def test_os_definitions_are_compared_with_the_first_node() -> None:
    good = ["debian", "/os/debian", True, "", ["v1", "v2"], [["p", "help"]], [20], True]
    reference = _Image("node1", os_rows=[good])
    report, lines = _Report()
    checks.CheckOs(report, _Image("node2", os_rows=[[*good[:4], ["v2", "v1"], *good[5:]]]), reference)
    assert lines == []
    other = ["debian", "/os/debian", True, "", ["v1"], [["p", "help"]], [20], True]
    extra = ["gentoo", "/os/gentoo", False, "no create", [], [], [20], True]
    checks.CheckOs(report, _Image("node3", os_rows=[other, extra]), reference)
    assert "variants list differs from node node1: [v1] vs. [v1, v2]" in lines[0]
    assert lines[1] == "  - ERROR: node node3: Invalid OS gentoo (located at /os/gentoo): no create"
    assert "OS gentoo exists here, but not on node node1" in lines[2]
    checks.CheckOs(report, _Image("node4", os_rows=[]), reference)
    assert "OS debian exists on node node1, but not here" in lines[3]


@pytest.mark.parametrize(
    ("state", "cure"),
    [
        ("unresponsive", "gnt-instance shutdown --timeout 0 web.example.org"),
        ("postmigrate", "gnt-instance migrate --cleanup web.example.org"),
        ("finish-migrate", "gnt-instance migrate --cleanup web.example.org"),
        ("stopped", "a full disk"),
        ("running", None),
        ("paused", None),
    ],
)
def test_a_guest_that_does_not_run_is_a_finding_with_its_cure(state: str, cure: str | None) -> None:
    snapshot = configs.Example()
    name = next(iter(snapshot.instances.values())).name
    report, lines = _Report(codes=True)
    checks.CheckStates(report, "node1", {name: {"run_state": state}, "stranger": {"run_state": state}}, snapshot)
    if cure is None:
        assert lines == []
    else:
        [line] = lines
        assert (
            line.startswith(f"  - ERROR:EINSTANCEDOWN:instance:{name}:")
            and cure.replace("web.example.org", name) in line
        )


@pytest.mark.req("D22-OSP-03")
def test_a_definition_has_the_same_version_on_all_nodes() -> None:
    debian = ["debian", "/os/debian", True, "", [], [], [20], True]

    def image(node: str, version: str | None) -> checks.NodeImage:
        read = _Image(node)
        report, _ = _Report()
        checks.ReadOs(
            report, read, {"oslist": [debian], "os-facts": {"debian": {"version": version, "hypervisors": None}}}
        )
        return read

    report, lines = _Report()
    reference = image("node1", "12.1")
    checks.CheckOs(report, image("node2", "12.1"), reference)
    assert lines == []
    checks.CheckOs(report, image("node3", "12.0"), reference)
    checks.CheckOs(report, image("node4", None), reference)
    assert lines == [
        "  - ERROR: node node3: OS debian: os_version differs from node node1: 12.0 vs. 12.1",
        "  - ERROR: node node4: OS debian: os_version differs from node node1: none vs. 12.1",
    ]


def test_each_node_tries_one_node_of_each_other_group_by_ssh() -> None:
    root = configs.Example()
    group = root.nodegroups[configs.GROUP]
    other, empty = configs.Uuid(41), configs.Uuid(42)
    for uuid, name in ((other, "other"), (empty, "empty")):
        root = root.WithObject(group.Replace(uuid=uuid, name=name))
    template = root.nodes[configs.NODE1]
    for number in range(3, 9):
        values = {"group": configs.GROUP if number == 3 else other, "offline": number == 8}
        root = root.WithObject(template.Replace(uuid=configs.Uuid(50 + number), name=f"n{number}", **values))
    own = [root.nodes[uuid] for uuid in root.GroupNodes(configs.GROUP)]
    extra = checks.Neighbours(root, configs.GROUP, own)
    assert extra == {"n3": ["n4"], "node1.example.org": ["n5"], "node2.example.org": ["n6"]}
    strangers = [root.nodes[uuid] for uuid in root.GroupNodes(other) if not root.nodes[uuid].offline]
    assert [*checks.Neighbours(root, other, strangers).values()] == [
        ["n3"], ["node1.example.org"], ["node2.example.org"], ["n3"],
    ]  # fmt: skip
    assert checks.Neighbours(configs.Example(), configs.GROUP, own) == {}
