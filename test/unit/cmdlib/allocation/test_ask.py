"""Asking allocators that are programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from support.asking import Answering, AskOn, Played, Success
from support.master import Master

from ganeti import errors, serializer
from ganeti.cmdlib.allocation import requests
from ganeti.htools.sources import request as htools_request

NEW = requests.Allocate(
    name="new.example.org",
    disk_template="drbd",
    tags=("t",),
    os="noop",
    vcpus=2,
    memory=512,
    disks=({"size": 1024, "mode": "rw"}, {"size": 2048, "mode": "rw"}),
    nics=({"mac": "aa:00:00:11:22:33", "ip": None, "mode": "bridged", "link": "br0", "bridge": "br0"},),
    hypervisor="kvm",
)


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True)


@pytest.mark.req("RM-GEN-02")
def test_a_program_chooses_nodes(three: Master) -> None:
    master = three
    played = Answering([master[2].name, master[1].name])
    master[0].AddAllocator("mine", played)
    assert AskOn(master, "mine", NEW) == [master.nodes[2], master.nodes[1]]
    assert master.last.messages == [
        f" - INFO: Selected nodes for instance new.example.org via iallocator mine: {master[2].name}, {master[1].name}",
        " - INFO: iallocator mine: fine",
    ]
    (message,) = played.asked
    assert message["version"] == 2
    assert message["request"] == {
        "type": "allocate",
        "name": "new.example.org",
        "disk_template": "drbd",
        "tags": ["t"],
        "os": "noop",
        "vcpus": 2,
        "memory": 512,
        "spindle_use": 1,
        "disks": [{"size": 1024, "mode": "rw"}, {"size": 2048, "mode": "rw"}],
        "disk_space_total": 3328,
        "nics": [dict(NEW.nics[0])],
        "required_nodes": 2,
        "hypervisor": "kvm",
    }
    assert master[0].calls.count("iallocator_runner") == 1
    assert [node.calls.count("node_info") for node in master.all] == [1, 1, 1]


@pytest.fixture
def master(make: Callable[..., Master]) -> Master:
    return make(2, lvm=True)


def test_what_a_program_says_stays_in_its_line(master: Master) -> None:
    """Text after a line break would look like a message of ours."""
    info = "red\n - INFO: Selected nodes\x1b[1m"
    master[0].AddAllocator("mine", Played(lambda message: {"success": False, "info": info, "nodes": []}))
    with pytest.raises(errors.OpPrereqError) as caught:
        AskOn(master, "mine", NEW)
    assert caught.value.args[0].endswith(r"'mine': red\n - INFO: Selected nodes\x1b[1m")


def test_a_program_that_fails_is_reported_with_a_way_out(master: Master) -> None:
    master[0].AddAllocator("mine", lambda invocation: 3)
    with pytest.raises(errors.OpExecError, match=r"iallocator module 'mine' failed: .*exit code 3"):
        AskOn(master, "mine", NEW)
    assert "Hint: name the nodes yourself, or use another allocator" in master.last.messages


@pytest.mark.req("IAL-30", "IAL-33")
def test_no_place_is_a_prerequisite_that_is_not_met(master: Master) -> None:
    master[0].AddAllocator("mine", Played(lambda message: {"success": False, "info": "full", "nodes": []}))
    with pytest.raises(errors.OpPrereqError) as caught:
        AskOn(master, "mine", NEW)
    assert caught.value.args == ("Can't compute nodes using iallocator 'mine': full", "insufficient_resources")
    with pytest.raises(errors.OpPrereqError) as caught:
        AskOn(master, "mine", dataclasses.replace(NEW, whitelist=()))
    assert caught.value.args[1] == "temp_insufficient_resources"


def test_hail_runs_in_the_master_daemon_and_says_why(three: Master) -> None:
    master = three
    chosen = AskOn(master, "hail", dataclasses.replace(NEW, disk_template="plain"))
    assert len(chosen) == 1 and "iallocator_runner" not in master[0].calls
    selected, info, *reasons = master.last.messages
    name = master.snapshot.NodeName(chosen[0])
    assert selected == f" - INFO: Selected nodes for instance new.example.org via iallocator hail: {name}"
    assert info.startswith(" - INFO: iallocator hail: Request successful: Selected group: ") and "score: " in info
    others = [node.name for node in master.all if node.name != name]
    assert reasons == [
        " - INFO: Not chosen: 2 nodes: suitable, but with a worse score, or with too little reserve"
        f" afterwards (for example {others[0]})"
    ]


def test_hail_says_why_nothing_fits(three: Master) -> None:
    master = three
    master[1].Stop()
    master[2].faults["node_info"] = "out of order"
    with pytest.raises(errors.OpPrereqError) as caught:
        AskOn(master, "hail", dataclasses.replace(NEW, memory=30000))
    assert caught.value.args[0].startswith("Can't compute nodes using iallocator 'hail': Request failed: Group ")
    assert caught.value.args[1] == "insufficient_resources"
    messages = master.last.messages
    assert [text for text in messages if "counts as offline for the allocator: " in text and master[1].name in text]
    assert [text for text in messages if text.endswith("counts as offline for the allocator: out of order")]
    assert (
        " - INFO: Not chosen: 2 nodes: offline, drained, not for instances, or no answer"
        f" (for example {master[1].name})" in messages
    )
    assert f" - INFO: Not chosen: 1 node: not enough free memory (for example {master[0].name})" in messages


@pytest.mark.parametrize(
    ("info", "hint"),
    [
        ("Group g (preferred): No valid allocation solutions, failure reasons: FailMem: 2", None),
        (
            "Group g (preferred): No valid allocation solutions, failure reasons: FailN1: 2",
            "FailN1: afterwards some node of the cluster, in whichever group, could not be emptied;"
            " see 'gnt-cluster capacity'",
        ),
    ],
)
def test_a_lack_of_reserve_names_who_shows_it(three: Master, info: str, hint: str | None) -> None:
    three[0].AddAllocator("full", Played(lambda message: {"success": False, "info": info, "result": []}))
    with pytest.raises(errors.OpPrereqError) as caught:
        AskOn(three, "full", NEW)
    assert caught.value.hint == hint


@pytest.mark.req("D21-IALLOC-04")
def test_allocators_are_tried_in_order(three: Master) -> None:
    master = three
    master[0].AddAllocator("full", Played(lambda message: {"success": False, "info": "full", "result": []}))
    master[0].AddAllocator("broken", Played(lambda message: "rubbish"))
    good = Answering([master[1].name, master[2].name])
    master[0].AddAllocator("good", good)
    assert AskOn(master, "full,missing,broken,good", NEW) == [master.nodes[1], master.nodes[2]]
    warnings = [text for text in master.last.messages if "the next allocator is tried" in text]
    assert len(warnings) == 3 and "'full': full" in warnings[0] and "not found in the search path" in warnings[1]
    with pytest.raises(errors.OpPrereqError, match="iallocator 'full': full"):
        AskOn(master, "broken,full", NEW)
    with pytest.raises(errors.OpPrereqError, match="names no allocator"):
        AskOn(master, ",", NEW)


def test_default_parameters_become_options(three: Master) -> None:
    master = three
    played = Answering([master[2].name, master[1].name])
    master[0].AddAllocator("mine", played)
    params = {"no-capacity-checks": True, "static-kvm-node-memory": 100, "verbose": False, "plain": None}
    master.cfg.Transact(lambda draft: draft.Put(draft.root.cluster.Replace(default_iallocator_params=params)))
    AskOn(master, "mine", NEW)
    assert played.options == [["--no-capacity-checks", "--static-kvm-node-memory=100", "--plain"]]
    with pytest.raises(errors.OpPrereqError, match="unrecognized option `--plain'"):
        AskOn(master, "hail", NEW)


def test_our_own_programs_read_the_message(master: Master) -> None:
    played = Answering([master[0].name, master[1].name])
    master[0].AddAllocator("mine", played)
    AskOn(master, "mine", NEW)
    read = htools_request.Parse(serializer.Dump(played.asked[0]))
    assert [node.name for node in read.raw.nodes] == [node.name for node in master.all]
    assert read.request.type is htools_request.Type.ALLOCATE


def test_an_evacuation_may_ignore_soft_errors(three: Master) -> None:
    (web,) = three.snapshot.instances.values()
    played = Played(lambda message: Success([[], [[web.name, "no place"]], []]))
    three[0].AddAllocator("mine", played)
    for ignore in (True, False):
        request = requests.NodeEvacuate((web.name,), requests.ALL, ignore_soft_errors=ignore)
        assert AskOn(three, "mine", request).failed == [(web.name, "no place")]
    assert played.options == [["--ignore-soft-errors"], []]


def test_options_about_files_need_the_program(three: Master) -> None:
    played = Answering([three[1].name, three[0].name])
    three[0].AddAllocator("hail", played)
    params = {"save": "/var/tmp/state"}
    three.cfg.Transact(lambda draft: draft.Put(draft.root.cluster.Replace(default_iallocator_params=params)))
    assert AskOn(three, "hail", NEW) == [three.nodes[1], three.nodes[0]]
    assert played.options == [["--save=/var/tmp/state"]]


def test_a_request_of_several_templates_is_told_once(three: Master) -> None:
    """The nodes are asked once whatever the number of instances and of allocators."""
    three[0].AddAllocator("full", Played(lambda message: {"success": False, "info": "full", "result": []}))
    other = dataclasses.replace(NEW, name="other.example.org", disk_template="plain")
    got = AskOn(three, "full,hail", requests.MultiAllocate((NEW, other)))
    assert [name for name, _ in got.placed] == [NEW.name, other.name] and got.failed == []
    assert [node.calls.count("node_info") for node in three.all] == [1, 1, 1]
    assert sum("Selected nodes for instance" in text for text in three.last.messages) == 2
