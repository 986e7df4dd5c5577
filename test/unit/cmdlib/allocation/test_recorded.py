"""From ``gnt-node modify --hypervisor-state`` to what allocators and queries see."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from support.allocations import Drawn
from support.asking import Answering, AskOn
from support.master import Master

from ganeti import constants, opcodes, serializer
from ganeti.cmdlib.allocation import clusterdata, hail, model, requests
from ganeti.htools.sources import request

KEYS = ("hv_state", "disk_state")


@pytest.fixture
def master(make: Callable[..., Master]) -> Master:
    return make(2, lvm=True)


@pytest.mark.req("RM-SOR-05", "RM-NODE-17", "RM-HTC-03")
def test_records_are_changed_queried_and_sent(master: Master) -> None:
    hv = master.snapshot.cluster.enabled_hypervisors[0]
    group = master.snapshot.cluster.volume_group_name
    played = Answering([[], [], []])
    master[0].AddAllocator("mine", played)
    ask = requests.NodeEvacuate(instances=(), mode="all")
    AskOn(master, "mine", ask)
    assert not set(KEYS) & {key for node in played.asked[0]["nodes"].values() for key in node}, "as 3.1 sends it"
    answer = master.context.query.QueryNow("node", KEYS, None)
    assert {status for row in answer["data"] for status, _ in row} == {constants.RS_UNAVAIL}

    master.Run(opcodes.OpClusterSetParams(hv_state={hv: {"mem_hv": 64, "mem_total": 4096}}))
    master.Run(opcodes.OpGroupSetParams(group_name="default", disk_state={"plain": {group: {"disk_reserved": 100}}}))
    master.Run(
        opcodes.OpNodeSetParams(
            node_name=master[1].name,
            hv_state={hv: {"mem_node": 512}},
        )
    )
    disks = {"plain": {group: {"disk_reserved": 100}, "other": {"disk_total": 7}}}
    master.Run(opcodes.OpNodeSetParams(node_name=master[1].name, disk_state={"plain": {"other": {"disk_total": 7}}}))
    answer = master.context.query.QueryNow("node", ["name", *KEYS], None)
    rows = {name: (memory, space) for [(_, name), (_, memory), (_, space)] in answer["data"]}
    assert rows[master[0].name] == ({hv: {"mem_hv": 64}}, {"plain": {group: {"disk_reserved": 100}}})
    assert rows[master[1].name] == ({hv: {"mem_hv": 64, "mem_node": 512}}, disks)
    AskOn(master, "mine", ask)
    sent = played.asked[1]["nodes"][master[1].name]
    assert sent["hv_state"] == {hv: {"mem_hv": 64, "mem_node": 512}}
    assert sent["disk_state"] == {"plain": {group: {"disk_reserved": 100}}}, "other volume groups hold no instances"
    # What a node has is asked of it as before.
    before = played.asked[0]["nodes"][master[1].name]
    assert {key: value for key, value in sent.items() if key not in KEYS} == before


def _Record(chance: random.Random, names: tuple[str, ...]) -> dict[str, int]:
    return {name: chance.choice([0, 1, 500]) for name in names if chance.random() < 0.5}


def test_the_model_in_the_process_has_the_records_of_the_message() -> None:
    seen = set()
    for seed in range(60):
        chance = random.Random(seed)
        drawn = Drawn(chance)
        changed = drawn.snapshot
        group = changed.cluster.volume_group_name
        for node in drawn.snapshot.nodes.values():
            memory = {hv: _Record(chance, ("mem_total", "mem_node", "mem_hv", "cpu_total", "cpu_node"))
                      for hv in ("kvm", "xen-pvm")}  # fmt: skip
            disks = {name: _Record(chance, ("disk_total", "disk_overhead", "disk_reserved")) for name in ("a", group)}
            changed = changed.WithObject(node.Replace(hv_state_static=memory, disk_state_static={"plain": disks}))
        data = clusterdata.ClusterData(changed, drawn.data.numbers, drawn.data.silent)
        message: Any = clusterdata.Message(data, hail.Entry(data, drawn.New()))
        read = request.Parse(serializer.Dump(message)).raw
        made = model.MakeRaw(data, model.Memory())
        assert list(made.nodes) == list(read.nodes), seed
        seen |= {node.record is None for node in made.nodes}
    assert seen == {True, False}
