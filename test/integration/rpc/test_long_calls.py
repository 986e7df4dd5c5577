"""A node daemon whose calls hang names the programs that they wait for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.noded import Cluster

from ganeti import runtime
from ganeti.rpc.longcalls import LONG_SECONDS

HOOK = "/etc/ganeti/hooks/cluster-verify-post.d/slow-check"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.Close()


def test_a_node_without_a_free_turn_names_the_programs_that_its_calls_wait_for(cluster: Cluster) -> None:
    noded = cluster.MakeNode("node1")
    fifo = noded.Path("/fifo")
    os.mkfifo(fifo)
    noded.Write(HOOK, f"#!/bin/bash\nread line < {fifo}\n", 0o755)
    noded.Start("--max-clients", "2")
    runner = cluster.Runner()

    def run_hooks() -> None:
        runner.call_hooks_runner(["node1"], "cluster-verify", "post", {})

    def long_calls(seconds: float) -> list[list]:
        result = runner.call_node_long_calls(["node1"], seconds)["node1"]
        assert result.fail_msg is None, result.fail_msg
        found: list[list] = result.payload
        return found

    def are_named(found: list[list]) -> bool:
        return len(found) == 2 and all(call[3].startswith("slow-check, process ") for call in found)

    hooks = [threading.Thread(target=run_hooks) for _ in range(2)]
    for hook in hooks:
        hook.start()
    deadline = runtime.Monotonic() + 30
    while not are_named(found := [call for call in long_calls(0) if call[0] == "hooks_runner"]):
        assert runtime.Monotonic() < deadline, found
        runtime.Sleep(0.02)
    assert [call[2] for call in found] == [False, False], "their callers still wait"
    assert long_calls(LONG_SECONDS) == []
    # Each reader of a fifo that is opened for writing once gets its line or the end of the file.
    while any(hook.is_alive() for hook in hooks):
        try:
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            runtime.Sleep(0.02)
