"""Asking allocators that are programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from support.asking import Answering, AskOn, Played
from support.master import Master

from ganeti import errors, serializer
from ganeti.cmdlib.allocation import requests
from ganeti.htools import request as htools_request

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


def test_a_program_chooses_nodes(three: Master) -> None:
    master = three
    played = Answering([master[2].name, master[1].name])
    master[0].AddAllocator("mine", played)
    assert AskOn(master, "mine", NEW) == [master.nodes[2], master.nodes[1]]
    assert master.last.messages == [
        f" - INFO: Selected nodes for instance new.example.org via iallocator mine: {master[2].name}, {master[1].name}"
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


def test_no_place_is_a_prerequisite_that_is_not_met(master: Master) -> None:
    master[0].AddAllocator("mine", Played(lambda message: {"success": False, "info": "full", "nodes": []}))
    with pytest.raises(errors.OpPrereqError) as caught:
        AskOn(master, "mine", NEW)
    assert caught.value.args == ("Can't compute nodes using iallocator 'mine': full", "insufficient_resources")
    with pytest.raises(errors.OpPrereqError) as caught:
        AskOn(master, "mine", dataclasses.replace(NEW, whitelist=()))
    assert caught.value.args[1] == "temp_insufficient_resources"


def test_our_own_programs_read_the_message(master: Master) -> None:
    played = Answering([master[0].name, master[1].name])
    master[0].AddAllocator("mine", played)
    AskOn(master, "mine", NEW)
    read = htools_request.Parse(serializer.Dump(played.asked[0]))
    assert [node.name for node in read.raw.nodes] == [node.name for node in master.all]
    assert read.request.type is htools_request.Type.ALLOCATE
