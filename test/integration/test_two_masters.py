"""An old master comes back: what it says, what its administrator can do with it, and how it is taken back."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support import joining
from support.joining import Command
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

MASTERD = "ganeti-masterd"
CERTS = "/var/lib/ganeti/ssconf_master_candidates_certs"
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": True, "reason": []}


def Tool(node: RealNode, module: str, *words: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    return node.Run([sys.executable, "-c", f"import sys; from ganeti.tools.{module} import Main; sys.exit(Main())", *words],
                    timeout=timeout)  # fmt: skip


def Words(text: str) -> str:
    return " ".join(text.split())


def Printed(text: str, begin: str) -> list[str]:
    """The words of the command that a message prints between quotes."""
    return text[text.index(f"'{begin}") + 1 :].partition("'")[0].split()


def Forced(words: list[str]) -> list[str]:
    """The same command for a place without a terminal."""
    return [*words[:2], "--force", *words[2:]]


def Works(node: RealNode) -> None:
    with node.Client() as client:
        assert FollowJob(client, client.SubmitJob([DELAY]))[0] == "success"


def Halt(node: RealNode) -> None:
    """Let the node's master daemon stand still between two transactions: in one, its node daemon would wait for it."""
    pid = node.Pid(MASTERD)

    def stands_still() -> bool:
        tasks = Path(f"/proc/{pid}/task").glob("*/stat")
        try:
            return all(task.read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)
        except ProcessLookupError:
            return False  # a thread has just ended

    def halted() -> bool:
        os.kill(pid, signal.SIGSTOP)
        WaitUntil(stands_still, "it stands still")
        copy = sqlite3.connect(node.Path("/var/lib/ganeti/ext/store.db"), timeout=0, isolation_level=None)
        try:
            copy.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            os.kill(pid, signal.SIGCONT)
            return False
        finally:
            copy.close()
        return True

    WaitUntil(halted, "it stands still between two transactions")


def LoseTheOldMaster(cluster: RealCluster) -> tuple[RealNode, RealNode, RealNode]:
    """node2, once the master, loses its power; node1 takes over and marks it offline: its certificate is withdrawn."""
    new, old, third = cluster.nodes
    cluster.StartNodeDaemons()
    new.StartMaster()
    new.Stop(MASTERD)
    old.StartMaster("--take-over")
    cluster.CutPower(old)
    new.StartMaster("--take-over")
    done = Command(new, "gnt-node", "modify", "--offline", "yes", "--auto-promote", old.name)
    assert done.returncode == 0, done.stderr
    WaitUntil(lambda: all(old.uuid not in node.Read(CERTS) for node in (new, third)), "the certificate is withdrawn")
    return new, old, third


@pytest.mark.limit(200)
def test_an_old_master_that_was_marked_offline_is_not_led_into_a_second_one() -> None:
    with RealCluster(3) as cluster:
        new, old, third = LoseTheOldMaster(cluster)
        # Its copy is emptied as soon as the new master reaches it; here it starts before that.  (A master daemon that was
        # only stopped might hold a lock that its node daemon needs.)
        new.Kill(MASTERD)
        old.StartNoded()
        names = f"{new.name}, {third.name}"
        refused = old.StartMaster(check=False)
        assert refused.returncode == 11
        assert f"{names} rejected this node's certificate" in refused.stderr
        assert "--no-voting" not in refused.stderr
        # The same for whoever tries harder, whatever options he knows.
        forced = old.StartMaster("--no-voting", "--yes-do-it", check=False)
        assert forced.returncode == 11
        assert f"{names} rejected this node's certificate" in forced.stderr and "--without" not in forced.stderr
        one = old.StartMaster("--no-voting", "--yes-do-it", "--without", new.name, check=False)
        assert one.returncode == 11 and f"beside {third.name}" in one.stderr
        assert old.Pid(MASTERD) == 0
        failover = Command(old, "gnt-cluster", "master-failover")
        assert failover.returncode == 1 and "is the master already" not in failover.stderr
        assert "rejected this node's certificate" in Words(failover.stderr)
        assert "--no-voting" not in failover.stderr
        # It asks in plain words, even where it was told not to; nobody is there to answer.
        asked = Command(old, "gnt-cluster", "master-failover", "--no-voting", "--yes-do-it")
        assert asked.returncode == 1 and "Nothing was changed" in asked.stderr
        assert old.Pid(MASTERD) == 0
        new.StartMaster()
        # What the message says leads back: where the master is, and there the command that takes the node back.
        assert Command(new, *Printed(refused.stderr, "gnt-cluster getmaster")).stdout.strip() == new.name
        back = Command(new, *Forced(Printed(refused.stderr, "gnt-node modify")))
        assert back.returncode == 0, back.stderr
        Works(new)
        with new.Client() as client:
            assert client.QueryNodes([old.name], ["offline", "master_candidate"]) == [[False, True]]
        # It is a candidate like any other, and may be made master in the regular way.
        told = old.StartMaster(check=False)
        assert told.returncode == 11 and new.name in told.stderr


@pytest.mark.limit(200)
def test_a_second_master_made_by_force_loses_and_its_node_is_taken_back_with_printed_commands() -> None:
    with RealCluster(3) as cluster:
        new, old, third = LoseTheOldMaster(cluster)
        new.Signal(MASTERD, signal.SIGSTOP)
        old.StartNoded()
        # Somebody names every running node, and so says that none of them can belong to another master.
        force = ("--no-voting", "--yes-do-it", "--without", f"{new.name},{third.name}")
        old.StartMaster(*force)
        old.Stop(MASTERD)
        old.StartMaster(*force)  # its epoch is above that of the other master now, by number
        Works(old)
        new.Signal(MASTERD, signal.SIGCONT)
        Works(new)
        back = Command(new, "gnt-node", "modify", "--offline", "no", "--force", old.name)
        assert back.returncode == 1
        text = Words(back.stderr)
        assert f"node {old.name} follows another master, {old.name} (epoch 4." in text
        Works(new)
        # The restart that the message asks for: the stray master ends by itself.
        assert "stop-master" in text and "start-master" in text
        stray = old.Pid(MASTERD)
        assert Tool(new, "daemon_util", "stop-master").returncode == 0
        assert Tool(new, "daemon_util", "start-master").returncode == 0
        WaitUntil(lambda: old.Pid(MASTERD) != stray, "the stray master ends")
        again = Command(new, "gnt-node", "modify", "--offline", "no", "--force", old.name)
        assert again.returncode == 0, again.stderr
        Works(new)
        with new.Client() as client:
            assert client.QueryNodes([old.name], ["offline", "master_candidate"]) == [[False, True]]


@pytest.mark.limit(200)
def test_an_old_master_that_was_removed_is_cleaned_up_and_added_again() -> None:
    with RealCluster(3) as cluster:
        new, old, _ = LoseTheOldMaster(cluster)
        gone = Command(new, "gnt-node", "remove", old.name)
        assert gone.returncode == 0, gone.stderr
        old.StartNoded()
        refused = old.StartMaster(check=False)
        assert refused.returncode != 0
        text = refused.stderr
        assert "--no-voting" not in text
        # It depends on how far its own exporter is: its files may already name the new master.
        assert "node-cleanup --yes-do-it" in text or f"is not the master: {new.name} is" in text
        assert Tool(old, "node_cleanup", "--yes-do-it").returncode == 0
        with open(os.path.join(cluster.base, "hosts"), "a", encoding="utf-8") as stream:
            stream.write(f"{old.address} {old.name}\n")  # its name went with the node
        joining.SetUp(new, old)
        assert not os.path.exists(old.Path("/var/lib/ganeti/ext/store.db"))
        old.StartNoded()
        with new.Client() as client:
            add = {"OP_ID": "OP_NODE_ADD", "node_name": old.name, "node_setup": False, "reason": []}
            assert FollowJob(client, client.SubmitJob([add]))[0] == "success"
        Works(new)


@pytest.mark.limit(200)
def test_a_node_that_still_is_a_candidate_hears_who_the_newer_master_is() -> None:
    with RealCluster(3) as cluster:
        old, new, _ = cluster.nodes
        cluster.StartNodeDaemons()
        old.StartMaster()
        Works(old)
        cluster.CutPower(old)
        new.StartMaster("--take-over")
        Works(new)
        Halt(new)  # it would bring the files of the old one up to date
        old.StartNoded()
        refused = old.StartMaster(check=False)
        assert refused.returncode == 11
        assert f"node {new.name} runs the master daemon (epoch 2." in refused.stderr
        new.Signal(MASTERD, signal.SIGCONT)
        # The printed way to make it the master again works, though its files named it all the time.
        assert f"gnt-cluster master-failover, on {old.name}" in refused.stderr
        done = Command(old, "gnt-cluster", "master-failover", "--ignore-offline-nodes=no", timeout=150)
        assert done.returncode == 0, done.stderr
        Works(old)
        WaitUntil(lambda: not new.Pid(MASTERD), "the other one ends")
