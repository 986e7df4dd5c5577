"""gnt-cluster epo against a master whose nodes are listening sockets and whose controllers are files."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import allocator, configs
from support.fakemaster import FakeMaster
from support.stories import STARTER
from support.virtualnode import VirtualNode

from ganeti import constants

NODE1, NODE2, NODE3 = (f"node{number}.example.org" for number in (1, 2, 3))
SECONDS = 100
# What stands in NODE.says is printed for power-status; the log has a line for each call.
PROGRAM = """#!/bin/sh
echo "$1 $2" >>{base}/log
[ "$1" = power-status ] || exit 1
cat {base}/$2.says
"""


class Power(FakeMaster):
    """Three candidates; inst0 to inst2 have their guests on node1 to node3, and a mirror on the next node."""

    def __init__(self, node: VirtualNode, lease: allocator.Lease):
        self.node = node
        self.program = node.Write("/oob", PROGRAM.format(base=node.root), 0o755)
        self.pause: float | None = None
        self.pauses: list[float | None] = []
        self.running = {f"inst{number}.example.org" for number in range(3)}
        self.sockets: dict[str, socket.socket] = {}
        # OP_ID -> what happens when such an opcode is submitted; oper_state: when it is asked for.
        self.then: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.addresses = {name: lease.Address() for name in (NODE1, NODE2, NODE3)}
        super().__init__(node.Path("/var/run/ganeti/socket/ganeti-query"))
        root = configs.Large(3, nodes=3)
        group = root.nodegroups[configs.GROUP]
        root = root.WithObject(group.Replace(ndparams={"oob_program": self.program}))
        for found in root.nodes.values():
            made = found.Replace(primary_ip=self.addresses[found.name], powered=True, master_candidate=True)
            root = root.WithObject(made)
        self.snapshot = root
        for name in (NODE2, NODE3):
            self.SwitchOn(name)

    def Shutdown(self) -> None:
        for name in list(self.sockets):
            self.Silence(name)
        super().Shutdown()

    def Says(self, name: str, text: str) -> None:
        # Written anew under another name, so that nobody reads half of it.
        self.node.Write(f"/{name}.new", text)
        os.rename(self.node.Path(f"/{name}.new"), self.node.Path(f"/{name}.says"))

    def SwitchOn(self, name: str) -> None:
        self.Says(name, '{"powered": true}')
        self.sockets[name] = socket.create_server((self.addresses[name], constants.DEFAULT_NODED_PORT))

    def Silence(self, name: str) -> None:
        self.sockets.pop(name).close()

    def SwitchOff(self, name: str) -> None:
        self.Says(name, '{"powered": false}')
        self.Silence(name)

    def Change(self, name: str, **values: Any) -> None:
        found = next(node for node in self.snapshot.nodes.values() if node.name == name)
        self.snapshot = self.snapshot.WithObject(found.Replace(**values))

    def Asked(self) -> list[str]:
        try:
            return self.node.Read("/log").replace(".example.org", "").splitlines()
        except FileNotFoundError:
            return []

    def Submitted(self, op_id: str) -> list[dict[str, Any]]:
        return [op for ops in self.submitted for op in ops if op["OP_ID"] == op_id]

    # --- what the master daemon does ----------------------------------------------------------------------------------

    def _SubmitJob(self, ops: list[dict[str, Any]]) -> int:
        for op in ops:
            if op["OP_ID"] == "OP_INSTANCE_SHUTDOWN":
                self.running.discard(op["instance_name"])
            if op["OP_ID"] == "OP_OOB_COMMAND":
                self.results["OP_OOB_COMMAND"] = [[[[0, name], [0, None]] for name in op["node_names"]]]
            if op["OP_ID"] in self.then:
                self.then[op["OP_ID"]](op)
        return super()._SubmitJob(ops)

    def _Context(self) -> Any:
        context = super()._Context()
        for infos in context.instance_info.values():
            for name in list(infos):
                if name not in self.running:
                    del infos[name]
        return context

    def _Query(self, kind: str, fields: list[str], qfilter: Any) -> dict[str, Any]:
        if "oper_state" in fields and "oper_state" in self.then:
            self.then["oper_state"]({})
        return super()._Query(kind, fields, qfilter)

    def _QueryConfigValues(self, fields: list[str]) -> list[Any]:
        return [
            self.pause if name == "watcher_pause" else value
            for name, value in zip(fields, super()._QueryConfigValues(fields), strict=True)
        ]

    def _SetWatcherPause(self, until: float | None) -> Any:
        self.pauses.append(until)
        self.pause = until
        return until


class Scene:
    """The master node with its master; ``Epo`` runs the command to its end."""

    def __init__(self, node: VirtualNode, master: Power):
        self.node, self.master = node, master

    def Begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", STARTER, "gnt-cluster", "epo", *words], env=self.node.Environment(TZ="UTC"),
            cwd=self.node.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def Epo(self, *words: str) -> tuple[int, str, str]:
        process = self.Begin("-f", *words)
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err

    def Untouched(self) -> bool:
        """Return whether nothing was stopped, switched or paused."""
        return not self.master.submitted and not self.master.pauses


@pytest.fixture
def scene() -> Iterator[Scene]:
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="gnt-") as directory:
        node = VirtualNode(directory, NODE1)
        node.Write("/var/lib/ganeti/ssconf_cluster_name", "cluster.example.org\n")
        node.Write("/var/lib/ganeti/ssconf_master_node", NODE1 + "\n")
        lease = allocator.Lease()
        master = Power(node, lease)
        yield Scene(node, master)
        master.Shutdown()
        lease.Release()


def _Off(master: Power) -> None:
    """Let the job of the master switch its nodes off."""

    def switch(op: dict[str, Any]) -> None:
        for name in op["node_names"]:
            master.SwitchOff(name)

    master.then["OP_OOB_COMMAND"] = switch


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--oob-timeout=900"], "cannot be given 900 seconds; 1 to 840"),
        (["--oob-timeout=0"], "cannot be given 0 seconds; 1 to 840"),
        (["--power-delay=-1"], "A delay of -1 seconds between nodes is not possible"),
        (["--shutdown-timeout=-1"], "cannot be given -1 seconds to shut down"),
    ],
)
def test_options_are_checked_first(scene: Scene, words: list[str], match: str) -> None:
    code, _, err = scene.Epo(*words, NODE2)
    assert code == 1 and match in err and scene.Untouched() and scene.master.Asked() == []


def test_options_reach_the_jobs(scene: Scene) -> None:
    _Off(scene.master)
    code, out, err = scene.Epo("--shutdown-timeout=77", "--power-delay=0.5", "--oob-timeout=55", NODE2, NODE3)
    assert code == 0, out + err
    stopped = scene.master.Submitted("OP_INSTANCE_SHUTDOWN")
    assert stopped and {op["timeout"] for op in stopped} == {77}
    [switched] = scene.master.Submitted("OP_OOB_COMMAND")
    assert (switched["timeout"], switched["power_delay"]) == (55, 0.5)


def test_nodes_that_no_program_switches_are_named_as_still_on(scene: Scene) -> None:
    scene.master.Change(NODE3, ndparams={"oob_program": ""})
    code, out, err = scene.Epo(NODE3)
    assert (
        code == 1
        and f"Not switched off, as they have no out-of-band program: {NODE3}.  Their instances are stopped" in err
    ), out
    assert f"'gnt-cluster epo --on {NODE3}'" in err
    assert scene.master.Submitted("OP_INSTANCE_SHUTDOWN") and not scene.master.Submitted("OP_OOB_COMMAND")


@pytest.mark.parametrize("broken", ["program", "answer"])
def test_nothing_is_stopped_while_a_controller_is_no_use(scene: Scene, broken: str) -> None:
    if broken == "program":
        os.chmod(scene.master.program, 0o644)
    else:
        scene.master.Says(NODE3, "busy")
    code, _, err = scene.Epo(NODE2, NODE3)
    assert code == 1 and scene.Untouched()
    assert f"Whether node {NODE3} is on is not known" in err and "Nothing was stopped or switched off" in err
    assert f"'gnt-node modify --node-parameters=oob_program= {NODE3}'" in err


def test_the_controller_and_not_the_record_says_what_is_off(scene: Scene) -> None:
    """A node is recorded as off and does not answer, but is on; another one is what is recorded."""
    master = scene.master
    for name in (NODE2, NODE3):
        master.Change(name, powered=False)
    master.Silence(NODE2)
    master.SwitchOff(NODE3)

    def switch(op: dict[str, Any]) -> None:
        for name in op["node_names"]:
            master.Says(name, '{"powered": false}')

    master.then["OP_OOB_COMMAND"] = switch
    code, out, err = scene.Epo(NODE2, NODE3)
    assert code == 0, out + err
    assert f"Node {NODE3} is already in desired power state, skipping" in out
    assert f"Node {NODE2} is recorded as powered off, but its controller says that it is on; it is switched off" in out
    assert [op["node_names"] for op in master.Submitted("OP_OOB_COMMAND")] == [[NODE2]]
    assert {op["instance_name"] for op in master.Submitted("OP_INSTANCE_SHUTDOWN")} == {
        "inst0.example.org", "inst1.example.org",
    }, "inst2 is on the node that is off"  # fmt: skip


def test_silence_is_not_off(scene: Scene) -> None:
    """The job cannot end and the nodes do not answer, but one is on."""
    master = scene.master
    master.statuses["OP_OOB_COMMAND"] = constants.JOB_STATUS_RUNNING

    def switch(_op: dict[str, Any]) -> None:
        master.SwitchOff(NODE2)
        master.Silence(NODE3)

    master.then["OP_OOB_COMMAND"] = switch
    process = scene.Begin("-f", "--all")
    timer = threading.Event()
    # Asked at first, before the job, and twice while it runs: the command did not believe the silence.
    while process.poll() is None and master.Asked().count("power-status node3") < 4:
        timer.wait(0.05)
    assert process.poll() is None
    master.Says(NODE3, '{"powered": false}')
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and "All these nodes are off.  Too few master candidates are left" in out, out + err


def test_a_node_that_stays_on_is_named(scene: Scene) -> None:
    master = scene.master

    def switch(_op: dict[str, Any]) -> None:
        master.SwitchOff(NODE2)
        master.Says(NODE3, "gone")

    master.then["OP_OOB_COMMAND"] = switch
    code, _, err = scene.Epo("--oob-timeout=5", NODE2, NODE3)
    assert code == 1 and f"Whether node {NODE3} is off is not known" in err and f"node {NODE2}" not in err
    assert "The watcher is paused until" in err and master.pause


def test_what_runs_again_keeps_the_nodes_on(scene: Scene) -> None:
    master = scene.master
    master.then["OP_INSTANCE_SHUTDOWN"] = lambda _: master.running.add("inst1.example.org")
    code, _, err = scene.Epo(NODE2, NODE3)
    assert code == 1 and f"These instances run, or may run: inst1.example.org (on {NODE2})\n" in err
    assert master.Submitted("OP_INSTANCE_SHUTDOWN") and not master.Submitted("OP_OOB_COMMAND")
    assert "The watcher is paused until" in err and f"'gnt-node modify --offline=yes {NODE2}'" in err


def test_the_pause_is_renewed_before_nodes_go_off(scene: Scene) -> None:
    """The pause is over while guests are stopped, and again while they are asked whether they run."""
    master = scene.master
    ends: list[float | None] = []

    def over(_op: dict[str, Any]) -> None:
        master.pause = None

    def asked(_op: dict[str, Any]) -> None:
        ends.append(master.pause)
        master.pause = None

    def switch(op: dict[str, Any]) -> None:
        ends.append(master.pause)
        for name in op["node_names"]:
            master.SwitchOff(name)

    master.then.update(OP_INSTANCE_SHUTDOWN=over, oper_state=asked, OP_OOB_COMMAND=switch)
    code, out, err = scene.Epo(NODE2, NODE3)
    assert code == 0, out + err
    assert len(ends) == 2 and all(ends), "the watcher was paused when the guests were down, and when the nodes went off"
    assert "The watcher is paused until" in err, "inst0 was stopped, and its node stays on"
    assert master.pause


def test_a_pause_that_nobody_needs_is_ended(scene: Scene) -> None:
    master = scene.master
    _Off(master)
    master.snapshot = master.snapshot.WithObject(
        next(i for i in master.snapshot.instances.values() if i.name == "inst0.example.org").Replace(admin_state="down")
    )
    code, out, err = scene.Epo(NODE2, NODE3)
    assert code == 0 and master.pauses[0] and master.pause is None and "paused" not in err, out + err


def test_an_interruption_leaves_word_of_the_pause(scene: Scene) -> None:
    master = scene.master
    master.statuses["OP_INSTANCE_SHUTDOWN"] = constants.JOB_STATUS_RUNNING
    submitted = threading.Event()
    master.then["OP_INSTANCE_SHUTDOWN"] = lambda _: submitted.set()
    process = scene.Begin("-f", NODE2)
    assert submitted.wait(SECONDS)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Waiting for job"):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode != 0 and re.search("The watcher is paused until .* 'gnt-cluster watcher continue'", err)


def test_without_a_pause_on_the_master_nothing_is_stopped(scene: Scene) -> None:
    master = scene.master
    full = "Could not set the watcher's pause on node1.example.org (No space left on device)"
    master.answers["SetWatcherPause"] = ["OpExecError", [full]]
    code, _, err = scene.Epo(NODE2)
    assert code == 1 and "No space left on device" in err and not master.submitted


def test_the_way_back_is_printed(scene: Scene) -> None:
    master = scene.master
    _Off(master)
    code, out, err = scene.Epo("--all")
    assert code == 0, out + err
    assert "Too few master candidates will be left for any job.  Keep the master node on" in err
    for name in (NODE2, NODE3):
        assert f"\n  {master.program} power-on {name}\n" in out
    assert "Do not use --no-voting" in out and f"'{master.program} power-off {NODE1}' switches it off" in out
    assert master.pause and "The watcher is paused until" in err, "the guests of the master are stopped, it is on"


def test_voters_that_are_off_already_are_missed(scene: Scene) -> None:
    _Off(scene.master)
    code, _, err = scene.Epo(NODE2)
    assert code == 0 and "Too few master candidates" not in err
    _, _, err = scene.Epo(NODE3)
    assert "Too few master candidates will be left for any job" in err


def test_the_question_says_what_will_happen(scene: Scene) -> None:
    process = scene.Begin("--all")
    _, err = process.communicate(timeout=SECONDS)
    assert f"To be switched OFF: {NODE2}, {NODE3}.\n" in err and f"Not to be switched: {NODE1}.\n" in err
    assert process.returncode == 1 and scene.Untouched()
    scene.master.Change(NODE2, offline=True)
    scene.master.Change(NODE3, powered=False)
    _, err = scene.Begin("--on").communicate(timeout=SECONDS)
    assert f"To be switched ON: {NODE3}.\n" in err and f"Not to be switched: {NODE1}, {NODE2}.\n" in err


def test_on_ends_the_pause_and_names_nodes_that_were_left_out(scene: Scene) -> None:
    master = scene.master
    master.pause = 4e9
    code, out, err = scene.Epo("--on")
    assert code == 0 and "The watcher's pause is ended" in out and master.pause is None, out + err
    master.Change(NODE3, offline=True)
    master.SwitchOff(NODE3)
    code, out, err = scene.Epo("--on")
    assert code == 1 and f"Node {NODE3} was left out, as it is marked offline" in err, out + err
