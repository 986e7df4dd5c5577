"""The simulated transport: one answer per request, whatever the network does to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import World
from simulated.transport import Network, ServeCalls, SimulatedTransport

from ganeti import rpc, runtime
from ganeti.rpc.server import Dispatcher, OpenGate

NAMES = ("node1", "node2", "node3")


class Cluster:
    """Three machines that count what reaches them, and a master on the first."""

    def __init__(self, seed: int = 1, **faults: Any):
        self.world = World(seed)
        self.network = Network(self.world)
        for name, value in faults.items():
            setattr(self.network, name, value)
        self.reached: list[tuple[str, str]] = []
        self.took = 0.0
        self.machines = {name: self.world.AddMachine(name) for name in NAMES}
        for name in NAMES:
            self.Start(name)
        self.world.RunFor(0.1)

    def Start(self, name: str) -> None:
        def pause() -> None:
            self.reached.append((name, "pause"))

        def volumes() -> list[str]:
            self.reached.append((name, "export_list"))
            return [name]

        def delay(duration: float) -> None:
            self.reached.append((name, "delay"))
            runtime.Sleep(duration)

        handlers = {"set_watcher_pause": lambda until: pause(), "export_list": volumes, "test_delay": delay}
        dispatcher = Dispatcher(handlers, OpenGate())
        self.machines[name].StartProcess(lambda: ServeCalls(self.network, dispatcher), "noded")

    def Runner(self) -> rpc.RpcRunner:
        return rpc.RpcRunner(
            SimulatedTransport(self.network), lambda name: (name, name, 1811, False, name), lambda: "1.a"
        )

    def Ask(self, call: str, *args: object) -> dict[str, rpc.RpcResult]:
        """A call to all nodes from a master process."""

        def master() -> dict[str, rpc.RpcResult]:
            started = runtime.Monotonic()
            try:
                return getattr(self.Runner(), f"call_{call}")(NAMES, *args)  # type: ignore[no-any-return]
            finally:
                self.took = runtime.Monotonic() - started

        return self.machines["node1"].Call(master)  # type: ignore[no-any-return]


def test_calls_reach_every_node_and_come_back() -> None:
    cluster = Cluster()
    results = cluster.Ask("export_list")
    assert {name: result.payload for name, result in results.items()} == {name: [name] for name in NAMES}
    assert sorted(cluster.reached) == [(name, "export_list") for name in NAMES]


def test_a_cut_hides_a_node_and_healing_brings_it_back() -> None:
    cluster = Cluster()
    cluster.network.Partition(["node1", "node2"], ["node3"])
    results = cluster.Ask("export_list")
    assert results["node2"].payload == ["node2"]
    assert "timed out" in (results["node3"].fail_msg or "")
    assert cluster.took == pytest.approx(5.0, abs=0.1)
    cluster.network.MendAll()
    assert cluster.Ask("export_list")["node3"].payload == ["node3"]


def test_a_dead_daemon_refuses_and_a_dead_machine_is_silent() -> None:
    cluster = Cluster()
    for process in list(cluster.machines["node2"].processes.values()):
        process.Kill()
    cluster.machines["node3"].PowerOff()
    results = cluster.Ask("export_list")
    assert "refused" in (results["node2"].fail_msg or "")
    assert "timed out" in (results["node3"].fail_msg or "")
    cluster.machines["node3"].PowerOn()
    cluster.Start("node3")
    cluster.world.RunFor(0.1)
    assert cluster.Ask("export_list")["node3"].payload == ["node3"]


def test_a_one_way_cut_lets_the_request_through_but_never_the_answer() -> None:
    cluster = Cluster()
    cluster.network.Cut("node3", "node1")
    assert "timed out" in (cluster.Ask("set_watcher_pause", 1)["node3"].fail_msg or "")
    assert ("node3", "pause") in cluster.reached
    cluster.network.Mend("node3", "node1")
    assert cluster.Ask("set_watcher_pause", 1)["node3"].fail_msg is None


def test_a_slow_node_answers_late_and_the_others_do_not_wait_for_it() -> None:
    cluster = Cluster(slow={"node3": 7.0})
    assert cluster.Ask("export_list")["node3"].payload == ["node3"]
    assert cluster.took == pytest.approx(14.0, abs=0.1)


def test_only_repeatable_requests_are_repeated() -> None:
    cluster = Cluster(twice=1.0)
    cluster.Ask("set_watcher_pause", 1)
    cluster.Ask("export_list")
    cluster.world.RunFor(60)
    assert [what for _, what in cluster.reached].count("pause") == 3
    assert [what for _, what in cluster.reached].count("export_list") == 6


def test_abort_ends_the_waiting_of_one_thread() -> None:
    cluster = Cluster()
    texts: list[str | None] = []

    def master() -> None:
        runner = cluster.Runner()
        idents: list[int] = []

        def job() -> None:
            idents.append(runtime.ThreadIdent())
            texts.append(runner.call_test_delay(["node2"], 1000)["node2"].fail_msg)

        thread = runtime.Thread(job, "job")
        thread.start()
        runtime.Sleep(1)
        assert runner.Abort(idents[0], still=lambda: False) == 0, "it works for somebody else by now"
        assert runner.Abort(idents[0]) == 1
        thread.join(1.0)
        assert not thread.is_alive()
        assert runner.Abort(idents[0]) == 0

    cluster.machines["node1"].Call(master)
    assert texts == ["the call was aborted; what the node did meanwhile is not known"]


def test_a_killed_master_gets_nothing_any_more() -> None:
    cluster = Cluster()
    got: list[object] = []

    def master() -> None:
        got.append(cluster.Runner().call_test_delay(["node2"], 5))

    process = cluster.machines["node1"].StartProcess(master, "masterd")
    cluster.world.RunFor(1)
    process.Kill()
    cluster.world.RunFor(30)
    assert got == [] and not cluster.world.failures


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1 << 30),
    lost=st.sampled_from([0.0, 0.3, 1.0]),
    broken=st.sampled_from([0.0, 0.5]),
    twice=st.sampled_from([0.0, 0.5]),
    late=st.sampled_from([0.0, 0.5]),
)
def test_every_call_ends_in_its_time(seed: int, lost: float, broken: float, twice: float, late: float) -> None:
    cluster = Cluster(seed, lost=lost, broken=broken, twice=twice, late=late)
    for _ in range(3):
        results = cluster.Ask("export_list")
        assert set(results) == set(NAMES)
        for name, result in results.items():
            assert result.fail_msg or result.payload == [name]
        assert cluster.took <= 300 + 1
    assert not cluster.world.failures


def test_the_same_seed_gives_the_same_story() -> None:
    def story(seed: int) -> list[tuple[str, str]]:
        cluster = Cluster(seed, latency=(0.0, 1.0), lost=0.2, twice=0.3)
        for _ in range(3):
            cluster.Ask("export_list")
        cluster.world.RunFor(100)
        return cluster.reached

    assert story(5) == story(5)
    assert len({tuple(story(seed)) for seed in range(5)}) > 1
