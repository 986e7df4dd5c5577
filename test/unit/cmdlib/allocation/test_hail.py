"""The allocator in the master's process gives the answer of the program hail."""

from __future__ import annotations

import io
import pathlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs
from support.allocations import Drawn

from ganeti import serializer
from ganeti.cmdlib.allocation import clusterdata, hail, model, requests
from ganeti.htools.sources import request
from ganeti.tools.htools import main
from ganeti.tools.htools.output import Streams


def _Message(drawn: Drawn, asked: requests.Request) -> str:
    return serializer.Dump(clusterdata.Message(drawn.data, hail.Entry(drawn.data, asked)))


def _AskProgram(folder: pathlib.Path, text: str, options: list[str]) -> dict[str, Any]:
    file = folder / "question"
    file.write_text(text, encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    assert main.Run("hail", [*options, str(file)], Streams(out, err, lambda *_: None)) == 0, err.getvalue()
    answer: dict[str, Any] = serializer.Load(out.getvalue())
    return answer


@given(st.integers(0, 10**9))
def test_the_model_is_that_of_the_message(seed: int) -> None:
    drawn = Drawn(random.Random(seed))
    drawn.Widen(random.Random(seed))
    read = request.Parse(_Message(drawn, drawn.New())).raw
    made = model.MakeRaw(drawn.data, model.Memory())
    assert list(made.groups) == list(read.groups)
    assert list(made.nodes) == list(read.nodes)
    assert list(made.instances) == list(read.instances)
    assert (made.tags, made.policy) == (read.tags, read.policy)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("hail")


def test_the_same_answer_in_the_process_and_from_the_program(folder: pathlib.Path) -> None:
    kinds = set()
    for seed in range(300):
        chance = random.Random(seed)
        drawn = Drawn(chance)
        memory = model.Memory()
        for _ in range(2):
            asked = drawn.Request()
            soft = isinstance(asked, requests.NodeEvacuate) and asked.ignore_soft_errors
            given: dict[str, str | None] = {"ignore-soft-errors": None} if soft else {}
            got = hail.Run(drawn.data, asked, hail.OptionsOf(given), memory).response
            wanted = _AskProgram(folder, _Message(drawn, asked), [f"--{name}" for name in given])
            assert {"success": got.success, "info": got.info, "result": got.result} == wanted, (seed, asked)
            kinds.add((asked.TYPE, got.success))
    # Each type succeeded and failed, so that both were compared.
    types = {"allocate", "multi-allocate", "relocate", "allocate-secondary"}
    assert kinds >= {(kind, success) for kind in types for success in (True, False)}
    assert kinds >= {(kind, True) for kind in ("node-evacuate", "change-group", "balance", "capacity")}


def test_what_is_kept_is_made_again_when_it_changes() -> None:
    drawn = Drawn(random.Random(5), nodes=4, instances=6)
    memory = model.Memory()
    first = model.MakeRaw(drawn.data, memory).instances
    again = model.MakeRaw(drawn.data, memory).instances
    assert all(one is other for one, other in zip(first, again, strict=True))
    snapshot = drawn.snapshot
    inst = next(iter(snapshot.instances.values()))
    shared = snapshot.Replace(
        cluster=snapshot.cluster.Replace(ipolicy={**snapshot.cluster.ipolicy, "memory-ratio": 2.0})
    )
    for change in (
        shared,
        snapshot,
        snapshot.WithObject(inst.Replace(beparams={"maxmem": 777, "minmem": 128, "vcpus": 3})),
        snapshot.Replace(
            cluster=snapshot.cluster.Replace(beparams={"default": {"vcpus": 7, "maxmem": 99, "spindle_use": 2}})
        ),
        snapshot.WithoutObject("instance", inst.uuid),
        snapshot.Replace(nodes=dict(reversed(snapshot.nodes.items()))),
        *[snapshot.WithObject(disk.Replace(size=4711)) for disk in snapshot.InstanceDisks(inst)[:1]],
    ):
        data = clusterdata.ClusterData(change, drawn.data.numbers, drawn.data.silent)
        assert list(model.MakeRaw(data, memory).instances) == list(model.MakeRaw(data, model.Memory()).instances)


@pytest.mark.parametrize("drained", [(3,), (2,), (2, 3)])
def test_a_drained_node_becomes_no_secondary(folder: pathlib.Path, drained: tuple[int, ...]) -> None:
    """A plain instance on node1 is to be mirrored; nodes 2 and 3 are alike."""
    drawn = Drawn(random.Random(1), nodes=3, instances=0)
    snapshot, root = drawn.snapshot, configs.Example()
    first, *others = snapshot.nodes.values()
    others = [
        node.Replace(group=first.group, offline=False, vm_capable=True, tags=(), drained=number in drained)
        for number, node in enumerate(others, 2)
    ]
    disk = root.disks[configs.WEB_DISK].Replace(dev_type="plain", nodes=[first.uuid], children=[])
    web = root.instances[configs.WEB].Replace(primary_node=first.uuid)
    for node in (first.Replace(offline=False, drained=False, vm_capable=True), *others):
        snapshot = snapshot.WithObject(node)
    drawn.snapshot = snapshot.WithObject(web).WithObject(disk)
    drawn.data = clusterdata.ClusterData(drawn.snapshot, dict.fromkeys(snapshot.nodes, _ROOMY), {})
    asked = requests.AllocateSecondary(web.name)
    got = hail.Run(drawn.data, asked, hail.OptionsOf({}), model.Memory()).response
    by_program = _AskProgram(folder, _Message(drawn, asked), [])
    assert {"success": got.success, "info": got.info, "result": got.result} == by_program
    free = [node.name for node in others if not node.drained]
    assert got.success == bool(free) and got.result == (free[0] if free else [])


@pytest.mark.parametrize("multi", [False, True])
def test_a_policy_can_be_ignored(folder: pathlib.Path, multi: bool) -> None:
    """The instance has more virtual CPUs than the policy allows one instance, and all of a node by its ratio."""
    drawn = Drawn(random.Random(1), nodes=4, instances=0)
    drawn.data = clusterdata.ClusterData(drawn.snapshot, dict.fromkeys(drawn.snapshot.nodes, _ROOMY), {})

    def answers(ignore: bool) -> tuple[Any, Any]:
        one = requests.Allocate(
            "huge.example.org", "plain", vcpus=100, memory=1024, disks=({"size": 1024},), ignore_policy=ignore
        )
        asked = requests.MultiAllocate((one,)) if multi else one
        got = hail.Run(drawn.data, asked, hail.OptionsOf({}), model.Memory())
        return got, _AskProgram(folder, _Message(drawn, asked), [])

    refused, by_program = answers(ignore=False)
    assert not refused.response.success and not by_program["success"]
    if not multi:
        assert any("against the policy" in reason for reason in refused.reasons)
    placed, by_program = answers(ignore=True)
    assert placed.response.success and placed.response.result == by_program["result"]
    assert not any("policy" in reason for reason in placed.reasons)


_ROOMY = clusterdata.Numbers(
    total_memory=65536, reserved_memory=1024, free_memory=60000, total_disk=500000, free_disk=400000, total_spindles=0,
    free_spindles=0, total_cpus=8, reserved_cpus=1, i_pri_memory=0, i_pri_up_memory=0,
)  # fmt: skip
