"""What a node replies to adopt, in any shape: it can be used, or that node has failed, with its name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from simulated import Invocation
from support.adoption import Report
from support.cutting import Machines

from ganeti import pathutils, serializer
from ganeti.tools.adopt import plan, remote

NODES = ("node1.example.org", "node2.example.org")
CONFIG: dict[str, Any] = {
    "version": 3010000,
    "cluster": {"cluster_name": "c", "master_node": "u"},
    "nodes": {"u": {"name": NODES[0]}},
    "nodegroups": {},
    "instances": {},
    "disks": {},
}
LOOK = Report(boot=["/etc/cron"], differences=[["/x", "root:root", 0o600, "a:b", 0o640]])
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    1e308,
    "",
    "x" * 50,
    [],
    [1],
    [["a"]],
    [["a", 1, 2, 3, 4]],
    {},
    {"a": 1},
)


class Scene(Machines):
    """Two nodes; ``replies``: what the program writes on each."""

    def __init__(self) -> None:
        super().__init__(list(NODES))
        self.replies: dict[str, str] = {}
        for machine in self.all:
            machine.programs[pathutils.ADOPT] = self._Reply(machine.name)

    def _Reply(self, name: str) -> Any:
        def run(invocation: Invocation) -> int:
            invocation.Print(self.replies[name])
            return 0

        return run

    def Ask(self, step: str, good: Any, strange: Any) -> tuple[dict[str, Any], dict[str, str]]:
        self.replies = {NODES[0]: serializer.Dump({"ok": True, "value": good}), NODES[1]: strange}
        nodes = [remote.Node(name, 22, name == NODES[0], "c") for name in NODES]
        found: tuple[dict[str, Any], dict[str, str]] = self.Call(lambda: remote.Ask(nodes, step, original="/usr"))
        return found


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.Close()


def Changed() -> Iterator[dict[str, Any]]:
    for key, value in itertools.product(LOOK, STRANGE):
        yield {**LOOK, key: value}
    for key in LOOK:
        yield {name: value for name, value in LOOK.items() if name != key}


def Judge(reports: dict[str, Any], silent: dict[str, str]) -> list[str]:
    skew = {name: report["time"] - 1700000000.0 for name, report in reports.items()}
    facts = plan.Facts(CONFIG, NODES[0], "/usr", [], reports, silent, skew, [])
    plan.ChangesOwners(facts)
    return [*plan.Describe(facts), *plan.Warnings(facts), *plan.Problems(facts)]


def test_a_strange_report_is_the_failure_of_its_node(scene: Scene) -> None:
    rejected = 0
    for report in Changed():
        reports, silent = scene.Ask("look", LOOK, serializer.Dump({"ok": True, "value": report}))
        assert NODES[0] in reports
        text = "\n".join(Judge(reports, silent))
        if NODES[1] in silent:
            rejected += 1
            assert f"Node {NODES[1]} did not reply: its reply to 'look' cannot be used (" in text
    assert rejected > 100


@pytest.mark.parametrize(
    "reply",
    ["", "[]", "{}", '{"ok": 1, "value": {}}', '{"value": {}}', '{"ok": true}', "{", '{"ok": true, "value": NaN}'],
)
def test_no_reply_of_the_program(scene: Scene, reply: str) -> None:
    reports, silent = scene.Ask("look", LOOK, reply)
    assert list(reports) == [NODES[0]]
    assert silent[NODES[1]]


@pytest.mark.parametrize("step", ["guests", "pause", "hand-back"])
@pytest.mark.parametrize("value", [None, 1, "x", [1], [["x"]], {"a": 1}, {"a": ["x"]}])
def test_what_other_steps_return(scene: Scene, step: str, value: Any) -> None:
    good: Any = {} if step == "guests" else []
    values, failures = scene.Ask(step, good, serializer.Dump({"ok": True, "value": value}))
    assert values == {NODES[0]: good}
    assert f"its reply to '{step}' cannot be used" in failures[NODES[1]]


def test_a_clock_that_is_no_number(scene: Scene) -> None:
    for text in ("NaN", "Infinity", "-1"):
        reply = serializer.Dump({"ok": True, "value": LOOK}).replace("1700000000.0", text)
        assert NODES[1] in scene.Ask("look", LOOK, reply)[1]


def test_the_error_of_a_step_is_its_text(scene: Scene) -> None:
    _, failures = scene.Ask("look", LOOK, serializer.Dump({"ok": False, "value": "no space left"}))
    assert failures == {NODES[1]: "no space left"}


# --- broken configurations ------------------------------------------------------------------------------------------------


def Broken() -> Iterator[dict[str, Any]]:
    """The configuration with one part replaced by something else."""
    whole: dict[str, Any] = {
        **CONFIG,
        "cluster": {**CONFIG["cluster"], "enabled_hypervisors": ["kvm"], "ipolicy": {}},
        "instances": {"i": {"name": "inst1", "hypervisor": "kvm", "disks": ["d"]}},
        "disks": {"d": {"uuid": "d", "dev_type": "plain"}},
    }
    for kind, part in whole.items():
        if not isinstance(part, dict):
            continue
        for key, value in part.items():
            yield from ({**whole, kind: {**part, key: strange}} for strange in STRANGE)
            for inner in value if isinstance(value, dict) else ():
                yield from ({**whole, kind: {**part, key: {**value, inner: strange}}} for strange in STRANGE)


def test_a_broken_configuration_is_a_problem() -> None:
    for config in Broken():
        facts = plan.Facts(config, NODES[0], "/usr", [], {}, {}, {}, [])
        assert [*plan.Describe(facts), *plan.Warnings(facts)]
        plan.Problems(facts)
        plan.OnlyHere(config)
