"""The programs that ask confd, as administrators run them; no master daemon runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import configs
from support.realcluster import RealCluster
from support.stories import STARTER
from support.virtualnode import TOP

from ganeti import objects

MAIN = "import sys\nfrom ganeti.tools.{} import Main\nsys.argv[0] = '{}'\nsys.exit(Main())"
CLIENT = MAIN.format("confd_client", "confd-client")
QUERY = MAIN.format("query_config", "query-config")


def _WithMirror(cluster: RealCluster) -> objects.Snapshot:
    """The cluster's configuration with one instance on a mirror between the first two nodes."""
    example = configs.Example()
    nodes = [node.uuid for node in cluster.nodes]
    web, disk = example.instances[configs.WEB], example.disks[configs.WEB_DISK]
    nics = [web.nics[0].Replace(ip="192.0.2.77", network=None, nicparams={})]
    return cluster.config.WithObject(web.Replace(primary_node=nodes[0], nics=nics)).WithObject(
        disk.Replace(nodes=nodes[:2], logical_id=[*nodes[:2], 11000, 3, 5, "secret-of-the-mirror"])
    )


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with RealCluster(3, candidates=2) as made:
        made[0].Write("/var/lib/ganeti/config.data", objects.ConfigText(_WithMirror(made)), 0o640)
        yield made


def _ListDrbd(cluster: RealCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return cluster[0].Python(STARTER, "gnt-node", "list-drbd", *words)


def test_list_drbd(cluster: RealCluster) -> None:
    cluster[0].StartConfd()
    done = _ListDrbd(cluster, "node2.example.com")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Node              Minor Instance        Disk   Role      PeerNode         ",
        "node2.example.com     5 web.example.org disk/0 secondary node1.example.com",
    ]
    done = _ListDrbd(cluster, "--no-headers", "--separator=,", "node1")
    assert done.stdout == "node1.example.com,3,web.example.org,disk/0,primary,node2.example.com\n"
    assert _ListDrbd(cluster, "--no-headers", "node3").stdout == ""
    unknown = _ListDrbd(cluster, "nobody")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr == "Query gave non-ok status '1': Unknown node 'nobody'\n"


@pytest.mark.req("D21-CONFD-03")
def test_without_a_daemon_everybody_says_so(cluster: RealCluster) -> None:
    # Side by side: each waits as long as a reply may take.
    with ThreadPoolExecutor() as pool:
        listed = pool.submit(_ListDrbd, cluster, "node2.example.com")
        checked = pool.submit(cluster[0].Python, CLIENT)
        queried = pool.submit(cluster[0].Python, QUERY, "/cluster/cluster_name")
    assert listed.result().returncode == 1
    assert re.search("ganeti-confd did not reply at .*daemon-util start ganeti-confd", listed.result().stderr)
    assert checked.result().returncode == 1
    assert f"ping: ganeti-confd did not reply at {cluster[0].address}" in checked.result().stderr
    assert (queried.result().returncode, queried.result().stdout) == (1, "")
    assert "did not reply" in queried.result().stderr


def test_confd_client(cluster: RealCluster) -> None:
    cluster[0].StartConfd()
    done = cluster[0].Python(CLIENT, "-r", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:-2]] == [
        "- ping",
        "- master",
        "- master",
        "- role of a node",
        "- primary addresses of nodes",
        "- primary addresses of master candidates",
        "- addresses of instances",
        "- primary address of an instance's node",
    ]
    assert lines[2] == f"- master: OK (node1.example.com, {cluster.config.cluster.master_ip}, {cluster[0].address})"
    assert lines[6] == "- addresses of instances: OK (192.0.2.77)"
    assert re.fullmatch(r"  \* \d+\.\d{3}ms per ping request", lines[-2])
    assert re.fullmatch(r"  \* \d+\.\d{3}ms per instance-ip request", lines[-1])
    assert len(cluster[0].Python(CLIENT, "--requests=0", "-a", cluster[0].address).stdout.splitlines()) == 8
    # A wrong key gets no answer; see the daemon's log.
    wrong = cluster[0].Python(CLIENT, "--hmac=wrong")
    assert wrong.returncode == 1 and "did not reply" in wrong.stderr
    assert "signature 1" in cluster[0].Log("ganeti-confd")
    named = cluster[0].Python(CLIENT, "--address=localhost")
    assert named.returncode == 1 and "'localhost' does not appear to be an IPv4 or IPv6 address" in named.stderr
    assert cluster[0].Python(CLIENT, "word").returncode == 2
    assert cluster[0].Python(CLIENT, "--version").stdout.startswith("confd-client (ganeti) ")


def test_the_shell_example_of_the_page(cluster: RealCluster) -> None:
    text = Path(TOP, "doc", "confd.rst").read_text("utf-8")
    script = text[text.index("The same with a shell") :].split("::\n\n", 1)[1].split("\n\n", 1)[0]
    for place, here in (
        ("/var/lib/ganeti", cluster[0].Path("/var/lib/ganeti")),
        ("127.0.0.1", cluster[0].address),
    ):
        assert place in script
        script = script.replace(place, here)
    cluster[0].StartConfd()
    done = cluster[0].Run(["sh", "-c", script])
    assert '\\"answer\\":\\"node1.example.com\\"' in done.stdout, done


def test_query_config(cluster: RealCluster) -> None:
    cluster[0].StartConfd()
    paths = [
        "/cluster/cluster_name",
        "/cluster/nothing",
        "/cluster/enabled_hypervisors",
        f"/disks/{configs.WEB_DISK}/logical_id/5",
    ]
    done = cluster[0].Python(QUERY, *paths)
    assert (done.returncode, done.stderr) == (0, "")
    width = max(map(len, paths))
    answers = ["cluster.example.com", "2", '["fake"]', "<redacted>"]
    assert done.stdout == "".join(
        f"{path.ljust(width)}\t{answer}\n" for path, answer in zip(paths, answers, strict=True)
    )
    none = cluster[0].Python(QUERY)
    assert none.returncode == 2 and none.stderr.startswith("Usage: query-config [options] PATH...")
