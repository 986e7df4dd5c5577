"""A running cluster of the original is taken over while its instances run, and given back (doc/adopting.rst).

The original is a stand-in of its command lines (support.original); everything of this release is real.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from support import original
from support.original import DATA, OriginalCluster
from support.realcluster import FollowJob, WaitUntil

from ganeti import upgrade

TAKE_OVER = ("--take-over", "--yes-do-it", "--change-owners")
REVERT = ("--revert", "--yes-do-it")
# Steps of the take-over by the line that says that they begin, and whether the next run goes on or back.
CUTS = (
    ("let no further", True),
    ("stop the", True),
    ("stop the", False),
    ("start the master", False),
    ("compare", True),
)


def Daemons(cluster: OriginalCluster) -> set[str]:
    """Whose programs run."""
    found = set()
    for pid in cluster.Processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue  # it has ended
        for word in words:
            if os.path.basename(word).startswith("ganeti-"):
                found.add("original" if word.startswith(cluster.prefix) else "ours")
    return found


def Runs(cluster: OriginalCluster, whose: str) -> None:
    """Only these daemons run; a process that served a last connection may end after its daemon."""
    WaitUntil(lambda: Daemons(cluster) == {whose}, f"only daemons of {whose}")


def IsAsBefore(cluster: OriginalCluster, owners: dict[str, tuple[int, int, int]], guests: object) -> None:
    """The original runs, reads what it wrote, and everything belongs to whom it belonged."""
    Runs(cluster, "original")
    assert cluster.Guests() == guests
    after = cluster.Owners()
    changed = {
        path: (owners.get(path), after.get(path)) for path in owners.keys() | after.keys() if "/queue/" not in path
    }
    assert {path: pair for path, pair in changed.items() if pair[0] != pair[1]} == {}
    for number, node in enumerate(cluster.nodes):
        assert cluster.ConfigOf(number)["version"] == upgrade.V3_0
        assert not os.path.exists(node.Path(f"{DATA}/queue/drain"))
        assert not os.path.exists(node.Path(f"{DATA}/watcher.pause"))
        assert "/usr/sbin/ganeti-watcher" in node.Read("/etc/cron.d/ganeti")
        assert node.Read(f"{DATA}/ssconf_release_version") == original.VERSION + "\n"


@pytest.mark.limit(300)
def test_there_and_back_while_instances_run() -> None:
    with OriginalCluster(3) as cluster:
        cluster.StartOriginal()
        owners, guests = cluster.Owners(), cluster.Guests()

        code, text = cluster.Adopt()
        assert code == 0, text
        assert "3 nodes, 4 instances" in text
        assert "Nothing stands in the way" in text
        assert f"{cluster.uid}:root 0640 becomes root:root 0640" in text or cluster.uid == os.geteuid()
        assert cluster.Owners() == owners  # nothing was changed

        code, text = cluster.Adopt(*TAKE_OVER)
        assert code == 0, text
        Runs(cluster, "ours")
        assert cluster.Guests() == guests
        with cluster[0].Client() as client:
            rows = client.Query("instance", ["name", "status"])["data"]
            assert [[value for _, value in row] for row in rows] == [
                [f"inst{number}.example.com", "ADMIN_down" if number % 2 else "running"] for number in range(4)
            ]
            job = client.SubmitJob([{"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "reason": []}])
            assert FollowJob(client, job)[0] == "success"
        code, text = cluster.Adopt("--take-over")
        assert (code, text) == (0, "The cluster belongs to this release.\n")

        code, text = cluster.Adopt(*REVERT)
        assert code == 0, text
        IsAsBefore(cluster, owners, guests)
        # The job of the time between is one of the original's now.
        found = os.lstat(cluster[0].Path(f"{DATA}/queue/job-{job}"))
        assert found.st_uid == cluster.uid


@pytest.mark.limit(300)
@pytest.mark.parametrize(("step", "onwards"), CUTS)
def test_cut_off_in_a_step_and_run_again(step: str, onwards: bool) -> None:
    """Killed when a step begins: another run finishes it, and everything can still be given back."""
    with OriginalCluster(2, 2) as cluster:
        cluster.StartOriginal()
        owners, guests = cluster.Owners(), cluster.Guests()
        with cluster.Begin(*TAKE_OVER) as running:
            assert running.stdout is not None
            assert any(line.startswith(f"* {step}") for line in running.stdout)
            if not onwards:  # in the middle of the step: the original has been stopped somewhere
                WaitUntil(lambda: any(note.endswith("stop-all") for note in cluster.Notes()), "a stop of the original")
            running.send_signal(signal.SIGKILL)
        code, text = cluster.Adopt()
        assert code == 1, text
        assert "was interrupted" in text
        if onwards:
            code, text = cluster.Adopt(*TAKE_OVER)
            assert code == 0, text
            Runs(cluster, "ours")
            assert cluster.Guests() == guests
        code, text = cluster.Adopt(*REVERT)
        assert code == 0, text
        IsAsBefore(cluster, owners, guests)


@pytest.mark.limit(200)
def test_a_step_that_fails_is_taken_back_with_all_before_it() -> None:
    """A node is lost while the daemons of the original stop: the cluster runs the original again, and says what was wrong."""
    with OriginalCluster(2, 2) as cluster:
        cluster.StartOriginal()
        owners, guests = cluster.Owners(), cluster.Guests()
        mark = Path(cluster.prefix, "fails-stop-all-node2.example.com")
        mark.touch()
        code, text = cluster.Adopt(*TAKE_OVER)
        assert code == 1
        assert "node2.example.com" in text
        assert "the cluster runs the original again" in text
        IsAsBefore(cluster, owners, guests)
        mark.unlink()
        assert cluster.Adopt(*TAKE_OVER)[0] == 0


@pytest.mark.limit(200)
def test_what_stands_in_the_way_is_named_and_nothing_is_changed() -> None:
    with OriginalCluster(2, 2) as cluster:
        data = cluster.original_config
        first = min(data["instances"].values(), key=lambda item: item["name"])
        first["hypervisor"] = "xen-pvm"
        cluster[0].Write(f"{DATA}/config.data", json.dumps(data), 0o640)
        owners = cluster.Owners()
        Path(cluster.prefix, "unreachable-node2.example.com").touch()
        code, text = cluster.Adopt(*TAKE_OVER)
        assert code == 1
        assert "The hypervisor xen-pvm of inst0.example.com is not supported" in text
        assert "Node node2.example.com did not reply" in text
        assert "no route to host" in text
        assert "The original's master does not answer" in text
        assert cluster.Owners() == owners
        code, text = cluster.Adopt("--revert", "--yes-do-it")
        assert code == 1
        assert "was not taken over by this program" in text
        code, text = cluster.Adopt(node=1)
        assert code != 0
        assert "the master is node1.example.com" in text


@pytest.mark.limit(200)
def test_a_node_that_was_offline_follows_and_what_only_we_have_keeps_the_original_away() -> None:
    with OriginalCluster(3, 2) as cluster:
        data = cluster.original_config
        away = next(node for node in data["nodes"].values() if node["name"] == cluster[2].name)
        away.update(offline=True, master_candidate=False)
        for node in cluster.nodes:
            node.Write(f"{DATA}/config.data", json.dumps(data), 0o640)
            os.chown(node.Path(f"{DATA}/config.data"), cluster.uid, -1)
        cluster.StartOriginal()
        code, text = cluster.Adopt(*TAKE_OVER)
        assert code == 0, text
        assert "Node node3.example.com is offline and stays as it is" in text
        code, text = cluster.Adopt("--take-over")
        assert code == 0, text
        Runs(cluster, "ours")
        assert cluster[2].Pid("ganeti-noded")
        with cluster[0].Client() as client:
            change = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "ipolicy": {"memory-ratio": 1.5}, "reason": []}
            assert FollowJob(client, client.SubmitJob([change]))[0] == "success"
        code, text = cluster.Adopt(*REVERT)
        assert code == 1
        assert "'gnt-cluster modify --ipolicy-memory-ratio default'" in text
        Runs(cluster, "ours")


@pytest.mark.limit(300)
def test_a_node_that_is_away_while_the_cluster_is_given_back_follows() -> None:
    """What its machine starts must not stay ours, and its old files must not keep it from going back."""
    with OriginalCluster(3, 2) as cluster:
        cluster.StartOriginal()
        code, text = cluster.Adopt(*TAKE_OVER)
        assert code == 0, text
        unreachable = Path(cluster.prefix, "unreachable-node3.example.com")
        unreachable.touch()
        with cluster[0].Client() as client:
            away = {
                "OP_ID": "OP_NODE_SET_PARAMS",
                "node_name": cluster[2].name,
                "offline": True,
                "force": True,
                "reason": [],
            }
            assert FollowJob(client, client.SubmitJob([away]))[0] == "success"
        code, text = cluster.Adopt(*REVERT)
        assert code == 0, text
        assert "Nodes that still have this release: node3.example.com. When they are up again" in text
        code, text = cluster.Adopt(*TAKE_OVER)
        assert code == 1
        assert "--revert' gives back those that are up" in text  # its copy of the state is of another line
        code, text = cluster.Adopt(*REVERT)
        assert code == 1
        assert "Node node3.example.com did not reply and stays as it is" in text
        unreachable.unlink()
        assert cluster[2].Pid("ganeti-noded")
        code, text = cluster.Adopt()
        assert "Nodes that still have this release: node3.example.com" in text
        code, text = cluster.Adopt(*REVERT)
        assert code == 0, text
        assert "'gnt-node add --readd node3.example.com'" in text
        Runs(cluster, "original")
        assert "/usr/sbin/ganeti-watcher" in cluster[2].Read("/etc/cron.d/ganeti")
        for name in ("ext", "adoption-node.json"):
            assert not os.path.exists(cluster[2].Path(f"{DATA}/{name}"))
        assert not os.path.exists(cluster[0].Path(f"{DATA}/adoption.json"))


@pytest.mark.limit(200)
def test_a_cluster_that_this_release_made_is_not_sent_to_an_original() -> None:
    """It would be told to stop its daemons, and to start another master."""
    with OriginalCluster(1, 0) as cluster:
        cluster.StartOriginal()
        code, text = cluster.Adopt(*TAKE_OVER)
        assert code == 0, text
        os.unlink(cluster[0].Path(f"{DATA}/adoption.json"))
        for words in ((), TAKE_OVER):
            assert cluster.Adopt(*words) == (0, "The cluster belongs to this release.\n")
        Runs(cluster, "ours")


@pytest.mark.limit(200)
@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users need root")
def test_other_users_are_asked_about() -> None:
    with OriginalCluster(1, 0) as cluster:
        cluster.StartOriginal()
        code, text = cluster.Adopt("--take-over")  # nobody answers
        assert code == 1
        assert "would belong to other users than now" in text
        code, text = cluster.Adopt("--take-over", "--yes-do-it")
        assert code == 1
        assert "--change-owners" in text
        Runs(cluster, "original")
