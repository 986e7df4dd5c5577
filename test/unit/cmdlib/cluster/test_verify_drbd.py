"""What nodes report of DRBD, compared with what disks need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master

from ganeti import constants, opcodes, runtime

HELPER = "/bin/true"
CODES = ("ENODEDRBD", "ENODEDRBDHELPER", "ENODEDRBDVERSION", "ENODERPC")
WEB = "web.example.org"


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    """Two nodes; the mirror of the running instance has minor 0 on both."""
    return make(2, candidates=2)


def _Answers(master: Master, **second: Any) -> None:
    """All is well on both nodes, but for what the second one reports."""
    fine = {
        "version": [constants.PROTOCOL_VERSION, constants.RELEASE_VERSION],
        "drbd-list": [0],
        "drbd-version": "8.4.11",
        "drbd-helper": [True, HELPER],
    }
    own = {name.replace("_", "-"): value for name, value in second.items()}
    for number, changes in enumerate(({}, own)):
        answer = {**fine, **changes}
        master[number].answers["node_verify"] = {name: value for name, value in answer.items() if value != "absent"}


def _Verify(master: Master) -> list[str]:
    """Return the findings, without what all have in common."""
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True))
    found = [text.strip().removeprefix("- ").replace(".example.org", "") for text in master.last.messages]
    return [text for text in found if text.count(":") > 2 and text.split(":")[1] in CODES]


def test_nothing_is_wrong(two: Master) -> None:
    asked: dict[str, Any] = {}
    two[1].before = lambda name, args: asked.update(args[0]) if name == "node_verify" else None
    _Answers(two)
    assert _Verify(two) == []
    assert asked["drbd-helper"] == HELPER and {"drbd-list", "drbd-version"} <= set(asked)


def test_without_mirrors_nothing_is_asked(two: Master) -> None:
    two.cfg.Update(two.snapshot.cluster.Replace(enabled_disk_templates=["plain"]))
    _Answers(two, drbd_list="absent", drbd_version="absent", drbd_helper="absent")
    asked: set[str] = set()
    two[1].before = lambda name, args: asked.update(args[0]) if name == "node_verify" else None
    assert _Verify(two) == []
    assert "version" in asked and not [key for key in asked if key.startswith("drbd")]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("absent", "the node did not report its DRBD usermode helper"),
        ([False, "no such file"], "the DRBD usermode helper cannot be read: no such file; is the module loaded?"),
        ([True, "/bin/false"], "the DRBD usermode helper is /bin/false, not /bin/true: "),
    ],
)
def test_helpers(two: Master, answer: Any, text: str) -> None:
    _Answers(two, drbd_helper=answer)
    [found] = _Verify(two)
    assert found.startswith(f"ERROR:ENODEDRBDHELPER:node:node2:{text}")


def test_a_helper_that_a_node_names_is_only_part_of_a_command_if_it_is_a_plain_word(two: Master) -> None:
    """Whoever has broken into a node must not get an administrator to run something on the master."""
    own = "or make it that of the cluster with 'gnt-cluster modify --drbd-usermode-helper="
    _Answers(two, drbd_helper=[True, "/sbin/drbdadm"])
    [found] = _Verify(two)
    assert found.endswith(f", {own}/sbin/drbdadm'")
    for name in ("/x;reboot", "/x reboot", "$(reboot)", "`reboot`", "/x'", "/x\nreboot", "/x&reboot", ""):
        _Answers(two, drbd_helper=[True, name])
        [found] = [text for text in _Verify(two) if "ENODEDRBDHELPER" in text]
        assert "gnt-cluster modify" not in found and "set it there with 'echo /bin/true >" in found, name


def test_a_minor_that_belongs_to_nobody(two: Master) -> None:
    _Answers(two, drbd_list=[0, 7])
    [found] = _Verify(two)
    assert found.startswith("ERROR:ENODEDRBD:node:node2:DRBD minor 7 is in use, but belongs to no disk of the cluster")
    assert "'drbdsetup show 7' there names its resource" in found and "'drbdsetup down resource7'" in found


def test_a_minor_that_is_not_active(two: Master) -> None:
    _Answers(two, drbd_list=[])
    [found] = _Verify(two)
    assert found.startswith("ERROR:ENODEDRBD:node:node2:DRBD minor 0 of instance web is not active")
    assert "'gnt-instance activate-disks web'" in found
    two.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    assert _Verify(two) == [], "a stopped instance needs none"


def test_minors_that_cannot_be_read(two: Master) -> None:
    _Answers(two, drbd_list="/proc/drbd does not exist")
    [found] = _Verify(two)
    assert found == "ERROR:ENODEDRBD:node:node2:the DRBD minors in use cannot be read: /proc/drbd does not exist"


def test_different_versions(two: Master) -> None:
    _Answers(two, drbd_version="9.1.2")
    first, second = _Verify(two)
    assert first.startswith("WARNING:ENODEDRBDVERSION:node:node1:DRBD version mismatch: 8.4.11 here, ")
    assert second.startswith("WARNING:ENODEDRBDVERSION:node:node2:DRBD version mismatch: 9.1.2 here, ")
    _Answers(two, drbd_version=None)
    assert _Verify(two) == []


def test_a_node_that_cannot_use_drbd(two: Master) -> None:
    """Its reason is reported once, and is not taken for a version."""
    _Answers(two, drbd_version="Release 7 is too old")
    assert _Verify(two) == ["ERROR:ENODEDRBDVERSION:node:node2:DRBD cannot be used: Release 7 is too old"]
    _Answers(two, drbd_version="The module is not loaded", drbd_list="The module is not loaded")
    [found] = _Verify(two)
    assert found.startswith("ERROR:ENODEDRBD:node:node2:") and "not loaded" in found


def test_what_a_node_itself_reports(two: Master) -> None:
    """One without DRBD, and one with another release, another helper and minors."""
    two[1].Call(runtime.MakeDirs, "/sys/module/drbd/parameters")
    two[1].Write("/sys/module/drbd/parameters/usermode_helper", "/bin/false\n")
    two[1].Write(
        "/proc/drbd",
        "version: 8.4.11 (api:1/proto:86-101)\n"
        " 5: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----\n"
        "    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0\n",
    )
    two[1].machine.programs["drbdsetup"] = lambda invocation: 0
    first = [text for text in _Verify(two) if ":node1:" in text]
    assert [text.split(":")[1] for text in first] == ["ENODEDRBDHELPER", "ENODEDRBD"]
    assert all("module" in text for text in first)
    second = [text for text in _Verify(two) if ":node2:" in text]
    assert [text.split(":", 4)[4][:50] for text in second] == [
        "the DRBD usermode helper is /bin/false, not /bin/true: DRBD"[:50],
        "DRBD minor 0 of instance web is not active; 'gnt-instance"[:50],
        "DRBD minor 5 is in use, but belongs to no disk of the cluster"[:50],
    ]


@pytest.mark.parametrize("wrong", [{"drbd_list": [None]}, {"drbd_helper": True}, {"drbd_version": 8}])
def test_an_answer_of_a_wrong_shape_is_that_of_a_broken_node(two: Master, wrong: dict[str, Any]) -> None:
    _Answers(two, **wrong)
    [found] = [text for text in _Verify(two) if "while contacting" in text]
    assert found.startswith("ERROR:ENODERPC:node:node2:")
